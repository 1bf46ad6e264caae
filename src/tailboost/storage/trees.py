"""scikit-learn's trees as arrays of their nodes, with checks before use."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
from sklearn.tree import _tree

from tailboost.core.array_types import Array, Floats, Floats32, Ints, Mask

TREE = "sklearn.tree._tree.Tree"
NODE = np.dtype(_tree.NODE_DTYPE)
FIELDS = (
    "left_child", "right_child", "feature", "threshold", "impurity", "n_node_samples",
    "weighted_n_node_samples", "missing_go_to_left",
)  # fmt: skip
CHILDREN = ("left_child", "right_child")  # numbers of nodes in the tree, in files distances
# Of an inner node these are sums over its children.
NODE_SUMS = ("n_node_samples", "weighted_n_node_samples")
SPLITS = ("feature", "threshold", "missing_go_to_left")
MOST_DEPTH = 100_000  # a forged file could contain one path of all nodes
# Impurities of the leaves' distributions replace the stored ones if they agree to this tolerance.
SAME = 1e-12

Pack = Callable[[Array], list[Any]]
Unpack = Callable[..., Array]


def packed_trees(trees: list[Any], pack: Pack) -> list[dict[str, Any]]:
    """Return trees as arrays of all their nodes, one group for each shape of values.

    ``pack`` stores an array and returns its JSON. Trees read rows as float32, so ``x <= t`` is the same for t
    rounded down to float32. Such thresholds are stored. Rows, weights and values of inner nodes follow from
    the leaves. Predictions do not need them.
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
    """Return the packed arrays of trees with one shape of values, from nodes in one long array."""
    states = [tree.__getstate__() for tree in trees]
    counts = [int(state["node_count"]) for state in states]
    nodes = np.concatenate([state["nodes"][: state["node_count"]] for state in states])
    values = np.concatenate([state["values"][: state["node_count"]] for state in states])
    leaf = nodes["left_child"] == _tree.TREE_LEAF
    inner = ~leaf
    columns = {name: nodes[name][leaf] for name in NODE_SUMS}
    columns |= {name: nodes[name][inner] for name in SPLITS}
    columns["threshold"] = _rounded_down(columns["threshold"])
    place = np.arange(len(nodes)) - _first_nodes(counts)  # of a node in its tree
    for name in CHILDREN:  # distances from the parent, which compress better than numbers
        columns[name] = (nodes[name] - place)[inner]
    of_leaves = values[leaf].reshape(leaf.sum(), -1)  # shape (leaves, outputs × classes)
    distinct_values, number = np.unique(of_leaves, axis=0, return_inverse=True)
    _fill(nodes, values, counts)
    if not np.allclose(nodes["impurity"], gini(values), rtol=SAME, atol=SAME):
        columns["impurity"] = nodes["impurity"]
    return {
        "counts": counts,
        "depths": [int(state["max_depth"]) for state in states],
        "values": pack(distinct_values),
        "value": pack(_in_few_bytes(number.ravel())),
        "leaf": pack(np.packbits(leaf)),
        **{name: pack(_in_few_bytes(column)) for name, column in columns.items()},
    }


def _first_nodes(counts: list[int]) -> Ints:
    """Return for each node of all trees the number of the first node of its tree."""
    return np.repeat(np.cumsum(counts) - counts, counts)


def _fill(nodes: Array, values: Floats, counts: list[int]) -> None:
    """Compute rows, weights and values of inner nodes in place, from the leaves upwards."""
    first = _first_nodes(counts)
    left = nodes["left_child"] + first
    right = nodes["right_child"] + first
    inner = nodes["left_child"] != _tree.TREE_LEAF
    roots = np.unique(first)
    levels = []  # inner nodes of all trees at the same depth
    level = roots[inner[roots]]
    while len(level):
        levels.append(level)
        _check(len(levels) <= MOST_DEPTH)
        children = np.concatenate([left[level], right[level]])
        level = children[inner[children]]
    n_rows = nodes["n_node_samples"]
    weight = nodes["weighted_n_node_samples"]
    for level in reversed(levels):
        left_child = left[level]
        right_child = right[level]
        n_rows[level] = n_rows[left_child] + n_rows[right_child]
        weight[level] = weight[left_child] + weight[right_child]
        share = np.full(len(level), 0.5)  # of the left child; half of no weight
        np.divide(weight[left_child], weight[level], out=share, where=weight[level] != 0)
        of_left = share.reshape(-1, 1, 1)  # values: (nodes, outputs, classes)
        values[level] = of_left * values[left_child] + (1.0 - of_left) * values[right_child]


def gini(values: Floats) -> Floats:
    """Return the Gini impurity of nodes with these class distributions, shape (n, outputs, K)."""
    impurity = np.asarray((1.0 - (values**2).sum(axis=2)).mean(axis=1))
    return np.where(abs(impurity) < SAME, 0.0, impurity)


def _in_few_bytes(numbers: Array) -> Array:
    """Return whole numbers below 2³¹ in a small integer dtype, for small files; other numbers as they are."""
    fit_into_int32 = np.isfinite(numbers).all() and (abs(numbers) < 2**31).all()
    if not fit_into_int32 or (numbers % 1 != 0).any():
        return np.ascontiguousarray(numbers)
    if not numbers.size:  # trees without splits have no numbers
        return numbers.astype(np.uint8)
    least = np.min_scalar_type(int(numbers.min()))
    largest = np.min_scalar_type(int(numbers.max()))
    return numbers.astype(np.promote_types(least, largest))


def _rounded_down(thresholds: Floats) -> Floats32:
    """Return for each threshold the largest float32 number up to it."""
    with np.errstate(over="ignore"):  # too large for float32: infinite, then rounded down
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
    feature = nodes["feature"][~leaf]
    _check(((feature >= 0) & (feature < n_features)).all())
    values = _leaf_values(group, leaf, unpack)
    _fill(nodes, values, counts)
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


def _leaf_values(group: dict[str, Any], leaf: Mask, unpack: Unpack) -> Floats:
    """Return the values of the nodes, shape (n, outputs, classes), after a check; 0 for inner nodes.

    Parameters
    ----------
    group : dict
        The stored columns of a group of trees.
    leaf : mask of shape (n,)
        Which nodes are leaves.
    unpack : callable
        Returns a stored array.
    """
    shape = (group["outputs"], max(group["classes"]))
    distinct_values = unpack(*group["values"])
    number = unpack(*group["value"]).astype(np.intp)
    _check(distinct_values.ndim == 2 and distinct_values.shape[1] == math.prod(shape))
    _check(number.shape == (leaf.sum(),))
    _check(((number >= 0) & (number < len(distinct_values))).all())
    values = np.zeros((len(leaf), *shape))
    values[leaf] = distinct_values[number].reshape(-1, *shape)
    return values


def _built_nodes(group: dict[str, Any], unpack: Unpack) -> tuple[Array, Mask]:
    """Return the nodes of all trees of a group, and which are leaves.

    Rows and weights of inner nodes are 0, and impurities if the file has none.
    """
    counts = group["counts"]
    n = sum(counts)
    columns = {name: unpack(*group[name]) for name in FIELDS if name in group}
    # A forged count has no array of this length, so the memory for the nodes is limited.
    bits = unpack(*group["leaf"])
    _check(bits.dtype == np.uint8 and bits.shape == (math.ceil(n / 8),))
    leaf = np.unpackbits(bits, count=n).astype(np.bool_)
    nodes = np.zeros(n, dtype=NODE)
    for name in ("feature", "threshold"):
        nodes[name] = _tree.TREE_UNDEFINED
    for name, column in columns.items():
        described = ~leaf  # the nodes that have an entry in this column
        if name in NODE_SUMS:
            described = leaf
        elif name == "impurity":
            described = np.ones(n, dtype=np.bool_)
        _check(column.shape == (described.sum(),))
        nodes[name][described] = column
    _place_children(nodes, leaf, counts)
    return nodes, leaf


def _place_children(nodes: Array, leaf: Mask, counts: list[int]) -> None:
    """Replace distances to children by their numbers in the tree, after a check that these are trees.

    Parameters
    ----------
    nodes : structured array
        The nodes of all trees, changed in place.
    leaf : mask
        Which nodes are leaves.
    counts : list of int
        Number of nodes of each tree.
    """
    first = _first_nodes(counts)
    place = np.arange(len(nodes)) - first
    n_in_tree = np.repeat(counts, counts)
    all_children = []
    for name in CHILDREN:
        child = nodes[name] + place
        _check(((child > place) & (child < n_in_tree))[~leaf].all())
        all_children.append((child + first)[~leaf])
        nodes[name] = np.where(leaf, _tree.TREE_LEAF, child)
    # No node has two parents.
    _check(np.bincount(np.concatenate(all_children), minlength=1).max() < 2)


def _check(holds: object) -> None:
    """Raise ValueError unless a condition holds, without which arrays of a file are no trees."""
    if not holds:
        raise ValueError("arrays that are not trees")
