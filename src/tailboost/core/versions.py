"""Versions of Python and of the packages behind results."""

from __future__ import annotations

import platform
from importlib import metadata

PACKAGES = (
    "tailboost",
    "numpy",
    "scipy",
    "scikit-learn",
    "pandas",
    "xgboost",
    "xgboost-cpu",
)


def versions(*more: str) -> dict[str, str]:
    """Return the versions of Python and of the installed packages among `PACKAGES` and ``more``."""
    installed = {"python": platform.python_version()}
    for package in (*PACKAGES, *more):
        try:
            installed[package] = metadata.version(package)
        except metadata.PackageNotFoundError:
            continue
    return installed
