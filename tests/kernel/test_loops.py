"""What compiled code is told has been checked, and who does the work can be chosen."""

import ctypes
import re
import shutil
import subprocess
import sys
import warnings
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import hatch_build
from fairboost.kernel import library, loops, numpy_loops
from fairboost.kernel.library import NODE
from fairboost.kernel.loops import Loops, fall
from fairboost.kernel.threads import Threads
from tests.kernel.trees import trees

N, CELLS, GROUPS = 10, 3, 2


def arrays():
    """Arguments of every call, all as they should be."""
    rng = np.random.default_rng(0)
    return {
        "cells": rng.integers(0, CELLS, N).astype("u1"),
        "n_cells": CELLS,
        "weight": rng.random(N).astype("f4"),
        "gradient": np.zeros(N, "f4"),
        "hessian": np.zeros(N, "f4"),
        "block": 4,
        "scores": rng.normal(size=N),
        "side": np.array([0, 1, -1]),
        "memberships": rng.random((N, GROUPS)).astype("f4"),
        "on_groups": rng.normal(size=(2, GROUPS)),
        **{k: rng.normal(size=CELLS) for k in ("pull", "bump", "away", "scale", "shift", "curve")},
    }


CALLS = {
    "descend": ("scores", "pull", "bump", "side", "memberships", "on_groups"),
    "measure": ("scores", "pull"),
    "sum_and_descend": ("scores", "away", "scale", "shift", "curve"),
    "correct": ("scale", "shift"),
}


def make(a):
    names = ("cells", "n_cells", "weight", "gradient", "hessian", "block")
    return Loops(*(a[name] for name in names), Threads())


def call(made, task, a):
    if task == "descend":
        soft = [(a["memberships"], a["on_groups"])]
        return made.descend(a["scores"], 0.0, a["pull"], a["bump"], a["side"], soft)
    if task == "measure":
        return made.measure(a["scores"], 0.0, a["pull"])
    if task == "sum_and_descend":
        line = a["scale"], a["shift"]
        return made.sum_and_descend(a["scores"], 0.0, a["away"], line, a["curve"])
    return made.correct(a["scale"], a["shift"])


def misaligned(array):
    """The same numbers, an odd number of bytes off."""
    bytes_ = np.zeros(array.nbytes + 1, "u1")[1:]
    bytes_[:] = np.frombuffer(array.tobytes(), "u1")
    return bytes_.view(array.dtype).reshape(array.shape)


@pytest.fixture
def never(monkeypatch):
    """Nothing wrong may come as far as the loops."""

    class Never:
        def prepare(self, arrays):
            return arrays

        def run(self, *_):
            raise AssertionError("what is wrong was handed on")

        fall = run

    monkeypatch.setattr(loops, "kernel", Never)


OTHER_SHAPES = {
    "too short": lambda array: array[:-1].copy(),
    "too long": lambda array: np.concatenate([array, array[:1]]),
    "of another rank": lambda array: array[..., None].copy(),
}
SHAPES = [(t, name, how) for t in CALLS for name in CALLS[t] for how in OTHER_SHAPES]


@pytest.mark.usefixtures("never")
@pytest.mark.parametrize(("task", "name", "how"), SHAPES)
def test_a_table_of_another_shape_is_refused(task, name, how):
    a = arrays()
    made = make(a)
    a[name] = OTHER_SHAPES[how](a[name])
    with pytest.raises(ValueError, match=r"must be .* of shape \(.*\), found .* of shape"):
        call(made, task, a)


@pytest.mark.usefixtures("never")
@pytest.mark.parametrize(
    ("task", "name"), [(t, k) for t in CALLS for k in CALLS[t] if k != "scores"]
)  # fmt: skip
def test_a_table_of_another_type_is_refused(task, name):
    a = arrays()
    made = make(a)
    a[name] = a[name].astype("f2")
    with pytest.raises(ValueError, match=f"{name} must be .*, found float16"):
        call(made, task, a)
    a[name] = a[name].astype(arrays()[name].dtype.newbyteorder())  # the other end first
    with pytest.raises(ValueError, match=f"{name} must be "):
        call(made, task, a)


@pytest.mark.usefixtures("never")
@pytest.mark.parametrize("how", ["spread", "misaligned"])
@pytest.mark.parametrize(
    ("task", "name"),
    [(t, k) for t in CALLS for k in CALLS[t] if k not in ("scores", "memberships", "on_groups")],
)
def test_a_table_that_is_not_in_one_piece_is_refused(task, name, how):
    a = arrays()
    made = make(a)
    a[name] = np.repeat(a[name], 2)[::2] if how == "spread" else misaligned(a[name])
    with pytest.raises(ValueError, match=f"{name} must be contiguous and aligned"):
        call(made, task, a)


@pytest.mark.usefixtures("registers")
def test_what_may_lie_anywhere_is_put_in_order():
    a = arrays()
    straight = call(make(a), "descend", a)
    gradient = a["gradient"].copy()
    for name in ("scores", "memberships", "on_groups", "cells", "weight"):
        a[name] = np.repeat(a[name], 2, axis=-1)[..., ::2]
        assert not a[name].flags.c_contiguous
    assert call(make(a), "descend", a) == straight
    np.testing.assert_array_equal(a["gradient"], gradient)
    a["scores"] = misaligned(a["scores"])
    with pytest.raises(ValueError, match="scores must be contiguous and aligned"):
        call(make(a), "measure", a)


@pytest.mark.usefixtures("never")
@pytest.mark.parametrize("side", [[0, 1, 2], [-2, 0, 1], [0, 1, 2**40]])
def test_sides_are_labels_or_none(side):
    a = {**arrays(), "side": np.array(side)}
    with pytest.raises(IndexError, match="side must be -1, 0 or 1, found"):
        call(make(a), "descend", a)


@pytest.mark.usefixtures("never")
@pytest.mark.parametrize(
    ("wrong", "error", "match"),
    [
        ({"block": 0}, ValueError, "block must have rows, found 0"),
        ({"block": -1}, ValueError, "block must have rows, found -1"),
        ({"n_cells": 2}, IndexError, "from 0 to 1, found from 0 to 2"),
        ({"cells": np.full(N, -1, "i1")}, IndexError, "from 0 to 2, found from -1"),
        ({"cells": np.zeros(N, "i8")}, ValueError, "cells must be uint8 or .*, found int64"),
        ({"cells": np.zeros(N, "f4")}, ValueError, "found float32"),
        ({"cells": np.zeros(N, bool)}, ValueError, "found bool"),
        ({"cells": np.zeros((N, 1), "u1")}, ValueError, r"of shape \(10, 1\)"),
        ({"weight": np.ones(N - 1, "f4")}, ValueError, "weight must be float32"),
        ({"weight": np.ones(N)}, ValueError, "weight must be float32 .* found float64"),
        ({"gradient": np.ones(N - 1, "f4")}, ValueError, "gradient must be float32 or float64"),
        ({"gradient": np.ones(N, "f2")}, ValueError, "found float16"),
        ({"hessian": np.ones(N + 1, "f4")}, ValueError, "hessian must be float32"),
        ({"hessian": np.ones(N, "f8")}, ValueError, "hessian must be float32 .* found float64"),
        ({"gradient": np.ones(2 * N, "f4")[::2]}, ValueError, "gradient must be contiguous"),
        ({"hessian": np.ones(2 * N, "f4")[::2]}, ValueError, "hessian must be contiguous"),
        ({"gradient": misaligned(np.ones(N, "f4"))}, ValueError, "aligned"),
        ({"gradient": np.broadcast_to(np.float32(0), 10)}, ValueError, "must be contiguous"),
    ],
)
def test_rows_and_what_is_filled_are_checked(wrong, error, match):
    with pytest.raises(error, match=match):
        make({**arrays(), **wrong})


@pytest.mark.parametrize("name", ["gradient", "hessian"])
def test_what_cannot_be_written_is_refused(name):
    a = arrays()
    a[name].flags.writeable = False
    with pytest.raises(ValueError, match=f"{name} must be writeable"):
        make(a)


def test_checks_stay_in_optimised_python():
    """``python -O`` leaves asserts out."""
    code = (
        "from tests.kernel.test_loops import *\n"
        "a = arrays(); made = make(a); a['pull'] = a['pull'][:1].copy()\n"
        "try:\n    call(made, 'measure', a)\n"
        "except ValueError as error:\n    print(__debug__, error)\n"
    )
    done = subprocess.run([sys.executable, "-O", "-c", code], capture_output=True, text=True)
    assert done.stdout.startswith("False pull must be float64 of shape (3,)"), done.stderr


# Trees


@pytest.mark.usefixtures("registers")
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    data=st.data(),
    n=st.integers(0, 300),
    n_features=st.integers(1, 5),
    n_threads=st.integers(1, 3),
    seed=st.integers(0, 2**32 - 1),
)
def test_rows_fall_to_their_leaves(data, n, n_features, n_threads, seed):
    rng, nodes = np.random.default_rng(seed), data.draw(trees(n_features))
    table = rng.normal(size=(n, n_features)).round(1).astype(np.float32)
    table[rng.random(table.shape) < 0.2] = np.nan
    scores = rng.normal(size=n).astype(np.float32)
    expected = scores.copy()
    for i, row in enumerate(table):
        node = 0
        while nodes[node]["left"] != node:
            at = nodes[node]
            x = row[at["feature"]]
            right = at["missing_right"] if np.isnan(x) else not x < at["at"]
            node = at["right"] if right else at["left"]
        expected[i] += nodes[node]["at"]
    threads = Threads(n_threads)
    fall(table, nodes, scores, 64, threads)
    threads.close()
    np.testing.assert_array_equal(scores, expected)


@pytest.mark.usefixtures("never")
@pytest.mark.parametrize(
    ("change", "error", "match"),
    [
        (lambda t, n, s: (t, n, s[1:]), ValueError, r"scores must be float32 of shape \(4,\)"),
        (lambda t, n, s: (t.astype(float), n, s), ValueError, "table must be float32"),
        (lambda t, n, s: (t[:, 0].copy(), n, s), ValueError, "table must be float32"),
        (lambda t, n, s: (t, n, s.astype(float)), ValueError, "scores must be float32"),
        (lambda t, n, s: (t, n, np.repeat(s, 2)[::2]), ValueError, "scores must be contiguous"),
        (lambda t, n, s: (t, n, np.frombuffer(s.tobytes(), "f4")), ValueError, "writeable"),
        (lambda t, n, s: (t, n[:0], s), ValueError, "nodes must be"),
        (lambda t, n, s: (t, misaligned(n), s), ValueError, "nodes must be contiguous and al"),
        (lambda t, n, s: (t.T.copy().T, n, s), ValueError, "contiguous"),
        (lambda t, n, s: (t, n["left"].copy(), s), ValueError, "nodes must be"),
        (lambda t, n, s: (t[:, :1].copy(), n, s), IndexError, "features, that there are not"),
        (lambda t, n, s: (t, _with(n, left=3), s), IndexError, "lead to others"),
        (lambda t, n, s: (t, _with(n, right=-1), s), IndexError, "lead to others"),
        (lambda t, n, s: (t, _with(n, feature=-1), s), IndexError, "read features"),
        (lambda t, n, s: (t, _with(n, 1, left=0, right=0), s), ValueError, "are no tree"),
        (lambda t, n, s: (t, _with(n, 1, right=2), s), ValueError, "to itself on both sides"),
        (lambda t, n, s: (t, _with(n, missing_right=2), s), ValueError, "missing_right be 0 or 1"),
    ],
)
def test_what_would_read_beyond_its_arrays_is_refused(change, error, match):
    table, scores = np.zeros((4, 2), np.float32), np.zeros(4, np.float32)
    nodes = np.array([(0.5, 1, 1, 2, 0), (1, 0, 1, 1, 0), (2, 0, 2, 2, 0)], NODE)
    with pytest.raises(error, match=match):
        fall(*change(table, nodes, scores), 64, Threads())


@pytest.mark.usefixtures("never")
def test_many_ways_to_the_same_leaf_are_no_tree():
    """Told at once, though there are 2^40 ways."""
    nodes = np.array([(0, 0, k + 1, k + 1, 0) for k in range(40)] + [(1, 0, 40, 40, 0)], NODE)
    with pytest.raises(ValueError, match="are no tree"):
        fall(np.zeros((4, 1), "f4"), nodes, np.zeros(4, "f4"), 64, Threads())
    with pytest.raises(ValueError, match="block must have rows, found 0"):
        fall(np.zeros((4, 1), "f4"), nodes[-1:], np.zeros(4, "f4"), 0, Threads())


def _with(nodes, which=0, **fields):
    changed = nodes.copy()
    for name, value in fields.items():
        changed[name][which] = value
    return changed


# Who does the work


@pytest.fixture
def anew(monkeypatch):
    """Choose as a new process would, and forget it afterwards."""
    for name in ("FAIRBOOST_KERNEL", "FAIRBOOST_LIBRARY"):
        monkeypatch.delenv(name, raising=False)
    loops._kernel.cache_clear()
    yield monkeypatch
    loops._kernel.cache_clear()


@pytest.mark.usefixtures("compiled")
def test_the_library_is_used_where_there_is_one(anew):
    assert isinstance(loops.kernel(), library.Library)
    for name in ("c", "portable"):
        anew.setenv("FAIRBOOST_KERNEL", name)
        assert isinstance(loops.kernel(), library.Library)


def test_numpy_serves_where_the_library_is_missing_and_says_so_once(anew, tmp_path):
    anew.setattr(library, "PATH", tmp_path / library.PATH.name)
    with pytest.warns(
        RuntimeWarning, match=r"libloops.* is missing, so NumPy does its work.*C com"
    ):
        assert loops.kernel() is numpy_loops
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert loops.kernel() is numpy_loops
        a = arrays()
        call(make(a), "descend", a)
    for name in ("c", "portable"):
        anew.setenv("FAIRBOOST_KERNEL", name)
        with pytest.raises(ImportError, match=r"libloops.* cannot be loaded .*install fairboost"):
            loops.kernel()


def test_numpy_is_silent_where_it_is_asked_for(anew, caplog):
    anew.setenv("FAIRBOOST_KERNEL", "numpy")
    with warnings.catch_warnings(), caplog.at_level("INFO"):
        warnings.simplefilter("error")
        assert loops.kernel() is numpy_loops
    assert "in NumPy, as asked for" in caplog.text


def test_a_choice_that_there_is_not_is_told(anew):
    anew.setenv("FAIRBOOST_KERNEL", "C++")
    with pytest.raises(ValueError, match=r"FAIRBOOST_KERNEL='C.*' is unknown; expected 'c', 'por"):
        loops.kernel()


def test_another_library_can_be_named(anew, compiled, tmp_path):
    other = str(shutil.copy(compiled.loaded._name, tmp_path / "other.so"))
    anew.setenv("FAIRBOOST_LIBRARY", other)
    assert loops.kernel().loaded._name == other
    anew.setenv("FAIRBOOST_LIBRARY", str(tmp_path / "missing.so"))  # named: not replaced
    with pytest.raises(ImportError, match=r"missing.so, cannot be loaded"):
        loops.kernel()


def test_a_library_that_is_not_whole_is_not_replaced_quietly(anew, tmp_path):
    broken = tmp_path / library.PATH.name
    broken.write_bytes(b"half")
    anew.setattr(library, "PATH", broken)
    with pytest.raises(ImportError, match=r"cannot be loaded .*install fairboost again"):
        loops.kernel()


def test_a_library_of_another_version_is_told_by_its_number(compiled, monkeypatch):
    monkeypatch.setattr(library, "_ABI", library._ABI + 1)
    with pytest.raises(ImportError, match=r"of another version \(number \d+, expected \d+\); in"):
        library.Library(compiled.loaded._name)


@pytest.mark.skipif(sys.platform != "linux", reason="names a library of Linux")
def test_a_library_that_is_not_ours_is_told():
    with pytest.raises(ImportError, match=r"of another version \(it does not tell which\)"):
        library.Library("libc.so.6")


def swapped(fields):
    fields = list(fields)
    k = [name for name, _ in fields].index("scale")
    fields[k], fields[k - 1] = fields[k - 1], fields[k]
    return fields


@pytest.mark.parametrize(
    ("structure", "change", "told"),
    [
        ("Pass", swapped, "Pass.scale lies elsewhere"),
        ("Pass", lambda f: [("first", ctypes.c_int64), *f], "Pass.first lies elsewhere"),
        ("Pass", lambda f: [*f, ("last", ctypes.c_int64)], "Pass.last lies elsewhere"),
        ("Pass", lambda f: f[:-1], "Pass.cost_sharpness lies elsewhere"),
        ("Soft", lambda f: [*f[:2], ("n_groups", ctypes.c_int32)], "Soft.n_groups lies elsewh"),
        ("Fall", lambda f: [f[1], f[0], *f[2:]], "Fall.(n|block) lies elsewhere"),
    ],
)
def test_a_field_that_lies_elsewhere_is_named(compiled, monkeypatch, structure, change, told):
    fields = change(getattr(library, structure)._fields_)
    changed = type(structure, (ctypes.Structure,), {"_fields_": fields})
    monkeypatch.setattr(library, structure, changed)
    with pytest.raises(ImportError, match=rf"of another version \({told}"):
        library.Library(compiled.loaded._name)


def test_a_node_of_another_layout_is_named(compiled, monkeypatch):
    names = ("feature", "at", "left", "right", "missing_right")
    node = np.dtype([(name, "f4" if name == "at" else "i4") for name in names])
    monkeypatch.setattr(library, "NODE", node)
    with pytest.raises(ImportError, match=r"of another version \(Node\.(at|feature) lies els"):
        library.Library(compiled.loaded._name)


def test_every_switch_is_on_the_page():
    root = Path(hatch_build.__file__).parent
    files = [root / "hatch_build.py", *(root / "src").rglob("*.py")]
    used = set(re.findall(r"FAIRBOOST_[A-Z_]+", " ".join(path.read_text() for path in files)))
    told = (root / "docs" / "compiled.md").read_text().partition("## Environment variables")[2]
    assert used == set(re.findall(r"FAIRBOOST_[A-Z_]+", told))


# The same bits on every processor


@pytest.mark.parametrize("score_type", ["f4", "f8"])
def test_portable_loops_give_the_same_bits_with_and_without_wide_registers(
    compiled, monkeypatch, score_type
):
    if not compiled.loaded.fairboost_has_wide():
        pytest.skip("this processor has no wide registers")
    rng, n, cells_of = np.random.default_rng(0), 5_000, 6
    cells, scores = rng.integers(0, cells_of, n).astype("u1"), rng.normal(0, 3, n)
    weight, tables = rng.random(n).astype("f4"), rng.normal(size=(4, cells_of))
    soft = [(rng.random((n, 3)).astype("f4"), rng.normal(size=(2, 3)))]
    side = np.arange(cells_of) % 3 - 1

    def bits(wide):
        monkeypatch.setattr(compiled, "wide", wide)
        out = np.zeros(n, score_type), np.zeros(n, score_type)
        made = Loops(cells, cells_of, weight, *out, 512, Threads())
        f = scores.astype(score_type)
        found = [made.descend(f, 0.3, *tables[:2], side, soft), *map(bytes, out)]
        positive, loss = made.measure(f, 0.3, tables[0])
        found += [positive.tobytes(), loss]
        found.append(
            made.sum_and_descend(f, 0.3, tables[0], tuple(tables[1:3]), tables[3]).tobytes()
        )
        found += map(bytes, out)
        made.correct(*tables[:2])
        return [*found, *map(bytes, out)]

    narrow = bits(library.NARROW)
    assert bits(library.WIDE) == narrow
    if compiled.loaded._name == str(library.PATH):  # another may have other options
        # A product and a sum in one step are rounded once: the default has other bits.
        assert bits(library.FUSED) != narrow


def test_portable_asks_for_what_does_not_fuse(compiled):
    path = compiled.loaded._name
    wide = compiled.loaded.fairboost_has_wide()
    assert library.Library(path, fused=False).wide == (library.WIDE if wide else library.NARROW)
    assert library.Library(path).wide == (library.FUSED if wide else library.NARROW)


def test_nothing_fuses_in_portable_loops(compiled):
    """By the instructions themselves."""
    if not shutil.which("objdump") or not compiled.loaded.fairboost_has_wide():
        pytest.skip("no objdump here, or another processor")
    told = subprocess.run(
        ["objdump", "-d", "--no-show-raw-insn", compiled.loaded._name],
        capture_output=True, text=True, check=True,
    ).stdout  # fmt: skip
    functions = {part.split(">:")[0].split("<")[-1]: part for part in told.split("\n\n")}
    if "fused" not in functions or compiled.loaded._name != str(library.PATH):
        pytest.skip("names of functions have been stripped, or it has other options")
    assert [name for name, code in functions.items() if "vfm" in code] == ["fused"]
