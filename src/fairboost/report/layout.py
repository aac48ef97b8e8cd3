"""The report, section by section: what was asked, what was met, and what is not known.

Written for a reader who was not there: every section says what its figures are, on which rows, and
how sure they are.
"""

from __future__ import annotations

from collections.abc import Iterable

from fairboost.report import findings
from fairboost.report.blocks import (
    Block,
    Bullets,
    Cell,
    Facts,
    Picture,
    Section,
    Slider,
    Table,
    Text,
)
from fairboost.report.evidence import Evidence, GroupRate, TradeoffPoint
from fairboost.report.words import (
    count,
    interval_cell,
    join,
    number,
    rate_title,
    where_title,
)


def lay_out(evidence: Evidence) -> tuple[Section, ...]:
    """All sections that the evidence has something to say in."""
    parts = (
        ("In short", findings.summary(evidence)),
        ("What was asked", _asked(evidence)),
        ("What was met", findings.verdicts(evidence)),
        ("Rates by group", findings.rates(evidence)),
        ("Gaps and ratios between groups", findings.gaps(evidence)),
        ("How well it predicts", findings.performance(evidence)),
        ("Alternatives considered", _alternatives(evidence)),
        ("Crossed groups, and cells too small to judge", findings.crossed(evidence)),
        ("Scores by group", _scores(evidence)),
        ("How training went", _training(evidence)),
        ("The data", _data(evidence)),
        ("The model", _model(evidence)),
        ("Limits", _limits(evidence)),
    )
    return tuple(
        Section(title, tuple(blocks)) for title, found in parts if (blocks := list(found))
    )


def _asked(e: Evidence) -> Iterable[Block]:
    a = e.asked
    if a.constraints:
        yield Bullets(a.constraints)
        if a.confidence is None:
            yield Text(
                "“Met” means that the figure found is within the limit; the interval beside it "
                f"says, at {100 * a.level:g}%, what it may be among other people. “Not met” means "
                "that even the favourable end of the interval is beyond the limit."
            )
        else:
            yield Text(
                f"A confidence of {100 * a.confidence:g}% was asked for: “met” means that an "
                "upper bound on the figure at this confidence is within the limit."
            )
    facts = [
        ("Decisions", a.operating_point),
        ("Favourable decision", f"the {a.favourable} one"),
        ("Coverage of intervals", f"{100 * a.level:g}%"),
    ]
    yield Facts(tuple((name, value) for name, value in facts if value))


def _alternatives(e: Evidence) -> Iterable[Block]:
    t = e.tradeoff
    if t is None:
        return
    where = where_title(t.where)
    yield Text(
        f"{len(t.points)} models could have been chosen, from no constraint to the tightest "
        f"tolerance. All were measured on the same {where}. Those with a smaller gap than this "
        "model are less discriminatory by this measure; the accuracy beside them is their price."
    )
    accuracy = [p.accuracy for p in t.points if p.accuracy is not None]
    gaps = [p.gap for p in t.points if p.gap is not None]
    yield Picture(
        "tradeoff",
        "",
        f"Accuracy against the largest gap between groups on the {where}. The square "
        "follows the slider below.",
        f"{len(t.points)} models with gaps from {number(min(gaps, default=None))} to "
        f"{number(max(gaps, default=None))} and accuracies from "
        f"{number(min(accuracy, default=None))} to {number(max(accuracy, default=None))}.",
    )
    if all(p.rates for p in t.points):
        yield Slider(
            "Model along the trade-off",
            tuple(_point_line(p, k == t.chosen) for k, p in enumerate(t.points)),
            t.chosen or 0,
            tuple(_point_table(p) for p in t.points),
        )
    rows = tuple(
        (
            Cell(p.name, float(k)),
            interval_cell(p.accuracy, p.accuracy_low, p.accuracy_high),
            interval_cell(p.gap, p.gap_low, p.gap_high),
            Cell("–") if p.trees is None else count(p.trees),
            Cell("this model", 1.0, "good") if k == t.chosen else Cell("", 0.0),
        )
        for k, p in enumerate(t.points)
    )
    header = ("model", "accuracy", "largest gap", "trees", "chosen")
    yield Table(f"All models, on the {where}", header, rows)


def _point_line(p: TradeoffPoint, chosen: bool) -> str:
    own = " (this model)" if chosen else ""
    return f"{p.name}{own}: accuracy {number(p.accuracy)}, largest gap {number(p.gap)}"


def _point_table(p: TradeoffPoint) -> Table:
    """Groups as rows, rates as columns."""
    names = list(dict.fromkeys(r.rate for r in p.rates))
    found: dict[tuple[str, str], dict[str, GroupRate]] = {}
    for r in p.rates:
        found.setdefault((r.attribute, r.group), {})[r.rate] = r
    rows = []
    for (attribute, group), by_rate in found.items():
        line = [Cell(attribute or "everyone"), Cell(group)]
        for name in names:
            r = by_rate[name]
            line.append(interval_cell(r.value, r.low, r.high))
        rows.append(tuple(line))
    header = ("by", "group", *(rate_title(name) for name in names))
    return Table("Rates by group of the model at the slider", header, tuple(rows), 2)


def _scores(e: Evidence) -> Iterable[Block]:
    pictures = (
        ("roc", e.roc, "ROC curves by {by}. Marks: where decisions are made."),
        ("scores", e.scores, "Scores by {by} and label."),
        ("calibration", e.calibration, "Predicted against found shares by {by}."),
    )
    for name, lines, caption in pictures:
        by_column = list(dict.fromkeys(line.attribute for line in lines if line.attribute))
        for column in by_column:
            groups = list(dict.fromkeys(x.group for x in lines if x.attribute == column))
            text = caption.format(by=column)
            yield Picture(name, column, text, f"Groups: {join(groups)}. {_tables_say(name)}")
    if e.roc:
        rows = tuple(
            (
                Cell(c.attribute or "everyone"),
                Cell(c.group),
                Cell(number(c.auc), c.auc),
                Cell(number(c.at_fpr), c.at_fpr),
                Cell(number(c.at_tpr), c.at_tpr),
            )
            for c in e.roc
        )
        header = ("by", "group", "AUC", "false positive rate", "true positive rate")
        yield Table("ROC curves: area, and the operating point", header, rows, 2)
    if e.calibration:
        rows = tuple(
            (
                Cell(c.attribute or "everyone"),
                Cell(c.group),
                Cell(number(c.predicted[k]), c.predicted[k]),
                interval_cell(c.found[k], c.low[k], c.high[k]),
                count(c.rows[k]),
            )
            for c in e.calibration
            for k in range(len(c.rows))
        )
        header = ("by", "group", "predicted", "found", "rows")
        yield Table("Calibration: share of positive labels, by bins of the score", header, rows, 2)


def _tables_say(name: str) -> str:
    if name == "scores":
        return "One outline for each label, on a common axis, with the threshold."
    return "A table below has the figures."


def _training(e: Evidence) -> Iterable[Block]:
    if (r := e.rounds) is None:
        return
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
    yield Picture(
        "rounds",
        "",
        f"Multipliers, and violations on the {where_title(r.where)}{both}, over {r.rounds[-1]} "
        f"rounds. Vertical line: the round that was kept.",
        f"The largest multiplier is that of {largest}, {number(peaks[largest])}. "
        f"At the end {_broken(r.violations)} of {len(r.violations)} inequalities are broken on "
        f"the {where_title(r.where)}.",
    )


def _broken(violations: dict[str, tuple[float | None, ...]]) -> int:
    return sum((values[-1] or 0.0) > 0 for values in violations.values() if values)


def _data(e: Evidence) -> Iterable[Block]:
    d = e.data
    facts = [
        ("Label", f"{d.label}; positive: {d.positive}"),
        *((f"Rows, {use}", f"{rows:,}") for use, rows in d.splits.items()),
        ("Features", "" if d.features is None else str(d.features)),
        ("Weights", d.weight or ""),
    ]
    yield Facts(tuple((name, value) for name, value in facts if value))
    seen = {
        True: "yes: the model sees it",
        False: "no: the model is blind to it",
        None: "not known",
    }
    rows = tuple(
        (Cell(c.name), count(c.groups), count(c.missing), Cell(seen[c.feature]))
        for c in d.sensitive
    )
    header = ("sensitive column", "groups", "test rows of unknown group", "a feature?")
    yield Table("Sensitive columns", header, rows)
    if d.left_out:
        left = tuple((Cell(name), Cell(why)) for name, why in d.left_out.items())
        yield Table("Columns left out of the features", ("column", "why"), left)
    if d.files:
        files = tuple(
            (
                Cell(f.name),
                Cell(f.role),
                Cell("–") if f.rows is None else count(f.rows),
                Cell(f.sha256 or "–"),
            )
            for f in d.files
        )
        yield Table("Files", ("file", "used for", "rows", "SHA-256"), files)


def _model(e: Evidence) -> Iterable[Block]:
    if (m := e.model) is None:
        return
    facts = [
        ("Engine", f"{m.engine} {m.engine_version}"),
        ("Trained by", f"fairboost {m.fairboost_version}"),
        ("Trees", f"{m.trees:,}"),
        ("Threshold", f"positive from a probability of {m.threshold:.6g} on"),
        ("Stock model file", m.export_file or ""),
        ("Its SHA-256", m.export_sha256 or ""),
        *e.notes.items(),
    ]
    yield Facts(tuple((name, value) for name, value in facts if value))
    options = [("engine", m.options), ("fairboost", m.method)]
    rows = tuple(
        (Cell(part), Cell(name), Cell(str(value)))
        for part, found in options
        for name, value in found.items()
    )
    if rows:
        yield Table("Options", ("of", "option", "value"), rows, 2)


def _limits(e: Evidence) -> Iterable[Block]:
    if e.limits:
        yield Bullets(e.limits)
