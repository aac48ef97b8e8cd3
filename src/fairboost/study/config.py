"""What a study is: data, split, metrics, search, methods, protocol."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal

from fairboost.exceptions import InvalidInputError
from fairboost.fairness.operating_points import OperatingPoint
from fairboost.search.spaces import SPACES, Space, describe
from fairboost.study.config_file import TomlTable

CONSTRAINTS = {
    frozenset({"fnr"}): "equal_opportunity",
    frozenset({"fpr"}): "predictive_equality",
    frozenset({"ppr"}): "demographic_parity",
    frozenset({"fpr", "fnr"}): "equalized_odds",
}
"""The constraint that holds rates alike, each rate as the one of its pair that is an error."""

ERROR_OF = {"tpr": "fnr", "tnr": "fpr", "pnr": "ppr"}


@dataclass(frozen=True)
class DataConfig:
    """Where rows come from; one of ``file``, ``table`` and ``generator`` is set.

    Parameters
    ----------
    file : Path, optional
        A CSV or parquet file of your own.
    table : str, optional
        One of the tables that :func:`fairboost.datasets.load` knows.
    generator : str, optional
        ``"account_openings"`` or ``"loans"``.
    rows : int, optional
        Rows to draw at random (to make, for a generator); all of them if left out.
    label, positive : str
        The column to predict, and its positive value (the larger of the two if left out).
    sensitive : str
        The column of the groups.
    drop : tuple of str
        Columns that are no features.
    restates : tuple of str
        Columns from which the group follows; blind methods do not see them either.
    categorical : tuple of str
        Columns whose numbers are codes. Text is categorical anyway.
    """

    file: Path | None = None
    table: str | None = None
    generator: Literal["account_openings", "loans"] | None = None
    rows: int | None = None
    label: str | None = None
    positive: str | int | float | bool | None = None
    sensitive: str | None = None
    drop: tuple[str, ...] = ()
    restates: tuple[str, ...] = ()
    categorical: tuple[str, ...] = ()


@dataclass(frozen=True)
class SplitConfig:
    """How rows are divided into training, validation and test rows.

    Parameters
    ----------
    kind : {"random", "temporal"}
        At random, or by time.
    shares : (float, float, float)
        Of a random split.
    column : str, optional
        The time, of a temporal split; it is not among the features.
    validation_from, test_from
        The first time of either part; training rows are those before.
    """

    kind: Literal["random", "temporal"] = "random"
    shares: tuple[float, float, float] = (0.6, 0.2, 0.2)
    column: str | None = None
    validation_from: Any = None
    test_from: Any = None


@dataclass(frozen=True)
class MetricsConfig:
    """What is measured, and where decisions are made.

    Parameters
    ----------
    performance : str
        ``"accuracy"``, ``"tpr"``, or the name of a scorer of scikit-learn.
    threshold : float or OperatingPoint
        Where decisions are made.
    threshold_on : {"itself", "validation"}
        The rows that an operating point is placed on: those that are judged, or the validation
        rows for all.
    rates : tuple of str
        The rates that should be alike.
    fairness : {"ratio", "gap"}
        Smallest over largest rate, or 1 minus their difference; the worst of several rates.
    tolerance : float
        The gap that methods are asked for, and that counts as within tolerance.
    """

    performance: str = "accuracy"
    threshold: float | OperatingPoint = 0.5
    threshold_on: Literal["itself", "validation"] = "itself"
    rates: tuple[str, ...] = ("fnr",)
    fairness: Literal["ratio", "gap"] = "ratio"
    tolerance: float = 0.01

    @property
    def constraint(self) -> str:
        """The constraint that holds these rates alike, by its name."""
        return CONSTRAINTS[frozenset(ERROR_OF.get(rate, rate) for rate in self.rates)]


@dataclass(frozen=True)
class SearchConfig:
    """How options are searched.

    Parameters
    ----------
    trials : int
        Models to train per method; a method that trains several in one trial has fewer trials.
    seeds : tuple of int
        One split, and one search, for each.
    sampler : {"random", "tpe", "nsga2"}
        Random gives all methods the same options at the same trial.
    storage : str, optional
        URL for Optuna; an SQLite file in the output folder if left out.
    features : tuple of str
        ``"aware"``, ``"blind"`` or both.
    n_jobs : int
        Threads of every engine.
    """

    trials: int = 100
    seeds: tuple[int, ...] = (0,)
    sampler: Literal["random", "tpe", "nsga2"] = "random"
    storage: str | None = None
    features: tuple[str, ...] = ("aware", "blind")
    n_jobs: int = 1


@dataclass(frozen=True)
class MethodConfig:
    """A method: its name, its own options and ranges of them, and what it is if it is a user's.

    Parameters
    ----------
    name : str
        As in the tables.
    space : mapping
        Options of its own.
    function : str, optional
        ``"module:function"`` of a method of the user's.
    """

    name: str
    space: Space = field(default_factory=dict)
    function: str | None = None


@dataclass(frozen=True)
class ProtocolConfig:
    """How trials become tables.

    Parameters
    ----------
    models : int
        Trained models in one bootstrap draw.
    replicates : int
        Bootstrap draws.
    alphas : tuple of float
        Weights of performance in the tables.
    reference : (float, float)
        Performance and fairness from which the hypervolume is measured.
    """

    models: int = 20
    replicates: int = 1000
    alphas: tuple[float, ...] = (0.5, 0.75, 0.95)
    reference: tuple[float, float] = (0.0, 0.0)


@dataclass(frozen=True)
class StudyConfig:
    """A study, checked. :func:`read_config` reads one from a file.

    Parameters
    ----------
    name : str
        Of the study, in the storage and in titles.
    data, split, metrics, search, protocol
        The parts.
    engine : mapping
        Options of LightGBM, and ranges of them, for every method.
    methods : tuple of MethodConfig
        Who is compared.
    published : (Path, str), optional
        A table of published figures, and the name of the data in it.
    source : TomlTable, optional
        The file, for errors that name the line.
    """

    name: str
    data: DataConfig
    split: SplitConfig = field(default_factory=SplitConfig)
    metrics: MetricsConfig = field(default_factory=MetricsConfig)
    search: SearchConfig = field(default_factory=SearchConfig)
    engine: Space = field(default_factory=lambda: SPACES["small"])
    methods: tuple[MethodConfig, ...] = ()
    protocol: ProtocolConfig = field(default_factory=ProtocolConfig)
    published: tuple[Path, str] | None = None
    source: TomlTable | None = field(default=None, repr=False, compare=False)

    def error(self, key: str, message: str) -> InvalidInputError:
        """An error about a dotted key, with the line that it is on."""
        return InvalidInputError(message) if not self.source else self.source.error(key, message)

    def with_search(self, **changes: Any) -> StudyConfig:
        """The same study with another search."""
        return replace(self, search=replace(self.search, **changes))

    def mark(self, method: MethodConfig, space: Space, checksum: str) -> str:
        """A mark of all that the trials of a method follow from, but for their number.

        Parameters
        ----------
        method : MethodConfig
            The method.
        space : mapping
            All of its options, those that the configuration leaves out included.
        checksum : str
            Of the data.
        """
        own = {k: v for k, v in space.items() if k != "python"}  # machines may differ in that
        data = {k: v for k, v in vars(self.data).items() if k != "file"}
        parts = [
            checksum, data, vars(self.split), vars(self.metrics), self.search.sampler,
            self.search.n_jobs, describe(self.engine), method.function, describe(own),
        ]  # fmt: skip
        text = json.dumps(parts, sort_keys=True, default=str)
        return hashlib.sha256(text.encode()).hexdigest()[:16]
