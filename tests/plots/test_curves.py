"""The curve of a rate over a number, as a display and in a report."""

import numpy as np
import pandas as pd
import pytest
from lightgbm import LGBMClassifier

from fairboost import FairGBMClassifier, group_probabilities, parity, smooth
from fairboost.exceptions import InvalidInputError

matplotlib = pytest.importorskip("matplotlib", reason="plots need matplotlib")
matplotlib.use("Agg")

from fairboost.plots import GroupRocDisplay, RateCurveDisplay  # noqa: E402
from fairboost.report import Evidence, gather, to_html, to_markdown  # noqa: E402

pytestmark = pytest.mark.filterwarnings("ignore::fairboost.exceptions.FairnessWarning")


@pytest.fixture(autouse=True)
def _close():
    yield
    matplotlib.pyplot.close("all")


@pytest.fixture(scope="module")
def aged():
    rng = np.random.default_rng(0)
    n = 3_000
    age = np.round(rng.uniform(18, 80, n))
    inside = rng.random(n) < 0.4
    X = np.column_stack([rng.normal(size=n), age, inside + rng.normal(size=n)])
    y = (X[:, 0] + (age - 50) / 25 - inside + rng.logistic(size=n) > 0).astype(int)
    p = 0.15 + 0.55 * inside + 0.1 * rng.random(n)
    race = group_probabilities({"a": 1 - p, "b": p}, "race", estimator="weighted")
    return X, y, {"age": age, "race": race, "h": np.where(np.arange(n) % 2, "x", "y")}


@pytest.fixture(scope="module")
def model(aged):
    X, y, sensitive = aged
    engine = LGBMClassifier(n_estimators=10, num_leaves=7, verbose=-1, n_jobs=1)
    asked = [parity("ppr", 0.1, by=smooth("age", 4)), parity("ppr", 0.2, by="race")]
    fair = FairGBMClassifier(engine, constraint=asked, holdout=0.3, random_state=0)
    return fair.fit(X, y, sensitive_features=sensitive)


def test_the_curve_joins_the_rates_of_windows(aged, model):
    X, y, sensitive = aged
    display = RateCurveDisplay.from_estimator(
        {"fair": model, "again": model}, X, y, sensitive_features=sensitive,
        by=smooth("age", (25, 50, 75)), rate="ppr",
    )  # fmt: skip
    assert display.table["at"].tolist() == [25, 50, 75] * 2
    line = display.ax_.get_lines()[0]
    np.testing.assert_allclose(line.get_ydata(), display.table["value"][:3])
    assert display.ax_.get_xlabel() == "age"
    assert display.ax_.get_ylabel() == "predicted positive rate"
    assert len(display.ax_.collections) == 2  # the bands


def test_what_cannot_be_drawn_is_refused(aged, model):
    X, y, sensitive = aged
    rest = {"sensitive_features": sensitive}
    with pytest.raises(InvalidInputError, match=r"by must be smooth\(...\)"):
        RateCurveDisplay.from_estimator(model, X, y, **rest, by="age")
    with pytest.raises(InvalidInputError, match="there is no sensitive column 'years'"):
        RateCurveDisplay.from_estimator(model, X, y, **rest, by=smooth("years"))
    with pytest.raises(InvalidInputError, match="lacks the columns at"):
        RateCurveDisplay(pd.DataFrame({"rate": ["fnr"], "value": [0.1], "low": [0], "high": [1]}),
                         "age").plot()  # fmt: skip
    with pytest.raises(InvalidInputError, match="group probabilities, which are not supported"):
        GroupRocDisplay.from_estimator(model, X, y, sensitive_features=sensitive["race"])


def test_a_report_shows_the_curve_and_says_what_rates_estimate(aged, model):
    X, y, sensitive = aged
    found = gather(model, X, y, sensitive_features=sensitive, train=(X, y, sensitive))
    assert found.windows == {"age": model.fairness_report_.windows["age"]}
    again = Evidence.from_json(found.to_json())
    assert again == found
    page, text = to_html(found), to_markdown(found)
    for shown in (page, text):
        assert "Predicted positive rate over age on the test rows" in shown
        assert "Groups of race are known by probability" in shown
        assert "equal by age as a number" in shown
    uses = {use.name: use for use in found.data.sensitive}
    assert uses["race"].missing == 0
    assert uses["age"].groups == 4
