"""Which engine trains an estimator: the one place that knows them all.

An estimator is told by the package that its class comes from, so that no engine has to be
imported, or even installed, for the sake of another. A further engine is a folder beside this file
with a module ``engine``, and its name in ``ENGINES``.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any, Protocol, cast

from sklearn.frozen import FrozenEstimator

from fairboost._typing import Matrix
from fairboost.engines.linear.stage import LinearStage
from fairboost.engines.options import check_kind
from fairboost.engines.port import Engine, TrainedModel
from fairboost.exceptions import ModelFileError

ENGINES = ("lightgbm", "xgboost")
"""Names of the packages; the first is there always."""
LINEAR = "linear"
"""The engine of :class:`~fairboost.LinearStage`, which is of no package of its own."""


class EngineModule(Protocol):
    """What a file of an engine offers."""

    def version(self) -> str:
        """Version of the package."""

    def check_estimator(self, estimator: Any) -> None:
        """Refuse an estimator that the engine cannot train, or options that do not fit."""

    def make(self, estimator: Any, classes: Any) -> Engine:
        """An engine that trains from scratch."""

    def stage_on(self, frozen: FrozenEstimator, X: Matrix, classes: Any) -> Engine:
        """An engine that goes on from a fitted estimator."""

    def make_estimator(self, *, regressor: bool = False, **options: Any) -> Any:
        """An estimator with these options; one that predicts numbers if asked."""

    def split_points(self, text: str, n_features: int) -> dict[int, list[float]]:
        """Check the text of a booster; returns the values at which each feature is split."""

    def restore(
        self,
        estimator: Any,
        text: str,
        intercept: Any,
        classes: Any,
        n_features: int,
        n_base: int,
    ) -> TrainedModel:
        """A fitted model from the text of its booster, which is checked."""


def name_of(estimator: object) -> str:
    """Name of the engine that an estimator, or a class of them, belongs to.

    Examples
    --------
    >>> from lightgbm import LGBMClassifier
    >>> name_of(LGBMClassifier())
    'lightgbm'
    """
    if is_linear(estimator):
        return LINEAR
    # Of no engine: the first one says what it expects.
    return next((p for p in _packages(estimator) if p in ENGINES), ENGINES[0])


def is_linear(estimator: object) -> bool:
    """Whether it is a stage of few weights."""
    return isinstance(estimator, LinearStage)


def is_of_engine(estimator: object) -> bool:
    """Whether an estimator, or a class of them, belongs to an engine.

    Examples
    --------
    >>> from sklearn.linear_model import LogisticRegression
    >>> is_of_engine(LogisticRegression())
    False
    """
    return any(package in ENGINES for package in _packages(estimator))


def _packages(estimator: object) -> list[str]:
    """The packages that the class of an estimator, and those it inherits from, come from."""
    kind = estimator if isinstance(estimator, type) else type(estimator)
    return [c.__module__.partition(".")[0] for c in kind.__mro__]


def engine_of(estimator: object) -> EngineModule:
    """The engine that an estimator belongs to."""
    return load_engine(name_of(estimator))


def check_predicts(estimator: object, *, number: bool) -> None:
    """Refuse what is no estimator of an engine, or one that predicts something else."""
    check_kind(estimator, type(engine_of(estimator).make_estimator(regressor=number)))


def default_estimator(**options: Any) -> Any:
    """An unfitted estimator of the first engine; it is imported when this is called.

    Examples
    --------
    >>> default_estimator(n_estimators=20).n_estimators
    20
    """
    return load_engine(ENGINES[0]).make_estimator(**options)


def load_engine(name: str) -> EngineModule:
    """The engine of that name, as a model file gives it."""
    if name not in (*ENGINES, LINEAR):
        raise ModelFileError(
            f"the model was trained by the engine {name!r}, expected {' or '.join(ENGINES)}; "
            "install a newer fairboost"
        )
    try:
        return cast(EngineModule, import_module(f"fairboost.engines.{name}.engine"))
    except ModuleNotFoundError as error:
        raise ImportError(
            f"{name}, the engine of this model, is not installed; pip install 'fairboost[{name}]'"
        ) from error
