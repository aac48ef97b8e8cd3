"""LightGBM's boosters that predict codes (:mod:`fairboost.engines.group_model`)."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any, Literal, TypeAlias

import lightgbm
import numpy as np
from lightgbm import Dataset
from numpy.typing import NDArray

from fairboost._typing import FloatArray, IntArray
from fairboost.data.validation import take_rows
from fairboost.engines.group_model import FEW_BINS, CodedRows, Grown, Growth, Started, most_rounds
from fairboost.engines.lightgbm.data import take
from fairboost.engines.lightgbm.threads import number_of_threads
from fairboost.engines.tables import as_codes

BLOCK = 100_000  # rows predicted at a time, so that a large X is not copied as a whole

QUIET: dict[str, Any] = {"verbosity": -1, "deterministic": True, "force_col_wise": True}
Categorical: TypeAlias = list[str] | list[int] | Literal["auto"]


@dataclass(frozen=True)
class LightGBMGroupModel:
    """Grows boosters by LightGBM.

    Parameters
    ----------
    categorical_feature : list of str, list of int, or "auto"
        LightGBM's option of the same name.
    threads : int
        Threads that may be used.
    whole : lightgbm.Dataset, optional
        All rows, binned.
    values : (n, n_features) float64, optional
        All rows with codes for categories, to predict from, where X is a data frame.
    """

    categorical_feature: Categorical = "auto"
    threads: int = 1
    whole: Dataset | None = None
    values: NDArray[Any] | None = None

    @contextmanager
    def side_by_side(self, data: CodedRows, threads: int) -> Iterator[LightGBMGroupModel]:
        """Bin the rows once, for boosters that are grown at the same time."""
        with number_of_threads(threads) as number:
            whole = Dataset(
                data.X, data.codes, weight=data.weight,
                categorical_feature=self.categorical_feature,
                params=QUIET | {"num_threads": number, "max_bin": FEW_BINS},
            )  # fmt: skip
            coded = as_codes(data.X, np.float64)
            values = None if coded is None else coded.values
            yield replace(self, threads=number, whole=whole.construct(), values=values)

    def few_trees(self, data: CodedRows, learn: IntArray, held_out: IntArray) -> FloatArray:
        """Probabilities of held-out rows, by trees that single out small groups of rows."""
        n = data.n_codes
        options = QUIET | {
            "objective": "multiclass", "num_class": n, "learning_rate": 0.7, "max_bin": 127,
            "num_leaves": min(31, max(7, 300 // n)),
            "min_data_in_leaf": 3, "min_data_in_bin": 1, "min_data_per_group": 1,
            "cat_smooth": 0.0, "cat_l2": 0.0, "max_cat_threshold": 256, "lambda_l2": 0.3,
        }  # fmt: skip
        rows = Dataset(
            take_rows(data.X, learn), data.codes[learn],
            categorical_feature=self.categorical_feature,
        )  # fmt: skip
        with number_of_threads(1) as number:
            options["num_threads"] = number
            booster = lightgbm.train(options, rows, num_boost_round=3 + 12 // n)
            likely = booster.predict(take_rows(data.X, held_out), num_threads=number)
        return np.asarray(likely)

    def boost(self, data: CodedRows, grown: Started, stopping: Started, how: Growth) -> Grown:
        """Grow a booster on some rows until the loss on others falls no more."""
        n = data.n_codes
        options = QUIET | {
            "objective": "binary" if n == 2 else "multiclass", "num_class": 1 if n == 2 else n,
            "learning_rate": how.learning_rate, "num_leaves": how.num_leaves,
            "num_threads": self.threads, "max_bin": FEW_BINS,
            "lambda_l2": 10.0,  # keeps the scores of rare codes, whose Hessian is tiny, in bounds
        }  # fmt: skip
        stop = lightgbm.early_stopping(how.patience, verbose=False)
        booster = lightgbm.train(
            options,
            self._dataset(data, grown),
            how.rounds or most_rounds(n),
            valid_sets=[self._dataset(data, stopping)],
            callbacks=[stop],
        )

        def scores(rows: IntArray) -> FloatArray:
            out = np.zeros((len(rows), n))
            columns = 1 if n == 2 else slice(None)
            for block in (slice(k, k + BLOCK) for k in range(0, len(rows), BLOCK)):
                X = take_rows(data.X if self.values is None else self.values, rows[block])
                found = booster.predict(X, raw_score=True, num_threads=self.threads)
                out[block, columns] = found
            return out

        return Grown(scores, booster.best_iteration)

    def _dataset(self, data: CodedRows, some: Started) -> Dataset:
        """Some of the rows, with the scores to start from."""
        assert self.whole is not None
        rows, start = take(self.whole, some.rows), some.scores
        if start is not None:
            rows.set_init_score(start[:, 1] - start[:, 0] if data.n_codes == 2 else start)
        return rows
