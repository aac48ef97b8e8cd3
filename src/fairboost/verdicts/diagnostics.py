"""What a user has to be told about a fit: groups too small to judge, constraints not met."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.special import ndtri

from fairboost._typing import FloatArray
from fairboost._warnings import warn
from fairboost.data.cells import Cells
from fairboost.exceptions import FairnessWarning, NotMetWarning, SmallCellWarning
from fairboost.fairness.binding import Term, rows_that_count
from fairboost.fairness.rates import Rate
from fairboost.fairness.realised_rate import RealisedRate
from fairboost.metrics.intervals import wilson
from fairboost.verdicts.ratios import too_few_to_tell

if TYPE_CHECKING:
    from fairboost.algorithm.record import Round
    from fairboost.verdicts.fairness_report import FairnessReport, MeasuredRates
    from fairboost.verdicts.verdict import Verdict

FEW = 10
"""Rows beyond a threshold; if it was placed by fewer, a warning says so."""

SMALL_CELL, NAMED = 30, 5
"""Fewer rows that count than this are named in a warning, and how many groups are named."""

NEARLY_NONE = 0.05
"""Decisions are nearly constant if the rarer one is rarer than the rarer label by this factor."""

ALIKE = 0.1
"""Rates of the two labels that differ by more are not alike, however few the rows are."""


SWING, SWING_ERRORS = 0.15, 6.0
"""What a rate may go back and forth by within some rounds; and in standard errors of a rate of one
half. Rates of decisions move by a few points where training has settled."""


FAR = {"rate": "a larger bound", "least rate": "a lower floor"}
FAR_ERRORS, FAR_SHARE = 10.0, 0.05
"""Measures of bounds and floors, with what to allow; and by how many standard errors, and by how
large a share at least, a limit is missed that is probably out of reach."""


WORTH_OF_MISS, NOTICED, MOST_LOST = 0.5, 0.01, 0.5
"""A stage costs much if accuracy falls by more than it closes of the largest violation, or, where
a limit is certainly missed all the same, by more than half of that: by 0.01 at least, and by 9
rows, so that it is not chance. It also does if half is lost of what the base model learned: of the
loss that it has less than the same prediction for everyone."""


SAYS_MORE = "print(model.fairness_report_) says more"
"""The end of warnings about what a report says as well."""


DECIDES = "The model decides"
"""The beginning of what is said of decisions that say next to nothing."""


def decides_little(
    tpr: float,
    fpr: float,
    positives: float,
    negatives: float,
    *,
    share: float | None = None,
    placed: bool = False,
) -> str:
    """What is wrong with decisions that say next to nothing about anyone, and the remedy.

    Such decisions are fair: rates are equal where everyone, or no one, is decided positively.

    Parameters
    ----------
    tpr, fpr : float
        True and false positive rate of everyone.
    positives, negatives : float
        Rows of either label that the rates are of (Kish's number, with weights).
    share : float, optional
        Share of the positive label, if it is not that of these rows.
    placed : bool, default=False
        Whether the threshold follows from an operating point such as a budget: that positive
        decisions are few is then what was asked for.

    Returns
    -------
    sentence : str
        Empty if the decisions depend on the features, or if too few rows can show it.

    Examples
    --------
    >>> decides_little(1.0, 1.0, 300, 700).partition(":")[0]
    'The model decides next to nothing'
    >>> decides_little(0.7, 0.2, 300, 700)
    ''
    """
    if not (positives and negatives):
        return ""
    share = positives / (positives + negatives) if share is None else share
    decided = share * tpr + (1.0 - share) * fpr
    point = f"operating_point=at_positive_rate({share:.2g})"
    if not placed and min(decided, 1.0 - decided) < NEARLY_NONE * min(share, 1.0 - share):
        return (
            f"{DECIDES} next to nothing: {100 * decided:.4g}% of the decisions are "
            f"positive, but {100 * share:.4g}% of the labels are. Equal rates of groups then mean "
            f"nothing; choose another operating point, such as {point}."
        )
    # Newcombe's interval of a difference: each rate as far off as its own interval allows.
    least, most = wilson(tpr * positives, positives)[0], wilson(fpr * negatives, negatives)[1]
    alike = tpr - fpr <= min(float(np.hypot(tpr - least, most - fpr)), ALIKE)
    if min(positives, negatives) < SMALL_CELL or not alike:
        return ""
    return (
        f"{DECIDES} no better than one that ignores the features: it decides positively "
        f"about {100 * tpr:.4g}% of the rows with the positive label, and {100 * fpr:.4g}% of the "
        "others. Equal rates of groups then mean nothing; choose another operating point, "
        f"such as {point}, allow a larger tolerance, or add features."
    )


def judge_decisions(
    cells: Cells,
    positive: FloatArray,
    *,
    placed: bool,
    label_factors: tuple[float, float] = (1.0, 1.0),
) -> str:
    """:func:`decides_little` of decisions about some rows.

    Parameters
    ----------
    cells : Cells
        The rows.
    positive : (n_cells,) float64
        Weight of those that were decided positively.
    placed : bool
        As there.
    label_factors : (float, float)
        What makes up for the labels that the rows have too few of.
    """
    total, decided, squares = (
        np.bincount(cells.labels, by_cell, 2)
        for by_cell in (cells.weights, positive, cells.squares)
    )
    if not total.all():
        return ""
    fpr, tpr = np.clip(decided / total, 0.0, 1.0)  # sums of weights round
    negatives, positives = total**2 / squares
    share = total * label_factors / (total @ label_factors)
    return decides_little(tpr, fpr, positives, negatives, share=float(share[1]), placed=placed)


NEARLY_ALL = 0.995
"""A share of rows that are given the same class, from which on rates say nothing."""


def judge_classes(cells: Cells, decided: FloatArray) -> str:
    """Say of decisions among several classes that nearly all are the same, or nothing.

    Parameters
    ----------
    cells : Cells
        The rows.
    decided : (n_classes, n_cells) float64
        Weight of those that were given each class.
    """
    share = float(decided.sum(axis=1).max()) / cells.total_weight
    of_class = float(np.bincount(cells.labels, cells.weights).max()) / cells.total_weight
    if share < NEARLY_ALL or of_class >= NEARLY_ALL:
        return ""
    return (
        f"The model gives the same class to {share:.1%} of the rows: equal rates are "
        "those of decisions that say nothing."
    )


def warn_if_deciding_little(measured: MeasuredRates) -> None:
    """Say that fair rates are those of decisions that say nothing."""
    beside = measured.realised is not None and not measured.realised.hits  # told already
    if measured.decides_little and not beside:
        warn(f"{measured.decides_little} {SAYS_MORE}", FairnessWarning)


def unsettled(terms: Sequence[Term], rounds: FloatArray) -> str:
    """Say of a training that a rate goes back and forth from round to round, or nothing.

    The scores of some rows are close to each other, such as those of people of 18 whose income is
    predicted. A small change then moves most of these rows across the threshold, and the next
    round moves them back: no multiplier results in a rate between the two.

    Parameters
    ----------
    terms : sequence of Term
        The constraints, bound to the rows that were measured.
    rounds : (n_rounds, n_moments) float64
        The moments in the rounds around the one that was kept.
    """
    if any(t.constraint.traits.leads for t in terms):  # the paper's multipliers, which swing
        return ""
    moved = np.abs(np.diff(rounds, axis=0)).sum(axis=0)
    # Beside the trend, and there and back counted once.
    swings = (moved - np.abs(rounds[-1] - rounds[0])) / 2.0
    spans, column = np.ptp(rounds, axis=0), 0
    worst: tuple[float, str] = (0.0, "")
    for t in terms:
        limit = max(SWING, t.constraint.tolerated)
        for m, moment in enumerate(t.moments):
            for g in range(len(t.groups)):
                span, swing, rows = spans[column], swings[column], max(t.rows[m, g], 1.0)
                low, high = rounds[:, column].min(), rounds[:, column].max()
                column += 1
                by_chance = SWING_ERRORS * 0.5 / np.sqrt(rows)
                known = isinstance(moment, Rate) and min(span, swing) > max(limit, by_chance)
                if known and span > worst[0]:
                    who = f"the {moment.title} of {t.groups.label(g)}"
                    worst = span, f"{who} went back and forth between {low:.3f} and {high:.3f}"
    if not worst[1]:
        return ""
    return (
        f"Training did not settle: in the {len(rounds)} rounds around the one that was kept, "
        f"{worst[1]}. This happens where the scores of a group are close to each other: a small "
        "change moves most of its rows across the decision threshold. The figures are those of "
        "one round, and on new rows the rate may differ by as much. Allow a larger tolerance, "
        "compare wider groups, or leave this group out of the comparison."
    )


def warn_if_unsettled(measured: MeasuredRates) -> None:
    """Say that a rate goes back and forth from round to round."""
    if measured.unsettled:
        warn(f"{measured.unsettled} {SAYS_MORE}", FairnessWarning)


def hidden_from(measured: MeasuredRates, verdicts: Sequence[Verdict]) -> list[str]:
    """What is said of constraints that are not met as features do not tell groups apart."""
    pairs = zip(verdicts, measured.hidden, strict=False)  # nothing may be known
    return list(dict.fromkeys(said for v, said in pairs if said and not v.within))


def warn_of_worth(measured: MeasuredRates, verdicts: Sequence[Verdict]) -> None:
    """Say that features do not tell groups apart, and that most predictive power is gone."""
    for said in (*hidden_from(measured, verdicts), measured.power_lost):
        if said:
            warn(said, FairnessWarning)


def out_of_proportion(base: Round, stage: Round, summary: Any) -> str:
    """Say of a stage that it loses much for what it closes of a gap, or nothing.

    Parameters
    ----------
    base, stage : Round
        What was found of the base model and of the stage that is kept, on the same rows.
    summary : object
        What the task keeps of these rows.
    """
    untrained_loss, weights = summary.untrained_loss, getattr(summary, "label_weights", None)
    learned = untrained_loss - base.held_out_loss
    lost = stage.held_out_loss - base.held_out_loss
    said = []
    right = [r.figures.get("held-out accuracy") for r in (base, stage)]
    weighted = weights is not None and set(weights) != {1.0}  # which moves decisions as well
    if right[0] is not None and right[1] is not None and not weighted:
        fall = right[0] - right[1]
        closed = float(base.violations.max(initial=0.0) - stage.violations.max(initial=0.0))
        missed = bool((stage.violations > 2.0 * stage.errors).any())
        if fall > max(NOTICED, closed * (WORTH_OF_MISS if missed else 1.0), 9.0 / summary.rows):
            said.append(
                f"accuracy falls from {right[0]:.3f} to {right[1]:.3f}, for closing "
                f"{max(closed, 0.0):.3f} of the distance to the limit"
            )
    if learned > 0 and lost > MOST_LOST * learned:
        said.append(
            f"the loss rises from {base.held_out_loss:.4g} to {stage.held_out_loss:.4g}, where "
            f"the same prediction for everyone has {untrained_loss:.4g}"
        )
    if not said:
        return ""
    return (
        f"The stage costs much for what it closes of the gap: {'; '.join(said)} (rows held out). "
        "Allow a larger tolerance, let the stage see the columns that the groups differ in, or "
        "train a model under the constraint from scratch."
    )


def warn_of_cost(measured: MeasuredRates) -> None:
    """Say that a stage costs much for what it closes of a gap."""
    if measured.costs_much and not measured.rows_seen:
        warn(f"{measured.costs_much} {SAYS_MORE}", FairnessWarning)


def warn_if_rows_seen(measured: MeasuredRates) -> None:
    """Say that the base model was probably trained on the rows that rates are read on."""
    if measured.rows_seen:
        warn(measured.rows_seen, FairnessWarning)


def out_of_reach(measured: MeasuredRates, verdicts: Sequence[Verdict], level: float) -> str:
    """Say of bounds and floors that they are missed by far, or nothing.

    A gap can be closed, and a single bound on a rate of decisions met, by deciding everyone in the
    same way; so what is said is about limits on errors, and about limits that are asked for
    together or at an operating point.

    Parameters
    ----------
    measured : MeasuredRates
        The rows, on which training has settled.
    verdicts : sequence of Verdict
        What was found on them.
    level : float
        Coverage of a verdict's interval.
    """
    together = len(verdicts) > 1 or measured.realised is not None
    missed = []
    for v, term in zip(verdicts, measured.terms, strict=True):
        alone = term.moments[0].name in ("error", "loss")
        if v.status != "not met" or v.measure not in FAR or not (together or alone):
            continue
        reach = v.high - v.value if v.at_least else v.value - v.low
        error = reach / max(float(ndtri(0.5 + level / 2)), 1e-9)
        if abs(v.value - v.limit) > max(FAR_SHARE, FAR_ERRORS * error):
            missed.append(v)
    if not missed:
        return ""
    by = " and ".join(f"by {abs(v.value - v.limit):.{v.places}f}" for v in missed)
    allow = " or ".join(dict.fromkeys(FAR[v.measure] for v in missed))
    relax = f"relax one of them: allow {allow}" if together else f"allow {allow}"
    return (
        f"A limit is missed {by}, which is more than {FAR_ERRORS:g} standard errors, and training "
        "has settled: the limits are probably out of reach for this model and these data. More "
        f"rounds are unlikely to help; {relax}, or add features."
    )


def warn_of_small_cells(terms: Sequence[Term], cells: Cells) -> None:
    """Name the groups with few rows that count towards a constrained moment."""
    small = []
    what = "rate" if all(isinstance(m, Rate) for t in terms for m in t.moments) else "figure"
    for t in terms:
        for rate in t.moments:
            rows = rows_that_count(rate, cells, t.groups)
            for g in np.flatnonzero(rows < SMALL_CELL).tolist():
                small.append(f"{t.groups.label(g)} ({int(rows[g])} rows for {rate.name})")
    if names := list(dict.fromkeys(small)):
        further = len(names) - NAMED
        named = "; ".join(names[:NAMED]) + (f"; and {further} others" if further > 0 else "")
        # So many groups are often those of a number.
        number = ', compare over a number by smooth("age")' if further > NAMED else ""
        warn(
            f"fewer than {SMALL_CELL} rows count towards a constrained {what} of: {named}. Their "
            f"{what}s are mostly noise; merge small groups, leave them out of comparisons "
            f"(min_group_rows={SMALL_CELL}){number}, or expect the constraint not to hold on new "
            "data",
            SmallCellWarning,
        )


def warn_of_untold_ratios(report: FairnessReport) -> None:
    """Name the ratios of rates so small that the rows cannot tell them."""
    found = [
        v
        for v in report.verdicts
        if v.measure == "ratio" and too_few_to_tell(v.low, v.high, v.limit)
    ]
    if found:
        listed = "; ".join(f"{v.constraint}: {v}" for v in found)
        warn(
            f"too few rows for a ratio, {report.where}: {listed}. The rates are too small for "
            f"so few rows; merge groups, or compare differences of rates. {SAYS_MORE}",
            SmallCellWarning,
        )


def warn_if_not_met(report: FairnessReport, certainty: bool = False) -> None:
    """Say which constraints are not met, and which are not for certain.

    Parameters
    ----------
    report : FairnessReport
        What was found.
    certainty : bool
        Whether it was asked for, so that one has to hear of what is met by chance, too.
    """
    warn_of_untold_ratios(report)
    categories = {"not met": NotMetWarning, "not met on these rows, not certain": SmallCellWarning}
    if certainty:
        categories["met on these rows, not certain"] = SmallCellWarning
    for status, category in categories.items():
        found = [v for v in report.verdicts if v.status == status]
        if found:
            listed = "; ".join(f"{v.constraint}: {v}" for v in found)
            warn(
                f"{status}, {report.where}: {listed}. {SAYS_MORE}",
                category,
            )


def warn_if_beside_the_point(realised: RealisedRate | None) -> None:
    """Say where an operating point could not be had, or was placed on very few rows."""
    if realised is None:
        return
    point, title = realised.point, realised.point.rate.title
    if not realised.hits:
        warn(
            f"not met, held out: {point}: the {title} of everyone is {realised.value:.4f}. Rows "
            "of equal score get the same decision, and too many have the same score; train more "
            "trees, or decide at another point",
            NotMetWarning,
        )
    elif realised.rows < FEW * point.rows_needed():
        warn(
            f"inconclusive on the held-out rows: {point} was placed on {realised.rows:,.0f} "
            f"{point.who_counts}, some {realised.rows / point.rows_needed():.0f} of them beyond "
            "the threshold; the rate of new people may differ by a third or more",
            SmallCellWarning,
        )


def warn_of_overshooting(lowest_loss: float, untrained_loss: float) -> None:
    """Say that no round predicts probabilities as well as no model does.

    Parameters
    ----------
    lowest_loss : float
        Of all rounds, on the rows that rates are read on.
    untrained_loss : float
        That of a model that gives everyone the same probability.
    """
    warn(
        f"the engine's steps are too large: the lowest loss of all rounds is {lowest_loss:.4g}, "
        f"above the {untrained_loss:.4g} of giving everyone the same probability. The "
        "decisions are still useful, and the round to keep was chosen by them, but the "
        "probabilities are not; lower the learning rate, or let leaves have more rows",
        FairnessWarning,
    )
