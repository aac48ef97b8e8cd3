"""Example data: generators with known unfairness, and readers for real tables."""

from __future__ import annotations

from fairboost.datasets.account_openings import AccountOpenings, make_account_opening
from fairboost.datasets.files import Table, available, load
from fairboost.datasets.loans import Loans, make_loans
from fairboost.datasets.on_disk import ParquetRows

__all__ = [
    "AccountOpenings",
    "Loans",
    "ParquetRows",
    "Table",
    "available",
    "load",
    "make_account_opening",
    "make_loans",
]
