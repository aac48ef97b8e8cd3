"""Local Law 144: the examples of the rule, and every field of the document.

6 RCNY 5-301 prints two worked examples. The one on selection rates has 1,390 men of whom 667 were
selected (48%, impact ratio 1.00), and 1,181 women of whom 555 were (47%, 0.979). The one on scores
has 92 men (scoring rate 54.3%, 1.00) and 76 women (44.7%, 0.82); of five of its categories of race
the number of applicants and the impact ratio are repeated below. (It prints 64.2% for what must be
18 of 28 people, cut and not rounded.)
"""

import csv
import json
import re
from io import StringIO

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairboost.exceptions import InvalidInputError
from fairboost.filings import ll144
from fairboost.filings.ll144 import FIELDS
from fairboost.metrics import group_rates


def people(counts):
    """Rows from (sex, race) to applicants and selected."""
    lines = [
        (sex, race, k < selected)
        for (sex, race), (applicants, selected) in counts.items()
        for k in range(applicants)
    ]
    frame = pd.DataFrame(lines, columns=["sex", "race", "selected"])
    return frame[["sex", "race"]], frame["selected"].to_numpy(bool)


COUNTS = {
    ("Female", "Asian"): (200, 80),
    ("Male", "Asian"): (200, 100),
    ("Female", "White"): (300, 90),
    ("Male", "White"): (290, 145),
    ("Female", "Native American"): (4, 1),
    ("Male", "Native American"): (6, 6),
}


def test_selection_rates_of_the_rules_example():
    groups, selected = people({
        ("Male", "a"): (690, 300), ("Male", "b"): (700, 367),
        ("Female", "a"): (581, 300), ("Female", "b"): (600, 255),
    })  # fmt: skip
    table = ll144(groups, selected=selected).tables["sex"].set_index("sex")
    assert table.loc["Male", ["applicants", "selected"]].tolist() == [1390, 667]
    assert table.loc["Female", ["applicants", "selected"]].tolist() == [1181, 555]
    assert [f"{rate:.0%}" for rate in table.loc[["Male", "Female"], "selection rate"]] == [
        "48%", "47%"
    ]  # fmt: skip
    assert f"{table.loc['Male', 'impact ratio']:.2f}" == "1.00"
    assert f"{table.loc['Female', 'impact ratio']:.3f}" == "0.979"


def test_scoring_rates_of_the_rules_example_by_sex():
    above = {"Male": (92, 50), "Female": (76, 34)}  # half of 168 people are above the median
    frame = pd.DataFrame(
        [(sex, k % 2, 2.0 + k if k < many else -float(k)) for sex, (n, many) in above.items()
         for k in range(n)],
        columns=["sex", "race", "score"],
    )  # fmt: skip
    filing = ll144(frame[["sex", "race"]], scores=frame["score"])
    table = filing.tables["sex"].set_index("sex")
    assert table.loc[["Male", "Female"], "above the median"].tolist() == [50, 34]
    shown = [f"{100 * rate:.1f}%" for rate in table.loc[["Male", "Female"], "scoring rate"]]
    assert shown == ["54.3%", "44.7%"]
    assert [f"{r:.2f}" for r in table.loc[["Male", "Female"], "impact ratio"]] == ["1.00", "0.82"]


def test_scoring_rates_of_the_rules_example_by_race():
    printed = {
        "Hispanic or Latino": (28, 18, "1.00"),
        "White": (40, 15, "0.58"),
        "Black or African American": (32, 16, "0.78"),
        "Native Hawaiian or Pacific Islander": (8, 5, "0.97"),
        "Asian": (24, 10, "0.65"),
    }
    # The two other categories, so that half of the people are above the median.
    rows = [(race, k < many) for race, (n, many, _) in printed.items() for k in range(n)]
    rows += [("other", False)] * 2 + [("other 2", k < 1) for k in range(2)]
    frame = pd.DataFrame(rows, columns=["race", "above"])
    extra = int(len(frame) - 2 * frame["above"].sum())
    frame = pd.concat([frame, pd.DataFrame({"race": None, "above": [extra > 0] * abs(extra)})])
    frame["score"] = np.where(frame["above"], 60.0, 40.0) + np.arange(len(frame)) / 1000
    frame["sex"] = np.where(np.arange(len(frame)) % 2, "F", "M")
    table = ll144(frame[["sex", "race"]], scores=frame["score"]).tables["race"].set_index("race")
    for race, (n, many, ratio) in printed.items():
        assert table.loc[race, ["applicants", "above the median"]].tolist() == [n, many]
        assert f"{table.loc[race, 'impact ratio']:.2f}" == ratio


def test_rates_are_those_of_the_metrics():
    groups, selected = people(COUNTS)
    tables = ll144(groups, selected=selected).tables
    ours = group_rates(np.zeros(len(selected), int), selected, sensitive_features=groups,
                       rates="ppr", by=["race", ("race", "sex")], pos_label=1)  # fmt: skip
    for name, attribute in (("race", "race"), ("intersection", "race, sex")):
        rates = ours.loc[ours["attribute"] == attribute]
        np.testing.assert_allclose(tables[name]["selection rate"], rates["value"])
        np.testing.assert_allclose(tables[name]["rate, low end of 95% interval"], rates["low"])


def test_intersections_are_compared_with_the_most_selected_one():
    groups, selected = people(COUNTS)
    table = ll144(groups, selected=selected).tables["intersection"]
    found = {(r["sex"], r["race"]): r["impact ratio"] for r in table.to_dict("records")}
    assert found["Male", "Native American"] == 1.0  # 6 of 6
    assert found["Female", "White"] == 0.3


def test_small_categories_are_left_out_with_their_numbers():
    groups, selected = people(COUNTS)
    filing = ll144(groups, selected=selected, leave_out_below=0.02)
    table = filing.tables["intersection"].set_index(["race", "sex"])
    small = table.loc["Native American"]
    assert small["impact ratio"].isna().all()
    assert small["applicants"].tolist() == [4, 6]
    assert small["selection rate"].tolist() == [0.25, 1.0]
    assert (small["left out of the impact ratio"] == "yes").all()
    assert table.loc[("White", "Female"), "impact ratio"] == 0.6  # of 50%, and not of 100%
    page = filing.to_markdown()
    assert "| Native American | Female | 4" in page
    assert re.search(r"\| left out +\|", page)
    assert "Reason for leaving out categories under 2%**: ☐ to be filled in" in page
    assert "Native American, Female: 4 applicants, 0.4% of the data" in page


def test_small_categories_are_named_where_none_is_left_out():
    groups, selected = people(COUNTS)
    page = ll144(groups, selected=selected).to_markdown()
    assert "the rule allows an auditor to leave them out with a reason" in page
    assert "Fewer than 5 people: Native American, Female." in page


def test_unknown_categories_are_counted_and_in_no_table():
    groups, selected = people(COUNTS)
    groups = groups.astype(object)
    groups.iloc[:7, 0] = None
    groups.iloc[5:15, 1] = "Prefer not to say"
    groups.iloc[20:22, 1] = "x"
    filing = ll144(groups, selected=selected, unknown=["X"])
    assert filing.facts["unknown"] == {"sex": 7, "race": 12, "either": 17}
    assert filing.tables["sex"]["applicants"].sum() == 1000 - 7
    assert filing.tables["race"]["applicants"].sum() == 1000 - 12
    assert filing.tables["intersection"]["applicants"].sum() == 1000 - 17
    page = filing.to_markdown()
    assert "17 of 1,000 people have an unknown sex or an unknown race" in page
    assert "race: 'Prefer not to say', 'x'" in page
    assert "**People of unknown category**: 17" in page


def test_the_median_is_that_of_the_full_sample_and_equal_scores_are_not_above_it():
    scores = [1.0, 2.0, 2.0, 2.0, 5.0, 9.0]
    groups = {"sex": ["F", "F", "M", "M", None, "M"], "race": ["a", "b", "a", "b", "a", "b"]}
    filing = ll144(groups, scores=scores)
    assert filing.facts["median"] == 2.0
    table = filing.tables["sex"].set_index("sex")
    assert table["above the median"].to_dict() == {"F": 0, "M": 1}
    assert "the median score of the full sample is 2." in filing.to_markdown()


@given(st.lists(st.tuples(st.sampled_from("FM"), st.sampled_from("ab"), st.booleans()),
                min_size=4, max_size=60))  # fmt: skip
def test_whole_equals_parts(rows):
    frame = pd.DataFrame(rows, columns=["sex", "race", "selected"])
    if frame["sex"].nunique() < 2 or frame["race"].nunique() < 2:
        return
    tables = ll144(frame[["sex", "race"]], selected=frame["selected"]).tables
    for table in tables.values():
        assert table["applicants"].sum() == len(frame)
        assert table["selected"].sum() == frame["selected"].sum()
        if frame["selected"].any():
            assert table["impact ratio"].max() == 1.0
            best = table["selection rate"].max()
            np.testing.assert_allclose(table["impact ratio"], table["selection rate"] / best)
        else:
            assert table["impact ratio"].isna().all()


FILLED = {
    name: "2026-03-31" if field.is_date else f"value of {name}" for name, field in FIELDS.items()
}


def test_every_field_is_blank_until_it_is_filled_in():
    groups, selected = people(COUNTS)
    empty = ll144(groups, selected=selected, leave_out_below=0.02).to_markdown()
    full = ll144(groups, selected=selected, leave_out_below=0.02, fields=FILLED)
    for name, field in FIELDS.items():
        title = re.escape(field.title)
        assert re.search(rf"\*\*{title}\*\*: ☐ to be filled in by {field.by}", empty), name
        assert re.search(
            rf"\*\*{title}\*\*: {FILLED[name]}", full.to_markdown().replace("\\_", "_")
        )
    assert full.title == "Bias audit: value of tool"
    left = [line for line in full.to_markdown().splitlines() if "☐" in line]
    assert len(left) == 1 and "signature" in left[0]  # which nobody can type


def test_historical_data_needs_no_word_on_test_data():
    groups, selected = people(COUNTS)
    page = ll144(groups, selected=selected, fields={"data_kind": "historical"}).to_markdown()
    assert "If test data" not in page


def test_the_document_names_its_text_and_is_no_advice():
    groups, selected = people(COUNTS)
    filing = ll144(groups, selected=selected)
    for page in (filing.to_html(), filing.to_markdown()):
        assert "6 RCNY §§ 5-300 to 5-304" in page
        assert "not legal advice" in page
        assert "5 July 2023" in page


def test_files_hold_the_same_figures(tmp_path):
    groups, selected = people(COUNTS)
    filing = ll144(groups, selected=selected, data={"File": "<b>.csv"})
    files = filing.write(tmp_path / "new")
    names = {path.name for path in files}
    assert names == {"ll144.html", "ll144.md", "ll144.json", "ll144-sex.csv", "ll144-race.csv",
                     "ll144-intersection.csv"}  # fmt: skip
    assert names == {path.name for path in (tmp_path / "new").iterdir()}
    table = pd.read_csv(tmp_path / "new" / "ll144-sex.csv")
    pd.testing.assert_frame_equal(table, filing.tables["sex"], check_dtype=False)
    document = json.loads((tmp_path / "new" / "ll144.json").read_text())
    assert document["format"] == "ll144"
    assert document["people"] == 1000
    assert document["tables"]["sex"][0]["applicants"] == 504
    assert "&lt;b&gt;.csv" in (tmp_path / "new" / "ll144.html").read_text()


def test_categories_are_no_formulas_in_a_spreadsheet():
    groups, selected = people({("=1+1", "a\x1b[2J"): (5, 2), ("\t=1", "b"): (5, 2)})
    filing = ll144(groups, selected=selected)
    from fairboost.filings.filing import _csv

    rows = list(csv.reader(StringIO(_csv(filing.tables["sex"]))))
    assert {rows[1][0], rows[2][0]} == {"'=1+1", "\\t=1"}  # a terminal obeys nothing either
    assert "a\\x1b[2J" in _csv(filing.tables["race"])


def test_a_terminal_obeys_nothing_of_a_table():
    """Nor does the name of a column, where `cat` shows the file."""
    groups, selected = people({("\x1b[2Jred", "a"): (5, 2), ("M", "b"): (5, 2)})
    from fairboost.filings.filing import _csv

    table = ll144(groups, selected=selected).tables["sex"].rename(columns={"rate": "r\x9b31m"})
    text = _csv(table)
    assert "\\x1b[2Jred" in text
    assert not set(text) & {"\x1b", "\x9b"}


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"selected": None}, "pass either selected or scores"),
        ({"leave_out_below": 0.1}, "a share of at most 0.02"),
        ({"fields": {"audit_day": "2026-01-01"}}, "has no field 'audit_day'; expected one"),
        ({"fields": {"audit_date": "31.3.2026"}}, "must be a day such as 2026-03-31"),
        ({"fields": {"tool": " "}}, "the field 'tool' is empty"),
        ({"groups": {"sex": ["F"] * 4, "race": list("abab")}}, "'sex' has one known category"),
        ({"groups": {"sex": ["Unknown", None, "?", None], "race": list("abab")}},
         "'sex' is unknown for everyone"),
        ({"groups": {"sex": list("FMFM")}}, "takes two columns, sex and race"),
        ({"selected": [0, 1, 2, 1]}, "must be a column of True and False"),
        ({"selected": [], "groups": {"sex": [], "race": []}}, "there are no rows"),
        ({"selected": None, "scores": [1, 2, np.nan, 4]}, "none of them missing"),
    ],
)  # fmt: skip
def test_what_will_not_do(change, message):
    options = {"groups": {"sex": list("FMFM"), "race": list("aabb")}, "selected": [1, 0, 1, 1]}
    options |= change
    groups = options.pop("groups")
    with pytest.raises(InvalidInputError, match=re.escape(message)):
        ll144(groups, **options)


def test_nobody_selected_has_no_ratio():
    filing = ll144({"sex": list("FMFM"), "race": list("aabb")}, selected=[False] * 4)
    assert "no impact ratio, since nobody was selected" in filing.to_markdown()
