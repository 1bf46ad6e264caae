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
SUMS = ("n_node_samples", "weighted_n_node_samples")
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
    return [
        _packed(key, numbers, [trees[i] for i in numbers], pack)
        for key, numbers in groups.items()
    ]


def _packed(
    key: tuple[Any, ...], numbers: list[int], trees: list[Any], pack: Pack
) -> dict[str, Any]:
    states = [tree.__getstate__() for tree in trees]
    counts = [int(state["node_count"]) for state in states]
    nodes = np.concatenate(
        [state["nodes"][:n] for state, n in zip(states, counts, strict=True)]
    )
    values = np.concatenate(
        [state["values"][:n] for state, n in zip(states, counts, strict=True)]
    )
    leaf = nodes["left_child"] == _tree.TREE_LEAF
    impurity = nodes["impurity"].copy()
    thresholds = _rounded_down(nodes["threshold"][~leaf])
    by_feature = np.argsort(nodes["feature"][~leaf], kind="stable")
    columns = {name: nodes[name][leaf] for name in SUMS}
    columns |= {name: nodes[name][~leaf] for name in SPLITS}
    # Trees that grow in depth first number their nodes in preorder. Other children are stored as distances.
    right = _right_children(leaf)
    place = np.arange(len(leaf))
    apart = {name: nodes[name][~leaf] - _place(counts)[~leaf] for name in CHILDREN}
    if (apart["left_child"] != 1).any() or (
        apart["right_child"] != (right - place)[~leaf]
    ).any():
        columns |= apart
    table, number = np.unique(values[leaf].reshape(leaf.sum(), -1), axis=0, return_inverse=True)
    _fill(nodes, values, counts)
    columns["missing_go_to_left"] ^= _more_left(nodes, counts)[~leaf]
    if not np.allclose(impurity, gini(values), rtol=SAME, atol=SAME):
        columns["impurity"] = impurity
    return {
        "features": key[0], "classes": list(key[1]), "outputs": key[2], "numbers": numbers, "counts": counts,
        "depths": [int(state["max_depth"]) for state in states], "values": pack(table),
        "value": pack(_small(number.ravel())), "threshold": pack(thresholds[by_feature]),
        "leaf": pack(np.packbits(leaf)),
        **{name: pack(_small(column)) for name, column in columns.items()},
    }  # fmt: skip


def _right_children(leaf: Mask) -> Ints:
    """Return the right child of each inner node, shape (n,), if children follow their parents in preorder.

    In preorder the left child is the next node, and its subtree has one leaf more than inner nodes. The right
    child follows the first node up to which the number of leaves beyond the left child's is one larger.
    """
    n = len(leaf)
    height = np.cumsum(np.where(leaf, -1, 1))
    key = (height - height.min(initial=0)) * (n + 1) + np.arange(n)  # by height, then by place
    ordered = np.argsort(key)
    next_below = np.searchsorted(key[ordered], key - (n + 1))
    found: Ints = ordered[np.minimum(next_below, n - 1)] + 1
    return found


def _place(counts: list[int]) -> NDArray[np.intp]:
    """Return the place of each node in its tree."""
    return np.arange(sum(counts)) - np.repeat(np.cumsum(counts) - counts, counts)


def _fill(nodes: NDArray[Any], values: Floats, counts: list[int]) -> None:
    """Set rows, weights and values of inner nodes by those of the leaves."""
    start = np.arange(sum(counts)) - _place(counts)
    left, right = (nodes[side] + start for side in CHILDREN)
    inner = nodes["left_child"] != _tree.TREE_LEAF
    roots = np.unique(start)
    levels = []
    level = roots[inner[roots]]
    while len(level):
        levels.append(level)
        _check(len(levels) <= MOST_DEPTH)
        below = np.concatenate([left[level], right[level]])
        level = below[inner[below]]
    rows, weight = (nodes[name] for name in SUMS)
    for level in reversed(levels):
        a = left[level]
        b = right[level]
        rows[level], weight[level] = rows[a] + rows[b], weight[a] + weight[b]
        half = np.full(len(level), 0.5)
        share = np.divide(weight[a], weight[level], out=half, where=weight[level] != 0)[
            :, None, None
        ]
        values[level] = share * values[a] + (1.0 - share) * values[b]


def _more_left(nodes: NDArray[Any], counts: list[int]) -> NDArray[np.uint8]:
    """Return whether the left child of each inner node has more rows than the right one.

    scikit-learn sends missing values to the larger child if it fitted none. Files contain the exceptions.
    """
    start = np.arange(sum(counts)) - _place(counts)
    left, right = (nodes["n_node_samples"][nodes[side] + start] for side in CHILDREN)
    return (left > right).astype(np.uint8)


def gini(values: Floats) -> Floats:
    """Return the Gini impurity of nodes with these class distributions, shape (n, outputs, K)."""
    impurity = np.asarray((1.0 - (values**2).sum(axis=2)).mean(axis=1))
    return np.where(abs(impurity) < SAME, 0.0, impurity)


def _small(numbers: NDArray[Any]) -> NDArray[Any]:
    """Return whole numbers in the smallest dtype of integers; other numbers unchanged."""
    if (
        not np.isfinite(numbers).all()
        or (abs(numbers) >= 2**31).any()
        or (numbers % 1 != 0).any()
    ):
        return np.ascontiguousarray(numbers)
    ends = (
        (numbers.min(), numbers.max()) if numbers.size else (0,)
    )  # trees without splits have no numbers
    kinds = (np.min_scalar_type(int(end)) for end in ends)
    return numbers.astype(np.result_type(*kinds))


def _rounded_down(thresholds: Floats) -> NDArray[np.float32]:
    """Return the largest float32 numbers up to these."""
    with np.errstate(over="ignore"):
        near = thresholds.astype(np.float32)
    return np.where(near > thresholds, np.nextafter(near, np.float32(-np.inf)), near)


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
        for number, tree in zip(group["numbers"], _built(group, unpack), strict=True):
            trees[number] = tree
    return trees


def _built(group: dict[str, Any], unpack: Unpack) -> list[Any]:
    counts = group["counts"]
    depths = group["depths"]
    n_features = group["features"]
    n_classes = group["classes"]
    n_outputs = group["outputs"]
    sizes = (n_features, n_outputs, *n_classes, *counts)
    _check(all(type(n) is int and n > 0 for n in sizes) and len(n_classes) == n_outputs)
    columns = {name: unpack(*group[name]) for name in FIELDS if name in group}
    # The arrays of the file, which are there, limit the number of nodes.
    bits = unpack(*group["leaf"])
    n = sum(counts)
    _check(
        bits.dtype == np.uint8 and bits.shape == (-(-n // 8),) and len(counts) == len(depths)
    )
    leaf = np.unpackbits(bits, count=n).astype(np.bool_)
    shapes = {name: (leaf.sum(),) for name in SUMS} | {"impurity": (n,)}
    _check(
        all(
            column.shape == shapes.get(name, ((~leaf).sum(),))
            for name, column in columns.items()
        )
    )
    inner = ~leaf
    nodes = np.zeros(n, dtype=NODE)
    place = _place(counts)
    by_feature = np.argsort(columns["feature"], kind="stable")
    columns["threshold"] = columns["threshold"][np.argsort(by_feature)]
    for name in ("feature", "threshold"):
        nodes[name] = _tree.TREE_UNDEFINED
    for name, column in columns.items():
        nodes[name][leaf if name in SUMS else slice(None) if name == "impurity" else inner] = (
            column
        )
    if not set(CHILDREN) <= columns.keys():
        nodes["left_child"], nodes["right_child"] = 1, _right_children(leaf) - np.arange(n)
    children = []
    for name in CHILDREN:
        nodes[name] = np.where(inner, nodes[name] + place, _tree.TREE_LEAF)
        child = nodes[name][inner]
        _check(((child > place[inner]) & (child < np.repeat(counts, counts)[inner])).all())
        children.append(child + (np.arange(n) - place)[inner])
    _check(np.bincount(np.concatenate(children), minlength=1).max() < 2)
    _check(((nodes["feature"] >= 0) & (nodes["feature"] < n_features))[inner].all())
    table = unpack(*group["values"])
    number = unpack(*group["value"]).astype(np.intp)
    shape = (n_outputs, max(n_classes))
    _check(
        table.ndim == 2
        and table.shape[1] == shape[0] * shape[1]
        and number.shape == ((~inner).sum(),)
    )
    _check(((number >= 0) & (number < len(table))).all())
    values = np.zeros((len(nodes), *shape))
    values[~inner] = table[number].reshape(-1, *shape)
    _fill(nodes, values, counts)
    nodes["missing_go_to_left"][inner] ^= _more_left(nodes, counts)[inner]
    if "impurity" not in columns:
        nodes["impurity"] = gini(values)
    built = []
    for last, count, depth in zip(np.cumsum(counts), counts, depths, strict=True):
        tree = _tree.Tree(n_features, np.array(n_classes, dtype=np.intp), n_outputs)
        part = slice(last - count, last)
        tree.__setstate__(
            {
                "max_depth": int(depth),
                "node_count": count,
                "nodes": nodes[part],
                "values": values[part],
            }
        )
        built.append(tree)
    return built


def _check(holds: object) -> None:
    if not holds:
        raise ValueError("arrays that are not trees")
