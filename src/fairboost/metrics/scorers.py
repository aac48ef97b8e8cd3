"""Gaps and ratios as scorers, for grid searches and cross-validation by scikit-learn.

A scorer is called with a fitted model and the rows to score it on; the groups of these rows come
by metadata routing, which the scorers ask for, or are columns of X::

    sklearn.set_config(enable_metadata_routing=True)
    cross_validate(
        model.set_fit_request(sensitive_features=True), X, y,
        scoring={"accuracy": "accuracy", "gap": gap_scorer("fnr")},
        params={"sensitive_features": sex},
    )

Models that give one of several classes are scored by the rates of
:func:`~fairboost.metrics.audit_classes`, models that predict numbers by the figures of
:func:`~fairboost.metrics.audit_numbers`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from sklearn.utils.metadata_routing import MetadataRequest

from fairboost._typing import ArrayLike, Classifier, FloatArray, Matrix
from fairboost.data.validation import as_column, read_targets
from fairboost.exceptions import InvalidInputError
from fairboost.fairness.classes import CLASS_RATES, ClassRate
from fairboost.fairness.means import NUMBERS
from fairboost.fairness.rates import Rate
from fairboost.kernel.losses import Loss
from fairboost.metrics.classes import class_gaps
from fairboost.metrics.group_metrics import as_rate_or_precision, gap, ratio
from fairboost.metrics.intervals import Estimate
from fairboost.metrics.numbers import COMPARED, as_loss, audit_numbers, mean_loss

ROUTED = ("sensitive_features", "sample_weight")


@dataclass(frozen=True)
class FairnessScorer:
    """A scorer of scikit-learn: larger is fairer. Made by :func:`gap_scorer` and others.

    Parameters
    ----------
    figure : callable
        :func:`~fairboost.metrics.gap` or :func:`~fairboost.metrics.ratio`.
    sign : float
        -1 where the figure is better the smaller it is.
    rate, by, columns, pos_label
        As in :func:`gap_scorer`.
    """

    figure: Callable[..., Estimate]
    sign: float
    rate: str | Rate
    by: str | tuple[str, ...] | None
    columns: str | tuple[str, ...] | None
    pos_label: object

    def __post_init__(self) -> None:
        as_rate_or_precision(self.rate)  # raises here what a grid search would only warn of

    def __call__(
        self,
        estimator: Classifier,
        X: Matrix,
        y: ArrayLike,
        *,
        sensitive_features: ArrayLike | None = None,
        sample_weight: ArrayLike | None = None,
    ) -> float:
        """Score the decisions of a model on some rows."""
        sensitive_features = _groups(
            X, self.columns, sensitive_features, f"{self.figure.__name__}s"
        )
        found = self.figure(
            y, estimator.predict(X), rate=self.rate, by=self.by,
            sensitive_features=sensitive_features, sample_weight=sample_weight,
            pos_label=_positive(estimator) if self.pos_label is None else self.pos_label,
        )  # fmt: skip
        return self.sign * float(found)

    def get_metadata_routing(self) -> MetadataRequest:
        """What scikit-learn is to pass: groups and weights, if they are given to it."""
        return _request(self, *ROUTED)


@dataclass(frozen=True)
class ClassScorer:
    """A scorer of models that give one of several classes: larger is fairer.

    Made by :func:`gap_scorer` and :func:`ratio_scorer`.

    Parameters
    ----------
    figure : {"gap", "ratio"}
        What is compared: the largest gap, negated, or the smallest ratio.
    rate : {"given", "recall", "confused", "accuracy"}
        The rate.
    of, by, columns
        As in :func:`gap_scorer`.
    """

    figure: Literal["gap", "ratio"]
    rate: str
    of: object
    by: str | tuple[str, ...] | None
    columns: str | tuple[str, ...] | None

    def __post_init__(self) -> None:
        two = isinstance(self.of, tuple) and len(self.of) == 2
        if self.of is not None and (self.rate == "accuracy" or (self.rate == "confused") != two):
            expected = {
                "accuracy": "none: it is of all classes",
                "confused": "two classes, (a, b)",
            }
            raise InvalidInputError(
                f"of={self.of!r} is not a class of the rate {self.rate!r}; expected "
                f"{expected.get(self.rate, 'one class')}"
            )

    def __call__(
        self,
        estimator: Classifier,
        X: Matrix,
        y: ArrayLike,
        *,
        sensitive_features: ArrayLike | None = None,
        sample_weight: ArrayLike | None = None,
    ) -> float:
        """Score the decisions of a model on some rows."""
        groups = _groups(X, self.columns, sensitive_features, f"{self.figure}s")
        # Rows to score may be without a class, or have one that the model was not trained on.
        known = dict.fromkeys([*estimator.classes_.tolist(), *np.unique(as_column(y)).tolist()])
        for label in self.of if isinstance(self.of, tuple) else (self.of,):
            if label is not None and label not in known:
                raise InvalidInputError(
                    f"a scorer names the class {label!r}, which is not among those of the model, "
                    f"{', '.join(map(repr, known))}; correct of="
                )
        found = class_gaps(
            y, estimator.predict(X), rate=ClassRate(self.rate, self.of), by=self.by,
            sensitive_features=groups, sample_weight=sample_weight, classes=known,
        )[self.figure]  # fmt: skip
        return -float(found.max()) if self.figure == "gap" else float(found.min())

    def get_metadata_routing(self) -> MetadataRequest:
        """What scikit-learn is to pass: groups and weights, if they are given to it."""
        return _request(self, *ROUTED)


@dataclass(frozen=True)
class NumberScorer:
    """A scorer of models that predict numbers: 0 is best. Made by :func:`gap_scorer` and others.

    Parameters
    ----------
    figure : str
        What is compared, as in ``gaps`` of :class:`~fairboost.metrics.NumberAudit`; empty for the
        mean loss of everyone.
    by, columns, loss
        As in :func:`gap_scorer`.
    """

    figure: str
    by: str | tuple[str, ...] | None
    columns: str | tuple[str, ...] | None
    loss: str | Loss | None

    def __post_init__(self) -> None:
        if self.loss is not None:
            as_loss(self.loss)  # raises here what a grid search would only warn of

    def __call__(
        self,
        estimator: Any,
        X: Matrix,
        y: ArrayLike,
        *,
        sensitive_features: ArrayLike | None = None,
        sample_weight: ArrayLike | None = None,
        exposure: ArrayLike | None = None,
    ) -> float:
        """Score the predictions of a model on some rows; they are per unit of exposure."""
        predicted: FloatArray = read_targets(estimator.predict(X), "predictions")
        if exposure is not None:
            predicted = predicted * read_targets(exposure, "exposure")
        loss = _own_loss(estimator) if self.loss is None else self.loss
        rows: dict[str, Any] = {"exposure": exposure, "sample_weight": sample_weight, "loss": loss}
        if not self.figure:
            return -float(mean_loss(y, predicted, **rows))
        groups = _groups(X, self.columns, sensitive_features, COMPARED[self.figure])
        gaps = audit_numbers(y, predicted, sensitive_features=groups, by=self.by, **rows).gaps
        found = gaps[gaps["figure"] == self.figure]
        if len(found) > 1:
            raise InvalidInputError(
                f"a scorer compares the groups of one attribute, found "
                f"{found['attribute'].tolist()}; choose one with by="
            )
        return -float(found["value"].iloc[0])

    def get_metadata_routing(self) -> MetadataRequest:
        """What scikit-learn is to pass: groups, weights and exposures, if they are given to it."""
        return _request(self, *ROUTED[0 if self.figure else 1 :], "exposure")


def gap_scorer(
    rate: str | Rate,
    *,
    by: str | tuple[str, ...] | None = None,
    columns: str | tuple[str, ...] | None = None,
    pos_label: object = None,
    loss: str | Loss | None = None,
    of: object = None,
) -> FairnessScorer | ClassScorer | NumberScorer:
    """Score models by the largest difference of a rate between groups, negated.

    Parameters
    ----------
    rate, by
        As in :func:`~fairboost.metrics.gap`; of three classes or more ``"given"``, ``"recall"``,
        ``"confused"`` or ``"accuracy"``, as in :func:`~fairboost.metrics.audit_classes`; or
        ``"prediction"`` or ``"loss"``, whose means are compared where numbers are predicted.
    columns : str or tuple of str, optional
        Columns of X that have the groups, if they are not passed as ``sensitive_features``.
    pos_label : optional
        The positive label; the model's own if left out.
    loss : {"squared", "absolute", "poisson", "gamma", "tweedie"}, optional
        The loss that ``"loss"`` compares. By default it is that of a ``FairGBMRegressor``; for
        other models the squared error, or the Poisson deviance if there are exposures.
    of : label, or (label, label), optional
        The class of ``"given"`` or ``"recall"``; for ``"confused"`` the class of the rows and the
        class that they are given. By default the largest gap over all classes counts.

    Returns
    -------
    scorer : FairnessScorer, ClassScorer or NumberScorer
        For ``scoring=`` of scikit-learn; 0 is parity, and of rates -1 is the worst.

    Examples
    --------
    >>> from lightgbm import LGBMClassifier
    >>> from fairboost.datasets import make_loans
    >>> loans = make_loans(1_000, seed=0)
    >>> plain = LGBMClassifier(n_estimators=5, verbose=-1).fit(loans.X, loans.y)
    >>> scorer = gap_scorer("fnr")
    >>> bool(-1 < scorer(plain, loans.X, loans.y, sensitive_features=loans.sensitive["sex"]) < 0)
    True
    """
    if isinstance(rate, str) and rate in (NUMBERS["prediction"].name, NUMBERS["loss"].name):
        _check_of(rate, of)
        return NumberScorer(f"mean_{rate}", by, columns, loss)
    if isinstance(rate, str) and rate in CLASS_RATES:
        return ClassScorer("gap", rate, of, by, columns)
    _check_of(rate, of)
    return FairnessScorer(gap, -1.0, rate, by, columns, pos_label)


def distance_scorer(
    *,
    by: str | tuple[str, ...] | None = None,
    columns: str | tuple[str, ...] | None = None,
) -> NumberScorer:
    """Score models by how far a group's distribution of predictions is from everyone's, negated.

    Parameters
    ----------
    by, columns
        As in :func:`gap_scorer`.

    Returns
    -------
    scorer : NumberScorer
        For ``scoring=`` of scikit-learn; 0 is parity, -1 is the worst.

    Examples
    --------
    >>> distance_scorer(columns="sex").figure
    'distance'
    """
    return NumberScorer("distance", by, columns, None)


def a_over_e_scorer(
    *,
    by: str | tuple[str, ...] | None = None,
    columns: str | tuple[str, ...] | None = None,
) -> NumberScorer:
    """Score models by the largest distance of a group's actual over expected from 1, negated.

    Parameters
    ----------
    by, columns
        As in :func:`gap_scorer`.

    Returns
    -------
    scorer : NumberScorer
        For ``scoring=`` of scikit-learn; at 0 every group is calibrated.

    Examples
    --------
    >>> a_over_e_scorer(columns="sex").figure
    'a_over_e'
    """
    return NumberScorer("a_over_e", by, columns, None)


def loss_scorer(loss: str | Loss | None = None) -> NumberScorer:
    """Score models by their mean loss, negated; per unit of exposure if there are exposures.

    scikit-learn's own scorers take no exposures: they would compare a rate with a count.

    Parameters
    ----------
    loss
        As in :func:`gap_scorer`.

    Returns
    -------
    scorer : NumberScorer
        For ``scoring=`` of scikit-learn.

    Examples
    --------
    >>> loss_scorer("poisson").loss
    'poisson'
    """
    return NumberScorer("", None, None, loss)


def ratio_scorer(
    rate: str | Rate,
    *,
    by: str | tuple[str, ...] | None = None,
    columns: str | tuple[str, ...] | None = None,
    pos_label: object = None,
    of: object = None,
) -> FairnessScorer | ClassScorer:
    """Score models by the smallest rate of a group over the largest.

    Parameters
    ----------
    rate, by, columns, pos_label, of
        As in :func:`gap_scorer`, but for rates alone; of all classes the smallest ratio counts.

    Returns
    -------
    scorer : FairnessScorer or ClassScorer
        For ``scoring=`` of scikit-learn; 1 is parity, 0 is the worst.

    Examples
    --------
    >>> ratio_scorer("ppr", columns="sex").rate
    'ppr'
    """
    if isinstance(rate, str) and rate in CLASS_RATES:
        return ClassScorer("ratio", rate, of, by, columns)
    _check_of(rate, of)
    return FairnessScorer(ratio, 1.0, rate, by, columns, pos_label)


def _check_of(rate: str | Rate, of: object) -> None:
    """Refuse a class of a rate that has none."""
    if of is not None:
        raise InvalidInputError(
            f"of={of!r} names a class, which {rate!r} is not a rate of; expected one of "
            f"{', '.join(map(repr, CLASS_RATES))}, or leave of= out"
        )


def _groups(
    X: Matrix, columns: str | tuple[str, ...] | None, given: ArrayLike | None, what: str
) -> ArrayLike:
    """The groups of rows: columns of X by name, or what was routed."""
    if columns is not None:
        return X[[columns] if isinstance(columns, str) else list(columns)]
    if given is None:
        raise InvalidInputError(
            f"a scorer of {what} needs the groups of the rows, but sensitive_features is missing; "
            "call sklearn.set_config(enable_metadata_routing=True) and pass params="
            '{"sensitive_features": ...}, or name columns of X: columns="sex"'
        )
    return given


def _request(scorer: object, *names: str) -> MetadataRequest:
    """Ask scikit-learn to pass some arguments, if they are given to it."""
    request = MetadataRequest(owner=type(scorer).__name__)
    for name in names:
        request.score.add_request(param=name, alias=True)
    return request


def _last(estimator: Any) -> Any:
    """The model itself, at the end of a pipeline."""
    return getattr(estimator, "_final_estimator", estimator)


def _own_loss(estimator: Any) -> Loss | None:
    """The loss that a model was trained by, where it says so."""
    terms = getattr(_last(estimator), "_loss_terms", None)
    return None if terms is None else terms.loss


def _positive(estimator: Any) -> object:
    """The label that a model takes for positive: its own choice, or the larger one."""
    return getattr(_last(estimator), "pos_label_", estimator.classes_[-1])
