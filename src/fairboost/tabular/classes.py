"""Classes that a file has as labels and as decisions, to be audited.

The columns that are named must fit into memory, as numbers.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from fairboost._typing import FloatArray, IntArray
from fairboost.data.cells import SensitiveColumn
from fairboost.exceptions import InvalidInputError
from fairboost.tabular.audit import (
    AuditedBatches,
    AuditRequest,
    ValueCoder,
    joined,
    sorted_groups,
)
from fairboost.tabular.files import TableFile
from fairboost.tabular.labels import MOST_CLASSES
from fairboost.tabular.schema import several_of


@dataclass(frozen=True, eq=False)
class FileClasses:
    """What a file has to audit.

    Parameters
    ----------
    request : AuditRequest
        What was asked.
    classes : tuple of str
        The classes, in order: those of labels and those that are given.
    actual, given : (n,) int
        The class of each row, and the class that it is given, by their places.
    columns : list of SensitiveColumn
        Groups of the rows.
    weight : (n,) float64 or None
        Weights.
    unlabelled : int
        Rows left out, since their label is missing.
    """

    request: AuditRequest
    classes: tuple[str, ...]
    actual: IntArray
    given: IntArray
    columns: list[SensitiveColumn]
    weight: FloatArray | None
    unlabelled: int

    @property
    def rows(self) -> int:
        """Rows to audit."""
        return len(self.actual)


def read_classes(
    file: TableFile, request: AuditRequest, advance: Callable[[], None] = lambda: None
) -> FileClasses:
    """Read the classes in a file.

    Parameters
    ----------
    file : TableFile
        The file.
    request : AuditRequest
        What to audit; ``score`` is the column of classes given.
    advance : callable
        Called after each batch.
    """
    file.require(request.columns, "named in the command")
    rows = AuditedBatches(file, request, advance)
    known: dict[str, int] = {}  # one set of classes for both columns
    labels, decisions = (
        ValueCoder(c, MOST_CLASSES, known) for c in (request.label_name, request.score)
    )
    parts = []
    for arrow, before in rows.read():
        actual = labels.codes(arrow.column(request.label_name))
        given = decisions.codes(arrow.column(request.score))
        if (given < 0).any():
            row = before + int((given < 0).argmax()) + 1
            raise InvalidInputError(
                f"the decision {request.score!r} is missing at row {row:,}; drop such rows"
            )
        weighed, coded = rows.weights(arrow, before), rows.codes(arrow)
        parts.append(rows.keep(actual >= 0, [actual, given, weighed, *coded]))
    rows.check_found()
    found: list[Any] = list(map(joined, zip(*parts, strict=True)))
    actual, given, weight, *codes = found
    classes = several_of(known, request.label_name)
    place = np.array([classes.index(name) for name in known])
    columns = [
        sorted_groups(coder.name, those, list(coder.known))
        for coder, those in zip(rows.groups, codes, strict=True)
    ]
    return FileClasses(
        request, classes, place[actual], place[given], columns, weight, rows.unlabelled
    )
