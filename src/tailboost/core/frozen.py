"""Immutable data classes, by one word each."""

from dataclasses import dataclass, field
from typing import TypeVar, dataclass_transform

from tailboost.core.array_types import Document

C = TypeVar("C")


@dataclass_transform(frozen_default=True, field_specifiers=(field,))
def frozen_value(cls: type[C]) -> type[C]:
    """Decorate a data class of immutable values: two are equal if their fields are.

    Nearly all data of the package are immutable. One word says so, and how they compare.
    """
    return dataclass(frozen=True)(cls)


@dataclass_transform(frozen_default=True, eq_default=False, field_specifiers=(field,))
def frozen_object(cls: type[C]) -> type[C]:
    """Decorate a data class of immutable objects: each equals itself alone, as arrays have no one answer."""
    return dataclass(frozen=True, eq=False)(cls)


class Derived:
    """Base of immutable values with attributes that follow from their fields, computed once.

    A class names the attributes in a base of its own, and ``__post_init__`` computes them: so they follow in
    every copy with other fields, and in what files of earlier versions hold.
    """

    def __post_init__(self) -> None:
        """Compute the attributes; nothing has read the value yet, although it is immutable."""

    def __setstate__(self, state: Document) -> None:
        vars(self).update(state)
        self.__post_init__()
