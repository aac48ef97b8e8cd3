"""Constraints bound to cells, and the map from cells to moments."""

import numpy as np
import pytest

from fairboost.data.cells import build_cells
from fairboost.exceptions import ConstraintError
from fairboost.fairness.binding import MomentMap, bind, distinct, exact_rates, slices
from fairboost.fairness.constraints import bound, parity
from fairboost.fairness.rates import RATES
from tests.laws.test_laws import pick
from tests.problems import MeanGap, rows


def cells_without(label, group):
    y, columns, _, _ = rows(0)
    keep = ~((y == label) & (columns[0].codes == group))

    return build_cells(y[keep], pick(columns, keep))


def test_a_group_without_rows_that_count():
    with pytest.raises(
        ConstraintError, match=r"group 'g=2' has no rows with y = 0, so its false pos"
    ):
        bind(parity("fpr", 0.0, by="g"), cells_without(0, 2))
    bind(parity("fnr", 0.0, by="g"), cells_without(0, 2))  # FNR asks for positives only


def test_one_group_only():
    y, columns, _, _ = rows(0)
    keep = columns[1].codes == 0

    with pytest.raises(ConstraintError, match=r"'h' has one group only \(h=0\)"):
        bind(parity("ppr", 0.0, by="h"), build_cells(y[keep], pick(columns, keep)))


def test_unknown_group_in_a_bound():
    _, _, _, cells = rows(0)
    with pytest.raises(ConstraintError, match=r"group=7\) names a group that is not in the data"):
        bind(bound("fnr", 0.1, group={"g": 7}), cells)


class Crooked(MeanGap):
    def __init__(self, violations=None, pullback=None):
        super().__init__()
        self.v, self.p = violations, pullback

    def violations(self, moments):
        return super().violations(moments) if self.v is None else self.v

    def pullback(self, moments, multipliers):
        return super().pullback(moments, multipliers) if self.p is None else self.p


@pytest.mark.parametrize(
    ("crooked", "message"),
    [
        (Crooked(violations=np.zeros((2, 2))), "violations of .* must be a vector"),
        (Crooked(pullback=np.zeros(3)), r"must have the shape of the rates \(2, 3\)"),
    ],
)
def test_a_custom_constraint_of_the_wrong_shape(crooked, message):
    _, _, _, cells = rows(0)
    with pytest.raises(ConstraintError, match=message):
        bind(crooked, cells)


# The map


@pytest.mark.parametrize("full", [True, False], ids=["full", "sparse"])
def test_moments_and_their_pullback_are_one_linear_map(monkeypatch, full):
    """Against sums by hand; and the transpose carries coefficients back."""
    from fairboost.fairness import binding

    monkeypatch.setattr(binding, "FULL", 20_000 if full else 0)
    y, columns, _, cells = rows(3, n=120)
    terms = [bind(parity(name, 0.0, by="g"), cells) for name in RATES]
    rates = MomentMap(cells, terms, 2)
    decided = np.random.default_rng(0).random(120) < 0.4
    positive = cells.weight_of(decided)
    found = exact_rates(rates, positive, cells.weights).reshape(len(RATES), 3)
    for k, rate in enumerate(RATES.values()):
        for g in range(3):
            counts = rate.counts(y) & (columns[0].codes == g)
            event = decided if rate.direction > 0 else ~decided
            assert found[k, g] == pytest.approx(event[counts].mean(), abs=1e-12)
    coefficients = np.random.default_rng(1).normal(size=found.size)
    sums = np.stack([positive, cells.weights - positive])
    there = coefficients @ rates.means(sums)
    back = (rates.pull_back(coefficients) * sums).sum() / cells.total_weight
    assert back == pytest.approx(there, rel=1e-12)
    assert rates.needs.shape == (2, len(cells))


def test_names_that_repeat_are_numbered():
    assert distinct(["a", "b", "a", "a"]) == ("a", "b", "a #2", "a #3")
    assert slices([2, 0, 3]) == [slice(0, 2), slice(2, 2), slice(2, 5)]


def test_the_remedies_for_a_group_of_few_rows_are_named():
    message = "min_group_rows does so with small groups, and a missing value in sensitive_features"
    with pytest.raises(ConstraintError, match=message):
        bind(parity("fpr", 0.0, by="g"), cells_without(0, 2))
