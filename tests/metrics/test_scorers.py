"""Gaps and ratios as scorers of scikit-learn, with and without metadata routing."""

from __future__ import annotations

import pickle

import numpy as np
import pytest
from lightgbm import LGBMClassifier
from sklearn import config_context
from sklearn.base import clone
from sklearn.dummy import DummyClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV, KFold, cross_validate
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from fairboost import FairGBMClassifier
from fairboost.datasets import make_loans
from fairboost.exceptions import ConstraintError, InvalidInputError
from fairboost.metrics import gap, gap_scorer, ratio, ratio_scorer

FOLDS = KFold(2, shuffle=True, random_state=0)


@pytest.fixture(scope="module")
def loans():
    return make_loans(2_000, seed=0)


@pytest.fixture
def routing():
    with config_context(enable_metadata_routing=True):
        yield


def engine(**options):
    return LGBMClassifier(n_estimators=5, num_leaves=8, n_jobs=1, verbose=-1, **options)


def by_hand(figure, loans, rate, weight=None):
    found = []
    for train, test in FOLDS.split(loans.X):
        model = engine().fit(loans.X.iloc[train], loans.y[train])
        weights = None if weight is None else weight[test]
        found.append(figure(
            loans.y[test], model.predict(loans.X.iloc[test]), rate=rate, n_bootstrap=0,
            sensitive_features=loans.sensitive["sex"].iloc[test], sample_weight=weights,
        ))  # fmt: skip
    return found


def test_cross_validation_with_routing(loans, routing):
    scoring = {"accuracy": "accuracy", "gap": gap_scorer("fnr"), "ratio": ratio_scorer("ppr")}
    found = cross_validate(
        engine().set_fit_request(sample_weight=False), loans.X, loans.y, cv=FOLDS, scoring=scoring,
        params={"sensitive_features": loans.sensitive["sex"]},
    )  # fmt: skip
    assert found["test_gap"].tolist() == [-x for x in by_hand(gap, loans, "fnr")]
    assert found["test_ratio"].tolist() == by_hand(ratio, loans, "ppr")
    assert (found["test_gap"] < 0).all() and (found["test_ratio"] < 1).all()


def test_weights_are_routed_too(loans, routing):
    weight = np.random.default_rng(0).exponential(size=len(loans.y))
    params = {"sensitive_features": loans.sensitive["sex"], "sample_weight": weight}
    found = cross_validate(
        engine().set_fit_request(sample_weight=False), loans.X, loans.y, cv=FOLDS,
        scoring=gap_scorer("fnr"), params=params,
    )  # fmt: skip
    assert found["test_score"].tolist() == [-x for x in by_hand(gap, loans, "fnr", weight)]


def test_columns_of_the_table_need_no_routing(loans):
    X = loans.X.assign(sex=loans.sensitive["sex"].astype("category"))
    numbers = make_pipeline(StandardScaler(), LogisticRegression())
    for columns, by in (("sex", None), (("sex",), "sex")):
        scorer = gap_scorer("fnr", columns=columns, by=by)
        found = cross_validate(engine(), X, loans.y, cv=FOLDS, scoring=scorer)["test_score"]
        assert ((found >= -1) & (found < 0)).all()
    with pytest.raises(KeyError, match="sex"):
        scorer(numbers.fit(loans.X[["income"]], loans.y), loans.X[["income"]], loans.y)


def test_a_grid_search_finds_the_fairest(loans, routing):
    model = FairGBMClassifier(engine(), constraint="equal_opportunity", holdout=0.3)
    search = GridSearchCV(
        model.set_fit_request(sensitive_features=True),
        {"constraint": [None, "equal_opportunity"]},
        scoring=gap_scorer("fnr"), cv=FOLDS, refit=False,
    )  # fmt: skip
    with pytest.warns(Warning, match="."):
        search.fit(loans.X, loans.y, sensitive_features=loans.sensitive["sex"])
    without, fair = search.cv_results_["mean_test_score"]
    assert without < fair < 0


def test_groups_that_are_missing_are_asked_for(loans):
    model = engine().fit(loans.X, loans.y)
    with pytest.raises(InvalidInputError, match=r"enable_metadata_routing=True.* columns="):
        gap_scorer("fnr")(model, loans.X, loans.y)


@pytest.mark.parametrize("kind", [lambda m: m, lambda m: make_pipeline("passthrough", m)])
def test_the_positive_label_is_the_models_own(loans, kind):
    y = np.where(loans.y == 1, "approved", "denied")
    rows = {"sensitive_features": loans.sensitive["sex"]}
    model = FairGBMClassifier(engine(), constraint=None, pos_label="approved").fit(loans.X, y)
    scorer = gap_scorer("fnr")
    expected = gap(y, model.predict(loans.X), rate="fnr", pos_label="approved", **rows)
    assert scorer(kind(model), loans.X, y, **rows) == -expected.value
    assert gap_scorer("fnr", pos_label="denied")(model, loans.X, y, **rows) != -expected.value
    always = DummyClassifier(strategy="constant", constant="denied").fit(loans.X, y)
    assert scorer(always, loans.X, y, **rows) == 0


def test_scorers_can_be_cloned_and_pickled(loans):
    scorer = gap_scorer("fnr", by="sex")
    assert pickle.loads(pickle.dumps(scorer)) == scorer
    assert clone(scorer, safe=False) == scorer


@pytest.mark.parametrize("make", [gap_scorer, ratio_scorer])
def test_a_rate_that_there_is_not_is_refused_at_once(make):
    with pytest.raises(ConstraintError, match="frn"):
        make("frn")
