"""Weight players: frozen dataclasses with pure ``start``, ``weights``, ``update`` and ``gap``."""

from tailboost.boosting.players.additive_player import AdaBoost, EBBoost, VadaBoost
from tailboost.boosting.players.corrective import EntropicLP, TotallyCorrectiveLP
from tailboost.boosting.players.dro import RealWorstCase, WorstCase
from tailboost.boosting.players.hedge import Hedge

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
