"""The comparison of candidates: from a trade-off, a curve, a search and a study."""

import re
import warnings
from copy import copy
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from lightgbm import LGBMClassifier

import fairboost
from fairboost import tradeoff_curve, tune
from fairboost.datasets import make_loans
from fairboost.exceptions import FairnessWarning, InvalidInputError
from fairboost.filings import model_risk, study_candidates
from fairboost.filings.candidates import Candidate, Candidates
from fairboost.filings.comparison import FIELDS, MOST_SHOWN, NEEDS_REASON, SIMILAR
from fairboost.metrics import ratio
from fairboost.metrics.contrasts import standardised_differences
from fairboost.model.files import model_seal
from fairboost.report import gather
from fairboost.selection.candidates import scores_of
from tests.evidence import make_evidence


def engine():
    return LGBMClassifier(n_estimators=10, num_leaves=7, n_jobs=1, verbose=-1)


@pytest.fixture(scope="module")
def loans():
    return make_loans(2_000, seed=0)


@pytest.fixture(scope="module")
def new():
    return make_loans(1_500, seed=1)


@pytest.fixture(autouse=True, scope="module")
def known_groups():
    """Take groups as observed; to learn them takes longer than all the rest."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(
            "fairboost.training.memberships.recoverability", lambda *args, **options: 1.0
        )
        yield


@pytest.fixture(scope="module")
def curve(loans, known_groups):
    return tradeoff_curve(
        engine(), loans.X, loans.y, sensitive_features=loans.sensitive["sex"],
        constraint="equal_opportunity", tolerances=[0.1, 0.02], random_state=7,
    )  # fmt: skip


@pytest.fixture(scope="module")
def evidence(curve, new):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FairnessWarning)
        return gather(
            curve.models[1], new.X, new.y, sensitive_features=new.sensitive["sex"], curve=curve
        )


def test_figures_of_a_trade_off_are_those_of_the_library(curve, evidence, new):
    table = model_risk(evidence).tables["candidates"]
    on_test = curve.on(new.X, new.y, sensitive_features=new.sensitive["sex"])
    np.testing.assert_allclose(table["accuracy"], on_test["accuracy"])
    np.testing.assert_allclose(table["gap"], on_test["gap"])
    sex = new.sensitive["sex"]
    for model, (_, line) in zip(curve.models, table.iterrows(), strict=True):
        decided = model.predict(new.X)
        expected = ratio(new.y, decided, rate="ppr", sensitive_features=sex)
        assert line["ratio of favourable decisions, sex"] == pytest.approx(float(expected))
        scores = scores_of(model, new.X)
        apart = standardised_differences(scores, sex)["difference"].abs().max()
        (column,) = (c for c in table.columns if c.startswith("standardised difference, sex: "))
        assert abs(line[column]) == pytest.approx(apart)
        assert line["sha256"] == model_seal(model)
        assert line["seed"] == 7
    assert table["chosen"].tolist() == ["no", "yes", "no"]


def test_the_checksum_is_in_the_file_of_the_model(curve, tmp_path):
    import json

    model = curve.models[1]
    model.save(tmp_path / "model.json")
    content = json.loads((tmp_path / "model.json").read_text())["model"]
    assert content["self_test"]["sha256"] == model_seal(model)
    assert model_seal(fairboost.load(tmp_path / "model.json")) == model_seal(model)
    assert len({model_seal(m) for m in curve.models}) == 3
    odd = copy(model).set_params(constraint=object())  # has no form in a file, and decides nothing
    assert model_seal(odd) == model_seal(model)


def test_a_curve_alone_is_about_the_rows_held_out(curve):
    filing = model_risk(curve)
    table = filing.tables["candidates"]
    np.testing.assert_allclose(table["accuracy"], curve.table["accuracy"])
    assert filing.facts["rows"] == "rows held out in training"
    assert set(table["why"]) == {"none was chosen yet"}
    assert "not recorded by this source" in filing.to_markdown()
    assert "None of them was chosen yet." in filing.to_markdown()


def test_a_search(loans, new):
    found = tune(
        engine(), loans.X, loans.y, sensitive_features=loans.sensitive["sex"],
        constraint="equal_opportunity", tolerance=0.05, n_trials=2, models=2,
        space={"num_leaves": {"low": 4, "high": 8}}, random_state=3,
    )  # fmt: skip
    table = model_risk(found).tables["candidates"]
    assert len(table) == len(found.table)
    np.testing.assert_allclose(table["score"], found.table["score"])
    assert table["sha256"].tolist() == found.table["sha256"].tolist()
    assert table["seed"].tolist() == (found.table["trial"] + found.table["seed"].iloc[0]).tolist()
    assert (table["chosen"] == "yes").sum() == 1
    best = found.model
    chosen = table.loc[table["chosen"] == "yes", "sha256"].iloc[0]
    assert chosen == model_seal(best) or best.tolerance == 0.05  # held to another tolerance
    ratios = table["ratio of favourable decisions, lowest of all attributes"]
    assert ratios.between(0, 1).all()


STUDY = """\
name = "small"

[data]
generator = "loans"
rows = 1200

[metrics]
rate = "fnr"
tolerance = 0.1

[search]
trials = 2
features = ["aware"]

[engine]
n_estimators = { low = 5, high = 8 }

[methods.plain]

[protocol]
models = 2
replicates = 10
"""


def test_the_folder_of_a_study(tmp_path):
    from fairboost.study import run_study

    (tmp_path / "s.toml").write_text(STUDY)
    done = run_study(tmp_path / "s.toml", tmp_path / "out", progress=False)
    found = study_candidates(tmp_path / "out")
    table = model_risk(found).tables["candidates"]
    points = done.points
    assert table["accuracy"].tolist() == points["test_performance"].tolist()
    assert table["gap"].tolist() == points["test_gap"].tolist()
    assert table["sha256"].tolist() == points["fit_sha256"].tolist()
    assert table["seed"].tolist() == points["fit_seed"].tolist()
    assert len(set(table["sha256"])) == 2
    assert all(re.fullmatch("[0-9a-f]{64}", digest) for digest in table["sha256"])
    assert (table["chosen"] == "yes").sum() == 1
    # A study of an earlier version, which kept neither checksums nor ratios.
    old = points.drop(columns=[c for c in points.columns if c.startswith("fit_")])
    old.to_parquet(tmp_path / "out" / "trials.parquet")
    page = model_risk(study_candidates(tmp_path / "out")).to_markdown()
    assert "not recorded by this source" in page


def test_every_point_of_evidence_is_a_candidate():
    evidence = make_evidence()
    filing = model_risk(evidence)
    table = filing.tables["candidates"]
    points = evidence.tradeoff.points
    assert table["candidate"].tolist() == [p.name for p in points]
    assert table["accuracy, low"].tolist() == [p.accuracy_low for p in points]
    assert table["trees"].tolist() == [p.trees for p in points]


def candidates(*models, tolerance=0.05, sign=1):
    return Candidates(tuple(models), "a test", "test rows", "accuracy", sign, tolerance)


CHOSEN = Candidate("chosen", 0.80, 0.78, 0.82, 0.04, chosen=True)


@pytest.mark.parametrize(
    ("other", "why"),
    [
        (Candidate("b", 0.80, gap=0.03), NEEDS_REASON),
        (Candidate("b", 0.85, gap=0.01), NEEDS_REASON),
        (Candidate("b", 0.79, gap=0.01), SIMILAR),
        (Candidate("b", 0.70, gap=0.01), "accuracy 0.1000 below the chosen one"),
        (Candidate("b", 0.90, gap=0.30), "gap 0.3000 is beyond the tolerance of 0.05"),
        (Candidate("b", 0.90, gap=0.045), "performs at least as well, with a gap that is not"),
        (Candidate("b", 0.90, gap=0.01, idle=True), "decides about nearly everyone"),
    ],
)
def test_why_a_candidate_was_not_chosen(other, why):
    filing = model_risk(candidates(CHOSEN, other))
    assert filing.tables["candidates"]["why"].iloc[1].startswith(why)
    page = filing.to_markdown()
    asked = why in (NEEDS_REASON, SIMILAR)
    assert ("why not b?" in page) == asked
    assert ("No candidate has a smaller gap" in page) == (not asked)


def test_a_loss_is_the_better_the_smaller():
    chosen = replace(CHOSEN, performance=10.0, low=9.0, high=11.0)
    found = candidates(
        chosen, Candidate("b", 9.5, gap=0.01), Candidate("c", 12.0, gap=0.01), sign=-1
    )
    why = model_risk(found).tables["candidates"]["why"]
    assert why.iloc[1] == NEEDS_REASON
    assert why.iloc[2] == "accuracy 2.0000 above the chosen one"


def test_many_candidates_are_in_the_file_and_some_on_the_page(tmp_path):
    others = [Candidate(f"m{k}", 0.5, gap=0.04) for k in range(MOST_SHOWN + 40)]
    filing = model_risk(candidates(*others, CHOSEN))
    page = filing.to_markdown()
    assert f"{MOST_SHOWN} of {MOST_SHOWN + 41} candidates are shown" in page
    assert "| chosen " in page
    filing.write(tmp_path)
    assert len(pd.read_csv(tmp_path / "model_risk-candidates.csv")) == MOST_SHOWN + 41


def test_every_field_is_blank_until_it_is_filled_in():
    filled = {n: "2026-03-31" if f.is_date else f"text of {n}" for n, f in FIELDS.items()}
    empty = model_risk(candidates(CHOSEN)).to_markdown()
    full = model_risk(candidates(CHOSEN), fields=filled).to_markdown().replace("\\_", "_")
    for name, field in FIELDS.items():
        assert f"**{field.title}**: ☐ to be filled in by {field.by}" in empty
        assert f"**{field.title}**: {filled[name]}" in full


def test_the_document_names_its_text_and_is_no_advice():
    filing = model_risk(candidates(CHOSEN))
    for page in (filing.to_html(), filing.to_markdown()):
        assert "SR 26-2" in page
        assert "12 CFR part 1002" in page
        assert "not legal advice" in page


def test_a_gap_beyond_the_tolerance_is_told():
    filing = model_risk(candidates(replace(CHOSEN, gap=0.2)))
    assert "larger than the 0.05 asked for" in filing.to_markdown()


def test_what_will_not_do(tmp_path):
    with pytest.raises(InvalidInputError, match="about one model alone"):
        model_risk(replace(make_evidence(), tradeoff=None))
    with pytest.raises(InvalidInputError, match="found str"):
        model_risk("comparison")
    with pytest.raises(InvalidInputError, match="no candidates to compare"):
        model_risk(candidates())
    with pytest.raises(InvalidInputError, match="not the folder of a study"):
        study_candidates(tmp_path)
