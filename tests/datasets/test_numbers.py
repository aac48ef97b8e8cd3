import numpy as np
import pandas as pd
import pytest

from fairboost.datasets.files import FOLDER_VARIABLE, find_file
from fairboost.datasets.numbers import NUMBER_SPECS, load_numbers
from fairboost.exceptions import InvalidInputError

pytest.importorskip("pyarrow")


def write_image(folder, name, n=40):
    """Write a small file with the columns of a real one."""
    spec, rng = NUMBER_SPECS[name], np.random.default_rng(0)
    named = [spec.target, *spec.sensitive, *spec.categorical, *spec.dropped, "other"]
    frame = pd.DataFrame({c: rng.integers(0, 5, n) for c in dict.fromkeys(named)})
    if spec.exposure is not None:
        frame[spec.exposure] = rng.uniform(0.1, 1.0, n)
    frame[spec.sensitive[0]] = np.where(np.arange(n) % 2, "b", "a")
    frame.to_parquet(folder / f"{name}.parquet")
    return frame


@pytest.mark.parametrize("name", NUMBER_SPECS)
def test_target_groups_features_and_exposure(tmp_path, name):
    frame, spec = write_image(tmp_path, name), NUMBER_SPECS[name]
    table = load_numbers(name, folder=tmp_path)
    assert table.name == name
    np.testing.assert_array_equal(table.y, frame[spec.target])
    assert table.y.dtype == np.float64
    pd.testing.assert_frame_equal(table.sensitive, frame[list(spec.sensitive)])
    assert not {spec.target, *spec.dropped, spec.exposure} & set(table.X)
    assert {"other", *spec.sensitive} <= set(table.X)
    for column in (*spec.categorical, spec.sensitive[0]):
        assert table.X[column].dtype == "category"
    if spec.exposure is None:
        assert table.exposure is None
    else:
        np.testing.assert_array_equal(table.exposure, frame[spec.exposure])


@pytest.mark.parametrize("name", NUMBER_SPECS)
def test_unaware(tmp_path, name):
    write_image(tmp_path, name)
    aware, blind = (load_numbers(name, folder=tmp_path, aware=a) for a in (True, False))
    assert set(aware.X) - set(blind.X) == set(NUMBER_SPECS[name].sensitive)
    assert list(blind.sensitive) == list(aware.sensitive)


def test_unknown_name_lists_the_known():
    with pytest.raises(InvalidInputError, match=r"unknown table 'adult'.*law_school_gpa"):
        load_numbers("adult")


def test_missing_file_names_those_present(tmp_path):
    write_image(tmp_path, "law_school_gpa")
    with pytest.raises(InvalidInputError, match=r"no file 'motor_.*holds law_school_gpa"):
        load_numbers("motor_policies_2009", folder=tmp_path)


def test_other_file_of_that_name(tmp_path):
    frame = pd.DataFrame({"ugpa": [1.0], "race": ["a"], "bar1": ["P"]})
    frame.to_parquet(tmp_path / "law_school_gpa.parquet")
    with pytest.raises(InvalidInputError, match="lacks the columns gender; it is not the file"):
        load_numbers("law_school_gpa", folder=tmp_path)


REAL = {
    # rows, mean of the target, features, groups of each sensitive column
    "law_school_gpa": (20_800, 3.2265, 10, {"race": 2}),
    "acs_mobility_2018": (248_375, 28_557.1091, 19, {"SEX": 2, "RAC1P": 9}),
    "motor_policies_2009": (100_021, 0.1474, 14, {"Gender": 2}),
}


@pytest.mark.parametrize("name", NUMBER_SPECS)
def test_real_file(name):
    try:
        find_file(name, None, NUMBER_SPECS)
    except InvalidInputError:
        pytest.skip(f"{name}.parquet is not in {FOLDER_VARIABLE} nor in ../shared/data")
    rows, mean, features, groups = REAL[name]
    table = load_numbers(name)
    assert table.X.shape == (rows, features)
    assert abs(table.y.mean() - mean) < 0.0001
    assert {c: table.sensitive[c].nunique() for c in table.sensitive} == groups
    assert {"category" if t == "category" else t.kind for t in table.X.dtypes} <= {
        "category", "i", "f",
    }  # fmt: skip
