"""The trade-off curve: its models, its table, and what can be picked from it."""

from __future__ import annotations

import lightgbm
import numpy as np
import pandas as pd
import pytest
from lightgbm import LGBMClassifier
from scipy.special import logit
from scipy.stats import spearmanr
from sklearn.base import clone
from sklearn.frozen import FrozenEstimator

from fairboost import FairGBMClassifier, TradeoffCurve, bound, load, parity, tradeoff_curve
from fairboost.data.cells import SensitiveColumn, build_cells
from fairboost.data.holdout import choose
from fairboost.datasets import make_loans
from fairboost.exceptions import ConstraintError, EngineOptionError, InvalidInputError
from fairboost.metrics import gap
from fairboost.metrics.intervals import wilson

COLUMNS = [
    "tolerance", "accuracy", "accuracy low", "accuracy high",
    "gap", "gap low", "gap high", "trees",
]  # fmt: skip


def engine(**options):
    defaults = {"n_estimators": 20, "num_leaves": 15, "learning_rate": 0.2}
    return LGBMClassifier(**{**defaults, **options}, n_jobs=1, verbose=-1)


@pytest.fixture(scope="module")
def loans():
    return make_loans(5_000, seed=0)


@pytest.fixture(scope="module")
def held():
    """Rows enough to tell a gap to about .01."""
    return make_loans(12_000, seed=1)


@pytest.fixture(scope="module")
def test_rows():
    return make_loans(12_000, seed=2)


def sex(data):
    """Of a row, as a column that has its name."""
    return data.sensitive["sex"]


def of_set(held):
    return held.X, held.y, sex(held)


def draw(loans, tolerances=4, chosen=None, **options):
    defaults = {"sensitive_features": sex(loans), "constraint": "equal_opportunity"}
    return tradeoff_curve(
        engine() if chosen is None else chosen, loans.X, loans.y,
        tolerances=tolerances, **{**defaults, **options},
    )  # fmt: skip


@pytest.fixture(scope="module")
def curve(loans, held):
    """Eight models, on a set large enough to see what they differ by."""
    return draw(loans, 8, holdout_set=of_set(held))


@pytest.fixture(autouse=True)
def known_groups(monkeypatch):
    """Take groups as observed but in ``curve``; to learn them takes longer than all the rest."""
    monkeypatch.setattr(
        "fairboost.training.memberships.recoverability", lambda *args, **options: 1.0
    )


def fnr_gap(model, data):
    return gap(data.y, model.predict(data.X), rate="fnr", sensitive_features=sex(data)).value


# The models


def test_there_are_as_many_models_as_asked_for(curve):
    assert isinstance(curve, TradeoffCurve)
    assert len(curve.models) == len(curve.table) == 8
    assert all(isinstance(model, FairGBMClassifier) for model in curve.models)


def test_the_first_model_is_that_without_constraints(loans, test_rows):
    """On the same rows, all of them, it is plain LightGBM to the last digits."""
    first = draw(loans, 2, holdout=None).models[0]
    stock = engine().fit(loans.X, loans.y)
    np.testing.assert_allclose(
        first.predict_proba(test_rows.X), stock.predict_proba(test_rows.X), rtol=0, atol=1e-10
    )
    assert first.multipliers_.sum() == 0


def test_the_report_of_the_first_model_says_that_no_constraint_was_set(curve, test_rows, tmp_path):
    curve.models[0].save(tmp_path / "first.json")
    for first in (curve.models[0], load(tmp_path / "first.json")):
        asked = {"sensitive_features": sex(test_rows)}
        for report in (first.fairness_report_, first.report_on(test_rows.X, test_rows.y, **asked)):
            text = str(report)
            assert "No constraint was set for this model." in text
            assert "false negative rate by sex" in text
            assert all(word not in text for word in ("not met", "tolerance", "rounds", "- ,"))
    held = curve.within(float(curve.table["gap"].iloc[0]))
    assert held.fairness_report_.verdicts[0].status != "no limit was asked for"


def test_a_curve_is_printed_as_a_table(curve):
    for text in (str(curve), curve._repr_html_()):
        for found in ("no constraint", "accuracy", "gap between groups", "rows held out"):
            assert found in text
    assert len(str(curve).splitlines()) == 2 + 1 + len(curve.models)


def kept_rows(loans, share):
    """The rows that are trained on where a share is held out, without a random_state."""
    column = SensitiveColumn("sex", pd.factorize(sex(loans), sort=True)[0], ("female", "male"))
    cells = build_cells(loans.y, [column])
    return choose(share, cells, 0.0, None, np.random.default_rng(0)).folds == 0


def test_the_first_model_does_not_learn_from_rows_held_out(loans):
    first = draw(loans, 2, holdout=0.3).models[0]
    kept = kept_rows(loans, 0.3)
    start = logit(loans.y.mean())

    whole = lightgbm.Dataset(loans.X, loans.y, init_score=np.full(len(loans.y), start))
    part = whole.subset(np.flatnonzero(kept).tolist())
    options = {"objective": "binary", "num_leaves": 15, "learning_rate": 0.2, "num_threads": 1}
    by_hand = lightgbm.train({**options, "verbose": -1}, part, 20)
    expected = by_hand.predict(loans.X, raw_score=True) + start
    np.testing.assert_allclose(first.decision_function(loans.X), expected, rtol=0, atol=1e-9)


def test_the_first_model_is_as_accurate_as_any_without_constraints(curve, loans, test_rows):
    plain = FairGBMClassifier(engine(), constraint=None).fit(loans.X, loans.y)
    first, expected = (
        (model.predict(test_rows.X) == test_rows.y).mean() for model in (curve.models[0], plain)
    )
    assert first == pytest.approx(expected, abs=0.01)


def test_every_model_goes_on_from_the_first(curve, test_rows):
    """So the base's trees are in all of them."""
    base = curve.models[0].booster_
    n = base.num_trees()
    expected = base.predict(test_rows.X, raw_score=True)
    for model in curve.models[1:]:
        found = model.booster_.predict(test_rows.X, raw_score=True, num_iteration=n)
        np.testing.assert_array_equal(found, expected)
        assert n <= model.best_iteration_ <= n + 12


def test_tolerances_go_evenly_from_the_gap_without_constraints_to_zero(curve):
    tolerances = curve.table["tolerance"].to_numpy()
    assert np.isnan(tolerances[0]) and tolerances[-1] == 0
    widest = curve.table["gap"].iloc[0]
    np.testing.assert_allclose(tolerances[1:], np.linspace(widest, 0, 8)[1:])
    assert [m.tolerance for m in curve.models[1:]] == tolerances[1:].tolist()


def test_gaps_fall_along_the_curve(curve):
    table = curve.table[1:]
    assert spearmanr(table["tolerance"], table["gap"]).statistic > 0.8
    assert table["gap"].iloc[-1] < 0.2 * curve.table["gap"].iloc[0]


def test_gaps_fall_on_rows_of_no_ones_choosing(curve, test_rows):
    table = curve.on(test_rows.X, test_rows.y, sensitive_features=sex(test_rows))
    assert spearmanr(table["tolerance"][1:], table["gap"][1:]).statistic > 0.8
    assert table["gap"].iloc[-1] < 0.35 * table["gap"].iloc[0]


def test_what_a_tolerance_asks_for_is_met_on_the_rows_held_out(curve):
    """To within the sampling error of the held-out rows, .01 here; a stage is a dozen rounds."""
    over = curve.table["gap"][1:] - curve.table["tolerance"][1:]
    assert over.max() < 0.02


# Tolerances that the user lists


@pytest.mark.parametrize("form", [list, tuple, np.array, pd.Series])
def test_a_list_of_tolerances_goes_from_loose_to_tight(loans, form):
    table = draw(loans, form([0.01, 0.2, 0.05])).table
    assert np.isnan(table["tolerance"].iloc[0])
    assert table["tolerance"].tolist()[1:] == [0.2, 0.05, 0.01]


def test_no_tolerance_is_the_model_without_constraints(loans):
    assert len(draw(loans, []).models) == 1


@pytest.mark.parametrize("wrong", [1.0, -0.1, float("nan"), "0.1", None])
def test_a_tolerance_out_of_range(loans, wrong):
    with pytest.raises(ConstraintError, match=r"tolerance must lie in \[0, 1\), found"):
        draw(loans, [0.1, wrong])


@pytest.mark.parametrize("wrong", [1, 0, -3])
def test_too_few_models(loans, wrong):
    with pytest.raises(InvalidInputError, match=f"at least 2 models or a list .*, found {wrong}"):
        draw(loans, wrong)


@pytest.mark.parametrize("wrong", [1, [0.1, 1.0]], ids=str)
def test_tolerances_are_checked_before_training(loans, monkeypatch, wrong):
    def fit(self, *args, **kwargs):
        raise AssertionError("LightGBM was asked to train")

    monkeypatch.setattr(LGBMClassifier, "fit", fit)
    with pytest.raises((InvalidInputError, ConstraintError)):
        draw(loans, wrong)


def test_a_number_of_models_may_be_numpys(loans):
    assert len(draw(loans, np.int64(3)).models) == 3


# The table


def test_the_table_has_a_line_per_model_with_intervals_around_its_figures(curve):
    table = curve.table
    assert set(COLUMNS) | {"loss"} == set(table.columns)
    for name in ("accuracy", "gap"):
        assert (table[f"{name} low"] <= table[name]).all()
        assert (table[name] <= table[f"{name} high"]).all()
        assert (table[f"{name} low"] < table[f"{name} high"]).all()
        assert table[[f"{name} low", f"{name} high"]].to_numpy().min() >= 0
        assert table[[f"{name} low", f"{name} high"]].to_numpy().max() <= 1
    assert table["trees"].tolist() == [m.booster_.num_trees() for m in curve.models]


def assert_figures(curve, X, y, women):
    """Those of the models' predictions for the rows held out."""
    for model, line in zip(curve.models, curve.table.to_dict("records"), strict=True):
        p, decided = model.predict_proba(X)[:, 1], model.predict(X)
        accuracy = (decided == y).mean()
        assert line["accuracy"] == pytest.approx(accuracy)
        low, high = wilson(accuracy * len(y), len(y))
        assert (line["accuracy low"], line["accuracy high"]) == pytest.approx(
            (float(low), float(high))
        )
        loss = -np.log(np.where(y == 1, p, 1 - p)).mean()
        assert line["loss"] == pytest.approx(loss, rel=1e-6)
        exact = gap(y, decided, rate="fnr", sensitive_features=women)
        assert line["gap"] == pytest.approx(exact.value, abs=1e-12)
        verdict = model.fairness_report_.verdicts[0]
        assert (line["gap"], line["gap low"], line["gap high"]) == (
            verdict.value, verdict.low, verdict.high,
        )  # fmt: skip


def test_figures_are_those_of_the_models_on_the_set_given(curve, held):
    assert_figures(curve, held.X, held.y, sex(held))


def test_figures_are_those_of_the_models_on_the_share_held_out(loans):
    rows = ~kept_rows(loans, 0.3)
    assert_figures(draw(loans, 4, holdout=0.3), loans.X[rows], loans.y[rows], sex(loans)[rows])


@pytest.mark.parametrize("how", [0.3, "cross", "set"])
def test_every_stage_begins_where_the_first_model_ended(loans, held, how):
    """Rates, loss and accuracy of its first line are those of the model without constraints."""
    options = {"holdout_set": of_set(held)} if how == "set" else {"holdout": how}
    curve = draw(loans, 3, **options)
    base = curve.table.iloc[0]
    rates = curve.models[0].fairness_report_.rates["held out"]
    y, p = loans.y, curve.models[0].predict_proba(loans.X)[:, 1]
    losses = -np.log(np.where(y == 1, p, 1 - p))
    trained = losses[kept_rows(loans, how)] if how == 0.3 else losses
    for model in curve.models[1:]:
        first = model.trace_.iloc[0]
        np.testing.assert_allclose(first.filter(like="rate: ").to_numpy(float), rates)
        assert first["held-out loss"] == pytest.approx(base["loss"], rel=1e-9)
        assert first["held-out accuracy"] == pytest.approx(base["accuracy"], rel=1e-9)
        assert first["loss"] == pytest.approx(trained.mean(), rel=1e-6)


def test_the_table_on_test_rows(curve, test_rows):
    table = curve.on(test_rows.X, test_rows.y, sensitive_features=sex(test_rows))
    assert list(table.columns) == COLUMNS
    for model, line in zip(curve.models, table.to_dict("records"), strict=True):
        accuracy = (model.predict(test_rows.X) == test_rows.y).mean()
        assert line["accuracy"] == pytest.approx(accuracy)
        assert line["gap"] == pytest.approx(fnr_gap(model, test_rows), abs=1e-12)
    pd.testing.assert_series_equal(table["tolerance"], curve.table["tolerance"])


def test_the_table_on_weighted_test_rows(curve, test_rows):
    """Doubled weights are nothing new; those that leave out rows leave them out."""
    kept = np.arange(len(test_rows.y)) % 2 == 0
    weighted = curve.on(
        test_rows.X, test_rows.y, sensitive_features=sex(test_rows), sample_weight=2.0 * kept
    )
    alone = curve.on(test_rows.X[kept], test_rows.y[kept], sensitive_features=sex(test_rows)[kept])
    pd.testing.assert_frame_equal(weighted, alone)


def test_labels_may_be_text(loans, test_rows):
    names = np.array(["no", "yes"])
    named = tradeoff_curve(
        engine(), loans.X, names[loans.y], sensitive_features=sex(loans), tolerances=3
    )
    table = named.on(test_rows.X, names[test_rows.y], sensitive_features=sex(test_rows))
    assert (table["accuracy"] > 0.7).all()


# Picking a model


@pytest.mark.parametrize("alpha", [0, 0.25, 0.5, 1])
def test_best_weighs_accuracy_against_the_gap(curve, alpha):
    chosen = curve.table.iloc[curve.models.index(curve.best(alpha))]
    merit = alpha * curve.table["accuracy"] + (1 - alpha) * (1 - curve.table["gap"])
    assert alpha * chosen["accuracy"] + (1 - alpha) * (1 - chosen["gap"]) == merit.max()
    if alpha == 0:
        assert chosen["gap"] == curve.table["gap"].min()
    if alpha == 1:
        assert chosen["accuracy"] == curve.table["accuracy"].max()


def test_best_is_even_handed_unless_told_otherwise(curve):
    assert curve.best() is curve.best(0.5)


@pytest.mark.parametrize("alpha", [-0.1, 1.1, float("nan"), 50])
def test_an_alpha_out_of_range(curve, alpha):
    with pytest.raises(InvalidInputError, match=r"alpha must lie in \[0, 1\], found"):
        curve.best(alpha)


def test_within_is_the_most_accurate_of_those_that_are_fair_enough(curve):
    for tolerance in curve.table["gap"]:
        model = curve.within(tolerance)
        (at,) = (k for k, one in enumerate(curve.models) if one._model is model._model)
        chosen = curve.table.iloc[at]
        assert chosen["gap"] <= tolerance
        assert model.tolerance == model.fairness_report_.verdicts[0].limit == tolerance
        assert curve.plot(chosen=model).chosen == at
        rivals = curve.table[curve.table["gap"] <= tolerance]
        assert chosen["accuracy"] == rivals["accuracy"].max()
    assert curve.within(1.0) is curve.best(1)


def test_of_models_alike_in_accuracy_the_fairest_is_picked(curve):
    tied = TradeoffCurve(curve.models, curve.table.assign(accuracy=0.8))
    fairest = curve.models[curve.table["gap"].argmin()]
    assert tied.best(1) is tied.within(1.0) is fairest
    assert tied.within(0.99)._model is fairest._model


def test_within_names_the_least_gap_there_is(curve):
    least = curve.table["gap"].min()
    with pytest.raises(InvalidInputError, match=rf"within .*; the least is {least:.4f}\. Accept"):
        curve.within(least / 2)


# Constraints, columns, rows and weights


def test_the_gap_is_the_largest_among_the_parities_asked_for(loans, held):
    constraint = [parity("fnr", 0.3, by="sex"), parity("fpr", 0.3, by="age_band")]
    curve = draw(
        loans, 4, sensitive_features=loans.sensitive, constraint=[*constraint, bound("ppr", 0.9)],
        holdout_set=(held.X, held.y, held.sensitive),
    )  # fmt: skip
    for model, line in zip(curve.models, curve.table.to_dict("records"), strict=True):
        decided = model.predict(held.X)
        gaps = [
            gap(
                held.y, decided, rate=c.moment, sensitive_features=held.sensitive, by=c.by,

            ).value
            for c in constraint
        ]  # fmt: skip
        assert line["gap"] == pytest.approx(max(gaps), abs=1e-12)
        assert len(model.fairness_report_.verdicts) == 3
    assert curve.table["gap"].iloc[-1] < 0.6 * curve.table["gap"].iloc[0]


def test_equalized_odds_varies_both(loans):
    curve = draw(loans, [0.05], constraint="equalized_odds")
    assert [v.limit for v in curve.models[1].fairness_report_.verdicts] == [0.05, 0.05]


def test_a_parity_is_judged_by_the_tolerance_of_the_model(loans, test_rows):
    """On test rows as on those held out, and when it is fitted again."""
    model = draw(loans, [0.05], constraint=parity("fnr", 0.5)).models[1]
    assert model.fairness_report_.verdicts[0].limit == 0.05
    report = model.report_on(test_rows.X, test_rows.y, sensitive_features=sex(test_rows))
    assert report.test_verdicts[0].limit == 0.05


def test_a_bound_stays_as_it_is(loans):
    for model in draw(loans, 3, constraint=["equal_opportunity", bound("ppr", 0.4)]).models:
        assert model.fairness_report_.verdicts[1].limit == 0.4


@pytest.mark.parametrize("how", ["cross", 0.4, None])
def test_rows_held_out_in_every_way(loans, how):
    curve = draw(loans, 4, holdout=how)
    assert curve.models[0].fairness_report_.where == ("training" if how is None else "held out")
    assert curve.table["gap"].iloc[-1] < 0.5 * curve.table["gap"].iloc[0]
    if how == "cross":  # the first is of all rows, and measured out of fold
        stock = engine().fit(loans.X, loans.y)
        np.testing.assert_allclose(
            curve.models[0].predict_proba(loans.X), stock.predict_proba(loans.X), atol=1e-10
        )
        assert curve.table["accuracy"].iloc[0] < (stock.predict(loans.X) == loans.y).mean()


def test_weights_count(loans, held):
    """In the loss and in the rates: weights of 0 and 2 are half of the rows."""
    kept = np.arange(len(loans.y)) % 2 == 0
    weighted = draw(loans, 3, sample_weight=2.0 * kept, holdout_set=of_set(held))
    half = tradeoff_curve(
        engine(min_child_samples=20), loans.X[kept], loans.y[kept],
        sensitive_features=sex(loans)[kept], constraint="equal_opportunity", tolerances=3,
        holdout_set=of_set(held),
    )  # fmt: skip
    # LightGBM bins by all rows and counts them in leaves, so the models are not the same.
    np.testing.assert_allclose(weighted.table["accuracy"], half.table["accuracy"], atol=0.02)
    np.testing.assert_allclose(weighted.table["gap"], half.table["gap"], atol=0.05)
    unweighted = draw(loans, 3, holdout_set=of_set(held))
    assert (weighted.table["loss"] != unweighted.table["loss"]).all()


def test_weights_of_rows_held_out_widen_the_intervals(loans):
    weight = np.random.default_rng(0).gamma(0.5, size=len(loans.y))
    plain, weighted = (draw(loans, 2, sample_weight=w).table for w in (None, weight))
    width = [(t["accuracy high"] - t["accuracy low"]).iloc[0] for t in (plain, weighted)]
    assert width[1] > 1.3 * width[0]  # Kish: a third of the rows, as (E w)^2 / E w^2 = 1/3


def test_the_operating_point_is_that_of_every_model(loans, held):
    curve = draw(loans, 3, operating_point=0.7, holdout_set=of_set(held))
    for model, found in zip(curve.models, curve.table["gap"], strict=True):
        assert model.threshold_ == 0.7
        positive = (model.predict_proba(held.X)[:, 1] >= 0.7).astype(int)
        expected = gap(held.y, positive, rate="fnr", sensitive_features=sex(held)).value
        assert found == pytest.approx(expected, abs=1e-12)


# Models by themselves


def test_each_model_predicts_exports_and_is_saved_by_itself(curve, test_rows, tmp_path):
    for model in (curve.models[0], curve.models[3], curve.models[-1]):
        expected = model.predict_proba(test_rows.X)
        model.export(tmp_path / "model.txt")
        booster = lightgbm.Booster(model_file=tmp_path / "model.txt")
        np.testing.assert_allclose(
            booster.predict(test_rows.X), expected[:, 1], rtol=0, atol=1e-12
        )
        model.save(tmp_path / "model.json")
        again = load(tmp_path / "model.json")
        np.testing.assert_array_equal(again.predict_proba(test_rows.X), expected)
        pd.testing.assert_frame_equal(again.fairness_report_.rates, model.fairness_report_.rates)
        assert again.tolerance == model.tolerance
        assert model.feature_names_in_.tolist() == list(test_rows.X.columns)


@pytest.mark.parametrize("chosen", [engine(), None], ids=["engine", "default"])
def test_a_loaded_model_has_the_engine_that_was_given(loans, tmp_path, monkeypatch, chosen):
    """Unfitted: the model was made by a curve, not on a model that the user had frozen."""
    if chosen is None:  # which would take all cores
        monkeypatch.setattr(
            "fairboost.model.base.default_estimator", lambda **_: engine(n_estimators=3)
        )
    curve = tradeoff_curve(
        chosen, loans.X, loans.y, sensitive_features=sex(loans), tolerances=[0.05]
    )
    for model in curve.models:
        model.save(tmp_path / "model.json")
        again = load(tmp_path / "model.json")
        if chosen is None:
            assert again.estimator is None
        else:
            assert isinstance(again.estimator, LGBMClassifier)
            assert again.estimator.get_params() == chosen.get_params()


def test_each_model_can_be_fitted_again_by_its_parameters(loans):
    model = draw(loans, [0.05]).models[1]
    again = clone(model).fit(loans.X, loans.y, sensitive_features=sex(loans))
    assert again.tolerance == 0.05
    assert again.trace_.shape[0] == 20  # from scratch, not as a stage


def test_same_random_state_same_curve(loans):
    random = {"chosen": engine(subsample=0.6, subsample_freq=1), "tolerances": 3}
    one, same, other = (draw(loans, random_state=s, **random).table for s in (1, 1, 2))
    pd.testing.assert_frame_equal(one, same)
    assert (one["loss"] != other["loss"]).all()


def test_the_engine_given_stays_as_it_was(loans):
    given = engine()
    before = given.get_params()
    draw(loans, 2, chosen=given)
    assert given.get_params() == before and not hasattr(given, "fitted_")


def test_without_an_engine_it_is_lightgbms_default(loans, monkeypatch):
    monkeypatch.setattr(
        "fairboost.model.base.default_estimator", lambda **_: engine(n_estimators=3)
    )  # which would take all cores
    curve = tradeoff_curve(None, loans.X, loans.y, sensitive_features=sex(loans), tolerances=[0.1])
    assert curve.models[0].best_iteration_ == 3


def test_a_base_that_cannot_be_split_is_a_curve_nonetheless(loans):
    table = draw(loans, 3, chosen=engine(min_split_gain=1e9)).table
    assert (table["gap"] == 0).all() and (table["trees"] >= 1).all()


def test_it_plots(curve):
    matplotlib = pytest.importorskip("matplotlib", reason="plots need matplotlib")
    matplotlib.use("Agg")
    from matplotlib import pyplot as plt

    display = curve.plot()
    shown = {line.get_label(): line for line in display.ax_.lines}
    np.testing.assert_array_equal(
        shown["with a tolerance"].get_xdata(), curve.table["gap"].iloc[1:]
    )
    np.testing.assert_array_equal(
        shown["no constraint"].get_ydata(), curve.table["accuracy"].iloc[:1]
    )
    _, ax = plt.subplots()
    assert curve.plot(ax).ax_ is ax
    display.figure_.canvas.draw()
    plt.close("all")


def test_verbose_shows_a_bar(loans, capsys):
    draw(loans, 2, verbose=1)
    assert "1/1" in capsys.readouterr().err
    draw(loans, 2)
    assert capsys.readouterr().err == ""


# What is refused, before training


@pytest.fixture
def no_training(monkeypatch):
    def fit(self, *args, **kwargs):
        raise AssertionError("LightGBM was asked to train")

    monkeypatch.setattr(LGBMClassifier, "fit", fit)


@pytest.mark.parametrize("constraint", [None, bound("fpr", 0.1), [bound("ppr", 0.5)]])
def test_a_constraint_without_a_parity(loans, no_training, constraint):
    with pytest.raises(ConstraintError, match="varies the tolerance of parities, but the constr"):
        draw(loans, constraint=constraint)


def test_a_frozen_model(loans):
    frozen = FrozenEstimator(engine(n_estimators=2).fit(loans.X, loans.y))
    with pytest.raises(InvalidInputError, match="trains its own base model; pass an unfitted"):
        draw(loans, chosen=frozen)


def test_dart_whose_rounds_cannot_be_gone_back_to(loans, no_training):
    with pytest.raises(InvalidInputError, match="DART rescales old trees"):
        draw(loans, chosen=engine(boosting_type="dart"))


def test_an_engine_of_another_kind(loans, no_training):
    with pytest.raises(EngineOptionError, match="estimator must be an LGBMClassifier"):
        draw(loans, chosen="lightgbm")


def test_missing_sensitive_features(loans, no_training):
    with pytest.raises(ConstraintError, match="sensitive"):
        draw(loans, sensitive_features=None)
