"""Random audits, counted again by NumPy; and names of periods, whose order is known.

Audits are of two labels (probabilities, scores that are none, predicted labels), of several
classes and of numbers, with weights, missing groups and group names of many alphabets. Each is
also made of repeated rows where its weights are whole numbers. Periods are written in some forty
formats and shuffled: they come back in the order of time, or are refused as ambiguous.
"""

from __future__ import annotations

import json
import sys
import warnings
from collections import Counter
from collections.abc import Callable, Iterator
from datetime import date, timedelta
from typing import Any

import numpy as np
import pandas as pd

from fairboost import at_fpr, at_positive_rate, at_tpr
from fairboost.exceptions import InvalidInputError
from fairboost.metrics import audit, audit_classes, audit_numbers
from fairboost.tabular.period_names import in_order
from tests.fuzz import workers
from tests.fuzz.inputs import ALPHABETS, Broken, expect

SECONDS = 60.0
FINE = ("as by hand", "refused")
Z = 1.959963984540054
Drawn = tuple[np.ndarray, dict[str, np.ndarray], np.ndarray | None]
"""Which rows weigh anything, groups by column (None is missing), and weights."""


def campaign(n: int, seed: int) -> dict[str, int]:
    """Try ``n`` audits or columns of periods; returns how many had each outcome."""
    found = workers.outcomes(__name__, [seed], n, SECONDS)
    return dict(sorted(Counter(what for case in found for what, _ in case).items()))


def outcome(seed: int, k: int) -> tuple[str, str]:
    """What came of a case, and details."""
    rng = np.random.default_rng([seed, k])
    name = str(rng.choice(list(KINDS)))
    try:
        said = KINDS[name](rng)
    except InvalidInputError as error:  # of a table of 8 rows
        return f"{name}: {'refused' if 'almost one per row' in str(error) else 'wrong'}", str(
            error
        )
    except Broken as broken:
        return f"{name}: wrong", str(broken)
    except Exception as error:
        return f"{name}: raised {type(error).__name__}", repr(error)
    return f"{name}: {said}", ""


# Rows
# -----------------------------------------------------------------------


def draw_rows(rng: np.random.Generator) -> Drawn:
    """Groups and weights of some rows."""
    n = int(rng.choice([8, 40, 300, 2_000]))
    groups = {}
    for name in rng.choice(["sex", "age band", *ALPHABETS], rng.integers(1, 3), replace=False):
        values = np.array([*rng.permutation(ALPHABETS)[:6], "nan", "1", " "], object)
        shares = rng.dirichlet(np.full(rng.integers(2, 6), rng.choice([0.3, 3.0])))
        column = values[rng.choice(len(shares), n, p=shares)]
        column[rng.random(n) < rng.choice([0.0, 0.0, 0.2])] = None
        column[:2] = values[:2]  # two groups at least
        groups[str(name)] = column
    weights = {
        "none": None,
        "whole": rng.integers(0, 4, n).astype(float),
        "others": rng.gamma(1.0, size=n),
    }
    weight = weights[str(rng.choice(list(weights)))]
    if weight is not None:
        weight[:4] = 1.0
    return np.ones(n, bool) if weight is None else weight > 0, groups, weight


def contained(rng: np.random.Generator, values: np.ndarray) -> Any:
    """A column in one of the containers that users have."""
    makers: list[Callable[[np.ndarray], Any]] = [np.asarray, list, pd.Series]
    return makers[rng.integers(len(makers))](values)


def named(groups: dict[str, np.ndarray]) -> Iterator[tuple[str, str, np.ndarray]]:
    """Every group: column, name, and its rows."""
    for column, values in groups.items():
        for value in sorted({v for v in values if v is not None}):
            yield column, value, np.array([v == value for v in values])


def close(what: str, found: Any, expected: Any) -> None:
    """Raise if numbers differ; NaN equals itself."""
    same = np.allclose(
        np.asarray(found, float), np.asarray(expected, float), rtol=1e-6, atol=1e-9, equal_nan=True
    )
    expect(same, f"{what}: {found}, by hand {expected}")


def share(event: np.ndarray, inside: np.ndarray, w: np.ndarray) -> list[float]:
    """A weighted share, the ends of Wilson's interval, and how many rows it is of."""
    rows = inside & (w > 0)
    total = w[rows].sum()
    if not rows.any():
        return [np.nan] * 3 + [0]
    p, n = w[rows & event].sum() / total, total**2 / (w[rows] ** 2).sum()
    centre = (p + Z**2 / (2 * n)) / (1 + Z**2 / n)
    half = Z * np.sqrt(p * (1 - p) / n + Z**2 / (4 * n**2)) / (1 + Z**2 / n)
    low, high = 0.0 if p == 0 else centre - half, 1.0 if p == 1 else centre + half
    return [p, low, high, int(rows.sum())]


def compare_shares(
    rates: pd.DataFrame, gaps: pd.DataFrame, groups: dict[str, np.ndarray], w: np.ndarray,
    counted: dict[Any, tuple[np.ndarray, np.ndarray]],
) -> None:  # fmt: skip
    """Every rate, gap and ratio once more; ``counted`` has events and rows by the rate's key."""
    keys = [k for k in ("rate", "label", "given") if k in rates]
    for table in (rates, gaps):
        table["key"] = [tuple(line) for line in table[keys].astype(object).to_numpy()]
    lines = {(r.attribute, r.group, r.key): r for r in rates.itertuples()}
    everyone = [("", "everyone", np.ones(len(w), bool))]
    found: dict[Any, list[float]] = {}
    for attribute, group, inside in [*everyone, *named(groups)]:
        for key, (event, rows) in counted.items():
            if not inside[w > 0].any():
                continue
            r = lines[attribute, group, key]
            mine = share(event, rows & inside, w)
            close(f"{key} of {attribute}={group}", [r.value, r.low, r.high, r.rows], mine)
            if attribute and mine[3]:
                found.setdefault((attribute, key), []).append(mine[0])
    for r in gaps.itertuples():
        values = found.get((r.attribute, r.key), [])
        gap = np.ptp(values) if len(values) > 1 else np.nan
        ratio = min(values) / max(values) if len(values) > 1 and max(values) > 0 else np.nan
        close(f"gap of {r.key} by {r.attribute}", [r.gap, r.ratio], [gap, ratio])
        if len(values) > 1:
            sound = -1e-9 <= r.gap_low <= r.gap + 1e-9 and r.gap - 1e-9 <= r.gap_high <= 1 + 1e-9
            expect(sound, f"the gap {r.gap} is not in [{r.gap_low}, {r.gap_high}]")


def expect_same(one: pd.DataFrame, other: pd.DataFrame, columns: list[str]) -> None:
    """Raise if tables of weighted and of repeated rows differ; groups of no weight are gone."""
    keys = [k for k in ("attribute", "group", "rate", "label", "given", "figure") if k in one]
    both = one.merge(other, on=keys, suffixes=("", " again"))
    expect(len(both) == len(other), f"{len(other)} lines of repeated rows, {len(both)} known")
    for name in columns:
        close(f"{name} of repeated rows", both[f"{name} again"], both[name])


def repeated(w: np.ndarray, *columns: Any) -> list[Any]:
    """Rows as often as their weights say."""
    times = w.astype(int)
    return [
        {k: np.repeat(v, times) for k, v in c.items()}
        if isinstance(c, dict)
        else np.repeat(c, times)
        for c in columns
    ]


def is_whole(weight: np.ndarray | None) -> bool:
    """Whether weights stand for repeated rows."""
    return weight is not None and bool((weight == np.round(weight)).all())


# Audits
# -----------------------------------------------------------------------

LABELS = [(0, 1), ("no", "yes"), (False, True), (-1, 1), ("a", "b"), (1, 2)]


def of_labels(rng: np.random.Generator) -> str:
    """Two labels: probabilities, log-odds, points of -20 to 101, predicted labels."""
    rows, groups, weight = draw_rows(rng)
    n, w = len(rows), np.ones(len(rows)) if weight is None else weight
    negative, positive = LABELS[rng.integers(len(LABELS))]
    truth = rng.random(n) < rng.choice([0.05, 0.4])
    truth[:2] = True, False
    odds = rng.normal(size=n) + truth
    score, cut, threshold = _scores(rng, odds, truth)
    pick = np.array([negative, positive], object)
    y = np.array(pick[truth.astype(int)].tolist())
    if score is None:
        decided, given = odds > 0.3, np.array(pick[(odds > 0.3).astype(int)].tolist())
    else:
        given = score
    asked = {
        "sensitive_features": groups, "threshold": threshold, "sample_weight": weight,
        "pos_label": positive, "rates": ["fpr", "fnr", "ppr", "tnr", "precision"],
        "min_group_rows": 0,
    }  # fmt: skip
    try:
        found = audit(contained(rng, y), contained(rng, given), **asked)
    except InvalidInputError as error:
        beyond = score is not None and threshold is None and (score.min() < 0 or score.max() > 1)
        few = "almost one per row" in str(error)  # of a table of 8 rows
        expect(beyond or few, f"refused: {error}")
        return "refused"
    if score is not None:
        expect(
            threshold is not None or (score.min() >= 0 and score.max() <= 1),
            "scores that are no probabilities are cut at 0.5",
        )
        cut = found.threshold if cut is None else cut
        decided = score >= cut
        _check_point(threshold, truth, decided, w)
    counted = {
        ("fpr",): (decided, ~truth), ("fnr",): (~decided, truth),
        ("ppr",): (decided, np.ones(n, bool)), ("tnr",): (~decided, ~truth),
        ("precision",): (truth, decided),
    }  # fmt: skip
    compare_shares(found.rates, found.gaps, groups, w, counted)
    if is_whole(weight) and not hasattr(threshold, "rate_name"):
        y2, given2, groups2 = repeated(w, y, given, groups)
        asked |= {"sensitive_features": groups2, "sample_weight": None}
        again = audit(y2, given2, **asked)
        expect_same(found.rates, again.rates, ["value", "events", "counted"])
        expect_same(found.gaps, again.gaps, ["gap", "ratio"])
    return "as by hand"


def _scores(
    rng: np.random.Generator, odds: np.ndarray, truth: np.ndarray
) -> tuple[np.ndarray | None, float | None, Any]:
    """Scores, None for predicted labels; where they are cut, None if it is chosen; and how."""
    kind = rng.choice(["probabilities", "log-odds", "points", "labels"], p=[0.4, 0.2, 0.2, 0.2])
    if kind == "labels":
        return None, None, None
    score = {
        "probabilities": 1 / (1 + np.exp(-odds)),
        "log-odds": odds,
        "points": np.clip(np.round(40 + 25 * odds), -20, 101),
    }[str(kind)]
    point = (at_positive_rate, at_tpr, at_fpr)[rng.integers(3)](float(rng.choice([0.1, 0.5])))
    middle = float(np.quantile(score, 0.6))
    how = [(0.5, None), (middle, middle), (None, point)][rng.integers(3)]
    return score, *how


def _check_point(point: Any, truth: np.ndarray, decided: np.ndarray, w: np.ndarray) -> None:
    """A threshold that was chosen keeps its rate within the target."""
    name = getattr(point, "rate_name", None)
    if name is None:
        return
    inside = {"fpr": ~truth, "tpr": truth, "ppr": np.ones(len(truth), bool)}[name]
    rate = share(decided, inside, w)[0]
    sound = rate >= point.target - 1e-9 if name == "tpr" else rate <= point.target + 1e-9
    expect(sound, f"{point}: {name} is {rate}")


def of_classes(rng: np.random.Generator) -> str:
    """Three to five classes."""
    rows, groups, weight = draw_rows(rng)
    n, w = len(rows), np.ones(len(rows)) if weight is None else weight
    known = [["low", "middle", "high"], list(range(5)), ["b", "a", "größe", "年齢"]][
        rng.integers(3)
    ]
    y = rng.choice(len(known), n, p=rng.dirichlet(np.ones(len(known))))
    said = np.where(rng.random(n) < 0.6, y, rng.integers(0, len(known), n))
    names = np.array(known)
    asked = {
        "sensitive_features": groups, "classes": known, "sample_weight": weight,
        "min_group_rows": 0,
    }  # fmt: skip
    found = audit_classes(contained(rng, names[y]), contained(rng, names[said]), **asked)
    every = np.ones(n, bool)
    counted: dict[Any, Any] = {("accuracy", None, None): (y == said, every)}
    for k, name in enumerate(known):
        counted["given", None, name] = said == k, every
        counted["recall", name, name] = said == k, y == k
        for j, other in enumerate(known):
            if j != k:
                counted["confused", name, other] = said == j, y == k
    compare_shares(found.rates, found.gaps, groups, w, counted)
    if is_whole(weight):
        y2, said2, groups2 = repeated(w, names[y], names[said], groups)
        again = audit_classes(
            y2, said2, sensitive_features=groups2, classes=known, min_group_rows=0
        )
        expect_same(found.rates, again.rates, ["value", "events", "counted"])
        expect_same(found.gaps, again.gaps, ["gap", "ratio"])
    return "as by hand"


LOSSES: dict[str, Callable[[np.ndarray, np.ndarray], np.ndarray]] = {
    "squared": lambda y, p: (y - p) ** 2,
    "absolute": lambda y, p: np.abs(y - p),
    "poisson": lambda y, p: (
        2 * (np.where(y > 0, y * np.log(np.maximum(y, 1e-300) / p), 0) - y + p)
    ),
    "gamma": lambda y, p: 2 * (y / p - 1 - np.log(y / p)),
}


def of_numbers(rng: np.random.Generator) -> str:
    """Amounts and counts, with exposures or without."""
    rows, groups, weight = draw_rows(rng)
    n, w = len(rows), np.ones(len(rows)) if weight is None else weight
    loss = str(rng.choice(list(LOSSES)))
    years = rng.uniform(0.1, 2.0, n) if rng.random() < 0.5 else None
    v = np.ones(n) if years is None else years
    p = v * np.exp(0.5 * rng.normal(size=n))
    y = rng.poisson(p).astype(float) if loss == "poisson" else p * rng.gamma(2.0, 0.5, n)
    asked = {
        "sensitive_features": groups, "exposure": years, "sample_weight": weight, "loss": loss,
        "min_group_rows": 0,
    }  # fmt: skip
    found = audit_numbers(contained(rng, y), contained(rng, p), **asked)
    lines = {(r.attribute, r.group): r for r in found.by_group.itertuples()}
    per_row = {"mean_prediction": p, "mean_actual": y, "mean_loss": LOSSES[loss](y, p)}
    everyone = [("", "everyone", np.ones(n, bool))]
    means: dict[str, list[list[float]]] = {}
    for attribute, group, inside in [*everyone, *named(groups)]:
        if not (inside & rows).any():
            continue
        line, total = lines[attribute, group], (w * v)[inside].sum()
        mine = [(w * x)[inside].sum() / total for x in per_row.values()]
        mine.append(mine[1] / mine[0])
        for name, value in zip([*per_row, "a_over_e"], mine, strict=True):
            close(f"{name} of {group}", getattr(line, name), value)
        expect(line.rows == (inside & rows).sum(), f"{line.rows} rows of {group}")
        if attribute:
            means.setdefault(attribute, []).append(mine)
    for r in found.gaps.itertuples():
        of_groups = np.array(means[r.attribute])
        mine = {
            name: np.ptp(column) if name != "a_over_e" else np.abs(column - 1).max()
            for name, column in zip([*per_row, "a_over_e"], of_groups.T, strict=True)
        }
        mine["distance"] = _distance(p / v, w * v, groups[r.attribute])
        if len(of_groups) > 1:
            close(f"gap of {r.figure}", r.value, mine[r.figure])
            expect(r.low - 1e-9 <= r.value <= r.high + 1e-9, f"{r.value} in [{r.low}, {r.high}]")
    if is_whole(weight):
        y2, p2, groups2, v2 = repeated(w, y, p, groups, v)
        asked |= {"sensitive_features": groups2, "sample_weight": None}
        again = audit_numbers(y2, p2, **(asked | ({} if years is None else {"exposure": v2})))
        names = ["exposure", *per_row, "a_over_e"]
        expect_same(found.by_group, again.by_group, names)
        places = found.gaps["figure"] != "distance"
        expect_same(found.gaps[places], again.gaps[places], ["value"])
    return "as by hand"


def _distance(r: np.ndarray, w: np.ndarray, group: np.ndarray) -> float:
    """The largest difference of a group's share above a quantile from everyone's."""
    r, kept = r.astype(np.float32), w > 0
    r, w, group = r[kept], w[kept], group[kept]
    order = np.argsort(r)
    upto = np.cumsum(w[order])
    known = np.array([g is not None for g in group])
    largest = 0.0
    for k in range(1, 16):
        cut = r[order][np.searchsorted(upto, k / 16 * upto[-1])]
        above = (w * (r >= cut))[known].sum() / w[known].sum()
        for g in {g for g in group if g is not None}:
            own = np.array([x == g for x in group])
            largest = max(largest, abs((w * (r >= cut))[own].sum() / w[own].sum() - above))
    return largest


# Periods
# -----------------------------------------------------------------------

MONTHLY = [
    "%Y-%m", "%Y/%m", "%Y.%m", "%Y %m", "%Y_%m", "%YM%m", "%Y%m", "%m.%Y", "%m/%Y", "%m-%Y",
    "%m%Y", "%b %Y", "%B %Y", "%Y %b", "%b%Y", "%Y年%m月", "%b-%y", "%y-%m", "%m/%y", "%b '%y",
    "%Y-M%m",
]  # fmt: skip
DAILY = [
    "%Y-%m-%d", "%Y%m%d", "%d.%m.%Y", "%d%m%Y", "%m/%d/%Y", "%d %b %Y", "%b %d, %Y", "%d/%m/%y",
    "%y%m%d", "%Y-%m-%d 00:00:00", "%G-W%V", "W%V %G", "%V/%G", "%Y.%m.%d", "%d-%b-%Y",
]  # fmt: skip
QUARTERLY = ["{0}-Q{1}", "{0}Q{1}", "Q{1} {0}", "{1}Q{2:02}", "{0} q{1}", "{1}/{0}", "T{1} {0}"]


def of_periods(rng: np.random.Generator) -> str:
    """Periods in one format: in the order of time, or refused as ambiguous."""
    start = date(int(rng.integers(2001, 2035)), int(rng.integers(1, 13)), 1)
    n = int(rng.integers(2, 50))
    if (unit := rng.integers(3)) == 0:
        form = str(rng.choice(MONTHLY))
        days = [date(start.year + (start.month + k - 1) // 12, (start.month + k - 1) % 12 + 1, 1)
                for k in range(n)]  # fmt: skip
    elif unit == 1:
        form, step = str(rng.choice(DAILY)), int(rng.choice([1, 7]))
        days = [start + timedelta(step * k + int(rng.integers(7))) for k in range(0, 7 * n, 7)]
        days = sorted(set(days))
    if unit < 2:
        names = [d.strftime(form) for d in days]
        if rng.random() < 0.2 and "%y" not in form:  # without zeros in front
            names = [
                name.replace("/0", "/").replace(".0", ".").replace("-0", "-") for name in names
            ]
    else:
        form = str(rng.choice(QUARTERLY))
        found = [(start.year + k // 4, k % 4 + 1) for k in range(n)]
        names = [form.format(y, q, y % 100) for y, q in found]
    names = list(dict.fromkeys(names))
    shuffled = [str(x) for x in rng.permutation(names)]
    try:
        order = in_order(shuffled, "period")
    except InvalidInputError as error:
        expect("ambiguous" in str(error), f"{names}: {error}")
        return "refused"
    expect(order is not None or len(names) < 2, f"no order of {names}")
    expect([shuffled[k] for k in order or [0]] == names, f"{[shuffled[k] for k in order or [0]]}")
    return "as by hand"


KINDS: dict[str, Callable[[np.random.Generator], str]] = {
    "two labels": of_labels,
    "classes": of_classes,
    "numbers": of_numbers,
    "periods": of_periods,
}


def work(seed: int, start: int, stop: int) -> None:
    """Try cases; a line of JSON for each."""
    warnings.simplefilter("ignore")
    for k in range(start, stop):
        print(json.dumps([outcome(seed, k)]), flush=True)


if __name__ == "__main__":
    work(*map(int, sys.argv[2:]))
