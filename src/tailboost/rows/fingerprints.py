"""Row hashes, fingerprints of tables, used rows, and random draws that depend on the values of rows alone."""

from __future__ import annotations

import base64
import hashlib
import zlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, Literal, Self, get_args

import numpy as np
from numpy.typing import NDArray

from tailboost.core.array_types import (
    Array,
    Column,
    Document,
    Floats,
    Floats32,
    Hashes,
    Ints,
    Table,
)
from tailboost.core.checks import (
    distinct_and_places,
    is_missing,
    is_sparse,
    stable_order,
    summed,
)
from tailboost.core.exceptions import LeakageError
from tailboost.core.spelling import as_typed
from tailboost.rows.schema import distinct

#: Reason for rows that equal training rows: copies, or features with few values.
EqualRows = Literal["copies", "natural"]
# A bound on a logarithm, with its gradient.
ShortHashes = NDArray[np.uint32]
LogBound = Callable[[Floats], tuple[float, Floats]]
#: Purpose of rows with labels, used up by a rule.
Use = Literal["selection data", "calibration rows"]
# Estimated probability up to which two independent tables are judged to share rows: one pair in 100,000.
SHARED_LEVEL = 1e-5
# Contents with t rows in both tables: the odds of a table are proportional to a power of t up to this one,
# and from `FREQUENT` rows on to another power. ``benchmarks/reused_rows.py`` compares values.
STEEPEST = 3.0
FREQUENT = 8
# Largest number of row hashes in a fingerprint, of four bytes each.
MOST_HASHES = 50_000
# Largest fraction of fresh rows equal to known rows by chance.
CHANCE = 0.05
# Allowed excess over this fraction, in standard errors.
STANDARD_ERRORS = 3.0
# Tables with natural repeats: allowed excess over the fraction expected from repeats within the table, in
# standard errors.
NATURAL_ERRORS = 4.0
# n rows without a repeat: n times the largest probability of a repeat, with 95 % confidence.
UNSEEN_REPEATS = 3.0
# Fewest different rows of a table of copies: chance makes one such table in 2²⁰, see `times_copied`.
FEWEST_COPIED = 21
# Probability up to which a number of equal rows is no chance: that of four standard deviations.
BY_CHANCE = 3e-5
# Number of hashed bits of the mantissa, by the least number of fractional numbers in a row. A row with many
# fractional numbers is identified by few bits of each. With few bits, the row keeps its hash if a file stores
# fewer digits.
MANTISSA_BITS = ((1, 20), (2, 16), (3, 14), (8, 12), (32, 10), (200, 7))
# Offset of the rounding grid relative to its step: it moves common decimals (tenths, halves) off the borders.
GRID_OFFSET = 0.381966
# A number is a rounding error if it is below `ABSOLUTE_ZERO` and below `RELATIVE_ZERO` times the largest
# number of its row.
ABSOLUTE_ZERO = 1e-10
RELATIVE_ZERO = 1e-6

# Number of rows hashed at a time, which fit the processor's cache. On Dask's workers, arrays from 128 kB on
# return to the system at once, and hashing whole columns took five times as long.
HASHED_AT_ONCE = 8192
# Number of values hashed at a time: wide tables have fewer rows in a block.
NUMBERS_AT_ONCE = 2**18

# Seed of `random_numbers`, fixed so nobody can select among draws.
DRAWS_SEED = 20_260_704

_ODD = np.uint64(0x9E3779B97F4A7C15)
_MIX_1 = np.uint64(0xBF58476D1CE4E5B9)
_MIX_2 = np.uint64(0x94D049BB133111EB)


def _mix(x: Hashes) -> Hashes:
    """Return scrambled 64-bit words (the finaliser of SplitMix64)."""
    x = (x ^ (x >> np.uint64(30))) * _MIX_1
    x = (x ^ (x >> np.uint64(27))) * _MIX_2
    return x ^ (x >> np.uint64(31))


def _multipliers(n_columns: int) -> Hashes:
    """Return an odd factor for each column, shape (d,): equal values in two columns get different words."""
    words = _mix(np.arange(1, n_columns + 1, dtype=np.uint64) * _ODD)
    return words | np.uint64(1)


def _word(value: object) -> int:
    """Return any object as a 64-bit word. With 32 bits, collisions would be likely among 100,000 values."""
    content = hashlib.blake2b(repr(value).encode(), digest_size=8)
    return int.from_bytes(content.digest(), "little")


def hash_rows(X: Table, seed: int = 0) -> Hashes:
    """Hash every row of a table by its content, shape (n,).

    The table may be one of these:

    * an array of numbers with two axes, or with more axes, such as images;
    * a sparse matrix;
    * a data frame or an object array with values of any type.

    Equal rows have equal hashes at any position, in an array and in a data frame. Different rows almost
    surely have different hashes. The hash of a row depends on the seed.
    """
    return _mix(_hashes(X, exact=True) + _mix(np.full(1, seed, dtype=np.uint64)))


def hashes_of_pairs(first: Hashes, second: Hashes) -> Hashes:
    """Hash pairs of hashes: equal pairs have equal hashes, different pairs almost surely different ones."""
    return _mix(first * _ODD + second)


def hash_rounded_rows(X: Table) -> Hashes:
    """Hash rows, with equal hashes for a table and its copy in a file, in float32 or as objects.

    Numbers become float32. Fractional numbers are rounded, more coarsely if a row has many (`MANTISSA_BITS`:
    from 6 decimal digits for one to 2 for 200 and more). Numbers among objects or as text are numbers, truth
    values are 0 and 1, −0 is 0, and all kinds of missing values are equal. Other text is unchanged. Rows with
    a number on a border of the rounding may still differ.
    """
    return _mix(_hashes(X, exact=False))


def _hashes(X: Table, *, exact: bool) -> Hashes:
    """Return the sum of the scrambled words of each row, one word for each column, shape (n,).

    Zeros add nothing, so a sparse and a dense matrix have equal sums. Sums wrap around at 2⁶⁴.
    """
    if is_sparse(X):
        matrix = summed(X).tocsr()  # one entry for each place
        row_of_entry = np.repeat(np.arange(matrix.shape[0]), np.diff(matrix.indptr))
        multipliers = _multipliers(matrix.shape[1])[matrix.indices]
        terms = _mix(_words(matrix.data, exact, row_of_entry)) * multipliers
        # The terms of a row follow one another: their sum is a difference of two cumulated sums.
        cumulated = np.concatenate([[np.uint64(0)], np.cumsum(terms, dtype=np.uint64)])
        return cumulated[matrix.indptr[1:]] - cumulated[matrix.indptr[:-1]]
    if len(X.shape) > 2:  # images
        X = X.reshape(len(X), -1)
    columns, hashes = _columns_and_words(X, exact)
    multipliers = _multipliers(X.shape[1])
    most_rows = NUMBERS_AT_ONCE // max(1, X.shape[1])
    block_length = max(1, min(HASHED_AT_ONCE, most_rows))
    for start in range(0, len(hashes), block_length):
        block = slice(start, start + block_length)
        numbers = X[block] if columns is None else _numbers(columns, block)
        terms = _mix(_words(numbers, exact)) * multipliers
        hashes[block] += terms.sum(axis=1, dtype=np.uint64)
    return hashes


def _words(numbers: Array, exact: bool, row: Ints | None = None) -> Hashes:
    """Return numbers as 64-bit words; equal numbers have equal words (−0 = 0, one NaN).

    Numbers have the shape (n, d), or are the entries of a sparse matrix, with the row of each entry. If not
    ``exact``, they become float32 and are rounded, see `_rounded_words`.
    """
    dtype: Any = np.float32
    if exact:
        dtype = np.float64
    with np.errstate(over="ignore", invalid="ignore"):  # float32 has a smaller range
        # By column: sums over the few numbers of a row are then several times as fast.
        x = np.array(numbers, dtype=dtype, order="F")
    x += 0.0  # −0 becomes 0
    x[np.isnan(x)] = np.nan  # NaN has many bit patterns
    if exact:
        return x.view(np.uint64)
    return _rounded_words(x, row)


def _rounded_words(x: Floats32, row: Ints | None) -> Hashes:
    """Return numbers as words after rounding: errors such as 1e-12 in a row with 1 become 0.

    Fractional numbers are rounded to a relative grid, coarser for a row with more fractional numbers.
    Arguments are as in `_words`; the result has the shape of ``x``, and ``x`` is changed.
    """
    sizes = np.where(np.isnan(x), 0.0, np.abs(x)).astype(np.float32)
    if row is None:
        largest = sizes.max(axis=1, initial=0.0, keepdims=True)  # shape (n, 1)
    else:
        largest_by_row = np.zeros(int(row.max(initial=0)) + 1, dtype=np.float32)
        np.maximum.at(largest_by_row, row, sizes)
        largest = largest_by_row[row]  # one for each entry
    zero = np.minimum(np.float32(ABSOLUTE_ZERO), largest * np.float32(RELATIVE_ZERO))
    x[np.abs(x) < zero] = 0.0
    is_fractional = (np.rint(x) != x) & ~np.isnan(x)
    if row is None:
        n_fractional = is_fractional.sum(axis=1, keepdims=True)
    else:
        n_fractional = np.bincount(row[is_fractional], minlength=len(largest_by_row))[row]
    fewest_fractional, n_bits = np.array(MANTISSA_BITS).T
    # Rows without a fractional number have no line, and take the first.
    line = np.searchsorted(fewest_fractional, n_fractional, side="right").clip(min=1) - 1
    n_cut = (23 - n_bits[line]).astype(np.uint32)  # of the mantissa's 23 bits
    bits = x.view(np.uint32)
    # The sum may carry to the exponent.
    shifted = bits + np.ldexp(GRID_OFFSET, n_cut.astype(np.int32)).astype(np.uint32)
    rounded = (shifted >> n_cut) << n_cut
    return np.where(is_fractional, rounded, bits).astype(np.uint64)


def _columns_and_words(X: Table, exact: bool) -> tuple[list[Any] | None, Hashes]:
    """Return the columns of a table as numbers, and the sum of the words of each row's other values.

    Columns of numbers are those of the data frame. Text and other values have the number 0, which adds
    nothing to a hash. Numbers have no word. The sums have the shape (n,), and the words are scrambled by the
    column's multiplier. The columns are None for an array of numbers, or without any.
    """
    is_frame = hasattr(X, "iloc")
    sums = np.zeros(X.shape[0], dtype=np.uint64)
    if not X.shape[1] or (not is_frame and X.dtype.kind in "fiub"):
        return None, sums
    columns = []
    for j, multiplier in enumerate(_multipliers(X.shape[1])):
        column = X.iloc[:, j] if is_frame else X[:, j]
        if getattr(column.dtype, "kind", "O") not in "fiub":
            values, place = _distinct_values(column)
            numbers = np.empty(len(values))
            words = np.empty(len(values), dtype=np.uint64)
            for i, value in enumerate(values):
                numbers[i], words[i] = _number_or_word(value, exact)
            column = numbers[place]
            sums += (_mix(words) * multiplier)[place]
        columns.append(column)
    return columns, sums


def _numbers(columns: list[Any], block: slice) -> Array:
    """Return the numbers of some rows, shape (n, d), from the columns of a table."""
    parts = [
        column.iloc[block].to_numpy(dtype=np.float64, na_value=np.nan)
        if hasattr(column, "iloc")
        else column[block]
        for column in columns
    ]
    return np.array(parts).T


def _distinct_values(column: Column) -> tuple[list[Any], Ints]:
    """Return the distinct values of a column of objects or text, and the position of each row's value.

    Positions have shape (n,). For a column of a data frame the last value is None, with the position −1 of
    missing values.
    """
    if hasattr(column, "iloc"):
        places, values = distinct(column, f"column {column.name!r}")
        return [*values, None], places  # missing values have the place −1, the last
    if column.dtype.kind == "U":
        names, places = distinct_and_places(column)
        return names.tolist(), places
    place_of_value: dict[Any, int] = {}
    place_of_row = []
    for value in column.tolist():
        if not value.__hash__:  # a list or dict
            value = repr(value)
        place = place_of_value.setdefault(value, len(place_of_value))  # a new value is the last
        place_of_row.append(place)
    return list(place_of_value), np.array(place_of_row, dtype=np.intp)


def _number_or_word(value: Any, exact: bool) -> tuple[float, int]:
    """Return an object as a number and 0, or as 0 and a word. If ``exact``, all text is a word."""
    if is_missing(value):
        return np.nan, 0
    if exact and isinstance(value, str):
        return 0.0, _word(value)
    try:
        return float(value), 0
    except (TypeError, ValueError, OverflowError):
        return 0.0, _word(value)


def digest(*contents: bytes) -> str:
    """Return the digest of contents one after the other, 32 hexadecimal digits."""
    hashed = hashlib.blake2b(digest_size=16)
    for content in contents:
        hashed.update(content)
    return hashed.hexdigest()


def digest_of_rule(rule: Any, columns: Sequence[Any] = ()) -> str:
    """Return the digest of a rule that identifies it in every form: in memory, as a document and in a file.

    Parameters
    ----------
    rule : Rule or ThresholdRule
        The rule.
    columns : sequence of tuple, optional
        Columns, label, kind and missing value of each `Scores` of the rule.
    """
    return digest(repr((rule.identity, list(columns))).encode())


# -- draws and fingerprints ---------------------------------------------------------------------------------


def numbered_by_rows(kind: Ints, contents: Hashes) -> Ints:
    """Return the number of each row's kind, the most frequent kind first, shape (n,).

    Kinds, such as classes, are known by their rows, so their names and old numbers have no effect. The sum of
    the rows' ``contents`` orders kinds with equally many rows; if it is equal too, they keep their order.
    """
    n_rows = np.bincount(kind)
    sums = np.zeros(len(n_rows), dtype=np.uint64)
    np.add.at(sums, kind, contents)
    number = np.empty(len(n_rows), dtype=np.intp)
    number[np.lexsort((sums, -n_rows))] = np.arange(len(n_rows))
    return number[kind]


def random_numbers(*parts: Array, clusters: Ints | None = None) -> Floats:
    """Return an independent uniform random number for each row.

    The rows are sorted by ``parts``, arrays of n integers: the content, the class. The k-th row
    gets the k-th number of a generator, seeded by `DRAWS_SEED` and the sum of all rows. The order of the
    table has no effect, except that rows equal in all parts may exchange their numbers. A proof may treat the
    numbers as drawn after the rows.

    With ``clusters``, the number from 0 of each row's cluster, the rows of a cluster are sorted together, and
    the clusters by their rows. So the names of clusters have no effect, except that clusters with equal rows
    may exchange all their numbers. Otherwise other names would be other draws.

    Examples
    --------
    >>> import numpy as np
    >>> content, order = np.array([7, 7, 3, 3]), np.array([2, 0, 3, 1])
    >>> numbers = random_numbers(content)
    >>> len(np.unique(numbers))
    4
    >>> sorted(numbers[order][content[order] == 7]) == sorted(numbers[content == 7])
    True
    """
    words = np.zeros(len(parts[0]), dtype=np.uint64)
    for part in parts:
        words = _mix(words * _ODD + part.astype(np.uint64) + _ODD)
    order = stable_order(words)
    if clusters is not None:
        sum_by_cluster = np.zeros(int(clusters.max(initial=-1)) + 1, dtype=np.uint64)
        np.add.at(sum_by_cluster, clusters, words)
        cluster_words = _mix(sum_by_cluster)[clusters]  # one for each row
        # The last key is the first: clusters by their rows, equal clusters by name, rows within them.
        order = np.lexsort((words, clusters, cluster_words))
        words = _mix(words * _ODD + cluster_words + _ODD)
    # With the sum in the seed, two tables with different rows have unrelated numbers.
    generator = np.random.default_rng([DRAWS_SEED, int(words.sum(dtype=np.uint64))])
    numbers = np.empty(len(words))
    numbers[order] = generator.random(len(words))
    return numbers


@dataclass(frozen=True, eq=False)
class Fingerprint:
    """Row hashes of a table, to recognise its rows: all of a small table, a sample of a large one."""

    kept: ShortHashes  # the smallest distinct hashes, sorted
    # All rows with a hash of at most this are in ``kept``.
    limit: int
    # Fraction of the rows with an equal row in the table.
    repeated: float
    # Whether all training rows are included; rows of a frozen estimator may be missing.
    complete: bool = True

    #: The limit of a fingerprint of all rows.
    COMPLETE: ClassVar[int] = 2**32 - 1
    #: The limit of a fingerprint of no rows, which is below all hashes.
    WITHOUT_ROWS: ClassVar[int] = -1

    @classmethod
    def from_hashes(cls, hashes: Hashes, most: int = MOST_HASHES) -> Self:
        """Return the fingerprint of rows from their `hash_rounded_rows`, with at most ``most`` hashes."""
        return cls.from_counts(RowCounts.from_hashes(hashes, most))

    @classmethod
    def from_table(cls, X: Table) -> Self:
        """Return the fingerprint of the rows of a table."""
        return cls.from_hashes(hash_rounded_rows(X))

    @classmethod
    def from_counts(cls, rows: RowCounts) -> Self:
        """Return the fingerprint of counted rows; for many rows, ``repeated`` is estimated on a sample."""
        limit = rows.limit
        if rows.n_rows == 0:
            limit = cls.WITHOUT_ROWS
        return cls(rows.contents, limit, rows.repeated)

    @classmethod
    def union(cls, fingerprints: Sequence[Fingerprint]) -> Self:
        """Return the fingerprint of the rows of several tables: a sample if one of them is a sample.

        Its ``repeated`` is the largest natural fraction of fresh rows equal to one of the rows: contents rare
        in one table are assumed rare in the others.
        """
        tables = [table for table in fingerprints if table.limit != cls.WITHOUT_ROWS]
        # All tables have kept their hashes up to the smallest limit.
        limit = min((table.limit for table in tables), default=cls.COMPLETE)
        no_hashes = np.empty(0, dtype=np.uint32)
        hashes = np.concatenate([no_hashes, *(table.kept for table in tables)])
        repeated_in_none = float(np.prod([1.0 - table.repeated for table in tables]))
        complete = all(table.complete for table in fingerprints)
        return cls(np.unique(hashes[hashes <= limit]), limit, 1.0 - repeated_in_none, complete)

    def count(self, hashes: Hashes) -> tuple[int, int]:
        """Return the number of known rows, and the number of compared rows."""
        short = short_hashes(hashes)
        known = np.isin(short[short <= self.limit], self.kept)
        return int(known.sum()), len(known)

    def share(self, hashes: Hashes) -> float:
        """Return the fraction of known rows; NaN if the sample is empty."""
        known, compared = self.count(hashes)
        if not compared:
            return float("nan")
        return known / compared

    def unnatural(self, known: int, sampled: int) -> bool:
        """Return whether more rows are known than natural repeats in the data explain.

        ``known`` of ``sampled`` fresh rows equal rows of the fingerprint. A new row equals one of n rows with
        about the probability 1 minus the fraction of these n rows with a single occurrence (Good and Turing).
        """
        if not sampled:
            return False
        # A few equal rows are allowed even if no row of the fingerprint is repeated.
        expected = max(CHANCE, self.repeated)
        variance = max(expected * (1 - expected), CHANCE * (1 - CHANCE))
        # Both fractions are estimates: of the fresh rows, and of the kept ones, which may be none.
        standard_error = np.sqrt(variance * (1 / sampled + 1 / max(1, len(self.kept))))
        return bool(known / sampled > expected + NATURAL_ERRORS * standard_error)

    def exceeds_repeats(self, known: int, sampled: int) -> bool:
        """Return whether more rows are known than these rows repeat one another, also below 5 %.

        Their number is about a Poisson variable; a tail of a probability of `BY_CHANCE` is no chance. If no
        kept row is repeated, the probability of a repeat is at most 3 / n with 95 % confidence. Different
        rows also have the same hash of 32 bits by chance.
        """
        repeats = max(self.repeated, UNSEEN_REPEATS / max(1, len(self.kept)))
        same_hash = len(self.kept) / max(1.0, self.limit + 1.0)
        mean = (repeats + same_hash) * sampled
        return poisson_tail(known, mean) <= BY_CHANCE

    def to_dict(self) -> Document:
        """Return plain types for JSON."""
        return vars(self) | {"kept": packed(self.kept)}

    @classmethod
    def from_dict(cls, state: Document) -> Self:
        """Return the fingerprint written by `to_dict`."""
        return cls(
            unpacked(state["kept"]),
            int(state["limit"]),
            float(state["repeated"]),
            bool(state["complete"]),
        )

    def overlaps(self, other: Fingerprint) -> bool:
        """Return whether more rows of another fingerprint are known than `too_many` allows."""
        # `short_hashes` returns the kept hashes again.
        hashes = other.kept.astype(np.uint64) << np.uint64(32)
        return too_many(*self.count(hashes))


def packed(numbers: Array) -> str:
    """Return numbers as text, in four bytes each."""
    return base64.b64encode(numbers.astype("<u4").tobytes()).decode()


def unpacked(text: str) -> ShortHashes:
    """Return the numbers of a text by `packed`."""
    return np.frombuffer(base64.b64decode(text, validate=True), dtype="<u4").astype(np.uint32)


def squeezed(numbers: Array) -> str:
    """Return numbers below 2³² as compressed text: small numbers take few bytes."""
    # Shape (4, n): the lowest bytes of all numbers, …, the highest bytes, which are nearly all equal.
    bytes_by_place = numbers.astype("<u4").view(np.uint8).reshape(-1, 4).T
    return base64.b85encode(zlib.compress(bytes_by_place.tobytes())).decode()


def unsqueezed(text: str) -> ShortHashes:
    """Return the numbers of a text by `squeezed`, shape (n,); raise ValueError for n above `MOST_HASHES`.

    Damaged text raises ValueError too.
    """
    decompressor = zlib.decompressobj()
    most_bytes = 4 * MOST_HASHES
    try:
        # One byte more shows a longer content, and a small text cannot fill the memory.
        content = decompressor.decompress(base64.b85decode(text), most_bytes + 1)
    except zlib.error as error:
        raise ValueError(f"counts of rows are damaged: {error}") from None
    if len(content) > most_bytes or len(content) % 4 or not decompressor.eof:
        raise ValueError("counts of rows are damaged, or too many")
    bytes_by_place = np.frombuffer(content, dtype=np.uint8).reshape(4, -1)
    return np.ascontiguousarray(bytes_by_place.T).view("<u4").ravel().astype(np.uint32)


def fingerprint_of(training_rows: Table, hashes_of: Callable[[Any], Hashes]) -> Fingerprint:
    """Return the fingerprint of training rows named by the caller.

    Parameters
    ----------
    training_rows : table or Fingerprint
        The rows, or their fingerprint.
    hashes_of : callable
        Returns the hashes of a table in the form of fresh rows; raises if this is impossible.
    """
    if isinstance(training_rows, Fingerprint):  # without the rows
        return training_rows
    return Fingerprint.from_hashes(hashes_of(training_rows))


@dataclass(frozen=True, eq=False)
class RowHashes:
    """Hashes of rows by content, from `hash_rounded_rows`.

    Attributes
    ----------
    whole : ndarray of uint64, shape (n,)
        Hashes of the whole rows.
    read : dict of str to ndarray of uint64, shape (n,)
        Hashes of the scores or given probabilities of a single model, by the name of the model. Tables of the
        same rows with different other columns have these hashes in common. `with_groups` adds others.
    """

    whole: Hashes
    read: Mapping[str, Hashes] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self.whole)

    def taken(self, rows: Any) -> RowHashes:
        """Return the hashes of some rows."""
        read = {name: hashes[rows] for name, hashes in self.read.items()}
        return RowHashes(self.whole[rows], read)

    def with_groups(self, columns: Mapping[Any, Column]) -> RowHashes:
        """Return these hashes, and those of each model's scores together with the groups of the rows.

        Different rows with equal scores are often of different groups. So fewer rows are equal by chance, and
        more copies are recognised.
        """
        if not columns:
            return self
        read = dict(self.read)
        names = sorted(columns, key=str)
        for model, hashes in self.read.items():
            for name in names:
                hashes = hashes_of_pairs(hashes, hash_rounded_rows(columns[name][:, None]))
            read[f"{model} with groups {names}"] = hashes
        return replace(self, read=read)

    @classmethod
    def joined(cls, parts: Sequence[RowHashes]) -> Self:
        """Return the hashes of the rows of several tables, with the models common to all tables."""
        read = {}
        for name in parts[0].read:
            if all(name in part.read for part in parts):
                read[name] = np.concatenate([part.read[name] for part in parts])
        return cls(np.concatenate([part.whole for part in parts]), read)


@dataclass(frozen=True, eq=False)
class RowCounts:
    """How often each content occurs among the rows of a table; of a large table for a sample of contents."""

    contents: ShortHashes  # the smallest distinct hashes, sorted
    counts: Ints  # number of rows of each content
    # All rows with a hash of at most this are counted.
    limit: int
    n_rows: int  # all rows of the table

    @classmethod
    def from_hashes(cls, hashes: Hashes, most: int = MOST_HASHES) -> Self:
        """Return the counts of rows from their hashes, for at most ``most`` contents."""
        short, counts = np.unique(short_hashes(hashes), return_counts=True)
        return cls(short, counts, Fingerprint.COMPLETE, len(hashes)).smallest(most)

    @classmethod
    def together(cls, tables: Sequence[RowCounts]) -> Self:
        """Return the counts of the rows of several tables, within the samples of all of them."""
        contents_by_table = np.concatenate([table.contents for table in tables])
        counts_by_table = np.concatenate([table.counts for table in tables])
        contents, place = np.unique(contents_by_table, return_inverse=True)
        counts = np.bincount(place, counts_by_table).astype(np.intp)
        limit = min(table.limit for table in tables)
        is_sampled = contents <= limit  # all tables have counted these contents
        n_rows = sum(table.n_rows for table in tables)
        joined = cls(contents[is_sampled], counts[is_sampled], limit, n_rows)
        return joined.smallest(MOST_HASHES)

    def smallest(self, most: int) -> Self:
        """Return the counts of the ``most`` contents with the smallest hashes, or all of fewer."""
        if len(self.contents) <= most:
            return self
        contents = self.contents[:most]
        counts = self.counts[:most]
        return replace(self, contents=contents, counts=counts, limit=int(contents[-1]))

    @property
    def repeated(self) -> float:
        """Fraction of the rows with an equal row in the table."""
        return float(self.counts[self.counts > 1].sum() / max(1, self.counts.sum()))

    def equals(self, other: RowCounts) -> bool:
        """Return whether two tables have the same rows, in any order."""
        return (
            (self.n_rows, self.limit) == (other.n_rows, other.limit)
            and np.array_equal(self.contents, other.contents)
            and np.array_equal(self.counts, other.counts)
        )

    def beside(self, other: RowCounts) -> tuple[Ints, Ints]:
        """Return the counts of all contents in this and in another table, within both samples."""
        contents = np.union1d(self.contents, other.contents)
        contents = contents[contents <= min(self.limit, other.limit)]
        return self._counts_of(contents), other._counts_of(contents)

    def _counts_of(self, contents: ShortHashes) -> Ints:
        """Return the number of rows of each of these distinct contents, 0 for others than in the table."""
        counts = np.zeros(len(contents), dtype=np.int64)
        _, place, place_here = np.intersect1d(
            contents, self.contents, assume_unique=True, return_indices=True
        )
        counts[place] = self.counts[place_here]
        return counts

    def to_dict(self) -> Document:
        """Return plain types for JSON, some 3.3 bytes for each content."""
        gaps = np.diff(self.contents.astype(np.int64), prepend=0)
        return {
            "gaps": squeezed(gaps),
            "repeats": squeezed(self.counts - 1),
            "limit": self.limit,
            "rows": self.n_rows,
        }

    @classmethod
    def from_dict(cls, state: Document) -> Self:
        """Return the counts written by `to_dict`.

        Raises
        ------
        KeyError, TypeError, ValueError
            If the state is no such dict.
        """
        # A file has the differences of the sorted hashes, and the counts minus 1: small numbers.
        hashes = np.cumsum(unsqueezed(state["gaps"]), dtype=np.int64)
        if (hashes > Fingerprint.COMPLETE).any():
            raise ValueError("contents of rows are damaged")
        contents = hashes.astype(np.uint32)
        counts = unsqueezed(state["repeats"]) + np.uint32(1)
        is_increasing = (np.diff(contents.astype(np.int64)) > 0).all()
        if len(contents) != len(counts) or not is_increasing or (counts < 1).any():
            raise ValueError("counts of rows do not belong to their contents")
        return cls(contents, counts.astype(np.int64), int(state["limit"]), int(state["rows"]))


def chance_of_agreement(rows: RowCounts, other: RowCounts, *, tolerant: bool = False) -> float:
    """Return about the largest probability that two independent tables agree as much as these.

    Content c has t_c pooled rows, a_c in one table and b_c in the other. Copied rows make the agreement
    Σ a_c b_c / t_c large. Given all t_c and Σ a_c, numbers a_c of independent rows are binomial, and the odds
    of a content grow with the ratio of its probabilities in the two populations. Chernoff's method bounds the
    upper tail of the agreement:

    * Other odds of contents with equal t only lower the bound. The agreement a (t − a) / t is concave in a,
      so its tilted mean is log-concave in the probability of the first table (Brändén and Huh 2020). By
      Jensen's inequality, all contents with equal t may have their mean probability.
    * This mean is a model: its odds are proportional to a power of t of at most `STEEPEST`, another one from
      `FREQUENT` rows on. The powers are estimated from both tables; in one population they are 0. After a
      shift of rounded scores, frequent values have other odds than rare ones, and rows may agree more.
    * The probability of Σ a_c is at least a binomial one (Hoeffding 1956).

    So the bound serves few and many distinct contents. Chance explains no agreement if every content occurs
    once in each table. ``benchmarks/reused_rows.py`` simulates shifts of several kinds.

    If ``tolerant``, and some rows of either table have no equal row in the other, one row in twenty of the
    smaller table may be a copy, by three standard errors: without the equal rows of the rarest contents, the
    agreement must be as unlikely.

    Examples
    --------
    >>> import numpy as np
    >>> from tailboost.rows.fingerprints import RowCounts, chance_of_agreement, hash_rows
    >>> scores = hash_rows(np.random.default_rng(0).random((60, 1)))
    >>> first, superset = RowCounts.from_hashes(scores[:40]), RowCounts.from_hashes(scores)
    >>> chance_of_agreement(first, superset) < 1e-8
    True
    >>> grades = hash_rows(np.random.default_rng(0).integers(3, size=(100, 1)))
    >>> chance_of_agreement(RowCounts.from_hashes(grades[:40]), RowCounts.from_hashes(grades)) > 0.1
    True
    """
    a, b = rows.beside(other)
    chance = _chance_of_split(a, b)
    pairs = np.minimum(a, b)  # equal rows of both tables, by content
    n_smaller = int(min(a.sum(), b.sum()))
    if not tolerant or pairs.sum() == n_smaller:  # the smaller table is a part of the larger
        return chance
    standard_error = np.sqrt(CHANCE * (1 - CHANCE) * n_smaller)
    n_copies = int(np.ceil(CHANCE * n_smaller + STANDARD_ERRORS * standard_error))
    # Equal rows of the rarest contents are taken for copies, up to this number.
    rarest_first = np.argsort(a + b, kind="stable")
    copies = np.empty_like(pairs)
    cumulated = np.minimum(np.cumsum(pairs[rarest_first]), n_copies)
    copies[rarest_first] = np.diff(cumulated, prepend=0)
    return max(chance, _chance_of_split(a - copies, b), _chance_of_split(a, b - copies))


def _chance_of_split(a: Ints, b: Ints) -> float:
    """Return `chance_of_agreement` from the numbers of rows of each content in two tables, shape (m,)."""
    occurs = a + b > 0
    a = a[occurs]
    b = b[occurs]
    if not (np.minimum(a, b) > 0).any():  # no content is in both
        return 1.0
    split = _Split.of(a, b)
    populations = _least(split.log_bound_of_powers, np.zeros(4), largest_tilt=0.0)
    if populations.jac[0] >= 0:  # rows of these populations agree more
        return 1.0
    best = _least(split.log_bound(), populations.x, largest_tilt=1e4)
    # Given the number of rows in the first table.
    log_chance = split.n * (best.fun - populations.fun) - _log_binomial(
        split.n_first, split.n, split.p
    )
    return float(np.exp(min(0.0, log_chance)))


def _least(log_bound: LogBound, tilt: Floats, largest_tilt: float) -> Any:
    """Return the result of scipy's `minimize` for a bound of `_Split`, from a first tilt."""
    from scipy.optimize import minimize  # not needed for answers of a rule from a file

    powers = (-STEEPEST, STEEPEST)
    return minimize(
        log_bound,
        tilt,
        jac=True,
        method="L-BFGS-B",
        bounds=[(0, largest_tilt), (-1e4, 1e4), powers, powers],
        options={"ftol": 1e-14, "gtol": 1e-8},
    )


@dataclass(frozen=True, eq=False)
class _Split:
    """The rows of two tables by content. All contents with t rows in both tables are alike.

    A tilt has four numbers: of the agreement, and of the log-odds of a row for the three ``terms``.

    Attributes
    ----------
    totals, n_contents : ndarray of int, shape (k,)
        The different t, and the number of contents with t rows.
    n, n_first : int
        The number of rows of both tables, and of the first one.
    terms : ndarray of shape (3, k)
        A constant, log t, and its excess over the logarithm of `FREQUENT`. The last two are centred on their
        means over all rows.
    observed : ndarray of shape (4,)
        The agreement, and the sums of the terms over the rows of the first table.
    """

    totals: Ints
    n_contents: Ints
    n: int
    n_first: int
    terms: Floats
    observed: Floats

    @classmethod
    def of(cls, a: Ints, b: Ints) -> Self:
        """Return the split of contents with ``a`` and ``b`` rows in the two tables, shape (m,)."""
        totals, place, n_contents = np.unique(a + b, return_inverse=True, return_counts=True)
        n = int((a + b).sum())
        frequent = np.maximum(totals / FREQUENT, 1)
        terms = np.log([np.full(len(totals), np.e), totals, frequent])
        terms[1:] -= (terms[1:] @ (n_contents * totals) / n)[:, None]
        observed = np.r_[(a * b / (a + b)).sum(), terms[:, place] @ a]
        return cls(totals, n_contents, n, int(a.sum()), terms, observed)

    @property
    def p(self) -> float:
        """The share of the rows in the first table."""
        return self.n_first / self.n

    def log_bound_of_powers(self, tilt: Floats) -> tuple[float, Floats]:
        """Return the bound without a tilt of the agreement, with its gradient, for each row.

        The rows of a content in the first table are then binomial.
        """
        slope = tilt[1:] @ self.terms
        log_sums = np.logaddexp(np.log1p(-self.p), np.log(self.p) + slope)
        p_first = np.exp(np.log(self.p) + slope - log_sums)
        mean_agreement = (self.totals - 1) * p_first * (1 - p_first)
        return self._for_each_row(
            tilt, self.totals * log_sums, mean_agreement, self.totals * p_first
        )

    def log_bound(self) -> LogBound:
        """Return a function of the tilt: the bound with its gradient, for each row. All tilts are valid.

        Of the t rows of a content 0, …, t are in the first table. These t + 1 outcomes are one block of the
        arrays; ``start`` has the first place of each block.
        """
        start = np.cumsum(np.r_[0, self.totals[:-1] + 1])
        block = np.repeat(np.arange(len(self.totals)), self.totals + 1)
        t = self.totals[block]
        outcome = np.arange(len(block)) - start[block]
        log_probability = _log_binomial(outcome, t, self.p)
        agreement = outcome * (t - outcome) / t

        def bound(tilt: Floats) -> tuple[float, Floats]:
            slope = tilt[1:] @ self.terms
            exponent = log_probability + tilt[0] * agreement + slope[block] * outcome
            largest = np.maximum.reduceat(exponent, start)
            mass = np.exp(exponent - largest[block])  # at most 1: no overflow
            sums = np.add.reduceat(mass, start)
            mean_agreement = np.add.reduceat(mass * agreement, start) / sums
            mean_outcome = np.add.reduceat(mass * outcome, start) / sums
            return self._for_each_row(
                tilt, np.log(sums) + largest, mean_agreement, mean_outcome
            )

        return bound

    def _for_each_row(
        self, tilt: Floats, log_sums: Floats, mean_agreement: Floats, mean_outcome: Floats
    ) -> tuple[float, Floats]:
        """Return a bound with its gradient from the values of a content with each t, shape (k,)."""
        value = self.n_contents @ log_sums - tilt @ self.observed
        means = np.r_[
            self.n_contents @ mean_agreement, self.terms @ (self.n_contents * mean_outcome)
        ]
        return float(value) / self.n, (means - self.observed) / self.n


def _log_binomial(k: Any, n: Any, p: float) -> Any:
    """Return the logarithms of the binomial probabilities of k out of n."""
    from scipy.special import gammaln, xlogy

    logs = gammaln(n + 1) - gammaln(k + 1) - gammaln(n - k + 1)
    return logs + xlogy(k, p) + xlogy(n - k, 1 - p)


def poisson_tail(least: int, mean: float) -> float:
    """Return the probability that a Poisson variable has at least a value."""
    if least <= 0:
        return 1.0
    smaller = np.arange(least)
    log_factorials = np.log(np.maximum(smaller, 1)).cumsum()
    probabilities = np.exp(smaller * np.log(mean) - mean - log_factorials)
    return max(0.0, 1.0 - float(probabilities.sum()))


def too_many(known: int, sampled: int) -> bool:
    """Return whether the fraction of known rows exceeds 5 % by three standard errors.

    ``known`` of ``sampled`` rows equal rows of another table. Repeats within the other table do not raise the
    5 %: copies by oversampling or bootstrapping are not natural.
    """
    if not sampled:
        return False
    standard_error = np.sqrt(CHANCE * (1 - CHANCE) / sampled)
    return bool(known / sampled > CHANCE + STANDARD_ERRORS * standard_error)


def short_hashes(hashes: Hashes) -> ShortHashes:
    """Return the upper half of each hash, which fingerprints store."""
    return (hashes >> np.uint64(32)).astype(np.uint32)


def stratified_places(hashes: Hashes, strata: Ints, weight: Floats) -> Ints:
    """Order the distinct rows by stratum, and at random within a stratum, by their values alone.

    Every k-th place, or any even thinning of the places, is then a stratified draw. The hashes, under the
    fit's seed, decide the random order. Strata are classes (or class × group); equal rows of different strata
    count for the heavier one. The result is the place of each row, shape (n,), from 0 to the number of
    distinct rows − 1. Equal rows have the same place.
    """
    contents, content_of_row = np.unique(hashes, return_inverse=True)
    n_strata = int(strata.max()) + 1
    # Only pairs with rows: a table of all pairs would be large for crossed groups.
    pairs, pair_of_row = distinct_and_places(content_of_row * n_strata + strata)
    mass = np.bincount(pair_of_row, weights=weight)
    content, stratum = np.divmod(pairs, n_strata)
    # By content, and for each content by mass; ties by the number of the stratum.
    heaviest_first = np.lexsort((stratum, -mass, content))
    _, first_of_content = np.unique(content[heaviest_first], return_index=True)
    stratum_of_content = stratum[heaviest_first][first_of_content]
    place = np.empty(len(contents), dtype=np.intp)
    place[np.argsort(stratum_of_content, kind="stable")] = np.arange(len(contents))
    return place[content_of_row]


@dataclass(frozen=True, eq=False)
class UsedRows:
    """Used rows with labels: how often each content occurs, alone and with each label.

    Attributes
    ----------
    contents, labelled : RowCounts
        Counts of the contents, and of the pairs of content and label.
    use : {"selection data", "calibration rows"}
        The purpose of the rows.
    read : dict of str to UsedRows
        Used rows by the scores or probabilities of a single model, also with their groups, by the names of
        `RowHashes`.

    Examples
    --------
    >>> import numpy as np
    >>> from tailboost.rows.fingerprints import UsedRows, hash_rounded_rows
    >>> scores, y = np.random.default_rng(0).random((80, 1)), np.arange(80) % 2
    >>> hashes = hash_rounded_rows(scores)
    >>> first, superset = UsedRows.from_hashes(hashes[:50], y[:50]), UsedRows.from_hashes(hashes, y)
    >>> superset.shared_with(first), superset.shared_with(UsedRows.from_hashes(hashes[:0], y[:0]))
    (50, 0)
    """

    contents: RowCounts
    labelled: RowCounts
    use: Use = "calibration rows"
    read: Mapping[str, UsedRows] = field(default_factory=dict)

    @classmethod
    def from_table(cls, rows: RowHashes, labels: Any, use: Use = "calibration rows") -> Self:
        """Return the rows of a table, as whole rows and as single models read them."""
        read = {
            name: cls.from_hashes(hashes, labels, use) for name, hashes in rows.read.items()
        }
        return replace(cls.from_hashes(rows.whole, labels, use), read=read)

    @classmethod
    def from_hashes(cls, hashes: Hashes, labels: Any, use: Use = "calibration rows") -> Self:
        """Return the rows of a table from their `hash_rounded_rows` and labels.

        The first rows have the labels. Further rows have none, and are compared by content alone.
        """
        classes, y = distinct_and_places(np.asarray(labels))
        hashes_with_label = hashes[: len(y)]
        if len(y):
            # The text of a label has the same hash for all types: 1 in one table may be "1" in another.
            names = np.array([str(label) for label in classes.tolist()], dtype=object)
            hash_of_class = hash_rows(names[:, None])
            hashes_with_label = hashes_of_pairs(hashes_with_label, hash_of_class[y])
        return cls(RowCounts.from_hashes(hashes), RowCounts.from_hashes(hashes_with_label), use)

    @classmethod
    def together(cls, parts: Sequence[UsedRows]) -> Self:
        """Return the rows of several parts of a table."""
        contents = RowCounts.together([part.contents for part in parts])
        labelled = RowCounts.together([part.labelled for part in parts])
        read = {}
        for name in parts[0].read:
            read[name] = cls.together([part.read[name] for part in parts])
        return cls(contents, labelled, parts[0].use, read)

    def shared_with(self, earlier: UsedRows, equal_rows: EqualRows = "natural") -> int:
        """Return about how many of these rows are rows of an earlier table; 0 if chance explains them.

        Whole equal tables are the same rows, in any order. Otherwise `chance_of_agreement` decides, for the
        contents alone and with their labels. Where few contents occur, it recognises nearly whole tables at
        most. With ``equal_rows="copies"`` equal rows are copies, and `too_many` decides as well.

        Rows are also compared by the scores or probabilities of each common model, and with their groups if
        both tables have these columns. Such parts of rows are often equal by chance, so `chance_of_agreement`
        decides about them for any ``equal_rows``. All names share the level.
        """
        names = self.read.keys() & earlier.read.keys()
        # The rows of a single model are the whole rows, and need no share.
        level = SHARED_LEVEL / max(1, len(names))
        n_shared = self._shared_whole(earlier, equal_rows, level)
        for name in names:
            as_read = self.read[name]._shared_whole(earlier.read[name], "natural", level)
            n_shared = max(n_shared, as_read)
        return n_shared

    def _shared_whole(self, earlier: UsedRows, equal_rows: EqualRows, level: float) -> int:
        """Return about how many of these rows, compared as whole rows, are rows of an earlier table.

        ``level`` is the allowed probability that two independent tables have such a number.
        """
        counts, earlier_counts = self.contents.beside(earlier.contents)
        n_sampled = int(counts.sum())
        n_equal = int(counts[earlier_counts > 0].sum())
        if equal_rows == "copies" and too_many(n_equal, n_sampled):
            return self._scaled_up(n_equal, n_sampled)
        is_same_table = self.labelled.equals(earlier.labelled) and self.labelled.n_rows > 0
        # Two tests share the level: with and without the labels.
        pairs = ((self.contents, earlier.contents), (self.labelled, earlier.labelled))
        if is_same_table or any(chance_of_agreement(*pair) <= level / 2 for pair in pairs):
            return self._scaled_up(int(np.minimum(counts, earlier_counts).sum()), n_sampled)
        return 0

    def equal_to(self, earlier: UsedRows) -> int:
        """Return about how many of these rows equal a row of an earlier table."""
        counts, earlier_counts = self.contents.beside(earlier.contents)
        n_equal = int(counts[earlier_counts > 0].sum())
        return self._scaled_up(n_equal, int(counts.sum()))

    def _scaled_up(self, n: int, n_sampled: int) -> int:
        """Return the estimate for all rows of the table from ``n`` of its sampled rows."""
        return round(self.contents.n_rows * n / max(1, n_sampled))

    def to_dict(self) -> Document:
        """Return plain types for JSON."""
        return {
            "contents": self.contents.to_dict(),
            "labelled": self.labelled.to_dict(),
            "use": self.use,
            "read": {name: rows.to_dict() for name, rows in self.read.items()},
        }

    @classmethod
    def from_dict(cls, state: Document) -> Self:
        """Return the rows written by `to_dict`.

        Raises
        ------
        KeyError, TypeError, ValueError
            If the state is no such dict.
        """
        if state["use"] not in get_args(Use):
            raise ValueError(f"rows of an unknown use {str(state['use'])[:40]!r}")
        contents = RowCounts.from_dict(state["contents"])
        labelled = RowCounts.from_dict(state["labelled"])
        read = {str(name): cls.from_dict(rows) for name, rows in state.get("read", {}).items()}
        return cls(contents, labelled, state["use"], read)


def checked_equal_rows(value: EqualRows) -> EqualRows:
    """Return ``equal_rows``; raise ValueError for another value than the two allowed ones."""
    if value not in get_args(EqualRows):
        raise ValueError(f"equal_rows must be 'copies' or 'natural', got {value!r}")
    return value


def equal_by_nature() -> str:
    """Return the argument for data with equal but different rows, as a user writes it."""
    return as_typed("equal_rows='natural'", "--equal-rows natural")


def equal_or_same(shared_beyond_chance: int) -> tuple[str, str]:
    """Return words for rows that are known rows, and the cure; rows that chance explains are only equal ones.

    Parameters
    ----------
    shared_beyond_chance : int
        Number of rows by which two tables agree more than chance explains.
    """
    if shared_beyond_chance:
        return "are", ""
    return "equal", (
        ". Chance explains as many equal rows where columns take few values: if nobody copied "
        f"a row, state {equal_by_nature()}"
    )


def refuse_used(
    rows: UsedRows, used: Sequence[UsedRows], equal_rows: EqualRows, name: str
) -> None:
    """Raise LeakageError if rows, called ``name`` in the message, were used to select or calibrate a rule.

    The message names the use of the most rows. It distinguishes copies from rows that are equal by chance.
    """
    n_shared = [  # rows that only equal one of a table are not its rows, too
        min(rows.shared_with(earlier, equal_rows), earlier.contents.n_rows) for earlier in used
    ]
    most_shared = max(n_shared, default=0)
    if not most_shared:
        return
    earlier = used[n_shared.index(most_shared)]
    verb, cure = equal_or_same(rows.shared_with(earlier))
    is_part = most_shared < earlier.contents.n_rows
    if not cure and is_part and rows.contents.repeated > CHANCE:
        # `chance_of_agreement` has a model of shifts.
        cure = (
            ". If nobody copied a row, an irregular shift of the scores can explain it, because "
            f"{rows.contents.repeated:.0%} of these rows equal one another: give scores with "
            "more digits"
        )
    others = [  # of one batch, a part selects and the others certify
        n for n, table in zip(n_shared, used, strict=True) if n and table.use != earlier.use
    ]
    also = ""
    if others:
        (other_use,) = {"selection data", "calibration rows"} - {earlier.use}
        also = f", and {max(others):,} {verb} its {other_use}"
    raise LeakageError(
        f"{name}: {most_shared:,} of these {rows.contents.n_rows:,} rows {verb} {earlier.use} "
        f"of the rule{also}. Give fresh rows{cure}"
    )


def times_copied(contents: Hashes, *columns: Array) -> int:
    """Return the largest k such that each different row occurs k times or a multiple of it; 1 if few differ.

    Chance makes m different rows of independent draws all occur an even number of times with a probability of
    at most 2^(1 − m): given that it occurs, a Poisson count is even with a probability below 1/2, and the
    last parity follows from the number of rows. Larger factors are rarer: 3 has about 3^(1 − m).

    Parameters
    ----------
    contents : ndarray of shape (n,)
        Hashes of the rows.
    *columns : ndarray of shape (n,)
        Further columns, such as labels and groups.

    Examples
    --------
    >>> import numpy as np
    >>> from tailboost.rows.fingerprints import hash_rows, times_copied
    >>> scores = hash_rows(np.arange(30)[:, None])
    >>> times_copied(np.tile(scores, 3)), times_copied(scores)
    (3, 1)
    """
    for column in columns:
        _, place = distinct_and_places(column)
        contents = hashes_of_pairs(contents, place.astype(np.uint64))
    _, counts = np.unique(contents, return_counts=True)
    if len(counts) < FEWEST_COPIED:
        return 1
    return int(np.gcd.reduce(counts))


def refuse_copied(name: str, contents: Hashes, *columns: Array) -> None:
    """Raise LeakageError for a table, called ``name``, of copies; parameters as in `times_copied`."""
    k = times_copied(contents, *columns)
    if k > 1:
        raise LeakageError(
            f"{name}: each row occurs {k} times, or a multiple of {k}. Chance makes less than one such "
            "table in a million. Give each row once; if nobody copied a row, state "
            f"{equal_by_nature()}"
        )


def nth_of_kind(kind: Ints, counts: Ints) -> Ints:
    """Return the place of each row among the rows of its kind, from 0 in the order of the table, shape (n,).

    ``kind`` has the number of each row's kind, ``counts`` the number of rows of each kind.
    """
    order = np.argsort(kind, kind="stable")  # kind after kind, each in the order of the table
    first_place = np.cumsum(counts) - counts
    nth = np.empty(len(kind), dtype=np.intp)
    nth[order] = np.arange(len(kind)) - np.repeat(first_place, counts)
    return nth
