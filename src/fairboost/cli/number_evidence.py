"""From numbers of a file, and what was predicted for them, to the evidence of a report."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np
import pandas as pd

from fairboost.cli.audit_evidence import (
    NAMED,
    OWN_FIGURES,
    judge_gaps,
    row_warnings,
    small_warnings,
)
from fairboost.cli.wording import evidence_in_commands
from fairboost.metrics.numbers import LOSS_TITLES, as_loss
from fairboost.plots.numbers import RATIO
from fairboost.report import DataFile
from fairboost.report.evidence import (
    About,
    Asked,
    Data,
    Evidence,
    GroupRate,
    Limit,
    SensitiveColumnUse,
)
from fairboost.report.limits import with_limits
from fairboost.report.lines import CHOSEN
from fairboost.report.numbers import compare_numbers
from fairboost.report.rows import TestSet
from fairboost.tabular.files import TableFile
from fairboost.tabular.numbers import FileNumbers


def number_evidence(
    found: FileNumbers, file: TableFile, *, title: str, limits: Mapping[str, float]
) -> Evidence:
    """Audit the numbers of a file.

    Parameters
    ----------
    found : FileNumbers
        The numbers.
    file : TableFile
        Where the rows came from.
    title : str
        Of the report.
    limits : mapping of str to float
        The largest gap allowed, by the name of the figure on the command line.
    """
    request = found.request
    loss = as_loss(request.loss or ("squared" if found.exposure is None else "poisson"))
    rows = _rows(found)
    about = About(min_rows=request.min_rows)
    compared = compare_numbers(
        rows, {CHOSEN: found.predicted}, loss, about, request.confidence, request.min_group_rows
    )
    allowed = {NAMED.get(name, name): most for name, most in limits.items()}
    asked = tuple(
        Limit(g.attribute, g.rate, allowed[g.rate])
        for g in compared.gaps
        if g.attribute in request.sensitive and g.rate in allowed
    )
    unknown = {c.name: int((np.asarray(c.codes) < 0).sum()) for c in found.columns}
    evidence = Evidence(
        title=title,
        asked=Asked(
            level=request.confidence,
            limits=tuple(one for limit in asked for one in _of_groups(limit, compared.rates)),
        ),
        data=Data(
            label=request.label_name,
            positive="",
            sensitive=tuple(
                SensitiveColumnUse(c.name, len(c.values), unknown[c.name]) for c in found.columns
            ),
            splits={"test": found.rows},
            files=(
                DataFile("audit", file.path.name, file.sha256(), found.rows + found.unlabelled),
            ),
            weight=request.weight,
            exposure=request.exposure,
            loss=LOSS_TITLES[loss.name],
        ),
        rates=compared.rates,
        verdicts=tuple(judge_gaps(asked, compared.gaps, compared.rates, request.min_group_rows)),
        gaps=compared.gaps,
        min_rows=request.min_rows,
        warnings=(
            *row_warnings(found.unlabelled, unknown),
            *small_warnings(compared.rates, request.min_group_rows),
        ),
        **compared.parts,
    )
    return evidence_in_commands(with_limits(evidence, uncrossed=rows.crossings()[1]))


def _of_groups(limit: Limit, rates: Sequence[GroupRate]) -> list[Limit]:
    """A limit as reports have it: of what is no gap between two groups, one for each group."""
    if limit.rate not in OWN_FIGURES:
        return [limit]
    place = limit.attribute, limit.rate
    groups = [r.group for r in rates if (r.attribute, r.rate) == place]
    around = 1.0 if limit.rate == RATIO else None
    return [replace(limit, group=group, around=around) for group in groups]


def _rows(found: FileNumbers) -> TestSet:
    """The rows as reports have them; there are no features."""
    groups = {
        c.name: pd.Categorical.from_codes(c.codes, pd.Index(list(map(str, c.values))))
        for c in found.columns
    }
    return TestSet(
        X=found.predicted[:, np.newaxis],
        y=found.actual,
        sensitive_features=pd.DataFrame(groups),
        sample_weight=found.weight,
        labels=np.zeros(found.rows, np.int8),
        columns=found.columns,
        weight=found.weight,
        targets=found.actual,
        exposure=found.exposure,
    )
