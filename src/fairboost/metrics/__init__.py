"""Rates by group, gaps and ratios between groups, each with an interval."""

from fairboost.metrics.classes import ClassAudit, audit_classes
from fairboost.metrics.group_metrics import Audit, audit, audit_sums, gap, group_rates, ratio
from fairboost.metrics.intervals import Estimate
from fairboost.metrics.numbers import NumberAudit, audit_numbers
from fairboost.metrics.scorers import (
    ClassScorer,
    FairnessScorer,
    NumberScorer,
    a_over_e_scorer,
    distance_scorer,
    gap_scorer,
    loss_scorer,
    ratio_scorer,
)
from fairboost.metrics.thresholds import ChosenThreshold, fpr_at_tpr, threshold_at, tpr_at_fpr

__all__ = [
    "Audit",
    "ChosenThreshold",
    "ClassAudit",
    "ClassScorer",
    "Estimate",
    "FairnessScorer",
    "NumberAudit",
    "NumberScorer",
    "a_over_e_scorer",
    "audit",
    "audit_classes",
    "audit_numbers",
    "audit_sums",
    "distance_scorer",
    "fpr_at_tpr",
    "gap",
    "gap_scorer",
    "group_rates",
    "loss_scorer",
    "ratio",
    "ratio_scorer",
    "threshold_at",
    "tpr_at_fpr",
]
