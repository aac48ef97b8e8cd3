"""Numbers predicted on a cluster of separate processes."""

from __future__ import annotations

import pickle

import dask
import dask.array as da
import dask.dataframe as dd
import numpy as np
import pandas as pd
import pytest
from lightgbm.dask import DaskLGBMRegressor
from xgboost import XGBRegressor
from xgboost.dask import DaskXGBClassifier, DaskXGBRegressor, DaskXGBRFRegressor

import fairboost
from fairboost import FairGBMClassifier, FairGBMRegressor, bound, equal_distributions, parity
from fairboost.exceptions import ConstraintError, EngineOptionError, InvalidInputError
from tests.cluster.dealing import deal, parts, split, without_scores

FEATURES = ["a", "b", "c", "d"]
ENGINE = {"n_estimators": 12, "max_depth": 3, "learning_rate": 0.3}
OPTIONS = {"constraint": "equal_means", "tolerance": 0.1, "memberships": "observed"}
CLAIMS = {"objective": "count:poisson"}


def table(n=2_400, seed=0):
    """Few values of a feature: bins are the same however rows are spread."""
    rng = np.random.default_rng(seed)
    frame = pd.DataFrame(rng.integers(0, 40, (n, 4)), columns=FEATURES).astype("float32")
    frame["sex"] = rng.choice(["f", "m"], n, p=[0.4, 0.6])
    male = (frame["sex"] == "m").to_numpy()
    frame["score"] = frame["a"] / 20 + male + rng.normal(size=n)
    frame["weight"] = rng.uniform(0.5, 2.0, n)
    frame["years"] = rng.uniform(0.2, 1.5, n)
    rate = np.exp(frame["a"] / 30 - frame["b"] / 60 + 0.4 * male)
    frame["claims"] = rng.poisson(frame["years"] * rate)
    frame["cost"] = rng.gamma(2.0, frame["years"] * rate)
    return frame


def model(engine=(), **options):
    engine = DaskXGBRegressor(**{**ENGINE, **dict(engine)})
    return FairGBMRegressor(engine, **{**OPTIONS, **options})


def alone(engine=(), **options):
    engine = XGBRegressor(**{**ENGINE, **dict(engine)}, n_jobs=1)
    return FairGBMRegressor(engine, **{**OPTIONS, **options})


def columns(rows, y, weighted, exposed, sensitive="sex"):
    return {
        "y": rows[y],
        "sensitive_features": rows[sensitive],
        "sample_weight": rows["weight"] if weighted else None,
        "exposure": rows["years"] if exposed else None,
    }


def fit(model, rows, y="score", weighted=False, exposed=False, held_out=None, sensitive="sex"):
    given, how = None, (y, weighted, exposed, sensitive)
    if held_out is not None:
        given = (held_out[FEATURES], *columns(held_out, *how).values())
    known = columns(rows, *how)
    return model.fit(rows[FEATURES], **known, holdout_set=given)


def assert_same(one, other, X, atol=2e-6):
    np.testing.assert_allclose(one.predict(X), other.predict(X), rtol=0, atol=atol)
    # Multipliers answer to differences of rates, which round: theirs are larger.
    pd.testing.assert_frame_equal(one.trace_, other.trace_, rtol=0, atol=2e-6)
    assert one.best_iteration_ == other.best_iteration_


# The same model as on one machine


@pytest.mark.parametrize(
    ("engine", "options", "rows"),
    [
        ({}, {}, {"weighted": True}),
        ({}, {"constraint": "equal_distributions", "tolerance": 0.05}, {"weighted": True}),
        ({"objective": "reg:absoluteerror"}, {}, {}),
        ({"objective": "reg:quantileerror", "quantile_alpha": 0.8}, {}, {"weighted": True}),
        ({"objective": "reg:pseudohubererror"}, {"constraint": "equal_errors"}, {}),
        (CLAIMS, {"constraint": "calibrated"}, {"y": "claims", "exposed": True}),
        (
            CLAIMS,
            {"constraint": "equal_distributions", "tolerance": 0.05},
            {"y": "claims", "exposed": True, "weighted": True},
        ),
        ({"objective": "reg:gamma"}, {}, {"y": "cost", "exposed": True}),
        (
            {"objective": "reg:tweedie", "tweedie_variance_power": 1.3},
            {"constraint": "bounded_group_loss", "tolerance": 1.0},
            {"y": "cost"},
        ),
        (
            {"base_score": 0.5},
            {
                "constraint": [
                    parity("prediction", 0.02, relative=True),
                    bound("loss", 1.0, group="f"),
                ],
                "tolerance": None,
                "confidence": 0.8,
            },
            {},
        ),
        ({}, {"constraint": None, "tolerance": None, "iterate": "last"}, {"weighted": True}),
    ],
    ids=[
        "means", "distributions", "absolute", "quantile", "huber", "calibrated",
        "distributions of rates", "gamma", "tweedie", "several", "plain",
    ],
)  # fmt: skip
def test_the_same_model_as_in_one_process(client, engine, options, rows):
    frame, options = table(), {"holdout": None, **options}
    ours = fit(model(engine, **options), deal(client, frame), **rows)
    theirs = fit(alone(engine, **options), frame, **rows)
    assert_same(ours, theirs, frame[FEATURES])
    assert type(ours.estimator_) is XGBRegressor
    assert sum(ours.cluster_.rows.values()) == len(frame)
    assert len(ours.cluster_.rows) == 3
    if ours.fairness_report_ is not None:
        assert str(ours.fairness_report_) == str(theirs.fairness_report_)


@pytest.mark.parametrize("exposed", [False, True], ids=["plain", "exposed"])
def test_a_set_to_hold_out_as_in_one_process(client, exposed):
    """The thresholds and the loss of a constant are those of rows on two workers of three."""
    rows, held_out = table(), table(900, seed=1)
    engine = {**CLAIMS, "base_score": 1.0} if exposed else {"objective": "reg:absoluteerror"}
    options = {"constraint": "equal_distributions", "tolerance": 0.03}
    known = {"y": "claims" if exposed else "score", "exposed": exposed, "weighted": True}
    lazy = deal(client, held_out, 2, workers=2)
    ours = fit(model(engine, **options), deal(client, rows), **known, held_out=lazy)
    theirs = fit(alone(engine, **options), rows, **known, held_out=held_out)
    assert_same(ours, theirs, rows[FEATURES])
    assert str(ours.fairness_report_) == str(theirs.fairness_report_)
    assert "the given set of 900 rows" in ours.fairness_report_.note


def test_rows_held_out_do_not_depend_on_the_workers(client):
    rows = table()
    frames = [rows.iloc[k] for k in np.array_split(np.arange(len(rows)), [500, 700, 1_900])]
    options = {"constraint": "equal_distributions", "tolerance": 0.05}
    three, one = (
        fit(model(CLAIMS, **options), parts(client, frames, k), "claims", True, True)
        for k in (3, 1)
    )
    assert_same(three, one, rows[FEATURES])
    assert str(three.fairness_report_) == str(one.fairness_report_)
    assert "drawn in each partition" in one.fairness_report_.note


@pytest.mark.parametrize(
    ("constraint", "engine"),
    [
        (parity("prediction", 0.1, by="sex", given="age"), {}),
        (parity("loss", 0.1, by="sex", given="age"), {}),
        (parity("prediction", 0.1, by="sex", given="age", relative=True), CLAIMS),
        (equal_distributions(0.05, by="sex", given="age"), CLAIMS),
    ],
    ids=["means", "losses", "relative", "distributions"],
)
def test_groups_compared_given_a_column(client, constraint, engine):
    """Of a stratum that two partitions have alone, one of them nothing else; some are unknown."""
    rows, test = aged(table()), aged(table(1_500, seed=1))
    rows = rows.sort_values("age", kind="stable").reset_index(drop=True)
    both = ["sex", "age"]
    known = {"y": "claims" if engine else "score", "weighted": True, "exposed": bool(engine)}
    asked = {"constraint": constraint, "tolerance": None}
    known["sensitive"] = both
    ours = fit(model(engine, holdout=None, **asked), deal(client, rows), **known)
    theirs = fit(alone(engine, holdout=None, **asked), rows, **known)
    assert_same(ours, theirs, rows[FEATURES])
    assert str(ours.fairness_report_) == str(theirs.fairness_report_)
    assert "sex=f, age=20" in " ".join(ours.fairness_report_.rates["group"])
    three, one = (
        fit(model(engine, holdout=0.3, **asked), deal(client, rows, workers=k), **known)
        for k in (3, 1)
    )
    assert_same(three, one, rows[FEATURES])
    lazy, here = (
        three.report_on(t[FEATURES], **columns(t, *known.values()))
        for t in (deal(client, test), test)
    )
    pd.testing.assert_frame_equal(lazy.rates, here.rates, rtol=1e-6)
    assert str(lazy) == str(without_scores(here))
    with pytest.raises(ConstraintError, match="names the column 'age', which is not among"):
        fit(model(engine, **asked), deal(client, rows), **{**known, "sensitive": ["sex"]})


def aged(rows):
    """The same rows, by age: of some it is not known."""
    age = np.random.default_rng(len(rows)).choice(
        [20.0, 40.0, np.nan], len(rows), p=[0.3, 0.6, 0.1]
    )
    return rows.assign(age=age)


def test_a_constraint_holds_on_new_rows_as_well_as_in_memory(client):
    rows, new = table(6_000), table(6_000, seed=1)
    engine = {"n_estimators": 60, "learning_rate": 0.1}
    options = {"constraint": "equal_means", "tolerance": 0.05, "holdout": 0.2}
    rows["d"] = (rows["sex"] == "m").astype("float32")
    new["d"] = (new["sex"] == "m").astype("float32")

    def gap(fitted):
        predicted = fitted.predict(new[FEATURES])
        return predicted[new["sex"] == "m"].mean() - predicted[new["sex"] == "f"].mean()

    plain = gap(fit(alone(engine, constraint=None, tolerance=None), rows))
    ours = fit(model(engine, **options), deal(client, rows))
    theirs = fit(alone(engine, **options), rows)
    assert plain > 0.9
    assert gap(ours) < 0.15
    assert gap(ours) == pytest.approx(gap(theirs), abs=0.06)
    assert ours.fairness_report_.verdicts[0].within


# What travels


def test_what_travels_does_not_grow_with_the_rows(client):
    """Two losses, and at most the sums of three quantities, their squares and a product."""
    sent = [fit(model(), deal(client, table(n))).cluster_.bytes_per_round for n in (600, 6_000)]
    assert sent[0] == sent[1]
    # What is kept of the rows comes once: a few numbers in thirteen rounds.
    assert 8 * (2 + 2 * 2) <= sent[0] < 8 * (2 + 7 * 2) + 8


def test_thresholds_are_those_of_a_sample_that_all_workers_share(client):
    rows = table()
    options = {"constraint": "equal_distributions", "tolerance": 0.0, "iterate": "last"}
    whole = fit(model(**options), deal(client, rows))
    before = client.run(_placed_rows, 300)
    try:
        three, one = (fit(model(**options), deal(client, rows, workers=k)) for k in (3, 1))
    finally:
        client.run(_placed_rows, next(iter(before.values())))
    assert_same(three, one, rows[FEATURES])
    assert not np.array_equal(three.predict(rows[FEATURES]), whole.predict(rows[FEATURES]))
    # Of 480 rows held out every second is looked at.
    assert whole.cluster_.bytes_per_round - three.cluster_.bytes_per_round == 8 * 240


def _placed_rows(most):
    """Run on workers: how many rows place the thresholds; what it was before."""
    from fairboost.tasks import regression

    before, regression.PLACED_ROWS = regression.PLACED_ROWS, most
    return before


# The model


def test_predictions_are_lazy_and_take_lazy_exposures(client):
    rows = table()
    lazy = dd.from_pandas(rows, npartitions=3)
    fitted = fit(model(CLAIMS), lazy, "claims", exposed=True)
    X = lazy[FEATURES]
    for exposure in (None, "years"):
        result = fitted.predict(X, exposure=exposure and lazy[exposure])
        assert isinstance(result, da.Array)
        assert result.npartitions == 3
        expected = fitted.predict(rows[FEATURES], exposure=exposure and rows[exposure])
        np.testing.assert_array_equal(result.compute(), expected)
    arrays = (lazy[name].to_dask_array(lengths=True) for name in (FEATURES, "years"))
    X_array, years = arrays
    fitted = model(CLAIMS).fit(
        X_array, lazy["claims"], sensitive_features=lazy["sex"], exposure=years
    )
    expected = fitted.predict(rows[FEATURES].to_numpy(), exposure=rows["years"])
    np.testing.assert_array_equal(fitted.predict(X_array, exposure=years).compute(), expected)
    with pytest.raises(InvalidInputError, match="exposure must be a Dask collection like X"):
        fitted.predict(X_array, exposure=rows["years"])
    with pytest.raises(InvalidInputError, match="exposure has 2 partitions, expected the 3"):
        fitted.predict(X_array, exposure=lazy["years"].repartition(npartitions=2))
    with pytest.raises(InvalidInputError, match="exposure is a Dask collection and X is not"):
        fitted.predict(rows[FEATURES].to_numpy(), exposure=lazy["years"])


def test_any_model_predicts_lazily_and_refuses_exposures_without_a_log_link():
    rows = table(600)
    fitted = fit(alone(constraint=None, tolerance=None), rows)
    lazy = dd.from_pandas(rows, npartitions=2)
    with dask.config.set(scheduler="synchronous"):
        np.testing.assert_array_equal(
            fitted.predict(lazy[FEATURES]).compute(), fitted.predict(rows[FEATURES])
        )
    with pytest.raises(InvalidInputError, match="the loss is squared"):
        fitted.predict(lazy[FEATURES], exposure=lazy["years"])


@pytest.mark.parametrize("constraint", ["equal_distributions", "calibrated"])
def test_a_report_on_test_rows(client, constraint):
    rows, test = table(), table(1_500, seed=1)
    rows["sex"] = rows["sex"].where(rows["c"] > 1)  # some are missing
    fitted = fit(model(CLAIMS, constraint=constraint), deal(client, rows), "claims", True, True)

    def report(test):
        return fitted.report_on(test[FEATURES], **columns(test, "claims", True, True))

    frames = split(test, 4)
    frames[2] = frames[2].iloc[:0]
    lazy, here = report(parts(client, frames)), report(pd.concat(frames))
    pd.testing.assert_frame_equal(lazy.rates, here.rates, rtol=1e-6)
    assert str(lazy) == str(without_scores(here))
    with dask.config.set(scheduler="synchronous"):  # no cluster is needed
        assert str(report(dd.from_pandas(pd.concat(frames), npartitions=2))) == str(
            without_scores(here)
        )
    frames[1] = frames[1].assign(claims=-1)
    with pytest.raises(InvalidInputError, match="partition 1 of 4: y must be 0 or more under"):
        report(parts(client, frames))


def test_the_model_needs_no_cluster(client, tmp_path):
    rows = table()
    fitted = fit(model(CLAIMS), deal(client, rows), "claims", exposed=True)
    X = rows[FEATURES]
    expected = fitted.predict(X, exposure=rows["years"])
    fitted.save(tmp_path / "model.json")
    fitted.export(tmp_path / "stock.json")
    for again in (fairboost.load(tmp_path / "model.json"), pickle.loads(pickle.dumps(fitted))):
        np.testing.assert_array_equal(again.predict(X, exposure=rows["years"]), expected)
    again = fairboost.load(tmp_path / "model.json").set_params(holdout=None)
    theirs = fit(alone(CLAIMS, holdout=None), rows, "claims", exposed=True)
    assert_same(fit(again, rows, "claims", exposed=True), theirs, X)
    stock = XGBRegressor()
    stock.load_model(tmp_path / "stock.json")
    np.testing.assert_allclose(stock.predict(X), fitted.predict(X), rtol=1e-6)


# What is wrong is said before training


@pytest.mark.parametrize(
    ("column", "value", "message"),
    [
        ("years", 0.0, "exposure must be above 0, and finite in single precision, found 0 in row"),
        ("years", np.nan, "exposure must be finite numbers without NaN"),
        ("claims", -3.0, "y must be 0 or more under a poisson loss, found -3 in row 5"),
        ("claims", np.nan, "y must be finite numbers without NaN, found nan in row 5"),
        ("claims", np.inf, "y must be finite numbers without NaN, found inf in row 5"),
        ("claims", 1e200, "y must be finite in single precision"),
        ("claims", "many", "y must be a column of numbers"),
        ("weight", -1.0, "sample_weight must not be negative"),
    ],
)
def test_a_bad_value_names_its_partition(client, column, value, message):
    frames = [frame.copy() for frame in split(table(), 4)]
    spoilt = frames[2][column].astype(object)
    spoilt.iloc[5] = value
    frames[2][column] = spoilt.infer_objects()
    with pytest.raises(InvalidInputError, match=f"partition 2 of 4: {message}"):
        fit(model(CLAIMS), parts(client, frames), "claims", weighted=True, exposed=True)
    good = deal(client, table())
    with pytest.raises(InvalidInputError, match=f"holdout_set: partition 2 of 4: {message}"):
        known = {"y": "claims", "weighted": True, "exposed": True}
        fit(model(CLAIMS), good, **known, held_out=parts(client, frames))


def test_a_worker_without_claims(client):
    """Nothing happened in two of three partitions: that is no reason to refuse them."""
    frames = split(table(), 3)
    frames = [frames[0], *(f.assign(claims=0) for f in frames[1:])]
    ours = fit(model(CLAIMS, holdout=None), parts(client, frames), "claims", exposed=True)
    theirs = fit(alone(CLAIMS, holdout=None), pd.concat(frames), "claims", exposed=True)
    assert_same(ours, theirs, frames[0][FEATURES])


def test_targets_of_which_nothing_could_come(client):
    rows = table(600)
    for changes, y, options, message in (
        ({"score": 3.0}, "score", {}, "y is 3 in every row that has a weight"),
        ({}, "score", {"tolerance": 100.0}, "larger than the range of y"),
        ({"weight": 0.0}, "score", {}, "at least one non-zero number"),
        (
            {"score": rows["score"] - rows.groupby("sex")["score"].transform("mean")},
            "score",
            {"constraint": "calibrated"},
            "in group sex=f y is .* cannot be distinguished from 0",
        ),
    ):
        with pytest.raises(InvalidInputError, match=message):
            fit(model(**options), deal(client, rows.assign(**changes), 3), y, weighted=True)
        if message != "at least one non-zero number":
            with pytest.raises(InvalidInputError, match=message):
                fit(alone(**options), rows.assign(**changes), y, weighted=True)
    with pytest.raises(InvalidInputError, match="no rows in any partition"):
        fit(model(), parts(client, [rows.iloc[:0], rows.iloc[:0]]))


def test_exposures_that_cannot_be_taken(client):
    rows = dd.from_pandas(table(600), npartitions=2)
    X, known = rows[FEATURES], columns(rows, "claims", False, False)
    with pytest.raises(InvalidInputError, match="takes a log link, and the loss is squared"):
        model().fit(X, **{**known, "exposure": rows["years"]})
    with pytest.raises(InvalidInputError, match="exposure must be a Dask collection like X"):
        model(CLAIMS).fit(X, **{**known, "exposure": rows["years"].compute()})
    with pytest.raises(InvalidInputError, match="holdout_set has an exposure and fit has none"):
        given = X, rows["claims"], rows["sex"], None, rows["years"]
        model(CLAIMS).fit(X, **known, holdout_set=given)


@pytest.mark.parametrize(
    ("engine", "options", "error", "message"),
    [
        ({}, {"holdout": "cross"}, InvalidInputError, "hold out a share"),
        ({}, {"memberships": "honest"}, InvalidInputError, "memberships='observed'"),
        ({}, {"iterate": "average"}, InvalidInputError, "iterate='best' or 'last'"),
        ({}, {"iterate": "randomized"}, InvalidInputError, "iterate='best' or 'last'"),
        ({}, {"tolerance": None}, ConstraintError, "needs a tolerance"),
        ({"early_stopping_rounds": 3}, {}, EngineOptionError, "early_stopping_rounds"),
        ({"tree_method": "exact"}, {}, EngineOptionError, "use 'hist'"),
        ({"booster": "dart"}, {}, EngineOptionError, "use 'gbtree'"),
        ({"objective": "reg:logistic"}, {}, EngineOptionError, "objective='reg:logistic'"),
    ],
)
def test_what_a_cluster_cannot_do(client, engine, options, error, message):
    with pytest.raises(error, match=message):
        fit(model(engine, **options), dd.from_pandas(table(300), npartitions=2))


def test_the_right_estimator_for_the_right_table(client):
    rows = table(300)
    lazy = dd.from_pandas(rows, npartitions=2)
    X, known = lazy[FEATURES], columns(lazy, "score", False, False)
    with pytest.raises(
        InvalidInputError, match=r"a DaskXGBRegressor is trained on Dask .* found X"
    ):
        fit(model(), rows)
    for engine in (XGBRegressor(), None):
        with pytest.raises(EngineOptionError, match=r"pass FairGBMRegressor\(xgboost\.dask\.Dask"):
            FairGBMRegressor(engine).fit(X, **known)
    with pytest.raises(EngineOptionError, match=r"Use xgboost\.dask\.DaskXGBRegressor, or LGBMR"):
        FairGBMRegressor(DaskLGBMRegressor()).fit(X, **known)
    with pytest.raises(
        EngineOptionError, match=r"found a DaskXGBClassifier; .* FairGBMClassifier"
    ):
        FairGBMRegressor(DaskXGBClassifier()).fit(X, **known)
    with pytest.raises(EngineOptionError, match=r"found a DaskXGBRegressor; .* FairGBMRegressor"):
        FairGBMClassifier(DaskXGBRegressor()).fit(X, lazy["score"] > 0)
    with pytest.raises(EngineOptionError, match="found DaskXGBRFRegressor"):
        FairGBMRegressor(DaskXGBRFRegressor()).fit(X, **known)
    with pytest.raises(InvalidInputError, match="eval_set is not supported on Dask"):
        model().fit(X, **known, eval_set=[(X, lazy["score"])])
