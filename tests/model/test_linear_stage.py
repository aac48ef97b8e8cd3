"""A stage of few weights on any model: what it solves, what it is held to, and its files."""

from __future__ import annotations

import json
import pickle
from types import SimpleNamespace

import lightgbm
import numpy as np
import pandas as pd
import polars
import pyarrow
import pytest
from lightgbm import LGBMClassifier
from scipy.sparse import csc_matrix
from scipy.special import expit, logit
from sklearn.base import clone
from sklearn.ensemble import RandomForestClassifier
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LogisticRegression

from fairboost import (
    FairGBMClassifier,
    LinearStage,
    at_positive_rate,
    bound,
    group_probabilities,
    load,
    minimax,
    parity,
    report,
)
from fairboost.datasets import make_loans
from fairboost.exceptions import (
    EngineOptionError,
    ExportError,
    InvalidInputError,
    ModelFileError,
)
from fairboost.study.linear_post import fit_rule

pytestmark = pytest.mark.filterwarnings("ignore::fairboost.exceptions.FairnessWarning")


@pytest.fixture(scope="module")
def rows(make_toy):
    """Rows that the base is trained on, those of the stage, and others."""
    return SimpleNamespace(
        seen=make_toy(1_500, 1), new=make_toy(4_000, 2), test=make_toy(20_000, 3)
    )


@pytest.fixture(scope="module")
def base(rows):
    return LogisticRegression().fit(rows.seen.X, rows.seen.y)


def linear(**options):
    return LinearStage(n_jobs=1, **options)


def on(base, data, **params):
    fit = params.pop("fit", {})
    X, y, groups = (params.pop(name, None) for name in ("X", "y", "groups"))
    given = {"constraint": "demographic_parity", "tolerance": 0.02, "stage": linear()}
    model = FairGBMClassifier(base, **{**given, **params})
    X, y = data.X if X is None else X, data.y if y is None else y
    groups = data.group if groups is None else groups
    return model.fit(X, y, sensitive_features=groups, **fit)


@pytest.fixture(scope="module")
def fitted(base, rows):
    """One that nobody changes."""
    return on(FrozenEstimator(base), rows.new)


def rates(decided, data, label=None):
    counts = np.ones(len(data.y), bool) if label is None else data.y == label
    return np.array([decided[counts & (data.group == g)].mean() for g in "ab"])


def difference(model, data, label=None):
    return abs(np.subtract(*rates(model.predict(data.X), data, label)))


# Exactly solvable cases


def test_a_shift_between_groups_is_taken_back():
    """Base log-odds are u + 1 in group a and u in group b, with the same u in both groups.

    The one feature is the group, so that memberships are nearly 0 and 1, and rates are equal where
    the stage gives a exactly 1 less than b.
    """
    u = np.tile(logit((np.arange(1_500) + 0.5) / 1_500), 2)
    in_a = np.repeat([1.0, 0.0], 1_500)
    y = (np.random.default_rng(0).random(3_000) < expit(u + in_a)).astype(int)
    asked = {"constraint": "demographic_parity", "tolerance": 0.005, "holdout": None}
    model = FairGBMClassifier(stage=linear(), **asked)
    score = expit(u + in_a)
    model.fit(in_a[:, np.newaxis], y, sensitive_features=in_a, base_score=score)
    stage = model._model.scores(np.array([[0.0], [1.0]]))
    # Half of 0.005 to either side is a shift of 0.01 where one row in four is within 1.
    assert stage[1] - stage[0] == pytest.approx(-1, abs=0.03)
    decided = model.predict(in_a[:, np.newaxis], base_score=score)
    assert abs(decided[:1_500].mean() - decided[1_500:].mean()) <= 0.005


def test_groups_that_features_reveal_by_half():
    """Rows are of three kinds: all of a, all of b, and half and half.

    With weights (s, -s) the term of the positive label is s, -s and log cosh s.
    """
    rng = np.random.default_rng(0)
    kind = np.repeat([0, 1, 2], 6_000)
    in_a = np.where(kind == 2, rng.random(18_000) < 0.5, kind == 0)
    u = rng.normal(size=18_000)
    y = (rng.random(18_000) < expit(u + 0.8 * in_a)).astype(int)
    p = expit(u + np.select([kind == 0, kind == 1], [0.8, 0.0], 0.4))
    asked = {"constraint": "equal_opportunity", "tolerance": 0.01, "holdout": None}
    model = FairGBMClassifier(stage=linear(), **asked)
    X = kind[:, np.newaxis].astype(float)
    model.fit(X, y, sensitive_features=np.where(in_a, "a", "b"), base_score=p)
    a, b = model.estimator_.weights_
    found = model._model.scores(np.array([[0.0], [1.0], [2.0]]))
    share = in_a[(kind == 2) & (y == 1)].mean()
    middle = np.log(share * np.exp(a) + (1 - share) * np.exp(b))
    np.testing.assert_allclose(found, [a, b, middle], atol=0.05)
    assert a < b
    decided = model.predict(X, base_score=p)
    gap = abs(decided[in_a & (y == 1)].mean() - decided[~in_a & (y == 1)].mean())
    assert gap <= 0.0101


def known_world(n, seed):
    """Rows of which P(label, group | x) is known, as an array of rows, labels and groups."""
    rng = np.random.default_rng(seed)
    kind, u = rng.integers(0, 3, n), rng.normal(size=n)
    share = np.array([0.9, 0.5, 0.1])[kind]
    shares, likely = np.stack([share, 1 - share], axis=1), expit(u[:, None] + [0.8, -0.4])
    joint = np.stack([shares * (1 - likely), shares * likely], axis=1)
    in_b = (rng.random(n) >= share).astype(int)
    y = (rng.random(n) < likely[np.arange(n), in_b]).astype(int)
    return np.column_stack([kind, u]), y, in_b, joint


@pytest.mark.parametrize("constraint", ["equal_opportunity", "demographic_parity"])
def test_no_linear_rule_is_more_accurate(constraint):
    """The linear program knows the true probabilities; at the same gap it is hardly better."""
    (X, y, groups, joint), (new, _, _, true) = (known_world(20_000, 1), known_world(50_000, 2))
    model = FairGBMClassifier(constraint=constraint, tolerance=0.02, stage=linear())
    model.fit(X, y, sensitive_features=groups, base_score=joint[:, 1].sum(axis=1))

    def expected(decided):
        """Accuracy and gap, by the true probabilities."""
        right = np.where(decided, true[:, 1].sum(axis=1), true[:, 0].sum(axis=1)).mean()
        counts = true[:, 1] if constraint == "equal_opportunity" else true.sum(axis=1)
        first, second = (decided[:, None] * counts).sum(axis=0) / counts.sum(axis=0)
        return right, abs(first - second)

    of_base, wide = expected(true[:, 1].sum(axis=1) >= 0.5)
    accuracy, gap = expected(model.predict(new, base_score=true[:, 1].sum(axis=1)) == 1)
    rule = fit_rule(true[:5_000], constraint, max(gap, 0.005))
    best, reached = expected(rule(true, 0) == 1)
    assert wide > 0.1
    assert gap < 0.04
    assert reached < gap + 0.02  # what 5,000 rows tell
    assert best - 0.003 < accuracy < of_base


# Gaps close on new rows


@pytest.mark.parametrize("holdout", ["auto", "cross", 0.3, None])
def test_the_gap_closes_on_new_rows(base, rows, holdout):
    model = on(FrozenEstimator(base), rows.new, holdout=holdout)
    assert difference(base, rows.test) > 0.1
    assert difference(model, rows.test) < 0.07  # of which 0.02 is the tolerance
    assert model.fairness_report_ is not None


def test_equalized_odds_close_both_gaps(rows):
    """Of scores that hold the column of the group against people."""
    score, new = (expit(1.5 * d.X[:, 0] + 1 - 1.5 * d.X[:, 3]) for d in (rows.new, rows.test))
    asked = {"constraint": "equalized_odds", "tolerance": 0.03}
    model = on(None, rows.new, fit={"base_score": score}, **asked)
    decided = model.predict(rows.test.X, base_score=new)
    for label in (0, 1):
        assert abs(np.subtract(*rates(new >= 0.5, rows.test, label))) > 0.2
        assert abs(np.subtract(*rates(decided, rows.test, label))) < 0.07
    assert len(model.estimator_.weights_) == 4
    assert len(model.booster_) == 2


def test_loans_under_equal_opportunity():
    """Sex is not among the features; over three seeds test gaps are a fraction of the base's."""
    before, after, errors = [], [], []
    for seed in range(3):
        old, loans, new = (make_loans(12_000, seed=10 * seed + k) for k in range(3))
        base = LGBMClassifier(n_estimators=30, n_jobs=1, verbose=-1).fit(old.X, old.y)
        model = FairGBMClassifier(
            FrozenEstimator(base), constraint="equal_opportunity", stage=linear(), random_state=0
        ).fit(loans.X, loans.y, sensitive_features=loans.sensitive["sex"])
        sex, ones = new.sensitive["sex"].to_numpy(), new.y == 1
        of_base = base.predict_proba(new.X)[:, 1] >= 0.5
        for decided, found in ((of_base, before), (model.predict(new.X), after)):
            first, second = (decided[ones & (sex == g)].mean() for g in np.unique(sex))
            found.append(abs(first - second))
        errors.append((model.predict(new.X) == new.y).mean() - (of_base == new.y).mean())
    assert np.mean(before) > 0.1
    assert np.mean(after) < 0.045  # the standard error of a gap is 0.017
    assert np.mean(errors) > -0.03


def test_learned_groups_need_no_column(fitted, rows):
    """Decisions do not change with a column that no one has."""
    assert fitted.n_features_in_ == 4
    assert len(fitted.estimator_.weights_) == 4
    np.testing.assert_array_equal(
        fitted.predict(rows.test.X[:50]), fitted.predict(rows.test.X)[:50]
    )


# What is measured is what is predicted


@pytest.mark.parametrize(
    "asked",
    [
        {"holdout": 0.3},
        {"holdout": 0.3, "operating_point": at_positive_rate(0.3)},
        {"holdout": 0.3, "constraint": "equalized_odds", "operating_point": 0.4},
        {"holdout": 0.3, "constraint": [parity("fnr", 0.05), bound("fpr", 0.2)]},
        {"holdout": 0.3, "constraint": minimax("error"), "tolerance": None},
        {"holdout": 0.3, "constraint": "predictive_parity"},
        {"holdout": 0.3, "constraint": "calibrated", "tolerance": None},
        {"holdout": 0.3, "multipliers": "paper"},
        {"holdout": None, "confidence": 0.9},
    ],
    ids=str,
)
def test_every_option_goes_with_it(base, rows, asked):
    if isinstance(asked.get("constraint"), list):
        asked = {**asked, "tolerance": None}
    model = on(FrozenEstimator(base), rows.new, **asked)
    again = on(FrozenEstimator(base), rows.new, **asked)
    np.testing.assert_array_equal(model.predict(rows.test.X), again.predict(rows.test.X))
    proba = model.predict_proba(rows.test.X)[:, 1]
    scores = logit(np.clip(base.predict_proba(rows.test.X)[:, 1], *model._base.clip))
    np.testing.assert_allclose(
        logit(proba), scores + model._model.scores(rows.test.X), rtol=1e-6, atol=1e-6
    )
    np.testing.assert_array_equal(model.predict(rows.test.X), proba >= model.threshold_)


def test_a_held_out_set_is_measured(base, rows):
    held = rows.seen
    model = on(
        FrozenEstimator(base), rows.new,
        fit={"holdout_set": (held.X, held.y, held.group, held.weight)},
    )  # fmt: skip
    decided = model.predict(held.X)
    found = model.fairness_report_.rates.select_dtypes("number").to_numpy()
    for g in "ab":
        own = held.group == g
        expected = np.average(decided[own], weights=held.weight[own])
        assert np.isclose(found, expected, atol=1e-6).any()


def test_a_share_that_is_held_out_is_measured(base, rows):
    model = on(FrozenEstimator(base), rows.new, holdout=0.4)
    held = model.fairness_report_
    assert "40%" in held.note
    trained = model.report_on(rows.new.X, rows.new.y, sensitive_features=rows.new.group)
    assert trained is not None


def test_weights_count(base, rows):
    """A row of weight 2 is two rows, up to the seed of who is drawn."""
    asked = {"holdout": None, "random_state": 0}
    data = rows.seen
    weight = 1.0 + (np.arange(len(data.y)) % 2)
    model = on(FrozenEstimator(base), data, fit={"sample_weight": weight}, **asked)
    decided = model.predict(data.X)
    shares = [np.average(decided[data.group == g], weights=weight[data.group == g]) for g in "ab"]
    assert abs(shares[0] - shares[1]) <= 0.021


def test_several_groups_and_a_tiny_one(base, rows):
    """Groups of fewer than 20 rows are not learned: everyone is of it with its share."""
    groups = rows.new.group.astype(object).copy()
    groups[:800], groups[800:812], groups[812:900] = "c", "d", None
    model = on(FrozenEstimator(base), rows.new, groups=groups, tolerance=0.05, min_group_rows=0)
    weights = model.estimator_.weights_
    assert list(weights.index.get_level_values("group").unique()) == [
        f"sensitive_feature={g}" for g in "abcd"
    ]
    for block in model._model.blocks:
        assert 3 not in block.learned
        members = block.members(rows.test.X[:100])
        np.testing.assert_allclose(members.sum(axis=1), 1)
        np.testing.assert_allclose(members[:, 3], block.shares[3])


def test_without_a_constraint_the_base_stays(base, rows):
    model = on(FrozenEstimator(base), rows.new, constraint=None, tolerance=None)
    decided = base.predict_proba(rows.test.X)[:, 1] >= 0.5
    np.testing.assert_array_equal(model.predict(rows.test.X), decided)
    assert model.best_iteration_ == 0
    assert model.booster_ == ()


def test_scores_alone_and_an_unfitted_base(base, rows):
    score = base.predict_proba(rows.new.X)[:, 1]
    model = on(None, rows.new, fit={"base_score": score}, random_state=0)
    frozen = on(FrozenEstimator(base), rows.new, random_state=0)
    np.testing.assert_array_equal(
        model.predict(rows.test.X, base_score=base.predict_proba(rows.test.X)[:, 1]),
        frozen.predict(rows.test.X),
    )
    crossed = on(RandomForestClassifier(20, min_samples_leaf=5, random_state=0), rows.seen)
    assert difference(crossed, rows.test) < 0.1


def test_columns_of_the_stage_and_categories(base, rows):
    """Memberships are learned from the columns of the stage alone, categories among them."""
    frame = pd.DataFrame(rows.new.X, columns=list("wxyz"))
    frame["kind"] = pd.Categorical(np.where(rows.new.group == "a", "one", "two"))
    other = frame.assign(w=0.0)
    model = FairGBMClassifier(
        constraint="demographic_parity", tolerance=0.02, stage=linear(), stage_features=["kind"]
    )
    score = base.predict_proba(rows.new.X)[:, 1]
    model.fit(frame, rows.new.y, sensitive_features=rows.new.group, base_score=score)
    decided = model.predict(frame, base_score=score)
    np.testing.assert_array_equal(model.predict(other, base_score=score), decided)
    # The one column gives the group away: a shift for each group.
    assert len(np.unique(model._model.scores(frame[["kind"]]).round(6))) == 2


@pytest.mark.parametrize("form", ["polars", "arrow", "sparse", "list"])
@pytest.mark.parametrize("holdout", [0.3, "cross"])
def test_any_table(base, rows, form, holdout):
    data = rows.seen
    frame = pd.DataFrame(data.X, columns=list("wxyz"))
    table = {
        "polars": lambda: polars.from_pandas(frame),
        "arrow": lambda: pyarrow.Table.from_pandas(frame),
        "sparse": lambda: csc_matrix(data.X),
        "list": lambda: data.X.tolist(),
    }[form]()
    fit = {"base_score": base.predict_proba(data.X)[:, 1]}
    expected = on(None, data, fit=fit, holdout=holdout)
    model = on(None, data, X=table, fit=fit, holdout=holdout)
    np.testing.assert_array_equal(
        model.predict_proba(table, **fit), expected.predict_proba(data.X, **fit)
    )


def test_the_positive_label_may_be_the_smaller_one(rows):
    base = LogisticRegression().fit(rows.seen.X, 1 - rows.seen.y)
    model = on(FrozenEstimator(base), rows.new, y=1 - rows.new.y, pos_label=0)
    assert difference(model, rows.test) < 0.07


def test_a_report_and_a_clone(fitted, rows):
    assert "LinearStage" in str(clone(fitted).get_params()["stage"])
    found = fitted.report_on(rows.test.X, rows.test.y, sensitive_features=rows.test.group)
    assert found.test_verdicts
    shown = report.gather(fitted, rows.test.X, rows.test.y, sensitive_features=rows.test.group)
    assert "LinearStage" in str(shown.model)


def test_same_seed_same_model(base, rows):
    models = [on(FrozenEstimator(base), rows.new, random_state=3) for _ in range(2)]
    assert models[0]._model.text() == models[1]._model.text()


def test_names_of_groups_do_not_matter(base, rows):
    turned = np.where(rows.new.group == "a", "z", "b")
    models = [
        on(FrozenEstimator(base), rows.new, groups=groups, random_state=0, holdout=None)
        for groups in (rows.new.group, turned)
    ]
    scores = [model.decision_function(rows.test.X) for model in models]
    np.testing.assert_allclose(scores[0], scores[1], atol=0.02)


# Files


def test_a_model_comes_back(fitted, base, rows, tmp_path):
    path = tmp_path / "model.json"
    fitted.save(path)
    again = load(path, base=base)
    expected = fitted.predict_proba(rows.test.X)
    np.testing.assert_array_equal(again.predict_proba(rows.test.X), expected)
    pd.testing.assert_series_equal(again.estimator_.weights_, fitted.estimator_.weights_)
    assert again.stage.get_params() == fitted.stage.get_params()
    copied = pickle.loads(pickle.dumps(fitted))
    np.testing.assert_array_equal(copied.predict_proba(rows.test.X), expected)


def test_an_edited_weight_is_found_out(fitted, base, tmp_path):
    path = tmp_path / "model.json"
    fitted.save(path)
    path.write_text(path.read_text().replace('\\"label\\": 1', '\\"label\\": 0', 1))
    with pytest.raises(ModelFileError):
        load(path, base=base)


def test_texts_that_are_not_sound(fitted):
    from fairboost.engines.linear.engine import restore

    text = json.loads(fitted._model.text())

    def broken(**changes):
        found = json.loads(json.dumps(text))
        found["memberships"][0].update(changes)
        return json.dumps(found)

    assert restore(linear(), json.dumps(text), 0.0, None, 4, 0).n_rounds == fitted.best_iteration_
    for wrong in (
        {"label": 2}, {"groups": []}, {"shares": [0.9, 0.9]}, {"shares": [0.5]},
        {"learned": [0, 0]}, {"learned": [0, 7]}, {"booster": None}, {"path": [[0.0, 0.0]]},
        {"path": [[1e9, 0.0]] * len(text["memberships"][0]["path"])},
    ):  # fmt: skip
        with pytest.raises(ModelFileError, match="not sound"):
            restore(linear(), broken(**wrong), 0.0, None, 4, 0)
    with pytest.raises(ModelFileError, match="no linear stage"):
        restore(linear(), "{}", 0.0, None, 4, 0)


def by_note(path, base, X):
    """Probabilities by the exported files alone."""
    note = json.loads(path.read_text())
    about = note["base"]
    b = logit(np.clip(base.predict_proba(X)[:, about["column"]], *about["clip"]))
    for block in note["memberships"]:
        groups = block["groups"]
        w = np.tile([g["share"] for g in groups], (len(X), 1))
        if "file" in block:
            p = lightgbm.Booster(model_file=path.with_name(block["file"])).predict(X)
            p = np.stack([1 - p, p], axis=1) if p.ndim == 1 else p
            learned = sum(g["share"] for g in groups if g["column"] is not None)
            for k, g in enumerate(groups):
                if g["column"] is not None:
                    w[:, k] = p[:, g["column"]] * learned
        b += block["sign"] * np.log(w @ [g["factor"] for g in groups])
    return expit(b), note


@pytest.mark.parametrize("n_groups", [2, 4])
def test_exported_files_decide_as_the_model(base, rows, tmp_path, n_groups):
    groups = rows.new.group.astype(object).copy()
    if n_groups == 4:
        groups[:800], groups[800:812] = "c", "d"
    model = on(FrozenEstimator(base), rows.new, groups=groups, tolerance=0.05)
    path = tmp_path / "stage.json"
    model.export(path)
    proba, note = by_note(path, base, rows.test.X)
    np.testing.assert_allclose(proba, model.predict_proba(rows.test.X)[:, 1], atol=1e-9)
    decided = proba >= note["threshold"]
    np.testing.assert_array_equal(decided, model.predict(rows.test.X))
    assert sorted(p.name for p in tmp_path.iterdir()) == [
        "stage.0.txt", "stage.1.txt", "stage.json"
    ]  # fmt: skip


def test_other_formats_are_refused(fitted, tmp_path):
    for asked in ({"format": "onnx"}, {"format": "lightgbm"}):
        with pytest.raises(ExportError, match="leave format out or use format='linear'"):
            fitted.export(tmp_path / "stage.json", **asked)
    with pytest.raises(ExportError, match=r"expected \.json"):
        fitted.export(tmp_path / "stage.txt")
    assert not list(tmp_path.iterdir())


def test_a_second_export_leaves_no_boosters_of_the_first(base, rows, tmp_path):
    path, own = tmp_path / "stage.json", tmp_path / "stage.2024.txt"
    own.write_text("not a booster")
    first = on(FrozenEstimator(base), rows.new, constraint="demographic_parity")
    first.export(path)
    written = {p.name for p in tmp_path.glob("stage.*.txt")} - {own.name}
    assert len(written) == 2
    (tmp_path / "stage.0.txt").touch()
    second = on(FrozenEstimator(base), rows.new, constraint="equal_opportunity")
    second.export(path)
    listed = {b["file"] for b in json.loads(path.read_text())["memberships"]}
    assert {p.name for p in tmp_path.glob("stage.*.txt")} == {*listed, own.name}
    assert own.read_text() == "not a booster"
    first.export(path)
    changed = tmp_path / "stage.1.txt"
    changed.write_text("changed by somebody")
    second.export(path)
    assert changed.read_text() == "changed by somebody"


# What it does not go with


@pytest.mark.parametrize(
    ("asked", "match"),
    [
        ({"stage": linear(rounds=0)}, "rounds of LinearStage must be a whole number, 1 or more"),
        ({"stage": linear(num_leaves=1.5)}, "num_leaves of LinearStage"),
        ({"memberships": "honest"}, "LinearStage learns memberships by itself"),
        ({"iterate": "average"}, "is not possible on top of a frozen model"),
        ({"fit": {"callbacks": [print]}}, "callbacks is about rounds of trees"),
        ({"constraint": None, "operating_point": at_positive_rate(0.2)}, "for nothing"),
    ],
)
def test_what_is_refused(base, rows, asked, match):
    if asked.get("constraint", 0) is None:
        asked = {**asked, "tolerance": None}
    with pytest.raises((EngineOptionError, InvalidInputError), match=match):
        on(FrozenEstimator(base), rows.new, **asked)


def test_groups_by_probability_are_refused(base, rows):
    p = np.where(rows.new.group == "a", 0.9, 0.2)
    likely = pd.DataFrame({"a": p, "b": 1 - p})
    with pytest.raises(InvalidInputError, match="by LinearStage"):
        on(FrozenEstimator(base), rows.new, groups=group_probabilities(likely, "sex"))


def test_it_is_a_stage_and_no_model(rows):
    for estimator in (linear(), FrozenEstimator(linear())):
        with pytest.raises(InvalidInputError, match="pass it as stage=LinearStage"):
            on(estimator, rows.new, stage=None)
    with pytest.raises(InvalidInputError, match="stage is about a stage on a base model"):
        on(LGBMClassifier(), rows.new)
