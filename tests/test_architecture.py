"""The rooms of the house: which folder may import which, and which packages may be used where."""

import ast
from collections import Counter
from pathlib import Path

import pytest

import fairboost

PACKAGE = Path(fairboost.__file__).parent
TESTS = Path(__file__).parent

# A folder may import from those beside it, and from the modules at the top.
ROOMS = {
    "data": [],
    "fairness": ["data"],
    "kernel": ["fairness"],
    "tasks": ["data", "fairness", "kernel"],
    "metrics": ["data", "fairness", "kernel", "tasks"],
    "algorithm": ["data", "fairness", "kernel", "tasks"],
    "verdicts": ["data", "fairness", "metrics", "algorithm"],
    "engines": ["data", "kernel"],
    "training": [
        "data", "fairness", "kernel", "tasks", "algorithm", "verdicts", "engines",
    ],
    "cluster": [
        "data", "fairness", "kernel", "tasks", "algorithm", "verdicts", "engines", "training",
    ],
    "serving": ["data", "fairness", "engines"],
    "model": [
        "data", "fairness", "algorithm", "verdicts", "engines", "training", "cluster", "serving",
    ],
    "plots": ["data", "fairness", "metrics", "verdicts"],
    "search": ["fairness"],
    "selection": [
        "data", "fairness", "metrics", "algorithm", "verdicts", "engines", "training", "cluster",
        "model", "plots", "search",
    ],
    "report": [
        "data", "fairness", "metrics", "verdicts", "model", "plots", "selection",
    ],
    "mlflow": ["verdicts", "engines", "serving", "model", "report"],
    "filings": ["data", "fairness", "metrics", "report", "selection"],
    "monitoring": ["data", "fairness", "metrics", "verdicts", "plots", "report", "filings"],
    "datasets": [],
    "tabular": ["data", "fairness", "metrics"],
    "study": [
        "fairness", "metrics", "verdicts", "engines", "training", "model", "plots", "search",
        "selection", "datasets",
    ],
    "cli": [
        "fairness", "metrics", "verdicts", "engines", "serving", "model", "plots", "selection",
        "report", "filings", "monitoring", "datasets", "tabular", "study",
    ],
}  # fmt: skip

# The rooms in which a package may be imported; any other package may be, everywhere.
PACKAGES = {
    "lightgbm": ["engines"],
    "xgboost": ["engines", "cluster"],
    "dask": ["cluster"],
    "distributed": ["cluster"],
    "mlflow": ["mlflow"],
    "matplotlib": ["plots", "study"],
    "optuna": ["search", "study"],
    "fairlearn": ["study"],
    "fairgbm": ["study"],
    "pyarrow": ["tabular", "datasets", "cli"],
    "narwhals": ["data"],
    "openpyxl": ["tabular"],
    "joblib": ["kernel", "engines"],
    "onnx": ["serving"],
    "onnxruntime": ["serving"],
    "tl2cgen": ["serving"],
    "treelite": ["serving"],
    "ctypes": ["kernel", "engines", "cli"],
    "cupy": ["kernel"],
    "cupyx": ["kernel"],
}


def files(room):
    return sorted((PACKAGE / room).rglob("*.py"))


def imported(path):
    """What a file imports, at the top or inside functions, as dotted names.

    Names for annotations alone are not counted: nothing is imported when the program runs.
    """
    tree = ast.parse(path.read_text())
    for node in ast.walk(tree):
        if isinstance(node, ast.If) and getattr(node.test, "id", "") == "TYPE_CHECKING":
            node.body = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        if isinstance(node, ast.ImportFrom):
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def test_every_folder_is_a_room():
    folders = {p.name for p in PACKAGE.iterdir() if p.is_dir() and p.name != "__pycache__"}
    assert folders == set(ROOMS)


def test_doors_go_one_way():
    done = set()
    for room, doors in ROOMS.items():
        assert done.issuperset(doors), f"{room} comes before a room that it imports"
        done.add(room)


@pytest.mark.parametrize("room", ROOMS)
def test_a_room_imports_from_the_rooms_beside_it(room):
    for path in files(room):
        for name in imported(path):
            first, _, rest = name.partition(".")
            folder = rest.partition(".")[0]
            if first == "fairboost" and folder in ROOMS:
                assert folder in (room, *ROOMS[room]), f"{path.name} imports {name}"


@pytest.mark.parametrize("path", sorted(PACKAGE.glob("*.py")), ids=lambda p: p.name)
def test_modules_at_the_top_import_nothing_but_each_other(path):
    ours = [name for name in imported(path) if name.startswith("fairboost.")]
    assert not [name for name in ours if name.split(".")[1] in ROOMS]


@pytest.mark.parametrize("package", PACKAGES)
def test_a_package_is_imported_in_its_rooms_only(package):
    found = {
        str(path.relative_to(PACKAGE))
        for path in PACKAGE.rglob("*.py")
        if any(name.split(".")[0] == package for name in imported(path))
    }
    assert not [p for p in found if p.split("/")[0] not in PACKAGES[package]]


def test_engines_see_no_constraint_and_the_algorithm_no_engine():
    assert not {"fairness", "algorithm", "tasks"} & set(ROOMS["engines"])
    assert "engines" not in ROOMS["algorithm"]


def test_tests_stand_where_the_code_stands():
    apart = {
        "laws",
        "golden",
        "statistical",
        "browser",
        "fuzz",
        "benchmarks",
    }  # about the whole, or about what it is compared with, not about a module
    folders = {p.name for p in TESTS.iterdir() if p.is_dir() and p.name != "__pycache__"}
    assert folders - apart <= set(ROOMS)


LONGEST = 60
MOST_PARAMETERS = 8
# Public ones, whose parameters are the user's options.
MANY_OPTIONS = {
    "FairGBMClassifier.__init__", "FairGBMClassifier.fit", "FairGBMRegressor.__init__",
    "FairGBMRegressor.fit", "tradeoff_curve", "tune", "audit", "audit_numbers", "audit_classes",
    "audit_sums", "gap", "ratio", "group_rates", "GroupRatesDisplay.from_predictions",
    "GroupCalibrationDisplay.from_predictions", "gather",
}  # fmt: skip


def functions():
    for path in sorted(PACKAGE.rglob("*.py")):
        tree = ast.parse(path.read_text())
        for parent in ast.walk(tree):
            for node in ast.iter_child_nodes(parent):
                if isinstance(node, ast.FunctionDef):
                    inside = f"{parent.name}." if isinstance(parent, ast.ClassDef) else ""
                    yield path, inside + node.name, node


def test_no_function_is_long():
    found = []
    for path, name, node in functions():
        lines = path.read_text().splitlines()[node.lineno - 1 : node.end_lineno]
        if ast.get_docstring(node, clean=False) is not None:
            first = node.body[0]
            del lines[first.lineno - node.lineno : first.end_lineno - node.lineno + 1]
        code = [line for line in lines if line.strip() and not line.strip().startswith("#")]
        if len(code) > LONGEST:
            found.append(f"{path.name}: {name} has {len(code)} lines of code")
    assert not found


def test_no_function_takes_many_parameters():
    found = []
    for path, name, node in functions():
        given = [*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs]
        count = len([a for a in given if a.arg not in ("self", "cls")])
        if count > MOST_PARAMETERS and name not in MANY_OPTIONS:
            found.append(f"{path.name}: {name} takes {count}")
    assert not found


def test_every_class_has_a_name_of_its_own():
    found = Counter(
        node.name.lstrip("_")
        for path in PACKAGE.rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.ClassDef)
    )
    assert not [name for name, count in found.items() if count > 1]
