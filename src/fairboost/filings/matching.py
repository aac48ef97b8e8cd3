"""Whether an audit is about a model: a document that joins the two must not join strangers."""

from __future__ import annotations

from fairboost.exceptions import InvalidInputError
from fairboost.report.evidence import Evidence

SAME_THRESHOLD = 1e-6
"""Thresholds that differ by no more are the same, but for the digits of a file or a command."""

KINDS = {
    "decisions": "decisions between two labels",
    "classes": "decisions among several classes",
    "numbers": "predictions of a number",
}


def check_about_model(evidence: Evidence, trained: Evidence) -> None:
    """Refuse figures of a table that cannot be those of the model.

    Parameters
    ----------
    evidence : Evidence
        Of the table that was audited.
    trained : Evidence
        Of the model.
    """
    if trained.model is None:
        raise InvalidInputError(
            "the evidence of the model is that of an audit, with no model in it; pass the "
            "evidence of `fairboost train`, or of fairboost.report.gather"
        )
    if evidence is trained:
        return
    audited, known = evidence.data, trained.data
    if evidence.task != trained.task:
        raise _another(
            f"the table has {KINDS[evidence.task]}, and the model makes {KINDS[trained.task]}",
            "audit predictions of this model",
        )
    if audited.label and audited.label != known.label:
        raise _another(
            f"the label of the table is {audited.label!r}, and the model predicts {known.label!r}",
            f"audit the column {known.label!r}, or rename the column",
        )
    _check_values(evidence, trained)
    _check_groups(evidence, trained)
    if (audited.exposure is None) != (known.exposure is None):
        with_it, without = ("table", "model") if audited.exposure else ("model", "table")
        raise _another(
            f"the {with_it} has exposures ({audited.exposure or known.exposure!r}), and the "
            f"{without} has none",
            "audit with exposures if, and only if, the model was trained with them",
        )


def _check_values(evidence: Evidence, trained: Evidence) -> None:
    """Labels that are decided between, and the threshold."""
    audited, known = evidence.data, trained.data
    if unknown := [name for name in audited.classes if name not in known.classes]:
        raise _another(
            f"the table has the class {unknown[0]!r}, and the model knows "
            f"{', '.join(map(repr, known.classes))}",
            "audit decisions of this model",
        )
    decided = audited.label or audited.decision
    if evidence.task == "decisions" and decided and audited.positive != known.positive:
        raise _another(
            f"the positive label of the table is {audited.positive!r}, that of the model is "
            f"{known.positive!r}",
            f"pass --positive {known.positive}, or use the labels of training",
        )
    here, there = evidence.asked.threshold, trained.model.threshold if trained.model else None
    if here is not None and there is not None and abs(here - there) > SAME_THRESHOLD:
        raise _another(
            f"the table was audited at a threshold of {here:g}, and the model decides at "
            f"{there!r}",
            f"audit with --threshold {there!r}, or audit the column of decisions that `fairboost "
            "predict` writes",
        )


def _check_groups(evidence: Evidence, trained: Evidence) -> None:
    """Columns of one name whose groups have nothing in common."""
    named = {c.name for c in evidence.data.sensitive} & {c.name for c in trained.data.sensitive}
    for column in sorted(named):
        here, there = (
            sorted({r.group for r in e.rates if r.attribute == column})
            for e in (evidence, trained)
        )
        if here and there and not set(here) & set(there):
            raise _another(
                f"{column!r} has the groups {', '.join(map(repr, here))} in the table, and "
                f"{', '.join(map(repr, there))} in the training of the model",
                "name the groups as in training",
            )


def _another(why: str, remedy: str) -> InvalidInputError:
    return InvalidInputError(
        f"the table that was audited is not about this model: {why}; {remedy}, or leave the model "
        "out of the document"
    )
