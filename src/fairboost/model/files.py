"""The model file: a fitted model to one JSON document and back, versioned and sealed.

Text only, so that a model can be read, compared and archived, and so that loading one never runs
code; the booster is in it as its engine's own text. A checksum over the content tells an edited or
damaged file from a sound one.
"""

from __future__ import annotations

import hashlib
import json
import math
import warnings
from dataclasses import asdict, dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from sklearn.frozen import FrozenEstimator

from fairboost._files import write_text
from fairboost._numbers import plain
from fairboost._typing import FloatArray
from fairboost.engines.port import TrainedModel
from fairboost.engines.registry import load_engine, name_of
from fairboost.exceptions import ConstraintError, ModelFileError
from fairboost.fairness.constraints import Bound, Parity, own_tolerances, parity, takes_tolerance
from fairboost.fairness.moments import GroupMoments
from fairboost.fairness.operating_points import OperatingPoint, probability_of
from fairboost.fairness.proxies import PROXIES, Proxy
from fairboost.fairness.rates import Rate
from fairboost.verdicts.fairness_report import FairnessReport

FORMAT = "fairboost-model"
FORMAT_VERSION = 2


def write_model(path: str | Path, model: Any) -> None:
    """Write a fitted ``FairGBMClassifier``, whole or not at all."""
    content = _content(model)
    sealed = {
        "format": FORMAT,
        "format_version": FORMAT_VERSION,
        "sha256": checksum(content),
        "model": content,
    }
    write_text(path, json.dumps(sealed, indent=1, allow_nan=False) + "\n")


def read_model(path: str | Path) -> tuple[dict[str, Any], dict[str, Any]]:
    """Read a model file and check that it is sound.

    Returns
    -------
    parameters, fitted : dict, dict
        The parameters of the estimator that was saved, and the attributes that fitting had set.
    """
    content = _sealed_content(path)
    engine = load_engine(content["engine"])
    classes = np.array(content["classes"]["values"], dtype=np.dtype(content["classes"]["dtype"]))
    positive = content["classes"].get("positive", 1)

    def restored(estimator: Any) -> TrainedModel:
        booster, n_features = "\n".join(content["booster"]), content["n_features"]
        labels = classes if positive else np.array([0, 1])  # as the engine got them
        rest = content["intercept"], labels, n_features, content["n_base"]
        return engine.restore(estimator, booster, *rest)

    parameters = _decode_parameters(content["parameters"])
    constraint = parameters["constraint"] = _decode_constraint(parameters["constraint"])
    if own_tolerances(constraint) and not takes_tolerance(constraint):
        parameters["tolerance"] = None  # older files name the default, which nothing used
    point = parameters["operating_point"]
    if isinstance(point, dict):
        point = parameters["operating_point"] = OperatingPoint(**point)
    if content["engine_parameters"] is not None:
        options = _decode_parameters(content["engine_parameters"])
        parameters["estimator"] = engine.make_estimator(**options)
    if content["frozen"]:  # its trees are the first of the booster
        parameters["estimator"] = FrozenEstimator(
            restored(parameters["estimator"]).first(0).estimator
        )
    options = _decode_parameters(content["fitted_engine_parameters"])
    model = restored(engine.make_estimator(**options))
    threshold = content.get("score_threshold")
    if threshold is None:  # a file of version 1, whose operating points are probabilities
        threshold = math.log(point / (1 - point))
    moving = isinstance(point, OperatingPoint)
    names, report = content["feature_names"], content["fairness_report"]
    multipliers = content["multipliers"]
    trace = pd.DataFrame(content["trace"])
    floats = trace.columns.difference(["round", "trees"])
    return parameters, {
        "_model": model,
        "_score_threshold": threshold,
        "_draw_seed": content["draw_seed"],
        "_measured": None,  # its figures are in the report
        "fairness_report_": None if report is None else FairnessReport.from_dict(report),
        "classes_": classes,
        "pos_label_": classes[positive],
        "n_features_in_": content["n_features"],
        **({} if names is None else {"feature_names_in_": np.array(names, dtype=object)}),
        "threshold_": probability_of(threshold) if moving else float(point),
        "multipliers_": pd.Series(
            list(multipliers.values()), list(multipliers), name="multiplier", dtype=np.float64
        ),
        "trace_": trace.astype(dict.fromkeys(floats, np.float64)),
        "best_iteration_": model.n_rounds,
    }


def _sealed_content(path: str | Path) -> dict[str, Any]:
    """The content of a file whose format, version and checksum are right."""
    try:
        sealed = json.loads(Path(path).read_text(encoding="utf-8"))
    except (json.JSONDecodeError, UnicodeDecodeError) as error:
        raise ModelFileError(
            f"{path} is not a fairboost model, or was cut short: it does not parse as JSON "
            f"({error}). Save the model again; a stock file is read by "
            "lightgbm.Booster(model_file=...) or xgboost.Booster(model_file=...)"
        ) from error
    if not isinstance(sealed, dict) or sealed.get("format") != FORMAT:
        raise ModelFileError(
            f"{path} is not a fairboost model: expected a JSON object with format {FORMAT!r}"
        )
    written = sealed.get("format_version")
    if not isinstance(written, int) or not 1 <= written <= FORMAT_VERSION:
        raise ModelFileError(
            f"{path} has model format version {written!r}, this fairboost reads up to "
            f"{FORMAT_VERSION}; install the version of fairboost that wrote it, or a newer one"
        )
    content = sealed.get("model")
    if not isinstance(content, dict) or checksum(content) != sealed.get("sha256"):
        raise ModelFileError(
            f"the content of {path} does not match its checksum: it was edited or damaged after "
            "saving. Restore the file or save the model again"
        )
    return content


def checksum(content: Any) -> str:
    """The seal on the content of a file, whatever its line breaks and the order of its keys."""
    canonical = json.dumps(content, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(canonical.encode()).hexdigest()


# A model as plain values
# -----------------------------------------------------------------------


def _content(model: Any) -> dict[str, Any]:
    """Everything that a fitted model is, in the types of JSON."""
    own, point = model.get_params(deep=False), model.operating_point
    engine, frozen = own.pop("estimator"), isinstance(model.estimator, FrozenEstimator)
    own["constraint"] = _encode_constraint(model.constraint)
    own["proxy"] = _encode_proxy(model.proxy)
    own["operating_point"] = asdict(point) if isinstance(point, OperatingPoint) else point
    options = None
    if engine is not None:
        options = (engine.estimator if frozen else engine).get_params()
        options.pop("coll_cfg", None)  # about the cluster, which the model does not need any more
    kind, names = name_of(model.estimator_), getattr(model, "feature_names_in_", None)
    trace = model.trace_.astype(object).where(model.trace_.notna(), None)
    report = model.fairness_report_
    return {
        "fairboost_version": version("fairboost"),
        "engine": kind,
        "engine_version": load_engine(kind).version(),
        "parameters": _encode_parameters(own),
        "engine_parameters": None if options is None else _encode_parameters(options),
        "fitted_engine_parameters": _encode_parameters(model.estimator_.get_params()),
        "classes": {
            "dtype": model.classes_.dtype.str,
            "values": plain(model.classes_.tolist()),
            "positive": int(model.pos_label_ == model.classes_[1]),
        },
        "n_features": int(model.n_features_in_),
        "feature_names": None if names is None else [str(name) for name in names],
        "draw_seed": model._draw_seed,
        "score_threshold": float(model._score_threshold),
        "intercept": model._model.intercept,
        "n_base": model._model.n_base,
        "frozen": frozen,
        "multipliers": {str(name): float(value) for name, value in model.multipliers_.items()},
        "trace": {str(name): column.tolist() for name, column in trace.items()},
        "fairness_report": None if report is None else report.to_dict(),
        "booster": model._model.text().split("\n"),
    }


@dataclass(frozen=True)
class LostConstraint:
    """Stands in a loaded model for a constraint of the user's own, which a text file cannot hold.

    The model predicts; only training it again needs the constraint itself.
    """

    description: str
    by: tuple[str, ...] = ()
    moments: tuple[str, ...] = ("ppr",)  # defined on any data, so that violations() is reached

    def violations(self, moments: GroupMoments) -> FloatArray:
        """Refuse: the constraint is not here."""
        raise ConstraintError(
            f"the constraint {self.description} was not stored in the model file; "
            "set_params(constraint=...) before fitting again"
        )

    def pullback(self, moments: GroupMoments, multipliers: FloatArray) -> FloatArray:
        """Refuse: the constraint is not here."""
        return self.violations(moments)


def _encode_constraint(constraint: Any) -> Any:
    if constraint is None or isinstance(constraint, str):
        return constraint
    if isinstance(constraint, list | tuple):
        return [_encode_constraint(c) for c in constraint]
    moment = getattr(constraint, "moment", None)
    if isinstance(constraint, Parity) and isinstance(moment, Rate):
        own = constraint.tolerance if constraint.has_own_tolerance else None
        return {"parity": asdict(moment), "tolerance": own, "by": constraint.by}
    if isinstance(constraint, Bound) and isinstance(moment, Rate):
        rest = {
            "at_most": constraint.at_most,
            "by": constraint.by,
            "group": plain(constraint.group),
        }
        if _is_plain(rest["group"]):
            return {"bound": asdict(moment), **rest}
    return {"lost": getattr(constraint, "description", repr(constraint))}


def _decode_constraint(value: Any) -> Any:
    if isinstance(value, list):
        return [_decode_constraint(v) for v in value]
    if not isinstance(value, dict):
        return value
    if "lost" in value:
        return LostConstraint(value["lost"])
    by = tuple(value["by"]) if isinstance(value["by"], list) else value["by"]
    if "parity" in value:
        return parity(Rate(**value["parity"]), value["tolerance"], by=by)
    return Bound(Rate(**value["bound"]), value["at_most"], by, tuple(value["group"]))


def _encode_proxy(proxy: str | Proxy) -> str:
    if isinstance(proxy, str):
        return proxy
    if PROXIES.get(proxy.name) is not proxy:
        _warn_not_stored("proxy", proxy)
        return "auto"
    return proxy.name


def _encode_parameters(parameters: dict[str, Any]) -> dict[str, Any]:
    """Parameters as plain values; says which it could not store."""
    out: dict[str, Any] = {}
    for name, value in parameters.items():
        item = plain(value) if isinstance(value, np.generic | np.ndarray) else value
        if isinstance(item, dict) and not all(isinstance(k, str) for k in item):
            item = {"items": [[plain(k), plain(v)] for k, v in item.items()]}
        elif isinstance(item, float) and not math.isfinite(item):
            item = {"float": str(item)}  # which JSON has no number for
        elif not _is_plain(item):
            _warn_not_stored(name, value)
            item = None
        out[name] = item
    return out


def _decode_parameters(parameters: dict[str, Any]) -> dict[str, Any]:
    out = dict(parameters)
    for name, value in parameters.items():
        if isinstance(value, dict) and set(value) == {"items"}:
            out[name] = dict(map(tuple, value["items"]))
        if isinstance(value, dict) and set(value) == {"float"}:
            out[name] = float(value["float"])
    return out


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
        stacklevel=5,
    )
