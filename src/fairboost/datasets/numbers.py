"""Readers for the real tables whose target is a number: a grade, an income, a count of claims.

The files lie in the same folder as those of :mod:`fairboost.datasets.files`, and are no part of
the package either. There is one :class:`NumberSpec` per file in :data:`NUMBER_SPECS`.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd

from fairboost._typing import FloatArray
from fairboost.datasets.files import find_file, read_columns


@dataclass(frozen=True)
class NumberSpec:
    """How to read one file whose target is a number.

    Parameters
    ----------
    target : str
        The column to predict.
    sensitive : tuple of str
        The columns that say which group a row belongs to.
    categorical : tuple of str
        Columns of text, or of numbers that are codes.
    dropped : tuple of str
        Columns that are no features.
    exposure : str, optional
        The column of exposures.
    """

    target: str
    sensitive: tuple[str, ...]
    categorical: tuple[str, ...] = ()
    dropped: tuple[str, ...] = ()
    exposure: str | None = None


NUMBER_SPECS: dict[str, NumberSpec] = {
    "law_school_gpa": NumberSpec("ugpa", ("race",), ("bar1", "gender")),
    "acs_mobility_2018": NumberSpec(
        "PINCP",
        ("SEX", "RAC1P"),
        ("ANC", "CIT", "COW", "ESP", "ESR", "GCL", "MAR", "MIL", "NATIVITY", "RAC1P", "RELP"),
        ("row_id", "split", "WKHP", "label"),  # income is hours times pay: a label in disguise
    ),
    "motor_policies_2009": NumberSpec(
        "Numtppd",
        ("Gender",),
        ("Gender", "Type", "Category", "Occupation", "SubGroup2", "Group2"),
        # Other claims of the same year are as unknown as the target; days are the exposure.
        ("PolNum", "Numtpbi", "Indtppd", "Indtpbi", "Exppdays"),
        "Exposure",
    ),
}
"""The files that can be read, by name."""


@dataclass(frozen=True)
class NumberTable:
    """A real table with a number to predict, as :func:`load_numbers` returns it.

    Parameters
    ----------
    X : DataFrame
        Features; numbers, or categories.
    y : (n,) float64
        The target.
    sensitive : DataFrame
        The sensitive columns, as they are in the file.
    exposure : (n,) float64 or None
        The exposures, if the table has any.
    name : str
        Name of the table.
    """

    X: pd.DataFrame
    y: FloatArray
    sensitive: pd.DataFrame
    exposure: FloatArray | None
    name: str


def load_numbers(
    name: str, *, folder: str | Path | None = None, aware: bool = True
) -> NumberTable:
    """Read a real table whose target is a number.

    Parameters
    ----------
    name : str
        One of :data:`NUMBER_SPECS`.
    folder : path, optional
        Where the files are, see :func:`fairboost.datasets.available`.
    aware : bool, default True
        Whether the sensitive columns stay among the features.

    Returns
    -------
    NumberTable
        ``X``, ``y``, ``sensitive``, ``exposure`` and ``name``, in the order of the file.
    """
    path = find_file(name, folder, NUMBER_SPECS)
    spec = NUMBER_SPECS[name]
    exposure = () if spec.exposure is None else (spec.exposure,)
    frame = read_columns(path, (spec.target, *spec.sensitive, *spec.categorical, *exposure))
    left_out = {spec.target, *spec.dropped, *exposure, *(() if aware else spec.sensitive)}
    features = [column for column in frame.columns if column not in left_out]
    # A sensitive column of text that is a feature has to be a category as well.
    codes = {c for c in features if c in spec.categorical or c in _text_columns(frame)}
    return NumberTable(
        X=frame[features].astype(dict.fromkeys(codes, "category")),
        y=frame[spec.target].to_numpy(np.float64),
        sensitive=frame[list(spec.sensitive)],
        exposure=None if spec.exposure is None else frame[spec.exposure].to_numpy(np.float64),
        name=name,
    )


def _text_columns(frame: pd.DataFrame) -> set[str]:
    return {c for c in frame.columns if not pd.api.types.is_numeric_dtype(frame[c])}
