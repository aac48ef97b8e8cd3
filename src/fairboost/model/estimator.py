"""``FairGBMClassifier``: the scikit-learn face of the method."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from copy import copy
from dataclasses import fields, replace
from pathlib import Path
from typing import Any, Literal, Self

import numpy as np
from sklearn.base import ClassifierMixin
from sklearn.frozen import FrozenEstimator
from sklearn.metrics import accuracy_score
from sklearn.utils import Tags
from sklearn.utils.validation import check_is_fitted, validate_data

from fairboost._numbers import is_finite
from fairboost._typing import ArrayLike, BoolArray, Classifier, FloatArray, Matrix
from fairboost.cluster.collections import DaskRows, is_dask
from fairboost.cluster.training import is_dask_estimator
from fairboost.data.device_arrays import on_host
from fairboost.data.features import check_readable, in_pandas_if_categorical
from fairboost.data.holdout import HoldoutLike
from fairboost.data.validation import (
    CheckedRows,
    check_fit_data,
    check_holdout_set,
    encode_known,
    python_value,
    take_columns,
)
from fairboost.engines.linear.stage import LinearStage
from fairboost.engines.port import Engine
from fairboost.engines.registry import engine_of, is_linear
from fairboost.exceptions import EngineOptionError, InvalidInputError
from fairboost.fairness.constraints import (
    ConstraintLike,
    ConstraintName,
    takes_tolerance,
)
from fairboost.fairness.costs import read_costs, threshold_of, turned
from fairboost.fairness.operating_points import OperatingPoint, probability_of
from fairboost.fairness.proxies import Proxy, ProxyName
from fairboost.fairness.soft import (
    NOT_OF_CLASSES,
    NOT_OF_LINEAR,
    NOT_OF_PAPER,
    refuse_soft,
    smooth_of,
)
from fairboost.model.adverse import warn_if_adverse
from fairboost.model.base import (
    FairBooster,
    columns_of_table,
    with_evaluation,
)
from fairboost.model.base_files import export_stage
from fairboost.model.base_model import SCORES, BaseModel
from fairboost.model.files import CLASS, LABEL, NUMBER, read_model
from fairboost.model.judging import judge
from fairboost.model.regressor import FairGBMRegressor
from fairboost.model.several import check_for_several, given_class
from fairboost.model.stage import (
    asks_for_stage,
    check_base,
    check_stage_table,
    columns_of_stage,
    for_stage,
    more_rounds,
    on_base,
    split_eval_set,
    split_holdout_set,
    stage_estimator,
)
from fairboost.serving.served import Decision
from fairboost.training.iterates import (
    IterateName,
)
from fairboost.training.options import (
    PAPER_LEARNING_RATE,
    ClassOptions,
    MembershipsName,
    MultipliersName,
    TrainingOptions,
)
from fairboost.training.request import FitRequest
from fairboost.verdicts.fairness_report import FairnessReport, MeasuredRates


class FairGBMClassifier(ClassifierMixin, FairBooster):
    """Gradient boosted trees under fairness constraints, on stock LightGBM or XGBoost.

    Trains the given ``LGBMClassifier`` or ``XGBClassifier`` by FairGBM (Cruz et al., ICLR 2023):
    every round the trees descend on the log loss plus smooth stand-ins of the constraints, and the
    multipliers that weigh the constraints answer to the exact rates, read on rows that are held
    out of training so that the constraints hold for other people too. The result is a stock
    booster; groups are needed in training only.

    Parameters
    ----------
    estimator : LGBMClassifier, XGBClassifier, other classifier or FrozenEstimator, optional
        The engine with its options; ``LGBMClassifier()`` by default. It is cloned, never changed,
        and its options are reached as ``estimator__num_leaves`` and so on. XGBoost is an extra,
        ``pip install fairboost[xgboost]``; docs/engines.md has what differs. With
        ``xgboost.dask.DaskXGBClassifier`` training is on a cluster (docs/cluster.md). A fitted
        one in ``sklearn.frozen.FrozenEstimator`` keeps its trees, and a short stage of small ones
        is added. A fitted classifier of two labels of any other kind in ``FrozenEstimator``, such
        as a forest or a ``Pipeline``, keeps its probabilities, and the stage is added to their
        log-odds (docs/any_model.md). Pass rows that the frozen model was not trained on, at
        least as ``holdout_set``: on its own training rows its rates are better than they will
        be. An unfitted classifier of another kind is fitted here, and cross-fitted, so that the
        stage starts from scores of rows that it has not seen.
    constraint : str, constraint, sequence of them, or None, default="equalized_odds"
        ``"equal_opportunity"`` (equal FNR), ``"predictive_equality"`` (equal FPR),
        ``"equalized_odds"`` (both), ``"demographic_parity"`` (equal share of positive decisions),
        ``"predictive_parity"`` (equal precision), ``"calibrated"`` (the share of positive labels
        over the mean probability is 1 in every group); a :func:`~fairboost.parity`,
        :func:`~fairboost.bound`, :func:`~fairboost.calibrated` or :func:`~fairboost.minimax`
        (the largest error of a group as small as it can be); an object of your own that follows
        :class:`~fairboost.fairness.Constraint`; a list of these; or None for the plain engine. Of
        three classes or more ``"demographic_parity"`` (equal shares of each class),
        ``"equal_opportunity"`` (equal recall of each), ``"equalized_odds"`` (equal lines
        of the confusion matrix), ``"equal_accuracy"``; see docs/classes.md.
        The names suppose a positive label that people want. Of one that is held against them,
        such as "default", ``"predictive_equality"`` protects those who are flagged by mistake;
        see docs/choosing.md.
    tolerance : float in [0, 1), optional
        How far apart the rates of two groups may be, for constraints given by name and for
        parities without a tolerance of their own. If left out, the tolerance of a rate is what
        the rows can show: two standard errors of a gap on the held-out rows, at least 0.01 and at
        most 0.1 (``tolerances_``); that of a precision, of a relative difference and of
        ``multipliers="paper"`` is 0.01. A tolerance that contradicts that of
        ``parity("fnr", 0.02)`` is refused.
    confidence : float in (0, 1), optional
        Aim farther inside the limits, so that the constraints hold among all people with this
        confidence. The report says where there are too few held-out rows for it.
    operating_point : float in (0, 1) or OperatingPoint, default=0.5
        The least probability of a positive decision. With :func:`~fairboost.at_fpr`,
        :func:`~fairboost.at_tpr` or :func:`~fairboost.at_positive_rate`, the probability at which
        this rate of everyone has its target is found on the held-out rows. Rates are held equal
        at this point.
    holdout : {"auto", "cross"}, float or None, default="auto"
        The rows on which rates are measured. A number is a share of the rows, which are then not
        trained on. ``"cross"`` measures all rows out of fold, with two to five further boosters.
        None measures the training rows. ``"auto"`` is a share of 20%, or ``"cross"`` where a share
        would be too few rows and the data is small enough for it to be quick. With
        ``fit(holdout_set=...)`` only that set is used, unless a share is given as a number: then
        both are.
    multipliers : {"two_sided", "paper"}, default="two_sided"
        ``"two_sided"`` compares every group with the pooled rate, from both sides, and controls
        the multipliers so that they settle. ``"paper"`` compares with the largest rate, and uses
        plain ascent.
    multiplier_learning_rate : float or "auto", default="auto"
        Gain of the multipliers; ``"auto"`` is 1, and 0.1 for the paper's.
    proxy : {"auto", "cross_entropy", "hinge", "squared", "sigmoid"} or Proxy, default="auto"
        The smooth step that stands in for a decision in gradients; ``"auto"`` is the sigmoid, and
        the cross-entropy for the paper's multipliers.
    memberships : {"auto", "observed", "honest"}, default="auto"
        What a row counts as in gradients: its group (``"observed"``), or the probability of its
        group given its features and label (``"honest"``). ``"auto"`` is ``"honest"`` from 20,000
        to 200,000 rows if features do not reveal the group: trees would otherwise learn which
        *training rows* are in a group. A stage on a base model of another kind of up to 40 trees
        uses groups.
    iterate : {"best", "last", "average", "randomized"}, default="best"
        The model to keep. ``"best"`` is the last of the rounds that are within the tolerance and
        whose decisions on the held-out rows are as good as the best; if no round is within the
        tolerance, that of the least violation. ``"last"`` is that of the last round,
        ``"average"`` the mean over all rounds. ``"randomized"`` is the paper's classifier, which
        scores each row by a round drawn for it.
    min_group_rows : int, default=30
        Groups in which fewer rows count towards a constrained rate are shown by name with their
        rows, but not compared: they are not held equal to other groups and not judged. ``fit``
        counts the rows to train on and those that it holds out, and :meth:`report_on` its own
        rows. 0 compares every group: a gap may then rest on a single row.
    random_state : int, RandomState or None, default=None
        Seeds the draw of rows to hold out (the same one every time if None), the draws of
        ``iterate="randomized"``, and the engine if its own ``random_state`` is None.
    verbose : int, default=0
        1 shows a progress bar.
    pos_label : label, optional
        The positive label. By default it is the larger label, with a warning if the labels are
        words that do not say which one is positive: of "approved" and "denied" it would be
        "denied".
    classes : sequence of labels, optional
        With three classes or more: the classes that constraints given by name, and parities
        without a class of their own, are about. The default is all classes.
    costs : array-like of shape (n_classes, n_classes), optional
        The cost of giving a row of each class (lines) each class (columns), in the order of
        ``classes_``, or a DataFrame that names the classes. The model then gives the class of
        least expected cost, not the most likely one.
    stage : LGBMClassifier, XGBClassifier or LinearStage, optional
        The engine of a stage on a base model, unfitted; by default an ``LGBMClassifier`` of 20
        trees of 15 leaves, with a learning rate of 0.3. :class:`~fairboost.LinearStage` has a
        weight per group in place of trees.
    stage_features : sequence of str or int, optional
        The columns of X that such a stage sees, by name or position; all if left out. The base
        model sees all of X, such as text that a ``Pipeline`` encodes and no engine reads.

    Attributes
    ----------
    classes_ : (n_classes,) array
        The labels, in rising order.
    pos_label_ : label
        The positive one; None of three classes or more.
    estimator_ : LGBMClassifier or XGBClassifier
        The fitted engine, a stock one. An ``XGBClassifier`` calls the labels 0 and 1, and so does
        an ``LGBMClassifier`` where the positive label is the smaller one.
    booster_ : lightgbm.Booster or xgboost.Booster
        Its booster.
    base_ : classifier
        The fitted base model that the stage is added to, if there is one of another kind.
    threshold_ : float
        The least probability at which ``predict``, and an exported model, decides positively; a
        little above 1 where no one may be positive. The threshold does not change probabilities.
        Under a constraint, probabilities are not calibrated within groups.
    multipliers_ : pandas.Series
        The multipliers at the end of training, by inequality.
    trace_ : pandas.DataFrame
        One row per round: ``round``, ``loss``, ``held-out loss``, ``held-out accuracy``,
        ``threshold`` where it moves, ``rate: ...``, ``violation: ...``, ``multiplier: ...`` as
        Algorithm 1 saw them at the start of the round, and ``trees``, the number of trees after
        it. Rates and violations are those of the rows held out.
    tolerances_ : dict of str to float
        The tolerances that follow from the rows, such as ``{"fnr[sex]": 0.029}``.
    best_iteration_ : int
        Number of rounds in the model kept. ``estimator_.best_iteration_`` of LightGBM is equal.
        ``estimator_.best_iteration`` of XGBoost is one less, because it counts from 0; it exists
        only where early stopping chose the rounds that were kept.
    fairness_report_ : FairnessReport or None
        Rates by group on the held-out rows with intervals, whether each constraint is met, and
        advice; print it. None without constraints and operating point.
    cluster_ : ClusterRun
        Where the model was trained, if it was on a Dask cluster: ``rows`` on each worker,
        ``partitions``, and ``bytes_per_round`` that each gave to sums.
    n_features_in_ : int
        Number of features.
    feature_names_in_ : array of str
        Their names, if X had them.

    Notes
    -----
    With ``constraint=None`` the scores equal those of the engine alone. If a threshold has to be
    found, they equal those of the engine on the rows that are not held out, with losses reweighted
    to the original class balance.
    Sample weights count in the loss and in every rate; ``class_weight``, ``scale_pos_weight`` and
    ``is_unbalance`` of the engine count in the loss only. The rows of a missing group count in the
    loss and in rates of everyone.

    References
    ----------
    A. F. Cruz, C. Belém, S. Jesus, J. Bravo, P. Saleiro, P. Bizarro. FairGBM: Gradient Boosting
    with Fairness Constraints. ICLR 2023.

    Examples
    --------
    >>> from fairboost import FairGBMClassifier
    >>> from fairboost.datasets import make_loans
    >>> from lightgbm import LGBMClassifier
    >>> loans = make_loans(2_000, seed=0)
    >>> engine = LGBMClassifier(n_estimators=20, verbose=-1)
    >>> model = FairGBMClassifier(engine, constraint="equal_opportunity", tolerance=0.02)
    >>> model = model.fit(loans.X, loans.y, sensitive_features=loans.sensitive["sex"])
    >>> model.predict_proba(loans.X).shape
    (2000, 2)
    """

    _predicted = (LABEL, CLASS)
    classes_: np.ndarray
    _base: BaseModel | None = None
    _columns: tuple[int, ...] | None = None

    def __init__(
        self,
        estimator: Classifier | None = None,
        *,
        constraint: ConstraintName | ConstraintLike = "equalized_odds",
        tolerance: float | None = None,
        confidence: float | None = None,
        operating_point: float | OperatingPoint = 0.5,
        holdout: HoldoutLike = "auto",
        multipliers: MultipliersName = "two_sided",
        multiplier_learning_rate: float | Literal["auto"] = "auto",
        proxy: ProxyName | Literal["auto"] | Proxy = "auto",
        memberships: MembershipsName = "auto",
        iterate: IterateName = "best",
        min_group_rows: int = 30,
        random_state: int | np.random.RandomState | None = None,
        verbose: int = 0,
        pos_label: object = None,
        classes: Sequence[Any] | None = None,
        costs: ArrayLike | None = None,
        stage: Classifier | LinearStage | None = None,
        stage_features: Sequence[str | int] | None = None,
    ) -> None:
        self.estimator = estimator
        self.constraint = constraint
        self.tolerance = tolerance
        self.confidence = confidence
        self.operating_point = operating_point
        self.holdout = holdout
        self.multipliers = multipliers
        self.multiplier_learning_rate = multiplier_learning_rate
        self.proxy = proxy
        self.memberships = memberships
        self.iterate = iterate
        self.min_group_rows = min_group_rows
        self.random_state = random_state
        self.verbose = verbose
        self.pos_label = pos_label
        self.classes = classes
        self.costs = costs
        self.stage = stage
        self.stage_features = stage_features

    @classmethod
    def paper(
        cls,
        estimator: Classifier | None = None,
        constraint: ConstraintName | ConstraintLike = "equalized_odds",
        *,
        tolerance: float | None = None,
        multiplier_learning_rate: float = PAPER_LEARNING_RATE,
        proxy: ProxyName | Proxy = "cross_entropy",
        iterate: IterateName = "last",
        random_state: int | np.random.RandomState | None = None,
        verbose: int = 0,
    ) -> Self:
        """Algorithm 1 of the paper exactly, whatever the defaults of the class become.

        Multipliers start at zero and climb by plain projected ascent on the exact training rates,
        proxies are the paper's cross-entropy, the Hessian is the loss's own and decisions are
        taken at 0.5. The derivative is exact for more than two groups, where Eq. 8 of the paper
        carries a factor (m - 1) too many.

        Parameters
        ----------
        estimator, constraint, tolerance, multiplier_learning_rate, proxy, iterate, random_state,
        verbose
            As in the class, but that the tolerance is 0 where none is given;
            ``iterate="randomized"`` is the classifier of the paper's guarantees.

        Examples
        --------
        >>> FairGBMClassifier.paper(constraint="equal_opportunity").proxy
        'cross_entropy'
        """
        if tolerance is None and takes_tolerance(constraint):
            tolerance = 0.0
        return cls(
            estimator,
            constraint=constraint,
            tolerance=tolerance,
            operating_point=0.5,
            holdout=None,
            multipliers="paper",
            multiplier_learning_rate=multiplier_learning_rate,
            proxy=proxy,
            memberships="observed",
            iterate=iterate,
            min_group_rows=0,
            random_state=random_state,
            verbose=verbose,
        )

    def fit(
        self,
        X: Matrix,
        y: ArrayLike,
        *,
        sensitive_features: ArrayLike | None = None,
        sample_weight: ArrayLike | None = None,
        base_score: ArrayLike | None = None,
        holdout_set: tuple[Any, ...] | None = None,
        eval_set: Sequence[tuple[Matrix, ArrayLike]] | None = None,
        eval_names: Sequence[str] | None = None,
        eval_sample_weight: Sequence[ArrayLike] | None = None,
        eval_metric: str | Callable[..., Any] | Sequence[str | Callable[..., Any]] | None = None,
        callbacks: Sequence[Callable[..., Any]] | None = None,
        categorical_feature: Sequence[str | int] | Literal["auto"] = "auto",
    ) -> Self:
        """Train under the constraints.

        Parameters
        ----------
        X : table of shape (n, n_features)
            NumPy, pandas, polars, Arrow or SciPy sparse; handed to the engine as it is. Missing
            values and categorical columns are the engine's matter. Or, with XGBoost,
            :class:`~fairboost.datasets.ParquetRows`, which stay on disk. With a
            ``DaskXGBClassifier`` this and the following are Dask collections.
        y : array-like of shape (n,)
            Labels of any type; of two, ``pos_label`` says which is positive. Three or more are
            classes of which one is given.
        sensitive_features : column or table of columns, optional
            The groups, of any type; missing values are allowed. A group is named by its value
            (1.0 is 1), and groups of ordered categories keep their order. Needed if a constraint
            compares groups. :func:`~fairboost.group_probabilities` stands for groups that are
            known by probability, by itself or in a dict of columns; a column that a constraint
            names by :func:`~fairboost.smooth` holds numbers. Rows are matched by position: pandas
            indices that differ from that of X are refused, here and in y and sample_weight.
        sample_weight : array-like of shape (n,), optional
            Weights of the rows, in the loss and in every rate.
        base_score : array-like of shape (n,), optional
            Probabilities of the positive label by a model that is not at hand, such as a
            vendor's, of rows that it was not trained on. A stage is added to their log-odds, and
            ``estimator`` is left out. Numbers outside of [0, 1] are refused.
        holdout_set : tuple (X, y, sensitive_features[, sample_weight[, base_score]]), optional
            Rows of your own on which rates are read and the iterate is chosen, such as those of
            the latest month. Nothing is then held out of the others, unless ``holdout`` is a
            number: rates are then read on that share of them as well, and the threshold of an
            operating point is placed on your rows alone. Without a constraint and without such a
            point there is no rate to read, and ``trace_`` has the loss on your rows.
            Here and in ``eval_set`` columns are the same as in X, in the same order: other names
            and other categorical columns are refused, and where one of the two has no names
            columns go by position.
        eval_set, eval_names, eval_sample_weight, eval_metric, callbacks, categorical_feature
            As in ``LGBMClassifier.fit``. Metrics see probabilities, as with a binary objective.
            XGBoost takes the last three with its options, and refuses them here.

        Returns
        -------
        self : FairGBMClassifier
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
        for name in ("cluster_", "classes_", "tolerances_"):  # of an earlier fit
            fitted.__dict__.pop(name, None)
        if is_dask_estimator(self.estimator) or is_dask(X):
            asked = self.estimator, self.stage, self.stage_features, base_score
            if asks_for_stage(*asked):
                raise InvalidInputError(
                    "a stage on a base model of another kind is trained on one machine, found a "
                    "Dask collection or estimator; pass the rows as tables, such as X.compute()"
                )
            rows = DaskRows(X, y, sensitive_features, sample_weight)
            result = fitted._train_on_dask(rows, holdout_set, fit_options, self.pos_label)
            fitted._keep(result.training)
            warn_if_adverse(self.constraint, y, fitted._labels, self.pos_label)
        else:
            request = fitted._request(
                X, y, sensitive_features, sample_weight, holdout_set, fit_options, base_score
            )
            fitted._train(request)
        self.__dict__ = fitted.__dict__
        self._warn()
        return self

    def _request(
        self,
        X: Matrix,
        y: ArrayLike,
        sensitive_features: ArrayLike | None,
        sample_weight: ArrayLike | None,
        holdout_set: tuple[Any, ...] | None,
        fit_options: dict[str, Any],
        base_score: ArrayLike | None = None,
    ) -> FitRequest:
        """Check everything; what is wrong raises here."""
        staged = asks_for_stage(self.estimator, self.stage, self.stage_features, base_score)
        whole, self._base = X, None
        self._columns = columns_of_stage(X, self.stage_features)
        if self._columns is not None:
            X = take_columns(X, self._columns)
        if staged:
            check_stage_table(X, named=self._columns is not None)
        else:
            check_readable(X)
        validate_data(self, columns_of_table(whole), skip_check_array=True, reset=True)
        numbers = smooth_of(self.constraint)
        data = check_fit_data(
            X, y, sensitive_features, sample_weight, pos_label=self.pos_label, numbers=numbers
        )
        classes, given, given_X = data.classes, y, X
        if not staged:
            X = in_pandas_if_categorical(X)
            data = replace(data, X=X)
        if staged:
            check_base(self.estimator, base_score, sample_weight, classes)
        fit_options, eval_tables = split_eval_set(fit_options, whole, X, self._columns)
        fit_options = with_evaluation(fit_options, X, given_X)
        options = self._options_for(classes)
        self._check_soft(sensitive_features)
        warn_if_adverse(self.constraint, given, classes, self.pos_label)
        if classes[0] > classes[1]:  # to engines the larger label is the positive one
            y, classes = data.labels, np.array([0, 1])
            fit_options = _with_numbers(fit_options, X, given, data)
        engine = self._engine(X, classes, data.classes, staged)
        engine.check_arguments(X, fit_options)
        self._check_iterate(engine, staged)
        self._stream()  # raises here rather than after training
        unseen = self.iterate in ("average", "randomized") or engine.rescales_trees
        if unseen and holdout_set is None:
            options = options.for_unseen_model(self.iterate)
        self._check_point(staged or engine.base is not None)
        held_out, held_whole, held_score = None, None, None
        if holdout_set is not None:
            self._check_holdout_set(holdout_set)
            if staged:
                asked = holdout_set, self._columns, base_score is not None
                holdout_set, held_whole, held_score = split_holdout_set(*asked)
            held_out = check_holdout_set(holdout_set, X, data.classes, numbers)
        if staged:
            options = for_stage(options, self.stage, engine.n_rounds)
        request = FitRequest(options, engine, y, data, held_out, fit_options, self._seed())
        if staged:
            given_rows = whole, given, base_score, (held_whole, held_score), eval_tables
            self._base, request = on_base(request, self.estimator, *given_rows)
        return request

    def _check_point(self, has_base: bool) -> None:
        """Refuse to place a threshold for a model that stays as it is."""
        moving = isinstance(self.operating_point, OperatingPoint)
        if has_base and moving and self.constraint is None:
            raise InvalidInputError(
                f"operating_point={self.operating_point} without a constraint would add trees to "
                "the frozen model for nothing; fairboost.metrics.threshold_at places a threshold "
                "for a model as it is"
            )

    def _engine(
        self, X: Matrix, classes: np.ndarray, named: np.ndarray, staged: bool = False
    ) -> Engine:
        """Make the engine, for labels as it gets them; ``named`` are the user's."""
        if isinstance(self.estimator, FrozenEstimator) and not staged:
            if classes is not named:
                raise InvalidInputError(
                    f"pos_label={self.pos_label!r}, but the frozen model scores the larger label, "
                    f"{python_value(named[0])!r}; train it on labels of which the positive one "
                    "is the larger, such as 0 and 1"
                )
            return engine_of(self.estimator.estimator).stage_on(self.estimator, X, classes)
        # Without a constraint nothing is asked of a stage.
        rounds = 1 if self.constraint is None else None
        engine = self._chosen(stage_estimator(self.stage, rounds) if staged else self.estimator)
        weights = getattr(engine, "class_weight", None)
        if isinstance(weights, dict) and named.dtype.kind == "M":
            raise EngineOptionError(
                "class_weight cannot name labels that are dates; pass labels as text, such as "
                "y.astype(str), here and in y"
            )
        if classes is not named and isinstance(weights, dict):
            codes = {label: code for code, label in enumerate(named.tolist())}
            engine.set_params(class_weight={codes.get(k, k): w for k, w in weights.items()})
        return engine_of(engine).make(engine, classes)

    def _check_soft(self, sensitive_features: ArrayLike | None) -> None:
        """Refuse groups that rows belong to by weights where training cannot read them."""
        asked = self.constraint, sensitive_features
        if self._several:
            refuse_soft(*asked, *NOT_OF_CLASSES)
        if self.multipliers == "paper":
            refuse_soft(*asked, *NOT_OF_PAPER)
        if is_linear(self.stage):
            refuse_soft(*asked, *NOT_OF_LINEAR)

    def _set_labels(self, classes: np.ndarray) -> None:
        """Set the attributes about labels, of two given the negative and the positive one."""
        self.classes_ = np.unique(classes)
        self.pos_label_ = None if len(classes) > 2 else classes[1]
        self._costs = read_costs(self.costs, len(classes), self.classes_.tolist())

    @property
    def _labels(self) -> np.ndarray:
        """The negative and the positive label; all of three classes or more."""
        if self._several:
            return self.classes_
        return self.classes_ if self.pos_label_ == self.classes_[1] else self.classes_[::-1]

    @property
    def _several(self) -> bool:
        """Whether there are three classes or more."""
        return len(self.classes_) > 2

    def _options_for(self, classes: np.ndarray) -> TrainingOptions:
        """Set the attributes about labels; options that they do not go with are refused."""
        self._set_labels(classes)
        if self._several:
            check_for_several(self.get_params(deep=False), classes.tolist())
        elif self.classes is not None:
            raise InvalidInputError(
                f"classes={self.classes!r} chooses among three classes or more, and y has two; "
                "leave it out"
            )
        return self._options()

    def _options(self) -> TrainingOptions:
        asked: dict[str, Any] = {
            f.name: getattr(self, f.name, None) for f in fields(TrainingOptions)
        }
        if not hasattr(self, "classes_"):  # on a cluster, which has not seen labels yet
            return TrainingOptions(**asked)
        if self._several:
            labels = tuple(self.classes_.tolist())
            return ClassOptions(**asked, labels=labels, classes=self.classes, costs=self._costs)
        if self._costs is not None:
            asked["operating_point"] = self._threshold_of_costs()
        return TrainingOptions(**asked)

    def _threshold_of_costs(self) -> float:
        """What costs of decisions between two labels come to."""
        if self.operating_point != 0.5:
            raise InvalidInputError(
                f"operating_point={self.operating_point} and costs both say where decisions are "
                "made; leave one of them out"
            )
        assert self._costs is not None
        by_label = self._costs if self._labels is self.classes_ else turned(self._costs)
        return threshold_of(by_label)

    def _set_measured(self, measured: MeasuredRates | None, score_threshold: float) -> None:
        """Set the attributes that are about rates and the threshold of the model kept."""
        if measured is not None and self._base is not None:
            measured = replace(measured, rows_seen=self._base.rows_seen)
        self._measured, self._score_threshold = measured, score_threshold
        point = self._options().operating_point
        if isinstance(point, OperatingPoint):
            point = probability_of(score_threshold)
        self.threshold_ = math.nan if self._several else float(point)
        self.fairness_report_ = None if measured is None else self._build_report(measured)

    def _build_report(self, *measured: MeasuredRates) -> FairnessReport:
        return self._judged(*measured, positive="" if self._several else str(self.pos_label_))

    def _rounds_to_settle(self) -> int:
        # A round fits all weights of a linear stage anew: half as many settle them.
        return (1 + isinstance(self.stage, LinearStage)) * super()._rounds_to_settle()

    def _more_rounds(self) -> str:
        on_base = self._base is not None or self._model.n_base > 0
        return more_rounds(self.stage, len(self.trace_)) if on_base else super()._more_rounds()

    @property
    def base_(self) -> Any:
        """The fitted base model that a stage of another kind is added to."""
        check_is_fitted(self, "_model")
        if self._base is None or self._base.estimator is None:
            raise AttributeError("base_: there is no base model beside the booster")
        return self._base.estimator

    def _seen(self, X: Matrix) -> Matrix:
        if self._columns is None:
            return X
        self._check_columns(columns_of_table(X))
        return take_columns(X, self._columns)

    def _scores(
        self, X: Matrix, base_score: ArrayLike | None = None, *, rounds: int | None = None
    ) -> FloatArray:
        scores, base = self._scores_in_parts(X, base_score, rounds=rounds)
        return scores if base is None else scores + base

    def _scores_in_parts(
        self, X: Matrix, base_score: ArrayLike | None = None, *, rounds: int | None = None
    ) -> tuple[FloatArray, FloatArray | None]:
        """Scores by the trees, and by the base model that they are a stage on, if they are."""
        scores = super()._scores(X, rounds=rounds)
        if base_score is not None and (self._base is None or self._base.kind != SCORES):
            raise InvalidInputError(
                "base_score was given, and the model was trained without it; leave it out"
            )
        return scores, None if self._base is None else self._base.log_odds(X, base_score)

    def decision_function(self, X: Matrix, *, base_score: ArrayLike | None = None) -> FloatArray:
        """Log-odds of the larger label, less those of the operating point.

        Parameters
        ----------
        X : table of shape (n, n_features)
        base_score : array-like of shape (n,), optional
            Probabilities by the base model, needed if the model was trained with them.

        Returns
        -------
        scores : (n,) float64
            At or above 0 where ``predict`` says positive; at or below 0 if ``pos_label`` is the
            smaller label, since scikit-learn expects scores of ``classes_[1]``.
        """
        if is_dask(X):
            check_is_fitted(self, "_model")
            columns = (len(self.classes_),) if self._several else ()
            like = np.empty((0, *columns))
            return self._lazily("decision_function", X, like, base_score=base_score)
        check_is_fitted(self, "_model")
        if self._several:
            return self._scores(X)
        margins = self._margins(X, base_score)
        return margins if self._labels is self.classes_ else -margins

    def _margins(self, X: Matrix, base_score: ArrayLike | None = None) -> FloatArray:
        """Log-odds of the positive label, less those of the operating point."""
        scores = self._scores(X, base_score)
        _, positive = self._decide(scores)
        away, least = scores - self._score_threshold, -np.finfo(np.float64).tiny
        return np.where(positive, np.maximum(away, 0.0), np.minimum(away, least))  # may round

    def predict_proba(self, X: Matrix, *, base_score: ArrayLike | None = None) -> FloatArray:
        """Probability of each label, in the order of ``classes_``.

        Parameters
        ----------
        X : table of shape (n, n_features)
        base_score : array-like of shape (n,), optional
            Probabilities by the base model, needed if the model was trained with them.

        Returns
        -------
        proba : (n, n_classes) float64
            Of a Dask collection a Dask array, which is computed partition by partition. Of a
            table in the memory of a GPU an array of CuPy.
        """
        if is_dask(X):
            like = np.empty((0, len(self.classes_)))
            return self._lazily("predict_proba", X, like, base_score=base_score)
        scores = self._scores(X, base_score)
        if self._several:
            found: FloatArray = self._model.probabilities(scores)
            # XGBoost's are of single precision: sums would be off 1 by more than losses of
            # scikit-learn allow.
            found /= found.sum(axis=1, keepdims=True)
            return found
        proba, _ = self._decide(scores)
        columns = [1.0 - proba, proba]
        return np.column_stack(columns if self._labels is self.classes_ else columns[::-1])

    def predict(
        self,
        X: Matrix,
        *,
        base_score: ArrayLike | None = None,
        threshold: float | None = None,
    ) -> np.ndarray:
        """Decide for each row. No group is needed.

        Parameters
        ----------
        X : table of shape (n, n_features)
        base_score : array-like of shape (n,), optional
            Probabilities by the base model, needed if the model was trained with them.
        threshold : float in [0, 1], optional
            Of two labels: the least probability of a positive decision, in place of
            ``threshold_``. The constraints were trained and judged at ``threshold_`` only; at
            another threshold, :func:`fairboost.metrics.audit` gives the rates of the decisions.

        Returns
        -------
        labels : (n,) array
            Of the type of ``classes_``; of NumPy, also where X is in the memory of a GPU.
        """
        if threshold is not None:
            return self._at(threshold).predict(X, base_score=base_score)
        if is_dask(X):
            return self._lazily("predict", X, self.classes_[:0], base_score=base_score)
        scores = self._scores(X, base_score)
        if self._several:
            return self.classes_[given_class(self._model.probabilities(scores), self._costs)]
        _, positive = self._decide(scores)
        decided: BoolArray = on_host(positive)
        return self._labels[decided.astype(np.intp)]

    def _at(self, threshold: float) -> Self:
        """The same model with another threshold, for decisions alone."""
        check_is_fitted(self, "_model")
        if self._several:
            raise InvalidInputError(
                f"threshold={threshold!r} divides two labels, and the model has "
                f"{len(self.classes_)} classes, of which the most likely one is given; leave it "
                "out, and decide by predict_proba"
            )
        if not is_finite(threshold) or not 0 <= threshold <= 1:
            raise InvalidInputError(
                f"threshold must be a probability in [0, 1], found {threshold!r}; leave it out "
                f"for the threshold of the model, {self.threshold_:g}"
            )
        other = copy(self)
        other.threshold_ = float(threshold)
        return other

    def _decide(self, scores: FloatArray) -> tuple[FloatArray, BoolArray]:
        """Probabilities of the positive label, and decisions: what a stock booster would say."""
        proba = self._model.probabilities(scores)
        return proba, proba >= self.threshold_

    def score(
        self,
        X: Matrix,
        y: ArrayLike,
        sample_weight: ArrayLike | None = None,
        *,
        base_score: ArrayLike | None = None,
    ) -> float:
        """The share of rows that are decided rightly, as of any classifier.

        Parameters
        ----------
        X, y, sample_weight
            Rows, labels and weights, as in :meth:`fit`.
        base_score : array-like of shape (n,), optional
            Probabilities by the base model, needed if the model was trained with them. In a
            search, ``set_score_request(base_score=True)`` asks for them.

        Returns
        -------
        accuracy : float
        """
        predicted = self.predict(X, base_score=base_score)
        weight = on_host(sample_weight)
        return float(accuracy_score(on_host(y), predicted, sample_weight=weight))

    def report_on(
        self,
        X: Matrix,
        y: ArrayLike,
        *,
        sensitive_features: ArrayLike,
        sample_weight: ArrayLike | None = None,
        base_score: ArrayLike | None = None,
    ) -> FairnessReport:
        """Judge the constraints on other rows, such as a test set.

        Parameters
        ----------
        X : table of shape (n, n_features)
            The rows; a Dask collection is read partition by partition.
        y, sensitive_features, sample_weight
            Their labels, groups and weights, as in :meth:`fit`. Groups are matched with those of
            training by value: "1" and 1.0 are 1, if training has 1.
        base_score : array-like of shape (n,), optional
            Probabilities by the base model, needed if the model was trained with them.

        Returns
        -------
        report : FairnessReport
            Of these rows as ``test``, beside the rows held out in training; of these rows alone
            if the model was loaded from a file.
        """
        return judge(self, X, y, sensitive_features, sample_weight, base_score=base_score)

    def export(
        self, path: str | Path, format: str | None = None, *, check_on: Matrix | None = None
    ) -> None:
        """Write a file by which others decide as the model does, without fairboost.

        Parameters
        ----------
        path : str or Path
            Where to write. The rule of decisions is written beside it, as ``<path>.decide.json``.
            Of a stage on a base model of another kind the file has the stage alone, and
            ``<path>.base.json`` beside it says how its scores are added to those of the base
            model.
        format : {"lightgbm", "xgboost", "onnx", "onnx_float32", "treelite", "c"}, optional
            Without it the ending ``.onnx`` or ``.tl`` says the format, else it is the engine's
            own. "lightgbm" is the text that ``lightgbm.Booster(model_file=path)`` reads, and
            "xgboost" the JSON of ``xgboost.Booster(model_file=path)``, for which the path must end
            in ``.json``. "onnx" has probabilities and decisions as outputs, with the threshold
            inside; "onnx_float32" is the same in single precision, with one matrix of all
            features as its input. "treelite" is a checkpoint of treelite, and "c" a folder of C
            source with ``decide.json`` in it.
        check_on : table, optional
            Rows that the file is tried on; by default rows drawn from the split points of the
            trees.

        Raises
        ------
        ExportError
            If the model has no equal in the format, if the file decides otherwise than the model
            on the rows, or if a probability differs by more than 1e-6. No file is left then.
        """
        check_is_fitted(self, "_model")
        if self._base is None:
            self._export(path, format, check_on)
        else:
            export_stage(path, format, self)

    def _notes(self) -> dict[str, object]:
        if self._several:
            return {} if self._costs is None else {"costs": self._costs}
        return {"threshold": self.threshold_, "operating_point": self.operating_point}

    def _decision(self) -> Decision:
        if self._several:
            return Decision(self.classes_, costs=self._costs)
        positive = int(self._labels is self.classes_)
        return Decision(self.classes_, positive, self.threshold_)

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.classifier_tags.multi_class = True
        return tags


def _with_numbers(
    fit_options: dict[str, Any], X: Matrix, y: ArrayLike, data: CheckedRows
) -> dict[str, Any]:
    """Options of ``fit`` with the labels of evaluation sets as 0 and 1."""
    encoded = [
        (
            eval_X,
            data.labels  # engines know their training rows by identity
            if eval_X is X and eval_y is y
            else encode_known(eval_y, data.classes, "y of eval_set"),
        )
        for eval_X, eval_y in fit_options.get("eval_set") or ()
    ]
    return {**fit_options, "eval_set": encoded} if encoded else fit_options


def load(path: str | Path, *, base: Any = None) -> Any:  # a checker cannot know which class
    """Read a model that :meth:`FairGBMClassifier.save` or :meth:`FairGBMRegressor.save` wrote.

    Parameters
    ----------
    path : str or Path
        The file. It is checked: a truncated, edited or newer file raises ``ModelFileError``, and
        so does a path without a file, as one that is a ``FileNotFoundError`` too.
    base : classifier or FrozenEstimator, optional
        The fitted base model, where the saved model is a stage on one of another kind. The file
        does not hold it, and identifies it by its scores of a few made-up rows.

    Returns
    -------
    model : FairGBMClassifier or FairGBMRegressor
        Fitted, of the class that was saved; scores and predictions equal those of the saved model
        bit by bit.

    Examples
    --------
    >>> import tempfile, fairboost
    >>> from lightgbm import LGBMClassifier
    >>> X, y = [[1.0], [2.0], [3.0], [4.0]] * 20, ["no", "no", "yes", "yes"] * 20
    >>> engine = LGBMClassifier(n_estimators=5, verbose=-1)
    >>> model = fairboost.FairGBMClassifier(engine, constraint=None).fit(X, y)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     model.save(f"{folder}/model.json")
    ...     again = fairboost.load(f"{folder}/model.json")
    >>> bool((again.predict_proba(X) == model.predict_proba(X)).all())
    True
    """
    kinds: dict[str, Any] = {
        LABEL: FairGBMClassifier, CLASS: FairGBMClassifier, NUMBER: FairGBMRegressor
    }  # fmt: skip
    known = {name: set(kind._get_param_names()) for name, kind in kinds.items()}
    predicts, parameters, fitted = read_model(path, known, base)
    model = kinds[predicts](**parameters)
    for name, value in fitted.items():
        setattr(model, name, value)
    return model
