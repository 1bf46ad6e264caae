"""The rules and rows of an attempt to calibrate, as bytes that are the same only for the same attempt."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tailboost.core.array_types import Floats, Hashes, Ints, Model
from tailboost.guarantees.fresh_rows import FreshRows
from tailboost.rows.fingerprints import hash_rows
from tailboost.rows.judged import judged

# Parameters of a selection: the same call for another rule is another attempt.
RULE_PARAMETERS = (
    "objective",
    "alpha",
    "limits",
    "error_budget",
    "max_error",
    "confidence",
    "by_group",
    "randomized",
)
# Number of sums with random weights by which tested values are compared.
SUMS = 4
# The sums are rounded to this fraction of their size. Of 6,880 sums of random log-probabilities none changed
# by rounding errors of float64, and 1 by those of float32.
SUM_STEP = 1e-4
# Decimals of confusion counts: later ones are rounding errors.
COUNT_DECIMALS = 9


def what_is_tested(model: Model, fresh: FreshRows, arguments: str) -> Iterator[bytes]:
    """Yield the rows with labels, what is tested on them, and all arguments of a call.

    Tested are the answers of the given rule and of all rules with the same candidates: the values by which
    the candidates answer the fresh rows, the confusion counts on the selection data, and the parameters of
    the selection. So another model, score or number of base models is another test.

    The order of rows, rounding errors and the names of clusters have no effect. Labels, groups and clusters
    are hashed together with their row.

    Parameters
    ----------
    model : classifier
        Gives the candidates.
    fresh : FreshRows
        The fresh rows, opened by the model.
    arguments : str
        All arguments of the call.

    Yields
    ------
    bytes
    """
    rows = _hashes_with_labels(fresh)
    classifier = judged(model)
    # By part of the rows, then by candidate.
    values_by_part = [classifier.tested_values(part) for part in fresh.opened]
    values = [np.concatenate(parts) for parts in zip(*values_by_part, strict=True)]
    # From ½ to 1½, by hashes of 64 bits.
    weights = np.stack(
        [0.5 + hash_rows(rows[:, None], seed) * 2.0**-64 for seed in range(1, SUMS + 1)]
    )
    sums = [_weighted_sums(column, weights) for column in (fresh.answered.actions, *values)]
    counts = np.round(classifier.counts_on_selection, COUNT_DECIMALS) + 0.0  # −0 becomes 0
    parameters = model.get_params(deep=False)
    rule = repr([(name, parameters[name]) for name in RULE_PARAMETERS if name in parameters])
    for array in (np.sort(rows), *sums, counts):
        yield array.tobytes()
    yield f"{rule}{arguments}".encode()


def _hashes_with_labels(fresh: FreshRows) -> Hashes:
    """Return the hash of each row with its label, its groups and the rows of its cluster, shape (n,)."""
    assert fresh.hashes is not None
    strata = fresh.answered.strata
    texts = []
    for label, *groups in strata.names:
        by_column = sorted(zip(strata.columns, groups, strict=True), key=repr)
        texts.append(repr((label, by_column)))
    hashes_of_strata = hash_rows(np.array(texts, dtype=object)[:, None])
    hashes = hash_rows(
        np.column_stack([fresh.hashes, hashes_of_strata[fresh.answered.stratum]])
    )
    if fresh.clusters is None:
        return hashes
    # The sum of its rows' hashes identifies a cluster, whatever its name.
    hashes_of_clusters = np.zeros(int(fresh.clusters.max()) + 1, dtype=np.uint64)
    np.add.at(hashes_of_clusters, fresh.clusters, hashes)
    return hash_rows(np.column_stack([hashes, hashes_of_clusters[fresh.clusters]]))


def _weighted_sums(values: NDArray[Any], weights: Floats) -> Ints:
    """Return sums of the values of rows with random weights, as multiples of a step, shape (`SUMS` · m,).

    The weights, shape (`SUMS`, n), come from the hashes of the rows, so the order of rows has no effect.
    """
    columns = np.nan_to_num(np.reshape(values, (len(values), -1)).astype(np.float64))
    # A column without another value than 0 stays so.
    columns /= np.maximum(np.abs(columns).max(axis=0, initial=0.0), np.finfo(np.float64).tiny)
    steps = SUM_STEP * np.maximum(np.sqrt((columns**2).sum(axis=0)), 1.0)
    return np.rint(weights @ columns / steps).astype(np.int64).ravel()
