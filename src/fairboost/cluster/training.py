"""Training on the workers of a Dask cluster, where the rows are.

The client checks everything and makes a plan; workers carry it out together. Each trains on the
partitions it holds, as one machine would on all rows (:mod:`fairboost.training.run`), inside
XGBoost's collective: XGBoost adds up histograms of gradients, the game adds up sums by cell
(:mod:`fairboost.fairness.all_reduce`). Every worker ends up with the same model; that of the first
is kept.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from operator import attrgetter
from typing import Any

import numpy as np
from tqdm.auto import tqdm

from fairboost.algorithm.game import Session
from fairboost.cluster.collections import column_names, in_memory, is_dask, partitions
from fairboost.cluster.rows import (
    MergedPartitions,
    PartitionSummary,
    SortedPartition,
    merge,
    read_partition,
    sort_partition,
)
from fairboost.cluster.workers import run_together
from fairboost.data.holdout import choose_shares
from fairboost.engines.port import EngineData, LossTerms
from fairboost.engines.registry import load_engine
from fairboost.engines.tables import PartedTable
from fairboost.exceptions import ClusterError, EngineOptionError, InvalidInputError
from fairboost.fairness.all_reduce import AllReduce
from fairboost.fairness.binding import leave_out_small
from fairboost.fairness.constraints import Constraint, columns_of
from fairboost.kernel.threads import Threads, thread_count
from fairboost.tasks.layout import RowLayout, bind_all, lay_out
from fairboost.training.options import TrainingOptions
from fairboost.training.outcome import Training
from fairboost.training.rows import check_point, what_counts
from fairboost.training.run import problem_of
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
    estimator : DaskXGBClassifier
        The engine with its options.
    X, y, sensitive_features, sample_weight : Dask collections
        As the user gave them.
    seed : int
        Of the draw of rows to hold out.
    engine_seed : int, optional
        For the engine, if it has none of its own.
    pos_label : label, optional
        The positive label; the larger one if left out.
    """

    options: TrainingOptions
    estimator: Any
    X: Any
    y: Any
    sensitive_features: Any
    sample_weight: Any
    seed: int
    engine_seed: int | None = None
    pos_label: object = None

    @property
    def columns(self) -> list[str]:
        """Names of the sensitive columns."""
        return [] if self.sensitive_features is None else column_names(self.sensitive_features)

    def engine_options(self) -> dict[str, Any]:
        """Options of XGBoost, without those of the cluster."""
        params = self.estimator.get_params()
        params.pop("coll_cfg", None)
        if self.engine_seed is not None and params.get("random_state") is None:
            params["random_state"] = self.engine_seed
        return dict(params)


@dataclass(frozen=True)
class _WorkOrder:
    """What every worker has to know."""

    options: TrainingOptions
    engine_options: dict[str, Any]
    classes: np.ndarray
    loss: LossTerms
    layout: RowLayout  # of all rows, by cell
    topic: str


def is_dask_estimator(estimator: object) -> bool:
    """Whether an estimator trains on a Dask cluster.

    LightGBM's is refused: its workers sum histograms inside the library, which offers no sum of
    anything else, so they could not agree on the rates of groups.
    """
    homes = [c.__module__ for c in type(estimator).__mro__]
    if any(home.startswith("lightgbm.dask") for home in homes):
        raise EngineOptionError(
            f"{type(estimator).__name__} cannot be constrained: a custom objective of LightGBM on "
            "Dask sees the rows of one worker, and LightGBM offers no way to add up the rates of "
            "groups over workers. Use xgboost.dask.DaskXGBClassifier, or LGBMClassifier on one "
            "machine"
        )
    on_dask = any(home.startswith("xgboost.dask") for home in homes)
    if on_dask and type(estimator).__name__ != "DaskXGBClassifier":
        raise EngineOptionError(
            f"estimator must be a DaskXGBClassifier to train on Dask, found "
            f"{type(estimator).__name__}"
        )
    return on_dask


def check_for_dask(estimator: Any, X: Any, iterate: str, asked: Mapping[str, Any]) -> None:
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
    """
    if not is_dask_estimator(estimator):
        found = "no estimator" if estimator is None else type(estimator).__name__
        raise EngineOptionError(
            f"X is a Dask collection, which {found} cannot be trained on; pass "
            "FairGBMClassifier(xgboost.dask.DaskXGBClassifier(...)), or X.compute() if the rows "
            "fit into one machine"
        )
    if not is_dask(X):
        raise InvalidInputError(
            f"a DaskXGBClassifier is trained on Dask collections, found X as "
            f"{type(X).__name__}; pass dask.dataframe.from_pandas(X, npartitions=...), or use "
            "XGBClassifier on one machine"
        )
    if iterate not in ("best", "last"):
        raise InvalidInputError(
            f"iterate={iterate!r} is not supported on Dask, where the model of every round is "
            "looked at, but not their mean or a draw; use iterate='best' or 'last'"
        )
    for name, value in asked.items():
        if value is not None and not (name == "categorical_feature" and value == "auto"):
            raise InvalidInputError(
                f"{name} is not supported on Dask; leave it out"
                + (": a share of each partition is held out" if name == "holdout_set" else "")
            )


def train_on_dask(
    request: ClusterRequest, progress: bool
) -> tuple[np.ndarray, Training, ClusterRun]:
    """Train where the rows are; raises before that if anything is amiss.

    Returns
    -------
    classes, training, run
        The labels, what came of it, and where it happened.
    """
    asked, options = request.options, request.engine_options()
    _check_method(asked)
    load_engine("xgboost").check_estimator(_stock(options))
    _check_options(options)
    # Of the columns alone. Dask calls it private, and documents it for those who build on it.
    load_engine("xgboost").make(_stock(options), None).check_arguments(request.X._meta, {})
    client = _client(request.estimator)
    constraints = asked.constraints(request.columns)
    used = [c for c in request.columns if c in {n for k in constraints for n in columns_of(k)}]
    merged, parts = _read(client, request, used)
    layout, parts = _sort(client, merged, parts, constraints, request)
    check_point(asked.operating_point, constraints, merged.cells, layout)
    engine = load_engine("xgboost").make(_stock(options), merged.classes)
    weights: Any = np.bincount(merged.cells.labels, merged.cells.weights, 2)  # of either label
    loss = engine.loss_terms(np.array([0, 1]), weights)
    diagnostics.warn_of_small_cells(layout.terms, layout.cells)
    topic = f"fairboost-{id(request)}" if progress else ""
    order = _WorkOrder(asked, options, merged.classes, loss, layout, topic)
    by_worker = _by_worker(client, parts, merged)
    config = getattr(request.estimator, "coll_cfg", None)
    with _bar(client, topic, int(_stock(options).get_num_boosting_rounds())):
        held = {address: [parts[k] for k in which] for address, which in by_worker.items()}
        training, n_bytes = run_together(client, _train_here, held, [order], config)[0]
    training.model.estimator.set_params(n_jobs=options.get("n_jobs"))
    counts = merged.counts.sum(axis=1)
    run = ClusterRun(
        {address: int(counts[which].sum()) for address, which in by_worker.items()},
        len(parts),
        n_bytes / (len(training.trees) + 1),  # the last measurement is one more
    )
    return merged.classes, training, run


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


def _check_options(options: dict[str, Any]) -> None:
    for name in ("early_stopping_rounds", "callbacks"):
        if options.get(name) is not None:
            raise EngineOptionError(
                f"the estimator sets {name}, which is not supported on Dask; leave it out "
                "(iterate='best' keeps the best round that the held-out rows know)"
            )
    for name, value, why in (
        ("tree_method", "exact", "which XGBoost cannot do on several machines; use 'hist'"),
    ):  # fmt: skip
        if options.get(name) == value:
            raise EngineOptionError(f"the estimator sets {name}={value!r}, {why}")
    if load_engine("xgboost").make(_stock(options), None).rescales_trees:
        raise EngineOptionError(
            "the estimator drops trees (booster='dart', rate_drop or one_drop), which is not "
            "supported on Dask: its last model is none that a round has looked at; use 'gbtree' "
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


def _stock(options: dict[str, Any]) -> Any:
    return load_engine("xgboost").make_estimator(**options)


def _read(
    client: Any, request: ClusterRequest, columns: Sequence[str]
) -> tuple[MergedPartitions, list[Any]]:
    """Have every partition checked, and merge what they tell."""
    from dask.delayed import delayed

    sensitive = request.sensitive_features if columns else None
    lazy = partitions(request.X, request.y, sensitive, request.sample_weight)
    read = delayed(read_partition, pure=False)
    to_read: dict[str, list[int]] = {}
    for k, address in enumerate(_homes(client, [features for features, *_ in lazy])):
        to_read.setdefault(address, []).append(k)
    parts: list[Any] = [None] * len(lazy)
    for address, which in to_read.items():
        pinned = {"workers": [address], "allow_other_workers": True} if address else {}
        tasks = [read(*lazy[k], list(columns)) for k in which]
        for k, part in zip(which, client.compute(tasks, **pinned), strict=True):
            parts[k] = part
    summaries: list[PartitionSummary] = client.gather(
        client.map(attrgetter("summary"), parts, pure=False)
    )
    return merge(summaries, columns, pos_label=request.pos_label), parts


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
) -> tuple[RowLayout, list[Any]]:
    """Have every partition sorted into cells and split into rows to train on, and held out."""
    asked = request.options
    cells = leave_out_small(merged.cells, constraints, asked.min_group_rows)
    merged = replace(merged, cells=cells)
    terms = bind_all(constraints, merged.cells)
    counted = what_counts(asked.operating_point, terms, merged.cells)
    shares = None
    if asked.holdout is not None and counted.labels:
        shares = choose_shares(asked.holdout, merged.cells, counted.smallest, counted.labels)
        shares = replace(shares, why=f"{shares.why}, drawn in each partition")
    holders = client.who_has(list(parts))
    out = []
    for k, part in enumerate(parts):
        before = merged.counts[:k].sum(axis=0)
        told = merged.numbers[k], len(merged.cells), shares, before, (request.seed, k)
        where = holders.get(part.key) or None
        out.append(
            client.submit(
                sort_partition, part, *told,
                workers=where, allow_other_workers=bool(where), pure=False,
            )
        )  # fmt: skip
    totals = np.sum(client.gather(client.map(attrgetter("totals"), out, pure=False)), axis=0)
    trained, measured = (merged.cells.with_totals(t, merged.cells.codes) for t in totals)
    if shares is None:
        return lay_out(trained, constraints, terms=terms), out
    return lay_out(trained, constraints, shares.holdout(merged.cells, trained, measured)), out


def _by_worker(
    client: Any, parts: Sequence[Any], layout: MergedPartitions
) -> dict[str, list[int]]:
    """Which partitions each worker trains on; those without rows are left out."""
    filled = [k for k in range(len(parts)) if layout.counts[k].any()]
    holders = client.who_has([parts[k] for k in filled])
    out: dict[str, list[int]] = {}
    for k in filled:
        known = holders.get(parts[k].key) or ()
        if not known:
            raise ClusterError(
                f"partition {k} is on no worker any more: the worker that held it left the "
                "cluster. Call fit again"
            )
        # If several have it, the one with the least to do.
        address = min(sorted(known), key=lambda a: len(out.get(a, ())))
        out.setdefault(address, []).append(k)
    return {address: out[address] for address in sorted(out)}


def _joined(parts: Sequence[SortedPartition]) -> SortedPartition:
    """The partitions of a worker as one; tables are not copied together."""
    tables = [part.X for part in parts]
    columns = {
        name: np.concatenate([getattr(part, name) for part in parts])
        for name in ("codes", "sample_weight", "held_out")
        if getattr(parts[0], name) is not None
    }
    X = tables[0] if len(tables) == 1 else PartedTable(tables)
    return replace(parts[0], X=X, **columns)


def _rows_here(
    layout: RowLayout, rows: SortedPartition, threads: Threads, all_reduce: AllReduce
) -> RowLayout:
    """The layout of all rows, with those of this worker in it."""
    codes, weight, held = rows.codes, rows.sample_weight, rows.held_out
    chosen, kept = layout.holdout, np.ones(len(codes), bool)
    if held is not None:
        assert chosen.measured is not None
        kept = ~held
        chosen = replace(
            chosen,
            folds=held.astype(np.int8),
            measured=replace(chosen.measured, codes=codes[held]),
            outside_weight=None if weight is None else weight[held],
        )
    return replace(
        layout,
        cells=replace(layout.cells, codes=codes[kept]),
        holdout=chosen,
        sample_weight=None if weight is None else weight[kept],
        threads=threads,
        all_reduce=all_reduce,
    )


def _train_here(
    parts: Sequence[SortedPartition], all_reduce: Any, rank: int, order: _WorkOrder
) -> tuple[Training, int] | None:
    """Run on every worker: train on its rows, in step with the others.

    The first brings back what came of it, and the bytes it gave to sums.
    """
    from distributed import get_worker

    worker = get_worker()
    n_jobs = order.engine_options.get("n_jobs") or worker.state.nthreads
    stock = _stock({**order.engine_options, "n_jobs": n_jobs})
    engine = load_engine("xgboost").make(stock, order.classes)
    threads = Threads(thread_count(n_jobs), engine.library)
    rows = _joined(parts)
    layout = _rows_here(order.layout, rows, threads, all_reduce)
    player = order.options.player(engine.n_rounds, engine.learning_rate * order.loss.pace)
    session = Session(order.options.game(layout, order.loss, player))
    trees: list[int] = []

    def after_round(n_trees: int) -> None:
        trees.append(n_trees)
        if order.topic and rank == 0:
            worker.log_event(order.topic, n_trees)

    labels, holdout = layout.cells.labels.astype(np.int8)[rows.codes], layout.holdout
    kept = holdout.trained, holdout.trained_labels
    data = EngineData(rows.X, labels, labels, rows.sample_weight, {}, *kept)
    try:
        model, _ = engine.train(data, problem_of(session, after_round), order.loss.intercept)
    finally:
        session.close()
    return None if rank else (Training(model, session.record(), trees), all_reduce.n_bytes)


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
