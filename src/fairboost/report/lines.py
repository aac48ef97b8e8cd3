"""Tables of the package to lines of evidence."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Any, Literal

import numpy as np

from fairboost.metrics import Audit
from fairboost.metrics.score_bins import ScoreBins
from fairboost.report.evidence import Calibration, Figure, Gap, GroupRate, Roc, ScoreCounts

CHOSEN, PLAIN = "chosen", "plain"
"""Names of the models that are compared."""

FOUR_FIFTHS = 0.8
"""A group's share of favourable decisions over that of the best off, at least."""


def rate_lines(
    found: Audit, columns: Collection[str], model: str = CHOSEN, where: str = "test"
) -> tuple[GroupRate, ...]:
    """The rates of an audit, as evidence.

    Parameters
    ----------
    found : Audit
        As from :func:`fairboost.metrics.audit`.
    columns : collection of str
        The sensitive columns; groups by anything else are crossed ones.
    model, where : str
        Whose rates they are, and on which rows.
    """
    return tuple(
        GroupRate(
            where=where,
            model=model,
            attribute=line["attribute"],
            group=line["group"],
            rate=line["rate"],
            value=figure(line["value"]),
            low=figure(line["low"]),
            high=figure(line["high"]),
            rows=float(line["rows"]),
            small=bool(line["small"]),
            crossed=line["attribute"] not in ("", *columns),
        )
        for line in found.rates.to_dict("records")
    )


def gap_lines(
    found: Audit,
    model: str = CHOSEN,
    favourable: Literal["positive", "negative"] = "positive",
    where: str = "test",
) -> tuple[Gap, ...]:
    """The gaps and ratios of an audit, as evidence.

    Parameters
    ----------
    found : Audit
        As from :func:`fairboost.metrics.audit`.
    model, where : str
        Whose gaps they are, and on which rows.
    favourable : {"positive", "negative"}
        The decision that the four-fifths rule is about.
    """
    ruled = "ppr" if favourable == "positive" else "pnr"
    figures = ("gap", "gap_low", "gap_high", "ratio", "ratio_low", "ratio_high")
    return tuple(
        Gap(
            where=where,
            model=model,
            attribute=line["attribute"],
            rate=line["rate"],
            **{name: figure(line[name]) for name in figures},
            lowest_group=line["lowest_group"],
            highest_group=line["highest_group"],
            four_fifths=four_fifths(line["ratio"], line["ratio_low"], line["ratio_high"])
            if line["rate"] == ruled
            else None,
        )
        for line in found.gaps.to_dict("records")
    )


def four_fifths(
    ratio: float, low: float, high: float
) -> Literal["passes", "fails", "too few rows to tell"] | None:
    """Whether the least share of favourable decisions is four fifths of the largest.

    Parameters
    ----------
    ratio, low, high : float
        The ratio and its interval.

    Examples
    --------
    >>> four_fifths(0.9, 0.85, 0.95), four_fifths(0.9, 0.7, 1.0), four_fifths(0.5, 0.4, 0.6)
    ('passes', 'too few rows to tell', 'fails')
    """
    if np.isnan(ratio):
        return None
    if low < FOUR_FIFTHS <= high:
        return "too few rows to tell"
    return "passes" if ratio >= FOUR_FIFTHS else "fails"


def roc_lines(bins: Iterable[ScoreBins], threshold: float) -> tuple[Roc, ...]:
    """ROC curves by group, with the point where decisions are made."""
    found = []
    for b in bins:
        curves, areas = b.roc(), b.auc()
        points = b.at(threshold).set_index("group")
        for group, curve in curves.groupby("group", sort=False):
            at = points.loc[group]
            found.append(
                Roc(
                    attribute=b.attribute,
                    group=str(group),
                    fpr=_floats(curve["fpr"]),
                    tpr=_floats(curve["tpr"]),
                    at_fpr=figure(at["fpr"]),
                    at_tpr=figure(at["tpr"]),
                    auc=figure(areas[str(group)]),
                )
            )
    return tuple(found)


def score_lines(bins: Iterable[ScoreBins], labels: tuple[str, ...]) -> tuple[ScoreCounts, ...]:
    """Distributions of scores, by group and label (negative, positive)."""
    found = []
    for b in bins:
        for (group, found_label), part in b.histogram().groupby(["group", "label"], sort=False):
            if not part["rows"].any():
                continue
            label = int(str(found_label))
            found.append(
                ScoreCounts(
                    attribute=b.attribute,
                    group=str(group),
                    label=labels[label],
                    positive=bool(label),
                    edges=(*_floats(part["low"]), float(part["high"].iloc[-1])),
                    shares=_floats(part["share"]),
                    rows=int(part["rows"].sum()),
                )
            )
    return tuple(found)


def calibration_lines(bins: Iterable[ScoreBins], level: float = 0.95) -> tuple[Calibration, ...]:
    """Calibration by group."""
    return tuple(
        Calibration(
            attribute=b.attribute,
            group=str(group),
            **{name: _floats(part[name]) for name in ("predicted", "found", "low", "high")},
            rows=tuple(map(int, part["rows"])),
        )
        for b in bins
        for group, part in b.calibration(confidence=level).groupby("group", sort=False)
    )


def figure(value: Any) -> Figure:
    """A number, or None where there is none."""
    return None if value is None or not np.isfinite(value) else float(value)


def figures(values: Iterable[Any]) -> tuple[Figure, ...]:
    """Numbers, None where there is none."""
    return tuple(figure(value) for value in values)


def _floats(values: Iterable[Any]) -> tuple[float, ...]:
    return tuple(float(value) for value in values)


def plain_value(value: Any) -> Any:
    """A value of Python's own; None for what is not finite."""
    own = value.item() if isinstance(value, np.generic) else value
    return None if isinstance(own, float) and not np.isfinite(own) else own
