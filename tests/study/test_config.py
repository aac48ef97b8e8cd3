"""Configurations: what is read, and errors that name the line."""

from __future__ import annotations

from pathlib import Path

import pandas as pd
import pytest

from fairboost.exceptions import InvalidInputError
from fairboost.fairness.operating_points import at_fpr, at_positive_rate
from fairboost.search.spaces import SPACES, Choice, Range
from fairboost.study import METHODS, read_study, run_study
from fairboost.study.config_file import key_lines

STUDIES = sorted((Path(__file__).parents[2] / "studies").glob("*.toml"))


def line_of(path, text):
    lines = path.read_text().splitlines()
    return next(k for k, line in enumerate(lines, 1) if text in line)


def refused(path, text, message):
    """The error names the file, the line of some text, and what is wrong."""
    with pytest.raises(InvalidInputError) as raised:
        run_study(path, path.parent / "out")
    assert str(raised.value).startswith(f"{path}, line {line_of(path, text)}: ")
    assert message in str(raised.value)


def test_what_a_file_says(write):
    config = read_study(write())
    assert config.name == "small" and config.data.rows == 1500
    assert config.engine == {"n_estimators": Range(5, 15, log=True), "num_leaves": Range(4, 8)}
    assert config.metrics.constraint == "equal_opportunity"
    assert [m.name for m in config.methods] == ["plain"]
    assert config.protocol.alphas == (0.5, 0.75, 0.95)
    assert config.split.shares == (0.6, 0.2, 0.2)


def test_a_named_space_and_changes_to_it(write):
    path = write(
        ("n_estimators = { low = 5, high = 15, log = true }", 'space = "paper"'),
        ("num_leaves = { low = 4, high = 8 }", 'boosting_type = ["gbdt", "goss"]'),
    )
    engine = read_study(path).engine
    assert engine["n_estimators"] == Range(250, 5000, log=True)
    assert engine["boosting_type"] == Choice(("gbdt", "goss"))
    assert set(engine) == set(SPACES["paper"])


@pytest.mark.parametrize(
    ("threshold", "expected"),
    [("{ at_fpr = 0.05 }", at_fpr(0.05)), ("{ at_positive_rate = 0.1 }", at_positive_rate(0.1)),
     ("0.3", 0.3)],
)  # fmt: skip
def test_thresholds(write, threshold, expected):
    path = write(('rate = "fnr"', f'rate = "fnr"\nthreshold = {threshold}'))
    assert read_study(path).metrics.threshold == expected


@pytest.mark.parametrize(
    ("rate", "constraint"),
    [('"tpr"', "equal_opportunity"), ('"fpr"', "predictive_equality"),
     ('"pnr"', "demographic_parity"), ('["fnr", "tnr"]', "equalized_odds")],
)  # fmt: skip
def test_rates_ask_for_their_constraint(write, rate, constraint):
    path = write(('rate = "fnr"', f"rate = {rate}"))
    assert read_study(path).metrics.constraint == constraint


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("tolerance = 0.02", "tolernce = 0.02", "unknown key 'tolernce' in [metrics]; did you "
         "mean 'tolerance'?"),
        ("[methods.plain]", "[methods.plane]", "unknown method 'plane'; expected"),
        ("trials = 3", "trials = 0", "trials must be at least 1, found 0"),
        ("trials = 3", 'trials = "3"', "trials must be a whole number, found '3'"),
        ("trials = 3", 'sampler = "grid"', "unknown sampler 'grid'"),
        ("trials = 3", "seeds = [1, 1]", "seeds must differ"),
        ("trials = 3", "seeds = [-1]", "seeds must be whole numbers from 0 on"),
        ('features = ["aware"]', 'features = ["sighted"]', "features must be"),
        ('rate = "fnr"', 'rate = "fnrr"', "unknown rate 'fnrr'"),
        ('rate = "fnr"', 'rate = ["fnr", "ppr"]', "no constraint holds the rates fnr, ppr alike"),
        ('rate = "fnr"', 'performance = "acuracy"', "unknown performance 'acuracy'; did you mean "
         "'accuracy'?"),
        ('rate = "fnr"', "threshold = 1.5", "threshold must lie in (0, 1), found 1.5"),
        ('rate = "fnr"', "threshold = { at_fnr = 0.1 }", "threshold must be a probability or one"),
        ('rate = "fnr"', "threshold = { at_fpr = 5 }", "must have a target in (0, 1), found 5"),
        ("tolerance = 0.02", "tolerance = 1", "tolerance must lie in [0, 1), found 1"),
        ("num_leaves = { low = 4, high = 8 }", "num_leaves = { low = 8, high = 4 }",
         "num_leaves: a range goes from a low number to a higher one"),
        ("num_leaves = { low = 4, high = 8 }", "reg_alpha = { low = 0, high = 1, log = true }",
         "a logarithmic range starts above 0"),
        ("num_leaves = { low = 4, high = 8 }", "num_leaves = { from = 4 }",
         "a range has the keys low and high"),
        ("num_leaves = { low = 4, high = 8 }", "num_leaves = []", "at least one value"),
        ("models = 2", "alphas = [2]", "alphas must lie in [0, 1], found [2]"),
        ("models = 2", "reference = [0]", "reference must be performance and fairness"),
        ('generator = "loans"', 'generator = "lones"', "unknown generator 'lones'"),
        ('generator = "loans"', 'file = "nowhere.csv"', "there is no file"),
        ('generator = "loans"', 'table = "no_such"', "unknown table 'no_such'"),
        ('generator = "loans"', 'generator = "loans"\nsensitive = "race"',
         "'race' is no sensitive column of this data"),
        ('generator = "loans"', 'generator = "loans"\ndrop = ["colour"]',
         "there is no column 'colour'"),
        ("[methods.plain]", '[methods.mine]\nfunction = "nowhere"',
         'function must be "module:function"'),
        ("[methods.plain]", '[methods.mine]\nfunction = "no_such_module:f"',
         "cannot import 'f' from 'no_such_module'"),
        ("[methods.plain]", '[methods.mine]\nfunction = "math:pi"', "is not a function"),
    ],
    ids=str,
)  # fmt: skip
def test_errors_name_the_line(write, old, new, message):
    path = write((old, new))
    where = new.splitlines()[-1] if "\n" in new else new
    if "column of this data" in message:
        where = "sensitive"
    refused(path, where, message)


def test_a_table_that_is_not_closed(write):
    path = write(("rows = 1500", "rows = "))
    with pytest.raises(InvalidInputError, match=r"is not TOML: .*line 5"):
        read_study(path)


def test_no_such_file(tmp_path):
    with pytest.raises(InvalidInputError, match="cannot read the configuration"):
        read_study(tmp_path / "none.toml")


def test_an_unknown_table(write):
    path = write(("[protocol]", "[protocl]"))
    refused(path, "[protocl]", "unknown key 'protocl' in the file; did you mean 'protocol'?")


def test_no_methods(write):
    with pytest.raises(InvalidInputError, match="no methods; add a table"):
        read_study(write(("[methods.plain]", "")))


def test_two_sources(write):
    path = write(('generator = "loans"', 'generator = "loans"\ntable = "adult"'))
    refused(path, "[data]", "needs one of file, table and generator, found table and generator")


def csv(tmp_path, frame):
    frame.to_csv(tmp_path / "rows.csv", index=False)
    return ('generator = "loans"\nrows = 1500', 'file = "rows.csv"\nlabel = "y"\nsensitive = "g"')


@pytest.fixture
def frame():
    n = 300
    return pd.DataFrame(
        {"x": range(n), "city": ["a", "b", "c"] * (n // 3), "g": ["u", "v"] * (n // 2),
         "day": pd.date_range("2024-01-01", periods=n).astype(str),
         "y": [1, 0, 0, 1] * (n // 4)}
    )  # fmt: skip


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ('label = "y"', 'label = "z"', "there is no column 'z'; the columns are x, city, g"),
        ('sensitive = "g"', 'sensitive = "h"', "there is no column 'h'"),
        ('sensitive = "g"', 'sensitive = "g"\ncategorical = ["q"]', "there is no column 'q'"),
        ('label = "y"', 'label = "city"', "must have two values, found 3 ('a', 'b', 'c')"),
        ('label = "y"', 'label = "y"\npositive = "yes"', "the label 'y' is never 'yes'"),
    ],
)
def test_columns_of_a_file(write, tmp_path, frame, old, new, message):
    source = csv(tmp_path, frame)
    path = write(source, (old, new))
    refused(path, new.splitlines()[-1], message)


TEMPORAL = '[split]\nkind = "temporal"\ncolumn = "day"\nvalidation_from = 2024-07-01\n'


def test_an_empty_split(write, tmp_path, frame):
    source = csv(tmp_path, frame)
    path = write(source, ("[metrics]", TEMPORAL + "test_from = 2030-01-01\n[metrics]"))
    refused(path, "validation_from", "there are no test rows; move the split")


def test_a_split_by_a_column_that_is_not_there(write, tmp_path, frame):
    source = csv(tmp_path, frame)
    text = TEMPORAL.replace('"day"', '"dy"') + "test_from = 2024-09-01\n[metrics]"
    refused(write(source, ("[metrics]", text)), 'column = "dy"', "there is no column 'dy'")


def test_a_group_that_no_part_can_measure(write, tmp_path, frame):
    frame.loc[frame["g"] == "v", "y"] = 0  # no positive row, so no false negative rate
    source = csv(tmp_path, frame)
    path = write(source, ("[metrics]", "[split]\nshares = [0.5, 0.3, 0.2]\n[metrics]"))
    refused(path, "shares", "row of group 'v' counts towards the false negative rate")


def test_bad_shares(write):
    path = write(("[metrics]", "[split]\nshares = [0.6, 0.6, 0.2]\n[metrics]"))
    refused(path, "shares", "three positive numbers that add up to 1")


def test_storage_that_cannot_be_opened(write):
    path = write(("trials = 3", 'trials = 3\nstorage = "nosuch://x"'))
    refused(path, "storage", "cannot open the storage 'nosuch://x'")


def test_an_output_folder_that_is_a_file(write):
    path = write()
    with pytest.raises(InvalidInputError, match="is a file; name a folder"):
        run_study(path, path)


def test_lines_of_keys():
    text = '# a\nname = "x"\n\n[data]\n  rows = 3\n[methods."a b"]\nfunction = "f"\n'
    found = key_lines(text)
    assert found["name"] == 2 and found["data.rows"] == 5
    assert found["methods.a b.function"] == 7


@pytest.mark.parametrize("path", STUDIES, ids=lambda p: p.stem)
def test_the_studies_that_come_along_can_be_read(path):
    config = read_study(path)
    assert {m.name for m in config.methods} <= set(METHODS)
    assert {"fairboost", "fair_stage"} & {m.name for m in config.methods}


def test_there_are_studies():
    names = {path.stem for path in STUDIES}
    cases = {n.removesuffix("_small") for n in names if n.endswith("_small")}
    assert len(cases) == 7 and cases <= names
