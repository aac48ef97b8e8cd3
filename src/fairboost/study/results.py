"""From points to tables: nothing here trains, and the same points give the same tables."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from functools import cache, wraps
from itertools import groupby
from operator import itemgetter
from typing import Any, ParamSpec, TypeAlias

import numpy as np
import pandas as pd

from fairboost._typing import FloatArray
from fairboost.exceptions import InvalidInputError
from fairboost.fairness.operating_points import OperatingPoint
from fairboost.search import protocol
from fairboost.search.protocol import Pool, Summary
from fairboost.study.config import StudyConfig
from fairboost.study.measures import gap_error, ratio_error
from fairboost.study.task import Method
from fairboost.verdicts.diagnostics import decides_little

ALPHAS = np.linspace(0.0, 1.0, 101)
OURS = ("fairboost", "fair_stage")
RANDOMIZED = ("EG", "paper, randomized")
"""Algorithms that draw a model for each row: two people alike may be decided differently."""

SEES_GROUP, DRAWS = " †", " ‡"
UNMARKED = "every peer without a mark"
WORDS = ("ahead", "decides nothing", "even", "behind")
IDLE = 0.025
"""Share of draws in which the model kept may decide nothing and the method still be ahead."""

PUBLISHED = {"FairGBM": "paper", "LightGBM": "plain", "GS": "GS", "RS": "RS", "EG": "EG"}
"""Algorithms by their names in published tables."""


Line: TypeAlias = dict[str, Any]
P = ParamSpec("P")


def as_table(lines: Callable[P, Iterator[Line]]) -> Callable[P, pd.DataFrame]:
    """A function that makes a table of the lines that another yields."""

    @wraps(lines)
    def table(*args: P.args, **kwargs: P.kwargs) -> pd.DataFrame:
        return pd.DataFrame(lines(*args, **kwargs))

    return table


class Results:
    """Tables of a study, from its points.

    Parameters
    ----------
    points : DataFrame
        As from :func:`fairboost.study.study.collect`.
    config : StudyConfig
        The study.
    methods : dict of str to Method
        Those that took part, by name.
    """

    def __init__(
        self, points: pd.DataFrame, config: StudyConfig, methods: dict[str, Method]
    ) -> None:
        self.points, self.config, self.methods = points, config, methods
        self.settings = config.protocol
        self._good = points[points["error"].isna()]
        self._method = dict(zip(points["algorithm"], points["method"], strict=True))
        if len(points[["algorithm", "method"]].drop_duplicates()) > len(self._method):
            raise InvalidInputError(
                f"two of the methods {list(methods)} have models of the same name; rename yours"
            )
        # Many tables rest on the same draws: each is made once.
        self.pools: Callable[[str, str], list[Pool]] = cache(self._make_pools)
        self._chosen = cache(self._choose)

    @property
    def features(self) -> list[str]:
        """Which of aware and blind there is."""
        present = set(self.points["features"])
        return [f for f in ("aware", "blind") if f in present]

    def algorithms(self, features: str) -> list[str]:
        """Algorithms that have models, ours first, in the order of the methods."""
        found = set(self._good.loc[self._good["features"] == features, "algorithm"])
        order = list(self.methods)
        return sorted(found, key=lambda a: (order.index(self._method[a]), a))

    def title(self, algorithm: str) -> str:
        """An algorithm in words: † needs the group to predict, ‡ decides by a draw."""
        method = self.methods[self._method[algorithm]]
        own = algorithm.removeprefix(method.name)  # of a variant that stands by itself
        words = f"{method.title}{own}"
        seeing = SEES_GROUP if method.sees_group else ""
        return words + seeing + (DRAWS if algorithm in RANDOMIZED else "")

    def _models(self, features: str, algorithm: str) -> list[pd.DataFrame]:
        """The lines of an algorithm that did not fail, a table for every seed."""
        good = self._good
        mine = good[(good["features"] == features) & (good["algorithm"] == algorithm)]
        return [part for _, part in mine.groupby("seed")]

    def _make_pools(self, features: str, algorithm: str) -> list[Pool]:
        """The models of an algorithm, a pool for every seed."""
        found = []
        for part in self._models(features, algorithm):
            validation, test = (
                part[[f"{rows}_performance", f"{rows}_fairness"]].to_numpy(np.float64)
                for rows in ("validation", "test")
            )
            trial, n = part["trial"].to_numpy(np.intp), int(part["trials"].iloc[0])
            models = self.methods[self._method[algorithm]].models
            found.append(Pool(trial, validation, test, n, models))
        return found

    def _choose(
        self, features: str, algorithm: str, alpha: float, trials: int | None = None
    ) -> tuple[FloatArray, FloatArray]:
        """Validation and test figures of the models kept, in all replicates of all seeds.

        With ``trials`` a replicate has no more than so many of its trials to choose from.
        """
        validation, test = [], []
        for _, pool, kept in self._kept(features, algorithm, alpha, trials):
            validation.append(protocol.of_chosen(pool.validation, kept))
            test.append(protocol.of_chosen(pool.test, kept))
        return np.concatenate(validation), np.concatenate(test)

    def _kept(
        self, features: str, algorithm: str, alpha: float, trials: int | None = None
    ) -> Iterator[tuple[pd.DataFrame, Pool, protocol.Indices]]:
        """Of every seed its models, as lines and as a pool, and which one each replicate keeps."""
        models, pools = self._models(features, algorithm), self.pools(features, algorithm)
        for seed, (part, pool) in enumerate(zip(models, pools, strict=True)):
            yield part, pool, protocol.select(pool, self._draws(pool, seed)[:, :trials], alpha)

    def _idle(self, features: str, algorithm: str, alpha: float, trials: int | None) -> float:
        """Share of replicates whose model decides next to nothing on the test rows."""
        found = []
        for part, _, kept in self._kept(features, algorithm, alpha, trials):
            decides = {k: self._decides_little(part.iloc[k]) for k in np.unique(kept[kept >= 0])}
            found += [decides.get(k, False) for k in kept]
        return float(np.mean(found))

    def _decides_little(self, model: pd.Series) -> bool:
        positives = model["test_positives"]
        rates = model["test_tpr"], model["test_fpr"], positives, model["test_rows"] - positives
        placed = isinstance(self.config.metrics.threshold, OperatingPoint)
        return bool(decides_little(*rates, placed=placed))

    def _draws(self, pool: Pool, seed: int) -> protocol.Indices:
        size = pool.size(self.settings.models)
        return protocol.draw_trials(pool.n_trials, size, self.settings.replicates, seed)

    @as_table
    def selected(self, features: str) -> Iterator[Line]:
        """The models kept at each alpha: validation and test figures, mean and deviation."""
        for alpha in self.settings.alphas:
            for algorithm in self.algorithms(features):
                validation, test = self._chosen(features, algorithm, alpha)
                weighted = protocol.summarize(protocol.merits(test, alpha))
                line: Line = {"alpha": alpha, "algorithm": self.title(algorithm)}
                for rows, figures in (("validation", validation), ("test", test)):
                    for k, name in ((1, "fairness"), (0, "performance")):
                        found = protocol.summarize(figures[:, k])
                        line[f"{rows} {name}"] = found.mean
                        line[f"{rows} {name} sd"] = found.deviation
                line |= {"weighted": weighted.mean, "weighted low": weighted.low,
                         "weighted high": weighted.high}  # fmt: skip
                yield line

    @as_table
    def curve(self, features: str, algorithm: str) -> Iterator[Line]:
        """The weighted test metric over alpha, with the band that holds 95% of replicates."""
        for alpha in ALPHAS:
            _, test = self._chosen(features, algorithm, alpha)
            yield {"alpha": alpha, **vars(protocol.summarize(protocol.merits(test, alpha)))}

    def curves(self, features: str) -> pd.DataFrame:
        """The curves of all algorithms."""
        algorithms = self.algorithms(features)
        return pd.concat(
            [self.curve(features, a).assign(algorithm=self.title(a)) for a in algorithms]
        )

    @as_table
    def leads(self, features: str) -> Iterator[Line]:
        """How far each of our methods is ahead of every other, with paired 95% intervals."""
        for ours, peer in self._pairs(features):
            for alpha in self.settings.alphas:
                errors = [self._test_error(features, a, alpha) for a in (ours, peer)]
                error = {"test error": float(np.linalg.norm(errors))}
                yield self._lead_line(features, ours, peer, alpha) | error

    @as_table
    def one_trial(self, features: str) -> Iterator[Line]:
        """One trial that is a whole trade-off, against a whole search by every other method."""
        for ours, peer in self._pairs(features):
            if self.methods[ours].curve:
                size = self.pools(features, peer)[0].size(self.settings.models)
                whole_draw = self._trial_cpu(features, peer) * size
                time = self._trial_cpu(features, ours) / whole_draw
                for alpha in self.settings.alphas:
                    line = self._lead_line(features, ours, peer, alpha, trials=1)
                    yield line | {"time": time}

    @as_table
    def reach(self, features: str) -> Iterator[Line]:
        """For every peer, and for all that are not marked, where we are ahead, even or behind.

        Or ahead with models that decide nothing, which is no lead.
        """
        found: dict[str, dict[str, list[str]]] = {}
        for ours, peer in self._pairs(features):
            words = [self._lead_line(features, ours, peer, alpha)["verdict"] for alpha in ALPHAS]
            found.setdefault(self.title(ours), {})[self.title(peer)] = words
        for ours, verdicts in found.items():
            unmarked = [v for p, v in verdicts.items() if not p.endswith((SEES_GROUP, DRAWS))]
            if unmarked:  # the least favourable
                verdicts[UNMARKED] = [
                    max(each, key=WORDS.index) for each in zip(*unmarked, strict=True)
                ]
            for peer, words in verdicts.items():
                spans = {word: _spans(ALPHAS, [w == word for w in words]) for word in WORDS}
                yield {"algorithm": ours, "peer": peer, **spans}

    def _pairs(self, features: str) -> list[tuple[str, str]]:
        """Each of our algorithms with every peer."""
        everyone = self.algorithms(features)
        peers = [a for a in everyone if a not in OURS]
        return [(ours, peer) for ours in everyone if ours in OURS for peer in peers]

    def _lead_line(
        self, features: str, ours: str, peer: str, alpha: float, trials: int | None = None
    ) -> Line:
        lead = self._lead(features, ours, peer, alpha, trials)
        verdict = "ahead" if lead.low > 0 else "behind" if lead.high < 0 else "even"
        if verdict == "ahead" and self._idle(features, ours, alpha, trials) > IDLE:
            verdict = "decides nothing"  # rates are equal where everyone is decided alike
        return {
            "algorithm": self.title(ours), "peer": self.title(peer), "alpha": alpha,
            "lead": lead.mean, "low": lead.low, "high": lead.high, "verdict": verdict,
        }  # fmt: skip

    def _lead(
        self, features: str, ours: str, peer: str, alpha: float, trials: int | None = None
    ) -> Summary:
        """Ours less the peer's, who always has its whole draw."""
        mine = protocol.merits(self._chosen(features, ours, alpha, trials)[1], alpha)
        theirs = protocol.merits(self._chosen(features, peer, alpha)[1], alpha)
        n = min(len(mine), len(theirs))
        return protocol.summarize(mine[:n] - theirs[:n])

    def _trial_cpu(self, features: str, algorithm: str) -> float:
        """CPU seconds of a trial, on average."""
        table = pd.concat(self._models(features, algorithm))
        return float(table.drop_duplicates(["seed", "trial"])["cpu"].mean())

    def _test_error(self, features: str, algorithm: str, alpha: float) -> float:
        """Standard error, from the test rows, of the weighted metric of the models kept.

        It is that of independent samples: less is known of what two models share. Known for
        accuracy and rates; NaN for other scorers.
        """
        metrics = self.config.metrics
        counted = {"accuracy": "test_rows", "tpr": "test_positives"}.get(metrics.performance)
        if counted is None:
            return float("nan")
        fairness_error = ratio_error if metrics.fairness == "ratio" else gap_error
        errors = []
        for part, _, kept in self._kept(features, algorithm, alpha):
            for _, model in part.iloc[np.unique(kept[kept >= 0])].iterrows():
                share = model["test_performance"]
                performance = np.sqrt(share * (1 - share) / model[counted])
                fairness = fairness_error(json.loads(model["test_rates"]))
                errors.append(np.hypot(alpha * performance, (1 - alpha) * fairness))
        return float(np.mean(errors)) if errors else float("nan")

    @as_table
    def within(self, features: str) -> Iterator[Line]:
        """Share of configurations whose gap on the test rows is within the tolerance.

        Of several models in a trial the one counts that is best within the tolerance on the
        validation rows. The second share takes the sampling error of the test rows off.
        """
        tolerance = self.config.metrics.tolerance
        for algorithm in self.algorithms(features):
            kept = pd.concat(
                [part.iloc[_within(part, tolerance)] for part in self._models(features, algorithm)]
            )
            errors = np.array([gap_error(json.loads(r)) for r in kept["test_rates"]])
            gap = kept["test_gap"].to_numpy()
            yield {
                "algorithm": self.title(algorithm), "configurations": len(kept),
                "within": float((gap <= tolerance).mean()),
                "within noise": float((gap - 1.96 * errors <= tolerance).mean()),
                "mean gap": float(gap.mean()),
                "mean performance": float(kept["test_performance"].mean()),
            }  # fmt: skip

    @as_table
    def hypervolume(self, features: str) -> Iterator[Line]:
        """Area on the test rows that the models of a replicate dominate."""
        for algorithm in self.algorithms(features):
            areas = [
                protocol.hypervolumes(pool, self._draws(pool, seed), self.settings.reference)
                for seed, pool in enumerate(self.pools(features, algorithm))
            ]
            summary = protocol.summarize(np.concatenate(areas))
            yield {"algorithm": self.title(algorithm), **vars(summary)}

    @as_table
    def times(self, features: str) -> Iterator[Line]:
        """Training time of every method: all of its trials, and relative to plain LightGBM.

        ``per trial, relative`` is about trials of the same options; ``search, relative`` about
        the whole search, in which a method that trains ten models a trial has a tenth of them.
        """
        trials = self.points[self.points["features"] == features]
        trials = trials.drop_duplicates(["seed", "method", "trial"]).set_index(["seed", "trial"])
        good = trials[trials["error"].isna()]
        base = good.loc[good["method"] == "plain", "cpu"]
        for name in (name for name in self.methods if name in set(trials["method"])):
            part, cpu = trials[trials["method"] == name], good.loc[good["method"] == name, "cpu"]
            shared = cpu.index.intersection(base.index)
            models = len(cpu) * self.methods[name].models
            whole = float(cpu.sum() * len(base) / models) if models else 0.0
            yield {
                "method": self.title(name), "trials": len(part),
                "failed": int(part["error"].notna().sum()),
                "cpu total": float(part["cpu"].sum()),
                "cpu per trial": float(cpu.mean()),
                "per trial, relative": _quotient(cpu[shared].sum(), base[shared].sum()),
                "search, relative": _quotient(whole, float(base.sum())),
            }  # fmt: skip

    def randomized(self, features: str) -> pd.DataFrame:
        """The paper's randomized classifier against its last iterate, trial by trial."""
        figures = [f"{r}_{n}" for r in ("validation", "test") for n in ("performance", "fairness")]
        good = self._good[self._good["features"] == features].set_index(["seed", "trial"])
        last, drawn = (
            good.loc[good["algorithm"] == name, figures] for name in ("paper", "paper, randomized")
        )
        if last.empty or drawn.empty:
            return pd.DataFrame()
        columns = {
            "last": last.mean(), "randomized": drawn.mean(),
            "difference": (drawn - last).mean(), "sd of difference": (drawn - last).std(),
        }  # fmt: skip
        table = pd.DataFrame(columns, index=figures).reset_index(names="figure")
        return table.assign(figure=table["figure"].str.replace("_", " "))

    def failures(self) -> pd.DataFrame:
        """Trials that failed, with the message."""
        failed = self.points[self.points["error"].notna()]
        return failed[["seed", "features", "method", "trial", "error"]]

    def published(self) -> pd.DataFrame:
        """Published figures beside ours, in percent; empty if there are none at hand."""
        if self.config.published is None or not self.config.published[0].is_file():
            return pd.DataFrame()
        path, dataset = self.config.published
        known = self.algorithms(self.features[0])
        titles = {there: self.title(a) for there, a in PUBLISHED.items() if a in known}
        table = pd.read_csv(path)
        table = table[table["dataset"] == dataset].drop_duplicates(["alpha", "algorithm"])
        ours = self.selected(self.features[0])
        both = ours.merge(
            table.assign(algorithm=table["algorithm"].map(titles)), "left", ["alpha", "algorithm"]
        )
        found = both[["alpha", "algorithm"]].copy()
        for name in ("fairness", "performance"):
            found[f"published {name}"] = both[f"test_{name}"].astype(float)
            found[f"published {name} sd"] = both[f"test_{name}_sd"].astype(float)
            found[f"here {name}"] = 100 * both[f"test {name}"]
            found[f"here {name} sd"] = 100 * both[f"test {name} sd"]
        return found


def _quotient(part: float, whole: float) -> float:
    return float(part / whole) if whole else float("nan")


def _spans(alphas: FloatArray, holds: Sequence[bool]) -> str:
    """Where something holds, as ranges.

    Examples
    --------
    >>> _spans(np.array([0.0, 0.1, 0.2, 0.3]), [True, True, False, True])
    '0.00-0.10, 0.30'
    """
    runs = groupby(zip(alphas, holds, strict=True), key=itemgetter(1))
    spans = [[alpha for alpha, _ in run] for here, run in runs if here]
    return ", ".join(f"{s[0]:.2f}" if len(s) == 1 else f"{s[0]:.2f}-{s[-1]:.2f}" for s in spans)


def _within(part: pd.DataFrame, tolerance: float) -> protocol.Indices:
    """Places of the models of a search that count, one of each trial."""
    columns = ["trial", "validation_performance", "validation_gap"]
    trial, performance, gap = part[columns].to_numpy(np.float64).T
    return protocol.chosen_within(trial, performance, gap, tolerance)
