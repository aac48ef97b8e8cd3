"""A fair stage: a few small trees on a frozen model, whose own trees stay as they are, bit by bit.

``FairGBMClassifier(FrozenEstimator(fitted), ...)`` goes on from a model that someone has already
validated. What comes out is one stock booster.
"""

from __future__ import annotations

import pickle
import re
import warnings

import lightgbm
import numpy as np
import pandas as pd
import pytest
from scipy.special import expit
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LinearRegression

from fairboost import FairGBMClassifier, load, parity
from fairboost.exceptions import EngineOptionError, InvalidInputError
from fairboost.metrics import gap, group_rates

pytestmark = [
    # LightGBM's own fit warns of it since 4.7; what it offers instead does not encode labels.
    pytest.mark.filterwarnings("ignore:The argument 'eval_set' is deprecated"),
]


@pytest.fixture(scope="session")
def other(make_toy):
    """Rows of the same kind, that the base has not seen."""
    return make_toy(n=1_000, seed=1)


@pytest.fixture(scope="session")
def base(engine, toy):
    """Eight trees, fitted; nobody changes them."""
    return engine().fit(toy.X, toy.y)


def stage_on(base, **params):
    # The group is not a feature, but what learns memberships is tested elsewhere.
    defaults = {"constraint": "demographic_parity", "memberships": "observed"}
    return FairGBMClassifier(FrozenEstimator(base), **{**defaults, **params})


def fitted(base, data, X=None, *, y=None, fit=None, **params):
    model = stage_on(base, **{"tolerance": 0.01, **params})
    X, y = data.X if X is None else X, data.y if y is None else y
    return model.fit(X, y, sensitive_features=data.group, **(fit or {}))


def trees_in(booster):
    """The text of each tree."""
    text = booster.model_to_string(num_iteration=-1).split("end of trees")[0]
    return re.split(r"^Tree=\d+\n", text, flags=re.MULTILINE)[1:]


def assert_stands_on(model, base, X):
    """Its first trees are those of the base, and the rest is more of the same booster."""
    n = base.booster_.num_trees()
    kept = model.booster_.predict(X, raw_score=True, num_iteration=n)
    np.testing.assert_array_equal(kept, base.predict(X, raw_score=True))
    assert trees_in(model.booster_)[:n] == trees_in(base.booster_)
    assert model.booster_.num_trees() == model.best_iteration_ >= n


def assert_exports(model, X, folder):
    model.export(folder / "model.txt")
    booster = lightgbm.Booster(model_file=folder / "model.txt")
    expected = model.predict_proba(X)[:, 1]
    np.testing.assert_allclose(booster.predict(X), expected, rtol=0, atol=1e-12)
    return booster


# One stock booster, which begins with the base

BASES = {
    "plain": {},
    "class weights": {"class_weight": "balanced"},
    "weights by label": {"class_weight": {0: 1.0, 1: 4.0}},
    "scale_pos_weight": {"scale_pos_weight": 3.0},
    "is_unbalance": {"is_unbalance": True},
    "bagging": {"subsample": 0.6, "subsample_freq": 1},
    "monotone": {"monotone_constraints": [1, -1, 0, 0]},
    "extra trees": {"extra_trees": True},
    "no average": {"boost_from_average": False},
    "dart": {"boosting_type": "dart", "drop_rate": 0.5},
    "one tree": {"n_estimators": 1},
    "stumps": {"num_leaves": 2},
    "no split": {"min_split_gain": 1e9},
}


@pytest.mark.filterwarnings("ignore:The model decides:fairboost.exceptions.FairnessWarning")
@pytest.mark.parametrize("options", BASES.values(), ids=BASES)
def test_the_result_is_the_base_and_then_more_trees(engine, toy, other, tmp_path, options):
    base = engine(**options).fit(toy.X, toy.y)
    model = fitted(base, toy, iterate="last", holdout=0.3)
    assert_stands_on(model, base, other.X)
    booster = assert_exports(model, other.X, tmp_path)
    contributions = booster.predict(other.X, pred_contrib=True)
    np.testing.assert_allclose(
        expit(contributions.sum(axis=1)), model.predict_proba(other.X)[:, 1], rtol=0, atol=1e-9
    )
    if options != BASES["no split"]:
        assert model.best_iteration_ > base.booster_.num_trees()


def test_linear_trees_too(engine, toy, other, tmp_path):
    base = engine(linear_tree=True).fit(toy.X, toy.y)
    model = fitted(base, toy, iterate="last", holdout=0.3)
    assert_stands_on(model, base, other.X)
    assert_exports(model, other.X, tmp_path)  # LightGBM has no contributions of linear trees


def test_linear_trees_without_numbers_are_refused(engine, toy):
    """LightGBM would start from 0 where the base has no score."""
    X = toy.X * [1.0, 1e300, 1.0, 1.0]
    base = engine(linear_tree=True, num_leaves=3).fit(X, toy.y)
    assert np.isnan(base.predict(X, raw_score=True)).any()
    with pytest.raises(InvalidInputError, match=r"frozen model has a linear tree .* leaf is NaN"):
        FairGBMClassifier(FrozenEstimator(base)).fit(X, toy.y, sensitive_features=toy.group)


def test_contributions_add_up_by_the_shap_package(base, toy, other):
    with warnings.catch_warnings(action="ignore"):  # on import, about matplotlib
        shap = pytest.importorskip("shap")
        model = fitted(base, toy, iterate="last", holdout=0.3)
        explained = shap.TreeExplainer(model.booster_)(other.X[:50])
    total = explained.values.sum(axis=-1) + explained.base_values
    scores = model.booster_.predict(other.X[:50], raw_score=True)
    np.testing.assert_allclose(total.ravel(), scores, rtol=0, atol=1e-9)


def test_the_stages_trees_are_small_and_few(base, engine, toy):
    large = engine(num_leaves=63, n_estimators=12).fit(toy.X, toy.y)
    model = fitted(large, toy, iterate="last", holdout=0.3)
    leaves = model.booster_.trees_to_dataframe().query("left_child.isna()")
    per_tree = leaves.groupby("tree_index").size()
    assert per_tree[:12].max() > 15 >= per_tree[12:].max()
    assert 1 <= model.best_iteration_ - 12 <= 40


@pytest.mark.parametrize("iterate", ["best", "last"])
def test_the_base_stays_as_it_was(engine, toy, iterate):
    base = engine(random_state=None).fit(toy.X, toy.y)
    before = base.booster_.model_to_string(), base.get_params(), dict(base.__dict__)
    fitted(base, toy, iterate=iterate, random_state=3)
    assert base.booster_.model_to_string() == before[0]
    assert base.get_params() == before[1]
    assert base.__dict__ == before[2]


def test_training_begins_at_the_base(base, toy, other):
    """f_0 of Algorithm 1 is the base: its rates and its loss stand in the first line."""
    held = (other.X, other.y, other.group)
    model = fitted(base, toy, fit={"holdout_set": held})
    first = model.trace_.iloc[0]
    rates = group_rates(other.y, base.predict(other.X), sensitive_features=other.group)
    for g in "ab":
        value = rates.query("group == @g and rate == 'ppr'")["value"].item()
        assert first[f"rate: ppr[sensitive_feature={g}]"] == pytest.approx(value, abs=1e-12)
    for rows, name in ((other, "held-out loss"), (toy, "loss")):
        f = base.predict(rows.X, raw_score=True)
        loss = np.logaddexp(0, np.where(rows.y == 1, -f, f)).mean()
        assert first[name] == pytest.approx(loss, rel=1e-9)


# It mends what is to be mended, and nothing else


def ppr_gap(model, data):
    decided = model.predict(data.X)
    return gap(
        data.y, decided, rate="ppr", sensitive_features=data.group
    ).value  # fmt: skip


HOW = {
    "share": {"holdout": 0.3},
    "cross": {"holdout": "cross"},
    "set": {},
    "training rows": {"holdout": None},
    "paper": {"multipliers": "paper", "multiplier_learning_rate": 1.0, "holdout": None},
}


@pytest.mark.parametrize("weighted", [False, True], ids=["", "weighted"])
@pytest.mark.parametrize("how", HOW)
def test_the_gap_on_new_rows_falls_by_a_third_or_more(base, toy, make_toy, other, how, weighted):
    fit = {"sample_weight": toy.weight} if weighted else {}
    if how == "set":
        fit["holdout_set"] = (other.X, other.y, other.group)
    model = fitted(base, toy, fit=fit, **HOW[how])
    again = fitted(base, toy, fit=fit, **HOW[how])
    assert_stands_on(model, base, toy.X)
    assert len(model.trace_) == 40
    assert model.trace_.filter(like="multiplier: ").max(axis=None) > 0
    new = make_toy(n=4_000, seed=2)
    assert ppr_gap(base, new) > 0.1
    # The sampling error of the 600 rows that it is fitted on is .04.
    assert ppr_gap(model, new) < 0.67 * ppr_gap(base, new)
    np.testing.assert_array_equal(model.predict_proba(toy.X), again.predict_proba(toy.X))


def test_a_base_within_tolerance_is_kept_as_it_is(base, toy, other):
    """Out-of-fold trees do not improve on a base that has seen all rows."""
    model = fitted(base, toy, tolerance=0.9)
    assert model.best_iteration_ == 8 and model.fairness_report_.met
    assert model.multipliers_.sum() == 0
    np.testing.assert_array_equal(model.predict_proba(other.X), base.predict_proba(other.X))


@pytest.mark.parametrize("n_estimators", [3, 8, 40])
def test_no_harm_is_done_to_a_base_within_tolerance(engine, toy, other, make_toy, n_estimators):
    """Trees are added only where they help rows that neither has seen."""
    base = engine(n_estimators=n_estimators).fit(toy.X, toy.y)
    model = fitted(base, toy, tolerance=0.9, fit={"holdout_set": (other.X, other.y, other.group)})

    def loss(m, data):
        p = m.predict_proba(data.X)[:, 1]
        return -np.log(np.where(data.y == 1, p, 1 - p)).mean()

    assert loss(model, other) <= loss(base, other) + 1e-12
    new = make_toy(n=4_000, seed=2)
    accuracy = [(m.predict(new.X) == new.y).mean() for m in (model, base)]
    assert accuracy[0] >= accuracy[1] - 0.01


def test_several_constraints_and_columns(base, toy, other):
    sensitive = pd.DataFrame({"group": toy.group, "half": np.arange(len(toy)) % 2})
    model = FairGBMClassifier(
        FrozenEstimator(base),
        constraint=[parity("fpr", 0.02, by="group"), parity("fnr", 0.02, by="half")],
    ).fit(toy.X, toy.y, sensitive_features=sensitive)
    assert_stands_on(model, base, other.X)
    assert [v.constraint for v in model.fairness_report_.verdicts] == [
        "false positive rate equal by group, tolerance 0.02",
        "false negative rate equal by half, tolerance 0.02",
    ]


def test_the_operating_point_is_that_of_the_stage(base, toy, other):
    held = {"holdout_set": (other.X, other.y, other.group)}
    model = fitted(base, toy, operating_point=0.7, fit=held)
    positive = base.predict_proba(other.X)[:, 1] >= 0.7
    first = model.trace_.iloc[0]
    for g in "ab":
        expected = positive[other.group == g].mean()
        assert first[f"rate: ppr[sensitive_feature={g}]"] == pytest.approx(expected)


def test_without_a_constraint_boosting_goes_on(base, toy):
    model = fitted(base, toy, constraint=None)
    assert_stands_on(model, base, toy.X)
    assert model.best_iteration_ == 48
    assert model.trace_["loss"].iloc[-1] < model.trace_["loss"].iloc[0]


# Bases of all kinds


@pytest.mark.parametrize("labels", [["no", "yes"], [False, True], [-1, 1]], ids=str)
def test_labels_of_any_type(engine, toy, other, tmp_path, labels):
    y = np.array(labels)[toy.y]
    base = engine().fit(toy.X, y)
    model = fitted(base, toy, y=y)
    as_numbers = fitted(engine().fit(toy.X, toy.y), toy)
    assert model.classes_.tolist() == labels
    assert set(model.predict(other.X)) == set(labels)
    np.testing.assert_array_equal(model.predict_proba(other.X), as_numbers.predict_proba(other.X))
    assert_exports(model, other.X, tmp_path)


def test_pandas_categories_and_missing_values(engine, toy, other, tmp_path):
    base = engine(min_child_samples=5).fit(toy.frame, toy.y)
    model = fitted(base, toy, toy.frame, iterate="last", holdout=0.3)
    assert_stands_on(model, base, other.frame)
    assert_exports(model, other.frame, tmp_path)
    added = model.booster_.trees_to_dataframe().query("tree_index >= 8")
    assert "==" in set(added["decision_type"].dropna())  # the stage splits by category as well
    # Categories in another order are still the same people.
    moved = other.frame
    moved["debt"] = moved["debt"].cat.reorder_categories(sorted(set("vwxyz"), reverse=True))
    np.testing.assert_array_equal(model.predict_proba(moved), model.predict_proba(other.frame))


def test_categories_of_a_set_held_out_may_be_in_another_order(engine, toy, other):
    base = engine(min_child_samples=5).fit(toy.frame, toy.y)
    moved = other.frame
    moved["debt"] = moved["debt"].cat.set_categories(["z", "y", "x", "w", "v", "u"])
    traces = [
        fitted(base, toy, toy.frame, fit={"holdout_set": (X, other.y, other.group)}).trace_
        for X in (other.frame, moved)
    ]
    pd.testing.assert_frame_equal(*traces)


def test_a_base_that_was_stopped_early(engine, toy, other, tmp_path):
    base = engine(n_estimators=200).fit(
        toy.X,
        toy.y,
        eval_set=[(other.X, other.y)],
        callbacks=[lightgbm.early_stopping(3, verbose=False)],
    )
    assert base.best_iteration_ < 150
    model = fitted(base, toy, iterate="last", holdout=0.3)
    assert_stands_on(model, base, other.X)
    assert model.best_iteration_ == base.best_iteration_ + 40
    assert_exports(model, other.X, tmp_path)


def test_a_base_that_holds_more_trees_than_it_predicts_with(engine, toy, other, tmp_path):
    """A booster remembers its best round, and predicts by the trees up to it."""
    base = engine(n_estimators=20).fit(toy.X, toy.y)
    base.booster_.best_iteration = 12
    model = fitted(base, toy, iterate="last", holdout=0.3)
    kept = model.booster_.predict(other.X, raw_score=True, num_iteration=12)
    np.testing.assert_array_equal(kept, base.predict(other.X, raw_score=True))
    assert model.booster_.num_trees() == model.best_iteration_ == 12 + 40
    assert_exports(model, other.X, tmp_path)
    idle = fitted(base, toy, tolerance=0.9)
    np.testing.assert_array_equal(idle.predict_proba(other.X), base.predict_proba(other.X))
    assert idle.best_iteration_ == 12


def test_a_base_with_fewer_trees_than_rounds(engine, toy, other):
    """Rounds that grow no tree count in the best round that early stopping leaves."""
    base = engine(n_estimators=20).fit(toy.X, toy.y)
    base.booster_.best_iteration = 23
    model = fitted(base, toy, fit={"holdout_set": (other.X, other.y, other.group)})
    assert 20 < model.best_iteration_ < 60  # so that trees too many would show
    decided = model.predict(other.X)
    rates = [decided[other.group == g].mean() for g in "ab"]
    np.testing.assert_allclose(model.fairness_report_.rates["held out"], rates)
    last = fitted(base, toy, iterate="last")
    assert last.best_iteration_ == last.booster_.num_trees() == 20 + 40
    assert last._model.n_base == 20


def test_a_base_that_was_stopped_early_by_its_own_option(engine, toy, other):
    """The stage has no set to be stopped by, and is not."""
    base = engine(n_estimators=200, early_stopping_round=3)
    base.fit(toy.X, toy.y, eval_set=[(other.X, other.y)])
    model = fitted(base, toy)
    assert_stands_on(model, base, other.X)
    assert len(model.trace_) == 40


# LightGBM knows most options by several names, and its favourite is not always scikit-learn's.
OTHER_NAMES = {
    "dart": {"boosting": "dart"},
    "rounds": {"num_iterations": 60},
    "leaves": {"max_leaves": 60, "min_child_samples": 2},
    "learning rate": {"eta": 0.9},
    "early stopping": {"early_stopping_rounds": 5},
}


@pytest.mark.parametrize("options", OTHER_NAMES.values(), ids=OTHER_NAMES)
def test_the_size_of_the_stage_is_its_own_whatever_the_base_calls_its(engine, toy, other, options):
    base = engine(**options).fit(toy.X, toy.y, eval_set=[(other.X, other.y)])
    model = fitted(base, toy, iterate="last", holdout=0.3)
    assert_stands_on(model, base, other.X)
    assert len(model.trace_) == 40
    text = "".join(trees_in(model.booster_)[base.booster_.num_trees() :])
    assert set(re.findall(r"^shrinkage=(.*)$", text, re.MULTILINE)) == {"0.1"}
    assert max(map(int, re.findall(r"^num_leaves=(\d+)$", text, re.MULTILINE))) <= 15


def test_evaluation_sets_go_on_from_the_base(base, toy, other):
    model = fitted(base, toy, iterate="last", fit={"eval_set": [(other.X, other.y)]}, holdout=0.3)
    losses = model.estimator_.evals_result_["valid_0"]["binary_logloss"]
    assert len(losses) == 40
    for k in (0, 20, 39):
        f = model.booster_.predict(other.X, raw_score=True, num_iteration=8 + k + 1)
        expected = np.logaddexp(0, np.where(other.y == 1, -f, f)).mean()
        assert losses[k] == pytest.approx(expected, rel=1e-9)


@pytest.mark.parametrize("iterate", ["best", "last"])
def test_the_stage_itself_may_be_stopped_early(base, toy, other, iterate):
    """By labels turned round it stops at once: all there is are the base and a tree.

    Rounds that were dropped are neither kept nor reported.
    """
    stop = lightgbm.early_stopping(3, verbose=False)
    model = fitted(
        base, toy, iterate=iterate, tolerance=0.99,
        fit={
            "eval_set": [(other.X, 1 - other.y)],
            "callbacks": [stop],
            "holdout_set": (other.X, other.y, other.group),
        },
    )  # fmt: skip
    assert model.best_iteration_ == 9
    assert_stands_on(model, base, toy.X)
    assert len(model.trace_) == 5  # the rounds are judged one round later
    decided = model.predict(other.X)
    expected = [decided[other.group == g].mean() for g in "ab"]
    assert model.fairness_report_.rates["held out"].tolist() == pytest.approx(expected)


# Copies and files


def test_a_clone_stands_on_the_same_base(base, toy, other):
    model = fitted(base, toy)
    copy = clone(model)
    assert copy.estimator.estimator is base  # frozen: not even cloning unfits it
    with pytest.raises(NotFittedError):
        copy.predict(toy.X)
    copy.fit(toy.X, toy.y, sensitive_features=toy.group)
    np.testing.assert_array_equal(copy.predict_proba(other.X), model.predict_proba(other.X))


def test_a_pickle_holds_the_base_as_well(base, toy, other):
    model = fitted(base, toy)
    copy = pickle.loads(pickle.dumps(model))
    np.testing.assert_array_equal(copy.predict_proba(other.X), model.predict_proba(other.X))
    copy.fit(toy.X, toy.y, sensitive_features=toy.group)
    np.testing.assert_array_equal(copy.predict_proba(other.X), model.predict_proba(other.X))


KEPT = {
    "plain": {},
    "dart": {"boosting_type": "dart"},
    "weights by label": {"class_weight": {0: 1.0, 1: 4.0}},
}


@pytest.mark.parametrize("options", KEPT.values(), ids=KEPT)
@pytest.mark.parametrize("tolerance", [0.01, 0.9], ids=["", "without further trees"])
def test_a_file_holds_the_model_and_the_base(engine, toy, other, tmp_path, options, tolerance):
    base = engine(**options).fit(toy.X, toy.y)
    model = fitted(base, toy, tolerance=tolerance)
    model.save(tmp_path / "model.json")
    again = load(tmp_path / "model.json")
    expected = model.predict_proba(other.X)
    np.testing.assert_array_equal(again.predict_proba(other.X), expected)
    pd.testing.assert_frame_equal(again.trace_, model.trace_)
    assert again.best_iteration_ == model.best_iteration_
    assert str(again.fairness_report_) == str(model.fairness_report_)
    assert_exports(again, other.X, tmp_path)
    assert isinstance(again.estimator, FrozenEstimator)
    assert again.estimator.estimator.get_params() == base.get_params()
    np.testing.assert_array_equal(
        again.estimator.predict_proba(other.X), base.predict_proba(other.X)
    )
    again.fit(toy.X, toy.y, sensitive_features=toy.group)
    np.testing.assert_array_equal(again.predict_proba(other.X), expected)
    again.save(tmp_path / "again.json")
    assert (tmp_path / "again.json").read_text() == (tmp_path / "model.json").read_text()


def test_a_file_holds_the_categories_of_the_base(engine, toy, other, tmp_path):
    base = engine(min_child_samples=5).fit(toy.frame, toy.y)
    model = fitted(base, toy, toy.frame)
    model.save(tmp_path / "model.json")
    again = load(tmp_path / "model.json")
    expected = model.predict_proba(other.frame)
    np.testing.assert_array_equal(again.predict_proba(other.frame), expected)
    again.fit(toy.frame, toy.y, sensitive_features=toy.group)
    np.testing.assert_array_equal(again.predict_proba(other.frame), expected)


# What cannot be stood on, said before training


@pytest.fixture
def no_training(monkeypatch, base):
    def fit(self, *args, **kwargs):
        raise AssertionError("LightGBM was asked to train")

    monkeypatch.setattr(lightgbm.LGBMClassifier, "fit", fit)


@pytest.mark.parametrize("iterate", ["average", "randomized"])
def test_iterates_that_would_change_the_base(base, toy, no_training, iterate):
    with pytest.raises(
        InvalidInputError, match=f"iterate='{iterate}' is not possible on top of a"
    ):
        fitted(base, toy, iterate=iterate)


def test_a_base_that_is_not_fitted(engine, toy, no_training):
    with pytest.raises(EngineOptionError, match="in FrozenEstimator is not fitted; fit it first"):
        fitted(engine(), toy)


def test_a_model_of_another_kind(toy, no_training):
    other_kind = LinearRegression().fit(toy.X, toy.y)
    with pytest.raises(
        EngineOptionError, match=r"must be an LGBMClassifier or XGBClassifier, found LinearRegres"
    ):
        fitted(other_kind, toy)


def test_a_base_of_more_classes(engine, toy):
    base = engine().fit(toy.X, np.digitize(toy.X[:, 0], [-0.5, 0.5]))
    with pytest.raises(EngineOptionError, match=r"the labels \[0, 1, 2\], but y has \[0, 1"):
        fitted(base, toy)


def test_other_labels(base, toy, no_training):
    with pytest.raises(EngineOptionError, match=r"labels \[0, 1\], but y has \['n', 'y'\]"):
        fitted(base, toy, y=np.where(toy.y == 1, "y", "n"))


@pytest.mark.parametrize(
    "change",
    [
        lambda debt: debt.cat.reorder_categories(list("zyxwv")),
        lambda debt: debt.cat.add_categories("u"),
        lambda debt: debt.cat.codes.astype(float),
    ],
    ids=["order", "one more", "none"],
)
def test_other_categories(engine, toy, change):
    base = engine(min_child_samples=5).fit(toy.frame, toy.y)
    frame = toy.frame
    frame["debt"] = change(frame["debt"])
    with pytest.raises(InvalidInputError, match="other categories than those the frozen model"):
        fitted(base, toy, frame)


def test_fewer_features(base, toy, no_training):
    with pytest.raises(InvalidInputError, match=r"3 features, but the frozen model .* on 4; pass"):
        fitted(base, toy, toy.X[:, :3])


NAMES = ["annual income", "debt", "noise", "district"]


def test_features_in_another_order(engine, toy):
    """The base would score columns mixed up, without a word."""
    frame = pd.DataFrame(toy.X, columns=NAMES)
    base = engine().fit(frame, toy.y)
    with pytest.raises(InvalidInputError, match=r"'district' where the frozen model has 'annual"):
        fitted(base, toy, frame[NAMES[::-1]])


@pytest.mark.parametrize("forms", [(0, 0), (0, 1), (1, 0)], ids=["", "base", "stage"])
def test_features_may_have_names_in_one_of_the_two_only(engine, toy, other, forms):
    """As LightGBM itself has it; names with blanks it writes in its own way."""
    of_base, of_stage = (toy.X if bare else pd.DataFrame(toy.X, columns=NAMES) for bare in forms)
    base = engine().fit(of_base, toy.y)
    with warnings.catch_warnings(action="ignore"):  # scikit-learn's, that names are missing
        model = fitted(base, toy, of_stage)
    np.testing.assert_array_equal(
        model.booster_.predict(other.X, raw_score=True, num_iteration=8),
        base.booster_.predict(other.X, raw_score=True),
    )
