"""Readers for the real tables that studies, benchmarks and slow tests use.

The files are not part of the package (some licences forbid it); they lie in a folder, each as
``<name>.parquet``. What is label, what is group and what is left out is data: one :class:`Spec`
per file in :data:`SPECS`.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from fairboost.exceptions import InvalidInputError

FOLDER_VARIABLE = "FAIRBOOST_DATA"
DEFAULT_FOLDER = Path("../shared/data")


@dataclass(frozen=True)
class Spec:
    """How to read one file.

    Parameters
    ----------
    sensitive : tuple of str
        The columns that say which group a row belongs to.
    label : str
        The column to predict, 0 or 1.
    categorical : tuple of str
        Columns whose numbers are codes. Text columns are categories in the file already.
    dropped : tuple of str
        Columns that are no features.
    kept : tuple of str
        The only features, where they are fewer than the rest; empty for all that are not dropped.
    restated : tuple of str
        Features from which a sensitive column follows exactly; they go where it goes.
    """

    sensitive: tuple[str, ...]
    label: str = "label"
    categorical: tuple[str, ...] = ()
    dropped: tuple[str, ...] = ()
    kept: tuple[str, ...] = ()
    restated: tuple[str, ...] = ()


def _spec(sensitive: str, label: str = "label", **columns: str) -> Spec:
    """A spec of names with blanks between them."""
    others = {kind: tuple(names.split()) for kind, names in columns.items()}
    return Spec(tuple(sensitive.split()), label, **others)


_ACS_2018 = "row_id split"

SPECS: dict[str, Spec] = {
    "acs_income_2018": _spec(
        "SEX RAC1P", categorical="COW MAR OCCP POBP RELP RAC1P", dropped=_ACS_2018
    ),
    "acs_mobility_2018": _spec(
        "SEX", categorical="ANC CIT COW ESP ESR GCL MAR MIL NATIVITY RAC1P RELP", dropped=_ACS_2018
    ),
    "acs_public_coverage_2018": _spec(
        "SEX", categorical="ANC CIT ESP ESR FER MAR MIG MIL NATIVITY RAC1P", dropped=_ACS_2018
    ),
    "acs_employment_2024": _spec("SEX", categorical="CIT MAR MIG MIL NATIVITY RAC1P ST"),
    "acs_travel_time_2024": _spec("SEX", categorical="CIT JWTR MAR MIG OCCP PUMA RAC1P ST"),
    "adult": _spec("sex race", dropped="fnlwgt split"),
    "baf_base_sample_test": _spec(
        "customer_age_category",
        "fraud_bool",
        categorical="device_os employment_status housing_status payment_type source",
        restated="customer_age",
    ),
    "compas_two_years": _spec(
        "race sex",
        "two_year_recid",
        # The rest is dates, the vendor's own verdict, or was recorded after the outcome.
        kept="sex race age juv_fel_count juv_misd_count juv_other_count priors_count "
        "c_charge_degree",
    ),
    "credit_default_taiwan": _spec("SEX", categorical="EDUCATION MARRIAGE"),
    "bank_marketing": _spec(
        "marital age_25_60",
        dropped="duration",  # of the call that brought the answer: known only after the label
        restated="age",
    ),
}
"""The files that can be read, by name."""


@dataclass(frozen=True)
class Table:
    """A real table, as :func:`load` returns it.

    Parameters
    ----------
    X : DataFrame
        Features; numbers, or categories.
    y : (n,) int8
        The label, 0 or 1.
    sensitive : DataFrame
        The sensitive columns, as they are in the file.
    name : str
        Name of the table.

    Examples
    --------
    >>> import numpy as np, pandas as pd
    >>> from fairboost.datasets import Table
    >>> group = pd.DataFrame({"sex": ["F", "M"]})
    >>> Table(pd.DataFrame({"age": [30, 40]}), np.array([0, 1]), group, "two people").name
    'two people'
    """

    X: pd.DataFrame
    y: NDArray[np.int8]
    sensitive: pd.DataFrame
    name: str


def available(folder: str | Path | None = None) -> tuple[str, ...]:
    """Names of the tables that can be loaded here.

    Parameters
    ----------
    folder : path, optional
        Where the files are. Without it, the folder that the environment variable
        ``FAIRBOOST_DATA`` names, or else ``../shared/data`` beside the working directory.

    Returns
    -------
    tuple of str
        Names for :func:`load`; empty if no folder was named and the default one is not there.

    Examples
    --------
    >>> from fairboost.datasets import available
    >>> all(isinstance(name, str) for name in available())
    True
    """
    place = _find_folder(folder)
    return () if place is None else _present(place)


def load(
    name: str,
    *,
    folder: str | Path | None = None,
    aware: bool = True,
    n_samples: int | None = None,
    seed: int = 0,
) -> Table:
    """Read a real table.

    Parameters
    ----------
    name : str
        One of :func:`available`.
    folder : path, optional
        Where the files are, see :func:`available`.
    aware : bool, default True
        Whether the sensitive columns stay among the features. If not, columns that state them
        again (age beside an age band) go too; mere proxies stay.
    n_samples : int, optional
        Rows to draw at random, without replacement and in random order; all rows, in the order of
        the file, if left out. Some files are sorted: shuffle before you split.
    seed : int, default 0
        Seed of that draw.

    Returns
    -------
    Table
        ``X``, ``y``, ``sensitive`` and ``name``.

    Examples
    --------
    >>> from fairboost.datasets import available, load
    >>> if "adult" in available():
    ...     table = load("adult", n_samples=1_000, aware=False)
    ...     assert table.X.shape == (1_000, 11)
    ...     assert list(table.sensitive) == ["sex", "race"]
    """
    path = find_file(name, folder)
    spec = SPECS[name]
    frame = read_columns(path, (spec.label, *spec.sensitive, *spec.categorical, *spec.kept))
    left_out = {spec.label, *spec.dropped}
    if not aware:
        left_out |= {*spec.sensitive, *spec.restated}
    features = [column for column in spec.kept or frame.columns if column not in left_out]
    table = Table(
        X=frame[features].astype({c: "category" for c in spec.categorical if c in features}),
        y=frame[spec.label].to_numpy(np.int8),
        sensitive=frame[list(spec.sensitive)],
        name=name,
    )
    return table if n_samples is None else _subsample(table, n_samples, seed)


def _find_folder(folder: str | Path | None) -> Path | None:
    """Find the folder of the files; None if none was named and the default one is absent."""
    named, source = folder, "folder="
    if named is None:
        named, source = os.environ.get(FOLDER_VARIABLE) or None, FOLDER_VARIABLE
    if named is None:
        return DEFAULT_FOLDER if DEFAULT_FOLDER.is_dir() else None
    place = Path(named)
    if not place.is_dir():
        raise InvalidInputError(
            f"{source} names {str(place)!r}, which is not a folder; give the folder that holds "
            "the parquet files"
        )
    return place


def _present(place: Path, known: Iterable[str] = SPECS) -> tuple[str, ...]:
    return tuple(name for name in known if (place / f"{name}.parquet").is_file())


def find_file(name: str, folder: str | Path | None, known: Collection[str] = SPECS) -> Path:
    """Where the file of one of the known tables is; raises if it is nowhere."""
    if name not in known:
        raise InvalidInputError(f"unknown table {name!r}; expected one of {', '.join(known)}")
    place = _find_folder(folder)
    if place is None:
        raise InvalidInputError(
            f"no folder to read {name!r} from: {FOLDER_VARIABLE} is not set and "
            f"{str(DEFAULT_FOLDER)!r} does not exist; pass folder= or set {FOLDER_VARIABLE}, or "
            "use fairboost.datasets.make_loans, which needs no files"
        )
    path = place / f"{name}.parquet"
    if not path.is_file():
        here = ", ".join(_present(place, known)) or "none of the tables"
        raise InvalidInputError(
            f"there is no file {path.name!r} in {str(place)!r}, which holds {here}; put it there, "
            f"or name another folder by folder= or {FOLDER_VARIABLE}"
        )
    return path


def read_columns(path: Path, wanted: Iterable[str]) -> pd.DataFrame:
    """Read a file; raises if it lacks one of the columns that are wanted."""
    if find_spec("pyarrow") is None:
        raise ImportError("reading parquet files needs pyarrow: pip install pyarrow")
    try:
        frame = pd.read_parquet(path, engine="pyarrow")
    except (OSError, ValueError) as error:  # what Arrow raises on a damaged file is one of these
        raise InvalidInputError(
            f"{str(path)!r} cannot be read as parquet ({error}); fetch the file again"
        ) from error
    absent = [column for column in dict.fromkeys(wanted) if column not in frame.columns]
    if absent:
        raise InvalidInputError(
            f"{str(path)!r} lacks the columns {', '.join(absent)}; it is not the file that "
            f"fairboost.datasets knows by that name"
        )
    return frame


def _subsample(table: Table, n_samples: int, seed: int) -> Table:
    """Draw rows at random; categories stay those of the whole table, so that codes agree."""
    n = len(table.y)
    if n_samples not in range(1, n + 1):
        raise InvalidInputError(
            f"n_samples must be a whole number from 1 to {n}, the rows of {table.name!r}; "
            f"found {n_samples!r}"
        )
    rows = np.random.default_rng(seed).permutation(n)[:n_samples]
    X, sensitive = (t.iloc[rows].reset_index(drop=True) for t in (table.X, table.sensitive))
    return Table(X, table.y[rows], sensitive, table.name)
