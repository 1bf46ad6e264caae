"""Weight players. A rule is a frozen dataclass with pure ``start``, ``weights``, ``update`` and ``gap``."""

from tailboost.rules.entropic import EntropicLP, entropic_theory
from tailboost.rules.hedge import Hedge, eta_for, theory_eta, theory_rounds
from tailboost.rules.lpboost import TotallyCorrectiveLP

__all__ = [
    "EntropicLP",
    "Hedge",
    "TotallyCorrectiveLP",
    "entropic_theory",
    "eta_for",
    "theory_eta",
    "theory_rounds",
]
