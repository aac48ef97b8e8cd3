"""The test rows of a report, checked."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from itertools import combinations
from typing import Any, TypeAlias

import numpy as np
import pandas as pd

from fairboost._typing import ArrayLike, FloatArray, IntArray, Matrix
from fairboost.data.cells import SensitiveColumn
from fairboost.data.validation import check_fit_data, check_numbers, named_columns
from fairboost.data.windows import Smooth
from fairboost.exceptions import ConstraintError, InvalidInputError
from fairboost.fairness.base import GroupConstraint
from fairboost.fairness.classes import ClassMoment
from fairboost.fairness.constraints import columns_of, given_of
from fairboost.fairness.moments import Moment
from fairboost.fairness.rates import as_moment
from fairboost.fairness.soft import placed, smooth_of
from fairboost.fairness.varied import is_varied
from fairboost.metrics.sums import crossing_name
from fairboost.model.estimator import FairGBMClassifier
from fairboost.model.regressor import FairGBMRegressor
from fairboost.plots.numbers import DISTANCE, RATIO
from fairboost.report.evidence import Finding, Gap, GroupRate, Limit
from fairboost.report.lines import CHOSEN
from fairboost.report.words import limit as limit_in_words
from fairboost.verdicts.fairness_report import FairnessReport

Fitted: TypeAlias = FairGBMClassifier | FairGBMRegressor
"""The models that reports are on."""

MOST_CELLS = 150
"""Cells of a crossing that a reader can be asked to look at."""

NO_VERDICT = "There is no verdict on the test rows"


@dataclass(frozen=True)
class OnTestRows:
    """What a model comes to on test rows.

    Parameters
    ----------
    judged : FairnessReport or None
        Verdicts; None where nothing was asked for.
    rates, gaps : tuple
        Of groups, as evidence.
    parts : dict
        Further fields of the evidence.
    placed : bool
        Whether the threshold of the plain engine was placed on these rows.
    plain_distance : tuple of float
        How far actual over expected of the plain engine is from 1 in the group where it is
        farthest, and the interval; empty where probabilities need not be calibrated.
    """

    judged: FairnessReport | None
    rates: tuple[GroupRate, ...]
    gaps: tuple[Gap, ...]
    parts: dict[str, Any]
    placed: bool = False
    plain_distance: tuple[float, ...] = ()


def judged_if_possible(
    model: Fitted, judge: Callable[[], FairnessReport]
) -> FairnessReport | None:
    """Verdicts on the test rows; those of training alone where the test rows allow none.

    A table of figures is of use all the same, after a training that may have taken long.
    """
    try:
        return judge()
    except ConstraintError as error:
        if (report := model.fairness_report_) is None:
            return None
        return replace(report, advice=(f"{NO_VERDICT}: {error}.", *report.advice))


@dataclass(frozen=True)
class Wording:
    """What to call a constraint and its figure."""

    constraint: str
    measure: str

    def of(self, finding: Finding) -> Finding:
        """A finding in these words."""
        return replace(finding, constraint=self.constraint, measure=self.measure)


@dataclass(frozen=True)
class TestSet:
    """Test rows as they were passed (the first four fields), and as they were read.

    Where a number is predicted all labels are 0, and ``targets`` has the numbers. ``asked`` are
    the crossings of columns that constraints of the model are about.
    """

    X: Matrix
    y: ArrayLike
    sensitive_features: ArrayLike
    sample_weight: ArrayLike | None
    labels: IntArray
    columns: list[SensitiveColumn]
    weight: FloatArray | None
    targets: FloatArray | None = None
    exposure: FloatArray | None = None
    asked: tuple[tuple[str, ...], ...] = ()

    @classmethod
    def read(
        cls,
        model: Fitted,
        X: Matrix,
        y: ArrayLike,
        sensitive_features: ArrayLike,
        sample_weight: ArrayLike | None,
        exposure: ArrayLike | None = None,
    ) -> TestSet:
        """Check the rows against what the model predicts."""
        if isinstance(model, FairGBMRegressor):
            data = check_numbers(X, y, sensitive_features, sample_weight, exposure)
        elif exposure is not None:
            raise InvalidInputError(
                "exposure is for models that predict a number per unit of it, found a "
                "FairGBMClassifier; leave exposure out, or pass it as sample_weight"
            )
        else:
            given = X, y, sensitive_features, sample_weight, model._labels
            data = check_fit_data(*given, numbers=smooth_of(model.constraint))
        if not data.columns:
            raise InvalidInputError(
                "sensitive_features has no columns, so there are no groups to report on; pass the "
                "sensitive columns of the test rows"
            )
        if known := model._known_groups():
            data = data.with_groups_of(known)
            own = {c.name: _categories(c) for c in data.columns if c.values and not c.is_soft}
            sensitive_features = {
                n: own.get(n, column) for n, column in named_columns(sensitive_features)
            }
        weight = data.sample_weight
        weight = None if weight is None else weight.astype(np.float64)
        report = model.fairness_report_
        windows = {} if report is None else report.windows
        columns = placed(data.columns, (), data.labels, windows)
        found = cls(
            X, y, sensitive_features, sample_weight, data.labels, columns, weight,
            data.targets, data.exposure,
        )  # fmt: skip
        return replace(found, asked=found._asked(model))

    def _asked(self, model: Fitted) -> tuple[tuple[str, ...], ...]:
        """Crossings that constraints are about, if each row has one group of every column."""
        constraints = model._options().constraints(list(self.constrained(model)))
        known = {c.name for c in self.observed}
        crossed = [self.in_order(columns_of(c)) for c in constraints if not given_of(c)]
        return tuple(dict.fromkeys(c for c in crossed if len(c) > 1 and known.issuperset(c)))

    def in_order(self, columns: Iterable[str]) -> tuple[str, ...]:
        """Columns that are crossed, in the order of the sensitive columns."""
        return tuple(sorted(columns, key=self.names.index))

    @property
    def names(self) -> list[str]:
        """Names of the sensitive columns."""
        return [c.name for c in self.columns]

    @property
    def main(self) -> list[str]:
        """What groups are shown by first: the columns, and crossings that were asked for."""
        return [*self.names, *map(crossing_name, self.asked)]

    @property
    def observed(self) -> list[SensitiveColumn]:
        """The columns of which a row has one group."""
        return [c for c in self.columns if not c.is_soft]

    @property
    def by(self) -> list[str]:
        """The columns as audits are asked for them: numbers with the windows of training."""
        windows = self.windows
        return [Smooth(n, windows[n]) if n in windows else n for n in self.names]

    @property
    def windows(self) -> dict[str, tuple[float, ...]]:
        """Where the windows of columns of numbers are centred."""
        return {c.name: c.facts.windows for c in self.columns if c.facts and c.facts.windows}

    def constrained(self, model: Fitted) -> dict[str, Any]:
        """The sensitive columns that a model was trained on, out of those to report on."""
        used = model._constrained(self.names)
        given = dict(named_columns(self.sensitive_features))
        return {
            c.name: given[c.name] if c.is_soft else _categories(c)
            for c in self.columns
            if c.name in used
        }

    def without_given(self, model: Fitted, gaps: Iterable[Gap]) -> tuple[Gap, ...]:
        """Gaps between groups, less those of columns in which rows are only to be alike."""
        constraints = model._options().constraints(list(self.constrained(model)))
        given = {name for c in constraints for name in given_of(c)}
        given -= {name for c in constraints for name in columns_of(c) if name not in given_of(c)}
        by = [(name,) for name in self.names] + self.crossings()[0]
        left_out = {crossing_name(columns) for columns in by if given & set(columns)}
        return tuple(gap for gap in gaps if gap.attribute not in left_out)

    def calibrated_by(self, model: Fitted) -> list[tuple[str, ...]]:
        """The columns by which a model that decides was asked for calibrated probabilities."""
        constraints = model._options().constraints(list(self.constrained(model)))
        return [columns_of(c) for c in constraints if c.judged == "actual over expected"]

    def only_calibrated(self, model: Fitted) -> bool:
        """Whether calibrated probabilities are all that a curve varies."""
        constraints = model._options().constraints(list(self.constrained(model)))
        return {c.judged for c in constraints if is_varied(c)} == {"actual over expected"}

    def constrained_rates(self, model: Fitted) -> list[str]:
        """Names of the rates that the constraints of a model are about."""
        constraints = model._options().constraints(list(self.constrained(model)))
        return [rate_name(as_moment(moment)) for c in constraints for moment in c.moments]

    def limits(self, model: Fitted, rates: Iterable[GroupRate] = ()) -> tuple[Limit, ...]:
        """The constraints of a model on gaps and on single rates, in figures.

        Parameters
        ----------
        model : FairGBMClassifier or FairGBMRegressor
            The model.
        rates : iterable of GroupRate
            Its rates on these rows: tolerances that are relative are to everyone's.
        """
        found: list[Limit] = []
        known = [r for r in rates if r.where == "test" and r.model == CHOSEN]
        everyone = {r.rate: abs(r.value or 0.0) for r in known if not r.attribute}
        for c in model._options().constraints(list(self.constrained(model))):
            by = columns_of(c)
            order = sorted(range(len(by)), key=lambda k: self.names.index(by[k]))
            attribute = crossing_name([by[k] for k in order]) if by else ""
            if given_of(c):  # the gaps of an audit are given nothing; verdicts tell of this one
                continue
            groups = dict.fromkeys(r.group for r in known if r.attribute == attribute)
            if c.judged in ("gap", "ratio"):
                rate = rate_name(as_moment(c.moments[0]))
                here = [r for r in known if (r.attribute, r.rate) == (attribute, rate)]
                largest = max((r.value or 0.0 for r in here if not r.small), default=0.0)
                unit = everyone.get(rate, 0.0) if c.relative else 1.0
                ratio = c.judged == "ratio"
                at_most = (1.0 - c.limit) * largest if ratio else c.limit * unit
                found.append(Limit(attribute, rate, at_most))
            elif c.one_group is not None:
                group = ", ".join(str(c.one_group[k]) for k in order) or "everyone"
                found.append(Limit(attribute, rate_name(as_moment(c.moments[0])), c.limit, group))
            else:
                found += _limits_of_each(c, attribute, groups)
        return tuple(found)

    def in_words(self, model: Fitted) -> dict[str, Wording]:
        """Constraints whose figure has a better name than verdicts have for it.

        Those whose figure cannot be below 0, which is a distance, and bounds on every group.
        """
        found = {}
        for c in model._options().constraints(list(self.constrained(model))):
            by = ", ".join(columns_of(c)) or "everyone"
            if c.judged == "figure" and c.varies:  # a bound on every group
                title, most = as_moment(c.moments[0]).title, limit_in_words(c.limit)
                text = f"{title} of every group by {by} at most {most}"
                found[c.words(by)] = Wording(text, "largest mean")
            elif c.traits.simplex is not None:
                found[c.words(by)] = Wording(c.words(by), c.figure_name)
            elif c.least == 0:
                found[c.words(by)] = Wording(c.words(by), "largest distance")
        return found

    def crossings(self) -> tuple[list[tuple[str, ...]], list[str]]:
        """Crossings that were asked for, every pair of columns, and all of them if they are three.

        Returns
        -------
        fitting : list of tuple of str
            Crossings of at most ``MOST_CELLS`` cells that have rows.
        larger : list of str
            The others, in words.
        """
        codes = {c.name: np.asarray(c.codes) for c in self.observed}
        wanted: list[tuple[str, ...]] = [*self.asked, *combinations(codes, 2)]
        wanted += [tuple(codes)] if len(codes) == 3 else []
        fitting, larger = [], []
        for crossing in dict.fromkeys(wanted):
            rows = np.stack([codes[name] for name in crossing], axis=1)
            cells = len(np.unique(rows[(rows >= 0).all(axis=1)], axis=0))
            if cells <= MOST_CELLS:
                fitting.append(crossing)
            else:
                larger.append(f"{' x '.join(crossing)} ({cells:,} cells)")
        return fitting, larger


def rate_name(moment: Moment) -> str:
    """What evidence calls a rate; of classes, whose names may hold anything, in words."""
    return moment.title if isinstance(moment, ClassMoment) else moment.name


def _limits_of_each(c: GroupConstraint, attribute: str, groups: Iterable[str]) -> list[Limit]:
    """What a constraint that holds every group to the same limit asks of each."""
    name = rate_name(as_moment(c.moments[0]))
    if c.judged == "actual over expected":
        return [Limit(attribute, RATIO, c.limit, group, 1.0) for group in groups]
    if c.judged == "distance":
        return [Limit(attribute, DISTANCE, c.limit, group) for group in groups]
    if c.judged == "least rate":
        return [Limit(attribute, name, 1.0, group, at_least=c.limit) for group in groups]
    if c.judged == "figure" and c.varies:
        return [Limit(attribute, name, c.limit, group) for group in groups]
    return []


def _categories(column: SensitiveColumn) -> pd.Categorical[Any]:
    """Groups of rows, in the order of the column."""
    kind = pd.CategoricalDtype(pd.Index(column.values, dtype=object), ordered=True)
    return pd.Categorical.from_codes(column.codes, dtype=kind)
