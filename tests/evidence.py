"""Evidence made by hand: two sensitive columns, hostile names, and all parts of a report."""

from __future__ import annotations

from dataclasses import replace
from itertools import product

import numpy as np

from fairboost.report import DataFile, Evidence
from fairboost.report.evidence import (
    Asked,
    Calibration,
    Confusion,
    Data,
    Decile,
    Distribution,
    Finding,
    Gap,
    GroupRate,
    Limit,
    Model,
    Performance,
    Roc,
    Rounds,
    ScoreCounts,
    SensitiveColumnUse,
    Tradeoff,
    TradeoffPoint,
)

SCRIPT = "<script>document.title='hit'</script>"
IMAGE = "</script><img src=x onerror=\"document.title='hit'\">"
GROUPS = {"sex": ["female", "male"], SCRIPT: ["a|b", IMAGE, "long name of a group, in many words"]}
LONG_NAMES = {
    "gender recorded at the time of application": ["Female", "Male", "Other or not stated"],
    "ethnic_origin_as_recorded_by_the_branch": [
        "American Indian or Alaska Native",
        "Asian",
        "Black or African American",
        "Native Hawaiian or other Pacific Islander",
        "White",
        "Not_stated_or_recorded_before_the_merger_of_2009",
    ],
}
"""Groups as forms name them: long, many, and some without a place to break the line."""

RATES = {"fnr": 0.2, "fpr": 0.1, "ppr": 0.4}
FIGURES = {"prediction": 0.3, "actual": 0.32, "A/E": 1.05, "loss": 0.6, "distance": 0.04}
UNIT = {"prediction": 200_000.0, "actual": 200_000.0, "loss": 3e9, "A/E": 1.0, "distance": 1.0}
"""Of figures where a number is predicted: amounts, which take more room than rates."""


def rates(shift=0.0, model="chosen", where="test", crossed=False, groups=GROUPS, of=RATES):
    """Of everyone and every group; the k-th is k hundredths higher, the last small."""
    lines = [("", "everyone")]
    lines += [(column, group) for column, those in groups.items() for group in those]
    if crossed:
        lines = [(", ".join(groups), ", ".join(cell)) for cell in product(*groups.values())]
    return tuple(
        GroupRate(
            where=where,
            model=model,
            attribute=attribute,
            group=group,
            rate=rate,
            value=value + shift + k / 100,
            low=value + shift + k / 100 - 0.03,
            high=value + shift + k / 100 + 0.03,
            rows=500.0 - 20 * k if k + 1 < len(lines) else 25.0,
            small=k + 1 == len(lines),
            crossed=crossed,
        )
        for k, (attribute, group) in enumerate(lines)
        for rate, value in of.items()
    )


def point(k, groups=GROUPS):
    tolerance = None if k == 0 else 0.1 - 0.02 * k
    accuracy, gap = 0.82 - 0.005 * k, 0.2 - 0.03 * k
    return TradeoffPoint(
        name="no constraint" if tolerance is None else f"tolerance {tolerance:.2f}",
        tolerance=tolerance,
        accuracy=accuracy,
        accuracy_low=accuracy - 0.01,
        accuracy_high=accuracy + 0.01,
        gap=gap,
        gap_low=gap - 0.02,
        gap_high=gap + 0.02,
        trees=100 + k,
        rates=rates(shift=0.05 * k, groups=groups),
    )


def finding(where, column, status):
    text = f"false negative rate equal by {column}, tolerance 0.02"
    return Finding(where, text, "gap", 0.01, 0.0, 0.03, 0.02, status, f"{column}=x", 120)


def curves(groups=GROUPS):
    grid = np.linspace(0, 1, 21)
    edges = tuple(map(float, np.linspace(0, 1, 11)))
    names = [(column, group) for column, those in groups.items() for group in those]
    roc = tuple(
        Roc(c, g, tuple(grid), tuple(map(float, np.sqrt(grid))), 0.1, 0.3, 0.7) for c, g in names
    )
    scores = tuple(
        ScoreCounts(c, g, label, label == "yes", edges, (0.1,) * 10, 200)
        for c, g in names
        for label in ("no", "yes")
    )
    calibration = tuple(
        Calibration(c, g, (0.1, 0.5), (0.2, 0.5), (0.1, 0.4), (0.3, 0.6), (90, 110))
        for c, g in names
    )
    return {"roc": roc, "scores": scores, "calibration": calibration}


def make_evidence(groups=GROUPS) -> Evidence:
    """Of groups by column, two columns of them."""
    first, second = columns = list(groups)
    gaps = tuple(
        Gap(
            "test", model, column, rate, 0.1, 0.05, 0.15, ratio, ratio - 0.1, ratio + 0.1,
            those[0], those[-1], four_fifths,
        )
        for model in ("chosen", "plain")
        for column, those in groups.items()
        for rate, ratio, four_fifths in (("fnr", 0.8, None), ("ppr", 0.5, "fails"))
    )  # fmt: skip
    performance = tuple(
        Performance(model, measure, value, value - 0.01, value + 0.01)
        for model, value in (("chosen", 0.8), ("plain", 0.81), ("difference", -0.01))
        for measure in ("accuracy", "AUC", "log loss", "Brier score")
    )
    held_out = rates(where="held out", groups=groups)
    rounds = tuple(range(1, 31))
    names = [f"fnr[{first}={group}] above" for group in groups[first]]
    return Evidence(
        title=f"Loans {SCRIPT}",
        asked=Asked(
            tuple(f"false negative rate equal by {c}, tolerance 0.02" for c in columns),
            0.02, None, 0.95, "a decision is positive if the probability is at least 0.5",
            limits=tuple(Limit(c, "fnr", 0.02) for c in columns),
        ),
        data=Data(
            label="approved",
            positive="yes",
            sensitive=(
                SensitiveColumnUse(first, len(groups[first]), 0, False),
                SensitiveColumnUse(second, len(groups[second]), 7, True),
            ),
            splits={"training": 800, "held out": 200, "test": 500},
            files=(DataFile("training", "loans.csv", "ab" * 32, 1000),),
            features=12,
            left_out={"id": "an identifier"},
            negative="no",
        ),
        model=Model(
            "lightgbm", "4.7.0", "0.1.0", {"num_leaves": 31, "x": SCRIPT}, {"tolerance": 0.02},
            120, 0.5, "model.txt", "cd" * 32,
        ),
        verdicts=(
            finding("held out", first, "met"),
            finding("held out", second, "met"),
            finding("test", first, "met"),
            finding("test", second, "met on these rows, not certain"),
        ),
        rates=(
            *(r for r in held_out if r.rate == "fnr" and r.attribute),
            *rates(groups=groups),
            *rates(0.1, "plain", groups=groups),
            *rates(crossed=True, groups=groups),
        ),
        gaps=gaps,
        performance=performance,
        tradeoff=Tradeoff("test", tuple(point(k, groups) for k in range(6)), 3),
        rounds=Rounds(
            "held out",
            rounds,
            {name: tuple(0.01 * t for t in rounds) for name in names},
            {name: tuple(0.1 - 0.01 * t for t in rounds) for name in names},
            (2, 16, 30),
            dict.fromkeys(names, (0.05, 0.0, -0.05)),
            25,
        ),
        warnings=(f"{SCRIPT}: fewer rows than one would like",),
        limits=("Intervals allow for chance alone.", IMAGE),
        notes={"seed": "0"},
        **curves(groups),
    )  # fmt: skip


def figures(*args, **options):
    """As rates, of a number that is predicted."""
    found = rates(*args, of=FIGURES, **options)
    return tuple(
        replace(r, **{end: getattr(r, end) * UNIT[r.rate] for end in ("value", "low", "high")})
        for r in found
        if r.rate != "distance" or r.attribute
    )


def make_number_evidence(groups=LONG_NAMES) -> Evidence:
    """Of a model that predicts amounts per unit of exposure, held to A/E and to means."""
    found = make_evidence(groups)
    first, second = groups
    names = [("", "everyone"), *((c, g) for c, those in groups.items() for g in those)]
    deciles = tuple(
        Decile(c, g, k, 100 - 10 * k, 51.5, 9e6 + k, 9.5e6, 1.05, 0.9, 1.2, small=k > 7)
        for c, g in names
        for k in range(11)
    )
    steps = tuple(1e5 + 1e3 * k for k in range(20))
    shares = tuple((k + 1) / 20 for k in range(20))
    limits = [Limit(first, "A/E", 0.02, g, 1.0) for g in groups[first]]
    a_over_e = f"actual over expected by {first} within 1 ± 0.02"
    means = f"mean prediction equal by {second}, tolerance 5000"
    told = "largest distance", 0.05, 0.0, 0.07, 0.02
    verdicts = (
        Finding("test", a_over_e, *told, "not met on these rows, not certain", "x", 120),
        Finding("test", means, "gap", 12_345.6, 9_000.0, 16_000.0, 5_000.0, "not met", "x", 90),
    )
    gaps = tuple(
        Gap("test", model, c, rate, gap, 0.5 * gap, 2 * gap, None, None, None, those[0], those[-1])
        for model, factor in (("chosen", 1.0), ("plain", 0.5))
        for c, those in groups.items()
        for rate, gap in (("prediction", 12_345.6 * factor), ("A/E", 0.05), ("distance", 0.04))
    )
    performance = tuple(
        Performance(model, measure, value, value - 2e5, value + 2e5)
        for model, value in (("chosen", 1.82e9), ("plain", 1.80e9), ("difference", 2e7))
        for measure in ("squared error", "absolute error")
    )
    points = tuple(
        replace(
            p, accuracy=None, accuracy_low=None, accuracy_high=None, loss=1.8e9, loss_low=1.7e9,
            loss_high=1.9e9, rates=figures(0.01 * k, groups=groups),
        )
        for k, p in enumerate(found.tradeoff.points)
    )  # fmt: skip
    words = {"measure": "squared error", "figure": "gap of mean predictions"}
    return replace(
        found,
        task="numbers",
        asked=Asked((a_over_e, means), limits=(*limits, Limit(second, "prediction", 5_000.0))),
        data=replace(
            found.data, label="claims", positive="", negative=None, exposure="years",
            loss="squared error",
        ),
        model=replace(found.model, threshold=None),
        verdicts=verdicts,
        rates=(
            *(r for r in figures(where="held out", groups=groups) if r.rate == "prediction"),
            *figures(groups=groups),
            *figures(0.1, "plain", groups=groups),
            *figures(crossed=True, groups=groups),
        ),
        gaps=gaps,
        performance=performance,
        tradeoff=replace(found.tradeoff, points=points, **words),
        roc=(),
        scores=(),
        calibration=(),
        deciles=deciles,
        distributions=tuple(Distribution(c, g, steps, shares, 90) for c, g in names),
    )  # fmt: skip


CLASSES = (
    "very low",
    "low",
    "middle",
    "Upper_middle_band_before_the_reform_of_2009",
    f"high {SCRIPT}",
)


def make_class_evidence(groups=LONG_NAMES, classes=CLASSES) -> Evidence:
    """Of a model that gives one of five classes by least cost, held to equal confusion."""
    found = make_evidence(groups)
    first = next(iter(groups))
    named = [f"recall of {k!r}" for k in classes]
    confused = [f"share of {j!r} given {k!r}" for j in classes for k in classes if j != k]
    given = [f"share given {k!r}" for k in classes]
    family = f"confusion matrix ({len(classes) ** 2} shares) equal by {first}, tolerance 0.02"
    verdicts = tuple(
        Finding(
            where, f"{rate} equal by {first}, tolerance 0.02", "gap", 0.001 * k, 0.0, 0.03, 0.02,
            "met" if k < 20 else "met on these rows, not certain", f"{first}=x", 90 + k,
            family=family,
        )
        for where in ("held out", "test")
        for k, rate in enumerate([*named, *confused])
    )  # fmt: skip
    kinds = {"accuracy": 0.6, **dict.fromkeys(given, 0.2), **dict.fromkeys(named, 0.4)}
    asked = {**dict.fromkeys(named, 0.4), **dict.fromkeys(confused, 0.1)}
    gaps = tuple(
        Gap("test", model, c, rate, 0.1, 0.05, 0.15, 0.8, 0.7, 0.9, those[0], those[-1])
        for model in ("chosen", "plain")
        for c, those in groups.items()
        for rate in (*kinds, *confused)
    )
    performance = tuple(
        Performance(model, measure, value, value - 0.01, value + 0.01)
        for model, value in (("chosen", 0.6), ("plain", 0.61), ("difference", -0.01))
        for measure in ("mean cost", "accuracy", "log loss")
    )
    shares = tuple(1 / len(classes) for _ in classes)
    confusion = tuple(
        Confusion(c, g, k, shares, (0.1,) * len(classes), (0.3,) * len(classes), 120)
        for c, g in [("", "everyone"), *((c, g) for c, those in groups.items() for g in those)]
        for k in classes
    )
    points = tuple(
        replace(p, rates=rates(0.01 * k, groups=groups, of={"accuracy": 0.6}))
        for k, p in enumerate(found.tradeoff.points)
    )
    n = range(len(classes))
    costs = tuple(tuple(float(abs(j - k)) for k in n) for j in n)
    renamed = {name: name.replace("fnr", "recall[low]") for name in found.rounds.multipliers}
    traced = ("multipliers", "violations", "train_violations")
    return replace(
        found,
        task="classes",
        asked=Asked(
            tuple(dict.fromkeys(f.constraint for f in verdicts)), 0.02,
            operating_point="the class of least expected cost is given", costs=costs,
            limits=tuple(Limit(first, rate, 0.02) for rate in asked),
        ),
        data=replace(found.data, label="band", positive="", negative=None, classes=classes),
        model=replace(found.model, threshold=None),
        verdicts=verdicts,
        rates=(
            *rates(where="held out", groups={first: groups[first]}, of=asked),
            *rates(groups=groups, of={**kinds, **asked}),
            *rates(0.1, "plain", groups=groups, of={**kinds, **asked}),
            *rates(crossed=True, groups=groups, of=kinds),
        ),
        gaps=gaps,
        performance=performance,
        tradeoff=replace(found.tradeoff, points=points),
        rounds=replace(
            found.rounds,
            **{
                part: {renamed[name]: v for name, v in getattr(found.rounds, part).items()}
                for part in traced
            },
        ),
        roc=(),
        scores=(),
        calibration=(),
        confusion=confusion,
    )  # fmt: skip
