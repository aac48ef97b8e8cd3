"""Early stopping that looks only at rounds within the limits of the constraints.

A metric on an evaluation set gets worse while a constraint takes hold. Early stopping would end
training there, and keep a round that is as unfair as the plain model.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import lightgbm

from fairboost.engines.lightgbm.options import is_true, option, without

Callback = Callable[[Any], None]
_EarlyStopping = type(lightgbm.early_stopping(1, verbose=False))


class LightGBMWithinLimits:
    """LightGBM's early stopping, of rounds within the limits.

    Its patience counts these rounds alone. Those before the limits are first broken are forgotten
    then: they were within the limits because they hardly told people apart. A model is measured at
    the start of the next round, so that a round is handed on one round later.

    Parameters
    ----------
    stop : callable
        LightGBM's callback.
    within : callable
        Whether the last model that was measured is within the limits.
    """

    before_iteration = False

    def __init__(self, stop: Any, within: Callable[[], bool]) -> None:
        self.stop, self.within, self.order = stop, within, stop.order
        self.seen: list[int] = []
        self.latest: Any = None
        self.waiting: Any = None
        self.broken = False

    def __call__(self, env: Any) -> None:
        """Hand the round on, as the next of those within the limits."""
        is_last = env.iteration + 1 == env.end_iteration
        judged, self.waiting = self.waiting, env
        if judged is not None and self.within():
            self.seen.append(judged.iteration)
            self.latest = judged
        else:
            if judged is not None and not self.broken:
                self.broken, self.seen = True, []
            if not is_last:
                return
        if not self.seen:
            return
        at = len(self.seen) - 1
        # At the end it says which round was the best, if it has seen one.
        latest, end = self.latest, at + (1 if is_last else 2)
        told = type(latest)(
            model=latest.model, params=latest.params, iteration=at, begin_iteration=0,
            end_iteration=end, evaluation_result_list=latest.evaluation_result_list,
        )  # fmt: skip
        try:
            self.stop(told)
        except lightgbm.callback.EarlyStopException as ended:
            best = self.seen[ended.best_iteration]
            raise lightgbm.callback.EarlyStopException(best, ended.best_score) from None


def within_limits(
    params: dict[str, Any], callbacks: Sequence[Callback], within: Callable[[], bool] | None
) -> tuple[dict[str, Any], list[Callback]]:
    """Parameters and callbacks of ``lightgbm.train`` in which early stopping heeds the limits."""
    if within is None:
        return params, list(callbacks)
    rounds = option(params, "early_stopping_round") or 0
    stops: list[Callback] = []
    if rounds > 0:
        stops.append(
            lightgbm.early_stopping(
                rounds,
                first_metric_only=is_true(option(params, "first_metric_only", False)),
                verbose=option(params, "verbosity", 1) > 0,
                min_delta=option(params, "early_stopping_min_delta", 0.0),
            )
        )
        params = without(params, "early_stopping_round")
    held = [
        LightGBMWithinLimits(callback, within)
        if isinstance(callback, _EarlyStopping)
        else callback
        for callback in (*callbacks, *stops)
    ]
    return params, held
