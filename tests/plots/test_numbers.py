"""Displays of numbers that are predicted."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

matplotlib = pytest.importorskip("matplotlib", reason="plots need matplotlib")
matplotlib.use("Agg")

from lightgbm import LGBMRegressor  # noqa: E402
from matplotlib import pyplot as plt  # noqa: E402

from fairboost import FairGBMRegressor  # noqa: E402
from fairboost.exceptions import InvalidInputError  # noqa: E402
from fairboost.metrics import audit_numbers  # noqa: E402
from fairboost.plots import (  # noqa: E402
    GroupCalibrationDisplay,
    GroupPredictionsDisplay,
    GroupRatesDisplay,
    GroupRocDisplay,
    GroupScoresDisplay,
    MultipliersDisplay,
)
from fairboost.plots.numbers import STEPS, distribution_functions  # noqa: E402


@pytest.fixture(autouse=True)
def _close_figures():
    yield
    plt.close("all")


@pytest.fixture(scope="module")
def people():
    rng = np.random.default_rng(0)
    n = 2_000
    group, band = rng.choice(["a", "b"], n), rng.choice(["old", "young"], n)
    X = rng.normal(size=(n, 2)) + np.outer(group == "b", [1.0, 0.0])
    y = 5 + X[:, 0] + X[:, 1] + rng.normal(size=n)
    return X, y, pd.DataFrame({"group": group, "band": band})


@pytest.fixture(scope="module")
def model(people):
    X, y, groups = people
    engine = LGBMRegressor(n_estimators=15, num_leaves=7, verbose=-1, n_jobs=1)
    fair = FairGBMRegressor(engine, constraint="equal_means", tolerance=0.5, random_state=0)
    return fair.fit(X, y, sensitive_features=groups["group"])


@pytest.mark.parametrize(
    ("rate", "column"),
    [("prediction", "mean_prediction"), ("A/E", "a_over_e"), ("loss", "mean_loss")],
)
def test_figures_by_group_are_those_of_the_audit(people, model, rate, column):
    X, y, groups = people
    display = GroupRatesDisplay.from_estimator(model, X, y, sensitive_features=groups, rate=rate)
    found = audit_numbers(y, model.predict(X), sensitive_features=groups).by_group
    (bars,) = display.ax_.containers
    assert bars.lines[0].get_xdata() == pytest.approx(found[column].to_numpy())
    (arms,) = bars.lines[2]
    ends = np.array([line[:, 0] for line in arms.get_segments()])
    expected = found[[f"{column}_low", f"{column}_high"]].to_numpy()
    assert ends == pytest.approx(expected)


def test_a_regressor_shows_mean_predictions_unless_told_otherwise(people, model):
    X, y, groups = people
    plain = LGBMRegressor(n_estimators=5, verbose=-1).fit(X, y)
    models = {"fair": model, "plain": plain}
    display = GroupRatesDisplay.from_estimator(models, X, y, sensitive_features=groups)
    assert display.ax_.get_xlabel() == "mean prediction"
    assert set(display.table["model"]) == {"fair", "plain"}


def test_distances_have_no_everyone(people, model):
    X, y, groups = people
    display = GroupRatesDisplay.from_estimator(
        model, X, y, sensitive_features=groups, rate="distance"
    )
    assert "" not in set(display.table["attribute"])
    assert display.table["value"].between(0, 1).all()


def test_exposures_are_refused_for_rates(people):
    _, y, groups = people
    with pytest.raises(InvalidInputError, match="exposure and loss are for figures of a number"):
        GroupRatesDisplay.from_predictions(
            y > 5, y > 4, sensitive_features=groups, exposure=np.ones(len(y))
        )


def test_deciles_are_those_of_the_audit(people, model):
    X, y, groups = people
    display = GroupCalibrationDisplay.from_estimator(
        model, X, y, sensitive_features=groups, by="group"
    )
    found = audit_numbers(y, model.predict(X), sensitive_features=groups).by_decile
    found = found[(found["attribute"] == "group") & (found["rows"] > 0)]
    table = display.table
    assert table["predicted"].to_numpy() == pytest.approx(found["expected"] / found["exposure"])
    assert (table["found"] / table["predicted"]).to_numpy() == pytest.approx(found["a_over_e"])
    assert (table["high"] / table["predicted"]).to_numpy() == pytest.approx(found["a_over_e_high"])
    assert display.ax_.get_ylabel() == "mean of what was actual"


def test_a_negative_prediction_has_its_interval_the_right_way_round():
    rng = np.random.default_rng(0)
    y = rng.normal(-5.0, 1.0, 400)
    display = GroupCalibrationDisplay.from_numbers(
        y, rng.normal(-5.0, 0.3, 400), sensitive_features=list("ab") * 200
    )
    assert (display.table["low"] <= display.table["found"]).all()
    assert (display.table["found"] <= display.table["high"]).all()


def test_distribution_functions_are_exact_and_short():
    rng = np.random.default_rng(0)
    values, weight = rng.normal(size=5_000), rng.uniform(0.5, 2.0, 5_000)
    codes = rng.integers(-1, 2, 5_000)
    table = distribution_functions(values, codes, ("a", "b", "nobody"), weight)
    assert set(table["group"]) == {"a", "b"}
    for code, group in enumerate("ab"):
        part, mine = table[table["group"] == group], codes == code
        assert len(part) <= STEPS
        assert part["prediction"].iloc[-1] == values[mine].max()
        for line in part.iloc[::7].itertuples():
            below = mine & (values <= line.prediction)
            assert weight[below].sum() / weight[mine].sum() == pytest.approx(line.share)


def test_exposure_divides_predictions_and_weighs_rows():
    exposure = np.array([1.0, 3.0, 1.0, 1.0])
    display = GroupPredictionsDisplay.from_predictions(
        np.array([2.0, 3.0, 1.0, 2.0]), sensitive_features=list("aabb"), exposure=exposure
    )
    table = display.table[display.table["group"] == "a"]
    assert table["prediction"].tolist() == [1.0, 2.0]
    assert table["share"].tolist() == [0.75, 1.0]
    assert "per unit of exposure" in display.ax_.get_xlabel()


def test_predictions_of_a_model_by_group(people, model):
    X, _, groups = people
    display = GroupPredictionsDisplay.from_estimator(
        model, X, sensitive_features=groups, by="group"
    )
    names = [text.get_text() for text in display.ax_.get_legend().get_texts()]
    assert names == ["a", "b"]
    with pytest.raises(InvalidInputError, match="by must name the column"):
        GroupPredictionsDisplay.from_estimator(model, X, sensitive_features=groups)


@pytest.mark.parametrize("display", [GroupRocDisplay, GroupScoresDisplay])
def test_what_is_of_probabilities_refuses_numbers(people, model, display):
    X, y, groups = people
    with pytest.raises(InvalidInputError, match="GroupPredictionsDisplay"):
        display.from_estimator(model, X, y, sensitive_features=groups["group"])


def test_violations_on_training_rows_are_dotted(people, model):
    X, y, groups = people
    display = MultipliersDisplay.from_estimator(model, train=(X, y, groups["group"]))
    dotted = [line for line in display.ax_[1].get_lines() if line.get_linestyle() == ":"]
    drawn = {tuple(line.get_ydata()) for line in dotted}
    for name in model.multipliers_.index:
        assert tuple(display.train[f"violation: {name}"]) in drawn


def test_multipliers_come_from_the_trace(model):
    display = MultipliersDisplay.from_estimator(model)
    top, bottom = display.ax_
    names = list(model.multipliers_.index)
    drawn = [line for line in top.get_lines() if len(line.get_xdata()) == len(model.trace_)]
    assert len(drawn) == len(names)
    found = {line.get_label(): line.get_ydata() for line in drawn}
    assert found[names[0]] == pytest.approx(model.trace_[f"multiplier: {names[0]}"].to_numpy())
    assert bottom.get_ylabel() == "violation (> 0: broken)"
