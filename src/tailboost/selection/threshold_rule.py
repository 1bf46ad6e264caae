"""A decision rule on one score as thresholds: printed, as plain types, as SQL and as a Python function."""

from __future__ import annotations

import keyword
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, Self

import numpy as np

from tailboost.core.array_types import Array, Floats, Groups, Ints, Labels, SqlColumns
from tailboost.core.checks import (
    MISSING_GROUP,
    as_pandas,
    check_format,
    columns_by_name,
    no_groups,
    positions,
    reading,
    refuse_missing,
    with_missing_group,
)
from tailboost.core.html import html_table
from tailboost.core.score_kinds import SCORE_KINDS, ScoreKind, score_kind
from tailboost.core.spelling import as_typed, listed, with_known_arguments
from tailboost.rows.other_groups import warn_of_other_groups
from tailboost.rows.subgroups import HUMAN_REVIEW, unit_name
from tailboost.selection.rule_forms import (
    StoredRule,
    answers_by_default,
    answers_with_default,
    are_different,
    check_sql_form,
    group_numbers,
    in_known_groups,
    known_label,
    sql_by_group,
    sql_comment,
    sql_number,
    sql_value,
    with_other_group,
)

# Rules of format 1 had no kind of score.
THRESHOLD_FORMAT = 2
# More than the significant digits of a floating-point number, because two numbers may be close to 0.
DECIMAL_STEPS = 25
OTHER_GROUPS = "give default=, the answer to rows of other groups"
DEFAULT_OPTION = "--default of tailboost predict is the answer to rows of other groups"
POWERS_OF_TEN = np.array([float(f"1e{k}") for k in range(300)])


@dataclass(frozen=True, eq=False)
class RowsToAnswer:
    """The rows of a call of a rule on one score."""

    scores: Floats  # shape (n,): checked
    groups: Any  # of the rows: a column, or a table of columns; None if none are given
    # The columns of the given table of which the certificate names groups, also those the rule does not read.
    further: dict[Any, Any]


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
    bands: list[list[tuple[float | None, Any]]]
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
            band: list[tuple[float | None, Any]] = []
            uppers = [*(lower for lower, _ in group_ranges[1:]), np.inf]
            for (lower, action), upper in zip(group_ranges, uppers, strict=True):
                if lower >= upper:
                    continue
                if lower > -np.inf:
                    band.append((lower, actions[action]))
                else:
                    band.append((None, actions[action]))
            bands.append(band)
        if groups is not None:
            groups = list(groups)
        column = scores.column_list[0]
        return cls(
            column,
            list(classes),
            groups,
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
        actions = {action for band in self.bands for _, action in band}
        return HUMAN_REVIEW in actions and HUMAN_REVIEW not in self.classes

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

    def _scores(self, score: Any, may_lack: bool) -> Floats:
        """Return the scores, checked, shape (n,); NaN of rows without one, if rows ``may_lack`` it."""
        shape = np.shape(score)
        if len(shape) > 1 and shape[1] != 1:
            raise ValueError(f"score has {shape[1]} columns; give one: {self._call}")
        if self.model is None:
            refuse_other_name(score, "score", self.column)
        missing = self.missing
        if missing is None and may_lack:
            missing = np.nan
        return self._kind.checked(np.ravel(score), str(self.column), missing)

    @property
    def _call(self) -> str:
        """How `predict` is called with a table."""
        score = f"table[{self.column!r}]"
        if self.model is not None:
            score = "model.predict_proba(table)[:, 1]"
        if self.groups is None:
            return f"rule.predict({score})"
        column = "column of groups" if self.group_column is None else self.group_column
        return f"rule.predict({score}, groups=table[{column!r}])"

    def _given(self, score: Any, groups: Any, *, may_lack: bool = False) -> RowsToAnswer:
        """Return the columns of the score and of the groups, taken by name from a table or a row.

        A table is a data frame, a dict or a list of dicts. A row is a dict or a Series of its values. Rows
        without a score are an error, unless rows ``may_lack`` it.
        """
        table = _as_columns(score)
        names = self._names_in(table)
        if names is None:
            score = table
            self._refuse_no_groups(table, getattr(table, "columns", ()), groups)
        elif self.column in names:
            score = table[self.column]
            self._refuse_no_groups(table, names, groups)
            if groups is None and self.groups is not None and self.group_column in names:
                column = table[self.group_column]
                if np.ndim(column) == 0:  # one row; its group may be None
                    column = [column]
                groups = {self.group_column: column}
            elif isinstance(groups, str) and groups in names:
                groups = table[groups]
        else:
            raise ValueError(
                f"score is a table without the column {self.column!r}, which the rule "
                f"reads; it has {listed(list(names))}. Give the score: {self._call}"
            )
        if np.ndim(score) == 0:  # one row
            score = [score]
            if groups is not None and np.ndim(groups) == 0 and not isinstance(groups, Mapping):
                groups = [groups]
        further = {name: table[name] for name in names or () if name in self.groups_named}
        return RowsToAnswer(self._scores(score, may_lack), groups, further)

    def _refuse_no_groups(self, table: Any, names: Sequence[Any], groups: Groups) -> None:
        """Raise ValueError if a table or row with columns ``names`` lacks the rule's column of groups."""
        if groups is not None or self.groups is None or self.group_column is None:
            return
        if len(names) and self.group_column not in names:
            owner = "the table"
            if self.column in names and np.ndim(table[self.column]) == 0:
                owner = "the row"
            raise ValueError(no_groups(owner, self.group_column, names))

    def _names_in(self, table: Any) -> Sequence[Any] | None:
        """Return the names of the columns of a table or of the values of a row; None for a column."""
        if isinstance(table, Mapping):
            return list(table)
        columns = getattr(table, "columns", ())
        if len(columns) > 1:
            return list(columns)
        is_row = hasattr(table, "iloc") and isinstance(self.column, str) and not len(columns)
        if is_row and self.column in table.index:
            return list(table.index)
        return None

    def _groups(self, groups: Groups) -> Any:
        """Return the rule's column of groups, of one or several named columns.

        Groups without names, and groups for a group-blind rule, are returned unchanged.
        """
        groups = with_missing_group(groups, self.groups)
        if groups is None or self.groups is None or self.group_column is None:
            return groups
        columns = columns_by_name(groups, "groups")
        if self.group_column in columns:
            own_column = columns[self.group_column]
            cure = as_typed(OTHER_GROUPS, DEFAULT_OPTION)
            name = f"groups column {self.group_column!r}"
            refuse_missing(own_column, name, f"drop their rows, or {cure}")
            return own_column
        if len(columns) == 1:
            refuse_other_name(groups, "groups", self.group_column)
        if None in columns:
            return groups
        raise ValueError(
            f"groups has no column {self.group_column!r}, which the rule reads; it has "
            f"{listed(list(columns))}"
        )

    def _places(self, rows: RowsToAnswer) -> Ints:
        """Return the number of each row's group, shape (n,)."""
        cure = as_typed(OTHER_GROUPS, DEFAULT_OPTION)
        groups = self._groups(rows.groups)
        return group_numbers(groups, self.groups, len(rows.scores), "score", cure)

    @with_known_arguments(missing="default= is the answer to rows without a score; ")
    def predict(self, score: Any, groups: Groups = None, *, default: Any = ...) -> Array:
        """Return the action of each row: a label, or "human review".

        Parameters
        ----------
        score : array-like of shape (n,), number, table or row
            The score. In a data frame, a dict, a Series of one row or a list of dicts, the rule reads
            `column` and `group_column`: ``rule.predict({"score": 0.7, "site": "a"})``.
        groups : array-like of shape (n,), or table of one column, optional
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
        if default is not ...:
            return self._with_default(self._given(score, groups, may_lack=True), default)
        rows = self._given(score, groups)
        places = self._places(rows)
        warn_of_other_groups(self.groups_named, rows.further, rows.groups)
        return self._actions(rows.scores, places)

    def _with_default(self, rows: RowsToAnswer, default: Any) -> Labels:
        """Return the action of each row, the default for rows without a score or a known group."""
        has_answer = ~np.isnan(rows.scores)
        if self.groups is None:
            places = self._places(rows)
            warn_of_other_groups(self.groups_named, rows.further, rows.groups)
        else:
            groups = self._groups(with_other_group(rows.groups, self.groups))
            column, is_known = in_known_groups(groups, self.groups, len(rows.scores))
            has_answer &= is_known
            places = np.full(len(column), -1)
            places[is_known] = positions(column[is_known], self.groups, "groups")
        return answers_with_default(
            lambda numbers: self._actions(rows.scores[numbers], places[numbers]),
            has_answer,
            self.classes,
            default,
        )

    def _actions(self, scores: Floats, places: Ints) -> Array:
        """Return the action of each row, shape (n,), from its score and the number of its group."""
        numbers = self.numbers(scores, places)
        if not self.defers:
            return np.asarray(self.classes)[numbers]
        actions = np.empty(len(self.classes) + 1, dtype=object)
        actions[:] = [*self.classes, HUMAN_REVIEW]
        return actions[numbers]

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
            scores_of_group = scores[rows]
            band_of_row = np.zeros(len(scores_of_group), dtype=np.intp)
            thresholds = np.array([lower for lower, _ in band[1:]], dtype=np.float64)
            for threshold in thresholds:  # few: counting takes less time than a search
                band_of_row += scores_of_group >= threshold
            actions = np.array([number_of_action[action] for _, action in band], dtype=np.intp)
            numbers[rows] = actions[band_of_row]
        return numbers

    def margin(self, score: Any, groups: Groups = None) -> Floats:
        """Return the distance of each score to the nearest threshold, shape (n,); ∞ without thresholds."""
        rows = self._given(score, groups)
        places = self._places(rows)
        distance = np.full(len(places), np.inf)
        for number, band in enumerate(self.bands):
            in_group = places == number
            for threshold, _ in band[1:]:
                to_threshold = np.abs(rows.scores[in_group] - threshold)
                distance[in_group] = np.minimum(distance[in_group], to_threshold)
        return distance

    # -- other forms ---------------------------------------------------------------------------------

    def to_dict(self) -> dict[str, Any]:
        """Return the rule as plain types, for JSON."""
        return {
            "format": THRESHOLD_FORMAT,
            "column": self.column,
            "classes": self.classes,
            "groups": self.groups,
            "bands": [list(map(list, band)) for band in self.bands],
            "kind": self.kind,
            "missing": self.missing,
            "model": self.model,
            "group_column": self.group_column,
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
            if "parts" in document:
                raise ValueError("it is a rule on probabilities: Rule.from_dict reads it")
            check_format(document["format"], THRESHOLD_FORMAT, "the rule", "select again")
            bands = [[(lower, action) for lower, action in band] for band in document["bands"]]
            rule = cls(
                document["column"],
                document["classes"],
                document["groups"],
                bands,
                kind=document["kind"],
                missing=document["missing"],
                model=document.get("model"),
                group_column=document.get("group_column"),
            )
            rule._check()
        return rule

    def _check(self) -> None:
        """Raise ValueError unless every field has its type and range, because documents can be forged."""
        kind = score_kind(self.kind)
        groups = self.groups or []

        names = (self.column, *self.classes, *groups)
        if not all(isinstance(name, (str, int, float)) for name in names):
            raise ValueError("the column, a label or a group is no text or number")
        for what, values in (("labels", self.classes), ("groups", groups)):
            if not are_different(values):
                raise ValueError(f"{what} must be different and of one type, got {values}")
        if self.missing is not None and not kind.contains(self.missing):
            raise ValueError(f"missing is no {kind.name}")

        if not isinstance(self.model, (str, type(None))):
            raise ValueError("model must be a name")
        if not isinstance(self.group_column, (str, int, type(None))):
            raise ValueError("group_column must be a name")
        for band in self.bands:
            self._check_band(band, kind)
        if len(self.bands) != len(self.groups or [None]):
            raise ValueError("bands must be given for each group")

    def _check_band(self, band: Sequence[Any], kind: ScoreKind) -> None:
        """Raise ValueError unless the thresholds of a group ascend within their range, to known actions."""
        if not band or band[0][0] is not None:
            raise ValueError("thresholds must ascend from null")
        thresholds = [lower for lower, _ in band[1:]]
        if not all(kind.contains(end) and end > kind.lower for end in thresholds):
            raise ValueError(f"a threshold is no {kind.name}")
        if not (np.diff(thresholds) > 0).all():
            raise ValueError("thresholds must ascend from null")
        # 1, 1.0 and True are equal, and different labels.
        actions = {(type(action), action) for action in (*self.classes, HUMAN_REVIEW)}
        if any((type(action), action) not in actions for _, action in band):
            raise ValueError("an action is neither a label nor human review")

    @with_known_arguments()
    def to_sql(
        self, column: SqlColumns = None, group: str | None = None, *,
        what: Literal["action", "label", "deferred"] = "action", table: str = "t", label: Any = None,
    ) -> str:  # fmt: skip
        """Return the action as an SQL expression; NULL for rows refused by `predict`.

        For a model's rule the expression begins with a comment: the label whose probability the column holds.

        These are rows without score, with a score outside the range of `kind`, with text in its place, or of
        an unknown group. A group of NULL is the group 'missing' if the rule has one. A score of NULL is
        the score ``missing`` if the rule has one; a NaN, which some databases have beside NULL, gives NULL.

        Parameters
        ----------
        column : str, optional
            Column of the score; by default `column`. Of a model's rule it must hold the probability of
            ``classes[1]``, the second label, unless ``label`` states the first. The column needs the
            precision of the selection data: a single-precision column (FLOAT) may have other answers at a
            threshold.
        group : str, optional
            Column of the group, for a group-aware rule; by default `group_column`.
        what : {"action", "label", "deferred"}, default="action"
            A label or "human review", or whether the row is deferred (1 or 0). An action is text if rows may
            be deferred: a column has one type. "label" keeps the type, and is NULL for a deferred row.
        table : str, default="t"
            Name or alias of the table in the query: ``SELECT … FROM scores AS t``. A dot ends the name of its
            schema: ``"main.loans"``.
        label : label, optional
            For a model's rule, the label whose probability ``column`` holds; by default ``classes[1]``. Of
            ``classes[0]`` the expression reads 1 minus the column; rounding may decide at a threshold.

        Returns
        -------
        str

        Raises
        ------
        ValueError
            If ``group`` is missing, a name or label contains a backslash, ``label`` has no use, or the name
            of ``column`` contains the other label as a word.
        TypeError
            If ``column`` is no name.
        """
        check_sql_form(what)
        if not isinstance(column, (str, type(None))):
            raise TypeError(f"column must be the name of one column, got {column!r}")
        label, is_first = self._label_held(label)
        if column is None and is_first:
            raise ValueError(f"column is needed: {self.column!r} holds P({self.classes[1]})")
        if column is None:
            column = str(self.column)
        else:
            self._refuse_column_of_other_label(column, is_first)
        held = sql_number(table, column)
        score = held
        if is_first:
            score = f"(1 - {held})"
        if self.missing is not None:
            held = f"COALESCE({held}, {self.missing!r})"
            score = f"COALESCE({score}, {self.missing!r})"

        if group is None and isinstance(self.group_column, str):
            group = self.group_column
        answers = [self._sql_of_band(band, score, what) for band in self.bands]
        answer = sql_by_group(self.groups, group, table, answers)
        # The range of probabilities is symmetric. SQLite would read text as a number in 1 - text.
        expression = f"CASE WHEN {self._kind.sql(held)} THEN {answer} END"
        if self.model is None:
            return expression
        words = f"{column}: the probability of label {sql_value(label)}"
        return f"{sql_comment(words)} {expression}"

    def _label_held(self, label: Any) -> tuple[Any, bool]:
        """Return the label of the probability in a given column or number, and whether it is the first.

        ``label`` is as stated; None for the second, which the rule reads.
        """
        if label is None:
            return self.classes[1], False
        if self.model is None or self.kind != "probability":
            raise ValueError(
                f"{as_typed(f'label={label!r}', '--label')} is for a rule on the probability "
                f"of a model; this rule reads the score {self.column!r}"
            )
        return known_label(label, self.classes), label == self.classes[0]

    def _refuse_column_of_other_label(self, column: str, is_first: bool) -> None:
        """Raise if a word in the name of a column is the label of low scores.

        Numbers as labels are not compared: "model_0" may be the first model. ``is_first`` says whether the
        column is stated to hold the probability of the first label: then low scores are those of the second.
        """
        words = {word for word in re.split(r"[\W_]+", column.casefold()) if not word.isdigit()}
        ends = [(band[0][1], band[-1][1]) for band in self.bands]
        reader = "this rule reads"
        if self.model is not None:
            ends = [(self.classes[0], self.classes[1])]
        if is_first:
            ends = [(self.classes[1], self.classes[0])]
            reader = as_typed("label= states", "--label states")
        for lowest, highest in ends:
            if {lowest, highest} != {*self.classes}:  # one answer, or human review at an end
                continue
            if str(lowest).casefold() in words and str(highest).casefold() not in words:
                cure = "name the column of that"
                if self.kind == "probability":
                    cure = f"the column must hold P({highest}), which is 1 − P({lowest})"
                if self.model is not None and self.kind == "probability":
                    cure += f"; {as_typed(f'label={lowest!r}', f'--label {lowest}')} reads P({lowest})"
                raise ValueError(
                    f"column {column!r} is named like a score of {lowest!r}, and {reader} "
                    f"one of {highest!r}: {cure}"
                )

    def _sql_of_band(
        self,
        band: Sequence[tuple[float | None, Any]],
        score: str,
        what: Literal["action", "label", "deferred"],
    ) -> str:
        """Return the SQL expression of the answers of one group, from the highest range to the lowest."""
        (_, lowest_action), *higher = band
        lowest = self._sql_of_action(lowest_action, what)
        cases = [
            f"WHEN {score} >= {lower!r} THEN {self._sql_of_action(action, what)}"
            for lower, action in reversed(higher)
        ]
        if cases:
            return f"CASE {' '.join(cases)} ELSE {lowest} END"
        return lowest

    def _sql_of_action(self, action: Any, what: Literal["action", "label", "deferred"]) -> str:
        """Return an action as an SQL value, see `to_sql`."""
        deferred = self.defers and action == HUMAN_REVIEW
        if what == "deferred":
            return str(int(deferred))
        if what == "label":
            if deferred:
                return "NULL"
            return sql_value(action)
        if self.defers:
            action = str(action)
        return sql_value(action)

    def to_python(self, name: str = "decide", *, label: Any = None) -> str:
        """Return the source of a Python function of one score (and group), without imports.

        The function raises an error for scores refused by `predict`. Without a score, unless `missing` is
        that of such rows, and for an unknown group it raises a ValueError, or returns its argument
        ``default``. None and NaN are the group 'missing' if the rule has one.

        Parameters
        ----------
        name : str, default="decide"
            Name of the function.
        label : label, optional
            For a model's rule, the label whose probability the function takes; by default ``classes[1]``.

        Returns
        -------
        str

        Raises
        ------
        ValueError
            If ``name`` is no name of a function, or ``label`` has no use.
        """
        if not name.isidentifier() or keyword.iskeyword(name):
            raise ValueError(f"name: {name!r} is no name of a function")
        head = f"def {name}(score, *, default=...):"
        bands = [f"    bands = {self.bands[0]!r}"]
        if self.groups is not None:
            head = f"def {name}(score, group, *, default=...):"
            bands = self._source_of_bands(self.groups)
        lines = [
            head,
            *self._source_of_score(label),
            *bands,
            "    action = bands[0][1]",
            "    for lower, above in bands[1:]:",
            "        if score >= lower:",
            "            action = above",
            "    return action",
        ]
        return "\n".join(lines) + "\n"

    # Labels and names may contain any text, so they stand in literals only.

    def _source_of_score(self, label: Any) -> list[str]:
        """Return the lines of a Python function that describe it, and check the score."""
        label, is_first = self._label_held(label)
        score_words = "a score"
        if self.model is not None:
            score_words = f"the probability of label {label!r}"
        words = f"Return the answer to {score_words}: {self}"
        if_missing = [
            "        if default is ...:",
            "            raise ValueError('no score; pass default= for such rows')",
            "        return default",
        ]
        if self.missing is not None:
            if_missing = [f"        score = {self.missing!r}"]
        answers = answers_by_default(self.classes)
        no_answer = f" is no answer of this rule: give one of {', '.join(map(repr, answers))}"
        kind = self._kind
        outside = f" is outside the range of {kind.plural}"
        if np.isfinite([kind.lower, kind.upper]).all():
            outside += f", {kind.lower:g} to {kind.upper:g}"
        lines = [
            f"    {words!r}",
            f"    if default is not ... and default not in {answers!r}:",
            f"        raise ValueError(f'default={{default!r}}' + {no_answer!r})",
            "    if isinstance(score, str):",
            "        raise TypeError(f'the score {score!r} is text: give a number')",
            "    if str(score) in ('True', 'False'):",
            "        raise TypeError(f'the score {score!r} is a truth value: give a number')",
            "    if type(score).__module__ == 'numpy':  # a float32 is the decimal that it prints",
            "        score = float(str(score))",
            "    if score is None or str(score) == '<NA>':  # of pandas",
            "        score = float('nan')",
            "    score = float(score + 0)",
            "    if score != score:",
            *if_missing,
            f"    elif not {kind.source('score')}:",
            f"        raise ValueError(f'the score {{score!r}}' {outside!r})",
        ]
        if is_first:
            lines += ["    else:", "        score = 1 - score"]
        return lines

    def _source_of_bands(self, groups: Sequence[Any]) -> list[str]:
        """Return the lines of a Python function that choose the bands of the group, or return the default."""
        by_group = dict(zip(groups, self.bands, strict=True))
        group_names = ", ".join(map(repr, groups))
        unknown = f" is unknown; the rule has {group_names}. Pass default= for others."
        if_no_group = []
        if MISSING_GROUP in groups:
            if_no_group = [
                "    if group is None or group != group:",
                f"        group = {MISSING_GROUP!r}",
            ]
        return [
            f"    by_group = {by_group!r}",
            *if_no_group,
            "    if group not in by_group and default is ...:",
            f"        raise ValueError(f'group {{group!r}}' + {unknown!r})",
            "    if group not in by_group:",
            "        return default",
            "    bands = by_group[group]",
        ]

    @property
    def short(self) -> list[str]:
        """The score, and the lines of the rule."""
        return [f"the score {self.column}", *self._lines, *self._origin]

    def __str__(self) -> str:
        return "\n".join([*self._lines, *self._origin])

    @property
    def _lines(self) -> list[str]:
        """The ranges in words, a line for each group."""
        if self.groups is None:
            return [self._words(self.bands[0])]
        return [
            f"{unit_name(name)}: {self._words(band)}"
            for name, band in zip(self.groups, self.bands, strict=True)
        ]

    @property
    def _origin(self) -> list[str]:
        """Which model makes the score, as a line; empty for a column of scores."""
        if self.model is None:
            return []
        return [f"{self.column} is P({self.classes[1]}) of {self.model}"]

    def _repr_html_(self) -> str:
        head = ["group", str(self.column), "answer"]
        rows = []
        for name, band in zip(self.groups or [""], self.bands, strict=True):
            upper = None
            for lower, action in reversed(band):
                bounds = []
                if lower is not None:
                    bounds.append(f"at least {lower!r}")
                if upper is not None:
                    bounds.append(f"below {upper!r}")
                rows.append([unit_name(name), " and ".join(bounds) or "every row", str(action)])
                upper = lower
        if self.groups is None:
            head = head[1:]
            rows = [cells[1:] for cells in rows]
        return html_table(head, rows, "Decision rule:")

    def _words(self, band: list[tuple[float | None, Any]]) -> str:
        """Return the ranges of one group in words, from the highest to the lowest."""
        (_, lowest_action), *higher = band
        if not higher:
            return f"every row: {lowest_action}"
        top, top_action = higher[-1]
        words = [f"{self.column} >= {top!r}: {top_action}"]
        upper = top
        for lower, action in reversed(higher[:-1]):
            words.append(f"{lower!r} <= {self.column} < {upper!r}: {action}")
            upper = lower
        return "; ".join([*words, f"else {lowest_action}"])


def _as_columns(score: Any) -> Any:
    """Return a list of rows (dicts) as a dict of their common columns, and tables as those of pandas."""
    if not isinstance(score, list) or not score:
        return as_pandas(score)
    if not all(isinstance(row, Mapping) for row in score):
        return score
    names_of_all = [name for name in score[0] if all(name in row for row in score)]
    return {name: [row[name] for row in score] for name in names_of_all}


def refuse_other_name(column: Any, argument: str, own_name: Any) -> None:
    """Raise ValueError if a column, or the only column of a table, has another name than the rule's.

    Columns without a name pass, and all columns for a rule selected on arrays, without names.
    """
    (name,) = getattr(column, "columns", [getattr(column, "name", None)])
    if not isinstance(name, str) or not isinstance(own_name, str) or name in ("", own_name):
        return
    raise ValueError(
        f"{argument} is the column {name!r}, and the rule reads {own_name!r}. If they hold "
        f"the same, give it without a name: {argument}=table[{name!r}].to_numpy()"
    )


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
