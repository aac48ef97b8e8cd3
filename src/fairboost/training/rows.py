"""From checked rows to the layout of a training: cells, rows held out, memberships."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from fairboost._numbers import is_number
from fairboost._typing import Float32Array, FloatArray
from fairboost.data import holdout
from fairboost.data.cells import Cells, Groups, SensitiveColumn, build_cells
from fairboost.data.device_arrays import is_device_array
from fairboost.data.holdout import Holdout
from fairboost.data.shared import nearest
from fairboost.data.validation import CheckedRows
from fairboost.engines.group_model import CodedRows
from fairboost.engines.port import Compared
from fairboost.fairness import soft
from fairboost.fairness.binding import Term, leave_out_small, leave_out_small_in
from fairboost.fairness.constraints import Constraint, columns_of
from fairboost.fairness.means import NUMBERS
from fairboost.fairness.operating_points import OperatingPoint
from fairboost.fairness.rates import as_moment
from fairboost.fairness.realised_rate import check_against, check_resolution
from fairboost.kernel.device import Device
from fairboost.kernel.threads import Threads, thread_count
from fairboost.tasks import layout
from fairboost.tasks.layout import Outcomes, RowLayout, bind_all
from fairboost.training import memberships
from fairboost.training.device_draw import hold_out
from fairboost.training.request import FitRequest

MANY_ROWS = 1_000_000
"""Rows from which on a GPU, if there is one, draws those that are held out."""


def lay_out_rows(
    request: FitRequest, constraints: Sequence[Constraint], spare: bool = True
) -> RowLayout:
    """Sort rows into the cells that constraints read, and hold rows out.

    Parameters
    ----------
    request : FitRequest
        What is to be trained.
    constraints : sequence of Constraint
        The constraints.
    spare : bool
        Hold out few of the rows whose label no rate counts. Not where models are compared by
        their held-out accuracy.
    """
    labels, weight = request.data.labels, request.weight_in_moments
    point = request.options.operating_point
    # Only the columns that are constrained: each further one would split every cell.
    used = {name for constraint in constraints for name in columns_of(constraint)}
    columns = [c for c in request.data.columns if c.name in used]
    columns = soft.placed(columns, constraints, labels)
    if (device := _sorted_on(request, columns)) is not None:
        labels, weight = device.put(labels), None if weight is None else device.put(weight)
        columns = [replace(c, codes=device.put(c.codes)) for c in columns]
    if request.held_out is None:
        cells = build_cells(labels, columns, weight)
        cells = leave_out_small(cells, constraints, request.options.min_group_rows)
        terms = bind_all(constraints, cells)
        chosen = _hold_out(request, cells, terms, weight, spare)
    else:
        cells, terms, chosen = _hold_out_set(
            request, columns, constraints, request.held_out, spare
        )
    trained: Any = slice(None)
    ours = cells
    if chosen.left is not None:
        trained, ours = chosen.trained, chosen.left
    rows = layout.lay_out(
        ours,
        constraints,
        chosen,
        terms if ours is cells else None,
        sample_weight=None if weight is None else weight[trained],
        threads=_threads(request, chosen),
        device=request.engine.device,
    )
    outcomes, measured = request.outcomes(chosen)
    rows = replace(rows, outcomes=outcomes, measured_outcomes=measured)
    check_point(point, constraints, cells, rows)  # before memberships are trained
    cells = replace(cells, left_out=rows.cells.left_out)
    found = {k: p[trained] for k, p in _memberships(request, cells, constraints).items()}
    return replace(rows, memberships=found)


def _sorted_on(request: FitRequest, columns: Sequence[SensitiveColumn]) -> Device | None:
    """The GPU on which rows are sorted into cells; None sorts them on the host.

    The host sorts few rows quickly enough. It also sorts rows whose cells it reads later: with a
    held-out set, folds, learned memberships, or groups that rows belong to by weights.
    """
    options = request.options
    reads_cells = request.held_out is not None or options.holdout == "cross"
    if reads_cells or options.memberships == "honest" or any(c.is_soft for c in columns):
        return None
    return request.engine.device if len(request.data.labels) >= MANY_ROWS else None


def compared_in(rows: RowLayout) -> list[Compared]:
    """The groups that constraints compare, and the labels whose rows count towards them."""
    found: dict[tuple[str, ...], set[int]] = {}
    for term in rows.terms:
        counted = [moment.counts(np.arange(2)) for moment in term.moments]
        labels = found.setdefault(term.groups.columns, set())
        labels.update(np.flatnonzero(np.any(counted, axis=0)).tolist())
    out = []
    for columns, labels in found.items():
        groups = rows.cells.groups_by(columns)
        names = tuple(groups.label(g) for g in range(len(groups)))
        out.append(Compared(names, groups.of_cell[rows.cells.codes], tuple(sorted(labels))))
    return out


def _threads(request: FitRequest, holdout: Holdout) -> Threads:
    """Those that share passes over the rows. In cross-fitting, boosters share them already."""
    if holdout.kind == "cross":
        return Threads()
    return Threads(thread_count(request.engine.n_jobs), request.engine.library)


def check_point(
    point: float | OperatingPoint,
    constraints: Sequence[Constraint],
    cells: Cells,
    rows: RowLayout,
) -> None:
    """Refuse an operating point that contradicts a bound, or that the rows do not resolve."""
    if isinstance(point, OperatingPoint):
        check_against(point, constraints, cells)
        check_resolution(point, rows.holdout.placed or rows.measured, rows.holdout.kind)


@dataclass(frozen=True)
class WhatCounts:
    """What rates are measured on: rows of the smallest group, and labels; none if no rate."""

    smallest: float
    labels: frozenset[int]


def what_counts(point: float | OperatingPoint, terms: Sequence[Term], cells: Cells) -> WhatCounts:
    """The rows that count towards some rate."""
    counts = [t.rows.min() for t in terms]
    moments = [moment for t in terms for moment in t.moments]
    if isinstance(point, OperatingPoint):
        # A target of 0.1% is as well known on 50 times the rows as one of 5%.
        rare = min(20 * min(point.target, 1 - point.target), 1.0)
        counts.append(rare * cells.counts[point.rate.counts(cells.labels)].sum())
        moments.append(point.rate)
    everyone = range(int(cells.labels.max()) + 1)
    labels = {label for m in moments for label in (everyone if m.label is None else (m.label,))}
    return WhatCounts(float(min(counts, default=0.0)), frozenset(labels))


def not_spared(counted: WhatCounts, cells: Cells) -> frozenset[int]:
    """The labels of which a whole share is held out, where others may be spared."""
    everyone = frozenset(cells.labels.tolist())
    # Of several classes none is rare enough to be spared, and every one is in the loss.
    return counted.labels if len(everyone) == 2 else everyone


def _memberships(
    request: FitRequest, cells: Cells, constraints: Sequence[Constraint]
) -> dict[tuple[str, ...], Float32Array]:
    """Probabilities of the groups that the features do not give away, or that were asked for."""
    asked = request.options.memberships
    observed = asked == "observed" or request.options.multipliers == "paper"
    data = request.data
    out: dict[tuple[str, ...], Float32Array] = {}
    for columns in dict.fromkeys(columns_of(c) for c in constraints):
        groups = cells.groups_by(columns)
        shared = cells.members_of(groups)
        if shared is not None:
            out[columns] = shared  # what rows weigh in groups, unless it is learned
        if observed or not columns:
            continue
        if asked == "auto" and not memberships.enough_rows(len(data.labels), len(groups)):
            continue
        learner = request.engine.group_model(request.fit_options)
        codes = groups.of_cell[cells.codes]
        if shared is not None:
            codes = nearest(shared)
        weight = data.weight_in_moments  # as rows count in the moments that are to move
        rows = CodedRows(data.X, data.labels, codes, len(groups), learner, weight)
        if asked == "auto" and (
            _reads_losses(constraints, columns)
            or not memberships.worth_learning(rows, seed=request.seed)
        ):
            continue
        if shared is None:
            found = memberships.honest(rows, seed=request.seed)
            out[columns] = found * (codes >= 0)[:, np.newaxis].astype(np.float32)
        elif (column := _whole_column(cells, groups)) is not None:
            out[columns] = memberships.honest_shares(rows, column, seed=request.seed)
    return out


def _whole_column(cells: Cells, groups: Groups) -> SensitiveColumn | None:
    """The column whose groups these are, by weights; None if crossed, or if one is left out."""
    for shared in cells.shared:
        column = shared.column
        if groups.columns == (column.name,) and len(groups) == len(column.values):
            return column
    return None


def _reads_losses(constraints: Sequence[Constraint], columns: tuple[str, ...]) -> bool:
    """Whether losses of numbers are compared by these columns.

    The loss of a group comes down as predictions go to what its own members came to. Probabilities
    given the features alone weigh all who look alike the same, and predictions stay where they
    are. Where labels are predicted, probabilities are given the label too.
    """
    of = (as_moment(m) for c in constraints if columns_of(c) == columns for m in c.moments)
    return NUMBERS["loss"] in of


def _hold_out(
    request: FitRequest, cells: Cells, terms: Sequence[Term], weight: Any, spare: bool
) -> Holdout:
    """Choose rows to hold out; none where there is nothing to measure."""
    point = request.options.operating_point
    counted = what_counts(point, terms, cells)
    asked = request.options.holdout if counted.labels else None
    rng = np.random.default_rng(request.seed)
    labels = not_spared(counted, cells) if spare else frozenset(cells.labels.tolist())
    in_turns = all(t.constraint.traits.in_turns for t in terms)
    need: holdout.FoldNeed = "stage" if request.is_stage else "usual"
    if not in_turns or isinstance(point, OperatingPoint):
        need = "exacting"
    worth = _worth(request, terms)
    device = request.engine.device
    # Fewer rows are drawn quickly enough, and are then the same ones as without a GPU.
    holdout.check_holdout(asked)
    if device is not None and len(cells.codes) >= MANY_ROWS and asked not in (None, "cross"):
        shares = holdout.large_enough_shares(asked, cells, counted.smallest, labels)
        strata, cell_of = cells.strata
        by_stratum = replace(shares, spared=shares.spared[cell_of])
        held = hold_out(device, by_stratum, strata, rng)
        if not is_device_array(cells.codes):
            held = device.get(held)
        return holdout.of_share(shares, cells, held, weight)
    return holdout.choose(asked, cells, counted.smallest, weight, rng, labels, need, worth)


def _worth(request: FitRequest, terms: Sequence[Term]) -> float:
    """What a row tells about the constraints, over what it tells about a rate at even odds.

    The mean of what was actual is known before training, and by how much of itself it is off by
    chance. With m the mean and w the weights of the rows, that is, for a single row,
    ``v = sum w² (a - m)² / (m² sum w²)``; of a rate at even odds it is 1/4.
    """
    targets, weight = request.data.targets, request.weight_in_moments
    if targets is None or not any(m == NUMBERS["actual"] for t in terms for m in t.moments):
        return 1.0
    exposure = request.data.exposure
    actual = targets if exposure is None else targets / exposure
    w = np.ones(len(actual)) if weight is None else weight.astype(np.float64)
    mean = float(w @ actual) / float(w.sum())
    single = float(w**2 @ (actual - mean) ** 2) / float(w @ w)
    return min(0.25 * mean**2 / single, 1.0) if single > 0 else 1.0


def _hold_out_set(
    request: FitRequest,
    columns: list[SensitiveColumn],
    constraints: Sequence[Constraint],
    held_out: CheckedRows,
    spare: bool,
) -> tuple[Cells, tuple[Term, ...], Holdout]:
    """Sort training rows and the held-out set into the same cells; hold out a share if asked."""
    data, sample_weight = request.data, request.weight_in_moments
    windows = {c.name: c.facts.windows for c in columns if c.facts and c.facts.windows}
    placed = soft.placed(held_out.columns, (), held_out.labels, windows)
    theirs = holdout.align_groups(columns, placed)
    n = len(data.labels)
    weight = None
    outside = held_out.weight_beside(data)  # as one set, where a share is held out too
    if sample_weight is not None or outside is not None:
        weights = (sample_weight, n), (outside, len(held_out.labels))
        weight = np.concatenate([np.ones(m) if w is None else w for w, m in weights])
    cells = build_cells(
        np.concatenate([data.labels, held_out.labels]),
        [soft.joined(c, h) for c, h in zip(columns, theirs, strict=True)],
        weight,
    )
    least = request.options.min_group_rows
    ours = leave_out_small(cells.among(slice(None, n), weight), constraints, least)
    ours = leave_out_small_in(ours, cells.among(slice(n, None), weight), constraints, least)
    cells = replace(cells, left_out=ours.left_out)
    terms = bind_all(constraints, ours)
    given = Holdout(
        "set",
        f"the given set of {len(held_out.labels):,} rows",
        measured=cells.among(slice(n, None), weight),
        outside_weight=None if outside is None else outside.astype(np.float32),
    )
    if not is_number(request.options.holdout):
        return ours, terms, given
    share = _hold_out(request, ours, terms, sample_weight, spare)
    if share.folds is None:
        return ours, terms, given
    if not share.folds.any():  # as if there were no share, but the report says so
        none = f"{share.why} of the {n:,} training rows would have no row"
        return ours, terms, replace(given, why=f"{given.why}; {none}")
    both = np.ones(len(cells.codes), bool)
    both[:n] = share.folds == 1
    measured_weight = None if weight is None else weight[both].astype(np.float32)
    joined = holdout.join(share, given, ours, cells.among(both, weight), measured_weight)
    return ours, terms, joined


def plain_layout(
    cells: Cells,
    constraints: Sequence[Constraint],
    weight: FloatArray | None,
    outcomes: Outcomes | None = None,
) -> RowLayout:
    """Rows of which nothing is held out, to be measured and not trained on."""
    own = None if weight is None else weight.astype(np.float32)
    rows = layout.lay_out(cells, constraints, sample_weight=own)
    return replace(rows, outcomes=outcomes, measured_outcomes=outcomes)
