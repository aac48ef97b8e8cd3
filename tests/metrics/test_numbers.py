"""Audit of predicted numbers: one definition of each figure, and how often intervals hold."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from lightgbm import LGBMRegressor
from sklearn.metrics import mean_gamma_deviance, mean_poisson_deviance

from fairboost import FairGBMRegressor
from fairboost.exceptions import InvalidInputError
from fairboost.fairness.numbers import N_LEVELS
from fairboost.kernel.losses import Loss
from fairboost.metrics import audit_numbers

rng = np.random.default_rng(0)


def claims(n=3_000, seed=0, factor=1.0):
    """Claims, what was expected, years insured, gender."""
    rng = np.random.default_rng(seed)
    gender = rng.choice(["F", "M"], n, p=[0.3, 0.7])
    years = rng.uniform(0.2, 1.0, n)
    expected = np.exp(-1.0 + 0.4 * rng.normal(size=n) + 0.3 * (gender == "M")) * years
    return rng.poisson(expected * np.where(gender == "M", factor, 1.0)), expected, years, gender


def line(table, **where):
    found = table
    for name, value in where.items():
        found = found[found[name] == value]
    assert len(found) == 1
    return found.iloc[0]


def test_figures_of_groups_are_those_by_hand():
    y, p, years, gender = claims()
    found = audit_numbers(y, p, sensitive_features={"gender": gender}, exposure=years)
    for group in ("everyone", "F", "M"):
        rows = gender == group if group != "everyone" else np.ones(len(y), bool)
        got = line(found.by_group, group=group)
        assert got["rows"] == rows.sum()
        assert got["exposure"] == pytest.approx(years[rows].sum())
        assert got["mean_prediction"] == pytest.approx(p[rows].sum() / years[rows].sum())
        assert got["mean_actual"] == pytest.approx(y[rows].sum() / years[rows].sum())
        assert got["a_over_e"] == pytest.approx(y[rows].sum() / p[rows].sum())
        deviance = mean_poisson_deviance(y[rows], p[rows]) * rows.sum() / years[rows].sum()
        assert got["mean_loss"] == pytest.approx(deviance)
    a_over_e = found.by_group.set_index("group")["a_over_e"]
    assert float(found.overall["a_over_e"]) == pytest.approx(a_over_e["everyone"])
    gaps = found.gaps.set_index("figure")
    means = found.by_group.set_index("group")["mean_prediction"]
    assert gaps["value"]["mean_prediction"] == pytest.approx(means["M"] - means["F"])
    assert list(gaps.loc["mean_prediction", ["lowest_group", "highest_group"]]) == ["F", "M"]
    farthest = max(abs(a_over_e["F"] - 1), abs(a_over_e["M"] - 1))
    assert gaps["value"]["a_over_e"] == pytest.approx(farthest)


def test_deciles_add_up_to_the_group():
    y, p, years, gender = claims()
    weight = rng.uniform(0, 2, len(y))
    given = {"sensitive_features": {"gender": gender}, "exposure": years, "sample_weight": weight}
    found = audit_numbers(y, p, **given)
    totals = found.by_decile.groupby("group")[["rows", "expected", "actual"]].sum()
    for group in ("F", "M"):
        rows = gender == group
        assert totals["rows"][group] == rows.sum()
        assert totals["expected"][group] == pytest.approx((weight * p)[rows].sum())
        assert totals["actual"][group] == pytest.approx((weight * y)[rows].sum())
    one = line(found.by_decile, group="F", decile=3)
    assert one["a_over_e"] == pytest.approx(one["actual"] / one["expected"])
    assert one["a_over_e_low"] < one["a_over_e"] < one["a_over_e_high"]
    # Tenths of everyone, by weight and exposure.
    everyone = found.by_decile.query("attribute == ''")["exposure"].to_numpy()
    np.testing.assert_allclose(everyone / everyone.sum(), 0.1, atol=0.005)


@pytest.mark.parametrize("loss, theirs", [("gamma", mean_gamma_deviance), (Loss("poisson"), None)])
def test_a_named_deviance_is_scikit_learns(loss, theirs):
    y, p, _, gender = claims()
    y = y + 0.5
    theirs = mean_poisson_deviance if theirs is None else theirs
    found = audit_numbers(y, p, sensitive_features=gender, loss=loss)
    assert float(found.overall["mean_loss"]) == pytest.approx(theirs(y, p))


def held_to_the_report(model, X, y, figures, **rows):
    report = model.report_on(X, y, **rows)
    years = {"exposure": rows["exposure"]} if "exposure" in rows else {}
    gaps = audit_numbers(y, model.predict(X, **years), **rows).gaps
    for figure, verdict in zip(figures, report.test_verdicts, strict=True):
        got = line(gaps, figure=figure)
        assert got["value"] == pytest.approx(verdict.value, rel=1e-5), figure
        ends = verdict.low, verdict.high
        assert (got["low"], got["high"]) == pytest.approx(ends, rel=1e-2), figure


def test_figures_are_those_of_the_models_report():
    X = rng.normal(size=(2_000, 2))
    y, group = X[:, 0] + rng.normal(size=2_000), rng.choice(list("abc"), 2_000)
    engine = LGBMRegressor(n_estimators=5, verbose=-1)
    asked = ["equal_means", "equal_distributions", "equal_errors"]
    model = FairGBMRegressor(engine, constraint=asked, tolerance=0.9)
    model.fit(X, y, sensitive_features=group)
    figures = "mean_prediction", "distance", "mean_loss"
    held_to_the_report(model, X, y, figures, sensitive_features=group)


def test_actual_over_expected_is_that_of_the_models_report():
    y, p, years, gender = claims()
    X = np.stack([np.log(p / years), rng.normal(size=len(y))], axis=1)
    engine = LGBMRegressor(objective="poisson", n_estimators=10, num_leaves=7, verbose=-1)
    model = FairGBMRegressor(engine, constraint="calibrated", tolerance=0.5, random_state=0)
    rows = {"sensitive_features": {"gender": gender}, "exposure": years}
    model.fit(X, y, **rows)
    held_to_the_report(model, X, y, ["a_over_e"], **rows)


def test_distance_is_the_largest_difference_at_quantiles_of_everyone():
    p = rng.normal(size=500)
    group = np.where(p + rng.normal(size=500) > 0, "b", "a")
    found = audit_numbers(p, p, sensitive_features=group)
    cuts = np.sort(p)[np.ceil(np.arange(1, N_LEVELS + 1) / (N_LEVELS + 1) * 500).astype(int) - 1]
    for g in "ab":
        apart = [(p[group == g] >= t).mean() - (p >= t).mean() for t in cuts]
        assert line(found.by_group, group=g)["distance"] == pytest.approx(np.abs(apart).max())


def test_weights_count_as_rows_and_rows_of_weight_zero_do_not():
    y, p, _, gender = claims(400)
    times = np.random.default_rng(1).integers(0, 3, len(y))
    often = np.repeat(np.arange(len(y)), times)
    weighed = audit_numbers(y, p, sensitive_features=gender, sample_weight=times)
    repeated = audit_numbers(y[often], p[often], sensitive_features=gender[often])
    figures = ["mean_prediction", "mean_actual", "a_over_e", "mean_loss", "distance"]
    pd.testing.assert_frame_equal(weighed.by_group[figures], repeated.by_group[figures])
    assert line(weighed.by_group, group="F")["rows"] == (times[gender == "F"] > 0).sum()


def test_a_change_of_unit_changes_means_and_neither_ratios_nor_distances():
    y, p, _, gender = claims()
    here = audit_numbers(y, p, sensitive_features=gender).by_group
    there = audit_numbers(1_000.0 * y, 1_000.0 * p, sensitive_features=gender).by_group
    for name in ("mean_prediction", "mean_actual_high"):
        np.testing.assert_allclose(there[name], 1_000 * here[name])
    np.testing.assert_allclose(there["mean_loss_low"], 1e6 * here["mean_loss_low"])
    for name in ("a_over_e", "a_over_e_low", "distance", "distance_high"):
        np.testing.assert_allclose(there[name], here[name])


def test_crossings_small_groups_and_missing_ones():
    y, p, _, gender = claims(600)
    town = np.array(["x"] * 590 + ["y"] * 8 + [None] * 2, dtype=object)
    groups = {"gender": gender, "town": town}
    found = audit_numbers(
        y, p, sensitive_features=groups, by=["town", ("gender", "town")], min_group_rows=20
    )
    assert list(dict.fromkeys(found.by_group["attribute"])) == ["", "town", "gender, town"]
    few = line(found.by_group, group="y")
    assert few["small"]
    assert few["rows"] == 8
    assert np.isnan(few["distance"])
    of_town = found.gaps.query("attribute == 'town'")
    assert of_town["value"].isna().all()  # one group is left, and there is nothing to compare
    assert "Not compared, because fewer than 20 rows count: town = y (8 rows)" in str(found)
    assert line(found.by_decile.query("attribute == 'town'"), group="y", decile=1)["rows"] < 8


def test_a_group_without_claims_may_have_some_all_the_same():
    y, p, years, gender = claims()
    y = np.where(gender == "F", 0, y)
    found = audit_numbers(y, p, sensitive_features=gender, exposure=years)
    got = line(found.by_group, group="F")
    assert got["a_over_e"] == 0
    assert got["a_over_e_high"] > 0.01


def test_actual_over_expected_is_undefined_where_the_mean_may_be_zero():
    y = rng.permutation([-1.0, 1.0] * 200)
    found = audit_numbers(y, 0.3 * y, sensitive_features=rng.choice(["a", "b"], 400))
    assert found.by_group["a_over_e"].isna().all()
    assert np.isnan(line(found.gaps, figure="a_over_e")["value"])
    shifted = audit_numbers(y + 5, 0.3 * y + 5, sensitive_features=rng.choice(["a", "b"], 400))
    assert shifted.by_group["a_over_e"].notna().all()


def test_it_prints_as_tables():
    y, p, years, gender = claims()
    found = audit_numbers(y, p, sensitive_features={"gender|x": gender}, exposure=years)
    text = found.to_markdown()
    assert text.startswith("Means, per unit of exposure. Loss: Poisson deviance. Intervals: 0.95.")
    assert "gender\\|x" in text
    assert "| farthest A/E from 1 " in text
    assert text.count("\n\n") == 3
    assert found.to_markdown(deciles=False).count("\n\n") == 2


@pytest.mark.parametrize(
    "change, message",
    [
        ({"y_pred": np.zeros(4)}, "y_pred must be above 0 for the Poisson deviance.*row 0"),
        ({"y_true": [-1.0, 1, 1, 1]}, "y_true must be 0 or more for the Poisson deviance.*row 0"),
        ({"y_pred": [1.0, np.nan, 1, 1]}, "y_pred must be finite numbers without NaN.*row 1"),
        ({"exposure": [1.0, 0, 1, 1]}, "exposure must be above 0"),
        ({"y_pred": [1.0] * 3}, "3"),
        ({"loss": "log"}, "unknown loss 'log'; expected one of 'squared'"),
        ({"by": "race"}, "expected sensitive columns out of"),
        ({"confidence": 95}, "confidence must lie strictly between 0 and 1"),
        ({"sensitive_features": pd.DataFrame(index=range(4))}, "no columns"),
    ],
)
def test_bad_input_is_refused(change, message):
    given = {
        "y_true": [1.0, 2, 3, 4],
        "y_pred": [1.0, 2, 3, 4],
        "sensitive_features": list("aabb"),
        "exposure": [1.0] * 4,
    }
    with pytest.raises(InvalidInputError, match=message):
        audit_numbers(**{**given, **change})


def test_intervals_hold_what_they_should():
    """True A/E of 1 and 1.2, and a true gap of means; 200 samples, 95%."""
    held = np.zeros(3)
    for seed in range(200):
        y, p, years, gender = claims(1_500, seed, factor=1.2)
        found = audit_numbers(y, p, sensitive_features=gender, exposure=years)
        for k, (group, truth) in enumerate((("F", 1.0), ("M", 1.2))):
            got = line(found.by_group, group=group)
            held[k] += got["a_over_e_low"] <= truth <= got["a_over_e_high"]
        gap = line(found.gaps, figure="mean_prediction")
        truth = np.exp(-1.0 + 0.08) * (np.exp(0.3) - 1)
        held[2] += gap["low"] <= truth <= gap["high"]
    # 95% less three standard errors of 200 samples; a factor of 0.7 would hold in 83%.
    assert (held / 200 > 0.904).all()
