"""How well a model predicts stands beside its verdicts."""

import warnings

import numpy as np
import pytest
from lightgbm import LGBMClassifier, LGBMRegressor
from sklearn.ensemble import RandomForestClassifier
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import accuracy_score, log_loss, mean_poisson_deviance, roc_auc_score

import fairboost
from fairboost import FairGBMClassifier, FairGBMRegressor
from fairboost.exceptions import FairnessWarning
from fairboost.metrics import audit_numbers
from fairboost.verdicts.fairness_report import FairnessReport

ENGINE = {"n_estimators": 10, "num_leaves": 7, "verbose": -1, "n_jobs": 1}


def drawn(n=2_000, seed=0):
    rng = np.random.default_rng(seed)
    group = rng.choice(["a", "b"], n)
    X = rng.normal(size=(n, 4)) + 0.4 * (group == "a")[:, np.newaxis]
    y = (X[:, 0] + X[:, 1] + rng.normal(size=n) > 0.5).astype(int)
    return X, y, {"g": group}


def measures(report, where, model="this model"):
    found = [p for p in report.performance if (p.where, p.model) == (where, model)]
    return {p.measure: p.value for p in found}


def test_of_two_labels():
    X, y, groups = drawn()
    set_, new = drawn(1_000, 1), drawn(1_000, 2)
    model = FairGBMClassifier(LGBMClassifier(**ENGINE), tolerance=0.2)
    model.fit(X, y, sensitive_features=groups, holdout_set=set_)
    report = model.report_on(new[0], new[1], sensitive_features=new[2])
    for where, (rows, labels, _) in {"held out": set_, "test": new}.items():
        p = model.predict_proba(rows)[:, 1]
        found = measures(report, where)
        assert found["accuracy"] == pytest.approx(accuracy_score(labels, p >= 0.5))
        assert found["log loss"] == pytest.approx(log_loss(labels, p))
    assert measures(report, "test")["AUC"] == pytest.approx(roc_auc_score(new[1], p))
    assert list(measures(model.fairness_report_, "held out")) == ["accuracy", "log loss"]
    (line,) = (x for x in str(report).splitlines() if x.startswith("accuracy "))
    assert f"{found['accuracy']:.3f} [" in line
    assert "how well it predicts" in report._repr_html_()
    again = FairnessReport.from_dict(report.to_dict())
    assert str(again) == str(report)


def test_of_one_label_there_is_no_area():
    X, y, groups = drawn()
    model = FairGBMClassifier(
        LGBMClassifier(**ENGINE), constraint="equal_opportunity", tolerance=0.2, holdout=0.3
    ).fit(X, y, sensitive_features=groups)
    ones = y == 1
    report = model.report_on(X[ones], y[ones], sensitive_features={"g": groups["g"][ones]})
    assert set(measures(report, "test")) == {"accuracy", "log loss"}


def test_class_weights_are_named():
    X, y, groups = drawn()
    engine = LGBMClassifier(class_weight={0: 1.0, 1: 3.0}, **ENGINE)
    model = FairGBMClassifier(engine, tolerance=0.3, holdout=0.3)
    model.fit(X, y, sensitive_features=groups)
    assert "log loss with class weights" in measures(model.fairness_report_, "held out")


def test_of_several_classes(tmp_path):
    X, _, groups = drawn()
    y = np.array(["low", "mid", "high"])[np.digitize(X[:, 0], [-0.3, 0.6])]
    model = FairGBMClassifier(
        LGBMClassifier(**ENGINE), constraint="demographic_parity", tolerance=0.4, holdout=0.3
    ).fit(X, y, sensitive_features=groups)
    report = model.report_on(X, y, sensitive_features=groups)
    found = measures(report, "test")
    assert found["accuracy"] == pytest.approx(model.score(X, y))
    assert found["log loss"] == pytest.approx(log_loss(y, model.predict_proba(X)), rel=1e-5)
    assert set(measures(report, "held out")) == {"accuracy", "log loss"}
    model.save(tmp_path / "m.json")
    kept = fairboost.load(tmp_path / "m.json").fairness_report_
    assert str(kept) == str(model.fairness_report_)
    assert measures(kept, "held out") == measures(report, "held out")


@pytest.mark.parametrize("objective", ["regression", "poisson"])
def test_of_numbers(objective):
    X, _, groups = drawn()
    rng = np.random.default_rng(1)
    years = rng.uniform(0.5, 1.0, len(X)) if objective == "poisson" else None
    y = rng.poisson(np.exp(0.3 * X[:, 0]) * (1.0 if years is None else years)).astype(float)
    model = FairGBMRegressor(
        LGBMRegressor(objective=objective, **ENGINE), constraint="equal_means", tolerance=5.0,
        holdout=None,
    ).fit(X, y, sensitive_features=groups, exposure=years)  # fmt: skip
    report = model.report_on(X, y, sensitive_features=groups, exposure=years)
    predicted = model.predict(X, exposure=years)
    audited = audit_numbers(
        y, predicted, sensitive_features=groups, exposure=years, loss=model._loss_terms.loss
    )
    expected = audited.overall["mean_loss"]
    (tested,) = (p for p in report.performance if p.where == "test")
    assert (tested.value, tested.low, tested.high) == pytest.approx(
        (expected.value, expected.low, expected.high)
    )
    trained = measures(report, "training")  # the same rows
    assert trained == pytest.approx({audited.loss: expected.value}, rel=1e-4)
    if years is not None:
        assert expected.value == pytest.approx(
            mean_poisson_deviance(y / years, predicted / years, sample_weight=years)
        )


# A stage on a base model
# -----------------------------------------------------------------------


def noisy(n, seed):
    rng = np.random.default_rng(seed)
    group = rng.choice(["a", "b"], n)
    X = np.column_stack([rng.normal(size=(n, 4)) + (group == "a")[:, np.newaxis], rng.random(n)])
    y = (rng.random(n) < 1 / (1 + np.exp(-X[:, 0] - 0.5 * X[:, 1] + 0.7))).astype(int)
    return X, y, {"g": group}


@pytest.fixture(scope="module")
def forest():
    X, y, _ = noisy(1_500, 0)
    return RandomForestClassifier(40, min_samples_leaf=3, random_state=0).fit(X, y)


def on(base, rows, **asked):
    X, y, groups = rows
    asked = {"constraint": "demographic_parity", "tolerance": 0.05, **asked}
    return FairGBMClassifier(base, **asked).fit(X, y, sensitive_features=groups)


@pytest.mark.filterwarnings("ignore::fairboost.exceptions.FairnessWarning")
def test_a_base_model_stands_beside_its_stage(forest):
    model, new = on(FrozenEstimator(forest), noisy(2_000, 1)), noisy(1_000, 2)
    report = model.report_on(new[0], new[1], sensitive_features=new[2])
    base, own = (measures(report, "test", name) for name in ("base model", "this model"))
    p = forest.predict_proba(new[0])[:, 1]
    assert base["AUC"] == pytest.approx(roc_auc_score(new[1], p), abs=1e-3)
    assert own["accuracy"] == pytest.approx(model.score(new[0], new[1]))
    assert set(measures(report, "held out", "base model")) == {"accuracy", "log loss"}
    assert "accuracy of the base model" in str(report)


def test_rows_that_a_forest_was_trained_on_have_no_verdict(forest):
    """It makes more errors than 1% there, but far fewer than on other rows."""
    seen = noisy(1_500, 0)
    assert forest.score(seen[0], seen[1]) < 0.97
    with pytest.warns(FairnessWarning, match="it was probably trained on them") as caught:
        model = on(FrozenEstimator(forest), seen)
    assert len(caught) == 1
    report = model.fairness_report_
    assert [v.status for v in report.verdicts] == ["no verdict"]
    assert not report.met and not report.within
    assert "Pass other rows, or pass the base model unfitted" in str(report).replace("\n  ", " ")
    new = noisy(2_000, 1)
    tested = model.report_on(new[0], new[1], sensitive_features=new[2])
    assert tested.test_verdicts[0].status != "no verdict"  # of rows that nobody has seen


@pytest.mark.filterwarnings("ignore::fairboost.exceptions.FairnessWarning")
@pytest.mark.parametrize("kind", ["forest", "linear", "easy"])
def test_of_other_rows_it_is_not_said(forest, kind):
    rows, base = noisy(1_500, 5), forest
    if kind != "forest":
        X, y, _ = noisy(1_500, 0)
        if kind == "easy":  # almost no errors, on new rows as well
            y, rows = (X[:, 0] > 0.5).astype(int), (rows[0], (rows[0][:, 0] > 0.5) * 1, rows[2])
        base = LogisticRegression(C=1e6, max_iter=5_000).fit(X, y)
    model = on(FrozenEstimator(base), rows)
    assert model._base.rows_seen == ""
    assert [v.status for v in model.fairness_report_.verdicts] != ["no verdict"]


def test_a_base_model_that_cannot_be_fitted_again_is_told_by_its_errors_alone(forest):
    class Wrapped(RandomForestClassifier):
        def fit(self, X, y, sample_weight=None):
            raise RuntimeError("not at hand")

    base = Wrapped()
    base.__dict__ |= vars(forest)
    with warnings.catch_warnings(action="ignore"):
        model = on(FrozenEstimator(base), noisy(1_500, 0))
    assert model._base.rows_seen == ""


def test_a_stage_that_costs_much_says_so():
    """The groups differ in the one feature that predicts: equal rates leave nothing of it."""
    rng = np.random.default_rng(0)
    n = 6_000
    group = rng.choice(["a", "b"], n)
    X = np.column_stack([rng.normal(size=n) + 3.0 * (group == "a"), rng.normal(size=n)])
    y = (X[:, 0] + 0.3 * rng.normal(size=n) > 1.5).astype(int)
    base = LogisticRegression().fit(X[:2000], y[:2000])
    rows = X[2000:], y[2000:], {"g": group[2000:]}
    with pytest.warns(FairnessWarning, match="The stage costs much for what it closes") as caught:
        model = on(FrozenEstimator(base), rows, tolerance=0.0)
    report = model.fairness_report_
    line = next(a for a in report.advice if a.startswith("The stage costs much"))
    own, of_base = (measures(report, "held out", m) for m in ("this model", "base model"))
    assert of_base["accuracy"] > own["accuracy"] + 0.1
    assert f"{of_base['log loss']:.4g} to {own['log loss']:.4g}" in line
    assert any("The stage costs much" in str(w.message) for w in caught)
