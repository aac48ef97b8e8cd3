"""From a fitted model and test rows to the evidence of a report.

Every figure comes from the part of the package that defines it: rates, gaps and ratios from
:mod:`fairboost.metrics`, verdicts from :mod:`fairboost.verdicts.fairness_report`, the alternatives
from :mod:`fairboost.selection.tradeoff`. Here they are only put in order.
"""

from __future__ import annotations

import warnings
from bisect import bisect
from collections.abc import Mapping, Sequence
from dataclasses import replace
from importlib.metadata import version
from typing import Any

import numpy as np
import pandas as pd

from fairboost._records import with_fields
from fairboost._typing import ArrayLike, BoolArray, FloatArray, Matrix
from fairboost.data.cells import SensitiveColumn
from fairboost.fairness.operating_points import OperatingPoint
from fairboost.metrics import audit, group_rates, threshold_at
from fairboost.metrics.performance import ModelOutput, performance_table
from fairboost.metrics.score_bins import ScoreBins, bin_scores, make_edges
from fairboost.metrics.sums import crossing_name, group_names
from fairboost.model.estimator import FairGBMClassifier
from fairboost.report import evidence, lines
from fairboost.report.limits import with_limits
from fairboost.report.lines import CHOSEN, DECISION_RATES, PLAIN, pick, plain_value
from fairboost.report.rows import TestSet
from fairboost.report.words import explain_decisions, where_title
from fairboost.selection.tradeoff import TradeoffCurve
from fairboost.verdicts.diagnostics import DECIDES
from fairboost.verdicts.fairness_report import FairnessReport
from fairboost.verdicts.rounds import PREFIX, violations_by_round

MOST_ROUNDS = 200
"""Rounds that are kept of a trace."""


def gather(
    model: FairGBMClassifier,
    X: Matrix,
    y: ArrayLike,
    *,
    sensitive_features: ArrayLike,
    sample_weight: ArrayLike | None = None,
    plain: Any = None,
    curve: TradeoffCurve | None = None,
    train: tuple[Any, ...] | None = None,
    about: evidence.About | None = None,
    **described: Any,
) -> evidence.Evidence:
    """Gather the evidence of a report from a fitted model and test rows.

    Parameters
    ----------
    model : FairGBMClassifier
        The model that was chosen, fitted.
    X, y, sensitive_features, sample_weight
        Test rows, which no one has looked at before; as in :meth:`FairGBMClassifier.fit`.
    plain : classifier, optional
        The engine without constraints, fitted, to compare with; that of the curve if left out.
    curve : TradeoffCurve, optional
        The alternatives that were considered, with the chosen model among them or beside them.
    train : tuple (X, y, sensitive_features[, sample_weight]), optional
        Training rows; with them, violations over the rounds are shown on these rows, too.
    about : About, optional
        What the figures do not say: title, names, where rows came from.
    **described
        Fields of ``about`` by their names, such as ``title="Loans"`` or ``min_rows=50``.

    Returns
    -------
    evidence : Evidence

    Examples
    --------
    >>> from fairboost import FairGBMClassifier
    >>> from fairboost.datasets import make_loans
    >>> from lightgbm import LGBMClassifier
    >>> loans, new = make_loans(2_000, seed=0), make_loans(1_000, seed=1)
    >>> engine = LGBMClassifier(n_estimators=20, verbose=-1)
    >>> model = FairGBMClassifier(engine, constraint="equal_opportunity", tolerance=0.05)
    >>> model = model.fit(loans.X, loans.y, sensitive_features=loans.sensitive["sex"])
    >>> evidence = gather(model, new.X, new.y, sensitive_features=new.sensitive["sex"])
    >>> evidence.asked.constraints
    ('false negative rate alike by sex, tolerance 0.05',)
    """
    about = with_fields(about or evidence.About(), described, "gather")
    about = replace(about, min_rows=max(about.min_rows, model.min_group_rows))
    plain = curve.models[0] if plain is None and curve is not None else plain
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        rows = TestSet.read(model, X, y, sensitive_features, sample_weight)
        predictions = {CHOSEN: _predict(model, rows)}
        if plain is not None and plain is not model:
            told = model.operating_point, model.pos_label_
            predictions[PLAIN] = _predict(plain, rows, *told)
        rates, gaps = _compare_groups(model, rows, predictions, about)
        judged = _judge(model, rows, predictions[CHOSEN].positive)
        bins = _bins(predictions[CHOSEN].proba, rows, model.threshold_)
        tradeoff = None if curve is None else _tradeoff(curve, model, rows)
        rounds = _rounds(model, train)
    level = 0.95 if judged is None else judged.level
    at_point = isinstance(model.operating_point, OperatingPoint)
    found = evidence.Evidence(
        title=about.title,
        asked=replace(_asked(model, judged, level, about.favourable), limits=rows.limits(model)),
        data=_data(model, rows, about),
        model=_model(model, about),
        verdicts=_findings(judged),
        rates=(*_held_out_rates(model, judged, rows, about.min_rows), *rates),
        gaps=tuple(gaps),
        performance=_performance(predictions, rows, level),
        min_rows=about.min_rows,
        tradeoff=tradeoff,
        rounds=rounds,
        roc=tuple(lines.roc_lines(bins, model.threshold_)),
        scores=lines.score_lines(bins, tuple(map(str, model._labels))),
        calibration=lines.calibration_lines(bins, level),
        warnings=_warnings(judged, caught),
        notes=dict(about.notes or {}),
        caution=_caution(rates, judged, at_point),
    )
    placed = at_point and PLAIN in predictions and not isinstance(plain, FairGBMClassifier)
    return with_limits(found, placed_on_test=placed, uncrossed=rows.crossings()[1])


# What models say
# -----------------------------------------------------------------------


def _predict(
    model: Any, rows: TestSet, point: float | OperatingPoint = 0.5, positive: object = None
) -> ModelOutput:
    """Probabilities and decisions; of another engine at our operating point and positive label."""
    if isinstance(model, FairGBMClassifier):  # rows are scored once for both
        return ModelOutput(*model._decide(model._scores(rows.X)))
    known = list(getattr(model, "classes_", ()))
    column = known.index(positive) if positive in known else 1  # else its labels are 0 and 1
    proba = np.asarray(model.predict_proba(rows.X), np.float64)[:, column]
    if isinstance(point, OperatingPoint):
        point = threshold_at(rows.labels, proba, point, sample_weight=rows.weight)
    return ModelOutput(proba, proba >= point)


def _compare_groups(
    model: FairGBMClassifier,
    rows: TestSet,
    predictions: Mapping[str, ModelOutput],
    about: evidence.About,
) -> tuple[list[evidence.GroupRate], list[evidence.Gap]]:
    """Errors both ways and decisions, whatever is constrained, and precision."""
    shown = ["fpr", "fnr", DECISION_RATES[about.favourable], "precision"]
    rates: list[evidence.GroupRate] = []
    gaps: list[evidence.Gap] = []
    for name, p in predictions.items():
        found = audit(
            rows.labels,
            p.positive.astype(np.float64),  # the decisions themselves, not rounded scores
            sensitive_features=rows.sensitive_features,
            rates=list(dict.fromkeys([*rows.constrained_rates(model), *shown])),
            by=[*rows.names, *rows.crossings()[0]],
            sample_weight=rows.weight,
            min_rows=about.min_rows,
            min_group_rows=model.min_group_rows,
        )
        rates += lines.rate_lines(found.rates, rows.names, name)
        gaps += lines.gap_lines(found.gaps, name, about.favourable)
    return rates, gaps


def _judge(model: FairGBMClassifier, rows: TestSet, positive: BoolArray) -> FairnessReport | None:
    """Verdicts held out and on the test rows; None where nothing was asked for."""
    if not rows.constrained_rates(model) and not isinstance(model.operating_point, OperatingPoint):
        return None
    return model._judge(
        rows.X, rows.y, rows.constrained(model), rows.sample_weight, positive=positive
    )


def _bins(proba: FloatArray, rows: TestSet, threshold: float) -> list[ScoreBins]:
    """Scores of everyone, then by each sensitive column."""
    edges = make_edges(proba, threshold)
    everyone = SensitiveColumn("", np.zeros(len(proba), np.int64), ("everyone",))
    return [
        bin_scores(
            proba,
            rows.labels,
            np.asarray(c.codes, np.int64),
            tuple(map(str, c.values)),
            edges,
            attribute=c.name,
            sample_weight=rows.weight,
        )
        for c in (everyone, *rows.columns)
    ]


def _findings(judged: FairnessReport | None) -> tuple[evidence.Finding, ...]:
    if judged is None:
        return ()
    pairs = [(judged.where, judged.verdicts), ("test", judged.test_verdicts)]
    return tuple(
        evidence.Finding(where=where, **pick(vars(verdict), *vars(verdict)))
        for where, verdicts in pairs
        for verdict in verdicts
    )


def _held_out_rates(
    model: FairGBMClassifier, judged: FairnessReport | None, rows: TestSet, min_rows: int
) -> tuple[evidence.GroupRate, ...]:
    """Rates on the rows held out; a loaded model has those of test rows alone."""
    if judged is None or model._measured is None:
        return ()
    # Groups as metrics name them, by the name that verdicts have for each.
    named = {
        term.groups.label(g): (crossing_name(term.groups.columns), name)
        for term in model._measured.terms
        for g, name in enumerate(group_names(term.groups))
    }
    table = judged.rates[judged.rates["group"].isin(named)]  # others are among test rows alone
    found = [named[label] for label in table["group"]]
    table = table.rename(columns={judged.where: "value"}).assign(
        attribute=[attribute for attribute, _ in found],
        group=[group for _, group in found],
        small=table["rows"] < min_rows,
    )
    return lines.rate_lines(table, rows.names, where=judged.where)


def _performance(
    predictions: Mapping[str, ModelOutput], rows: TestSet, level: float
) -> tuple[evidence.Performance, ...]:
    table = performance_table(rows.labels, predictions, rows.weight, level)
    return tuple(
        evidence.Performance(**pick(line, "model", "measure", "value", "low", "high"))
        for line in table.to_dict("records")
    )


# The models that could have been chosen, and the rounds of the model that was chosen
# -----------------------------------------------------------------------


def _tradeoff(curve: TradeoffCurve, model: FairGBMClassifier, rows: TestSet) -> evidence.Tradeoff:
    """The curve on the test rows; a chosen model that is not on it becomes one more point."""
    chosen = next((k for k, m in enumerate(curve.models) if m is model), None)
    models = curve.models if chosen is not None else (*curve.models, model)
    groups, weight = rows.constrained(model), rows.sample_weight
    table = TradeoffCurve(models, curve.table).on(
        rows.X, rows.y, sensitive_features=groups, sample_weight=weight
    )
    pairs = zip(models, table.to_dict("records"), strict=True)
    points = [_point(m, line, rows) for m, line in pairs]
    if chosen is None:  # from loose to tight, as the others are
        extra = points.pop()
        chosen = bisect(points, _tightness(extra), key=_tightness)
        points.insert(chosen, replace(extra, name=f"{extra.name}, trained by itself"))
    return evidence.Tradeoff(where="test", points=tuple(points), chosen=chosen)


def _tightness(point: evidence.TradeoffPoint) -> float:
    return -np.inf if point.tolerance is None else -point.tolerance


def _point(
    model: FairGBMClassifier, line: Mapping[Any, Any], rows: TestSet
) -> evidence.TradeoffPoint:
    tolerance = plain_value(line["tolerance"])
    names = ("accuracy", "accuracy low", "accuracy high", "gap", "gap low", "gap high")
    table = group_rates(
        rows.labels,
        model._margins(rows.X) >= 0,
        sensitive_features=rows.sensitive_features,
        rates=list(dict.fromkeys([*rows.constrained_rates(model), "fpr", "fnr", "ppr"])),
        sample_weight=rows.weight,
        pos_label=1,
    )
    rates = lines.rate_lines(table, rows.names)
    placed = isinstance(model.operating_point, OperatingPoint)
    nothing = bool(lines.caution(rates, placed=placed))
    name = "no constraint" if tolerance is None else f"tolerance {tolerance:.3g}"
    return evidence.TradeoffPoint(
        name=f"{name}, decides nothing" if nothing else name,
        tolerance=tolerance,
        **{name.replace(" ", "_"): plain_value(line[name]) for name in names},
        trees=int(line["trees"]),
        rates=rates,
        decides_nothing=nothing,
    )


def _rounds(model: FairGBMClassifier, train: tuple[Any, ...] | None) -> evidence.Rounds | None:
    """The trace, not more rounds of it than a plot can show; violations on training rows too."""
    trace, names = model.trace_, [str(name) for name in model.multipliers_.index]
    if not names or not len(trace):
        return None
    thinned = np.unique(np.linspace(0, len(trace) - 1, MOST_ROUNDS).round().astype(int))
    part, held_out = trace.iloc[thinned], "held-out loss" in trace
    on_train = pd.DataFrame({"round": np.zeros(0, int)})
    if train is not None and held_out and model.iterate in ("best", "last"):
        X, y, groups, weight = (*train, None)[:4]
        on_train = violations_by_round(
            model, X, y, sensitive_features=groups, sample_weight=weight
        )
    return evidence.Rounds(
        where="held out" if held_out else "training",
        rounds=tuple(map(int, part["round"])),
        multipliers=_by_name(part, "multiplier: ", names),
        violations=_by_name(part, PREFIX, names),
        train_rounds=tuple(map(int, on_train["round"])),
        train_violations=_by_name(on_train, PREFIX, names),
        kept=int(model.best_iteration_) - int(model._model.n_base),
    )


def _by_name(
    table: pd.DataFrame, prefix: str, names: Sequence[str]
) -> dict[str, tuple[evidence.Figure, ...]]:
    columns = {name: f"{prefix}{name}" for name in names}
    return {name: tuple(map(plain_value, table[c])) for name, c in columns.items() if c in table}


# What was asked, on which data, by which model
# -----------------------------------------------------------------------


def _asked(
    model: FairGBMClassifier,
    judged: FairnessReport | None,
    level: float,
    favourable: evidence.Favourable,
) -> evidence.Asked:
    verdicts = () if judged is None else judged.verdicts
    gaps = {v.limit for v in verdicts if v.measure == "gap"}
    return evidence.Asked(
        constraints=tuple(v.constraint for v in verdicts),
        tolerance=gaps.pop() if len(gaps) == 1 else None,
        confidence=plain_value(model._options().asked_confidence),
        level=level,
        operating_point=explain_decisions(model.operating_point, model.threshold_),
        threshold=float(model.threshold_),
        favourable=favourable,
    )


def _data(
    model: FairGBMClassifier,
    rows: TestSet,
    about: evidence.About,
) -> evidence.Data:
    features = getattr(model, "feature_names_in_", None)
    known = None if features is None else set(map(str, features))
    return evidence.Data(
        label=about.label,
        positive=str(model._labels[1]),
        negative=str(model._labels[0]),
        sensitive=tuple(
            evidence.SensitiveColumnUse(
                name=c.name,
                groups=len(c.values),
                missing=int((np.asarray(c.codes) < 0).sum()),
                feature=None if known is None else c.name in known,
            )
            for c in rows.columns
        ),
        splits={**(about.splits or {}), "test": len(rows.labels)},
        files=tuple(about.files),
        features=int(model.n_features_in_),
        left_out=dict(about.left_out or {}),
        weight=about.weight_name or (None if rows.weight is None else "weights of rows"),
    )


def _model(model: FairGBMClassifier, about: evidence.About) -> evidence.Model:
    estimator = model.estimator_
    engine = type(estimator).__module__.split(".")[0]
    own = model.get_params(deep=False)
    own.pop("estimator")
    return evidence.Model(
        engine=engine,
        engine_version=version(engine),
        fairboost_version=version("fairboost"),
        options=_options(estimator.get_params()),
        method=_options(own),
        trees=int(model.best_iteration_),
        threshold=float(model.threshold_),
        export_file=about.export_file,
        export_sha256=about.export_sha256,
    )


def _options(parameters: Mapping[str, Any]) -> dict[str, evidence.Option]:
    """Settings that are not left to the engine, as plain values."""
    plain = {name: plain_value(value) for name, value in sorted(parameters.items())}
    return {
        name: value if isinstance(value, bool | int | float | str) else str(value)
        for name, value in plain.items()
        if value is not None
    }


def _caution(
    rates: Sequence[evidence.GroupRate], judged: FairnessReport | None, placed: bool
) -> str:
    """That decisions say next to nothing; as the advice has it, if it does, weights and all."""
    found = lines.caution(rates, placed=placed)
    said = [] if judged is None else [a for a in judged.advice if a.startswith(DECIDES)]
    return said[0] if found and said else found


def _warnings(
    judged: FairnessReport | None, caught: Sequence[warnings.WarningMessage]
) -> tuple[str, ...]:
    """What a reader has to know, each once."""
    advice = []
    if judged is not None:  # a report says which rows "these" are by where it stands
        where = where_title(judged.where)
        advice = [line.replace("on these rows", f"on the {where}") for line in judged.advice]
    return tuple(dict.fromkeys([*advice, *(str(w.message) for w in caught)]))
