"""One function on several Dask workers at once, joined by XGBoost's collective.

A boosting round needs all machines: each adds its histograms to those of the others. So the tasks
must run at the same time, each where its rows are, and if one cannot go on none can. What may
happen, and what comes of it (``docs/cluster.md``):

* a worker dies: the others notice within the second, as their connection to it breaks, and end
  with an error. Dask would wait for the dead one's task for ever; here its absence is looked for,
  and :class:`~fairboost.exceptions.ClusterError` is raised;
* a task raises: the communicator is closed, which ends the others, and its error is told;
* the scheduler dies: Dask's client gives up after half a minute, and so does this;
* two trainings at once: each waits for all of its workers before it starts, by a lock on them.

XGBoost's tracker, which introduces the machines to each other, runs on the first of them: workers
can reach each other, while the client may be far away.
"""

from __future__ import annotations

import contextlib
import threading
import time
import uuid
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any

from fairboost.engines.xgboost.collective import Collective
from fairboost.exceptions import ClusterError, FairboostError

POLL = 0.5
"""Seconds between two checks of the workers."""

GRACE = 20.0
"""Seconds that the others have to end after one has failed, so that the first cause is known."""


def run_together(
    client: Any,
    work: Callable[..., Any],
    parts: Mapping[str, Sequence[Any]],
    arguments: Sequence[Any] = (),
    config: Any = None,
) -> list[Any]:
    """Run a function on several workers at once and return what each returned.

    Parameters
    ----------
    client : distributed.Client
        Connected to the cluster.
    work : callable
        Is called as ``work(parts, collective, rank, *arguments)`` on every worker.
    parts : mapping of str to sequence of Future
        Addresses of workers, and what they hold.
    arguments : sequence
        The same for all.
    config : xgboost.collective.Config, optional
        Timeouts, retries and address of the tracker.
    """
    from distributed import MultiLock

    addresses = list(parts)
    try:
        _check_alive(client, addresses)
        with MultiLock(addresses, client):
            first = addresses[0]
            args = client.run(_track, len(addresses), config, workers=[first])[first]
            if config is not None:
                args = config.get_comm_config(args)
            shared = client.scatter(list(arguments), hash=False)
            futures = {
                address: client.submit(
                    _join, work, list(held), rank, args, *shared,
                    workers=[address], allow_other_workers=False, pure=False, retries=0,
                    key=f"fairboost-train-{uuid.uuid4().hex}",
                )
                for rank, (address, held) in enumerate(parts.items())
            }  # fmt: skip
            try:
                _await(client, futures)
                return client.gather(list(futures.values()))  # type: ignore[no-any-return]
            finally:
                client.cancel(list(futures.values()), force=True)
    except OSError as error:
        raise ClusterError(
            "the connection to the Dask scheduler broke during training, expected it to hold to "
            f"the end: {error}. There is no model. Connect again and call fit again"
        ) from error


@contextlib.contextmanager
def cancelled_on_error(client: Any) -> Iterator[list[Any]]:
    """A list of tasks that are cancelled if what is inside raises.

    The traceback of an error keeps them alive, and with them columns that only a worker which has
    gone may make: another fit on the same columns would wait for it.
    """
    tasks: list[Any] = []
    try:
        yield tasks
    except BaseException:
        with contextlib.suppress(Exception):  # the scheduler may be gone too
            client.cancel(tasks, force=True)
        raise


def submit_beside(
    client: Any,
    function: Callable[..., Any],
    parts: Sequence[Any],
    tasks: list[Any],
    arguments: Sequence[Sequence[Any]] | None = None,
) -> list[Any]:
    """Call a function with each of several results, on a worker that holds it.

    Tasks that may run elsewhere are moved to a worker with nothing to do, and rows with them.

    Parameters
    ----------
    client : distributed.Client
        Connected to the cluster.
    function : callable
        Is called as ``function(part, *arguments)``.
    parts : sequence of Future
        The results, which have been waited for (:func:`wait_for`).
    tasks : list
        From :func:`cancelled_on_error`; the calls are added to it.
    arguments : sequence of sequence, optional
        Further ones, for each part.

    Returns
    -------
    list of Future
        What the function returned, waited for.
    """
    holders, out, used = client.who_has(list(parts)), [], set[str]()
    for k, part in enumerate(parts):
        where = list(holders.get(part.key) or ())
        check_held(k, where)
        told = () if arguments is None else arguments[k]
        pinned = {"workers": where, "allow_other_workers": False, "pure": False}
        out.append(client.submit(function, part, *told, **pinned))
        tasks.append(out[-1])
        if len(where) == 1:
            used.update(where)
    wait_for(client, out, used)
    return out


def check_held(partition: int, holders: Collection[str]) -> None:
    """Raise if no worker holds a partition any more."""
    if not holders:
        raise ClusterError(
            f"partition {partition} is on no worker any more: the worker that held it left the "
            "cluster. Call fit again"
        )


def wait_for(client: Any, futures: Sequence[Any], addresses: Iterable[str] = ()) -> None:
    """Wait for tasks that only the given workers may run; raise if one fails, or a worker goes."""
    from distributed import wait

    addresses = sorted(addresses)
    while any(future.status == "pending" for future in futures):
        _check_alive(client, addresses)
        with contextlib.suppress(TimeoutError):
            wait(list(futures), timeout=POLL)
    for future in futures:
        if future.status != "finished":
            future.result()  # raises what it raised


def _join(
    work: Callable[..., Any], parts: Sequence[Any], rank: int, args: dict[str, Any], *shared: Any
) -> Any:
    """Run on a worker: join the others, and work."""
    from xgboost import collective

    # Ranks by the order of workers: the same rows on the same rank, the same model.
    args = {**args, "DMLC_TASK_ID": f"{rank:06d}"}
    with collective.CommunicatorContext(**args):
        return work(parts, Collective(), rank, *shared)


def _await(client: Any, futures: dict[str, Any]) -> None:
    """Wait for all; raise what went wrong first."""
    from distributed import wait

    failed_at = None
    while pending := [f for f in futures.values() if f.status == "pending"]:
        _check_alive(client, futures)
        failed = any(f.status in ("error", "lost", "cancelled") for f in futures.values())
        if failed and failed_at is None:
            failed_at = time.monotonic()
        if failed_at is not None and time.monotonic() - failed_at > GRACE:
            break
        with contextlib.suppress(TimeoutError):
            wait(pending, timeout=POLL, return_when="FIRST_COMPLETED")
    failures = [f for f in futures.values() if f.status != "finished"]
    if not failures:
        return
    errors = [f.exception() for f in failures if f.status == "error"]
    own = [e for e in errors if not _says_that_another_failed(e)]
    if not own:
        time.sleep(POLL)  # the scheduler may be about to notice
        _check_alive(client, futures)
    first = own[0] if own else errors[0] if errors else None
    if isinstance(first, FairboostError):
        raise first
    raise ClusterError(
        f"training stopped on {len(failures)} of {len(futures)} workers: "
        f"{type(first).__name__ if first else 'a task was cancelled'}: "
        f"{str(first).strip().splitlines()[0] if first else ''}. There is no model. The log of "
        "the workers says more (client.get_worker_logs()); fix the cause and call fit again"
    ) from first


def _says_that_another_failed(error: BaseException) -> bool:
    """Whether an error is only that the connection to another worker broke."""
    text = str(error)
    return type(error).__name__ == "XGBoostError" and (
        "/collective/" in text or "llreduce" in text or "tracker" in text
    )


def _check_alive(client: Any, addresses: Any) -> None:
    """Raise if a worker is gone."""
    alive = client.nthreads()
    lost = [address for address in addresses if address not in alive]
    if lost:
        raise ClusterError(
            f"{len(lost)} of the {len(addresses)} workers that hold rows left the cluster during "
            f"training ({', '.join(lost)}), expected all to stay to the end. There is no model. "
            "Was it killed for lack of memory (see its log)? Call fit again: rows that were read "
            "from files are read again by the workers that are left"
        )


def _track(n_workers: int, config: Any, dask_worker: Any = None) -> Any:
    """Run on the first worker: start the tracker; arguments with which workers find each other."""
    from distributed.comm import get_address_host
    from xgboost.tracker import RabitTracker

    host = getattr(config, "tracker_host_ip", None) or get_address_host(dask_worker.address)
    port = getattr(config, "tracker_port", None) or 0
    timeout = getattr(config, "tracker_timeout", None) or 0
    tracker = RabitTracker(n_workers, host, port, sortby="task", timeout=timeout)
    tracker.start()

    def wait() -> None:  # which keeps the tracker alive for as long as it is needed
        with contextlib.suppress(Exception):  # the workers say what went wrong
            tracker.wait_for()

    threading.Thread(target=wait, name="fairboost-tracker", daemon=True).start()
    return tracker.worker_args()
