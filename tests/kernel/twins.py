"""The loops in C beside those in NumPy."""

import numpy as np
import pytest


def in_both(work):
    """What some work gives in C and in NumPy."""
    found = []
    for name in ("c", "numpy"):
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv("FAIRBOOST_KERNEL", name)
            found.append(work())
    return found


def near(found, expected, single=False):
    """Equal up to the rounding of sums of positive and negative terms."""
    bound = 1e-6 if single else 1e-12
    largest = np.abs(expected).max(initial=0.0)
    np.testing.assert_allclose(found, expected, rtol=bound, atol=bound * max(largest, 1.0))
