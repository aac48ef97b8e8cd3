"""The page of ``benchmarks.frontier``."""

from __future__ import annotations

from collections.abc import Iterator
from importlib.metadata import version
from typing import NamedTuple

import numpy as np

from benchmarks.frontier_leads import (
    CROSS,
    DEFAULT,
    FEWEST,
    LEVEL,
    OURS,
    PLAIN,
    Case,
    Comparison,
    Lead,
    Results,
    compare,
    default_lead,
    fits,
    joined,
    overall,
)
from fairboost._text import markdown_table

NAMES = {
    "linear": "linear post-processing",
    "linear_aware": "linear post-processing †",
    "OxonFair": "OxonFair, inferred groups",
    "EG": "fairlearn EG",
    "M2FGB": "M2FGB",
    "group_frontier": "group thresholds †",
}
"""Peers, as the page calls them."""
SHARING = ("linear", "linear_aware", "OxonFair", "group_frontier")
"""Peers that fit their models once for all tolerances."""
SHORT = {
    "equal_opportunity": "equal opportunity",
    "demographic_parity": "demographic parity",
    "equalized_odds": "equalized odds",
    "predictive_equality": "predictive equality",
}
WORDS = ("ahead", "even", "behind")


class About(NamedTuple):
    """What the page has to know of a data set."""

    title: str
    overlap: float


def cases_of(results: Results, data: str) -> list[Case]:
    """Cases of a data set that have enough seeds, blind first."""
    found: dict[Case, set[int]] = {}
    for key in results:
        if key.data == data and key.method == OURS:
            found.setdefault(key[:3], set()).add(key.seed)
    cases = [(data, f, k) for f in ("blind", "aware") for k in SHORT]
    return [case for case in cases if len(found.get(case, ())) >= FEWEST]


def against(results: Results, case: Case, peer: str, overlap: float) -> Comparison | None:
    """Fairboost, with plain LightGBM as its loosest tolerance; None with too few seeds."""
    found = fits(results, case, [PLAIN, OURS, peer])
    if len(found) < 3 or found[peer].accuracy.shape[1] < FEWEST:
        return None
    return compare(joined(found[OURS], found[PLAIN]), found[peer], overlap)


def all_leads(
    results: Results, about: dict[str, About], features: str
) -> dict[str, dict[Case, Lead | None]]:
    """The mean lead over a peer in every case, by peer and case; None where no gap is reached."""
    out: dict[str, dict[Case, Lead | None]] = {}
    for case, peer in _pairs(results, about, features):
        found = against(results, case, peer, about[case[0]].overlap)
        if found is not None:
            out.setdefault(peer, {})[case] = found.mean
    return out


def _pairs(results: Results, about: dict[str, About], features: str) -> Iterator[tuple[Case, str]]:
    for data in about:
        for case in cases_of(results, data):
            if case[1] == features:
                yield from ((case, peer) for peer in NAMES)


HEAD = """# The whole trade-off, against the strongest peers

Made by `python -m benchmarks.frontier run` and `python -m benchmarks.frontier table`.
LightGBM {lightgbm}, fairlearn {fairlearn}.

Every seed divides the rows anew. All methods of a seed get the same training rows, the same test
rows and LightGBM at its defaults (100 trees). They are the methods of `fairboost study`
(docs/study.md). Numbers beside a name are tolerances; M2FGB has none, and the number is its
weight of the worst group. *Blind*: the group is no feature. *Aware*: it is one. † needs the
group of everyone it decides on; among blind methods it is a ceiling, no competitor. Where a
table has more rows, the ACS cases train on 60,000 and test on 100,000 rows that each seed draws.

**How methods are compared.** The gap of a method at a tolerance is the root of the mean, over
seeds, of the squared difference of the two rates on test rows less the sampling variance of the
rates, which is an unbiased estimate of the squared true gap (of more groups: of the squared
spread; of equalized odds the larger of two gaps). The **lead** is the accuracy of fairboost less
that of the peer *at the gap that the peer reaches*, both in means over seeds, and interpolated
between the five tolerances of fairboost and plain LightGBM.

The usual way, which interpolates in each seed at the gap seen on test rows, is biased: chance
makes a gap even where there is none, and a point is picked by the noise of its gap.
Interpolation itself is fair, because a random choice between two models has the interpolated
accuracy and a gap no larger than the interpolated one.

- **±**: half of the {level:.0%} interval of the mean over seeds, of paired differences
  (jackknife, t). Test rows of two seeds overlap in real tables; the variance is that of Nadeau
  and Bengio (2003).
- **ahead**, **behind**: the interval excludes 0. **even**: it does not.
- **weighted by precision**: a case whose variance is above the median counts less, by one over
  its variance. Cases of the same rows are taken to err together.
- **not reached**: the gap of the peer is smaller than the smallest of fairboost. Such points do
  not count in a lead.
"""


def page(results: Results, about: dict[str, About], pictures: dict[str, str]) -> str:
    """The page."""
    parts = [
        HEAD.format(level=LEVEL, lightgbm=version("lightgbm"), fairlearn=version("fairlearn"))
    ]
    for features in ("blind", "aware"):
        if found := all_leads(results, about, features):
            parts.append(f"\n## Ahead, even, behind: {features}\n\n{summary(found)}")
    parts.append(f"\n{DEFAULT_TEXT}\n{default_table(results, about)}")
    if any(key.method == CROSS for key in results):
        parts.append(f"\n{CROSS_TEXT}\n{cross_table(results, about)}")
    for data, (title, overlap) in about.items():
        if not (cases := cases_of(results, data)):
            continue
        parts.append(f"\n## {title}\n")
        if data in pictures:
            parts.append(f"\n![{title}](../docs/{pictures[data]})\n")
        for case in cases:
            parts.append(f"\n### {title}, {case[1]}, {SHORT[case[2]]}\n\n")
            parts.append(case_table(results, case, overlap) + "\n")
    return "".join(parts)


def summary(found: dict[str, dict[Case, Lead | None]]) -> str:
    """One line per case, one column per peer, and the mean over cases."""
    cases = list(dict.fromkeys(case for leads in found.values() for case in leads))
    rows = []
    for case in cases:
        seeds = {len(lead.pseudo) for by in found.values() if (lead := by.get(case))}
        cells = [_cell(by[case]) if case in by else "" for by in found.values()]
        span = "-".join(str(n) for n in sorted({min(seeds), max(seeds)})) if seeds else ""
        rows.append([f"{case[0]}, {SHORT[case[2]]}", span, *cells])
    leads = [{c: lead for c, lead in by.items() if lead} for by in found.values()]
    means, weighted = (
        [_interval(*overall(by, weighted=flag)) if by else "" for by in leads]
        for flag in (False, True)
    )
    counts = [
        ", ".join(f"{sum(lead.verdict == word for lead in by.values())} {word}" for word in WORDS)
        for by in leads
    ]
    rows += [
        ["**mean over cases**", "", *means],
        ["**mean, weighted by precision**", "", *weighted],
        ["**cases**", "", *counts],
    ]
    return markdown_table(["case", "seeds", *(NAMES[peer] for peer in found)], rows) + "\n"


def _cell(lead: Lead | None) -> str:
    return "not reached" if lead is None else f"{_signed(lead)} {lead.verdict}"


def _signed(lead: Lead) -> str:
    return _interval(lead.mean, lead.half)


def _interval(mean: float, half: float) -> str:
    return f"{mean:+.4f} ± {half:.4f}"


DEFAULT_TEXT = f"""## One default fit against a search

One fit of fairboost at its default tolerance ({DEFAULT:g}) is compared with the best that a
search over all tolerances of a peer finds at the gap of this fit. The search is given the
figures of the test rows, so that it makes no mistake in its choice, and it may mix two of its
models: this favours the peer. *More accurate* is the share of cases in which the default fit is
the more accurate one in the mean, among cases in which a model of the peer has a gap so small;
the lead is their mean, weighted by precision. In the other cases, *not reached*, the comparison
is with the peer's model of smallest gap, which is larger than that of the default fit. Times are
CPU times in fits of plain LightGBM, the mean over cases; post-processing methods fit their
models once for all tolerances.
"""


def default_table(results: Results, about: dict[str, About]) -> str:
    """A default fit against a search of each peer."""
    rows = []
    for features in ("blind", "aware"):
        found: dict[str, dict[Case, tuple[Lead, bool]]] = {}
        for case, peer in _pairs(results, about, features):
            lead = default_lead(results, case, peer, about[case[0]].overlap)
            if lead is not None:
                found.setdefault(peer, {})[case] = lead
        for peer, by in found.items():
            reached = {case: lead for case, (lead, ok) in by.items() if ok}
            others = [lead for lead, ok in by.values() if not ok]
            words = [lead.verdict for lead in reached.values()]
            times = np.mean([_times(results, case, peer) for case in by], axis=0)
            rows.append([
                f"{features}, {NAMES[peer]}", str(len(by)),
                f"{sum(lead.mean > 0 for lead in reached.values())} of {len(reached)}",
                _interval(*overall(reached, weighted=True)) if reached else "",
                *(str(words.count(word)) for word in WORDS),
                f"{sum(lead.mean > 0 for lead in others)} of {len(others)}",
                f"{times[0]:.1f}", f"{times[1]:.1f}",
            ])  # fmt: skip
    titles = ["peer", "cases", "more accurate", "lead", *WORDS, "more accurate, not reached",
              "time, default fit", "time, search"]  # fmt: skip
    return markdown_table(titles, rows) + "\n"


def _times(results: Results, case: Case, peer: str) -> tuple[float, float]:
    """Seconds of a default fit and of a search, over those of plain LightGBM.

    Of each the smallest over seeds, as other work on the machine only makes them larger.
    """
    found = fits(results, case, [PLAIN, OURS, peer])
    plain = float(found[PLAIN].seconds.min())
    each = found[peer].seconds.min(axis=1)
    ours = found[OURS].seconds[found[OURS].tolerances.index(DEFAULT)].min()
    return float(ours) / plain, float(each.max() if peer in SHARING else each.sum()) / plain


CROSS_TEXT = """## What the held-out rows cost

By default a fifth of the rows is held out of the trees where at least 2,000 held-out rows count
in every group's rate, and all rows are used, by cross-fitting, where fewer do. In the cases
below the default holds rows out, and `holdout="cross"` is measured beside it. The smallest gap
is that of the tightest tolerance. The lead of cross is over the default, at the gaps of the
default; the other leads are over linear post-processing, at its gaps. Time is that of
cross-fitting over that of the default.
"""


def cross_table(results: Results, about: dict[str, About]) -> str:
    """Fairboost with ``holdout="cross"`` beside the default."""
    rows = []
    for features, linear in (("blind", "linear"), ("aware", "linear_aware")):
        gains: dict[Case, Lead] = {}
        for case in dict.fromkeys(case for case, _ in _pairs(results, about, features)):
            found = fits(results, case, [PLAIN, OURS, CROSS, linear])
            if len(found) < 4 or found[CROSS].accuracy.shape[1] < FEWEST:
                continue
            if np.isin(found[CROSS].accuracy, found[OURS].accuracy).all():
                continue  # it is cross-fitted by default
            overlap = about[case[0]].overlap
            curves = {ours: joined(found[ours], found[PLAIN]) for ours in (OURS, CROSS)}
            leads = [compare(curve, found[linear], overlap).mean for curve in curves.values()]
            if gain := compare(curves[CROSS], found[OURS], overlap).mean:
                gains[case] = gain
            seconds = [found[m].seconds.min(axis=1).mean() for m in (CROSS, OURS)]
            rows.append([
                f"{case[0]}, {features}, {SHORT[case[2]]}", str(found[CROSS].accuracy.shape[1]),
                *(f"{found[m].points()[0].min():.4f}" for m in (OURS, CROSS)), _cell(gain),
                *(_cell(lead) for lead in leads), f"{seconds[0] / seconds[1]:.1f}",
            ])  # fmt: skip
        if gains:
            rows.append([f"**mean, {features}**", "", "", "", _interval(*overall(gains))])
            rows[-1] += ["", "", ""]
    titles = ["case", "seeds", "smallest gap, default", "smallest gap, cross", "lead of cross",
              "default, over linear", "cross, over linear", "time"]  # fmt: skip
    return markdown_table(titles, rows) + "\n"


def case_table(results: Results, case: Case, overlap: float) -> str:
    """Plain, fairboost, and the peers with their leads."""
    rows = []
    for method in (PLAIN, OURS, *NAMES):
        found = fits(results, case, [method])
        if method not in found or not found[method].accuracy.shape[1]:
            continue
        mine = found[method]
        compared = against(results, case, method, overlap) if method in NAMES else None
        for k, (tolerance, gap, accuracy) in enumerate(
            zip(mine.tolerances, *mine.points(), strict=True)
        ):
            name = method if method == PLAIN else f"{NAMES.get(method, method)}, {tolerance:g}"
            cells = ["", ""]
            if compared:
                lead = compared.leads[k]
                cells = [_signed(lead), lead.verdict] if lead else ["", "not reached"]
            seeds = str(mine.accuracy.shape[1])
            rows.append([name, seeds, f"{accuracy:.4f}", f"{gap:.4f}", *cells])
    return markdown_table(["method", "seeds", "accuracy", "gap", "lead", ""], rows)
