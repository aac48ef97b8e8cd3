"""LightGBM's text format, edited: intercept, objective and tree weights.

A booster trained with a custom objective leaves out two things that a stock one carries: the score
it started from, and the link that turns scores into predictions. Both have a place in the text
format (``docs/algorithm.md``, "A stock booster"), and once there any reader of LightGBM models
returns our predictions. The edit touches the numbers of leaves only, so the file stays
LightGBM's own.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from itertools import pairwise

import numpy as np

from fairboost._typing import FloatArray

# The fields of a tree that hold outputs. A bias moves the constant ones; a weight scales them all.
_CONSTANTS = ("leaf_value", "leaf_const", "internal_value")
_SLOPES = ("leaf_coeff",)

BINARY = "binary sigmoid:1"
"""The objective of a stock classifier."""


def as_stock_model(
    text: str,
    *,
    intercept: float | FloatArray,
    tree_weights: FloatArray | None = None,
    objective: str = BINARY,
) -> str:
    """Make a booster of a custom objective into a stock one.

    Parameters
    ----------
    text : str
        The booster as ``Booster.model_to_string`` gives it.
    intercept : float or (n_classes,) float64
        The score that training started from; it goes into the first tree, where LightGBM itself
        puts the average it boosts from. Of several classes each has a first tree.
    tree_weights : (n_rounds,) float64, optional
        A factor for the trees of each round.
    objective : str
        The objective as LightGBM itself writes it.

    Returns
    -------
    text : str
        A model that ``lightgbm.Booster(model_str=...)`` reads.
    """
    head, trees, tail = split_text(text)
    starts = np.ravel(intercept).tolist()
    if tree_weights is not None:
        trees = [
            _edit(tree, lambda x, w=w: x * w, _CONSTANTS + _SLOPES)  # type: ignore[misc]
            for tree, w in zip(trees, np.repeat(tree_weights, len(starts)), strict=True)
        ]
    for k, start in enumerate(starts[: len(trees)]):
        tree = _edit(trees[k], lambda x, start=start: x + start, _CONSTANTS)  # type: ignore[misc]
        # As LightGBM does when it folds its average in: the tree is no longer a scaled one.
        trees[k] = re.sub(r"(?m)^shrinkage=.*$", "shrinkage=1", tree)
    head = re.sub(r"(?m)^objective=.*\n", "", head)
    head = re.sub(r"(?m)^feature_names=", f"objective={objective}\nfeature_names=", head)
    tail = re.sub(r"(?m)^\[objective: \w+\]$", f"[objective: {objective.partition(' ')[0]}]", tail)
    return _join(head, trees, tail)


def append_trees(text: str, further: str) -> str:
    """Put the trees of a further booster after those of a stock model.

    Parameters
    ----------
    text : str
        The stock model; all but its trees is kept.
    further : str
        A booster trained from the stock model's scores on the same features.
    """
    head, trees, tail = split_text(text)
    added = split_text(further)[1]
    trees += [re.sub(r"^Tree=\d+", f"Tree={len(trees) + k}", t) for k, t in enumerate(added)]
    return _join(head, trees, tail)


def without_trees(text: str) -> str:
    """The same model with none of its trees: it scores 0."""
    head, _, tail = split_text(text)
    return _join(head, [], tail)


def with_notes(text: str, **notes: object) -> str:
    """Put notes into the head of a model; LightGBM passes over names that it does not know.

    Parameters
    ----------
    text : str
        The model.
    **notes
        Written as ``fairboost_name=value``.
    """
    lines = "".join(f"fairboost_{name}={value}\n" for name, value in notes.items())
    return re.sub(r"(?m)^tree_sizes=", f"{lines}tree_sizes=", text, count=1)


def split_text(text: str) -> tuple[str, list[str], str]:
    """Header, trees and the rest."""
    end = text.index("end of trees\n")
    bounds = [*(m.start() for m in re.finditer(r"(?m)^Tree=\d+\n", text)), end]
    return text[: bounds[0]], [text[a:b] for a, b in pairwise(bounds)], text[end:]


def _join(head: str, trees: Sequence[str], tail: str) -> str:
    """Join the parts of a model text; its header lists the length of each tree."""
    sizes = " ".join(str(len(tree.encode())) for tree in trees)
    head = re.sub(r"(?m)^tree_sizes=.*$", f"tree_sizes={sizes}", head)
    return head + "".join(trees) + tail


def _edit(tree: str, change: Callable[[float], float], fields: Sequence[str]) -> str:
    def line(match: re.Match[str]) -> str:
        # Blocks are separated by single or double blanks; keep them as they stand.
        numbers = re.sub(r"\S+", lambda m: repr(float(change(float(m.group())))), match.group(2))
        return f"{match.group(1)}={numbers}"

    return re.sub(rf"(?m)^({'|'.join(fields)})=(.*)$", line, tree)
