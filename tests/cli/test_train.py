"""``fairboost train`` and ``predict``: what they write, and that it is the library's own."""

import hashlib
import json
import re
import sys

import lightgbm
import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from lightgbm import LGBMClassifier

import fairboost
from fairboost.report import Evidence
from fairboost.tabular.files import TableFile
from fairboost.tabular.schema import TableSchema
from tests.loan_files import ASKED, QUICK, loans

pytestmark = pytest.mark.usefixtures("no_pictures")

FILES = {
    "card.md", "evidence.json", "model.json", "model.txt", "model.txt.decide.json", "report.html",
    "report.md",
    "schema.json",
}  # fmt: skip


def test_the_folder_of_a_model(model):
    assert {path.name for path in model.iterdir()} == FILES
    evidence = Evidence.load(model / "evidence.json")
    assert evidence.data.positive == "yes"
    assert evidence.data.label == "approved"
    assert evidence.data.files[0].rows == 3_000
    assert evidence.tradeoff is not None
    exported = (model / "model.txt").read_bytes()
    assert evidence.model.export_sha256 == hashlib.sha256(exported).hexdigest()
    assert set(evidence.data.left_out) == {"id", "opened"}


@pytest.mark.parametrize("weight", [(), ("--weight", "loan_amount")], ids=["", "weighted"])
@pytest.mark.parametrize("command", ["train", "compare"])
def test_decisions_that_say_nothing_are_spoken_of_once(data, tmp_path, run, command, weight):
    """With the figures of the test rows: those of the rows held out differ."""
    words = (*ASKED, *QUICK[:-1], *weight, "--threshold", "0.999", "--out", tmp_path / "out")
    _, _, err = run(command, data, *words, *(("--models", "3") * (command == "compare")))
    assert err.count("next to nothing") == 1
    assert (tmp_path / "out" / "report.md").read_text().count("next to nothing") == 1


def test_the_model_is_blind_unless_asked_otherwise(model):
    schema = TableSchema.load(model / "schema.json")
    assert not {"sex", "age_band"} & {c.name for c in schema.columns}
    assert not Evidence.load(model / "evidence.json").data.sensitive[0].feature
    card = (model / "card.md").read_text()
    assert "does not see `sex`, `age_band`" in card
    first = (model / "report.md").read_text().split("## In short\n\n")[1].split("\n\n")[0]
    assert "Of every 100 people of a group whose “approved” is “yes”, the model decides" in first
    assert first in card


def test_the_model_is_the_one_that_the_library_trains(data, model):
    schema = TableSchema.load(model / "schema.json")
    table = TableFile(data).read(["approved", "sex", "age_band"])
    X = schema.features(table)
    saved = fairboost.load(model / "model.json")
    stock = lightgbm.Booster(model_file=model / "model.txt").predict(X)
    assert np.abs(saved.predict_proba(X)[:, 1] - stock).max() < 1e-12
    assert saved.tolerance == 0.1
    assert saved.constraint == "equal_opportunity"
    assert isinstance(saved.estimator, LGBMClassifier)
    assert saved.estimator.num_leaves == 7


def test_the_same_command_gives_the_same_model_and_json_for_machines(data, model, tmp_path, run):
    again = tmp_path / "again"
    words = (*ASKED, *QUICK, "--no-trade-off", "--json", "--out", again)
    code, out, err = run("train", data, *words)
    found = json.loads(out)
    assert (code, err) == (0, "")
    for name in ("model.json", "model.txt", "schema.json"):
        assert (again / name).read_bytes() == (model / name).read_bytes()
    evidence = Evidence.load(again / "evidence.json")
    assert evidence.tradeoff is None
    assert {g.model for g in evidence.gaps} == {"chosen", "plain"}  # what the constraint changes
    assert (evidence.data.negative, evidence.data.positive) == ("no", "yes")
    assert found["met"] in (True, None)
    assert set(found["files"]) == FILES
    assert found["rows"] == {"training": 2_401, "test": 599}
    assert {v["where"] for v in found["verdicts"]} == {"held out", "test"}


def test_a_model_that_decides_nothing_is_told_of(data, tmp_path, run):
    words = [word for word in (*ASKED, *QUICK) if word != "--quiet"]
    point = ("--no-trade-off", "--threshold", "0.9999")
    code, out, err = run("train", data, *words, *point, "--out", tmp_path / "m")
    assert code == 3
    assert "met on these rows, by decisions that say nothing" in out
    assert "The model decides next to nothing" in " ".join(err.split())
    card = (tmp_path / "m" / "card.md").read_text()
    assert "The model decides next to nothing" in card
    assert "| met |" not in card
    words = (*ASKED, *QUICK, *point, "--json", "--force", "--decide", "estimate")
    code, out, err = run("train", data, *words, "--out", tmp_path / "m")
    found = json.loads(out)
    assert (code, found["met"], found["within"]) == (3, False, True)
    assert len(err.splitlines()) == 2  # quiet, but for the reason of either constraint
    assert re.match(r"Exit code 3: false negative rate equal by .* decisions that say", err)


def test_groups_that_are_not_judged_are_named_on_the_card(table, tmp_path, run):
    frame = table.assign(
        sex=table["sex"].astype("str").where(np.arange(len(table)) % 50 > 0, "other")
    )
    frame.to_csv(tmp_path / "d.csv", index=False)
    words = (*ASKED, *QUICK, "--no-trade-off", "--min-group-rows", "30")
    code, _, err = run("train", tmp_path / "d.csv", *words, "--out", tmp_path / "m")
    assert code == 0, err
    card = (tmp_path / "m" / "card.md").read_text().replace("\\", "")
    assert "because fewer than 30 rows count (--min-group-rows): sex=other (" in card


def test_what_train_says(table, tmp_path, run):
    """Results on standard output, remarks on standard error, nothing twice."""
    frame = table.copy()
    frame.loc[:9, "approved"] = None
    frame.to_csv(tmp_path / "d.csv", index=False)
    few = (*QUICK[:-1], "--no-trade-off")
    code, out, err = run(
        "train", tmp_path / "d.csv", *ASKED, *few, "--aware", "--out", tmp_path / "m"
    )
    assert code == 0
    for text in ("verdict", "sex=female", "accuracy", "Written to"):
        assert text in out
    assert "10 of 3,000 rows of d.csv are left out, since their label" in err
    assert "column 'opened' is left out: a date or time" in err
    assert "column 'id' is left out: text with 3,000 values" in err
    assert "'age_band' is missing in" in err
    assert "round/s" not in err  # no progress bar, since there is no terminal
    assert "does not see" not in err
    said = "on the rows held out, not certain", "not certain, on the test rows"
    assert sum(map(err.count, said)) == err.count("not certain") > 0
    assert "this model" in out and "plain engine" in out
    notes = re.findall(r"^Note: .*", err, re.MULTILINE)
    assert len(set(notes)) == len(notes)
    assert not set(out.splitlines()) & set(err.splitlines()) - {""}


def test_a_constraint_that_is_not_met_is_told_by_the_exit_code(tmp_path, run):
    """Two trees cannot undo what a column that is nearly the group does."""
    rng = np.random.default_rng(0)
    n = 4_000
    group = rng.integers(0, 2, n)
    x = rng.normal(size=n)
    y = (x + rng.normal(size=n) > 0).astype(int)
    told = np.where(rng.random(n) < 0.95, np.where(group == 1, 3.0, -3.0), 0.0)
    biased = np.where(rng.random(n) < 0.9, group, y)
    pd.DataFrame({"x": x, "told": told, "g": group, "y": biased}).to_csv(
        tmp_path / "d.csv", index=False
    )
    words = ("--label", "y", "--sensitive", "g", "--constraint", "demographic_parity")
    code, out, _ = run(
        "train", tmp_path / "d.csv", *words, "--option", "n_estimators=2", "--jobs", "1",
        "--quiet", "--no-trade-off", "--json", "--out", tmp_path / "m",
    )  # fmt: skip
    assert code == 3
    assert json.loads(out)["met"] is False
    assert (tmp_path / "m" / "model.json").exists()


def test_test_and_holdout_files_an_operating_point_and_weights(tmp_path, run):
    for name, seed in (("train", 0), ("test", 1), ("held", 2)):
        frame = loans(1_500, seed).assign(w=np.linspace(0.5, 1.5, 1_500))
        frame.to_parquet(tmp_path / f"{name}.parquet")
    code, out, _ = run(
        "train", tmp_path / "train.parquet", *ASKED, *QUICK, "--no-trade-off", "--json",
        "--test", tmp_path / "test.parquet", "--holdout", tmp_path / "held.parquet",
        "--weight", "w", "--at-positive-rate", "0.3", "--out", tmp_path / "m",
    )  # fmt: skip
    assert code in (0, 3)
    assert json.loads(out)["rows"] == {"training": 1_500, "held out": 1_500, "test": 1_500}
    evidence = Evidence.load(tmp_path / "m" / "evidence.json")
    assert [f.role for f in evidence.data.files] == ["training", "test", "held out"]
    assert evidence.data.weight == "w"
    assert "at_positive_rate(0.3)" in evidence.asked.operating_point
    assert not {"w"} & {c.name for c in TableSchema.load(tmp_path / "m" / "schema.json").columns}


@pytest.mark.parametrize("with_file", [False, True])
def test_a_share_to_read_rates_on_beside_a_file_or_alone(tmp_path, run, with_file):
    for name, seed in (("train", 0), ("held", 2)):
        loans(1_500, seed).to_parquet(tmp_path / f"{name}.parquet")
    held = ("--holdout", tmp_path / "held.parquet") if with_file else ()
    run(
        "train", tmp_path / "train.parquet", *ASKED, *QUICK, "--trade-off", "--json", *held,
        "--holdout-share", "0.3", "--out", tmp_path / "m",
    )  # fmt: skip
    note = fairboost.load(tmp_path / "m" / "model.json").fairness_report_.note
    assert note.startswith("held out: a share of 30%")
    assert ("; and the given set of 1,500 rows" in note) == with_file


def test_columns_with_names_that_mean_something_to_engines(tmp_path, run, table):
    frame = table.rename(columns={"income": "<script>", "debt": "debt, [k€]", "sex": "<b>"})
    frame.to_csv(tmp_path / "d.csv", index=False)
    code, _, err = run(
        "train", tmp_path / "d.csv", "--label", "approved", "--sensitive", "<b>", *QUICK,
        "--no-trade-off", "--out", tmp_path / "m", "--tolerance", "0.2",
    )  # fmt: skip
    assert code == 0, err
    assert "\\<script\\>" in (tmp_path / "m" / "card.md").read_text()


# predict
# -----------------------------------------------------------------------


@pytest.mark.parametrize("ending", ["csv", "csv.gz", "parquet", "arrow.zst"])
def test_predict_gives_what_the_library_gives(model, tmp_path, run, ending, monkeypatch):
    monkeypatch.setattr("fairboost.tabular.files.BATCH_ROWS", 300)  # several batches
    new = loans(1_000, seed=3).drop(columns=["sex", "age_band", "approved"])
    new.to_parquet(tmp_path / "new.parquet")
    out = tmp_path / f"scores.{ending}"
    code, said, _ = run("predict", model, tmp_path / "new.parquet", "--keep", "id", "--out", out)
    assert code == 0
    scores = TableFile(out).read().to_pandas()
    assert scores.columns.tolist() == ["id", "score", "decision"]
    assert scores["id"].tolist() == new["id"].tolist()
    saved, schema = fairboost.load(model / "model.json"), TableSchema.load(model / "schema.json")
    X = schema.features(pa.Table.from_pandas(new))
    np.testing.assert_array_equal(scores["score"], saved.predict_proba(X)[:, 1])
    decided = np.array(schema.classes)[saved.predict(X)]
    assert scores["decision"].tolist() == decided.tolist()
    assert f"{(decided == 'yes').sum():,}" in said


def test_a_csv_file_is_scored_like_a_parquet_file(model, tmp_path, run):
    new = loans(500, seed=4)
    new.loc[3, "sector"] = "never seen"
    new.loc[4, "income"] = np.nan
    new.to_parquet(tmp_path / "new.parquet")
    new.to_csv(tmp_path / "new.csv", index=False)
    found = []
    for ending in ("csv", "parquet"):
        out = tmp_path / f"from_{ending}.parquet"
        assert run("predict", model, tmp_path / f"new.{ending}", "--out", out)[0] == 0
        found.append(pd.read_parquet(out)["score"])
    np.testing.assert_array_equal(*found)
    assert np.isfinite(found[0]).all()


def test_predict_as_json(model, scored, tmp_path, run):
    new = scored.parent / "new.parquet"
    code, out, err = run(
        "predict", model, new, "--json", "--quiet", "--out", tmp_path / "s.parquet"
    )
    found = json.loads(out)
    assert code == 0
    assert err == ""
    assert found["rows"] == 2_000
    assert found["share"] == found["positive"] / 2_000


# engines
# -----------------------------------------------------------------------


def test_xgboost_by_name(data, tmp_path, run):
    import xgboost

    out = tmp_path / "m"
    code, said, err = run(
        "train", data, *ASKED, "--engine", "xgboost", "--option", "n_estimators=10", "--option",
        "max_depth=3", "--jobs", "1", "--quiet", "--json", "--out", out,
    )  # fmt: skip
    assert code in (0, 3), err
    assert "stock.json" in json.loads(said)["files"]
    assert Evidence.load(out / "evidence.json").tradeoff is not None
    new = loans(500, seed=4)
    new.loc[3, "sector"] = "never seen"
    new.to_csv(tmp_path / "new.csv", index=False)
    assert run("predict", out, tmp_path / "new.csv", "--out", tmp_path / "s.parquet")[0] == 0
    schema = TableSchema.load(out / "schema.json")
    X = schema.features(pa.Table.from_pandas(new))
    stock = xgboost.Booster(model_file=str(out / "stock.json"))
    expected = stock.predict(xgboost.DMatrix(X, enable_categorical=True))
    scores = pd.read_parquet(tmp_path / "s.parquet")["score"]
    np.testing.assert_allclose(scores, expected, atol=1e-6)


def test_bars_are_for_terminals_and_files_are_the_same_without(run, data, tmp_path, monkeypatch):
    words = ("train", data, *ASKED, *QUICK[:-1], "--no-trade-off", "--out")
    _, _, err = run(*words, tmp_path / "without")
    assert "round/s" not in err
    assert "\r" not in err
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    _, _, err = run(*words, tmp_path / "with")
    assert "15/15" in err
    monkeypatch.undo()
    files = [(tmp_path / name / "model.json").read_bytes() for name in ("without", "with")]
    assert files[0] == files[1]
