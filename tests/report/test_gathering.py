"""Evidence of a fitted model: every figure is the one that its own part of the package gives."""

from __future__ import annotations

import warnings

import numpy as np
import pandas as pd
import pytest
from lightgbm import LGBMClassifier
from sklearn.base import clone
from sklearn.frozen import FrozenEstimator
from sklearn.metrics import accuracy_score

import fairboost
from fairboost import FairGBMClassifier, at_fpr, bound, parity, tradeoff_curve
from fairboost.datasets import make_loans
from fairboost.exceptions import InvalidInputError
from fairboost.metrics import gap, group_rates
from fairboost.report import DataFile, Evidence, gather, to_html, to_markdown
from fairboost.report.evidence import Limit
from fairboost.verdicts.rounds import violations_by_round


@pytest.fixture(scope="module")
def loans():
    return make_loans(3_000, seed=0)


@pytest.fixture(scope="module")
def new():
    return make_loans(2_000, seed=1)


@pytest.fixture(scope="module")
def engine():
    return LGBMClassifier(n_estimators=15, num_leaves=8, verbose=-1, n_jobs=1)


@pytest.fixture(scope="module")
def model(engine, loans):
    fair = FairGBMClassifier(
        engine, constraint="equal_opportunity", tolerance=0.05, holdout=0.3, memberships="observed"
    )
    return fair.fit(loans.X, loans.y, sensitive_features=loans.sensitive)


@pytest.fixture(scope="module")
def curve(engine, loans):
    return tradeoff_curve(
        engine,
        loans.X,
        loans.y,
        sensitive_features=loans.sensitive,
        constraint="equal_opportunity",
        tolerances=4,
    )


@pytest.fixture(scope="module")
def evidence(model, curve, loans, new):
    return gather(
        model,
        new.X,
        new.y,
        sensitive_features=new.sensitive,
        curve=curve,
        train=(loans.X, loans.y, loans.sensitive),
        label="approved",
        splits={"training": 2_100, "held out": 900},
        files=[DataFile("training", "loans.csv", "ab" * 32, 3_000)],
    )


def test_it_goes_to_json_and_back(evidence):
    assert Evidence.from_json(evidence.to_json()) == evidence


def test_rates_are_those_of_metrics(evidence, model, curve, new):
    for name, one in (("chosen", model), ("plain", curve.models[0])):
        table = group_rates(
            new.y, one.predict(new.X), sensitive_features=new.sensitive, rates=["fnr", "precision"]
        )
        found = {
            (r.attribute, r.group, r.rate): (r.value, r.low, r.high, r.rows)
            for r in evidence.rates
            if r.where == "test" and r.model == name
        }
        for line in table.to_dict("records"):
            key = line["attribute"], line["group"], line["rate"]
            figures = line["value"], line["low"], line["high"], line["rows"]
            assert found[key] == pytest.approx(figures)


def test_rates_held_out_are_those_of_the_fairness_report(evidence, model):
    found = {
        (r.attribute, r.group): (r.value, r.rows) for r in evidence.rates if r.where == "held out"
    }
    rates = model.fairness_report_.rates
    assert len(found) == len(rates)
    for line in rates.to_dict("records"):
        group = line["group"].split("=")[1]
        assert found[line["by"], group] == pytest.approx((line["held out"], line["rows"]))


def test_verdicts_are_those_of_the_fairness_report(evidence, model, new):
    report = model.report_on(new.X, new.y, sensitive_features=new.sensitive)
    expected = [("held out", v) for v in report.verdicts]
    expected += [("test", v) for v in report.test_verdicts]
    assert [(f.where, f.status, f.value) for f in evidence.verdicts] == [
        (where, v.status, v.value) for where, v in expected
    ]


def test_gaps_are_those_of_metrics(evidence, model, new):
    (line,) = (
        g for g in evidence.gaps if (g.model, g.attribute, g.rate) == ("chosen", "sex", "fnr")
    )
    expected = gap(
        new.y, model.predict(new.X), rate="fnr", sensitive_features=new.sensitive["sex"]
    )
    assert (line.gap, line.gap_low, line.gap_high) == pytest.approx(
        (expected.value, expected.low, expected.high)
    )
    assert line.four_fifths is None
    assert {g.four_fifths for g in evidence.gaps if g.rate == "ppr"} <= {
        "passes",
        "passes on these rows, not certain",
        "fails on these rows, not certain",
        "fails",
    }


def test_crossed_groups_are_there_and_small_ones_flagged(evidence, model, new):
    crossed = [r for r in evidence.rates if r.crossed]
    assert {r.attribute for r in crossed} == {"sex, age_band"}
    for r in evidence.rates:
        assert r.small == (r.rows < 30)
    few = gather(model, new.X, new.y, sensitive_features=new.sensitive, min_rows=200)
    assert any(r.small for r in few.rates if r.crossed)
    assert any("fewer than 200" in limit for limit in few.limits)


def test_performance_of_both_and_their_difference(evidence, model, curve, new):
    found = {(p.model, p.measure): p.value for p in evidence.performance}
    chosen = accuracy_score(new.y, model.predict(new.X))
    plain = accuracy_score(new.y, curve.models[0].predict(new.X))
    assert found["chosen", "accuracy"] == pytest.approx(chosen)
    assert found["plain", "accuracy"] == pytest.approx(plain)
    assert found["difference", "accuracy"] == pytest.approx(chosen - plain)


def test_the_chosen_model_finds_its_place_on_the_curve(evidence, model, curve, new):
    tradeoff = evidence.tradeoff
    assert len(tradeoff.points) == len(curve.models) + 1
    own = tradeoff.points[tradeoff.chosen]
    assert own.tolerance == 0.05
    assert own.accuracy == pytest.approx(accuracy_score(new.y, model.predict(new.X)))
    tolerances = [p.tolerance for p in tradeoff.points]
    assert tolerances[0] is None
    assert tolerances[1:] == sorted(tolerances[1:], reverse=True)
    table = curve.on(new.X, new.y, sensitive_features=new.sensitive)
    others = [p for k, p in enumerate(tradeoff.points) if k != tradeoff.chosen]
    assert [p.gap for p in others] == pytest.approx(table["gap"].tolist())


def test_a_model_of_the_curve_is_not_listed_twice(curve, new):
    found = gather(
        curve.models[2], new.X, new.y, sensitive_features=new.sensitive, curve=curve
    ).tradeoff
    assert len(found.points) == len(curve.models)
    assert found.chosen == 2


def test_what_was_asked_and_of_which_data(evidence, model):
    assert evidence.caution == ""
    assert (evidence.data.negative, evidence.data.positive) == ("0", "1")
    assert evidence.asked.tolerance == 0.05
    assert evidence.asked.threshold == 0.5
    assert evidence.data.splits == {"training": 2_100, "held out": 900, "test": 2_000}
    assert [(c.name, c.feature) for c in evidence.data.sensitive] == [
        ("sex", False),
        ("age_band", False),
    ]
    assert evidence.model.engine == "lightgbm"
    assert evidence.model.options["n_estimators"] == 15
    assert evidence.model.trees == model.best_iteration_
    assert evidence.model.fairboost_version == fairboost.__version__


def test_groups_that_are_not_judged_are_not_compared(engine, loans, new):
    fair = FairGBMClassifier(
        engine, constraint="demographic_parity", tolerance=0.05, holdout=0.3, min_group_rows=200
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        fair.fit(loans.X, loans.y, sensitive_features=loans.sensitive["age_band"])
    found = gather(fair, new.X, new.y, sensitive_features=new.sensitive["age_band"])
    mine = [r for r in found.rates if (r.where, r.rate) == ("test", "ppr") and r.attribute]
    small = {r.group for r in mine if r.rows < 200}
    assert small == {"18-24"}
    assert {r.group for r in mine if r.small} == small
    (one,) = (g for g in found.gaps if g.rate == "ppr")
    assert small.isdisjoint({one.lowest_group, one.highest_group})
    assert "18-24" not in to_markdown(found).split("## In short")[1].split("\n\n")[1]


def test_what_was_asked_in_figures(evidence, engine, loans, new):
    assert evidence.asked.limits == (Limit("sex", "fnr", 0.05), Limit("age_band", "fnr", 0.05))
    several = [
        parity("fpr", 0.1, by=("age_band", "sex")),
        bound("fnr", 0.4, group={"sex": "female"}),
        bound("ppr", 0.6),
    ]
    fair = FairGBMClassifier(engine, constraint=several, holdout=0.3).fit(
        loans.X, loans.y, sensitive_features=loans.sensitive
    )
    found = gather(fair, new.X, new.y, sensitive_features=new.sensitive)
    assert found.asked.limits == (
        Limit("sex, age_band", "fpr", 0.1),
        Limit("sex", "fnr", 0.4, "female"),
        Limit("", "ppr", 0.6, "everyone"),
    )
    measured = {(r.attribute, r.group, r.rate) for r in found.rates if r.where == "test"}
    assert {("sex", "female", "fnr"), ("", "everyone", "ppr")} <= measured
    assert ("sex, age_band", "fpr") in {(g.attribute, g.rate) for g in found.gaps}
    text = to_markdown(found)
    assert "of female; at most 40.0% was asked for" in text or "of female; at most 40% was" in text
    assert "There is no model without the constraint to compare with" in text
    assert "There is no model without the constraint" not in to_markdown(evidence)


def test_a_gap_that_the_constraint_enlarged_is_said_with_figures(engine, loans, new):
    """Equal shares of positive decisions, where good applicants are not equally many."""
    groups, known = loans.sensitive["sex"], new.sensitive["sex"]
    fair = FairGBMClassifier(engine, constraint="demographic_parity", tolerance=0.02, holdout=0.3)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        fair.fit(loans.X, loans.y, sensitive_features=groups)
    plain = LGBMClassifier(**engine.get_params()).fit(loans.X, loans.y)
    found = gather(fair, new.X, new.y, sensitive_features=known, plain=plain)

    def apart(model):
        decided = model.predict(new.X) == 1
        rates = [new.y[decided & (known == sex)].mean() for sex in ("female", "male")]
        return abs(rates[0] - rates[1])

    now, before = apart(fair), apart(plain)
    assert now > before + 0.02
    gained, rest = to_markdown(found).split("## In short")[1].strip().split("\n\n")[:2]
    assert (
        f"the gap in precision by sex is {now:.3f}, without the constraint it was {before:.3f}"
    ) in rest
    # Who gains and who loses comes first, in people of a hundred.
    assert gained.startswith("By sex, the gap in predicted positive rate was 0.")
    for sex, more in (("female", "more"), ("male", "fewer")):
        shares = [100 * (m.predict(new.X) == 1)[known == sex].mean() for m in (fair, plain)]
        people = abs(round(shares[0] - shares[1]))
        assert f"{people} {more} ({sex}, now {shares[0]:.0f})" in gained


def test_decisions_that_say_nothing_are_told_before_the_verdicts(engine, loans, new):
    """Everyone is decided negatively, so that all rates are equal."""
    fair = FairGBMClassifier(
        engine, constraint="equal_opportunity", tolerance=0.05, operating_point=0.999, holdout=0.3
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        fair.fit(loans.X, loans.y, sensitive_features=loans.sensitive["sex"])
    found = gather(fair, new.X, new.y, sensitive_features=new.sensitive["sex"])
    assert found.caution.startswith("The model decides next to nothing")
    first = to_markdown(found).split("## In short")[1].strip()
    assert first.startswith("**✗ The model decides next to nothing")
    said = "met on the test rows, by decisions that say nothing"
    assert f"**✗ The constraint is {said}.**" in first
    assert "✓ met" not in to_markdown(found)


def test_rounds_are_thinned_and_training_rows_are_beside_them(evidence, model, loans):
    rounds = evidence.rounds
    assert rounds.rounds == tuple(range(1, 16))
    names = list(model.multipliers_.index)
    assert list(rounds.multipliers) == names
    np.testing.assert_allclose(
        rounds.multipliers[names[0]], model.trace_[f"multiplier: {names[0]}"]
    )
    table = violations_by_round(model, loans.X, loans.y, sensitive_features=loans.sensitive)
    assert rounds.train_rounds == tuple(table["round"])
    np.testing.assert_allclose(rounds.train_violations[names[1]], table[f"violation: {names[1]}"])


def test_operating_point_and_a_plain_engine(engine, loans, new):
    fair = FairGBMClassifier(
        engine,
        constraint="equal_opportunity",
        tolerance=0.05,
        holdout=0.3,
        operating_point=at_fpr(0.1),
        memberships="observed",
    ).fit(loans.X, loans.y, sensitive_features=loans.sensitive["sex"])
    plain = LGBMClassifier(**engine.get_params()).fit(loans.X, loans.y)
    found = gather(
        fair,
        new.X,
        new.y,
        sensitive_features=new.sensitive["sex"],
        plain=plain,
        favourable="negative",
    )
    assert "overall false positive rate is at most 0.1" in found.asked.operating_point
    assert found.asked.threshold == fair.threshold_
    (fpr,) = (
        r.value for r in found.rates if (r.model, r.attribute, r.rate) == ("plain", "", "fpr")
    )
    assert 0.08 < fpr <= 0.1
    assert any("placed on the test rows" in limit for limit in found.limits)
    assert {g.rate for g in found.gaps if g.four_fifths} == {"pnr"}
    for roc in found.roc:
        mine = {
            r.rate: r.value
            for r in found.rates
            if (r.where, r.model, r.attribute, r.group)
            == ("test", "chosen", roc.attribute, roc.group)
        }
        assert (roc.at_fpr, 1 - roc.at_tpr) == pytest.approx((mine["fpr"], mine["fnr"]))


def test_another_engine(loans, new):
    xgboost = pytest.importorskip("xgboost", reason="an engine of its own")
    stock = xgboost.XGBClassifier(n_estimators=8, max_depth=3, n_jobs=1)
    known, unknown = (table.X.select_dtypes("number") for table in (loans, new))
    groups = loans.sensitive["sex"]
    fair = FairGBMClassifier(stock, constraint="equal_opportunity", holdout=0.3)
    fair.fit(known, loans.y, sensitive_features=groups)
    train = (known, loans.y, groups)
    found = gather(
        fair, unknown, new.y, sensitive_features=new.sensitive["sex"], train=train,
        plain=stock.fit(known, loans.y),
    )  # fmt: skip
    assert (found.model.engine, found.model.engine_version) == ("xgboost", xgboost.__version__)
    assert found.rounds.train_rounds
    assert Evidence.from_json(found.to_json()) == found


def test_a_loaded_model_has_its_test_rows(model, new, tmp_path):
    model.save(tmp_path / "model.json")
    again = fairboost.load(tmp_path / "model.json")
    found = gather(again, new.X, new.y, sensitive_features=new.sensitive)
    assert {f.where for f in found.verdicts} == {"test"}
    assert "What was met" in to_markdown(found)


def test_without_constraint_it_is_an_audit(engine, loans, new):
    plain = FairGBMClassifier(engine, constraint=None).fit(loans.X, loans.y)
    found = gather(plain, new.X, new.y, sensitive_features=new.sensitive)
    assert found.verdicts == ()
    assert found.rounds is None
    text = to_markdown(found)
    assert "No constraint was asked for" in text
    assert "## What was met" not in text
    assert "How training went" not in to_html(found)


def test_weights_and_missing_groups(model, new):
    sensitive = new.sensitive.assign(sex=new.sensitive["sex"].where(np.arange(2_000) % 10 > 0))
    weight = np.linspace(0.5, 2, 2_000)
    found = gather(model, new.X, new.y, sensitive_features=sensitive, sample_weight=weight)
    (sex,) = (c for c in found.data.sensitive if c.name == "sex")
    assert sex.missing == 200
    assert any("sex (200 rows)" in limit for limit in found.limits)
    (line,) = (p for p in found.performance if (p.model, p.measure) == ("chosen", "accuracy"))
    expected = accuracy_score(new.y, model.predict(new.X), sample_weight=weight)
    assert line.value == pytest.approx(expected)


def test_crossings_of_many_cells_are_left_out_and_named(model, new):
    k = np.arange(2_000)
    sensitive = new.sensitive.assign(a=k % 40, b=k // 40 % 5)
    found = gather(model, new.X, new.y, sensitive_features=sensitive)
    crossed = {r.attribute for r in found.rates if r.crossed}
    assert crossed == {"sex, age_band", "sex, a", "sex, b", "age_band, b"}
    (said,) = (limit for limit in found.limits if "not crossed" in limit)
    assert "a x b (200 cells)" in said


def test_columns_that_no_constraint_is_about_are_shown_and_not_judged(model, curve, evidence, new):
    sensitive = new.sensitive.assign(half=np.arange(2_000) % 2)
    found = gather(model, new.X, new.y, sensitive_features=sensitive, curve=curve)
    assert found.verdicts == evidence.verdicts
    assert [p.gap for p in found.tradeoff.points] == [p.gap for p in evidence.tradeoff.points]
    assert {r.attribute for r in found.rates} >= {"half", "sex, half"}


def test_columns_that_a_constraint_is_about_are_needed(model, new):
    with pytest.raises(InvalidInputError, match=r"on the sensitive columns .*pass \['age_band'\]"):
        gather(model, new.X, new.y, sensitive_features=new.sensitive[["sex"]])


def test_names_are_never_taken_apart(engine, loans, new):
    """A column may be called as a crossing is, as everyone is, and its groups as columns are."""
    names = {"sex": "sex, as given", "age_band": "everyone"}
    model = FairGBMClassifier(engine, constraint="equal_opportunity", tolerance=0.1)
    renamed = loans.sensitive.rename(columns=names).astype(object)
    groups = {"sex, as given": {"female": "everyone=F, x", "male": "M"}}
    model.fit(loans.X, loans.y, sensitive_features=renamed.replace(groups))
    sensitive = new.sensitive.rename(columns=names).astype(object).replace(groups)
    found = gather(model, new.X, new.y, sensitive_features=sensitive.assign(more="a"))
    held = [r for r in found.rates if r.where == "held out"]
    by_column = {name: set(sensitive[name].dropna()) for name in names.values()}
    assert {(r.attribute, r.group) for r in held} == {
        (name, group) for name, those in by_column.items() for group in those
    }
    assert not any(r.crossed for r in held)
    assert not any("more" in asked for asked in found.asked.constraints)


def test_a_loaded_model_knows_its_columns(model, new, tmp_path):
    model.save(tmp_path / "model.json")
    sensitive = new.sensitive.assign(half=np.arange(2_000) % 2)
    loaded = fairboost.load(tmp_path / "model.json")
    found = gather(loaded, new.X, new.y, sensitive_features=sensitive)
    assert loaded.fairness_report_.columns == ("sex", "age_band")
    assert len(found.verdicts) == len(model.fairness_report_.verdicts)
    assert not any("half" in f.constraint for f in found.verdicts)


def test_no_groups(model, new):
    with pytest.raises(InvalidInputError, match="no groups to report on"):
        gather(model, new.X, new.y, sensitive_features=None)


class TestViolationsByRound:
    def test_held_out_set_gives_the_trace(self, engine, loans, new):
        fair = FairGBMClassifier(
            engine, constraint="equal_opportunity", iterate="last", memberships="observed"
        ).fit(
            loans.X,
            loans.y,
            sensitive_features=loans.sensitive["sex"],
            holdout_set=(new.X, new.y, new.sensitive["sex"]),
        )
        table = violations_by_round(
            fair, new.X, new.y, sensitive_features=new.sensitive["sex"], points=100
        )
        trace = fair.trace_.set_index("round").loc[table["round"], table.columns[1:]]
        pd.testing.assert_frame_equal(table.set_index("round"), trace)

    def test_moving_threshold(self, engine, loans, new):
        fair = FairGBMClassifier(
            engine,
            constraint="equal_opportunity",
            operating_point=at_fpr(0.2),
            iterate="last",
            memberships="observed",
        ).fit(
            loans.X,
            loans.y,
            sensitive_features=loans.sensitive["sex"],
            holdout_set=(new.X, new.y, new.sensitive["sex"]),
        )
        table = violations_by_round(
            fair, new.X, new.y, sensitive_features=new.sensitive["sex"], points=4
        )
        trace = fair.trace_.set_index("round").loc[table["round"], table.columns[1:]]
        np.testing.assert_allclose(table.set_index("round"), trace, atol=2e-3)

    def test_stage_on_a_frozen_model(self, engine, loans, new):
        base = LGBMClassifier(**engine.get_params()).fit(loans.X, loans.y)
        fair = FairGBMClassifier(
            FrozenEstimator(base),
            constraint="equal_opportunity",
            iterate="last",
            memberships="observed",
        ).fit(
            loans.X,
            loans.y,
            sensitive_features=loans.sensitive["sex"],
            holdout_set=(new.X, new.y, new.sensitive["sex"]),
        )
        table = violations_by_round(
            fair, new.X, new.y, sensitive_features=new.sensitive["sex"], points=4
        )
        trace = fair.trace_.set_index("round").loc[table["round"], table.columns[1:]]
        pd.testing.assert_frame_equal(table.set_index("round"), trace)

    def test_other_columns_are_refused(self, model, loans):
        with pytest.raises(InvalidInputError, match=r"give 4 inequalities, training had 12"):
            violations_by_round(model, loans.X, loans.y, sensitive_features=loans.sensitive["sex"])

    def test_average_has_no_rounds(self, engine, loans):
        fair = FairGBMClassifier(engine, iterate="average", holdout=0.3).fit(
            loans.X, loans.y, sensitive_features=loans.sensitive["sex"]
        )
        with pytest.raises(InvalidInputError, match="keeps no model of single rounds"):
            violations_by_round(fair, loans.X, loans.y, sensitive_features=loans.sensitive["sex"])


def test_the_positive_label_is_that_of_the_model_and_of_the_plain_one(engine, loans, new):
    """Whatever labels are called: the same figures."""
    found = []
    groups, sex = (rows.sensitive["sex"].to_numpy() for rows in (loans, new))
    for words, label in (((0, 1), None), (("turned down", "granted"), "granted")):
        y, truth = (np.asarray(words)[np.asarray(rows.y)] for rows in (loans, new))
        model = FairGBMClassifier(
            engine, constraint="equal_opportunity", tolerance=0.5, holdout=0.3, pos_label=label
        ).fit(loans.X, y, sensitive_features=groups)
        plain = clone(engine).fit(loans.X, y)
        found.append(gather(model, new.X, truth, sensitive_features=sex, plain=plain))
    numbers, named = found
    assert named.data.positive == "granted"
    assert {p.model for p in named.performance} == {"chosen", "plain", "difference"}
    for p, q in zip(named.performance, numbers.performance, strict=True):
        assert (p.model, p.measure) == (q.model, q.measure)
        assert p.value == pytest.approx(q.value, abs=0.01)  # a plain engine's trees may tie
