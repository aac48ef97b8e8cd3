"""Calibrated within groups, where labels are predicted."""

import numpy as np
import pandas as pd
import pytest
from lightgbm import LGBMClassifier
from xgboost import XGBClassifier

import fairboost
from fairboost import FairGBMClassifier, at_positive_rate, calibrated, parity
from fairboost.algorithm.multipliers import Control
from fairboost.data.cells import SensitiveColumn, build_cells
from fairboost.engines.port import LossTerms
from fairboost.exceptions import ConstraintError, InvalidInputError
from fairboost.fairness.calibration import CalibratedScores, by_name
from fairboost.fairness.label_constraints import for_two_labels
from fairboost.metrics.sampling import errors_of_violations
from fairboost.training.outcome import measure_rows
from fairboost.training.rows import plain_layout
from tests.problems import FreeScores, without_margin
from tests.tasks.test_binary_means import session_of


def test_probabilities_come_back_to_shares_where_weights_of_labels_drive_them_off():
    """Exactly solvable: one score per group; positives count three times as much in the loss.

    The loss alone has p = 3 s / (1 + 2 s) for a share s of positives. Calibrated is p = s.
    """
    n, shares = 2000, np.array([0.3, 0.6])
    keys = np.repeat([0, 1], n)
    y = np.concatenate([np.arange(n) < s * n for s in shares]).astype(np.int32)
    cells = build_cells(y, [SensitiveColumn("g", keys.astype(np.int32), ("a", "b"))])
    weights = {"label_weights": (1.0, 3.0)}
    plain = FreeScores(keys, 0.1).train(session_of(cells, [], Control(), **weights), 300)[-1]
    p = 1 / (1 + np.exp(-plain[[0, -1]]))
    np.testing.assert_allclose(p, 3 * shares / (1 + 2 * shares), atol=1e-4)
    game = without_margin(session_of(cells, [CalibratedScores(0.01, "g")], Control(), **weights))
    held = FreeScores(keys, 0.1).train(game, 600)[-1]
    p = 1 / (1 + np.exp(-held[[0, -1]]))
    np.testing.assert_allclose(shares / p, 1.0, atol=0.012)


@pytest.mark.parametrize("within", [None, 3])
def test_errors_of_ratios_are_those_of_samples(within):
    """Labels and scores are drawn anew many times; parts are cut anew too."""
    rng, n, ratios, errors = np.random.default_rng(0), 3000, [], []
    constraint = CalibratedScores(0.0, "g", within)
    options = FairGBMClassifier(constraint=calibrated(0.0, within=within))._options()
    for _ in range(150):
        g = rng.integers(0, 2, n).astype(np.int32)
        f = rng.normal(0.3 * g, 1.0)
        y = (rng.uniform(size=n) < 1 / (1 + np.exp(-f - 0.2 * g))).astype(np.int32)
        cells = build_cells(y, [SensitiveColumn("g", g, (0, 1))])
        layout = plain_layout(cells, [constraint], None)
        found = measure_rows(options.game(layout, LossTerms(0.0, (1.0, 1.0))), f, "test")
        ((term, moments),), (law,) = list(found.read()), list(found.laws())
        violations, spread = errors_of_violations(constraint.as_judged, moments, term.rows, law)
        ratios.append(violations[: len(violations) // 2])
        errors.append(spread[: len(spread) // 2])
    np.testing.assert_allclose(np.std(ratios, axis=0), np.mean(errors, axis=0), rtol=0.25)


@pytest.fixture(scope="module")
def people():
    """A group that is no feature, with more positives than its features say."""
    rng = np.random.default_rng(2)
    n = 12_000
    groups, x = rng.integers(0, 2, n), rng.normal(size=(n, 3))
    x[:, 1] += groups  # tells something of the group
    y = (x[:, 0] + 1.2 * groups - 0.6 + rng.logistic(size=n) > 0).astype(int)
    return x, y, groups


def fitted(people, constraint, engine=None, **options):
    X, y, groups = people
    engine = engine or LGBMClassifier(n_estimators=60, num_leaves=7, verbose=-1, n_jobs=1)
    model = FairGBMClassifier(engine, constraint=constraint, random_state=0, **options)
    return model.fit(X[:8000], y[:8000], sensitive_features=pd.DataFrame({"g": groups[:8000]}))


def off(model, people):
    X, y, groups = (part[8000:] for part in people)
    p = model.predict_proba(X)[:, 1]
    return max(abs(y[groups == g].mean() / p[groups == g].mean() - 1) for g in (0, 1))


@pytest.mark.parametrize("engine", [None, XGBClassifier(n_estimators=60, max_depth=3, n_jobs=1)])
@pytest.mark.parametrize("holdout", [0.3, "cross"])
def test_groups_are_calibrated_on_new_rows(people, engine, holdout):
    plain = fitted(people, None, engine)
    model = fitted(people, "calibrated", engine, holdout=holdout)
    assert off(plain, people) > 0.1
    assert off(model, people) < 0.5 * off(plain, people)


def test_report_file_and_parts(people, tmp_path):
    asked = [calibrated(0.05, within=3, by="g"), parity("fpr", 0.2, by="g")]
    model = fitted(people, asked, operating_point=at_positive_rate(0.4))
    X, y, groups = people
    frame = pd.DataFrame({"g": groups[8000:]})
    report = model.report_on(X[8000:], y[8000:], sensitive_features=frame)
    assert "in each of 3 equal parts of the probabilities" in str(report)
    assert "at_positive_rate(0.4)" in str(report)
    assert {"probability", "label", "probability 1/3"} <= set(report.rates["rate"])
    assert "rate: probability[g=0]" in model.trace_
    model.save(tmp_path / "m.json")
    loaded = fairboost.load(tmp_path / "m.json")
    assert loaded.constraint == asked
    np.testing.assert_array_equal(loaded.predict(X), model.predict(X))


def test_verdict_is_about_the_ratio(people):
    model = fitted(people, "calibrated", tolerance=0.04)
    X, y, groups = people
    report = model.report_on(
        X[8000:], y[8000:], sensitive_features=pd.DataFrame({"g": groups[8000:]})
    )
    assert report.test_verdicts[0].value == pytest.approx(off(model, people))
    assert report.test_verdicts[0].limit == 0.04


def test_bad_input(people):
    X, y, groups = people
    with pytest.raises(ConstraintError, match="tolerance must lie"):
        by_name("calibrated", 1.5)
    with pytest.raises(ConstraintError, match="asks for next to nothing"):
        for_two_labels([calibrated(1.0, by="g")], False)
    with pytest.raises(ConstraintError, match="paper's algorithm"):
        for_two_labels([calibrated(0.1, by="g")], True)
    with pytest.raises(ConstraintError, match="'calibrated'"):
        FairGBMClassifier(constraint="calibrate").fit(X, y, sensitive_features=groups)
    with pytest.raises(ConstraintError, match="two in each part"):
        few = np.r_[np.zeros(len(y) - 5, int), np.ones(5, int)]
        fitted(
            (X, y, np.roll(few, -5000)), calibrated(0.1, within=4), holdout=None, min_group_rows=0
        )
    dask = pytest.importorskip("dask.array")
    model = fitted(people, "calibrated", LGBMClassifier(n_estimators=2, verbose=-1))
    lazy = [dask.from_array(part, chunks=6000) for part in (X, y)]
    with pytest.raises(InvalidInputError, match="judged by scores"):
        model.report_on(*lazy, sensitive_features=dask.from_array(groups, chunks=6000))
