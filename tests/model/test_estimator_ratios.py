"""Ratios and floors from the outside: both engines, every holdout, files, other rows."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from lightgbm import LGBMClassifier, LGBMRegressor
from xgboost import XGBClassifier

from fairboost import (
    FairGBMClassifier,
    FairGBMRegressor,
    at_least,
    bound,
    load,
    parity,
    tradeoff_curve,
    tune,
)
from fairboost.exceptions import ConstraintError, SmallCellWarning

pytestmark = pytest.mark.filterwarnings("ignore::fairboost.exceptions.FairnessWarning")
ENGINES = {
    "lightgbm": (LGBMClassifier, {"verbose": -1, "num_leaves": 7}),
    "xgboost": (XGBClassifier, {"max_depth": 3}),
}
ASKED = {
    "largest": parity("ppr", ratio=0.8),
    "everyone": parity("ppr", ratio=0.9, of="everyone"),
    "reference": parity("ppr", ratio=0.8, reference="M"),
    "floor": at_least("tpr", 0.85),
}


class Applicants:
    """Women have the positive label half as often as men; features show the sex and the label."""

    def __init__(self, n, seed=0):
        rng = np.random.default_rng(seed)
        man = rng.random(n) < 0.6
        score = rng.normal(size=n) + 0.9 * man
        self.X = np.column_stack([man, score + 0.5 * rng.normal(size=n), rng.normal(size=n)])
        self.y = (score > 0.9).astype(int)
        self.sex = np.where(man, "M", "F")

    def rates(self, decided, label=None):
        counts = np.ones(len(self.y), bool) if label is None else self.y == label
        return pd.Series(decided[counts]).groupby(self.sex[counts]).mean()


DATA, NEW = Applicants(6000, seed=11), Applicants(40_000, seed=1)


def fitted(constraint, engine="lightgbm", data=DATA, **options):
    kind, own = ENGINES[engine]
    stock = kind(n_estimators=80, n_jobs=1, random_state=0, learning_rate=0.1, **own)
    model = FairGBMClassifier(stock, constraint=constraint, random_state=0, **options)
    return model.fit(data.X, data.y, sensitive_features={"sex": data.sex})


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("kind", ASKED)
def test_it_holds_on_new_people_and_asks_for_no_more(kind, engine):
    """Plain women are decided positively half as often; the limit is reached, and not passed."""
    model = fitted(ASKED[kind], engine)
    decided = model.predict(NEW.X)
    rates = NEW.rates(decided)
    if kind == "floor":
        least = NEW.rates(decided, label=1).min()
        assert 0.82 < least < 0.93
    elif kind == "everyone":
        assert 0.85 < rates["F"] / decided.mean() < 0.97
    else:
        assert 0.75 < rates["F"] / rates["M"] < 0.9
    assert (decided == NEW.y).mean() > 0.75
    (verdict,) = model.fairness_report_.verdicts
    assert verdict.measure == ("least rate" if kind == "floor" else "ratio")
    assert verdict.status != "not met"


@pytest.mark.parametrize("holdout", [0.3, "cross"])
def test_a_confidence_keeps_farther_inside(holdout):
    ratios = []
    for confidence in (None, 0.95):
        model = fitted("four_fifths", holdout=holdout, confidence=confidence)
        rates = NEW.rates(model.predict(NEW.X))
        ratios.append(rates["F"] / rates["M"])
    assert ratios[1] > max(ratios[0], 0.8)


def test_the_report_on_other_rows_has_the_same_ratio():
    model = fitted("four_fifths")
    report = model.report_on(NEW.X, NEW.y, sensitive_features={"sex": NEW.sex})
    rates = NEW.rates(model.predict(NEW.X))
    (verdict,) = report.test_verdicts
    assert verdict.value == pytest.approx(rates.min() / rates.max())
    assert "at least 0.8 of the largest" in str(report)
    names = list(model.trace_.filter(like="multiplier: "))
    assert names[0] == "multiplier: ppr ratio[sex=F] above"
    assert len(names) == 4


@pytest.mark.parametrize(
    "constraint",
    [
        "four_fifths",
        parity("tpr", ratio=0.9, by="sex"),
        parity("ppr", ratio=0.7, reference={"sex": "M"}),
        parity("ppr", ratio=0.7, by="sex", of="everyone"),
        [parity("ppr", ratio=0.8, by=("sex",)), at_least("tpr", 0.6, by="sex"), bound("fpr", 0.4)],
    ],
    ids=str,
)
def test_files_keep_the_constraint(constraint, tmp_path):
    model = fitted(constraint)
    model.save(tmp_path / "model.json")
    again = load(tmp_path / "model.json")
    assert again.constraint == constraint
    np.testing.assert_array_equal(again.predict(NEW.X), model.predict(NEW.X))
    assert again.fairness_report_.verdicts == model.fairness_report_.verdicts
    again.fit(DATA.X, DATA.y, sensitive_features={"sex": DATA.sex})


def test_of_two_constraints_both_hold():
    model = fitted([parity("ppr", ratio=0.8), at_least("tpr", 0.8)])
    decided = model.predict(NEW.X)
    assert NEW.rates(decided, label=1).min() > 0.77
    rates = NEW.rates(decided)
    assert rates.min() / rates.max() > 0.75


def test_the_paper_multipliers_take_ratios_too():
    model = fitted("four_fifths", multipliers="paper", multiplier_learning_rate=0.1)
    assert model.multipliers_.max() > 0


@pytest.mark.parametrize(
    ("constraint", "match"),
    [
        (parity("ppr", ratio=0.8, reference="X"), "the groups of 'sex' are 'F', 'M'"),
        ([at_least("tpr", 0.9), bound("ppr", 0.1)], "no decisions on these rows"),
        (parity("prediction", ratio=0.8), "mean of numbers"),
        (parity("recall", ratio=0.8), "recall"),
    ],
    ids=["reference", "floor", "mean", "class"],
)
def test_bad_input_is_refused_before_training(constraint, match, no_training):
    with pytest.raises(ConstraintError, match=match):
        fitted(constraint)


def test_a_tolerance_beside_a_ratio_is_refused(no_training):
    with pytest.raises(ConstraintError, match="limit in itself"):
        fitted("four_fifths", tolerance=0.05)


@pytest.mark.parametrize("constraint", ["four_fifths", at_least("tpr", 0.5)], ids=str)
@pytest.mark.parametrize("search", [tradeoff_curve, tune])
def test_curves_have_nothing_to_vary(constraint, search):
    stock = LGBMClassifier(n_estimators=5, verbose=-1)
    with pytest.raises(ConstraintError, match="bounds, floors and ratios"):
        search(stock, DATA.X, DATA.y, sensitive_features=DATA.sex, constraint=constraint)


def test_a_rate_too_small_to_tell_is_warned_of():
    """False positives are rare where features show the label."""
    few = Applicants(1_500, seed=3)
    few.X[:, 2] = 10 * few.y + few.X[:, 2]
    with pytest.warns(SmallCellWarning, match="too few rows for a ratio, held out"):
        model = fitted(parity("fpr", ratio=0.8), data=few)
    assert "too few to estimate a ratio of rates" in str(model.fairness_report_)


def test_several_classes_have_ratios_and_floors():
    rng = np.random.default_rng(0)
    band = np.digitize(DATA.X[:, 1] + 0.2 * rng.normal(size=len(DATA.y)), [0.2, 1.2])
    stock = LGBMClassifier(n_estimators=60, num_leaves=7, n_jobs=1, verbose=-1)
    constraint = [parity("given", ratio=0.7, of=2), at_least("recall", 0.5, of=0)]
    model = FairGBMClassifier(stock, constraint=constraint, random_state=0)
    model.fit(DATA.X, band, sensitive_features={"sex": DATA.sex})
    first, second = model.fairness_report_.verdicts
    assert (first.measure, second.measure) == ("ratio", "least rate")
    assert first.value > 0.6
    assert second.value > 0.45


def test_means_of_numbers_have_ratios():
    rng = np.random.default_rng(0)
    cost = np.exp(0.5 * DATA.X[:, 0] + 0.2 * rng.normal(size=len(DATA.y)))
    stock = LGBMRegressor(n_estimators=80, num_leaves=7, n_jobs=1, verbose=-1)
    model = FairGBMRegressor(stock, constraint=parity("prediction", ratio=0.9), random_state=0)
    model.fit(DATA.X, cost, sensitive_features={"sex": DATA.sex})
    means = DATA.rates(model.predict(DATA.X))
    assert 0.85 < means["F"] / means["M"] < 0.97
    assert model.fairness_report_.verdicts[0].measure == "ratio"
