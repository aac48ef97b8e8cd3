"""Fitted models as a flavour of MLflow, and what MLflow's server calls.

::

    MLmodel            signature, flavours; MLflow's own
    data/fairboost/
      model.json       the model, for fairboost
      decide.json      how to decide by it
      report.html      the report, if evidence was given; report.md has the same
      evidence.json
"""

from __future__ import annotations

import re
import sys
import tempfile
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from sklearn.utils.validation import check_is_fitted

from fairboost._files import write_text
from fairboost._typing import Matrix
from fairboost.engines.registry import load_engine, name_of
from fairboost.exceptions import ExportError, InvalidInputError, ModelFileError
from fairboost.model.base import FairBooster
from fairboost.model.estimator import FairGBMClassifier, load
from fairboost.model.files import base_of
from fairboost.report import Evidence, write_report
from fairboost.serving.decide_file import NAME as DECIDE
from fairboost.serving.optional import needing
from fairboost.verdicts.fairness_report import FairnessReport

FLAVOR, FOLDER, MODEL = "fairboost", "fairboost", "model.json"
LOADER = "fairboost.mlflow"
NOT_IN_NAMES = re.compile(r"[^\w./ -]+", re.ASCII)
"""Characters that names of metrics may not have."""
WHOLE = {"int64": "long", "bool": "boolean"}
"""Types that MLflow does not make double by itself, and what it calls them."""


def save_model(
    model: Any,
    path: str | Path,
    *,
    evidence: Evidence | None = None,
    input_example: Matrix | None = None,
    signature: Any = None,
    pip_requirements: list[str] | None = None,
    mlflow_model: Any = None,
) -> None:
    """Write a fitted model as a folder that MLflow loads and serves.

    Parameters
    ----------
    model : FairGBMClassifier or FairGBMRegressor
        The model.
    path : str or Path
        The folder, which must not exist.
    evidence : Evidence, optional
        What :func:`fairboost.report.gather` found; the report is then stored with the model.
    input_example : table, optional
        A few rows, which are stored with the model. MLflow then requires the types of these rows:
        a column of whole numbers takes only whole numbers, without missing values.
    signature : mlflow.models.ModelSignature, optional
        Of inputs and outputs; found from the features of the model, and the types of
        ``input_example``, by default.
    pip_requirements : list of str, optional
        Packages that a server needs; by default fairboost and the engine in present versions.
    mlflow_model : mlflow.models.Model, optional
        What the flavour is added to; MLflow passes it.

    Examples
    --------
    >>> from fairboost.mlflow import load_model, save_model
    >>> save_model(model, "loans")  # doctest: +SKIP
    >>> load_model("loans").predict(X)  # doctest: +SKIP
    """
    with needing("mlflow"):
        import mlflow.models
        import mlflow.pyfunc
    _check_without_base(model)
    engine = name_of(model.estimator_)
    needed = [f"fairboost=={version('fairboost')}", f"{engine}=={load_engine(engine).version()}"]
    described = mlflow.models.Model() if mlflow_model is None else mlflow_model
    described.add_flavor(FLAVOR, fairboost_version=version("fairboost"), engine=engine)
    example = None if input_example is None else _plain_rows(input_example)
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary) / FOLDER
        folder.mkdir()
        model.save(folder / MODEL)
        decide = model._decide_text("fairboost", {MODEL: folder / MODEL})
        write_text(folder / DECIDE, decide)
        if evidence is not None:
            write_report(evidence, folder)
        mlflow.pyfunc.save_model(
            str(path),
            loader_module=LOADER,
            data_path=str(folder),
            mlflow_model=described,
            signature=_signature(model, example) if signature is None else signature,
            input_example=example,
            pip_requirements=needed if pip_requirements is None else pip_requirements,
        )


def _check_without_base(model: Any) -> None:
    """Refuse a model that is not fitted, and a stage, whose base model no folder would hold."""
    if not isinstance(model, FairBooster):
        raise InvalidInputError(
            f"expected a fitted FairGBMClassifier or FairGBMRegressor, found "
            f"{type(model).__name__}; mlflow.sklearn takes pipelines"
        )
    check_is_fitted(model, "_model")
    base = base_of(model)
    if base is None:
        return
    if base.estimator is None:
        raise ExportError(
            "the model is a stage on scores that predict is given (base_score), and MLflow's "
            "server passes features alone; write the model with model.save(path), read it with "
            "fairboost.load(path), and log the file with mlflow.log_artifact(path)"
        )
    name = type(base.estimator).__name__
    raise ExportError(
        f"the model is a stage on a {name}, which a folder without pickles does not hold, so that "
        f"the folder could not be loaded; write the stage with model.save(path) and the {name} by "
        "its own means, log both with mlflow.log_artifact, and read them with "
        f"fairboost.load(path, base=the {name})"
    )


def log_model(
    model: Any,
    name: str = "model",
    *,
    evidence: Evidence | None = None,
    report: FairnessReport | None = None,
    input_example: Matrix | None = None,
    registered_model_name: str | None = None,
) -> Any:
    """Log a fitted model to the active run of MLflow, with the figures of every group.

    Parameters
    ----------
    model : FairGBMClassifier or FairGBMRegressor
        The model.
    name : str
        Name of the model in MLflow.
    evidence : Evidence, optional
        As of :func:`save_model`.
    report : FairnessReport, optional
        The report whose figures are logged as metrics, such as ``model.report_on(...)``; by
        default that of training.
    input_example : table, optional
        As of :func:`save_model`.
    registered_model_name : str, optional
        A name in MLflow's registry to register it under.

    Returns
    -------
    info : mlflow.models.model.ModelInfo
        Its ``model_uri`` is for :func:`load_model`.

    Examples
    --------
    >>> from fairboost.mlflow import log_model
    >>> log_model(model, "loans", report=model.report_on(X, y, sensitive_features=sex)).model_uri
    ... # doctest: +SKIP
    """
    with needing("mlflow"):
        import mlflow
        import mlflow.models
    _check_without_base(model)
    info = mlflow.models.Model.log(
        artifact_path=None,
        flavor=sys.modules[LOADER],
        name=name,
        registered_model_name=registered_model_name,
        model=model,
        evidence=evidence,
        input_example=input_example,
    )
    told = model.fairness_report_ if report is None else report
    if found := group_metrics(told):
        mlflow.log_metrics(found, run_id=info.run_id)
    return info


def load_model(model_uri: str | Path) -> Any:
    """Read a model that :func:`save_model` or :func:`log_model` stored.

    Parameters
    ----------
    model_uri : str or Path
        A folder, or an address of MLflow such as ``models:/loans/1`` or ``runs:/ID/model``.

    Returns
    -------
    model : FairGBMClassifier or FairGBMRegressor
        Fitted. ``mlflow.pyfunc.load_model`` gives an object whose ``predict`` returns a table of
        probabilities and decisions.

    Examples
    --------
    >>> from fairboost.mlflow import load_model
    >>> load_model("models:/loans/1").predict(X)  # doctest: +SKIP
    """
    with needing("mlflow"):
        import mlflow.artifacts
        import mlflow.models
    folder = Path(mlflow.artifacts.download_artifacts(str(model_uri)))
    flavors = mlflow.models.Model.load(str(folder)).flavors
    if FLAVOR not in flavors:
        raise ModelFileError(
            f"{str(model_uri)!r} has the flavours {', '.join(flavors)}, expected fairboost; "
            "name a model that fairboost.mlflow.log_model stored"
        )
    return load(folder / flavors["python_function"]["data"] / MODEL)


def _load_pyfunc(path: str) -> ServedModel:
    """What MLflow serves; ``path`` is the folder with the model's files."""
    return ServedModel(load(Path(path) / MODEL))


class ServedModel:
    """Rows to a table of probabilities and decisions, or of numbers.

    Parameters
    ----------
    model : FairGBMClassifier or FairGBMRegressor
        The model.
    """

    def __init__(self, model: Any) -> None:
        self.model = model
        self.features = model._served().features

    def predict(self, model_input: Any, params: dict[str, Any] | None = None) -> pd.DataFrame:
        """What the model says of each row; ``params`` are MLflow's, and there are none."""
        X = self._rows(model_input)
        if not isinstance(self.model, FairGBMClassifier):
            return pd.DataFrame({"prediction": self.model.predict(X)})
        classes, proba = self.model.classes_, self.model.predict_proba(X)
        if len(classes) > 2:
            columns = {f"probability[{c}]": proba[:, k] for k, c in enumerate(classes)}
        else:
            columns = {"probability": proba[:, int(self.model.pos_label_ == classes[1])]}
        return pd.DataFrame({**columns, "decision": self.model.predict(X)})

    def _rows(self, given: Any) -> Matrix:
        """The features in the types of training: of JSON, categories are text."""
        if not hasattr(self.model, "feature_names_in_"):
            return np.asarray(given, np.float64)
        table = pd.DataFrame(given)
        data: dict[str, Any] = {}
        for feature in self.features:
            if feature.name not in table:
                raise InvalidInputError(
                    f"the rows have no column {feature.name!r}, expected "
                    f"{[f.name for f in self.features]}; add it"
                )
            column = table[feature.name]
            named = feature.categories is not None
            data[feature.name] = column.astype("category" if named else np.float64)
        return pd.DataFrame(data)


def group_metrics(report: FairnessReport | None) -> dict[str, float]:
    """The figures of a report by the names that MLflow gets: rows, rate, group.

    Examples
    --------
    >>> group_metrics(None)
    {}
    """
    if report is None:
        return {}
    found: dict[str, float] = {}
    verdicts = {report.where: report.verdicts, "test": report.test_verdicts}
    for where, those in verdicts.items():
        for line in report.rates.to_dict("records") if where in report.rates else ():
            found[f"{where}/{line['rate']}/{line['group']}"] = line[where]
        for v in those:
            found[f"{where}/{v.measure}/{v.constraint}"] = v.value
    named = {NOT_IN_NAMES.sub("_", name)[:250]: float(value) for name, value in found.items()}
    return {name: value for name, value in named.items() if np.isfinite(value)}


def _signature(model: Any, example: Any) -> Any:
    """Inputs and outputs as MLflow checks them; whole numbers where an example has them."""
    from mlflow.models import ModelSignature
    from mlflow.types import ColSpec, Schema, TensorSpec

    served = model._served()
    if served.named:
        kinds = {f.name: "string" if f.is_text else "double" for f in served.features}
        if isinstance(example, pd.DataFrame):
            types = {str(n): column.dtype.name for n, column in example.infer_objects().items()}
            kinds |= {n: WHOLE[types[n]] for n in kinds if types.get(n) in WHOLE}
        # What is not required may be missing in a row.
        inputs = Schema([ColSpec(kind, name, required=False) for name, kind in kinds.items()])
    else:
        inputs = Schema([TensorSpec(np.dtype(np.float64), (-1, len(served.features)))])
    if served.decision is None:
        return ModelSignature(inputs, Schema([ColSpec("double", "prediction")]))
    classes = served.decision.classes
    names = [f"probability[{c}]" for c in classes] if len(classes) > 2 else ["probability"]
    columns = [ColSpec("double", name) for name in names]
    label = {"i": "long", "u": "long", "b": "boolean", "f": "double"}
    decision = ColSpec(label.get(classes.dtype.kind, "string"), "decision")
    return ModelSignature(inputs, Schema([*columns, decision]))


def _plain_rows(X: Matrix) -> Any:
    """Rows as they would come in JSON: categories are their values, other numbers double."""
    if not isinstance(X, pd.DataFrame):
        return np.asarray(X, np.float64)

    def plain(column: Any) -> Any:
        if column.dtype == "category":
            return column.astype(object)
        return column if column.dtype.name in WHOLE else column.astype(np.float64)

    return pd.DataFrame({str(name): plain(column) for name, column in X.items()})
