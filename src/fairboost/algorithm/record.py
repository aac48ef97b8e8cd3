"""The record of a training: what each round found, and nothing that is as long as the rows.

The round t finds what Algorithm 1 sees at its start: loss and exact moments of f_{t-1}, their
violations, and the multipliers that made the gradient of tree t. Moments are those that move the
multipliers: of the rows held out, if there are any. Iterates, reports, plots, files and clusters
read the record; nobody reads the game.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import pandas as pd

from fairboost._typing import FloatArray
from fairboost.data.holdout import Holdout
from fairboost.fairness.binding import Term, slices
from fairboost.fairness.derived import shown_labels, shown_term


@dataclass(frozen=True)
class Round:
    """What was found of f_{t-1} at the start of round t.

    Parameters
    ----------
    loss, held_out_loss : float
        Mean loss of the rows trained on, and of those that moments are measured on.
    figures : mapping of str to float
        What the task shows beside: accuracy and the threshold.
    cut : object
        Where decisions were made, as the task has it.
    moments : (n_moments,) float64
        Exact moments of all terms.
    violations, aimed, errors : (n_inequalities,) float64
        Violations; those of what is aimed at, with a margin; standard errors of either.
    multipliers : (n_inequalities,) float64
        As the round before left them.
    sums, placed : (n_sums, n_cells) float64
        Sums by cell that moments follow from: of the measured rows, and of those on which
        decisions were placed.
    variances : (n_moments,) float64, optional
        Of a single row's quantity, where it does not follow from the moment.
    shared : (n_sums, n_parts) float64, optional
        Sums over parts of cells in groups that rows belong to by weights.
    """

    loss: float
    held_out_loss: float
    figures: Mapping[str, float]
    cut: Any
    moments: FloatArray
    violations: FloatArray
    aimed: FloatArray
    errors: FloatArray
    multipliers: FloatArray
    sums: FloatArray
    placed: FloatArray
    variances: FloatArray | None = None
    shared: FloatArray | None = None

    @property
    def all_sums(self) -> FloatArray:
        """Sums over cells, and after them those over their parts in such groups."""
        return self.sums if self.shared is None else np.hstack([self.sums, self.shared])


@dataclass(frozen=True)
class Record:
    """What is kept of a training.

    Parameters
    ----------
    rounds : tuple of Round
        One per round that was played.
    after_last : Round, optional
        What was measured after the last round. None for DART, which changes the model after it.
    state : State
        Multipliers, coefficients and cut as the last round left them.
    inequalities : tuple of str
        A name for each violation and multiplier.
    terms : tuple of Term
        The constraints, bound to the measured rows.
    holdout : Holdout
        How rows were held out; without the rows.
    confidence : float, optional
        That training aimed for.
    summary : object
        What the task keeps of the measured rows.
    revealed : tuple of float
        Of each term that was trained with learned memberships and compares actual with expected,
        how far features tell its groups apart: from 0, not at all, to 1.
    """

    rounds: tuple[Round, ...]
    after_last: Round | None
    state: Any
    inequalities: tuple[str, ...]
    terms: tuple[Term, ...]
    holdout: Holdout
    confidence: float | None
    summary: Any
    revealed: tuple[float, ...] = ()

    @cached_property
    def iterates(self) -> tuple[Round, ...]:
        """What was found of f_0, f_1 and so on, as far as they were measured."""
        return self.rounds if self.after_last is None else (*self.rounds, self.after_last)

    @property
    def multipliers(self) -> FloatArray:
        """As the last round left them."""
        found: FloatArray = self.state.dual.multipliers
        return found

    @property
    def held_out(self) -> bool:
        """Whether moments were measured on rows held out, or out of fold."""
        return self.holdout.measured is not None

    def column(self, name: str) -> FloatArray:
        """One field of all iterates, as an array; a figure of the task by its name."""
        return np.array(
            [r.figures[name] if name in r.figures else getattr(r, name) for r in self.iterates]
        )

    def moments_of(self, iterate: int) -> tuple[FloatArray, ...]:
        """The exact moments of f_iterate, one flat array per term."""
        found = self.iterates[iterate].moments
        return tuple(found[part] for part in slices([t.counted.size for t in self.terms]))

    @cached_property
    def _has_derived(self) -> bool:
        """Whether some constraint is judged by figures that follow from moments."""
        return any(shown_labels(t) for t in self.terms)

    def _shown(self, found: Round) -> FloatArray:
        """What constraints are judged by in a round: moments, or figures that follow from them."""
        if not self._has_derived:
            return found.moments
        parts = slices([t.counted.size for t in self.terms])
        values = [
            shown_term(t, found.moments[part])[1]
            for t, part in zip(self.terms, parts, strict=True)
        ]
        return np.concatenate([*values, np.empty(0)])

    def to_frame(self) -> pd.DataFrame:
        """A table of the rounds played, with a column ``round`` that counts from 1."""
        names = [label for t in self.terms for label in shown_labels(t) or t.moment_labels]
        # Several constraints may read the same moment; the table shows it once.
        shown = [k for k, name in enumerate(names) if name not in names[:k]]
        figures = self.summary.shown_figures(self.held_out)
        columns = ["loss", *["held-out loss"] * self.held_out, *figures]
        columns += [f"rate: {names[k]}" for k in shown]
        columns += [f"{what}: {name}" for what in ("violation", "multiplier")
                    for name in self.inequalities]  # fmt: skip
        lines = [
            [r.loss, *[r.held_out_loss] * self.held_out, *(r.figures[f] for f in figures),
             *self._shown(r)[shown], *r.violations, *r.multipliers]
            for r in self.rounds
        ]  # fmt: skip
        # One block of memory; pandas complains of a table put together column by column.
        values = np.array(lines).reshape(len(lines), len(columns))
        frame = pd.DataFrame(values, columns=columns)
        frame.insert(0, "round", np.arange(1, len(frame) + 1))
        return frame
