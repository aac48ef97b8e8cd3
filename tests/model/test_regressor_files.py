"""Files of ``FairGBMRegressor``; those of classifiers are in ``test_files.py``."""

from __future__ import annotations

import copy
import json
import pickle
import random
import warnings
from contextlib import suppress
from pathlib import Path

import lightgbm
import numpy as np
import pandas as pd
import pytest
from lightgbm import LGBMRegressor
from sklearn.base import clone
from sklearn.frozen import FrozenEstimator

from fairboost import FairGBMClassifier, FairGBMRegressor, bound, load, parity
from fairboost._files import checksum
from fairboost.exceptions import ConstraintError, ModelFileError
from fairboost.fairness.means import NUMBERS, above
from fairboost.fairness.numbers import Calibrated, EachAtMost, SameDistribution
from fairboost.kernel.losses import Loss
from fairboost.model import self_test
from fairboost.model.files import DECIDING

SMALL = {"n_estimators": 6, "n_jobs": 1, "random_state": 0}
LOSSES = {
    "lightgbm": [
        {"objective": "regression"},
        {"objective": "mae"},
        {"objective": "huber", "alpha": 0.4},
        {"objective": "quantile", "alpha": 0.3},
        {"objective": "poisson"},
        {"objective": "gamma"},
        {"objective": "tweedie", "tweedie_variance_power": 1.2},
    ],
    "xgboost": [
        {"objective": "reg:squarederror"},
        {"objective": "reg:absoluteerror"},
        {"objective": "reg:pseudohubererror", "huber_slope": 0.4},
        {"objective": "reg:quantileerror", "quantile_alpha": 0.3},
        {"objective": "count:poisson"},
        {"objective": "reg:gamma"},
        {"objective": "reg:tweedie", "tweedie_variance_power": 1.2},
    ],
}


def make(kind, **options):
    """Make a small, quiet engine on one thread."""
    if kind == "lightgbm":
        return LGBMRegressor(**{**SMALL, "num_leaves": 7, "verbose": -1, **options})
    xgboost = pytest.importorskip("xgboost")
    small = {**SMALL, "max_depth": 3, "enable_categorical": True}
    return xgboost.XGBRegressor(**{**small, **options})


class AtMostOne:
    """A constraint of the user's own: no group's mean prediction above 1."""

    moments = ("prediction",)
    by = None
    description = "AtMostOne()"

    def violations(self, moments):
        return moments.values[0] - 1.0

    def pullback(self, moments, multipliers):
        return multipliers[np.newaxis]


@pytest.fixture(scope="module")
def costs(toy):
    """Positive numbers, larger in group "a"."""
    mean = np.exp(0.4 * toy.X[:, 0] + 0.4 * (toy.group == "a"))
    return np.random.default_rng(0).gamma(2.0, mean / 2) + 0.01


@pytest.fixture(scope="module")
def columns(toy):
    return pd.DataFrame({"sex": toy.group, "region": np.arange(len(toy)) % 2})


@pytest.fixture(scope="module")
def fair(toy, costs):
    def fit(X=None, *, groups=None, engine=None, rest=None, **params):
        params = {"constraint": "equal_distributions", "random_state": 0, **params}
        model = FairGBMRegressor(make("lightgbm") if engine is None else engine, **params)
        groups = toy.group if groups is None else groups
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", category=UserWarning)  # few rounds meet little
            table = toy.X if X is None else X
            return model.fit(table, costs, sensitive_features=groups, **(rest or {}))

    return fit


@pytest.fixture
def path(tmp_path):
    return tmp_path / "model.json"


@pytest.fixture
def saved(fair, path):
    fair().save(path)
    return path


def round_trip(model, path):
    model.save(path)  # warnings are errors here
    return load(path)


def assert_same(loaded, model, X):
    assert type(loaded) is FairGBMRegressor
    predicted = loaded.predict(X)
    np.testing.assert_array_equal(predicted, model.predict(X))
    assert predicted.dtype == np.float64
    assert loaded._loss_terms == model._loss_terms
    assert loaded.best_iteration_ == model.best_iteration_
    assert loaded.n_features_in_ == model.n_features_in_
    assert str(loaded.fairness_report_) == str(model.fairness_report_)
    pd.testing.assert_series_equal(loaded.multipliers_, model.multipliers_)
    pd.testing.assert_frame_equal(loaded.trace_, model.trace_)


def assert_judges_alike(loaded, model, X, y, **rest):
    """Of the rows given alone: what was measured in training is not in the file."""
    alone = copy.copy(model)
    alone._measured = None
    report = loaded.report_on(X, y, **rest)
    assert report.to_dict() == alone.report_on(X, y, **rest).to_dict()
    assert report.verdicts


# What is saved is what is loaded


@pytest.mark.parametrize(
    ("kind", "options"), [(kind, options) for kind in LOSSES for options in LOSSES[kind]]
)
def test_every_loss(fair, toy, costs, path, kind, options):
    model = fair(engine=make(kind, **options), constraint=parity("loss", 0.1, relative=True))
    loaded = round_trip(model, path)
    assert_same(loaded, model, toy.X)
    # As text, since NaN, XGBoost's sign for a missing value, is not equal to itself.
    assert str(loaded.estimator.get_params()) == str(model.estimator.get_params())
    assert_judges_alike(loaded, model, toy.X, costs, sensitive_features=toy.group)
    refitted = clone(loaded).set_params(constraint=None).fit(toy.X, costs)
    stock = clone(model).set_params(constraint=None).fit(toy.X, costs)
    np.testing.assert_array_equal(refitted.predict(toy.X), stock.predict(toy.X))


@pytest.mark.parametrize("kind", LOSSES)
@pytest.mark.parametrize(
    "params",
    [
        {"iterate": "last", "min_group_rows": 5},
        {"iterate": "average", "holdout": None},
        {"holdout": 0.3, "confidence": 0.9, "memberships": "honest"},
        {"holdout": "cross", "multiplier_learning_rate": 2.0},
    ],
)
def test_how_constraints_were_met(fair, toy, costs, path, kind, params):
    """And the loaded model trains as the saved one would."""
    model = fair(engine=make(kind), constraint="equal_means", tolerance=0.1, **params)
    loaded = round_trip(model, path)
    assert_same(loaded, model, toy.X)
    for name, value in model.get_params(deep=False).items():
        if name != "estimator":
            assert getattr(loaded, name) == value
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", category=UserWarning)
        loaded.fit(toy.X, costs, sensitive_features=toy.group)
    np.testing.assert_array_equal(loaded.predict(toy.X), model.predict(toy.X))


@pytest.mark.parametrize(
    "constraint",
    [
        "calibrated",
        "bounded_group_loss",
        parity("prediction"),
        parity("prediction", 0.1, by="sex"),
        parity("prediction", 0.1, by=("sex", "region"), relative=True),
        parity(above(3)[1], 0.1),
        bound("loss", 2.0),
        bound("prediction", 1.5, group={"sex": "a"}),
        bound("prediction", 1.5, group={"region": np.int64(1)}),
        SameDistribution(0.1, count=5),
        SameDistribution(np.float32(0.1), ("sex", "region"), np.int64(4)),
        Calibrated(0.05, "sex"),
        EachAtMost(NUMBERS["loss"], np.float64(1.5), "region"),
        ["equal_errors", Calibrated(0.05)],
        ("equal_means", bound("prediction", 1.5)),
    ],
    ids=str,
)
def test_constraints(fair, toy, costs, columns, path, constraint):
    shared = isinstance(constraint, str | list | tuple) or not getattr(
        constraint, "has_own_tolerance", True
    )
    tolerance = 0.3 if shared else None
    model = fair(constraint=constraint, tolerance=tolerance, groups=columns)
    loaded = round_trip(model, path)
    assert_same(loaded, model, toy.X)
    assert loaded.constraint == constraint
    assert type(loaded.constraint) is type(constraint)
    assert loaded.tolerance == tolerance
    assert_judges_alike(loaded, model, toy.X, costs, sensitive_features=columns)


def test_no_constraint_and_the_default_engine(toy, costs, path):
    model = FairGBMRegressor(constraint=None).fit(toy.X, costs)
    loaded = round_trip(model, path)
    assert loaded.estimator is None
    assert loaded.constraint is None
    assert loaded.fairness_report_ is None
    assert_same(loaded, model, toy.X)


@pytest.mark.parametrize("wrap", [lambda c: c, lambda c: ["equal_distributions", c]])
def test_a_constraint_of_the_users_own(fair, toy, costs, path, wrap):
    model = fair(constraint=wrap(AtMostOne()))
    loaded = round_trip(model, path)
    assert_same(loaded, model, toy.X)
    for refuses in (clone(loaded).fit, loaded.report_on):
        with pytest.raises(ConstraintError, match=r"AtMostOne\(\) was not stored in the model"):
            refuses(toy.X, costs, sensitive_features=toy.group)
    loaded.set_params(constraint=model.constraint)
    assert_judges_alike(loaded, model, toy.X, costs, sensitive_features=toy.group)


def test_a_constraint_that_looks_like_one_of_ours(fair, toy, path):
    """A subclass may do anything: it is not taken for what it is made from."""

    class Halved(Calibrated):
        def violations(self, moments):
            return super().violations(moments) / 2

    loaded = round_trip(fair(constraint=Halved(0.1)), path)
    with pytest.raises(ConstraintError, match=r"Halved.* was not stored"):
        loaded.report_on(toy.X, toy.y, sensitive_features=toy.group)


def test_a_stream_of_random_numbers_is_not_stored_and_this_is_said(fair, toy, path):
    model = fair(random_state=np.random.RandomState(0))
    with pytest.warns(UserWarning, match=r"random_state=RandomState.* is not stored"):
        model.save(path)
    assert_same(load(path), model, toy.X)


@pytest.mark.parametrize("kind", LOSSES)
def test_names_categories_and_missing_values(fair, toy, path, kind):
    model = fair(toy.frame, engine=make(kind))
    loaded = round_trip(model, path)
    assert_same(loaded, model, toy.frame)
    assert loaded.feature_names_in_.tolist() == toy.frame.columns.tolist()


@pytest.mark.parametrize(
    "engine", [("lightgbm", "poisson"), ("xgboost", "count:poisson")], ids=lambda e: e[0]
)
def test_exposures(fair, toy, costs, path, engine):
    model = fair(engine=make(engine[0], objective=engine[1]), rest={"exposure": toy.weight})
    loaded = round_trip(model, path)
    assert_same(loaded, model, toy.X)
    of = {"exposure": toy.weight}
    np.testing.assert_array_equal(loaded.predict(toy.X, **of), model.predict(toy.X, **of))
    assert_judges_alike(loaded, model, toy.X, costs, sensitive_features=toy.group, **of)


@pytest.mark.parametrize(
    ("kind", "options"), [(kind, LOSSES[kind][k]) for kind in LOSSES for k in (0, 3, 6)]
)
def test_a_stage_on_a_frozen_model(fair, toy, costs, path, kind, options):
    frozen = FrozenEstimator(make(kind, **options).fit(toy.X, costs))
    model = fair(engine=frozen)
    loaded = round_trip(model, path)
    assert_same(loaded, model, toy.X)
    assert isinstance(loaded.estimator, FrozenEstimator)
    np.testing.assert_array_equal(loaded.estimator.predict(toy.X), frozen.predict(toy.X))


@pytest.mark.parametrize("linear", [{"linear_tree": True}, {"boosting_type": "dart"}])
def test_other_trees(fair, toy, path, linear):
    model = fair(engine=make("lightgbm", **linear), iterate="last")
    assert_same(round_trip(model, path), model, toy.X)


def test_early_stopping(fair, toy, costs, path):
    stopping = {
        "eval_set": [(toy.X[:100], costs[:100])],
        "callbacks": [lightgbm.early_stopping(2, verbose=False)],
    }
    model = fair(engine=make("lightgbm", n_estimators=40), rest=stopping)
    assert_same(round_trip(model, path), model, toy.X)


def test_an_infinite_figure_of_the_trace(fair, toy, path):
    model = fair()
    model.trace_.loc[0, "held-out loss"] = np.inf
    assert_same(round_trip(model, path), model, toy.X)


def test_a_loaded_model_is_saved_as_the_same_file(fair, path, tmp_path):
    round_trip(fair(), path).save(tmp_path / "again.json")
    assert (tmp_path / "again.json").read_text() == path.read_text()


def test_the_file_says_what_it_holds(saved):
    document = json.loads(saved.read_text())
    assert (document["format_version"], document["model"]["predicts"]) == (4, "number")
    assert not {"classes", "score_threshold", "draw_seed"} & set(document["model"])
    assert "predictions" in document["model"]["self_test"]


def test_a_file_of_a_classifier_is_as_it_was(toy, engine, path):
    """Earlier programs read it, and it says nothing of numbers."""
    model = FairGBMClassifier(engine(), constraint=None).fit(toy.X, toy.y)
    model.save(path)
    document = json.loads(path.read_text())
    assert document["format_version"] == 3
    assert "predicts" not in document["model"]
    assert type(load(path)) is FairGBMClassifier


def test_a_file_of_an_earlier_fairboost():
    """The first that held a regressor."""
    model = load(Path(__file__).with_name("regressor_of_version_4.json"))
    X = np.arange(400.0).reshape(200, 2) % 7
    expected = [2.184370656730156, 2.207853622455158, 2.384180955036962, 2.4594972130874053]
    np.testing.assert_allclose(model.predict(X[:4]), expected, rtol=1e-12)
    assert model.constraint == [
        Calibrated(0.1),
        bound("prediction", 2.0, group={"sex": "a"}),
        parity("loss", 0.2, relative=True),
    ]
    assert model.estimator.objective == "poisson"
    assert model.multipliers_["prediction<=2 of a"] == 0.4568274150652921
    assert model._loss_terms.loss == Loss("poisson", step=0.7)
    sex = np.array(["a", "b"])[np.arange(200) % 3 // 2]
    y = np.random.default_rng(0).poisson(0.5 + X[:, 0] / 3 + (sex == "a"))
    verdicts = model.report_on(X, y, sensitive_features=pd.DataFrame({"sex": sex})).verdicts
    assert [v.value for v in verdicts[:2]] == pytest.approx([0.3307298385385654, 2.28858104624231])


def test_what_could_not_be_read_again_is_not_written(fair, path):
    model = fair()
    model.n_features_in_ = 9
    with pytest.raises(ModelFileError, match=r"was not written, since .* max_feature_idx is not"):
        model.save(path)
    assert not path.exists()


@pytest.mark.parametrize("kind", LOSSES)
@pytest.mark.parametrize("again", [lambda m: pickle.loads(pickle.dumps(m)), copy.deepcopy])
def test_pickle_and_copies(fair, toy, costs, path, kind, again):
    model = fair(engine=make(kind))
    copied = again(model)
    assert_same(copied, model, toy.X)
    rows = {"sensitive_features": toy.group}
    report = copied.report_on(toy.X, costs, **rows)
    assert report.to_dict() == model.report_on(toy.X, costs, **rows).to_dict()
    assert_same(again(round_trip(model, path)), model, toy.X)


# Files that are not sound


def rewrite(path, change):
    document = json.loads(path.read_text())
    change(document)
    path.write_text(json.dumps(document))


def resealed(path, change):
    """Edit the content, and make all checksums good again."""

    def edit(document):
        model = document["model"]
        change(model)
        if "self_test" in model:
            model["self_test"]["sha256"] = checksum({k: model.get(k) for k in DECIDING})
        document["sha256"] = checksum(model)

    rewrite(path, edit)


def first_leaf_as(value):
    """Set the first leaf of the booster, in a way that is sound by itself."""

    def change(content):
        lines = content["booster"]
        at = next(k for k, line in enumerate(lines) if line.startswith("leaf_value="))
        size = next(k for k, line in enumerate(lines) if line.startswith("tree_sizes="))
        old, (_, _, others) = lines[at], lines[at].partition(" ")
        lines[at] = f"leaf_value={value} {others}"
        first, _, rest = lines[size].partition("=")[2].partition(" ")
        lines[size] = f"tree_sizes={int(first) + len(lines[at]) - len(old)} {rest}"

    return change


@pytest.mark.parametrize("share", [0.0, 0.01, 0.3, 0.7, 0.999])
def test_truncated(saved, share):
    text = saved.read_text().rstrip()
    saved.write_text(text[: int(len(text) * share)])
    with pytest.raises(ModelFileError, match="or was cut short"):
        load(saved)


def test_damaged_anywhere(saved):
    """One character changed: another one, or none, or twice the same."""
    text, draw = saved.read_text().rstrip(), random.Random(0)
    for _ in range(60):
        at = draw.randrange(len(text))
        while text[at].isspace() or text[at] in "0+":  # of which a number may have more or less
            at = draw.randrange(len(text))
        put = draw.choice(("~", "", 2 * text[at]))
        changed = text[:at] + put + text[at + 1 :]
        with suppress(ValueError):
            if json.loads(changed) == json.loads(text):  # an 18th digit, which is rounded off
                continue
        saved.write_text(changed)
        with pytest.raises(ModelFileError):
            load(saved)


@pytest.mark.parametrize(
    "edit",
    [
        lambda c: c.pop("predicts"),
        lambda c: c.update(predicts="label"),
        lambda c: c["parameters"].update(tolerance=9.0),
        lambda c: c["fitted_engine_parameters"].update(objective="poisson"),
    ],
)
def test_edited(saved, edit):
    rewrite(saved, lambda d: edit(d["model"]))
    with pytest.raises(ModelFileError, match="does not match its checksum"):
        load(saved)


def test_the_seal_made_good_again_is_not_enough(saved):
    resealed(saved, lambda content: None)
    load(saved)
    rewrite(saved, lambda d: first_leaf_as(5)(d["model"]))
    rewrite(saved, lambda d: d.update(sha256=checksum(d["model"])))
    with pytest.raises(ModelFileError, match="it decides by other values than were saved"):
        load(saved)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (first_leaf_as(5), "does not predict as the saved model did.* numbers differ by"),
        (lambda c: c.update(predicts="label"), "operating_point"),
        (lambda c: c.update(predicts="ranks"), "it predicts 'ranks', expected 'label' or"),
        (lambda c: c.update(predicts=[]), r"it predicts \[\]"),
        (lambda c: c.pop("predicts"), "operating_point"),
        (
            lambda c: c["fitted_engine_parameters"].update(objective="poisson"),
            "objective is not poisson",
        ),
        (
            lambda c: c["fitted_engine_parameters"].update(objective="binary"),
            "objective='binary', expected one of",
        ),
        (lambda c: c["fitted_engine_parameters"].update(regressor=False), "regressor"),
        (lambda c: c["parameters"].update(operating_point=0.5), "parameter 'operating_point'"),
        (lambda c: c["parameters"].update(constraint={"each": {}}), "was edited or cannot"),
        (
            lambda c: c["parameters"].update(constraint={"distribution": {"by": None}}),
            "was edited or cannot",
        ),
        (
            lambda c: c["parameters"].update(
                constraint={"calibrated": {"by": None, "tolerance": "x"}}
            ),
            "tolerance of its constraint is 'x'",
        ),
        (
            lambda c: c["parameters"].update(
                constraint={"distribution": {"by": None, "tolerance": 0.1, "count": 0.5}}
            ),
            "count of its constraint is 0.5",
        ),
        (
            lambda c: c["parameters"].update(
                constraint={
                    "bound": {"name": "loss", "quantity": -1, "title": "", "label": None},
                    "at_most": 1.0, "by": None, "group": [],
                }
            ),
            "quantity of its moment is -1",
        ),
        (lambda c: c.update(n_base=100), "starts from trees"),
        (lambda c: c["self_test"].pop("predictions"), "predictions"),
        (lambda c: c["self_test"].update(predictions=[1.0]), "was edited or cannot"),
        (lambda c: c.pop("self_test"), "self_test"),
        (lambda c: c["fairness_report"].update(titles=3), "was edited or cannot"),
        (lambda c: c["trace"].update(loss=["x"] * 6), "was edited or cannot"),
    ],
)  # fmt: skip
def test_what_is_sealed_again_is_looked_at_all_the_same(saved, change, message):
    resealed(saved, change)
    with pytest.raises(ModelFileError, match=message):
        load(saved)


def test_a_classifier_is_not_made_a_regressor_by_a_word(toy, engine, path):
    FairGBMClassifier(engine(), constraint=None).fit(toy.X, toy.y).save(path)
    resealed(path, lambda c: c.update(predicts="number"))
    with pytest.raises(ModelFileError, match="was edited or cannot be read here"):
        load(path)


def test_an_xgboost_file_of_another_loss(fair, path):
    fair(engine=make("xgboost")).save(path)
    resealed(path, lambda c: c["fitted_engine_parameters"].update(objective="count:poisson"))
    with pytest.raises(ModelFileError, match="its objective 'reg:squarederror' is another one"):
        load(path)


@pytest.mark.parametrize("unit", [1e-9, 1.0, 1e9])
def test_predictions_are_compared_in_their_own_unit(unit):
    """A prediction that is off by a thousandth is another one, however small it is."""
    points = {0: [1.0, 2.0, 3.0], 2: [0.5]}

    def predict(X):
        return unit * (X[:, 0] - np.nan_to_num(X[:, 2])) * np.isfinite(X[:, 0])

    def check(answer):
        self_test.check(json.loads(text), answer, None, 3)

    text = json.dumps(self_test.describe(lambda X: np.nan_to_num(predict(X)), None, points, 3))
    check(lambda X: np.nan_to_num(predict(X)) * (1 + 1e-9))
    check(lambda X: np.nan_to_num(predict(X)) + 1e-8 * unit)
    for other in (lambda X: np.nan_to_num(predict(X)) * 1.001, lambda X: np.zeros(len(X))):
        with pytest.raises(ModelFileError, match="does not predict as the saved model did"):
            check(other)
