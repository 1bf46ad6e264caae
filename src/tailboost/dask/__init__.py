"""Boosting classifiers on Dask arrays and data frames."""

from __future__ import annotations

try:  # imported here so that what is missing is named together
    import dask.array  # noqa: F401
    import distributed  # noqa: F401
    import xgboost  # noqa: F401
except ImportError as error:
    raise ImportError(
        f"tailboost.dask needs Dask, distributed and XGBoost ({error}): pip install 'tailboost[dask]'"
    ) from error

from tailboost.dask import metrics
from tailboost.dask._certify import certify
from tailboost.dask._classifiers import (
    AdaLPBoostClassifier,
    GroupDROBoostClassifier,
    WorstClassBoostClassifier,
)
from tailboost.dask._cluster import ClusterError, WorkerLostWarning, local_cluster
from tailboost.dask._mixture import RobustMixtureClassifier
from tailboost.dask._table import ClusterTable, read_parquet

__all__ = [
    "AdaLPBoostClassifier",
    "ClusterError",
    "ClusterTable",
    "GroupDROBoostClassifier",
    "RobustMixtureClassifier",
    "WorkerLostWarning",
    "WorstClassBoostClassifier",
    "certify",
    "local_cluster",
    "metrics",
    "read_parquet",
]
