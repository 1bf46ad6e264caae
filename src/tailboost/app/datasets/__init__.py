"""Bundled data sets."""

from tailboost.app.datasets.bundled import load_credit_default, load_wine_quality

__all__ = ["load_credit_default", "load_wine_quality"]
