"""What a model that gives one of several classes does on test rows: rates, confusion, verdicts.

Figures are those of :func:`fairboost.metrics.audit_classes`.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from fairboost._typing import FloatArray, IntArray
from fairboost.exceptions import InvalidInputError
from fairboost.fairness.costs import CostTable
from fairboost.metrics import ClassAudit, audit_classes
from fairboost.metrics.classes import title_of
from fairboost.metrics.performance import ClassOutput, performance_table
from fairboost.metrics.sums import crossing_name
from fairboost.model.estimator import FairGBMClassifier
from fairboost.model.several import given_class
from fairboost.plots.classes import audit_rates
from fairboost.report import evidence, lines
from fairboost.report.lines import CHOSEN, PLAIN, pick, plain_value
from fairboost.report.rows import Fitted, OnTestRows, TestSet, judged_if_possible
from fairboost.report.words import CLASS_KINDS, MEAN_COST, class_kind
from fairboost.verdicts.fairness_report import FairnessReport

NEARLY_NONE = 0.05
"""Decisions are nearly constant if other classes than the most frequent one are given more rarely
than they occur by this factor."""

MOST_ALONG = 8
"""Rates of each model along a trade-off."""

MOST_LIKELY = "the most likely class is given; of equal ones the first"
LEAST_COST = "the class of least expected cost is given, by the table of costs; of equal ones the "
LEAST_COST += "first"

SAYS_LITTLE = (
    "On the test rows {what}. Equal shares between groups then mean nothing; allow "
    "a larger tolerance, add features, or say what wrong decisions cost."
)


@dataclass(frozen=True)
class GivenByCost:
    """What a model says of some rows, and what its decisions cost.

    Parameters
    ----------
    output : ClassOutput
        Probabilities, and the class that each row is given.
    costs : tuple of tuple of float
        Costs of giving a row of each class (lines) each class (columns).
    """

    output: ClassOutput
    costs: CostTable

    def contributions(self, labels: IntArray, weight: FloatArray) -> dict[str, FloatArray]:
        """What each row adds to each measure; the costs first, which decisions are made by."""
        found = np.asarray(self.costs)[labels, self.output.given]
        return {MEAN_COST: found, **self.output.contributions(labels, weight)}


def gives_classes(model: Fitted) -> bool:
    """Whether a model gives one of three classes or more."""
    return isinstance(model, FairGBMClassifier) and model._several


def check_described(about: evidence.About) -> None:
    """Refuse what is said of two labels."""
    if about.favourable != "positive":
        raise InvalidInputError(
            f"favourable={about.favourable!r} says which of two decisions people hope for, and "
            "the model gives one of three classes or more; leave favourable out"
        )


def decided_by(model: FairGBMClassifier) -> dict[str, Any]:
    """How a class is chosen, as fields of what was asked."""
    if model._costs is None:
        return {"operating_point": MOST_LIKELY}
    return {"operating_point": LEAST_COST, "costs": model._costs}


def measure(
    model: FairGBMClassifier, rows: TestSet, plain: Any, about: evidence.About
) -> OnTestRows:
    """What a model comes to on test rows.

    Parameters
    ----------
    model : FairGBMClassifier
        The model.
    rows : TestSet
        The rows.
    plain : classifier or None
        The engine without constraints, if there is one to compare with.
    about : About
        Which groups are small.
    """
    outputs = {CHOSEN: _predict(model, model, rows)}
    if plain is not None and plain is not model:
        outputs[PLAIN] = _predict(plain, model, rows)
    judged = _judge(model, rows)
    level = 0.95 if judged is None else judged.level
    limited = {limit.attribute for limit in rows.limits(model)}
    asked = set(rows.constrained_rates(model))
    compared = [c for c in rows.crossings()[0] if crossing_name(c) in limited]
    others = [c for c in rows.crossings()[0] if c not in compared]
    rates: list[evidence.GroupRate] = []
    gaps: list[evidence.Gap] = []
    audits = {}
    for name, output in outputs.items():
        found = audits[name] = _audit(model, rows, output, [*rows.names, *compared], about, level)
        tables = [found.rates]
        if others:  # of which rates are shown, and no gaps
            more = _audit(model, rows, output, others, about, level, gaps=False).rates
            tables.append(more[more["attribute"] != ""])
        for table in tables:
            shown = in_words(table, asked, limited)
            rates += lines.rate_lines(shown, rows.main, name)
        gaps += lines.gap_lines(in_words(found.gaps, asked, limited), name)
    costs = model._costs
    measured = {n: o if costs is None else GivenByCost(o, costs) for n, o in outputs.items()}
    table = performance_table(rows.labels, measured, rows.weight, level)
    parts = {
        "task": "classes",
        "performance": tuple(
            evidence.Performance(**pick(line, "model", "measure", "value", "low", "high"))
            for line in table.to_dict("records")
        ),
        "confusion": tuple(confusion_lines(audits[CHOSEN], rows.names)),
        "caution": caution_of(outputs[CHOSEN].given, rows),
    }
    return OnTestRows(judged, tuple(rates), tuple(gaps), parts)


def point_rates(
    model: FairGBMClassifier, rows: TestSet
) -> tuple[tuple[evidence.GroupRate, ...], bool]:
    """Rates of a model along a trade-off, and whether its decisions say next to nothing."""
    output = _predict(model, model, rows)
    found = _audit(model, rows, output, [*rows.names, *rows.asked], evidence.About(), gaps=False)
    asked = rows.constrained_rates(model)
    kinds = list(dict.fromkeys(map(class_kind, asked)))
    shown = [k for k in CLASS_KINDS.values() if k in kinds][:1]  # a table has room for one
    table = in_words(found.rates, (), ())
    own = [kind in (CLASS_KINDS["accuracy"], *shown) for kind in map(class_kind, table["rate"])]
    table = table[own]
    few = list(dict.fromkeys(table["rate"]))[:MOST_ALONG]
    rates = lines.rate_lines(table[table["rate"].isin(few)], rows.main)
    return rates, bool(caution_of(output.given, rows))


def _predict(model: Any, chosen: FairGBMClassifier, rows: TestSet) -> ClassOutput:
    """Probabilities and decisions; of another engine by the same costs."""
    known, classes = list(getattr(model, "classes_", ())), list(chosen.classes_)
    proba = np.asarray(model.predict_proba(rows.X), np.float64)
    numbered = known == list(range(len(classes)))
    if set(known) == set(classes):
        proba = proba[:, [known.index(label) for label in classes]]
    elif not numbered or proba.ndim != 2:
        raise InvalidInputError(
            f"plain gives the classes {known}, and the model {classes}; pass an engine that was "
            "trained on the same labels, or on their numbers from 0"
        )
    return ClassOutput(proba, given_class(proba, chosen._costs))


def _judge(model: FairGBMClassifier, rows: TestSet) -> FairnessReport | None:
    """Verdicts held out and on the test rows; None where nothing was asked for."""
    if not rows.constrained_rates(model):
        return None
    told = {"sensitive_features": rows.constrained(model), "sample_weight": rows.sample_weight}
    return judged_if_possible(model, lambda: model.report_on(rows.X, rows.y, **told))


def _audit(
    model: FairGBMClassifier,
    rows: TestSet,
    output: ClassOutput,
    by: list[Any],
    about: evidence.About,
    level: float = 0.95,
    *,
    gaps: bool = True,
) -> ClassAudit:
    audit = audit_classes if gaps else audit_rates
    return audit(
        model.classes_[rows.labels],
        model.classes_[output.given],
        sensitive_features=rows.sensitive_features,
        sample_weight=rows.weight,
        by=by,
        classes=model.classes_.tolist(),
        confidence=level,
        min_rows=about.min_rows,
        min_group_rows=model.min_group_rows,
    )


def in_words(
    table: pd.DataFrame, asked: Collection[str], limited: Collection[str]
) -> pd.DataFrame:
    """A table whose rates are in words; without confused shares that nobody asked about.

    All of these are in the confusion matrices.
    """
    parts = table[["rate", "label", "given"]].to_numpy().tolist()
    # An accuracy has no class, and of others the class given says it all but for the confused.
    titles = [title_of(rate, label if rate == "confused" else None, g) for rate, label, g in parts]
    kept = [
        rate != "confused" or (title in asked and attribute in ("", *limited))
        for (rate, *_), title, attribute in zip(parts, titles, table["attribute"], strict=True)
    ]
    return table.assign(rate=titles)[kept]


def confusion_lines(found: ClassAudit, columns: Collection[str]) -> Iterator[evidence.Confusion]:
    """Lines of the confusion matrices of everyone and of the groups of each column."""
    own = found.rates[found.rates["rate"].isin(["recall", "confused"])]
    own = own[own["attribute"].isin(["", *columns])]
    for (attribute, group), part in own.groupby(["attribute", "group"], sort=False):
        for label in found.classes:
            by_given = {
                line["given"]: line for line in part.to_dict("records") if line["label"] == label
            }
            line = [by_given[given] for given in found.classes]
            yield evidence.Confusion(
                str(attribute),
                str(group),
                str(label),
                shares=tuple(plain_value(x["value"]) for x in line),
                low=tuple(plain_value(x["low"]) for x in line),
                high=tuple(plain_value(x["high"]) for x in line),
                rows=int(line[0]["rows"]),
                small=bool(line[0]["small"]),
            )


def caution_of(given: IntArray, rows: TestSet) -> str:
    """That decisions are nearly constant, or say nothing of the classes; empty if they do."""
    n = int(max(rows.labels.max(), given.max())) + 1
    weight = np.ones(len(given)) if rows.weight is None else rows.weight
    shares = [np.bincount(codes, weight, n) / weight.sum() for codes in (rows.labels, given)]
    others = 1.0 - shares[1].max(), 1.0 - shares[0].max()
    if others[0] < NEARLY_NONE * others[1]:
        rest = f"{100 * others[0]:.3g}% are given another, and {100 * others[1]:.3g}% have another"
        return SAYS_LITTLE.format(what=f"nearly everyone is given the same class: {rest}")
    # Decisions that ignore the features are right as often as their shares say.
    by_chance = float(shares[0] @ shares[1])
    right = (given == rows.labels).astype(np.float64)
    mean = float(np.average(right, weights=weight))
    error = float(np.sqrt((weight**2 * (right - mean) ** 2).sum()) / weight.sum())
    if mean - 2.0 * error > by_chance:
        return ""
    what = f"the model is right about {100 * mean:.3g}% of the rows, which decisions that ignore "
    return SAYS_LITTLE.format(what=f"{what}the features would be about {100 * by_chance:.3g}% of")
