"""``tune``: a search whose trials are whole curves."""

from __future__ import annotations

import sys
import warnings

import matplotlib as mpl
import numpy as np
import pytest
from lightgbm import LGBMClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import recall_score
from xgboost import XGBClassifier

from fairboost import FairGBMClassifier, Tuned, at_fpr, parity, tradeoff_curve, tune
from fairboost.datasets import make_loans
from fairboost.exceptions import (
    ConstraintError,
    FairnessWarning,
    InvalidInputError,
    NotMetWarning,
)
from fairboost.metrics import gap
from fairboost.selection.tuning import _default_space, _table

SPACE = {"num_leaves": {"low": 4, "high": 12}, "learning_rate": {"low": 0.1, "high": 0.3}}


def engine():
    return LGBMClassifier(n_estimators=10, n_jobs=1, verbose=-1)


@pytest.fixture(scope="module")
def loans():
    return make_loans(3_000, seed=0)


@pytest.fixture(scope="module")
def held():
    return make_loans(6_000, seed=1)


@pytest.fixture(autouse=True)
def known_groups(monkeypatch):
    """Take groups as observed; to learn them takes longer than all the rest."""
    monkeypatch.setattr(
        "fairboost.training.memberships.recoverability", lambda *args, **options: 1.0
    )


def search(loans, **options):
    defaults = {
        "sensitive_features": loans.sensitive["sex"], "constraint": "equal_opportunity",
        "tolerance": 0.05, "n_trials": 3, "models": 4, "space": SPACE,
    }  # fmt: skip
    return tune(engine(), loans.X, loans.y, **{**defaults, **options})


@pytest.fixture(scope="module")
def tuned(loans, held):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(
            "fairboost.training.memberships.recoverability", lambda *args, **options: 1.0
        )
        return search(loans, validation_set=(held.X, held.y, held.sensitive["sex"]))


def test_every_trial_is_a_whole_curve(tuned):
    assert isinstance(tuned, Tuned)
    assert tuned.table.groupby("trial").size().to_dict() == {0: 4, 1: 4, 2: 4}
    assert tuned.table["tolerance"].isna().sum() == 3
    for name, limits in SPACE.items():
        assert tuned.table[name].between(limits["low"], limits["high"]).all()
        assert tuned.table[name].nunique() == 3


def line_of(tuned, model):
    """The line of the table that a model belongs to."""
    trial, k = next(
        (t, k)
        for t, curve in tuned._curves.items()
        for k, one in enumerate(curve.models)
        if one._model is model._model
    )
    lines = tuned.table[tuned.table["trial"] == trial]
    return lines[lines["model"] == k].iloc[0]


@pytest.mark.parametrize("alpha", [0.0, 0.5, 1.0])
def test_models_are_those_that_the_table_is_about(tuned, held, alpha):
    """Trained again when asked for, with the figures that were stored."""
    model = tuned.best(alpha)
    line = line_of(tuned, model)
    decided = model.predict(held.X)
    assert line["accuracy"] == line["score"] == pytest.approx((decided == held.y).mean())
    exact = gap(held.y, decided, rate="fnr", sensitive_features=held.sensitive["sex"],
                )  # fmt: skip
    assert line["gap"] == pytest.approx(exact.value)
    merit = alpha * tuned.table["score"] + (1 - alpha) * (1 - tuned.table["gap"])
    assert alpha * line["score"] + (1 - alpha) * (1 - line["gap"]) == merit.max()


def test_the_model_is_the_best_within_the_tolerance(tuned):
    line = line_of(tuned, tuned.model)
    fair = tuned.table[tuned.table["gap"] <= 0.05]
    assert line["gap"] <= 0.05 and line["score"] == fair["score"].max()
    assert line_of(tuned, tuned.within(0.99)).equals(line_of(tuned, tuned.best(1.0)))
    assert isinstance(tuned.model, FairGBMClassifier)


def with_figures(tuned, tolerance, **columns):
    """The same search, had it found other figures."""
    return Tuned(tuned.table.assign(**columns), tolerance, tuned._refit, tuned._curves)


def test_of_models_of_equal_score_the_fairest_comes_back(tuned):
    """That without constraints is the first of its trial, and would win every tie."""
    tied = with_figures(tuned, 0.99, score=0.8)
    least = tied.table["gap"].min()
    assert tied.table["gap"].iloc[0] > least
    for model in (tied.model, tied.within(0.99), tied.best(1.0)):
        assert line_of(tied, model)["gap"] == least


@pytest.mark.parametrize("tolerance", [0.0, 0.02, 0.05, 0.2])
def test_what_comes_back_is_on_the_front_and_within_the_tolerance_if_any_is(tuned, tolerance):
    rounded = tuned.table["score"].round(2)  # as on few validation rows: many ties
    table = _table({
        trial: {"points": lines.assign(score=rounded).to_dict("records"), "options": {}}
        for trial, lines in tuned.table.drop(columns=["front", "trial"]).groupby(
            tuned.table["trial"]
        )
    })  # fmt: skip
    found = Tuned(table, tolerance, tuned._refit, tuned._curves)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", NotMetWarning)
        line = line_of(found, found.model)
    assert line["front"]
    assert line["gap"] <= tolerance or not (table["gap"] <= tolerance).any()


def test_the_report_speaks_of_the_tolerance_asked(tuned, held):
    rows = {"sensitive_features": held.sensitive["sex"]}
    whatever = tuned.table["tolerance"].isna()  # the model without constraints, among others
    for gaps in (tuned.table["gap"], tuned.table["gap"].where(~whatever, 0.0)):
        found = with_figures(tuned, 0.05, gap=gaps)
        for model, asked in ((found.model, 0.05), (found.within(0.07), 0.07)):
            assert model.tolerance == asked
            for report in (model.fairness_report_, model.report_on(held.X, held.y, **rows)):
                assert [v.limit for v in (*report.verdicts, *report.test_verdicts)] == (
                    [asked] * (1 + len(report.test_verdicts))
                )
                assert f"tolerance {asked:g}" in str(report) or f"within {asked:g}" in str(report)
    for curve in tuned._curves.values():  # its own models are as they were
        assert [m.tolerance for m in curve.models[1:]] == curve.table["tolerance"][1:].tolist()


def test_the_report_says_on_which_rows_the_model_was_chosen(tuned, held):
    rows = {"sensitive_features": held.sensitive["sex"]}
    for model, asked in ((tuned.model, 0.05), (tuned.within(0.07), 0.07), (tuned.best(1), 0.05)):
        line = line_of(tuned, model)
        side = "within" if line["gap"] <= asked else "beyond"
        said = (
            f"Chosen among 12 models by the validation rows of the search, where its gap is "
            f"{line['gap']:.4f} [{line['gap low']:.4f}, {line['gap high']:.4f}], {side} the "
            f"tolerance of {asked:g}. The verdicts are about the held-out rows"
        )
        for report in (model.fairness_report_, model.report_on(held.X, held.y, **rows)):
            assert report.advice[0].startswith(said)


def test_advice_is_what_a_search_can_heed(held):
    """It takes no ``holdout``; that of a curve does."""
    rows = {"sensitive_features": held.sensitive["sex"]}
    found = search(held, n_trials=1, models=2, tolerance=0.02).best()
    for report in (found.fairness_report_, found.report_on(held.X, held.y, **rows)):
        assert any(v.rows_needed for v in report.verdicts)
        assert not [line for line in report.advice if "holdout" in line]
        assert "Where rows are too few: search on more rows." in report.advice
    curve = tradeoff_curve(
        engine(), held.X, held.y, **rows, constraint="equal_opportunity", tolerances=[0.05]
    )
    assert "Where rows are too few: holdout='cross'" in str(curve.models[1].fairness_report_)


def test_it_is_said_that_the_rows_of_the_verdict_disagree_with_those_of_the_choice(tuned):
    """Chosen as if it had no gap on the validation rows; the rows held out say otherwise."""
    found = with_figures(tuned, 0.001, gap=tuned.table["gap"].where(tuned.table["model"] > 0, 0.0))
    with pytest.warns(FairnessWarning, match=r"not met.*, held out: false negative rate"):
        model = found.model
    assert not model.fairness_report_.within
    assert (
        "within the tolerance of 0.001. The verdicts are about the held-out rows"
        in model.fairness_report_.advice[0]
    )


def test_no_model_within_the_tolerance(tuned):
    least = tuned.table["gap"].min()
    strict = Tuned(tuned.table, least / 2, tuned._refit)
    with pytest.warns(NotMetWarning, match="this is the one of least gap"):
        model = strict.model
    assert line_of(strict, model)["gap"] == least
    with pytest.raises(InvalidInputError, match="no model of the search has a gap within"):
        tuned.within(least / 2)


def test_no_other_model_beats_one_of_the_front(tuned):
    front = tuned.front
    assert front["score"].is_monotonic_decreasing and front["gap"].is_monotonic_decreasing
    for line in tuned.table.to_dict("records"):
        better = (front["score"] >= line["score"]) & (front["gap"] <= line["gap"])
        assert better.any()


def test_plot(tuned):
    mpl.use("Agg")
    display = tuned.plot()
    assert "validation" in display.ax_.get_xlabel()
    mpl.pyplot.close(display.figure_)


def test_the_same_seed_gives_the_same_search(loans):
    first, second = (search(loans, n_trials=2, random_state=4) for _ in range(2))
    assert first.table.equals(second.table)


def test_a_search_is_gone_on_with(loans, tmp_path):
    url = f"sqlite:///{tmp_path / 'tune.db'}"
    options = {"storage": url, "sampler": "random"}
    short = search(loans, n_trials=1, **options)
    longer = search(loans, n_trials=2, **options)
    assert longer.table[longer.table["trial"] == 0]["gap"].tolist() == short.table["gap"].tolist()
    fewer = search(loans, n_trials=1, **options)
    assert set(fewer.table["trial"]) == {0}
    with pytest.raises(InvalidInputError, match="of another study"):
        search(loans, tolerance=0.01, **options)


def test_validation_rows_are_not_trained_on(loans, monkeypatch):
    seen = []
    from fairboost.selection import tuning

    curve = tuning.tradeoff_curve

    def spy(estimator, **options):
        seen.append(options["X"].index)
        return curve(estimator, **options)

    monkeypatch.setattr(tuning, "tradeoff_curve", spy)
    search(loans, n_trials=1)
    assert len(seen[0]) == 2_400 and len(set(seen[0])) == 2_400


@pytest.mark.parametrize("form", ["numpy", "dict", "list"])
def test_forms_of_data(loans, form):
    numbers = loans.X.select_dtypes("number").to_numpy()
    sex = loans.sensitive["sex"].astype(str).to_numpy()
    groups = {"numpy": sex, "dict": {"sex": sex}, "list": sex.tolist()}[form]
    found = tune(
        engine(), numbers, np.where(loans.y == 1, "yes", "no"), sensitive_features=groups,
        constraint=[parity("fnr")], n_trials=1, models=2, space={"num_leaves": [4, 8]},
        tolerance=0.5, sample_weight=np.ones(len(sex)),
    )  # fmt: skip
    assert set(found.model.predict(numbers)) <= {"yes", "no"}


def test_a_score_at_an_operating_point(loans, held):
    rows = held.X, held.y, held.sensitive["sex"]
    found = search(
        loans, constraint="predictive_equality", operating_point=at_fpr(0.3), scoring="recall",
        n_trials=1, models=2, validation_set=rows, tolerance=0.9,
    )  # fmt: skip
    model = found.model
    assert line_of(found, model)["score"] == pytest.approx(
        recall_score(held.y, model.predict(held.X))
    )


def test_xgboost(loans):
    numbers = loans.X.select_dtypes("number")
    found = tune(
        XGBClassifier(n_estimators=5, n_jobs=1), numbers, loans.y,
        sensitive_features=loans.sensitive["sex"], n_trials=1, models=2, tolerance=0.5,
        space={"max_depth": [2, 3]},
    )  # fmt: skip
    assert found.table["max_depth"].isin([2, 3]).all()
    assert len(found.model.predict(numbers)) == 3_000


@pytest.mark.parametrize("kind", [LGBMClassifier, XGBClassifier])
def test_what_is_searched_by_default_are_options_of_the_engine(kind):
    assert set(_default_space(kind())) <= set(kind().get_params())


def test_an_engine_without_a_space_of_its_own():
    with pytest.raises(InvalidInputError, match="no options to search for LogisticRegression"):
        _default_space(LogisticRegression())


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"n_trials": 0}, "n_trials must be a whole number from 1, found 0"),
        ({"models": 1}, "models must be a whole number from 2, found 1"),
        ({"sampler": "grid"}, "unknown sampler 'grid'"),
        (
            {"space": {"leaves": [3]}},
            "space names 'leaves', which is not an option of LGBMClassifier",
        ),
        ({"space": {"num_leaves": {"from": 3}}}, "a range has the keys low and high"),
        ({"validation_set": (1, 2)}, "validation_set must be a tuple"),
        ({"timeout": 0}, "the time was over before a trial was done"),
        ({"storage": "nosuch://"}, "cannot open the storage"),
    ],
)
def test_bad_options(loans, options, message):
    with pytest.raises(InvalidInputError, match=message.replace("(", r"\(")):
        search(loans, **options)


def test_a_bad_tolerance(loans):
    with pytest.raises(ConstraintError, match="tolerance must lie in"):
        search(loans, tolerance=2)


def test_the_tolerance_of_a_parity_is_the_one_searched_for(loans):
    asked = {"constraint": parity("fnr", 0.2), "n_trials": 1, "models": 2}
    assert search(loans, **asked, tolerance=None).tolerance == 0.2
    with pytest.raises(ConstraintError, match=r"tolerance=0\.05 contradicts parity"):
        search(loans, **asked)
    several = [parity("fnr", 0.2), parity("fpr", 0.1)]
    with pytest.raises(ConstraintError, match=r"one tolerance, found \[0\.1, 0\.2\]"):
        search(loans, constraint=several, tolerance=None)


def test_what_training_raises_is_raised(loans):
    with pytest.raises(ValueError, match="unknown constraint"):
        search(loans, constraint="equal_everything")


def test_alpha_out_of_range(tuned):
    with pytest.raises(InvalidInputError, match=r"alpha must lie in \[0, 1\]"):
        tuned.best(2)


def test_without_optuna(loans, monkeypatch):
    for name in [n for n in sys.modules if n.split(".")[:2] == ["fairboost", "search"]]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "optuna", None)
    with pytest.raises(ImportError, match=r'pip install "fairboost\[study\]"'):
        search(loans)


def test_progress_is_shown(loans, capsys):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        search(loans, n_trials=1, models=2, verbose=1)
    assert "1/1" in capsys.readouterr().err


def test_the_positive_label_is_named_once(loans):
    words = np.where(loans.y == 1, "approved", "denied")
    rows = {"sensitive_features": loans.sensitive["sex"].to_numpy(), "space": {"num_leaves": [4]}}
    asked = {"constraint": "equal_opportunity", "tolerance": 0.9, "n_trials": 1, "models": 2}
    sets = [(loans.X, y, rows["sensitive_features"]) for y in (words, loans.y)]
    found, numbers = (
        tune(engine(), *s[:2], validation_set=s, pos_label=label, **rows, **asked)
        for s, label in zip(sets, ("approved", None), strict=True)
    )
    assert found.model.pos_label_ == "approved"
    assert found.table["gap"].tolist() == numbers.table["gap"].tolist()
    with pytest.warns(FairnessWarning, match="'denied' is taken for the positive label") as caught:
        tune(engine(), loans.X, words, **rows, **asked)
    assert len(caught) == 1
