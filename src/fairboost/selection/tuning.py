"""``tune``: search the engine's options for the trade-off, and keep the model within a tolerance.

Every trial draws options, trains one model without constraints and a short stage per tolerance on
top of it (:func:`fairboost.tradeoff_curve`), so a trial yields a whole curve. All models are
judged on validation rows that none of them has seen. The search is the study's: trials are kept in
an Optuna storage, can be killed and resumed, and are shared by several processes.
"""

from __future__ import annotations

import hashlib
import json
import time
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

import numpy as np
import pandas as pd
from sklearn.base import clone
from sklearn.model_selection import train_test_split
from tqdm.auto import tqdm

from fairboost._records import with_fields
from fairboost._text import interval
from fairboost._typing import ArrayLike, Matrix
from fairboost.data.validation import (
    as_column,
    by_row,
    check_same_rows,
    named_columns,
    read_weights,
    take_rows,
    unpack,
)
from fairboost.exceptions import (
    FairnessWarning,
    InvalidInputError,
    NotMetWarning,
)
from fairboost.fairness.constraints import (
    ConstraintLike,
    ConstraintName,
)
from fairboost.fairness.numbers import NamedNumbers
from fairboost.fairness.operating_points import OperatingPoint
from fairboost.plots import TradeoffDisplay
from fairboost.search.protocol import non_dominated
from fairboost.selection.candidates import contrasts_of, fit_marks
from fairboost.selection.kinds import (
    AUTO,
    Decisions,
    Estimator,
    FairModel,
    Numbers,
    as_merits,
    kind_of,
)
from fairboost.selection.tradeoff import (
    GO_BY,
    TradeoffCurve,
    best_within,
    fairest_of_best,
    held_to,
    tradeoff_curve,
    weigh,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes

FitRows: TypeAlias = dict[str, Any]
"""What ``fit`` takes of some rows, by name of the argument."""

VALIDATION_SHARE = 0.2
_COMMON: dict[str, Any] = {
    "n_estimators": {"low": 50, "high": 500, "log": True},
    "learning_rate": {"low": 0.02, "high": 0.3, "log": True},
    "reg_lambda": {"low": 1e-3, "high": 10.0, "log": True},
}
_LIGHTGBM: dict[str, Any] = {
    **_COMMON,
    "num_leaves": {"low": 7, "high": 127, "log": True},
    "min_child_samples": {"low": 5, "high": 200, "log": True},
}
_XGBOOST: dict[str, Any] = {
    **_COMMON,
    "max_depth": {"low": 3, "high": 10},
    "min_child_weight": {"low": 1.0, "high": 50.0, "log": True},
}
SPACES: dict[str, dict[str, Any]] = {
    "LGBMClassifier": _LIGHTGBM,
    "LGBMRegressor": _LIGHTGBM,
    "XGBClassifier": _XGBOOST,
    "XGBRegressor": _XGBOOST,
}
"""What is searched by default, by engine."""


@dataclass(frozen=True, eq=False)
class Tuned:
    """What :func:`tune` found.

    Parameters
    ----------
    table : pandas.DataFrame
        One row per model, of all trials: ``trial``, ``tolerance`` (missing for the one without
        constraints), ``score``, ``accuracy`` (or ``loss``, where numbers are predicted) and
        ``gap`` on the validation rows with intervals, ``trees``, ``front`` (no other model is
        better in score and gap), ``seed`` and ``sha256`` of the fit, ``ratio`` (the lowest ratio
        of rates of positive decisions) and ``smd`` (the largest standardised difference of mean
        scores), both missing where they have no meaning, and the options.
    tolerance : float
        The gap that was asked for.
    """

    table: pd.DataFrame
    tolerance: float
    _refit: Callable[[int], TradeoffCurve] = field(repr=False)
    _words: tuple[str, str] | None = field(default=None, repr=False)
    _curves: dict[int, TradeoffCurve] = field(default_factory=dict, repr=False)

    @property
    def front(self) -> pd.DataFrame:
        """The trade-off: models that no other beats, from the most accurate to the fairest."""
        return self.table[self.table["front"]].sort_values("score", ascending=False)

    @property
    def model(self) -> Any:
        """The best model whose gap on the validation rows is within the tolerance asked for.

        If no model is, the fairest model, with a warning. Its report states this gap. The verdicts
        are about the rows held out in training, and a warning says if the two disagree.
        """
        if not (self.table["gap"] <= self.tolerance).any():
            warnings.warn(
                f"no model of the search has a gap within {self.tolerance:g} on the validation "
                f"rows; this is the one of least gap, {self.table['gap'].min():.4f}",
                NotMetWarning,
                stacklevel=2,
            )
        return self._best_within(self.tolerance)

    def within(self, tolerance: float) -> Any:
        """The best model whose gap on the validation rows is within a tolerance.

        Of models of equal score it is the fairest, so it is on the front. For its report see
        :attr:`model`.

        Parameters
        ----------
        tolerance : float
            The largest gap to accept; the model's report is about this tolerance.
        """
        if not (self.table["gap"] <= tolerance).any():
            raise InvalidInputError(
                f"no model of the search has a gap within {tolerance:g} on the validation rows; "
                f"the least is {self.table['gap'].min():.4f}. Accept that, or search longer: "
                "tune(n_trials=...)"
            )
        return self._best_within(tolerance)

    def best(self, alpha: float = 0.5) -> Any:
        """The model of largest ``alpha * score + (1 - alpha) * (1 - gap)``.

        Where numbers are predicted, both are measured as shares of those of the best model
        without constraints.

        Parameters
        ----------
        alpha : float in [0, 1], default=0.5
            The weight of the score against fairness.
        """
        merit = weigh(alpha, *as_merits(self.table, "score"), "the score")
        return self._model(fairest_of_best(merit, self.table["gap"]), self.tolerance)

    def plot(self, ax: Axes | None = None) -> TradeoffDisplay:
        """Accuracy, or the loss, against gap of the models on the front, with intervals.

        Parameters
        ----------
        ax : matplotlib.axes.Axes, optional
            Where to draw; a new figure if left out.
        """
        return TradeoffDisplay(self.front, where="validation rows", words=self._words).plot(ax)

    def _best_within(self, tolerance: float) -> FairModel:
        """The best model within a tolerance, or that of least gap."""
        at = best_within(self.table["score"], self.table["gap"], tolerance)
        return self._model(at, tolerance)

    def _model(self, at: int, tolerance: float) -> FairModel:
        """Train the trial again that a line is of: what is stored of it are figures."""
        trial, model = (int(self.table[name].iloc[at]) for name in ("trial", "model"))
        if trial not in self._curves:
            self._curves[trial] = self._refit(trial)
        line = self.table.iloc[at]
        found = interval(line["gap"], line["gap low"], line["gap high"], 4)
        side = "within" if line["gap"] <= tolerance else "beyond"
        how = (
            f"Chosen among {len(self.table):,} models by the validation rows of the search, where "
            f"its gap is {found}, {side} the tolerance of {tolerance:g}. The verdicts are about "
            f"the held-out rows, which training has used; {GO_BY}"
        )
        return held_to(self._curves[trial].models[model], tolerance, how, searched=True)


@dataclass(frozen=True)
class SearchOptions:
    """How long :func:`tune` searches, how, and where trials are kept.

    Parameters
    ----------
    n_trials : int, default=30
        Number of trials, including those of earlier runs with the same storage.
    timeout : float, optional
        Start no trial after this many seconds.
    models : int, default=10
        Models in a curve.
    sampler : {"tpe", "random", "nsga2"}, default="tpe"
        How Optuna proposes options, with two objectives: the score and the gap of the best model
        of the trial, which is the best within the tolerance, or that of least gap.
    storage : str, optional
        An Optuna URL such as ``"sqlite:///tune.db"``: the search can then be interrupted and
        resumed, and shared by several processes. In memory if left out.
    name : str, default="tune"
        Of the search in the storage.
    random_state : int, default=0
        Seeds the split, the search and every training.
    verbose : int, default=0
        1 shows a progress bar.
    """

    n_trials: int = 30
    timeout: float | None = None
    models: int = 10
    sampler: Literal["tpe", "random", "nsga2"] = "tpe"
    storage: str | None = None
    name: str = "tune"
    random_state: int = 0
    verbose: int = 0

    def __post_init__(self) -> None:
        for what, value, least in (("n_trials", self.n_trials, 1), ("models", self.models, 2)):
            if not isinstance(value, int | np.integer) or value < least:
                raise InvalidInputError(
                    f"{what} must be a whole number from {least}, found {value!r}"
                )


def tune(
    estimator: Estimator | None,
    X: Matrix,
    y: ArrayLike,
    *,
    sensitive_features: ArrayLike,
    constraint: ConstraintName | NamedNumbers | Literal["auto"] | ConstraintLike = AUTO,
    tolerance: float | None = None,
    space: Mapping[str, Any] | None = None,
    scoring: str | Callable[..., float] = AUTO,
    sample_weight: ArrayLike | None = None,
    validation_set: tuple[Any, ...] | None = None,
    operating_point: float | OperatingPoint = 0.5,
    options: SearchOptions | None = None,
    pos_label: object = None,
    exposure: ArrayLike | None = None,
    classes: Sequence[Any] | None = None,
    costs: ArrayLike | None = None,
    **search: Any,
) -> Tuned:
    """Search for the best trade-off between a score and fairness; each trial is a whole curve.

    Parameters
    ----------
    estimator : LGBMClassifier, XGBClassifier, LGBMRegressor, XGBRegressor or None
        The engine with the options that stay; if None as in :func:`tradeoff_curve`.
    X, y, sensitive_features, sample_weight, exposure
        As in :meth:`FairGBMClassifier.fit`, or :meth:`FairGBMRegressor.fit`.
    constraint, operating_point, pos_label, classes, costs
        As in :func:`tradeoff_curve`; the tolerance of every parity is varied.
    tolerance : float, optional
        The largest gap of :attr:`Tuned.model`, which the search aims at. By default it is that of
        the parities in ``constraint``, or 0.01 if they have none; for numbers see
        :class:`FairGBMRegressor`.
    space : mapping, optional
        Options of the engine to search: ``{"low": 10, "high": 100, "log": True}`` is a range, a
        list is a choice. Trees, their size, rows per leaf, learning rate and L2 if left out.
    scoring : str or callable, default="auto"
        A scorer of scikit-learn; larger is better. Use ``"recall"`` if the operating point is a
        false positive rate or a budget. ``"auto"`` is ``"accuracy"``, or for numbers minus the
        loss of the engine's objective. With exposures a scorer gets y per unit of exposure, and
        exposures as weights.
    validation_set : tuple (X, y, sensitive_features[, sample_weight[, exposure]]), optional
        Rows by which models are chosen; by default a fifth of the rows, stratified by label.
    options : SearchOptions, optional
        How long to search, how, and where trials are kept.
    **search
        Fields of ``options`` as keywords, such as ``n_trials=50`` or ``storage=...``.

    Returns
    -------
    tuned : Tuned
        ``model``, ``within(tolerance)``, ``best(alpha)``, ``table``, ``front``, ``plot()``. Models
        are trained again on request.

    Notes
    -----
    Models are chosen by their figures on the validation rows, so these figures are a little too
    good. The report of a model, ``fairness_report_``, is about the rows that were held out in its
    training, and says how the model was chosen. Judge the model that you keep on test rows,
    ``model.report_on(...)``.

    Examples
    --------
    >>> from lightgbm import LGBMClassifier
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
    kind = kind_of(estimator, constraint, "tune").of_labels(y)
    constraint = kind.constraint if constraint == AUTO else constraint
    scoring = kind.scoring if scoring == AUTO else scoring
    rows = {"X": X, "y": y, "sensitive_features": sensitive_features}
    rows |= {"sample_weight": sample_weight, "exposure": exposure}
    kind.check_rows(rows)
    groups = () if sensitive_features is None else named_columns(sensitive_features)
    columns = [name for name, _ in groups]
    tolerance = kind.one_tolerance(constraint, tolerance, columns)
    options = with_fields(options or SearchOptions(), search, "tune")
    recipe = TrialRecipe(
        kind=kind,
        engine=kind.engine() if estimator is None else estimator,
        rows=_divide(kind, rows, validation_set, options.random_state),
        constraint=constraint,
        tolerance=tolerance,
        operating_point=operating_point,
        scorer=kind.scorer(scoring, y),
        scoring=str(scoring),
        models=int(options.models),
        sampler=options.sampler,
        seed=options.random_state,
        pos_label=kind.positive(y, pos_label),  # a warning is given once, here
        of_classes={"classes": classes, "costs": costs},
    )
    found = _run_trials(recipe, space, options)
    table = _table({index: found[index] for index in found if index < options.n_trials})
    words = kind.performance, kind.figure(constraint, columns)
    return Tuned(table, recipe.tolerance, lambda k: recipe.curve(found[k]["options"], k), words)


def _divide(
    kind: Decisions | Numbers, rows: FitRows, validation_set: tuple[Any, ...] | None, seed: int
) -> tuple[FitRows, FitRows]:
    """Training and validation rows."""
    if validation_set is not None:
        remedy = "; pass the rows to judge models by"
        form, most = kind.set_form
        given = unpack("validation_set", validation_set, form, least=3, most=most, remedy=remedy)
        return rows, {**dict.fromkeys(rows), **dict(zip(rows, given, strict=False))}
    check_same_rows(**rows)
    labels, strata = as_column(rows["y"]), kind.strata(rows["y"])
    try:
        kept, held = train_test_split(
            np.arange(len(labels)), test_size=VALIDATION_SHARE, random_state=seed, stratify=strata
        )
    except ValueError as error:
        raise InvalidInputError(
            f"the rows cannot be divided by label ({error}); pass a validation_set"
        ) from error
    weight = read_weights(rows["sample_weight"], len(labels))
    rows = {**rows, "X": by_row(rows["X"]), "y": labels, "sample_weight": weight}
    return _take(rows, np.sort(kept)), _take(rows, np.sort(held))


def _take(columns: Any, rows: np.ndarray) -> Any:
    """Some rows of a table, of a column, or of all in a dict of these; None stays."""
    if isinstance(columns, Mapping):
        return {name: _take(those, rows) for name, those in columns.items()}
    return None if columns is None else take_rows(columns, rows)


@dataclass(frozen=True)
class TrialRecipe:
    """What a trial trains and is judged by."""

    kind: Decisions | Numbers
    engine: Estimator
    rows: tuple[FitRows, FitRows]
    constraint: Any
    tolerance: float
    operating_point: float | OperatingPoint
    scorer: Callable[..., float] | None
    scoring: str
    models: int
    sampler: str
    seed: int
    pos_label: object
    of_classes: Mapping[str, Any]

    def mark(self) -> str:
        """Of all that trials follow from, so that a storage does not mix two searches."""
        labels = [np.asarray(as_column(part["y"])).tolist() for part in self.rows]
        content = [
            str(self.engine.get_params()), str(self.constraint), str(self.operating_point),
            self.tolerance, self.models, self.seed, self.scoring, self.sampler, labels,
            self.pos_label,
        ]  # fmt: skip
        years = [part["exposure"] for part in self.rows if part["exposure"] is not None]
        content += [np.asarray(as_column(given)).tolist() for given in years]
        content += [
            np.asarray(given).tolist() for given in self.of_classes.values() if given is not None
        ]
        return hashlib.sha256(json.dumps(content, default=str).encode()).hexdigest()[:16]

    def curve(self, options: Mapping[str, Any], trial: int) -> TradeoffCurve:
        """Train the curve of a trial; the same every time."""
        engine = clone(self.engine).set_params(**options)
        return tradeoff_curve(
            engine, **self.rows[0], constraint=self.constraint, tolerances=self.models,
            operating_point=self.operating_point, random_state=self.seed + trial,
            pos_label=self.pos_label, **self.of_classes,
        )  # fmt: skip

    def judge(self, curve: TradeoffCurve) -> list[dict[str, Any]]:
        """Figures of every model on the validation rows."""
        rows = self.rows[1]
        table = curve.on(**rows)
        if self.scorer is None:
            table["score"] = -table["loss"]
        else:
            score: Callable[..., float] = self.kind.score
            table["score"] = [score(self.scorer, m, rows) for m in curve.models]
        figures = table.astype(float).astype(object).where(table.notna(), None)
        lines: list[dict[str, Any]] = figures.to_dict("records")  # type: ignore[assignment]
        return [
            {**line, **fit_marks(model), **contrasts_of(model, rows)}
            for line, model in zip(lines, curve.models, strict=True)
        ]

    def try_out(
        self, options: dict[str, Any], trial: int
    ) -> tuple[dict[str, Any], tuple[float, float]]:
        """Run a trial: what to keep of it, and the two values to make large."""
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", FairnessWarning)  # most models are not the one kept
            points = self.judge(self.curve(options, trial))
        score, gap = (pd.Series([p[name] for p in points]) for name in ("score", "gap"))
        best = points[best_within(score, gap, self.tolerance)]
        return {"points": points, "options": options}, (best["score"], -best["gap"])


def _run_trials(
    recipe: TrialRecipe,
    space: Mapping[str, Any] | None,
    options: SearchOptions,
) -> dict[int, dict[str, Any]]:
    """Run trials until there are enough or the time is over; give what is kept of each.

    The study's machinery runs them; Optuna is imported here and not before. What a trial raises
    is raised.
    """
    try:
        from fairboost.search import claims, spaces, trials
    except ImportError as error:
        raise ImportError('studies need optuna: pip install "fairboost[study]"') from error
    if recipe.sampler not in trials.SAMPLERS:
        raise InvalidInputError(
            f"unknown sampler {recipe.sampler!r}; expected 'tpe', 'random' or 'nsga2'"
        )
    given = _default_space(recipe.engine) if space is None else space
    searched = {key: spaces.as_parameter(value) for key, value in given.items()}
    _check_options(recipe.engine, searched)
    ranges = json.dumps(spaces.describe(searched), sort_keys=True, default=str)
    with trials.quiet():
        store, mark = trials.open_storage(options.storage), f"{recipe.mark()} {ranges}"
        study = trials.open_search(store, options.name, mark, recipe.sampler, recipe.seed)
        bar = tqdm(total=options.n_trials, disable=not options.verbose, unit="trial")
        timeout, began = options.timeout, time.monotonic()
        with claims.Worker(study) as worker, bar:
            while timeout is None or time.monotonic() - began < timeout:
                bar.n = len(claims.counted(study.get_trials(deepcopy=False)))
                bar.refresh()
                claimed = claims.claim(study, worker, int(options.n_trials))
                if claimed is None:
                    break
                try:
                    drawn = spaces.draw(searched, claimed.trial)
                    kept, values = recipe.try_out(drawn, claimed.index)
                except BaseException:
                    claims.give_up(study, claimed.trial.number)
                    raise
                claims.finish(study, claimed, kept, values)
        found = claims.counted(study.get_trials(deepcopy=False))
    return {index: found[index].user_attrs["result"] for index in sorted(found)}


def _table(found: Mapping[int, dict[str, Any]]) -> pd.DataFrame:
    """All models, with what was searched."""
    lines = [
        {"trial": index, "model": k, **point, **kept["options"]}
        for index, kept in found.items()
        for k, point in enumerate(kept["points"])
    ]
    if not lines:
        raise InvalidInputError("the time was over before a trial was done; raise timeout")
    table = pd.DataFrame(lines)
    table["tolerance"] = table["tolerance"].astype(float)
    figures = np.column_stack([table["score"], -table["gap"]])
    table.insert(2, "front", non_dominated(figures))
    return table


def _default_space(engine: Estimator) -> dict[str, Any]:
    for kind in type(engine).__mro__:
        if kind.__name__ in SPACES:
            return SPACES[kind.__name__]
    raise InvalidInputError(
        f"tune knows no options to search for {type(engine).__name__}; pass space="
    )


def _check_options(engine: Estimator, space: Mapping[str, Any]) -> None:
    known = engine.get_params()
    for option in space:
        if option not in known:
            raise InvalidInputError(
                f"space names {option!r}, which is not an option of {type(engine).__name__}; "
                f"expected {', '.join(sorted(known))}"
            )
