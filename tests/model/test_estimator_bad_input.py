"""Bad input raises before training, and says what was wrong, what was expected and what to do."""

from __future__ import annotations

import numpy as np
import pandas as pd
import polars as pl
import pytest

from fairboost import FairGBMClassifier, at_least, bound, parity
from fairboost.exceptions import ConstraintError, InvalidInputError, SmallCellWarning


def test_good_input_does_train(engine, toy, no_training):
    """The guard of this file works: with nothing wrong, training is reached."""
    with pytest.raises(AssertionError, match="asked to train"):
        FairGBMClassifier(engine()).fit(toy.X, toy.y, sensitive_features=toy.group)


# Parameters


@pytest.mark.parametrize(
    ("params", "match"),
    [
        (
            {"constraint": "equal_oportunity"},
            r"unknown constraint 'equal_oportunity'; expected one.*mean 'equal_opportunity'\?$",
        ),
        (
            {"constraint": "equal_accuracy"},
            r"unknown constraint .* None; 'equal_accuracy' is for three classes or more$",
        ),
        ({"constraint": ["equalized_odds", "dp"]}, r"unknown constraint 'dp'"),
        (
            {"constraint": "FNR"},
            r"unknown constraint 'FNR'.*; for this rate write parity\('fnr'\)$",
        ),
        ({"constraint": "recall"}, r"unknown constraint 'recall'.* write parity\('tpr'\)$"),
        ({"constraint": "selection_rate"}, r"for this rate write parity\('ppr'\)$"),
        ({"constraint": "accuracy"}, r"of two labels, write bound\('error', 0.2\) or"),
        (
            {"constraint": "statistical_parity"},
            r"unknown constraint .* did you mean 'demographic_parity'\?$",
        ),
        (
            {"constraint": "equal_means"},
            r"unknown constraint .* is about predicted numbers, for FairGBMRegressor$",
        ),
        ({"constraint": 3}, r"3 is not a constraint; expected a name"),
        ({"constraint": []}, r"constraint is an empty list; write constraint=None"),
        ({"proxy": "crossentropy"}, r"unknown proxy 'crossentropy'; expected 'auto', one of"),
        ({"proxy": None}, r"unknown proxy None"),
        ({"tolerance": 1.0}, r"tolerance must lie in \[0, 1\), found 1.0"),
        ({"tolerance": -0.01}, r"tolerance must lie in \[0, 1\), found -0.01"),
        ({"tolerance": float("nan")}, r"tolerance must lie in \[0, 1\), found nan"),
        ({"tolerance": "0.1"}, r"tolerance must lie in \[0, 1\), found '0.1'"),
    ],
)
def test_constraint_parameters(refuses, params, match):
    refuses(ConstraintError, match, params=params)


@pytest.mark.parametrize(
    ("make", "match"),
    [
        (lambda: parity("fpn"), r"unknown rate 'fpn'; expected one of fpr, fnr, tpr"),
        (lambda: bound("xyz", 0.1), r"unknown rate 'xyz'.*loss$"),
        (lambda: at_least("sensitivity", 0.8), r"unknown rate .*; did you mean 'tpr'\?$"),
        (lambda: bound("False_Positive_Rate", 0.8), r"unknown rate .*; did you mean 'fpr'\?$"),
        (lambda: parity("Selection rate"), r"unknown rate .*; did you mean 'ppr'\?$"),
        (lambda: parity("acceptance_rate"), r"unknown rate .*; did you mean 'ppr'\?$"),
        (lambda: parity("mean"), r"unknown rate .*; did you mean 'prediction'\?$"),
        (lambda: parity("specificity"), r"unknown rate .*; did you mean 'tnr'\?$"),
        (lambda: parity("equal_opportunity"), r"unknown rate .*; did you mean 'fnr'\?$"),
        (lambda: parity("ppv"), r"pnr, precision, error, or .*; did you mean 'precision'\?$"),
        (lambda: bound("error_rate", 0.2), r"unknown rate .*; did you mean 'error'\?$"),
        (lambda: parity("fpr", 1.5), r"tolerance must lie in \[0, 1\), found 1.5"),
        (lambda: bound("fpr", 0.0), r"at_most of a bound must lie in \(0, 1\), found 0.0"),
        (lambda: bound("fpr", 1), r"at_most of a bound must lie in \(0, 1\), found 1;"),
        (lambda: bound("fpr", 5), r"found 5; it is a share of rows, so write 0.05 for 5%"),
        (lambda: bound("fpr", float("nan")), r"found nan"),
    ],
)
def test_constraints_are_checked_where_they_are_written(make, match):
    with pytest.raises(ConstraintError, match=match):
        make()


@pytest.mark.parametrize(
    ("constraint", "match"),
    [
        (parity("recall"), "y has two; write 'tpr', the recall of the positive label"),
        (at_least("recall", 0.8), "y has two; write 'tpr'"),
        (parity("given"), "y has two; write 'ppr', the share of positive decisions"),
        (parity("confused"), "y has two; write 'fnr' or 'fpr'"),
        (parity("accuracy"), r"y has two; write bound\('error', 0.2\) or minimax\('error'\)"),
    ],
)
def test_a_rate_of_several_classes_names_the_one_of_two_labels(refuses, constraint, match):
    refuses(ConstraintError, match, params={"constraint": constraint})


@pytest.mark.parametrize(
    ("params", "match"),
    [
        (
            {"operating_point": 0.0},
            r"operating_point must be a probability in \(0, 1\), .* found 0.0",
        ),
        ({"operating_point": 1}, r"operating_point must be a probability in \(0, 1\), .* found 1"),
        ({"operating_point": "half"}, r"operating_point must be a probability .* found 'half'"),
        (
            {"multiplier_learning_rate": 0},
            r"multiplier_learning_rate must be a positive number .* 0",
        ),
        (
            {"multiplier_learning_rate": "fast"},
            r"must be a positive number or 'auto', found 'fast'",
        ),
        ({"multiplier_learning_rate": None}, r"must be a positive number or 'auto', found None"),
        ({"multiplier_learning_rate": np.inf}, r"must be a positive number or 'auto', found inf"),
        ({"iterate": "first"}, r"unknown iterate 'first'; expected one of 'best', 'last'"),
    ],
)
def test_other_parameters(refuses, params, match):
    refuses(InvalidInputError, match, params=params)


@pytest.mark.parametrize("seed", ["seed", -1, 2**32])
def test_random_state_is_checked_before_training(refuses, seed):
    match = rf"random_state must be a whole number from 0 .* found {seed!r}"
    refuses(InvalidInputError, match, params={"random_state": seed})


# Groups


def test_sensitive_features_missing(refuses):
    refuses(
        ConstraintError,
        r"compares groups but sensitive_features is missing; pass fit\(X, y, sensitive_features=",
        sensitive_features=None,
    )


def test_one_group_only(refuses, toy):
    refuses(
        ConstraintError,
        r"'sex' has one group only \(sex=F\); parity needs two or more",
        sensitive_features={"sex": ["F"] * len(toy)},
    )


def test_no_known_group(refuses, toy):
    refuses(
        InvalidInputError, r"'sensitive_feature' is missing in every row",
        sensitive_features=[None] * len(toy),
    )  # fmt: skip


@pytest.mark.parametrize(
    ("constraint", "label", "rate"),
    [
        ("predictive_equality", 0, "false positive rate"),
        ("equal_opportunity", 1, "false negative rate"),
    ],
)
def test_a_group_without_rows_that_count(refuses, toy, constraint, label, rate):
    group = np.where((toy.group == "b") & (toy.y == label), "a", toy.group)
    refuses(
        ConstraintError,
        rf"group 'sex=b' has no rows with y = {label}, so its {rate} is undefined; merge",
        params={"constraint": constraint, "min_group_rows": 0},
        sensitive_features={"sex": group},
    )


def test_a_group_whose_rows_weigh_nothing(refuses, toy):
    refuses(
        ConstraintError, r"group 'sex=b' has no rows, so its predicted positive rate",
        params={"constraint": "demographic_parity", "min_group_rows": 0},
        sensitive_features={"sex": toy.group},
        sample_weight=(toy.group == "a") * 1.0,
    )  # fmt: skip


@pytest.mark.parametrize("values", [np.arange(600), np.random.default_rng(0).normal(size=600)])
def test_a_value_per_row(refuses, values):
    refuses(
        InvalidInputError, r"'id' has 600 distinct values in 600 rows, almost one per row",
        sensitive_features={"id": values},
    )  # fmt: skip


def test_a_column_that_is_not_there(refuses, toy):
    match = r"names the column 'race', which is not among the sensitive features \('sex'\)"
    params = {"constraint": parity("fnr", by="race")}
    refuses(ConstraintError, match, params=params, sensitive_features={"sex": toy.group})
    params = {"constraint": bound("fnr", 0.1, group={"race": "A"})}
    refuses(ConstraintError, match, params=params, sensitive_features={"sex": toy.group})
    params = {"constraint": parity("fnr", by="Sex")}
    match = "'Sex', which is not among .* or given=; did you mean 'sex'"
    refuses(ConstraintError, match, params=params, sensitive_features={"sex": toy.group})


def test_a_group_that_is_not_there(refuses):
    params = {"constraint": bound("fnr", 0.1, group="z")}
    refuses(ConstraintError, r"group='z'\) names a group that is not in the data", params=params)


def test_a_group_of_which_column(refuses, toy):
    refuses(
        ConstraintError, r"is ambiguous: there are 2 sensitive columns \(sex, race\)",
        params={"constraint": bound("fnr", 0.1, group="a")},
        sensitive_features={"sex": toy.group, "race": toy.group},
    )  # fmt: skip


@pytest.mark.parametrize(
    ("groups", "match"),
    [
        (
            pd.DataFrame([[0, 1]] * 600, columns=["s", "s"]),
            r"columns of the same name: \['s', 's'\]",
        ),
        (np.zeros((600, 2, 2)), r"one column or a table of columns, found an array of 3 dim"),
        ([[1, 2], [3]] * 300, r"must hold one plain value per row"),
        ("sex", r"pass the column, df\['sex'\], not its name"),
        (
            ["sex"],
            r"is \['sex'\] and X has 600 rows, .* pass the columns, df\[\['sex'\]\], else one",
        ),
        (
            ("sex", "race"),
            r"names of columns, pass the columns, df\[\['sex', 'race'\]\], else one",
        ),
        (np.array(["sex"]), r"is \['sex'\] and X has 600 rows, .* df\[\['sex'\]\], else one"),
        (pd.Index(["sex"]), r"is \['sex'\] and X has 600 rows, .* df\[\['sex'\]\], else one"),
        (pd.Series(["sex"]), r"is \['sex'\] and X has 600 rows, .* df\[\['sex'\]\], else one"),
        (["a", "b", "a"], r"\(sensitive_feature\) has 3 rows but X has 600"),
        (9, r"sensitive_features is 9, expected a column with one value per row"),
        (pl.DataFrame({"sex": ["a"] * 600}).lazy(), r"is a LazyFrame, not read yet; pass sens"),
    ],
)
def test_malformed_groups(refuses, groups, match):
    refuses(InvalidInputError, match, sensitive_features=groups)


def test_small_cells_are_named_in_a_warning(engine, toy, no_training):
    group = toy.group.astype(object)
    group[:12] = "c"
    with (
        pytest.warns(
            SmallCellWarning, match=r"sex=c \(\d rows for fpr\); sex=c \(\d rows for fnr"
        ),
        pytest.raises(AssertionError, match="asked to train"),
    ):
        FairGBMClassifier(engine(), min_group_rows=0).fit(
            toy.X, toy.y, sensitive_features={"sex": group}
        )


# Labels, weights, lengths


@pytest.mark.parametrize(
    ("change", "match"),
    [
        (
            lambda y: np.zeros(len(y)),
            r"two classes or more, found 1 class: 0.0. A classifier needs rows",
        ),
        (lambda y: np.where(y, "yes", "yes"), r"found 1 class: 'yes'"),
        (lambda y: np.where(y, 1.0, np.nan), r"y contains NaN or infinity; drop the rows"),
        (lambda y: np.where(y, "yes", None), r"y contains missing labels; drop the rows"),
        (lambda y: y[:-1], r"y has 599 rows but X has 600"),
        (lambda y: None, r"the target y is None"),
        (lambda y: "label", r"y is the text 'label', .* pass the column, df\['label'\], not its"),
    ],
)
def test_labels(refuses, toy, change, match):
    refuses(InvalidInputError, match, y=change(toy.y))


@pytest.mark.parametrize(
    ("row_3", "match"),
    [
        (np.nan, r"sample_weight must be finite in single precision, found nan at row 3"),
        (np.inf, r"sample_weight must be finite in single precision, found inf at row 3"),
        (1e39, r"sample_weight must be finite in single precision, found 1e\+39 at row 3"),
        (-1.0, r"sample_weight must not be negative, found -1.0 at row 3; a weight of 0 leaves"),
    ],
)
def test_one_bad_weight(refuses, toy, row_3, match):
    weight = np.array(toy.weight)
    weight[3] = row_3
    refuses(InvalidInputError, match, sample_weight=weight)


@pytest.mark.parametrize(
    ("weight", "match"),
    [
        (np.zeros(600), r"at least one non-zero number; all are zero"),
        (np.full(600, 1e-60), r"at least one non-zero number; all are zero"),
        (np.ones(599), r"sample_weight has 599 rows but X has 600"),
        (np.ones((600, 2)), r"Sample weights must be 1D array or scalar, found 2 dimensions"),
        ("weight", r"sample_weight is the text 'weight', .* pass the column, df\['weight'\]"),
        (["heavy"] * 600, r"sample_weight must be numbers: could not convert string"),
    ],
)
def test_weights(refuses, weight, match):
    refuses(InvalidInputError, match, sample_weight=weight)


def test_weights_that_leave_one_class(refuses, toy):
    match = r"sample_weight is zero on every row of class 1, which leaves one class"
    refuses(InvalidInputError, match, sample_weight=1.0 - toy.y)


def test_groups_of_another_length(refuses, toy):
    match = r"sensitive_features \(sex\) has 599 rows but X has 600"
    refuses(InvalidInputError, match, sensitive_features={"sex": toy.group[1:]})


@pytest.mark.parametrize("X", [np.arange(600.0), np.zeros((600, 2, 2))])
def test_features_that_are_no_table(refuses, X):
    refuses(InvalidInputError, r"X must be a table of rows and columns, found [13] dim", X=X)


def test_a_row_in_place_of_a_table(engine, toy):
    model = FairGBMClassifier(engine(), constraint=None).fit(toy.frame, toy.y)
    with pytest.raises(InvalidInputError, match=r"one row of a table, table.iloc\[\[0\]\]"):
        model.predict(toy.frame.iloc[0])
    with pytest.raises(InvalidInputError, match=r"found dict; pass pd.DataFrame\(X\), or pd.Data"):
        model.predict(toy.frame.iloc[0].to_dict())


# Scores that are no numbers


def test_a_training_that_diverges_stops_with_the_remedy(engine, toy):
    X = toy.X.copy()
    X[:, 0] *= 1e300
    model = FairGBMClassifier(engine(linear_tree=True, learning_rate=1.0))
    with pytest.raises(InvalidInputError, match=r"training diverged: .* scale the features down"):
        model.fit(X, toy.y, sensitive_features=toy.group)
    assert not hasattr(model, "trace_")


def test_a_score_that_is_no_number_is_not_a_decision(engine, toy):
    """NaN is below no threshold: it would be a refusal, the same for all groups, so gap 0."""
    plain = FairGBMClassifier(engine(linear_tree=True), constraint="demographic_parity")
    far = toy.X / 1e4  # so that slopes are steep
    model = plain.fit(far, toy.y, sensitive_features=toy.group)
    far[5] = 1e307
    assert np.isnan(model.booster_.predict(far)[5])
    for call in (model.predict, model.predict_proba, model.decision_function):
        with pytest.raises(InvalidInputError, match=r"score of row 5 is NaN, expected a number"):
            call(far)
    with pytest.raises(InvalidInputError, match=r"score of row 5 is NaN"):
        model.report_on(far, toy.y, sensitive_features=toy.group)


def test_groups_whose_index_is_not_that_of_X(engine, toy, no_training):
    """By position, every group would be that of another person."""
    X = pd.DataFrame(toy.X)
    shuffled = pd.Series(toy.group).sample(frac=1.0, random_state=0)
    with pytest.raises(InvalidInputError, match="sensitive_features and X have pandas indices"):
        FairGBMClassifier(engine()).fit(X, toy.y, sensitive_features=shuffled)
    held = X, toy.y, shuffled
    with pytest.raises(InvalidInputError, match="holdout_set: sensitive_features and X"):
        FairGBMClassifier(engine()).fit(X, toy.y, sensitive_features=toy.group, holdout_set=held)
