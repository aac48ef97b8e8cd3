"""Numbers that a file has as labels and predictions, to be audited.

The columns that are named must fit into memory: deciles and distributions need all rows at once.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from fairboost._typing import FloatArray
from fairboost.data.cells import SensitiveColumn
from fairboost.tabular.audit import AuditedBatches, AuditRequest, joined, sorted_groups
from fairboost.tabular.files import TableFile
from fairboost.tabular.schema import numbers_of_label, read_exposures


@dataclass(frozen=True, eq=False)
class FileNumbers:
    """What a file has to audit.

    Parameters
    ----------
    request : AuditRequest
        What was asked.
    actual, predicted : (n,) float64
        Labels, and what was predicted.
    columns : list of SensitiveColumn
        Groups of the rows.
    weight, exposure : (n,) float64 or None
        Weights and exposures.
    unlabelled : int
        Rows left out, since their label is missing.
    """

    request: AuditRequest
    actual: FloatArray
    predicted: FloatArray
    columns: list[SensitiveColumn]
    weight: FloatArray | None
    exposure: FloatArray | None
    unlabelled: int

    @property
    def rows(self) -> int:
        """Rows to audit."""
        return len(self.actual)


def read_numbers(
    file: TableFile, request: AuditRequest, advance: Callable[[], None] = lambda: None
) -> FileNumbers:
    """Read the numbers in a file.

    Parameters
    ----------
    file : TableFile
        The file.
    request : AuditRequest
        What to audit; ``score`` is the column of predictions, in the unit of the label.
    advance : callable
        Called after each batch.
    """
    file.require(request.columns, "named in the command")
    rows = AuditedBatches(file, request, advance)
    parts = []
    for arrow, before in rows.read():
        named = f"{request.label!r} of {file.path.name}"
        labels, known = numbers_of_label(arrow.column(request.label), named, before)
        scores = rows.numbers(arrow, request.score, before)
        exposed = read_exposures(arrow, request.exposure, before=before)
        weighed, coded = rows.weights(arrow, before), rows.codes(arrow)
        parts.append(rows.keep(known, [labels, scores, weighed, exposed, *coded]))
    rows.check_found()
    actual, predicted, weight, exposure, *codes = map(joined, zip(*parts, strict=True))
    columns = [
        sorted_groups(coder.name, found, list(coder.known))
        for coder, found in zip(rows.groups, codes, strict=True)
    ]
    return FileNumbers(request, actual, predicted, columns, weight, exposure, rows.unlabelled)
