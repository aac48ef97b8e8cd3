"""What a user is told of: groups too small to judge, constraints not met or beyond telling."""

import warnings

import numpy as np
import pytest
from lightgbm import LGBMClassifier

from fairboost import FairGBMClassifier, at_positive_rate
from fairboost.data.cells import SensitiveColumn, build_cells
from fairboost.exceptions import FairnessWarning, NotMetWarning, SmallCellWarning
from fairboost.fairness.binding import bind
from fairboost.fairness.constraints import bound, parity
from fairboost.fairness.two_sided import two_sided
from fairboost.verdicts.diagnostics import (
    SMALL_CELL,
    decides_little,
    judge_decisions,
    unsettled,
    warn_if_not_met,
    warn_of_small_cells,
)
from fairboost.verdicts.fairness_report import MeasuredRates, build

FNR = parity("fnr", 0.02, by="g")


def report(rates, n, *constraints, where="held out", **options):
    """Of n positive rows in each group."""
    column = SensitiveColumn("g", np.repeat([0, 1], n).astype(np.int32), ("a", "b"))
    cells = build_cells(np.ones(2 * n, np.int32), [column])
    terms = tuple(bind(c, cells) for c in constraints or (FNR,))
    values = [rates if len(t.groups) > 1 else [np.mean(rates)] for t in terms]
    seen = MeasuredRates(where, "", tuple(np.array([v]) for v in values), terms)
    return build(seen, **options)


def told(found, certainty=False):
    with warnings.catch_warnings(record=True, action="always") as caught:
        warn_if_not_met(found, certainty)
    return [(w.category, str(w.message)) for w in caught]


# Constraints


def test_a_constraint_that_is_not_met_is_named_with_its_figures():
    found = report([0.3, 0.4], 20_000)
    (verdict,) = found.verdicts
    assert told(found) == [
        (
            NotMetWarning,
            "not met, held out: false negative rate equal by g, tolerance 0.02: gap 0.1000 "
            f"[{verdict.low:.4f}, {verdict.high:.4f}]. print(model.fairness_report_) says more",
        )
    ]


def test_one_that_cannot_be_told_is_a_matter_of_rows():
    ((category, message),) = told(report([0.3, 0.4], 50))
    assert category is SmallCellWarning
    assert message.startswith(
        "not met on these rows, not certain, held out: false negative rate equal by g"
    )
    assert "gap 0.1000 [0.0000, " in message


def test_what_is_met_is_not_spoken_of():
    assert told(report([0.3, 0.31], 20_000)) == []
    assert told(report([0.3, 0.31], 50)) == []  # on these rows it is, few as they are


def test_with_a_confidence_an_upper_bound_has_to_be_met():
    assert told(report([0.3, 0.31], 40_000, confidence=0.95), certainty=True) == []
    ((category, message),) = told(report([0.3, 0.31], 5_000, confidence=0.95), certainty=True)
    assert category is SmallCellWarning
    assert message.startswith("met on these rows, not certain, held out")


def test_several_constraints_share_a_warning_of_a_kind():
    found = report([0.3, 0.34], 300, FNR, bound("fnr", 0.1), bound("fnr", 0.5), bound("fnr", 0.2))
    assert [v.status for v in found.verdicts] == [
        "not met on these rows, not certain", "not met", "met", "not met",
    ]  # fmt: skip
    (not_met, message), (too_few, other) = told(found)
    assert (not_met, too_few) == (NotMetWarning, SmallCellWarning)
    assert message.count("false negative rate of everyone at most") == 2
    assert "at most 0.1: rate 0.3200 [" in message and "; " in message
    assert "equal by" in other and "at most" not in other


def test_the_rows_that_it_is_about_are_named():
    ((_, message),) = told(report([0.3, 0.4], 20_000, where="training"))
    assert message.startswith("not met, training: ")


def test_without_constraints_there_is_nothing_to_say():
    assert told(build(MeasuredRates("held out", "", (), ()))) == []


# Groups


def small_cells(counts, constraints):
    """Told of groups with these numbers of rows, by label."""
    y = np.repeat([0, 1, 0, 1], counts).astype(np.int32)
    codes = np.repeat([0, 0, 1, 1], counts).astype(np.int32)
    cells = build_cells(y, [SensitiveColumn("g", codes, ("a", "b"))])
    with warnings.catch_warnings(record=True, action="always") as caught:
        warn_of_small_cells([bind(c, cells) for c in constraints], cells)
    return [str(w.message) for w in caught if w.category is SmallCellWarning]


def test_groups_of_few_rows_that_count_are_named_with_their_number():
    fewer = SMALL_CELL - 1
    (message,) = small_cells([100, 100, fewer, 5], [parity("fpr", 0, by="g"), FNR])
    assert f"fewer than {SMALL_CELL} rows count" in message
    assert f"g=b ({fewer} rows for fpr); g=b (5 rows for fnr)" in message
    assert "g=a" not in message


def test_rows_that_do_not_count_do_not_help():
    assert small_cells([100, 100, 1_000, SMALL_CELL], [FNR]) == []
    assert len(small_cells([100, 100, 1_000, SMALL_CELL - 1], [FNR])) == 1
    assert small_cells([100, 100, 15, 15], [parity("ppr", 0, by="g")]) == []  # either label counts


def test_a_group_is_named_once_however_many_constraints_read_it():
    (message,) = small_cells([100, 100, 100, 5], [FNR, parity("fnr", 0.5, by="g")])
    assert message.count("g=b") == 1


# In a fit


def people(n=2000):
    rng = np.random.default_rng(0)
    g = rng.integers(0, 2, n)
    X = np.column_stack([rng.normal(size=n), g])
    y = (X[:, 0] + 2 * g - 1 + rng.normal(size=n) > 0).astype(int)
    return X, y, g


def fair(n_estimators, **params):
    engine = LGBMClassifier(n_estimators=n_estimators, verbose=-1, n_jobs=1)
    return FairGBMClassifier(engine, constraint="equal_opportunity", **params)


def test_fit_says_when_training_was_too_short():
    X, y, g = people(9_000)
    with pytest.warns(NotMetWarning, match=r"not met, held out: .* gap 0\.\d{4} \[") as caught:
        model = fair(2).fit(X, y, sensitive_features=g)
    assert "train more rounds" in str(model.fairness_report_)  # which it points to
    assert "multipliers" not in str(model.fairness_report_)
    assert [w.filename for w in caught] == [__file__]  # where the user called it


def test_fit_says_nothing_when_all_is_well():
    X, y, g = people()
    with warnings.catch_warnings(action="error", category=FairnessWarning):
        fair(60, tolerance=0.3).fit(X, y, sensitive_features=g)


def test_fit_names_small_groups_with_their_rows():
    rng = np.random.default_rng(0)
    y = np.arange(400) % 2
    X = rng.normal(size=(400, 2)) + y[:, np.newaxis]
    g = np.where(np.arange(400) < 40, "few", "many")
    pattern = r"sensitive_feature=few \(20 rows for fnr\)"
    with pytest.warns(SmallCellWarning, match=pattern) as caught:
        fair(2, min_group_rows=0).fit(X, y, sensitive_features=g)
    assert {w.filename for w in caught} == {__file__}


# Models that decide nothing


@pytest.mark.parametrize(
    ("rates", "found"),
    [
        ((1.0, 1.0), "100% of the decisions are positive, but 25% of the labels are"),
        ((0.005, 0.001), "0.2% of the decisions are positive, but 25% of the labels are"),
        ((0.0, 0.0), "0% of the decisions are positive"),
        (
            (0.41, 0.4),
            "no better than one that ignores the features: it decides positively about 41%",
        ),
        ((0.3, 0.4), "no better than one that ignores the features"),
    ],
)
def test_decisions_that_say_nothing_are_told_with_the_remedy(rates, found):
    sentence = decides_little(*rates, 1_000, 3_000)
    assert found in sentence and "operating_point=at_positive_rate(0.25)" in sentence


def test_a_small_budget_is_not_held_against_a_model():
    assert "0.2% of the decisions" in decides_little(0.005, 0.001, 1_000, 3_000)
    assert decides_little(0.005, 0.001, 100_000, 300_000, placed=True) == ""
    assert "ignores the features" in decides_little(0.005, 0.005, 1_000, 3_000, placed=True)


@pytest.mark.parametrize("rates", [(0.7, 0.2), (0.05, 0.02), (0.99, 0.9)])
def test_a_model_that_tells_people_apart_is_not_spoken_of(rates):
    assert decides_little(*rates, 1_000, 3_000) == ""


def test_where_rows_are_few_only_constant_decisions_are_told():
    assert decides_little(0.5, 0.4, SMALL_CELL - 1, 300) == ""
    assert decides_little(1.0, 1.0, 5, 5) != ""
    assert decides_little(float("nan"), 0.1, 0, 300) == ""


def test_fit_says_that_a_model_decides_nothing():
    """The rate is bounded so low that no one is decided positively; women and men are equal."""
    X, y, g = people()
    y = (y & (np.arange(len(y)) % 4 == 0)).astype(int)  # rare: nobody is more likely than not
    with pytest.warns(FairnessWarning, match="decides next to nothing: .* operating_point") as got:
        model = fair(20, tolerance=0.3).fit(X, y, sensitive_features=g)
    assert [w.filename for w in got] == [__file__]
    assert model.predict(X).mean() < 0.01
    assert model.fairness_report_.within and not model.fairness_report_.met
    assert "decides next to nothing" in str(model.fairness_report_)
    report = model.report_on(X, y, sensitive_features=g)
    assert str(report).count("decides next to nothing") == 1
    first = " ".join(str(report).split("\n\n")[0].split())
    said = "1 met on these rows, by decisions that say nothing."
    assert first.startswith(f"Fairness constraints on the test rows: {said} On the rows held out")


@pytest.mark.parametrize("iterate", ["last", "average", "randomized"])
def test_of_whatever_iterate_is_kept(iterate):
    X, y, g = people()
    y = (y & (np.arange(len(y)) % 4 == 0)).astype(int)
    with pytest.warns(FairnessWarning, match="The model decides n"):
        fair(20, tolerance=0.3, iterate=iterate).fit(X, y, sensitive_features=g)


def test_a_budget_that_was_asked_for_is_no_reason_to_warn():
    X, y, g = people(20_000)
    with warnings.catch_warnings(action="error"):
        model = fair(60, tolerance=0.3, operating_point=at_positive_rate(0.02))
        model.fit(X, y, sensitive_features=g)
    assert model._measured.realised.value < 0.025  # of the rows that the threshold was placed on


def test_labels_that_were_spared_count_as_many_as_there_are():
    """Of rows held out of which half of the positive ones were spared, factors make up for it."""
    cells = build_cells(np.repeat([0, 1], [900, 100]).astype(np.int32), [])
    decided = np.array([0.0, 5.0])
    assert "but 10% of the labels" in judge_decisions(cells, 0 * decided, placed=False)
    spared = judge_decisions(cells, 0 * decided, placed=False, label_factors=(1.0, 9.0))
    assert "but 50% of the labels" in spared
    assert judge_decisions(cells, decided, placed=False) == ""


def of_two_groups(rows=400, tolerance=0.05):
    codes = np.repeat([0, 1], rows).astype(np.int32)
    cells = build_cells(np.zeros(2 * rows, np.int32), [SensitiveColumn("g", codes, ("a", "b"))])
    return [bind(two_sided(parity("ppr", tolerance, by="g")), cells)]


SETTLED = np.full(20, 0.2)
SWINGS = np.tile([0.0, 0.0, 0.6, 0.6], 5)


@pytest.mark.parametrize(
    ("second", "rows", "tolerance", "told"),
    [
        (SWINGS, 400, 0.05, True),
        (SETTLED, 400, 0.05, False),
        (np.linspace(0.0, 0.6, 20), 400, 0.05, False),  # a trend goes one way
        (0.2 + 0.1 * SWINGS, 400, 0.05, False),  # by 0.06
        (SWINGS, 400, 0.7, False),  # within the tolerance
        (SWINGS, 10, 0.05, False),  # by 6 of 10 rows
    ],
)
def test_a_rate_that_goes_back_and_forth_is_told(second, rows, tolerance, told):
    said = unsettled(of_two_groups(rows, tolerance), np.column_stack([SETTLED, second]))
    assert bool(said) == told
    if told:
        assert "the predicted positive rate of g=b went back and forth between 0.000 and" in said
        assert "compare wider groups" in said


def with_equal_scores(equal):
    """A fifth of the rows have few positive labels, and features that are equal or not."""
    rng = np.random.default_rng(0)
    n = 4_000
    young, x = rng.random(n) < 0.2, rng.normal(size=(n, 2))
    p = 1 / (1 + np.exp(-1.5 * x[:, 0] - x[:, 1] + np.where(young, 3.0, 0.8)))
    if equal:
        p[young], x[young] = 0.01, 0.0
    y = (rng.random(n) < p).astype(int)
    return np.column_stack([x, young]), y, np.where(young, "young", "old")


@pytest.mark.parametrize("equal", [True, False])
def test_a_group_of_equal_scores_has_no_rate_in_between(equal):
    """All of its rows are on one side of the threshold, or on the other."""
    X, y, groups = with_equal_scores(equal)
    engine = LGBMClassifier(n_estimators=100, num_leaves=7, verbose=-1, n_jobs=1)
    model = FairGBMClassifier(engine, constraint=parity("ppr", 0.05), random_state=0)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        model.fit(X, y, sensitive_features={"age": groups})
    told = [str(w.message) for w in caught if "did not settle" in str(w.message)]
    assert bool(told) == equal
    assert ("Training did not settle" in str(model.fairness_report_).replace("\n  ", " ")) == equal
    if equal:
        assert "age=young went back and forth" in told[0]


@pytest.mark.parametrize(("n_groups", "others", "number"), [(5, "", False), (60, "55", True)])
def test_few_of_many_small_groups_are_named(n_groups, others, number):
    codes = np.repeat(np.arange(n_groups), 4).astype(np.int32)
    column = SensitiveColumn("age", codes, tuple(range(n_groups)))
    cells = build_cells(np.ones(len(codes), np.int32), [column])
    with pytest.warns(SmallCellWarning) as caught:
        warn_of_small_cells([bind(parity("fnr", 0.02, by="age"), cells)], cells)
    message = str(caught[0].message)
    assert message.count("rows for fnr") == 5
    assert (f"and {others} others" in message) == bool(others)
    assert ('smooth("age")' in message) == number
