"""Models inside the wrappers of scikit-learn: verdicts on the rows that the wrapper takes."""

from __future__ import annotations

from typing import Any

from sklearn.base import BaseEstimator
from sklearn.frozen import FrozenEstimator
from sklearn.pipeline import Pipeline
from sklearn.utils.validation import check_is_fitted

from fairboost._typing import ArrayLike, Matrix
from fairboost.data.validation import check_same_rows
from fairboost.exceptions import InvalidInputError
from fairboost.model.base import FairBooster
from fairboost.verdicts.fairness_report import FairnessReport


def report_on(
    model: Any,
    X: Matrix,
    y: ArrayLike,
    *,
    sensitive_features: ArrayLike,
    sample_weight: ArrayLike | None = None,
    base_score: ArrayLike | None = None,
    exposure: ArrayLike | None = None,
) -> FairnessReport:
    """Judge the constraints of a model on other rows, also where a pipeline prepares them.

    Parameters
    ----------
    model : FairGBMClassifier, FairGBMRegressor, Pipeline or search
        A fitted model; a ``Pipeline`` whose last step is one; a search of scikit-learn, such as
        ``GridSearchCV``, of which ``best_estimator_`` is judged; or one of these in a
        ``FrozenEstimator``. Wrappers that change decisions, such as ``CalibratedClassifierCV``,
        are refused.
    X : table of shape (n, n_features)
        The rows as ``model.predict`` takes them. The steps of a pipeline transform them.
    y, sensitive_features, sample_weight
        Their labels or targets, groups and weights, as in ``fit``.
    base_score, exposure : array-like of shape (n,), optional
        As in :meth:`FairGBMClassifier.report_on` and :meth:`FairGBMRegressor.report_on`, each for
        its own kind of model.

    Returns
    -------
    report : FairnessReport
        Of these rows as ``test``, beside the rows held out in training.

    Examples
    --------
    >>> import fairboost
    >>> from fairboost.datasets import make_loans
    >>> from lightgbm import LGBMClassifier
    >>> from sklearn.pipeline import make_pipeline
    >>> from sklearn.preprocessing import StandardScaler
    >>> loans, new = make_loans(2_000, seed=0), make_loans(2_000, seed=1)
    >>> numbers = loans.X.select_dtypes("number").columns
    >>> engine = LGBMClassifier(n_estimators=20, verbose=-1)
    >>> fair = fairboost.FairGBMClassifier(engine, constraint="equal_opportunity", tolerance=0.1)
    >>> pipe, sex = make_pipeline(StandardScaler(), fair), loans.sensitive["sex"]
    >>> pipe = pipe.fit(loans.X[numbers], loans.y, fairgbmclassifier__sensitive_features=sex)
    >>> sex = new.sensitive["sex"]
    >>> report = fairboost.report_on(pipe, new.X[numbers], new.y, sensitive_features=sex)
    >>> [verdict.constraint for verdict in report.test_verdicts]
    ['false negative rate equal by sex, tolerance 0.1']
    """
    found, rows = model, X
    while not isinstance(found, FairBooster):
        found, rows = _inside(found, rows)
    # Steps of a pipeline may drop the index of a table, by which rows are compared.
    check_same_rows(
        X=X, y=y, sensitive_features=sensitive_features, sample_weight=sample_weight,
        base_score=base_score, exposure=exposure,
    )  # fmt: skip
    given = {"base_score": base_score, "exposure": exposure}
    beside: dict[str, Any] = {name: part for name, part in given.items() if part is not None}
    judged: Any = found
    report: FairnessReport = judged.report_on(
        rows, y, sensitive_features=sensitive_features, sample_weight=sample_weight, **beside
    )
    return report


def _inside(model: Any, X: Matrix) -> tuple[Any, Matrix]:
    """What a wrapper holds, and its rows as that takes them."""
    name = type(model).__name__
    if isinstance(model, Pipeline):
        return model[-1], model[:-1].transform(X) if len(model) > 1 else X
    if isinstance(model, FrozenEstimator):
        return model.estimator, X
    if hasattr(model, "best_estimator_"):
        return model.best_estimator_, X
    if isinstance(model, BaseEstimator):
        check_is_fitted(model)
    if hasattr(model, "cv_results_"):
        raise InvalidInputError(
            f"{name} was fitted with refit=False and keeps no model; fit it with refit=True"
        )
    raise InvalidInputError(
        "report_on judges a FairGBMClassifier or FairGBMRegressor, also at the end of a Pipeline "
        f"or inside a search, found {name}. A wrapper that changes scores or thresholds decides "
        "otherwise than the model inside it; fairboost.metrics.audit(y, scores, "
        "sensitive_features=...) gives the rates of any model"
    )
