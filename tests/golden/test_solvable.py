"""Problems whose multipliers are known in closed form.

If all rows of a group share one score f, a rate of that group is 0 or 1 and jumps at f = 0. The
dual player then drives f to the jump, and the multiplier to the value at which f = 0 is
stationary.
"""

import numpy as np
import pytest

from fairboost.algorithm.multipliers import Ascent
from fairboost.data.cells import SensitiveColumn, build_cells
from fairboost.fairness.constraints import bound, parity
from fairboost.fairness.proxies import PROXIES
from tests.problems import FreeScores, session

ROUNDS = 3000


def settle(y, codes, constraints, proxy="cross_entropy", rate=0.01, start=0.0):
    column = SensitiveColumn("g", codes.astype(np.int32), tuple(range(codes.max() + 1)))
    lagrangian = session(
        build_cells(y.astype(np.int32), [column]),
        constraints,
        PROXIES[proxy],
        Ascent(rate),
        dtype=np.float64,
    )
    FreeScores(codes, learning_rate=0.5).train(lagrangian, ROUNDS, start)
    return lagrangian.record().to_frame().iloc[ROUNDS // 2 :]


@pytest.mark.parametrize("share", [0.6, 0.8])
@pytest.mark.parametrize(
    ("proxy", "slope"), [("cross_entropy", 1 / 2), ("hinge", 1), ("sigmoid", 1 / 4)]
)
def test_multiplier_of_a_bound(share, proxy, slope):
    """A share q > 1/2 of positives: all are predicted positive until the multiplier stops it.

    At f = 0 the loss has slope 1/2 - q and the proxy of a positive decision has slope phi'(0), so
    the multiplier must be (q - 1/2) / phi'(0).
    """
    y = np.arange(100) < 100 * share
    trace = settle(y, np.zeros(100, int), [bound("ppr", 0.3)], proxy)
    multiplier = trace["multiplier: ppr<=0.3"]
    assert multiplier.mean() == pytest.approx((share - 0.5) / slope, abs=0.02)
    assert multiplier.std() < 0.05
    # The mean over the iterates, that is the randomized classifier, is exactly as positive as
    # allowed.
    assert trace["rate: ppr[everyone]"].mean() == pytest.approx(0.3, abs=0.01)


@pytest.mark.parametrize(
    ("share_a", "share_b", "expected"),
    # The group that gives way is the one that is nearer: n_B/n (1 - 2 q_B) against n_A/n (2 q_A -
    # 1).
    [(0.9, 0.4, 0.5 * (1 - 2 * 0.4)), (0.6, 0.1, 0.5 * (2 * 0.6 - 1))],
    ids=["the missed group rises", "the served group falls"],
)
def test_multiplier_of_parity(share_a, share_b, expected):
    """A is predicted positive (FNR 0) and B negative (FNR 1), until one reaches its jump."""
    y = np.concatenate([np.arange(100) < 100 * share_a, np.arange(100) < 100 * share_b])
    codes = np.repeat([0, 1], 100)
    trace = settle(y, codes, [parity("fnr", 0.2, by="g")], rate=0.002)
    assert trace["multiplier: fnr[g=0]"].mean() == pytest.approx(expected, abs=0.03)
    assert trace["multiplier: fnr[g=1]"].max() < 0.03
    # The randomized classifier's gap is the tolerance.
    gap = trace["rate: fnr[g=1]"].mean() - trace["rate: fnr[g=0]"].mean()
    assert gap == pytest.approx(0.2, abs=0.03)
