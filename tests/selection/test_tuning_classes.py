"""``tune`` where one of three classes or more is given."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.metrics import accuracy_score, log_loss
from xgboost import XGBClassifier

from fairboost import FairGBMClassifier, parity, tune
from fairboost.exceptions import ConstraintError, InvalidInputError
from fairboost.metrics import gap_scorer
from tests.selection.test_tradeoff_classes import engine, largest, people

SPACE = {"num_leaves": {"low": 4, "high": 12}}
SEARCH = {"n_trials": 2, "models": 4, "space": SPACE}


@pytest.fixture(autouse=True)
def known_groups(monkeypatch):
    """Take groups as observed; to learn them takes longer than all the rest."""
    monkeypatch.setattr(
        "fairboost.training.memberships.recoverability", lambda *args, **options: 1.0
    )


def search(chosen=None, **options):
    X, y, group = people()
    given = {"sensitive_features": group, "constraint": "demographic_parity", "tolerance": 0.15}
    chosen = engine(n_estimators=10) if chosen is None else chosen
    return tune(chosen, X, y, **{**given, **SEARCH, **options})


@pytest.fixture(scope="module")
def tuned():
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(
            "fairboost.training.memberships.recoverability", lambda *args, **options: 1.0
        )
        return search(validation_set=people(3_000, seed=1))


def test_the_model_is_the_most_accurate_within_the_tolerance(tuned):
    X, y, group = people(3_000, seed=1)
    assert len(tuned.table) == 8
    within = tuned.table[tuned.table["gap"] <= 0.15]
    best = within.loc[within["accuracy"].idxmax()]
    model = tuned.model
    assert isinstance(model, FairGBMClassifier)
    given = model.predict(X)
    assert accuracy_score(y, given) == pytest.approx(best["accuracy"])
    assert log_loss(y, model.predict_proba(X)) == pytest.approx(best["loss"])
    assert largest(y, given, group, ["given"]) == pytest.approx(best["gap"])
    assert [v.limit for v in model.fairness_report_.verdicts] == [0.15] * 3
    assert "by the validation rows of the search, where its gap is" in str(model.fairness_report_)


def test_the_plot_says_what_the_gap_is(tuned):
    matplotlib = pytest.importorskip("matplotlib", reason="plots need matplotlib")
    matplotlib.use("Agg")
    from matplotlib import pyplot as plt

    assert tuned.plot().ax_.get_xlabel() == "largest gap between groups, validation rows"
    plt.close("all")


@pytest.mark.parametrize("scoring", ["neg_log_loss", "f1_macro"])
def test_other_scores(scoring):
    chosen = XGBClassifier(n_estimators=8, n_jobs=1)
    options = {"n_trials": 1, "models": 3, "space": {"max_depth": [2, 3]}, "scoring": scoring}
    found = search(chosen, **options)
    if scoring == "neg_log_loss":
        np.testing.assert_allclose(found.table["score"], -found.table["loss"])
    assert len(set(found.table["score"])) == 3


def test_a_fairness_scorer_of_classes_is_a_score_too():
    X, y, group = people(1_500, seed=2)
    table = np.column_stack([X, group == "b"])

    def fairest(model, X, y, **_):
        scorer = gap_scorer("recall", of="low")
        return scorer(model, X, y, sensitive_features=np.asarray(X)[:, 3])

    found = tune(
        engine(n_estimators=5), table, y, sensitive_features=group, n_trials=1, models=2,
        constraint=parity("recall", 0.1, of="low"), space=SPACE, scoring=fairest,
    )  # fmt: skip
    assert found.tolerance == 0.1
    np.testing.assert_allclose(found.table["score"], -found.table["gap"])


def test_costs_and_classes_are_part_of_a_search(tmp_path):
    X, y, group = people(1_500, seed=4)
    rows = {"sensitive_features": group, "constraint": "demographic_parity", "tolerance": 0.3}
    rows |= {"storage": f"sqlite:///{tmp_path}/tune.db", "models": 2, "space": SPACE}
    costs = [[0, 1, 1], [8, 0, 1], [1, 1, 0]]
    asked = {"costs": costs, "classes": ["low"]}
    first = tune(engine(n_estimators=5), X, y, n_trials=1, **asked, **rows)
    model = first.best(1.0)
    assert model.costs == costs
    assert len(model.fairness_report_.verdicts) == 1
    again = tune(engine(n_estimators=5), X, y, n_trials=2, **asked, **rows)
    assert first.table["gap"].tolist() == again.table["gap"].tolist()[:2]
    with pytest.raises(InvalidInputError, match="other"):
        tune(engine(n_estimators=5), X, y, n_trials=2, costs=costs, **rows)


@pytest.mark.parametrize(
    ("options", "error", "said"),
    [
        ({"scoring": "recall"}, InvalidInputError, "does not score 3 classes.*'accuracy'"),
        ({"scoring": "roc_auc"}, InvalidInputError, "does not score 3 classes"),
        ({"pos_label": "low"}, InvalidInputError, "y has 3 classes; leave it out"),
        ({"operating_point": 0.2}, InvalidInputError, "threshold between two labels"),
        ({"constraint": "predictive_equality"}, ConstraintError, "is not one for 3 classes"),
        (
            {"constraint": [parity("given", 0.1), parity("recall", 0.2)], "tolerance": None},
            ConstraintError,
            "within one tolerance",
        ),
    ],
)
def test_bad_options_are_refused_before_training(monkeypatch, options, error, said):
    monkeypatch.setattr(
        "fairboost.engines.lightgbm.engine.LightGBMEngine.train", lambda *a, **k: pytest.fail()
    )
    with pytest.raises(error, match=said):
        search(**options)
