"""The page on groups known by probability and on numbers does what it shows."""

import re
from pathlib import Path

import pytest

PAGE = Path(__file__).parents[1] / "docs" / "soft_groups.md"


@pytest.mark.filterwarnings("ignore::fairboost.exceptions.FairnessWarning")
def test_page_on_soft_groups_runs_when_pasted(capsys):
    matplotlib = pytest.importorskip("matplotlib", reason="plots need matplotlib")
    matplotlib.use("Agg")
    from matplotlib import pyplot as plt

    namespace, printed = {}, []
    for block in re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.DOTALL):
        small = block.replace("20_000", "3_000").replace("n_estimators=100", "n_estimators=5")
        exec(compile(small, "soft_groups.md", "exec"), namespace)
        printed.append(capsys.readouterr().out)
    plt.close("all")
    probabilities, both, age = printed
    assert "equal by sex by probability" in probabilities
    assert "whose group is observed" in " ".join(probabilities.split())
    gaps = [float(g) for g in re.findall(r"'gap': ([\d.]+)", both)]
    assert gaps[0] < gaps[1]  # weighted, then corrected
    assert "equal by age as a number" in age
