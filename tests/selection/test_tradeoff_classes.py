"""The trade-off curve of models that give one of three classes or more."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from lightgbm import LGBMClassifier
from sklearn.metrics import accuracy_score, log_loss
from xgboost import XGBClassifier

from fairboost import FairGBMClassifier, bound, load, parity, tradeoff_curve
from fairboost.exceptions import ConstraintError, InvalidInputError
from fairboost.metrics import audit_classes

BANDS = np.array(["low", "middle", "high"])
READ = {
    "demographic_parity": ["given"],
    "equal_opportunity": ["recall"],
    "equalized_odds": ["recall", "confused"],
    "equal_accuracy": ["accuracy"],
}


def people(n=2_500, seed=0):
    """Features, classes, two groups of which the second is higher."""
    rng = np.random.default_rng(seed)
    group = rng.choice(["a", "b"], n)
    X = rng.normal(size=(n, 3)) + np.outer(group == "b", [1.0, 0.0, 2.0])
    noise = rng.normal(size=n) * np.where(group == "b", 0.7, 1.0)
    return X, BANDS[np.digitize(X[:, 0] + X[:, 1] + noise, [0.0, 1.0])], group


def engine(**options):
    defaults = {"n_estimators": 15, "num_leaves": 8, "learning_rate": 0.2}
    return LGBMClassifier(**{**defaults, **options}, n_jobs=1, verbose=-1)


def xgboost(**options):
    return XGBClassifier(n_estimators=15, max_depth=3, learning_rate=0.2, n_jobs=1, **options)


@pytest.fixture(autouse=True)
def known_groups(monkeypatch):
    """Take groups as observed; to learn them takes longer than all the rest."""
    monkeypatch.setattr(
        "fairboost.training.memberships.recoverability", lambda *args, **options: 1.0
    )


def draw(constraint="demographic_parity", tolerances=4, chosen=None, **options):
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
        X, y, group = people(4_000, seed=1)
        return draw(tolerances=5, holdout_set=(X, y, {"group": group}))


def largest(y, given, group, rates, weight=None):
    """The largest gap of some rates, by the audit."""
    found = audit_classes(y, given, sensitive_features=group, sample_weight=weight)
    return found.gaps[found.gaps["rate"].isin(rates)]["gap"].max()


def test_models_go_from_no_constraint_to_zero_tolerance(curve):
    tolerances, gap = curve.table["tolerance"].to_numpy(), curve.table["gap"].to_numpy()
    assert np.isnan(tolerances[0])
    np.testing.assert_allclose(tolerances[1:], np.linspace(gap[0], 0, 5)[1:])
    assert gap[0] > 0.2
    assert gap[-1] < 0.25 * gap[0]
    assert curve.table["accuracy"].iloc[-1] < curve.table["accuracy"].iloc[0]
    assert [len(model.classes_) for model in curve.models] == [3] * 5


def test_what_a_tolerance_asks_for_is_met_on_the_rows_held_out(curve):
    beyond = curve.table["gap"] - curve.table["tolerance"]
    assert (beyond.iloc[1:-1] < 0.02).all()


@pytest.mark.parametrize("constraint", READ)
@pytest.mark.parametrize("chosen", [engine(), xgboost()], ids=["lightgbm", "xgboost"])
def test_figures_are_those_of_the_models_on_the_rows(constraint, chosen):
    held = people(1_500, seed=2)
    weight = np.random.default_rng(0).uniform(0.5, 2.0, 1_500)
    found = draw(constraint, 3, chosen, holdout_set=(*held[:2], {"group": held[2]}, weight))
    on = found.on(*held[:2], sensitive_features={"group": held[2]}, sample_weight=weight)
    assert on.columns.tolist() == found.table.columns.tolist()
    for k, model in enumerate(found.models):
        given, proba = model.predict(held[0]), model.predict_proba(held[0])
        expected = {
            "accuracy": accuracy_score(held[1], given, sample_weight=weight),
            "loss": log_loss(held[1], proba, sample_weight=weight),
            "gap": largest(held[1], given, held[2], READ[constraint], weight),
        }
        for table in (on, found.table):
            for name, value in expected.items():
                assert table[name].iloc[k] == pytest.approx(value, abs=2e-5), (k, name)
            assert table["accuracy low"].iloc[k] < expected["accuracy"]
            assert table["accuracy high"].iloc[k] > expected["accuracy"]
    assert found.table["gap"].iloc[-1] < found.table["gap"].iloc[0]


def test_the_first_model_is_the_stock_engine():
    held = people(500, seed=3)
    found = draw(tolerances=[0.1], holdout_set=(*held[:2], {"group": held[2]}))
    X, y, _ = people()
    stock = engine(random_state=0).fit(X, y)
    np.testing.assert_allclose(
        found.models[0].predict_proba(held[0]), stock.predict_proba(held[0]), atol=1e-6
    )


def test_within_and_best_choose_by_accuracy_and_gap(curve):
    table = curve.table
    within = table[table["gap"] <= 0.15]
    model = curve.within(0.15)
    assert model.fairness_report_.verdicts[0].limit == 0.15
    assert len(model.fairness_report_.verdicts) == 3
    expected = within.sort_values(["accuracy", "gap"], ascending=[False, True]).index[0]
    assert model.booster_ is curve.models[expected].booster_
    fairest_first = table.sort_values(["accuracy", "gap"], ascending=[False, True])
    assert curve.best(1.0) is curve.models[fairest_first.index[0]]
    assert curve.best(0.0) is curve.models[table["gap"].idxmin()]


def test_one_class_alone_and_bounds():
    X, y, group = people(2_000, seed=5)
    found = draw([parity("given", of="high"), bound("given", 0.6, of="low")], 3)
    assert [len(m.fairness_report_.verdicts) for m in found.models] == [2, 2, 2]
    first = found.models[0].predict(X)
    audited = audit_classes(y, first, sensitive_features={"group": group}).gaps
    own = audited[(audited["rate"] == "given") & (audited["given"] == "high")]["gap"].iloc[0]
    on = found.on(X, y, sensitive_features={"group": group})
    assert on["gap"].iloc[0] == pytest.approx(own)
    chosen = draw("demographic_parity", 3, classes=["high"])
    pd.testing.assert_frame_equal(chosen.table, draw(parity("given", of="high"), 3).table)


def test_costs_decide_in_every_model():
    costs = [[0, 1, 1], [8, 0, 1], [1, 1, 0]]  # high, low, middle
    X, _, _ = people(1_000, seed=6)
    dear, plain = draw(tolerances=3, costs=costs), draw(tolerances=3)
    for costly, free in zip(dear.models, plain.models, strict=True):
        assert (costly.predict(X) == "high").mean() < (free.predict(X) == "high").mean()
    assert dear.table["gap"].iloc[-1] < 0.5 * dear.table["gap"].iloc[0]


def test_models_are_saved_and_loaded(curve, tmp_path):
    X, _, _ = people(300, seed=4)
    for model in (curve.models[0], curve.models[-1]):
        model.save(tmp_path / "model.json")
        again = load(tmp_path / "model.json")
        np.testing.assert_array_equal(again.predict_proba(X), model.predict_proba(X))
    assert isinstance(again, FairGBMClassifier)


def test_it_plots(curve):
    matplotlib = pytest.importorskip("matplotlib", reason="plots need matplotlib")
    matplotlib.use("Agg")
    from matplotlib import pyplot as plt

    display = curve.plot(chosen=curve.best(0.5))
    assert display.ax_.get_xlabel() == "largest gap between groups, rows held out"
    assert display.ax_.get_ylabel() == "accuracy, rows held out"
    plt.close("all")


@pytest.mark.parametrize(
    ("options", "error", "said"),
    [
        ({"constraint": "predictive_equality"}, ConstraintError, "is not one for 3 classes"),
        ({"constraint": parity("fnr")}, ConstraintError, "is a rate of two labels"),
        ({"constraint": bound("given", 0.5, of="low")}, ConstraintError, "varies the tolerance"),
        ({"constraint": parity("given", of="top")}, ConstraintError, "names the class 'top'"),
        ({"pos_label": "low"}, InvalidInputError, "y has 3 classes; leave it out"),
        ({"operating_point": 0.3}, InvalidInputError, "is a threshold between two labels"),
        ({"classes": ["top"]}, ConstraintError, "names the class 'top'"),
        ({"costs": [[0, 1], [1, 0]]}, InvalidInputError, "costs have the shape"),
        ({"exposure": np.ones(2_500)}, InvalidInputError, "found a classifier"),
        ({"tolerances": [1.5]}, ConstraintError, "tolerance"),
    ],
)
def test_bad_input_is_refused_before_training(monkeypatch, options, error, said):
    monkeypatch.setattr(
        "fairboost.engines.lightgbm.engine.LightGBMEngine.train", lambda *a, **k: pytest.fail()
    )
    with pytest.raises(error, match=said):
        draw(**options)
