"""From the files named on the command line to the rows to train, hold out and test on."""

from __future__ import annotations

import argparse
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa

from fairboost._typing import BoolArray, FloatArray, IntArray
from fairboost.cli.arguments import table_of
from fairboost.cli.console import Console
from fairboost.exceptions import InvalidInputError
from fairboost.report.evidence import DataFile
from fairboost.tabular.files import TableFile
from fairboost.tabular.schema import Roles, TableSchema, infer_schema, read_exposures


@dataclass(frozen=True)
class TableRows:
    """Rows as the library takes them.

    Parameters
    ----------
    X : DataFrame
        Features.
    y : (n,) int8, float64, or of the type of classes
        Labels, 0 and 1, numbers, or one of several classes.
    sensitive : DataFrame
        The sensitive columns, as text.
    weight, exposure : (n,) float64 or None
        Weights and exposures.
    file : str
        Name of the file that they come from.
    places : (n,) int64
        Where they are in that file, from 1 on.
    """

    X: pd.DataFrame
    y: IntArray | FloatArray
    sensitive: pd.DataFrame
    weight: FloatArray | None
    exposure: FloatArray | None
    file: str
    places: IntArray

    def __len__(self) -> int:
        return len(self.y)

    def take(self, rows: BoolArray) -> TableRows:
        """Some of the rows."""
        return replace(
            self,
            X=self.X[rows].reset_index(drop=True),
            y=self.y[rows],
            sensitive=self.sensitive[rows].reset_index(drop=True),
            weight=None if self.weight is None else self.weight[rows],
            exposure=None if self.exposure is None else self.exposure[rows],
            places=self.places[rows],
        )

    def measures(self) -> dict[str, Any]:
        """Weights and exposures by the names that the library has for them."""
        exposed = {} if self.exposure is None else {"exposure": self.exposure}
        return {"sample_weight": self.weight, **exposed}


@dataclass(frozen=True)
class TrainingRows:
    """All that training needs.

    Parameters
    ----------
    schema : TableSchema
        What the columns are.
    train, test : TableRows
        Those to train on (and to hold some out of), and to test on.
    holdout : TableRows or None
        Those of a file of its own to read rates on.
    files : tuple of DataFile
        Where they came from.
    """

    schema: TableSchema
    train: TableRows
    test: TableRows
    holdout: TableRows | None
    files: tuple[DataFile, ...]

    def fit_options(self) -> dict[str, Any]:
        """What ``fit`` takes beside features and labels."""
        held = self.holdout
        given = None
        if held is not None:
            given = (held.X, held.y, held.sensitive, *held.measures().values())
        return {
            "sensitive_features": self.train.sensitive,
            "holdout_set": given,
            **self.train.measures(),
        }


def read_training_rows(options: argparse.Namespace, console: Console) -> TrainingRows:
    """Read the files, say what the columns are, and split off the test rows."""
    roles = Roles(
        label=options.label,
        sensitive=tuple(options.sensitive),
        positive=options.positive,
        weight=options.weight,
        aware=options.aware,
        categorical=tuple(options.categorical),
        dropped=tuple(options.drop),
        task=options.task,
        exposure=options.exposure,
        coded=options.engine == "xgboost",
    )
    paths = {"training": options.data, "test": options.test, "held out": options.holdout}
    files = {role: table_of(options, path) for role, path in paths.items() if path is not None}
    files["training"].require(roles.columns(), "named in the command")
    table = files["training"].read(roles.text_columns())
    schema, remarks = infer_schema(table, roles, tuple(options.missing))
    for remark in remarks:
        console.remark(f"Note: {remark}.")
    if not schema.aware:
        console.remark(
            f"Note: the model does not see {' and '.join(schema.sensitive)}; --aware would let it."
        )
    rows = {"training": _rows(table, schema, options.data, console)}
    del table
    more = {role: file for role, file in files.items() if role != "training"}
    rows |= {role: _read_more(file, schema, console) for role, file in more.items()}
    counts = {role: len(found) for role, found in rows.items()}
    if "test" not in rows:
        tested = draw_test_rows(rows["training"], options.test_share, options.seed)
        rows["test"] = rows["training"].take(tested)
        rows["training"] = rows["training"].take(~tested)
    _check_enough(rows, schema)
    roles_of = {"training": "training" if "test" in files else "training and test"}
    return TrainingRows(
        schema,
        rows["training"],
        rows["test"],
        rows.get("held out"),
        tuple(
            DataFile(roles_of.get(role, role), file.path.name, file.sha256(), counts[role])
            for role, file in files.items()
        ),
    )


def _check_enough(rows: dict[str, TableRows], schema: TableSchema) -> None:
    """Refuse to train or test where there is nothing to learn, or to judge by."""
    for role in ("training", "test"):
        found = f"{len(rows[role]):,} of the rows are {role} rows"
        remedy = "pass more rows, or another --test-share"
        for k, name in enumerate(schema.classes or ()):
            if not (rows[role].y == schema.label_values[k]).any():
                raise InvalidInputError(
                    f"{found}, and none of these has the label {name!r}; {remedy}"
                )
        if len(rows[role]) < 2:
            raise InvalidInputError(f"{found}, and it takes two at least; {remedy}")


def draw_test_rows(rows: TableRows, share: float, seed: int) -> BoolArray:
    """Draw the same share of every group, and label, if it is no number; returns which rows."""
    cells = rows.sensitive.fillna("")
    if rows.y.dtype.kind != "f":
        cells = cells.assign(**{"label of the row": rows.y})
    cell = cells.groupby(list(cells.columns), sort=False).ngroup().to_numpy()
    shuffled = np.random.default_rng(seed).permutation(len(rows))
    rank = np.empty(len(rows), np.int64)
    rank[shuffled] = pd.Series(cell[shuffled]).groupby(cell[shuffled]).cumcount().to_numpy()
    size = np.bincount(cell)[cell]
    return np.asarray(rank < np.rint(share * size))


def _read_more(file: TableFile, schema: TableSchema, console: Console) -> TableRows:
    """Rows of another file, read as the training rows were."""
    weight = dict.fromkeys(filter(None, [schema.weight, schema.exposure]), pa.float64())
    text = dict.fromkeys([schema.label, *schema.sensitive], pa.string())
    table = pa.Table.from_batches(list(file.batches({**schema.csv_types(), **weight, **text})))
    return _rows(table, schema, file.path, console)


def _rows(table: Any, schema: TableSchema, path: Path, console: Console) -> TableRows:
    labels, known = schema.labels(table, str(path))
    if not known.all():
        left_out = int((~known).sum())
        console.remark(
            f"Note: {left_out:,} of {len(known):,} rows of {path.name} are left out, since their "
            f"label {schema.label!r} is missing."
        )
        if left_out == len(known):
            raise InvalidInputError(f"the label {schema.label!r} is missing in every row")
        table, labels = table.filter(pa.array(known)), labels[known]
    sensitive = schema.groups(table)
    for name in schema.sensitive:
        if missing := int(sensitive[name].isna().sum()):
            console.remark(
                f"Note: {name!r} is missing in {missing:,} of {len(labels):,} rows of "
                f"{path.name}; these count in the loss and among everyone, and in no group."
            )
    weight, exposure = schema.weights(table), read_exposures(table, schema.exposure)
    places = np.flatnonzero(known) + 1
    X = schema.features(table)
    return TableRows(X, labels, sensitive, weight, exposure, path.name, places)
