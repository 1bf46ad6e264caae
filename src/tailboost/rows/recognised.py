"""Rows that equal other rows beyond chance: copies within a table, and rows that were used before.

A table is kept as one digest of each row, and compared with later tables. No bound reads the digests: they
only refuse rows.
"""

from __future__ import annotations

import base64
import math
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any, Literal, Self

import numpy as np
from numpy.typing import NDArray

from tailboost.core import Document, Hashes, Ints, LeakageError, frozen_object
from tailboost.rows.fingerprints import hashes_of_names, hashes_of_pairs

#: Reason for rows that equal known rows: copies, or features and scores with few values.
EqualRows = Literal["copies", "natural"]


# -- equal rows of one table --------------------------------------------------------------------------------

CURE_OF_COPIES = (
    "Give each row once; if equal rows are different cases, pass clusters=, an id of each case"
)
# Probability up to which so many contents of a table occur k times, or a multiple, by chance.
COPIED_BY_CHANCE = 1e-6
MOST_COPIES = 20  # the largest k
# Copies are concentrated in a label if more than half of its contents repeat, and hardly any of another
# one; each has so many contents. Where few values are dense for one label, some of the other's repeat, too.
MOST_REPEAT, FEW_REPEAT, LEAST_CONTENTS = 0.5, 0.02, 100


def refuse_copies(hashes: Hashes, y: Ints) -> float:
    """Return the share of rows that equal another one of a table; 0 if there are over two rows to a content.

    ``hashes`` are of rows with labels, ``y`` the numbers of the labels.

    In independent draws, an occurring content has an even number of rows with a probability below 1/2, and a
    multiple of k > 2 more rarely. Raise LeakageError if Hoeffding's bound excludes this for the table or
    for a label, or if contents of one label repeat, and those of another one hardly do.
    """
    counts_by_label = [np.unique_counts(hashes[y == label]).counts for label in np.unique(y)]
    counts = np.concatenate(counts_by_label)
    for part in (counts, *counts_by_label):
        by_chance = len(part) / 2 + math.sqrt(len(part) * -math.log(COPIED_BY_CHANCE) / 2)
        occurring = np.bincount(part)  # number of contents with so many rows
        for k in range(MOST_COPIES, 1, -1):
            copied = occurring[k::k].sum()
            if copied > by_chance:
                raise LeakageError(
                    f"X: {copied:,} of {len(part):,} different rows{'' if part is counts else ' of a label'} "
                    f"occur {k} times, or a multiple of {k}, which is no chance. {CURE_OF_COPIES}"
                )
    repeating = [np.mean(each > 1) for each in counts_by_label if len(each) >= LEAST_CONTENTS]
    if repeating and max(repeating) > MOST_REPEAT and min(repeating) < FEW_REPEAT:
        raise LeakageError(
            f"X: {max(repeating):.0%} of the different rows of one label occur more than once, "
            f"and {min(repeating):.0%} of those of another, as after oversampling. {CURE_OF_COPIES}"
        )
    return float(counts[counts > 1].sum() / len(y)) if 2 * len(counts) >= len(y) else 0.0


# -- equal rows of several tables ---------------------------------------------------------------------------

# Uses of rows, in messages.
TRAINED_ON = "the model was trained on"
SELECTED_ON = "the rule was selected on"
CALIBRATED_ON = "the rule was calibrated on"
# About the largest number of rows with digests that are kept of a table, of four bytes each.
MOST_DIGESTS = 50_000
# So many rows of a table, or this share of them, may equal known rows where no row repeats, or more that no
# table has by itself: `_most_by_chance` has this bound of their probability. Their number is random, too, so
# chance makes as many in fewer than one in 1,000 pairs of tables.
A_FEW = 3.0
SMALL_SHARE = 0.001
APART_BY_CHANCE = 0.004
# A table may have more rows in common with another one than its own repetition predicts. First, so many
# standard errors of the prediction.
STANDARD_ERRORS = 3.0
# Second, what so many further repeating rows predict: where none was seen, 4.6 pairs are the 99 % bound of
# their mean.
UNSEEN = 9.0
# Third, as the population may have shifted, the prediction once more, up to this share of the rows.
SHIFTED = 0.05
# Probability up to which a table of repeating rows is no part of another one by chance.
PART_BY_CHANCE = 1e-5
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
    of_scores : False, "columns" or True
        What the digests have beside the values. False: nothing. Different rows of scores may have equal
        values, so their digests have the label. "columns": whether it has a column of scores. True, in files
        of earlier versions: its name.
    named : Seen or None
        Of scores the same rows with the names of the labels, to compare with files of earlier versions.
    """

    digests: NDArray[np.uint32]
    limit: int = 2**32 - 1
    use: str = ""
    of_scores: Literal[False, "columns", True] = False
    named: Seen | None = None

    @classmethod
    def of(
        cls, hashes: Hashes, use: str = "", rows: Any = None, score_labels: Sequence[Any] = ()
    ) -> Self:
        """Return the rows of a table by their `hash_rows`, rounded.

        Of scores ``score_labels`` are the labels of the columns, and ``rows``, as of `Rows.read`, have those
        of the rows: other names of them make no other rows.
        """
        if len(score_labels) and len(hashes):
            by_name = hashes_of_pairs(hashes, hashes_of_names(rows.classes)[rows.y])
            named = replace(cls.of(by_name, use), of_scores=True)
            is_other = [name not in score_labels for name in rows.classes.tolist()]
            by_column = hashes_of_pairs(hashes, np.array(is_other, np.uint64)[rows.y])
            return replace(cls.of(by_column, use), of_scores="columns", named=named)
        digests = np.sort((hashes >> 32).astype(np.uint32))
        seen = cls(digests, use=use)
        return seen.up_to(int(digests[MOST_DIGESTS - 1])) if len(seen) > MOST_DIGESTS else seen

    def __len__(self) -> int:
        return len(self.digests)

    def up_to(self, limit: int) -> Self:
        """Return the rows with a digest of at most a limit."""
        n = np.searchsorted(self.digests, limit, side="right")
        return replace(self, digests=self.digests[:n].copy(), limit=min(self.limit, limit))

    @property
    def n_repeated(self) -> int:
        """Number of the rows with an equal row in the table."""
        counts = np.unique_counts(self.digests).counts
        return int(counts[counts > 1].sum())

    def in_form_of(self, known: Seen) -> Seen:
        """Return these rows in the form of known rows, up to their limit."""
        new = self.named if self.named and known.of_scores is True else self
        return new.up_to(known.limit)

    def share_in(self, known: Seen) -> float:
        """Return the fraction of these rows that equal known rows; NaN without rows to compare."""
        new = self.in_form_of(known)
        if not len(new):
            return np.nan
        return float(np.isin(new.digests, known.digests).mean())

    def repeats(self, known: Seen, equal_rows: EqualRows = "copies") -> bool:
        """Return whether these rows repeat known rows beyond chance.

        If equal rows are "copies", the tables repeat if they have more rows in common than `_most_by_chance`.
        For either reason they repeat if they are the same table, or if one is a part of the other and is so
        large that chance hardly makes it one.
        """
        new = self.in_form_of(known)
        small, large = sorted((new, known.up_to(new.limit)), key=len)
        if new.of_scores != known.of_scores or not len(small):
            return False
        values, counts = np.unique_counts(small.digests)
        first, end = (
            np.searchsorted(large.digests, values, side) for side in ("left", "right")
        )
        n_common = int(np.minimum(counts, end - first).sum())
        if n_common == len(small):  # the same table, or a part of the larger one
            # A row is in the larger table by chance about as often as rows repeat there.
            by_chance = (max(large.n_repeated, 1) / len(large)) ** len(small)
            if len(small) == len(large) or by_chance < PART_BY_CHANCE:
                return True
        return equal_rows == "copies" and n_common > _most_by_chance(small, large)

    def to_dict(self) -> Document:
        """Return plain types for JSON."""
        digests = base64.b64encode(self.digests.astype("<u4").tobytes()).decode()
        return {**vars(self), "digests": digests, "named": None}

    @classmethod
    def from_dict(cls, state: Document) -> Self:
        """Return the rows written by `to_dict`; raise KeyError, TypeError or ValueError for another state."""
        content = base64.b64decode(state["digests"], validate=True)
        digests = np.frombuffer(content, "<u4").astype(np.uint32)
        if (digests[1:] < digests[:-1]).any():
            raise ValueError("digests of rows are damaged")
        return cls(digests, int(state["limit"]), str(state["use"]), state["of_scores"])


def _most_by_chance(small: Seen, large: Seen) -> float:
    """Return how many rows of the smaller of two independent tables may be in the larger one.

    Independent rows of a population equal one of n rows as often as these equal one another: the share of
    rows that repeat estimates it (Good and Turing). So each table predicts the number, and the smaller
    prediction counts: copies that somebody made within one table do not widen it.

    Where no row repeats, three rows or one in a thousand are chance. So are more of them, such as rounded
    numbers: a pair of equal rows among those of both tables has its rows in different tables with a
    probability q ≤ 1/2, and k independent pairs all have with qᵏ.
    """
    few = max(A_FEW, SMALL_SHARE * len(small))
    if not small.n_repeated + large.n_repeated:
        ratio = len(small) / len(large)
        return max(few, math.log(APART_BY_CHANCE, 2 * ratio / (1 + ratio) ** 2))

    def predicted(table: Seen, other: Seen) -> float:
        """Return how many common rows are chance, by the repeating rows of one ``table`` of the two.

        Repeating rows come mostly in pairs. The number of pairs is Poisson's, so that of the rows has the
        standard error √(2 n_repeated).
        """
        n_repeated = table.n_repeated
        ratio = len(other) / len(table)
        expected = ratio * (n_repeated + STANDARD_ERRORS * math.sqrt(2 * n_repeated) + UNSEEN)
        shifted = min(ratio * n_repeated, SHIFTED * len(small))
        return expected + STANDARD_ERRORS * math.sqrt(expected) + shifted

    return max(few, min(predicted(large, small), predicted(small, large)))


def first_repeated(
    new: Seen, tables: Iterable[Seen], equal_rows: EqualRows = "copies"
) -> Seen | None:
    """Return the first of some tables that a table repeats; None without one."""
    return next((table for table in tables if new.repeats(table, equal_rows)), None)


def refuse_repeated(rows: Seen, tables: Sequence[Seen], equal_rows: EqualRows) -> float:
    """Return the largest share of rows that equal those of a table; raise LeakageError beyond chance."""
    known = first_repeated(rows, tables, equal_rows)
    if known is None:
        return float(np.nanmax([0.0, *map(rows.share_in, tables)]))
    cure = ""
    if equal_rows == "copies" and first_repeated(rows, tables, "natural") is None:
        cure = ". If equal rows are different cases, `certify` takes equal_rows='natural'"
    share = rows.share_in(known)
    raise LeakageError(
        f"X: {known.use} {round(share * len(rows)):,} of these rows ({100 * share:.3g} %), or rows "
        "equal to them, so errors are smaller than on new rows. Give rows that no fit, selection "
        f"or calibration had{cure}"
    )
