"""What answers rows, as certificates, monitors and model files read it.

A `Decided` rule scores rows (`Scored`), has a `Decision`, and names the rows that it and models inside it
have read (`Known`). `tailboost.selection.door` reads any other model as if it were one.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

import numpy as np

from tailboost.core.array_types import Array, Floats, Groups, Hashes, Ints, Labels, Mask, Table
from tailboost.core.checks import label_column, positions
from tailboost.rates import Limit
from tailboost.rows.fingerprints import digest, digest_of_rule
from tailboost.rows.seen import Records
from tailboost.selection.identity import Identity
from tailboost.selection.rule import Rule, ThresholdRule

if TYPE_CHECKING:  # the rule of a file answers without scikit-learn
    from tailboost.selection.outputs import LogProbabilities
    from tailboost.selection.selection import Selection

#: Names of groups by column; None is the name of a column without one.
GroupsByColumn = Mapping[Any, Sequence[Any]]


@dataclass(frozen=True, eq=False)
class Decision:
    """The decision function of a classifier, on scores and groups.

    Attributes
    ----------
    written : ThresholdRule or Rule, optional
        The rule alone; None if answers alone are known.
    defers : bool
        Whether it may defer rows.
    by_group : bool or str
        Whether it reads the group: that of a column, or of the only one.
    groups : mapping
        The groups of the selection data by column.
    combinations : sequence of tuple
        The combinations of several columns that occur.
    made_by : sequence
        What makes its scores: columns of `Scores`, or outputs of the models on the selection data.
    """

    written: ThresholdRule | Rule | None = None
    defers: bool = False
    by_group: bool | str = False
    groups: GroupsByColumn = field(default_factory=dict)
    combinations: Sequence[tuple[Any, ...]] = ()
    made_by: Sequence[object] = ()

    def by(self, selection: Selection) -> Decision:
        """Return another rule on the same scores."""
        defers = selection.program.strata.defers
        return replace(self, written=selection.written, defers=defers)

    @cached_property
    def digest(self) -> str | None:
        """Digest of the rule and of what makes its scores; copies, pickles and files keep it."""
        if self.written is None:
            return None
        outputs = [each.tobytes() for each in self.made_by if isinstance(each, np.ndarray)]
        if len(outputs) == len(self.made_by):
            return digest(digest_of_rule(self.written).encode(), *outputs)
        return digest_of_rule(self.written, self.made_by)


#: The decision function of a model of another library, and of an array of answers.
NO_RULE = Decision()


@dataclass(frozen=True, eq=False)
class Scored:
    """Rows as rules and certificates read them: n rows.

    A part is computed when it is first read, by the function of the same name.

    Attributes
    ----------
    groups : mapping or None
        The groups of the rows by column.
    content_of, answers_of : callable
        Return `content` and `answers`; with ``outputs_of`` the answers are made of `outputs`, and are the
        places of the labels, K for deferral.
    outputs_of : callable, optional
        None for a classifier of which answers alone are known.
    lacking_of : callable, optional
        By default every row has a score.
    given_of : callable, optional
        By default `given` is `content`.
    shares_of : callable, optional
        Only if answers are drawn.
    """

    groups: Groups
    content_of: Callable[[], Hashes]
    answers_of: Callable[..., Array]
    outputs_of: Callable[[], LogProbabilities] | None = None
    lacking_of: Callable[[], Mask] | None = None
    given_of: Callable[[], Hashes] | None = None
    shares_of: Callable[[], Floats] | None = None

    @cached_property
    def content(self) -> Hashes:
        """Hashes of what the classifier behind the steps of a pipeline reads, shape (n,)."""
        return self.content_of()

    @cached_property
    def given(self) -> Hashes:
        """Hashes of the rows as the caller gave them, shape (n,)."""
        return self.content if self.given_of is None else self.given_of()

    @cached_property
    def lacking(self) -> Mask:
        """Which rows lack a score that the rule reads, shape (n,)."""
        if self.lacking_of is None:
            return np.zeros(len(self.given), dtype=np.bool_)
        return self.lacking_of()

    @cached_property
    def outputs(self) -> LogProbabilities:
        """The outputs of the models, which other rules read too."""
        assert self.outputs_of is not None
        return self.outputs_of()

    @cached_property
    def answers(self) -> Array:
        """The answered labels, shape (n,); of a rule on scores the numbers of `numbers`."""
        return self.answers_of() if self.outputs_of is None else self.answers_of(self.outputs)

    @cached_property
    def shares(self) -> Floats | None:
        """The probability of each answer, shape (n, K), if they are drawn; None if each row has one."""
        return None if self.shares_of is None else self.shares_of()

    def numbers(self, classes: Labels) -> Ints:
        """Return the place of each answer among K labels, shape (n,); K for a deferred row."""
        if self.outputs_of is not None:
            return self.answers
        answers = self.answers
        if answers.shape[1:] == (1,):  # CatBoost: shape (n, 1)
            answers = answers[:, 0]
        return positions(label_column(answers, "answers"), classes, "answers")


@dataclass(frozen=True, eq=False)
class Known:
    """Rows that a model inside another one has read, and how it reads rows given to the outer one.

    ``hashes`` returns their hashes, as the model reads them; None if these are the `Scored.content`. A model
    of scores alone has the labels of their columns: then equal rows count as different rows.
    """

    records: Records
    hashes: Callable[[Table], Hashes] | None = None
    score_labels: Sequence[Any] = ()


@runtime_checkable
class Answers(Protocol):
    """A classifier of tailboost with a selected rule."""

    def __tailboost__(self) -> Decided:
        """Return what certificates read of it."""


@dataclass(frozen=True, eq=False)
class Decided:
    """A rule with what makes its scores.

    Attributes
    ----------
    classes : ndarray of shape (K,) or None
        The labels, if they are known.
    rule : Decision
        The rule on scores that answers.
    limits : tuple of Limit
        The limits that the rule was selected within.
    known : tuple of Known
        The rows that this thing has read, first, and those that models inside it have read.
    read : callable
        Returns rows and groups as `Scored`; nothing is computed yet.
    certificate : object
        The certificate of the rule; None without one.
    identify : callable
        Returns `identity`.
    """

    classes: Labels | None
    rule: Decision
    limits: tuple[Limit, ...]
    known: tuple[Known, ...]
    read: Callable[[Table, Groups], Scored]
    certificate: object
    identify: Callable[[], Identity] = Identity

    @property
    def identity(self) -> Identity:
        """The content now of what is fitted and no digest of the rule covers: steps before the rule."""
        return self.identify()

    def score(self, X: Table, groups: Groups = None) -> Scored:
        """Return rows with their scores."""
        return self.read(X, groups)
