"""The rows of a study: read, divided into training, validation and test rows, and checked."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from fairboost.datasets import load, make_account_opening, make_loans
from fairboost.datasets.files import SPECS, find_file
from fairboost.exceptions import InvalidInputError
from fairboost.fairness.rates import RATES
from fairboost.study.config import StudyConfig

READERS: dict[str, Callable[..., pd.DataFrame]] = {
    ".csv": pd.read_csv,
    ".parquet": pd.read_parquet,
}


@dataclass(frozen=True)
class Rows:
    """Some rows: features, labels (0 and 1), groups."""

    X: pd.DataFrame
    y: NDArray[Any]
    s: pd.Series[Any]

    def take(self, which: NDArray[Any] | slice) -> Rows:
        """Those at the given positions."""
        return Rows(self.X.iloc[which], self.y[which], self.s.iloc[which])

    def without(self, columns: Sequence[str]) -> Rows:
        """The same rows without some features, as far as they are there."""
        return Rows(self.X.drop(columns=[c for c in columns if c in self.X]), self.y, self.s)

    def __len__(self) -> int:
        return len(self.y)


@dataclass(frozen=True)
class Source:
    """All rows, before they are divided.

    Parameters
    ----------
    rows : Rows
        The sensitive column is among the features, unless the data never has it there.
    hidden : tuple of str
        Features that blind methods do not see.
    time : Series, optional
        The time of every row, for a temporal split.
    checksum : str
        SHA-256 of the file, or of the rows made.
    description : dict
        For the manifest.
    """

    rows: Rows
    hidden: tuple[str, ...]
    time: pd.Series[Any] | None
    checksum: str
    description: dict[str, Any]


@dataclass(frozen=True)
class Split:
    """The rows of one split."""

    train: Rows
    validation: Rows
    test: Rows

    def without(self, columns: Sequence[str]) -> Split:
        """The same rows without some features."""
        return Split(*(part.without(columns) for part in vars(self).values()))

    def sizes(self) -> dict[str, int]:
        """Rows of each part."""
        return {name: len(part) for name, part in vars(self).items()}


def read_source(config: StudyConfig) -> Source:
    """Read all rows of a study.

    Parameters
    ----------
    config : StudyConfig
        Columns that are not there raise an error that names the line.
    """
    if config.data.generator is not None:
        return _make(config)
    if config.data.table is not None:
        return _read_table(config, config.data.table)
    assert config.data.file is not None
    return _read_file(config, config.data.file)


def divide(config: StudyConfig, source: Source, seed: int) -> Split:
    """Divide rows into training, validation and test rows.

    Parameters
    ----------
    config : StudyConfig
        How.
    source : Source
        All rows; as many as asked for are drawn first.
    seed : int
        Of the draw and of a random split.
    """
    wanted = None if config.data.generator else config.data.rows
    order = np.random.default_rng([seed, 1]).permutation(len(source.rows))[:wanted]
    if config.split.kind == "random":
        cuts = np.rint(np.cumsum(config.split.shares[:2]) * len(order)).astype(int)
        places = np.split(order, cuts)
    else:
        places = _by_time(config, source, np.sort(order))
    split = Split(*(source.rows.take(place) for place in places))
    for name, part in vars(split).items():
        _check_part(config, name, part)
    return split


def _by_time(config: StudyConfig, source: Source, order: NDArray[Any]) -> list[NDArray[Any]]:
    assert source.time is not None
    time, first, second = source.time, config.split.validation_from, config.split.test_from
    if not pd.api.types.is_numeric_dtype(time):
        time = pd.to_datetime(time)
        first, second = pd.Timestamp(first), pd.Timestamp(second)
    try:
        after = (time >= first).to_numpy().astype(int) + (time >= second).to_numpy()
    except TypeError as error:
        raise config.error(
            "split.validation_from",
            f"validation_from and test_from cannot be compared with the times in "
            f"{config.split.column!r} ({error}); write them as they are there",
        ) from error
    return [order[after[order] == k] for k in range(3)]


def _check_part(config: StudyConfig, name: str, part: Rows) -> None:
    key = "split.shares" if config.split.kind == "random" else "split.validation_from"
    config.check(key, len(part), f"there are no {name} rows; move the split")
    for rate in config.metrics.rates:
        measured = set(part.s[RATES[rate].counts(part.y)])
        for group in part.s.dropna().unique():
            config.check(
                key, group in measured,
                f"no {name} row of group {group!r} counts towards the {RATES[rate].title}; "
                "take more rows, move the split, or merge groups",
            )  # fmt: skip
    config.check(
        "data.sensitive", part.s.nunique() > 1,
        f"the {name} rows have {part.s.nunique()} group, and there is nothing to compare; "
        "name another column, or move the split",
    )  # fmt: skip


def _make(config: StudyConfig) -> Source:
    data = config.data
    if data.generator == "loans":
        loans = make_loans(data.rows or 20_000)
        hidden = _sensitive(config, list(loans.sensitive), "sex")
        group, time = loans.sensitive[hidden], None
        rows = Rows(loans.X.assign(**{hidden: group}), loans.y, group)
    else:
        made = make_account_opening(data.rows or 500_000)
        _sensitive(config, ["age_group"], "age_group")
        hidden, time = "age", pd.Series(made.month, name="month")
        rows = Rows(made.X, made.y, made.age_group)
    _check_present(config, rows.X, "drop")
    _time_column(config, [] if time is None else ["month"])
    hashes = pd.util.hash_pandas_object(rows.X, index=False).to_numpy()
    checksum = hashlib.sha256(hashes.tobytes() + rows.y.tobytes()).hexdigest()
    description = {"generator": data.generator, "rows": len(rows)}
    return Source(rows.without(data.drop), (hidden, *data.restates), time, checksum, description)


def _read_table(config: StudyConfig, name: str) -> Source:
    try:
        path, table = find_file(name, None), load(name)
    except InvalidInputError as error:
        raise config.error("data.table", str(error)) from error
    spec = SPECS[name]
    column = _sensitive(config, list(table.sensitive), spec.sensitive[0])
    _check_present(config, table.X, "drop", "restates")
    rows = Rows(table.X, table.y, table.sensitive[column])
    return _of_file(config, path, rows, table.X, (column, *spec.restated), table=name)


def _read_file(config: StudyConfig, path: Path) -> Source:
    data = config.data
    assert data.label is not None and data.sensitive is not None
    unknown = f"cannot tell what {path.name!r} is; expected a name in .csv or .parquet"
    config.check("data.file", path.suffix in READERS, unknown)
    try:
        frame = READERS[path.suffix](path)
    except (OSError, ValueError) as error:
        raise config.error("data.file", f"cannot read {str(path)!r} ({error})") from error
    _check_present(config, frame, "label", "sensitive", "drop", "restates", "categorical")
    X = frame.drop(columns=[data.label, *data.drop])
    text = [c for c in X if not pd.api.types.is_numeric_dtype(X[c])]
    coded = [*text, *(c for c in data.categorical if c in X)]
    X = X.astype(dict.fromkeys(coded, "category"))
    rows = Rows(X, _labels(config, frame[data.label]), frame[data.sensitive])
    return _of_file(config, path, rows, frame, (data.sensitive,))


def _of_file(
    config: StudyConfig,
    path: Path,
    rows: Rows,
    frame: pd.DataFrame,
    hidden: tuple[str, ...],
    **about: Any,
) -> Source:
    """Rows of a file, less the columns that are no features; ``frame`` has the times."""
    column = _time_column(config, list(frame))
    time = None if column is None else frame[column]
    with path.open("rb") as file:
        checksum = hashlib.file_digest(file, "sha256").hexdigest()
    about |= {"file": path.name, "bytes": path.stat().st_size, "rows": len(rows)}
    rows = rows.without([*config.data.drop, *([] if column is None else [column])])
    hidden = tuple(dict.fromkeys((*hidden, *config.data.restates)))
    return Source(rows, hidden, time, checksum, about)


def _labels(config: StudyConfig, column: pd.Series[Any]) -> NDArray[Any]:
    values = column.dropna().unique().tolist()
    if len(values) != 2 or column.isna().any():
        missing = ", some missing" if column.isna().any() else ""
        raise config.error(
            "data.label",
            f"the label {column.name!r} must have two values, found {len(values)} "
            f"({', '.join(map(repr, values[:5]))}){missing}; merge them or drop rows",
        )
    positive = max(values) if config.data.positive is None else config.data.positive
    config.check(
        "data.positive", positive in values,
        f"the label {column.name!r} is never {positive!r}; its values are "
        f"{', '.join(map(repr, values))}",
    )  # fmt: skip
    return (column == positive).to_numpy(np.int8)


def _sensitive(config: StudyConfig, columns: Sequence[Any], default: str) -> str:
    column = config.data.sensitive or default
    wrong = f"{column!r} is no sensitive column of this data; expected {', '.join(columns)}"
    config.check("data.sensitive", column in columns, wrong)
    return column


def _check_present(config: StudyConfig, frame: pd.DataFrame, *keys: str) -> None:
    """Raise if a column that some key names is not there."""
    for key in keys:
        value = getattr(config.data, key)
        for name in [value] if isinstance(value, str) else value:
            columns = ", ".join(map(str, frame.columns[:30]))
            absent = f"there is no column {name!r}; the columns are {columns}"
            config.check(f"data.{key}", name in frame, absent)


def _time_column(config: StudyConfig, columns: Sequence[Any]) -> str | None:
    """The column to split by, which has to be there; None for a random split."""
    column = config.split.column
    if config.split.kind == "random":
        return None
    expected = ", ".join(map(str, columns[:30])) or "a random split"
    absent = f"there is no column {column!r} to split by; expected {expected}"
    config.check("split.column", column in columns, absent)
    return column
