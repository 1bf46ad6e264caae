"""What both kinds of rules have in common: a document, and answers to rows by their groups.

A rule alone answers from scores or probabilities. It needs neither models nor scikit-learn.
"""

import json
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import fields
from typing import Any, ClassVar, Self

import numpy as np

from tailboost.core import (
    Document,
    Floats,
    Groups,
    Ints,
    Labels,
    Name,
    Steps,
    Table,
    migrated,
    reading,
)
from tailboost.rows import HUMAN_REVIEW, group_columns, group_numbers

# The types of labels and groups in a document.
PLAIN = {str, int, float, bool}


class StoredRule(ABC):
    """A rule that is written as a document, and answers rows with actions: labels, or deferral.

    Its kinds are data classes. A document has their fields.
    """

    #: Of each kind, as `dataclasses.fields` reads them.
    __dataclass_fields__: ClassVar[dict[str, Any]]
    #: A rule alone has no certificate.
    certificate_: ClassVar[None] = None
    #: The format of documents, and the steps from earlier ones. Format 1 is not read any more.
    FORMAT: ClassVar[int] = 2
    STEPS: ClassVar[Steps] = {}

    #: The labels.
    classes: list[Name]
    #: The groups of a group-aware rule, and the name of their column if it has one.
    groups: list[Name] | None
    group_column: Any = None
    #: The label whose score decides, if a single score does.
    label: Name | None = None

    @property
    @abstractmethod
    def defers(self) -> bool:
        """Whether rows may be deferred."""

    @abstractmethod
    def numbers(self, values: Floats, groups: Ints) -> Ints:
        """Return the number of each row's action, −1 of a row without one.

        It is the number of the label, or the number of labels for deferral. ``groups`` are the numbers of the
        rows' groups.
        """

    @property
    def _actions(self) -> list[Name]:
        """The labels, and deferral as the last action."""
        return [*self.classes, HUMAN_REVIEW]

    def _answers(self, values: Floats, groups: Groups, table: Table, default: Any) -> Labels:
        """Return the actions of rows with these values of `numbers`, the default for those without one."""
        check_default(default, self.classes)
        columns = group_columns(groups, "groups", table)
        others = None if default is ... else -1
        of_rows = group_numbers(
            columns, self.groups, len(values), self.group_column, others=others
        )
        numbers = self.numbers(values, of_rows)
        if default is ... and not self.defers:
            return np.asarray(self.classes)[numbers]
        # The default has the number −1.
        return np.array([*self._actions, default], object)[numbers]

    # -- documents -------------------------------------------------------------------------------------

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
            rule = cls(**{each.name: document[each.name] for each in fields(cls)})
            rule._check()
        return rule

    def _check(self) -> None:
        """Raise ValueError unless every field has its type and range, because documents can be forged."""
        for names in (self.classes, self.groups):
            if names is None:  # of a group-blind rule
                continue
            types = set(map(type, names))  # True and 1.0 are no 1
            is_list = isinstance(names, list) and len(types) == 1
            if not (is_list and types <= PLAIN and len(set(names)) == len(names)):
                raise ValueError(
                    "labels and groups must be texts or numbers, different and of one type, got "
                    f"{names}"
                )


def check_default(default: Any, classes: Sequence[Name]) -> None:
    """Raise ValueError unless the answer to rows without another one is an action, None or not stated."""
    if default not in (*classes, HUMAN_REVIEW, None, ...):
        raise ValueError(
            f"default={default!r} is no answer of this rule: give one of {classes}, "
            f"{HUMAN_REVIEW!r} or None"
        )
