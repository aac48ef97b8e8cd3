"""``index.html`` at the top of the site, which leads to the start page in ``docs/``."""

from __future__ import annotations

from pathlib import Path

from sphinx.application import Sphinx

PAGE = """<!doctype html>
<html lang="en">
<meta charset="utf-8">
<title>fairboost</title>
<meta http-equiv="refresh" content="0; url=docs/index.html">
<p>The documentation starts at <a href="docs/index.html">docs/index.html</a>.</p>
</html>
"""


def write(app: Sphinx, exception: Exception | None) -> None:
    """Write the page after a build of HTML pages."""
    if exception is None and app.builder.format == "html":
        Path(app.outdir, "index.html").write_text(PAGE, encoding="utf-8")


def setup(app: Sphinx) -> dict[str, bool]:
    """Wait for the end of the build."""
    app.connect("build-finished", write)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
