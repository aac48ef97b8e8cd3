"""Rows in partitions, dealt out to workers."""

from __future__ import annotations

from dataclasses import replace

import dask
import dask.dataframe as dd
import numpy as np
from distributed import wait


def without_scores(report):
    """A report on test rows as on a cluster, where decisions are counted and no score is kept."""
    return replace(report, performance=tuple(p for p in report.performance if p.where != "test"))


def split(rows, n):
    """A table as several, one after the other."""
    return [rows.iloc[k] for k in np.array_split(np.arange(len(rows)), n)]


def parts(client, frames, workers=3):
    """A Dask DataFrame of given partitions, dealt out to so many workers."""
    addresses = sorted(client.nthreads())[:workers]
    held = [
        client.persist(
            dd.from_delayed([dask.delayed(frame)], meta=frame.iloc[:0]),
            workers=[addresses[k % workers]],
        )
        for k, frame in enumerate(frames)
    ]
    wait(held)
    return dd.concat(held)


def deal(client, rows, n=5, workers=3):
    """A table in so many partitions, dealt out to so many workers."""
    return parts(client, split(rows, n), workers)
