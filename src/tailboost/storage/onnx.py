"""ONNX files of robust mixtures: models, their averages and the decision rule in one graph.

The extra ``onnx`` is needed. Trees of the default models, of scikit-learn's forests, XGBoost and LightGBM are
written in float64. Other scikit-learn models need ``skl2onnx``.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.ensemble import ExtraTreesClassifier, RandomForestClassifier

from tailboost.classifiers.robust_mixture import RobustMixtureClassifier
from tailboost.core.array_types import FilePath, Floats, Ints, Model
from tailboost.core.files import write_output
from tailboost.core.spelling import a_type_of
from tailboost.learners import HistBoostClassifier
from tailboost.learners.forest import TableForest
from tailboost.learners.linear import CLIPPED_AT, KERNEL_WIDTH, TableLinear
from tailboost.learners.one_hot import OneHotReader
from tailboost.learners.screened import ScreenedBoost
from tailboost.learners.table import ClassProbabilities
from tailboost.rows.judged import judged
from tailboost.rows.subgroups import HUMAN_REVIEW
from tailboost.selection.outputs import LEAST_PROBABILITY
from tailboost.selection.rule import RulePart, tie_break
from tailboost.selection.threshold_rule import ThresholdRule

try:
    import onnx
    from onnx import TensorProto, helper, numpy_helper
except ImportError as error:
    raise ImportError(
        f"export_onnx needs onnx ({error}): pip install 'tailboost[onnx]'"
    ) from error

__all__ = ["export_onnx"]

WITHOUT_MODEL = "its to_sql() and to_python() write it, save_rule and load_rule keep it"
WITHOUT_ONNX = (
    "save_model and load_model keep model and rule for Python, and rule_.to_sql() writes the "
    "rule over columns of the model's probabilities"
)
OPSET = 17
TREES_OPSET = 3
INPUT = "X"
TREES = "ai.onnx.ml"  # the domain of operators for trees
# Objectives of boosters of XGBoost with probabilities by a softmax of the margins.
XGBOOST_OBJECTIVES = ("binary:logistic", "multi:softprob", "multi:softmax")


def export_onnx(clf: Any, path: FilePath) -> None:
    """Write a fitted mixture as an ONNX file with a graph that predicts like `predict`.

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
        raise TypeError(
            f"clf must be a RobustMixtureClassifier, got {type(clf).__name__}. A rule alone "
            f"has no model to convert: {WITHOUT_MODEL}"
        )
    rule = clf.rule_  # thresholds on one probability, or a mixture
    if judged(clf).reads_scores:
        raise ValueError(
            f"clf has thresholds on a score, which is no model to convert: {WITHOUT_MODEL}"
        )
    if rule.groups is not None or judged(clf).weighs_groups:
        raise ValueError(
            "the rule of clf needs groups, given or inferred, which a graph of X does not "
            f"have: {WITHOUT_ONNX}"
        )
    if clf.n_features_in_ is None:
        raise ValueError("clf has no columns")
    graph = _Graph(len(rule.classes))
    graph.node("Cast", [INPUT], "X64", to=TensorProto.DOUBLE)
    candidate = clf.ensemble_.base_models[0]
    try:
        if rule is candidate.rule:  # a single candidate, with thresholds
            (name,) = clf.named_estimators_
            P = graph.probabilities(clf.named_estimators_[name], "model_0", name)
            distribution, deferral = graph.thresholds(rule, candidate.answered, P)
        else:
            distribution, deferral = graph.mixture(rule, clf.named_estimators_)
    except ValueError as failure:  # of a model that has no graph
        raise ValueError(f"{failure}. Without ONNX, {WITHOUT_ONNX}") from failure
    label_type = graph.add_labels(rule.classes, distribution)
    graph.node("Cast", [distribution], "distribution", to=TensorProto.FLOAT)
    if rule.defers:
        graph.node("GreaterOrEqual", [deferral, graph.constant(0.5)], "deferred")
    onnx_model = graph.finished(clf.n_features_in_, label_type, defers=rule.defers)
    onnx.checker.check_model(onnx_model)
    write_output(Path(path), onnx_model.SerializeToString())


class _Graph:
    """Nodes of a graph; each has one output.

    Methods add nodes and return the name of the output of the last one. A parameter or result of type str is
    the name of an output or a constant, unless its description says otherwise. The shapes of docstrings are
    the shapes of these outputs, for n rows and K classes.
    """

    def __init__(self, n_classes: int) -> None:
        self.K = n_classes
        self.nodes: list[Any] = []
        self.inits: list[Any] = []  # constants

    def node(
        self,
        operator: str,
        inputs: Sequence[str],
        output: str,
        domain: str = "",
        **attributes: Any,
    ) -> str:
        """Add a node for an operator of ONNX; return its output."""
        node = helper.make_node(operator, list(inputs), [output], domain=domain, **attributes)
        self.nodes.append(node)
        return output

    def op(self, operator: str, *inputs: str, **attributes: Any) -> str:
        """Add a node with a new name for its output; return the name."""
        return self.node(operator, inputs, f"v{len(self.nodes)}", **attributes)

    def constant(self, value: Any, dtype: Any = np.float64) -> str:
        """Add a constant; return its name."""
        name = f"c{len(self.inits)}"
        self.inits.append(numpy_helper.from_array(np.asarray(value, dtype=dtype), name))
        return name

    def times(self, factor: str, number: Any) -> str:
        """Return the product with a constant number or array."""
        return self.op("Mul", factor, self.constant(number))

    def double(self, value: str) -> str:
        """Return a value as float64."""
        return self.op("Cast", value, to=TensorProto.DOUBLE)

    def add_labels(self, classes: Sequence[Any], distribution: str) -> int:
        """Add the output "label": the label with the largest probability of each row, shape (n,).

        Return the ONNX type of the labels: whole numbers, and otherwise text.
        """
        labels = np.asarray(classes)
        if labels.dtype.kind in "iub":
            label_type = TensorProto.INT64
            values: Any = labels.astype(np.int64)
        else:
            label_type = TensorProto.STRING
            values = [str(label).encode() for label in classes]
        class_number = self.op("ArgMax", distribution, axis=1, keepdims=0)
        self.inits.append(helper.make_tensor("classes", label_type, [len(labels)], values))
        self.node("Gather", ["classes", class_number], "label", axis=0)
        return int(label_type)

    def finished(self, n_columns: int, label_type: int, *, defers: bool) -> Any:
        """Return the ONNX model of all nodes, for any number of rows."""
        X = helper.make_tensor_value_info(INPUT, TensorProto.FLOAT, [None, n_columns])
        outputs = [
            helper.make_tensor_value_info("label", label_type, [None]),
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
        logs: dict[str, str] = {}  # log-probabilities by the name of the model
        for name in rule.models:
            logs[name] = self._log(self.probabilities(models[name], f"model_{len(logs)}", name))
        distribution = self.constant(np.zeros((1, self.K)))
        deferral = self.constant([0.0])
        for j, part in enumerate(rule.parts):
            scores = self.scores(part, logs)
            answers = self.distribution(part, scores, tie_break(j))
            distribution = self.op("Add", distribution, answers)
            if part.defers:
                deferral = self.op("Add", deferral, self.deferral(part, scores))
        return distribution, deferral

    def _log(self, P: str) -> str:
        """Return the logarithms of probabilities, which are at least `LEAST_PROBABILITY`."""
        return self.op("Log", self.op("Max", P, self.constant(LEAST_PROBABILITY)))

    def _column(self, table: str, j: int) -> str:
        """Return column j of a table, shape (n, 1)."""
        start = self.constant([j], np.int64)
        stop = self.constant([j + 1], np.int64)
        columns = self.constant([1], np.int64)  # the axis of the slice
        return self.op("Slice", table, start, stop, columns)

    def thresholds(
        self, rule: ThresholdRule, answered: ThresholdRule, P: str
    ) -> tuple[str, str]:
        """Return the label distribution of a threshold rule, (n, K), and 1 for the rows it defers, (n,).

        ``answered`` is the rule with a label for deferred rows too. P are the class probabilities, (n, K).
        """
        labels = np.array(rule.classes, dtype=object)
        distributions = [labels == answer for _, answer in answered.bands[0]]
        deferrals = [answer == HUMAN_REVIEW for _, answer in rule.bands[0]]
        return self._of_bands(answered, P, distributions), self._of_bands(rule, P, deferrals)

    def _of_bands(self, rule: ThresholdRule, P: str, by_band: Sequence[Any]) -> str:
        """Return the value of each row in ``by_band``, by the band of the second label's probability."""
        (bands,) = rule.bands
        thresholds = self.constant([[lower for lower, _ in bands[1:]]])
        reached = self.double(self.op("GreaterOrEqual", self._column(P, 1), thresholds))
        bands_axis = self.constant([1], np.int64)
        n_reached = self.op("ReduceSum", reached, bands_axis, keepdims=0)
        band = self.op("Cast", n_reached, to=TensorProto.INT64)
        return self.op("Gather", self.constant(by_band), band, axis=0)

    def scores(self, part: RulePart, logs: Mapping[str, str]) -> str:
        """Return the weighted log-probabilities of one candidate, shape (n, K)."""
        scores = self.constant([part.offsets])
        for name, weight in part.weights.items():
            scores = self.op("Add", scores, self.times(logs[name], weight))
        if not part.weights:  # a constant rule: repeat it for each row of X
            missing = self.double(self.op("IsNaN", self._column("X64", 0)))
            scores = self.op("Add", scores, self.times(missing, 0.0))
        return scores

    def distribution(self, part: RulePart, scores: str, extra_weight: float) -> str:
        """Return the label distribution of one candidate times its weight, shape (n, K).

        ``extra_weight`` is added to the weight, and breaks ties.
        """
        if part.action_costs is None:
            P = self.op("Softmax", self.times(scores, part.power), axis=1)
        else:
            costs_of_labels = np.asarray(part.action_costs[0])[:, : self.K]  # no deferral
            P = self.cheapest(costs_of_labels, scores)
        return self.times(P, part.weight + extra_weight)

    def deferral(self, part: RulePart, scores: str) -> str:
        """Return the weight with which one candidate defers each row, shape (n,)."""
        actions = self.cheapest(np.asarray(part.action_costs)[0], scores)
        deferral = self.op("Gather", actions, self.constant(self.K, np.int64), axis=1)
        return self.times(deferral, part.weight)

    def cheapest(self, action_costs: Floats, scores: str) -> str:
        """Return 1 for the cheapest action and 0 for others, shape (n, actions).

        ``action_costs`` has the shape (K, actions).
        """
        expected_costs = self.op("MatMul", self.op("Exp", scores), self.constant(action_costs))
        cheapest = self.op("ArgMin", expected_costs, axis=1, keepdims=1)
        n_actions = action_costs.shape[1]
        actions = self.constant([np.arange(n_actions)], np.int64)
        return self.double(self.op("Equal", cheapest, actions))

    # -- the models ----------------------------------------------------------------------------------

    def probabilities(self, model: Any, prefix: str, name: str) -> str:
        """Return the class probabilities of one model, float64 of shape (n, K).

        Messages call the model ``name``. Names of nodes by ``skl2onnx`` begin with ``prefix``, which differs
        between models.
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
            prior = self.constant([model.prior * np.asarray(model.shares_)])
            return self.op("Add", self.times(P, 1.0 - model.prior), prior)
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
        thawed = getattr(model, "estimator", model)  # the model in a FrozenEstimator
        project = type(thawed).__module__.partition(".")[0]
        if project == "xgboost":
            booster = thawed.get_booster()
            last = booster.attr("best_iteration")
            if last is not None:  # after early stopping later trees do not predict
                booster = booster[: int(last) + 1]
            return self._boosted(booster, np.arange(thawed.n_features_in_), name)
        if project == "lightgbm":
            return self._lightgbm(thawed.booster_.dump_model(), name)
        return self._converted(thawed, prefix, name)

    def _averaged(self, average: ClassProbabilities, prefix: str, name: str) -> str:
        """Return the probabilities of an average of models, by their weighted logarithms for each class."""
        mean = self.constant(0.0)  # of log-probabilities
        share = np.asarray(average.share)  # shape (models, K)
        for model, weights in zip(average.models, share / share.sum(axis=0), strict=True):
            log = self._log(self.probabilities(model, prefix, name))
            mean = self.op("Add", mean, self.times(log, [weights]))
        return self.op("Softmax", mean, axis=1)

    def _trees(self, trees: Sequence[_Tree], n_targets: int) -> str:
        """Add an ensemble of trees; return sums of leaf values, float64 of shape (n, n_targets)."""
        attributes = _attributes(trees, n_targets)
        output = f"v{len(self.nodes)}"
        self.node("TreeEnsembleRegressor", ["X64"], output, TREES, **attributes)
        return self.double(output)

    def _boosted(self, booster: Any, columns: Ints, name: str) -> str:
        """Return the probabilities of a booster of XGBoost, fitted on these columns of X."""
        learner = json.loads(bytes(booster.save_raw("json")))["learner"]
        kind = learner["gradient_booster"]["name"]
        objective = learner["objective"]["name"]
        if kind != "gbtree" or objective not in XGBOOST_OBJECTIVES:
            raise ValueError(
                f"{name!r} is a booster {kind!r} with objective {objective!r}, which cannot be "
                "converted"
            )
        model = learner["gradient_booster"]["model"]
        target_of_trees = model["tree_info"]
        trees = [
            _xgboost_tree(tree, target, columns, name)
            for tree, target in zip(model["trees"], target_of_trees, strict=True)
        ]
        # The initial score is the margin of any row minus the leaves of its trees, here of an empty row.
        empty_row = np.full((1, len(columns)), np.nan, dtype=np.float32)
        margin_of_row = booster.inplace_predict(
            empty_row, predict_type="margin", missing=np.nan, validate_features=False
        )
        initial = np.ravel(margin_of_row).astype(np.float64)  # by target
        for tree in trees:
            initial[tree.targets] -= tree.values[tree.missing_leaf()]
        n_targets = max(target_of_trees) + 1
        margins = self.op("Add", self._trees(trees, n_targets), self.constant([initial]))
        return self._softmax(margins, n_targets)

    def _softmax(self, margins: str, n_targets: int) -> str:
        """Return class probabilities from margins, shape (n, n_targets); one margin is for two classes."""
        if n_targets == 1:
            half = self.times(margins, 0.5)
            margins = self.op("Concat", self.op("Neg", half), half, axis=1)
        return self.op("Softmax", margins, axis=1)

    def _lightgbm(self, dump: Mapping[str, Any], name: str) -> str:
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
            # The probability of "binary sigmoid:2" is the logistic function of twice the margin.
            _, _, sigmoid = objective.partition("sigmoid:")
            slope = float(sigmoid or 1.0)
        trees = []
        for number, tree in enumerate(dump["tree_info"]):
            target = number % n_targets  # each iteration fits one tree for each class in turn
            trees.append(_lightgbm_tree(tree["tree_structure"], target, slope, name))
        margins = self._trees(trees, n_targets)
        return self._softmax(margins, n_targets)

    def _forest(self, batches: Sequence[Any]) -> str:
        """Return the class probabilities of scikit-learn's forests together.

        The probability of a class is its mean over the leaves of all trees fitted with the class.
        """
        trees = []
        n_trees = np.zeros(self.K)  # number of trees fitted with each class
        for batch in batches:
            # A forest without some class has class numbers as labels. With all classes the order is theirs.
            labels = np.asarray(batch.classes_)
            class_numbers = list(range(self.K))
            if len(labels) < self.K:
                class_numbers = labels.astype(int).tolist()
            n_trees[class_numbers] += len(batch.estimators_)
            for estimator in batch.estimators_:
                tree = estimator.tree_
                trees.append(_Tree(
                    "BRANCH_LEQ", tree.children_left, tree.children_right, tree.feature,
                    tree.threshold, tree.missing_go_to_left, class_numbers, tree.value[:, 0, :],
                ))  # fmt: skip
        sums = self._trees(trees, self.K)
        means = self.times(sums, [1.0 / np.maximum(n_trees, 1.0)])  # no tree: the sum is 0
        if n_trees.min() == n_trees.max():
            return means
        # Means over different trees need not sum to 1.
        classes_axis = self.constant([1], np.int64)
        return self.op("Div", means, self.op("ReduceSum", means, classes_axis, keepdims=1))

    def _linear(self, model: TableLinear) -> str:
        """Add the nodes of a linear or kernel model; return the name of the probabilities."""
        centred = self.op("Sub", "X64", self.constant(model.mean_))
        scaled = self.op("Div", centred, self.constant(model.scale_))
        # A missing value counts as the mean, which is 0 now.
        filled = self.op("Where", self.op("IsNaN", scaled), self.constant(0.0), scaled)
        features = self.op(
            "Clip", filled, self.constant(-CLIPPED_AT), self.constant(CLIPPED_AT)
        )
        if model.landmarks:  # the Gaussian kernels of rows and landmarks, shape (n, landmarks)
            landmarks = np.asarray(model.landmarks_, dtype=np.float64)
            # The squared distance |r − l|² is |r|² + |l|² − 2 r·l.
            squares = self.op("ReduceSumSquare", features, axes=[1], keepdims=1)
            squares = self.op("Add", squares, self.constant([(landmarks**2).sum(axis=1)]))
            products = self.op("MatMul", features, self.constant(2.0 * landmarks.T))
            squared_distance = self.op("Sub", squares, products)
            factor = -KERNEL_WIDTH / landmarks.shape[1]
            features = self.op("Exp", self.times(squared_distance, factor))
        products = self.op("MatMul", features, self.constant(model.coef_.T))
        # A row of K numbers.
        logits = self.op("Add", products, self.constant([model.intercept_]))
        return self.op("Softmax", logits, axis=1)

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
                f"{name!r} is {a_type_of(model)}, which needs a converter: {failure}"
            ) from None
        except Exception as failure:  # converters raise exceptions of any type
            raise ValueError(
                f"{name!r} cannot be converted: {type(failure).__name__}: {str(failure)[:200]}"
            ) from failure
        graph = onnx.compose.add_prefix_graph(converted.graph, f"{prefix}_")
        for node in graph.node:
            for place, tensor in enumerate(node.input):
                if tensor == f"{prefix}_{INPUT}":  # all models read the same X
                    node.input[place] = INPUT
        self.nodes += list(graph.node)
        self.inits += list(graph.initializer)
        _, probabilities = graph.output  # the labels come first
        return self.double(probabilities.name)


@dataclass(frozen=True)
class _Tree:
    """One tree: the split of each node, and the values of each leaf. Node 0 is the root."""

    mode: str  # the comparison of a value with the threshold that leads to the left
    left: Any  # number of the left child by node; negative for a leaf
    right: Any
    column: Any
    threshold: Any
    missing_left: Any  # whether a row with a missing value goes to the left
    targets: list[int]  # columns of the result to which the values are added
    values: Floats  # shape (nodes, targets)

    def missing_leaf(self) -> int:
        """Return the number of the leaf that a row without any value reaches."""
        node = 0
        while self.left[node] >= 0:
            children = self.left if self.missing_left[node] else self.right
            node = int(children[node])
        return node


def _xgboost_tree(tree: dict[str, Any], target: int, columns: Ints, name: str) -> _Tree:
    """Return a tree from the JSON of a booster of XGBoost, which was fitted on these columns of X.

    Raise ValueError, with the name of the model, for a tree without a form in ONNX.
    """
    if int(tree["tree_param"]["size_leaf_vector"]) > 1:
        raise ValueError(
            f"{name!r} has trees with a leaf for all classes: set "
            "multi_strategy='one_output_per_tree'"
        )
    if any(tree.get("split_type", ())):
        raise ValueError(f"{name!r} splits by categories, which ONNX trees do not support")
    # "split_conditions" has the thresholds of inner nodes and the values of leaves, both float32.
    numbers = np.array(tree["split_conditions"], np.float32).astype(np.float64)
    return _Tree(
        "BRANCH_LT", tree["left_children"], tree["right_children"], columns[tree["split_indices"]],
        numbers, tree["default_left"], [target], numbers.reshape(-1, 1),
    )  # fmt: skip


def _lightgbm_tree(root: dict[str, Any], target: int, slope: float, name: str) -> _Tree:
    """Return a tree of LightGBM with dicts as nodes; leaf values are multiplied by ``slope``.

    Raise ValueError, with the name of the model, for a split without a form in ONNX.
    """
    nodes = [root]
    for node in nodes:  # grows: children come after their parents
        nodes += [node[side] for side in ("left_child", "right_child") if side in node]
    number = {id(node): i for i, node in enumerate(nodes)}
    splits: list[tuple[Any, ...]] = []  # left, right, column, threshold, missing_left
    for node in nodes:
        if "split_feature" not in node:  # a leaf
            splits.append((-1, -1, -1, 0.0, False))
            continue
        if node["decision_type"] != "<=" or node["missing_type"] == "Zero":
            raise ValueError(
                f"{name!r} splits by categories, or treats 0 as missing, which cannot "
                "be converted"
            )
        # In columns without missing values in fit, a missing value counts as 0.
        missing_left = node["threshold"] >= 0
        if node["missing_type"] == "NaN":
            missing_left = node["default_left"]
        children = [number[id(node[side])] for side in ("left_child", "right_child")]
        splits.append((*children, node["split_feature"], node["threshold"], missing_left))
    left, right, column, threshold, missing_lefts = zip(*splits, strict=True)
    values = np.array([[slope * node.get("leaf_value", 0.0)] for node in nodes])
    return _Tree("BRANCH_LEQ", left, right, column, threshold, missing_lefts, [target], values)


def _attributes(trees: Sequence[_Tree], n_targets: int) -> dict[str, Any]:
    """Return the attributes of a TreeEnsembleRegressor of ONNX, one long list each over all trees.

    Lists with the prefix "nodes" have an entry for each node. Lists with the prefix "target" have an entry
    for each leaf and each target of its tree.
    """
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
    sums = {"n_targets": n_targets, "aggregate_function": "SUM", "post_transform": "NONE"}
    return attributes | sums


def _refuse_categories(reader: Any, name: str) -> None:
    """Raise if the table reader of a model passes a column to its trees as categories."""
    if isinstance(reader, OneHotReader):
        raise ValueError(
            f"{name!r} reads one-hot columns as categories, which ONNX trees do not support; "
            "fit with estimators=[…] without it"
        )
    if "c" in reader.feature_types:
        place = reader.feature_types.index("c")
        raise ValueError(
            f"{name!r} reads column {place} (from 0) as categories, which ONNX trees do not "
            "support"
        )
