"""LightGBM behind the port."""
