"""MLflow: models that are logged, loaded and served with their decision.

>>> import fairboost.mlflow  # doctest: +SKIP
>>> info = fairboost.mlflow.log_model(model, name="loans")  # doctest: +SKIP
>>> fairboost.mlflow.load_model(info.model_uri).predict(X)  # doctest: +SKIP

A model is stored as the files of :meth:`fairboost.FairGBMClassifier.save` and ``decide.json``. No
pickle is among them. MLflow is an extra, ``pip install 'fairboost[mlflow]'``, and is imported
when a function is called.
"""

from __future__ import annotations

from fairboost.mlflow.flavor import _load_pyfunc, load_model, log_model, save_model

__all__ = ["load_model", "log_model", "save_model"]

_ = _load_pyfunc  # by this name MLflow looks for it
