"""Public names are declared, documented and in the docs; ruff keeps them sorted."""

import importlib
import inspect
from pathlib import Path

import pytest

import fairboost

PUBLIC = [
    *("", "datasets", "exceptions", "fairness", "filings", "metrics", "mlflow", "monitoring"),
    *("plots", "report", "study"),
]


def module(name):
    return importlib.import_module(f"fairboost.{name}" if name else "fairboost")


@pytest.mark.parametrize("name", PUBLIC)
def test_names_are_declared_once(name):
    declared = module(name).__all__
    assert len(set(declared)) == len(declared)
    for item in declared:
        assert hasattr(module(name), item)


@pytest.mark.parametrize("name", PUBLIC)
def test_every_public_thing_has_a_docstring(name):
    for item in module(name).__all__:
        thing = getattr(module(name), item)
        if inspect.isclass(thing) or inspect.isfunction(thing):
            assert (thing.__doc__ or "").strip(), item


def test_top_level_functions_and_classes_show_an_example():
    for item in ("FairGBMClassifier", "parity", "bound", "report_on", "tradeoff_curve", "tune"):
        assert ">>>" in getattr(fairboost, item).__doc__


def test_the_api_page_lists_every_public_name():
    page = Path(__file__).parents[1] / "docs" / "api.md"
    text = page.read_text()
    for name in PUBLIC:
        for item in module(name).__all__:
            assert f"`{item}`" in text, f"{item} of fairboost.{name} is not in docs/api.md"


def test_names_and_modules_come_when_they_are_used():
    assert {*fairboost.__all__, *PUBLIC[1:]} <= {*dir(fairboost)}
    for name in PUBLIC[1:]:
        assert getattr(fairboost, name) is module(name)
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        _ = fairboost.nothing
