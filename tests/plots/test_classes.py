"""Displays of decisions among several classes: the figures are those of the audit."""

from __future__ import annotations

import matplotlib.pyplot as plt
import numpy as np
import pytest
from lightgbm import LGBMClassifier

from fairboost import FairGBMClassifier
from fairboost.exceptions import InvalidInputError
from fairboost.metrics import audit_classes
from fairboost.plots import (
    GroupCalibrationDisplay,
    GroupConfusionDisplay,
    GroupRatesDisplay,
    GroupRocDisplay,
    GroupScoresDisplay,
    MultipliersDisplay,
)

BANDS = ["high", "low", "middle"]


@pytest.fixture(autouse=True)
def _close():
    yield
    plt.close("all")


@pytest.fixture(scope="module")
def rows():
    rng = np.random.default_rng(0)
    n = 1_200
    sex = rng.choice(["F", "M"], n)
    X = rng.normal(size=(n, 3)) + np.outer(sex == "M", [0.8, 0.0, 1.0])
    z = X[:, 0] + rng.normal(size=n)
    y = np.array(["low", "middle", "high"])[np.searchsorted([-0.3, 0.8], z)]
    return {"X": X, "y": y, "sensitive_features": {"sex": sex}}


@pytest.fixture(scope="module")
def model(rows):
    engine = LGBMClassifier(n_estimators=8, num_leaves=5, verbose=-1, n_jobs=1)
    fair = FairGBMClassifier(engine, constraint="equal_opportunity", tolerance=0.3, holdout=None)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("warnings.warn", lambda *_, **__: None)
        return fair.fit(rows["X"], rows["y"], sensitive_features=rows["sensitive_features"])


@pytest.fixture(scope="module")
def found(model, rows):
    given = model.predict(rows["X"])
    return audit_classes(rows["y"], given, sensitive_features=rows["sensitive_features"])


def test_a_matrix_of_every_group_in_percent(model, rows, found):
    display = GroupConfusionDisplay.from_estimator(model, **rows)
    assert [ax.get_title(loc="left") for ax in display.ax_] == ["everyone", "F", "M"]
    assert [t.get_text() for t in display.ax_[-1].get_xticklabels()] == BANDS
    for ax, place in zip(display.ax_, [("", "everyone"), ("sex", "F"), ("sex", "M")], strict=True):
        expected = found.confusion(*place).to_numpy()
        shown = {t.get_position(): float(t.get_text()) for t in ax.texts}
        for j in range(3):
            for k in range(3):
                assert shown[k, j] == pytest.approx(100 * expected[j, k], abs=0.5)
        (squares,) = ax.collections
        shares = found.confusion(*place).stack().to_numpy()
        own = display.table[display.table["group"] == place[1]]
        assert squares.get_facecolor()[:, 3] == pytest.approx(0.55 * own["value"].to_numpy())
        assert sorted(own["value"]) == pytest.approx(sorted(shares))


def test_one_matrix_goes_where_it_is_told(model, rows):
    figure, axes = plt.subplots(1, 3)
    display = GroupConfusionDisplay.from_estimator(model, **rows, ax=axes)
    assert display.figure_ is figure
    with pytest.raises(InvalidInputError, match="ax must be 3 axes, one for each group, found 1"):
        GroupConfusionDisplay(display.table).plot([axes[0]])


def test_a_class_without_rows_is_left_open():
    y, given = ["a", "b", "c"] * 10, ["a", "b", "c"] * 10
    sex = np.where(np.array(y) == "c", "F", "M")
    display = GroupConfusionDisplay.from_predictions(y, given, sensitive_features={"sex": sex})
    men = display.ax_[2]
    assert [t.get_text() for t in men.texts if t.get_position()[1] == 2] == ["–"] * 3


def test_many_classes_have_no_figures_and_many_groups_are_refused():
    rng = np.random.default_rng(0)
    y = rng.choice([f"c{k:02d}" for k in range(12)], 600)
    display = GroupConfusionDisplay.from_predictions(y, y, sensitive_features=["a", "b"] * 300)
    assert not display.ax_[0].texts
    group = rng.choice([f"g{k:02d}" for k in range(20)], 600)
    with pytest.raises(InvalidInputError, match=r"shows 1 to 12 groups.*found 21"):
        GroupConfusionDisplay.from_predictions(y, y, sensitive_features=group)


@pytest.mark.parametrize(
    ("options", "title", "kind"),
    [
        ({}, "accuracy", ("accuracy", None, None)),
        ({"rate": "recall", "of": "low"}, "recall of 'low'", ("recall", "low", "low")),
        ({"rate": "given", "of": "high"}, "share given 'high'", ("given", None, "high")),
        (
            {"rate": "confused", "of": ("low", "high")},
            "share of 'low' given 'high'",
            ("confused", "low", "high"),
        ),
    ],
)
def test_rates_by_group(model, rows, found, options, title, kind):
    display = GroupRatesDisplay.from_estimator(model, **rows, **options)
    assert display.ax_.get_xlabel() == title
    rate, label, given = kind
    table = found.rates[found.rates["rate"] == rate]
    pairs = zip(table["label"], table["given"], strict=True)
    table = table[[pair == (label, given) for pair in pairs]]
    for column in ("group", "value", "low", "high", "rows"):
        assert list(display.table[column]) == list(table[column])


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"rate": "recall"}, "rate='recall' takes a class, found of=None"),
        ({"rate": "confused", "of": "low"}, "rate='confused' takes two classes, found of='low'"),
        ({"rate": "accuracy", "of": "low"}, "rate='accuracy' takes no class"),
        ({"rate": "recall", "of": "none"}, "names a class that is not among 'high', 'low'"),
        ({"rate": "fnr", "of": "low"}, "is the class of a rate of classes, found rate='fnr'"),
    ],
)
def test_what_is_no_rate_of_classes_is_refused(model, rows, options, said):
    with pytest.raises(InvalidInputError, match=said):
        GroupRatesDisplay.from_estimator(model, **rows, **options)


@pytest.mark.parametrize("display", [GroupRocDisplay, GroupScoresDisplay, GroupCalibrationDisplay])
def test_displays_of_two_labels_are_refused_by_name(model, rows, display):
    with pytest.raises(InvalidInputError, match="gives one of 3 classes; use GroupConfusion"):
        display.from_estimator(model, **rows)


def test_multipliers_are_drawn_and_training_rows_refused(model, rows):
    assert len(MultipliersDisplay.from_estimator(model).ax_) == 2
    with pytest.raises(InvalidInputError, match="gives one of 3 classes; leave train out"):
        MultipliersDisplay.from_estimator(model, train=tuple(rows.values()))
