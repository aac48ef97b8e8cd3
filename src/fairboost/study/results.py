"""From points to tables: nothing here trains, and the same points give the same tables."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pandas as pd

from fairboost._typing import FloatArray
from fairboost.search import protocol
from fairboost.search.protocol import Pool, Summary
from fairboost.study.config import ProtocolConfig, StudyConfig
from fairboost.study.points import gap_error, weighted_error
from fairboost.study.task import Method

ALPHAS = np.linspace(0.0, 1.0, 101)
OURS = ("fairboost", "fair_stage")
RANDOMIZED = ("EG", "paper, randomized")
"""Algorithms that draw a model for each row: two people alike may be decided differently."""

SEES_GROUP, DRAWS = " †", " ‡"
UNMARKED = "every peer without a mark"
WORDS = ("ahead", "even", "behind")


@dataclass(frozen=True)
class Results:
    """Tables of a study, from its points.

    Parameters
    ----------
    points : DataFrame
        As from :func:`collect`.
    config : StudyConfig
        The study.
    methods : dict of str to Method
        Those that took part, by name.
    """

    points: pd.DataFrame
    config: StudyConfig
    methods: dict[str, Method]
    _known: dict[tuple[Any, ...], Any] = field(default_factory=dict, repr=False, compare=False)

    @property
    def settings(self) -> ProtocolConfig:
        """The protocol."""
        return self.config.protocol

    @property
    def features(self) -> list[str]:
        """Which of aware and blind there is."""
        present = set(self.points["features"])
        return [f for f in ("aware", "blind") if f in present]

    def algorithms(self, features: str) -> list[str]:
        """Algorithms that have models, ours first, in the order of the methods."""
        part = self.points[(self.points["features"] == features) & self.points["error"].isna()]
        order = list(self.methods)
        return sorted(set(part["algorithm"]), key=lambda a: (order.index(_method(a)), a))

    def title(self, algorithm: str) -> str:
        """An algorithm in words: † needs the group to predict, ‡ decides by a draw."""
        name, _, variant = algorithm.partition(", ")
        method = self.methods[name]
        words = f"{method.title}, {variant}" if variant else method.title
        marks = (SEES_GROUP if method.sees_group else "") + (
            DRAWS if algorithm in RANDOMIZED else ""
        )
        return words + marks

    def _models(self, features: str, algorithm: str) -> pd.DataFrame:
        """The lines of an algorithm that did not fail."""
        points = self.points
        return points[
            (points["features"] == features)
            & (points["algorithm"] == algorithm)
            & points["error"].isna()
        ]

    def pools(self, features: str, algorithm: str) -> list[Pool]:
        """The models of an algorithm, a pool for every seed."""
        key = features, algorithm
        if key not in self._known:
            self._known[key] = self._pools(features, algorithm)
        return self._known[key]  # type: ignore[no-any-return]

    def _pools(self, features: str, algorithm: str) -> list[Pool]:
        table = self._models(features, algorithm)
        method = self.methods[_method(algorithm)]
        found = []
        for _, part in table.groupby("seed"):
            validation, test = (
                part[[f"{rows}_performance", f"{rows}_fairness"]].to_numpy(np.float64)
                for rows in ("validation", "test")
            )
            trial, n = part["trial"].to_numpy(np.intp), int(part["trials"].iloc[0])
            found.append(Pool(trial, validation, test, n, method.models))
        return found

    def chosen(
        self, features: str, algorithm: str, alpha: float, trials: int | None = None
    ) -> tuple[FloatArray, FloatArray]:
        """Validation and test figures of the models kept, in all replicates of all seeds.

        With ``trials`` a replicate has no more than so many of its trials to choose from.
        """
        key = features, algorithm, round(alpha, 6), trials
        if key not in self._known:
            self._known[key] = self._chosen(features, algorithm, alpha, trials)
        return self._known[key]  # type: ignore[no-any-return]

    def _chosen(
        self, features: str, algorithm: str, alpha: float, trials: int | None
    ) -> tuple[FloatArray, FloatArray]:
        found: list[tuple[FloatArray, FloatArray]] = []
        for seed, pool in enumerate(self.pools(features, algorithm)):
            draws = self._draws(pool, seed)[:, :trials]
            kept = protocol.select(pool, draws, alpha)
            found.append(
                (
                    protocol.of_chosen(pool.validation, kept),
                    protocol.of_chosen(pool.test, kept),
                )
            )
        validation, test = zip(*found, strict=True)
        return np.concatenate(validation), np.concatenate(test)

    def _draws(self, pool: Pool, seed: int) -> protocol.Indices:
        size = pool.size(self.settings.models)
        return protocol.draw_trials(pool.n_trials, size, self.settings.replicates, seed)

    def selected(self, features: str) -> pd.DataFrame:
        """The models kept at each alpha: validation and test figures, mean and deviation."""
        lines = []
        for alpha in self.settings.alphas:
            for algorithm in self.algorithms(features):
                validation, test = self.chosen(features, algorithm, alpha)
                weighted = protocol.summarize(protocol.merits(test, alpha))
                line: dict[str, Any] = {"alpha": alpha, "algorithm": self.title(algorithm)}
                for rows, figures in (("validation", validation), ("test", test)):
                    for k, name in ((1, "fairness"), (0, "performance")):
                        found = protocol.summarize(figures[:, k])
                        line[f"{rows} {name}"] = found.mean
                        line[f"{rows} {name} sd"] = found.deviation
                line |= {"weighted": weighted.mean, "weighted low": weighted.low,
                         "weighted high": weighted.high}  # fmt: skip
                lines.append(line)
        return pd.DataFrame(lines)

    def curve(self, features: str, algorithm: str, alphas: FloatArray = ALPHAS) -> pd.DataFrame:
        """The weighted test metric over alpha, with the band that holds 95% of replicates."""
        lines = []
        for alpha in alphas:
            _, test = self.chosen(features, algorithm, float(alpha))
            found = protocol.summarize(protocol.merits(test, float(alpha)))
            lines.append({"alpha": float(alpha), **vars(found)})
        return pd.DataFrame(lines)

    def leads(self, features: str) -> pd.DataFrame:
        """How far each of our methods is ahead of every other, with paired 95% intervals."""
        lines = []
        algorithms = self.algorithms(features)
        for ours in (a for a in algorithms if a in OURS):
            for peer in (a for a in algorithms if a not in OURS):
                for alpha in self.settings.alphas:
                    lead = self._lead(features, ours, peer, alpha)
                    errors = [self._test_error(features, a, alpha) for a in (ours, peer)]
                    lines.append(
                        {
                            "algorithm": self.title(ours), "peer": self.title(peer),
                            "alpha": alpha, "lead": lead.mean, "low": lead.low, "high": lead.high,
                            "verdict": _verdict(lead), "test error": float(np.linalg.norm(errors)),
                        }
                    )  # fmt: skip
        return pd.DataFrame(lines)

    def reach(self, features: str, alphas: FloatArray = ALPHAS) -> pd.DataFrame:
        """For every peer, and for all that are not marked, where we are ahead, even or behind."""
        lines = []
        algorithms = self.algorithms(features)
        for ours in (a for a in algorithms if a in OURS):
            found = {
                self.title(peer): [
                    _verdict(self._lead(features, ours, peer, float(alpha))) for alpha in alphas
                ]
                for peer in algorithms
                if peer not in OURS
            }
            unmarked = [v for peer, v in found.items() if not peer.endswith((SEES_GROUP, DRAWS))]
            if unmarked:
                found[UNMARKED] = [_least(each) for each in zip(*unmarked, strict=True)]
            for peer, verdicts in found.items():
                line = {"algorithm": self.title(ours), "peer": peer}
                for word in WORDS:
                    line[word] = _spans(alphas, [v == word for v in verdicts])
                lines.append(line)
        return pd.DataFrame(lines)

    def one_trial(self, features: str) -> pd.DataFrame | None:
        """One trial that is a whole trade-off, against a whole search by every other method."""
        lines = []
        algorithms = self.algorithms(features)
        for ours in (a for a in algorithms if self.methods[_method(a)].curve):
            for peer in (a for a in algorithms if a not in OURS):
                time = self._draw_cpu(features, ours, 1) / self._draw_cpu(features, peer)
                for alpha in self.settings.alphas:
                    lead = self._lead(features, ours, peer, alpha, trials=1)
                    lines.append(
                        {
                            "algorithm": self.title(ours), "peer": self.title(peer),
                            "alpha": alpha, "lead": lead.mean, "low": lead.low, "high": lead.high,
                            "verdict": _verdict(lead), "time": time,
                        }
                    )  # fmt: skip
        return pd.DataFrame(lines) if lines else None

    def _draw_cpu(self, features: str, algorithm: str, trials: int | None = None) -> float:
        """CPU seconds of the trials of one replicate, on average."""
        table = self._models(features, algorithm).drop_duplicates(["seed", "trial"])
        size = self.pools(features, algorithm)[0].size(self.settings.models)
        return float(table["cpu"].mean()) * (trials or size)

    def _lead(
        self, features: str, ours: str, peer: str, alpha: float, trials: int | None = None
    ) -> Summary:
        """Ours less the peer's, who always has its whole draw."""
        mine, theirs = (
            protocol.merits(self.chosen(features, a, alpha, n)[1], alpha)
            for a, n in ((ours, trials), (peer, None))
        )
        n = min(len(mine), len(theirs))
        return protocol.summarize(mine[:n] - theirs[:n])

    def _test_error(self, features: str, algorithm: str, alpha: float) -> float:
        """Standard error, from the test rows, of the weighted metric of the models kept.

        It is that of independent samples: less is known of what two models share. Known for
        accuracy and rates; NaN for other scorers.
        """
        if self.config.metrics.performance not in ("accuracy", "tpr"):
            return float("nan")
        table = self._models(features, algorithm)
        worst = []
        for (_, part), (seed, pool) in zip(
            table.groupby("seed"), enumerate(self.pools(features, algorithm)), strict=True
        ):
            kept = protocol.select(pool, self._draws(pool, seed), alpha)
            for model in np.unique(kept[kept >= 0]):
                worst.append(weighted_error(part.iloc[model], self.config.metrics, alpha))
        return float(np.mean(worst)) if worst else float("nan")

    def within(self, features: str) -> pd.DataFrame:
        """Share of configurations whose gap on the test rows is within the tolerance.

        Of several models in a trial the one counts that is best within the tolerance on the
        validation rows. The second share takes the sampling error of the test rows off.
        """
        tolerance = self.config.metrics.tolerance
        lines = []
        for algorithm in self.algorithms(features):
            table = self._models(features, algorithm)
            parts = [part.iloc[_within(part, tolerance)] for _, part in table.groupby("seed")]
            kept = pd.concat(parts)
            errors = np.array([gap_error(json.loads(r)) for r in kept["test_rates"]])
            gap = kept["test_gap"].to_numpy()
            lines.append(
                {
                    "algorithm": self.title(algorithm), "configurations": len(kept),
                    "within": float((gap <= tolerance).mean()),
                    "within noise": float((gap - 1.96 * errors <= tolerance).mean()),
                    "mean gap": float(gap.mean()),
                    "mean performance": float(kept["test_performance"].mean()),
                }
            )  # fmt: skip
        return pd.DataFrame(lines)

    def hypervolumes(self, features: str) -> pd.DataFrame:
        """Area on the test rows that the models of a replicate dominate."""
        lines = []
        for algorithm in self.algorithms(features):
            found = np.concatenate(
                [
                    protocol.hypervolumes(p, self._draws(p, k), self.settings.reference)
                    for k, p in enumerate(self.pools(features, algorithm))
                ]
            )
            summary = protocol.summarize(found)
            lines.append({"algorithm": self.title(algorithm), **vars(summary)})
        return pd.DataFrame(lines)

    def times(self, features: str) -> pd.DataFrame:
        """Training time of every method: all of its trials, and relative to plain LightGBM.

        ``per trial, relative`` is about trials of the same options; ``search, relative`` about
        the whole search, in which a method that trains ten models a trial has a tenth of them.
        """
        trials = self.points[self.points["features"] == features].drop_duplicates(
            ["seed", "method", "trial"]
        )
        plain = trials[(trials["method"] == "plain") & trials["error"].isna()]
        base = plain.set_index(["seed", "trial"])["cpu"]
        lines = []
        for name, method in self.methods.items():
            part = trials[trials["method"] == name]
            if part.empty:
                continue
            good = part[part["error"].isna()].set_index(["seed", "trial"])["cpu"]
            shared = good.index.intersection(base.index)
            whole = float(good.sum() * len(base) / (len(good) * method.models)) if len(good) else 0
            lines.append(
                {
                    "method": self.title(name), "trials": len(part),
                    "failed": int(part["error"].notna().sum()),
                    "cpu total": float(part["cpu"].sum()),
                    "cpu per trial": float(good.mean()) if len(good) else np.nan,
                    "per trial, relative": _quotient(good[shared].sum(), base[shared].sum()),
                    "search, relative": _quotient(whole, float(base.sum())),
                }
            )  # fmt: skip
        return pd.DataFrame(lines)

    def randomized(self, features: str) -> pd.DataFrame | None:
        """The paper's randomized classifier against its last iterate, trial by trial."""
        good = self.points[(self.points["features"] == features) & self.points["error"].isna()]
        sides = [
            good[good["algorithm"] == name].set_index(["seed", "trial"])
            for name in ("paper", "paper, randomized")
        ]
        if any(side.empty for side in sides):
            return None
        last, drawn = sides
        lines = []
        for rows in ("validation", "test"):
            for name in ("performance", "fairness"):
                column = f"{rows}_{name}"
                lines.append(
                    {
                        "figure": f"{rows} {name}", "last": last[column].mean(),
                        "randomized": drawn[column].mean(),
                        "difference": (drawn[column] - last[column]).mean(),
                        "sd of difference": (drawn[column] - last[column]).std(),
                    }
                )  # fmt: skip
        return pd.DataFrame(lines)

    def failures(self) -> pd.DataFrame:
        """Trials that failed, with the message."""
        failed = self.points[self.points["error"].notna()]
        return failed[["seed", "features", "method", "trial", "error"]].reset_index(drop=True)

    def published(self) -> pd.DataFrame | None:
        """Published figures beside ours, in percent; None if there are none at hand."""
        if self.config.published is None or not self.config.published[0].is_file():
            return None
        path, dataset = self.config.published
        table = pd.read_csv(path)
        table = table[table["dataset"] == dataset]
        names = {
            "FairGBM": "paper", "LightGBM": "plain", "GS": "GS", "RS": "RS", "EG": "EG"
        }  # fmt: skip
        lines = []
        features = self.features[0]
        ours = self.selected(features).set_index(["alpha", "algorithm"])
        for alpha in self.settings.alphas:
            for algorithm in self.algorithms(features):
                found: Any = ours.loc[(alpha, self.title(algorithm)), :]
                there = table[
                    (table["alpha"] == alpha)
                    & (table["algorithm"].map(names) == algorithm)
                ]  # fmt: skip
                line: dict[str, Any] = {"alpha": alpha, "algorithm": self.title(algorithm)}
                for name in ("fairness", "performance"):
                    line[f"published {name}"] = _only(there[f"test_{name}"])
                    line[f"published {name} sd"] = _only(there[f"test_{name}_sd"])
                    line[f"here {name}"] = 100 * found[f"test {name}"]
                    line[f"here {name} sd"] = 100 * found[f"test {name} sd"]
                lines.append(line)
        return pd.DataFrame(lines)


def _method(algorithm: str) -> str:
    return algorithm.partition(", ")[0]


def _only(column: pd.Series[float]) -> float:
    return float(column.iloc[0]) if len(column) else float("nan")


def _quotient(part: float, whole: float) -> float:
    return float(part / whole) if whole else float("nan")


def _verdict(lead: Summary) -> str:
    if lead.low > 0:
        return "ahead"
    return "behind" if lead.high < 0 else "even"


def _least(verdicts: Sequence[str]) -> str:
    """The least favourable of some verdicts."""
    return max(verdicts, key=WORDS.index)


def _spans(alphas: FloatArray, holds: Sequence[bool]) -> str:
    """Where something holds, as ranges.

    Examples
    --------
    >>> _spans(np.array([0.0, 0.1, 0.2, 0.3]), [True, True, False, True])
    '0.00-0.10, 0.30'
    """
    spans: list[list[float]] = []
    before = False
    for alpha, here in zip(alphas, holds, strict=True):
        if here and before:
            spans[-1][1] = alpha
        elif here:
            spans.append([alpha, alpha])
        before = here
    return ", ".join(f"{a:.2f}" if a == b else f"{a:.2f}-{b:.2f}" for a, b in spans)


def _within(part: pd.DataFrame, tolerance: float) -> protocol.Indices:
    return protocol.chosen_within(
        part["trial"].to_numpy(np.intp),
        part["validation_performance"].to_numpy(np.float64),
        part["validation_gap"].to_numpy(np.float64),
        tolerance,
    )
