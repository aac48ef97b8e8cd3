"""``tune`` where numbers are predicted."""

from __future__ import annotations

import numpy as np
import pytest
from lightgbm import LGBMRegressor
from sklearn.metrics import mean_poisson_deviance
from xgboost import XGBRegressor

from fairboost import FairGBMRegressor, bound, parity, tune
from fairboost.exceptions import ConstraintError, EngineOptionError, InvalidInputError
from fairboost.metrics import audit_numbers
from fairboost.selection.tuning import _default_space
from tests.selection.test_tradeoff_numbers import engine, people, policies

SPACE = {"num_leaves": {"low": 4, "high": 12}}
SEARCH = {"n_trials": 2, "models": 4, "space": SPACE}


@pytest.fixture(autouse=True)
def known_groups(monkeypatch):
    """Take groups as observed; to learn them takes longer than all the rest."""
    monkeypatch.setattr(
        "fairboost.training.memberships.recoverability", lambda *args, **options: 1.0
    )


def search(**options):
    X, y, group = people(3_000)
    given = {"sensitive_features": group, "constraint": "equal_means", "tolerance": 0.6}
    return tune(engine(n_estimators=10), X, y, **{**given, **SEARCH, **options})


@pytest.fixture(scope="module")
def tuned():
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(
            "fairboost.training.memberships.recoverability", lambda *args, **options: 1.0
        )
        X, y, group = people(6_000, seed=1)
        return search(validation_set=(X, y, group))


def test_the_model_is_that_of_least_loss_within_the_tolerance(tuned):
    table = tuned.table
    assert len(table) == 8
    np.testing.assert_array_equal(table["score"], -table["loss"])
    within = table[table["gap"] <= 0.6]
    best = within.loc[within["loss"].idxmin()]
    model = tuned.model
    assert isinstance(model, FairGBMRegressor)
    X, y, group = people(6_000, seed=1)
    audit = audit_numbers(y, model.predict(X), sensitive_features=group)
    assert float(audit.overall["mean_loss"]) == pytest.approx(best["loss"], rel=1e-6)
    gap = audit.gaps.set_index("figure")["value"]["mean_prediction"]
    assert gap == pytest.approx(best["gap"], rel=1e-4)
    assert "by the validation rows of the search, where its gap is" in str(model.fairness_report_)
    assert model.fairness_report_.verdicts[0].limit == 0.6


def test_best_weighs_shares_of_what_the_best_plain_model_has(tuned):
    table = tuned.table
    free = table[table["tolerance"].isna()]
    plain = free.loc[free["loss"].idxmin()]
    for alpha in (0.1, 0.9):
        cost = alpha * table["loss"] / plain["loss"] + (1 - alpha) * table["gap"] / plain["gap"]
        expected = table.loc[cost.idxmin()]
        model = tuned.best(alpha)
        assert model.get_params()["estimator__num_leaves"] == expected["num_leaves"]
        assert model.best_iteration_ == expected["trees"]


def test_the_front_and_its_plot(tuned):
    matplotlib = pytest.importorskip("matplotlib", reason="plots need matplotlib")
    matplotlib.use("Agg")
    from matplotlib import pyplot as plt

    front = tuned.front
    assert front["loss"].is_monotonic_increasing
    assert front["gap"].is_monotonic_decreasing
    display = tuned.plot()
    assert display.ax_.get_ylabel() == "loss, validation rows"
    assert display.ax_.get_xlabel() == "gap of mean predictions, validation rows"
    plt.close("all")


def test_exposures_and_a_scorer_of_scikit_learn():
    X, y, years, gender = policies(3_000)
    rows = {"sensitive_features": gender, "exposure": years}
    held = policies(2_000, seed=1)
    asked = {"constraint": "calibrated", "validation_set": (*held[:2], held[3], None, held[2])}
    chosen = engine(objective="poisson", n_estimators=10)
    found = [
        tune(chosen, X, y, **rows, **asked, **SEARCH, scoring=scoring)
        for scoring in ("auto", "neg_mean_poisson_deviance")
    ]
    assert found[0].tolerance == 0.01  # that of calibration where none is given
    # Of rates by exposure: Poisson's deviance is the same as of counts.
    np.testing.assert_allclose(found[1].table["score"], found[0].table["score"], rtol=1e-6)
    model = found[0].best(1.0)
    expected = model.predict(held[0], exposure=held[2])
    deviance = mean_poisson_deviance(held[1], expected) * len(expected) / held[2].sum()
    assert found[0].table["loss"].min() == pytest.approx(deviance, rel=1e-5)


def test_rows_are_divided_with_their_weights_and_exposures():
    X, y, years, gender = policies(1_500)
    weight = np.random.default_rng(0).uniform(0.5, 2.0, len(y))
    tuned = tune(
        engine(objective="poisson", n_estimators=5), X, y, sensitive_features=gender,
        exposure=years, sample_weight=weight, constraint="equal_means", tolerance=0.3, n_trials=1,
        models=2, space=SPACE,
    )  # fmt: skip
    assert np.isfinite(tuned.table[["loss", "gap"]].to_numpy()).all()


def test_a_search_goes_on_with_the_same_rows_and_not_with_other_exposures(tmp_path):
    X, y, years, gender = policies(1_000)
    rows = {"sensitive_features": gender, "constraint": "equal_means", "tolerance": 0.3}
    rows |= {"storage": f"sqlite:///{tmp_path}/tune.db", "models": 2, "space": SPACE}
    chosen = engine(objective="poisson", n_estimators=5)
    first = tune(chosen, X, y, exposure=years, n_trials=1, **rows)
    again = tune(chosen, X, y, exposure=years, n_trials=2, **rows)
    assert first.table["loss"].tolist() == again.table["loss"].tolist()[:2]
    with pytest.raises(InvalidInputError, match="other"):
        tune(chosen, X, y, exposure=2 * years, n_trials=2, **rows)


@pytest.mark.parametrize("kind", [LGBMRegressor, XGBRegressor])
def test_what_is_searched_by_default_are_options_of_the_engine(kind):
    assert set(_default_space(kind())) <= set(kind().get_params())


@pytest.mark.parametrize(
    "options, error, message",
    [
        ({"tolerance": None}, ConstraintError, "needs a tolerance in the unit of the prediction"),
        ({"constraint": bound("loss", 9.0), "tolerance": None}, ConstraintError, "varies the tol"),
        (
            {"constraint": [parity("prediction", 0.1), parity("prediction", 0.2)],
             "tolerance": None},
            ConstraintError,
            r"one tolerance, found \[0\.1, 0\.2\]",
        ),
        ({"constraint": ["equal_means", "equal_errors"]}, ConstraintError, "cannot be that of"),
        ({"validation_set": (1, 2)}, InvalidInputError, r"\[, sample_weight\[, exposure\]\]"),
        ({"pos_label": 1}, InvalidInputError, "pos_label is for models that decide"),
    ],
)  # fmt: skip
def test_bad_options(options, error, message):
    with pytest.raises(error, match=message):
        search(**options)


def test_a_fair_model_is_no_engine():
    X, y, group = people(200)
    with pytest.raises(EngineOptionError, match=r"pass the engine, tune\(model\.estimator"):
        tune(FairGBMRegressor(), X, y, sensitive_features=group)
