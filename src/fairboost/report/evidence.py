"""What a report rests on, as plain data: figures, words and nothing that can run.

Evidence is gathered once and drawn as often as one likes: it goes to JSON and back, so that a
report can be made again without the model or the data. Parts that a case does not have are None or
empty. A figure that could not be had, such as the rate of a group without rows, is None.

::

    Evidence
    ├── asked          Asked           constraints in words, tolerance, confidence
    ├── data           Data            files, splits, label, sensitive columns
    ├── model          Model           engine, options, trees, threshold
    ├── verdicts       Finding...      whether each constraint is met, held out and on test rows
    ├── rates          GroupRate...    by group and by crossed groups, small ones flagged
    ├── gaps           Gap...          gaps, ratios, the four-fifths rule
    ├── performance    Performance...  of the plain engine and of the model
    ├── tradeoff       Tradeoff        the alternatives, and which one was chosen
    ├── rounds         Rounds          multipliers and violations over training
    ├── roc  scores  calibration       by group, of decisions
    ├── deciles  distributions         by group, of numbers that are predicted
    ├── confusion      Confusion...    by group, of decisions among three classes or more
    └── warnings, limits               in words

Where a number is predicted (``task`` is "numbers"), what is called a rate is a mean, and there are
no decisions, labels and thresholds. Where one of several classes is given (``task`` is "classes"),
rates go by what they are in words, such as "recall of 'high'", and there is no threshold.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal, TypeAlias

from fairboost._files import write_text
from fairboost.report import codec

FourFifths: TypeAlias = Literal[
    "passes",
    "passes on these rows, not certain",
    "fails on these rows, not certain",
    "fails",
    "too few rows to tell",  # in files of earlier versions
]
Figure: TypeAlias = float | None
"""None where a figure cannot be had."""

Option: TypeAlias = bool | int | float | str | None
"""A setting as text and numbers."""

Favourable: TypeAlias = Literal["positive", "negative"]
"""The decision that people hope for."""

TaskName: TypeAlias = Literal["decisions", "numbers", "classes"]
"""What a model is for."""


@dataclass(frozen=True)
class Limit:
    """How far apart the rates of groups may be, or how high the rate of one group may be.

    Parameters
    ----------
    attribute, rate : str
        As in :class:`GroupRate`.
    at_most : float
        The largest gap, or the largest rate, that was allowed.
    group : str or None
        The group whose rate is bounded; None if the gap between groups is.
    around : float or None
        What the distance of the group's figure is bounded from, 1 for actual over expected; None
        if the figure itself is bounded.
    at_least : float or None
        The smallest rate of the group that was allowed, where it has a floor; None without one.
    """

    attribute: str
    rate: str
    at_most: float
    group: str | None = None
    around: Figure = None
    at_least: Figure = None


@dataclass(frozen=True)
class Asked:
    """What was asked for.

    Parameters
    ----------
    constraints : tuple of str
        In words, e.g. "false negative rate equal by sex, tolerance 0.02"; empty for an audit.
    tolerance : float or None
        How far apart the rates of two groups may be, if one figure says it.
    confidence : float or None
        What "met" has to be sure of; None if the figure itself counts.
    level : float
        Nominal coverage of all intervals.
    operating_point : str
        Where decisions are made, in words.
    threshold : float or None
        The score from which on a decision is positive.
    favourable : {"positive", "negative"}
        The decision that people hope for; the four-fifths rule is about it.
    limits : tuple of Limit
        The constraints in figures, as far as they are about gaps or single rates.
    costs : tuple of tuple of float
        Costs of giving a row of each class (lines) each class (columns), where the class of least
        expected cost is given; empty where the most likely one is.
    """

    constraints: tuple[str, ...] = ()
    tolerance: Figure = None
    confidence: Figure = None
    level: float = 0.95
    operating_point: str = ""
    threshold: Figure = None
    favourable: Favourable = "positive"
    limits: tuple[Limit, ...] = ()
    costs: tuple[tuple[float, ...], ...] = ()


@dataclass(frozen=True)
class DataFile:
    """A file that rows came from.

    Parameters
    ----------
    role : str
        What it was used for, e.g. "training and test".
    name : str
        Its name.
    sha256 : str or None
        Checksum of its bytes.
    rows : int or None
        How many it has.
    """

    role: str
    name: str
    sha256: str | None = None
    rows: int | None = None


@dataclass(frozen=True)
class SensitiveColumnUse:
    """A sensitive column.

    Parameters
    ----------
    name : str
        Its name.
    groups : int
        How many groups it has among the test rows.
    missing : int
        Test rows of unknown group.
    feature : bool or None
        Whether the model sees it; None if that is not known.
    shared : str
        Where rows belong to several groups by weights: what the rates of groups estimate, in
        words. Empty where every row has one group.
    """

    name: str
    groups: int
    missing: int = 0
    feature: bool | None = None
    shared: str = ""


@dataclass(frozen=True)
class Data:
    """The data.

    Parameters
    ----------
    label : str
        Name of the label.
    positive : str
        The positive class; empty where a number is predicted, and of three classes or more.
    sensitive : tuple of SensitiveColumnUse
        The sensitive columns.
    splits : dict of str to int
        Rows by use, e.g. "training", "held out", "test".
    files : tuple of DataFile
        Where they came from.
    features : int or None
        How many columns the model sees.
    left_out : dict of str to str
        Columns that it does not see, and why.
    weight : str or None
        Name of the column of weights.
    negative : str or None
        The negative class.
    exposure : str or None
        Name of the column of exposures, where a number is predicted per unit of exposure.
    loss : str
        What the mean loss is a mean of, where a number is predicted, e.g. "squared error".
    classes : tuple of str
        The classes, where there are three or more.
    decision : str
        Name of the column of decisions, where these were audited; ``label`` is empty where it is
        not known what came true.
    """

    label: str
    positive: str
    sensitive: tuple[SensitiveColumnUse, ...]
    splits: dict[str, int]
    files: tuple[DataFile, ...] = ()
    features: int | None = None
    left_out: dict[str, str] = field(default_factory=dict)
    weight: str | None = None
    negative: str | None = None
    exposure: str | None = None
    loss: str = ""
    classes: tuple[str, ...] = ()
    decision: str = ""


@dataclass(frozen=True)
class Model:
    """The model that was chosen.

    Parameters
    ----------
    engine, engine_version : str
        E.g. "lightgbm" and "4.7.0".
    fairboost_version : str
        Of the package.
    options : dict
        The engine's options.
    method : dict
        fairboost's own options.
    trees : int
        Trees in it.
    threshold : float or None
        The probability from which a decision is positive; None where a number is predicted, and
        of three classes or more.
    export_file, export_sha256 : str or None
        The stock model file and its checksum.
    """

    engine: str
    engine_version: str
    fairboost_version: str
    options: dict[str, Option]
    method: dict[str, Option]
    trees: int
    threshold: Figure
    export_file: str | None = None
    export_sha256: str | None = None


@dataclass(frozen=True)
class Finding:
    """A verdict on a constraint, see :class:`fairboost.verdicts.fairness_report.Verdict`.

    Parameters
    ----------
    where : str
        The rows: "held out" (or "training"), "test".
    constraint, measure, value, low, high, limit, status, smallest_group, smallest_rows, \
rows_needed
        As in the verdict.
    family : str
        What the constraint is told as, together with others of the same name; empty where it
        stands by itself.
    """

    where: str
    constraint: str
    measure: str
    value: Figure
    low: Figure
    high: Figure
    limit: float
    status: str
    smallest_group: str
    smallest_rows: int
    rows_needed: int | None = None
    family: str = ""


@dataclass(frozen=True)
class GroupRate:
    """A rate of a group.

    Parameters
    ----------
    where : str
        The rows: "held out", "test".
    model : str
        "chosen" or "plain".
    attribute : str
        The sensitive column, or columns crossed ("sex, race"); empty for everyone.
    group : str
        The group.
    rate : str
        Name of the rate, see :mod:`fairboost.fairness.rates`, or of the mean, see ``MEANS`` of
        :mod:`fairboost.report.words`; of three classes or more the rate in words.
    value, low, high : float or None
        The rate and its interval.
    rows : float
        Rows that count.
    small : bool
        Too few rows count to judge by.
    crossed : bool
        Whether the group is one of several columns crossed, and no constraint is about it.
    """

    where: str
    model: str
    attribute: str
    group: str
    rate: str
    value: Figure
    low: Figure
    high: Figure
    rows: float
    small: bool = False
    crossed: bool = False


@dataclass(frozen=True)
class Gap:
    """How far apart the groups of an attribute are.

    Parameters
    ----------
    where, model, attribute, rate : str
        As in :class:`GroupRate`.
    gap, gap_low, gap_high, ratio, ratio_low, ratio_high : float or None
        Largest minus smallest rate, smallest over largest, with intervals. Where a number is
        predicted there are no ratios; of actual over expected the gap is the largest distance
        from 1, and of distributions the largest distance from everyone's.
    lowest_group, highest_group : str
        The groups of the smallest and the largest rate.
    four_fifths : {"passes", "passes on these rows, not certain", \
"fails on these rows, not certain", "fails"} or None
        The four-fifths rule, for the rate of favourable decisions.
    """

    where: str
    model: str
    attribute: str
    rate: str
    gap: Figure
    gap_low: Figure
    gap_high: Figure
    ratio: Figure
    ratio_low: Figure
    ratio_high: Figure
    lowest_group: str
    highest_group: str
    four_fifths: FourFifths | None = None


@dataclass(frozen=True)
class Performance:
    """How well a model predicts, on test rows.

    Parameters
    ----------
    model : str
        "chosen", "plain", or "difference" (chosen minus plain, paired row by row).
    measure : str
        E.g. "accuracy", "AUC", "log loss", "Brier score".
    value, low, high : float or None
        The figure and its interval.
    """

    model: str
    measure: str
    value: Figure
    low: Figure = None
    high: Figure = None


@dataclass(frozen=True)
class GroupDifference:
    """The standardised difference of a group's mean score, see :mod:`fairboost.metrics.contrasts`.

    Parameters
    ----------
    attribute, group : str
        As in :class:`GroupRate`.
    reference : str
        The group that it is compared with.
    value : float or None
        The difference, in standard deviations of all scores.
    """

    attribute: str
    group: str
    reference: str
    value: Figure


@dataclass(frozen=True)
class TradeoffPoint:
    """A model that could have been chosen.

    Parameters
    ----------
    name : str
        In words, e.g. "no constraint", "tolerance 0.02".
    tolerance : float or None
        None without constraint.
    accuracy, accuracy_low, accuracy_high, gap, gap_low, gap_high : float or None
        Figures and intervals; the gap is the largest among the parities asked for. Where a number
        is predicted there is no accuracy.
    trees : int or None
        Trees in it.
    rates : tuple of GroupRate
        Its rates by group.
    decides_nothing : bool
        Whether its decisions, or predictions, say next to nothing, so that equal rates are worth
        nothing.
    loss, loss_low, loss_high : float or None
        Where a number is predicted: the mean loss, in place of the accuracy.
    seed : int or None
        Random seed of the fit.
    sha256 : str or None
        Checksum of what the model decides by; the file of a model has it too.
    differences : tuple of GroupDifference
        Standardised differences of mean scores; empty where there are several classes.
    """

    name: str
    tolerance: Figure
    accuracy: Figure
    accuracy_low: Figure
    accuracy_high: Figure
    gap: Figure
    gap_low: Figure
    gap_high: Figure
    trees: int | None = None
    rates: tuple[GroupRate, ...] = ()
    decides_nothing: bool = False
    loss: Figure = None
    loss_low: Figure = None
    loss_high: Figure = None
    seed: int | None = None
    sha256: str | None = None
    differences: tuple[GroupDifference, ...] = ()


LARGEST_GAP = "largest gap"
"""What models along a trade-off are compared by, unless it is another figure."""


@dataclass(frozen=True)
class Tradeoff:
    """The alternatives that were considered, from no constraint to the tightest tolerance.

    Parameters
    ----------
    where : str
        The rows on which they were measured.
    points : tuple of TradeoffPoint
        The models.
    chosen : int or None
        Which of them is the model of this report.
    measure, figure : str
        What performance and the gap are, in words: "squared error", "gap of mean predictions".
    plain : tuple of float
        The figure of the engine alone and its interval, where calibration of probabilities is
        asked for; else empty, as the gaps of the evidence have it.
    """

    where: str
    points: tuple[TradeoffPoint, ...]
    chosen: int | None = None
    measure: str = "accuracy"
    figure: str = LARGEST_GAP
    plain: tuple[float, ...] = ()

    @property
    def is_gap(self) -> bool:
        """Whether the figure is the largest gap between rates of groups."""
        return self.figure == LARGEST_GAP


@dataclass(frozen=True)
class Rounds:
    """How training came to its model; at most 200 rounds are kept.

    Parameters
    ----------
    where : str
        The rows on which violations were read: "held out", "training".
    rounds : tuple of int
        The rounds, from 1.
    multipliers, violations : dict of str to tuple of float
        By inequality.
    train_rounds : tuple of int
        Rounds at which training rows were looked at.
    train_violations : dict of str to tuple of float
        Violations on training rows, by inequality; empty if not known.
    kept : int or None
        The round whose model was kept.
    """

    where: str
    rounds: tuple[int, ...]
    multipliers: dict[str, tuple[Figure, ...]]
    violations: dict[str, tuple[Figure, ...]]
    train_rounds: tuple[int, ...] = ()
    train_violations: dict[str, tuple[Figure, ...]] = field(default_factory=dict)
    kept: int | None = None


@dataclass(frozen=True)
class Roc:
    """The ROC curve of a group; at most 200 points.

    Parameters
    ----------
    attribute, group : str
        As in :class:`GroupRate`; both name everyone too.
    fpr, tpr : tuple of float
        The curve, from (0, 0) to (1, 1).
    at_fpr, at_tpr : float or None
        Where decisions are made.
    auc : float or None
        Area under the curve.
    """

    attribute: str
    group: str
    fpr: tuple[float, ...]
    tpr: tuple[float, ...]
    at_fpr: Figure
    at_tpr: Figure
    auc: Figure = None


@dataclass(frozen=True)
class ScoreCounts:
    """How scores are distributed in a group, among the rows of one label.

    Parameters
    ----------
    attribute, group : str
        As in :class:`GroupRate`.
    label : str
        The label of the rows.
    positive : bool
        Whether it is the positive one.
    edges : tuple of float
        Ends of the bins.
    shares : tuple of float
        Share of the weight in each bin.
    rows : int
        How many rows.
    """

    attribute: str
    group: str
    label: str
    positive: bool
    edges: tuple[float, ...]
    shares: tuple[float, ...]
    rows: int


@dataclass(frozen=True)
class Calibration:
    """Predicted against found shares of positive labels in a group, bin by bin.

    Parameters
    ----------
    attribute, group : str
        As in :class:`GroupRate`.
    predicted : tuple of float
        Mean probability in each bin; bins without rows are left out.
    found, low, high : tuple of float
        Share of positive labels, with its interval.
    rows : tuple of int
        Rows in each bin.
    """

    attribute: str
    group: str
    predicted: tuple[float, ...]
    found: tuple[float, ...]
    low: tuple[float, ...]
    high: tuple[float, ...]
    rows: tuple[int, ...]


@dataclass(frozen=True)
class Decile:
    """Actual against expected of a group, in one decile of all predictions.

    Parameters
    ----------
    attribute, group : str
        As in :class:`GroupRate`; both name everyone too.
    decile : int
        1 for the lowest predictions to 10 for the highest, by the predictions of all rows; 0 for
        all of them together.
    rows : int
        How many rows.
    exposure : float
        Their exposure by their weight; what they weigh where there is none.
    expected, actual : float
        Totals, by weight: of predictions, and of what was actual.
    ratio, ratio_low, ratio_high : float or None
        Actual over expected, with its interval.
    small : bool
        Too few rows count to judge by.
    """

    attribute: str
    group: str
    decile: int
    rows: int
    exposure: float
    expected: float
    actual: float
    ratio: Figure
    ratio_low: Figure
    ratio_high: Figure
    small: bool = False


@dataclass(frozen=True)
class Distribution:
    """How predictions are distributed in a group; at most 101 steps, at percentiles.

    Parameters
    ----------
    attribute, group : str
        As in :class:`GroupRate`; both name everyone too.
    values : tuple of float
        Predictions, rising.
    shares : tuple of float
        Share of the group whose prediction is at most so large.
    rows : int
        How many rows.
    """

    attribute: str
    group: str
    values: tuple[float, ...]
    shares: tuple[float, ...]
    rows: int


@dataclass(frozen=True)
class Confusion:
    """A line of the confusion matrix of a group: which classes the rows of one class are given.

    Parameters
    ----------
    attribute, group : str
        As in :class:`GroupRate`; both name everyone too.
    actual : str
        The class of the rows.
    shares, low, high : tuple of float or None
        Share of these rows that are given each class, in the order of the classes, with the ends
        of its interval.
    rows : int
        How many rows there are.
    small : bool
        Too few to judge by.
    """

    attribute: str
    group: str
    actual: str
    shares: tuple[Figure, ...]
    low: tuple[Figure, ...]
    high: tuple[Figure, ...]
    rows: int
    small: bool = False


@dataclass(frozen=True)
class About:
    """What a report says beside the figures.

    Parameters
    ----------
    title, label : str
        Of the report; name of the label.
    splits : dict of str to int, optional
        Rows by use, e.g. ``{"training": 800, "held out": 200, "test": 500}``.
    files : sequence of DataFile
        Where rows came from.
    left_out : dict of str to str, optional
        Columns that the model does not see, and why.
    weight_name, exposure_name : str, optional
        Names of the columns of weights and of exposures.
    export_file, export_sha256 : str, optional
        The stock model file and its checksum.
    favourable : {"positive", "negative"}
        The decision that people hope for; the four-fifths rule is about it.
    min_rows : int
        Rows that must count for a group not to be flagged as small.
    notes : dict of str to str, optional
        Further lines, e.g. a date or a seed.
    """

    title: str = "Fairness report"
    label: str = "label"
    splits: Mapping[str, int] | None = None
    files: Sequence[DataFile] = ()
    left_out: Mapping[str, str] | None = None
    weight_name: str | None = None
    exposure_name: str | None = None
    export_file: str | None = None
    export_sha256: str | None = None
    favourable: Favourable = "positive"
    min_rows: int = 30
    notes: Mapping[str, str] | None = None


@dataclass(frozen=True)
class Evidence:
    """The content of a report. Made by :func:`fairboost.report.gather`.

    Parameters
    ----------
    title : str
        Of the report.
    asked : Asked
        What was asked for.
    data : Data
        The data.
    model : Model or None
        The model; None if only scores are known, as in an audit of another model.
    verdicts, rates, gaps, performance : tuple
        What was found, see the classes.
    min_rows : int
        Rows that must count for a group not to be flagged as small.
    tradeoff, rounds : Tradeoff, Rounds or None
        The alternatives, and how training went.
    roc, scores, calibration : tuple
        Curves by group, on the test rows.
    deciles, distributions : tuple
        The same where a number is predicted.
    confusion : tuple
        Confusion matrices by group, of three classes or more, on the test rows.
    warnings : tuple of str
        What a reader has to know, e.g. constraints that are not met.
    limits : tuple of str
        What the figures do not say, in plain words.
    notes : dict of str to str
        Anything else worth a line, e.g. "date", "command", "seed".
    caution : str
        What to know before any verdict: that the decisions, or predictions, say next to nothing.
        Empty if they do.
    task : {"decisions", "numbers", "classes"}
        What the model is for.
    windows : dict of str to tuple of float
        Of sensitive columns that are compared as numbers, where their windows are centred, in the
        order of the groups in ``rates``.
    """

    title: str
    asked: Asked
    data: Data
    model: Model | None = None
    verdicts: tuple[Finding, ...] = ()
    rates: tuple[GroupRate, ...] = ()
    gaps: tuple[Gap, ...] = ()
    performance: tuple[Performance, ...] = ()
    min_rows: int = 30
    tradeoff: Tradeoff | None = None
    rounds: Rounds | None = None
    roc: tuple[Roc, ...] = ()
    scores: tuple[ScoreCounts, ...] = ()
    calibration: tuple[Calibration, ...] = ()
    deciles: tuple[Decile, ...] = ()
    distributions: tuple[Distribution, ...] = ()
    confusion: tuple[Confusion, ...] = ()
    warnings: tuple[str, ...] = ()
    limits: tuple[str, ...] = ()
    notes: dict[str, str] = field(default_factory=dict)
    caution: str = ""
    task: TaskName = "decisions"
    windows: dict[str, tuple[float, ...]] = field(default_factory=dict)

    def to_json(self) -> str:
        """The evidence as a JSON document, versioned; the same evidence gives the same text."""
        return codec.encode(self)

    @classmethod
    def from_json(cls, text: str, source: str = "the evidence") -> Evidence:
        """Undo :meth:`to_json`.

        Parameters
        ----------
        text : str
            The document. It is checked: what is missing, unknown or of the wrong type is named.
        source : str
            What to call it in messages, e.g. the name of its file.

        Raises
        ------
        EvidenceError
            If it is not sound evidence.
        """
        return codec.decode(cls, text, source)

    def save(self, path: str | Path) -> None:
        """Write the JSON document, whole or not at all."""
        write_text(path, self.to_json())

    @classmethod
    def load(cls, path: str | Path) -> Evidence:
        """Read what :meth:`save` wrote."""
        return cls.from_json(codec.read_text(path), str(path))
