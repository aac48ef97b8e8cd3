"""The four-fifths rule: the examples of the Questions and Answers, and both tests."""

import re

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from fairboost.exceptions import InvalidInputError
from fairboost.filings import four_fifths
from fairboost.filings.four_fifths import FIELDS, FINDINGS
from fairboost.filings.significance import RateComparison


def people(counts):
    """Rows from a group to applicants and selected."""
    lines = [(g, k < selected) for g, (n, selected) in counts.items() for k in range(n)]
    frame = pd.DataFrame(lines, columns=["race", "selected"])
    return frame[["race"]], frame["selected"].to_numpy(bool)


def table_of(counts, **options):
    return four_fifths(*people(counts), **options).tables["race"].set_index("race")


# Questions and Answers (44 FR 11996): hiring rates of 60%, 45%, 48% and 51%.
EXAMPLE = {
    "White": (100, 60), "American Indian": (100, 45), "Hispanic": (100, 48), "Black": (100, 51),
}  # fmt: skip


def test_the_example_of_the_questions_and_answers():
    table = table_of(EXAMPLE)
    assert table.loc[["American Indian", "Hispanic", "Black"], "ratio"].tolist() == [
        0.75, 0.8, 0.85
    ]  # fmt: skip
    below = table["finding"].str.startswith("below four fifths")
    assert table.index[below].tolist() == ["American Indian"]  # 80% is not below
    assert table.loc["White", "finding"] == "highest rate"


def test_one_person_may_turn_the_result():
    filing = four_fifths(*people({"White": (80, 16), "Black": (20, 3)}))
    line = filing.tables["race"].set_index("race").loc["Black"]
    assert line["ratio"] == 0.75
    assert line["finding"] == FINDINGS["one"][0]
    assert line["rate if one more were selected"] == 0.2
    assert line["highest rate if one fewer were selected"] == 0.1875
    page = filing.to_markdown()
    assert "the rate of this group would be 20.0%, above 18.8%" in page
    assert "do not agree" in page


def test_tests_are_those_of_the_textbook():
    line = table_of({"a": (400, 200), "b": (300, 90)}).loc["b"]
    exact = stats.fisher_exact([[90, 210], [200, 200]])[1]
    assert line["Fisher's exact test, p"] == pytest.approx(exact)
    p = 290 / 700
    z = (0.3 - 0.5) / np.sqrt(p * (1 - p) * (1 / 300 + 1 / 400))
    assert line["standard deviations"] == pytest.approx(z)
    assert line["finding"] == FINDINGS["indicated"][0]
    assert line["more selections to reach four fifths"] == 30


@pytest.mark.parametrize(
    ("other", "kind"),
    [
        ((1_000, 500), "best"),  # of equals the first is the best
        ((1_000, 450), "significant"),
        ((100, 45), "none"),
        ((1_000, 300), "indicated"),
        ((20, 7), "chance"),
        ((5, 2), "none"),
        ((4, 1), "one"),
    ],
)
def test_findings(other, kind):
    table = table_of({"z": (1_000, 500), "a": other})
    assert table.loc["a", "finding"] == FINDINGS[kind][0]


counts = st.tuples(st.integers(1, 60), st.integers(0, 60)).map(lambda p: (p[0], min(p)))


@given(counts, counts)
def test_laws_of_comparisons(one, other):
    (n, k), (m, best) = one, other
    own = RateComparison(k, n, best, m)
    assert 0 <= own.fisher <= 1 + 1e-12
    assert own.at_least_four_fifths == (5 * k * m >= 4 * best * n)
    more = own.short_of_four_fifths
    assert (more == 0) == own.at_least_four_fifths
    assert RateComparison(k + more, n, best, m).at_least_four_fifths or k + more > n
    if more:
        assert not RateComparison(k + more - 1, n, best, m).at_least_four_fifths
    swapped = RateComparison(best, m, k, n)
    assert own.deviations == pytest.approx(-swapped.deviations)
    assert own.fisher == pytest.approx(swapped.fisher)


def test_groups_below_a_share_are_shown_and_not_compared():
    counts = {"a": (500, 200), "b": (480, 200), "tiny": (4, 4)}
    whole, without = table_of(counts), table_of(counts, leave_out_below=0.02)
    assert whole.loc["tiny", "finding"] == "highest rate"
    assert without.loc["tiny", "finding"].startswith("not compared")
    assert np.isnan(without.loc["tiny", "ratio"])
    assert without.loc["tiny", ["applicants", "selected"]].tolist() == [4, 4]
    assert without.loc["b", "ratio"] == 1.0
    page = four_fifths(*people(counts)).to_markdown()
    assert "race = tiny: 4 applicants, 0.4%" in page
    assert "2% of the applicable workforce" in page


def test_every_field_is_blank_until_it_is_filled_in():
    filled = {n: "2026-03-31" if f.is_date else f"text of {n}" for n, f in FIELDS.items()}
    empty = four_fifths(*people(EXAMPLE)).to_markdown()
    full = four_fifths(*people(EXAMPLE), fields=filled)
    for name, field in FIELDS.items():
        assert f"**{field.title}**: ☐ to be filled in by the employer" in empty
        assert f"**{field.title}**: {filled[name]}" in full.to_markdown().replace("\\_", "_")
    assert "☐" not in full.to_markdown()
    assert full.title == "Adverse impact: text of procedure"


def test_the_document_names_its_text_and_is_no_advice():
    filing = four_fifths(*people(EXAMPLE))
    for page in (filing.to_html(), filing.to_markdown()):
        assert "29 CFR § 1607.4 D" in page
        assert "44 FR 11996" in page
        assert "not legal advice" in page
    assert "No group is below" in four_fifths(*people({"a": (9, 5), "b": (9, 5)})).to_markdown()
    bad = four_fifths(*people({"a": (900, 500), "b": (900, 200)})).to_markdown()
    assert "Adverse impact is indicated" in bad


def test_several_columns_have_a_table_each(tmp_path):
    groups, selected = people(EXAMPLE)
    groups = groups.assign(**{"Sex/Gender": np.where(np.arange(400) % 2, "F", "M")})
    files = {p.name for p in four_fifths(groups, selected).write(tmp_path)}
    assert {"four_fifths-race.csv", "four_fifths-sex_gender.csv"} <= files


@pytest.mark.parametrize(
    ("counts", "options", "message"),
    [
        ({"a": (9, 5)}, {}, "has one known group, 'a'"),
        ({"a": (9, 5), "b": (9, 5)}, {"leave_out_below": 1.5}, "a share between 0 and 1"),
        ({"a": (9, 5), "b": (9, 5)}, {"leave_out_below": 0.6}, "every group of 'race' is below"),
    ],
)
def test_what_will_not_do(counts, options, message):
    with pytest.raises(InvalidInputError, match=re.escape(message)):
        four_fifths(*people(counts), **options)


def test_nobody_selected():
    counts = {"a": (9, 0), "b": (9, 0)}
    assert "Nobody was selected" in four_fifths(*people(counts)).to_markdown()
    table = table_of(counts)
    assert (table["finding"] == FINDINGS["nobody"][0]).all()
