"""A failing case made small: whatever can be left out with the same failure is left out."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from tests.fuzz import workers
from tests.fuzz.cases import DEFAULTS


def shrink(
    case: dict[str, Any],
    say: Callable[[str], None] = print,
    campaign: str = "tests.fuzz.fits",
) -> dict[str, Any]:
    """Leave out keys, options and columns as long as the first failure stays what it is."""
    runner = Runner(campaign)
    found = runner.failures(case)
    if not found:
        say("does not fail")
        return case
    aim = found[0]
    say(f"to keep: {aim}")
    changed = True
    while changed:
        changed = False
        for smaller in _smaller(case):
            if _size(smaller) < _size(case) and aim in runner.failures(smaller):
                case, changed = smaller, True
                say(f"... {len(str(case))} characters")
                break
    return case


def _size(case: dict[str, Any]) -> int:
    """Rows, rounds and what is written down."""
    rounds = case.get("options", {}).get("n_estimators", 100)
    return int(case.get("n", DEFAULTS["n"]) + rounds + 10 * len(str(case)))


def _smaller(case: dict[str, Any]) -> Iterator[dict[str, Any]]:
    for key in case:
        if key not in ("data_seed",):
            yield {k: v for k, v in case.items() if k != key}
    for key, value in case.items():
        if isinstance(value, dict):
            for inner in value:
                if key in ("options", "fair"):
                    yield {**case, key: {k: v for k, v in value.items() if k != inner}}
                elif value[inner]:
                    plain = {int: 1, bool: False, str: None}.get(type(value[inner]), value[inner])
                    if plain != value[inner]:
                        yield {**case, key: {**value, inner: plain}}
        elif isinstance(value, list) and len(value) > 1:
            for k in range(len(value)):
                yield {**case, key: value[:k] + value[k + 1 :]}
    features = case.get("features", DEFAULTS["features"])
    for j, kind in enumerate(features):
        if kind != "normal":
            yield {**case, "features": [*features[:j], "normal", *features[j + 1 :]]}
    for j, group in enumerate(groups := case.get("groups", [])):
        for plain in (
            {"kind": "str", "k": 2},
            {k: v for k, v in group.items() if k in ("kind", "k")},
        ):
            if plain != group:
                yield {**case, "groups": [*groups[:j], plain, *groups[j + 1 :]]}
    if case.get("n", 300) > 60:
        yield {**case, "n": case.get("n", 300) // 2}
    rounds = case.get("options", {}).get("n_estimators", 100)
    if rounds > 1 and "options" in case:
        yield {**case, "options": {**case["options"], "n_estimators": rounds // 2}}


class Runner:
    """Runs cases in one process, and in another when it ends."""

    def __init__(self, campaign: str = "tests.fuzz.fits") -> None:
        self.campaign = campaign
        self.worker: workers.Worker | None = None

    def failures(self, case: dict[str, Any]) -> list[str]:
        """The signatures of what does not hold."""
        if self.worker is None:
            self.worker = workers.Worker(self.campaign, 0)
        self.worker.give(case)
        while (result := workers.look(self.worker)) is None:
            self.worker.pipe.poll(1.0)
        if not self.worker.process.is_alive():
            self.worker.end()
            self.worker = None
        return [workers.signature(f) for f in result["failures"]]
