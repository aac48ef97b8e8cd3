"""``decide.json``: how to decide by an exported model, for programs without fairboost.

The file is small and plain. ``decide.schema.json`` beside this module is its JSON schema.
"""

from __future__ import annotations

import hashlib
import json
import math
from importlib.metadata import version
from importlib.resources import files
from pathlib import Path
from typing import Any

import numpy as np

from fairboost._numbers import plain
from fairboost.engines.ensemble import Feature
from fairboost.engines.registry import load_engine
from fairboost.serving.served import Decision, Served

NAME = "decide.json"
FORMAT, FORMAT_VERSION = "fairboost-decide", 1


def beside(path: Path) -> Path:
    """Where the file of an export lies."""
    return path.with_name(f"{path.name}.{NAME}")


def schema() -> dict[str, Any]:
    """The JSON schema of the file.

    Examples
    --------
    >>> schema()["title"]
    'decide.json of fairboost'
    """
    found: dict[str, Any] = json.loads(
        files("fairboost.serving").joinpath("decide.schema.json").read_text("utf-8")
    )
    return found


def text(served: Served, name: str, paths: dict[str, Path], facts: dict[str, Any]) -> str:
    """The file.

    Parameters
    ----------
    served : Served
        The model.
    name : str
        The format of the export.
    paths : dict of str to Path
        The files of the export, by the names that they will have.
    facts : dict
        Constraints, verdicts and what else is known of the training.
    """
    content = {
        "format": FORMAT,
        "format_version": FORMAT_VERSION,
        "fairboost_version": version("fairboost"),
        "engine": {"name": served.engine, "version": load_engine(served.engine).version()},
        "model": {
            "format": name,
            "files": [
                {"name": file, "sha256": hashlib.sha256(path.read_bytes()).hexdigest()}
                for file, path in paths.items()
            ],
        },
        "features": [_feature(feature) for feature in served.features],
        "decision": _decision(served.decision, served.single),
        **facts,
    }
    return json.dumps(_finite(plain(content)), indent=1, allow_nan=False) + "\n"


def _feature(feature: Feature) -> dict[str, Any]:
    found: dict[str, Any] = {"name": feature.name, "type": feature.kind}
    if feature.categories is not None:
        found["categories"] = list(feature.categories)
    return found


def _decision(decision: Decision | None, single: bool) -> dict[str, Any]:
    if decision is None:
        return {"rule": "none"}
    classes = [_label(label) for label in decision.classes]
    if decision.several:
        if decision.costs is None:
            return {"rule": "most_likely", "classes": classes}
        return {"rule": "least_cost", "classes": classes, "costs": decision.costs}
    return {
        "rule": "threshold",
        "classes": classes,
        "positive": classes[decision.positive],
        "negative": classes[1 - decision.positive],
        "threshold": decision.threshold,
        "log_odds": decision.least_score(single),
    }


def _label(label: Any) -> Any:
    """A label in the types of JSON; moments and spans of time as text."""
    value = label.item() if isinstance(label, np.generic) else label
    return value if isinstance(value, bool | int | float | str) else str(label)


def _finite(value: Any) -> Any:
    """The same, in which numbers that JSON lacks are text."""
    if isinstance(value, dict):
        return {key: _finite(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_finite(item) for item in value]
    return str(value) if isinstance(value, float) and not math.isfinite(value) else value
