"""Random cases: what one fit is asked to do, as plain values drawn from a seed.

A case is a flat dictionary of JSON's types, so that it can be printed, kept and shrunk: a key that
is left out has the value of ``DEFAULTS``. What the values stand for is made in ``inputs.py``.
"""

from __future__ import annotations

from typing import Any

import numpy as np

DEFAULTS: dict[str, Any] = {
    "engine": "lightgbm",
    "options": {},  # of the engine
    "data_seed": 0,
    "n": 300,
    "features": ["normal", "normal", "normal"],
    "names": "plain",
    "container": "numpy",
    "base_rate": 0.4,
    "labels": "int",
    "labels_in": "array",
    "pos_label": None,  # or "smaller" or "larger", of the two
    "groups": [{"kind": "str", "k": 2}],
    "groups_in": "series",
    "weights": None,
    "holdout_set": None,
    "eval": None,
    "frozen": None,
    "constraint": ["equal_opportunity"],
    "fair": {},  # other parameters of FairGBMClassifier
    "paper": False,
    "checks": [],  # the costly ones
}

RATES = ["fpr", "fnr", "tpr", "tnr", "ppr", "pnr"]
NAMED = ["equal_opportunity", "predictive_equality", "equalized_odds", "demographic_parity"]


def draw(seed: int, case: int) -> dict[str, Any]:
    """The case of a number in the campaign of a seed."""
    rng = np.random.default_rng([seed, case])
    drawn: dict[str, Any] = {"data_seed": int(rng.integers(2**31))}
    drawn["engine"] = _one(rng, {"lightgbm": 5, "xgboost": 5})
    drawn |= _table(rng, drawn["engine"])
    drawn |= _labels_and_groups(rng)
    drawn |= _rows_besides(rng, drawn["engine"])
    drawn |= _method(rng, drawn)
    drawn["options"] = _options(rng, drawn)
    drawn["checks"] = [
        name
        for name, share in (
            ("again", 0.4), ("renamed", 0.4), ("plain", 0.35), ("interrupted", 0.08),
            ("threads", 0.1),
        )
        if rng.random() < share
    ]  # fmt: skip
    if drawn["n"] >= 20_000:
        drawn["checks"] = drawn["checks"][:1]
    if rng.random() < 0.9:
        _agree(drawn)
    for beside in (drawn["holdout_set"], drawn["eval"]):  # last: the rest is drawn as it was
        if beside is not None and rng.random() < 0.08:
            forms = ["numpy", "float32", "list", "object", "pandas", "polars", "arrow", "csr"]
            beside["container"] = _one(rng, forms)
        if beside is not None and rng.random() < 0.03:
            beside["names"] = _one(rng, ["plain", "special", "integers"])
    return {k: v for k, v in drawn.items() if v != DEFAULTS.get(k)}


def _agree(drawn: dict[str, Any]) -> None:
    """Take out what would be refused, so that most cases come to be trained."""
    fair, options = drawn["fair"], drawn["options"]
    if "dart" in (options.get("boosting_type"), options.get("booster")):
        fair["iterate"] = "last"
    if drawn["frozen"] is not None:
        fair.pop("iterate", None)
        drawn["pos_label"] = None
        if drawn["engine"] == "xgboost":  # which knows no other labels by itself
            drawn["labels"] = "int"
        if drawn["constraint"] is None:
            fair.pop("operating_point", None)
    if fair.get("min_group_rows", 0) >= drawn["n"] / 20:
        del fair["min_group_rows"]
    if drawn["names"] == "duplicate":
        drawn["names"] = "plain"


def _one(rng: np.random.Generator, choices: dict[Any, float] | list[Any]) -> Any:
    """One of some choices, by their weights."""
    if isinstance(choices, list):
        return choices[int(rng.integers(len(choices)))]
    weights = np.array(list(choices.values()), float)
    return list(choices)[int(rng.choice(len(weights), p=weights / weights.sum()))]


def _often(rng: np.random.Generator, usual: Any, share: float, others: Any) -> Any:
    """The usual value, but for a share of cases."""
    return usual if rng.random() >= share else _one(rng, others)


# Rows
# -----------------------------------------------------------------------


def _table(rng: np.random.Generator, engine: str) -> dict[str, Any]:
    sizes = {"small": 8, "usual": 80, "large": 1.2}
    size = _one(rng, sizes)
    n = {
        "small": int(rng.integers(30, 200)),
        "usual": int(np.exp(rng.uniform(np.log(200), np.log(2_500)))),
        "large": int(rng.integers(20_000, 23_000)),
    }[size]
    kinds = {
        "normal": 50, "few values": 10, "missing": 8, "constant": 3, "all missing": 1.5, "huge": 1,
        "beyond single": 1, "tiny": 1, "infinite": 0.5, "bool": 3, "skewed": 4, "group": 5,
        "twin": 2, "category": 8, "many categories": 1.5, "text": 0.7, "date": 0.3, "integer": 5,
    }  # fmt: skip
    features = [_one(rng, kinds) for _ in range(int(rng.integers(1, 8)))]
    containers = {
        "numpy": 20, "float32": 3, "fortran": 3, "readonly": 2, "view": 2, "list": 2, "pandas": 25,
        "pandas nullable": 3, "pandas arrow": 3, "pandas index": 4, "polars": 8, "arrow": 6,
        "csr": 4, "csc": 3, "coo": 1, "csr int": 1, "csr_array": 2, "object": 0.5, "lazy": 0.3,
    }  # fmt: skip
    return {
        "n": n,
        "features": features,
        "names": _often(
            rng, "plain", 0.12, {"special": 5, "alphabets": 5, "integers": 3, "duplicate": 1}
        ),
        "container": _one(rng, containers),
        "base_rate": float(np.round(_often(rng, 0.4, 0.4, [0.03, 0.1, 0.2, 0.7, 0.95]), 3)),
        "weights": _often(
            rng, None, 0.3, {"gamma": 6, "integers": 3, "zeros": 3, "wide": 2, "scalar": 1}
        ),
    }


LABELS = {
    "int": 50, "signs": 3, "one two": 3, "bool": 5, "float": 4, "str": 8, "approved": 3,
    "object": 3, "bytes": 0.7, "dates": 0.7, "uint8": 2, "mixed": 0.3, "decimal": 0.3, "large": 1,
    "unicode": 1,
}  # fmt: skip


def _labels_and_groups(rng: np.random.Generator) -> dict[str, Any]:
    inside = {
        "array": 60, "list": 4, "series": 15, "category": 4, "nullable": 3, "arrow series": 2,
        "polars": 5, "arrow": 3, "column": 1, "tuple": 1, "polars category": 1,
    }  # fmt: skip
    kinds = {
        "str": 50, "int": 12, "float": 5, "bool": 6, "mixed": 2, "hostile": 6, "category": 6,
        "dates": 1, "tuple": 0.5,
    }  # fmt: skip
    groups = []
    for _ in range(_one(rng, {1: 70, 2: 25, 3: 5})):
        column: dict[str, Any] = {
            "kind": _one(rng, kinds),
            "k": _one(rng, {1: 1, 2: 60, 3: 20, 5: 10, 12: 4, 40: 1}),
        }
        if rng.random() < 0.15:
            column["missing"] = _one(rng, [0.02, 0.3])
        if rng.random() < 0.12:
            column["tiny"] = _one(rng, [1, 2, 5, 20])
        if rng.random() < 0.06:
            column["name"] = _one(rng, ["sex, as given", "", " ", "a=b", "rate: fnr", "é$x$", "%"])
        groups.append(column)
    return {
        "labels": _one(rng, LABELS),
        "labels_in": _one(rng, inside),
        "pos_label": _often(rng, None, 0.2, ["smaller", "larger"]),
        "groups": groups,
        "groups_in": _one(
            rng,
            {"series": 40, "frame": 20, "dict": 8, "array": 12, "list": 6, "polars": 8, "none": 1},
        ),
    }


def _rows_besides(rng: np.random.Generator, engine: str) -> dict[str, Any]:
    held = evaluated = None
    if rng.random() < 0.4:
        held = {"share": _one(rng, [0.1, 0.4, 1.0]), "weights": bool(rng.random() < 0.5)}
        if rng.random() < 0.1:
            held["container"] = _one(rng, ["numpy", "pandas", "polars", "csr"])
    if rng.random() < 0.25:
        evaluated = {
            "sets": _one(rng, {1: 4, 2: 1}),
            "stop": _one(rng, [None, 1, 3]),
            "weights": bool(rng.random() < 0.4),
            "metric": _one(
                rng, {None: 5, "auc": 2, "logloss": 2, "error": 1, "function": 1, "several": 1}
            ),
            "bare": bool(rng.random() < 0.1),
        }
    frozen = None
    if rng.random() < 0.12:
        frozen = {
            "rounds": int(rng.integers(1, 20)),
            "stop": bool(rng.random() < 0.3),
            "max_bin": _one(rng, {None: 3, 16: 1, 7: 1}),
            "dart": bool(rng.random() < 0.15),
            "same rows": bool(rng.random() < 0.3),
        }
    return {"holdout_set": held, "eval": evaluated, "frozen": frozen}


# What is asked of training
# -----------------------------------------------------------------------


def _constraint(rng: np.random.Generator, groups: list[dict[str, Any]]) -> Any:
    def one() -> Any:
        kind = _one(rng, {"name": 50, "parity": 25, "bound": 18, "custom": 5, "older": 2})
        if kind == "name":
            return _one(rng, NAMED)
        if kind == "parity":
            by = _one(rng, {"all": 6, "one": 3, "cross": 2, "unknown": 0.1})
            columns = [int(rng.integers(len(groups)))]
            if by == "cross":
                columns = list(range(len(groups)))
            tolerance = _one(rng, [0.0, 0.01, 0.03, 0.1, 0.3, 0.99])
            return ["parity", _one(rng, RATES), tolerance, None if by == "all" else columns]
        if kind == "bound":
            at_most = _one(rng, [0.001, 0.05, 0.1, 0.3, 0.5, 0.9])
            column = int(rng.integers(len(groups)))
            code = int(rng.integers(groups[column]["k"]))
            group = _one(rng, {"everyone": 3, "group": 3, "plain": 1})
            named = {"everyone": None, "group": [column, code], "plain": [None, code]}[group]
            return ["bound", _one(rng, RATES), at_most, named]
        return [kind]

    if rng.random() < 0.1:
        return None
    return [one() for _ in range(_one(rng, {1: 75, 2: 18, 3: 7}))]


def _point(rng: np.random.Generator) -> Any:
    kind = _one(rng, {"half": 55, "probability": 12, "at_fpr": 12, "at_tpr": 8, "at_rate": 12})
    if kind == "half":
        return 0.5
    if kind == "probability":
        return _one(rng, [0.01, 0.1, 0.3, 0.7, 0.999, 1e-12, 1 - 1e-12])
    targets = [0.001, 0.02, 0.05, 0.1, 0.3, 0.5, 0.8, 0.97, 0.999]
    return [{"at_rate": "at_positive_rate"}.get(kind, kind), _one(rng, targets)]


def _method(rng: np.random.Generator, drawn: dict[str, Any]) -> dict[str, Any]:
    fair: dict[str, Any] = {}

    def maybe(name: str, share: float, choices: Any) -> None:
        if rng.random() < share:
            fair[name] = _one(rng, choices)

    constraint = _constraint(rng, drawn["groups"])
    by_name = constraint is None or all(isinstance(c, str) for c in constraint)
    maybe("tolerance", 0.4 if by_name else 0.03, [0.0, 0.02, 0.05, 0.1, 0.5])
    maybe("confidence", 0.15, [0.5, 0.9, 0.95, 0.999, 0.01])
    if (point := _point(rng)) != 0.5:
        fair["operating_point"] = point
    given = drawn["holdout_set"] is not None
    holdouts = {"cross": 1 if given else 8, "share": 8, "small": 2, "none": 8}
    if rng.random() < (0.25 if given else 0.6):
        kind = _one(rng, holdouts)
        fair["holdout"] = {"cross": "cross", "share": 0.3, "small": 0.05, "none": None}[kind]
    maybe("multipliers", 0.2, ["paper"])
    maybe("multiplier_learning_rate", 0.15, [0.01, 0.3, 3.0, 100.0, 1e6])
    maybe("proxy", 0.25, ["cross_entropy", "hinge", "squared", "sigmoid"])
    maybe("memberships", 0.2, {"observed": 3, "honest": 2})
    maybe("iterate", 0.35, ["last", "average", "randomized"])
    drawn_anew = fair.get("iterate") == "randomized"  # each time, unless there is a seed
    maybe("random_state", 1.0 if drawn_anew else 0.5, [0, 1, 12345, 2**31 - 1])
    maybe("min_group_rows", 0.15, [2, 5, 30, 100, 10_000])
    if rng.random() < 0.03:  # values that must be refused
        name, value = _one(rng, [
            ("tolerance", -0.1), ("tolerance", 1.0), ("confidence", 1.5), ("operating_point", 0.0),
            ("operating_point", 2), ("holdout", 1.0), ("holdout", "share"), ("holdout", -0.2),
            ("multipliers", "mine"), ("multiplier_learning_rate", 0.0), ("proxy", "step"),
            ("memberships", True), ("iterate", "first"), ("iterate", None), ("tolerance", None),
            ("tolerance", "0.1"), ("random_state", -1), ("random_state", "a"),
            ("operating_point", None), ("confidence", "high"), ("min_group_rows", -1),
            ("pos_label", "no such label"), ("proxy", None), ("multipliers", None),
        ])  # fmt: skip
        fair[name] = value
    if rng.random() < 0.02:
        constraint = _one(rng, [["unknown"], [["parity", "fnr", 0.01, [99]]], []])
    return {"constraint": constraint, "fair": fair, "paper": bool(rng.random() < 0.04)}


# Options of the engines
# -----------------------------------------------------------------------


def _options(rng: np.random.Generator, drawn: dict[str, Any]) -> dict[str, Any]:
    """Options of either engine; most keep their defaults."""
    d = len(drawn["features"])
    lightgbm = drawn["engine"] == "lightgbm"
    sizes = {"n_estimators": int(rng.integers(1, 25)), "n_jobs": _one(rng, {1: 6, 2: 1})}
    shared: list[tuple[str, float, Any]] = [
        ("learning_rate", 0.4, [0.02, 0.1, 0.5, 1.0, 3.0]),
        ("subsample", 0.25, [0.3, 0.7, 0.95]),
        ("colsample_bytree", 0.2, [0.3, 0.7]),
        ("reg_alpha", 0.12, [0.1, 10.0]),
        ("reg_lambda", 0.12, [0.0, 1.0, 100.0]),
        ("max_delta_step", 0.08, [0.1, 1.0]),
        ("scale_pos_weight", 0.1, [0.1, 3.0, 50.0]),
        ("random_state", 0.5, [0, 7, 2**31 - 1]),
        ("max_depth", 0.25, [1, 2, 5, 8]),
        ("max_bin", 0.15, [2, 7, 63, 255, 1000]),
        ("importance_type", 0.05, ["gain"]),
    ]
    shared += _lightgbm_options(rng, d) if lightgbm else _xgboost_options(rng, d)
    options = sizes | {name: _one(rng, c) for name, share, c in shared if rng.random() < share}
    if lightgbm and "subsample" in options and rng.random() < 0.9:
        options["subsample_freq"] = _one(rng, [1, 2])
    if "scale_pos_weight" in options and rng.random() < 0.9:
        options.pop("is_unbalance", None)
    if rng.random() < 0.04:
        bad = BAD_LIGHTGBM if lightgbm else BAD_XGBOOST
        options.update([_one(rng, bad)])
    return options


def _lightgbm_options(rng: np.random.Generator, d: int) -> list[tuple[str, float, Any]]:
    monotone = [int(v) for v in rng.integers(-1, 2, d)]
    return [
        ("num_leaves", 0.7, [2, 4, 7, 15, 63]),
        ("min_child_samples", 0.5, [1, 2, 5, 50]),
        ("min_child_weight", 0.15, [0.0, 1.0]),
        ("boosting_type", 0.1, {"dart": 8, "gbdt": 1, "goss": 2, "rf": 0.5}),
        ("data_sample_strategy", 0.06, ["goss", "bagging"]),
        ("drop_rate", 0.05, [0.5]),
        ("xgboost_dart_mode", 0.03, [True]),
        ("uniform_drop", 0.03, [True]),
        ("extra_trees", 0.06, [True]),
        ("linear_tree", 0.06, [True]),
        ("class_weight", 0.15, ["balanced", "by label"]),
        ("is_unbalance", 0.07, [True]),
        ("boost_from_average", 0.08, [False]),
        ("monotone_constraints", 0.08, [monotone]),
        ("monotone_constraints_method", 0.03, ["intermediate", "advanced"]),
        ("interaction_constraints", 0.03, [[[0], list(range(d))]]),
        ("min_split_gain", 0.08, [0.01, 1e9]),
        ("path_smooth", 0.05, [1.0]),
        ("use_quantized_grad", 0.04, [True]),
        ("feature_fraction_bynode", 0.05, [0.5]),
        ("min_data_in_bin", 0.05, [1, 30]),
        ("feature_pre_filter", 0.04, [False]),
        ("zero_as_missing", 0.04, [True]),
        ("use_missing", 0.04, [False]),
        ("max_cat_to_onehot", 0.05, [1, 100]),
        ("cat_smooth", 0.05, [0.0]),
        ("force_row_wise", 0.2, [True]),
        ("bin_construct_sample_cnt", 0.04, [10, 100]),
        ("enable_bundle", 0.04, [False]),
        ("early_stopping_round", 0.04, [2]),
        ("num_iterations", 0.03, [5]),
        ("num_trees", 0.02, [4]),
        ("metric", 0.04, ["auc", "binary_logloss", "None", "l2"]),
        ("first_metric_only", 0.03, [True]),
        ("cegb_penalty_split", 0.03, [0.01]),
        ("deterministic", 0.05, [True]),
        ("tree_learner", 0.03, ["feature", "voting", "data"]),
        ("refit_decay_rate", 0.02, [0.5]),
        ("saved_feature_importance_type", 0.02, [1]),
        ("forcedbins_filename", 0.02, ["a file"]),
        ("forcedsplits_filename", 0.02, ["a file"]),
        ("subsample_for_bin", 0.04, [50]),
        ("bagging_seed", 0.04, [3]),
        ("feature_contri", 0.02, [[0.5] * d]),
        ("verbosity", 0.03, [-1]),
        ("predict_disable_shape_check", 0.02, [True]),
        ("categorical_feature", 0.02, ["0"]),
        ("two_round", 0.01, [True]),
        ("histogram_pool_size", 0.02, [1.0]),
    ]


def _xgboost_options(rng: np.random.Generator, d: int) -> list[tuple[str, float, Any]]:
    monotone = [int(v) for v in rng.integers(-1, 2, d)]
    return [
        ("tree_method", 0.3, {"hist": 5, "approx": 3, "exact": 3, "auto": 1}),
        ("booster", 0.12, {"dart": 8, "gbtree": 1, "gblinear": 0.5}),
        ("rate_drop", 0.05, [0.5, 1.0]),
        ("skip_drop", 0.03, [0.5]),
        ("one_drop", 0.03, [True]),
        ("normalize_type", 0.03, ["forest"]),
        ("gamma", 0.12, [0.1, 1e9]),
        ("min_child_weight", 0.3, [0.0, 0.1, 10.0]),
        ("grow_policy", 0.1, ["lossguide"]),
        ("max_leaves", 0.12, [0, 2, 15]),
        ("colsample_bylevel", 0.08, [0.5]),
        ("colsample_bynode", 0.08, [0.5]),
        ("num_parallel_tree", 0.08, [2, 3]),
        ("base_score", 0.1, [0.05, 0.5, 0.9]),
        ("monotone_constraints", 0.07, [tuple(monotone), f"({','.join(map(str, monotone))})"]),
        ("interaction_constraints", 0.03, ["[[0]]"]),
        ("missing", 0.05, [-1.0, 0.0]),
        ("enable_categorical", 0.95, {True: 12, False: 1}),
        ("max_cat_to_onehot", 0.06, [1, 100]),
        ("max_cat_threshold", 0.04, [4]),
        ("sampling_method", 0.04, ["uniform", "gradient_based"]),
        ("verbosity", 0.3, [0]),
        ("validate_parameters", 0.04, [True]),
        ("eval_metric", 0.03, ["auc", "mae", "logloss"]),
        ("early_stopping_rounds", 0.02, [2]),
        ("seed_per_iteration", 0.03, [True]),
        ("eta", 0.02, [0.4]),
        ("nthread", 0.02, [1]),
        ("refresh_leaf", 0.02, [False]),
        ("multi_strategy", 0.02, ["one_output_per_tree"]),
        ("device", 0.02, ["cpu"]),
        ("feature_weights", 0.03, [[1.0] * d]),
        ("max_cached_hist_node", 0.02, [4]),
        ("extmem_single_page", 0.01, [True]),
        ("save_binary", 0.01, [False]),
    ]


BAD_LIGHTGBM: list[tuple[str, Any]] = [
    ("num_leaves", 1), ("learning_rate", -1.0), ("subsample", 2.0), ("colsample_bytree", 0.0),
    ("objective", "regression"), ("objective", "multiclass"), ("num_class", 3), ("max_bin", 1),
    ("boosting_type", "none such"), ("device_type", "cuda"), ("n_estimators", 0),
    ("n_estimators", -3), ("min_child_samples", -5), ("class_weight", "unbalanced"),
    ("sigmoid", 2.0), ("is_unbalance", "perhaps"), ("monotone_constraints", [1]),
    ("learning_rate", "fast"), ("pos_bagging_fraction", 0.5), ("scale_pos_weight", 0.0),
    ("scale_pos_weight", -1.0), ("reg_lambda", -5.0), ("num_leaves", 10**9), ("app", "binary"),
    ("learning_rate", 1e30), ("max_depth", -7), ("random_state", -1), ("random_state", 2**40),
    ("tree_learner", "none such"), ("no_such_option", 3), ("max_bin", "many"), ("num_threads", -5),
    ("learning_rate", float("nan")), ("num_machines", 2), ("reg_alpha", float("inf")),
]  # fmt: skip
BAD_XGBOOST: list[tuple[str, Any]] = [
    ("max_depth", -1), ("learning_rate", -1.0), ("subsample", 2.0), ("colsample_bytree", 0.0),
    ("objective", "reg:squarederror"), ("objective", "multi:softprob"), ("num_class", 3),
    ("max_bin", 1), ("booster", "none such"), ("device", "cuda"), ("n_estimators", 0),
    ("n_estimators", -3), ("min_child_weight", -5), ("tree_method", "none such"),
    ("base_score", 2.0), ("base_score", -0.5), ("monotone_constraints", (1,) * 40),
    ("learning_rate", "fast"), ("scale_pos_weight", 0.0), ("scale_pos_weight", -1.0),
    ("reg_lambda", -5.0), ("learning_rate", 1e30), ("random_state", -1), ("random_state", 2**40),
    ("no_such_option", 3), ("max_bin", "many"), ("n_jobs", -5), ("learning_rate", float("nan")),
    ("grow_policy", "none such"), ("multi_strategy", "multi_output_tree"), ("gamma", -1.0),
    ("process_type", "update"), ("updater", "refresh"), ("feature_types", ["q"]),
    ("num_parallel_tree", 0), ("reg_alpha", float("inf")), ("missing", "none"),
]  # fmt: skip
