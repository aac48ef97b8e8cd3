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
    """A constraint that is malformed, or that the data cannot be held to."""


class EngineOptionError(FairboostError):
    """An engine option that contradicts the method or that it would silently drop."""


class ClusterError(FairboostError):
    """A cluster on which training could not be brought to its end; there is no model then."""


class ExportError(FairboostError):
    """A model that has no equal in a file format, or a file that decides otherwise than it."""


class ModelFileError(FairboostError):
    """A file that is not a sound fairboost model."""


class MissingFileError(ModelFileError, FileNotFoundError):
    """A file that is not there, or a folder to read from or to write to."""


class NotAFileError(ModelFileError, IsADirectoryError):
    """A folder where a file was expected."""


class EvidenceError(FairboostError):
    """A document that is not sound evidence for a report."""


class FairnessWarning(UserWarning):
    """Something a reader of the fairness figures has to know."""


class NotMetWarning(FairnessWarning):
    """A constraint that is not met on the rows that rates are read on when training ends."""


class SmallCellWarning(FairnessWarning):
    """So few rows count that a rate is mostly noise, or that no one can tell if it is met."""
