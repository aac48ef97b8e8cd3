"""The pass over the rows: sums by cell, gradient and Hessian, given what constraints weigh.

Rows are worked off in blocks that are taken by whichever thread is free, inside compiled code that
does not hold the interpreter's lock (:mod:`fairboost.kernel.loops`). The sums of blocks are added
in the order of blocks: results do not depend on the number of threads.

Rows are asked for no more than is read of them: of rows held out :meth:`RowPass.measure` wants no
gradient, of those trained on :meth:`RowPass.descend` wants no rates, and only the paper's game,
which differentiates at proxy rates, wants all of :meth:`RowPass.evaluate`.

The logistic loss is the cross-entropy proxy of ``(1 - 2y) f``, and ``phi(-u) = phi(u) - u``. With
that proxy at threshold 0 (the paper's setting) the proxies of every rate, in both directions, are
therefore read off the loss, and constraints cost no further exponential, whatever their number.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fairboost._typing import BoolArray, FloatArray, IntArray, ScoreArray
from fairboost.fairness.proxies import PROXIES, Proxy
from fairboost.kernel import loops
from fairboost.kernel.cuda import DeviceLoops
from fairboost.kernel.device import Device
from fairboost.kernel.threads import Threads

BLOCK = 16_384
"""Rows per block: long enough to pay for handing it out, short enough for threads to end alike."""


@dataclass(frozen=True)
class CellSums:
    """Weighted sums over the rows of each cell, all of shape (n_cells,).

    Parameters
    ----------
    positive : FloatArray
        Weight of the rows with score at or above the threshold.
    loss : FloatArray
        The logistic loss, without class weights.
    up, down : FloatArray
        The proxy of a positive and of a negative decision; 0 where no rate needs it.
    """

    positive: FloatArray
    loss: FloatArray
    up: FloatArray
    down: FloatArray


@dataclass(frozen=True)
class SoftWeights:
    """Weights on rows that are known by the probability of their group.

    Parameters
    ----------
    memberships : (n, n_groups) float32
        Probability of each group, row by row.
    on_groups : (n_groups, 4) float64
        What constraints weigh on a member of each group: on a positive and on a negative decision
        of a row of label 0, then of label 1.
    """

    memberships: NDArray[np.float32]
    on_groups: FloatArray


@dataclass(frozen=True)
class PassRules:
    """What is the same for every pass of a training.

    Parameters
    ----------
    proxy : Proxy
        The smooth step.
    needs : (2, n_cells) bool
        The cells of which some rate reads the proxy of a positive, and of a negative, decision.
    at_zero : bool
        The decision threshold is 0 in every round.
    with_curvature : bool
        Add the proxies' curvature to the Hessian, which is the loss's own otherwise.
    threads : Threads
        Those that share the rows.
    dtype : dtype
        Precision of the gradients handed out; engines read single precision.
    device : Device, optional
        The GPU on which scores and gradients are, if they are on one.
    """

    proxy: Proxy
    needs: BoolArray
    at_zero: bool = False
    with_curvature: bool = False
    threads: Threads = field(default_factory=Threads)
    dtype: Any = np.float32
    device: Device | None = None


@dataclass(frozen=True)
class Line:
    """Scale and shift, by cell, that turn the slope of the loss into the gradient."""

    scale: FloatArray
    shift: FloatArray


class RowPass:
    """The pass over some rows, and the buffers it fills.

    Parameters
    ----------
    cells : (n,) unsigned int
        Cell of each row.
    labels : (n_cells,) int32
        Label of each cell.
    loss_weight : (2,) float64
        Factors on the loss (not on the rates) of the negative and the positive class.
    sample_weight : (n,) float32 or None
        Weights of the rows.
    rules : PassRules
        What is the same for every pass.
    """

    def __init__(
        self,
        cells: IntArray,
        labels: IntArray,
        loss_weight: FloatArray,
        sample_weight: Any,
        rules: PassRules,
    ) -> None:
        n, device = len(cells), rules.device
        self.cells, self.rules = cells, rules
        self.weight = np.empty(0, np.float32) if sample_weight is None else sample_weight
        self.loss_weight = np.asarray(loss_weight, np.float64)[labels]
        self.away = np.where(labels == 1, -1.0, 1.0)  # 1 - 2y: the direction of a wrong decision
        self.pull, self.side = self.away * self.loss_weight, np.where(labels == 1, 1, 0)
        self.reads_loss = rules.proxy is PROXIES["cross_entropy"] and rules.at_zero
        self.sides = [] if self.reads_loss else _sides(*rules.needs)
        self.loops: Any
        if device is not None:
            self.gradient, self.hessian = (device.empty(n, rules.dtype) for _ in range(2))
            told = cells, len(labels), self.weight, self.gradient, self.hessian
            self.loops = DeviceLoops(device, *told)
            # Proxies that have no kernel are added by arrays of the device, all rows at once.
            self.cells, self.blocks, self.threads = self.loops.cells, [slice(None)], Threads()
            self.weight = self.weight if self.loops.weight is None else self.loops.weight
            return
        self.gradient, self.hessian = np.empty(n, rules.dtype), np.empty(n, rules.dtype)
        # One block at least: a machine may hold none of the rows.
        self.blocks = [slice(lo, min(lo + BLOCK, n)) for lo in range(0, max(n, 1), BLOCK)]
        # One block is done sooner than another thread has been told of it.
        self.threads = Threads() if len(self.blocks) == 1 else rules.threads
        self.loops = loops.Loops(
            cells, len(labels), self.weight, self.gradient, self.hessian, BLOCK, self.threads
        )

    @property
    def total_of_gradient(self) -> float | None:
        """The sum of the gradient that was filled last, where the pass has found it."""
        return None if self.rules.device is None else self.loops.total_of_gradient

    def evaluate(
        self,
        scores: ScoreArray,
        threshold: float,
        on_cells: Sequence[FloatArray],
        soft: Sequence[SoftWeights] = (),
    ) -> tuple[CellSums, Line]:
        """Fill gradient and Hessian; return sums by cell, and what the gradient is made of.

        Parameters
        ----------
        scores : (n,) float64 or float32
            Raw log-odds of the rows.
        threshold : float
            The decision threshold in log-odds.
        on_cells : two of (n_cells,) float64
            What the constraints weigh on the proxy of a positive, and of a negative, decision of
            a row of each cell.
        soft : sequence of SoftWeights
            What they weigh on rows by the probability of their groups, on top of it.
        """
        on_up, on_down = on_cells
        line = self._line(on_up, on_down)
        curve = self.loss_weight
        if self.rules.with_curvature and self.reads_loss:  # all have the curvature of the loss
            curve = curve + np.abs(on_up) + np.abs(on_down)
        factors = [np.where(d > 0, on_up, -on_down) * (d != 0) for d in self.sides]

        ends = line.scale, line.shift
        sums = self.loops.sum_and_descend(scores, threshold, self.away, ends, curve)
        further: list[Any] = []
        if self.sides or soft:
            on_device = self._on_device(scores)
            further = self._each_block(
                lambda rows: self._add_proxies(
                    on_device[rows].astype(np.float64) - threshold, rows, factors, soft
                )
            )
            if self.rules.device is not None:  # the kernel's total is that before
                self.loops.total_of_gradient = float(self.gradient.sum(dtype=np.float64))
        positive, loss, score = sums.T
        if self.reads_loss:  # phi(-u) = phi(u) - u, and u is the score but for the sign
            up = np.where(self.away > 0, loss, loss + score)
            return CellSums(positive, loss, up, up - score), line
        up, down = np.zeros_like(loss), np.zeros_like(loss)
        proxies = np.sum(further, axis=0) if self.sides else ()  # none without constraints
        for direction, proxy in zip(self.sides, proxies, strict=True):
            up[direction > 0] += proxy[direction > 0]
            down[direction < 0] += proxy[direction < 0]
        return CellSums(positive, loss, up, down), line

    def descend(
        self,
        scores: ScoreArray,
        threshold: float,
        on_cells: Sequence[FloatArray],
        soft: Sequence[SoftWeights] = (),
    ) -> float:
        """Fill the gradient and the Hessian, and return the loss; arguments as in ``evaluate``.

        The sigmoid has the same slope in both directions, and so needs one number for each cell,
        and for each row one more where memberships are learned.
        """
        if not self.is_fused:
            sums, _ = self.evaluate(scores, threshold, on_cells, soft)
            return float(self.loss_weight @ sums.loss)
        told = self._fused(on_cells, soft)
        return float(self.loops.descend(scores, threshold, *told))

    @property
    def is_fused(self) -> bool:
        """Whether one loop makes the whole gradient, as in the default game."""
        return self.rules.proxy is PROXIES["sigmoid"] and self.rules.with_curvature

    def descending(
        self,
        scores: ScoreArray,
        threshold: float,
        on_cells: Sequence[FloatArray],
        soft: Sequence[SoftWeights] = (),
    ) -> Callable[[], tuple[float, float]]:
        """Begin with ``descend`` on a GPU; what comes waits for loss and sum of the gradient."""
        begun: Callable[[], tuple[float, float]] = self.loops.descending(
            scores, threshold, *self._fused(on_cells, soft)
        )
        return begun

    def measuring(
        self, scores: ScoreArray, threshold: float
    ) -> Callable[[], tuple[FloatArray, float]]:
        """Begin with ``measure`` on a GPU; what comes waits for the result."""
        begun: Callable[[], tuple[FloatArray, float]] = self.loops.measuring(
            scores, threshold, self.pull
        )
        return begun

    def _fused(self, on_cells: Sequence[FloatArray], soft: Sequence[SoftWeights]) -> Any:
        bump = on_cells[0] - on_cells[1]
        # Of rows of label 0, then of label 1, what a group weighs on going up.
        groups = [(s.memberships, (s.on_groups[:, ::2] - s.on_groups[:, 1::2]).T) for s in soft]
        return self.pull, bump, self.side, groups

    def measure(self, scores: ScoreArray, threshold: float) -> tuple[FloatArray, float]:
        """Weight of positive decisions by cell, and the loss; no gradient is filled."""
        positive, loss = self.loops.measure(scores, threshold, self.pull)
        return positive, loss

    def correct(self, line: Line, on_cells: Sequence[FloatArray]) -> bool:
        """Change a gradient that ``evaluate`` made to other weights, much faster than a pass.

        Returns False, and does nothing, where that cannot be done accurately.
        """
        new = self._line(*on_cells)
        # gradient = w (scale s(u) + shift), solved for s(u) and put together anew. The gradient
        # may be in single precision: its old shift must not be blown up.
        lost = (np.abs(line.scale) < 1e-6) & (new.scale != 0)
        ratio = np.divide(
            new.scale, line.scale, out=np.zeros_like(new.scale), where=~lost & (new.scale != 0)
        )
        blown_up = np.abs(ratio * line.shift) > 30 * (np.abs(new.scale) + np.abs(new.shift))
        if not self.reads_loss or lost.any() or blown_up.any():
            return False
        self.loops.correct(ratio, new.shift - ratio * line.shift)
        return True

    def _line(self, on_up: FloatArray, on_down: FloatArray) -> Line:
        """The gradient as a line in the slope of the loss, by cell.

        The loss has slope s(u), u = (1 - 2y) f. A wrong decision weighs on s(u) as well, a right
        one on s(-u) = 1 - s(u) and pulls the other way: both are linear in s(u).
        """
        wrong, right = np.zeros_like(on_up), np.zeros_like(on_up)
        if self.reads_loss:
            wrong = np.where(self.away > 0, on_up, on_down)
            right = np.where(self.away > 0, on_down, on_up)
        return Line(self.away * (self.loss_weight + wrong + right), -self.away * right)

    def _add_proxies(
        self,
        margins: FloatArray,
        rows: slice,
        factors: list[FloatArray],
        soft: Sequence[SoftWeights],
    ) -> FloatArray:
        """Add what is not read off the loss; return the proxies' sums, by side and cell."""
        cells, weight = self.cells[rows], self.weight[rows] if len(self.weight) else 1.0
        sums, bend = np.zeros((len(self.sides), len(self.away))), np.zeros_like(margins)
        for k, tables in enumerate(zip(self.sides, factors, strict=True)):
            direction, factor = map(self._on_device, tables)
            value, slope, curvature = self.rules.proxy.evaluate(direction[cells] * margins)
            sums[k] = self._sums_by_cell(cells, weight * value)
            self.gradient[rows] += weight * factor[cells] * slope
            if self.rules.with_curvature:
                bend += np.abs(factor)[cells] * curvature
        if self.sides and self.rules.with_curvature:
            # The sigmoid's curvature changes its sign; a Hessian must not.
            self.hessian[rows] += np.abs(bend) * weight
        if soft:
            self._add_soft(margins, rows, soft)
        return sums

    def _add_soft(self, margins: FloatArray, rows: slice, soft: Sequence[SoftWeights]) -> None:
        """Add the part of constraints that goes by memberships; signs are set row by row."""
        cells = self.cells[rows]
        parts = [self._on_device(s.memberships)[rows] @ self._on_device(s.on_groups) for s in soft]
        weigh = sum(parts[1:], start=parts[0])
        positive = (self._on_device(self.away)[cells] < 0)[:, np.newaxis]
        up, down = np.where(positive, weigh[:, 2:], weigh[:, :2]).T
        weight = self.weight[rows] if len(self.weight) else 1.0
        on_up = weight * (np.maximum(up, 0.0) + np.maximum(-down, 0.0))
        on_down = weight * (np.maximum(down, 0.0) + np.maximum(-up, 0.0))
        _, slope, curvature = self.rules.proxy.evaluate(margins)
        _, back_slope, back_curvature = self.rules.proxy.evaluate(-margins)
        self.gradient[rows] += on_up * slope - on_down * back_slope
        self.hessian[rows] += np.abs(on_up * curvature + on_down * back_curvature)

    def _on_device(self, array: Any) -> Any:
        """An array where the rows are."""
        return array if self.rules.device is None else self.rules.device.put(array)

    def _sums_by_cell(self, cells: Any, values: Any) -> Any:
        if self.rules.device is not None:
            return self.loops.add_up(values)
        return np.bincount(cells, values, len(self.away))

    def _each_block(self, work: Callable[[slice], Any]) -> list[Any]:
        """Do all blocks and return the results in their order."""

        def one(k: int) -> Any:
            with np.errstate(over="ignore", invalid="ignore"):  # C does not warn
                return work(self.blocks[k])

        return self.threads.each(one, len(self.blocks))


def _sides(up: BoolArray, down: BoolArray) -> list[FloatArray]:
    """The fewest directions per cell that serve every rate: one side, unless a cell needs both."""
    first = np.where(up, 1.0, np.where(down, -1.0, 0.0))
    second = np.where(up & down, -1.0, 0.0)
    return [side for side in (first, second) if side.any()]
