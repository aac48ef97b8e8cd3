"""Models that could be chosen, from whatever compared them."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pandas as pd

from fairboost.exceptions import InvalidInputError
from fairboost.report.evidence import Evidence, TradeoffPoint
from fairboost.selection.candidates import fit_marks
from fairboost.selection.tradeoff import TradeoffCurve, best_within
from fairboost.selection.tuning import Tuned

FIGURES = ("performance", "low", "high", "gap", "gap_low", "gap_high")


@dataclass(frozen=True)
class Candidate:
    """A model that could be chosen.

    Parameters
    ----------
    name : str
        In words.
    performance, low, high : float
        How well it predicts, with an interval; NaN where not known.
    gap, gap_low, gap_high : float
        The largest gap between groups in what is constrained.
    ratios : dict of str to float
        By attribute, lowest over highest rate of favourable decisions.
    differences : dict of str to float
        By group, the standardised difference of the mean score.
    seed : int or None
        Random seed of the fit.
    sha256 : str or None
        Checksum of the fit.
    trees : int or None
        Trees in it.
    idle : bool
        Whether its decisions say next to nothing.
    chosen : bool
        Whether it was chosen.
    """

    name: str
    performance: float
    low: float = math.nan
    high: float = math.nan
    gap: float = math.nan
    gap_low: float = math.nan
    gap_high: float = math.nan
    ratios: dict[str, float] = field(default_factory=dict)
    differences: dict[str, float] = field(default_factory=dict)
    seed: int | None = None
    sha256: str | None = None
    trees: int | None = None
    idle: bool = False
    chosen: bool = False


@dataclass(frozen=True)
class Candidates:
    """Models that were compared.

    Parameters
    ----------
    models : tuple of Candidate
        The models.
    source : str
        Where they come from, in words.
    rows : str
        The rows on which they were measured.
    measure : str
        What performance is.
    sign : {1, -1}
        1 if more of it is better.
    tolerance : float or None
        The gap that was asked for.
    chosen_by : str
        How the chosen one was chosen, if a rule says it.
    estimates : tuple of str
        What rates estimate, of columns of which a row belongs to several groups by weights.
    """

    models: tuple[Candidate, ...]
    source: str
    rows: str
    measure: str = "accuracy"
    sign: int = 1
    tolerance: float | None = None
    chosen_by: str = ""
    estimates: tuple[str, ...] = ()


def candidates_of(source: Any) -> Candidates:
    """The candidates of any source that has some."""
    if isinstance(source, Candidates):
        return source
    if isinstance(source, Evidence):
        return _of_evidence(source)
    if isinstance(source, TradeoffCurve):
        return _of_curve(source)
    if isinstance(source, Tuned):
        return _of_tuned(source)
    raise InvalidInputError(
        "candidates come from a trade-off curve, from tune, from evidence with a trade-off or "
        f"from study_candidates, found {type(source).__name__}"
    )


def _of_evidence(e: Evidence) -> Candidates:
    if e.tradeoff is None:
        raise InvalidInputError(
            "this evidence is about one model alone; a comparison needs the models of a "
            "trade-off: name the folder of `fairboost compare`, or of `fairboost train` without "
            "--no-trade-off; in Python pass gather(..., curve=curve)"
        )
    numbers = e.task == "numbers"
    models = [
        _of_point(p, e, numbers, chosen=k == e.tradeoff.chosen)
        for k, p in enumerate(e.tradeoff.points)
    ]
    limits = {limit.at_most for limit in e.asked.limits}
    tolerance = e.asked.tolerance if e.asked.tolerance is not None else min(limits, default=None)
    return Candidates(
        tuple(models),
        e.title,
        "test rows",
        e.tradeoff.measure,
        -1 if numbers else 1,
        tolerance,
        "" if e.tradeoff.chosen is None else "the model that was trained as asked for",
        tuple(c.shared for c in e.data.sensitive if c.shared),
    )


def _of_point(p: TradeoffPoint, e: Evidence, numbers: bool, *, chosen: bool) -> Candidate:
    performance = (p.loss, p.loss_low, p.loss_high)
    if not numbers:
        performance = (p.accuracy, p.accuracy_low, p.accuracy_high)
    found = (*performance, p.gap, p.gap_low, p.gap_high)
    figures: Any = {n: math.nan if v is None else v for n, v in zip(FIGURES, found, strict=True)}
    return Candidate(
        p.name, **figures,
        ratios=dict(_ratios(p, e)),
        differences={
            f"{d.attribute}: {d.group} against {d.reference}": d.value
            for d in p.differences
            if d.group != d.reference and d.value is not None
        },
        seed=p.seed, sha256=p.sha256, trees=p.trees, idle=p.decides_nothing, chosen=chosen,
    )  # fmt: skip


def _ratios(p: TradeoffPoint, e: Evidence) -> Iterator[tuple[str, float]]:
    """Lowest over highest rate of favourable decisions, of columns and of crossings asked for."""
    shown = dict.fromkeys(c.name for c in e.data.sensitive)
    shown |= dict.fromkeys(r.attribute for r in p.rates if r.attribute and not r.crossed)
    for column in shown:
        rates = [r.value for r in p.rates if (r.attribute, r.rate) == (column, "ppr")]
        known = [r for r in rates if r is not None]
        if e.asked.favourable == "negative":
            known = [1.0 - r for r in known]
        if len(known) > 1 and max(known) > 0:
            yield column, min(known) / max(known)


def _of_curve(curve: TradeoffCurve) -> Candidates:
    performance = "accuracy" if "accuracy" in curve.table else "loss"
    models = tuple(
        Candidate(
            _named(line["tolerance"]), **_figures(line, performance),
            trees=int(line["trees"]), **fit_marks(model),
        )
        for model, line in zip(curve.models, curve.table.to_dict("records"), strict=True)
    )  # fmt: skip
    sign = 1 if performance == "accuracy" else -1
    return Candidates(models, "trade-off curve", "rows held out in training", performance, sign)


def _of_tuned(tuned: Tuned) -> Candidates:
    table = tuned.table.reset_index(drop=True)
    chosen = best_within(table["score"], table["gap"], tuned.tolerance)
    models = tuple(
        Candidate(
            f"trial {line['trial']}, {_named(line['tolerance'])}",
            line["score"], math.nan, math.nan, line["gap"], line["gap low"], line["gap high"],
            ratios=_known({"lowest of all attributes": line.get("ratio")}),
            differences=_known({"largest of all groups": line.get("smd")}),
            seed=_whole(line.get("seed")), sha256=line.get("sha256"), trees=int(line["trees"]),
            chosen=k == chosen,
        )
        for k, line in enumerate(table.to_dict("records"))
    )  # fmt: skip
    by = f"the best score within the tolerance of {tuned.tolerance:g}, or the least gap"
    return Candidates(models, "tune", "validation rows", "score", 1, tuned.tolerance, by)


def study_candidates(folder: str | Path) -> Candidates:
    """The models of a study, from the folder that ``fairboost study`` wrote.

    Parameters
    ----------
    folder : str or Path
        The folder. The model that is best on validation rows within the study's tolerance counts
        as chosen; figures are those on test rows.
    """
    path = Path(folder)
    try:
        table = pd.read_parquet(path / "trials.parquet")
        manifest = json.loads((path / "manifest.json").read_text("utf-8"))
    except (OSError, ValueError) as error:
        raise InvalidInputError(
            f"{str(path)!r} is not the folder of a study that is done: {error}; run fairboost "
            "study again"
        ) from error
    known = table["error"].isna() if "error" in table else pd.Series(True, index=table.index)
    table = table[known].reset_index(drop=True)
    if table.empty or "test_gap" not in table:
        raise InvalidInputError(f"the study in {str(path)!r} has no trained models yet; run it")
    tolerance = float(manifest["metrics"]["tolerance"])
    chosen = best_within(table["validation_performance"], table["validation_gap"], tolerance)
    models = tuple(
        Candidate(
            ", ".join(
                filter(None, [line["algorithm"], line["variant"], line["features"],
                              f"split {line['seed']}", f"trial {line['trial']}"])
            ),
            line["test_performance"], gap=line["test_gap"],
            ratios=_known({"sensitive column": line.get("fit_decision_ratio")}),
            differences=_known({"largest of all groups": line.get("fit_smd")}),
            seed=_whole(line.get("fit_seed")), sha256=line.get("fit_sha256"),
            chosen=k == chosen,
        )
        for k, line in enumerate(table.to_dict("records"))
    )  # fmt: skip
    by = f"the best on validation rows among those with a gap within {tolerance:g} there"
    measure = str(manifest["metrics"]["performance"])
    return Candidates(models, f"study {manifest['study']}", "test rows", measure, 1, tolerance, by)


def _named(tolerance: float | None) -> str:
    missing = tolerance is None or math.isnan(tolerance)
    return "no constraint" if missing else f"tolerance {tolerance:.3g}"


def _figures(line: Mapping[Any, Any], performance: str) -> Any:
    names = [f"{what}{end}" for what in (performance, "gap") for end in ("", " low", " high")]
    found = (float(line.get(name, math.nan)) for name in names)
    return dict(zip(FIGURES, found, strict=True))


def _known(found: Mapping[str, Any]) -> dict[str, float]:
    """Figures that there are; studies of earlier versions have none."""
    return {k: float(v) for k, v in found.items() if v is not None and not math.isnan(float(v))}


def _whole(value: Any) -> int | None:
    return None if value is None or math.isnan(value) else int(value)
