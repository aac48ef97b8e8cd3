"""Data to try things on: a generator with known unfairness, and readers for real tables."""

from __future__ import annotations

from fairboost.datasets.files import Table, available, load
from fairboost.datasets.loans import Loans, make_loans

__all__ = ["Loans", "Table", "available", "load", "make_loans"]
