"""A cluster of separate processes."""

from __future__ import annotations

import pytest
from distributed import Client, LocalCluster


@pytest.fixture(scope="session")
def three_workers():
    """One cluster for all: a worker takes seconds to import what training needs."""
    with LocalCluster(
        n_workers=3, threads_per_worker=1, processes=True, dashboard_address=":0"
    ) as cluster:
        yield cluster


@pytest.fixture(scope="module")
def client(three_workers):
    """Of a module alone: tests of other rooms must find no client."""
    with Client(three_workers) as client:
        yield client
