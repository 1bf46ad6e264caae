"""tailboost: boosting classifiers that hold up on the worst samples, class and group.

A public name is imported when it is first asked for, so that the command line and programs that need a part
of the library do not wait for scikit-learn, SciPy and pandas to load.
"""

from importlib import import_module
from importlib.util import find_spec
from typing import TYPE_CHECKING

if TYPE_CHECKING:  # the same names as below, for type checkers and editors
    from tailboost import classifiers as classifiers
    from tailboost import dask as dask
    from tailboost import datasets as datasets
    from tailboost import decisions as decisions
    from tailboost import learners as learners
    from tailboost import metrics as metrics
    from tailboost import onnx as onnx
    from tailboost import plotting as plotting
    from tailboost import published as published
    from tailboost import rates as rates
    from tailboost import robustness as robustness
    from tailboost import solvers as solvers
    from tailboost import torch as torch
    from tailboost.app.report import Card as Card
    from tailboost.app.report import Results as Results
    from tailboost.app.report import compare as compare
    from tailboost.app.report import render as render
    from tailboost.boosting.ensemble import AdditiveEnsemble as AdditiveEnsemble
    from tailboost.boosting.ensemble import MixtureEnsemble as MixtureEnsemble
    from tailboost.boosting.game import Stop as Stop
    from tailboost.boosting.game import StopKind as StopKind
    from tailboost.boosting.game import Trace as Trace
    from tailboost.classifiers import *  # noqa: F403
    from tailboost.classifiers.decisions import Decisions as Decisions
    from tailboost.classifiers.decisions import RandomizedDecision as RandomizedDecision
    from tailboost.classifiers.group_dro import GroupDROBoostClassifier as GroupDROBoostClassifier
    from tailboost.classifiers.rated import InfeasibleLimitsError as InfeasibleLimitsError
    from tailboost.classifiers.robust_mixture import RobustMixtureClassifier as RobustMixtureClassifier
    from tailboost.classifiers.tuning import tune as tune
    from tailboost.classifiers.worst_class import WorstClassBoostClassifier as WorstClassBoostClassifier
    from tailboost.core.group_columns import GroupColumns as GroupColumns
    from tailboost.guarantees.additive_summary import AdditiveSummary as AdditiveSummary
    from tailboost.guarantees.calibration import NotCertifiedError as NotCertifiedError
    from tailboost.guarantees.calibration import Shortfall as Shortfall
    from tailboost.guarantees.calibration import calibrate as calibrate
    from tailboost.guarantees.certificates import Certificate as Certificate
    from tailboost.guarantees.certificates import CertifiedBound as CertifiedBound
    from tailboost.guarantees.certificates import certify as certify
    from tailboost.guarantees.fit_summary import Bound as Bound
    from tailboost.guarantees.fit_summary import Summary as Summary
    from tailboost.guarantees.monitor import Monitor as Monitor
    from tailboost.guarantees.monitor import MonitoredBatch as MonitoredBatch
    from tailboost.guarantees.recheck import Recheck as Recheck
    from tailboost.guarantees.recheck import RecheckedBound as RecheckedBound
    from tailboost.rates.bounds import rows_needed as rows_needed
    from tailboost.selection.loss_objective import CVaR as CVaR
    from tailboost.selection.loss_objective import WorstRow as WorstRow
    from tailboost.selection.rule import Rule as Rule
    from tailboost.selection.rule import RulePart as RulePart
    from tailboost.storage import load_model as load_model
    from tailboost.storage import save_model as save_model
    from tailboost.storage.onnx import export_onnx as export_onnx

__version__ = "0.1.0"

_MODULES = {
    "statements.calibration": "NotCertifiedError Shortfall calibrate",
    "statements.certificates": "Certificate CertifiedBound certify",
    "statements.recheck": "Recheck RecheckedBound",
    "combiners": "AdditiveEnsemble CVaR MixtureEnsemble WorstRow",
    "statements.additive_summary": "AdditiveSummary",
    "statements.guarantee": "Bound Summary",
    "confidence": "rows_needed",
    "decisions": "Decisions RandomizedDecision",
    "game": "Stop StopKind Trace",
    "groups": "GroupColumns",
    "mixture": "InfeasibleLimitsError RobustMixtureClassifier Rule RulePart tune",
    "presets": "GroupDROBoostClassifier WorstClassBoostClassifier",
    "storage": "load_model save_model",
    "report": "Card Results compare render",
    "statements.watch": "Monitor MonitoredBatch",
}
_HOME = {name: f"tailboost.{module}" for module, names in _MODULES.items() for name in names.split()}
_PACKAGES = (
    "datasets", "decisions", "learners", "metrics", "plotting", "published", "rates", "robustness", "solvers",
)  # fmt: skip
# They need an extra, and are not among the names that `from tailboost import *` gives.
_EXTRAS = ("dask", "export_onnx", "onnx", "torch")


def _public() -> list[str]:
    """Return the public names; those of the classifiers stand in their package alone."""
    return sorted([*_HOME, *_PACKAGES, *import_module("tailboost.classifiers").__all__])


def __dir__() -> list[str]:
    return [*_public(), *_EXTRAS, "__version__"]


def __getattr__(name: str) -> object:
    if name == "__all__":
        found: object = _public()
    elif name == "export_onnx":
        found = import_module("tailboost.storage.onnx").export_onnx
    elif name in _HOME:
        found = getattr(import_module(_HOME[name]), name)
    elif not name.startswith("_") and find_spec(f"tailboost.{name}"):
        found = import_module(f"tailboost.{name}")
    elif not name.startswith("_") and name in import_module("tailboost.classifiers").__all__:
        found = getattr(import_module("tailboost.classifiers"), name)
    else:
        # Of the packages the one with measures alone is looked through: loading all takes seconds.
        there = not name.startswith("_") and hasattr(import_module("tailboost.rates.metrics"), name)
        hint = f"; it is tailboost.rates.metrics.{name}" if there else ""
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}{hint}")
    globals()[name] = found
    return found
