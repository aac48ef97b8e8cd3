"""Tables of the package to lines of evidence."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any, Literal, cast

import numpy as np
import pandas as pd

from fairboost.fairness.label_moments import MEAN_LABEL, MEAN_PROBABILITY
from fairboost.metrics.score_bins import ScoreBins
from fairboost.report.evidence import Calibration, FourFifths, Gap, GroupRate, Roc, ScoreCounts
from fairboost.verdicts.diagnostics import decides_little
from fairboost.verdicts.verdict import status_of

CHOSEN, PLAIN = "chosen", "plain"
"""Names of the models that are compared."""

DECISION_RATES = {"positive": "ppr", "negative": "pnr"}
"""The rate of favourable decisions, by which decisions are favourable."""

CALIBRATED_RATES = {"prediction": MEAN_PROBABILITY.title, "actual": MEAN_LABEL.title}
"""Where probabilities are to be calibrated: figures of numbers, by what they are of labels."""

FOUR_FIFTHS = 0.8
"""A group's share of favourable decisions over that of the best off, at least."""


def rate_lines(
    table: pd.DataFrame, columns: Collection[str], model: str = CHOSEN, where: str = "test"
) -> tuple[GroupRate, ...]:
    """Rates by group, as evidence.

    Parameters
    ----------
    table : pandas.DataFrame
        As from :func:`fairboost.metrics.group_rates`; a column ``small`` flags small groups.
    columns : collection of str
        The sensitive columns, and crossings that constraints are about; groups by anything else
        are flagged as crossed.
    model, where : str
        Whose rates they are, and on which rows.
    """
    return tuple(
        GroupRate(
            where=where,
            model=model,
            **pick(line, "attribute", "group", "rate", "value", "low", "high"),
            rows=float(line["rows"]),
            small=bool(line.get("small", False)),
            crossed=line["attribute"] not in ("", *columns),
        )
        for line in table.to_dict("records")
    )


def gap_lines(
    table: pd.DataFrame,
    model: str = CHOSEN,
    favourable: Literal["positive", "negative"] = "positive",
) -> tuple[Gap, ...]:
    """Gaps and ratios between groups on the test rows, as evidence.

    Parameters
    ----------
    table : pandas.DataFrame
        ``gaps`` of :func:`fairboost.metrics.audit`.
    model : str
        Whose gaps they are.
    favourable : {"positive", "negative"}
        The decision that the four-fifths rule is about.
    """
    ruled = DECISION_RATES[favourable]
    ratios = ("ratio", "ratio_low", "ratio_high")
    return tuple(
        Gap(
            where="test",
            model=model,
            **pick(line, "attribute", "rate", "lowest_group", "highest_group"),
            **pick(line, "gap", "gap_low", "gap_high", *ratios),
            four_fifths=four_fifths(*(line[r] for r in ratios)) if line["rate"] == ruled else None,
        )
        for line in table.to_dict("records")
    )


def four_fifths(ratio: float, low: float, high: float) -> FourFifths | None:
    """Whether the least share of favourable decisions is four fifths of the largest.

    Parameters
    ----------
    ratio, low, high : float
        The ratio and its interval.

    Examples
    --------
    >>> four_fifths(0.9, 0.85, 0.95), four_fifths(0.5, 0.4, 0.6)
    ('passes', 'fails')
    >>> four_fifths(0.9, 0.7, 1.0)
    'passes on these rows, not certain'
    """
    if np.isnan(ratio):
        return None
    status = status_of(-ratio, -high, -low, -FOUR_FIFTHS)
    return cast(FourFifths, status.replace("not met", "fails").replace("met", "passes"))


def rates_at(
    rates: Iterable[GroupRate], attribute: str, rate: str, model: str = CHOSEN
) -> list[GroupRate]:
    """Those of a model on the test rows, by the groups of an attribute."""
    place = "test", model, attribute, rate
    return [r for r in rates if (r.where, r.model, r.attribute, r.rate) == place]


def gap_at(gaps: Iterable[Gap], attribute: str, rate: str, model: str = CHOSEN) -> Gap | None:
    """That of a model on the test rows, if it was measured."""
    place = "test", model, attribute, rate
    return next((g for g in gaps if (g.where, g.model, g.attribute, g.rate) == place), None)


def caution(rates: Sequence[GroupRate], *, placed: bool) -> str:
    """That the decisions on the test rows say next to nothing; empty if they do not.

    Parameters
    ----------
    rates : sequence of GroupRate
        Those of everyone among them.
    placed : bool
        Whether an operating point was asked for.
    """
    for fnr, fpr in zip(rates_at(rates, "", "fnr"), rates_at(rates, "", "fpr"), strict=False):
        if fnr.value is not None and fpr.value is not None:
            return decides_little(1.0 - fnr.value, fpr.value, fnr.rows, fpr.rows, placed=placed)
    return ""


def roc_lines(bins: Iterable[ScoreBins], threshold: float) -> Iterator[Roc]:
    """ROC curves by group, with the point where decisions are made."""
    for b in bins:
        areas, points = b.auc(), b.at(threshold).set_index("group")
        for group, curve in b.roc().groupby("group", sort=False):
            yield Roc(
                b.attribute,
                str(group),
                fpr=tuple(curve["fpr"].tolist()),
                tpr=tuple(curve["tpr"].tolist()),
                at_fpr=plain_value(points.at[group, "fpr"]),
                at_tpr=plain_value(points.at[group, "tpr"]),
                auc=plain_value(areas[str(group)]),
            )


def score_lines(bins: Iterable[ScoreBins], labels: Sequence[str]) -> tuple[ScoreCounts, ...]:
    """Distributions of scores, by group and label (negative, positive)."""
    return tuple(
        ScoreCounts(
            b.attribute,
            str(group),
            labels[int(str(label))],
            positive=bool(label),
            edges=(*part["low"].tolist(), float(part["high"].iloc[-1])),
            shares=tuple(part["share"].tolist()),
            rows=int(part["rows"].sum()),
        )
        for b in bins
        for (group, label), part in b.histogram().groupby(["group", "label"], sort=False)
        if part["rows"].any()
    )


def calibration_lines(bins: Iterable[ScoreBins], level: float = 0.95) -> tuple[Calibration, ...]:
    """Calibration by group."""
    return tuple(
        Calibration(
            b.attribute,
            str(group),
            **{name: tuple(part[name].tolist()) for name in ("predicted", "found", "low", "high")},
            rows=tuple(part["rows"].tolist()),
        )
        for b in bins
        for group, part in b.calibration(confidence=level).groupby("group", sort=False)
    )


def pick(line: Mapping[Any, Any], *names: str) -> dict[str, Any]:
    """Some columns of a line, as plain values."""
    return {name: plain_value(line[name]) for name in names}


def plain_value(value: Any) -> Any:
    """A value of Python's own; None for what is not finite."""
    own = value.item() if isinstance(value, np.generic) else value
    return None if isinstance(own, float) and not np.isfinite(own) else own
