from __future__ import annotations

import dataclasses
import importlib.util
import time
from pathlib import Path

import lightgbm as lgb
import numpy as np
import pandas as pd
import pytest

from fairboost import datasets
from fairboost.datasets import available, load, make_loans
from fairboost.datasets.files import FOLDER_VARIABLE, SPECS, Spec
from fairboost.datasets.loans import (
    AGE_BANDS,
    AGE_SHARES,
    BLOCK,
    DISADVANTAGE,
    SIGNALS,
    Loans,
)
from fairboost.exceptions import InvalidInputError


def is_group(loans: Loans, column: str, group: str) -> np.ndarray:
    return (loans.sensitive[column] == group).to_numpy()


def standard_error(share: float, n: int) -> float:
    return float(np.sqrt(share * (1 - share) / n))


class TestLoansTable:
    @pytest.mark.parametrize("n", [1, 1_000, BLOCK, BLOCK + 1])
    def test_sizes(self, n):
        loans = make_loans(n)
        assert loans.X.shape == (n, 12)
        assert loans.y.shape == (n,)
        assert loans.sensitive.shape == (n, 2)

    def test_same_seed_same_rows(self):
        one, other = make_loans(3_000, seed=7), make_loans(3_000, seed=7)
        pd.testing.assert_frame_equal(one.X, other.X)
        pd.testing.assert_frame_equal(one.sensitive, other.sensitive)
        np.testing.assert_array_equal(one.y, other.y)

    def test_other_seed_other_rows(self):
        one, other = make_loans(3_000, seed=7), make_loans(3_000, seed=8)
        assert not np.array_equal(one.y, other.y)
        assert not one.X["income"].equals(other.X["income"])

    def test_blocks_differ(self):
        income = make_loans(2 * BLOCK).X["income"].to_numpy()
        assert not np.array_equal(income[:BLOCK], income[BLOCK:])

    def test_longer_table_begins_with_the_shorter(self):
        short, long = make_loans(500), make_loans(BLOCK + 500)
        pd.testing.assert_frame_equal(short.X, long.X.iloc[:500])
        pd.testing.assert_frame_equal(short.sensitive, long.sensitive.iloc[:500])
        np.testing.assert_array_equal(short.y, long.y[:500])

    def test_columns_are_lean(self):
        loans = make_loans(100_000)
        assert set(loans.X.dtypes.astype(str)) == {"float32", "int8", "category"}
        assert set(loans.sensitive.dtypes.astype(str)) == {"category"}
        assert loans.y.dtype == np.int8
        bytes_of = loans.X.memory_usage(deep=True).sum() + loans.sensitive.memory_usage().sum()
        assert bytes_of / 100_000 < 40

    def test_sensitive_columns_are_no_features(self):
        loans = make_loans(100)
        assert not set(loans.X) & set(loans.sensitive)

    def test_values_are_plausible(self):
        X = make_loans(50_000).X
        numbers = X.select_dtypes("number")
        assert (numbers.drop(columns="credit_history_years") >= 0).all(axis=None)
        assert np.isfinite(numbers.drop(columns="credit_history_years")).all(axis=None)
        assert X["credit_history_years"].dropna().gt(0).all()
        assert X.drop(columns="credit_history_years").notna().all(axis=None)

    def test_labels(self):
        y = make_loans(50_000).y
        assert set(y) == {0, 1}
        assert 0.4 < y.mean() < 0.6

    def test_result_is_frozen(self):
        with pytest.raises(dataclasses.FrozenInstanceError):
            make_loans(10).y = None

    def test_a_million_rows_in_seconds(self):
        start = time.perf_counter()
        make_loans(1_000_000)
        assert time.perf_counter() - start < 10

    @pytest.mark.parametrize("u", [0.0, 5])
    def test_extremes_of_unfairness(self, u):
        assert np.isfinite(make_loans(1_000, unfairness=u).X["income"]).all()

    @pytest.mark.parametrize(
        ("arguments", "fragment"),
        [
            ({"n_samples": 0}, "n_samples must be a whole number of rows, at least 1; found 0"),
            ({"n_samples": 1e3}, "found 1000.0"),
            ({"seed": -1}, "seed must be a whole number, at least 0; found -1"),
            ({"seed": None}, "found None"),
            ({"unfairness": -0.1}, r"from 0 \(none\) to 5; found -0.1"),
            ({"unfairness": 6}, "found 6"),
            ({"unfairness": float("nan")}, "found nan"),
            ({"unfairness": "much"}, "found 'much'"),
        ],
    )
    def test_wrong_arguments(self, arguments, fragment):
        with pytest.raises(InvalidInputError, match=fragment):
            make_loans(**{"n_samples": 10, **arguments})


class TestLoansLaw:
    """The documented law, with margins of five standard errors."""

    def test_shares_of_groups(self):
        n = 200_000
        sensitive = make_loans(n, seed=3).sensitive
        missing = sensitive["age_band"].isna().mean()
        assert abs(missing - 0.01) < 5 * standard_error(0.01, n)
        assert sensitive["sex"].notna().all()
        assert abs((sensitive["sex"] == "female").mean() - 0.48) < 5 * standard_error(0.48, n)
        found = sensitive["age_band"].value_counts(normalize=True)
        for band, share in zip(AGE_BANDS, AGE_SHARES, strict=True):
            assert abs(found[band] - share) < 5 * standard_error(share, n)

    @pytest.mark.parametrize("u", [0.0, 1.0])
    def test_credit_file_missing_by_age(self, u):
        loans = make_loans(100_000, seed=4, unfairness=u)
        missing = loans.X["credit_history_years"].isna().to_numpy()
        expected = dict(
            zip(AGE_BANDS, (0.04 + u * 0.21, 0.04 + u * 0.04, 0.04, 0.04), strict=True)
        )
        for band, share in expected.items():
            rows = is_group(loans, "age_band", band)
            assert abs(missing[rows].mean() - share) < 5 * standard_error(share, rows.sum())

    @pytest.mark.parametrize("u", [0.0, 1.0])
    @pytest.mark.parametrize(
        ("record", "slope"),
        [("income", 0.4), ("savings", 0.8), ("debt", -0.5), ("credit_history_years", 0.5)],
    )
    def test_records_understate_women_by_what_is_documented(self, record, slope, u):
        loans = make_loans(40_000, seed=5, unfairness=u)
        shown = np.log(loans.X[record].to_numpy(np.float64)) / slope
        women = is_group(loans, "sex", "female")
        known = np.isfinite(shown)
        difference = shown[~women & known].mean() - shown[women & known].mean()
        noise, understated = SIGNALS[record]
        expected = u * (DISADVANTAGE.women + understated.women)
        error = np.sqrt((1.3 + noise**2) * 4 / known.sum())
        assert abs(difference - expected) < 5 * error

    @pytest.mark.parametrize("seed", range(3))
    def test_without_unfairness_all_repay_alike(self, seed):
        loans = make_loans(40_000, seed=seed, unfairness=0.0)
        overall = loans.y.mean()
        for column in loans.sensitive:
            for group in loans.sensitive[column].cat.categories:
                rows = is_group(loans, column, group)
                margin = 5 * standard_error(overall, rows.sum())
                assert abs(loans.y[rows].mean() - overall) < margin

    @pytest.mark.parametrize("seed", range(3))
    def test_with_unfairness_the_disadvantaged_repay_less(self, seed):
        loans = make_loans(40_000, seed=seed)
        women = is_group(loans, "sex", "female")
        difference = loans.y[~women].mean() - loans.y[women].mean()
        assert abs(difference - 0.155) < 5 * np.sqrt(2) * standard_error(0.5, 20_000)

    def test_features_give_the_group_away_only_in_part(self):
        loans = make_loans(12_000, seed=6)
        sex = is_group(loans, "sex", "male")
        guess = plain_model(loans.X[:6_000], sex[:6_000]).predict(loans.X[6_000:])
        assert 0.75 < (guess == sex[6_000:]).mean() < 0.92


def plain_model(X, y, weight=None):
    model = lgb.LGBMClassifier(n_estimators=60, n_jobs=1, random_state=0, verbose=-1)
    return model.fit(X, y, sample_weight=weight)


def refused(loans: Loans, decisions: np.ndarray, column: str, group: str) -> np.ndarray:
    """Whether each of a group's creditworthy applicants is refused."""
    rows = is_group(loans, column, group) & (loans.y == 1)
    return 1 - decisions[rows]


@pytest.fixture(scope="module")
def decided() -> list[tuple[Loans, np.ndarray, np.ndarray]]:
    """Test rows, decisions of the plain model and of a reweighted one, for a few seeds."""
    cases = []
    for seed in range(3):
        loans = make_loans(40_000, seed=seed)
        test = Loans(loans.X[20_000:], loans.y[20_000:], loans.sensitive[20_000:])
        X, y = loans.X[:20_000], loans.y[:20_000]
        favoured = is_group(loans, "sex", "female")[:20_000] == (y == 1)
        plain = plain_model(X, y).predict(test.X)
        fairer = plain_model(X, y, np.where(favoured, 1.4, 0.7)).predict(test.X)
        cases.append((test, plain, fairer))
    return cases


class TestLoansUnfairness:
    """What a model makes of it, pooled over seeds."""

    def pooled(self, decided, column, group, which=1):
        return np.concatenate([refused(case[0], case[which], column, group) for case in decided])

    def test_plain_model_refuses_more_women(self, decided):
        women, men = (self.pooled(decided, "sex", group) for group in ("female", "male"))
        gap = women.mean() - men.mean()
        margin = 4 * np.sqrt(women.var() / len(women) + men.var() / len(men))
        assert gap - margin > 0.10
        assert gap + margin < 0.20

    def test_plain_model_refuses_more_of_the_young(self, decided):
        rates = [self.pooled(decided, "age_band", band).mean() for band in AGE_BANDS]
        np.testing.assert_allclose(rates, [0.34, 0.23, 0.19, 0.27], atol=0.06)

    def test_accuracy(self, decided):
        accuracy = np.mean([(test.y == plain).mean() for test, plain, _ in decided])
        assert 0.78 < accuracy < 0.83

    def test_gap_can_be_closed_without_the_group_at_little_cost(self, decided):
        before, after = (
            self.pooled(decided, "sex", "female", which).mean()
            - self.pooled(decided, "sex", "male", which).mean()
            for which in (1, 2)
        )
        assert after < before / 2
        cost = np.mean([(test.y == p).mean() - (test.y == f).mean() for test, p, f in decided])
        assert cost < 0.015


def all_columns(spec: Spec) -> list[str]:
    named = (
        *(spec.label, *spec.sensitive, *spec.categorical),
        *(*spec.dropped, *spec.kept, *spec.restated, "other"),
    )
    return list(dict.fromkeys(named))


def write_image(folder: Path, name: str, n: int = 40) -> pd.DataFrame:
    """Write a small file with the columns of a real one."""
    rng = np.random.default_rng(0)
    columns = all_columns(SPECS[name])
    frame = pd.DataFrame({c: rng.integers(0, 5, n).astype(np.int8) for c in columns})
    frame["row"] = np.arange(n, dtype=np.int32)
    frame[SPECS[name].label] = (np.arange(n) % 2).astype(np.int8)
    frame.to_parquet(folder / f"{name}.parquet")
    return frame


@pytest.fixture
def nowhere(tmp_path, monkeypatch) -> Path:
    """A working directory without data beside it."""
    pytest.importorskip("pyarrow")
    place = tmp_path / "project"
    place.mkdir()
    monkeypatch.chdir(place)
    monkeypatch.delenv(FOLDER_VARIABLE, raising=False)
    return tmp_path


class TestLoadImage:
    """Readers on small files made in the image of the real ones."""

    @pytest.mark.parametrize("name", SPECS)
    def test_label_groups_and_features(self, nowhere, name):
        frame, spec = write_image(nowhere, name), SPECS[name]
        table = load(name, folder=nowhere)
        assert table.name == name
        np.testing.assert_array_equal(table.y, frame[spec.label])
        assert table.y.dtype == np.int8
        pd.testing.assert_frame_equal(table.sensitive, frame[list(spec.sensitive)])
        assert not {spec.label, *spec.dropped} & set(table.X)
        assert set(spec.sensitive) <= set(table.X)
        assert ("other" in table.X) == (not spec.kept)
        for column in spec.categorical:
            assert table.X[column].dtype == "category"

    @pytest.mark.parametrize("name", SPECS)
    def test_unaware(self, nowhere, name):
        write_image(nowhere, name)
        aware, blind = load(name, folder=nowhere), load(name, folder=nowhere, aware=False)
        gone = set(aware.X) - set(blind.X)
        assert gone == {*SPECS[name].sensitive, *SPECS[name].restated}
        assert list(blind.sensitive) == list(aware.sensitive)

    def test_subsample_keeps_rows_together(self, nowhere):
        frame = write_image(nowhere, "adult")
        table = load("adult", folder=nowhere, n_samples=15, seed=3)
        rows = table.X["row"].to_numpy()
        assert len(set(rows)) == 15
        assert not np.array_equal(rows, np.sort(rows))
        np.testing.assert_array_equal(table.y, frame["label"].to_numpy()[rows])
        np.testing.assert_array_equal(table.sensitive["sex"], frame["sex"].to_numpy()[rows])
        assert table.X.index.equals(pd.RangeIndex(15))

    def test_subsample_by_seed(self, nowhere):
        write_image(nowhere, "adult")
        draws = [load("adult", folder=nowhere, n_samples=20, seed=s).X["row"] for s in (0, 0, 1)]
        assert draws[0].equals(draws[1])
        assert not draws[0].equals(draws[2])

    def test_subsample_keeps_all_categories(self, nowhere):
        write_image(nowhere, "acs_income_2018")
        whole = load("acs_income_2018", folder=nowhere)
        part = load("acs_income_2018", folder=nowhere, n_samples=2)
        assert part.X["OCCP"].cat.categories.equals(whole.X["OCCP"].cat.categories)

    @pytest.mark.parametrize("n_samples", [0, 41, 2.5, "all"])
    def test_wrong_n_samples(self, nowhere, n_samples):
        write_image(nowhere, "adult")
        with pytest.raises(InvalidInputError, match="from 1 to 40, the rows of 'adult'"):
            load("adult", folder=nowhere, n_samples=n_samples)


class TestFolder:
    def test_from_the_environment(self, nowhere, monkeypatch):
        write_image(nowhere, "adult")
        monkeypatch.setenv(FOLDER_VARIABLE, str(nowhere))
        assert available() == ("adult",)
        assert load("adult").y.shape == (40,)

    def test_beside_the_working_directory(self, nowhere):
        folder = nowhere / "shared" / "data"
        folder.mkdir(parents=True)
        write_image(folder, "compas_two_years")
        assert available() == ("compas_two_years",)
        assert load("compas_two_years").y.shape == (40,)

    def test_argument_comes_first(self, nowhere, monkeypatch):
        monkeypatch.setenv(FOLDER_VARIABLE, str(nowhere / "elsewhere"))
        write_image(nowhere, "adult")
        assert available(nowhere) == ("adult",)

    def test_nothing_available(self, nowhere):
        assert available() == ()

    def test_no_folder_names_the_remedies(self, nowhere):
        with pytest.raises(
            InvalidInputError, match=r"pass folder= or set FAIRBOOST_DATA.*make_loans"
        ):
            load("adult")

    def test_folder_that_is_none(self, nowhere, monkeypatch):
        with pytest.raises(InvalidInputError, match=r"folder= names '.*x', which is not a folder"):
            available(nowhere / "x")
        monkeypatch.setenv(FOLDER_VARIABLE, str(nowhere / "y"))
        with pytest.raises(InvalidInputError, match=r"FAIRBOOST_DATA names '.*y'"):
            load("adult")

    def test_missing_file_names_those_present(self, nowhere):
        write_image(nowhere, "bank_marketing")
        with pytest.raises(InvalidInputError, match=r"no file 'adult.parquet'.*bank_marketing"):
            load("adult", folder=nowhere)

    def test_unknown_name_lists_the_known(self):
        with pytest.raises(InvalidInputError, match=r"unknown table 'iris'.*acs_income_2018"):
            load("iris")

    def test_damaged_file(self, nowhere):
        (nowhere / "adult.parquet").write_bytes(b"not parquet at all")
        with pytest.raises(InvalidInputError, match="cannot be read as parquet"):
            load("adult", folder=nowhere)

    def test_other_file_of_that_name(self, nowhere):
        pd.DataFrame({"label": [0, 1], "sex": ["a", "b"]}).to_parquet(nowhere / "adult.parquet")
        with pytest.raises(InvalidInputError, match="lacks the columns race; it is not the file"):
            load("adult", folder=nowhere)

    def test_without_pyarrow(self, nowhere, monkeypatch):
        write_image(nowhere, "adult")
        monkeypatch.setattr("fairboost.datasets.files.find_spec", lambda name: None)
        with pytest.raises(ImportError, match="pip install pyarrow"):
            load("adult", folder=nowhere)


REAL = {
    # rows, share of label 1, features, groups of each sensitive column
    "acs_income_2018": (765_670, 0.3689, 10, {"SEX": 2, "RAC1P": 9}),
    "acs_mobility_2018": (248_375, 0.7358, 21, {"SEX": 2}),
    "acs_public_coverage_2018": (455_316, 0.2976, 18, {"SEX": 2}),
    "acs_employment_2024": (2_736_891, 0.4569, 14, {"SEX": 2}),
    "acs_travel_time_2024": (1_243_954, 0.3977, 13, {"SEX": 2}),
    "adult": (48_842, 0.2393, 13, {"sex": 2, "race": 5}),
    "baf_base_sample_test": (20_501, 0.0140, 32, {"customer_age_category": 2}),
    "compas_two_years": (7_214, 0.4507, 8, {"race": 6, "sex": 2}),
    "credit_default_taiwan": (30_000, 0.2212, 23, {"SEX": 2}),
    "bank_marketing": (45_211, 0.1170, 16, {"marital": 3, "age_25_60": 2}),
}


@pytest.mark.parametrize("name", SPECS)
def test_real_file(name):
    if importlib.util.find_spec("pyarrow") is None:
        pytest.skip("pyarrow is not installed")
    if name not in available():
        pytest.skip(f"{name}.parquet is not in {FOLDER_VARIABLE} nor in ../shared/data")
    rows, share, features, groups = REAL[name]
    table = load(name)
    assert table.X.shape == (rows, features)
    assert abs(table.y.mean() - share) < 0.0001
    assert {c: table.sensitive[c].nunique() for c in table.sensitive} == groups
    assert set(table.y) == {0, 1}
    kinds = {"category" if t == "category" else t.kind for t in table.X.dtypes}
    assert kinds <= {"category", "i", "f"}


def test_public_face():
    assert datasets.__all__ == sorted(datasets.__all__)
    assert set(datasets.__all__) == {
        "AccountOpenings", "Loans", "ParquetRows", "Table", "available", "load",
        "make_account_opening", "make_loans",
    }  # fmt: skip
