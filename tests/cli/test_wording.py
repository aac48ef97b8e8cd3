"""Notes of commands speak of commands, not of Python."""

from __future__ import annotations

import json
import re

import numpy as np
import pandas as pd
import pytest

from fairboost.cli.wording import in_commands
from fairboost.fairness.binding import REMEDIES
from fairboost.verdicts import fairness_report
from fairboost.verdicts.diagnostics import decides_little
from tests.loan_files import loans

PYTHON = re.compile(
    r"print\(|\bfairness_report|[a-z]_\b|\b\w+='|\b\w+=\w+\(|\((?!--option )n_estimators|"
    r"\b(holdout_set|pos_label|min_group_rows|operating_point|at_fpr|at_positive_rate)\b"
)
"""Calls, attributes, and options as Python has them; "sex=f" is a group."""

ADVICE = [
    "Where a constraint is not met: train more rounds (n_estimators) or allow a larger bound.",
    fairness_report.TRAINING_ROWS,
    *fairness_report.TOO_FEW.values(),
    REMEDIES["trained"][1],
    REMEDIES["held out"][1],
    decides_little(1.0, 1.0, 100, 300),
    decides_little(0.5, 0.5, 100, 300),
    "not judged, since fewer rows count than min_group_rows asks for; lower min_group_rows=9",
    "inconclusive on the held-out rows: at_fpr(0.001) was placed on 50 rows",
    "it is other than asked. fairboost.metrics.threshold_at places it anew on recent rows",
    "y of holdout_set has the label 3, expected those of training",
    "sample_weight must not be negative, found -1",
]


@pytest.mark.parametrize("text", ADVICE)
def test_advice_of_the_library(text):
    said = in_commands(text)
    assert not PYTHON.search(said), said
    assert len(said) > 20


def test_what_is_not_python_stays_as_it_is():
    text = "false negative rate equal by sex, tolerance 0.02: not met, by 0.0312."
    assert in_commands(text) == text
    columns = "the columns 'holdout_set' and 'sample_weight' are missing"
    assert in_commands(columns) == columns


def test_what_a_note_advises_can_be_done(tmp_path, run):
    """Rates can be read on all rows."""
    loans(600, seed=0).to_csv(tmp_path / "few.csv", index=False)
    words = ("--label", "approved", "--sensitive", "sex", "--jobs", "1", "--json", "--quiet")
    more = ("--option", "n_estimators=3", "--no-trade-off", "--holdout-share", "cross")
    code, _, err = run("train", tmp_path / "few.csv", *words, *more, "--out", tmp_path / "m")
    assert code in (0, 3), err
    method = json.loads((tmp_path / "m" / "evidence.json").read_text())["evidence"]["model"]
    assert method["method"]["holdout"] == "cross"


def test_notes_of_a_training_that_fails_its_constraint(tmp_path, run):
    """Few rows and a strict tolerance: not met, too few rows, small groups."""
    rng = np.random.default_rng(0)
    sex = rng.choice(["f", "m"], 600)
    x = rng.normal(size=600) + (sex == "m")
    hired = np.where(x + rng.normal(size=600) > 1, "yes", "no")
    frame = pd.DataFrame({"x": x, "sex": sex, "hired": hired})
    data, out = tmp_path / "hired.csv", tmp_path / "model"
    frame.to_csv(data, index=False)
    _, said, err = run(
        "train", data, "--label", "hired", "--sensitive", "sex", "--constraint",
        "demographic_parity", "--tolerance", "0", "--no-trade-off", "--holdout-share", "0.2",
        "--option", "n_estimators=5", "--out", out,
    )  # fmt: skip
    short = (out / "report.md").read_text().split("## What was asked")[0]
    assert "Note: " in err
    for text in (said, err, short.replace("\\", "")):
        assert not PYTHON.search(text), text


@pytest.mark.parametrize(
    ("label", "positive", "constraint", "notes"),
    [
        ("default", "yes", "equal_opportunity", 1),
        ("default", "no", "equal_opportunity", 0),
        ("default", "yes", "predictive_equality", 0),
        ("approved", "yes", "equal_opportunity", 0),
    ],
)
def test_whom_equal_opportunity_protects(
    tmp_path, run, no_pictures, label, positive, constraint, notes
):
    table = loans(600, seed=0).rename(columns={"approved": label})
    table.to_csv(tmp_path / "loans.csv", index=False)
    words = ("--label", label, "--positive", positive, "--sensitive", "sex", "--jobs", "1")
    more = ("--constraint", constraint, "--option", "n_estimators=3", "--no-trade-off")
    code, _, err = run("train", tmp_path / "loans.csv", *words, *more, "--out", tmp_path / "m")
    assert code in (0, 3), err
    said = re.findall(r"Note: the positive label .*?\.(?= Note:|$)", " ".join(err.split()))
    assert len(said) == notes, err
    for note in said:
        assert f"label {positive!r} of {label!r} seems to be held against people" in note
        assert "pass --constraint predictive_equality, or --constraint equalized_odds" in note
        assert not PYTHON.search(note)
