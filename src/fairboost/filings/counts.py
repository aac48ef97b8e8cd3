"""How many people of each category were assessed and how many were selected.

Rates and their intervals come from :mod:`fairboost.metrics.comparisons`, so that the selection
rate of a filing is the positive rate of an audit.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd

from fairboost._typing import ArrayLike, BoolArray, FloatArray
from fairboost.data.cells import Cells, SensitiveColumn, build_cells
from fairboost.data.validation import read_sensitive_features
from fairboost.exceptions import InvalidInputError
from fairboost.fairness.rates import RATES
from fairboost.metrics.comparisons import compare, tally

SELECTED = RATES["ppr"]

UNKNOWN = frozenset(
    {
        "unknown", "not known", "not specified", "unspecified", "not disclosed", "undisclosed",
        "not reported", "not available", "prefer not to say", "prefer not to answer",
        "decline to answer", "declined to answer", "decline to state", "declined to state",
        "decline to self-identify", "i do not wish to answer", "i don't wish to answer",
        "n/a", "na", "none", "null", "missing", "?", "-", "",
    }
)  # fmt: skip
"""What people write, in small letters, where they do not know or tell a category."""


@dataclass(frozen=True, eq=False)
class Assessed:
    """People in categories, and whether each was selected.

    Parameters
    ----------
    cells : Cells
        The categories of each row.
    sums : (3, 2, n_cells) float64
        Rows by decision and cell, as from :func:`fairboost.metrics.comparisons.tally`.
    unknown : dict of str to list of str
        By column, values that were taken for an unknown category.
    """

    cells: Cells
    sums: FloatArray
    unknown: dict[str, list[str]]

    @property
    def people(self) -> int:
        """How many people there are, those of unknown category included."""
        return int(self.cells.counts.sum())

    def table(self, columns: Sequence[str], level: float = 0.95) -> pd.DataFrame:
        """One row per category: applicants, selected, rate and its interval.

        Parameters
        ----------
        columns : sequence of str
            The columns that are crossed to make the categories.
        level : float
            Coverage of the intervals.
        """
        groups = self.cells.groups_by(columns)
        found = compare(self.cells, self.sums, tuple(columns)).rate_table(
            SELECTED, level, "wilson"
        )
        table = pd.DataFrame(list(groups.names), columns=list(columns)).astype(str)
        table["applicants"] = found["rows"].to_numpy()
        table["selected"] = found["events"].round().astype(int).to_numpy()
        table["share"] = table["applicants"] / max(int(table["applicants"].sum()), 1)
        for name, own in (("rate", "value"), ("low", "low"), ("high", "high")):
            table[name] = found[own].to_numpy()
        return table

    def missing(self, columns: Sequence[str]) -> int:
        """People of whom one of some columns is unknown."""
        known = np.all([self.cells.groups[c] >= 0 for c in columns], axis=0)
        return int(self.cells.counts[~known].sum())


def count(
    groups: ArrayLike, selected: ArrayLike, unknown: Sequence[str] = (), guess: bool = True
) -> Assessed:
    """Count people by category.

    Parameters
    ----------
    groups : table
        One column per attribute.
    selected : (n,) array of bool
        Whether each person was selected.
    unknown : sequence of str
        Further values that mean that a category is not known; letter case does not matter.
    guess : bool
        Whether to take the usual words for that, see :data:`UNKNOWN`.
    """
    chosen = _as_flags(selected)
    if not len(chosen):
        raise InvalidInputError("there are no rows; pass the people that were assessed")
    columns = read_sensitive_features(groups, len(chosen))
    _check_one_category(columns)
    words = {text.strip().lower() for text in unknown} | (UNKNOWN if guess else set())
    known, taken = [], {}
    for column in columns:
        values = [str(value) for value in column.values]
        gone = [value.strip().lower() in words for value in values]
        taken[column.name] = [v for v, out in zip(values, gone, strict=True) if out]
        if all(gone):
            raise InvalidInputError(
                f"the category {column.name!r} is unknown for everyone; there is nothing to "
                "compare. Name another column"
            )
        # Codes of the values that stay, in their order; the last is that of a missing value.
        places = np.append(np.where(gone, -1, np.cumsum(~np.array(gone)) - 1), -1)
        stay = tuple(v for v, out in zip(column.values, gone, strict=True) if not out)
        known.append(type(column)(column.name, places[column.codes].astype(np.int32), stay))
    cells = build_cells(np.zeros(len(chosen), np.int32), known)
    return Assessed(cells, tally(cells, chosen, None), {k: v for k, v in taken.items() if v})


def _check_one_category(columns: Sequence[SensitiveColumn]) -> None:
    """Refuse groups that are known by probability."""
    for column in columns:
        if column.is_soft:
            raise InvalidInputError(
                f"{column.name!r} has group probabilities, and this document counts people by "
                "categories that were reported or observed: a share of a person cannot be "
                "counted, and a rate that is estimated is not what the text asks for. Pass the "
                "category of each person, and leave it missing where it is not known; such people "
                "are counted as of unknown category. annex_iv and fairboost.metrics.audit have "
                "estimates by probability"
            )


def _as_flags(selected: ArrayLike) -> BoolArray:
    found = np.asarray(selected)
    if found.ndim != 1 or not np.isin(found, (0, 1)).all():
        raise InvalidInputError(
            "whether people were selected must be a column of True and False, or 1 and 0; compare "
            'it with the positive value first, such as hired == "yes"'
        )
    return found.astype(bool)


def add_ratios(table: pd.DataFrame, left_out: BoolArray | None = None) -> pd.DataFrame:
    """The table, with the ratio of every rate to that of the most selected category.

    Parameters
    ----------
    table : pandas.DataFrame
        As from :meth:`Assessed.table`.
    left_out : (n,) array of bool, optional
        Categories that are not compared, and of which none is the most selected.

    Examples
    --------
    >>> table = pd.DataFrame({"applicants": [100, 50], "selected": [40, 10], "rate": [0.4, 0.2]})
    >>> add_ratios(table)["ratio"].tolist()
    [1.0, 0.5]
    """
    compared = np.ones(len(table), bool) if left_out is None else ~left_out
    rates = table["rate"].where(compared)
    if not rates.max() > 0:
        return table.assign(ratio=np.nan)
    best = int(np.nanargmax(rates.to_numpy()))
    selected, applicants = (int(table[name].iloc[best]) for name in ("selected", "applicants"))
    # In whole numbers as far as they go: 48 of 100 against 60 of 100 is 0.8, and not below.
    ratio = table["selected"] * applicants / (table["applicants"] * selected)
    return table.assign(ratio=ratio.where(compared))
