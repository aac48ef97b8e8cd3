"""From a TOML file to a study, checked.

Everything that can be told wrong without the data is told here; columns and rows are checked where
the data is read. Errors name the file and the line.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from sklearn.metrics import get_scorer_names

from fairboost.datasets.files import DEFAULT_FOLDER, FOLDER_VARIABLE
from fairboost.exceptions import InvalidInputError
from fairboost.fairness.operating_points import OperatingPoint
from fairboost.fairness.rates import RATES
from fairboost.search.spaces import SPACES, Space, as_parameter
from fairboost.study.config import (
    CONSTRAINTS,
    ERROR_OF,
    DataConfig,
    MethodConfig,
    MetricsConfig,
    ProtocolConfig,
    SearchConfig,
    SplitConfig,
    StudyConfig,
)
from fairboost.study.config_file import Section, read_toml

GENERATORS = ("account_openings", "loans")
SAMPLERS = ("random", "tpe", "nsga2")
POINTS = {"at_fpr": "fpr", "at_tpr": "tpr", "at_positive_rate": "ppr"}


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
    if not os.environ.get(FOLDER_VARIABLE):
        text = text.replace(f"${FOLDER_VARIABLE}", str(DEFAULT_FOLDER.resolve()))
    expanded = Path(os.path.expandvars(text)).expanduser()
    return expanded if expanded.is_absolute() else folder / expanded


def _read_data(section: Section, folder: Path) -> DataConfig:
    given = [key for key in ("file", "table", "generator") if key in section.values]
    if len(given) != 1:
        raise section.error(
            None,
            "[data] needs one of file, table and generator, found "
            f'{" and ".join(given) or "none"}; a file of your own is file = "rows.csv"',
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
    return _read_space(section)


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
        found.append(MethodConfig(name, _read_space(own), function))
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


def _read_space(section: Section) -> dict[str, Any]:
    """All that is left in a section, as a space; ``space`` names one to start from."""
    named = section.choose("space", ["", *SPACES], "")
    found: dict[str, Any] = dict(SPACES[named]) if named else {}
    for key in list(section.values):
        try:
            found[key] = as_parameter(section.values.pop(key))
        except InvalidInputError as error:
            raise section.error(key, f"{key}: {error}") from error
    return found
