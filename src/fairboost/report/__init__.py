"""From a fitted model to a report that a reviewer can read."""

from fairboost.report.evidence import Evidence
from fairboost.report.gather import gather

__all__ = ["Evidence", "gather"]
