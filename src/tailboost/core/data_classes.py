"""Data classes, by one word each: immutable values and objects, estimators, and values made anew by files."""

from dataclasses import dataclass, field, fields
from typing import Any, TypeVar, dataclass_transform

from tailboost.core.array_types import Document

_C = TypeVar("_C")


@dataclass_transform(frozen_default=True, field_specifiers=(field,))
def frozen_value(cls: type[_C]) -> type[_C]:
    """Decorate a data class of immutable values: two are equal if their fields are.

    Nearly all data of the package are immutable. One of two decorators says so, and how they compare.
    """
    return dataclass(frozen=True)(cls)


@dataclass_transform(frozen_default=True, eq_default=False, field_specifiers=(field,))
def frozen_object(cls: type[_C]) -> type[_C]:
    """Decorate a data class of immutable objects: each equals itself alone, as arrays have no one answer."""
    return dataclass(frozen=True, eq=False)(cls)


@dataclass_transform(eq_default=False, field_specifiers=(field,))
def parameters(estimator: type[_C]) -> type[_C]:
    """Decorate a class of estimators whose fields are its parameters, stated once.

    scikit-learn reads parameters from a constructor that only stores them, which is that of a dataclass.
    """
    return dataclass(eq=False, repr=False)(estimator)


class Derived:
    """Base of values that are made anew from their fields when a file or a pickle is read.

    What follows from the fields is then what this version says, whatever the version that wrote them said.
    """

    def __setstate__(self: Any, state: Document) -> None:
        given = {each.name: state[each.name] for each in fields(self) if each.name in state}
        self.__init__(**given)
