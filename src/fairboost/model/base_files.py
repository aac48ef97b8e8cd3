"""A base model in files: what is written of it, and how one that the user brings is checked.

A base model may be any object of Python, which a text file cannot hold and a pickle should not. So
a file has how log-odds are made of it, and made-up rows with their log-odds: a base model that
scores these rows otherwise is another one.
"""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.frozen import FrozenEstimator

from fairboost._files import write_text
from fairboost.engines.linear.tilt import SIGNS
from fairboost.engines.registry import LINEAR
from fairboost.engines.registry import name_of as engine_name
from fairboost.exceptions import ExportError, InvalidInputError, ModelFileError
from fairboost.model import probe
from fairboost.model.base_model import DECISIONS, PROBABILITIES, SCORES, BaseModel
from fairboost.serving.export import ENDINGS

CLOSE = 1e-6
"""How far log-odds of the made-up rows may be from those of the file."""
FORMULAS = {
    SCORES: "b = log(q / (1 - q)), q = min(max(base_score, clip[0]), clip[1])",
    PROBABILITIES: (
        "b = log(q / (1 - q)), q = min(max(base.predict_proba(X)[:, column], clip[0]), clip[1])"
    ),
    DECISIONS: "b = slope * sign * base.decision_function(X) + shift",
}
"""How the log-odds of a base model are made."""


def name_of(estimator: Any) -> str | None:
    """The class of a base model."""
    return (
        None if estimator is None else f"{type(estimator).__module__}.{type(estimator).__name__}"
    )


def recipe(base: BaseModel) -> dict[str, Any]:
    """How log-odds are made of a base model, in the types of JSON."""
    found: dict[str, Any] = {"kind": base.kind, "class": name_of(base.estimator)}
    if base.kind == DECISIONS:
        sign = 1 if base.column else -1
        return {**found, "sign": sign, "slope": base.slope, "shift": base.shift}
    where = {"column": base.column} if base.kind == PROBABILITIES else {}
    return {**found, **where, "clip": list(base.clip)}


def encode(model: Any) -> dict[str, Any]:
    """What a model file has of the base model of a fitted model."""
    base: BaseModel = model._base
    names = getattr(model, "feature_names_in_", None)
    found = {
        **recipe(base),
        "n_features": int(model.n_features_in_),
        "feature_names": None if names is None else [str(name) for name in names],
        "stage_columns": None if model._columns is None else list(model._columns),
    }
    if base.kind == SCORES:
        return found
    try:
        if base.rows is None:
            raise TypeError(
                "the table is very wide, or of another kind than those of pandas, NumPy and SciPy"
            )
        rows = probe.encode(base.rows)
    except TypeError as error:
        raise ModelFileError(
            f"the model was not written: a file identifies a base model by made-up rows, and "
            f"those of this table cannot be written ({error}). Train on a table of pandas with "
            "numbers, text and categories, or keep the model with pickle"
        ) from error
    return {**found, "rows": rows, "log_odds": base.log_odds(base.rows).tolist()}


def decode(found: dict[str, Any], given: Any) -> tuple[BaseModel, dict[str, Any]]:
    """The base model of a file, and the attributes of the model that it has to do with.

    Parameters
    ----------
    found : dict
        What :func:`encode` has written.
    given : classifier, FrozenEstimator or None
        The base model that the user brings.
    """
    kind, columns, names = found["kind"], found["stage_columns"], found["feature_names"]
    if kind not in FORMULAS:
        raise ModelFileError(f"its base model is of kind {kind!r:.80}")
    attributes: dict[str, Any] = {
        "_columns": None if columns is None else tuple(map(int, columns)),
        "n_features_in_": int(found["n_features"]),
    }
    if names is not None:
        attributes["feature_names_in_"] = np.array([str(name) for name in names], dtype=object)
    clip = tuple(map(float, found.get("clip", (0.0, 1.0))))
    if kind == SCORES:
        return BaseModel(SCORES, clip=(clip[0], clip[1])), attributes
    inner = given.estimator if isinstance(given, FrozenEstimator) else given
    base = BaseModel(
        kind,
        inner,
        int(found.get("column", found.get("sign", 1) > 0)),
        (clip[0], clip[1]),
        float(found.get("slope", 1.0)),
        float(found.get("shift", 0.0)),
        probe.decode(found["rows"]),
    )
    _check_same(base, found)
    return base, attributes


def check_given(found: dict[str, Any] | None, given: Any, path: str | Path) -> None:
    """Refuse a file whose base model is missing, and a base model that no file asks for."""
    needed = found is not None and found.get("kind") != SCORES
    if needed and given is None:
        assert found is not None
        raise ModelFileError(
            f"the model of {path} is a stage on a {found.get('class')!r:.200}, which a model file "
            f"does not hold; pass the fitted base model, fairboost.load({str(path)!r}, base=...)"
        )
    if needed and not hasattr(given, "predict"):
        what = "text" if isinstance(given, str) else type(given).__name__
        raise InvalidInputError(
            f"base must be a fitted model, found {what}; read the model that was frozen at fit, "
            "and pass it"
        )
    if given is not None and not needed:
        what = "scores that predict is given" if found is not None else "no base model"
        raise ModelFileError(f"the model of {path} stands on {what}; leave base out")


class OtherBaseError(ModelFileError):
    """A base model that is not the one that a stage was trained on."""


def _check_same(base: BaseModel, found: dict[str, Any]) -> None:
    """Refuse a base model that scores the rows of a file otherwise than the one it was."""
    expected = np.array(found["log_odds"], np.float64)
    try:
        scores = base.log_odds(base.rows)
    except Exception as error:
        raise OtherBaseError(
            f"base= is a {name_of(base.estimator)}, which does not score the made-up rows of the "
            f"file ({error!r:.300}). Pass the {found['class']!r:.200} that was frozen at fit"
        ) from error
    if scores.shape != expected.shape or not np.allclose(scores, expected, rtol=CLOSE, atol=CLOSE):
        away = np.max(np.abs(scores - expected)) if scores.shape == expected.shape else np.inf
        raise OtherBaseError(
            "base= is another model than the one that the stage was trained on, a "
            f"{found['class']!r:.200}: log-odds differ by up to {away:.3g} on made-up rows. Pass "
            "the model that was frozen at fit"
        )


def export_stage(path: str | Path, form: str | None, model: Any) -> None:
    """Write a stage as a stock booster, and how its scores are added to those of the base model.

    Parameters
    ----------
    path : str or Path
        Where to; the note is ``<path>.base.json``.
    form : str, optional
        The format asked for. Only the stock format of the engine has raw scores to be added to.
    model : FairGBMClassifier
        Fitted, with a base model.
    """
    engine, endings = engine_name(model._model.estimator), model._model.file_endings
    if (form or ENDINGS.get(Path(path).suffix, engine)) != engine:
        raise ExportError(
            "the model is a stage on a base model that the file would not hold, so its decisions "
            f"cannot be exported to {form or Path(path).suffix}; leave format out or use "
            f"format={engine!r}, which writes the stage and a note of how to add its scores to "
            "those of the base model"
        )
    if endings and Path(path).suffix not in endings:
        raise ExportError(
            f"the engine finds the format of a model by the ending of its file, expected "
            f"{' or '.join(endings)}, found {str(path)!r}; rename it"
        )
    if engine == LINEAR:
        before = _boosters_of(Path(path))
        stage = _linear(Path(path), model._model)
        write_text(path, _as_json(_note(model, **stage)))
        kept = {found.get("file") for found in stage["memberships"]}
        for file, checksum in before.items():
            # Only what an export wrote, and nobody has changed since.
            if file.name not in kept and file.is_file() and _sha256(file) == checksum:
                file.unlink()
        return
    point = model.operating_point
    write_text(path, model._model.export(threshold=model.threshold_, operating_point=point))
    stage = {
        "s": "raw score of the stage file (LightGBM raw_score=True, XGBoost output_margin=True)",
        "engine": engine,
        "stage_file": Path(path).name,
        "stage_sha256": _sha256(path),
    }
    write_text(f"{path}.base.json", _as_json(_note(model, **stage)))


def _boosters_of(path: Path) -> dict[Path, str]:
    """The boosters that an export to the same path has written before, and their checksums."""
    try:
        listed = json.loads(path.read_text())["memberships"]
        return {path.with_name(Path(b["file"]).name): b["sha256"] for b in listed if "file" in b}
    except (OSError, ValueError, KeyError, TypeError):  # there is none, or it is another file
        return {}


def _linear(path: Path, stage: Any) -> dict[str, Any]:
    """Write the boosters of a linear stage beside its file; returns how scores are made of them.

    Their numbers are exact: a factor is the exponential of a weight.
    """
    listed = []
    for k, block in enumerate(stage.blocks):
        sign, theta = SIGNS[block.label], block.path[-1]
        columns = {int(g): column for column, g in enumerate(block.learned)}
        groups = [
            {
                "name": name,
                "factor": float(np.exp(sign * theta[g])),
                "share": float(block.shares[g]),
                "column": columns.get(g),
            }
            for g, name in enumerate(block.groups)
        ]
        found: dict[str, Any] = {"label": block.label, "sign": int(sign), "groups": groups}
        if block.model is not None:
            file = path.with_name(f"{path.stem}.{k}.txt")
            write_text(file, block.model.text())
            found |= {"file": file.name, "sha256": _sha256(file)}
        listed.append(found)
    return {
        "s": "sum over memberships of sign * log(sum over groups of factor * w)",
        "w": (
            "share, if column is null; else P * (sum of share over groups with a column). P is "
            "column number column of the probabilities that lightgbm.Booster(model_file=file) "
            "predicts; of two columns it predicts the last, and the other is 1 less that"
        ),
        "engine": LINEAR,
        "memberships": listed,
    }


def _sha256(path: str | Path) -> str:
    return hashlib.sha256(Path(path).read_bytes()).hexdigest()


def _as_json(note: dict[str, Any]) -> str:
    return json.dumps(note, indent=1, allow_nan=False) + "\n"


def _note(model: Any, **stage: Any) -> dict[str, Any]:
    """How scores of a stage are added to those of the base model."""
    base: BaseModel = model._base
    names = getattr(model, "feature_names_in_", None)
    columns = range(model.n_features_in_) if model._columns is None else model._columns
    seen = [int(k) if names is None else str(names[k]) for k in columns]
    return {
        "format": "fairboost-stage",
        "formula": "probability = 1 / (1 + exp(-(b + s)))",
        "b": FORMULAS[base.kind],
        "decision": "positive where probability >= threshold",
        "threshold": float(model.threshold_),
        "labels": {"negative": str(model._labels[0]), "positive": str(model._labels[1])},
        "base": recipe(base),
        **stage,
        "stage_features": seen,
    }
