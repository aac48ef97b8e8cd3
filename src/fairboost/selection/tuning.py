"""``tune``: search the engine's options for the trade-off, and keep the model within a tolerance.

Every trial draws options, trains one model without constraints and a short stage per tolerance on
top of it (:func:`fairboost.tradeoff_curve`), so a trial yields a whole curve. All models are
judged on validation rows that none of them has seen. The search is the study's: trials are kept in
an Optuna storage, can be killed and gone on with, and are shared by several processes.
"""

from __future__ import annotations

import hashlib
import json
import time
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import pandas as pd
from lightgbm import LGBMClassifier
from sklearn.base import clone
from sklearn.metrics import check_scoring
from sklearn.model_selection import train_test_split
from tqdm.auto import tqdm

from fairboost._typing import ArrayLike, Classifier, Matrix
from fairboost.data.validation import as_column, by_row, read_weights, take_rows
from fairboost.exceptions import FairnessWarning, InvalidInputError, NotMetWarning
from fairboost.fairness.constraints import ConstraintLike, ConstraintName, check_tolerance
from fairboost.fairness.operating_points import OperatingPoint
from fairboost.model.estimator import FairGBMClassifier
from fairboost.plots import TradeoffDisplay
from fairboost.selection.tradeoff import TradeoffCurve, tradeoff_curve

if TYPE_CHECKING:
    from matplotlib.axes import Axes

VALIDATION_SHARE = 0.2
_COMMON: dict[str, Any] = {
    "n_estimators": {"low": 50, "high": 500, "log": True},
    "learning_rate": {"low": 0.02, "high": 0.3, "log": True},
    "reg_lambda": {"low": 1e-3, "high": 10.0, "log": True},
}
SPACES: dict[str, dict[str, Any]] = {
    "LGBMClassifier": {
        **_COMMON,
        "num_leaves": {"low": 7, "high": 127, "log": True},
        "min_child_samples": {"low": 5, "high": 200, "log": True},
    },
    "XGBClassifier": {
        **_COMMON,
        "max_depth": {"low": 3, "high": 10},
        "min_child_weight": {"low": 1.0, "high": 50.0, "log": True},
    },
}
"""What is searched by default, by engine."""


@dataclass(frozen=True, eq=False)
class Tuned:
    """What :func:`tune` found.

    Parameters
    ----------
    table : pandas.DataFrame
        One row per model, of all trials: ``trial``, ``tolerance`` (missing for the one without
        constraints), ``score``, ``accuracy`` and ``gap`` on the validation rows with intervals,
        ``trees``, ``front`` (no other model is better in score and gap), and the options.
    tolerance : float
        The gap that was asked for.
    """

    table: pd.DataFrame
    tolerance: float
    _refit: Callable[[int], TradeoffCurve] = field(repr=False)
    _curves: dict[int, TradeoffCurve] = field(default_factory=dict, repr=False)

    @property
    def front(self) -> pd.DataFrame:
        """The trade-off: models that no other beats, from the most accurate to the fairest."""
        return self.table[self.table["front"]].sort_values("score", ascending=False)

    @property
    def model(self) -> FairGBMClassifier:
        """The model for the tolerance asked for; the fairest, with a warning, if none meets it."""
        if (self.table["gap"] <= self.tolerance).any():
            return self.within(self.tolerance)
        least: Any = self.table["gap"].idxmin()
        warnings.warn(
            f"no model of the search has a gap within {self.tolerance:g} on the validation rows; "
            f"this is the one of least gap, {self.table['gap'][least]:.4f}",
            NotMetWarning,
            stacklevel=2,
        )
        return self._model(least)

    def within(self, tolerance: float) -> FairGBMClassifier:
        """The best model whose gap on the validation rows is within a tolerance.

        Parameters
        ----------
        tolerance : float
            The largest gap to accept.
        """
        fair = self.table[self.table["gap"] <= tolerance]
        if fair.empty:
            raise InvalidInputError(
                f"no model of the search has a gap within {tolerance:g} on the validation rows; "
                f"the least is {self.table['gap'].min():.4f}. Accept that, or search longer: "
                "tune(n_trials=...)"
            )
        return self._model(fair["score"].idxmax())

    def best(self, alpha: float = 0.5) -> FairGBMClassifier:
        """The model of largest ``alpha * score + (1 - alpha) * (1 - gap)``.

        Parameters
        ----------
        alpha : float in [0, 1], default=0.5
            What the score weighs against fairness.
        """
        if not 0 <= alpha <= 1:
            raise InvalidInputError(
                f"alpha must lie in [0, 1], found {alpha!r}; 1 asks for the score alone, 0 for "
                "fairness alone"
            )
        merit = alpha * self.table["score"] + (1 - alpha) * (1 - self.table["gap"])
        return self._model(merit.idxmax())

    def plot(self, ax: Axes | None = None) -> TradeoffDisplay:
        """Accuracy against gap of the models on the front, with intervals.

        Parameters
        ----------
        ax : matplotlib.axes.Axes, optional
            Where to draw; a new figure if left out.
        """
        display = TradeoffDisplay(self.front).plot(ax)
        display.ax_.set_xlabel("gap between groups, validation rows")
        display.ax_.set_ylabel("accuracy, validation rows")
        return display

    def _model(self, line: Any) -> FairGBMClassifier:
        """Train the trial again that a line is of: what is stored of it are figures."""
        trial = int(self.table.loc[line, "trial"])
        if trial not in self._curves:
            self._curves[trial] = self._refit(trial)
        return self._curves[trial].models[int(self.table.loc[line, "model"])]


def tune(
    estimator: Classifier | None,
    X: Matrix,
    y: ArrayLike,
    *,
    sensitive_features: ArrayLike,
    constraint: ConstraintName | ConstraintLike = "equalized_odds",
    tolerance: float = 0.01,
    space: Mapping[str, Any] | None = None,
    scoring: str | Callable[..., float] = "accuracy",
    n_trials: int = 30,
    timeout: float | None = None,
    models: int = 10,
    sample_weight: ArrayLike | None = None,
    validation_set: tuple[Any, ...] | None = None,
    operating_point: float | OperatingPoint = 0.5,
    sampler: Literal["tpe", "random", "nsga2"] = "tpe",
    storage: str | None = None,
    name: str = "tune",
    random_state: int = 0,
    verbose: int = 0,
) -> Tuned:
    """Search for the trade-off between a score and fairness, a whole curve per trial.

    Parameters
    ----------
    estimator : LGBMClassifier, XGBClassifier or None
        The engine with the options that stay; ``LGBMClassifier()`` if None.
    X, y, sensitive_features, sample_weight
        As in :meth:`FairGBMClassifier.fit`.
    constraint, operating_point
        As in :class:`FairGBMClassifier`; the tolerance of every parity is varied.
    tolerance : float, default=0.01
        The gap that :attr:`Tuned.model` has to keep within, and that the search aims at.
    space : mapping, optional
        Options of the engine to search: ``{"low": 10, "high": 100, "log": True}`` is a range, a
        list is a choice. Trees, their size, rows per leaf, learning rate and L2 if left out.
    scoring : str or callable, default="accuracy"
        A scorer of scikit-learn; larger is better. ``"recall"`` where the operating point is a
        false positive rate or a budget.
    n_trials : int, default=30
        Trials in all, those of earlier runs with the same storage included.
    timeout : float, optional
        Begin no trial after so many seconds.
    models : int, default=10
        Models in a curve.
    validation_set : tuple (X, y, sensitive_features[, sample_weight]), optional
        Rows to judge models by; a fifth of the rows, drawn by label, if left out.
    sampler : {"tpe", "random", "nsga2"}, default="tpe"
        How Optuna proposes options, with two objectives: the score and the gap of the best model
        of the trial, which is the best within the tolerance, or that of least gap.
    storage : str, optional
        An Optuna URL such as ``"sqlite:///tune.db"``: the search can then be gone on with, and
        shared by several processes. In memory if left out.
    name : str, default="tune"
        Of the search in the storage.
    random_state : int, default=0
        Seeds the split, the search and every training.
    verbose : int, default=0
        1 shows a progress bar.

    Returns
    -------
    tuned : Tuned
        ``model``, ``within(tolerance)``, ``best(alpha)``, ``table``, ``front``, ``plot()``. Models
        are trained again when they are asked for.

    Notes
    -----
    The figures are those of the models that looked best on the validation rows, and so a little
    too good; judge the model that you keep on rows of its own, ``model.report_on(...)``.

    Examples
    --------
    >>> from fairboost import tune
    >>> from fairboost.datasets import make_loans
    >>> loans = make_loans(2_000, seed=0)
    >>> engine = LGBMClassifier(n_estimators=20, n_jobs=1, verbose=-1)
    >>> tuned = tune(
    ...     engine, loans.X, loans.y, sensitive_features=loans.sensitive["sex"],
    ...     constraint="equal_opportunity", tolerance=0.05, n_trials=2, models=4,
    ...     space={"num_leaves": {"low": 4, "high": 16}},
    ... )
    >>> len(tuned.table), tuned.best(alpha=0.5).predict(loans.X).shape
    (8, (2000,))
    """
    check_tolerance(tolerance)
    for what, value, least in (("n_trials", n_trials, 1), ("models", models, 2)):
        if not isinstance(value, int | np.integer) or value < least:
            raise InvalidInputError(f"{what} must be a whole number from {least}, found {value!r}")
    job = _Job(
        engine=LGBMClassifier() if estimator is None else estimator,
        rows=_divide(X, y, sensitive_features, sample_weight, validation_set, random_state),
        constraint=constraint,
        tolerance=float(tolerance),
        operating_point=operating_point,
        scorer=check_scoring(FairGBMClassifier(), scoring=scoring),
        models=int(models),
        seed=random_state,
    )
    mark = job.mark(str(scoring), sampler)
    with _Search(job, space, sampler, storage, name, mark) as search:
        search.run(int(n_trials), timeout, bool(verbose))
        table = search.table(int(n_trials))
        options = search.options()
    return Tuned(table, job.tolerance, lambda trial: job.curve(options[trial], trial))


@dataclass(frozen=True)
class _Rows:
    X: Matrix
    y: ArrayLike
    groups: ArrayLike
    weight: ArrayLike | None


def _divide(
    X: Matrix,
    y: ArrayLike,
    groups: ArrayLike,
    weight: ArrayLike | None,
    validation_set: tuple[Any, ...] | None,
    seed: int,
) -> tuple[_Rows, _Rows]:
    """Training and validation rows."""
    if validation_set is not None:
        if not isinstance(validation_set, tuple | list) or len(validation_set) not in (3, 4):
            raise InvalidInputError(
                "validation_set must be a tuple (X, y, sensitive_features[, sample_weight]), "
                f"found {type(validation_set).__name__}; pass the rows to judge models by"
            )
        parts = [*validation_set, None][:4]
        return _Rows(X, y, groups, weight), _Rows(*parts)
    labels = as_column(y)
    try:
        kept, held = train_test_split(
            np.arange(len(labels)), test_size=VALIDATION_SHARE, random_state=seed, stratify=labels
        )
    except ValueError as error:
        raise InvalidInputError(
            f"the rows cannot be divided by label ({error}); pass a validation_set"
        ) from error
    X, weights = by_row(X), read_weights(weight, len(labels))

    def part(rows: np.ndarray) -> _Rows:
        return _Rows(
            take_rows(X, rows),
            labels[rows],
            _take_groups(groups, rows),
            None if weights is None else weights[rows],
        )

    return part(np.sort(kept)), part(np.sort(held))


def _take_groups(groups: ArrayLike, rows: np.ndarray) -> ArrayLike:
    """Rows of sensitive columns: a table, a dict of columns, or one column."""
    if isinstance(groups, Mapping):
        return {name: _take_groups(column, rows) for name, column in groups.items()}
    if isinstance(groups, list | tuple):
        return [groups[i] for i in rows]
    return take_rows(groups, rows)


@dataclass(frozen=True)
class _Job:
    """What a trial trains and is judged by."""

    engine: Classifier
    rows: tuple[_Rows, _Rows]
    constraint: Any
    tolerance: float
    operating_point: float | OperatingPoint
    scorer: Callable[..., float]
    models: int
    seed: int

    def mark(self, scoring: str, sampler: str) -> str:
        """Of all that trials follow from, so that a storage does not mix two searches."""
        train, validation = self.rows
        labels = [np.asarray(as_column(part.y)).tolist() for part in (train, validation)]
        content = [
            str(self.engine.get_params()), str(self.constraint), str(self.operating_point),
            self.tolerance, self.models, self.seed, scoring, sampler, labels,
        ]  # fmt: skip
        return hashlib.sha256(json.dumps(content, default=str).encode()).hexdigest()[:16]

    def curve(self, options: Mapping[str, Any], trial: int) -> TradeoffCurve:
        """Train the curve of a trial; the same every time."""
        train = self.rows[0]
        engine = clone(self.engine).set_params(**options)
        return tradeoff_curve(
            engine, train.X, train.y,
            sensitive_features=train.groups, sample_weight=train.weight,
            constraint=self.constraint, tolerances=self.models,
            operating_point=self.operating_point, random_state=self.seed + trial,
        )  # fmt: skip

    def judge(self, curve: TradeoffCurve) -> list[dict[str, Any]]:
        """Figures of every model on the validation rows."""
        rows = self.rows[1]
        weight = {} if rows.weight is None else {"sample_weight": rows.weight}
        table = curve.on(rows.X, rows.y, sensitive_features=rows.groups, **weight)
        table["score"] = [
            float(self.scorer(model, rows.X, as_column(rows.y), **weight))
            for model in curve.models
        ]
        lines: list[dict[str, Any]] = table.to_dict("records")  # type: ignore[assignment]
        return [
            {key: None if pd.isna(value) else float(value) for key, value in line.items()}
            for line in lines
        ]


class _Search:
    """Trials of a search, on the study's machinery; Optuna is imported here and not before."""

    def __init__(
        self,
        job: _Job,
        space: Mapping[str, Any] | None,
        sampler: str,
        storage: str | None,
        name: str,
        mark: str,
    ) -> None:
        from fairboost.search import claims, spaces
        from fairboost.search import trials as search

        if sampler not in ("tpe", "random", "nsga2"):
            raise InvalidInputError(
                f"unknown sampler {sampler!r}; expected 'tpe', 'random' or 'nsga2'"
            )
        self.job, self.claims, self.spaces, self.quiet = job, claims, spaces, search.quiet
        given = _default_space(job.engine) if space is None else space
        self.space = {key: spaces.as_parameter(value) for key, value in given.items()}
        _check_options(job.engine, self.space)
        mark = f"{mark} {json.dumps(spaces.describe(self.space), sort_keys=True, default=str)}"
        with search.quiet():
            self.study = search.open_search(
                search.open_storage(storage), name, mark, search.make_sampler(sampler, job.seed)
            )
        self.worker = claims.Worker(self.study)

    def __enter__(self) -> _Search:
        self.worker.__enter__()
        return self

    def __exit__(self, *error: Any) -> None:
        self.worker.__exit__(*error)

    def run(self, n_trials: int, timeout: float | None, progress: bool) -> None:
        """Run trials until there are enough or the time is over; what one raises is raised."""
        began = time.monotonic()
        with self.quiet(), tqdm(total=n_trials, disable=not progress, unit="trial") as bar:
            while timeout is None or time.monotonic() - began < timeout:
                bar.n = len(self._counted())
                bar.refresh()
                claimed = self.claims.claim(self.study, self.worker, n_trials)
                if claimed is None:
                    break
                try:
                    result, values = self._trial(claimed)
                except BaseException:
                    self.claims.give_up(self.study, claimed.trial.number)
                    raise
                self.claims.finish(self.study, claimed, result, values)

    def _trial(self, claimed: Any) -> tuple[dict[str, Any], list[float]]:
        options = self.spaces.draw(self.space, claimed.trial)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", FairnessWarning)  # most models are not the one kept
            points = self.job.judge(self.job.curve(options, claimed.index))
        best = min(points, key=lambda p: (max(p["gap"] - self.job.tolerance, 0.0), -p["score"]))
        return {"points": points, "options": options}, [best["score"], -best["gap"]]

    def _counted(self) -> dict[int, Any]:
        return dict(sorted(self.claims.counted(self.study.get_trials(deepcopy=False)).items()))

    def options(self) -> dict[int, dict[str, Any]]:
        """Options of every trial."""
        return {
            index: trial.user_attrs["result"]["options"]
            for index, trial in self._counted().items()
        }

    def table(self, n_trials: int) -> pd.DataFrame:
        """All models, with what was searched."""
        from fairboost.search.protocol import non_dominated

        lines = [
            {"trial": index, "model": k, **point, **trial.user_attrs["result"]["options"]}
            for index, trial in self._counted().items()
            if index < n_trials
            for k, point in enumerate(trial.user_attrs["result"]["points"])
        ]
        if not lines:
            raise InvalidInputError("the time was over before a trial was done; raise timeout")
        table = pd.DataFrame(lines)
        table["tolerance"] = table["tolerance"].astype(float)
        figures = np.column_stack([table["score"], -table["gap"]])
        table.insert(2, "front", non_dominated(figures))
        return table


def _default_space(engine: Classifier) -> dict[str, Any]:
    for kind in type(engine).__mro__:
        if kind.__name__ in SPACES:
            return SPACES[kind.__name__]
    raise InvalidInputError(
        f"tune knows no options to search for {type(engine).__name__}; pass space="
    )


def _check_options(engine: Classifier, space: Mapping[str, Any]) -> None:
    known = engine.get_params()
    for option in space:
        if option not in known:
            raise InvalidInputError(
                f"space names {option!r}, which is no option of {type(engine).__name__}; expected "
                f"{', '.join(sorted(known))}"
            )
