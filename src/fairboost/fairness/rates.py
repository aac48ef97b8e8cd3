"""Error rates as data: who counts, and what counts.

A rate is a label (0, 1 or any) and a direction d. The rows that count are those with the label;
the event is that a row falls on side d of the decision threshold t. A row with score f is on the
positive side when ``f >= t``::

    rate   label   d    parity is called
    FPR    0      +1    predictive equality
    TNR    0      -1    predictive equality
    TPR    1      +1    equal opportunity
    FNR    1      -1    equal opportunity
    PPR    any    +1    demographic parity      (predicted positive)
    PNR    any    -1    demographic parity      (predicted negative)

This is the only definition of a rate in the package: constraints, the trace and the metrics all
take who counts from :func:`counted_cells` and what counts from the direction, so the rate that is
constrained is the rate that is reported.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, cast

import numpy as np
from numpy.typing import NDArray

from fairboost._text import did_you_mean
from fairboost._typing import BoolArray, FloatArray, IntArray
from fairboost.exceptions import ConstraintError
from fairboost.fairness.means import COMPARED, NUMBERS
from fairboost.fairness.moments import Moment


@dataclass(frozen=True)
class Rate:
    """A rate of a binary decision.

    Parameters
    ----------
    name : str
        Short name, as users write it.
    label : {0, 1, None}
        The label of the rows that count; None means all rows.
    direction : {+1, -1}
        +1 when the event is a positive decision, -1 when it is a negative one.
    title : str
        The name in words, for tables and plots.

    Examples
    --------
    >>> from fairboost.fairness.rates import RATES
    >>> RATES["fnr"].label, RATES["fnr"].direction
    (1, -1)
    """

    name: str
    label: Literal[0, 1] | None
    direction: Literal[1, -1]
    title: str

    @property
    def quantity(self) -> int:
        """Which quantity of the binary task: 0 is a positive decision, 1 a negative one."""
        return 0 if self.direction > 0 else 1

    def counts(self, labels: IntArray) -> BoolArray:
        """Which labels count towards the rate."""
        return np.ones(labels.shape, bool) if self.label is None else labels == self.label


RATES: dict[str, Rate] = {
    r.name: r
    for r in (
        Rate("fpr", 0, +1, "false positive rate"),
        Rate("fnr", 1, -1, "false negative rate"),
        Rate("tpr", 1, +1, "true positive rate"),
        Rate("tnr", 0, -1, "true negative rate"),
        Rate("ppr", None, +1, "predicted positive rate"),
        Rate("pnr", None, -1, "predicted negative rate"),
    )
}
SYNONYMS = {
    "sensitivity": "tpr",
    "recall": "tpr",
    "hit rate": "tpr",
    "specificity": "tnr",
    "miss rate": "fnr",
    "false alarm rate": "fpr",
    "fallout": "fpr",
    "selection rate": "ppr",
    "acceptance rate": "ppr",
    "approval rate": "ppr",
    "positive rate": "ppr",
    "demographic parity": "ppr",
    "equal opportunity": "fnr",
    "predictive equality": "fpr",
    "ppv": "precision",
    "positive predictive value": "precision",
    "predictive parity": "precision",
    "error rate": "error",
    "mean": "prediction",
    "mean prediction": "prediction",
}
"""Other names of rates, which a message explains where the rate can be asked for."""


PRECISION = Rate("precision", 1, +1, "precision")
"""Share of positive decisions whose label is positive: the true positive rate with label and
decision swapped. The model itself says who counts, so it is no moment and is not among ``RATES``;
:mod:`fairboost.fairness.precision` holds it equal."""


def as_rate(rate: str | Rate, further: Sequence[str] = ()) -> Rate:
    """Look a rate up by name; a ``Rate`` passes through.

    ``further`` names what else could have been asked for in its place, for the message.

    Examples
    --------
    >>> as_rate("FPR").title
    'false positive rate'
    """
    if isinstance(rate, Rate):
        return rate
    found = RATES.get(rate.lower()) if isinstance(rate, str) else None
    if found is None:
        known = (*RATES, *further)
        raise ConstraintError(
            f"unknown rate {rate!r}; expected one of {', '.join(known)}, or a "
            "fairboost.fairness.Rate; where a number is predicted, one of "
            f"{', '.join(COMPARED)}{_meant(str(rate), (*known, *COMPARED))}"
        )
    return found


def _meant(word: str, known: Sequence[str]) -> str:
    """The rate that was perhaps meant, as the end of a message."""
    spoken = {r.title: r.name for r in RATES.values()} | SYNONYMS
    name = spoken.get(word.lower().replace("_", " "))
    return f"; did you mean {name!r}?" if name in known else did_you_mean(word, known)


def as_moment(moment: str | Moment) -> Moment:
    """Look a moment up by name; one of any task passes through."""
    if isinstance(moment, str) and moment.lower() in NUMBERS:
        return NUMBERS[moment.lower()]
    known = not isinstance(moment, str) and isinstance(moment, Moment)
    return cast(Moment, moment) if known else as_rate(cast(Rate, moment))


def counted_cells(
    rate: Moment, cell_labels: IntArray, cell_groups: IntArray
) -> tuple[NDArray[np.intp], IntArray]:
    """Which cells count towards the rate of some group, and of which.

    Parameters
    ----------
    rate : Rate
        Says which labels count.
    cell_labels, cell_groups : (n_cells,) int32
        Label and group of each cell; group -1 is a missing group and counts for none.

    Returns
    -------
    cells : (n_counted,) intp
    groups : (n_counted,) int32
    """
    cells = np.flatnonzero(rate.counts(cell_labels) & (cell_groups >= 0))
    return cells, cell_groups[cells]


def group_sums(
    rate: Rate,
    cell_labels: IntArray,
    cell_groups: IntArray,
    n_groups: int,
    total: FloatArray,
    positive: FloatArray,
) -> tuple[FloatArray, FloatArray]:
    """Events and rows that count, by group, from sums over cells.

    The exact rate of group g is ``events[g] / counted[g]``.

    Parameters
    ----------
    rate : Rate
        The rate.
    cell_labels, cell_groups : (n_cells,) int32
        Label and group of each cell; group -1 is a missing group and counts for none.
    n_groups : int
        Number of groups.
    total : (n_cells,) float64
        Weight of the rows of each cell.
    positive : (n_cells,) float64
        Weight of those on the positive side of the threshold.

    Returns
    -------
    events, counted : (n_groups,) float64

    Examples
    --------
    >>> labels, groups = np.array([0, 1, 0, 1]), np.array([0, 0, 1, 1])
    >>> group_sums(RATES["fnr"], labels, groups, 2, np.full(4, 10.0), np.array([1.0, 8, 2, 5]))
    (array([2., 5.]), array([10., 10.]))
    """
    cells, groups = counted_cells(rate, cell_labels, cell_groups)
    event = positive if rate.direction > 0 else total - positive
    return (
        np.bincount(groups, event[cells], n_groups).astype(np.float64, copy=False),
        np.bincount(groups, total[cells], n_groups).astype(np.float64, copy=False),
    )
