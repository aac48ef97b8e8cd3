"""Write a report into a folder."""

from __future__ import annotations

from pathlib import Path

from fairboost._files import write_text
from fairboost.report.evidence import Evidence
from fairboost.report.html import to_html
from fairboost.report.markdown import to_markdown


def write_report(evidence: Evidence, folder: str | Path) -> tuple[Path, Path, Path]:
    """Write ``report.html``, ``report.md`` and ``evidence.json``.

    Parameters
    ----------
    evidence : Evidence
        What the report rests on.
    folder : str or Path
        Where to; it must exist. Files of these names are overwritten, each whole or not at all.

    Returns
    -------
    tuple of Path
        The three files.
    """
    target = Path(folder)
    texts = {
        "report.html": to_html(evidence),
        "report.md": to_markdown(evidence),
        "evidence.json": evidence.to_json(),
    }
    for name, text in texts.items():
        write_text(target / name, text)
    page, markdown, document = (target / name for name in texts)
    return page, markdown, document
