"""Rows of a monitor's batches: which labels were used, and whether a batch repeats an earlier one.

A row is identified by its id, if ids are given, and otherwise by its content. Nothing distinguishes rows
without ids and with equal content. Of such rows, the labels of the later look less the labels of the earlier
look are the new ones, in whatever order the rows come.
"""

from __future__ import annotations

import base64
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import compress
from typing import Any, Self

import numpy as np

from tailboost.core.array_types import (
    Array,
    Column,
    Document,
    Groups,
    Hashes,
    Ints,
    Mask,
    Table,
)
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
from tailboost.core.spelling import as_typed
from tailboost.rows.fingerprints import (
    RowCounts,
    RowHashes,
    chance_of_agreement,
    hash_rounded_rows,
    hash_rows,
)
from tailboost.rows.schema import text

# Largest probability with which fresh batches are taken for repeated ones.
BATCH_LEVEL = 0.001
# The smallest chance in a message: smaller ones may be rounded to 0.
SMALLEST_CHANCE = 1e-15
# Largest number of labels in a message.
MOST_IN_MESSAGE = 5


# Parts of the identity of a row; labels and costs are tested once.
PARTS = ("ids", "content", "groups", "clusters")
ID_WORDS = (*PARTS, "labels", "costs")
IDS, CONTENT, GROUPS, CLUSTERS, LABELS, COSTS = range(6)

# -- identities of rows ------------------------------------------------------------------------------------


def _hash_names(columns: Sequence[Any], name: str, n: int) -> Hashes:
    """Return a hash of each of n rows of some columns of names, such as groups or ids, shape (n,).

    Names are hashed as text: long numbers stay exact, and whole floats, as in a column with missing values,
    are integers. Errors call the columns ``name``.
    """
    texts = np.empty((n, len(columns)), dtype=object)
    for j, column in enumerate(columns):
        refuse_missing(column, name)
        check_length(column, name, n)
        texts[:, j] = list(map(text, np.asarray(column).tolist()))
    return hash_rows(texts)


def row_ids(ids: object, n: int) -> Hashes:
    """Return a hash of the id of each of n rows, shape (n,).

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
    hashes = _hash_names([ids], "id", n)
    distinct_hashes, counts = np.unique(hashes, return_counts=True)
    repeated_hashes = distinct_hashes[counts > 1]
    if len(repeated_hashes):
        first, second, *_ = np.flatnonzero(hashes == repeated_hashes[0]).tolist()
        raise ValueError(
            f"id: rows {first} and {second} have the same id, {column[first]}; {_one_row_each()}"
        )
    return hashes


def _one_row_each() -> str:
    """Return what an id is, and the argument for ids of persons with several rows."""
    return f"an id is of one row; rows of the same person need {as_typed('clusters=', '--cluster')} instead"


def label_numbers(y: Column, classes: Any, n: int) -> Ints:
    """Return the label of each of n rows as 1 plus its class number, shape (n,); 0 for a missing label.

    All labels are missing if ``y`` is None. ``classes`` are the ``classes_`` of the model.
    """
    numbers = np.zeros(n, dtype=np.intp)
    if y is None:
        return numbers
    check_length(y, "y", n)
    values = y.tolist() if hasattr(y, "tolist") else list(y)
    # pandas' NaT is missing too, and differs from itself.
    is_present = np.array(
        [not is_missing(value) and value == value for value in values], dtype=bool
    )
    if is_present.any():
        known_labels = label_column(classes, "classes_")
        present_values = np.array([values[row] for row in np.flatnonzero(is_present)])
        # A column with missing values may hold integers as floats.
        is_float = present_values.dtype.kind == "f"
        if is_float and (present_values == np.floor(present_values)).all():
            present_values = present_values.astype(np.int64)
        present_labels = label_column(present_values, "y")
        check_same_kind(present_labels, "y", known_labels, "classes_ of the model")
        numbers[is_present] = 1 + positions(present_labels, known_labels, "y")
    return numbers


@dataclass(frozen=True, eq=False)
class RowWords:
    """Rows of a batch as words, numbers of 64 bits: the identity of a row, and its label.

    Rows without a label wait.

    Attributes
    ----------
    words : ndarray of uint64, shape (n, 6)
        Hashes by part, in the order of `ID_WORDS`; 0 for a part not given. The label is 1 plus the class
        number, and 0 for a waiting row; costs are only there for a row with a label.
    parts : tuple of str
        Which of "id", "groups" and "clusters" were given.
    """

    words: Hashes
    parts: tuple[str, ...] = ()

    @classmethod
    def from_columns(
        cls,
        content: Hashes,
        labels: Ints,
        *,
        ids: Hashes | None,
        groups: Groups,
        clusters: Column,
        costs: Table,
    ) -> Self:
        """Return n rows as words.

        Parameters
        ----------
        content : ndarray of shape (n,)
            Hash of each row's features.
        labels : ndarray of int, shape (n,)
            From `label_numbers`.
        ids : ndarray of shape (n,) or None
            From `row_ids`.
        groups, clusters, costs
            As given to `Monitor.add`. Costs of rows without a label are not read.
        """
        n = len(content)
        words = np.zeros((n, len(ID_WORDS)), dtype=np.uint64)
        words[:, CONTENT] = content
        words[:, LABELS] = labels
        parts = []
        if ids is not None:
            parts.append("id")
            words[:, IDS] = ids
        if groups is not None:
            parts.append("groups")
            columns = group_columns(groups, "groups").values()
            words[:, GROUPS] = _hash_names(list(columns), "groups", n)
        if clusters is not None:
            parts.append("clusters")
            words[:, CLUSTERS] = _hash_names([as_pandas(clusters)], "clusters", n)
        if costs is not None and labels.any():
            check_length(costs, "costs", n)
            with_label = np.flatnonzero(labels)
            columns = columns_by_name(take(as_pandas(costs), with_label), "costs").values()
            table = np.column_stack([np.asarray(column) for column in columns])
            words[with_label, COSTS] = hash_rounded_rows(table)
        return cls(words, tuple(parts))

    def __len__(self) -> int:
        return len(self.words)

    @property
    def keys(self) -> list[tuple[int, ...]]:
        """Identity of each row."""
        return list(map(tuple, self.words[:, : len(PARTS)].tolist()))

    @property
    def outcomes(self) -> list[tuple[tuple[int, ...], tuple[int, ...]]]:
        """Identity of each row, with its label and the hash of its costs."""
        labels_and_costs = map(tuple, self.words[:, LABELS:].tolist())
        return list(zip(self.keys, labels_and_costs, strict=True))

    @property
    def labels(self) -> Hashes:
        """1 plus the class number of each row, and 0 for a waiting row."""
        return self.words[:, LABELS]

    @property
    def n_waiting(self) -> int:
        """Number of waiting rows, which have no label."""
        return int((self.labels == 0).sum())

    def label_counts(self, key: tuple[int, ...]) -> Counter[int]:
        """Return how many of the rows with an identity have each label, as in `labels`."""
        has_key = [row_key == key for row_key in self.keys]
        return Counter(self.labels[has_key].tolist())

    def without(self, columns: Sequence[int], parts: tuple[str, ...]) -> Self:
        """Return the rows without some columns of ``words``, which become 0; ``parts`` are left."""
        words = self.words.copy()
        words[:, list(columns)] = 0
        return replace(self, words=words, parts=parts)

    def and_rows(self, *other_words: Hashes) -> Self:
        """Return these rows and others, sorted: the order of the file has no effect."""
        words = np.concatenate([self.words, *other_words])
        return replace(self, words=words[np.lexsort(words.T)])

    def later(
        self, look: RowWords, batch: str, classes: Sequence[Any]
    ) -> tuple[Mask, RowWords]:
        """Return which rows of a later look are tested, and the rows of the batch after this look.

        Parameters
        ----------
        look : RowWords
            All rows of the batch again, now with more labels. Rows with ids may be left out.
        batch : str
            Name of the batch, for errors.
        classes : sequence
            The labels by class number, for errors.

        Returns
        -------
        is_tested : ndarray of bool
            Whether a row of the look is tested, shape (rows of the look,).
        after : RowWords
            The rows of the batch, each with the label known so far.

        Raises
        ------
        ValueError
            If the rows contradict earlier looks; names a row.
        """
        for name in ("id", "clusters"):
            if name in self.parts and name not in look.parts:
                raise ValueError(
                    f"batch {batch!r} began with {name}=, which is needed for its late labels"
                )
        if "clusters" in look.parts and "clusters" not in self.parts:
            raise ValueError(
                f"clusters: batch {batch!r} began without clusters; leave them out"
            )
        # Parts of one look alone tell no rows apart. If limits need groups, every look has them.
        shared_parts = tuple(name for name in self.parts if name in look.parts)
        dropped = [
            column
            for name, column in (("id", IDS), ("groups", GROUPS))
            if name not in shared_parts
        ]
        earlier = self.without(dropped, shared_parts)
        look = look.without(dropped, shared_parts)
        _refuse_other_rows(earlier, look, batch)
        is_tested = _has_new_label(earlier, look, batch, classes)
        if "clusters" in shared_parts:
            # A tested cluster has voted, so its other rows are not tested again.
            voted_clusters = earlier.words[earlier.labels > 0, CLUSTERS]
            is_tested &= ~np.isin(look.words[:, CLUSTERS], voted_clusters)
        return is_tested, _rows_after(earlier, look)

    def to_dict(self) -> Document:
        """Return plain types for JSON."""
        words = {
            name: _packed(column) for name, column in zip(ID_WORDS, self.words.T, strict=True)
        }
        return {"rows": len(self), "given": list(self.parts), "words": words}

    @classmethod
    def from_dict(cls, state: Mapping[str, Any]) -> Self:
        """Return the rows written by `to_dict`."""
        words = state["words"]
        n = int(state["rows"])
        columns = [_unpacked(words[name], n) for name in ID_WORDS]
        parts = tuple(state["given"])
        if not set(parts) <= {"id", "groups", "clusters"}:
            raise ValueError(f"the state has rows with unknown parts: {parts}")
        return cls(np.column_stack(columns), parts)


def _has_new_label(
    earlier: RowWords, look: RowWords, batch: str, classes: Sequence[Any]
) -> Mask:
    """Return which rows of a look have a new label, not used by earlier looks, shape (rows,).

    Equal rows with equal labels are the same to every test. So the number of new labels matters, and any of
    these rows may count as new. Raises ValueError if the look lacks a used label.
    """
    is_new = look.labels > 0
    used_outcomes = Counter(compress(earlier.outcomes, earlier.labels > 0))
    for row, outcome in enumerate(look.outcomes):
        if used_outcomes[outcome]:
            used_outcomes[outcome] -= 1
            is_new[row] = False
    # The look has not given these used outcomes again.
    changed_keys = {key for key, _ in used_outcomes.elements()}
    for row, key in enumerate(look.keys):
        if key in changed_keys:
            raise ValueError(_changed_label_words(earlier, look, row, batch, classes))
    return is_new


def _rows_after(earlier: RowWords, look: RowWords) -> RowWords:
    """Return the rows of a batch after a look, each with the label known so far.

    ``earlier`` are the rows before the look. Rows absent from the look stay as they were. Equal
    rows wait as long as labels are missing.
    """
    has_label = look.labels > 0
    look_keys = look.keys
    keys_here = set(look_keys)
    waiting_keys = Counter(earlier.keys) - Counter(compress(look_keys, has_label))
    no_outcome = (0,) * (len(ID_WORDS) - len(PARTS))  # neither label nor costs
    waiting_words = [(*key, *no_outcome) for key in waiting_keys.elements() if key in keys_here]
    is_absent = np.array([key not in keys_here for key in earlier.keys], dtype=bool)
    return replace(earlier, words=earlier.words[is_absent]).and_rows(
        look.words[has_label],
        # The shape is needed if no row waits.
        np.array(waiting_words, dtype=np.uint64).reshape(-1, len(ID_WORDS)),
    )


def _refuse_other_rows(earlier: RowWords, look: RowWords, batch: str) -> None:
    """Raise if a look has rows outside of its batch, or only some of equal rows with used labels."""
    n_earlier = Counter(earlier.keys)
    n_look = Counter(look.keys)
    n_used = Counter(compress(earlier.keys, earlier.labels > 0))
    for row, key in enumerate(look.keys):
        if n_look[key] > n_earlier[key]:
            raise ValueError(
                _unknown_row_words(earlier, look, row, batch, n_look[key], n_earlier[key])
            )
    for row, key in enumerate(look.keys):
        if n_look[key] < n_earlier[key] and n_used[key]:
            raise ValueError(
                f"batch {batch!r}: {n_earlier[key]} of its rows equal row {row} of X, and "
                f"{n_used[key]} of their labels were used. Only {n_look[key]} of them are "
                "given now, and nothing shows which: give all rows of the batch again, or row "
                "ids (id=) from the first look on"
            )


def _unknown_row_words(
    earlier: RowWords, look: RowWords, row: int, batch: str, n_look: int, n_earlier: int
) -> str:
    """Return the error about row ``row`` of a look, which is no row of its batch.

    ``n_look`` rows of the look equal this row, and ``n_earlier`` rows of the batch.
    """
    if n_earlier:
        return (
            f"batch {batch!r} has {n_earlier} rows equal to row {row} of X, and {n_look} are "
            "given now: give the rows of the batch again, and further rows as another batch"
        )
    names = {"groups": "groups", "clusters": "clusters", "content": "features"}
    # Shape (rows, parts): whether a part of an earlier row equals the same part of this row.
    equal_parts = earlier.words[:, : len(PARTS)] == look.words[row, : len(PARTS)]
    for part, name in names.items():
        if part == "content" and "id" not in earlier.parts:
            continue  # without ids, rows with other features are other rows
        all_others_equal = np.delete(equal_parts, PARTS.index(part), axis=1).all(axis=1)
        if all_others_equal.any():
            return (
                f"batch {batch!r}: row {row} of X was given with other {name} at the first "
                f"look; give it with the same {name}"
            )
    return (
        f"row {row} of X is no row of batch {batch!r}: give the rows of the batch again, and "
        "further rows as another batch"
    )


def _changed_label_words(
    earlier: RowWords, look: RowWords, row: int, batch: str, classes: Sequence[Any]
) -> str:
    """Return the error about used labels or costs of rows equal to one row, which the look lacks.

    Parameters
    ----------
    earlier : RowWords
        The batch after its earlier looks.
    look : RowWords
        The rows of this look.
    row : int
        Number of the row in the look.
    batch : str
        Name of the batch.
    classes : sequence
        The labels.
    """
    key = look.keys[row]
    used_labels = earlier.label_counts(key)
    del used_labels[0]  # waiting rows
    labels_now = look.label_counts(key)
    if used_labels <= labels_now:
        return (
            f"batch {batch!r}: row {row} of X, or a row equal to it, has other costs than "
            "those used with its label; give the costs of the earlier look"
        )
    return (
        f"batch {batch!r}: labels that were used have changed. Rows equal to row {row} of X: "
        f"the used labels are {_label_words(used_labels, classes)}; now they are "
        f"{_label_words(labels_now, classes)}. A used label cannot be taken back: give it as "
        "it was"
    )


def _label_words(counts: Counter[int], classes: Sequence[Any]) -> str:
    """Return numbers of rows by label in words; label 0 is missing, and label k is class k − 1."""
    parts = []
    for label, n in sorted(counts.items())[:MOST_IN_MESSAGE]:
        name = repr(classes[label - 1]) if label else "missing"
        parts.append(f"{name} in {n}")
    return ", ".join(parts)


def _packed(numbers: Array) -> str:
    """Return numbers as base64 text; each takes as many bytes as the largest one needs."""
    dtype = np.min_scalar_type(int(numbers.max(initial=0))).newbyteorder("<")
    return base64.b64encode(numbers.astype(dtype).tobytes()).decode()


def _unpacked(text: str, n: int) -> Hashes:
    """Return the n numbers that `_packed` wrote; raise if the text has no n numbers of equal size."""
    content = base64.b64decode(text, validate=True)
    n_bytes = 1  # of each number
    if n:
        n_bytes = len(content) // n
    if n_bytes not in (1, 2, 4, 8) or len(content) != n_bytes * n:
        raise ValueError(f"the state has {len(content)} bytes for {n} rows")
    return np.frombuffer(content, dtype=f"<u{n_bytes}").astype(np.uint64)


# -- batches with repeated rows ----------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class GivenRows:
    """Rows of a batch, to recognise them in later batches."""

    name: str
    # Shape (n,), sorted: all of them, because ids identify rows exactly. None without ids.
    ids: Hashes | None = None
    # How often each content occurs: of whole rows under the empty name, and as each model reads them, see
    # `RowHashes`. Empty in the states of earlier versions, if equal rows were copies.
    counts: Mapping[str, RowCounts] = field(default_factory=dict)

    @classmethod
    def from_batch(cls, name: str, ids: Hashes | None, rows: RowHashes) -> Self:
        """Return the rows of a batch.

        Parameters
        ----------
        name : str
            Name of the batch.
        ids : ndarray or None
            Hash of each row's id, if rows have ids.
        rows : RowHashes
            Hashes of the rows.
        """
        sorted_ids = None if ids is None else np.sort(ids)
        hashes_by_model = {"": rows.whole, **rows.read}
        counts = {
            model: RowCounts.from_hashes(hashes) for model, hashes in hashes_by_model.items()
        }
        return cls(name, sorted_ids, counts)

    def to_dict(self) -> Document:
        """Return plain types for JSON."""
        ids = None
        if self.ids is not None:
            ids = {"rows": len(self.ids), "words": _packed(self.ids)}
        contents = {model: counts.to_dict() for model, counts in self.counts.items()}
        return {"name": self.name, "ids": ids, "contents": contents}

    @classmethod
    def from_dict(cls, state: Mapping[str, Any]) -> Self:
        """Return the rows written by `to_dict`."""
        ids = state["ids"]
        if ids is not None:
            ids = _unpacked(ids["words"], int(ids["rows"]))
        contents = state["contents"].items()
        counts = {str(model): RowCounts.from_dict(written) for model, written in contents}
        return cls(str(state["name"]), ids, counts)


def refuse_repeated(batch: GivenRows, ids: Hashes | None, earlier: Sequence[GivenRows]) -> None:
    """Raise if a batch repeats rows of earlier ones.

    Ids are compared with ids; ``ids`` are the hashes of the batch's ids by row, None without ids. If one of
    two batches has no ids, their contents are compared.

    Raises
    ------
    LeakageError
        Names the earlier batch.
    """
    without_ids = []
    for other in earlier:
        if ids is None or other.ids is None:
            without_ids.append(other)
            continue
        rows = np.flatnonzero(np.isin(ids, other.ids))
        if len(rows):
            raise LeakageError(
                f"id: {len(rows):,} of the {len(ids):,} rows were in batch {other.name!r}, the "
                f"first of them row {rows[0]}; {_one_row_each()}"
            )
    _refuse_repeated_contents(batch, without_ids)


def _refuse_repeated_contents(batch: GivenRows, earlier: Sequence[GivenRows]) -> None:
    """Raise if a batch has more rows equal to rows of earlier batches than chance explains.

    The batch is compared with each earlier batch and with all of them together, as whole rows and as each
    model reads them. Fresh batches are refused with an estimated probability of at most `BATCH_LEVEL` in
    all comparisons together.
    """
    comparisons = list[tuple[str, RowCounts, RowCounts]]()
    for model, counts in batch.counts.items():
        with_model = [other for other in earlier if model in other.counts]
        for other in with_model:
            comparisons.append((f"batch {other.name!r}", counts, other.counts[model]))
        if len(with_model) > 1:
            all_counts = RowCounts.together([other.counts[model] for other in with_model])
            comparisons.append(("the earlier batches", counts, all_counts))
    for name, counts, counts_before in comparisons:
        chance = chance_of_agreement(counts, counts_before, tolerant=True)
        if chance * len(comparisons) <= BATCH_LEVEL:  # union bound
            n_here, n_before = counts.beside(counts_before)
            ids = as_typed("row ids (id=)", "the column of row ids (--id)")
            raise LeakageError(
                f"X: {np.minimum(n_here, n_before).sum():,} of {n_here.sum():,} rows have an "
                f"equal row of their own in {name}. Fresh batches agree as much with an "
                f"estimated probability of at most {max(chance, SMALLEST_CHANCE):.1g}: rows "
                f"were given twice. If these are different rows, give {ids} with each batch"
            )


def copies_pass(batch: GivenRows, n_comparisons: int) -> bool:
    """Return whether `refuse_repeated` would accept a copy of a batch without ids.

    A batch with few rows, or few different ones, has accepted copies. ``n_comparisons`` divide the level.
    """
    counts = batch.counts.get("")
    if counts is None:
        return False
    chance = chance_of_agreement(counts, counts, tolerant=True)
    return chance * n_comparisons > BATCH_LEVEL
