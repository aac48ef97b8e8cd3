"""Dask collections: told apart from other tables, cut into partitions, mapped over lazily.

Dask is imported only where a collection has been found, so fairboost works without it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np
import pandas as pd

from fairboost._typing import Matrix
from fairboost.data.validation import check_beside, check_two_dimensional, named_columns, unpack
from fairboost.exceptions import InvalidInputError


def is_dask(value: object) -> bool:
    """Whether a value is a Dask DataFrame, Series or Array.

    Examples
    --------
    >>> is_dask(np.zeros(3))
    False
    """
    return hasattr(type(value), "__dask_graph__") and hasattr(value, "npartitions")


@dataclass(frozen=True)
class DaskRows:
    """Rows as the user gave them, in collections with the same partitions.

    Parameters
    ----------
    X, y : Dask collections
        Features, and labels or targets.
    sensitive_features, sample_weight, exposure : Dask collections, optional
        As in ``fit``.
    """

    X: Any
    y: Any
    sensitive_features: Any = None
    sample_weight: Any = None
    exposure: Any = None

    @property
    def columns(self) -> list[str]:
        """Names of the sensitive columns."""
        return [] if self.sensitive_features is None else column_names(self.sensitive_features)

    def without_groups(self) -> DaskRows:
        """The same without sensitive columns."""
        return replace(self, sensitive_features=None)


def rows_beside(holdout_set: Any, rows: DaskRows, exposed: bool) -> DaskRows:
    """The rows of ``holdout_set``, with the columns that the rows to train on have.

    Parameters
    ----------
    holdout_set : tuple
        As the user gave it.
    rows : DaskRows
        The rows to train on.
    exposed : bool
        Whether there may be an exposure.
    """
    form = f"(X, y, sensitive_features[, sample_weight{'[, exposure]' * exposed}])"
    given = DaskRows(*unpack("holdout_set", holdout_set, form, most=4 + exposed))
    if not is_dask(given.X) or hasattr(given.X, "columns") != hasattr(rows.X, "columns"):
        raise InvalidInputError(
            f"X of holdout_set must be a {type(rows.X).__name__} of Dask like X, found "
            f"{type(given.X).__name__}; dask.dataframe.from_pandas(table, npartitions=1) makes one"
        )
    check_beside(_without_rows(given.X), _without_rows(rows.X), "holdout_set")
    if hasattr(rows.X, "columns"):
        for name, (one, other) in zip(
            rows.X.columns, zip(given.X.dtypes, rows.X.dtypes, strict=True), strict=True
        ):
            if isinstance(other, pd.CategoricalDtype) and one != other:
                raise InvalidInputError(
                    f"column {name!r} of X of holdout_set has other categories than that of X; "
                    "categorize both as one DataFrame, and split it afterwards"
                )
    return given


def _without_rows(X: Any) -> Matrix:
    """A table with the columns of a collection, and their types."""
    # Dask calls it private, and documents it for those who build on it.
    return X._meta if hasattr(X, "columns") else header(X)


def header(X: Any) -> Matrix:
    """A table without rows that has the columns of a collection."""
    check_two_dimensional(X)
    if hasattr(X, "columns"):
        return pd.DataFrame(columns=list(X.columns))
    if np.isnan(X.shape[1]):
        raise InvalidInputError(
            "the number of features of X is not known to Dask; call X.compute_chunk_sizes(), or "
            "pass a Dask DataFrame"
        )
    return np.empty((0, X.shape[1]))


def column_names(sensitive_features: Any) -> list[str]:
    """Names of the sensitive columns in a collection."""
    empty = getattr(sensitive_features, "_meta", sensitive_features)
    if hasattr(sensitive_features, "chunks"):
        empty = np.empty((0, *sensitive_features.shape[1:2]))
    return [name for name, _ in named_columns(empty)]


def partitions(rows: DaskRows) -> list[tuple[Any, ...]]:
    """Cut collections into partitions that belong together, still lazy.

    Returns
    -------
    parts : list of tuple of (Delayed or None)
        Features, labels or targets, sensitive columns, weights and exposures of each partition.
    """
    X, named = rows.X, {field.name: getattr(rows, field.name) for field in fields(rows)}
    given = {name: value for name, value in named.items() if value is not None}
    for name, value in given.items():
        check_aligned(name, value, X)
    _check_categories(X)
    delayed = {name: _delayed(value) for name, value in given.items()}
    return [
        tuple(delayed[name][k] if name in delayed else None for name in named)
        for k in range(len(delayed["X"]))
    ]


def check_aligned(name: str, value: Any, X: Any) -> None:
    """Refuse partitions that cannot belong to those of X; rows are counted when they are read."""
    if not is_dask(value):
        raise InvalidInputError(
            f"{name} must be a Dask collection like X, found {type(value).__name__}; keep it "
            "as a column of the same Dask DataFrame, so that rows stay together"
        )
    expected, found = _n_parts(X), _n_parts(value)
    if found != expected:
        raise InvalidInputError(
            f"{name} has {found} partitions, expected the {expected} of X; take all of them from "
            "one Dask DataFrame, or repartition them alike"
        )
    (what, ours), (unit, theirs) = _cuts(X), _cuts(value)
    known = what == unit and not any(pd.isna(edge) for edge in (*ours, *theirs))
    if known and ours != theirs:
        raise InvalidInputError(
            f"{name} is cut into partitions at other rows than X ({what} {theirs}, expected "
            f"{ours}); take both from one Dask DataFrame, or repartition them alike"
        )


def _cuts(value: Any) -> tuple[str, tuple[Any, ...]]:
    """Where a collection is cut into partitions, by rows or by values of its index."""
    if hasattr(value, "chunks"):
        return "chunks", tuple(value.chunks[0])
    return "divisions", tuple(getattr(value, "divisions", [None]))


def _n_parts(value: Any) -> int:
    return len(value.chunks[0]) if hasattr(value, "chunks") else int(value.npartitions)


def _check_categories(X: Any) -> None:
    """Refuse categorical columns whose categories may differ from partition to partition."""
    if not hasattr(X, "dtypes"):
        return
    for name, dtype in X.dtypes.items():
        if isinstance(dtype, pd.CategoricalDtype) and not X[name].cat.known:
            raise InvalidInputError(
                f"the categories of the column {name!r} are not known to Dask, and may be coded "
                "in another way in every partition; call X = X.categorize() before"
            )


def _delayed(value: Any) -> Sequence[Any]:
    if hasattr(value, "chunks") and value.ndim == 2 and len(value.chunks[1]) > 1:
        value = value.rechunk({1: -1})
    # As they are: Dask would read several small files as one partition where few columns are
    # wanted, labels but not features, and what X and y have in common it would make twice.
    lazy = value.to_delayed(optimize_graph=False)
    return list(lazy.ravel() if isinstance(lazy, np.ndarray) else lazy)


def in_memory(lazy: Sequence[Any]) -> list[list[Any]]:
    """Futures that each of several lazy partitions of one collection is made from.

    Those of a persisted collection: where they are, the partition should be read. There are none
    where it comes from files.
    """
    from dask.optimization import cull
    from distributed import Future

    graphs: dict[int, dict[Any, Any]] = {}  # partitions share one as a rule
    out = []
    for part in lazy:
        graph = part.__dask_graph__()
        if id(graph) not in graphs:
            graphs[id(graph)] = dict(graph)
        needed, _ = cull(graphs[id(graph)], [part.key])
        out.append([task for task in needed.values() if isinstance(task, Future)])
    return out


def map_rows(
    function: Callable[..., Any], X: Any, extra: Any, like: np.ndarray, beside: Any = None
) -> Any:
    """Map a function over the rows of a collection, partition by partition, when it is computed.

    Parameters
    ----------
    function : callable
        Is called as ``function(part, extra)``, and returns an array with a row for each.
    X : Dask DataFrame or Array
        The rows.
    extra : object
        Sent to each worker once.
    like : array
        An empty array of the shape and type of the result.
    beside : Dask Series or Array, optional
        A column with the same partitions, given to the function as a third argument.

    Returns
    -------
    result : dask.array.Array
        Lazy; in partitions like those of X.
    """
    import dask.array as da
    from dask.delayed import delayed

    # Not map_partitions with a lazy argument: Dask 2026.8 fails to fuse a single partition then.
    once, apply = delayed(extra, pure=False, traverse=False), delayed(function, pure=False)
    if hasattr(X, "chunks"):
        lengths, lazy = X.chunks[0], _delayed(X)
    else:
        # Only the columns that are wanted are read, in the partitions that X has.
        lazy = X.optimize(fuse=False).to_delayed(optimize_graph=False)
        lengths = (np.nan,) * len(lazy)
    columns = [] if beside is None else [_delayed(beside)]
    rows = [
        da.from_delayed(apply(part, once, *own), (n, *like.shape[1:]), meta=like)
        for part, n, *own in zip(lazy, lengths, *columns, strict=True)
    ]
    return da.concatenate(rows, allow_unknown_chunksizes=True)
