"""Training on group probabilities and on windows of a number, end to end."""

import numpy as np
import pandas as pd
import pytest
from lightgbm import LGBMRegressor
from sklearn.base import clone

import fairboost
from fairboost import (
    FairGBMClassifier,
    FairGBMRegressor,
    at_least,
    bound,
    group_probabilities,
    minimax,
    parity,
    smooth,
)
from fairboost.exceptions import ConstraintError, InvalidInputError
from tests.covering import covering
from tests.kinds import KINDS

pytestmark = pytest.mark.filterwarnings("ignore::fairboost.exceptions.FairnessWarning")


def one_hot(group, **options):
    return group_probabilities(pd.get_dummies(group).astype(float), name="group", **options)


def fit(kind, toy, sensitive, **options):
    params = {"constraint": parity("fnr", 0.02, by="group"), "random_state": 0, **options}
    rest = {"holdout_set": params.pop("holdout_set", None)}
    weight = params.pop("sample_weight", None)
    model = FairGBMClassifier(kind.make(), **params)
    return model.fit(toy.X, toy.y, sensitive_features=sensitive, sample_weight=weight, **rest)


HELD_OUT = {
    "cross": {"holdout": "cross"},
    "share": {"holdout": 0.3},
    "none": {"holdout": None},
    "learned": {"holdout": 0.3, "memberships": "honest"},
    "another proxy": {"holdout": 0.3, "proxy": "hinge"},
    "confidence": {"holdout": "cross", "confidence": 0.9},
    "operating point": {"holdout": 0.3, "operating_point": fairboost.at_positive_rate(0.4)},
    "small groups left out": {"holdout": 0.3, "min_group_rows": 5},
    "a bound": {"constraint": bound("fnr", 0.2, group={"group": "b"}), "holdout": 0.3},
}


@pytest.mark.parametrize(
    ("how", "estimator", "kind"), covering(HELD_OUT, ["corrected", "weighted"], KINDS)
)
def test_probabilities_of_zero_and_one_are_the_groups_themselves(kind, how, estimator, toy):
    kind = KINDS[kind]
    options = HELD_OUT[how]
    weight = toy.weight if how == "share" else None
    hard = fit(kind, toy, {"group": toy.group}, sample_weight=weight, **options)
    soft = fit(kind, toy, one_hot(toy.group, estimator=estimator), sample_weight=weight, **options)
    # It follows from cells, which have no groups here: what is learned by heart is pooled.
    right = [column for column in hard.trace_ if column.endswith("accuracy")]
    np.testing.assert_allclose(hard.trace_[right], soft.trace_[right], atol=1e-3)
    a, b = (model.trace_.drop(columns=right).to_numpy(np.float64) for model in (hard, soft))
    # XGBoost has gradients in single precision, whose last digit depends on the order of sums.
    atol = 1e-12 if kind.name == "lightgbm" else 1e-6
    np.testing.assert_allclose(a, b, rtol=atol, atol=atol)
    p, q = hard.predict_proba(toy.X), soft.predict_proba(toy.X)
    np.testing.assert_allclose(p, q, rtol=atol, atol=atol)
    assert hard.best_iteration_ == soft.best_iteration_
    for v, w in zip(hard.fairness_report_.verdicts, soft.fairness_report_.verdicts, strict=True):
        assert (v.value, v.low, v.high, v.status) == (w.value, w.low, w.high, w.status)


def test_so_are_those_of_a_set_held_out(toy):
    rows = slice(400, None)
    sets = [
        (toy.X[rows], toy.y[rows], {"group": toy.group[rows]}),
        (toy.X[rows], toy.y[rows], one_hot(toy.group[rows])),
    ]
    hard, soft = (
        fit(KINDS["lightgbm"], toy, sensitive, holdout_set=held, min_group_rows=0)
        for sensitive, held in zip([{"group": toy.group}, one_hot(toy.group)], sets, strict=True)
    )
    np.testing.assert_array_equal(hard.predict_proba(toy.X), soft.predict_proba(toy.X))
    on = soft.report_on(*sets[1][:2], sensitive_features=sets[1][2])
    expected = hard.report_on(*sets[0][:2], sensitive_features=sets[0][2])
    assert on.test_verdicts[0].value == expected.test_verdicts[0].value


@pytest.fixture(scope="module")
def proxied(make_toy):
    """Rows of which the group is known with an AUC of about .85."""
    data = make_toy(n=8_000)
    rng = np.random.default_rng(0)
    inside = data.group == "b"
    z = rng.normal(size=len(data)) + 1.5 * inside
    odds = inside.mean() / (1 - inside.mean()) * np.exp(1.5 * z - 1.5**2 / 2)
    p = odds / (1 + odds)
    return data, pd.DataFrame({"a": 1 - p, "b": p})


def test_corrected_probabilities_close_the_true_gap(proxied, engine):
    data, table = proxied

    def gap(model):
        decided = model.predict(data.X)
        return abs(decided[data.group == "a"].mean() - decided[data.group == "b"].mean())

    found = {}
    for name, constraint in {"plain": None, "fair": parity("ppr", 0.02, by="group")}.items():
        model = FairGBMClassifier(
            engine(n_estimators=60), constraint=constraint, holdout=0.3, random_state=0
        )
        given = None if constraint is None else group_probabilities(table, "group")
        found[name] = gap(model.fit(data.X, data.y, sensitive_features=given))
    assert found["fair"] < 0.5 * found["plain"]


def test_the_order_of_groups_does_not_matter(proxied, engine):
    data, table = proxied
    models = [
        FairGBMClassifier(
            engine(), constraint=parity("ppr", 0.05, by="group"), random_state=0
        ).fit(data.X, data.y, sensitive_features=group_probabilities(table[list(order)], "group"))
        for order in ("ab", "ba")
    ]
    a, b = (model.predict_proba(data.X) for model in models)
    np.testing.assert_allclose(a, b, atol=1e-6)


def test_observed_groups_are_used_and_the_report_says_what_rates_estimate(proxied, engine):
    data, table = proxied
    seen = np.where(np.arange(len(data)) % 3 == 0, data.group.astype(object), None)
    race = group_probabilities(table, "group", observed=seen)
    model = FairGBMClassifier(engine(), constraint=parity("fnr", 0.05), random_state=0)
    model.fit(data.X, data.y, sensitive_features=race)
    said = str(model.fairness_report_)
    assert "equal by group by probability" in said
    assert "observed in 2,667 of 8,000 rows" in " ".join(said.split())
    assert "calibrated" in said
    assert any("Rates are corrected" in line for line in model.fairness_report_.advice)
    weighted = group_probabilities(table, "group", estimator="weighted")
    model.fit(data.X, data.y, sensitive_features=weighted)
    assert any("covariance of decision and group" in a for a in model.fairness_report_.advice)


@pytest.fixture(scope="module")
def aged(make_toy):
    """Rows with an age on which the rate of positives depends."""
    data = make_toy(n=4_000)
    rng = np.random.default_rng(0)
    age = np.round(rng.uniform(18, 80, len(data)))
    X = np.column_stack([data.X, age + rng.normal(0, 3, len(data))])
    y = (data.X[:, 0] + (age - 50) / 25 + rng.logistic(size=len(data)) > 0).astype(int)
    return X, y, age


def test_a_rate_is_held_flat_over_an_age(aged, engine):
    X, y, age = aged
    fair = FairGBMClassifier(
        engine(n_estimators=60),
        constraint=parity("ppr", 0.05, by=smooth("age", knots=4)),
        holdout=0.3,
        random_state=0,
    ).fit(X, y, sensitive_features={"age": age})
    plain = engine(n_estimators=60).fit(X, y)
    fine = np.searchsorted([30, 42, 55, 67], age)
    spread = [np.ptp([m.predict(X)[fine == k].mean() for k in range(5)]) for m in (fair, plain)]
    assert spread[0] < 0.35 * spread[1]
    report = fair.fairness_report_
    assert len(report.windows["age"]) == 4
    assert "equal by age as a number" in report.verdicts[0].constraint
    names = [f"rate: ppr[age=around {at:.4g}]" for at in report.windows["age"]]
    assert set(names) <= set(fair.trace_)


def test_a_model_of_an_age_is_saved_and_judges_other_rows_by_the_same_windows(
    aged, engine, tmp_path
):
    X, y, age = aged
    sensitive = {"age": np.where(np.arange(len(age)) % 9 == 0, np.nan, age)}
    constraint = [
        parity("fnr", 0.05, by=smooth("age", knots=5)),
        parity("ppr", by=smooth("age", 5)),
    ]
    model = FairGBMClassifier(engine(), constraint=constraint, holdout=0.3, random_state=0)
    model.fit(X, y, sensitive_features=sensitive)
    assert "rows have no age and count in no group" in model.fairness_report_.note
    model.save(tmp_path / "model.json")
    again = fairboost.load(tmp_path / "model.json")
    assert repr(again.constraint) == repr(constraint)
    assert again.constraint[0].by.knots == 5
    assert again.fairness_report_.windows == model.fairness_report_.windows
    young = {"age": age[:1_000] / 2}
    reports = [m.report_on(X[:1_000], y[:1_000], sensitive_features=young) for m in (model, again)]
    assert [str(v) for v in reports[0].test_verdicts] == [str(v) for v in reports[1].verdicts]
    fresh = clone(again).fit(X, y, sensitive_features=sensitive)
    np.testing.assert_array_equal(fresh.predict_proba(X), model.predict_proba(X))


def test_an_age_is_crossed_with_groups(aged, engine):
    X, y, age = aged
    sex = np.where(np.arange(len(age)) % 2, "F", "M")
    by = ("sex", smooth("age", knots=3))
    model = FairGBMClassifier(engine(), constraint=parity("ppr", 0.1, by=by), random_state=0)
    model.fit(X, y, sensitive_features={"age": age, "sex": sex})
    assert len(model.fairness_report_.rates) == 6
    assert set(model.fairness_report_.rates["group"].str[:5]) == {"sex=F", "sex=M"}


@pytest.mark.parametrize(
    ("sensitive", "match"),
    [
        ({"age": ["old"] * 600}, "the column holds 'old'"),
        ({"age": np.arange(600) % 3}, "3 distinct numbers; compare its values as groups"),
        ({"age": np.ones(600)}, "nothing to compare"),
        ({"years": np.arange(600) % 30}, "names the column 'age', which is not among"),
        (
            {"age": group_probabilities(np.full((600, 2), 0.5), "age", estimator="weighted")},
            "'age' has group probabilities",
        ),
    ],
)
def test_bad_ages_are_refused_before_training(refuses, sensitive, match):
    refuses(
        (InvalidInputError, ConstraintError),
        match,
        params={"constraint": parity("fnr", by=smooth("age"))},
        sensitive_features=sensitive,
    )


def test_bad_probabilities_are_refused_before_training(refuses, toy):
    table = pd.DataFrame(np.tile([[0.3, 0.7]], (600, 1)), columns=["a", "b"])
    params = {"constraint": parity("fnr", by="group")}
    refuses(InvalidInputError, "hardly separate", params=params,
            sensitive_features=group_probabilities(table, "group"))  # fmt: skip
    short = group_probabilities(table[:50], "group", estimator="weighted")
    refuses(
        InvalidInputError, "has 50 rows but X has 600", params=params, sensitive_features=short
    )
    misnamed = {"race": group_probabilities(table, "group", estimator="weighted")}
    refuses(InvalidInputError, "under the name 'race'", params=params, sensitive_features=misnamed)
    two = [parity("fnr", by=smooth("age", 3)), parity("ppr", by=smooth("age", 4))]
    refuses(ConstraintError, "give both the same knots", params={"constraint": two},
            sensitive_features={"age": np.arange(600.0)})  # fmt: skip


def test_other_indices_and_other_groups_are_refused(toy, engine):
    table = pd.get_dummies(toy.group).astype(float)
    X = pd.DataFrame(toy.X)
    model = FairGBMClassifier(engine(), constraint=parity("fnr", 0.1, by="group"))
    shifted = group_probabilities(table.set_axis(X.index + 5), "group")
    with pytest.raises(InvalidInputError, match="pandas indices that differ"):
        model.fit(X, toy.y, sensitive_features=shifted)
    held = (toy.X, toy.y, group_probabilities(table.rename(columns={"b": "c"}), "group"))
    with pytest.raises(InvalidInputError, match="groups 'a', 'c' of 'group', expected those"):
        model.fit(toy.X, toy.y, sensitive_features=one_hot(toy.group), holdout_set=held)
    hard = (toy.X, toy.y, {"group": toy.group})
    with pytest.raises(InvalidInputError, match="pass both in the same form"):
        model.fit(toy.X, toy.y, sensitive_features=one_hot(toy.group), holdout_set=hard)


def test_where_it_cannot_be_it_is_refused_by_name(toy, engine):
    soft = one_hot(toy.group)
    paper = FairGBMClassifier.paper(engine(), constraint=parity("fnr", by="group"))
    with pytest.raises(InvalidInputError, match=r"by the paper's multipliers.*two_sided"):
        paper.fit(toy.X, toy.y, sensitive_features=soft)
    several = FairGBMClassifier(engine(), constraint="equal_opportunity")
    with pytest.raises(InvalidInputError, match="three classes or more"):
        several.fit(toy.X, np.arange(600) % 3, sensitive_features=soft)
    number = FairGBMRegressor(LGBMRegressor(verbose=-1), constraint="equal_means")
    with pytest.raises(InvalidInputError, match="where a number is predicted"):
        number.fit(toy.X, toy.y * 1.0, sensitive_features=soft)


def test_it_is_refused_on_dask(toy):
    pytest.importorskip("dask", reason="Dask is an extra")
    from xgboost.dask import DaskXGBClassifier

    model = FairGBMClassifier(DaskXGBClassifier(), constraint=parity("fnr", by="group"))
    with pytest.raises(InvalidInputError, match="not supported on Dask"):
        model.fit(toy.X, toy.y, sensitive_features=one_hot(toy.group))


def test_weights_that_corrections_make_negative_are_refused(toy, engine):
    # Far from calibrated: nobody of the positive rows looks like a member of "b".
    p = np.where(toy.y == 1, 0.02, np.where(np.arange(600) % 2, 0.9, 0.05))
    soft = group_probabilities({"a": 1 - p, "b": p}, "group")
    model = FairGBMClassifier(engine(), constraint=parity("fnr", by="group"))
    with pytest.raises(ConstraintError, match=r"corrected weight of group 'group=b'.*calibrate"):
        model.fit(toy.X, toy.y, sensitive_features=soft)


def test_memberships_are_learned_from_draws(aged, engine):
    X, y, age = aged
    model = FairGBMClassifier(
        engine(n_estimators=20),
        constraint=parity("ppr", 0.05, by=smooth("age", knots=3)),
        memberships="honest",
        holdout=0.3,
        random_state=0,
    ).fit(X, y, sensitive_features={"age": age})
    observed = clone(model).set_params(memberships="observed")
    observed.fit(X, y, sensitive_features={"age": age})
    assert (model.predict_proba(X) != observed.predict_proba(X)).any()


@pytest.mark.parametrize("of", ["numbers", "probabilities"])
def test_floors_of_soft_groups_are_trained(of, toy):
    """Whether they can be reached is not looked at before: rows are in several groups."""
    sensitive, by = one_hot(toy.group), "group"
    if of == "numbers":
        numbers = np.random.default_rng(0).uniform(20, 70, len(toy.y))
        sensitive, by = {"age": numbers}, smooth("age", knots=3)
    model = fit(KINDS["lightgbm"], toy, sensitive, constraint=at_least("tpr", 0.3, by=by))
    assert model.fairness_report_.rates["held out"].between(0, 1).all()


@pytest.mark.parametrize(
    "constraint",
    [minimax("loss"), minimax("error"), "calibrated", [parity("ppr"), bound("error", 0.4)]],
    ids=repr,
)
def test_what_reads_losses_or_probabilities_is_refused(constraint, toy):
    with pytest.raises(InvalidInputError, match="not supported with minimax"):
        fit(KINDS["lightgbm"], toy, one_hot(toy.group), constraint=constraint)


def test_a_reference_by_column_keeps_the_windows():
    by = parity("ppr", ratio=0.8, by=smooth("age"), reference={"age": 40}).by
    assert repr(by) == "smooth('age')"
