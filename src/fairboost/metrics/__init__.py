"""Rates by group, gaps and ratios between groups, each with an interval.

The functions are in :mod:`fairboost.metrics.group_metrics` and
:mod:`fairboost.metrics.thresholds`. They are imported when they are first used: training needs
intervals alone.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from fairboost.metrics.group_metrics import Audit, audit, audit_sums, gap, group_rates, ratio
    from fairboost.metrics.intervals import Estimate
    from fairboost.metrics.thresholds import (
        ChosenThreshold,
        fpr_at_tpr,
        threshold_at,
        tpr_at_fpr,
    )

__all__ = [
    "Audit",
    "ChosenThreshold",
    "Estimate",
    "audit",
    "audit_sums",
    "fpr_at_tpr",
    "gap",
    "group_rates",
    "ratio",
    "threshold_at",
    "tpr_at_fpr",
]


def __getattr__(name: str) -> Any:
    """Import a name when it is first used."""
    if name not in __all__:
        raise AttributeError(f"module 'fairboost.metrics' has no attribute {name!r}")
    return getattr(import_module("fairboost.metrics.group_metrics"), name)
