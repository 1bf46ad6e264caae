"""The metrics of `tailboost.metrics` on Dask collections, with the same arguments and results.

Labels, answers, groups and weights are Dask arrays or columns with the same partitions. Workers send tables
of counts, not rows. Probabilities should take few distinct values, as label distributions of a mixture do.
"""

from __future__ import annotations

from tailboost import metrics
from tailboost.dask.counting import counting

__all__ = [
    "class_errors",
    "cvar_zero_one_loss",
    "group_errors",
    "worst_class_error",
    "worst_group_error",
]

cvar_zero_one_loss = counting(metrics.cvar_zero_one_loss, "y_true", "y_proba")
class_errors = counting(metrics.class_errors, "y_true", "y_pred")
worst_class_error = counting(metrics.worst_class_error, "y_true", "y_pred")
group_errors = counting(metrics.group_errors, "y_true", "y_pred", "groups")
worst_group_error = counting(metrics.worst_group_error, "y_true", "y_pred", "groups")
