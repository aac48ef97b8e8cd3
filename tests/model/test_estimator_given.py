"""``given=`` from the outside: both tasks, every engine, files and other rows."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from lightgbm import LGBMClassifier, LGBMRegressor
from xgboost import XGBClassifier, XGBRegressor

from fairboost import (
    FairGBMClassifier,
    FairGBMRegressor,
    equal_distributions,
    load,
    parity,
    tradeoff_curve,
)
from fairboost.exceptions import ConstraintError
from fairboost.training import rows as training_rows

pytestmark = pytest.mark.filterwarnings("ignore::fairboost.exceptions.FairnessWarning")
ENGINES = {
    "lightgbm": (LGBMClassifier, LGBMRegressor, {"verbose": -1, "num_leaves": 7}),
    "xgboost": (XGBClassifier, XGBRegressor, {"max_depth": 3}),
}
RATE = parity("ppr", 0.05, by="sex", given="risk")
MEAN = parity("prediction", 0.1, by="sex", given="risk")
every_engine = pytest.mark.parametrize("engine", ENGINES)
every_task = pytest.mark.parametrize("task", ["classifier", "regressor"])


class Drivers:
    """Drivers of three classes of risk, in which women and men differ by as much."""

    def __init__(self, n, seed=0):
        rng = np.random.default_rng(seed)
        risk = rng.integers(0, 3, n)
        man = rng.random(n) < np.array([0.3, 0.5, 0.7])[risk]
        self.X = np.column_stack([risk, man, rng.normal(size=(n, 2))])
        self.y = risk + 0.8 * man + self.X[:, 2] + rng.normal(size=n)
        self.sex = np.where(man, "M", "F")
        self.s = pd.DataFrame({"sex": self.sex, "risk": np.array(["a", "b", "c"])[risk]})

    def target(self, task):
        return self.y if task == "regressor" else (self.y > 1.5).astype(int)

    def gap(self, predicted):
        """The largest gap within a class."""
        means = pd.Series(predicted).groupby([self.s["risk"], self.s["sex"]]).mean().unstack()
        return float((means["F"] - means["M"]).abs().max())


DATA, NEW = Drivers(3000), Drivers(3000, seed=1)


def model(task, engine="lightgbm", constraint=None, trees=60, **options):
    classifier, regressor, own = ENGINES[engine]
    settings = {"n_estimators": trees, "n_jobs": 1, "random_state": 0, "learning_rate": 0.1, **own}
    options = {"random_state": 0, "memberships": "observed", **options}
    if task == "classifier":
        return FairGBMClassifier(classifier(**settings), constraint=constraint or RATE, **options)
    return FairGBMRegressor(regressor(**settings), constraint=constraint or MEAN, **options)


def fitted(task, engine="lightgbm", data=DATA, **options):
    return model(task, engine, **options).fit(data.X, data.target(task), sensitive_features=data.s)


@every_engine
@every_task
def test_groups_meet_within_every_class(task, engine):
    found = fitted(task, engine)
    free = fitted(task, engine, constraint=parity(found.constraint.moment, 0.99, by="sex"))
    before, after = (NEW.gap(m.predict(NEW.X)) for m in (free, found))
    assert before > 0.2
    assert after < 0.5 * before
    report = found.report_on(NEW.X, NEW.target(task), sensitive_features=NEW.s)
    assert report.test_verdicts[0].value == pytest.approx(after)
    assert report.columns == ("sex", "risk")


@every_engine
@every_task
def test_a_column_of_one_value_is_none_to_the_bit(task, engine):
    s = DATA.s.assign(risk="same")
    kind = "ppr" if task == "classifier" else "prediction"
    y = DATA.target(task)
    alone, same = (
        model(task, engine, parity(kind, 0.05, by="sex", **given), trees=15).fit(
            DATA.X, y, sensitive_features=s
        )
        for given in ({}, {"given": "risk"})
    )
    np.testing.assert_array_equal(alone.predict(NEW.X), same.predict(NEW.X))
    np.testing.assert_array_equal(alone.trace_.to_numpy(), same.trace_.to_numpy())
    for one, other in zip(
        alone.fairness_report_.verdicts, same.fairness_report_.verdicts, strict=True
    ):
        assert (one.value, one.low, one.high) == (other.value, other.low, other.high)


def test_two_classes_of_two_groups_come_to_the_means_of_the_classes():
    """With a tree for each of the four kinds of rows the answer is known.

    Squared errors under equal means in either class are least at the mean of the class.
    """
    kinds = np.repeat([0, 1, 2, 3], [300, 100, 200, 200])  # F low, M low, F high, M high
    y = np.array([0.0, 4.0, 10.0, 12.0])[kinds]
    s = pd.DataFrame({"sex": np.where(kinds % 2, "M", "F"), "risk": kinds // 2})
    engine = LGBMRegressor(
        n_estimators=400, num_leaves=4, learning_rate=0.05, min_child_samples=1, verbose=-1
    )
    asked = parity("prediction", 0.0, by="sex", given="risk")
    found = FairGBMRegressor(engine, constraint=asked, holdout=None, iterate="last")
    found.fit(kinds[:, np.newaxis], y, sensitive_features=s)
    predicted = found.predict(np.arange(4)[:, np.newaxis])
    np.testing.assert_allclose(predicted, [1.0, 1.0, 11.0, 11.0], atol=1e-3)


@every_task
def test_files_keep_what_is_given(task, tmp_path):
    found = fitted(task, trees=8)
    found.save(tmp_path / "model.json")
    again = load(tmp_path / "model.json")
    assert again.constraint == found.constraint
    assert again.constraint.given == ("risk",)
    rows = NEW.X, NEW.target(task)
    one, other = (m.report_on(*rows, sensitive_features=NEW.s) for m in (found, again))
    assert one.test_verdicts == other.verdicts
    assert str(again.fairness_report_) == str(found.fairness_report_)


def test_files_keep_distributions_given_a_column(tmp_path):
    asked = equal_distributions(0.1, by="sex", given="risk")
    found = fitted("regressor", constraint=asked, trees=8)
    found.save(tmp_path / "model.json")
    assert load(tmp_path / "model.json").constraint == asked


def test_distributions_meet_within_every_class():
    asked = equal_distributions(0.05, by="sex", given="risk")
    free, found = (
        fitted("regressor", constraint=c) for c in (equal_distributions(0.99, by="sex"), asked)
    )

    def distance(predicted):
        far = []
        for part in (NEW.s["risk"] == r for r in "abc"):
            cuts = np.quantile(predicted[part], np.linspace(0.1, 0.9, 9))
            women, men = (predicted[part & (NEW.sex == s)] for s in "FM")
            far += [abs((women > c).mean() - (men > c).mean()) for c in cuts]
        return max(far)

    before, after = (distance(m.predict(NEW.X)) for m in (free, found))
    assert after < 0.6 * before


@pytest.mark.parametrize("in_features", [True, False], ids=["a feature", "no feature"])
@every_task
def test_memberships_are_those_of_group_and_class(task, in_features, monkeypatch):
    """A blind model learns how likely a row is of each sex in each class."""
    seen = {}
    learned = training_rows._memberships

    def spy(*arguments):
        seen.update(learned(*arguments))
        return seen

    monkeypatch.setattr(training_rows, "_memberships", spy)
    X = np.column_stack([DATA.X[:, :1] * in_features, DATA.X[:, 2:]])
    s = DATA.s.assign(risk=DATA.s["risk"].where(np.arange(3000) % 100 > 0))  # some are missing
    model(task, trees=5, memberships="honest").fit(X, DATA.target(task), sensitive_features=s)
    (probabilities,) = seen.values()
    assert list(seen) == [("sex", "risk")] and probabilities.shape == (3000, 6)
    total = probabilities.sum(axis=1)
    np.testing.assert_allclose(total, s["risk"].notna(), atol=1e-5)
    by_class = probabilities.reshape(-1, 2, 3).sum(axis=1)
    own_class = by_class[np.arange(3000), DATA.X[:, 0].astype(int)]
    known = s["risk"].notna().to_numpy()
    if in_features:  # the class is certain, the sex its share in the class
        assert own_class[known].mean() > 0.95
        in_a = known & (DATA.X[:, 0] == 0)
        assert probabilities[in_a, 3].mean() == pytest.approx(0.3, abs=0.05)  # men of class a
    else:
        assert own_class[known].mean() < 0.8


@every_task
@pytest.mark.parametrize("holdout", [0.3, "set"])
def test_a_group_of_which_no_row_is_held_out_is_left_out(task, holdout):
    """One man of class c: he is in training, and the report says that he is not judged."""
    rows = ~((DATA.s["risk"] == "c") & (DATA.sex == "M")).to_numpy()
    rows[np.flatnonzero(~rows)[0]] = True
    X, y, s = DATA.X[rows], DATA.target(task)[rows], DATA.s[rows]
    others = {}
    if holdout == "set":
        kept = ~((NEW.s["risk"] == "c") & (NEW.sex == "M")).to_numpy()
        others["holdout_set"] = NEW.X[kept], NEW.target(task)[kept], NEW.s[kept]
    share = "auto" if holdout == "set" else holdout
    found = model(task, trees=5, holdout=share).fit(X, y, sensitive_features=s, **others)
    assert len(found.multipliers_) == 8  # two sexes in two classes, on two sides
    assert "of the same risk: sex=" in " ".join(found.fairness_report_.advice)


def test_nothing_to_compare_is_refused_before_training():
    s = DATA.s.assign(risk=DATA.sex)
    with pytest.raises(ConstraintError, match="no two groups of 'sex' have rows that count at"):
        model("regressor").fit(DATA.X, DATA.y, sensitive_features=s)
    with pytest.raises(ConstraintError, match=r"'risk', which is not among .* or given="):
        model("classifier").fit(
            DATA.X, DATA.target("classifier"), sensitive_features=DATA.s["sex"]
        )


def test_a_curve_starts_from_the_largest_gap_within_a_class():
    """And not from that between classes, which is larger."""
    curve = tradeoff_curve(
        model("classifier", trees=10).estimator, DATA.X, DATA.target("classifier"),
        sensitive_features=DATA.s, constraint=RATE, tolerances=3, random_state=0,
    )  # fmt: skip
    base = curve.table[curve.table["tolerance"].isna()]
    # Of three steps from that gap to none, the second is half way.
    assert curve.table["tolerance"].max() == pytest.approx(base["gap"].item() / 2, rel=1e-6)


def test_the_paper_s_multipliers_take_it_too():
    found = fitted("classifier", multipliers="paper", holdout=None, trees=10)
    assert len(found.multipliers_) == 6
    assert (found.multipliers_ >= 0).all() and found.multipliers_.any()


def test_few_rows_are_judged_as_well_as_they_allow():
    """Of a fitted model the rows that a group must have can be lowered."""
    found = fitted("classifier", trees=5, min_group_rows=30)
    few = np.flatnonzero(~((NEW.s["risk"] == "c") & (NEW.sex == "M")).to_numpy())[:40]
    rows = NEW.X[few], NEW.target("classifier")[few]
    with pytest.raises(ConstraintError, match="lower min_group_rows"):
        found.report_on(*rows, sensitive_features=NEW.s.iloc[few])
    report = found.set_params(min_group_rows=1).report_on(
        *rows, sensitive_features=NEW.s.iloc[few]
    )
    assert len(report.test_verdicts) == 1 and report.test_verdicts[0].smallest_rows > 0
