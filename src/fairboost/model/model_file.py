"""A fitted model to the content of a file, and back."""

from __future__ import annotations

import math
from importlib.metadata import version
from typing import Any

import numpy as np
import pandas as pd
from sklearn.frozen import FrozenEstimator

from fairboost.engines.port import TrainedModel
from fairboost.engines.registry import load_engine, name_of
from fairboost.fairness.operating_points import OperatingPoint
from fairboost.model import document as persistence
from fairboost.model.document import ModelDocument
from fairboost.verdicts.fairness_report import FairnessReport


def to_document(model: Any) -> ModelDocument:
    """Everything that a fitted ``FairGBMClassifier`` is, as plain values."""
    own = {
        **model.get_params(deep=False),
        "constraint": persistence.encode_constraint(model.constraint),
        "proxy": persistence.encode_proxy(model.proxy),
        "operating_point": persistence.encode_operating_point(model.operating_point),
    }
    engine = own.pop("estimator")
    frozen = isinstance(engine, FrozenEstimator)
    if frozen:  # its trees are the first of the booster
        engine = engine.estimator
    name = name_of(model.estimator_)
    trace = model.trace_.astype(object).where(model.trace_.notna(), None)
    names = getattr(model, "feature_names_in_", None)
    return ModelDocument(
        fairboost_version=version("fairboost"),
        engine=name,
        engine_version=load_engine(name).version(),
        parameters=persistence.encode_parameters(own),
        engine_parameters=None
        if engine is None
        else persistence.encode_parameters(_options(engine)),
        fitted_engine_parameters=persistence.encode_parameters(model.estimator_.get_params()),
        classes=persistence.encode_classes(model.classes_),
        n_features=int(model.n_features_in_),
        feature_names=None if names is None else [str(name) for name in names],
        draw_seed=model._draw_seed,
        score_threshold=float(model._score_threshold),
        intercept=model._model.intercept,
        n_base=model._model.n_base,
        frozen=frozen,
        multipliers={str(name): float(value) for name, value in model.multipliers_.items()},
        fairness_report=None
        if model.fairness_report_ is None
        else model.fairness_report_.to_dict(),
        trace={str(name): column.tolist() for name, column in trace.items()},
        booster=model._model.text().split("\n"),
    )


def _options(engine: Any) -> dict[str, Any]:
    """Options of an engine; not those of a cluster, which the model does not need any more."""
    return {name: value for name, value in engine.get_params().items() if name != "coll_cfg"}


def parameters(document: ModelDocument) -> dict[str, Any]:
    """The parameters of the estimator that was saved."""
    own = persistence.decode_parameters(document.parameters)
    own["constraint"] = persistence.decode_constraint(document.parameters["constraint"])
    own["operating_point"] = _operating_point(document)
    if document.engine_parameters is not None:
        engine = persistence.decode_parameters(document.engine_parameters)
        own["estimator"] = load_engine(document.engine).make_estimator(**engine)
    if document.frozen:
        whole = _restored(document, own["estimator"])
        own["estimator"] = FrozenEstimator(whole.first(0).estimator)
    return own


def _operating_point(document: ModelDocument) -> Any:
    return persistence.decode_operating_point(document.parameters["operating_point"])


def _restored(document: ModelDocument, estimator: Any) -> TrainedModel:
    return load_engine(document.engine).restore(
        estimator,
        "\n".join(document.booster),
        document.intercept,
        persistence.decode_classes(document.classes),
        document.n_features,
        document.n_base,
    )


def fitted_attributes(document: ModelDocument) -> dict[str, Any]:
    """What fitting had set on it."""
    classes = persistence.decode_classes(document.classes)
    options = persistence.decode_parameters(document.fitted_engine_parameters)
    fitted = load_engine(document.engine).make_estimator(**options)
    model = _restored(document, fitted)
    trace = pd.DataFrame(document.trace)
    floats = trace.columns.difference(["round", "trees"])
    multipliers = document.multipliers
    names = document.feature_names
    point, score_threshold = _operating_point(document), document.score_threshold
    if score_threshold is None:
        score_threshold = math.log(point / (1 - point))
    return {
        "_model": model,
        "_score_threshold": score_threshold,
        "_draw_seed": document.draw_seed,
        "_seen": None,  # its figures are in the report
        "fairness_report_": None
        if document.fairness_report is None
        else FairnessReport.from_dict(document.fairness_report),
        "classes_": classes,
        "n_features_in_": document.n_features,
        **({} if names is None else {"feature_names_in_": np.array(names, dtype=object)}),
        "threshold_": model.probability(score_threshold)
        if isinstance(point, OperatingPoint)
        else float(point),
        "multipliers_": pd.Series(
            list(multipliers.values()), list(multipliers), name="multiplier", dtype=np.float64
        ),
        "trace_": trace.astype(dict.fromkeys(floats, np.float64)),
        "best_iteration_": model.n_rounds,
    }
