"""Who gains and who loses by a constraint, in people of a hundred."""

from __future__ import annotations

from dataclasses import replace

import pytest

from fairboost.report import to_markdown
from fairboost.report.evidence import (
    Asked,
    Data,
    Evidence,
    Gap,
    GroupRate,
    Limit,
    SensitiveColumnUse,
    Tradeoff,
    TradeoffPoint,
)
from fairboost.report.gains import gains


def lines(model, values, rate="fnr"):
    """Rates by group, and the gap between them."""
    rates = [
        GroupRate("test", model, "sex", group, rate, v, v - 0.02, v + 0.02, 1_000.0)
        for group, v in values.items()
    ]
    width = max(values.values()) - min(values.values())
    return rates, Gap(
        "test", model, "sex", rate, width, 0.0, width + 0.04, 0.9, 0.8, 1.0, "M", "F"
    )


def evidence(before, after, rate="fnr", task="decisions"):
    found = [lines("chosen", after, rate), lines("plain", before, rate)]
    names = {"label": "income", "positive": ">50K", "negative": "<=50K"}
    return Evidence(
        "Incomes",
        Asked(("as asked",), limits=(Limit("sex", rate, 0.01),)),
        Data(sensitive=(SensitiveColumnUse("sex", 2),), splits={"test": 2_000}, **names),
        rates=tuple(r for rates, _ in found for r in rates),
        gaps=tuple(g for _, g in found),
        task=task,
    )


def test_levelling_down_is_said_first_and_plainly():
    """Adult, equal opportunity: women are refused wrongly more often, and men much more often."""
    found = evidence({"Female": 0.398, "Male": 0.337}, {"Female": 0.418, "Male": 0.413})
    (said,) = gains(found)
    assert said == (
        "By sex, the gap in false negative rate was 0.061 [0.000, 0.101] without the constraint, "
        "and is 0.005 [0.000, 0.045] with it. Of every 100 people of a group whose “income” is "
        "“>50K”, the model decides “<=50K” for 2 more (Female, now 42) and 8 more (Male, now 41) "
        "than without the constraint. Nobody gained: the gap closed because the model is wrong "
        "about Male more often, not because it is wrong about Female less often."
    )
    first = to_markdown(found).split("## In short")[1].strip()
    assert first.startswith("By sex, the gap in false negative rate was 0.061")


@pytest.mark.parametrize(
    ("rate", "before", "after", "said"),
    [
        ("fnr", (0.40, 0.30), (0.36, 0.33), ""),
        ("fnr", (0.40, 0.30), (0.401, 0.301), ""),
        ("tpr", (0.60, 0.70), (0.58, 0.60), "because the model is wrong about M more often"),
        ("fpr", (0.10, 0.20), (0.20, 0.35), "wrong about no group less often than before"),
        ("ppr", (0.40, 0.30), (0.30, 0.28), "is given this decision less often than before"),
        ("ppr", (0.40, 0.30), (0.36, 0.33), ""),
    ],
)
def test_who_gained_by_every_kind_of_rate(rate, before, after, said):
    (text,) = gains(evidence(*(dict(zip("FM", v, strict=True)) for v in (before, after)), rate))
    assert said in text
    assert any(w in text for w in ("Nobody gained", "Every group")) == bool(said)


def test_many_groups_are_told_by_those_for_whom_most_changed():
    before = {f"g{k}": 0.3 for k in range(8)}
    (text,) = gains(evidence(before, {g: 0.3 + (k - 3) / 50 for k, g in enumerate(before)}))
    assert "6 fewer (g0, now 24) and 8 more (g7, now 38), and between these for 6 more" in text


def test_nothing_is_said_of_small_groups_or_without_a_plain_model():
    found = evidence({"F": 0.4, "M": 0.3}, {"F": 0.4, "M": 0.35})
    small = tuple(replace(r, small=r.group == "F") for r in found.rates)
    assert "100 people" not in " ".join(gains(replace(found, rates=small)))
    alone = tuple(r for r in found.rates if r.model == "chosen")
    assert gains(replace(found, rates=alone, gaps=found.gaps[:1])) == []


@pytest.mark.parametrize(
    ("rate", "said"),
    [
        ("recall of 'high'", "whose class is 'high', the model gives 'high' for 10 fewer (M, now"),
        ("share given 'high'", "of a group, the model gives 'high' for 10 fewer (M, now"),
        ("share of 'high' given 'low'", "whose class is 'high', the model gives 'low' for"),
        ("accuracy", "of a group, the model gives their own class for 10 fewer"),
    ],
)
def test_rates_of_several_classes(rate, said):
    found = evidence({"F": 0.6, "M": 0.7}, {"F": 0.58, "M": 0.6}, rate, task="classes")
    assert said in gains(found)[0]


def test_another_tolerance_that_is_as_accurate_with_a_smaller_gap_is_named():
    points = tuple(
        TradeoffPoint(name, t, accuracy, 0.7, 0.9, gap, 0.0, 0.2)
        for name, t, accuracy, gap in (
            ("no constraint", None, 0.82, 0.10),
            ("tolerance 0.05", 0.05, 0.8001, 0.06),
            ("tolerance 0.02", 0.02, 0.8, 0.03),
            ("tolerance 0.01", 0.01, 0.79, 0.01),
        )
    )
    found = evidence({"F": 0.4, "M": 0.3}, {"F": 0.4, "M": 0.35})
    pages = [
        to_markdown(replace(found, tradeoff=Tradeoff("test", points, chosen))) for chosen in (1, 2)
    ]
    assert "“tolerance 0.02” predicts as well as this model" in pages[0]
    assert "a smaller largest gap: 0.030, this model 0.060" in pages[0]
    assert "predicts as well" not in pages[1]
