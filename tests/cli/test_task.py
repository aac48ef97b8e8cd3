"""Which of the tasks a command does, and which options go with it."""

import numpy as np
import pandas as pd
import pytest

from fairboost.cli import main
from tests.policy_files import FEW, policies

pytestmark = pytest.mark.usefixtures("no_pictures")

OUT = ("--quiet", "--no-trade-off", *FEW, "--out", "m")
ON = ("--label", "cost", "--sensitive", "gender")


@pytest.fixture
def data(tmp_path, monkeypatch):
    """Policies, in a folder of their own."""
    monkeypatch.chdir(tmp_path)
    frame = policies(600, seed=0)
    frame.assign(grade=np.arange(600) % 4, late=np.arange(600) % 2).to_csv("d.csv", index=False)
    return "d.csv"


def said(capsys):
    return " ".join(capsys.readouterr().err.split())


def test_a_label_of_many_numbers_is_a_number(data, capsys):
    words = ("train", data, *ON, *FEW, "--no-trade-off", "--out", "m")
    assert main(list(words)) in (0, 3)
    distinct = pd.read_csv(data)["cost"].nunique()
    assert (
        f"the label 'cost' has {distinct} distinct numbers: predicting a number (--task "
        "regression); for yes or no, name a column of two values."
    ) in said(capsys)


def test_few_numbers_may_be_classes(data, capsys):
    words = ("train", data, "--label", "grade", "--sensitive", "gender", *FEW, "--no-trade-off")
    assert main([*words, "--out", "m"]) in (0, 3)
    assert "has 4 distinct numbers: predicting a number" in (text := said(capsys))
    assert "codes of classes, pass --task classes" in text


def test_two_numbers_are_two_values_unless_asked_otherwise(data, capsys):
    words = ("train", data, "--label", "late", "--sensitive", "gender", *OUT, "--force", "--json")
    assert main(list(words)) in (0, 3)
    assert '"accuracy"' in capsys.readouterr().out
    for more in (("--task", "regression"), ("--objective", "poisson")):
        assert main([*words, *more]) in (0, 3)
        assert '"squared error"' in capsys.readouterr().out


def test_a_tolerance_that_looks_like_a_share(data, capsys):
    words = ("train", data, *ON, *FEW, "--no-trade-off", "--constraint", "equal_means", "--out")
    for tolerance, more in (("0.02", ()), ("0.02", ("--relative",)), ("20", ())):
        assert main([*words, f"m{tolerance}{more}", "--tolerance", tolerance, *more]) in (0, 3)
        remarked = "0.02 has the unit of the label, whose mean is 5" in said(capsys)
        assert remarked == (tolerance == "0.02" and not more)


def test_audits_look_at_the_first_rows(data, capsys):
    words = ["audit", data, "--label", "cost", "--score", "power", "--sensitive", "gender"]
    assert main([*words, "--max-gap", "ae=9"]) == 1  # power has gaps
    assert "'power' is missing at row" in said(capsys)
    words[words.index("power")] = "age"
    assert main(words) == 0
    assert "or more distinct numbers: predicting a number" in said(capsys)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--threshold", "0.3"), "--threshold is for --task classification, and by the values"),
        (("--at-fpr", "0.1"), "--at-fpr is for --task classification"),
        (("--at-positive-rate", "0.1"), "--at-positive-rate is for --task classification"),
        (("--favourable", "negative"), "--favourable is for --task classification"),
        (("--constraint", "equalized_odds"), "--constraint equalized_odds is for --task class"),
        (("--task", "regression", "--positive", "3"), "--positive is for --task classification"),
        (
            ("--positive", "3", "--exposure", "years"),
            "--exposure is for --task regression, and by",
        ),
        (("--positive", "3", "--relative"), "--relative is for --task regression"),
        (("--task", "classification", "--objective", "gamma"), "--objective is for --task regr"),
        (("--constraint", "equal_means"), "needs a --tolerance in the unit of the prediction, or"),
        (("--constraint", "bounded_group_loss"), "needs a --tolerance in the unit of the loss"),
        (("--constraint", "equal_means", "--relative"), "--relative needs a --tolerance"),
        (
            ("--constraint", "equal_means", "--relative", "--tolerance", "20"),
            "--tolerance must lie between 0 and 1, found 20",
        ),
        (("--constraint", "calibrated", "--tolerance", "2"), "must lie between 0 and 1, found 2"),
        (("--relative", "--tolerance", "0.1"), "--relative is for equal_means and equal_errors"),
        (
            ("--constraint", "equal_means", "--constraint", "calibrated", "--tolerance", "0.5"),
            "would be the unit of the prediction for equal_means and a share for calibrated",
        ),
        (("--tolerance", "-1"), "--tolerance must be a number of 0 or more, found '-1'"),
    ],
)
def test_options_of_the_other_task_are_refused_by_name(data, capsys, words, message):
    with pytest.raises(SystemExit) as stop:
        main(["train", data, *ON, *words, *OUT])
    assert stop.value.code == 2
    assert message in capsys.readouterr().err


@pytest.mark.parametrize("limit", ["fnr=0.1", "ppr=0"])
def test_limits_of_rates_are_not_for_numbers(data, capsys, limit):
    words = ["audit", data, "--label", "cost", "--score", "age", "--sensitive", "gender"]
    with pytest.raises(SystemExit):
        main([*words, "--max-gap", limit])
    assert f"--max-gap {limit[:3]} is for --task classification" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("change", "words", "message"),
    [
        (
            {"claims": -1},
            ("--label", "claims", "--objective", "poisson"),
            "'claims' must be 0 or more under a poisson loss, found -1 in row 8 of d.csv",
        ),
        (
            {"claims": 0},
            ("--label", "claims", "--objective", "gamma"),
            "'claims' must be above 0 under a gamma loss, found 0 in row",
        ),
        (
            {"years": 0},
            ("--label", "claims", "--objective", "poisson", "--exposure", "years"),
            "--exposure 'years' is 0 in row 8, expected a number above 0 in every row",
        ),
        (
            {"years": None},
            ("--label", "claims", "--objective", "tweedie", "--exposure", "years"),
            "--exposure 'years' is missing in row 8",
        ),
        (
            {},
            ("--label", "cost", "--exposure", "years"),
            "--exposure multiplies predictions, which takes a log link, and the loss is squared; "
            "use --objective poisson, gamma or tweedie, or leave --exposure out",
        ),
        (
            {},
            ("--label", "cost", "--constraint", "equal_means", "--tolerance", "50000"),
            "--tolerance 50000 is larger than the range of the label",
        ),
        (
            {"cost": np.inf},
            ("--label", "cost"),
            "is 'inf' in row 8, expected a number",
        ),
        ({}, ("--label", "cost", "--exposure", "cost"), "'cost' is named twice among --label"),
        ({}, ("--label", "cost", "--exposure", "gendre"), "has no column 'gendre'"),
        (
            {},
            ("--label", "cost", "--exposure", "years", "--drop", "years"),
            "'years' is needed and cannot be dropped",
        ),
        (
            {},
            ("--label", "région", "--task", "regression"),
            "expected a number; name a column of numbers, or pass --task classification",
        ),
        (
            {},
            ("--label", "cost", "--objective", "gamma", "--option", "objective=poisson"),
            "--objective gamma and --option objective=... are the same",
        ),
        (
            {},
            ("--label", "cost", "--objective", "quantile", "--engine", "xgboost"),
            "pass --option quantile_alpha=0.5",
        ),
        ({}, ("--label", "cost", "--test-share", "0.0001"), "0 of the rows are test rows"),
    ],
)
def test_numbers_that_will_not_do(data, capsys, change, words, message):
    frame = pd.read_csv(data)
    frame["claims"] = frame["claims"].astype(float)
    frame.loc[7, list(change)] = list(change.values())
    frame.to_csv(data, index=False)
    engine = ("--quiet", "--no-trade-off") if "xgboost" in words else OUT[:-2]
    assert main(["train", data, "--sensitive", "gender", *words, *engine, "--out", "m"]) == 1
    assert message in (err := said(capsys))
    assert "unexpected" not in err
