"""What the plain values of a case stand for: tables, labels, groups, engines, constraints.

Labels and groups are made from codes, so that checks can count by NumPy alone.
"""

from __future__ import annotations

import datetime
import decimal
import importlib.util
import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import scipy.sparse as sp

from tests.fuzz.cases import DEFAULTS

OPTIONAL = ("xgboost", "polars", "pyarrow")
HAVE = {name for name in OPTIONAL if importlib.util.find_spec(name) is not None}
NEEDS = {
    "xgboost": "xgboost", "polars": "polars", "lazy": "polars", "polars category": "polars",
    "arrow": "pyarrow", "pandas arrow": "pyarrow", "arrow series": "pyarrow",
}  # fmt: skip


class Broken(Exception):
    """An invariant that does not hold."""


def expect(holds: Any, message: str) -> None:
    """Raise if something does not hold."""
    if not holds:
        raise Broken(message)


@dataclass
class Rows:
    """Some rows, as codes and as the user has them."""

    X: Any
    y: Any
    groups: Any
    weight: Any
    label: np.ndarray  # 0 and 1
    codes: list[np.ndarray]  # of groups; -1 is missing
    given: np.ndarray | None  # weights as numbers
    backwards: Any = None  # X with its rows the other way round

    @property
    def counted(self) -> np.ndarray:
        """Weight of each row."""
        return np.ones(len(self.label)) if self.given is None else self.given

    def __len__(self) -> int:
        return len(self.label)


@dataclass
class Inputs:
    """Everything that a fit is called with."""

    case: dict[str, Any]
    train: Rows
    held: Rows | None
    evals: list[Rows]
    test: Rows
    base: Rows  # for a frozen model
    classes: list[Any]
    columns: list[str]
    values: list[list[Any]]
    without: list[str] = field(default_factory=list)  # packages that are not here


def complete(case: dict[str, Any]) -> tuple[dict[str, Any], list[str]]:
    """A case with all its keys, and the packages that it would have taken."""
    whole = {**DEFAULTS, **case}
    missing = set()
    for key, instead in (
        ("engine", "lightgbm"), ("container", "pandas"), ("labels_in", "array"),
        ("groups_in", "series"),
    ):  # fmt: skip
        needs = NEEDS.get(whole[key])
        if needs is not None and needs not in HAVE:
            missing.add(needs)
            whole[key] = instead
            if key == "engine":
                whole["options"] = {"n_estimators": 5}
    for key in ("holdout_set", "eval"):  # which may have a container of their own
        needs = NEEDS.get((whole[key] or {}).get("container"))
        if needs is not None and needs not in HAVE:
            missing.add(needs)
            whole[key] = {**whole[key], "container": "pandas"}
    tuples = [g["kind"] for g in whole["groups"]] == ["tuple"]
    if tuples and whole["groups_in"] == "list":  # a list of tuples is a table of two columns
        whole["groups_in"] = "array"
    return whole, sorted(missing)


TEST = 4  # the place of test rows among the parts


def build(case: dict[str, Any], folder: Path, rename: str | None = None) -> Inputs:
    """Make the inputs; groups may have other names, in the same order or the reversed one."""
    case, missing = complete(case)
    rng = np.random.default_rng(case["data_seed"])
    n = case["n"]
    held = case["holdout_set"]
    evaluated = case["eval"]
    sizes = [n, max(int(n * held["share"]), 20) if held else 0]
    sizes += [max(n // 3, 20)] * 2 if evaluated else [0, 0]
    sizes += [min(max(n // 2, 50), 1_000), min(n, 1_000)]
    ends = np.cumsum(sizes)
    latent, codes, label = _law(case, rng, int(ends[-1]))
    weight = _weights(case, rng, len(label), n)
    X = _columns(case, rng, latent, codes)
    values = [_group_values(column, rename, other=k) for k, column in enumerate(case["groups"])]
    columns = _group_names(case)

    def part(k: int, beside: dict[str, Any] | None = None, weighted: bool = True) -> Rows:
        rows = slice(int(ends[k] - sizes[k]), int(ends[k]))
        form = {"container": case["container"], "names": case["names"], **(beside or {})}
        inside, names = form["container"], form["names"]
        cut = [c[rows] for c in codes]
        given = None if weight is None or not weighted else weight[rows]
        passed = given
        if given is not None and case["weights"] == "scalar" and k == 0:
            passed = float(given[0])
        cut_X = {name: c[rows] for name, c in X.items()}
        table = contain(cut_X, inside, names)
        backwards = None
        if k == TEST:
            reversed_ = {name: c[::-1] for name, c in cut_X.items()}
            backwards = contain(reversed_, inside, names)
        labels = contain_labels(case, label[rows])
        groups = contain_groups(case, cut, values, columns)
        return Rows(table, labels, groups, passed, label[rows], cut, given, backwards)

    return Inputs(
        case=case,
        train=part(0),
        held=part(1, held, held["weights"]) if held else None,
        evals=[part(2 + k, evaluated, evaluated["weights"]) for k in range(evaluated["sets"])]
        if evaluated
        else [],
        test=part(TEST),
        base=part(5, None, False),
        classes=label_values(case),
        columns=columns,
        values=values,
        without=missing,
    )


def _law(
    case: dict[str, Any], rng: np.random.Generator, n: int
) -> tuple[np.ndarray, list[np.ndarray], np.ndarray]:
    """Two latent numbers, groups, and a label that depends on both."""
    latent = rng.normal(size=(n, 2))
    codes = []
    for column in case["groups"]:
        k = column["k"]
        code = rng.choice(k, n, p=np.arange(k, 0, -1) / (k * (k + 1) / 2))
        if tiny := column.get("tiny"):  # the last group has so few rows for training
            code = np.where(code == k - 1, 0, code)
            code[rng.choice(case["n"], min(tiny, case["n"]), replace=False)] = k - 1
            code[case["n"] :][rng.random(n - case["n"]) < 0.05] = k - 1
        if share := column.get("missing"):
            code = np.where(rng.random(n) < share, -1, code)
        codes.append(code)
    log_odds = np.log(case["base_rate"] / (1 - case["base_rate"])) + 1.3 * latent[:, 0]
    log_odds = log_odds - 0.9 * latent[:, 1] - 0.8 * (codes[0] == 0)
    label = (rng.random(n) < 1 / (1 + np.exp(-log_odds))).astype(np.int64)
    return latent, codes, label


def _weights(
    case: dict[str, Any], rng: np.random.Generator, n: int, n_train: int
) -> np.ndarray | None:
    kind = case["weights"]
    if kind is None:
        return None
    return {
        "gamma": lambda: rng.gamma(2.0, size=n),
        "integers": lambda: rng.integers(1, 5, n).astype(np.float64),
        "zeros": lambda: rng.integers(0, 3, n).astype(np.float64),
        "wide": lambda: 10.0 ** rng.uniform(-6, 6, n),
        "scalar": lambda: np.full(n, 2.0),
    }[kind]()


BANDS = np.array(["x", "v", "z", "w", "y"])  # in no order


def _columns(
    case: dict[str, Any], rng: np.random.Generator, latent: np.ndarray, codes: list[np.ndarray]
) -> dict[str, np.ndarray]:
    """Features by name; categories as text."""
    out: dict[str, np.ndarray] = {}
    n = len(latent)
    for j, kind in enumerate(case["features"]):
        x = latent[:, j % 2] + 0.5 * rng.normal(size=n)
        made = {
            "normal": lambda x=x: x,
            "few values": lambda x=x: np.round(x),
            "integer": lambda x=x: np.round(10 * x),
            "missing": lambda x=x: np.where(rng.random(n) < 0.3, np.nan, x),
            "constant": lambda x=x: np.full(n, 3.0),
            "all missing": lambda x=x: np.full(n, np.nan),
            "huge": lambda x=x: x * 1e30,
            "beyond single": lambda x=x: x * 1e300,
            "tiny": lambda x=x: x * 1e-42,
            "infinite": lambda x=x: np.where(rng.random(n) < 0.05, np.inf, x),
            "bool": lambda x=x: x > 0,
            "skewed": lambda x=x: np.exp(3 * x),
            "group": lambda x=x: codes[0] + 0.3 * rng.normal(size=n),
            "twin": lambda x=x: latent[:, 0].copy(),
            "category": lambda x=x: BANDS[np.digitize(x, [-1, -0.3, 0.3, 1])],
            "many categories": lambda x=x: np.array([f"c{abs(v) * 60:.0f}" for v in x]),
            "text": lambda x=x: np.where(x > 0, "high", "low"),
            "date": lambda x=x: np.datetime64("2024-01-01") + (100 * x).astype("timedelta64[D]"),
        }  # fmt: skip
        out[f"{kind} {j}"] = made[kind]()
    return out


SPECIAL = ["income: monthly", "a,b", "[x]", 'say "é"', "{1}", "<b>", "tab\there", "x" * 300]
ALPHABETS = [
    "größe",
    "âge",
    "年齢",
    "收入",
    "나이",
    "دخل",
    "גיל",
    "ηλικία",
    "доход",
    "आय",
    "👩‍👩‍👧",
    "a\\b",
]


def feature_names(kinds: list[str], names: str) -> list[Any]:
    """Names of the columns."""
    if names in ("special", "alphabets"):
        odd = SPECIAL if names == "special" else ALPHABETS
        return [odd[j % len(odd)] + ("" if j < len(odd) else str(j)) for j in range(len(kinds))]
    if names == "integers":
        return list(range(len(kinds)))
    if names == "duplicate":
        return ["x"] * len(kinds)
    return [f"x{j}" for j in range(len(kinds))]


def contain(columns: dict[str, np.ndarray], inside: str, names: str) -> Any:
    """Features in a container of some library."""
    kinds = [name.rpartition(" ")[0] for name in columns]
    called = feature_names(kinds, names)
    if inside in ("pandas", "pandas nullable", "pandas arrow", "pandas index"):
        return _pandas(columns, kinds, called, inside)
    if inside in ("polars", "lazy"):
        return _polars(columns, kinds, list(map(str, called)), inside)
    if inside == "arrow":
        return _arrow(columns, kinds, list(map(str, called)))
    dense = np.column_stack([_as_numbers(c) for c in columns.values()])
    makers = {
        "numpy": lambda a: a,
        "float32": lambda a: a.astype(np.float32),
        "fortran": np.asfortranarray,
        "readonly": _readonly,
        "view": lambda a: np.repeat(a, 2, axis=0)[::2],
        "list": lambda a: a.tolist(),
        "object": lambda a: a.astype(object),
        "csr": sp.csr_matrix,
        "csc": sp.csc_matrix,
        "coo": sp.coo_matrix,
        "csr_array": sp.csr_array,
        "csr int": lambda a: sp.csr_matrix(np.clip(np.nan_to_num(a), -1e6, 1e6).astype(np.int64)),
    }  # fmt: skip
    with np.errstate(over="ignore"):
        return makers[inside](dense)


def _as_numbers(column: np.ndarray) -> np.ndarray:
    if column.dtype.kind == "M":
        return column.astype(np.int64).astype(np.float64)
    if column.dtype.kind in "US":
        return np.unique(column, return_inverse=True)[1].astype(np.float64)
    return column.astype(np.float64)


def _readonly(a: np.ndarray) -> np.ndarray:
    a.flags.writeable = False
    return a


CATEGORIES = {
    "category": BANDS.tolist(),
    "many categories": [f"c{k}" for k in range(400)],
}


def _pandas(
    columns: dict[str, np.ndarray], kinds: list[str], called: list[Any], inside: str
) -> pd.DataFrame:
    given = zip(kinds, columns.values(), strict=True)
    series = [
        pd.Series(pd.Categorical(c, CATEGORIES[kind]) if kind in CATEGORIES else c)
        for kind, c in given
    ]
    frame = pd.concat(series, axis=1)
    frame.columns = pd.Index(called)
    if inside == "pandas nullable":
        frame = frame.convert_dtypes()
    if inside == "pandas arrow":
        frame = frame.convert_dtypes(dtype_backend="pyarrow")
    if inside == "pandas index":
        frame = _indexed(frame)
    return frame


def _indexed(found: Any) -> Any:
    """Another index, the same for all tables of as many rows."""
    return found.set_axis(np.random.default_rng(1).permutation(len(found)) + 7, axis=0)


def _polars(
    columns: dict[str, np.ndarray], kinds: list[str], called: list[str], inside: str
) -> Any:
    import polars

    data = []
    for kind, name, c in zip(kinds, called, columns.values(), strict=True):
        made = polars.Series(name, c)
        if kind == "category":
            made = made.cast(polars.Categorical)
        if kind == "many categories":
            made = made.cast(polars.Enum(CATEGORIES[kind]))
        data.append(made)
    if len(set(called)) < len(called):  # which polars does not allow
        data = [s.alias(f"x{j}") for j, s in enumerate(data)]
    frame = polars.DataFrame(data)
    return frame.lazy() if inside == "lazy" else frame


def _arrow(columns: dict[str, np.ndarray], kinds: list[str], called: list[str]) -> Any:
    import pyarrow

    arrays = []
    for kind, c in zip(kinds, columns.values(), strict=True):
        made = pyarrow.array(c)
        arrays.append(made.dictionary_encode() if kind in CATEGORIES else made)
    return pyarrow.table(arrays, names=called)


# Labels and groups
# -----------------------------------------------------------------------


def label_values(case: dict[str, Any]) -> list[Any]:
    """The negative and the positive label."""
    found = {
        "int": [0, 1], "signs": [-1, 1], "one two": [1, 2], "bool": [False, True],
        "float": [0.0, 1.0], "str": ["no", "yes"], "approved": ["approved", "denied"],
        "object": ["a", "b"], "bytes": [b"no", b"yes"], "uint8": [0, 1],
        "dates": [np.datetime64("2024-01-01", "D"), np.datetime64("2025-01-01", "D")],
        "mixed": [1, "yes"], "decimal": [decimal.Decimal(0), decimal.Decimal(1)],
        "large": [2**40, 2**62], "unicode": ["nein", "völlig ja ✓"],
    }[case["labels"]]  # fmt: skip
    return found[::-1] if case["pos_label"] == "smaller" else found


def contain_labels(case: dict[str, Any], label: np.ndarray) -> Any:
    """Labels in a container of some library; a series has the index of the table."""
    found = _labels_in(case, label)
    same_index = isinstance(found, pd.Series) and case["container"] == "pandas index"
    return _indexed(found) if same_index else found


def _labels_in(case: dict[str, Any], label: np.ndarray) -> Any:
    kind, inside = case["labels"], case["labels_in"]
    values = label_values(case)
    plain = [values[k] for k in label]
    if kind in ("object", "mixed", "decimal"):
        array = np.empty(len(plain), object)
        array[:] = plain
    else:
        array = np.array(plain, np.uint8 if kind == "uint8" else None)
    if inside == "list":
        return plain
    if inside == "tuple":
        return tuple(plain)
    if inside == "series":
        return pd.Series(array, name="y")
    if inside == "category":
        return pd.Series(pd.Categorical(array if kind != "bytes" else plain))
    if inside == "nullable":
        return pd.Series(array).convert_dtypes()
    if inside == "arrow series" and kind not in ("mixed", "decimal", "bytes"):
        return pd.Series(array).convert_dtypes(dtype_backend="pyarrow")
    if inside == "polars" and kind != "mixed":
        import polars

        return polars.Series("y", array if kind == "dates" else plain)
    if inside == "polars category" and kind in ("str", "approved", "object", "unicode"):
        import polars

        return polars.Series("y", plain, dtype=polars.Categorical)
    if inside == "arrow" and kind != "mixed":
        import pyarrow

        return pyarrow.array(array if kind == "dates" else plain)
    if inside == "column":
        return array.reshape(-1, 1)
    return array


HOSTILE = [
    "", " ", "$10%-$20%", "$20k-$40k", "<b>bold</b>", "=cmd()", "a, b", "a=b", "nan", "None",
    "\x1b[31mred", "line\nbreak", "x" * 200, "é", "日本", "%s", "{0}", "\\", "'", '"',
]  # fmt: skip


def _group_values(column: dict[str, Any], rename: str | None, other: int) -> list[Any]:
    """What the codes of a column stand for, in rising order."""
    k, kind = column["k"], column["kind"]
    if rename is not None:
        names = [f"renamed {other} {j:03d}" for j in range(k)]
        return names if rename == "kept" else names[::-1]
    if kind == "bool" and k <= 2:
        return [False, True][:k]
    if kind == "int":
        return [3 * j - 2 for j in range(k)]
    if kind == "float":
        return [0.5 * j for j in range(k)]
    if kind == "hostile":
        return sorted([*HOSTILE, *(f"name {j}" for j in range(k))][:k])
    if kind == "dates":
        return [datetime.date(2000 + j, 1, 1) for j in range(k)]
    if kind == "tuple":
        return [(j // 10, j % 10) for j in range(k)]
    if kind == "mixed":  # sorted by the name of the type, then as text
        numbers = sorted(range(1, 1 + k // 2), key=str)
        return [*numbers, *(f"s{j:03d}" for j in range(k - k // 2))]
    return [f"g{j:03d}" for j in range(k)]


def _group_names(case: dict[str, Any]) -> list[str]:
    named = [c.get("name", f"g{j}") for j, c in enumerate(case["groups"])]
    if len(set(named)) < len(named):
        named = [f"{name}{j}" for j, name in enumerate(named)]
    if case["groups_in"] in ("array", "list"):
        one = len(named) == 1
        return [
            "sensitive_feature" if one else f"sensitive_feature_{j}" for j in range(len(named))
        ]
    if case["groups_in"] in ("series", "polars") and named == [""]:
        return ["sensitive_feature"]
    if case["groups_in"] == "polars":  # whose frames have no column without a name
        return [name or f"column_{j}" for j, name in enumerate(named)]
    return named


def contain_groups(
    case: dict[str, Any], codes: list[np.ndarray], values: list[list[Any]], names: list[str]
) -> Any:
    """Sensitive columns in a container of some library."""
    inside = case["groups_in"]
    if inside == "none":
        return None
    columns = []
    for code, known, column in zip(codes, values, case["groups"], strict=True):
        found = np.empty(len(code), object)
        found[:] = [None if k < 0 else known[k] for k in code]
        made: Any = pd.Series(found, dtype=object)
        if column["kind"] == "category":
            made = made.astype("category")
        elif column["kind"] in ("int", "float", "bool") and not (code < 0).any():
            made = made.infer_objects()
        columns.append(made)
    if inside == "polars":
        import polars

        kinds = {c["kind"] for c in case["groups"]}
        if not kinds & {"mixed", "tuple"}:
            made = [
                polars.Series(n, [None if v is None or v != v else v for v in c.tolist()])
                for n, c in zip(names, columns, strict=True)
            ]
            return made[0] if len(made) == 1 else polars.DataFrame(made)
    if inside == "dict":
        return {n: c.to_numpy() for n, c in zip(names, columns, strict=True)}
    if inside in ("array", "list"):
        if len(columns) > 1:
            return np.column_stack([c.to_numpy(object) for c in columns])
        return columns[0].tolist() if inside == "list" else columns[0].to_numpy()
    frame = pd.concat([c.rename(n) for n, c in zip(names, columns, strict=True)], axis=1)
    if case["container"] == "pandas index":
        frame = _indexed(frame)
    return frame[names[0]] if inside == "series" and len(names) == 1 else frame


# Engines and constraints
# -----------------------------------------------------------------------


def make_engine(inputs: Inputs, folder: Path, extra: dict[str, Any] | None = None) -> Any:
    """The estimator of the engine, quiet and on few threads."""
    case = inputs.case
    options = {**case["options"], **(extra or {})}
    if case["engine"] == "xgboost":
        from xgboost import XGBClassifier

        return XGBClassifier(**{"n_jobs": 1, **options})
    from lightgbm import LGBMClassifier

    if options.get("class_weight") == "by label":
        known = [int(c) if isinstance(c, bool) else c for c in inputs.classes]
        options["class_weight"] = {known[0]: 1.0, known[1]: 3.0}
    for name, content in (
        ("forcedbins_filename", [{"feature": 0, "bin_upper_bound": [0.3, 0.35, 0.4]}]),
        ("forcedsplits_filename", {"feature": 0, "threshold": 0.1}),
    ):
        if name in options:
            options[name] = str(folder / f"{name}.json")
            Path(options[name]).write_text(json.dumps(content))
    # LightGBM otherwise chooses how to build histograms by a race, and sums in another order.
    if "force_row_wise" not in options:
        options["force_col_wise"] = True
    return LGBMClassifier(**{"n_jobs": 1, "verbose": -1, **options})


class Limit:
    """No group's rate above 0.4."""

    by = None
    name = "worst"

    def violations(self, moments: Any) -> np.ndarray:
        """The rate of each group, less the limit."""
        return moments.values[0] - 0.4

    def pullback(self, moments: Any, multipliers: np.ndarray) -> np.ndarray:
        """Each multiplier on its group."""
        return multipliers[np.newaxis]


class Worst(Limit):
    """A constraint of a user's own: no group's false negative rate above 0.4."""

    moments = ("fnr",)


class Older(Limit):
    """The same with ``rates`` for ``moments``."""

    rates = ("fnr",)


def make_constraint(inputs: Inputs) -> Any:
    """The constraints, as a user writes them."""
    from fairboost import bound, parity

    wanted = inputs.case["constraint"]
    if wanted is None:
        return None
    made: list[Any] = []
    for item in wanted:
        if isinstance(item, str):
            made.append(item)
        elif item[0] == "parity":
            by = item[3]
            names = None if by is None else [_known(inputs.columns, j) for j in by]
            one = names is not None and len(names) == 1
            made.append(parity(item[1], item[2], by=names[0] if one else names and tuple(names)))
        elif item[0] == "bound":
            group = None
            if item[3] is not None:
                column, code = item[3]
                value = inputs.values[column or 0][code % len(inputs.values[column or 0])]
                group = value if column is None else {inputs.columns[column]: value}
            made.append(bound(item[1], item[2], group=group))
        else:
            made.append({"custom": Worst, "older": Older}[item[0]]())
    return made[0] if len(made) == 1 else made


def _known(columns: list[str], j: int) -> str:
    return columns[j] if j < len(columns) else "no such column"


def make_point(value: Any) -> Any:
    """An operating point."""
    import fairboost

    return getattr(fairboost, value[0])(value[1]) if isinstance(value, list) else value
