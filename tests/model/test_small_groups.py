"""Groups of few rows are shown by name, and do not decide what is found of the others."""

import numpy as np
import pytest
from lightgbm import LGBMClassifier, LGBMRegressor

from fairboost import FairGBMClassifier, FairGBMRegressor, tradeoff_curve
from fairboost.exceptions import ConstraintError
from fairboost.metrics import audit, audit_classes, audit_numbers
from fairboost.report import gather
from fairboost.report.pages import to_markdown

ENGINE = LGBMClassifier(n_estimators=10, num_leaves=7, verbose=-1, n_jobs=1)


def drawn(n=3_000, seed=0, tiny=12):
    """Two large groups, and one of a few rows that are all refused."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 3))
    group = rng.choice(["a", "b"], n).astype(object)
    group[:tiny] = "tiny"
    X[:tiny, 0] = -3.0
    y = (X[:, 0] + 0.3 * (group == "a") + rng.normal(size=n) > 0).astype(int)
    return X, y, {"race": group}


def fitted(rows, **asked):
    asked = {"constraint": "demographic_parity", "tolerance": 0.1, "holdout": 0.3, **asked}
    X, y, groups = rows
    return FairGBMClassifier(ENGINE, **asked).fit(X, y, sensitive_features=groups)


@pytest.fixture(scope="module")
def model():
    return fitted(drawn())


def test_a_tiny_group_is_not_compared_by_default(model):
    (verdict,) = model.fairness_report_.verdicts
    assert verdict.value < 0.2 and verdict.smallest_group != "race=tiny"
    assert not any("tiny" in name for name in model.multipliers_.index)
    table = model.fairness_report_.rates.set_index("group")
    assert table.loc["race=tiny", "rows"] < 12 and table.loc["race=tiny", "held out"] == 0.0
    said = "because fewer than 30 rows count (min_group_rows): race=tiny ("
    assert said in " ".join(model.fairness_report_.advice)


def test_one_test_row_does_not_lead_the_headline(model):
    X, y, groups = drawn(2_000, seed=1, tiny=1)
    report = model.report_on(X, y, sensitive_features=groups)
    assert report.test_verdicts[0].value < 0.2
    assert "race=tiny (1 row for ppr)" in str(report).replace("\n  ", " ")
    model.set_params(min_group_rows=0)
    assert model.report_on(X, y, sensitive_features=groups).test_verdicts[0].value > 0.4
    model.set_params(min_group_rows=30)


def test_large_groups_are_trained_on_as_without_a_limit():
    rows = drawn(tiny=0)
    some, none = fitted(rows), fitted(rows, min_group_rows=0)
    np.testing.assert_array_equal(some.predict_proba(rows[0]), none.predict_proba(rows[0]))
    assert str(some.fairness_report_) == str(none.fairness_report_)


def test_a_group_that_is_small_in_a_set_of_the_users_own_is_not_compared_either():
    given = drawn(1_500, seed=3, tiny=4)
    X, y, groups = drawn(tiny=100)
    model = FairGBMClassifier(ENGINE, constraint="demographic_parity", tolerance=0.1)
    model.fit(X, y, sensitive_features=groups, holdout_set=given)
    assert model.fairness_report_.verdicts[0].value < 0.2
    assert "race=tiny (4 rows for ppr)" in " ".join(model.fairness_report_.advice)


def test_two_groups_have_to_be_left_in_training():
    X, y, _ = drawn(tiny=0)
    few = {"race": np.where(np.arange(len(y)) < 20, "few", "many")}
    said = r"race=many \(2,980 rows\), race=few \(20 rows\); pass min_group_rows=20 to compare"
    with pytest.raises(ConstraintError, match=said):
        fitted((X, y, few))
    with pytest.raises(ConstraintError, match="pass min_group_rows=20"):
        tradeoff_curve(
            ENGINE, X, y, sensitive_features=few, constraint="demographic_parity", tolerances=2
        )
    numbers = FairGBMRegressor(LGBMRegressor(n_estimators=2, verbose=-1))
    with pytest.raises(ConstraintError, match="pass min_group_rows=20"):
        numbers.fit(X, X[:, 0], sensitive_features=few)


def test_a_page_on_test_rows_that_are_too_few_has_no_verdict_on_them(model):
    X, y, groups = drawn(40, seed=4, tiny=0)
    with pytest.raises(ConstraintError, match="fewer than two groups"):
        model.report_on(X, y, sensitive_features=groups)
    curve = tradeoff_curve(
        ENGINE, *drawn(tiny=0)[:2], sensitive_features=drawn(tiny=0)[2],
        constraint="demographic_parity", tolerances=2,
    )  # fmt: skip
    evidence = gather(model, X, y, sensitive_features=groups, curve=curve)
    assert {f.where for f in evidence.verdicts} == {"held out"}
    assert evidence.tradeoff is None
    assert evidence.warnings[0].startswith("There is no verdict on the test rows: fewer than two")
    assert "There is no verdict on the test rows" in to_markdown(evidence)


def test_the_paper_compares_every_group():
    assert FairGBMClassifier.paper().min_group_rows == 0


# Audits
# -----------------------------------------------------------------------


@pytest.mark.parametrize("what", ["decisions", "classes", "numbers"])
def test_audits_name_small_groups_and_do_not_compare_them(what):
    _, y, groups = drawn()
    groups = {"race": np.where(groups["race"] == "tiny", "<tiny>", groups["race"])}
    find = {"decisions": audit, "classes": audit_classes, "numbers": audit_numbers}[what]
    found = find(y, np.roll(y, 1), sensitive_features=groups)
    assert "<tiny>" not in {*found.gaps["lowest_group"], *found.gaps["highest_group"]}
    assert "Not compared, because fewer than 30 rows count: race = " in str(found)
    assert "pass a smaller min_group_rows" in str(found)
    every = find(y, np.roll(y, 1), sensitive_features=groups, min_group_rows=0)
    assert "<tiny>" in {*every.gaps["lowest_group"], *every.gaps["highest_group"]}
    page = found._repr_html_()
    assert "&lt;tiny&gt;" in page and "<tiny>" not in page
    assert page.count("<table>") == page.count("</table>") >= 2
