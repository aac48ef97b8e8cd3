"""The data of ``benchmarks.operating_point``: where rows come from, who is tried on them.

A test month of 47,500 rows tells a ratio of rates to about 0.05, and the smaller over the larger
of two rates is below 1 by such errors alone. Generated data need not leave it at that: the *fresh*
rows are further ones of the same law and months as the test rows, several times as many.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial

import numpy as np
import pandas as pd

from fairboost.datasets import load, make_account_opening
from fairboost.study.data import Rows

PLAIN, PLAIN_OWN, PREVALENCE = "plain", "plain, own threshold", "equal prevalence"
GS, RS = "fairlearn GS", "RS"
TWO_MODELS = "two models"
PAPER, PAPER_DEFAULTS, REFERENCE = "paper", "paper, defaults", "reference fairgbm"
OURS, STAGE, VALIDATION = "fairboost", "fairboost, fair stage", "fairboost, validation held out"
BOTH = "fairboost, share and validation held out"
LONG = f"{BOTH}, as many trees as paper"
OUR_WAYS = (OURS, STAGE, VALIDATION, BOTH)
MAIN = (PLAIN, PLAIN_OWN, PREVALENCE, GS, RS, TWO_MODELS, PAPER, REFERENCE, *OUR_WAYS)

CONFIGS = "configurations"
CONFIG_METHODS = {OURS: 40, VALIDATION: 20, BOTH: 40, PAPER_DEFAULTS: 20}
"""How many random configurations each method is tried with."""

TIMING = "timing"
FRESH_DRAWS = 5
RARE_SHARE = 0.1  # of positives that are left where they are to be rare
FRESH_SEED = 1_000  # far from the seeds of the data that are trained on

Parts = tuple[Rows, Rows, Rows, Rows | None]
"""Training, validation, test and fresh rows."""


@dataclass(frozen=True)
class Case:
    """Rows, and the methods to try on them.

    Parameters
    ----------
    name : str
        For the command line and the results.
    title : str
        For the table.
    read : callable
        Takes the seed and the number of rows to generate.
    methods : tuple of str
        Names of methods.
    ratio : float, optional
        What the ratio of false positive rates should be at least, for fairboost.
    drifts : bool
        Whether the validation and test rows are from later months.
    table : str, optional
        The file that it needs.
    options : dict
        Of the engine, where they differ from those of all other cases.
    """

    name: str
    title: str
    read: Callable[[int, int], Parts]
    methods: tuple[str, ...]
    ratio: float | None = None
    drifts: bool = False
    table: str | None = None
    options: dict = field(default_factory=dict)


def joined(parts: list[Rows]) -> Rows:
    return Rows(
        pd.concat([p.X for p in parts], ignore_index=True),
        np.concatenate([p.y for p in parts]),
        pd.concat([p.s for p in parts], ignore_index=True),
    )


def random_split(rows: Rows, seed: int) -> tuple[Rows, Rows, Rows]:
    order = np.random.default_rng([seed, 1]).permutation(len(rows))
    train, validation, test = np.split(order, [int(0.6 * len(order)), int(0.8 * len(order))])
    return rows.take(train), rows.take(validation), rows.take(test)


def openings(seed: int, n: int, *, blind: bool = False) -> Parts:
    """Generated account openings: months 0 to 5, 6 and 7; and month 7 of other draws."""

    def draw(number: int) -> list[Rows]:
        made = make_account_opening(n, number, blind=blind)
        rows = Rows(made.X, made.y, made.age_group)
        return [rows.take(part) for part in made.split()]

    fresh = [draw(FRESH_SEED + FRESH_DRAWS * seed + k)[2] for k in range(FRESH_DRAWS)]
    return (*draw(seed), joined(fresh))


def shuffled_openings(seed: int, n: int, *, blind: bool = False) -> Parts:
    """The same rows split at random: nothing drifts. The fresh rows are another draw."""
    made, other = (
        make_account_opening(n, k, blind=blind) for k in (seed, FRESH_SEED + FRESH_DRAWS * seed)
    )
    fresh = Rows(other.X, other.y, other.age_group)
    return (*random_split(Rows(made.X, made.y, made.age_group), seed), fresh)


def rare_openings(seed: int, n: int) -> Parts:
    """The same, but for nine in ten frauds: one row in a thousand is positive."""

    def thinned(rows: Rows, number: int) -> Rows:
        kept = np.random.default_rng([number, 5]).random(len(rows)) < RARE_SHARE
        return rows.take(np.flatnonzero((rows.y == 0) | kept))

    parts = shuffled_openings(seed, n)
    return tuple(thinned(rows, 4 * seed + k) for k, rows in enumerate(parts))


def bank_fraud(seed: int, n: int, *, blind: bool = False) -> Parts:
    """The public sample of Bank Account Fraud, split at random."""
    table = load("baf_base_sample_test", aware=not blind)
    older = table.sensitive["customer_age_category"].astype(int).to_numpy()
    group = pd.Series(pd.Categorical.from_codes(older, ["under 50", "50+"]), index=table.X.index)
    return (*random_split(Rows(table.X, table.y, group), seed), None)


def _cases() -> list[Case]:
    cases = []
    for word, blind in (("aware", False), ("blind", True)):
        cases += [
            Case(
                f"openings/{word}", f"Generated account openings, {word}",
                partial(openings, blind=blind), (*MAIN, LONG), ratio=0.95, drifts=True,
            ),
            Case(
                f"shuffled/{word}", f"The same rows split at random, {word}",
                partial(shuffled_openings, blind=blind), (PLAIN_OWN, OURS),
            ),
            Case(
                f"baf/{word}", f"Bank Account Fraud, a sample of 20,501 rows, {word}",
                partial(bank_fraud, blind=blind), MAIN, table="baf_base_sample_test",
            ),
        ]  # fmt: skip
    title = "Split at random with nine in ten frauds left out, aware"
    heavier = {"min_child_weight": 1.0}  # LightGBM's default is 0.001
    cases += [
        Case("rare/aware", title, rare_openings, (PLAIN_OWN, OURS)),
        Case(
            "rare/heavy", f"{title}, `min_child_weight=1`", rare_openings, (PLAIN_OWN, OURS),
            options=heavier,
        ),
    ]  # fmt: skip
    order = ("openings", "shuffled", "rare", "baf")
    return sorted(cases, key=lambda case: order.index(case.name[:-6]))


CASES: dict[str, Case] = {case.name: case for case in _cases()}
