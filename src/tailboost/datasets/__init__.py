"""Data sets: bundled, or from a file."""

from tailboost.datasets._bundled import load_credit_default, load_wine_quality
from tailboost.datasets._table import load_table, read_frame
from tailboost.datasets.files import read_raw
from tailboost.datasets.schema import ColumnSchema, TableChangedWarning, TableSchema

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
