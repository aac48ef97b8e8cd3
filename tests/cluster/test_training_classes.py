"""Three classes or more, told apart on a cluster of separate processes."""

from __future__ import annotations

import pickle
from itertools import pairwise

import dask
import dask.array as da
import dask.dataframe as dd
import numpy as np
import pandas as pd
import pytest
from xgboost import Booster, DMatrix, XGBClassifier
from xgboost.dask import DaskXGBClassifier

import fairboost
from fairboost import FairGBMClassifier, at_fpr, bound, parity
from fairboost.exceptions import ConstraintError, EngineOptionError, InvalidInputError
from tests.cluster.dealing import deal, parts, split, without_scores

FEATURES = ["a", "b", "c", "d"]
BANDS = ["high", "low", "middle"]
ENGINE = {"n_estimators": 10, "max_depth": 3, "learning_rate": 0.3}
OPTIONS = {"constraint": "equal_opportunity", "tolerance": 0.02, "memberships": "observed"}
COSTS = [[0, 1, 1], [9, 0, 9], [1, 1, 0]]


def table(n=2_400, seed=0):
    """Few values of a feature: bins are the same however rows are spread."""
    rng = np.random.default_rng(seed)
    frame = pd.DataFrame(rng.integers(0, 40, (n, 4)), columns=FEATURES).astype("float32")
    frame["sex"] = rng.choice(["f", "m"], n, p=[0.4, 0.6])
    frame["age"] = rng.choice([20, 40], n)
    z = frame["a"] / 10 - frame["b"] / 20 + (frame["sex"] == "m") + rng.normal(size=n)
    frame["y"] = np.array(["low", "middle", "high"])[np.searchsorted([1.0, 2.0], z)]
    frame["weight"] = rng.uniform(0.5, 2.0, n)
    return frame


def model(engine=(), **options):
    engine = DaskXGBClassifier(**{**ENGINE, **dict(engine)})
    return FairGBMClassifier(engine, **{**OPTIONS, **options})


def alone(engine=(), **options):
    engine = XGBClassifier(**{**ENGINE, **dict(engine)}, n_jobs=1)
    return FairGBMClassifier(engine, **{**OPTIONS, **options})


def columns(rows, weighted=False, sensitive="sex"):
    weight = rows["weight"] if weighted else None
    return {"y": rows["y"], "sensitive_features": rows[sensitive], "sample_weight": weight}


def fit(model, rows, weighted=False, sensitive="sex", held_out=None):
    given = None
    if held_out is not None:
        given = (held_out[FEATURES], *columns(held_out, weighted, sensitive).values())
    known = columns(rows, weighted, sensitive)
    return model.fit(rows[FEATURES], **known, holdout_set=given)


def assert_same(one, other, X):
    np.testing.assert_allclose(one.predict_proba(X), other.predict_proba(X), rtol=0, atol=1e-6)
    pd.testing.assert_frame_equal(one.trace_, other.trace_, rtol=0, atol=1e-6)
    pd.testing.assert_series_equal(one.multipliers_, other.multipliers_, rtol=0, atol=1e-6)
    assert one.best_iteration_ == other.best_iteration_
    assert one.classes_.tolist() == other.classes_.tolist()
    if one.fairness_report_ is not None:
        assert str(one.fairness_report_) == str(other.fairness_report_)


# The same model as on one machine


@pytest.mark.parametrize(
    ("options", "rows"),
    [
        ({}, {}),
        ({"constraint": "demographic_parity", "costs": COSTS}, {"weighted": True}),
        ({"constraint": "equalized_odds", "classes": ["low", "high"]}, {"weighted": True}),
        ({"constraint": "equal_accuracy", "confidence": 0.8}, {}),
        (
            {
                "constraint": [parity("recall", 0.05, of="high"), bound("given", 0.3, of="low")],
                "tolerance": None,
            },
            {"weighted": True},
        ),
        (
            {"constraint": parity("given", 0.05, by="sex", given="age"), "tolerance": None},
            {"sensitive": ["sex", "age"]},
        ),
        ({"constraint": None, "tolerance": None, "iterate": "last"}, {"weighted": True}),
    ],
    ids=["default", "costs", "classes", "accuracy", "of a class", "given", "plain"],
)
def test_the_same_model_as_in_one_process(client, options, rows):
    frame, options = table(), {"holdout": None, **options}
    ours = fit(model(**options), deal(client, frame), **rows)
    theirs = fit(alone(**options), frame, **rows)
    assert_same(ours, theirs, frame[FEATURES])
    np.testing.assert_array_equal(ours.predict(frame[FEATURES]), theirs.predict(frame[FEATURES]))
    assert type(ours.estimator_) is XGBClassifier
    assert ours.classes_.tolist() == BANDS
    assert sum(ours.cluster_.rows.values()) == len(frame)
    assert len(ours.cluster_.rows) == 3


def test_the_start_is_that_of_all_rows(client):
    """A class of one row in nine: its score starts where XGBoost would have it start."""
    rows = table()
    rows = rows[(rows["y"] != "high") | (rows["a"] > 33)].reset_index(drop=True)
    plain = {"constraint": None, "tolerance": None, "iterate": "last"}
    ours = fit(model({"n_estimators": 1}, **plain), deal(client, rows), weighted=True)
    stock = XGBClassifier(**{**ENGINE, "n_estimators": 1}, n_jobs=1)
    codes = pd.Categorical(rows["y"], BANDS).codes
    stock.fit(rows[FEATURES], codes, sample_weight=rows["weight"])
    start = np.ravel(ours._model.intercept)
    assert start[0] < min(start[1:]) - 0.5
    np.testing.assert_allclose(
        ours.predict_proba(rows[FEATURES]), stock.predict_proba(rows[FEATURES]), atol=1e-6
    )
    given = fit(model({"base_score": 0.5}, holdout=None), deal(client, rows))
    theirs = fit(alone({"base_score": 0.5}, holdout=None), rows)
    assert_same(given, theirs, rows[FEATURES])


@pytest.mark.parametrize("costs", [None, COSTS], ids=["likely", "costs"])
def test_a_set_to_hold_out_as_in_one_process(client, costs):
    """On two of the workers, so that the third has none of its rows."""
    rows, held_out = table(), table(900, seed=1)
    options = {"constraint": "demographic_parity", "costs": costs}
    lazy = deal(client, held_out, 2, workers=2)
    ours = fit(model(**options), deal(client, rows), weighted=True, held_out=lazy)
    theirs = fit(alone(**options), rows, weighted=True, held_out=held_out)
    assert_same(ours, theirs, rows[FEATURES])
    assert "the given set of 900 rows" in ours.fairness_report_.note


@pytest.mark.parametrize("least", [None, 0], ids=["by matrix", "by trees"])
@pytest.mark.parametrize("sizes", [[500, 700, 1_900], [1, 2]], ids=["some", "single rows"])
def test_rows_held_out_do_not_depend_on_the_workers(client, least, sizes):
    """Nor on who scores them; a worker of one row holds it out, or has none to hold out."""
    rows = table()
    frames = [rows.iloc[k] for k in np.array_split(np.arange(len(rows)), sizes)]
    before = client.run(_rows_per_thread, least)
    try:
        three, one = (fit(model(holdout=0.4), parts(client, frames, k)) for k in (3, 1))
    finally:
        client.run(_rows_per_thread, next(iter(before.values())))
    assert len(three.cluster_.rows) == 3
    assert len(one.cluster_.rows) == 1
    assert_same(three, one, rows[FEATURES])
    assert "drawn in each partition" in one.fairness_report_.note
    assert one.fairness_report_.rates["rows"].sum() == pytest.approx(0.4 * len(rows), abs=3)


def test_a_share_of_every_class_is_held_out(client):
    """Of those too that no rate counts: the loss of each is read on them."""
    rows = table()
    asked = {"constraint": parity("recall", 0.05, of="high"), "tolerance": None}
    ours = fit(model(holdout=0.25, **asked), deal(client, rows))
    theirs = fit(alone(holdout=0.25, **asked), rows)
    assert ours.fairness_report_.note == f"{theirs.fairness_report_.note}, drawn in each partition"
    assert ours.fairness_report_.rates["rows"].sum() == pytest.approx(
        0.25 * (rows["y"] == "high").sum(), abs=1
    )
    # The mean over a quarter of all rows: one that lacked classes would be far from it.
    held_out = ours.trace_["held-out loss"].iloc[0], theirs.trace_["held-out loss"].iloc[0]
    assert held_out[0] == pytest.approx(held_out[1], abs=1e-3)


def _rows_per_thread(least):
    """Run on workers: from how many rows on trees are read; what it was before."""
    from fairboost.engines.xgboost import data as xgboost_data

    before = xgboost_data.ROWS_PER_THREAD
    xgboost_data.ROWS_PER_THREAD = before if least is None else least
    return before


def test_ties_are_looked_for_among_a_sample_that_all_workers_share(client):
    rows = table()
    options = {"constraint": "demographic_parity", "tolerance": 0.0, "iterate": "last"}
    whole = fit(model(**options), deal(client, rows))
    before = client.run(_looked_at, 40)
    try:
        three, one = (fit(model(**options), deal(client, rows, workers=k)) for k in (3, 1))
    finally:
        client.run(_looked_at, next(iter(before.values())))
    assert_same(three, one, rows[FEATURES])
    assert not np.array_equal(three.multipliers_, whole.multipliers_)


def _looked_at(most):
    """Run on workers: how many rows tell the density of ties; what it was before."""
    from fairboost.tasks import multiclass

    before, multiclass.LOOKED_AT = multiclass.LOOKED_AT, most
    return before


def test_what_travels_does_not_grow_with_the_rows(client):
    """Two losses, two counts of ties, and the decisions of four kinds in six cells."""
    sent = [fit(model(), deal(client, table(n))).cluster_.bytes_per_round for n in (900, 6_000)]
    assert sent == [8 * (2 + 2 + 4 * 6)] * 2


# Awkward shares


def test_classes_that_partitions_do_not_have(client):
    """Sorted by class, with an empty partition and one of three rows: none has all classes."""
    rows = table().sort_values("y", kind="stable").reset_index(drop=True)
    cuts = [0, 0, 3, 700, 1_700, len(rows)]
    frames = [rows.iloc[a:b] for a, b in pairwise(cuts)]
    assert max(frame["y"].nunique() for frame in frames) < 3
    ours = fit(model(holdout=None), parts(client, frames), weighted=True)
    assert_same(ours, fit(alone(holdout=None), rows, weighted=True), rows[FEATURES])
    three, one = (fit(model(holdout=0.3), parts(client, frames, k)) for k in (3, 1))
    assert_same(three, one, rows[FEATURES])


@pytest.mark.parametrize("kind", ["int", "float", "category", "str"])
def test_classes_of_any_type(client, kind):
    rows = table(900)
    codes = pd.Categorical(rows["y"], BANDS).codes.astype(int) * 3 - 1
    rows["y"] = pd.Series(codes, index=rows.index).astype(str if kind == "category" else kind)
    rows["y"] = rows["y"].astype(kind)
    frames = [*split(rows, 2), rows.iloc[:0]]
    ours = fit(model(holdout=None), parts(client, frames))
    theirs = fit(alone(holdout=None), rows)
    assert_same(ours, theirs, rows[FEATURES])
    assert ours.classes_.dtype == theirs.classes_.dtype
    lazy = ours.predict(dd.from_pandas(rows[FEATURES], npartitions=2)).compute()
    np.testing.assert_array_equal(lazy, theirs.predict(rows[FEATURES]))


def test_more_classes_than_a_byte_has_numbers(client):
    rng = np.random.default_rng(0)
    rows = pd.DataFrame({"a": np.repeat(np.arange(140.0), 8), "sex": np.tile(["f", "m"], 560)})
    rows["y"] = rows["a"].astype(int)
    rows = rows.iloc[rng.permutation(len(rows))].reset_index(drop=True)
    known = {"constraint": "equal_accuracy", "tolerance": 0.1, "holdout": None}
    ours, theirs = (make({"n_estimators": 2}, **known) for make in (model, alone))
    lazy = deal(client, rows)
    ours.fit(lazy[["a"]], lazy["y"], sensitive_features=lazy["sex"])
    theirs.fit(rows[["a"]], rows["y"], sensitive_features=rows["sex"])
    assert_same(ours, theirs, rows[["a"]])
    assert ours.predict_proba(rows[["a"]]).shape == (1_120, 140)


def test_groups_missing_and_of_several_columns(client):
    rows = table()
    rows["sex"] = rows["sex"].where(rows["c"] > 3)
    both = {"sensitive": ["sex", "age"]}
    ours = fit(model(holdout=None), deal(client, rows), **both)
    assert_same(ours, fit(alone(holdout=None), rows, **both), rows[FEATURES])
    assert set(ours.fairness_report_.columns) == {"sex", "age"}
    unread = fit(
        model(constraint=parity("recall", by="age"), holdout=None), deal(client, rows), **both
    )
    assert list(unread.fairness_report_.columns) == ["age"]


# Costs of two labels


def test_costs_of_two_labels_are_a_threshold(client):
    rows = table()
    rows["y"] = (rows["y"] == "high").astype(int)
    options = {"holdout": None, "costs": [[0, 1], [4, 0]]}
    ours, theirs = fit(model(**options), deal(client, rows)), fit(alone(**options), rows)
    assert ours.threshold_ == pytest.approx(0.2)
    assert str(ours.fairness_report_) == str(theirs.fairness_report_)
    np.testing.assert_allclose(
        ours.predict_proba(rows[FEATURES]), theirs.predict_proba(rows[FEATURES]), atol=1e-6
    )
    with pytest.raises(InvalidInputError, match="chooses among three classes or more, and y has"):
        fit(model(classes=[1]), deal(client, rows))
    with pytest.raises(ConstraintError, match="unknown constraint 'equal_accuracy'"):
        fit(model(constraint="equal_accuracy"), deal(client, rows))
    with pytest.raises(ConstraintError, match="'recall' is a rate of decisions among three"):
        fit(model(constraint=parity("recall")), deal(client, rows))


# The model


def test_prediction_is_lazy_and_by_partition(client):
    rows = table()
    lazy = dd.from_pandas(rows, npartitions=3)
    fitted = fit(model(costs=COSTS, constraint="demographic_parity"), lazy)
    for name, shape in (("predict", ()), ("predict_proba", (3,)), ("decision_function", (3,))):
        for X, here in (
            (lazy[FEATURES], rows[FEATURES]),
            (lazy[FEATURES].to_dask_array(lengths=True), rows[FEATURES].to_numpy()),
        ):
            result = getattr(_named(fitted, here), name)(X)
            assert isinstance(result, da.Array)
            assert result.npartitions == 3
            assert result.shape[1:] == shape
            found = result.compute(scheduler="synchronous")
            np.testing.assert_array_equal(found, getattr(_named(fitted, here), name)(here))


def _named(fitted, X):
    """The same model, which was told no names of features if X has none."""
    if hasattr(X, "columns"):
        return fitted
    plain = pickle.loads(pickle.dumps(fitted))
    del plain.feature_names_in_
    plain.booster_.feature_names = None
    return plain


@pytest.mark.parametrize("costs", [None, COSTS], ids=["likely", "costs"])
def test_a_report_on_test_rows(client, costs):
    rows, test = table(), table(1_500, seed=1)
    rows["sex"] = rows["sex"].where(rows["c"] > 1)  # some are missing
    fitted = fit(model(constraint="equalized_odds", costs=costs), deal(client, rows))

    def report(test):
        return fitted.report_on(test[FEATURES], **columns(test, weighted=True))

    frames = split(test.sort_values("y", kind="stable"), 4)
    frames[2] = frames[2].iloc[:0]
    lazy, here = report(parts(client, frames)), report(pd.concat(frames))
    pd.testing.assert_frame_equal(lazy.rates, here.rates, rtol=1e-6)
    assert str(lazy) == str(without_scores(here))
    with dask.config.set(scheduler="synchronous"):  # no cluster is needed
        assert str(report(dd.from_pandas(pd.concat(frames), npartitions=2))) == str(
            without_scores(here)
        )
    frames[1] = frames[1].assign(y="lowest")
    with pytest.raises(InvalidInputError, match="partition 1 of 4: y has the label 'lowest'"):
        report(parts(client, frames))


def test_the_model_needs_no_cluster(client, tmp_path):
    rows = table()
    fitted, X = fit(model(), deal(client, rows)), rows[FEATURES]
    expected = fitted.predict_proba(X)
    fitted.save(tmp_path / "model.json")
    fitted.export(tmp_path / "stock.json")
    for again in (fairboost.load(tmp_path / "model.json"), pickle.loads(pickle.dumps(fitted))):
        np.testing.assert_array_equal(again.predict_proba(X), expected)
        np.testing.assert_array_equal(again.predict(X), fitted.predict(X))
    again = fairboost.load(tmp_path / "model.json").set_params(holdout=None)
    assert_same(fit(again, rows), fit(alone(holdout=None), rows), X)
    stock = Booster(model_file=tmp_path / "stock.json")
    np.testing.assert_allclose(stock.predict(DMatrix(X)), expected, atol=1e-6)


# What is wrong is said before training


@pytest.mark.parametrize(
    ("engine", "options", "error", "message"),
    [
        ({}, {"pos_label": "high"}, InvalidInputError, "pos_label='high' says which of two"),
        ({}, {"operating_point": 0.3}, InvalidInputError, "is a threshold between two labels"),
        ({}, {"operating_point": at_fpr(0.1)}, InvalidInputError, "is a threshold between two"),
        ({}, {"multipliers": "paper"}, InvalidInputError, "the paper's algorithm is for two"),
        ({}, {"proxy": "hinge"}, InvalidInputError, "is a step between two labels"),
        ({}, {"classes": ["best"]}, ConstraintError, "names the class 'best', which is not"),
        ({}, {"classes": "high"}, ConstraintError, "classes must be a list"),
        ({}, {"costs": [[0, 1], [1, 0]]}, InvalidInputError, r"costs have the shape \(2, 2\)"),
        ({}, {"constraint": "predictive_equality"}, ConstraintError, "is not one for 3 classes"),
        ({}, {"constraint": "fairness"}, ConstraintError, "unknown constraint 'fairness'"),
        ({}, {"constraint": parity("fnr")}, ConstraintError, "'fnr' is a rate of two labels"),
        (
            {},
            {"constraint": parity("recall", of="best")},
            ConstraintError,
            "names the class 'best', which is not among those of y: 'high', 'low', 'middle'",
        ),
        ({}, {"constraint": parity("recall", by="race")}, ConstraintError, "column 'race'"),
        ({}, {"holdout": "cross"}, InvalidInputError, "hold out a share"),
        ({}, {"memberships": "honest"}, InvalidInputError, "memberships='observed'"),
        ({}, {"iterate": "average"}, InvalidInputError, "iterate='best' or 'last'"),
        ({"scale_pos_weight": 2.0}, {}, EngineOptionError, "scale_pos_weight, which is for two"),
        ({"num_class": 5}, {}, EngineOptionError, "num_class=5, but y has 3 classes"),
    ],
)
def test_what_is_refused(client, engine, options, error, message):
    with pytest.raises(error, match=message):
        fit(model(engine, **options), dd.from_pandas(table(600), npartitions=2))


def test_labels_that_cannot_be_learned(client):
    rows = table(900)
    frames = split(rows, 3)
    stray = rows.copy()
    stray.loc[700, "y"] = "lowest"
    with pytest.raises(ConstraintError, match="'lowest'"):
        fit(model(holdout=None), deal(client, stray, 3))
    with pytest.raises(InvalidInputError, match="weight is zero on every row of class 'low'"):
        zero = rows.assign(weight=(rows["y"] != "low").astype(float))
        fit(model(), deal(client, zero), weighted=True)
    with pytest.raises(InvalidInputError, match="partition 0 of 3: y has 300 distinct labels"):
        fit(model(), parts(client, [f.assign(y=np.arange(300)) for f in frames]))
    with pytest.raises(InvalidInputError, match="y has 360 distinct labels"):
        own = [f.assign(y=np.arange(300) % 120 + 120 * k) for k, f in enumerate(frames)]
        fit(model(), parts(client, own))
    with pytest.raises(
        InvalidInputError, match="holdout_set: partition 0 of 2: y has the label 'lowest'"
    ):
        held_out = deal(client, table(300, seed=1).assign(y="lowest"), 2)
        fit(model(), deal(client, rows), held_out=held_out)
    with pytest.raises(InvalidInputError, match="found 1 class"):
        fit(model(), deal(client, rows.assign(y="low")))
