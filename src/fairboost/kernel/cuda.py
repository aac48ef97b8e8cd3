"""The passes of ``loops.cu`` over rows whose scores are in the memory of a GPU.

:class:`DeviceLoops` is the twin of :class:`fairboost.kernel.loops.Loops` for scores that a GPU
keeps: the same functions of the same numbers. Scores and gradients never leave the device. A pass
hands back sums, a few kilobytes that are copied once.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import cached_property
from typing import Any

import numpy as np

from fairboost._typing import FloatArray, IntArray
from fairboost.kernel.device import ROOM, Device, blocks_for, pointer

MOST = 2.0**11
"""Where losses and scores of the paper's game are cut in sums by cell. No log-odds of a training
that goes well come near."""


class DeviceLoops:
    """Passes over some rows whose scores are on a device.

    Parameters
    ----------
    device : Device
        The device.
    cells : (n,) int
        Cell of each row.
    n_cells : int
        Number of cells.
    weight : (n,) float32, or empty
        Weights of the rows.
    gradient, hessian : (n,) float32 or float64, on the device
        What is filled.
    """

    def __init__(
        self,
        device: Device,
        cells: IntArray,
        n_cells: int,
        weight: Any,
        gradient: Any,
        hessian: Any,
    ) -> None:
        self.device, self.n, self.n_cells = device, len(cells), n_cells
        codes = device.put(cells)
        least, most = (int(codes.min()), int(codes.max())) if self.n else (0, 0)
        if not 0 <= least <= most < max(n_cells, 1):
            found = f"from {least} to {most}"
            raise IndexError(f"cells must be from 0 to {n_cells - 1}, found {found}")
        self.kind = np.min_scalar_type(max(n_cells - 1, 0)).str[1:]
        self.cells = codes.astype(self.kind, copy=False)
        self.weight = device.put(weight, np.float32) if len(weight) else None
        self.gradient, self.hessian = gradient, hessian
        self.grid = blocks_for(self.n)
        self.uploaded: dict[int, tuple[Any, Any]] = {}
        self.total_of_gradient = 0.0
        # Buffers of a round: the next one begins when all of this one has been read.
        self.sent, self.by_cell = device.pinned(2 * n_cells), device.empty(2 * n_cells, np.float64)
        self.totals = device.empty(2 * self.grid, np.float64)
        self.found = device.empty(n_cells + self.grid, np.uint64)
        self.sums = self.found[:n_cells]
        self.losses = self.found[n_cells:].view(np.float64)
        self.descended, self.measured = device.event(), device.event()
        self.host_totals = device.pinned(len(self.totals))
        self.host_found = device.pinned(len(self.found))

    @cached_property
    def largest(self) -> float:
        """The largest weight."""
        return 1.0 if self.weight is None else max(float(self.weight.max()), 1e-30)

    def unit(self, most: float = 1.0) -> float:
        """Whole units of a sum over all rows, of which none is larger than this times a weight."""
        # A power of two, so that the product with a single-precision weight is exact.
        return 2.0 ** math.floor(61 - math.log2(max(self.n, 1) * self.largest * most))

    def descend(self, *told: Any) -> float:
        """As :meth:`fairboost.kernel.loops.Loops.descend`."""
        loss, self.total_of_gradient = self.descending(*told)()
        return loss

    def descending(
        self,
        scores: Any,
        threshold: float,
        pull: FloatArray,
        bump: FloatArray,
        side: IntArray,
        soft: Sequence[tuple[Any, FloatArray]],
    ) -> Callable[[], tuple[float, float]]:
        """Begin with it; what comes waits for the loss and the sum of the gradient."""
        scores, put = self.scores(scores), self.device.put
        members = [
            (self._kept(m, np.float32), put(np.ascontiguousarray(on, np.float64)))
            for m, on in soft
        ]
        at = self.device.address
        told = [(at(m), at(on), m.shape[1]) for m, on in members]
        groups = put(np.array(told, np.int64)) if told else None
        self.sent[: self.n_cells], self.sent[self.n_cells :] = pull, bump
        self.device.send(self.sent, self.by_cell)
        self._run(
            "descend", scores, 0, *self._rows(), scores, np.float64(threshold), self.by_cell,
            self._kept(side, np.int64), pointer(groups), np.int32(len(told)),
            np.float64(self.device.least), self.gradient, self.hessian, self.totals,
        )  # fmt: skip
        self.device.send_back(self.totals, self.host_totals, self.descended)

        def ended() -> tuple[float, float]:
            _ = members, groups  # which the device reads until then
            found = self.device.received(self.host_totals, self.descended).reshape(-1, 2)
            loss, total = found.sum(axis=0).tolist()
            return loss, total

        return ended

    def measure(self, scores: Any, threshold: float, pull: FloatArray) -> tuple[FloatArray, float]:
        """As :meth:`fairboost.kernel.loops.Loops.measure`."""
        return self.measuring(scores, threshold, pull)()

    def measuring(
        self, scores: Any, threshold: float, pull: FloatArray
    ) -> Callable[[], tuple[FloatArray, float]]:
        """Begin with it; what comes waits for the result."""
        scores, unit = self.scores(scores), 1.0 if self.weight is None else self.unit()
        self.device.clear(self.found)
        room = 8 * self.n_cells
        self._run(
            "measure", scores, room, *self._rows(), scores, np.float64(threshold),
            self._kept(pull, np.float64), np.float64(unit), np.int32(room <= ROOM), self.sums,
            self.losses,
        )  # fmt: skip
        self.device.send_back(self.found, self.host_found, self.measured)

        def ended() -> tuple[FloatArray, float]:
            host = self.device.received(self.host_found, self.measured)
            by_cell = host[: self.n_cells].view(np.int64) / unit
            return by_cell, float(host[self.n_cells :].sum())

        return ended

    def sum_and_descend(
        self,
        scores: Any,
        threshold: float,
        away: FloatArray,
        line: tuple[FloatArray, FloatArray],
        curve: FloatArray,
    ) -> FloatArray:
        """As :meth:`fairboost.kernel.loops.Loops.sum_and_descend`."""
        scores, units = self.scores(scores), np.array([self.unit(), *[self.unit(MOST)] * 2])
        n_sums = 3 * self.n_cells
        found = self.device.arrays.zeros(n_sums + 2 * self.grid, np.uint64)
        sums, totals = found[:n_sums], found[n_sums:].view(np.float64)
        room = 8 * n_sums
        self._run(
            "sum_and_descend", scores, room, *self._rows(), scores, np.float64(threshold),
            self.device.put(np.concatenate([away, *line, curve])), np.float64(units[0]),
            np.float64(units[1]), np.float64(MOST), np.int32(room <= ROOM),
            np.float64(self.device.least), sums, self.gradient, self.hessian, totals,
        )  # fmt: skip
        host = self.device.get(found)
        loss, self.total_of_gradient = (
            host[n_sums:].view(np.float64).reshape(-1, 2).sum(axis=0).tolist()
        )
        total: FloatArray = host[:n_sums].view(np.int64).reshape(-1, 3) / units
        return total if math.isfinite(loss) else total + math.nan

    def correct(self, scale: FloatArray, shift: FloatArray) -> None:
        """As :meth:`fairboost.kernel.loops.Loops.correct`."""
        by_cell = self.device.put(np.concatenate([scale, shift]))
        self._run("correct", None, 0, *self._rows(), by_cell, self.gradient)

    def add_up(self, values: Any) -> FloatArray:
        """Sums of numbers by cell, the same in every run."""
        most = float(abs(values).max()) if len(values) else 0.0
        if not math.isfinite(most) or not most:
            return np.full(self.n_cells, most)
        unit = 2.0 ** math.floor(61 - math.log2(len(values) * most))
        # Two's complement, since CuPy adds up whole numbers without a sign only.
        whole = self.device.arrays.rint(values * unit).astype(np.int64).view(np.uint64)
        sums = self.device.arrays.zeros(self.n_cells, np.uint64)
        self.device.arrays.add.at(sums, self.cells, whole)
        found: FloatArray = self.device.get(sums).view(np.int64) / unit
        return found

    def scores(self, scores: Any) -> Any:
        """Scores on the device, in the precision that they have, or in double precision."""
        there = isinstance(scores, self.device.arrays.ndarray) and scores.shape == (self.n,)
        if there and scores.dtype.char in "fd" and scores.flags.c_contiguous:
            return scores
        kind = scores.dtype if scores.dtype in (np.float32, np.float64) else np.float64
        found = self.device.arrays.ascontiguousarray(self.device.put(scores, kind))
        if found.shape != (self.n,):
            raise ValueError(f"scores must be of shape {(self.n,)}, found {found.shape}")
        return found

    def _kept(self, array: Any, dtype: Any) -> Any:
        """An array that comes again in every pass: it is copied to the device once."""
        known = self.uploaded.get(id(array))
        if known is None or known[0] is not array:
            known = array, self.device.arrays.ascontiguousarray(self.device.put(array, dtype))
            self.uploaded[id(array)] = known
        return known[1]

    def _rows(self) -> tuple[Any, ...]:
        return np.int64(self.n), np.int32(self.n_cells), self.cells, pointer(self.weight)

    def _run(self, name: str, scores: Any, room: int, *told: Any) -> None:
        grad = self.gradient.dtype.str[1:]
        score = grad if scores is None else scores.dtype.str[1:]
        kinds = self.kind, score, grad
        self.device.call(name, self.grid, told, kinds, room if room <= ROOM else 0)
