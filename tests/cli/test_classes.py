"""``fairboost train``, ``predict`` and ``audit`` where one of several classes is given."""

import json
import re

import lightgbm
import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from lightgbm import LGBMClassifier

import fairboost
from fairboost import FairGBMClassifier
from fairboost.cli import main
from fairboost.metrics import audit_classes
from fairboost.report import Evidence
from fairboost.tabular.files import TableFile
from fairboost.tabular.schema import TableSchema
from tests.grade_files import GRADED, QUICK, grades
from tests.policy_files import FEW

pytestmark = pytest.mark.usefixtures("no_pictures")

LEVELS = ("--label", "level", "--task", "classes", "--sensitive", "sex", "--drop", "grade")
COSTS = "grade,C,A,B\nB,3,1,0\nA,5,0,1\nC,0,4,1\n"
RECALLS = ("recall of 'A'", "recall of 'B'")
IN_ORDER = [[0, 1, 5], [1, 0, 3], [4, 1, 0]]


@pytest.fixture(scope="module")
def source(tmp_path_factory):
    folder = tmp_path_factory.mktemp("grades")
    grades(2_000, seed=0).to_csv(folder / "grades.csv", index=False)
    grades(1_000, seed=1).to_csv(folder / "new.csv", index=False)
    (folder / "costs.csv").write_text(COSTS)
    return folder / "grades.csv"


@pytest.fixture(scope="module")
def graded(source):
    """The folder of a model of grades."""
    out = source.parent / "model"
    assert main(["train", str(source), *GRADED, *QUICK, "--out", str(out)]) in (0, 3)
    return out


@pytest.fixture(scope="module")
def decided(source, graded):
    """Classes given to new rows, with their own."""
    out = source.parent / "decided.parquet"
    kept = [word for name in ("grade", "sex", "age") for word in ("--keep", name)]
    words = ("predict", graded, source.parent / "new.csv", *kept, "--quiet", "--out", out)
    assert main(list(map(str, words))) == 0
    return out


def loaded(folder):
    return fairboost.load(folder / "model.json"), TableSchema.load(folder / "schema.json")


def one_line(text):
    return " ".join(text.split())


# train
# -----------------------------------------------------------------------


def test_the_model_is_the_one_that_the_library_trains(source, tmp_path, run):
    """With costs, some of the classes, and rows of their own to test on."""
    out, new = tmp_path / "m", source.parent / "new.csv"
    words = ("--classes", "A,C", "--costs", source.parent / "costs.csv", "--test", new)
    code, shown, err = run("train", source, *GRADED, *words, *QUICK, "--json", "--out", out)
    assert code in (0, 3), err
    assert json.loads(shown)["rows"] == {"training": 2_000, "test": 1_000}
    saved, schema = loaded(out)
    assert (schema.classes, saved.classes_.tolist()) == (("A", "B", "C"), ["A", "B", "C"])
    assert [c.name for c in schema.columns] == ["income", "savings", "tenure", "branch"]
    table = TableFile(source).read(["grade", "sex"])
    engine = LGBMClassifier(n_estimators=15, num_leaves=7, n_jobs=1, verbose=-1)
    again = FairGBMClassifier(
        engine,
        constraint="equal_opportunity",
        tolerance=0.2,
        classes=["A", "C"],
        costs=IN_ORDER,
        random_state=0,
    ).fit(
        schema.features(table),
        np.array(table["grade"].to_pylist()),
        sensitive_features={"sex": table["sex"].to_pylist()},
    )
    X = schema.features(TableFile(new).read(["grade", "sex"]))
    np.testing.assert_array_equal(saved.predict_proba(X), again.predict_proba(X))
    np.testing.assert_array_equal(saved.predict(X), again.predict(X))
    assert [v.constraint for v in saved.fairness_report_.verdicts] == [
        "recall of 'A' equal by sex, tolerance 0.2",
        "recall of 'C' equal by sex, tolerance 0.2",
    ]
    stock = lightgbm.Booster(model_file=out / "model.txt")
    np.testing.assert_allclose(saved.predict_proba(X), stock.predict(X), rtol=1e-9)


@pytest.mark.parametrize("engine", ["lightgbm", "xgboost"])
def test_whole_numbers_may_be_classes(source, tmp_path, run, engine):
    words = (
        *LEVELS,
        "--tolerance",
        "0.3",
        "--constraint",
        "demographic_parity",
        "--classes",
        "10",
    )
    few = FEW if engine == "lightgbm" else (*FEW[:4], "--option", "max_depth=3")
    code, _, err = run(
        "train", source, *words, "--engine", engine, *few, "--no-trade-off", "--quiet",
        "--out", tmp_path / "m",
    )  # fmt: skip
    assert code in (0, 3), err
    saved, schema = loaded(tmp_path / "m")
    assert schema.classes == ("8", "9", "10", "11")
    assert saved.classes_.tolist() == [8, 9, 10, 11]
    assert saved.classes == [10]
    out = tmp_path / "p.csv"
    assert run("predict", tmp_path / "m", source.parent / "new.csv", "--out", out)[0] == 0
    given = pd.read_csv(out)["decision"]
    assert np.mean(given == pd.read_csv(source.parent / "new.csv")["level"]) > 0.35


def test_the_folder_of_a_model(graded):
    assert {path.name for path in graded.iterdir()} == {
        "card.md", "evidence.json", "model.json", "model.txt", "model.txt.decide.json",
        "report.html", "report.md",
        "schema.json",
    }  # fmt: skip
    evidence = Evidence.load(graded / "evidence.json")
    assert (evidence.task, evidence.data.classes) == ("classes", ("A", "B", "C"))
    assert {g.model for g in evidence.gaps} == {"chosen", "plain"}  # what the constraint changes
    card = (graded / "card.md").read_text()
    assert "- Predicts `grade`, one of the classes `A`, `B`, `C`." in card
    assert "in the column `decision`: the most likely class is given" in card
    assert "probability of `A` is in `score[A]`" in card
    assert "positive" not in card


def test_what_train_says(source, tmp_path, run):
    words = (*GRADED, *FEW, "--no-trade-off", "--out", tmp_path / "m")
    code, out, err = run("train", source, *words)
    assert code in (0, 3)
    assert (
        "the label 'grade' has 3 distinct values: deciding among classes (--task classes); for "
        "yes or no, name a column of two values."
    ) in one_line(err)
    assert "1,600 rows to train on, 400 to test on, 4 features." in err
    assert re.search(r"recall of 'B' equal by sex, tolerance 0.2  gap 0\.\d+ \[", out)
    assert re.search(r"rate +everyone +sex=F +sex=M\naccuracy +0\.\d+ \[", out)
    assert re.search(r"plain engine +log loss", out)


def test_many_constraints_are_told_as_one(source, tmp_path, run):
    words = ("--label", "grade", "--sensitive", "sex", "--drop", "level", "--tolerance", "0.3")
    asked = ("--constraint", "equalized_odds", *QUICK, "--out", tmp_path / "m")
    code, out, _ = run("train", source, *words, *asked)
    assert code in (0, 3)
    assert "confusion matrix (9 shares) equal by sex, tolerance 0.3  largest gap 0." in out
    assert re.search(r"share of 'A' given 'C' +0\.\d+ \[", out)
    evidence = Evidence.load(tmp_path / "m" / "evidence.json")
    assert len([f for f in evidence.verdicts if f.where == "test"]) == 9


def test_a_constraint_that_is_not_met_is_told_by_the_exit_code(source, tmp_path, run):
    words = ("--label", "grade", "--sensitive", "sex", "--drop", "level", "--tolerance", "0")
    asked = ("--constraint", "demographic_parity", "--classes", "A", "--aware", *QUICK)
    few = ("--option", "n_estimators=2", "--out", tmp_path / "m", "--decide", "estimate")
    code, _, err = run("train", source, *words, *asked, *few)
    assert code == 3
    assert err.startswith("Exit code 3: share given 'A' equal by sex, tolerance 0: the gap is 0.")


def test_what_options_say_of_the_task(source, tmp_path, run):
    words = ("--label", "level", "--sensitive", "sex", "--drop", "grade", *FEW, "--no-trade-off")
    code, _, err = run(
        "train", source, *words, "--constraint", "equal_accuracy", "--out", tmp_path / "m"
    )
    assert code in (0, 3)
    assert (
        "Note: --constraint equal_accuracy is about classes: deciding among classes (--task "
        "classes)."
    ) in one_line(err)
    assert loaded(tmp_path / "m")[1].classes == ("8", "9", "10", "11")


def test_alternatives(source, tmp_path, run):
    """The engine alone decides by the same costs, and its gap is that of the same classes."""
    asked = ("--classes", "A,B", "--costs", source.parent / "costs.csv", "--models", "2")
    code, out, err = run("compare", source, *GRADED, *FEW, "--quiet", *asked, "--out",
                         tmp_path / "c")  # fmt: skip
    assert code == 0, err
    assert "cost is accuracy below the engine alone" in one_line(out)
    table = pd.read_csv(tmp_path / "c" / "table.csv")
    assert table["model"].tolist()[:2] == ["engine alone", "no constraint"]
    evidence = Evidence.load(tmp_path / "c" / "evidence.json")
    measures = {p.measure: p.value for p in evidence.performance if p.model == "plain"}
    assert table["accuracy"][0] == pytest.approx(measures["accuracy"])
    gaps = [g.gap for g in evidence.gaps if g.model == "plain" and g.rate in RECALLS]
    assert table["gap"][0] == pytest.approx(max(gaps))


def test_a_model_is_shown_among_its_alternatives(source, tmp_path, run):
    words = (*GRADED, *FEW, "--quiet", "--trade-off", "--json")
    code, _, err = run("train", source, *words, "--out", tmp_path / "m")
    assert code in (0, 3), err
    tradeoff = Evidence.load(tmp_path / "m" / "evidence.json").tradeoff
    assert "trained by itself" in tradeoff.points[tradeoff.chosen].name


# predict
# -----------------------------------------------------------------------


@pytest.mark.parametrize("costs", [False, True])
def test_predict_gives_what_the_library_gives(source, graded, tmp_path, run, monkeypatch, costs):
    monkeypatch.setattr("fairboost.tabular.files.BATCH_ROWS", 300)  # several batches
    folder = graded
    if costs:
        folder = tmp_path / "m"
        words = ("--costs", source.parent / "costs.csv")
        assert run("train", source, *GRADED, *words, *QUICK, "--out", folder)[0] in (0, 3)
    out = tmp_path / "p.parquet"
    new = grades(1_000, seed=1)
    new.to_parquet(tmp_path / "new.parquet")
    words = ("predict", folder, tmp_path / "new.parquet", "--keep", "id", "--out", out)
    code, said, _ = run(*words)
    assert code == 0
    found = pd.read_parquet(out)
    assert found.columns.tolist() == ["id", "score[A]", "score[B]", "score[C]", "decision"]
    saved, schema = loaded(folder)
    X = schema.features(pa.Table.from_pandas(new))
    np.testing.assert_array_equal(found.iloc[:, 1:4].to_numpy(), saved.predict_proba(X))
    np.testing.assert_array_equal(found["decision"], saved.predict(X))
    given = found["decision"].value_counts().reindex([*"ABC"], fill_value=0)
    assert f"1,000 rows: {given['A']:,} ({given['A'] / 1_000:.1%}) given 'A', " in said
    code, said, _ = run(*words, "--force", "--json")
    assert json.loads(said)["given"] == {k: int(given[k]) for k in "ABC"}
    assert json.loads(said)["share"]["B"] == pytest.approx(given["B"] / 1_000)


def test_predict_refuses(source, graded, tmp_path, run):
    words = ("predict", graded, source.parent / "new.csv", "--out", tmp_path / "p.csv")
    code, _, err = run(*words, "--exposure", "income")
    assert code == 1
    assert "this one decides among 'A', 'B' and 'C'; leave it out" in err


# audit
# -----------------------------------------------------------------------

AUDIT = ("--label", "grade", "--decision", "decision", "--sensitive", "sex")


def test_the_figures_of_an_audit_are_those_of_the_library(decided, tmp_path, run, monkeypatch):
    """Whatever the file, and in however many pieces it is read; with weights, and gaps in it."""
    frame = pd.read_parquet(decided)
    frame["w"] = np.random.default_rng(0).uniform(0.5, 2.0, len(frame))
    frame.loc[:4, "grade"] = None
    frame.loc[10:20, "sex"] = None
    frame.to_csv(tmp_path / "d.csv", index=False)
    frame.astype({"grade": "category"}).to_parquet(tmp_path / "d.parquet")
    words = (*AUDIT, "--sensitive", "age", "--weight", "w", "--json", "--quiet")
    shown = [run("audit", tmp_path / "d.csv", *words)]
    monkeypatch.setattr("fairboost.tabular.files.BATCH_ROWS", 300)
    shown.append(run("audit", tmp_path / "d.parquet", *words))
    (code, out, err), other = shown
    assert (code, err) == (0, "")
    assert json.loads(out)["rates"] == json.loads(other[1])["rates"]
    known = frame[5:]
    expected = audit_classes(
        known["grade"],
        known["decision"],
        sensitive_features=known[["sex", "age"]],
        sample_weight=known["w"],
    )
    found = {(r["group"], r["rate"]): r for r in json.loads(out)["rates"]}
    for line in expected.rates.to_dict("records"):
        name = {
            "accuracy": "accuracy",
            "given": f"share given {line['given']!r}",
            "recall": f"recall of {line['label']!r}",
        }.get(line["rate"])
        if name is not None:
            own = found[line["group"], name]
            for figure in ("value", "low", "high", "rows"):
                assert own[figure] == pytest.approx(line[figure]), (line["group"], name)
    matrix = expected.confusion("sex", "F")
    lines = [x for x in json.loads(out)["confusion"] if (x["group"]) == "F"]
    np.testing.assert_allclose([x["shares"] for x in lines], matrix.to_numpy())
    assert "M, old" in {r["group"] for r in json.loads(out)["rates"] if r["crossed"]}
    gaps = {(g["attribute"], g["rate"]): g for g in json.loads(out)["gaps"]}
    own = expected.gaps[(expected.gaps["rate"] == "recall") & (expected.gaps["label"] == "B")]
    assert gaps["sex", "recall of 'B'"]["gap"] == pytest.approx(own["gap"].iloc[0])
    assert json.loads(out)["rows"] == 995
    assert any("5 rows are left out" in said for said in json.loads(out)["warnings"])


def test_what_an_audit_says_and_writes(decided, tmp_path, run):
    code, out, err = run("audit", decided, *AUDIT, "--out", tmp_path / "a")
    assert code == 0
    assert "Note: --decision is about classes: deciding among classes" in one_line(err)
    assert "1,000 rows; the class of each row is that of the column 'decision'. 95%" in out
    assert "Classes of grade: A, B, C." in out
    for name in ("accuracy", "share given 'A'", "recall of 'C'", "share of 'C' given 'A'"):
        assert re.search(rf"{name} +0\.\d+ \[", out), name
    assert Evidence.load(tmp_path / "a" / "evidence.json").task == "classes"
    page = tmp_path / "again.html"
    assert run("report", tmp_path / "a", "--title", "Grades, autumn", "--out", page)[0] == 0
    assert "Grades, autumn" in (text := page.read_text())
    assert "Confusion matri" in text
    assert "four-fifths" not in text.lower()


def test_many_classes_leave_matrices_to_the_report(tmp_path, run):
    rng = np.random.default_rng(0)
    y = rng.integers(0, 9, 800)
    frame = pd.DataFrame({"y": y, "d": np.where(rng.random(800) < 0.7, y, 3)})
    frame.assign(sex=rng.choice(["F", "M"], 800)).to_csv(tmp_path / "d.csv", index=False)
    words = ("--label", "y", "--decision", "d", "--sensitive", "sex", "--max-gap", "confused=0.99")
    code, out, _ = run("audit", tmp_path / "d.csv", *words, "--quiet")
    assert code == 0
    assert "With 9 classes, confusion matrices are in the report." in out
    assert "recall of 8" in out


@pytest.mark.parametrize(
    ("limits", "code", "said"),
    [
        (("given=0.9",), 0, "The gap in share given 'B' by sex is"),
        (("recall[A]=0",), 0, "--max-gap recall[A]=0 is not met on these rows, not certain"),
        (("given[A]=0",), 3, "the gap in share given 'A' by sex is"),
        (("accuracy=0.5", "confused[A, C]=0.9"), 0, "--max-gap confused[A, C]=0.9 is met"),
        (("given=0.9", "given[A]=0.8"), 0, "--max-gap given[A]=0.8 is met"),
    ],
)
def test_limits_set_the_exit_code(decided, run, limits, code, said):
    words = [word for limit in limits for word in ("--max-gap", limit)]
    found, out, err = run("audit", decided, *AUDIT, *words, "--json")
    assert found == code
    assert said in one_line(err)
    assert len(json.loads(out)["over"]) == (code == 3)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--max-gap", "recall[D]=0.1"), "--max-gap recall[D]=0.1 names no rate of the classes of "
         "'grade'; expected recall[A], recall[B], recall[C]"),
        (("--sensitive", "decision"), "named twice among --label, --decision, --sensitive"),
        (("--weight", "age"), "'age' must hold numbers"),
    ],
)  # fmt: skip
def test_an_audit_refuses(decided, run, words, message):
    code, _, err = run("audit", decided, *AUDIT, *words)
    assert code == 1
    assert message in one_line(err)


def test_decisions_that_will_not_do(decided, tmp_path, run):
    frame = pd.read_parquet(decided)
    frame.loc[7, "decision"] = None
    frame["code"] = [f"c{k % 30}" for k in range(len(frame))]
    frame.to_csv(tmp_path / "d.csv", index=False)
    code, _, err = run("audit", tmp_path / "d.csv", *AUDIT)
    assert code == 1
    assert "the decision 'decision' is missing at row 8; drop such rows" in err
    code, _, err = run("audit", tmp_path / "d.csv", *AUDIT[:3], "code", *AUDIT[4:])
    assert code == 1
    assert "the column 'code' has more than 20 different values" in err


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--score", "score[A]"), "--score is for --task classification or regression, and by the "
         "values of the label this is classes; name the column of the class that is given: "
         "--decision COLUMN"),
        (("--decision", "decision", "--score", "score[A]"), "not allowed with argument"),
        ((), "one of the arguments --score --decision is required"),
        (("--decision", "decision", "--max-gap", "fnr=0.1"), "--max-gap fnr is for --task cl"),
        (("--decision", "decision", "--threshold", "0.1"), "--threshold is for --task classif"),
        (("--decision", "decision", "--max-gap", "recall=2"), "expected RATE=GAP"),
        (("--decision", "decision", "--max-gap", "recal[A]=0.1"), "expected RATE=GAP"),
    ],
)  # fmt: skip
def test_options_of_audits_are_refused_by_name(decided, capsys, words, message):
    with pytest.raises(SystemExit) as stop:
        main(["audit", str(decided), "--label", "grade", "--sensitive", "sex", *words])
    assert stop.value.code == 2
    assert message in one_line(capsys.readouterr().err)


# What is refused
# -----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--threshold", "0.3"), "--threshold is for --task classification, and by the values of "
         "the label this is classes; leave it out, say what wrong decisions cost (--costs FILE)"),
        (("--at-fpr", "0.1"), "--at-fpr is for --task classification, and by the values"),
        (("--favourable", "negative"), "--favourable is for --task classification"),
        (("--task", "classes", "--positive", "A"), "--positive is for --task classification"),
        (("--constraint", "predictive_equality"), "predictive_equality is for --task classif"),
        (("--constraint", "four_fifths"), "--constraint four_fifths is for --task classification, "
         "and by the values of the label this is classes; leave it out, or name a label of two "),
        (("--task", "classes", "--constraint", "equal_means"), "equal_means is for --task regr"),
        (("--task", "classes", "--exposure", "age"), "--exposure is for --task regression"),
        (("--task", "regression", "--constraint", "equalized_odds"),
         "equalized_odds is for --task classification or classes, and by --task this is regr"),
        (("--task", "classification", "--classes", "A"), "--classes is for --task classes, and"),
        (("--positive", "A", "--costs", "x.csv"), "--costs is for --task classes, and by --posi"),
        (("--tolerance", "2"), "--tolerance must lie between 0 and 1, found 2"),
    ],
)  # fmt: skip
def test_options_of_other_tasks_are_refused_by_name(source, tmp_path, capsys, words, message):
    with pytest.raises(SystemExit) as stop:
        main(["train", str(source), "--label", "grade", "--sensitive", "sex", *words, *QUICK,
              "--out", str(tmp_path / "m")])  # fmt: skip
    assert stop.value.code == 2
    assert message in one_line(capsys.readouterr().err)


@pytest.mark.parametrize(
    ("costs", "message"),
    [
        ("grade,A,B\nA,0,1\nB,1,0\n", "among the lines (column 'grade') 'C' is missing; expected "
         "one line and one column for each of 'A', 'B' and 'C'"),
        (COSTS.replace(",C,A", ",D,A"), "among the columns 'D' is unknown"),
        (COSTS.replace("C,0", "A,0"), "'A' is twice"),
        (COSTS.replace("5,0", "x,0"), "the cost of giving 'C' is 'x' in row 2, expected a number"),
        (COSTS.replace("5,0", ",0"), "the cost of giving 'C' is missing in row 2"),
        (COSTS.replace("5,0,1", "5,9,1"), "has no least cost at the class itself"),
        (None, "there is no file"),
    ],
)  # fmt: skip
def test_costs_that_will_not_do(source, tmp_path, run, costs, message):
    path = tmp_path / "costs.csv"
    if costs is not None:
        path.write_text(costs)
    words = ("--costs", path, *QUICK, "--out", tmp_path / "m")
    code, _, err = run("train", source, *GRADED, *words)
    assert (code, (tmp_path / "m").exists()) == (1, False)
    assert message in one_line(err)
    assert "unexpected" not in err


@pytest.mark.parametrize(
    ("change", "words", "message"),
    [
        (
            {},
            ("--classes", "A,D"),
            "--classes names 'D', which is not among the values of 'grade'",
        ),
        ({"sex": "F"}, (), "one group"),
        ({"grade": [f"g{k}" for k in range(40)] * 50}, (), "must have two values, found 40"),
        ({"grade": [f"g{k}" for k in range(40)] * 50}, ("--task", "classes"), "must have 3 to 20"),
        ({"grade": ["a", "b"] * 1_000}, ("--task", "classes"), "found 2: 'a', 'b'; leave --task"),
    ],
)
def test_classes_that_will_not_do(tmp_path, run, change, words, message):
    grades(2_000, seed=0).assign(**change).to_csv(tmp_path / "d.csv", index=False)
    code, _, err = run("train", tmp_path / "d.csv", *GRADED, *words, *QUICK, "--out",
                       tmp_path / "m")  # fmt: skip
    assert (code, (tmp_path / "m").exists()) == (1, False)
    assert message in one_line(err)


def test_a_class_may_have_a_comma_in_its_name(tmp_path, run):
    frame = grades(1_000, seed=0).replace({"grade": {"A": "good, very"}})
    frame.to_csv(tmp_path / "d.csv", index=False)
    out = tmp_path / "m"
    words = ("--classes", "good, very", "--classes", " B,C", *QUICK, "--out", out)
    assert run("train", tmp_path / "d.csv", *GRADED, *words)[0] in (0, 3)
    assert loaded(out)[0].classes == ["good, very", "B", "C"]


def test_a_class_of_the_test_file_that_training_did_not_see(source, tmp_path, run):
    grades(300, seed=1).replace({"grade": {"A": "D"}}).to_csv(tmp_path / "t.csv", index=False)
    words = ("--test", tmp_path / "t.csv", *QUICK, "--out", tmp_path / "m")
    code, _, err = run("train", source, *GRADED, *words)
    assert code == 1
    assert "the value 'D', expected those of training, 'A', 'B' and 'C'" in one_line(err)
