"""The user's data in the form that XGBoost trains on, as the estimator's ``fit`` would make it.

Binned data cannot be cut, so the rows that are trained on and those held out are picked from X
itself, and binned a piece at a time: X is read in place and never copied as a whole. But a table
of polars or Arrow, whose categories are coded anew in every piece, becomes one of pandas if it has
any, and is picked at once otherwise. Of a table on disk the bins are kept on disk as well.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from tempfile import TemporaryDirectory
from typing import Any, TypeAlias
from weakref import finalize

import numpy as np
import pandas as pd
import xgboost
from scipy.sparse import issparse
from xgboost import XGBModel

from fairboost._typing import Float32Array, FloatArray, IntArray, Matrix
from fairboost.data.device_arrays import is_device_array
from fairboost.data.features import listed_categories
from fairboost.data.validation import by_row
from fairboost.engines.port import EngineData, is_on_disk
from fairboost.engines.tables import PartedTable, as_codes, as_table, feature_names
from fairboost.engines.xgboost.batches import (
    PIECE,
    Batches,
    batches_of,
    pick,
    pieces_of,
    positions,
)
from fairboost.engines.xgboost.categories import as_known, known_to
from fairboost.engines.xgboost.collective import Collective
from fairboost.engines.xgboost.device import INFINITE, FetchedScores, ScoredRows, ordinal_of
from fairboost.engines.xgboost.held_out_scores import ByMatrix, ByTree, HeldOut
from fairboost.engines.xgboost.options import is_dart, thread_option
from fairboost.exceptions import InvalidInputError
from fairboost.kernel.device import Device
from fairboost.kernel.threads import Threads

ROWS_PER_THREAD = 30_000
"""Rows held out from which on it pays to get hold of each tree, and to send them down it here."""

BINNED = (None, "auto", "hist")
"""Methods of growing trees that work on bins made once, before training."""


Encode: TypeAlias = Callable[[Any, str], IntArray | FloatArray]
"""Makes labels what a matrix holds; takes them, and what they are called in messages."""


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
    followers : list of (xgboost.DMatrix, HeldOut)
        The rows that each follower is trained on, and those that it leaves out.
    on_device : list of ScoredRows, optional
        The rows of the followers and those trained on, where scores are on a GPU.
    """

    rows: xgboost.DMatrix
    held_out: list[Any]
    evals: list[tuple[xgboost.DMatrix, str]]
    followers: list[tuple[xgboost.DMatrix, Any]]
    on_device: Sequence[ScoredRows] | None = None


@contextmanager
def plain_words() -> Iterator[None]:
    """Say in words what XGBoost says in terms of its code, and once."""
    try:
        # XGBoost takes tables to single precision, NumPy warns, and then XGBoost raises.
        with np.errstate(over="ignore"):
            yield
    except AssertionError as error:
        raise InvalidInputError(
            "XGBoost cannot read this table (it does not take categories with the character "
            "\\0 in their names, for one); convert X to pandas, of plain numbers and categories"
        ) from error
    except xgboost.core.XGBoostError as error:
        if "contains `inf`" in str(error):
            raise InvalidInputError(INFINITE) from error
        raise
    except ValueError as error:
        if "DataFrame.dtypes" not in str(error):
            raise
        raise InvalidInputError(f"XGBoost cannot read a table: {error}") from error


@plain_words()
def build(
    estimator: XGBModel,
    data: EngineData,
    encode: Encode,
    base: XGBModel | None,
    threads: Threads,
    folds: Sequence[IntArray] = (),
    intercept: float | FloatArray = 0.0,
    device: Device | None = None,
) -> Matrices:
    """Bin the rows.

    Parameters
    ----------
    estimator : XGBModel
        Its options say how.
    data : EngineData
        The user's data.
    encode : callable
        Makes labels of an evaluation set, and what they are called in messages, those of the rows.
    base : XGBModel, optional
        A model to go on from. It scores the rows as they are, since bins are not cut where it
        splits, and categories are coded as it knows them.
    threads : Threads
        Those that score rows held out.
    folds : sequence of (m,) int
        The rows that each follower leaves out.
    intercept : float
        The score that all rows start from, beside their offset.
    device : Device, optional
        The GPU that scores are to be on. XGBoost scores the rows, and they are copied there.
    """
    make = MatrixMaker(estimator, base, threads, device)
    X, weight = data.X, data.sample_weight
    labels = data.labels.astype(np.float32)  # as XGBoost keeps them; it converts slowly
    start = make.start(X, data.offset, intercept)
    X = make.table(X)
    held_out: list[Any] = []
    if data.trained is None:
        make.reference = rows = make.matrix(X, labels, weight, start)
    else:
        X = by_row(X)
        trained, others = positions(data.trained), positions(~data.trained)
        make.reference = rows = make.matrix(X, labels, weight, start, trained)
        held_out.append(make.held_out(X, labels, start, others))
    make.weigh_features(rows)
    if data.held_out is not None:
        outside, outside_labels = data.held_out
        outside = make.table(outside, "X of holdout_set")
        outside_start = make.start(outside, data.held_out_offset, intercept)
        held_out.append(make.held_out(outside, outside_labels, outside_start))
    followers: list[tuple[xgboost.DMatrix, Any]] = []
    if len(folds):
        X = by_row(X)
        their = MatrixMaker(estimator, base, threads, device)
        their.known = make.known
        X = their.coded(X)
    for fold in folds:
        others = np.delete(np.arange(len(labels)), fold)
        trained_on = their.matrix(X, labels, weight, start, others)
        their.reference = their.reference or trained_on
        their.weigh_features(trained_on)
        followers.append((trained_on, their.held_out(X, labels, start, fold)))
    evals = _evaluated(data, encode, make, rows, intercept)
    if data.label_factors != (1.0, 1.0) and any(matrix is rows for matrix, _ in evals):
        # Metrics weigh the labels as they were before rows were held out. The rows are binned by
        # now, and gradients of our own do not know the weights of a matrix.
        factors = np.asarray(data.label_factors)[rows.get_label().astype(int)]
        known_weight = rows.get_weight()
        rows.set_weight(known_weight * factors if known_weight.size else factors)
    if device is None:
        return Matrices(rows, held_out, evals, followers)
    return Matrices(
        rows,
        [FetchedScores(device, some.matrix) for some in held_out],
        evals,
        [(theirs, FetchedScores(device, some.matrix)) for theirs, some in followers],
        [FetchedScores(device, theirs) for theirs in (*(f for f, _ in followers), rows)],
    )


def _evaluated(
    data: EngineData,
    encode: Encode,
    make: MatrixMaker,
    rows: xgboost.DMatrix,
    intercept: float | FloatArray,
) -> list[tuple[xgboost.DMatrix, str]]:
    """The evaluation sets of the user, and their names."""
    evals = []
    sets = data.fit_options.get("eval_set") or []
    names = data.fit_options.get("eval_names") or [f"validation_{k}" for k in range(len(sets))]
    weights = data.fit_options.get("eval_sample_weight") or [None] * len(sets)
    offsets = data.fit_options.get("eval_offset") or [None] * len(sets)
    given = zip(sets, names, weights, offsets, strict=True)
    for (eval_X, eval_y), name, eval_weight, offset in given:
        matrix = rows
        # As in stock XGBoost, metrics on a set do not know weights that were not given for it.
        unweighted = data.sample_weight is None and eval_weight is None
        if not (eval_X is data.X and eval_y is data.y and unweighted):
            known = encode(eval_y, "y of eval_set")
            eval_X = make.table(eval_X, "X of eval_set")
            start = make.start(eval_X, offset, intercept)
            matrix = make.matrix(eval_X, known, eval_weight, start)
        evals.append((matrix, str(name)))
    return evals


class MatrixMaker:
    """Makes matrices by the options of an estimator, the first as a reference for the others.

    Parameters
    ----------
    estimator : XGBModel
        The estimator.
    base : XGBModel, optional
        A model to go on from.
    threads : Threads
        Those that score rows held out.
    device : Device, optional
        The GPU that is trained on, if there is one.
    """

    def __init__(
        self,
        estimator: XGBModel,
        base: XGBModel | None,
        threads: Threads,
        device: Device | None = None,
    ) -> None:
        self.estimator, self.base, self.threads = estimator, base, threads
        self.device = device
        self.categories = None if base is None else _categories(base.get_booster())
        self.known = None if base is None else known_to(base.get_booster())
        self.reference: xgboost.DMatrix | None = None
        self.columns: dict[str, Any] = {}
        self.binned, self.told = estimator.tree_method in BINNED, estimator.get_params()
        self.shared = {
            "missing": estimator.missing,
            "nthread": thread_option(self.told),
            "enable_categorical": estimator.enable_categorical,
        }
        max_bin = 256 if estimator.max_bin is None else estimator.max_bin
        self.for_bins = {**self.shared, "max_bin": max_bin}

    def table(self, X: Matrix, what: str = "X") -> Matrix:
        """A table with no other categories than the model to go on from, or the first table."""
        if self.known is None:
            self.known = listed_categories(X)
        return as_known(X, self.known, what)

    def coded(self, X: Matrix) -> Matrix:
        """A table for boosters that are not kept: categories as codes, where that is possible.

        All matrices are then to be made of it, or of rows of it.
        """
        found = as_codes(X, np.float32) if self.estimator.feature_types is None else None
        if found is None:
            return X
        types = ["c" if category else "q" for category in found.is_category]
        self.columns = {"feature_names": found.names, "feature_types": types}
        return found.values

    def start(
        self, X: Matrix, offset: FloatArray | None = None, intercept: float | FloatArray = 0.0
    ) -> Float32Array | None:
        """The scores that all rows of a table start from, unless it is the booster's own.

        They are those of the model to go on from, or else the intercept, and the rows' offset.
        """
        if self.base is None:
            return None if offset is None else (intercept + offset).astype(np.float32)
        parts = X.batches() if is_on_disk(X) else [as_table(self.table(X))]
        found = np.concatenate([self.base.predict(part, output_margin=True) for part in parts])
        return found if offset is None else (found + offset).astype(np.float32)

    def weigh_features(self, matrix: xgboost.DMatrix) -> None:
        """Give a matrix that is trained on the weights by which columns are drawn."""
        if self.estimator.feature_weights is not None:
            matrix.set_info(feature_weights=np.asarray(self.estimator.feature_weights))

    @plain_words()
    def matrix(
        self,
        X: Matrix,
        labels: Any,
        weight: Any,
        start: Float32Array | None,
        which: IntArray | None = None,
        binned: bool = True,
    ) -> xgboost.DMatrix:
        """Some rows of a table, all by default, and the scores that training starts from."""
        matrix = self._rows(self.table(X), labels, weight, which, binned and self.binned)
        if start is not None:
            matrix.set_base_margin(start if which is None else start[which])
        return matrix

    def _rows(
        self, X: Matrix, labels: Any, weight: Any, which: IntArray | None, binned: bool
    ) -> xgboost.DMatrix:
        if which is None and (is_on_disk(X) or isinstance(X, PartedTable)):
            which = np.arange(X.shape[0])
        if which is not None:
            if is_on_disk(X):
                return self._on_disk(X, labels, weight, which)
            known = isinstance(X, np.ndarray) or hasattr(X, "iloc") or issparse(X)
            if binned and (known or is_device_array(X)):
                pieces = Batches(
                    partial(pieces_of, X, which), labels, weight, self.column_facts(X)
                )
                return xgboost.QuantileDMatrix(pieces, **self.for_bins, ref=self.reference)
            X, labels = pick(X, which), None if labels is None else labels[which]
            weight = None if weight is None else weight[which]
        options = {"label": labels, "weight": weight, **self.column_facts(X)}
        X = as_table(X)
        if binned:
            # Some tables can only be read without binning, as in stock XGBoost.
            with suppress(TypeError):
                return xgboost.QuantileDMatrix(X, **options, **self.for_bins, ref=self.reference)
        return xgboost.DMatrix(X, **options, **self.shared)

    def held_out(
        self,
        X: Matrix,
        labels: Any,
        start: Float32Array | None,
        which: IntArray | None = None,
    ) -> HeldOut:
        """Some rows of a table, all by default, whose scores are wanted after every round.

        Machines do as the one with most rows to score would, and only what all of them can: they
        make matrices together or not at all.
        """
        rows = np.arange(len(labels)) if which is None else which
        if ordinal_of(self.estimator.device) is not None:  # XGBoost scores them, on the GPU
            return ByMatrix(self.values(X, which, start, labels))
        if _most(len(rows) / self.threads.count) >= ROWS_PER_THREAD:
            table = self._numbers(X, rows)
            if not _most(table is None) and table is not None:
                return ByTree(table, self.threads, None if start is None else start[rows])
        return ByMatrix(self.values(X, which, start, labels))

    def values(
        self,
        X: Matrix,
        which: IntArray | None = None,
        start: Float32Array | None = None,
        labels: Any = None,
    ) -> xgboost.DMatrix:
        """Some rows of a table, all by default, to predict from.

        Not binned: categories that no row trained on has would be put into another's bin, if they
        come last. And XGBoost is faster from values, three times so from categories.
        """
        matrix = self.matrix(X, labels, None, start, which, binned=False)
        # XGBoost would look up the type of each value that it predicts from, which takes half as
        # long again. Of codes it does not need any.
        if self.columns or "c" not in (matrix.feature_types or []):
            matrix.feature_types = None
        return matrix

    def _numbers(self, X: Matrix, rows: IntArray) -> Float32Array | None:
        """Some rows of a table as an array, if rows can be sent down the trees here.

        For that features are all numbers, none infinite, which XGBoost refuses, and leaves count
        what they say (not so in DART).
        """
        types = self.columns.get("feature_types") or self.estimator.feature_types
        categories = self.categories or "c" in (types or [])
        if is_dart(self.told) or categories or not _has_numbers(X):
            return None
        table = np.empty((len(rows), X.shape[1]), np.float32)
        with np.errstate(over="ignore"):
            for start in range(0, len(rows), PIECE):
                piece = slice(start, start + PIECE)
                table[piece] = pick(X, rows[piece])
        if np.isinf(table).any():
            return None
        missing = self.estimator.missing
        if missing is not None and not np.isnan(missing):
            table[table == np.float32(missing)] = np.nan
        return table

    def _on_disk(
        self, X: Matrix, labels: Any, weight: Any, which: IntArray
    ) -> xgboost.ExtMemQuantileDMatrix:
        """Some rows of a table on disk, whose bins go to disk again.

        Those of a GPU go to the host's memory, and are made of batches on the GPU: XGBoost takes
        no others there.
        """
        folder = TemporaryDirectory(prefix="fairboost-", dir=X.cache)
        columns = {**self.column_facts(X), "feature_names": list(X.columns)}
        read = partial(batches_of, X, which, self.device)
        batches = Batches(read, labels, weight, columns, f"{folder.name}/bins")
        matrix = xgboost.ExtMemQuantileDMatrix(batches, **self.for_bins, ref=self.reference)
        finalize(matrix, folder.cleanup)
        return matrix

    def column_facts(self, X: Matrix) -> dict[str, Any]:
        """What is known about the columns."""
        if self.columns:
            return self.columns
        types: Any = self.estimator.feature_types
        if feature_names(X) is not None:
            types = self.categories or _categories(self.reference) or types
        return {"feature_types": types}


def _most(value: float) -> float:
    """Return the largest of one number of each machine that trains; itself on one alone."""
    if not xgboost.collective.is_distributed():
        return value
    return -Collective().least(-float(value))


def _has_numbers(X: Matrix) -> bool:
    """Whether a table in memory has plain numbers in all columns."""
    if isinstance(X, PartedTable):
        return all(_has_numbers(table) for table in X.tables)
    types = getattr(X, "dtypes", [getattr(X, "dtype", None)])
    known = isinstance(X, np.ndarray | pd.DataFrame)
    return known and all(isinstance(t, np.dtype) and t.kind in "fiub" for t in types)


def _categories(source: xgboost.Booster | xgboost.DMatrix | None) -> Any:
    """The categories of columns that a model or a matrix knows; None if it knows none."""
    found = None if source is None else source.get_categories()
    return None if found is None or found.empty() else found
