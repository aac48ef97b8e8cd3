"""Rates, verdicts and operating points once more, counted by NumPy from decisions."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from fairboost.data.validation import check_beside
from fairboost.exceptions import FairboostError
from tests.fuzz.inputs import Inputs, Rows, expect

COUNTS = {"fpr": 0, "tnr": 0, "tpr": 1, "fnr": 1, "ppr": None, "pnr": None}  # whose label
POSITIVE = ("fpr", "tpr", "ppr")  # share of positive decisions
NAMED = {
    "equal_opportunity": ["fnr"],
    "predictive_equality": ["fpr"],
    "equalized_odds": ["fpr", "fnr"],
    "demographic_parity": ["ppr"],
}


@dataclass(frozen=True)
class Asked:
    """One constraint on the groups of some columns."""

    kind: str  # "gap", "rate" or "violation"
    rate: str
    limit: float
    columns: tuple[int, ...]
    group: int | None = None


def asked(inputs: Inputs) -> list[Asked]:
    """The constraints written out: every sensitive column by itself unless one is named."""
    case = inputs.case
    tolerance = case["fair"].get("tolerance")
    if tolerance is None:
        tolerance = 0.0 if case["paper"] else 0.01
    every = [(j,) for j in range(len(inputs.columns))]
    if case["groups_in"] == "none":
        every = []
    found = []
    for item in case["constraint"] or []:
        if isinstance(item, str):
            found += [Asked("gap", r, tolerance, c) for r in NAMED[item] for c in every]
        elif item[0] == "parity":
            where = every if item[3] is None else [tuple(item[3])]
            found += [Asked("gap", item[1], item[2], c) for c in where]
        elif item[0] == "bound":
            if item[3] is None:
                found.append(Asked("rate", item[1], item[2], ()))
            else:
                column, code = item[3][0] or 0, item[3][1]
                code %= len(inputs.values[column])
                found.append(Asked("rate", item[1], item[2], (column,), code))
        else:
            found += [Asked("violation", "fnr", 0.0, c) for c in every]
    return found


def members(
    rows: Rows, columns: tuple[int, ...], known: Rows
) -> dict[tuple[int, ...], np.ndarray]:
    """The rows of each group that occurs in training, in the order of codes."""
    if not columns:
        return {(): np.ones(len(rows), bool)}
    stacked = np.stack([known.codes[j] for j in columns], axis=1)
    present = np.unique(stacked[(stacked >= 0).all(axis=1)], axis=0)
    mine = np.stack([rows.codes[j] for j in columns], axis=1)
    return {tuple(map(int, key)): (mine == key).all(axis=1) for key in present}


def rate_of(rate: str, rows: Rows, positive: np.ndarray, inside: np.ndarray) -> float:
    """A rate by its definition."""
    label = COUNTS[rate]
    who = inside if label is None else inside & (rows.label == label)
    weight = rows.counted[who]
    event = positive[who] if rate in POSITIVE else ~positive[who]
    return float((weight * event).sum() / weight.sum()) if weight.sum() > 0 else float("nan")


def _decide(fitted: Any, X: Any) -> np.ndarray:
    return np.asarray(fitted.model.predict(X)) == fitted.model.pos_label_


def judged_rows(fitted: Any) -> Rows | None:
    """The rows that the report is about, where they are at hand."""
    case, inputs = fitted.case, fitted.inputs
    holdout = None if case["paper"] else case["fair"].get("holdout", "auto")
    if inputs.held is not None:
        # XGBoost predicts no rows without names by a model that has some.
        named = check_beside(inputs.held.X, inputs.train.X, "holdout_set")
        return replace(inputs.held, X=named) if not isinstance(holdout, float) else None
    return inputs.train if holdout is None else None


def check_rates(fitted: Any) -> bool | None:
    """Every figure of the report's table, in its order."""
    report, inputs = fitted.model.fairness_report_, fitted.inputs
    wanted = asked(inputs)
    if report is None or not wanted:
        return False
    counted = 0
    rows = judged_rows(fitted)
    if rows is not None:
        counted += _compare(fitted, report.rates, report.where, rows, wanted, "")
    test = inputs.test
    try:
        tested = fitted.model.report_on(
            test.X, test.y, sensitive_features=test.groups, sample_weight=test.given
        )
    except FairboostError:  # such as a group without rows of a label
        tested = None
    if tested is not None:
        counted += _compare(fitted, tested.rates, "test", test, wanted, "test ")
    fitted.extra["rates"] = counted
    return None if counted else False


def _compare(
    fitted: Any, table: Any, column: str, rows: Rows, wanted: list[Asked], prefix: str
) -> int:
    """Compare a column of the table with rates counted by hand; their number."""
    inputs, positive = fitted.inputs, _decide(fitted, rows.X)
    mine: dict[Any, float] = {}
    for a in wanted:
        by = ", ".join(inputs.columns[j] for j in a.columns) or "everyone"
        for key, inside in members(rows, a.columns, rows if prefix else inputs.train).items():
            mine.setdefault((a.rate, by, key), rate_of(a.rate, rows, positive, inside))
    small = fitted.case["fair"].get("min_group_rows")  # some groups may not have been compared
    told = table[np.isfinite(table[column])] if prefix or small else table
    names = list(zip(told["rate"], told["by"], told["group"], strict=True))
    expect(len(set(names)) == len(names), "two lines of the report have one name")
    if small:
        mine = {k: v for k, v in mine.items() if np.isfinite(v)}
    expect(len(names) == len(mine), f"{len(names)} lines, expected {len(mine)}:\n{table}\n{mine}")
    # Groups are in the order of their names; those that are new in test rows come last.
    said = list(zip(names, told[column], strict=True))
    counted = list(mine.items())
    if prefix or small:
        said.sort(key=lambda line: (line[0][:2], line[1]))
        counted.sort(key=lambda line: (line[0][:2], line[1]))
    off = [
        (ours, theirs)
        for ours, theirs in zip(counted, said, strict=True)
        if ours[0][:2] != theirs[0][:2] or not abs(ours[1] - theirs[1]) <= 1e-6
    ]
    expect(not off, f"{len(off)} of {len(mine)} rates {prefix}are not by predict: {off[:3]}")
    return len(mine)


def check_point(fitted: Any) -> bool | None:
    """The operating point, on the rows where it was placed."""
    point, inputs = fitted.case["fair"].get("operating_point"), fitted.inputs
    if not isinstance(point, list) or fitted.case["paper"]:
        return False
    rows = inputs.held
    if rows is None:
        rows = judged_rows(fitted)
    if rows is None:
        return False
    rate = {"at_fpr": "fpr", "at_tpr": "tpr", "at_positive_rate": "ppr"}[point[0]]
    everyone = np.ones(len(rows), bool)
    reached = rate_of(rate, rows, _decide(fitted, rows.X), everyone)
    target = point[1]
    sound = reached >= target - 1e-6 if rate == "tpr" else reached <= target + 1e-6
    expect(sound, f"{point[0]}({target}) reaches {reached} on the rows where it was placed")
    p = fitted.scores(rows.X)
    label = COUNTS[rate]
    who = (rows.counted > 0) & (everyone if label is None else rows.label == label)
    decided = p >= fitted.model.threshold_
    # Scores that differ by rounding are decided alike.
    if rate == "tpr":  # one score less would be too few
        above = p[who & decided]
        fewer = rate_of(rate, rows, p > above.min() + 1e-5, everyone)
        expect(fewer < target + 1e-6, f"{point} reaches {reached}, but {fewer} would do")
    elif (who & ~decided).any():
        more = rate_of(rate, rows, p >= p[who & ~decided].max() - 1e-5, everyone)
        expect(more > target - 1e-6, f"{point} reaches {reached}, but {more} may be had")
    return None


STATUSES = {
    (True, True): "met",
    (True, False): "met on these rows, not certain",
    (False, False): "not met on these rows, not certain",
    (False, True): "not met",
}


def check_verdicts(fitted: Any) -> bool | None:
    """Figure, interval, limit and status of each constraint."""
    report, inputs = fitted.model.fairness_report_, fitted.inputs
    wanted = asked(inputs)
    if report is None:
        return False
    expect(
        len(report.verdicts) == len(wanted), f"{len(report.verdicts)} verdicts of {len(wanted)}"
    )
    for a, v in zip(wanted, report.verdicts, strict=True):
        expect(v.measure == a.kind, f"{v!r} is about a {v.measure}, expected {a}")
        expect(v.low <= v.value <= v.high, f"the interval does not hold the figure: {v!r}")
        if a.kind != "violation":
            expect(v.low >= 0 and v.high <= 1, f"an interval beyond 0 and 1: {v!r}")
        free = a.kind == "gap" and inputs.case["fair"].get("tolerance") is None
        known = {a.limit, *(fitted.model.tolerances_.values() if free else ())}
        expect(v.limit in known, f"limit {v.limit}, asked {sorted(known)}")
        within = v.value <= v.limit + 1e-9
        certain = v.high <= v.limit + 1e-9 if within else v.low > v.limit + 1e-9
        certain &= not (within and report.where == "training")  # trees fit the training rows
        status = STATUSES[within, certain]
        if within and fitted.model._measured.decides_little:
            status = "met on these rows, by decisions that say nothing"
        expect(v.status == status, f"{v!r} should be {status!r}")
        _same_figure(fitted, a, v, report)
    return None


def _same_figure(fitted: Any, a: Asked, v: Any, report: Any) -> None:
    """The figure follows from the rates of the table."""
    if fitted.case["fair"].get("min_group_rows"):
        return  # some groups are reported and not judged
    by = ", ".join(fitted.inputs.columns[j] for j in a.columns) or "everyone"
    lines = report.rates[(report.rates["rate"] == a.rate) & (report.rates["by"] == by)]
    values = lines[report.where].to_numpy()
    if a.kind == "gap":
        expect(abs(np.ptp(values) - v.value) < 1e-9, f"{v!r}, but rates are {values}")
    elif a.kind == "violation":
        expect(abs(values.max() - 0.4 - v.value) < 1e-9, f"{v!r}, but rates are {values}")
    else:
        expect((np.abs(values - v.value) < 1e-9).any(), f"{v!r}, but rates are {values}")
