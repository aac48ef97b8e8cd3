"""Categories that XGBoost would misread in silence: they are refused by name.

XGBoost knows categories by what they are called, and looks each one up by halves. In 3.2 one that
training did not have is taken for the next one in order, unless there is none; so a table is
compared with what the model knows before XGBoost sees it. And of texts from pandas it counts
characters but keeps bytes: with one that is not ASCII all later ones are cut at the wrong place.
Whether the XGBoost at hand does so is tried out once.

It also bins rows by the codes of their own table, and looks for ``missing`` among these codes.
So every table is made to list what the model knows, in the same order; then codes are the same.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Any, TypeAlias

import numpy as np
import pandas as pd
import xgboost

from fairboost._text import did_you_mean
from fairboost._typing import Matrix
from fairboost.data.features import as_one_set_of_categories, column_names, listed_categories
from fairboost.engines.xgboost.model_json import read_categories
from fairboost.exceptions import InvalidInputError

Known: TypeAlias = Mapping[str, "pd.Index[Any]"]
"""Categories by the name of their column."""


def known_to(booster: xgboost.Booster) -> Known:
    """The categories that a booster was trained with."""
    if booster.feature_names is None or booster.get_categories().empty():
        return {}
    found = read_categories(booster.save_raw("json").decode())
    named = zip(booster.feature_names, found, strict=False)
    return {name: pd.Index(values) for name, values in named if len(values)}


def as_known(X: Matrix, known: Known, what: str = "X") -> Matrix:
    """A table whose categories XGBoost reads as what they are; raises where it would not.

    Parameters
    ----------
    X : Matrix
        The table. One of polars or Arrow that has categories becomes one of pandas.
    known : mapping
        The categories that the model knows, which a column lists afterwards. A column that is
        not in it is left to XGBoost.
    what : str
        The table in words.
    """
    X = as_one_set_of_categories(X)
    for name, listed in listed_categories(X).items():
        if name not in known or _same(listed, known[name]):
            continue
        place = column_names(X).index(name)
        column = X.iloc[:, place]
        codes = column.cat.codes.to_numpy()
        occurs = np.bincount(codes[codes >= 0], minlength=len(listed)) > 0
        unknown = np.flatnonzero(occurs & ~listed.isin(known[name]))
        if len(unknown):
            others = f" (and {len(unknown) - 1} others likewise)" if len(unknown) > 1 else ""
            raise InvalidInputError(
                f"column {name!r} of {what} has the category {listed.tolist()[unknown[0]]!r}"
                f"{others}, expected those that the model was trained with, such as "
                f"{known[name].tolist()[0]!r}: XGBoost would take it for one of these. Make it "
                "missing, merge it into a category that is known, or train on rows that have it"
                f"{did_you_mean(listed.tolist()[unknown[0]], known[name])}"
            )
        X = X.copy(deep=False)
        X.isetitem(place, column.cat.set_categories(known[name]))
    check_texts(X, what)
    return X


def _same(listed: pd.Index[Any], known: pd.Index[Any]) -> bool:
    """Whether XGBoost gives the same codes to both; whole numbers must have the same width."""
    whole = listed.dtype.kind in "iu"
    return listed.equals(known) and (listed.dtype == known.dtype or not whole)


def check_texts(X: Matrix, what: str = "X") -> None:
    """Refuse categories that are no whole numbers and that XGBoost does not keep as they are."""
    for name, listed in listed_categories(X).items():
        if listed.dtype.kind in "iu":
            continue
        other = [text for text in listed if not isinstance(text, str)]
        if other:
            raise InvalidInputError(
                f"column {name!r} of {what} has the category {other[0]!r}, expected text or whole "
                f"numbers, which XGBoost takes; pass X[{name!r}].astype(str).astype('category')"
            )
        other = [text for text in listed if not text.isascii()]
        # On several machines it was tried out before: they would wait for each other.
        if other and not xgboost.collective.is_distributed() and not keeps_texts():
            raise InvalidInputError(
                f"column {name!r} of {what}, or of the model, has the category {other[0]!r}, and "
                f"XGBoost {xgboost.__version__} mixes up categories if the name of one is not "
                f"ASCII; rename it, pass integer codes, X[{name!r}].cat.codes.astype('category') "
                "(of a missing value the code is -1), or use LightGBM, or XGBoost 3.4.1"
            )


@cache
def keeps_texts() -> bool:
    """Whether XGBoost remembers texts of pandas that are not ASCII as they are."""
    texts = ["é", "ü"]
    rows = xgboost.DMatrix(
        pd.DataFrame({"text": pd.Categorical(texts, texts)}),
        label=[0, 1],
        enable_categorical=True,
        nthread=1,
    )
    with xgboost.config_context(verbosity=0):
        booster = xgboost.train({"nthread": 1}, rows, 1)
    return known_to(booster)["text"].tolist() == texts
