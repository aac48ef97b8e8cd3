"""Figures and tables as text."""

import pytest

from fairboost._text import (
    did_you_mean,
    escape_html,
    escape_markdown,
    interval,
    markdown_table,
    printable,
    text_table,
)


def test_an_interval_has_the_places_asked_for():
    assert interval(0.12345, 0.1, 0.2, 4) == "0.1235 [0.1000, 0.2000]"


@pytest.mark.parametrize(
    ("word", "words", "meant"),
    [
        ("Income", ["hours", "income"], "income"),
        ("sex", ["SEX", "AGE"], "SEX"),
        ("ALTERSGRUPPE", ["altersgruppe", "x"], "altersgruppe"),
        ("Straße", ["STRASSE"], "STRASSE"),
        ("male", ["Male", "Female"], "Male"),
        (11, [1, 10, 110], 110),
        ("x", ["hours"], None),
        ("x", [], None),
    ],
)
def test_the_word_that_was_perhaps_meant_is_spelled_as_it_is(word, words, meant):
    expected = "" if meant is None else f"; did you mean {meant!r}?"
    assert did_you_mean(word, words) == expected


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


@pytest.mark.parametrize("code", [0, 7, 10, 13, 0x1B, 0x7F, 0x9B, 0x202E, 0x2029, 0xDC80, 0xFFFF])
def test_what_is_obeyed_and_not_shown_is_spelled_out(code):
    """In every form; a terminal, a page and a file then show the same."""
    text = f"a{chr(code)}b"
    for shown in (printable(text), escape_html(text), text_table([text], [])):
        assert shown.isprintable()
        assert shown.encode("utf-8").decode("unicode_escape") == text
    assert escape_markdown(text).isprintable()


@pytest.mark.parametrize(
    "text", ["naïve", "日本", "a\u00a0b", "👩\u200d🔬", "می\u200cخواهم", "\\x1b"]
)
def test_letters_of_all_languages_stay(text):
    assert printable(text) == text
