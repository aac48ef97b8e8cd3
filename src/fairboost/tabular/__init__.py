"""Tables in files: reading, writing, and what their columns are to a model."""

try:
    import pyarrow  # noqa: F401
except ImportError as error:  # an extra: all of this folder needs it, and no other command does
    raise ImportError(
        'reading and writing tables needs pyarrow: pip install "fairboost[data]"'
    ) from error

from fairboost.tabular.files import ReadOptions, TableFile
from fairboost.tabular.schema import TableSchema, infer_schema

__all__ = ["ReadOptions", "TableFile", "TableSchema", "infer_schema"]
