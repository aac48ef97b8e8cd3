"""Early stopping under constraints looks at rounds within the limits alone."""

import warnings

import lightgbm
import numpy as np
import pytest
import xgboost

from fairboost import FairGBMClassifier, load
from fairboost.datasets import make_loans
from fairboost.engines.lightgbm.early_stopping import LightGBMWithinLimits, within_limits
from fairboost.engines.xgboost.lockstep import XGBoostWithinLimits

# Lower is better. The second fall is what comes under the constraint.
LOSSES = [0.50, 0.40, 0.45, 0.46, 0.47, 0.49, 0.48, 0.47, 0.475, 0.48, 0.485]
AS_STOCK = [True] * len(LOSSES)
LATER = [True, True, False, False, False, True, False, True, True, True, True]
NEVER = [True, False, *[False] * (len(LOSSES) - 2)]


class Booster:
    """As much of a booster as early stopping asks for."""

    def __init__(self):
        self.attributes = {}

    def set_attr(self, **named):
        for name, value in named.items():
            self.attributes.pop(name, None)
            if value is not None:
                self.attributes[name] = value

    def num_boosted_rounds(self):
        return 0


def lightgbm_stops(within, patience):
    """The round at which training ends, and the one that is the best."""
    known = iter(within)
    stop = LightGBMWithinLimits(
        lightgbm.early_stopping(patience, verbose=False), lambda: next(known)
    )
    kind, kinds = lightgbm.callback.CallbackEnv, lightgbm.basic
    for t, loss in enumerate(LOSSES):
        result = ("valid_0", "loss", loss, False)
        if hasattr(kinds, "EvalResult"):
            result = kinds.EvalResult(*result)
        env = kind(
            model=None, params={}, iteration=t, begin_iteration=0, end_iteration=len(LOSSES),
            evaluation_result_list=[result],
        )  # fmt: skip
        try:
            stop(env)
        except lightgbm.callback.EarlyStopException as ended:
            assert ended.best_score[0][2] == LOSSES[ended.best_iteration]
            return t, ended.best_iteration
    return t, None


def xgboost_stops(within, patience):
    known, log, model = iter(within), [], Booster()
    stop = xgboost.callback.EarlyStopping(rounds=patience)
    held = XGBoostWithinLimits(stop, lambda: next(known))
    held.before_training(model)
    for t, loss in enumerate(LOSSES):
        log.append(loss)
        if held.after_iteration(model, t, {"validation_0": {"logloss": log}}):
            break
    best = model.attributes.get("best_iteration")
    return t, None if best is None else int(best)


@pytest.mark.parametrize("stops", [lightgbm_stops, xgboost_stops])
def test_rounds_beyond_the_limits_are_neither_the_best_nor_counted(stops):
    assert stops(AS_STOCK, 2) == (4, 1)  # as without constraints, seen one round later
    assert stops(LATER, 2) == (10, 7)  # the best of the first two is forgotten
    assert stops(LATER, 3) == (10, 7)
    assert stops(LATER, 9) == (10, 7)  # of those seen when rounds are over
    assert stops([*LATER[:-1], False], 9) == (10, 7)
    assert stops(NEVER, 2) == (10, None)  # all rounds are kept


def test_options_and_callbacks_of_lightgbm_are_read_as_lightgbm_reads_them():
    def other(env):
        """Some other callback."""

    own = lightgbm.early_stopping(5, verbose=False)
    params = {"n_iter_no_change": 3, "early_stopping_min_delta": 0.1, "verbosity": -1}
    left, callbacks = within_limits(params, [other, own], lambda: True)
    assert "n_iter_no_change" not in left and callbacks[0] is other
    by_callback, by_option = callbacks[1:]
    assert by_callback.stop is own and by_callback.order == own.order
    assert by_option.stop.stopping_rounds == 3 and by_option.stop.min_delta == 0.1
    assert within_limits(params, [other, own], None) == (params, [other, own])


@pytest.fixture(scope="module")
def loans():
    """Rows to train on, and others to stop by."""
    found = make_loans(9000, seed=0)
    sex = np.asarray(found.sensitive["sex"])
    X = found.X.select_dtypes("number").to_numpy(float)
    parts = slice(0, 7000), slice(7000, None)
    return [(X[part], np.asarray(found.y)[part], sex[part]) for part in parts]


@pytest.mark.parametrize("name", ["lightgbm", "xgboost"])
def test_the_constraint_holds_where_training_is_stopped_early(loans, name, tmp_path):
    (X, y, sex), (X_new, y_new, sex_new) = loans
    options = {"n_estimators": 500, "n_jobs": 1, "learning_rate": 0.3}
    engine = {
        "lightgbm": lambda: lightgbm.LGBMClassifier(early_stopping_round=8, verbose=-1, **options),
        "xgboost": lambda: xgboost.XGBClassifier(early_stopping_rounds=8, **options),
    }[name]()
    model = FairGBMClassifier(
        engine, constraint="equal_opportunity", tolerance=0.02, holdout=0.3, random_state=0
    )
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "The argument 'eval_set' is deprecated")
        warnings.filterwarnings("ignore", "(not )?met on these rows")
        model.fit(X, y, sensitive_features=sex, eval_set=[(X_new, y_new)])
    rounds = len(model.trace_)
    assert rounds < 500
    (verdict,) = model.fairness_report_.verdicts
    assert verdict.value < 0.025  # 0.23 and 0.21 where early stopping looks at all rounds
    model.save(tmp_path / "model.json")
    for each in (model, load(tmp_path / "model.json")):
        for report in (
            each.fairness_report_,
            each.report_on(X_new, y_new, sensitive_features=sex_new),
        ):
            said = " ".join(report.advice)
            assert f"Early stopping ended training after {rounds} of 500 rounds." in said
            assert "n_estimators" not in said
