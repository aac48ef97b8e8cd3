"""``fairboost audit`` without labels, of decisions, and ``--format``."""

import json
import re
import shutil

import numpy as np
import pandas as pd
import pytest

from fairboost.filings import four_fifths, ll144
from fairboost.metrics import audit
from tests.loan_files import ASKED, QUICK


@pytest.fixture(scope="module")
def applicants(tmp_path_factory):
    """People who applied, with decisions and scores, in all formats."""
    rng = np.random.default_rng(0)
    n = 2_000
    frame = pd.DataFrame(
        {
            "sex": rng.choice(["Female", "Male", "Unknown"], n, p=[0.48, 0.5, 0.02]),
            "race": rng.choice(["Asian", "Black", "White", "Native"], n, p=[0.2, 0.3, 0.49, 0.01]),
            "score": rng.normal(50, 10, n).round(1),
        }
    )
    frame["hired"] = np.where(rng.random(n) < 0.3 + 0.1 * (frame["sex"] == "Male"), "yes", "no")
    frame["good"] = np.where(rng.random(n) < 0.5, "yes", "no")
    frame.loc[:9, "race"] = None
    folder = tmp_path_factory.mktemp("applicants")
    frame.to_csv(folder / "t.csv", index=False)
    frame.to_parquet(folder / "t.parquet")
    frame.to_feather(folder / "t.arrow")
    frame.to_excel(folder / "t.xlsx", index=False)
    return frame, folder


LL144 = ("--decision", "hired", "--sex", "sex", "--race", "race", "--format", "ll144")
FOUR = ("--decision", "hired", "--sensitive", "race", "--format", "four_fifths")


# Decisions, and no labels
# -----------------------------------------------------------------------


@pytest.mark.parametrize("ending", ["csv", "parquet", "arrow", "xlsx"])
def test_decisions_without_labels_are_audited_in_every_format(applicants, run, ending):
    frame, folder = applicants
    code, out, err = run(
        "audit", folder / f"t.{ending}", "--decision", "hired", "--sensitive", "race", "--json"
    )
    assert code == 0
    assert "'yes' counts as the positive decision of 'hired'" in " ".join(err.split())
    found = json.loads(out)
    known = frame.dropna()
    whole = audit(np.zeros(len(known)), (known["hired"] == "yes") * 1.0, pos_label=1,
                  sensitive_features=known[["race"]], rates=["ppr"])  # fmt: skip
    ours = {r["group"]: r["value"] for r in found["rates"] if r["attribute"] == "race"}
    theirs = whole.rates[whole.rates["attribute"] == "race"]
    assert ours == pytest.approx(dict(zip(theirs["group"], theirs["value"], strict=True)))
    assert {r["rate"] for r in found["rates"]} == {"ppr"}
    assert found["performance"] == []
    (gap,) = (g for g in found["gaps"] if g["attribute"] == "race")
    assert gap["ratio"] == pytest.approx(whole.gaps["ratio"].iloc[0])


def test_decisions_with_labels_have_error_rates(applicants, run):
    frame, folder = applicants
    _, out, _ = run("audit", folder / "t.csv", "--label", "good", "--decision", "hired",
                    "--sensitive", "sex", "--json", "--quiet")  # fmt: skip
    found = json.loads(out)
    whole = audit(frame["good"], (frame["hired"] == "yes") * 1.0, pos_label="yes",
                  sensitive_features=frame[["sex"]], rates=["fpr", "fnr", "ppr"])  # fmt: skip
    ours = {
        (r["group"], r["rate"]): r["value"] for r in found["rates"] if r["rate"] != "precision"
    }
    for line in whole.rates.to_dict("records"):
        assert ours[line["group"], line["rate"]] == pytest.approx(line["value"])
    right = float((frame["good"] == frame["hired"]).mean())
    assert found["performance"][0]["value"] == pytest.approx(right)
    assert found["calibration"] == []


def test_scores_without_labels_are_decided_by_a_threshold(applicants, run):
    frame, folder = applicants
    _, out, _ = run("audit", folder / "t.csv", "--score", "score", "--threshold", "55",
                    "--sensitive", "sex", "--json", "--quiet")  # fmt: skip
    (everyone,) = (r for r in json.loads(out)["rates"] if not r["attribute"])
    assert everyone["value"] == pytest.approx((frame["score"] >= 55).mean())
    _, out, _ = run("audit", folder / "t.csv", "--score", "score", "--at-positive-rate", "0.2",
                    "--sensitive", "sex", "--json", "--quiet")  # fmt: skip
    (everyone,) = (r for r in json.loads(out)["rates"] if not r["attribute"])
    assert everyone["value"] == pytest.approx(0.2, abs=0.01)


def test_a_report_on_decisions_alone(applicants, run, tmp_path):
    _, folder = applicants
    code, _, _ = run("audit", folder / "t.csv", "--decision", "hired", "--sensitive", "sex",
                     "--out", tmp_path / "r")  # fmt: skip
    assert code == 0
    page = (tmp_path / "r" / "report.md").read_text()
    assert "**Decision**: hired; positive: yes" in page
    assert "there are no error rates" in page
    assert "**Label**" not in page
    assert "recorded label" not in page


def test_the_positive_decision_may_be_named(applicants, run):
    frame, folder = applicants
    words = ("audit", folder / "t.csv", "--decision", "hired", "--sensitive", "sex", "--json")
    _, out, err = run(*words, "--positive", "no")
    (everyone,) = (r for r in json.loads(out)["rates"] if not r["attribute"])
    assert everyone["value"] == pytest.approx((frame["hired"] == "no").mean())
    assert "guessed" not in err


def test_codes_of_label_and_decision_may_differ(applicants, run, tmp_path):
    frame, _ = applicants
    coded = frame.assign(good=np.where(frame["good"] == "yes", "A", "B"))
    coded.to_csv(tmp_path / "t.csv", index=False)
    words = ("audit", tmp_path / "t.csv", "--label", "good", "--decision", "hired")
    code, out, _ = run(*words, "--sensitive", "sex", "--positive", "A", "--json", "--quiet")
    assert code == 0
    right = ((frame["good"] == "yes") == (frame["hired"] == "yes")).mean()
    assert json.loads(out)["performance"][0]["value"] == pytest.approx(right)
    code, _, err = run(*words, "--sensitive", "sex", "--quiet")
    assert code == 1
    assert "the label 'good' is 'A' or 'B', and the command cannot tell" in err


def test_rows_without_a_decision_are_left_out_and_counted(applicants, run, tmp_path):
    frame, _ = applicants
    frame.assign(hired=frame["hired"].where(frame.index >= 7)).to_csv(tmp_path / "t.csv")
    _, out, err = run("audit", tmp_path / "t.csv", "--decision", "hired", "--sensitive", "sex",
                      "--json")  # fmt: skip
    assert "7 rows are left out, since their decision is missing" in err
    assert json.loads(out)["rows"] == 1_993


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"hired": ["yes", "no", "maybe", "no"]},
         "the decision 'hired' must have two values, found 3: 'maybe', 'no', 'yes'; add a column"),
        ({"hired": ["yes"] * 4}, "must have two values, found 1: 'yes'"),
        ({"hired": [None] * 4}, "must have two values, found 0: none"),
        ({"hired": ["A", "B", "A", "B"]}, "cannot tell which value is the positive one"),
        ({"sex": [None] * 4}, "sensitive column 'sex' is missing in every row"),
    ],
)  # fmt: skip
def test_decisions_that_will_not_do(tmp_path, run, change, message):
    table = {"sex": ["F", "M", "F", "M"], "race": list("aabb"), "hired": ["yes", "no"] * 2}
    pd.DataFrame(table | change).to_csv(tmp_path / "t.csv", index=False)
    for words in (("--sensitive", "sex"), ("--sensitive", "sex", "--format", "four_fifths")):
        code, out, err = run("audit", tmp_path / "t.csv", "--decision", "hired", *words, "--quiet")
        assert (code, out) == (1, "")
        assert message in err
        assert err.count("\n") == 1


# Formats
# -----------------------------------------------------------------------


@pytest.mark.parametrize("ending", ["csv", "parquet", "arrow", "xlsx"])
def test_a_filing_is_that_of_the_library(applicants, run, ending, tmp_path):
    frame, folder = applicants
    options = ("--field", "tool=Sifter", "--leave-out-below", "0.02", "--json", "--quiet")
    code, out, _ = run("audit", folder / f"t.{ending}", *LL144, "--out", tmp_path / "f", *options)
    assert code == 0
    theirs = ll144(frame[["sex", "race"]], selected=frame["hired"] == "yes", leave_out_below=0.02)
    for name, table in theirs.tables.items():
        ours = pd.read_csv(tmp_path / "f" / f"ll144-{name}.csv")
        pd.testing.assert_frame_equal(ours, table, check_dtype=False)
    found = json.loads(out)
    assert found["fields"] == {"tool": "Sifter"}
    assert found["unknown"] == theirs.facts["unknown"]
    assert sorted(found["files"]) == sorted(p.name for p in (tmp_path / "f").iterdir())
    page = (tmp_path / "f" / "ll144.html").read_text()
    assert f"t.{ending}" in page
    assert "hired is yes" in page
    assert re.search("[0-9a-f]{64}", page)


def test_scores_are_compared_with_their_median(applicants, run):
    frame, folder = applicants
    words = ("--score", "score", "--sensitive", "sex", "--sensitive", "race", "--format", "ll144")
    code, out, err = run("audit", folder / "t.csv", *words, "--json")
    assert code == 0
    assert "'sex' is taken for the column of sex (--sex)" in err
    assert json.loads(out)["median"] == frame["score"].median()


def test_four_fifths_of_decisions_and_of_scores_at_a_threshold(applicants, run):
    frame, folder = applicants
    _, out, _ = run("audit", folder / "t.csv", *FOUR, "--json", "--quiet")
    theirs = four_fifths(frame[["race"]], frame["hired"] == "yes").tables["race"]
    found = pd.DataFrame(json.loads(out)["tables"]["race"])
    assert found["selected"].tolist() == theirs["selected"].tolist()
    assert found["finding"].tolist() == theirs["finding"].tolist()
    words = ("--score", "score", "--threshold", "55", "--sensitive", "race")
    form = ("--format", "four_fifths", "--json", "--quiet")
    _, out, _ = run("audit", folder / "t.csv", *words, *form)
    found = pd.DataFrame(json.loads(out)["tables"]["race"])
    assert found["selected"].sum() == (frame["score"] >= 55)[frame["race"].notna()].sum()


def test_what_is_shown_and_that_nothing_is_written(applicants, run):
    _, folder = applicants
    code, out, err = run("audit", folder / "t.csv", *LL144)
    assert code == 0
    assert "impact ratio" in out
    assert "fields are blank; fill them in with --field" in out
    assert "A person has to sign the document." in out
    assert re.search(r"\d+ people have an unknown sex or race/ethnicity; they are in no", out)
    assert "Not legal advice." in out
    assert "pass --out FOLDER" in err


def test_small_p_values_and_unknown_groups_are_told(applicants, run, tmp_path):
    frame, _ = applicants
    frame = frame.assign(hired=np.where(frame["sex"] == "Male", "yes", "no"))
    frame.to_csv(tmp_path / "t.csv", index=False)
    _, out, _ = run("audit", tmp_path / "t.csv", "--decision", "hired", "--sensitive", "sex",
                    "--format", "four_fifths")  # fmt: skip
    unknown = (frame["sex"] == "Unknown").sum()
    assert f"People of unknown category, who are in no group: sex: {unknown}." in out
    assert "< 0.0001" in out
    assert "0.0000" not in out


@pytest.mark.parametrize("words", [LL144, FOUR, ("--format", "four_fifths")])
def test_a_folder_is_no_table_of_decisions(run, tmp_path, words, capsys):
    with pytest.raises(SystemExit) as stop:
        run("audit", tmp_path, *words)
    assert stop.value.code == 2
    shown = " ".join(capsys.readouterr().err.split())
    assert "reads a table of decisions, and" in shown
    assert "is a folder; write the decisions of a model with `fairboost predict" in shown


def test_a_folder_without_candidates_says_which_folder(run, tmp_path):
    _, _, err = run("audit", tmp_path, "--format", "model_risk")
    assert "passed as --out to `fairboost train` or `fairboost compare`" in " ".join(err.split())


def test_blanks_of_annex_iv_have_one_count(model, run):
    _, out, _ = run("audit", model, "--format", "annex_iv")
    (top,) = re.findall(r"filled in, (\d+) are blank", out)
    (end,) = re.findall(r"(\d+) fields are blank; fill", out)
    assert top == end


def test_a_title_and_force(applicants, run, tmp_path):
    _, folder = applicants
    words = ("audit", folder / "t.csv", *FOUR, "--out", tmp_path / "f", "--quiet")
    assert run(*words)[0] == 0
    assert run(*words)[0] == 1
    assert run(*words, "--force", "--title", "Autumn")[0] == 0
    assert (tmp_path / "f" / "four_fifths.md").read_text().startswith("# Autumn\n")
    (tmp_path / "f" / "mine.txt").write_text("x")
    code, _, err = run(*words, "--force")
    assert code == 1
    assert "holds 'mine.txt', which fairboost did not write" in err


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--decision", "hired", "--sex", "sex", "--race", "race", "--format", "LL144"),
         "invalid choice: 'LL144'"),
        (("--decision", "hired", "--sex", "sex", "--format", "ll144"),
         "needs --race COLUMN; columns of the table: sex, race, score, hired, good"),
        ((*LL144, "--label", "good"), "has no use for --label"),
        ((*LL144, "--level", "0.9"), "has no use for --level"),
        ((*LL144, "--sensitive", "score"), "is about sex and race alone"),
        ((*LL144, "--threshold", "1"), "--threshold is for --score"),
        (("--score", "score", "--sensitive", "race", "--format", "four_fifths"),
         "needs decisions: name a column with --decision"),
        (("--sensitive", "race", "--format", "four_fifths"), "--score --decision is required"),
        (("--decision", "hired", "--format", "four_fifths"), "are required: --sensitive"),
        (("--decision", "hired", "--sensitive", "sex", "--unknown", "x"), "--unknown is for"),
        (("--decision", "hired", "--sensitive", "sex", "--field", "a=b"), "--field is for"),
        ((*LL144, "--field", "tool"), "expected NAME=TEXT"),
        ((*LL144, "--field", "tool=a", "--field", "tool=b"), "named twice"),
        ((*FOUR, "--model", "x"), "--model is for --format annex_iv"),
        (("--decision", "hired", "--sensitive", "sex", "--task", "regression"), "needs --label"),
        (("--score", "score", "--sensitive", "sex", "--at-fpr", "0.1"), "--at-fpr needs --label"),
        (("--decision", "hired", "--sensitive", "sex", "--max-gap", "fnr=0.1"),
         "--max-gap fnr needs --label"),
        (("--decision", "hired", "--sensitive", "sex", "--threshold", "0.1"),
         "the column of --decision has decisions"),
        (("--decision", "hired", "--label", "good", "--sensitive", "sex", "--threshold", "0.1"),
         "the column of --decision has decisions"),
    ],
)  # fmt: skip
def test_commands_that_are_wrong(applicants, run, words, message, capsys):
    _, folder = applicants
    with pytest.raises(SystemExit) as ended:
        run("audit", folder / "t.csv", *words)
    assert ended.value.code == 2
    assert message in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ((*LL144, "--field", "day=1"), "has no field 'day'; expected one of tool, tool_version"),
        ((*LL144, "--field", "audit_date=soon"), "must be a day such as 2026-03-31"),
        ((*LL144, "--leave-out-below", "0.1"), "a share of at most 0.02"),
        (("--decision", "hired", "--sex", "sex", "--race", "colour", "--format", "ll144"),
         "has no column 'colour'"),
        (("--score", "hired", "--sex", "sex", "--race", "race", "--format", "ll144"),
         "has the value 'yes' in row 1 below the header, in the column"),
        (("--format", "model_risk"), "reads a folder that `fairboost train`"),
        (("--label", "good", "--decision", "hired", "--sensitive", "sex", "--format", "annex_iv",
          "--model", "nowhere"), "there is no 'nowhere/evidence.json'"),
    ],
)  # fmt: skip
def test_input_that_will_not_do(applicants, run, words, message):
    _, folder = applicants
    code, out, err = run("audit", folder / "t.csv", *words, "--quiet")
    assert (code, out) == (1, "")
    assert message in err


# Models
# -----------------------------------------------------------------------


def test_annex_iv_of_a_model_and_of_a_table(model, scored, run, tmp_path):
    code, out, _ = run("audit", model, "--format", "annex_iv", "--json", "--quiet")
    assert code == 0
    evidence = json.loads((model / "evidence.json").read_text())["evidence"]
    assert json.loads(out)["model"]["sha256"] == evidence["model"]["export_sha256"]
    code, _, _ = run("audit", scored, "--label", "approved", "--score", "score", "--sensitive",
                     "sex", "--format", "annex_iv", "--model", model, "--field", "system=Credit",
                     "--out", tmp_path / "a", "--quiet")  # fmt: skip
    assert code == 0
    page = (tmp_path / "a" / "annex_iv.md").read_text()
    assert page.startswith("# Technical documentation: Credit\n")
    assert evidence["model"]["export_sha256"] in page
    assert "scores.parquet" in page
    assert "loans.csv" in page
    rates = pd.read_csv(tmp_path / "a" / "annex_iv-rates.csv")
    assert set(rates["group"]) == {"everyone", "female", "male"}


@pytest.fixture(scope="module")
def whole(scored, tmp_path_factory):
    """The scores beside all columns of the rows."""
    rows = pd.read_parquet(scored.parent / "new.parquet")
    found = pd.read_parquet(scored)[["score", "decision"]]
    path = tmp_path_factory.mktemp("whole") / "whole.parquet"
    rows.assign(**found).to_parquet(path)
    return path


ANNEX = ("--label", "approved", "--sensitive", "sex", "--format", "annex_iv", "--quiet")


@pytest.mark.parametrize("column", ["score", "decision"])
def test_predictions_are_compared_with_the_model(column, whole, model, run, tmp_path):
    words = (*ANNEX, f"--{column}", column, "--model", model)
    code, out, err = run("audit", whole, *words)
    assert code == 0, err
    assert "The model was applied to 2,000 rows of the table again" in out
    rows = pd.read_parquet(whole)
    other = rows["score"].round(2) if column == "score" else rows["decision"].iloc[::-1].to_numpy()
    rows.assign(**{column: other}).to_parquet(tmp_path / "other.parquet")
    code, out, err = run("audit", tmp_path / "other.parquet", *words)
    assert (code, out) == (1, "")
    assert f"the column {column!r} does not have the predictions of the model" in err


@pytest.mark.parametrize(
    ("renamed", "words", "message"),
    [
        ({"approved": "good"}, ("--label", "good"), "the model predicts 'approved'"),
        ({}, ("--positive", "no"), "that of the model is 'yes'"),
        ({}, ("--threshold", "0.3"), "audit with --threshold 0.5"),
    ],
)
def test_a_table_that_is_not_the_models_is_refused(
    renamed, words, message, scored, model, run, tmp_path
):
    pd.read_parquet(scored).rename(columns=renamed).to_parquet(tmp_path / "t.parquet")
    asked = (*ANNEX, "--score", "score", *words, "--model", model)
    code, out, err = run("audit", tmp_path / "t.parquet", *asked, "--out", tmp_path / "a")
    assert (code, out) == (1, "")
    assert "is not about this model" in err
    assert message in err
    assert not (tmp_path / "a").exists()


def test_a_model_that_was_changed_is_not_documented(model, run, tmp_path):
    copy = tmp_path / "copy"
    shutil.copytree(model, copy)
    (copy / "model.txt").write_text("tampered")
    code, _, err = run("audit", copy, "--format", "annex_iv", "--quiet")
    assert code == 1
    assert "was changed after training: its checksum is not the one in evidence.json" in err


def test_model_risk_of_a_comparison(data, run, tmp_path):
    words = ("compare", data, *ASKED, "--models", "2", *QUICK, "--out", tmp_path / "c")
    assert run(*words)[0] == 0
    code, out, _ = run("audit", tmp_path / "c", "--format", "model_risk", "--json", "--quiet")
    assert code == 0
    lines = json.loads(out)["tables"]["candidates"]
    points = json.loads((tmp_path / "c" / "evidence.json").read_text())["evidence"]["tradeoff"]
    assert [line["sha256"] for line in lines] == [p["sha256"] for p in points["points"]]
    assert all(line["seed"] == 0 for line in lines)
    assert sum(line["chosen"] == "yes" for line in lines) == 1
    code, _, err = run("audit", tmp_path, "--format", "model_risk", "--quiet")
    assert code == 1
    assert "evidence.json" in err


def test_predictions_are_not_written_as_a_workbook(model, data, run, tmp_path):
    code, _, err = run("predict", model, data, "--out", tmp_path / "p.xlsx", "--quiet")
    assert code == 1
    assert "read and not written" in err
