"""scikit-learn's trees as a few small arrays, with checks before use."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.tree import _tree

from tailboost.core.array_types import Floats, Ints, Mask

TREE = "sklearn.tree._tree.Tree"
# Values of inner nodes are computed from the leaves if the result agrees to this tolerance.
SAME = 1e-12
NODE = np.dtype(_tree.NODE_DTYPE)
_FIELDS = {
    "left_child", "right_child", "feature", "threshold", "impurity", "n_node_samples",
    "weighted_n_node_samples", "missing_go_to_left",
}  # fmt: skip
MOST_DEPTH = 100_000

Pack = Callable[[NDArray[Any]], list[Any]]
Unpack = Callable[..., NDArray[Any]]


def gini(value: Floats) -> Floats:
    """Return the Gini impurity of nodes with these class distributions, shape (n, outputs, K)."""
    return np.asarray((1.0 - (value**2).sum(axis=2)).mean(axis=1))


def packed_trees(trees: list[Any], pack: Pack) -> list[dict[str, Any]]:
    """Return trees as arrays, one group for each shape of values.

    Trees read rows as float32, so ``x <= t`` is the same for t rounded down to float32. Such thresholds are
    stored. Distributions, weights and impurities of inner nodes are computed from the leaves if the result
    agrees to 1e-12.
    """
    if trees and set(NODE.names or ()) != _FIELDS:
        raise TypeError(f"this scikit-learn version stores trees in another format: {NODE.names}")
    groups: dict[tuple[Any, ...], list[int]] = {}
    for i, tree in enumerate(trees):
        key = (int(tree.n_features), tuple(map(int, tree.n_classes)), int(tree.n_outputs))
        groups.setdefault(key, []).append(i)
    return [_packed(key, numbers, [trees[i] for i in numbers], pack) for key, numbers in groups.items()]


def _packed(key: tuple[Any, ...], numbers: list[int], trees: list[Any], pack: Pack) -> dict[str, Any]:
    states = [tree.__getstate__() for tree in trees]
    counts = np.array([state["node_count"] for state in states])
    nodes = np.concatenate([state["nodes"][:n] for state, n in zip(states, counts, strict=True)])
    values = np.concatenate([state["values"][:n] for state, n in zip(states, counts, strict=True)])
    start, index = np.repeat(np.cumsum(counts) - counts, counts), np.arange(len(nodes))
    leaf = nodes["left_child"] < 0
    inner = ~leaf
    left, right = (np.where(inner, start + nodes[side], -1) for side in ("left_child", "right_child"))
    table, code = np.unique(values[leaf].reshape(leaf.sum(), -1), axis=0, return_inverse=True)
    packed = {
        "features": key[0], "classes": list(key[1]), "outputs": key[2], "numbers": numbers,
        "depths": [int(state["max_depth"]) for state in states],
        "counts": pack(_small(counts)),
        "leaf": pack(np.packbits(leaf)),
        "left": pack(_small((left - index)[inner])),
        "right": pack(_small((right - index)[inner])),
        "feature": pack(_small(nodes["feature"][inner])),
        "threshold": pack(_rounded_down(nodes["threshold"][inner])),
        "missing": pack(np.packbits(nodes["missing_go_to_left"][inner] != 0)),
        "values": pack(table),
        "value": pack(_small(code.ravel())),
        "rows": pack(_small(nodes["n_node_samples"][leaf])),
        "weights": pack(_small_floats(nodes["weighted_n_node_samples"][leaf])),
    }  # fmt: skip
    of_leaves = _Nodes.of(
        left, right, inner, values, nodes["n_node_samples"], nodes["weighted_n_node_samples"]
    )
    stored = {
        "inner_values": (values, of_leaves.values),
        "inner_rows": (nodes["n_node_samples"], of_leaves.rows),
        "inner_weights": (nodes["weighted_n_node_samples"], of_leaves.weights),
        "impurity": (nodes["impurity"], gini(of_leaves.values)),
    }
    for name, (given, made) in stored.items():
        where = slice(None) if name == "impurity" else inner
        if not np.allclose(given, made, rtol=SAME, atol=SAME):
            packed[name] = pack(np.ascontiguousarray(given[where]))
    return packed


class _Nodes:
    """Values, rows and weights of all nodes, with inner nodes computed from the leaves."""

    def __init__(self, values: Floats, rows: Ints, weights: Floats) -> None:
        self.values, self.rows, self.weights = values, rows, weights

    @classmethod
    def of(cls, left: Ints, right: Ints, inner: Mask, values: Floats, rows: Ints, weights: Floats) -> _Nodes:
        """Return nodes whose inner nodes are computed from the leaves of these arrays."""
        out = cls(np.array(values, dtype=np.float64), np.array(rows), np.array(weights, dtype=np.float64))
        for level in reversed(_levels(left, right, inner)):
            a, b = left[level], right[level]
            out.rows[level] = out.rows[a] + out.rows[b]
            weight = out.weights[a] + out.weights[b]
            out.weights[level] = weight
            share = np.divide(out.weights[a], weight, out=np.full(len(a), 0.5), where=weight != 0)[
                :, None, None
            ]
            out.values[level] = share * out.values[a] + (1.0 - share) * out.values[b]
        return out


def _levels(left: Ints, right: Ints, inner: Mask) -> list[Ints]:
    """Return the inner nodes by depth, from the roots; children follow their parents.

    Raises
    ------
    ValueError
        If a node has two parents, or a tree is too deep.
    """
    parents = np.zeros(len(inner), dtype=np.intp)
    children = np.concatenate([left[inner], right[inner]])
    np.add.at(parents, children, 1)
    if (parents > 1).any():
        raise ValueError("a node of a tree has two parents")
    levels, level = [], np.flatnonzero(inner & (parents == 0))
    while len(level):
        levels.append(level)
        if len(levels) > MOST_DEPTH:
            raise ValueError("a tree is too deep")
        below = np.concatenate([left[level], right[level]])
        level = below[inner[below]]
    return levels


def built_trees(groups: list[dict[str, Any]], unpack: Unpack) -> dict[int, Any]:
    """Return trees by their numbers.

    Raises
    ------
    ValueError
        If the arrays are not trees: a child does not follow its parent, a feature or value is unknown.
    """
    trees: dict[int, Any] = {}
    for group in groups:
        for number, tree in zip(group["numbers"], _built(group, unpack), strict=True):
            trees[number] = tree
    return trees


def _built(group: dict[str, Any], unpack: Unpack) -> list[Any]:
    def array(name: str, dtype: Any = None) -> NDArray[Any]:
        out = unpack(*group[name])
        return out if dtype is None else out.astype(dtype)

    counts = array("counts", np.intp)
    n_features, n_classes, n_outputs = group["features"], group["classes"], group["outputs"]
    # One bit per node limits the number of nodes.
    bits = array("leaf", np.uint8)
    total = int(counts.sum())
    _check((counts > 0).all() and 0 <= total <= 8 * len(bits) and len(counts) == len(group["depths"]))
    leaf = np.unpackbits(bits, count=total).astype(bool)
    inner = ~leaf
    n_inner = int(inner.sum())
    start, index = np.repeat(np.cumsum(counts) - counts, counts), np.arange(total)
    end = np.repeat(np.cumsum(counts), counts)
    nodes = np.zeros(total, dtype=NODE)
    links = {}
    for side in ("left", "right"):
        step = array(side, np.int64)
        _check(step.shape == (n_inner,) and (step > 0).all() and (index[inner] + step < end[inner]).all())
        links[side] = np.full(total, -1)
        links[side][inner] = index[inner] + step
        nodes[f"{side}_child"] = np.where(inner, links[side] - start, _tree.TREE_LEAF)
    feature = array("feature", np.int64)
    _check(feature.shape == (n_inner,) and ((feature >= 0) & (feature < n_features)).all())
    nodes["feature"], nodes["threshold"] = _tree.TREE_UNDEFINED, _tree.TREE_UNDEFINED
    nodes["feature"][inner], nodes["threshold"][inner] = feature, array("threshold", np.float64)
    nodes["missing_go_to_left"][inner] = np.unpackbits(array("missing", np.uint8), count=n_inner)
    _check(
        all(type(n) is int and n > 0 for n in (n_features, n_outputs, *n_classes))
        and len(n_classes) == n_outputs
    )
    table, code = array("values", np.float64), array("value", np.intp)
    width = n_outputs * max(n_classes)
    _check(table.ndim == 2 and table.shape[1] == width and code.shape == (total - n_inner,))
    _check(((code >= 0) & (code < len(table))).all())
    values = np.zeros((total, n_outputs, max(n_classes)))
    values[leaf] = table[code].reshape(-1, n_outputs, max(n_classes))
    nodes["n_node_samples"][leaf] = array("rows")
    nodes["weighted_n_node_samples"][leaf] = array("weights")
    levels_of = links["left"], links["right"], inner
    filled = _Nodes.of(*levels_of, values, nodes["n_node_samples"], nodes["weighted_n_node_samples"])
    nodes["n_node_samples"], nodes["weighted_n_node_samples"] = filled.rows, filled.weights
    values, impurity = filled.values, gini(filled.values)
    if "inner_values" in group:
        values[inner] = array("inner_values", np.float64)
    for name, field in (("inner_rows", "n_node_samples"), ("inner_weights", "weighted_n_node_samples")):
        if name in group:
            nodes[field][inner] = array(name)
    nodes["impurity"] = (
        array("impurity", np.float64) if "impurity" in group else np.where(abs(impurity) < SAME, 0, impurity)
    )
    built = []
    for first, count, depth in zip(np.cumsum(counts) - counts, counts, group["depths"], strict=True):
        tree = _tree.Tree(n_features, np.array(n_classes, dtype=np.intp), n_outputs)
        part = slice(first, first + count)
        tree.__setstate__(
            {"max_depth": int(depth), "node_count": int(count), "nodes": nodes[part], "values": values[part]}
        )
        built.append(tree)
    return built


def _check(holds: Any) -> None:
    if not holds:
        raise ValueError("arrays that are not trees")


def _small(numbers: Ints) -> NDArray[Any]:
    """Return integers in the smallest dtype."""
    least, most = (int(numbers.min()), int(numbers.max())) if len(numbers) else (0, 0)
    return numbers.astype(np.result_type(np.min_scalar_type(least), np.min_scalar_type(most)))


def _small_floats(numbers: Floats) -> NDArray[Any]:
    whole = (
        np.isfinite(numbers).all() and (numbers == np.rint(numbers)).all() and (abs(numbers) < 2**31).all()
    )
    return _small(numbers.astype(np.int64)) if whole else numbers


def _rounded_down(thresholds: Floats) -> NDArray[np.float32]:
    """Return the largest float32 numbers up to these."""
    with np.errstate(over="ignore"):
        near = thresholds.astype(np.float32)
    return np.where(near > thresholds, np.nextafter(near, np.float32(-np.inf)), near)
