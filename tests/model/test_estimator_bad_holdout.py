"""Rows to hold out that cannot be, refused before training; what can be said is said."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from fairboost import FairGBMClassifier, bound
from fairboost.exceptions import (
    ConstraintError,
    FairnessWarning,
    InvalidInputError,
)

# Parameters


@pytest.mark.parametrize("holdout", [0, 1, -0.1, 1.5, "half", True, float("nan"), [0.2]])
def test_holdout(refuses, holdout):
    refuses(
        InvalidInputError,
        r"holdout must be 'auto', 'cross', a share of the rows in \(0, 1\), or None",
        params={"holdout": holdout},
    )


def test_holdout_is_checked_even_if_there_is_nothing_to_hold_out_for(refuses):
    refuses(InvalidInputError, r"holdout must be", params={"holdout": "half", "constraint": None})


@pytest.mark.parametrize("confidence", [0, 1, 2, -0.5, "high", True, float("nan")])
def test_confidence(refuses, confidence):
    refuses(
        InvalidInputError,
        r"confidence must lie in \(0, 1\), found .*; write 0.95 for 95%, or None to aim",
        params={"confidence": confidence},
    )


@pytest.mark.parametrize("multipliers", ["three", None, 2, "Paper"])
def test_multipliers(refuses, multipliers):
    refuses(
        InvalidInputError,
        r"multipliers must be 'two_sided' or 'paper', found ",
        params={"multipliers": multipliers},
    )


# A share that leaves a group without rows


@pytest.mark.parametrize(
    ("constraint", "label", "rate"),
    [
        ("equal_opportunity", " with y = 1", "false negative rate"),
        ("predictive_equality", " with y = 0", "false positive rate"),
        ("demographic_parity", "", "predicted positive rate"),
    ],
)
def test_a_share_too_small_for_a_group(refuses, constraint, label, rate):
    refuses(
        ConstraintError,
        rf"group 'sensitive_feature=\w' has no held-out rows{label}, so its {rate} is undefined; "
        r"hold out more rows, or use holdout='cross'",
        params={"holdout": 0.0005, "constraint": constraint},
    )


def test_a_share_that_leaves_nothing_to_train_on(refuses):
    refuses(
        ConstraintError,
        r"group 'sensitive_feature=a' has no rows left to train on with y = 0, .* hold out fewer",
        params={"holdout": 0.9999},
    )


# A set of one's own


@pytest.fixture
def held(make_toy):
    return make_toy(n=200, seed=1)


@pytest.mark.parametrize(
    ("wrong", "found"),
    [
        (lambda h: h.X, "ndarray"),
        (lambda h: pd.DataFrame(h.X), "DataFrame"),
        (lambda h: {"X": h.X, "y": h.y}, "dict"),
        (lambda h: "held out", "str"),
        (lambda h: (h.X,), "1 items"),
        (lambda h: (h.X, h.y, h.group, h.weight, None), "5 items"),
    ],
)
def test_not_a_tuple(refuses, held, wrong, found):
    refuses(
        InvalidInputError,
        rf"holdout_set must be a tuple \(X, y, sensitive_features\[, .* found {found}",
        holdout_set=wrong(held),
    )


@pytest.mark.parametrize(
    ("wrong", "match"),
    [
        (
            lambda h: (h.X, h.y[1:], h.group),
            r"y of holdout_set has 199 rows but its X has 200",
        ),
        (
            lambda h: (h.X, h.y, h.group[1:]),
            r"sensitive_features \(sensitive_feature\) has 199 rows but .* has 200",
        ),
        (lambda h: (h.X, h.y, h.group, h.weight[1:]), r"sample_weight has 199 rows but .* 200"),
        (lambda h: (h.X[:, 0], h.y, h.group), r"a table of rows and columns, found 1 dim"),
        (
            lambda h: (h.X[:, :3], h.y, h.group),
            r"X of holdout_set has 3 features, expected the 4 of training; pass the same columns",
        ),
    ],
    ids=["labels", "groups", "weights", "one column", "other features"],
)
def test_shapes(refuses, held, wrong, match):
    refuses(InvalidInputError, match, holdout_set=wrong(held))


def test_cross_fitting_beside_a_set(refuses, held):
    refuses(
        InvalidInputError,
        r"holdout='cross' measures on the training rows out of fold, .*; leave one of them "
        r"out, or hold out a share beside the set, holdout=0.2",
        params={"holdout": "cross"},
        holdout_set=(held.X, held.y, held.group),
    )


def test_other_names_of_features(refuses, toy, held):
    refuses(
        InvalidInputError,
        r"X of holdout_set has the feature 'salary' where training has 'income'; pass the same",
        X=toy.frame,
        holdout_set=(held.frame.rename(columns={"income": "salary"}), held.y, held.group),
    )
    refuses(
        InvalidInputError,
        r"X of holdout_set has the feature 'district' where training has 'income'",
        X=toy.frame,
        holdout_set=(held.frame[held.frame.columns[::-1]], held.y, held.group),
    )


@pytest.mark.parametrize(
    ("wrong", "match"),
    [
        (lambda y: np.where(y, 2, 0), r"y of holdout_set has the label .*2.*, expected those of"),
        (lambda y: np.where(y, "1", "0"), r"y of holdout_set has the label .*'[01]'"),
        (lambda y: np.where(y, 1.0, np.nan), r"y of holdout_set has the label .*nan"),
    ],
    ids=["another number", "text", "missing"],
)
def test_labels_that_training_does_not_have(refuses, held, wrong, match):
    refuses(InvalidInputError, match, holdout_set=(held.X, wrong(held.y), held.group))


def test_labels_are_named_as_the_user_wrote_them(refuses, held):
    refuses(
        InvalidInputError,
        r"the label 2, expected those of training, 0 and 1;",
        holdout_set=(held.X, np.where(held.y, 2, 0), held.group),
    )


@pytest.mark.parametrize(
    ("groups", "found"),
    [
        (lambda g: None, "none"),
        (lambda g: {"sex": g}, "sex"),
        (lambda g: {"age": g, "sex": g}, "age, sex"),
    ],
)
def test_other_sensitive_columns(refuses, held, groups, found):
    refuses(
        InvalidInputError,
        rf"holdout_set has the sensitive columns {found}, expected those of training: sensitive_f",
        holdout_set=(held.X, held.y, groups(held.group)),
    )
    if found == "none":
        refuses(InvalidInputError, r"the sensitive columns none", holdout_set=(held.X, held.y))


@pytest.mark.parametrize(("label", "rate"), [(0, "false positive"), (1, "false negative")])
def test_a_set_without_rows_of_a_group_names_the_group(refuses, toy, held, label, rate):
    keep = (held.group == "a") | (held.y != label)
    refuses(
        ConstraintError,
        rf"group 'sex=b' has no held-out rows with y = {label}, so its {rate} rate is undefined",
        sensitive_features={"sex": toy.group},
        holdout_set=(held.X[keep], held.y[keep], {"sex": held.group[keep]}),
    )


def test_a_set_whose_rows_of_a_group_weigh_nothing(refuses, held):
    refuses(
        ConstraintError,
        r"group 'sensitive_feature=b' has no held-out rows",
        holdout_set=(held.X, held.y, held.group, (held.group == "a") * 1.0),
    )


@pytest.mark.parametrize(
    ("weight", "match"),
    [
        (lambda w: -w, r"sample_weight must not be negative"),
        (lambda w: w * np.nan, r"sample_weight must be finite"),
        (lambda w: w * 0, r"at least one non-zero number"),
    ],
)
def test_weights_of_the_set(refuses, held, weight, match):
    refuses(
        InvalidInputError, match, holdout_set=(held.X, held.y, held.group, weight(held.weight))
    )


# Which is no reason to stop


def test_a_group_that_training_never_saw(engine, toy, held):
    """Its rows count for no group; the others decide as if they were alone."""
    new = np.arange(len(held)) % 7 == 0
    group = np.where(new, "z", held.group)

    def fit(holdout_set):
        model = FairGBMClassifier(engine(), constraint="equal_opportunity", tolerance=0.01)
        return model.fit(toy.X, toy.y, sensitive_features=toy.group, holdout_set=holdout_set)

    with pytest.warns(FairnessWarning, match=r"'sensitive_feature' that training never saw: 'z'"):
        model = fit((held.X, held.y, group))
    assert len(model.trace_) == 8 and model.multipliers_.sum() > 0
    assert not any("z" in name for name in model.trace_.columns)
    alone = fit((held.X[~new], held.y[~new], held.group[~new]))
    np.testing.assert_array_equal(alone.multipliers_, model.multipliers_)
    unknown = fit((held.X, held.y, np.where(new, None, held.group)))
    np.testing.assert_array_equal(unknown.multipliers_, model.multipliers_)


def test_a_set_for_a_bound_on_everyone_needs_no_groups(engine, toy, held):
    model = FairGBMClassifier(engine(), constraint=bound("fpr", 0.1))
    model.fit(toy.X, toy.y, holdout_set=(held.X, held.y))
    assert model.multipliers_.sum() > 0
    f = np.full(len(held), np.log(toy.y.mean() / (1 - toy.y.mean())))
    assert model.trace_["rate: fpr[everyone]"].iloc[0] == (f >= 0).mean()


@pytest.mark.parametrize("labels", [np.array(["no", "yes"]), np.array([False, True])])
def test_labels_of_the_set_are_the_users(engine, toy, held, labels):
    def fit(y, held_y):
        model = FairGBMClassifier(engine())
        return model.fit(
            toy.X, y, sensitive_features=toy.group, holdout_set=(held.X, held_y, held.group)
        )

    as_numbers = fit(toy.y, held.y)
    as_written = fit(labels[toy.y], labels[held.y])
    pd.testing.assert_frame_equal(as_written.trace_, as_numbers.trace_)
