"""XGBoost's JSON model, edited."""

import json

import pytest

from fairboost.engines.xgboost.model_json import append_rounds, first_rounds


def dart(trees, *, inside):
    """A booster of DART with so many trees; XGBoost 3.4 has the factors in two places."""
    weights = [0.5 + k for k in range(trees)]
    model = {
        "trees": [{"id": k} for k in range(trees)],
        "tree_info": [0] * trees,
        "iteration_indptr": list(range(trees + 1)),
        "gbtree_model_param": {"num_trees": str(trees)},
    }
    if inside:
        model["weight_drop"] = list(weights)
    booster = {"name": "dart", "gbtree": {"model": model}, "weight_drop": weights}
    return json.dumps({"learner": {"attributes": {}, "gradient_booster": booster}})


@pytest.mark.parametrize("inside", [False, True])
def test_factors_of_trees_are_cut_and_joined_with_them(inside):
    for text, expected in (
        (first_rounds(dart(7, inside=inside), 4), [0.5, 1.5, 2.5, 3.5]),
        (append_rounds(dart(2, inside=inside), dart(2, inside=inside)), [0.5, 1.5, 0.5, 1.5]),
    ):
        booster = json.loads(text)["learner"]["gradient_booster"]
        model = booster["gbtree"]["model"]
        assert booster["weight_drop"] == expected
        assert len(model["trees"]) == len(model["tree_info"]) == 4
        assert model.get("weight_drop", expected) == expected
