"""Used rows of a rule: they are recognised again by content and label."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal, Self

import numpy as np

from tailboost.core.array_types import Hashes, Mask
from tailboost.core.exceptions import LeakageError
from tailboost.core.fingerprints import RowCounts, chance_of_agreement, hash_rows, too_many

#: Reason for rows that equal training rows: copies, or features with few values.
EqualRows = Literal["copies", "natural"]
#: Purpose of rows with labels, used up by a rule.
Use = Literal["selection data", "calibration rows"]
# Largest probability with which two independent tables are judged to share rows: one pair in 100,000.
SHARED_LEVEL = 1e-5


@dataclass(frozen=True, eq=False)
class UsedRows:
    """Used rows with labels: how often each content occurs, alone and with each label.

    Examples
    --------
    >>> import numpy as np
    >>> from tailboost.core.fingerprints import hash_rounded_rows
    >>> from tailboost.core.used_rows import UsedRows
    >>> scores, y = np.random.default_rng(0).random((80, 1)), np.arange(80) % 2
    >>> hashes = hash_rounded_rows(scores)
    >>> first, superset = UsedRows.of(hashes[:50], y[:50]), UsedRows.of(hashes, y)
    >>> superset.shared_with(first), superset.shared_with(UsedRows.of(hashes[:0], y[:0]))
    (50, 0)
    """

    contents: RowCounts
    labelled: RowCounts
    use: Use = "calibration rows"

    @classmethod
    def of(cls, hashes: Hashes, labels: Any, use: Use = "calibration rows") -> Self:
        """Return the rows of a table from their `hash_rounded_rows` and labels.

        The first rows have the labels. Further rows have none, and are compared by content alone.
        """
        names, place = np.unique(np.asarray(labels), return_inverse=True)
        if not len(place):
            return cls.unlabeled(hashes, use)
        of_label = hash_rows(np.array([str(name) for name in names.tolist()], dtype=object)[:, None])
        labelled = hash_rows(np.column_stack([hashes[: len(place)], of_label[place]]))
        return cls(RowCounts.of(hashes), RowCounts.of(labelled), use)

    @classmethod
    def unlabeled(cls, hashes: Hashes, use: Use) -> Self:
        """Return rows without labels, from their `hash_rounded_rows`; they are compared by content alone."""
        return cls(RowCounts.of(hashes), RowCounts.of(hashes[:0]), use)

    @classmethod
    def together(cls, parts: Sequence[UsedRows]) -> Self:
        """Return the rows of several parts of a table."""
        contents = RowCounts.together([part.contents for part in parts])
        return cls(contents, RowCounts.together([part.labelled for part in parts]), parts[0].use)

    def shared_with(self, earlier: UsedRows, equal_rows: EqualRows = "natural") -> int:
        """Return about how many of these rows are rows of an earlier table; 0 if chance explains them.

        Whole equal tables are the same rows, in any order. Otherwise `chance_of_agreement` decides, for the
        contents alone and with their labels. Where few contents occur, it recognises nearly whole tables at
        most. With ``equal_rows="copies"`` equal rows are copies, and `too_many` decides as well.
        """
        same = self.labelled.equals(earlier.labelled) and self.labelled.n_rows > 0
        if not same:
            pairs = (self.contents, earlier.contents), (self.labelled, earlier.labelled)
            same = any(chance_of_agreement(*pair) <= SHARED_LEVEL / 2 for pair in pairs)
        here, there = self.contents.beside(earlier.contents)
        known, sampled = int(here[there > 0].sum()), int(here.sum())
        if equal_rows == "copies" and too_many(known, sampled):
            return self._of_all(known, sampled)
        return self._of_all(int(np.minimum(here, there).sum()), sampled) if same else 0

    def equal_to(self, earlier: UsedRows) -> int:
        """Return about how many of these rows equal a row of an earlier table."""
        here, there = self.contents.beside(earlier.contents)
        return self._of_all(int(here[there > 0].sum()), int(here.sum()))

    def _of_all(self, known: int, sampled: int) -> int:
        return round(self.contents.n_rows * known / sampled) if sampled else 0

    def to_dict(self) -> dict[str, Any]:
        """Return plain types for JSON."""
        return {"contents": self.contents.to_dict(), "labelled": self.labelled.to_dict(), "use": self.use}

    @classmethod
    def from_dict(cls, state: dict[str, Any]) -> Self:
        """Return the rows written by `to_dict`.

        Raises
        ------
        KeyError, TypeError, ValueError
            If the state is no such dict.
        """
        uses: dict[str, Use] = {"selection data": "selection data", "calibration rows": "calibration rows"}
        contents, labelled = (RowCounts.from_dict(state[name]) for name in ("contents", "labelled"))
        return cls(contents, labelled, uses[state["use"]])


def check_equal_rows(value: object) -> None:
    """Raise if ``equal_rows`` has another value than the two allowed ones."""
    if value not in ("copies", "natural"):
        raise ValueError(f"equal_rows must be 'copies' or 'natural', got {value!r}")


def refuse_used(rows: UsedRows, used: Sequence[UsedRows], equal_rows: EqualRows, name: str = "X") -> None:
    """Raise if rows, called ``name`` in the message, were used to select or calibrate a rule."""
    for earlier in used:
        if shared := rows.shared_with(earlier, equal_rows):
            raise LeakageError(
                f"{name}: {shared:,} of these {rows.contents.n_rows:,} rows are {earlier.use} of the rule. "
                "Give fresh rows"
            )


def copies_of(known: Hashes, hashes: Hashes) -> Mask:
    """Return a mask of the rows of a table equal to known rows, each known row at most once.

    No row is one if chance explains the agreement of both tables, see `chance_of_agreement`.

    Examples
    --------
    >>> import numpy as np
    >>> from tailboost.core.fingerprints import hash_rows
    >>> known, new = hash_rows(np.arange(50)[:, None]), hash_rows(np.arange(20, 100)[:, None])
    >>> int(copies_of(known, new).sum())
    30
    >>> grades = hash_rows(np.random.default_rng(0).integers(3, size=(130, 1)))
    >>> int(copies_of(grades[:50], grades[50:]).sum())
    0
    """
    if chance_of_agreement(RowCounts.of(known), RowCounts.of(hashes)) > SHARED_LEVEL:
        return np.zeros(len(hashes), dtype=np.bool_)
    content, place, counts = np.unique(hashes, return_inverse=True, return_counts=True)
    shared = known[np.isin(known, content)]
    most = np.bincount(np.searchsorted(content, shared), minlength=len(content))
    order = np.argsort(place, kind="stable")
    nth = np.empty(len(hashes), dtype=np.intp)  # among the rows of its content
    nth[order] = np.arange(len(hashes)) - np.repeat(np.cumsum(counts) - counts, counts)
    copies: Mask = nth < most[place]
    return copies
