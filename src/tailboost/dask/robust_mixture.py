"""`tailboost.RobustMixtureClassifier` selected on probabilities in Dask collections.

Candidates are made on rows that come to the client: all, or a sample of many. Their confusion counts are
added up over all rows, where the rows lie, and the rule is selected on these counts.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, NoReturn, Self

import dask
import dask.array as da
import numpy as np
from sklearn.utils import column_or_1d

from tailboost.boosting.training_set import GroupNames, Multiplicity, Rows
from tailboost.classifiers import robust_mixture as local
from tailboost.classifiers.rated import RateProblem, SelectionEngine, stratum_probabilities
from tailboost.core.array_types import Floats, Hashes, Ints, Labels
from tailboost.core.checks import n_rows_of, refuse_missing
from tailboost.core.docs import describing, sections_of
from tailboost.core.fingerprints import hash_rows
from tailboost.dask.collections import DaskColumn, is_collection, partitions, whole, wide
from tailboost.dask.key_counts import Tally, combined, taken_apart
from tailboost.rates import Strata
from tailboost.selection.counts import RemoteSelectionData
from tailboost.selection.probability_tables import LogProbabilities, ModelOutputs, Models, averaging
from tailboost.selection.stratum_probabilities import StratumProbabilities

# Different rows on which candidates are made.
SAMPLE = 2**16
# Probabilities that a worker reads at a time: on Dask's workers arrays from 128 kB on go back to the system
# at once, and then take twice the time. And tables that are added at a time.
AT_ONCE, FAN = 2**13, 8
# Combinations of class and groups of which tables are made.
MOST_STRATA = 10_000


@describing(sections_of(local.RobustMixtureClassifier))
class DaskRobustMixtureClassifier(local.RobustMixtureClassifier):
    """`tailboost.RobustMixtureClassifier` selected on models' probabilities in Dask collections.

    `from_probabilities` makes one; the models are the user's. Objectives, limits and the error budget are
    those of one machine. Costs by row (``costs=``) are not available. The probabilities are read several
    times: persist them if reading costs more than memory.

    Candidates are made on all rows up to 65,536, by the code of one machine. Of more rows they are made on a
    sample of this size. It holds all rows of small strata, and of each large stratum the rows with the
    smallest hashes. The confusion counts of the candidates come from all rows, exactly, and the rule is
    selected on them. A CVaR is selected on the sample. If the rule is group-blind, a model of the sample
    estimates the group from the probabilities; on one machine these estimates are out of fold.

    {{parameters}}

    {{attributes}}
    n_threshold_rows_ : int
        Rows on which the candidates were made.

    See Also
    --------
    tailboost.RobustMixtureClassifier : The same on one machine.

    Examples
    --------
    >>> import dask.array as da
    >>> from tailboost.dask import DaskRobustMixtureClassifier
    >>> p = da.random.default_rng(0).random(1000, chunks=250)
    >>> y = (p > 0.7).astype(int)
    >>> mix = DaskRobustMixtureClassifier.from_probabilities({"model": p}, y)
    >>> bool(mix.unit_errors_.max() < 0.05)
    True
    >>> mix.predict({"model": p}).shape
    (1000,)
    """

    n_threshold_rows_: int

    def fit(self, *args: Any, **kwargs: Any) -> NoReturn:
        """Refuse: fit the models where they are at home, and give `from_probabilities` what they say."""
        raise TypeError(
            "DaskRobustMixtureClassifier fits no models. Give from_probabilities the probabilities of your "
            "models, on rows that they were not fitted on."
        )

    @classmethod
    def from_probabilities(
        cls,
        probabilities: Mapping[str, Any],
        y: Any,
        *,
        objective: Any = None,
        groups: Any = None,
        sample_weight: Any = None,
        classes: Any = None,
        **params: Any,
    ) -> Self:
        """Return the rule for models whose probabilities lie on the workers of a cluster.

        Parameters
        ----------
        probabilities : dict of str to Dask array or data frame of shape (n, K)
            Class probabilities of each model, as for one machine.
        y : Dask array of shape (n,) or column
            Labels of these rows, cut at the same rows.
        objective : optional
            As in the class.
        groups : Dask array of shape (n,) or (n, c), column or data frame, optional
            Groups of the rows.
        sample_weight : Dask array of shape (n,) or column, optional
            Weights of the rows.
        classes : array-like of shape (K,), optional
            The labels in the order of the columns; by default those of y, sorted.
        **params
            Other parameters of the class: ``limits``, ``max_error``, ``error_budget``, …

        Returns
        -------
        DaskRobustMixtureClassifier
            `to_local` returns it as the classifier of one machine. It keeps confusion counts and the sample.

        Raises
        ------
        ValueError, TypeError
            If an argument is not as described.
        """
        mix = cls._unsettled(probabilities, groups, objective=objective, **params)
        table = _Table.of(
            probabilities, groups, DaskColumn("y", y), DaskColumn("sample_weight", sample_weight)
        )
        if y is None:
            raise ValueError("from_probabilities requires y to be passed, but the target y is None")
        labels, names = table.values()
        models = mix._behind(probabilities, labels if classes is None else classes)
        if names is not None:
            mix._set_groups(names)
        mix._choose(_RemoteReader(mix, models), table)
        mix._selected.warn(forewarned=False)
        return mix

    def _choose(self, reader: _RemoteReader, table: _Table) -> None:
        """Make candidates on rows that come here, and select by their confusion counts on all rows."""
        seen: RowSample | None = table.folded(partial(_look, reader), RowSample.merged)
        if seen is None:
            raise ValueError("sample_weight: there is no row of positive weight")
        tally, self.n_threshold_rows_ = seen.tally, int(seen.totals[0].sum())
        n = int(tally.rows.sum())
        words, of_sample = f"the {n:,} rows given to from_probabilities", ""
        complete = self.n_threshold_rows_ == n
        if not complete:
            of_sample = f"a sample of {self.n_threshold_rows_:,} of "
        sample = seen.sample(reader, of_sample + words)
        sample.check_order(self.classes_)
        sample = averaging(sample)
        stated, names = reader.stated, getattr(self, "_group_names", None)
        engine = SelectionEngine.of(stated, sample, None, self.classes_, names, group_aware=self.by_group)
        if not complete and self._problem is not None:
            lines = reader.lines(tally.keys, np.stack([tally.rows, tally.weight, tally.squares]), words)
            strata, stratum, _ = stated.strata(lines, self.classes_, names, group_aware=self.by_group)
            strata = replace(strata, size=lines.sizes(stratum, len(strata.mass)))
            counting = _Counting(
                replace(reader, models=sample.models), engine.probabilities, strata, tally.keys, stratum
            )

            def count(members: Sequence[Any]) -> Floats:
                sums: Floats = table.folded(partial(_count, counting, members), partial(np.sum, axis=0))
                return sums / tally.weight.sum()

            far = RemoteSelectionData(strata, engine.data.in_memory, count)
            engine = replace(
                engine, data=far, words=f"{words} ({self.n_threshold_rows_:,} made the candidates)"
            )
        self._settle(sample, engine=engine)

    def _outputs_on(
        self, models: Models, X: Any, y: Any, groups: Any, sample_weight: Any, to: str
    ) -> ModelOutputs:
        if isinstance(X, Mapping) and any(map(is_collection, X.values())):
            raise TypeError(
                f"{to} takes probabilities in memory; to choose on Dask collections again use "
                "from_probabilities"
            )
        return super()._outputs_on(models, X, y, groups, sample_weight, to)

    def to_local(self) -> local.RobustMixtureClassifier:
        """Return the classifier of one machine that this one is: without Dask, and to be saved."""
        new = object.__new__(local.RobustMixtureClassifier)
        new.__dict__.update(vars(self))
        return new

    def predict(self, X: Any, *, groups: Any = None, deferred: Any = None) -> Any:
        """Predict labels from a dict of probabilities: a lazy Dask array for Dask collections."""
        return self._answers(partial(self.to_local().predict, deferred=deferred), X, groups)

    def predict_proba(self, X: Any) -> Any:
        """Predict P(y | x) from a dict of probabilities: a lazy Dask array for Dask collections."""
        local = self.to_local()

        def ask(P: Mapping[str, Any], groups: Any = None) -> Any:
            return local.predict_proba(P)

        return self._answers(ask, X, None)

    def predict_distribution(self, X: Any, *, groups: Any = None) -> Any:
        """Predict the label distribution, shape (n, K): a lazy Dask array for Dask collections."""
        return self._answers(self.to_local().predict_distribution, X, groups)

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
    def of(cls, probabilities: Mapping[str, Any], groups: Any, *others: DaskColumn) -> Self:
        """Return collections that are cut at the same rows."""
        models = [DaskColumn(f"probabilities[{name!r}]", P) for name, P in probabilities.items()]
        first = models[0]
        columns = (*models, DaskColumn("groups", groups), *others)
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
class _RemoteReader:
    """Reads a partition, and numbers its rows by class and groups."""

    mix: DaskRobustMixtureClassifier  # knows the classes and groups
    models: Models

    @property
    def stated(self) -> RateProblem:
        """The objective and the limits as rates; for a CVaR the errors of the classes."""
        return self.mix._rate_problem

    @property
    def radices(self) -> list[int]:
        """Numbers of classes and, for each column of groups that matters, of groups."""
        K, mix = len(self.mix.classes_), self.mix
        if not (self.stated.needs_groups or mix.by_group):
            return [K]
        return [K] + [len(mix.groups_)] * len(mix._group_names.values)

    def read(self, P: list[Any], groups: Any, y: Any, weight: Any) -> _Block | None:
        """Return the rows of positive weight of a partition; None without any."""
        if not n_rows_of(y) or (weight is not None and not np.any(np.asarray(weight))):
            return None
        probabilities = dict(zip(self.models.names, P, strict=True))
        logs, rows = self.mix._given(self.models, probabilities, y, groups, weight, "")
        columns = [rows.y]
        if len(self.radices) > 1 and rows.groups is not None:
            columns += list(np.atleast_2d(rows.groups.T))
        return _Block(np.stack(logs, axis=1), rows, combined(columns, self.radices))

    def lines(self, keys: Ints, totals: Floats, words: str) -> Rows:
        """Return lines of a table that stand for several rows each.

        ``keys`` are class and groups of each line. ``totals`` of shape (3, m) holds the number of its rows
        and the sums of their weights and squared weights.
        """
        y, *groups = taken_apart(keys, self.radices)
        numbers = None if not groups else groups[0] if len(groups) == 1 else np.column_stack(groups)
        n, weight, squares = totals
        multiplicity = Multiplicity(n, squares)
        return Rows(y, weight, numbers, words, multiplicity=multiplicity)


@dataclass(frozen=True)
class _Block:
    """A partition as it was read: (n, M, K) log-probabilities, rows, and their classes and groups."""

    logs: Floats
    rows: Rows
    keys: Ints

    def parts(self, models: Models, combination: Ints) -> Iterator[tuple[slice, LogProbabilities]]:
        """Yield tables of the rows with their combination of groups, a few at a time."""
        size = max(512, AT_ONCE // self.logs.shape[2])
        for a in range(0, len(self.keys), size):
            part = slice(a, a + size)
            logs = list(np.ascontiguousarray(np.moveaxis(self.logs[part], 1, 0)))
            yield part, LogProbabilities.of(logs, combination[part], models.average)


def _runs(stratum: Ints, hashes: Hashes) -> tuple[Ints, Ints]:
    """Return where in an order of the rows those of another content begin, and the order."""
    order = np.lexsort((hashes, stratum))
    s, h = stratum[order], hashes[order]
    return np.flatnonzero(np.r_[True, (s[1:] != s[:-1]) | (h[1:] != h[:-1])]), order


@dataclass(frozen=True)
class RowSample:
    """How many rows there are of every class and group, and some of them."""

    tally: Tally  # by class and groups
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
        if len(tally.keys) > MOST_STRATA:
            raise ValueError(
                f"more than {MOST_STRATA:,} combinations of class and groups occur: give fewer columns of "
                "groups"
            )
        stratum = np.concatenate([part.stratum for part in parts])
        hashes = np.concatenate([part.hashes for part in parts])
        first, order = _runs(stratum, hashes)
        totals = np.hstack([part.totals for part in parts])[:, order]
        # What is left of a stratum has its smallest hashes, in any part of the rows too.
        own = stratum[order[first]]
        place = np.arange(len(own)) - np.searchsorted(own, own)
        kept = place < room(tally.rows, SAMPLE)
        chosen = order[first[kept]]
        logs = np.concatenate([part.logs for part in parts])[chosen]
        return cls(
            tally, stratum[chosen], hashes[chosen], logs, np.add.reduceat(totals, first, axis=1)[:, kept]
        )

    def sample(self, reader: _RemoteReader, words: str) -> ModelOutputs:
        """Return the rows that are there, each class and group weighing what it does in all."""
        tally = self.tally
        at = np.searchsorted(tally.keys, self.stratum)
        of_all = np.array([tally.rows, tally.weight, tally.squares])
        here = np.array([np.bincount(at, weights=v) for v in self.totals])
        rows = reader.lines(self.stratum, self.totals * (of_all / here)[:, at], words)
        return ModelOutputs(reader.models, tuple(np.moveaxis(self.logs, 1, 0)), rows)


def room(sizes: Any, most: int) -> int:
    """Return the largest number q ≥ 1 for which at most ``most`` are left where up to q of each are kept."""
    sizes = np.sort(sizes)
    before, left = np.cumsum(sizes) - sizes, np.arange(len(sizes), 0, -1)
    level = (most - before) // left
    short = np.flatnonzero(sizes > level)
    return max(1, int(level[short[0]] if len(short) else sizes[-1]))


def _look(reader: _RemoteReader, *columns: Any) -> RowSample | None:
    block = reader.read(*columns)
    if block is None:
        return None
    keys, weight = block.keys, block.rows.weight
    tally = Tally.of(keys, weight, math.prod(reader.radices))
    totals = np.stack([np.ones(len(weight)), weight, weight**2])
    hashes = hash_rows(block.logs.reshape(len(keys), -1))
    return RowSample.merged([RowSample(tally, keys, hashes, block.logs, totals)])


@dataclass(frozen=True)
class _Counting:
    """What workers need to count candidates."""

    reader: _RemoteReader
    belief: StratumProbabilities
    strata: Strata
    keys: Ints  # shape (m,): the classes and groups that occur, sorted
    stratum: Ints  # shape (m,): the stratum of each


def _count(counting: _Counting, members: Sequence[Any], *columns: Any) -> Floats | None:
    """Return the confusion counts of candidates on a partition, shape (T, S, A)."""
    block = counting.reader.read(*columns)
    if block is None:
        return None
    strata, models = counting.strata, counting.reader.models
    n_strata, A = len(strata.mass), strata.n_actions
    at = np.searchsorted(counting.keys, block.keys).clip(max=len(counting.keys) - 1)
    if not np.array_equal(counting.keys[at], block.keys):
        raise ValueError("the probabilities are others than a moment ago: store or persist them")
    stratum, sums = counting.stratum[at], np.zeros((len(members), n_strata * A))
    for part, table in block.parts(models, strata.combination[stratum]):
        p, weight, cell = (
            stratum_probabilities(counting.belief, table),
            block.rows.weight[part],
            stratum[part] * A,
        )
        for t, member in enumerate(members):
            sums[t] += np.bincount(cell + member.actions(p), weight, n_strata * A)
    return sums.reshape(len(members), n_strata, A)
