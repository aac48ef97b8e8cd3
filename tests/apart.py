"""A GPU for machines without one whose arrays do not mix with those of the host.

Arrays of CuPy refuse to become arrays of NumPy, and to be computed with them, unless they are
told to. Those of ``tests/fake_device.py`` are NumPy's own, which hides such mistakes; those of
:class:`Apart` behave as CuPy's do. XGBoost gets their numbers as they are.
"""

from __future__ import annotations

from contextlib import nullcontext
from types import SimpleNamespace

import numpy as np
import pytest
import xgboost
from numpy.lib.mixins import NDArrayOperatorsMixin

from fairboost.engines.xgboost import batches
from fairboost.engines.xgboost import device as device_module
from tests import fake_device
from tests.fake_device import FakeDevice, HostModule

PLAIN = {"dtype", "shape", "ndim", "size", "nbytes", "flags", "strides", "itemsize"}
FROM_HOST = {"asarray"}  # takes arrays of the host, if it is told like=
OF_SIZE = {"shape", "ndim", "size"}


def is_of_host(value):
    return isinstance(value, np.ndarray) and value.ndim > 0


def opened(value, what, refuse=True):
    """The numbers of arrays; arrays of the host among them are refused."""
    if isinstance(value, Apart):
        return value.values
    if isinstance(value, list | tuple):
        return type(value)(opened(item, what, refuse) for item in value)
    if refuse and is_of_host(value):
        raise TypeError(f"numpy.ndarray is unsupported in {what}")
    return value


def closed(found):
    if isinstance(found, list | tuple):
        return type(found)(closed(item) for item in found)
    return Apart(found) if isinstance(found, np.ndarray | np.generic) else found


class Apart(NDArrayOperatorsMixin):
    """An array that is not NumPy's."""

    def __init__(self, values):
        self.values = np.asarray(values)

    def __array__(self, *_, **__):
        raise TypeError("implicit conversion to a NumPy array is not allowed")

    def __reduce__(self):
        raise TypeError("an array of the device is kept with the model (cupy)")

    def __array_ufunc__(self, ufunc, method, *inputs, out=None, **options):
        assert method == "__call__", f"CuPy has no {ufunc.__name__}.{method} of NumPy"
        if out is not None:
            options["out"] = opened(out, ufunc.__name__)
        return closed(ufunc(*opened(inputs, ufunc.__name__), **options))

    def __array_function__(self, function, types, args, options):
        name = function.__name__
        told = opened(args, name, refuse=name not in FROM_HOST)
        if name == "bincount" and not len(told[0]):
            raise ValueError("zero-size array to reduction operation")
        found = function(*told, **{k: opened(v, name) for k, v in options.items()})
        return found if name in OF_SIZE else closed(found)

    def __getattr__(self, name):
        if name.startswith("__") or name == "to_cupy":
            raise AttributeError(name)
        found = getattr(self.values, name)
        if name in PLAIN:
            return found
        return lambda *args, **told: closed(found(*opened(args, name), **told))

    def __getitem__(self, key):
        return Apart(self.values[opened(key, "an index", refuse=False)])  # NumPy's are copied

    def __setitem__(self, key, value):
        self.values[opened(key, "an index", refuse=False)] = opened(value, "an assignment")

    def __len__(self):
        return len(self.values)

    def __int__(self):
        return int(self.values)

    def __float__(self):
        return float(self.values)

    def __bool__(self):
        return bool(self.values)

    def get(self):
        return self.values.copy()

    @property
    def data(self):
        return SimpleNamespace(ptr=self.values.ctypes.data)

    @property
    def __cuda_array_interface__(self):
        return self.values.__array_interface__


class ByIndex:
    """A function of two arrays, and its ``at``."""

    def __init__(self, function):
        self.function = function

    def at(self, found, index, values):
        self.function.at(*opened((found, index, values), "at"))


class Draws:
    def __init__(self, seed):
        self.draws = np.random.default_rng(seed)

    def integers(self, *args, **told):
        return Apart(self.draws.integers(*args, **told))


def put(values, dtype=None):
    if isinstance(values, Apart):
        return values if dtype in (None, values.dtype) else values.astype(dtype)
    return Apart(np.array(values, dtype))


def on_device(name):
    function = getattr(np, name)

    def call(*args, **told):
        return closed(function(*opened(args, name), **told))

    return call


NAMES = ("ascontiguousarray", "empty", "zeros", "rint", "concatenate", "full", "argsort",
         "bincount", "arange", "where", "cumsum", "floor", "isinf")  # fmt: skip
ARRAYS = SimpleNamespace(
    **{name: on_device(name) for name in NAMES},
    asarray=put,
    asnumpy=lambda array: array.get() if isinstance(array, Apart) else np.asarray(array),
    add=ByIndex(np.add),
    minimum=ByIndex(np.minimum),
    random=SimpleNamespace(default_rng=Draws),
    ndarray=Apart,
    RawModule=HostModule,
    cuda=SimpleNamespace(
        Device=lambda ordinal: nullcontext(), Stream=SimpleNamespace(null=nullcontext())
    ),
)


class ArraysModule:
    """A module that can be told from others."""

    def __getattr__(self, name):
        return getattr(ARRAYS, name)


MODULE = ArraysModule()


class DeviceApart(FakeDevice):
    """A GPU whose arrays are not NumPy's."""

    def __init__(self):
        super().__init__()
        self.arrays = MODULE

    def send(self, pinned, array):
        array.values[:] = pinned

    def send_back(self, array, pinned, done):
        pinned.view(array.dtype)[:] = array.values

    def clear(self, array):
        array.values[:] = 0

    def address(self, array):
        return array.values.ctypes.data


def _opening(function):
    def call(*args, **told):
        told = {name: opened(value, "", refuse=False) for name, value in told.items()}
        return function(*(opened(value, "", refuse=False) for value in args), **told)

    return call


@pytest.fixture
def apart(monkeypatch):
    """Such a GPU, whose numbers XGBoost on the host is given."""
    as_argument = fake_device._as_argument

    def argument(value):
        assert not is_of_host(value), "an array of the host is given to a kernel"
        return as_argument(value.values if isinstance(value, Apart) else value)

    monkeypatch.setattr(fake_device, "_as_argument", argument)
    for owner, name in (
        (xgboost.DMatrix, "__init__"),
        (xgboost.QuantileDMatrix, "__init__"),
        (xgboost.Booster, "boost"),
    ):
        monkeypatch.setattr(owner, name, _opening(getattr(owner, name)))
    predict, following = xgboost.Booster.inplace_predict, batches.Batches.next

    def predicted(booster, data, **told):
        found = predict(booster, opened(data, "", refuse=False), **told)
        return Apart(found) if isinstance(data, Apart) else found

    monkeypatch.setattr(xgboost.Booster, "inplace_predict", predicted)
    monkeypatch.setattr(
        batches.Batches, "next", lambda self, give: following(self, _opening(give))
    )
    monkeypatch.setattr(device_module, "_IN_PLACE", "there is none")
    return DeviceApart()
