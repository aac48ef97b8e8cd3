"""Rows laid out for a training: constraints are bound once to each set of rows."""

from __future__ import annotations

import numpy as np
import pytest
from lightgbm import LGBMRegressor

from fairboost import FairGBMClassifier, FairGBMRegressor, at_fpr, parity
from fairboost.tasks import layout
from fairboost.training import memberships
from fairboost.training import rows as training_rows

SETS = {
    "nothing held out": (None, False, 1),
    "cross-fitting": ("cross", False, 1),  # all rows are trained on and measured
    "a share": (0.3, False, 3),  # all rows, to choose the share; those left; those held out
    "a set": ("auto", True, 2),
    "a share and a set": (0.3, True, 3),
}


@pytest.mark.parametrize(("holdout", "with_set", "expected"), SETS.values(), ids=SETS)
@pytest.mark.parametrize("point", [0.5, at_fpr(0.2)], ids=str)
def test_a_constraint_is_bound_once_to_each_set_of_rows(
    engine, toy, make_toy, monkeypatch, holdout, with_set, expected, point
):
    calls = []
    bind = layout.bind

    def counted(constraint, cells, which="all"):
        calls.append(cells)
        return bind(constraint, cells, which)

    monkeypatch.setattr(layout, "bind", counted)
    other = make_toy(300, seed=1)
    FairGBMClassifier(
        engine(), constraint="equal_opportunity", holdout=holdout, operating_point=point,
        memberships="observed",
    ).fit(
        toy.X, toy.y, sensitive_features=toy.group,
        holdout_set=(other.X, other.y, other.group) if with_set else None,
    )  # fmt: skip
    assert len(calls) == expected
    rows = {(*cells.counts.tolist(), len(cells.codes)) for cells in calls}
    assert len(rows) == expected


@pytest.mark.filterwarnings("ignore::fairboost.exceptions.SmallCellWarning")
def test_a_share_of_no_rows_beside_a_set_is_no_share(engine, make_toy):
    """Of groups of few rows 2% is less than half a row, so that none is held out."""
    few, other = make_toy(40, seed=3), make_toy(300, seed=1)
    given = (other.X, other.y, other.group)
    alone, beside = (
        FairGBMClassifier(
            engine(min_child_samples=2),
            constraint="equal_opportunity",
            holdout=holdout,
            min_group_rows=0,
        ).fit(few.X, few.y, sensitive_features=few.group, holdout_set=given)
        for holdout in ("auto", 0.02)
    )
    assert (alone.predict_proba(other.X) == beside.predict_proba(other.X)).all()
    assert alone.fairness_report_.rates.equals(beside.fairness_report_.rates)
    note = "the given set of 300 rows; a share of 2% of the 40 training rows would have no row"
    assert beside.fairness_report_.note == f"held out: {note}"


# What a row tells


@pytest.mark.parametrize(
    ("constraint", "n_folds"),
    [("four_fifths", 5), (parity("ppr", ratio=0.9), 5), ("demographic_parity", 2)],
    ids=str,
)
@pytest.mark.filterwarnings("ignore::fairboost.exceptions.SmallCellWarning")  # two trees
def test_ratios_are_measured_in_five_folds(engine, make_toy, monkeypatch, constraint, n_folds):
    """As where a threshold is placed on the scores."""
    toy, told = make_toy(20_000, seed=2), []
    choose = training_rows.holdout.choose
    monkeypatch.setattr(
        training_rows.holdout, "choose", lambda *a: told.append(choose(*a)) or told[-1]
    )
    model = FairGBMClassifier(
        engine(n_estimators=2), constraint=constraint, holdout="cross", memberships="observed"
    )
    model.fit(toy.X, toy.y, sensitive_features=toy.group)
    assert [held.n_folds for held in told] == [n_folds]


def claims(n, mean, seed=0):
    rng = np.random.default_rng(seed)
    return rng.normal(size=(n, 2)), rng.poisson(mean, n), np.arange(n) % 2


@pytest.mark.filterwarnings("ignore::fairboost.exceptions.FairnessWarning")
@pytest.mark.parametrize(
    ("constraint", "mean", "kind"),
    [
        ("calibrated", 0.05, "cross-fitting in 2 folds"),  # 4,000 rows have some 200 claims
        ("calibrated", 4.0, "a share of 20%"),  # a deviation of half the mean, as of a rate
        (parity("prediction", 0.01), 0.05, "a share of 20%"),  # of predictions, not of claims
    ],
    ids=["rare claims", "many claims", "means"],
)
def test_calibration_cross_fits_where_claims_are_rare(constraint, mean, kind):
    X, y, group = claims(40_000, mean)
    engine = LGBMRegressor(n_estimators=2, objective="poisson", n_jobs=1, verbose=-1)
    model = FairGBMRegressor(engine, constraint=constraint, memberships="observed", random_state=0)
    model.fit(X, y, sensitive_features=group)
    assert model.fairness_report_.note.startswith(f"held out: {kind}")


@pytest.mark.parametrize("exposed", [False, True], ids=["", "exposure"])
def test_what_a_row_tells_is_known_from_targets(exposed, monkeypatch):
    """Of claims of mean m and exposure e: Poisson's variance, over that of an even rate."""
    told = []
    choose = training_rows.holdout.choose
    monkeypatch.setattr(
        training_rows.holdout, "choose", lambda *a: told.append(a[-1]) or choose(*a)
    )
    X, y, group = claims(20_000, 0.1)
    options = {}
    if exposed:
        options["exposure"] = np.full(len(y), 0.5)  # a constant: rates double, errors as before
    engine = LGBMRegressor(n_estimators=2, objective="poisson", n_jobs=1, verbose=-1)
    model = FairGBMRegressor(engine, constraint="calibrated", tolerance=0.9, holdout=0.2)
    model.fit(X, y, sensitive_features=group, **options)
    assert told[0] == pytest.approx(0.25 * 0.1, rel=0.1)


@pytest.mark.filterwarnings("ignore::fairboost.exceptions.FairnessWarning")
def test_a_share_and_a_set_weigh_by_the_same_exposures():
    """A year is a year: policies of four years weigh four times as much as those of one."""

    def policies(n, years, rate):
        y = years * rate * np.repeat([0.5, 1.5], n // 2)
        return np.arange(n)[:, np.newaxis] % 50, y, np.arange(n) % 2, None, np.full(n, years)

    X, y, group, _, years = policies(2_000, 1.0, 1.0)
    engine = LGBMRegressor(n_estimators=2, objective="poisson", n_jobs=1, verbose=-1)
    model = FairGBMRegressor(engine, constraint="calibrated", tolerance=0.9, holdout=0.2)
    theirs = policies(400, 4.0, 2.0)
    model.fit(X, y, sensitive_features=group, exposure=years, holdout_set=theirs)
    rates = model.fairness_report_.rates
    actual = rates.loc[rates["rate"] == "actual", "held out"]
    # 400 years of one claim each, and 1,600 of two.
    np.testing.assert_allclose(actual, 1.8, atol=0.02)


@pytest.mark.filterwarnings("ignore::fairboost.exceptions.FairnessWarning")
@pytest.mark.parametrize(
    ("constraint", "learned"), [("equal_means", 1), ("equal_errors", 0), ("bounded_group_loss", 0)]
)
def test_losses_of_numbers_are_compared_with_groups_as_observed(monkeypatch, constraint, learned):
    """Of people alike, probabilities given the features weigh all errors the same."""
    calls, honest = [], memberships.honest
    monkeypatch.setattr(memberships, "FEW_ROWS", 0)
    monkeypatch.setattr(
        memberships, "honest", lambda rows, seed: calls.append(seed) or honest(rows, seed=seed)
    )
    rng = np.random.default_rng(0)
    group, X = rng.integers(0, 2, 600), rng.normal(size=(600, 2))
    y = X[:, 0] + group * (1 + rng.normal(size=600))
    model = FairGBMRegressor(
        LGBMRegressor(n_estimators=3, verbose=-1), constraint=constraint, tolerance=0.1
    )
    model.fit(X, y, sensitive_features=group)
    assert len(calls) == learned


@pytest.mark.filterwarnings("ignore::fairboost.exceptions.FairnessWarning")
@pytest.mark.parametrize("weighted", [False, True])
def test_memberships_are_learned_by_the_weights_of_moments(monkeypatch, weighted):
    """A year is a year: in means rows weigh by exposure, and so they do in probabilities."""
    weights, honest = [], memberships.honest
    monkeypatch.setattr(memberships, "FEW_ROWS", 0)
    monkeypatch.setattr(
        memberships,
        "honest",
        lambda rows, seed: weights.append(rows.weight) or honest(rows, seed=seed),
    )
    X, y, group = claims(600, 1.0)
    rng = np.random.default_rng(0)
    years, weight = rng.uniform(0.1, 1.0, 600), rng.uniform(1.0, 2.0, 600) if weighted else None
    engine = LGBMRegressor(n_estimators=3, objective="poisson", verbose=-1)
    model = FairGBMRegressor(engine, constraint="equal_means", tolerance=0.1)
    model.fit(X, y, sensitive_features=group, exposure=years, sample_weight=weight)
    expected = years if weight is None else years * weight
    np.testing.assert_allclose(weights[0] / weights[0][0], expected / expected[0])
