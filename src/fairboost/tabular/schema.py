"""From a table to what a model trains on, remembered so that new tables are read the same way.

:func:`infer_schema` says what each column is; the :class:`TableSchema` is written beside the model
as ``schema.json``, and turns any later table, or a batch of one, into the same features: the
same columns in the same order, categories known by the same codes, those unseen in training
missing.
"""

from __future__ import annotations

import json
import re
import unicodedata
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from itertools import chain, combinations, count
from pathlib import Path
from typing import Any, Literal, TypeAlias

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc

from fairboost._files import checksum
from fairboost._records import read_as
from fairboost._text import did_you_mean
from fairboost._typing import BoolArray, FloatArray, IntArray
from fairboost.data.labels import says_yes
from fairboost.exceptions import InvalidInputError, ModelFileError
from fairboost.metrics.sums import check_crossings
from fairboost.tabular import columns
from fairboost.tabular.labels import MOST_CLASSES

FORMAT = "fairboost-schema"
FORMAT_VERSION = 4
READ_VERSIONS = (2, 3, FORMAT_VERSION)
"""In version 2 there were no numbers to predict, and all engines were given text; up to version 3
a label had two values, or was a number."""

Task: TypeAlias = Literal["classification", "classes", "regression"]

CSV_TYPES = {"number": pa.float64(), "flag": pa.bool_(), "category": pa.string()}
"""Types to read features as from a CSV file."""

MOST_GROUPS = 1_000
MOST_NUMBERS = 50
"""More distinct numbers in a sensitive column are a quantity and not groups."""


def check_named_once(columns: Sequence[str], options: str) -> None:
    """Raise if a column is named by two of the options, which are named for the message."""
    if twice := [name for name in columns if columns.count(name) > 1]:
        raise InvalidInputError(
            f"the column {twice[0]!r} is named twice among {options}; each column has one part to "
            "play"
        )


def crossings_of(columns: Sequence[str]) -> list[tuple[str, ...]]:
    """Every column by itself, every two of them, and all together."""
    sizes = sorted({1, min(2, len(columns)), len(columns)})
    return [those for size in sizes for those in combinations(columns, size)]


@dataclass(frozen=True)
class Roles:
    """What the user says of the columns.

    Parameters
    ----------
    label : str
        The column to predict.
    sensitive : tuple of str
        The columns that say which groups a row belongs to.
    positive : str, optional
        The label that decisions are after; told by its name if left out ("yes", "1", "true").
    weight : str, optional
        The column of weights.
    aware : bool
        Whether sensitive columns are features too.
    categorical : tuple of str
        Columns whose numbers are codes.
    dropped : tuple of str
        Columns that are no features.
    task : {"classification", "classes", "regression"}
        Whether the label is one of two values, of several, or a number.
    exposure : str, optional
        The column of exposures, of numbers.
    coded : bool
        Whether the engine is to know categories by their places, and columns by names in ASCII.
    """

    label: str
    sensitive: tuple[str, ...]
    positive: str | None = None
    weight: str | None = None
    aware: bool = False
    categorical: tuple[str, ...] = ()
    dropped: tuple[str, ...] = ()
    task: Task = "classification"
    exposure: str | None = None
    coded: bool = False

    def __post_init__(self) -> None:
        special = [self.label, *self.sensitive, *self._of_rows()]
        check_named_once(special, "--label, --sensitive, --weight and --exposure")
        check_crossings(crossings_of(self.sensitive))
        if needed := [name for name in special if name in self.dropped]:
            raise InvalidInputError(
                f"the column {needed[0]!r} is needed and cannot be dropped; leave --drop out: "
                "labels, weights, exposures and (unless --aware) sensitive columns are no "
                "features anyway"
            )

    def columns(self) -> list[str]:
        """Name every column that the user names."""
        named = [self.label, *self.sensitive, *self._of_rows()]
        return [*named, *self.categorical, *self.dropped]

    def _of_rows(self) -> list[str]:
        """Columns that say how much a row counts."""
        return list(filter(None, [self.weight, self.exposure]))

    def text_columns(self) -> list[str]:
        """Columns to read as text, even if they look like numbers."""
        return list(dict.fromkeys([self.label, *self.sensitive, *self.categorical]))


@dataclass(frozen=True)
class FeatureColumn:
    """One feature.

    Parameters
    ----------
    name : str
        The column of the file.
    feature : str
        The same as engines know it: some characters mean something to them.
    kind : {"number", "flag", "category"}
        What it is.
    categories : tuple of str
        Its values, if it is a category; the engine knows each by its place here.
    """

    name: str
    feature: str
    kind: columns.Kind
    categories: tuple[str, ...] = ()

    def values(self, column: Any, *, coded: bool = False) -> FloatArray | pd.Categorical[Any]:
        """Values of a column as the engine takes them; unknown categories are missing.

        Parameters
        ----------
        column : pyarrow.Array
            The column.
        coded : bool, default=False
            Whether categories are named by their places, and not by their text.
        """
        if self.kind != "category":
            return columns.as_numbers(column)
        codes = columns.places(columns.as_text(column), self.categories)
        names = pd.RangeIndex(len(self.categories)) if coded else pd.Index(self.categories)
        return pd.Categorical.from_codes(codes, names)


@dataclass(frozen=True)
class TableSchema:
    """What the columns of a table are to a model.

    Parameters
    ----------
    label : str
        The column that was predicted.
    classes : tuple of str, or None
        Its values: of two the positive one last, of more in order; None if it is a number.
    sensitive : tuple of str
        The sensitive columns.
    weight : str or None
        The column of weights.
    aware : bool
        Whether sensitive columns are among the features.
    columns : tuple of FeatureColumn
        The features, in order.
    dropped : dict of str to str
        Columns that are no features, and why.
    missing : tuple of str
        Spellings of a missing value in CSV files, beside the usual ones.
    exposure : str or None
        The column of exposures.
    coded : bool
        Whether the engine knows categories by their places alone: XGBoost 3.2 mixes up names that
        are not ASCII.
    """

    label: str
    classes: tuple[str, ...] | None
    sensitive: tuple[str, ...]
    weight: str | None
    aware: bool
    columns: tuple[FeatureColumn, ...]
    dropped: dict[str, str]
    missing: tuple[str, ...] = ()
    exposure: str | None = None
    coded: bool = False

    def csv_types(self) -> dict[str, pa.DataType]:
        """The columns that features are made of, and the types to read them as from CSV."""
        return {column.name: CSV_TYPES[column.kind] for column in self.columns}

    def features(self, table: Any) -> pd.DataFrame:
        """Features of a table or batch that has the columns."""
        data = {}
        for column in self.columns:
            with columns.converting(
                f"column {column.name!r} holds something else than in training, where it was a "
                f"{column.kind}",
                "; convert it",
            ):
                data[column.feature] = column.values(table.column(column.name), coded=self.coded)
        return pd.DataFrame(data)

    def unseen(self, features: pd.DataFrame, table: Any) -> dict[str, int]:
        """How many values of each category training did not have: they became missing."""
        return {
            column.name: int((features[column.feature].cat.codes < 0).sum())
            - columns.missing(table.column(column.name))
            for column in self.columns
            if column.kind == "category"
        }

    def labels(self, table: Any, where: str) -> tuple[IntArray | FloatArray, BoolArray]:
        """Labels as the model takes them, and which rows have one; ``where`` names the file."""
        if self.classes is None:
            return numbers_of_label(table.column(self.label), f"{self.label!r} of {where}")
        text = _text_of(table, self.label)
        codes = columns.places(text, self.classes)
        known = text.is_valid().to_numpy(zero_copy_only=False).astype(bool)
        unknown = known & (codes < 0)
        if unknown.any():
            raise InvalidInputError(
                f"the label {self.label!r} of {where} has the value "
                f"{text[int(unknown.argmax())].as_py()!r}, expected those of training, "
                f"{in_a_row(self.classes)}; use the same codes in both"
            )
        return self.label_values[codes.clip(0)], known

    @property
    def several(self) -> bool:
        """Whether there are three classes or more."""
        return self.classes is not None and len(self.classes) > 2

    @property
    def label_values(self) -> np.ndarray:
        """What the model knows the classes as: 0 and 1 of two, of more whole numbers or text."""
        assert self.classes is not None
        return class_values(self.classes) if self.several else np.arange(2, dtype=np.int8)

    def groups(self, table: Any) -> pd.DataFrame:
        """Sensitive columns as text; None where missing."""
        found = {}
        for name in self.sensitive:
            text = _text_of(table, name)
            coded = pa.types.is_dictionary(table.column(name).type)
            check_groups(name, pc.unique(text).drop_null().to_pylist(), numbers=not coded)
            found[name] = text.to_numpy(zero_copy_only=False)
        return pd.DataFrame(found, dtype=object)

    def weights(self, table: Any) -> FloatArray | None:
        """The column of weights, if there is one."""
        if self.weight is None:
            return None
        with columns.converting(f"--weight {self.weight!r} must hold numbers"):
            return columns.as_numbers(table.column(self.weight))

    def write(self, path: Path, model: str = "") -> None:
        """Write it as JSON, sealed; ``model`` is the seal of the model that it belongs to."""
        content = {"model_sha256": model, **asdict(self)}
        sealed = {
            "format": FORMAT,
            "format_version": FORMAT_VERSION,
            "sha256": checksum(content),
            **content,
        }
        path.write_text(json.dumps(sealed, indent=1, ensure_ascii=False) + "\n", "utf-8")

    @classmethod
    def load(cls, path: Path, model: str | None = None) -> TableSchema:
        """Read what :meth:`write` wrote; raises if it was edited, or is that of another model."""
        try:
            content = json.loads(path.read_text("utf-8"))
        except (ValueError, RecursionError) as error:
            message = f"{path} does not parse as JSON ({error}); train again"
            raise ModelFileError(message) from error
        if (
            not isinstance(content, dict)
            or content.pop("format", None) != FORMAT
            or content.pop("format_version", None) not in READ_VERSIONS
        ):
            raise ModelFileError(
                f"{path} is not a schema that this fairboost reads: expected format {FORMAT!r}, "
                f"version {' or '.join(map(str, READ_VERSIONS))}; train again, or install the "
                "version that wrote it"
            )
        seal = content.pop("sha256", None)
        try:
            if checksum(content) != seal:
                raise ValueError("its content does not match its checksum")
            if content.pop("model_sha256") != model and model is not None:
                raise ValueError("it belongs to another model.json than the one beside it")
            return _from_plain(content)
        except (KeyError, ValueError) as error:
            raise ModelFileError(
                f"{path} was edited or damaged: {error}; restore the folder, or train again"
            ) from error


def _from_plain(content: dict[str, Any]) -> TableSchema:
    """A schema from the values of its file; raises where these are of other types."""
    schema: TableSchema = read_as(TableSchema, content, "the schema")
    classes = schema.classes
    if classes is not None and not len(classes) == len(set(classes)) >= 2:
        raise ValueError("it has no two labels")
    if not schema.columns or (schema.several and classes != _in_order(schema.classes or ())):
        raise ValueError("it has no columns, or classes that are out of order")
    return schema


def infer_schema(
    table: Any, roles: Roles, missing: tuple[str, ...] = ()
) -> tuple[TableSchema, list[str]]:
    """Say what each column is to a model.

    Parameters
    ----------
    table : pyarrow.Table
        The rows to train on.
    roles : Roles
        What the user says of the columns.
    missing : tuple of str
        Spellings of a missing value, to be remembered.

    Returns
    -------
    schema : TableSchema
    remarks : list of str
        What the user should know: columns left out and why, columns to look at.
    """
    special = {roles.label, roles.weight, roles.exposure}
    special.update(() if roles.aware else roles.sensitive)
    dropped = dict.fromkeys(roles.dropped, "dropped on request")
    remarks: list[str] = []
    why: dict[str, list[str]] = {}
    features: list[FeatureColumn] = []
    taken: set[str] = set()
    for name in table.column_names:
        if name in special or name in dropped:
            continue
        judged = columns.judge(table.column(name), categorical=name in roles.categorical)
        if judged.kind is None:
            dropped[name] = judged.remark
            why.setdefault(judged.remark, []).append(repr(name))
            continue
        if judged.remark:
            remarks.append(f"column {name!r} {judged.remark}")
        feature = _engine_name(name, taken, in_ascii=roles.coded)
        taken.add(feature)
        features.append(FeatureColumn(name, feature, judged.kind, judged.categories))
    if not features:
        raise InvalidInputError(
            "no column is left to train on; found only the label, the sensitive columns and what "
            f"was left out ({', '.join(dropped) or 'nothing'}); add features"
        )
    classes: tuple[str, ...] | None = None
    if roles.task != "regression":
        labels = pc.unique(_text_of(table, roles.label)).drop_null().to_pylist()
        if roles.task == "classes":
            classes = several_of(labels, roles.label)
        else:
            classes = classes_of(labels, roles.label, roles.positive)
    schema = TableSchema(
        label=roles.label,
        classes=classes,
        sensitive=roles.sensitive,
        weight=roles.weight,
        aware=roles.aware,
        columns=tuple(features),
        dropped=dropped,
        missing=missing,
        exposure=roles.exposure,
        coded=roles.coded,
    )
    left_out = [
        f"{'column' if len(names) == 1 else 'columns'} {', '.join(names)} "
        f"{'is' if len(names) == 1 else 'are'} left out: {reason}"
        for reason, names in why.items()
    ]
    return schema, [*left_out, *remarks]


def read_exposures(
    table: Any, name: str | None, *, zero: bool = False, before: int = 0
) -> FloatArray | None:
    """A column of exposures, if there is one.

    Parameters
    ----------
    table : pyarrow.Table or RecordBatch
        Has the column.
    name : str or None
        The column.
    zero : bool, default=False
        Whether 0 is an exposure: nothing can be learned from it, but it can be predicted for.
    before : int
        Rows of the file that come before.
    """
    if name is None:
        return None
    with columns.converting(f"--exposure {name!r} must hold numbers"):
        found = columns.as_numbers(table.column(name))
    wrong = ~np.isfinite(found) | (found < 0 if zero else found <= 0)
    if wrong.any():
        row = int(wrong.argmax())
        is_it = "missing" if np.isnan(found[row]) else f"{found[row]:g}"
        raise InvalidInputError(
            f"--exposure {name!r} is {is_it} in row {before + row + 1:,}, expected a number "
            f"{'of 0 or more' if zero else 'above 0'} in every row; leave such rows out (there "
            f"are {wrong.sum():,} among {len(found):,})"
        )
    return found


def numbers_of_label(column: Any, what: str, before: int = 0) -> tuple[FloatArray, BoolArray]:
    """A label as numbers, and which rows have one.

    Parameters
    ----------
    column : pyarrow.Array
        The label.
    what : str
        What messages call it.
    before : int
        Rows of the file that come before.
    """
    with columns.converting(f"the label {what} must hold numbers", "; name another"):
        numbers, wrong = columns.read_numbers(column)
    unfit = wrong | np.isinf(numbers)
    if unfit.any():
        row = int(unfit.argmax())
        value = columns.decoded(column)[row].as_py()
        remedy = (
            f"correct such rows (there are {unfit.sum():,} among {len(unfit):,}), or, where it "
            f"stands for a missing value of a CSV file, pass --missing {value!r}"
        )
        if (unfit | np.isnan(numbers)).all():
            remedy = "name a column of numbers, or pass --task classification"
        raise InvalidInputError(
            f"the label {what} is {value!r} in row {before + row + 1:,}, expected a number; "
            f"{remedy}"
        )
    return numbers, ~np.isnan(numbers)


def _text_of(table: Any, name: str) -> Any:
    """A column of labels or groups, as text."""
    with columns.converting(f"the column {name!r} must hold text or numbers", "; name another"):
        return columns.as_text(table.column(name))


def check_groups(name: str, values: Sequence[str], *, numbers: bool = True) -> None:
    """Raise if a sensitive column has too many groups.

    Parameters
    ----------
    name : str
        The column.
    values : sequence of str
        Its different values, as far as the table was read.
    numbers : bool, default=True
        Whether values that are all numbers are a quantity; otherwise they are names of groups.
    """
    most, noun = MOST_GROUPS, "values"
    remedy = "add a column with fewer groups, and name that"
    if numbers and not columns.read_numbers(pa.array(values, pa.string()))[1].any():
        most, noun = MOST_NUMBERS, "numbers"
        remedy = (
            "add a column of bands, such as 20-29 and 30-39, and name that; if the numbers are "
            "codes of groups, write them as text, such as 'area 12'"
        )
    if len(values) > most:
        raise InvalidInputError(
            f"the sensitive column {name!r} must hold groups of many rows, at most {most:,} "
            f"different {noun}, found {len(values):,}; {remedy}"
        )


def classes_of(
    values: Iterable[str], label: str, positive: str | None, what: str = "label"
) -> tuple[str, str]:
    """The two values of a label, the positive one last.

    Parameters
    ----------
    values : iterable of str
        The values that were found.
    label : str
        The column.
    positive : str, optional
        The positive one, if the user names it.
    what : str
        What messages call the column.

    Examples
    --------
    >>> classes_of(["yes", "no"], "approved", None)
    ('no', 'yes')
    """
    found = sorted(values)
    if len(found) != 2:
        shown = ", ".join(map(repr, found[:5])) + (", ..." if len(found) > 5 else "")
        remedy = "rows of both labels are needed"
        if len(found) > 2:
            remedy = (
                "merge labels, add a column that says yes or no, or decide among classes: pass "
                "--task classes, and no --positive"
            )
        raise InvalidInputError(
            f"the label {label!r} must have two values, found {len(found)}: {shown or 'none'}; "
            f"{remedy}"
        )
    last = _positive(found, label, positive, what)
    return found[1 - found.index(last)], last


def several_of(values: Iterable[str], label: str) -> tuple[str, ...]:
    """The classes of a label, three or more, in order.

    Parameters
    ----------
    values : iterable of str
        The values that were found.
    label : str
        The column.

    Examples
    --------
    >>> several_of(["10", "9", "8"], "grade"), several_of(["low", "high", "middle"], "risk")
    (('8', '9', '10'), ('high', 'low', 'middle'))
    """
    found = _in_order(values)
    if 3 <= len(found) <= MOST_CLASSES:
        return found
    shown = ", ".join(map(repr, found[:5])) + (", ..." if len(found) > 5 else "")
    remedy = "merge values, or, if it is a number, pass --task regression"
    if len(found) < 3:
        remedy = "leave --task classes out where there are two; else pass rows of all classes"
    raise InvalidInputError(
        f"the label {label!r} must have 3 to {MOST_CLASSES} values to decide among, found "
        f"{len(found)}: {shown or 'none'}; {remedy}"
    )


def class_values(classes: Sequence[str]) -> np.ndarray:
    """What the library knows classes as: whole numbers, or text.

    Examples
    --------
    >>> class_values(["8", "9", "10"]).tolist(), class_values(["A", "B", "1"]).tolist()
    ([8, 9, 10], ['A', 'B', '1'])
    """
    return np.array(list(map(int, classes)) if _whole(classes) else list(classes))


def in_a_row(names: Sequence[str]) -> str:
    """Names in a sentence.

    Examples
    --------
    >>> in_a_row(["A", "B", "C"])
    "'A', 'B' and 'C'"
    """
    *first, last = map(repr, names)
    return f"{', '.join(first)} and {last}" if first else last


def _in_order(classes: Iterable[str]) -> tuple[str, ...]:
    """Classes as the library orders them: whole numbers as numbers."""
    found = tuple(classes)
    return tuple(sorted(found, key=int if _whole(found) else None))


def _whole(classes: Iterable[str]) -> bool:
    """Whether all are whole numbers, written the same way."""
    return all(re.fullmatch(r"0|-?[1-9][0-9]{0,17}", one) for one in classes)


def _positive(values: list[str], label: str, asked: str | None, what: str = "label") -> str:
    """The label that was asked for, or the one that says yes."""
    if asked is not None:
        same = [v for v in values if v == asked]
        same = same or [v for v in values if v.lower() == asked.lower()]
        if len(same) == 1:
            return same[0]
        raise InvalidInputError(
            f"--positive {asked!r} is not among the values of {label!r}, which are {values[0]!r} "
            f"and {values[1]!r}; name one of them{did_you_mean(asked, values)}"
        )
    for positive, negative in (values, reversed(values)):
        if says_yes(positive, negative):
            return positive
    raise InvalidInputError(
        f"the {what} {label!r} is {values[0]!r} or {values[1]!r}, and the command cannot tell "
        f"which value is the positive one; pass --positive {values[0]!r} or --positive "
        f"{values[1]!r}"
    )


def _engine_name(name: str, taken: set[str], *, in_ascii: bool) -> str:
    """A name that engines take: some characters mean something to them."""
    if in_ascii:  # without accents, which are characters of their own in that form
        letters = unicodedata.normalize("NFKD", name)
        name = "".join(c if c.isascii() else "_" for c in letters if not unicodedata.combining(c))
    plain = re.sub(r'[\[\]{}":,<>\s\x00-\x1f]', "_", name) or "_"
    candidates = chain([plain], (f"{plain}_{k}" for k in count(2)))
    return next(c for c in candidates if c not in taken)
