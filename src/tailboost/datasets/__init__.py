"""Data sets: bundled, fetched or from a path; and generators with known densities."""

from tailboost.datasets._compas import load_compas
from tailboost.datasets._credit import load_credit_default
from tailboost.datasets._files import read_raw
from tailboost.datasets._generators import (
    make_discs,
    make_ringnorm,
    make_squares,
    make_twonorm,
    make_waveform,
)
from tailboost.datasets._images import (
    load_cifar10,
    load_image_npz,
    load_mnist,
)
from tailboost.datasets._openml import fetch_adult, fetch_bank
from tailboost.datasets._schema import ColumnSchema, TableChangedWarning, TableSchema
from tailboost.datasets._table import load_table, read_frame
from tailboost.datasets._wine import load_wine_quality

__all__ = [
    "ColumnSchema",
    "TableChangedWarning",
    "TableSchema",
    "fetch_adult",
    "fetch_bank",
    "load_cifar10",
    "load_compas",
    "load_credit_default",
    "load_image_npz",
    "load_mnist",
    "load_table",
    "load_wine_quality",
    "make_discs",
    "make_ringnorm",
    "make_squares",
    "make_twonorm",
    "make_waveform",
    "read_frame",
    "read_raw",
]
