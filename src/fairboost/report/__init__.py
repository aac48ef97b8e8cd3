"""From a fitted model to a report that a reviewer can read.

>>> from fairboost.report import gather, write_report  # doctest: +SKIP
>>> evidence = gather(model, X_test, y_test, sensitive_features=groups)  # doctest: +SKIP
>>> write_report(evidence, "model")  # doctest: +SKIP

:func:`gather` collects the figures, as plain data; :func:`to_html` and :func:`to_markdown` write
them down. ``docs/report.md`` shows what comes out.
"""

from fairboost.report.evidence import DataFile, Evidence
from fairboost.report.gather import gather
from fairboost.report.html import to_html
from fairboost.report.markdown import to_markdown
from fairboost.report.write import write_report

__all__ = ["DataFile", "Evidence", "gather", "to_html", "to_markdown", "write_report"]
