"""Equations as MathML, which browsers draw by themselves: no script, no fonts, no network.

docutils translates LaTeX; Sphinx has no renderer that uses it.
"""

from __future__ import annotations

from typing import Any

from docutils import nodes
from docutils.utils.math.latex2mathml import tex2mathml
from sphinx.application import Sphinx


def inline(writer: Any, node: nodes.math) -> None:
    """An equation within a sentence."""
    writer.body.append(tex2mathml(node.astext(), as_block=False))
    raise nodes.SkipNode


def block(writer: Any, node: nodes.math_block) -> None:
    """An equation on a line of its own, with its number if it has a label."""
    number = node.get("number")
    label = f'<span class="eqno">({number})</span>' if number else ""
    anchor = f' id="equation-{node["label"]}"' if node.get("label") else ""
    equation = tex2mathml(node.astext(), as_block=True)
    writer.body.append(f'<div class="math-block"{anchor}>{label}{equation}</div>\n')
    raise nodes.SkipNode


def setup(app: Sphinx) -> dict[str, bool]:
    """Take the place of MathJax."""
    app.add_html_math_renderer("mathml", (inline, None), (block, None))
    app.config.html_math_renderer = "mathml"
    return {"parallel_read_safe": True, "parallel_write_safe": True}
