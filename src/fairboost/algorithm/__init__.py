"""Algorithm 1 of the paper: the game, its multipliers, and the record it leaves."""
