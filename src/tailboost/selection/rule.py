"""Decision rules by thresholds on a score or weights of probabilities: answers, words, JSON, SQL, Python."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from itertools import chain
from keyword import iskeyword
from typing import Any, ClassVar, Self

import numpy as np

from tailboost.core.array_types import Array, Floats, Groups, Ints, Labels, Table
from tailboost.core.checks import (
    LEAST_PROBABILITY,
    MISSING_GROUP,
    as_pandas,
    check_format,
    check_length,
    check_probabilities,
    group_columns,
    has_named_columns,
    in_class_order,
    is_missing,
    label_column,
    logs_of,
    positions,
    reading,
)
from tailboost.core.score_kinds import ROUNDED, SCORE_KINDS, ScoreKind, score_kind
from tailboost.core.spelling import joined, listed
from tailboost.rows.subgroups import HUMAN_REVIEW, unit_name

# Format 1 had no kind of score, and several parts.
RULE_FORMAT = 2
# The most printed weights.
WEIGHTS_SHOWN = 12
# The types of labels and groups in a document.
PLAIN = {str, int, float, bool}
# Probabilities of two classes at which a rule is printed.
PRINTED = 100_001
NO_FORM = (
    "the rule has no such form: it weighs several models or labels, or estimates groups "
    "(infer_groups), as predict of the classifier does. Store predict_proba as a column, and "
    "select thresholds on it: tb.tune(tb.Scores(column, label), table[[column]], …)"
)

Band = list[tuple[float | None, Any]]
"""The ranges of a group from the lowest: lower end, None for −∞, and action."""


@dataclass(frozen=True)
class StoredRule:
    """What both forms of rules share."""

    #: A rule alone has no certificate.
    certificate_: ClassVar[None] = None

    def to_dict(self) -> dict[str, Any]:
        """Return the rule as plain types, for JSON."""
        return {"format": RULE_FORMAT, **vars(self)}

    @property
    def identity(self) -> Any:
        """The rule as plain values, for `digest_of_rule`."""
        return self.to_dict()

    def to_json(self) -> str:
        """Return `to_dict` as JSON, which `tailboost.load_rule` reads from a file."""
        return json.dumps(self.to_dict())

    @classmethod
    def from_dict(cls, document: Mapping[str, Any]) -> Self:
        """Return the rule of a document from `to_dict`.

        Raises
        ------
        ValueError
            If the document describes no rule: a field is missing or invalid.
        """
        with reading("rule"):
            check_format(document["format"], RULE_FORMAT, "the rule", "select again")
            parts = {each.name: document[each.name] for each in fields(cls)}
            if "bands" in parts:
                parts["bands"] = [list(map(tuple, band)) for band in parts["bands"]]
            rule: Any = cls(**parts)
            for names in (rule.classes, [0] if rule.groups is None else rule.groups):
                types = set(map(type, names))  # True and 1.0 are no 1
                is_list = isinstance(names, list) and len(types) == 1
                if not (is_list and types <= PLAIN and len(set(names)) == len(names)):
                    raise ValueError(
                        "labels and groups must be texts or numbers, different and of one "
                        f"type, got {names}"
                    )
            rule._check()
        stored: Self = rule
        return stored

    def _answers(self: Any, numbers: Ints, default: Any) -> Labels:
        """Return the actions of rows by their numbers, the default for −1."""
        actions = np.asarray(self.classes)
        if self.defers or default is not ...:
            actions = np.array([*self.classes, HUMAN_REVIEW, default], dtype=object)
        if default not in (*actions[:-1], HUMAN_REVIEW, None, ...):
            raise ValueError(
                f"default={default!r} is no answer of this rule: give one of {self.classes}, "
                f"{HUMAN_REVIEW!r} or None"
            )
        return actions[numbers]

    def _of_groups(self: Any, texts: Sequence[str]) -> str:
        """Return a text for each group as lines that begin with its name."""
        if self.groups is None:
            return texts[0]
        return "\n".join(
            f"{unit_name(group)}: {text}"
            for group, text in zip(self.groups, texts, strict=True)
        )

    def _conditions(self: Any, group: Any, table: str | None) -> list[str]:
        """Return the condition of each group in SQL, by its column; NULL is the group 'missing' of a rule."""
        if self.groups is None:
            return [""]
        if group is None:
            raise ValueError("group= is needed: the rule reads the row's group")
        column = sql_column(group, table)
        if MISSING_GROUP in self.groups:
            column = f"COALESCE({column}, {sql_value(MISSING_GROUP)})"
        return [f"{column} = {sql_value(name)} AND " for name in self.groups]


# -- thresholds on a score -----------------------------------------------------------------------------------


@dataclass(frozen=True)
class ThresholdRule(StoredRule):
    """Actions by ranges of one score.

    Attributes
    ----------
    column : str or int
        The column of the score.
    classes : list
        The labels.
    groups : list or None
        The groups of a group-aware rule.
    bands : list of lists of (float, str or label)
        For each group (or once) the ranges from the lowest: their lower end and the action there. The first
        lower end is −∞, written as None. A range contains its lower end.
    kind : {"probability", "percent", "logit", "number"}
        The kind of scores at the selection. Numbers outside the range of this kind are refused.
    missing : float or None
        The score of rows without one.
    model : str or None
        The model for the score, its probability of the second label; None for a column of scores.
    group_column : str, int or None
        The column of the groups of a group-aware rule, if it has a name.
    """

    column: Any
    classes: list[Any]
    groups: list[Any] | None
    bands: list[Band]
    kind: str
    missing: float | None = None
    model: str | None = None
    group_column: Any = field(default=None, compare=False, repr=False)

    @property
    def _kind(self) -> ScoreKind:
        return SCORE_KINDS[self.kind]

    @property
    def defers(self) -> bool:
        """Whether rows may be deferred. A rule with a class "human review" answers this class instead."""
        actions = [action for _, action in chain(*self.bands)]
        return HUMAN_REVIEW in actions and HUMAN_REVIEW not in self.classes

    def actions_in(self, column: Any, group: Any) -> set[Any]:
        """Return the possible actions of rows in one group of a column, for any score.

        For a column without influence on the rule, these are all actions of the rule.
        """
        bands = self.bands
        names = self.groups or []
        if column == self.group_column and group in names:
            bands = [bands[names.index(group)]]
        return {action for _, action in chain(*bands)}

    def predict(self, score: Any, groups: Groups = None, *, default: Any = ...) -> Array:
        """Return the action of each row: a label, or "human review".

        Parameters
        ----------
        score : array-like of shape (n,), number or table
            The score. In a table of named columns the rule reads `column` and `group_column`.
        groups : array-like of shape (n,), or table, optional
            Group of each row, for a group-aware rule. In a table of several columns the rule reads
            `group_column`. Text names the column of a table ``score``. None and NaN are the group 'missing'
            if the rule has one.
        default : label, "human review" or None, optional
            Answer to rows without a score, unless `missing` is their score, and to rows of an unknown group.
            Rows without a group get this answer too, unless the rule has a group 'missing'. Without a
            default, such rows are an error. No limit and no certificate counts them.

        Returns
        -------
        ndarray of shape (n,)

        Raises
        ------
        ValueError
            If scores are missing or outside the range of `kind`, or groups are missing, unknown or not used;
            if the default is no answer.
        """
        table = as_pandas(score)
        if isinstance(table, Mapping) or hasattr(table, "columns"):
            names = list(table)
            needed = [self.column]
            if groups is None and self.groups is not None:
                groups = self.group_column
                needed.append(groups)
            for name in needed:
                if name not in names:
                    raise ValueError(
                        f"score is a table without the column {name!r}, which the rule reads; "
                        f"it has {listed(names)} (groups may be given by groups=)"
                    )
            score = table[self.column]
            if isinstance(groups, str) and groups in names:
                groups = table[groups]
        if np.ndim(score) > 1 and np.shape(score)[1] > 1:
            raise ValueError(
                f"score has {np.shape(score)[1]} columns; give the one of the score"
            )
        if np.ndim(score) == 0 and np.isscalar(groups):  # one row
            groups = np.atleast_1d(groups)
        may_lack = default is not ...
        missing = self.missing
        if missing is None and may_lack:
            missing = np.nan
        scores = self._kind.checked(np.ravel(score), str(self.column), missing)
        places = group_numbers(groups, self.groups, len(scores), self.group_column, may_lack)
        return self._answers(self.numbers(scores, places), default)

    def numbers(self, scores: Floats, place: Ints) -> Ints:
        """Return the number of each row's action: of its label, or the number of labels for deferral.

        Parameters
        ----------
        scores : ndarray of shape (n,)
            Scores within the range of `kind`; NaN of a row without an answer, which has the number −1.
        place : ndarray of int, shape (n,)
            Number of each row's group; −1 of a row without an answer.
        """
        actions = [*self.classes, HUMAN_REVIEW]  # a class "human review" replaces deferral
        numbers = np.full(len(scores), -1)
        for group_number, band in enumerate(self.bands):
            rows = np.flatnonzero((place == group_number) & ~np.isnan(scores))
            of_band = np.array([actions.index(action) for _, action in band])
            ends: Any = [lower for lower, _ in band[1:]]
            numbers[rows] = of_band[np.searchsorted(ends, scores[rows], side="right")]
        return numbers

    def _check(self) -> None:
        """Raise ValueError unless every field has its type and range, because documents can be forged."""
        kind = score_kind(self.kind)
        kind.check_missing(self.missing)
        # 1, 1.0 and True are equal, and different labels.
        actions = {(type(action), action) for action in (*self.classes, HUMAN_REVIEW)}
        for (first, _), *higher in self.bands:
            ends: Any = [lower for lower, _ in higher]
            in_range = all(kind.contains(end) and end > kind.lower for end in ends)
            if first is not None or not in_range or sorted(set(ends)) != ends:
                raise ValueError(f"thresholds must ascend from null, and each be a {kind.name}")
        if {(type(action), action) for _, action in chain(*self.bands)} - actions:
            raise ValueError("an action is neither a label nor human review")
        if len(self.bands) != len(self.groups or [None]):
            raise ValueError("bands must be given for each group")

    def to_sql(
        self, column: str | None = None, group: str | None = None, *, table: str | None = None
    ) -> str:
        """Return the action as an SQL expression; NULL for rows refused by `predict`.

        These are rows without score, with a score outside the range of `kind`, or of an unknown group. A
        group of NULL is the group 'missing' if the rule has one. A score of NULL is the score ``missing`` if
        the rule has one.

        Parameters
        ----------
        column : str, optional
            Column of numbers with the score; by default `column`. Of a model's rule it must hold the
            probability of ``classes[1]``. The column needs the precision of the selection data: a
            single-precision column (FLOAT) may have other answers at a threshold.
        group : str, optional
            Column of the group, for a group-aware rule; by default `group_column`.
        table : str, optional
            Name or alias of the table in the query. A dot ends the name of its schema: ``"main.loans"``.

        Returns
        -------
        str

        Raises
        ------
        ValueError
            If ``group`` is missing, or a name or label contains a backslash.
        """
        if column is None:
            column = self.column
        if group is None:
            group = self.group_column
        score = sql_column(column, table)
        if self.missing is not None:
            score = f"COALESCE({score}, {self.missing!r})"
        conditions = self._conditions(group, table)
        cases = []
        for condition, band in zip(conditions, self.bands, strict=True):
            upper = self._kind.most
            for lower, action in reversed(band):
                least = self._kind.least if lower is None else lower
                # A column has one type: labels are text beside deferral.
                answer = sql_value(str(action) if self.defers else action)
                within = f"{condition}{score} BETWEEN {least!r} AND {upper!r}"
                cases.append(f"WHEN {within} THEN {answer}")
                upper = least
        return f"CASE {' '.join(cases)} END"

    def to_python(self, name: str = "decide") -> str:
        """Return the source of a Python function of one score (and group), without imports.

        The function raises an error for what `predict` refuses: text, a score outside the range of `kind` or
        none, an unknown group. None is the group 'missing' if the rule has one.
        """
        if not name.isidentifier() or iskeyword(name):
            raise ValueError(f"name={name!r} is no name of a function")
        groups = self.groups or [None]
        return SOURCE.format(
            name=name,
            words=str(self),
            missing=self.missing,
            missing_group=MISSING_GROUP if MISSING_GROUP in groups else None,
            least=self._kind.least,
            most=self._kind.most,
            plural=self._kind.plural,
            bands=dict(zip(groups, self.bands, strict=True)),
        )

    def __str__(self) -> str:
        words = self._of_groups([range_words(str(self.column), band) for band in self.bands])
        if self.model is None:
            return words
        return f"{words}\n{self.column} is P({self.classes[1]}) of {self.model}"


SOURCE = """\
def {name}(score, group=None):
    {words!r}
    if score is None or score != score:
        score = {missing!r}
    if group is None or group != group:
        group = {missing_group!r}
    if type(score).__module__ == 'numpy':  # a float32 is the decimal that it prints
        score = float(str(score))
    if isinstance(score, (bool, str)):
        raise TypeError(f'the score {{score!r}} is no number')
    if score is None or not {least!r} <= score <= {most!r}:
        raise ValueError(f'the score {{score!r}} is none of the {plural}')
    bands = {bands!r}
    if group not in bands:
        raise ValueError(f'group {{group!r}} is unknown')
    for lower, action in reversed(bands[group]):
        if lower is None or score >= lower:
            return action
"""


def range_words(score: str, band: Band) -> str:
    """Return the ranges of a score in words, from the highest to the lowest."""
    (_, lowest_action), *higher = band
    if not higher:
        return f"every row: {lowest_action}"
    words = []
    upper = None
    for lower, action in reversed(higher):
        ends = f"{score} >= {lower!r}" if upper is None else f"{lower!r} <= {score} < {upper!r}"
        words.append(f"{ends}: {action}")
        upper = lower
    return "; ".join([*words, f"else {lowest_action}"])


# -- weights of probabilities --------------------------------------------------------------------------------


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
    """

    classes: list[Any]
    groups: list[Any] | None
    weights: dict[str, float]
    offsets: list[float]
    action_costs: list[list[list[float]]]
    inferred: bool = False
    least_probability: float = LEAST_PROBABILITY

    @property
    def defers(self) -> bool:
        """Whether rows may be deferred."""
        return len(self.action_costs[0][0]) > len(self.classes)

    def actions_in(self, column: Any, group: Any) -> set[Any]:
        """Return the actions that a row of a group of a column may get: all, whatever the group."""
        actions = set(self.classes)
        if self.defers:
            actions.add(HUMAN_REVIEW)
        return actions

    @property
    def identity(self) -> Any:
        """The rule as plain values, for `digest_of_rule`: nine digits, without errors of other machines."""
        return json.loads(self.to_json(), parse_float=lambda number: f"{float(number):.9g}")

    def predict(
        self,
        probabilities: Table,
        groups: Groups = None,
        *,
        default: Any = ...,
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
            Labels; of dtype object if the rule defers.

        Raises
        ------
        ValueError, TypeError
            If probabilities are missing or invalid, if groups are missing, unknown or not used, or if the
            rule estimates groups from features.
        """
        if self.inferred:
            raise ValueError(NO_FORM)
        P = stacked(probabilities, np.asarray(self.classes))
        missing = [name for name in self.weights if name not in probabilities]
        if missing:
            raise ValueError(
                f"probabilities: those of {missing} are missing, and the rule uses them"
            )
        weights = [self.weights.get(name, 0.0) for name in probabilities]
        logs = logs_of(P, self.least_probability)
        z = np.einsum("m,nmk->nk", weights, logs) + self.offsets
        places = group_numbers(groups, self.groups, len(P), unknown=default is not ...)
        costs = np.asarray(self.action_costs)[places]
        expected = np.einsum("nk,nka->na", np.exp(z), costs)
        return self._answers(np.where(places < 0, -1, expected.argmin(axis=1)), default)

    def _check(self) -> None:
        """Raise ValueError unless every field has its type and range, because documents can be forged."""
        K = len(self.classes)
        n_groups, *shape = np.shape(self.action_costs)
        costs = np.ravel(self.action_costs).tolist()
        least = self.least_probability
        numbers = [*self.offsets, *self.weights.values(), *costs, least]
        is_valid = [
            all(type(number) in (int, float) and np.isfinite(number) for number in numbers),
            shape in ([K, K], [K, K + 1]),
            # Inferred groups are not among the groups of the rule.
            self.inferred is True or n_groups == len(self.groups or [None]),
            len(self.offsets) == K >= 2,
            type(self.inferred) is bool,
            0 < least < 1,
        ]
        if not all(is_valid):
            raise ValueError("a part has another type, shape or range")
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
        if self.inferred or len(self.weights) != 1:
            raise ValueError(NO_FORM)
        ((model, power),) = self.weights.items()
        if columns is None:
            columns = [f"{model}_{label}" for label in self.classes]
        if isinstance(columns, str) or len(set(columns)) != len(self.classes):
            raise ValueError(f"columns must be one for each of {self.classes}, got {columns!r}")
        P = [sql_column(name, table) for name in columns]
        tests = [f"{p} BETWEEN {-ROUNDED!r} AND {1 + ROUNDED!r}" for p in P]
        slack = len(P) * ROUNDED
        tests.append(f"{' + '.join(P)} BETWEEN {1 - slack!r} AND {1 + slack!r}")
        is_valid = " AND ".join(tests)
        masses = [p if power == 1.0 else f"power({p}, {power!r})" for p in P]
        factors = np.exp(self.offsets)[:, None]
        actions = [*self.classes, HUMAN_REVIEW]
        cases = []
        for condition, matrix in zip(
            self._conditions(group, table), self.action_costs, strict=True
        ):
            costs = [
                " + ".join(f"{c!r} * {mass}" for c, mass in zip(column, masses, strict=True))
                for column in (factors * np.asarray(matrix)).T.tolist()
            ]
            for action, cost in zip(actions, costs, strict=False):
                test = " AND ".join(f"{cost} <= {other}" for other in costs)
                answer = sql_value(str(action) if self.defers else action)
                cases.append(f"WHEN {is_valid} AND {condition}{test} THEN {answer}")
        return f"CASE {' '.join(cases)} END"

    def to_python(self, name: str = "decide") -> str:
        """Raise ValueError: only a rule on one score has source in Python."""
        raise ValueError(NO_FORM)

    def __str__(self) -> str:
        terms = " + ".join(f"{weight:.4g} log {name}" for name, weight in self.weights.items())
        action = f"label, or {HUMAN_REVIEW}," if self.defers else "label"
        words = f"the {action} of least expected cost by class and estimated group"
        if not self.inferred:
            costs = np.asarray(self.action_costs)
            words = self._of_groups([self._words(each, action) for each in costs])
        offsets = ", ".join(f"{offset:.4g}" for offset in self.offsets)
        return f"P ∝ exp({terms} + offsets {offsets})\n{words}"

    def _words(self, costs: Floats, action: str) -> str:
        """Return in words how action costs of one group, shape (K, actions), decide."""
        actions = [*self.classes, HUMAN_REVIEW]
        if len(self.classes) == 2:
            p = np.linspace(0.0, 1.0, PRINTED)
            cheapest = (np.column_stack([1.0 - p, p]) @ costs).argmin(axis=1)
            starts = np.flatnonzero(np.diff(cheapest, prepend=-1))
            band: Band = [(float(f"{p[i]:.4g}"), actions[cheapest[i]]) for i in starts]
            return range_words(f"P({self.classes[1]})", band)
        weight = costs[:, : len(self.classes)].max(axis=1) - np.diag(costs)
        pairs = zip(self.classes, weight, strict=True)
        words = joined([f"{label} {each:.4g}" for label, each in pairs], WEIGHTS_SHOWN)
        return f"the {action} of least expected cost; weights of the labels: {words}"


def stacked(
    probabilities: Mapping[str, Any], classes: Array, names: Sequence[str] | None = None
) -> Floats:
    """Return given probabilities by model as an array of shape (n, M, K); NaN for models that are left out.

    ``names`` are those of all M models, by default the given ones. The columns of a data frame are found by
    label.

    Raises
    ------
    ValueError, TypeError
        If a name is unknown, an array holds no probabilities of the classes, or numbers of rows differ.
    """
    if not has_named_columns(probabilities):
        raise TypeError(
            "probabilities must be a dict of arrays by name of a model, got "
            f"{probabilities!r:.80}"
        )
    names = names or list(probabilities)
    unknown = [name for name in probabilities if name not in names]
    if unknown:
        raise ValueError(
            f"probabilities: no model is called {unknown}; there are {names}. Columns of a "
            "table are given as a data frame, pd.DataFrame(columns)"
        )
    if not probabilities:
        raise ValueError("probabilities must be a dict of at least one model, got {}")
    n_rows = len(np.atleast_1d(np.asarray(next(iter(probabilities.values())))))
    P = np.full((n_rows, len(names), len(classes)), np.nan)
    for name, given in probabilities.items():
        argument = f"probabilities[{name!r}]"
        of_model = in_class_order(given, argument, classes)
        n_columns = np.shape(of_model)[1] if np.ndim(of_model) == 2 else 2
        if n_columns != len(classes):
            raise ValueError(
                f"{argument} has {n_columns} columns, but there are {len(classes)} classes: "
                "one column for each, in the order of `classes`"
            )
        P[:, names.index(name)] = check_probabilities(
            of_model, n_rows, argument, "the table", tolerance=ROUNDED
        )
    return P


# -- groups, defaults, and names in SQL ----------------------------------------------------------------------


def with_missing_group(columns: Mapping[Any, Any], known: Sequence[Any]) -> Mapping[Any, Any]:
    """Return columns of groups with 'missing' for missing entries, if this is a known group."""
    if MISSING_GROUP not in known:
        return columns
    filled = {}
    for title, column in columns.items():
        array = np.array(column, dtype=object)
        array[list(map(is_missing, array.tolist()))] = MISSING_GROUP
        filled[title] = array
    return filled


def group_numbers(
    groups: Groups,
    rule_groups: Sequence[Any] | None,
    n: int,
    column: Any = None,
    unknown: bool = False,
) -> Ints:
    """Return the number of the group of each row; 0 if ``rule_groups`` is None: a group-blind rule.

    Parameters
    ----------
    groups : column, or table of columns, optional
        The groups of the rows. Missing entries are the group 'missing' if the rule has a group of this name.
    rule_groups : sequence or None
        The groups of the rule.
    n : int
        Number of rows.
    column : str, int or None
        The name of the column that the rule reads, among several.
    unknown : bool, default=False
        Whether rows of other groups, or without a group, get the number −1; they are an error otherwise.
    """
    columns: Any = group_columns(groups, "groups")
    if columns and rule_groups is None:
        raise ValueError("groups are not used by the rule of this classifier: leave them out")
    if rule_groups is not None and not columns:
        raise ValueError(
            "groups are needed: the rule of this classifier reads them (by_group). Give "
            "groups=…"
        )
    if rule_groups is None or not n:
        return np.zeros(n, dtype=np.intp)
    columns = with_missing_group(columns, rule_groups)
    is_alone = len(columns) == 1 and None in (column, *columns)  # and needs no name
    if column not in columns and not is_alone:
        name = "one column" if column is None else f"the column {column!r}"
        raise ValueError(f"groups has the columns {list(columns)}: the rule reads {name}")
    entries = columns.get(column, next(iter(columns.values())))
    check_length(entries, "groups", n, "rows")
    if unknown:
        number = {group: place for place, group in enumerate(rule_groups)}
        labels = np.asarray(entries, dtype=object).tolist()
        return np.array([number.get(label, -1) for label in labels], dtype=np.intp)
    words = "groups" if column is None else f"groups column {column!r}"
    labels = label_column(entries, words)
    return positions(labels, np.asarray(rule_groups), words, "groups not seen in fit")


def sql_column(name: Any, table: str | None) -> str:
    """Return a column as SQL, of a table or its alias if one is named; a dot ends the name of a schema."""
    names = [] if table is None else table.split(".")
    return ".".join(_quoted(part, '"') for part in [*names, str(name)])


def sql_value(value: object) -> str:
    """Return a label or group as SQL."""
    if isinstance(value, bool):
        return str(value).upper()
    if isinstance(value, str):
        return _quoted(value, "'")
    if isinstance(value, int) and abs(value) >= 2**63:
        raise ValueError(
            f"SQL: {value} needs more than the 64 bits of databases; use the rule as JSON"
        )
    return repr(value)


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
