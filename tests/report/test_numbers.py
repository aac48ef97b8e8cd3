"""Reports on a number that is predicted: figures of audits, and no word of decisions."""

from __future__ import annotations

import re

import numpy as np
import pandas as pd
import pytest
from lightgbm import LGBMRegressor

import fairboost
from fairboost import FairGBMRegressor, bound, parity, tradeoff_curve
from fairboost.exceptions import InvalidInputError
from fairboost.metrics import audit_numbers
from fairboost.report import Evidence, gather, to_html, to_markdown
from fairboost.report.evidence import Limit
from fairboost.report.layout import lay_out
from tests.evidence import make_number_evidence

OF_DECISIONS = re.compile(
    r"\bdeci[ds](?!ile)\w*|\brates?\b|\bROC\b|threshold|accurac|positive|four-fifths|probabilit",
    re.IGNORECASE,
)
"""What has no meaning where a number is predicted."""


def draw(n, seed):
    """Claims with exposures; men drive more powerful cars."""
    rng = np.random.default_rng(seed)
    sex, region = rng.choice(["F", "M"], n), rng.choice(["north", "south"], n)
    X = pd.DataFrame({"age": rng.integers(18, 80, n), "power": rng.normal(size=n) + (sex == "M")})
    years = rng.uniform(0.2, 1.0, n)
    claims = rng.poisson(np.exp(-0.5 + 0.3 * X["power"] + 0.3 * (X["age"] < 25)) * years)
    return X, claims, pd.DataFrame({"sex": sex, "region": region}), years


@pytest.fixture(scope="module")
def rows():
    return draw(3_000, 0)


@pytest.fixture(scope="module")
def new():
    return draw(2_000, 1)


@pytest.fixture(scope="module")
def engine():
    return LGBMRegressor(
        objective="poisson", n_estimators=20, num_leaves=7, learning_rate=0.2, verbose=-1, n_jobs=1
    )


def fit(engine, rows, **asked):
    X, y, groups, years = rows
    model = FairGBMRegressor(engine, memberships="observed", random_state=0, **asked)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("warnings.warn", lambda *_, **__: None)
        return model.fit(X, y, sensitive_features=groups, exposure=years)


@pytest.fixture(scope="module")
def plain(engine, rows):
    X, y, _, years = rows
    return FairGBMRegressor(engine, constraint=None).fit(X, y, exposure=years)


@pytest.fixture(scope="module")
def model(engine, rows):
    return fit(engine, rows, constraint="calibrated", tolerance=0.05)


def gathered(model, new, **options):
    X, y, groups, years = new
    return gather(model, X, y, sensitive_features=groups, exposure=years, **options)


@pytest.fixture(scope="module")
def evidence(model, plain, new):
    return gathered(model, new, plain=plain, label="claims", exposure_name="years")


def test_it_goes_to_json_and_back(evidence):
    again = Evidence.from_json(evidence.to_json())
    assert again == evidence
    assert to_markdown(again) == to_markdown(evidence)
    assert "<svg" in to_html(again)  # what was read can be drawn


def test_figures_are_those_of_the_audit(evidence, model, plain, new):
    X, y, groups, years = new
    for name, one in (("chosen", model), ("plain", plain)):
        found = audit_numbers(
            y, one.predict(X, exposure=years), sensitive_features=groups, exposure=years
        )
        shown = {
            (r.attribute, r.group, r.rate): (r.value, r.low, r.high)
            for r in evidence.rates
            if (r.where, r.model, r.crossed) == ("test", name, False)
        }
        columns = {"prediction": "mean_prediction", "A/E": "a_over_e", "loss": "mean_loss"}
        for line in found.by_group.to_dict("records"):
            for rate, column in columns.items():
                expected = [line[f"{column}{end}"] for end in ("", "_low", "_high")]
                assert shown[line["attribute"], line["group"], rate] == pytest.approx(expected)
        assert ("", "everyone", "distance") not in shown
        for line in found.gaps.query("figure == 'a_over_e'").to_dict("records"):
            (gap,) = (
                g
                for g in evidence.gaps
                if (g.model, g.attribute, g.rate) == (name, line["attribute"], "A/E")
            )
            assert (gap.gap, gap.gap_high) == pytest.approx((line["value"], line["high"]))


def test_verdicts_are_those_of_the_model(evidence, model, new):
    X, y, groups, years = new
    report = model.report_on(X, y, sensitive_features=groups, exposure=years)
    expected = [("held out", v) for v in report.verdicts] + [
        ("test", v) for v in report.test_verdicts
    ]
    assert [(f.where, f.status, f.value) for f in evidence.verdicts] == [
        (where, v.status, v.value) for where, v in expected
    ]


def test_deciles_add_up_to_the_group(evidence):
    lines = {(d.attribute, d.group, d.decile): d for d in evidence.deciles}
    known = {d.decile for d in evidence.deciles} - {0}
    assert len(known) > 7
    for (attribute, group, decile), whole in lines.items():
        if decile == 0:
            parts = [lines[attribute, group, k] for k in known]
            for name in ("rows", "exposure", "expected", "actual"):
                total = sum(getattr(part, name) for part in parts)
                assert getattr(whole, name) == pytest.approx(total)
            assert whole.ratio == pytest.approx(whole.actual / whole.expected)


def test_deciles_that_nobody_is_in_are_left_out(rows, new):
    X, y, _, years = rows
    stump = LGBMRegressor(objective="poisson", n_estimators=1, num_leaves=2, verbose=-1)
    model = FairGBMRegressor(stump, constraint=None).fit(X, y, exposure=years)
    found = gathered(model, new)  # which predicts two numbers
    everyone = [d for d in found.deciles if not d.attribute]
    assert len(everyone) == 3
    assert sum(d.rows for d in everyone if d.decile) == everyone[0].rows
    assert "deciles that are missing have none" in to_markdown(found)


def test_distributions_rise_to_one(evidence, model, new):
    X, _, groups, years = new
    curves = {(d.attribute, d.group): d for d in evidence.distributions}
    assert ("", "everyone") in curves
    female = curves["sex", "F"]
    assert list(female.values) == sorted(female.values)
    assert female.shares[-1] == pytest.approx(1.0)
    mine = (groups["sex"] == "F").to_numpy()
    predicted, weight = model.predict(X)[mine], years[mine]
    for value, share in zip(female.values[::10], female.shares[::10], strict=True):
        below = predicted <= value * (1 + 1e-10)  # per unit of exposure, which rounds
        assert weight[below].sum() / weight.sum() == pytest.approx(share)


def test_costs_are_paired_with_the_plain_engine(evidence, model, plain, new):
    X, y, _, years = new
    a, b = (one.predict(X, exposure=years) for one in (model, plain))
    by_row = 2 * (a - b - y * np.log(a / b))  # the difference of two Poisson deviances
    (cost,) = (
        p
        for p in evidence.performance
        if (p.model, p.measure) == ("difference", "Poisson deviance")
    )
    assert cost.value == pytest.approx(by_row.sum() / years.sum())
    assert cost.low < cost.value < cost.high
    costs = to_markdown(evidence).split("What it costs, on the test rows:")[1]
    assert costs.strip().startswith("- Poisson deviance ")


def test_a_figure_has_one_interval_on_the_page(evidence):
    (shown,) = (
        r
        for r in evidence.rates
        if (r.where, r.model, r.attribute, r.rate) == ("test", "chosen", "", "loss")
    )
    (again,) = (
        p for p in evidence.performance if (p.model, p.measure) == ("chosen", "Poisson deviance")
    )
    assert (again.value, again.low, again.high) == (shown.value, shown.low, shown.high)


def test_no_word_is_of_decisions(evidence):
    text = to_markdown(evidence).split("**Options**")[0]
    text = text.replace("learning_rate", "")
    assert OF_DECISIONS.findall(text) == []
    titles = [section.title for section in lay_out(evidence)]
    assert "Scores by group" not in titles
    assert {"Figures by group", "Actual and expected", "Predictions by group"} <= set(titles)


def test_what_was_asked_is_in_figures(engine, rows, new, model, evidence):
    assert Limit("sex", "A/E", 0.05, "F", 1.0) in evidence.asked.limits
    assert "within 1 ± 0.05 was asked for" in to_markdown(evidence)
    everyone = {r.rate: r.value for r in evidence.rates if r.where == "test" and not r.attribute}
    asked = {
        "gap": (parity("prediction", 0.2, by="sex"), Limit("sex", "prediction", 0.2)),
        "bound": (bound("loss", 9.0), Limit("", "loss", 9.0, "everyone")),
    }
    for constraint, limit in asked.values():
        found = gathered(fit(engine, rows, constraint=constraint), new)
        assert found.asked.limits == (limit,)
    relative = fit(engine, rows, constraint=parity("prediction", 0.1, by="sex", relative=True))
    (limit,) = (found := gathered(relative, new)).asked.limits
    mean = next(r.value for r in found.rates if r.where == "test" and r.rate == "prediction")
    assert limit.at_most == pytest.approx(0.1 * mean)
    assert everyone["actual"] == pytest.approx(
        next(r.value for r in found.rates if r.where == "test" and r.rate == "actual")
    )


def test_a_bound_on_every_group_is_told_by_the_largest_loss(engine, rows, new):
    model = fit(engine, rows, constraint="bounded_group_loss", tolerance=2.0)
    found = gathered(model, new)
    for f in (f for f in found.verdicts if f.where == "test"):
        column = "sex" if "sex" in f.constraint else "region"
        assert f.constraint == f"mean loss of every group by {column} at most 2"
        losses = [
            r.value
            for r in found.rates
            if (r.where, r.attribute, r.rate) == ("test", column, "loss")
        ]
        assert f.value == pytest.approx(max(losses))
        assert f.limit == 2.0
    assert found.asked.constraints == tuple(f.constraint for f in found.verdicts[:2])
    assert "at most 2 was asked for" in to_markdown(found)


def test_without_a_plain_model_the_cost_is_not_known(model, new):
    text = to_markdown(gathered(model, new))
    assert "What it costs" not in text
    assert "There is no model without the constraint" in text


def test_a_model_without_constraints_is_audited(plain, new):
    text = to_markdown(gathered(plain, new))
    assert "this is an audit of predictions as they are" in text
    assert "By sex: the mean prediction is" in text


def test_predictions_that_say_nothing_are_called_so(rows, new, evidence):
    assert not evidence.caution
    X, y, _, years = rows
    constant = LGBMRegressor(
        objective="poisson", n_estimators=1, learning_rate=1e-9, num_leaves=2, verbose=-1
    )
    blind = FairGBMRegressor(constant, constraint=None).fit(X, y, exposure=years)
    found = gathered(blind, new)
    assert "does not certainly predict better" in found.caution
    assert f"✗ {found.caution}" in to_markdown(found)


def test_weights_count_in_every_figure(engine, rows, new):
    X, y, groups, _ = rows
    model = fit(engine, (X, y, groups, None), constraint="equal_means", tolerance=0.3)
    new_X, new_y, new_groups, _ = new
    n = len(new_y)
    repeated = np.repeat(np.arange(n), 1 + np.arange(n) % 2)
    weighed = gather(
        model, new_X, new_y, sensitive_features=new_groups, sample_weight=1 + np.arange(n) % 2,
        exposure=np.ones(n),
    )  # fmt: skip
    again = gather(
        model, new_X.iloc[repeated].reset_index(drop=True), new_y[repeated],
        sensitive_features=new_groups.iloc[repeated].reset_index(drop=True),
        exposure=np.ones(len(repeated)),
    )  # fmt: skip
    for name in ("rates", "deciles", "performance"):
        pairs = zip(getattr(weighed, name), getattr(again, name), strict=True)
        for one, other in pairs:
            figure = "ratio" if name == "deciles" else "value"
            assert getattr(one, figure) == pytest.approx(getattr(other, figure))


def test_alternatives_are_by_loss(engine, rows, new):
    X, y, groups, years = rows
    curve = tradeoff_curve(
        engine, X, y, sensitive_features=groups[["sex"]], constraint="equal_means", tolerances=3,
        exposure=years,
    )  # fmt: skip
    chosen = curve.models[2]
    new_X, new_y, new_groups, new_years = new
    found = gather(
        chosen, new_X, new_y, sensitive_features=new_groups[["sex"]], exposure=new_years,
        curve=curve,
    )  # fmt: skip
    table = curve.on(new_X, new_y, sensitive_features=new_groups[["sex"]], exposure=new_years)
    assert [p.loss for p in found.tradeoff.points] == pytest.approx(table["loss"].tolist())
    assert {p.accuracy for p in found.tradeoff.points} == {None}
    assert found.tradeoff.chosen == 2
    text = to_markdown(found)
    assert "Poisson deviance against the gap of mean predictions" in text
    assert Evidence.from_json(found.to_json()) == found


def test_a_model_trained_by_itself_is_named_by_what_it_was_held_to(engine, rows, new):
    X, y, groups, years = rows
    curve = tradeoff_curve(
        engine, X, y, sensitive_features=groups[["sex"]], constraint="calibrated", tolerances=2,
        exposure=years,
    )  # fmt: skip
    own = FairGBMRegressor(engine, constraint="calibrated", random_state=0)  # within 0.01
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("warnings.warn", lambda *_, **__: None)
        own.fit(X, y, sensitive_features=groups[["sex"]], exposure=years)
    new_X, new_y, new_groups, new_years = new
    found = gather(
        own, new_X, new_y, sensitive_features=new_groups[["sex"]], exposure=new_years, curve=curve
    )
    point = found.tradeoff.points[found.tradeoff.chosen]
    assert point.name.startswith("tolerance 0.01")
    assert point.name.endswith("trained by itself")


def test_a_loaded_model_has_the_same_figures(model, new, evidence, plain, tmp_path):
    model.save(tmp_path / "model.json")
    loaded = fairboost.load(tmp_path / "model.json")
    again = gathered(loaded, new, plain=plain, label="claims", exposure_name="years")
    test = [f for f in evidence.verdicts if f.where == "test"]
    assert [f.value for f in again.verdicts] == [f.value for f in test]
    assert [r for r in again.rates if r.where == "test"] == [
        r for r in evidence.rates if r.where == "test"
    ]


def test_an_exposure_is_refused_for_decisions(new):
    X, y, groups, years = new
    classifier = fairboost.FairGBMClassifier(constraint=None).fit(X, (y > 0).astype(int))
    with pytest.raises(InvalidInputError, match="exposure is for models that predict a number"):
        gather(classifier, X, (y > 0).astype(int), sensitive_features=groups, exposure=years)


def test_violations_on_training_rows_are_shown_too(model, new, rows):
    X, y, groups, years = rows
    found = gathered(model, new, train=(X, y, groups, None, years)).rounds
    assert list(found.train_violations) == list(model.multipliers_.index)
    for name, shown in found.train_violations.items():
        assert len(shown) == len(found.train_rounds) > 5
        # Of rows that were trained on, in part, and of the same rows out of fold.
        trace = model.trace_.set_index("round")[f"violation: {name}"]
        assert np.abs(np.array(shown) - trace[list(found.train_rounds)]).max() < 0.05


def test_training_rows_of_other_parts_are_refused_before_anything_is_measured(model, new, rows):
    X, y, groups, years = rows
    with pytest.raises(InvalidInputError, match=r"3 to 5 parts, .*, exposure, found 6 parts"):
        gathered(model, new, train=(X, y, groups, None, years, None))
    with pytest.raises(InvalidInputError, match="trained with exposures"):
        gathered(model, new, train=(X, y, groups))


def test_a_column_that_is_only_given_has_no_gaps(engine, rows, new):
    """Classes of risk may differ: nobody asked for means of classes that are alike."""
    same = parity("prediction", 0.3, by="sex", given="region")
    found = gathered(fit(engine, rows, constraint=same), new)
    assert {gap.attribute for gap in found.gaps} == {"sex"}
    both = [same, parity("prediction", 0.3, by="region")]
    found = gathered(fit(engine, rows, constraint=both), new)
    assert {gap.attribute for gap in found.gaps} == {"sex", "region", "sex, region"}


def test_numbers_below_0_have_no_ratio(rows, new):
    """Of a negative mean, A/E above 1 would say that too much was predicted."""
    X, y, groups, _ = rows
    engine = LGBMRegressor(n_estimators=10, num_leaves=7, verbose=-1, n_jobs=1)
    model = FairGBMRegressor(engine, constraint="equal_means", tolerance=0.5, random_state=0)
    model.fit(X, y - 1.0, sensitive_features=groups)
    new_X, new_y, new_groups, _ = new
    found = gather(model, new_X, new_y - 1.0, sensitive_features=new_groups)
    assert "A/E" not in {r.rate for r in found.rates} | {g.rate for g in found.gaps}
    text = to_markdown(found)
    assert "Some totals are below 0" in text
    assert "too little" not in text
    assert "actual over expected is" not in text


def test_a_median_is_said_to_be_no_mean(rows, new):
    X, y, _, _ = rows
    engine = LGBMRegressor(objective="regression_l1", n_estimators=5, verbose=-1, n_jobs=1)
    model = FairGBMRegressor(engine, constraint=None).fit(X, y)
    new_X, new_y, new_groups, _ = new
    found = gather(model, new_X, new_y, sensitive_features=new_groups)
    assert any("(absolute error) does not estimate a mean" in limit for limit in found.limits)
    assert not any("does not estimate a mean" in limit for limit in make_number_evidence().limits)


def test_amounts_have_digits_that_tell_them_apart():
    text = to_markdown(make_number_evidence())
    assert "The gap is 12,346 (95% interval 9,000 to 16,000), the limit 5,000" in text
    assert "The largest distance is 0.0500" in text
    assert "mean prediction" in text
