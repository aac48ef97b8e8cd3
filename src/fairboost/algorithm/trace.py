"""What happened in training, one row per round, as columns.

The row of round t holds what Algorithm 1 saw at its start: loss and exact rates of f_{t-1}, their
violations, and the multipliers that made the gradient of tree t. Rates are those that move the
multipliers: of the rows held out, if there are any.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd

from fairboost._typing import FloatArray


class Trace:
    """Collects a row per round.

    Parameters
    ----------
    rates : sequence of str
        Names of the rates.
    inequalities : sequence of str
        Names of the inequalities, each with a violation and a multiplier.
    held_out : bool, default=False
        Whether rates, violations and a loss of their own are those of rows held out.
    moving : bool, default=False
        Whether the threshold of decisions moves.

    Examples
    --------
    >>> trace = Trace(["fpr[everyone]"], ["fpr<=0.1"])
    >>> trace.append(0.69, 0.69, 0.5, 0.5, np.array([0.3]), np.array([0.2]), np.array([0.0]))
    >>> trace.to_frame().columns.tolist()
    ['round', 'loss', 'rate: fpr[everyone]', 'violation: fpr<=0.1', 'multiplier: fpr<=0.1']
    """

    def __init__(
        self,
        rates: Sequence[str],
        inequalities: Sequence[str],
        held_out: bool = False,
        moving: bool = False,
    ) -> None:
        self.columns = [
            "loss",
            "held-out loss",
            "held-out accuracy",
            "threshold",
            *(f"rate: {name}" for name in rates),
            *(f"violation: {name}" for name in inequalities),
            *(f"multiplier: {name}" for name in inequalities),
        ]
        # What the other columns, or the parameters, say already.
        self.hidden = ["threshold"] * (not moving)
        self.hidden += ["held-out loss", "held-out accuracy"] * (not held_out)
        self.n_inequalities = len(inequalities)
        self.rows: list[FloatArray] = []
        self.last: FloatArray | None = None

    def __len__(self) -> int:
        return len(self.rows)

    def append(
        self,
        loss: float,
        held_out_loss: float,
        held_out_accuracy: float,
        threshold: float,
        rates: FloatArray,
        violations: FloatArray,
        multipliers: FloatArray,
    ) -> None:
        """Record the start of a round."""
        figures = [loss, held_out_loss, held_out_accuracy, threshold]
        self.rows.append(np.concatenate([figures, rates, violations, multipliers]))

    def close(self, *args: Any, **kwargs: Any) -> None:
        """Record what came of the last round, as a further start."""
        self.append(*args, **kwargs)
        self.last = self.rows.pop()

    def iterates(self) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Held-out loss, accuracy and violations of f_0, f_1 and so on, as far as seen."""
        table = np.array(self.rows + ([] if self.last is None else [self.last]))
        table = table.reshape(-1, len(self.columns))
        end = len(self.columns) - self.n_inequalities
        return table[:, 1], table[:, 2], table[:, end - self.n_inequalities : end]

    def to_frame(self) -> pd.DataFrame:
        """Return the table, with a column ``round`` that counts from 1."""
        values = np.array(self.rows).reshape(len(self.rows), len(self.columns))
        shown = [k for k, name in enumerate(self.columns) if name not in self.hidden]
        # One block of memory; pandas complains of a table put together column by column.
        frame = pd.DataFrame(values[:, shown], columns=[self.columns[k] for k in shown])
        frame.insert(0, "round", np.arange(1, len(frame) + 1))
        return frame
