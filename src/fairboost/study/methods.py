"""Who is compared: plain LightGBM, the paper's algorithm, fairboost, and the peers.

A method of the user's is one function, named in a configuration as
``function = "module:function"``.
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np
import pandas as pd
from scipy.special import expit

from fairboost.fairness.constraints import Constraint, bound, parity
from fairboost.fairness.operating_points import OperatingPoint
from fairboost.model.estimator import FairGBMClassifier
from fairboost.search.spaces import Range
from fairboost.selection.tradeoff import TradeoffCurve, tradeoff_curve
from fairboost.study import group_frontier, inferred_groups, linear_post, minimax_boosting, peers
from fairboost.study.config import MethodConfig, StudyConfig
from fairboost.study.data import Rows
from fairboost.study.measures import Predictions, needs_scores
from fairboost.study.task import LABELS, Found, Method, Predictor, Task, as_predictor
from fairboost.training.iterates import randomized_scores

CURVE_MODELS = 20
FNR_TARGETS = Range(0.3, 0.6)
MULTIPLIER_RATES = Range(0.01, 0.1, log=True)


def plain(task: Task) -> Found:
    """LightGBM as it is."""
    return task.engine().fit(task.train.X, task.train.y)


def unaware(task: Task) -> Found:
    """LightGBM without the columns that give the group away."""
    inner = as_predictor(plain(replace(task, train=task.train.without(task.hidden))))
    return lambda rows: inner(rows.without(task.hidden))


def fairboost(task: Task) -> Found:
    """One fit at default settings."""
    model = FairGBMClassifier(
        task.engine(),
        constraint=task.constraint,
        operating_point=task.metrics.threshold,
        random_state=task.seed,
        **{**task.options, "tolerance": task.tolerance},
    )
    return model.fit(task.train.X, task.train.y, sensitive_features=task.train.s)


def fair_stage(task: Task) -> Found:
    """One base model and a short stage per tolerance: a whole trade-off in one trial."""
    curve = tradeoff_curve(
        task.engine(),
        task.train.X,
        task.train.y,
        sensitive_features=task.train.s,
        constraint=task.constraint,
        tolerances=int(task.options.get("models", CURVE_MODELS)),
        operating_point=task.metrics.threshold,
        random_state=task.seed,
    )
    return curve_predictors(curve)


def curve_predictors(curve: TradeoffCurve) -> dict[str, Predictor]:
    """The models of a curve; the trees that all of them share are walked once."""
    base = curve.models[0].booster_
    shared = base.num_trees()
    # Frames are kept along with their scores, so that an id is not that of another frame later.
    known: dict[int, tuple[pd.DataFrame, np.ndarray]] = {}

    def predict(model: FairGBMClassifier, rows: Rows) -> Predictions:
        if id(rows.X) not in known:
            known[id(rows.X)] = rows.X, np.asarray(base.predict(rows.X, raw_score=True))
        scores = known[id(rows.X)][1]
        if model.booster_.num_trees() > shared:
            scores = scores + np.asarray(
                model.booster_.predict(rows.X, raw_score=True, start_iteration=shared)
            )
        return Predictions(expit(scores))

    tolerances = curve.table["tolerance"]
    names = ["no constraint" if np.isnan(t) else f"tolerance {t:.4g}" for t in tolerances]
    return {
        f"{k}: {name}": partial(predict, model)
        for k, (name, model) in enumerate(zip(names, curve.models, strict=True))
    }


def paper(task: Task) -> Found:
    """Algorithm 1 of the paper, its last iterate and the randomized one of the same training."""
    model = FairGBMClassifier.paper(
        task.engine(),
        constraint=paper_constraints(task),
        multiplier_learning_rate=task.options.get("multiplier_learning_rate", 0.1),
        random_state=task.seed,
    )
    model.fit(task.train.X, task.train.y, sensitive_features=task.train.s)

    def randomized(rows: Rows) -> Predictions:
        return Predictions(expit(randomized_scores(model._model, rows.X, task.seed)))

    return {"": model, "randomized": randomized}


def paper_constraints(task: Task) -> str | list[Constraint]:
    """The paper's constraints: at an operating point, with bounds that shift the scores there."""
    point = task.metrics.threshold
    if not isinstance(point, OperatingPoint):
        return task.constraint
    parities: list[Constraint] = [parity(rate, 0.0) for rate in task.metrics.rates]
    if point.rate_name == "fpr":
        target = task.options.get("fnr_target", 0.45)
        return [*parities, bound("fpr", point.target), bound("fnr", target)]
    if point.rate_name == "tpr":
        return [*parities, bound("fnr", 1 - point.target)]
    return [*parities, bound("ppr", point.target)]


_PAPER_SPACE = {"multiplier_learning_rate": MULTIPLIER_RATES}

METHODS: dict[str, Method] = {
    method.name: method
    for method in (
        Method("fairboost", "fairboost", fairboost),
        Method("fair_stage", "fairboost, fair stage", fair_stage, curve=True),
        Method("paper", "the paper's algorithm", paper, _PAPER_SPACE, separate=True),
        Method("plain", "LightGBM", plain),
        Method("unaware", "LightGBM without the group", unaware, aware_only=True),
        Method("EG", "fairlearn EG", peers.exponentiated_gradient, models=peers.REDUCTION_MODELS,
               only_decides=True),
        Method("GS", "fairlearn GS", peers.grid_search, models=peers.REDUCTION_MODELS),
        Method("RS", "RS reweighing", peers.reweighing),
        Method("thresholds", "ThresholdOptimizer, sees the group", peers.thresholds,
               sees_group=True, only_decides=True),
        Method("linear", "linear post-processing", linear_post.linear, only_decides=True),
        Method("linear_aware", "linear post-processing, sees the group", linear_post.linear_aware,
               sees_group=True, only_decides=True),
        Method("OxonFair", "thresholds by inferred group (OxonFair)",
               inferred_groups.inferred_groups, only_decides=True),
        Method("M2FGB", "min-max boosting (M2FGB)", minimax_boosting.minimax_boosting,
               minimax_boosting.SPACE),
        Method("group_frontier", "best group thresholds, sees the group",
               group_frontier.group_frontier, sees_group=True, only_decides=True),
        Method("reference", "fairgbm (reference)", peers.reference, _PAPER_SPACE),
    )
}  # fmt: skip
"""The methods there are, by name."""


def find(config: StudyConfig, named: MethodConfig) -> Method:
    """The method of a configuration, with its own options filled in."""
    if named.function is None:
        method = METHODS[named.name]
        space = {**method.space, **named.space}
        point = config.metrics.threshold
        at_fpr = isinstance(point, OperatingPoint) and point.rate_name == "fpr"
        if at_fpr and named.name in ("paper", "reference"):
            space.setdefault("fnr_target", FNR_TARGETS)
        return replace(method, space=space)
    return Method(named.name, named.name, _import_function(config, named), named.space)


def _import_function(config: StudyConfig, named: MethodConfig) -> Callable[[Task], Found]:
    key, text = f"methods.{named.name}.function", str(named.function)
    module, _, name = text.partition(":")
    if not name:
        raise config.error(key, f'function must be "module:function", found {text!r}')
    here = str(Path(config.source.file).parent.resolve()) if config.source else ""
    sys.path.insert(0, here)  # a method lies beside its configuration
    try:
        found = getattr(importlib.import_module(module), name)
    except (ImportError, AttributeError) as error:
        raise config.error(
            key, f"cannot import {name!r} from {module!r} ({error}); correct the name, or put "
            "the module beside the configuration",
        ) from error  # fmt: skip
    finally:
        sys.path.remove(here)
    if not callable(found):
        raise config.error(key, f"{text!r} is not a function; it is {type(found).__name__}")
    return found  # type: ignore[no-any-return]


def why_not(config: StudyConfig, method: Method) -> str | None:
    """Why a method cannot take part; None if it can."""
    if method.only_decides and needs_scores(config.metrics):
        return "it decides by itself and has no score, which this study's metrics need"
    if method.name == "M2FGB" and len(LABELS[config.metrics.constraint]) > 1:
        return f"the worst group of {config.metrics.constraint} is not defined"
    if method.name != "reference":
        return None
    named = method.space.get("python")
    if peers.reference_python(named) is None:
        return (
            f"no interpreter that has fairgbm: set {peers.PYTHON_VARIABLE}, or python under "
            "[methods.reference]; fairboost.study.reference_fairgbm says how to make one"
        )
    if peers.PEER_NAMES[config.metrics.constraint][2] is None:
        return f"the package does not know {config.metrics.constraint}"
    point = config.metrics.threshold
    if isinstance(point, OperatingPoint) and point.rate_name != "fpr":
        return f"the package cannot be bound to {point}"
    return None
