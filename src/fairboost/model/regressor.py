"""``FairGBMRegressor``: a number is predicted under fairness constraints."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from copy import copy
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal, Self

import numpy as np
from sklearn.base import RegressorMixin
from sklearn.frozen import FrozenEstimator
from sklearn.metrics import r2_score
from sklearn.utils.validation import check_is_fitted, validate_data

from fairboost._typing import ArrayLike, FloatArray, Matrix
from fairboost.algorithm.game import Game
from fairboost.cluster.collections import DaskRows, is_dask
from fairboost.cluster.measuring import measure_on_dask
from fairboost.cluster.training import is_dask_estimator
from fairboost.data.cells import build_cells
from fairboost.data.features import check_readable, in_pandas_if_categorical
from fairboost.data.holdout import HoldoutLike
from fairboost.data.validation import (
    CheckedRows,
    check_number_set,
    check_numbers,
    read_exposure,
    read_targets,
)
from fairboost.engines.port import Engine, LossTerms
from fairboost.engines.registry import engine_of
from fairboost.exceptions import InvalidInputError
from fairboost.fairness.base import GroupConstraint
from fairboost.fairness.binding import leave_out_small
from fairboost.fairness.constraints import ConstraintLike, columns_of
from fairboost.fairness.numbers import NamedNumbers
from fairboost.fairness.soft import NOT_OF_NUMBERS, refuse_soft
from fairboost.model.base import (
    FairBooster,
    columns_among,
    columns_of_table,
    with_evaluation,
)
from fairboost.model.files import NUMBER
from fairboost.training.iterates import IterateName
from fairboost.training.options import MembershipsName, NumberOptions
from fairboost.training.outcome import measure_round, measure_rows
from fairboost.training.request import FitRequest, outcomes_of
from fairboost.training.rows import plain_layout
from fairboost.training.targets import (
    check_both_exposed,
    check_range,
    check_takes_exposure,
    check_targets,
    figures_of,
)
from fairboost.verdicts import prediction
from fairboost.verdicts.fairness_report import FairnessReport, MeasuredRates
from fairboost.verdicts.prediction import Prediction

ITERATES = "best", "last", "average"
"""The models that can be kept."""


class FairGBMRegressor(RegressorMixin, FairBooster):
    """Boosted trees that predict a number under fairness constraints, on stock engines.

    Trains the given ``LGBMRegressor`` or ``XGBRegressor`` on its own loss and constraints on
    groups, as :class:`~fairboost.FairGBMClassifier` does for decisions. The result is a stock
    booster. Groups are needed in training only.

    Parameters
    ----------
    estimator : LGBMRegressor, XGBRegressor, DaskXGBRegressor or FrozenEstimator, optional
        The engine with its options; ``LGBMRegressor()`` by default. Its objective is the loss:
        squared, absolute, quantile, Huber, Poisson, gamma or Tweedie, by the engine's own names.
        With ``xgboost.dask.DaskXGBRegressor`` training is on a cluster (docs/cluster.md).
        It is cloned, never changed. A fitted one in ``sklearn.frozen.FrozenEstimator`` keeps its
        trees, and a short stage of small ones is added.
    constraint : str, constraint, sequence of them, or None, default="equal_distributions"
        ``"equal_distributions"`` (no group's distribution of predictions is further from
        everyone's than the tolerance, by the distance of Kolmogorov and Smirnov),
        ``"equal_means"`` (equal mean predictions), ``"calibrated"`` (actual over expected within
        1 ± tolerance in every group), ``"equal_errors"`` (equal mean losses),
        ``"bounded_group_loss"`` (no group's mean loss above the tolerance); a
        :func:`~fairboost.parity` or :func:`~fairboost.bound` of ``"prediction"`` or ``"loss"``; a
        list of these; or None for the engine's loss alone. :func:`~fairboost.calibrated` asks
        for calibration within deciles of the prediction too.
    tolerance : float, optional
        How far apart groups may be, for constraints that have no tolerance of their own. It is a
        share of rows for distributions (0.05 by default) and a share for calibration (0.01 by
        default). For means and losses it has their unit, and is required.
    confidence : float in (0, 1), optional
        Aim farther inside the limits, so that the constraints hold among all people with this
        confidence. The report says where there are too few held-out rows for it.
    holdout : {"auto", "cross"}, float or None, default="auto"
        The rows on which groups are compared, as in ``FairGBMClassifier``. For calibration
        ``"auto"`` counts rows by their information about actual over expected. Rows have little
        information if claims are rare. Up to 200,000 rows are then cross-fitted.
    multiplier_learning_rate : float or "auto", default="auto"
        Gain of the multipliers; ``"auto"`` is 1, and more for few rounds.
    memberships : {"auto", "observed", "honest"}, default="auto"
        What a row counts as in gradients: its group, or the probability of its group given its
        features, as in ``FairGBMClassifier``.
    iterate : {"best", "last", "average"}, default="best"
        The model to keep, as in ``FairGBMClassifier``.
    min_group_rows : int, default=30
        Groups with fewer rows are shown by name with their rows, but neither held equal to
        others nor judged; 0 compares every group.
    random_state : int, RandomState or None, default=None
        Seeds the draw of rows to hold out, and the engine if its own ``random_state`` is None.
    verbose : int, default=0
        1 shows a progress bar.

    Attributes
    ----------
    estimator_ : LGBMRegressor or XGBRegressor
        The fitted engine, a stock one.
    booster_ : lightgbm.Booster or xgboost.Booster
        Its booster.
    multipliers_, trace_, best_iteration_, fairness_report_
        As in ``FairGBMClassifier``; what is called a rate there is a mean here.
    cluster_ : ClusterRun
        Where the model was trained, if it was on a Dask cluster.
    n_features_in_, feature_names_in_
        Number of features, and their names, if X had them.

    Notes
    -----
    With ``constraint=None`` predictions equal those of the engine alone. With an exposure e the
    model predicts y / e, and rows are weighted by exposure in every mean. For the absolute and the
    quantile loss, engines set leaves to medians or quantiles. Training under constraints minimises
    a parabola above the loss instead; see ``docs/regression.md``.

    Examples
    --------
    >>> import numpy as np
    >>> from lightgbm import LGBMRegressor
    >>> from fairboost import FairGBMRegressor
    >>> rng = np.random.default_rng(0)
    >>> sex = rng.integers(0, 2, 4_000)
    >>> X = np.stack([rng.normal(size=4_000) + 0.5 * sex, rng.normal(size=4_000)], axis=1)
    >>> y = X[:, 0] + 0.5 * X[:, 1] + rng.normal(size=4_000)
    >>> engine = LGBMRegressor(n_estimators=60, verbose=-1)
    >>> model = FairGBMRegressor(engine, constraint="equal_means", tolerance=0.2)
    >>> model = model.fit(X, y, sensitive_features=sex)
    >>> predicted = model.predict(X)
    >>> bool(abs(predicted[sex == 1].mean() - predicted[sex == 0].mean()) < 0.3)
    True
    """

    _predicted = (NUMBER,)
    _exposed: bool = False

    def __init__(
        self,
        estimator: Any = None,
        *,
        constraint: NamedNumbers | ConstraintLike = "equal_distributions",
        tolerance: float | None = None,
        confidence: float | None = None,
        holdout: HoldoutLike = "auto",
        multiplier_learning_rate: float | Literal["auto"] = "auto",
        memberships: MembershipsName = "auto",
        iterate: IterateName = "best",
        min_group_rows: int = 30,
        random_state: int | np.random.RandomState | None = None,
        verbose: int = 0,
    ) -> None:
        self.estimator = estimator
        self.constraint = constraint
        self.tolerance = tolerance
        self.confidence = confidence
        self.holdout = holdout
        self.multiplier_learning_rate = multiplier_learning_rate
        self.memberships = memberships
        self.iterate = iterate
        self.min_group_rows = min_group_rows
        self.random_state = random_state
        self.verbose = verbose

    def fit(
        self,
        X: Matrix,
        y: ArrayLike,
        *,
        sensitive_features: ArrayLike | None = None,
        sample_weight: ArrayLike | None = None,
        exposure: ArrayLike | None = None,
        holdout_set: tuple[Any, ...] | None = None,
        eval_set: Sequence[tuple[Matrix, ArrayLike]] | None = None,
        eval_names: Sequence[str] | None = None,
        eval_sample_weight: Sequence[ArrayLike] | None = None,
        eval_exposure: Sequence[ArrayLike | None] | None = None,
        eval_metric: str | Callable[..., Any] | Sequence[str | Callable[..., Any]] | None = None,
        callbacks: Sequence[Callable[..., Any]] | None = None,
        categorical_feature: Sequence[str | int] | Literal["auto"] = "auto",
    ) -> Self:
        """Train under the constraints.

        Parameters
        ----------
        X : table of shape (n, n_features)
            NumPy, pandas, polars, Arrow or SciPy sparse; handed to the engine as it is. With a
            ``DaskXGBRegressor`` this and the following are Dask collections.
        y : array-like of shape (n,)
            The numbers to predict.
        sensitive_features : column or table of columns, optional
            The groups, as in ``FairGBMClassifier.fit``.
        sample_weight : array-like of shape (n,), optional
            Weights of the rows, in the loss and in every mean.
        exposure : array-like of shape (n,), optional
            What the prediction of each row is multiplied by, such as years insured; for losses
            with a log link (Poisson, gamma, Tweedie).
        holdout_set : tuple (X, y, sensitive_features[, sample_weight[, exposure]]), optional
            Rows of your own on which groups are compared, as in ``FairGBMClassifier.fit``.
        eval_set, eval_names, eval_sample_weight, eval_metric, callbacks, categorical_feature
            As in ``LGBMRegressor.fit``; XGBoost takes the last three with its options.
        eval_exposure : sequence of array-like, optional
            Exposures of each of the evaluation sets, needed if ``exposure`` is given. Metrics
            then compare y with the prediction times the exposure. None stands for the set that
            is the training data itself.

        Returns
        -------
        self : FairGBMRegressor
        """
        fit_options = {
            "eval_set": eval_set,
            "eval_names": eval_names,
            "eval_sample_weight": eval_sample_weight,
            "eval_metric": eval_metric,
            "callbacks": callbacks,
            "categorical_feature": categorical_feature,
        }
        # Takes the place of this model when all is done: an interrupted fit changes nothing.
        fitted = copy(self)
        fitted.__dict__.pop("cluster_", None)  # of an earlier fit
        if is_dask_estimator(self.estimator) or is_dask(X):
            if eval_exposure is not None:
                fit_options["eval_exposure"] = eval_exposure
            rows = DaskRows(X, y, sensitive_features, sample_weight, exposure)
            result = fitted._train_on_dask(rows, holdout_set, fit_options)
            fitted._set_loss(result.loss, exposure is not None)
            fitted._keep(result.training)
        else:
            refuse_soft(self.constraint, sensitive_features, *NOT_OF_NUMBERS)
            check_readable(X)
            validate_data(fitted, columns_of_table(X), skip_check_array=True, reset=True)
            data = check_numbers(X, y, sensitive_features, sample_weight, exposure)
            data = replace(data, X=in_pandas_if_categorical(X))
            fit_options = with_evaluation(fit_options, data.X, X)
            fit_options = _with_targets(fit_options, y, data, eval_exposure)
            fitted._train(fitted._request(data, holdout_set, fit_options))
        self.__dict__ = fitted.__dict__
        self._warn()
        return self

    def _request(
        self, data: Any, holdout_set: tuple[Any, ...] | None, fit_options: dict[str, Any]
    ) -> FitRequest:
        """Check everything; what is wrong raises here."""
        X = data.X
        engine = self._engine(X)
        engine.check_arguments(X, fit_options)
        if self.iterate not in ITERATES:
            raise InvalidInputError(
                f"iterate must be one of {', '.join(map(repr, ITERATES))}, found "
                f"{self.iterate!r}; 'randomized' draws decisions, and a number is predicted"
            )
        self._check_iterate(engine)
        self._stream()  # raises here rather than after training
        options, held_out = self._options(), None
        if holdout_set is not None:
            self._check_holdout_set(holdout_set)
            held_out = check_number_set(holdout_set, X)
            check_both_exposed(data.exposure is not None, held_out.exposure is not None)
        seed = self._seed()
        request = FitRequest(options, engine, data.targets, data, held_out, fit_options, seed)
        self._check_targets(request)
        return request

    def _check_targets(self, request: FitRequest) -> None:
        """Refuse targets and tolerances of which nothing could come."""
        data = request.data
        if len(data.labels) == 1:
            raise InvalidInputError(
                "X has one sample, n_samples=1, of which nothing can be learned; pass more rows"
            )
        terms = request.loss_terms
        _check_under(terms, data)
        if request.held_out is not None:
            _check_under(terms, request.held_out, "holdout_set: ")
        for _, y in request.fit_options.get("eval_set") or ():
            assert terms.loss is not None
            check_range(terms.loss, y, "y of eval_set")
        constraints = request.options.constraints(request.columns)
        used = [name for c in constraints for name in columns_of(c)]
        check_targets(figures_of(data, used), constraints)
        self._set_loss(terms, data.exposure is not None)

    def _set_loss(self, terms: LossTerms, exposed: bool) -> None:
        """Keep what reports and predictions have to know of the loss."""
        self._loss_terms = LossTerms(0.0, single=terms.single, loss=terms.loss)
        self._exposed = exposed

    def _engine(self, X: Matrix) -> Engine:
        """Make the engine."""
        if isinstance(self.estimator, FrozenEstimator):
            return engine_of(self.estimator.estimator).stage_on(self.estimator, X, None)
        engine = self._chosen(self.estimator)
        return engine_of(engine).make(engine, None)

    def _options(self) -> NumberOptions:
        return NumberOptions(
            self.constraint,
            self.tolerance,
            self.confidence,
            0.5,
            self.holdout,
            "two_sided",
            self.multiplier_learning_rate,
            "auto",
            self.memberships,
            self.min_group_rows,
        )

    def _set_measured(self, measured: MeasuredRates | None, score_threshold: float) -> None:
        self._measured = measured
        self.fairness_report_ = None if measured is None else self._judged(measured)

    def predict(self, X: Matrix, *, exposure: ArrayLike | None = None) -> FloatArray:
        """Predict a number for each row. No group is needed.

        Parameters
        ----------
        X : table of shape (n, n_features)
        exposure : array-like of shape (n,), optional
            What predictions are multiplied by; they are per unit of exposure without it.

        Returns
        -------
        predictions : (n,) float64
            Of a Dask collection a Dask array, which is computed partition by partition.
        """
        check_is_fitted(self, "_model")
        if exposure is not None:
            assert self._loss_terms.loss is not None
            check_takes_exposure(self._loss_terms.loss)
        if is_dask(X):
            return self._lazily("predict", X, np.empty(0), exposure=exposure)
        if is_dask(exposure):
            raise InvalidInputError(
                "exposure is a Dask collection and X is not, so rows cannot be matched; pass "
                "exposure.compute(), or both as collections of Dask"
            )
        scores = self._scores(X)
        found: FloatArray = np.asarray(self._model.predictions(scores), np.float64)
        if exposure is None:
            return found
        years = read_targets(exposure, "exposure")
        if len(years) != len(found) or (years < 0).any():
            raise InvalidInputError(
                f"exposure must be one number of 0 or more for each of the {len(found)} rows, "
                f"found {len(years)} numbers, the least of them {years.min(initial=np.inf):g}"
            )
        return found * years

    def score(
        self,
        X: Matrix,
        y: ArrayLike,
        sample_weight: ArrayLike | None = None,
        *,
        exposure: ArrayLike | None = None,
    ) -> float:
        """R², the share of the variance of y that predictions explain.

        Parameters
        ----------
        X, y, sample_weight
            Rows, targets and weights, as in :meth:`fit`.
        exposure : array-like of shape (n,), optional
            Needed if the model was trained with exposures: y is compared with the prediction
            times the exposure. In a search, ``set_score_request(exposure=True)`` asks for it.

        Returns
        -------
        r2 : float
            1 at best; 0 for the mean of y. ``fairboost.metrics.loss_scorer`` has the loss of the
            objective instead, which suits counts and amounts better.
        """
        check_is_fitted(self, "_model")
        self._check_exposed(exposure)
        predicted = self.predict(X, exposure=exposure)
        return float(r2_score(y, predicted, sample_weight=sample_weight))

    def report_on(
        self,
        X: Matrix,
        y: ArrayLike,
        *,
        sensitive_features: ArrayLike,
        sample_weight: ArrayLike | None = None,
        exposure: ArrayLike | None = None,
    ) -> FairnessReport:
        """Judge the constraints on other rows, such as a test set.

        Parameters
        ----------
        X : table of shape (n, n_features)
            The rows; a Dask collection is read partition by partition.
        y, sensitive_features, sample_weight, exposure
            Their targets, groups, weights and exposures, as in :meth:`fit`. Exposures are needed
            if the model was trained with them.

        Returns
        -------
        report : FairnessReport
            Of these rows as ``test``, beside the rows held out in training; of these rows alone
            if the model was loaded from a file.
        """
        check_is_fitted(self, "_model")
        if is_dask(X):
            self._check_exposed(exposure)
            rows = DaskRows(X, y, sensitive_features, sample_weight, exposure)
            constraints = self._asked_for(rows.columns)
            asked = self._options(), constraints, self._loss_terms
            test = measure_on_dask(rows, self._scores, *asked, known=self._known_groups())
            return self._judged(*filter(None, [self._measured, test]))
        data, game, without = self._game_on(X, y, sensitive_features, sample_weight, exposure)
        scores = self._scores(X)
        test = measure_rows(game, _offset(scores, data), "test", without)
        test = replace(test, performance=self._performance(scores, data))
        return self._judged(*filter(None, [self._measured, test]))

    def _performance(self, scores: FloatArray, data: CheckedRows) -> tuple[Prediction, ...]:
        """How well the model predicts some rows, given their scores without exposures."""
        loss, years = self._loss_terms.loss, data.exposure
        assert loss is not None and data.targets is not None
        predicted = np.asarray(self._model.predictions(scores), np.float64)
        predicted = predicted if years is None else predicted * years
        return prediction.of_numbers(data.targets, predicted, loss, years, data.sample_weight)

    def _violations_on(
        self,
        X: Matrix,
        y: ArrayLike,
        sensitive_features: ArrayLike,
        sample_weight: ArrayLike | None,
        exposure: ArrayLike | None,
    ) -> Callable[[FloatArray, int], FloatArray]:
        """How to measure violations on some rows, given their scores in some round."""
        data, game, _ = self._game_on(X, y, sensitive_features, sample_weight, exposure)

        def find(scores: FloatArray, start: int) -> FloatArray:
            return measure_round(game, _offset(scores, data)).violations

        return find

    def _game_on(
        self,
        X: Matrix,
        y: ArrayLike,
        sensitive_features: ArrayLike,
        sample_weight: ArrayLike | None,
        exposure: ArrayLike | None,
    ) -> tuple[CheckedRows, Game, str]:
        """Check rows, and make ready to measure them; says how many have no group."""
        data = check_numbers(X, y, sensitive_features, sample_weight, exposure)
        data = data.with_groups_of(self._known_groups())
        _check_under(self._loss_terms, data)
        self._check_exposed(exposure)
        constraints = self._asked_for([c.name for c in data.columns])
        used = {name for constraint in constraints for name in columns_of(constraint)}
        weight = data.weight_in_moments
        cells = build_cells(data.labels, columns_among(data, used), weight)
        left = leave_out_small(cells, constraints, self.min_group_rows)
        layout = plain_layout(left, constraints, weight, outcomes_of(data))
        game = self._options().game(layout, self._loss_terms)
        return data, game, left.rows_without_group()

    def _asked_for(self, names: list[str]) -> tuple[GroupConstraint, ...]:
        """The constraints, on those of the given columns that they were trained on."""
        constraints = self._options().constraints(self._constrained(names))
        if not constraints:
            raise InvalidInputError(
                "the model was trained without constraints, so there is nothing to judge"
            )
        return constraints

    def _check_exposed(self, exposure: object) -> None:
        """Refuse rows without exposures where the model predicts per unit of exposure."""
        if self._exposed and exposure is None:
            raise InvalidInputError(
                "the model was trained with exposures and predicts per unit of exposure, and "
                "these rows have no exposures; pass exposure=..., as in fit. If every row stands "
                "for one unit, pass ones"
            )

    def export(
        self, path: str | Path, format: str | None = None, *, check_on: Matrix | None = None
    ) -> None:
        """Write a file that returns the same predictions without fairboost.

        Predictions are per unit of exposure.

        Parameters
        ----------
        path : str or Path
            Where to write. The rule of decisions is written beside it, as ``<path>.decide.json``.
        format : {"lightgbm", "xgboost", "onnx", "onnx_float32", "treelite", "c"}, optional
            Without it the ending ``.onnx`` or ``.tl`` says the format, else it is the engine's
            own. "lightgbm" is the text that ``lightgbm.Booster(model_file=path)`` reads, and
            "xgboost" the JSON of ``xgboost.Booster(model_file=path)``, for which the path must end
            in ``.json``. "onnx" has predictions as its output; "onnx_float32" is the same in
            single precision, with one matrix of all features as its input. "treelite" is a
            checkpoint of treelite, and "c" a folder of C source with ``decide.json`` in it.
        check_on : table, optional
            Rows that the file is tried on; by default rows drawn from the split points of the
            trees.

        Raises
        ------
        ExportError
            If the model has no equal in the format, or if the file predicts a number that differs
            by more than 1e-5 of its size on the rows. No file is left then.
        """
        self._export(path, format, check_on)


def _offset(scores: FloatArray, data: CheckedRows) -> FloatArray:
    """Scores with what exposures add to them."""
    return scores if data.offset is None else scores + data.offset


def _with_targets(
    fit_options: dict[str, Any],
    y: ArrayLike,
    data: CheckedRows,
    eval_exposure: Sequence[ArrayLike | None] | None,
) -> dict[str, Any]:
    """Options of ``fit`` with the targets of evaluation sets as numbers, and their offsets."""
    pairs = fit_options.get("eval_set") or ()
    if eval_exposure is not None and len(eval_exposure) != len(pairs):
        raise InvalidInputError(
            f"eval_exposure has {len(eval_exposure)} items, expected one for each of the "
            f"{len(pairs)} sets in eval_set; pass a list of them"
        )
    if eval_exposure is not None and data.exposure is None:
        raise InvalidInputError(
            "eval_set has an exposure and fit has none, so that metrics would compare other "
            "numbers; pass both, exposure=... and eval_exposure=[...], or neither"
        )
    sets: list[tuple[Matrix, Any]] = []
    offsets: list[FloatArray | None] = []
    for k, (rows, given) in enumerate(pairs):
        # Engines know their training rows by identity.
        ours = rows is data.X and given is y
        sets.append((rows, data.targets if ours else read_targets(given, "y of eval_set")))
        found = None if eval_exposure is None else eval_exposure[k]
        if found is None and data.exposure is not None and not ours:
            raise InvalidInputError(
                f"set {k} of eval_set has no exposures, and the rows to train on have, so that "
                "metrics would compare other numbers; pass eval_exposure=[...], one for each set"
            )
        if found is None:
            offsets.append(data.offset)
        else:
            offsets.append(np.log(read_exposure(found, len(sets[-1][1]), "eval_exposure")))
    return {**fit_options, "eval_set": sets, "eval_offset": offsets} if sets else fit_options


def _check_under(terms: LossTerms, data: CheckedRows, where: str = "") -> None:
    """Refuse rows that a loss is not for."""
    assert terms.loss is not None
    assert data.targets is not None
    if data.exposure is not None:
        check_takes_exposure(terms.loss)
    check_range(terms.loss, data.targets, f"{where}y")
