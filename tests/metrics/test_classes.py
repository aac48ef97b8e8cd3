"""Audit of decisions among classes: one definition of each rate, and what is refused."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from lightgbm import LGBMClassifier
from sklearn.metrics import confusion_matrix

from fairboost import FairGBMClassifier
from fairboost.exceptions import FairnessWarning, InvalidInputError
from fairboost.metrics import audit_classes, gap, group_rates
from fairboost.metrics.intervals import wilson

BANDS = ["low", "middle", "high"]


def decided(n=1_200, seed=0):
    """Classes, what was given, groups of which the second is given less, weights."""
    rng = np.random.default_rng(seed)
    y, group = rng.choice(BANDS, n, p=[0.5, 0.3, 0.2]), rng.choice(["F", "M"], n, p=[0.4, 0.6])
    right = rng.random(n) < np.where(group == "F", 0.8, 0.6)
    return y, np.where(right, y, rng.choice(BANDS, n)), group, rng.uniform(0.5, 2.0, n)


def line(table, **where):
    found = table
    for name, value in where.items():
        found = found[found[name] == value]
    assert len(found) == 1
    return found.iloc[0]


@pytest.mark.parametrize("weighted", [False, True])
def test_rates_are_those_of_the_confusion_matrix(weighted):
    y, given, group, weight = decided()
    w = weight if weighted else np.ones(len(y))
    asked = {"sample_weight": weight} if weighted else {}
    found = audit_classes(y, given, sensitive_features={"sex": group}, classes=BANDS, **asked)
    for attribute, name in (("", "everyone"), ("sex", "F"), ("sex", "M")):
        rows = np.ones(len(y), bool) if not attribute else group == name
        table = confusion_matrix(y[rows], given[rows], labels=BANDS, sample_weight=w[rows])
        shares = table / table.sum(axis=1, keepdims=True)
        np.testing.assert_allclose(found.confusion(attribute, name).to_numpy(), shares)
        assert found.confusion(attribute, name).index.tolist() == BANDS
        own = found.rates[(found.rates["attribute"] == attribute) & (found.rates["group"] == name)]
        of_rate = {rate: part["value"].to_numpy() for rate, part in own.groupby("rate")}
        np.testing.assert_allclose(of_rate["recall"], np.diag(shares))
        np.testing.assert_allclose(of_rate["given"], table.sum(axis=0) / table.sum())
        np.testing.assert_allclose(of_rate["accuracy"], [np.trace(table) / table.sum()])
        counted = line(own, rate="recall", label="low")
        assert counted["rows"] == (y[rows] == "low").sum()
        assert counted["counted"] == pytest.approx(w[rows][y[rows] == "low"].sum())


def test_intervals_are_wilsons_and_weights_cost_rows():
    y, given, group, weight = decided()
    plain = audit_classes(y, given, sensitive_features=group)
    own = line(plain.rates, group="F", rate="recall", label="high")
    low, high = wilson(own["events"], own["counted"])
    assert (own["low"], own["high"]) == (pytest.approx(float(low)), pytest.approx(float(high)))
    same = audit_classes(y, given, sensitive_features=group, sample_weight=np.full(len(y), 7.0))
    pd.testing.assert_frame_equal(
        same.rates.drop(columns=["events", "counted"]),
        plain.rates.drop(columns=["events", "counted"]),
    )
    weighed = audit_classes(y, given, sensitive_features=group, sample_weight=weight**3)
    ends = [line(a.rates, group="F", rate="accuracy") for a in (plain, weighed)]
    assert ends[1]["high"] - ends[1]["low"] > 1.2 * (ends[0]["high"] - ends[0]["low"])


def test_gaps_are_differences_of_rates():
    y, given, group, _ = decided()
    found = audit_classes(y, given, sensitive_features={"sex": group})
    assert len(found.gaps) == 1 + 3 + 3 + 6
    for k in range(len(found.gaps)):
        own = found.gaps.iloc[k]
        same = found.rates["rate"] == own["rate"]
        for name in ("label", "given"):
            same &= (
                found.rates[name].isna() if own[name] is None else found.rates[name] == own[name]
            )
        by_group = found.rates[same & (found.rates["attribute"] == "sex")].set_index("group")
        values = by_group["value"]
        assert own["gap"] == pytest.approx(abs(values["F"] - values["M"]))
        assert own["ratio"] == pytest.approx(values.min() / values.max())
        assert [own["lowest_group"], own["highest_group"]] == [values.idxmin(), values.idxmax()]
        assert own["gap_low"] <= own["gap"] <= own["gap_high"]
    surely = line(found.gaps, rate="accuracy")
    assert surely["gap_low"] > 0.05


def test_of_two_labels_it_is_the_audit_of_two():
    y, given, group, weight = decided()
    y, given = (y == "low").astype(int), (given == "low").astype(int)
    asked = {"sensitive_features": group, "sample_weight": weight}
    ours = audit_classes(y, given, **asked)
    for rate, kind, label in (("tpr", "recall", 1), ("tnr", "recall", 0), ("ppr", "given", None)):
        where = {"rate": kind, "given": 1} if label is None else {"rate": kind, "label": label}
        rates = group_rates(y, given, rates=rate, **asked).set_index("group")
        for name in ("everyone", "F", "M"):
            own = line(ours.rates, group=name, **where)
            for column in ("value", "low", "high", "events", "counted", "rows"):
                assert own[column] == pytest.approx(rates.loc[name, column]), (rate, column)
        theirs = gap(y, given, rate=rate, **asked)
        own = line(ours.gaps, **where)
        assert own["gap"] == pytest.approx(theirs.value)
        assert own["gap_low"] == pytest.approx(theirs.low, abs=0.01)


def test_the_rates_audited_are_the_rates_constrained():
    rng = np.random.default_rng(0)
    y, _, group, weight = decided()
    X = rng.normal(size=(len(y), 3)) + np.searchsorted(sorted(BANDS), y)[:, np.newaxis]
    engine = LGBMClassifier(n_estimators=5, n_jobs=1, verbose=-1)
    model = FairGBMClassifier(engine, constraint="equalized_odds", tolerance=0.9, holdout=0.3)
    rows = {"sensitive_features": {"sex": group}, "sample_weight": weight}
    report = model.fit(X, y, **rows).report_on(X, y, **rows)
    found = audit_classes(y, model.predict(X), **rows)
    gaps = found.gaps[found.gaps["rate"].isin(["recall", "confused"])]["gap"]
    assert len(report.test_verdicts) == 9
    values = [v.value for v in report.test_verdicts]  # training has weights of single precision
    np.testing.assert_allclose(values, gaps, atol=1e-6)


def test_crossings_and_rows_without_a_group():
    y, given, group, _ = decided()
    age = np.where(np.arange(len(y)) % 3 == 0, "old", "young").astype(object)
    age[:100] = None
    groups = {"sex": group, "age": age}
    found = audit_classes(y, given, sensitive_features=groups, by=["age", ("sex", "age")])
    assert set(found.gaps["attribute"]) == {"age", "sex, age"}
    rows = found.rates[found.rates["rate"] == "accuracy"].groupby("attribute")["rows"].sum()
    assert rows.to_dict() == {"": len(y), "age": len(y) - 100, "sex, age": len(y) - 100}


def test_a_class_without_rows_in_a_group_is_left_out_by_name():
    y, given, group, _ = decided()
    kept = (y != "high") | (group == "M")
    with pytest.warns(FairnessWarning, match=r"sex = F \(recall\[high\]\)$"):
        found = audit_classes(y[kept], given[kept], sensitive_features={"sex": group[kept]})
    assert np.isnan(line(found.gaps, rate="recall", label="high")["gap"])
    assert found.confusion("sex", "F").loc["high"].isna().all()
    assert "undefined" in str(found)
    assert found.gaps.set_index("rate")["gap"]["accuracy"] > 0


def test_a_small_group_is_marked_and_can_be_left_out():
    y, given, group, _ = decided(120)
    found = audit_classes(y, given, sensitive_features={"sex": group}, min_group_rows=20)
    few = found.rates[(found.rates["rows"] < 20) & (found.rates["rate"] == "recall")]
    assert "high" in set(few["label"])
    assert np.isnan(line(found.gaps, rate="recall", label="high")["gap"])
    text = found.to_markdown(confusion=False)
    assert "(small)" in text
    assert "Not compared, because fewer than 20 rows count: sex = F (recall of 'high'" in text


def test_text_has_every_figure_once_and_escapes_names():
    y, given, group, _ = decided()
    names = {"low": "a|b", "middle": "<b>", "high": "c"}
    y, given = (np.array([names[k] for k in column]) for column in (y, given))
    found = audit_classes(y, given, sensitive_features={"sex": group})
    text = str(found)
    assert r"given a\|b" in text
    assert "<b>" not in text
    lines = text.splitlines()
    assert sum(row.startswith("| sex ") for row in lines) == 2 + 6 + 13
    short = found.to_markdown(confusion=False)
    assert sum(row.startswith("| sex ") for row in short.splitlines()) == 2 + 2 + 7
    assert str(found.overall["accuracy"]) in short


def test_without_confusion_matrices():
    y, given, group, _ = decided()
    asked = {"sensitive_features": {"sex": group}}
    found = audit_classes(y, given, confusion=False, **asked)
    whole = audit_classes(y, given, **asked)
    assert set(found.gaps["rate"]) == {"accuracy", "given", "recall"}
    assert str(found) == whole.to_markdown(confusion=False)
    with pytest.raises(InvalidInputError, match="made without confusion matrices"):
        found.confusion()
    with pytest.raises(InvalidInputError, match=r"no group 'X' of 'sex'; expected one of '', 'ev"):
        whole.confusion("sex", "X")


def test_classes_that_do_not_occur_keep_their_place():
    y, given, group, _ = decided()
    known = [*BANDS, "none"]
    with pytest.warns(FairnessWarning, match=r"sex = F \(recall\[none\]\)"):
        found = audit_classes(y, given, sensitive_features={"sex": group}, classes=known)
    assert found.classes == tuple(known)
    assert found.overall["given[none]"].value == 0.0
    assert found.confusion().columns.tolist() == known


Y = np.array(["a", "b", "c"] * 20)
G = np.array(["F", "M"] * 30)


@pytest.mark.parametrize(
    ("y", "given", "more", "said"),
    [
        (
            Y,
            np.full((60, 3), 1 / 3),
            {},
            r"y_pred must be one column of classes.*\(60, 3\).*predi",
        ),
        (Y, np.tile([0, 1, 2], 20), {}, "y_pred holds 0, 1, 2, none of which is a label of y_tr"),
        (
            Y,
            Y,
            {"classes": ["a", "b"]},
            "y_true holds 'c', which is not among the classes, 'a', '",
        ),
        (Y, np.linspace(0, 1, 60), {}, "y_pred must hold classes, found otherwise"),
        (Y, np.where(Y == "a", None, Y), {}, "y_pred must hold classes.*missing labels"),
        (np.arange(60) % 9, np.arange(60) % 9, {"classes": range(300)}, "300 distinct labels"),
        (Y[:0], Y[:0], {}, "no rows"),
        (np.array([1, "1", 2] * 20, object), np.array([1] * 60, object), {}, "y_true"),
    ],
)
def test_what_is_refused(y, given, more, said):
    with pytest.raises(InvalidInputError, match=said):
        audit_classes(y, given, sensitive_features=G[: len(y)], **more)
