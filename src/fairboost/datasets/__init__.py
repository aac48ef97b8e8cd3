"""Data to try things on: generators with known unfairness, and readers for real tables."""

from __future__ import annotations

from fairboost.datasets.account_openings import AccountOpenings, make_account_opening
from fairboost.datasets.files import Table, available, load
from fairboost.datasets.loans import Loans, make_loans

__all__ = [
    "AccountOpenings",
    "Loans",
    "Table",
    "available",
    "load",
    "make_account_opening",
    "make_loans",
]
