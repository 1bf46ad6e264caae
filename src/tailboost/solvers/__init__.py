"""Exact solvers for the games of boosting. Each solution comes with a certificate from its dual."""

from tailboost.solvers.mixture import (
    EntropicSolution,
    MixtureSolution,
    entropic_weights,
    minimize_cvar_mixture,
    mixture_path,
)
from tailboost.solvers.soft_margin import SoftMarginSolution, soft_margin_weights
from tailboost.solvers.tail import SolverError, cvar, cvar_weights
from tailboost.solvers.tradeoff import MixtureCurve, worst_mean_curve
from tailboost.solvers.worst_case import WorstCaseSolution, worst_case_weights

__all__ = [
    "EntropicSolution",
    "MixtureCurve",
    "MixtureSolution",
    "SoftMarginSolution",
    "SolverError",
    "WorstCaseSolution",
    "cvar",
    "cvar_weights",
    "entropic_weights",
    "minimize_cvar_mixture",
    "mixture_path",
    "soft_margin_weights",
    "worst_case_weights",
    "worst_mean_curve",
]
