"""The only door for user data: y, sensitive_features and sample_weight in, checked arrays out.

X is not looked into beyond its number of rows: the engine reads it as the user gave it.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, cast

import narwhals.stable.v1 as nw
import numpy as np
import pandas as pd
from scipy.sparse import csr_matrix, issparse
from sklearn.utils import column_or_1d
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import _num_samples

from fairboost._typing import ArrayLike, FloatArray, IntArray, Matrix
from fairboost.data.cells import SensitiveColumn, check_names_differ, group_value
from fairboost.data.device_arrays import (
    is_device_array,
    is_device_column,
    is_device_frame,
    on_host,
    plain_column,
)
from fairboost.data.features import (
    categories_of,
    check_readable,
    column_names,
    in_pandas_if_categorical,
    without_names,
)
from fairboost.data.labels import positive_last, warn_of_spellings
from fairboost.data.probabilities import (
    GroupProbabilities,
    as_column_of_groups,
    check_observed,
)
from fairboost.data.windows import read_numbers
from fairboost.exceptions import InvalidInputError

DEFAULT_COLUMN = "sensitive_feature"
"""Name of a sensitive column that came without one."""


@dataclass(frozen=True)
class CheckedRows:
    """Rows of the user's own to train on or to hold out, checked.

    Parameters
    ----------
    X : Matrix
        As the user gave it.
    classes : (n_classes,) array
        The labels as the user wrote them; of two the second is the positive one.
    labels : (n,) int
        The position of each row's label among them.
    columns : tuple of SensitiveColumn
        The sensitive attributes, with codes of their own; empty if none were given.
    sample_weight : (n,) float64 or None
        Weights of the rows.
    targets, exposure : (n,) float64, optional
        Where a number is predicted: the numbers, and what predictions are multiplied by. All
        labels are then 0, and there are no classes.
    base_scores : (n,) float64, optional
        Log-odds by a base model that a stage is added to.
    """

    X: Matrix
    classes: np.ndarray
    labels: IntArray
    columns: tuple[SensitiveColumn, ...]
    sample_weight: FloatArray | None
    targets: FloatArray | None = None
    exposure: FloatArray | None = None
    base_scores: FloatArray | None = None

    @property
    def offset(self) -> FloatArray | None:
        """What scores have in them: log-odds by a base model, or the logarithm of exposures."""
        if self.base_scores is not None:
            return self.base_scores
        return None if self.exposure is None else np.log(self.exposure)

    def with_groups_of(self, known: Mapping[str, Sequence[object]]) -> CheckedRows:
        """The same rows, with the groups of columns as training has them."""
        return replace(
            self, columns=tuple(c.named_as(known.get(c.name, ())) for c in self.columns)
        )

    @property
    def weight_in_moments(self) -> FloatArray | None:
        """Weights by which rows count towards moments: the given ones, by exposure."""
        return self.weight_beside(self)

    def weight_beside(self, others: CheckedRows) -> FloatArray | None:
        """The same on the scale of other rows, whose exposures are 1 on average."""
        if self.exposure is None or others.exposure is None:
            return self.sample_weight
        per_unit: FloatArray = self.exposure / others.exposure.mean()
        return per_unit if self.sample_weight is None else per_unit * self.sample_weight


def check_fit_data(
    X: Matrix,
    y: ArrayLike,
    sensitive_features: ArrayLike | None,
    sample_weight: ArrayLike | None,
    classes: np.ndarray | None = None,
    pos_label: object = None,
    numbers: Collection[str] = (),
) -> CheckedRows:
    """Check the arguments of ``fit``; every problem raises here, before training.

    Labels are told by ``classes``, the negative and the positive one, if they are known, and make
    them otherwise. ``numbers`` are the sensitive columns that are compared as numbers.
    """
    check_two_dimensional(X)
    n = _num_samples(X)
    if classes is None:
        classes, labels = encode_labels(y, pos_label)
    else:
        labels = encode_known(y, classes, "y")
    _check_length("y", len(labels), n, "X")
    check_same_rows(X=X, y=y, sensitive_features=sensitive_features, sample_weight=sample_weight)
    columns = read_sensitive_features(sensitive_features, n, numbers)
    weight = read_weights(sample_weight, n)
    if weight is not None:
        check_both_classes_weigh(classes, labels, weight)
    return CheckedRows(X, classes, labels, columns, weight)


def check_numbers(
    X: Matrix,
    y: ArrayLike,
    sensitive_features: ArrayLike | None,
    sample_weight: ArrayLike | None,
    exposure: ArrayLike | None = None,
) -> CheckedRows:
    """The same where a number is predicted."""
    check_two_dimensional(X)
    n = _num_samples(X)
    targets = read_targets(y, "y")
    _check_length("y", len(targets), n, "X")
    check_same_rows(
        X=X, y=y, sensitive_features=sensitive_features, sample_weight=sample_weight,
        exposure=exposure,
    )  # fmt: skip
    if not n:
        raise InvalidInputError("X has no rows, n_samples=0; pass rows to learn from, or to judge")
    columns = read_sensitive_features(sensitive_features, n)
    check_observed(columns, "where a number is predicted")
    weight = read_weights(sample_weight, n)
    exposed = None if exposure is None else read_exposure(exposure, n)
    nobody = np.zeros(n, np.int8)
    return CheckedRows(X, np.empty(0), nobody, columns, weight, targets, exposed)


def read_exposure(given: ArrayLike, n: int, name: str = "exposure") -> FloatArray:
    """Exposures of rows: one each, above 0."""
    found = read_targets(given, name)
    _check_length(name, len(found), n, "X")
    with np.errstate(over="ignore", under="ignore"):
        single = found.astype(np.float32)  # as weights are kept
    if (wrong := ~((single > 0) & np.isfinite(single))).any():
        row = int(np.argmax(wrong))
        raise InvalidInputError(
            f"{name} must be above 0, and finite in single precision, found {found[row]:g} in "
            f"row {row}; leave out rows without exposure, of which nothing can be learned"
        )
    return found


def check_number_set(holdout_set: Any, X: Matrix) -> CheckedRows:
    """Check ``holdout_set`` of ``fit`` where a number is predicted."""
    form = "(X, y, sensitive_features[, sample_weight[, exposure]])"
    given_X, y, *rest = unpack("holdout_set", holdout_set, form, most=5)
    if y is None:
        raise InvalidInputError("holdout_set has no targets; pass (X, y, sensitive_features)")
    held_X = check_beside(given_X, X, "holdout_set")
    try:
        return replace(check_numbers(given_X, y, *rest), X=held_X)
    except InvalidInputError as error:
        raise InvalidInputError(f"holdout_set: {error}") from error


def read_targets(given: ArrayLike, name: str) -> FloatArray:
    """Numbers of rows; refuses text, dates, missing values and infinities."""
    if given is None:
        raise InvalidInputError(
            f"requires {name} to be passed, but the target {name} is None; pass one number for "
            "each row"
        )
    refuse_name(name, given)
    if isinstance(given, pd.DataFrame) and given.shape[1] == 1:
        given = given.iloc[:, 0]
    column = as_column(given)
    try:
        if column.dtype.kind not in "biufO" or _holds_text(column):
            raise TypeError(f"{column.dtype} are not numbers")
        found = column.astype(np.float64)
    except (TypeError, ValueError) as error:
        raise InvalidInputError(
            f"{name} must be a column of numbers, found {type(given).__name__} that holds "
            f"something else: {error}. Convert it, or use FairGBMClassifier for labels"
        ) from error
    if found.ndim == 2 and found.shape[1] == 1:
        found = column_or_1d(found, warn=True)
    if found.ndim != 1:
        raise InvalidInputError(
            f"{name} must be a column of numbers, found shape {found.shape}; pass one number for "
            "each row"
        )
    if not (finite := np.isfinite(found)).all():
        row = int(np.argmin(finite))
        raise InvalidInputError(
            f"{name} must be finite numbers without NaN, found {found[row]} in row {row}; leave "
            f"out the {int((~finite).sum()):,} rows without one"
        )
    return found


def _holds_text(column: np.ndarray) -> bool:
    """Whether an array of objects holds text, which NumPy would read as numbers where it can."""
    return column.dtype == object and any(isinstance(v, str | bytes) for v in column.flat)


def check_holdout_set(
    holdout_set: Any, X: Matrix, classes: np.ndarray, numbers: Collection[str] = ()
) -> CheckedRows:
    """Check ``holdout_set`` of ``fit``: the same features and labels as training."""
    form = "(X, y, sensitive_features[, sample_weight])"
    given_X, y, sensitive_features, weight = unpack("holdout_set", holdout_set, form, most=4)
    if y is None:
        raise InvalidInputError("holdout_set has no labels; pass (X, y, sensitive_features)")
    held_X = check_beside(given_X, X, "holdout_set")
    n = _num_samples(held_X)
    labels = encode_known(y, classes, "y of holdout_set")
    _check_length("y of holdout_set", len(labels), n, "its X")
    try:
        parts = {"sensitive_features": sensitive_features, "sample_weight": weight}
        check_same_rows(X=given_X, y=y, **parts)
        columns = read_sensitive_features(sensitive_features, n, numbers)
        return CheckedRows(held_X, classes, labels, columns, read_weights(weight, n))
    except InvalidInputError as error:
        raise InvalidInputError(f"holdout_set: {error}") from error


def check_same_rows(**given: object) -> None:
    """Refuse pandas tables and columns whose rows have other labels, or the same in another order.

    They would be matched by position. Whether that or their labels is meant cannot be told: an
    index is as often left over from a shuffle as it is a key.
    """
    found = [
        (name, part.index)
        for name, table in given.items()
        for part in (table.values() if isinstance(table, Mapping) else [table])
        if isinstance(part, pd.DataFrame | pd.Series)
        or (isinstance(part, GroupProbabilities) and part.index is not None)
    ]
    for name, index in found[1:]:
        first, expected = found[0]
        if len(index) != len(expected) or index.equals(expected):
            continue  # lengths are checked elsewhere
        pairs = enumerate(zip(index, expected, strict=True))
        row = next((k for k, (own, other) in pairs if own != other), 0)
        own, other = python_value(index[row]), python_value(expected[row])
        raise InvalidInputError(
            f"{name} and {first} have pandas indices that differ: row {row} is {own!r} in {name} "
            f"and {other!r} in {first}. Write {name}.loc[{first}.index] to match "
            f"rows by their labels, or {name}.to_numpy() if they are in the same order already"
        )


def unpack(
    name: str, given: Any, form: str, *, most: int, least: int = 2, remedy: str = ""
) -> list[Any]:
    """The items of a tuple from the user; None for those left out at the end."""
    several = isinstance(given, tuple | list)
    if not several or not least <= len(given) <= most:
        found = f"{len(given)} items" if several else type(given).__name__
        raise InvalidInputError(f"{name} must be a tuple {form}, found {found}{remedy}")
    return [*given, *[None] * most][:most]


def encode_known(y: ArrayLike, classes: np.ndarray, what: str) -> IntArray:
    """Labels as their position among the classes of training."""
    column = column_or_1d(as_column(y))
    unknown = ~np.isin(column, classes)
    if unknown.any():
        raise InvalidInputError(
            f"{what} has the label {column[unknown].tolist()[0]!r}, expected those of training, "
            f"{' and '.join(map(repr, classes.tolist()))}; use the same codes in both"
        )
    if len(classes) > 2:  # in rising order
        found: IntArray = np.searchsorted(classes, column)
        return found.astype(np.min_scalar_type(-len(classes)))
    return np.asarray(column == classes[1], np.int8)


def check_beside(table: Matrix, X: Matrix, what: str) -> Matrix:
    """Check a table of further rows: the features of X, in the same order.

    A table with names beside X without them goes by position, and so does one without names: it
    gets those of X. Engines would take some of these, and refuse or misread others.
    """
    check_two_dimensional(table)
    check_readable(table, f"X of {what}")
    width, expected = map(width_of, (table, X))
    if width != expected:
        raise InvalidInputError(
            f"X of {what} has {width} features, expected the {expected} of training; pass the "
            "same columns in the same order"
        )
    found, names = column_names(table), column_names(X)
    # Where one of them has no names, there is nothing to compare.
    for name, known in zip(found, names, strict=False):
        if name != known:
            raise InvalidInputError(
                f"X of {what} has the feature {name!r} where training has {known!r}; pass the "
                "same columns in the same order"
            )
    _check_same_categories(table, X, what)
    table = in_pandas_if_categorical(table)
    if isinstance(table, np.ndarray) and table.dtype == object:
        table = table.astype(np.float64)  # as predict reads it; LightGBM would round it
    if not names:
        return without_names(table)
    if found:
        return table
    if issparse(table):
        raise InvalidInputError(
            f"X of {what} is sparse and has no names of features, but X has; pass both in the "
            "same form"
        )
    array = np.asarray(on_host(table))
    numbers = array.astype(np.float64) if array.dtype == object else array
    return pd.DataFrame(numbers, columns=names)


def _check_same_categories(table: Matrix, X: Matrix, what: str) -> None:
    """Refuse a column that is categorical in one table only: its numbers would be misread."""
    further, known = set(categories_of(table)), set(categories_of(X))
    for name in further ^ known:
        here, there = f"X of {what}", "X"
        here, there = (here, there) if name in further else (there, here)
        raise InvalidInputError(
            f"column {name!r} of {here} is categorical, but that of {there} is not; give both "
            "the same type"
        )


def width_of(X: Matrix) -> int:
    """Number of columns of a table."""
    # NumPy would ask a frame of cuDF for a method of this name.
    shape = X.shape if hasattr(X, "shape") else np.shape(X)
    return int(shape[1])


def check_two_dimensional(X: Matrix) -> None:
    """Refuse a single row or column given as a flat array, and a mapping."""
    if isinstance(X, Mapping) and not hasattr(X, "shape"):  # as a sparse table of SciPy may be
        raise InvalidInputError(
            f"X must be a table of rows and columns, found {type(X).__name__}; pass "
            "pd.DataFrame(X), or pd.DataFrame([X]) for one row"
        )
    shape = getattr(X, "shape", (0, 0))
    if len(shape) != 2:
        remedy = "X.reshape(-1, 1) for one feature, X.reshape(1, -1) for one row"
        if isinstance(X, pd.Series):
            remedy = "X.to_frame() for one feature; for one row of a table, table.iloc[[0]]"
        raise InvalidInputError(
            f"X must be a table of rows and columns, found {len(shape)} dimensions. Reshape your "
            f"data: {remedy}"
        )


def refuse_name(what: str, given: object) -> None:
    """Refuse the name of a column in place of the column."""
    if isinstance(given, str):
        raise InvalidInputError(
            f"{what} is the text {given!r}, expected a column with one value per row; "
            f"pass the column, df[{given!r}], not its name"
        )


def as_column(values: ArrayLike) -> np.ndarray:
    """One column as a 1-d NumPy array: series and arrays of any library, lists."""
    values = plain_column(values)
    if isinstance(values, np.ndarray | list | tuple | pd.Series):
        return np.asarray(values)
    if is_device_array(values):
        return np.asarray(on_host(values))
    native = nw.from_native(values, series_only=True, pass_through=True)
    return np.asarray(_plain(native) if isinstance(native, nw.Series) else values)


def _plain(column: nw.Series[Any]) -> Any:
    """A column of polars or Arrow as an array, or as one of pandas if it may have an order.

    NumPy would read the last category of Arrow where a value is missing.
    """
    if column.dtype == nw.Enum:  # of polars
        listed = column.cat.get_categories().to_list()
        return pd.Series(pd.Categorical(column.to_numpy(), listed, ordered=True))
    native = column.to_native()
    if column.dtype == nw.Categorical and hasattr(native, "chunks"):
        return native.to_pandas()
    return column.to_numpy()


def encode_labels(y: ArrayLike, pos_label: object = None) -> tuple[np.ndarray, IntArray]:
    """Labels of any type, and the position of each row's among them; of two the negative first."""
    if y is None:
        raise InvalidInputError(
            "requires y to be passed, but the target y is None; pass the labels as y"
        )
    refuse_name("y", y)
    classes, labels = distinct_labels(y)
    check_several_classes(classes)
    warn_of_spellings(classes)
    if len(classes) > 2:
        check_no_positive(classes, pos_label)
        return classes, labels
    ordered = positive_last(classes, pos_label)
    return ordered, labels if ordered is classes else 1 - labels


def distinct_labels(y: ArrayLike) -> tuple[np.ndarray, IntArray]:
    """The labels that occur, in order, and the position of each row's among them."""
    y = plain_column(y)
    if is_device_array(y) and y.ndim == 1 and y.dtype.kind in "iub":
        classes = _sorted_labels(on_host(np.unique(y)))
        if len(classes) == 2:
            positive: IntArray = on_host((y == classes[1].item()).astype(np.int8))
            return classes, positive
    column = column_or_1d(as_column(y), warn=True)
    if column.dtype.kind == "f" and not np.isfinite(column).all():
        raise InvalidInputError(
            "y contains NaN or infinity; drop the rows whose label is not known"
        )
    if column.dtype == object and pd.isna(column).any():
        raise InvalidInputError("y contains missing labels; drop the rows whose label is unknown")
    classes = _sorted_labels(column)
    if len(classes) == 2:  # as it should be; finding positions takes a sort otherwise
        return classes, (column == classes[1]).astype(np.int8)
    classes, labels = np.unique(column, return_inverse=True)
    return classes, labels.astype(np.min_scalar_type(-max(len(classes), 1)))


def _sorted_labels(column: np.ndarray) -> np.ndarray:
    """The labels that occur, in rising order; refuses what has none, or are no labels."""
    if not len(column):
        return np.unique(column)
    if isinstance(column[0], bytes):
        raise InvalidInputError(
            f"y holds bytes, such as {python_value(column[0])!r}, expected text or numbers; "
            "decode them, for example with np.char.decode(y)"
        )
    try:
        check_classification_targets(column)
        return np.unique(column)
    except TypeError as error:
        kinds = sorted({type(python_value(value)).__name__ for value in column[:10_000]})
        raise InvalidInputError(
            f"y holds labels of several types, {', '.join(kinds)}, which have no order ({error}); "
            "write all of them as text or as numbers"
        ) from error
    except ValueError as error:
        raise InvalidInputError(f"y must hold labels, text or whole numbers. {error}") from error


MOST_CLASSES = 200
"""More labels than these are numbers, or names of rows."""


def check_several_classes(classes: np.ndarray) -> None:
    """Refuse labels that are fewer than two, or no labels."""
    n = len(classes)
    if n < 2:
        found = "".join(map(repr, classes.tolist()))
        raise InvalidInputError(
            f"y must have two classes or more, found {n} class{'es' * (n == 0)}: {found}. "
            "A classifier needs rows of both classes."
        )
    if n > MOST_CLASSES:
        raise InvalidInputError(
            f"y has {n:,} distinct labels, such as {python_value(classes[0])!r}, expected at most "
            f"{MOST_CLASSES}; merge labels, or predict a number with FairGBMRegressor"
        )


def check_two_classes(classes: np.ndarray) -> None:
    """Refuse labels that are not two, where decisions are positive or negative."""
    n = len(classes)
    if n > 2:
        found = ", ".join([*map(repr, classes[:5].tolist()), *(["..."] if n > 5 else [])])
        raise InvalidInputError(
            f"y must have two classes, found {n} classes: {found}. Merge labels or judge one "
            "label against the others."
        )
    check_several_classes(classes)


def check_no_positive(classes: np.ndarray, pos_label: object) -> None:
    """Refuse a positive label where there are several classes, none of which is."""
    if pos_label is not None:
        raise InvalidInputError(
            f"pos_label={pos_label!r} says which of two labels is positive, but y has "
            f"{len(classes)} classes; leave it out"
        )


def read_weights(sample_weight: ArrayLike | None, n: int, part: bool = False) -> FloatArray | None:
    """Check sample weights: one per row, finite, not negative, not all zero unless of a part."""
    if sample_weight is None:
        return None
    refuse_name("sample_weight", sample_weight)
    if np.isscalar(sample_weight):
        sample_weight = np.full(n, sample_weight, np.float64)
    column = as_column(sample_weight)
    if column.ndim != 1:
        raise InvalidInputError(
            f"Sample weights must be 1D array or scalar, found {column.ndim} dimensions"
        )
    try:
        weight = column.astype(np.float64, copy=False)
    except (TypeError, ValueError) as error:
        raise InvalidInputError(f"sample_weight must be numbers: {error}") from error
    _check_length("sample_weight", len(weight), n, "X")
    with np.errstate(over="ignore"):
        single = weight.astype(np.float32)  # as engines keep it
    for wrong, rule, remedy in (
        (~np.isfinite(single), "be finite in single precision", "replace it, or drop the row"),
        (weight < 0, "not be negative", "a weight of 0 leaves a row out"),
    ):
        if wrong.any():
            row = int(np.argmax(wrong))
            raise InvalidInputError(
                f"sample_weight must {rule}, found {weight[row]} at row {row}; {remedy}"
            )
    if not part and not single.any():
        raise InvalidInputError(
            "Sample weights must contain at least one non-zero number; all are zero, so there is "
            "nothing to train on"
        )
    return weight


def check_both_classes_weigh(classes: np.ndarray, labels: IntArray, weight: FloatArray) -> None:
    """Refuse a class whose rows weigh nothing."""
    totals = np.bincount(labels, weight, len(classes))
    for label, total in zip(classes.tolist(), totals, strict=True):
        if total == 0:
            left = "one class to train on" if len(classes) == 2 else "nothing to learn of it from"
            raise InvalidInputError(
                f"sample_weight is zero on every row of class {label!r}, which leaves {left}; a "
                "classifier needs rows of both classes"
            )


def read_sensitive_features(
    sensitive_features: ArrayLike | None, n: int, numbers: Collection[str] = ()
) -> tuple[SensitiveColumn, ...]:
    """Sensitive columns of any type, as codes; of some names, as numbers.

    Examples
    --------
    >>> (column,) = read_sensitive_features(["b", None, "a", "b"], 4)
    >>> column.name, column.codes.tolist(), column.values
    ('sensitive_feature', [1, -1, 0, 1], ('a', 'b'))
    """
    if sensitive_features is None:
        return ()
    raw = named_columns(sensitive_features)
    _check_no_names(sensitive_features, n)
    for name, column in raw:
        _check_length(f"sensitive_features ({name})", len(column), n, "X")
    names = [name for name, _ in raw]
    if len(set(names)) < len(names):
        raise InvalidInputError(
            f"sensitive_features has columns of the same name: {names}; rename them"
        )
    return tuple(_read_column(name, column, name in numbers) for name, column in raw)


def _check_no_names(given: object, n: int) -> None:
    """Refuse a list that is perhaps of names of columns: few different texts for more rows."""
    if isinstance(given, np.ndarray | pd.Index | pd.Series) and np.ndim(given) == 1:
        given = list(map(python_value, given)) if len(given) < 20 else ()
    if not isinstance(given, list | tuple) or not len(given) < min(n, 20):
        return
    if given and all(isinstance(name, str) for name in given) and len(set(given)) == len(given):
        raise InvalidInputError(
            f"sensitive_features is {list(given)!r} and X has {n} rows, an inconsistent number "
            f"of samples; if these are names of columns, pass the columns, df[{list(given)!r}], "
            "else one value per row"
        )


def _read_column(name: str, column: Any, as_number: bool) -> SensitiveColumn:
    """A sensitive column: groups, probabilities of groups, or a number."""
    if isinstance(column, GroupProbabilities):
        if as_number:
            raise InvalidInputError(
                f"smooth({name!r}) compares rates over a number, and {name!r} has group "
                f"probabilities; compare its groups with by={name!r}"
            )
        return as_column_of_groups(column)
    if not as_number:
        return _encode_groups(name, column)
    found = read_numbers(name, column)
    return SensitiveColumn(name, np.full(len(found), -1, np.int8), (), numbers=found)


def _named(name: object, column: Any) -> tuple[str, Any]:
    """A column of a mapping; probabilities have a name of their own, which must be the same."""
    if not isinstance(column, GroupProbabilities):
        return str(name), _one_column(column)
    if column.name != name:
        raise InvalidInputError(
            f"sensitive_features has the group probabilities of {column.name!r} under the name "
            f"{name!r}; give both the same name"
        )
    return column.name, column


def named_columns(table: ArrayLike) -> Sequence[tuple[str, ArrayLike]]:
    """Take a table or a single column apart into named columns."""
    refuse_name("sensitive_features", table)
    if hasattr(table, "collect") and not hasattr(table, "shape"):
        raise InvalidInputError(
            f"sensitive_features is a {type(table).__name__}, not read yet; pass "
            "sensitive_features.collect()"
        )
    if isinstance(table, GroupProbabilities):
        return [(table.name, cast(Any, table))]
    if isinstance(table, Mapping):
        return [_named(name, column) for name, column in table.items()]
    if isinstance(table, pd.DataFrame):
        return [(str(name), column) for name, column in table.items()]
    if is_device_frame(table):
        return [(str(name), plain_column(table[name])) for name in table.columns]
    if is_device_column(table):
        name = getattr(table, "name", None)
        return [(DEFAULT_COLUMN if name in (None, "") else str(name), plain_column(table))]
    table = _ordered_of_arrow(table)
    if isinstance(table, pd.Categorical):
        table = pd.Series(table)
    native = nw.from_native(table, allow_series=True, eager_only=True, pass_through=True)
    if isinstance(native, nw.DataFrame):
        return [(name, _plain(native[name])) for name in native.columns]
    if isinstance(native, nw.Series):
        name = DEFAULT_COLUMN if native.name in (None, "") else str(native.name)
        return [(name, _one_column(table))]
    array = table if is_device_array(table) else _factorizable(table)
    if array.ndim == 0:
        raise InvalidInputError(
            f"sensitive_features is {table!r}, expected a column with one value per row; pass "
            "the column"
        )
    if array.ndim == 2 and array.shape[1] > 1:
        return [(f"{DEFAULT_COLUMN}_{k}", array[:, k]) for k in range(array.shape[1])]
    if array.ndim > 2:
        raise InvalidInputError(
            f"sensitive_features must be one column or a table of columns, found an array of "
            f"{array.ndim} dimensions"
        )
    return [(DEFAULT_COLUMN, array.reshape(-1))]


def _one_column(column: ArrayLike) -> Any:
    """A column that factorize reads; one of pandas as it is, for the order of its categories."""
    column = _ordered_of_arrow(column)
    if isinstance(column, pd.Series | pd.Categorical):
        return column
    native = nw.from_native(column, series_only=True, pass_through=True)
    return _plain(native) if isinstance(native, nw.Series) else _factorizable(column)


def _ordered_of_arrow(column: Any) -> Any:
    """A column of Arrow with categories, in no table, as one of pandas; others as they are."""
    coded = hasattr(column, "dictionary") and hasattr(column, "to_pandas")
    return column.to_pandas() if coded else column


def _factorizable(column: ArrayLike) -> np.ndarray:
    """Make an array without turning mixed values or None into strings."""
    column = plain_column(column)
    if is_device_array(column):
        found: np.ndarray = column
        return found
    if not isinstance(column, list | tuple):
        return as_column(column)
    if any(isinstance(value, list | tuple | np.ndarray) for value in column):
        return np.array(column, object)
    return np.asarray(pd.Series(column, dtype=object))


def _encode_groups(name: str, column: ArrayLike) -> SensitiveColumn:
    codes, values = distinct_groups(name, column)
    check_groups(name, len(values), int(np.count_nonzero(codes >= 0)))
    order, kind = sorted_order(values, listed_order(column)), _code_type(len(values))
    if not np.array_equal(order, np.arange(len(order))):
        # The last is that of code -1, a missing group, which stays -1.
        rank = np.full(len(order) + 1, -1, kind)
        rank[order] = np.arange(len(order))
        codes = rank[codes]
    names = tuple(values[k] for k in order)
    check_names_differ(name, names)
    return SensitiveColumn(name, codes.astype(kind, copy=False), names)


def _code_type(n_values: int) -> np.dtype[Any]:
    """The type of groups' codes, with room for one more: a byte each, as a rule."""
    return np.min_scalar_type(-n_values - 1)


def distinct_groups(name: str, column: ArrayLike) -> tuple[IntArray, np.ndarray]:
    """The group of each row, -1 where it is missing, as a position among those that occur."""
    if is_device_array(column) and column.dtype.kind in "iub":  # whole numbers are never missing
        values, places = np.unique(column, return_inverse=True)
        uniques = on_host(values)
        return on_host(places.astype(_code_type(len(uniques)))), uniques.astype(object)
    try:
        codes, uniques = pd.factorize(on_host(column), use_na_sentinel=True)
    except TypeError as error:  # lists, or rows of unequal length
        raise InvalidInputError(
            f"sensitive column {name!r} must hold one plain value per row: {error}"
        ) from error
    return codes, np.fromiter(map(group_value, uniques), object, len(uniques))


def check_groups(name: str, n_values: int, known: int, few: int = 2) -> None:
    """Refuse a column that has no groups, or almost as many as rows.

    Parameters
    ----------
    name : str
        The column.
    n_values, known : int
        Distinct values, and rows that have one.
    few : int
        Values that are not too many, however few the rows are.
    """
    if known == 0:
        raise InvalidInputError(
            f"sensitive column {name!r} is missing in every row; there is no group to compare"
        )
    if n_values > max(few, known / 2):
        raise InvalidInputError(
            f"sensitive column {name!r} has {n_values} distinct values in {known} rows, almost "
            "one per row; expected groups of many rows. Is it an identifier or a number that "
            f"should be cut into bands? A number is compared as it is by smooth({name!r})"
        )


def python_value(value: object) -> object:
    """A value of NumPy as one of Python."""
    return value.item() if isinstance(value, np.generic) else value


def listed_order(column: Any) -> list[object]:
    """The categories of an ordered categorical column, in their order; none of any other."""
    kind = getattr(column, "dtype", None)
    if not isinstance(kind, pd.CategoricalDtype) or not kind.ordered:
        return []
    return [group_value(value) for value in kind.categories]


def sorted_order(values: np.ndarray, listed: Sequence[object] = ()) -> np.ndarray:
    """Sort groups so that codes do not depend on the order of rows; as they are listed, if so."""
    if listed:
        place = {value: k for k, value in enumerate(listed)}
        return np.argsort([place[value] for value in values], kind="stable")
    try:
        return np.argsort(values, kind="stable")
    except TypeError:  # values of several types: by type, then as text
        keys = [(type(v).__name__, str(v)) for v in values]
        return np.array(sorted(range(len(keys)), key=keys.__getitem__), dtype=np.intp)


def by_row(X: Matrix) -> Matrix:
    """Return a table whose rows can be picked quickly: a sparse one as CSR, others as they are."""
    return csr_matrix(X) if issparse(X) else X


def take_columns(X: Matrix, columns: Sequence[int]) -> Matrix:
    """Pick columns of a table in any form, by their positions.

    Examples
    --------
    >>> take_columns(np.array([[1, 2, 3]]), [2, 0]).tolist()
    [[3, 1]]
    """
    which = list(columns)
    if hasattr(X, "iloc"):
        return X.iloc[:, which]
    if not hasattr(X, "shape"):  # a list of lists
        return np.asarray(X)[:, which]
    if names := column_names(X):  # of polars or Arrow
        return X.select([names[k] for k in which])
    return by_row(X)[:, which]


def take_rows(X: Matrix, rows: np.ndarray) -> Matrix:
    """Pick rows of a table in any form the engine takes; sparse ones through :func:`by_row`."""
    if isinstance(X, GroupProbabilities):
        return X.take(rows)
    if hasattr(X, "iloc"):
        return X.iloc[rows]
    if not hasattr(X, "shape"):  # a list of lists
        return [X[i] for i in rows]
    return X.take(rows) if hasattr(X, "column_names") else X[rows]  # an Arrow table; all others


def _check_length(what: str, found: int, expected: int, reference: str) -> None:
    if found != expected:
        raise InvalidInputError(
            f"{what} has {found} rows but {reference} has {expected}, an inconsistent number of "
            "samples; pass one value per row"
        )
