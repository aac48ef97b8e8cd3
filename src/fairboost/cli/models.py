"""From options of the command line to models, trained."""

from __future__ import annotations

import argparse
import contextlib
import re
import warnings
from collections.abc import Iterator
from importlib import import_module
from traceback import walk_tb
from typing import Any, TypeAlias

import numpy as np

from fairboost._text import did_you_mean
from fairboost.cli.arguments import OBJECTIVES
from fairboost.cli.classes import class_options
from fairboost.cli.console import Console
from fairboost.cli.constraints import (
    DISTRIBUTIONS,
    asked_constraints,
    check_constraints,
    has_tolerance,
)
from fairboost.cli.rows import TableRows, TrainingRows
from fairboost.cli.task import CLASSIFICATION, decides_class, predicts_number
from fairboost.engines.registry import ENGINES as NAMES
from fairboost.engines.registry import engine_of, load_engine
from fairboost.exceptions import FairboostError, FairnessWarning, InvalidInputError
from fairboost.fairness import numbers
from fairboost.fairness.operating_points import OperatingPoint
from fairboost.model.adverse import whom_it_protects
from fairboost.model.estimator import FairGBMClassifier
from fairboost.model.regressor import FairGBMRegressor
from fairboost.selection.tradeoff import TradeoffCurve, tradeoff_curve

SMALL_SHARE = 1e-3
"""A tolerance below this share of the mean was perhaps meant as a share itself."""
FairModel: TypeAlias = FairGBMClassifier | FairGBMRegressor

ENGINES: dict[str, tuple[dict[str, Any], str]] = {
    "lightgbm": ({"verbose": -1}, "model.txt"),
    "xgboost": ({"enable_categorical": True}, "stock.json"),
}
"""Options of each engine that the commands cannot do without, and the name of the stock model
file; engines tell formats by endings."""


def build_engine(options: argparse.Namespace) -> Any:
    """The engine with its options."""
    needed, _ = ENGINES[options.engine]
    try:
        engine = load_engine(options.engine).make_estimator(regressor=predicts_number(options))
    except ImportError:
        raise InvalidInputError(
            f"--engine {options.engine} is not installed; pip install {options.engine}"
        ) from None
    known = _known_options(options.engine, engine)
    for option, _ in options.option:
        if option not in known:
            raise InvalidInputError(
                f"--option {option}: {options.engine} has no such option, see its "
                f"documentation{did_you_mean(option, sorted(known))}"
            )
    chosen = {**needed, **dict(options.option), **_objective(options)}
    if options.jobs is not None:
        chosen["n_jobs"] = options.jobs
    return engine.set_params(**chosen)


def _objective(options: argparse.Namespace) -> dict[str, str]:
    """The loss of numbers by the engine's name of it."""
    if options.objective is None:
        return {}
    if "objective" in dict(options.option):
        raise InvalidInputError(
            f"--objective {options.objective} and --option objective=... are the same; leave one "
            "of them out"
        )
    return {"objective": OBJECTIVES[options.objective][NAMES.index(options.engine)]}


def build_model(options: argparse.Namespace, console: Console) -> FairModel:
    """The model to train."""
    method = _method(options, console)
    shared = {"tolerance": options.tolerance, "confidence": options.confidence}
    check_constraints(options, method["constraint"])
    if predicts_number(options):
        return FairGBMRegressor(build_engine(options), **shared, **method)
    by_score = options.task == CLASSIFICATION and not isinstance(options.point, OperatingPoint)
    if by_score and not 0 < options.point < 1:
        raise InvalidInputError(
            f"--threshold must lie between 0 and 1, found {options.point:g}: it is a probability "
            "here"
        )
    return FairGBMClassifier(build_engine(options), **shared, **method)


def remark_on_unit(options: argparse.Namespace, rows: TrainingRows, console: Console) -> None:
    """Say so where a tolerance of means looks like a share and is none."""
    if "equal_means" not in options.constraint or options.relative:
        return
    years = 1.0 if rows.train.exposure is None else float(rows.train.exposure.mean())
    mean = float(rows.train.y.mean()) / years
    if 0 < options.tolerance < SMALL_SHARE * abs(mean):
        console.remark(
            f"Note: --tolerance {options.tolerance:g} has the unit of the label, whose mean is "
            f"{mean:.6g}; for a share of the mean add --relative."
        )


def tolerance_of(options: argparse.Namespace) -> float:
    """What groups may differ by, also where it was left to the default."""
    if options.tolerance is not None:
        return float(options.tolerance)
    asked = options.constraint[0] if options.constraint else DISTRIBUTIONS
    return numbers.DEFAULTS[asked] or 0.0


def _method(options: argparse.Namespace, console: Console) -> dict[str, Any]:
    """What the model and the models of a curve have in common."""
    return {
        "constraint": asked_constraints(options),
        **({"operating_point": options.point} if options.task == CLASSIFICATION else {}),
        "holdout": "auto" if options.holdout_share is None else options.holdout_share,
        "min_group_rows": options.min_group_rows,
        "random_state": options.seed,
        "verbose": int(console.bars),
    }


def fit(
    options: argparse.Namespace, model: FairModel, rows: TrainingRows, console: Console
) -> FairModel:
    """Train it; what the library warns of is said once."""
    for those in filter(None, (rows.train, rows.test, rows.holdout)):
        _check_labels(model, those, rows.schema.label)
    model.set_params(**class_options(options, rows.schema))
    if options.task == CLASSIFICATION and rows.schema.classes is not None:
        other, positive = rows.schema.classes
        said = whom_it_protects(model.constraint, rows.schema.label, positive, other)
        console.notes([said] if said else [])
    with console.collecting_warnings(), refusals(options):
        model.fit(rows.train.X, rows.train.y, **rows.fit_options())
    model.set_params(verbose=0)  # files are the same with a progress bar and without
    return model


def _check_labels(model: FairModel, rows: TableRows, label: str) -> None:
    """Refuse numbers that the loss is not for, by their places in the file."""
    if isinstance(model, FairGBMClassifier):
        return
    engine = engine_of(model.estimator)
    engine.check_estimator(model.estimator)
    loss = engine.make(model.estimator, None).loss_terms(np.array([1.0, 2.0]), None).loss
    assert loss is not None
    wrong = rows.y <= 0 if loss.name == "gamma" else rows.y < loss.least_target
    if wrong.any():
        row = int(wrong.argmax())
        raise InvalidInputError(
            f"the label {label!r} must be {'above 0' if loss.name == 'gamma' else '0 or more'} "
            f"under a {loss.name} loss, found {rows.y[row]:g} in row {rows.places[row]:,} of "
            f"{rows.file}; leave such rows out, or use --objective squared"
        )


def fit_plain(options: argparse.Namespace, rows: TrainingRows) -> Any:
    """The engine alone, trained: what the rates are without the constraint."""
    engine, train = build_engine(options), rows.train
    if decides_class(options):  # XGBoost takes no text, and engines know no costs
        costs = class_options(options, rows.schema)["costs"]
        engine = FairGBMClassifier(engine, constraint=None, costs=costs)
    if train.exposure is not None:  # which engines take by other names, and in logarithms
        engine = FairGBMRegressor(engine, constraint=None)
    with refusals(options):
        return engine.fit(train.X, train.y, **train.measures())


def check_has_tolerance(options: argparse.Namespace, what: str) -> None:
    """Refuse a trade-off where no constraint has a tolerance to vary."""
    if not has_tolerance(options):
        raise InvalidInputError(
            f"{what} varies a tolerance, which is a difference of rates; four_fifths and "
            "--at-least have none, and beside --minimax it cannot be varied. Use `fairboost "
            "train` without --trade-off, or compare --constraint demographic_parity"
        )


def trace_tradeoff(
    options: argparse.Namespace, rows: TrainingRows, console: Console, models: int
) -> TradeoffCurve:
    """Models from no constraint to zero tolerance; what is wrong with groups the model tells."""
    with console.collecting_warnings(), refusals(options):
        warnings.simplefilter("ignore", FairnessWarning)
        return tradeoff_curve(
            build_engine(options),
            rows.train.X,
            rows.train.y,
            tolerances=models,
            **rows.fit_options(),
            **_method(options, console),
            **class_options(options, rows.schema),
        )


@contextlib.contextmanager
def refusals(options: argparse.Namespace) -> Iterator[None]:
    """Say what an engine refuses, or fails over, as we say what we refuse."""
    try:
        yield
    except FairboostError:
        raise
    except Exception as error:
        frames = (frame.f_globals.get("__name__", "") for frame, _ in walk_tb(error.__traceback__))
        passed = {name.partition(".")[0] for name in (*frames, type(error).__module__)}
        doubtful = options.option and isinstance(error, TypeError | ValueError)
        if options.engine not in passed and not doubtful:
            raise
        said = " ".join(str(error).split()).partition(" Stack trace:")[0]
        said = re.sub(r"( at )?/\S+(, line |:)\d+( \.|:)?", "", said).rstrip(" .;")
        message = f"{options.engine} refuses: {said}; look at --option"
        raise InvalidInputError(message) from error


def _known_options(name: str, engine: Any) -> set[str]:
    """Options that the engine knows: it would pass over others in silence."""
    known = set(engine.get_params())
    if name == "lightgbm":
        aliases = import_module("lightgbm.basic")._ConfigAliases
        everything = aliases._get_all_param_aliases()
        known |= set(everything) | {alias for those in everything.values() for alias in those}
    else:
        known |= {"max_bin", "tree_method", "grow_policy", "max_leaves"}
    return known
