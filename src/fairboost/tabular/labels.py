"""What the column to predict holds: two values, several classes, or numbers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from fairboost.tabular import columns
from fairboost.tabular.files import TableFile

MOST_NUMBERS_AMONG = 0.5
"""If more of the different values than this are numbers, the others are errors in the file."""
MOST_CLASSES = 20
"""More different texts are hardly classes to decide among."""


@dataclass(frozen=True)
class LabelValues:
    """The different values of a label.

    Parameters
    ----------
    values : int
        How many there are, missing ones left out.
    numbers : int
        How many of them are numbers.
    complete : bool
        Whether all rows were looked at.
    """

    values: int
    numbers: int
    complete: bool

    @property
    def is_number(self) -> bool:
        """Whether the label is a number, and not one of two values or of several texts.

        Examples
        --------
        >>> LabelValues(1_204, 1_203, True).is_number, LabelValues(2, 2, True).is_number
        (True, False)
        """
        return self.numbers > 2 and self.numbers > MOST_NUMBERS_AMONG * self.values

    @property
    def is_class(self) -> bool:
        """Whether the label is one of several texts; numbers among them are errors, or few.

        Examples
        --------
        >>> LabelValues(3, 0, True).is_class, LabelValues(2, 0, True).is_class
        (True, False)
        """
        mostly_text = self.numbers < MOST_NUMBERS_AMONG * self.values
        return mostly_text and 2 < self.values <= MOST_CLASSES


def look_at_label(file: TableFile, name: str, *, first_rows: bool = False) -> LabelValues:
    """Count the different values of a label.

    Parameters
    ----------
    file : TableFile
        The table.
    name : str
        The column.
    first_rows : bool, default=False
        Look at the first batch alone: the file may be larger than memory.
    """
    found: Any = None
    for batch in file.batches({name: pa.string()}):
        column = columns.decoded(batch.column(name))
        if pa.types.is_boolean(column.type):
            return LabelValues(2, 0, complete=False)
        with columns.converting(
            f"the column {name!r} must hold text or numbers", "; name another"
        ):
            text = pc.unique(columns.as_text(column)).drop_null()
        found = text if found is None else pc.unique(pa.concat_arrays([found, text]))
        if first_rows:
            break
    numbers, wrong = columns.read_numbers(found)
    known = numbers[~wrong & ~np.isnan(numbers)]
    return LabelValues(len(found), len(np.unique(known)), complete=not first_rows)
