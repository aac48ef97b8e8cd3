"""The engine's own file. Any reader of the engine returns our probabilities from it."""

from __future__ import annotations

from pathlib import Path

from fairboost.serving.served import Answers, CheckedOn, Served


def write(served: Served, path: Path) -> None:
    """Write the file, with the rule of decisions as notes that the engine passes over."""
    text = served.trained.export(**served.notes)
    path.write_text(text, encoding="utf-8", newline="\n")


def read(served: Served, path: Path, rows: CheckedOn) -> Answers:
    """What a stock booster of the file says, and the labels that follow."""
    text = path.read_text(encoding="utf-8")
    return served.answers(served.trained.said_by_stock(text, rows.table))
