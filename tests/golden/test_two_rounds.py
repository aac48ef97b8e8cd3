"""Two rounds of Algorithm 1, worked by hand.

Six rows with scores that are 0 or +-log 3, so that every probability is 1/4, 1/2 or 3/4::

    row   group  y    round 1: f, p        round 2: f, p
    1     A      1    +log3   3/4          +log3   3/4
    2     A      1    -log3   1/4          -log3   1/4
    3     A      0    -log3   1/4           0      1/2
    4     B      1    +log3   3/4          +log3   3/4
    5     B      1    +log3   3/4           0      1/2
    6     B      0    +log3   3/4          +log3   3/4

Equal opportunity, tolerance 0.1, multiplier rate 0.4. n = 6, and two rows count in either group.
"""

import numpy as np
import pytest

from fairboost.algorithm.multipliers import Ascent
from fairboost.data.cells import SensitiveColumn, build_cells
from fairboost.fairness.constraints import parity
from fairboost.fairness.proxies import PROXIES
from tests.problems import session

LOG3 = np.log(3.0)
Y = np.array([1, 1, 0, 1, 1, 0], np.int32)
GROUP = SensitiveColumn("g", np.array([0, 0, 0, 1, 1, 1], np.int32), ("A", "B"))
ROUND_1 = np.array([LOG3, -LOG3, -LOG3, LOG3, LOG3, LOG3])
ROUND_2 = np.array([LOG3, -LOG3, 0.0, LOG3, 0.0, LOG3])


@pytest.fixture
def lagrangian():
    return session(
        build_cells(Y, [GROUP]),
        [parity("fnr", 0.1, by="g")],
        PROXIES["cross_entropy"],
        Ascent(0.4),
        dtype=np.float64,
    )


def test_first_round(lagrangian):
    gradient, hessian = lagrangian.play(ROUND_1)
    # Multipliers are still zero: the gradient is the plain p - y.
    np.testing.assert_allclose(gradient, [-1 / 4, -3 / 4, 1 / 4, -1 / 4, -1 / 4, 3 / 4])
    np.testing.assert_allclose(hessian, [3 / 16] * 6)
    # One of A's two positives is missed, none of B's: c_A = .5 - .5 - .1, c_B = .5 - 0 - .1.
    row = lagrangian.record().to_frame().iloc[0]
    assert row["rate: fnr[g=A]"] == 1 / 2
    assert row["rate: fnr[g=B]"] == 0
    assert row["violation: fnr[g=A]"] == pytest.approx(-0.1)
    assert row["violation: fnr[g=B]"] == pytest.approx(0.4)
    assert row["multiplier: fnr[g=A]"] == row["multiplier: fnr[g=B]"] == 0
    # Mean loss: four rows right at 3/4 (1, 3, 4, 5), two wrong (2, 6).
    assert row["loss"] == pytest.approx((4 * np.log(4 / 3) + 2 * np.log(4)) / 6)
    # A's violation is negative and is projected to zero; B's moves by .4 * .4.
    np.testing.assert_allclose(lagrangian.state.dual.multipliers, [0.0, 0.16])


def test_second_round(lagrangian):
    lagrangian.play(ROUND_1)
    gradient, hessian = lagrangian.play(ROUND_2)
    # Proxy rates of a miss, log(1 + e^-f): A: (log 4/3 + log 4) / 2, B: (log 4/3 + log 2) / 2. A
    # is the larger, so coef_A = 0.16 (the other's multiplier) and coef_B = -0.16. On a row that
    # counts they weigh n / W_g = 6/2 times that, +-0.48, times the slope of the proxy, -(1 - p).
    np.testing.assert_allclose(
        gradient,
        [
            -1 / 4 * (1 + 0.48),
            -3 / 4 * (1 + 0.48),
            1 / 2,
            -1 / 4 * (1 - 0.48),
            -1 / 2 * (1 - 0.48),
            3 / 4,
        ],
    )
    np.testing.assert_allclose(hessian, [3 / 16, 3 / 16, 1 / 4, 3 / 16, 1 / 4, 3 / 16])
    # Row 5 sits on the threshold and counts as positive: rates and violations are as before.
    np.testing.assert_allclose(lagrangian.state.dual.multipliers, [0.0, 0.32])
    assert len(lagrangian.rounds) == 2
