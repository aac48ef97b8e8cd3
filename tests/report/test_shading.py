"""Shades of group tables: by the limit, by the four-fifths rule, and never by colour alone."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest

from fairboost.report import to_html, to_markdown
from fairboost.report.evidence import Limit
from fairboost.report.shading import Distance, Distances
from tests.evidence import make_evidence

pytest.importorskip("matplotlib", reason="the page has plots")


@pytest.fixture(scope="module")
def evidence():
    return make_evidence()


def of(evidence, group, rate="fnr", model="chosen"):
    found = Distances(evidence)
    (one,) = (
        r
        for r in evidence.rates
        if (r.where, r.model, r.group, r.rate, r.crossed) == ("test", model, group, rate, False)
    )
    return found.of(one)


def limited(evidence, *limits):
    return replace(evidence, asked=replace(evidence.asked, limits=limits))


@pytest.mark.parametrize(
    ("tolerance", "shade", "said"),
    [
        (0.05, 1, "0.010 from male, 20% of the limit"),
        (0.02, 1, "0.010 from male, 50% of the limit"),
        (0.01, 2, "0.010 from male, 100% of the limit"),
        (0.005, 3, "0.010 from male, 200% of the limit"),
        (0.004, 4, "0.010 from male, 250% of the limit"),
        (0.0, 4, "0.010 from male, the limit is 0"),
    ],
)
def test_the_farther_the_darker(evidence, tolerance, shade, said):
    found = of(limited(evidence, Limit("sex", "fnr", tolerance)), "female")
    assert (found.shade, found.said) == (shade, said)


def test_a_bound_is_about_its_group_alone(evidence):
    bounded = limited(evidence, Limit("sex", "fnr", 0.2, "female"))
    assert of(bounded, "female") == Distance(pytest.approx(1.05), "105% of the limit")
    assert of(bounded, "male") is None
    everyone = limited(evidence, Limit("", "fnr", 0.4, "everyone"))
    assert of(everyone, "everyone").shade == 1


def test_favourable_decisions_go_by_the_four_fifths_rule(evidence):
    assert of(evidence, "male", "ppr").share == 0  # the largest rate
    found = of(evidence, "female", "ppr")
    assert found.said == "0.976 of male"
    assert found.share == pytest.approx((1 - 0.41 / 0.42) / 0.2)
    own = limited(evidence, Limit("sex", "ppr", 0.02))
    assert of(own, "female", "ppr").said == "0.010 from male, 50% of the limit"


def test_without_a_limit_or_on_few_rows_there_is_no_shade(evidence):
    assert of(evidence, "female", "fpr") is None
    assert of(evidence, "everyone") is None
    assert of(evidence, "long name of a group, in many words") is None


def test_marks_and_words_say_what_shades_do(evidence):
    tight = limited(evidence, Limit("sex", "fnr", 0.004))
    page, text = to_html(tight), to_markdown(tight)
    assert re.search(
        'class="shade-4" data-key="0.21[0-9]*" data-name="test, this model">● 0.210', page
    )
    assert "● 0.210 [0.180, 0.240]" in text
    assert "0.010 from male, 250% of the limit" in text
    assert "Marks and shading show the distance" in text
    assert "Marks and shading" not in to_markdown(replace(limited(evidence), gaps=()))
