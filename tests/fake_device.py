"""A GPU for machines without one: arrays of NumPy, and ``loops.cu`` compiled for the host.

What is tested with it is all but the hardware: the source of the kernels, how they are called, and
how training keeps scores beside XGBoost, which grows its trees on the CPU.
"""

from __future__ import annotations

import ctypes
import shutil
import subprocess
from contextlib import contextmanager, nullcontext
from functools import cache
from hashlib import sha256
from pathlib import Path
from tempfile import gettempdir
from types import SimpleNamespace

import numpy as np
import pytest

from fairboost.exceptions import EngineOptionError
from fairboost.kernel.device import Device

HEADER = Path(__file__).with_name("cuda_on_host.h")
COMPILER = shutil.which("g++")

needs_compiler = pytest.mark.skipif(COMPILER is None, reason="there is no g++ to compile loops.cu")

# Each kernel is called block by block: one function that sets the block, and calls it.
SHIM = """
extern "C" void call_{name}(int64_t grid, {types}) {{
    gridDim.x = grid;
    for (blockIdx.x = 0; blockIdx.x < grid; blockIdx.x++) {name}({names});
}}
"""


class HostModule:
    """What ``cupy.RawModule`` is on a GPU."""

    def __init__(self, code: str, options: tuple[str, ...]) -> None:
        # One thread, and all the shared memory that a kernel may ask for.
        source = code.replace("THREADS = 256, WARPS = THREADS / 32", "THREADS = 1, WARPS = 1")
        room = "alignas(16) static thread_local uint64 room[8192]"
        source = source.replace("extern __shared__ __align__(16) uint64 room[]", room)
        assert "WARPS = 1" in source and "room[8192]" in source
        shims = "".join(_shim(source, name) for name in _kernels(source))
        text = HEADER.read_text() + source + shims
        # The C library has functions of some of these names: ours are to be called.
        told = ["-O1", "-shared", "-fPIC", "-w", "-Wl,-Bsymbolic", *options]
        stamp = sha256("\0".join([text, *told]).encode()).hexdigest()[:20]
        made = Path(gettempdir()) / f"fairboost-cuda-{stamp}.so"
        if not made.exists():
            draft = made.with_suffix(f".{np.random.default_rng().integers(2**62)}.so")
            file = draft.with_suffix(".cpp")
            file.write_text(text)
            subprocess.run([str(COMPILER), *told, "-o", str(draft), str(file)], check=True)
            file.unlink()
            draft.rename(made)
        self.loaded = ctypes.CDLL(str(made))

    def get_function(self, name: str):
        function = getattr(self.loaded, f"call_{name}")
        function.restype = None

        def call(grid, block, told, shared_mem=0):
            function(ctypes.c_int64(grid[0]), *map(_as_argument, told))

        return call


def _kernels(source: str) -> list[str]:
    marked = source.split('extern "C" __global__ void ')[1:]
    return [part.split("(")[0] for part in marked]


def _shim(source: str, name: str) -> str:
    after = source.split(f'extern "C" __global__ void {name}(')[1]
    types = " ".join(after.split(")")[0].split())
    names = ", ".join(part.split()[-1].lstrip("*") for part in types.split(","))
    return SHIM.format(name=name, types=types, names=names)


def _as_argument(value):
    if isinstance(value, np.ndarray):
        assert value.flags.c_contiguous or value.ndim == 2  # of a table, kernels are told strides
        return ctypes.c_void_p(value.ctypes.data)
    kinds = {"int64": ctypes.c_int64, "int32": ctypes.c_int32, "float64": ctypes.c_double,
             "float32": ctypes.c_float, "uint64": ctypes.c_void_p}  # fmt: skip
    return kinds[value.dtype.name](value.item())


@contextmanager
def _selected(ordinal: int):
    yield


ARRAYS = SimpleNamespace(
    **{name: getattr(np, name) for name in ("asarray", "ascontiguousarray", "empty", "zeros")},
    **{name: getattr(np, name) for name in ("rint", "add", "concatenate", "full", "argsort")},
    **{name: getattr(np, name) for name in ("minimum", "bincount", "arange", "where", "cumsum")},
    floor=np.floor,
    isinf=np.isinf,
    random=np.random,
    asnumpy=np.asarray,
    RawModule=HostModule,
    ndarray=np.ndarray,
    cuda=SimpleNamespace(Device=_selected, Stream=SimpleNamespace(null=nullcontext())),
)


class FakeDevice(Device):
    """A GPU whose memory is that of the host."""

    def __init__(self) -> None:
        super().__init__(0, _arrays())
        self.name = "cpu"  # to XGBoost

    has_pool = False

    def free_memory(self) -> int:
        return 2**34

    def event(self) -> None:
        return None

    def pinned(self, n):
        return np.empty(n)

    def send(self, pinned, array) -> None:
        array[:] = pinned

    def send_back(self, array, pinned, done) -> None:
        pinned.view(array.dtype)[:] = array

    def received(self, pinned, done):
        return pinned.copy()

    def clear(self, array) -> None:
        array[:] = 0

    def let_go(self) -> None:
        pass

    def address(self, array) -> int:
        return array.ctypes.data


class _Arrays:
    """A module, to tell it from others."""

    def __getattr__(self, name):
        return getattr(ARRAYS, name)


@cache
def _arrays() -> _Arrays:
    return _Arrays()


@cache
def real_device() -> Device | None:
    """The machine's own GPU, if there is one."""
    try:
        return Device()
    except EngineOptionError:
        return None


def fake_device() -> Device:
    return FakeDevice()


needs_gpu = pytest.mark.skipif(real_device() is None, reason="there is no GPU, or no CuPy")

BOTH = [
    pytest.param(fake_device, marks=needs_compiler, id="on the host"),
    pytest.param(real_device, marks=[needs_gpu, pytest.mark.gpu], id="on a GPU"),
]
"""The fake device and the real one, where there is one."""
