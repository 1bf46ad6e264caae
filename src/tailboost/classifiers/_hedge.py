"""Games in which Hedge is the weight player: its rule and the bounds it brings."""

from __future__ import annotations

from typing import Any

from tailboost.classifiers._mixture import MixtureClassifier
from tailboost.game import Rule, Units
from tailboost.guarantee import Bound, hedge_bounds, is_uniform, theory_bound
from tailboost.rules import Hedge, theory_eta


class HedgeGame(MixtureClassifier):
    """A game with the parameter ``eta``."""

    eta: float | str

    def _rule(self, units: Units) -> Rule[Any]:
        eta = theory_eta(units.count, self._rounds()) if self.eta == "theory" else float(self.eta)
        return Hedge(eta, self._param("outlier_fraction", 0.0))

    def _bounds(self) -> tuple[tuple[Bound, ...], tuple[Bound, ...]]:
        game, T = self._game, self.n_iter_
        # Over groups the units of the bound are groups, so a CVaR over rows has no place in it.
        alpha = self.objective_.alpha if game.units.loss_index is None else None
        rule: Any = game.rule
        if rule.outlier_fraction > 0:
            note = "not given when outliers are dropped: the rows kept change from round to round"
            return (), (Bound("loss of the even mixture", "V + …", None, note=note),)
        V, g = float(self.trace_.weighted_loss.mean()), float(self.trace_.weighted_loss.max())
        p, mean_losses = game.state.base, game.state.cumulative / T
        observed = hedge_bounds(V, rule.eta, T, alpha, p, mean_losses)
        if self.eta != "theory":
            return (), observed
        as_planned = self._rounds() == T
        return (theory_bound(g, game.units.count, T, is_uniform(p), as_planned),), observed
