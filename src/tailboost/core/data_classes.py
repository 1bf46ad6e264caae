"""Data classes, by one word each: immutable values and objects, estimators, and values made anew by files."""

from dataclasses import dataclass, field
from inspect import signature
from typing import TypeVar, dataclass_transform

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
    """Base of values that are made anew from their parameters when a file or a pickle is read.

    Fields that are computed from parameters are computed again, as this version does, whatever the version
    that wrote them computed.
    """

    def __setstate__(self, state: Document) -> None:
        given = {
            name: state[name] for name in signature(type(self)).parameters if name in state
        }
        vars(self).update(vars(type(self)(**given)))
