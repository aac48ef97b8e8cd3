"""People of a file, with their categories and what was decided about them: read for filings.

Filings count people one by one, without weights and labels, and need the median of scores; so what
they read is kept in memory: eight bytes for a score or decision, and four per category.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import pandas as pd

from fairboost._typing import FloatArray
from fairboost.tabular.audit import AuditRequest, ScoredBatches
from fairboost.tabular.files import TableFile


@dataclass(frozen=True, eq=False)
class FilePeople:
    """What a file says of people.

    Parameters
    ----------
    groups : pandas.DataFrame
        Their categories, one column per attribute; missing where unknown.
    scores : (n,) float64
        Their scores; where there are decisions, 1 if positive and 0 if not.
    decisions : tuple of two str or None
        What the decisions are called, the positive one last.
    undecided : int
        Rows left out, since their decision is missing.
    """

    groups: pd.DataFrame
    scores: FloatArray
    decisions: tuple[str, str] | None
    undecided: int


def read_people(
    file: TableFile, request: AuditRequest, advance: Callable[[], None] = lambda: None
) -> FilePeople:
    """Read categories, and scores or decisions.

    Parameters
    ----------
    file : TableFile
        The file.
    request : AuditRequest
        Names the columns; without a label.
    advance : callable
        Called after each batch.
    """
    file.require(request.columns, "named in the command")
    rows = ScoredBatches(file, request, advance)
    batches = list(rows)
    rows.check_found()
    codes = [np.concatenate(part) for part in zip(*(b.groups for b in batches), strict=True)]
    groups = {
        coder.name: pd.Categorical.from_codes(part, categories=pd.Index(list(coder.known)))
        for coder, part in zip(rows.groups, codes, strict=True)
    }
    scores = np.concatenate([batch.scores for batch in batches])
    return FilePeople(pd.DataFrame(groups), scores, rows.decisions, rows.undecided)
