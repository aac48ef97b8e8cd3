"""Studies from end to end: run, killed and resumed, shared, broken, written."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from fairboost.cli import main
from fairboost.exceptions import InvalidInputError
from fairboost.search.claims import counted
from fairboost.search.trials import quiet
from fairboost.study import read_study, run_study
from fairboost.study.results import Results
from fairboost.study.runner import plan_study

PAUSING = """\
import os, time
from pathlib import Path

calls = 0

def pausing(task):
    global calls
    calls += 1
    if "STUDY_PAUSE" in os.environ and calls == 2:
        Path(os.environ["STUDY_PAUSE"]).touch()
        time.sleep(120)
    return task.engine().fit(task.train.X, task.train.y)

def broken(task):
    if task.engine_options["num_leaves"] > 5:
        raise RuntimeError("more leaves than I can bear")
    return task.engine().fit(task.train.X, task.train.y)

def mended(task):
    if Path("mended").exists():
        return task.engine().fit(task.train.X, task.train.y)
    raise RuntimeError("not yet")

def nothing(task):
    return {}

def short(task):
    from fairboost.study import Predictions
    return lambda rows: Predictions(task.train.y[:3] * 1.0)
"""

FIGURES = ["validation_performance", "validation_fairness", "test_performance", "test_fairness"]
KEYS = ["seed", "features", "method", "algorithm", "variant", "trial"]


def mine(name, **more):
    lines = "".join(f"\n{key} = {value}" for key, value in more.items())
    return ("[methods.plain]", f'[methods.{name}]\nfunction = "own_methods:{name}"{lines}')


@pytest.fixture
def own_methods(tmp_path, monkeypatch):
    (tmp_path / "own_methods.py").write_text(PAUSING)
    monkeypatch.chdir(tmp_path)
    yield
    sys.modules.pop("own_methods", None)


def figures(points):
    return points.set_index(KEYS)[FIGURES].sort_index()


def command(path, out):
    return [
        sys.executable,
        "-m",
        "fairboost.cli",
        "study",
        str(path),
        "--out",
        str(out),
        "--quiet",
    ]


@pytest.fixture(autouse=True)
def no_pictures(request, monkeypatch):
    """Pictures take longer than all the rest; those of the full study are drawn."""
    if "full" not in request.fixturenames:
        monkeypatch.setattr("fairboost.study.output.draw_all", lambda results: {})


@pytest.fixture(scope="module")
def full(tmp_path_factory):
    """One study with several kinds of method, aware and blind, two seeds."""
    folder = tmp_path_factory.mktemp("full")
    text = (Path(__file__).parent / "conftest.py").read_text().split('"""\\\n')[1].split('"""')[0]
    text = text.replace('trials = 3\nfeatures = ["aware"]', "trials = 2\nseeds = [0, 7]").replace(
        "[methods.plain]",
        "[methods.fairboost]\n[methods.fair_stage]\nmodels = 3\n[methods.paper]\n[methods.plain]\n"
        "[methods.unaware]\n[methods.thresholds]\n[methods.GS]\n[methods.reference]\n"
        'python = "/nowhere"',
    )
    path = folder / "study.toml"
    path.write_text(text)
    return path, folder / "out", run_study(path, folder / "out")


def test_every_trial_of_every_method_is_there(full):
    _, _, run = full
    assert (run.missing, run.failed) == (0, 0)
    trials = run.points.groupby(["seed", "features", "method"])["trial"].agg(
        lambda t: sorted(set(t))
    )
    for (_, features, method), found in trials.items():
        assert found == ([0] if method == "GS" else [0, 1]), (features, method)
    methods = set(run.points["method"])
    assert methods == {"fairboost", "fair_stage", "paper", "plain", "unaware", "thresholds", "GS"}
    blind = run.points[run.points["features"] == "blind"]
    assert set(blind["method"]) == methods - {"unaware"}
    assert run.ran == 2 * (6 * 2 + 1) + 2 * (5 * 2 + 1)
    assert list(run.left_out) == ["fairgbm (reference)"]


def test_methods_share_their_options_trial_by_trial(full):
    points = full[2].points
    for (_, _), part in points.groupby(["seed", "trial"]):
        options = [json.loads(o) for o in part["options"]]
        engine = {json.dumps({k: v for k, v in o.items() if "." not in k}) for o in options}
        assert len(engine) == 1


def test_unaware_is_plain_where_that_is_blind(full):
    points = full[2].points
    unaware = points[points["method"] == "unaware"].set_index(["seed", "trial"])[FIGURES]
    blind = points[(points["method"] == "plain") & (points["features"] == "blind")]
    pd.testing.assert_frame_equal(unaware, blind.set_index(["seed", "trial"])[FIGURES])


def test_figures_are_those_of_models_trained_by_hand(full):
    """Trial 1 of plain LightGBM, from its stored options."""
    path, _, run = full
    plan = plan_study(read_study(path), None)
    points = run.points
    line = points[
        (points["method"] == "plain") & (points["features"] == "blind")
        & (points["seed"] == 7) & (points["trial"] == 1)
    ].iloc[0]  # fmt: skip
    from lightgbm import LGBMClassifier

    parts = plan.splits[7].without(plan.source.hidden)
    model = LGBMClassifier(verbose=-1, n_jobs=1, **json.loads(line["options"]))
    decided = model.fit(parts.train.X, parts.train.y).predict(parts.test.X)
    assert line["test_performance"] == pytest.approx((decided == parts.test.y).mean())


def test_the_folder(full):
    _, out, run = full
    names = {path.name for path in run.files}
    tables = {
        "selected",
        "leads",
        "reach",
        "one_trial",
        "within",
        "hypervolume",
        "times",
        "randomized",
        "curves",
    }
    pictures = {"scatter", "tradeoff", "times", "randomized", "proxies"}
    assert names == {
        "trials.parquet", "manifest.json", "results.md", *(f"{t}.csv" for t in tables),
        *(f"{p}.{kind}" for p in pictures for kind in ("png", "svg")),
    }  # fmt: skip
    assert {p.name for p in out.iterdir()} == names | {"trials.db"}  # nothing temporary is left
    pd.testing.assert_frame_equal(pd.read_parquet(out / "trials.parquet"), run.points,
                                  check_dtype=False)  # fmt: skip
    page = (out / "results.md").read_text()
    for picture in pictures:
        assert f"({picture}.png)" in page
    assert (
        "Left out: fairgbm (reference)" in page and "ThresholdOptimizer, sees the group †" in page
    )


def test_the_manifest_says_where_results_come_from(full):
    _, out, _ = full
    found = json.loads((out / "manifest.json").read_text())
    assert found["data"]["generator"] == "loans" and len(found["data"]["sha256"]) == 64
    assert found["seeds"] == [0, 7] and found["rows"]["seed 7"]["train"] == 900
    assert found["trials"]["plain, aware, seed 0"] == {"planned": 2, "done": 2, "failed": 0}
    assert found["engine"]["num_leaves"] == {"low": 4, "high": 8, "log": False}
    assert found["versions"][0]["lightgbm"] and found["left out"]


def test_tables_are_a_pure_function_of_the_trials(full):
    """Written again without training, every file is the same to the byte."""
    path, out, _ = full
    files = [p for p in out.iterdir() if p.name != "trials.db"]
    before = {p.name: p.read_bytes() for p in files}
    for p in files:
        p.unlink()
    again = run_study(path, out, train=False)
    assert again.ran == 0
    for name, content in before.items():
        assert (out / name).read_bytes() == content, name


def test_selected_figures_by_the_plain_definition(full):
    """One replicate's worth: of all trials drawn, the best on validation rows, on test rows."""
    _, out, run = full
    table = pd.read_csv(out / "selected.csv")
    line = table[(table["features"] == "aware") & (table["alpha"] == 0.5)
                 & (table["algorithm"] == "LightGBM")].iloc[0]  # fmt: skip
    points = run.points
    points = points[(points["features"] == "aware") & (points["algorithm"] == "plain")]
    expected = []
    for k, (_, part) in enumerate(points.groupby("seed")):
        draws = np.random.default_rng([k, 20]).integers(2, size=(50, 2))
        for drawn in draws:
            these = part[part["trial"].isin(drawn)]
            worth = these["validation_performance"] + these["validation_fairness"]
            expected.append(these.loc[worth.idxmax()])
    kept = pd.DataFrame(expected)
    assert line["test fairness"] == pytest.approx(kept["test_fairness"].mean())
    assert line["test performance sd"] == pytest.approx(kept["test_performance"].std(ddof=0))


def test_leads_are_differences(full):
    _, out, _ = full
    leads, selected = pd.read_csv(out / "leads.csv"), pd.read_csv(out / "selected.csv")
    selected = selected.set_index(["features", "alpha", "algorithm"])["weighted"]
    for line in leads.to_dict("records"):
        key = line["features"], line["alpha"]
        difference = selected[(*key, line["algorithm"])] - selected[(*key, line["peer"])]
        assert line["lead"] == pytest.approx(difference)
        expected = "ahead" if line["low"] > 0 else "behind" if line["high"] < 0 else "even"
        assert line["verdict"] == expected or (
            (expected, line["verdict"]) == ("ahead", "decides nothing")
        )


@pytest.mark.parametrize(
    ("tpr", "fpr", "expected"),
    [(0.9, 0.1, "ahead"), (1.0, 1.0, "decides nothing"), (0.5, 0.5, "decides nothing")],
)
def test_no_method_is_ahead_with_models_that_decide_nothing(full, tpr, fpr, expected):
    """All positive: the true positive rate and fairness could not be better."""
    _, _, run = full
    ours, points = run.points["algorithm"] == "fairboost", run.points.copy()
    best = {f"{rows}_{what}": 1.0 for rows in ("validation", "test")
            for what in ("performance", "fairness")}  # fmt: skip
    rates = {"test_tpr": tpr, "test_fpr": fpr, "test_rows": 4_000, "test_positives": 1_000}
    for column, value in {**best, **rates}.items():
        points.loc[ours, column] = value
    plan = plan_study(read_study(full[0]), None)
    results = Results(points, plan.config, {s.method.name: s.method for s in plan.searches})
    leads = results.leads("aware")
    mine = leads[leads["algorithm"] == results.title("fairboost")]
    assert set(mine["verdict"]) == {expected}
    reach = results.reach("aware")
    reach = reach[reach["algorithm"] == results.title("fairboost")]
    assert (reach[expected] == "0.00-1.00").all()


def test_reach_over_all_peers_is_the_least_favourable(full):
    _, out, _ = full
    table = pd.read_csv(out / "reach.csv", keep_default_na=False)

    def behind(line):
        spans = [s.split("-") for s in line["behind"].split(", ") if s]
        return {k for s in spans for k in range(round(100 * float(s[0])),
                                                round(100 * float(s[-1])) + 1)}  # fmt: skip

    for _, part in table.groupby(["features", "algorithm"]):
        peers = [line for line in part.to_dict("records") if line["peer"][-1] not in "†‡"]
        total = next(line for line in peers if line["peer"] == "every peer without a mark")
        others = [line for line in peers if line is not total]
        assert len(others) >= 3
        assert behind(total) == set().union(*map(behind, others))


def test_one_trial_of_a_curve_against_whole_searches(full):
    _, out, run = full
    table = pd.read_csv(out / "one_trial.csv")
    assert set(table["algorithm"]) == {"fairboost, fair stage"}
    line = table[(table["features"] == "aware") & (table["alpha"] == 0.5)
                 & (table["peer"] == "LightGBM")].iloc[0]  # fmt: skip
    good = run.points[run.points["features"] == "aware"]
    curve, plain = (good[good["method"] == name] for name in ("fair_stage", "plain"))
    leads = []
    for k, seed in enumerate((0, 7)):
        for drawn in np.random.default_rng([k, 20]).integers(2, size=(50, 2)):
            kept = []
            for part, trials in ((curve, drawn[:1]), (plain, drawn)):
                part = part[(part["seed"] == seed) & part["trial"].isin(trials)]
                best = (part["validation_performance"] + part["validation_fairness"]).idxmax()
                kept.append((part["test_performance"] + part["test_fairness"])[best] / 2)
            leads.append(kept[0] - kept[1])
    assert line["lead"] == pytest.approx(np.mean(leads))
    cpu = [part.drop_duplicates(["seed", "trial"])["cpu"].mean() for part in (curve, plain)]
    assert line["time"] == pytest.approx(cpu[0] / (2 * cpu[1]))


def test_the_page_says_when_there_are_too_few_trials(write, tmp_path):
    few, many = tmp_path / "few", tmp_path / "many"
    run_study(write(), few)
    run_study(write(("models = 2", "models = 1")), many)
    assert "A draw takes 2 of 3 models" in (few / "results.md").read_text()
    assert "A draw takes" not in (many / "results.md").read_text()


def test_times_are_relative_to_plain(full):
    _, out, run = full
    times = pd.read_csv(out / "times.csv")
    assert (times[times["method"] == "LightGBM"]["search, relative"] == 1).all()
    points = run.points.drop_duplicates(["seed", "features", "method", "trial"])
    total = points[(points["method"] == "fairboost") & (points["features"] == "blind")][
        "cpu"
    ].sum()
    line = times[(times["method"] == "fairboost") & (times["features"] == "blind")].iloc[0]
    assert line["cpu total"] == pytest.approx(total) and total > 0


def test_share_within_tolerance(full):
    _, out, run = full
    table = pd.read_csv(out / "within.csv").set_index(["features", "algorithm"])
    points = run.points
    gaps = points[(points["features"] == "aware") & (points["algorithm"] == "plain")]["test_gap"]
    line = table.loc[("aware", "LightGBM")]
    assert line["within"] == pytest.approx((gaps <= 0.02).mean())
    assert line["configurations"] == 4 and line["within noise"] >= line["within"]
    assert table.loc[("aware", "fairboost, fair stage")]["configurations"] == 4


def test_more_trials_later(write, tmp_path):
    out = tmp_path / "out"
    first = run_study(write(), out)
    more = run_study(write(("trials = 3", "trials = 5")), out)
    assert (first.ran, more.ran, more.missing) == (3, 2, 0)
    both = figures(more.points).loc[figures(first.points).index]
    pd.testing.assert_frame_equal(both, figures(first.points))


def test_fewer_trials_later(write, tmp_path):
    """Of the trials that are there, the first ones count; the others stay in the storage."""
    out = tmp_path / "out"
    more = run_study(write(), out).points
    less = run_study(write(("trials = 3", "trials = 2")), out)
    assert less.ran == 0
    kept = more[more["trial"] < 2].drop(columns="trials")
    found = less.points.drop(columns="trials")
    pd.testing.assert_frame_equal(found, kept.reset_index(drop=True))
    assert len(run_study(write(), out).points) == len(more)


def test_stop_after_some_trials(write, tmp_path):
    run = run_study(write(), tmp_path / "out", most=2)
    assert (run.ran, run.missing) == (2, 1)
    assert run_study(write(), tmp_path / "out").ran == 1


@pytest.mark.parametrize(
    ("old", "new"),
    [("rows = 1500", "rows = 1600"), ("tolerance = 0.02", "tolerance = 0.03"),
     ("high = 8 }", "high = 9 }")],
)  # fmt: skip
def test_a_storage_that_another_study_owns(write, tmp_path, old, new):
    url = f'trials = 3\nstorage = "sqlite:///{tmp_path / "shared.db"}"'
    run_study(write(("trials = 3", url)), tmp_path / "out", most=1)
    path = write(("trials = 3", url), (old, new))
    with pytest.raises(InvalidInputError) as raised:
        run_study(path, tmp_path / "out")
    line = 1 + path.read_text().splitlines().index(url.splitlines()[1])
    assert f"line {line}: the storage holds a search" in str(raised.value)


def test_a_method_that_breaks_is_recorded_and_the_study_goes_on(write, own_methods, tmp_path):
    path = write(("trials = 3", "trials = 6"), mine("broken"))
    run = run_study(path, tmp_path / "out")
    assert run.missing == 0 and 0 < run.failed < 6
    errors = run.points["error"].dropna()
    assert set(errors) == {"RuntimeError: more leaves than I can bear"}
    table = pd.read_csv(tmp_path / "out" / "failures.csv")
    assert len(table) == run.failed
    leaves = [json.loads(o)["num_leaves"] for o in run.points["options"]]
    assert [n > 5 for n in leaves] == run.points["error"].notna().tolist()
    assert run_study(path, tmp_path / "out").ran == 0  # it is not tried again unless asked to


def test_all_trials_failed_and_are_run_again(write, own_methods, tmp_path):
    path = write(mine("mended"))
    first = run_study(path, tmp_path / "out")
    assert (first.failed, {p.name for p in first.files}) == (
        3,
        {"trials.parquet", "manifest.json"},
    )
    (tmp_path / "mended").touch()
    again = run_study(path, tmp_path / "out", retry_failed=True)
    assert (again.ran, again.failed, again.missing) == (3, 0, 0)
    assert run_study(path, tmp_path / "out", retry_failed=True).ran == 0


@pytest.mark.parametrize(
    ("name", "message"),
    [("nothing", "the method returned no model"), ("short", "returns a value per row, 300 here")],
)
def test_a_method_that_returns_nonsense(write, own_methods, tmp_path, name, message):
    run = run_study(write(mine(name)), tmp_path / "out", most=1)
    assert message in run.points["error"].iloc[0]


def test_a_method_of_ones_own_with_options(write, own_methods, tmp_path):
    path = write(mine("pausing", strength="{ low = 0.1, high = 0.2 }"))
    run = run_study(path, tmp_path / "out")
    assert run.failed == 0
    for options in run.points["options"]:
        assert 0.1 <= json.loads(options)["pausing.strength"] <= 0.2


def test_a_comma_in_the_name_of_a_method(write, own_methods, tmp_path):
    """Variants are named after a comma; the name of a method is not read out of that."""
    named = ("[methods.pausing]", '[methods."paper, mine"]')
    path = write(mine("pausing"), named)
    run = run_study(path, tmp_path / "out")
    assert (run.failed, run.missing) == (0, 0)
    assert "paper, mine" in pd.read_csv(tmp_path / "out" / "selected.csv")["algorithm"].tolist()


def test_no_method_can_take_part(write, tmp_path):
    path = write(("[methods.plain]", '[methods.reference]\npython = "/nowhere"'))
    with pytest.raises(InvalidInputError, match="no method can take part"):
        run_study(path, tmp_path / "out")


def test_killed_in_the_middle_and_gone_on_with(write, own_methods, tmp_path):
    """A child process is killed while its second trial runs; nothing is lost or run twice."""
    path, out, marker = write(mine("pausing")), tmp_path / "out", tmp_path / "paused"
    child = subprocess.Popen(
        command(path, out), env={**os.environ, "STUDY_PAUSE": str(marker)},
        stdout=subprocess.DEVNULL, stderr=subprocess.PIPE,
    )  # fmt: skip
    deadline = time.monotonic() + 100
    while not marker.exists() and child.poll() is None and time.monotonic() < deadline:
        time.sleep(0.05)
    assert marker.exists(), child.stderr.read().decode()
    plan = plan_study(read_study(path), f"sqlite:///{out / 'trials.db'}")
    study = plan.searches[0].study
    with quiet():
        left = [t.user_attrs["index"] for t in study.get_trials() if t.state.name == "RUNNING"]
        assert left == [1]
        # While it lives its trial is its own: others do what is left.
        beside = run_study(path, out)
        assert (beside.ran, beside.missing) == (1, 1)
        first = counted(study.get_trials())
        child.send_signal(signal.SIGKILL)
        assert child.wait() == -signal.SIGKILL
        child.stderr.close()
        after = run_study(path, out)
        assert (after.ran, after.missing, after.failed) == (1, 0, 0)
        trials = study.get_trials()
    complete = [t.user_attrs["index"] for t in trials if t.state.name == "COMPLETE"]
    assert sorted(complete) == [0, 1, 2]
    assert not [t for t in trials if t.state.name == "RUNNING"]
    assert counted(trials)[0].number == first[0].number  # what was done before stays as it was
    untroubled = run_study(path, tmp_path / "other")
    pd.testing.assert_frame_equal(figures(after.points), figures(untroubled.points))


def test_two_processes_share_a_study(write, tmp_path):
    path, out = write(("trials = 3", "trials = 12")), tmp_path / "out"
    both = [
        subprocess.Popen(command(path, out), stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        for _ in range(2)
    ]
    said = [child.communicate(timeout=200) for child in both]
    assert [child.returncode for child in both] == [0, 0], said
    plan = plan_study(read_study(path), f"sqlite:///{out / 'trials.db'}")
    trials = plan.searches[0].study.get_trials()
    complete = [t.user_attrs["index"] for t in trials if t.state.name == "COMPLETE"]
    assert sorted(complete) == list(range(12))
    assert not [t for t in trials if t.state.name == "RUNNING"]


def test_the_command(write, tmp_path, capsys, monkeypatch):
    path, out = write(), tmp_path / "out"
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)  # there are bars on a terminal only
    assert main(["study", str(path), "--out", str(out), "--trials", "2"]) == 0
    said = capsys.readouterr()
    assert "2 trials run, 1 missing, 0 failed." in said.out and "go on" in said.out
    assert "left" in said.err and "2/3 trials" in said.err
    assert main(["study", str(path), "--out", str(out), "--no-training", "--quiet"]) == 0
    said = capsys.readouterr()
    assert "0 trials run, 1 missing" in said.out and not said.err


def test_the_command_on_a_bad_file(write, capsys):
    path = write(("trials = 3", "trails = 3"))
    assert main(["study", str(path)]) == 1
    assert f"{path}, line 12: unknown key 'trails'" in capsys.readouterr().err


def test_the_command_without_optuna(write, monkeypatch, capsys):
    for name in [n for n in sys.modules if n.split(".")[:2] == ["fairboost", "study"]]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "optuna", None)
    assert main(["study", str(write())]) == 1
    assert 'pip install "fairboost[study]"' in capsys.readouterr().err


def test_published_figures_beside_ours(write, tmp_path):
    line = "loans,0.5,LightGBM,1,1,2,2,75.5,3.3,80.8,0.8"
    head = (
        "dataset,alpha,algorithm,val_fairness,val_fairness_sd,val_performance,val_performance_sd,"
        "test_fairness,test_fairness_sd,test_performance,test_performance_sd"
    )
    (tmp_path / "published.csv").write_text(f"{head}\n{line}\n")
    path = write(
        ("[protocol]", '[published]\nfile = "published.csv"\ndataset = "loans"\n[protocol]')
    )
    run = run_study(path, tmp_path / "out")
    table = pd.read_csv(tmp_path / "out" / "published.csv").iloc[0]
    assert (table["published fairness"], table["published performance sd"]) == (75.5, 0.8)
    points = run.points
    low, high = 100 * points["test_fairness"].min(), 100 * points["test_fairness"].max()
    assert low <= table["here fairness"] <= high


@pytest.mark.parametrize("sampler", ["tpe", "nsga2"])
def test_other_samplers(write, tmp_path, sampler):
    path = write(("trials = 3", f'trials = 3\nsampler = "{sampler}"'))
    run = run_study(path, tmp_path / "out")
    assert (run.ran, run.missing, run.failed) == (3, 0, 0)


def test_a_threshold_placed_on_validation_rows(write, tmp_path):
    path = write(
        ('rate = "fnr"', 'rate = "fpr"\nperformance = "tpr"\nthreshold = { at_fpr = 0.2 }\n'
         'threshold_on = "validation"'),
    )  # fmt: skip
    points = run_study(path, tmp_path / "out").points
    assert (points["validation_fpr"] <= 0.2).all()
    assert (points["validation_threshold"] == points["test_threshold"]).all()
    assert (points["test_fpr"] != points["validation_fpr"]).any()
