"""Many one-tree members as one XGBoost model: the leaves of all of them in one pass over the rows."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from tailboost.core.array_types import Ints
from tailboost.learners.table import Table
from tailboost.learners.threads import count_threads

# One pass has a fixed cost of about this many rows, and merging costs as much as a few passes.
ROWS_WORTH_MERGING = 5_000
# The most trees in a pass: limits the memory of the leaf numbers, 4 bytes per row and tree.
TREES_PER_PASS = 64


def predict_trees(members: Sequence[Any], table: Table) -> Iterator[Ints]:
    """Yield the class numbers, shape (n,), of one-tree members of XGBoost's that share a prepared table."""
    import xgboost

    opened = members[0].booster_
    n_threads = count_threads(members[0].n_jobs, table.shape)
    data = xgboost.DMatrix(
        table, feature_types=opened.feature_types, enable_categorical=True, nthread=n_threads
    )
    for start in range(0, len(members), TREES_PER_PASS):
        models = [json.loads(m.booster_.save_raw("json")) for m in members[start : start + TREES_PER_PASS]]
        trees = [m["learner"]["gradient_booster"]["model"]["trees"][0] for m in models]
        for i, tree in enumerate(trees):
            tree["id"] = i
        merged = models[0]["learner"]["gradient_booster"]["model"]
        merged["trees"], merged["tree_info"] = trees, [0] * len(trees)
        merged["gbtree_model_param"]["num_trees"] = str(len(trees))
        merged["iteration_indptr"] = list(range(len(trees) + 1))
        booster = xgboost.Booster({"nthread": n_threads})  # of this call alone
        booster.load_model(bytearray(json.dumps(models[0]).encode()))
        leaves = booster.predict(data, pred_leaf=True).reshape(-1, len(trees))
        for tree, leaf in zip(trees, leaves.T.astype(np.int32, order="C"), strict=True):
            yield _label_of_node(tree).take(leaf)


def _label_of_node(tree: dict[str, Any]) -> Ints:
    """Return the class number each node would answer: leaves hold the share of class 1, or of every class."""
    K = int(tree["tree_param"]["size_leaf_vector"])
    if K <= 1:
        return (np.array(tree["split_conditions"], dtype=np.float32) > 0.5).astype(np.intp)
    return np.array(tree["base_weights"], dtype=np.float32).reshape(-1, K).argmax(axis=1)
