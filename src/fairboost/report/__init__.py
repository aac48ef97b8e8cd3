"""From a fitted model to a report that a reviewer can read."""

from fairboost.report.evidence import Evidence

__all__ = ["Evidence"]
