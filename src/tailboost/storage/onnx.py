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
from tailboost.learners.linear import CLIPPED_AT, KERNEL_WIDTH, TableLinear
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
    score_model = clf.ensemble_.base_models[0]
    if rule is score_model.rule:
        (name,) = clf.named_estimators_
        P = graph.probabilities(clf.named_estimators_[name], "model_0", name)
        distribution = graph.by_thresholds(score_model.answered, P)
        deferral = graph.by_thresholds(rule, P, HUMAN_REVIEW)
    else:
        distribution, deferral = graph.mixture(rule, clf.named_estimators_)
    number = graph.op("ArgMax", distribution, axis=1, keepdims=0)
    labels = np.asarray(rule.classes)
    if labels.dtype.kind in "iub":
        kind = TensorProto.INT64
        values: Any = labels.astype(np.int64)
    else:
        kind = TensorProto.STRING
        values = [str(label).encode() for label in rule.classes]
    graph.inits.append(helper.make_tensor("classes", kind, [len(labels)], values))
    graph.node("Gather", ["classes", number], "label", axis=0)
    graph.node("Cast", [distribution], "distribution", to=TensorProto.FLOAT)
    if rule.defers:
        graph.node("GreaterOrEqual", [deferral, graph.constant(0.5)], "deferred")
    model = graph.model(clf.n_features_in_, kind, defers=rule.defers)
    onnx.checker.check_model(model)
    write_output(Path(path), model.SerializeToString())


class _Graph:
    """Nodes of a graph; each has one output.

    Methods add nodes and return the name of the output of the last one. Parameters and results of type str
    are such names.
    """

    def __init__(self, n_classes: int) -> None:
        self.K = n_classes
        self.nodes: list[Any] = []
        self.inits: list[Any] = []  # constants

    def node(
        self, kind: str, inputs: Sequence[str], output: str, domain: str = "", **attributes: Any
    ) -> str:
        """Add a node; return its output."""
        node = helper.make_node(kind, list(inputs), [output], domain=domain, **attributes)
        self.nodes.append(node)
        return output

    def op(self, kind: str, *inputs: str, **attributes: Any) -> str:
        """Add a node with a new name for its output; return the name."""
        return self.node(kind, inputs, f"v{len(self.nodes)}", **attributes)

    def constant(self, value: Any, kind: Any = np.float64) -> str:
        """Add a constant; return its name."""
        name = f"c{len(self.inits)}"
        self.inits.append(numpy_helper.from_array(np.asarray(value, dtype=kind), name))
        return name

    def times(self, factor: str, number: Any) -> str:
        """Return the product with a constant number or array."""
        return self.op("Mul", factor, self.constant(number))

    def double(self, value: str) -> str:
        """Return a value as float64."""
        return self.op("Cast", value, to=TensorProto.DOUBLE)

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

    def mixture(self, rule: Any, models: Mapping[str, Any]) -> tuple[str, str]:
        """Return the label distribution of a mixture, (n, K), and the weight with which it defers, (n,)."""
        logs: dict[str, str] = {}
        for name in rule.models:
            logs[name] = self._log(self.probabilities(models[name], f"model_{len(logs)}", name))
        distribution = self.constant(np.zeros((1, len(rule.classes))))
        deferral = self.constant([0.0])
        for j, part in enumerate(rule.parts):
            z = self.scores(part, logs)
            answers = self.distribution(part, z, tie_break(j))
            distribution = self.op("Add", distribution, answers)
            if part.defers:
                deferral = self.op("Add", deferral, self.deferral(part, z))
        return distribution, deferral

    def _log(self, P: str) -> str:
        """Return the logarithms of probabilities, which are at least `LEAST_PROBABILITY`."""
        return self.op("Log", self.op("Max", P, self.constant(LEAST_PROBABILITY)))

    def _column(self, table: str, j: int) -> str:
        """Return a column of a table, shape (n, 1)."""
        start, stop, axis = (self.constant([v], np.int64) for v in (j, j + 1, 1))
        return self.op("Slice", table, start, stop, axis)

    def by_thresholds(self, rule: ThresholdRule, P: str, action: str | None = None) -> str:
        """Return what thresholds on the probability of the second label answer.

        This is the label distribution, shape (n, K); with an action 1 for the rows that get it, shape (n,).
        """
        (bands,) = rule.bands
        thresholds = self.constant([[lower for lower, _ in bands[1:]]])
        reached = self.double(self.op("GreaterOrEqual", self._column(P, 1), thresholds))
        axis = self.constant([1], np.int64)
        number = self.op("ReduceSum", reached, axis, keepdims=0)
        number = self.op("Cast", number, to=TensorProto.INT64)
        answers = np.array([answer for _, answer in bands], dtype=object)
        if action is None:
            of_bands = answers[:, None] == np.array(rule.classes, dtype=object)
        else:
            of_bands = answers == action
        return self.op("Gather", self.constant(of_bands), number, axis=0)

    def scores(self, part: RulePart, logs: Mapping[str, str]) -> str:
        """Return the weighted log-probabilities of one candidate, shape (n, K)."""
        z = self.constant([part.offsets])
        for name, weight in part.weights.items():
            z = self.op("Add", z, self.times(logs[name], weight))
        if not part.weights:  # a constant rule: repeat it for each row of X
            missing = self.double(self.op("IsNaN", self._column("X64", 0)))
            z = self.op("Add", z, self.times(missing, 0.0))
        return z

    def distribution(self, part: RulePart, z: str, extra_weight: float) -> str:
        """Return the label distribution of one candidate times its weight, shape (n, K).

        ``extra_weight`` is added to the weight, and breaks ties.
        """
        if part.action_costs is None:
            P = self.op("Softmax", self.times(z, part.power), axis=1)
        else:
            P = self.cheapest(np.asarray(part.action_costs[0])[:, : self.K], z)
        return self.times(P, part.weight + extra_weight)

    def deferral(self, part: RulePart, z: str) -> str:
        """Return the weight with which one candidate defers each row, shape (n,)."""
        actions = self.cheapest(np.asarray(part.action_costs)[0], z)
        deferral = self.op("Gather", actions, self.constant(self.K, np.int64), axis=1)
        return self.times(deferral, part.weight)

    def cheapest(self, action_costs: Floats, z: str) -> str:
        """Return 1 for the cheapest action and 0 for others, shape (n, actions)."""
        expected_costs = self.op("MatMul", self.op("Exp", z), self.constant(action_costs))
        cheapest = self.op("ArgMin", expected_costs, axis=1, keepdims=1)
        actions = self.constant(np.arange(action_costs.shape[1])[None], np.int64)
        return self.double(self.op("Equal", cheapest, actions))

    # -- the models ----------------------------------------------------------------------------------

    def probabilities(self, model: Any, prefix: str, name: str) -> str:
        """Return the class probabilities of one model, float64 of shape (n, K).

        Messages call the model ``name``. Names of the nodes of a converted model begin with ``prefix``.
        """
        if isinstance(model, ClassProbabilities):
            return self._averaged(model, prefix, name)
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
            prior = model.prior * np.asarray(model.shares_)[None]
            return self.op("Add", self.times(P, 1.0 - model.prior), self.constant(prior))
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
            last = booster.attr("best_iteration")
            if last is not None:  # after early stopping later trees do not predict
                booster = booster[: int(last) + 1]
            return self._boosted(booster, np.arange(inner.n_features_in_), name)
        if project == "lightgbm":
            return self._leaf_wise(inner.booster_.dump_model(), name)
        return self._converted(inner, prefix, name)

    def _averaged(self, average: ClassProbabilities, prefix: str, name: str) -> str:
        """Return the probabilities of an average of models, by their weighted logarithms for each class."""
        logs = self.constant(0.0)
        share = np.asarray(average.share)
        for model, weight in zip(average.models, share / share.sum(axis=0), strict=True):
            log = self._log(self.probabilities(model, prefix, name))
            logs = self.op("Add", logs, self.times(log, weight[None]))
        return self.op("Softmax", logs, axis=1)

    def _trees(self, trees: Any, n_targets: int) -> str:
        """Add an ensemble of trees; return sums of leaf values, float64 of shape (n, n_targets)."""
        attributes = _attributes(trees, n_targets)
        output = f"v{len(self.nodes)}"
        self.node("TreeEnsembleRegressor", ["X64"], output, TREES, **attributes)
        return self.double(output)

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
        model = learner["gradient_booster"]["model"]
        n_targets = max(model["tree_info"]) + 1
        trees = []
        for tree, target in zip(model["trees"], model["tree_info"], strict=True):
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
        initial = np.ravel(margins).astype(np.float64)
        for tree in trees:
            initial[tree.targets] -= tree.values[tree.missing_leaf()]
        margin = self.op("Add", self._trees(trees, n_targets), self.constant(initial[None]))
        return self._softmax(margin, n_targets)

    def _softmax(self, margin: str, n_targets: int) -> str:
        """Return class probabilities from margins, shape (n, n_targets); one margin is for two classes."""
        if n_targets == 1:
            half = self.times(margin, 0.5)
            margin = self.op("Concat", self.op("Neg", half), half, axis=1)
        return self.op("Softmax", margin, axis=1)

    def _leaf_wise(self, dump: Mapping[str, Any], name: str) -> str:
        """Return the probabilities of a LightGBM booster, given by ``dump_model``."""
        objective = dump["objective"]
        n_targets = dump["num_tree_per_iteration"]
        is_known = objective.split(" ")[0] in ("binary", "multiclass")
        if not is_known or dump.get("average_output"):
            raise ValueError(
                f"{name!r} is a LightGBM with objective {objective!r}, which cannot be "
                "converted"
            )
        slope = 1.0
        if n_targets == 1:
            _, _, sigmoid = objective.partition("sigmoid:")
            slope = float(sigmoid or 1.0)
        trees = []
        for number, tree in enumerate(dump["tree_info"]):
            target = number % n_targets
            trees.append(_leaf_wise_tree(tree["tree_structure"], target, slope, name))
        return self._softmax(self._trees(trees, n_targets), n_targets)

    def _forest(self, batches: Sequence[Any]) -> str:
        """Return the mean of the leaves of forests, for each class over the trees with the class."""
        trees = []
        n_trees = np.zeros(self.K)  # with each class
        for batch in batches:
            # Class numbers; a frozen forest has all labels in their order.
            labels = np.asarray(batch.classes_)
            if len(labels) == self.K:
                classes = list(range(self.K))
            else:
                classes = labels.astype(int).tolist()
            n_trees[classes] += len(batch.estimators_)
            for estimator in batch.estimators_:
                tree = estimator.tree_
                trees.append(_Tree(
                    "BRANCH_LEQ", tree.children_left, tree.children_right, tree.feature,
                    tree.threshold, tree.missing_go_to_left, classes, tree.value[:, 0, :],
                ))  # fmt: skip
        sums = self._trees(trees, self.K)
        means = self.times(sums, 1.0 / np.maximum(n_trees, 1.0)[None])
        if n_trees.min() == n_trees.max():
            return means
        axis = self.constant([1], np.int64)
        return self.op("Div", means, self.op("ReduceSum", means, axis, keepdims=1))

    def _linear(self, model: TableLinear) -> str:
        """Return the probabilities of a linear or kernel model; a missing value counts as the mean."""
        centred = self.op("Sub", "X64", self.constant(model.mean_))
        rows = self.op("Div", centred, self.constant(model.scale_))
        rows = self.op("Where", self.op("IsNaN", rows), self.constant(0.0), rows)
        rows = self.op("Clip", rows, self.constant(-CLIPPED_AT), self.constant(CLIPPED_AT))
        if model.landmarks:
            rows = self._kernels(rows, model)
        z = self.op("MatMul", rows, self.constant(model.coef_.T))
        z = self.op("Add", z, self.constant(model.intercept_[None]))
        return self.op("Softmax", z, axis=1)

    def _kernels(self, rows: str, model: TableLinear) -> str:
        """Return the Gaussian kernels of the landmarks, shape (n, landmarks)."""
        landmarks = np.asarray(model.landmarks_, dtype=np.float64)
        squares = self.op("ReduceSumSquare", rows, axes=[1], keepdims=1)
        squares = self.op("Add", squares, self.constant((landmarks**2).sum(axis=1)[None]))
        products = self.op("MatMul", rows, self.constant(2.0 * landmarks.T))
        distance = self.op("Sub", squares, products)
        return self.op("Exp", self.times(distance, -KERNEL_WIDTH / landmarks.shape[1]))

    def _converted(self, model: Model, prefix: str, name: str) -> str:
        """Return the probabilities of a model that ``skl2onnx`` converts."""
        try:
            import skl2onnx

            X = skl2onnx.common.data_types.FloatTensorType([None, model.n_features_in_])
            converted = skl2onnx.to_onnx(
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
        graph = onnx.compose.add_prefix_graph(converted.graph, f"{prefix}_")
        for node in graph.node:
            for place, tensor in enumerate(node.input):
                if tensor == f"{prefix}_{INPUT}":
                    node.input[place] = INPUT
        self.nodes += list(graph.node)
        self.inits += list(graph.initializer)
        return self.double(graph.output[1].name)


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
            children = self.left if self.missing_left[node] else self.right
            node = int(children[node])
        return node


def _leaf_wise_tree(root: dict[str, Any], target: int, slope: float, name: str) -> _Tree:
    """Return a tree of LightGBM, whose nodes are dicts; leaf values are multiplied by ``slope``.

    Raise ValueError, with the name of the model, for a split that ONNX trees do not have.
    """
    nodes = [root]
    for node in nodes:  # grows: children come after their parents
        nodes += [node[side] for side in ("left_child", "right_child") if side in node]
    number = {id(node): i for i, node in enumerate(nodes)}
    splits: list[tuple[Any, ...]] = []
    for node in nodes:
        if "split_feature" not in node:
            splits.append((-1, -1, -1, 0.0, False))
            continue
        if node["decision_type"] != "<=" or node["missing_type"] == "Zero":
            raise ValueError(
                f"{name!r} splits by categories, or treats 0 as missing, which cannot "
                "be converted"
            )
        children = [number[id(node[side])] for side in ("left_child", "right_child")]
        # In columns without missing values in fit, a missing value counts as 0.
        goes_left = node["threshold"] >= 0
        if node["missing_type"] == "NaN":
            goes_left = node["default_left"]
        splits.append((*children, node["split_feature"], node["threshold"], goes_left))
    left, right, column, threshold, missing_left = zip(*splits, strict=True)
    values = np.array([[slope * node.get("leaf_value", 0.0)] for node in nodes])
    return _Tree("BRANCH_LEQ", left, right, column, threshold, missing_left, [target], values)


def _attributes(trees: Sequence[_Tree], n_targets: int) -> dict[str, Any]:
    """Return the attributes of an ONNX node of trees: columns over the nodes and leaves of all trees."""
    attributes: dict[str, Any] = {}
    for t, tree in enumerate(trees):
        is_leaf = np.asarray(tree.left) < 0
        leaves = np.flatnonzero(is_leaf)
        of_tree = {
            "nodes_treeids": np.full(len(is_leaf), t),
            "nodes_nodeids": np.arange(len(is_leaf)),
            "nodes_featureids": np.where(is_leaf, 0, tree.column),
            "nodes_modes": np.where(is_leaf, "LEAF", tree.mode),
            "nodes_truenodeids": np.where(is_leaf, 0, tree.left),
            "nodes_falsenodeids": np.where(is_leaf, 0, tree.right),
            "nodes_missing_value_tracks_true": np.where(is_leaf, 0, tree.missing_left),
            "nodes_values_as_tensor": np.where(is_leaf, 0.0, tree.threshold),
            "target_treeids": np.full(len(leaves) * len(tree.targets), t),
            "target_nodeids": np.repeat(leaves, len(tree.targets)),
            "target_ids": np.tile(tree.targets, len(leaves)),
            "target_weights_as_tensor": tree.values[is_leaf].ravel(),
        }
        for name, values in of_tree.items():
            attributes.setdefault(name, []).extend(values.tolist())
    for name in ("nodes_values_as_tensor", "target_weights_as_tensor"):
        attributes[name] = numpy_helper.from_array(np.array(attributes[name]), name)
    targets = {"n_targets": n_targets, "aggregate_function": "SUM", "post_transform": "NONE"}
    return attributes | targets


def _refuse_categories(reader: Any, name: str) -> None:
    """Raise if the table reader of a model passes a column to its trees as categories."""
    if "c" in reader.feature_types:
        place = reader.feature_types.index("c")
        raise ValueError(
            f"{name!r} reads column {place} (from 0) as categories, which ONNX trees do not "
            "support"
        )
