"""A GPU: its arrays, what is copied to it and back, and the compiled functions of ``loops.cu``.

Nothing here imports CuPy before a GPU is asked for. It comes with ``pip install fairboost[gpu]``.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import cache, cached_property
from pathlib import Path
from typing import Any

import numpy as np

from fairboost.exceptions import EngineOptionError

SOURCE = Path(__file__).with_name("loops.cu")
THREADS = 256  # as in loops.cu
ROWS_PER_BLOCK, MOST_BLOCKS = 4 * THREADS, 4096

ROOM = 47 * 1024
"""Bytes of shared memory that a call may ask for. A block may have 48 KiB on every GPU, of which
some are for the sums of warps."""

_C_TYPES = {"f4": "float", "f8": "double", "u1": "unsigned char", "u2": "unsigned short",
            "u4": "unsigned int"}  # fmt: skip


@cache
def import_cupy() -> Any:
    """CuPy, or an error that says what is missing."""
    try:
        import cupy
    except ImportError as error:
        raise EngineOptionError(
            f"a GPU as device= needs CuPy, which cannot be imported ({error}); if this machine "
            "has an NVIDIA GPU, run pip install 'fairboost[gpu]' (CUDA 13) or pip install "
            "cupy-cuda12x (CUDA 12), else leave device out to train on the CPU"
        ) from error
    try:
        count = cupy.cuda.runtime.getDeviceCount()
    except cupy.cuda.runtime.CUDARuntimeError as error:
        raise EngineOptionError(
            f"a GPU as device= needs an NVIDIA GPU, and CuPy found none that it can use "
            f"({error}); if there is one, its driver may be too old for this CuPy (for CUDA 12 "
            "there is cupy-cuda12x), else leave device out to train on the CPU"
        ) from error
    if not count:
        raise EngineOptionError(
            "a GPU as device= needs an NVIDIA GPU, and this machine has none; leave device out to "
            "train on the CPU"
        )
    return cupy


class Device:
    """A GPU.

    Parameters
    ----------
    ordinal : int, default=0
        Which of the machine's.
    arrays : module, optional
        The library of arrays; CuPy by default.
    least : float, default=0.0
        The least curvature of a row of weight 1 that the engine is to get.
    """

    def __init__(self, ordinal: int = 0, arrays: Any = None, least: float = 0.0) -> None:
        self.ordinal, self.arrays = ordinal, import_cupy() if arrays is None else arrays
        self.least = least
        self.name = f"cuda:{ordinal}"

    @contextmanager
    def used(self) -> Iterator[None]:
        """Make this the device on which arrays are made.

        Work goes to the default stream, whatever the caller has chosen: it and those of XGBoost
        wait for each other, as non-blocking ones do not.
        """
        with self.arrays.cuda.Device(self.ordinal), self.arrays.cuda.Stream.null:
            yield

    @cached_property
    def has_pool(self) -> bool:
        """Whether CUDA keeps a pool of memory for this device."""
        runtime = self.arrays.cuda.runtime
        return bool(
            runtime.deviceGetAttribute(runtime.cudaDevAttrMemoryPoolsSupported, self.ordinal)
        )

    def put(self, array: Any, dtype: Any = None) -> Any:
        """An array on the device; one that is there already stays."""
        return self.arrays.asarray(array, dtype)

    def get(self, array: Any) -> Any:
        """An array on the host."""
        return self.arrays.asnumpy(array)

    def event(self) -> Any:
        """A point that can be marked again and again."""
        return self.arrays.cuda.Event(disable_timing=True)

    def send_back(self, array: Any, pinned: Any, done: Any) -> None:
        """Begin to copy an array to pinned numbers of the host, and mark when that is done."""
        stream = self.arrays.cuda.get_current_stream()
        array.data.copy_to_host_async(pinned.ctypes.data, pinned.nbytes, stream)
        done.record(stream)

    def received(self, pinned: Any, done: Any) -> Any:
        """Pinned numbers as soon as they have come; later work is not waited for."""
        done.synchronize()
        return pinned.copy()

    def pinned(self, n: int) -> Any:
        """Numbers of the host that the device can copy by itself."""
        import cupyx

        return cupyx.empty_pinned(n, np.float64)

    def send(self, pinned: Any, array: Any) -> None:
        """Begin to copy pinned numbers to an array of the device."""
        stream = self.arrays.cuda.get_current_stream()
        array.data.copy_from_host_async(pinned.ctypes.data, pinned.nbytes, stream)

    def clear(self, array: Any) -> None:
        """Begin to fill an array of the device with zeros."""
        array.data.memset_async(0, array.nbytes, self.arrays.cuda.get_current_stream())

    def empty(self, n: int, dtype: Any) -> Any:
        """Room for numbers on the device."""
        return self.arrays.empty(n, dtype)

    def advance(self, leaves: Any, which: Any, sums: Any, start: Any, scores: Any) -> None:
        """Add what the trees of a round say of some rows to their sums; fill their scores.

        Parameters
        ----------
        leaves : (n,) float32
            What the trees say of all rows.
        which : (m,) int32, optional
            The rows, in the order of what follows; all of them without it.
        sums : (m,) float32
            Of all rounds; it is added to.
        start : float or (m,) float32
            What each row starts from.
        scores : (m,) float32
            What is filled.
        """
        n = len(scores)
        told = np.int64(n), pointer(which), leaves, sums, *_starts(start), scores
        self.call("advance", blocks_for(n), told)

    def fall(
        self,
        table: Any,
        missing: float,
        nodes: Any,
        which: Any,
        sums: Any,
        start: Any,
        scores: Any,
    ) -> None:
        """Send some rows down a tree; the rest is as in :meth:`advance`.

        Parameters
        ----------
        table : (n, n_features) float32 or float64
            All rows.
        missing : float
            The value that stands for a missing one, beside NaN.
        nodes : (n_nodes,) NODE
            The tree, on the host (:data:`fairboost.kernel.library.NODE`).
        which, sums, start, scores
            As in :meth:`advance`.
        """
        n, room = len(scores), 16 * len(nodes)
        packed = np.empty((len(nodes), 4), np.int32)
        packed[:, 0] = nodes["at"].view(np.int32)
        packed[:, 1] = np.where(nodes["missing_right"], ~nodes["feature"], nodes["feature"])
        packed[:, 2], packed[:, 3] = nodes["left"], nodes["right"]
        steps = [np.int64(step // table.itemsize) for step in table.strides]
        has_room = room <= ROOM
        told = (
            np.int64(n), pointer(which), table, *steps, np.float32(missing), self.put(packed),
            np.int32(len(nodes)), np.int32(has_room), sums, *_starts(start), scores,
        )  # fmt: skip
        # With few blocks, rows that are read at about the same time lie far apart.
        blocks = min(max(1, -(-n // THREADS)), 4 * MOST_BLOCKS)
        kinds = "u1", table.dtype.str[1:], "f4"
        self.call("fall", blocks, told, kinds, room if has_room else 0)

    def call(
        self,
        name: str,
        blocks: int,
        told: Sequence[Any],
        kinds: tuple[str, str, str] = ("u1", "f4", "f4"),
        room: int = 0,
    ) -> None:
        """Begin with a function of ``loops.cu``.

        Parameters
        ----------
        name : str
            The function.
        blocks : int
            Blocks of threads.
        told : sequence
            Its arguments.
        kinds : tuple of str
            Types of cells, of scores and of gradients.
        room : int
            Bytes of shared memory for each block.
        """
        function = _function(self.arrays, self.ordinal, name, *kinds)
        function((blocks,), (THREADS,), told, shared_mem=room)

    def let_go(self) -> None:
        """Give memory back that CuPy holds for later, so that the engine can have it."""
        self.arrays.get_default_memory_pool().free_all_blocks()

    def free_memory(self) -> int:
        """Bytes of the device that nobody uses, or that CuPy holds for later."""
        with self.used():
            free, _ = self.arrays.cuda.runtime.memGetInfo()
            return int(free) + int(self.arrays.get_default_memory_pool().free_bytes())

    def address(self, array: Any) -> int:
        """Where an array of the device begins."""
        return int(array.data.ptr)


@cache
def _function(arrays: Any, ordinal: int, name: str, cell: str, score: str, grad: str) -> Any:
    """A function of ``loops.cu`` for some types, compiled."""
    kinds = {
        "CELL": cell, "SCORE": score, "GRAD": grad,
        "REAL": "f4" if (score, grad) == ("f4", "f4") else "f8",
    }  # fmt: skip
    told = [f"-D{macro}={_C_TYPES[kind]}" for macro, kind in kinds.items()]
    module = arrays.RawModule(code=SOURCE.read_text(), options=("-std=c++17", *told))
    return module.get_function(name)


def _starts(start: Any) -> tuple[Any, Any]:
    """What rows start from, as a number and as an array: one of them is none."""
    alone = np.ndim(start) == 0
    return np.float32(start if alone else 0.0), pointer(None if alone else start)


def blocks_for(n: int) -> int:
    """Blocks for some rows: by their number alone, so that sums are the same on every device."""
    return min(max(1, -(-n // ROWS_PER_BLOCK)), MOST_BLOCKS)


def pointer(array: Any) -> Any:
    """An array as an argument of a kernel; None is a null pointer."""
    return np.uint64(0) if array is None else array
