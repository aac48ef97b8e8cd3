"""The trade-off curve of models that predict numbers."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from lightgbm import LGBMRegressor
from sklearn.frozen import FrozenEstimator
from sklearn.metrics import mean_poisson_deviance
from xgboost import XGBRegressor

from fairboost import (
    FairGBMClassifier,
    FairGBMRegressor,
    bound,
    load,
    parity,
    tradeoff_curve,
)
from fairboost.exceptions import ConstraintError, EngineOptionError, InvalidInputError
from fairboost.metrics import audit_numbers

FIGURES = {
    "equal_means": "mean_prediction",
    "equal_distributions": "distance",
    "calibrated": "a_over_e",
    "equal_errors": "mean_loss",
}


def people(n=4_000, seed=0):
    """Features, a number that is above 0 as a rule, groups."""
    rng = np.random.default_rng(seed)
    group = rng.choice(["a", "b"], n)
    X = rng.normal(size=(n, 3)) + np.outer(group == "b", [1.0, 0.0, 2.0])
    noise = rng.normal(size=n) * np.where(group == "b", 1.5, 1.0)
    return X, 5 + X[:, 0] + X[:, 1] + 0.5 * (group == "b") + noise, group


def policies(n=4_000, seed=0):
    """Features, claims, years insured, gender."""
    rng = np.random.default_rng(seed)
    gender, years = rng.choice(["F", "M"], n), rng.uniform(0.2, 1.0, n)
    X = np.stack([rng.normal(size=n) + (gender == "M"), rng.normal(size=n)], axis=1)
    rate = np.exp(0.4 * X[:, 0]) * np.where(gender == "M", 1.25, 1.0)
    return X, rng.poisson(rate * years), years, gender


def engine(**options):
    defaults = {"n_estimators": 20, "num_leaves": 15, "learning_rate": 0.2}
    return LGBMRegressor(**{**defaults, **options}, n_jobs=1, verbose=-1)


def xgboost(**options):
    return XGBRegressor(n_estimators=20, max_depth=3, n_jobs=1, **options)


@pytest.fixture(autouse=True)
def known_groups(monkeypatch):
    """Take groups as observed; to learn them takes longer than all the rest."""
    monkeypatch.setattr(
        "fairboost.training.memberships.recoverability", lambda *args, **options: 1.0
    )


def draw(constraint="equal_means", tolerances=4, chosen=None, **options):
    X, y, group = people()
    given = {"sensitive_features": {"group": group}, "random_state": 0, **options}
    chosen = engine() if chosen is None else chosen
    return tradeoff_curve(chosen, X, y, constraint=constraint, tolerances=tolerances, **given)


@pytest.fixture(scope="module")
def curve():
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(
            "fairboost.training.memberships.recoverability", lambda *args, **options: 1.0
        )
        X, y, group = people(8_000, seed=1)
        return draw(tolerances=6, holdout_set=(X, y, {"group": group}))


def test_models_are_regressors_from_no_constraint_to_zero_tolerance(curve):
    assert len(curve.models) == 6
    assert all(isinstance(model, FairGBMRegressor) for model in curve.models)
    tolerances, gap = curve.table["tolerance"].to_numpy(), curve.table["gap"].to_numpy()
    assert np.isnan(tolerances[0])
    np.testing.assert_allclose(tolerances[1:], np.linspace(gap[0], 0, 6)[1:])
    assert gap[0] > 0.8
    assert (np.diff(gap) < 0).all()
    # Neither short of the tolerance nor far beyond it.
    np.testing.assert_allclose(gap[1:], tolerances[1:], atol=0.05)
    assert (np.diff(curve.table["loss"]) > 0).all()


def test_the_first_model_is_the_stock_engine():
    X, y, _ = people()
    first = draw(tolerances=2, holdout=None).models[0]
    np.testing.assert_allclose(first.predict(X), engine().fit(X, y).predict(X), atol=1e-6)


def figures_by_hand(model, constraint, X, y, group, **years):
    predicted = model.predict(X, **years)
    audit = audit_numbers(y, predicted, sensitive_features=group, **years)
    losses = audit.by_group.set_index("group")["mean_loss"]
    if constraint == "bounded_group_loss":
        return losses["everyone"], losses[["a", "b"]].max()
    return losses["everyone"], audit.gaps.set_index("figure")["value"][FIGURES[constraint]]


@pytest.mark.parametrize("chosen", [engine(), xgboost()], ids=["lightgbm", "xgboost"])
@pytest.mark.parametrize("constraint", [*FIGURES, "bounded_group_loss"])
def test_every_constraint_has_a_curve_in_its_own_unit(constraint, chosen):
    X, y, group = people(3_000, seed=1)
    rows = {"sensitive_features": {"group": group}}
    curve = draw(constraint, 3, chosen, holdout_set=(X, y, {"group": group}))
    test_X, test_y, test_group = people(3_000, seed=2)
    on_test = curve.on(test_X, test_y, sensitive_features={"group": test_group})
    for table, data in ((curve.table, (X, y, group)), (on_test, (test_X, test_y, test_group))):
        for model, line in zip(curve.models, table.to_dict("records"), strict=True):
            loss, gap = figures_by_hand(model, constraint, *data)
            assert line["loss"] == pytest.approx(loss, rel=1e-4)
            assert line["gap"] == pytest.approx(gap, rel=1e-3, abs=1e-4)
            assert line["loss low"] < line["loss"] < line["loss high"]
            assert line["gap low"] <= line["gap"] <= line["gap high"]
    tolerances = curve.table["tolerance"].to_numpy()
    bounded = constraint == "bounded_group_loss"
    assert tolerances[-1] == (curve.table["loss"][0] if bounded else 0)
    assert tolerances[0 if not np.isnan(tolerances[0]) else 1] < curve.table["gap"][0]
    assert curve.models[-1].report_on(X, y, **rows).test_verdicts


@pytest.mark.parametrize(
    "chosen", [engine(objective="poisson"), xgboost(objective="count:poisson")], ids=["l", "x"]
)
def test_exposures_count_in_the_rows_held_out_and_in_others(chosen):
    X, y, years, gender = policies()
    curve = tradeoff_curve(
        chosen, X, y, sensitive_features={"gender": gender}, exposure=years, tolerances=4,
        constraint="equal_means", random_state=0,
    )  # fmt: skip
    assert curve.table["gap"].iloc[-1] < 0.5 * curve.table["gap"].iloc[0]
    X, y, years, gender = policies(seed=1)
    table = curve.on(X, y, sensitive_features={"gender": gender}, exposure=years)
    for model, line in zip(curve.models, table.to_dict("records"), strict=True):
        expected = model.predict(X, exposure=years)
        deviance = mean_poisson_deviance(y, expected) * len(y) / years.sum()
        assert line["loss"] == pytest.approx(deviance, rel=1e-5)
        means = [expected[gender == g].sum() / years[gender == g].sum() for g in "FM"]
        assert line["gap"] == pytest.approx(abs(np.diff(means)[0]), rel=1e-4)


def test_weights_count():
    _, y, _ = people()
    weight = np.random.default_rng(0).uniform(0.5, 2.0, len(y))
    test_X, test_y, test_group = people(seed=1)
    theirs = np.random.default_rng(1).uniform(0.0, 2.0, len(test_y))
    curve = draw(tolerances=2, sample_weight=weight)
    rows = {"sensitive_features": test_group, "sample_weight": theirs}
    line = curve.on(test_X, test_y, **rows).iloc[-1]
    predicted = curve.models[-1].predict(test_X)
    assert line["loss"] == pytest.approx(np.average((predicted - test_y) ** 2, weights=theirs))
    of_b = test_group == "b"
    means = [np.average(predicted[m], weights=theirs[m]) for m in (of_b, ~of_b)]
    assert line["gap"] == pytest.approx(abs(means[0] - means[1]), rel=1e-4)


@pytest.mark.parametrize("alpha", [0.0, 0.3, 0.8, 1.0])
def test_best_weighs_shares_of_the_plain_models_loss_and_gap(curve, alpha):
    loss, gap = (curve.table[name] / curve.table[name][0] for name in ("loss", "gap"))
    cost = alpha * loss + (1 - alpha) * gap
    assert curve.best(alpha) is curve.models[int(np.lexsort((gap, cost.round(12)))[0])]


def test_a_change_of_unit_changes_no_choice(curve):
    scaled = curve.table.copy()
    scaled["loss"] *= 1e6
    scaled["gap"] *= 1e3
    again = type(curve)(curve.models, scaled)
    for alpha in (0.2, 0.5, 0.8):
        assert again.best(alpha) is curve.best(alpha)


@pytest.mark.parametrize("constraint", [parity("prediction", relative=True), "calibrated"])
def test_a_curve_of_shares_is_the_same_in_any_unit(constraint):
    """Each stage goes on from the multipliers of the one before, at the means of the model."""
    X, y, group = people(2_000)
    groups = {"sensitive_features": {"group": group}, "constraint": constraint}
    of_units = [
        tradeoff_curve(
            engine(), X, y * unit, tolerances=[0.05, 0.02, 0.0], random_state=0, **groups
        )
        for unit in (1.0, 16_384.0)
    ]
    plain, *_, tightest = of_units[0].table["gap"]
    assert tightest < 0.5 * plain
    gaps, others = (found.table["gap"] for found in of_units)
    np.testing.assert_allclose(gaps, others, atol=1e-3)


def test_within_is_the_one_of_least_loss_and_is_judged_by_the_tolerance_asked_for(curve):
    gaps = curve.table["gap"]
    limit = float(gaps.iloc[2]) + 1e-6
    chosen = curve.within(limit)
    fair = curve.table[gaps <= limit]
    expected = curve.models[int(fair["loss"].idxmin())]
    X, _, _ = people(500, seed=3)
    np.testing.assert_array_equal(chosen.predict(X), expected.predict(X))
    assert chosen.tolerance == limit
    assert chosen.fairness_report_.verdicts[0].limit == limit
    assert "Chosen among 6 models" in str(chosen.fairness_report_)
    with pytest.raises(InvalidInputError, match=r"own: FairGBMRegressor\(tolerance=0"):
        curve.within(0)


def test_a_tolerance_of_more_than_one_is_one_in_the_unit_of_the_prediction(curve):
    """Of rates nothing is asked by it."""
    chosen = curve.within(1.5)
    assert chosen.fairness_report_.verdicts[0].limit == 1.5
    assert curve.within(np.inf).tolerance in [m.tolerance for m in curve.models]


def test_models_are_saved_and_loaded(curve, tmp_path):
    X, y, group = people(1_000, seed=3)
    model = curve.best(0.3)
    model.save(tmp_path / "model.json")
    again = load(tmp_path / "model.json")
    np.testing.assert_array_equal(again.predict(X), model.predict(X))
    assert str(again.report_on(X, y, sensitive_features={"group": group}))


@pytest.mark.parametrize(
    "constraint, words",
    [
        ("equal_means", "gap of mean predictions"),
        ("equal_distributions", "largest distance of distributions"),
        ("bounded_group_loss", "largest mean loss of a group"),
        (parity("prediction", relative=True), "gap of mean predictions, as a share of everyone's"),
    ],
)
def test_it_plots_the_loss_against_what_is_constrained(constraint, words):
    matplotlib = pytest.importorskip("matplotlib", reason="plots need matplotlib")
    matplotlib.use("Agg")
    from matplotlib import pyplot as plt

    curve = draw(constraint, 2)
    display = curve.plot(chosen=curve.models[1])
    assert display.ax_.get_xlabel() == f"{words}, rows held out"
    assert display.ax_.get_ylabel() == "squared error, rows held out"
    shown = {line.get_label(): line for line in display.ax_.lines}
    np.testing.assert_array_equal(shown["chosen"].get_ydata(), curve.table["loss"].iloc[1:])
    plt.close("all")


def test_without_an_engine_the_constraint_says_what_is_predicted(monkeypatch):
    monkeypatch.setattr("fairboost.model.base.default_estimator", lambda **_: engine())
    X, y, group = people(1_000)
    rows = {"sensitive_features": group, "tolerances": 2}
    for constraint in ("calibrated", parity("prediction"), ["equal_means"]):
        curve = tradeoff_curve(None, X, y, constraint=constraint, **rows)
        assert isinstance(curve.models[0], FairGBMRegressor)
    by_default = tradeoff_curve(engine(), X, y, **rows)
    assert by_default.models[0].constraint == "equal_distributions"


def test_bounds_stay_as_they_are_and_several_columns_share_a_tolerance():
    X, y, group = people(2_000)
    town = np.random.default_rng(0).choice(["x", "y"], len(y))
    curve = tradeoff_curve(
        engine(), X, y, sensitive_features={"group": group, "town": town}, tolerances=[0.5],
        constraint=[parity("prediction"), bound("loss", 99.0)],
    )  # fmt: skip
    limits = [v.limit for v in curve.models[1].fairness_report_.verdicts]
    assert limits == [0.5, 0.5, 99.0]
    gaps = [v.value for v in curve.models[1].fairness_report_.verdicts[:2]]
    assert curve.table["gap"].iloc[1] == max(gaps)


def test_the_same_seed_gives_the_same_curve():
    first, second = (draw("equal_distributions", 3).table for _ in range(2))
    pd.testing.assert_frame_equal(first, second)


# What is refused, before training


@pytest.fixture
def no_training(monkeypatch):
    def fit(self, *args, **kwargs):
        raise AssertionError("LightGBM was asked to train")

    monkeypatch.setattr(LGBMRegressor, "fit", fit)


@pytest.mark.parametrize(
    "options, error, message",
    [
        ({"constraint": None}, ConstraintError, "varies the tolerance of parities, but"),
        ({"constraint": bound("loss", 2.0)}, ConstraintError, "varies the tolerance of parities"),
        ({"constraint": "equalized_odds"}, ConstraintError, "rates of decisions are for FairGBMC"),
        (
            {"constraint": ["equal_means", "calibrated"]},
            ConstraintError,
            "cannot be that of gap of mean predictions and of the farthest A/E from 1",
        ),
        ({"tolerances": [0.1, -1.0]}, ConstraintError, "0 or more, in its own unit, found -1.0"),
        ({"tolerances": [np.nan]}, ConstraintError, "0 or more, in its own unit, found nan"),
        ({"tolerances": 1}, InvalidInputError, "at least 2 models"),
        (
            {"tolerances": [0.1, 1.0], "constraint": "equal_distributions"},
            ConstraintError,
            "a share of rows, below 1, found 1.0",
        ),
        ({"operating_point": 0.3}, InvalidInputError, "operating_point is for models that decide"),
        ({"pos_label": 1}, InvalidInputError, "pos_label is for models that decide"),
        ({"exposure": np.ones(4_000)}, InvalidInputError, "takes a log link"),
        ({"chosen": FairGBMRegressor()}, EngineOptionError, r"tradeoff_curve\(model.estimator"),
        ({"chosen": FairGBMClassifier()}, EngineOptionError, "makes its own FairGBMClassifier"),
    ],
)
def test_bad_input(no_training, options, error, message):
    with pytest.raises(error, match=message):
        draw(**options)


def test_a_frozen_model():
    X, y, _ = people()
    with pytest.raises(InvalidInputError, match="trains its own base model; pass an unfitted"):
        draw(chosen=FrozenEstimator(engine(n_estimators=2).fit(X, y)))


def test_exposures_of_a_classifier():
    from lightgbm import LGBMClassifier

    X, y, group = people(200)
    with pytest.raises(InvalidInputError, match="exposure is for models that predict a number"):
        tradeoff_curve(LGBMClassifier(), X, y > 5, sensitive_features=group, exposure=np.ones(200))
