"""Random search that can be interrupted and shared: spaces, trials, choice among them."""
