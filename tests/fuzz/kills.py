"""Commands that are killed at random moments: what they write is whole, as before, or not there.

``train`` and ``report`` are sent SIGTERM, SIGINT or SIGKILL. Nothing half-written may be left, no
traceback be shown, and the next run removes what SIGKILL leaves.
"""

from __future__ import annotations

import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from tests.loan_files import ASKED, QUICK, loans

COMMAND = [sys.executable, "-m", "fairboost.cli"]
SIGNALS = (signal.SIGTERM, signal.SIGINT, signal.SIGKILL)
FINE = ("nothing there", "whole", "as before", "Python had not started yet")


def campaign(n: int, seed: int) -> dict[str, int]:
    """Kill ``n`` commands; returns how many had each outcome, as ``"train SIGTERM: whole"``."""
    return dict(sorted(Counter(f"{name}: {what}" for name, what, _ in run(n, seed)).items()))


def run(n: int, seed: int) -> Iterator[tuple[str, str, str]]:
    """Kill ``n`` commands; gives command and signal, outcome and detail of each."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        data, model = folder / "loans.csv", folder / "model"
        loans(1_000, seed=0).to_csv(data, index=False)
        train = ["train", data, *ASKED, *QUICK, "--no-trade-off"]
        report = ["report", model]
        took = {}
        for words, out in ((train, model), (report, folder / "report.html")):
            start = time.perf_counter()
            done = subprocess.run(
                [*COMMAND, *words, "--out", out], capture_output=True, check=False
            )
            assert out.exists(), done.stderr
            took[str(words[0])] = time.perf_counter() - start
        for k in range(n):
            draw = random.Random(f"{seed} {k}")
            words, old = draw.choice(((train, model), (report, folder / "report.html")))
            number = draw.choice(SIGNALS)
            place = folder / f"case-{k}"
            place.mkdir()
            replaced = draw.random() < 0.5
            what, detail = _kill(
                words, place, old, replaced, number, draw.uniform(0, 1.05 * took[str(words[0])])
            )
            yield f"{words[0]} {number.name}", what, detail
            shutil.rmtree(place)


def _kill(
    words: list[object],
    place: Path,
    old: Path,
    replaced: bool,
    number: signal.Signals,
    after: float,
) -> tuple[str, str]:
    """Start a command, end it, and look at what it leaves; returns outcome and detail."""
    out = place / old.name
    if replaced:
        shutil.copytree(old, out) if old.is_dir() else shutil.copy(old, out)
        _mark(out)
    process = subprocess.Popen(
        [*map(str, [*COMMAND, *words, "--out", out, "--force"])],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    time.sleep(after)
    process.send_signal(number)
    _, err = process.communicate(timeout=120)
    if "Traceback" in err or "Exception ignored" in err:
        early = "fairboost" not in err.replace("fairboost.cli", "")
        return ("Python had not started yet" if early else "traceback"), err[-2000:]
    hidden = [path.name for path in place.iterdir() if path != out]
    if hidden and number != signal.SIGKILL:
        return "left behind", f"{hidden}: {err[-500:]}"
    what = _look(out, old, replaced)
    if what in FINE and hidden:
        _next_run(out, old.is_dir())
        hidden = [path.name for path in place.iterdir() if path != out]
        if hidden:
            return "not cleaned up", str(hidden)
    allowed = {0, 3, -number, 128 + number}
    if process.returncode not in allowed:
        return "exit code", f"{process.returncode}: {err[-500:]}"
    return what, ""


def _next_run(out: Path, is_folder: bool) -> None:
    """What the next run of the command does to write, without its work."""
    from fairboost.cli.outputs import new_file, new_folder

    with (new_folder if is_folder else new_file)(out, force=True) as partial:
        (partial / "report.md" if is_folder else partial).write_text("")


def _mark(out: Path) -> None:
    """Tell the file or folder that was there before from what a command writes."""
    file = out / "card.md" if out.is_dir() else out
    file.write_text("old")


def _look(out: Path, old: Path, replaced: bool) -> str:
    """What there is where the command was to write."""
    if not out.exists():
        return "gone" if replaced else "nothing there"
    marked = (out / "card.md" if out.is_dir() else out).read_text() == "old"
    if marked:
        return "as before"
    if old.is_file():
        return "whole" if out.read_text().rstrip().endswith("</html>") else "half-written"
    from fairboost.cli.model_folder import load_model

    if {path.name for path in out.iterdir()} != {path.name for path in old.iterdir()}:
        return "half-written"
    load_model(out)
    return "whole"


if __name__ == "__main__":
    for line in run(*map(int, sys.argv[1:])):
        print(*line, flush=True)
