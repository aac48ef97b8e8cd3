"""Rows held out, drawn on a GPU: for ten million rows that takes the host a second."""

from __future__ import annotations

from typing import Any

import numpy as np

from fairboost._typing import IntArray
from fairboost.data.holdout import Shares
from fairboost.kernel.device import Device


def hold_out(device: Device, shares: Shares, codes: IntArray, rng: np.random.Generator) -> Any:
    """Draw the rows to hold out by the law of :meth:`Shares.mark`, which sorts on the host.

    Returns
    -------
    held : (n,) bool, on the device
        The rows.
    """
    arrays, n, n_cells = device.arrays, len(codes), len(shares.spared)
    draw = arrays.random.default_rng(int(rng.integers(2**63)))
    drawn = draw.integers(0, 2**32, n, dtype=np.uint32)
    on_device = device.put(codes)
    # Cells come in the order of their least draws: their own follows from names of groups.
    least = arrays.full(n_cells, np.uint32(2**32 - 1))
    arrays.minimum.at(least, on_device, drawn)
    by_cell = np.argsort(device.get(least), kind="stable")
    place = np.empty(n_cells, np.uint64)
    place[by_cell] = np.arange(n_cells)
    key = (device.put(place)[on_device] << np.uint64(32)) | drawn
    counts = device.get(arrays.bincount(on_device, minlength=n_cells))[by_cell]
    del drawn, on_device
    order = arrays.argsort(key)
    cell = (key[order] >> np.uint64(32)).astype(np.int64)
    del key
    rank = arrays.arange(n) - device.put(np.cumsum(counts) - counts)[cell]
    share: Any = shares.share
    if shares.others != shares.share:  # one row after the other, whatever their cells
        spared = device.put(shares.spared[by_cell])[cell]
        rank = arrays.where(spared, arrays.cumsum(spared) - 1, rank)
        share = arrays.where(spared, shares.others, shares.share)
    floor = arrays.floor
    held = arrays.zeros(n, bool)
    held[order] = floor((rank + 1) * share + 0.5) > floor(rank * share + 0.5)
    return held
