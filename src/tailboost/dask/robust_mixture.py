"""Selection of a rule on probabilities in Dask collections.

The client makes candidates on all rows, or on a sample of many rows. The workers count the confusions of the
candidates on all rows, and the rule is selected on these counts.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from operator import call
from typing import Any

import dask
import dask.array as da
import numpy as np

from tailboost.classifiers.mixture_fit import (
    first_selection,
    models_of_probabilities,
    problem_for_probabilities,
)
from tailboost.classifiers.robust_mixture import RobustMixtureClassifier
from tailboost.classifiers.robust_selection import (
    column_read,
    kinds_of,
    outputs_on,
    set_groups,
)
from tailboost.core.array_types import (
    Column,
    Floats,
    Groups,
    Hashes,
    Ints,
    Labels,
    Stated,
)
from tailboost.core.checks import (
    check_indexes,
    count_rows,
    label_vector,
    n_rows_of,
    refuse_missing,
    relative_weights,
)
from tailboost.core.exceptions import DeferredRowsWarning, warn_user
from tailboost.dask.collections import DaskColumn, partitions
from tailboost.rates import Strata
from tailboost.rows.fingerprints import UsedRows, hash_rows
from tailboost.rows.given import Given
from tailboost.rows.judged import judged, predicted_labels, words_of_labels
from tailboost.rows.ledger import Records
from tailboost.rows.rows import Rows
from tailboost.rows.subgroups import GroupNames
from tailboost.selection.data import RemoteSelectionData
from tailboost.selection.kinds import Kinds
from tailboost.selection.outputs import (
    LogProbabilities,
    ModelOutputs,
    Models,
    averaging,
    check_named,
    stacked,
)
from tailboost.selection.probabilities import StratumProbabilities, stratum_probabilities
from tailboost.selection.problem import Problem, strata_of

# Number of distinct rows on which candidates are made.
CANDIDATE_ROWS = 2**16
# Probabilities that a worker reads at a time: memory of arrays from 128 kB on returns to the system at once
# on Dask's workers, which doubles the time.
AT_ONCE = 2**13
# Tables that are added at a time.
FAN = 8
# Largest number of combinations of class and groups.
MOST_STRATA = 10_000


def from_probabilities(
    probabilities: Mapping[str, Any],
    y: Column,
    *,
    objective: Stated = None,
    groups: Groups = None,
    sample_weight: Column = None,
    classes: object = None,
    **params: Any,
) -> RobustMixtureClassifier:
    """Return a classifier for models with probabilities in Dask collections.

    It is the classifier of `tailboost.RobustMixtureClassifier.from_probabilities`, without costs by row
    (``costs=``). Its answers to collections are computed in memory; `predict` is lazy. The probabilities are
    read several times: persist them if reading is slow.

    Candidates are made on all rows up to 65,536, otherwise on a sample of this size. The sample holds all
    rows of small strata, and the rows of each large stratum with the smallest hashes. The confusion counts of
    the candidates are exact counts of all rows, and the rule is selected on them. A CVaR is selected on the
    sample. If the rule is group-blind, a model of the sample estimates the group from the probabilities; on
    one machine these estimates are out of fold.

    Parameters
    ----------
    probabilities : dict of str to Dask array or data frame of shape (n, K)
        Class probabilities of each model, as for one machine.
    y, groups, sample_weight : Dask array or column
        Labels, groups (or a data frame of groups) and weights of these rows, with the same partitions.
    objective, classes, **params
        As for one machine.

    Returns
    -------
    RobustMixtureClassifier
        ``n_threshold_rows_`` is the number of rows on which the candidates were made. A model file of it, or
        a copy in another process, does not reach the rows: other selections of large data then need rows in
        memory.

    Raises
    ------
    ValueError, TypeError
        If an argument is not as described.

    Examples
    --------
    >>> import dask.array as da
    >>> import tailboost.dask as td
    >>> p = da.random.default_rng(0).random(1000, chunks=250)
    >>> y = (p > 0.7).astype(int)
    >>> mix = td.from_probabilities({"model": p}, y)
    >>> max(mix.subgroup_errors_.values()) < 0.05
    True
    >>> td.predict(mix, {"model": p}).shape
    (1000,)
    """
    mix = RobustMixtureClassifier(objective=objective, **params)
    problem = problem_for_probabilities(mix, groups)
    check_named(probabilities)
    if y is None:
        raise ValueError("from_probabilities requires y to be passed, but the target y is None")
    blocks = partitions(
        probabilities,
        DaskColumn("groups", groups),
        DaskColumn("y", y),
        DaskColumn("sample_weight", sample_weight),
        name="probabilities",
    )
    without_probabilities = [block[1:] for block in blocks]
    labels_seen = _folded(without_probabilities, _labels_and_groups, _joint)
    if labels_seen is None:
        raise ValueError("y holds no rows")
    labels, names, (largest, relative_total, n_positive) = labels_seen
    scale = None
    if largest > 0:
        relative_mean = relative_total / n_positive
        if not count_rows(largest, relative_mean):
            scale = (largest, relative_mean)
    if classes is None:
        classes = labels
    models = models_of_probabilities(mix, probabilities, classes)
    if names is not None:
        set_groups(mix, names)
    used_rows = _folded(
        [(P, y) for P, _, y, _ in blocks], partial(_used, models), UsedRows.together
    )
    records = replace(Records.of_given(), tables=(used_rows,))
    _select(_RemoteReader(mix, models, problem, scale), blocks, records)
    mix.selection_.warn(forewarned=False)
    return mix


def predict(
    mix: RobustMixtureClassifier,
    probabilities: Mapping[str, Any],
    *,
    groups: Groups = None,
    deferred: Column = None,
) -> Any:
    """Return the labels of a classifier for probabilities in Dask collections: a lazy Dask array.

    Parameters
    ----------
    mix : RobustMixtureClassifier
        The classifier, made by `from_probabilities` or on one machine.
    probabilities : dict of str to Dask array or data frame of shape (n, K)
        Class probabilities of each model.
    groups : Dask array or column, optional
        Group of each row, for a rule that reads the group.
    deferred : str or number, optional
        Value for deferred rows, as in `tailboost.RobustMixtureClassifier.predict`.

    Returns
    -------
    Dask array of shape (n,)

    Warns
    -----
    DeferredRowsWarning
        If rows may be deferred, and ``deferred`` is not given.
    """
    if deferred is None and judged(mix).can_defer:
        warn_user(f"predict: rows may be deferred. {words_of_labels(mix)}", DeferredRowsWarning)
    return _answers(
        mix, partial(predicted_labels, mix, deferred=deferred), probabilities, groups
    )


def predict_proba(mix: RobustMixtureClassifier, probabilities: Mapping[str, Any]) -> Any:
    """Return P(y | x) of a classifier, shape (n, K), for Dask collections: a lazy Dask array.

    The arguments are as in `predict`.
    """
    return _answers(mix, lambda P, groups: mix.predict_proba(P), probabilities, None)


def _answers(
    mix: RobustMixtureClassifier,
    answer: Callable[..., Any],
    probabilities: Mapping[str, Any],
    groups: Groups,
) -> Any:
    """Return ``answer(probabilities, groups=groups)`` as a lazy Dask array."""
    blocks = partitions(probabilities, DaskColumn("groups", groups), name="probabilities")
    first_model = next(iter(probabilities.values()))
    lengths = [np.nan] * len(blocks)
    if isinstance(first_model, da.Array):
        lengths = list(first_model.chunks[0])
    no_rows = {name: np.empty((0, len(mix.classes_))) for name in probabilities}
    no_groups = None
    if groups is not None:
        no_groups = judged(mix).example_groups(0)
    # An answer to no rows has the type of all answers, and raises early if an argument is missing.
    example = answer(no_rows, groups=no_groups)
    delayed_answer = _delayed(answer)
    arrays = []
    for (P, block_groups), n in zip(blocks, lengths, strict=True):
        answers = delayed_answer(P, groups=block_groups)
        shape = (n, *example.shape[1:])
        arrays.append(da.from_delayed(answers, shape=shape, meta=example))
    return da.concatenate(arrays, axis=0, allow_unknown_chunksizes=True)


def _select(reader: _RemoteReader, blocks: list[tuple[Any, ...]], records: Records) -> None:
    """Make candidates on a sample, and let the classifier select by their confusion counts on all rows.

    Parameters
    ----------
    reader : _RemoteReader
        The classifier with its problem, which reads partitions.
    blocks : list of tuple
        The partitions: probabilities, labels and further columns.
    records : Records
        The rows read by the models and the selection.
    """
    mix = reader.mix
    sample = _folded(blocks, partial(_sampled, reader), RowSample.merged)
    if sample is None:
        raise ValueError("sample_weight: there is no row of positive weight")
    n_all = int(sample.totals[0].sum())
    n_sampled = int(sample.row_totals[0].sum())
    mix.n_threshold_rows_ = n_sampled
    all_rows = f"the {n_all:,} rows given to from_probabilities"
    words = all_rows
    if n_sampled < n_all:
        words = f"a sample of {n_sampled:,} of {all_rows}"
    outputs = sample.outputs(reader, words)
    outputs.check_order(mix.classes_)
    outputs = averaging(outputs)
    problem = reader.problem
    kinds = kinds_of(mix, problem, outputs)
    if n_sampled < n_all and not problem.over_rows:  # a CVaR is selected on the sample
        averaged = replace(reader, models=outputs.models)
        kinds = _counted_on_workers(kinds, averaged, blocks, sample, all_rows)
    first_selection(mix, kinds, problem, records)


def _counted_on_workers(
    kinds: Kinds,
    reader: _RemoteReader,
    blocks: list[tuple[Any, ...]],
    sample: RowSample,
    words: str,
) -> Kinds:
    """Return the kinds of rules with candidates whose confusion counts are those of all rows.

    ``words`` name all rows, of which the sample has the totals.
    """
    lines = reader.lines(sample.keys, sample.totals, words)
    mix = reader.mix
    names = getattr(mix, "_group_names", None)
    strata, stratum, _ = strata_of(
        reader.problem, lines, mix.classes_, names, rule_column=column_read(mix)
    )
    strata = replace(strata, size=lines.sizes(stratum, len(strata.mass)))
    total_weight = sample.totals[1].sum()

    def count(probabilities: StratumProbabilities, members: Sequence[Any]) -> Floats:
        # The confusion counts of candidates on all rows, as fractions of the weight.
        count_block = partial(
            _candidate_counts, reader, probabilities, strata, sample.keys, stratum, members
        )
        sums = _folded(blocks, count_block, partial(np.sum, axis=0))
        return sums / total_weight

    engines = []
    for engine in kinds.engines:
        data = RemoteSelectionData(
            strata, engine.data.in_memory, partial(count, engine.probabilities)
        )
        made_by = f"{words} ({mix.n_threshold_rows_:,} made the candidates)"
        engines.append(replace(engine, data=data, words=made_by))
    return replace(kinds, engines=tuple(engines))


# -- passes over the rows ----------------------------------------------------------------------------------


def _folded(
    blocks: list[tuple[Any, ...]],
    function: Callable[..., Any],
    join: Callable[[list[Any]], Any],
) -> Any:
    """Return the results of a function on all blocks, joined by ``join``; None if no block has rows.

    `FAN` results are joined at a time, so no worker holds many.
    """
    on_block = _delayed(function)
    join_results = _delayed(partial(_join, join))
    results = [on_block(*block) for block in blocks]
    while len(results) > 1:
        starts = range(0, len(results), FAN)
        results = [join_results(results[start : start + FAN]) for start in starts]
    (joined,) = dask.compute(results[0])
    return joined


def _delayed(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return a function of delayed objects; Dask sends the function once, not with each task."""
    return partial(dask.delayed(call, pure=False), dask.delayed(function))


def _join(join: Callable[[list[Any]], Any], results: list[Any]) -> Any:
    """Return the joined results of partitions; those without rows have the result None."""
    present = [result for result in results if result is not None]
    if present:
        return join(present)
    return None


# Labels, groups if there are any, and three numbers of the weights: the largest, the sum divided by it, and
# how many are positive.
Seen = tuple[Labels, GroupNames | None, Floats]


def _labels_and_groups(groups: Groups, y: Column, weight: Column) -> Seen | None:
    """Return the labels, groups and weights of a partition; None without rows."""
    refuse_missing(y, "y")
    n = n_rows_of(y)
    if not n:
        return None
    names = None
    if groups is not None:
        names = GroupNames.from_groups(groups, n)
    weights = np.zeros(3)
    if weight is not None and np.any(np.asarray(weight)):
        relative = relative_weights(weight, n)
        weights = np.array([np.max(np.asarray(weight)), relative.sum(), (relative > 0).sum()])
    return np.unique(label_vector(y)), names, weights


def _joint(seen: list[Seen]) -> Seen:
    """Return the labels, groups and weights of several partitions together."""
    labels, names, weights = zip(*seen, strict=True)
    largest, relative_sum, n_positive = np.transpose(weights)  # one entry for each partition
    largest_of_all = largest.max()
    # The sum of a partition is relative to its largest weight, the joint sum to the largest of all.
    joint_sum = relative_sum @ (largest / (largest_of_all or 1.0))
    joint_weights = np.array([largest_of_all, joint_sum, n_positive.sum()])
    joint_names = None
    if names[0] is not None:
        columns = zip(*(part.values for part in names), strict=True)
        values = tuple(np.unique(np.concatenate(column)) for column in columns)
        joint_names = GroupNames(values, names[0].columns)
    return np.unique(np.concatenate(labels)), joint_names, joint_weights


def _used(models: Models, P: Mapping[str, Any], y: Column) -> UsedRows | None:
    """Return the record of a partition of the selection data; None for one without rows."""
    if not n_rows_of(y):
        return None
    table = stacked(P, models.names, models.fitted[0].classes_, n_rows_of(y))
    return UsedRows.from_table(models.row_hashes(table, P), label_vector(y), "selection data")


@dataclass(frozen=True)
class _RemoteReader:
    """Reads a partition, and numbers its rows by class and groups."""

    mix: RobustMixtureClassifier  # with classes and groups
    models: Models
    problem: Problem  # the objective and the limits
    # The largest weight, and the mean of the positive ones by it; None if weights count rows. The weights of
    # all rows, divided by both, have the mean 1.
    scale: tuple[float, float] | None = None

    @property
    def radices(self) -> list[int]:
        """Number of classes and, for each column of groups in use, number of groups."""
        K = len(self.mix.classes_)
        mix = self.mix
        uses_groups = self.problem.needs_groups or mix.by_group
        if not uses_groups:
            return [K]
        # Groups are numbered over all columns.
        return [K] + [len(mix.groups_)] * len(mix._group_names.values)

    def read(
        self, P: dict[str, Any], groups: Groups, y: Column, weight: Column
    ) -> tuple[ModelOutputs, Ints] | None:
        """Return the rows of positive weight of a partition, and the numbers of their class and groups.

        The result is None for a partition without such rows.
        """
        has_weight = weight is None or bool(np.any(np.asarray(weight)))
        if not n_rows_of(y) or not has_weight:
            return None
        check_indexes(X=P, y=y, groups=groups, sample_weight=weight)
        outputs = outputs_on(self.mix, self.models, Given(P, y, groups, weight), "")
        rows = outputs.rows
        if weight is not None:  # scaled by all rows, not by those of this partition
            largest, mean = self.scale or (1.0, 1.0)
            weight = np.asarray(weight, dtype=np.float64) / largest / mean
            if rows.used is not None:
                weight = weight[rows.used]
            rows = replace(rows, weight=weight)
        columns = [rows.y]
        if len(self.radices) > 1 and rows.groups is not None:
            columns += list(np.atleast_2d(rows.groups.T))  # one column for the shape (n,)
        return replace(outputs, rows=rows), np.ravel_multi_index(columns, self.radices)

    def lines(self, keys: Ints, totals: Floats, words: str) -> Rows:
        """Return one row for each combination of class and groups, which stands for all rows of it.

        ``keys`` are the numbers of the combinations, and ``totals`` are those of `RowSample`.
        """
        y, *group_columns = np.unravel_index(keys, self.radices)
        groups = None
        if len(group_columns) == 1:
            groups = group_columns[0]
        elif group_columns:
            groups = np.column_stack(group_columns)
        _, weight, squares = totals
        return Rows(y, weight, groups, words, squares=squares)


@dataclass(frozen=True)
class RowSample:
    """Totals of all rows by class and groups, and a sample of distinct rows.

    Totals are the number of rows, the sum of their weights and of their squared weights.
    """

    keys: Ints  # shape (k,): numbers of the combinations of class and groups, sorted
    totals: Floats  # shape (3, k): of all rows of each combination
    stratum: Ints  # shape (m,): number of the class and groups of each sampled row
    hashes: Hashes  # shape (m,): content of each sampled row
    logs: Floats  # shape (m, M, K): their log-probabilities
    row_totals: Floats  # shape (3, m): of all rows with the content of each sampled row

    @classmethod
    def merged(cls, parts: list[RowSample]) -> RowSample:
        """Return the sample of all rows of several parts, with the sums of their totals.

        Rows of equal content become one row. Of a large stratum the smallest hashes stay.
        """
        keys_by_part = np.concatenate([part.keys for part in parts])
        keys, combination = np.unique(keys_by_part, return_inverse=True)
        if len(keys) > MOST_STRATA:
            raise ValueError(
                f"more than {MOST_STRATA:,} combinations of class and groups occur: give fewer "
                "columns of groups"
            )
        totals_by_part = np.hstack([part.totals for part in parts])  # shape (3, parts · k)
        sums = [
            np.bincount(combination, weights=v, minlength=len(keys)) for v in totals_by_part
        ]
        totals = np.stack(sums).astype(np.float64)
        stratum = np.concatenate([part.stratum for part in parts])
        hashes = np.concatenate([part.hashes for part in parts])
        order = np.lexsort((hashes, stratum))  # by stratum, and by content within it
        stratum = stratum[order]
        hashes = hashes[order]
        is_new = np.ones(len(order), dtype=bool)
        is_new[1:] = (stratum[1:] != stratum[:-1]) | (hashes[1:] != hashes[:-1])
        distinct = np.flatnonzero(is_new)  # the first row of each content
        row_totals = np.hstack([part.row_totals for part in parts])[:, order]
        row_totals = np.add.reduceat(row_totals, distinct, axis=1)
        # Each stratum keeps its smallest hashes, so a sample of samples is a sample of all rows.
        stratum_of_content = stratum[distinct]
        first_of_stratum = np.searchsorted(stratum_of_content, stratum_of_content)
        place = np.arange(len(distinct)) - first_of_stratum
        is_sampled = place < rows_per_stratum(totals[0], CANDIDATE_ROWS)
        sampled = distinct[is_sampled]
        logs = np.concatenate([part.logs for part in parts])[order[sampled]]
        row_totals = row_totals[:, is_sampled]
        return cls(keys, totals, stratum[sampled], hashes[sampled], logs, row_totals)

    def outputs(self, reader: _RemoteReader, words: str) -> ModelOutputs:
        """Return the outputs on the sampled rows, whose weights sum to those of all rows in each stratum."""
        combination = np.searchsorted(self.keys, self.stratum)  # of each sampled row
        sums = [np.bincount(combination, weights=v) for v in self.row_totals]
        factors = self.totals / np.array(sums)  # shape (3, k)
        scaled_totals = self.row_totals * factors[:, combination]
        rows = reader.lines(self.stratum, scaled_totals, words)
        logs_by_model = tuple(np.moveaxis(self.logs, 1, 0))
        return ModelOutputs(reader.models, logs_by_model, rows)


def rows_per_stratum(sizes: Any, max_rows: int) -> int:
    """Return the largest q ≥ 1 with which up to q rows of each stratum are at most ``max_rows`` rows."""
    sizes = np.sort(sizes)
    # If all smaller strata are kept whole, this many rows are left for each of the others.
    rows_before = np.cumsum(sizes) - sizes
    quota = (max_rows - rows_before) // np.arange(len(sizes), 0, -1)
    too_large = np.flatnonzero(sizes > quota)
    if not len(too_large):
        return max(1, int(sizes[-1]))
    return max(1, int(quota[too_large[0]]))


def _sampled(reader: _RemoteReader, *columns: Any) -> RowSample | None:
    """Return the sample of a partition, with its totals; None without rows of positive weight."""
    partition = reader.read(*columns)
    if partition is None:
        return None
    outputs, keys = partition
    weight = outputs.rows.weight
    totals = np.stack([np.ones(len(weight)), weight, weight**2])
    logs = np.stack(outputs.logs, axis=1)  # shape (n, M, K)
    hashes = hash_rows(logs.reshape(len(keys), -1))
    # Each row has a line of its own; `merged` adds equal ones.
    return RowSample.merged([RowSample(keys, totals, keys, hashes, logs, totals)])


def _candidate_counts(
    reader: _RemoteReader,
    probabilities: StratumProbabilities,
    strata: Strata,
    keys: Ints,
    stratum_of: Ints,
    members: Sequence[Any],
    *columns: Any,
) -> Floats | None:
    """Return the confusion counts of candidates on a partition: candidates × strata × actions.

    ``keys`` are the sorted numbers of the combinations of class and groups, ``stratum_of`` has the stratum of
    each combination. The result is None for a partition without rows.
    """
    partition = reader.read(*columns)
    if partition is None:
        return None
    outputs, row_keys = partition
    n_strata = len(strata.mass)
    n_actions = strata.n_actions
    combination = np.searchsorted(keys, row_keys).clip(max=len(keys) - 1)
    has_new_combination = not np.array_equal(keys[combination], row_keys)
    if has_new_combination:
        raise ValueError("the probabilities changed between two passes: store or persist them")
    stratum = stratum_of[combination]
    sums = np.zeros((len(members), n_strata * n_actions))
    block_rows = max(512, AT_ONCE // outputs.logs[0].shape[1])
    for start in range(0, len(row_keys), block_rows):
        block = slice(start, start + block_rows)
        logs = [np.ascontiguousarray(log[block]) for log in outputs.logs]
        groups = strata.combination[stratum[block]]
        table = LogProbabilities.from_arrays(logs, groups, reader.models.average)
        P = stratum_probabilities(probabilities, table)
        weight = outputs.rows.weight[block]
        first_cell = stratum[block] * n_actions  # of the row's stratum
        for t, member in enumerate(members):
            sums[t] += np.bincount(first_cell + member.actions(P), weight, n_strata * n_actions)
    return sums.reshape(len(members), n_strata, n_actions)
