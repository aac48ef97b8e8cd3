"""Abbreviations and words of the trade, each explained once on a page."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import is_dataclass

from fairboost.fairness.rates import RATES
from fairboost.report.blocks import Block, Facts, Picture, Slider
from fairboost.report.evidence import Evidence

MEANINGS = {
    "interval": "the range that the figure would be expected to lie in among other people, drawn "
    "in the same way",
    "AUC": "area under the ROC curve: how often a row of the positive label has a higher score "
    "than a row of the negative label",
    "ROC": "receiver operating characteristic: a curve of the true positive rate against the "
    "false positive rate, at every threshold",
    "log loss": "mean of minus the logarithm of the probability that the model gave to the actual "
    "label",
    "Brier score": "mean squared distance between the probability and the label, which is 0 or 1",
    "SHA-256": "Secure Hash Algorithm with 256 bits: a checksum that shows whether a file was "
    "changed",
    "squared error": "mean square of the difference between prediction and actual number",
    "absolute error": "mean size of the difference between prediction and actual number",
    "deviance": "distance of predictions from actual numbers, by the distribution that the loss "
    "of the engine assumes; 0 if they agree in every row",
    "A/E": "actual over expected: the mean of what was actual over the mean prediction",
    "exposure": "the factor of the prediction of a row, such as years insured; rows are weighted "
    "by it in every mean",
    "decile": "a tenth of all rows, by their prediction; with weights, a tenth of the total "
    "weight",
    "n =": "the number of rows that count",
    **{name: rate.title for name, rate in RATES.items()},
}

CLASS_MEANINGS = {
    "accuracy": "share of rows that are given their own class",
    "recall": "share of the rows of a class that are given this class",
    "confusion matrix": "of the rows of each class, the share that is given each class",
    "Brier score": "mean over rows of the squared distances, summed over classes, between the "
    "probability of a class and 1 if it is the class of the row, else 0",
    "mean cost": "mean cost of the decisions, by the table of costs",
}
"""Words for decisions among three classes or more."""


def explain(evidence: Evidence, blocks: Iterable[Block]) -> Iterator[Block]:
    """Explain those that occur.

    Parameters
    ----------
    evidence : Evidence
        Has names that pictures show.
    blocks : iterable of Block
        The page.
    """
    shown = list(blocks)
    texts = list(_texts(shown))
    texts += [] if evidence.rounds is None else list(evidence.rounds.multipliers)
    texts += ["(n = 1)"] * any(isinstance(b, Picture) and b.name == "rates" for b in shown)
    page = "\n".join(texts)
    found = {}
    own = CLASS_MEANINGS if evidence.task == "classes" else {}
    for word, meaning in {**MEANINGS, **own}.items():
        if re.search(rf"\b{re.escape(word)}(?!\w)", page):
            found[word] = meaning
            page += f"\n{meaning}"  # which may have others
    if found:
        yield Facts(tuple(found.items()))


def _texts(part: object) -> Iterator[str]:
    """All text that a block shows."""
    if isinstance(part, str):
        yield part
    elif isinstance(part, Picture):
        yield from (part.caption, part.alt)
    elif isinstance(part, Slider):
        yield from _texts(part.tables[0])
    elif is_dataclass(part):
        yield from _texts(list(vars(part).values()))
    elif isinstance(part, tuple | list):
        for inside in part:
            yield from _texts(inside)
