"""The automatic tolerance: what the rows can show, known before training."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from lightgbm import LGBMClassifier

import fairboost
from fairboost import FairGBMClassifier, bound, parity
from fairboost.data.cells import SensitiveColumn, build_cells
from fairboost.fairness.binding import bind
from fairboost.fairness.constraints import resolve
from fairboost.fairness.tolerance import MOST, automatic_tolerance, likely_rate, settled
from fairboost.fairness.two_sided import two_sided


def test_by_hand():
    """Two standard errors of the difference of two rates at even odds, rounded up."""
    error = 0.5 * np.sqrt(1 / 2_000 + 1 / 500)
    assert automatic_tolerance(np.array([2_000.0, 500.0])) == np.ceil(2_000 * error) / 1_000
    rarer = 2 * np.sqrt(0.09 * (1 / 2_000 + 1 / 500))
    found = automatic_tolerance(np.array([2_000.0, 500.0]), rate=0.1)
    assert found == np.ceil(1_000 * rarer) / 1_000


def test_a_small_group_does_not_loosen_the_limit_of_large_ones():
    alone = automatic_tolerance(np.array([9_000.0, 9_000.0]))
    assert automatic_tolerance(np.array([9_000.0, 9_000.0, 40.0])) < 1.2 * alone


def test_strata_are_compared_by_themselves():
    rows = np.array([900.0, 900.0, 900.0, 900.0])
    found = automatic_tolerance(rows, np.array([0, 0, 1, 1]))
    assert found == automatic_tolerance(rows[:2])


@given(st.lists(st.floats(1, 1e6), min_size=2, max_size=6), st.floats(0, 1))
def test_it_lies_between_a_hundredth_and_a_tenth_and_falls_with_rows(rows, rate):
    found = automatic_tolerance(np.array(rows), rate=rate)
    assert 0.01 <= found <= MOST
    assert automatic_tolerance(4 * np.array(rows), rate=rate) <= found


@pytest.mark.parametrize("rate", ["ppr", "fpr", "fnr"])
def test_gaps_of_equal_groups_are_mostly_within_it(rate):
    """Of groups whose rates are what they are likely to be."""
    rng = np.random.default_rng(0)
    group, y = np.repeat([0, 1], [700, 1_300]).astype(np.int32), rng.random(2_000) < 0.3
    cells = build_cells(y.astype(np.int32), [SensitiveColumn("g", group, ("a", "b"))])
    (constraint,) = resolve(parity(rate), None, ["g"])
    term = bind(two_sided(constraint), cells)
    ((found,), _) = settled((term,), (term,), cells)
    chance = likely_rate(term.moments[0], cells)
    n = term.rows[0].astype(int)
    draws = [rng.binomial(k, chance, 4_000) / k for k in n]
    within = np.abs(draws[0] - draws[1]) <= found.constraint.tolerance
    assert 0.93 < within.mean() < 0.98


def test_rates_of_true_labels_of_the_same_groups_share_the_larger_tolerance():
    """Of few positive labels the false negative rate is known less well."""
    rng = np.random.default_rng(0)
    group, y = np.repeat([0, 1], [1_000, 4_000]).astype(np.int32), rng.random(5_000) < 0.1
    cells = build_cells(y.astype(np.int32), [SensitiveColumn("g", group, ("a", "b"))])
    asked = [*resolve("equalized_odds", None, ["g"]), *resolve(parity("ppr"), None, ["g"])]
    terms = [bind(two_sided(c), cells) for c in asked]
    alone = [settled((t,), (t,), cells)[0][0].constraint.tolerance for t in terms]
    fpr, fnr, ppr = (t.constraint.tolerance for t in settled(terms, terms, cells)[0])
    assert alone[0] < alone[1] and alone[2] < alone[1]
    assert fpr == fnr == alone[1]
    assert ppr == alone[2]


def rows(n=1_500):
    rng = np.random.default_rng(0)
    X, sex = rng.normal(size=(n, 3)), rng.integers(0, 2, n)
    y = (X[:, 0] + 0.8 * sex + rng.logistic(size=n) > 0).astype(int)
    return X, y, {"sex": sex}


def engine():
    return LGBMClassifier(n_estimators=15, num_leaves=7, n_jobs=1, verbose=-1)


@pytest.mark.parametrize("holdout", [0.2, "cross"])
def test_labels_are_those_of_all_rows(holdout):
    """Of the label that no rate counts few rows are held out."""
    rng = np.random.default_rng(0)
    X, sex = rng.normal(size=(8_000, 3)), rng.integers(0, 2, 8_000)
    y = (X[:, 0] + rng.normal(size=8_000) > 0.7).astype(int)
    model = FairGBMClassifier(engine(), constraint="predictive_equality", holdout=holdout)
    model.fit(X, y, sensitive_features={"sex": sex})
    rows = np.bincount(sex[y == 0]) * (0.2 if holdout == 0.2 else 1.0)
    (found,) = model.tolerances_.values()
    odds = y.mean() / (1 - y.mean())
    assert found == pytest.approx(automatic_tolerance(rows, rate=0.5 * odds), abs=0.002)


def test_crossed_and_given_columns_are_two_constraints():
    X, y, s = rows(3_000)
    s["race"] = np.random.default_rng(1).integers(0, 2, len(y))
    asked = [parity("fnr", by=("sex", "race")), parity("fnr", by="sex", given="race")]
    model = FairGBMClassifier(engine(), constraint=asked).fit(X, y, sensitive_features=s)
    limits = [v.limit for v in model.fairness_report_.verdicts]
    assert list(model.tolerances_.values()) == limits and limits[0] != limits[1]
    assert [v.limit for v in model.report_on(X, y, sensitive_features=s).test_verdicts] == limits


def test_a_column_without_its_name_has_the_same():
    X, y, s = rows()
    model = FairGBMClassifier(engine()).fit(X, y, sensitive_features=s)
    report = model.report_on(X, y, sensitive_features=s["sex"])
    assert [v.limit for v in report.test_verdicts] == list(model.tolerances_.values())


def test_rows_that_are_judged_never_set_it():
    """As of a file that has none, or after another constraint was set."""
    X, y, s = rows()
    model = FairGBMClassifier(engine(), constraint="equal_opportunity")
    model.fit(X, y, sensitive_features=s).tolerances_.clear()
    (verdict,) = model.report_on(X, y, sensitive_features=s).test_verdicts
    assert verdict.limit == 0.01


def test_a_model_keeps_it_for_other_rows_and_in_its_file(tmp_path):
    X, y, s = rows()
    model = FairGBMClassifier(engine()).fit(X, y, sensitive_features=s)
    assert set(model.tolerances_) == {"fpr[sex]", "fnr[sex]"}
    limits = list(model.tolerances_.values())
    assert min(limits) > 0.03
    model.save(tmp_path / "model.json")
    for each in (model, fairboost.load(tmp_path / "model.json")):
        few = {"sex": s["sex"][:400]}
        report = each.report_on(X[:400], y[:400], sensitive_features=few)
        assert [v.limit for v in report.test_verdicts or report.verdicts] == limits
        assert each.tolerances_ == model.tolerances_


@pytest.mark.parametrize(
    "asked",
    [
        {"tolerance": 0.01},
        {"constraint": parity("fnr", 0.01)},
        {"constraint": bound("fnr", 0.9)},
        {"constraint": "four_fifths"},
        {"multipliers": "paper"},
    ],
    ids=str,
)  # fmt: skip
def test_what_the_user_gives_is_not_automatic(asked):
    X, y, s = rows()
    model = FairGBMClassifier(engine(), **asked).fit(X, y, sensitive_features=s)
    assert model.tolerances_ == {}


def test_the_report_names_it_and_says_what_a_hundredth_would_take():
    X, y, s = rows()
    model = FairGBMClassifier(engine(), constraint="equal_opportunity")
    model.fit(X, y, sensitive_features=s)
    (tolerance,) = model.tolerances_.values()
    (line,) = (a for a in model.fairness_report_.advice if a.startswith("Automatic"))
    assert line.startswith(f"Automatic tolerance: {tolerance:g} (false negative rate by sex), two")
    assert line.endswith(f"takes {(tolerance / 0.01) ** 2:.1f} times as many rows.")
    model.set_params(tolerance=0.05).fit(X, y, sensitive_features=s)
    assert "Automatic" not in str(model.fairness_report_)


def test_a_second_fit_forgets_that_of_the_first():
    X, y, s = rows()
    model = FairGBMClassifier(engine(), constraint="equal_opportunity")
    few = model.fit(X[:600], y[:600], sensitive_features={"sex": s["sex"][:600]}).tolerances_
    assert model.fit(X, y, sensitive_features=s).tolerances_["fnr[sex]"] < few["fnr[sex]"]
