"""Which classes constraints are about, and what decisions cost: options of several classes."""

from __future__ import annotations

import argparse
from typing import Any

import numpy as np

from fairboost._typing import FloatArray
from fairboost.cli.arguments import table_of
from fairboost.exceptions import InvalidInputError
from fairboost.tabular import columns
from fairboost.tabular.files import TableFile
from fairboost.tabular.schema import TableSchema, in_a_row


def class_options(options: argparse.Namespace, schema: TableSchema) -> dict[str, Any]:
    """What a model of several classes takes beside what others take; nothing for others.

    Parameters
    ----------
    options : Namespace
        With ``classes`` and ``costs``.
    schema : TableSchema
        Has the classes.
    """
    if not schema.several:
        return {}
    costs = None
    if options.costs is not None:
        costs = read_cost_table(table_of(options, options.costs), schema)
    return {"classes": _chosen(options, schema), "costs": costs}


def _chosen(options: argparse.Namespace, schema: TableSchema) -> list[Any] | None:
    """The classes that are named, by values of the label; None for all."""
    known = list(schema.classes or ())
    named: list[str] = []
    for written in options.classes:  # a class may have a comma in its name
        named += [written] if written in known else [one.strip() for one in written.split(",")]
    for name in named:
        if name not in known:
            raise InvalidInputError(
                f"--classes names {name!r}, which is not among the values of {schema.label!r}: "
                f"{in_a_row(known)}; name some of these, such as --classes {known[0]},{known[1]}"
            )
    values = schema.label_values.tolist()
    return [values[known.index(name)] for name in dict.fromkeys(named)] or None


def read_cost_table(file: TableFile, schema: TableSchema) -> list[list[float]]:
    """A table of costs, in the order of the classes.

    Parameters
    ----------
    file : TableFile
        Its first column names the class of a row, the others are the classes given.
    schema : TableSchema
        Has the classes.
    """
    first, *given = file.column_names()
    table = file.read([first])
    with columns.converting(f"the first column of {file.path.name}, {first!r}, must be text"):
        lines = columns.as_text(table.column(first)).to_pylist()
    known = schema.classes or ()
    for named, where in ((lines, f"lines (column {first!r})"), (given, "columns")):
        twice = [name for name in named if named.count(name) > 1]
        unknown = [name for name in named if name not in known]
        missing = [name for name in known if name not in named]
        for those, wrong in ((twice, "twice"), (unknown, "unknown"), (missing, "missing")):
            if those:
                raise InvalidInputError(
                    f"--costs {file.path.name}: among the {where} {those[0]!r} is {wrong}; "
                    f"expected one line and one column for each of {in_a_row(known)}: the cost "
                    "of giving a row of each class (lines) each class (columns)"
                )
    costs = np.column_stack([_costs(table.column(name), name, file) for name in known])
    at = [lines.index(name) for name in known]
    found: list[list[float]] = costs[at].tolist()
    return found


def _costs(column: Any, name: str, file: TableFile) -> FloatArray:
    """The costs of giving a class."""
    numbers, wrong = columns.read_numbers(column)
    unfit = wrong | ~np.isfinite(numbers)
    if unfit.any():
        row = int(unfit.argmax())
        found = columns.decoded(column)[row].as_py()
        raise InvalidInputError(
            f"--costs {file.path.name}: the cost of giving {name!r} is "
            f"{'missing' if found is None else repr(found)} in row {row + 1}, expected a number"
        )
    return numbers
