"""The layout reads like the paper: a file imports only from files above it."""

import ast
from pathlib import Path

import pytest

import fairboost

PACKAGE = Path(fairboost.__file__).parent

TOP_TO_BOTTOM = [
    "_typing", "exceptions", "rates", "operating_points", "cells", "_validation",
    "dask_collections", "proxies", "constraints", "realised", "two_sided", "multipliers",
    "memberships", "holdout", "_threads", "_loops", "_kernel", "machines", "terms", "sampling",
    "trace", "lagrangian", "intervals", "verdicts", "fairness_report", "diagnostics",
    "engines.base", "engines.aliases", "engines.frozen", "engines.parts",
    "engines.lightgbm_text", "engines.lightgbm_options",
    "engines.lightgbm_data", "engines.lightgbm_lockstep", "engines.lightgbm",
    "engines.xgboost_json", "engines.xgboost_scores", "engines.xgboost_options",
    "engines.xgboost_collective", "engines.xgboost_data", "engines.xgboost_lockstep",
    "engines.xgboost", "engines.registry", "engines.dask_workers", "iterates", "training",
    "dask_rows",
    "dask_report", "dask_training", "persistence", "model_file", "estimator", "comparisons",
    "decisions", "thresholds", "metrics", "score_bins", "performance", "rounds",
    "plots.style", "plots.rows", "plots.group_rates", "plots.multipliers", "plots.tradeoff",
    "plots.roc", "plots.scores", "plots.calibration", "plots", "tradeoff",
    "report.codec", "report.evidence", "report.limits", "report.lines", "report.rows",
    "report.blocks", "report.words", "report.alternatives", "report.gathering", "report.findings",
    "report.layout", "report.markdown", "report.pictures", "report.html", "report.write", "report",
    "datasets.loans", "datasets.account_openings", "datasets.files", "datasets.on_disk",
    "datasets", "demo",
    "study.config_file", "study.spaces", "study.config", "study.config_reader",
    "study.data", "study.measures", "study.task", "study.reference_fairgbm", "study.reference",
    "study.peers", "study.methods", "study.claims", "study.search", "study.runner",
    "study.points", "study.protocol", "study.results", "study.figures", "study.output",
    "study.study", "study", "tuning",
    "score_counts", "tabular.formats", "tabular.csv_problems", "tabular.files", "tabular.writing",
    "tabular.columns", "tabular.schema", "tabular.audit", "tabular",
    "cli.exits", "cli.console", "cli.arguments", "cli.outputs", "cli.rows", "cli.models",
    "cli.verdicts", "cli.model_card", "cli.model_folder", "cli.alternatives",
    "cli.audit_evidence", "cli.audit_tables", "cli.train", "cli.predict", "cli.audit",
    "cli.compare", "cli.report", "cli.demo", "cli.study", "cli.completion", "cli.dispatch",
    "cli", "cli.__main__",
]  # fmt: skip


def modules():
    return {
        ".".join(path.relative_to(PACKAGE).with_suffix("").parts).removesuffix(".__init__"): path
        for path in PACKAGE.rglob("*.py")
    }


def imported(path):
    """Modules of the package that a file imports, at the top or inside functions."""
    known = modules()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield alias.name.removeprefix("fairboost.")
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("fairboost"):
            base = (node.module or "").removeprefix("fairboost").removeprefix(".")
            for alias in node.names:
                inner = f"{base}.{alias.name}".removeprefix(".")
                yield inner if inner in known else base


def test_every_file_has_its_place():
    assert set(modules()) - {"__init__", "engines"} == set(TOP_TO_BOTTOM)


@pytest.mark.parametrize("name", TOP_TO_BOTTOM)
def test_a_file_imports_only_from_files_above_it(name):
    above = {*TOP_TO_BOTTOM[: TOP_TO_BOTTOM.index(name)], ""}
    ours = {m for m in imported(modules()[name]) if m in TOP_TO_BOTTOM or m == ""}
    assert ours <= above


def test_the_algorithm_does_not_see_features_and_engines_do_not_see_constraints():
    algorithm = {"constraints", "multipliers", "lagrangian", "proxies", "rates"}
    for name, path in modules().items():
        if name in algorithm:
            assert not [m for m in imported(path) if m.startswith("engines")]
        if name.startswith("engines."):
            assert not algorithm & set(imported(path))
