"""A choice by name: the largest error of a class, group or cell, or a CVaR, by what members lose."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np

from tailboost.classifiers.target_game import warn_of_missed
from tailboost.combiners import Mixture
from tailboost.combiners.ensemble import MixtureEnsemble
from tailboost.combiners.mixture import Wrong
from tailboost.mixture._aim import Aim
from tailboost.mixture._lines import Lines
from tailboost.mixture._tables import Judged
from tailboost.statements.guarantee import NO_SHARE, Guarantee, guarantee
from tailboost.statements.units import UnitErrors


@dataclass(frozen=True, eq=False)
class NamedChoice:
    """The shares of members that make a named objective small, and what they reach."""

    aim: Aim  # the objective with its units
    judged: Judged  # the rows it was made on
    combiner: Mixture  # the members with their losses, by row or by line of rows
    lines: Lines | None  # the lines, where `predict` is known by the answers of several members
    ensemble: MixtureEnsemble  # the members with their shares
    errors: UnitErrors | None  # what `predict` and the rule that draws reach on the units; None for a CVaR
    # Of rates: none were stated, and a trade-off is that of the mean error by default.
    table: None = None
    pair: None = None

    @classmethod
    def of(cls, aim: Aim, judged: Judged, combiner: Mixture, lines: Lines | None) -> Self:
        """Return the choice by which targets are kept, where there are any."""
        # Of one member the losses kept are those of `predict`.
        combiner.keep_limit(None if lines is None else _errs(judged, combiner, lines))
        ensemble = combiner.stage(combiner.pool.n_rounds)
        weights = np.where(ensemble.weights > NO_SHARE, ensemble.weights, 0.0)  # the solver's rounding
        # Members without a share settle no tie, so that no model is asked for that alone.
        order = ensemble.tie_order[weights[ensemble.tie_order] > 0]
        ensemble = replace(ensemble, weights=weights / weights.sum(), tie_order=order)
        errors = None
        if aim.over_units:
            ledger = combiner.pool.ledger
            errors = UnitErrors.of(
                aim.units.kind,
                aim.units.names.tolist(),
                ledger.rows,
                aim.index(ledger.rows),
                predict=_errs(judged, combiner, lines)(ensemble, np.ones(len(ledger.rows.y), bool)),
                drawn=ledger.pool().combine(ensemble.weights),
                allowed=aim.allowed,
            )
        return cls(aim, judged, combiner, lines, ensemble, errors)

    @property
    def objective(self) -> Any:
        """What λ minimises."""
        return self.aim.objective

    @property
    def gap(self) -> float:
        """By how much other shares may lower what is made small."""
        return self.combiner.gap(self.ensemble)

    @property
    def traced(self) -> Mixture:
        """The members with their losses, without targets."""
        return self.combiner.aiming_at(self.objective)

    @property
    def limits_met(self) -> bool | None:
        """Whether targets are met, on the rows of the choice and by the estimates; None without any."""
        if self.errors is None or self.aim.allowed is None:
            return None
        return bool(self.errors.keeps().all() and self.combiner.excess == 0)

    def guarantee(self, classes: Sequence[Any], members: Sequence[str]) -> Guarantee:
        """Return what was achieved, against the best member alone and against constants."""
        weights, nothing = self.ensemble.weights, ((), ())
        found = guarantee(None, self.combiner, weights, self.gap, nothing, classes, members)
        if self.errors is None:
            return found
        return replace(found, units=self.errors.table())

    def warn(self, *, forewarned: bool) -> None:
        """Name the units with few rows."""
        if self.errors is not None:
            self.aim.warn_of_small(self.combiner.pool.ledger.rows)

    def warn_of_missed(self) -> None:
        """Name the units whose target is missed on the rows of the choice."""
        if self.limits_met is False:
            assert self.errors is not None
            warn_of_missed(self.errors, self.combiner)


def _errs(judged: Judged, combiner: Mixture, lines: Lines | None) -> Wrong:
    """Return what says how often `predict` of an ensemble errs in some rows, or lines of rows."""
    pool = combiner.pool
    if not combiner.randomized:  # as the one member that answers does
        return lambda ensemble, rows: pool.ledger.part(rows).pool().combine(ensemble.weights)
    of_rows = judged.kept().wrong(pool)
    if lines is None:
        return of_rows
    whole = np.ones(len(lines.line), dtype=np.bool_)
    return lambda ensemble, rows: lines.means(of_rows(ensemble, whole))[rows]
