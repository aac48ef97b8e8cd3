"""Smooth steps that stand in for the 0/1 event where a derivative is needed (paper, Table 1).

A rate counts rows with ``u = d (f - t) >= 0``. The count has no useful derivative, so gradients
are taken of ``phi(u)`` instead. Exact rates are only ever evaluated, proxy rates are only ever
differentiated; the two never mix (see :mod:`fairboost.algorithm.game`)::

    name            phi(u)              phi'(u)          phi''(u)
    cross_entropy   log(1 + e^u)        s(u)             s (1 - s)           s: logistic function
    hinge           max(0, 1 + u)       [u > -1]         0
    squared         max(0, 1 + u)^2     2 max(0, 1 + u)  2 [u > -1]
    sigmoid         s(u)                s (1 - s)        s (1 - s) (1 - 2 s)

The first is the paper's. The logistic loss is the same function, of ``u = (1 - 2 y) f``, which
the pass over rows makes use of (:mod:`fairboost.kernel.row_pass`).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal, TypeAlias

import numpy as np

from fairboost._typing import FloatArray
from fairboost.exceptions import ConstraintError

ProxyName: TypeAlias = Literal["cross_entropy", "hinge", "squared", "sigmoid"]

Evaluation: TypeAlias = tuple[FloatArray, FloatArray, FloatArray]
"""Value, slope and curvature."""


@dataclass(frozen=True)
class Proxy:
    """A smooth step.

    Parameters
    ----------
    name : str
        Short name, as users write it.
    evaluate : callable
        Margins ``u`` to the value, slope and curvature of the step there.

    Examples
    --------
    >>> from fairboost.fairness.proxies import PROXIES
    >>> PROXIES["hinge"].value(np.array([-2.0, 0.0, 1.0]))
    array([0., 1., 2.])
    """

    name: str
    evaluate: Callable[[FloatArray], Evaluation]

    def value(self, u: FloatArray) -> FloatArray:
        """phi(u)."""
        return self.evaluate(u)[0]

    def slope(self, u: FloatArray) -> FloatArray:
        """phi'(u)."""
        return self.evaluate(u)[1]

    def curvature(self, u: FloatArray) -> FloatArray:
        """phi''(u)."""
        return self.evaluate(u)[2]


def _cross_entropy(u: FloatArray) -> Evaluation:
    # Everything from e^-|u|, which cannot overflow; one exp and one log for all three results.
    small = np.exp(-np.abs(u))
    large_side = 1.0 / (1.0 + small)  # the logistic function of |u|
    small_side = small * large_side
    value = np.log1p(small)
    value += np.maximum(u, 0.0)
    return value, np.where(u >= 0, large_side, small_side), small_side * large_side


def _hinge(u: FloatArray) -> Evaluation:
    return np.maximum(0.0, 1.0 + u), (u > -1.0).astype(np.float64), np.zeros_like(u)


def _squared(u: FloatArray) -> Evaluation:
    hinge = np.maximum(0.0, 1.0 + u)
    return hinge * hinge, 2.0 * hinge, np.where(u > -1.0, 2.0, 0.0)


def _sigmoid(u: FloatArray) -> Evaluation:
    _, value, slope = _cross_entropy(u)
    return value, slope, slope * (1.0 - 2.0 * value)


PROXIES: dict[str, Proxy] = {
    p.name: p
    for p in (
        Proxy("cross_entropy", _cross_entropy),
        Proxy("hinge", _hinge),
        Proxy("squared", _squared),
        Proxy("sigmoid", _sigmoid),
    )
}


def as_proxy(proxy: str | Proxy, auto: ProxyName = "sigmoid") -> Proxy:
    """Look a proxy up by name; a ``Proxy`` passes through.

    ``"auto"`` is the sigmoid, or what ``auto`` names: ``benchmarks/proxies.md`` compares all.
    """
    if isinstance(proxy, Proxy):
        return proxy
    found = PROXIES.get(auto if proxy == "auto" else proxy)
    if found is None:
        raise ConstraintError(
            f"unknown proxy {proxy!r}; expected 'auto', one of {', '.join(map(repr, PROXIES))}, "
            "or a fairboost.fairness.Proxy"
        )
    return found
