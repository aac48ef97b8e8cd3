"""Loan applications with known unfairness, made on the spot.

Two wrongs are done, each by a stated amount, and nothing else differs between the groups:

1. *disadvantage* (:data:`DISADVANTAGE`): worse terms in the past have left some groups with
   smaller means, so they really do repay less often;
2. *understatement* (:data:`SIGNALS`): the bank's records then show those groups as worse than they
   are.

The group is not among the features, but the features give it away in part (:data:`SECTOR_SHARES`,
:data:`CONTRACT_SHARES`, :data:`REGION_SHARES`, :data:`TENURE`), as they do in life. So a model
that never sees the group refuses more of the creditworthy applicants of some groups, and one that
is trained under a constraint can mend that.

Rows are drawn in blocks, each with a random stream of its own: ten million rows need no memory
beyond the table itself, and a longer table begins with the rows of a shorter one.
"""

from __future__ import annotations

from dataclasses import dataclass
from numbers import Real

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from fairboost._typing import Float32Array
from fairboost.datasets import drawing
from fairboost.datasets.drawing import CodeArray, Columns, choose, normal, uniform
from fairboost.exceptions import InvalidInputError

BLOCK = 1 << 16
"""Rows drawn at a time: few enough to stay in the cache, enough to keep NumPy busy."""

SEXES = ("female", "male")
SEX_SHARES = (0.48, 0.52)
AGE_BANDS = ("18-24", "25-39", "40-59", "60+")
AGE_SHARES = (0.08, 0.34, 0.38, 0.20)
AGE_MISSING = 0.01
MOST_UNFAIR = 5


@dataclass(frozen=True)
class Shift:
    """What is taken off a group, in standard deviations of creditworthiness.

    Parameters
    ----------
    women : float
        What is taken off women; off men, nothing.
    ages : tuple of float
        What is taken off each age band. The two add up.
    """

    women: float
    ages: tuple[float, float, float, float]

    def of(self, sex: CodeArray, age: CodeArray) -> Float32Array:
        """Look up the shift of each row."""
        table = np.add.outer([self.women, 0.0], self.ages).astype(np.float32)
        return table[sex, age]


DISADVANTAGE = Shift(0.50, (0.40, 0.10, 0.0, 0.20))
"""By how much creditworthiness itself is lower."""

SIGNALS = {
    # name of the record: (standard deviation of everybody's error, understatement of some)
    "income": (0.8, Shift(0.45, (0.65, 0.20, 0.0, 0.25))),
    "savings": (1.2, Shift(0.35, (0.50, 0.15, 0.0, 0.20))),
    "debt": (1.2, Shift(0.20, (0.30, 0.10, 0.0, 0.10))),
    "credit_history_years": (1.0, Shift(0.40, (0.60, 0.20, 0.0, 0.25))),
    "late_payments": (0.6, Shift(0.15, (0.20, 0.05, 0.0, 0.10))),
}
"""The records that tell of creditworthiness, and how far each falls short of it."""

NO_FILE = 0.04
NO_FILE_EXTRA = (0.21, 0.04, 0.0, 0.0)
"""Share of applicants without a credit file, and what unfairness adds to it by age band."""

PURPOSES = ("appliances", "business", "car", "education", "home", "refinancing")
PURPOSE_SHARES = (0.15, 0.12, 0.30, 0.10, 0.18, 0.15)
PURPOSE_EFFECTS = (0.0, -0.3, 0.1, 0.1, 0.2, -0.2)

# Proxies: these depend on the group and on nothing else, and have no part in repayment.
SECTORS = (
    *("care", "construction", "education", "industry", "office", "retail", "technology"),
    "transport",
)
SECTOR_SHARES = (  # women, men
    (0.34, 0.01, 0.22, 0.04, 0.20, 0.16, 0.02, 0.01),
    (0.03, 0.22, 0.04, 0.27, 0.10, 0.06, 0.13, 0.15),
)
CONTRACTS = ("full-time", "part-time", "pension", "self-employed", "temporary")
CONTRACT_SHARES = (  # women by age band, then men by age band
    (0.38, 0.37, 0.00, 0.03, 0.22),
    (0.50, 0.34, 0.00, 0.07, 0.09),
    (0.48, 0.36, 0.02, 0.08, 0.06),
    (0.22, 0.24, 0.46, 0.05, 0.03),
    (0.52, 0.18, 0.00, 0.05, 0.25),
    (0.73, 0.08, 0.00, 0.11, 0.08),
    (0.74, 0.06, 0.03, 0.13, 0.04),
    (0.38, 0.09, 0.42, 0.09, 0.02),
)
REGIONS = ("capital", "coast", "hills", "lakes", "north", "south")
REGION_SHARES = (  # by age band
    (0.42, 0.18, 0.08, 0.08, 0.12, 0.12),
    (0.32, 0.20, 0.10, 0.10, 0.14, 0.14),
    (0.20, 0.18, 0.15, 0.15, 0.16, 0.16),
    (0.12, 0.24, 0.20, 0.18, 0.13, 0.13),
)
TENURE = ((0.2, 0.6), (1.5, 0.6), (2.4, 0.6), (2.7, 0.7))
"""Mean and standard deviation of the log of years with the employer, by age band."""

CATEGORIES = {
    "sector": SECTORS,
    "contract": CONTRACTS,
    "region": REGIONS,
    "purpose": PURPOSES,
    "sex": SEXES,
    "age_band": AGE_BANDS,
}


@dataclass(frozen=True)
class Loans:
    """Loan applications, as :func:`make_loans` returns them.

    Parameters
    ----------
    X : DataFrame of 12 columns
        ``income``, ``savings``, ``debt``, ``loan_amount`` (float32, thousands a year or in all),
        ``credit_history_years`` (float32, missing without a credit file), ``employment_years``
        (float32), ``late_payments``, ``dependants`` (int8), ``sector``, ``contract``, ``region``,
        ``purpose`` (category). The sensitive columns are not among them.
    y : (n,) int8
        1 if the loan is repaid. A false negative is a creditworthy applicant refused.
    sensitive : DataFrame of 2 columns
        ``sex`` (category: female, male) and ``age_band`` (category: 18-24, 25-39, 40-59, 60+;
        missing in 1% of rows).

    Examples
    --------
    >>> from fairboost.datasets import make_loans
    >>> loans = make_loans(1_000)
    >>> loans.X.shape, loans.y.shape, list(loans.sensitive)
    ((1000, 12), (1000,), ['sex', 'age_band'])
    """

    X: pd.DataFrame
    y: NDArray[np.int8]
    sensitive: pd.DataFrame


def make_loans(n_samples: int = 20_000, *, seed: int = 0, unfairness: float = 1.0) -> Loans:
    """Make loan applications whose unfairness is known.

    With u = ``unfairness``, sex and age drawn independently, all e standard normal and
    independent, and the shifts d and s_k below, the law of a row is::

        z      = e_0 - u d(sex, age)                      creditworthiness
        r_k    = z + sigma_k e_k - u s_k(sex, age)        what record k shows of it
        P(y=1) = sigmoid(3 (z - 0.4 a + b(purpose) + 0.2))

    where a is the standardised log of the loan amount. Income, savings and credit history rise
    with their r_k, debt and the count of late payments fall. What is taken off, in standard
    deviations of z (nothing off men; the two add up):

    ===========================  =====  =====  =====  =====  =====
    shift                        women  18-24  25-39  40-59  60+
    ===========================  =====  =====  =====  =====  =====
    d, disadvantage               0.50  0.40   0.10   0.00   0.20
    s, income                     0.45  0.65   0.20   0.00   0.25
    s, savings                    0.35  0.50   0.15   0.00   0.20
    s, debt                       0.20  0.30   0.10   0.00   0.10
    s, credit_history_years       0.40  0.60   0.20   0.00   0.25
    s, late_payments              0.15  0.20   0.05   0.00   0.10
    ===========================  =====  =====  =====  =====  =====

    The credit file is missing for 4% of applicants, and for u x 21% more of those under 25 and
    u x 4% more of those from 25 to 39. ``sector``, ``contract``, ``region`` and
    ``employment_years`` depend on the group only and have no part in repayment: they are proxies.

    At ``unfairness=0`` the groups differ in nothing that bears on repayment, and the best model
    has the same error rates in all of them. At ``unfairness=1`` plain LightGBM (100 trees, 60,000
    rows to train on) has an accuracy of 0.80 on new rows. Of those who would repay it refuses 31%
    of women and 17% of men; 34%, 23%, 19% and 27% by age band (means of three seeds). Reweighting
    its training rows brings the gap down, without the group at prediction time, from 0.14 to 0.01
    (sex) or from 0.15 to 0.03 (age), at a cost in accuracy of 0.009 and 0.006.

    Parameters
    ----------
    n_samples : int, default 20_000
        Rows. Ten million take some five seconds and 0.4 GB.
    seed : int, default 0
        Same seed, same rows; a longer table begins with the rows of a shorter one.
    unfairness : float, default 1.0
        The size u of the unfairness, from 0 (none) to 5.

    Returns
    -------
    Loans
        ``X``, ``y`` and ``sensitive``.

    Examples
    --------
    >>> from fairboost.datasets import make_loans
    >>> loans = make_loans(50_000, seed=1)
    >>> loans.sensitive["age_band"].value_counts(normalize=True).round(1).to_dict()
    {'40-59': 0.4, '25-39': 0.3, '60+': 0.2, '18-24': 0.1}

    Women repay somewhat less often, and look worse still on paper:

    >>> women = (loans.sensitive["sex"] == "female").to_numpy()
    >>> print(f"{loans.y[women].mean():.1f} {loans.y[~women].mean():.1f}")
    0.4 0.5
    >>> income = loans.X["income"]
    >>> bool(income[women].median() < 0.8 * income[~women].median())
    True
    """
    drawing.check_rows_and_seed("n_samples", n_samples, 1, seed)
    _check_unfairness(unfairness)
    edges = [*range(0, n_samples, BLOCK), n_samples]
    columns = drawing.draw_blocks(seed, edges, lambda rng, *_: _draw_block(rng, unfairness))
    drawing.name_categories(columns, CATEGORIES)
    y = columns.pop("y")
    sensitive = {name: columns.pop(name) for name in ("sex", "age_band")}
    # The arrays are ours alone, so the frames may hold them without a copy.
    return Loans(pd.DataFrame(columns, copy=False), y, pd.DataFrame(sensitive, copy=False))


def _check_unfairness(unfairness: object) -> None:
    if not isinstance(unfairness, Real) or not 0 <= float(unfairness) <= MOST_UNFAIR:
        raise InvalidInputError(
            f"unfairness must be a number from 0 (none) to {MOST_UNFAIR}; found {unfairness!r}"
        )


def _draw_block(rng: np.random.Generator, unfairness: float) -> Columns:
    """Draw BLOCK rows of every column, categories as codes."""
    anyone = np.zeros(BLOCK, np.int8)
    sex, age = choose(rng, SEX_SHARES, anyone), choose(rng, AGE_SHARES, anyone)
    worth = normal(rng, BLOCK) - unfairness * DISADVANTAGE.of(sex, age)
    amount, purpose = normal(rng, BLOCK), choose(rng, PURPOSE_SHARES, anyone)
    effect = np.array(PURPOSE_EFFECTS, np.float32)[purpose]
    chance = 1 / (1 + np.exp(-3 * (worth - 0.4 * amount + effect + 0.2)))
    repaid = (uniform(rng, BLOCK) < chance).astype(np.int8)
    tenure, deviation = np.array(TENURE, np.float32).T
    return {
        **_records(rng, worth, sex, age, unfairness),
        # The next four tell of the group and of nothing else.
        "employment_years": np.exp(tenure[age] + deviation[age] * normal(rng, BLOCK)),
        "sector": choose(rng, SECTOR_SHARES, sex),
        "contract": choose(rng, CONTRACT_SHARES, age + len(AGE_BANDS) * sex),
        "region": choose(rng, REGION_SHARES, age),
        "loan_amount": np.exp(2.3 + 0.6 * amount),
        "purpose": purpose,
        "dependants": _count(rng, np.full(BLOCK, 0.9, np.float32)),
        "y": repaid,
        "sex": sex,
        "age_band": np.where(uniform(rng, BLOCK) < AGE_MISSING, np.int8(-1), age),
    }


def _records(
    rng: np.random.Generator,
    worth: Float32Array,
    sex: CodeArray,
    age: CodeArray,
    unfairness: float,
) -> Columns:
    """Draw what the bank has on file: noisy, and lower than the truth for some."""
    shown = {
        name: worth + noise * normal(rng, BLOCK) - unfairness * understated.of(sex, age)
        for name, (noise, understated) in SIGNALS.items()
    }
    history = np.exp(1.9 + 0.5 * shown["credit_history_years"])
    no_file = NO_FILE + unfairness * np.array(NO_FILE_EXTRA, np.float32)
    history[uniform(rng, BLOCK) < no_file[age]] = np.nan
    return {
        "income": np.exp(3.3 + 0.4 * shown["income"]),
        "savings": np.exp(1.2 + 0.8 * shown["savings"]),
        "debt": np.exp(2.0 - 0.5 * shown["debt"]),
        "credit_history_years": history,
        "late_payments": _count(rng, np.exp(-0.2 - 0.7 * shown["late_payments"])),
    }


def _count(rng: np.random.Generator, mean: Float32Array) -> CodeArray:
    return np.minimum(rng.poisson(mean), np.iinfo(np.int8).max).astype(np.int8)
