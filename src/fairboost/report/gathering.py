"""From a fitted model and test rows to the evidence of a report.

Every figure comes from the part of the package that defines it: rates, gaps and ratios from
:mod:`fairboost.metrics`, verdicts from :mod:`fairboost.verdicts.fairness_report`, the alternatives
from :mod:`fairboost.selection.tradeoff`. Here they are only put in order.
"""

from __future__ import annotations

import warnings
from bisect import bisect
from collections.abc import Mapping, Sequence
from dataclasses import fields, replace
from importlib.metadata import version
from itertools import zip_longest
from typing import Any

import numpy as np
import pandas as pd

from fairboost._records import with_fields
from fairboost._typing import ArrayLike, Matrix
from fairboost.data.cells import Groups, SensitiveColumn
from fairboost.data.validation import named_columns
from fairboost.fairness.classes import ClassMoment
from fairboost.fairness.rates import RATES
from fairboost.metrics.contrasts import standardised_differences
from fairboost.metrics.numbers import COMPARED
from fairboost.metrics.sums import crossing_name, group_names
from fairboost.model.estimator import FairGBMClassifier
from fairboost.model.regressor import FairGBMRegressor
from fairboost.plots.numbers import MEANS
from fairboost.report import classes, decisions, evidence, lines, numbers
from fairboost.report.limits import with_limits
from fairboost.report.lines import pick, plain_value
from fairboost.report.rows import NO_VERDICT, Fitted, TestSet, Wording, rate_name
from fairboost.report.words import explain_decisions, where_title
from fairboost.report.words import limit as limit_in_words
from fairboost.selection.candidates import fit_marks, scores_of
from fairboost.selection.kinds import kind_of_model
from fairboost.selection.tradeoff import TradeoffCurve
from fairboost.verdicts.fairness_report import FairnessReport
from fairboost.verdicts.rounds import PREFIX, rows_of, violations_by_round
from fairboost.verdicts.verdict import Verdict

OF_VERDICT = [f.name for f in fields(Verdict) if f.name != "named"]
"""What evidence takes of a verdict; it calls figures by names of its own."""

MOST_ROUNDS = 200
"""Rounds that are kept of a trace."""


def gather(
    model: FairGBMClassifier | FairGBMRegressor,
    X: Matrix,
    y: ArrayLike,
    *,
    sensitive_features: ArrayLike,
    sample_weight: ArrayLike | None = None,
    exposure: ArrayLike | None = None,
    plain: Any = None,
    curve: TradeoffCurve | None = None,
    train: tuple[Any, ...] | None = None,
    about: evidence.About | None = None,
    **described: Any,
) -> evidence.Evidence:
    """Gather the evidence of a report from a fitted model and test rows.

    Parameters
    ----------
    model : FairGBMClassifier or FairGBMRegressor
        The model that was chosen, fitted.
    X, y, sensitive_features, sample_weight, exposure
        Test rows that had no part in training or in any choice; as in ``fit`` of the model.
    plain : classifier or regressor, optional
        The fitted engine without constraints, to compare with; by default that of the curve. For a
        regressor with exposures, its predictions are per unit of exposure.
    curve : TradeoffCurve, optional
        The alternatives that were considered, with the chosen model among them or beside them.
    train : tuple (X, y, sensitive_features[, sample_weight[, exposure]]), optional
        Training rows; with them, violations over the rounds are shown on these rows, too. The
        exposure is for regressors.
    about : About, optional
        Title, names, and the sources of the rows.
    **described
        Fields of ``about`` as keywords, such as ``title="Loans"`` or ``min_rows=50``.

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
    ('false negative rate equal by sex, tolerance 0.05',)
    """
    about = with_fields(about or evidence.About(), described, "gather")
    about = replace(about, min_rows=max(about.min_rows, model.min_group_rows))
    if classes.gives_classes(model):
        classes.check_described(about)
    trained_on = None if train is None else rows_of(model, train)
    plain = curve.models[0] if plain is None and curve is not None else plain
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        rows = TestSet.read(model, X, y, sensitive_features, sample_weight, exposure)
        found = _kind(model).measure(model, rows, plain, about)
        said = () if found.judged is None else found.judged.advice[:1]
        if any(line.startswith(NO_VERDICT) for line in said):
            curve = None  # whose models have no verdict either
        tradeoff = None if curve is None else _tradeoff(curve, model, rows)
        if tradeoff is not None and found.plain_distance:
            tradeoff = replace(tradeoff, plain=found.plain_distance)
        rounds = _rounds(model, trained_on)
    judged = found.judged
    level = 0.95 if judged is None else judged.level
    verdicts = _findings(judged, rows.in_words(model))
    asked = _asked(model, verdicts, level, about.favourable)
    gathered = evidence.Evidence(
        title=about.title,
        asked=replace(asked, limits=rows.limits(model, found.rates)),
        data=_data(model, rows, about),
        model=_model(model, about),
        verdicts=verdicts,
        rates=(*_held_out_rates(model, judged, rows, about.min_rows), *found.rates),
        gaps=rows.without_given(model, found.gaps),
        min_rows=about.min_rows,
        tradeoff=tradeoff,
        rounds=rounds,
        warnings=_warnings(judged, caught),
        notes=dict(about.notes or {}),
        windows=rows.windows,
        **found.parts,
    )
    return with_limits(gathered, placed_on_test=found.placed, uncrossed=rows.crossings()[1])


def _kind(model: Fitted) -> Any:
    """The module that measures what a model does."""
    if isinstance(model, FairGBMRegressor):
        return numbers
    return classes if classes.gives_classes(model) else decisions


# What was found
# -----------------------------------------------------------------------


def _findings(
    judged: FairnessReport | None, in_words: Mapping[str, Wording]
) -> tuple[evidence.Finding, ...]:
    """Verdicts as evidence, some of them in other words."""
    if judged is None:
        return ()
    pairs = [(judged.where, judged.verdicts), ("test", judged.test_verdicts)]
    found = [
        evidence.Finding(where=where, **pick(vars(verdict), *OF_VERDICT), family=family)
        for where, verdicts in pairs
        for verdict, family in zip_longest(
            verdicts, judged.families[: len(verdicts)], fillvalue=""
        )
    ]
    return tuple(in_words[f.constraint].of(f) if f.constraint in in_words else f for f in found)


def _held_out_rates(
    model: Fitted, judged: FairnessReport | None, rows: TestSet, min_rows: int
) -> tuple[evidence.GroupRate, ...]:
    """Rates on the rows held out; a loaded model has those of test rows alone."""
    if judged is None or model._measured is None:
        return ()
    # Groups as metrics name them, by the name that verdicts have for each.
    measured = model._measured
    compared = [term.groups for term in measured.terms]
    nowhere = np.zeros(0, np.int32)
    compared += [Groups(r.columns, (r.name,), nowhere) for r in measured.left_out]
    named = {
        groups.label(g): (crossing_name(rows.in_order(groups.columns)), name)
        for groups in compared
        for g, name in enumerate(group_names(_reordered(groups, rows)))
    }
    # Other groups are among test rows alone, and shares above quantiles are in the verdicts.
    moments = [m for term in measured.terms for m in term.moments]
    titles = {m.name: rate_name(m) for m in moments if isinstance(m, ClassMoment)}
    known = judged.rates["rate"].isin([*RATES, *MEANS, *titles])
    table = judged.rates[judged.rates["group"].isin(named) & known].replace({"rate": titles})
    found = [named[label] for label in table["group"]]
    table = table.rename(columns={judged.where: "value"}).assign(
        attribute=[attribute for attribute, _ in found],
        group=[group for _, group in found],
        small=table["rows"] < min_rows,
    )
    return lines.rate_lines(table, rows.main, where=judged.where)


def _reordered(groups: Groups, rows: TestSet) -> Groups:
    """The same groups, with the columns in the order of the test rows."""
    columns = rows.in_order(groups.columns)
    order = [groups.columns.index(name) for name in columns]
    names = tuple(tuple(values[k] for k in order) for values in groups.names)
    return replace(groups, columns=columns, names=names)


# The models that could have been chosen, and the rounds of the model that was chosen
# -----------------------------------------------------------------------


def _tradeoff(curve: TradeoffCurve, model: Fitted, rows: TestSet) -> evidence.Tradeoff:
    """The curve on the test rows; a chosen model that is not on it becomes one more point."""
    # One that was chosen by a tolerance is a copy, with the trees of the curve's.
    chosen = next((k for k, m in enumerate(curve.models) if m._model is model._model), None)
    models = curve.models if chosen is not None else (*curve.models, model)
    groups, weight = rows.constrained(model), rows.sample_weight
    table = TradeoffCurve(models, curve.table).on(
        rows.X, rows.y, sensitive_features=groups, sample_weight=weight, exposure=rows.exposure
    )
    pairs = zip(models, table.to_dict("records"), strict=True)
    points = [_point(m, line, rows) for m, line in pairs]
    if chosen is None:  # from loose to tight, as the others are
        extra = _point(model, {**table.iloc[-1], "tolerance": _tolerance_of(model)}, rows)
        points.pop()
        chosen = bisect(points, _tightness(extra), key=_tightness)
        points.insert(chosen, replace(extra, name=f"{extra.name}, trained by itself"))
    found = evidence.Tradeoff(where="test", points=tuple(points), chosen=chosen)
    if not isinstance(model, FairGBMRegressor) and rows.only_calibrated(model):
        found = replace(found, figure=COMPARED["a_over_e"])
    if isinstance(model, FairGBMRegressor):
        first = curve.models[0]
        figure = kind_of_model(first).figure(first.constraint, list(groups))
        found = replace(found, measure=numbers.loss_title(model), figure=figure)
    return found


def _tolerance_of(model: Fitted) -> float:
    """What a model was held to; NaN where nothing was asked for."""
    asked = () if model.fairness_report_ is None else model.fairness_report_.verdicts
    own = np.nan if model.tolerance is None else float(model.tolerance)
    return own if not np.isnan(own) else min((v.limit for v in asked), default=np.nan)


def _tightness(point: evidence.TradeoffPoint) -> float:
    return -np.inf if point.tolerance is None else -point.tolerance


def _point(model: Fitted, line: Mapping[Any, Any], rows: TestSet) -> evidence.TradeoffPoint:
    tolerance = plain_value(line["tolerance"])
    rates, nothing = _kind(model).point_rates(model, rows)
    performance, empty = "accuracy", "decides nothing"
    if isinstance(model, FairGBMRegressor):
        performance, empty = "loss", "says little"
    names = [f"{what}{end}" for what in (performance, "gap") for end in ("", " low", " high")]
    figures: dict[str, Any] = {"accuracy": None, "accuracy_low": None, "accuracy_high": None}
    figures |= {name.replace(" ", "_"): plain_value(line[name]) for name in names}
    name = "no constraint"
    if tolerance is not None:
        name = f"tolerance {limit_in_words(float(f'{tolerance:.3g}'))}"
    return evidence.TradeoffPoint(
        name=f"{name}, {empty}" if nothing else name,
        tolerance=tolerance,
        **figures,
        trees=int(line["trees"]),
        rates=rates,
        decides_nothing=nothing,
        **fit_marks(model),
        differences=_differences(model, rows),
    )


def _differences(model: Fitted, rows: TestSet) -> tuple[evidence.GroupDifference, ...]:
    """Standardised differences of mean scores; none where there are several classes."""
    scores = scores_of(model, rows.X, rows.exposure)
    if scores is None:
        return ()
    one_group = {c.name for c in rows.observed}  # a share of a row has no score of its own
    given = {k: v for k, v in named_columns(rows.sensitive_features) if k in one_group}
    if not given:
        return ()
    table = standardised_differences(scores, given)
    return tuple(
        evidence.GroupDifference(
            **pick(line, "attribute", "group", "reference"), value=plain_value(line["difference"])
        )
        for line in table.to_dict("records")
    )


def _rounds(model: Fitted, train: dict[str, Any] | None) -> evidence.Rounds | None:
    """The trace, not more rounds of it than a plot can show; violations on training rows too."""
    trace, names = model.trace_, [str(name) for name in model.multipliers_.index]
    if not names or not len(trace):
        return None
    thinned = np.unique(np.linspace(0, len(trace) - 1, MOST_ROUNDS).round().astype(int))
    part, held_out = trace.iloc[thinned], "held-out loss" in trace
    on_train = pd.DataFrame({"round": np.zeros(0, int)})
    if train is not None and held_out and model.iterate in ("best", "last"):
        on_train = violations_by_round(model, **train)
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
    model: Fitted,
    verdicts: Sequence[evidence.Finding],
    level: float,
    favourable: evidence.Favourable,
) -> evidence.Asked:
    gaps = {v.limit for v in verdicts if v.measure == "gap"}
    decided: dict[str, Any] = {}
    if classes.gives_classes(model):
        decided = classes.decided_by(model)
    elif isinstance(model, FairGBMClassifier):
        point = explain_decisions(model.operating_point, model.threshold_)
        decided = {"operating_point": point, "threshold": float(model.threshold_)}
    return evidence.Asked(
        constraints=tuple(dict.fromkeys(v.constraint for v in verdicts)),
        tolerance=gaps.pop() if len(gaps) == 1 else None,
        confidence=plain_value(model._options().asked_confidence),
        level=level,
        favourable=favourable,
        **decided,
    )


def _data(
    model: Fitted,
    rows: TestSet,
    about: evidence.About,
) -> evidence.Data:
    features = getattr(model, "feature_names_in_", None)
    known = None if features is None else set(map(str, features))
    own: dict[str, Any] = {"positive": ""}
    if classes.gives_classes(model):
        own["classes"] = tuple(map(str, model._labels))
    elif isinstance(model, FairGBMClassifier):
        own = {"positive": str(model._labels[1]), "negative": str(model._labels[0])}
    else:
        given = None if rows.exposure is None else "exposures of rows"
        own |= {"exposure": about.exposure_name or given, "loss": numbers.loss_title(model)}
    return evidence.Data(
        label=about.label,
        sensitive=tuple(
            evidence.SensitiveColumnUse(
                name=c.name,
                groups=len(c.values),
                missing=_without_group(c),
                feature=None if known is None else c.name in known,
                shared="" if c.facts is None else f"{c.facts.statement}.",
            )
            for c in rows.columns
        ),
        splits={**(about.splits or {}), "test": len(rows.labels)},
        files=tuple(about.files),
        features=int(model.n_features_in_),
        left_out=dict(about.left_out or {}),
        weight=about.weight_name or (None if rows.weight is None else "weights of rows"),
        **own,
    )


def _without_group(column: SensitiveColumn) -> int:
    """Rows that are in no group of a column."""
    known = np.asarray(column.codes) >= 0
    return int((~(known if column.members is None else column.members.any(axis=1))).sum())


def _model(model: Fitted, about: evidence.About) -> evidence.Model:
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
        threshold=plain_value(float(getattr(model, "threshold_", np.nan))),
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


def _warnings(
    judged: FairnessReport | None, caught: Sequence[warnings.WarningMessage]
) -> tuple[str, ...]:
    """What a reader has to know, each once."""
    advice = []
    if judged is not None:  # a report says which rows "these" are by where it stands
        where = where_title(judged.where)
        advice = [line.replace("on these rows", f"on the {where}") for line in judged.advice]
    return tuple(dict.fromkeys([*advice, *(str(w.message) for w in caught)]))
