"""Engine options that contradict us, and data to predict that do not fit: refused."""

from __future__ import annotations

import lightgbm
import numpy as np
import pandas as pd
import pytest
from sklearn.exceptions import NotFittedError

from fairboost import FairGBMClassifier
from fairboost.exceptions import EngineOptionError, FairboostError, InvalidInputError

# Engine options


@pytest.mark.parametrize(
    ("options", "match"),
    [
        (
            {"objective": "cross_entropy"},
            r"sets objective='cross_entropy', but fairboost brings its",
        ),
        ({"objective": lambda y, p: (p, p)}, r"sets objective=<function .*; leave objective out"),
        ({"application": "binary"}, r"sets application='binary', .*; leave application out"),
        ({"loss": None}, r"sets loss=None, which LightGBM puts before any objective"),
        ({"num_class": 3}, r"sets num_class=3, but y has two classes; leave num_class out"),
        ({"num_classes": 2}, r"sets num_class=2, but y has two classes"),
        ({"sigmoid": 2.0}, r"sets sigmoid=2.0, expected 1: scores are log-odds here"),
        (
            {"pos_bagging_fraction": 0.5},
            r"pos_bagging_fraction=0.5, expected 1: LightGBM drops it",
        ),
        ({"neg_subsample": 0.5}, r"neg_bagging_fraction=0.5, expected 1: LightGBM drops it"),
        ({"num_machines": 2}, r"num_machines=2, expected 1: rates would be those of one machine"),
        ({"boosting_type": "rf"}, r"boosting_type='rf', which does not boost"),
        ({"boosting": "rf"}, r"boosting_type='rf', which does not boost"),
        (
            {"is_unbalance": True, "scale_pos_weight": 2.0},
            r"both is_unbalance and scale_pos_weight",
        ),
        ({"scale_pos_weight": -1.0}, r"scale_pos_weight must be positive, found -1.0"),
    ],
)
def test_engine_options(refuses, options, match):
    refuses(EngineOptionError, match, options=options)


@pytest.mark.parametrize("metric", ["l2", "auc_mu", "kullback_leibler", "gamma"])
def test_metrics_that_would_see_raw_scores(refuses, toy, metric):
    match = rf"metric '{metric}' is not supported: .* Expected binary_logloss"
    refuses(EngineOptionError, match, eval_set=[(toy.X, toy.y)], eval_metric=metric)
    refuses(EngineOptionError, match, eval_set=[(toy.X, toy.y)], options={"metric": metric})


@pytest.mark.parametrize("iterate", ["best", "average", "randomized"])
@pytest.mark.parametrize("name", ["boosting_type", "boosting", "boost"])
def test_dart_has_no_iterates(refuses, iterate, name):
    refuses(
        InvalidInputError,
        rf"iterate='{iterate}' needs the model as it was at every round, but DART rescales",
        params={"iterate": iterate},
        options={name: "dart"},
    )


@pytest.mark.parametrize("iterate", ["average", "randomized"])
def test_dart_has_no_iterates_without_constraints_either(refuses, iterate):
    refuses(
        InvalidInputError,
        rf"iterate='{iterate}' needs the model as it was at every round, but DART rescales",
        params={"iterate": iterate, "constraint": None},
        options={"boosting_type": "dart"},
    )


@pytest.mark.parametrize(
    "estimator", ["lightgbm", lightgbm.LGBMClassifier, lightgbm.LGBMRegressor()]
)
def test_estimators_of_another_kind(toy, no_training, estimator):
    with pytest.raises(
        EngineOptionError, match=r"estimator must be an LGBMClassifier or XGBClassifier, found"
    ):
        FairGBMClassifier(estimator).fit(toy.X, toy.y, sensitive_features=toy.group)


# Predicting


@pytest.mark.parametrize("method", ["predict", "predict_proba", "decision_function"])
def test_predict_before_fit(engine, toy, method):
    with pytest.raises(NotFittedError, match="This FairGBMClassifier instance is not fitted yet"):
        getattr(FairGBMClassifier(engine()), method)(toy.X)


@pytest.mark.parametrize("method", ["save", "export"])
def test_writing_before_fit(engine, tmp_path, method):
    with pytest.raises(NotFittedError, match="not fitted yet"):
        getattr(FairGBMClassifier(engine()), method)(tmp_path / "model.txt")
    assert list(tmp_path.iterdir()) == []


@pytest.fixture
def fitted(engine, toy):
    model = FairGBMClassifier(engine(), constraint=None)
    frame = pd.DataFrame(toy.X, columns=["income", "debt", "noise", "district"])
    return model.fit(frame, toy.y), frame


def test_other_columns_at_predict(fitted):
    model, frame = fitted
    with pytest.raises(ValueError, match=r"Feature names unseen at fit time:\n- salary"):
        model.predict(frame.rename(columns={"income": "salary"}))
    with pytest.raises(ValueError, match="Feature names must be in the same order"):
        model.predict(frame[frame.columns[::-1]])
    with pytest.raises(
        ValueError, match=r"Feature names seen at fit time, yet now missing:\n- debt"
    ):
        model.predict(frame.drop(columns="debt"))


def test_another_number_of_columns_at_predict(fitted):
    model, frame = fitted
    with (
        pytest.warns(UserWarning, match="X does not have valid feature names"),
        pytest.raises(ValueError, match="X has 3 features, but FairGBMClassifier is expecting 4"),
    ):
        model.predict(frame.to_numpy()[:, :3])
    with pytest.raises(InvalidInputError, match=r"found 1 dimensions\. Reshape your data"):
        model.predict(frame.to_numpy()[0])


def test_a_failed_fit_keeps_the_old_model(fitted, toy):
    model, frame = fitted
    before = model.predict_proba(frame)
    with pytest.raises(FairboostError, match="two classes"):
        model.fit(frame, np.zeros(len(toy)))
    np.testing.assert_array_equal(model.predict_proba(frame), before)
