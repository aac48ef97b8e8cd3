"""Training on the workers of a Dask cluster, where the rows are.

The client checks everything and makes a plan; workers carry it out together. Each trains on the
partitions it holds, as one machine would on all rows (:mod:`fairboost.training.run`), inside
XGBoost's collective: XGBoost adds up histograms of gradients, the game adds up sums by cell
(:mod:`fairboost.fairness.all_reduce`). Every worker ends up with the same model; that of the first
is kept.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, replace
from operator import attrgetter
from typing import Any

import numpy as np
from tqdm.auto import tqdm

from fairboost._numbers import is_number
from fairboost._typing import IntArray
from fairboost.algorithm.game import Session
from fairboost.cluster.collections import DaskRows, in_memory, is_dask, partitions
from fairboost.cluster.rows import (
    MergedPartitions,
    NumberRules,
    PartitionSummary,
    SortedPartition,
    merge,
    read_partition,
    sort_partition,
)
from fairboost.cluster.workers import (
    cancelled_on_error,
    check_held,
    run_together,
    submit_beside,
    wait_for,
)
from fairboost.data.cells import Cells
from fairboost.data.holdout import Holdout, Shares, choose_shares, join
from fairboost.data.validation import DEFAULT_COLUMN
from fairboost.engines.port import Engine, EngineData, LossTerms
from fairboost.engines.registry import load_engine
from fairboost.engines.tables import PartedTable
from fairboost.exceptions import ClusterError, EngineOptionError, InvalidInputError
from fairboost.fairness.binding import leave_out_small, leave_out_small_in
from fairboost.fairness.constraints import Constraint
from fairboost.fairness.reachable import check_reachable
from fairboost.kernel.losses import Loss
from fairboost.kernel.threads import Threads, thread_count
from fairboost.tasks.layout import RowLayout, bind_all, join_outcomes, lay_out
from fairboost.tasks.regression import PLACED_ROWS
from fairboost.training.options import TrainingOptions
from fairboost.training.outcome import Training
from fairboost.training.rows import check_point, not_spared, what_counts
from fairboost.training.run import problem_of
from fairboost.training.targets import check_both_exposed, check_takes_exposure, check_targets
from fairboost.verdicts import diagnostics


@dataclass(frozen=True)
class ClusterRun:
    """Where a model was trained, and what travelled.

    Parameters
    ----------
    rows : dict of str to int
        Rows on each worker, by its address.
    partitions : int
        Number of partitions.
    bytes_per_round : float
        What each worker gave to the sums of the constraints in a round, whatever the number of
        rows. XGBoost's own histograms are not in it.
    """

    rows: dict[str, int]
    partitions: int
    bytes_per_round: float


@dataclass(frozen=True)
class ClusterRequest:
    """A training to be done on a cluster.

    Parameters
    ----------
    options : TrainingOptions
        Constraints and how to reach them.
    estimator : DaskXGBClassifier or DaskXGBRegressor
        The engine with its options.
    rows : DaskRows
        As the user gave them.
    held_out : DaskRows, optional
        The user's own rows to measure on.
    seed : int
        Of the draw of rows to hold out.
    engine_seed : int, optional
        For the engine, if it has none of its own.
    for_labels : callable
        The labels to the options for them; raises where the two do not go together.
    pos_label : label, optional
        The positive label; the larger one if left out.
    """

    options: TrainingOptions
    estimator: Any
    rows: DaskRows
    held_out: DaskRows | None
    seed: int
    engine_seed: int | None
    for_labels: Callable[[Any], TrainingOptions]
    pos_label: object = None

    @property
    def of_numbers(self) -> bool:
        """Whether a number is predicted."""
        return _kind(self.estimator) == "Regressor"

    def stock(self) -> Any:
        """The engine with its options, without those of the cluster."""
        params = self.estimator.get_params()
        params.pop("coll_cfg", None)
        if self.engine_seed is not None and params.get("random_state") is None:
            params["random_state"] = self.engine_seed
        return load_engine("xgboost").make_estimator(regressor=self.of_numbers, **params)


@dataclass(frozen=True)
class ClusterResult:
    """What came of a training on a cluster.

    Parameters
    ----------
    loss : LossTerms
        What the engine's options say about the loss.
    training : Training
        The model and the record.
    run : ClusterRun
        Where it happened.
    """

    loss: LossTerms
    training: Training
    run: ClusterRun


@dataclass(frozen=True)
class _WorkOrder:
    """What every worker has to know."""

    options: TrainingOptions
    stock: Any
    classes: Any
    loss: LossTerms
    layout: RowLayout  # of all rows, by cell
    places: list[list[slice]]  # per worker, those of the measured rows of each of its partitions
    topic: str


def is_dask_estimator(estimator: object) -> bool:
    """Whether an estimator trains on a Dask cluster.

    LightGBM's is refused: its workers sum histograms inside the library, which offers no sum of
    anything else, so they could not agree on the rates of groups.
    """
    homes, kind = [c.__module__ for c in type(estimator).__mro__], _kind(estimator)
    if any(home.startswith("lightgbm.dask") for home in homes):
        raise EngineOptionError(
            f"{type(estimator).__name__} cannot be constrained: a custom objective of LightGBM on "
            "Dask sees the rows of one worker, and LightGBM offers no way to add up the rates of "
            f"groups over workers. Use xgboost.dask.DaskXGB{kind}, or LGBM{kind} on one machine"
        )
    on_dask = any(home.startswith("xgboost.dask") for home in homes)
    if on_dask and type(estimator).__name__ not in ("DaskXGBClassifier", "DaskXGBRegressor"):
        raise EngineOptionError(
            "estimator must be a DaskXGBClassifier or a DaskXGBRegressor to train on Dask, found "
            f"{type(estimator).__name__}"
        )
    return on_dask


def _kind(estimator: object) -> str:
    """What the name of an estimator ends in."""
    return "Regressor" if type(estimator).__name__.endswith("Regressor") else "Classifier"


def check_for_dask(
    estimator: Any, X: Any, iterate: str, asked: Mapping[str, Any], regressor: bool = False
) -> None:
    """Refuse what cannot be trained on a cluster.

    Parameters
    ----------
    estimator : object
        The user's.
    X : object
        The features.
    iterate : str
        Which model to keep.
    asked : mapping
        Further arguments of ``fit``.
    regressor : bool
        Whether a number is to be predicted.
    """
    kind, given = "Regressor" if regressor else "Classifier", _kind(estimator)
    found = "the default estimator" if estimator is None else type(estimator).__name__
    if not is_dask_estimator(estimator):
        raise EngineOptionError(
            f"X is a Dask collection, which {found} cannot be trained on; pass "
            f"FairGBM{kind}(xgboost.dask.DaskXGB{kind}(...)), or X.compute() if the rows "
            "fit into one machine"
        )
    if given != kind:
        raise EngineOptionError(
            f"FairGBM{kind} trains a DaskXGB{kind} on Dask, found a {found}; pass "
            f"xgboost.dask.DaskXGB{kind}(...), or use FairGBM{given}"
        )
    if not is_dask(X):
        raise InvalidInputError(
            f"a DaskXGB{kind} is trained on Dask collections, found X as "
            f"{type(X).__name__}; pass dask.dataframe.from_pandas(X, npartitions=...), or use "
            f"XGB{kind} on one machine"
        )
    if iterate not in ("best", "last"):
        raise InvalidInputError(
            f"iterate={iterate!r} is not supported on Dask, where the model of every round is "
            "measured, but not their mean or a draw; use iterate='best' or 'last'"
        )
    for name, value in asked.items():
        if value is not None and not (name == "categorical_feature" and value == "auto"):
            raise InvalidInputError(f"{name} is not supported on Dask; leave it out")


def train_on_dask(request: ClusterRequest, progress: bool) -> ClusterResult:
    """Train where the rows are; raises before that if anything is amiss."""
    asked, stock, kind = request.options, request.stock(), load_engine("xgboost")
    _check_method(asked)
    kind.check_estimator(stock)
    _check_options(stock)
    engine = kind.make(stock, None)
    # Of the columns alone. Dask calls it private, and documents it for those who build on it.
    engine.check_arguments(request.rows.X._meta, {})
    # Of any two targets: the loss does not depend on them.
    loss = engine.loss_terms(np.array([1.0, 2.0]), None).loss if request.of_numbers else None
    _check_exposures(request, loss)
    client = _client(request.estimator)
    with cancelled_on_error(client) as tasks:
        return _train(client, request, stock, loss, progress, tasks)


def _train(
    client: Any,
    request: ClusterRequest,
    stock: Any,
    loss: Loss | None,
    progress: bool,
    tasks: list[Any],
) -> ClusterResult:
    """Train a model of which all that can be known without its rows is checked."""
    asked, kind = request.options, load_engine("xgboost")
    used = asked.columns_read(request.rows.columns)
    merged, parts = _read(client, request, used, loss, tasks)
    asked = request.for_labels(merged.classes)
    constraints = asked.constraints(request.rows.columns)
    if merged.targets is not None:
        check_targets(merged.targets.figures, constraints)
    request = replace(request, options=asked)
    layout, parts, measured = _sort(client, merged, parts, constraints, request, tasks)
    check_point(asked.operating_point, constraints, merged.cells, layout)
    terms = _loss_terms(kind.make(stock, merged.classes), merged)
    check_reachable(layout.terms, layout.cells, asked.operating_point)
    diagnostics.warn_of_small_cells(layout.terms, layout.cells)
    topic = f"fairboost-{id(request)}" if progress else ""
    by_worker = _by_worker(client, parts, merged)
    places = [[measured[k] for k in which] for which in by_worker.values()]
    order = _WorkOrder(asked, stock, merged.classes, terms, layout, places, topic)
    config = getattr(request.estimator, "coll_cfg", None)
    with _bar(client, topic, int(stock.get_num_boosting_rounds())):
        held = {address: [parts[k] for k in which] for address, which in by_worker.items()}
        training, n_bytes = run_together(client, _train_here, held, [order], config)[0]
    training.model.estimator.set_params(n_jobs=stock.get_params().get("n_jobs"))
    counts = merged.counts.sum(axis=1)
    run = ClusterRun(
        {address: int(counts[which].sum()) for address, which in by_worker.items()},
        len(parts),
        n_bytes / (len(training.trees) + 1),  # the last measurement is one more
    )
    return ClusterResult(terms, training, run)


def _check_exposures(request: ClusterRequest, loss: Loss | None) -> None:
    """Refuse an exposure that the loss does not take, or that some rows have and others not."""
    rows, held_out = request.rows, request.held_out
    if loss is None:
        return
    if rows.exposure is not None:
        check_takes_exposure(loss)
    if held_out is not None:
        check_both_exposed(rows.exposure is not None, held_out.exposure is not None)


def _loss_terms(engine: Any, merged: MergedPartitions) -> LossTerms:
    """What the engine's options say about the loss, and the score to start from."""
    targets = merged.targets
    if targets is None:
        # One row of each label, which weighs what all of its rows do.
        n = len(merged.classes)
        weights: Any = np.bincount(merged.cells.labels, merged.cells.weights, n)
        terms: LossTerms = engine.loss_terms(np.arange(n), weights)
        return terms
    if targets.sample.size:
        y, weight = targets.sample
        # XGBoost goes half way between two numbers in the middle where there are no weights.
        alike = (weight == weight[0]).all()
        terms = engine.loss_terms(y, None if alike else weight.astype(np.float32))
        return terms
    # One row that has the means of all: it starts where they do.
    _, _, weight, y, exposure = targets.totals
    offset = np.log([exposure / weight])
    terms = engine.loss_terms(np.array([y / weight]), None, offset if offset.any() else None)
    return terms


def _check_method(method: TrainingOptions) -> None:
    """Refuse what needs rows side by side on one machine."""
    if method.holdout == "cross":
        raise InvalidInputError(
            "holdout='cross' trains further boosters, which is meant for small data on one "
            "machine; on Dask hold out a share, such as holdout=0.2, or use 'auto'"
        )
    if method.memberships == "honest":
        raise InvalidInputError(
            "memberships='honest' trains a model of the groups on all rows on one machine; on "
            "Dask use memberships='observed', which 'auto' is there"
        )


def _check_options(stock: Any) -> None:
    options = stock.get_params()
    for name in ("early_stopping_rounds", "callbacks"):
        if options.get(name) is not None:
            raise EngineOptionError(
                f"the estimator sets {name}, which is not supported on Dask; leave it out "
                "(iterate='best' keeps the best round that the held-out rows know)"
            )
    if options.get("tree_method") == "exact":
        raise EngineOptionError(
            "the estimator sets tree_method='exact', which XGBoost cannot do on several "
            "machines; use 'hist'"
        )
    if load_engine("xgboost").make(stock, None).rescales_trees:
        raise EngineOptionError(
            "the estimator drops trees (booster='dart', rate_drop or one_drop), which is not "
            "supported on Dask: no round has measured its last model; use 'gbtree' "
            "without these"
        )


def _client(estimator: Any) -> Any:
    """The client of the estimator, or the one at hand."""
    try:
        client = estimator.client
    except ValueError as error:
        raise ClusterError(
            "there is no Dask client to train with; start one before fit, e.g. "
            "client = distributed.Client(...)"
        ) from error
    if client.asynchronous:
        raise ClusterError(
            "the Dask client is asynchronous, and fit is not; pass a synchronous one, "
            "distributed.Client(asynchronous=False)"
        )
    return client


def _read(
    client: Any,
    request: ClusterRequest,
    columns: Sequence[str],
    loss: Loss | None,
    tasks: list[Any],
) -> tuple[MergedPartitions, list[Any]]:
    """Have every partition checked, and merge what they tell."""
    from dask.delayed import delayed

    rows, held_out = request.rows, request.held_out
    theirs = _columns_of_set(held_out, columns)
    lazy = partitions(rows if columns else rows.without_groups())
    of_columns, n = [list(columns)] * len(lazy), len(lazy)
    if held_out is not None:
        lazy += partitions(held_out if theirs else held_out.without_groups())
        of_columns += [theirs] * (len(lazy) - n)
    rules = None
    if loss is not None:
        # A mean says all, but of losses that start from a median or from a step towards one.
        sampled = loss.renews_leaves or loss.name == "pseudo_huber"
        rules = NumberRules(loss, max(PLACED_ROWS // n, 1) if sampled else 0)
    read = delayed(read_partition, pure=False)
    to_read: dict[str, list[int]] = {}
    for k, address in enumerate(_homes(client, [features for features, *_ in lazy])):
        to_read.setdefault(address, []).append(k)
    parts: list[Any] = [None] * len(lazy)
    for address, which in to_read.items():
        pinned = {"workers": [address], "allow_other_workers": False} if address else {}
        wanted = [read(*lazy[k], of_columns[k], rules) for k in which]
        for k, part in zip(which, client.compute(wanted, **pinned), strict=True):
            parts[k] = part
            tasks.append(part)
    wait_for(client, parts, filter(None, to_read))
    told: list[PartitionSummary] = client.gather(
        submit_beside(client, attrgetter("summary"), parts, tasks)
    )
    label = request.pos_label
    return merge(told[:n], columns, None, label, told[n:], theirs), parts


def _columns_of_set(held_out: DaskRows | None, columns: Sequence[str]) -> list[str]:
    """Those of the sensitive columns that a set to hold out has."""
    if held_out is None:
        return []
    found = held_out.columns
    if len(columns) == 1 and found == [DEFAULT_COLUMN]:
        return found  # it came without a name
    return [name for name in found if name in columns]


def _homes(client: Any, lazy: Sequence[Any]) -> list[str]:
    """The worker that holds each partition, if one does: rows stay where they are."""
    futures = in_memory(lazy)
    holders = client.who_has([future for found in futures for future in found])
    out = []
    for found in futures:
        addresses = Counter(a for future in found for a in holders.get(future.key) or ())
        # The same one every time, if there are several.
        out.append(min(addresses, key=lambda a: (-addresses[a], a), default=""))
    return out


def _sort(
    client: Any,
    merged: MergedPartitions,
    parts: Sequence[Any],
    constraints: Sequence[Constraint],
    request: ClusterRequest,
    tasks: list[Any],
) -> tuple[RowLayout, list[Any], list[slice]]:
    """Have every partition sorted into cells and split into rows to train on, and held out.

    Returns
    -------
    layout, parts, places
        All rows by cell; the partitions; and of each the places of its rows that are measured.
    """
    asked = request.options
    cells = leave_out_small(merged.cells, constraints, asked.min_group_rows)
    merged, n = replace(merged, cells=cells), len(parts) - merged.n_set
    terms = bind_all(constraints, cells)
    shares = _shares(request, cells, terms)
    both = (request.rows, request.held_out) if request.held_out else (request.rows,)
    weighted = any(r.sample_weight is not None or r.exposure is not None for r in both)
    drawn: Any = shares or ("none" if merged.n_set else None)
    told = []
    for k in range(len(parts)):
        how, before = drawn if k < n else "all", merged.counts[:k].sum(axis=0)
        of_set = merged.numbers[k], len(cells), how, before, (request.seed, k)
        told.append((*of_set, float(merged.exposures[k]), weighted))
    out = submit_beside(client, sort_partition, parts, tasks, told)
    found = submit_beside(client, attrgetter("totals"), out, tasks)
    totals = np.array(client.gather(found))
    if merged.n_set:
        given = cells.with_totals(totals[n:, 1].sum(axis=0), cells.codes)
        cells = leave_out_small_in(cells, given, constraints, asked.min_group_rows)
        terms = bind_all(constraints, cells)
    layout = _laid_out(cells, constraints, terms, shares, totals, n)
    rows = totals[:, int(layout.holdout.measured is not None), 0].sum(axis=1).astype(int)
    ends = np.cumsum(rows)
    return layout, out, [slice(int(e - m), int(e)) for e, m in zip(ends, rows, strict=True)]


def _shares(request: ClusterRequest, cells: Cells, terms: Sequence[Any]) -> Shares | None:
    """The share of rows to hold out; none beside a set, unless it is asked for by its number."""
    asked = request.options
    counted = what_counts(asked.operating_point, terms, cells)
    beside = request.held_out is not None and not is_number(asked.holdout)
    if asked.holdout is None or beside or not counted.labels:
        return None
    labels = not_spared(counted, cells)
    shares = choose_shares(asked.holdout, cells, counted.smallest, labels)
    return replace(shares, why=f"{shares.why}, drawn in each partition")


def _laid_out(
    cells: Cells,
    constraints: Sequence[Constraint],
    terms: Any,
    shares: Shares | None,
    totals: Any,
    n: int,
) -> RowLayout:
    """All rows by cell, given totals of each partition; the first n are not of a set."""
    trained, drawn, given = (
        cells.with_totals(found, cells.codes)
        for found in (
            totals[:, 0].sum(axis=0),
            totals[:n, 1].sum(axis=0),
            totals[n:, 1].sum(axis=0),
        )
    )
    outside = None
    if len(totals) > n:
        rows = int(given.counts.sum())
        outside = Holdout("set", f"the given set of {rows:,} rows", measured=given)
    if shares is None:
        if outside is None:
            return lay_out(trained, constraints, terms=terms)
        return lay_out(trained, constraints, outside, terms)
    share = shares.holdout(cells, trained, drawn)
    if outside is None:
        return lay_out(trained, constraints, share)
    if not drawn.counts.any():  # as if there were no share, but the report says so
        none = f"{share.why} of the {int(cells.counts.sum()):,} training rows would have no row"
        return lay_out(trained, constraints, replace(outside, why=f"{outside.why}; {none}"), terms)
    measured = cells.with_totals(totals[:, 1].sum(axis=0), cells.codes)
    return lay_out(trained, constraints, join(share, outside, cells, measured, None))


def _by_worker(
    client: Any, parts: Sequence[Any], layout: MergedPartitions
) -> dict[str, list[int]]:
    """Which partitions each worker trains on; those without rows are left out."""
    filled = [k for k in range(len(parts)) if layout.counts[k].any()]
    holders = client.who_has([parts[k] for k in filled])
    out: dict[str, list[int]] = {}
    for k in filled:
        known = holders.get(parts[k].key) or ()
        check_held(k, known)
        # If several have it, the one with the least to do.
        address = min(sorted(known), key=lambda a: len(out.get(a, ())))
        out.setdefault(address, []).append(k)
    return {address: out[address] for address in sorted(out)}


def _joined(parts: Sequence[SortedPartition]) -> SortedPartition:
    """The partitions of a worker as one; tables are not copied together."""
    tables = [part.X for part in parts]
    columns: dict[str, Any] = {
        name: np.concatenate([getattr(part, name) for part in parts])
        for name in ("codes", "sample_weight", "held_out")
        if getattr(parts[0], name) is not None
    }
    X = tables[0] if len(tables) == 1 else PartedTable(tables)
    outcomes = [part.outcomes for part in parts if part.outcomes is not None]
    if outcomes:
        columns["outcomes"] = join_outcomes(outcomes)
    return replace(parts[0], X=X, **columns)


def _rows_here(layout: RowLayout, rows: SortedPartition, places: IntArray) -> RowLayout:
    """The layout of all rows, with those of this worker in it."""
    codes, weight, held = rows.codes, rows.sample_weight, rows.held_out
    chosen, kept = layout.holdout, np.ones(len(codes), bool)
    if held is not None:
        assert chosen.measured is not None
        kept = ~held
        placed = chosen.placed
        if placed is not None:  # the last of the rows held out
            before = chosen.measured.counts.sum() - placed.counts.sum()
            placed = replace(placed, codes=codes[held][places >= before])
        chosen = replace(
            chosen,
            folds=held.astype(np.int8),
            measured=replace(chosen.measured, codes=codes[held]),
            outside_weight=None if weight is None else weight[held],
            placed=placed,
        )
    outcomes = rows.outcomes
    trained = None if outcomes is None else outcomes.among(kept)
    measured = trained if held is None or outcomes is None else outcomes.among(held)
    return replace(
        layout,
        cells=replace(layout.cells, codes=codes[kept]),
        holdout=chosen,
        sample_weight=None if weight is None else weight[kept],
        outcomes=trained,
        measured_outcomes=measured,
        places=places,
    )


def _train_here(
    parts: Sequence[SortedPartition], all_reduce: Any, rank: int, order: _WorkOrder
) -> tuple[Training, int] | None:
    """Run on every worker: train on its rows, in step with the others.

    The first brings back what came of it, and the bytes it gave to sums.
    """
    from distributed import get_worker

    n_jobs = order.stock.get_params().get("n_jobs") or get_worker().state.nthreads
    engine = load_engine("xgboost").make(order.stock.set_params(n_jobs=n_jobs), order.classes)
    with nullcontext() if engine.device is None else engine.device.used():
        return _train_by(engine, parts, all_reduce, rank, order)


def _train_by(
    engine: Engine,
    parts: Sequence[SortedPartition],
    all_reduce: Any,
    rank: int,
    order: _WorkOrder,
) -> tuple[Training, int] | None:
    from distributed import get_worker

    worker = get_worker()
    threads = Threads(thread_count(engine.n_jobs), engine.library)
    rows = _joined(parts)
    places = np.concatenate([np.arange(at.start, at.stop) for at in order.places[rank]])
    layout = _rows_here(order.layout, rows, places)
    layout = replace(layout, threads=threads, all_reduce=all_reduce, device=engine.device)
    player = order.options.player(engine.n_rounds, engine.learning_rate * order.loss.pace)
    session = Session(order.options.game(layout, order.loss, player))
    trees: list[int] = []

    def after_round(n_trees: int) -> None:
        trees.append(n_trees)
        if order.topic and rank == 0:
            worker.log_event(order.topic, n_trees)

    try:
        model, _ = engine.train(
            _engine_data(rows, layout), problem_of(session, after_round), order.loss.intercept
        )
        record = session.record()  # all of them: what is kept of the rows are sums over all
    finally:
        session.close()
    return None if rank else (Training(model, record, trees), all_reduce.n_bytes)


def _engine_data(rows: SortedPartition, layout: RowLayout) -> EngineData:
    """What the engine gets of the rows of a worker."""
    y: Any = layout.cells.labels.astype(np.int16)[rows.codes]
    weight, offset, known = rows.sample_weight, None, rows.outcomes
    if known is not None:
        y, weight = known.targets, known.weight
        offset = None if known.exposure is None else np.log(known.exposure)
    trained = None if rows.held_out is None else ~rows.held_out
    factors = layout.holdout.trained_labels
    return EngineData(rows.X, y, y, weight, {}, trained, factors, None, offset)


@contextmanager
def _bar(client: Any, topic: str, n_rounds: int) -> Iterator[None]:
    """A progress bar that the first worker moves."""
    if not topic:
        yield
        return
    with tqdm(total=n_rounds, unit="round") as bar:
        client.subscribe_topic(topic, lambda _: bar.update())
        try:
            yield
        finally:
            client.unsubscribe_topic(topic)
