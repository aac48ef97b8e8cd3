"""The engines, in one vocabulary: what a test of all of them has to know of each."""

from __future__ import annotations

from typing import Any, ClassVar

import lightgbm
import numpy as np
import pytest
from lightgbm import LGBMClassifier
from scipy.special import expit

from tests.problems import lightgbm_on_some


class LightGBM:
    """Stock LightGBM."""

    name = "lightgbm"
    label_power = 1.0
    ending = ".txt"
    atol = 1e-10  # of scores, against stock's

    options: ClassVar = {
        "plain": {},
        "rows": {"subsample": 0.6, "subsample_freq": 1},
        "columns": {"colsample_bytree": 0.5},
        "scale_pos_weight": {"scale_pos_weight": 3.0},
        "monotone": {"monotone_constraints": [1, -1, 0, 0]},
        "regularised": {"reg_alpha": 0.5, "reg_lambda": 3.0, "max_delta_step": 0.3},
        "fixed start": {"boost_from_average": False},
    }
    dart: ClassVar = {"boosting_type": "dart", "drop_rate": 0.9, "skip_drop": 0.0}
    no_split: ClassVar = {"min_split_gain": 1e9}

    def make(self, **options: Any) -> LGBMClassifier:
        """Make a small, quiet engine on one thread."""
        defaults = {
            "n_estimators": 8,
            "num_leaves": 7,
            "learning_rate": 0.3,
            "min_child_samples": 5,
            "n_jobs": 1,
            "verbose": -1,
            "random_state": 0,
        }
        return LGBMClassifier(**{**defaults, **options})

    def scores(self, fitted: Any, X: Any, rounds: int | None = None) -> np.ndarray:
        """Raw scores by a stock estimator."""
        return fitted.predict(X, raw_score=True, num_iteration=rounds)

    def start(self, y: np.ndarray, weight: np.ndarray | None) -> float:
        """The score that stock boosting starts from."""
        share = np.average(y, weights=weight)
        return float(np.log(share / (1 - share)))

    def by_hand(
        self, engine: Any, X: Any, y: np.ndarray, kept: np.ndarray, first: np.ndarray
    ) -> np.ndarray:
        """Scores before every round and after the last, by a booster on some of the rows."""
        return lightgbm_on_some(engine, X, y, kept, self.start(y, None))

    def read(self, path: Any, X: Any) -> np.ndarray:
        """Probabilities by a stock booster from a file."""
        return lightgbm.Booster(model_file=path).predict(X)

    def contributions(self, path: Any, X: Any) -> np.ndarray:
        """SHAP values by a stock booster from a file."""
        return lightgbm.Booster(model_file=path).predict(X, pred_contrib=True)

    def note(self, path: Any, name: str) -> str:
        """What an exported file says besides."""
        lines = path.read_text().splitlines()
        return next(line for line in lines if line.startswith(f"{name}=")).partition("=")[2]

    def stopping(self, rounds: int) -> tuple[dict[str, Any], dict[str, Any]]:
        """Options of the engine, and of ``fit``, that stop early."""
        return {}, {"callbacks": [lightgbm.early_stopping(rounds, verbose=False)]}

    def schedule(self, rates: list[float]) -> tuple[dict[str, Any], dict[str, Any]]:
        """Options of the engine, and of ``fit``, that change the learning rate."""
        return {}, {"callbacks": [lightgbm.reset_parameter(learning_rate=rates)]}

    def interrupting(self, rounds: int) -> tuple[dict[str, Any], dict[str, Any]]:
        """Options of the engine, and of ``fit``, that end training as Ctrl-C does."""

        def interrupt(env: Any) -> None:
            if env.iteration == rounds:
                raise KeyboardInterrupt

        return {}, {"callbacks": [interrupt]}

    def n_trees(self, booster: Any) -> int:
        """Number of trees in a booster."""
        return booster.num_trees()

    def trees(self, booster: Any) -> list[str]:
        """The text of each tree."""
        text = booster.model_to_string(num_iteration=-1).split("end of trees")[0]
        return [tree.partition("\n")[2] for tree in text.split("Tree=")[1:]]


class XGBoost:
    """Stock XGBoost."""

    name = "xgboost"
    label_power = 0.87  # its trees are grown to a depth
    ending = ".json"
    atol = 1e-6

    options: ClassVar = {
        "plain": {},
        "rows": {"subsample": 0.6},
        "columns": {"colsample_bytree": 0.5},
        "scale_pos_weight": {"scale_pos_weight": 3.0},
        "monotone": {"monotone_constraints": (1, -1, 0, 0)},
        "regularised": {"reg_alpha": 0.5, "reg_lambda": 3.0, "max_delta_step": 0.3},
        "fixed start": {"base_score": 0.3},
    }
    dart: ClassVar = {"booster": "dart", "rate_drop": 0.9}
    no_split: ClassVar = {"gamma": 1e9}

    def make(self, **options: Any) -> Any:
        """Make a small engine on one thread."""
        xgboost = pytest.importorskip("xgboost")
        defaults = {
            "n_estimators": 8,
            "max_depth": 3,
            "learning_rate": 0.3,
            "n_jobs": 1,
            "random_state": 0,
            "enable_categorical": True,
        }
        return xgboost.XGBClassifier(**{**defaults, **options})

    def scores(self, fitted: Any, X: Any, rounds: int | None = None) -> np.ndarray:
        """Raw scores by a stock estimator."""
        span = None if rounds is None else (0, rounds)
        return fitted.predict(X, output_margin=True, iteration_range=span).astype(np.float64)

    def start(self, y: np.ndarray, weight: np.ndarray | None) -> float:
        """The score that stock boosting starts from."""
        share = np.float32(np.average(y, weights=weight)).astype(float)
        return float(np.log(share / (1 - share)))

    def by_hand(
        self, engine: Any, X: Any, y: np.ndarray, kept: np.ndarray, first: np.ndarray
    ) -> np.ndarray:
        """Scores before every round and after the last, by a booster on some of the rows.

        Bins are those of the first booster's rows.
        """
        import xgboost

        def objective(scores, rows):
            p = expit(scores.astype(float))
            return p - y[kept], p * (1 - p)

        start = self.start(y, None)
        params = {**engine.get_xgb_params(), "base_score": float(expit(start))}
        bins = xgboost.QuantileDMatrix(X[first], y[first])
        rows, all_rows = (
            xgboost.QuantileDMatrix(X[some], y[some], ref=bins) for some in (kept, slice(None))
        )
        booster = xgboost.train(
            params, rows, engine.n_estimators, obj=objective, callbacks=engine.callbacks
        )
        rounds = [(0, t) for t in range(1, engine.n_estimators + 1)]
        after = [booster.predict(all_rows, output_margin=True, iteration_range=t) for t in rounds]
        return np.array([np.full(len(y), start), *after], float)

    def read(self, path: Any, X: Any) -> np.ndarray:
        """Probabilities by a stock booster from a file."""
        import xgboost

        return xgboost.Booster(model_file=path).inplace_predict(X)

    def contributions(self, path: Any, X: Any) -> np.ndarray:
        """SHAP values by a stock booster from a file."""
        import xgboost

        booster = xgboost.Booster(model_file=path)
        known = booster.get_categories() if hasattr(X, "columns") else None
        rows = xgboost.DMatrix(X, enable_categorical=True, feature_types=known)
        return booster.predict(rows, pred_contribs=True)

    def note(self, path: Any, name: str) -> str:
        """What an exported file says besides."""
        import xgboost

        return xgboost.Booster(model_file=path).attr(name)

    def stopping(self, rounds: int) -> tuple[dict[str, Any], dict[str, Any]]:
        """Options of the engine, and of ``fit``, that stop early."""
        return {"early_stopping_rounds": rounds}, {}

    def schedule(self, rates: list[float]) -> tuple[dict[str, Any], dict[str, Any]]:
        """Options of the engine, and of ``fit``, that change the learning rate."""
        from xgboost.callback import LearningRateScheduler

        # XGBoost sets the rate of a round after the one before.
        return {"callbacks": [LearningRateScheduler([*rates[1:], rates[-1]])]}, {}

    def interrupting(self, rounds: int) -> tuple[dict[str, Any], dict[str, Any]]:
        """Options of the engine, and of ``fit``, that end training as Ctrl-C does."""
        from xgboost.callback import TrainingCallback

        class Interrupt(TrainingCallback):
            def after_iteration(self, model: Any, epoch: int, evals_log: Any) -> bool:
                if epoch == rounds:
                    raise KeyboardInterrupt
                return False

        return {"callbacks": [Interrupt()]}, {}

    def n_trees(self, booster: Any) -> int:
        """Number of trees in a booster."""
        return len(booster.get_dump())

    def trees(self, booster: Any) -> list[str]:
        """The text of each tree."""
        return booster.get_dump(with_stats=True)


KINDS = {kind.name: kind for kind in (LightGBM(), XGBoost())}
