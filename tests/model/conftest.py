"""What the tests of bad input share."""

from __future__ import annotations

import lightgbm
import pytest
from sklearn.exceptions import NotFittedError

from fairboost import FairGBMClassifier


@pytest.fixture
def no_training(monkeypatch):
    """Make every attempt to train an error of its own kind."""

    def fit(self, *args, **kwargs):
        raise AssertionError("LightGBM was asked to train")

    monkeypatch.setattr(lightgbm.LGBMClassifier, "fit", fit)


@pytest.fixture
def refuses(engine, toy, no_training):
    """Fit with one thing wrong; check that it raises and that nothing is fitted."""

    def check(error, match, *, options=None, params=None, **fit_arguments):
        model = FairGBMClassifier(engine(**(options or {})), **(params or {}))
        arguments = {"X": toy.X, "y": toy.y, "sensitive_features": toy.group, **fit_arguments}
        X, y = arguments.pop("X"), arguments.pop("y")
        with pytest.raises(error, match=match):
            model.fit(X, y, **arguments)
        with pytest.raises(NotFittedError):
            model.predict(toy.X)
        assert not hasattr(model, "trace_")

    return check
