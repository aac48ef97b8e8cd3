"""``memberships``: whose groups are learned, whose are taken as observed, and what is refused."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
from sklearn.frozen import FrozenEstimator

from fairboost import FairGBMClassifier, bound, parity, tradeoff_curve
from fairboost.exceptions import FairboostError, InvalidInputError
from fairboost.training import memberships, options

# The toy's feature "district" hints at the group and does not give it away.


@pytest.fixture(autouse=True)
def enough_rows(monkeypatch):
    """The toy has a few hundred rows: few, but enough for these tests."""
    monkeypatch.setattr(memberships, "FEW_ROWS", 100)


@pytest.fixture
def asked(monkeypatch):
    """What was asked of ``honest`` and ``recoverability``, which do their work as ever."""
    calls = SimpleNamespace(honest=[], recoverability=[])
    for name, record in vars(calls).items():
        whole = getattr(memberships, name)

        def spy(rows, *, _whole=whole, _record=record, **options):
            _record.append({**vars(rows), **options})
            return _whole(rows, **options)

        monkeypatch.setattr(memberships, name, spy)
    return calls


@pytest.fixture
def used(monkeypatch):
    """The memberships that gradients went by, a dict per game."""
    seen = []

    class Spy(options.Game):
        def __init__(self, task, layout, *args):
            seen.append(layout.memberships)
            super().__init__(task, layout, *args)

    monkeypatch.setattr(options, "Game", Spy)
    return seen


def fitted(engine, X, y, group, *, fit=None, **params):
    own = not isinstance(params.get("constraint", ""), str)  # tolerances of their own
    defaults = {"holdout": 0.3, "tolerance": None if own else 0.01}
    model = FairGBMClassifier(engine, **{**defaults, **params})
    return model.fit(X, y, sensitive_features=group, **(fit or {}))


def with_group(toy):
    """X with the group among the features."""
    return np.column_stack([toy.X, toy.group == "b"])


# Which groups are learned


def test_groups_that_are_a_feature_are_taken_as_observed(engine, toy, asked, used):
    fitted(engine(), with_group(toy), toy.y, toy.group)
    assert len(asked.recoverability) == 1 and not asked.honest
    assert used == [{}]


def test_groups_that_are_not_a_feature_are_learned(engine, toy, asked, used):
    fitted(engine(), toy.X, toy.y, toy.group, holdout=None)
    (call,) = asked.honest
    assert call["n_codes"] == 2
    np.testing.assert_array_equal(call["codes"], (toy.group == "b").astype(int))
    ((columns, likely),) = used[0].items()
    assert columns == ("sensitive_feature",)
    np.testing.assert_allclose(likely.sum(axis=1), 1, rtol=1e-5)
    assert likely[toy.group == "b", 1].mean() > 0.1 + likely[toy.group == "a", 1].mean()


@pytest.mark.parametrize("feature", [False, True], ids=["", "a feature"])
@pytest.mark.parametrize(("chosen", "learned"), [("observed", 0), ("honest", 1)])
def test_a_choice_of_the_users_is_followed_unseen(engine, toy, asked, chosen, learned, feature):
    X = with_group(toy) if feature else toy.X
    fitted(engine(), X, toy.y, toy.group, memberships=chosen)
    assert (len(asked.honest), len(asked.recoverability)) == (learned, 0)


def test_of_several_columns_only_those_are_learned_that_features_do_not_give_away(
    engine, toy, asked, used
):
    half = np.where(np.arange(len(toy)) % 2, "odd", "even")
    constraint = [
        parity("fnr", 0.0, by="group"),
        parity("fpr", 0.0, by="half"),
        parity("ppr", 0.0, by="half"),  # the same groups are not learned twice
        parity("ppr", 0.5, by=("group", "half")),
        bound("ppr", 0.9),  # everyone is of one group
        bound("fnr", 0.9, group={"group": "a"}),
    ]
    fitted(
        engine(), with_group(toy), toy.y, {"group": toy.group, "half": half}, constraint=constraint
    )
    assert len(asked.recoverability) == 3
    assert [call["n_codes"] for call in asked.honest] == [2, 4]
    assert list(used[0]) == [("half",), ("group", "half")]


@pytest.mark.parametrize("constraint", [None, bound("fpr", 0.3)], ids=["none", "everyone"])
def test_without_groups_to_compare_there_is_nothing_to_learn(engine, toy, asked, constraint):
    fitted(engine(), toy.X, toy.y, toy.group, constraint=constraint, memberships="honest")
    assert not asked.honest and not asked.recoverability


@pytest.mark.parametrize("limit", ["FEW_ROWS", "MANY_ROWS"])
def test_of_few_rows_and_of_many_groups_are_taken_as_observed(
    engine, toy, asked, used, monkeypatch, limit
):
    monkeypatch.setattr(memberships, limit, len(toy) + (limit == "FEW_ROWS"))
    fitted(engine(), toy.X, toy.y, toy.group)
    assert used == [{}] and not asked.recoverability and not asked.honest


def test_the_paper_goes_by_observed_groups(engine, toy, asked):
    FairGBMClassifier.paper(engine()).fit(toy.X, toy.y, sensitive_features=toy.group)
    fitted(engine(), toy.X, toy.y, toy.group, multipliers="paper")
    assert not asked.honest and not asked.recoverability


@pytest.mark.parametrize("how", [0.3, "cross", None, "set", "stage"])
def test_they_serve_wherever_rates_are_read(engine, toy, make_toy, asked, how):
    other = make_toy(n=200, seed=1)
    held = {"holdout_set": (other.X, other.y, other.group)} if how == "set" else {}
    chosen = engine() if how != "stage" else FrozenEstimator(engine().fit(toy.X, toy.y))
    holdout = how if how in (0.3, "cross", None) else "auto"
    model = fitted(chosen, toy.X, toy.y, toy.group, fit=held, holdout=holdout)
    assert len(asked.honest) == 1
    assert len(asked.honest[0]["codes"]) == len(toy)  # of training rows alone
    assert model.multipliers_.size == 8


def test_a_curve_learns_them_once(engine, toy, asked):
    tradeoff_curve(engine(), toy.X, toy.y, sensitive_features=toy.group, tolerances=4)
    assert len(asked.honest) == 1


# They are the same data


def test_weights_categories_threads_and_seeds_are_handed_on(engine, toy, asked):
    fitted(
        engine(), toy.X, toy.y, toy.group,
        random_state=7,
        fit={"sample_weight": toy.weight, "categorical_feature": [2]},
    )  # fmt: skip
    (call,) = asked.honest
    np.testing.assert_array_equal(call["weight"], toy.weight)
    for learner in (call["learner"], asked.recoverability[0]["learner"]):
        assert (learner.categorical_feature, learner.threads) == ([2], 1)
    assert call["seed"] == asked.recoverability[0]["seed"] != 0


def test_same_random_state_same_model(engine, toy):
    models = [fitted(engine(), toy.X, toy.y, toy.group, random_state=s) for s in (1, 1, 2)]
    one, same, another = (model.predict_proba(toy.X) for model in models)
    np.testing.assert_array_equal(one, same)
    assert (one != another).any()


@pytest.mark.parametrize("form", [pd.DataFrame, list], ids=["frame", "lists"])
def test_tables_of_other_forms(engine, toy, form):
    X = pd.DataFrame(toy.X) if form is pd.DataFrame else toy.X.tolist()
    model = fitted(engine(), X, toy.y, toy.group, memberships="honest")
    expected = fitted(engine(), toy.X, toy.y, toy.group, memberships="honest")
    np.testing.assert_allclose(model.predict_proba(X), expected.predict_proba(toy.X), atol=1e-9)


def test_categories_and_missing_values_of_a_frame(engine, toy, asked):
    fitted(engine(), toy.frame, toy.y, toy.group)
    assert len(asked.honest) == 1


def test_rows_without_a_group_are_of_none(engine, toy, asked, used):
    missing = np.arange(len(toy)) % 5 == 0
    group = np.where(missing, None, toy.group)
    model = fitted(engine(), toy.X, toy.y, group, holdout=None)
    np.testing.assert_array_equal(asked.honest[0]["codes"] < 0, missing)
    (likely,) = used[0].values()
    assert not likely[missing].any()
    np.testing.assert_allclose(likely[~missing].sum(axis=1), 1, rtol=1e-5)
    assert model.multipliers_.sum() > 0


def test_a_share_held_out_has_no_part_in_gradients(engine, toy, used):
    """Memberships are learned on all rows; the others' are put in the order of training."""
    whole, part = (
        fitted(engine(), toy.X, toy.y, toy.group, memberships="honest", holdout=h) and used[-1]
        for h in (None, 0.3)
    )
    (whole,), (part,) = whole.values(), part.values()
    assert len(part) == pytest.approx(0.7 * len(whole), abs=2)
    places = [np.flatnonzero((whole == row).all(axis=1)) for row in part[:50]]
    assert all(len(p) for p in places)
    assert (np.diff([p[0] for p in places]) > 0).mean() > 0.9


# They are what gradients go by


@pytest.mark.parametrize("constraint", ["equalized_odds", "demographic_parity"])
def test_certain_memberships_are_observed_groups(engine, toy, monkeypatch, constraint):
    def certain(rows, **options):
        return np.eye(rows.n_codes, dtype=np.float32)[rows.codes]

    monkeypatch.setattr(memberships, "honest", certain)
    params = {"constraint": constraint, "holdout": 0.3}
    soft = fitted(engine(), toy.X, toy.y, toy.group, memberships="honest", **params)
    hard = fitted(engine(), toy.X, toy.y, toy.group, memberships="observed", **params)
    assert hard.multipliers_.sum() > 0
    np.testing.assert_allclose(
        soft.decision_function(toy.X), hard.decision_function(toy.X), rtol=0, atol=1e-5
    )


def test_memberships_that_say_nothing_leave_the_constraint_without_effect(
    engine, toy, monkeypatch
):
    """For two groups the pushes on either cancel out where a row is of both by their shares.

    With rates of both labels, as here, W_a : W_b are the groups' shares of the rows.
    """
    shares = np.array([(toy.group == g).mean() for g in "ab"], np.float32)

    def nothing(rows, **options):
        return np.tile(shares, (len(rows.labels), 1))

    monkeypatch.setattr(memberships, "honest", nothing)
    params = {"holdout": None, "iterate": "last", "memberships": "honest"}
    model = fitted(engine(), toy.X, toy.y, toy.group, constraint="demographic_parity", **params)
    assert model.multipliers_.sum() > 0
    plain = engine().fit(toy.X, toy.y).predict(toy.X, raw_score=True)
    # Not quite: pushes that cancel out leave no gradient, and no curvature either.
    np.testing.assert_allclose(model.decision_function(toy.X), plain, rtol=0, atol=1e-3)


# What is refused


def test_the_paper_refuses_what_is_not_in_it(refuses):
    refuses(
        InvalidInputError,
        r"memberships='honest' is not part of the paper's algorithm; use multipliers='two_sided'",
        params={"memberships": "honest", "multipliers": "paper"},
    )


@pytest.mark.parametrize("name", ["soft", None, True, "Honest", 1])
def test_unknown_names(refuses, name):
    refuses(
        InvalidInputError,
        r"memberships must be 'auto', 'observed' or 'honest', found ",
        params={"memberships": name},
    )


def without_b(data):
    """A set to hold out that has no row of the second group."""
    a = data.group == "a"
    return data.X[a], data.y[a], data.group[a]


@pytest.mark.parametrize(
    ("params", "held"),
    [
        pytest.param({"constraint": "fairness"}, False, id="constraint"),
        pytest.param({"proxy": "step"}, False, id="proxy"),
        pytest.param({"operating_point": 2.0}, False, id="operating point"),
        pytest.param({"multiplier_learning_rate": -1.0}, False, id="learning rate"),
        pytest.param({"holdout": 0.0005}, False, id="share"),
        pytest.param({"holdout": "auto"}, True, id="set"),
    ],
)
def test_whatever_else_is_wrong_is_said_before_memberships_are_learned(
    engine, toy, make_toy, monkeypatch, params, held
):
    """They take most of the time before training."""

    def learn(*args, **options):
        raise AssertionError("memberships were asked for")

    monkeypatch.setattr(memberships, "honest", learn)
    fit = {"holdout_set": without_b(make_toy(n=200, seed=1))} if held else {}
    with pytest.raises(FairboostError):
        fitted(engine(), toy.X, toy.y, toy.group, memberships="honest", fit=fit, **params)
