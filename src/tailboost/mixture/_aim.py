"""What a mixture makes small, and over which units."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, cast

from numpy.typing import NDArray

from tailboost._typing import Floats, Ints
from tailboost.classifiers.target_game import warn_of_small
from tailboost.combiners.objective import CVaR, WorstUnit
from tailboost.data import GroupNames, Rows
from tailboost.mixture._rated import FEW_ROWS, Stated
from tailboost.targets import NamedUnits, allowed_errors

# The objectives by name, with what their units are.
OBJECTIVES = {"cvar": None, "worst_class": "class", "worst_group": "group", "worst_cell": "cell"}


@dataclass(frozen=True)
class Aim:
    """An objective with its units and their targets."""

    objective: CVaR | WorstUnit  # what λ minimises
    units: NamedUnits  # the classes, groups or cells; for a CVaR the classes, which steer the thresholds
    allowed: Floats | None = None  # (m,), error allowed to each unit
    limit: float | None = None  # what the objective may be where there are targets

    @classmethod
    def of(
        cls,
        name: str,
        rows: Rows,
        classes: NDArray[Any],
        groups: GroupNames | None,
        *,
        alpha: float | None,
        max_error: Any,
        shrinkage: float,
    ) -> Aim:
        """Return the aim that a name and the rows of the choice define."""
        kind = OBJECTIVES[name]
        units = NamedUnits.of(kind or "class", rows, classes, groups)
        if kind is None:
            assert alpha is not None
            return cls(CVaR(float(alpha)), units)
        objective = WorstUnit(kind, None, kind == "class", shrinkage)
        if max_error is None:
            return cls(objective, units)
        allowed = allowed_errors(max_error, units.names.tolist(), kind)
        objective, limit = objective.held_to(allowed)
        return cls(objective, units, allowed, limit)

    @property
    def over_units(self) -> bool:
        """Whether errors of units are made small, rather than a CVaR."""
        return self.objective.unit is not None

    def rows(self, rows: Rows) -> Rows:
        """Return rows with the units as groups; classes need none."""
        return rows if self.units.kind == "class" else self.units.number(rows)

    def index(self, rows: Rows) -> Ints:
        """Return the unit or units of each of the rows, or lines of rows, that losses are known of."""
        return cast("WorstUnit", self.objective).index(rows)

    def warn_of_small(self, rows: Rows) -> None:
        """Name the units with few rows."""
        names, pseudo = self.units.names.tolist(), cast("WorstUnit", self.objective).shrinkage
        rule = "their errors are estimated on so few" + (
            f", and λ follows values drawn towards the mean over all units by {pseudo:g} pseudo-rows"
            if pseudo
            else ", and λ believes them: shrinkage=0"
        )
        size = rows.sizes(self.index(rows), len(names))
        warn_of_small(self.units.kind, names, size, str(FEW_ROWS), FEW_ROWS, rule)


def check_parameters(mix: Any, groups: Any) -> None:
    """Raise ValueError where parameters of a mixture do not suit each other, or groups are needed."""
    if (stated := mix._stated) is not None:
        check_stated(mix, stated, groups)
        return
    name = mix._objective_name
    over_groups = name in ("worst_group", "worst_cell")
    if name == "cvar" and mix.alpha is None:
        raise ValueError("objective='cvar' needs alpha, the tail mass in (0, 1]")
    if name != "cvar" and mix.alpha is not None:
        raise ValueError(f"alpha={mix.alpha!r} has no meaning with objective={name!r}")
    if name == "cvar" and mix.max_error is not None:
        raise ValueError("max_error has no meaning with objective='cvar'")
    if mix.randomized is False and name == "cvar":
        raise ValueError(
            "randomized=False leaves one member, and its CVaR is its mean loss / alpha, or 1: for "
            "objective='cvar' members must share"
        )
    if mix.randomized is False and mix.shares is True:
        raise ValueError("randomized=False has no meaning with shares=True, members that draw answers")
    if over_groups and groups is None:
        raise ValueError(f"objective={name!r} needs groups")
    if mix.by_group and not over_groups:
        raise ValueError(
            f"by_group=True has no meaning with objective={name!r}: it is for 'worst_group' and 'worst_cell'"
        )


def check_stated(mix: Any, stated: Stated, groups: Any) -> None:
    """Raise ValueError where parameters do not suit an objective and limits that are rates."""
    if mix.alpha is not None:
        raise ValueError(f"alpha={mix.alpha!r} has no meaning with rates: it is the tail mass of a CVaR")
    if mix.shares is True:
        raise ValueError("shares=True has no meaning with rates: members answer, none draws")
    if groups is None and stated.needs_groups:
        rate = next(rate for rate in stated.rates if rate.needs_groups)
        raise ValueError(f"{rate!r} needs groups")
    if mix.by_group and groups is None:
        raise ValueError("by_group=True needs groups")
