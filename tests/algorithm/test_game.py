import numpy as np
import pytest

from fairboost.algorithm.multipliers import Ascent
from fairboost.exceptions import ConstraintError
from fairboost.fairness.binding import bind
from fairboost.fairness.constraints import bound, parity
from fairboost.fairness.proxies import PROXIES
from tests.problems import MeanGap, rows, session


def game(constraints, seed=0):
    _, _, weight, cells = rows(seed)
    return session(cells, constraints, PROXIES["cross_entropy"], Ascent(0.1), sample_weight=weight)


def test_names_in_the_trace():
    found = game([parity("fnr", 0.0, by="h"), bound("fpr", 0.1), MeanGap()])
    assert found.game.inequalities == (
        "fnr[h=0]", "fnr[h=1]", "fpr<=0.1", "mean_gap[0]", "mean_gap[1]",
    )  # fmt: skip
    found.play(np.zeros(60))
    shown = found.record().to_frame().filter(like="rate: ").columns
    assert list(shown[:3]) == ["rate: fnr[h=0]", "rate: fnr[h=1]", "rate: fpr[everyone]"]


def test_equal_constraints_keep_a_column_each():
    found = game([parity("fnr", 0.0, by="h"), parity("fnr", 0.1, by="h")])
    assert found.game.inequalities[2:] == ("fnr[h=0] #2", "fnr[h=1] #2")
    found.play(np.zeros(60))
    columns = found.record().to_frame().columns
    assert columns.is_unique
    shown = [name for name in columns if name.startswith("rate: ")]
    assert shown == ["rate: fnr[h=0]", "rate: fnr[h=1]"]


def test_trace_has_a_row_per_round():
    found = game([parity("fpr", 0.0, by="g")])
    for t in range(5):
        found.play(np.random.default_rng(t).normal(size=60))
    frame = found.record().to_frame()
    assert frame["round"].tolist() == [1, 2, 3, 4, 5]
    assert frame.notna().all(axis=None)


def test_no_constraint_is_the_plain_loss():
    found = game([])
    f = np.linspace(-2, 2, 60)
    gradient, _ = found.play(f)
    cells = found.game.layout.cells
    y = cells.labels[cells.codes]
    np.testing.assert_allclose(gradient, 1 / (1 + np.exp(-f)) - y, rtol=1e-6)
    assert found.record().to_frame().columns.tolist() == ["round", "loss"]


def cells_without(label, group):
    y, columns, _, _ = rows(0)
    keep = ~((y == label) & (columns[0].codes == group))
    from fairboost.data.cells import build_cells
    from tests.laws.test_laws import pick

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
    from fairboost.data.cells import build_cells
    from tests.laws.test_laws import pick

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
