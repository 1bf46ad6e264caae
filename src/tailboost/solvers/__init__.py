"""Exact solvers for the games of boosting. Each solution comes with a certificate from its dual."""

from tailboost.solvers.bits import BitLosses
from tailboost.solvers.entropic import EntropicSolution, entropic_weights
from tailboost.solvers.mixture import MixtureSolution, minimize_cvar_mixture, mixture_path
from tailboost.solvers.soft_margin import SoftMarginSolution, soft_margin_weights
from tailboost.solvers.tail_game import SolverError, cvar, cvar_weights
from tailboost.solvers.tradeoff import (
    MixtureCurve,
    WithinSolution,
    least_worst_within,
    worst_mean_curve,
)
from tailboost.solvers.worst_case import WorstCaseSolution, worst_case_weights

__all__ = [
    "BitLosses",
    "EntropicSolution",
    "MixtureCurve",
    "MixtureSolution",
    "SoftMarginSolution",
    "SolverError",
    "WithinSolution",
    "WorstCaseSolution",
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


def __dir__() -> list[str]:
    return __all__
