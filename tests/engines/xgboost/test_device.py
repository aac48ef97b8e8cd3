"""Training with scores on a GPU: a fake one everywhere, the real one where there is one."""

from __future__ import annotations

import pickle
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
import xgboost
from lightgbm import LGBMClassifier
from sklearn.frozen import FrozenEstimator
from xgboost import XGBClassifier, XGBRegressor

from fairboost import (
    FairGBMClassifier,
    FairGBMRegressor,
    at_fpr,
    at_least,
    at_positive_rate,
    bound,
    load,
    minimax,
    tradeoff_curve,
)
from fairboost.data.device_arrays import count_by, on_host
from fairboost.data.holdout import Shares
from fairboost.datasets import ParquetRows, make_loans
from fairboost.engines.xgboost import device as module
from fairboost.engines.xgboost import engine
from fairboost.exceptions import ConstraintError, EngineOptionError, InvalidInputError
from fairboost.training import rows
from fairboost.training.device_draw import hold_out
from tests.covering import covering
from tests.fake_device import BOTH, needs_compiler, needs_gpu

LOANS = make_loans(6_000, seed=3)
NUMBERS = LOANS.X.select_dtypes("number")
SEX = LOANS.sensitive["sex"]


def use(monkeypatch, device):
    for where in (module, engine):
        monkeypatch.setattr(where, "open_device", lambda ordinal: device)
        monkeypatch.setattr(where, "at_hand", lambda ordinal: device)


@pytest.fixture(params=BOTH)
def device(request, monkeypatch):
    found = request.param()
    use(monkeypatch, found)
    return found


@pytest.fixture
def fake(monkeypatch):
    found = BOTH[0].values[0]()
    use(monkeypatch, found)
    return found


def engine_on(name="cuda", **options):
    told = {"n_estimators": 25, "max_depth": 4, "learning_rate": 0.2, "n_jobs": 1, **options}
    return XGBClassifier(device=name, **told)


def fitted(estimator, X=NUMBERS, y=LOANS.y, sensitive=SEX, fit=None, **options):
    told = {"constraint": "equal_opportunity", "tolerance": 0.02, "random_state": 0, **options}
    model = FairGBMClassifier(estimator, **told)
    return model.fit(X, y, sensitive_features=sensitive, **(fit or {}))


WAYS = {
    "share": {"holdout": 0.3},
    "cross": {"holdout": "cross"},
    "training rows": {"holdout": None},
    "paper": {"multipliers": "paper", "holdout": None, "memberships": "observed"},
    "proxy": {"proxy": "squared", "holdout": 0.3},
    "point": {"operating_point": at_fpr(0.1), "holdout": 0.3},
    "point, cross": {"operating_point": at_fpr(0.1), "holdout": "cross"},
    "memberships": {"memberships": "honest", "holdout": 0.3},
    "several": {"constraint": ["equal_opportunity", "predictive_equality"], "holdout": 0.3},
    "ratio": {"constraint": "four_fifths", "tolerance": None, "holdout": 0.3},
    "floor": {"constraint": at_least("tpr", 0.7), "tolerance": None, "holdout": 0.3},
    "bound": {"constraint": bound("fpr", 0.2), "tolerance": None, "holdout": 0.3},
    "confidence": {"confidence": 0.9, "tolerance": 0.1, "holdout": 0.3},
    "average": {"iterate": "average", "holdout": 0.3},
    "randomized": {"iterate": "randomized", "holdout": 0.3},
    "plain": {"constraint": None},
}


@pytest.mark.parametrize("way", list(WAYS))
def test_the_model_is_that_of_the_cpu(device, way):
    ours, theirs = (fitted(engine_on(name), **WAYS[way]) for name in (None, "cuda"))
    ours_at, theirs_at = (m.predict_proba(NUMBERS)[:, 1] for m in (ours, theirs))
    assert len(ours.trace_) == len(theirs.trace_)
    # Trees that are as good as each other may be chosen otherwise, from some round on; and the
    # iterate of a row is drawn by the bits of its score.
    assert np.abs(ours_at - theirs_at).mean() < (0.1 if way == "randomized" else 0.02)
    pd.testing.assert_frame_equal(ours.trace_[:2], theirs.trace_[:2], rtol=1e-3, atol=1e-3)
    if ours.fairness_report_ is not None:
        assert theirs.fairness_report_.columns == ours.fairness_report_.columns


@pytest.mark.parametrize("way", ["share", "cross", "point", "memberships"])
def test_same_seed_same_model(device, way):
    first, second = (fitted(engine_on(subsample=0.8), **WAYS[way]) for _ in range(2))
    np.testing.assert_array_equal(first.predict_proba(NUMBERS), second.predict_proba(NUMBERS))
    pd.testing.assert_frame_equal(first.trace_, second.trace_)


def test_reported_rates_are_those_of_predictions(device):
    model = fitted(engine_on(), iterate="last", holdout=None)
    refused, counts = model.predict(NUMBERS) == 0, LOANS.y == 1
    rates = model.fairness_report_.rates.set_index("group")["training"]
    for sex in SEX.unique():
        assert refused[counts & (sex == SEX)].mean() == pytest.approx(
            rates[f"sex={sex}"], abs=1e-12
        )
    stock = model.estimator_.predict_proba(NUMBERS)[:, 1]
    np.testing.assert_allclose(stock, model.predict_proba(NUMBERS)[:, 1], atol=1e-6)


def test_without_a_constraint_the_model_is_stock(device):
    model = fitted(engine_on(), constraint=None)
    stock = engine_on(device.name).fit(NUMBERS, LOANS.y)
    np.testing.assert_allclose(
        model.predict_proba(NUMBERS), stock.predict_proba(NUMBERS), atol=2e-5
    )
    start, own = (m.get_booster().save_config() for m in (stock, model.estimator_))
    assert "base_score" in start and "base_score" in own


TABLES = {
    "pandas": NUMBERS,
    "numpy": NUMBERS.to_numpy(np.float64),
    "single": NUMBERS.to_numpy(np.float32),
    "columns": np.asfortranarray(NUMBERS.to_numpy(np.float64)),
    "categories": LOANS.X,
}


@pytest.mark.parametrize("kind", list(TABLES))
@pytest.mark.parametrize("way", ["share", "cross"])
def test_tables_of_every_kind(device, kind, way):
    told = engine_on(enable_categorical=kind == "categories")
    model = fitted(told, TABLES[kind], **WAYS[way])
    here = fitted(told.set_params(device=None), TABLES[kind], **WAYS[way])
    difference = model.predict_proba(TABLES[kind]) - here.predict_proba(TABLES[kind])
    assert np.abs(difference).mean() < 0.02


def test_a_held_out_set_and_weights(device):
    weight = np.random.default_rng(0).random(4_000)
    first, last = NUMBERS[:4_000], NUMBERS[4_000:]
    fit = {"holdout_set": (last, LOANS.y[4_000:], SEX[4_000:]), "sample_weight": weight}
    told = first, LOANS.y[:4_000], SEX[:4_000]
    ours, theirs = (fitted(engine_on(name), *told, fit=fit) for name in (None, "cuda"))
    difference = ours.predict_proba(last) - theirs.predict_proba(last)
    assert np.abs(difference).mean() < 0.02
    assert ours.fairness_report_.columns == theirs.fairness_report_.columns


def test_a_threshold_is_placed_on_the_given_set(device):
    first, last = NUMBERS[:4_000], NUMBERS[4_000:]
    fit = {"holdout_set": (last, LOANS.y[4_000:], SEX[4_000:])}
    told = first, LOANS.y[:4_000], SEX[:4_000]
    options = {"holdout": 0.3, "operating_point": at_fpr(0.15), "iterate": "last", "fit": fit}
    ours, theirs = (fitted(engine_on(name), *told, **options) for name in (None, "cuda"))
    assert theirs.threshold_ == pytest.approx(ours.threshold_, abs=0.02)
    good = LOANS.y[4_000:] == 0
    assert theirs.predict(last)[good].mean() == pytest.approx(0.15, abs=0.002)
    columns = [name for name in ours.trace_ if name.startswith("rate")]
    np.testing.assert_allclose(ours.trace_[columns][:3], theirs.trace_[columns][:3], atol=0.01)


def test_early_stopping_goes_by_the_right_metric(device):
    fit = {"eval_set": [(NUMBERS[4_000:], LOANS.y[4_000:])]}
    told = NUMBERS[:4_000], LOANS.y[:4_000], SEX[:4_000]
    stop = {"early_stopping_rounds": 3, "n_estimators": 60, "learning_rate": 0.5}
    ours, theirs = (
        fitted(engine_on(name, **stop), *told, fit=fit, holdout=0.3) for name in (None, "cuda")
    )
    first = [m.estimator_.evals_result_["validation_0"]["logloss"][0] for m in (ours, theirs)]
    assert first[0] == pytest.approx(first[1], rel=1e-3)
    assert theirs.estimator_.evals_result_["validation_0"]["logloss"][-1] < 0.69


@pytest.mark.filterwarnings("ignore:The stage costs much")
@pytest.mark.filterwarnings("ignore:.*No visible GPU", "ignore:.*Device is changed from GPU")
def test_a_stage_on_a_frozen_model(device):
    base = engine_on(device.name).fit(NUMBERS, LOANS.y)
    base.set_params(device="cuda", verbosity=0)
    told = {"constraint": "demographic_parity", "holdout": 0.3}
    model = fitted(FrozenEstimator(base), **told)
    assert model.booster_.num_boosted_rounds() > 25
    old, new = base.predict_proba(NUMBERS)[:, 1], model.predict_proba(NUMBERS)[:, 1]
    gaps = [np.ptp(pd.Series(p >= 0.5).groupby(SEX.to_numpy()).mean()) for p in (old, new)]
    assert gaps[1] < gaps[0]


def test_a_curve(device):
    told = {"sensitive_features": SEX, "constraint": "demographic_parity", "tolerances": 4}
    ours, theirs = (
        tradeoff_curve(engine_on(name), NUMBERS, LOANS.y, random_state=0, **told)
        for name in (None, "cuda")
    )
    columns = ["tolerance", "accuracy"]
    np.testing.assert_allclose(ours.table[columns], theirs.table[columns], atol=0.02)


def test_files_are_read_where_there_is_no_gpu(device, tmp_path, monkeypatch):
    model = fitted(engine_on(), holdout=0.3)
    model.save(tmp_path / "model.json")
    expected = model.predict_proba(NUMBERS)
    for where in (module, engine):
        monkeypatch.setattr(where, "at_hand", lambda ordinal: None)
    again = load(tmp_path / "model.json")
    np.testing.assert_allclose(again.predict_proba(NUMBERS), expected, atol=1e-6)


@pytest.mark.parametrize(
    ("constraint", "named"),
    [
        ("calibrated", "mean probability"),
        (minimax("loss"), "mean log loss"),
        (["equal_opportunity", bound("error", 0.3)], "error rate"),
    ],
)
def test_what_reads_more_than_decisions_is_refused_also_without_a_gpu(constraint, named):
    model = FairGBMClassifier(engine_on("cuda:1"), constraint=constraint)
    with pytest.raises(ConstraintError, match=f"the {named} of groups.*device='cuda:1'"):
        model.fit(NUMBERS, LOANS.y, sensitive_features=SEX)


@needs_compiler
def test_minimax_of_decisions_is_trained(fake):
    point = at_positive_rate(0.3)
    ours, theirs = (
        fitted(engine_on(name), constraint=minimax("fnr"), tolerance=None, operating_point=point)
        for name in (None, "cuda")
    )
    pd.testing.assert_frame_equal(ours.trace_[:2], theirs.trace_[:2], rtol=1e-3, atol=1e-3)


@needs_compiler
def test_several_classes_are_refused(fake):
    with pytest.raises(EngineOptionError, match="three classes or more are trained on the CPU"):
        fitted(engine_on(), y=np.arange(len(LOANS.y)) % 3, constraint="demographic_parity")


def test_numbers_are_refused():
    model = FairGBMRegressor(XGBRegressor(device="cuda"), constraint="equal_means")
    with pytest.raises(EngineOptionError, match="numbers are predicted on the CPU only"):
        model.fit(NUMBERS, NUMBERS.iloc[:, 0], sensitive_features=SEX)


class OnGPU:
    """A table in the memory of a GPU, as far as one can tell from outside."""

    __cuda_array_interface__ = None
    dtype, shape, ndim = np.dtype(np.float32), NUMBERS.shape, 2

    def __len__(self):
        return self.shape[0]

    def get(self):
        return NUMBERS.to_numpy(np.float32)


def test_a_table_on_a_gpu_is_not_for_the_cpu():
    for estimator in (engine_on(None), LGBMClassifier(verbose=-1)):
        with pytest.raises(InvalidInputError, match="X is in the memory of a GPU"):
            fitted(estimator, OnGPU())
    model = fitted(engine_on(None), NUMBERS.to_numpy())
    with pytest.raises(InvalidInputError, match="the model is on the CPU"):
        model.predict(OnGPU())
    assert on_host(OnGPU()).shape == NUMBERS.shape


@pytest.mark.parametrize(
    ("config", "has_pool", "told"),
    [
        ({"use_cuda_async_pool": False, "use_rmm": False}, True, {"use_cuda_async_pool": True}),
        ({"use_cuda_async_pool": False, "use_rmm": True}, True, {}),
        ({"use_cuda_async_pool": True, "use_rmm": False}, False, {}),
        ({"use_rmm": False}, True, {}),  # before 3.2
    ],
)
def test_memory_comes_from_the_pool_unless_the_user_has_another(
    monkeypatch, config, has_pool, told
):
    monkeypatch.setattr(xgboost, "get_config", lambda: config)
    assert module.pooled(SimpleNamespace(has_pool=has_pool)) == told
    assert module.pooled(None) == {}


@pytest.mark.parametrize("name", ["cuda", "cuda:0", "gpu:3"])
def test_names_of_devices(name):
    assert module.ordinal_of(name) == (int(name[-1]) if ":" in name else 0)


def test_a_machine_without_a_gpu_gets_one_clear_line():
    if BOTH[1].values[0]() is not None:
        pytest.skip("there is a GPU")
    module.open_device.cache_clear()
    with pytest.raises(EngineOptionError, match=r"a GPU as device= needs .*leave device out"):
        fitted(engine_on())


@pytest.mark.parametrize(
    ("falls", "dtype", "order", "missing", "trees"),
    covering([True, False], [np.float32, np.float64], ["C", "F"], [np.nan, -1.0], [1, 2]),
)
def test_scores_are_kept_as_xgboost_predicts_them(
    device, monkeypatch, falls, dtype, order, missing, trees
):
    monkeypatch.setattr(module, "FALL_FROM", 0 if falls else 10**9)
    monkeypatch.setattr(module, "ROWS_PER_TREE", 0)
    values = NUMBERS.to_numpy(dtype)
    values[::5, 1], values[::7, 2] = missing, np.nan
    matrix = xgboost.QuantileDMatrix(values, LOANS.y, missing=missing)
    told = {"objective": "binary:logistic", "base_score": 0.5, "device": device.name}
    told |= {"max_depth": 4, "nthread": 1, "num_parallel_tree": trees, "subsample": 0.5}
    booster = xgboost.Booster(told, [matrix])
    even = np.arange(0, len(values), 2)
    parts = even, even + 1
    table = device.put(np.asarray(values, order=order))
    scores = module.TableScores(device, table, missing, 0.25, parts, trees)
    assert scores._falls(booster, -1) == falls
    parts = [module.DeviceRows(scores, part) for part in range(2)]
    for k in range(6):
        booster.update(matrix, k)
        rows = xgboost.DMatrix(values, missing=missing)
        predicted = booster.predict(rows, output_margin=True)
        for part, which in zip(parts, (even, even + 1), strict=True):
            found = device.get(part.scores(booster))
            np.testing.assert_allclose(found, predicted[which] + 0.25, atol=2e-6)
    in_parts = np.concatenate([predicted[even], predicted[even + 1]]) + 0.25
    on = scores.going_on()
    np.testing.assert_allclose(device.get(on.start), in_parts, atol=2e-6)
    np.testing.assert_array_equal(device.get(on.latest), device.get(on.start))
    booster.update(matrix, 6)
    scores.update(booster)  # which leaves the other one as it was
    np.testing.assert_allclose(device.get(on.start), in_parts, atol=2e-6)
    given = module.TableScores(device, table, missing, predicted, [even + 1, even])
    np.testing.assert_array_equal(device.get(given.parts[1]), predicted[even])


@pytest.mark.parametrize(
    ("rows", "rounds", "trees", "falls"),
    [(20_000_000, 1, 1, True), (19_999_999, 1, 1, False), (50_000_000, 500, 1, True),
     (50_000_000, 501, 1, False), (50_000_000, 251, 2, False)],
)  # fmt: skip
def test_who_sends_rows_down_the_newest_tree(rows, rounds, trees, falls):
    """Many rows are sent down here, as long as reading the tree takes less time than is won."""
    scores = object.__new__(module.TableScores)
    scores.table, scores.per_round = range(rows), trees
    grown = SimpleNamespace(num_boosted_rounds=lambda: rounds)
    assert scores._falls(grown, rounds - 1) == falls
    assert not scores._falls(grown, rounds - 2)  # only the last tree can be read


@pytest.mark.parametrize("way", ["share", "cross", "point", "training rows"])
def test_the_model_is_the_same_whoever_sends_rows_down_trees(device, monkeypatch, way):
    theirs = fitted(engine_on(), **WAYS[way])
    monkeypatch.setattr(module, "FALL_FROM", 0)
    monkeypatch.setattr(module, "ROWS_PER_TREE", 0)
    ours = fitted(engine_on(), **WAYS[way])
    assert ours.booster_.save_raw("json") == theirs.booster_.save_raw("json")
    pd.testing.assert_frame_equal(ours.trace_, theirs.trace_)


def test_a_number_of_trees_as_text(device):
    told = {"num_parallel_tree": "2"}  # as XGBoost takes it
    ours, theirs = (fitted(engine_on(name, **told), holdout=0.3) for name in (None, "cuda"))
    difference = ours.predict_proba(NUMBERS) - theirs.predict_proba(NUMBERS)
    assert np.abs(difference).mean() < 0.02


@pytest.mark.parametrize("missing", [np.nan, -np.inf])
def test_infinity_is_refused_in_any_row(device, missing):
    """XGBoost looks at the rows that it bins, and a row may be held out."""
    for row in (0, 7, 11):
        values = NUMBERS.to_numpy(np.float32).copy()
        values[row, 1] = np.inf
        with pytest.raises(InvalidInputError, match="X has infinity"):
            fitted(engine_on(missing=missing), values, holdout=0.3)
    values[:, 1] = np.where(np.isinf(values[:, 1]), 0, values[:, 1])
    held_out = values[:500].copy(), LOANS.y[:500], SEX[:500]
    held_out[0][3, 0] = np.inf
    with pytest.raises(InvalidInputError, match="X has infinity"):
        fitted(engine_on(missing=missing), values, fit={"holdout_set": held_out})


def test_a_value_that_stands_for_a_missing_one_may_be_infinite(device):
    values = NUMBERS.to_numpy(np.float32).copy()
    values[::9, 1] = -np.inf
    fitted(engine_on(missing=-np.inf), values, holdout=0.3)


def loans_on_the_gpu():
    cupy = pytest.importorskip("cupy")
    X, y = cupy.asarray(NUMBERS.to_numpy(np.float32)), cupy.asarray(LOANS.y)
    return cupy, X, y, cupy.asarray((SEX == "male").to_numpy())


@pytest.mark.gpu
@needs_gpu
@pytest.mark.parametrize("way", ["share", "cross", "point", "memberships"])
def test_arrays_of_the_gpu(way):
    cupy, X, y, sex = loans_on_the_gpu()
    model = fitted(engine_on(), X, y, sex, **WAYS[way])
    proba = model.predict_proba(X)
    assert isinstance(proba, cupy.ndarray) and isinstance(model.predict(X), np.ndarray)
    # The same model, and the same rows on the host.
    np.testing.assert_allclose(proba.get(), model.predict_proba(X.get()), atol=1e-6)
    assert isinstance(model.decision_function(X), cupy.ndarray)
    assert (model.predict(X) == model.predict(X.get())).all()
    assert model.score(X, y) == pytest.approx(model.score(X.get(), y.get()))
    said = model.report_on(X, y, sensitive_features=sex)
    assert str(said) == str(model.report_on(X.get(), y.get(), sensitive_features=sex.get()))
    stock = model.estimator_.predict_proba(X)
    np.testing.assert_allclose(cupy.asnumpy(stock), proba.get(), atol=1e-6)


@pytest.mark.gpu
@needs_gpu
def test_a_stage_on_a_frozen_model_of_arrays_of_the_gpu():
    cupy, X, y, sex = loans_on_the_gpu()
    base = engine_on().fit(X, y)
    model = fitted(FrozenEstimator(base), X, y, sex, holdout=0.3)
    assert model.booster_.num_boosted_rounds() > 25
    first = model.booster_.predict(xgboost.DMatrix(X), iteration_range=(0, 25), output_margin=True)
    theirs = base.predict(X, output_margin=True)
    np.testing.assert_allclose(first, cupy.asnumpy(theirs), atol=1e-5)
    here = model.predict_proba(X.get())
    np.testing.assert_allclose(model.predict_proba(X).get(), here, atol=1e-6)


@pytest.mark.gpu
@needs_gpu
def test_sets_that_are_evaluated_beside_arrays_of_the_gpu():
    _, X, y, sex = loans_on_the_gpu()
    told = {"eval_set": [(X[4_000:], y[4_000:])]}
    model = fitted(engine_on(), X[:4_000], y[:4_000], sex[:4_000], told, holdout=0.3)
    losses = model.estimator_.evals_result()["validation_0"]["logloss"]
    proba = model.estimator_.predict_proba(X[4_000:].get())[:, 1]
    right = np.where(y[4_000:].get() == 1, proba, 1 - proba)
    last = losses[model.best_iteration_ - 1]
    assert last == pytest.approx(-np.log(right).mean(), abs=1e-4)


def test_many_rows_are_drawn_on_the_gpu(device):
    codes = np.random.default_rng(0).integers(0, 6, 100_000).astype(np.uint8)
    shares = Shares(0.2, 0.05, np.array([True, False] * 3), "")
    told = device, shares, codes
    first, again = (device.get(hold_out(*told, np.random.default_rng(7))) for _ in range(2))
    np.testing.assert_array_equal(first, again)
    here = shares.mark(codes, np.random.default_rng(7))
    counts, expected = (np.bincount(codes[held], minlength=6) for held in (first, here))
    np.testing.assert_array_equal(counts[1::2], expected[1::2])
    assert counts[::2].sum() == expected[::2].sum() and np.ptp(counts[::2]) < 60
    # Every row is as likely as any other: halves of the rows have equal shares.
    assert abs(first[:50_000].mean() - first[50_000:].mean()) < 0.01


WEIGHT = np.random.default_rng(1).random(len(LOANS.y)).astype(np.float32)


@pytest.mark.parametrize("way", [*WAYS, "weights"])
def test_many_rows_are_sorted_on_the_gpu(device, monkeypatch, way):
    told = {"fit": {"sample_weight": WEIGHT}, "holdout": 0.3} if way == "weights" else WAYS[way]
    monkeypatch.setattr(rows, "MANY_ROWS", 1_000)
    there = fitted(engine_on(), **told)
    monkeypatch.setattr(rows, "_sorted_on", lambda *_: None)
    here = fitted(engine_on(), **told)  # drawn on the GPU, and sorted on the host
    pd.testing.assert_frame_equal(there.trace_, here.trace_, rtol=1e-9)
    np.testing.assert_allclose(there.predict_proba(NUMBERS), here.predict_proba(NUMBERS), 1e-5)
    assert str(there.fairness_report_) == str(here.fairness_report_)
    assert b"cupy" not in pickle.dumps(there)  # nothing of the GPU stays with the model


def test_counts_are_those_of_the_host_and_the_same_in_every_run(device):
    codes = np.random.default_rng(0).integers(0, 7, len(WEIGHT)).astype(np.uint8)
    there, weight = device.put(codes), device.put(WEIGHT)
    np.testing.assert_array_equal(count_by(there, 9), np.bincount(codes, minlength=9))
    first, again = (count_by(there, 9, weight) for _ in range(2))
    np.testing.assert_array_equal(first, again)
    np.testing.assert_allclose(first, np.bincount(codes, WEIGHT, 9), rtol=1e-12)


def test_tables_on_disk(device, tmp_path):
    NUMBERS.assign(y=LOANS.y, sex=SEX.to_numpy()).to_parquet(tmp_path / "loans.parquet")
    table = ParquetRows(tmp_path / "loans.parquet", leave_out=["y", "sex"])
    told = table.column("y"), table.column("sex")
    # XGBoost bins rows on the GPU here, as it does arrays of the GPU.
    tables = table, device.put(NUMBERS.to_numpy(np.float32))
    ours, theirs = (fitted(engine_on(), X, *told, holdout=0.3) for X in tables)
    difference = ours.predict_proba(NUMBERS) - theirs.predict_proba(NUMBERS.to_numpy())
    assert np.abs(difference).mean() < 0.02


class Column:
    """A series of cuDF, as far as fairboost looks at it."""

    def __init__(self, column):
        self.column, self.dtype, self.name = column, column.dtype, column.name
        self.has_nulls = bool(column.isna().any())

    def __len__(self):
        return len(self.column)

    @property
    def __cuda_array_interface__(self):
        raise TypeError("a column of categories has none")

    def to_cupy(self):
        assert not self.has_nulls and self.dtype.kind in "fiub"
        return self.column.to_numpy()

    def to_pandas(self):
        return self.column


class Frame:
    """A data frame of cuDF, as far as fairboost looks at it."""

    def __init__(self, table):
        self.table, self.columns, self.dtypes = table, table.columns, table.dtypes
        self.shape = table.shape

    def __len__(self):
        return len(self.table)

    def __getitem__(self, name):
        return Column(self.table[name])

    def to_cupy(self, dtype, na_value):
        return self.table.to_numpy(dtype, na_value=na_value)

    def to_pandas(self):
        return self.table


@needs_compiler
def test_frames_of_cudf(fake):
    model = fitted(engine_on(), Frame(NUMBERS), holdout=0.3)
    again = fitted(engine_on(), NUMBERS, holdout=0.3)
    assert list(model.feature_names_in_) == list(NUMBERS.columns)
    np.testing.assert_allclose(
        model.predict_proba(Frame(NUMBERS)), again.predict_proba(NUMBERS), atol=1e-6
    )
    assert model.booster_.feature_names == list(NUMBERS.columns)
    with pytest.raises(InvalidInputError, match=r"X is in the memory of a GPU \(Frame\)"):
        fitted(engine_on(None), Frame(NUMBERS))


@needs_compiler
@pytest.mark.parametrize("missing", [False, True])
def test_columns_of_cudf(fake, missing):
    X, y, sex = NUMBERS.to_numpy(), pd.Series(LOANS.y), SEX.reset_index(drop=True)
    weight = pd.Series(WEIGHT)
    if missing:
        sex = sex.astype(object).mask(np.arange(len(sex)) % 9 == 0)
    told = {"holdout": 0.3, "fit": {"sample_weight": weight}}
    there = {"holdout": 0.3, "fit": {"sample_weight": Column(weight)}}
    ours = fitted(engine_on(), X, y, sex, **told)
    for groups in (Column(sex), {"sex": Column(sex)}, Frame(sex.to_frame())):
        theirs = fitted(engine_on(), X, Column(y), groups, **there)
        pd.testing.assert_frame_equal(ours.trace_, theirs.trace_)
        assert theirs.score(X, Column(y)) == ours.score(X, y)


@pytest.mark.gpu
@needs_gpu
@pytest.mark.parametrize("way", ["share", "cross"])
@pytest.mark.parametrize("numbers", [True, False])
def test_tables_of_cudf_itself(way, numbers):
    cupy, cudf = pytest.importorskip("cupy"), pytest.importorskip("cudf")
    told = {"constraint": "demographic_parity", **WAYS[way]}
    every, n = np.arange(len(NUMBERS)), 2_000
    # Numbers with gaps, texts with gaps as groups, and categories.
    table = LOANS.X.assign(gaps=NUMBERS.iloc[:, 0].mask(every % 7 == 0))
    table = table.select_dtypes("number") if numbers else table
    sex = SEX.astype(object).mask(every % 9 == 0).reset_index(drop=True)
    engine = engine_on(enable_categorical=not numbers)
    # XGBoost bins numbers where they are, on the host by another algorithm than on a GPU.
    same = cupy.asarray(table.to_numpy(np.float32)) if numbers else table
    here = fitted(engine, same, LOANS.y, sex, **told)
    frame, y, groups = cudf.DataFrame(table), cudf.Series(LOANS.y), cudf.Series(sex)
    there = fitted(engine, frame, y, groups, **told)
    found, expected = (on_host(m.predict_proba(X)) for m, X in ((there, frame), (here, same)))
    np.testing.assert_allclose(found, expected, atol=1e-5)
    assert there.score(frame, y) == pytest.approx(here.score(same, LOANS.y), abs=1e-9)
    assert there.fairness_report_.columns == here.fairness_report_.columns
    codes = cudf.DataFrame({"sex": (SEX == "male").to_numpy(), "other": every % 2})
    fitted(engine, frame, y, codes, **told)
    if way == "share":
        fit = {"holdout_set": (frame[:n], y[:n], groups[:n])}
        fitted(engine, frame[n:], y[n:], groups[n:], fit=fit, constraint="demographic_parity")
