"""Groups that are known by probability, and what rows weigh in their rates.

A row i belongs to group g with a weight m_ig. The rate of a group is the share of the events among
the rows that count, each with its weight::

    R_g = sum_i w_i m_ig [event of i] / sum_i w_i m_ig

Which weights follow from probabilities, and what the rates estimate then, is explained at
:func:`group_probabilities`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, TypeAlias, get_args

import numpy as np
import pandas as pd
from scipy.special import ndtri

from fairboost._numbers import plain
from fairboost._typing import ArrayLike, BoolArray, FloatArray, IntArray
from fairboost.data.cells import SensitiveColumn
from fairboost.data.shared import SoftFacts
from fairboost.exceptions import InvalidInputError

Estimator: TypeAlias = Literal["corrected", "weighted"]

ROUNDING = 1e-6
"""How far the probabilities of a row may sum to more than 1."""

LEAST_TOLD = 0.05
"""How much of the groups probabilities must tell (1: all of it) for rates to be corrected."""

FEW_OBSERVED = 20
"""Rows of which both group and probabilities must be known to check the latter."""


@dataclass(frozen=True, eq=False)
class GroupProbabilities:
    """A table of group probabilities, made by :func:`group_probabilities`.

    Parameters
    ----------
    name : str
        The sensitive attribute.
    groups : tuple
        The groups, in the order of the columns.
    probabilities : (n, n_groups) float64
        Of each row; those of rows that are ``observed`` are 0 and 1.
    observed : (n,) bool
        Where the group itself is known.
    estimator : {"corrected", "weighted"}
        Which rates are estimated.
    calibration : str
        What was found where groups are observed; empty where none are.
    index : pandas.Index, optional
        That of the table, to see that rows are those of X.
    """

    name: str
    groups: tuple[object, ...]
    probabilities: FloatArray
    observed: BoolArray
    estimator: Estimator = "corrected"
    calibration: str = ""
    index: Any = None

    def __len__(self) -> int:
        return len(self.probabilities)

    def take(self, rows: Any) -> GroupProbabilities:
        """The same for some of the rows.

        Parameters
        ----------
        rows : array
            Their positions, or True where a row is meant.
        """
        index = None if self.index is None else self.index[rows]
        return replace(
            self,
            probabilities=self.probabilities[rows],
            observed=self.observed[rows],
            index=index,
        )


def group_probabilities(
    table: ArrayLike | Mapping[Any, ArrayLike],
    name: str,
    observed: ArrayLike | None = None,
    estimator: Estimator = "corrected",
) -> GroupProbabilities:
    """Groups that are known by their probability, for ``sensitive_features``.

    Parameters
    ----------
    table : DataFrame, mapping of columns, or array with a column per group
        The probability of each group for each row, between 0 and 1. The probabilities of a row
        sum to 1 or less; what is missing to 1 belongs to no group. A row whose probabilities are
        all missing (NaN) belongs to no group.
    name : str
        Name of the sensitive attribute, such as ``"race"``.
    observed : column, optional
        The group itself where it is known, one of the columns' names, and missing elsewhere. It
        takes the place of the probabilities of its row.
    estimator : {"corrected", "weighted"}, default="corrected"
        Which rates of groups are estimated; see the notes.

    Returns
    -------
    groups : GroupProbabilities

    Notes
    -----
    Let p_g be the probability of group g, and D a decision. Both estimators take the
    probabilities to be calibrated: among rows with p_g = 0.3, 30% are of group g.

    ``"weighted"`` rates are ``sum p_g D / sum p_g``. They are off by
    ``-E[Cov(D, group g | p)] / P(g)``: they are right where the decision depends on the group only
    through the probabilities. Where features show more of the group than the probabilities do,
    gaps of weighted rates are smaller than the true gaps.

    ``"corrected"`` rates solve ``sum p_g D = sum_h E[p_g | h] events_h`` for the events of the
    groups. They are right where the probabilities are related to decisions and labels only
    through the group, as a surname is that matters to nobody's repayment. Their random error is
    larger. Where neither condition holds but both covariances have the sign of the gap, the true
    gap lies between the gaps of both estimators.

    Examples
    --------
    >>> race = group_probabilities({"a": [0.9, 0.2], "b": [0.1, 0.8]}, name="race")
    >>> race.groups, len(race)
    (('a', 'b'), 2)
    """
    if not isinstance(name, str) or not name:
        raise InvalidInputError(
            f"name must be the name of the sensitive attribute, found {name!r}; write "
            "group_probabilities(table, name='race')"
        )
    if estimator not in get_args(Estimator):
        raise InvalidInputError(
            f"estimator must be 'corrected' or 'weighted', found {estimator!r}"
        )
    frame = pd.DataFrame(table)
    groups = tuple(map(plain, frame.columns.tolist()))
    values = _checked(frame, name)
    n = len(values)
    known, calibration = np.zeros(n, bool), ""
    if observed is not None:
        codes = _observed_codes(observed, groups, n, name)
        known = codes >= 0
        calibration = calibration_of(values[known], codes[known], groups)
        values[known] = np.eye(len(groups))[codes[known]]
    empty = [groups[g] for g in np.flatnonzero(~(values > 0).any(axis=0))]
    if empty:
        raise InvalidInputError(
            f"the probability of {empty[0]!r} ({name}) is 0 in every row, so the group has no "
            "rates; leave its column out"
        )
    index = table.index if isinstance(table, pd.DataFrame) else None
    return GroupProbabilities(name, groups, values, known, estimator, calibration, index)


def _checked(frame: pd.DataFrame, name: str) -> FloatArray:
    """Probabilities as numbers; what are none is refused with its row."""
    if frame.shape[1] < 2:
        raise InvalidInputError(
            f"the table of {name!r} has {frame.shape[1]} columns, expected one for each of two "
            "groups or more; for two groups pass both p and 1 - p"
        )
    if not frame.columns.is_unique:
        raise InvalidInputError(f"the table of {name!r} names a group twice; rename its columns")
    try:
        values = frame.to_numpy(np.float64, na_value=np.nan, copy=True)
    except (TypeError, ValueError) as error:
        raise InvalidInputError(
            f"the table of {name!r} must hold probabilities, found something else: {error}"
        ) from error
    missing = np.isnan(values)
    if (partly := missing.any(axis=1) & ~missing.all(axis=1)).any():
        row = int(np.argmax(partly))
        raise InvalidInputError(
            f"row {row} of the table of {name!r} has some probabilities and lacks others; write "
            "0 for a group that the row cannot be of, or leave out all of the row"
        )
    values[missing] = 0.0
    if (wrong := (values < 0) | (values > 1 + ROUNDING)).any():
        row, column = (int(k) for k in np.argwhere(wrong)[0])
        raise InvalidInputError(
            f"probabilities must lie in [0, 1], found {values[row, column]:g} for "
            f"{frame.columns[column]!r} in row {row} of the table of {name!r}"
        )
    sums = values.sum(axis=1)
    if (wrong := sums > 1 + ROUNDING).any():
        row = int(np.argmax(wrong))
        raise InvalidInputError(
            f"the probabilities of a row must sum to 1 or less, and those of row {row} of the "
            f"table of {name!r} sum to {sums[row]:g}; divide each row by its sum if the columns "
            "are scores"
        )
    return values


def _observed_codes(
    observed: ArrayLike, groups: tuple[object, ...], n: int, name: str
) -> IntArray:
    """The place of each observed group among the columns; -1 where it is missing."""
    column = np.asarray(observed, object)
    if column.shape != (n,):
        raise InvalidInputError(
            f"observed has shape {column.shape}, expected one value for each of the {n} rows of "
            f"the table of {name!r}; write None where the group is not known"
        )
    missing = pd.isna(column)
    position = {group: k for k, group in enumerate(groups)}
    unknown = [plain(v) for v in pd.unique(column[~missing]) if plain(v) not in position]
    if unknown:
        raise InvalidInputError(
            f"observed names the group {unknown[0]!r}, and the table of {name!r} has the columns "
            f"{', '.join(map(repr, groups))}; name groups as the columns are named"
        )
    codes = np.full(n, -1, np.int32)
    codes[~missing] = [position[plain(v)] for v in column[~missing]]
    return codes


def calibration_of(probabilities: FloatArray, codes: IntArray, groups: Sequence[object]) -> str:
    """Whether probabilities are calibrated where groups are observed, in words.

    Of each group, the observed share is compared with the mean probability, among all rows and
    among the half of highest probability.
    """
    known = probabilities.sum(axis=1) > 0
    if known.sum() < FEW_OBSERVED:
        return (
            ""
            if not len(codes)
            else (
                f"Both the group and probabilities are known of {int(known.sum())} rows, too few "
                "to check the probabilities"
            )
        )
    p, c = probabilities[known], codes[known]
    worst: tuple[float, str] = (0.0, "")
    for g, group in enumerate(groups):
        order = np.argsort(p[:, g], kind="stable")
        for rows, which in (
            (order, "all"),
            (order[len(order) // 2 :], "those of high probability"),
        ):
            expected, share = float(p[rows, g].mean()), float((c[rows] == g).mean())
            spread = max(float((p[rows, g] * (1 - p[rows, g])).sum()), 1e-12) ** 0.5 / len(rows)
            off = abs(share - expected) / spread
            if off > worst[0] or not worst[1]:
                said = (
                    f"{share:.3f} of them are {group!r} where {expected:.3f} are expected "
                    f"({which} of {len(rows):,} rows)"
                )
                worst = off, said
    # Two looks at each group, at 1% for all of them together.
    limit = float(ndtri(1 - 0.005 / (2 * len(groups))))
    start = f"On the {int(known.sum()):,} rows whose group is observed, probabilities are "
    if worst[0] > limit:
        return (
            f"{start}not calibrated: {worst[1]}. Calibrate them on these rows before you rely on "
            "the rates"
        )
    return f"{start}calibrated as far as so many rows show: at worst {worst[1]}"


def as_column_of_groups(given: GroupProbabilities) -> SensitiveColumn:
    """Group probabilities as a sensitive column, with what each row weighs in each group's rate.

    Where rates are corrected, weights are those of ``Q^-1 p`` with ``Q_gh`` the mean of p_g among
    group h, ``sum p_g p_h / sum p_h``. They sum to what p sums to, and may be negative.
    """
    p, known = given.probabilities, given.observed
    likely = p.astype(np.float32)
    members, unmix = p, None
    unsure = ~known & (p.sum(axis=1) > 0)
    if given.estimator == "corrected" and unsure.any():
        back = _back(p[unsure], given)
        members = p.copy()
        rest = 1.0 - p[unsure].sum(axis=1, keepdims=True)
        n = p.shape[1]
        members[unsure] = p[unsure] @ back[:n, :n].T + (
            rest @ back[:n, n:].T if len(back) > n else 0
        )
        share = unsure.sum() / max((unsure | known).sum(), 1)
        mixing = np.linalg.inv(back)
        unmix = np.linalg.inv(share * mixing + (1 - share) * np.eye(len(mixing)))
    facts = SoftFacts(given.name, f"{given.name} by probability", _statement(given))
    codes = np.full(len(p), -1, np.int8)
    return SensitiveColumn(
        given.name, codes, given.groups, members.astype(np.float32), likely, unmix, facts=facts
    )


def _back(p: FloatArray, given: GroupProbabilities) -> FloatArray:
    """The inverse of the mean probability of each group (line) among each group (column).

    What is missing to 1 is one group more, the last, where the rows tell it from the others.
    Where they do not, it is taken to be shared out as the rest of the row is.
    """
    total = p.sum(axis=1, keepdims=True)
    whole, rest = p / total, 1.0 - total
    if rest.max() > ROUNDING and (rest**2).sum() > LEAST_TOLD * rest.sum():
        whole = np.hstack([p, rest])
    weight = whole.sum(axis=0)
    if not (weight > 0).all():
        group = given.groups[int(np.argmin(weight))]
        raise InvalidInputError(
            f"{group!r} has no probability above 0 among the rows whose {given.name} is not "
            "observed, so rates cannot be corrected; use estimator='weighted'"
        )
    mixing = whole.T @ whole / weight
    told = float(np.linalg.svd(mixing, compute_uv=False).min())
    if told < LEAST_TOLD:
        raise InvalidInputError(
            f"the probabilities of {given.name!r} hardly separate the groups (the smallest "
            f"singular value of their means by group is {told:.3f}, expected {LEAST_TOLD} or "
            "more), so rates cannot be corrected; merge groups, or use estimator='weighted'"
        )
    return np.linalg.inv(mixing)


def _statement(given: GroupProbabilities) -> str:
    """What the rates of these groups estimate, and where they are biased."""
    seen = int(given.observed.sum())
    said = f"Groups of {given.name} are known by probability"
    if seen:
        said += f", and observed in {seen:,} of {len(given):,} rows"
    if given.estimator == "weighted":
        said += (
            ". Rates are weighted by the probabilities. These rates estimate the rates of the "
            "groups if the probabilities are calibrated and decisions depend on the group only "
            "through the probabilities. "
            "Otherwise the rate of a group is off by the covariance of decision and group at "
            "equal probability, over the group's share, and gaps are as a rule too small"
        )
    else:
        said += (
            ". Rates are corrected for the probabilities. These rates estimate the rates of the "
            "groups if the probabilities are calibrated and are related to decisions and labels "
            "only through the group. Otherwise the rate of a group is off by the covariance of "
            "decision and probability within groups, and gaps are as a rule too large"
        )
    return f"{said}. {given.calibration}" if given.calibration else said


def check_observed(columns: Iterable[SensitiveColumn], where: str) -> None:
    """Refuse group probabilities where a row has to be in one group."""
    for column in columns:
        if column.is_soft:
            raise InvalidInputError(
                f"{column.name!r} has group probabilities, which are not supported {where}; pass "
                "observed groups, such as the most likely one of each row"
            )
