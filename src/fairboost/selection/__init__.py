"""Which model to keep: a trade-off curve, or a search over options."""
