"""Hashes of rows by their content, the random draws that hashes decide, and digests of documents."""

import hashlib
import json
import math
import re
from collections.abc import Iterable
from contextlib import suppress
from datetime import timedelta
from typing import Any

import numpy as np

from tailboost.core import (
    TRUTH,
    Column,
    Document,
    Floats,
    Hashes,
    Ints,
    Table,
    as_table,
    distinct_and_positions,
    is_missing,
    shortest_decimals,
    written,
)

# A rounded hash keeps so many of the 24 significant bits of a fraction, because the same number may differ in
# the last ones after another file or another machine. Of a single column it keeps more, to tell rows apart.
KEPT_BITS = 16
KEPT_BITS_ALONE = 20
LONG = 2.0**24  # longer whole numbers are not exact in float32
NO_HASHES = np.zeros(0, np.uint64)  # of no row

# The factors of SplitMix64.
_ODD = 0x9E3779B97F4A7C15
_MIX_1 = 0xBF58476D1CE4E5B9
_MIX_2 = 0x94D049BB133111EB

# Texts that readers of files, such as pandas, take for a missing value.
_NO_VALUE = re.compile(r"(#?N/?A|#N/A N/A|n/a|<NA>|NULL|null|None|-?NaN|-?nan|NaT)?")
# A duration as files have it, such as "1 days 02:03:04.5", "-1 day, 2:03:04" or "2:03:04"; a time of a day.
_DURATION = re.compile(r"(?:(-?\d+) days?(?:,? \+?|\Z))?(?:(\d+):(\d\d):(\d\d(?:\.\d+)?))?")
# A date before a time: some files have a space in the place of T.
_DATE_AND_T = re.compile(r"^(\d{4}-\d\d-\d\d)T")
_DECIMALS_OF_SECOND = re.compile(r"(?<=:\d\d:\d\d)\.\d+")


def _mix(x: Hashes) -> Hashes:
    """Return scrambled 64-bit words (the finaliser of SplitMix64); 0 stays 0."""
    x = (x ^ (x >> np.uint64(30))) * _MIX_1
    x = (x ^ (x >> np.uint64(27))) * _MIX_2
    return x ^ (x >> np.uint64(31))


def hash_rows(X: Table, seed: int = 0, *, rounded: bool = False) -> Hashes:
    """Hash every row of a table by its content, shape (n,).

    The table is an array, a sparse matrix, or a data frame, a list or an object array with values of any
    type. Equal rows have equal hashes at any position, in an array and in a data frame. Numbers count as
    float64, so whole ones above 2⁵³ may be equal, and dates and durations as microseconds. All missing values
    are equal, and a text does not count " 00:00:00" at its end. Other different rows almost surely have
    different hashes. The hash of a row depends on the seed.

    The hash is of the sum of the scrambled words of each row, one word for each column (`_words`). Zeros add
    nothing, so a sparse and a dense matrix have equal sums. Sums wrap around at 2⁶⁴.

    With ``rounded`` a table and its copy in a file, in float32 or as objects, have equal hashes:

    - Fractions are rounded to 16 significant bits, 20 of a single column, and numbers above 2²⁴ to float32,
      but for whole ones below 2⁵³.
    - Numbers as text are numbers, and truth values, also as text, are 0 and 1.
    - Durations and times of a day, also as text, are their seconds.
    - Dates and other values are their text in a file, with microseconds and without a time of midnight.
    """
    X = as_table(X)
    if X.ndim != 2:  # a column alone, such as texts, or images
        X = np.asarray(X).reshape(len(X), math.prod(X.shape[1:]))
    n_rows, n_columns = X.shape
    kept_bits = None
    if rounded:
        kept_bits = KEPT_BITS_ALONE if n_columns == 1 else KEPT_BITS
    factors = _mix(np.arange(1, n_columns + 1, dtype=np.uint64) * _ODD) | 1
    sums = np.zeros(n_rows, np.uint64)
    if hasattr(X, "tocsr"):
        entries = X.tocoo()  # one for each row and column
        np.add.at(
            sums, entries.row, _mix(_words(entries.data, kept_bits)) * factors[entries.col]
        )
    else:
        table: Any = getattr(X, "iloc", X)
        for j, factor in enumerate(factors):
            sums += _mix(_words(table[:, j], kept_bits)) * factor
    return _mix(sums + _mix(np.array([seed], np.uint64)))


def hashes_of_pairs(first: Hashes, second: Hashes) -> Hashes:
    """Hash pairs of hashes: equal pairs have equal hashes, different pairs almost surely different ones."""
    return _mix(first * _ODD + second)


def _words(column: Column, kept_bits: int | None) -> Hashes:
    """Return the values of a column as 64-bit words, shape (n,): numbers as float64, or with few bits kept.

    −0 equals 0, and all NaN are equal. Values of other types have the words of `_words_of_objects`.
    """
    if getattr(column.dtype, "kind", "O") not in "fiub":
        return _words_of_objects(column, kept_bits)
    if kept_bits and column.dtype == np.float16:  # a file has the shortest decimals
        column = shortest_decimals(np.asarray(column))
    if hasattr(column, "iloc"):
        column = column.to_numpy(np.float64, na_value=np.nan)
    numbers = np.array(column, np.float64) + 0  # −0 becomes 0
    numbers[np.isnan(numbers)] = np.nan  # NaN has many bit patterns
    if not kept_bits:
        return numbers.view(np.uint64)
    # Of fractions the first bits of float32 are kept, of whole numbers all.
    with np.errstate(over="ignore"):  # float32 has a smaller range
        narrow = numbers.astype(np.float32)
    bits = narrow.view(np.uint32)
    n_dropped = 24 - kept_bits
    rounded = ((bits + (1 << (n_dropped - 1))) >> n_dropped) << n_dropped  # half upwards
    words = np.where(np.rint(narrow) == narrow, bits, rounded).astype(np.uint64)
    # Long whole numbers, such as ids, have all bits of float64: float32 would join them. Other long numbers
    # are the shortest decimals of their float32, as a file has them.
    is_long = np.abs(numbers) > LONG
    if is_long.any():
        long = numbers[is_long]
        nearest = narrow[is_long]
        is_id = (np.rint(long) == long) & (np.abs(long) < 2.0**53) & (nearest != long)
        words[is_long] = np.where(is_id, long, shortest_decimals(nearest)).view(np.uint64)
    return words


def _words_of_objects(column: Column, kept_bits: int | None) -> Hashes:
    """Return text, dates and objects as 64-bit words, shape (n,), see `_word`."""
    if column.dtype in ("M8[ns]", "m8[ns]"):  # an array's list has integers
        column = column.astype(f"{column.dtype.kind}8[us]")
    values = column.tolist()
    try:
        distinct = set(values)
    except TypeError:  # lists, arrays or dicts count as they are printed
        values = [repr(np.asarray(each, object).tolist()) for each in values]
        distinct = set(values)
    word_of_value = {value: _word(value, kept_bits) for value in distinct}
    return np.fromiter(map(word_of_value.__getitem__, values), np.uint64)


def _word(value: Any, kept_bits: int | None) -> int:
    """Return any value as a 64-bit word: that of a number if it is one, otherwise that of its text.

    A missing value is NaN. With ``kept_bits`` the value is as `_of_file`, where text may be a number.
    """
    if kept_bits:
        value = _of_file(value)
    elif isinstance(value, timedelta):
        value = value.total_seconds()
    if kept_bits or not isinstance(value, str):
        number = math.nan if is_missing(value) else value
        with suppress(TypeError, ValueError, OverflowError):  # for what is no number
            return int(_words(np.array([float(number)]), kept_bits)[0])
    printed = str(value).removesuffix(" 00:00:00")
    content = hashlib.blake2b(repr(printed).encode(), digest_size=8)
    return int.from_bytes(content.digest(), "little")


def _of_file(value: Any) -> Any:
    """Return a value as a file has it: None if it is missing, seconds of a duration, otherwise text."""
    printed = _DATE_AND_T.sub(r"\1 ", str(value))
    # Microseconds: .5 becomes .500000. None are written if all six decimals are zeros.
    printed = _DECIMALS_OF_SECOND.sub(
        lambda found: f"{found[0]:0<7.7}".removesuffix(".000000"), printed
    )
    if _NO_VALUE.fullmatch(printed):
        return None
    duration = _DURATION.fullmatch(printed)
    if duration:
        days, hours, minutes, seconds = map(float, duration.groups("0"))
        return ((days * 24 + hours) * 60 + minutes) * 60 + seconds
    return TRUTH.get(printed.lower(), printed)


def hashes_of_names(names: Iterable[Any]) -> Hashes:
    """Return the hash of each name of a label, a group or an id, shape (n,), as it is `written`."""
    return hash_rows(np.array([*map(written, names)], str))


def digest(*contents: bytes) -> str:
    """Return the digest of contents one after the other, 32 hexadecimal digits."""
    return hashlib.blake2b(b"".join(contents), digest_size=16).hexdigest()


def digest_of(document: Document, *about: Any) -> str:
    """Return the digest of a document, also read from JSON, without its own one, and of what it is about."""
    return digest(
        json.dumps(
            [document | {"digest": None}, *about], sort_keys=True, allow_nan=False
        ).encode()
    )


# -- draws ---------------------------------------------------------------------------------------------------


def random_numbers(hashes: Hashes) -> Floats:
    """Return an independent uniform number in [0, 1) for each hash, shape (n,).

    A number depends on the hash, on its rank among equal ones, and on all hashes, but not on their order. Two
    calls on the same rows have the same numbers, so nobody can choose among draws.

    Proofs take the hash function as ideal: on average over hash functions, the numbers are independent,
    uniform, and independent of the draw of the rows. This function has one set of numbers for each table. So
    with few different rows, of which a population makes few tables, a probability by it may lie above the
    average, or below.

    Examples
    --------
    >>> import numpy as np
    >>> content, order = np.array([7, 7, 3, 3], np.uint64), np.array([2, 0, 3, 1])
    >>> numbers = random_numbers(content)
    >>> len(np.unique(numbers))
    4
    >>> sorted(numbers[order]) == sorted(numbers) == sorted(random_numbers(content[order]))
    True
    """
    n = len(hashes)
    ranks = np.zeros(n, np.uint64)  # among equal hashes
    in_order = np.sort(hashes)
    if (in_order[1:] == in_order[:-1]).any():
        first = np.searchsorted(in_order, in_order)
        ranks[np.argsort(hashes, kind="stable")] = np.arange(n) - first
    return (hashes_of_pairs(hashes, ranks + _mix(hashes).sum()) >> 11) / 2.0**53


def selecting_numbers(hashes: Hashes, clusters: Ints | None = None) -> Floats:
    """Return the random number of each row, or of its cluster: rows with small numbers select, shape (n,).

    The numbers are of other hashes than those of `voting_numbers`, so both are independent.
    ``hashes`` are of rows with labels and groups, ``clusters`` the number from 0 of each row's cluster.
    """
    if clusters is None:
        return random_numbers(_mix(hashes))  # each row is a cluster
    return random_numbers(_of_clusters(hashes, clusters))[clusters]


def voting_numbers(hashes: Hashes, clusters: Ints | None = None) -> Floats:
    """Return a random number for each row: that with the smallest one votes for its cluster, shape (n,).

    A number depends on the contents of the cluster and not on its name.
    """
    if clusters is None:
        return random_numbers(hashes)
    pairs = hashes_of_pairs(hashes, _of_clusters(hashes, clusters)[clusters])
    # Equal rows of clusters with equal contents have the order of their clusters.
    by_cluster = np.argsort(clusters, kind="stable")
    return random_numbers(pairs[by_cluster])[np.argsort(by_cluster)]


def _of_clusters(hashes: Hashes, clusters: Ints) -> Hashes:
    """Return a hash of the rows of each cluster, in any order."""
    sums = np.zeros(int(clusters.max(initial=-1)) + 1, np.uint64)
    np.add.at(sums, clusters, _mix(hashes))
    return sums


def stratified_turns(hashes: Hashes, strata: Ints, weight: Floats) -> Ints:
    """Return the turn of each row, equal for equal rows, in an order by stratum and at random within it.

    Turns are from 0 to the number of distinct rows − 1, shape (n,). Rows at equal distances in this order are
    a stratified draw. The hashes, under the fit's seed, decide the random order. Strata are classes (or
    class × group); equal rows of different strata count for the heaviest one.
    """
    content_of_row = np.unique_inverse(hashes).inverse_indices
    n_strata = int(strata.max()) + 1
    # Only pairs with rows: a table of all pairs would be large for crossed groups.
    pairs, pair_of_row = distinct_and_positions(content_of_row * n_strata + strata)
    mass = np.bincount(pair_of_row, weight)
    content, stratum = np.divmod(pairs, n_strata)
    # Of each content the heaviest stratum comes first, of equal ones that with the lowest number.
    heaviest_first = np.lexsort((stratum, -mass, content))
    _, first_of_content = np.unique(content, return_index=True)  # contents are in order
    stratum_of_content = stratum[heaviest_first[first_of_content]]
    # The turns of contents are the inverse of their order.
    turn_of_content = np.argsort(np.argsort(stratum_of_content, kind="stable"))
    return turn_of_content[content_of_row]
