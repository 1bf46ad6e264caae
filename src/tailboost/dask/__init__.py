"""Boosting classifiers on Dask arrays and data frames."""

from __future__ import annotations

from tailboost.dask import metrics
from tailboost.dask._certify import certify
from tailboost.dask._classifiers import (
    AdaLPBoostClassifier,
    GroupDROBoostClassifier,
    WorstClassBoostClassifier,
)
from tailboost.dask._cluster import ClusterError, WorkerLostWarning

__all__ = [
    "AdaLPBoostClassifier",
    "ClusterError",
    "GroupDROBoostClassifier",
    "WorkerLostWarning",
    "WorstClassBoostClassifier",
    "certify",
    "metrics",
]
