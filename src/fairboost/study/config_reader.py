"""From a TOML file to a study, checked.

Everything that can be told wrong without the data is told here; columns and rows are checked where
the data is read. Errors name the file and the line.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

from sklearn.metrics import get_scorer_names

from fairboost.datasets.files import DEFAULT_FOLDER, FOLDER_VARIABLE
from fairboost.exceptions import InvalidInputError
from fairboost.fairness.operating_points import OperatingPoint
from fairboost.fairness.rates import RATES
from fairboost.search.spaces import SPACES, Space, as_parameter
from fairboost.search.trials import SAMPLERS
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
from fairboost.study.config_file import (
    Reader,
    TomlTable,
    checked,
    of_type,
    one_of,
    read_toml,
    whole,
    words,
)

FEATURES = ("aware", "blind")
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
    readers: dict[str, Reader] = {
        "name": of_type(str),
        "data": partial(_read_data, folder=path.parent),
        "split": _read_split,
        "metrics": lambda top, key: top.table(key).fill(_as_metrics, METRICS),
        "search": lambda top, key: top.table(key).fill(SearchConfig, SEARCH),
        "engine": lambda top, key: _read_space(top.table(key)) or SPACES["small"],
        "methods": partial(_read_methods, known=methods),
        "protocol": lambda top, key: top.table(key).fill(ProtocolConfig, PROTOCOL),
        "published": partial(_read_published, folder=path.parent),
    }
    make = partial(StudyConfig, name=path.stem, source=top)
    return top.fill(make, readers, required=("data", "methods"))


def _read_path(table: TomlTable, key: str, folder: Path) -> Path:
    """A path that may hold environment variables; FAIRBOOST_DATA has a default."""
    text = table.take(key, str)
    if not os.environ.get(FOLDER_VARIABLE):
        text = text.replace(f"${FOLDER_VARIABLE}", str(DEFAULT_FOLDER.resolve()))
    return folder / Path(os.path.expandvars(text)).expanduser()


def _read_data(top: TomlTable, key: str, folder: Path) -> DataConfig:
    table = top.table(key)
    given = [key for key in ("file", "table", "generator") if key in table.values]
    if len(given) != 1:
        raise table.error(
            None,
            "[data] needs one of file, table and generator, found "
            f'{" and ".join(given) or "none"}; a file of your own is file = "rows.csv"',
        )
    readers: dict[str, Reader] = {
        "table": of_type(str),
        "rows": whole(100),
        "sensitive": of_type(str),
        "drop": words,
        "restates": words,
    }
    if given == ["file"]:
        readers |= {
            "file": partial(_read_file_name, folder=folder),
            "label": of_type(str),
            "positive": of_type(str, int, float, bool),
            "categorical": words,
        }
    if given == ["generator"]:
        readers["generator"] = one_of("account_openings", "loans")
    return table.fill(
        DataConfig, readers, required=("label", "sensitive") if "file" in given else ()
    )


def _read_file_name(table: TomlTable, key: str, folder: Path) -> Path:
    file = _read_path(table, key, folder)
    if not file.is_file():
        raise table.error(key, f"there is no file {str(file)!r}; correct the path")
    return file


def _read_split(top: TomlTable, key: str) -> SplitConfig:
    table = top.table(key)
    kind = one_of("random", "temporal")
    if "kind" not in table.values or kind(table, "kind") == "random":
        return table.fill(SplitConfig, {"kind": kind, "shares": SHARES})
    anything = of_type(object)
    readers = {
        "kind": kind, "column": of_type(str), "validation_from": anything, "test_from": anything
    }  # fmt: skip
    return table.fill(SplitConfig, readers, required=readers)


def _as_metrics(**given: Any) -> MetricsConfig:
    """The file has one rate or several as ``rate``."""
    return MetricsConfig(**{"rates" if key == "rate" else key: v for key, v in given.items()})


def _read_rates(table: TomlTable, key: str) -> tuple[str, ...]:
    rates = words(table, key)
    for rate in rates:
        if rate not in RATES:
            raise table.error(key, f"unknown rate {rate!r}; expected {', '.join(RATES)}")
    if frozenset(ERROR_OF.get(rate, rate) for rate in rates) not in CONSTRAINTS:
        raise table.error(
            key,
            f"no constraint holds the rates {', '.join(rates)} alike; expected one rate, or an "
            "FPR and an FNR for equalized odds",
        )
    return rates


def _read_threshold(table: TomlTable, key: str) -> float | OperatingPoint:
    found = table.take(key, float, dict)
    if not isinstance(found, dict):
        if not 0 < found < 1:
            raise table.error(key, f"threshold must lie in (0, 1), found {found}")
        return float(found)
    if len(found) != 1 or not found.keys() <= POINTS.keys():
        raise table.error(
            key,
            "threshold must be a probability or one of { at_fpr = 0.05 }, { at_tpr = 0.8 } and "
            f"{{ at_positive_rate = 0.02 }}; found {found}",
        )
    [(name, target)] = found.items()
    try:
        return OperatingPoint(POINTS[name], target)
    except InvalidInputError as error:
        raise table.error(key, str(error)) from error


def _read_features(table: TomlTable, key: str) -> tuple[str, ...]:
    features = words(table, key)
    if not features or not set(features) <= set(FEATURES):
        raise table.error(
            key, f'features must be "aware", "blind" or both, found {list(features)}'
        )
    return tuple(f for f in FEATURES if f in features)


def _read_methods(top: TomlTable, key: str, known: Sequence[str]) -> tuple[MethodConfig, ...]:
    table = top.table(key)
    if not table.values:
        raise top.error(key, "no methods; add a table such as [methods.fairboost]")
    found = []
    for name in table.values:
        own = table.table(name)
        function = own.take("function", str) if "function" in own.values else None
        if function is None and known and name not in known:
            raise table.error(
                name,
                f"unknown method {name!r}; expected one of {', '.join(known)}, or a function of "
                'your own, as function = "module:function"',
            )
        found.append(MethodConfig(name, _read_space(own, "function"), function))
    return tuple(found)


def _read_published(top: TomlTable, key: str, folder: Path) -> tuple[Path, str] | None:
    table = top.table(key)
    if not table.values:
        return None
    readers = {"file": partial(_read_path, folder=folder), "dataset": of_type(str)}
    return table.fill(lambda file, dataset: (file, dataset), readers, required=readers)


def _read_space(table: TomlTable, *apart: str) -> Space:
    """All options of a table, but for some keys; ``space`` names a space to start from."""
    found: dict[str, Any] = {}
    if "space" in table.values:
        found |= SPACES.get(one_of("", *SPACES)(table, "space"), {})
    for key, value in table.values.items():
        if key not in ("space", *apart):
            try:
                found[key] = as_parameter(value)
            except InvalidInputError as error:
                raise table.error(key, f"{key}: {error}") from error
    return found


def _are_numbers(values: list[Any]) -> bool:
    return all(isinstance(value, int | float) for value in values)


def _as_floats(values: list[Any]) -> tuple[float, ...]:
    return tuple(map(float, values))


SHARES = checked(
    list,
    (
        lambda shares: len(shares) == 3 and _are_numbers(shares)
        and min(shares) > 0 and abs(sum(shares) - 1) <= 1e-9,
        "must be three positive numbers that add up to 1, for training, validation and test "
        "rows; found",
    ),
    then=tuple,
)  # fmt: skip
METRICS: dict[str, Reader] = {
    "performance": one_of("accuracy", "tpr", *get_scorer_names()),
    "threshold": _read_threshold,
    "threshold_on": one_of("itself", "validation"),
    "rate": _read_rates,
    "fairness": one_of("ratio", "gap"),
    "tolerance": checked(
        float, (lambda value: 0 <= value < 1, "must lie in [0, 1), found"), then=float
    ),
}
SEARCH: dict[str, Reader] = {
    "trials": whole(),
    "seeds": checked(
        list,
        (
            lambda seeds: bool(seeds) and all(isinstance(s, int) and s >= 0 for s in seeds),
            "must be whole numbers from 0 on, found",
        ),
        (lambda seeds: len(set(seeds)) == len(seeds), "must differ, found"),
        then=tuple,
    ),
    "sampler": one_of(*SAMPLERS),
    "storage": of_type(str),
    "features": _read_features,
    "n_jobs": whole(),
}
PROTOCOL: dict[str, Reader] = {
    "models": whole(),
    "replicates": whole(2),
    "alphas": checked(
        list,
        (
            lambda alphas: (
                alphas and _are_numbers(alphas) and 0 <= min(alphas) <= max(alphas) <= 1
            ),
            "must lie in [0, 1], found",
        ),
        then=_as_floats,
    ),
    "reference": checked(
        list,
        (
            lambda reference: len(reference) == 2 and _are_numbers(reference),
            "must be performance and fairness, found",
        ),
        then=_as_floats,
    ),
}
