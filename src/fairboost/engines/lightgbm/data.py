"""The user's data and options as the estimator's ``fit`` reads them, and what it leaves behind.

Labels, class weights, categories, aliases of options, seeds: LightGBM's own estimator makes of
these what training needs, and this file takes it from there. A callback that raises before the
first round gets hold of the parameters and of the binned data, both public. Training on them is
then ours, and may leave out rows: a subset of binned data is cut in an instant, and X is not
copied. What ``fit`` would have set after training is private, and set by :func:`conclude` alone; a
test compares it with a stock fit.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any

import lightgbm
import numpy as np
from lightgbm import LGBMModel

from fairboost._typing import ArrayLike, BoolArray, FloatArray, IntArray
from fairboost.engines.port import EngineData
from fairboost.exceptions import EngineOptionError


@dataclass(frozen=True)
class Prepared:
    """What ``lightgbm.train`` needs.

    Parameters
    ----------
    params : dict
        Parameters, by LightGBM's names.
    rows : lightgbm.Dataset
        All rows, binned.
    valid_sets : list of lightgbm.Dataset
        The evaluation sets of the user, in order; ``rows`` itself where one is the training data.
    has_names : bool
        Whether the features have names of their own.
    """

    params: dict[str, Any]
    rows: lightgbm.Dataset
    valid_sets: list[lightgbm.Dataset]
    has_names: bool

    def split(
        self, trained: BoolArray, label_factors: tuple[float, float]
    ) -> tuple[Prepared, lightgbm.Dataset]:
        """The same with some of the rows, and the others.

        Parameters
        ----------
        trained : (n,) bool
            The rows to keep.
        label_factors : (float, float)
            Weights of either label in metrics on the rows kept. Gradients of our own do not know
            the weights of a Dataset.
        """
        kept, others = (take(self.rows, np.flatnonzero(rows)) for rows in (trained, ~trained))
        valid_sets = [kept if s is self.rows else s for s in self.valid_sets]
        if label_factors != (1.0, 1.0) and kept in valid_sets:
            weight, labels = kept.get_weight(), np.asarray(kept.get_label(), int)
            factors = np.asarray(label_factors)[labels]
            kept.set_weight(factors if weight is None else weight * factors)
        if all(s is kept for s in valid_sets):
            # Evaluation sets must have a reference in common; else the whole need not be kept.
            kept.reference = others.reference = None
        return replace(self, rows=kept, valid_sets=valid_sets), others


@dataclass(frozen=True)
class SplitRows:
    """Binned rows that the booster kept is not trained on, or not alone.

    Parameters
    ----------
    held_out : list of lightgbm.Dataset
        Those held out of all boosters.
    followers, left_out : sequence of lightgbm.Dataset
        Those that each follower is trained on, and those that it leaves out.
    """

    held_out: list[lightgbm.Dataset]
    followers: Sequence[lightgbm.Dataset] = ()
    left_out: Sequence[lightgbm.Dataset] = ()

    def with_followers(self, rows: lightgbm.Dataset, folds: Sequence[IntArray]) -> SplitRows:
        """The same, and all rows cut into those without each fold and those of each fold."""
        others = [np.delete(np.arange(rows.num_data()), fold) for fold in folds]
        kept, left_out = ([take(rows, some) for some in each] for each in (others, folds))
        return replace(self, followers=kept, left_out=left_out)


class _Ready(Exception):
    """Nothing is wrong: all is prepared, and training begins elsewhere."""


def prepare(
    estimator: LGBMModel,
    data: EngineData,
    encode: Callable[[ArrayLike], IntArray | FloatArray],
    eval_set: list[Any] | None,
    threads: int,
    **options: Any,
) -> Prepared:
    """Let the estimator read data and options, up to the first round.

    Parameters
    ----------
    estimator : LGBMModel
        Gets the fitted state that does not depend on trees.
    data : EngineData
        The user's data.
    encode : callable
        Further labels as they are trained on.
    eval_set : list of (Matrix, ArrayLike), optional
        The evaluation sets of the user.
    threads : int
        Threads that LightGBM may use, here and in training.
    **options
        Further arguments of ``fit``.
    """
    # LightGBM knows its training data by identity.
    is_ours = [a is data.X and b is data.y for a, b in eval_set or []]
    others = [k for k, ours in enumerate(is_ours) if not ours]
    if eval_set and others:
        # By the names that LightGBM prefers since 4.7, which do not encode labels.
        options["eval_X"] = tuple(eval_set[k][0] for k in others)
        options["eval_y"] = tuple(encode(eval_set[k][1]) for k in others)
    for what in ("eval_sample_weight", "eval_init_score"):
        options[what] = _pick(options.get(what), others)
    found: list[Prepared] = []
    # LightGBM speaks of data and options here and when training begins: once is enough.
    options_given = estimator.get_params()
    name = "verbosity" if "verbosity" in options_given else "verbose"
    asked = options_given.get(name)
    estimator.set_params(**{name: min(0, 1 if asked is None else int(asked))})
    estimator.set_params(num_threads=threads)  # the name that LightGBM prefers

    def stop(env: Any) -> None:
        further = iter(env.model.valid_sets)
        rows = env.model.train_set
        sets = [rows if ours else next(further) for ours in is_ours]
        # The data is binned by now; LightGBM would take the same forced bins for other ones.
        done = {name, "forcedbins_filename"}
        params = {key: value for key, value in env.params.items() if key not in done}
        params |= {} if asked is None else {name: asked}
        found.append(Prepared(params, rows, sets, bool(rows._has_non_default_feature_names)))
        raise _Ready

    stop.before_iteration = True  # type: ignore[attr-defined]
    try:
        with suppress(_Ready):
            estimator.fit(data.X, data.y, callbacks=[stop], **options)
    except lightgbm.basic.LightGBMError as error:
        if "OpenCL" not in str(error):
            raise
        raise EngineOptionError(
            f"the estimator sets device_type='gpu', and LightGBM cannot use a GPU here: {error}; "
            "leave device_type out to train on the CPU"
        ) from error
    return found[0]


def conclude(
    estimator: LGBMModel, booster: lightgbm.Booster, history: dict[str, Any], has_names: bool
) -> None:
    """Give the estimator the fitted state that ``fit`` would have set after training.

    Parameters
    ----------
    estimator : LGBMModel
        As :func:`prepare` left it.
    booster : lightgbm.Booster
        Trained.
    history : dict
        Values of metrics, as ``lightgbm.record_evaluation`` fills it.
    has_names : bool
        Whether the features have names of their own.
    """
    estimator._Booster = booster
    estimator._n_features = booster.num_feature()
    estimator._fitted_with_feature_names = has_names
    estimator._evals_result = history
    estimator._best_iteration = booster.best_iteration
    estimator._best_score = booster.best_score
    estimator.fitted_ = True


def _pick(collection: Any, which: list[int]) -> Any:
    """Some items of a list or mapping by number, as far as there are; anything else as it is."""
    if isinstance(collection, list):
        collection = dict(enumerate(collection))
    if not isinstance(collection, dict):
        return collection
    return {new: collection[k] for new, k in enumerate(which) if k in collection}


def take(rows: lightgbm.Dataset, which: IntArray) -> lightgbm.Dataset:
    """Some of the rows of binned data, by their positions, which are in order."""
    subset = rows.subset([0])
    indices: Any = which.astype(np.int32)
    subset.used_indices = indices  # subset() itself makes a list, of ten times the size
    return subset.construct()
