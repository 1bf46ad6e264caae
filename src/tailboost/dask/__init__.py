"""Selection and certificates on Dask arrays and data frames; rows stay on the workers."""

from __future__ import annotations

try:  # one message for all missing packages
    import dask.array  # noqa: F401
except ImportError as error:
    raise ImportError(
        f"tailboost.dask needs Dask ({error}): pip install 'tailboost[dask]'"
    ) from error

from tailboost.dask.certify import certify
from tailboost.dask.robust_mixture import from_probabilities, predict, predict_proba

__all__ = [
    "certify",
    "from_probabilities",
    "predict",
    "predict_proba",
]


def __dir__() -> list[str]:
    return __all__
