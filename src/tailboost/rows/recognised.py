"""Rows that were used before, recognised beyond chance.

A table is kept as one digest of each row, and compared with later tables. No bound reads the digests: they
only refuse rows.
"""

import base64
from collections.abc import Iterable, Sequence
from typing import Literal, Self

import numpy as np

from tailboost.core import Array, Document, Hashes, LeakageError, Mask, frozen_object
from tailboost.rows.equal_rows import equal_by_chance, is_part, most_in_common
from tailboost.rows.fingerprints import hashes_of_pairs

#: Reason for rows that equal known rows: copies, or features and scores with few values.
EqualRows = Literal["copies", "natural"]

# The limit of a table all of whose rows have digests.
NO_LIMIT = 2**32 - 1
# Uses of rows, in messages.
TRAINED_ON = "the model was trained on"
SELECTED_ON = "the rule was selected on"
CALIBRATED_ON = "the rule was calibrated on"
# About the largest number of rows with digests that are kept of a table, of four bytes each.
MOST_DIGESTS = 50_000
# Of rows of a sampled table so many are expected to have digests, at least, where it recognises them.
FEWEST_DIGESTS = 20
# Fewer stated training rows than this share of the fresh ones are not taken for all.
FEWEST_TRAINED = 0.1


@frozen_object
class Seen:
    """The rows of a table as digests, by which they are recognised in later tables.

    Of a large table these are a sample: the rows with the smallest digests, which any table with equal rows
    has among its smallest, too.

    Attributes
    ----------
    digests : ndarray of uint32, shape (m,)
        The smallest digests, sorted, one for each row.
    limit : int
        All rows with a digest of at most this are included.
    use : str
        What the rows were used for, as the start of a sentence.
    of_scores : bool
        Whether the rows are scores. Different rows may have equal scores, so their digests tell also whether
        the label has a column of scores: other names of the labels make no other rows.
    whole : int or None
        Digest of all rows of the table, in any order. If another table may have as many rows of each content
        by chance (`equal_by_chance`), it is the digest of the rows in their order. If even this may be equal
        by chance, it is None.
    """

    digests: Array
    limit: int
    use: str
    of_scores: bool
    whole: int | None

    @classmethod
    def of(
        cls,
        hashes: Hashes,
        use: str = "",
        has_column: Mask | None = None,
        most: int = MOST_DIGESTS,
    ) -> Self:
        """Return the rows of a table by their `hash_rows`, rounded, with about ``most`` digests.

        ``has_column`` is given for scores, see `Rows.has_column`.
        """
        if has_column is not None:
            hashes = hashes_of_pairs(hashes, (~has_column).astype(np.uint64))
        digests = np.sort((hashes >> 32).astype(np.uint32))
        limit = NO_LIMIT
        if len(digests) > most:
            limit = int(digests[most - 1])
        counts = np.unique_counts(digests).counts
        if equal_by_chance(counts, in_order=False):
            hashes = hashes_of_pairs(hashes, np.arange(len(hashes), dtype=np.uint64))
        whole = None
        if not equal_by_chance(counts, in_order=True):
            whole = int(hashes.sum() >> 32)
        return cls(digests[digests <= limit], limit, use, has_column is not None, whole)

    def recognises(self, n_rows: int) -> bool:
        """Return whether so many rows of this table are enough to have digests here.

        Digests are uniform: a share limit / 2³² of the rows is expected to have one here.
        """
        return self.limit == NO_LIMIT or n_rows * self.limit >= FEWEST_DIGESTS << 32

    def comparable(self, known: Self) -> tuple[Array, Array]:
        """Return the digests of these and of known rows, up to the limit of both.

        There are none if one table has rows of scores and the other one has not.
        """
        if self.of_scores != known.of_scores:
            return self.digests[:0], known.digests[:0]
        limit = min(self.limit, known.limit)
        return self.digests[self.digests <= limit], known.digests[known.digests <= limit]

    def share_in(self, known: Self) -> float:
        """Return the fraction of these rows that equal known rows; 0 without rows to compare."""
        new, old = self.comparable(known)
        return np.isin(new, old).sum() / max(len(new), 1)

    def repeats(self, known: Self, equal_rows: EqualRows = "copies") -> bool:
        """Return whether these rows repeat known rows beyond chance.

        If equal rows are "copies", the tables repeat if they have more rows in common than `most_in_common`.
        For either reason they repeat if one is a part of the other, or the same table (`is_part`).
        """
        if self.whole is not None and self.whole == known.whole:
            return True
        small, large = sorted(self.comparable(known), key=len)
        if not small.size:
            return False
        contents, counts = np.unique_counts(small)
        in_large = np.searchsorted(large, contents, "right") - np.searchsorted(large, contents)
        n_common = np.minimum(counts, in_large).sum()
        counts_of_large = np.unique_counts(large).counts
        if n_common == len(small) and is_part(counts, counts_of_large):
            return True
        return equal_rows == "copies" and n_common > most_in_common(counts, counts_of_large)

    def to_dict(self) -> Document:
        """Return plain types for JSON."""
        digests = base64.b64encode(self.digests.astype("<u4").tobytes()).decode()
        return vars(self) | {"digests": digests}

    @classmethod
    def from_dict(cls, state: Document) -> Self:
        """Return the rows written by `to_dict`; raise KeyError, TypeError or ValueError for another state."""
        digests = np.frombuffer(base64.b64decode(state["digests"], validate=True), "<u4")
        if (digests[1:] < digests[:-1]).any():
            raise ValueError("digests of rows are damaged")
        return cls(
            digests,
            int(state["limit"]),
            str(state["use"]),
            bool(state["of_scores"]),
            state["whole"],
        )


def first_repeated(
    new: Seen, tables: Iterable[Seen], equal_rows: EqualRows = "copies"
) -> Seen | None:
    """Return the first of some tables that a table repeats; None without one."""
    return next((table for table in tables if new.repeats(table, equal_rows)), None)


def refuse_repeated(rows: Seen, tables: Sequence[Seen], equal_rows: EqualRows) -> float:
    """Return the largest share of rows that equal those of a table; raise LeakageError beyond chance."""
    known = first_repeated(rows, tables, equal_rows)
    if known is None:
        return max(map(rows.share_in, tables), default=0.0)
    cure = ""
    if equal_rows == "copies" and first_repeated(rows, tables, "natural") is None:
        cure = ". If equal rows are different cases, `certify` takes equal_rows='natural'"
    raise LeakageError(
        f"X: {known.use} {100 * rows.share_in(known):.3g} % of these rows, or equal ones, "
        f"so errors are too small. Give rows that no fit, selection or calibration had{cure}"
    )
