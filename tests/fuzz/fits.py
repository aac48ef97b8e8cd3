"""Random fits: one case run, and what must hold of it whatever was drawn.

Each invariant is checked without the package's own arithmetic where there is another way: rates
are counted by NumPy from ``predict``, scores are those of the stock engine that reads the file.
"""

from __future__ import annotations

import copy
import inspect
import json
import math
import pickle
import re
import tempfile
import traceback
import warnings
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
import pandas as pd
import scipy.sparse as sp
from scipy.special import expit
from sklearn.base import clone
from sklearn.frozen import FrozenEstimator

import fairboost
from fairboost import FairGBMClassifier
from fairboost.data.features import as_one_set_of_categories
from fairboost.data.validation import by_row, take_rows
from fairboost.exceptions import ExportError, FairboostError, InvalidInputError
from tests.fuzz import rates
from tests.fuzz.cases import draw
from tests.fuzz.inputs import (
    Broken,
    Inputs,
    build,
    expect,
    make_constraint,
    make_engine,
    make_point,
)
from tests.fuzz.workers import run as run_all
from tests.fuzz.workers import summary

INVARIANTS = {
    "rates": "every reported rate equals that counted by NumPy from predict on the same rows",
    "operating point": "the rate of everyone by predict is on the right side of its target",
    "decisions": "predict is p >= threshold_, and the sign of decision_function",
    "numbers": "no NaN or infinity in scores, trace_, multipliers_, rates and verdicts",
    "verdicts": "a verdict follows from its figure, interval and limit",
    "saved": "a saved and loaded model has the same scores, decisions and report",
    "exported": "the exported file has the same scores and decisions in the stock engine",
    "pickled": "a pickled model has the same scores; clone keeps the parameters",
    "pieces": "rows have the same scores alone, among others and in another order",
    "threads": "predict_proba called by several threads at once is what it is by one",
    "again": "the same seed gives the same model",
    "renamed": "other names of groups, in the same order, give the same model",
    "reordered": "names that sort the other way give the same model, but for rounding",
    "plain": "constraint=None has the scores of the plain engine, but for rounding",
    "interrupted": "a refit that is interrupted leaves the model as it was",
    "inputs": "nothing that was passed is modified",
    "warnings": "no RuntimeWarning, and warnings.filters are left as they were",
    "errors": "what is raised is fairboost's own, or the engine's for its own option",
    "process": "the process does not end and does not hang",
}

EXPLAINED = {
    "rounding": "constraint=None is what plain XGBoost gives if a user writes its objective, or "
    "no further from the plain engine than that, or than the engine from itself with weights "
    "rounded otherwise: gains tie, or steps are too large",
    "seeded drops": "with seed_per_iteration XGBoost draws the trees to drop before it sets the "
    "seed if the objective is a user's, and after it if not (docs/algorithm.md)",
    "rounding, other names": "groups whose names sort the other way give another model, and so do "
    "weights that are rounded otherwise",
    "no first split": "boost_from_average=False: stock LightGBM starts from the average after all "
    "if its first tree finds no split, fairboost does not (docs/algorithm.md); from 0 both agree",
    "no score": "predict refuses rows that a linear tree has no score for (infinity, say); all "
    "training rows have one",
    "unseen category": "predict refuses rows that have a category which is not in the training "
    "set; stock XGBoost 3.2 takes it for another one, unless it is the last in order",
}
"""Differences that are known, and shown to be what they are in each case."""


@dataclass
class Fitted:
    """A fitted case, and what checks share."""

    inputs: Inputs
    model: Any
    folder: Path
    tell: Callable[[str], None] = lambda stage: None
    extra: dict[str, Any] = field(default_factory=dict)

    @property
    def case(self) -> dict[str, Any]:
        """The case."""
        return self.inputs.case

    def scores(self, X: Any) -> np.ndarray:
        """Probabilities of the positive label."""
        return positive(self.model, X)


def positive(model: Any, X: Any) -> np.ndarray:
    """Probabilities of the positive label, by a model of fairboost."""
    column = np.asarray(model.classes_).tolist().index(_plain(model.pos_label_))
    return np.asarray(model.predict_proba(X), np.float64)[:, column]


def says_positive(model: Any, X: Any) -> np.ndarray:
    """Where a model of fairboost says the positive label."""
    return np.asarray(model.predict(X)) == model.pos_label_


def _plain(label: Any) -> Any:
    return label.item() if isinstance(label, np.generic) else label


def campaign(
    n: int | range, seed: int = 0, workers: int = 1, show: Callable[[str], None] | None = None
) -> dict[str, Any]:
    """Run ``n`` random fits in processes of their own.

    Returns
    -------
    counts : dict
        ``outcomes``, ``checked`` and ``failed`` by invariant, ``failures`` with their cases, and
        so on, in the types of JSON.
    """
    numbers = range(n) if isinstance(n, int) else n
    found = run_all("tests.fuzz.fits", seed, numbers, workers, show)
    return summary("fits", seed, found, INVARIANTS)


def run(seed: int, case: int | dict[str, Any], tell: Callable[[str], None]) -> dict[str, Any]:
    """Run one case of a campaign, or one that is given; ``tell`` is told what comes next."""
    return run_case(draw(seed, case) if isinstance(case, int) else case, tell)


def run_case(
    case: dict[str, Any], tell: Callable[[str], None] = lambda stage: None
) -> dict[str, Any]:
    """Run a case: how it went, which invariants were checked, and those that do not hold."""
    result: dict[str, Any] = {"outcome": "fitted", "checked": {}, "failures": [], "rates": 0}
    with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        tell("inputs")
        inputs = build(case, Path(folder))
        result["engine"], result["without"] = inputs.case["engine"], inputs.without
        try:
            tell("base")
            model = make_model(inputs, Path(folder))
        except FairboostError as error:  # a constraint or a point that says what is wrong with it
            return result | {"outcome": "refused", "why": str(error)}
        except Exception as error:
            return result | {"outcome": "no base", "why": repr(error)}
        fitted = Fitted(inputs, model, Path(folder), tell)
        _fit_and_check(fitted, result, tell)
    return result


def _fit_and_check(fitted: Fitted, result: dict[str, Any], tell: Callable[[str], None]) -> None:
    inputs = fitted.inputs
    before = freeze(inputs)
    tell("fit")
    error = None
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        filters = list(warnings.filters)
        try:
            fitted.model.fit(*fit_rows(inputs), **fit_arguments(inputs))
        except Exception as raised:
            error = raised
        left = warnings.filters == filters
    _note(result, "inputs", lambda: _same_inputs(inputs, before))
    _note(result, "warnings", lambda: _warned(caught, left))
    if error is not None:
        _judge_error(fitted, error, result, tell)
        return
    fitted.extra["warned"] = sorted({type(w.message).__name__ for w in caught})
    tell("predict")
    try:
        fitted.scores(inputs.test.X)
    except Exception as raised:  # which the checks will meet too
        for told, name, check in (
            ("is NaN, expected a number", "numbers", _no_score),
            (UNSEEN, "errors", _unseen_category),
        ):
            if told in str(raised):
                result["outcome"], result["why"] = "refused", str(raised)
                _note(result, name, lambda check=check: check(fitted))
                return
    for name, check in CHECKS.items():
        costly = {"renamed": "renamed", "reordered": "renamed"}.get(name, name)
        if costly in COSTLY and costly not in inputs.case["checks"]:
            continue
        tell(name)
        _note(result, name, lambda check=check: check(fitted))
    result["rates"] = fitted.extra.get("rates", 0)


def _note(result: dict[str, Any], name: str, check: Callable[[], Any]) -> None:
    """Have something checked, and write down what came of it, or which difference is known."""
    try:
        found = check()
        if found is False:  # does not apply
            return
        if isinstance(found, str):
            result["explained"] = [*result.get("explained", ()), found]
    except Broken as broken:
        result["failures"].append({"invariant": name, "message": str(broken)})
    except Exception as error:
        text = "".join(traceback.format_exception(error))
        result["failures"].append(
            {"invariant": name, "message": f"{type(error).__name__}: {error}", "trace": text}
        )
    result["checked"][name] = result["checked"].get(name, 0) + 1
    if result["failures"]:
        result["outcome"] = "failed"


# A fit
# -----------------------------------------------------------------------


def make_model(inputs: Inputs, folder: Path) -> Any:
    """The estimator of a case, unfitted."""
    case = inputs.case
    known = inspect.signature(FairGBMClassifier).parameters
    fair = {k: v for k, v in case["fair"].items() if k in known}
    if "operating_point" in fair:
        fair["operating_point"] = make_point(fair["operating_point"])
    estimator = (
        make_base(inputs, folder)
        if case["frozen"]
        else make_engine(inputs, folder, _stops(inputs))
    )
    if case["pos_label"] is not None:
        fair.setdefault("pos_label", inputs.classes[1])
    # Many tables are small: by default all groups are compared here.
    made = {"constraint": make_constraint(inputs), "min_group_rows": 0, **fair}
    if case["paper"]:
        takes = inspect.signature(FairGBMClassifier.paper).parameters
        paper = FairGBMClassifier.paper(estimator, **{k: v for k, v in made.items() if k in takes})
        return paper.set_params(pos_label=made.get("pos_label"))
    return FairGBMClassifier(estimator, **made)


def make_base(inputs: Inputs, folder: Path) -> Any:
    """A fitted model of the engine, whose trees are kept."""
    told, case = inputs.case["frozen"], inputs.case
    extra: dict[str, Any] = {"n_estimators": told["rounds"]}
    if told["max_bin"]:
        extra["max_bin"] = told["max_bin"]
    if told["dart"]:
        extra["booster" if case["engine"] == "xgboost" else "boosting_type"] = "dart"
    rows = inputs.train if told["same rows"] else inputs.base
    fit: dict[str, Any] = {}
    if told["stop"]:
        fit["eval_set"] = [(inputs.test.X, inputs.test.y)]
        if case["engine"] == "xgboost":
            extra["early_stopping_rounds"] = 1
        else:
            extra["early_stopping_round"] = 1
    if case["engine"] == "xgboost":
        fit["verbose"] = False
    return FrozenEstimator(make_engine(inputs, folder, extra).fit(rows.X, rows.y, **fit))


def _stops(inputs: Inputs) -> dict[str, Any]:
    """Options of an evaluation that XGBoost takes with the others."""
    told = inputs.case["eval"]
    if told is None or inputs.case["engine"] != "xgboost":
        return {}
    metric = {"several": ["auc", "logloss"], "function": brier}.get(told["metric"], told["metric"])
    options = {"early_stopping_rounds": told["stop"], "eval_metric": metric}
    return {k: v for k, v in options.items() if v is not None}


def brier(y: np.ndarray, p: np.ndarray, sample_weight: np.ndarray | None = None) -> float:
    """A metric of a user's own, as XGBoost takes it."""
    return float(np.average((y - p) ** 2, weights=sample_weight))


def brier_for_lightgbm(y: np.ndarray, p: np.ndarray) -> tuple[str, float, bool]:
    """The same as LightGBM takes it."""
    return "brier", float(np.mean((y - p) ** 2)), False


def fit_rows(inputs: Inputs) -> tuple[Any, Any]:
    """What is passed by position."""
    return inputs.train.X, inputs.train.y


def fit_arguments(inputs: Inputs, encoded: bool = False) -> dict[str, Any]:
    """What else is passed to fit; labels as the user has them, or as 0 and 1."""
    train, told = inputs.train, inputs.case["eval"]
    given: dict[str, Any] = {"sample_weight": train.weight}
    if encoded:
        given["sample_weight"] = train.given
    else:
        given["sensitive_features"] = train.groups
    if inputs.held is not None and not encoded:
        held = inputs.held
        given["holdout_set"] = (held.X, held.y, held.groups)
        if held.given is not None:
            given["holdout_set"] += (held.given,)
    if told is None:
        return given
    sets = [(rows.X, rows.label if encoded else rows.y) for rows in inputs.evals]
    given["eval_set"] = sets[0] if told["bare"] and len(sets) == 1 and not encoded else sets
    if told["weights"] and inputs.evals[0].given is not None:
        name = (
            "sample_weight_eval_set"
            if encoded and inputs.case["engine"] == "xgboost"
            else "eval_sample_weight"
        )
        given[name] = [rows.given for rows in inputs.evals]
    if inputs.case["engine"] == "lightgbm":
        import lightgbm

        named = {
            "logloss": "binary_logloss",
            "error": "binary_error",
            "several": ["auc", "binary_error"],
            "function": brier_for_lightgbm,
        }
        given["eval_metric"] = named.get(told["metric"], told["metric"])
        if told["stop"]:
            given["callbacks"] = [lightgbm.early_stopping(told["stop"], verbose=False)]
    return given


def stock_fit(
    inputs: Inputs,
    folder: Path,
    options: bool = True,
    base_score: float | None = None,
    **further: Any,
) -> Any:
    """The plain engine on the same rows, with labels 0 and 1."""
    extra = _stops(inputs) | ({} if base_score is None else {"base_score": base_score})
    told = copy.copy(inputs)
    told.case = {**inputs.case}
    told.classes = [0, 1]
    arguments = fit_arguments(inputs, encoded=True)
    if not options:
        plain = {"enable_categorical": True} if inputs.case["engine"] == "xgboost" else {}
        told.case["options"] = {"n_estimators": 3, **plain}
        extra = {}
        arguments = {"sample_weight": inputs.train.given}
    engine = make_engine(told, folder, extra)
    if inputs.case["engine"] == "xgboost":
        arguments["verbose"] = False
    return engine.fit(inputs.train.X, inputs.train.label, **arguments, **further)


def _judge_error(
    fitted: Fitted, error: Exception, result: dict[str, Any], tell: Callable[[str], None]
) -> None:
    """Whether an error may be raised: one of ours, or the engine's own for its own option."""
    result["why"] = f"{type(error).__name__}: {error}"
    if isinstance(error, FairboostError):
        result["outcome"] = "refused" if not result["failures"] else "failed"
        _note(result, "errors", lambda: expect(len(str(error)) > 20, f"says little: {error}"))
        return
    result["outcome"] = "engine's error"
    _note(result, "errors", lambda: _engine_says_so(fitted, error, tell))


def _engine_says_so(fitted: Fitted, error: Exception, tell: Callable[[str], None]) -> None:
    raw = f"{type(error).__name__}: {error}"
    trace = "".join(traceback.format_exception(error))[-3_000:]
    tell("stock, of a foreign error")
    try:
        stock_fit(fitted.inputs, fitted.folder)
    except Exception:
        tell("stock with no options, of a foreign error")
        try:
            stock_fit(fitted.inputs, fitted.folder, options=False)
        except Exception as of_data:  # which may have a fault of its own beside the option's
            about_data = _first_line(of_data) == _first_line(error)
            message = f"the engine's raw error about the data: {raw}\n{trace}"
            expect(not about_data, message)
        return
    raise Broken(f"not an error of ours, and the stock engine fits: {raw}\n{trace}") from error


def _first_line(error: Exception) -> str:
    """What an error says, without the time and the place in the source."""
    return re.sub(r"^\[[\d:]+\] \S+: ", "", str(error).split("\n")[0])


def _no_score(fitted: Fitted) -> str:
    """Whether the booster itself has no score for test rows, but one for all training rows."""
    X, booster = fitted.inputs.test.X, fitted.model.booster_
    expect(np.isnan(booster.predict(X)).any(), "a score is refused that the booster has")
    try:
        fitted.scores(fitted.inputs.train.X)
    except InvalidInputError as error:
        raise Broken(f"fit accepts a model without scores of training rows: {error}") from error
    return "no score"


UNSEEN = "XGBoost would take it for one of these"


def _unseen_category(fitted: Any) -> str:
    """Whether test rows have a category that training rows do not even list."""
    inputs = fitted.inputs
    train, test = (as_one_set_of_categories(t.X) for t in (inputs.train, inputs.test))
    unseen = [
        set(test[name].dropna()) - set(train[name].cat.categories)
        for name in train.select_dtypes("category")
    ]
    expect(any(unseen), "a category is refused that the training rows have")
    fitted.scores(inputs.train.X)
    return "unseen category"


# Inputs and warnings
# -----------------------------------------------------------------------


def freeze(inputs: Inputs) -> list[Any]:
    """Copies of all that is passed."""
    return [copy.deepcopy(part) for part in _passed(inputs)]


def _passed(inputs: Inputs) -> list[Any]:
    parts = [inputs.train, inputs.held, *inputs.evals]
    return [
        item
        for rows in parts
        if rows is not None
        for item in (rows.X, rows.y, rows.groups, rows.given)
    ]


def _same_inputs(inputs: Inputs, before: list[Any]) -> None:
    for k, (now, then) in enumerate(zip(_passed(inputs), before, strict=True)):
        expect(same(now, then), f"argument {k} ({type(now).__name__}) was modified")


def same(a: Any, b: Any) -> bool:
    """Whether two tables, columns or lists are equal, in kind too."""
    if type(a) is not type(b):
        return False
    if isinstance(a, np.ndarray):
        if a.dtype != b.dtype:
            return False
        if a.dtype == object:
            return same(a.ravel().tolist(), b.ravel().tolist())
        return bool(np.array_equal(a, b, equal_nan=a.dtype.kind in "fc"))
    if isinstance(a, pd.DataFrame | pd.Series):
        return bool(a.equals(b)) and a.index.equals(b.index)
    if sp.issparse(a):
        return same(a.data, b.data)
    if isinstance(a, dict):
        return list(a) == list(b) and all(same(a[k], b[k]) for k in a)
    if isinstance(a, list | tuple):
        return len(a) == len(b) and all(
            x is y or x == y or x != x for x, y in zip(a, b, strict=True)
        )
    if hasattr(a, "equals"):
        return bool(a.equals(b)) or pickle.dumps(a) == pickle.dumps(b)
    return bool(a is b or a == b) if a.__class__.__name__ != "LazyFrame" else True


def _warned(caught: list[warnings.WarningMessage], left: bool) -> None:
    expect(left, "fit leaves warnings.filters changed")
    numeric = [str(w.message) for w in caught if issubclass(w.category, RuntimeWarning)]
    where = [
        f"{Path(w.filename).name}:{w.lineno}"
        for w in caught
        if issubclass(w.category, RuntimeWarning)
    ]
    expect(not numeric, f"{len(numeric)} RuntimeWarnings, first: {numeric[:1]} at {where[:1]}")
    expect(
        len(caught) <= 20, f"{len(caught)} warnings, last: {caught[-1].message if caught else ''}"
    )


# Decisions, scores and files
# -----------------------------------------------------------------------


def check_numbers(fitted: Fitted) -> None:
    """No NaN, no infinity."""
    model = fitted.model
    for rows in (fitted.inputs.test, fitted.inputs.train):
        proba = np.asarray(model.predict_proba(rows.X))
        expect(proba.shape == (len(rows), 2), f"predict_proba has shape {proba.shape}")
        expect(
            np.isfinite(proba).all(), f"{(~np.isfinite(proba)).sum()} probabilities are not finite"
        )
        expect(((proba >= 0) & (proba <= 1)).all(), "probabilities beyond 0 and 1")
        expect(np.allclose(proba.sum(axis=1), 1), "probabilities do not add up to 1")
        decided = model.decision_function(rows.X)
        expect(not np.isnan(decided).any(), "decision_function has NaN")
    expect(math.isfinite(model.threshold_), f"threshold_ is {model.threshold_}")
    expect(np.isfinite(model.multipliers_.to_numpy()).all(), "multipliers_ are not finite")
    trace = model.trace_
    bad = [c for c in trace if not np.isfinite(trace[c].to_numpy(np.float64)).all()]
    expect(not bad, f"trace_ is not finite in {bad[:4]}")
    report = model.fairness_report_
    if report is not None:
        expect(str(report) and report._repr_html_(), "the report prints nothing")
        figures = report.rates[report.rates["rows"] > 0].select_dtypes("number")
        expect(np.isfinite(figures.to_numpy()).all(), f"rates are not finite:\n{report.rates}")
        for v in report.verdicts:
            finite = np.isfinite([v.value, v.low, v.high, v.limit]).all()
            expect(finite, f"a verdict is not finite: {v!r}")


def check_decisions(fitted: Fitted) -> None:
    """One rule decides, whoever asks."""
    model = fitted.model
    known = np.asarray(model.classes_)
    expect(len(known) == 2, f"classes_ are {known}")
    for name, rows in (("test", fitted.inputs.test), ("train", fitted.inputs.train)):
        p, said = fitted.scores(rows.X), says_positive(model, rows.X)
        beside = said != (p >= model.threshold_)
        first = int(np.argmax(beside))
        expect(
            not beside.any(),
            f"predict is not p >= threshold_ on {beside.sum()} {name} rows: p = {p[first]!r}, "
            f"threshold_ = {model.threshold_!r}",
        )
        apart = model.decision_function(rows.X)  # above 0 for the larger label
        sign = said != (apart >= 0 if model.pos_label_ == known[1] else apart <= 0)
        expect(not sign.any(), f"predict is not the sign of decision_function, {sign.sum()} rows")


def check_saved(fitted: Fitted) -> None:
    """Save and load."""
    model, X = fitted.model, fitted.inputs.test.X
    path = fitted.folder / "model.json"
    model.save(path)
    again = fairboost.load(path)
    equal_scores(positive(model, X), positive(again, X), 0.0, "loaded")
    expect((model.predict(X) == again.predict(X)).all(), "the loaded model decides otherwise")
    expect(again.threshold_ == model.threshold_, f"{again.threshold_!r} != {model.threshold_!r}")
    expect(again.classes_.dtype == model.classes_.dtype, f"{again.classes_.dtype}")
    expect(str(again.fairness_report_) == str(model.fairness_report_), "another report")
    expect(again.trace_.equals(model.trace_), "another trace_")
    json.loads(path.read_text())


def check_exported(fitted: Fitted) -> bool | None:
    """The stock engine reads the file and scores and decides alike."""
    lightgbm_ = fitted.case["engine"] == "lightgbm"
    path = fitted.folder / ("model.txt" if lightgbm_ else "export.json")
    model, X = fitted.model, fitted.inputs.test.X
    try:
        model.export(path)
    except ExportError:
        expect(fitted.case["fair"].get("iterate") == "randomized", "export was refused")
        return False
    p, threshold = (_by_lightgbm if lightgbm_ else _by_xgboost)(path, X, fitted)
    ours = fitted.scores(X)
    equal_scores(ours, p, 1e-12 if lightgbm_ else 1e-6, "exported")
    beside = (p >= threshold) != says_positive(model, X)
    first = int(np.argmax(beside))
    expect(
        not beside.any(),
        f"the exported model decides otherwise on {beside.sum()} rows: p = {p[first]!r} there, "
        f"{ours[first]!r} here, threshold {threshold!r}, threshold_ {model.threshold_!r}",
    )
    return None


def _by_lightgbm(path: Path, X: Any, fitted: Fitted) -> tuple[np.ndarray, float]:
    import lightgbm

    line = next(s for s in path.read_text().splitlines() if s.startswith("fairboost_threshold="))
    # Options of prediction travel with the estimator, not with the file.
    shape = (
        {"predict_disable_shape_check": True}
        if "predict_disable_shape_check" in fitted.case["options"]
        else {}
    )
    if fitted.case["container"] == "object":
        X = X.astype(np.float64)  # LightGBM would read objects in single precision, we do not
    p = lightgbm.Booster(model_file=path).predict(X, **shape)
    return np.asarray(p, np.float64), float(line.partition("=")[2])


def _by_xgboost(path: Path, X: Any, fitted: Fitted) -> tuple[np.ndarray, float]:
    import xgboost

    booster = xgboost.Booster(model_file=path)
    missing = fitted.case["options"].get("missing", np.nan)
    if fitted.case["container"] == "polars" and "category" in fitted.case["features"]:
        X = X.to_pandas()  # XGBoost 3.4 refuses polars.Categorical
    if not (sp.issparse(X) or isinstance(X, list)):
        return booster.inplace_predict(X, missing=missing), _threshold(booster)
    rows = xgboost.DMatrix(np.array(X) if isinstance(X, list) else X, missing=missing)
    return booster.predict(rows), _threshold(booster)


def _threshold(booster: Any) -> float:
    return float(booster.attr("fairboost_threshold"))


def check_pickled(fitted: Fitted) -> None:
    """Pickle and clone."""
    model, X = fitted.model, fitted.inputs.test.X
    again = pickle.loads(pickle.dumps(model))
    equal_scores(positive(model, X), positive(again, X), 0.0, "unpickled")
    expect((model.predict(X) == again.predict(X)).all(), "the unpickled model decides otherwise")
    fresh = clone(model)
    expect(not hasattr(fresh, "_model"), "clone is fitted")
    expect(list(fresh.get_params()) == list(model.get_params()), "clone has other parameters")
    copied = copy.deepcopy(model)
    equal_scores(positive(model, X), positive(copied, X), 0.0, "copied")


def check_pieces(fitted: Fitted) -> bool | None:
    """Few rows at a time, and all of them backwards: categories then occur in another order."""
    X = fitted.inputs.test.X
    if "missing" in fitted.case["options"] and "category" in str(fitted.case["features"]):
        return False  # to XGBoost the category of that number is missing
    whole = fitted.scores(X)
    first = np.arange(min(7, len(whole)))
    some = fitted.scores(take_rows(by_row(X), first))
    within = 0.0 if fitted.case["engine"] == "lightgbm" else 1e-6  # XGBoost sums in blocks
    equal_scores(whole[first], some, within, "rows by themselves")
    backwards = fitted.scores(fitted.inputs.test.backwards)
    equal_scores(whole[::-1], backwards, within, "rows in another order")
    return None


def check_threads(fitted: Fitted) -> bool | None:
    """Several threads at once."""
    X = fitted.inputs.test.X
    if fitted.case["container"] == "polars" and "many categories" in fitted.case["features"]:
        return False  # threads that ask polars for the type of an Enum may wait for each other
    alone = fitted.scores(X)
    with ThreadPoolExecutor(4) as pool:
        for found in pool.map(lambda _: fitted.scores(X), range(12)):
            equal_scores(alone, found, 0.0, "another thread")
    return None


def equal_scores(a: np.ndarray, b: np.ndarray, within: float, what: str) -> None:
    """Raise if probabilities are further apart."""
    a, b = np.asarray(a, np.float64), np.asarray(b, np.float64)
    apart = np.abs(a - b)
    apart[np.isnan(a) & np.isnan(b)] = 0.0
    worst = float(apart.max(initial=0.0))
    expect(
        worst <= within, f"{what}: scores differ by {worst:.3g} ({(apart > within).sum()} rows)"
    )


# Training once more
# -----------------------------------------------------------------------


def check_again(fitted: Fitted) -> None:
    """The same call gives the same model."""
    again = (
        clone(fitted.model)
        if not fitted.case["frozen"]
        else make_model(fitted.inputs, fitted.folder)
    )
    again.fit(*fit_rows(fitted.inputs), **fit_arguments(fitted.inputs))
    _same_model(fitted, fitted.inputs, again, 0.0, "the same call")


def check_renamed(fitted: Fitted) -> bool | None:
    """Other names of groups, sorted as the old ones."""
    return _renamed(fitted, "kept", 0.0)


def check_reordered(fitted: Fitted) -> bool | str | None:
    """Other names of groups, sorted the other way: sums are in another order."""
    try:
        return _renamed(fitted, "reversed", 1e-6)
    except Broken:
        inputs = fitted.inputs
        for seed in range(8):  # may be what rounding alone does to this model
            again = make_model(inputs, fitted.folder)
            moved = _rounded(inputs, seed)
            again.fit(*fit_rows(moved), **fit_arguments(moved))
            there = positive(again, inputs.test.X)
            if np.abs(there - fitted.scores(inputs.test.X)).max() > 1e-6:
                return "rounding, other names"
        raise


def _renamed(fitted: Fitted, how: str, within: float) -> bool | None:
    told = {**fitted.case, "checks": []}
    told["groups"] = [{**g, "kind": "str"} for g in told["groups"]]
    if told["groups_in"] == "none":
        return False
    inputs = build(told, fitted.folder, rename=how)
    again = make_model(inputs, fitted.folder)
    again.fit(*fit_rows(inputs), **fit_arguments(inputs))
    _same_model(fitted, inputs, again, within, f"names {how}")
    return None


def _same_model(fitted: Fitted, inputs: Inputs, again: Any, within: float, what: str) -> None:
    here, there = fitted.scores(fitted.inputs.test.X), positive(again, inputs.test.X)
    equal_scores(here, there, within, what)
    apart = abs(fitted.model.threshold_ - again.threshold_)
    expect(apart <= within, f"{what}: thresholds differ by {apart:.3g}")
    old, new = fitted.model.fairness_report_, again.fairness_report_
    if old is not None:
        said = [
            sorted((v.measure, round(v.value, 9), v.status) for v in r.verdicts)
            for r in (old, new)
        ]
        expect(said[0] == said[1], f"{what}: other verdicts, {said[0]} and {said[1]}")


def check_plain(fitted: Fitted) -> bool | str | None:
    """No constraint, no difference."""
    inputs, told = fitted.inputs, fitted.case["options"]
    dart = told.get("boosting_type") == "dart"  # LightGBM's, which may drop the average as well
    if fitted.case["frozen"] or dart:
        return False
    fitted.tell("stock")
    try:
        stock = stock_fit(inputs, fitted.folder)
        theirs = np.asarray(stock.predict_proba(inputs.test.X))[:, 1]
    except Exception:
        return False  # what the stock engine does not take
    fitted.tell("plain")
    fair = {
        k: v
        for k, v in fitted.case["fair"].items()
        if k in ("proxy", "multipliers", "memberships") and not fitted.case["paper"]
    }
    if fitted.case["pos_label"] is not None:
        fair["pos_label"] = inputs.classes[1]
    engine = make_engine(inputs, fitted.folder, _stops(inputs))
    ours = FairGBMClassifier(engine, constraint=None, **fair)
    arguments = {k: v for k, v in fit_arguments(inputs).items() if k != "holdout_set"}
    ours.fit(*fit_rows(inputs), **arguments)
    found = positive(ours, inputs.test.X)
    apart = float(np.abs(theirs - found).max())
    if apart <= 1e-6:
        return None
    if told.get("boost_from_average") is False:
        from_zero = stock_fit(inputs, fitted.folder, init_score=np.zeros(len(inputs.train)))
        score = expit(from_zero.predict(inputs.test.X, raw_score=True))
        if np.abs(score - found).max() <= 1e-6:
            return "no first split"
    moved = 0.0
    if fitted.case["engine"] == "xgboost":
        by_user = by_own_objective(fitted, stock)
        moved = float(np.abs(by_user - theirs).max())
        if (np.abs(by_user - found) <= 1e-6).all() or apart <= 10 * moved:
            seeded = told.get("seed_per_iteration") and DROPS & set(told)
            return "seeded drops" if seeded else "rounding"
    for seed in range(24):  # as far as rounding alone moves the plain engine, so may we be
        moved = max(moved, _stock_moved(fitted, theirs, seed))
        if apart <= 10 * moved:
            return "rounding"
    raise Broken(
        f"against the plain engine: scores differ by {apart:.3g}, and by {moved:.3g} if its "
        "gradients or weights are rounded otherwise"
    )


DROPS = {"booster", "rate_drop", "one_drop", "skip_drop"}
"""Options by which XGBoost may draw trees to drop."""


def by_own_objective(fitted: Fitted, stock: Any) -> np.ndarray:
    """Scores of plain XGBoost whose logistic objective is written by a user.

    In double precision, and then rounded to single: XGBoost's own computes in single precision.
    """
    import xgboost

    factor = fitted.case["options"].get("scale_pos_weight", 1.0)

    def logistic(scores: np.ndarray, rows: Any) -> tuple[np.ndarray, np.ndarray]:
        y, p = rows.get_label(), expit(scores.astype(np.float64))
        weight = np.where(y == 1, factor, 1.0)
        if rows.get_weight().size:
            weight = weight * rows.get_weight()
        return tuple(
            (weight * g).astype(np.float32) for g in (p - y, np.maximum(p * (1 - p), 1e-16))
        )

    def train(*args: Any, **kwargs: Any) -> Any:
        return xgboost.train(*args, **{**kwargs, "obj": logistic})

    # Where boosting starts XGBoost finds out for its own objectives only.
    start = float(np.ravel(stock.intercept_)[0])
    with patch("xgboost.sklearn.train", train):
        again = stock_fit(fitted.inputs, fitted.folder, base_score=start)
    return np.asarray(again.predict_proba(fitted.inputs.test.X))[:, 1]


def _rounded(inputs: Inputs, seed: int) -> Inputs:
    """The same inputs, with weights that differ in the last digits of single precision.

    Every other time by label: rows of one score and label have the same gradient, which is rounded
    one way for all of them.
    """
    moved, rng = copy.copy(inputs), np.random.default_rng(seed)
    digit = 1e-7 if seed % 2 else 1e-6
    which = inputs.train.label if seed % 4 > 1 else np.arange(len(inputs.train))
    weight = inputs.train.counted * (1 + digit * rng.uniform(-1, 1, len(inputs.train))[which])
    moved.train = replace(inputs.train, weight=weight, given=weight)
    return moved


def _stock_moved(fitted: Fitted, theirs: np.ndarray, seed: int) -> float:
    stock = stock_fit(_rounded(fitted.inputs, seed), fitted.folder)
    there = np.asarray(stock.predict_proba(fitted.inputs.test.X))[:, 1]
    return float(np.abs(there - theirs).max())


class Stop(BaseException):
    """Stands for Ctrl-C."""


def check_interrupted(fitted: Fitted) -> bool | None:
    """Interrupt a refit on other labels."""
    if fitted.case["engine"] != "lightgbm" or fitted.case["frozen"]:
        return False
    model, inputs = fitted.model, fitted.inputs
    before = fitted.scores(inputs.test.X), np.asarray(model.classes_).tolist(), model.threshold_

    def stop(env: Any) -> None:
        if env.iteration >= 1:
            raise Stop

    arguments = fit_arguments(inputs)
    arguments["callbacks"] = [stop]
    if "holdout_set" in arguments:
        held = arguments["holdout_set"]
        arguments["holdout_set"] = (held[0], np.where(inputs.held.label == 1, "p", "o"), *held[2:])
    arguments.pop("eval_set", None)
    arguments.pop("eval_sample_weight", None)
    arguments.pop("eval_metric", None)
    try:
        model.fit(inputs.train.X, np.where(inputs.train.label == 1, "p", "o"), **arguments)
    except (Stop, FairboostError):
        pass
    except ValueError:  # such as class_weight of the old labels
        pass
    else:
        return False  # too few rounds
    equal_scores(before[0], fitted.scores(inputs.test.X), 0.0, "after an interrupted refit")
    known = np.asarray(model.classes_).tolist()
    expect(known == before[1], f"classes_ are {known}, were {before[1]}")
    expect(model.threshold_ == before[2], "threshold_ is another")
    return None


COSTLY = ("again", "renamed", "plain", "interrupted", "threads")


CHECKS: dict[str, Callable[[Fitted], Any]] = {
    "numbers": check_numbers,
    "decisions": check_decisions,
    "rates": rates.check_rates,
    "operating point": rates.check_point,
    "verdicts": rates.check_verdicts,
    "saved": check_saved,
    "exported": check_exported,
    "pickled": check_pickled,
    "pieces": check_pieces,
    "threads": check_threads,
    "again": check_again,
    "renamed": check_renamed,
    "reordered": check_reordered,
    "plain": check_plain,
    "interrupted": check_interrupted,
}
