"""From a fitted model to a report that a reviewer can read.

>>> from fairboost.report import gather, write_report  # doctest: +SKIP
>>> evidence = gather(model, X_test, y_test, sensitive_features=groups)  # doctest: +SKIP
>>> write_report(evidence, "model")  # doctest: +SKIP

:func:`gather` collects the figures as plain data. :func:`to_html` and :func:`to_markdown` write
the report. ``docs/report.md`` shows the result.

:func:`gather` is imported when it is first used: it brings the engines along, for which an audit
of somebody else's scores has no use.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from fairboost.report.evidence import About, DataFile, Evidence
from fairboost.report.pages import to_html, to_markdown, write_report

if TYPE_CHECKING:
    from fairboost.report.gathering import gather

__all__ = ["About", "DataFile", "Evidence", "gather", "to_html", "to_markdown", "write_report"]


def __getattr__(name: str) -> Any:
    """Import ``gather`` when it is first used."""
    if name != "gather":
        raise AttributeError(f"module 'fairboost.report' has no attribute {name!r}")
    from fairboost.report.gathering import gather

    globals()[name] = gather
    return gather
