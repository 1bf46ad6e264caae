"""`ThresholdRule`: actions by ranges of one score, for all rows or by group.

A classifier of two labels on a single score has such a rule, which is written in words, JSON, SQL or Python.
"""

import builtins
from collections.abc import Callable, Sequence
from dataclasses import field
from itertools import chain, pairwise
from keyword import iskeyword
from typing import Any, Self
from unicodedata import normalize

import numpy as np

from tailboost.core import (
    SCORE_KINDS,
    Array,
    Document,
    Floats,
    Groups,
    Ints,
    Name,
    Table,
    as_pandas,
    columns_of,
    frozen_value,
    least_type,
    listed,
    one_row,
    reading,
    score_kind,
)
from tailboost.rows import HUMAN_REVIEW, MISSING_GROUP
from tailboost.selection.stored_rule import StoredRule, range_words, sql_column

#: The ranges of a group from the lowest: lower end, None for −∞, and action.
Band = list[tuple[float | None, Name]]
#: The least and the largest score of a range, and its action. The first that contains a score decides.
Range = tuple[float, float, Name]


#: A function of a score and a group, without imports.
SOURCE = """\
def {name}(score, group=None):
    {words!r}
    nothing = ('NoneType', 'NAType', 'NaTType')
    if type(group).__name__ in nothing or group != group:
        group = {missing_group!r}
    if isinstance(score, (bool, bytes, str)):
        raise TypeError(f'the score {{score!r}} is no number')
    if type(score).__name__ in nothing:
        score = 'nan'
    if type(score).__module__ == 'numpy':  # a float32 is the decimal that it prints
        score = str(score)
    score = float(score)
    if score != score:
        score = {missing!r}
    if score is None or not {kind.accepted_from!r} <= score <= {kind.accepted_to!r}:
        raise ValueError(f'the score {{score!r}} is none of the {kind.plural}')
    ranges = {ranges!r}

    def written(name):  # 1, 1.0, True, '1', '1.0' and 'TRUE' are one name
        if isinstance(name, float) and name.is_integer():
            name = int(name)
        text = str(name)
        if text[-2:] in ('.0', ',0') and text[:-2].removeprefix('-').isdecimal():
            text = text[:-2]
        return {{'true': '1', 'false': '0'}}.get(text.lower(), text)

    known = {{written(name): name for name in ranges if name is not None}}
    if group is not None and len(known) == len(ranges):
        group = known.get(written(group), group)
    if group not in ranges:
        raise ValueError(f'group {{group!r}} is unknown')
    for least, most, action in ranges[group]:
        if least <= score <= most:
            return action
"""


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
        The label of high scores; None if it is not stated.
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

    FORMAT = 3

    @classmethod
    def from_dict(cls, document: Document) -> Self:
        """Return the rule of a document from `to_dict`; raises ValueError if it describes none."""
        with reading("rule"):  # JSON has lists for pairs
            bands = [[*map(tuple, band)] for band in document["bands"]]
        return super().from_dict({**document, "bands": bands})

    @property
    def identity(self) -> Document:
        """The rule as plain values, for `Decision.digest`."""
        return self.to_dict()

    @property
    def defers(self) -> bool:
        """Whether rows may be deferred. A rule with a class "human review" answers this class instead."""
        return HUMAN_REVIEW in {action for _, action in chain(*self.bands)} - {*self.classes}

    def actions_in(self, groups: Sequence[tuple[Name, Name]]) -> set[Name]:
        """Return the possible actions of rows in some groups, pairs (column, group), for any score.

        A column without influence on the rule takes none of its actions away.
        """
        bands = self.bands
        group = dict(groups).get(self.group_column)
        if self.groups and group in self.groups:
            bands = [bands[self.groups.index(group)]]
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
        # 1. The scores in the table or column, and the groups that are given or in the table.
        table = one_row(as_pandas(score), self.column)
        names = columns_of(table)
        column = table
        if names:
            needed = [self.column]
            if groups is None and self.groups and self.group_column is not None:
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
        if np.ndim(column) == 0 and np.isscalar(groups):  # one row
            groups = np.atleast_1d(groups)

        # 2. Their actions.
        missing = self.missing
        if missing is None and default is not ...:
            missing = np.nan
        scores = SCORE_KINDS[self.kind].checked(column, self.column, missing)
        return self._answers(scores, groups, table, default)

    def numbers(self, values: Floats, groups: Ints) -> Ints:
        """Return the number of each row's action: of its label, or the number of labels for deferral.

        Parameters
        ----------
        values : ndarray of shape (n,)
            Scores within the range of `kind`; NaN of a row without an answer, which has the number −1.
        groups : ndarray of int, shape (n,)
            Number of each row's group, 0 for a group-blind rule; −1 of a row without an answer.
        """
        actions = self._actions  # a class "human review" replaces deferral
        numbers = np.full(len(values), -1, least_type(len(actions)))
        for group, band in enumerate(self.bands):
            rows = np.flatnonzero(groups == group)
            for lower, action in band:  # a higher range replaces the answer of a lower one
                is_above = values[rows] >= (-np.inf if lower is None else lower)
                numbers[rows[is_above]] = actions.index(action)
        return numbers

    def _check(self) -> None:
        """Raise ValueError unless every field has its type and range, because documents can be forged."""
        super()._check()
        kind = score_kind(self.kind)
        kind.check_missing(self.missing)
        # As text, because 1, 1.0 and True are equal, and different labels.
        labels = {*map(repr, self.classes)}
        actions = {repr(action) for _, action in chain(*self.bands)}
        # Above its lowest range, the last label of a group is that of high scores.
        highest = set()
        for (first, _), *higher in self.bands:
            highest.update(
                [repr(action) for _, action in higher if action in self.classes][-1:]
            )
            ends: Any = [lower for lower, _ in higher]
            in_range = all(kind.contains(end) and end > kind.lower for end in ends)
            if first is not None or not in_range or sorted(set(ends)) != ends:
                raise ValueError(f"thresholds must ascend from null, and each be a {kind.name}")
        is_valid = [
            type(self.column) in (str, int),
            isinstance(self.model, str | None),
            isinstance(self.group_column, str | int | float | None),
            len(self.bands) == len(self.groups or [None]),
            self.groups is not None or self.group_column is None,
            actions <= labels | {repr(HUMAN_REVIEW)},
            self.label is None or highest <= {repr(self.label)} <= labels,
        ]
        if not all(is_valid):
            raise ValueError(
                "a column or model is no name, bands are not one for each group, an action is "
                "neither a label nor human review, or label is not that of high scores"
            )

    def _ranges(self, label: Name | None) -> tuple[dict[Name, list[Range]], float | None]:
        """Return the ranges of the scores of a label by group, and the score of rows without one.

        The only group of a group-blind rule is None. The rule's highest range is first. Two neighbours share
        an end, which belongs to the first of them. The score of the other one of two labels falls where this
        one grows: its ranges are in the reverse order. Raise ValueError if the label is not stated, or if its
        scores do not decide.
        """
        kind = SCORE_KINDS[self.kind]
        missing = self.missing
        read: Callable[[Any], float] = float
        outer = [kind.accepted_from, kind.accepted_to]
        if label != self.label:
            turns = self.kind != "number" and self.label is not None
            if label not in self.classes or len(self.classes) > 2 or not turns:
                raise ValueError(
                    f"label={label!r}: state the label whose probability the score is, one of "
                    f"{self.classes}; {self.column!r} has {kind.plural} of {self.label!r}"
                )
            read = kind.turned
            outer.reverse()
        if missing is not None:
            missing = read(missing)
        ranges = {}
        for group, band in zip(self.groups or [None], self.bands, strict=True):
            inner = [read(lower) for lower, _ in band[1:]]
            pairs = zip(map(sorted, pairwise([outer[0], *inner, outer[1]])), band, strict=True)
            ranges[group] = [(least, most, to) for (least, most), (_, to) in pairs][::-1]
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
        database compares groups as they are: a column of numbers or truth values has no group '1', which is a
        text, and has NULL. A group of NULL is the group 'missing' if the rule has one. A score of NULL is the
        score ``missing`` if the rule has one; NaN is no NULL, and is refused. `predict` rounds integers above
        2⁵³ and decimals of many digits to floats, and a database compares them exactly: cast such columns to
        DOUBLE PRECISION.

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
            If ``group`` or ``label`` is missing or unknown, or a name or label has no form in SQL, as one
            with a backslash.
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
        conditions = {
            name: [(f"{score} BETWEEN {least!r} AND {most!r}", to) for least, most, to in band]
            for name, band in ranges.items()
        }
        return self._sql_case(conditions, group, table)

    def to_python(self, name: str = "decide", *, label: Name | None = None) -> str:
        """Return the source of a Python function of one score (and group), without imports.

        The function raises an error for what `predict` refuses: text, a score outside the range of `kind` or
        none, an unknown group. None is the group 'missing' if the rule has one.

        Parameters
        ----------
        name : str, default="decide"
            The name of the function; not one of Python's own functions and types, which it calls.
        label : label, optional
            The label whose score it gets, as in `to_sql`; a model's rule needs it.
        """
        name = normalize("NFKC", name)  # as Python reads names
        if not name.isidentifier() or iskeyword(name) or name in dir(builtins):
            raise ValueError(f"name={name!r} is no name of a function, or one of Python's own")
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
        words = self._by_group([range_words(str(self.column), band) for band in self.bands])
        if self.model is None:
            return words
        return f"{words}\n{self.column} is P({self.label}) of {self.model}"
