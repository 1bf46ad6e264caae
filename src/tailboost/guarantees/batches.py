"""Rows of a monitor's batches: which labels were used, and whether a batch repeats an earlier one.

A row is identified by its id, if ids are given, and otherwise by its content. Nothing tells rows without ids
and with equal content apart. Of such rows, the labels of the later look less those of the earlier look are
the new ones, in whatever order the rows come.
"""

from __future__ import annotations

import base64
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from tailboost.core.array_types import Column, Groups, Hashes, Ints, Table
from tailboost.core.checks import (
    as_pandas,
    check_length,
    check_same_kind,
    columns_by_name,
    group_columns,
    is_missing,
    label_column,
    positions,
    refuse_missing,
    take,
)
from tailboost.core.exceptions import LeakageError
from tailboost.rows.fingerprints import (
    LABELS_LEVEL,
    RowCounts,
    RowHashes,
    chance_of_agreement,
    hash_rounded_rows,
    hash_rows,
)

__all__ = [
    "GivenRows",
    "RowWords",
    "copies_pass",
    "label_numbers",
    "refuse_repeated",
    "row_ids",
]

# Largest number of labels in a message.
MOST_IN_MESSAGE = 5


# Parts of the identity of a row; labels and costs are tested once.
PARTS = ("ids", "content", "groups", "clusters")
WORDS = (*PARTS, "labels", "costs")
IDS, CONTENT, GROUPS, CLUSTERS, LABELS, COSTS = range(6)

# -- identities of rows ------------------------------------------------------------------------------------


def _text(value: object) -> str:
    """Return a value as text; whole floats are integers, as in a column with missing values."""
    if isinstance(value, float) and value.is_integer():
        return str(int(value))
    return str(value)


def _words_of(columns: Sequence[Any], name: str, n: int) -> Hashes:
    """Return a hash of each row of some columns of names; it is exact, also for long numbers."""
    texts = np.empty((n, len(columns)), dtype=object)
    for j, column in enumerate(columns):
        refuse_missing(column, name)
        check_length(column, name, n)
        texts[:, j] = [_text(value) for value in np.asarray(column).tolist()]
    return hash_rows(texts)


def row_ids(ids: object, n: int) -> Hashes:
    """Return a hash of each id.

    Raises
    ------
    ValueError
        If there are not n ids in one column, some are missing, or two are equal.
    """
    ids = as_pandas(ids)
    check_length(ids, "id", n)
    column = np.asarray(ids)
    if column.ndim != 1:
        raise ValueError(f"id must be one column of n ids, got shape {column.shape}")
    words = _words_of([ids], "id", n)
    distinct, times = np.unique(words, return_counts=True)
    if len(distinct) < n:
        word = distinct[times > 1][0]
        rows = np.flatnonzero(words == word)[:2].tolist()
        raise ValueError(
            f"id: rows {rows[0]} and {rows[1]} have the same id, {column[rows[0]]}; an id must identify a row"
        )
    return words


def label_numbers(y: Column, classes: Any, n: int) -> Ints:
    """Return 1 plus the class number of each label, and 0 for a missing label."""
    numbers = np.zeros(n, dtype=np.intp)
    if y is None:
        return numbers
    check_length(y, "y", n)
    if hasattr(y, "tolist"):
        values = y.tolist()
    else:
        values = list(y)
    present = np.array(
        [not is_missing(value) and value == value for value in values], dtype=bool
    )
    if present.any():
        known = label_column(classes, "classes_")
        labels = label_column(whole_numbers([values[i] for i in np.flatnonzero(present)]), "y")
        check_same_kind(labels, "y", known, "classes_ of the model")
        numbers[present] = 1 + positions(labels, known, "y")
    return numbers


def whole_numbers(labels: object) -> Any:
    """Return labels as an array; whole floats (from missing values) become integers."""
    values = np.array(labels)
    whole = values.dtype.kind == "f" and bool((values == np.floor(values)).all())
    if whole:
        return values.astype(np.int64)
    return values


@dataclass(frozen=True, eq=False)
class RowWords:
    """Rows of a batch as words: the identity of a row, and its label. Some may wait for their labels.

    Attributes
    ----------
    words : ndarray of uint64, shape (n, 6)
        Hashes by part, in the order of `WORDS`; 0 for a part not given. The label is 1 plus the class number,
        and 0 for a waiting row; costs are those of a row with a label.
    given : tuple of str
        Which of "id", "groups" and "clusters" were given.
    """

    words: Hashes
    given: tuple[str, ...] = ()

    @classmethod
    def of(
        cls,
        content: Hashes,
        labels: Ints,
        *,
        ids: Hashes | None,
        groups: Groups,
        clusters: Column,
        costs: Table,
    ) -> Self:
        """Return the words of rows; ``labels`` are from `label_numbers`, ``ids`` from `row_ids`."""
        n = len(content)
        words = np.zeros((n, len(WORDS)), dtype=np.uint64)
        words[:, CONTENT] = content
        words[:, LABELS] = labels
        given = []
        if ids is not None:
            given.append("id")
            words[:, IDS] = ids
        if groups is not None:
            given.append("groups")
            columns = group_columns(groups, "groups").values()
            words[:, GROUPS] = _words_of(list(columns), "groups", n)
        if clusters is not None:
            given.append("clusters")
            words[:, CLUSTERS] = _words_of([as_pandas(clusters)], "clusters", n)
        if costs is not None and labels.any():
            check_length(costs, "costs", n)
            with_label = np.flatnonzero(labels)
            columns = columns_by_name(take(as_pandas(costs), with_label), "costs").values()
            table = np.column_stack([np.asarray(column) for column in columns])
            words[with_label, COSTS] = hash_rounded_rows(table)
        return cls(words, tuple(given))

    def __len__(self) -> int:
        return len(self.words)

    @property
    def keys(self) -> list[tuple[int, ...]]:
        """Identity of each row."""
        return list(map(tuple, self.words[:, : len(PARTS)].tolist()))

    @property
    def labels(self) -> Hashes:
        """1 plus the class number of each row, and 0 for a waiting row."""
        return self.words[:, LABELS]

    @property
    def n_waiting(self) -> int:
        """Number of rows that wait for their labels."""
        return int((self.labels == 0).sum())

    def without(self, places: Sequence[int], given: tuple[str, ...]) -> Self:
        """Return the rows without some parts, by their places in `WORDS`; ``given`` are the parts left."""
        words = self.words.copy()
        words[:, list(places)] = 0
        return replace(self, words=words, given=given)

    def and_rows(self, *others: Hashes) -> Self:
        """Return these rows and the words of others, in an order independent of the file's."""
        words = np.concatenate([self.words, *others])
        return replace(self, words=words[np.lexsort(words.T)])

    def later(
        self, given: RowWords, batch: str, classes: Sequence[Any]
    ) -> tuple[NDArray[np.bool_], Self]:
        """Return a mask of the given rows to test, and the rows of the batch after this look.

        For rows that nothing tells apart, the new labels are the given ones less the used ones. A tested
        cluster has voted, so its rows are not tested again.

        Raises
        ------
        ValueError
            If the rows contradict those of the earlier looks; names a row.
        """
        known = self
        for name in ("id", "clusters"):
            if name in known.given and name not in given.given:
                raise ValueError(
                    f"batch {batch!r} began with {name}=, which is needed for its late labels"
                )
        if "clusters" in given.given and "clusters" not in known.given:
            raise ValueError(
                f"clusters: batch {batch!r} began without clusters; leave them out"
            )
        # Parts that one of both looks does not have tell no rows apart. If limits need groups, every look has
        # them.
        both = tuple(name for name in known.given if name in given.given)
        alone = [place for name, place in (("id", IDS), ("groups", GROUPS)) if name not in both]
        known = known.without(alone, both)
        given = given.without(alone, both)
        known_keys = known.keys
        given_keys = given.keys
        sizes = Counter(known_keys)
        here = Counter(given_keys)
        outcomes = list(map(tuple, known.words[:, LABELS:].tolist()))
        used = Counter(
            (key, outcome)
            for key, outcome in zip(known_keys, outcomes, strict=True)
            if outcome[0]
        )
        n_used = Counter(key for key, _ in used.elements())
        for row, key in enumerate(given_keys):
            if here[key] > sizes[key]:
                raise ValueError(_unknown(known, given, row, batch, here[key], sizes[key]))
        for row, key in enumerate(given_keys):
            if here[key] < sizes[key] and n_used[key]:
                raise ValueError(
                    f"batch {batch!r}: {sizes[key]} of its rows equal row {row} of X, and "
                    f"{n_used[key]} of their labels were used. Only {here[key]} of them are given "
                    "now, and nothing shows which: give all rows of the batch again, or row ids "
                    "(id=) from the first look on"
                )
        # Equal rows with equal labels are the same to every test, so that any of them may count as new.
        labelled = given.labels > 0
        new = labelled.copy()
        for row in np.flatnonzero(labelled).tolist():
            pair = given_keys[row], tuple(given.words[row, LABELS:].tolist())
            if used[pair]:
                used[pair] -= 1
                new[row] = False
        left = {key for key, _ in used.elements()}
        for row, key in enumerate(given_keys):
            if key in left:
                before = known.labels[[each == key for each in known_keys]]
                now = given.labels[[each == key for each in given_keys]]
                raise ValueError(_changed(before, now, row, batch, classes))
        tested = new
        if "clusters" in known.given:
            voted = known.words[known.labels > 0, CLUSTERS]
            tested = new & ~np.isin(given.words[:, CLUSTERS], voted)
        # Rows without a label wait, of all rows of a key that is given now.
        waiting = sizes - Counter(
            key for key, has in zip(given_keys, labelled, strict=True) if has
        )
        nothing = (0,) * (len(WORDS) - len(PARTS))
        waiting_words = [(*key, *nothing) for key in waiting.elements() if key in here]
        others = np.array([key not in here for key in known_keys], dtype=bool)
        return tested, replace(known, words=known.words[others]).and_rows(
            given.words[labelled],
            np.array(waiting_words, dtype=np.uint64).reshape(-1, len(WORDS)),
        )

    def to_dict(self) -> dict[str, Any]:
        """Return plain types for JSON."""
        words = {
            name: _packed(column) for name, column in zip(WORDS, self.words.T, strict=True)
        }
        return {"rows": len(self), "given": list(self.given), "words": words}

    @classmethod
    def from_dict(cls, state: Mapping[str, Any]) -> Self:
        """Return the rows written by `to_dict`."""
        words = state["words"]
        n = int(state["rows"])
        columns = [_unpacked(words[name], n) for name in WORDS]
        given = tuple(state["given"])
        if not set(given) <= {"id", "groups", "clusters"}:
            raise ValueError(f"the state has rows with unknown parts: {given}")
        return cls(np.column_stack(columns), given)


def _unknown(
    known: RowWords, given: RowWords, row: int, batch: str, n_here: int, n_known: int
) -> str:
    """Return the reason why a row is not one of the batch."""
    if n_known:
        return (
            f"batch {batch!r} has {n_known} rows equal to row {row} of X, and {n_here} are "
            "given now: give the rows of the batch again, and further rows as another "
            "batch"
        )
    words = {"groups": "groups", "clusters": "clusters", "content": "features"}
    same = known.words[:, : len(PARTS)] == given.words[row, : len(PARTS)]
    for other, called in words.items():
        others_same = np.delete(same, PARTS.index(other), axis=1).all(axis=1)
        # Without ids, features identify a row: rows with other features are other rows.
        if others_same.any() and (other != "content" or "id" in known.given):
            return (
                f"batch {batch!r}: row {row} of X was given with other {called} at "
                f"the first look; give it with the same {called}"
            )
    return (
        f"row {row} of X is no row of batch {batch!r}: give the rows of the batch again, "
        "and further rows as another batch"
    )


def _changed(known: Hashes, given: Hashes, row: int, batch: str, classes: Sequence[Any]) -> str:
    """Return how the labels or costs of rows equal to a row contradict the used ones."""
    used = Counter(label for label in known.tolist() if label)
    now = Counter(given.tolist())
    if used <= now:
        return (
            f"batch {batch!r}: row {row} of X, or a row equal to it, has other costs than "
            "those used with its label; give the costs of the earlier look"
        )

    def words(labels: Counter[int]) -> str:
        pairs = [
            f"{repr(classes[label - 1]) if label else 'missing'} in {n}"
            for label, n in sorted(labels.items())
        ]
        return ", ".join(pairs[:MOST_IN_MESSAGE])

    return (
        f"batch {batch!r}: labels that were used have changed. Rows equal to row {row} of "
        f"X: the used labels are {words(used)}; now they are {words(now)}. "
        "A used label cannot be taken back: give it as it was"
    )


def _packed(words: NDArray[Any]) -> str:
    """Return numbers as text, in the fewest bytes for the largest one."""
    kind = np.min_scalar_type(int(words.max(initial=0))).newbyteorder("<")
    return base64.b64encode(words.astype(kind).tobytes()).decode()


def _unpacked(text: str, n: int) -> Hashes:
    content = base64.b64decode(text, validate=True)
    if n:
        size = len(content) // n
    else:
        size = 1
    if size not in (1, 2, 4, 8) or len(content) != size * n:
        raise ValueError(f"the state has {len(content)} bytes for {n} rows")
    return np.frombuffer(content, dtype=f"<u{size}").astype(np.uint64)


# -- batches with repeated rows ----------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class GivenRows:
    """Rows of a batch, to recognise them in later batches."""

    name: str
    # Shape (n,), sorted: all of them, because ids identify rows exactly.
    ids: Hashes | None = None
    # How often each content occurs: of whole rows under the empty name, and as each model reads them, see
    # `RowHashes`. Only if equal rows are different rows.
    counts: Mapping[str, RowCounts] = field(default_factory=dict)

    @classmethod
    def of(cls, name: str, ids: Hashes | None, rows: RowHashes | None) -> Self:
        """Return the rows of a batch; with ``rows``, equal rows are different rows."""
        kept = None if ids is None else np.sort(ids)
        if rows is None:
            return cls(name, kept)
        hashes = {"": rows.whole, **rows.read}
        return cls(
            name, kept, {model: RowCounts.from_hashes(each) for model, each in hashes.items()}
        )

    def to_dict(self) -> dict[str, Any]:
        """Return plain types for JSON."""
        ids = None
        if self.ids is not None:
            ids = {"rows": len(self.ids), "words": _packed(self.ids)}
        read = {
            model: {
                "different": len(counts.contents),
                "limit": counts.limit,
                "kept": _packed(counts.contents),
                "counts": _packed(counts.counts),
            }
            for model, counts in self.counts.items()
        }
        return {"name": self.name, "ids": ids, "contents": read.pop("", None), "read": read}

    @classmethod
    def from_dict(cls, state: Mapping[str, Any]) -> Self:
        """Return the rows written by `to_dict`."""
        ids = state["ids"]
        if ids is not None:
            ids = _unpacked(ids["words"], int(ids["rows"]))
        written = dict(state.get("read", {}))
        if state["contents"] is not None:
            written = {"": state["contents"], **written}
        counts = {}
        for model, each in written.items():
            n = int(each["different"])
            number = _unpacked(each["counts"], n).astype(np.intp)
            kept = _unpacked(each["kept"], n).astype(np.uint32)
            counts[str(model)] = RowCounts(kept, number, int(each["limit"]), int(number.sum()))
        return cls(str(state["name"]), ids, counts)


def refuse_repeated(batch: GivenRows, ids: Hashes | None, earlier: Sequence[GivenRows]) -> None:
    """Raise if a batch repeats rows of earlier ones; ``ids`` are those of its rows, in their order.

    Ids are compared with ids. Batches without ids are compared by their contents, each and all together, as
    whole rows and as each model reads them. A batch is refused if fresh batches would have as many equal rows
    with a probability of less than `LABELS_LEVEL`, divided by the number of comparisons.

    Raises
    ------
    LeakageError
        Names the earlier batch.
    """
    for other in earlier:
        if ids is None or other.ids is None:
            continue
        rows = np.flatnonzero(np.isin(ids, other.ids))
        if len(rows):
            raise LeakageError(
                f"id: {len(rows):,} of the {len(ids):,} rows were in batch {other.name!r}, "
                f"the first of them row {rows[0]}. An id must identify a row; for rows of the "
                "same person give clusters="
            )
    others = [each for each in earlier if ids is None or each.ids is None]
    compared = list[tuple[str, RowCounts, RowCounts]]()
    for model, own in batch.counts.items():
        known = [(each.name, each.counts[model]) for each in others if model in each.counts]
        compared += [(f"batch {name!r}", own, counts) for name, counts in known]
        if len(known) > 1:
            together = RowCounts.together([counts for _, counts in known])
            compared.append(("the earlier batches", own, together))
    for name, own, counts in compared:
        chance = chance_of_agreement(own, counts, tolerant=True)
        if chance * len(compared) <= LABELS_LEVEL:
            here, there = own.beside(counts)
            raise LeakageError(
                f"X: {np.minimum(here, there).sum():,} of {here.sum():,} rows have an equal "
                f"row of their own in {name}. Fresh batches agree as much with a probability "
                f"of at most {chance:.1g}: rows were given twice. If these are different "
                "rows, give row ids (id=) with each batch"
            )


def copies_pass(batch: GivenRows, n_compared: int) -> bool:
    """Return whether a copy of a batch without ids would not be refused among so many comparisons."""
    own = batch.counts.get("")
    return (
        own is not None
        and chance_of_agreement(own, own, tolerant=True) * n_compared > LABELS_LEVEL
    )
