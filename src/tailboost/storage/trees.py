"""scikit-learn's trees as arrays of their nodes, with checks before use."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.tree import _tree

from tailboost.core.array_types import Floats, Ints, Mask

TREE = "sklearn.tree._tree.Tree"
NODE = np.dtype(_tree.NODE_DTYPE)
FIELDS = (
    "left_child", "right_child", "feature", "threshold", "impurity", "n_node_samples",
    "weighted_n_node_samples", "missing_go_to_left",
)  # fmt: skip
CHILDREN = ("left_child", "right_child")
NODE_SUMS = ("n_node_samples", "weighted_n_node_samples")
SPLITS = ("feature", "missing_go_to_left")
MOST_DEPTH = 100_000
# Impurities are computed from the leaves if they agree to this tolerance.
SAME = 1e-12

Pack = Callable[[NDArray[Any]], list[Any]]
Unpack = Callable[..., NDArray[Any]]


def packed_trees(trees: list[Any], pack: Pack) -> list[dict[str, Any]]:
    """Return trees as arrays of all their nodes, one group for each shape of values.

    Trees read rows as float32, so ``x <= t`` is the same for t rounded down to float32. Such thresholds are
    stored, column by column of the table: thresholds of a column are alike. Rows, weights and values of inner
    nodes follow from the leaves. Predictions do not need them.
    """
    if trees and set(NODE.names or ()) != set(FIELDS):
        raise TypeError(
            f"this scikit-learn version stores trees in another format: {NODE.names}"
        )
    groups: dict[tuple[Any, ...], list[int]] = {}
    for number, tree in enumerate(trees):
        key = (int(tree.n_features), tuple(map(int, tree.n_classes)), int(tree.n_outputs))
        groups.setdefault(key, []).append(number)
    packed = []
    for (n_features, n_classes, n_outputs), numbers in groups.items():
        group = {
            "features": n_features,
            "classes": list(n_classes),
            "outputs": n_outputs,
            "numbers": numbers,
        }
        packed.append(group | _packed([trees[i] for i in numbers], pack))
    return packed


def _packed(trees: list[Any], pack: Pack) -> dict[str, Any]:
    """Return the packed arrays of trees with one shape of values, whose nodes are in one long array."""
    states = [tree.__getstate__() for tree in trees]
    counts = [int(state["node_count"]) for state in states]
    nodes = np.concatenate([state["nodes"][: state["node_count"]] for state in states])
    values = np.concatenate([state["values"][: state["node_count"]] for state in states])
    leaf = nodes["left_child"] == _tree.TREE_LEAF
    inner = ~leaf
    impurity = nodes["impurity"].copy()
    thresholds = _rounded_down(nodes["threshold"][inner])
    by_feature = np.argsort(nodes["feature"][inner], kind="stable")
    columns = {name: nodes[name][leaf] for name in NODE_SUMS}
    columns |= {name: nodes[name][inner] for name in SPLITS}
    # Trees that grow in depth first number their nodes in preorder. Other children are stored as distances.
    place = _place(counts)[inner]
    distances = {name: nodes[name][inner] - place for name in CHILDREN}
    in_preorder = (_right_children(leaf) - np.arange(len(leaf)))[inner]
    if (distances["left_child"] != 1).any() or (distances["right_child"] != in_preorder).any():
        columns |= distances
    of_leaves = values[leaf].reshape(leaf.sum(), -1)
    table, number = np.unique(of_leaves, axis=0, return_inverse=True)
    _fill(nodes, values, counts)
    columns["missing_go_to_left"] ^= _more_left(nodes, counts)[inner]
    if not np.allclose(impurity, gini(values), rtol=SAME, atol=SAME):
        columns["impurity"] = impurity
    return {
        "counts": counts,
        "depths": [int(state["max_depth"]) for state in states],
        "values": pack(table),
        "value": pack(_small(number.ravel())),
        "threshold": pack(thresholds[by_feature]),
        "leaf": pack(np.packbits(leaf)),
        **{name: pack(_small(column)) for name, column in columns.items()},
    }


def _right_children(leaf: Mask) -> Ints:
    """Return the right child of each inner node, shape (n,), if children follow their parents in preorder.

    In preorder the left child is the next node, and its subtree has one leaf more than inner nodes. The right
    child follows the first node up to which the number of leaves beyond the left child's is one larger.
    """
    n = len(leaf)
    height = np.cumsum(np.where(leaf, -1, 1))
    key = (height - height.min(initial=0)) * (n + 1) + np.arange(n)  # by height, then by place
    order = np.argsort(key)
    next_below = np.searchsorted(key[order], key - (n + 1))
    last_of_left: Ints = order[np.minimum(next_below, n - 1)]
    return last_of_left + 1


def _place(counts: list[int]) -> NDArray[np.intp]:
    """Return the place of each node in its tree."""
    return np.arange(sum(counts)) - np.repeat(np.cumsum(counts) - counts, counts)


def _fill(nodes: NDArray[Any], values: Floats, counts: list[int]) -> None:
    """Set rows, weights and values of inner nodes by those of the leaves."""
    start = np.arange(sum(counts)) - _place(counts)
    left = nodes["left_child"] + start
    right = nodes["right_child"] + start
    inner = nodes["left_child"] != _tree.TREE_LEAF
    roots = np.unique(start)
    levels = []  # inner nodes of all trees at the same depth
    level = roots[inner[roots]]
    while len(level):
        levels.append(level)
        _check(len(levels) <= MOST_DEPTH)
        children = np.concatenate([left[level], right[level]])
        level = children[inner[children]]
    rows = nodes["n_node_samples"]
    weight = nodes["weighted_n_node_samples"]
    for level in reversed(levels):
        a = left[level]
        b = right[level]
        rows[level] = rows[a] + rows[b]
        weight[level] = weight[a] + weight[b]
        share = np.full(len(level), 0.5)
        np.divide(weight[a], weight[level], out=share, where=weight[level] != 0)
        share = share[:, None, None]
        values[level] = share * values[a] + (1.0 - share) * values[b]


def _more_left(nodes: NDArray[Any], counts: list[int]) -> NDArray[np.uint8]:
    """Return whether the left child of each inner node has more rows than the right one.

    scikit-learn sends missing values to the larger child if it fitted none. Files contain the exceptions.
    """
    start = np.arange(sum(counts)) - _place(counts)
    rows = nodes["n_node_samples"]
    more_left = rows[nodes["left_child"] + start] > rows[nodes["right_child"] + start]
    return more_left.astype(np.uint8)


def gini(values: Floats) -> Floats:
    """Return the Gini impurity of nodes with these class distributions, shape (n, outputs, K)."""
    impurity = np.asarray((1.0 - (values**2).sum(axis=2)).mean(axis=1))
    return np.where(abs(impurity) < SAME, 0.0, impurity)


def _small(numbers: NDArray[Any]) -> NDArray[Any]:
    """Return whole numbers in the smallest dtype of integers; other numbers unchanged."""
    is_small = np.isfinite(numbers).all() and (abs(numbers) < 2**31).all()
    if not is_small or (numbers % 1 != 0).any():
        return np.ascontiguousarray(numbers)
    ends = [0]
    if numbers.size:  # trees without splits have no numbers
        ends = [int(numbers.min()), int(numbers.max())]
    return numbers.astype(np.result_type(*map(np.min_scalar_type, ends)))


def _rounded_down(thresholds: Floats) -> NDArray[np.float32]:
    """Return the largest float32 numbers up to these."""
    with np.errstate(over="ignore"):
        nearest = thresholds.astype(np.float32)
    below = np.nextafter(nearest, np.float32(-np.inf))
    return np.where(nearest > thresholds, below, nearest)


def built_trees(groups: list[dict[str, Any]], unpack: Unpack) -> dict[int, Any]:
    """Return trees by their numbers.

    Raises
    ------
    ValueError
        If the arrays are not trees: a child does not follow its parent, a node has two parents, or a column
        or value is unknown.
    """
    trees: dict[int, Any] = {}
    for group in groups:
        trees.update(zip(group["numbers"], _built(group, unpack), strict=True))
    return trees


def _built(group: dict[str, Any], unpack: Unpack) -> list[Any]:
    """Return the trees of a group that `packed_trees` made, after checks of its arrays."""
    counts = group["counts"]
    depths = group["depths"]
    n_features = group["features"]
    n_classes = group["classes"]
    n_outputs = group["outputs"]
    sizes = (n_features, n_outputs, *n_classes, *counts)
    _check(all(type(n) is int and n > 0 for n in sizes))
    _check(len(n_classes) == n_outputs and len(counts) == len(depths))
    nodes, leaf = _built_nodes(group, unpack)
    _check(((nodes["feature"] >= 0) & (nodes["feature"] < n_features))[~leaf].all())
    table = unpack(*group["values"])
    number = unpack(*group["value"]).astype(np.intp)
    shape = (n_outputs, max(n_classes))
    _check(table.ndim == 2 and table.shape[1] == shape[0] * shape[1])
    _check(number.shape == (leaf.sum(),))
    _check(((number >= 0) & (number < len(table))).all())
    values = np.zeros((len(nodes), *shape))
    values[leaf] = table[number].reshape(-1, *shape)
    _fill(nodes, values, counts)
    nodes["missing_go_to_left"][~leaf] ^= _more_left(nodes, counts)[~leaf]
    if "impurity" not in group:
        nodes["impurity"] = gini(values)
    built = []
    for end, count, depth in zip(np.cumsum(counts), counts, depths, strict=True):
        tree = _tree.Tree(n_features, np.array(n_classes, dtype=np.intp), n_outputs)
        of_tree = slice(end - count, end)
        tree.__setstate__(
            {
                "max_depth": int(depth),
                "node_count": count,
                "nodes": nodes[of_tree],
                "values": values[of_tree],
            }
        )
        built.append(tree)
    return built


def _built_nodes(group: dict[str, Any], unpack: Unpack) -> tuple[NDArray[Any], Mask]:
    """Return the nodes of all trees of a group, and which are leaves.

    Rows and weights of inner nodes are 0, and impurities if the file has none.
    """
    counts = group["counts"]
    n = sum(counts)
    columns = {name: unpack(*group[name]) for name in FIELDS if name in group}
    # The arrays of the file, which are there, limit the number of nodes.
    bits = unpack(*group["leaf"])
    _check(bits.dtype == np.uint8 and bits.shape == (-(-n // 8),))
    leaf = np.unpackbits(bits, count=n).astype(np.bool_)
    inner = ~leaf
    by_feature = np.argsort(columns["feature"], kind="stable")
    columns["threshold"] = columns["threshold"][np.argsort(by_feature)]
    nodes = np.zeros(n, dtype=NODE)
    for name in ("feature", "threshold"):
        nodes[name] = _tree.TREE_UNDEFINED
    for name, column in columns.items():
        rows = inner
        if name in NODE_SUMS:
            rows = leaf
        elif name == "impurity":
            rows = np.ones(n, dtype=np.bool_)
        _check(column.shape == (rows.sum(),))
        nodes[name][rows] = column
    if not set(CHILDREN) <= columns.keys():
        nodes["left_child"] = 1
        nodes["right_child"] = _right_children(leaf) - np.arange(n)
    place = _place(counts)
    end = np.repeat(counts, counts)
    start = np.arange(n) - place
    children = []
    for name in CHILDREN:
        nodes[name] = np.where(inner, nodes[name] + place, _tree.TREE_LEAF)
        child = nodes[name]
        _check(((child > place) & (child < end))[inner].all())
        children.append((child + start)[inner])
    _check(np.bincount(np.concatenate(children), minlength=1).max() < 2)
    return nodes, leaf


def _check(holds: object) -> None:
    """Raise ValueError unless a condition holds, without which arrays of a file are no trees."""
    if not holds:
        raise ValueError("arrays that are not trees")
