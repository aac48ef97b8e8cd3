"""A stage on any model in files: saved without its base, and exported as a stock booster."""

from __future__ import annotations

import hashlib
import json
from types import SimpleNamespace

import lightgbm
import numpy as np
import pandas as pd
import pytest
import skops.io
import xgboost
from lightgbm import LGBMClassifier
from scipy.sparse import csr_matrix
from scipy.special import expit, logit
from sklearn.compose import make_column_transformer
from sklearn.ensemble import RandomForestClassifier
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder
from sklearn.svm import LinearSVC
from xgboost import XGBClassifier

from fairboost import FairGBMClassifier, load
from fairboost.exceptions import ExportError, InvalidInputError, ModelFileError
from fairboost.model import probe

pytestmark = pytest.mark.filterwarnings("ignore::fairboost.exceptions.FairnessWarning")

SMALL = {"n_estimators": 5, "n_jobs": 1, "random_state": 0}
STAGES = {"lightgbm": LGBMClassifier(**SMALL, verbose=-1), "xgboost": XGBClassifier(**SMALL)}


def framed(toy):
    """Rows with text, a category and gaps in it."""
    frame = toy.frame[["district", "income", "debt"]].copy()
    frame["income"] = frame["income"].fillna(0.0)
    frame["debt"] = frame["debt"].cat.add_categories("none").fillna("none")
    frame["city"] = np.where(toy.X[:, 2] > 0, "Porto", "Faro")
    frame["count"] = np.arange(len(frame)) % 7
    return frame


def text_base():
    encode = make_column_transformer(
        (OneHotEncoder(handle_unknown="ignore"), ["city", "debt"]), remainder="passthrough"
    )
    return make_pipeline(encode, LogisticRegression())


@pytest.fixture(scope="module")
def rows(make_toy):
    return SimpleNamespace(seen=make_toy(600, 1), new=make_toy(600, 2), test=make_toy(300, 3))


CASES = {
    "forest": (lambda: RandomForestClassifier(10, random_state=0), lambda toy: toy.X, {}),
    "support vectors": (LinearSVC, lambda toy: toy.X, {}),
    "pipeline": (text_base, framed, {"stage_features": ["district", "debt"]}),
    "columns": (LogisticRegression, lambda toy: toy.X, {"stage_features": [3, 0]}),
    "sparse": (LogisticRegression, lambda toy: csr_matrix(toy.X), {}),
    "nothing asked": (LogisticRegression, lambda toy: toy.X, {"constraint": None}),
    "smaller label": (LinearSVC, lambda toy: toy.X, {"pos_label": 0}),
}


def fitted(name, rows, **further):
    make, read, asked = CASES[name]
    base = make().fit(read(rows.seen), rows.seen.y)
    given = {"constraint": "demographic_parity", "iterate": "last", "memberships": "observed"}
    model = FairGBMClassifier(FrozenEstimator(base), **{**given, **asked, **further})
    model.fit(read(rows.new), rows.new.y, sensitive_features=rows.new.group)
    return model, base, read(rows.test)


@pytest.fixture(params=STAGES)
def stage(request):
    return STAGES[request.param]


@pytest.mark.parametrize("name", CASES)
def test_a_model_comes_back_with_its_base(rows, tmp_path, name, stage):
    further = {"enable_categorical": True} if isinstance(stage, XGBClassifier) else {}
    model, base, X = fitted(name, rows, stage=stage.set_params(**further))
    model.save(tmp_path / "model.json")
    again = load(tmp_path / "model.json", base=base)
    np.testing.assert_array_equal(again.predict_proba(X), model.predict_proba(X))
    np.testing.assert_array_equal(again.predict(X), model.predict(X))
    assert again.base_ is base
    assert again.n_features_in_ == model.n_features_in_
    assert str(again.fairness_report_) == str(model.fairness_report_)
    assert str(again.stage.get_params()) == str(model.stage.get_params())
    document = json.loads((tmp_path / "model.json").read_text())
    assert document["format_version"] == 6
    again.save(tmp_path / "again.json")
    assert (tmp_path / "again.json").read_text() == (tmp_path / "model.json").read_text()
    refitted = again.fit(CASES[name][1](rows.new), rows.new.y, sensitive_features=rows.new.group)
    np.testing.assert_array_equal(refitted.predict_proba(X), model.predict_proba(X))


def test_scores_alone_need_no_base(rows, tmp_path):
    _, base, X = fitted("forest", rows)
    score = base.predict_proba(rows.new.X)[:, 1]
    model = FairGBMClassifier(constraint="demographic_parity", iterate="last")
    model.fit(rows.new.X, rows.new.y, sensitive_features=rows.new.group, base_score=score)
    model.save(tmp_path / "model.json")
    again, further = load(tmp_path / "model.json"), base.predict_proba(X)[:, 1]
    np.testing.assert_array_equal(
        again.predict_proba(X, base_score=further), model.predict_proba(X, base_score=further)
    )
    with pytest.raises(ModelFileError, match="stands on scores that predict is given; leave base"):
        load(tmp_path / "model.json", base=base)


def test_a_base_that_is_missing_or_another_one(rows, engine, tmp_path):
    model, base, _ = fitted("forest", rows)
    path = tmp_path / "model.json"
    model.save(path)
    with pytest.raises(ModelFileError, match=r"stage on a 'sklearn.ensemble._forest.RandomForest"):
        load(path)
    other = RandomForestClassifier(10, random_state=1).fit(rows.seen.X, rows.seen.y)
    with pytest.raises(
        ModelFileError,
        match=r"^\S+model.json: base= is another model than the one that the stage was trained "
        r"on, a .*: log-odds differ by up to [\d.]+ on made-up rows. Pass the model that was froz",
    ) as raised:
        load(path, base=other)
    assert "edited" not in str(raised.value)
    assert "install" not in str(raised.value)
    for wrong, found in (("forest.pkl", "text"), (tmp_path, ".*Path"), (3, "int")):
        with pytest.raises(InvalidInputError, match=f"must be a fitted model, found {found};"):
            load(path, base=wrong)
    narrow = RandomForestClassifier(10, random_state=1).fit(rows.seen.X[:, :2], rows.seen.y)
    with pytest.raises(ModelFileError, match="does not score the made-up rows of the file"):
        load(path, base=FrozenEstimator(narrow))
    plain = FairGBMClassifier(engine(), constraint=None).fit(rows.new.X, rows.new.y)
    plain.save(path)
    with pytest.raises(ModelFileError, match="stands on no base model; leave base out"):
        load(path, base=base)


def test_an_edited_clip_is_found_out(rows, tmp_path):
    from fairboost._files import checksum

    model, base, _ = fitted("forest", rows)
    path = tmp_path / "model.json"
    model.save(path)
    document = json.loads(path.read_text())
    document["model"]["base"]["clip"][0] = 0.2
    document["sha256"] = checksum(document["model"])
    path.write_text(json.dumps(document))
    with pytest.raises(ModelFileError, match="was edited or cannot be read here"):
        load(path, base=base)


def test_a_table_whose_rows_cannot_be_written(rows, tmp_path):
    frame = framed(rows.new)
    frame["when"] = pd.Timestamp("2024-01-01")
    base = make_pipeline(
        make_column_transformer(("passthrough", ["income", "district"])), LogisticRegression()
    ).fit(frame, rows.new.y)
    model = FairGBMClassifier(
        FrozenEstimator(base), constraint="demographic_parity", stage_features=["district"]
    ).fit(frame, rows.new.y, sensitive_features=rows.new.group)
    with pytest.raises(ModelFileError, match="made-up rows, and those of this table cannot"):
        model.save(tmp_path / "model.json")
    assert not list(tmp_path.iterdir())


# Export


def by_note(note, path, base, X, table):
    """Probabilities as the note says, by stock packages alone."""
    about = note["base"]
    if about["kind"] == "probabilities":
        q = np.clip(base.predict_proba(X)[:, about["column"]], *about["clip"])
        b = logit(q)
    else:
        b = about["slope"] * about["sign"] * base.decision_function(X) + about["shift"]
    if path.suffix == ".json":
        rows = xgboost.DMatrix(table, enable_categorical=True)
        s = xgboost.Booster(model_file=path).predict(rows, output_margin=True)
    else:
        s = lightgbm.Booster(model_file=path).predict(table, raw_score=True)
    return expit(b + s)


@pytest.mark.parametrize("name", CASES)
def test_the_note_says_how_to_add_the_stage(rows, tmp_path, name, stage):
    further = {"enable_categorical": True} if isinstance(stage, XGBClassifier) else {}
    model, base, X = fitted(name, rows, stage=stage.set_params(**further))
    ending = ".txt" if isinstance(stage, LGBMClassifier) else ".json"
    path = tmp_path / f"stage{ending}"
    model.export(path)
    note = json.loads((tmp_path / f"stage{ending}.base.json").read_text())
    columns = note["stage_features"]
    table = X[columns] if isinstance(X, pd.DataFrame) else X[:, columns]
    positive = by_note(note, path, base, X, table)
    expected = model.predict_proba(X)[:, 0 if model.pos_label_ == 0 else 1]
    np.testing.assert_allclose(positive, expected, atol=1e-6)
    decided = np.where(
        positive >= note["threshold"], note["labels"]["positive"], note["labels"]["negative"]
    )
    np.testing.assert_array_equal(decided, model.predict(X).astype(str))
    assert note["stage_sha256"] == hashlib.sha256(path.read_bytes()).hexdigest()
    assert note["stage_file"] == path.name
    assert note["engine"] == {".txt": "lightgbm", ".json": "xgboost"}[ending]


# Made-up rows


def test_made_up_rows_are_no_ones(rows):
    frame = framed(rows.new)
    frame["name"] = [f"person {k}" for k in range(len(frame))]
    drawn = probe.draw(frame)
    assert drawn.dtypes.equals(frame.dtypes)
    assert len(drawn["name"].unique()) == 1  # of values that no five rows share, one
    assert not pd.concat([frame, drawn]).duplicated().any()
    pd.testing.assert_frame_equal(probe.decode(probe.encode(drawn)), drawn)
    # The same every time.
    pd.testing.assert_frame_equal(probe.draw(frame), drawn)


def test_made_up_rows_of_arrays(rows):
    for table in (rows.new.X, rows.new.X.astype(np.float32), (rows.new.X * 10).astype(np.int64)):
        drawn = probe.draw(table)
        assert drawn.dtype == table.dtype
        np.testing.assert_array_equal(probe.decode(probe.encode(drawn)), drawn)
    gaps = rows.new.X.copy()
    gaps[:, 1] = np.nan
    np.testing.assert_array_equal(probe.decode(probe.encode(probe.draw(gaps))), probe.draw(gaps))


def test_wide_tables_have_fewer_rows():
    wide = csr_matrix((np.ones(3), ([0, 1, 2], [0, 5, 9_999])), shape=(3, 10_000))
    assert probe.draw(wide).shape == (1, 10_000)
    assert probe.draw(csr_matrix((3, 20_000))) is None


@pytest.mark.parametrize("form", ["onnx", "treelite", "c", "xgboost"])
def test_decisions_of_a_stage_alone_are_not_exported(rows, tmp_path, form):
    """A file without the base model would decide by the stage alone."""
    model, _, _ = fitted("columns", rows)
    with pytest.raises(ExportError, match="base model that the file would not hold"):
        model.export(tmp_path / "model", format=form)
    with pytest.raises(ExportError, match=r"cannot be exported to \.onnx"):
        model.export(tmp_path / "model.onnx")
    assert not list(tmp_path.iterdir())


def test_skops_keeps_the_base_beside_the_text(rows, tmp_path):
    model, _, table = fitted("columns", rows)
    path = tmp_path / "model.skops"
    skops.io.dump(model, path)
    known = skops.io.get_untrusted_types(file=path)
    again = skops.io.load(path, trusted=known)
    np.testing.assert_array_equal(again.predict_proba(table), model.predict_proba(table))
