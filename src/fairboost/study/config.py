"""What a study is: data, split, metrics, search, methods, protocol; read from TOML and checked.

Everything that can be told wrong without the data is told here; columns and rows are checked where
the data is read. Errors name the file and the line.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal

from fairboost.exceptions import InvalidInputError
from fairboost.operating_points import OperatingPoint
from fairboost.rates import RATES
from fairboost.study.config_file import Section, read_toml
from fairboost.study.spaces import SPACES, Choice, Range, Space, read_space

__all__ = [
    "DataConfig",
    "MethodConfig",
    "MetricsConfig",
    "ProtocolConfig",
    "SearchConfig",
    "SplitConfig",
    "StudyConfig",
    "read_config",
]

GENERATORS = ("account_openings", "loans")
SAMPLERS = ("random", "tpe", "nsga2")
POINTS = {"at_fpr": "fpr", "at_tpr": "tpr", "at_positive_rate": "ppr"}
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
    generator: str | None = None
    rows: int | None = None
    label: str | None = None
    positive: Any = None
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
    sampler: str = "random"
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
    source : Section, optional
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
    source: Section | None = field(default=None, repr=False, compare=False)

    def error(self, key: str, message: str) -> InvalidInputError:
        """An error about a dotted key, with the line that it is on."""
        return InvalidInputError(message) if not self.source else self.source.error(key, message)

    def with_search(self, **changes: Any) -> StudyConfig:
        """The same study with another search."""
        return replace(self, search=replace(self.search, **changes))

    def fingerprint(self, method: MethodConfig, checksum: str) -> str:
        """Of all that the trials of a method follow from, but for their number.

        Parameters
        ----------
        method : MethodConfig
            The method.
        checksum : str
            Of the data.
        """
        data = {k: v for k, v in vars(self.data).items() if k != "file"}
        parts = [
            checksum, data, vars(self.split), vars(self.metrics), self.search.sampler,
            self.search.n_jobs, _plain(self.engine), method.function, _plain(method.space),
        ]  # fmt: skip
        text = json.dumps(parts, sort_keys=True, default=str)
        return hashlib.sha256(text.encode()).hexdigest()[:16]


def _plain(space: Space) -> dict[str, Any]:
    return {k: vars(v) if isinstance(v, Range | Choice) else v for k, v in space.items()}


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
    config = StudyConfig(
        name=top.take("name", str, path.stem),
        data=_read_data(top.section("data"), path.parent),
        split=_read_split(top.section("split")),
        metrics=_read_metrics(top.section("metrics")),
        search=_read_search(top.section("search")),
        engine=_read_engine(top.section("engine")),
        methods=_read_methods(top, methods),
        protocol=_read_protocol(top.section("protocol")),
        published=_read_published(top.section("published"), path.parent),
        source=top,
    )
    top.finish()
    return config


def _path(section: Section, key: str, folder: Path) -> Path:
    """A path that may hold environment variables; FAIRBOOST_DATA has a default."""
    text = section.take(key, str)
    if not os.environ.get("FAIRBOOST_DATA"):
        text = text.replace("$FAIRBOOST_DATA", str(Path("../shared/data").resolve()))
    expanded = Path(os.path.expandvars(text)).expanduser()
    return expanded if expanded.is_absolute() else folder / expanded


def _read_data(section: Section, folder: Path) -> DataConfig:
    given = [key for key in ("file", "table", "generator") if key in section.values]
    if len(given) != 1:
        raise section.error(
            None,
            "[data] needs one of file, table and generator, found "
            f"{' and '.join(given) or 'none'}; a file of your own is file = \"rows.csv\"",
        )
    file = _path(section, "file", folder) if "file" in given else None
    if file is not None and not file.is_file():
        raise section.error("file", f"there is no file {str(file)!r}; correct the path")
    own = file is not None
    found = DataConfig(
        file=file,
        table=section.take("table", str, None),
        generator=section.choose("generator", GENERATORS) if "generator" in given else None,
        rows=section.count("rows", None, least=100),
        label=section.take("label", str) if own else None,
        positive=section.take("positive", (str, int, float, bool), None) if own else None,
        sensitive=section.take("sensitive", str) if own else section.take("sensitive", str, None),
        drop=section.words("drop", ()),
        restates=section.words("restates", ()),
        categorical=section.words("categorical", ()) if own else (),
    )
    section.finish()
    return found


def _read_split(section: Section) -> SplitConfig:
    kind = section.choose("kind", ("random", "temporal"), "random")
    if kind == "random":
        shares = section.take("shares", list, [0.6, 0.2, 0.2])
        numbers = all(isinstance(s, int | float) and s > 0 for s in shares)
        if len(shares) != 3 or not numbers or abs(sum(shares) - 1) > 1e-9:
            raise section.error(
                "shares",
                "shares must be three positive numbers that add up to 1, for training, "
                f"validation and test rows; found {shares}",
            )
        split = SplitConfig(shares=tuple(shares))
    else:
        split = SplitConfig(
            kind="temporal",
            column=section.take("column", str),
            validation_from=section.take("validation_from", object),
            test_from=section.take("test_from", object),
        )
    section.finish()
    return split


def _read_metrics(section: Section) -> MetricsConfig:
    rates = section.words("rate", ("fnr",))
    for rate in rates:
        if rate not in RATES:
            raise section.error("rate", f"unknown rate {rate!r}; expected {', '.join(RATES)}")
    if frozenset(ERROR_OF.get(rate, rate) for rate in rates) not in CONSTRAINTS:
        raise section.error(
            "rate",
            f"no constraint holds the rates {', '.join(rates)} alike; expected one rate, or an "
            "FPR and an FNR for equalized odds",
        )
    tolerance = section.take("tolerance", float, 0.01)
    if not 0 <= tolerance < 1:
        raise section.error("tolerance", f"tolerance must lie in [0, 1), found {tolerance}")
    metrics = MetricsConfig(
        performance=_read_performance(section),
        threshold=_read_threshold(section),
        threshold_on=section.choose("threshold_on", ("itself", "validation"), "itself"),  # type: ignore[arg-type]
        rates=rates,
        fairness=section.choose("fairness", ("ratio", "gap"), "ratio"),  # type: ignore[arg-type]
        tolerance=float(tolerance),
    )
    section.finish()
    return metrics


def _read_performance(section: Section) -> str:
    from sklearn.metrics import get_scorer_names

    return section.choose("performance", ["accuracy", "tpr", *get_scorer_names()], "accuracy")


def _read_threshold(section: Section) -> float | OperatingPoint:
    found = section.take("threshold", (float, dict), 0.5)
    if not isinstance(found, dict):
        if not 0 < found < 1:
            raise section.error("threshold", f"threshold must lie in (0, 1), found {found}")
        return float(found)
    if len(found) != 1 or next(iter(found)) not in POINTS:
        raise section.error(
            "threshold",
            "threshold must be a probability or one of { at_fpr = 0.05 }, { at_tpr = 0.8 } and "
            f"{{ at_positive_rate = 0.02 }}; found {found}",
        )
    name, target = next(iter(found.items()))
    try:
        return OperatingPoint(POINTS[name], target)
    except InvalidInputError as error:
        raise section.error("threshold", str(error)) from error


def _read_search(section: Section) -> SearchConfig:
    seeds = section.take("seeds", list, [0])
    if not seeds or not all(isinstance(s, int) and s >= 0 for s in seeds):
        raise section.error("seeds", f"seeds must be whole numbers from 0 on, found {seeds}")
    if len(set(seeds)) < len(seeds):
        raise section.error("seeds", f"seeds must differ, found {seeds}")
    features = section.words("features", ("aware", "blind"))
    if not features or not set(features) <= {"aware", "blind"}:
        raise section.error(
            "features", f'features must be "aware", "blind" or both, found {list(features)}'
        )
    search = SearchConfig(
        trials=section.count("trials", 100),
        seeds=tuple(seeds),
        sampler=section.choose("sampler", SAMPLERS, "random"),
        storage=section.take("storage", str, None),
        features=tuple(f for f in ("aware", "blind") if f in features),
        n_jobs=section.count("n_jobs", 1),
    )
    section.finish()
    return search


def _read_engine(section: Section) -> Space:
    if not section.values:
        return SPACES["small"]
    return read_space(section)


def _read_methods(top: Section, known: Sequence[str]) -> tuple[MethodConfig, ...]:
    section = top.section("methods")
    if not section.values:
        raise top.error("methods", "no methods; add a table such as [methods.fairboost]")
    found = []
    for name in list(section.values):
        own = section.section(name)
        function = own.take("function", str, None)
        if function is None and known and name not in known:
            raise section.error(
                name,
                f"unknown method {name!r}; expected one of {', '.join(known)}, or a function of "
                'your own, as function = "module:function"',
            )
        found.append(MethodConfig(name, read_space(own), function))
    return tuple(found)


def _read_protocol(section: Section) -> ProtocolConfig:
    alphas = section.take("alphas", list, [0.5, 0.75, 0.95])
    if not alphas or not all(isinstance(a, int | float) and 0 <= a <= 1 for a in alphas):
        raise section.error("alphas", f"alphas must lie in [0, 1], found {alphas}")
    reference = section.take("reference", list, [0.0, 0.0])
    if len(reference) != 2 or not all(isinstance(r, int | float) for r in reference):
        raise section.error(
            "reference", f"reference must be performance and fairness, found {reference}"
        )
    protocol = ProtocolConfig(
        models=section.count("models", 20),
        replicates=section.count("replicates", 1000, least=2),
        alphas=tuple(float(a) for a in alphas),
        reference=(float(reference[0]), float(reference[1])),
    )
    section.finish()
    return protocol


def _read_published(section: Section, folder: Path) -> tuple[Path, str] | None:
    if not section.values:
        return None
    found = _path(section, "file", folder), section.take("dataset", str)
    section.finish()
    return found
