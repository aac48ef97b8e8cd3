"""Gaps and ratios as scorers of scikit-learn, with and without metadata routing."""

from __future__ import annotations

import pickle
import warnings

import numpy as np
import pandas as pd
import pytest
from lightgbm import LGBMClassifier, LGBMRegressor
from sklearn import config_context
from sklearn.base import clone
from sklearn.dummy import DummyClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import get_scorer, mean_poisson_deviance
from sklearn.model_selection import GridSearchCV, KFold, cross_validate
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from fairboost import FairGBMClassifier, FairGBMRegressor
from fairboost.datasets import make_loans
from fairboost.exceptions import ConstraintError, FairnessWarning, InvalidInputError
from fairboost.metrics import (
    a_over_e_scorer,
    audit_classes,
    audit_numbers,
    distance_scorer,
    gap,
    gap_scorer,
    loss_scorer,
    ratio,
    ratio_scorer,
)

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
            loans.y[test], model.predict(loans.X.iloc[test]), rate=rate,
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


# Of numbers


def claims(n=3_000, seed=0):
    """Features with sex among them, claims, and the years they are of."""
    rng = np.random.default_rng(seed)
    sex, years = rng.choice(["F", "M"], n), rng.uniform(0.2, 1.0, n)
    X = pd.DataFrame({"power": rng.normal(size=n) + (sex == "M"), "age": rng.normal(size=n)})
    rate = np.exp(-0.5 + 0.5 * X["power"].to_numpy()) * np.where(sex == "M", 1.3, 1.0)
    return X, rng.poisson(rate * years), sex, years


SCORERS = {
    "mean_prediction": gap_scorer("prediction"),
    "mean_loss": gap_scorer("loss"),
    "a_over_e": a_over_e_scorer(),
    "distance": distance_scorer(),
    "": loss_scorer(),
}


def number_engine(**options):
    return LGBMRegressor(n_estimators=5, num_leaves=8, n_jobs=1, verbose=-1, **options)


@pytest.mark.parametrize("exposed", [False, True])
def test_scores_of_numbers_are_figures_of_the_audit(exposed):
    X, y, sex, years = claims()
    objective = "poisson" if exposed else "regression"
    rows = {"exposure": years} if exposed else {}
    model = FairGBMRegressor(number_engine(objective=objective), constraint=None).fit(X, y, **rows)
    loss = "poisson" if exposed else "squared"
    predicted = model.predict(X, **rows)
    found = audit_numbers(y, predicted, sensitive_features=sex, loss=loss, **rows)
    gaps = found.gaps.set_index("figure")["value"]
    for figure, scorer in SCORERS.items():
        value = gaps[figure] if figure else found.overall["mean_loss"]
        got = scorer(model, X, y, **({"sensitive_features": sex} if figure else {}), **rows)
        assert got == pytest.approx(-value), figure


def test_the_loss_is_the_models_own_unless_named():
    X, y, _, _ = claims()
    model = FairGBMRegressor(number_engine(objective="poisson"), constraint=None).fit(X, y)
    deviance = mean_poisson_deviance(y, model.predict(X))
    assert loss_scorer()(make_pipeline("passthrough", model), X, y) == pytest.approx(-deviance)
    squared = ((model.predict(X) - y) ** 2).mean()
    assert loss_scorer("squared")(model, X, y) == pytest.approx(-squared)
    stock = number_engine().fit(X, y)
    assert loss_scorer()(stock, X, y) == pytest.approx(-((stock.predict(X) - y) ** 2).mean())


def test_cross_validation_of_numbers_with_groups_exposures_and_weights(routing):
    X, y, sex, years = claims()
    weight = np.random.default_rng(0).integers(1, 3, len(y)).astype(float)
    model = FairGBMRegressor(
        number_engine(objective="poisson"), constraint="equal_means", tolerance=0.3
    )
    asked = {"sensitive_features": True, "sample_weight": True, "exposure": True}
    params = {"sensitive_features": sex, "sample_weight": weight, "exposure": years}
    scaler = StandardScaler().set_fit_request(sample_weight=False)
    scoring = {name or "loss": scorer for name, scorer in SCORERS.items()}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FairnessWarning)
        found = cross_validate(
            make_pipeline(scaler, clone(model).set_fit_request(**asked)), X, y, cv=FOLDS,
            scoring=scoring, params=params, error_score="raise", return_estimator=True,
        )  # fmt: skip
    for k, (_, test) in enumerate(FOLDS.split(X)):
        held = {name: column[test] for name, column in params.items()}
        expected = audit_numbers(
            y[test], found["estimator"][k].predict(X.iloc[test]) * years[test], loss="poisson",
            **held,
        )  # fmt: skip
        for line in expected.gaps.to_dict("records"):
            name = line["figure"]
            if name in SCORERS:
                assert found[f"test_{name}"][k] == pytest.approx(-line["value"]), name
        assert found["test_loss"][k] == pytest.approx(-expected.overall["mean_loss"])


def test_a_grid_search_over_numbers_finds_the_fairest(routing):
    X, y, sex, years = claims()
    model = FairGBMRegressor(
        number_engine(objective="poisson", learning_rate=0.3), tolerance=0.0, holdout=0.3
    )
    search = GridSearchCV(
        model.set_fit_request(sensitive_features=True, exposure=True),
        {"constraint": [None, "equal_means"], "estimator__num_leaves": [4]},
        scoring={"loss": loss_scorer(), "gap": gap_scorer("prediction")}, cv=FOLDS, refit="gap",
        error_score="raise",
    )  # fmt: skip
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FairnessWarning)
        search.fit(X, y, sensitive_features=sex, exposure=years)
    without, fair = search.cv_results_["mean_test_gap"]
    assert without < fair < 0
    assert search.best_params_["constraint"] == "equal_means"
    assert search.best_estimator_.fairness_report_ is not None


def test_stock_regressors_are_scored_by_columns_without_routing():
    X, y, sex, _ = claims()
    X = X.assign(sex=(sex == "M").astype(int))
    found = cross_validate(
        number_engine(), X, y, cv=FOLDS, scoring=distance_scorer(columns="sex")
    )["test_score"]
    assert ((found > -1) & (found < 0)).all()


def test_bad_scorers_of_numbers():
    X, y, sex, _ = claims(200)
    model = number_engine().fit(X, y)
    with pytest.raises(InvalidInputError, match="farthest A/E from 1 needs the groups"):
        a_over_e_scorer()(model, X, y)
    with pytest.raises(InvalidInputError, match="unknown loss 'log'"):
        loss_scorer("log")
    two = {"sex": sex, "town": sex}
    with pytest.raises(InvalidInputError, match=r"one attribute, found .*choose one with by="):
        distance_scorer()(model, X, y, sensitive_features=two)
    assert distance_scorer(by="town")(model, X, y, sensitive_features=two) <= 0
    assert pickle.loads(pickle.dumps(loss_scorer("poisson"))) == loss_scorer("poisson")


# Several classes


BANDS = np.array(["low", "middle", "high"])


def bands(n=900, seed=0):
    """Features, classes, two groups of which the second is higher, weights."""
    rng = np.random.default_rng(seed)
    group = rng.choice(["F", "M"], n)
    X = rng.normal(size=(n, 3)) + np.outer(group == "M", [1.0, 0.0, 0.5])
    y = BANDS[np.digitize(X[:, 0] + 0.5 * rng.normal(size=n), [0.0, 1.0])]
    return X, y, group, rng.uniform(0.5, 2.0, n)


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize(
    ("rate", "of", "which"),
    [
        ("accuracy", None, {}),
        ("given", None, {}),
        ("given", "low", {"given": "low"}),
        ("recall", None, {}),
        ("recall", "high", {"label": "high"}),
        ("confused", ("low", "middle"), {"label": "low", "given": "middle"}),
    ],
)
def test_scores_of_classes_are_figures_of_the_audit(rate, of, which, weighted):
    X, y, group, weight = bands()
    plain = engine().fit(X, y)
    rows = {"sensitive_features": group, "sample_weight": weight if weighted else None}
    gaps = audit_classes(y, plain.predict(X), **rows).gaps
    for name, value in {"rate": rate, **which}.items():
        gaps = gaps[gaps[name] == value]
    assert len(gaps) == (1 if of or rate == "accuracy" else 3)
    largest, smallest = gaps["gap"].max(), gaps["ratio"].min()
    assert gap_scorer(rate, of=of)(plain, X, y, **rows) == pytest.approx(-largest)
    assert ratio_scorer(rate, of=of)(plain, X, y, **rows) == pytest.approx(smallest)
    assert largest > 0


def test_a_grid_search_over_classes_finds_the_fairest(routing):
    X, y, group, weight = bands()
    trees = engine().set_params(n_estimators=30)
    model = FairGBMClassifier(trees, constraint="demographic_parity", holdout=0.3)
    model.set_fit_request(sensitive_features=True, sample_weight=True)
    scoring = {
        "accuracy": get_scorer("accuracy").set_score_request(sample_weight=True),
        "gap": gap_scorer("given"),
        "one": gap_scorer("given", of="low"),
    }
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FairnessWarning)  # few rows
        search = GridSearchCV(
            model, {"tolerance": [0.02, 0.9]}, scoring=scoring, refit="gap", cv=FOLDS
        )
        search.fit(X, y, sensitive_features=group, sample_weight=weight)
    gaps, one = search.cv_results_["mean_test_gap"], search.cv_results_["mean_test_one"]
    assert search.best_params_ == {"tolerance": 0.02}
    assert (gaps <= one).all()
    assert gaps[0] > gaps[1] + 0.05


def test_classes_by_columns_and_in_a_pipeline():
    X, y, group, _ = bands()
    table = pd.DataFrame(X, columns=list("abc")).assign(sex=(group == "M").astype(float))
    pipe = make_pipeline(StandardScaler(), LogisticRegression())
    found = cross_validate(pipe, table, y, scoring=gap_scorer("recall", columns="sex"), cv=FOLDS)
    for score, (train, test) in zip(found["test_score"], FOLDS.split(X), strict=True):
        fitted = clone(pipe).fit(table.iloc[train], y[train])
        audited = audit_classes(
            y[test], fitted.predict(table.iloc[test]), sensitive_features=group[test]
        )
        gaps = audited.gaps[audited.gaps["rate"] == "recall"]["gap"]
        assert score == pytest.approx(-gaps.max())


def test_a_class_that_the_rows_are_without_keeps_its_name():
    X, y, group, _ = bands()
    plain = engine().fit(X, y)
    kept = y != "high"
    rows = X[kept], y[kept]
    scorer = gap_scorer("given", of="high")
    assert -1 <= scorer(plain, *rows, sensitive_features=group[kept]) <= 0
    with pytest.warns(FairnessWarning, match=r"recall\[high\]"):
        of_others = gap_scorer("recall")(plain, *rows, sensitive_features=group[kept])
    assert of_others <= 0
    with pytest.raises(InvalidInputError, match="names the class 'top', which is not among"):
        gap_scorer("given", of="top")(plain, X, y, sensitive_features=group)
    with pytest.raises(InvalidInputError, match="groups of one attribute"):
        scorer(plain, X, y, sensitive_features={"sex": group, "again": group})


@pytest.mark.parametrize(
    ("rate", "of", "said"),
    [
        ("accuracy", "low", "expected none: it is of all classes"),
        ("confused", "low", "expected two classes"),
        ("recall", ("low", "high"), "expected one class"),
        ("fnr", "low", "names a class, which 'fnr' is not a rate of"),
        ("loss", "low", "names a class, which 'loss' is not a rate of"),
    ],
)
def test_bad_scorers_of_classes(rate, of, said):
    with pytest.raises(InvalidInputError, match=said):
        gap_scorer(rate, of=of)


def test_scorers_of_classes_can_be_pickled():
    scorer = ratio_scorer("given", of="low", columns="sex")
    assert pickle.loads(pickle.dumps(scorer)) == scorer
