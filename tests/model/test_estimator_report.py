"""``fairness_report_`` and ``report_on``: the figures are those of the model that is kept."""

from __future__ import annotations

import warnings
from typing import get_args

import numpy as np
import pandas as pd
import pytest
from lightgbm import LGBMClassifier
from sklearn.exceptions import NotFittedError

from fairboost import FairGBMClassifier, bound, load, parity
from fairboost.data.cells import build_cells
from fairboost.data.holdout import choose
from fairboost.data.validation import read_sensitive_features
from fairboost.datasets import make_loans
from fairboost.exceptions import InvalidInputError, NotMetWarning, SmallCellWarning
from fairboost.fairness.rates import RATES
from fairboost.metrics import gap, group_rates
from fairboost.verdicts.verdict import Status


@pytest.fixture(scope="session")
def other(make_toy):
    """Rows that are not trained on."""
    return make_toy(n=400, seed=1)


def fair(engine, **params):
    # Memberships take time, and have no part in reports.
    return FairGBMClassifier(engine, **{"memberships": "observed", **params})


def fitted(engine, toy, *, fit=None, **params):
    return fair(engine, **params).fit(toy.X, toy.y, sensitive_features=toy.group, **(fit or {}))


def held_out(toy, share, weight=None):
    """The rows that a fit without a random_state holds out."""
    (group,) = read_sensitive_features(toy.group, len(toy))
    weight = None if weight is None else weight.astype(np.float32)
    cells = build_cells(toy.y.astype(np.int8), [group], weight)
    return choose(share, cells, 0.0, weight, np.random.default_rng(0)).folds == 1


def figures(report, prefix="", where=None):
    """Rate, rows and interval by rate and group."""
    table = report.rates.set_index(["rate", "group"])
    columns = [where or report.where, f"{prefix}low", f"{prefix}high"]
    return table[columns].set_axis(["value", "low", "high"], axis=1)


def by_metrics(y, decided, group, rates, **options):
    table = group_rates(y, decided, sensitive_features=group, rates=rates, **options)
    table = table[table["attribute"] != ""].assign(
        group=lambda t: t["attribute"] + "=" + t["group"].astype(str)
    )
    return table.set_index(["rate", "group"])[["value", "low", "high"]]


def assert_same_figures(found, expected, **tolerances):
    tolerances = tolerances or {"rtol": 0, "atol": 1e-12}
    pd.testing.assert_frame_equal(
        found, expected.loc[found.index], check_exact=False, **tolerances
    )


# The rows held out

CONSTRAINTS = {
    "equal_opportunity": ["fnr"],
    "predictive_equality": ["fpr"],
    "demographic_parity": ["ppr"],
    "equalized_odds": ["fpr", "fnr"],
}


@pytest.mark.parametrize("iterate", ["best", "last"])
@pytest.mark.parametrize("constraint", CONSTRAINTS)
def test_rates_are_those_of_the_given_set_exactly(engine, toy, other, constraint, iterate):
    held = {"holdout_set": (other.X, other.y, other.group)}
    model = fitted(engine(n_estimators=20), toy, constraint=constraint, iterate=iterate, fit=held)
    report = model.fairness_report_
    decided = model.predict(other.X)
    rates = CONSTRAINTS[constraint]
    expected = by_metrics(other.y, decided, other.group, rates)
    assert report.where == "held out" and len(report.rates) == 2 * len(rates)
    found = figures(report)
    np.testing.assert_array_equal(found["value"], expected.loc[found.index, "value"])
    assert_same_figures(found, expected)
    for verdict, rate in zip(report.verdicts, rates, strict=True):
        exact = gap(other.y, decided, rate=rate, sensitive_features=other.group)
        assert verdict.value == pytest.approx(exact.value, abs=1e-12)
        counts = RATES[rate].counts(other.y)
        rows = [(counts & (other.group == g)).sum() for g in "ab"]
        assert verdict.smallest_rows == min(rows)


def test_weights_of_the_set_count(engine, toy, other):
    held = {"holdout_set": (other.X, other.y, other.group, other.weight)}
    model = fitted(engine(), toy, fit=held)
    expected = by_metrics(
        other.y, model.predict(other.X), other.group, ["fpr", "fnr"], sample_weight=other.weight
    )
    assert_same_figures(figures(model.fairness_report_), expected, rtol=0, atol=1e-6)


@pytest.mark.parametrize("iterate", ["best", "last", "average", "randomized"])
@pytest.mark.parametrize("weighted", [False, True], ids=["", "weighted"])
def test_rates_are_those_of_the_share_held_out(engine, toy, weighted, iterate):
    """Whichever model is kept, even one that no round has looked at."""
    weight = toy.weight if weighted else None
    model = fitted(
        engine(n_estimators=15), toy, holdout=0.3, iterate=iterate, fit={"sample_weight": weight}
    )
    at = held_out(toy, 0.3, weight)
    expected = by_metrics(
        toy.y[at], model.predict(toy.X[at]), toy.group[at], ["fpr", "fnr"],
        sample_weight=None if weight is None else weight[at],
    )  # fmt: skip
    assert model.fairness_report_.where == "held out"
    assert "a share of 30%" in model.fairness_report_.note
    assert_same_figures(figures(model.fairness_report_), expected, rtol=0, atol=1e-6)


@pytest.mark.parametrize("how", [0.3, None])
def test_rates_of_dart_are_those_of_the_model_it_ended_with(engine, toy, how):
    """Trees are rescaled after they were grown, so no round has looked at it."""
    dart = engine(boosting_type="dart", drop_rate=0.9, skip_drop=0.0, n_estimators=18)
    model = fitted(
        dart, toy, holdout=how, iterate="last", multiplier_learning_rate=1.0, tolerance=0.01
    )
    at = np.ones(len(toy), bool) if how is None else held_out(toy, how)
    expected = by_metrics(toy.y[at], model.predict(toy.X[at]), toy.group[at], ["fpr", "fnr"])
    assert_same_figures(figures(model.fairness_report_), expected)
    last = model.trace_.filter(like="rate: ").iloc[-1]
    assert np.abs(last.to_numpy() - figures(model.fairness_report_)["value"]).max() > 0.01


@pytest.mark.parametrize("how", ["cross", 0.3, "set"])
def test_rates_are_those_of_the_round_kept(engine, toy, other, how):
    """The trace shows the rates before every round, so those of f_k stand in line k + 1."""
    held = {"holdout_set": (other.X, other.y, other.group)} if how == "set" else {}
    model = fitted(
        engine(n_estimators=200), toy, holdout="auto" if how == "set" else how, fit=held
    )
    k = model.best_iteration_
    assert k < 200  # the last is not in the trace
    line = model.trace_.filter(like="rate: ").iloc[k]
    np.testing.assert_array_equal(figures(model.fairness_report_)["value"], line)


@pytest.mark.parametrize("iterate", ["best", "last", "average", "randomized"])
def test_without_rows_held_out_it_is_about_the_training_rows_and_says_so(engine, toy, iterate):
    model = fitted(engine(n_estimators=15), toy, holdout=None, iterate=iterate)
    report = model.fairness_report_
    assert report.where == "training" and "training" in report.rates
    assert any("rates of training rows" in line for line in report.advice)
    expected = by_metrics(toy.y, model.predict(toy.X), toy.group, ["fpr", "fnr"])
    assert_same_figures(figures(report), expected)


@pytest.mark.parametrize("iterate", ["average", "randomized"])
def test_a_mean_of_boosters_that_saw_all_rows_is_reported_on_those(engine, toy, iterate):
    """In cross-fitting the boosters that leave out a fold are not kept, nor is their mean."""
    model = fitted(engine(), toy, holdout="cross", iterate=iterate)
    assert model.fairness_report_.where == "training"
    expected = by_metrics(toy.y, model.predict(toy.X), toy.group, ["fpr", "fnr"])
    assert_same_figures(figures(model.fairness_report_), expected)


@pytest.mark.parametrize("iterate", ["average", "randomized"])
def test_a_mean_of_iterates_is_reported_on_the_set_given(engine, toy, other, iterate):
    held = {"holdout_set": (other.X, other.y, other.group)}
    model = fitted(engine(), toy, iterate=iterate, fit=held)
    assert model.fairness_report_.where == "held out"
    expected = by_metrics(other.y, model.predict(other.X), other.group, ["fpr", "fnr"])
    assert_same_figures(figures(model.fairness_report_), expected)


def test_the_operating_point_is_that_of_the_report(engine, toy, other):
    held = {"holdout_set": (other.X, other.y, other.group)}
    model = fitted(engine(), toy, operating_point=0.7, constraint="demographic_parity", fit=held)
    decided = (model.predict_proba(other.X)[:, 1] >= 0.7).astype(int)
    expected = by_metrics(other.y, decided, other.group, "ppr")
    assert_same_figures(figures(model.fairness_report_), expected)


def test_every_constraint_has_its_verdict(engine, toy):
    half = np.where(np.arange(len(toy)) % 2, "odd", "even")
    model = fair(
        engine(),
        constraint=[
            parity("fnr", 0.9, by="group"),
            parity("fpr", 0.0, by="half"),
            bound("ppr", 0.01),
        ],
        holdout=0.5,
    ).fit(toy.X, toy.y, sensitive_features={"group": toy.group, "half": half})
    report = model.fairness_report_
    assert [v.constraint for v in report.verdicts] == [
        "false negative rate equal by group, tolerance 0.9",
        "false positive rate equal by half, tolerance 0",
        "predicted positive rate of everyone at most 0.01",
    ]
    assert [v.limit for v in report.verdicts] == [0.9, 0.0, 0.01]
    assert report.verdicts[0].status == "met" and report.verdicts[2].status == "not met"
    assert not report.met
    assert set(report.rates["by"]) == {"group", "half", "everyone"}


def test_rows_without_a_group_are_in_no_groups_rate(engine, toy, other):
    group = np.where(np.arange(len(other)) % 5 == 0, None, other.group)
    model = fitted(engine(), toy, fit={"holdout_set": (other.X, other.y, group)})
    known = np.array([g is not None for g in group])
    expected = by_metrics(
        other.y[known], model.predict(other.X[known]), other.group[known], ["fpr", "fnr"]
    )
    assert_same_figures(figures(model.fairness_report_), expected)


# Test rows


@pytest.mark.parametrize("weighted", [False, True], ids=["", "weighted"])
def test_report_on_has_the_rates_of_those_rows(engine, toy, other, weighted):
    model = fitted(engine(), toy, holdout=0.3)
    weight = other.weight if weighted else None
    report = model.report_on(
        other.X, other.y, sensitive_features=other.group, sample_weight=weight
    )
    decided = model.predict(other.X)
    expected = by_metrics(other.y, decided, other.group, ["fpr", "fnr"], sample_weight=weight)
    assert_same_figures(figures(report, "test ", "test"), expected)
    for verdict, rate in zip(report.test_verdicts, ("fpr", "fnr"), strict=True):
        exact = gap(
            other.y, decided, rate=rate, sensitive_features=other.group, sample_weight=weight,

        )  # fmt: skip
        assert verdict.value == pytest.approx(exact.value, abs=1e-12)
    # The rows held out stand beside them, as they were.
    assert report.verdicts == model.fairness_report_.verdicts
    assert_same_figures(figures(report), figures(model.fairness_report_))
    assert "on the test rows" in str(report) and "<table" in report._repr_html_()


@pytest.mark.parametrize("iterate", ["average", "randomized"])
def test_report_on_is_about_the_model_kept(engine, toy, other, iterate):
    model = fitted(engine(), toy, iterate=iterate)
    report = model.report_on(other.X, other.y, sensitive_features=other.group)
    expected = by_metrics(other.y, model.predict(other.X), other.group, ["fpr", "fnr"])
    assert_same_figures(figures(report, "test ", "test"), expected)


def test_report_on_rows_that_lack_a_group_or_have_another(engine, toy, other):
    """A group that training never saw has rates of its own; they are real people."""
    model = fitted(engine(), toy, holdout=0.3)
    group = np.where(np.arange(len(other)) % 3 == 0, "z", other.group)
    report = model.report_on(other.X, other.y, sensitive_features=group)
    table = report.rates.set_index(["rate", "group"])
    assert np.isnan(table.loc[("fpr", "sensitive_feature=z"), "held out"])
    assert (
        table.loc[("fpr", "sensitive_feature=z"), "test rows"]
        == ((group == "z") & (other.y == 0)).sum()
    )
    assert "sensitive_feature=z" in str(report)


@pytest.mark.parametrize(
    "form",
    [
        lambda g: g.astype(float),
        lambda g: g.astype(str),
        lambda g: g.astype(float).astype(str),
        lambda g: g.astype(bool),
        lambda g: pd.Series(pd.Categorical(g, [1, 0], ordered=True)),
    ],
)
def test_a_group_of_training_is_matched_by_its_value(toy, other, form):
    """In whatever form: a group has one line, with its figures on both sets of rows."""
    engine, group = LGBMClassifier(n_estimators=5, verbose=-1), (toy.group == "b").astype(int)
    model = fair(engine, holdout=0.3).fit(toy.X, toy.y, sensitive_features=group)
    theirs = (other.group == "b").astype(int)
    expected = model.report_on(other.X, other.y, sensitive_features=theirs)
    report = model.report_on(other.X, other.y, sensitive_features=form(theirs))
    assert not report.rates.duplicated(["rate", "group"]).any()
    pd.testing.assert_frame_equal(report.rates, expected.rates)
    assert str(report) == str(expected)


def test_two_groups_that_may_be_one_of_training_are_refused(toy, other):
    engine, group = LGBMClassifier(n_estimators=5, verbose=-1), (toy.group == "b").astype(int)
    model = fair(engine, holdout=0.3).fit(toy.X, toy.y, sensitive_features=group)
    theirs = np.array(["0", "1", "0.0"])[np.arange(len(other)) % 3]
    with pytest.raises(InvalidInputError, match="both mean 0; write groups as in training"):
        model.report_on(other.X, other.y, sensitive_features=theirs)


def test_a_group_of_training_is_matched_by_its_value_in_a_holdout_set(toy, other):
    engine, group = LGBMClassifier(n_estimators=5, verbose=-1), (toy.group == "b").astype(int)
    reports = [
        fair(engine)
        .fit(
            toy.X,
            toy.y,
            sensitive_features=group,
            holdout_set=(other.X, other.y, form((other.group == "b").astype(int))),
        )
        .fairness_report_
        for form in (np.asarray, lambda g: g.astype(float).astype(str))
    ]
    pd.testing.assert_frame_equal(*(report.rates for report in reports))


def test_report_on_reads_labels_as_training_did(engine, toy, other):
    names = np.array(["no", "yes"])
    model = fair(engine(), holdout=0.3).fit(toy.X, names[toy.y], sensitive_features=toy.group)
    report = model.report_on(other.X, names[other.y], sensitive_features=other.group)
    as_numbers = fitted(engine(), toy, holdout=0.3)
    expected = as_numbers.report_on(other.X, other.y, sensitive_features=other.group)
    pd.testing.assert_frame_equal(report.rates, expected.rates)
    with pytest.raises(InvalidInputError, match=r"y has the label \d, expected those of training"):
        model.report_on(other.X, other.y, sensitive_features=other.group)


# None, and files


def test_without_a_constraint_there_is_nothing_to_report(engine, toy, other, tmp_path):
    model = fitted(engine(), toy, constraint=None)
    assert model.fairness_report_ is None
    model.save(tmp_path / "model.json")
    for m in (model, load(tmp_path / "model.json")):
        assert m.fairness_report_ is None
        with pytest.raises(InvalidInputError, match=r"without constraints, so there is nothing"):
            m.report_on(other.X, other.y, sensitive_features=other.group)


@pytest.mark.parametrize("iterate", ["best", "average"])
def test_a_file_keeps_the_report(engine, toy, tmp_path, iterate):
    model = fitted(engine(), toy, holdout=0.3, iterate=iterate, confidence=0.9)
    model.save(tmp_path / "model.json")
    again = load(tmp_path / "model.json").fairness_report_
    pd.testing.assert_frame_equal(again.rates, model.fairness_report_.rates, check_exact=True)
    assert again.verdicts == model.fairness_report_.verdicts
    assert str(again) == str(model.fairness_report_)


def test_a_loaded_model_judges_test_rows_alike(engine, toy, other, tmp_path):
    model = fitted(engine(), toy, holdout=0.3)
    model.save(tmp_path / "model.json")
    loaded = load(tmp_path / "model.json")
    fresh = model.report_on(other.X, other.y, sensitive_features=other.group)
    found = loaded.report_on(other.X, other.y, sensitive_features=other.group)
    assert (found.test_verdicts or found.verdicts) == fresh.test_verdicts


def test_the_report_of_a_loaded_model_prints(engine, toy, other, tmp_path):
    model = fitted(engine(), toy, holdout=0.3)
    model.save(tmp_path / "model.json")
    report = load(tmp_path / "model.json").report_on(
        other.X, other.y, sensitive_features=other.group
    )
    assert "sensitive_feature=a" in str(report) and "<table" in report._repr_html_()


def test_a_model_that_is_not_fitted_says_so(toy):
    with pytest.raises(NotFittedError):
        FairGBMClassifier().report_on(toy.X, toy.y, sensitive_features=toy.group)


# Confidence


@pytest.fixture(scope="module")
def many():
    return make_loans(24_000, seed=5)


def on_loans(loans, n, rounds, **params):
    engine = loans_engine(rounds)
    model = fair(engine, constraint="equal_opportunity", holdout=0.5, **params)
    return model.fit(loans.X[:n], loans.y[:n], sensitive_features=loans.sensitive["sex"][:n])


def loans_engine(rounds):
    return LGBMClassifier(
        n_estimators=rounds, num_leaves=8, learning_rate=0.3, n_jobs=1, verbose=-1
    )


def test_with_plenty_of_rows_a_confidence_is_met(many):
    model = on_loans(many, 24_000, 40, tolerance=0.06, confidence=0.9)
    (verdict,) = model.fairness_report_.verdicts
    assert verdict.status == "met"
    assert verdict.value < verdict.high <= 0.06
    assert model.fairness_report_.level == 0.9
    again = model.report_on(
        many.X, many.y, sensitive_features=many.sensitive["sex"]
    ).verdicts  # fmt: skip
    assert again == (verdict,)


def test_with_few_rows_a_confidence_cannot_be_had_and_that_is_said(many):
    with pytest.warns(SmallCellWarning, match=r"not certain, held out: false negative"):
        model = on_loans(many, 1_500, 40, tolerance=0.06, confidence=0.9)
    (verdict,) = model.fairness_report_.verdicts
    assert verdict.status in get_args(Status)[1:3]  # one of the two that are not certain
    assert verdict.high > 0.06
    assert any("are needed to detect" in line for line in model.fairness_report_.advice)


def test_a_confidence_aims_lower(many):
    sure, plain = (on_loans(many, 6_000, 40, tolerance=0.06, confidence=c) for c in (0.99, None))
    assert sure.fairness_report_.verdicts[0].value < plain.fairness_report_.verdicts[0].value


# What fit warns of


def figure_of(report):
    return [f"{v.constraint}: {v}" for v in report.verdicts]


def test_a_constraint_that_is_not_met_is_a_warning_with_the_figures(many):
    with pytest.warns(NotMetWarning) as caught:
        model = on_loans(many, 24_000, 3, tolerance=0.01)
    (warned,) = caught
    (figure,) = figure_of(model.fairness_report_)
    assert str(warned.message) == (
        f"not met, held out: {figure}. print(model.fairness_report_) says more"
    )
    assert model.fairness_report_.verdicts[0].low > 0.01
    assert warned.filename == __file__  # where the user called fit, or near it


def test_each_kind_of_verdict_is_warned_of_by_itself(engine, toy):
    """Together with the groups of few rows, before training."""
    half = np.where(np.arange(len(toy)) < 20, "few", "many")
    constraint = [parity("fnr", 0.0, by="half"), bound("ppr", 0.01), bound("pnr", 0.99)]
    with pytest.warns() as caught:
        model = fair(engine(), constraint=constraint, holdout=0.5, min_group_rows=0).fit(
            toy.X, toy.y, sensitive_features={"half": half}
        )
    before, not_met, too_few = caught
    assert before.category is SmallCellWarning
    assert "half=few (" in str(before.message) and "rows for fnr" in str(before.message)
    parity_figure, bound_figure, _ = figure_of(model.fairness_report_)
    assert not_met.category is NotMetWarning
    assert f"not met, held out: {bound_figure}. print" in str(not_met.message)
    assert too_few.category is SmallCellWarning
    assert f"not met on these rows, not certain, held out: {parity_figure}. print" in str(
        too_few.message
    )
    assert {w.filename for w in caught} == {__file__}


def test_what_is_met_is_no_warning(engine, toy):
    with warnings.catch_warnings(action="error"):
        model = fitted(engine(), toy, tolerance=0.9)
    assert model.fairness_report_.met


def test_a_report_is_on_the_columns_that_were_constrained(engine, toy, other):
    """Further ones are not judged, and one that was constrained has to be there."""
    frame = pd.DataFrame({"extra": np.arange(len(other.y)) % 2, "group": other.group})
    model = FairGBMClassifier(engine(), holdout=0.3)
    model.fit(toy.X, toy.y, sensitive_features=pd.Series(toy.group, name="group"))
    both = model.report_on(other.X, other.y, sensitive_features=frame)
    alone = model.report_on(other.X, other.y, sensitive_features=other.group)
    assert both.test_verdicts[0].value == alone.test_verdicts[0].value
    with pytest.raises(InvalidInputError, match=r"on the sensitive columns \['group'\].*'extra'"):
        model.report_on(other.X, other.y, sensitive_features=frame[["extra"]])


# Groups too small to be judged


@pytest.mark.parametrize("kind", [0.2, "cross", "set", None])
def test_a_group_of_one_row_is_left_out_if_so_asked(engine, toy, kind):
    group = np.array(toy.group, object)
    group[0] = "alone"
    rows = toy.X, toy.y
    options = {}
    if kind == "set":
        options["holdout_set"] = (toy.X, toy.y, group)
    asked = {"constraint": parity("ppr", 0.1), "holdout": "auto" if kind == "set" else kind}
    model = fair(engine(), min_group_rows=20, **asked)
    model.fit(*rows, sensitive_features=group, **options)
    report = model.fairness_report_
    assert any("sensitive_feature=alone (" in line for line in report.advice)
    assert not any("alone" in name for name in model.multipliers_.index)
    judged = model.report_on(*rows, sensitive_features=group).test_verdicts
    left = group != "alone"
    expected = gap(
        toy.y[left], model.predict(toy.X)[left], rate="ppr", sensitive_features=group[left]
    )
    assert judged[0].value == pytest.approx(expected.value)


def test_what_min_group_rows_may_be(engine, toy):
    with pytest.raises(InvalidInputError, match="min_group_rows must be a whole number of rows"):
        fair(engine(), min_group_rows=-1).fit(toy.X, toy.y, sensitive_features=toy.group)
