"""The campaigns from the command line.

``python -m tests.fuzz fits --n 200 --seed 1 --workers 2 --out fits.json`` runs random fits of
labels, and ``numbers`` those of numbers;
``python -m tests.fuzz fits --seed 1 --case 45`` one of them, in this process, and says what was
drawn; with ``--shrink`` what can be left out is left out. ``python -m tests.fuzz all --n 200``
runs all campaigns and writes benchmarks/robustness.md; ``python -m tests.fuzz table FILES...``
writes it from what campaigns have counted.
"""

from __future__ import annotations

import argparse
import importlib
import importlib.util
import json
import pprint
import sys
from pathlib import Path
from typing import Any

from tests.fuzz import table, workers

CAMPAIGNS = {
    "fits": 1.0,
    "numbers": 0.5,
    "model_files": 1.0,
    "tables": 0.025,
    "kills": 0.01,
    "threads": 0.05,
    "audits": 2.0,
    "fresh": 0.5,
}
"""Campaigns, and how many cases each has for a fit."""
OF_FITS = ("fits", "numbers")
"""Those that fit models, and draw a case from its number."""


def main(arguments: list[str] | None = None) -> int:
    """Run what the command line asks for; 1 if something failed."""
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description=__doc__)
    parser.add_argument("what", choices=[*CAMPAIGNS, "all", "table"])
    parser.add_argument("files", nargs="*", type=Path, help="counts to put into the table")
    parser.add_argument("--n", type=int, default=200, help="number of cases")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--first", type=int, default=0, help="number of the first case")
    parser.add_argument("--workers", type=int, default=2, help="processes at once")
    parser.add_argument("--case", type=int, help="run this one alone")
    parser.add_argument("--shrink", action="store_true", help="leave out what can be left out")
    parser.add_argument("--out", type=Path, help="where counts are written as JSON")
    told = parser.parse_args(arguments)
    if told.what == "table":
        read = [json.loads(f.read_text()) for f in told.files]
        table.write(table.TABLE, [c for r in read for c in (r if isinstance(r, list) else [r])])
        return 0
    if told.case is not None:
        return one(told.what, told.seed, told.case, told.shrink)
    found = []
    for name, share in CAMPAIGNS.items():
        if told.what not in (name, "all"):
            continue
        if importlib.util.find_spec(f"tests.fuzz.{name}") is None:
            print(f"no campaign {name} here", file=sys.stderr)
            continue
        n = told.n if told.what != "all" else max(round(told.n * share), 1)
        found.append(run(name, n, told))
        print(json.dumps({k: v for k, v in found[-1].items() if k != "failures"}, indent=1))
    if told.out is not None:
        workers.write(told.out, found[0] if len(found) == 1 else found)
    if told.what == "all":
        table.write(table.TABLE, found)
    return int(any(table.failed(counts) for counts in found))


def run(name: str, n: int, told: argparse.Namespace) -> dict[str, Any]:
    """Run one campaign."""
    show = workers.show_on_terminal
    show(f"{name}: {n:,} cases")
    module = importlib.import_module(f"tests.fuzz.{name}")
    if name in OF_FITS:
        numbers = range(told.first, told.first + n)
        return module.campaign(numbers, told.seed, told.workers, show)
    outcomes = module.campaign(n, told.seed)
    fine = getattr(module, "FINE", ())
    beside = {k: v for k, v in outcomes.items() if not any(k.endswith(f) for f in fine)}
    return {
        "campaign": name, "seed": told.seed, "cases": n, "outcomes": outcomes,
        "not fine": sum(beside.values()) if fine else 0,
    }  # fmt: skip


def one(name: str, seed: int, case: int, shrink: bool) -> int:
    """Run one fit here, and say what came of it."""
    from tests.fuzz import shrinking

    fits = importlib.import_module(f"tests.fuzz.{name if name in OF_FITS else 'fits'}")
    drawn = fits.draw(seed, case)
    pprint.pprint(drawn, sort_dicts=False)
    sys.stdout.flush()
    if shrink:
        drawn = shrinking.shrink(drawn, print, fits.__name__)
        pprint.pprint(drawn, sort_dicts=False)
    result = fits.run_case(drawn, lambda stage: print(f"... {stage}", flush=True))
    for failure in result.pop("failures"):
        result["failed"] = True
        print(failure.get("trace", ""))
        print(f"{failure['invariant']}: {failure['message']}")
    pprint.pprint(result)
    return int("failed" in result)


if __name__ == "__main__":
    sys.exit(main())
