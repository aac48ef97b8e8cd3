import numpy as np
import pytest
from scipy.stats import chisquare

from fairboost.exceptions import InvalidInputError
from fairboost.iterates import average_weights, check_iterate, draw_rounds, randomized_scores


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
