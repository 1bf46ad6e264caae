"""The training set of a game whose rows lie on workers: a table of the combinations that occur among them.

A row enters a game through its class, its groups, its weight, the part it is held out with, and what the
members so far answer to it. Rows for which all of these are equal are one row of the table, which therefore
grows with the members and not with the rows.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from tailboost._rows import Sketch, fingerprint
from tailboost._typing import Floats, Ints, Labels, Mask
from tailboost.dask._worker import Tally
from tailboost.data import Alike, Problem, Rows
from tailboost.game import Units


@dataclass(frozen=True)
class Table:
    """The combinations that occur, in an order that depends on nothing but the combinations.

    Parameters
    ----------
    columns : tuple of ndarrays of shape (m,)
        What tells them apart, in the order in which they were told apart.
    tally : Tally
        Their rows.
    """

    columns: tuple[Ints, ...]
    tally: Tally

    def split(self, tally: Tally, radix: int) -> tuple[Table, Ints]:
        """Return the table with one more column, and the former combination of each new one."""
        parent, value = np.divmod(tally.keys, radix)
        return Table((*(column[parent] for column in self.columns), value), tally), parent


class ClusterProblem(Problem):
    """A problem whose rows are combinations, each of which stands for several rows on the workers.

    Parameters
    ----------
    sample : table
        A few rows as they were given.
    table : Table
        By class, groups and half, in one column, and the half.
    y : ndarray of shape (m,)
        Class number of each combination.
    groups : ndarray of shape (m,) or (m, c), or None
        Its groups.
    factor : ndarray of shape (m,)
        By which class weights multiply the weights of its rows.
    n_classes : int
        K.
    least : float
        The smallest weight of a row.
    sketch : Sketch
        Fingerprints of the rows.
    digest : int
        A number by which the rows are known again.
    """

    def __init__(
        self,
        sample: Any,
        table: Table,
        y: Ints,
        groups: Ints | None,
        factor: Floats,
        n_classes: int,
        least: float,
        sketch: Sketch,
        digest: int,
    ) -> None:
        tally = table.tally
        nothing = np.empty(0, dtype=np.intp)
        self.n_rows = int(tally.rows.sum())
        super().__init__(
            sample, y, tally.weight * factor, groups, n_classes, nothing, self.n_rows, validation=None
        )
        self.table, self.factor, self.least, self.digest = table, factor, least, digest
        self._sketch = sketch

    def refine(self, tally: Tally, radix: int) -> None:
        """Tell the combinations apart by one more value of their rows."""
        self.table, parent = self.table.split(tally, radix)
        self.y, self.factor = self.y[parent], self.factor[parent]
        self.groups = None if self.groups is None else self.groups[parent]
        self.weight = tally.weight * self.factor

    @property
    def sketch(self) -> Sketch:
        """Fingerprints of the rows."""
        return self._sketch

    @property
    def rows(self) -> Rows:
        """The combinations, as rows to be judged on."""
        tally = self.table.tally
        alike = Alike(tally.rows, tally.squares * self.factor**2, self.table.columns[1] == 1)
        words = f"the {self.n_rows:,} training rows"
        return Rows(self.y, self.weight, self.groups, words, alike=alike)

    def units(self, among: Mask | None) -> Units:
        """Return the combinations (of some) as units, which count as the rows they stand for."""
        units, factor = (
            Units.samples(self.weight, among),
            self.factor if among is None else self.factor[among],
        )
        return replace(units, finest=units.total / (self.least * float(factor.min())))

    def fingerprint(self, classes: Labels) -> str:
        """Digest by which a fit that goes on recognises its data and labels."""
        words = f"{self.digest} {self.n_rows} {classes.tolist()!r}".encode()
        return fingerprint(np.frombuffer(words, dtype=np.uint8), self.weight, self.y)
