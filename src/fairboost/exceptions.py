"""What can go wrong, as types.

::

    ValueError
    └── FairboostError
        ├── InvalidInputError      data or parameters that cannot be trained on
        ├── ConstraintError        a constraint that is malformed or does not fit the data
        ├── EngineOptionError      an engine option that contradicts the method
        ├── ClusterError           a cluster that lost a worker, or has none
        ├── ExportError            a model that has no equal in a file format
        ├── ModelFileError         a file that is not a sound fairboost model
        │   ├── MissingFileError   there is none, or no such folder; a FileNotFoundError too
        │   └── NotAFileError      there is a folder in its place; an IsADirectoryError too
        └── EvidenceError          a document that is not sound evidence for a report
    UserWarning
    └── FairnessWarning
        ├── NotMetWarning          a constraint that training did not reach
        └── SmallCellWarning       a group too small to say much about

Every message says what was wrong, what was expected, what was found and what to do about it.
"""

from __future__ import annotations

__all__ = [
    "ClusterError",
    "ConstraintError",
    "EngineOptionError",
    "EvidenceError",
    "ExportError",
    "FairboostError",
    "FairnessWarning",
    "InvalidInputError",
    "MissingFileError",
    "ModelFileError",
    "NotAFileError",
    "NotMetWarning",
    "SmallCellWarning",
]


class FairboostError(ValueError):
    """Base of all errors raised on purpose; a ``ValueError``, as scikit-learn expects."""


class InvalidInputError(FairboostError):
    """Data or parameters that cannot be trained on."""


class ConstraintError(FairboostError):
    """A constraint that is malformed, or that does not fit the data."""


class EngineOptionError(FairboostError):
    """An engine option that contradicts the method, or that the engine would silently ignore."""


class ClusterError(FairboostError):
    """Training on a cluster that did not finish; there is then no model."""


class ExportError(FairboostError):
    """A model that a file format cannot hold, or a file with other decisions than the model."""


class ModelFileError(FairboostError):
    """A file that is not a sound fairboost model."""


class MissingFileError(ModelFileError, FileNotFoundError):
    """A file or folder that does not exist."""


class NotAFileError(ModelFileError, IsADirectoryError):
    """A folder where a file was expected."""


class EvidenceError(FairboostError):
    """A document that is not sound evidence for a report."""


class FairnessWarning(UserWarning):
    """A warning about the fairness figures."""


class NotMetWarning(FairnessWarning):
    """A constraint that is not met at the end of training, on the rows that measure rates."""


class SmallCellWarning(FairnessWarning):
    """Too few rows count: a rate is mostly noise, or a verdict is not certain."""
