"""What runs on the workers: rows are read, binned once, and answered for as long as a fit lasts.

A worker keeps its rows in memory between the tasks of a fit (`release` forgets them). Only tables of the
combinations of class, group, part and answers that occur travel, never rows.
"""

from __future__ import annotations

import pickle
import shutil
import tempfile
import threading
import time
import weakref
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from distributed import get_worker
from numpy.typing import NDArray
from xgboost.collective import CommunicatorContext

from tailboost._checks import n_rows_of, positions, refuse_missing
from tailboost._rows import hash_rounded_rows, hash_rows, shortest, together
from tailboost._typing import Floats, Hashes, Ints, Labels
from tailboost.data import take
from tailboost.learners._hist import AT_ONCE
from tailboost.learners._part import BinnedLearner, BinnedPart, code_type, in_blocks
from tailboost.learners._table import ROWS_FOR_CUTS, Table, TableReader

# Combinations are numbered by a table up to this many possible ones, else by search.
LOOKED_UP = 2**22
# Bins lie on disk where the rows as float32 would take more than this share of a worker's memory limit.
IN_MEMORY = 0.25
# Seconds between two looks whether anybody still waits.
POLL = 0.2
# Rows as they were given that come to the client, to make up probe rows from.
PROBED = 256

_parts: dict[tuple[str, str], Part] = {}
_lock = threading.Lock()


# -- what travels ------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Partition:
    """What a partition says of itself: the number of its rows, their labels and groups, its columns."""

    n_rows: int
    n_given: int
    labels: Labels
    groups: list[Labels]
    categories: list[list[Any] | None]


@dataclass(frozen=True)
class Reading:
    """How all partitions are read.

    Parameters
    ----------
    reader : TableReader
        Knows the categories of all partitions.
    classes : ndarray of shape (K,)
        The labels.
    groups : tuple of ndarrays
        The groups of each column of groups.
    """

    reader: TableReader
    classes: Labels
    groups: tuple[Labels, ...]

    @property
    def radices(self) -> list[int]:
        """How many classes, and groups of each column, there are."""
        return [len(self.classes), *map(len, self.groups)]


@dataclass(frozen=True)
class Tally:
    """The combinations that occur among some rows.

    Parameters
    ----------
    keys : ndarray of int64, shape (m,)
        The combinations, sorted.
    rows, weight, squares : ndarray of shape (m,)
        Number of the rows of each, sum of their weights, and of the weights' squares.
    """

    keys: NDArray[np.int64]
    rows: Floats
    weight: Floats
    squares: Floats

    @classmethod
    def of(cls, keys: NDArray[Any], weight: Floats, n_keys: int) -> Tally:
        """Count rows by their combinations, of which there may be ``n_keys``."""
        if n_keys <= LOOKED_UP:
            totals = np.zeros((3, n_keys))
            size = max(AT_ONCE, n_keys)
            for a in range(0, len(keys), size):
                own, w = keys[a : a + size], weight[a : a + size]
                for total, values in zip(totals, (None, w, w**2), strict=True):
                    total += np.bincount(own, weights=values, minlength=n_keys)
            found = np.flatnonzero(totals[0])
            return cls(found, *totals[:, found])
        found, place = np.unique(keys, return_inverse=True)
        sums = [np.bincount(place, weights=v) for v in (None, weight, weight**2)]
        return cls(found, *map(_floats, sums))

    @classmethod
    def merged(cls, tallies: list[Tally]) -> Tally:
        """Add the tallies of several workers."""
        keys, place = np.unique(np.concatenate([t.keys for t in tallies]), return_inverse=True)
        columns = ("rows", "weight", "squares")
        stacked = (np.concatenate([getattr(t, name) for t in tallies]) for name in columns)
        return cls(keys, *(_floats(np.bincount(place, weights=v, minlength=len(keys))) for v in stacked))


def _floats(values: NDArray[Any]) -> Floats:
    return values.astype(np.float64, copy=False)


@dataclass(frozen=True)
class Look:
    """What a worker knows of its rows once they are read.

    Parameters
    ----------
    tally : Tally
        By class, groups and half.
    least : float
        The smallest weight of a row.
    table, hashes : ndarray
        The different rows with the smallest hashes, as the learner reads them.
    given, given_hashes : table, ndarray
        A few rows as they were given, and their hashes.
    short : pair of ndarrays
        Their smallest fingerprints, and how many rows have each.
    digest : int
        A sum over the rows that does not depend on their order.
    """

    tally: Tally
    least: float
    table: Table
    hashes: Hashes
    given: Any
    given_hashes: Hashes
    short: tuple[NDArray[np.uint32], Ints]
    digest: int


@dataclass(frozen=True)
class Question:
    """Models to fit, and which of them answers for which rows.

    Parameters
    ----------
    densities : list of ndarrays of shape (m,)
        For each model by what the weights of the rows of each combination are multiplied.
    params : list of dict
        XGBoost's parameters for each.
    scales : list of float
        By which XGBoost's weights are multiplied on top.
    factor : ndarray of shape (m,)
        By which class weights multiply the weights of the rows of each combination.
    judge : ndarray of shape (m,)
        Number of the model that answers for the rows of each combination.
    shift : ndarray of shape (n_models, K) or None
        Added to the logarithms of the probabilities that the models give, for answers by argmax.
    models : list of bytes or None
        The models, where they are fitted already.
    reuse : bool
        Whether the probabilities of the last question stand.
    """

    densities: list[Floats]
    params: list[dict[str, Any]]
    scales: list[float]
    factor: Floats
    judge: Ints
    shift: Floats | None = None
    models: list[bytes] | None = None
    reuse: bool = False

    @property
    def fits(self) -> bool:
        """Whether models have to be fitted, by all workers together."""
        return self.models is None and not self.reuse


@dataclass(frozen=True)
class Answer:
    """The models (of one worker; they are the same on all), and the rows by their answers."""

    tally: Tally
    models: list[bytes] | None
    seconds: float
    learning: float


# -- rows --------------------------------------------------------------------------------------------------


@dataclass
class Part:
    """The rows of a fit that a worker holds."""

    folder: Path
    files: dict[int, Path] = field(default_factory=dict)
    lengths: dict[int, int] = field(default_factory=dict)
    y: NDArray[np.signedinteger[Any]] = field(default_factory=lambda: np.empty(0, dtype=np.int8))
    weight: Floats = field(default_factory=lambda: np.empty(0))
    hashes: Hashes = field(default_factory=lambda: np.empty(0, dtype=np.uint64))
    # The combination of each row, until it is numbered by the client's table, then its number there.
    keys: NDArray[np.signedinteger[Any]] = field(default_factory=lambda: np.empty(0, dtype=np.int64))
    n_keys: int = 0
    binned: BinnedPart | None = None
    log_probabilities: NDArray[np.float32] | None = None
    abandoned: threading.Event = field(default_factory=threading.Event)

    def check(self) -> None:
        """Raise where nobody waits for the rows any more."""
        if self.abandoned.is_set():
            raise Abandoned

    def number(self, table: NDArray[np.int64]) -> None:
        """Replace the rows' combinations by their numbers in a table of those that occur anywhere."""
        if self.n_keys <= LOOKED_UP:
            numbers = np.zeros(self.n_keys, dtype=np.int32)
            numbers[table] = np.arange(len(table))
            self._renumber(lambda keys, _: numbers[keys], len(table))
        else:
            self._renumber(lambda keys, _: np.searchsorted(table, keys), len(table))

    def split(self, values: NDArray[Any], radix: int) -> Tally:
        """Tell combinations apart by one more value of each row."""
        self._renumber(lambda keys, rows: keys * np.int64(radix) + values[rows], self.n_keys * radix)
        return Tally.of(self.keys, self.weight, self.n_keys)

    def weigh(self, density: Floats, scale: float, rows: slice) -> Floats:
        """Return the weights of some rows by a density of the combinations."""
        return self.weight[rows] * density[self.keys[rows]] * scale

    def _renumber(self, new: Callable[[NDArray[Any], slice], NDArray[Any]], n_keys: int) -> None:
        keys = self.keys
        self.keys = in_blocks(lambda rows: new(keys[rows], rows), len(keys), code_type(n_keys))
        self.n_keys = n_keys

    def per_row(self, values: NDArray[Any], dtype: Any) -> NDArray[Any]:
        """Return for every row the value of its combination."""
        return in_blocks(lambda rows: values[self.keys[rows]], len(self.keys), dtype)


def _here(fit: str) -> tuple[str, str]:
    return fit, get_worker().address


def _part(fit: str) -> Part:
    return _parts[_here(fit)]


class Abandoned(Exception):
    """The client has given up what a worker was doing, because another worker was lost or on Ctrl-C."""


class Hold:
    """The result of a task, with which a worker forgets the rows of a fit.

    The scheduler has results thrown away once the client that asked for them is gone, however it went.

    Parameters
    ----------
    fit, address : str
        Of which fit, on which worker.
    """

    def __init__(self, fit: str, address: str) -> None:
        self._forget = weakref.finalize(self, _forget, fit, address)

    def __reduce__(self) -> tuple[Any, ...]:
        self._forget.detach()  # Dask puts results on disk where memory is short: this one then does nothing
        return object, ()


def hold(fit: str) -> Hold:
    """Return what the rows of a fit are to last as long as."""
    return Hold(fit, get_worker().address)


def release(fit: str, dask_worker: Any) -> None:
    """Forget the rows of a fit; to be run on each worker, not as a task."""
    _forget(fit, dask_worker.address)


def _forget(fit: str, address: str) -> None:
    with _lock:
        part = _parts.pop((fit, address), None)
    if part is not None:
        part.abandoned.set()
        part.binned = None  # which removes its files
        shutil.rmtree(part.folder, ignore_errors=True)


def read(fit: str, number: int, X: Any, y: Any, weight: Any, groups: Any, words: str) -> Partition:
    """Put a partition on this worker's disk, checked as far as it can be checked by itself."""
    with _lock:
        if _here(fit) not in _parts:
            folder = tempfile.mkdtemp(prefix="tailboost-", dir=get_worker().local_directory)
            _parts[_here(fit)] = Part(Path(folder))
    part, n = _part(fit), n_rows_of(X)
    y, weight, columns = _columns(words, n, y, weight, groups)
    if not hasattr(X, "iloc"):
        X = np.asarray(X)
        if X.dtype.kind not in "fiub":
            raise TypeError(f"{words}: X holds {X.dtype}, not numbers; give a data frame")
        if np.isinf(X).any():
            raise ValueError(f"{words}: X holds infinity")
    used = weight > 0
    if not used.all():
        X, y, weight = take(X, used), y[used], weight[used]
        columns = [column[used] for column in columns]
    if len(y):
        path = part.folder / f"given-{number}.pkl"
        with path.open("wb") as file:
            pickle.dump((X, y, weight, columns), file, protocol=5)
        part.files[number], part.lengths[number] = path, len(y)
    kinds = TableReader().fit(X).categories_
    return Partition(len(y), n, np.unique(y), [np.unique(column) for column in columns], kinds)


def _columns(words: str, n: int, y: Any, weight: Any, groups: Any) -> tuple[Labels, Floats, list[Labels]]:
    refuse_missing(y, f"{words}: y")
    y = np.asarray(y)
    weight = np.ones(n) if weight is None else np.asarray(weight, dtype=np.float64)
    columns: list[Labels] = []
    if groups is not None:
        refuse_missing(groups, f"{words}: groups")
        table = np.asarray(groups, dtype=object if hasattr(groups, "columns") else None)
        columns = [np.asarray(column.tolist()) for column in np.atleast_2d(table.T)]
    for name, column in (("y", y), ("sample_weight", weight), *(("groups", c) for c in columns)):
        if column.ndim != 1 or len(column) != n:
            raise ValueError(f"{words}: {name} has shape {column.shape}, X has {n} rows")
    if not (np.isfinite(weight).all() and (weight >= 0).all()):
        raise ValueError(f"{words}: sample_weight must hold finite numbers that are not negative")
    return y, weight, columns


def look(fit: str, reading: Reading) -> Look:
    """Read the rows as the learner does, one partition at a time, and say what the client needs to know."""
    part = _part(fit)
    n, n_strata = sum(part.lengths.values()), int(np.prod(reading.radices, dtype=np.int64))
    part.y = np.empty(n, dtype=code_type(len(reading.classes)))
    part.weight, part.hashes = np.empty(n), np.empty(n, dtype=np.uint64)
    part.keys, part.n_keys = np.empty(n, dtype=code_type(n_strata)), n_strata
    digest, end = 0, 0
    sample = _Smallest(ROWS_FOR_CUTS)
    given = _Smallest(PROBED)
    short = []
    for number in sorted(part.files):
        with part.files[number].open("rb") as file:
            X, y, weight, columns = pickle.load(file)
        rows = slice(end, end := end + len(y))
        table, hashes = reading.reader.transform(X), hash_rows(X)
        # Of float32 the learner reads these very numbers.
        same = getattr(X, "dtype", None) == np.float32
        sample.add(table, hashes if same else hash_rows(table))
        given.add(X, hashes)
        short.append(shortest(hash_rounded_rows(X)))
        codes = [positions(y, reading.classes, "y")]
        codes += [positions(c, v, "groups") for c, v in zip(columns, reading.groups, strict=True)]
        strata = combined(codes, reading.radices)
        digest += _digest(hashes, strata, weight)
        part.y[rows], part.weight[rows], part.hashes[rows], part.keys[rows] = codes[0], weight, hashes, strata
        path = part.folder / f"table-{number}.npy"
        np.save(path, table)
        part.files[number].unlink()
        part.files[number] = path
    del X, y, weight, hashes, strata, codes, table  # memory is short here
    least = float(part.weight.min())
    if least == part.weight.max():
        part.weight = np.broadcast_to(np.float64(least), len(part.y))  # one number in memory
    tally = part.split(in_blocks(lambda rows: part.hashes[rows] & np.uint64(1), len(part.y), np.int8), 2)
    return Look(tally, least, *sample.rows(), *given.rows(), together(short), digest)


def combined(codes: list[Ints], radices: list[int]) -> NDArray[np.int64]:
    """Return one number for several, such as class and groups, each below its radix."""
    number = np.zeros(len(codes[0]), dtype=np.int64)
    for code, radix in zip(codes, radices, strict=True):
        number = number * radix + code
    return number


def taken_apart(number: NDArray[np.int64], radices: list[int]) -> list[NDArray[np.int64]]:
    """Return the numbers that were `combined` into one."""
    codes = []
    for radix in reversed(radices):
        number, code = np.divmod(number, radix)
        codes.append(code)
    return codes[::-1]


def _digest(hashes: Hashes, keys: NDArray[np.int64], weight: Floats) -> int:
    words = np.column_stack([hashes >> np.uint64(11), keys, weight])  # 53 bits fit a float
    return int(hash_rows(words, seed=1).sum(dtype=np.uint64))


class _Smallest:
    """The different rows with the smallest hashes among those added."""

    def __init__(self, most: int) -> None:
        self.most = most
        self.tables: list[Any] = []
        self.hashes: list[Hashes] = []
        self.largest = np.uint64(2**64 - 1)

    def add(self, table: Any, hashes: Hashes) -> None:
        """Add rows."""
        first = np.unique(hashes, return_index=True)[1][: self.most]
        first = first[hashes[first] <= self.largest]
        self.tables.append(take(table, first))
        self.hashes.append(hashes[first])
        if sum(map(len, self.hashes)) > 1.25 * self.most:
            table, hashes = self.rows()
            self.tables, self.hashes, self.largest = [table], [hashes], hashes[-1]

    def rows(self) -> tuple[Any, Hashes]:
        """Return the rows in the order of their hashes, and these."""
        hashes = np.concatenate(self.hashes)
        first = np.unique(hashes, return_index=True)[1][: self.most]
        return take(stacked(self.tables), first), hashes[first]


def stacked(tables: list[Any]) -> Any:
    """Return tables as one."""
    if not hasattr(tables[0], "iloc"):
        return np.concatenate(tables)
    import pandas as pd  # the rows are data frames

    return pd.concat(tables, ignore_index=True)


def smallest(parts: list[tuple[Any, Hashes]], most: int) -> Any:
    """Return the different rows with the smallest hashes of several workers."""
    chosen = _Smallest(most)
    for table, hashes in parts:
        chosen.add(table, hashes)
    return chosen.rows()[0]


def bin_rows(
    fit: str,
    table: NDArray[np.int64],
    learner: BinnedLearner,
    reading: Reading,
    reference: Table,
    held: tuple[int, int, float],
) -> Tally:
    """Bin the rows, and split them into parts by a hash of their content.

    Parameters
    ----------
    fit : str
        Of which fit.
    table : ndarray
        The combinations that occur, see `Part.number`.
    learner : HistBoostClassifier or HistTreeClassifier
        Bins them.
    reading : Reading
        How they were read.
    reference : float32 array
        The cuts, see `BinnedPart`.
    held : (int, int, float)
        Seed, number of parts, and the share of the rows that is in them: a row is in none (0), or in part j
        (j + 1).
    """
    part = _part(fit)
    part.number(table)
    seed, n_parts, share = held
    values = in_blocks(
        lambda rows: part_numbers(part.hashes[rows], seed, n_parts, share),
        len(part.y),
        code_type(n_parts + 1),
    )
    part.hashes = np.empty(0, dtype=np.uint64)  # memory is short here
    tally = part.split(values, n_parts + 1)
    del values
    blocks = [block for number in sorted(part.files) for block in _blocks(part.files[number])]
    worker = get_worker()
    limit, size = worker.memory_manager.memory_limit, sum(f.stat().st_size for f in part.files.values())
    folder = part.folder if limit and size > IN_MEMORY * limit else None
    shape = (part.y, len(reading.classes))
    threads = worker.state.nthreads
    part.binned = BinnedPart(learner, blocks, *shape, reference, reading.reader, threads, folder)
    for file in part.files.values():
        file.unlink()
    return tally


def _blocks(path: Path) -> list[Callable[[], Table]]:
    """Return what reads a stored table, by blocks of rows that are short enough."""

    def read_from(start: int) -> Table:
        return np.array(np.load(path, mmap_mode="r")[start : start + AT_ONCE])

    n = len(np.load(path, mmap_mode="r"))
    return [partial(read_from, start) for start in range(0, n, AT_ONCE)]


def part_numbers(hashes: Hashes, seed: int, n_parts: int, share: float) -> NDArray[np.int64]:
    """Return the part of each row, from 1, by its content alone; 0 for none."""
    factor = np.random.SeedSequence(seed).generate_state(1, np.uint64)[0] | np.uint64(1)
    lot = ((hashes * factor) >> np.uint64(24)).astype(np.float64) / 2.0**40
    inside = np.floor(lot / share * n_parts).astype(np.int64) + 1 if share > 0 else np.zeros(len(lot))
    return np.where(lot < share, np.minimum(inside, n_parts), 0).astype(np.int64)


def ask(
    fit: str, table: NDArray[np.int64], question: Question, n_classes: int, talks: bool, rabit: Any
) -> Answer:
    """Fit models to the rows of all workers, and answer for the rows of this one.

    Parameters
    ----------
    fit : str
        Of which fit.
    table : ndarray
        The combinations that occur, see `Part.number`.
    question : Question
    n_classes : int
        K.
    talks : bool
        Whether this worker returns the models.
    rabit : dict
        By which the workers find each other.
    """
    began = time.perf_counter()
    part = _part(fit)
    part.number(table)
    assert part.binned is not None
    boosters, models = [], question.models
    if models is not None:
        boosters = [part.binned.load(content) for content in models]
    elif not question.reuse:
        boosters = _together(rabit, part, partial(_fit_all, part, question))
        models = [bytes(booster.save_raw("ubj")) for booster in boosters] if talks else None
    learnt = time.perf_counter()
    answers = _answers(part, question, boosters, n_classes)
    tally = part.split(answers, n_classes)
    return Answer(tally, models, time.perf_counter() - began, learnt - began)


def _fit_all(part: Part, question: Question) -> list[Any]:
    assert part.binned is not None
    binned = part.binned
    exact = binned.per_class
    own = part.weight * part.per_row(question.factor, np.float64) if exact else None
    boosters = []
    for density, params, scale in zip(question.densities, question.params, question.scales, strict=True):
        weight = in_blocks(
            partial(part.weigh, density, scale), len(part.y), np.float64 if exact else np.float32
        )
        boosters.append(binned.fit(weight, own, params, part.check))
    return boosters


def _together(rabit: dict[str, Any], part: Part, work: Callable[[], list[Any]]) -> list[Any]:
    """Do some work inside XGBoost's communicator, until it is done or the part is abandoned.

    A worker that waits for another to connect waits for ever where that one was killed just then, and nothing
    ends the call. So it is made in a thread of its own, which then is left behind without the rows.
    """
    done, waiting = threading.Event(), [work]
    found: list[list[Any]] = []
    failed: list[BaseException] = []

    def run() -> None:
        try:
            with CommunicatorContext(**rabit):
                found.append(waiting.pop()())
        except BaseException as error:
            failed.append(error)
        finally:
            done.set()

    thread = threading.Thread(target=run, name="tailboost", daemon=True)
    thread.start()
    while not done.wait(timeout=POLL):
        if part.abandoned.is_set():
            waiting.clear()
            raise Abandoned
    thread.join()
    if failed:
        raise failed[0]
    return found[0]


def _answers(part: Part, question: Question, boosters: list[Any], n_classes: int) -> NDArray[Any]:
    """Return the class number that each row is answered, by the model that judges it."""
    assert part.binned is not None
    judge, judges = part.per_row(question.judge, np.int8), np.unique(question.judge).tolist()
    if question.shift is None:
        answers = np.zeros(len(judge), dtype=code_type(n_classes))
        for j in judges:
            np.copyto(answers, part.binned.answers(boosters[j]), where=judge == j)
        return answers
    if not question.reuse:
        part.log_probabilities = np.zeros((len(judge), n_classes), dtype=np.float32)
        for j in judges:
            own = part.binned.log_probabilities(boosters[j])
            np.copyto(part.log_probabilities, own, where=(judge == j)[:, None])
    logs, shift = part.log_probabilities, question.shift
    assert logs is not None
    return in_blocks(
        lambda rows: (logs[rows] + shift[judge[rows]]).argmax(axis=1), len(judge), code_type(n_classes)
    )
