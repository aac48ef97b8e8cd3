"""Audit of numbers that a file has as predictions.

The columns that are named must fit into memory: deciles and distributions need all rows at once.
Figures are those of :func:`fairboost.metrics.audit_numbers`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from fairboost._typing import FloatArray, IntArray
from fairboost.data.cells import SensitiveColumn
from fairboost.metrics import audit_numbers
from fairboost.metrics.numbers import NumberAudit
from fairboost.tabular.audit import AuditedBatches, AuditRequest, crossings_shown
from fairboost.tabular.files import TableFile
from fairboost.tabular.schema import numbers_of_label, read_exposures


@dataclass(frozen=True, eq=False)
class FileNumbers:
    """What an audit of the numbers in a file found.

    Parameters
    ----------
    request : AuditRequest
        What was asked.
    audit : NumberAudit
        Figures by group.
    actual, predicted : (n,) float64
        Labels, and what was predicted.
    groups : list of SensitiveColumn
        Groups of the rows.
    weight, exposure : (n,) float64 or None
        Weights and exposures.
    unlabelled : int
        Rows left out, since their label is missing.
    uncrossed : tuple of str
        Crossings that were left out for their size, in words.
    """

    request: AuditRequest
    audit: NumberAudit
    actual: FloatArray
    predicted: FloatArray
    groups: list[SensitiveColumn]
    weight: FloatArray | None
    exposure: FloatArray | None
    unlabelled: int
    uncrossed: tuple[str, ...] = ()

    @property
    def rows(self) -> int:
        """Rows that were audited."""
        return len(self.actual)


def audit_numbers_of(
    file: TableFile, request: AuditRequest, advance: Callable[[], None] = lambda: None
) -> FileNumbers:
    """Audit the numbers in a file.

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
    actual, predicted, weight, exposure, *codes = map(_joined, zip(*parts, strict=True))
    groups = [
        _sorted(coder.name, found, list(coder.known))
        for coder, found in zip(rows.groups, codes, strict=True)
    ]
    table = pd.DataFrame({c.name: pd.Categorical.from_codes(c.codes, c.values) for c in groups})
    sizes = {
        those: table[list(those)].dropna().drop_duplicates().shape[0]
        for those in request.crossings
    }
    shown, uncrossed = crossings_shown(sizes)
    audit = audit_numbers(
        actual,
        predicted,
        sensitive_features=table,
        exposure=exposure,
        sample_weight=weight,
        loss=request.loss,
        by=[those[0] if len(those) == 1 else those for those in shown],
        confidence=request.confidence,
        min_rows=request.min_rows,
        min_group_rows=request.min_group_rows,
    )
    return FileNumbers(
        request, audit, actual, predicted, groups, weight, exposure, rows.unlabelled, uncrossed
    )


def _joined(parts: tuple[Any, ...]) -> Any:
    """A column of all batches; None if there is none."""
    return None if parts[0] is None else np.concatenate(parts)


def _sorted(name: str, codes: IntArray, values: list[str]) -> SensitiveColumn:
    """Groups in the order of their names, and not in that in which they came."""
    order = np.argsort(np.array(values, dtype=object))
    places = np.append(np.argsort(order), -1)  # the last is that of a missing group
    return SensitiveColumn(name, places[codes], tuple(values[k] for k in order))
