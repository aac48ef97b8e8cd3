"""Which rows the multipliers look at.

Trees fit the training rows, so rates on training rows soon say nothing about other people. The
multipliers therefore read rates on rows that training does not touch:

* a **share** of the rows, stratified by cell. The engine trains on the others and keeps the
  scores of these: X is not copied and nothing is predicted twice. Of rows whose label no rate
  counts only a quarter of the share is held out, for the loss: where false positive rates are to
  be alike and fraud is rare, fraud is for training. The loss weighs the labels as they were;
* **cross-fitting**, for small data: K further boosters each leave out one fold, the rates are
  those of all rows out of fold, and the booster that is kept trains on all rows under the same
  multipliers. It costs that many fits more and uses every row for both ends;
* a **set** of the user's own, such as the latest month. With a share as well, rates are read on
  **both**: a month alone may be too few rows to tell them. The threshold of an operating point is
  placed on the set, since that is where decisions will be made;
* or nothing: the training rows, as in the paper.

What is left is the sampling error of the rows looked at. ``"auto"`` cross-fits where that would be
large and a fit is cheap. How much a row tells depends on what is compared: a mean of claims, most
of which are 0, is known from far fewer events than there are rows.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, TypeAlias

import numpy as np

from fairboost._numbers import is_number
from fairboost._typing import BoolArray, Float32Array, IntArray
from fairboost._warnings import warn
from fairboost.data.cells import Cells, SensitiveColumn, Weights, same_groups
from fairboost.data.validation import DEFAULT_COLUMN
from fairboost.exceptions import FairnessWarning, InvalidInputError

HoldoutLike: TypeAlias = Literal["auto", "cross"] | float | None
FoldNeed: TypeAlias = Literal["usual", "exacting", "stage"]
HoldoutKind: TypeAlias = Literal["none", "share", "cross", "set", "both"]

SHARE = 0.2
"""Rows held out by default."""

SPARED = 0.25
"""Share of the share that is held out of rows whose label no constrained rate counts."""

SPARED_ROWS = 200
"""But so many rows, as far as the whole share goes: the loss is read on them."""

ANOTHER_BOOSTER = 2.8
"""Variance in cross-fitting beyond that of sampling, times the number of folds: upper ends of gaps
then hold in 94% of fits or more (``benchmarks/verdicts.md``)."""

CROSS_BELOW_CELL = 2_000
"""``"auto"`` cross-fits if fewer held-out rows than this would count towards some group's rate. Of
a rate at even odds their standard error is 0.011."""

CROSS_BELOW_ROWS = 200_000
"""``"auto"`` cross-fits up to this number of rows; beyond it, several fits take too long."""


@dataclass(frozen=True)
class Holdout:
    """The rows held out.

    Parameters
    ----------
    kind : {"none", "share", "cross", "set", "both"}
        How they are held out; "both" is a share and, after it, a set.
    why : str
        The choice in words.
    folds : (n,) int8, optional
        For a share, 1 for the rows held out and 0 for the others; in cross-fitting the fold.
    measured : Cells, optional
        The rows that rates are read on; None for the training rows.
    outside_weight : (m,) float32, optional
        Weights of the rows held out of the engine's training: a share, a set, or both.
    trained_labels, measured_labels : (float, float)
        Factors on the loss of either label, among the rows trained on and those held out, that
        make up for holding out more of one than of the other.
    placed : Cells, optional
        The last of the measured rows, if a threshold is placed on them alone.
    n_folds : int
        Number of boosters that leave out a fold.
    left : Cells, optional
        For a share, the rows that are left to train on.
    """

    kind: HoldoutKind
    why: str
    folds: IntArray | None = None
    measured: Cells | None = None
    outside_weight: Float32Array | None = None
    trained_labels: tuple[float, float] = (1.0, 1.0)
    measured_labels: tuple[float, float] = (1.0, 1.0)
    placed: Cells | None = None
    n_folds: int = 0
    left: Cells | None = None

    @property
    def trained(self) -> BoolArray | None:
        """The rows that the model is trained on; None for all."""
        return None if not self.cuts or self.folds is None else self.folds == 0

    @property
    def cuts(self) -> bool:
        """Whether a part of the user's rows is not trained on."""
        return self.kind in ("share", "both")

    @property
    def allowance(self) -> float:
        """Variance of what is read, over that of sampling as many rows.

        In cross-fitting the booster that is kept is none of those that leave out a fold, and what
        they say of it is off by more, the fewer folds there are.
        """
        return 1.0 + ANOTHER_BOOSTER / self.n_folds if self.kind == "cross" else 1.0

    @property
    def is_outside(self) -> bool:
        """Whether rates are measured on rows that no booster is trained on."""
        return self.kind in ("share", "set", "both")

    def without_rows(self) -> Holdout:
        """The choice, and counts by cell, for when the rows are gone."""
        measured, placed = (c and c.without_rows() for c in (self.measured, self.placed))
        gone: dict[str, Any] = {"folds": None, "left": None, "outside_weight": None}
        return replace(self, measured=measured, placed=placed, **gone)

    def rows_without_folds(self) -> list[IntArray]:
        """The rows of each booster that leaves out a fold, in order."""
        return [np.flatnonzero(self.folds != k) for k in range(self.n_folds)]


def fold_count(n_rows: int, need: FoldNeed = "usual") -> int:
    """Folds to cut rows into: many of few rows, of which boosters can spare none.

    From 20,000 rows on, half of them teach nearly as much as all: gaps and accuracy on new rows
    are those of 5 folds (``benchmarks/folds.md``). ``"exacting"`` constraints need 5 folds at
    every size, because scores of boosters on half the rows are spread otherwise than those of the
    booster that is kept:

    * a threshold is placed on the scores: rates on new rows miss the target with 2 folds;
    * a ratio of rates, by analogy. The gain is not confirmed: on bank_marketing 5 folds changed
      the ratio on new rows by +0.060 ± 0.026 on the ten splits by which they were chosen, and by
      -0.023 ± 0.046 on ten others (standard errors);
    * several classes, where a rate may be of one class in a small group.

    A ``"stage"`` of few small trees on the scores of a base model has less to learn: from 9,000
    rows on two folds do (``benchmarks/any_model.md``).
    """
    if need == "stage" and n_rows >= 9_000:
        return 2
    return 5 if need == "exacting" or n_rows < 10_000 else 3 if n_rows < 20_000 else 2


NOTHING_HELD_OUT = Holdout("none", "groups are compared on the training rows")


def choose(
    holdout: HoldoutLike,
    cells: Cells,
    smallest: float,
    sample_weight: Weights | None,
    rng: np.random.Generator,
    labels: Collection[int] = (0, 1),
    need: FoldNeed = "usual",
    worth: float = 1.0,
) -> Holdout:
    """Choose the rows to hold out, stratified by cell.

    Parameters
    ----------
    holdout : {"auto", "cross"}, float or None
        What the user asked for.
    cells : Cells
        All rows.
    smallest : float
        The rows of the smallest group that count towards a constrained rate.
    sample_weight : (n,) float, optional
        Their weights.
    rng : Generator
        Draws the rows.
    labels : collection of {0, 1}
        The labels that rates count.
    need : {"usual", "exacting", "stage"}
        Whether a threshold is placed on the scores of these rows, or ratios of rates are limited,
        which is exacting; else whether a stage is added to a base model (:func:`fold_count`).
    worth : float
        What a row tells about a constrained moment, over what it tells about a rate at even odds;
        at most 1.
    """
    check_holdout(holdout)
    if holdout is None:
        return NOTHING_HELD_OUT
    n = len(cells.codes)
    quick = SHARE * smallest * worth < CROSS_BELOW_CELL and n <= CROSS_BELOW_ROWS
    if holdout == "cross" or (holdout == "auto" and quick):
        several = int(cells.labels.max()) > 1  # classes
        n_folds = fold_count(n, "exacting" if several else need)
        why = f"cross-fitting in {n_folds} folds"
        if holdout == "auto":
            why += f", as only {_rows_for(SHARE, smallest)} with a share of {SHARE:.0%}"
            if worth < 1.0:
                told = max(SHARE * smallest * worth, 1.0)
                why += f", with as much information as {told:,.0f} rows have about a rate"
        strata, cell_of = cells.strata
        order, _ = _shuffled_by_cell(strata, len(cell_of), rng)
        folds = np.empty(n, np.int8)
        folds[order] = np.arange(n) % n_folds  # the rows of every cell are dealt out evenly
        everyone = cells.among(slice(None), sample_weight)
        return Holdout("cross", why, folds, everyone, n_folds=n_folds)
    shares = large_enough_shares(holdout, cells, smallest, labels)
    strata, cell_of = cells.strata
    held = replace(shares, spared=shares.spared[cell_of]).mark(strata, rng)
    return of_share(shares, cells, held, sample_weight)


def large_enough_shares(
    holdout: HoldoutLike, cells: Cells, smallest: float, labels: Collection[int]
) -> Shares:
    """As :func:`choose_shares`, saying also why rows are not cross-fitted."""
    shares, n = choose_shares(holdout, cells, smallest, labels), len(cells.codes)
    if holdout == "auto" and n > CROSS_BELOW_ROWS:
        reason = f", and with {n:,} rows cross-fitting would take long"
        shares = replace(shares, why=shares.why + reason)
    return shares


def of_share(
    shares: Shares, cells: Cells, held: BoolArray, sample_weight: Weights | None
) -> Holdout:
    """Hold out some rows, drawn by shares of all."""
    weight = None if sample_weight is None else sample_weight[held].astype(np.float32)
    trained, measured = (cells.among(rows, sample_weight) for rows in (~held, held))
    found = shares.holdout(cells, trained, measured)
    return replace(found, folds=held.astype(np.int8), left=trained, outside_weight=weight)


@dataclass(frozen=True)
class Shares:
    """The share of rows to hold out of each cell.

    Parameters
    ----------
    share : float
        Of cells whose label some rate counts.
    others : float
        Of those whose label none does, all of them together.
    spared : (n_cells,) bool
        The latter.
    why : str
        The choice in words.
    """

    share: float
    others: float
    spared: BoolArray
    why: str

    def mark(
        self, codes: IntArray, rng: np.random.Generator, before: IntArray | None = None
    ) -> BoolArray:
        """Draw the rows to hold out.

        Parameters
        ----------
        codes : (n,) unsigned int
            Cell of each row.
        rng : Generator
            Draws the rows.
        before : (n_cells,) int, optional
            Rows of each cell in earlier parts of the data, if these rows are a part of it: the
            parts together then hold out as many rows of each cell as the whole would.
        """
        # The k-th row of a cell is held out where k * share passes a whole number; every cell
        # starts half a step in, so that one of m rows is taken as soon as m * share is at least
        # one half.
        n_cells = len(self.spared)
        order, by_cell = _shuffled_by_cell(codes, n_cells, rng)
        counts, spared = np.bincount(codes, minlength=n_cells)[by_cell], self.spared[by_cell]
        first = np.zeros(n_cells, np.int64) if before is None else before[by_cell]
        rank = np.arange(len(order)) - np.repeat(np.cumsum(counts) - counts - first, counts)
        shares = np.full(len(order), self.share)
        if self.others != self.share:  # one row after the other, whatever their cells
            which = np.repeat(spared, counts)
            rank[which] = first[spared].sum() + np.arange(which.sum())
            shares[which] = self.others
        taken = np.floor((rank + 1) * shares + 0.5) > np.floor(rank * shares + 0.5)
        held = np.zeros(len(order), bool)
        held[order] = taken
        return held

    def holdout(self, cells: Cells, trained: Cells, measured: Cells) -> Holdout:
        """What came of it: of all rows, those left to train on, and those held out."""
        held = Holdout("share", self.why, measured=measured)
        if self.others == self.share:
            return held
        which = "positive" if 1 in cells.labels[self.spared] else "negative"
        why = f"{self.why}; of the {which} rows, which no rate counts, {100 * self.others:.2g}%"
        factors, held_factors = (_as_in(cells, part) for part in (trained, measured))
        return replace(held, why=why, trained_labels=factors, measured_labels=held_factors)


def join(
    share: Holdout, given: Holdout, cells: Cells, measured: Cells, weight: Float32Array | None
) -> Holdout:
    """A share and a set, to read rates on both.

    Parameters
    ----------
    share, given : Holdout
        The share of the training rows, and the set.
    cells : Cells
        The rows that the share was cut from.
    measured : Cells
        The rows of both, in this order.
    weight : (m,) float32, optional
        Their weights.
    """
    spares = share.measured_labels != (1.0, 1.0)
    return replace(
        share,
        kind="both",
        why=f"{share.why}; and {given.why}",
        measured=measured,
        placed=given.measured,
        outside_weight=weight,
        measured_labels=_as_in(cells, measured) if spares else (1.0, 1.0),
    )


def choose_shares(
    holdout: HoldoutLike, cells: Cells, smallest: float, labels: Collection[int] = (0, 1)
) -> Shares:
    """Choose what share to hold out of each cell; arguments are those of :func:`choose`."""
    auto = isinstance(holdout, str)
    share = SHARE if isinstance(holdout, str) else float(holdout or SHARE)
    why = f"a share of {100 * share:.2g}%" + f": {_rows_for(share, smallest)}" * auto
    spared = ~np.isin(cells.labels, list(labels))
    others = share
    if spared.any():
        found = float(cells.counts[spared].sum())
        others = max(SPARED * share, min(share, SPARED_ROWS / max(found, 1.0)))
    return Shares(share, others, spared, why)


def _rows_for(share: float, smallest: float) -> str:
    return f"{share * smallest:,.0f} held-out rows would count for the smallest group"


def _as_in(cells: Cells, part: Cells) -> tuple[float, float]:
    """Factors that give the labels of some rows the weight that they have among all."""
    whole, ours = (np.bincount(c.labels, c.weights, minlength=2) for c in (cells, part))
    if not ours.all():
        return 1.0, 1.0  # of one label alone, or of no rows at all
    factors = whole / ours * (ours.sum() / whole.sum())
    return float(factors[0]), float(factors[1])


def check_holdout(holdout: Any) -> None:
    """Refuse what is neither a share nor a name."""
    if holdout is None or (isinstance(holdout, str) and holdout in ("auto", "cross")):
        return
    if not is_number(holdout) or not 0 < holdout < 1:
        raise InvalidInputError(
            f"holdout must be 'auto', 'cross', a share of the rows in (0, 1), or None for the "
            f"training rows, found {holdout!r}"
        )


def _shuffled_by_cell(
    codes: IntArray, n_cells: int, rng: np.random.Generator
) -> tuple[IntArray, IntArray]:
    """Rows in random order, cell by cell, and the cells in that order.

    Cells come in the order in which the draw meets them: their numbers follow from the names of
    groups, which must not decide who is held out.
    """
    shuffled = rng.permutation(len(codes))
    met = np.full(n_cells, len(codes))
    met[codes[shuffled[::-1]]] = np.arange(len(codes))[::-1]  # the first of a cell is set last
    by_cell = np.argsort(met, kind="stable")
    place = np.empty(n_cells, np.min_scalar_type(max(n_cells - 1, 1)))
    place[by_cell] = np.arange(n_cells)
    return shuffled[np.argsort(place[codes[shuffled]], kind="stable")], by_cell


def align_groups(
    columns: Sequence[SensitiveColumn], held_out: Sequence[SensitiveColumn]
) -> list[SensitiveColumn]:
    """Groups of a held-out set by the codes of the training set.

    Parameters
    ----------
    columns, held_out : sequence of SensitiveColumn
        The sensitive columns that are constrained, and all those of the held-out set.

    Returns
    -------
    aligned : list of SensitiveColumn
        The held-out columns; a group that training never saw counts as missing, with a warning.
    """
    by_name = {c.name: c for c in held_out}
    if len(columns) == 1 and list(by_name) == [DEFAULT_COLUMN]:
        by_name = {columns[0].name: held_out[0]}  # it came without a name
    missing = [c.name for c in columns if c.name not in by_name]
    if missing:
        raise InvalidInputError(
            f"holdout_set has the sensitive columns {', '.join(by_name) or 'none'}, expected "
            f"those of training: {', '.join(c.name for c in columns)}; pass the same columns"
        )
    aligned = []
    for known in columns:
        new = by_name[known.name]
        if known.is_soft or new.is_soft:
            aligned.append(_aligned_members(known, new))
            continue
        position = {value: k for k, value in enumerate(known.values)}
        values = same_groups(known.name, new.values, known.values)
        unseen = [value for value in values if value not in position]
        if unseen:
            warn(
                f"holdout_set has groups of {known.name!r} that training never saw: "
                f"{', '.join(map(repr, unseen))}; their rows count in no group",
                FairnessWarning,
            )
        recode = np.array([*(position.get(v, -1) for v in values), -1], np.int32)
        aligned.append(replace(known, codes=recode[new.codes]))
    return aligned


def _aligned_members(known: SensitiveColumn, new: SensitiveColumn) -> SensitiveColumn:
    """Weights of rows in groups, with the groups in the order of training."""
    name = known.name
    if known.members is None or new.members is None:
        here, there = ("training", "holdout_set")[:: 1 if known.is_soft else -1]
        raise InvalidInputError(
            f"{name!r} of {here} has group probabilities, and that of {there} has groups; pass "
            "both in the same form: group_probabilities(...) takes groups that are known as "
            "probabilities of 0 and 1, or as observed="
        )
    if set(known.values) != set(new.values):
        raise InvalidInputError(
            f"holdout_set has probabilities of the groups {', '.join(map(repr, new.values))} of "
            f"{name!r}, expected those of training: {', '.join(map(repr, known.values))}; pass a "
            "table with the same columns"
        )
    order = [new.values.index(value) for value in known.values]
    likely = None if new.likely is None else new.likely[:, order]
    return replace(known, codes=new.codes, members=new.members[:, order], likely=likely)
