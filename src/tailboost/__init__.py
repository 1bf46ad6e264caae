"""tailboost: classifiers that keep stated limits, and boosting that is robust for classes, groups and tails.

Public names are imported on first use. The command line and programs that need one part of the library do not
wait for scikit-learn, SciPy and pandas.
"""

from importlib import import_module
from typing import TYPE_CHECKING

from tailboost.exceptions import *  # noqa: F403
from tailboost.exceptions import __all__ as _exceptions

if TYPE_CHECKING:  # the names below, for type checkers and editors
    from tailboost import (
        boosting as boosting,
        classifiers as classifiers,
        datasets as datasets,
        exceptions as exceptions,
        learners as learners,
        metrics as metrics,
        plotting as plotting,
        published as published,
        rates as rates,
        solvers as solvers,
        torch as torch,
    )
    from tailboost.app.card import ModelCard as ModelCard
    from tailboost.boosting import *  # noqa: F403
    from tailboost.classifiers import *  # noqa: F403
    from tailboost.classifiers.curve import Curve as Curve
    from tailboost.guarantees.certificates import Certificate as Certificate, Price as Price
    from tailboost.guarantees.certified_bound import CertifiedBound as CertifiedBound
    from tailboost.guarantees.certify import certify as certify
    from tailboost.guarantees.monitor import Monitor as Monitor
    from tailboost.guarantees.planning import (
        RowsNeeded as RowsNeeded,
        rows_needed as rows_needed,
    )
    from tailboost.learners.scores import Scores as Scores
    from tailboost.selection.rule import Rule as Rule, ThresholdRule as ThresholdRule
    from tailboost.storage.models import load_model as load_model, save_model as save_model
    from tailboost.storage.rule_files import load_rule as load_rule, save_rule as save_rule

__version__ = "0.1.0"

_MODULES = {
    "app.card": "ModelCard",
    "boosting": (
        "AdaBoostClassifier AdaLPBoostClassifier Additive AdditiveClassifier "
        "AverageBoostClassifier Bound DROBoostClassifier EBBoostClassifier GameClassifier "
        "GroupDROBoostClassifier LPBoostClassifier OCOBoostClassifier Player "
        "SoftMarginBoostClassifier VadaBoostClassifier WorstClassBoostClassifier"
    ),
    "classifiers": "RobustMixtureClassifier TunedClassifier calibrate tune",
    "guarantees.certificates": "Certificate Price",
    "guarantees.certified_bound": "CertifiedBound",
    "guarantees.certify": "certify",
    "classifiers.curve": "Curve",
    "guarantees.monitor": "Monitor",
    "guarantees.planning": "RowsNeeded rows_needed",
    "learners.scores": "Scores",
    "selection.rule": "Rule ThresholdRule",
    "storage.models": "load_model save_model",
    "storage.rule_files": "load_rule save_rule",
}
_HOME = {
    name: f"tailboost.{module}" for module, names in _MODULES.items() for name in names.split()
}
_PACKAGES = (
    "boosting classifiers learners rates solvers datasets exceptions metrics plotting published"
)

__all__ = sorted([*_exceptions, *_HOME, *_PACKAGES.split()])


def __dir__() -> list[str]:
    return [*__all__, "torch", "__version__"]


def __getattr__(name: str) -> object:
    if name in _HOME:
        return getattr(import_module(_HOME[name]), name)
    if name in f"{_PACKAGES} torch".split():  # `import *` does not import the extra
        return import_module(f"tailboost.{name}")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
