"""``fairboost train``, ``predict`` and ``audit`` where a number is predicted."""

import json
import re

import lightgbm
import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from lightgbm import LGBMRegressor

import fairboost
from fairboost import FairGBMRegressor
from fairboost.cli import main
from fairboost.metrics import audit_numbers
from fairboost.report import Evidence
from fairboost.tabular.files import TableFile
from fairboost.tabular.schema import TableSchema
from tests.policy_files import CLAIMS, FEW, policies

pytestmark = pytest.mark.usefixtures("no_pictures")

QUICK = (*FEW, "--quiet", "--no-trade-off")
COSTS = ("--label", "cost", "--sensitive", "gender", "--drop", "claims")


@pytest.fixture(scope="module")
def source(tmp_path_factory):
    path = tmp_path_factory.mktemp("policies") / "policies.csv"
    policies(2_000, seed=0).to_csv(path, index=False)
    return path


@pytest.fixture(scope="module")
def priced(source):
    """The folder of a model of claims per year."""
    out = source.parent / "model"
    assert main(["train", str(source), *CLAIMS, *QUICK, "--out", str(out)]) in (0, 3)
    return out


@pytest.fixture(scope="module")
def expected(source, priced):
    """What the model expects of new policies, with what became of them."""
    new, out = (
        source.parent / "new.parquet",
        source.parent / "expected.parquet",
    )
    policies(1_000, seed=1).to_parquet(new)
    kept = [w for name in ("claims", "gender", "years", "région") for w in ("--keep", name)]
    words = ("predict", priced, new, *kept, "--exposure", "years", "--quiet", "--out", out)
    assert main(list(map(str, words))) == 0
    return out


# train
# -----------------------------------------------------------------------


def test_the_folder_of_a_model(source, priced):
    assert {path.name for path in priced.iterdir()} == {
        "card.md", "evidence.json", "model.json", "model.txt", "model.txt.decide.json",
        "report.html", "report.md",
        "schema.json",
    }  # fmt: skip
    saved, schema = fairboost.load(priced / "model.json"), TableSchema.load(priced / "schema.json")
    assert isinstance(saved, FairGBMRegressor)
    assert isinstance(saved.estimator, LGBMRegressor)
    assert saved.estimator.objective == "poisson"
    assert (saved.constraint, saved.tolerance) == ("calibrated", 0.2)
    assert (schema.classes, schema.exposure) == (None, "years")
    assert [c.name for c in schema.columns] == ["age", "power", "région"]
    evidence = Evidence.load(priced / "evidence.json")
    assert (evidence.task, evidence.data.label, evidence.data.exposure) == (
        "numbers", "claims", "years",
    )  # fmt: skip
    assert {g.model for g in evidence.gaps} == {"chosen", "plain"}  # what the constraint changes
    X = schema.features(TableFile(source).read(["claims", "gender"]))
    stock = lightgbm.Booster(model_file=priced / "model.txt")
    np.testing.assert_allclose(saved.predict(X), stock.predict(X), rtol=1e-9)


def test_the_card_says_what_the_number_is(priced):
    card = (priced / "card.md").read_text()
    assert "- Predicts `claims`, a number, per unit of `years`." in card
    assert "`--exposure COLUMN` adds the column `expected`" in card
    assert "probabilit" not in card
    assert "| this model" in card


def test_the_model_is_the_one_that_the_library_trains(source, tmp_path, run):
    """With a share of the mean for a tolerance, weights, and rows of their own to test on."""
    new = tmp_path / "new.csv"
    policies(600, seed=3).to_csv(new, index=False)
    words = (*COSTS, "--constraint", "equal_means", "--tolerance", "0.05", "--relative")
    code, out, err = run(
        "train", source, *words, "--weight", "years", "--test", new, *QUICK, "--json",
        "--out", tmp_path / "m",
    )  # fmt: skip
    assert code in (0, 3), err
    assert json.loads(out)["rows"] == {"training": 2_000, "test": 600}
    saved, schema = (
        fairboost.load(tmp_path / "m" / "model.json"),
        TableSchema.load(tmp_path / "m" / "schema.json"),
    )
    table = TableFile(source).read(["cost", "gender"])
    engine = LGBMRegressor(n_estimators=15, num_leaves=7, n_jobs=1, verbose=-1)
    again = FairGBMRegressor(
        engine,
        constraint=fairboost.parity("prediction", relative=True),
        tolerance=0.05,
        random_state=0,
    ).fit(
        schema.features(table),
        np.array(table["cost"].to_pylist(), float),
        sensitive_features={"gender": table["gender"].to_pylist()},
        sample_weight=np.array(table["years"]),
    )
    X = schema.features(TableFile(new).read(["cost", "gender"]))
    np.testing.assert_array_equal(saved.predict(X), again.predict(X))


def test_what_train_says(source, tmp_path, run):
    words = (*COSTS, "--constraint", "equal_means", "--tolerance", "10", *FEW)
    code, out, err = run("train", source, *words, "--no-trade-off", "--out", tmp_path / "m")
    assert code in (0, 3)
    assert "mean prediction equal by gender, tolerance 10" in out
    found = re.search(r"gender=F +mean prediction +([\d.]+) \[", out)
    assert 300 < float(found[1]) < 700
    assert re.search(r"plain engine +squared error", out)
    assert "1,600 rows to train on, 400 to test on, 4 features." in err
    code, out, err = run(
        "train",
        source,
        *words,
        "--no-trade-off",
        "--json",
        "--force",
        "--out",
        tmp_path / "m",
    )
    shown = json.loads(out)
    assert shown["threshold"] is None
    assert {g["rate"] for g in shown["gaps"]} >= {"prediction", "A/E", "distance"}


def test_a_constraint_that_is_not_met_is_told_by_the_exit_code(source, tmp_path, run):
    words = (*COSTS, "--constraint", "bounded_group_loss", "--tolerance", "0.001", *QUICK)
    code, _, err = run("train", source, *words, "--out", tmp_path / "m")
    assert code == 3
    assert err.startswith("Exit code 3: ") and "which is not met." in err


def test_rows_whose_label_is_missing_are_left_out(source, tmp_path, run):
    """By a spelling of the user's too, which is said."""
    frame = pd.read_csv(source, dtype={"cost": object})
    frame.loc[[3, 40], "cost"] = "unknown"
    frame.loc[[7], "cost"] = None
    frame.to_csv(tmp_path / "d.csv", index=False)
    words = (*COSTS, "--no-trade-off", *FEW, "--out", tmp_path / "m")
    code, _, err = run("train", tmp_path / "d.csv", *words)
    assert code == 1
    assert "'cost' of" in err and "is 'unknown' in row 4, expected a number" in err
    assert "there are 2 among 2,000" in err and "--missing 'unknown'" in err
    code, _, err = run("train", tmp_path / "d.csv", *words, "--missing", "unknown")
    assert code in (0, 3)
    assert "3 of 2,000 rows of d.csv are left out" in err


def test_xgboost_takes_text_with_accents(source, tmp_path, run):
    """XGBoost 3.2 mixes up such categories, so that it is given their places instead."""
    words = ("--engine", "xgboost", "--option", "max_depth=3", "--option", "n_estimators=10")
    code, _, err = run(
        "train",
        source,
        *CLAIMS,
        *words,
        "--no-trade-off",
        "--quiet",
        "--out",
        tmp_path / "m",
    )
    assert code in (0, 3), err
    saved, schema = (
        fairboost.load(tmp_path / "m" / "model.json"),
        TableSchema.load(tmp_path / "m" / "schema.json"),
    )
    assert saved.estimator.objective == "count:poisson"
    new = policies(400, seed=5)
    new.loc[:9, "région"] = "Réunion"  # not seen in training
    new.to_csv(tmp_path / "new.csv", index=False)
    code, _, notes = run(
        "predict", tmp_path / "m", tmp_path / "new.csv", "--out", tmp_path / "p.parquet"
    )
    assert code == 0
    assert "10 values of 'région' did not occur in training" in " ".join(notes.split())
    X = schema.features(pa.Table.from_pandas(new))
    assert X["region"].dtype.categories.tolist() == [0, 1, 2]
    found = pd.read_parquet(tmp_path / "p.parquet")["prediction"]
    np.testing.assert_array_equal(found, saved.predict(X))
    by_hand = X["region"].cat.codes.to_numpy()
    place = {name: k for k, name in enumerate(schema.columns[2].categories)}
    assert by_hand.tolist() == [place.get(name, -1) for name in new["région"]]


# compare
# -----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("asked", "title"),
    [
        (
            ("--constraint", "equal_means", "--tolerance", "0.05", "--relative"),
            "gap of mean predictions, as a share of everyone's",
        ),
        (("--constraint", "bounded_group_loss", "--tolerance", "3000"), "largest mean loss of a"),
    ],
)
def test_alternatives_cost_a_loss(source, tmp_path, run, asked, title):
    """The engine alone has the same figure as the others: a share, or the largest mean."""
    words = (*COSTS, *asked, *FEW, "--quiet", "--models", "3")
    code, out, err = run("compare", source, *words, "--out", tmp_path / "c")
    assert code == 0, err
    assert f"cost      {title}" in re.sub(" {2,}", " " * 6, out)
    assert "Cost is squared error above that of the engine alone." in out
    table = pd.read_csv(tmp_path / "c" / "table.csv")
    assert table["model"].tolist()[:2] == ["engine alone", "no constraint"]
    np.testing.assert_allclose(table["cost"], table["loss"] - table["loss"][0])
    plain, free = table["gap"][:2]
    assert 0.5 < plain / free < 2.0
    evidence = Evidence.load(tmp_path / "c" / "evidence.json")
    losses = [p.value for p in evidence.performance if p.model == "plain"]
    assert table["loss"][0] == pytest.approx(losses[0])


def test_a_model_is_shown_among_its_alternatives(source, tmp_path, run):
    words = (*CLAIMS, *FEW, "--quiet", "--trade-off", "--json")
    code, _, err = run("train", source, *words, "--out", tmp_path / "m")
    assert code in (0, 3), err
    tradeoff = Evidence.load(tmp_path / "m" / "evidence.json").tradeoff
    assert tradeoff.measure == "Poisson deviance"
    assert "trained by itself" in tradeoff.points[tradeoff.chosen].name


# predict
# -----------------------------------------------------------------------


@pytest.mark.parametrize("ending", ["csv", "parquet"])
def test_predict_gives_what_the_library_gives(source, priced, expected, tmp_path, run, ending):
    new = policies(1_000, seed=1)
    new.to_csv(tmp_path / "new.csv", index=False)
    new.to_parquet(tmp_path / "new.parquet")
    out = tmp_path / f"p.{ending}"
    words = ("predict", priced, tmp_path / f"new.{ending}", "--keep", "policy", "--out", out)
    code, said, _ = run(*words)
    assert code == 0
    shown = TableFile(out).read().to_pandas()
    assert shown.columns.tolist() == ["policy", "prediction"]
    saved, schema = fairboost.load(priced / "model.json"), TableSchema.load(priced / "schema.json")
    X = schema.features(pa.Table.from_pandas(new))
    np.testing.assert_allclose(shown["prediction"], saved.predict(X), rtol=1e-12)
    assert f"the mean prediction is {saved.predict(X).mean():.6g} per unit of 'years'" in said
    both = pd.read_parquet(expected)
    np.testing.assert_allclose(both["expected"], saved.predict(X, exposure=new["years"]))


def test_predict_as_json_and_what_it_refuses(priced, model, tmp_path, run):
    new = policies(100, seed=1)
    new.loc[4, "years"] = -1.0
    new.to_csv(tmp_path / "new.csv", index=False)
    words = ("predict", priced, tmp_path / "new.csv", "--out", tmp_path / "p.csv", "--quiet")
    code, out, _ = run(*words, "--json")
    found = json.loads(out)
    assert (code, found["rows"], found["expected"]) == (0, 100, None)
    assert 0.1 < found["mean"] < 2.0
    code, _, err = run(*words, "--force", "--exposure", "years")
    assert code == 1
    assert "--exposure 'years' is -1 in row 5, expected a number of 0 or more" in err
    code, _, err = run(*words, "--force", "--exposure", "jahre")
    assert "has no column 'jahre' (named by --exposure)" in err
    code, _, err = run(
        "predict", model, tmp_path / "new.csv", "--out", tmp_path / "q.csv", "--exposure", "years"
    )
    assert code == 1
    assert "for models that predict a number, and this one decides between 'no' and 'yes'" in err
    frame = new.assign(prediction=1.0)
    frame.to_csv(tmp_path / "new.csv", index=False)
    code, _, err = run(*words, "--force", "--keep", "prediction")
    assert "--keep prediction would be a second column" in err


# audit
# -----------------------------------------------------------------------

AUDIT = (
    "--label",
    "claims",
    "--score",
    "expected",
    "--exposure",
    "years",
    "--sensitive",
    "gender",
)


def test_the_figures_of_an_audit_are_those_of_the_library(expected, tmp_path, run):
    code, out, err = run("audit", expected, *AUDIT, "--sensitive", "région", "--json", "--quiet")
    assert (code, err) == (0, "")
    found = {(r["group"], r["rate"]): r for r in json.loads(out)["rates"] if not r["crossed"]}
    frame = pd.read_parquet(expected)
    asked = audit_numbers(
        frame["claims"],
        frame["expected"],
        sensitive_features=frame[["gender", "région"]],
        exposure=frame["years"],
    )
    table = asked.by_group.set_index("group")
    for group in ("everyone", "F", "M", "Nord"):
        for rate, column in (("A/E", "a_over_e"), ("prediction", "mean_prediction")):
            line = found[group, rate]
            wanted = table.loc[group, [column, f"{column}_low", f"{column}_high"]].tolist()
            np.testing.assert_allclose([line[k] for k in ("value", "low", "high")], wanted)
    deciles = json.loads(out)["deciles"]
    assert {0, 1, 10} <= {d["decile"] for d in deciles if d["group"] == "F"} <= set(range(11))


def test_what_an_audit_says_and_writes(expected, tmp_path, run):
    code, out, _ = run("audit", expected, *AUDIT, "--out", tmp_path / "a")
    assert code == 0
    assert "1,000 rows; 95% intervals. Predicted: claims per unit of years. Loss: Poisson" in out
    for text in ("gender=F", "largest distance of distributions", "A/E by decile"):
        assert text in out
    assert Evidence.load(tmp_path / "a" / "evidence.json").task == "numbers"
    page = tmp_path / "again.html"
    assert run("report", tmp_path / "a", "--title", "Tariff, autumn", "--out", page)[0] == 0
    assert "Tariff, autumn" in page.read_text()


@pytest.mark.parametrize(
    ("limit", "code", "said"),
    [
        ("ae=0.5", 0, "--max-gap ae=0.5 is met"),
        ("prediction=0", 3, "--max-gap prediction=0 is not met"),
        ("distance=0", 3, "the largest distance of distributions by gender is"),
        ("loss=1000", 0, "he gap in mean loss by gender is"),
    ],
)
def test_limits_set_the_exit_code(expected, run, limit, code, said):
    found, out, err = run("audit", expected, *AUDIT, "--max-gap", limit, "--json")
    assert found == code
    assert said in " ".join(err.split())
    assert len(json.loads(out)["over"]) == (code == 3)


def test_files_of_the_same_numbers_give_the_same_audit(expected, tmp_path, run, monkeypatch):
    monkeypatch.setattr("fairboost.tabular.files.BATCH_ROWS", 300)  # several batches
    frame = pd.read_parquet(expected)
    frame.loc[:4, "claims"] = None
    frame.loc[5:9, "gender"] = None
    frame.to_parquet(tmp_path / "a.parquet")
    frame.to_csv(tmp_path / "a.csv", index=False)
    found = []
    for ending in ("parquet", "csv"):
        code, out, err = run("audit", tmp_path / f"a.{ending}", *AUDIT, "--json")
        assert code == 0
        assert "5 rows are left out, since their label is missing" in " ".join(err.split())
        assert "'gender' is missing in 5 rows" in " ".join(err.split())
        found.append(json.loads(out))
    assert found[0]["rows"] == 995
    assert found[0]["rates"] == found[1]["rates"]


def test_groups_too_small_are_named_and_not_compared(expected, tmp_path, run):
    frame = pd.read_parquet(expected)
    frame.loc[:7, "gender"] = "X"
    frame.to_csv(tmp_path / "a.csv", index=False)
    _, _, err = run("audit", tmp_path / "a.csv", *AUDIT, "--min-group-rows", "50")
    assert "rows count (--min-group-rows): gender = X (prediction 8" in " ".join(err.split())
    words = ("--min-group-rows", "600", "--max-gap", "ae=0.1")
    code, _, err = run("audit", tmp_path / "a.csv", *AUDIT, *words)
    assert code == 1
    assert "--max-gap ae=0.1 cannot be judged by gender" in err
