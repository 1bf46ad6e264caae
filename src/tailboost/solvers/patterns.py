"""Tables of patterns: units with the same losses count as one, and tables of parts of the data add up.

The mixture programs know a unit only by its losses under all members, a word of T bits, and its weight. A
table of the distinct words with their summed weights is therefore all they need, however many units there are
and wherever they lie.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from tailboost.core.array_types import Floats, Ints
from tailboost.core.numeric import finite
from tailboost.solvers.bits import BitLosses
from tailboost.solvers.words import sums


@dataclass(frozen=True)
class Patterns:
    """The distinct words of zero-one losses among many units, and the weight of each.

    Attributes
    ----------
    losses : BitLosses of shape (T, m)
        Losses of the m patterns, in an order that does not depend on that of the units.
    weight : ndarray of shape (m,)
        Summed weight of the units with each pattern, not normalised.
    groups : ndarray of shape (m,) or None
        Group of each pattern: units of different groups are in different patterns. None without groups.
    units : ndarray of shape (n,) or None
        Pattern of each unit; None in a table that was merged from others.
    """

    losses: BitLosses
    weight: Floats
    groups: Ints | None = None
    units: Ints | None = None

    def __len__(self) -> int:
        """Return m, the number of patterns."""
        return len(self.weight)


def count_patterns(
    losses: npt.ArrayLike | BitLosses,
    weight: npt.ArrayLike | None = None,
    groups: npt.ArrayLike | None = None,
) -> Patterns:
    """Count the distinct words of zero-one losses and sum the weights of their units.

    With the table instead of the units, ``minimize_cvar_mixture(table.losses, alpha, table.weight)`` has the
    same mixture, value and bound. A unit's share of the weight of its pattern is in proportion to its own:
    ``unit_weights[table.units] * weight / table.weight[table.units]``.

    Parameters
    ----------
    losses : array-like of shape (T, n) or BitLosses
        Booleans or zeros and ones: the loss of every hypothesis on every unit.
    weight : array-like of shape (n,), optional
        Non-negative weights of the units; 1 without any.
    groups : array-like of int of shape (n,), optional
        Groups, classes or cells of the units, to be kept apart.

    Returns
    -------
    Patterns

    Raises
    ------
    ValueError
        If an argument is not as described.

    Examples
    --------
    >>> import numpy as np
    >>> from tailboost.solvers import count_patterns, minimize_cvar_mixture
    >>> losses = np.array([[0, 0, 0, 1, 1], [1, 1, 0, 0, 0]], dtype=bool)
    >>> table = count_patterns(losses)
    >>> table.losses.toarray().astype(int)
    array([[0, 1, 0],
           [0, 0, 1]])
    >>> table.weight
    array([1., 2., 2.])
    >>> table.units
    array([2, 2, 0, 1, 1])
    >>> minimize_cvar_mixture(table.losses, 0.5, table.weight).mixture
    array([0.5, 0.5])
    """
    bits = losses if isinstance(losses, BitLosses) else BitLosses.from_rows(losses)
    n_members, n_units = bits.shape
    if not n_members:
        raise ValueError("losses holds no hypothesis: T must be at least 1")
    summed = np.ones(n_units) if weight is None else finite(weight, "weight")
    if summed.shape != (n_units,):
        raise ValueError(f"weight must have shape ({n_units},), one for each unit, got {summed.shape}")
    if summed.min() < 0:
        raise ValueError(f"weight must not be negative, got {summed.min()}")
    keyed = bits
    if groups is not None:
        # The group's number is a few more bits of the word.
        codes = _codes(groups, n_units)
        for bit in range(int(codes.max()).bit_length()):
            keyed = keyed.append(codes >> bit & 1)
    first, position = keyed.patterns()
    return Patterns(
        bits.select(units=first),
        sums(position, summed, first.size),
        None if groups is None else np.asarray(groups)[first].astype(np.intp),
        position,
    )


def _codes(groups: npt.ArrayLike, n_units: int) -> Ints:
    """Return non-negative numbers in the order of the groups."""
    given = np.asarray(groups)
    if given.shape != (n_units,) or given.dtype.kind not in "iu":
        raise ValueError(
            f"groups must be integers of shape ({n_units},), one for each unit, "
            f"got {given.dtype} of shape {given.shape}"
        )
    return given.astype(np.intp) - int(given.min())
