import numpy as np
import pytest

from fairboost.exceptions import ConstraintError
from fairboost.fairness.proxies import PROXIES, Proxy, as_proxy

ALL = pytest.mark.parametrize("proxy", PROXIES.values(), ids=PROXIES)
U = np.array([-30.0, -4.0, -1.3, -0.4, 0.2, 0.9, 3.5, 30.0])  # away from the kinks at -1


@ALL
def test_slope_and_curvature_are_derivatives(proxy):
    step = 1e-5
    slope = (proxy.value(U + step) - proxy.value(U - step)) / (2 * step)
    curvature = (proxy.slope(U + step) - proxy.slope(U - step)) / (2 * step)
    np.testing.assert_allclose(proxy.slope(U), slope, rtol=1e-6, atol=1e-9)
    np.testing.assert_allclose(proxy.curvature(U), curvature, rtol=1e-5, atol=1e-9)


@ALL
def test_a_step_rises(proxy):
    assert (np.diff(proxy.value(np.linspace(-5, 5, 101))) >= 0).all()
    assert (proxy.slope(U) >= 0).all()


@pytest.mark.parametrize("name", ["hinge", "squared"])
def test_hinge_and_squared_are_upper_bounds_of_the_step(name):
    assert (PROXIES[name].value(U) >= (U >= 0)).all()


def test_values_worked_by_hand():
    log3 = np.log(3.0)
    u = np.array([-log3, 0.0, log3])
    np.testing.assert_allclose(PROXIES["cross_entropy"].value(u), np.log([4 / 3, 2, 4]))
    np.testing.assert_allclose(PROXIES["cross_entropy"].slope(u), [1 / 4, 1 / 2, 3 / 4])
    np.testing.assert_allclose(PROXIES["cross_entropy"].curvature(u), [3 / 16, 1 / 4, 3 / 16])
    np.testing.assert_allclose(PROXIES["sigmoid"].value(u), [1 / 4, 1 / 2, 3 / 4])
    np.testing.assert_allclose(PROXIES["hinge"].value(np.array([-2.0, 0, 1])), [0, 1, 2])
    np.testing.assert_allclose(PROXIES["squared"].value(np.array([-2.0, 0, 1])), [0, 1, 4])


@ALL
@pytest.mark.parametrize("far", [800.0, -800.0])
def test_far_scores_do_not_overflow(proxy, far):
    for part in proxy.evaluate(np.array([far])):
        assert np.isfinite(part).all()


def test_lookup():
    assert as_proxy("auto") is PROXIES["sigmoid"]
    assert as_proxy("auto", "cross_entropy") is PROXIES["cross_entropy"]  # as the paper does
    own = Proxy("mine", lambda u: (u, np.ones_like(u), np.zeros_like(u)))
    assert as_proxy(own) is own
    with pytest.raises(ConstraintError, match=r"unknown proxy 'logit'; expected 'auto', one of"):
        as_proxy("logit")
