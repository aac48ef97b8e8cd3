"""Documents that a law or a supervisor asks for, from decisions, scores and models.

One function per format; each returns a :class:`Filing`, which writes HTML, Markdown, JSON and a
CSV file per table. On the command line: ``fairboost audit --format``. ``docs/law/`` says which
numbers matter to whom.

>>> from fairboost.filings import ll144
>>> people = {"sex": ["F", "M"] * 50, "race": ["A"] * 60 + ["B"] * 40}
>>> ll144(people, selected=[True, True, False, True, False] * 20).title
'Bias audit: automated employment decision tool'

:func:`model_risk` is imported when it is first used: it brings the engines along, for which the
others have no use.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from fairboost.filings.annex_iv import annex_iv
from fairboost.filings.filing import Filing
from fairboost.filings.four_fifths import four_fifths
from fairboost.filings.ll144 import ll144

if TYPE_CHECKING:
    from fairboost.filings.candidates import study_candidates
    from fairboost.filings.comparison import model_risk

__all__ = ["Filing", "annex_iv", "four_fifths", "ll144", "model_risk", "study_candidates"]


def __getattr__(name: str) -> Any:
    """Import what compares models when it is first used."""
    if name not in ("model_risk", "study_candidates"):
        raise AttributeError(f"module 'fairboost.filings' has no attribute {name!r}")
    from importlib import import_module

    home = {"model_risk": "comparison", "study_candidates": "candidates"}[name]
    found = getattr(import_module(f"fairboost.filings.{home}"), name)
    globals()[name] = found
    return found
