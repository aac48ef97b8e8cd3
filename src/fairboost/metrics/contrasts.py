"""Two figures by which models are compared: ratios of decisions, and differences of mean scores.

::

    ratio of an attribute        lowest rate of positive decisions of its groups / highest rate
    difference of a group        (mean score of the group - mean score of the reference group)
                                 / standard deviation of all scores

The reference is the group with the most rows. A standardised difference does not depend on the
unit of the scores, so that models can be compared by it.
"""

from __future__ import annotations

import numpy as np
import pandas as pd

from fairboost._typing import ArrayLike, BoolArray, FloatArray
from fairboost.data.cells import build_cells
from fairboost.data.validation import read_sensitive_features
from fairboost.fairness.rates import RATES
from fairboost.metrics.comparisons import compare, tally


def decision_ratios(positive: BoolArray, sensitive_features: ArrayLike) -> dict[str, float]:
    """Lowest over highest rate of positive decisions, by sensitive column.

    Parameters
    ----------
    positive : (n,) array of bool
        The decisions.
    sensitive_features : (n,) array or table
        The groups; rows of unknown group are in no group.

    Returns
    -------
    dict of str to float
        NaN where there is no second group, or no positive decision.

    Examples
    --------
    >>> decision_ratios(np.array([True, False, True, True]), {"sex": list("FFMM")})
    {'sex': 0.5}
    """
    columns = read_sensitive_features(sensitive_features, len(positive))
    cells = build_cells(np.zeros(len(positive), np.int32), columns)
    sums = tally(cells, positive, None)
    found = {}
    for column in columns:
        table = compare(cells, sums, (column.name,)).rate_table(RATES["ppr"], 0.95, "wilson")
        rates = table["value"].dropna()
        several = len(rates) > 1 and rates.max() > 0
        found[column.name] = float(rates.min() / rates.max()) if several else np.nan
    return found


def standardised_differences(scores: FloatArray, sensitive_features: ArrayLike) -> pd.DataFrame:
    """Standardised mean differences of scores, by group.

    Parameters
    ----------
    scores : (n,) float64
        Probabilities, log-odds or predicted numbers.
    sensitive_features : (n,) array or table
        The groups; rows of unknown group are in no group.

    Returns
    -------
    pandas.DataFrame
        ``attribute``, ``group``, ``reference``, ``rows``, ``mean``, ``difference``; the difference
        is 0 for the reference, and missing where all scores are equal.

    Examples
    --------
    >>> found = standardised_differences(np.array([1.0, 3.0, 3.0, 5.0]), {"sex": list("FFMM")})
    >>> found[["group", "reference"]].values.tolist(), found["difference"].round(3).tolist()
    ([['F', 'F'], ['M', 'F']], [0.0, 1.414])
    """
    deviation = float(np.std(scores))
    lines = []
    for column in read_sensitive_features(sensitive_features, len(scores)):
        known = column.codes >= 0
        rows = np.bincount(column.codes[known], minlength=len(column.values))
        sums = np.bincount(column.codes[known], scores[known], len(column.values))
        means = sums / np.maximum(rows, 1)
        reference = int(rows.argmax())
        for k in np.flatnonzero(rows):
            apart = means[k] - means[reference]
            lines.append(
                {
                    "attribute": column.name,
                    "group": str(column.values[k]),
                    "reference": str(column.values[reference]),
                    "rows": int(rows[k]),
                    "mean": float(means[k]),
                    "difference": float(apart / deviation) if deviation > 0 else np.nan,
                }
            )
    return pd.DataFrame(lines)
