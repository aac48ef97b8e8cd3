"""Reports on decisions among three classes or more: figures of audits, no word of two labels."""

from __future__ import annotations

import re

import numpy as np
import pandas as pd
import pytest
from lightgbm import LGBMClassifier
from sklearn.metrics import accuracy_score, log_loss

import fairboost
from fairboost import FairGBMClassifier, bound, parity
from fairboost.exceptions import InvalidInputError
from fairboost.metrics import audit_classes
from fairboost.report import Evidence, gather, to_html, to_markdown
from fairboost.report.blocks import Folded
from fairboost.report.evidence import Limit
from fairboost.report.layout import lay_out
from tests.evidence import make_class_evidence

OF_TWO = re.compile(
    r"positive|negative|approved|threshold|\bROC\b|\bAUC\b|four-fifths|favourable|\b[ft][np]r\b",
    re.IGNORECASE,
)
"""What has a meaning for two labels alone."""

BANDS = np.array(["high", "low", "middle"])
COSTS = [[0, 4, 1], [1, 0, 1], [1, 2, 0]]


def draw(n, seed):
    """Three bands of income; men have more of a feature that matters."""
    rng = np.random.default_rng(seed)
    sex, region = rng.choice(["F", "M"], n), rng.choice(["north", "south"], n)
    X = rng.normal(size=(n, 3)) + np.outer(sex == "M", [0.8, 0.0, 1.0])
    z = X[:, 0] + X[:, 1] + rng.normal(size=n)
    bands = np.array(["low", "middle", "high"])[np.searchsorted([-0.3, 1.0], z)]
    return X, bands, pd.DataFrame({"sex": sex, "region": region})


def make_engine():
    return LGBMClassifier(n_estimators=15, num_leaves=7, verbose=-1, n_jobs=1)


@pytest.fixture(scope="module")
def rows():
    return draw(2_500, 0)


@pytest.fixture(scope="module")
def new():
    return draw(2_000, 1)


def fit(rows, by=("sex",), **asked):
    X, y, groups = rows
    options = {"memberships": "observed", "random_state": 0, "holdout": 0.3, **asked}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("warnings.warn", lambda *_, **__: None)
        model = FairGBMClassifier(make_engine(), **options)
        return model.fit(X, y, sensitive_features=groups[list(by)])


@pytest.fixture(scope="module")
def model(rows):
    return fit(rows, constraint="equalized_odds", tolerance=0.1)


@pytest.fixture(scope="module")
def plain(rows):
    return make_engine().fit(rows[0], rows[1])


def gathered(model, new, **options):
    X, y, groups = new
    return gather(model, X, y, sensitive_features=groups, **options)


@pytest.fixture(scope="module")
def evidence(model, plain, new):
    return gathered(model, new, plain=plain, label="band")


def test_it_goes_to_json_and_back(evidence):
    again = Evidence.from_json(evidence.to_json())
    assert again == evidence
    assert to_markdown(again) == to_markdown(evidence)
    assert "<svg" in to_html(again)  # what was read can be drawn
    assert (evidence.task, evidence.data.classes) == ("classes", tuple(BANDS))
    assert evidence.asked.threshold is None
    assert evidence.model.threshold is None


def test_figures_are_those_of_the_audit(evidence, model, plain, new):
    X, y, groups = new
    for name, one in (("chosen", model), ("plain", plain)):
        found = audit_classes(y, one.predict(X), sensitive_features=groups)
        shown = {
            (r.attribute, r.group, r.rate): (r.value, r.low, r.high, r.rows)
            for r in evidence.rates
            if (r.where, r.model, r.crossed) == ("test", name, False)
        }
        titles = {
            "accuracy": "accuracy",
            "given": "share given {given!r}",
            "recall": "recall of {given!r}",
            "confused": "share of {label!r} given {given!r}",
        }
        for line in found.rates.to_dict("records"):
            key = line["attribute"], line["group"], titles[line["rate"]].format(**line)
            if line["rate"] == "confused" and line["attribute"] == "region":
                assert key not in shown  # nobody asked about it: it is in the matrices
                continue
            expected = [line[column] for column in ("value", "low", "high", "rows")]
            assert shown[key] == pytest.approx(expected)
        gaps = {(g.attribute, g.rate): g for g in evidence.gaps if g.model == name}
        recall = found.gaps.query("rate == 'recall' and attribute == 'sex'").iloc[0]
        gap = gaps["sex", f"recall of {recall['label']!r}"]
        assert (gap.gap, gap.gap_low, gap.gap_high) == pytest.approx(
            tuple(recall[["gap", "gap_low", "gap_high"]])
        )
        assert gap.four_fifths is None


def test_matrices_are_counts_of_decisions(evidence, model, new):
    X, y, groups = new
    given = model.predict(X)
    for line in evidence.confusion:
        own = y == line.actual
        if line.attribute:
            own &= (groups[line.attribute] == line.group).to_numpy()
        assert line.rows == own.sum()
        assert line.shares == pytest.approx([np.mean(given[own] == band) for band in BANDS])
        assert sum(line.shares) == pytest.approx(1.0)
        assert all(a <= b <= c for a, b, c in zip(line.low, line.shares, line.high, strict=True))
    assert len(evidence.confusion) == 3 * (1 + 2 + 2)


def test_verdicts_are_those_of_the_model_and_told_as_one(evidence, model, new):
    X, y, groups = new
    report = model.report_on(X, y, sensitive_features=groups[["sex"]])
    expected = [("held out", v) for v in report.verdicts]
    expected += [("test", v) for v in report.test_verdicts]
    assert len(expected) == 18
    for found, (where, verdict) in zip(evidence.verdicts, expected, strict=True):
        assert (found.where, found.constraint, found.status) == (
            where, verdict.constraint, verdict.status,
        )  # fmt: skip
        assert found.family == "confusion matrix (9 shares) equal by sex, tolerance 0.1"
    sections = {s.title: s for s in lay_out(evidence)}
    (bullets,) = [b for b in sections["What was asked"].blocks if hasattr(b, "items")][:1]
    assert list(bullets.items) == [evidence.verdicts[0].family]
    first, folded, _ = sections["What was met"].blocks
    met = sum(v.status == "met" for v in report.test_verdicts)
    assert first.rows[1][2].text.startswith(f"{met} of 9 met")
    largest = max(report.test_verdicts, key=lambda v: v.value)
    assert first.rows[1][3].key == pytest.approx(largest.value)
    assert largest.constraint.partition(" equal by ")[0] in first.rows[1][3].text
    assert isinstance(folded, Folded)
    assert len(folded.blocks[0].rows) == 18
    told = next(line for line in to_markdown(evidence).split("\n") if "(9 shares)" in line)
    assert f"{met} of 9 met" in told
    assert "The largest gap is" in told


def test_rates_of_the_rows_held_out_are_shown(evidence, model):
    held_out = {(r.group, r.rate): r.value for r in evidence.rates if r.where == "held out"}
    table = model.fairness_report_.rates.set_index(["group", "rate"])
    assert held_out["F", "recall of 'low'"] == table.at[("sex=F", "recall[low]"), "held out"]
    assert len(held_out) == 2 * 9


def test_costs_are_paired_with_the_plain_engine(evidence, model, plain, new):
    X, y, _ = new
    shown = {(p.model, p.measure): p for p in evidence.performance}
    for name, one in (("chosen", model), ("plain", plain)):
        accuracy = accuracy_score(y, one.predict(X))
        assert shown[name, "accuracy"].value == pytest.approx(accuracy)
        loss = log_loss(y, one.predict_proba(X), labels=BANDS)
        assert shown[name, "log loss"].value == pytest.approx(loss)
    right = [(one.predict(X) == y).astype(float) for one in (model, plain)]
    apart = right[0] - right[1]
    paired = shown["difference", "accuracy"]
    assert paired.value == pytest.approx(apart.mean())
    two_more = [*apart, 1.0, 0.0]  # of which one differs, to either side by one half
    middle, square = apart.sum() / len(two_more), np.square(two_more).mean()
    deviation = np.sqrt((square - middle**2) / len(two_more))
    assert paired.high - paired.low == pytest.approx(2 * 1.959964 * deviation)
    page = to_markdown(evidence)
    costs = page.split("What it costs, on the test rows:")[1].split("## What was asked")[0]
    assert all(f"- {m} " in costs for m in ("accuracy", "log loss"))
    assert "Brier" not in costs


def test_no_word_is_of_two_labels(evidence):
    for page in (evidence, make_class_evidence()):
        assert not set(OF_TWO.findall(to_markdown(page)))


def test_least_cost_has_its_table_and_its_measure(rows, new, plain):
    model = fit(rows, constraint="equal_opportunity", tolerance=0.1, costs=COSTS)
    found = gathered(model, new, plain=plain)
    assert found.asked.costs == tuple(map(tuple, np.array(COSTS, float).tolist()))
    X, y, _ = new
    at = np.searchsorted(BANDS, y), np.searchsorted(BANDS, model.predict(X))
    (cost,) = [p for p in found.performance if (p.model, p.measure) == ("chosen", "mean cost")]
    assert cost.value == pytest.approx(np.array(COSTS)[at].mean())
    page = to_markdown(found)
    assert "the class of least expected cost is given" in page
    assert re.search(r"\| high +\| 0 +\| 4 +\| 1 ", page)
    # The plain engine decides by the same costs.
    by_cost = BANDS[(plain.predict_proba(X) @ np.array(COSTS)).argmin(axis=1)]
    (beside,) = [p for p in found.performance if (p.model, p.measure) == ("plain", "accuracy")]
    assert beside.value == pytest.approx(np.mean(by_cost == y))


def test_what_was_asked_is_in_figures(rows, new, evidence):
    assert Limit("sex", "recall of 'low'", 0.1) in evidence.asked.limits
    assert Limit("sex", "share of 'low' given 'high'", 0.1) in evidence.asked.limits
    model = fit(rows, constraint=[bound("given", 0.3, of="low")])
    found = gathered(model, new)
    assert found.asked.limits == (Limit("", "share given 'low'", 0.3, "everyone"),)
    assert "The share given 'low' is" in to_markdown(found)


def test_equal_accuracy_shows_the_rows_held_out(rows, new):
    found = gathered(fit(rows, constraint="equal_accuracy", tolerance=0.1), new)
    assert {r.group for r in found.rates if r.where == "held out"} == {"F", "M"}
    assert all(not f.family for f in found.verdicts)


def test_a_model_without_constraints_is_audited(rows, new):
    found = gathered(fit(rows, constraint=None), new)
    assert not found.verdicts
    assert "this is an audit of decisions as they are" in to_markdown(found)


def test_decisions_that_say_nothing_are_called_so(rows, new):
    X, y, groups = rows
    rng = np.random.default_rng(0)
    noise = fit((rng.normal(size=X.shape), y, groups), constraint="equal_accuracy", tolerance=0.2)
    found = gathered(noise, (rng.normal(size=new[0].shape), *new[1:]))
    assert "decisions that ignore the features" in found.caution
    costs = [[0, 99, 99], [1, 0, 1], [1, 1, 0]]
    same = fit(rows, constraint="equal_accuracy", tolerance=0.9, costs=costs)
    assert "nearly everyone is given the same class" in gathered(same, new).caution


def test_weights_count(model, new, plain):
    X, y, groups = new
    weight = np.where(groups["sex"] == "F", 3.0, 1.0)
    found = gathered(model, new, sample_weight=weight)
    (accuracy,) = [p.value for p in found.performance if p.measure == "accuracy"]
    assert accuracy == pytest.approx(np.average(model.predict(X) == y, weights=weight))


def test_labels_that_are_numbers_and_an_engine_of_codes(rows, new, plain):
    numbered = [(X, np.searchsorted(BANDS, y) + 1, groups) for X, y, groups in (rows, new)]
    model = fit(numbered[0], constraint="equal_opportunity", tolerance=0.1)
    codes = make_engine().fit(rows[0], np.searchsorted(BANDS, rows[1]))
    found = gathered(model, numbered[1], plain=codes)
    assert found.data.classes == ("1", "2", "3")
    shown = {(p.model, p.measure): p.value for p in found.performance}
    assert shown["plain", "accuracy"] == pytest.approx(np.mean(plain.predict(new[0]) == new[1]))
    other = make_engine().fit(rows[0], np.where(rows[1] == "low", "no", "yes"))
    with pytest.raises(InvalidInputError, match="plain gives the classes"):
        gathered(model, numbered[1], plain=other)


def test_a_loaded_model_has_the_same_figures(model, new, evidence, plain, tmp_path):
    model.save(tmp_path / "model.fair")
    found = gathered(fairboost.load(tmp_path / "model.fair"), new, plain=plain, label="band")
    assert found.confusion == evidence.confusion
    assert [f for f in found.verdicts if f.where == "test"] == [
        f for f in evidence.verdicts if f.where == "test"
    ]


def test_what_is_for_two_labels_is_refused_by_name(model, new, rows):
    with pytest.raises(InvalidInputError, match="favourable='negative' says which of two"):
        gathered(model, new, favourable="negative")
    with pytest.raises(InvalidInputError, match="gives one of 3 classes; leave train out"):
        gathered(model, new, train=rows)


def test_many_classes_have_a_line_for_each_share():
    classes = tuple(f"c{k:02d}" for k in range(12))
    page = to_markdown(make_class_evidence(classes=classes))
    assert "without shares below 0.02" in page
    assert "| given c00" not in page


def test_alternatives_are_by_accuracy_and_show_recalls(rows, new, model):
    X, y, groups = rows
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("warnings.warn", lambda *_, **__: None)
        curve = fairboost.tradeoff_curve(
            make_engine(), X, y, sensitive_features=groups[["sex"]], constraint="equalized_odds",
            tolerances=[0.2],
        )  # fmt: skip
    found = gathered(model, new, curve=curve)
    points = found.tradeoff.points
    assert points[0].name == "no constraint"
    assert points[found.tradeoff.chosen].name.endswith("trained by itself")
    assert points[0].accuracy == pytest.approx(np.mean(curve.models[0].predict(new[0]) == new[1]))
    shown = list(dict.fromkeys(r.rate for r in points[0].rates))
    assert shown == ["accuracy", *(f"recall of '{band}'" for band in BANDS)]
    assert any(p.model == "plain" for p in found.performance)
    assert "Alternatives considered" in to_html(found)


def test_crossed_groups_that_were_asked_about_are_compared(rows, new):
    asked = parity("confused", 0.3, of=("low", "high"), by=("sex", "region"))
    found = gathered(fit(rows, by=("sex", "region"), constraint=[asked]), new)
    rate = "share of 'low' given 'high'"
    assert found.asked.limits == (Limit("sex, region", rate, 0.3),)
    groups = {r.group for r in found.rates if (r.attribute, r.rate) == ("sex, region", rate)}
    assert groups == {"F, north", "F, south", "M, north", "M, south"}
    assert [g.rate for g in found.gaps if g.attribute == "sex, region"].count(rate) == 1
    assert "By sex, region: the share of 'low' given 'high' is" in to_markdown(found)
