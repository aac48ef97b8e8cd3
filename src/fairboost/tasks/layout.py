"""The rows of a training as a task and the game get them: sorted into cells, constraints bound."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, TypeAlias

import numpy as np

from fairboost._typing import Float32Array, FloatArray, IntArray
from fairboost.data.cells import Cells
from fairboost.data.holdout import NOTHING_HELD_OUT, Holdout
from fairboost.fairness.all_reduce import ONE_MACHINE, AllReduce
from fairboost.fairness.binding import Term, bind, match
from fairboost.fairness.constraints import Constraint
from fairboost.fairness.tolerance import is_automatic, settled
from fairboost.kernel.device import Device
from fairboost.kernel.threads import Threads

Memberships: TypeAlias = Mapping[tuple[str, ...], Float32Array]
"""For some sensitive columns (crossed), the probability of each row's group, (n, n_groups)."""


@dataclass(frozen=True)
class Outcomes:
    """What rows are to come to, where a number is predicted.

    Parameters
    ----------
    targets : (n,) float64
        The numbers.
    weight : (n,) float32, optional
        Weights in the loss.
    exposure : (n,) float64, optional
        What the prediction of each row is multiplied by, such as years insured.
    """

    targets: FloatArray
    weight: Float32Array | None = None
    exposure: FloatArray | None = None

    def among(self, rows: Any) -> Outcomes:
        """Those of some rows."""
        weight, exposure = self.weight, self.exposure
        return Outcomes(
            self.targets[rows],
            None if weight is None else weight[rows],
            None if exposure is None else exposure[rows],
        )


def join_outcomes(parts: Sequence[Outcomes]) -> Outcomes:
    """Those of several sets of rows, one after the other."""
    if len(parts) == 1:
        return parts[0]

    def joined(name: str) -> Any:
        found = [getattr(part, name) for part in parts]
        if all(column is None for column in found):
            return None
        pairs = zip(found, parts, strict=True)
        return np.concatenate([np.ones(len(p.targets)) if c is None else c for c, p in pairs])

    return Outcomes(joined("targets"), joined("weight"), joined("exposure"))


@dataclass(frozen=True)
class RowLayout:
    """Rows to train on, rows to measure on, and the constraints bound to either.

    Parameters
    ----------
    cells : Cells
        The rows that the engine trains on. Where rows lie on several machines, codes are those of
        the rows here; counts, weights and squares are those of all.
    terms, measured_terms : tuple of Term
        The constraints, bound to these rows and to those that moments are measured on.
    holdout : Holdout
        The rows that moments are measured on; the training rows by default.
    sample_weight : (n,) float32, optional
        Weights of the rows trained on.
    memberships : mapping
        Probabilities of groups. In gradients they take the place of the groups themselves;
        moments go by the groups observed.
    threads : Threads
        Those that share passes over the rows.
    all_reduce : AllReduce
        Adds up over the machines that hold rows.
    outcomes, measured_outcomes : Outcomes, optional
        Of the rows trained on and of those measured, where a number is predicted; weights above
        are then those in moments.
    places : (m,) int, optional
        Where rows lie on several machines, the place of each row that is measured here among
        those of all.
    device : Device, optional
        The GPU on which scores and gradients are, if they are on one.
    """

    cells: Cells
    terms: tuple[Term, ...] = ()
    measured_terms: tuple[Term, ...] = ()
    holdout: Holdout = NOTHING_HELD_OUT
    sample_weight: Float32Array | None = None
    memberships: Memberships = field(default_factory=dict)
    threads: Threads = field(default_factory=Threads)
    all_reduce: AllReduce = ONE_MACHINE
    outcomes: Outcomes | None = None
    measured_outcomes: Outcomes | None = None
    places: IntArray | None = None
    device: Device | None = None

    @property
    def measured(self) -> Cells:
        """The rows that moments are measured on."""
        return self.cells if self.holdout.measured is None else self.holdout.measured

    @property
    def measured_weight(self) -> Float32Array | None:
        """Their weights."""
        held_out = self.holdout.is_outside
        return self.holdout.outside_weight if held_out else self.sample_weight

    def sample(self, most: int) -> tuple[Any, tuple[IntArray, int] | None]:
        """At most so many rows that are measured, the same ones however machines share them.

        Returns
        -------
        here, among_all : slice or (m,) int, tuple of (m,) int and int
            Which of the rows measured here, their places in the sample of all machines, and how
            many there are; the latter are None where all rows are here.
        """
        n = int(self.measured.counts.sum())
        step = 1 + n // most
        if self.places is None:
            return slice(None, None, step), None
        here = np.flatnonzero(self.places % step == 0)
        return here, (self.places[here] // step, -(-n // step))

    def with_constraints(self, constraints: Sequence[Constraint]) -> RowLayout:
        """The same rows under other constraints on the same groups."""
        new = lay_out(self.cells, constraints, self.holdout)
        return replace(self, terms=new.terms, measured_terms=new.measured_terms)


def bind_all(
    constraints: Iterable[Constraint], cells: Cells, which: Any = "all"
) -> tuple[Term, ...]:
    """Bind constraints to some rows; ``which`` rows these are is for messages."""
    return tuple(bind(c, cells, which) for c in constraints)


def lay_out(
    cells: Cells,
    constraints: Sequence[Constraint],
    holdout: Holdout = NOTHING_HELD_OUT,
    terms: tuple[Term, ...] | None = None,
    **rest: Any,
) -> RowLayout:
    """Bind constraints to the rows trained on and to those held out, once each.

    Parameters
    ----------
    cells : Cells
        The rows trained on.
    constraints : sequence of Constraint
        The constraints; none makes this the plain engine.
    holdout : Holdout
        The rows held out.
    terms : tuple of Term, optional
        The constraints bound to the rows trained on, where they are already.
    **rest
        Further fields of :class:`RowLayout`.
    """
    if holdout.measured is not None:
        ours, theirs = match(constraints, cells, holdout.measured)
        if ours is not cells:
            cells, holdout, terms = ours, replace(holdout, measured=theirs), None
    if terms is None:
        terms = bind_all(constraints, cells, "trained" if holdout.cuts else "all")
    measured = terms
    if holdout.measured is not None and holdout.kind != "cross":  # which measures the same rows
        measured = bind_all(constraints, holdout.measured, "held out")
    if any(is_automatic(t.constraint) for t in terms):
        seen = holdout.measured
        parts = [cells] if seen is None or holdout.kind == "cross" else [cells, seen]
        terms, measured = settled(terms, measured, *parts)
    layout = RowLayout(cells, terms, measured, holdout, **rest)
    missing = layout.measured.rows_without_group()
    why = f"{holdout.why}; {missing}" if missing else holdout.why
    return replace(layout, holdout=replace(holdout, why=why))
