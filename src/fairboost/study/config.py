"""What a study is: data, split, metrics, search, methods, protocol; read from TOML and checked.

Everything that can be told wrong without the data is told here; columns and rows are checked where
the data is read. Errors name the file and the line.
"""

from __future__ import annotations

import hashlib
import json
import math
import os
from collections.abc import Sequence
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Any, Literal

from sklearn.metrics import get_scorer_names

from fairboost.datasets.files import DEFAULT_FOLDER, FOLDER_VARIABLE
from fairboost.exceptions import InvalidInputError
from fairboost.fairness.operating_points import OperatingPoint
from fairboost.fairness.rates import RATES
from fairboost.search.spaces import SPACES, Space, as_parameter, describe
from fairboost.study.config_file import TomlTable, read_toml

CONSTRAINTS = {
    frozenset({"fnr"}): "equal_opportunity",
    frozenset({"fpr"}): "predictive_equality",
    frozenset({"ppr"}): "demographic_parity",
    frozenset({"fpr", "fnr"}): "equalized_odds",
}
"""The constraint that holds rates alike, each rate as the one of its pair that is an error."""

ERROR_OF = {"tpr": "fnr", "tnr": "fpr", "pnr": "ppr"}
POINTS = {"at_fpr": "fpr", "at_tpr": "tpr", "at_positive_rate": "ppr"}


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

    def check(self, key: str, holds: object, message: str) -> None:
        """Raise if something does not hold of a dotted key."""
        if not holds:
            raise self.error(key, message)

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


def read_config(path: str | Path, methods: Sequence[str] = ()) -> StudyConfig:
    """Read a study from a TOML file, and check it.

    Parameters
    ----------
    path : str or Path
        The file. Paths in it are relative to its folder; ``$NAME`` is an environment variable.
    methods : sequence of str
        Names of the methods there are, besides functions of the user's; not checked if empty.

    Returns
    -------
    config : StudyConfig
    """
    path = Path(path)
    top = read_toml(path)
    top.refuse_others([f.name for f in fields(StudyConfig) if f.name != "source"])
    return StudyConfig(
        name=top.take("name", str) if "name" in top.values else path.stem,
        data=_read_data(top.table("data"), path.parent),
        split=_read_split(top.table("split")),
        metrics=_read_metrics(top.table("metrics")),
        search=_read_search(top.table("search")),
        engine=_read_space(top.table("engine")) or SPACES["small"],
        methods=_read_methods(top, methods),
        protocol=_read_protocol(top.table("protocol")),
        published=_read_published(top.table("published"), path.parent),
        source=top,
    )


def _path(table: TomlTable, key: str, folder: Path) -> Path:
    """A path that may hold environment variables; FAIRBOOST_DATA has a default."""
    text = table.take(key, str)
    if not os.environ.get(FOLDER_VARIABLE):
        text = text.replace(f"${FOLDER_VARIABLE}", str(DEFAULT_FOLDER.resolve()))
    return folder / Path(os.path.expandvars(text)).expanduser()


def _read_data(table: TomlTable, folder: Path) -> DataConfig:
    given = [key for key in ("file", "table", "generator") if key in table.values]
    table.check(
        "", len(given) == 1,
        "[data] needs one of file, table and generator, found "
        f'{" and ".join(given) or "none"}; a file of your own is file = "rows.csv"',
    )  # fmt: skip
    keys = [*given, "table", "rows", "sensitive", "drop", "restates"]
    if given != ["file"]:
        found = table.fill(DataConfig, keys)
    else:
        file = _path(table, "file", folder)
        table.check("file", file.is_file(), f"there is no file {str(file)!r}; correct the path")
        keys += ["label", "positive", "categorical"]
        found = replace(table.fill(DataConfig, keys, required=("label", "sensitive")), file=file)
    table.check_least(rows=100)
    return found


def _read_split(table: TomlTable) -> SplitConfig:
    if table.values.get("kind") == "temporal":
        keys = ("kind", "column", "validation_from", "test_from")
        return table.fill(SplitConfig, keys, required=keys)
    split = table.fill(SplitConfig, ("kind", "shares"))
    shares = list(split.shares)
    right = len(shares) == 3 and _all_numbers(shares, 0) and abs(sum(shares) - 1) <= 1e-9
    table.check(
        "shares", right and min(shares) > 0,
        "shares must be three positive numbers that add up to 1, for training, "
        f"validation and test rows; found {shares}",
    )  # fmt: skip
    return split


def _read_metrics(table: TomlTable) -> MetricsConfig:
    keys = ("performance", "threshold", "threshold_on", "rate", "fairness", "tolerance")
    metrics = table.fill(MetricsConfig, keys, rate="rates")
    if "performance" in table.values:
        table.choose("performance", ["accuracy", "tpr", *get_scorer_names()])
    for rate in metrics.rates:
        known = ", ".join(RATES)
        table.check("rate", rate in RATES, f"unknown rate {rate!r}; expected {known}")
    table.check(
        "rate", frozenset(ERROR_OF.get(rate, rate) for rate in metrics.rates) in CONSTRAINTS,
        f"no constraint holds the rates {', '.join(metrics.rates)} alike; expected one rate, or "
        "an FPR and an FNR for equalized odds",
    )  # fmt: skip
    tolerance, threshold = metrics.tolerance, _threshold(table, metrics.threshold)
    right = 0 <= tolerance < 1
    table.check("tolerance", right, f"tolerance must lie in [0, 1), found {tolerance}")
    return replace(metrics, threshold=threshold, tolerance=float(tolerance))


def _threshold(table: TomlTable, found: Any) -> float | OperatingPoint:
    """A probability, or the operating point that a table names."""
    if not isinstance(found, dict):
        right = 0 < found < 1
        table.check("threshold", right, f"threshold must lie in (0, 1), found {found}")
        return float(found)
    table.check(
        "threshold", len(found) == 1 and found.keys() <= POINTS.keys(),
        "threshold must be a probability or one of { at_fpr = 0.05 }, { at_tpr = 0.8 } and "
        f"{{ at_positive_rate = 0.02 }}; found {found}",
    )  # fmt: skip
    [(name, target)] = found.items()
    try:
        return OperatingPoint(POINTS[name], target)
    except InvalidInputError as error:
        raise table.error("threshold", str(error)) from error


def _read_search(table: TomlTable) -> SearchConfig:
    search = table.fill(SearchConfig)
    table.check_least(trials=1, n_jobs=1)
    seeds, features = list(search.seeds), list(search.features)
    right = seeds and all(isinstance(s, int) and s >= 0 for s in seeds)
    table.check("seeds", right, f"seeds must be whole numbers from 0 on, found {seeds}")
    table.check("seeds", len({*seeds}) == len(seeds), f"seeds must differ, found {seeds}")
    table.check(
        "features", features and {*features} <= {"aware", "blind"},
        f'features must be "aware", "blind" or both, found {features}',
    )  # fmt: skip
    return replace(search, features=tuple(f for f in ("aware", "blind") if f in features))


def _read_methods(top: TomlTable, known: Sequence[str]) -> tuple[MethodConfig, ...]:
    table, found = top.table("methods"), []
    top.check("methods", table.values, "no methods; add a table such as [methods.fairboost]")
    for name in table.values:
        own = table.table(name)
        function = own.take("function", str) if "function" in own.values else None
        table.check(
            name, function or not known or name in known,
            f"unknown method {name!r}; expected one of {', '.join(known)}, or a function of "
            'your own, as function = "module:function"',
        )  # fmt: skip
        found.append(MethodConfig(name, _read_space(own, but="function"), function))
    return tuple(found)


def _read_protocol(table: TomlTable) -> ProtocolConfig:
    protocol = table.fill(ProtocolConfig)
    table.check_least(models=1, replicates=2)
    alphas, reference = list(protocol.alphas), list(protocol.reference)
    right = alphas and _all_numbers(alphas, 0, 1)
    table.check("alphas", right, f"alphas must lie in [0, 1], found {alphas}")
    right = len(reference) == 2 and _all_numbers(reference)
    words = f"reference must be performance and fairness, found {reference}"
    table.check("reference", right, words)
    low = float(reference[0]), float(reference[1])
    return replace(protocol, alphas=tuple(map(float, alphas)), reference=low)


def _read_published(table: TomlTable, folder: Path) -> tuple[Path, str] | None:
    if not table.values:
        return None
    table.refuse_others(("file", "dataset"))
    return _path(table, "file", folder), table.take("dataset", str)


def _read_space(table: TomlTable, but: str = "") -> Space:
    """All keys of a table, but for one, as a space; ``space`` names one to start from."""
    named = table.choose("space", ["", *SPACES]) if "space" in table.values else ""
    found: dict[str, Any] = dict(SPACES.get(named, {}))
    for key in [k for k in table.values if k not in ("space", but)]:
        try:
            found[key] = as_parameter(table.values[key])
        except InvalidInputError as error:
            raise table.error(key, f"{key}: {error}") from error
    return found


def _all_numbers(values: Sequence[Any], low: float = -math.inf, high: float = math.inf) -> bool:
    return all(isinstance(value, int | float) and low <= value <= high for value in values)
