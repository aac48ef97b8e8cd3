"""The page on regression does what it shows, and shows what it does."""

import re
from pathlib import Path

import pytest

PAGE = Path(__file__).parents[1] / "docs" / "regression.md"


def form(text):
    """The words and the rows of an output: figures may differ by version of the engine."""
    figure = re.compile(r"NaN|-?\d+(\.\d+)?")
    return [figure.sub("#", " ".join(line.split())) for line in text.splitlines()]


@pytest.mark.filterwarnings("ignore::fairboost.exceptions.SmallCellWarning")  # as the page says
def test_page_on_regression_runs_when_pasted_and_prints_what_it_shows(capsys):
    page, namespace, printed = PAGE.read_text(), {}, []
    pairs = re.findall(r"```python\n(.*?)```\n\n```text\n(.*?)```", page, re.DOTALL)
    assert len(pairs) == page.count("```python") == 7
    for block, _ in pairs:
        exec(compile(block, "regression.md", "exec"), namespace)
        printed.append(capsys.readouterr().out)
    *tables, report, costs = printed
    assert [*map(form, (*tables, costs))] == [
        form(shown) for k, (_, shown) in enumerate(pairs) if k != 5
    ]
    # Verdicts may differ with the figures, the rest of the report may not.
    assert "actual over expected by gender within 1 ± 0.02" in report
    first_words = [line.split()[:1] for line in report.splitlines() if "gender=" in line[:7]]
    assert first_words == [["gender=F"], ["gender=M"]] * 3

    found = re.findall(r"means (-?[\d.]+) and (-?[\d.]+), squared", printed[0])
    plain, fair = (abs(float(b) - float(a)) for a, b in found)
    assert plain > 0.9
    assert fair < 0.2
    audits = [namespace["audits"][name].by_group for name in ("plain", "calibrated")]
    by_gender = [table.set_index("group")["a_over_e"] for table in audits]
    plain, fair = (abs(ratios["M"] - ratios["F"]) for ratios in by_gender)
    assert fair < plain - 0.03  # two standard errors of a difference
    gaps, losses = (namespace["table"][name] for name in ("gap", "loss"))
    assert gaps.iloc[-1] < 0.2 * gaps.iloc[0]
    assert losses.iloc[-1] > losses.iloc[0]
