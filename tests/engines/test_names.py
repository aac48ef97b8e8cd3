"""Columns with names of any alphabet: every path gives the model that plain names give."""

from __future__ import annotations

import pickle

import numpy as np
import pytest
from sklearn.frozen import FrozenEstimator

from fairboost import FairGBMClassifier, load, tradeoff_curve
from fairboost.exceptions import InvalidInputError
from tests.kinds import KINDS

NAMES = {
    "German": ["größe", "Übung", "straße", "ß ü"],
    "French": ["âge", "crédit", "noël", "œuvre"],
    "Japanese": ["年齢", "収入", "カタカナ", "地区"],
    "Chinese": ["年龄", "收入", "噪声", "地区"],
    "Korean": ["나이", "소득", "잡음", "지역"],
    "Arabic": ["العمر", "الدخل", "ضوضاء", "حي"],
    "Hebrew": ["גיל", "הכנסה", "רעש", "אזור"],
    "Greek": ["ηλικία", "εισόδημα", "θόρυβος", "περιοχή"],
    "Russian": ["возраст", "доход", "шум", "район"],
    "Hindi": ["आयु", "आय", "शोर", "ज़िला"],
    "emoji": ["😀", "👩‍👩‍👧", "🏠$", "a\u2028b"],
    "signs": ["it's", "a\\b", "a/b=c", "a\tb"],
}
QUOTED = ['say "ü"', '"', "a,b", "{c}:d"]  # LightGBM takes none of them


def fit(engine, X, toy, **options):
    defaults = {"constraint": "demographic_parity", "memberships": "observed", "random_state": 0}
    model = FairGBMClassifier(engine, **{**defaults, **options})
    return model.fit(X, toy.y, sensitive_features=toy.group)


def named(toy, names):
    """The same rows under plain names and under these."""
    return toy.frame, toy.frame.set_axis(names, axis=1)


def cases():
    every = [(kind, names) for kind in ("lightgbm", "xgboost") for names in NAMES.values()]
    return [*every, ("xgboost", QUOTED)]


@pytest.fixture(params=cases(), ids=lambda case: f"{case[0]} {case[1][0]}")
def case(request, toy):
    """An engine; rows under plain names; the same under others."""
    name, names = request.param
    return KINDS[name], *named(toy, names)


@pytest.mark.parametrize("iterate", ["best", "average", "last"])
def test_names_of_any_alphabet(case, toy, iterate, tmp_path):
    kind, plain, frame = case
    model = fit(kind.make(), frame, toy, iterate=iterate)
    expected = fit(kind.make(), plain, toy, iterate=iterate).predict_proba(plain)
    np.testing.assert_array_equal(model.predict_proba(frame), expected)
    assert model.feature_names_in_.tolist() == frame.columns.tolist()
    model.save(path := tmp_path / "model.json")
    for again in (load(path), pickle.loads(pickle.dumps(model))):
        np.testing.assert_array_equal(again.predict_proba(frame), expected)
        assert again.feature_names_in_.tolist() == frame.columns.tolist()
    model.export(path := tmp_path / f"own{kind.ending}", check_on=frame)
    np.testing.assert_allclose(kind.read(path, frame), expected[:, 1], atol=1e-6)
    for form in ("onnx", "treelite"):
        pytest.importorskip(form)
        model.export(tmp_path / form, form, check_on=frame)


def test_further_ways_to_a_model(case, toy, tmp_path):
    kind, plain, frame = case
    frozen = FrozenEstimator(kind.make().fit(frame, toy.y))
    model = fit(frozen, frame, toy)
    before = FrozenEstimator(kind.make().fit(plain, toy.y))
    expected = fit(before, plain, toy).predict_proba(plain)
    np.testing.assert_array_equal(model.predict_proba(frame), expected)
    model.save(path := tmp_path / "stage.json")
    np.testing.assert_array_equal(load(path).predict_proba(frame), expected)
    curves = [
        tradeoff_curve(
            kind.make(),
            X,
            toy.y,
            sensitive_features=toy.group,
            constraint="demographic_parity",
            tolerances=[0.05],
            holdout="cross",
            random_state=0,
        )
        for X in (plain, frame)
    ]
    expected, found = (
        [model.predict_proba(X) for model in curve.models]
        for curve, X in zip(curves, (plain, frame), strict=True)
    )
    np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize(
    ("engine", "name", "found"),
    [
        ("lightgbm", 'say "hi"', "'\"' in its name"),
        ("lightgbm", "a:b", "':' in its name"),
        ("lightgbm", "a\nb", r"'\\n' in its name"),
        ("lightgbm", "", "no name"),
        ("xgboost", "a\x01b", r"'\\x01' in its name"),
        ("xgboost", "a\\u00fc", r"'\\\\u' in its name"),
    ],
)
def test_names_that_an_engine_does_not_take(toy, engine, name, found):
    frame = named(toy, [name, "b", "c", "d"])[1]
    with pytest.raises(InvalidInputError, match=f"(?i){found}, and {engine} takes .*; rename it"):
        fit(KINDS[engine].make(), frame, toy)
