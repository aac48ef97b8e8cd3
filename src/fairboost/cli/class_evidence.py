"""From classes of a file, and those that were given, to the evidence of a report."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd

from fairboost.cli.audit_evidence import judge_gaps, row_warnings, small_warnings
from fairboost.cli.wording import evidence_in_commands
from fairboost.exceptions import InvalidInputError
from fairboost.fairness.classes import ClassMoment
from fairboost.metrics import ClassAudit, audit_classes
from fairboost.metrics.classes import RATES_IN_ORDER, moments_of
from fairboost.metrics.intervals import wilson
from fairboost.report import DataFile, lines
from fairboost.report.classes import caution_of, confusion_lines, in_words
from fairboost.report.evidence import (
    Asked,
    Data,
    Evidence,
    Limit,
    Performance,
    SensitiveColumnUse,
)
from fairboost.report.limits import with_limits
from fairboost.report.rows import TestSet
from fairboost.tabular.classes import FileClasses
from fairboost.tabular.files import TableFile
from fairboost.tabular.schema import class_values

DECIDED = "the class of each row is that of the column {0!r}"


def class_evidence(
    found: FileClasses, file: TableFile, *, title: str, limits: Mapping[str, float]
) -> Evidence:
    """Audit the classes of a file.

    Parameters
    ----------
    found : FileClasses
        The classes.
    file : TableFile
        Where the rows came from.
    title : str
        Of the report.
    limits : mapping of str to float
        The largest gap allowed, by the name of the rate on the command line.
    """
    request, values = found.request, class_values(found.classes)
    allowed = _allowed(limits, moments_of(values.tolist(), RATES_IN_ORDER), request.label_name)
    rows = _rows(found)
    crossed, uncrossed = rows.crossings()
    audited = _audit(found, rows, list(request.sensitive))
    tables = [audited.rates]
    if crossed:  # of which rates are shown, and no gaps
        more = _audit(found, rows, crossed, between=False).rates
        tables.append(more[more["attribute"] != ""])
    shown = [in_words(table, allowed, request.sensitive) for table in tables]
    rates = tuple(r for table in shown for r in lines.rate_lines(table, request.sensitive))
    gaps = lines.gap_lines(in_words(audited.gaps, allowed, request.sensitive))
    asked = tuple(
        Limit(g.attribute, g.rate, allowed[g.rate])
        for g in gaps
        if g.attribute in request.sensitive and g.rate in allowed
    )
    caution = caution_of(found.given, rows)
    evidence = Evidence(
        title=title,
        asked=Asked(
            level=request.confidence,
            operating_point=DECIDED.format(request.score),
            limits=asked,
        ),
        data=_data(found, file),
        rates=rates,
        verdicts=tuple(
            judge_gaps(
                asked, gaps, rates, request.min_group_rows, bool(caution), classes=found.classes
            )
        ),
        gaps=gaps,
        performance=(_accuracy(found),),
        min_rows=request.min_rows,
        confusion=tuple(confusion_lines(audited, request.sensitive)),
        warnings=(
            *row_warnings(found.unlabelled, _missing(found)),
            *small_warnings(rates, request.min_group_rows),
        ),
        caution=caution,
        task="classes",
    )
    return evidence_in_commands(with_limits(evidence, uncrossed=uncrossed))


def _audit(
    found: FileClasses, rows: TestSet, by: list[Any], *, between: bool = True
) -> ClassAudit:
    """Rates by some columns, or columns crossed, and if asked for what they are between groups."""
    request, values = found.request, class_values(found.classes)
    return audit_classes(
        values[found.actual],
        values[found.given],
        sensitive_features=rows.sensitive_features,
        sample_weight=found.weight,
        by=by,
        classes=values.tolist(),
        confidence=request.confidence,
        confusion=between,
        min_rows=request.min_rows,
        min_group_rows=request.min_group_rows,
    )


def _allowed(
    limits: Mapping[str, float], moments: Sequence[ClassMoment], label: str
) -> dict[str, float]:
    """What gaps of rates may be, by the rates in words; the strictest, where two are about one."""
    out: dict[str, float] = {}
    for name, most in limits.items():
        meant = [m.title for m in moments if name in (m.name, m.name.partition("[")[0])]
        if not meant:
            known = ", ".join(m.name for m in moments if m.name.startswith(name.partition("[")[0]))
            raise InvalidInputError(
                f"--max-gap {name}={most:g} names no rate of the classes of {label!r}; expected "
                f"{known}"
            )
        out |= {rate: min(most, out.get(rate, most)) for rate in meant}
    return out


def _rows(found: FileClasses) -> TestSet:
    """The rows as reports have them; there are no features."""
    groups = {
        c.name: pd.Categorical.from_codes(c.codes, pd.Index(list(map(str, c.values))))
        for c in found.columns
    }
    return TestSet(
        X=found.given[:, np.newaxis],
        y=found.actual,
        sensitive_features=pd.DataFrame(groups),
        sample_weight=found.weight,
        labels=found.actual,
        columns=found.columns,
        weight=found.weight,
    )


def _missing(found: FileClasses) -> dict[str, int]:
    """Rows of unknown group, by sensitive column."""
    return {c.name: int((np.asarray(c.codes) < 0).sum()) for c in found.columns}


def _data(found: FileClasses, file: TableFile) -> Data:
    unknown = _missing(found)
    return Data(
        label=found.request.label_name,
        positive="",
        classes=found.classes,
        sensitive=tuple(
            SensitiveColumnUse(c.name, len(c.values), unknown[c.name]) for c in found.columns
        ),
        splits={"test": found.rows},
        files=(DataFile("audit", file.path.name, file.sha256(), found.rows + found.unlabelled),),
        weight=found.request.weight,
    )


def _accuracy(found: FileClasses) -> Performance:
    weight = np.ones(found.rows) if found.weight is None else found.weight
    right = float(np.average(found.actual == found.given, weights=weight))
    effective = float(weight.sum() ** 2 / (weight**2).sum())
    low, high = wilson(right * effective, effective, found.request.confidence)
    return Performance(lines.CHOSEN, "accuracy", right, float(low), float(high))
