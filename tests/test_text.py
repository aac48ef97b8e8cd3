"""Figures and tables as text."""

import pytest

from fairboost._text import escape_markdown, interval, markdown_table, text_table


def test_an_interval_has_the_places_asked_for():
    assert interval(0.12345, 0.1, 0.2, 4) == "0.1235 [0.1000, 0.2000]"


def test_columns_of_a_table_are_aligned():
    lines = markdown_table(["a", "long title"], [["value", "b"], ["x", "y"]]).splitlines()
    assert lines[1] == "| ----- | ---------- |"
    assert len({len(line) for line in lines}) == 1


def test_numbers_of_rows_stand_to_the_right():
    assert text_table(["g", "test rows"], [["a", "1"]]).splitlines()[1] == "a          1"


@pytest.mark.parametrize(
    "text",
    [
        "a|b",
        "*x*",
        "`code`",
        "[t](http://x.y)",
        "1. first",
        "- item",
        "<script>",
        "# title",
        "a\nb",
    ],
)
def test_text_from_data_stays_text(text):
    """By hand: no character that Markdown acts upon is left without its backslash."""
    found = escape_markdown(text)
    plain = found.replace("\\", "")
    assert plain == " ".join(text.split())
    assert "\n" not in found
    for k, mark in enumerate(found):
        if mark in "|*`<#":
            assert found[k - 1] == "\\"
    assert not found.startswith(("1. ", "- ")) and "http:" not in found.replace("http\\:", "")
