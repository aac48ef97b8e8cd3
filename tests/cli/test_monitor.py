"""``fairboost monitor``: alarms, exit codes, files, and what is refused."""

import json
import shutil

import numpy as np
import pandas as pd
import pytest

from fairboost.cli import main
from tests.loan_files import QUICK, loans

KEPT = [word for name in ("approved", "sex", "age_band") for word in ("--keep", name)]


@pytest.fixture(scope="module")
def watched(tmp_path_factory):
    """A model of two groups, at an operating point."""
    folder = tmp_path_factory.mktemp("watched")
    loans(3_000, seed=0).to_csv(folder / "loans.csv", index=False)
    asked = ["--label", "approved", "--sensitive", "sex", "--constraint", "equal_opportunity"]
    asked += ["--tolerance", "0.2", "--at-positive-rate", "0.6", "--no-trade-off"]
    out = folder / "model"
    assert main(["train", str(folder / "loans.csv"), *asked, *QUICK, "--out", str(out)]) == 0
    return out


@pytest.fixture(scope="module")
def decided(tmp_path_factory, watched):
    """What the model decided in eight months; the labels of the last are not known yet."""
    folder = tmp_path_factory.mktemp("decided")
    loans(12_000, seed=5).to_parquet(folder / "new.parquet")
    out = folder / "decided.parquet"
    words = ["predict", str(watched), str(folder / "new.parquet"), *KEPT, "--quiet"]
    assert main([*words, "--out", str(out)]) == 0
    frame = pd.read_parquet(out)
    days = pd.date_range("2025-01-01", "2025-08-31", periods=len(frame))
    frame["decided_at"] = days.strftime("%Y-%m-%d")
    frame.loc[frame["decided_at"] >= "2025-08", "approved"] = None
    frame.to_parquet(out)
    return out


def drifted(decided, path, seed=0):
    """From May on half of the women who would get a loan do not."""
    frame = pd.read_parquet(decided)
    rng = np.random.default_rng(seed)
    hit = (frame["decided_at"] >= "2025-05") & (frame["sex"] == "female")
    hit &= rng.random(len(frame)) < 0.5
    frame.loc[hit, "score"] *= 0.2
    frame.drop(columns="decision").to_parquet(path)
    return path


def test_without_drift_it_is_silent(run, watched, decided, tmp_path):
    out = tmp_path / "out"
    code, shown, said = run("monitor", watched, decided, "--by", "decided_at:month", "--out", out)
    assert code == 0
    assert "No alarm is active at the end of 2025-08, and every constraint and target" in shown
    assert "alarm at" in shown
    assert "false negative rate equal by sex, tolerance 0.2" in shown
    assert "overall predicted positive rate at most 0.6" in shown
    assert "of 12,000 rows have a label; rates that need one are of these rows" in said
    assert {p.name for p in out.iterdir()} == {
        "monitor.html", "monitor.md", "monitor.json", "monitor-periods.csv",
        "monitor-verdicts.csv", "monitor-rates.csv", "monitor-alarms.csv",
    }  # fmt: skip
    page = (out / "monitor.html").read_text()
    assert (
        page.count("<svg") == 4
    )  # the gap, rates of groups, positive decisions at their target, shares
    assert "No alarm is active" in page
    facts = json.loads((out / "monitor.json").read_text())
    assert (facts["format"], facts["standing"], facts["confidence"]) == ("monitor", 0, 0.95)
    assert (facts["state"], facts["doubts"]) == ("met", [])
    so_far = [line for line in facts["tables"]["verdicts"] if line["rows"] == "so far"]
    last = [line["alarm_at"] for line in so_far if line["period"] == "2025-08"]
    assert 0.2 < last[0] < 0.3
    assert 0.6 < last[1] < 0.7
    assert {line["alarm_at"] for line in so_far if line["period"] < "2025-08"} == {None}
    assert [line["labelled"] > 0 for line in facts["tables"]["periods"]] == [True] * 7 + [False]
    assert facts["tables"]["alarms"] == []
    code, _, said = run("monitor", watched, decided, "--by", "decided_at:month", "--out", out)
    assert code == 1
    assert "is not empty" in said
    again = ("monitor", watched, decided, "--by", "decided_at:quarter", "--out", out, "--force")
    assert run(*again, "--quiet")[0] == 0


def test_drift_raises_alarms_with_exit_code_3(run, watched, decided, tmp_path):
    path = drifted(decided, tmp_path / "drifted.parquet")
    words = ("monitor", watched, path, "--by", "decided_at:month", "--json", "--quiet")
    code, shown, said = run(*words)
    assert code == 3
    found = json.loads(shown)
    alarms = {(a["kind"], a["about"]): a for a in found["alarms"]}
    moved = alarms["change", "false negative rate of sex=female"]
    assert moved["since"] == "2025-05"
    assert moved["raised"] == "2025-05"
    assert ("constraint", "false negative rate equal by sex, tolerance 0.2") in alarms
    assert not any("male" in about.replace("female", "") for _, about in alarms)
    assert "Exit code 3: false negative rate of sex=female: has certainly changed" in said
    # The change was dealt with: what is since then has not changed, and it is still unfair.
    code, shown, _ = run(*words, "--since", "2025-05", "--max-change", "0.5")
    assert code == 3
    kinds = {a["kind"] for a in json.loads(shown)["alarms"]}
    assert kinds == {"constraint"}


def test_labels_may_be_missing_altogether(run, watched, decided, tmp_path):
    frame = pd.read_parquet(decided).drop(columns=["approved", "score"])
    frame.to_csv(tmp_path / "rows.csv", index=False)
    code, shown, said = run("monitor", watched, tmp_path / "rows.csv", "--by", "decided_at:week")
    assert code == 4
    assert "there is no column of labels" in said
    assert "Exit code 4: false negative rate equal by sex, tolerance 0.2: cannot be judged" in said
    assert "no row has a label" in said
    assert "overall predicted positive rate at most 0.6" in shown


def test_one_period_and_names_of_periods_will_do(run, watched, decided, tmp_path):
    frame = pd.read_parquet(decided).assign(wave="first")
    frame.to_parquet(tmp_path / "rows.parquet")
    code, shown, said = run("monitor", watched, tmp_path / "rows.parquet", "--by", "wave")
    assert code == 0
    assert "at the end of first" in shown
    assert "order" not in said


@pytest.mark.parametrize("form", ["%m.%Y", "%m%Y", "%b %Y"])
def test_months_are_in_order_across_the_end_of_a_year(run, watched, decided, tmp_path, form):
    path = drifted(decided, tmp_path / "rows.parquet")
    frame = pd.read_parquet(path)
    months = pd.date_range("2025-09-01", periods=8, freq="MS").strftime(form)  # drift from January
    frame["month"] = months[frame["decided_at"].str[5:7].astype(int) - 1]
    frame.sample(frac=1.0, random_state=0).to_parquet(path)
    words = ("monitor", watched, path, "--by", "month", "--json")
    code, shown, _ = run(*words)
    assert code == 3
    found = json.loads(shown)
    assert [line["period"] for line in found["periods"]] == list(months)
    changes = [a["since"] for a in found["alarms"] if "rate of sex=female" in a["about"]]
    assert set(changes) == {months[4]}
    code, shown, _ = run(*words, "--since", months[1])
    assert code == 3
    assert [line["period"] for line in json.loads(shown)["periods"]] == list(months[1:])


def test_groups_that_training_did_not_know_are_named(run, watched, decided, tmp_path):
    frame = pd.read_parquet(decided)
    frame.loc[frame.index[:50], "sex"] = "other"
    frame.loc[frame.index[50:60], "sex"] = None
    frame.to_parquet(tmp_path / "rows.parquet")
    words = ("monitor", watched, tmp_path / "rows.parquet", "--by", "decided_at:month", "--json")
    code, shown, said = run(*words)
    assert code == 0
    said = " ".join(said.split())
    assert "the group 'other' of 'sex', in 50 rows, is none of training; these are in over" in said
    assert "'sex' is missing in 10 rows; these are in overall rates and in no group" in said
    assert "sex=other" not in shown.replace(said, "")


def test_another_spelling_of_the_groups_is_an_alarm_of_its_own(run, watched, decided, tmp_path):
    frame = pd.read_parquet(decided)
    frame["sex"] = frame["sex"].astype(object).str.upper()
    frame.to_parquet(tmp_path / "rows.parquet")
    words = ("monitor", watched, tmp_path / "rows.parquet", "--by", "decided_at:month")
    code, shown, said = run(*words, "--quiet", "--out", tmp_path / "out")
    assert code == 4
    assert "2 alarms are active" in shown
    assert "no rows to judge by" in shown
    reasons = said.splitlines()
    assert all(line.startswith("Exit code 4: ") for line in reasons)
    assert len(reasons) == 2
    assert "fewer than two known groups have eligible rows" in said
    assert "('FEMALE', 'MALE')" in said or "('MALE', 'FEMALE')" in said
    page = (tmp_path / "out" / "monitor.html").read_text()
    assert "✗ 2 alarms are active" in page
    assert "✓ No alarm" not in page
    assert page.count("<svg") == 1  # of groups there is nothing to draw
    assert "did you mean &#x27;female&#x27;?" in page
    assert "Share of rows of no known group of sex" in page
    code, shown, _ = run(*words, "--quiet", "--json", "--max-change", "0.5")
    found = json.loads(shown)
    assert (code, found["state"], found["standing"]) == (4, "alarm", 2)
    assert {alarm["kind"] for alarm in found["alarms"]} == {"rows"}


def test_a_group_that_vanishes_is_an_alarm_of_its_own(run, watched, decided, tmp_path):
    frame = pd.read_parquet(decided)
    frame["sex"] = frame["sex"].astype(object)
    late = (frame["decided_at"] >= "2025-06") & (frame["sex"] == "female")
    frame.loc[late, "sex"] = "FEMALE"
    frame.to_parquet(tmp_path / "rows.parquet")
    words = ("monitor", watched, tmp_path / "rows.parquet", "--by", "decided_at:month")
    code, _, said = run(*words, "--quiet", "--max-change", "0.9")
    assert code == 4
    assert said.startswith("Exit code 4: rows of sex=female: none since 2025-06; the share of")
    code, _, said = run(*words, "--quiet")  # by default the share of the others is one, too
    assert code == 3
    assert "Exit code 3: rows of sex=female: none since 2025-06" in said
    assert "share of rows of no known group of sex ('FEMALE'): has certainly changed" in said
    assert "Are the groups written as in training?" in said


def test_a_group_that_was_small_in_training_is_compared(run, tmp_path):
    """Nobody of a group of 12 rows in training is accepted any more."""
    asked = ["--label", "approved", "--sensitive", "sex", "--constraint", "equal_opportunity"]
    asked += ["--tolerance", "0.3", "--no-trade-off", *QUICK, "--quiet"]
    for name, rows, seed, few in (("old", 3_000, 0, 12), ("new", 6_000, 5, 300)):
        frame = loans(rows, seed=seed)
        frame["sex"] = frame["sex"].astype(str)
        frame.loc[frame.index[:few], "sex"] = "other"
        frame.sample(frac=1.0, random_state=0).to_csv(tmp_path / f"{name}.csv", index=False)
    model, out = tmp_path / "model", tmp_path / "decided.csv"
    assert run("train", tmp_path / "old.csv", *asked, "--out", model)[0] == 0
    words = ["--keep", "approved", "--keep", "sex", "--quiet", "--out", out]
    assert run("predict", model, tmp_path / "new.csv", *words)[0] == 0
    frame = pd.read_csv(out).drop(columns="decision")
    frame.loc[frame["sex"] == "other", "score"] = 0.0
    frame["quarter"] = np.arange(len(frame)) * 4 // len(frame) + 1
    frame.to_csv(out, index=False)
    code, shown, _ = run("monitor", model, out, "--by", "quarter")
    assert code == 3 and "not met" in shown


def test_few_rows_are_no_good_news(run, watched, decided, tmp_path):
    """The gap may be far beyond its limit, and so few rows could not show it."""
    pd.read_parquet(decided).iloc[::20].to_parquet(tmp_path / "rows.parquet")
    words = ("monitor", watched, tmp_path / "rows.parquet", "--by", "decided_at:month")
    code, shown, _ = run(*words, "--out", tmp_path / "out")
    assert code == 0
    shown = " ".join(shown.split())
    assert "but 2 of 2 constraints and targets might be broken." in shown
    assert (
        "The smallest gap that the rows so far could have shown to be above the limit is" in shown
    )
    page = (tmp_path / "out" / "monitor.html").read_text()
    assert "? No alarm is active" in page
    facts = json.loads((tmp_path / "out" / "monitor.json").read_text())
    assert facts["state"] == "not certain"
    assert len(facts["doubts"]) == 2


def test_tables_hold_no_raw_control_characters_and_no_formulas(run, watched, decided, tmp_path):
    frame = pd.read_parquet(decided)
    frame["wave"] = np.where(frame["decided_at"] < "2025-05", "=1+1", "\x1b[2Jevil")
    frame.to_parquet(tmp_path / "rows.parquet")
    words = ("monitor", watched, tmp_path / "rows.parquet", "--by", "wave")
    assert run(*words, "--out", tmp_path / "out")[0] == 0
    for path in (tmp_path / "out").glob("*.csv"):
        assert "\x1b" not in path.read_text()
    shown = pd.read_csv(tmp_path / "out" / "monitor-periods.csv")["period"]
    assert shown.tolist() == ["'=1+1", "\\x1b[2Jevil"]


def test_a_model_trained_with_weights_is_not_compared_with_training(
    run, watched, decided, tmp_path
):
    shutil.copytree(watched, tmp_path / "model")
    path = tmp_path / "model" / "evidence.json"
    document = json.loads(path.read_text())
    document["evidence"]["data"]["weight"] = "w"
    path.write_text(json.dumps(document))
    words = ("monitor", tmp_path / "model", decided, "--by", "decided_at:month", "--json")
    code, shown, said = run(*words)
    assert code == 0
    assert "monitoring counts rows, each once" in said
    rates = json.loads(shown)["rates"]
    assert {line["rate"] for line in rates if line["training"] is not None} == {"no known group"}


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--by", "month"), "there is no column 'month'"),
        (("--by", "decided_at:month", "--since", "2024-01"), "--since '2024-01' is not a period"),
        (("--by", "decided_at:month", "--label", "nothing"), "has no column 'nothing'"),
        (("--by", "decided_at:month", "--decision", "sex"), "'sex' is named twice among --by"),
        (("--by", "decided_at:month", "--label", "age_band"), "the label 'age_band' holds"),
        (("--by", "decided_at:month", "--level", "95"), "confidence must lie strictly"),
    ],
)
def test_wrong_words_are_refused(run, watched, decided, words, said):
    code, _, told = run("monitor", watched, decided, *words)
    assert code == 1
    assert said in told


def test_other_models_and_folders_are_refused(run, model, watched, decided, tmp_path):
    code, _, said = run("monitor", model, decided, "--by", "decided_at:month")
    assert code == 1
    assert "the table is of another model or threshold" in said
    shutil.copytree(watched, tmp_path / "model")
    (tmp_path / "model" / "evidence.json").unlink()
    code, _, said = run("monitor", tmp_path / "model", decided, "--by", "decided_at:month")
    assert code == 1
    assert "has the groups and rates of training" in said
    rows = pd.read_parquet(decided).drop(columns=["score", "decision"])
    rows.to_parquet(tmp_path / "rows.parquet")
    code, _, said = run("monitor", watched, tmp_path / "rows.parquet", "--by", "decided_at:month")
    assert code == 1
    assert "neither a column 'score' nor a column 'decision'" in said
    code, _, said = run("monitor", watched, decided, "--by", "decided_at:month", "--out", watched)
    assert code == 1
    assert "which the command reads" in said
    with pytest.raises(SystemExit):
        run("monitor", watched, decided, "--by", "decided_at:month", "--max-change", "2")
