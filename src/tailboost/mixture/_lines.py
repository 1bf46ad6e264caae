"""Tallies of errors: how often members err on the rows of a class and groups, in a half, out of a fold."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy.special import ndtr

from tailboost import rates
from tailboost._typing import Floats, Ints, Mask
from tailboost.combiners import Ledger
from tailboost.combiners.ledger import LOSS_DECIMALS
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
    """Judged rows that are alike in class, groups, half and fold, taken together."""

    rows: Rows  # the lines, each of which stands for several rows
    line: Ints  # shape (n,): that of each row
    share: Floats  # shape (n,): weight of each row in its line

    @classmethod
    def of(cls, rows: Rows, table: Table) -> Lines:
        """Return the lines of judged rows, which are the first ones of a table."""
        stratum = table.stratum[: len(rows.y)]
        half = np.zeros(len(stratum), bool) if table.half is None else table.half[: len(stratum)]
        keys = 2 * stratum + half
        if rows.fold is not None:
            keys = keys * (int(rows.fold.max()) + 1) + rows.fold
        _, first, line = np.unique(keys, return_index=True, return_inverse=True)
        n = len(first)
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
        n, n_strata, y = len(self.line), len(table.strata.mass), table.strata.y[table.stratum]
        half = np.zeros(len(y), dtype=np.intp) if table.half is None else table.half.astype(np.intp)
        cell, share = half * n_strata + table.stratum, table.share
        of_line, half_of_line = (np.zeros(len(self.rows.y), dtype=np.intp) for _ in range(2))
        of_line[self.line], half_of_line[self.line] = cell[:n], half[:n]
        mass = np.maximum(np.bincount(cell[:n], share[:n], 2 * n_strata), 1e-300)
        wrong = [rates.wrong(table.answers(member), y) for member in members]
        wrong += [np.append(losses, np.zeros(len(y) - n)) for losses in drawn]

        def by_line(losses: Any, of_rows: Any = None) -> Floats:
            found = self.means(losses[:n] if of_rows is None else of_rows)
            if n < len(y):
                more = np.bincount(cell[n:], share[n:] * losses[n:], 2 * n_strata)
                found = (found + (more / mass)[of_line]).clip(0.0, 1.0)
            return found.round(LOSS_DECIMALS)

        def beside_the_best(part: Ints, of_part: Ints) -> DenseLosses:
            weights = [self.rows.weight * (of_part == k) for k in range(int(part.max()) + 1)]
            best = [int((counted @ (w / w.sum())).round(LOSS_DECIMALS).argmin()) for w in weights]
            least = np.choose(part, [wrong[t] for t in best])
            return DenseLosses(np.array([by_line(losses * least) for losses in wrong]))

        counted = np.array([by_line(losses) for losses in wrong])
        smooth = [
            by_line(losses, chances(member, table, losses[:n]))
            for member, losses in zip(members, wrong, strict=False)
        ] if near else []  # fmt: skip
        return Ledger(
            self.rows,
            DenseLosses(counted),
            BitLosses(len(self.rows.y)),
            near=DenseLosses(np.array(smooth)) if near else None,
            both=beside_the_best(0 * half, 0 * half_of_line),
            of_halves=beside_the_best(half, half_of_line),
        )


def chances(member: Member, table: Table, wrong: Mask) -> Floats:
    """Return by how much each judged row counts as an error if one near a threshold does in part, shape (n,).

    That is ``Φ(−margin/h)`` with ``h = 4^(1/3) σ n^(−1/3)``, where σ is the spread of the margins on the
    stratum's n rows: a row that just passes is no proof that others do. Constants are near to nothing.
    """
    n, n_strata = len(wrong), len(table.strata.mass)
    stratum, share = table.stratum[:n], table.share[:n]
    margins = member.margins(
        table.beliefs[member.source][:, :n], table.strata.y[stratum], table.strata.n_classes
    )
    if not np.isfinite(margins).all():
        return wrong.astype(np.float64)
    mass = np.maximum(np.bincount(stratum, share, n_strata), 1e-300)
    mean = np.bincount(stratum, share * margins, n_strata) / mass
    spread = np.sqrt(np.bincount(stratum, share * (margins - mean[stratum]) ** 2, n_strata) / mass)
    h = BANDWIDTH * spread * np.maximum(table.strata.size, 1.0) ** (-1.0 / 3.0)
    found: Floats = ndtr(-margins / np.maximum(h, LEAST_BANDWIDTH)[stratum])
    return found
