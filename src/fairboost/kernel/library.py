"""The compiled library (``loops.c``), as ctypes calls it.

The library is made when fairboost is installed (``hatch_build.py``). ctypes lets the interpreter's
lock go. The library knows nothing of Python: the structures below are all they share, and they are
compared field by field when the library is loaded.
"""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from fairboost.kernel.threads import Threads

PATH = Path(__file__).with_name(
    "libloops" + {"win32": ".dll", "darwin": ".dylib"}.get(sys.platform, ".so")
)
TASKS = (  # in the order of loops.c
    *("descend", "measure", "sum_and_descend", "correct"),
    *("descend_numbers", "measure_numbers", "descend_classes", "measure_classes"),
)
NARROW, WIDE, FUSED = range(3)  # as in loops.c
ROOM = 1280  # as in loops_classes.h
_ABI = 4  # as in loops.c
_OF_SEVERAL_SIZES = ("cells", "scores", "gradient")
_LONG, _REAL, _ARRAY = ctypes.c_int64, ctypes.c_double, ctypes.c_void_p
_REMEDY = (
    "install fairboost again: pip install --force-reinstall --no-deps fairboost, or "
    "pip install --editable . in a checkout; FAIRBOOST_KERNEL=numpy does without it"
)


class Soft(ctypes.Structure):
    """Groups known by their probabilities, as ``loops.c`` has them."""

    _fields_ = (("memberships", _ARRAY), ("on_groups", _ARRAY), ("n_groups", _LONG))


class Pass(ctypes.Structure):
    """What is to be done with which arrays, as ``loops.c`` has it."""

    _fields_ = (
        *(("task", _LONG), ("n", _LONG), ("block", _LONG), ("next", _LONG), ("takers", _LONG)),
        *(("wide", _LONG), ("n_cells", _LONG), ("cells", _ARRAY), ("cells_size", _LONG)),
        *(("scores", _ARRAY), ("scores_size", _LONG), ("weight", _ARRAY), ("threshold", _REAL)),
        *(("single", _LONG), ("pull", _ARRAY), ("bump", _ARRAY), ("side", _ARRAY)),
        *(("soft", ctypes.POINTER(Soft)), ("n_soft", _LONG)),
        *(("away", _ARRAY), ("scale", _ARRAY), ("shift", _ARRAY), ("curve", _ARRAY)),
        *(("gradient", _ARRAY), ("hessian", _ARRAY), ("gradient_size", _LONG)),
        *(("sums", _ARRAY), ("loss", _ARRAY)),
        *(("kind", _LONG), ("shape", _REAL), ("stepped", _REAL), ("closest", _REAL)),
        *(("of_deviance", _REAL), ("most_up", _REAL)),
        *(("target", _ARRAY), ("base", _ARRAY), ("offset", _ARRAY)),
        *(("rate", _ARRAY), ("loss_weight", _ARRAY), ("n_levels", _LONG), ("levels", _ARRAY)),
        *(("knots", _ARRAY), ("narrow", _ARRAY), ("spread", _REAL)),
        *(("width", _LONG), ("at_prediction", _LONG), ("by_interval", _LONG)),
        *(("at_loss", _LONG), ("at_steps", _LONG), ("table", _ARRAY)),
        *(("reads", _LONG), ("n_sums", _LONG), ("n_classes", _LONG)),
        *(("scores_by_class", _LONG), ("gradient_by_class", _LONG)),
        *(("label", _ARRAY), ("factor", _ARRAY), ("costs", _ARRAY)),
        *(("curvature", _REAL), ("sharpness", _REAL), ("cost_sharpness", _REAL)),
    )


NODE = np.dtype(
    [("at", "f4"), ("feature", "i4"), ("left", "i4"), ("right", "i4"), ("missing_right", "i4")],
    align=True,
)
"""A node of a tree: rows below ``at`` go left, those without a value right if ``missing_right`` is
1. Of a leaf, ``at`` is its value, and it leads to itself."""


class Fall(ctypes.Structure):
    """Rows and the tree that they are sent down, as ``loops.c`` has them."""

    _fields_ = (
        *(("n", _LONG), ("block", _LONG), ("next", _LONG), ("takers", _LONG)),
        *(("n_features", _LONG), ("depth", _LONG)),
        *(("table", _ARRAY), ("nodes", _ARRAY), ("scores", _ARRAY)),
    )


class _Field(ctypes.Structure):
    """Where a field lies in the library."""

    _fields_ = (("name", ctypes.c_char_p), ("offset", _LONG), ("size", _LONG))


class Library:
    """The loops in C. Nothing is checked here: :mod:`fairboost.kernel.loops` has done so.

    Parameters
    ----------
    path : Path
        The library.
    fused : bool, default=True
        Multiply and add in one step on processors that can. Bits of results are others then.
    """

    def __init__(self, path: Path, fused: bool = True) -> None:
        try:
            self.loaded = ctypes.CDLL(str(path))
        except OSError as error:
            message = f"fairboost's compiled part, {path}, cannot be loaded ({error}); {_REMEDY}"
            raise ImportError(message) from error
        differs = _difference(self.loaded)
        if differs:
            message = f"fairboost's compiled part, {path}, is of another version ({differs})"
            raise ImportError(f"{message}; {_REMEDY}")
        for name in ("fairboost_pass", "fairboost_fall"):
            getattr(self.loaded, name).restype = None
        self.loaded.fairboost_has_wide.restype = _LONG
        self.wide = (FUSED if fused else WIDE) if self.loaded.fairboost_has_wide() else NARROW

    def prepare(self, arrays: Mapping[str, Any]) -> Pass:
        """What is the same in every pass over some rows; to look up addresses takes time."""
        call = Pass(wide=self.wide)
        _fill(call, arrays)
        return call

    def run(self, task: str, prepared: Pass, given: dict[str, Any], threads: Threads) -> int:
        """Do one of TASKS; return the number of threads that took part."""
        call = Pass.from_buffer_copy(prepared)
        if pairs := given.pop("soft", ()):
            groups = (Soft(m.ctypes.data, o.ctypes.data, m.shape[1]) for m, o in pairs)
            given |= {"soft": (Soft * len(pairs))(*groups), "n_soft": len(pairs)}
        call.task = TASKS.index(task)
        _fill(call, given)
        threads.run(self.loaded.fairboost_pass, call)
        return int(call.takers)

    def fall(self, given: Mapping[str, Any], threads: Threads) -> int:
        """Send rows down a tree; return the number of threads that took part."""
        call = Fall()
        _fill(call, given)
        threads.run(self.loaded.fairboost_fall, call)
        return int(call.takers)


def _fill(call: ctypes.Structure, given: Mapping[str, Any]) -> None:
    for name, value in given.items():
        if isinstance(value, np.ndarray):
            setattr(call, name, value.ctypes.data)
            if name in _OF_SEVERAL_SIZES and isinstance(call, Pass):
                setattr(call, f"{name}_size", value.itemsize)
        else:
            setattr(call, name, value)


def _difference(loaded: ctypes.CDLL) -> str:
    """The first thing in which the library and this file differ, or nothing."""
    try:
        abi, fields = loaded.fairboost_abi, loaded.fairboost_fields
    except AttributeError:
        return "it does not tell which"
    abi.restype, fields.restype = _LONG, ctypes.POINTER(_Field)
    if abi() != _ABI:
        return f"number {abi()}, expected {_ABI}"
    there, k = {}, 0
    while (told := fields()[k]).name:
        there[told.name.decode()], k = (told.offset, told.size), k + 1
    here = {"Node": (0, NODE.itemsize)}
    for name, at in (NODE.fields or {}).items():
        here[f"Node.{name}"] = (at[1], at[0].itemsize)
    for structure in (Soft, Pass, Fall):
        here[structure.__name__] = (0, ctypes.sizeof(structure))
        for name, *_ in structure._fields_:
            field = getattr(structure, name)
            here[f"{structure.__name__}.{name}"] = (field.offset, field.size)
    wrong = sorted(
        (name for name in here.keys() | there.keys() if here.get(name) != there.get(name)),
        key=lambda name: ("." not in name, here.get(name, (-1,))[0]),
    )
    return f"{wrong[0]} lies elsewhere" if wrong else ""
