from __future__ import annotations

import json
import math
import warnings
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone

from fairboost import FairGBMClassifier, bound, load, parity
from fairboost._files import checksum
from fairboost.exceptions import ConstraintError, ModelFileError
from fairboost.fairness.proxies import PROXIES, Proxy
from fairboost.model.files import DECIDING, _decode_parameters, _encode_parameters
from tests.kinds import KINDS


class AtMostThreeTenths:
    """A constraint of the user's own: no group's share of positive decisions above 0.3."""

    rates = ("ppr",)
    by = None
    description = "AtMostThreeTenths()"

    def violations(self, rates):
        return rates.values[0] - 0.3

    def pullback(self, rates, multipliers):
        return multipliers[np.newaxis]


@pytest.fixture(scope="module")
def fair(engine, toy):
    def fit(X=None, y=None, *, groups=None, engine_options=None, **params):
        params = {"constraint": "demographic_parity", "multiplier_learning_rate": 2.0, **params}
        model = FairGBMClassifier(engine(**(engine_options or {})), random_state=0, **params)
        X, y = toy.X if X is None else X, toy.y if y is None else y
        return model.fit(X, y, sensitive_features=toy.group if groups is None else groups)

    return fit


@pytest.fixture
def path(tmp_path):
    return tmp_path / "model.json"


def round_trip(model, path):
    with warnings.catch_warnings(action="error"):
        model.save(path)
    return load(path)


def assert_same(loaded, model, X):
    np.testing.assert_array_equal(loaded.decision_function(X), model.decision_function(X))
    np.testing.assert_array_equal(loaded.predict_proba(X), model.predict_proba(X))
    np.testing.assert_array_equal(loaded.predict(X), model.predict(X))
    np.testing.assert_array_equal(loaded.classes_, model.classes_)
    assert loaded.classes_.dtype == model.classes_.dtype
    assert loaded.best_iteration_ == model.best_iteration_
    assert loaded.threshold_ == model.threshold_
    assert loaded.n_features_in_ == model.n_features_in_
    pd.testing.assert_series_equal(loaded.multipliers_, model.multipliers_)
    pd.testing.assert_frame_equal(loaded.trace_, model.trace_)


# What is saved is what is loaded


@pytest.mark.parametrize("name", ["x.pkl", "x.PICKLE", "x.joblib", "x.sav", "x.dill"])
def test_endings_of_pickles_are_refused(fair, tmp_path, name):
    with pytest.raises(ModelFileError, match=r"save writes JSON.*x\.json', or joblib\.dump"):
        fair().save(tmp_path / name)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("iterate", ["best", "last", "average", "randomized"])
def test_every_iterate(fair, toy, path, iterate):
    model = fair(iterate=iterate, operating_point=0.4)
    assert_same(round_trip(model, path), model, toy.X)


@pytest.mark.parametrize(
    "params",
    [
        {"holdout": 0.3},
        {"holdout": np.float64(0.3)},
        {"holdout": "cross", "confidence": 0.9},
        {"holdout": None, "confidence": np.float32(0.5)},
        {"multipliers": "paper", "multiplier_learning_rate": 0.5, "holdout": "auto"},
        {"multiplier_learning_rate": "auto", "proxy": "squared", "iterate": "best"},
    ],
)
def test_how_constraints_were_met(fair, toy, path, params):
    """And the loaded model trains as the saved one would."""
    model = fair(**params)
    loaded = round_trip(model, path)
    assert_same(loaded, model, toy.X)
    for name, value in model.get_params(deep=False).items():
        if name != "estimator":
            assert getattr(loaded, name) == value
    again = loaded.fit(toy.X, toy.y, sensitive_features=toy.group)
    np.testing.assert_array_equal(again.decision_function(toy.X), model.decision_function(toy.X))
    pd.testing.assert_frame_equal(again.trace_, model.trace_)


def test_a_model_with_a_set_of_its_own(fair, engine, toy, make_toy, path):
    """The set is no parameter and is not stored; what was read on it is in the trace."""
    other = make_toy(n=200, seed=1)
    model = FairGBMClassifier(engine(), constraint="demographic_parity")
    held_out = (other.X, other.y, other.group)
    model.fit(toy.X, toy.y, sensitive_features=toy.group, holdout_set=held_out)
    assert_same(round_trip(model, path), model, toy.X)


@pytest.mark.parametrize(
    "labels",
    [
        lambda y: y == 1,
        lambda y: y.astype(np.int8),
        lambda y: y * 2.0 - 1.0,
        lambda y: np.where(y, "ja", "né"),
        lambda y: np.where(y, "yes", "no").astype(object),
        lambda y: pd.Series(np.where(y, "yes", "no"), dtype="category"),
        lambda y: np.where(y, np.datetime64("2021-01-01"), np.datetime64("2020-12-31")),
        lambda y: pd.Series(pd.to_datetime(np.where(y, "2021-01-01 00:00", "2020-12-31 23:59"))),
        lambda y: np.where(y, np.timedelta64(3, "h"), np.timedelta64(2, "h")),
        lambda y: y.astype(np.longdouble),
    ],
)
@pytest.mark.filterwarnings("ignore:.* is taken for the positive label")
def test_labels_of_any_type(fair, toy, path, labels):
    model = fair(y=labels(toy.y))
    assert_same(round_trip(model, path), model, toy.X)


def test_names_categories_and_missing_values(fair, toy, path):
    model = fair(toy.frame, iterate="average")
    loaded = round_trip(model, path)
    assert_same(loaded, model, toy.frame)
    assert loaded.feature_names_in_.tolist() == toy.frame.columns.tolist()
    with pytest.raises(ValueError, match="Feature names must be in the same order"):
        loaded.predict(toy.frame[toy.frame.columns[::-1]])
    assert not hasattr(round_trip(fair(), path), "feature_names_in_")


@pytest.mark.parametrize(
    "constraint",
    [
        None,
        "equalized_odds",
        parity("fnr", 0.2),
        parity("fpr", 0.1, by="sex"),
        parity("fpr", 0.1, by=("sex", "region")),
        parity("fpr", 0.1, relative=True),
        bound("fpr", 0.25),
        bound("ppr", 0.5, group={"sex": "a"}),
        bound("ppr", 0.5, group={"sex": "a", "region": 1}),
        bound("ppr", 0.5, group={"region": np.int64(1)}),
        ["demographic_parity", bound("fpr", 0.3)],
        (parity("fnr"), parity("fnr")),
    ],
)
def test_constraints(fair, toy, path, constraint):
    groups = pd.DataFrame({"sex": toy.group, "region": np.arange(len(toy)) % 2})
    model = fair(constraint=constraint, groups=groups)
    loaded = round_trip(model, path)
    assert_same(loaded, model, toy.X)
    assert loaded.constraint == constraint
    refitted = loaded.fit(toy.X, toy.y, sensitive_features=groups)
    np.testing.assert_array_equal(refitted.multipliers_, model.multipliers_)


@pytest.mark.parametrize("wrap", [lambda c: c, lambda c: ["equalized_odds", c]])
def test_a_constraint_of_the_users_own(fair, toy, path, wrap):
    model = fair(constraint=wrap(AtMostThreeTenths()))
    loaded = round_trip(model, path)
    assert_same(loaded, model, toy.X)
    for groups in (toy.group, None):
        with pytest.raises(
            ConstraintError, match=r"AtMostThreeTenths\(\) was not stored"
        ) as caught:
            clone(loaded).set_params(constraint=_last(loaded.constraint)).fit(
                toy.X, toy.y, sensitive_features=groups
            )
        assert "set_params(constraint=...) before fitting again" in str(caught.value)
    loaded.set_params(constraint=model.constraint)
    refitted = loaded.fit(toy.X, toy.y, sensitive_features=toy.group)
    np.testing.assert_array_equal(refitted.multipliers_, model.multipliers_)


def test_a_group_that_text_cannot_hold(fair, toy, path):
    groups = pd.to_datetime(np.where(toy.group == "a", "2001-01-01", "2002-01-01"))
    constraint = bound("ppr", 0.3, group=pd.Timestamp("2001-01-01"))
    model = fair(constraint=constraint, groups=pd.Series(groups))
    loaded = round_trip(model, path)
    assert_same(loaded, model, toy.X)
    with pytest.raises(ConstraintError, match=r"2001-01-01 00:00:00.* was not stored"):
        loaded.fit(toy.X, toy.y, sensitive_features=groups)


@pytest.mark.parametrize(
    "options",
    [
        {"class_weight": {0: 1.0, 1: 2.5}},
        {"class_weight": {np.int64(0): 1.0, np.int64(1): np.float32(2.5)}},
        {"class_weight": "balanced"},
        {"monotone_constraints": np.array([1, 0, 0, 0])},
        {"monotone_constraints": (1, 0, 0, 0)},
        {"reg_alpha": np.float64(0.5), "num_leaves": np.int64(5)},
    ],
)
def test_engine_options(fair, toy, path, options):
    model = fair(engine_options=options)
    loaded = round_trip(model, path)
    assert_same(loaded, model, toy.X)
    found = {name: loaded.estimator.get_params()[name] for name in options}
    assert {k: np.asarray(v).tolist() for k, v in found.items()} == {
        k: np.asarray(v).tolist() for k, v in options.items()
    }
    refitted = clone(loaded).fit(toy.X, toy.y, sensitive_features=toy.group)
    np.testing.assert_array_equal(
        refitted.decision_function(toy.X), model.decision_function(toy.X)
    )


def test_the_default_engine(toy, path):
    model = FairGBMClassifier(constraint=None).fit(toy.X, toy.y)
    loaded = round_trip(model, path)
    assert loaded.estimator is None
    assert_same(loaded, model, toy.X)


def test_labels_as_keys_of_class_weight(fair, toy, path):
    y = np.where(toy.y, "yes", "no")
    model = fair(y=y, engine_options={"class_weight": {"no": 1.0, "yes": 3.0}})
    assert round_trip(model, path).estimator.class_weight == {"no": 1.0, "yes": 3.0}


def test_what_cannot_be_stored_is_said(fair, toy, path):
    steep = Proxy("steep", lambda u: PROXIES["sigmoid"].evaluate(3 * u))
    model = fair(proxy=steep, engine_options={"random_state": np.random.RandomState(0)})
    with pytest.warns(UserWarning) as caught:
        model.save(path)
    texts = [str(w.message) for w in caught]
    assert any("parameter proxy=Proxy(name='steep'" in t for t in texts)
    assert any("parameter random_state=RandomState" in t for t in texts)
    assert all("set it again before fitting the loaded model" in t for t in texts)
    loaded = load(path)
    assert loaded.proxy == "auto"
    assert_same(loaded, model, toy.X)


@pytest.mark.parametrize("proxy", ["hinge", PROXIES["hinge"]])
def test_proxies_by_name_and_by_value(fair, path, proxy):
    assert round_trip(fair(proxy=proxy), path).proxy == "hinge"


def test_a_loaded_model_is_saved_as_the_same_file(fair, path, tmp_path):
    round_trip(fair(), path).save(tmp_path / "again.json")
    assert (tmp_path / "again.json").read_text() == path.read_text()


def test_the_file_is_json_and_holds_no_code(fair, path):
    fair().save(path)
    document = json.loads(path.read_text(encoding="utf-8"))
    assert set(document) == {"format", "format_version", "sha256", "model"}
    assert document["model"]["booster"][0] == "tree"
    raw = path.read_bytes()
    assert raw.startswith(b"{")
    assert not {0x80, 0x00} & set(raw)  # a pickle of protocol 2 or later starts with byte 0x80


def test_loading_never_unpickles(fair, path, monkeypatch):
    fair().save(path)

    def forbidden(*args, **kwargs):
        raise AssertionError("unpickled")

    for name in ("load", "loads", "Unpickler"):
        monkeypatch.setattr(f"pickle.{name}", forbidden)
    load(path)


def test_a_file_of_an_earlier_fairboost():
    """Written before the modules had the names that they have now."""
    model = load(Path(__file__).with_name("model_of_version_2.json"))
    X = np.arange(40.0).reshape(20, 2)[:4] % 7
    positive = [0.6902631523518805, 0.7365644396097871, 0.7365644396097871, 0.6902631523518805]
    np.testing.assert_allclose(model.predict_proba(X)[:, 1], positive, rtol=1e-12)
    assert model.predict(X).tolist() == ["yes"] * 4
    assert model.constraint == ["demographic_parity", bound("ppr", 0.9, group={"sex": "a"})]
    assert model.multipliers_["ppr<=0.9 of a"] == 4.272991439697003
    assert model.estimator.class_weight == {"no": 1.0, "yes": 2.0}


# Files that are not sound


@pytest.fixture
def saved(fair, path):
    fair().save(path)
    return path


def rewrite(path, change):
    document = json.loads(path.read_text())
    change(document)
    path.write_text(json.dumps(document))


@pytest.mark.parametrize("share", [0.0, 0.01, 0.5, 0.999])
def test_truncated(saved, share):
    text = saved.read_text().rstrip()
    saved.write_text(text[: int(len(text) * share)])
    with pytest.raises(ModelFileError, match="or was cut short: it does not parse as JSON"):
        load(saved)


def test_edited_booster(saved):
    text = saved.read_text()
    saved.write_text(text.replace('"leaf_value=', '"leaf_value=9', 1))
    assert saved.read_text() != text
    with pytest.raises(ModelFileError, match="does not match its checksum: it was edited"):
        load(saved)


@pytest.mark.parametrize(
    "edit",
    [
        lambda d: d["model"].update(draw_seed=1),
        lambda d: d["model"]["parameters"].update(operating_point=0.1),
        lambda d: d["model"].pop("trace"),
        lambda d: d.update(sha256="0" * 64),
        lambda d: d.pop("sha256"),
        lambda d: d.update(model=[]),
        lambda d: d.pop("model"),
    ],
)
def test_edited(saved, edit):
    rewrite(saved, edit)
    with pytest.raises(ModelFileError, match="does not match its checksum"):
        load(saved)


def test_new_lines_and_order_of_keys_are_no_edit(saved, fair, toy):
    """The seal is on the content, so a file may pass through tools that lay JSON out anew."""
    document = json.loads(saved.read_text())
    shuffled = dict(sorted(document.items(), reverse=True))
    saved.write_text(json.dumps(shuffled, indent=4, sort_keys=False))
    np.testing.assert_array_equal(load(saved).predict_proba(toy.X), fair().predict_proba(toy.X))


@pytest.mark.parametrize("version", [7, 99, 0, "1", None, True, 2.0, "9" * 5_000])
def test_another_version(saved, version):
    rewrite(saved, lambda d: d.update(format_version=version))
    with pytest.raises(
        ModelFileError, match=rf"format version {version!r:.80}, this .* reads up to 6"
    ):
        load(saved)


@pytest.mark.parametrize("content", ["{}", "[1, 2]", '"text"', '{"format": "other"}', "null"])
def test_other_json(path, content):
    path.write_text(content)
    with pytest.raises(
        ModelFileError, match="expected a JSON object with format 'fairboost-model'"
    ):
        load(path)


@pytest.mark.parametrize("content", [b"not json", b"\x80\x04\x95pickle", b"\xff\xfe\x00"])
def test_not_json(path, content):
    path.write_bytes(content)
    with pytest.raises(ModelFileError, match="does not parse as JSON"):
        load(path)


def test_a_stock_lightgbm_file(fair, path):
    fair().export(path, "lightgbm")
    with pytest.raises(ModelFileError, match=r"read by lightgbm\.Booster\(model_file=\.\.\.\)"):
        load(path)


@pytest.mark.parametrize("kind", [ModelFileError, FileNotFoundError])
def test_no_file(path, kind):
    with pytest.raises(kind, match=r"there is no file .*model\.json'; name one that .*save wrote"):
        load(path)


@pytest.mark.parametrize("kind", [ModelFileError, IsADirectoryError])
def test_a_folder(saved, kind):
    with pytest.raises(kind, match=r"is a folder, expected a file; load .*model\.json'"):
        load(saved.parent)
    saved.unlink()
    with pytest.raises(kind, match=r"is a folder, expected a file that .*save wrote"):
        load(saved.parent)


def resealed(path, change):
    """Edit the content, and make all checksums good again."""

    def edit(document):
        change(document["model"])
        model = document["model"]
        if "self_test" in model:
            model["self_test"]["sha256"] = checksum({k: model.get(k) for k in DECIDING})
        document["sha256"] = checksum(model)

    rewrite(path, edit)


def doubled_leaves(content):
    at = next(k for k, line in enumerate(content["booster"]) if line.startswith("leaf_value="))
    old = content["booster"][at]
    content["booster"][at] = old.replace("=", "=1").replace("=1-", "=-1")
    grown = len(content["booster"][at]) - len(old)
    for k, line in enumerate(content["booster"]):
        if line.startswith("tree_sizes="):
            first, _, rest = line.partition("=")[2].partition(" ")
            content["booster"][k] = f"tree_sizes={int(first) + grown} {rest}"


@pytest.mark.parametrize(
    "change", [doubled_leaves, lambda c: c.update(feature_names=list("abcd"))]
)
def test_the_seal_made_good_again_is_not_enough(saved, change):
    resealed(saved, lambda content: None)
    load(saved)
    rewrite(saved, lambda d: change(d["model"]))
    rewrite(saved, lambda d: d.update(sha256=checksum(d["model"])))
    with pytest.raises(ModelFileError, match="it decides by other values than were saved"):
        load(saved)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (doubled_leaves, "does not decide as the saved model did.* scores differ by"),
        (lambda c: c["classes"]["values"].reverse(), "its labels are 1, 0, those of the saved"),
        (lambda c: c["classes"].update(positive=0), "its labels are 1, 0, those of the saved"),
        (lambda c: c["classes"].update(values=[1, 1]), r"its labels are \[1, 1\]"),
        (lambda c: c["classes"].update(dtype="<U400000000"), "values of type '<U400000000'"),
        (lambda c: c["classes"].update(dtype="V9"), "values of type 'V9'"),
        (lambda c: c.update(score_threshold=1.0), "its operating point is 0.5, its threshold 1.0"),
        (lambda c: c.update(draw_seed=3), "does not decide as the saved model did"),
        (lambda c: c.update(n_features=3_000_000), "max_feature_idx is not 2999999"),
        (lambda c: c.update(n_features="4"), "n_features is '4'"),
        (lambda c: c.update(n_base=100), "starts from trees"),
        (lambda c: c.update(feature_names=["a"]), "4 features, and names of 1"),
        (lambda c: c.update(feature_names=[1, 2, 3, 4]), "expected a text, found 1"),
        (lambda c: c["fitted_engine_parameters"].update(n_jobs=10**9), "1000000000 threads"),
        (lambda c: c["parameters"].update(more=1), "has the parameter 'more'"),
        (lambda c: c["parameters"].update(constraint={"all": 1}), "was edited or cannot be read"),
        (lambda c: c["trace"].update(round=[1]), "was edited or cannot be read"),
        (lambda c: c["fairness_report"].update(rates=[]), "was edited or cannot be read"),
        (lambda c: c["self_test"].update(rows=[[]]), "was edited or cannot be read"),
        (lambda c: c["self_test"].update(features=[9]), "was edited or cannot be read"),
        (lambda c: c.pop("self_test"), "self_test"),
        (lambda c: c.pop("booster"), "booster"),
        (lambda c: c.update(booster=3), "was edited or cannot be read"),
        (lambda c: c.update(engine="catboost"), "was trained by the engine 'catboost'"),
    ],
)
def test_what_is_sealed_again_is_looked_at_all_the_same(saved, change, message):
    resealed(saved, change)
    with pytest.raises(ModelFileError, match=message):
        load(saved)


@pytest.mark.parametrize("kind", KINDS)
def test_names_that_are_not_those_of_the_booster(toy, path, kind):
    """Rows with either of them would be refused, by scikit-learn or by the engine."""
    if kind == "xgboost":
        pytest.importorskip("xgboost")
    table = toy.frame.rename(columns={"income": "in come"})
    FairGBMClassifier(KINDS[kind].make(), constraint=None).fit(table, toy.y).save(path)
    resealed(path, lambda content: None)
    assert load(path).feature_names_in_[0] == "in come"
    resealed(path, lambda c: c["feature_names"].__setitem__(2, "other"))
    with pytest.raises(ModelFileError, match="names the feature 'other', its booster 'noise'"):
        load(path)


def test_an_older_version_does_not_pass_by_the_self_test(saved):
    resealed(saved, lambda c: c["classes"]["values"].reverse())
    rewrite(saved, lambda d: d.update(format_version=2))
    with pytest.raises(ModelFileError, match="its labels are 1, 0"):
        load(saved)


@pytest.mark.parametrize("text", ["[" * 100_000, '{"a":' * 100_000, "9" * 5_000, "NaN"])
def test_json_without_end(path, text):
    path.write_text(text)
    with pytest.raises(ModelFileError, match="does not parse as JSON"):
        load(path)
    path.write_text(f'{{"format": "fairboost-model", "format_version": 3, "model": {text}')
    with pytest.raises(ModelFileError, match="does not parse as JSON"):
        load(path)


def test_an_xgboost_model_trains_again_with_the_constraints_it_had(toy, path):
    """Which XGBoost takes as a tuple only."""
    xgboost = pytest.importorskip("xgboost")
    engine = xgboost.XGBClassifier(n_estimators=3, n_jobs=1, monotone_constraints=(1, 0, 0, 0))
    model = FairGBMClassifier(engine, constraint=None).fit(toy.X, toy.y)
    loaded = round_trip(model, path)
    assert loaded.estimator.monotone_constraints == (1, 0, 0, 0)
    refitted = clone(loaded).fit(toy.X, toy.y)
    np.testing.assert_array_equal(
        refitted.decision_function(toy.X), model.decision_function(toy.X)
    )


def test_an_xgboost_file_that_would_spoil_the_next(toy, path, tmp_path):
    """XGBoost keeps its verbosity for the process, and with a wrong one reads nothing more."""
    pytest.importorskip("xgboost")
    model = FairGBMClassifier(KINDS["xgboost"].make(), constraint=None).fit(toy.X, toy.y)
    model.save(path)
    model.save(tmp_path / "sound.json")
    resealed(path, lambda c: c["fitted_engine_parameters"].update(verbosity=2**31))
    with pytest.raises(ModelFileError, match="its booster is not sound: its verbosity"):
        load(path)
    assert_same(load(tmp_path / "sound.json"), model, toy.X)


def test_values_that_json_would_bend(path):
    """Tuples, integer keys and NumPy scalars come back as what they meant."""
    parameters = {
        "a": {1: 2.0},
        "b": np.float32(0.5),
        "c": (1, (0, -1), [None]),
        "d": {"x": [1], "y": (2,)},
        "e": None,
        "f": {"tuple": 1},
        "g": [math.inf, {"z": -math.inf}],
    }
    encoded = json.loads(json.dumps(_encode_parameters(parameters), allow_nan=False))
    assert _decode_parameters(encoded) == {**parameters, "b": 0.5}
    array = np.array([[1.5, math.nan]], np.float32)
    (again,) = _decode_parameters(_encode_parameters({"a": array})).values()
    np.testing.assert_array_equal(again, array)
    assert again.dtype == array.dtype


def _last(constraint):
    return constraint[-1] if isinstance(constraint, list) else constraint
