"""Immutable data classes, by one word each."""

from dataclasses import dataclass, field
from typing import TypeVar, dataclass_transform

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
