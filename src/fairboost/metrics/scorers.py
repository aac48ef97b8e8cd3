"""Gaps and ratios as scorers, for grid searches and cross-validation by scikit-learn.

A scorer is called with a fitted model and the rows to score it on; the groups of these rows come
by metadata routing, which the scorers ask for, or are columns of X::

    sklearn.set_config(enable_metadata_routing=True)
    cross_validate(
        model.set_fit_request(sensitive_features=True), X, y,
        scoring={"accuracy": "accuracy", "gap": gap_scorer("fnr")},
        params={"sensitive_features": sex},
    )
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from sklearn.utils.metadata_routing import MetadataRequest

from fairboost._typing import ArrayLike, Classifier, Matrix
from fairboost.exceptions import InvalidInputError
from fairboost.fairness.rates import Rate
from fairboost.metrics.group_metrics import as_rate_or_precision, gap, ratio
from fairboost.metrics.intervals import Estimate

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
        if self.columns is not None:
            named = [self.columns] if isinstance(self.columns, str) else list(self.columns)
            sensitive_features = X[named]
        if sensitive_features is None:
            raise InvalidInputError(
                f"a scorer of {self.figure.__name__}s needs the groups of the rows, but "
                "sensitive_features is missing; call "
                "sklearn.set_config(enable_metadata_routing=True) and pass params="
                '{"sensitive_features": ...}, or name columns of X: columns="sex"'
            )
        found = self.figure(
            y, estimator.predict(X), rate=self.rate, by=self.by, n_bootstrap=0,
            sensitive_features=sensitive_features, sample_weight=sample_weight,
            pos_label=_positive(estimator) if self.pos_label is None else self.pos_label,
        )  # fmt: skip
        return self.sign * float(found)

    def get_metadata_routing(self) -> MetadataRequest:
        """What scikit-learn is to pass: groups and weights, if they are given to it."""
        request = MetadataRequest(owner=type(self).__name__)
        for name in ROUTED:
            request.score.add_request(param=name, alias=True)
        return request


def gap_scorer(
    rate: str | Rate,
    *,
    by: str | tuple[str, ...] | None = None,
    columns: str | tuple[str, ...] | None = None,
    pos_label: object = None,
) -> FairnessScorer:
    """Score models by the largest difference of a rate between groups, negated.

    Parameters
    ----------
    rate, by
        As in :func:`~fairboost.metrics.gap`.
    columns : str or tuple of str, optional
        Columns of X that have the groups, if they are not passed as ``sensitive_features``.
    pos_label : optional
        The positive label; the model's own if left out.

    Returns
    -------
    scorer : FairnessScorer
        For ``scoring=`` of scikit-learn; 0 is parity, -1 is the worst.

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
    return FairnessScorer(gap, -1.0, rate, by, columns, pos_label)


def ratio_scorer(
    rate: str | Rate,
    *,
    by: str | tuple[str, ...] | None = None,
    columns: str | tuple[str, ...] | None = None,
    pos_label: object = None,
) -> FairnessScorer:
    """Score models by the smallest rate of a group over the largest.

    Parameters
    ----------
    rate, by, columns, pos_label
        As in :func:`gap_scorer`.

    Returns
    -------
    scorer : FairnessScorer
        For ``scoring=`` of scikit-learn; 1 is parity, 0 is the worst.

    Examples
    --------
    >>> ratio_scorer("ppr", columns="sex").rate
    'ppr'
    """
    return FairnessScorer(ratio, 1.0, rate, by, columns, pos_label)


def _positive(estimator: Any) -> object:
    """The label that a model takes for positive: its own choice, or the larger one."""
    last = getattr(estimator, "_final_estimator", estimator)  # of a pipeline
    return getattr(last, "pos_label_", estimator.classes_[-1])
