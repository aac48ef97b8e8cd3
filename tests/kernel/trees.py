"""Trees to send rows down."""

import numpy as np
from hypothesis import strategies as st

from fairboost.kernel.library import NODE


@st.composite
def trees(draw, n_features):
    """Any tree, its nodes in any order but for the root."""
    n_inner = draw(st.integers(0, 12))
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    nodes = [[rng.normal(), 0, 0, 0, 0]]
    for _ in range(n_inner):
        leaf = rng.choice([k for k, node in enumerate(nodes) if node[2] == k])
        ends = len(nodes), len(nodes) + 1
        nodes[leaf] = [round(rng.normal(), 1), rng.integers(n_features), *ends, rng.integers(2)]
        nodes += [[rng.normal(), 0, end, end, 0] for end in ends]
    return np.array([tuple(node) for node in nodes], NODE)
