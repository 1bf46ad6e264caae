"""Exact solvers for the games of boosting, each answer certified by its dual; no machine learning inside."""

from tailboost.solvers.bits import BitLosses
from tailboost.solvers.entropic import EntropicSolution, entropic_weights
from tailboost.solvers.mixture import (
    MixtureSolution,
    minimize_cvar_mixture,
    mixture_path,
)
from tailboost.solvers.patterns import Patterns, count_patterns
from tailboost.solvers.soft_margin import SoftMarginSolution, soft_margin_weights
from tailboost.solvers.tail_game import SolverError
from tailboost.solvers.tails import cvar, cvar_weights
from tailboost.solvers.tradeoff import MixtureCurve, WithinSolution, least_worst_within, worst_mean_curve
from tailboost.solvers.worst_case import WorstCaseSolution, worst_case_weights

__all__ = [
    "BitLosses",
    "MixtureCurve",
    "EntropicSolution",
    "MixtureSolution",
    "Patterns",
    "SoftMarginSolution",
    "SolverError",
    "WithinSolution",
    "WorstCaseSolution",
    "count_patterns",
    "cvar",
    "cvar_weights",
    "entropic_weights",
    "least_worst_within",
    "minimize_cvar_mixture",
    "mixture_path",
    "soft_margin_weights",
    "worst_case_weights",
    "worst_mean_curve",
]
