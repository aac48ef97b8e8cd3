"""``fairboost predict``: what it says about rows that are not like those of training."""

import json

import pytest

from tests.loan_files import loans


@pytest.mark.parametrize("form", ["csv", "parquet"])
def test_categories_that_training_did_not_have_are_counted(run, model, tmp_path, form):
    rows = loans(500, seed=3)
    named = json.loads((model / "schema.json").read_text())
    (name, *_) = [c["name"] for c in named["columns"] if c["kind"] == "category"]
    rows[name] = rows[name].astype(object)
    rows.loc[:6, name] = "never seen"
    rows.loc[7:9, name] = None
    path, out = tmp_path / f"new.{form}", tmp_path / "scores.csv"
    rows.to_csv(path, index=False) if form == "csv" else rows.to_parquet(path)
    words = ("predict", model, path, "--out", out)
    code, shown, notes = run(*words)
    assert code == 0 and "500 rows" in shown
    said = f"Note: 7 values of '{name}' did not occur in training; they count as missing"
    assert said in " ".join(notes.split())
    code, shown, _ = run(*words, "--force", "--json")
    assert json.loads(shown)["unseen"] == {name: 7}
    rows = loans(500, seed=3)
    rows.to_csv(path, index=False) if form == "csv" else rows.to_parquet(path)
    assert "did not occur" not in "".join(run(*words, "--force")[1:])
