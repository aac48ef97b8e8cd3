"""Gradient boosted trees under fairness constraints."""

__version__ = "0.1.0.dev0"
