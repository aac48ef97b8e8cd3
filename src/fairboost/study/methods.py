"""Who is compared: every method is a function from a :class:`Task` to what it trained.

It returns a fitted classifier, or several by name. A classifier has ``predict_proba``, or
``predict`` alone; what needs more to predict (the group, a seed) is wrapped as a function from
:class:`~fairboost.study.data.Rows` to :class:`~fairboost.study.measures.Predictions`. A method of
the user's is one such function, named in the configuration as ``function = "module:function"``.

The peers get what the paper gives them, or more: of the ten models of a grid search all are
candidates on the validation rows, not only the one that it would keep by its training rows.
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import pandas as pd
from lightgbm import LGBMClassifier
from scipy.special import expit

from fairboost.constraints import Constraint, bound, parity
from fairboost.estimator import FairGBMClassifier
from fairboost.iterates import randomized_scores
from fairboost.operating_points import OperatingPoint
from fairboost.study.config import MethodConfig, MetricsConfig, StudyConfig
from fairboost.study.data import Rows
from fairboost.study.measures import Predictions, needs_scores
from fairboost.study.reference import PYTHON_VARIABLE, reference_python, run_reference
from fairboost.study.spaces import Range, Space
from fairboost.tradeoff import TradeoffCurve, tradeoff_curve

__all__ = ["METHODS", "Found", "Method", "Predictor", "Task", "as_predictors", "find", "why_not"]

REDUCTION_MODELS = 10
"""Models that EG and GS train in a trial: the paper's ten trials of ten."""

CURVE_MODELS = 20
THRESHOLD_SHARE = 0.2
CELL_WEIGHTS = (0.1, 10.0)
FNR_TARGETS = Range(0.3, 0.6)
MULTIPLIER_RATES = Range(0.01, 0.1, log=True)

MOMENTS = {
    "equal_opportunity": "TruePositiveRateParity",
    "predictive_equality": "FalsePositiveRateParity",
    "equalized_odds": "EqualizedOdds",
    "demographic_parity": "DemographicParity",
}
THRESHOLD_CONSTRAINTS = {
    "equal_opportunity": "false_negative_rate_parity",
    "predictive_equality": "false_positive_rate_parity",
    "equalized_odds": "equalized_odds",
    "demographic_parity": "demographic_parity",
}
REFERENCE_TYPES = {
    "equal_opportunity": "FNR",
    "predictive_equality": "FPR",
    "equalized_odds": "FPR,FNR",
}

Predictor: TypeAlias = Callable[[Rows], Predictions]
Found: TypeAlias = Any
"""A fitted classifier or a predictor; or several of them by name."""


@dataclass(frozen=True)
class Task:
    """What a method is asked for in one trial.

    Parameters
    ----------
    train : Rows
        To train on; what a method holds out, it holds out of these.
    metrics : MetricsConfig
        What it will be judged by.
    engine_options : mapping
        Options of LightGBM in this trial, the same for every method.
    options : mapping
        The method's own.
    seed : int
        For all that it draws.
    n_jobs : int
        Threads.
    hidden : tuple of str
        Features that give the group away.
    judged : tuple of Rows
        The validation and test rows without their labels' use, for a method that has to score
        rows while it is at it.
    """

    train: Rows
    metrics: MetricsConfig
    engine_options: Mapping[str, Any] = field(default_factory=dict)
    options: Mapping[str, Any] = field(default_factory=dict)
    seed: int = 0
    n_jobs: int = 1
    hidden: tuple[str, ...] = ()
    judged: tuple[Rows, ...] = ()

    @property
    def constraint(self) -> str:
        """The constraint by its name in fairboost."""
        return self.metrics.constraint

    @property
    def tolerance(self) -> float:
        """The gap to reach: the method's own option, or the study's."""
        return float(self.options.get("tolerance", self.metrics.tolerance))

    def engine(self) -> LGBMClassifier:
        """A fresh engine with this trial's options."""
        return LGBMClassifier(
            verbose=-1, n_jobs=self.n_jobs, random_state=self.seed, **self.engine_options
        )


@dataclass(frozen=True)
class Method:
    """A method and what the study has to know of it.

    Parameters
    ----------
    name, title : str
        In configurations, and in words.
    run : callable
        A :class:`Task` to what was trained.
    space : mapping
        Its own options, unless the configuration has others.
    models : int
        Models trained in one trial; it gets as many fewer trials.
    sees_group : bool
        Whether it needs the group of the rows that it decides on.
    only_decides : bool
        Whether it has no score.
    aware_only : bool
        Whether it is the same as another method where the features are blind.
    separate : bool
        Whether several models of one trial are algorithms of their own, and not candidates.
    """

    name: str
    title: str
    run: Callable[[Task], Found]
    space: Space = field(default_factory=dict)
    models: int = 1
    sees_group: bool = False
    only_decides: bool = False
    aware_only: bool = False
    separate: bool = False


def as_predictors(found: Found) -> dict[str, Predictor]:
    """What a method returned, as functions by name."""
    if isinstance(found, Mapping):
        return {str(name): _as_predictor(one) for name, one in found.items()}
    return {"": _as_predictor(found)}


def _as_predictor(found: Found) -> Predictor:
    if hasattr(found, "predict_proba"):
        return lambda rows: Predictions(np.asarray(found.predict_proba(rows.X))[:, -1])
    if hasattr(found, "predict"):
        return lambda rows: Predictions(decision=np.asarray(found.predict(rows.X)) == 1)
    if callable(found):
        return found  # type: ignore[no-any-return]
    raise TypeError(
        "a method returns a fitted classifier, a function from rows to predictions, or a dict of "
        f"these; found {type(found).__name__}"
    )


# fairboost and the paper


def plain(task: Task) -> Found:
    """LightGBM as it is."""
    return task.engine().fit(task.train.X, task.train.y)


def unaware(task: Task) -> Found:
    """LightGBM without the columns that give the group away."""
    rows = task.train.without(task.hidden)
    model = task.engine().fit(rows.X, rows.y)
    inner = _as_predictor(model)
    return lambda rows: inner(rows.without(task.hidden))


def fairboost(task: Task) -> Found:
    """One fit at default settings."""
    options = {k: v for k, v in task.options.items() if k != "tolerance"}
    model = FairGBMClassifier(
        task.engine(),
        constraint=task.constraint,  # type: ignore[arg-type]
        tolerance=task.tolerance,
        operating_point=task.metrics.threshold,
        random_state=task.seed,
        **options,
    )
    return model.fit(task.train.X, task.train.y, sensitive_features=task.train.s)


def fair_stage(task: Task) -> Found:
    """One base model and a short stage per tolerance: a whole trade-off in one trial."""
    curve = tradeoff_curve(
        task.engine(),
        task.train.X,
        task.train.y,
        sensitive_features=task.train.s,
        constraint=task.constraint,  # type: ignore[arg-type]
        tolerances=int(task.options.get("models", CURVE_MODELS)),
        operating_point=task.metrics.threshold,
        random_state=task.seed,
    )
    return curve_predictors(curve)


def curve_predictors(curve: TradeoffCurve) -> dict[str, Predictor]:
    """The models of a curve; the trees that all of them share are walked once for given rows."""
    base = curve.models[0].booster_
    shared, last = base.num_trees(), {}

    def base_scores(rows: Rows) -> np.ndarray:
        if id(rows.X) not in last:
            last.clear()
            # The frame is kept along, so that its id is not another's before this is cleared.
            last[id(rows.X)] = rows.X, np.asarray(base.predict(rows.X, raw_score=True))
        scores: np.ndarray = last[id(rows.X)][1]
        return scores

    def predict(model: FairGBMClassifier, rows: Rows) -> Predictions:
        scores = base_scores(rows)
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


def reference(task: Task) -> Found:
    """The authors' own package."""
    point = task.metrics.threshold
    bounds = {}
    if isinstance(point, OperatingPoint):
        bounds = {
            "global_constraint_type": "FPR,FNR",
            "global_target_fpr": point.target,
            "global_target_fnr": task.options.get("fnr_target", 0.45),
        }
    options = {
        "constraint_type": REFERENCE_TYPES[task.constraint],
        "multiplier_learning_rate": task.options.get("multiplier_learning_rate", 0.1),
        "n_jobs": task.n_jobs,
        "random_state": task.seed,
        "verbose": -1,
        **bounds,
        **task.engine_options,
    }
    parts = [rows.X for rows in task.judged]
    python = reference_python(task.options.get("python"))
    found = run_reference(python, task.train, parts, options)
    cuts = np.cumsum([len(part) for part in parts])[:-1]
    scores = dict(zip(map(id, parts), np.split(found["proba"], cuts), strict=True))
    return Timed(lambda rows: Predictions(scores[id(rows.X)]), found["seconds"],
                 found["cpu_seconds"], found["version"])  # fmt: skip


@dataclass(frozen=True)
class Timed:
    """A predictor that was trained elsewhere, and brings its own times along."""

    predict_rows: Predictor
    seconds: float
    cpu_seconds: float
    version: str

    def __call__(self, rows: Rows) -> Predictions:
        return self.predict_rows(rows)


# Peers


def _fairlearn(module: str) -> Any:
    try:
        return importlib.import_module(f"fairlearn.{module}")
    except ImportError as error:
        raise ImportError(
            'the methods EG, GS and thresholds need fairlearn: pip install "fairboost[study]"'
        ) from error


def exponentiated_gradient(task: Task) -> Found:
    """fairlearn's EG, which draws one of its models for each row."""
    reductions = _fairlearn("reductions")
    moment = getattr(reductions, MOMENTS[task.constraint])(difference_bound=task.tolerance)
    model = reductions.ExponentiatedGradient(task.engine(), moment, max_iter=REDUCTION_MODELS)
    model.fit(task.train.X, task.train.y, sensitive_features=task.train.s)
    return lambda rows: Predictions(
        decision=np.asarray(model.predict(rows.X, random_state=task.seed)) == 1
    )


def grid_search(task: Task) -> Found:
    """fairlearn's GS; all models of the grid are candidates."""
    reductions = _fairlearn("reductions")
    moment = getattr(reductions, MOMENTS[task.constraint])()
    model = reductions.GridSearch(task.engine(), moment, grid_size=REDUCTION_MODELS)
    model.fit(task.train.X, task.train.y, sensitive_features=task.train.s.astype(str))
    # A grid point may weigh one label only; fairlearn then puts a constant in place of a model.
    return {str(k): _as_predictor(each) for k, each in enumerate(model.predictors_)}


def reweighing(task: Task) -> Found:
    """Random weights of group and label, log-uniform: a search over multipliers."""
    rng = np.random.default_rng([task.seed, 3])
    codes = pd.factorize(task.train.s, sort=True)[0]
    weight = np.exp(rng.uniform(*np.log(CELL_WEIGHTS), (codes.max() + 2, 2)))
    weight[-1] = 1.0  # of rows whose group is missing, which have the code -1
    return task.engine().fit(
        task.train.X, task.train.y, sample_weight=weight[codes, task.train.y]
    )


def thresholds(task: Task) -> Found:
    """fairlearn's thresholds per group, chosen on rows that the trees have not seen."""
    postprocessing = _fairlearn("postprocessing")
    order = np.random.default_rng([task.seed, 4]).permutation(len(task.train))
    cut = round(THRESHOLD_SHARE * len(order))
    held, rows = task.train.take(order[:cut]), task.train.take(order[cut:])
    model = postprocessing.ThresholdOptimizer(
        estimator=task.engine().fit(rows.X, rows.y),
        constraints=THRESHOLD_CONSTRAINTS[task.constraint],
        objective="accuracy_score",
        prefit=True,
        predict_method="predict_proba",
    )
    model.fit(held.X, held.y, sensitive_features=held.s)

    def predict(rows: Rows) -> Predictions:
        found = model.predict(rows.X, sensitive_features=rows.s, random_state=task.seed)
        return Predictions(decision=np.asarray(found) == 1)

    return predict


_PAPER_SPACE = {"multiplier_learning_rate": MULTIPLIER_RATES}

METHODS: dict[str, Method] = {
    method.name: method
    for method in (
        Method("fairboost", "fairboost", fairboost),
        Method("fair_stage", "fairboost, fair stage", fair_stage),
        Method("paper", "the paper's algorithm", paper, _PAPER_SPACE, separate=True),
        Method("plain", "LightGBM", plain),
        Method("unaware", "LightGBM without the group", unaware, aware_only=True),
        Method("EG", "fairlearn EG", exponentiated_gradient, models=REDUCTION_MODELS,
               only_decides=True),
        Method("GS", "fairlearn GS", grid_search, models=REDUCTION_MODELS),
        Method("RS", "RS reweighing", reweighing),
        Method("thresholds", "ThresholdOptimizer, sees the group", thresholds, sees_group=True,
               only_decides=True),
        Method("reference", "fairgbm (reference)", reference, _PAPER_SPACE),
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
        return Method(**{**vars(method), "space": space})
    return Method(named.name, named.name, _import_function(config, named), named.space)


def _import_function(config: StudyConfig, named: MethodConfig) -> Callable[[Task], Found]:
    key, text = f"methods.{named.name}.function", str(named.function)
    module, _, name = text.partition(":")
    if not name:
        raise config.error(key, f'function must be "module:function", found {text!r}')
    here = str(Path(config.source.file).parent.resolve()) if config.source else ""
    if here and here not in sys.path:
        sys.path.insert(0, here)  # a method lies beside its configuration
    try:
        found = getattr(importlib.import_module(module), name)
    except (ImportError, AttributeError) as error:
        raise config.error(
            key, f"cannot import {name!r} from {module!r} ({error}); correct the name, or put "
            "the module beside the configuration",
        ) from error  # fmt: skip
    if not callable(found):
        raise config.error(key, f"{text!r} is not a function; it is {type(found).__name__}")
    return found  # type: ignore[no-any-return]


def why_not(config: StudyConfig, method: Method) -> str | None:
    """Why a method cannot take part; None if it can."""
    if method.only_decides and needs_scores(config.metrics):
        return "it decides by itself and has no score, which this study's metrics need"
    if method.name != "reference":
        return None
    named = method.space.get("python")
    if reference_python(named) is None:
        return (
            f"no interpreter that has fairgbm: set {PYTHON_VARIABLE}, or python under "
            "[methods.reference]; fairboost.study.reference_fairgbm says how to make one"
        )
    if config.metrics.constraint not in REFERENCE_TYPES:
        return f"the package does not know {config.metrics.constraint}"
    point = config.metrics.threshold
    if isinstance(point, OperatingPoint) and point.rate_name != "fpr":
        return f"the package cannot be bound to {point}"
    return None
