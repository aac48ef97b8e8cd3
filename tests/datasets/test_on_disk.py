"""Features that stay on disk: the same model as in memory, and less memory."""

from __future__ import annotations

import gc
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from sklearn.frozen import FrozenEstimator

from fairboost import FairGBMClassifier, at_fpr
from fairboost.datasets import ParquetRows, on_disk
from fairboost.exceptions import EngineOptionError, InvalidInputError
from tests.kinds import KINDS

pytest.importorskip("xgboost")
engine = KINDS["xgboost"].make
NAMES = ["income", "debt", "noise", "district"]


@pytest.fixture
def rows(toy, tmp_path, monkeypatch):
    """Two files of 600 rows in all, in batches of up to 128, some values missing."""
    monkeypatch.setattr(on_disk, "BATCH", 128)
    frame = pd.DataFrame(np.round(toy.X, 1), columns=NAMES)  # few values: bins are exact
    frame.loc[::7, "income"] = np.nan
    frame = frame.assign(y=toy.y, group=toy.group, weight=toy.weight)
    folder = tmp_path / "table"
    folder.mkdir()
    frame[:250].to_parquet(folder / "1.parquet")
    frame[250:].to_parquet(folder / "2.parquet")
    cache = tmp_path / "cache"
    cache.mkdir()
    return ParquetRows(folder, leave_out=["y", "group", "weight"], cache=cache)


def in_memory(rows):
    return pd.DataFrame(np.concatenate(list(rows.batches())), columns=rows.columns)


HOW = {"share": 0.3, "cross": "cross", "training rows": None, "set": "auto"}


@pytest.mark.parametrize("how", HOW)
@pytest.mark.parametrize("memberships", ["observed", "honest"])
def test_the_model_is_that_of_the_same_rows_in_memory(rows, how, memberships):
    y, group, weight = (rows.column(name) for name in ("y", "group", "weight"))
    models = []
    for X in (rows, in_memory(rows)):
        held = {"holdout_set": (X, y, group)} if how == "set" else {}
        model = FairGBMClassifier(
            engine(), constraint="demographic_parity", operating_point=at_fpr(0.2),
            holdout=HOW[how], memberships=memberships, iterate="last",
        )  # fmt: skip
        models.append(model.fit(X, y, sensitive_features=group, sample_weight=weight, **held))
    pd.testing.assert_frame_equal(models[0].trace_, models[1].trace_)
    np.testing.assert_array_equal(
        models[0].predict_proba(rows), models[1].predict_proba(in_memory(rows))
    )
    assert models[0].threshold_ == models[1].threshold_
    assert models[0].booster_.feature_names == NAMES
    del models, model
    gc.collect()
    assert not list(Path(rows.cache).iterdir())  # what was binned is gone


@pytest.mark.filterwarnings("ignore:The stage costs much")
def test_stages_evaluation_sets_and_randomized_models(rows, toy):
    y, group = rows.column("y"), rows.column("group")
    base = engine().fit(in_memory(rows), y)
    stage = FairGBMClassifier(FrozenEstimator(base), constraint="demographic_parity")
    stage.fit(rows, y, sensitive_features=group, eval_set=[(rows, y)])
    assert stage.best_iteration_ >= 8
    model = FairGBMClassifier(
        engine(), constraint="demographic_parity", iterate="randomized", random_state=0
    ).fit(rows, y, sensitive_features=group)
    np.testing.assert_array_equal(model.predict_proba(rows), model.predict_proba(in_memory(rows)))


def test_rows_by_number(rows):
    some = np.array([599, 3, 3, 250, 249, 0])
    pd.testing.assert_frame_equal(rows[some], in_memory(rows).iloc[some].reset_index(drop=True))
    assert rows[np.array([], int)].shape == (0, 4)
    assert len(rows) == 600 and rows.shape == (600, 4)


def test_refused(rows, tmp_path):
    y, group = rows.column("y"), rows.column("group")
    with pytest.raises(InvalidInputError, match="LightGBM trains on features in memory, found"):
        FairGBMClassifier().fit(rows, y, sensitive_features=group)
    with pytest.raises(EngineOptionError, match="tree_method='exact' needs the features in mem"):
        exact = engine(tree_method="exact", enable_categorical=False)
        FairGBMClassifier(exact).fit(rows, y, sensitive_features=group)
    with pytest.raises(InvalidInputError, match=r"the column 'group' of .* holds .*string, expec"):
        ParquetRows(tmp_path / "table", leave_out=["y"])
    with pytest.raises(InvalidInputError, match="leave_out names the column 'label', but"):
        ParquetRows(tmp_path / "table", leave_out=["label"])
