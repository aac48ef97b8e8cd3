import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import chisquare

from fairboost.exceptions import InvalidInputError
from fairboost.training.iterates import (
    average_weights,
    best_iterate,
    check_iterate,
    draw_rounds,
    measure,
    randomized_scores,
)


class Prefixes:
    """A model whose score by t rounds is t times the row's value."""

    n_rounds = 50

    def __init__(self):
        self.rows_scored = []

    def scores(self, X, rounds=None):
        self.rows_scored.append(len(X))
        return X[:, 0] * (rounds or self.n_rounds)


def test_each_row_is_scored_by_its_own_round():
    X = np.random.default_rng(0).normal(size=(500, 1))
    model = Prefixes()
    scores = randomized_scores(model, X, seed=1)
    rounds = draw_rounds(X[:, 0] * 50, 50, seed=1)
    np.testing.assert_allclose(scores, X[:, 0] * rounds)


def test_no_round_is_predicted_over_all_rows():
    X = np.random.default_rng(0).normal(size=(500, 1))
    model = Prefixes()
    randomized_scores(model, X, seed=1)
    assert sum(model.rows_scored) <= 2 * len(X)  # once over all rows, then each row once


def test_draws_are_uniform():
    scores = np.random.default_rng(0).normal(size=20_000)
    counts = np.bincount(draw_rounds(scores, 25, seed=3), minlength=26)
    assert counts[0] == 0
    assert chisquare(counts[1:]).pvalue > 1e-4


def test_draws_of_neighbouring_scores_and_seeds_are_unrelated():
    scores = np.nextafter(0.5, 1) + np.arange(10_000) * np.finfo(float).eps
    first, second = draw_rounds(scores, 1000, 1), draw_rounds(scores, 1000, 2)
    assert abs(np.corrcoef(first[1:], first[:-1])[0, 1]) < 0.05
    assert abs(np.corrcoef(first, second)[0, 1]) < 0.05


def test_a_draw_depends_on_the_row_alone():
    scores = np.random.default_rng(0).normal(size=100)
    order = np.random.default_rng(1).permutation(100)
    whole = draw_rounds(scores, 100, 7)
    assert (draw_rounds(scores[order], 100, 7) == whole[order]).all()
    assert draw_rounds(scores[5:6], 100, 7)[0] == whole[5]
    assert (draw_rounds(np.array([0.0, -0.0]), 100, 7) == draw_rounds(np.zeros(2), 100, 7)).all()


def test_average_weights_give_the_mean_of_prefixes():
    trees = np.random.default_rng(0).normal(size=(7, 4))  # tree outputs by row
    np.testing.assert_allclose(average_weights(7) @ trees, trees.cumsum(axis=0).mean(axis=0))


def test_bad_iterates():
    with pytest.raises(InvalidInputError, match="unknown iterate 'first'; expected one of 'best'"):
        check_iterate("first", rescales_trees=False)
    for iterate in ("best", "average", "randomized"):
        check_iterate(iterate, rescales_trees=False)
        with pytest.raises(InvalidInputError, match="DART rescales old trees"):
            check_iterate(iterate, rescales_trees=True)
    check_iterate("last", rescales_trees=True)


# The best: lowest loss among those within tolerance


def best(losses, violations, errors=0.01, untrained=0.69):
    violations = np.array(violations, float).reshape(len(losses), -1)
    errors = np.broadcast_to(errors, violations.shape)
    return best_iterate(np.array(losses), violations, errors, untrained)


@pytest.mark.parametrize(
    ("losses", "violations", "expected"),
    [
        ([0.45, 0.42, 0.40, 0.41], [-0.1, -0.1, -0.1, -0.1], 2),
        ([0.45, 0.42, 0.40, 0.41], [-0.1, -0.1, 0.10, -0.1], 3),
        ([0.42, 0.41, 0.40, 0.405], [-0.1, 0.05, 0.10, 0.2], 0),
        ([0.42, 0.41, 0.40, 0.405], [0.3, 0.05, 0.10, 0.2], 1),
        ([0.42, 0.40, 0.40, 0.40], [-0.1, -0.1, -0.1, -0.1], 1),
        ([0.42], [0.5], 0),
    ],
    ids=[
        "all are within: the lowest loss",
        "the lowest is not: the next",
        "one is: that one",
        "none is: the least violation",
        "a tie: the first",
        "one round",
    ],
)
def test_best_by_hand(losses, violations, expected):
    assert best(losses, violations) == expected


def test_violations_count_by_their_standard_errors():
    """Five hundredths of a small group are nothing, three of a large one are."""
    errors = np.array([0.05, 0.01])
    assert best([0.42, 0.41], [[0.05, -0.1], [-0.1, 0.03]], errors) == 0
    assert best([0.42, 0.41], [[0.05, -0.1], [-0.1, 0.03]], errors[::-1]) == 1


def test_what_is_within_one_limit_does_not_make_up_for_another():
    assert best([0.42, 0.41], [[0.04, -0.9], [0.03, 0.0]]) == 1


def test_the_order_of_groups_does_not_break_ties():
    """Sums of the same numbers in another order may differ in their last digit."""
    rng = np.random.default_rng(0)
    for _ in range(200):
        row = rng.uniform(1, 9, 12)
        violations = np.array([row, rng.permutation(row), rng.permutation(row)])
        chosen = best_iterate(np.array([0.5, 0.4, 0.45]), violations, np.ones((3, 12)), 0.69)
        assert chosen == 1


def test_rounds_that_tell_no_one_apart_are_not_fair():
    """The first model gives everyone the same probability, and no rate can differ."""
    losses = np.concatenate([np.linspace(0.69, 0.41, 29), np.full(30, 0.40)])
    violations = np.concatenate([np.full(20, -0.05), np.full(39, 0.05)])
    assert losses[best(losses, violations)] == 0.40


def test_rounds_that_cannot_be_used_are_passed_over_if_others_can():
    losses, errors = np.array([0.40, 0.41, 0.42]), np.full((3, 1), 0.01)
    violations = np.array([[0.0], [0.05], [0.1]])
    for usable, expected in (([1, 1, 1], 0), ([0, 1, 1], 1), ([0, 0, 1], 2), ([0, 0, 0], 0)):
        found = best_iterate(losses, violations, errors, 0.69, np.array(usable, bool))
        assert found == expected


# By what rounds are compared


def test_rounds_are_compared_by_loss_as_long_as_one_has_learned():
    losses, wrong = np.array([0.70, 0.68, 0.75]), np.array([0.3, 0.2, 0.1])
    assert measure(losses, 0.69, wrong) == (losses, 0.69)


def test_where_no_loss_is_below_the_untrained_one_decisions_tell():
    losses, wrong = np.array([0.07, 0.09, 0.30]), np.array([0.34, 0.28, 0.27])
    by, untrained = measure(losses, 0.056, wrong)
    assert by is wrong and untrained == 0.5
    violations, errors = np.array([[0.0], [0.0], [0.0]]), np.full((3, 1), 0.01)
    assert best_iterate(losses, violations, errors, 0.056) == 0
    assert best_iterate(by, violations, errors, untrained) == 2


def test_where_decisions_tell_no_one_apart_there_was_nothing_to_learn():
    losses, wrong = np.array([0.70, 0.72]), np.array([0.49, 0.46])
    assert measure(losses, 0.69, wrong) == (losses, 0.69)


@given(st.integers(1, 40), st.integers(1, 6), st.integers(0, 10_000))
def test_no_round_is_both_fairer_and_of_lower_loss(n_rounds, n_inequalities, seed):
    """All rounds are trained here: their losses are near, by how much there was to learn."""
    rng = np.random.default_rng(seed)
    losses = rng.uniform(0.40, 0.42, n_rounds)
    errors = rng.uniform(0.005, 0.05, (n_rounds, n_inequalities))
    violations = errors * rng.normal(0, 1, errors.shape)
    violations[rng.random(n_rounds) < 0.3] = -0.01  # some are within tolerance
    chosen = best(losses, violations, errors)
    within = (violations <= 0).all(axis=1)
    if within.any():
        assert within[chosen]
        assert losses[chosen] == losses[within].min()
    beyond = np.sqrt((np.maximum(violations / errors, 0) ** 2).sum(axis=1))
    assert beyond[chosen] == beyond.min()
    assert not ((losses < losses[chosen]) & (beyond <= beyond[chosen])).any()


def test_of_rounds_whose_decisions_are_as_good_the_last_is_kept():
    """The loss does not choose: a constraint bends scores, and rounds that learned little win."""
    losses, violations = np.array([0.40, 0.42, 0.41, 0.43]), np.full((4, 1), -0.01)
    wrong = np.array([0.20, 0.14, 0.1405, 0.15])
    errors = np.full((4, 1), 0.01)
    assert best_iterate(losses, violations, errors, 0.69) == 0
    for error, expected in ((0.0, 1), (0.002, 2), (0.2, 3)):
        found = best_iterate(losses, violations, errors, 0.69, costs=(wrong, error))
        assert found == expected


def test_a_later_round_beyond_a_limit_is_not_kept():
    losses, wrong = np.full(4, 0.4), np.full(4, 0.2)
    violations = np.array([[-0.02], [-0.01], [0.001], [0.03]])
    errors = np.full((4, 1), 0.01)
    assert best_iterate(losses, violations, errors, 0.69, costs=(wrong, 0.01)) == 1


def test_costs_are_means_over_an_eighth_of_the_rounds():
    """One lucky round among bad ones is not kept."""
    wrong = np.full(40, 0.2)
    wrong[10], wrong[25:35] = 0.1, 0.15
    losses, ones = np.linspace(0.40, 0.41, 40), np.ones((40, 1))
    found = best_iterate(losses, -0.01 * ones, 0.01 * ones, 0.69, costs=(wrong, 0.0))
    assert 25 <= found < 35
