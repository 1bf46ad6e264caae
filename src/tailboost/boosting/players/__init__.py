"""Weight players: frozen dataclasses with pure ``start``, ``weights``, ``update`` and ``gap``."""

from tailboost.boosting.players.additive_player import Additive
from tailboost.boosting.players.corrective import EntropicLP, TotallyCorrectiveLP
from tailboost.boosting.players.dro import RealAdditive
from tailboost.boosting.players.hedge import Hedge

__all__ = ["Additive", "EntropicLP", "Hedge", "RealAdditive", "TotallyCorrectiveLP"]
