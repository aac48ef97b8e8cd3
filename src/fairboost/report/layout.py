"""The page, section by section: what was asked, what was met, and what is not known.

Written for a reader who was not there: every section says what its figures are, on which rows, and
how sure they are.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable
from dataclasses import replace

from fairboost._text import places
from fairboost.plots.scores import MOST_INTERVALS
from fairboost.report import class_findings, findings, words
from fairboost.report.blocks import (
    Block,
    Bullets,
    Cell,
    Facts,
    Picture,
    Section,
    Slider,
    TableBlock,
    Text,
)
from fairboost.report.evidence import (
    Calibration,
    Decile,
    Distribution,
    Evidence,
    Roc,
    Tradeoff,
    TradeoffPoint,
)
from fairboost.report.glossary import explain
from fairboost.report.shading import Distances

NOBODY_THERE = ": deciles that are missing have none"

BETWEEN = "between groups"

QUANTILES = (0.05, 0.25, 0.5, 0.75, 0.95)
"""Of predictions, in a table."""

NOTHING_SAID = (
    " Decisions that are nearly the same for everyone, or unrelated to the label, never count as "
    "meeting a constraint."
)


def lay_out(evidence: Evidence) -> tuple[Section, ...]:
    """All sections that the evidence has something to say in."""
    numbers = evidence.task == "numbers"
    gaps = "Gaps between groups" if numbers else "Gaps and ratios between groups"
    parts = (
        ("In short", findings.summary(evidence)),
        ("What was asked", _asked(evidence)),
        ("What was met", findings.verdicts(evidence)),
        (f"{words.noun(evidence).capitalize()}s by group", findings.rates(evidence)),
        (gaps, findings.gaps(evidence)),
        ("Confusion matrices by group", class_findings.confusion(evidence)),
        ("Actual and expected", _deciles(evidence)),
        ("How well it predicts", findings.performance(evidence)),
        ("Alternatives considered", _alternatives(evidence)),
        ("Crossed groups, and cells too small to judge", findings.crossed(evidence)),
        ("Scores by group", _scores(evidence)),
        ("Predictions by group", _distributions(evidence)),
        ("How training went", _training(evidence)),
        ("The data", _data(evidence)),
        ("The model", _model(evidence)),
        ("Limits", [Bullets(evidence.limits)] if evidence.limits else []),
    )
    page = [Section(title, tuple(blocks)) for title, found in parts if (blocks := list(found))]
    meanings = tuple(explain(evidence, (block for section in page for block in section.blocks)))
    return (*page, *([Section("Words and abbreviations", meanings)] if meanings else []))


def _asked(e: Evidence) -> Iterable[Block]:
    a, of_two = e.asked, e.task == "decisions"
    if a.constraints:
        families = {f.constraint: f.family or f.constraint for f in e.verdicts}
        yield Bullets(tuple(dict.fromkeys(families.get(c, c) for c in a.constraints)))
    if e.verdicts:
        level = f"{100 * a.level:g}%"
        asked = f"A confidence of {100 * (a.confidence or 0):g}% was asked for. "
        yield Text(
            f"{'' if a.confidence is None else asked}“Met” and “not met” are certain: the whole "
            f"{level} interval lies on that side of the limit. “Not certain” means that the "
            "figure is on that side, but the interval contains the limit, so the figure may be on "
            f"the other side among other people.{NOTHING_SAID if of_two else ''}"
        )
    yield _facts(
        ("Decisions", a.operating_point),
        ("Favourable decision", f"the {a.favourable} one" if of_two else None),
        ("Coverage of intervals", f"{100 * a.level:g}%"),
    )
    yield from class_findings.costs(e)


def _facts(*pairs: tuple[str, str | None]) -> Facts:
    """Those that are known."""
    return Facts(tuple((name, value) for name, value in pairs if value))


def _alternatives(e: Evidence) -> Iterable[Block]:
    t = e.tradeoff
    if t is None:
        return
    where, numbers = words.where_title(t.where), e.task == "numbers"
    yield Text(
        f"{len(t.points)} models could have been chosen, from no constraint to the tightest "
        f"tolerance. All were measured on the same {where}. Those with a smaller gap than this "
        f"model are less discriminatory by this measure; the {t.measure} beside them is their "
        "price."
    )
    performance, gaps = _figures_along(t, numbers)
    if said := _better_one(t, performance, gaps, numbers):
        yield Text(said, "unsure")
    against = f"{t.figure} {BETWEEN}" if t.is_gap else t.figure
    each = t.measure if numbers else "accuracies"
    yield Picture(
        "tradeoff",
        "",
        f"{t.measure[:1].upper()}{t.measure[1:]} against the {against} on the {where}. The square "
        "follows the slider below.",
        f"{len(t.points)} models with gaps {_span(gaps)} and {each} {_span(performance)}.",
    )
    if all(p.rates for p in t.points):
        lines = (
            f"{p.name}{' (this model)' * (k == t.chosen)}: {t.measure} {_alone(performance[k])}, "
            f"{t.figure} {_alone(gaps[k])}"
            for k, p in enumerate(t.points)
        )
        tables = tuple(_point_table(p, replace(e, rates=p.rates)) for p in t.points)
        yield Slider("Model along the trade-off", tuple(lines), t.chosen or 0, tables)
    rows = (
        (
            Cell(p.name, float(k)),
            performance[k],
            gaps[k],
            words.count(p.trees),
            Cell("this model", 1.0, "good") if k == t.chosen else Cell("", 0.0),
        )
        for k, p in enumerate(t.points)
    )
    header = ("model", t.measure, t.figure, "trees", "chosen")
    yield TableBlock.of(f"All models, on the {where}", header, rows)


def _better_one(t: Tradeoff, performance: list[Cell], gaps: list[Cell], numbers: bool) -> str:
    """That another model predicts as well, as it is shown, and has a smaller gap; or nothing."""
    if t.chosen is None:
        return ""
    worse = 1.0 if numbers else -1.0

    def shown(cell: Cell) -> float:
        return float(_alone(cell).replace(",", ""))

    own, gap = performance[t.chosen], gaps[t.chosen]
    known = own.key is not None and gap.key is not None
    better = [
        k
        for k, p in enumerate(t.points)
        if known and not p.decides_nothing and performance[k].key is not None
        if gaps[k].key is not None and shown(gaps[k]) < shown(gap)
        if worse * (shown(performance[k]) - shown(own)) <= 0
    ]
    if not better:
        return ""
    k = min(better, key=lambda k: gaps[k].key or 0.0)
    return (
        f"On these rows “{t.points[k].name}” predicts as well as this model, or better "
        f"({t.measure} {_alone(performance[k])}, this model {_alone(own)}), and has a "
        f"smaller {t.figure}: "
        f"{_alone(gaps[k])}, this model {_alone(gap)}. Differences this small may be chance: "
        "judge it on other rows before you choose it."
    )


def _figures_along(t: Tradeoff, numbers: bool) -> tuple[list[Cell], list[Cell]]:
    """Performance and gap of each model, with intervals."""
    performance = [
        (p.loss, p.loss_low, p.loss_high)
        if numbers
        else (p.accuracy, p.accuracy_low, p.accuracy_high)
        for p in t.points
    ]
    gaps = [(p.gap, p.gap_low, p.gap_high) for p in t.points]
    cells = []
    for figures in (performance, gaps):
        known = [value for value, _, _ in figures if value is not None]
        decimals = places(*known) if numbers else 3
        cells.append([words.interval_cell(*figure, decimals) for figure in figures])
    return cells[0], cells[1]


def _alone(cell: Cell) -> str:
    """A figure without its interval."""
    return cell.text.partition(" [")[0]


def _span(cells: Iterable[Cell]) -> str:
    known = sorted((c for c in cells if c.key is not None), key=lambda c: c.key or 0.0)
    ends = (_alone(known[0]), _alone(known[-1])) if known else (words.ABSENT, words.ABSENT)
    return f"from {ends[0]} to {ends[1]}"


def _point_table(p: TradeoffPoint, e: Evidence) -> TableBlock:
    """Groups as rows, rates as columns; the evidence has the rates of this model."""
    distances = Distances(e)
    found, rates = findings.cross(
        p.rates, row=lambda r: (r.attribute, r.group), column=lambda r: r.rate
    )
    decimals = {rate: words.decimals_of(rate, e) for rate in rates}
    rows = (
        (
            attribute or "everyone",
            group,
            *(
                distances.shade(
                    words.line_cell(by_rate.get(rate), decimals[rate]), by_rate.get(rate)
                )
                for rate in rates
            ),
        )
        for (attribute, group), by_rate in found.items()
    )
    header = ("by", "group", *(words.rate_title(rate, e) for rate in rates))
    title = f"{words.noun(e).capitalize()}s by group of the model at the slider"
    return TableBlock.of(title, header, rows, 2)


def _scores(e: Evidence) -> Iterable[Block]:
    below = "A table below has the figures."
    outlines = "One outline for each label, on a common axis, with the threshold."
    pictures = (
        ("roc", e.roc, "ROC curves by {}. Marks: where decisions are made.", below),
        ("scores", e.scores, "Scores by {} and label.", outlines),
        ("calibration", e.calibration, "Predicted against actual shares by {}.", below),
    )
    for name, lines, caption, more in pictures:
        for column in dict.fromkeys(line.attribute for line in lines if line.attribute):
            groups = list(dict.fromkeys(x.group for x in lines if x.attribute == column))
            alt = f"Groups: {words.join(groups)}. {more}"
            yield Picture(name, column, caption.format(column), alt)
    if e.roc:
        curves = (
            (*_group(c), *map(words.number_cell, (c.auc, c.at_fpr, c.at_tpr))) for c in e.roc
        )
        header = ("by", "group", "AUC", "false positive rate", "true positive rate")
        yield TableBlock.of("ROC curves: area, and the operating point", header, curves, 2)
    if e.calibration:
        bins = (
            (
                *_group(c),
                words.number_cell(predicted),
                words.interval_cell(found, low, high),
                words.count(rows),
            )
            for c in e.calibration
            for predicted, rows, found, low, high in zip(
                c.predicted, c.rows, c.found, c.low, c.high, strict=True
            )
        )
        title = "Calibration: share of positive labels, by bins of the score"
        yield TableBlock.of(title, ("by", "group", "predicted", "found", "rows"), bins, 2)


def _deciles(e: Evidence) -> Iterable[Block]:
    """Actual against expected: the table that a filing asks for, and pictures of it."""
    if not e.deciles:
        return
    weighed = "exposure" if e.data.exposure else "weight" if e.data.weight else ""
    # A ratio of totals of which one is below 0 does not say which of the two is larger.
    signed = any(min(d.expected, d.actual) < 0 for d in e.deciles)
    compared = "A/E the second over the first. Above 1 the model predicts too little, below 1 too "
    compared += "much."
    if signed:
        compared = "the difference the second less the first. Some totals are below 0, so that no "
        compared += "ratio of them (A/E) is shown."
    missing = NOBODY_THERE * (len({d.decile for d in e.deciles}) < 11)
    yield Text(
        f"Expected is the total of predictions, actual the total of what was actual, and "
        f"{compared} Deciles are tenths of all test rows by the prediction of this model, the "
        f"lowest first{f', each with a tenth of the {weighed}' if weighed else ''}, as far as "
        f"rows with the same prediction allow{missing}. Groups share them, so a group need not "
        "have a tenth of its rows in each."
    )
    for column in dict.fromkeys(d.attribute for d in e.deciles if d.attribute):
        groups = list(dict.fromkeys(d.group for d in findings.deciles_shown(e, column)))
        if groups:
            yield _decile_picture(e, column, groups)
    decimals = max(places(*(x for d in e.deciles for x in (d.expected, d.actual))) - 3, 0)
    rows = (
        (
            d.attribute or "everyone",
            d.group,
            Cell("all" if d.decile == 0 else str(d.decile), float(d.decile)),
            words.count(d.rows),
            *([words.count(d.exposure)] if weighed else []),
            words.number_cell(d.expected, decimals),
            words.number_cell(d.actual, decimals),
            words.number_cell(d.actual - d.expected, decimals)
            if signed
            else words.interval_cell(d.ratio, d.ratio_low, d.ratio_high),
            _decile_note(d),
        )
        for d in e.deciles
    )
    header = ["by", "group", "decile", "rows", *([weighed] if weighed else [])]
    header += ["expected", "actual", "difference" if signed else "A/E", "note"]
    title = "Actual and expected" if signed else "Actual over expected"
    yield TableBlock.of(f"{title} by group and decile", header, rows, 3)


def _decile_picture(e: Evidence, column: str, groups: list[str]) -> Picture:
    few = len(groups) <= MOST_INTERVALS
    ends = f", with {100 * e.asked.level:g}% intervals" if few else ""
    return Picture(
        "deciles",
        column,
        f"Mean of what was actual against mean prediction by {column}, in deciles of the "
        f"prediction{ends}. On the dotted line both are equal. Deciles in which a group has fewer "
        f"than {e.min_rows} rows are left out.",
        f"Groups: {words.join(groups)}. A table below has the figures.",
    )


def _decile_note(d: Decile) -> Cell:
    if not d.rows:
        return Cell("no rows", -2.0, "unsure")
    return Cell("too small to judge", -1.0, "unsure") if d.small else Cell("", 0.0)


def _distributions(e: Evidence) -> Iterable[Block]:
    """Distribution functions by group, and some of their quantiles."""
    curves = e.distributions
    if curves and (by := e.data.exposure or e.data.weight):
        yield Text(f"Shares and quantiles here are weighted ({by}).")
    for column in dict.fromkeys(d.attribute for d in curves if d.attribute):
        groups = [d.group for d in curves if d.attribute == column]
        yield Picture(
            "distributions",
            column,
            f"Share of each group by {column} up to each prediction. Where lines "
            "are apart vertically, the shares of the groups differ by this distance.",
            f"Groups: {words.join(groups)}. A table below has quantiles.",
        )
    if curves:
        found = [[_quantile(d, q) for q in QUANTILES] for d in curves]
        decimals = places(*(x for line in found for x in line))
        rows = (
            (
                d.attribute or "everyone",
                d.group,
                words.count(d.rows),
                *(words.number_cell(x, decimals) for x in line),
            )
            for d, line in zip(curves, found, strict=True)
        )
        header = ("by", "group", "rows", *(f"{100 * q:g}%" for q in QUANTILES))
        yield TableBlock.of("Quantiles of predictions by group", header, rows, 2)


def _quantile(curve: Distribution, share: float) -> float:
    """The least prediction that so large a share of the group does not exceed."""
    return curve.values[min(bisect_left(curve.shares, share - 1e-9), len(curve.values) - 1)]


def _group(curve: Roc | Calibration) -> tuple[str, str]:
    return curve.attribute or "everyone", curve.group


def _training(e: Evidence) -> Iterable[Block]:
    if (r := e.rounds) is None:
        return
    where = words.where_title(r.where)
    both = " and, dotted, on training rows" if r.train_violations else ""
    yield Text(
        "A multiplier is the weight that a constraint has in training. It rises while the "
        "constraint is broken (violation above 0) and falls, or rests at 0, once it holds."
    )
    peaks = {
        k: max((abs(v) for v in vs if v is not None), default=0.0)
        for k, vs in r.multipliers.items()
    }
    largest = max(peaks, key=lambda k: peaks[k])
    broken = sum((values[-1] or 0.0) > 0 for values in r.violations.values() if values)
    yield Picture(
        "rounds",
        "",
        f"Multipliers, and violations on the {where}{both}, over {r.rounds[-1]} rounds. Vertical "
        "line: the round that was kept.",
        f"The largest multiplier is that of {largest}, {words.number(peaks[largest])}. "
        f"At the end {broken} of {len(r.violations)} inequalities are broken on the {where}.",
    )


def _data(e: Evidence) -> Iterable[Block]:
    d = e.data
    yield _facts(
        (
            "Decision",
            f"{d.decision}; positive: {d.positive}" if not d.label else d.decision or None,
        ),
        (
            "Label",
            f"{d.label}; positive: {d.positive}" if e.task == "decisions" and d.label else None,
        ),
        ("Predicted number", d.label if e.task == "numbers" else None),
        ("Label", f"{d.label}, one of {len(d.classes)} classes" if d.classes else None),
        ("Classes", words.join(d.classes)),
        *(
            ("Rows" if e.model is None else f"Rows, {use}", f"{rows:,}")
            for use, rows in d.splits.items()
        ),
        ("Features", None if d.features is None else str(d.features)),
        ("Weights", d.weight),
        ("Exposure", d.exposure),
    )
    is_feature = {
        True: "yes: the model sees it",
        False: "no: the model is blind to it",
        None: "not known",
    }
    rows = (
        (c.name, words.count(c.groups), words.count(c.missing), is_feature[c.feature])
        for c in d.sensitive
    )
    rows_of = "rows" if e.model is None else "test rows"
    header = ("sensitive column", "groups", f"{rows_of} of unknown group", "a feature?")
    n = 3 if e.model is None else 4  # of what a table was decided by, nothing is known
    yield TableBlock.of("Sensitive columns", header[:n], (line[:n] for line in rows))
    if d.left_out:
        yield TableBlock.of(
            "Columns left out of the features", ("column", "why"), d.left_out.items()
        )
    if d.files:
        files = ((f.name, f.role, words.count(f.rows), f.sha256 or words.ABSENT) for f in d.files)
        yield TableBlock.of("Files", ("file", "used for", "rows", "SHA-256"), files)


def _model(e: Evidence) -> Iterable[Block]:
    if (m := e.model) is None:
        return
    at = (
        None
        if m.threshold is None
        else f"positive if the probability is at least {m.threshold:.6g}"
    )
    yield _facts(
        ("Engine", f"{m.engine} {m.engine_version}"),
        ("Trained by", f"fairboost {m.fairboost_version}"),
        ("Trees", f"{m.trees:,}"),
        ("Threshold", at),
        ("Loss", e.data.loss),
        ("Stock model file", m.export_file),
        ("Its SHA-256", m.export_sha256),
        *e.notes.items(),
    )
    options = [("engine", *option) for option in m.options.items()]
    options += [("fairboost", *option) for option in m.method.items()]
    if options:
        yield TableBlock.of("Options", ("of", "option", "value"), options, 2)
