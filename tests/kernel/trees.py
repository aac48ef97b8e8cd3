"""Trees to send rows down."""

import numpy as np
from hypothesis import strategies as st

from fairboost.kernel.library import NODE


@st.composite
def trees(draw, n_features):
    """Any tree, its nodes in any order but for the root."""
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    return tree(rng, n_features, draw(st.integers(0, 12)))


def tree(rng, n_features, n_inner):
    """A tree with some nodes that split."""
    nodes, leaves = [[rng.normal(), 0, 0, 0, 0]], [0]
    for _ in range(n_inner):
        leaf = leaves.pop(rng.integers(len(leaves)))
        ends = len(nodes), len(nodes) + 1
        nodes[leaf] = [round(rng.normal(), 1), rng.integers(n_features), *ends, rng.integers(2)]
        nodes += [[rng.normal(), 0, end, end, 0] for end in ends]
        leaves += ends
    return np.array([tuple(node) for node in nodes], NODE)
