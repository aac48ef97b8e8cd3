"""The page on regression does what it shows, and shows what it does."""

import re
from pathlib import Path

PAGE = Path(__file__).parents[1] / "docs" / "regression.md"


def test_page_on_regression_runs_when_pasted(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    namespace = {}
    for block in re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.DOTALL):
        exec(compile(block, "regression.md", "exec"), namespace)
    by_gender = [
        namespace["actual_over_expected"](namespace[name], namespace["new_gender"])["A/E"]
        for name in ("plain", "model")
    ]
    apart = [abs(ratios["M"] - ratios["F"]) for ratios in by_gender]
    assert apart[1] < apart[0] - 0.03  # two standard errors of the difference, 0.015
    shown = capsys.readouterr().out
    assert "actual over expected by gender within 1 ± 0.02" in shown
    gaps = [
        float(b) - float(a) for a, b in re.findall(r"means (-?[\d.]+) and (-?[\d.]+), squ", shown)
    ]
    assert len(gaps) == 2
    assert abs(gaps[0]) > 0.9
    assert abs(gaps[1]) < 0.2


def test_output_on_the_page_has_the_form_of_what_is_printed(capsys):
    """Figures may differ by version of the engine; words and rows may not."""
    namespace, page = {}, PAGE.read_text()
    pairs = re.findall(r"```python\n(.*?)```\n\n```text\n(.*?)```", page, re.DOTALL)
    assert len(pairs) == page.count("```python")
    for block, shown in pairs[:1]:
        exec(compile(block, "regression.md", "exec"), namespace)
        printed = capsys.readouterr().out
        assert re.sub(r"-?\d\.\d+", "#", printed) == re.sub(r"-?\d\.\d+", "#", shown)
