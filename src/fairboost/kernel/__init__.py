"""The pass over rows: the only code whose time grows with them."""
