"""A few random fits of numbers; ``make fuzz N=...`` runs many."""

import json

import numpy as np

from fairboost import FairGBMRegressor
from tests.fuzz import numbers, table, workers

SEED = 17


def test_random_fits_of_numbers(tmp_path):
    counts = numbers.campaign(24, SEED, workers=1)
    assert not counts["failures"]
    assert counts["outcomes"]["fitted"] >= 9
    assert counts["rates recomputed"] >= 12
    assert min(counts["checked"][name] for name in ("means", "exported", "plain", "again")) >= 3
    table.write(tmp_path / "page.md", [counts])
    assert "Random fits of numbers: 24 cases" in (tmp_path / "page.md").read_text()


def test_the_same_numbers_draw_the_same_case():
    drawn = [numbers.draw(3, k) for k in range(60)]
    assert drawn[:5] == [numbers.draw(3, k) for k in range(5)]
    json.dumps(drawn)  # plain values
    assert {case["loss"] for case in drawn} == set(numbers.OBJECTIVES)
    assert sum(case["exposed"] for case in drawn) >= 5


def test_what_does_not_hold_is_found(monkeypatch):
    """A model that predicts a little more than its file."""
    case = {"n": 200, "constraint": ["equal_means"], "fair": {"tolerance": 0.3}, "loss": "poisson"}
    case |= {"exposed": True, "checks": ["again"]}
    assert numbers.run_case(case)["failures"] == []
    told = FairGBMRegressor.predict
    calls = iter(np.arange(1, 1_000))

    def drifting(self, X, exposure=None):
        return told(self, X, exposure=exposure) * (1 + 1e-3 * next(calls))

    monkeypatch.setattr(FairGBMRegressor, "predict", drifting)
    found = {failure["invariant"] for failure in numbers.run_case(case)["failures"]}
    expected = {"means", "saved", "exported", "pickled", "pieces", "exposure", "again"}
    assert found == expected


def test_a_known_difference_is_counted_apart():
    """Stock LightGBM starts from the average after all where its first tree finds no split."""
    options = {"boost_from_average": False, "min_split_gain": 1e9, "n_estimators": 5}
    for loss in ("poisson", "squared"):
        case = {"options": options, "constraint": None, "loss": loss, "checks": ["plain"]}
        result = numbers.run_case(case)
        assert (result["failures"], result["explained"]) == ([], ["no first split"])


def test_a_category_that_training_rows_do_not_have_is_counted_apart():
    case = {
        "engine": "xgboost", "features": ["normal", "many categories"], "container": "arrow",
        "n": 60, "constraint": None, "options": {"enable_categorical": True},
    }  # fmt: skip
    result = numbers.run_case(case)
    assert (result["outcome"], result["failures"]) == ("refused", [])
    assert result["explained"] == ["unseen category"]


def test_errors_of_ours_are_no_failures():
    result = numbers.run_case({"n": 200, "constraint": ["equal_means"], "fair": {}})
    assert (result["outcome"], result["failures"]) == ("refused", [])
    counts = workers.summary("numbers", 0, [{**result, "case": 0, "seconds": 0.0}], ["means"])
    assert counts["outcomes"] == {"refused": 1}
