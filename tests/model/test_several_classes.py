"""Three classes or more, from the outside, on both engines."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.frozen import FrozenEstimator
from sklearn.model_selection import GridSearchCV

from fairboost import FairGBMClassifier, at_fpr, bound, load, parity
from fairboost.exceptions import (
    ConstraintError,
    EngineOptionError,
    FairnessWarning,
    InvalidInputError,
    ModelFileError,
)
from tests.covering import covering
from tests.kinds import KINDS, LightGBM

EACH_ENGINE = pytest.mark.parametrize("kind", KINDS.values(), ids=KINDS)
LIGHTGBM = LightGBM()
BANDS = np.array(["low", "middle", "high"])
NAMED = "demographic_parity", "equal_opportunity", "equalized_odds", "equal_accuracy"


def drawn(n=3_000, seed=0, bands=BANDS):
    """Two groups that differ in a feature that matters."""
    rng = np.random.default_rng(seed)
    g = rng.choice(["a", "b"], n)
    X = rng.normal(size=(n, 4)) + np.outer(g == "b", [0.8, 0.0, 1.5, 0.0])
    z = X[:, 0] + X[:, 1] + rng.normal(size=n)
    cuts = np.quantile(z, np.arange(1, len(bands)) / len(bands))
    return X, bands[np.searchsorted(cuts, z)], g


def gap(given, group, counts, label):
    """Largest less smallest share of rows that are given a label, of those that count."""
    rates = [np.mean(given[counts & (group == g)] == label) for g in np.unique(group)]
    return max(rates) - min(rates)


@EACH_ENGINE
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("eval_set", [False, True])
def test_without_a_constraint_it_is_the_stock_engine(kind, weighted, eval_set):
    X, y, _ = drawn()
    weight = np.random.default_rng(1).uniform(0.5, 2.0, len(y)) if weighted else None
    codes = np.unique(y, return_inverse=True)[1]
    stock = kind.make().fit(X, codes, sample_weight=weight)
    sets = {"eval_set": [(X[:500], y[:500])]} if eval_set else {}
    ours = FairGBMClassifier(kind.make(), constraint=None).fit(X, y, sample_weight=weight, **sets)
    np.testing.assert_allclose(ours.predict_proba(X), stock.predict_proba(X), atol=1e-6)
    assert (ours.predict(X) == ours.classes_[stock.predict(X)]).all()
    np.testing.assert_allclose(
        ours.estimator_.predict_proba(X), ours.predict_proba(X), rtol=1e-6, atol=1e-7
    )
    assert ours.decision_function(X).shape == (len(y), 3)
    np.testing.assert_array_equal(ours.classes_, np.sort(BANDS))


@pytest.mark.filterwarnings(
    "ignore::fairboost.exceptions.FairnessWarning"
)  # 900 rows held out tell little
@pytest.mark.parametrize(("name", "holdout", "kind"), covering(NAMED, [0.3, "cross", None], KINDS))
def test_rates_come_closer(kind, name, holdout):
    kind, (X, y, g) = KINDS[kind], drawn()
    plain = FairGBMClassifier(kind.make(n_estimators=30, learning_rate=0.1), constraint=None)
    options = {"tolerance": 0.02, "holdout": holdout, "random_state": 0, "memberships": "observed"}
    engine = kind.make(n_estimators=30, learning_rate=0.1)
    with_group = np.column_stack([X, g == "b"])
    fair = FairGBMClassifier(engine, constraint=name, **options)
    fair.fit(with_group, y, sensitive_features={"g": g})
    plain.fit(with_group, y)
    everyone = np.ones(len(y), bool)

    def worst(model):
        given = model.predict(with_group)
        if name == "equal_accuracy":
            return gap(given == y, g, everyone, True)
        if name == "demographic_parity":
            return max(gap(given, g, everyone, band) for band in BANDS)
        pairs = [(j, k) for j in BANDS for k in BANDS if name == "equalized_odds" or j == k]
        return max(gap(given, g, y == j, k) for j, k in pairs)

    assert worst(fair) < max(0.6 * worst(plain), 0.04)
    assert np.mean(fair.predict(with_group) == y) > 0.5


@EACH_ENGINE
def test_the_rates_reported_are_those_of_the_decisions(kind):
    X, y, g = drawn()
    model = FairGBMClassifier(kind.make(), constraint="equalized_odds", tolerance=0.5, holdout=0.3)
    model.fit(X, y, sensitive_features={"g": g})
    new_X, new_y, new_g = drawn(seed=1)
    report = model.report_on(new_X, new_y, sensitive_features={"g": new_g})
    frame, given = report.rates, model.predict(new_X)
    for j in BANDS:
        for k in BANDS:
            name = f"recall[{j}]" if j == k else f"confused[{j}, {k}]"
            for group in "ab":
                line = frame[(frame["rate"] == name) & (frame["group"] == f"g={group}")]
                expected = np.mean(given[(new_y == j) & (new_g == group)] == k)
                assert line["test"].item() == pytest.approx(expected)


@EACH_ENGINE
def test_one_class_is_held_alike(kind):
    X, y, g = drawn()
    engine = kind.make(n_estimators=30, learning_rate=0.1)
    asked = [parity("recall", 0.02, of="high"), bound("given", 0.2, of="low")]
    model = FairGBMClassifier(engine, constraint=asked, holdout=None)
    with_group = np.column_stack([X, g == "b"])
    model.fit(with_group, y, sensitive_features={"g": g})
    given = model.predict(with_group)
    assert gap(given, g, y == "high", "high") < 0.05
    assert np.mean(given == "low") < 0.22
    by_name = FairGBMClassifier(
        engine, constraint="equal_opportunity", classes=["high"], tolerance=0.02, holdout=None
    )
    by_name.fit(with_group, y, sensitive_features={"g": g})
    assert [c.name for c in by_name._options().constraints(["g"])] == ["recall[high]"]


@EACH_ENGINE
def test_costs_move_decisions(kind):
    X, y, g = drawn()
    costs = [[0, 1, 1], [9, 0, 9], [1, 1, 0]]  # of high, low, middle: low must not be missed
    options = {"constraint": "demographic_parity", "tolerance": 0.05, "holdout": None}
    cheap = FairGBMClassifier(kind.make(), costs=costs, **options)
    cheap.fit(X, y, sensitive_features={"g": g})
    given, proba = cheap.predict(X), cheap.predict_proba(X)
    expected = cheap.classes_[(proba @ np.array(costs)).argmin(axis=1)]
    np.testing.assert_array_equal(given, expected)
    assert np.mean(given == "low") > np.mean(y == "low")
    frame = cheap.fairness_report_.rates
    line = frame[(frame["rate"] == "given[low]") & (frame["group"] == "g=a")]
    assert line["training"].item() == pytest.approx(np.mean(given[g == "a"] == "low"))


def test_costs_that_name_their_classes_may_be_in_any_order(tmp_path):
    X, y, _ = drawn()
    costs = np.array([[0, 1, 1], [9, 0, 9], [1, 1, 0]])  # of high, low, middle
    named = pd.DataFrame(costs, sorted(BANDS), sorted(BANDS)).loc[BANDS, BANDS[::-1]]
    models = [
        FairGBMClassifier(LIGHTGBM.make(), constraint=None, costs=c).fit(X, y)
        for c in (costs, named, pd.DataFrame(costs))
    ]
    models[1].save(tmp_path / "model.json")
    expected, *others = (m.predict(X) for m in [*models, load(tmp_path / "model.json")])
    for given in others:
        np.testing.assert_array_equal(given, expected)
    assert np.mean(expected == "low") > np.mean(y == "low")


@EACH_ENGINE
def test_costs_of_two_labels_are_a_threshold(kind):
    X, y, _g = drawn(bands=np.array([0, 1]))
    by_costs = FairGBMClassifier(kind.make(), constraint=None, costs=[[0, 1], [4, 0]]).fit(X, y)
    by_point = FairGBMClassifier(kind.make(), constraint=None, operating_point=0.2).fit(X, y)
    np.testing.assert_array_equal(by_costs.predict(X), by_point.predict(X))
    assert by_costs.threshold_ == pytest.approx(0.2)


@EACH_ENGINE
@pytest.mark.parametrize("iterate", ["best", "last", "average", "randomized"])
def test_iterates(kind, iterate):
    X, y, g = drawn()
    model = FairGBMClassifier(
        kind.make(), constraint="demographic_parity", tolerance=0.3, iterate=iterate, holdout=0.3,
        random_state=0,
    )  # fmt: skip
    model.fit(X, y, sensitive_features={"g": g})
    proba = model.predict_proba(X)
    np.testing.assert_allclose(proba.sum(axis=1), 1.0, atol=1e-6)
    assert np.mean(model.predict(X) == y) > 0.5


@EACH_ENGINE
@pytest.mark.filterwarnings("ignore::fairboost.exceptions.FairnessWarning")
def test_a_fair_stage_on_a_fitted_model(kind):
    X, y, g = drawn()
    codes = np.unique(y, return_inverse=True)[1]
    with_group = np.column_stack([X, g == "b"])
    base = kind.make().fit(with_group, codes)
    model = FairGBMClassifier(
        FrozenEstimator(base), constraint="demographic_parity", tolerance=0.02, holdout=0.3
    )
    model.fit(with_group, codes, sensitive_features={"g": g})
    everyone = np.ones(len(y), bool)
    gaps = [
        max(gap(m.predict(with_group), g, everyone, k) for k in range(3)) for m in (base, model)
    ]
    assert gaps[1] < 0.7 * gaps[0]
    assert model._model.n_base == 8


@EACH_ENGINE
def test_honest_memberships(kind):
    X, y, g = drawn()
    model = FairGBMClassifier(
        kind.make(n_estimators=30, learning_rate=0.1), constraint="equal_opportunity",
        tolerance=0.02, memberships="honest", holdout=None,
    )  # fmt: skip
    model.fit(X, y, sensitive_features={"g": g})
    assert np.mean(model.predict(X) == y) > 0.5
    assert np.isfinite(model.multipliers_).all()


@EACH_ENGINE
def test_groups_left_out_and_missing(kind):
    X, y, g = drawn()
    g = g.astype(object)
    g[:5], g[5:40] = "c", None
    model = FairGBMClassifier(
        kind.make(), constraint="demographic_parity", tolerance=0.3, min_group_rows=20, holdout=0.3
    )
    model.fit(X, y, sensitive_features={"g": g})
    text = str(model.fairness_report_)
    assert "g=c" in text
    assert "no g" in text


def test_a_class_without_rows_in_a_group_is_named():
    X, y, g = drawn()
    keep = ~((g == "b") & (y == "low"))
    model = FairGBMClassifier(LIGHTGBM.make(), constraint="equal_opportunity", min_group_rows=0)
    with pytest.raises(ConstraintError, match=r"group 'g=b' has no rows with y = low"):
        model.fit(X[keep], y[keep], sensitive_features={"g": g[keep]})


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"operating_point": 0.3}, "threshold between two labels"),
        ({"operating_point": at_fpr(0.1)}, "threshold between two labels"),
        ({"multipliers": "paper"}, "paper's algorithm is for two labels"),
        ({"proxy": "hinge"}, "proxy='hinge' is a step between two labels"),
        ({"pos_label": "low"}, "pos_label='low' says which of two labels"),
        ({"classes": ["lowest"]}, "class 'lowest', which is not among"),
        ({"classes": "low"}, "classes must be a list"),
        ({"classes": ["low", "low"]}, "names a class twice"),
        ({"costs": pd.DataFrame([[0, 1, 1], [1, 0, 1], [1, 1, 0]], list("abc"))}, "lines .*'a'"),
        ({"costs": [[0, 1], [1, 0]]}, r"shape \(2, 2\)"),
        ({"costs": [[0, 1, 1], [1, 2, 1], [1, 1, 0]]}, "line 1 of costs"),
        ({"costs": [[0, 1, 1], [1, 0, np.nan], [1, 1, 0]]}, "NaN"),
        ({"costs": "dear"}, "not a table of numbers"),
        ({"constraint": "predictive_equality"}, "is not one for 3 classes"),
        ({"constraint": parity("tpr", 0.1)}, "'tpr' is a rate of two labels"),
        ({"constraint": parity("recall", of="x")}, "class 'x'"),
        ({"constraint": parity("confused", of="low")}, "two classes"),
    ],
)
def test_bad_options(options, message):
    X, y, g = drawn(300)
    given = {"constraint": "demographic_parity", **options}
    model = FairGBMClassifier(LIGHTGBM.make(), **given)
    with pytest.raises((InvalidInputError, ConstraintError), match=message):
        model.fit(X, y, sensitive_features={"g": g})


@pytest.mark.parametrize("option", [{"scale_pos_weight": 3.0}, {"num_class": 4}])
@EACH_ENGINE
def test_engine_options_of_two_labels(kind, option):
    X, y, g = drawn(300)
    model = FairGBMClassifier(kind.make(**option), constraint="demographic_parity")
    with pytest.raises(EngineOptionError, match=next(iter(option))):
        model.fit(X, y, sensitive_features={"g": g})


def test_classes_for_two_labels_are_refused():
    X, y, g = drawn(300, bands=np.array(["no", "yes"]))
    with pytest.raises(InvalidInputError, match="chooses among three classes"):
        FairGBMClassifier(LIGHTGBM.make(), classes=["yes"]).fit(X, y, sensitive_features={"g": g})
    with pytest.raises(ConstraintError, match="three classes or more, and y has two"):
        FairGBMClassifier(LIGHTGBM.make(), constraint=parity("recall", of="yes")).fit(
            X, y, sensitive_features={"g": g}
        )


@pytest.mark.parametrize("rate", ["tpr", "accuracy"])
def test_of_without_a_rate_of_classes(rate):
    with pytest.raises(ConstraintError, match="names a class"):
        parity(rate, of="low")


def test_unknown_classes_later():
    X, y, g = drawn(600)
    model = FairGBMClassifier(LIGHTGBM.make(), constraint="demographic_parity", tolerance=0.5)
    other = y.copy()
    other[0] = "none"
    with pytest.raises(InvalidInputError, match="holdout_set has the label 'none'"):
        model.fit(X, y, sensitive_features={"g": g}, holdout_set=(X, other, {"g": g}))
    model.fit(X, y, sensitive_features={"g": g})
    with pytest.raises(InvalidInputError, match="label 'none'"):
        model.report_on(X, other, sensitive_features={"g": g})


def test_a_frozen_model_of_other_classes():
    X, y, g = drawn(600)
    base = LIGHTGBM.make().fit(X, np.where(y == "low", 0, 1))
    codes = np.unique(y, return_inverse=True)[1]
    with pytest.raises(EngineOptionError, match=r"knows the labels \[0, 1\], but y has"):
        FairGBMClassifier(FrozenEstimator(base)).fit(X, codes, sensitive_features={"g": g})


def test_a_frozen_model_of_other_several_classes():
    X, y, g = drawn(600)
    base = LIGHTGBM.make().fit(X, y)
    other = np.where(y == "low", "lowest", y)
    with pytest.raises(
        EngineOptionError, match=r"knows the labels .*'low'.*, but y has.*'lowest'"
    ):
        FairGBMClassifier(FrozenEstimator(base)).fit(X, other, sensitive_features={"g": g})


@pytest.mark.filterwarnings("ignore::fairboost.exceptions.FairnessWarning")
def test_a_group_with_too_few_rows_of_a_class_may_be_left_out():
    X, y, g = drawn()
    g[np.flatnonzero(y == "low")[:3]] = "c"  # and no other class
    model = FairGBMClassifier(LIGHTGBM.make(), constraint="equal_opportunity", min_group_rows=0)
    with pytest.raises(ConstraintError, match="group 'g=c' has no rows with y = "):
        model.fit(X, y, sensitive_features={"g": g})
    model.set_params(min_group_rows=10).fit(X, y, sensitive_features={"g": g})
    compared = [name for name in model.trace_ if name.startswith("violation")]
    assert any("g=b" in name for name in compared)
    assert not any("g=c" in name for name in compared)


def test_many_labels_are_a_number():
    X, _, _ = drawn(600)
    with pytest.raises(InvalidInputError, match="FairGBMRegressor"):
        FairGBMClassifier(LIGHTGBM.make(), constraint=None).fit(X, np.arange(600) // 2)


def test_clone_and_grid_search():
    X, y, _g = drawn(900)
    model = FairGBMClassifier(LIGHTGBM.make(), constraint=None, costs=None)
    search = GridSearchCV(clone(model), {"estimator__num_leaves": [3, 7]}, cv=2)
    search.fit(pd.DataFrame(X, columns=list("abcd")), y)
    assert search.best_score_ > 0.4


@pytest.mark.parametrize(
    ("labels", "frozen", "kind"),
    covering([BANDS, np.array([3, 1, 7]), np.array([0.0, 1.0, 9.0])], [False, True], KINDS),
)
def test_files(kind, labels, frozen, tmp_path):
    kind, (X, y, g) = KINDS[kind], drawn(900, bands=labels)
    engine = kind.make()
    codes = np.unique(y, return_inverse=True)[1]
    if frozen:
        engine, y = FrozenEstimator(kind.make().fit(X, codes)), codes
    asked = [parity("recall", 0.5, of=y[0]), "demographic_parity", bound("given", 0.9, of=y[1])]
    costs = [[0, 1, 2], [1, 0, 1], [3, 1, 0]]
    model = FairGBMClassifier(engine, constraint=asked, tolerance=0.6, costs=costs, holdout=0.3)
    model.fit(X, y, sensitive_features={"g": g})
    model.save(tmp_path / "model.json")
    again = load(tmp_path / "model.json")
    for method in ("predict", "predict_proba", "decision_function"):
        np.testing.assert_array_equal(getattr(again, method)(X), getattr(model, method)(X))
    assert str(again.fairness_report_) == str(model.fairness_report_)
    assert again.classes_.dtype == model.classes_.dtype
    report = again.report_on(X, y, sensitive_features={"g": g})
    assert len(report.verdicts) == len(model.fairness_report_.verdicts) == 5
    again.save(tmp_path / "again.json")
    path = tmp_path / f"stock{kind.ending}"
    model.export(path)
    stock = kind.read(path, X)
    np.testing.assert_allclose(stock, model.predict_proba(X), atol=1e-6)


@EACH_ENGINE
def test_damaged_files_are_refused(kind, tmp_path):
    X, y, g = drawn(600)
    model = FairGBMClassifier(kind.make(), constraint="demographic_parity", tolerance=0.9)
    model.fit(X, y, sensitive_features={"g": g}).save(path := tmp_path / "model.json")
    whole = path.read_text()
    for old, new in (('"middle"', '"low"'), ('"class"', '"label"')):
        assert old in whole
        path.write_text(whole.replace(old, new))
        with pytest.raises(ModelFileError):
            load(path)


def test_one_class_for_everyone_is_no_fair_decision():
    X, y, g = drawn()
    costs = [[0, 99, 99], [1, 0, 1], [1, 1, 0]]
    model = FairGBMClassifier(
        LIGHTGBM.make(), constraint="demographic_parity", tolerance=0.1, costs=costs, holdout=0.3
    )
    with pytest.warns(FairnessWarning, match="gives the same class to"):
        model.fit(X, y, sensitive_features={"g": g})
    assert set(model.predict(X)) == {"high"}
    assert not model.fairness_report_.met
