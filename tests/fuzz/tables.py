"""Hostile tables at the command line: each is refused in a sentence, or judged as by hand.

Tables have odd names and values, wrong encodings, no rows or no groups, numbers beyond all
bounds, ragged lines, bombs. Each goes through ``audit``, and some through ``train``, ``predict``
and ``report``, in a process of its own with a limit on time. Table k of a seed depends on nothing
else, so ``python -m tests.fuzz.tables show SEED K FOLDER`` writes it out again.
"""

from __future__ import annotations

import contextlib
import csv
import gzip
import io
import json
import os
import re
import shutil
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from pyarrow import feather, parquet

from fairboost.cli import main
from fairboost.verdicts.diagnostics import decides_little
from tests.fuzz import workers

SECONDS = 120
"""Time for one table; one that is trained on takes some seconds."""

FINE = ("refused", "judged as by hand", "done")
"""What may come of a table."""

OBEYED = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069]")
"""What a terminal would obey, but for line ends and the start of a line, to which bars go."""

ODD = (
    "a, b", "$x$", "$10%-$20%", "=cmd|' /C calc'!A0", "\x1b[31mred\x1b[0m", 'q"uote', "new\nline",
    "tab\there", "名前", "_hidden", "", " ", "padded ", "\u202ertl", "long" * 80, "nan", "None",
    "everyone", "-5", "'", ";|", "<b>&amp;", "%s{0}", "back\\slash", "\x00nul", "1", "1.0",
    "e\u0301", "👩\u200d🔬", "holdout_set", "sample_weight must", "a=b", "a, b, c",
)  # fmt: skip
"""Names and values that mean something somewhere."""

MISSING = {
    "", "#N/A", "#N/A N/A", "#NA", "-1.#IND", "-1.#QNAN", "-NaN", "-nan", "1.#IND", "1.#QNAN",
    "N/A", "NA", "NULL", "NaN", "n/a", "nan", "null",
}  # fmt: skip
"""What Arrow reads as missing in a CSV file."""

SPOILINGS = (
    "ragged", "cut", "noise", "empty", "header only", "quote", "nul bytes", "wide", "bomb",
    "long line", "other format", "other encoding",
)  # fmt: skip

ENDINGS = (".csv", ".csv", ".csv", ".tsv", ".csv.gz", ".parquet", ".arrow")


@dataclass
class HostileTable:
    """A table in a file, what is asked of it, and what is so.

    ``truth`` has label (True is positive, None is missing), score, and group by sensitive column;
    it is None where the file was spoiled, so that nobody can say.
    """

    path: Path
    columns: dict[str, list[Any]]
    label: str
    positive: str
    score: str
    sensitive: list[str]
    words: list[str] = field(default_factory=list)
    spoiled: str = ""
    trained: bool = False
    limit: float = 0.1
    decide: str = "estimate"


def campaign(n: int, seed: int) -> dict[str, int]:
    """Try ``n`` tables; returns how many had each outcome, such as ``"audit: refused"``."""
    found = Counter(what for _, outcomes in run(n, seed) for what, _ in outcomes)
    return dict(sorted(found.items()))


def run(n: int, seed: int) -> list[tuple[int, list[tuple[str, str]]]]:
    """Try ``n`` tables; returns the number of each, and outcome and detail of its commands."""
    return [*enumerate(workers.outcomes("tests.fuzz.tables", [seed], n, SECONDS))]


# What a table is
# -----------------------------------------------------------------------


def draw(seed: int, k: int, folder: Path, trained: float = 0.4) -> HostileTable:
    """Write table ``k`` of a seed into a folder.

    Parameters
    ----------
    seed, k : int
        What is drawn depends on these alone.
    folder : Path
        Where to write.
    trained : float
        Share of the tables that a model is trained on.
    """
    rng = np.random.default_rng([seed, k])
    n = int(rng.choice([1, 2, 3, 12, 60, 200, 300, 300]))
    names = [str(name) for name in rng.permutation(ODD)]
    if rng.random() < 0.5:  # else hardly any table is sound
        names = [*(f"column {j}" for j in range(4)), *names]
    label, score, *others = names
    sensitive, features = others[: rng.integers(1, 4)], others[3 : 3 + rng.integers(0, 6)]
    classes = [("no", "yes"), ("0", "1"), ("False", "True"), tuple(rng.permutation(ODD)[:2])]
    negative, positive = map(str, classes[rng.integers(len(classes))])
    groups = {name: _groups(rng, n) for name in sensitive}
    lean = np.array([str(g) > "a" for g in next(iter(groups.values()))])
    scores = rng.random(n) * np.where(lean, 1.0, rng.choice([0.4, 1.0]))
    labels = [positive if u else negative for u in rng.random(n) < 0.2 + 0.6 * scores]
    for j in np.flatnonzero(rng.random(n) < rng.choice([0.0, 0.0, 0.1])):
        labels[j] = None if rng.random() < 0.9 else "third"
    columns = {label: labels, score: _scores(rng, scores), **groups}
    columns |= {name: _feature(rng, n) for name in features}
    if rng.random() < 0.03:
        columns[score] = labels
    ending = str(rng.choice(ENDINGS))
    table = HostileTable(
        folder / f"table{ending}", columns, label, positive, score, sensitive,
        trained=bool(rng.random() < trained), limit=float(rng.choice([0.0, 0.1, 0.4])),
        decide=str(rng.choice(["estimate", "interval"])),
    )  # fmt: skip
    content = _content(rng, table, ending)
    if rng.random() < 0.4:
        table.spoiled = str(rng.choice(SPOILINGS))
        content = _spoil(rng, content, table.spoiled, ending)
    if ending.endswith(".gz"):
        content = gzip.compress(content, 1)
    table.path.write_bytes(content)
    return table


def _groups(rng: np.random.Generator, n: int) -> list[str | None]:
    values = [str(v) for v in rng.permutation(ODD)[: rng.integers(1, 6)]]
    missing = rng.random(n) < rng.choice([0.0, 0.0, 0.2, 1.0], p=[0.6, 0.1, 0.25, 0.05])
    return [
        None if gone else values[j]
        for j, gone in zip(rng.integers(0, len(values), n), missing, strict=True)
    ]


def _scores(rng: np.random.Generator, scores: np.ndarray) -> list[float]:
    kind = rng.choice(["as they are", "huge", "spoiled", "constant"], p=[0.8, 0.08, 0.06, 0.06])
    if kind == "huge":
        scores = (scores - 0.5) * 1e300 + 0.5
    if kind == "constant":
        scores = np.full(len(scores), 0.5)
    if kind == "spoiled":
        scores = np.where(rng.random(len(scores)) < 0.1, rng.choice([np.nan, np.inf]), scores)
    return [float(s) for s in scores]


def _feature(rng: np.random.Generator, n: int) -> list[Any]:
    kind = rng.integers(8)
    numbers = rng.normal(size=n)
    if kind == 0:
        numbers = np.where(abs(numbers) > 1, np.inf, 1e308) * np.sign(numbers)
    if kind == 1:
        numbers = np.where(rng.random(n) < 0.5, np.nan, numbers)
    if kind == 2:
        numbers = np.full(n, 7.0)
    if kind == 3:
        return [None] * n
    if kind == 4:
        return [str(v) for v in rng.choice(ODD, n)]
    if kind == 5:
        return [f"id{j}" for j in range(n)]
    if kind == 6:
        return [f"2024-01-{1 + j % 28:02}" for j in range(n)]
    return [float(v) for v in numbers]


def _content(rng: np.random.Generator, table: HostileTable, ending: str) -> bytes:
    """The bytes of the file, and the options that it takes to read it."""
    if ending in (".parquet", ".arrow"):
        arrow = pa.table({name: pa.array(values) for name, values in table.columns.items()})
        sink = pa.BufferOutputStream()
        if ending == ".parquet":
            parquet.write_table(arrow, sink)
        else:
            feather.write_feather(arrow, sink, compression="uncompressed")
        return bytes(sink.getvalue())
    delimiter = "\t" if ending == ".tsv" else str(rng.choice([",", ",", ";", "|"]))
    text = io.StringIO()
    writer = csv.writer(text, delimiter=delimiter, lineterminator=str(rng.choice(["\n", "\r\n"])))
    names = list(table.columns)
    if rng.random() < 0.04:
        names[-1] = names[0]
        table.spoiled = "two columns of a name"
    writer.writerow(names)
    writer.writerows(zip(*table.columns.values(), strict=True))
    if delimiter not in ",\t" or "," in "".join(names):
        table.words += ["--delimiter", "tab" if delimiter == "\t" else delimiter]
    encoding = str(rng.choice(["utf-8", "utf-8", "utf-8", "utf-8-sig", "utf-16"]))
    if encoding == "utf-16":
        table.words += ["--encoding", "utf-16"]
    return text.getvalue().encode(encoding)


def _spoil(rng: np.random.Generator, content: bytes, how: str, ending: str) -> bytes:
    middle = int(rng.integers(0, max(len(content), 1)))
    bombs = {
        "empty": b"",
        "header only": content.split(b"\n")[0] + b"\n",
        "ragged": content + b'1,2,3,4,5,6,7,8,9,10,11,12,13\n"x"\n',
        "cut": content[:middle],
        "quote": content + b'"' + b"x" * 1000,
        "nul bytes": content[:middle] + b"\0" * 50 + content[middle:],
        "wide": b",".join(b"c%d" % j for j in range(150_000)) + b"\n" + content,
        "bomb": content + b"0\n" * 5_000_000,
        "long line": content + b"a" * 20_000_000 + b"\n",
        "other format": gzip.compress(content),
        "other encoding": content.decode("utf-8", "replace").encode("latin-1", "replace")
        + b"\xe9\n",
    }
    if how == "noise":
        noisy = bytearray(content)
        for j in rng.integers(0, max(len(content), 1), 8):
            noisy[j : j + 1] = bytes([rng.integers(256)])
        return bytes(noisy)
    return bombs[how]


# What comes of it
# -----------------------------------------------------------------------


def outcomes(table: HostileTable) -> Iterator[tuple[str, str]]:
    """Outcome and detail of every command, such as ``("audit: refused", "...")``."""
    folder = table.path.parent
    sensitive = [word for name in table.sensitive for word in ("--sensitive", name)]
    asked = ["--label", table.label, "--positive", table.positive, *sensitive, *table.words]
    asked += ["--min-group-rows", 0]  # tables are small
    audit = ["audit", table.path, *asked, "--score", table.score, "--decide", table.decide]
    limits = ["--max-gap", f"fnr={table.limit}", "--max-gap", f"fpr={table.limit}"]
    yield _tried("audit", [*audit, *limits, "--json"], folder, None, table)
    if not table.trained:
        return
    model, scores = folder / "model", folder / "scores.csv"
    quick = ["--jobs", 1, "--option", "n_estimators=3", "--no-trade-off", "--out", model]
    yield _tried("train", ["train", table.path, *asked, *quick], folder, model)
    if model.exists():
        kept = [word for name in table.sensitive for word in ("--keep", name)]
        predict = ["predict", model, table.path, *kept, *table.words, "--out", scores]
        yield _tried("predict", predict, folder, scores)
        page = folder / "page.html"
        yield _tried("report", ["report", model, "--out", page], folder, page)
    for made in (model, scores, folder / "page.html"):
        if made.is_dir():
            shutil.rmtree(made)
        made.unlink(missing_ok=True)


def _tried(
    name: str, words: Sequence[object], folder: Path, out: Path | None,
    table: HostileTable | None = None,
) -> tuple[str, str]:  # fmt: skip
    """Run a command, and hold it to what every command promises."""
    before = set(folder.iterdir())
    code, shown, err = captured([str(word) for word in words])
    new = set(folder.iterdir()) - before
    detail = " ".join(err.split())[-300:]
    if "Traceback" in err or "(unexpected" in err:
        return f"{name}: unexpected error", detail
    if code not in (0, 1, 2, 3):
        return f"{name}: undocumented code {code}", detail
    if obeyed := OBEYED.search(shown + err):
        return f"{name}: raw {obeyed[0]!r} on the terminal", detail
    if new != ({out} if out is not None and code in (0, 3) else set()):
        return f"{name}: half-written", str(sorted(map(str, new)))
    if code in (1, 2):
        refused = err.strip().splitlines()[-1:] and err.strip().splitlines()[-1]
        known = str(refused).startswith("fairboost")
        return f"{name}: {'refused' if known else 'failed in silence'}", detail
    if out is not None and not _whole(out):
        return f"{name}: half-written", str(out)
    if table is None or table.spoiled:
        return f"{name}: done", detail
    wrong = _wrong(table, code, json.loads(shown))
    return (f"{name}: wrong", wrong) if wrong else (f"{name}: judged as by hand", "")


def captured(words: list[str]) -> tuple[int, str, str]:
    """Run a command here; returns exit code, standard output and error, those of engines too."""
    with contextlib.ExitStack() as stack:
        files = [stack.enter_context(tempfile.TemporaryFile()) for _ in range(2)]
        kept = [os.dup(1), os.dup(2)]
        streams = [io.TextIOWrapper(io.FileIO(os.dup(f.fileno()), "w"), "utf-8") for f in files]
        try:
            for target, file in zip((1, 2), files, strict=True):
                os.dup2(file.fileno(), target)
            with contextlib.redirect_stdout(streams[0]), contextlib.redirect_stderr(streams[1]):
                try:
                    code = main(words)
                except SystemExit as error:
                    code = error.code if isinstance(error.code, int) else 1
        finally:
            for stream in streams:
                stream.close()
            for target, file in zip((1, 2), kept, strict=True):
                os.dup2(file, target)
                os.close(file)
        texts = []
        for file in files:
            file.seek(0)
            texts.append(file.read().decode("utf-8"))
    return code, texts[0], texts[1]


def _whole(out: Path) -> bool:
    """Whether what was written is complete."""
    if out.suffix == ".html":
        return out.read_text("utf-8").rstrip().endswith("</html>")
    if out.suffix == ".csv":
        return out.read_bytes().endswith(b"\n")
    names = {path.name for path in out.iterdir()}
    for name in ("model.json", "schema.json", "evidence.json"):
        json.loads((out / name).read_text("utf-8"))
    return {"card.md", "model.txt", "report.html", "report.md"} <= names


def _wrong(table: HostileTable, code: int, found: dict[str, Any]) -> str:
    """What differs from rates and gaps counted by hand; empty if nothing does."""
    as_csv = table.path.suffix not in (".parquet", ".arrow")

    def known(values: list[Any]) -> list[Any]:
        return [None if v is None or (as_csv and v in MISSING) else v for v in values]

    labels = known(table.columns[table.label])
    rows = np.array([v is not None for v in labels])
    positive = np.array([v == table.positive for v in labels])
    decided = np.array(table.columns[table.score], np.float64) >= 0.5
    over = judged = False
    for name in table.sensitive:
        groups = known(table.columns[name])
        by_rate: dict[str, list[float]] = {"fpr": [], "fnr": []}
        for group in dict.fromkeys(g for g, row in zip(groups, rows, strict=True) if row):
            if group is None:
                continue
            here = rows & np.array([g == group for g in groups])
            for rate, counts, event in (("fpr", ~positive, decided), ("fnr", positive, ~decided)):
                n = int((here & counts).sum())
                value = float((here & counts & event).sum()) / n if n else None
                line = [
                    r for r in found["rates"]
                    if (r["attribute"], r["group"], r["rate"]) == (name, group, rate)
                ]  # fmt: skip
                if len(line) != 1:
                    return f"{len(line)} lines of {rate} of {name!r} = {group!r}"
                if (line[0]["value"] is None) != (value is None):
                    return f"{rate} of {name!r} = {group!r} is {line[0]['value']}, not {value}"
                if value is not None:
                    if abs(line[0]["value"] - value) > 1e-12 or line[0]["rows"] != n:
                        return f"{rate} of {name!r} = {group!r} is {line[0]['value']}, not {value}"
                    by_rate[rate].append(value)
        for rate, values in by_rate.items():
            gap = max(values) - min(values) if len(values) > 1 else None
            (told,) = (
                g["gap"] for g in found["gaps"] if (g["attribute"], g["rate"]) == (name, rate)
            )
            if (told is None) != (gap is None) or (gap is not None and abs(told - gap) > 1e-12):
                return f"the {rate} gap by {name!r} is {told}, not {gap}"
            over |= gap is not None and gap > table.limit + 1e-9
            judged |= gap is not None and gap <= table.limit + 1e-9
    both = [decided[rows & counts] for counts in (positive, ~positive)]
    # Nothing is met by decisions that say nothing, however it is decided.
    empty = judged and all(map(len, both))
    empty = empty and bool(decides_little(*(d.mean() for d in both), *map(len, both)))
    certain = table.decide == "estimate" or empty
    if (code == 3) != (over or empty) if certain else (code == 3 and not over):
        return f"exit code {code}, though gaps are {'' if over else 'not '}over the limit"
    return ""


def _worker(seed: int, start: int, stop: int) -> None:
    """Try tables; a line of JSON for each."""
    for k in range(start, stop):
        with tempfile.TemporaryDirectory() as name:
            found = list(outcomes(draw(seed, k, Path(name))))
        print(json.dumps(found), flush=True)


if __name__ == "__main__":
    if sys.argv[1] == "work":
        _worker(*map(int, sys.argv[2:5]))
    elif sys.argv[1] == "show":
        drawn = draw(int(sys.argv[2]), int(sys.argv[3]), Path(sys.argv[4]))
        print(drawn.path, drawn.spoiled, drawn.label, drawn.sensitive, drawn.words, sep="\n")
        for what in outcomes(drawn):
            print(*what, sep="\n  ")
    else:
        for k, those in run(int(sys.argv[1]), int(sys.argv[2])):
            for what, why in those:
                print(k, what, "" if what.endswith(FINE) else why)
