"""Evidence goes to JSON and back, and what is not evidence is refused with its place."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest

from fairboost.exceptions import EvidenceError
from fairboost.report import Evidence, to_markdown
from fairboost.report.evidence import Asked, Data, Performance
from tests.evidence import make_evidence


@pytest.fixture(scope="module")
def evidence():
    return make_evidence()


def test_round_trip(evidence):
    assert Evidence.from_json(evidence.to_json()) == evidence


def test_file_round_trip(evidence, tmp_path):
    path = tmp_path / "evidence.json"
    evidence.save(path)
    assert Evidence.load(path) == evidence


def test_optional_parts_may_be_absent():
    least = Evidence("Audit", Asked(), Data("y", "1", (), {"test": 5}))
    assert Evidence.from_json(least.to_json()) == least
    # As a file written by hand may have it: only what has no default.
    document = json.loads(least.to_json())
    content = document["evidence"]
    document["evidence"] = {k: content[k] for k in ("title", "asked", "data")}
    assert Evidence.from_json(json.dumps(document)) == least


def test_verdicts_of_earlier_versions_are_read_and_drawn(evidence):
    older = evidence.to_json().replace('"fails"', '"too few rows to tell"')
    older = older.replace('"met on these rows, not certain"', '"too few rows to tell"')
    text = to_markdown(Evidence.from_json(older))
    assert "1 met; 1 too few rows to tell" in text


def test_same_evidence_same_text(evidence):
    assert evidence.to_json() == make_evidence().to_json()


def test_an_integer_may_stand_for_a_float(evidence):
    text = evidence.to_json().replace('"level": 0.95', '"level": 1')
    level = Evidence.from_json(text).asked.level
    assert level == 1.0
    assert isinstance(level, float)


@pytest.mark.parametrize("value", [np.nan, np.inf, np.array([1.0]), object()])
def test_what_has_no_json_is_refused_on_the_way_out(evidence, value):
    odd = replace(evidence, performance=(Performance("chosen", "accuracy", value),))
    with pytest.raises(EvidenceError, match=r"evidence\.performance\[0\]\.value must be"):
        odd.to_json()


def test_figures_of_numpy_become_plain(evidence):
    odd = replace(evidence, performance=(Performance("chosen", "accuracy", np.float64(0.5)),))
    assert Evidence.from_json(odd.to_json()).performance[0].value == 0.5


def edited(evidence, change):
    document = json.loads(evidence.to_json())
    change(document["evidence"])
    return json.dumps(document)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda e: e.pop("title"), r"evidence lacks title"),
        (lambda e: e.update(more=1), r"evidence has the unknown entries more"),
        (lambda e: e["rates"][2].update(value="x"), r"rates\[2\]\.value must be a number, found"),
        (lambda e: e["rates"][2].update(value=True), r"rates\[2\]\.value must be a number"),
        (lambda e: e["rates"][2].update(low=float("nan")), r"rates\[2\]\.low must be a number"),
        (lambda e: e["rates"][2].update(small=1), r"small must be true or false, found 1"),
        (lambda e: e["rates"][2].update(group=None), r"rates\[2\]\.group must be text"),
        (lambda e: e.update(rates={}), r"evidence\.rates must be a list"),
        (lambda e: e["data"].update(splits=[1]), r"evidence\.data\.splits must be an object"),
        (lambda e: e["data"]["splits"].update(a=0.5), r"splits\['a'\] must be an integer"),
        (lambda e: e["asked"].update(favourable="no"), r"must be one of 'positive', 'negative'"),
        (lambda e: e["gaps"][0].update(four_fifths="perhaps"), r"four_fifths must be one of"),
        (lambda e: e["model"]["options"].update(a=[1]), r"options\['a'\] must be text"),
        (lambda e: e.update(asked=[]), r"evidence\.asked must be an object"),
    ],
)
def test_unsound_content_is_named(evidence, change, message):
    with pytest.raises(EvidenceError, match=message) as caught:
        Evidence.from_json(edited(evidence, change), "a.json")
    assert str(caught.value).startswith("a.json: ")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{", "does not parse as JSON"),
        ("[]", "expected a JSON object with format 'fairboost-evidence'"),
        ('{"format": "fairboost-model"}', "expected a JSON object with format"),
        ('{"format": "fairboost-evidence", "format_version": 9}', "version 9, this fairboost"),
    ],
)
def test_other_documents_are_refused(text, message):
    with pytest.raises(EvidenceError, match=message):
        Evidence.from_json(text)


def test_a_file_that_is_not_text(tmp_path):
    path = tmp_path / "evidence.json"
    path.write_bytes(b"\xff\xfe\x00")
    with pytest.raises(EvidenceError, match="it is not text"):
        Evidence.load(path)
