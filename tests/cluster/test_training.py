"""Training on a cluster of separate processes."""

from __future__ import annotations

import pickle

import dask
import dask.array as da
import dask.dataframe as dd
import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.frozen import FrozenEstimator
from xgboost import XGBClassifier
from xgboost.collective import Config
from xgboost.dask import DaskXGBClassifier

import fairboost
from fairboost import FairGBMClassifier, at_fpr, parity
from fairboost.engines.xgboost.categories import keeps_texts
from fairboost.exceptions import (
    ConstraintError,
    EngineOptionError,
    FairnessWarning,
    InvalidInputError,
)
from fairboost.report import gather, write_report
from tests.cluster.dealing import deal, parts, split, without_scores

FEATURES = ["a", "b", "c", "d"]
ENGINE = {"n_estimators": 12, "max_depth": 3, "learning_rate": 0.3}
OPTIONS = {"constraint": "equal_opportunity", "tolerance": 0.02, "memberships": "observed"}


def table(n=3_000, seed=0):
    """Few values of a feature: bins are the same however rows are spread."""
    rng = np.random.default_rng(seed)
    frame = pd.DataFrame(rng.integers(0, 40, (n, 4)), columns=FEATURES).astype("float32")
    frame["sex"] = rng.choice(["f", "m"], n, p=[0.4, 0.6])
    odds = frame["a"] / 20 - frame["b"] / 40 + np.where(frame["sex"] == "f", -1.0, 0.3)
    frame["y"] = (rng.random(n) < 1 / (1 + np.exp(-odds))).astype(int)
    frame["weight"] = rng.uniform(0.5, 2.0, n)
    return frame


def model(engine=ENGINE, **options):
    return FairGBMClassifier(DaskXGBClassifier(**engine), **{**OPTIONS, **options})


def alone(engine=ENGINE, **options):
    return FairGBMClassifier(XGBClassifier(**engine, n_jobs=1), **{**OPTIONS, **options})


def fit(model, rows, weighted=False, sensitive="sex"):
    weight = rows["weight"] if weighted else None
    return model.fit(
        rows[FEATURES], rows["y"], sensitive_features=rows[sensitive], sample_weight=weight
    )


def assert_same(one, other, X, atol=1e-6):
    np.testing.assert_allclose(one.predict_proba(X), other.predict_proba(X), rtol=0, atol=atol)
    pd.testing.assert_frame_equal(one.trace_, other.trace_, rtol=0, atol=1e-6)
    assert one.best_iteration_ == other.best_iteration_
    assert one.threshold_ == pytest.approx(other.threshold_, abs=1e-6)


# The same model as on one machine


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"operating_point": at_fpr(0.2), "constraint": "predictive_equality"},
        {"multipliers": "paper"},
        {"constraint": "four_fifths", "tolerance": None},
        {"constraint": fairboost.at_least("tpr", 0.8), "tolerance": None},
        {"constraint": None, "iterate": "last"},
        {
            "constraint": [parity("fnr", 0.05), fairboost.bound("fpr", 0.3)],
            "tolerance": None,
            "confidence": 0.8,
        },
    ],
    ids=["default", "operating point", "paper", "ratio", "floor", "plain", "several"],
)
def test_the_same_model_as_in_one_process(client, options):
    rows = table()
    options = {"holdout": None, **options}
    engine = {**ENGINE, "scale_pos_weight": 1.5} if options.get("multipliers") else ENGINE
    ours = fit(model(engine, **options), deal(client, rows, 5), weighted=True)
    theirs = fit(alone(engine, **options), rows, weighted=True)
    assert_same(ours, theirs, rows[FEATURES])
    assert len(ours.cluster_.rows) == 3
    assert sum(ours.cluster_.rows.values()) == len(rows)
    pd.testing.assert_series_equal(ours.multipliers_, theirs.multipliers_, rtol=0, atol=1e-6)


def test_held_out_rows_do_not_depend_on_the_workers(client):
    """Drawn by partition: one worker with all partitions gets the same model as three."""
    rows = table()
    frames = [rows.iloc[k] for k in np.array_split(np.arange(len(rows)), [700, 900, 2_000])]
    on_three, on_one = (fit(model(), parts(client, frames, k)) for k in (3, 1))
    assert len(on_three.cluster_.rows) == 3
    assert len(on_one.cluster_.rows) == 1
    assert_same(on_three, on_one, rows[FEATURES])
    held_out = on_one.fairness_report_.rates["rows"].sum()
    assert held_out == pytest.approx(0.2 * rows["y"].sum(), abs=1)
    assert "drawn in each partition" in on_one.fairness_report_.note


@pytest.mark.parametrize("least", [0, 150], ids=["all", "some have enough rows"])
@pytest.mark.parametrize("sizes", [[700, 900, 2_000], [2_999, 2_999]], ids=["some", "one row"])
def test_scores_by_trees_are_those_of_xgboost(client, sizes, least):
    """On workers too, one of which may hold no row that is held out.

    They make matrices together: it would hang if each decided by its own rows.
    """
    rows = table()
    frames = [rows.iloc[k] for k in np.array_split(np.arange(len(rows)), sizes)]
    frames = [frame for frame in frames if len(frame)]
    usual = fit(model(), parts(client, frames))
    before = client.run(_rows_per_thread, least)
    try:
        by_trees = fit(model(), parts(client, frames))
    finally:
        client.run(_rows_per_thread, next(iter(before.values())))
    assert_same(by_trees, usual, rows[FEATURES], atol=0)


def test_one_worker_that_cannot_send_rows_down_trees_keeps_all_from_it(client):
    """As if an infinite number were among its rows."""
    rows = table()
    usual = fit(model(), deal(client, rows))
    before = client.run(_rows_per_thread, 0)
    one = [sorted(client.nthreads())[1]]
    client.run(_reads_numbers, False, workers=one)
    try:
        mixed = fit(model(), deal(client, rows))
    finally:
        client.run(_rows_per_thread, next(iter(before.values())))
        client.run(_reads_numbers, True, workers=one)
    assert_same(mixed, usual, rows[FEATURES], atol=0)


def _reads_numbers(well):
    """Run on a worker: let it take no table for one of numbers, or be as it was."""
    from fairboost.engines.xgboost import data as xgboost_data

    usual = xgboost_data.__dict__.setdefault("_usual", xgboost_data._has_numbers)
    xgboost_data._has_numbers = usual if well else lambda X: False


def _rows_per_thread(least):
    """Run on workers: from how many rows on trees are read; what it was before."""
    from fairboost.engines.xgboost import data as xgboost_data

    before, xgboost_data.ROWS_PER_THREAD = xgboost_data.ROWS_PER_THREAD, least
    return before


def test_another_seed_holds_out_other_rows(client):
    rows = deal(client, table())
    first, again, other = (fit(model(random_state=s), rows) for s in (0, 0, 1))
    assert first.trace_.equals(again.trace_)
    assert not first.trace_.equals(other.trace_)


# A set of one's own to hold out


def with_set(model, rows, held_out, weighted=False):
    columns = ["y", "sex", *["weight"] * weighted]
    return model.fit(
        rows[FEATURES],
        rows["y"],
        sensitive_features=rows["sex"],
        sample_weight=rows["weight"] if weighted else None,
        holdout_set=(held_out[FEATURES], *(held_out[name] for name in columns)),
    )


@pytest.mark.parametrize(
    "options",
    [{}, {"operating_point": at_fpr(0.2), "constraint": "predictive_equality"}],
    ids=["default", "operating point"],
)
def test_a_set_to_hold_out_as_in_one_process(client, options):
    rows, held_out = table(), table(900, seed=1)
    # On two of the workers, so that the third has none of its rows.
    lazy = deal(client, rows), deal(client, held_out, 2, workers=2)
    ours = with_set(model(**options), *lazy, weighted=True)
    theirs = with_set(alone(**options), rows, held_out, weighted=True)
    assert_same(ours, theirs, rows[FEATURES])
    assert ours.fairness_report_.note == theirs.fairness_report_.note
    assert "the given set of 900 rows" in ours.fairness_report_.note
    assert str(ours.fairness_report_) == str(theirs.fairness_report_)


def test_a_set_and_a_share_do_not_depend_on_the_workers(client):
    rows, held_out = table(), table(900, seed=1)
    options = {"holdout": 0.2, "operating_point": at_fpr(0.2), "constraint": "predictive_equality"}
    one, three = (
        with_set(
            model(**options), deal(client, rows, workers=k), deal(client, held_out, workers=k)
        )
        for k in (1, 3)
    )
    assert_same(one, three, rows[FEATURES])
    assert str(one.fairness_report_) == str(three.fairness_report_)
    negative = int((rows["y"] == 0).sum() * 0.2) + int((held_out["y"] == 0).sum())
    assert one.fairness_report_.rates["rows"].sum() == pytest.approx(negative, abs=2)


def test_a_set_that_does_not_belong_to_the_rows(client):
    rows, held_out = deal(client, table(600)), table(300, seed=1)
    with pytest.raises(InvalidInputError, match="X of holdout_set must be a DataFrame of Dask"):
        with_set(model(), rows, held_out)
    lazy = deal(client, held_out, 2)
    with pytest.raises(InvalidInputError, match="holdout_set has 3 features, expected the 4"):
        model().fit(
            rows[FEATURES],
            rows["y"],
            sensitive_features=rows["sex"],
            holdout_set=(lazy[FEATURES[:3]], lazy["y"], lazy["sex"]),
        )
    with pytest.raises(
        InvalidInputError, match="holdout_set: partition 0 of 2: y has the label 7"
    ):
        with_set(model(), rows, deal(client, held_out.assign(y=7), 2))
    with pytest.warns(FairnessWarning, match="groups of 'sex' that training never saw: 'x'"):
        some = held_out.assign(sex=held_out["sex"].where(held_out["a"] > 4, "x"))
        with_set(model(), rows, deal(client, some, 2))


# Awkward shares


def test_a_group_on_one_worker_alone_and_partitions_of_all_sizes(client):
    """Sorted by group, with an empty partition and one of three rows."""
    rows = table().sort_values("sex", kind="stable").reset_index(drop=True)
    cuts = [0, 0, 3, 600, len(rows)]
    frames = [rows.iloc[a:b] for a, b in zip(cuts, [*cuts[1:], len(rows)], strict=True)]
    assert {len(f) for f in frames} >= {0, 3}
    ours = fit(model(holdout=None), parts(client, frames), weighted=True)
    assert_same(ours, fit(alone(holdout=None), rows, weighted=True), rows[FEATURES])
    held_out = fit(model(), parts(client, frames), weighted=True)
    assert held_out.fairness_report_.rates["group"].tolist() == ["sex=f", "sex=m"]


def test_a_worker_that_holds_out_all_of_its_rows(client):
    """One row of a cell is enough to be held out; then that worker has none to train on."""
    rows = table(900)
    frames = [rows.iloc[:1], rows.iloc[1:]]
    found = [
        fit(model(random_state=seed, holdout=0.6), parts(client, frames)) for seed in range(3)
    ]
    for fitted in found:
        assert sorted(fitted.cluster_.rows.values()) == [1, 899]
        assert len(fitted.trace_) == ENGINE["n_estimators"]


@pytest.mark.parametrize(
    "options",
    [{}, {"constraint": parity("ppr", 0.02, by="sex", given="age"), "tolerance": None}],
    ids=["side by side", "given"],
)
def test_groups_missing_and_of_several_columns(client, options):
    rows = table()
    rng = np.random.default_rng(1)
    rows["sex"] = rows["sex"].where(rng.random(len(rows)) > 0.1)
    rows["age"] = rng.choice([20, 40, 60], len(rows))
    sensitive = ["sex", "age"]
    ours = fit(model(holdout=None, **options), deal(client, rows), sensitive=sensitive)
    theirs = fit(alone(holdout=None, **options), rows, sensitive=sensitive)
    assert_same(ours, theirs, rows[FEATURES])


@pytest.mark.parametrize("point", [0.5, at_fpr(0.2)], ids=["fixed", "operating point"])
def test_groups_compared_given_a_column(client, point):
    """By a share that is held out of partitions that have one stratum, or both; and a report."""
    rows, test = table(), table(2_000, seed=1)
    for frame in (rows, test):
        frame["age"] = np.random.default_rng(len(frame)).choice([20, 40], len(frame))
    rows, both = rows.sort_values("age", kind="stable").reset_index(drop=True), ["sex", "age"]
    asked = {
        "constraint": parity("fpr", 0.02, by="sex", given="age"), "tolerance": None,
        "operating_point": point,
    }  # fmt: skip
    three, one = (
        fit(model(**asked), deal(client, rows, workers=k), sensitive=both) for k in (3, 1)
    )
    assert_same(three, one, rows[FEATURES])
    assert len(three.multipliers_) == 8

    def report(test):
        return three.report_on(test[FEATURES], test["y"], sensitive_features=test[both])

    lazy, here = report(deal(client, test)), report(test)
    pd.testing.assert_frame_equal(lazy.rates, here.rates, rtol=1e-9)
    assert str(lazy) == str(without_scores(here))
    with pytest.raises(ConstraintError, match="names the column 'age', which is not among"):
        fit(model(**asked), deal(client, rows), sensitive=["sex"])


def test_a_group_of_which_no_row_is_held_out_is_not_compared_there(client):
    """As on one machine: of the only woman of 60 no row is left for both ends."""
    rows = table()
    rows["age"] = np.random.default_rng(1).choice([20, 40, 60], len(rows))
    only = (rows["sex"] == "f") & (rows["age"] == 60)
    rows = rows[~only | (only.cumsum() == 1)]
    asked = {"constraint": parity("ppr", 0.05, by="sex", given="age"), "tolerance": None}
    ours = fit(model(holdout=0.3, **asked), deal(client, rows), sensitive=["sex", "age"])
    assert len(ours.multipliers_) == 8
    assert "sex=m, age=60" in " ".join(ours.fairness_report_.advice)


def test_arrays_of_unknown_chunks(client):
    rows = table().assign(sex=lambda t: (t["sex"] == "f").astype(int))
    lazy = dd.from_pandas(rows, npartitions=4)
    X, y = lazy[FEATURES].to_dask_array(), lazy["y"].to_dask_array()
    sensitive = lazy["sex"].to_dask_array()
    ours = model(holdout=None).fit(X, y, sensitive_features=sensitive)
    theirs = alone(holdout=None).fit(
        rows[FEATURES].to_numpy(), rows["y"], sensitive_features=rows["sex"].to_numpy()
    )
    assert_same(ours, theirs, rows[FEATURES].to_numpy())


def test_labels_of_any_type_and_categories(client):
    rows = table()
    rows["d"] = pd.Categorical(np.where(rows["d"] > 20, "high", "low"))
    rows["y"] = np.where(rows["y"] == 1, "yes", "no")
    engine = {**ENGINE, "enable_categorical": True}
    ours = fit(model(engine, holdout=None), deal(client, rows))
    assert_same(ours, fit(alone(engine, holdout=None), rows), rows[FEATURES])
    assert set(ours.predict(rows[FEATURES])) == {"yes", "no"}


def test_columns_that_xgboost_does_not_read(client):
    rows = table()
    rows["d"] = pd.Categorical(np.where(rows["d"] > 20, "élevé", "low"))
    with pytest.raises(InvalidInputError, match="column 'd' of X is categorical, which XGBoost"):
        fit(model({**ENGINE, "enable_categorical": False}, holdout=None), deal(client, rows))
    engine = {**ENGINE, "enable_categorical": True}
    if keeps_texts():
        ours = fit(model(engine, holdout=0.3), deal(client, rows))
        assert ours.score(rows[FEATURES], rows["y"]) > 0.6
        return
    with pytest.raises(InvalidInputError, match="has the category 'élevé', and XGBoost"):
        fit(model(engine, holdout=None), deal(client, rows))


def test_small_files(client, tmp_path):
    """Dask would join small files where few columns are read: labels, but not features."""
    rows = table()
    for k, frame in enumerate(split(rows, 8)):
        frame.to_parquet(tmp_path / f"{k}.parquet", index=False)
    lazy = dd.read_parquet(tmp_path)
    ours = fit(model(holdout=None), lazy)
    assert ours.cluster_.partitions == 8
    proba = ours.predict_proba(lazy[FEATURES])
    assert proba.npartitions == 8
    assert proba.blocks[0].compute().shape == (375, 2)
    assert_same(ours, fit(alone(holdout=None), rows), rows[FEATURES])


# What travels


def test_bytes_per_round_do_not_depend_on_rows(client):
    for point, expected in ((0.5, 6 * 8), (at_fpr(0.2), (6 + 2_053) * 8)):
        sent = [
            fit(model(operating_point=point), deal(client, table(n))).cluster_.bytes_per_round
            for n in (600, 6_000)
        ]
        # Two losses, and the decisions in four cells; a threshold takes 8 x 256 and five more, and
        # a few in the first round, in which it would lie next to all scores.
        assert sent == [pytest.approx(expected, abs=8)] * 2 and min(sent) >= expected


def test_rows_stay_where_they_are(client):
    """On one worker of three; the others have nothing to do."""
    rows = deal(client, table(), workers=1)
    before = client.who_has(rows)
    fitted = fit(model(), rows)
    assert fitted.cluster_.rows == {min(client.nthreads()): 3_000}
    assert client.who_has(rows) == before


# The model


def test_the_model_needs_no_cluster(client, tmp_path):
    rows = table()
    config = Config(timeout=60, retry=3)
    fitted = fit(model({**ENGINE, "coll_cfg": config}), dd.from_pandas(rows, npartitions=3))
    X = rows[FEATURES]
    assert type(fitted.estimator_) is XGBClassifier
    fitted.save(tmp_path / "model.json")
    fitted.export(tmp_path / "stock.json")
    expected = fitted.predict_proba(X)
    for again in (fairboost.load(tmp_path / "model.json"), pickle.loads(pickle.dumps(fitted))):
        np.testing.assert_array_equal(again.predict_proba(X), expected)
    loaded = fairboost.load(tmp_path / "model.json")
    assert_same(fit(loaded.set_params(holdout=None), rows), fit(alone(holdout=None), rows), X)
    stock = XGBClassifier()
    stock.load_model(tmp_path / "stock.json")
    np.testing.assert_allclose(stock.predict_proba(X), expected, atol=1e-6)
    assert fitted.estimator_.get_params()["n_jobs"] is None


def test_prediction_is_lazy_and_by_partition(client):
    rows = table()
    lazy = dd.from_pandas(rows, npartitions=3)
    fitted = fit(model(), lazy)
    read = []

    def spy(part):
        read.append(len(part))
        return part

    X = lazy[FEATURES].map_partitions(spy, meta=lazy[FEATURES]._meta)
    for name in ("predict", "predict_proba", "decision_function"):
        result = getattr(fitted, name)(X)
        assert isinstance(result, da.Array)
        assert result.npartitions == 3
        assert not read
        with dask.config.set(scheduler="synchronous"):
            np.testing.assert_array_equal(result.compute(), getattr(fitted, name)(rows[FEATURES]))
        assert len(read) == 3
        read.clear()
    array, y, sex = (
        da.from_array(rows[columns].to_numpy(object if columns == "sex" else None), chunks=1_000)
        for columns in (FEATURES, "y", "sex")
    )
    array = array.rechunk((1_000, 3))
    fitted = model(holdout=None).fit(array, y, sensitive_features=sex)
    assert fitted.predict_proba(array).shape == (3_000, 2)
    np.testing.assert_array_equal(
        fitted.predict(array).compute(), fitted.predict(rows[FEATURES].to_numpy())
    )


def test_a_report_on_test_rows(client):
    rows, test = table(), table(2_000, seed=1)
    fitted = fit(model(), deal(client, rows))

    def report(test):
        X, y, sex, weight = test[FEATURES], test["y"], test["sex"], test["weight"]
        return fitted.report_on(X, y, sensitive_features=sex, sample_weight=weight)

    lazy, here = report(deal(client, test)), report(test)
    pd.testing.assert_frame_equal(lazy.rates, here.rates, rtol=1e-9)
    assert str(lazy) == str(without_scores(here))
    frames = split(test, 3)
    frames[1] = frames[1].assign(y=5)
    with pytest.raises(InvalidInputError, match="partition 1 of 3: y has the label 5, expected"):
        report(parts(client, frames))


def test_the_page_for_a_reviewer(client, tmp_path):
    """A model of a cluster and test rows in memory make a report, as any other model does."""
    fitted, rows = fit(model(), deal(client, table())), table(2_000, seed=1)
    evidence = gather(fitted, rows[FEATURES], rows["y"], sensitive_features=rows["sex"])
    write_report(evidence, tmp_path)
    refused = fitted.predict(rows[FEATURES]) == 0
    asked = ("test", "fnr", "sex")
    lines = [r for r in evidence.rates if (r.where, r.rate, r.attribute) == asked]
    assert {line.group for line in lines} == {"f", "m"}
    for line in lines:
        among = (rows["sex"] == line.group) & (rows["y"] == 1)
        assert line.value == pytest.approx(refused[among].mean())
    assert evidence.model.engine == "xgboost"
    assert "false negative rate" in (tmp_path / "report.md").read_text()


def test_any_model_predicts_lazily():
    rows = table()
    fitted = fairboost.FairGBMClassifier(constraint=None).set_params(estimator=None)
    fitted.fit(rows[FEATURES], rows["y"])
    lazy = dd.from_pandas(rows[FEATURES], npartitions=2)
    with dask.config.set(scheduler="synchronous"):
        np.testing.assert_array_equal(
            fitted.predict_proba(lazy).compute(), fitted.predict_proba(rows[FEATURES])
        )
        strict = fitted.predict(lazy, threshold=0.8).compute()
        np.testing.assert_array_equal(strict, fitted.predict(rows[FEATURES], threshold=0.8))
        assert not np.array_equal(strict, fitted.predict(rows[FEATURES]))
    with pytest.raises(ValueError, match="feature names should match"):
        fitted.predict(lazy[["b", "a", "c", "d"]])


def test_a_label_held_against_people_is_warned_of(client):
    lazy = dd.from_pandas(table(), npartitions=2)
    y, fair = lazy["y"].rename("default"), model(constraint="equal_opportunity", tolerance=0.3)
    with pytest.warns(FairnessWarning, match="positive label 1 of 'default' seems to be held"):
        fair.fit(lazy[FEATURES], y, sensitive_features=lazy["sex"])


def test_clone_and_progress(client, capfd):
    fitted = fit(clone(model(verbose=1)), dd.from_pandas(table(), npartitions=2))
    assert len(fitted.trace_) == ENGINE["n_estimators"]
    assert f"/{ENGINE['n_estimators']}" in capfd.readouterr().err


# What is wrong is said before training


def spoil(column, value, partition=2):
    frames = [f.copy() for f in split(table(), 4)]
    frames[partition][column] = frames[partition][column].astype(object)
    frames[partition].iloc[5, frames[partition].columns.get_loc(column)] = value
    frames[partition][column] = frames[partition][column].infer_objects()
    return frames


@pytest.mark.parametrize(
    ("column", "value", "message"),
    [
        ("y", np.nan, r"partition 2 of 4: y contains"),
        (
            "weight",
            -1.0,
            r"partition 2 of 4: sample_weight must not be negative, found -1.0 at row",
        ),
        ("weight", np.inf, r"partition 2 of 4: sample_weight must be finite"),
    ],
)
def test_a_bad_value_names_its_partition(client, column, value, message):
    rows = parts(client, spoil(column, value))
    with pytest.raises(InvalidInputError, match=message):
        fit(model(), rows, weighted=True)


def test_rows_that_do_not_belong_together(client):
    rows = dd.from_pandas(table(), npartitions=3)
    X, y, sex = rows[FEATURES], rows["y"], rows["sex"]
    with pytest.raises(InvalidInputError, match="y has 4 partitions, expected the 3 of X"):
        model().fit(X, y.repartition(npartitions=4), sensitive_features=sex)
    with pytest.raises(InvalidInputError, match="y must be a Dask collection"):
        model().fit(X, y.compute(), sensitive_features=sex)
    frames = split(table(), 3)
    shorter = [frames[0], frames[1].iloc[1:], frames[2]]
    with pytest.raises(InvalidInputError, match="partition 1 of 3: y has 999 rows, expected"):
        rows = parts(client, frames)
        model().fit(rows[FEATURES], parts(client, shorter)["y"], sensitive_features=rows["sex"])
    other = dd.from_pandas(table().iloc[::-1].reset_index(drop=True).iloc[500:], npartitions=3)
    with pytest.raises(InvalidInputError, match="is cut into partitions at other rows"):
        model().fit(X, other["y"], sensitive_features=sex)


def test_what_the_rows_cannot_be_held_to(client):
    rows = table()
    rows["id"] = np.arange(len(rows))
    lazy = dd.from_pandas(rows, npartitions=3)
    with pytest.raises(InvalidInputError, match="almost one per row"):
        fit(model(), lazy, sensitive="id")
    with pytest.raises(ConstraintError, match="one group only"):
        fit(model(), lazy.assign(sex="f"))
    with pytest.raises(ConstraintError, match="sensitive_features is missing"):
        model().fit(lazy[FEATURES], lazy["y"])
    with pytest.raises(InvalidInputError, match="weight is zero on every row of class 1"):
        zero = lazy.assign(weight=(1 - lazy["y"]).astype(float))
        fit(model(), zero, weighted=True)
    with pytest.raises(InvalidInputError, match="no rows in any partition"):
        fit(model(), parts(client, [rows.iloc[:0], rows.iloc[:0]]))


@pytest.mark.parametrize(
    ("engine", "options", "error", "message"),
    [
        ({}, {"holdout": "cross"}, InvalidInputError, "hold out a share"),
        ({}, {"memberships": "honest"}, InvalidInputError, "memberships='observed'"),
        ({}, {"iterate": "average"}, InvalidInputError, "iterate='best' or 'last'"),
        ({"early_stopping_rounds": 3}, {}, EngineOptionError, "early_stopping_rounds"),
        ({"tree_method": "exact"}, {}, EngineOptionError, "use 'hist'"),
        ({"booster": "dart"}, {}, EngineOptionError, "use 'gbtree'"),
        ({"objective": "reg:squarederror"}, {}, EngineOptionError, "leave objective out"),
    ],
)
def test_what_a_cluster_cannot_do(client, engine, options, error, message):
    with pytest.raises(error, match=message):
        fit(model({**ENGINE, **engine}, **options), dd.from_pandas(table(300), npartitions=2))


def test_other_arguments_of_fit_are_refused(client):
    rows = dd.from_pandas(table(300), npartitions=2)
    X, y = rows[FEATURES], rows["y"]
    with pytest.raises(InvalidInputError, match="eval_set is not supported on Dask"):
        model().fit(X, y, sensitive_features=rows["sex"], eval_set=[(X, y)])


def test_the_right_estimator_for_the_right_table(client):
    rows = table(300)
    lazy = dd.from_pandas(rows, npartitions=2)
    with pytest.raises(InvalidInputError, match="found X as DataFrame"):
        fit(model(), rows)
    with pytest.raises(EngineOptionError, match=r"xgboost\.dask\.DaskXGBClassifier"):
        fit(alone(), lazy)
    with pytest.raises(EngineOptionError, match=r"xgboost\.dask\.DaskXGBClassifier"):
        fit(FairGBMClassifier(), lazy)
    with pytest.raises(EngineOptionError, match="FrozenEstimator"):
        fitted = XGBClassifier(n_estimators=2).fit(rows[FEATURES], rows["y"])
        fit(FairGBMClassifier(FrozenEstimator(fitted)), lazy)
    for engine, X in ((DaskXGBClassifier(), rows), (None, lazy)):
        with pytest.raises(InvalidInputError, match="trains on one machine"):
            fairboost.tradeoff_curve(engine, X[FEATURES], X["y"], sensitive_features=X["sex"])
    from lightgbm.dask import DaskLGBMClassifier

    with pytest.raises(EngineOptionError, match=r"no way to add up .* Use xgboost\.dask"):
        fit(FairGBMClassifier(DaskLGBMClassifier()), lazy)
