"""The trade-off between accuracy and fairness: one base model, one short stage per tolerance.

A model is trained once without constraints. Each tolerance then starts from its scores and adds a
few small trees under the constraint: the multipliers of the last tolerance are where the next one
starts from, so that a whole curve costs little more than a model or two. All models share the same
binned data and the same rows held out, on which the figures of the table are measured.
"""

from __future__ import annotations

from collections.abc import Sequence
from copy import copy
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import pandas as pd
from sklearn.base import RegressorMixin, clone
from tqdm.auto import tqdm

from fairboost._typing import ArrayLike, Classifier, Matrix
from fairboost.algorithm.game import Session
from fairboost.algorithm.multipliers import Rest
from fairboost.cluster.collections import is_dask
from fairboost.cluster.training import is_dask_estimator
from fairboost.data.holdout import SHARE
from fairboost.data.validation import as_column, read_weights
from fairboost.engines.signals import heeding_signals
from fairboost.exceptions import ConstraintError, EngineOptionError, InvalidInputError
from fairboost.fairness.constraints import (
    Constraint,
    ConstraintLike,
    ConstraintName,
    Parity,
    check_tolerance,
    resolve,
)
from fairboost.fairness.operating_points import OperatingPoint
from fairboost.fairness.two_sided import TwoSided, two_sided
from fairboost.metrics.intervals import wilson
from fairboost.model.estimator import FairGBMClassifier
from fairboost.plots import TradeoffDisplay
from fairboost.search.protocol import chosen_within
from fairboost.training.outcome import Training
from fairboost.training.request import FitRequest
from fairboost.training.rows import lay_out_rows
from fairboost.training.run import problem_of
from fairboost.verdicts import diagnostics
from fairboost.verdicts.verdict import Verdict

if TYPE_CHECKING:
    from matplotlib.axes import Axes

ROUNDS, LEAVES, LEARNING_RATE = 12, 8, 0.3
"""A stage of the curve. It starts where its neighbour ended, so that few rounds will do."""
GO_BY = "test rows, model.report_on(...), are the ones to go by."


@dataclass(frozen=True)
class TradeoffCurve:
    """Models from no constraint to zero tolerance.

    Made by :func:`tradeoff_curve`.

    Parameters
    ----------
    models : tuple of FairGBMClassifier
        Fitted, in the order of the table; the first is the one without constraints.
    table : pandas.DataFrame
        One row per model: ``tolerance`` (missing for the first), ``accuracy``, ``accuracy low``,
        ``accuracy high``, ``loss``, ``gap``, ``gap low``, ``gap high`` on the rows held out, and
        ``trees``. The gap is the largest among the parities asked for.
    """

    models: tuple[FairGBMClassifier, ...]
    table: pd.DataFrame

    def best(self, alpha: float = 0.5) -> FairGBMClassifier:
        """The model of largest ``alpha * accuracy + (1 - alpha) * (1 - gap)``.

        Parameters
        ----------
        alpha : float in [0, 1], default=0.5
            What accuracy weighs against fairness.
        """
        merit = weigh(alpha, self.table["accuracy"], self.table["gap"], "accuracy")
        return self.models[fairest_of_best(merit, self.table["gap"])]

    def within(self, tolerance: float) -> FairGBMClassifier:
        """The most accurate model whose gap on the rows held out is within a tolerance.

        Parameters
        ----------
        tolerance : float
            The largest gap to accept; the model's report is about this tolerance.
        """
        if not (self.table["gap"] <= tolerance).any():
            raise InvalidInputError(
                f"no model of the curve has a gap within {tolerance:g} on the rows held out; the "
                f"least is {self.table['gap'].min():.4f}. Accept that, or train a model of its "
                f"own: FairGBMClassifier(tolerance={tolerance:g})"
            )
        chosen = best_within(self.table["accuracy"], self.table["gap"], tolerance)
        how = (
            f"Chosen among {len(self.models)} models by their figures on the rows held out, which "
            f"look a little better for it; {GO_BY}"
        )
        return held_to(self.models[chosen], tolerance, how)

    def on(
        self,
        X: Matrix,
        y: ArrayLike,
        *,
        sensitive_features: ArrayLike,
        sample_weight: ArrayLike | None = None,
    ) -> pd.DataFrame:
        """The table on other rows, such as a test set.

        Parameters
        ----------
        X, y, sensitive_features, sample_weight
            The rows, as in ``fit``.
        """
        truth = as_column(y)
        weight = read_weights(sample_weight, len(truth))
        rows = len(truth) if weight is None else weight.sum() ** 2 / (weight**2).sum()
        lines = []
        for model in self.models:
            report = model.report_on(
                X, y, sensitive_features=sensitive_features, sample_weight=sample_weight
            )
            right = float(np.average(model.predict(X) == truth, weights=weight))
            lines.append(_line(model, right, float(rows), report.test_verdicts))
        return pd.DataFrame(lines)

    def plot(
        self, ax: Axes | None = None, chosen: FairGBMClassifier | None = None
    ) -> TradeoffDisplay:
        """Accuracy against gap, with intervals.

        Parameters
        ----------
        ax : matplotlib.axes.Axes, optional
            Where to draw; a new figure if left out.
        chosen : FairGBMClassifier, optional
            One of the models, to be marked.

        Returns
        -------
        display : fairboost.plots.TradeoffDisplay
        """
        trees = None if chosen is None else getattr(chosen, "_model", None)
        own = next((k for k, model in enumerate(self.models) if model._model is trees), None)
        if chosen is not None and own is None:
            raise InvalidInputError(
                "the chosen model is not one of the curve's; pass one that best, within or "
                "models gave"
            )
        return TradeoffDisplay(self.table, own).plot(ax)


def fairest_of_best(merit: pd.Series, gap: pd.Series) -> int:
    """Position of the largest merit; of equals that of the least gap."""
    return int(np.lexsort((gap, -merit))[0])


def best_within(score: pd.Series, gap: pd.Series, tolerance: float) -> int:
    """Position of the best score within a tolerance, or of the least gap; no other beats it."""
    all_as_one = np.zeros(len(gap), np.intp)
    return int(chosen_within(all_as_one, score.to_numpy(), gap.to_numpy(), tolerance)[0])


def held_to(
    model: FairGBMClassifier, tolerance: float, chosen: str, *, searched: bool = False
) -> FairGBMClassifier:
    """The same model, judged by the tolerance that the user asked for.

    That of its own stage is one of a row of them, and the first model has none.

    Parameters
    ----------
    model : FairGBMClassifier
        One of a curve.
    tolerance : float
        What was asked for.
    chosen : str
        Among which models it was chosen, and by which rows; its report says so.
    searched : bool, default=False
        Whether a search chose the rows to hold out, so that no advice on it is of use.
    """
    if tolerance >= 1:  # any gap is within it: nothing was asked
        return model
    asked = copy(model)
    asked.set_params(tolerance=tolerance, constraint=_with_tolerance(model.constraint, tolerance))
    measured = model._measured
    assert measured is not None
    terms = (
        replace(t, constraint=_with_tolerance(t.constraint, tolerance)) for t in measured.terms
    )
    measured = replace(measured, terms=tuple(terms), chosen=chosen)
    if searched and measured.kind == "share":
        measured = replace(measured, kind="search")
    asked._set_measured(measured, model._score_threshold)
    assert asked.fairness_report_ is not None
    diagnostics.warn_if_not_met(asked.fairness_report_)
    diagnostics.warn_if_deciding_little(measured)
    return asked


def weigh(alpha: float, score: pd.Series, gap: pd.Series, words: str) -> pd.Series:
    """``alpha * score + (1 - alpha) * (1 - gap)``; the score is in words for the error."""
    if not 0 <= alpha <= 1:
        raise InvalidInputError(
            f"alpha must lie in [0, 1], found {alpha!r}; 1 asks for {words} alone, 0 for fairness "
            "alone"
        )
    return alpha * score + (1 - alpha) * (1 - gap)


def tradeoff_curve(
    estimator: Classifier | None,
    X: Matrix,
    y: ArrayLike,
    *,
    sensitive_features: ArrayLike,
    constraint: ConstraintName | ConstraintLike = "equalized_odds",
    tolerances: Sequence[float] | int = 20,
    sample_weight: ArrayLike | None = None,
    holdout: float | Literal["auto", "cross"] | None = "auto",
    holdout_set: tuple[Any, ...] | None = None,
    operating_point: float | OperatingPoint = 0.5,
    min_group_rows: int = 0,
    random_state: int | None = None,
    verbose: int = 0,
    pos_label: object = None,
) -> TradeoffCurve:
    """Train models from no constraint to zero tolerance, for little more than the price of one.

    Parameters
    ----------
    estimator : LGBMClassifier, XGBClassifier or None
        The engine with its options, for the base model; ``LGBMClassifier()`` if None.
    X, y, sensitive_features, sample_weight, holdout_set
        As in :meth:`FairGBMClassifier.fit`.
    constraint : str, constraint or sequence of them
        As in :class:`FairGBMClassifier`; the tolerance of every parity in it is varied, bounds
        stay as they are.
    tolerances : sequence of float, or int, default=20
        The tolerances; or how many models to train, the one without constraints included, with
        tolerances evenly spaced from that model's gap to zero.
    holdout : float, "auto", "cross" or None, default="auto"
        As in :class:`FairGBMClassifier`, but that ``"auto"`` never cross-fits, which multiplies
        the cost by six: it is a share of 20%, or the ``holdout_set`` alone. None measures on the
        training rows, which trees fit.
    operating_point, min_group_rows, random_state, pos_label
        As in :class:`FairGBMClassifier`.
    verbose : int, default=0
        1 shows a progress bar.

    Returns
    -------
    curve : TradeoffCurve

    Examples
    --------
    >>> from fairboost import tradeoff_curve
    >>> from fairboost.datasets import make_loans
    >>> loans = make_loans(2_000, seed=0)
    >>> from lightgbm import LGBMClassifier
    >>> engine = LGBMClassifier(n_estimators=20, verbose=-1)
    >>> sex = loans.sensitive["sex"]
    >>> curve = tradeoff_curve(
    ...     engine, loans.X, loans.y, sensitive_features=sex, constraint="equal_opportunity",
    ...     tolerances=5,
    ... )
    >>> len(curve.models), float(curve.table["tolerance"].iloc[-1])
    (5, 0.0)
    """
    if not isinstance(tolerances, int | np.integer):
        for tolerance in tolerances:
            check_tolerance(tolerance)
    elif tolerances < 2:
        raise InvalidInputError(
            f"tolerances must be at least 2 models or a list of tolerances, found {tolerances}"
        )
    check_classifies(estimator, "tradeoff_curve")
    if is_dask_estimator(estimator) or is_dask(X):
        raise InvalidInputError(
            "tradeoff_curve trains on one machine, found a Dask collection or estimator; fit "
            "FairGBMClassifier(DaskXGBClassifier(...), tolerance=...) once for each tolerance"
        )
    prototype = FairGBMClassifier(
        estimator,
        constraint=constraint,
        holdout=SHARE if holdout == "auto" and holdout_set is None else holdout,
        operating_point=operating_point,
        min_group_rows=min_group_rows,
        random_state=random_state,
        pos_label=pos_label,
    )
    request = prototype._request(X, y, sensitive_features, sample_weight, holdout_set, {})
    curve = _Curve(prototype, request)
    found = [curve.model(curve.base_training, None)]
    for tolerance in tqdm(curve.spaced(tolerances), disable=not verbose, unit="model"):
        found.append(curve.model(curve.stage(tolerance), tolerance))
    models, lines = zip(*found, strict=True)
    return TradeoffCurve(models, pd.DataFrame(list(lines)))


def check_classifies(estimator: Any, what: str) -> None:
    """Refuse an estimator of numbers: models are compared by the decisions they make."""
    if isinstance(estimator, RegressorMixin):
        raise EngineOptionError(
            f"{what} compares models by their decisions, and {type(estimator).__name__} predicts "
            "a number; pass an LGBMClassifier or XGBClassifier, or fit FairGBMRegressor once for "
            "each tolerance"
        )


class _Curve:
    """The base training, and stages on top of it."""

    def __init__(self, prototype: FairGBMClassifier, request: FitRequest) -> None:
        self.prototype, self.request = prototype, request
        engine, options = request.engine, request.options
        if engine.base is not None:
            raise InvalidInputError(
                "tradeoff_curve trains its own base model; pass an unfitted estimator"
            )
        self.wanted = resolve(options.constraint, None, request.columns)
        if not any(isinstance(c, Parity) for c in self.wanted):
            raise ConstraintError(
                "a trade-off curve varies the tolerance of parities, but the constraint has none; "
                "use a named constraint or parity(...)"
            )
        with heeding_signals():
            self.rows = lay_out_rows(request, self.constraints(0.0), spare=False)
        session = Session(options.game(self.rows, request.loss_terms, Rest()))
        diagnostics.warn_of_small_cells(self.rows.terms, self.rows.cells)
        trees: list[int] = []
        with heeding_signals():
            self.base, self.lockstep = engine.train(
                request.engine_data(self.rows.holdout),
                problem_of(session, trees.append),
                request.loss_terms.intercept,
            )
        session.close()
        self.base_training = Training(self.base, session.record(), trees)
        self.multipliers = session.state.dual.multipliers

    def constraints(self, tolerance: float) -> tuple[Constraint, ...]:
        """The constraints at a tolerance."""
        return tuple(two_sided(c) for c in _with_tolerance(self.wanted, tolerance))

    def spaced(self, tolerances: Sequence[float] | int) -> list[float]:
        """The tolerances to train for, from loose to tight."""
        if not isinstance(tolerances, int | np.integer):
            return sorted((float(t) for t in tolerances), reverse=True)
        rates = self.base_training.record.moments_of(-1)
        widest = max(
            t.read(found).gap()
            for found, t, c in zip(rates, self.rows.measured_terms, self.wanted, strict=True)
            if isinstance(c, Parity)
        )
        return [float(t) for t in np.linspace(widest, 0.0, tolerances)[1:]]

    @heeding_signals()
    def stage(self, tolerance: float) -> Training:
        """Go on from the base model under the constraints at a tolerance."""
        rows = self.rows.with_constraints(self.constraints(tolerance))
        game = self.request.options.game(rows, self.request.loss_terms)
        cut = self.base_training.record.iterates[-1].cut
        session = Session(game, game.start(self.multipliers, cut))
        trees: list[int] = []
        booster = self.lockstep.stage(
            problem_of(session, trees.append), ROUNDS, LEAVES, LEARNING_RATE
        )
        session.close()
        self.multipliers = session.state.dual.multipliers
        return Training(self.base.with_stage(booster), session.record(), trees)

    def model(
        self, training: Training, tolerance: float | None
    ) -> tuple[FairGBMClassifier, dict[str, float]]:
        """A fitted estimator, as if it had been trained by itself, and its line of the table."""
        model = clone(self.prototype)
        kept = training.last_iterate()
        held_to = 0.0 if tolerance is None else tolerance
        constraint = _with_tolerance(model.constraint, held_to)
        model.set_params(tolerance=held_to, constraint=constraint)
        if tolerance is None:  # it is not held to anything
            model.set_params(iterate="last")
        else:
            kept = training.best_iterate()
        for name in ("n_features_in_", "feature_names_in_"):
            if hasattr(self.prototype, name):
                setattr(model, name, getattr(self.prototype, name))
        model._set_labels(self.request.data.classes)
        model._keep(training)
        found, record = training.record.iterates[kept], training.record
        assert model.fairness_report_ is not None
        accuracy = found.figures["held-out accuracy"]
        line = _line(model, accuracy, record.summary.rows, model.fairness_report_.verdicts)
        return model, {**line, "loss": found.held_out_loss}


def _with_tolerance(constraint: Any, tolerance: float) -> Any:
    """A constraint or several, with another tolerance in every parity."""
    if isinstance(constraint, TwoSided):
        return replace(constraint, tolerance=tolerance)
    if isinstance(constraint, Parity):
        return replace(constraint, tolerance=tolerance, has_own_tolerance=True)
    if isinstance(constraint, list | tuple):
        return type(constraint)(_with_tolerance(c, tolerance) for c in constraint)
    return constraint


def _line(
    model: FairGBMClassifier, accuracy: float, rows: float, verdicts: Sequence[Verdict]
) -> dict[str, float]:
    """A model's line of the table: accuracy and the largest gap, with their intervals."""
    low, high = wilson(accuracy * rows, rows)
    tolerance = None if model.iterate == "last" else model.tolerance
    worst = max((v for v in verdicts if v.measure == "gap"), key=lambda v: v.value)
    return {
        "tolerance": np.nan if tolerance is None else tolerance,
        "accuracy": accuracy,
        "accuracy low": float(low),
        "accuracy high": float(high),
        "gap": worst.value,
        "gap low": worst.low,
        "gap high": worst.high,
        "trees": model.best_iteration_,
    }
