"""Whether two selection rates differ by more than chance, and by more than one person.

For a group with k of n people selected, against the group with the highest rate, with K of N::

    Fisher's exact test    the probability, if selection did not depend on the group, of a table as
                           unlikely as this one or more so (two-sided; k + K held fixed)
    standard deviations    (k/n - K/N) / sqrt(p (1 - p) (1/n + 1/N)),   p = (k + K) / (n + N)
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy import stats

SIGNIFICANT = 0.05
"""The probability below which a difference is called statistically significant."""
DEVIATIONS = 2.0
"""Standard deviations beyond which chance is doubted."""


@dataclass(frozen=True)
class RateComparison:
    """A group against the group with the highest selection rate.

    Parameters
    ----------
    selected, applicants : int
        Of the group.
    best_selected, best_applicants : int
        Of the group with the highest rate.
    """

    selected: int
    applicants: int
    best_selected: int
    best_applicants: int

    @property
    def at_least_four_fifths(self) -> bool:
        """Whether the rate is at least four fifths of the highest; in whole numbers, so exact.

        Examples
        --------
        >>> RateComparison(48, 100, 60, 100).at_least_four_fifths
        True
        """
        ours, theirs = self.selected * self.best_applicants, self.best_selected * self.applicants
        return 5 * ours >= 4 * theirs

    @property
    def fisher(self) -> float:
        """The probability of Fisher's exact test, two-sided.

        Examples
        --------
        >>> round(RateComparison(3, 20, 16, 80).fisher, 3)
        0.757
        """
        table = [
            [self.selected, self.applicants - self.selected],
            [self.best_selected, self.best_applicants - self.best_selected],
        ]
        return float(stats.fisher_exact(table)[1])

    @property
    def deviations(self) -> float:
        """The difference of the rates in standard deviations; negative where the group is behind.

        Examples
        --------
        >>> round(RateComparison(45, 100, 60, 100).deviations, 2)
        -2.12
        """
        n, m = self.applicants, self.best_applicants
        p = (self.selected + self.best_selected) / (n + m)
        error = np.sqrt(p * (1 - p) * (1 / n + 1 / m))
        difference = self.selected / n - self.best_selected / m
        return float(difference / error) if error > 0 else 0.0

    @property
    def significant(self) -> bool:
        """Whether chance alone hardly explains the difference, by Fisher's exact test."""
        return self.fisher < SIGNIFICANT

    @property
    def one_more(self) -> tuple[float, float]:
        """Both rates if one more of the group were selected, in place of one of the other group.

        Examples
        --------
        >>> RateComparison(3, 20, 16, 80).one_more
        (0.2, 0.1875)
        """
        k = min(self.selected + 1, self.applicants)
        return k / self.applicants, max(self.best_selected - 1, 0) / self.best_applicants

    @property
    def turns_on_one_person(self) -> bool:
        """Whether the group would have the higher rate if one other person had been selected."""
        if (self.selected, self.best_selected) == (self.applicants, 0):
            return False
        ours, theirs = self.one_more
        return ours > theirs

    @property
    def short_of_four_fifths(self) -> int:
        """How many more people of the group make its rate four fifths of the other, as that is.

        Examples
        --------
        >>> RateComparison(45, 100, 60, 100).short_of_four_fifths
        3
        """
        needed = -(-4 * self.best_selected * self.applicants // (5 * self.best_applicants))
        return max(needed - self.selected, 0)
