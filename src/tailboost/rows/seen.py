"""Which rows were used before: one digest a row, and two rules. No bound reads them: they only refuse."""

from __future__ import annotations

import base64
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, Self, get_args

import numpy as np
from numpy.typing import NDArray

from tailboost.core.array_types import Document, Hashes, Ints
from tailboost.core.checks import distinct_and_places
from tailboost.core.exceptions import LeakageError
from tailboost.rows.fingerprints import hash_rows, hashes_of_pairs

#: Reason for rows that equal known rows: copies, or features and scores with few values.
EqualRows = Literal["copies", "natural"]
# Uses of rows, in messages.
TRAINED_ON = "the model was trained on"
SELECTED_ON = "the rule was selected on"
CALIBRATED_ON = "the rule was calibrated on"
USED_ON = "the model or rule was trained, selected or calibrated on"
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
COMPLETE = 2**32 - 1


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
    limit: int = COMPLETE
    use: str = ""
    of_scores: bool = False

    @classmethod
    def of(cls, hashes: Hashes, use: str = "", labels: Any = None) -> Self:
        """Return the rows of a table by their `hash_rounded_rows`; ``labels`` are given for scores."""
        if labels is not None and len(hashes):
            classes, place = distinct_and_places(np.asarray(labels))
            # The text of a label has the same hash for all types: 1 in one table may be "1" in another.
            names = np.array([str(label) for label in classes.tolist()], dtype=object)
            hashes = hashes_of_pairs(hashes, hash_rows(names[:, None])[place])
        short = (hashes >> np.uint64(32)).astype(np.uint32)
        digests, counts = np.unique(short, return_counts=True)
        return cls(digests, counts, use=use, of_scores=labels is not None)._sampled()

    @classmethod
    def union(cls, tables: Sequence[Seen]) -> Seen:
        """Return the rows of several tables of one kind together."""
        digests, place = np.unique(
            np.concatenate([table.digests for table in tables]), return_inverse=True
        )
        counts = np.bincount(place, np.concatenate([table.counts for table in tables])).astype(
            np.intp
        )
        limit = min(table.limit for table in tables)
        use = USED_ON if len({table.use for table in tables}) > 1 else tables[0].use
        return cls(digests, counts, limit, use, tables[0].of_scores)._sampled()

    def _sampled(self) -> Self:
        limit = self.limit
        if len(self.digests) > MOST_DIGESTS:
            limit = min(limit, int(self.digests[MOST_DIGESTS - 1]))
        return self._up_to(limit)

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
        three standard errors, in common. Equal rows that repeat by nature may not be the other table or,
        unless chance makes so small a part, a part of it. Of 8,640 pairs of independent tables of scores
        with 2 to 7 decimals, in 216 settings with shifts of the population, 1 is taken for a reused one.
        """
        if self.of_scores != known.of_scores:
            return False
        new, used = self.beside(known)
        if not len(new) or not len(used):
            return False
        if np.array_equal(new.digests, used.digests) and np.array_equal(
            new.counts, used.counts
        ):
            return True  # the same table
        small, large = sorted((new, used), key=len)
        # Of each content of the small table: the number of equal rows in the large one.
        place = np.searchsorted(large.digests, small.digests).clip(max=len(large.digests) - 1)
        n_there = large.counts[place] * (large.digests[place] == small.digests)
        if equal_rows == "copies":
            hardly_repeat = max(new.repeated, used.repeated) <= BY_CHANCE
            if hardly_repeat and is_beyond_chance(
                int(np.minimum(small.counts, n_there).sum()), len(small)
            ):
                return True
            if not self.of_scores and is_beyond_chance(
                round(new.share_in(used) * len(new)), len(new)
            ):
                return True
        repeated = max(large.repeated, 1 / len(large))
        is_part = bool((n_there >= small.counts).all())
        return is_part and len(small) * np.log(repeated) < np.log(PART_BY_CHANCE)

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
        if len(digests) != len(counts) or (np.diff(digests.astype(np.int64)) <= 0).any():
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


def is_beyond_chance(n_equal: int, n: int) -> bool:
    """Return whether more of n rows equal known rows than one in twenty and three standard errors."""
    standard_error = np.sqrt(BY_CHANCE * (1 - BY_CHANCE) / max(1, n))
    return bool(n_equal > n * (BY_CHANCE + STANDARD_ERRORS * standard_error))


def first_repeated(new: Seen, tables: Sequence[Seen], equal_rows: EqualRows) -> Seen | None:
    """Return the first of some tables, or all of them together, that a table repeats; None without one."""
    alike = [table for table in tables if table.of_scores == new.of_scores]
    together = [Seen.union(alike)] if len(alike) > 1 else []
    for table in (*alike, *together):
        if new.repeats(table, equal_rows):
            return table
    return None


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
