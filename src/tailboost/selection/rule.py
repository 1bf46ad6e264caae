"""Decision rules by thresholds on a score or weights of probabilities: answers, words, JSON, SQL, Python."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import field, fields
from itertools import chain, pairwise
from keyword import iskeyword
from typing import Any, ClassVar, Self

import numpy as np

from tailboost.core import (
    ROUNDED,
    SCORE_KINDS,
    Array,
    Document,
    Floats,
    Groups,
    Ints,
    Labels,
    Name,
    Steps,
    Table,
    as_pandas,
    check_indexes,
    check_length,
    check_probabilities,
    columns_of,
    frozen_value,
    has_named_columns,
    in_class_order,
    joined,
    least_type,
    listed,
    migrated,
    n_rows_of,
    reading,
    score_kind,
)
from tailboost.rows import HUMAN_REVIEW, MISSING_GROUP, group_columns, group_numbers
from tailboost.selection.forms import SOURCE, range_words, sql_case, sql_column, words_of_groups

# Least probability. A class of probability 0 must still be predicted if its class weight is large enough.
LEAST_PROBABILITY = 1e-6

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

Band = list[tuple[float | None, Name]]
"""The ranges of a group from the lowest: lower end, None for −∞, and action."""
Range = tuple[float, float, Name]
"""The least and the largest score of a range, and its action. The first range with a score decides."""


# -- documents and answers of both forms ---------------------------------------------------------------------


@frozen_value
class StoredRule:
    """The document of a rule, whatever its form."""

    #: A rule alone has no certificate.
    certificate_: ClassVar[None] = None
    #: The format of documents, and the steps from earlier ones. Format 1 is not read any more.
    FORMAT: ClassVar[int] = 2
    STEPS: ClassVar[Steps] = {}

    def to_dict(self) -> Document:
        """Return the rule as plain types, for JSON."""
        return {"format": self.FORMAT, **vars(self)}

    def to_json(self) -> str:
        """Return `to_dict` as JSON, which `tailboost.load_rule` reads from a file."""
        return json.dumps(self.to_dict())

    @classmethod
    def from_dict(cls, document: Document) -> Self:
        """Return the rule of a document from `to_dict`.

        Raises
        ------
        ValueError
            If the document describes no rule: a field is missing or invalid.
        """
        with reading("rule"):
            document = migrated(
                dict(document), cls.FORMAT, cls.STEPS, "the rule", "select again"
            )
            parts = {each.name: document[each.name] for each in fields(cls)}
            if "bands" in parts:
                parts["bands"] = [list(map(tuple, band)) for band in parts["bands"]]
            rule = cls(**parts)
            rule._check()
        return rule

    def _check(self) -> None:
        """Raise ValueError unless every field has its type and range, because documents can be forged."""


def _check_names(*columns: Any) -> None:
    """Raise ValueError unless labels and groups are lists of different names of one type."""
    for names in columns:
        if names is None:
            continue
        types = set(map(type, names))  # True and 1.0 are no 1
        is_list = isinstance(names, list) and len(types) == 1
        if not (is_list and types <= PLAIN and len(set(names)) == len(names)):
            raise ValueError(
                f"labels and groups must be texts or numbers, different and of one type, got {names}"
            )


def _answers(
    rule: ThresholdRule | Rule, values: Floats, groups: Groups, table: Table, default: Any
) -> Labels:
    """Return the actions of rows with these values of `numbers`, the default for those without one."""
    check_default(default, rule.classes)
    has_default = default is not ...
    columns = group_columns(groups, "groups", table)
    others = -1 if has_default else None
    place = group_numbers(columns, rule.groups, len(values), rule.group_column, others=others)
    numbers = rule.numbers(values, place)
    if rule.defers or has_default:
        answers = [*rule.classes, HUMAN_REVIEW, default]  # of the number −1 the last one
        return np.array(answers, dtype=object)[numbers]
    return np.asarray(rule.classes)[numbers]


def check_default(default: Any, classes: Sequence[Name]) -> None:
    """Raise ValueError unless the answer to rows without another one is an action, None or not stated."""
    if default not in (*classes, HUMAN_REVIEW, None, ...):
        raise ValueError(
            f"default={default!r} is no answer of this rule: give one of {classes}, "
            f"{HUMAN_REVIEW!r} or None"
        )


# -- thresholds on a score -----------------------------------------------------------------------------------


def _high_labels(bands: Sequence[Band], classes: Sequence[Name]) -> list[Name]:
    """Return the highest label of each group that is answered above the lowest range."""
    higher = [[action for _, action in band[1:] if action in classes] for band in bands]
    return [labels[-1] for labels in higher if labels]


def _with_label(document: Document) -> Document:
    """Return the document of a rule by thresholds in format 3, which names the label of the score."""
    labels = _high_labels(document["bands"], document["classes"])
    if document["model"] is not None:
        labels = document["classes"][1:]
    return {**document, "format": 3, "label": labels[0] if labels else None}


@frozen_value
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
        The model for the score, its probability of ``label``; None for a column of scores.
    group_column : str, int or None
        The column of the groups of a group-aware rule, if it has a name.
    label : label or None
        The label of high scores; None if the document of an earlier version does not show it.
    """

    column: str | int
    classes: list[Name]
    groups: list[Name] | None
    bands: list[Band]
    kind: str
    missing: float | None = None
    model: str | None = None
    group_column: Any = field(default=None, compare=False, repr=False)
    label: Name | None = None

    FORMAT: ClassVar[int] = 3
    STEPS: ClassVar[Steps] = {2: _with_label}

    @property
    def identity(self) -> Document:
        """The rule as plain values, for `Decision.digest`: as format 2 has it, so digests in files stay."""
        document = {**self.to_dict(), "format": 2}
        del document["label"]  # the scores that the rule reads have it
        return document

    @property
    def defers(self) -> bool:
        """Whether rows may be deferred. A rule with a class "human review" answers this class instead."""
        return HUMAN_REVIEW in {action for _, action in chain(*self.bands)} - {*self.classes}

    def actions_in(self, column: Name | None, group: Name | None) -> set[Name]:
        """Return the possible actions of rows in one group of a column, for any score.

        For a column without influence on the rule, these are all actions of the rule.
        """
        bands = self.bands
        names = self.groups or []
        if column == self.group_column and group in names:
            bands = [bands[names.index(group)]]
        return {action for _, action in chain(*bands)}

    def predict(self, score: Table, groups: Groups = None, *, default: Any = ...) -> Array:
        """Return the action of each row: a label, or "human review".

        Parameters
        ----------
        score : array-like of shape (n,), number or table
            The score, which grows with the probability of ``label``. In a table of named columns the rule
            reads `column` and `group_column`.
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
        table = column = as_pandas(score)
        names = columns_of(table)
        if names:
            needed = [self.column]
            if groups is None and self.groups is not None:
                groups = self.group_column
                needed.append(groups)
            absent = [name for name in needed if name not in names]
            if absent:
                raise ValueError(
                    f"score is a table without the column {absent[0]!r}, which the rule reads; "
                    f"it has {listed(names)} (groups may be given by groups=)"
                )
            column = table[self.column]
            if np.isscalar(groups) and groups in names:
                groups = table[groups]
        if np.ndim(column) > 1 and np.shape(column)[1] > 1:
            raise ValueError(
                f"score has {np.shape(column)[1]} columns; give the one of the score"
            )
        if np.ndim(column) == 0 and np.isscalar(groups):  # one row
            groups = np.atleast_1d(groups)
        missing = self.missing
        if missing is None and default is not ...:
            missing = np.nan
        scores = SCORE_KINDS[self.kind].checked(np.ravel(column), self.column, missing)
        return _answers(self, scores, groups, table, default)

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
        numbers = np.full(len(scores), -1, least_type(2 * len(actions)))
        ranges, _ = self._ranges(self.label)
        for group_number, of_group in enumerate(ranges.values()):
            rows = np.flatnonzero(place == group_number)
            for least, _, action in reversed(of_group):
                numbers[rows[scores[rows] >= least]] = actions.index(action)
        return numbers

    def _check(self) -> None:
        """Raise ValueError unless every field has its type and range, because documents can be forged."""
        _check_names(self.classes, self.groups)
        kind = score_kind(self.kind)
        kind.check_missing(self.missing)
        for (first, _), *higher in self.bands:
            ends: Any = [lower for lower, _ in higher]
            in_range = all(kind.contains(end) and end > kind.lower for end in ends)
            if first is not None or not in_range or sorted(set(ends)) != ends:
                raise ValueError(f"thresholds must ascend from null, and each be a {kind.name}")
        # As text, because 1, 1.0 and True are equal, and different labels.
        answers = map(repr, (*self.classes, HUMAN_REVIEW))
        if {repr(action) for _, action in chain(*self.bands)}.difference(answers):
            raise ValueError("an action is neither a label nor human review")
        if len(self.bands) != len(self.groups or [None]):
            raise ValueError("bands must be given for each group")
        high = set(_high_labels(self.bands, self.classes))
        if self.label is not None and high - {self.label}:
            raise ValueError(f"label={self.label!r} is not the label of high scores")

    def _ranges(self, label: Name | None) -> tuple[dict[Name, list[Range]], float | None]:
        """Return the ranges of the scores of a label by group, and the score of rows without one.

        The only group of a group-blind rule is None. The rule's highest range is first. Two neighbours share
        an end, which belongs to the first of them. Of the other one of two labels scores fall where the
        rule's grow, so ranges are turned. Raise ValueError if the label is not stated, or if its scores do
        not decide.
        """
        kind, missing = SCORE_KINDS[self.kind], self.missing
        read: Callable[[Any], float] = float
        highest, lowest = kind.most, kind.least
        if label != self.label:
            if label not in self.classes:
                raise ValueError(
                    f"label={label!r}: state the label whose probability the score is, one of "
                    f"{self.classes}; {self.column!r} is that of {self.label!r}"
                )
            if self.kind == "number" or self.label is None or len(self.classes) > 2:
                raise ValueError(
                    f"label={label!r}: its scores do not decide, because the rule reads "
                    f"{kind.plural} of {self.label!r}"
                )
            read, highest, lowest = kind.turned, lowest, highest
            missing = None if missing is None else read(missing)
        ranges: dict[Name, list[Range]] = {}
        for group, band in zip(self.groups or [None], self.bands, strict=True):
            ends = [lowest, *(read(lower) for lower, _ in band[1:]), highest]
            pairs = zip(pairwise(ends), band, strict=True)
            of_group = [(min(pair), max(pair), action) for pair, (_, action) in pairs]
            ranges[group] = of_group[::-1]
        return ranges, missing

    def to_sql(
        self,
        column: str | int | None = None,
        group: str | None = None,
        *,
        label: Name | None = None,
        table: str | None = None,
    ) -> str:
        """Return the action as an SQL expression; NULL for rows refused by `predict`.

        These are rows without score, with a score outside the range of `kind`, or of an unknown group. A
        group of NULL is the group 'missing' if the rule has one. A score of NULL is the score ``missing`` if
        the rule has one.

        Parameters
        ----------
        column : str, optional
            Column of numbers with the score; by default `column`. The column needs the precision of the
            selection data: a single-precision column (FLOAT) may have other answers at a threshold.
        group : str, optional
            Column of the group, for a group-aware rule; by default `group_column`.
        label : label, optional
            The label whose score the column has. By default it is `label`; a column with another name than
            `column` needs it. Of two labels either one is possible, but not of kind
            "number": the expression for the other label has turned ranges. A column of 1 − p has lost
            digits of a p below 1/2, so rows within 2⁻⁵³ of a threshold may get the answer beside it.
        table : str, optional
            Name or alias of the table in the query. A dot ends the name of its schema: ``"main.loans"``.

        Returns
        -------
        str

        Raises
        ------
        ValueError
            If ``group`` or ``label`` is missing or unknown, or a name or label contains a backslash.
        """
        if column is None:
            column = self.column
        if group is None:
            group = self.group_column
        if label is None and column == self.column:
            label = self.label
        ranges, missing = self._ranges(label)
        score = sql_column(column, table)
        if missing is not None:
            score = f"COALESCE({score}, {missing!r})"
        tests = {
            name: [(f"{score} BETWEEN {least!r} AND {most!r}", to) for least, most, to in each]
            for name, each in ranges.items()
        }
        return sql_case(tests, group, table, as_text=self.defers)

    def to_python(self, name: str = "decide", *, label: Name | None = None) -> str:
        """Return the source of a Python function of one score (and group), without imports.

        The function raises an error for what `predict` refuses: text, a score outside the range of `kind` or
        none, an unknown group. None is the group 'missing' if the rule has one.

        Parameters
        ----------
        name : str, default="decide"
            The name of the function.
        label : label, optional
            The label whose score it gets, as in `to_sql`; a model's rule needs it.
        """
        if not name.isidentifier() or iskeyword(name):
            raise ValueError(f"name={name!r} is no name of a function")
        if label is None and self.model is None:
            label = self.label
        ranges, missing = self._ranges(label)
        words = str(self)
        if label != self.label:
            words += f"\nscore is that of {label}"
        return SOURCE.format(
            name=name,
            words=words,
            missing=missing,
            missing_group=MISSING_GROUP if MISSING_GROUP in ranges else None,
            kind=SCORE_KINDS[self.kind],
            ranges=ranges,
        )

    def __str__(self) -> str:
        bands = [range_words(str(self.column), band) for band in self.bands]
        words = words_of_groups(self.groups, bands)
        if self.model is None:
            return words
        return f"{words}\n{self.column} is P({self.label}) of {self.model}"


# -- weights of probabilities --------------------------------------------------------------------------------


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
    """

    classes: list[Name]
    groups: list[Name] | None
    weights: dict[str, float]
    offsets: list[float]
    action_costs: list[list[list[float]]]
    inferred: bool = False
    least_probability: float = LEAST_PROBABILITY

    #: No single score decides.
    label: ClassVar[None] = None
    #: The groups of rows are one column of any name.
    group_column: ClassVar[None] = None

    @property
    def defers(self) -> bool:
        """Whether rows may be deferred."""
        return len(self.action_costs[0][0]) > len(self.classes)

    def actions_in(self, column: Name | None, group: Name | None) -> set[Name]:
        """Return the actions that a row of a group of a column may get: all, whatever the group."""
        return {*self.classes, HUMAN_REVIEW} if self.defers else {*self.classes}

    @property
    def identity(self) -> Document:
        """The rule as plain values, for `Decision.digest`: nine digits, without errors of other machines."""
        return json.loads(self.to_json(), parse_float=lambda number: f"{float(number):.9g}")

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
        return _answers(self, z, groups, probabilities, default)

    def numbers(self, z: Floats, place: Ints) -> Ints:
        """Return the number of each row's action: of its label, or the number of labels for deferral.

        Parameters
        ----------
        z : ndarray of shape (n, K)
            Logarithms of the probabilities, up to a constant of the row.
        place : ndarray of int, shape (n,)
            Number of each row's group; −1 of a row without an answer, which has the number −1.
        """
        costs = np.asarray(self.action_costs)[place]
        expected = np.einsum("nk,nka->na", np.exp(z), costs)
        return np.where(place < 0, -1, expected.argmin(axis=1))

    def _check(self) -> None:
        """Raise ValueError unless every field has its type and range, because documents can be forged."""
        _check_names(self.classes, self.groups)
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
            If the rule averages several models or estimates groups, ``columns`` are not one for each label,
            ``label`` or ``group`` is missing, or a name or label contains a backslash.
        """
        if self.inferred or len(self.weights) != 1:
            raise ValueError(NO_FORM)
        ((model, power),) = self.weights.items()
        if columns is None:
            label, columns = self.classes, [f"{model}_{label}" for label in self.classes]
        by_label = dict(zip(np.ravel(label).tolist(), columns, strict=False))
        if {*by_label} != {*self.classes} or len({*columns}) != len(self.classes):
            raise ValueError(
                f"columns must be one for each of {self.classes}, and label= the label of each, "
                f"in their order; got {columns!r} and label={label!r}"
            )
        P = [sql_column(by_label[each], table) for each in self.classes]
        slack = len(P) * ROUNDED
        are_valid = [f"{p} BETWEEN {-ROUNDED!r} AND {1 + ROUNDED!r}" for p in P]
        are_valid.append(f"{' + '.join(P)} BETWEEN {1 - slack!r} AND {1 + slack!r}")
        masses = [p if power == 1.0 else f"power({p}, {power!r})" for p in P]
        costs_of_groups = np.asarray(self.action_costs) * np.exp(self.offsets)[:, None]
        tests = {}
        for name, costs in zip(self.groups or [None], costs_of_groups, strict=True):
            expected = [
                " + ".join(f"{c!r} * {mass}" for c, mass in zip(each, masses, strict=True))
                for each in costs.T.tolist()
            ]
            are_least = [
                " AND ".join([*are_valid, *(f"{c} <= {d}" for d in expected)]) for c in expected
            ]
            tests[name] = list(zip(are_least, [*self.classes, HUMAN_REVIEW], strict=False))
        return sql_case(tests, group, table, as_text=self.defers)

    def to_python(self, name: str = "decide", *, label: Name | None = None) -> str:
        """Raise ValueError: only a rule on one score has source in Python."""
        raise ValueError(NO_FORM)

    def __str__(self) -> str:
        terms = " + ".join(f"{weight:.4g} log {name}" for name, weight in self.weights.items())
        offsets = ", ".join(f"{offset:.4g}" for offset in self.offsets)
        action = f"label, or {HUMAN_REVIEW}," if self.defers else "label"
        words = f"the {action} of least expected cost by class and estimated group"
        if not self.inferred:
            costs = np.asarray(self.action_costs)
            words = words_of_groups(self.groups, [self._words(each, action) for each in costs])
        return f"P ∝ exp({terms} + offsets {offsets})\n{words}"

    def _words(self, costs: Floats, action: str) -> str:
        """Return in words how action costs of one group, shape (K, actions), decide."""
        if len(self.classes) == 2:
            p = np.linspace(0.0, 1.0, PRINTED)
            cheapest = (np.column_stack([1.0 - p, p]) @ costs).argmin(axis=1)
            starts = np.flatnonzero(np.diff(cheapest, prepend=-1))
            actions = [*self.classes, HUMAN_REVIEW]
            band: Band = [(float(f"{p[i]:.4g}"), actions[cheapest[i]]) for i in starts]
            return range_words(f"P({self.classes[1]})", band)
        weight = costs[:, : len(self.classes)].max(axis=1) - np.diag(costs)
        pairs = zip(self.classes, weight, strict=True)
        words = joined([f"{label} {each:.4g}" for label, each in pairs], WEIGHTS_SHOWN)
        return f"the {action} of least expected cost; weights of the labels: {words}"


# -- given probabilities -------------------------------------------------------------------------------------


def stacked(
    probabilities: Mapping[str, Table], classes: Array, names: Sequence[str] | None = None
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
    check_indexes(probabilities=probabilities)
    n_rows = n_rows_of(probabilities)
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
        check_length(of_model, argument, n_rows, "the table")
        P[:, names.index(name)] = check_probabilities(of_model, argument, ROUNDED)
    return P


def logs_of(probabilities: Floats, smallest: float = LEAST_PROBABILITY) -> Floats:
    """Return the logarithms of probabilities, shape (…, K); smaller ones are raised to ``smallest``."""
    P = probabilities.clip(min=0.0)
    return np.log(np.maximum(P / P.sum(axis=-1, keepdims=True), smallest))
