from __future__ import annotations

import dataclasses
import time

import lightgbm as lgb
import numpy as np
import pandas as pd
import pytest
from sklearn.metrics import roc_auc_score

from fairboost.datasets import AccountOpenings, make_account_opening
from fairboost.datasets.account_openings import (
    AGE_TILT,
    CATEGORIES,
    FLAGS,
    FRAUD_RATES,
    MISSING,
    MONTH_SHARES,
    NUMBERS,
    SEASON,
    SIGNALS,
)
from fairboost.exceptions import InvalidInputError

SEEDS = (0, 1, 2)


@pytest.fixture(scope="module")
def openings() -> AccountOpenings:
    return make_account_opening(100_000, seed=3)


@pytest.fixture(scope="module")
def pooled() -> list[AccountOpenings]:
    """Enough rows in all to see rates of one in a hundred."""
    return [make_account_opening(100_000, seed=seed) for seed in SEEDS]


def is_older(openings: AccountOpenings) -> np.ndarray:
    return (openings.age_group == "50+").to_numpy()


def standard_error(share: float, n: int) -> float:
    return float(np.sqrt(share * (1 - share) / n))


def joined(pooled: list[AccountOpenings], of) -> np.ndarray:
    return np.concatenate([np.asarray(of(openings)) for openings in pooled])


class TestTable:
    @pytest.mark.parametrize("n", [1_000, 1_001, 12_345])
    def test_sizes(self, n):
        openings = make_account_opening(n)
        assert openings.X.shape == (n, 67)
        for column in (openings.y, openings.month, openings.age_group):
            assert column.shape == (n,)

    def test_kinds_of_features(self, openings):
        X = openings.X
        kinds = X.dtypes.astype(str)
        assert kinds.value_counts().to_dict() == {"float32": 42, "int8": 19, "category": 6}
        assert tuple(X.columns[kinds == "float32"]) == NUMBERS
        assert tuple(X.columns[kinds == "int8"]) == FLAGS
        assert tuple(X.columns[kinds == "category"]) == tuple(CATEGORIES)
        assert "age" in NUMBERS

    def test_other_columns(self, openings):
        assert openings.y.dtype == openings.month.dtype == np.int8
        assert set(openings.y) == {0, 1}
        assert openings.age_group.dtype == "category"
        assert openings.age_group.name == "age_group"

    def test_month_label_and_group_are_no_features(self, openings):
        assert not {"month", "y", "fraud", "age_group"} & set(openings.X)

    def test_rows_are_lean(self, openings):
        assert openings.X.memory_usage(deep=True).sum() / len(openings.X) < 200

    @pytest.mark.parametrize("name", FLAGS)
    def test_flags_take_both_values(self, openings, name):
        assert set(openings.X[name]) == {0, 1}

    @pytest.mark.parametrize("name", CATEGORIES)
    def test_categories_all_occur(self, openings, name):
        counts = openings.X[name].value_counts()
        assert tuple(sorted(counts.index)) == CATEGORIES[name].values
        assert counts.min() > 0
        assert openings.X[name].notna().all()

    @pytest.mark.parametrize("name", NUMBERS)
    def test_numbers_are_plausible(self, openings, name):
        values = openings.X[name].dropna()
        assert np.isfinite(values).all()
        assert values.nunique() > 4
        if name == "age":
            assert values.between(18, 95).all()
        elif SIGNALS[name].shape == "share":
            assert values.between(0, 1).all()
        elif SIGNALS[name].shape != "plain":
            assert (values >= 0).all()
            assert values.max() <= SIGNALS[name].most

    def test_counts_are_whole(self, openings):
        for name, signal in SIGNALS.items():
            if signal.shape == "count":
                values = openings.X[name].dropna()
                assert (values == np.floor(values)).all(), name

    def test_result_is_frozen(self, openings):
        with pytest.raises(dataclasses.FrozenInstanceError):
            openings.y = None

    def test_half_a_million_rows_in_seconds(self):
        start = time.perf_counter()
        make_account_opening()
        assert time.perf_counter() - start < 10


class TestTables:
    """The constants from which rows are drawn."""

    @pytest.mark.parametrize("name", CATEGORIES)
    def test_shares_of_categories_add_up(self, name):
        category = CATEGORIES[name]
        for shares in (category.younger, category.older, category.fraud, category.fraud_later):
            assert len(shares) == len(category.values)
            assert sum(shares) == pytest.approx(1)

    def test_every_month_has_its_constants(self):
        assert sum(MONTH_SHARES) == pytest.approx(1)
        assert {len(MONTH_SHARES), len(FRAUD_RATES), len(SEASON), len(AGE_TILT)} == {8}

    def test_some_traces_fade_some_grow_and_one_turns_around(self):
        later = [s.later for s in SIGNALS.values() if s.stolen or s.invented]
        assert min(later) < 0
        assert max(later) > 1
        assert 1 in later


class TestSeed:
    def test_same_seed_same_rows(self):
        one, other = make_account_opening(3_000, seed=7), make_account_opening(3_000, seed=7)
        pd.testing.assert_frame_equal(one.X, other.X)
        pd.testing.assert_series_equal(one.age_group, other.age_group)
        np.testing.assert_array_equal(one.y, other.y)
        np.testing.assert_array_equal(one.month, other.month)

    def test_other_seed_other_rows(self):
        one, other = make_account_opening(3_000, seed=7), make_account_opening(3_000, seed=8)
        assert not np.array_equal(one.y, other.y)
        for name in one.X:
            assert not one.X[name].equals(other.X[name]), name

    def test_months_differ(self, openings):
        ages = [openings.X["age"][openings.month == m].to_numpy()[:100] for m in (0, 1)]
        assert not np.array_equal(*ages)


class TestMonths:
    def test_ascending(self, openings):
        assert openings.month[0] == 0
        assert openings.month[-1] == 7
        assert set(np.diff(openings.month)) == {0, 1}

    @pytest.mark.parametrize("n", [1_000, 100_000])
    def test_sizes_from_a_tenth_to_a_seventh(self, n):
        shares = np.bincount(make_account_opening(n).month) / n
        np.testing.assert_allclose(shares, MONTH_SHARES, atol=1 / n)
        assert shares.min() == pytest.approx(0.095, abs=1 / n)
        assert shares.max() == pytest.approx(0.15, abs=1 / n)

    def test_fraud_rises(self, pooled):
        assert list(FRAUD_RATES) == sorted(FRAUD_RATES)
        assert (FRAUD_RATES[0], FRAUD_RATES[-1]) == (0.0085, 0.015)
        y, month = joined(pooled, lambda o: o.y), joined(pooled, lambda o: o.month)
        for m, expected in enumerate(FRAUD_RATES):
            here = y[month == m]
            assert abs(here.mean() - expected) < 4 * standard_error(expected, len(here)), m
        assert 0.010 < y.mean() < 0.0115
        assert y[month == 7].mean() > 1.3 * y[month <= 5].mean()

    def test_split_by_time(self, openings):
        train, validation, test = openings.split()
        assert set(openings.month[train]) == {0, 1, 2, 3, 4, 5}
        assert set(openings.month[validation]) == {6}
        assert set(openings.month[test]) == {7}
        rows = np.concatenate([train, validation, test])
        np.testing.assert_array_equal(np.sort(rows), np.arange(100_000))


class TestAge:
    def test_group_follows_from_age(self, openings):
        np.testing.assert_array_equal(is_older(openings), openings.X["age"] >= 50)
        assert set(openings.age_group) == {"under 50", "50+"}

    def test_share_of_the_older(self, openings):
        assert 0.21 < is_older(openings).mean() < 0.24

    def test_more_fraud_among_the_older(self, pooled):
        y, older = joined(pooled, lambda o: o.y), joined(pooled, is_older)
        assert 2.4 < y[older].mean() / y[~older].mean() < 3.2

    def test_fraud_rises_with_age_without_a_cliff(self, pooled):
        y, age = joined(pooled, lambda o: o.y), joined(pooled, lambda o: o.X["age"])
        rates = [y[(low <= age) & (age < low + 6)].mean() for low in (35, 44, 50, 56)]
        assert rates == sorted(rates)

    def test_blind_leaves_out_the_age_and_nothing_else(self):
        aware = make_account_opening(2_000, seed=5)
        blind = make_account_opening(2_000, seed=5, blind=True)
        pd.testing.assert_frame_equal(blind.X, aware.X.drop(columns="age"))
        assert (blind.X.dtypes == np.float32).sum() == 41
        pd.testing.assert_series_equal(blind.age_group, aware.age_group)
        np.testing.assert_array_equal(blind.y, aware.y)

    def test_no_other_feature_gives_the_age_away(self, openings):
        honest = openings.y == 0
        numbers = openings.X[honest].select_dtypes("number")
        tied = numbers.corrwith(numbers["age"]).drop("age").abs()
        assert tied.max() < 0.35
        assert (tied > 0.08).sum() > 15


class TestMissing:
    def test_only_where_stated(self, openings):
        missing = openings.X.isna().any()
        assert set(missing.index[missing]) == set(MISSING)

    @pytest.mark.parametrize("name", MISSING)
    def test_rates_by_label(self, pooled, name):
        y = joined(pooled, lambda o: o.y)
        missing = joined(pooled, lambda o: o.X[name].isna())
        for label, expected in enumerate(MISSING[name]):
            here = missing[y == label]
            assert abs(here.mean() - expected) < 4.5 * standard_error(expected, len(here))

    def test_related_to_fraud_in_part(self):
        ratios = [fraud / honest for honest, fraud in MISSING.values()]
        assert max(ratios) > 1.5
        assert 1 in ratios


def plain_model(X, y):
    return lgb.LGBMClassifier(n_estimators=40, n_jobs=1, verbose=-1, random_state=0).fit(X, y)


def refused_at_5_percent(openings: AccountOpenings, X) -> np.ndarray:
    """Refusals in month 7 at the threshold that refuses 5% of the honest in month 6."""
    train, validation, test = openings.split()
    model = plain_model(X.iloc[train], openings.y[train])
    known, new = (model.predict_proba(X.iloc[rows])[:, 1] for rows in (validation, test))
    return new > np.quantile(known[openings.y[validation] == 0], 0.95)


@pytest.fixture(scope="module")
def asked(pooled):
    """Scores of one model of months 0 to 2 for rows of other seeds."""
    early = make_account_opening(200_000, seed=11)
    rows = early.month <= 2
    model = plain_model(early.X[rows], early.y[rows])
    scores = joined(pooled, lambda o: model.predict_proba(o.X)[:, 1])
    y, month = joined(pooled, lambda o: o.y), joined(pooled, lambda o: o.month)
    return scores, y, month, joined(pooled, is_older)


class TestDrift:
    def test_ranks_worse_later(self, asked):
        scores, y, month, _ = asked
        early, late = (roc_auc_score(y[at], scores[at]) for at in (month == 0, month == 7))
        assert early - late > 0.02

    def test_false_positive_rate_moves(self, asked):
        scores, y, month, _ = asked
        refused = scores > np.quantile(scores[(month <= 2) & (y == 0)], 0.95)
        rates = np.array([refused[(month == m) & (y == 0)].mean() for m in range(8)])
        assert rates.max() > 1.25 * rates.min()
        assert rates.max() < 3 * rates.min()

    def test_ratio_of_groups_moves(self, asked):
        scores, y, month, older = asked
        refused = scores > np.quantile(scores[y == 0], 0.95)
        tilt = np.array(AGE_TILT)[month]
        alike, apart = (
            refused[at & ~older].mean() / refused[at & older].mean()
            for at in ((y == 0) & (tilt < 1), (y == 0) & (tilt > 1))
        )
        assert alike - apart > 0.02

    def test_the_honest_change_too(self, pooled):
        y, month = joined(pooled, lambda o: o.y), joined(pooled, lambda o: o.month)
        busy = joined(pooled, lambda o: o.X["applications_24h"])
        means = [busy[(month == m) & (y == 0)].mean() for m in range(8)]
        assert np.argmax(means) == np.argmax(SEASON)
        assert np.argmin(means) == np.argmin(SEASON)


@pytest.fixture(scope="module")
def rates(pooled):
    """Recall and false positive rates by group in month 7, with the age and without."""
    found = {}
    for blind in (False, True):
        decided = []
        for openings in pooled:
            X = openings.X.drop(columns="age") if blind else openings.X
            test = openings.split()[2]
            refused = refused_at_5_percent(openings, X)
            decided.append((refused, openings.y[test], is_older(openings)[test]))
        refused, y, older = (np.concatenate(column) for column in zip(*decided, strict=True))
        found[blind] = {
            "recall": refused[y == 1].mean(),
            "older": refused[(y == 0) & older].mean(),
            "younger": refused[(y == 0) & ~older].mean(),
        }
    return found


class TestUnfairness:
    """What plain LightGBM makes of the temporal split, pooled over seeds."""

    @pytest.mark.parametrize("blind", [False, True])
    def test_the_honest_older_are_refused_more_often(self, rates, blind):
        ratio = rates[blind]["younger"] / rates[blind]["older"]
        assert 0.25 < ratio < 0.65

    def test_less_unfair_without_the_age(self, rates):
        ratios = [rates[blind]["younger"] / rates[blind]["older"] for blind in (False, True)]
        assert ratios[1] > ratios[0] + 0.02

    @pytest.mark.parametrize("blind", [False, True])
    def test_hard_but_not_hopeless(self, rates, blind):
        assert 0.4 < rates[blind]["recall"] < 0.7


@pytest.mark.parametrize(
    ("arguments", "fragment"),
    [
        ({"n": 999}, "n must be a whole number of rows, at least 1,000.*; found 999"),
        ({"n": 5e4}, r"found 50000\.0"),
        ({"n": "many"}, "found 'many'"),
        ({"n": True}, "found True"),
        ({"seed": -1}, "seed must be a whole number, at least 0; found -1"),
        ({"seed": None}, "found None"),
        ({"seed": 1.5}, r"found 1\.5"),
        ({"blind": "age"}, r"blind must be True \(leave the age out\) or False; found 'age'"),
        ({"blind": None}, "found None"),
    ],
)
def test_wrong_arguments(arguments, fragment):
    with pytest.raises(InvalidInputError, match=fragment):
        make_account_opening(**{"n": 1_000, **arguments})
