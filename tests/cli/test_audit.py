"""``fairboost audit``, ``compare`` and ``report``."""

import json
import re

import numpy as np
import pandas as pd
import pytest

from fairboost import at_fpr, parity
from fairboost.data.cells import build_cells
from fairboost.data.validation import read_sensitive_features
from fairboost.metrics import audit
from fairboost.report import Evidence
from fairboost.verdicts.fairness_report import build, measure
from tests.loan_files import ASKED, QUICK

WORDS = ("--label", "approved", "--score", "score", "--sensitive", "sex")
BOTH = (*WORDS, "--sensitive", "age_band")


@pytest.mark.parametrize("where", [(), ("--at-fpr", "0.1"), ("--threshold", "0.3")])
def test_figures_are_those_of_the_library(scored, run, where, monkeypatch):
    monkeypatch.setattr("fairboost.tabular.files.BATCH_ROWS", 300)
    code, out, err = run("audit", scored, *BOTH, *where, "--json", "--quiet")
    assert (code, err) == (0, "")
    found = json.loads(out)
    frame = pd.read_parquet(scored)
    threshold = {(): 0.5, ("--at-fpr", "0.1"): at_fpr(0.1)}.get(where, 0.3)
    whole = audit(
        frame["approved"], frame["score"], sensitive_features=frame[["sex", "age_band"]],
        threshold=threshold, by=["sex", "age_band", ("sex", "age_band")],
        rates=["fpr", "fnr", "ppr", "precision"],
    )  # fmt: skip
    assert found["threshold"] == whole.threshold
    for kind, names in (("rates", ["value", "low", "high"]), ("gaps", ["gap", "ratio"])):
        ours = pd.DataFrame(found[kind])
        theirs = getattr(whole, kind)
        for name in names:
            np.testing.assert_allclose(ours[name].astype(float), theirs[name].astype(float))
    assert [r["small"] for r in found["rates"]] == whole.rates["small"].tolist()


def test_what_audit_shows(scored, run):
    code, out, err = run("audit", scored, *BOTH)
    assert code == 0
    for text in ("four-fifths rule", "sex=female", "crossed groups", "calibration", "precision"):
        assert text in out
    assert "'age_band' is missing in" in err


def test_favourable_decisions_may_be_the_negative_ones(scored, run):
    _, out, _ = run("audit", scored, *WORDS, "--favourable", "negative", "--json")
    rules = {g["rate"]: g["four_fifths"] for g in json.loads(out)["gaps"]}
    assert rules["pnr"] is not None
    assert "ppr" not in rules


@pytest.mark.parametrize(("limit", "expected"), [("0.9", 0), ("0", 3)])
def test_a_gap_that_is_too_large_is_told_by_the_exit_code(scored, run, limit, expected):
    frame = pd.read_parquet(scored)
    unfair = frame.assign(score=frame["score"] * np.where(frame["sex"] == "female", 0.5, 1.0))
    unfair.to_parquet(scored.with_name("unfair.parquet"))
    code, out, err = run(
        "audit", scored.with_name("unfair.parquet"), *WORDS, "--max-gap", f"fnr={limit}",
        "--max-gap", "ppr=0.95", "--json", "--quiet",
    )  # fmt: skip
    assert code == expected
    reason = r"Exit code 3: the fnr gap by sex is .*: --max-gap fnr=0 is not met\.\n"
    assert re.fullmatch(reason if expected else "", err)
    assert [g["rate"] for g in json.loads(out)["over"]] == ["fnr"] * (expected == 3)


@pytest.fixture
def three_groups(tmp_path):
    """Two large groups whose false negative rates are .12 apart, and one of 12 rows."""
    sex = np.repeat(["woman", "man", "other"], [4_000, 4_000, 12])
    refused = np.concatenate([np.arange(4_000) < 1_280, np.arange(4_000) < 800, np.arange(12) < 2])
    table = pd.DataFrame({"sex": sex, "label": "1", "score": np.where(refused, 0.2, 0.8)})
    table = pd.concat([table, table.assign(label="0", score=0.1)])
    table.to_csv(tmp_path / "three.csv", index=False)
    return tmp_path / "three.csv"


COLUMNS = ("--label", "label", "--score", "score", "--sensitive", "sex")


def test_a_tiny_group_does_not_hide_a_certain_violation(three_groups, run):
    code, out, _ = run("audit", three_groups, *COLUMNS, "--max-gap", "fnr=0.05", "--json")
    (verdict,) = json.loads(out)["verdicts"]
    assert (code, verdict["status"]) == (3, "not met")
    assert verdict["low"] > 0.09


@pytest.mark.parametrize(
    ("limit", "least", "decide", "code", "status"),
    [
        ("0.14", "0", "interval", 0, "not met on these rows, not certain"),
        ("0.14", "0", "estimate", 3, "not met on these rows, not certain"),
        ("0.2", "0", "estimate", 0, "met on these rows, not certain"),
        ("0.15", "30", "estimate", 0, "met"),
        ("0.115", "30", "interval", 0, "not met on these rows, not certain"),
    ],
)
def test_which_fact_decides(three_groups, run, limit, least, decide, code, status):
    found, out, err = run(
        "audit", three_groups, *COLUMNS, "--max-gap", f"fnr={limit}", "--min-group-rows", least,
        "--decide", decide,
    )  # fmt: skip
    assert found == code
    assert f"is {status}." in " ".join(err.split())
    assert "sex=other" in out  # reported all the same


def test_the_report_of_an_audit_is_about_the_limits_asked_for(scored, tmp_path, run):
    out = tmp_path / "audit"
    frame, unfair = pd.read_parquet(scored), tmp_path / "unfair.parquet"
    halved = frame["score"] * np.where(frame["sex"] == "female", 0.5, 1.0)
    frame.assign(score=halved).to_parquet(unfair)
    run("audit", unfair, *WORDS, "--max-gap", "fnr=0.01", "--max-gap", "ppr=0.9", "--out", out)
    evidence = Evidence.load(out / "evidence.json")
    assert {(f.measure, f.limit, f.status) for f in evidence.verdicts} >= {("gap", 0.9, "met")}
    text = (out / "report.md").read_text()
    assert "constraints, judged on the rows of the table: " in text
    assert "| ● 0." in text  # far beyond the limit of 0.01
    assert "the four-fifths rule" in text.split("## What was asked")[0]


def test_an_audit_of_decisions_that_say_nothing(scored, tmp_path, run):
    _, _, err = run("audit", scored, *WORDS, "--threshold", "0.999999", "--out", tmp_path / "a")
    assert "Note: The model decides next to nothing" in err
    assert "--at-positive-rate" in err
    short = (tmp_path / "a" / "report.md").read_text().split("## In short")[1].strip()
    assert short.startswith("**✗ The model decides next to nothing")


@pytest.mark.parametrize("decide", ["interval", "estimate"])
def test_a_limit_that_is_met_by_decisions_that_say_nothing_does_not_pass(scored, run, decide):
    words = ("--threshold", "0.999999", "--max-gap", "fnr=0.1", "--decide", decide, "--quiet")
    code, out, err = run("audit", scored, *WORDS, *words, "--json")
    assert (code, [g["rate"] for g in json.loads(out)["over"]]) == (3, ["fnr"])
    assert re.fullmatch(
        r"Exit code 3: the fnr gap by sex is 0\.0.*: --max-gap fnr=0\.1 is met on these rows, by "
        r"decisions that say nothing\.\n",
        err,
    )


def test_the_stricter_of_two_limits_counts(three_groups, run):
    limits = "--max-gap", "fnr=0.05", "--max-gap", "fnr=0.9"
    code, out, _ = run("audit", three_groups, *COLUMNS, *limits, "--json")
    assert (code, [v["limit"] for v in json.loads(out)["verdicts"]]) == (3, [0.05])


def test_a_limit_that_nothing_can_be_held_to_is_refused(three_groups, run, tmp_path):
    code, _, err = run(
        "audit", three_groups, *COLUMNS, "--max-gap", "fnr=0.05", "--min-group-rows", "5000",
        "--out", tmp_path / "out",
    )  # fmt: skip
    assert code == 1
    assert "0 of its groups have --min-group-rows=5000 rows" in " ".join(err.split())
    assert not (tmp_path / "out").exists()


def test_groups_that_are_not_compared_are_named(three_groups, run, tmp_path):
    out = tmp_path / "out"
    code, _, err = run(
        "audit", three_groups, *COLUMNS, "--max-gap", "fnr=0.5", "--min-group-rows", "30",
        "--out", out,
    )  # fmt: skip
    assert code == 0
    page = (out / "report.md").read_text()
    for said in (" ".join(err.split()), " ".join(page.split())):
        named = "sex = other (fpr 12, fnr 12, ppr 24, precision 10 rows)"
        few = f"not compared, because fewer than 30 rows count (--min-group-rows): {named}"
        assert few in said.replace("\\", "")
    assert "sex=other: 12 rows" not in page
    assert "took no part in training" not in page  # nobody knows


def test_the_verdict_is_that_of_the_library(three_groups, run):
    words = ("--max-gap", "fnr=0.05", "--min-group-rows", "0", "--json")
    found = json.loads(run("audit", three_groups, *COLUMNS, *words)[1])["verdicts"][0]
    table = pd.read_csv(three_groups)
    y = table["label"].to_numpy()
    term = parity("fnr", 0.05, by="sex")
    columns = read_sensitive_features(table[["sex"]], len(table))
    cells = build_cells(y, columns)
    measured = measure(
        [term], cells, cells.weight_of((table["score"] >= 0.5).to_numpy()), where=""
    )
    (verdict,) = build(measured).verdicts
    assert found["status"] == verdict.status
    ends = (verdict.value, verdict.low, verdict.high)
    assert (found["value"], found["low"], found["high"]) == pytest.approx(ends, abs=0.02)


def test_scores_that_are_no_probabilities(scored, run, tmp_path):
    frame = pd.read_parquet(scored)
    p = frame["score"]
    frame.assign(score=np.log(p / (1 - p))).to_csv(tmp_path / "logits.csv", index=False)
    code, out, err = run("audit", tmp_path / "logits.csv", *WORDS, "--threshold", "0", "--json")
    plain = json.loads(run("audit", scored, *WORDS, "--json")[1])
    found = json.loads(out)
    assert code == 0
    assert "no probabilities" in err
    assert found["calibration"] == []
    assert [r["value"] for r in found["rates"]] == [r["value"] for r in plain["rates"]]


P = np.linspace(0.01, 0.99, 300)
SCORES = {
    "probabilities": (P, True),
    "decisions of 0 and 1": ((P > 0.5).astype(int), True),
    "rounded beyond 1": (P * 1.0000001 / P.max(), True),
    "small probabilities": (P / 100, True),
    "percentages": (100 * P, False),
    "whole percentages": (np.round(100 * P).astype(int), False),
    "log-odds": (np.log(P / (1 - P)), False),
    "ranks": (np.arange(300), False),
    "deciles": (1 + np.arange(300) // 30, False),
    "points, some negative": (np.linspace(-20, 101, 300), False),
    "negative": (-P, False),
    "1 and -1": (np.where(P > 0.5, 1, -1), False),
    "2 and 1": (np.where(P > 0.5, 2, 1), False),
}


@pytest.mark.parametrize(("scores", "fine"), SCORES.values(), ids=list(SCORES))
def test_scores_that_are_no_probabilities_need_a_threshold(scores, fine, run, tmp_path):
    table = {"Score": scores, "Gender": ["F", "M"] * 150, "y": ["yes", "no", "no"] * 100}
    pd.DataFrame(table).to_csv(tmp_path / "decisions.csv", index=False)
    asked = ("audit", tmp_path / "decisions.csv", "--score", "Score", "--sensitive", "Gender")
    for words in (asked, (*asked, "--label", "y")):
        code, _, err = run(*words, "--quiet")
        assert code == (0 if fine else 1)
        message = "are not probabilities.*--threshold 0 for log-odds.*--decision"
        assert fine or re.search(message, err)
        assert run(*words, f"--threshold={np.median(scores)}")[0] == 0
        assert run(*words, "--at-positive-rate", "0.5")[0] == 0


def test_nobody_selected_passes_no_rule(run, tmp_path):
    table = {"score": np.linspace(0, 0.4, 300), "sex": ["F", "M"] * 150}
    pd.DataFrame(table).to_csv(tmp_path / "decisions.csv", index=False)
    words = ("audit", tmp_path / "decisions.csv", "--score", "score", "--sensitive", "sex")
    (gap,) = json.loads(run(*words, "--json")[1])["gaps"]
    assert (gap["gap"], gap["ratio"], gap["four_fifths"]) == (0, None, None)
    out = run(*words, "--out", tmp_path / "audit")[1]
    assert re.search(r"undefined +F / F +undefined", out)
    assert "rule passes" not in (tmp_path / "audit" / "report.md").read_text()


def test_the_report_of_an_audit(scored, run, tmp_path):
    out = tmp_path / "audit"
    code, _, _ = run("audit", scored, *BOTH, "--quiet", "--title", "By <hand>", "--out", out)
    assert code == 0
    assert {p.name for p in out.iterdir()} == {"evidence.json", "report.html", "report.md"}
    evidence = Evidence.load(out / "evidence.json")
    assert evidence.model is None
    assert evidence.data.files[0].rows == 2_000
    assert {r.group for r in evidence.roc} >= {"everyone", "female", "male"}
    page = (out / "report.html").read_text()
    assert "By &lt;hand&gt;" in page
    assert len(page) < 2_000_000


def test_points_of_curves_are_those_of_the_decisions(scored, run, tmp_path):
    run("audit", scored, *WORDS, "--at-fpr", "0.0371", "--quiet", "--out", tmp_path / "a")
    evidence = Evidence.load(tmp_path / "a" / "evidence.json")
    rates = {(r.group, r.rate): r.value for r in evidence.rates}
    for curve in evidence.roc:
        assert curve.at_fpr == rates[curve.group, "fpr"]
        assert curve.at_tpr == pytest.approx(1 - rates[curve.group, "fnr"])


def test_rows_without_label_are_left_out_with_a_word(scored, run, tmp_path):
    frame = pd.read_parquet(scored)
    frame.loc[:4, "approved"] = None
    frame.to_parquet(tmp_path / "s.parquet")
    code, out, err = run("audit", tmp_path / "s.parquet", *WORDS, "--json")
    assert code == 0
    assert json.loads(out)["rows"] == 1_995
    assert "5 rows are left out, since their label is missing" in err


# compare
# -----------------------------------------------------------------------


def test_compare_says_what_fairness_costs(data, run, tmp_path):
    out = tmp_path / "c"
    code, said, _ = run("compare", data, *ASKED, *QUICK, "--models", "4", "--out", out)
    assert code == 0
    for text in ("engine alone", "no constraint", "chosen: tolerance 0.1", "largest gap", "cost"):
        assert text in said
    assert "decides nothing" not in said
    table = pd.read_csv(out / "table.csv")
    assert len(table) == 1 + 4 + 1
    plain = table.iloc[0]
    assert plain["model"] == "engine alone"
    np.testing.assert_allclose(table["cost"], plain["accuracy"] - table["accuracy"])
    evidence = Evidence.load(out / "evidence.json")
    chosen = evidence.tradeoff.points[evidence.tradeoff.chosen]
    assert chosen.name == "tolerance 0.1, trained by itself"
    assert (out / "report.html").exists()


def test_no_alternative_is_named_that_decides_nothing(data, run, tmp_path):
    point = ("--threshold", "0.9999", "--models", "3", "--quiet")
    code, said, _ = run("compare", data, *ASKED, *QUICK, *point, "--out", tmp_path / "c")
    assert code == 0
    report = (tmp_path / "c" / "report.md").read_text().split("All models, on the test rows")[1]
    for text in (said, report):
        assert text.count("decides nothing") == 4
    assert "No model is certainly less discriminatory" in said
    assert "The decisions of all models are nearly constant on these rows" in said


def test_compare_as_json(data, run):
    code, out, err = run("compare", data, *ASKED, *QUICK, "--models", "2", "--json")
    assert (code, err) == (0, "")
    models = json.loads(out)["models"]
    assert [m["model"] for m in models][:2] == ["engine alone", "no constraint"]
    assert all(m["gap_low"] <= m["gap"] <= m["gap_high"] for m in models)


# report
# -----------------------------------------------------------------------


def test_a_report_is_drawn_again(model, run, tmp_path):
    out = tmp_path / "report"
    code, _, _ = run("report", model, "--title", "Autumn", "--format", "markdown", "--out", out)
    assert code == 0
    was = (model / "report.md").read_text()
    assert out.read_text() == was.replace("# Fairness report: predicting approved", "# Autumn", 1)


def test_the_report_is_the_same_as_that_of_training(model, run, tmp_path):
    run("report", model / "evidence.json", "--out", tmp_path / "again.html")
    assert (tmp_path / "again.html").read_text() == (model / "report.html").read_text()


def test_reports_in_words_have_no_figures_that_are_none(model):
    assert not re.search(r"\bnan\b|\bNone\b", (model / "report.md").read_text())
    assert not re.search(r"\bnan\b|\bNone\b", (model / "card.md").read_text())


def test_crossings_of_too_many_cells_are_left_out_and_named(run, tmp_path):
    rng = np.random.default_rng(0)
    n = 4_000
    frame = pd.DataFrame(
        {
            "y": rng.integers(0, 2, n),
            "p": rng.random(n),
            "a": rng.integers(0, 30, n),
            "b": rng.integers(0, 30, n),
        }
    )
    frame.to_csv(tmp_path / "s.csv", index=False)
    words = ("--label", "y", "--score", "p", "--sensitive", "a", "--sensitive", "b", "--quiet")
    code, out, _ = run("audit", tmp_path / "s.csv", *words, "--json")
    found = json.loads(out)
    assert code == 0
    assert {g["attribute"] for g in found["gaps"]} == {"a", "b"}
    assert any("a x b (" in limit for limit in found["limits"])


def test_a_comma_in_the_name_of_a_column_changes_no_verdict(scored, run):
    """Crossed columns are joined by commas in tables; nothing is read out of such names."""
    frame = pd.read_parquet(scored)
    frame["score"] *= np.where(frame["sex"] == "female", 0.5, 1.0)
    path = scored.with_name("comma.parquet")
    frame.rename(columns={"sex": "sex, as given"}).to_parquet(path)
    words = ("--label", "approved", "--score", "score", "--sensitive", "sex, as given")
    for more in ((), ("--sensitive", "age_band")):
        code, out, _ = run("audit", path, *words, *more, "--max-gap", "fnr=0.01", "--json")
        found = json.loads(out)
        assert code == 3
        assert "sex, as given" in {gap["attribute"] for gap in found["over"]}
        crossed = {rate["attribute"] for rate in found["rates"] if rate["crossed"]}
        assert crossed == ({"sex, as given, age_band"} if more else set())


def test_columns_that_tables_could_not_tell_from_a_crossing_are_refused(scored, run):
    frame = pd.read_parquet(scored).assign(**{"sex, age_band": "a", "": "b"})
    path = scored.with_name("alike.parquet")
    frame.to_parquet(path)
    code, _, err = run("audit", path, *BOTH, "--sensitive", "sex, age_band")
    assert code == 1
    assert "both be called 'sex, age_band'" in err
    code, _, err = run("audit", path, *WORDS, "--sensitive", "")
    assert code == 1
    assert "has no name" in err


# Decisions of people
# -----------------------------------------------------------------------


@pytest.mark.parametrize("labels", [(), ("--label", "qualified")], ids=["alone", "with labels"])
def test_an_audit_of_decisions_speaks_of_decisions(tmp_path, run, labels):
    rng = np.random.default_rng(0)
    sex = np.array(["female", "male"])[rng.integers(0, 2, 600)]
    sex[:4] = "other"
    good = rng.random(600) < 0.5
    hired = rng.random(600) < 0.1 + 0.2 * (sex == "male") + 0.4 * good
    qualified = np.where(good, "yes", "no")
    table = {"sex": sex, "outcome": np.where(hired, "hired", "rejected"), "qualified": qualified}
    pd.DataFrame(table).to_csv(tmp_path / "d.csv", index=False)
    words = ("audit", tmp_path / "d.csv", "--decision", "outcome", "--positive", "hired", *labels)
    asked = ("--sensitive", "sex", "--max-gap", "ppr=0.9", "--out", tmp_path / "r")
    code, out, err = run(*words, *asked)
    assert code == 0, err
    page = (tmp_path / "r" / "report.md").read_text("utf-8")
    for said in ("this model", "the model", "test rows", "predicted positive", "ppr"):
        assert said not in page.lower() and said not in out.lower(), said
    assert "positive rate" in out and "positive rate" in page
    assert "constraint is met on the rows of the table" in page
    assert "fewer than 30 rows count (--min-group-rows): sex = other (" in " ".join(err.split())
    html = (tmp_path / "r" / "report.html").read_text("utf-8")
    assert "this model" not in html and "predicted positive rate" not in html


def test_decisions_that_are_all_the_same_are_no_models(tmp_path, run):
    label = np.array(["yes", "no"] * 300)
    table = {"sex": ["f", "f", "m", "m"] * 150, "outcome": ["yes"] * 599 + ["no"], "label": label}
    pd.DataFrame(table).to_csv(tmp_path / "d.csv", index=False)
    words = ("--decision", "outcome", "--label", "label", "--sensitive", "sex", "--out")
    run("audit", tmp_path / "d.csv", *words, tmp_path / "r")
    page = (tmp_path / "r" / "report.md").read_text("utf-8")
    assert "The decisions are nearly all the same: " in page
    assert "operating point" not in page and "The model" not in page
