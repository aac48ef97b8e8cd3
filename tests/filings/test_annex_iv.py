"""Annex IV: every point of the annex, filled or blank, with the figures of the evidence."""

import json
from dataclasses import replace

import pytest

from fairboost.exceptions import InvalidInputError
from fairboost.filings import annex_iv
from fairboost.filings.annex_iv import FIELDS
from tests.evidence import make_class_evidence, make_evidence, make_number_evidence


@pytest.fixture(scope="module")
def evidence():
    return make_evidence()


def test_every_point_of_the_annex_is_there(evidence):
    page = annex_iv(evidence, evidence).to_markdown()
    points = [f"1 ({c})" for c in "abcdefgh"] + [f"2 ({c})" for c in "abcdefgh"]
    for point in [*points, *(f"**{n} " for n in range(4, 10))]:
        assert point in page, point
    for n in range(1, 5):
        assert f"## {n}" in page
    for article in ("Article 9", "Article 14", "Article 47", "Article 72"):
        assert article in page


def test_every_field_is_blank_until_it_is_filled_in(evidence):
    filled = {name: f"text of {name}" for name in FIELDS}
    empty, full = (annex_iv(evidence, fields=f).to_markdown() for f in (None, filled))
    full = full.replace("\\_", "_")
    for name, field in FIELDS.items():
        assert f"**{field.title}**: ☐ to be filled in by the provider" in empty
        assert f"**{field.title}**: text of {name}" in full
    left = [line for line in full.splitlines() if "☐" in line]
    assert len(left) == 1 and "signature" in left[0]
    assert f"{len(FIELDS)} of {len(FIELDS)} fields of the provider are filled in, 0" in full


def test_figures_are_those_of_the_evidence(evidence):
    tables = annex_iv(evidence, evidence).tables
    own = [r for r in evidence.rates if (r.where, r.model, r.crossed) == ("test", "chosen", False)]
    rates = tables["rates"]
    assert len(rates) == len({(r.attribute, r.group) for r in own})
    first = own[0]
    text = rates.set_index(["by", "group"]).loc[(first.attribute or "everyone", first.group)]
    assert any(f"{first.value:.3f}" in str(value) for value in text)
    gaps = [g for g in evidence.gaps if g.model == "chosen"]
    assert tables["gaps"]["gap"].tolist() == [g.gap for g in gaps]
    assert tables["gaps"]["ratio"].tolist() == [g.ratio for g in gaps]
    assert tables["verdicts"]["verdict"].tolist() == [f.status for f in evidence.verdicts]
    measured = [p.value for p in evidence.performance if p.model == "chosen"]
    assert tables["performance"]["value"].tolist() == measured


def test_the_data_are_examined_by_group(evidence):
    data = annex_iv(evidence).tables["data"].set_index(["by", "group"])
    rows = {(r.attribute or "everyone", r.group, r.rate): r.rows for r in evidence.rates
            if (r.where, r.model, r.crossed) == ("test", "chosen", False)}  # fmt: skip
    for (by, group), line in data.iterrows():
        assert line["rows"] == max(n for (a, g, _), n in rows.items() if (a, g) == (by, group))
        if (by, group, "fnr") in rows:
            expected = rows[by, group, "fnr"] / line["rows"]
            assert line["share of positive labels"] == pytest.approx(expected)


def test_the_model_and_its_checksum(evidence):
    model = replace(evidence.model, export_sha256="ab12", export_file="model.txt")
    trained = replace(evidence, model=model)
    page = annex_iv(evidence, trained).to_markdown()
    assert "**1 (a) Its SHA-256**: ab12" in page
    assert f"{model.engine} {model.engine_version}" in page
    assert "; ".join(evidence.asked.constraints)[:30] in page
    facts = json.loads(annex_iv(evidence, trained).to_json())["model"]
    assert facts["sha256"] == "ab12"
    assert facts["trees"] == model.trees
    assert "No folder of a trained model was given" in annex_iv(evidence).to_markdown()


def test_limits_and_warnings_are_repeated(evidence):
    told = replace(evidence, warnings=("beware of 7 rows",), limits=("says nothing of Mars",))
    page = annex_iv(told).to_markdown()
    assert "beware of 7 rows" in page
    assert "says nothing of Mars" in page


def test_without_labels_there_is_no_accuracy(evidence):
    rates = tuple(r for r in evidence.rates if r.rate == "ppr")
    bare = replace(evidence, performance=(), rates=rates, gaps=(), verdicts=(),
                   data=replace(evidence.data, label="", decision="hired"))  # fmt: skip
    filing = annex_iv(bare)
    assert "what came true is not in the data" in filing.to_markdown()
    assert "performance" not in filing.tables
    assert "share of positive labels" not in filing.tables["data"]


def test_the_document_names_its_text_and_is_no_advice(evidence):
    for page in (annex_iv(evidence).to_html(), annex_iv(evidence).to_markdown()):
        assert "Annex IV of Regulation (EU) 2024/1689" in page
        assert "12 July 2024" in page
        assert "not legal advice" in page


def test_unknown_fields_are_refused(evidence):
    with pytest.raises(InvalidInputError, match="has no field 'name'; expected one of provider"):
        annex_iv(evidence, fields={"name": "x"})


@pytest.mark.parametrize("make", [make_number_evidence, make_class_evidence])
def test_numbers_and_classes_have_a_document_too(make, tmp_path):
    found = make()
    filing = annex_iv(found, found)
    assert "Degrees of accuracy for groups of persons" in filing.to_markdown()
    assert all(path.stat().st_size for path in filing.write(tmp_path))


def of_table(evidence, **changed):
    """An audit of a table: no model, and something that may differ from the model's."""
    data = {k: v for k, v in changed.items() if hasattr(evidence.data, k)}
    asked = {k: v for k, v in changed.items() if hasattr(evidence.asked, k)}
    return replace(
        evidence,
        model=None,
        data=replace(evidence.data, **data),
        asked=replace(evidence.asked, **asked),
    )


def test_a_table_about_the_model_is_taken(evidence):
    page = annex_iv(of_table(evidence), evidence).to_markdown()
    assert "its predictions were not compared with the model" in page
    page = annex_iv(of_table(evidence), evidence, scored_again=1_234).to_markdown()
    assert "applied to 1,234 rows of the table again, with the same results" in page
    other = of_table(evidence, sensitive=())  # groups that training knew nothing of
    annex_iv(replace(other, rates=()), evidence)


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"label": "another"}, "the label of the table is 'another'"),
        ({"positive": "perhaps"}, "the positive label of the table is 'perhaps'"),
        ({"threshold": 0.123}, "audited at a threshold of 0.123"),
        ({"exposure": "years"}, "the table has exposures"),
    ],
)
def test_a_table_that_is_not_the_models_is_refused(evidence, changed, message):
    with pytest.raises(InvalidInputError, match="not about this model") as error:
        annex_iv(of_table(evidence, **changed), evidence)
    assert message in str(error.value)


def test_a_table_of_other_groups_classes_or_tasks_is_refused(evidence):
    strangers = tuple(replace(r, group=f"other {r.group}") for r in evidence.rates)
    with pytest.raises(InvalidInputError, match="name the groups as in training"):
        annex_iv(replace(of_table(evidence), rates=strangers), evidence)
    classes = make_class_evidence()
    with pytest.raises(InvalidInputError, match="the table has the class 'Z'"):
        annex_iv(of_table(classes, classes=("low", "Z")), classes)
    with pytest.raises(InvalidInputError, match="the model makes predictions of a number"):
        annex_iv(of_table(evidence), make_number_evidence())
    with pytest.raises(InvalidInputError, match="with no model in it"):
        annex_iv(evidence, of_table(evidence))
