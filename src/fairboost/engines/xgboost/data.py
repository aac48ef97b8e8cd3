"""The user's data in the form that XGBoost trains on, as ``XGBClassifier.fit`` would make it.

Binned data cannot be cut, so the rows that are trained on and those held out are picked from X
itself, and binned a piece at a time: X is read in place and never copied as a whole. What cannot
be picked from piece by piece, because its categories are coded anew in every piece (polars,
Arrow), is picked at once. Of a table on disk the bins are kept on disk as well.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from tempfile import TemporaryDirectory
from typing import Any
from weakref import finalize

import numpy as np
import pandas as pd
import xgboost
from scipy.sparse import issparse
from xgboost import XGBClassifier

from fairboost._typing import BoolArray, Float32Array, IntArray, Matrix
from fairboost.data.validation import by_row, encode_known, take_rows
from fairboost.engines.port import EngineData, is_on_disk
from fairboost.engines.tables import PartedTable
from fairboost.engines.xgboost.collective import Collective
from fairboost.engines.xgboost.held_out_scores import ByMatrix, ByTree, HeldOut
from fairboost.engines.xgboost.options import thread_option
from fairboost.exceptions import InvalidInputError
from fairboost.kernel.threads import Threads

PIECE = 131_072
"""Rows to pick at a time: 20 MB of 20 columns."""

ROWS_PER_THREAD = 30_000
"""Rows held out from which on it pays to get hold of each tree, and to send them down it here."""

BINNED = (None, "auto", "hist")
"""Methods of growing trees that work on bins made once, before training."""


@dataclass(frozen=True)
class Matrices:
    """What to train on.

    Parameters
    ----------
    rows : xgboost.DMatrix
        The rows trained on.
    held_out : list of HeldOut
        Those whose scores are watched.
    evals : list of (xgboost.DMatrix, str)
        The evaluation sets of the user, and their names.
    """

    rows: xgboost.DMatrix
    held_out: list[HeldOut]
    evals: list[tuple[xgboost.DMatrix, str]]


def build(
    estimator: XGBClassifier,
    data: EngineData,
    classes: Any,
    base: xgboost.Booster | None,
    threads: Threads,
) -> Matrices:
    """Bin the rows.

    Parameters
    ----------
    estimator : XGBClassifier
        Its options say how.
    data : EngineData
        The user's data.
    classes : array of two
        The labels as the user wrote them.
    base : xgboost.Booster, optional
        A model to go on from; categories are coded as it knows them.
    threads : Threads
        Those that score rows held out.
    """
    with _plain_words():
        return _build(_Maker(estimator, base, threads), data, classes)


def _build(make: _Maker, data: EngineData, classes: Any) -> Matrices:
    X, weight = data.X, data.sample_weight
    labels = data.labels.astype(np.float32)  # as XGBoost keeps them; it converts slowly
    held_out: list[HeldOut] = []
    if data.trained is None:
        make.reference = rows = make.whole(X, labels, weight)
    else:
        X = by_row(X)
        make.reference = rows = make.some(X, _positions(data.trained), labels, weight)
        held_out.append(make.held_out(X, _positions(~data.trained), labels))
    if data.held_out is not None:
        held_out.append(make.held_out(data.held_out[0], None, data.held_out[1]))
    evals = []
    sets = data.fit_options.get("eval_set") or []
    sets = [sets] if isinstance(sets, tuple) else sets
    names = data.fit_options.get("eval_names") or [f"validation_{k}" for k in range(len(sets))]
    weights = data.fit_options.get("eval_sample_weight") or [None] * len(sets)
    for (eval_X, eval_y), name, eval_weight in zip(sets, names, weights, strict=True):
        matrix = rows
        if eval_X is not data.X or eval_y is not data.y or eval_weight is not None:
            known = encode_known(eval_y, np.asarray(classes), "y of eval_set")
            matrix = make.whole(eval_X, known, eval_weight)
        evals.append((matrix, str(name)))
    if any(matrix is rows for matrix, _ in evals):
        _weigh_labels(rows, data)
    return Matrices(rows, held_out, evals)


def _weigh_labels(rows: xgboost.DMatrix, data: EngineData) -> None:
    """Let metrics on the training rows weigh the labels as they were before rows were held out.

    The rows are binned by now, and gradients of our own do not know the weights of a matrix.
    """
    if data.label_factors == (1.0, 1.0):
        return
    factors = np.asarray(data.label_factors)[rows.get_label().astype(int)]
    weight = rows.get_weight()
    rows.set_weight(weight * factors if weight.size else factors)


class _Maker:
    """Makes matrices by the options of an estimator, the first as a reference for the others."""

    def __init__(
        self, estimator: XGBClassifier, base: xgboost.Booster | None, threads: Threads
    ) -> None:
        self.estimator, self.threads = estimator, threads
        self.categories = None if base is None else _known_categories(base.get_categories())
        self.reference: xgboost.DMatrix | None = None
        self.binned = estimator.tree_method in BINNED
        self.shared = {
            "missing": estimator.missing,
            "nthread": thread_option(estimator.get_params()),
            "enable_categorical": estimator.enable_categorical,
        }

    def whole(self, X: Matrix, labels: Any, weight: Any) -> xgboost.DMatrix:
        """All rows of a table."""
        if is_on_disk(X):
            return self._from_disk(X, np.arange(X.shape[0]), labels, weight)
        if isinstance(X, PartedTable):
            return self.some(X, np.arange(X.shape[0]), labels, weight)
        options = {"label": labels, "weight": weight, **self._columns(X), **self.shared}
        X = X if hasattr(X, "shape") else np.asarray(X)
        if self.binned:
            try:
                return xgboost.QuantileDMatrix(
                    X, **options, ref=self.reference, max_bin=self.estimator.max_bin
                )
            except TypeError:  # some tables can only be read without binning, as in stock XGBoost
                pass
        return xgboost.DMatrix(X, **options)

    def some(
        self, X: Matrix, which: IntArray, labels: Float32Array, weight: Float32Array | None
    ) -> xgboost.DMatrix:
        """Some rows of a table."""
        if is_on_disk(X):
            return self._from_disk(X, which, labels, weight)
        if self.binned and (isinstance(X, np.ndarray) or hasattr(X, "iloc") or issparse(X)):
            pieces = _Pieces(X, which, labels, weight, self._columns(X))
            return xgboost.QuantileDMatrix(
                pieces, **self.shared, ref=self.reference, max_bin=self.estimator.max_bin
            )
        picked = None if weight is None else weight[which]
        return self.whole(take_rows(X, which), labels[which], picked)

    def held_out(self, X: Matrix, which: IntArray | None, labels: Any) -> HeldOut:
        """Some rows of a table, all by default, whose scores are wanted after every round.

        AllReduce do as the one with most rows to score would, and only what all of them can: they
        make matrices together or not at all.
        """
        n = len(labels) if which is None else len(which)
        if _most(n / self.threads.count) >= ROWS_PER_THREAD:
            table = None
            if self._reads_numbers(X):
                table = self._numbers(X, np.arange(n) if which is None else which)
            if _most(table is None) == 0:
                assert table is not None
                return ByTree(table, self.threads)
        matrix = (
            self.whole(X, labels, None) if which is None else self.some(X, which, labels, None)
        )
        # XGBoost would look up the type of each value that it predicts from, which takes half as
        # long again.
        if "c" not in (matrix.feature_types or []):
            matrix.feature_types = None
        return ByMatrix(matrix)

    def _reads_numbers(self, X: Matrix) -> bool:
        """Whether features are all numbers, and leaves count what they say (not so in DART)."""
        categories = self.categories is not None or "c" in (self.estimator.feature_types or [])
        return self.estimator.booster in (None, "gbtree") and not categories and _has_numbers(X)

    def _numbers(self, X: Matrix, rows: IntArray) -> Float32Array | None:
        """Some rows of a table as an array; None if one is infinite, which XGBoost refuses."""
        table = np.empty((len(rows), X.shape[1]), np.float32)
        with np.errstate(over="ignore"):
            for start in range(0, len(rows), PIECE):
                piece = slice(start, start + PIECE)
                table[piece] = _pick(X, rows[piece])
        if np.isinf(table).any():
            return None
        missing = self.estimator.missing
        if missing is not None and not np.isnan(missing):
            table[table == np.float32(missing)] = np.nan
        return table

    def _from_disk(
        self, X: Matrix, which: IntArray, labels: Any, weight: Any
    ) -> xgboost.ExtMemQuantileDMatrix:
        """Some rows of a table on disk, whose bins go to disk again."""
        folder = TemporaryDirectory(prefix="fairboost-", dir=X.cache)
        batches = _Batches(X, which, labels, weight, self._columns(X), f"{folder.name}/bins")
        matrix = xgboost.ExtMemQuantileDMatrix(
            batches, **self.shared, ref=self.reference, max_bin=self.estimator.max_bin or 256
        )
        finalize(matrix, folder.cleanup)
        return matrix

    def _columns(self, X: Matrix) -> dict[str, Any]:
        """What is known about the columns."""
        types: Any = self.estimator.feature_types
        if hasattr(X, "columns") or hasattr(X, "column_names"):
            known = self.categories
            if known is None and self.reference is not None:
                known = _known_categories(self.reference.get_categories())
            types = types if known is None else known
        out = {"feature_types": types}
        if self.reference is None and self.estimator.feature_weights is not None:
            out["feature_weights"] = np.asarray(self.estimator.feature_weights)
        return out


class _Pieces(xgboost.DataIter):
    """Some rows of a table, a piece at a time."""

    def __init__(
        self,
        X: Matrix,
        which: IntArray,
        labels: Float32Array,
        weight: Float32Array | None,
        columns: dict[str, Any],
    ) -> None:
        super().__init__()
        self.X, self.labels, self.weight, self.columns = X, labels, weight, columns
        self.pieces: Sequence[IntArray] = [
            # One piece at least: of several machines, one may have no rows to give.
            which[start : start + PIECE]
            for start in range(0, max(len(which), 1), PIECE)
        ]
        self.position = 0

    def reset(self) -> None:
        """Begin anew."""
        self.position = 0

    def next(self, input_data: Any) -> bool:
        """Hand over the next piece, if there is one."""
        if self.position == len(self.pieces):
            return False
        piece = self.pieces[self.position]
        input_data(
            data=_pick(self.X, piece),
            label=self.labels[piece],
            weight=None if self.weight is None else self.weight[piece],
            **self.columns,
        )
        self.position += 1
        return True


class _Batches(xgboost.DataIter):
    """Some rows of a table on disk, a batch at a time."""

    def __init__(
        self,
        X: Matrix,
        which: IntArray,
        labels: Any,
        weight: Any,
        columns: dict[str, Any],
        cache: str,
    ) -> None:
        super().__init__(cache_prefix=cache)
        self.X, self.which, self.labels, self.weight = X, which, labels, weight
        self.columns = {**columns, "feature_names": list(X.columns)}
        self.reset()

    def reset(self) -> None:
        """Begin anew."""
        self.rest, self.start = iter(self.X.batches()), 0

    def next(self, input_data: Any) -> bool:
        """Hand over the rows that are wanted of the next batch that has any."""
        for batch in self.rest:
            first, last = np.searchsorted(self.which, [self.start, self.start + len(batch)])
            at, position = self.which[first:last], self.start
            self.start += len(batch)
            if len(at):
                input_data(
                    data=np.take(batch, at - position, axis=0),
                    label=self.labels[at],
                    weight=None if self.weight is None else self.weight[at],
                    **self.columns,
                )
                return True
        return False


def _most(value: float) -> float:
    """Return the largest of one number of each machine that trains; itself on one alone."""
    if not xgboost.collective.is_distributed():
        return value
    return -Collective().least(-float(value))


def _positions(which: BoolArray) -> IntArray:
    """Positions of rows, in half the memory as far as that goes."""
    found = np.flatnonzero(which)
    return found.astype(np.int32) if len(which) < 2**31 else found


def _pick(X: Matrix, rows: IntArray) -> Matrix:
    # np.take is several times faster than indexing.
    return np.take(X, rows, axis=0) if isinstance(X, np.ndarray) else take_rows(X, rows)


def _has_numbers(X: Matrix) -> bool:
    """Whether a table in memory has plain numbers in all columns."""
    if isinstance(X, PartedTable):
        return all(_has_numbers(table) for table in X.tables)
    types = getattr(X, "dtypes", [getattr(X, "dtype", None)])
    known = isinstance(X, np.ndarray | pd.DataFrame)
    return known and all(isinstance(t, np.dtype) and t.kind in "fiub" for t in types)


def _known_categories(categories: Any) -> Any:
    return None if categories.empty() else categories


@contextmanager
def _plain_words() -> Iterator[None]:
    """Say in words what XGBoost says in terms of its code."""
    try:
        yield
    except AssertionError as error:
        raise InvalidInputError(
            "XGBoost cannot read this table (it does not take dictionary columns of Arrow, for "
            "one); convert X to pandas or polars, with columns of a categorical dtype"
        ) from error
