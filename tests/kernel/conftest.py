"""The loops, in every way that they can be run."""

from __future__ import annotations

import pytest

from fairboost.kernel import library, loops


@pytest.fixture
def compiled() -> library.Library:
    """The compiled library."""
    found = loops.kernel()
    if not isinstance(found, library.Library):
        pytest.skip("the library has not been compiled here")
    return found


@pytest.fixture(params=["fused", "wide", "narrow", "numpy"])
def registers(request, monkeypatch):
    """The loops for processors with and without wide registers, and those in NumPy."""
    if request.param == "numpy":
        monkeypatch.setenv("FAIRBOOST_KERNEL", "numpy")
        return
    compiled = request.getfixturevalue("compiled")
    if request.param != "narrow" and not compiled.loaded.fairboost_has_wide():
        pytest.skip("this processor has no wide registers")
    monkeypatch.setattr(compiled, "wide", getattr(library, request.param.upper()))
