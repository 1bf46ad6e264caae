"""Weight players: frozen dataclasses with pure ``start``, ``weights``, ``update`` and ``gap``."""

from tailboost.rules.additive import AdaBoost, EBBoost, VadaBoost
from tailboost.rules.corrective import EntropicLP, TotallyCorrectiveLP
from tailboost.rules.dro import RealWorstCase, WorstCase
from tailboost.rules.hedge import Hedge

__all__ = [
    "AdaBoost",
    "EBBoost",
    "EntropicLP",
    "Hedge",
    "RealWorstCase",
    "TotallyCorrectiveLP",
    "VadaBoost",
    "WorstCase",
]
