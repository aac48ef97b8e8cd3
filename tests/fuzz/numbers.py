"""Random fits of numbers: ``FairGBMRegressor`` on what ``cases.py`` draws, and what must hold.

Tables, groups, weights, rows held out and options of engines are drawn as for labels; losses,
targets, exposures and constraints are drawn here. Means are counted by NumPy from ``predict``,
predictions are those of the stock engine that reads the file, or that trains by itself.
"""

from __future__ import annotations

import copy
import pickle
import tempfile
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import scipy.sparse as sp
from sklearn.base import clone
from sklearn.frozen import FrozenEstimator

import fairboost
from fairboost import FairGBMRegressor, bound, parity
from fairboost.data.validation import by_row, take_rows
from fairboost.exceptions import FairboostError
from tests.fuzz import cases, fits
from tests.fuzz.inputs import Broken, Inputs, Rows, build, expect, make_engine
from tests.fuzz.workers import run as run_all
from tests.fuzz.workers import summary

INVARIANTS = {
    "numbers": "no NaN in predictions, trace_, multipliers_, means and verdicts",
    "means": "every reported mean and verdict equals that counted by NumPy from predict",
    "saved": "a saved and loaded model has the same predictions and report",
    "exported": "the exported file has the same predictions in the stock engine",
    "pickled": "a pickled model has the same predictions; clone keeps the parameters",
    "pieces": "rows have the same predictions alone and among others",
    "exposure": "predictions are in proportion to the exposure",
    "again": "the same seed gives the same model",
    "plain": "constraint=None has the predictions of the plain engine, but for rounding",
    "inputs": "nothing that was passed is modified",
    "warnings": "no RuntimeWarning, and warnings.filters are left as they were",
    "errors": "what is raised is fairboost's own, or the engine's for its own option",
    "process": "the process does not end and does not hang",
}
OBJECTIVES = {
    "squared": ("regression", "reg:squarederror"),
    "absolute": ("regression_l1", "reg:absoluteerror"),
    "quantile": ("quantile", "reg:quantileerror"),
    "huber": ("huber", "reg:pseudohubererror"),
    "poisson": ("poisson", "count:poisson"),
    "gamma": ("gamma", "reg:gamma"),
    "tweedie": ("tweedie", "reg:tweedie"),
}
LOG_LINKS = ("poisson", "gamma", "tweedie")
OF_LABELS = (
    "scale_pos_weight", "is_unbalance", "class_weight", "objective", "sigmoid", "app", "metric",
    "eval_metric", "base_score", "early_stopping_rounds", "early_stopping_round",
    "pos_bagging_fraction", "num_class", "max_delta_step",
)  # fmt: skip
"""Options that are about labels, or that are drawn here."""


def draw(seed: int, case: int) -> dict[str, Any]:
    """The case of a number in the campaign of a seed."""
    drawn = {**cases.DEFAULTS, **cases.draw(seed, case)}
    rng = np.random.default_rng([seed, case, 1])

    def one(*choices: Any) -> Any:
        return choices[int(rng.integers(len(choices)))]

    rest = ("labels", "labels_in", "pos_label", "paper")
    drawn |= {name: cases.DEFAULTS[name] for name in rest}
    drawn["loss"] = one(*OBJECTIVES)
    options = {k: v for k, v in drawn["options"].items() if k not in OF_LABELS}
    options["learning_rate"] = min(options.get("learning_rate", 0.1), 1.0)
    drawn["options"] = options
    drawn["exposed"] = bool(drawn["loss"] in LOG_LINKS and rng.random() < 0.5)
    drawn["targets"] = one("array", "array", "list", "series", "float32", "counts", "column")
    limit = float(one(0.0, 0.05, 0.3))
    drawn["constraint"] = one(
        None,
        ["equal_means"],
        ["equal_distributions"],
        ["calibrated"],
        ["equal_errors"],
        ["bounded_group_loss"],
        [["relative", limit]],
        [["parity", limit], "calibrated"],
        [["bound", 5 * limit + 0.1]],
    )
    known = ("confidence", "holdout", "memberships", "iterate", "min_group_rows", "random_state")
    fair = {k: v for k, v in drawn["fair"].items() if k in known}
    if fair.get("iterate") == "randomized":
        fair["iterate"] = "average"
    drawn["fair"] = fair | {"tolerance": limit}
    if drawn["eval"] is not None:
        drawn["eval"] = {**drawn["eval"], "metric": None}
    return drawn


def campaign(
    n: int | range, seed: int = 0, workers: int = 1, show: Callable[[str], None] | None = None
) -> dict[str, Any]:
    """Run ``n`` random fits in processes of their own, as ``fits.campaign`` does."""
    found = run_all(
        "tests.fuzz.numbers", seed, range(n) if isinstance(n, int) else n, workers, show
    )
    return summary("numbers", seed, found, INVARIANTS)


def run(seed: int, case: int | dict[str, Any], tell: Callable[[str], None]) -> dict[str, Any]:
    """Run one case of a campaign, or one that is given; ``tell`` is told what comes next."""
    return run_case(draw(seed, case) if isinstance(case, int) else case, tell)


@dataclass
class FittedNumbers:
    """A fitted case, and what checks share."""

    inputs: Inputs
    model: Any
    folder: Path
    years: dict[int, np.ndarray]
    tell: Callable[[str], None]
    counted: int = 0

    @property
    def case(self) -> dict[str, Any]:
        """The case."""
        return self.inputs.case

    def scores(self, X: Any) -> np.ndarray:
        """Predictions."""
        return np.asarray(self.model.predict(X))


def run_case(
    case: dict[str, Any], tell: Callable[[str], None] = lambda stage: None
) -> dict[str, Any]:
    """Run a case: how it went, which invariants were checked, and those that do not hold."""
    result: dict[str, Any] = {"outcome": "fitted", "checked": {}, "failures": [], "rates": 0}
    case = {"loss": "squared", "exposed": False, "targets": "array", **case}
    with tempfile.TemporaryDirectory() as name, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        tell("inputs")
        folder = Path(name)
        inputs = build(case, folder)
        inputs.case = {**case, **inputs.case}
        years = with_numbers(inputs)
        result["engine"], result["without"] = inputs.case["engine"], inputs.without
        try:
            tell("base")
            model = make_model(inputs, folder)
            fitted = FittedNumbers(inputs, model, folder, years, tell)
        except FairboostError as error:
            return result | {"outcome": "refused", "why": str(error)}
        except Exception as error:
            return result | {"outcome": "no base", "why": repr(error)}
        _fit_and_check(fitted, result, tell)
    return result


# Inputs
# -----------------------------------------------------------------------


def with_numbers(inputs: Inputs) -> dict[int, np.ndarray]:
    """Put numbers in the place of labels; returns exposures, by the identity of rows."""
    case = inputs.case
    rng = np.random.default_rng([case["data_seed"], 7])
    years = {}
    for rows in (inputs.train, inputs.held, inputs.test, inputs.base, *inputs.evals):
        if rows is None:
            continue
        exposure = rng.uniform(0.2, 3.0, len(rows)) if case["exposed"] else np.ones(len(rows))
        mean = exposure * np.exp(0.8 * rows.label - 0.4 * (rows.codes[0] == 0))
        y = np.maximum(rng.gamma(2.0, mean / 2.0), 1e-3)
        if case["targets"] == "counts":
            y = np.round(y) + (case["loss"] == "gamma")
        if case["loss"] not in LOG_LINKS and case["data_seed"] % 2:
            y = 3.0 - y
        rows.y = _contained(case, y)
        years[id(rows)] = exposure
    return years


def _contained(case: dict[str, Any], y: np.ndarray) -> Any:
    kind = case["targets"]
    if kind == "list":
        return y.tolist()
    if kind == "series":
        index = case["container"] == "pandas index"
        found = pd.Series(y, name="y")
        shuffled = np.random.default_rng(1).permutation(len(y)) + 7  # as that of the table
        return found.set_axis(shuffled, axis=0) if index else found
    if kind == "float32":
        return y.astype(np.float32)
    if kind == "counts":
        return y.astype(np.int64)
    return y.reshape(-1, 1) if kind == "column" else y


def plain_y(rows: Rows) -> np.ndarray:
    """Targets as numbers."""
    return np.ravel(np.asarray(rows.y, np.float64))


def engine(inputs: Inputs, folder: Path, **extra: Any) -> Any:
    """The regressor of the engine, with the options that were drawn."""
    from lightgbm import LGBMRegressor

    case = inputs.case
    told = make_engine(inputs, folder, extra).get_params()
    second = case["engine"] == "xgboost"
    told["objective"] = OBJECTIVES[case["loss"]][second]
    if case["loss"] == "quantile":
        told["quantile_alpha" if second else "alpha"] = 0.6
    if case["engine"] == "lightgbm":
        return LGBMRegressor(**told)
    from xgboost import XGBRegressor

    return XGBRegressor(**told)


def make_model(inputs: Inputs, folder: Path) -> Any:
    """The estimator of a case, unfitted."""
    case = inputs.case
    wanted = case["constraint"]
    made: list[Any] = []
    for item in wanted or ():
        kind, limit = ("name", item) if isinstance(item, str) else item
        made.append(
            {
                "name": lambda limit=limit: limit,
                "relative": lambda limit=limit: parity("prediction", limit, relative=True),
                "parity": lambda limit=limit: parity("prediction", limit),
                "bound": lambda limit=limit: bound("loss", limit),
            }[kind]()
        )
    fair = dict(case["fair"])
    if not any(isinstance(item, str) for item in wanted or ()):
        fair.pop("tolerance", None)
    constraint = None if wanted is None else made[0] if len(made) == 1 else made
    made = {"min_group_rows": 0, **fair}  # many tables are small
    return FairGBMRegressor(_estimator(inputs, folder), constraint=constraint, **made)


def _estimator(inputs: Inputs, folder: Path) -> Any:
    told, case = inputs.case["frozen"], inputs.case
    if told is None:
        return engine(inputs, folder, **_stops(inputs))
    extra: dict[str, Any] = {"n_estimators": told["rounds"]}
    if told["max_bin"]:
        extra["max_bin"] = told["max_bin"]
    rows = inputs.train if told["same rows"] else inputs.base
    quiet = {"verbose": False} if case["engine"] == "xgboost" else {}
    return FrozenEstimator(engine(inputs, folder, **extra).fit(rows.X, plain_y(rows), **quiet))


def _stops(inputs: Inputs) -> dict[str, Any]:
    """Early stopping, as both engines take it with their options."""
    told = inputs.case["eval"]
    if told is None or told["stop"] is None:
        return {}
    xgboost = inputs.case["engine"] == "xgboost"
    return {"early_stopping_rounds" if xgboost else "early_stopping_round": told["stop"]}


def fit_arguments(fitted: FittedNumbers, stock: bool = False) -> dict[str, Any]:
    """What is passed to fit beside rows and targets."""
    inputs, told = fitted.inputs, fitted.case["eval"]
    train, held, exposed = inputs.train, inputs.held, fitted.case["exposed"]
    given: dict[str, Any] = {"sample_weight": train.given if stock else train.weight}
    if not stock:
        given["sensitive_features"] = train.groups
        if exposed:
            given["exposure"] = fitted.years[id(train)]
        if held is not None:
            beside = (held.X, held.y, held.groups, held.given)
            given["holdout_set"] = beside + ((fitted.years[id(held)],) if exposed else ())
    if told is None:
        return given
    sets = [(rows.X, plain_y(rows) if stock else rows.y) for rows in inputs.evals]
    given["eval_set"] = sets[0] if told["bare"] and len(sets) == 1 and not stock else sets
    if exposed and not stock:
        given["eval_exposure"] = [fitted.years[id(rows)] for rows in inputs.evals]
    return given


# Checks
# -----------------------------------------------------------------------


def _fit_and_check(
    fitted: FittedNumbers, result: dict[str, Any], tell: Callable[[str], None]
) -> None:
    inputs = fitted.inputs
    before = fits.freeze(inputs)
    tell("fit")
    error = None
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        filters = list(warnings.filters)
        try:
            fitted.model.fit(inputs.train.X, inputs.train.y, **fit_arguments(fitted))
        except Exception as raised:
            error = raised
        left = warnings.filters == filters
    fits._note(result, "inputs", lambda: fits._same_inputs(inputs, before))
    fits._note(result, "warnings", lambda: fits._warned(caught, left))
    if error is not None:
        result["why"] = f"{type(error).__name__}: {error}"
        ours = isinstance(error, FairboostError)
        result["outcome"] = "refused" if ours else "engine's error"
        fits._note(result, "errors", lambda: ours or _engine_says_so(fitted, error))
        return
    try:
        fitted.scores(inputs.test.X)
    except Exception as raised:  # which the checks will meet too
        if fits.UNSEEN in str(raised):
            result["outcome"], result["why"] = "refused", str(raised)
            fits._note(result, "errors", lambda: fits._unseen_category(fitted))
            return
    for name, check in CHECKS.items():
        if name in ("again", "plain") and name not in inputs.case["checks"]:
            continue
        tell(name)
        fits._note(result, name, lambda check=check: check(fitted))
    result["rates"] = fitted.counted


def _engine_says_so(fitted: FittedNumbers, error: Exception) -> None:
    """Raise if the stock engine trains where fairboost has raised an error that is not its own."""
    fitted.tell("stock, of a foreign error")
    try:
        stock_fit(fitted)
    except Exception:
        return
    raise Broken(f"not an error of ours, and the stock engine fits: {error!r}") from error


def stock_fit(fitted: FittedNumbers, weight: np.ndarray | None = None, **further: Any) -> Any:
    """The plain engine on the same rows."""
    inputs = fitted.inputs
    given = fit_arguments(fitted, stock=True)
    given |= {} if weight is None else {"sample_weight": weight}
    given |= {"verbose": False} if fitted.case["engine"] == "xgboost" else {}
    made = engine(inputs, fitted.folder, **_stops(inputs))
    return made.fit(inputs.train.X, plain_y(inputs.train), **given, **further)


def check_numbers(fitted: FittedNumbers) -> None:
    """No NaN, and nothing below 0 under a log link."""
    model = fitted.model
    for rows in (fitted.inputs.test, fitted.inputs.train):
        found = model.predict(rows.X)
        expect(found.shape == (len(rows),), f"predict has shape {found.shape}")
        expect(np.isfinite(found).all(), f"{(~np.isfinite(found)).sum()} are not finite")
        if fitted.case["loss"] in LOG_LINKS:
            expect((found >= 0).all(), "a prediction is below 0 under a log link")
    expect(np.isfinite(model.multipliers_.to_numpy()).all(), "multipliers_ are not finite")
    trace = model.trace_
    bad = [c for c in trace if not np.isfinite(trace[c].to_numpy(np.float64)).all()]
    expect(not bad, f"trace_ is not finite in {bad[:4]}")
    report = model.fairness_report_
    if report is not None:
        expect(str(report) and report._repr_html_(), "the report prints nothing")
        for v in report.verdicts:
            finite = np.isfinite([v.value, v.low, v.high, v.limit]).all()
            expect(finite, f"a verdict is not finite: {v!r}")


def check_means(fitted: FittedNumbers) -> bool | None:
    """The figures of a report on test rows are those of predictions."""
    model, rows, case = fitted.model, fitted.inputs.test, fitted.case
    if model.fairness_report_ is None:
        return False
    years = fitted.years[id(rows)]
    given = {"sample_weight": rows.given, "sensitive_features": rows.groups}
    given |= {"exposure": years} if case["exposed"] else {}
    try:
        report = model.report_on(rows.X, rows.y, **given)
    except FairboostError:
        return False  # such as a group without test rows
    found = model.predict(rows.X)
    weight = rows.counted * years
    groups = [
        (f"{column}={value}", codes == k)
        for column, values, codes in zip(
            fitted.inputs.columns, fitted.inputs.values, rows.codes, strict=True
        )
        for k, value in enumerate(values)
    ]
    masks = dict(groups) if len(dict(groups)) == len(groups) else {}
    checked = 0
    for row in report.rates.to_dict("records"):
        of = masks.get(row["group"])
        if row["rate"] != "prediction" or of is None or not weight[of].sum():
            continue
        mean = np.average(found[of], weights=weight[of])
        equal = np.isclose(row["test"], mean, rtol=1e-4, atol=1e-5)
        expect(equal, f"the mean of {row['group']} is {mean}, reported {row['test']}")
        checked += 1
    fitted.counted = checked
    return None if checked else False


def check_saved(fitted: FittedNumbers) -> None:
    """Save and load."""
    model, X = fitted.model, fitted.inputs.test.X
    path = fitted.folder / "model.json"
    model.save(path)
    again = fairboost.load(path)
    fits.equal_scores(model.predict(X), again.predict(X), 0.0, "loaded")
    expect(str(again.fairness_report_) == str(model.fairness_report_), "another report")
    expect(again.trace_.equals(model.trace_), "another trace_")
    expect(again._exposed == fitted.case["exposed"], "it forgot whether it had exposures")


def check_exported(fitted: FittedNumbers) -> None:
    """The stock engine reads the file and predicts alike."""
    model, X = fitted.model, fitted.inputs.test.X
    if fitted.case["engine"] == "lightgbm":
        import lightgbm

        path = fitted.folder / "model.txt"
        model.export(path)
        if fitted.case["container"] == "object":
            X = X.astype(np.float64)
        shape = "predict_disable_shape_check"
        told = {shape: True} if shape in fitted.case["options"] else {}
        found = np.asarray(lightgbm.Booster(model_file=path).predict(X, **told))
    else:
        import xgboost

        path = fitted.folder / "export.json"
        model.export(path)
        booster = xgboost.Booster(model_file=path)
        missing = fitted.case["options"].get("missing", np.nan)
        if fitted.case["container"] == "polars" and "category" in fitted.case["features"]:
            X = X.to_pandas()
        if sp.issparse(X) or isinstance(X, list):
            rows = xgboost.DMatrix(np.array(X) if isinstance(X, list) else X, missing=missing)
            found = booster.predict(rows)
        else:
            found = booster.inplace_predict(X, missing=missing)
    close(fitted, model.predict(fitted.inputs.test.X), found, 1e-5, "exported")


def check_pickled(fitted: FittedNumbers) -> None:
    """Pickle and clone."""
    model, X = fitted.model, fitted.inputs.test.X
    again = pickle.loads(pickle.dumps(model))
    fits.equal_scores(model.predict(X), again.predict(X), 0.0, "unpickled")
    fresh = clone(model)
    expect(not hasattr(fresh, "_model"), "clone is fitted")
    expect(list(fresh.get_params()) == list(model.get_params()), "clone has other parameters")
    fits.equal_scores(model.predict(X), copy.deepcopy(model).predict(X), 0.0, "copied")


def check_pieces(fitted: FittedNumbers) -> bool | None:
    """Few rows at a time, and all of them backwards."""
    X = fitted.inputs.test.X
    if "missing" in fitted.case["options"] and "category" in str(fitted.case["features"]):
        return False  # to XGBoost the category of that number is missing
    whole = fitted.model.predict(X)
    first = np.arange(min(7, len(whole)))
    some = fitted.model.predict(take_rows(by_row(X), first))
    close(fitted, whole[first], some, 1e-5, "rows by themselves")
    backwards = fitted.model.predict(fitted.inputs.test.backwards)
    close(fitted, whole[::-1], backwards, 1e-5, "rows in another order")
    return None


def check_exposure(fitted: FittedNumbers) -> bool | None:
    """Twice the exposure, twice the prediction; none without a log link."""
    model, rows = fitted.model, fitted.inputs.test
    if fitted.case["loss"] not in LOG_LINKS:
        try:
            model.predict(rows.X, exposure=np.ones(len(rows)))
        except FairboostError:
            return None
        raise Broken("an exposure is taken without a log link")
    found = model.predict(rows.X, exposure=2.0 * fitted.years[id(rows)])
    expected = 2.0 * model.predict(rows.X) * fitted.years[id(rows)]
    close(fitted, expected, found, 1e-12, "exposure")
    return None


def check_again(fitted: FittedNumbers) -> None:
    """The same call gives the same model."""
    again = make_model(fitted.inputs, fitted.folder)
    again.fit(fitted.inputs.train.X, fitted.inputs.train.y, **fit_arguments(fitted))
    X = fitted.inputs.test.X
    fits.equal_scores(fitted.model.predict(X), again.predict(X), 0.0, "the same call")


def check_plain(fitted: FittedNumbers) -> bool | str | None:
    """No constraint, no difference: none at all if the engine sets leaves to medians itself."""
    inputs, told = fitted.inputs, fitted.case["options"]
    exact = fitted.case["loss"] in ("absolute", "quantile")
    dart = "dart" in (told.get("boosting_type"), told.get("booster"))
    if fitted.case["frozen"] or fitted.case["exposed"] or (dart and not exact):
        return False
    fitted.tell("stock")
    try:
        theirs = np.asarray(stock_fit(fitted).predict(inputs.test.X), np.float64)
    except Exception:
        return False  # what the stock engine does not take
    fitted.tell("plain")
    made = engine(inputs, fitted.folder, **_stops(inputs))
    given = {k: v for k, v in fit_arguments(fitted).items() if k != "holdout_set"}
    ours = FairGBMRegressor(made, constraint=None, iterate="last")
    found = ours.fit(inputs.train.X, inputs.train.y, **given).predict(inputs.test.X)
    if exact:
        expect((found == theirs).all(), f"not the plain engine's: {np.abs(found - theirs).max()}")
        return None
    size = np.abs(theirs).max()
    apart = np.abs(found - theirs).max() / size
    if apart <= 1e-5:
        return None
    if told.get("boost_from_average") is False:
        from_zero = stock_fit(fitted, init_score=np.zeros(len(inputs.train)))
        score = from_zero.predict(inputs.test.X, raw_score=True)
        there = np.exp(score) if fitted.case["loss"] in LOG_LINKS else score
        if np.abs(there - found).max() / size <= 1e-5:
            return "no first split"
    rng, moved = np.random.default_rng(0), 0.0
    for digit in (1e-7, 1e-6) * 8:  # as far as rounding alone moves the plain engine
        weight = inputs.train.counted * (1 + digit * rng.uniform(-1, 1, len(inputs.train)))
        there = np.asarray(stock_fit(fitted, weight).predict(inputs.test.X))
        moved = max(moved, float(np.abs(there - theirs).max() / size))
        if apart <= 10 * moved:
            return "rounding"
    raise Broken(f"against the plain engine: {apart:.3g} of the largest, {moved:.3g} by rounding")


def close(fitted: FittedNumbers, a: np.ndarray, b: np.ndarray, within: float, what: str) -> None:
    """Raise if predictions are further apart than a share of the largest."""
    size = max(float(np.abs(a).max(initial=0.0)), 1.0)
    within = 1e-12 if fitted.case["engine"] == "lightgbm" else within
    fits.equal_scores(np.asarray(a) / size, np.asarray(b, np.float64) / size, within, what)


CHECKS: dict[str, Callable[[FittedNumbers], Any]] = {
    "numbers": check_numbers,
    "means": check_means,
    "saved": check_saved,
    "exported": check_exported,
    "pickled": check_pickled,
    "pieces": check_pieces,
    "exposure": check_exposure,
    "again": check_again,
    "plain": check_plain,
}
