"""Configuration of the documentation site. ``make docs`` builds it without network.

The source folder is the root of the repository, so that a relative link of a Markdown page
(``../benchmarks/holds.md``) is valid on the site, in a clone and on GitHub. Nothing is copied.
"""

from __future__ import annotations

import logging
import os
import sys
import warnings
from pathlib import Path

DOCS = Path(__file__).resolve().parent
sys.path[:0] = [str(DOCS / "_ext"), str(DOCS.parent / "src")]

import fairboost  # noqa: E402  (found by the line above)

project = "fairboost"
author = "The fairboost developers"
copyright = author
version = release = fairboost.__version__

extensions = [
    "myst_parser",
    "numpydoc",
    "sphinx.ext.autodoc",
    "sphinx_gallery.gen_gallery",
    "api_pages",  # docs/_ext: a page per name of docs/api.md
    "mathml",  # docs/_ext: equations without a script
    "start_page",  # docs/_ext: index.html at the top leads to docs/index.html
]

root_doc = "docs/index"
include_patterns = [
    "docs/**",
    "benchmarks/*.md",
    "CHANGELOG.md",
    "CODE_OF_CONDUCT.md",
    "CONTRIBUTING.md",
    "SECURITY.md",
]
# Folders named here are not entered. Folders with a dot hold environments and caches.
exclude_patterns = ["docs/_*", "**/.*", ".*", "build", "dist", "demo", "src", "tests", "studies"]
exclude_patterns += ["docs/gallery/*.ipynb", "docs/gallery/*.py", "docs/gallery/*.json"]

# Markdown
source_suffix = {".md": "markdown", ".rst": "restructuredtext"}
myst_enable_extensions = ["colon_fence", "dollarmath"]
myst_heading_anchors = 4  # links such as holds.md#time
myst_dmath_allow_space = False
highlight_language = "none"


def _is_not_an_empty_pattern(record: logging.LogRecord) -> bool:
    """Patterns of the tables of contents may name pages that are added later."""
    return "didn't match any documents" not in str(record.msg)


logging.getLogger("sphinx.sphinx.directives.other").addFilter(_is_not_an_empty_pattern)

# Docstrings
numpydoc_show_class_members = False
autodoc_member_order = "bysource"
autodoc_typehints = "none"  # numpydoc's sections have the types
autosummary_generate = False
toc_object_entries_show_parents = "hide"

# Gallery
examples = DOCS.parent / "examples"
sphinx_gallery_conf = {
    "examples_dirs": [str(examples)],
    "gallery_dirs": ["docs/gallery"],
    "filename_pattern": r"/plot_",
    "ignore_pattern": r"custom_constraint|__init__",  # has no picture; pages link to the file
    "plot_gallery": os.environ.get("FAIRBOOST_GALLERY", "1") == "1",
    "abort_on_example_error": True,
    "capture_repr": (),  # what is printed, and no object at an address
    "download_all_examples": False,
    "remove_config_comments": True,
    "image_srcset": ["2x"],
    "within_subsection_order": "FileNameSortKey",
    "min_reported_time": 1e9,
    "write_computation_times": False,  # a page that fetches scripts
    "show_signature": False,
}
warnings.filterwarnings("ignore", message="FigureCanvasAgg is non-interactive")

# Pages
html_theme = "pydata_sphinx_theme"
html_title = "fairboost"
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_show_sourcelink = False
html_copy_source = False
html_last_updated_fmt = None
html_theme_options = {
    "header_links_before_dropdown": 5,
    "navbar_persistent": ["search-button"],
    "navigation_with_keys": False,
    "show_prev_next": True,
    "secondary_sidebar_items": ["page-toc"],
    "footer_start": ["copyright"],
    "footer_end": [],
    "pygments_light_style": "a11y-high-contrast-light",
    "pygments_dark_style": "a11y-high-contrast-dark",
}
html_sidebars = {"docs/quickstart": [], "docs/choosing": [], "docs/when_not": []}
html_sidebars["docs/comparison"] = []
