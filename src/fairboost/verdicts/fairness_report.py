"""What constrained moments are on rows held out, whether constraints are met, what to do if not.

Rates have Wilson's interval, and means Student's; how constraints are judged is in
:mod:`fairboost.verdicts.verdict`.
Multipliers and iterate were chosen by the rows held out, so these look a little better than new
people would; test rows do not. In cross-fitting the model that is kept is none of those measured,
and intervals allow for that (:meth:`MeasuredRates.telling_rows`). How often verdicts are right is
in ``benchmarks/verdicts.md``.
"""

from __future__ import annotations

import json
import re
import textwrap
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from html import escape
from itertools import product, zip_longest
from typing import Any, Literal, get_args

import numpy as np
import pandas as pd

from fairboost._text import interval, places, text_table
from fairboost._typing import FloatArray
from fairboost.algorithm.multipliers import SETTLED
from fairboost.data.cells import Cells
from fairboost.data.holdout import HoldoutKind
from fairboost.fairness import tolerance
from fairboost.fairness.binding import (
    LeftOut,
    MomentMap,
    Term,
    bind,
    compared_by,
    exact_rates,
    rates_left_out,
    slices,
)
from fairboost.fairness.constraints import Constraint
from fairboost.fairness.derived import shown_term
from fairboost.fairness.means import NUMBERS, NumberMoment
from fairboost.fairness.moments import GroupMoments
from fairboost.fairness.operating_points import OperatingPoint
from fairboost.fairness.rates import RATES, Rate
from fairboost.fairness.realised_rate import RealisedRate, realise
from fairboost.metrics.intervals import check_confidence, wilson
from fairboost.metrics.sampling import SamplingLaw, law_of
from fairboost.verdicts.diagnostics import hidden_from, judge_decisions, out_of_reach
from fairboost.verdicts.families import families_of, farthest, grouped
from fairboost.verdicts.prediction import THIS_MODEL, Prediction
from fairboost.verdicts.verdict import (
    NO_LIMIT,
    NO_VERDICT,
    Status,
    Verdict,
    count,
    how_many,
    judge,
    judge_farthest,
    rows_word,
    status_of,
)

KEYS = ("rate", "by", "group")
TEXTS = (*KEYS, "at", "test at")
FIGURES = ("value", "low", "high", "limit")

ALLOW = {
    "gap": "a larger tolerance",
    "rate": "a larger bound",
    "mean": "a larger bound",
    "ratio": "a smaller ratio",
    "least rate": "a lower floor",
    "figure": "more",
    "violation": "more",
}
"""What to allow more of, by measure."""
MORE_ROUNDS = "n_estimators"
"""The option by which more rounds are trained."""
STOP_LATER = "let early stopping wait for more rounds"
"""The same where early stopping ended training."""
OTHER_MULTIPLIERS = "multipliers='two_sided', the default, closes larger gaps than the paper's."
TOO_FEW = {
    "share": "Where rows are too few: holdout='cross' reads the {rates} on all rows.",
    "set": "Where rows are too few: pass a larger holdout_set, or hold out a share as well.",
    "both": "Where rows are too few: hold out a larger share, or pass a larger holdout_set.",
    "search": "Where rows are too few: search on more rows.",
}
TRAINING_ROWS = (
    "These are {rates} of training rows, which trees fit: expect larger gaps among new people. "
    "holdout='auto' reads them on rows held out."
)
ON_TEST = "trust these rather than rows that training has used."
FREE = (
    "No constraint was set for this model. Its {rates} show what the models under constraints "
    "are to be compared with."
)
VARIED = "gap", "figure"
"""Measures whose limit a curve varies; other limits are in the constraint itself, and stay."""
ASKS_NOTHING: dict[str, Any] = {"status": NO_LIMIT, "limit": np.inf, "rows_needed": None}
NOT_ALL = "The table has the {rates} that are farthest apart; report.rates has all of them."


@dataclass(frozen=True)
class MeasuredRates:
    """One set of rows on which the rates were read.

    Parameters
    ----------
    where : str
        Name of the rows in tables, e.g. "held out".
    note : str
        How they were chosen.
    values : tuple of (n_moments, n_groups) float64
        Exact moments, one array per term.
    terms : tuple of Term
        The constraints, bound to these rows.
    kind : {"share", "cross", "set", "both", "none", "search"}
        How they were held out, as in :class:`fairboost.data.holdout.Holdout`; advice depends
        on it. A search holds out a share and cannot be asked for anything else.
    realised : RealisedRate, optional
        What the operating point came to.
    allowance : float
        Variance of the moments over that of sampling as many rows: above 1 in cross-fitting.
    left_out : tuple of LeftOut
        Rates of groups with too few rows to be judged.
    decides_little : str
        What is wrong with decisions that say next to nothing about anyone, if these are such.
    chosen : str
        Among which models, and by which rows, this one was chosen, if it was.
    variances : tuple of (n_moments, n_groups) float64 or None
        Of terms that are of means, the variance of a single row's quantity, one array per term;
        None for a term of shares. An array of shape (n_moments, n_moments, n_groups) has the
        covariances of quantities, which a ratio of two of them takes. Empty where all are shares.
    left_out_variances : tuple of float or None
        The same for ``left_out``, one for each of them.
    unsettled : str
        That a rate goes back and forth from round to round; empty where none does.
    rows_seen : str
        That the base model was probably trained on these rows; empty otherwise.
    unconstrained : bool
        Whether the model was not held to the constraints: they say what is to be shown.
    amounts : bool
        Whether neither predictions nor actual figures are below 0, as losses never are.
    stopped : str
        That early stopping ended training; empty where it did not.
    hidden : tuple of str
        Of each constraint, that features do not tell its groups apart; empty where they do.
    overall, power_lost : str
        Actual over expected of everyone, where that of groups is held to a limit and features
        hardly tell them; and that most of what a model predicts better than a constant is gone.
    performance : tuple of Prediction
        How well the model predicts these rows, and its base model, if it is a stage on one.
    min_group_rows : int, optional
        Rows that groups had to have not to be in ``left_out``.
    costs_much : str
        That a stage loses much for what it closes of the gap; empty otherwise.
    """

    where: str
    note: str
    values: tuple[FloatArray, ...]
    terms: tuple[Term, ...]
    kind: HoldoutKind | Literal["search"] = "share"
    realised: RealisedRate | None = None
    allowance: float = 1.0
    left_out: tuple[LeftOut, ...] = ()
    decides_little: str = ""
    chosen: str = ""
    variances: tuple[FloatArray | None, ...] = ()
    left_out_variances: tuple[float | None, ...] = ()
    unsettled: str = ""
    rows_seen: str = ""
    unconstrained: bool = False
    amounts: bool = False
    stopped: str = ""
    hidden: tuple[str, ...] = ()
    overall: str = ""
    power_lost: str = ""
    performance: tuple[Prediction, ...] = ()
    min_group_rows: int | None = None
    costs_much: str = ""

    def laws(self) -> Iterator[SamplingLaw]:
        """How far moments are off by chance, term by term."""
        variances = self.variances or (None,) * len(self.terms)
        for term, variance in zip(self.terms, variances, strict=True):
            amounts = self.amounts or all(map(_is_loss, term.moments))
            yield law_of(variance, term.rows, term.correlations, amounts)

    def telling_rows(self) -> Iterator[FloatArray]:
        """Rows that would tell as much about each moment as was measured, term by term."""
        yield from (term.rows / self.allowance for term in self.terms)

    @property
    def rows(self) -> str:
        """The rows in a sentence, e.g. "test rows"."""
        where = self.where
        return f"{where} rows" if where in ("test", "training") else f"rows {where}"

    def read(self) -> Iterator[tuple[Term, GroupMoments]]:
        """Each term with its moments."""
        for term, values, law in zip(self.terms, self.values, self.laws(), strict=True):
            yield term, term.read(np.clip(values, *law.range))  # sums of weights round

    @property
    def titles(self) -> dict[str, str]:
        """Names of moments that are no rates, in words."""
        found = [*(m for t in self.terms for m in t.moments), *(r.moment for r in self.left_out)]
        return {m.name: m.title for m in found if not isinstance(m, Rate)}

    @property
    def in_words(self) -> str:
        """What its moments are: "rates", if all are."""
        return "figures" if self.titles else "rates"


def measure(
    constraints: Sequence[Constraint],
    cells: Cells,
    positive: FloatArray,
    *,
    where: str,
    note: str = "",
    kind: HoldoutKind = "set",
    point: OperatingPoint | None = None,
    threshold: float = 0.0,
) -> MeasuredRates:
    """Measure the rates that constraints ask for.

    Parameters
    ----------
    constraints : sequence of Constraint
        The constraints.
    cells : Cells
        The rows; groups that are left out of them are reported, and not judged.
    positive : (n_all,) float64
        Weight of the rows that were decided positively, as by :meth:`Cells.weight_of` and, after
        it, :meth:`Cells.shared_weight_of`.
    where, note, kind : str
        As in :class:`MeasuredRates`.
    point : OperatingPoint, optional
        Where decisions were made, if not at a given probability.
    threshold : float
        The threshold that the operating point led to, in log-odds.
    """
    terms = tuple(bind(c, cells) for c in constraints)
    total, own = cells.all.weights, positive[: len(cells)]
    rates = exact_rates(MomentMap(cells, terms, 2), positive, total)
    parts = slices([t.counted.size for t in terms])
    realised = None
    if point is not None and cells.weights[point.rate.counts(cells.labels)].any():
        realised = realise(point, threshold, cells, own)
    pairs = zip(terms, parts, strict=True)
    judged = [shown_term(term, rates[part]) for term, part in pairs]
    terms, values = tuple(term for term, _ in judged), tuple(found for _, found in judged)
    decided = np.stack([positive, total - positive])
    left_out = rates_left_out(constraints, cells, decided)
    little = judge_decisions(cells, own, placed=point is not None)
    known = where, note, values, terms, kind, realised
    return MeasuredRates(*known, left_out=left_out, decides_little=little)


@dataclass(frozen=True, eq=False)
class FairnessReport:
    """Rates by group, a verdict per constraint, and advice; made to be printed.

    Parameters
    ----------
    rates : pandas.DataFrame
        One line per ``rate`` (or another moment) and ``group``: the groups' column ``by``, the
        ``rows`` that count, the rate, in a column named as the rows (``held out``), and its
        interval ``low``, ``high``.
        With test rows also ``test``, ``test low``, ``test high`` and ``test rows``.
    verdicts, test_verdicts : tuple of Verdict
        One per constraint, on the rows held out and on the test rows.
    note : str
        How the rows were chosen.
    advice : tuple of str
        What to know and what to do.
    where : str
        Name of the rows that the verdicts are about.
    level : float
        Nominal coverage of the intervals.
    columns : tuple of str
        The sensitive columns that constraints are on; unknown, so empty, in files of old.
    positive : str
        The positive label; empty in files of old, and where a number is predicted.
    titles : tuple of (str, str)
        Names of moments that are no rates, and what they are in words.
    farthest : pandas.DataFrame, optional
        In the columns of ``rates``, one figure of each group. Of constraints that read many
        moments of a group, the figure that is farthest from where it should be, and where that is
        (``at``, ``test at``). Of calibration, actual over expected.
    folded : tuple of str
        The moments in whose place the printed table shows ``farthest``; all of them are in
        ``rates``.
    windows : dict of str to tuple of float
        Of columns that are compared as numbers, where their windows are centred, in the order of
        the groups in ``rates``.
    families : tuple of str
        What each of the verdicts is told as, together with others of the same name; empty where
        one stands by itself, and in files of old.
    unconstrained : bool
        Whether the model was not held to the constraints, as the first of a trade-off curve.
    stopped : str
        That early stopping ended training; empty where it did not.
    performance : tuple of Prediction
        How well the model predicts, on the rows held out and on the test rows: accuracy and log
        loss, on test rows the AUC too, or the loss of a regression. If the model is a stage on a
        base model, the base model's measures are beside them. Empty in files of old.
    """

    rates: pd.DataFrame
    verdicts: tuple[Verdict, ...]
    note: str
    advice: tuple[str, ...]
    where: str = "held out"
    level: float = 0.95
    test_verdicts: tuple[Verdict, ...] = ()
    columns: tuple[str, ...] = ()
    positive: str = ""
    titles: tuple[tuple[str, str], ...] = ()
    farthest: pd.DataFrame | None = None
    folded: tuple[str, ...] = ()
    families: tuple[str, ...] = ()
    windows: dict[str, tuple[float, ...]] = field(default_factory=dict)
    unconstrained: bool = False
    stopped: str = ""
    performance: tuple[Prediction, ...] = ()

    @property
    def met(self) -> bool:
        """Whether every constraint is met on the rows held out, for certain.

        Never by decisions that say nothing about anyone.
        """
        return all(v.status in ("met", NO_LIMIT) for v in self.verdicts)

    @property
    def within(self) -> bool:
        """Whether every figure is within its limit on the rows held out, certain or not."""
        return all(v.within for v in self.verdicts)

    def __str__(self) -> str:
        fill = textwrap.TextWrapper(width=99, subsequent_indent="  ").fill
        advice = "\n".join(fill(f"- {line}") for line in self._said())
        tables = [text_table(list(map(str, t)), t.to_numpy().tolist()) for t in self._tables()]
        return "\n\n".join(filter(None, [fill(self._headline), *tables, advice]))

    def _repr_html_(self) -> str:
        tables = "".join(t.to_html(index=False, border=0) for t in self._tables())
        advice = "".join(f"<li>{escape(line)}</li>" for line in self._said())
        return f"<p>{escape(self._headline)}</p>{tables}<ul>{advice}</ul>"

    def _said(self) -> list[str]:
        """The advice, and what the tables leave out."""
        shown = NOT_ALL.format(rates="figures" if self.titles else "rates")
        return [*self.advice, *([shown] if any(self.families) else [])]

    def to_dict(self) -> dict[str, Any]:
        """The report as plain JSON types; NaN, which JSON lacks, as text."""
        tables = {"rates": self.rates.to_dict("list"), "farthest": None}
        if self.farthest is not None:
            tables["farthest"] = self.farthest.to_dict("list")
        text = json.dumps({**vars(self), **tables}, default=vars)
        plain: dict[str, Any] = json.loads(text, parse_constant=lambda nan: str(float(nan)))
        return plain

    @classmethod
    def from_dict(cls, plain: dict[str, Any]) -> FairnessReport:
        """Undo :meth:`to_dict`."""
        verdicts = {
            name: tuple(_verdict(v) for v in plain[name]) for name in ("verdicts", "test_verdicts")
        }
        found = plain.get("performance", ())
        numbers = ("value", "low", "high")  # NaN is text
        performance = tuple(
            Prediction(**{**p, **{n: float(p[n]) for n in numbers}}) for p in found
        )
        names = ("advice", "columns", "folded", "families")
        lists = {name: tuple(plain.get(name, ())) for name in names}
        lists |= {"titles": tuple(map(tuple, plain.get("titles", ()))), "performance": performance}
        found = plain.get("farthest")
        tables = {
            "rates": _frame(plain["rates"]),
            "farthest": None if found is None else _frame(found),
        }
        windows = {name: tuple(map(float, w)) for name, w in plain.get("windows", {}).items()}
        return cls(**{**plain, **verdicts, **lists, **tables, "windows": windows})

    @property
    def _headline(self) -> str:
        found = f": {count(self.verdicts)}"
        if self.test_verdicts:  # a reader of the first line alone must not be misled
            tested = count(self.test_verdicts)
            found = f" on the test rows: {tested}. On the rows {self.where}{found}"
        note = f" {self.note[:1].upper()}{self.note[1:]}." if self.note else ""
        label = f" Positive label: {self.positive}." if self.positive else ""
        return f"Fairness constraints{found}.{note}{self._on_intervals}{label}"

    @property
    def _on_intervals(self) -> str:
        """Coverage of intervals."""
        if not self.verdicts:
            return ""
        what, level = "figures" if self.titles else "rates", f"{100 * self.level:g}%"
        return f" Intervals of {what} and of verdicts: {level}."

    def _tables(self) -> list[pd.DataFrame]:
        """Verdicts and rates, as text."""
        if not self.verdicts:
            return []
        lines = []
        told = (grouped(v, self.families) for v in (self.verdicts, self.test_verdicts))
        ours, theirs = (rows_word(self.rates.get(c, ())) for c in ("rows", "test rows"))
        for (family, verdicts), test in zip_longest(*told):
            lines.append([family or verdicts[0].constraint, *_told_as_one(verdicts, ours)])
            if test is not None:
                lines.append(["  on the test rows", *_told_as_one(test[1], theirs)])
        titles = ["constraint", self.where, "smallest group", "verdict"]
        tables = [pd.DataFrame(lines, columns=titles)]
        tables += [self._printed_performance()] if self.performance else []
        return [*tables, self._printed_rates()]

    def _printed_performance(self) -> pd.DataFrame:
        """How well the model predicts, and its base model, as text."""
        lines: dict[str, dict[str, str]] = {}
        for p in self.performance:
            name = p.measure if p.model == THIS_MODEL else f"{p.measure} of the {p.model}"
            lines.setdefault(name, {})[p.where] = str(p)
        wheres = dict.fromkeys(p.where for p in self.performance)
        columns = {w: [found.get(w, "-") for found in lines.values()] for w in wheres}
        return pd.DataFrame({"how well it predicts": list(lines), **columns})

    def _printed_rates(self) -> pd.DataFrame:
        """Rates as text, of many of a group the farthest alone."""
        found = self.rates[~self.rates["rate"].isin(self.folded)]
        if self.farthest is not None:
            parts = [part for part in (self.farthest, found) if len(part)]
            found = pd.concat(parts, ignore_index=True)
        in_words = {**{name: rate.title for name, rate in RATES.items()}, **dict(self.titles)}
        header = "figure" if self.titles else "rate"
        rates = found[["group", "rate"]].replace({"rate": in_words})
        rates = rates.rename(columns={"rate": header})
        digits = {name: self._places(found, name) for name in found["rate"].unique()}
        decimals = [digits[name] for name in found["rate"]]
        for where, prefix in ((self.where, ""), ("test", "test ")):
            if f"{prefix}rows" in found:
                rows, ends = f"{prefix}rows", [f"{prefix}low", f"{prefix}high"]
                shown = f"{prefix}{rows_word(found[rows])}"
                rates[shown] = ["-" if np.isnan(n) else f"{n:,.0f}" for n in found[rows]]
                figures = found[[where, *ends]].to_numpy()
                at = found.get(f"{prefix}at", pd.Series(index=found.index, dtype=object))
                rates[where] = [
                    "-" if np.isnan((r, low, high)).any() else interval(r, low, high, d) + place
                    for (r, low, high), d, place in zip(
                        figures,
                        decimals,
                        ("" if pd.isna(a) or not a else f" at {a}" for a in at),
                        strict=True,
                    )
                ]
        return rates

    def _places(self, table: pd.DataFrame, moment: str) -> int:
        """Decimals in the table: the same for all groups; three, if it is a rate."""
        if moment not in dict(self.titles):
            return 3
        columns = [c for c in table if c not in TEXTS and not str(c).endswith("rows")]
        return places(*table.loc[table["rate"] == moment, columns].to_numpy().ravel().tolist())


def build(
    held_out: MeasuredRates,
    test: MeasuredRates | None = None,
    *,
    confidence: float | None = None,
    level: float = 0.95,
    positive: str = "",
    paper: bool = False,
    rounds: int = SETTLED,
    more_rounds: str = MORE_ROUNDS,
) -> FairnessReport:
    """Judge the rates measured.

    Parameters
    ----------
    held_out : MeasuredRates
        The rows that the verdicts are about.
    test : MeasuredRates, optional
        Test rows, shown beside them.
    confidence : float, optional
        What training was asked for; goes before ``level``.
    level : float, default=0.95
        Coverage of intervals.
    positive : str
        The positive label, to be named.
    paper : bool, default=False
        Whether the multipliers were the paper's, to which there is an alternative.
    rounds : int
        Rounds of training; where they are too few, it is said how many would do.
    more_rounds : str
        The option by which more rounds are trained.

    Examples
    --------
    >>> from fairboost.data.cells import SensitiveColumn, build_cells
    >>> from fairboost.fairness.constraints import parity
    >>> from fairboost.fairness.binding import bind
    >>> sex = SensitiveColumn("sex", np.repeat([0, 1], 2000), ("F", "M"))
    >>> term = bind(parity("fnr", 0.02, by="sex"), build_cells(np.ones(4000, int), [sex]))
    >>> rates = (np.array([[0.4, 0.3]]),)
    >>> report = build(MeasuredRates("held out", "a share of 20%", rates, (term,)))
    >>> print(report.verdicts[0], report.verdicts[0].status)
    gap 0.1000 [0.0705, 0.1293] not met
    """
    level = check_confidence(level if confidence is None else confidence)
    if test is not None:
        test = replace(test, unconstrained=held_out.unconstrained)
    measured = [held_out] if test is None else [held_out, test]
    judged = [list(_judge(m, level)) for m in measured]
    verdicts, tested = (tuple(verdict for verdict, _ in found) for found in [*judged, []][:2])
    families = families_of(held_out.terms)
    # The first of test rows, if there are any.
    advice = [] if held_out.unconstrained else hidden_from(held_out, verdicts)
    advice += [measured[-1].decides_little, held_out.power_lost, held_out.overall]
    advice += [held_out.stopped, held_out.chosen, held_out.unsettled]
    advice += [held_out.rows_seen or held_out.costs_much]
    advice += [FREE.format(rates=held_out.in_words)] * held_out.unconstrained
    advice += _farthest_lines(judged[0], families)
    on_test = [
        _said_of_test(t, v, said) for v, (t, said) in zip(verdicts, [*judged, []][1], strict=False)
    ]
    advice += _farthest_lines(list(zip(tested, on_test, strict=True)), families)
    told = held_out, verdicts, paper, rounds, more_rounds
    settled = rounds >= SETTLED and not paper and not held_out.unsettled
    limits = out_of_reach(held_out, verdicts, level) if settled else ""
    if not held_out.unconstrained:
        advice += [limits] if limits else _on_not_met(*told)
    rates = held_out.in_words
    too_few = TOO_FEW.get(held_out.kind, "").format(rates=rates)
    advice += [too_few] * any(v.rows_needed for v in verdicts)
    advice.append(tolerance.said_of(held_out.terms, held_out.rows))
    facts = {f.name: f for term in held_out.terms for f in term.groups.facts}
    advice += [f"{f.statement}." for f in facts.values()]
    advice += [_on_groups_left_out(m) for m in measured]
    advice += [TRAINING_ROWS.format(rates=rates)] * (held_out.kind == "none" and bool(verdicts))
    advice += [_on_operating_point(m, level) for m in measured]
    table, said = _rate_table(measured, level), tuple(filter(None, advice))
    note = "; ".join(f"{m.where}: {m.note}" for m in measured if m.note)
    columns = tuple(dict.fromkeys(c for term in held_out.terms for c in term.groups.columns))
    titles = tuple({name: title for m in measured for name, title in m.titles.items()}.items())
    known = held_out.where, level, tested, columns, positive, titles
    far = _farthest_table(measured, level)
    by_family = _folded_by_family(held_out, [verdicts, tested], families)
    folded = (*_folded(held_out), *by_family)
    windows = {str(name): f.windows for name, f in facts.items() if f.windows}
    rest = *known, far, folded, families, windows, held_out.unconstrained, held_out.stopped
    performance = tuple(p for m in measured for p in m.performance)
    return FairnessReport(table, verdicts, note, said, *rest, performance)


def _said_of_test(tested: Verdict, held_out: Verdict, said: str) -> str:
    """What to say about a constraint on the test rows; nothing where the verdict is the same."""
    if tested.status == NO_LIMIT and said:  # of which the worst group is told
        return f"{said.removesuffix('.')}, on the test rows."
    if tested.status in ("met", held_out.status):
        return ""
    status = tested.status.replace(" on these rows", "")
    return f"{tested.constraint}: {status}, on the test rows; {ON_TEST}"


def _told_as_one(verdicts: Sequence[Verdict], rows: str) -> list[str]:
    """What the table says of a constraint, or of several: found, smallest group and verdict."""
    far = farthest(verdicts)
    small = min(verdicts, key=lambda v: v.smallest_rows)
    smallest = f"{small.smallest_group}: {small.smallest_rows:,} {rows}"
    if len(verdicts) == 1:
        return [str(far), smallest, far.status]
    about = far.constraint.partition(" equal by ")[0]
    return [f"largest {far}: {about}", smallest, how_many(verdicts)]


def _farthest_lines(
    judged: Sequence[tuple[Verdict, str]], families: Sequence[str]
) -> Iterator[str]:
    """What to say about each constraint; of a family about the farthest, and how many more."""
    said = {id(verdict): line for verdict, line in judged}
    for family, verdicts in grouped([verdict for verdict, _ in judged], families):
        told = [v for v in verdicts if said[id(v)]]
        if not told:
            continue
        more = len(told) - 1
        are = "constraint is" if more == 1 else "constraints are"
        rest = f" {more} more {are} not met, or not certain: {family}." if more else ""
        yield said[id(farthest(told))] + rest


def _folded_by_family(
    measured: MeasuredRates, judged: Sequence[Sequence[Verdict]], families: Sequence[str]
) -> tuple[str, ...]:
    """Names of the moments of families, but for those that are farthest apart on some rows."""
    if not any(families):
        return ()
    first = [term.moments[0].name for term in measured.terms]
    shown = {name for name, family in zip(first, families, strict=True) if not family}
    for verdicts in judged:
        names = {id(v): name for v, name in zip(verdicts, first, strict=False)}
        shown |= {names[id(farthest(those))] for _, those in grouped(verdicts, families)}
    return tuple(dict.fromkeys(name for name in first if name not in shown))


def _judge(measured: MeasuredRates, level: float) -> Iterator[tuple[Verdict, str]]:
    """The verdicts on some rows, and what to say about each."""
    empty = bool(measured.decides_little)
    parts = zip(measured.read(), measured.telling_rows(), measured.laws(), strict=True)
    for pair, rows, law in parts:
        verdict, said = judge(*pair, level, rows, law=law, says_nothing=empty)
        if measured.rows_seen:  # no interval of such rows is about new people
            verdict, said = replace(verdict, status=NO_VERDICT, rows_needed=None), ""
        elif measured.kind == "none" and verdict.status == "met":
            # Trees fit the rows they are grown on: no number of these makes it certain.
            verdict, said = replace(verdict, status="met on these rows, not certain"), ""
        if measured.unconstrained and verdict.measure in VARIED:
            text = re.split(", tolerance | at most ", verdict.constraint)[0]
            text = text.replace(" equal by ", " by ")
            verdict = replace(verdict, constraint=text, **ASKS_NOTHING)
        said = "" if measured.unconstrained else said
        yield verdict, said


def _on_not_met(
    measured: MeasuredRates,
    verdicts: Sequence[Verdict],
    paper: bool,
    rounds: int,
    more_rounds: str = MORE_ROUNDS,
) -> Iterator[str]:
    """What would help the constraints whose figures are beyond their limits."""
    hidden = measured.hidden or ("",) * len(verdicts)
    beyond = [
        (v, term.most_compared)
        for v, term, said in zip(verdicts, measured.terms, hidden, strict=True)
        if not v.within and not said and v.status != NO_VERDICT
    ]
    if not beyond:
        return
    measures = {v.measure for v, _ in beyond}
    allowed = " or ".join(more for measure, more in ALLOW.items() if measure in measures)
    few = rounds >= SETTLED and all(v.rows_needed is not None for v, _ in beyond)
    more = STOP_LATER if measured.stopped else f"train more rounds ({more_rounds})"
    ways = ["pass more rows" if few else more, f"allow {allowed}"]
    merged = any(v.measure in ("gap", "ratio") and n > 2 for v, n in beyond)
    ways += ["merge groups"] * merged
    enough = f" Training takes about {SETTLED} rounds to settle." * (
        rounds < SETTLED and not paper
    )
    yield f"Where a constraint is not met: {', '.join(ways[:-1])} or {ways[-1]}.{enough}"
    if paper:
        yield OTHER_MULTIPLIERS


def _on_groups_left_out(measured: MeasuredRates) -> str:
    """Name the groups that are reported and not judged."""
    named: dict[str, dict[str, None]] = {}
    for r in measured.left_out:
        why = "fewer rows count than min_group_rows"
        if measured.min_group_rows is not None:
            why = f"fewer than {measured.min_group_rows} rows count (min_group_rows)"
        if r.given:
            of_same = f"of the same {', '.join(r.given)}"
            why = f"too few of their rows count, or too few of other groups {of_same}"
        said = f"{r.group} ({r.rows:,.0f} {'row' if r.rows == 1 else 'rows'} for {r.moment.name})"
        named.setdefault(why, {})[said] = None
    return " ".join(
        f"Not compared on the {measured.rows}, because {why}: {'; '.join(groups)}. The verdicts "
        "say nothing about these groups."
        for why, groups in named.items()
    )


def _on_operating_point(measured: MeasuredRates, level: float) -> str:
    """What the operating point came to on some rows, in words."""
    if (found := measured.realised) is None:
        return ""
    rows = found.rows / measured.allowance
    low, high = map(float, wilson(found.value * rows, rows, level))
    target, at_least = found.point.target, found.point.at_least
    said = (
        f"{found.point}: decisions are positive if the probability is at least "
        f"{found.threshold:.4g}, where the overall {found.point.rate.title} is "
        f"{interval(found.value, low, high, 4)} on the {measured.rows}"
    )
    if high < target if at_least else low > target:
        missed = "falls short of" if at_least else "exceeds"
        said += (
            f". This {missed} the target of {target:g}. Possible reasons: the population is "
            "another one, or the threshold was placed on too few rows, or on rows that the model "
            "was trained on. fairboost.metrics.threshold_at places the threshold on recent rows"
        )
    elif not found.hits and measured.where != "test":
        said += f", not {target:g}: too many rows have the same score"
    return said + "."


def _rate_table(measured: Sequence[MeasuredRates], level: float) -> pd.DataFrame:
    """One line per rate and group, however many constraints read it."""
    columns = [*KEYS, "rows", measured[0].where, "low", "high"]
    columns += ["test", "test low", "test high", "test rows"] * (len(measured) - 1)
    lines: dict[object, dict[str, Any]] = {}
    for m, prefix in zip(measured, ("", "test "), strict=False):
        where = "test" if prefix else m.where
        for (term, rates), telling, law in zip(m.read(), m.telling_rows(), m.laws(), strict=True):
            low, high = law.interval(rates.values, telling, level)
            figures = {where: rates.values, f"{prefix}low": low, f"{prefix}high": high}
            figures[f"{prefix}rows"] = term.rows
            for k, g in product(range(len(term.moments)), _in_order(rates)):
                rate = term.moments[k]
                line = lines.setdefault((rate, term.groups.columns, rates.groups[g]), {})
                line |= {"rate": rate.name, "by": term.by, "group": term.groups.label(g)}
                line |= {name: values[k, g] for name, values in figures.items()}
        variances = m.left_out_variances or (None,) * len(m.left_out)
        for r, variance in zip(m.left_out, variances, strict=True):
            line = lines.setdefault((r.moment, r.columns, r.name), {})
            by = compared_by(r.columns, r.given)
            line |= {"rate": r.moment.name, "by": by, "group": r.group}
            amounts = m.amounts or _is_loss(r.moment)
            low, high = _interval_left_out(r, variance, level, amounts)
            line |= {where: r.value, f"{prefix}low": low, f"{prefix}high": high}
            line[f"{prefix}rows"] = r.rows
    return _frame({c: [line.get(c, np.nan) for line in lines.values()] for c in columns})


def _in_order(rates: GroupMoments) -> list[int]:
    """Groups in the order of the table: those that are compared one after the other."""
    found: list[int] = np.concatenate(
        [np.arange(len(rates.groups))[part] for part in rates.parts()]
    ).tolist()
    return found


def _folded(measured: MeasuredRates) -> tuple[str, ...]:
    """Names of the moments that are read only by constraints with a farthest figure."""
    terms = measured.terms
    pairs = [(m.name, t.constraint.traits.folds) for t in terms for m in t.moments]
    single = {name for name, folds in pairs if not folds}
    return tuple(dict.fromkeys(name for name, folds in pairs if folds and name not in single))


def _farthest_table(measured: Sequence[MeasuredRates], level: float) -> pd.DataFrame | None:
    """One line per group and constraint that offers a figure of its own; None if none does."""
    columns = [*KEYS, "rows", measured[0].where, "low", "high", "at"]
    columns += ["test", "test low", "test high", "test rows", "test at"] * (len(measured) - 1)
    lines: dict[object, dict[str, Any]] = {}
    for m, prefix in zip(measured, ("", "test "), strict=False):
        parts = zip(m.read(), m.telling_rows(), m.laws(), strict=True)
        for number, ((term, rates), telling, law) in enumerate(parts):
            found = judge_farthest(term, rates, level, telling, law)
            if found is None:
                continue
            named, (values, low, high) = found
            for g in _in_order(rates):
                line = lines.setdefault((number, rates.groups[g]), {})
                line |= {"rate": named.title, "by": term.by, "group": term.groups.label(g)}
                line |= {"test" if prefix else m.where: values[g], f"{prefix}at": named.at[g]}
                line |= {f"{prefix}low": low[g], f"{prefix}high": high[g]}
                line[f"{prefix}rows"] = term.rows[:, g].min()
    if not lines:
        return None
    blank = dict.fromkeys(TEXTS, "")
    return _frame(
        {c: [line.get(c, blank.get(c, np.nan)) for line in lines.values()] for c in columns}
    )


def _interval_left_out(
    found: LeftOut, variance: float | None, level: float, amounts: bool
) -> tuple[FloatArray, FloatArray]:
    """Interval of the moment of a group that is not judged; none, where no row counts."""
    if found.rows <= 0:
        return np.array(np.nan), np.array(np.nan)
    rows = np.array([[found.rows]])
    law = law_of(None if variance is None else np.array([[variance]]), rows, amounts=amounts)
    low, high = law.interval(np.array([[found.value]]), rows, level)
    return low[0, 0], high[0, 0]


def _is_loss(moment: Any) -> bool:
    return isinstance(moment, NumberMoment) and moment.kind == NUMBERS["loss"].quantity


def _verdict(plain: dict[str, Any]) -> Verdict:
    """A verdict from a file; one of an earlier version is judged as it would be today."""
    found = Verdict(**{**plain, **{f: float(plain[f]) for f in FIGURES}})
    if found.status in get_args(Status):
        return found
    return replace(found, status=status_of(found.value, found.low, found.high, found.limit))


def _frame(columns: dict[str, list[Any]]) -> pd.DataFrame:
    figures = {c: np.array(v, np.float64) for c, v in columns.items() if c not in TEXTS}
    return pd.DataFrame(columns | figures)
