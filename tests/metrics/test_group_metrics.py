"""Rates, gaps and ratios as users call for them."""

from __future__ import annotations

import dataclasses

import fairlearn.metrics
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairboost.exceptions import ConstraintError, FairnessWarning, InvalidInputError
from fairboost.fairness.rates import RATES, Rate
from fairboost.metrics import audit, gap, group_rates, ratio
from fairboost.metrics.intervals import clopper_pearson, wilson


@dataclasses.dataclass(frozen=True)
class Data:
    y: np.ndarray
    score: np.ndarray
    table: pd.DataFrame
    weight: np.ndarray

    @property
    def decision(self) -> np.ndarray:
        return (self.score >= 0.5).astype(int)


@pytest.fixture(scope="module")
def data() -> Data:
    rng = np.random.default_rng(0)
    n = 400
    sex, race = rng.choice(["F", "M"], n), rng.choice(["a", "b", "c"], n)
    y = rng.integers(0, 2, n)
    score = np.clip(0.2 * y + 0.7 * rng.random(n) + 0.1 * (sex == "M"), 0, 1)
    return Data(y, score, pd.DataFrame({"sex": sex, "race": race}), rng.gamma(2.0, size=n))


def values(table: pd.DataFrame) -> dict[tuple[str, str], float]:
    """Rates by group and rate; for tables of one attribute."""
    return table.set_index(["group", "rate"])["value"].to_dict()


# What the figures are


def test_a_confusion_matrix_by_hand():
    #         F: TN 3  FP 1  FN 2  TP 2           M: TN 1  FP 3  FN 0  TP 1
    y = np.r_[0, 0, 0, 0, 1, 1, 1, 1, 0, 0, 0, 0, 1]
    d = np.r_[0, 0, 0, 1, 0, 0, 1, 1, 0, 1, 1, 1, 1]
    table = group_rates(y, d, sensitive_features={"sex": list("F" * 8 + "M" * 5)})
    women = {"fpr": 1 / 4, "fnr": 2 / 4, "tpr": 2 / 4, "tnr": 3 / 4, "ppr": 3 / 8, "pnr": 5 / 8}
    men = {"fpr": 3 / 4, "fnr": 0 / 1, "tpr": 1 / 1, "tnr": 1 / 4, "ppr": 4 / 5, "pnr": 1 / 5}
    all_ = {"fpr": 4 / 8, "fnr": 2 / 5, "tpr": 3 / 5, "tnr": 4 / 8, "ppr": 7 / 13, "pnr": 6 / 13}
    expected = {("F", r): v for r, v in women.items()} | {("M", r): v for r, v in men.items()}
    assert values(table) == expected | {("everyone", r): v for r, v in all_.items()}
    line = table[(table["group"] == "F") & (table["rate"] == "ppr")].iloc[0]
    assert (line["attribute"], line["events"], line["counted"], line["rows"]) == ("sex", 3, 8, 8)


def test_the_table_is_tidy(data):
    table = group_rates(data.y, data.decision, sensitive_features=data.table)
    assert table.columns.tolist() == [
        *("attribute", "group", "rate", "value", "low", "high", "events", "counted", "rows")
    ]
    blocks = table[["attribute", "group"]].drop_duplicates().to_numpy().tolist()
    assert blocks == [
        *(["", "everyone"], ["sex", "F"], ["sex", "M"]),
        *(["race", "a"], ["race", "b"], ["race", "c"]),
    ]
    assert not table.duplicated(["attribute", "group", "rate"]).any()
    assert len(table) == 6 * len(RATES)


def fairlearn_frame(data: Data, by: list[str], weight: np.ndarray | None):
    functions = {
        "fpr": fairlearn.metrics.false_positive_rate,
        "fnr": fairlearn.metrics.false_negative_rate,
        "tpr": fairlearn.metrics.true_positive_rate,
        "tnr": fairlearn.metrics.true_negative_rate,
        "ppr": fairlearn.metrics.selection_rate,
        "pnr": lambda *args, **kw: 1 - fairlearn.metrics.selection_rate(*args, **kw),
    }
    return fairlearn.metrics.MetricFrame(
        metrics=functions,
        y_true=data.y,
        y_pred=data.decision,
        sensitive_features=data.table[by],
        sample_params={name: {"sample_weight": weight} for name in functions},
    )


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("by", ["sex", "race", ("sex", "race")])
def test_fairlearn_agrees(data, by, weighted):
    weight = data.weight if weighted else None
    columns = [by] if isinstance(by, str) else list(by)
    frame = fairlearn_frame(data, columns, weight)
    arguments = {"sensitive_features": data.table, "by": by, "sample_weight": weight}
    ours = values(group_rates(data.y, data.decision, **arguments))
    by_group = frame.by_group
    by_group.index = [k if isinstance(k, str) else ", ".join(k) for k in by_group.index]
    theirs = by_group.T.unstack().to_dict()
    theirs |= {("everyone", rate): value for rate, value in frame.overall.items()}
    assert ours == pytest.approx(theirs, rel=1e-12)
    differences = frame.difference(method="between_groups")
    ratios = frame.ratio(method="between_groups")
    for rate in RATES:
        arguments |= {"rate": rate}
        assert gap(data.y, data.decision, **arguments).value == pytest.approx(differences[rate])
        assert ratio(data.y, data.decision, **arguments).value == pytest.approx(ratios[rate])


@pytest.mark.parametrize(("name", "interval"), [("wilson", wilson), ("exact", clopper_pearson)])
def test_intervals_without_weights_are_those_of_a_proportion(data, name, interval):
    table = group_rates(
        data.y, data.decision, sensitive_features=data.table, interval=name, confidence=0.8
    )
    low, high = interval(table["events"], table["rows"], 0.8)
    np.testing.assert_allclose(table[["low", "high"]].T, [low, high], rtol=1e-9)


def test_intervals_with_weights_use_the_effective_sample_size(data):
    arguments = {"sensitive_features": data.table["sex"], "rates": "fpr"}
    table = group_rates(data.y, data.decision, sample_weight=data.weight, **arguments)
    line = table[table["group"] == "F"].iloc[0]
    counts = (data.y == 0) & (data.table["sex"] == "F")
    w = data.weight[counts]
    effective = w.sum() ** 2 / (w**2).sum()
    assert line["rows"] == counts.sum() > effective
    low, high = wilson(line["value"] * effective, effective)
    assert (line["low"], line["high"]) == pytest.approx((float(low), float(high)))


def test_integer_weights_are_repetition(data):
    times = np.random.default_rng(1).integers(0, 4, len(data.y))
    weighted = group_rates(
        data.y, data.decision, sensitive_features=data.table, sample_weight=times
    )
    repeated = group_rates(
        data.y.repeat(times),
        data.decision.repeat(times),
        sensitive_features=data.table.loc[data.table.index.repeat(times)],
    )
    columns = ["attribute", "group", "rate", "value", "events", "counted"]
    pd.testing.assert_frame_equal(weighted[columns], repeated[columns])
    assert (weighted["rows"] < repeated["rows"]).all()  # copies are no new information


def test_a_rate_of_ones_own(data):
    flagged = Rate("flagged", None, +1, "flagged for review")
    arguments = {"sensitive_features": data.table["sex"]}
    ours = group_rates(data.y, data.decision, rates=flagged, **arguments)
    same = group_rates(data.y, data.decision, rates="ppr", **arguments)
    assert ours["rate"].unique().tolist() == ["flagged"]
    pd.testing.assert_frame_equal(ours.drop(columns="rate"), same.drop(columns="rate"))


def test_a_rate_named_twice_is_reported_once(data):
    arguments = {"sensitive_features": data.table["sex"]}
    found = group_rates(data.y, data.decision, rates=["fpr", "FPR", RATES["fpr"]], **arguments)
    pd.testing.assert_frame_equal(
        found, group_rates(data.y, data.decision, rates="fpr", **arguments)
    )


# Invariance

ROWS = st.lists(
    st.tuples(st.booleans(), st.booleans(), st.sampled_from(["a", "b", None])),
    min_size=3,
    max_size=40,
).filter(lambda rows: any(group for *_, group in rows))


@given(rows=ROWS, seed=st.integers(0, 2**32 - 1))
def test_order_of_rows_does_not_matter(rows, seed):
    shuffled = [rows[k] for k in np.random.default_rng(seed).permutation(len(rows))]
    tables = []
    for y, d, groups in (zip(*rows, strict=True), zip(*shuffled, strict=True)):
        tables.append(group_rates(y, d, sensitive_features=list(groups), pos_label=True))
    pd.testing.assert_frame_equal(*tables)


@given(rows=ROWS)
def test_names_of_groups_do_not_matter(rows):
    y, d, groups = map(list, zip(*rows, strict=True))
    rename = {"a": "z", "b": "y", None: None, "everyone": "everyone"}  # reverses their order
    before = values(group_rates(y, d, sensitive_features=groups, pos_label=True))
    after = values(
        group_rates(y, d, sensitive_features=[rename[g] for g in groups], pos_label=True)
    )
    expected = {(rename[group], rate): value for (group, rate), value in before.items()}
    assert after == pytest.approx(expected, abs=0, nan_ok=True)


@given(rows=ROWS)
def test_switching_the_positive_label_switches_the_rates(rows):
    y, d, groups = map(list, zip(*rows, strict=True))
    mirror = {"fpr": "fnr", "fnr": "fpr", "tpr": "tnr", "tnr": "tpr", "ppr": "pnr", "pnr": "ppr"}
    one = values(group_rates(y, d, sensitive_features=groups, pos_label=True))
    other = values(group_rates(y, d, sensitive_features=groups, pos_label=False))
    expected = {(group, mirror[rate]): value for (group, rate), value in one.items()}
    assert other == pytest.approx(expected, abs=0, nan_ok=True)


# Groups without rows that count


NO_NEGATIVES_IN_C = {
    "y_true": [0, 1, 0, 1, 1, 1] * 5,
    "y_pred": [0, 1, 1, 1, 1, 0] * 5,
    "sensitive_features": {"race": list("aabbcc") * 5},
}


def test_an_empty_group_has_no_rate():
    table = group_rates(**NO_NEGATIVES_IN_C, rates=["fpr", "fnr"])
    line = table[(table["group"] == "c") & (table["rate"] == "fpr")].iloc[0]
    assert np.isnan([line["value"], line["low"], line["high"]]).all()
    assert (line["events"], line["counted"], line["rows"]) == (0, 0, 0)
    assert table["value"].isna().sum() == 1


@pytest.mark.parametrize(("function", "expected"), [(gap, 1.0), (ratio, 0.0)])
def test_an_empty_group_is_left_out_of_comparisons_and_named(function, expected):
    with pytest.warns(FairnessWarning, match=r"leave out.*race = c \(fpr\)$") as caught:
        found = function(**NO_NEGATIVES_IN_C, rate="fpr")
    assert found.value == expected
    assert found.low <= expected <= found.high
    assert caught[0].filename == __file__


def test_an_audit_warns_at_the_line_of_its_caller():
    told = {**NO_NEGATIVES_IN_C, "y_score": NO_NEGATIVES_IN_C["y_pred"]}
    told.pop("y_pred")
    with pytest.warns(FairnessWarning, match=r"leave out.*race = c \(fpr\)$") as caught:
        audit(**told)
    assert {w.filename for w in caught} == {__file__}


def test_there_must_be_two_groups_to_compare():
    y = [0, 1, 0, 1]
    for function in (gap, ratio):
        found = function(y, y, rate="ppr", sensitive_features=list("aaaa"))
        assert np.isnan([found.value, found.low, found.high]).all()


# Labels of any kind


@pytest.mark.parametrize(
    ("negative", "positive"),
    [(0, 1), (-1, 1), (1, 2), (0.0, 1.0), (False, True), ("no", "yes"), ("<=50K", ">50K")],
)
@pytest.mark.parametrize(
    "container", [list, np.array, pd.Series, pl.Series, pa.array, lambda x: pd.Series(x).array]
)
@pytest.mark.filterwarnings("ignore:.* is taken for the positive label")
def test_labels_of_any_type_in_any_container(data, negative, positive, container):
    def spell(codes: np.ndarray) -> object:
        return container([positive if code else negative for code in codes])

    arguments = {"sensitive_features": data.table["sex"]}
    found = group_rates(spell(data.y), spell(data.decision), **arguments)
    pd.testing.assert_frame_equal(found, group_rates(data.y, data.decision, **arguments))


def test_labels_may_differ_in_type_as_long_as_they_are_equal(data):
    arguments = {"sensitive_features": data.table["sex"]}
    found = group_rates(data.y, data.decision.astype(bool), **arguments)
    pd.testing.assert_frame_equal(found, group_rates(data.y, data.decision, **arguments))


@pytest.mark.parametrize("present", ["no", "yes"])
def test_one_label_is_enough_when_told_which_is_positive(present):
    d = ["no", "yes", "yes", "yes"]
    table = group_rates([present] * 4, d, sensitive_features=list("aabb"), pos_label="yes")
    found = values(table)
    assert found["a", "ppr"] == 1 / 2
    defined, undefined = ("tpr", "fpr") if present == "yes" else ("fpr", "tpr")
    assert found["a", defined] == 1 / 2
    assert np.isnan(found["a", undefined])


# What goes wrong

GOOD = {
    "y_true": [0, 1, 0, 1],
    "y_pred": [0, 1, 1, 1],
    "sensitive_features": {"sex": list("aabb")},
}
BAD_DECISIONS = [
    ({"y_true": []}, "y_true has 0 rows, expected some"),
    ({"y_true": None}, r"y_true must be one column, found shape \(\)"),
    ({"y_true": [0, 1, 2, 1]}, r"two labels.*found the labels \[0, 1, 2\].*merge labels"),
    ({"y_true": [1, 1, 1, 1]}, r"two labels.*found the labels \[1\].*set pos_label="),
    ({"y_true": np.array([0, "1", 0, "1"], object)}, "pos_label=None.*set pos_label="),
    ({"y_true": [0, 1, None, 1]}, "y_true is missing at row 2; drop such rows"),
    ({"y_true": [0, 1, np.nan, 1]}, "y_true is missing at row 2; drop such rows"),
    ({"pos_label": "yes"}, "pos_label be one of them.*pos_label='yes'"),
    ({"y_pred": [0, 1, 1]}, "y_pred has 3 rows, expected 4, one for each row of y_true"),
    ({"y_pred": [0.1, 0.8, 0.9, 1]}, "y_pred holds 0.1.*not among the labels.*scores to audit"),
    ({"y_pred": list("0111")}, "y_pred holds '0'.*not among the labels"),
    ({"y_pred": [0, 1, 1, None]}, "y_pred is missing at row 3"),
    ({"y_pred": np.eye(4)}, r"y_pred must be one column, found shape \(4, 4\).*\[:, 1\]"),
    ({"y_true": [1] * 4, "y_pred": [0, 1, 2, 1], "pos_label": 1}, "y_pred holds 0.*not among"),
    ({"sensitive_features": None}, "sensitive_features has no columns; pass the groups"),
    ({"sensitive_features": list("aab")}, "sensitive_features.*3 rows"),
    ({"sample_weight": [1, 2, 3]}, "sample_weight has 3 rows"),
    ({"sample_weight": [1, -2, 3, 4]}, "sample_weight must not be negative"),
    ({"by": "race"}, r"asks for \('race',\).*out of \['sex'\].*crossing"),
    ({"by": ("sex", "sex")}, r"asks for \('sex', 'sex'\).*each once"),
    ({"by": ()}, r"asks for \(\)"),
    ({"by": []}, r"asks for \(\)"),
    ({"confidence": 95}, "confidence must lie strictly between 0 and 1, found 95"),
]


@pytest.mark.parametrize(("change", "message"), BAD_DECISIONS)
def test_bad_decisions(change, message):
    with pytest.raises(InvalidInputError, match=message):
        group_rates(**GOOD | change)
    for function in (gap, ratio):
        with pytest.raises(InvalidInputError, match=message):
            function(**GOOD | change, rate="ppr")


def test_a_bad_confidence():
    with pytest.raises(InvalidInputError, match="confidence must"):
        gap(**GOOD, rate="ppr", confidence=1.0)


def test_unknown_names():
    with pytest.raises(ConstraintError, match="unknown rate 'auc'; expected one of fpr"):
        group_rates(**GOOD, rates=["fpr", "auc"])
    with pytest.raises(ConstraintError, match="unknown rate 'auc'"):
        gap(**GOOD, rate="auc")
    with pytest.raises(InvalidInputError, match="unknown interval 'wald'; expected one of wilson"):
        group_rates(**GOOD, interval="wald")


@pytest.mark.parametrize("by", [None, ["sex", "race"]])
@pytest.mark.parametrize("function", [gap, ratio])
def test_a_gap_is_about_one_attribute(function, by):
    case = GOOD | {"sensitive_features": {"sex": list("aabb"), "race": list("abab")}}
    with pytest.raises(InvalidInputError, match=r"one attribute, found \['sex', 'race'\].*by="):
        function(**case, rate="ppr", by=by)


@pytest.mark.parametrize("what", ["y_pred", "sensitive_features", "sample_weight"])
def test_rows_with_other_labels_are_not_matched_by_position(what):
    rows = {"y_pred": [0, 1, 1, 0], "sensitive_features": list("abba"), "sample_weight": [1.0] * 4}
    columns = {name: pd.Series(values) for name, values in rows.items()}
    truth = pd.Series([0, 1, 0, 1])
    gap(truth, rate="ppr", **columns)
    columns[what] = columns[what].iloc[::-1]
    with pytest.raises(InvalidInputError, match=rf"{what} and y_true have pandas indices"):
        gap(truth, rate="ppr", **columns)
    columns["y_score"] = columns.pop("y_pred").astype(float)
    with pytest.raises(InvalidInputError, match="and y_true have pandas indices"):
        audit(truth, **columns, threshold=0.5)
