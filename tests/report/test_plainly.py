"""The first paragraph of a report: sentences that take no statistics to read."""

from __future__ import annotations

from dataclasses import replace

import pytest

from fairboost.report import Evidence, to_markdown
from fairboost.report.evidence import Asked, Data, Gap, GroupRate, Limit, SensitiveColumnUse
from fairboost.report.plainly import first_paragraph


def rate(group, value, name="fnr", attribute="sex", small=False):
    ends = (max(value - 0.02, 0.0), min(value + 0.02, 1.0))
    return GroupRate("test", "chosen", attribute, group, name, value, *ends, 1_000, small)


def gap(value, name="fnr", model="chosen", attribute="sex", spread=0.02):
    ends = (max(value - spread, 0.0), value + spread)
    return Gap("test", model, attribute, name, value, *ends, 0.5, 0.4, 0.6, "Male", "Female")


EQUAL_FNR = (Limit("sex", "fnr", 0.02),)


def evidence(rates=(), gaps=(), limits=EQUAL_FNR, **data):
    named = {"label": "outcome", "positive": "repaid", "negative": "default", **data}
    return Evidence(
        "Loans",
        Asked(("as asked",), limits=limits),
        Data(sensitive=(SensitiveColumnUse("sex", 2),), splits={"test": 2_000}, **named),
        rates=tuple(rates),
        gaps=tuple(gaps),
    )


FNR = (rate("Female", 0.312), rate("Male", 0.24))


def test_who_is_decided_how_more_often_than_whom():
    assert first_paragraph(evidence(FNR, [gap(0.072)])) == (
        "By sex: of the people whose “outcome” is “repaid”, the model decides “default” 1.3 times "
        "as often for Female as for Male (31% against 24%)."
    )


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("fpr", "of the people whose “outcome” is “default”, the model decides “repaid” 1.3"),
        ("tpr", "of the people whose “outcome” is “repaid”, the model decides “repaid” 1.3"),
        ("tnr", "of the people whose “outcome” is “default”, the model decides “default” 1.3"),
        ("ppr", "By sex: the model decides “repaid” 1.3 times as often for Female as for Male"),
        ("pnr", "By sex: the model decides “default” 1.3 times as often for Female as for Male"),
    ],
)
def test_every_rate_in_words(name, said):
    rates = [replace(r, rate=name) for r in FNR]
    assert said in first_paragraph(evidence(rates, limits=(Limit("sex", name, 0.02),)))


@pytest.mark.parametrize(
    ("high", "low", "said"),
    [
        (0.30, 0.295, "about equally often for Female and Male (30.0% and 29.5%)."),
        (0.2, 0.2, "about equally often for Male and Female (20% and 20%)."),
        (0.0, 0.0, "about equally often for Male and Female (0.0% and 0.0%)."),
        (0.31, 0.0, "“default” for 31.0% of Female and 0.0% of Male"),
        (0.4, 0.01, "“default” for 40% of Female and 1% of Male"),
    ],
)
def test_rates_that_are_equal_or_next_to_nothing(high, low, said):
    assert said in first_paragraph(evidence([rate("Female", high), rate("Male", low)]))


def test_what_may_be_chance_is_called_so():
    told = first_paragraph(evidence(FNR, [gap(0.072, spread=0.1)]))
    assert told.endswith("(31% against 24%), which may be chance.")


def test_labels_and_groups_without_names():
    rates = [rate("1", 0.312), rate("0", 0.24)]
    told = first_paragraph(evidence(rates, label="label", positive="1", negative=None))
    assert told == (
        "By sex: of the people whose label is “1”, the model decides not “1” 1.3 times as often "
        "for group 1 as for group 0 (31% against 24%)."
    )


def test_labels_that_are_codes_go_with_their_name():
    told = first_paragraph(evidence(FNR, label="repaid", positive="1", negative="0"))
    assert "of the people whose “repaid” is “1”, the model decides “repaid = 0” 1.3" in told


def test_small_groups_are_not_spoken_of():
    told = first_paragraph(evidence([*FNR, rate("Other", 0.9, small=True)]))
    assert "Other" not in told
    assert "1.3 times as often for Female as for Male" in told


def test_a_small_group_that_the_gap_is_to_is_named():
    few = replace(rate("Other", 0.75, small=True), rows=4)
    widest = replace(gap(0.51), highest_group="Other")
    assert first_paragraph(evidence([*FNR, few], [widest])).endswith(
        " (31% against 24%). The largest gap is to Other: 75%, based on only 4 rows."
    )


def test_a_bound_is_told_beside_what_was_asked():
    limits = (Limit("sex", "fnr", 0.3, "Female"), Limit("", "fpr", 0.1, "everyone"))
    rates = [*FNR, rate("everyone", 0.08, "fpr", attribute="")]
    told = first_paragraph(evidence(rates, limits=limits))
    assert "the model decides “default” for 31% of Female; at most 30% was asked for." in told
    assert "the model decides “repaid” for 8% of everyone; at most 10% was asked for." in told


def test_the_farthest_beyond_its_limit_is_first_and_few_are_told():
    names = ("fnr", "fpr", "ppr", "pnr", "tpr")
    rates = [rate(g, v, name) for name in names for g, v in (("Female", 0.3), ("Male", 0.2))]
    limits = tuple(Limit("sex", name, 0.05 - 0.01 * k) for k, name in enumerate(names))
    told = first_paragraph(evidence(rates, limits=limits))
    assert told.startswith(
        "By sex: of the people whose “outcome” is “repaid”, the model decides “rep"
    )
    assert told.count("By sex") == 4
    assert "1 further comparison" in told


def test_an_audit_tells_decisions_and_the_larger_error():
    rates = [
        rate(g, v, name) for name in ("fnr", "fpr", "ppr") for g, v in (("F", 0.3), ("M", 0.2))
    ]
    gaps = [gap(0.1), gap(0.02, "fpr"), replace(gap(0.1, "ppr"), four_fifths="fails")]
    told = first_paragraph(evidence(rates, gaps, limits=()))
    assert "By sex: the model decides “repaid” 1.5 times as often for F as for M" in told
    assert "whose “outcome” is “repaid”" in told
    assert "whose “outcome” is “default”" not in told


def test_which_other_gap_grew_is_said_with_figures():
    limits = (Limit("sex", "ppr", 0.02),)
    gaps = [gap(0.291), gap(0.01, "ppr"), gap(0.073, model="plain"), gap(0.2, "ppr", "plain")]
    told = first_paragraph(evidence(gaps=gaps, limits=limits))
    assert told == (
        "Another gap is larger than without the constraint: the gap in false negative rate by sex "
        "is 0.291, without the constraint it was 0.073."
    )


@pytest.mark.parametrize(
    ("before", "now", "said"),
    [(0.073, 0.085, ""), (0.291, 0.073, ""), (0.07, 0.1, "it was 0.070 (which may be chance).")],
)
def test_a_gap_that_did_not_grow_by_much(before, now, said):
    gaps = [gap(now, spread=0.05), gap(before, model="plain", spread=0.05)]
    told = first_paragraph(evidence(gaps=gaps, limits=(Limit("sex", "ppr", 0.02),)))
    assert told.endswith(said)
    assert bool(told) == bool(said)


def test_the_gap_that_was_asked_about_is_no_other_gap():
    """That of the true positive rate is that of the false negative rate."""
    gaps = [gap(0.291), gap(0.073, model="plain")]
    assert first_paragraph(evidence(gaps=gaps, limits=(Limit("sex", "tpr", 0.02),))) == ""


def test_decisions_that_say_nothing_are_told_first():
    found = replace(evidence(FNR), caution="The model decides next to nothing.")
    first = to_markdown(found).split("## In short")[1].strip()
    assert first.startswith("**✗ The model decides next to nothing.**")
