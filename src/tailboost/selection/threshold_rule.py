"""A decision rule on one score as thresholds: printed, as plain types, as SQL and as a Python function."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal, Self

import numpy as np
from numpy.typing import NDArray

from tailboost.core.array_types import Floats, Ints
from tailboost.core.subgroups import unit_name
from tailboost.selection.probability_tables import LEAST_PROBABILITY
from tailboost.selection.rule import RulePart, group_numbers, sql_name, sql_value

FORMAT = 1
REVIEW = "human review"
# Significant digits of printed thresholds.
DIGITS = 4


@dataclass(frozen=True)
class ThresholdRule:
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
    missing : float or None
        The score of rows without one.
    """

    column: Any
    classes: list[Any]
    groups: list[Any] | None
    bands: list[list[tuple[float | None, Any]]]
    missing: float | None = None

    @classmethod
    def of(cls, part: RulePart, scores: Any, classes: Sequence[Any], groups: Sequence[Any] | None) -> Self:
        """Return the thresholds of a part of a rule on one score, a `Scores`."""
        actions = [*classes, REVIEW]
        weight = next(iter(part.weights.values()), 0.0)
        bands = []
        for costs in np.asarray(part.action_costs, dtype=np.float64):
            ranges = _ranges(costs, weight, part.offsets, scores.positive_)
            bands.append([(None if p is None else scores.score_at(p), actions[a]) for p, a in ranges])
        named = None if groups is None else list(groups)
        return cls(scores.column_list[0], list(classes), named, bands, scores.missing)

    @classmethod
    def of_actions(
        cls, column: Any, classes: Sequence[Any], scores: Floats, actions: Any, missing: float | None = None
    ) -> Self:
        """Return the thresholds of a group-blind rule from its actions at ascending scores.

        A threshold is the middle of two neighbouring scores with different actions.
        """
        actions = np.asarray(actions)
        changes = np.flatnonzero(actions[1:] != actions[:-1]).tolist()
        answers, middles = actions.tolist(), ((scores[:-1] + scores[1:]) / 2).tolist()
        band = [(None, answers[0]), *[(middles[i], answers[i + 1]) for i in changes]]
        return cls(column, list(classes), None, [band], missing)

    @property
    def defers(self) -> bool:
        """Whether rows may be deferred."""
        return any(action == REVIEW for band in self.bands for _, action in band)

    # -- answers -------------------------------------------------------------------------------------

    def _places(self, score: Any, groups: Any) -> tuple[Floats, Ints]:
        """Return the scores, checked, and the number of each row's group."""
        s = np.asarray(score, dtype=np.float64).ravel()
        if np.isnan(s).any():
            if self.missing is None:
                raise ValueError(f"{self.column}: row {int(np.flatnonzero(np.isnan(s))[0])} has no score")
            s = np.where(np.isnan(s), self.missing, s)
        return s, group_numbers(groups, self.groups, len(s))

    def predict(self, score: Any, groups: Any = None) -> NDArray[Any]:
        """Return the action of each row: a label, or "human review".

        Parameters
        ----------
        score : array-like of shape (n,)
            The score.
        groups : array-like of shape (n,), optional
            Group of each row, for a group-aware rule.

        Returns
        -------
        ndarray of shape (n,)

        Raises
        ------
        ValueError
            If scores are missing, or groups are missing, unknown or not used.
        """
        s, group = self._places(score, groups)
        actions = np.empty(len(s), dtype=object)
        for g, band in enumerate(self.bands):
            rows = np.flatnonzero(group == g)
            ends = np.array([lower for lower, _ in band[1:]], dtype=np.float64)
            place = np.searchsorted(ends, s[rows], side="right")
            actions[rows] = np.array([action for _, action in band] + [None], dtype=object)[place]
        return actions if self.defers else np.asarray(actions.tolist())

    def margin(self, score: Any, groups: Any = None) -> Floats:
        """Return the distance of each score to the nearest threshold, shape (n,); ∞ without thresholds."""
        s, group = self._places(score, groups)
        distance = np.full(len(s), np.inf)
        for g, band in enumerate(self.bands):
            rows = group == g
            for lower, _ in band[1:]:
                distance[rows] = np.minimum(distance[rows], np.abs(s[rows] - lower))
        return distance

    # -- other forms ---------------------------------------------------------------------------------

    def to_dict(self) -> dict[str, Any]:
        """Return the rule as plain types, for JSON."""
        return {
            "format": FORMAT,
            "column": self.column,
            "classes": self.classes,
            "groups": self.groups,
            "bands": [[list(each) for each in band] for band in self.bands],
            "missing": self.missing,
        }

    @classmethod
    def from_dict(cls, document: Any) -> Self:
        """Return the rule that `to_dict` described.

        Raises
        ------
        ValueError
            If the document is none.
        """
        try:
            if document["format"] != FORMAT:
                raise ValueError(f"the rule has the format {document['format']!r}, not {FORMAT}")
            bands = [[(lower, action) for lower, action in band] for band in document["bands"]]
            rule = cls(
                document["column"], document["classes"], document["groups"], bands, document["missing"]
            )
            known = {*rule.classes, REVIEW}
            for band in rule.bands:
                given = [end for end, _ in band[1:]]
                if not all(isinstance(end, (int, float)) and not isinstance(end, bool) for end in given):
                    raise ValueError("a threshold is no number")
                lower = np.array(given, dtype=np.float64)
                if not band or band[0][0] is not None or not (np.diff(lower) > 0).all():
                    raise ValueError("thresholds must ascend from null")
                if np.isnan(lower).any():
                    raise ValueError("a threshold is NaN")
                if any(action not in known for _, action in band):
                    raise ValueError("an action is neither a label nor human review")
            if len(rule.bands) != len(rule.groups or [None]):
                raise ValueError("bands must be given for each group")
        except (KeyError, TypeError, ValueError, OverflowError) as failure:
            raise ValueError(f"this is no rule: {type(failure).__name__}: {failure}") from None
        return rule

    def to_sql(
        self, column: str | None = None, *, group: str | None = None,
        what: Literal["action", "label", "deferred"] = "action", table: str = "t",
    ) -> str:  # fmt: skip
        """Return the action as an SQL expression; NULL for a row without score or of an unknown group.

        Parameters
        ----------
        column : str, optional
            Column of the score; by default that of the rule.
        group : str, optional
            Column of the group, for a group-aware rule.
        what : {"action", "label", "deferred"}, default="action"
            A label or "human review", or whether the row is deferred (1 or 0). "label" needs a rule without
            deferral.
        table : str, default="t"
            Name or alias of the table.

        Returns
        -------
        str

        Raises
        ------
        ValueError
            If ``group`` is missing, or labels are asked of a rule that defers rows.
        """
        if self.groups is not None and group is None:
            raise ValueError("group is needed: the action depends on the row's group")
        if what == "label" and self.defers:
            raise ValueError("the rule defers rows, which have no label: use what='action'")
        score = f"{sql_name(table)}.{sql_name(str(self.column if column is None else column))}"
        if self.missing is not None:
            score = f"COALESCE({score}, {self.missing!r})"

        def value(action: Any) -> str:
            return str(int(action == REVIEW)) if what == "deferred" else sql_value(action)

        def cases(band: list[tuple[float | None, Any]]) -> str:
            above = [f"WHEN {score} >= {lower!r} THEN {value(action)}" for lower, action in band[:0:-1]]
            return f"CASE {' '.join(above)} WHEN {score} IS NOT NULL THEN {value(band[0][1])} END"

        if self.groups is None:
            return cases(self.bands[0])
        pairs = zip(self.groups, self.bands, strict=True)
        by_group = [f"WHEN {sql_value(name)} THEN {cases(band)}" for name, band in pairs]
        return f"CASE {sql_name(table)}.{sql_name(str(group))} {' '.join(by_group)} END"

    def to_python(self, name: str = "decide") -> str:
        """Return the source of a function of one score (and group) that needs no imports."""
        bands = dict(zip(self.groups, self.bands, strict=True)) if self.groups is not None else self.bands[0]
        group = ", group" if self.groups is not None else ""
        missing = "raise ValueError('no score')" if self.missing is None else f"score = {self.missing!r}"
        return (
            f"def {name}(score{group}):\n"
            f'    """Return a label or {REVIEW!r}; {self}"""\n'
            f"    if score is None or score != score:\n        {missing}\n"
            f"    bands = {bands!r}{'[group]' if group else ''}\n"
            "    action = bands[0][1]\n"
            "    for lower, above in bands[1:]:\n"
            "        if score >= lower:\n            action = above\n"
            "    return action\n"
        )

    def __str__(self) -> str:
        if self.groups is None:
            return self._words(self.bands[0])
        return "\n".join(
            f"{unit_name(name)}: {self._words(band)}"
            for name, band in zip(self.groups, self.bands, strict=True)
        )

    def _words(self, band: list[tuple[float | None, Any]]) -> str:
        if len(band) == 1:
            return f"every row: {band[0][1]}"
        words, above = [], None
        for lower, action in band[:0:-1]:
            at_least = f"{lower:.{DIGITS}g}"
            words.append(
                f"{self.column} >= {at_least}: {action}"
                if above is None
                else f"{at_least} <= {self.column} < {above}: {action}"
            )
            above = at_least
        return "; ".join([*words, f"else {band[0][1]}"])


def _ranges(costs: Floats, weight: float, offsets: Sequence[float], positive: int) -> list[tuple[Any, int]]:
    """Return the ranges of P(positive label) from the lowest, and the number of the cheapest action there.

    The expected costs are ``Q[0, a] + r Q[1, a]`` up to a factor, lines in the odds r = (p/(1−p))^w e^b.
    Their lower envelope has at most one range for each action.
    """
    other = 1 - positive
    least = LEAST_PROBABILITY

    def odds(p: float) -> float:
        return float((p / (1.0 - p)) ** weight * np.exp(offsets[positive] - offsets[other]))

    def cheapest(r: float) -> int:
        return int((costs[other] + r * costs[positive]).argmin())

    cuts = set()
    for a in range(costs.shape[1]):
        for b in range(a):
            fall, rise = costs[other, a] - costs[other, b], costs[positive, b] - costs[positive, a]
            if rise != 0 and fall / rise > 0 and weight > 0:
                log_odds = (np.log(fall / rise) - offsets[positive] + offsets[other]) / weight
                cuts.add(float(1.0 / (1.0 + np.exp(-log_odds))))
    ends = sorted(p for p in cuts if least < p < 1.0 - least)
    middles = [(low + high) / 2 for low, high in zip([least, *ends], [*ends, 1.0 - least], strict=True)]
    ranges: list[tuple[Any, int]] = []
    for lower, middle in zip([None, *ends], middles, strict=True):
        action = cheapest(odds(middle))
        if not ranges or ranges[-1][1] != action:
            ranges.append((lower, action))
    return ranges
