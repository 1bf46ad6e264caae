"""The decision rule on models' probabilities: printed, as plain types and as SQL."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any, Literal, Self

import numpy as np
from numpy.typing import NDArray
from scipy.special import softmax

from tailboost.boosting.ensemble import MixtureEnsemble
from tailboost.core.array_types import Floats, Groups, Ints, Labels
from tailboost.core.checks import (
    check_length,
    columns_by_name,
    label_column,
    positions,
    reading,
)
from tailboost.core.html import html_details
from tailboost.core.spelling import as_typed
from tailboost.rates import Limit
from tailboost.rows.fingerprints import digest
from tailboost.rows.rules import refuse
from tailboost.rows.subgroups import HUMAN_REVIEW, estimates_words, unit_name
from tailboost.selection.candidates import RulePart
from tailboost.selection.outputs import (
    LEAST_PROBABILITY,
    SUM_TOLERANCE,
    check_named,
    logs_of,
    stacked,
)

FORMAT = 1
# Largest excess of a mixture weight over 1 by rounding.
WEIGHT_TOLERANCE = 1e-9
# The most printed weights and groups.
SHOWN = 12
INFERRED = (
    "this rule estimates groups from the features by models of its own, so only predict of the classifier "
    "can apply it. infer_groups=False (--set infer_groups=false) gives a rule that estimates none. A "
    "threshold on one score reads no group and has SQL: tb.tune(tb.Scores(column, label), "
    "table[[column]], …), in the shell `tailboost tune` without --by-group. by_group=True (--set "
    "by_group=true) gives a rule that reads the groups"
)


@dataclass(frozen=True)
class Rule:
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
    limits : tuple of Limit
        The stated limits, of a rule that `tailboost.load_rule` has read.
    certificate : Certificate or None
        The certificate of such a rule.
    classifier : classifier or None
        Such a rule as a fitted classifier of a table with its columns of scores.
    """

    classes: list[Any]
    groups: list[Any] | None
    parts: list[RulePart]
    least_probability: float = LEAST_PROBABILITY
    limits: tuple[Limit, ...] = field(default=(), compare=False, repr=False)
    certificate: Any = field(default=None, compare=False, repr=False)
    classifier: Any = field(default=None, compare=False, repr=False)

    @classmethod
    def of(
        cls, ensemble: MixtureEnsemble, classes: NDArray[Any], groups: Sequence[Any] | None
    ) -> Self:
        """Return the rule of an ensemble of members with ``as_part``; the settlers of ties come first."""
        weights = ensemble.weights.tolist()
        rest = [m for m in range(len(weights)) if m not in ensemble.tie_order]
        order = [m for m in [*np.asarray(ensemble.tie_order).tolist(), *rest] if weights[m] > 0]
        parts = [replace(ensemble.base_models[m].as_part(), weight=weights[m]) for m in order]
        return cls(
            np.asarray(classes).tolist(), None if groups is None else list(groups), parts
        )

    @property
    def models(self) -> list[str]:
        """Names of the models in the rule."""
        return list(dict.fromkeys(name for part in self.parts for name in part.weights))

    @property
    def defers(self) -> bool:
        """Whether rows may be deferred."""
        return any(part.defers for part in self.parts)

    @property
    def identity(self) -> Any:
        """The rule as plain values, for `digest_of_rule`."""
        return [self.classes, self.groups, _identity([asdict(part) for part in self.parts])]

    # -- answers -------------------------------------------------------------------------------------

    def predict(
        self, probabilities: Mapping[str, Any], groups: Groups = None, *, deferred: Any = None
    ) -> NDArray[Any]:
        """Return the label of each row, from probabilities by model.

        Parameters
        ----------
        probabilities : dict of str to array-like of shape (n, K) or data frame
            Of each of `models`. The columns of an array are in the order of `classes`. Those of a data frame
            are named by the labels.
        groups : array-like of shape (n,), or table of one column, optional
            Group of each row, if the rule is group-aware.
        deferred : str or number, optional
            Value for deferred rows; by default they get the label without a deferral.

        Returns
        -------
        ndarray of shape (n,)
            Labels; of dtype object with ``deferred``.

        Raises
        ------
        ValueError, TypeError
            If probabilities are missing or invalid, if groups are missing, unknown or not used, or if the
            rule estimates groups from features.
        """
        self._refuse_inferred()
        K = len(self.classes)
        classes = np.asarray(self.classes)
        check_named(probabilities)
        given = stacked(probabilities, list(probabilities), classes)
        missing = [name for name in self.models if name not in probabilities]
        if missing:
            raise ValueError(
                f"probabilities: those of {missing} are missing, and the rule uses them"
            )
        logs = {
            name: logs_of(given[:, i], self.least_probability)
            for i, name in enumerate(probabilities)
        }
        n = len(given)
        number = group_numbers(groups, self.groups, n, "probabilities")
        distribution = np.zeros((n, K))
        review = np.zeros(n)
        for j, part in enumerate(self.parts):
            z = part.logs(logs, n)
            weight = part.weight + tie_break(j)
            if part.action_costs is None:
                distribution += weight * softmax((part.power or 1.0) * z, axis=1)
            else:
                costs = np.einsum(
                    "nk,nka->na", np.exp(z), np.asarray(part.action_costs)[number]
                )
                distribution[np.arange(n), costs[:, :K].argmin(axis=1)] += weight
                review += part.weight * (costs.argmin(axis=1) == K)
        answers = classes[distribution.argmax(axis=1)]
        if deferred is None:
            return answers
        return np.where(review >= 0.5, deferred, answers.astype(object))

    def _refuse_inferred(self) -> None:
        if any(part.inferred for part in self.parts):
            raise ValueError(INFERRED)

    # -- plain types ---------------------------------------------------------------------------------

    def to_dict(self) -> dict[str, Any]:
        """Return everything as plain types, for JSON: ``docs/rule.schema.json`` describes it."""
        return {
            "format": FORMAT,
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
            if document["format"] != FORMAT:
                raise ValueError(
                    f"the rule has the format {document['format']!r}, not {FORMAT}"
                )
            parts = [RulePart(**part) for part in document["parts"]]
            rule = cls(
                list(document["classes"]),
                None if document["groups"] is None else list(document["groups"]),
                parts,
                document.get("least_probability", LEAST_PROBABILITY),
            )
        rule._check()
        return rule

    def _check(self) -> None:
        """Raise ValueError unless every field has its type and shape, because documents can be forged."""
        labels = [*self.classes, *(self.groups or [])]
        K = len(self.classes)
        G = len(self.groups or [None])
        plain = all(isinstance(label, (str, int, float)) for label in labels)
        _need(plain, "a label or group is no text or number")
        several = len(self.classes) >= 2 and are_different(self.classes)
        _need(several, "classes must be at least two different labels of one type")
        different = self.groups is None or (
            len(self.groups) >= 1 and are_different(self.groups)
        )
        _need(different, "groups must be different and of one type")
        least = self.least_probability
        _need(_are_numbers(least, ()) and 0 < least < 1, "least_probability must be in (0, 1)")
        _need(len(self.parts) > 0, "it has no parts")
        for part in self.parts:
            inside = _are_numbers(part.weight, ()) and 0 < part.weight <= 1 + WEIGHT_TOLERANCE
            _need(inside, "a weight must be in (0, 1]")
            by_model = isinstance(part.weights, dict) and all(
                isinstance(name, str) for name in part.weights
            )
            _need(by_model, "weights must be by model")
            _need(_are_numbers(list(part.weights.values())), "weights must be numbers")
            _need(_are_numbers(part.offsets, (K,)), f"offsets must be {K} numbers")
            _need(isinstance(part.inferred, bool), "inferred must be true or false")
            _need(
                (part.action_costs is None) != (part.power is None),
                "a part has action_costs or power",
            )
            _need(part.power is None or _are_numbers(part.power, ()), "power must be a number")
            if part.action_costs is not None:
                first = G
                if part.inferred and isinstance(part.action_costs, list):
                    first = len(part.action_costs)
                shapes = [(first, K, K), (first, K, K + 1)]
                fits = any(_are_numbers(part.action_costs, shape) for shape in shapes)
                _need(fits, f"action_costs must be numbers of shape {shapes[0]} or {shapes[1]}")
        named_apart = not (self.defers and HUMAN_REVIEW in self.classes)
        _need(named_apart, f"it defers rows, and a class is called {HUMAN_REVIEW!r}")

    # -- SQL -----------------------------------------------------------------------------------------

    def to_sql(
        self,
        columns: Mapping[str, Sequence[str]] | Callable[[str, Any], str] | None = None,
        *,
        group: str | None = None,
        what: Literal["action", "label", "deferred"] = "action",
        table: str = "t",
    ) -> str:
        """Return the decision as an SQL expression over columns of probabilities.

        If one model decides by class weights, the expression has arithmetic and CASE alone. Averages of
        several models need ``ln`` and ``exp``, which SQLite has if built with its mathematical
        functions. The answer is NULL for a row that `predict` refuses: a probability is NULL or outside [0,
        1], the probabilities of a model do not sum to 1, or the group is unknown.

        Parameters
        ----------
        columns : dict of str to list of str, or callable, optional
            Names of the columns with a model's probabilities, in the order of `classes`; or a function that
            names the column of a model and a label. By default ``model_label``.
        group : str, optional
            Name of the column of groups, if the rule is group-aware.
        what : {"action", "label", "deferred"}, default="action"
            The label or "human review", text if rows may be deferred, because a column has one type; the
            label in its type, for a deferred row the one that would be answered; or whether the row is
            deferred (1 or 0).
        table : str, default="t"
            Name or alias of the table in the query: ``SELECT … FROM scores AS t``. It qualifies each column,
            because SQLite reads a quoted name that no table has as text.

        Returns
        -------
        str

        Raises
        ------
        ValueError
            If a column is missing, one column is named for two probabilities, a name or label contains a
            backslash, or the rule estimates groups from the features.
        """
        self._refuse_inferred()
        probability = {}
        users: dict[str, tuple[str, Any]] = {}  # of each column
        for model in self.models:
            names = self._columns_of(model, columns)
            for label, column in zip(self.classes, names, strict=True):
                first = users.setdefault(column, (model, label))
                if first != (model, label):
                    raise ValueError(
                        f"columns: {column!r} is named for {first[1]!r} of model {first[0]!r} "
                        f"and for {label!r} of model {model!r}; each needs a column of its "
                        "own, as by the pattern {model}_{label}"
                    )
            probability[model] = [sql_number(table, column) for column in names]
        if what == "deferred" and not self.defers:
            raise ValueError("no row is deferred: there is no limit on rates.deferred()")
        answers = [
            self._of_group(g, probability, what) for g in range(len(self.groups or [None]))
        ]
        expression = sql_by_group(self.groups, group, table, answers)
        valid = list(map(_are_probabilities, probability.values()))
        if valid:
            return f"CASE WHEN {' AND '.join(valid)} THEN {expression} END"
        return expression

    def _columns_of(
        self,
        model: str,
        columns: Mapping[str, Sequence[str]] | Callable[[str, Any], str] | None,
    ) -> list[str]:
        """Return the names of the columns of a model's probabilities."""
        if columns is None:
            return [f"{model}_{label}" for label in self.classes]
        if callable(columns):
            return [columns(model, label) for label in self.classes]
        K = len(self.classes)
        if model not in columns or len(columns[model]) != K:
            raise ValueError(
                f"columns: model {model!r} needs {K} names, one for each of {self.classes}"
            )
        return list(columns[model])

    def _of_group(self, g: int, probability: Mapping[str, Sequence[str]], what: str) -> str:
        """Return the expression for one group."""
        if what == "deferred":
            return f"CASE WHEN {self._defers(g, probability)} THEN 1 ELSE 0 END"
        if what == "action" and self.defers:
            answer = self._answered(g, probability, [str(label) for label in self.classes])
            review = sql_value(HUMAN_REVIEW)
            return f"CASE WHEN {self._defers(g, probability)} THEN {review} ELSE {answer} END"
        return self._answered(g, probability, self.classes)

    def _answered(
        self, g: int, probability: Mapping[str, Sequence[str]], classes: Sequence[Any]
    ) -> str:
        """Return the expression for the label of a group, in words ``classes``."""
        K = len(classes)
        labels = [sql_value(label) for label in classes]
        if len(self.parts) == 1 and self.parts[0].action_costs is not None:
            return _least(self._costs(self.parts[0], g, probability)[:K], labels)
        terms: list[list[str]] = [[] for _ in range(K)]
        for j, part in enumerate(self.parts):
            weight = repr(part.weight + tie_break(j))
            if part.action_costs is None:
                powers = [
                    f"exp({part.power!r} * ({self._log(part, k, probability)}))"
                    for k in range(K)
                ]
                for k in range(K):
                    terms[k].append(f"{weight} * {powers[k]} / ({' + '.join(powers)})")
            else:
                answer = _least(
                    self._costs(part, g, probability)[:K], [str(k) for k in range(K)]
                )
                for k in range(K):
                    terms[k].append(f"CASE WHEN ({answer}) = {k} THEN {weight} ELSE 0 END")
        return _least([f"-({' + '.join(each)})" for each in terms], labels)

    def _defers(self, g: int, probability: Mapping[str, Sequence[str]]) -> str:
        """Return the condition under which a row of a group is deferred: half of the weight defers it."""
        K = len(self.classes)
        conditions = []
        for part in self.parts:
            if part.defers:
                costs = self._costs(part, g, probability)
                conditions.append(
                    (part.weight, " AND ".join(f"{costs[K]} < {each}" for each in costs[:K]))
                )
        if len(self.parts) == 1:
            return conditions[0][1]
        weights = " + ".join(
            f"CASE WHEN {cheapest} THEN {w!r} ELSE 0 END" for w, cheapest in conditions
        )
        return f"{weights} >= 0.5"

    def _clipped(self, column: str) -> str:
        least = repr(self.least_probability)
        return f"CASE WHEN {column} > {least} THEN {column} ELSE {least} END"

    def _log(self, part: RulePart, k: int, probability: Mapping[str, Sequence[str]]) -> str:
        terms = [
            f"{w!r} * ln({self._clipped(probability[model][k])})"
            for model, w in part.weights.items()
        ]
        return " + ".join([*terms, repr(part.offsets[k])])

    def _costs(
        self, part: RulePart, g: int, probability: Mapping[str, Sequence[str]]
    ) -> list[str]:
        """Return the expected cost of each action as an expression without terms of cost 0."""
        assert part.action_costs is not None
        action_costs = np.asarray(part.action_costs[g])
        plain = list(part.weights.values()) == [1.0]
        if not part.weights:
            return [repr(cost) for cost in action_costs[0].tolist()]
        mass = []
        for k in range(len(action_costs)):
            if plain:
                scale = float(np.exp(part.offsets[k]))
                column = f"({self._clipped(probability[next(iter(part.weights))][k])})"
                mass.append(column if scale == 1.0 else f"{scale!r} * {column}")
            else:
                mass.append(f"exp({self._log(part, k, probability)})")
        expressions = []
        for costs in action_costs.T.tolist():
            used = [
                f"{cost!r} * {p}" for cost, p in zip(costs, mass, strict=True) if cost != 0.0
            ]
            expressions.append(f"({' + '.join(used)})" if used else "0.0")
        return expressions

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
            first, *others = self._words(part)
            if len(self.parts) > 1:
                first = f"Weight {part.weight:.4g}: {first}"
            lines += [first, *(f"  {line}" for line in others)]
        if any(part.inferred for part in self.parts):
            lines.append(estimates_words("the group"))
        return "\n".join(lines)

    def _words(self, part: RulePart) -> list[str]:
        K = len(self.classes)
        if part.action_costs is None:
            return [f"draws a label from P^{part.power:g}, {_average(part)}"]
        if not part.weights:
            fixed = [
                self.classes[int(np.argmin(action_costs[0][:K]))]
                for action_costs in part.action_costs
            ]
            if self.groups is None:
                return [f"predicts {fixed[0]!r} for every row"]
            return [
                f"{unit_name(g)}: {label!r}"
                for g, label in zip(self.groups, fixed, strict=True)
            ]
        lines = [_average(part)]
        if part.inferred:
            strata = len(part.action_costs) * K
            return [
                *lines,
                f"action costs in {strata} strata of class and group, groups estimated",
            ]
        if self.groups is None:
            return [*lines, *self._decides(np.asarray(part.action_costs[0]))]
        for action_costs, group in zip(part.action_costs, self.groups[:SHOWN], strict=False):
            decided = self._decides(np.asarray(action_costs))
            lines += [f"{unit_name(group)}: {line}" for line in decided]
        if len(self.groups) > SHOWN:
            lines.append(f"… and {len(self.groups) - SHOWN} more groups")
        return lines

    @property
    def _digits(self) -> int:
        """Significant digits to distinguish thresholds: a draw may divide rows with one score."""
        exact = set()
        for part in self.parts:
            for costs in map(np.asarray, part.action_costs or ()):
                if costs.shape == (2, 2):
                    exact.add(_threshold(costs))
        exact.discard(None)
        for digits in range(4, 17):
            if len({f"{threshold:.{digits}g}" for threshold in exact}) == len(exact):
                return digits
        return 17

    def _decides(self, action_costs: Floats) -> list[str]:
        """Return the action costs of one group in words."""
        K = len(self.classes)
        labels = [str(label) for label in self.classes]
        if action_costs.shape[1] == K == 2:
            threshold = _threshold(action_costs)
            if threshold is None:
                always = self.classes[int(action_costs.sum(axis=0).argmin())]
                return [f"predicts {always!r} for every row"]
            return [
                f"predicts {self.classes[1]!r} if P({labels[1]}) > {threshold:.{self._digits}g}"
            ]
        most = action_costs[:, :K].max(axis=1)
        right = np.diag(action_costs[:, :K])
        weight = most - right
        all_most = action_costs[:, :K] + np.diag(most - right)
        if (
            action_costs.shape[1] == K
            and np.allclose(all_most, most[:, None])
            and (weight > 0).all()
        ):
            pairs = zip(labels[:SHOWN], weight / weight.min(), strict=False)
            ratio = ", ".join(f"{label} {w:.4g}" for label, w in pairs)
            return [f"predicts the class with the largest weight · P; weights: {ratio}"]
        names = [*labels, HUMAN_REVIEW][: action_costs.shape[1]]
        lines = ["takes the action with the least expected cost under P; costs"]
        for label, row in zip(labels[:SHOWN], action_costs.tolist(), strict=False):
            each = [f"{name} {cost:.4g}" for name, cost in zip(names, row, strict=True)]
            lines.append(f"  in class {label}: {', '.join(each)}")
        return lines


def _threshold(action_costs: Floats) -> float | None:
    """Return the probability of the second class above which it is predicted; None if one label always is."""
    d = action_costs[:, 1] - action_costs[:, 0]
    if d[0] <= 0 or d[1] >= 0:
        return None
    return float(d[0] / (d[0] - d[1]))


def _average(part: RulePart) -> str:
    if (
        len(part.weights) == 1
        and not any(part.offsets)
        and next(iter(part.weights.values())) == 1.0
    ):
        return f"P of {next(iter(part.weights))}"
    terms = " + ".join(f"{weight:.4g} log {name}" for name, weight in part.weights.items())
    offsets = ", ".join(f"{b:.4g}" for b in part.offsets[:SHOWN])
    if any(part.offsets):
        return f"P ∝ exp({terms} + offsets), offsets {offsets}"
    return f"P ∝ exp({terms})"


def digest_of_rule(rule: Any, scores: Sequence[Any] = ()) -> str:
    """Return the digest of a rule that identifies it in every form: in memory, as a document and in a file.

    Parameters
    ----------
    rule : Rule or ThresholdRule
        The rule.
    scores : sequence of Scores, optional
        The columns that it reads.
    """
    about = [(each.column_list, each.label, each.kind, each.missing) for each in scores]
    return digest(repr((rule.identity, about)).encode())


def _identity(value: Any) -> Any:
    """Return a value of a rule with numbers of nine digits, without the rounding errors of other machines."""
    if isinstance(value, dict):
        return [(name, _identity(each)) for name, each in value.items()]
    if isinstance(value, (list, tuple)):
        return [_identity(each) for each in value]
    if isinstance(value, float):
        return f"{value:.9g}"
    return value


def group_numbers(
    groups: Groups, known: Sequence[Any] | None, n: int, of: str, cure: str = ""
) -> Ints:
    """Return the number of the group of each row of ``of``; 0 if ``known`` is None: a group-blind rule.

    ``groups`` is a column, or a table of one column.
    """
    refuse("blind rule" if known is None else "group-aware rule", groups=groups)
    if known is None:
        return np.zeros(n, dtype=np.intp)
    column = only_column(groups, known, n, of)
    return positions(column, np.asarray(known), "groups", "groups not seen in fit", cure)


def only_column(groups: Groups, known: Sequence[Any] | None, n: int, of: str) -> Labels:
    """Return the only column of groups of the n rows of ``of``, for a rule with these groups."""
    refuse("blind rule" if known is None else "group-aware rule", groups=groups)
    columns = columns_by_name(groups, "groups")
    if len(columns) > 1:
        raise ValueError(
            f"groups must be the one column that the rule reads, got {list(columns)}"
        )
    (values,) = columns.values()
    column = label_column(values, "groups")
    check_length(column, "groups", n, of)
    return column


def tie_break(place: int) -> float:
    """Return the small weight by which the first parts of a rule settle ties."""
    return 2.0**-34 / 2.0**place


# -- SQL ---------------------------------------------------------------------------------------------------


def _are_probabilities(columns: Sequence[str]) -> str:
    """Return a condition: true for probabilities, otherwise false or NULL."""
    ends = [
        f"{column} BETWEEN {-SUM_TOLERANCE!r} AND {1 + SUM_TOLERANCE!r}" for column in columns
    ]
    total = f"{' + '.join(columns)} BETWEEN {1 - SUM_TOLERANCE!r} AND {1 + SUM_TOLERANCE!r}"
    return " AND ".join([*ends, total])


def _need(holds: bool, words: str) -> None:
    if not holds:
        raise ValueError(f"this is no rule: {words}")


def are_different(names: Sequence[Any]) -> bool:
    """Whether labels or groups are different, and of one type: True and 1.0 are no 1."""
    return len(set(names)) == len(names) and len(set(map(type, names))) <= 1


def _are_numbers(values: Any, shape: tuple[int, ...] | None = None) -> bool:
    """Whether a value, or each one of a nested list of a shape, is a finite number, not text or a boolean."""
    try:
        array = np.asarray(values)
    except ValueError:  # lists of different lengths
        return False
    if array.size == 0 and shape is None:
        return True
    fits = shape is None or array.shape == shape
    return fits and array.dtype.kind in "iuf" and bool(np.isfinite(array).all())


def sql_by_group(
    groups: Sequence[Any] | None, group: str | None, table: str, answers: Sequence[str]
) -> str:
    """Return the answer of each row's group as SQL; the only answer of a group-blind rule.

    ``group`` is the column of groups.
    """
    if groups is None:
        return answers[0]
    if group is None:
        argument = as_typed("group='COL'", "--group COL")
        raise ValueError(f"{argument} is needed: the rule reads the row's group")
    cases = [
        f"WHEN {sql_value(value)} THEN {answer}"
        for value, answer in zip(groups, answers, strict=True)
    ]
    return f"CASE {sql_name(table)}.{sql_name(group)} {' '.join(cases)} END"


def sql_name(name: str) -> str:
    """Return the name of a column or table as SQL."""
    return _quoted(name, '"')


def sql_number(table: str, column: str) -> str:
    """Return a column of numbers as SQL. Text in the column is no number, also in SQLite.

    SQLite compares a column of type TEXT with numbers as text. After the sign + it compares by type, and any
    text is larger than every number.
    """
    return f"+{sql_name(table)}.{sql_name(column)}"


def sql_value(value: object) -> str:
    """Return a label or group as SQL."""
    if isinstance(value, bool):
        if value:
            return "TRUE"
        return "FALSE"
    if isinstance(value, int) and not -(2**63) <= value < 2**63:
        raise ValueError(
            f"SQL: {value} needs more than the 64 bits of databases; use the rule as JSON"
        )
    if isinstance(value, (int, float)):
        return repr(value)
    return _quoted(str(value), "'")


def _quoted(text: str, mark: str) -> str:
    """Return text in quotation marks.

    MySQL, BigQuery and Spark read a backslash as an escape, other databases do not; SQLite ends text at NUL.
    """
    if "\\" in text or "\0" in text:
        raise ValueError(
            f"SQL: {text!r} contains a backslash or NUL, which databases read differently; use "
            "the rule as JSON or another name"
        )
    return mark + text.replace(mark, mark * 2) + mark


def _least(values: Sequence[str], labels: Sequence[str]) -> str:
    """Return the label of the least value, of equal ones the first."""
    cases = []
    for k in range(len(values) - 1):
        wins = " AND ".join(f"{values[k]} <= {other}" for other in values[k + 1 :])
        cases.append(f"WHEN {wins} THEN {labels[k]}")
    if cases:
        return f"CASE {' '.join(cases)} ELSE {labels[-1]} END"
    return labels[0]
