"""Which rows were used before: one digest a row, and two rules. No bound reads them: they only refuse."""

from __future__ import annotations

import base64
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, Self, get_args

import numpy as np
from numpy.typing import NDArray

from tailboost.core.array_types import Document, Hashes, Ints
from tailboost.core.exceptions import LeakageError
from tailboost.rows.fingerprints import hashes_of_names, hashes_of_pairs

#: Reason for rows that equal known rows: copies, or features and scores with few values.
EqualRows = Literal["copies", "natural"]
# Uses of rows, in messages.
TRAINED_ON = "the model was trained on"
SELECTED_ON = "the rule was selected on"
CALIBRATED_ON = "the rule was calibrated on"
# Largest number of different digests that are kept of a table, of four bytes each.
MOST_DIGESTS = 50_000
# Largest fraction of rows of a table that repeat one another, or that equal known rows, by chance.
BY_CHANCE = 0.05
# Allowed excess over this fraction, in standard errors.
STANDARD_ERRORS = 3.0
# Probability up to which a table of repeating rows is no part of another one by chance.
PART_BY_CHANCE = 1e-5
# Fewest different rows of a table of copies: chance makes less than one such table in a million.
FEWEST_COPIED = 21


@dataclass(frozen=True, eq=False)
class Seen:
    """How often each row occurs in a table; of a large table, in a sample of contents.

    Attributes
    ----------
    digests : ndarray of uint32, shape (m,)
        The smallest distinct digests, sorted. A digest has the content of a row, of scores also the label.
    counts : ndarray of int, shape (m,)
        Number of rows of each digest.
    limit : int
        All rows with a digest of at most this are counted.
    use : str
        What the rows were used for, as the start of a sentence.
    of_scores : bool
        Whether the rows are scores with labels: then different rows may be equal.
    """

    digests: NDArray[np.uint32]
    counts: Ints
    limit: int
    use: str = ""
    of_scores: bool = False

    @classmethod
    def of(cls, hashes: Hashes, use: str = "", labels: Any = None) -> Self:
        """Return the rows of a table by their `hash_rounded_rows`; ``labels`` are given for scores."""
        if labels is not None and len(hashes):
            hashes = hashes_of_pairs(hashes, hashes_of_names(labels))
        short = (hashes >> np.uint64(32)).astype(np.uint32)
        digests, counts = np.unique(short, return_counts=True)
        limit = 2**32 - 1
        if len(digests) > MOST_DIGESTS:
            limit = int(digests[MOST_DIGESTS - 1])
        return cls(digests, counts, limit, use, labels is not None)._up_to(limit)

    def _up_to(self, limit: int) -> Self:
        """Return the rows with a digest of at most a limit."""
        n = int(np.searchsorted(self.digests, limit, side="right"))
        return replace(self, digests=self.digests[:n], counts=self.counts[:n], limit=limit)

    def __len__(self) -> int:
        return int(self.counts.sum())

    @property
    def repeated(self) -> float:
        """Fraction of the rows with an equal row in the table."""
        return float(self.counts[self.counts > 1].sum() / max(1, len(self)))

    def beside(self, other: Seen) -> tuple[Seen, Seen]:
        """Return both tables within the samples of both."""
        limit = min(self.limit, other.limit)
        return self._up_to(limit), other._up_to(limit)

    def share_in(self, known: Seen) -> float:
        """Return the fraction of these rows that equal known rows; NaN without rows to compare."""
        new, used = self.beside(known)
        if not len(new):
            return float("nan")
        return float(new.counts[np.isin(new.digests, used.digests)].sum() / len(new))

    def repeats(self, known: Seen, equal_rows: EqualRows = "copies") -> bool:
        """Return whether these rows repeat known rows beyond chance.

        Rows with features, or scores that hardly repeat, may have one row in twenty of the smaller table, and
        three standard errors, in common. Fresh rows with features equal known rows about as often as rows
        of either table equal one another, so this share is added for them; copies that somebody made of the
        known rows add nothing, as the new rows do not repeat. Equal rows that repeat by nature may not be the
        other table or, unless chance makes so small a part, a part of it. Of 8,640 pairs of independent
        tables of scores with 2 to 7 decimals, in 216 settings with shifts of the population, 1 is taken for a
        reused one.
        """
        new, used = self.beside(known)
        if self.of_scores != known.of_scores or not len(new) or not len(used):
            return False
        small, large = sorted((new, used), key=len)
        _, of_small, of_large = np.intersect1d(
            small.digests, large.digests, assume_unique=True, return_indices=True
        )
        n_common = int(np.minimum(small.counts[of_small], large.counts[of_large]).sum())
        if equal_rows == "copies":
            hardly_repeat = max(new.repeated, used.repeated) <= BY_CHANCE
            if hardly_repeat and n_common > _by_chance(len(small), BY_CHANCE):
                return True
            more = max(1.0, len(used) / len(new))
            alike = min(1.0, BY_CHANCE + min(used.repeated, more * new.repeated))
            if not self.of_scores and new.share_in(used) * len(new) > _by_chance(
                len(new), alike
            ):
                return True
        if n_common < len(small):
            return False
        repeated = max(large.repeated, 1 / len(large))
        return len(small) == len(large) or repeated ** len(small) < PART_BY_CHANCE

    def to_dict(self) -> Document:
        """Return plain types for JSON."""
        return {
            "digests": _packed(self.digests),
            "counts": _packed(self.counts),
            "limit": self.limit,
            "use": self.use,
            "of_scores": self.of_scores,
        }

    @classmethod
    def from_dict(cls, state: Document) -> Self:
        """Return the rows written by `to_dict`; raise KeyError, TypeError or ValueError for another state."""
        digests = _unpacked(state["digests"])
        counts = _unpacked(state["counts"]).astype(np.intp)
        if len(digests) != len(counts) or (digests[1:] <= digests[:-1]).any():
            raise ValueError("digests of rows are damaged")
        return cls(
            digests, counts, int(state["limit"]), str(state["use"]), bool(state["of_scores"])
        )


def _packed(numbers: Ints | NDArray[np.uint32]) -> str:
    """Return numbers below 2³² as text."""
    return base64.b64encode(numbers.astype("<u4").tobytes()).decode()


def _unpacked(text: str) -> NDArray[np.uint32]:
    """Return the numbers of a text by `_packed`."""
    return np.frombuffer(base64.b64decode(text, validate=True), dtype="<u4").astype(np.uint32)


def _by_chance(n: int, share: float) -> float:
    """Return how many of n rows may equal known rows: a share of them, and three standard errors."""
    return share * n + STANDARD_ERRORS * float(np.sqrt(share * (1 - share) * n))


def first_repeated(new: Seen, tables: Sequence[Seen], equal_rows: EqualRows) -> Seen | None:
    """Return the first of some tables that a table repeats; None without one."""
    return next((table for table in tables if new.repeats(table, equal_rows)), None)


def checked_equal_rows(value: EqualRows | None) -> EqualRows:
    """Return ``equal_rows``, "copies" for None; raise ValueError for another value than the two."""
    if value is None:
        return "copies"
    if value not in get_args(EqualRows):
        raise ValueError(f"equal_rows must be 'copies' or 'natural', got {value!r}")
    return value


def refuse_copied(name: str, hashes: Hashes) -> None:
    """Raise LeakageError for a table, called ``name``, in which each row occurs k > 1 times or a multiple."""
    counts = np.unique(hashes, return_counts=True)[1]
    k = int(np.gcd.reduce(counts))
    if k > 1 and len(counts) >= FEWEST_COPIED:
        raise LeakageError(
            f"{name}: each row occurs {k} times, or a multiple of {k}. Give each row once; if nobody copied "
            "a row, state equal_rows='natural'"
        )
