"""The pages on conflicts between constraints and on the worst group do what they show."""

import re
from pathlib import Path

import pytest

from tests.test_regression_page import form

DOCS = Path(__file__).parents[1] / "docs"


@pytest.mark.filterwarnings("ignore::fairboost.exceptions.FairnessWarning")  # of few rows
def test_page_on_conflicts_runs_when_pasted_and_prints_what_it_shows(capsys):
    page = (DOCS / "constraints_conflict.md").read_text()
    ((block, shown),) = re.findall(r"```python\n(.*?)```\n\n```text\n(.*?)```", page, re.DOTALL)
    exec(compile(block, "constraints_conflict.md", "exec"), {})
    printed = capsys.readouterr().out
    assert form(printed) == form(shown)
    found = {line.split()[0]: re.findall(r"\d\.\d+", line) for line in printed.splitlines()}
    fnr, precision, ratio = (
        {name: float(values[k]) for name, values in found.items()} for k in range(3)
    )
    # What the page says: each has the smallest gap of its own kind, and pays with the others.
    assert min(fnr, key=fnr.get) == "equal_opportunity"
    assert max(precision, key=precision.get) == max(ratio, key=ratio.get) == "equal_opportunity"
    assert min(fnr["predictive_parity"], fnr["calibrated"]) > 5 * fnr["equal_opportunity"]


@pytest.mark.filterwarnings("ignore::fairboost.exceptions.FairnessWarning")
def test_page_on_the_worst_group_runs_when_pasted(capsys):
    page = (DOCS / "worst_group.md").read_text()
    (block,) = re.findall(r"```python\n(.*?)```", page, re.DOTALL)
    namespace = {}
    exec(compile(block, "worst_group.md", "exec"), namespace)
    assert "no limit was asked for" in capsys.readouterr().out
    new, model = namespace["new"], namespace["model"]
    assert (model.predict(new.X) != new.y).mean() < 0.26
