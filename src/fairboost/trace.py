"""What happened in training, one row per round, as columns.

The row of round t holds what Algorithm 1 saw at its start: loss and exact rates of f_{t-1}, their
violations, and the multipliers that made the gradient of tree t.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pandas as pd

from fairboost._typing import FloatArray

__all__ = ["Trace"]


class Trace:
    """Collects a row per round.

    Parameters
    ----------
    rates : sequence of str
        Names of the rates.
    inequalities : sequence of str
        Names of the inequalities, each with a violation and a multiplier.

    Examples
    --------
    >>> trace = Trace(["fpr[everyone]"], ["fpr<=0.1"])
    >>> trace.append(0.69, np.array([0.3]), np.array([0.2]), np.array([0.0]))
    >>> trace.to_frame().columns.tolist()
    ['round', 'loss', 'rate: fpr[everyone]', 'violation: fpr<=0.1', 'multiplier: fpr<=0.1']
    """

    def __init__(self, rates: Sequence[str], inequalities: Sequence[str]) -> None:
        self.columns = [
            "loss",
            *(f"rate: {name}" for name in rates),
            *(f"violation: {name}" for name in inequalities),
            *(f"multiplier: {name}" for name in inequalities),
        ]
        self.rows: list[FloatArray] = []

    def __len__(self) -> int:
        return len(self.rows)

    def append(
        self, loss: float, rates: FloatArray, violations: FloatArray, multipliers: FloatArray
    ) -> None:
        """Record a round."""
        self.rows.append(np.concatenate([[loss], rates, violations, multipliers]))

    def to_frame(self) -> pd.DataFrame:
        """Return the table, with a column ``round`` that counts from 1."""
        values = np.array(self.rows).reshape(len(self.rows), len(self.columns))
        frame = pd.DataFrame(values, columns=self.columns)
        frame.insert(0, "round", np.arange(1, len(frame) + 1))
        return frame
