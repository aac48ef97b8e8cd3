"""Bad input to ``FairGBMRegressor`` raises before training, and says what is wrong."""

from __future__ import annotations

import lightgbm
import numpy as np
import pandas as pd
import pytest
import xgboost
from lightgbm import LGBMClassifier, LGBMRegressor
from sklearn.exceptions import NotFittedError
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LinearRegression, LogisticRegression
from xgboost import XGBClassifier, XGBRegressor

from fairboost import FairGBMClassifier, FairGBMRegressor, bound, load, parity
from fairboost.engines.xgboost.lockstep import XGBoostBoosters
from fairboost.exceptions import ConstraintError, EngineOptionError, InvalidInputError

N = 120
rng = np.random.default_rng(0)
X = rng.normal(size=(N, 3))
Y = rng.gamma(2.0, np.exp(0.4 * X[:, 0]))
GROUP = np.where(np.arange(N) % 3 == 0, "b", "a")
LABELS = (GROUP == "b").astype(int)
YEARS = rng.uniform(0.2, 2.0, N)

ENGINES = {
    "lightgbm": {
        "squared": LGBMRegressor(),
        "poisson": LGBMRegressor(objective="poisson"),
        "gamma": LGBMRegressor(objective="gamma"),
    },
    "xgboost": {
        "squared": XGBRegressor(),
        "poisson": XGBRegressor(objective="count:poisson"),
        "gamma": XGBRegressor(objective="reg:gamma"),
    },
}
MEANS = {"constraint": "equal_means", "tolerance": 0.1}


@pytest.fixture(params=ENGINES)
def engines(request, monkeypatch):
    """The estimators of an engine, which must not be asked to train."""

    def train(*args, **kwargs):
        raise AssertionError("the engine was asked to train")

    monkeypatch.setattr(lightgbm, "train", train)
    monkeypatch.setattr(xgboost, "train", train)
    monkeypatch.setattr(XGBoostBoosters, "update", train)
    return ENGINES[request.param]


def refuses(error, match, estimator, *, X=X, y=Y, sensitive_features=GROUP, params=MEANS, **fit):
    """Fit with one thing wrong; check that it raises and that nothing is fitted."""
    model = FairGBMRegressor(estimator, **params)
    with pytest.raises(error, match=match):
        model.fit(X, y, sensitive_features=sensitive_features, **fit)
    with pytest.raises(NotFittedError):
        model.predict(X)
    assert not hasattr(model, "trace_")


def with_one(values, bad, row=3):
    """The same values but for one row."""
    changed = np.array(values, np.float64)
    changed[row] = bad
    return changed


def test_the_engines_would_train_otherwise(engines):
    for estimator in engines.values():
        with pytest.raises(AssertionError, match="asked to train"):
            FairGBMRegressor(estimator, **MEANS).fit(X, Y, sensitive_features=GROUP)


# Targets


@pytest.mark.parametrize(
    ("y", "match"),
    [
        (with_one(Y, np.nan), "y must be finite numbers without NaN, found nan in row 3"),
        (with_one(Y, np.inf), "found inf in row 3; leave out the 1 rows"),
        (with_one(Y, 1e300), "single precision"),
        ([None, *Y[1:]], "found nan in row 0"),
        (pd.array([pd.NA, *Y[1:]], dtype="Float64"), "found nan in row 0"),
        (["text"] * N, "y must be a column of numbers, found list that holds something else"),
        ([str(v) for v in Y], "<U.* are not numbers. Convert it, or use FairGBMClassifier"),
        (pd.Series([str(v) for v in Y], dtype=object), "are not numbers"),
        (pd.Series(pd.date_range("2020", periods=N)), "datetime64.* are not numbers"),
        (Y + 0j, "complex128 are not numbers"),
        (np.c_[Y, Y], r"found shape \(120, 2\); pass one number for each row"),
        (3.0, r"found shape \(\)"),
        (None, "requires y to be passed, but the target y is None"),
        ("claims", r"y is the text 'claims', .* pass the column, df\['claims'\]"),
        (Y[1:], "y has 119 rows but X has 120"),
        (np.full(N, 3.0), "y is 3 in every row that has a weight, so there is nothing to learn"),
    ],
)  # fmt: skip
def test_targets(engines, y, match):
    refuses(InvalidInputError, match, engines["squared"], y=y)


@pytest.mark.parametrize("loss", ["poisson", "gamma"])
def test_targets_that_a_loss_is_not_for(engines, loss):
    below = with_one(Y, -1.0 if loss == "poisson" else 0.0)
    refuses(InvalidInputError, "y has -1|y has 0", engines[loss], y=below)
    expected = "must be 0 or more" if loss == "poisson" else "must be above 0"
    refuses(
        InvalidInputError, f"holdout_set: y {expected} under a {loss} loss, found .* in row 3",
        engines[loss], holdout_set=(X, below, GROUP),
    )  # fmt: skip
    refuses(
        InvalidInputError, f"y of eval_set {expected} under a {loss} loss",
        engines[loss], eval_set=[(X, below)],
    )  # fmt: skip


def test_counts_that_are_all_zero(engines):
    refuses(InvalidInputError, "y is 0 in (all|every) row", engines["poisson"], y=np.zeros(N))


@pytest.mark.parametrize(
    ("n", "match"), [(0, "X has no rows, n_samples=0"), (1, "X has one sample, n_samples=1")]
)
def test_too_few_rows(engines, n, match):
    with pytest.raises(InvalidInputError, match=match):
        FairGBMRegressor(engines["squared"], constraint=None).fit(X[:n], Y[:n])


def test_rows_without_weight_tell_nothing(engines):
    y, weight = np.full(N, 3.0), np.ones(N)
    y[:5], weight[:5] = 4.0, 0.0
    match = "y is 3 in every row that has a weight"
    refuses(InvalidInputError, match, engines["squared"], y=y, sample_weight=weight)


def test_ratios_of_targets_that_cancel_out(engines):
    calibrated = {"constraint": "calibrated"}
    centred = np.where(GROUP == "b", Y - Y[GROUP == "b"].mean(), Y)
    match = "in group sensitive_feature=b y is .* on average, which cannot be distinguished from 0"
    refuses(InvalidInputError, match, engines["squared"], y=centred, params=calibrated)
    for y in (-Y, with_one(Y, -0.1)):  # of one sign, or nearly so
        with pytest.raises(AssertionError, match="asked to train"):
            FairGBMRegressor(engines["squared"], **calibrated).fit(X, y, sensitive_features=GROUP)


# Exposures


@pytest.mark.parametrize(
    ("exposure", "match"),
    [
        (with_one(YEARS, 0.0), "exposure must be above 0.*found 0 in row 3; leave out rows"),
        (with_one(YEARS, -1.0), "exposure must be above 0.*found -1 in row 3"),
        (with_one(YEARS, 1e-300), "finite in single precision, found 1e-300 in row 3"),
        (with_one(YEARS, 1e300), r"finite in single precision, found 1e\+300 in row 3"),
        (with_one(YEARS, np.nan), "exposure must be finite numbers without NaN, found nan"),
        ([None, *YEARS[1:]], "exposure must be finite numbers without NaN, found nan in row 0"),
        (["long"] * N, "exposure must be a column of numbers"),
        (YEARS[1:], "exposure has 119 rows but X has 120"),
        ("years", r"exposure is the text 'years', .* pass the column, df\['years'\]"),
        (2.0, r"found shape \(\)"),
    ],
)
def test_exposures(engines, exposure, match):
    refuses(InvalidInputError, match, engines["poisson"], exposure=exposure)


def test_exposures_need_a_log_link(engines):
    match = "exposure multiplies predictions, which takes a log link, and the loss is squared"
    refuses(InvalidInputError, match, engines["squared"], exposure=YEARS)


def test_exposures_of_some_rows_only(engines):
    refuses(
        InvalidInputError, "fit has an exposure and holdout_set has none",
        engines["poisson"], exposure=YEARS, holdout_set=(X, Y, GROUP),
    )  # fmt: skip
    refuses(
        InvalidInputError, "holdout_set has an exposure and fit has none",
        engines["poisson"], holdout_set=(X, Y, GROUP, None, YEARS),
    )  # fmt: skip
    refuses(
        InvalidInputError, "holdout_set: exposure must be above 0",
        engines["poisson"], exposure=YEARS, holdout_set=(X, Y, GROUP, None, -YEARS),
    )  # fmt: skip


def test_exposures_beside_an_evaluation_set(engines):
    others = [(X[:50], Y[:50])]
    for match, given in (
        (
            r"set 0 of eval_set has no exposures.*pass eval_exposure=\[\.\.\.\]",
            {"exposure": YEARS},
        ),
        ("eval_set has an exposure and fit has none", {"eval_exposure": [YEARS[:50]]}),
        (
            "eval_exposure has 2 items, expected one for each of the 1 sets",
            {"exposure": YEARS, "eval_exposure": [YEARS[:50], YEARS]},
        ),
        ("eval_exposure has 120 rows", {"exposure": YEARS, "eval_exposure": [YEARS]}),
        (
            "eval_exposure must be above 0.*found -.* in row 0",
            {"exposure": YEARS, "eval_exposure": [-YEARS[:50]]},
        ),
    ):
        refuses(InvalidInputError, match, engines["poisson"], eval_set=others, **given)
    match = "eval_exposure has 1 items, expected one for each of the 0 sets"
    refuses(InvalidInputError, match, engines["poisson"], exposure=YEARS, eval_exposure=[YEARS])


# Groups, weights and rows held out


@pytest.mark.parametrize(
    ("error", "match", "fit"),
    [
        (ConstraintError, "sensitive_features is missing", {"sensitive_features": None}),
        (InvalidInputError, "has 119 rows but X has 120", {"sensitive_features": GROUP[1:]}),
        (ConstraintError, "has one group only", {"sensitive_features": ["a"] * N}),
        (InvalidInputError, "sample_weight has 119 rows", {"sample_weight": YEARS[1:]}),
        (InvalidInputError, "sample_weight must not be negative", {"sample_weight": -YEARS}),
        (InvalidInputError, "at least one non-zero", {"sample_weight": 0 * YEARS}),
        (
            ConstraintError,
            "group 'sensitive_feature=b' has no held-out rows",
            {"holdout_set": (X[GROUP == "a"], Y[GROUP == "a"], GROUP[GROUP == "a"])},
        ),
        (InvalidInputError, "expected those of training", {"holdout_set": (X, Y)}),
        (
            InvalidInputError,
            "has 2 features, expected the 3",
            {"holdout_set": (X[:, 1:], Y, GROUP)},
        ),
        (InvalidInputError, "holdout_set: y has 119 rows", {"holdout_set": (X, Y[1:], GROUP)}),
        (
            InvalidInputError,
            "holdout_set: y must be finite",
            {"holdout_set": (X, Y * np.inf, GROUP)},
        ),
        (InvalidInputError, "holdout_set has no targets", {"holdout_set": (X, None, GROUP)}),
        (InvalidInputError, "must be a tuple", {"holdout_set": X}),
        (InvalidInputError, "y of eval_set must be", {"eval_set": [(X, ["text"] * N)]}),
    ],
)
def test_other_arguments(engines, error, match, fit):
    refuses(error, match, engines["squared"], **fit)


def test_cross_fitting_beside_a_set(engines):
    refuses(
        InvalidInputError, "holdout='cross' measures on the training rows",
        engines["squared"], params={**MEANS, "holdout": "cross"}, holdout_set=(X, Y, GROUP),
    )  # fmt: skip


# Parameters


@pytest.mark.parametrize(
    ("error", "match", "params"),
    [
        (InvalidInputError, "tolerance=1e.06 is larger than the range of y", {"tolerance": 1e6}),
        (ConstraintError, "tolerance must be a number, 0 or more, found -1", {"tolerance": -1}),
        (ConstraintError, "needs a tolerance in the unit of the prediction", {"tolerance": None}),
        (ConstraintError, "unknown .* mean 'equal_means'\\?$", {"constraint": "equalmeans"}),
        (ConstraintError, "unknown constraint 'fnr'.*FairGBMClassifier$", {"constraint": "fnr"}),
        (ConstraintError, "'fnr' is a rate of decisions", {"constraint": parity("fnr")}),
        (ConstraintError, "'recall' is a rate of",
         {"constraint": parity("recall"), "tolerance": None}),
        (InvalidInputError, "'best', 'last', 'average', found 'randomized'",
         {"iterate": "randomized"}),
        (InvalidInputError, "'best', 'last', 'average', found 'bets'", {"iterate": "bets"}),
        (InvalidInputError, "holdout must be 'auto', 'cross'", {"holdout": 1.5}),
        (InvalidInputError, r"confidence must lie in \(0, 1\), found 95", {"confidence": 95}),
        (InvalidInputError, "memberships must be", {"memberships": "guessed"}),
        (InvalidInputError, "min_group_rows must be", {"min_group_rows": -1}),
        (InvalidInputError, "random_state must be", {"random_state": "x"}),
        (InvalidInputError, "multiplier_learning_rate must be", {"multiplier_learning_rate": 0}),
    ],
)  # fmt: skip
def test_parameters(engines, error, match, params):
    refuses(error, match, engines["squared"], params={**MEANS, **params})


def test_a_tolerance_beyond_the_range_of_what_is_predicted_per_exposure(engines):
    width = np.ptp(Y / YEARS)
    model = FairGBMRegressor(engines["poisson"], constraint="equal_means", tolerance=1.01 * width)
    with pytest.raises(InvalidInputError, match="larger than the range of y"):
        model.fit(X, Y, sensitive_features=GROUP, exposure=YEARS)
    model.set_params(tolerance=0.99 * width)
    with pytest.raises(AssertionError, match="asked to train"):
        model.fit(X, Y, sensitive_features=GROUP, exposure=YEARS)


OF_LABELS = r"to predict labels, use FairGBMClassifier\({}\(...\)\); else pass"
OF_NUMBERS = r"to predict numbers, use FairGBMRegressor\({}\(...\)\); else pass"


@pytest.mark.parametrize(
    ("estimator", "remedy"),
    [
        (LGBMClassifier(), OF_LABELS.format("LGBMClassifier")),
        (XGBClassifier(), OF_LABELS.format("XGBClassifier")),
        (LinearRegression(), r"; pass lightgbm.LGBMRegressor\(...\)"),
        (LogisticRegression(), r"; pass lightgbm.LGBMRegressor\(...\)"),
        (LGBMRegressor, "; pass lightgbm.LGBMRegressor"),
        (FairGBMRegressor(), "FairGBMRegressor has an engine in it and cannot be one; pass"),
        (FairGBMClassifier(), "FairGBMClassifier has an engine in it and cannot be one; pass"),
    ],
    ids=lambda value: type(value).__name__,
)
def test_what_is_no_engine_of_numbers(estimator, remedy):
    match = f"(?s)must be an LGBMRegressor or XGBRegressor, found .*{remedy}"
    refuses(EngineOptionError, match, estimator)


@pytest.mark.parametrize(
    "estimator", [LGBMRegressor(), XGBRegressor()], ids=["lightgbm", "xgboost"]
)
def test_frozen_models_that_are_not_fitted(estimator):
    refuses(EngineOptionError, "is not fitted; fit it first", FrozenEstimator(estimator))


def test_frozen_classifiers():
    frozen = FrozenEstimator(LGBMClassifier(n_estimators=1, verbose=-1).fit(X, GROUP))
    match = f"must be an LGBMRegressor or XGBRegressor.*{OF_LABELS.format('LGBMClassifier')}"
    refuses(EngineOptionError, match, frozen)


def tiny(kind, **options):
    """An estimator with one tree, fitted."""
    quiet = {"verbose": -1} if kind is LGBMRegressor else {}
    return kind(**{"n_estimators": 1, "n_jobs": 1, **quiet, **options})


@pytest.mark.parametrize(
    ("kind", "objective", "other"),
    [(LGBMRegressor, "poisson", "regression"), (XGBRegressor, "reg:gamma", "reg:squarederror")],
)
def test_frozen_models_of_another_loss_than_their_options_say(kind, objective, other):
    base = tiny(kind, objective=objective).fit(X, Y)
    base.objective = other  # set_params of XGBoost would change its booster too
    match = f"was trained with objective='{objective}', but its options say '{other}'"
    refuses(EngineOptionError, match, FrozenEstimator(base))


@pytest.mark.parametrize(
    ("kind", "objective"),
    [(LGBMRegressor, "fair"), (LGBMRegressor, "mape"), (XGBRegressor, "reg:squaredlogerror")],
)
def test_frozen_models_of_a_loss_that_is_not_known(kind, objective):
    base = tiny(kind, objective=objective).fit(X, Y)
    refuses(EngineOptionError, f"objective='{objective}', expected one", FrozenEstimator(base))
    base.set_params(objective=None)  # the trees are the same
    refuses(EngineOptionError, f"trained with objective='{objective}'", FrozenEstimator(base))


def test_frozen_models_of_several_numbers():
    base = tiny(XGBRegressor).fit(X, np.c_[Y, Y])
    match = "the frozen model predicts 2 numbers for each row, expected one"
    refuses(EngineOptionError, match, FrozenEstimator(base))


@pytest.mark.parametrize("kind", [LGBMRegressor, XGBRegressor])
def test_frozen_models_of_other_features(kind):
    frame = pd.DataFrame(X, columns=list("pqr"))
    frozen = FrozenEstimator(tiny(kind).fit(frame, Y))
    refuses(InvalidInputError, "X has 2 features, but the frozen model", frozen, X=X[:, 1:])
    match = "X has the feature 'r' where the frozen model has 'p'"
    refuses(InvalidInputError, match, frozen, X=frame[["r", "q", "p"]])


# The other way round: numbers where decisions are expected


@pytest.mark.parametrize(
    "estimator", [LGBMRegressor(), XGBRegressor()], ids=["lightgbm", "xgboost"]
)
def test_a_classifier_takes_no_regressor(estimator):
    remedy = OF_NUMBERS.format(type(estimator).__name__)
    match = f"(?s)must be an LGBMClassifier or XGBClassifier.*{remedy}"
    with pytest.raises(EngineOptionError, match=match):
        FairGBMClassifier(estimator).fit(X, LABELS, sensitive_features=GROUP)


@pytest.mark.parametrize("estimator", [FairGBMRegressor(), LinearRegression()], ids=str)
def test_a_classifier_says_that_it_is_for_labels(estimator):
    with pytest.raises(EngineOptionError, match="must be an LGBMClassifier or XGBClassifier"):
        FairGBMClassifier(estimator).fit(X, LABELS, sensitive_features=GROUP)


@pytest.mark.parametrize("constraint", [parity("prediction", 0.1), bound("loss", 0.1)])
def test_a_classifier_takes_no_means_of_numbers(constraint):
    model = FairGBMClassifier(LGBMClassifier(), constraint=constraint)
    with pytest.raises(ConstraintError, match=r"is a mean of numbers.*use FairGBMRegressor"):
        model.fit(X, LABELS, sensitive_features=GROUP)


# After fit


@pytest.fixture(scope="module")
def fitted():
    engine = LGBMRegressor(objective="poisson", n_estimators=3, n_jobs=1, verbose=-1)
    model = FairGBMRegressor(engine, constraint="calibrated", tolerance=0.5)
    return model.fit(X, Y, sensitive_features=GROUP, exposure=YEARS)


@pytest.mark.filterwarnings("ignore::fairboost.exceptions.SmallCellWarning")
@pytest.mark.parametrize(
    ("exposure", "match"),
    [
        (YEARS[1:], "for each of the 120 rows, found 119 numbers"),
        (YEARS[:1], "for each of the 120 rows, found 1 numbers"),
        (-YEARS, "one number of 0 or more .* the least of them -"),
        (with_one(YEARS, np.nan), "exposure must be finite numbers"),
    ],
)
def test_exposures_of_predictions(fitted, exposure, match):
    with pytest.raises(InvalidInputError, match=match):
        fitted.predict(X, exposure=exposure)


@pytest.mark.filterwarnings("ignore::fairboost.exceptions.SmallCellWarning")
def test_reports_on_rows_that_the_loss_is_not_for(fitted):
    with pytest.raises(InvalidInputError, match="y must be 0 or more under a poisson loss"):
        fitted.report_on(X, with_one(Y, -1.0), sensitive_features=GROUP, exposure=YEARS)
    with pytest.raises(InvalidInputError, match=r"pass .*sensitive_feature.* as well"):
        fitted.report_on(X, Y, sensitive_features=None, exposure=YEARS)


@pytest.mark.filterwarnings("ignore::fairboost.exceptions.SmallCellWarning")
def test_reports_without_the_exposures_that_the_model_was_trained_with(fitted, tmp_path):
    fitted.save(tmp_path / "model.json")
    for model in (fitted, load(tmp_path / "model.json")):
        with pytest.raises(InvalidInputError, match=r"trained with exposures.*pass exposure=\.\."):
            model.report_on(X, Y, sensitive_features=GROUP)
        report = model.report_on(X, Y, sensitive_features=GROUP, exposure=YEARS)
        assert len([*report.verdicts, *report.test_verdicts]) == 1 + (model is fitted)


def test_exposures_beside_a_model_without_log_link():
    engine = LGBMRegressor(n_estimators=3, n_jobs=1, verbose=-1)
    model = FairGBMRegressor(engine, constraint=None).fit(X, Y)
    for use in (model.predict, lambda X, exposure: model.report_on(
        X, Y, sensitive_features=GROUP, exposure=exposure
    )):  # fmt: skip
        with pytest.raises(InvalidInputError, match="takes a log link, and the loss is squared"):
            use(X, exposure=YEARS)
    with pytest.raises(InvalidInputError, match="trained without constraints"):
        model.report_on(X, Y, sensitive_features=GROUP)


def test_before_fit():
    for use in (lambda m: m.predict(X), lambda m: m.report_on(X, Y, sensitive_features=GROUP)):
        with pytest.raises(NotFittedError):
            use(FairGBMRegressor())
