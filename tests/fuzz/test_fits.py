"""A few random fits; ``make fuzz N=...`` runs many."""

import inspect
import json

import numpy as np
import pytest

from fairboost import FairGBMClassifier
from tests.fuzz import fits, inputs, table, workers
from tests.fuzz.cases import draw
from tests.fuzz.inputs import Older, Rows
from tests.fuzz.rates import rate_of

SEED = 17


def test_random_fits():
    counts = fits.campaign(40, SEED, workers=1)
    assert not counts["failures"]
    assert counts["outcomes"]["fitted"] >= 15
    assert counts["rates recomputed"] >= 50


def test_the_same_numbers_draw_the_same_case():
    assert draw(3, 5) == draw(3, 5) != draw(3, 6)
    json.dumps([draw(3, k) for k in range(50)])  # plain values


def test_rates_by_their_definition():
    label = np.array([0, 0, 1, 1, 1])
    rows = Rows(None, None, None, None, label, [], np.array([1.0, 3, 1, 1, 2]))
    positive = np.array([True, False, True, False, False])
    everyone = np.ones(5, bool)
    found = {r: rate_of(r, rows, positive, everyone) for r in ("fpr", "fnr", "tpr", "ppr")}
    assert found == {"fpr": 1 / 4, "fnr": 3 / 4, "tpr": 1 / 4, "ppr": 2 / 8}


def test_what_does_not_hold_is_found(monkeypatch):
    """A model that says the other label."""
    case = {"n": 200, "holdout_set": {"share": 1.0, "weights": False}}
    assert fits.run_case(case)["checked"]["rates"]
    told = FairGBMClassifier.predict
    monkeypatch.setattr(FairGBMClassifier, "predict", lambda self, X: 1 - told(self, X))
    found = {failure["invariant"] for failure in fits.run_case(case)["failures"]}
    assert found == {"decisions", "rates", "exported"}


def test_a_constraint_without_moments_has_none_wherever_one_looks():
    """Python 3.12 looks for members of a protocol without asking the object."""
    assert not hasattr(Older(), "moments")
    assert inspect.getattr_static(Older(), "moments", None) is None
    assert fits.run_case({"constraint": [["older"]]})["outcome"] == "fitted"


def test_an_option_is_at_fault_even_if_the_data_is_too():
    """XGBoost looks at the option first; with no options it would speak of infinity."""
    case = {"engine": "xgboost", "features": ["beyond single"], "constraint": None}
    result = fits.run_case({**case, "options": {"max_bin": 1}})
    assert (result["outcome"], result["failures"]) == ("engine's error", [])
    assert "has infinity" in fits.run_case(case)["why"]


EXPLAINED = {
    "no first split": {"options": {"boost_from_average": False, "min_split_gain": 1e9}},
    "seeded drops": {
        "engine": "xgboost", "constraint": None,
        "options": {
            "booster": "dart", "rate_drop": 0.5, "n_estimators": 9, "seed_per_iteration": True,
        },
    },
    "no score": {
        "data_seed": 160, "n": 50, "features": ["missing", "tiny", "infinite"],
        "labels": "bool", "groups": [{"kind": "float", "k": 3}], "groups_in": "array",
        "constraint": ["predictive_equality", "equal_opportunity"],
        "fair": {
            "tolerance": 0.0, "operating_point": ["at_positive_rate", 0.999], "proxy": "squared",
            "random_state": 1, "holdout": None,
        },
        "options": {
            "n_estimators": 7, "learning_rate": 3.0, "linear_tree": True, "num_leaves": 3,
        },
    },
    "unseen category": {
        "engine": "xgboost", "features": ["normal", "many categories"], "container": "arrow",
        "n": 60, "constraint": None, "options": {"enable_categorical": True},
    },
}  # fmt: skip


@pytest.mark.parametrize("name", EXPLAINED)
def test_known_differences_are_counted_apart(name, tmp_path):
    case = {"checks": ["plain"], **EXPLAINED[name]}
    result = fits.run_case(case)
    assert result["explained"] == [name]
    assert not result["failures"]
    told = [{**result, "case": 0, "seconds": 0.0}]
    table.write(tmp_path / "page.md", [workers.summary("fits", 0, told, fits.INVARIANTS)])
    assert fits.EXPLAINED[name] in (tmp_path / "page.md").read_text()


def test_rounding_is_what_a_user_s_objective_shows():
    """Close to 1, XGBoost's own p(1 - p) has few digits; ours has them, as a user's would."""
    case = {
        "engine": "xgboost", "data_seed": 655190469, "n": 432, "container": "csc",
        "features": ["integer", "normal", "normal", "bool", "category"], "weights": "integers",
        "labels": "one two", "groups": [{"kind": "bool", "k": 3}, {"kind": "category", "k": 2}],
        "constraint": None, "checks": ["plain"],
        "options": {
            "n_estimators": 2, "learning_rate": 0.5, "colsample_bytree": 0.7,
            "scale_pos_weight": 50.0, "base_score": 0.05,
        },
    }  # fmt: skip
    result = fits.run_case(case)
    assert (result["failures"], result["explained"]) == ([], ["rounding"])


def test_what_a_set_wants_may_not_be_here(monkeypatch):
    monkeypatch.setattr(inputs, "HAVE", set())
    beside = {"share": 1.0, "weights": False, "container": "polars"}
    result = fits.run_case({"n": 200, "container": "pandas", "holdout_set": beside})
    assert (result["outcome"], result["without"]) == ("fitted", ["polars"])


def test_tuples_are_groups_of_one_column():
    groups = {"groups": [{"kind": "tuple", "k": 3}], "groups_in": "list"}
    result = fits.run_case({**groups, "checks": ["renamed"]})
    assert (result["outcome"], result["failures"]) == ("fitted", [])
    assert result["rates"]


def test_rates_of_linear_trees_are_those_of_predict():
    """Scores of large steps are rounded otherwise when LightGBM predicts than when it trains."""
    case = {
        "data_seed": 830852954, "n": 750, "base_rate": 0.03,
        "features": ["few values", *["normal"] * 5, "bool"],
        "groups": [{"kind": "str", "k": 2, "missing": 0.02, "name": "rate: fnr"}],
        "groups_in": "list", "constraint": ["equalized_odds", ["parity", "fpr", 0.3, None]],
        "fair": {
            "operating_point": 0.999, "holdout": None, "iterate": "last", "random_state": 1,
        },
        "options": {
            "n_estimators": 14, "n_jobs": 1, "learning_rate": 3.0, "linear_tree": True,
            "boost_from_average": False,
        },
        "checks": [],
    }  # fmt: skip
    assert fits.run_case(case)["failures"] == []


def test_a_process_that_ends_is_written_down(tmp_path):
    found = workers.run("tests.fuzz.ending", 0, range(3), 2)
    assert [r["outcome"] for r in found] == ["fitted", "ended the process", "fitted"]
    counts = workers.summary("fits", 0, found, fits.INVARIANTS)
    assert counts["failed"]["process"] == 1
    assert "SIGABRT" in counts["failures"][0]["message"]
    path = tmp_path / "robustness.md"
    table.write(path, [counts, {**counts, "seed": 2}])
    assert "6 cases (seeds 0, 2)" in path.read_text()


def test_a_command_that_ends_or_hangs_is_written_down():
    found = workers.outcomes("tests.fuzz.ending", [], 4, seconds=1.0)
    hung, ended = [("hung", "took over 1.0 s")], [("crashed", "ended by -6")]
    assert found == [[("fine", "0")], hung, ended, [("fine", "3")]]
