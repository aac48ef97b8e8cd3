"""A stage of few weights: the base model's log-odds, tilted by learned memberships."""
