"""A decision rule on one score as thresholds: printed, as plain types, as SQL and as a Python function."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from keyword import iskeyword
from typing import Any, Self

import numpy as np

from tailboost.core.array_types import Array, Floats, Groups, Ints
from tailboost.core.checks import (
    MISSING_GROUP,
    as_pandas,
    check_format,
    no_groups,
    positions,
    reading,
)
from tailboost.core.html import html_details
from tailboost.core.score_kinds import SCORE_KINDS, ScoreKind, score_kind
from tailboost.core.spelling import listed
from tailboost.rows.other_groups import warn_of_other_groups
from tailboost.rows.subgroups import HUMAN_REVIEW, unit_name
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

# Rules of format 1 had no kind of score.
THRESHOLD_FORMAT = 2
FIELDS = ("column", "classes", "groups", "bands", "kind", "missing", "model", "group_column")
# More than the significant digits of a floating-point number, because two numbers may be close to 0.
DECIMAL_STEPS = 25
POWERS_OF_TEN = np.array([float(f"1e{k}") for k in range(300)])

Band = list[tuple[float | None, Any]]
"""The ranges of a group from the lowest: lower end, None for −∞, and action."""


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
    limits, file, groups_named
        As in `StoredRule`.
    """

    column: Any
    classes: list[Any]
    groups: list[Any] | None
    bands: list[Band]
    kind: str
    missing: float | None = None
    model: str | None = None
    group_column: Any = field(default=None, compare=False, repr=False)

    @classmethod
    def of_ranges(
        cls,
        scores: Any,
        classes: Sequence[Any],
        groups: Sequence[Any] | None,
        ranges: Sequence[Sequence[tuple[float, int]]],
    ) -> Self:
        """Return the rule of ranges of a `Scores`.

        Parameters
        ----------
        scores : Scores
            The column of scores.
        classes : sequence
            The labels.
        groups : sequence or None
            The groups with ranges of their own; None for one list of ranges.
        ranges : sequence of list of (float, int)
            For each group the lower ends of its ranges, ascending from −∞, with the numbers of their actions.
            Empty ranges are left out.
        """
        actions = [*classes, HUMAN_REVIEW]
        bands = []
        for group_ranges in ranges:
            band: Band = []
            uppers = [*(lower for lower, _ in group_ranges[1:]), np.inf]
            for (lower, action), upper in zip(group_ranges, uppers, strict=True):
                if lower < upper:
                    band.append((lower if lower > -np.inf else None, actions[action]))
            bands.append(band)
        return cls(
            scores.column_list[0],
            list(classes),
            None if groups is None else list(groups),
            bands,
            kind=scores.kind,
            missing=scores.missing,
            model=scores.made_by,
        )

    @property
    def _kind(self) -> ScoreKind:
        return SCORE_KINDS[self.kind]

    @property
    def defers(self) -> bool:
        """Whether rows may be deferred. A rule with a class "human review" answers this class instead."""
        return HUMAN_REVIEW in self.actions_in(None, None) and HUMAN_REVIEW not in self.classes

    def actions_in(self, column: Any, group: Any) -> set[Any]:
        """Return the possible actions of rows in one group of a column, for any score.

        For a column without influence on the rule, these are all actions of the rule.
        """
        bands = self.bands
        if self.groups is not None and column == self.group_column and group in self.groups:
            bands = [self.bands[self.groups.index(group)]]
        return {action for band in bands for _, action in band}

    @property
    def identity(self) -> Any:
        """The rule as plain values, for `digest_of_rule`."""
        plain = self.to_dict()
        del plain["group_column"]  # a name of groups has no effect on the answers
        return plain

    # -- answers -------------------------------------------------------------------------------------

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

        Warns
        -----
        UncertifiedGroupsWarning
            Counts the rows of a table in groups not named in the certificate.
        """
        table = as_pandas(score)
        score, groups = self._read(table, groups)
        missing = self.missing
        if missing is None and default is not ...:
            missing = np.nan
        scores = self._kind.checked(score, str(self.column), missing)
        warn_of_other_groups(self.groups_named, table, groups)
        if default is ...:
            places = group_numbers(groups, self.groups, len(scores), self.group_column)
            return self._actions(scores, places)

        has_answer = ~np.isnan(scores)
        places = np.zeros(len(scores), dtype=np.intp)
        if self.groups is None:
            group_numbers(groups, None, len(scores))  # refuses groups
        else:
            named, is_known = in_known_groups(
                groups, self.groups, len(scores), self.group_column
            )
            has_answer &= is_known
            places[is_known] = positions(named[is_known], self.groups, "groups")
        return answers_with_default(
            lambda rows: self._actions(scores[rows], places[rows]),
            has_answer,
            self.classes,
            default,
        )

    def _read(self, table: Any, groups: Groups) -> tuple[Any, Groups]:
        """Return the column of scores and the groups, from a table by the names of its columns."""
        names = (
            list(table) if isinstance(table, Mapping) else list(getattr(table, "columns", ()))
        )
        if self.column in names:
            score = table[self.column]
        elif len(names) == 1 and self.model is not None:
            score = table[names[0]]
        elif names:
            raise ValueError(
                f"score is a table without the column {self.column!r}, which the rule reads; it "
                f"has {listed(names)}"
            )
        else:
            score = table
            name = getattr(table, "name", None)
            if self.model is None and isinstance(name, str) and name not in ("", self.column):
                raise ValueError(
                    f"score is the column {name!r}, and the rule reads {self.column!r}; if they "
                    f"hold the same, give {name!r} without its name, by to_numpy()"
                )
        if np.ndim(score) > 1 and np.shape(score)[1] > 1:
            raise ValueError(
                f"score has {np.shape(score)[1]} columns; give the one of the score"
            )
        if isinstance(groups, str) and groups in names:
            groups = table[groups]
        if groups is None and self.groups is not None and names:
            if self.group_column not in names:
                raise ValueError(no_groups("the table", self.group_column, names))
            groups = {self.group_column: table[self.group_column]}
        if np.ndim(score) == 0 and groups is not None:  # one row
            groups = np.atleast_1d(groups)
        return np.ravel(score), groups

    def _actions(self, scores: Floats, places: Ints) -> Array:
        """Return the action of each row, shape (n,), from its score and the number of its group."""
        numbers = self.numbers(scores, places)
        if not self.defers:
            return np.asarray(self.classes)[numbers]
        return np.array([*self.classes, HUMAN_REVIEW], dtype=object)[numbers]

    def numbers(self, scores: Floats, place: Ints) -> Ints:
        """Return the number of each row's action: of its label, or the number of labels for deferral.

        Parameters
        ----------
        scores : ndarray of shape (n,)
            Scores within the range of `kind`.
        place : ndarray of int, shape (n,)
            Number of each row's group.
        """
        # A class "human review" has the number of the class, and replaces deferral.
        number_of_action = {HUMAN_REVIEW: len(self.classes)}
        number_of_action |= {label: k for k, label in enumerate(self.classes)}
        numbers = np.empty(len(scores), dtype=np.intp)
        for group_number, band in enumerate(self.bands):
            rows: Any = slice(None)  # one group has all rows
            if len(self.bands) > 1:
                rows = np.flatnonzero(place == group_number)
            thresholds = np.array([lower for lower, _ in band[1:]], dtype=np.float64)
            actions = np.array([number_of_action[action] for _, action in band], dtype=np.intp)
            numbers[rows] = actions[np.searchsorted(thresholds, scores[rows], side="right")]
        return numbers

    # -- other forms ---------------------------------------------------------------------------------

    def to_dict(self) -> dict[str, Any]:
        """Return the rule as plain types, for JSON."""
        return {
            "format": THRESHOLD_FORMAT,
            **{name: getattr(self, name) for name in FIELDS},
            "bands": [list(map(list, band)) for band in self.bands],
        }

    @classmethod
    def from_dict(cls, document: Any) -> Self:
        """Return the rule of a document from `to_dict`.

        Raises
        ------
        ValueError
            If the document describes no rule.
        """
        with reading("rule"):
            if "action_costs" in document:
                raise ValueError("it is a rule on probabilities: Rule.from_dict reads it")
            check_format(document["format"], THRESHOLD_FORMAT, "the rule", "select again")
            fields = {name: document[name] for name in FIELDS}
            fields["bands"] = [list(map(tuple, band)) for band in document["bands"]]
            rule = cls(**fields)
            rule._check()
        return rule

    def _check(self) -> None:
        """Raise ValueError unless every field has its type and range, because documents can be forged."""
        kind = score_kind(self.kind)
        check_names(self.classes, self.groups)
        names = (self.column, self.model, self.group_column)
        if not all(isinstance(name, (str, int, float, type(None))) for name in names):
            raise ValueError("the name of a column or model is no text or number")
        kind.check_missing(self.missing)
        # 1, 1.0 and True are equal, and different labels.
        actions = {(type(action), action) for action in (*self.classes, HUMAN_REVIEW)}
        for (first, _), *higher in self.bands:
            ends: Any = [lower for lower, _ in higher]
            in_range = all(kind.contains(end) and end > kind.lower for end in ends)
            if first is not None or not in_range or not (np.diff(ends) > 0).all():
                raise ValueError(f"thresholds must ascend from null, and each be a {kind.name}")
        if {(type(action), action) for band in self.bands for _, action in band} - actions:
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
        score = sql_column(self.column if column is None else column, table)
        if self.missing is not None:
            score = f"COALESCE({score}, {self.missing!r})"
        column_of_groups = ""
        if self.groups is not None:
            group = self.group_column if group is None else group
            if group is None:
                raise ValueError("group= is needed: the rule reads the row's group")
            column_of_groups = sql_column(group, table)
        cases = []
        for name, band in zip(self.groups or [None], self.bands, strict=True):
            condition = ""
            if self.groups is not None:
                condition = sql_of_group(self.groups, name, column_of_groups)
            upper = self._kind.most
            for lower, action in reversed(band):
                least = self._kind.least if lower is None else lower
                # A column has one type: labels are text beside deferral.
                answer = sql_value(str(action) if self.defers else action)
                cases.append(
                    f"WHEN {condition}{score} BETWEEN {least!r} AND {upper!r} THEN {answer}"
                )
                upper = least
        return f"CASE {' '.join(cases)} END"

    def to_python(self, name: str = "decide") -> str:
        """Return the source of a Python function of one score (and group), without imports.

        The function raises an error for what `predict` refuses: text, a score outside the range of `kind` or
        none, an unknown group. None is the group 'missing' if the rule has one.
        """
        if not name.isidentifier() or iskeyword(name):
            raise ValueError(f"name={name!r} is no name of a function")
        kind = self._kind
        bands = dict(zip(self.groups or [None], self.bands, strict=True))
        lines = [f"def {name}(score, group=None):", f"    {str(self)!r}"]
        if self.missing is not None:
            lines += [
                "    if score is None or score != score:",
                f"        score = {self.missing!r}",
            ]
        if self.groups is not None and MISSING_GROUP in self.groups:
            lines += [
                "    if group is None or group != group:",
                f"        group = {MISSING_GROUP!r}",
            ]
        lines += [
            "    if type(score).__module__ == 'numpy':  # a float32 is the decimal that it prints",
            "        score = float(str(score))",
            "    if isinstance(score, (bool, str)):",
            "        raise TypeError(f'the score {score!r} is no number')",
            f"    if score is None or not {kind.least!r} <= score <= {kind.most!r}:",
            f"        raise ValueError(f'the score {{score!r}} is none of the {kind.plural}')",
            f"    bands = {bands!r}",
            "    if group not in bands:",
            "        raise ValueError(f'group {group!r} is unknown')",
            "    for lower, action in reversed(bands[group]):",
            "        if lower is None or score >= lower:",
            "            return action",
        ]
        return "\n".join(lines) + "\n"

    @property
    def short(self) -> list[str]:
        """The score, and the lines of the rule."""
        return [f"the score {self.column}", *str(self).splitlines()]

    def __str__(self) -> str:
        lines = []
        for name, band in zip(self.groups or [None], self.bands, strict=True):
            words = range_words(str(self.column), band)
            lines.append(words if self.groups is None else f"{unit_name(name)}: {words}")
        if self.model is not None:
            lines.append(f"{self.column} is P({self.classes[1]}) of {self.model}")
        return "\n".join(lines)

    def _repr_html_(self) -> str:
        return html_details("Decision rule", str(self))


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


def ranges_between(values: Floats, actions: Ints) -> list[tuple[float, int]]:
    """Return ranges with one action each: lower ends, ascending from −∞, with numbers of actions.

    ``actions`` has the number of the action at each of the ascending ``values``, shape (n,). A lower end is
    the shortest decimal between two neighbouring values with different actions.
    """
    changes = np.flatnonzero(actions[1:] != actions[:-1])
    thresholds = decimals_between(values[changes], values[changes + 1])
    return [
        (-np.inf, int(actions[0])),
        *zip(thresholds.tolist(), actions[changes + 1].tolist(), strict=True),
    ]


def decimals_between(low: Floats, high: Floats) -> Floats:
    """Return the shortest decimal strictly between two numbers, shape (m,).

    Among equally short decimals, the one nearest to the middle is returned. Without a floating-point number
    between, the result is the larger number: a range contains its lower end.

    Parameters
    ----------
    low, high : ndarray of shape (m,)
        The pairs of numbers. For equal numbers the result is this number.
    """
    middle = low / 2 + high / 2
    result = high.astype(np.float64)
    with np.errstate(divide="ignore"):
        coarsest = np.floor(np.log10(np.maximum(np.abs(low), np.abs(high)))) + 1.0
    open_pairs = np.flatnonzero(low < high)
    for n_finer in range(DECIMAL_STEPS):
        exponent = coarsest[open_pairs].astype(np.intp) - n_finer
        power = POWERS_OF_TEN[np.abs(exponent).clip(max=len(POWERS_OF_TEN) - 1)]
        m = middle[open_pairs]
        # The middle rounded to a multiple of 10^exponent; + 0.0 makes −0.0 a 0.0.
        rounded = np.where(exponent < 0, np.rint(m * power) / power, np.rint(m / power) * power)
        decimal = rounded + 0.0
        inside = (low[open_pairs] < decimal) & (decimal < high[open_pairs])
        result[open_pairs[inside]] = decimal[inside]
        open_pairs = open_pairs[~inside]
    return result
