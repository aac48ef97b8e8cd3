"""Every method trains, decides, and gets what it is said to get."""

from __future__ import annotations

import os
import warnings
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from lightgbm import LGBMClassifier

from fairboost.datasets import make_account_opening, make_loans
from fairboost.fairness.operating_points import at_fpr, at_positive_rate, at_tpr
from fairboost.study import METHODS, Predictions, Rows, Task, peers
from fairboost.study.config import DataConfig, MethodConfig, MetricsConfig, StudyConfig
from fairboost.study.measures import measure
from fairboost.study.methods import find, paper_constraints, why_not
from fairboost.study.peers import as_matrix, reference_python, run_reference
from fairboost.study.task import as_predictors

ENGINE = {"n_estimators": 15, "num_leaves": 7, "learning_rate": 0.2}
HIDDEN = ("sex",)


def loans(seed, n):
    made = make_loans(n, seed=seed)
    sex = made.sensitive["sex"]
    return Rows(made.X.assign(sex=sex), made.y, sex)


@pytest.fixture(scope="module")
def task():
    judged = loans(1, 3_000), loans(2, 1_000)
    return Task(loans(0, 2_000), MetricsConfig(tolerance=0.02), ENGINE, seed=5, hidden=HIDDEN,
                judged=judged)  # fmt: skip


def study(metrics=None, **method):
    metrics = MetricsConfig() if metrics is None else metrics
    named = MethodConfig(**{"name": "plain", **method})
    return StudyConfig("s", DataConfig(generator="loans"), metrics=metrics, methods=(named,))


def trained(name, task):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return as_predictors(METHODS[name].run(task))


LOCAL = [name for name in METHODS if name != "reference"]


@pytest.mark.parametrize("name", LOCAL)
def test_every_method_decides_better_than_chance(name, task):
    found = trained(name, task)
    rows = task.judged[0]
    figures = [measure(task.metrics, rows, predict(rows)) for predict in found.values()]
    chance = max(rows.y.mean(), 1 - rows.y.mean())
    assert max(f["accuracy"] for f in figures) > chance + (0.02 if name != "RS" else -0.15)
    assert len(found) == {"fair_stage": 20, "paper": 2, "GS": 10}.get(name, 1)


FAIR = ["fairboost", "paper", "thresholds", "linear", "linear_aware", "OxonFair", "group_frontier"]


@pytest.mark.parametrize("name", FAIR)
def test_fair_methods_have_smaller_gaps_than_plain_ones(name, task):
    def least(method):
        found = trained(method, task).values()
        return min(measure(task.metrics, r, f(r))["gap"] for f in found for r in [task.judged[0]])

    assert least(name) < least("plain")


@pytest.mark.parametrize("name", [*FAIR, "RS", "M2FGB"])
def test_the_same_task_gives_the_same_model(name, task):
    first, second = trained(name, task), trained(name, task)
    for variant in first:
        a, b = (found[variant](task.judged[1]) for found in (first, second))
        for x, y in ((a.score, b.score), (a.decision, b.decision)):
            np.testing.assert_array_equal(x, y)


def test_plain_is_the_stock_engine(task):
    stock = LGBMClassifier(**ENGINE, random_state=5, n_jobs=1, verbose=-1)
    stock.fit(task.train.X, task.train.y)
    found = trained("plain", task)[""](task.judged[0]).score
    np.testing.assert_array_equal(found, stock.predict_proba(task.judged[0].X)[:, 1])


def test_unaware_does_not_see_the_group(task):
    found = trained("unaware", task)[""]
    rows = task.judged[0]
    other = Rows(rows.X.assign(sex=rows.X["sex"].to_numpy()[::-1]), rows.y, rows.s)
    np.testing.assert_array_equal(found(rows).score, found(other).score)
    blind = Task(task.train.without(HIDDEN), task.metrics, ENGINE, seed=5)
    same = trained("plain", blind)[""](rows.without(HIDDEN)).score
    np.testing.assert_array_equal(found(rows).score, same)


def test_who_looks_at_the_group(task):
    rows = task.judged[0]
    other = Rows(rows.X, rows.y, rows.s.iloc[::-1].set_axis(rows.s.index))
    for name in ("linear", "linear_aware", "OxonFair", "M2FGB", "group_frontier"):
        found = trained(name, task)[""]
        a, b = found(rows), found(other)
        values = (a.decision, b.decision) if a.score is None else (a.score, b.score)
        assert np.array_equal(*values) is not METHODS[name].sees_group


@pytest.mark.parametrize("name", ["linear", "linear_aware", "OxonFair", "M2FGB", "group_frontier"])
def test_rows_without_a_group(name, task):
    s = task.train.s.astype(object).mask(np.arange(len(task.train)) % 7 == 0)
    found = trained(name, replace(task, train=Rows(task.train.X, task.train.y, s)))[""]
    rows = task.judged[0]
    unknown = Rows(rows.X, rows.y, rows.s.astype(object).mask(np.ones(len(rows), bool)))
    for some in (rows, unknown):
        assert measure(task.metrics, rows, found(some))["accuracy"] > 0.6


def test_models_of_a_curve_are_scored_as_by_themselves(task):
    from fairboost import tradeoff_curve
    from fairboost.study.methods import curve_predictors

    train = task.train
    curve = tradeoff_curve(
        task.engine(), train.X, train.y, sensitive_features=train.s,
        constraint="equal_opportunity", tolerances=4,
    )  # fmt: skip
    found = curve_predictors(curve)
    for rows in (*task.judged, task.judged[0]):
        for predict, model in zip(found.values(), curve.models, strict=True):
            expected = model.predict_proba(rows.X)[:, 1]
            np.testing.assert_allclose(predict(rows).score, expected, rtol=0, atol=1e-12)


def test_last_and_randomized_come_from_one_training(task, monkeypatch):
    from fairboost import FairGBMClassifier

    fits = []
    fit = FairGBMClassifier.fit
    monkeypatch.setattr(
        FairGBMClassifier, "fit", lambda self, *a, **k: fits.append(1) or fit(self, *a, **k)
    )
    found = trained("paper", task)
    last, drawn = (found[v](task.judged[0]).score for v in ("", "randomized"))
    assert len(fits) == 1 and not np.array_equal(last, drawn)
    model = FairGBMClassifier.paper(
        task.engine(), constraint="equal_opportunity", iterate="randomized", random_state=5
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model.fit(task.train.X, task.train.y, sensitive_features=task.train.s)
    same_law = model.predict_proba(task.judged[0].X)[:, 1]
    assert abs(same_law.mean() - drawn.mean()) < 0.02


def test_reductions_train_ten_models(task):
    assert METHODS["EG"].models == METHODS["GS"].models == peers.REDUCTION_MODELS == 10


def test_paper_bounds_at_operating_points(task):
    def bounds(point):
        metrics = replace(task.metrics, threshold=point, rates=("fpr",))
        at_point = replace(task, metrics=metrics, options={"fnr_target": 0.4})
        return [str(c) for c in paper_constraints(at_point)]

    assert paper_constraints(task) == "equal_opportunity"
    assert [len(bounds(p)) for p in (at_fpr(0.05), at_tpr(0.8), at_positive_rate(0.1))] == [
        3,
        2,
        2,
    ]
    assert "0.05" in bounds(at_fpr(0.05))[1] and "0.4" in bounds(at_fpr(0.05))[2]
    assert "0.2" in bounds(at_tpr(0.8))[1].replace("0.19999999999999996", "0.2")


@pytest.mark.parametrize("name", ["fairboost", "fair_stage", "paper"])
def test_methods_at_an_operating_point(name):
    made = make_account_opening(4_000, seed=0)
    train, validation, _ = made.split()
    rows = Rows(made.X, made.y, made.age_group)
    metrics = MetricsConfig(
        performance="tpr", threshold=at_fpr(0.1), rates=("fpr",), tolerance=0.02
    )
    engine = {"n_estimators": 10, "num_leaves": 4}
    found = trained(name, Task(rows.take(train), metrics, engine, options={"models": 3}
                               if name == "fair_stage" else {}))  # fmt: skip
    held = rows.take(validation)
    for predict in found.values():
        figures = measure(metrics, held, predict(held))
        assert figures["fpr"] <= 0.1


def test_why_a_method_is_left_out(monkeypatch):
    monkeypatch.delenv("FAIRBOOST_REFERENCE_PYTHON", raising=False)
    decides = StudyConfig(
        "s", DataConfig(generator="loans"), metrics=MetricsConfig(threshold=at_fpr(0.1))
    )
    for name in ("EG", "thresholds", "linear", "linear_aware", "OxonFair", "group_frontier"):
        assert "has no score" in why_not(decides, METHODS[name])
        assert why_not(study(), METHODS[name]) is None
    assert why_not(decides, METHODS["M2FGB"]) is None
    odds = study(MetricsConfig(rates=("fpr", "fnr")))
    assert "equalized_odds is not defined" in why_not(odds, METHODS["M2FGB"])
    assert "set FAIRBOOST_REFERENCE_PYTHON" in why_not(study(), METHODS["reference"])
    monkeypatch.setenv("FAIRBOOST_REFERENCE_PYTHON", os.path.realpath(__file__))
    assert why_not(study(), METHODS["reference"]) is None
    parity = study(MetricsConfig(rates=("ppr",)))
    assert "demographic_parity" in why_not(parity, METHODS["reference"])
    tpr = study(MetricsConfig(threshold=at_tpr(0.8)))
    assert "at_tpr(0.8)" in why_not(tpr, METHODS["reference"])


def test_the_papers_own_target_is_searched_at_an_fpr():
    at_point = study(MetricsConfig(threshold=at_fpr(0.05)))
    for name in ("paper", "reference"):
        assert "fnr_target" in find(at_point, MethodConfig(name)).space
        assert "fnr_target" not in find(study(), MethodConfig(name)).space


def test_what_a_users_method_may_return(task):
    model = task.engine().fit(task.train.X, task.train.y)
    rows = task.judged[0]
    assert list(as_predictors(model)) == [""]
    assert list(as_predictors({"a": model, "b": model})) == ["a", "b"]

    class OnlyDecides:
        def predict(self, X):
            return np.ones(len(X))

    assert as_predictors(OnlyDecides())[""](rows).decision.all()
    own = as_predictors(lambda rows: Predictions(np.zeros(len(rows))))
    assert not own[""](rows).score.any()
    with pytest.raises(TypeError, match="returns a fitted classifier"):
        as_predictors(3)


@pytest.mark.skipif(reference_python() is None, reason="FAIRBOOST_REFERENCE_PYTHON is not set")
def test_the_reference_package(task):
    found = as_predictors(METHODS["reference"].run(task))[""]
    figures = measure(task.metrics, task.judged[0], found(task.judged[0]))
    assert figures["accuracy"] > 0.6
    assert found.version.startswith("fairgbm") and found.cpu_seconds > 0


def test_what_the_reference_package_says_when_it_fails(task, tmp_path):
    fake = tmp_path / "python"
    fake.write_text("#!/bin/sh\necho no such package >&2\nexit 3\n")
    fake.chmod(0o755)
    with pytest.raises(RuntimeError, match="no such package"):
        run_reference(str(fake), task.train, [task.judged[0].X], {})
    assert reference_python(str(fake)) == str(fake)
    assert reference_python(str(Path(tmp_path, "none"))) is None


def test_categories_travel_as_codes():
    X = make_loans(1_000).X
    matrix, categorical = as_matrix(X)
    assert matrix.shape == X.shape and matrix.dtype == np.float64
    assert [X.columns[k] for k in categorical] == ["sector", "contract", "region", "purpose"]
