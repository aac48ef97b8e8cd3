"""Tables in files: reading, writing, and what their columns are to a model."""

from fairboost.tabular.files import ReadOptions, TableFile
from fairboost.tabular.schema import TableSchema, infer_schema

__all__ = ["ReadOptions", "TableFile", "TableSchema", "infer_schema"]
