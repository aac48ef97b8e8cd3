"""What the figures of a report do not say, in plain words."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from fairboost.report.evidence import Evidence
from fairboost.report.lines import PLAIN
from fairboost.report.words import noun

SAID = {
    "sampling": "Intervals cover chance only: how much the figures would differ for other "
    "people drawn in the same way. They do not allow for a population that changes, or that "
    "differs from the one that the rows were drawn from.",
    "labels": "Error rates assume that the recorded labels are true. If labels are biased, such "
    "as past decisions of people, equal error rates do not correct this.",
    "no labels": "The data has no actual labels, so there are no error rates. Equal shares of "
    "favourable decisions do not show whether the decisions are right, or right equally often in "
    "every group.",
    "actual": "The recorded numbers are assumed to be true. If records are biased, such as claims "
    "that are paid more readily to some people, neither equal errors nor calibrated predictions "
    "correct this.",
    "no mean": "The loss of training ({loss}) does not estimate a mean, but a median, a quantile "
    "or a value between. Actual numbers need not equal predictions on average, even if the "
    "predictions are right.",
    "means": "Intervals of means are too short below about 30 rows, and for rare counts below "
    "about 50 events.",
    "deciles": "Deciles are those of this model's own predictions. The deciles of another model "
    "contain other people, so two models cannot be compared decile by decile.",
    "groups": "Only the groups named here were compared. Fairness between them says nothing "
    "about other groups, or about whether two similar people get the same decision.",
    "held out": "Training used the held-out rows and chose the model by them, so figures on these "
    "rows look a little better than those of new people. The test rows had no part in this: trust "
    "the figures on the test rows.",
    "training": "Violations in training were measured on the training rows, which trees fit. Only "
    "the test rows show what to expect for new people.",
    "choice": "If the model was chosen among the alternatives by its figures on the test rows, "
    "these figures look better than they would on new people.",
    "small": "Groups in which fewer than {rows} rows count are flagged: their {figures} are "
    "mostly chance. If no gap was found there, there may still be one.",
    "several": "Many figures are compared at once. Among twenty groups with equal true rates, one "
    "is expected to lie outside of a 95% interval.",
    "missing": "Rows of unknown group count in the figures of everyone, and in no group: "
    "{columns}. If people without an entry are treated differently, this report does not show "
    "it.",
    "uncrossed": "Some sensitive columns were not crossed, because this would give too many "
    "groups: {crossings}. Merge groups to see them.",
    "placed": "The plain engine's threshold was placed on the test rows themselves, so its "
    "figures at the operating point are a little too good.",
    "no plain": "There is no model without the constraint to compare with. So it is not known "
    "what the constraint costs, and which other gaps it made larger.",
    "scores": "Under a constraint, scores serve fair decisions at the operating point. Within a "
    "group they need not be calibrated, and at another threshold rates may differ again.",
    "probabilities": "Under a constraint, probabilities of classes serve fair decisions. Within a "
    "group they need not be calibrated, and with other costs rates may differ again.",
    "four-fifths": "The four-fifths rule is a rule of thumb of employment law in the United "
    "States. Passing it does not prove fairness, and other laws may ask for something else.",
}
"""All that may have to be said, in order; what is on chance and on groups always."""

NO_MEANS = ("absolute error", "quantile loss", "Huber loss", "pseudo-Huber loss")
"""Losses whose best prediction is no mean."""


def with_limits(
    evidence: Evidence, placed_on_test: bool = False, uncrossed: Sequence[str] = ()
) -> Evidence:
    """The evidence, with what has to be said of its figures.

    Parameters
    ----------
    evidence : Evidence
        The evidence.
    placed_on_test : bool
        Whether the threshold of the plain engine was placed on the test rows.
    uncrossed : sequence of str
        Crossings of sensitive columns that were left out for their size, in words.
    """
    measured_on = {f.where for f in evidence.verdicts}
    unknown = [f"{c.name} ({c.missing:,} rows)" for c in evidence.data.sensitive if c.missing]
    compared = any(g.model == PLAIN for g in evidence.gaps)
    constrained = bool(evidence.asked.constraints)
    numbers = evidence.task == "numbers"
    applies = {
        "labels": not numbers and bool(evidence.data.label),
        "no labels": not evidence.data.label,
        "actual": numbers,
        "no mean": numbers and evidence.data.loss in NO_MEANS,
        "means": numbers,
        "deciles": bool(evidence.deciles),
        "held out": "held out" in measured_on,
        "training": "training" in measured_on,
        "choice": evidence.tradeoff is not None,
        "small": any(r.small for r in evidence.rates),
        "several": len(evidence.rates) > 20,
        "missing": bool(unknown),
        "uncrossed": bool(uncrossed),
        "placed": placed_on_test,
        "no plain": constrained and not compared,
        "scores": constrained and evidence.model is not None and evidence.task == "decisions",
        "probabilities": constrained and evidence.task == "classes",
        "four-fifths": any(g.four_fifths for g in evidence.gaps),
    }
    figures = {"rows": evidence.min_rows, "columns": ", ".join(unknown)}
    figures["loss"] = evidence.data.loss
    figures["figures"] = f"{noun(evidence)}s"
    figures["crossings"] = "; ".join(uncrossed)
    said = (text.format(**figures) for name, text in SAID.items() if applies.get(name, True))
    return replace(evidence, limits=(*evidence.limits, *said))
