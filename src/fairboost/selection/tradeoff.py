"""The trade-off between accuracy and fairness: one base model, one short stage per tolerance.

A model is trained once without constraints. Each tolerance then starts from its scores and adds a
few small trees under the constraint: the multipliers of the last tolerance are where the next one
starts from, so that a whole curve costs little more than a model or two. All models share the same
binned data and the same rows held out, on which the figures of the table are measured.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import closing
from copy import copy
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import pandas as pd
from sklearn.base import clone
from tqdm.auto import tqdm

from fairboost._text import escape_html, interval, places, text_table
from fairboost._typing import ArrayLike, Matrix
from fairboost.algorithm.game import Session
from fairboost.algorithm.multipliers import Rest
from fairboost.cluster.collections import is_dask
from fairboost.cluster.training import is_dask_estimator
from fairboost.data.holdout import SHARE
from fairboost.engines.signals import heeding_signals
from fairboost.exceptions import ConstraintError, InvalidInputError
from fairboost.fairness.base import GroupConstraint
from fairboost.fairness.constraints import ConstraintLike, ConstraintName
from fairboost.fairness.numbers import NamedNumbers
from fairboost.fairness.operating_points import OperatingPoint
from fairboost.fairness.varied import is_varied, with_tolerance
from fairboost.plots import TradeoffDisplay
from fairboost.search.protocol import chosen_within
from fairboost.selection.kinds import (
    AUTO,
    Decisions,
    Estimator,
    FairModel,
    Numbers,
    as_merits,
    asks_nothing,
    figure_of,
    kind_of,
    kind_of_model,
    nothing_to_vary,
    worst_of,
)
from fairboost.training.outcome import Training
from fairboost.training.request import FitRequest
from fairboost.training.rows import lay_out_rows
from fairboost.training.run import problem_of
from fairboost.verdicts import diagnostics

if TYPE_CHECKING:
    from matplotlib.axes import Axes

MOST_OF_SHARES = 0.99
"""The loosest tolerance of a share or a ratio that asks for something."""

GO_BY = "judge it on test rows, model.report_on(...)."


@dataclass(frozen=True, repr=False)
class TradeoffCurve:
    """Models from no constraint to zero tolerance.

    Made by :func:`tradeoff_curve`.

    Parameters
    ----------
    models : tuple of FairGBMClassifier or FairGBMRegressor
        Fitted, in the order of the table; the first is the one without constraints.
    table : pandas.DataFrame
        One row per model: ``tolerance`` (missing for the first), ``accuracy``, ``accuracy low``,
        ``accuracy high``, ``loss``, ``gap``, ``gap low``, ``gap high`` on the rows held out, and
        ``trees``. The gap is the largest among the parities asked for, and for three classes or
        more the largest over the rates of all constrained classes. For predicted numbers there is
        no accuracy. ``loss``, with ``loss low`` and ``loss high``, is then the mean squared error
        or deviance, according to the engine's objective, and ``gap`` is the figure that the
        constraint limits, in its own unit.
    """

    models: tuple[FairModel, ...]
    table: pd.DataFrame

    def __repr__(self) -> str:
        lines = self._printed()
        return f"{self._said}\n\n{text_table(list(map(str, lines)), lines.to_numpy().tolist())}"

    def _repr_html_(self) -> str:
        return f"<p>{escape_html(self._said)}</p>{self._printed().to_html(index=False, border=0)}"

    @property
    def _said(self) -> str:
        """What the printed table is."""
        assert self.models[0].fairness_report_ is not None
        where = self.models[0].fairness_report_.where
        on = "training rows" if where == "training" else f"rows {where}"
        return f"TradeoffCurve: {len(self.models)} models, measured on the {on}"

    def _printed(self) -> pd.DataFrame:
        """The table as text: a line per model."""
        performance, table = self._kind.performance, self.table
        found = {
            "model": [
                "no constraint" if np.isnan(t) else f"tolerance {t:.3g}"
                for t in table["tolerance"]
            ]
        }
        named = {performance: self._kind.title(self.models[0]), "gap": _figure_of(self.models[0])}
        for name, title in named.items():
            figures = table[[name, f"{name} low", f"{name} high"]].to_numpy()
            decimals = 3 if "accuracy" in table else places(*figures[:, 0])
            found[title] = [interval(v, low, high, decimals) for v, low, high in figures]
        return pd.DataFrame({**found, "trees": [f"{n:.0f}" for n in table["trees"]]})

    @property
    def _kind(self) -> Decisions | Numbers:
        return kind_of_model(self.models[0])

    @property
    def _score(self) -> pd.Series:
        """The performance, the larger the better."""
        return self._kind.sign * self.table[self._kind.performance]

    def best(self, alpha: float = 0.5) -> Any:
        """The model of largest ``alpha * accuracy + (1 - alpha) * (1 - gap)``.

        Where numbers are predicted, that of least ``alpha * loss + (1 - alpha) * gap``, both as
        shares of those of the model without constraints.

        Parameters
        ----------
        alpha : float in [0, 1], default=0.5
            The weight of accuracy, or of the loss, against fairness.

        Returns
        -------
        model : FairGBMClassifier or FairGBMRegressor
        """
        performance = self._kind.performance
        merit = weigh(alpha, *as_merits(self.table, performance), performance)
        return self.models[fairest_of_best(merit, self.table["gap"])]

    def within(self, tolerance: float) -> Any:
        """The best model whose gap on the rows held out is within a tolerance.

        The most accurate model, or for predicted numbers the model of least loss.

        Parameters
        ----------
        tolerance : float
            The largest gap to accept; the model's report is about this tolerance.

        Returns
        -------
        model : FairGBMClassifier or FairGBMRegressor
        """
        if not (self.table["gap"] <= tolerance).any():
            raise InvalidInputError(
                f"no model of the curve has a gap within {tolerance:g} on the rows held out; the "
                f"least is {self.table['gap'].min():.4f}. Accept that, or train a model of its "
                f"own: {type(self.models[0]).__name__}(tolerance={tolerance:g})"
            )
        chosen = best_within(self._score, self.table["gap"], tolerance)
        how = (
            f"Chosen among {len(self.models)} models by their figures on the rows held out, which "
            f"therefore look a little better than they are; {GO_BY}"
        )
        return held_to(self.models[chosen], tolerance, how)

    def on(
        self,
        X: Matrix,
        y: ArrayLike,
        *,
        sensitive_features: ArrayLike,
        sample_weight: ArrayLike | None = None,
        exposure: ArrayLike | None = None,
    ) -> pd.DataFrame:
        """The table on other rows, such as a test set.

        Parameters
        ----------
        X, y, sensitive_features, sample_weight, exposure
            The rows, as in ``fit``.
        """
        kind = self._kind
        asked = {"sensitive_features": sensitive_features, "sample_weight": sample_weight}
        if exposure is not None:
            asked["exposure"] = exposure
        rows = {"X": X, "y": y, "exposure": None, **asked}
        kind.check_rows(rows)
        lines = []
        for model in self.models:
            report = model.report_on(X, y, **asked)
            gap = worst_of(report.test_verdicts, _constraints_of(model))
            lines.append(_line(model, kind.figures_on(model, rows), gap))
        return pd.DataFrame(lines)

    def plot(self, ax: Axes | None = None, chosen: FairModel | None = None) -> TradeoffDisplay:
        """Accuracy, or the loss, against the gap, with intervals.

        Parameters
        ----------
        ax : matplotlib.axes.Axes, optional
            Where to draw; a new figure if left out.
        chosen : FairGBMClassifier or FairGBMRegressor, optional
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
        words = self._kind.title(self.models[0]), _figure_of(self.models[0])
        return TradeoffDisplay(self.table, own, words=words).plot(ax)


def fairest_of_best(merit: pd.Series, gap: pd.Series) -> int:
    """Position of the largest merit; of equals that of the least gap."""
    return int(np.lexsort((gap, -merit))[0])


def best_within(score: pd.Series, gap: pd.Series, tolerance: float) -> int:
    """Position of the best score within a tolerance, or of the least gap; no other beats it."""
    all_as_one = np.zeros(len(gap), np.intp)
    return int(chosen_within(all_as_one, score.to_numpy(), gap.to_numpy(), tolerance)[0])


def held_to(
    model: FairModel, tolerance: float, chosen: str, *, searched: bool = False
) -> FairModel:
    """The same model, judged by the tolerance that the user asked for.

    That of its own stage is one of a row of them, and the first model has none.

    Parameters
    ----------
    model : FairGBMClassifier or FairGBMRegressor
        One of a curve.
    tolerance : float
        What was asked for.
    chosen : str
        Among which models it was chosen, and by which rows; its report says so.
    searched : bool, default=False
        Whether a search chose the rows to hold out, so that no advice on it is of use.
    """
    if asks_nothing(model.constraint, tolerance):
        return model
    asked = copy(model)
    asked.set_params(tolerance=tolerance, constraint=with_tolerance(model.constraint, tolerance))
    measured = model._measured
    assert measured is not None
    terms = (
        replace(t, constraint=with_tolerance(t.constraint, tolerance)) for t in measured.terms
    )
    measured = replace(measured, terms=tuple(terms), chosen=chosen, unconstrained=False)
    if searched and measured.kind == "share":
        measured = replace(measured, kind="search")
    asked._set_measured(measured, getattr(model, "_score_threshold", 0.0))
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
    estimator: Estimator | None,
    X: Matrix,
    y: ArrayLike,
    *,
    sensitive_features: ArrayLike,
    constraint: ConstraintName | NamedNumbers | Literal["auto"] | ConstraintLike = AUTO,
    tolerances: Sequence[float] | int = 20,
    sample_weight: ArrayLike | None = None,
    holdout: float | Literal["auto", "cross"] | None = "auto",
    holdout_set: tuple[Any, ...] | None = None,
    operating_point: float | OperatingPoint = 0.5,
    min_group_rows: int = 30,
    random_state: int | None = None,
    verbose: int = 0,
    pos_label: object = None,
    exposure: ArrayLike | None = None,
    classes: Sequence[Any] | None = None,
    costs: ArrayLike | None = None,
) -> TradeoffCurve:
    """Train models from no constraint to zero tolerance, in little more time than one takes.

    Parameters
    ----------
    estimator : LGBMClassifier, XGBClassifier, LGBMRegressor, XGBRegressor or None
        The engine with its options, for the base model. Models are ``FairGBMClassifier``, or
        ``FairGBMRegressor`` if the engine predicts numbers. If None it is ``LGBMClassifier()``, or
        ``LGBMRegressor()`` where the constraint is one on numbers.
    X, y, sensitive_features, sample_weight, holdout_set
        As in :meth:`FairGBMClassifier.fit`, or :meth:`FairGBMRegressor.fit`.
    constraint : str, constraint or sequence of them, default="auto"
        As in :class:`FairGBMClassifier`, or :class:`FairGBMRegressor`; ``"auto"`` is
        ``"equalized_odds"``, or ``"equal_distributions"``. The tolerance of every parity in it is
        varied, and bounds are kept. For ``"bounded_group_loss"`` the bound is varied.
    tolerances : sequence of float, or int, default=20
        The tolerances, or the number of models to train, including the one without constraints;
        tolerances are then evenly spaced from the gap of that model to zero. Bounds on the loss of
        every group go from the largest loss of a group to the mean loss of everyone.
    holdout : float, "auto", "cross" or None, default="auto"
        As in :class:`FairGBMClassifier`, except that ``"auto"`` never cross-fits, which would take
        six times as long. It is a share of 20%, or the ``holdout_set`` alone. None measures on
        the training rows, which trees fit.
    min_group_rows, random_state
        As in :class:`FairGBMClassifier`.
    operating_point, pos_label, classes, costs
        As in :class:`FairGBMClassifier`, for classifiers.
    exposure : array-like of shape (n,), optional
        As in :meth:`FairGBMRegressor.fit`.
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
    kind = kind_of(estimator, constraint, "tradeoff_curve")
    if not isinstance(tolerances, int | np.integer):
        for tolerance in tolerances:
            kind.check_tolerance(tolerance, constraint)
    elif tolerances < 2:
        raise InvalidInputError(
            f"tolerances must be at least 2 models or a list of tolerances, found {tolerances}"
        )
    if is_dask_estimator(estimator) or is_dask(X):
        raise InvalidInputError(
            "tradeoff_curve trains on one machine, found a Dask collection or estimator; fit "
            f"{kind.on_dask} once for each tolerance"
        )
    kind = kind.of_labels(y)
    rows = {
        "X": X, "y": y, "sensitive_features": sensitive_features, "sample_weight": sample_weight,
        "exposure": exposure, "holdout_set": holdout_set,
    }  # fmt: skip
    asked = {
        "constraint": kind.constraint if constraint == AUTO else constraint,
        "holdout": SHARE if holdout == "auto" and holdout_set is None else holdout,
        "operating_point": operating_point, "min_group_rows": min_group_rows,
        "random_state": random_state, "pos_label": pos_label, "classes": classes, "costs": costs,
    }  # fmt: skip
    curve = _Curve(kind, *kind.request(estimator, rows, asked))
    found = [curve.model(curve.base_training, None)]
    spaced = curve.spaced(tolerances, found[0][1])
    for tolerance in tqdm(spaced, disable=not verbose, unit="model"):
        found.append(curve.model(curve.stage(tolerance), tolerance))
    models, lines = zip(*found, strict=True)
    return TradeoffCurve(models, pd.DataFrame(list(lines)))


class _Curve:
    """The base training, and stages on top of it."""

    def __init__(
        self, kind: Decisions | Numbers, prototype: FairModel, request: FitRequest
    ) -> None:
        self.kind, self.prototype, self.request = kind, prototype, request
        engine, options = request.engine, request.options
        if engine.base is not None:
            raise InvalidInputError(
                "tradeoff_curve trains its own base model; pass an unfitted estimator"
            )
        self.wanted = options.constraints(request.columns)
        varied = [c for c in self.wanted if is_varied(c)]
        if not varied:
            raise nothing_to_vary()
        if any(c.traits.simplex is not None for c in self.wanted):
            raise ConstraintError(
                "minimax(...) has no tolerance to vary, and a stage cannot go on from its weights "
                "of groups; leave it out of the curve, or fit a FairGBMClassifier with it"
            )
        kind.check_varied(varied)
        with request.on_device():
            self._train_base()

    def _train_base(self) -> None:
        """Train the model that stages go on from."""
        request, engine, options = self.request, self.request.engine, self.request.options
        with heeding_signals():
            self.rows = lay_out_rows(request, self.constraints(0.0), spare=False)
        power = request.engine.label_power
        session = Session(options.game(self.rows, request.loss_terms, Rest(), power))
        diagnostics.warn_of_small_cells(self.rows.terms, self.rows.cells)
        trees: list[int] = []
        with closing(session), heeding_signals():
            self.base, self.lockstep = engine.train(
                request.engine_data(self.rows.holdout),
                problem_of(session, trees.append),
                request.loss_terms.intercept,
            )
            self.base_training = Training(self.base, session.record(), trees)
        self.multipliers = session.state.dual.multipliers

    def constraints(self, tolerance: float) -> tuple[GroupConstraint, ...]:
        """The constraints at a tolerance."""
        found: tuple[GroupConstraint, ...] = with_tolerance(self.wanted, tolerance)
        return found

    def spaced(self, tolerances: Sequence[float] | int, first: dict[str, float]) -> list[float]:
        """The tolerances to train for, from loose to tight, given the line of the base model."""
        if not isinstance(tolerances, int | np.integer):
            return sorted((float(t) for t in tolerances), reverse=True)
        # No loss is 0: what is asked for at most is that no group does worse than everyone.
        bounded = any(c.varies and c.limited_by == "at_most" for c in self.wanted)
        least = first["loss"] if bounded else 0.0
        loosest = first["gap"]
        if asks_nothing(list(self.wanted), loosest):  # a ratio may be far from 1
            loosest = MOST_OF_SHARES
        return [float(t) for t in np.linspace(loosest, least, tolerances)[1:]]

    @heeding_signals()
    def stage(self, tolerance: float) -> Training:
        """Go on from the base model under the constraints at a tolerance."""
        with self.request.on_device():
            return self._stage(tolerance)

    def _stage(self, tolerance: float) -> Training:
        rows = self.rows.with_constraints(self.constraints(tolerance))
        options = self.request.options
        # The base's: its trees are most of the model.
        asked = options.player(self.kind.settling), self.request.engine.label_power
        game = options.game(rows, self.request.loss_terms, *asked)
        base = self.base_training.record.iterates[-1]
        session = Session(game, game.start(self.multipliers, base.cut, base.moments))
        trees: list[int] = []
        with closing(session):
            booster = self.lockstep.stage(problem_of(session, trees.append), *self.kind.stage)
            record = session.record()
        self.multipliers = session.state.dual.multipliers
        return Training(self.base.with_stage(booster), record, trees)

    def model(
        self, training: Training, tolerance: float | None
    ) -> tuple[FairModel, dict[str, float]]:
        """A fitted estimator, as if it had been trained by itself, and its line of the table."""
        model = clone(self.prototype)
        kept = training.last_iterate()
        held_to = 0.0 if tolerance is None else tolerance
        constraint = with_tolerance(model.constraint, held_to)
        model.set_params(tolerance=held_to, constraint=constraint)
        if tolerance is None:  # it is not held to anything
            model.set_params(iterate="last")
        else:
            kept = training.best_iterate()
        # What the checks have found of features, labels and loss.
        known = {k: v for k, v in vars(self.prototype).items() if k not in model.get_params(False)}
        vars(model).update(known)
        model._keep(training)
        if tolerance is None:
            assert model._measured is not None
            free = replace(model._measured, unconstrained=True)
            model._set_measured(free, getattr(model, "_score_threshold", 0.0))
        assert model.fairness_report_ is not None
        figures = self.kind.figures(training.record.iterates[kept], training.record)
        gap = worst_of(model.fairness_report_.verdicts, _constraints_of(model))
        return model, _line(model, figures, gap)


def _constraints_of(model: FairModel) -> list[GroupConstraint]:
    """The constraints of a fitted model, in the order of its verdicts."""
    assert model._measured is not None
    return [term.constraint for term in model._measured.terms]


def _figure_of(model: FairModel) -> str:
    """What a curve's gap is, in words."""
    return figure_of(next(c for c in _constraints_of(model) if is_varied(c)))


def _line(model: FairModel, figures: dict[str, float], gap: dict[str, float]) -> dict[str, float]:
    """A model's line of the table: performance and the largest gap, with their intervals."""
    tolerance = None if model.iterate == "last" else model.tolerance
    limit = np.nan if tolerance is None else tolerance
    line = {"tolerance": limit, **figures, **gap, "trees": model.best_iteration_}
    if "accuracy" in line and "loss" in line:  # beside the point of the table, so it comes last
        line["loss"] = line.pop("loss")
    return line
