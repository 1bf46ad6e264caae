"""tailboost: classifiers that keep stated limits, and boosting that is robust for classes, groups and tails.

Public names are imported on first use. The command line and programs that need one part of the library do not
wait for scikit-learn, SciPy and pandas.
"""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:  # the names below, for type checkers and editors
    from tailboost import boosting as boosting
    from tailboost import classifiers as classifiers
    from tailboost import dask as dask
    from tailboost import datasets as datasets
    from tailboost import exceptions as exceptions
    from tailboost import learners as learners
    from tailboost import metrics as metrics
    from tailboost import plotting as plotting
    from tailboost import published as published
    from tailboost import rates as rates
    from tailboost import solvers as solvers
    from tailboost import torch as torch
    from tailboost.app.card import ModelCard as ModelCard
    from tailboost.boosting import *  # noqa: F403
    from tailboost.classifiers import *  # noqa: F403
    from tailboost.classifiers.calibrating import calibrate as calibrate
    from tailboost.core.exceptions import BoundNotMetWarning as BoundNotMetWarning
    from tailboost.core.exceptions import (
        ConfidenceNotReachedWarning as ConfidenceNotReachedWarning,
    )
    from tailboost.core.exceptions import DeferredRowsWarning as DeferredRowsWarning
    from tailboost.core.exceptions import DependentRowsWarning as DependentRowsWarning
    from tailboost.core.exceptions import FitInterruptedWarning as FitInterruptedWarning
    from tailboost.core.exceptions import InfeasibleLimitsError as InfeasibleLimitsError
    from tailboost.core.exceptions import LeakageError as LeakageError
    from tailboost.core.exceptions import LimitBelowNoiseWarning as LimitBelowNoiseWarning
    from tailboost.core.exceptions import NotCertifiedError as NotCertifiedError
    from tailboost.core.exceptions import ResubstitutionWarning as ResubstitutionWarning
    from tailboost.core.exceptions import SmallSubgroupsWarning as SmallSubgroupsWarning
    from tailboost.core.exceptions import UncertifiedGroupsWarning as UncertifiedGroupsWarning
    from tailboost.core.exceptions import UselessRuleWarning as UselessRuleWarning
    from tailboost.guarantees.bounds import CertifiedBound as CertifiedBound
    from tailboost.guarantees.certificates import Certificate as Certificate
    from tailboost.guarantees.certificates import Price as Price
    from tailboost.guarantees.certificates import certify as certify
    from tailboost.guarantees.monitor import Monitor as Monitor
    from tailboost.guarantees.planning import RowsNeeded as RowsNeeded
    from tailboost.guarantees.planning import rows_needed as rows_needed
    from tailboost.learners.scores import Scores as Scores
    from tailboost.selection.curve import Curve as Curve
    from tailboost.selection.rule import Rule as Rule
    from tailboost.selection.summary import Summary as Summary
    from tailboost.selection.threshold_rule import ThresholdRule as ThresholdRule
    from tailboost.storage.models import load_model as load_model
    from tailboost.storage.models import save_model as save_model
    from tailboost.storage.rule_documents import save_rule as save_rule
    from tailboost.storage.rule_files import load_rule as load_rule

__version__ = "0.1.0"

_MODULES = {
    "app.card": "ModelCard",
    "boosting": (
        "AdaBoostClassifier AdaLPBoostClassifier AverageBoostClassifier Bound DROBoostClassifier "
        "EBBoostClassifier GroupDROBoostClassifier LPBoostClassifier OCOBoostClassifier Player "
        "SoftMarginBoostClassifier VadaBoostClassifier WorstClassBoostClassifier"
    ),
    "classifiers.calibrating": "calibrate",
    "core.exceptions": (
        "BoundNotMetWarning ConfidenceNotReachedWarning DeferredRowsWarning "
        "DependentRowsWarning FitInterruptedWarning InfeasibleLimitsError LeakageError "
        "LimitBelowNoiseWarning NotCertifiedError ResubstitutionWarning "
        "SmallSubgroupsWarning UncertifiedGroupsWarning UselessRuleWarning"
    ),
    "guarantees.certificates": "Certificate Price certify",
    "selection.curve": "Curve",
    "selection.summary": "Summary",
    "guarantees.monitor": "Monitor",
    "guarantees.planning": "RowsNeeded rows_needed",
    "guarantees.bounds": "CertifiedBound",
    "learners.scores": "Scores",
    "selection.rule": "Rule",
    "selection.threshold_rule": "ThresholdRule",
    "storage.models": "load_model save_model",
    "storage.rule_documents": "save_rule",
    "storage.rule_files": "load_rule",
}
_HOME = {
    name: f"tailboost.{module}" for module, names in _MODULES.items() for name in names.split()
}
_PACKAGES = (
    *("boosting", "learners", "rates", "solvers"),
    *("datasets", "exceptions", "metrics", "plotting", "published"),
)

# These need an extra. `from tailboost import *` does not import them.
_EXTRAS = ("dask", "torch")


def _public() -> list[str]:
    return sorted([*_HOME, *_PACKAGES, *import_module("tailboost.classifiers").__all__])


def __dir__() -> list[str]:
    return [*_public(), *_EXTRAS, "__version__"]


def __getattr__(name: str) -> object:
    if name == "__all__":
        value: object = _public()
    elif name in _HOME:
        value = getattr(import_module(_HOME[name]), name)
    elif name in _PACKAGES or name in _EXTRAS or name == "classifiers":
        value = import_module(f"tailboost.{name}")
    elif not name.startswith("_") and name in import_module("tailboost.classifiers").__all__:
        value = getattr(import_module("tailboost.classifiers"), name)
    else:
        # Only the measures are searched for a hint: loading all packages takes seconds.
        is_metric = not name.startswith("_") and hasattr(
            import_module("tailboost.rates.metrics"), name
        )
        hint = ""
        if is_metric:
            hint = f"it is tailboost.metrics.{name}"
        elif not name.startswith("_"):
            hint = import_module("tailboost.core.spelling").did_you_mean(name, __dir__())
            hint = hint.replace("'ModelCard'", "'ModelCard.of(...)'")
        raise AttributeError(
            f"module {__name__!r} has no attribute {name!r}; {hint}".rstrip("; ")
        )
    globals()[name] = value
    return value
