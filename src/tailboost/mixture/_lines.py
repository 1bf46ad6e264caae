"""Tallies of errors: how often members err on the rows of a class and groups, in a half, out of a fold."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from scipy.special import ndtr

from tailboost._typing import Floats, Ints
from tailboost.combiners import Ledger
from tailboost.combiners.ledger import LOSS_DECIMALS, Noise
from tailboost.data import LOTS, Multiplicity, Rows
from tailboost.solvers import BitLosses
from tailboost.solvers.bits import DenseLosses
from tailboost.thresholds import Member, Table

# Bandwidth of the kernel estimate of a chance, in standard deviations times n^(-1/3): that of least error
# where margins are normal.
BANDWIDTH = 4.0 ** (1.0 / 3.0)
LEAST_BANDWIDTH = 1e-9


@dataclass(frozen=True, eq=False)
class Lines:
    """Judged rows that are alike in class, groups, half and fold, taken together.

    Parameters
    ----------
    rows : Rows
        The lines, each of which stands for several rows.
    line : ndarray of int, shape (n,)
        That of each row.
    share : ndarray of shape (n,)
        Weight of each row in its line.
    """

    rows: Rows
    line: Ints
    share: Floats

    @classmethod
    def of(cls, rows: Rows, table: Table) -> Lines:
        """Return the lines of judged rows, which are the first ones of a table."""
        stratum = table.stratum[: len(rows.y)]
        half = np.zeros(len(stratum), bool) if table.half is None else table.half[: len(stratum)]
        fold = np.zeros(len(stratum), np.uint8) if rows.fold is None else rows.fold
        keys = np.column_stack([stratum, half, fold])
        _, first, line = np.unique(keys, axis=0, return_index=True, return_inverse=True)
        line, n = line.ravel(), len(first)
        total = np.bincount(line, rows.weight, n).astype(np.float64)
        weight, of = rows.weight, line
        if rows.lots is not None:  # rows of one content are one row
            pairs, same = np.unique(line * LOTS + rows.lots, return_inverse=True)
            weight, of = np.bincount(same, weights=weight).astype(np.float64), pairs // LOTS
        lines = replace(
            rows,
            y=rows.y[first],
            weight=total,
            groups=None if rows.groups is None else rows.groups[first],
            lots=None,
            given=None,
            fold=None if rows.fold is None else rows.fold[first],
            multiplicity=Multiplicity(
                np.bincount(line, minlength=n).astype(np.float64),
                np.bincount(of, weight**2, n).astype(np.float64),
                half[first],
            ),
        )
        return cls(lines, line, rows.weight / total[line])

    def means(self, losses: Floats) -> Floats:
        """Return the mean of the rows' losses in each line, shape (L,)."""
        return np.bincount(self.line, self.share * losses, len(self.rows.y)).astype(np.float64)

    def ledger(
        self, members: Sequence[Member], table: Table, drawn: Sequence[Floats] = (), *, near: bool
    ) -> Ledger:
        """Return the errors of members by line.

        Parameters
        ----------
        members : sequence of Member
            The members.
        table : Table
            The rows, whose corrections count.
        drawn : sequence of ndarray of shape (n,)
            Losses of further members, whose answers are drawn.
        near : bool
            Whether errors are wanted in which a row near a threshold counts in part.
        """
        n, y, n_strata = len(self.line), table.strata.y[table.stratum], len(table.strata.mass)
        wrongs = [np.packbits(table.answers(member) != y) for member in members]
        half = np.zeros(len(y), dtype=np.intp) if table.half is None else table.half.astype(np.intp)
        cell = half * n_strata + table.stratum
        mass = np.maximum(np.bincount(cell[:n], table.share[:n], 2 * n_strata), 1e-300)
        of_line = np.zeros(len(self.rows.y), dtype=np.intp)
        of_line[self.line] = cell[:n]

        def loss(number: int) -> Floats:
            if number < len(wrongs):
                return np.unpackbits(wrongs[number], count=len(y)).astype(np.float64)
            return np.append(drawn[number - len(wrongs)], np.zeros(len(y) - n))

        def by_line(counted: Floats, smooth: Floats | None = None) -> Floats:
            found = self.means(counted[:n] if smooth is None else smooth)
            if n < len(y):
                more = np.bincount(cell[n:], table.share[n:] * counted[n:], 2 * n_strata)
                found = (found + (more / mass)[of_line]).clip(0.0, 1.0)
            return found.round(LOSS_DECIMALS)

        every = range(len(members) + len(drawn))
        losses = np.array([by_line(loss(number)) for number in every])
        # What tells chance from difference is asked of all rows, and of each half as if it were all.
        in_stratum = np.maximum(np.bincount(table.stratum[:n], table.share[:n], n_strata), 1e-300)
        wider = (mass[cell[:n]] / in_stratum[table.stratum[:n]]) ** (-1.0 / 3.0)
        asked = [(0 * half, np.ones(n)), (half, wider)][: 1 + (table.half is not None)]
        leasts = [np.choose(part, [loss(t) for t in self._firsts(losses, part)]) for part, _ in asked]
        noises: list[tuple[list[Floats], list[Floats]]] = [([], []) for _ in asked]
        for number in every:
            counted, margins = loss(number), None
            if near and number < len(members):
                belief = table.beliefs[members[number].source][:, :n]
                margins = members[number].margins(belief, y[:n], table.strata.n_classes)
                h = bandwidths(margins, table)[table.stratum[:n]]
            for (_, wide), least, (smooth, both) in zip(asked, leasts, noises, strict=True):
                both.append(by_line(counted * least))
                if margins is not None:
                    smooth.append(by_line(counted, chances(margins, counted[:n], h * wide)))
        own = [Noise(DenseLosses(np.array(a)) if near else None, DenseLosses(np.array(b))) for a, b in noises]
        return Ledger(
            self.rows,
            DenseLosses(losses),
            BitLosses(len(self.rows.y)),
            noise=own[0],
            of_halves=own[1] if len(own) > 1 else None,
        )

    def _firsts(self, losses: Floats, part: Ints) -> list[int]:
        """Return the member of least mean loss in each part of the rows."""
        of_line = np.zeros(len(self.rows.y), dtype=np.intp)
        of_line[self.line] = part[: len(self.line)]
        weights = [self.rows.weight * (of_line == k) for k in range(int(part.max()) + 1)]
        return [int((losses @ (w / w.sum())).round(LOSS_DECIMALS).argmin()) for w in weights]


def bandwidths(margins: Floats, table: Table) -> Floats:
    """Return by how much margins are smoothed in each stratum, shape (S,); 0 where all are ±∞.

    That is ``h = 4^(1/3) σ n^(−1/3)``, where σ is the spread of the margins on the stratum's n rows: a row
    that just passes is no proof that others do.
    """
    n, n_strata = len(margins), len(table.strata.mass)
    if not np.isfinite(margins).all():
        return np.zeros(n_strata)
    stratum, share = table.stratum[:n], table.share[:n]
    mass = np.maximum(np.bincount(stratum, share, n_strata), 1e-300)
    mean = np.bincount(stratum, share * margins, n_strata) / mass
    spread = np.sqrt(np.bincount(stratum, share * (margins - mean[stratum]) ** 2, n_strata) / mass)
    narrower = np.maximum(table.strata.size, 1.0) ** (-1.0 / 3.0)
    return np.maximum(BANDWIDTH * spread * narrower, LEAST_BANDWIDTH)


def chances(margins: Floats, wrong: Floats, h: Floats) -> Floats:
    """Return by how much each row counts as an error: by the normal kernel ``Φ(−margin/h)``, shape (n,)."""
    if not h.any():
        return wrong
    found: Floats = ndtr(-margins / h)
    return found
