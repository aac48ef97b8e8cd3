"""The user's data for a training whose scores are on a GPU.

Bins are made where the table is, by :class:`fairboost.engines.xgboost.data.MatrixMaker`. Beside
them the table itself stays on the device: the newest trees are read off it in every round.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from xgboost import XGBModel

from fairboost._typing import FloatArray, IntArray, Matrix
from fairboost.data.device_arrays import is_on_device, on_host
from fairboost.engines.port import EngineData
from fairboost.engines.tables import feature_names
from fairboost.engines.xgboost.batches import positions
from fairboost.engines.xgboost.data import Matrices, MatrixMaker, plain_words
from fairboost.engines.xgboost.device import DeviceRows, TableScores, refuse_infinity
from fairboost.engines.xgboost.options import option
from fairboost.kernel.device import Device
from fairboost.kernel.threads import Threads


@plain_words()
def build_on_device(
    estimator: XGBModel,
    data: EngineData,
    base: XGBModel | None,
    device: Device,
    tables: Sequence[Any],
    starting_score: float,
    folds: Sequence[IntArray] = (),
) -> Matrices:
    """Bin the rows of tables that are on a GPU, of which scores are kept there.

    Parameters
    ----------
    estimator, data, base, folds
        As in :func:`fairboost.engines.xgboost.data.build`. There are no evaluation sets.
    device : Device
        The GPU.
    tables : sequence of arrays on the GPU
        X, and that of the set that is held out if there is one.
    starting_score : float
        The score that rows start from if nothing else is said.
    """
    for every in tables:
        refuse_infinity(device, every, estimator.missing)
    make, table = MatrixMaker(estimator, base, Threads()), tables[0]
    # Bins are made where X is, as in stock XGBoost: those of the host and of a GPU differ.
    X = make.table(data.X)
    place: Callable[[Any], Any] = device.put if is_on_device(X) else on_host
    if is_on_device(X):
        X, make.columns = table, {"feature_names": feature_names(X), **make.column_facts(X)}
    weight = None if data.sample_weight is None else place(data.sample_weight)
    per_round = int(option(make.told, "num_parallel_tree", 1))

    def scores_of(
        X: Matrix, on_device: Any, offset: FloatArray | None, parts: Sequence[IntArray] = ()
    ) -> TableScores:
        start = make.start(X, offset, starting_score)
        told = starting_score if start is None else start
        return TableScores(device, on_device, estimator.missing, told, parts, per_round)

    trained, held_out, parts = None, [], list[IntArray]()
    if data.trained is not None:
        trained = positions(data.trained)
        parts = [trained, positions(~data.trained)]
    own = scores_of(data.X, table, data.offset, parts)
    if parts:
        held_out.append(DeviceRows(own, 1))
    # Gradients are handed over, and nothing is evaluated: XGBoost needs no labels.
    rows = make.matrix(X, None, weight, None, None if trained is None else place(trained))
    make.weigh_features(rows)
    if data.held_out is not None:
        theirs = scores_of(data.held_out[0], tables[1], data.held_out_offset)
        held_out.append(DeviceRows(theirs))
    on_device, followers = [], []
    their = MatrixMaker(estimator, base, Threads())
    their.columns, their.known = make.columns, make.known
    X = their.coded(X) if folds else X
    for fold in folds:
        others = np.delete(np.arange(len(table)), fold)
        trained_on = their.matrix(X, None, weight, None, place(others))
        their.reference = their.reference or trained_on
        their.weigh_features(trained_on)
        scores = scores_of(data.X, table, data.offset, [others, fold])
        on_device.append(DeviceRows(scores))
        followers.append((trained_on, DeviceRows(scores, 1)))
    on_device.append(DeviceRows(own))
    return Matrices(rows, held_out, [], followers, on_device)
