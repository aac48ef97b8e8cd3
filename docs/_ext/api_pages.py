"""A page per public name. ``docs/api.md`` is the only list of names.

A section of the page names a module in its heading. The first column of the table below has the
names. Before a build, each name gets a page in ``docs/reference/`` with its docstring; while
``docs/api.md`` is read for the site, its names become links to these pages. The file itself stays
as it is. ``tests/test_public_face.py`` compares its names with ``__all__`` of every module.
"""

from __future__ import annotations

import importlib
import inspect
import re
from pathlib import Path

from sphinx.application import Sphinx

FOLDER = "reference"


def names(page: str) -> list[tuple[str, str]]:
    """Module and name of every public object, in the order of the page."""
    found = []
    module = ""
    for line in page.splitlines():
        if heading := re.match(r"## `([\w.]+)`", line):
            module = heading[1]
        elif line.startswith("| `"):
            found += [(module, name) for name in re.findall(r"`(\w+)`", line.split("|")[1])]
    return [(module, name) for module, name in found if name != "__version__"]


def linked(page: str) -> str:
    """The page with a link at every name of a first column, and a list of all pages at its end."""
    lines = []
    module = ""
    for line in page.splitlines():
        if heading := re.match(r"## `([\w.]+)`", line):
            module = heading[1]
        if line.startswith("| `"):
            _, first, rest = line.split("|", 2)
            target = rf"[`\1`]({FOLDER}/{module}.\1.rst)"
            first = re.sub(r"`((?!__)\w+)`", target, first)
            line = f"|{first}|{rest}"
        lines.append(line)
    entries = [f"{FOLDER}/{module}.{name}" for module, name in names(page)]
    return "\n".join([*lines, "", "```{toctree}", ":hidden:", "", *entries, "```", ""])


def page_of(module: str, name: str) -> str:
    """The page of one name, for autodoc."""
    thing = getattr(importlib.import_module(module), name)
    path = f"{module}.{name}"
    title = path.removeprefix("fairboost.")
    if inspect.isclass(thing):
        kind, options = "autoclass", [":members:", ":inherited-members:"]
    elif inspect.isroutine(thing):
        kind, options = "autofunction", []
    else:
        kind, options = "autodata", [":no-value:"]
    lines = [title, "=" * len(title), "", f".. {kind}:: {path}"]
    return "\n".join([*lines, *(f"   {option}" for option in options), ""])


def write_pages(app: Sphinx) -> None:
    """Write the pages that are new or changed, and remove those of names that are gone."""
    docs = Path(app.confdir)
    folder = docs / FOLDER
    folder.mkdir(exist_ok=True)
    wanted = {
        folder / f"{module}.{name}.rst": page_of(module, name)
        for module, name in names((docs / "api.md").read_text(encoding="utf-8"))
    }
    for old in {*folder.glob("*.rst")} - {*wanted}:
        old.unlink()
    for path, text in wanted.items():
        if not path.exists() or path.read_text(encoding="utf-8") != text:
            path.write_text(text, encoding="utf-8")


def link_names(app: Sphinx, docname: str, source: list[str]) -> None:
    """Turn the names of the API page into links, on the site only."""
    if docname == "docs/api":
        source[0] = linked(source[0])


def is_foreign(
    app: Sphinx, what: str, name: str, thing: object, skip: bool, options: object
) -> bool | None:
    """Leave out methods that scikit-learn or Python adds: their documentation is elsewhere."""
    home = getattr(getattr(thing, "fget", thing), "__module__", None)
    return True if home is not None and not home.startswith("fairboost") else None


def setup(app: Sphinx) -> dict[str, bool]:
    """Before pages are looked for, and when one is read."""
    app.connect("builder-inited", write_pages, priority=100)
    app.connect("source-read", link_names)
    app.connect("autodoc-skip-member", is_foreign)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
