"""`Rule`: the action of least expected cost, by averaged probabilities of models.

A classifier without a `ThresholdRule` has one: of several models or columns of scores, three or more labels,
or estimated groups.
"""

import json
from collections.abc import Sequence
from itertools import chain
from typing import Any

import numpy as np

from tailboost.core import (
    ROUNDED,
    Array,
    Document,
    Floats,
    Groups,
    Ints,
    Name,
    Table,
    frozen_value,
    joined,
    label_column,
)
from tailboost.rows import HUMAN_REVIEW, LEAST_PROBABILITY, logs_of, stacked
from tailboost.selection.stored_rule import StoredRule, range_words, sql_column

# Both rules are named here.
from tailboost.selection.threshold_rule import ThresholdRule as ThresholdRule

# The most printed weights.
WEIGHTS_SHOWN = 12
# Number of probabilities at which a rule of two classes is evaluated, to print its ranges.
PRINTED = 100_001
# Smaller powers of probabilities are raised to this one in SQL.
LEAST_POWER = 1e-200
NO_FORM = (
    "the rule has no such form: it weighs several models or labels, reads several percentages, "
    "logits or scores that may be missing, or estimates groups (infer_groups), as predict of "
    "the classifier does. Store predict_proba as a column, and select thresholds on it: "
    "tb.tune(tb.Scores(column, label), table[[column]], …)"
)


@frozen_value
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
        Weight of the log-probabilities of each model.
    offsets : list of float
        One for each class.
    action_costs : list of lists, shape (groups or 1, K, actions)
        Cost of an action in a class.
    inferred : bool
        Whether groups are estimated from the features. Then ``action_costs`` are by group, weighted by the
        probability of each group.
    least_probability : float
        Smaller probabilities are raised to this one.
    of_probabilities : bool
        Whether it reads probabilities: no columns of percentages or logits, or with missing scores.
    """

    classes: list[Name]
    groups: list[Name] | None
    weights: dict[str, float]
    offsets: list[float]
    action_costs: list[list[list[float]]]
    inferred: bool = False
    least_probability: float = LEAST_PROBABILITY
    of_probabilities: bool = True

    @property
    def defers(self) -> bool:
        """Whether rows may be deferred."""
        return len(self.action_costs[0][0]) > len(self.classes)

    def actions_in(self, groups: Sequence[tuple[Name, Name]]) -> set[Name]:
        """Return the actions that rows of some groups may get: all, whatever the groups."""
        return {*self._actions}

    @property
    def identity(self) -> Document:
        """The rule as plain values, for `Decision.digest`: nine digits, without errors of other machines."""
        content = json.loads(self.to_json(), parse_float=lambda number: f"{float(number):.9g}")
        return content

    def predict(
        self, probabilities: Table, groups: Groups = None, *, default: Any = ...
    ) -> Array:
        """Return the action of each row, a label or "human review", from probabilities by model.

        Parameters
        ----------
        probabilities : dict of str to array-like of shape (n, K) or data frame
            Of each model in `weights`. The columns of an array are in the order of `classes`. Those of a data
            frame are named by the labels.
        groups : array-like of shape (n,), or table of one column, optional
            Group of each row, if the rule is group-aware.
        default : label, "human review" or None, optional
            Answer to rows of an unknown group, as in `ThresholdRule.predict`.

        Returns
        -------
        ndarray of shape (n,)
            Labels; of dtype object if the rule defers, or with a default.

        Raises
        ------
        ValueError, TypeError
            If probabilities are missing or invalid, if groups are missing, unknown or not used, or if the
            rule estimates groups from features.
        """
        if self.inferred:
            raise ValueError(NO_FORM)
        P = stacked(probabilities, label_column(self.classes, "classes"))
        missing = [name for name in self.weights if name not in probabilities]
        if missing:
            raise ValueError(
                f"probabilities: those of {missing} are missing, and the rule uses them"
            )
        weights = [self.weights.get(name, 0.0) for name in probabilities]
        logs = logs_of(P, self.least_probability)
        z = np.einsum("m,nmk->nk", weights, logs) + self.offsets
        return self._answers(z, groups, probabilities, default)

    def numbers(self, values: Floats, groups: Ints) -> Ints:
        """Return the number of each row's action: of its label, or the number of labels for deferral.

        Parameters
        ----------
        values : ndarray of shape (n, K)
            Logarithms of the probabilities, up to a constant of the row.
        groups : ndarray of int, shape (n,)
            Number of each row's group; −1 of a row without an answer, which has the number −1.
        """
        # In a row all exponentials may be below the least number: those of differences are not.
        masses = np.exp(values - values.max(axis=1, keepdims=True))
        expected = np.einsum("nk,nka->na", masses, np.asarray(self.action_costs)[groups])
        return np.where(groups < 0, -1, expected.argmin(axis=1))

    def _check(self) -> None:
        """Raise ValueError unless every field has its type and range, because documents can be forged."""
        super()._check()
        K = len(self.classes)
        n_groups, *shape = np.shape(self.action_costs)
        costs = chain(*chain(*self.action_costs))  # an array would have one type for all
        numbers = [*self.offsets, *self.weights.values(), *costs, self.least_probability]
        is_valid = [
            all(type(number) in (int, float) and np.isfinite(number) for number in numbers),
            shape in ([K, K], [K, K + 1]),
            # Inferred groups are not among the groups of the rule.
            self.inferred is True or n_groups == len(self.groups or [None]),
            len(self.offsets) == K >= 2,
            type(self.inferred) is type(self.of_probabilities) is bool,
            0 < self.least_probability < 1,
            min(self.weights.values(), default=-1.0) >= 0.0,
            not self.defers or HUMAN_REVIEW not in self.classes,
        ]
        if not all(is_valid):
            raise ValueError(
                f"a part has another type, shape or range, or a class is called {HUMAN_REVIEW!r}"
            )

    def to_sql(
        self,
        columns: Sequence[str] | None = None,
        group: str | None = None,
        *,
        label: Any = None,
        table: str | None = None,
    ) -> str:
        """Return the decision on the probabilities of one model as an SQL expression.

        The answer is NULL for a row that `predict` refuses: a probability is NULL or outside [0, 1], the
        probabilities do not sum to 1, or the group is unknown. A group of NULL is the group 'missing' if the
        rule has one. An answer is text if rows may be deferred: a column has one type.

        Parameters
        ----------
        columns : list of str, optional
            Names of the columns with the model's probabilities; by default ``model_label``.
        group : str, optional
            Name of the column of groups, if the rule is group-aware.
        label : list of labels, optional
            The label whose probability each of ``columns`` has; needed with ``columns``.
        table : str, optional
            Name or alias of the table in the query. A dot ends the name of its schema.

        Returns
        -------
        str

        Raises
        ------
        ValueError
            If the rule averages several models, reads several scores that are no probabilities or may be
            missing, or estimates groups; if ``columns`` are not one for each label, ``label`` or ``group`` is
            missing, or a name or label has no form in SQL, as one with a backslash.
        """
        if self.inferred or len(self.weights) != 1 or not self.of_probabilities:
            raise ValueError(NO_FORM)
        ((model, power),) = self.weights.items()
        if columns is None:
            if label is None:
                label = self.classes
            columns = [f"{model}_{each}" for each in label]
        by_label = dict(zip(np.ravel(label).tolist(), columns, strict=False))
        # As many labels as columns and as classes, and no column twice.
        sizes = {np.size(label), np.size(columns), len({*columns}), len(self.classes)}
        if {*by_label} != {*self.classes} or len(sizes) > 1:
            raise ValueError(
                f"columns must be one for each of {self.classes}, and label= the label of each, "
                f"in their order; got {columns!r} and label={label!r}"
            )
        P = [sql_column(by_label[each], table) for each in self.classes]
        slack = len(P) * ROUNDED
        are_valid = [f"{p} BETWEEN {-ROUNDED!r} AND {1 + ROUNDED!r}" for p in P]
        are_valid.append(f"{' + '.join(P)} BETWEEN {1 - slack!r} AND {1 + slack!r}")
        valid = " AND ".join(are_valid)
        # No power of a probability is below the least number, which is an error in some databases.
        least = max(self.least_probability, LEAST_POWER ** (1.0 / max(power, 1.0)))
        masses = [f"CASE WHEN {p} > {least!r} THEN {p} ELSE {least!r} END" for p in P]
        if power != 1.0:
            masses = [f"power({mass}, {power!r})" for mass in masses]
        costs_of_groups = (
            np.asarray(self.action_costs) * np.exp(self.offsets - np.max(self.offsets))[:, None]
        )
        conditions = {}
        for name, costs in zip(self.groups or [None], costs_of_groups, strict=True):
            expected = [
                " + ".join(map("{!r} * {}".format, own, masses)) for own in costs.T.tolist()
            ]
            are_least = [
                f"{valid} AND {own} <= " + f" AND {own} <= ".join(expected) for own in expected
            ]
            conditions[name] = [*zip(are_least, self._actions, strict=True)]
        return self._sql_case(conditions, group, table)

    def to_python(self, name: str = "decide", *, label: Name | None = None) -> str:
        """Raise ValueError: only a rule on one score has source in Python."""
        raise ValueError(NO_FORM)

    def __str__(self) -> str:
        terms = " + ".join(f"{weight:.4g} log {name}" for name, weight in self.weights.items())
        offsets = ", ".join(f"{offset:.4g}" for offset in self.offsets)
        action = f"label, or {HUMAN_REVIEW}," if self.defers else "label"
        words = f"the {action} of least expected cost by class and estimated group"
        if not self.inferred:
            words = self._by_group(
                [self._words(np.asarray(costs), action) for costs in self.action_costs]
            )
        return f"P ∝ exp({terms} + offsets {offsets})\n{words}"

    def _words(self, costs: Floats, action: str) -> str:
        """Return in words how action costs of one group, shape (K, actions), decide."""
        if len(self.classes) == 2:
            p = np.linspace(0.0, 1.0, PRINTED).clip(1e-16, 1.0 - 1e-16)  # no model is certain
            cheapest = (np.column_stack([1.0 - p, p]) @ costs).argmin(axis=1)
            starts = np.flatnonzero(np.diff(cheapest, prepend=-1))
            band = [(float(f"{p[i]:.4g}"), self._actions[cheapest[i]]) for i in starts]
            return range_words(f"P({self.classes[1]})", band)
        # What the dearest wrong label costs beyond the right one.
        weight = costs[:, : len(self.classes)].max(axis=1) - np.diag(costs)
        pairs = zip(self.classes, weight, strict=True)
        words = joined([f"{label} {each:.4g}" for label, each in pairs], WEIGHTS_SHOWN)
        return f"the {action} of least expected cost; weights of the labels: {words}"
