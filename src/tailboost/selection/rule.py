"""The decision rule on models' probabilities: printed, as plain types and as SQL."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations, pairwise
from typing import Any, Self

import numpy as np

from tailboost.core.array_types import Array, Floats, Groups, Ints, Table
from tailboost.core.checks import as_pandas, check_format, n_rows_of, reading, take
from tailboost.core.html import html_details
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
    check_names,
    group_numbers,
    in_known_groups,
    sql_column,
    sql_of_group,
    sql_value,
)
from tailboost.selection.threshold_rule import Band, range_words

# Rules of format 1 had several parts.
RULE_FORMAT = 2
FIELDS = (
    "classes", "groups", "weights", "offsets", "action_costs", "inferred", "least_probability"
)  # fmt: skip
# The most printed weights and groups.
WEIGHTS_SHOWN = 12
INFERRED = (
    "this rule estimates groups from the features by models of its own, so only predict of "
    "the classifier can apply it. infer_groups=False (--set infer_groups=false) gives a rule "
    "that estimates none, by_group=True (--set by_group=true) one that reads the groups"
)
NO_SQL = (
    "this rule has no SQL: it averages several models. Store predict_proba as a column, and "
    "select thresholds on it: tb.tune(tb.Scores(column, label), table[[column]], …)"
)


@dataclass(frozen=True)
class Rule(StoredRule):
    """The decision rule of a fitted classifier: weights of its models' probabilities, and action costs.

    With ``z_k = Σ_i weights[i] · log max(p_i,k, least_probability) + offsets[k]`` the expected cost of the
    action a is ``Σ_k exp(z_k) · action_costs[g][k][a]``. Here g is the group of the row for a group-aware
    rule, otherwise 0. The cheapest action is taken, the first of equal ones. Actions are the classes in their
    order and, if rows may be deferred, deferral.

    Attributes
    ----------
    classes : list
        The labels, in the order of the probabilities.
    groups : list or None
        The groups of a group-aware rule.
    weights : dict
        Weight of the log-probabilities of each model; empty for a constant.
    offsets : list of float
        One for each class.
    action_costs : list of lists, shape (groups or 1, K, actions)
        Cost of an action in a class.
    inferred : bool
        Whether groups are estimated from the features. Then ``action_costs`` are by group, weighted by the
        probability of each group.
    least_probability : float
        Smaller probabilities are raised to this one.
    limits, file, groups_named
        As in `StoredRule`.
    """

    classes: list[Any]
    groups: list[Any] | None
    weights: dict[str, float]
    offsets: list[float]
    action_costs: list[list[list[float]]]
    inferred: bool = False
    least_probability: float = LEAST_PROBABILITY

    @property
    def models(self) -> list[str]:
        """Names of the models in the rule."""
        return list(self.weights)

    @property
    def defers(self) -> bool:
        """Whether rows may be deferred."""
        return len(self.action_costs[0][0]) > len(self.classes)

    def actions_in(self, column: Any, group: Any) -> set[Any]:
        """Return the actions that a row of a group of a column may get: all, whatever the group."""
        return {*self.classes, *([HUMAN_REVIEW] if self.defers else [])}

    @property
    def identity(self) -> Any:
        """The rule as plain values, for `digest_of_rule`."""
        return [_identity(getattr(self, name)) for name in FIELDS]

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
        if self.inferred:
            raise ValueError(INFERRED)
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
        by_model = {name: P[:, i] for i, name in enumerate(probabilities)}
        places = group_numbers(groups, self.groups, len(P))
        warn_of_other_groups(self.groups_named, {}, groups)
        label, is_deferred = self._decided(by_model, places)
        if deferred is None or not self.defers:
            return classes[label]
        return np.where(is_deferred, deferred, classes[label].astype(object))

    def _decided(self, by_model: Mapping[str, Floats], places: Ints) -> tuple[Ints, Any]:
        """Return the number of each row's label, and whether the row is deferred, shape (n,) each."""
        z = np.zeros((len(places), len(self.classes))) + self.offsets
        for name, weight in self.weights.items():
            z = z + weight * logs_of(by_model[name], self.least_probability)
        costs = np.einsum("nk,nka->na", np.exp(z), np.asarray(self.action_costs)[places])
        K = len(self.classes)
        return costs[:, :K].argmin(axis=1), costs.argmin(axis=1) == K

    # -- plain types ---------------------------------------------------------------------------------

    def to_dict(self) -> dict[str, Any]:
        """Return everything as plain types, for JSON: ``docs/rule.schema.json`` describes it."""
        return {"format": RULE_FORMAT, **{name: getattr(self, name) for name in FIELDS}}

    @classmethod
    def from_dict(cls, document: Mapping[str, Any]) -> Self:
        """Return the rule from the plain types of `to_dict`.

        Raises
        ------
        ValueError
            If the document is no rule: a field is missing or invalid.
        """
        with reading("rule"):
            if "bands" in document:
                raise ValueError("it is a rule on one score: ThresholdRule.from_dict reads it")
            check_format(document["format"], RULE_FORMAT, "the rule", "select again")
            rule = cls(**{name: document[name] for name in FIELDS})
            rule._check()
        return rule

    def _check(self) -> None:
        """Raise ValueError unless every field has its type and shape, because documents can be forged."""
        K = len(self.classes)
        check_names(self.classes, self.groups)
        n_groups = 1 if self.groups is None else len(self.groups)
        if self.inferred is True:  # inferred groups are not among the groups of the rule
            n_groups = len(self.action_costs)
        shapes = [(n_groups, K, K), (n_groups, K, K + 1)]  # without and with deferral
        needs = {
            "classes must be at least two labels": isinstance(self.classes, list) and K >= 2,
            "groups must be a list": isinstance(self.groups, (list, type(None))) and n_groups,
            "least_probability must be in (0, 1)": _are_numbers(self.least_probability, ())
            and 0 < self.least_probability < 1,
            "weights must be numbers by name of a model": isinstance(self.weights, dict)
            and all(isinstance(name, str) for name in self.weights)
            and _are_numbers(list(self.weights.values()), (len(self.weights),)),
            f"offsets must be {K} numbers": _are_numbers(self.offsets, (K,)),
            "inferred must be true or false": isinstance(self.inferred, bool),
            f"action_costs must be numbers of shape {shapes[0]} or {shapes[1]}": any(
                _are_numbers(self.action_costs, shape) for shape in shapes
            ),
        }
        for words, holds in needs.items():
            if not holds:
                raise ValueError(words)
        if self.defers and HUMAN_REVIEW in self.classes:
            raise ValueError(f"it defers rows, and a class is called {HUMAN_REVIEW!r}")

    def to_sql(
        self,
        columns: Sequence[str] | None = None,
        group: str | None = None,
        *,
        table: str | None = None,
    ) -> str:
        """Return the decision on the probabilities of one model as an SQL expression.

        The answer is NULL for a row that `predict` refuses: a probability is NULL or outside [0, 1], the
        probabilities do not sum to 1, or the group is unknown. A group of NULL is the group 'missing' if the
        rule has one. An answer is text if rows may be deferred: a column has one type.

        Parameters
        ----------
        columns : list of str, optional
            Names of the columns with the model's probabilities, in the order of `classes`; by default
            ``model_label``.
        group : str, optional
            Name of the column of groups, if the rule is group-aware.
        table : str, optional
            Name or alias of the table in the query. A dot ends the name of its schema.

        Returns
        -------
        str

        Raises
        ------
        ValueError
            If the rule averages several models or estimates groups, ``columns`` are not one for each label,
            ``group`` is missing, or a name or label contains a backslash.
        """
        if self.inferred:
            raise ValueError(INFERRED)
        if len(self.weights) > 1:
            raise ValueError(NO_SQL)
        if self.groups is not None and group is None:
            raise ValueError("group= is needed: the rule reads the row's group")
        conditions = []
        masses = ["1.0"] * len(self.classes)  # of a constant
        for model, power in self.weights.items():
            names = (
                [f"{model}_{label}" for label in self.classes] if columns is None else columns
            )
            if isinstance(names, str) or len(set(names)) != len(self.classes):
                raise ValueError(
                    f"columns must be one for each of {self.classes}, got {columns!r}"
                )
            P = [sql_column(name, table) for name in names]
            sums = zip([*P, " + ".join(P)], [*[0.0] * len(P), 1.0], strict=True)
            conditions = [
                f"{p} BETWEEN {low - SUM_TOLERANCE!r} AND {1 + SUM_TOLERANCE!r} AND "
                for p, low in sums
            ]
            masses = [p if power == 1.0 else f"power({p}, {power!r})" for p in P]
        actions = [*self.classes, *([HUMAN_REVIEW] if self.defers else [])]
        factors = np.exp(self.offsets)[:, None]
        cases = []
        for name, matrix in zip(self.groups or [None], self.action_costs, strict=True):
            condition = "".join(conditions)
            if self.groups is not None:
                condition += sql_of_group(self.groups, name, sql_column(group, table))
            costs = [
                " + ".join(f"{c!r} * {mass}" for c, mass in zip(column, masses, strict=True))
                for column in (factors * np.asarray(matrix)).T.tolist()
            ]
            for a, action in enumerate(actions):
                # The costs before a are not the least ones, or their cases apply.
                tests = [f"{costs[a]} <= {cost}" for cost in costs[a + 1 :]]
                test = " AND ".join(tests) or "1 = 1"
                answer = sql_value(str(action) if self.defers else action)
                cases.append(f"WHEN {condition}{test} THEN {answer}")
        return f"CASE {' '.join(cases)} END"

    def to_python(self, name: str = "decide") -> str:
        """Raise ValueError: only a rule on one score has source in Python."""
        raise ValueError(
            INFERRED if self.inferred else NO_SQL.replace("SQL", "source in Python")
        )

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
        if self.weights:
            terms = " + ".join(f"{w:.4g} log {name}" for name, w in self.weights.items())
            if any(self.offsets):
                terms += f" + offsets {', '.join(f'{b:.4g}' for b in self.offsets)}"
            lines.append(f"P ∝ exp({terms})")
        if self.inferred:
            n_strata = len(self.action_costs) * len(self.classes)
            words = f"takes the action with the least expected cost in {n_strata} strata of class and group"
            return "\n".join([*lines, f"  {words}", with_cure(estimates_words("the group"))])
        shown = list(zip(self.groups or [None], self.action_costs, strict=True))
        for name, costs in shown[:WEIGHTS_SHOWN]:
            words = self._words(np.asarray(costs))
            lines.append(
                f"  {words}" if self.groups is None else f"  {unit_name(name)}: {words}"
            )
        if len(shown) > WEIGHTS_SHOWN:
            lines.append(f"… and {len(shown) - WEIGHTS_SHOWN} more groups")
        return "\n".join(lines)

    def _words(self, costs: Floats) -> str:
        """Return in words how action costs of one group, shape (K, actions), decide."""
        K = len(self.classes)
        names = [*self.classes, HUMAN_REVIEW]
        if not self.weights:
            return f"every row: {self.classes[costs[0, :K].argmin()]}"
        if K == 2:
            ranges = _ranges(costs)
            band: Band = [(float(f"{end:.4g}"), names[action]) for end, action in ranges]
            return range_words(f"P({self.classes[1]})", band)
        largest = costs[:, :K].max(axis=1)
        weight = largest - np.diag(costs[:, :K])
        pairs = zip(self.classes[:WEIGHTS_SHOWN], weight / weight.min(), strict=False)
        ratio = ", ".join(f"{label} {w:.4g}" for label, w in pairs)
        if self.defers:
            return f"the action of least expected cost, or {HUMAN_REVIEW}; weights: {ratio}"
        return f"the label with the largest weight · P; weights: {ratio}"


def _ranges(action_costs: Floats) -> list[tuple[float, int]]:
    """Return ranges of the probability of the second of two classes: lower end and number of the best action.

    ``action_costs`` has shape (2, A). The expected costs are linear in this probability. So the action
    changes only at a probability with equal costs of two actions.
    """
    first, second = action_costs
    ends = {0.0}
    for a, b in combinations(range(len(first)), 2):
        excess_in_first = first[b] - first[a]
        excess_in_second = second[b] - second[a]
        if excess_in_first * excess_in_second < 0:
            ends.add(float(excess_in_first / (excess_in_first - excess_in_second)))
    lowers = sorted(ends)
    middles = (np.array(lowers) + np.array([*lowers[1:], 1.0])) / 2
    cheapest = (np.outer(1 - middles, first) + np.outer(middles, second)).argmin(axis=1)
    ranges = list(zip(lowers, cheapest.tolist(), strict=True))
    return ranges[:1] + [here for before, here in pairwise(ranges) if here[1] != before[1]]


def _identity(value: Any) -> Any:
    """Return a value of a rule with numbers of nine digits, without the rounding errors of other machines."""
    if isinstance(value, dict):
        return [(name, _identity(content)) for name, content in value.items()]
    if isinstance(value, (list, tuple)):
        return [_identity(element) for element in value]
    if isinstance(value, float):
        return f"{value:.9g}"
    return value


def _are_numbers(values: Any, shape: tuple[int, ...]) -> bool:
    """Whether values are finite numbers, no text or truth values, in nested lists of a shape; () is one."""
    try:
        array = np.asarray(values)
    except ValueError:  # lists of different lengths
        return False
    if not array.size:
        return array.shape == shape
    return array.dtype.kind in "iuf" and array.shape == shape and bool(np.isfinite(array).all())
