"""ONNX files of robust mixtures: models, their averages and the decision rule in one graph.

The extra ``onnx`` is needed. Trees of the default models, of scikit-learn's forests, XGBoost and LightGBM are
written in float64. Other scikit-learn models need ``skl2onnx``.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.ensemble import ExtraTreesClassifier, RandomForestClassifier

from tailboost.classifiers.robust_mixture import RobustMixtureClassifier
from tailboost.core.array_types import Floats, Ints, Model
from tailboost.core.files import write_output
from tailboost.learners import HistBoostClassifier
from tailboost.learners.forest import TableForest
from tailboost.learners.linear import FURTHEST, KERNEL_WIDTH, TableLinear
from tailboost.learners.screened import ScreenedBoost
from tailboost.learners.table import ClassProbabilities
from tailboost.rows.judged import judged
from tailboost.rows.subgroups import HUMAN_REVIEW
from tailboost.selection.candidates import RulePart
from tailboost.selection.outputs import LEAST_PROBABILITY
from tailboost.selection.rule import tie_break
from tailboost.selection.threshold_rule import ThresholdRule

try:
    import onnx
    from onnx import TensorProto, helper, numpy_helper
except ImportError as error:
    raise ImportError(
        f"export_onnx needs onnx ({error}): pip install 'tailboost[onnx]'"
    ) from error

__all__ = ["export_onnx"]

OPSET = 17
TREES_OPSET = 3
INPUT = "X"
TREES = "ai.onnx.ml"


def export_onnx(clf: Any, path: str | os.PathLike[str]) -> None:
    """Write a fitted mixture as an ONNX file, whose graph predicts like `predict`.

    The graph takes ``X``, float32 of shape (n, d), with the columns of `fit` in their order and NaN for
    missing values. It returns ``label``, shape (n,), and the label distribution, shape (n, K). For a rule
    that may defer rows it also returns ``deferred``, shape (n,): the answers of `defers`. If the expected
    costs of two actions agree to six digits, the graph and `predict` may take different actions.

    Parameters
    ----------
    clf : RobustMixtureClassifier
        Fitted on numeric columns, with the default models of dense tables, forests of scikit-learn, XGBoost,
        LightGBM, or models that ``skl2onnx`` converts.
    path : path
        The file.

    Raises
    ------
    TypeError
        If ``clf`` has another type.
    ValueError
        If the rule needs groups, a column contains categories, or a model cannot be converted.
    """
    if not isinstance(clf, RobustMixtureClassifier):
        raise TypeError(f"clf must be a RobustMixtureClassifier, got {type(clf).__name__}")
    rule: Any = clf.rule_
    if judged(clf).reads_scores:
        raise ValueError(
            "clf has thresholds on a score, which is no model to convert: see rule_.to_python()"
        )
    if rule.groups is not None or judged(clf).weighs_groups:
        raise ValueError(
            "the rule of clf needs groups, given or inferred, which a graph of X does not have"
        )
    if clf.n_features_in_ is None:
        raise ValueError("clf has no columns")
    graph = _Graph(len(rule.classes))
    graph.node("Cast", [INPUT], "X64", to=TensorProto.DOUBLE)
    first = clf.ensemble_.base_models[0]
    if rule is first.rule:
        (name,) = clf.named_estimators_
        P = graph.probabilities(clf.named_estimators_[name], "model_0", name)
        total = graph.by_thresholds(first.answered, P)
        review = graph.by_thresholds(rule, P, HUMAN_REVIEW)
    else:
        logs: dict[str, str] = {}
        for name in rule.models:
            P = graph.probabilities(clf.named_estimators_[name], f"model_{len(logs)}", name)
            logs[name] = graph.op("Log", graph.op("Max", P, graph.constant(LEAST_PROBABILITY)))
        total = graph.constant(np.zeros((1, len(rule.classes))))
        review = graph.constant([0.0])
        for j, part in enumerate(rule.parts):
            z = graph.scores(part, logs)
            total = graph.op("Add", total, graph.distribution(part, z, tie_break(j)))
            if part.defers:
                review = graph.op("Add", review, graph.deferral(part, z))
    number = graph.op("ArgMax", total, axis=1, keepdims=0)
    labels = np.asarray(rule.classes)
    texts = labels.dtype.kind not in "iub"
    values = (
        [str(label).encode() for label in rule.classes] if texts else labels.astype(np.int64)
    )
    if texts:
        kind = TensorProto.STRING
    else:
        kind = TensorProto.INT64
    graph.inits.append(helper.make_tensor("classes", kind, [len(labels)], values))
    graph.node("Gather", ["classes", number], "label", axis=0)
    graph.node("Cast", [total], "distribution", to=TensorProto.FLOAT)
    if rule.defers:
        graph.node("GreaterOrEqual", [review, graph.constant(0.5)], "deferred")
    model = graph.model(clf.n_features_in_, kind, defers=rule.defers)
    onnx.checker.check_model(model)
    write_output(Path(path), model.SerializeToString())


class _Graph:
    """Nodes of a graph; each has one output."""

    def __init__(self, n_classes: int) -> None:
        self.K, self.nodes, self.inits = n_classes, [], []  # type: int, list[Any], list[Any]

    def node(
        self, kind: str, inputs: Sequence[str], output: str, domain: str = "", **attributes: Any
    ) -> str:
        """Add a node; return its output."""
        self.nodes.append(
            helper.make_node(kind, list(inputs), [output], domain=domain, **attributes)
        )
        return output

    def op(self, kind: str, *inputs: str, **attributes: Any) -> str:
        """Add a node with a new name for its output; return the name."""
        return self.node(kind, inputs, f"v{len(self.nodes)}", **attributes)

    def constant(self, value: Any, kind: Any = np.float64) -> str:
        """Add a constant; return its name."""
        name = f"c{len(self.inits)}"
        self.inits.append(numpy_helper.from_array(np.asarray(value, dtype=kind), name))
        return name

    def model(self, n_columns: int, kind: int, *, defers: bool) -> Any:
        """Return the ONNX model."""
        X = helper.make_tensor_value_info(INPUT, TensorProto.FLOAT, [None, n_columns])
        outputs = [
            helper.make_tensor_value_info("label", kind, [None]),
            helper.make_tensor_value_info("distribution", TensorProto.FLOAT, [None, self.K]),
        ]
        if defers:
            outputs.append(helper.make_tensor_value_info("deferred", TensorProto.BOOL, [None]))
        graph = helper.make_graph(self.nodes, "tailboost", [X], outputs, self.inits)
        opsets = [helper.make_opsetid("", OPSET), helper.make_opsetid(TREES, TREES_OPSET)]
        return helper.make_model(
            graph, opset_imports=opsets, ir_version=8, producer_name="tailboost"
        )

    # -- the rule ------------------------------------------------------------------------------------

    def by_thresholds(self, rule: ThresholdRule, P: str, action: str | None = None) -> str:
        """Return what thresholds on the probability of the second label answer.

        This is the label distribution, shape (n, K); with an action 1 for the rows that get it, shape (n,).
        """
        (band,) = rule.bands
        ends = self.constant([[lower for lower, _ in band[1:]]])
        second = self.op("Slice", P, *(self.constant([v], np.int64) for v in (1, 2, 1)))
        passed = self.op("Cast", self.op("GreaterOrEqual", second, ends), to=TensorProto.DOUBLE)
        axis = self.constant([1], np.int64)
        place = self.op("ReduceSum", passed, axis, keepdims=0)
        by_place: Any = [
            [float(answer == label) for label in rule.classes] for _, answer in band
        ]
        if action is not None:
            by_place = [float(answer == action) for _, answer in band]
        number = self.op("Cast", place, to=TensorProto.INT64)
        return self.op("Gather", self.constant(by_place), number, axis=0)

    def scores(self, part: RulePart, logs: Mapping[str, str]) -> str:
        """Return the weighted log-probabilities of one candidate, shape (n, K)."""
        z = self.constant([part.offsets])
        for name, weight in part.weights.items():
            z = self.op("Add", z, self.op("Mul", logs[name], self.constant(weight)))
        if not part.weights:  # a constant rule: repeat it for each row of X
            column = self.op("Slice", "X64", *(self.constant([v], np.int64) for v in (0, 1, 1)))
            missing = self.op("Cast", self.op("IsNaN", column), to=TensorProto.DOUBLE)
            z = self.op("Add", z, self.op("Mul", missing, self.constant(0.0)))
        return z

    def distribution(self, part: RulePart, z: str, more: float) -> str:
        """Return the weighted label distribution of one candidate, plus ``more`` to break ties, (n, K)."""
        if part.action_costs is None:
            drawn = self.op("Softmax", self.op("Mul", z, self.constant(part.power)), axis=1)
            return self.op("Mul", drawn, self.constant(part.weight + more))
        chosen = self.cheapest(np.asarray(part.action_costs[0])[:, : self.K], z)
        return self.op("Mul", chosen, self.constant(part.weight + more))

    def deferral(self, part: RulePart, z: str) -> str:
        """Return the weight with which one candidate defers each row, shape (n,)."""
        chosen = self.cheapest(np.asarray(part.action_costs)[0], z)
        deferral = self.op("Gather", chosen, self.constant(self.K, np.int64), axis=1)
        return self.op("Mul", deferral, self.constant(part.weight))

    def cheapest(self, prices: Floats, z: str) -> str:
        """Return 1 for the cheapest action and 0 for others, shape (n, actions)."""
        charged = self.op("MatMul", self.op("Exp", z), self.constant(prices))
        least = self.op("ArgMin", charged, axis=1, keepdims=1)
        chosen = self.op(
            "Equal", least, self.constant(np.arange(prices.shape[1])[None], np.int64)
        )
        return self.op("Cast", chosen, to=TensorProto.DOUBLE)

    # -- the models ----------------------------------------------------------------------------------

    def probabilities(self, model: Any, prefix: str, name: str) -> str:
        """Return the class probabilities of one model, float64 of shape (n, K)."""
        if isinstance(model, ClassProbabilities):
            total = self.constant(0.0)
            share = np.asarray(model.share)
            for inner, weight in zip(model.models, share / share.sum(axis=0), strict=True):
                P = self.probabilities(inner, prefix, name)
                logs = self.op("Log", self.op("Max", P, self.constant(LEAST_PROBABILITY)))
                total = self.op("Add", total, self.op("Mul", logs, self.constant(weight[None])))
            return self.op("Softmax", total, axis=1)
        if isinstance(model, HistBoostClassifier) and model.backend_ == "xgboost":
            _refuse_categories(model.table_, name)
            return self._boosted(model.booster_, np.arange(model.n_features_in_), name)
        if isinstance(model, ScreenedBoost) and model.model_.backend_ == "xgboost":
            _refuse_categories(model.table_, name)
            return self._boosted(model.model_.booster_, model.columns_, name)
        if isinstance(model, TableForest):
            _refuse_categories(model.table_, name)
            P = self._forest(model.batches_)
            if not model.prior:
                return P
            scaled = self.op("Mul", P, self.constant(1.0 - model.prior))
            return self.op(
                "Add", scaled, self.constant(model.prior * np.asarray(model.shares_)[None])
            )
        if isinstance(model, TableLinear) and len(model.classes_) == self.K:
            _refuse_categories(model.table_, name)
            return self._linear(model)
        if len(model.classes_) != self.K:
            raise ValueError(
                f"{name!r} has {len(model.classes_)} of {self.K} classes, which cannot be "
                "converted"
            )
        if isinstance(model, (RandomForestClassifier, ExtraTreesClassifier)):
            return self._forest([model])
        inner = getattr(model, "estimator", model)  # of a frozen one
        project = type(inner).__module__.partition(".")[0]
        if project == "xgboost":
            booster = inner.get_booster()
            last = booster.attr(
                "best_iteration"
            )  # after early stopping later trees do not predict
            return self._boosted(
                booster if last is None else booster[: int(last) + 1],
                np.arange(inner.n_features_in_),
                name,
            )
        if project == "lightgbm":
            return self._leaf_wise(inner.booster_.dump_model(), name)
        return self._converted(inner, prefix, name)

    def _trees(self, trees: Any, n_targets: int) -> str:
        """Add an ensemble of trees; return sums of leaf values, float64 of shape (n, n_targets)."""
        found = self.node(
            "TreeEnsembleRegressor",
            ["X64"],
            f"v{len(self.nodes)}",
            TREES,
            **_attributes(trees, n_targets),
        )
        return self.op("Cast", found, to=TensorProto.DOUBLE)

    def _boosted(self, booster: Any, columns: Ints, name: str) -> str:
        """Return the probabilities of a booster of XGBoost, fitted on these columns."""
        learner = json.loads(bytes(booster.save_raw("json")))["learner"]
        kind = learner["gradient_booster"]["name"]
        objective = learner["objective"]["name"]
        if kind != "gbtree" or objective not in (
            "binary:logistic",
            "multi:softprob",
            "multi:softmax",
        ):
            raise ValueError(
                f"{name!r} is a booster {kind!r} with objective {objective!r}, which cannot be "
                "converted"
            )
        found = learner["gradient_booster"]["model"]
        n_targets = max(found["tree_info"]) + 1
        trees = []
        for tree, target in zip(found["trees"], found["tree_info"], strict=True):
            if int(tree["tree_param"]["size_leaf_vector"]) > 1:
                raise ValueError(
                    f"{name!r} has trees with a leaf for all classes: set vector_leaves=False"
                )
            if any(tree.get("split_type", ())):
                raise ValueError(
                    f"{name!r} splits by categories, which ONNX trees do not support"
                )
            value = np.array(tree["split_conditions"], np.float32).astype(np.float64)
            trees.append(_Tree(
                "BRANCH_LT", tree["left_children"], tree["right_children"],
                columns[tree["split_indices"]], value, tree["default_left"], [target],
                value[:, None],
            ))  # fmt: skip
        # The initial score is the margin of a row minus the leaves of its trees.
        row = np.full((1, len(columns)), np.nan, dtype=np.float32)
        margins = booster.inplace_predict(
            row, predict_type="margin", missing=np.nan, validate_features=False
        )
        begin = np.ravel(margins).astype(np.float64)
        for tree in trees:
            begin[tree.targets] -= tree.values[tree.missing_leaf()]
        return self._softmax(
            self.op("Add", self._trees(trees, n_targets), self.constant(begin[None])), n_targets
        )

    def _softmax(self, margin: str, n_targets: int) -> str:
        if n_targets == 1:
            half = self.op("Div", margin, self.constant(2.0))
            margin = self.op("Concat", self.op("Neg", half), half, axis=1)
        return self.op("Softmax", margin, axis=1)

    def _leaf_wise(self, found: Mapping[str, Any], name: str) -> str:
        """Return the probabilities of a LightGBM booster, given by ``dump_model``."""
        objective = found["objective"]
        n_targets = found["num_tree_per_iteration"]
        if objective.split(" ")[0] not in ("binary", "multiclass") or found.get(
            "average_output"
        ):
            raise ValueError(
                f"{name!r} is a LightGBM with objective {objective!r}, which cannot be "
                "converted"
            )
        if n_targets == 1:
            slope = float(objective.partition("sigmoid:")[2] or 1.0)
        else:
            slope = 1.0
        trees = []
        for number, each in enumerate(found["tree_info"]):
            nodes = [each["tree_structure"]]
            place = 0
            while place < len(nodes):  # parents before children
                nodes += [
                    nodes[place][side]
                    for side in ("left_child", "right_child")
                    if side in nodes[place]
                ]
                place += 1
            at = {id(node): i for i, node in enumerate(nodes)}
            rows: list[
                tuple[Any, ...]
            ] = []  # children, column, threshold, whether missing values go left
            for node in nodes:
                if "split_feature" not in node:
                    rows.append((-1, -1, -1, 0.0, False))
                    continue
                kind = node["missing_type"]
                threshold = node["threshold"]
                if node["decision_type"] != "<=" or kind == "Zero":
                    raise ValueError(
                        f"{name!r} splits by categories, or treats 0 as missing, which cannot "
                        "be converted"
                    )
                # In columns without missing values in fit, a missing value counts as 0.
                if kind == "NaN":
                    missing = node["default_left"]
                else:
                    missing = threshold >= 0
                children = at[id(node["left_child"])], at[id(node["right_child"])]
                rows.append((*children, node["split_feature"], threshold, missing))
            values = np.array([[slope * node.get("leaf_value", 0.0)] for node in nodes])
            left, right, column, threshold, missing = zip(*rows, strict=True)
            target = [number % n_targets]
            trees.append(
                _Tree("BRANCH_LEQ", left, right, column, threshold, missing, target, values)
            )
        return self._softmax(self._trees(trees, n_targets), n_targets)

    def _forest(self, batches: Sequence[Any]) -> str:
        """Return the mean of the leaves of forests, for each class over the trees with the class."""
        trees = []
        seen = np.zeros(self.K)
        for batch in batches:
            # Class numbers; a frozen forest has all labels in their order.
            labels = np.asarray(batch.classes_)
            if len(labels) == self.K:
                classes = list(range(self.K))
            else:
                classes = labels.astype(int).tolist()
            seen[classes] += len(batch.estimators_)
            for each in batch.estimators_:
                tree = each.tree_
                trees.append(_Tree(
                    "BRANCH_LEQ", tree.children_left, tree.children_right, tree.feature,
                    tree.threshold, tree.missing_go_to_left, classes, tree.value[:, 0, :],
                ))  # fmt: skip
        P = self.op(
            "Mul", self._trees(trees, self.K), self.constant(1.0 / np.maximum(seen, 1.0)[None])
        )
        if seen.min() == seen.max():
            return P
        return self.op(
            "Div", P, self.op("ReduceSum", P, self.constant([1], np.int64), keepdims=1)
        )

    def _linear(self, model: TableLinear) -> str:
        """Return the probabilities of a linear or kernel model; a missing value counts as the mean."""
        values = self.op(
            "Div",
            self.op("Sub", "X64", self.constant(model.mean_)),
            self.constant(model.scale_),
        )
        present = self.op("Where", self.op("IsNaN", values), self.constant(0.0), values)
        clipped = self.op("Clip", present, self.constant(-FURTHEST), self.constant(FURTHEST))
        if model.landmarks:
            clipped = self._kernels(clipped, model)
        z = self.op("MatMul", clipped, self.constant(model.coef_.T))
        return self.op(
            "Softmax", self.op("Add", z, self.constant(model.intercept_[None])), axis=1
        )

    def _kernels(self, rows: str, model: TableLinear) -> str:
        """Return the Gaussian kernels of the landmarks."""
        marks = np.asarray(model.landmarks_, dtype=np.float64)
        own = self.op("ReduceSumSquare", rows, axes=[1], keepdims=1)
        products = self.op("MatMul", rows, self.constant(2.0 * marks.T))
        distance = self.op(
            "Sub", self.op("Add", own, self.constant((marks**2).sum(axis=1)[None])), products
        )
        return self.op(
            "Exp", self.op("Mul", distance, self.constant(-KERNEL_WIDTH / marks.shape[1]))
        )

    def _converted(self, model: Model, prefix: str, name: str) -> str:
        """Return the probabilities of a model that ``skl2onnx`` converts."""
        try:
            import skl2onnx

            X = skl2onnx.common.data_types.FloatTensorType([None, model.n_features_in_])
            found = skl2onnx.to_onnx(
                model,
                initial_types=[(INPUT, X)],
                options={id(model): {"zipmap": False}},
                target_opset={"": OPSET, TREES: TREES_OPSET},
            )
        except ImportError as failure:
            raise ValueError(
                f"{name!r} is a {type(model).__name__}, which needs a converter: {failure}"
            ) from None
        except Exception as failure:  # converters raise exceptions of any type
            raise ValueError(
                f"{name!r} cannot be converted: {type(failure).__name__}: {str(failure)[:200]}"
            ) from failure
        graph = onnx.compose.add_prefix_graph(found.graph, f"{prefix}_")
        for node in graph.node:
            node.input[:] = [
                INPUT if each == f"{prefix}_{INPUT}" else each for each in node.input
            ]
        self.nodes += list(graph.node)
        self.inits += list(graph.initializer)
        return self.op("Cast", graph.output[1].name, to=TensorProto.DOUBLE)


@dataclass(frozen=True)
class _Tree:
    """One tree by node: its splits, where leaves have negative children, and values by target."""

    mode: str  # the comparison
    left: Any
    right: Any
    column: Any
    threshold: Any
    missing_left: Any
    targets: list[int]
    values: Floats

    def missing_leaf(self) -> int:
        """Return the leaf of a row without any value."""
        node = 0
        while self.left[node] >= 0:
            node = int(self.left[node] if self.missing_left[node] else self.right[node])
        return node


def _attributes(trees: Sequence[_Tree], n_targets: int) -> dict[str, Any]:
    """Return the trees as an ONNX node has them."""
    columns: dict[str, Any] = {}
    for t, tree in enumerate(trees):
        leaf = np.asarray(tree.left) < 0
        leaves = np.flatnonzero(leaf)
        of_tree = {
            "nodes_treeids": np.full(len(leaf), t),
            "nodes_nodeids": np.arange(len(leaf)),
            "nodes_featureids": np.where(leaf, 0, tree.column),
            "nodes_modes": np.where(leaf, "LEAF", tree.mode),
            "nodes_truenodeids": np.where(leaf, 0, tree.left),
            "nodes_falsenodeids": np.where(leaf, 0, tree.right),
            "nodes_missing_value_tracks_true": np.where(leaf, 0, tree.missing_left),
            "nodes_values_as_tensor": np.where(leaf, 0.0, tree.threshold),
            "target_treeids": np.full(len(leaves) * len(tree.targets), t),
            "target_nodeids": np.repeat(leaves, len(tree.targets)),
            "target_ids": np.tile(tree.targets, len(leaves)),
            "target_weights_as_tensor": tree.values[leaf].ravel(),
        }
        for name, values in of_tree.items():
            columns.setdefault(name, []).extend(values.tolist())
    for name in ("nodes_values_as_tensor", "target_weights_as_tensor"):
        columns[name] = numpy_helper.from_array(np.array(columns[name]), name)
    return columns | {
        "n_targets": n_targets, "aggregate_function": "SUM", "post_transform": "NONE"
    }  # fmt: skip


def _refuse_categories(reader: Any, name: str) -> None:
    if "c" in reader.feature_types:
        place = reader.feature_types.index("c")
        raise ValueError(
            f"{name!r} reads column {place} (from 0) as categories, which ONNX trees do not "
            "support"
        )
