"""`tailboost.RobustMixtureClassifier` chosen on probabilities in Dask collections.

The members are made on rows that come to the client: all, or a sample of many. How often each of them errs is
added up over all rows, where they lie.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, NoReturn, Self

import dask
import dask.array as da
import numpy as np
from sklearn.utils import column_or_1d

from tailboost import mixture as local
from tailboost._checks import n_rows_of, refuse_missing
from tailboost._docs import describing, sections_of
from tailboost._rows import hash_rows
from tailboost._typing import Floats, Hashes, Ints, Labels
from tailboost.combiners import Ledger
from tailboost.dask._collections import Column, is_collection, partitions, whole, wide
from tailboost.dask._tally import Tally, combined, taken_apart
from tailboost.data import GroupNames, Multiplicity, Rows
from tailboost.mixture._lines import Lines
from tailboost.mixture._members import loss_of
from tailboost.mixture._tables import Judged, LogTable, Models
from tailboost.solvers import BitLosses, count_patterns
from tailboost.solvers.bits import DenseLosses

# Different rows on which members are made.
SAMPLE = 2**16
# Probabilities that a worker reads at a time: on Dask's workers arrays from 128 kB on go back to the system
# at once, and then take twice the time. And tables that are added at a time.
AT_ONCE, FAN = 2**13, 8
# Combinations of class and groups, and for a CVaR of losses, of which tables are made.
MOST_STRATA, MOST_WORDS = 10_000, 2_000_000


@describing(sections_of(local.RobustMixtureClassifier))
class RobustMixtureClassifier(local.RobustMixtureClassifier):
    """`tailboost.RobustMixtureClassifier` chosen on models' probabilities in Dask collections.

    Only `from_probabilities` makes one: the models are the user's. Its parameters are those of one machine,
    but members may not share λ except for a CVaR, and draws from the probabilities (``shares``) have no part,
    since their losses are different in every row. The probabilities are computed twice: store or persist them
    where that costs more than to read them.

    The members, which are thresholds mostly, are made on all rows up to 65,536, by the code of one machine.
    Of more rows they are made on a sample of so many, which holds the small combinations of class and group
    whole and, of each of the others, as many rows with the smallest hashes of their contents. The member, or
    the shares of a CVaR, and all errors are then by all rows, exactly; only what rows near a threshold add to
    a count, where one member is chosen, is estimated on that sample. Groups that are not told are inferred
    from the probabilities by a model of the sample, which on its own rows is surer than on others. Halves of
    the rows, for `unit_estimates_` and `unit_intervals_`, are drawn by content, so these are others than on
    one machine.

    {{parameters}}

    {{attributes}}
    n_threshold_rows_ : int
        Rows on which the members were made.

    See Also
    --------
    tailboost.RobustMixtureClassifier : The same on one machine.

    Examples
    --------
    >>> import dask.array as da
    >>> from tailboost.dask import RobustMixtureClassifier
    >>> p = da.random.default_rng(0).random(1000, chunks=250)
    >>> y = (p > 0.7).astype(int)
    >>> mix = RobustMixtureClassifier.from_probabilities({"model": p}, y)
    >>> bool(mix.unit_errors_.max() < 0.05)
    True
    >>> mix.predict_from({"model": p}).shape
    (1000,)
    """

    n_threshold_rows_: int

    def fit(self, *args: Any, **kwargs: Any) -> NoReturn:
        """Refuse: fit the models where they are at home, and give `from_probabilities` what they say."""
        raise TypeError(
            "tailboost.dask.RobustMixtureClassifier fits no models: give the probabilities of yours, on rows "
            "that they were not fitted on, to from_probabilities"
        )

    @classmethod
    def from_probabilities(
        cls,
        probabilities: Mapping[str, Any],
        y: Any,
        *,
        objective: str = "worst_class",
        groups: Any = None,
        sample_weight: Any = None,
        classes: Any = None,
        **params: Any,
    ) -> Self:
        """Return a mixture of models whose probabilities lie on the workers of a cluster.

        Parameters
        ----------
        probabilities : dict of str to Dask array or data frame of shape (n, K)
            Class probabilities of each model, as for one machine.
        y : Dask array of shape (n,) or column
            Labels of these rows, cut at the same rows.
        objective : {"worst_class", "worst_group", "worst_cell", "cvar"}, default="worst_class"
            As for one machine.
        groups : Dask array of shape (n,) or (n, c), column or data frame, optional
            Groups of the rows.
        sample_weight : Dask array of shape (n,) or column, optional
            Weights of the rows.
        classes : array-like of shape (K,), optional
            The labels in the order of the columns; by default those of y, sorted.
        **params
            Other parameters of the class; for ``objective="cvar"`` with ``shares=False``.

        Returns
        -------
        RobustMixtureClassifier
            Of which `to_local` gives that of one machine. It keeps sums, no rows: `reweight` for another
            objective and what `predict` answers along the `tradeoff` need rows in memory.

        Raises
        ------
        ValueError, TypeError
            If an argument is not as described.
        """
        mix = cls._unsettled(probabilities, groups, objective=objective, **params)
        mix._refuse_sharing()
        table = _Table.of(probabilities, groups, Column("y", y), Column("sample_weight", sample_weight))
        if y is None:
            raise ValueError("from_probabilities requires y to be passed, but the target y is None")
        labels, names = table.values()
        models = mix._behind(probabilities, labels if classes is None else classes)
        if names is not None:
            mix._set_groups(names)
        mix._choose(_Reader(mix, models), table)
        mix._warn()
        return mix

    def _refuse_sharing(self) -> None:
        if self._stated is not None:
            raise ValueError("limits and rates are not available on a cluster yet: choose on rows in memory")
        over_rows = self._objective_name == "cvar"
        if self.shares is True or (self.shares == "auto" and over_rows):
            raise ValueError(
                f"shares={self.shares!r} is not available on a cluster with objective={self.objective!r}: "
                "the losses of draws from the probabilities are different in every row; give shares=False"
            )
        if self._sharing and not over_rows:
            raise ValueError(
                f"randomized={self.randomized!r} is not available on a cluster with "
                f"objective={self.objective!r}: where members share λ, what predict answers depends on the "
                "answers of all of them to each row; give randomized=False"
            )

    def _choose(self, reader: _Reader, table: _Table) -> None:
        """Make the members on rows that come here, and choose by the sums of their losses on all rows."""
        seen: RowSample | None = table.folded(partial(_look, reader), RowSample.merged)
        if seen is None:
            raise ValueError("sample_weight: there is no row of positive weight")
        tally, self.n_threshold_rows_ = seen.tally, int(seen.totals[0].sum())
        n = int(tally.rows.sum())
        words = f"the {n:,} rows given to from_probabilities"
        if self.n_threshold_rows_ < n:
            words += f" ({self.n_threshold_rows_:,} of them for the thresholds)"
        rows = reader.lines(tally.keys, np.stack([tally.rows, tally.weight, tally.squares]), words)
        sample, aim = seen.sample(reader, words), self._aimed(rows)
        sample.check_order(self.classes_)
        sample = self._learned(sample)
        reader = replace(reader, models=sample.models)
        rated, numbers = self._members(aim, sample)
        members = [rated.member(number) for number in numbers]
        if aim.over_units:
            sums = table.folded(partial(_sums, reader, members, tally.keys), partial(np.sum, axis=0))
            counted = sums[:-1] / sums[-1]
            # What rows near a threshold add to counts is by the sample, the counts are by all rows.
            lines = Lines.of(aim.rows(sample.rows), rated.table)
            own = lines.ledger([rated.pool.members[i] for i in numbers], rated.table, near=True)
            assert own.near is not None
            more = own.near.array - own.pool().raw_columns(np.arange(len(lines.rows.y))).T
            near = counted + more[:, np.unique(tally.keys // 2, return_inverse=True)[1]]
            bits = BitLosses(len(rows.y))
            ledger = Ledger(aim.rows(rows), DenseLosses(counted), bits, near=DenseLosses(near))
        else:
            found: Words = table.folded(partial(_words, reader, members), Words.merged)
            of_words = reader.lines(found.keys, found.totals, words)
            ledger = Ledger(of_words, found.losses, BitLosses(len(of_words.y)))
        self._take_named(aim, Judged(reader.models, (), rows), ledger, members)

    def _judged_by(self, models: Models, X: Any, y: Any, groups: Any, sample_weight: Any, to: str) -> Judged:
        if isinstance(X, Mapping) and any(map(is_collection, X.values())):
            raise TypeError(
                f"{to} takes probabilities in memory; to choose on Dask collections again use "
                "from_probabilities"
            )
        return super()._judged_by(models, X, y, groups, sample_weight, to)

    def to_local(self) -> local.RobustMixtureClassifier:
        """Return the classifier of one machine that this one is: without Dask, and to be saved."""
        new = object.__new__(local.RobustMixtureClassifier)
        new.__dict__.update(vars(self))
        return new

    def predict_from(
        self, probabilities: Mapping[str, Any], *, groups: Any = None, deferred: Any = None
    ) -> Any:
        """Predict labels from the models' probabilities: a lazy Dask array for Dask collections."""
        return self._answers(partial(self.to_local().predict_from, deferred=deferred), probabilities, groups)

    def predict_proba_from(self, probabilities: Mapping[str, Any]) -> Any:
        """Predict P(y | x), the even mean of all models: a lazy Dask array for Dask collections."""
        local = self.to_local()

        def ask(P: Mapping[str, Any], groups: Any = None) -> Any:
            return local.predict_proba_from(P)

        return self._answers(ask, probabilities, None)

    def predict_shares_from(self, probabilities: Mapping[str, Any], *, groups: Any = None) -> Any:
        """Predict the shares of the labels, shape (n, K): a lazy Dask array for Dask collections."""
        return self._answers(self.to_local().predict_shares_from, probabilities, groups)

    def _answers(self, answer: Callable[..., Any], probabilities: Any, groups: Any) -> Any:
        if not (isinstance(probabilities, Mapping) and any(map(is_collection, probabilities.values()))):
            return answer(probabilities, groups=groups)
        table = _Table.of(probabilities, groups)
        nothing = {name: np.empty((0, len(self.classes_))) for name in probabilities}
        none = None if groups is None else self.example_groups(0)
        meta = answer(nothing, groups=none)  # which also says what is missing before any work is done
        ask = _everywhere(partial(_answer, answer, tuple(probabilities)))
        return whole(
            [
                da.from_delayed(ask(P, own), shape=(n, *meta.shape[1:]), meta=meta)
                for (P, own), n in zip(table.blocks, table.lengths, strict=True)
            ]
        )


def _answer(answer: Callable[..., Any], names: tuple[str, ...], P: list[Any], groups: Any) -> Any:
    return answer(dict(zip(names, P, strict=True)), groups=groups)


# -- passes over the rows ----------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Table:
    """Probabilities by partition."""

    # List of tuples: delayed probabilities of all models, groups and other columns.
    blocks: list[tuple[Any, ...]]
    lengths: list[Any]  # rows of each; NaN where they are not known

    @classmethod
    def of(cls, probabilities: Mapping[str, Any], groups: Any, *others: Column) -> Self:
        """Return collections that are cut at the same rows."""
        models = [Column(f"probabilities[{name!r}]", P) for name, P in probabilities.items()]
        first = models[0]
        columns = (*models, Column("groups", groups), *others)
        found = partitions(wide(first.values), *columns, name=first.name)
        blocks = [(list(own[1 : 1 + len(models)]), *own[1 + len(models) :]) for own in found]
        lengths = first.values.chunks[0] if isinstance(first.values, da.Array) else [np.nan] * len(blocks)
        return cls(blocks, list(lengths))

    def values(self) -> tuple[Labels, GroupNames | None]:
        """Return the labels, and the groups if there are any."""
        found = _folded(_values, [(y, groups) for _, groups, y, _ in self.blocks], _joint_values)
        if found is None:
            raise ValueError("y holds no rows")
        labels, names = found
        return labels, names

    def folded(self, function: Callable[..., Any], join: Callable[[list[Any]], Any]) -> Any:
        """Return what a function says of every partition, joined where the partitions lie."""
        return _folded(function, self.blocks, join)


def _folded(
    function: Callable[..., Any], blocks: list[tuple[Any, ...]], join: Callable[[list[Any]], Any]
) -> Any:
    """Join what a function returns for each block, unless None; a few at a time, to hold few in memory."""
    ask, add = _everywhere(function), _everywhere(partial(_join, join))
    parts = [ask(*block) for block in blocks]
    while len(parts) > 1:
        parts = [add(parts[a : a + FAN]) for a in range(0, len(parts), FAN)]
    return dask.compute(parts[0])[0]


def _everywhere(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return a function of delayed objects that travels once, and not with each task."""
    return partial(dask.delayed(_apply, pure=False), dask.delayed(function))


def _apply(function: Callable[..., Any], *args: Any) -> Any:
    return function(*args)


def _join(join: Callable[[list[Any]], Any], parts: list[Any]) -> Any:
    found = [part for part in parts if part is not None]
    return join(found) if found else None


def _values(y: Any, groups: Any) -> tuple[Labels, GroupNames | None] | None:
    refuse_missing(y, "y")
    n = n_rows_of(y)
    if not n:
        return None
    names = None if groups is None else GroupNames.of(groups, "groups", n, np.ones(n, dtype=bool))
    return np.unique(column_or_1d(y)), names


def _joint_values(parts: list[tuple[Labels, GroupNames | None]]) -> tuple[Labels, GroupNames | None]:
    labels, names = zip(*parts, strict=True)
    columns = zip(*(own.values for own in names if own is not None), strict=True)
    values = tuple(np.unique(np.concatenate(column)) for column in columns)
    return np.unique(np.concatenate(labels)), GroupNames(values, names[0].columns) if values else None


@dataclass(frozen=True)
class _Reader:
    """Reads a partition, and numbers its rows by class, groups and half."""

    mix: RobustMixtureClassifier  # knows the classes and groups
    models: Models

    @property
    def radices(self) -> list[int]:
        """Numbers of classes and, for each column of groups that matters, of groups."""
        K, mix = len(self.mix.classes_), self.mix
        if mix._objective_name not in ("worst_group", "worst_cell"):
            return [K]
        return [K] + [len(mix.groups_)] * len(mix._group_names.values)

    def read(self, P: list[Any], groups: Any, y: Any, weight: Any) -> _Block | None:
        """Return the rows of positive weight of a partition; None without any."""
        if not n_rows_of(y) or (weight is not None and not np.any(np.asarray(weight))):
            return None
        probabilities = dict(zip(self.models.names, P, strict=True))
        logs, rows = self.mix._given(self.models, probabilities, y, groups, weight, "")
        stacked, radices = np.stack(logs, axis=1), self.radices
        columns = (
            [rows.y] if len(radices) == 1 or rows.groups is None else [rows.y, *np.atleast_2d(rows.groups.T)]
        )
        hashes = hash_rows(stacked.reshape(len(stacked), -1))
        stratum = combined(columns, radices)
        # Equal rows of a partition go to both halves by turns.
        first, order = _runs(stratum, hashes)
        turn = np.empty(len(order), dtype=np.int64)
        turn[order] = np.arange(len(order)) - np.repeat(first, np.diff(np.r_[first, len(order)]))
        half = (hashes & np.uint64(1)).astype(np.int64) ^ (turn & 1)
        return _Block(stacked, rows, 2 * stratum + half, hashes)

    def lines(self, keys: Ints, totals: Floats, words: str) -> Rows:
        """Return lines of a table that stand for several rows each.

        ``keys`` are class, groups and half of each line, ``totals`` of shape (3, m) the number of its rows
        and the sums of their weights and of the squares of these.
        """
        code, half = np.divmod(keys, 2)
        y, *groups = taken_apart(code, self.radices)
        numbers = None if not groups else groups[0] if len(groups) == 1 else np.column_stack(groups)
        n, weight, squares = totals
        return Rows(y, weight, numbers, words, multiplicity=Multiplicity(n, squares, half == 1))


@dataclass(frozen=True)
class _Block:
    """A partition as it was read: (n, M, K) log-probabilities, rows, class, groups and half, and contents."""

    logs: Floats
    rows: Rows
    keys: Ints
    hashes: Hashes

    def parts(self, models: Models) -> Iterator[tuple[slice, LogTable]]:
        """Yield tables of the rows, a few at a time."""
        groups, size = self.rows.groups, max(512, AT_ONCE // self.logs.shape[2])
        for a in range(0, len(self.keys), size):
            part = slice(a, a + size)
            own = None if groups is None else groups[part]
            logs = list(np.ascontiguousarray(np.moveaxis(self.logs[part], 1, 0)))
            yield part, LogTable.of(logs, own, models.averages)


def _runs(stratum: Ints, hashes: Hashes) -> tuple[Ints, Ints]:
    """Return where in an order of the rows those of another content begin, and the order."""
    order = np.lexsort((hashes, stratum))
    s, h = stratum[order], hashes[order]
    return np.flatnonzero(np.r_[True, (s[1:] != s[:-1]) | (h[1:] != h[:-1])]), order


@dataclass(frozen=True)
class RowSample:
    """How many rows there are of every class, group and half, and some of them."""

    tally: Tally  # by class, groups and half
    # stratum, hashes: shape (m,): class and groups, and content, of those rows that are there, each content
    # once.
    stratum: Ints
    hashes: Hashes
    logs: Floats  # shape (m, M, K): their log-probabilities
    # Shape (3, m): number of the rows of each content, sum of their weights and of the squares of these.
    totals: Floats

    @classmethod
    def merged(cls, parts: list[RowSample]) -> RowSample:
        """Return that of the rows of several."""
        tally = Tally.merged([part.tally for part in parts])
        if len(tally.keys) > 2 * MOST_STRATA:
            raise ValueError(
                f"more than {MOST_STRATA:,} combinations of class and groups occur: give fewer columns of "
                "groups"
            )
        stratum = np.concatenate([part.stratum for part in parts])
        hashes = np.concatenate([part.hashes for part in parts])
        first, order = _runs(stratum, hashes)
        totals = np.hstack([part.totals for part in parts])[:, order]
        # What is left of a stratum has its smallest hashes, in any part of the rows too.
        sizes = np.bincount(np.unique(tally.keys // 2, return_inverse=True)[1], weights=tally.rows)
        own = stratum[order[first]]
        place = np.arange(len(own)) - np.searchsorted(own, own)
        kept = place < room(sizes, SAMPLE)
        chosen = order[first[kept]]
        logs = np.concatenate([part.logs for part in parts])[chosen]
        return cls(
            tally, stratum[chosen], hashes[chosen], logs, np.add.reduceat(totals, first, axis=1)[:, kept]
        )

    def sample(self, reader: _Reader, words: str) -> Judged:
        """Return the rows that are there, each class and group weighing what it does in all."""
        strata, line = np.unique(self.tally.keys // 2, return_inverse=True)
        at, tally = np.searchsorted(strata, self.stratum), self.tally
        of_all = [np.bincount(line, weights=v) for v in (tally.rows, tally.weight, tally.squares)]
        here = [np.bincount(at, weights=v) for v in self.totals]
        totals = self.totals * (np.array(of_all) / np.array(here))[:, at]
        rows = reader.lines(2 * self.stratum, totals, words)
        return Judged(reader.models, tuple(np.moveaxis(self.logs, 1, 0)), rows)


def room(sizes: Any, most: int) -> int:
    """Return the largest number q ≥ 1 for which at most ``most`` are left where up to q of each are kept."""
    sizes = np.sort(sizes)
    before, left = np.cumsum(sizes) - sizes, np.arange(len(sizes), 0, -1)
    level = (most - before) // left
    short = np.flatnonzero(sizes > level)
    return max(1, int(level[short[0]] if len(short) else sizes[-1]))


def _look(reader: _Reader, *columns: Any) -> RowSample | None:
    block = reader.read(*columns)
    if block is None:
        return None
    keys, n_keys = block.keys, 2 * math.prod(reader.radices)
    weight = block.rows.weight
    tally = Tally.of(keys, weight, n_keys)
    totals = np.stack([np.ones(len(weight)), weight, weight**2])
    return RowSample.merged([RowSample(tally, keys // 2, block.hashes, block.logs, totals)])


def _sums(reader: _Reader, members: list[Any], keys: Ints, *columns: Any) -> Floats | None:
    """Return the weight of the rows of each key on which each member errs, and last that of all rows."""
    block = reader.read(*columns)
    if block is None:
        return None
    sums = np.zeros((len(members) + 1, len(keys)))
    at = np.searchsorted(keys, block.keys).clip(max=len(keys) - 1)
    if not np.array_equal(keys[at], block.keys):
        raise ValueError("the probabilities are others than a moment ago: store or persist them")
    for part, table in block.parts(reader.models):
        weight, y = block.rows.weight[part], block.rows.y[part]
        for t, member in enumerate(members):
            wrong = loss_of(member.predict_table(table), y)
            sums[t] += np.bincount(at[part][wrong], weight[wrong], len(keys))
        sums[-1] += np.bincount(at[part], weight, len(keys))
    return sums


@dataclass(frozen=True)
class Words:
    """The different losses of all members, with how many rows have them."""

    losses: BitLosses  # shape (T, m): losses of the members
    keys: Ints  # shape (m,): class and half
    totals: Floats  # shape (3, m): number of the rows, sum of their weights and of the squares of these

    @classmethod
    def merged(cls, parts: list[Words]) -> Words:
        """Return that of the rows of several."""
        losses = BitLosses.concatenate([part.losses for part in parts])
        found = count_patterns(losses, groups=np.concatenate([part.keys for part in parts]))
        if len(found) > MOST_WORDS:
            raise ValueError(
                f"the members err on the rows in more than {MOST_WORDS:,} different ways: give a smaller "
                "n_thresholds, or averages=False"
            )
        assert found.units is not None
        assert found.groups is not None
        columns = np.hstack([part.totals for part in parts])
        totals = np.array([np.bincount(found.units, v, len(found)) for v in columns])
        return cls(found.losses, found.groups, totals)


def _words(reader: _Reader, members: list[Any], *columns: Any) -> Words | None:
    block = reader.read(*columns)
    if block is None:
        return None
    found = []
    for part, table in block.parts(reader.models):
        weight, y = block.rows.weight[part], block.rows.y[part]
        losses = BitLosses.from_rows(np.array([loss_of(m.predict_table(table), y) for m in members]))
        totals = np.stack([np.ones(len(weight)), weight, weight**2])
        found.append(Words.merged([Words(losses, block.keys[part], totals)]))
    return Words.merged(found)
