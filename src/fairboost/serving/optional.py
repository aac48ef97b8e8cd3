"""Packages that a format needs and fairboost does not."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from fairboost.exceptions import ExportError


@contextmanager
def needing(extra: str) -> Iterator[None]:
    """Import packages inside: where one is not installed, the remedy is said.

    Parameters
    ----------
    extra : str
        The extra of fairboost that installs them.
    """
    try:
        yield
    except ModuleNotFoundError as error:
        raise ExportError(
            f"this format needs the package {error.name}, which is not installed; pip install "
            f"'fairboost[{extra}]'"
        ) from error
