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
    assert "No alarm is active at the end of 2025-08." in shown
    assert "false negative rate equal by sex, tolerance 0.2" in shown
    assert "predicted positive rate of everyone at most 0.6" in shown
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
    assert code == 0
    assert "not judged, since there are no labels: false negative rate equal by sex" in said
    assert "there is no column of labels" in said
    assert "predicted positive rate of everyone at most 0.6" in shown


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
    assert "the group 'other' of 'sex' did not occur in training; its 50 rows count among" in said
    assert "'sex' is missing in 10 rows" in said
    assert "sex=other" not in shown.replace(said, "")


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
    assert all(line["training"] is None for line in json.loads(shown)["rates"])


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
