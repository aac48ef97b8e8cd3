"""The model file: one JSON document, versioned and sealed, the booster as its engine's own text.

Text only, so that a model can be read, compared and archived, and so that loading one never runs
code. A checksum over the content tells an edited or damaged file from a sound one; files are
written to a temporary name and renamed, so a reader sees the old model or the new one and never
half of one.
"""

from __future__ import annotations

import hashlib
import json
import math
import os
import tempfile
import warnings
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any

import numpy as np

from fairboost._typing import FloatArray
from fairboost.exceptions import ConstraintError, ModelFileError
from fairboost.fairness.constraints import Bound, Constraint, GroupRates, Parity
from fairboost.fairness.operating_points import OperatingPoint
from fairboost.fairness.proxies import PROXIES, Proxy
from fairboost.fairness.rates import Rate

FORMAT = "fairboost-model"
FORMAT_VERSION = 2


@dataclass(frozen=True)
class ModelDocument:
    """Everything a fitted model is, as plain values."""

    fairboost_version: str
    engine: str
    engine_version: str
    parameters: dict[str, Any]
    engine_parameters: dict[str, Any] | None
    fitted_engine_parameters: dict[str, Any]
    classes: dict[str, Any]
    n_features: int
    feature_names: list[str] | None
    draw_seed: int | None
    score_threshold: float | None  # None in files of version 1: it is that of the operating point
    intercept: float
    n_base: int
    frozen: bool
    multipliers: dict[str, float]
    trace: dict[str, list[float | None]]
    fairness_report: dict[str, Any] | None
    booster: list[str]


def write_document(path: str | Path, document: ModelDocument) -> None:
    """Write a model file, whole or not at all."""
    content = asdict(document)
    sealed = {
        "format": FORMAT,
        "format_version": FORMAT_VERSION,
        "sha256": _checksum(content),
        "model": content,
    }
    write_atomically(path, json.dumps(sealed, indent=1, allow_nan=False) + "\n")


def read_document(path: str | Path) -> ModelDocument:
    """Read a model file and check that it is sound."""
    try:
        sealed = json.loads(Path(path).read_text(encoding="utf-8"))
    except (json.JSONDecodeError, UnicodeDecodeError) as error:
        raise ModelFileError(
            f"{path} is not a fairboost model, or was cut short: it does not parse as JSON "
            f"({error}). Save "
            "the model again; a stock file is read by lightgbm.Booster(model_file=...) or "
            "xgboost.Booster(model_file=...)"
        ) from error
    if not isinstance(sealed, dict) or sealed.get("format") != FORMAT:
        raise ModelFileError(
            f"{path} is not a fairboost model: expected a JSON object with format {FORMAT!r}"
        )
    version = sealed.get("format_version")
    if not isinstance(version, int) or version < 1 or version > FORMAT_VERSION:
        raise ModelFileError(
            f"{path} has model format version {version!r}, this fairboost reads up to "
            f"{FORMAT_VERSION}; "
            "install the version of fairboost that wrote it, or a newer one"
        )
    content = sealed.get("model")
    if not isinstance(content, dict) or _checksum(content) != sealed.get("sha256"):
        raise ModelFileError(
            f"the content of {path} does not match its checksum: it was edited or damaged after "
            "saving. Restore the file or save the model again"
        )
    content = {"score_threshold": None, **content}
    return ModelDocument(**{f.name: content[f.name] for f in fields(ModelDocument)})


def write_atomically(path: str | Path, text: str) -> None:
    """Write text to a temporary file beside the target, then rename it over the target."""
    target = Path(path)
    if not target.parent.is_dir():
        raise ModelFileError(f"cannot write {target}: the folder {target.parent} does not exist")
    handle, temporary = tempfile.mkstemp(dir=target.parent, prefix=f".{target.name}.")
    try:
        with os.fdopen(handle, "w", encoding="utf-8", newline="\n") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        umask = os.umask(0)
        os.umask(umask)
        Path(temporary).chmod(0o666 & ~umask)  # mkstemp makes private files; a model is not one
        Path(temporary).replace(target)
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise


def _checksum(content: Any) -> str:
    canonical = json.dumps(content, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(canonical.encode()).hexdigest()


# Parameters as plain values
# -----------------------------------------------------------------------


@dataclass(frozen=True)
class LostConstraint:
    """Stands in a loaded model for a constraint of the user's own, which a text file cannot hold.

    The model predicts; only training it again needs the constraint itself.
    """

    description: str
    by: tuple[str, ...] = ()
    rates: tuple[str, ...] = ("ppr",)  # one that any data can be asked, so that asking comes to it

    def violations(self, rates: GroupRates) -> FloatArray:
        """Refuse: the constraint is not here."""
        raise ConstraintError(
            f"the constraint {self.description} was not stored in the model file; "
            f"set_params(constraint=...) "
            "before fitting again"
        )

    def pullback(self, rates: GroupRates, multipliers: FloatArray) -> FloatArray:
        """Refuse: the constraint is not here."""
        return self.violations(rates)


def encode_constraint(constraint: Any) -> Any:
    """Turn the ``constraint`` parameter into plain values."""
    if constraint is None or isinstance(constraint, str):
        return constraint
    if isinstance(constraint, list | tuple):
        return [encode_constraint(c) for c in constraint]
    if isinstance(constraint, Parity):
        return {
            "parity": asdict(constraint.rate),
            "tolerance": constraint.tolerance,
            "by": constraint.by,
        }
    if isinstance(constraint, Bound):
        group = [_item(value) for value in constraint.group]
        if all(map(_is_plain, group)):
            return {
                "bound": asdict(constraint.rate),
                "at_most": constraint.at_most,
                "by": constraint.by,
                "group": group,
            }
    return {"lost": getattr(constraint, "description", repr(constraint))}


def decode_constraint(value: Any) -> Any:
    """Undo :func:`encode_constraint`."""
    if isinstance(value, list):
        return [decode_constraint(v) for v in value]
    if not isinstance(value, dict):
        return value
    by = tuple(value["by"]) if isinstance(value.get("by"), list) else value.get("by")
    decoded: Constraint
    if "parity" in value:
        decoded = Parity(Rate(**value["parity"]), value["tolerance"], by)
    elif "bound" in value:
        decoded = Bound(Rate(**value["bound"]), value["at_most"], by, tuple(value["group"]))
    else:
        decoded = LostConstraint(value["lost"])
    return decoded


def encode_proxy(proxy: str | Proxy) -> str:
    """Name of the proxy; one of the user's own cannot be stored."""
    if isinstance(proxy, str):
        return proxy
    if PROXIES.get(proxy.name) is not proxy:
        _warn_not_stored("proxy", proxy)
        return "auto"
    return proxy.name


def encode_operating_point(point: Any) -> Any:
    """A probability as it is, or the target of a rate."""
    return asdict(point) if isinstance(point, OperatingPoint) else point


def decode_operating_point(value: Any) -> Any:
    """Undo :func:`encode_operating_point`."""
    return OperatingPoint(**value) if isinstance(value, dict) else value


def encode_parameters(parameters: dict[str, Any]) -> dict[str, Any]:
    """Plain values of an engine's parameters; says which it could not store."""
    out: dict[str, Any] = {}
    for name, value in parameters.items():
        plain = value.item() if isinstance(value, np.generic) else value
        if isinstance(plain, np.ndarray):
            plain = plain.tolist()
        if isinstance(plain, dict) and not all(isinstance(k, str) for k in plain):
            out[name] = {"items": [[_item(k), _item(v)] for k, v in plain.items()]}
        elif isinstance(plain, float) and not math.isfinite(plain):
            out[name] = {"float": str(plain)}  # which JSON has no number for
        elif _is_plain(plain):
            out[name] = plain
        else:
            _warn_not_stored(name, value)
            out[name] = None
    return out


def decode_parameters(parameters: dict[str, Any]) -> dict[str, Any]:
    """Undo :func:`encode_parameters`."""
    return {name: _decoded(value) for name, value in parameters.items()}


def _decoded(value: Any) -> Any:
    if isinstance(value, dict) and set(value) == {"items"}:
        return dict(map(tuple, value["items"]))
    if isinstance(value, dict) and set(value) == {"float"}:
        return float(value["float"])
    return value


def encode_classes(classes: np.ndarray) -> dict[str, Any]:
    """Turn the two labels, of whatever type, into plain values."""
    return {"dtype": classes.dtype.str, "values": [_item(v) for v in classes.tolist()]}


def decode_classes(value: dict[str, Any]) -> np.ndarray:
    """Undo :func:`encode_classes`."""
    return np.array(value["values"], dtype=np.dtype(value["dtype"]))


def _item(value: Any) -> Any:
    return value.item() if isinstance(value, np.generic) else value


def _is_plain(value: Any) -> bool:
    if isinstance(value, list | tuple):
        return all(map(_is_plain, value))
    if isinstance(value, dict):
        return all(isinstance(k, str) and _is_plain(v) for k, v in value.items())
    return value is None or isinstance(value, bool | int | float | str)


def _warn_not_stored(name: str, value: object) -> None:
    warnings.warn(
        f"parameter {name}={value!r} has no form as text and is not stored in the model file; the "
        "model predicts without it, but set it again before fitting the loaded model",
        UserWarning,
        stacklevel=4,
    )
