"""Bundled data sets, and loaders of files."""

from tailboost.app.datasets.bundled import load_credit_default, load_wine_quality
from tailboost.app.datasets.table import load_table, read_frame
from tailboost.core.table_files import read_raw
from tailboost.rows.schema import ColumnSchema, TableChangedWarning, TableSchema

__all__ = [
    "ColumnSchema",
    "TableChangedWarning",
    "TableSchema",
    "load_credit_default",
    "load_table",
    "load_wine_quality",
    "read_frame",
    "read_raw",
]
