"""The model file: a fitted model to one JSON document and back, versioned and sealed.

Text only, so that a model can be read, compared and archived, and so that loading one never runs
code; the booster is in it as its engine's own text. A checksum over the content tells an edited or
damaged file from a sound one. A file says if its model predicts a number; without a word about it,
as in all files of old, it predicts a label.
"""

from __future__ import annotations

import json
import math
import warnings
from collections.abc import Callable
from dataclasses import asdict
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from scipy.special import expit
from sklearn.base import RegressorMixin
from sklearn.frozen import FrozenEstimator

from fairboost._files import checksum, write_text
from fairboost._numbers import plain
from fairboost._plain import decode, encode, is_plain, plain_type, text_of, whole
from fairboost._typing import FloatArray
from fairboost.data.validation import MOST_CLASSES
from fairboost.engines.port import LossTerms, TrainedModel
from fairboost.engines.registry import load_engine, name_of
from fairboost.exceptions import MissingFileError, ModelFileError, NotAFileError
from fairboost.fairness.constraints import own_tolerances, takes_tolerance
from fairboost.fairness.costs import read_costs, threshold_of, turned
from fairboost.fairness.operating_points import OperatingPoint, probability_of
from fairboost.fairness.proxies import PROXIES, Proxy
from fairboost.fairness.stored import decode_constraint, encode_constraint
from fairboost.model import base_files, self_test
from fairboost.training.iterates import randomized_scores
from fairboost.verdicts.fairness_report import FairnessReport

FORMAT = "fairboost-model"
FORMAT_VERSION = 6
"""The newest that is read; only stages on a base model of another kind are written in it."""
LABEL, NUMBER, CLASS = "label", "number", "class"
"""What a model predicts: one of two labels, a number, one of several classes."""
WRITTEN = {LABEL: 3, NUMBER: 4, CLASS: 5}
"""The version that a file has. Models of labels keep the one that earlier programs read."""
ON_BASE = 6
"""The same of a stage on a base model of another kind, which earlier programs would leave out."""
DECIDING = (
    "booster", "classes", "draw_seed", "feature_names", "fitted_engine_parameters", "intercept",
    "n_base", "n_features", "score_threshold",
)  # fmt: skip
"""What decisions and predictions rest on; it has a seal of its own."""
SELF_TESTED = 3
"""From this version on a file holds rows to test what was loaded."""
PICKLES = {".dill", ".joblib", ".p", ".pickle", ".pk", ".pkl", ".sav"}
"""Endings of files that hold objects of Python."""
SAVES = "FairGBMClassifier.save or FairGBMRegressor.save"


def write_model(path: str | Path, model: Any) -> None:
    """Write a fitted ``FairGBMClassifier`` or ``FairGBMRegressor``, whole or not at all."""
    if Path(path).suffix.lower() in PICKLES:
        raise ModelFileError(
            f"the ending of {str(path)!r} says a pickle, and save writes JSON for fairboost.load; "
            f"use {str(Path(path).with_suffix('.json'))!r}, or joblib.dump(model, path)"
        )
    write_text(path, model_text(model, str(path)))


def model_text(model: Any, where: str) -> str:
    """The text of a model file; ``where`` names it in messages."""
    content = _content(model)
    # By the model that will be read: what cannot be read again is not written either.
    try:
        _, fitted = _decoded(content, getattr(base_of(model), "estimator", None))
    except ModelFileError as error:
        raise ModelFileError(
            f"{where} was not written, since it could not be read again: {error}. Check the "
            "parameters and attributes of the model that were changed after fit, or keep it with "
            "pickle"
        ) from error
    points = load_engine(content["engine"]).split_points(model._model.text(), _n_features(content))
    content["self_test"] = {
        **self_test.describe(_answer(fitted), _labels(fitted), points, _n_features(content)),
        "sha256": _deciding_seal(content),
    }
    sealed = {
        "format": FORMAT,
        "format_version": ON_BASE if "base" in content else WRITTEN[_predicts(content)],
        "sha256": checksum(content),
        "model": content,
    }
    return json.dumps(sealed, indent=1, allow_nan=False) + "\n"


def read_model(
    path: str | Path, known: dict[str, set[str]], base: Any = None
) -> tuple[str, dict[str, Any], dict[str, Any]]:
    """Read a model file and check that it is sound.

    Parameters
    ----------
    path : str or Path
        The file.
    known : dict of str to set of str
        By what is predicted, the parameters that the estimator has.
    base : classifier or FrozenEstimator, optional
        The fitted base model, where the model is a stage on one.

    Returns
    -------
    predicts : {"label", "number"}
        What the model predicts.
    parameters, fitted : dict, dict
        The parameters of the estimator that was saved, and the attributes that fitting had set.
    """
    _check_file(Path(path))
    return read_text(Path(path).read_bytes(), str(path), known, base)


def read_text(
    text: str | bytes, where: str, known: dict[str, set[str]], base: Any = None
) -> tuple[str, dict[str, Any], dict[str, Any]]:
    """As :func:`read_model`, of the text of a file; ``where`` names it in messages."""
    content, written = _sealed_content(text, where)
    base_files.check_given(content.get("base"), base, where)
    try:
        predicts = _predicts(content)
        tested = written >= SELF_TESTED or "self_test" in content
        if tested and _deciding_seal(content) != content["self_test"]["sha256"]:
            raise ModelFileError("it decides by other values than were saved")
        parameters, fitted = _decoded(content, base)
        if unknown := sorted(set(parameters) - known[predicts]):
            raise ModelFileError(f"it has the parameter {unknown[0]!r}, which is not known here")
        if tested:
            test = content["self_test"]
            self_test.check(test, _answer(fitted), _labels(fitted), _n_features(content))
        str(fitted["fairness_report_"])
    except (ImportError, MemoryError):  # an engine that is not installed, a machine too small
        raise
    except base_files.OtherBaseError as error:  # the file is as it was
        raise ModelFileError(f"{where}: {error}") from error
    except Exception as error:
        said = str(error) if isinstance(error, ModelFileError) else repr(error)
        raise ModelFileError(
            f"{where} was edited or cannot be read here: {said[:500]}. It was saved by fairboost "
            f"{content.get('fairboost_version')!r:.40} with {content.get('engine')!r:.40} "
            f"{content.get('engine_version')!r:.40}; restore the file, save the model again, or "
            "install those versions"
        ) from error
    return predicts, parameters, fitted


def _predicts(content: dict[str, Any]) -> str:
    """What the model of a file predicts."""
    found = content.get("predicts", LABEL)
    if found not in list(WRITTEN):
        raise ModelFileError(
            f"it predicts {found!r:.80}, expected {' or '.join(map(repr, WRITTEN))}"
        )
    return str(found)


def base_of(model: Any) -> Any:
    """The base model of another kind that a fitted model is a stage on, or None."""
    return getattr(model, "_base", None)


def _decoded(content: dict[str, Any], base: Any = None) -> tuple[dict[str, Any], dict[str, Any]]:
    """Parameters and fitted attributes; raises whatever a content that is not sound leads to."""
    of_numbers, n_features = _predicts(content) == NUMBER, _n_features(content)
    parameters = _decoded_parameters(content)
    model = _restored(content, _made(content, "fitted_engine_parameters"))
    if of_numbers:
        own = {
            "_loss_terms": _loss_terms(model),
            "_draw_seed": None,
            "_exposed": _exposed(content),
        }
    else:
        own = _decoded_decisions(content, parameters)
    if not 0 <= model.n_base <= model.n_rounds or not np.isfinite(model.intercept).all():
        raise ModelFileError("it starts from trees or from a score that it does not have")
    names, report = _names(content["feature_names"], model), content["fairness_report"]
    if names is not None and len(names) != n_features:
        raise ModelFileError(f"it has {n_features} features, and names of {len(names)}")
    standing: dict[str, Any] = {}
    if "base" in content:
        stood_on, standing = base_files.decode(content["base"], base)
        standing["_base"] = stood_on
        if stood_on.estimator is not None:
            parameters["estimator"] = FrozenEstimator(stood_on.estimator)
        if content["base"].get("stage") is not None:
            parameters["stage"] = _made({**content, **content["base"]}, "stage")
    multipliers = content["multipliers"]
    trace = pd.DataFrame(content["trace"])
    floats = trace.columns.difference(["round", "trees"])
    return parameters, {
        "_model": model,
        "_measured": None,  # its figures are in the report
        "fairness_report_": None if report is None else FairnessReport.from_dict(report),
        **own,
        "n_features_in_": n_features,
        **({} if names is None else {"feature_names_in_": np.array(names, dtype=object)}),
        "multipliers_": pd.Series(
            list(multipliers.values()), list(multipliers), name="multiplier", dtype=np.float64
        ),
        "trace_": trace.astype(dict.fromkeys(floats, np.float64)),
        "tolerances_": _tolerances(content),
        "best_iteration_": model.n_rounds,
        **standing,
    }


def _tolerances(content: dict[str, Any]) -> dict[str, float]:
    """The automatic tolerances; older files have none."""
    found = content.get("tolerances", {})
    if not all(isinstance(v, float) and 0 <= v < 1 for v in found.values()):
        raise ModelFileError("an automatic tolerance is not a number from 0 to 1")
    return {str(name): value for name, value in found.items()}


def _decoded_parameters(content: dict[str, Any]) -> dict[str, Any]:
    """The parameters of the estimator that was saved."""
    of_numbers = _predicts(content) == NUMBER
    parameters = _decode_parameters(content["parameters"])
    constraint = parameters["constraint"] = decode_constraint(parameters["constraint"], of_numbers)
    if not of_numbers:
        if own_tolerances(constraint) and not takes_tolerance(constraint):
            parameters["tolerance"] = None  # older files name the default, which nothing used
        if isinstance(point := parameters["operating_point"], dict):
            parameters["operating_point"] = OperatingPoint(**point)
    if content["engine_parameters"] is not None:
        parameters["estimator"] = _made(content, "engine_parameters")
    if content["frozen"]:  # its trees are the first of the booster
        before = _restored(content, parameters["estimator"]).first(0)
        parameters["estimator"] = FrozenEstimator(before.estimator)
    return parameters


def _made(content: dict[str, Any], options: str) -> Any:
    """An estimator of the engine with the options that stand under a name."""
    return load_engine(content["engine"]).make_estimator(
        regressor=_predicts(content) == NUMBER, **_decode_parameters(content[options])
    )


def _restored(content: dict[str, Any], estimator: Any) -> TrainedModel:
    """The trained model, inside an estimator of the engine."""
    labels = None
    if _predicts(content) != NUMBER:  # as the engine got them
        classes, positive = _decoded_classes(content)
        labels = classes if positive else np.array([0, 1])
    booster, n_base = "\n".join(content["booster"]), int(content["n_base"])
    rest = _decoded_start(content), labels, _n_features(content), n_base
    return load_engine(content["engine"]).restore(estimator, booster, *rest)


def _decoded_start(content: dict[str, Any]) -> float | FloatArray:
    """The score that training started from, or that of each class; 0 is of a frozen model."""
    found = content["intercept"]
    if not isinstance(found, list):
        return float(found)
    if len(found) != len(content["classes"]["values"]) or not is_plain(found):
        raise ModelFileError(f"its intercept is {found!r:.80}")
    return np.array(found, np.float64)


def _decoded_classes(content: dict[str, Any]) -> tuple[Any, int]:
    """The labels, and which of them is the positive one."""
    return _decode_labels(content["classes"]), int(content["classes"].get("positive", 1) > 0)


def _decoded_decisions(content: dict[str, Any], parameters: dict[str, Any]) -> dict[str, Any]:
    """The attributes that say how scores become labels."""
    classes, positive = _decoded_classes(content)
    threshold, seed = content.get("score_threshold"), content["draw_seed"]
    costs = read_costs(parameters.get("costs"), len(classes))
    if (_predicts(content) == CLASS) != (len(classes) > 2):
        raise ModelFileError(f"it has {len(classes)} labels, and predicts {_predicts(content)!r}")
    if len(classes) > 2:
        return {
            "_score_threshold": 0.0,
            "_draw_seed": None if seed is None else int(seed),
            "_costs": costs,
            "classes_": classes,
            "pos_label_": None,
            "threshold_": math.nan,
        }
    point = parameters["operating_point"]
    if costs is not None:
        point = threshold_of(costs if positive else turned(costs))
    moving = isinstance(point, OperatingPoint)
    if threshold is None:  # a file of version 1, whose operating points are probabilities
        threshold = math.log(point / (1 - point))
    if not moving and not math.isclose(expit(threshold), point, abs_tol=1e-6):
        raise ModelFileError(f"its operating point is {point!r}, its threshold {threshold!r}")
    return {
        "_score_threshold": float(threshold),
        "_draw_seed": None if seed is None else int(seed),
        "_costs": costs,
        "classes_": classes,
        "pos_label_": classes[positive],
        "threshold_": probability_of(threshold) if moving else float(point),
    }


def _loss_terms(model: TrainedModel) -> LossTerms:
    """The loss that reports are about, as the options of the engine have it."""
    engine = load_engine(name_of(model.estimator)).make(model.estimator, None)
    # Any two targets do: only the score to start from depends on them.
    terms = engine.loss_terms(np.array([1.0, 2.0]), None)
    return LossTerms(0.0, single=terms.single, loss=terms.loss)


def _exposed(content: dict[str, Any]) -> bool:
    """Whether the model was trained with exposures; files of old do not say."""
    found = content.get("exposed", False)
    if not isinstance(found, bool):
        raise ModelFileError(f"exposed is {found!r:.80}")
    return found


def _names(listed: Any, model: TrainedModel) -> list[str] | None:
    """The names of the features, which are those of the booster if it knows any."""
    if listed is None:
        return None
    names = list(map(text_of, listed))
    for name, known in zip(names, model.feature_names or (), strict=False):
        if known not in (name, name.replace(" ", "_")):  # LightGBM writes no blanks
            raise ModelFileError(f"it names the feature {name!r:.80}, its booster {known!r:.80}")
    return names


def _labels(fitted: dict[str, Any]) -> list[Any] | None:
    """The negative and the positive label, or all classes; None where numbers are predicted."""
    if "classes_" not in fitted:
        return None
    labels: list[Any] = fitted["classes_"].tolist()
    if len(labels) > 2:
        return labels
    return labels if fitted["pos_label_"] == fitted["classes_"][1] else labels[::-1]


def model_seal(model: Any) -> str:
    """Checksum of what a fitted model decides by; its file has it as ``self_test.sha256``."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # of options that a file would not keep
        return _deciding_seal(_deciding(model))


def _deciding_seal(content: dict[str, Any]) -> str:
    names = (*DECIDING, "base") if "base" in content else DECIDING
    return checksum({name: content.get(name) for name in names})


def _answer(fitted: dict[str, Any]) -> Callable[[FloatArray], FloatArray]:
    """Features to scores less the threshold, or to numbers, as the estimator computes them."""
    model, seed = fitted["_model"], fitted["_draw_seed"]

    def decide(X: FloatArray) -> FloatArray:
        scores = model.scores(X) if seed is None else randomized_scores(model, X, seed)
        found: FloatArray = scores - fitted["_score_threshold"]
        return found

    def predict(X: FloatArray) -> FloatArray:
        return np.asarray(model.predictions(model.scores(X)), np.float64)

    return decide if "classes_" in fitted else predict


def _n_features(content: dict[str, Any]) -> int:
    return whole(content["n_features"], "n_features", 1)


def _sealed_content(text: str | bytes, where: str) -> tuple[dict[str, Any], int]:
    """The content of a file whose format, version and checksum are right, and its version."""
    try:
        plain_text = text.decode("utf-8") if isinstance(text, bytes) else text
        sealed = json.loads(plain_text, parse_constant=_no_number)
    except (ValueError, RecursionError) as error:  # of JSON, UTF-8, or a number without end
        raise ModelFileError(
            f"{where} is not a fairboost model, or was cut short: it does not parse as JSON "
            f"({error}). Save the model again; a stock file is read by "
            "lightgbm.Booster(model_file=...) or xgboost.Booster(model_file=...)"
        ) from error
    if not isinstance(sealed, dict) or sealed.get("format") != FORMAT:
        raise ModelFileError(
            f"{where} is not a fairboost model: expected a JSON object with format {FORMAT!r}"
        )
    written = sealed.get("format_version")
    if type(written) is not int or not 1 <= written <= FORMAT_VERSION:
        raise ModelFileError(
            f"{where} has model format version {written!r:.80}, this fairboost reads up to "
            f"{FORMAT_VERSION}; install the version of fairboost that wrote it, or a newer one"
        )
    content = sealed.get("model")
    if not isinstance(content, dict) or checksum(content) != sealed.get("sha256"):
        raise ModelFileError(
            f"the content of {where} does not match its checksum: it was edited or damaged after "
            "saving. Restore the file or save the model again"
        )
    return content, written


def _check_file(path: Path) -> None:
    """Say what to name instead of a path that no file has."""
    if path.is_dir():
        inside = path / "model.json"  # as the command train writes
        what = f"; load {str(inside)!r}" if inside.is_file() else f" that {SAVES} wrote"
        raise NotAFileError(f"{str(path)!r} is a folder, expected a file{what}")
    if not path.exists():
        raise MissingFileError(f"there is no file {str(path)!r}; name one that {SAVES} wrote")


def seal_of(path: str | Path) -> str:
    """The seal of a model file, by which other files say to which model they belong."""
    return str(json.loads(Path(path).read_text(encoding="utf-8"))["sha256"])


def _no_number(name: str) -> Any:
    raise ValueError(f"{name} is not a number of JSON")


# A model as plain values
# -----------------------------------------------------------------------


def _content(model: Any) -> dict[str, Any]:
    """Everything that a fitted model is, in the types of JSON."""
    own, of_numbers = model.get_params(deep=False), isinstance(model, RegressorMixin)
    if isinstance(own.get("costs"), pd.DataFrame):  # in the order of classes, as predict has them
        own["costs"] = model._costs
    engine, frozen = own.pop("estimator"), isinstance(model.estimator, FrozenEstimator)
    if base_of(model) is not None:
        engine, frozen = None, False
    own.pop("stage", None)  # which is with the base model
    if own.get("stage_features", 0) is None:
        own.pop("stage_features")  # as in files of old
    own["constraint"] = encode_constraint(model.constraint)
    if not of_numbers:
        point = model.operating_point
        own["proxy"] = _encode_proxy(model.proxy)
        own["operating_point"] = asdict(point) if isinstance(point, OperatingPoint) else point
    options = None
    if engine is not None:
        options = (engine.estimator if frozen else engine).get_params()
        options.pop("coll_cfg", None)  # about the cluster, which the model does not need any more
    kind, report = name_of(model.estimator_), model.fairness_report_
    return {
        "fairboost_version": version("fairboost"),
        **({"predicts": NUMBER, "exposed": model._exposed} if of_numbers else {}),
        **({"predicts": CLASS} if not of_numbers and len(model.classes_) > 2 else {}),
        "engine": kind,
        "engine_version": load_engine(kind).version(),
        "parameters": _encode_parameters(own),
        "engine_parameters": None if options is None else _encode_parameters(options),
        "frozen": frozen,
        "multipliers": {str(name): float(value) for name, value in model.multipliers_.items()},
        "tolerances": dict(getattr(model, "tolerances_", {})),
        "trace": {str(name): _encode_column(column) for name, column in model.trace_.items()},
        "fairness_report": None if report is None else report.to_dict(),
        **_deciding(model),
    }


def _deciding(model: Any) -> dict[str, Any]:
    """What decisions and predictions of a fitted model rest on, in the types of JSON."""
    names = getattr(model, "feature_names_in_", None)
    decided: dict[str, Any] = {}
    if not isinstance(model, RegressorMixin):
        decided = {
            "classes": _encode_classes(model),
            "draw_seed": model._draw_seed,
            "score_threshold": float(model._score_threshold),
        }
    return {
        "fitted_engine_parameters": _encode_parameters(model.estimator_.get_params()),
        "n_features": int(model.n_features_in_),
        "feature_names": None if names is None else [str(name) for name in names],
        **decided,
        "intercept": np.asarray(model._model.intercept).tolist(),
        "n_base": model._model.n_base,
        "booster": model._model.text().split("\n"),
        **_standing(model),
    }


def _standing(model: Any) -> dict[str, Any]:
    """What a stage stands on; features are then those that the stage sees."""
    if base_of(model) is None:
        return {}
    stage, names = model.stage, getattr(model, "feature_names_in_", None)
    base = base_files.encode(model)
    base["stage"] = None if stage is None else _encode_parameters(stage.get_params())
    columns = range(model.n_features_in_) if model._columns is None else model._columns
    return {
        "n_features": len(columns),
        "feature_names": None if names is None else [str(names[k]) for k in columns],
        "base": base,
    }


def _encode_classes(model: Any) -> dict[str, Any]:
    """The labels, and which of them is the positive one."""
    if len(model.classes_) > 2:
        return _encode_labels(model.classes_)
    positive = int(model.pos_label_ == model.classes_[1])
    return {**_encode_labels(model.classes_), "positive": positive}


def _encode_column(column: Any) -> list[Any]:
    """A column of the trace; what is missing is None, and an infinite figure a text."""
    values = column.astype(object).where(column.notna(), None).tolist()
    return [str(v) if isinstance(v, float) and math.isinf(v) else v for v in values]


def _encode_labels(classes: Any) -> dict[str, Any]:
    """Labels with their type; moments and spans of time as whole numbers of their unit."""
    kind = {"M": "i8", "m": "i8", "f": "f8"}.get(classes.dtype.kind, classes.dtype)
    return {"dtype": classes.dtype.str, "values": plain(classes.astype(kind).tolist())}


def _decode_labels(labels: dict[str, Any]) -> Any:
    dtype, values = plain_type(labels["dtype"]), labels["values"]
    if not 2 <= len(values) <= MOST_CLASSES or not is_plain(values) or values[0] == values[1]:
        raise ModelFileError(f"its labels are {values!r:.80}")
    plain_values = np.array(values, "i8" if dtype.kind in "Mm" else dtype)
    if len(values) > 2 and len(np.unique(plain_values)) != len(values):
        raise ModelFileError(f"of its labels {values!r:.80} two are the same")
    return plain_values.astype(dtype)


def _encode_proxy(proxy: str | Proxy) -> str:
    if isinstance(proxy, str):
        return proxy
    if PROXIES.get(proxy.name) is not proxy:
        _warn_not_stored("proxy", proxy)
        return "auto"
    return proxy.name


def _encode_parameters(parameters: dict[str, Any]) -> dict[str, Any]:
    """Parameters in the types of JSON; says which it could not store."""
    out: dict[str, Any] = {}
    for name, value in parameters.items():
        try:
            out[name] = encode(value)
        except TypeError:
            _warn_not_stored(name, value)
            out[name] = None
    return out


def _decode_parameters(parameters: dict[str, Any]) -> dict[str, Any]:
    return {name: decode(value) for name, value in parameters.items()}


def _warn_not_stored(name: str, value: object) -> None:
    warnings.warn(
        f"parameter {name}={value!r} has no form as text and is not stored in the model file; the "
        "model predicts without it, but set it again before fitting the loaded model",
        UserWarning,
        stacklevel=5,
    )
