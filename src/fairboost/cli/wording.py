"""Advice of the library, which speaks of Python, in words of the command line."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from fairboost.report.evidence import Evidence

SAID: tuple[tuple[str, str], ...] = (
    (r"\(n_estimators\)", "(--option n_estimators=N)"),
    (r"\b(?:operating_point=)?at_(fpr|tpr)\((\S+?)\)", r"--at-\1 \2"),
    (r"\b(?:operating_point=|threshold=)?at_positive_rate\((\S+?)\)", r"--at-positive-rate \1"),
    (r"\bthreshold=(?=\d)", "--threshold "),
    (r"holdout='cross'", "--holdout-share cross"),
    (r"holdout='auto' reads them on rows held out", "--holdout-share reads them on rows held out"),
    (r"(?:\b[Xy] of )?(?<!['\w])holdout_set(?!['\w])", "--holdout file"),
    (r"\bmin_group_rows=", "--min-group-rows "),
    (r"\bmin_group_rows\b", "--min-group-rows"),
    (r"parity\(\.\.\., reference='?(.*?)'?\)(?= names)", r"--reference \1"),
    (r"\bminimax\('(\w+)'\)", r"--minimax \1"),
    (r"\bminimax\(\.\.\.\)", "--minimax"),
    (r"\bbound\('(\w+)', ([\d.]+)\)(?:, to the list of constraints)?", r"--budget \1=\2"),
    (r"\bat_least\('(\w+)', ([\d.]+)\)", r"--at-least \1=\2"),
    (r"^confidence=", "--confidence "),
    (r"\bLeave confidence out\b", "Leave --confidence out"),
    (r"\bSet (?=--at-)", "Pass "),
    (r"\bpos_label=", "--positive "),
    (r"; if equal opportunity is meant, write constraint=parity\('fnr'\)$", "."),
    (r"\bconstraint='(\w+)'", r"--constraint \1"),
    (r"\bTo protect them write\b", "To protect them pass"),
    (r"(?<!['\w])sample_weight(?= (must|is)\b)", "--weight"),
    (r"(?<!['\w])sensitive_features(?!['\w])", "--sensitive"),
    (
        r"\btolerance=(\S+) is larger than the range of y\b",
        r"--tolerance \1 is larger than the "
        "range of the label",
    ),
    (
        r"write parity\('(?:prediction|loss)', (\S+), relative=True\)",
        r"pass --tolerance \1 --relative",
    ),
    (r"^exposure (?=multiplies)", "--exposure "),
    (
        r"use objective='poisson', 'gamma' or 'tweedie', or leave exposure out",
        "use --objective poisson, gamma or tweedie, or leave --exposure out",
    ),
    (r"\bpass quantile_alpha=", "pass --option quantile_alpha="),
    (r"fairboost\.metrics\.threshold_at places the threshold on", "train again on"),
    (r"use iterate='last', or boosting_type='gbdt'.*", "leave --option boosting_type=dart out"),
)
"""What the library says, as a pattern, and what to say instead."""


def in_commands(text: str) -> str:
    """A message for someone who has a command line, and no Python.

    Parameters
    ----------
    text : str
        What the library says.

    Examples
    --------
    >>> in_commands("choose another point, such as operating_point=at_positive_rate(0.25).")
    'choose another point, such as --at-positive-rate 0.25.'
    """
    for said, instead in SAID:
        text = re.sub(said, instead, text)
    return text


def evidence_in_commands(evidence: Evidence) -> Evidence:
    """The same figures, with advice on options of commands."""
    advice = tuple(map(in_commands, evidence.warnings))
    return replace(evidence, warnings=advice, caution=in_commands(evidence.caution))
