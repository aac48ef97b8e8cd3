"""Memberships against probabilities that are known, and the ways in which rows could leak."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
import scipy.sparse as sp
from scipy.special import expit

from fairboost.engines import group_model
from fairboost.engines.group_model import CodedRows
from fairboost.engines.lightgbm import group_model as lightgbm_group_model
from fairboost.engines.registry import load_engine
from fairboost.exceptions import InvalidInputError
from fairboost.training import memberships
from fairboost.training.memberships import RECOVERED
from tests.kinds import KINDS


class AtHand:
    """The engine that grows the boosters: each of them, one after the other."""

    name = "lightgbm"


@pytest.fixture(autouse=True)
def at_hand(kind, monkeypatch):
    """Every test with every engine."""
    monkeypatch.setattr(AtHand, "name", kind.name)


def coded(X, y, groups, n_groups, weight=None, *, categories="auto", **options):
    estimator = KINDS[AtHand.name].make(**options)
    engine = load_engine(AtHand.name).make(estimator, np.array([0, 1]))
    learner = engine.group_model({"categorical_feature": categories})
    return CodedRows(X, y, groups, n_groups, learner, weight)


def known(X, y, groups, n_groups=2, sample_weight=None, seed=0, **options):
    """The memberships, and how well they recover the groups."""
    rows = coded(X, y, groups, n_groups, sample_weight, **options)
    probabilities = memberships.honest(rows, seed=seed)
    weight = np.ones(len(y)) if sample_weight is None else sample_weight
    recovered = memberships._discrimination(probabilities, y, groups, weight)
    return SimpleNamespace(probabilities=probabilities, recovered=recovered)


def recoverability(X, y, groups, n_groups, **options):
    return memberships.recoverability(coded(X, y, groups, n_groups), **options)


def one_bit(n=6000, n_groups=2, seed=0):
    """One binary feature, a label, and groups drawn by a table over the two."""
    rng = np.random.default_rng(seed)
    x, y = rng.integers(0, 2, (2, n))
    table = rng.dirichlet(np.ones(n_groups), size=(2, 2))
    groups = (rng.random((n, 1)) > table[x, y].cumsum(axis=1)[:, :-1]).sum(axis=1)
    return x[:, None].astype(float), y, groups, table[x, y]


def counted(X, y, members, weight=None):
    """P(g | x, y) for one binary feature, by counting."""
    table = np.empty(members.shape)
    for x in (0, 1):
        for label in (0, 1):
            rows = (X[:, 0] == x) & (y == label)
            w = None if weight is None else weight[rows]
            table[rows] = np.average(members[rows], axis=0, weights=w)
    return table


def smooth(n, scale=3.0, intercept=-0.5, seed=0):
    """P(g | x) is not linear, P(y | x, g) is lower for group 1; P(g | x, y) by Bayes."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 5))
    p = expit(scale * (0.7 * X[:, 0] + np.sin(2 * X[:, 1])))
    groups = (rng.random(n) < p).astype(int)
    log_odds = intercept + X[:, 0] + X[:, 2]
    positive = expit(np.stack([log_odds, log_odds - 1.2], axis=1))
    y = (rng.random(n) < positive[np.arange(n), groups]).astype(int)
    joint = np.stack([1 - p, p], axis=1) * np.where(y[:, None] == 1, positive, 1 - positive)
    return X, y, groups, joint / joint.sum(axis=1, keepdims=True)


def divergence(truth, found):
    return float((truth * np.log(truth / found)).sum(axis=1).mean())


def shares_by_label(y, groups):
    """The best guess without features: P(g | y), by counting."""
    share = np.bincount(y, groups) / np.bincount(y)
    return np.stack([1 - share, share], axis=1)[y]


# Probabilities that are known


@pytest.mark.parametrize("n_groups", [2, 3])
def test_a_table_is_reproduced_by_counting(n_groups):
    X, y, groups, truth = one_bit(n_groups=n_groups)
    found = known(X, y, groups, n_groups).probabilities
    error = np.abs(found - counted(X, y, np.eye(n_groups)[groups]))
    assert error.mean() < 0.015
    # Held-out rows say when to stop, and 300 of a kind have a share that is good to .025.
    assert error.max() < 0.075
    assert divergence(truth, found) < 0.003


def test_a_smooth_probability_is_found_and_calibrated():
    X, y, groups, truth = smooth(10_000)
    result = known(X, y, groups)
    found = result.probabilities.astype(float)
    assert divergence(truth, found) < 0.15 * divergence(truth, shares_by_label(y, groups))
    decile = np.argsort(np.argsort(found[:, 1])) // 1000
    by_decile = [np.bincount(decile, p[:, 1]) / 1000 for p in (truth, found)]
    assert np.abs(by_decile[0] - by_decile[1]).max() < 0.06
    spread = [truth[(groups == 1) & (y == k), 1].mean() for k in (0, 1)]
    rest = [truth[(groups == 0) & (y == k), 1].mean() for k in (0, 1)]
    assert result.recovered == pytest.approx(min(np.subtract(spread, rest)), abs=0.1)


def faint(n):
    """Eight features, two of which move the probability of a group by a few points."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n, 8))
    second = expit(-0.5 + 0.08 * X[:, 0] + 0.08 * X[:, 1])
    truth = np.stack([1 - second, second], axis=1)
    return X, (rng.random(n) < second).astype(np.int32), truth


def test_a_faint_group_is_learned_in_small_steps_where_there_are_no_labels(monkeypatch):
    """Where numbers are predicted, all rows have label 0."""
    X, groups, truth = faint(16_000)
    y, explained = np.zeros(len(X), np.int32), []
    for rounds in (group_model.SHORT, -1):  # -1: no booster is taken for a short one
        monkeypatch.setattr(group_model, "SHORT", rounds)
        found = known(X, y, groups).probabilities
        explained.append(np.corrcoef(found[:, 1], truth[:, 1])[0, 1] ** 2)
    fine, usual = explained
    assert fine > 0.55
    assert fine > 1.2 * usual


def test_labels_are_predicted_with_the_usual_boosters(monkeypatch):
    """Figures of the classifier are of these."""
    X, groups, _ = faint(16_000)
    y = np.arange(len(X)) % 2
    found = []
    for rounds in (group_model.SHORT, -1):
        monkeypatch.setattr(group_model, "SHORT", rounds)
        found.append(known(X, y, groups).probabilities)
    np.testing.assert_array_equal(*found)


def test_a_rare_label_profits_from_the_other():
    X, y, groups, truth = smooth(12_000, intercept=-5.0)
    assert 0.005 < y.mean() < 0.03
    found = known(X, y, groups).probabilities.astype(float)
    rare, prior = y == 1, shares_by_label(y, groups)
    assert divergence(truth[rare], found[rare]) < 0.4 * divergence(truth[rare], prior[rare])


def test_the_label_is_conditioned_on():
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(4000, 3)), rng.integers(0, 2, 4000)
    groups = (rng.random(4000) < np.where(y == 1, 0.8, 0.3)).astype(int)
    found = known(X, y, groups).probabilities[:, 1]
    assert found[y == 1].mean() == pytest.approx(0.8, abs=0.03)
    assert found[y == 0].mean() == pytest.approx(0.3, abs=0.03)


# Rows are predicted by boosters that did not see them


def test_noise_says_nothing_unless_rows_leak():
    rng = np.random.default_rng(0)
    X, y, groups = rng.normal(size=(2000, 5)), rng.integers(0, 2, 2000), rng.integers(0, 2, 2000)
    alone = known(X, y, groups)
    assert np.abs(alone.probabilities - 0.5).mean() < 0.05
    assert alone.recovered < 0.05
    # A twin of each row falls into another fold as a rule: what a booster that saw them says.
    twins = known(np.tile(X, (2, 1)), np.tile(y, 2), np.tile(groups, 2))
    assert np.abs(twins.probabilities - 0.5).mean() > 0.1
    assert twins.recovered > 0.15


def test_folds_hold_all_kinds_of_rows():
    cells = np.repeat([0, 1, 2, 3], [7, 100, 3, 50])
    rank = memberships._rank_within(cells, np.random.default_rng(0))
    for cell, count in enumerate((7, 100, 3, 50)):
        assert sorted(rank[cells == cell]) == list(range(count))


# What holds whatever the data


@pytest.mark.parametrize("n_groups", [2, 3, 12])
@pytest.mark.parametrize("n", [60, 900])
def test_memberships_are_probabilities(n, n_groups):
    rng = np.random.default_rng(n)
    X, y = rng.normal(size=(n, 3)), rng.integers(0, 2, n)
    groups = rng.integers(-1, n_groups, n)
    result = known(X, y, groups, n_groups)
    assert result.probabilities.dtype == np.float32
    assert result.probabilities.shape == (n, n_groups)
    assert (result.probabilities >= 0).all()
    np.testing.assert_allclose(result.probabilities.sum(axis=1), 1, atol=1e-5)
    assert 0 <= result.recovered <= 1


@pytest.mark.parametrize("n_groups", [2, 4])
def test_other_codes_for_groups_permute_the_columns(n_groups):
    X, y, groups, _ = one_bit(1500, n_groups)
    X = np.column_stack([X, np.random.default_rng(0).normal(size=1500)])
    X = pd.DataFrame(X).assign(word=pd.Categorical(list("abcdef" * 250)))
    order = np.random.default_rng(1).permutation(n_groups)[::-1]
    plain, other = known(X, y, groups, n_groups), known(X, y, order[groups], n_groups)
    np.testing.assert_array_equal(other.probabilities[:, order], plain.probabilities)
    assert other.recovered == pytest.approx(plain.recovered, abs=1e-4)


def test_the_order_of_rows_matters_no_more_than_the_folds_do():
    X, y, groups, truth = one_bit()
    order = np.random.default_rng(0).permutation(len(y))
    shuffled = known(X[order], y[order], groups[order]).probabilities
    assert np.abs(shuffled - known(X, y, groups).probabilities[order]).max() < 0.05
    assert divergence(truth[order], shuffled) < 0.003


def test_same_seed_same_memberships():
    X, y, groups, _ = smooth(1500)
    first, again, other = (known(X, y, groups, seed=s) for s in (3, 3, 4))
    np.testing.assert_array_equal(first.probabilities, again.probabilities)
    assert first.recovered == again.recovered
    assert (first.probabilities != other.probabilities).any()


def test_large_data_is_sampled_and_predicted_in_blocks(monkeypatch):
    monkeypatch.setattr(group_model, "LEARNED_ROWS", 800)
    monkeypatch.setattr(group_model, "STOPPING_ROWS", 200)
    monkeypatch.setattr(lightgbm_group_model, "BLOCK", 999)
    X, y, groups, truth = one_bit()
    assert divergence(truth, known(X, y, groups).probabilities) < 0.01


# Groups that are missing or small, and weights


def test_rows_without_a_group_teach_nothing_and_are_predicted():
    X, y, groups, truth = one_bit()
    missing = np.arange(len(y)) % 5 == 0
    groups = np.where(missing, -1, groups).astype(np.int8)
    found = known(X, y, groups).probabilities
    assert divergence(truth[missing], found[missing]) < 0.005
    spoilt = np.where(missing[:, None], 99.0, X)
    again = known(spoilt, y, groups).probabilities
    np.testing.assert_array_equal(again[~missing], found[~missing])


def test_rows_of_no_weight_teach_nothing():
    X, y, groups, _ = one_bit(2000)
    weight = np.random.default_rng(0).integers(0, 3, 2000).astype(np.float32)
    found = known(X, y, groups, sample_weight=weight).probabilities
    hidden = known(X, y, np.where(weight > 0, groups, -1), sample_weight=weight).probabilities
    np.testing.assert_array_equal(found, hidden)


def test_weights_weigh_and_their_unit_does_not_matter():
    X, y, groups, _ = one_bit()
    weight = np.where(groups == 1, 3.0, 1.0)
    found = known(X, y, groups, sample_weight=weight).probabilities
    expected = counted(X, y, np.eye(2)[groups], weight)
    assert np.abs(found - expected).mean() < 0.02
    assert np.abs(expected - counted(X, y, np.eye(2)[groups])).mean() > 0.1
    scaled = known(X, y, groups, sample_weight=1024 * weight).probabilities
    np.testing.assert_allclose(scaled, found, atol=1e-6)
    assert (weight == np.where(groups == 1, 3.0, 1.0)).all()


def test_weights_count_at_a_label_of_too_few_rows_for_trees():
    rng = np.random.default_rng(0)
    y = np.repeat([0, 1], [2000, 40])
    groups = rng.integers(0, 2, 2040)
    weight = np.where((y == 1) & (groups == 1), 9.0, 1.0)
    found = known(rng.normal(size=(2040, 2)), y, groups, sample_weight=weight).probabilities
    assert found[y == 0, 1].mean() == pytest.approx(0.5, abs=0.05)
    assert found[y == 1, 1].mean() > 0.8


def test_a_group_of_few_rows_gets_its_share():
    X, y, groups, _ = one_bit(2000)
    groups[:5] = 2
    found = known(X, y, groups, 4).probabilities
    np.testing.assert_allclose(found[:, 2], 5 / 2000, rtol=1e-5)
    assert (found[:, 3] == 0).all()
    np.testing.assert_allclose(found.sum(axis=1), 1, atol=1e-5)


def test_a_small_group_that_x_tells_is_found():
    rng = np.random.default_rng(0)
    groups = np.repeat([0, 1, 2], [1500, 1440, 60])
    X = np.column_stack([groups == 2, rng.normal(size=3000)])
    result = known(X, rng.integers(0, 2, 3000), groups, 3)
    assert result.probabilities[groups == 2, 2].mean() > 0.9
    assert result.probabilities[groups != 2, 2].mean() < 0.01
    assert result.recovered < 0.05  # that of the other two


@pytest.mark.parametrize("groups", [[0] * 200, [0] * 195 + [1] * 5], ids=["one", "one and a few"])
def test_without_two_groups_to_tell_apart_there_are_shares(groups):
    groups = np.array(groups)
    X, y = np.arange(400.0).reshape(200, 2), np.arange(200) % 2
    found = known(X, y, groups).probabilities
    np.testing.assert_allclose(found[:, 1], groups.mean(), rtol=1e-5)


def test_a_group_that_has_one_label_only():
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(900, 2)), np.arange(900) % 2
    groups = np.where(y == 1, rng.integers(0, 3, 900), rng.integers(0, 2, 900))
    found = known(X, y, groups, 3).probabilities
    assert found[y == 0, 2].max() < 0.1
    assert found[y == 1, 2].mean() == pytest.approx((groups[y == 1] == 2).mean(), abs=0.05)


def test_a_label_without_known_groups_is_predicted_from_x():
    X, y, groups, _ = smooth(1500)
    result = known(X, y, np.where(y == 1, -1, groups))
    assert result.probabilities[(y == 1) & (groups == 1), 1].mean() > 0.6


def test_nothing_to_learn_from_is_an_error():
    X, y = np.zeros((30, 1)), np.arange(30) % 2
    with pytest.raises(InvalidInputError, match="no row has a known group"):
        known(X, y, np.full(30, -1))
    with pytest.raises(InvalidInputError, match="no row has a known group"):
        known(X, y, np.where(y == 1, -1, 0), sample_weight=y.astype(float))


# Tables of every kind

TABLES = {
    "float32": lambda X: X.astype(np.float32),
    "integers": lambda X: X.astype(np.int64),
    "Fortran order": np.asfortranarray,
    "lists": lambda X: X.tolist(),
    "pandas": lambda X: pd.DataFrame(X, columns=list("abc"), index=range(5, 5 + len(X))),
    "polars": lambda X: pl.DataFrame(X, schema=list("abc")),
    "Arrow": lambda X: pa.table({c: X[:, k] for k, c in enumerate("abc")}),
    "CSR": sp.csr_matrix,
    "CSC": sp.csc_array,
}


def counts(n=1200):
    """Small whole numbers that tell the group to some degree."""
    rng = np.random.default_rng(0)
    groups, y = rng.integers(0, 2, (2, n))
    return rng.poisson(1.0 + groups[:, None] + y[:, None], (n, 3)).astype(float), y, groups


@pytest.mark.parametrize("form", TABLES)
def test_tables_of_every_kind(form):
    X, y, groups = counts()
    table = TABLES[form](X)
    if AtHand.name == "xgboost" and sp.issparse(table):
        X = np.where(X == 0, np.nan, X)  # as XGBoost reads what a sparse table leaves out
    expected = known(X, y, groups)
    np.testing.assert_allclose(
        known(table, y, groups).probabilities, expected.probabilities, atol=1e-5
    )
    assert recoverability(table, y, groups, 2) == pytest.approx(
        recoverability(X, y, groups, 2), abs=1e-5
    )


def test_categories_by_dtype_and_by_position(kind):
    rng = np.random.default_rng(0)
    code, y = rng.integers(0, 12, 3000), rng.integers(0, 2, 3000)
    groups = (rng.random(3000) < np.array([0.9, 0.1, 0.2, 0.8] * 3)[code]).astype(int)
    X = np.column_stack([code, rng.normal(size=3000)])
    told = {"feature_types": ["c", "q"]} if kind.name == "xgboost" else {"categories": [0]}
    by_position = known(X, y, groups, **told)
    frame = pd.DataFrame({"code": pd.Categorical(code), "noise": X[:, 1]})
    by_dtype = known(frame, y, groups)
    np.testing.assert_allclose(by_dtype.probabilities, by_position.probabilities, atol=1e-5)
    if kind.name == "lightgbm":
        by_name = known(frame.astype(float), y, groups, categories=["code"])
        np.testing.assert_allclose(by_name.probabilities, by_position.probabilities, atol=1e-5)
    assert by_position.recovered == pytest.approx(0.49, abs=0.08)


# Whether features give the group away


def aware(case, n=8000):
    """Features that hold the group in one form or another: X, groups, number of groups."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n, 6))
    two, one_percent = rng.integers(0, 2, n), (rng.random(n) < 0.01).astype(int)
    nine = rng.choice(9, n, p=[0.6, 0.1, 0.02, 0.01, 0.01, 0.15, 0.03, 0.04, 0.04])
    six = np.array([0, 1, 2, 2, 2, 3, 4, 4, 5])[nine]
    fifty = rng.choice(50, n, p=np.arange(1, 51) ** -0.7 / (np.arange(1, 51) ** -0.7).sum())
    names = np.array([f"state {k}" for k in range(50)])
    frame = pd.DataFrame(X, columns=list("abcdef"))
    return {
        "a column": (np.column_stack([X, two]), two, 2),
        "a function of a column": (np.column_stack([X, 7 - 3 * two]), two, 2),
        "one in a hundred": (np.column_stack([X, one_percent]), one_percent, 2),
        "a band of numbers": (X, np.digitize(X[:, 2], [-0.5, 0.5]), 3),
        "numbers merged": (np.column_stack([X, nine]), six, 6),
        "categories merged": (frame.assign(race=pd.Categorical(nine)), six, 6),
        "one-hot": (np.column_stack([X, np.eye(6)[six]]), six, 6),
        "two columns crossed": (np.column_stack([X, two, six]), 6 * two + six, 12),
        "fifty numbers": (np.column_stack([X, fifty]), fifty, 50),
        "fifty names": (frame.assign(s=pd.Categorical(names[fifty])), fifty, 50),
    }[case]


CASES = (
    "a column", "a function of a column", "one in a hundred", "a band of numbers",
    "numbers merged", "categories merged", "one-hot", "two columns crossed", "fifty numbers",
    "fifty names",
)  # fmt: skip


@pytest.mark.parametrize("case", CASES)
def test_groups_that_features_hold_are_recovered(case):
    X, groups, n_groups = aware(case)
    y = np.random.default_rng(1).integers(0, 2, len(groups))
    for seed in (0, 1):
        assert recoverability(X, y, groups, n_groups, seed=seed) > RECOVERED


@pytest.mark.parametrize(("shift", "auc"), [(0.0, 0.5), (0.95, 0.75), (1.81, 0.9), (3.29, 0.99)])
def test_groups_that_features_hint_at_are_not_recovered(shift, auc):
    rng = np.random.default_rng(0)
    groups, y = rng.integers(0, 2, (2, 8000))
    X = rng.normal(size=(8000, 4))
    X[:, 0] += shift * groups
    figure = recoverability(X, y, groups, 2)
    # The variance of P(g | x) over that of g, by the mean of P(g | x) over members and others.
    p = expit(shift * X[:, 0] - shift**2 / 2)
    assert figure == pytest.approx(p[groups == 1].mean() - p[groups == 0].mean(), abs=0.08)
    assert figure < RECOVERED, auc


def test_one_small_group_that_is_not_recovered_decides():
    rng = np.random.default_rng(0)
    groups = rng.choice(50, 10_000, p=[*[0.98 / 48] * 48, 0.01, 0.01])
    X = np.column_stack([np.minimum(groups, 48), rng.normal(size=10_000)])  # the last two as one
    assert recoverability(X, rng.integers(0, 2, 10_000), groups, 50) < 0.7


def test_a_group_must_be_recovered_at_either_label():
    rng = np.random.default_rng(0)
    groups, y = rng.integers(0, 2, (2, 6000))
    X = np.column_stack([np.where(y == 1, groups, 2), rng.normal(size=6000)])
    assert recoverability(X, y, groups, 2) < 0.1


def test_the_sample_takes_small_groups_whole():
    rng = np.random.default_rng(0)
    groups, y = np.repeat([0, 1, -1], [9_800, 100, 100]), rng.integers(0, 2, 10_000)
    learn, held = memberships._balanced_halves(y, groups, 1000, rng)
    rows = np.concatenate([learn, held])
    assert len(set(rows)) == 1000
    assert np.bincount(groups[rows]).tolist() == [900, 100]
    assert np.abs(np.bincount(groups[learn]) - np.bincount(groups[held])).max() <= 2


def test_recoverability_is_repeatable_and_reads_known_groups_only():
    X, y, groups = counts(5000)
    groups = np.where(np.arange(5000) % 3 == 0, -1, groups)
    figure = recoverability(X, y, groups, 2, seed=5)
    assert figure == recoverability(X, y, groups, 2, seed=5)
    assert figure != recoverability(X, y, groups, 2, seed=6)
    spoilt = np.where(groups[:, None] < 0, 99.0, X)
    assert figure == recoverability(spoilt, y, groups, 2, seed=5)
    assert 0 < recoverability(X, y, groups, 2, max_rows=100) < RECOVERED  # a sample of a sample


@pytest.mark.parametrize("groups", [[0, 1], [-1] * 6, [0] * 6], ids=["rows", "known", "groups"])
def test_too_little_to_tell(groups):
    X, y = np.arange(float(len(groups)))[:, None], np.arange(len(groups)) % 2
    assert recoverability(X, y, np.array(groups), 1 + max(groups)) == 0.0


def test_the_figure_by_hand():
    likely = np.array([[0.9, 0.1], [0.7, 0.3], [0.4, 0.6], [1.0, 0.0], [0.0, 1.0]])
    labels, groups = np.array([0, 0, 0, 1, 1]), np.array([0, 0, 1, 0, 1])
    figure = memberships._discrimination(likely, labels, groups, np.ones(5))
    assert figure == pytest.approx(0.8 - 0.4)
    weighted = memberships._discrimination(likely, labels, groups, np.array([3.0, 1, 1, 1, 1]))
    assert weighted == pytest.approx(0.85 - 0.4)


def test_memberships_of_very_many_groups_are_not_learned(monkeypatch):
    monkeypatch.setattr(memberships, "recoverability", lambda *args, **options: 0.0)
    rows = SimpleNamespace(labels=np.zeros(50_000), n_codes=1_000)
    assert memberships.worth_learning(rows)
    assert not memberships.worth_learning(SimpleNamespace(labels=rows.labels, n_codes=1_001))
