"""What a model that predicts a number does on test rows: means, verdicts, calibration, losses.

Figures are those of :func:`fairboost.metrics.audit_numbers`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from fairboost._typing import FloatArray, IntArray
from fairboost.metrics import audit_numbers
from fairboost.metrics.numbers import LOSS_TITLES, NumberAudit, losses_of
from fairboost.metrics.performance import DIFFERENCE, NumberOutput, performance_table
from fairboost.model.regressor import FairGBMRegressor
from fairboost.plots.numbers import (
    COLUMNS,
    RATIO,
    distribution_functions,
    figure_table,
    per_unit,
    predict_numbers,
)
from fairboost.report import evidence, lines
from fairboost.report.lines import CHOSEN, PLAIN, pick, plain_value
from fairboost.report.rows import OnTestRows, TestSet, judged_if_possible

if TYPE_CHECKING:
    from fairboost.kernel.losses import Loss

CONSTANT = "constant"
"""Name of a model that predicts the same for everyone."""

SAYS_LITTLE = (
    "On the test rows the model does not certainly predict better than one that predicts the same "
    "number for everyone: its {measure} is {value}, that of the best constant {constant}. Means, "
    "equal distributions and errors then mean nothing."
)


def measure(
    model: FairGBMRegressor, rows: TestSet, plain: Any, about: evidence.About
) -> OnTestRows:
    """What a model comes to on test rows.

    Parameters
    ----------
    model : FairGBMRegressor
        The model.
    rows : TestSet
        The rows.
    plain : regressor or None
        The engine without constraints, if there is one to compare with. It predicts per unit of
        exposure.
    about : About
        Which groups are small.
    """
    judged = None
    if rows.constrained_rates(model):
        told = {"sensitive_features": rows.constrained(model), "exposure": rows.exposure}
        told["sample_weight"] = rows.sample_weight
        judged = judged_if_possible(model, lambda: model.report_on(rows.X, rows.y, **told))
    level = 0.95 if judged is None else judged.level
    predictions = {CHOSEN: predict_numbers(model, rows.X, rows.exposure)}
    if plain is not None and plain is not model:
        predictions[PLAIN] = predict_numbers(plain, rows.X, rows.exposure)
    ratios = "actual" in rows.constrained_rates(model)
    compared = compare_numbers(
        rows, predictions, _loss(model), about, level, model.min_group_rows, ratios=ratios
    )
    return replace(compared, judged=judged)


def _without_ratios(rows: TestSet, found: OnTestRows) -> OnTestRows:
    """What was found, less actual over expected where numbers below 0 leave it without a meaning.

    Above 1 it would say too little of a group whose mean is positive, and too much of another.
    """
    assert rows.targets is not None
    if (rows.targets >= 0).all():
        return found
    rates = tuple(r for r in found.rates if r.rate != RATIO)
    return replace(found, rates=rates, gaps=tuple(g for g in found.gaps if g.rate != RATIO))


def compare_numbers(
    rows: TestSet,
    predictions: Mapping[str, FloatArray],
    loss: Loss,
    about: evidence.About,
    level: float = 0.95,
    min_group_rows: int = 30,
    *,
    ratios: bool = False,
) -> OnTestRows:
    """What predictions come to, whatever they were made by.

    Parameters
    ----------
    rows : TestSet
        The rows.
    predictions : mapping of str to (n,) float64
        By model; counts or amounts, where there are exposures.
    loss : Loss
        Whose mean is shown.
    about : About
        Which groups are small.
    level : float
        Of the intervals.
    min_group_rows : int
        Groups of fewer rows are not compared.
    ratios : bool
        Whether actual over expected was asked for, so that it is shown whatever its sign.
    """
    found = {
        name: audit_numbers(
            rows.y,
            p,
            sensitive_features=rows.sensitive_features,
            exposure=rows.exposure,
            sample_weight=rows.sample_weight,
            loss=loss,
            by=[*rows.names, *rows.crossings()[0]],
            confidence=level,
            min_rows=about.min_rows,
            min_group_rows=min_group_rows,
        )
        for name, p in predictions.items()
    }
    rates = [
        line
        for name, audit in found.items()
        for line in lines.rate_lines(figure_table(audit), rows.main, name)
    ]
    gaps = [line for name, audit in found.items() for line in _gap_lines(audit, name)]
    parts = {
        "task": "numbers",
        "performance": tuple(_performance(loss, rows, predictions, found)),
        "deciles": tuple(_decile_lines(found[CHOSEN], rows.names)),
        "distributions": tuple(_distributions(rows, predictions[CHOSEN])),
        "caution": _caution(loss, rows, predictions[CHOSEN]),
    }
    compared = OnTestRows(None, tuple(rates), tuple(gaps), parts)
    return compared if ratios else _without_ratios(rows, compared)


def point_rates(
    model: FairGBMRegressor, rows: TestSet
) -> tuple[tuple[evidence.GroupRate, ...], bool]:
    """Figures of a model along a trade-off, and whether it predicts no better than a constant."""
    predictions = predict_numbers(model, rows.X, rows.exposure)
    found = audit_numbers(
        rows.y,
        predictions,
        sensitive_features=rows.sensitive_features,
        exposure=rows.exposure,
        sample_weight=rows.sample_weight,
        loss=_loss(model),
        by=[*rows.names, *rows.asked],
    )
    rates = lines.rate_lines(figure_table(found), rows.main)
    return rates, bool(_caution(_loss(model), rows, predictions))


def loss_title(model: FairGBMRegressor) -> str:
    """What the mean loss of a model is a mean of."""
    return LOSS_TITLES[_loss(model).name]


def _loss(model: FairGBMRegressor) -> Loss:
    found = model._loss_terms.loss
    assert found is not None
    return found


def _gap_lines(found: NumberAudit, model: str) -> Iterator[evidence.Gap]:
    """How groups compare, as evidence."""
    names = {column: name for name, column in COLUMNS.items()}
    for line in found.gaps.to_dict("records"):
        yield evidence.Gap(
            where="test",
            model=model,
            attribute=line["attribute"],
            rate=names[line["figure"]],
            gap=plain_value(line["value"]),
            gap_low=plain_value(line["low"]),
            gap_high=plain_value(line["high"]),
            ratio=None,
            ratio_low=None,
            ratio_high=None,
            lowest_group=line["lowest_group"],
            highest_group=line["highest_group"],
        )


def _decile_lines(found: NumberAudit, columns: list[str]) -> Iterator[evidence.Decile]:
    """Actual over expected by group and decile, all deciles first; groups are not crossed.

    Deciles that nobody is in, where predictions are tied, are left out.
    """
    ends = ("a_over_e", "a_over_e_low", "a_over_e_high")
    names = ("ratio", "ratio_low", "ratio_high")
    whole = found.by_group.assign(
        decile=0,
        expected=found.by_group["mean_prediction"] * found.by_group["exposure"],
        actual=found.by_group["mean_actual"] * found.by_group["exposure"],
    )
    everyone = found.by_decile[found.by_decile["attribute"] == ""]
    known = everyone.loc[everyone["rows"] > 0, "decile"]
    deciles = found.by_decile[found.by_decile["decile"].isin(known)]
    parts = deciles.groupby(["attribute", "group"], sort=False)
    for first in whole.to_dict("records"):
        if first["attribute"] not in ("", *columns) or not first["rows"]:
            continue
        part = parts.get_group((first["attribute"], first["group"]))
        for line in (first, *part.to_dict("records")):
            yield evidence.Decile(
                **pick(line, "attribute", "group", "decile", "rows", "small"),
                **pick(line, "exposure", "expected", "actual"),
                **dict(zip(names, (plain_value(line[end]) for end in ends), strict=True)),
            )


def _distributions(rows: TestSet, predictions: FloatArray) -> Iterator[evidence.Distribution]:
    """Distribution functions of everyone, then of the groups of each column."""
    shown = per_unit(predictions, rows.exposure)
    everyone = np.zeros(len(shown), np.intp)
    columns: list[tuple[str, IntArray, tuple[str, ...]]] = [("", everyone, ("everyone",))]
    columns += [
        (c.name, np.asarray(c.codes, np.intp), tuple(map(str, c.values))) for c in rows.columns
    ]
    for attribute, codes, groups in columns:
        table = distribution_functions(shown, codes, groups, _weight(rows))
        for group, part in table.groupby("group", sort=False):
            yield evidence.Distribution(
                attribute,
                str(group),
                values=tuple(part["prediction"].tolist()),
                shares=tuple(part["share"].tolist()),
                rows=int(part["rows"].iloc[0]),
            )


# Losses
# -----------------------------------------------------------------------


def _outputs(
    loss: Loss, rows: TestSet, predictions: Mapping[str, FloatArray]
) -> dict[str, NumberOutput]:
    return {name: NumberOutput(p, loss, rows.exposure) for name, p in predictions.items()}


def _weight(rows: TestSet) -> FloatArray | None:
    """What rows weigh in means: by exposure, too."""
    if rows.exposure is None:
        return rows.weight
    weighed: FloatArray = rows.exposure if rows.weight is None else rows.exposure * rows.weight
    return weighed


def _performance(
    loss: Loss,
    rows: TestSet,
    predictions: Mapping[str, FloatArray],
    found: Mapping[str, NumberAudit],
) -> Iterator[evidence.Performance]:
    """Losses of the models, and their difference row by row."""
    assert rows.targets is not None
    outputs = _outputs(loss, rows, predictions)
    table = performance_table(rows.targets, outputs, _weight(rows), found[CHOSEN].confidence)
    for line in table.to_dict("records"):
        if line["measure"] == LOSS_TITLES[loss.name] and line["model"] in found:
            # One figure has one interval on a page: that of the table of groups.
            line.update(vars(found[line["model"]].overall["mean_loss"]))
        yield evidence.Performance(**pick(line, "model", "measure", "value", "low", "high"))


def _caution(loss: Loss, rows: TestSet, predictions: FloatArray) -> str:
    """A caution if predictions are not certainly better than one number; otherwise empty."""
    assert rows.targets is not None
    years = np.ones(len(rows.labels)) if rows.exposure is None else rows.exposure
    title, weight = LOSS_TITLES[loss.name], _weight(rows)
    weighed = np.ones(len(years)) if weight is None else weight
    # The best constant is a mean or, of losses that are no squares, near a quantile.
    targets = rows.targets
    constants = [float(np.average(targets / years, weights=weighed))]
    if not loss.log_link:
        level = loss.shape if loss.name == "quantile" else 0.5
        constants.append(_quantile(targets, weighed, level))

    def mean_loss(constant: float) -> float:
        losses = losses_of(loss, targets, constant * years) / years
        return float(np.average(losses, weights=weighed))

    if loss.log_link and constants[0] <= 0:
        return ""  # nothing happened to anyone: there is nothing to compare with
    best = min(constants, key=mean_loss)
    outputs = _outputs(loss, rows, {CHOSEN: predictions, CONSTANT: best * years})
    table = performance_table(rows.targets, outputs, weight)
    found = {line["model"]: line for line in table.to_dict("records") if line["measure"] == title}
    if found[DIFFERENCE]["high"] < 0:
        return ""
    shown = {"value": CHOSEN, "constant": CONSTANT}
    figures = {key: f"{found[name]['value']:.4g}" for key, name in shown.items()}
    return SAYS_LITTLE.format(measure=title, **figures)


def _quantile(values: FloatArray, weight: FloatArray, level: float) -> float:
    order = np.argsort(values)
    upto = np.cumsum(weight[order])
    return float(values[order][np.searchsorted(upto, level * upto[-1])])
