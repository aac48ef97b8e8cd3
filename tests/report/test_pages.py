"""What the report says, as HTML and as Markdown, and that values stay text."""

from __future__ import annotations

import json
import re
import sys
from dataclasses import replace
from html.parser import HTMLParser

import pytest

from fairboost._text import escape_markdown
from fairboost.fairness.rates import RATES
from fairboost.report import Evidence, to_html, to_markdown, write_report
from fairboost.report.evidence import Asked, Data, SensitiveColumnUse
from fairboost.report.layout import lay_out
from tests.evidence import IMAGE, SCRIPT, make_evidence, rates

pytest.importorskip("matplotlib", reason="the page has plots")


@pytest.fixture(scope="module")
def evidence():
    return make_evidence()


@pytest.fixture(scope="module")
def page(evidence):
    return to_html(evidence)


@pytest.fixture(scope="module")
def markdown(evidence):
    return to_markdown(evidence)


class Parsed(HTMLParser):
    """Tags in order, and the text outside of scripts and styles."""

    def __init__(self, page):
        super().__init__()
        self.tags, self.text, self.silent = [], [], False
        self.feed(page)

    def handle_starttag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))
        self.silent = tag in ("script", "style")

    def handle_endtag(self, tag):
        self.silent = False

    def handle_data(self, data):
        if not self.silent:
            self.text.append(data)


def test_sections_in_the_order_of_questions(evidence):
    titles = [section.title for section in lay_out(evidence)]
    assert titles == [
        "In short",
        "What was asked",
        "What was met",
        "Rates by group",
        "Gaps and ratios between groups",
        "How well it predicts",
        "Alternatives considered",
        "Crossed groups, and cells too small to judge",
        "Scores by group",
        "How training went",
        "The data",
        "The model",
        "Limits",
        "Words and abbreviations",
    ]


def test_both_forms_have_the_same_tables(page, markdown, evidence):
    text = " ".join(Parsed(page).text)
    for section in lay_out(evidence):
        assert f"## {section.title}" in markdown
        for block in section.blocks:
            for row in getattr(block, "rows", ()):
                for cell in row:
                    assert cell.text in text.replace("\u00a0", " ")
                    assert escape_markdown(cell.text) in markdown


def test_what_was_found_is_said_first(markdown):
    head = markdown.split("## What was asked")[0]
    assert (
        "2 constraints, judged on the test rows: 1 met on the test rows, not certain; 1 met."
        in head
    )
    assert "The gap is 0.010 (95% interval 0.000 to 0.030), the limit 0.02" in head
    assert "a difference of -0.010 [-0.020, 0.000]; higher is better" in head
    assert "fewer than 30 rows" in head


LIKELY, UNLIKELY = "met on these rows, not certain", "not met on these rows, not certain"


@pytest.mark.parametrize(
    ("statuses", "said"),
    [
        (["met", "met"], "✓ 2 constraints, judged on the test rows: 2 met."),
        (["not met", "met"], "✗ 2 constraints, judged on the test rows: 1 not met; 1 met."),
        (
            ["met", "not met on these rows, not certain"],
            "? 2 constraints, judged on the test rows: 1 not met on the test rows, not certain; "
            "1 met.",
        ),
        (["met"], "✓ The constraint is met on the test rows."),
        (["not met"], "✗ The constraint is not met on the test rows."),
        (
            ["met on these rows, not certain"],
            "? The constraint is met on the test rows, not certain.",
        ),
        (["a word of a later version"], "? The constraint: a word of a later version on the test"),
    ],
)
def test_headline(evidence, statuses, said):
    tests = [f for f in evidence.verdicts if f.where == "test"]
    verdicts = tuple(replace(f, status=s) for f, s in zip(tests, statuses, strict=False))
    assert said in to_markdown(replace(evidence, verdicts=verdicts))


def test_confidence_changes_what_met_means(evidence):
    asked = replace(evidence.asked, confidence=0.9)
    assert "A confidence of 90% was asked for" in to_markdown(replace(evidence, asked=asked))


def test_small_groups_are_named(markdown):
    part = markdown.split("cells too small to judge")[1].split("**Rates where")[0]
    assert "long name of a group" in part
    assert "female\n" not in part


def test_many_cells_do_not_swell_the_page(evidence):
    """Three columns of 20 groups, and a curve of 20 models."""
    one = rates()[0]
    many = tuple(
        replace(one, attribute=f"column {c}", group=f"a group with a name {k}", rate=rate)
        for c in range(3)
        for k in range(20)
        for rate in ("fnr", "fpr", "ppr", "precision")
    )
    cells = tuple(
        replace(one, attribute="a, b", group=f"cell {k}", rate="fnr", crossed=True, small=k < 99)
        for k in range(5_000)
    )
    point = replace(evidence.tradeoff.points[0], rates=many)
    large = replace(
        evidence,
        rates=(*many, *(replace(r, model="plain") for r in many), *cells),
        tradeoff=replace(evidence.tradeoff, points=(point,) * 20),
        roc=(),
        scores=(),
        calibration=(),
    )
    text = to_markdown(large)
    assert "The first 1,500 of 5,000 lines are shown" in text
    assert "and 69 more" in text
    assert len(to_html(large).encode()) < 2_000_000


def test_every_abbreviation_is_spelled_out(page, evidence):
    """Capitals, and short names of rates, wherever they stand; names from the data apart."""
    words = {word for text in Parsed(page).text for word in re.findall(r"[A-Za-z]+", text)}
    short = {word for word in words if word in RATES or (word.isupper() and len(word) > 1)}
    meanings = to_markdown(evidence).split("## Words and abbreviations")[1]
    said = set(re.findall(r"^- \*\*([A-Za-z]+)", meanings, re.MULTILINE))
    assert short >= {"AUC", "ROC", "SHA", "fnr"}
    assert short - said == set()


def test_what_is_not_on_the_page_is_not_explained(evidence):
    few = replace(evidence, roc=(), performance=(), rounds=None)
    meanings = to_markdown(few).split("## Words and abbreviations")[1]
    assert "AUC" not in meanings
    assert "fnr" not in meanings


def test_least_evidence():
    """An audit with rates alone."""
    data = Data("y", "1", (SensitiveColumnUse("sex", 2),), {"test": 500})
    least = Evidence("Audit", Asked(), data, rates=rates())
    assert "Rates by group" in to_html(least)
    text = to_markdown(least)
    assert "The model" not in text
    assert "Alternatives" not in text


def test_same_evidence_same_page_whatever_the_settings(evidence, page):
    from matplotlib import pyplot as plt

    before = plt.get_fignums()
    with plt.rc_context({"font.size": 20, "axes.grid": True, "svg.fonttype": "path"}):
        assert to_html(Evidence.from_json(evidence.to_json())) == page
        assert plt.rcParams["font.size"] == 20
    assert plt.get_fignums() == before


def test_page_is_small_and_alone(page):
    assert len(page.encode()) < 2_000_000
    parsed = Parsed(page)
    for tag, attributes in parsed.tags:
        assert tag not in ("link", "iframe", "img", "object", "embed", "base", "form")
        assert "src" not in attributes
        assert attributes.get("href", "#").startswith("#")
        assert not [name for name in attributes if name.startswith("on")]
    assert "http" not in re.sub(r'http-equiv|xmlns[^ >]*="[^"]*"', "", page)


def test_values_are_text_in_html(page):
    parsed = Parsed(page)
    scripts = [attributes for tag, attributes in parsed.tags if tag == "script"]
    assert scripts == [{"type": "application/json"}, {}]
    assert SCRIPT in " ".join(parsed.text)
    assert IMAGE in " ".join(parsed.text)


def test_policy_names_the_script(page):
    """Its own script by checksum, and no other."""
    import base64
    import hashlib

    script = re.search(r"<script>(.*?)</script>", page, re.DOTALL).group(1)
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    (policy,) = re.findall(r'Content-Security-Policy" content="([^"]*)"', page)
    assert "default-src 'none'" in policy
    assert f"script-src 'sha256-{digest}';" in policy


def test_slider_has_every_model(page, evidence):
    text = re.search(r'<script type="application/json">(.*?)</script>', page, re.DOTALL).group(1)
    assert not set("<>&") & set(text)
    found = json.loads(text)
    assert len(found["names"]) == len(found["tables"]) == len(evidence.tradeoff.points)
    first = evidence.tradeoff.points[0].rates
    shown = [row[0][1] for row in found["tables"][0]]
    assert shown == [r.value for r in first if r.rate == "fnr"]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("<script>", r"\<script\>"),
        ("a|b", r"a\|b"),
        ("two\nlines", "two lines"),
        ("[x](javascript:y)", r"[x\](javascript:y)"),
        ("![x](y)", r"\![x\](y)"),
        ("[x]: http://y", r"[x\]: http\://y"),
        ("*a* _b_ `c` #d", r"\*a\* \_b\_ \`c\` \#d"),
        ("1. one", r"1\. one"),
        ("- one", r"\- one"),
        ("--- ", r"\---"),
        ("0.5 [0.1, 0.9]", "0.5 [0.1, 0.9]"),
        ("-0.5", "-0.5"),
        ("&lt;", r"\&lt;"),
        ("www.example.org", r"www\.example.org"),
    ],
)
def test_markdown_escapes(text, expected):
    assert escape_markdown(text) == expected


def test_tables_of_markdown_are_whole(markdown):
    """As many bars in every line of a table, escaped ones apart."""
    for table in re.findall(r"(?:^\|.*\n)+", markdown, re.MULTILINE):
        bars = {len(re.findall(r"(?<!\\)\|", line)) for line in table.splitlines()}
        assert len(bars) == 1


def test_files(evidence, page, markdown, tmp_path):
    paths = write_report(evidence, tmp_path)
    assert [p.name for p in paths] == ["report.html", "report.md", "evidence.json"]
    assert paths[0].read_text(encoding="utf-8") == page
    assert paths[1].read_text(encoding="utf-8") == markdown
    assert Evidence.load(paths[2]) == evidence
    assert sorted(p.name for p in tmp_path.iterdir()) == sorted(p.name for p in paths)


def test_without_matplotlib_nothing_is_written(evidence, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib.pyplot", None)
    with pytest.raises(ImportError, match=r'pip install "fairboost\[plots\]"'):
        write_report(evidence, tmp_path)
    assert list(tmp_path.iterdir()) == []
    assert to_markdown(evidence)
