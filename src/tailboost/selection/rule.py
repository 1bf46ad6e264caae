"""The decision rule on models' probabilities: printed, as plain types and as SQL."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from itertools import combinations, pairwise
from typing import Any, Literal, Self

import numpy as np
from scipy.special import softmax

from tailboost.core.array_types import Array, Floats, Groups, Ints, SqlColumns, Table
from tailboost.core.checks import (
    as_pandas,
    check_format,
    n_rows_of,
    reading,
    take,
)
from tailboost.core.html import html_details
from tailboost.core.spelling import how_many, with_known_arguments
from tailboost.rows.other_groups import warn_of_other_groups
from tailboost.rows.subgroups import HUMAN_REVIEW, estimates_words, unit_name, with_cure
from tailboost.selection.outputs import (
    LEAST_PROBABILITY,
    SUM_TOLERANCE,
    check_named,
    logs_of,
    stacked,
)
from tailboost.selection.rule_forms import (
    StoredRule,
    answers_with_default,
    are_different,
    check_sql_form,
    group_numbers,
    in_known_groups,
    known_label,
    sql_by_group,
    sql_number,
    sql_value,
)

RULE_FORMAT = 1
# Largest excess of a mixture weight over 1 by rounding.
WEIGHT_TOLERANCE = 1e-9
# The most printed weights and groups.
WEIGHTS_SHOWN = 12
INFERRED = (
    "this rule estimates groups from the features by models of its own, so only predict of "
    "the classifier can apply it. infer_groups=False (--set infer_groups=false) gives a rule "
    "that estimates none, by_group=True (--set by_group=true) one that reads the groups"
)

PYTHON_OF_SCORES = (
    "a rule on models' probabilities has no source in Python: predict answers with NumPy and "
    "SciPy, to_sql in a database, and to_json is its text for another program. A threshold on "
    "one score has one: tb.tune(tb.Scores(column, label), table[[column]], …), in the shell "
    "`tailboost tune`"
)


@dataclass(frozen=True)
class RulePart:
    """One selected candidate: action costs on an average of log-probabilities, or a draw from this average.

    With ``z_k = Σ_i weights[i] · log max(p_i,k, least_probability) + offsets[k]`` the expected cost of the
    action a is ``Σ_k exp(z_k) · action_costs[g][k][a]``. Here g is the group of the row for a group-aware
    rule, otherwise 0. The cheapest action is taken, the first of equal ones. Actions are the classes in their
    order and, if rows may be deferred, deferral. A draw has no action costs: it draws labels in proportion to
    ``exp(power · z_k)``.

    Attributes
    ----------
    weight : float
        Mixture weight λ, in (0, 1].
    weights : dict
        Weight of the log-probabilities of each model; empty for a constant.
    offsets : list of float
        One for each class.
    action_costs : list of lists, shape (groups or 1, K, actions), or None
        Cost of an action in a class; None for a draw.
    power : float or None
        Power of the probabilities, for a draw.
    inferred : bool
        Whether groups are estimated from the features. Then ``action_costs`` are by group, weighted by the
        probability of each group.
    """

    weight: float
    weights: dict[str, float]
    offsets: list[float]
    action_costs: list[list[list[float]]] | None = None
    power: float | None = None
    inferred: bool = False

    @property
    def defers(self) -> bool:
        """Whether the candidate may defer rows."""
        if self.action_costs is None:
            return False
        return len(self.action_costs[0][0]) > len(self.offsets)

    def logs(self, logs: Mapping[str, Floats], n: int) -> Floats:
        """Return z, shape (n, K), from the logarithms of the models' probabilities."""
        z = np.zeros((n, len(self.offsets))) + self.offsets
        for name, weight in self.weights.items():
            z = z + weight * logs[name]
        return z

    @property
    def plain(self) -> RulePart:
        """The same rule without learned weight and offsets, for one model of two classes.

        The learned weight w and the offsets b do not change the order of the rows, so the action costs can
        contain them. With the savings s of a right label, the second label is predicted if
        ``p_1^w e^{b_1} s_1 > p_0^w e^{b_0} s_0``.
        """
        costs = self.action_costs
        if len(self.weights) != 1 or costs is None or self.inferred or len(costs[0][0]) != 2:
            return self
        ((name, weight),) = self.weights.items()
        Q = np.array(costs)
        savings = np.stack([Q[:, 0, 1] - Q[:, 0, 0], Q[:, 1, 0] - Q[:, 1, 1]], axis=1)
        savings = savings * np.exp(self.offsets)  # by group and class
        if weight <= 0 or (savings <= 0).any():
            return self
        savings = (savings / savings.max(axis=1, keepdims=True)) ** (1.0 / weight)
        action_costs = [[[0.0, s_0], [s_1, 0.0]] for s_0, s_1 in savings.tolist()]
        return replace(self, weights={name: 1.0}, offsets=[0.0, 0.0], action_costs=action_costs)


@dataclass(frozen=True)
class Rule(StoredRule):
    """The decision rule of a fitted classifier: models, weights of their probabilities, and action costs.

    Attributes
    ----------
    classes : list
        The labels, in the order of the probabilities.
    groups : list or None
        The groups of a group-aware rule.
    parts : list of RulePart
        The selected candidates.
    least_probability : float
        Smaller probabilities are raised to this one.
    limits, file, groups_named
        As in `StoredRule`.
    """

    classes: list[Any]
    groups: list[Any] | None
    parts: list[RulePart]
    least_probability: float = LEAST_PROBABILITY

    @classmethod
    def of(cls, member: Any, classes: Array, groups: Sequence[Any] | None) -> Self:
        """Return the rule of a candidate; ``groups`` are those of a group-aware rule, otherwise None."""
        if groups is not None:
            groups = list(groups)
        return cls(np.asarray(classes).tolist(), groups, [member.as_part()])

    @property
    def models(self) -> list[str]:
        """Names of the models in the rule."""
        return list(dict.fromkeys(name for part in self.parts for name in part.weights))

    @property
    def defers(self) -> bool:
        """Whether rows may be deferred."""
        return any(part.defers for part in self.parts)

    def actions_in(self, column: Any, group: Any) -> set[Any]:
        """Return the actions that a row of a group of a column may get: all, whatever the group."""
        actions = set(self.classes)
        if self.defers:
            actions.add(HUMAN_REVIEW)
        return actions

    @property
    def identity(self) -> Any:
        """The rule as plain values, for `digest_of_rule`."""
        return [self.classes, self.groups, _identity([asdict(part) for part in self.parts])]

    # -- answers -------------------------------------------------------------------------------------

    def predict(
        self,
        probabilities: Table,
        groups: Groups = None,
        *,
        deferred: Any = HUMAN_REVIEW,
        default: Any = ...,
    ) -> Array:
        """Return the action of each row, a label or "human review", from probabilities by model.

        Parameters
        ----------
        probabilities : dict of str to array-like of shape (n, K) or data frame
            Of each of `models`. The columns of an array are in the order of `classes`. Those of a data frame
            are named by the labels.
        groups : array-like of shape (n,), or table of one column, optional
            Group of each row, if the rule is group-aware.
        deferred : str or number, default="human review"
            Value for deferred rows. With None they get the label that would be answered.
        default : label, "human review" or None, optional
            Answer to rows of an unknown group, as in `ThresholdRule.predict`.

        Returns
        -------
        ndarray of shape (n,)
            Labels; of dtype object if the rule defers and ``deferred`` is not None.

        Raises
        ------
        ValueError, TypeError
            If probabilities are missing or invalid, if groups are missing, unknown or not used, or if the
            rule estimates groups from features.
        """
        self._refuse_inferred()
        if default is not ... and self.groups is not None:
            tables = {name: as_pandas(table) for name, table in probabilities.items()}
            n = n_rows_of(next(iter(tables.values())))
            column, is_known = in_known_groups(groups, self.groups, n)
            return answers_with_default(
                lambda rows: self.predict(
                    {name: take(table, rows) for name, table in tables.items()},
                    column[rows],
                    deferred=deferred,
                ),
                is_known,
                self.classes,
                default,
            )
        classes = np.asarray(self.classes)
        check_named(probabilities)
        P = stacked(probabilities, list(probabilities), classes)
        missing = [name for name in self.models if name not in probabilities]
        if missing:
            raise ValueError(
                f"probabilities: those of {missing} are missing, and the rule uses them"
            )
        logs = {
            name: logs_of(P[:, i], self.least_probability)
            for i, name in enumerate(probabilities)
        }

        group_number = group_numbers(groups, self.groups, len(P), "probabilities")
        warn_of_other_groups(self.groups_named, {}, groups)
        distribution, review_weight = self._weights(logs, group_number)
        answers = classes[distribution.argmax(axis=1)]
        if deferred is None or not self.defers:
            return answers
        return np.where(review_weight >= 0.5, deferred, answers.astype(object))

    def _weights(self, logs: Mapping[str, Floats], group_number: Ints) -> tuple[Floats, Floats]:
        """Return the weights of the parts that answer each label, shape (n, K), and that defer, shape (n,).

        ``logs`` has log-probabilities by model, shape (n, K) each.
        """
        K = len(self.classes)
        n = len(group_number)
        distribution = np.zeros((n, K))
        review_weight = np.zeros(n)
        for j, part in enumerate(self.parts):
            z = part.logs(logs, n)
            weight = part.weight + tie_break(j)
            if part.action_costs is None:
                distribution += weight * softmax((part.power or 1.0) * z, axis=1)
            else:
                action_costs = np.asarray(part.action_costs)[group_number]
                costs = np.einsum("nk,nka->na", np.exp(z), action_costs)
                distribution[np.arange(n), costs[:, :K].argmin(axis=1)] += weight
                review_weight += part.weight * (costs.argmin(axis=1) == K)
        return distribution, review_weight

    def _refuse_inferred(self) -> None:
        if any(part.inferred for part in self.parts):
            raise ValueError(INFERRED)

    # -- plain types ---------------------------------------------------------------------------------

    def to_dict(self) -> dict[str, Any]:
        """Return everything as plain types, for JSON: ``docs/rule.schema.json`` describes it."""
        return {
            "format": RULE_FORMAT,
            "least_probability": self.least_probability,
            "classes": self.classes,
            "groups": self.groups,
            "models": self.models,
            "parts": [asdict(part) for part in self.parts],
        }

    @classmethod
    def from_dict(cls, document: Mapping[str, Any]) -> Self:
        """Return the rule from the plain types of `to_dict`.

        Raises
        ------
        ValueError
            If the document is no rule: a field is missing, unknown or invalid.
        """
        with reading("rule"):
            if "bands" in document:
                raise ValueError("it is a rule on one score: ThresholdRule.from_dict reads it")
            check_format(document["format"], RULE_FORMAT, "the rule", "select again")
            groups = document["groups"]
            if groups is not None:
                groups = list(groups)
            parts = [RulePart(**part) for part in document["parts"]]
            least_probability = document.get("least_probability", LEAST_PROBABILITY)
            rule = cls(list(document["classes"]), groups, parts, least_probability)
        rule._check()
        return rule

    def _check(self) -> None:
        """Raise ValueError unless every field has its type and shape, because documents can be forged."""
        labels = [*self.classes, *(self.groups or [])]
        plain = all(isinstance(label, (str, int, float)) for label in labels)
        _need(plain, "a label or group is no text or number")
        several = len(self.classes) >= 2 and are_different(self.classes)
        _need(several, "classes must be at least two different labels of one type")
        if self.groups is not None:
            different = len(self.groups) >= 1 and are_different(self.groups)
            _need(different, "groups must be different and of one type")
        smallest = self.least_probability
        in_range = _are_numbers(smallest, ()) and 0 < smallest < 1
        _need(in_range, "least_probability must be in (0, 1)")
        _need(len(self.parts) > 0, "it has no parts")
        for part in self.parts:
            self._check_part(part)
        named_apart = not (self.defers and HUMAN_REVIEW in self.classes)
        _need(named_apart, f"it defers rows, and a class is called {HUMAN_REVIEW!r}")

    def _check_part(self, part: RulePart) -> None:
        """Raise ValueError unless every field of a part has its type, shape and range."""
        K = len(self.classes)
        weight_is_valid = (
            _are_numbers(part.weight, ()) and 0 < part.weight <= 1 + WEIGHT_TOLERANCE
        )
        _need(weight_is_valid, "the weight of a part must be in (0, 1]")
        are_by_model = isinstance(part.weights, dict) and all(
            isinstance(name, str) for name in part.weights
        )
        _need(are_by_model, "weights must be by name of a model")
        are_numbers = all(_are_numbers(weight, ()) for weight in part.weights.values())
        _need(are_numbers, "weights must be numbers")
        _need(_are_numbers(part.offsets, (K,)), f"offsets must be {K} numbers")
        _need(isinstance(part.inferred, bool), "inferred must be true or false")
        has_one_of_both = (part.action_costs is None) != (part.power is None)
        _need(has_one_of_both, "a part has either action_costs or power")
        if part.action_costs is None:
            _need(_are_numbers(part.power, ()), "power must be a number")
            return
        n_groups = 1 if self.groups is None else len(self.groups)
        if part.inferred and isinstance(part.action_costs, list):
            # Inferred groups are not among the groups of the rule.
            n_groups = len(part.action_costs)
        shapes = [(n_groups, K, K), (n_groups, K, K + 1)]  # without and with deferral
        have_a_shape = any(_are_numbers(part.action_costs, shape) for shape in shapes)
        _need(have_a_shape, f"action_costs must be numbers of shape {shapes[0]} or {shapes[1]}")

    # -- SQL -----------------------------------------------------------------------------------------

    @with_known_arguments()
    def to_sql(
        self,
        columns: SqlColumns = None,
        group: str | None = None,
        *,
        what: Literal["action", "label", "deferred"] = "action",
        table: str = "t",
        label: Any = None,
    ) -> str:
        """Return the decision as an SQL expression over columns of probabilities.

        If one model decides by class weights, the expression has arithmetic and CASE alone. Averages of
        several models need ``ln`` and ``exp``, which SQLite has if built with its mathematical
        functions. The answer is NULL for a row that `predict` refuses: a probability is NULL or outside [0,
        1], the probabilities of a model do not sum to 1, or the group is unknown. A group of NULL is the
        group 'missing' if the rule has one.

        Parameters
        ----------
        columns : dict of str to list of str, or callable, optional
            Names of the columns with a model's probabilities, in the order of `classes`; or a function that
            names the column of a model and a label. By default ``model_label``. With ``label`` the dict has
            one name for each model.
        group : str, optional
            Name of the column of groups, if the rule is group-aware.
        what : {"action", "label", "deferred"}, default="action"
            The label or "human review", text if rows may be deferred, because a column has one type; the
            label in its type, for a deferred row the one that would be answered; or whether the row is
            deferred (1 or 0).
        table : str, default="t"
            Name or alias of the table in the query: ``SELECT … FROM scores AS t``. It qualifies each column,
            because SQLite reads a quoted name that no table has as text. A dot ends the name of its schema.
        label : label, optional
            Of a rule with two labels, the one whose probability is in the only column of each model. The
            other one is 1 minus the column. By default each label has a column.

        Returns
        -------
        str

        Raises
        ------
        ValueError
            If ``columns`` names no model, a column is missing, one column is named for two probabilities, a
            name or label contains a backslash, ``label`` has no use, or the rule estimates groups from the
            features.
        """
        check_sql_form(what)
        self._refuse_inferred()
        labels = self._labels_held(label)
        probability = {}
        users: dict[str, tuple[str, Any]] = {}  # model and label of each column
        for model in self.models:
            names = self._columns_of(model, columns, labels)
            for held, column in zip(labels, names, strict=True):
                first_model, first_label = users.setdefault(column, (model, held))
                if (first_model, first_label) != (model, held):
                    raise ValueError(
                        f"columns: {column!r} is named for {first_label!r} of model "
                        f"{first_model!r} and for {held!r} of model {model!r}; each needs a "
                        "column of its own, as by the pattern {model}_{label}"
                    )
            probability[model] = [sql_number(table, column) for column in names]
            if len(labels) < len(self.classes):
                place = self.classes.index(labels[0])
                (probability_of_label,) = probability[model]
                probability[model].insert(1 - place, f"(1 - {probability_of_label})")
        if what == "deferred" and not self.defers:
            raise ValueError("no row is deferred: there is no limit on rates.deferred()")
        answers = [
            self._sql_of_group(g, probability, what) for g in range(len(self.groups or [None]))
        ]
        expression = sql_by_group(self.groups, group, table, answers)
        valid = list(map(_are_probabilities, probability.values()))
        if valid:
            return f"CASE WHEN {' AND '.join(valid)} THEN {expression} END"
        return expression

    def to_python(self, name: str = "decide", *, label: Any = None) -> str:
        """Raise ValueError that says which rules have Python source, and what to use instead."""
        self._refuse_inferred()
        raise ValueError(PYTHON_OF_SCORES)

    def _columns_of(
        self,
        model: str,
        columns: SqlColumns,
        labels: Sequence[Any],
    ) -> list[str]:
        """Return the names of the columns of a model's probabilities of ``labels``, in this order.

        By default they are "model_label". Raise ValueError unless stated ones name a column for each label.
        """
        if columns is None:
            return [f"{model}_{label}" for label in labels]
        if callable(columns):
            return [columns(model, label) for label in labels]
        if not isinstance(columns, Mapping):
            named = {each: [f"{each}_{label}" for label in labels] for each in self.models}
            raise ValueError(
                f"columns={columns!r} names no model: this rule reads {how_many(len(labels), 'column')} "
                f"of {how_many(len(named), 'model')}; give a dict such as {named}"
            )
        names = columns.get(model, [])
        if isinstance(names, str):
            names = [names]
        if len(names) != len(labels):
            raise ValueError(
                f"columns: model {model!r} needs {how_many(len(labels), 'name')}, one for each "
                f"of {list(labels)}"
            )
        return list(names)

    def _labels_held(self, label: Any) -> list[Any]:
        """Return the labels of the columns of probabilities: all, or of two labels the stated one."""
        if label is None:
            return self.classes
        if len(self.classes) != 2:
            raise ValueError(
                f"label={label!r} is for a rule with two labels; this one has {len(self.classes)}, "
                "and each needs a column"
            )
        return [known_label(label, self.classes)]

    def _sql_of_group(
        self,
        g: int,
        probability: Mapping[str, Sequence[str]],
        what: Literal["action", "label", "deferred"],
    ) -> str:
        """Return the SQL expression for the rows of the group of number ``g``, see `to_sql`.

        ``probability`` has the SQL of the columns of each model's probabilities. ``what`` is "deferred",
        "action" or "label". An action is text if rows may be deferred, otherwise it is the label.
        """
        if what == "deferred":
            return f"CASE WHEN {self._sql_of_deferral(g, probability)} THEN 1 ELSE 0 END"
        if what == "action" and self.defers:
            answer = self._sql_of_label(g, probability, [str(label) for label in self.classes])
            review = sql_value(HUMAN_REVIEW)
            return f"CASE WHEN {self._sql_of_deferral(g, probability)} THEN {review} ELSE {answer} END"
        return self._sql_of_label(g, probability, self.classes)

    def _sql_of_label(
        self, g: int, probability: Mapping[str, Sequence[str]], classes: Sequence[Any]
    ) -> str:
        """Return the SQL expression for the label in a group: that of the largest weight of the parts.

        ``classes`` are the labels as they are written.
        """
        K = len(classes)
        labels = [sql_value(label) for label in classes]
        if len(self.parts) == 1 and self.parts[0].action_costs is not None:
            return _cheapest(self._sql_of_costs(self.parts[0], g, probability)[:K], labels)
        weights: list[list[str]] = [[] for _ in range(K)]  # of each label, by part
        for j, part in enumerate(self.parts):
            weight = repr(part.weight + tie_break(j))
            if part.action_costs is None:
                logs = [self._sql_of_log(part, k, probability) for k in range(K)]
                powers = [f"exp({part.power!r} * ({log}))" for log in logs]
                for k in range(K):
                    weights[k].append(f"{weight} * {powers[k]} / ({' + '.join(powers)})")
            else:
                costs = self._sql_of_costs(part, g, probability)[:K]
                answer = _cheapest(costs, list(map(str, range(K))))
                for k in range(K):
                    weights[k].append(f"CASE WHEN ({answer}) = {k} THEN {weight} ELSE 0 END")
        return _cheapest([f"-({' + '.join(terms)})" for terms in weights], labels)

    def _sql_of_deferral(self, g: int, probability: Mapping[str, Sequence[str]]) -> str:
        """Return the SQL condition under which a row of a group is deferred: half of the weight defers it."""
        weights = []
        for part in self.parts:
            if part.defers:
                *answer_costs, review_cost = self._sql_of_costs(part, g, probability)
                is_cheapest = " AND ".join(f"{review_cost} < {cost}" for cost in answer_costs)
                if len(self.parts) == 1:
                    return is_cheapest
                weights.append(f"CASE WHEN {is_cheapest} THEN {part.weight!r} ELSE 0 END")
        return f"{' + '.join(weights)} >= 0.5"

    def _sql_of_clipped(self, column: str) -> str:
        """Return the SQL expression of a probability that is raised to the least one."""
        smallest = repr(self.least_probability)
        return f"CASE WHEN {column} > {smallest} THEN {column} ELSE {smallest} END"

    def _sql_of_log(
        self, part: RulePart, k: int, probability: Mapping[str, Sequence[str]]
    ) -> str:
        """Return the SQL expression of z_k, see `RulePart`.

        Parameters
        ----------
        part : RulePart
            The part of the rule.
        k : int
            Number of the class.
        probability : dict of str to list of str
            SQL expressions of the probabilities by model.
        """
        terms = [
            f"{weight!r} * ln({self._sql_of_clipped(probability[model][k])})"
            for model, weight in part.weights.items()
        ]
        return " + ".join([*terms, repr(part.offsets[k])])

    def _sql_of_costs(
        self, part: RulePart, g: int, probability: Mapping[str, Sequence[str]]
    ) -> list[str]:
        """Return the expected cost of each action as an SQL expression without terms of cost 0.

        Parameters
        ----------
        part : RulePart
            The part of the rule.
        g : int
            Number of the group.
        probability : dict of str to list of str
            SQL expressions of the probabilities by model.
        """
        assert part.action_costs is not None
        action_costs = np.asarray(part.action_costs[g])
        if not part.weights:
            return [repr(cost) for cost in action_costs[0].tolist()]
        mass = [self._sql_of_mass(part, k, probability) for k in range(len(action_costs))]
        expressions = []
        for costs in action_costs.T.tolist():
            pairs = zip(costs, mass, strict=True)
            terms = [f"{cost!r} * {of_class}" for cost, of_class in pairs if cost != 0.0]
            if terms:
                expressions.append(f"({' + '.join(terms)})")
            else:
                expressions.append("0.0")
        return expressions

    def _sql_of_mass(
        self, part: RulePart, k: int, probability: Mapping[str, Sequence[str]]
    ) -> str:
        """Return the SQL expression of exp(z_k), without a logarithm for one model of weight 1.

        Parameters
        ----------
        part : RulePart
            The part of the rule.
        k : int
            Number of the class.
        probability : dict of str to list of str
            SQL expressions of the probabilities by model.
        """
        if list(part.weights.values()) != [1.0]:
            return f"exp({self._sql_of_log(part, k, probability)})"
        (model,) = part.weights
        clipped = f"({self._sql_of_clipped(probability[model][k])})"
        factor = float(np.exp(part.offsets[k]))
        if factor == 1.0:
            return clipped
        return f"{factor!r} * {clipped}"

    # -- words ---------------------------------------------------------------------------------------

    def _repr_html_(self) -> str:
        return html_details("Decision rule", str(self))

    @property
    def short(self) -> list[str]:
        """The models, and the lines of the rule."""
        _, *lines = str(self).splitlines()
        if len(lines) == 2:
            lines = [": ".join(line.strip() for line in lines)]
        return [", ".join(self.models) or "no model", *lines]

    def __str__(self) -> str:
        lines = [f"Models: {', '.join(self.models) or 'none'}"]
        for part in self.parts:
            heading, *details = self._part_in_words(part)
            if len(self.parts) > 1:
                heading = f"Weight {part.weight:.4g}: {heading}"
            lines += [heading, *(f"  {line}" for line in details)]
        if any(part.inferred for part in self.parts):
            lines.append(with_cure(estimates_words("the group")))
        return "\n".join(lines)

    def _part_in_words(self, part: RulePart) -> list[str]:
        """Return a part in words: a heading, and lines of details.

        The part draws a label, answers one label in each group without any model, estimates the group, or has
        thresholds or costs on its probabilities, alike for all rows or by group.
        """
        K = len(self.classes)
        if part.action_costs is None:
            return [f"draws a label from P^{part.power:g}, {_average(part)}"]
        if not part.weights:
            cheapest = [np.argmin(costs[0][:K]) for costs in part.action_costs]
            labels = [self.classes[k] for k in cheapest]  # of each group, for every row
            if self.groups is None:
                return [f"predicts {labels[0]!r} for every row"]
            pairs = zip(self.groups, labels, strict=True)
            return [f"{unit_name(group)}: {label!r}" for group, label in pairs]

        lines = [_average(part)]
        if part.inferred:
            n_strata = len(part.action_costs) * K
            words = (
                "takes the action with the least expected cost under P, with groups "
                f"estimated; costs in {n_strata} strata of class and group"
            )
            return [*lines, words]
        if self.groups is None:
            return [*lines, *self._decision_in_words(np.asarray(part.action_costs[0]))]

        for action_costs, group in zip(
            part.action_costs, self.groups[:WEIGHTS_SHOWN], strict=False
        ):
            decided = self._decision_in_words(np.asarray(action_costs))
            lines += [f"{unit_name(group)}: {line}" for line in decided]
        if len(self.groups) > WEIGHTS_SHOWN:
            lines.append(f"… and {len(self.groups) - WEIGHTS_SHOWN} more groups")
        return lines

    @property
    def _digits(self) -> int:
        """Significant digits to distinguish thresholds: a draw may divide rows with one score."""
        thresholds: set[float] = set()
        for part in self.parts:
            for costs in map(np.asarray, part.action_costs or ()):
                if len(costs) == 2:
                    thresholds.update(lower for lower, _ in _ranges(costs)[1:])
        for digits in range(4, 17):
            written = {f"{threshold:.{digits}g}" for threshold in thresholds}
            if len(written) == len(thresholds):
                return digits
        return 17

    def _decision_in_words(self, action_costs: Floats) -> list[str]:
        """Return in words how action costs of one group, shape (K, actions), decide.

        The words are thresholds for two classes, weights if each class has the same cost of all wrong
        labels, and otherwise all costs.
        """
        K = len(self.classes)
        labels = [str(label) for label in self.classes]
        can_defer = action_costs.shape[1] > K
        if K == 2:
            return [self._ranges_in_words(action_costs)]
        label_costs = action_costs[:, :K]
        largest = label_costs.max(axis=1)
        weight = largest - np.diag(label_costs)  # of a wrong label less the right one
        with_right_as_wrong = label_costs + np.diag(weight)
        errors_cost_the_same = np.allclose(with_right_as_wrong, largest[:, None])
        if not can_defer and errors_cost_the_same and (weight > 0).all():
            pairs = zip(labels[:WEIGHTS_SHOWN], weight / weight.min(), strict=False)
            ratio = ", ".join(f"{label} {w:.4g}" for label, w in pairs)
            return [f"predicts the class with the largest weight · P; weights: {ratio}"]
        names = [*labels, HUMAN_REVIEW][: action_costs.shape[1]]
        lines = ["takes the action with the least expected cost under P; costs"]
        for label, row in zip(labels[:WEIGHTS_SHOWN], action_costs.tolist(), strict=False):
            costs = [f"{name} {cost:.4g}" for name, cost in zip(names, row, strict=True)]
            lines.append(f"  in class {label}: {', '.join(costs)}")
        return lines

    def _ranges_in_words(self, action_costs: Floats) -> str:
        """Return the ranges of P of the second of two classes with their actions in words, the highest first.

        ``action_costs`` has shape (2, A). Deferral must be cheaper than both labels, so an end between ranges
        of deferral and of a label belongs to the label.
        """
        ranges = _ranges(action_costs)
        K = len(self.classes)
        lowest, *higher = [action for _, action in ranges]
        ends = [f"{end:.{self._digits}g}" for end, _ in ranges[1:]]  # below each higher range
        P = f"P({self.classes[1]})"
        if not higher and lowest == K:
            return f"{HUMAN_REVIEW} for every row"
        if not higher:
            return f"predicts {self.classes[lowest]!r} for every row"
        if action_costs.shape[1] == K:
            return f"predicts {self.classes[higher[0]]!r} if {P} > {ends[0]}"

        is_deferral_below = [action == K for action in (lowest, *higher[:-1])]  # of each end
        names = [*map(str, self.classes), HUMAN_REVIEW]
        words = []
        for i, action in enumerate(higher):
            sign = ">=" if is_deferral_below[i] else ">"
            range_words = f"{P} {sign} {ends[i]}"
            if i + 1 < len(higher):
                from_end = "<=" if is_deferral_below[i] else "<"
                to_end = "<" if is_deferral_below[i + 1] else "<="
                range_words = f"{ends[i]} {from_end} {P} {to_end} {ends[i + 1]}"
            words.append(f"{range_words}: {names[action]}")
        return "; ".join([*reversed(words), f"else {names[lowest]}"])


def _ranges(action_costs: Floats) -> list[tuple[float, int]]:
    """Return ranges of the probability of the second of two classes: lower end and number of the best action.

    ``action_costs`` has shape (2, A). The expected costs are linear in this probability. So the action
    changes only at a probability with equal costs of two actions.
    """
    first, second = action_costs
    ends = {0.0}
    for a, b in combinations(range(len(first)), 2):
        excess_in_first, excess_in_second = first[b] - first[a], second[b] - second[a]
        if excess_in_first * excess_in_second < 0:
            ends.add(float(excess_in_first / (excess_in_first - excess_in_second)))
    lowers = sorted(ends)
    middles = (np.array(lowers) + np.array([*lowers[1:], 1.0])) / 2
    cheapest = (
        (np.outer(1 - middles, first) + np.outer(middles, second)).argmin(axis=1).tolist()
    )
    ranges = list(zip(lowers, cheapest, strict=True))
    return ranges[:1] + [here for before, here in pairwise(ranges) if here[1] != before[1]]


def _average(part: RulePart) -> str:
    """Return the average of log-probabilities of a part in words: a single model, or a formula."""
    if list(part.weights.values()) == [1.0] and not any(part.offsets):
        (model,) = part.weights
        return f"P of {model}"
    terms = " + ".join(f"{weight:.4g} log {name}" for name, weight in part.weights.items())
    offsets = ", ".join(f"{b:.4g}" for b in part.offsets[:WEIGHTS_SHOWN])
    if any(part.offsets):
        return f"P ∝ exp({terms} + offsets), offsets {offsets}"
    return f"P ∝ exp({terms})"


def _identity(value: Any) -> Any:
    """Return a value of a rule with numbers of nine digits, without the rounding errors of other machines."""
    if isinstance(value, dict):
        return [(name, _identity(content)) for name, content in value.items()]
    if isinstance(value, (list, tuple)):
        return [_identity(element) for element in value]
    if isinstance(value, float):
        return f"{value:.9g}"
    return value


def tie_break(place: int) -> float:
    """Return the small weight by which the first parts of a rule settle ties."""
    return 2.0**-34 / 2.0**place


# -- SQL ---------------------------------------------------------------------------------------------------


def _are_probabilities(columns: Sequence[str]) -> str:
    """Return a condition: true for probabilities, otherwise false or NULL."""
    inside = [
        f"{column} BETWEEN {-SUM_TOLERANCE!r} AND {1 + SUM_TOLERANCE!r}" for column in columns
    ]
    total = f"{' + '.join(columns)} BETWEEN {1 - SUM_TOLERANCE!r} AND {1 + SUM_TOLERANCE!r}"
    return " AND ".join([*inside, total])


def _need(holds: bool, words: str) -> None:
    if not holds:
        raise ValueError(f"this is no rule: {words}")


def _are_numbers(values: Any, shape: tuple[int, ...]) -> bool:
    """Whether values are finite numbers, no text or truth values, in nested lists of a shape; () is one."""
    try:
        array = np.asarray(values)
    except ValueError:  # lists of different lengths
        return False
    has_numbers = array.dtype.kind in "iuf"
    return has_numbers and array.shape == shape and bool(np.isfinite(array).all())


def _cheapest(values: Sequence[str], labels: Sequence[str]) -> str:
    """Return an SQL expression of the label of the least value, of equal ones the first.

    ``values`` and ``labels`` are SQL expressions.
    """
    cases = []
    for k in range(len(values) - 1):
        # The values before k are not the least ones, or their cases apply.
        is_least = " AND ".join(f"{values[k]} <= {later}" for later in values[k + 1 :])
        cases.append(f"WHEN {is_least} THEN {labels[k]}")
    if cases:
        return f"CASE {' '.join(cases)} ELSE {labels[-1]} END"
    return labels[0]
