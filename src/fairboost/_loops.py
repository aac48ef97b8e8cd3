"""Compiled loops over rows: what costs time in a round, and nothing else.

Numba, compiled once and cached on disk, without the interpreter's lock. Rows are worked off in
chunks that stay in the cache, each by several short loops: a loop over two or three arrays is
vectorised, one over all of them is not, and runs at a third of the speed.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numba import njit

__all__ = [
    *("correct", "descend", "exp_and_log", "look", "margins", "proxy_pass", "soften"),
    "sum_and_descend",
]

# Exponential and logarithm, written out. A loop over the library's scalar functions runs at 8 ns a
# row, as they cannot be vectorised; the polynomials below vectorise and run at 1.5 ns, to within a
# few units in the last place (tests/unit/test_kernel.py). NumPy's vectorised ones are as fast, but
# passing between compiled and Python code within a block costs as much again once the engine's
# threads compete for the cores.
_CHUNK = 1024
_LOG2_E, _LN2_HIGH, _LN2_LOW = 1.4426950408889634, 0.6931471803691238, 1.9082149292705877e-10
_ROUND = 6755399441055744.0  # 1.5 * 2^52: adding it leaves the rounded number in the low bits
# 1/k! and 1/(2k + 1). Numba does not unroll a loop over them, so Horner's rule is spelled out.
(_E12, _E11, _E10, _E9, _E8, _E7, _E6, _E5, _E4, _E3) = (
    1.0 / math.factorial(k) for k in range(12, 2, -1)
)
(_A35, _A33, _A31, _A29, _A27, _A25, _A23, _A21, _A19) = (1.0 / k for k in range(35, 17, -2))
(_A17, _A15, _A13, _A11, _A9, _A7, _A5, _A3) = (1.0 / k for k in range(17, 1, -2))

_compile = njit(nogil=True, cache=True, error_model="numpy", fastmath={"contract"})
# What only compiled loops call goes into their code and their place in the cache: without an
# entry from Python and a place of its own it compiles faster. (Options of Numba that its types
# leave out; its own overloads use them.)
_INSIDE: dict[str, Any] = {"nogil": True, "no_cpython_wrapper": True, "no_cfunc_wrapper": True}
_part = njit(error_model="numpy", fastmath={"contract"}, **_INSIDE)
_part_sum = njit(fastmath={"contract", "reassoc"}, **_INSIDE)


@_part
def _exp(scores, threshold, small):  # type: ignore[no-untyped-def]
    # e^-|f - t|
    for i in range(len(scores)):
        x = max(-abs(scores[i] - threshold), -700.0)
        t = x * _LOG2_E + _ROUND
        k = t - _ROUND
        r = x - k * _LN2_HIGH - k * _LN2_LOW
        p = ((((_E12 * r + _E11) * r + _E10) * r + _E9) * r + _E8) * r + _E7
        p = ((((p * r + _E6) * r + _E5) * r + _E4) * r + _E3) * r + 0.5
        p = (p * r + 1.0) * r + 1.0
        two_to_k = np.int64((np.float64(t).view(np.int64) + 1023) << 52).view(np.float64)
        small[i] = p * two_to_k


@_part
def _log(small, log):  # type: ignore[no-untyped-def]
    # log(1 + e) = 2 artanh(e / (2 + e)), for e from 0 to 1
    for i in range(len(small)):
        s = small[i] / (2.0 + small[i])
        z = s * s
        q = ((((_A35 * z + _A33) * z + _A31) * z + _A29) * z + _A27) * z + _A25
        q = (((((q * z + _A23) * z + _A21) * z + _A19) * z + _A17) * z + _A15) * z + _A13
        q = (((((q * z + _A11) * z + _A9) * z + _A7) * z + _A5) * z + _A3) * z + 1.0
        log[i] = 2.0 * s * q


@_compile
def exp_and_log(scores, small, log):  # type: ignore[no-untyped-def]
    # e^-|f| and log(1 + e^-|f|)
    _exp(scores, 0.0, small)
    _log(small, log)


@_part
def _take(table, cells, weight, out):  # type: ignore[no-untyped-def]
    # Of each row what its cell has, times its weight.
    for i in range(len(cells)):
        out[i] = table[cells[i]]
    for i in range(len(weight)):
        out[i] *= weight[i]


@_part_sum
def _loss(scores, pull, log):  # type: ignore[no-untyped-def]
    # pull is (1 - 2y) times the weight of the loss: its sign tells the label. The loss is
    # log(1 + e^u), u = (1 - 2y) f. Summed in several lanes, always the same ones.
    total = 0.0
    for i in range(len(scores)):
        wrong = (pull[i] >= 0.0) == (scores[i] >= 0.0)
        total += abs(pull[i]) * (log[i] + (abs(scores[i]) if wrong else 0.0))
    return total


@_part
def _steps(small, bump, bend):  # type: ignore[no-untyped-def]
    # A sigmoid proxy has slope s(v) s(-v) and curvature s(v) s(-v) (s(-v) - s(v)), v = f - t, read
    # off e^-|v|. The curvature changes its sign; a Hessian must not.
    for i in range(len(small)):
        far = 1.0 / (1.0 + small[i])
        near = small[i] * far
        bump[i] *= near * far
        bend[i] = abs(bump[i]) * (far - near)


@_part
def _own_steps(own, small, step, bend):  # type: ignore[no-untyped-def]
    # The same of what rows have of their own, if they have.
    for i in range(len(own)):
        far = 1.0 / (1.0 + small[i])
        near = small[i] * far
        step[i] += own[i] * (near * far)
        bend[i] += abs(own[i]) * (near * far) * (far - near)


@_part
def _gradients(scores, small, pull, step, gradient):  # type: ignore[no-untyped-def]
    # The loss has slope s(u).
    for i in range(len(scores)):
        far = 1.0 / (1.0 + small[i])
        wrong = (pull[i] >= 0.0) == (scores[i] >= 0.0)
        gradient[i] = pull[i] * (far if wrong else small[i] * far) + step[i]


@_part
def _hessians(small, pull, bend, hessian):  # type: ignore[no-untyped-def]
    for i in range(len(small)):
        far = 1.0 / (1.0 + small[i])
        hessian[i] = abs(pull[i]) * (small[i] * far * far) + bend[i]


@_compile
def descend(  # type: ignore[no-untyped-def]
    scores, cells, weight, threshold, pull, bump, own, gradient, hessian
):
    # The default game: the loss, and a sigmoid proxy times ``bump`` of the cell and, unless it is
    # empty, what is the row's ``own``. Returns the loss.
    a, b, c = np.empty(_CHUNK), np.empty(_CHUNK), np.empty(_CHUNK)
    d = np.empty(_CHUNK)
    loss = 0.0
    for lo in range(0, len(scores), _CHUNK):
        hi = min(lo + _CHUNK, len(scores))
        f, k, w = scores[lo:hi], cells[lo:hi], weight[lo:hi]  # without weights, w is empty
        small, pulls, steps = a[: hi - lo], b[: hi - lo], c[: hi - lo]
        other = d[: hi - lo]
        _take(pull, k, w, pulls)
        _take(bump, k, w, steps)
        _exp(f, threshold, small)
        _steps(small, steps, other)
        _own_steps(own[lo:hi], small, steps, other)
        if threshold != 0.0:
            _exp(f, 0.0, small)
        _gradients(f, small, pulls, steps, gradient[lo:hi])
        _hessians(small, pulls, other, hessian[lo:hi])
        _log(small, other)
        loss += _loss(f, pulls, other)
    return loss


@_compile
def soften(cells, weight, side, memberships, on_groups, own):  # type: ignore[no-untyped-def]
    # What groups weigh on a row of a side (a label, or -1 for none) by how likely it is of each.
    for i in range(len(cells)):
        k = side[cells[i]]
        if k >= 0:
            total = 0.0
            for g in range(memberships.shape[1]):
                total += memberships[i, g] * on_groups[k, g]
            own[i] += total * (weight[i] if len(weight) > 0 else 1.0)


@_compile
def look(scores, cells, weight, threshold, pull, positive):  # type: ignore[no-untyped-def]
    # Weight of positive decisions by cell, and the loss: all that is read of rows held out.
    a, b, c = np.empty(_CHUNK), np.empty(_CHUNK), np.empty(_CHUNK)
    loss = 0.0
    for lo in range(0, len(scores), _CHUNK):
        hi = min(lo + _CHUNK, len(scores))
        f = scores[lo:hi]
        small, log, pulls = a[: hi - lo], b[: hi - lo], c[: hi - lo]
        _take(pull, cells[lo:hi], weight[lo:hi], pulls)
        _exp(f, 0.0, small)
        _log(small, log)
        loss += _loss(f, pulls, log)
    for i in range(len(scores)):
        w = weight[i] if len(weight) > 0 else 1.0
        positive[cells[i]] += w if scores[i] >= threshold else 0.0
    return loss


@_compile
def sum_and_descend(  # type: ignore[no-untyped-def]
    scores, cells, weight, threshold, away, scale, shift, curve, gradient, hessian, sums
):
    # The paper's game needs sums by cell as well. With u = (1 - 2y) f: loss log(1 + e^u), slope
    # s(u), curvature s(u) s(-u), from e^-|f|.
    small, log = np.empty(_CHUNK), np.empty(_CHUNK)
    for lo in range(0, len(scores), _CHUNK):
        hi = min(lo + _CHUNK, len(scores))
        exp_and_log(scores[lo:hi], small[: hi - lo], log[: hi - lo])
        for i in range(lo, hi):
            c = cells[i]
            f = scores[i]
            u = away[c] * f
            w = weight[i] if len(weight) > 0 else 1.0
            far = 1.0 / (1.0 + small[i - lo])
            near = small[i - lo] * far
            slope = far if u >= 0.0 else near
            sums[c, 0] += w if f >= threshold else 0.0
            sums[c, 1] += w * (max(u, 0.0) + log[i - lo])
            sums[c, 2] += w * f
            gradient[i] = w * (scale[c] * slope + shift[c])
            hessian[i] = w * near * far * curve[c]


@_compile
def correct(cells, weight, ratio, offset, gradient):  # type: ignore[no-untyped-def]
    for i in range(len(cells)):
        c = cells[i]
        w = weight[i] if len(weight) > 0 else 1.0
        gradient[i] = ratio[c] * gradient[i] + w * offset[c]


@_compile
def margins(scores, cells, direction, threshold, out):  # type: ignore[no-untyped-def]
    for i in range(len(scores)):
        out[i] = direction[cells[i]] * (scores[i] - threshold)


@_compile
def proxy_pass(cells, weight, value, slope, factor, gradient, sums, k):  # type: ignore[no-untyped-def]
    for i in range(len(cells)):
        w = weight[i] if len(weight) > 0 else 1.0
        sums[cells[i], k] += w * value[i]
        gradient[i] += w * factor[cells[i]] * slope[i]
