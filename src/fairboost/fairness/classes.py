"""Moments of a decision among several classes: who counts, and which class is given.

With j the class of a row and k the one it is given, the moments of a group are shares of rows::

    name               rows that count    event
    given[k]           all                k is given            demographic parity
    recall[k]          class k            k is given            equal opportunity
    confused[j, k]     class j            k is given            equalized odds, with the recalls
    accuracy           all                the row's own class is given

Of two classes these are the rates of :mod:`fairboost.fairness.rates`, and those are used.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from fairboost._typing import BoolArray, IntArray


@dataclass(frozen=True)
class ClassMoment:
    """The share of rows that are given a class.

    Parameters
    ----------
    name : str
        Short name, with the class in it.
    label : int, optional
        The class of the rows that count; None for all rows.
    quantity : int
        The class that is given; the number of classes stands for "their own".
    title : str
        The name in words, for tables and plots.
    """

    name: str
    label: int | None
    quantity: int
    title: str

    is_share = True

    def counts(self, labels: IntArray) -> BoolArray:
        """Which labels count."""
        return np.ones(labels.shape, bool) if self.label is None else labels == self.label
