"""A model as plain data: a list of parts, which refer only to earlier parts, and one block of arrays.

No name in a file is called. A part is a plain value, a container, an array, or an object of a class
on the list of `reviewed`. Objects get their fields; constructors do not run. Functions and types are allowed
only in a few named fields of reviewed classes. So no object of a forged file can call a function of its
choice.
"""

from __future__ import annotations

import importlib
import math
from collections.abc import Callable, Collection, Iterable, Sequence
from functools import partial
from typing import Any, ClassVar, Literal

import numpy as np
import scipy.sparse as sp
import sklearn
from sklearn.base import BaseEstimator
from sklearn.utils import Bunch

from tailboost.core.array_types import Array, Table
from tailboost.core.spelling import a_type_of
from tailboost.rows.fingerprints import digest
from tailboost.rows.ledger import Ledger
from tailboost.storage.constructors import MADE, RefusedContent
from tailboost.storage.reviewed import DTYPE_FIELDS, PARTIALS, TYPES, Reviewed, reviewed
from tailboost.storage.trees import TREE, built_trees, packed_trees

# Kinds of arrays without references to objects.
PLAIN_KINDS = frozenset("biufcSUmM")
SPARSE_FORMS = {
    f"{kind}_{form}": getattr(sp, f"{kind}_{form}")
    for kind in ("csr", "csc")
    for form in ("matrix", "array")
}
# Maximum number of paths to parts. Shared parts form graphs: a few kilobytes of nested pairs have 2⁴⁰ paths,
# and code that walks through a model would not end.
MOST_VISITS = 5_000_000
ALIGNED = 8  # bytes: each array begins at a multiple of the largest item size of numbers


class Damaged(Exception):
    """Raised for a structure that `Writer` cannot have produced."""


def name_of(thing: Any) -> str:
    """Return the full name of a class or function."""
    return f"{thing.__module__}.{thing.__qualname__}"


def imported(name: str) -> Any:
    """Return the class or function of a full name, which is on a list or trusted by the caller."""
    module, _, attribute = name.rpartition(".")
    return getattr(importlib.import_module(module), attribute)


# -- writing -----------------------------------------------------------------------------------------------


def number_in(items: list[Any], item: object) -> int:
    """Return the place of an item in a list, to which it is added if new."""
    if item not in items:
        items.append(item)
    return items.index(item)


class Writer:
    """Converter of a model to parts.

    Parameters
    ----------
    trusted : collection of str
        Full names of further allowed classes and functions.
    """

    def __init__(self, trusted: Collection[str] = ()) -> None:
        self.trusted = frozenset(trusted)
        self.classes: list[str] = []
        self.parts: list[list[Any]] = []
        self.trees: list[Any] = []  # of scikit-learn, packed together at the end
        # The file stores ledgers in another member, because they change after the fit.
        self.ledgers: list[Ledger] = []
        self.arrays = bytearray()  # the block of arrays
        self._places: dict[str, int] = {}  # by digest: place of a content in the block
        # By id: the object, and the number of its part. The reference keeps the object, and so its id, alive.
        self._numbers: dict[int, tuple[Any, int]] = {}
        # Ids of all objects so far: one without a number is being written.
        self._begun: set[int] = set()

    def value(self, thing: object) -> Any:
        """Return a plain value unchanged, or a reference [number of its part] to other values."""
        if thing is None or type(thing) in (bool, int, str, float):
            return thing
        if id(thing) in self._numbers:
            _, number = self._numbers[id(thing)]
            return [number]
        if id(thing) in self._begun:
            raise RefusedContent(f"{a_type_of(thing)} that contains itself")
        self._begun.add(id(thing))
        self.parts.append(self.part(thing))  # after the parts of its contents
        number = len(self.parts) - 1
        self._numbers[id(thing)] = (thing, number)
        return [number]

    def values(self, things: Iterable[object]) -> list[Any]:
        """Return `value` of each of several values."""
        return [self.value(thing) for thing in things]

    def part(self, thing: Any) -> list[Any]:
        """Return the part of a container, an array or an object: its kind, then what `Reader` needs."""
        cls = type(thing)
        if cls in (list, tuple):
            return [cls.__name__, self.values(thing)]
        if cls in (set, frozenset):  # sorted: the same model gives the same file
            return [cls.__name__, self.values(sorted(thing, key=repr))]
        if cls in (dict, Bunch):
            return [cls.__name__, [self.values(pair) for pair in thing.items()]]
        if cls in (bytes, bytearray):
            return ["bytes", self.place(bytes(thing)), len(thing)]
        if cls is slice:
            return ["slice", *self.values((thing.start, thing.stop, thing.step))]
        if isinstance(thing, np.dtype):
            return ["dtype", _dtype_text(thing)]
        if isinstance(thing, np.generic) and thing.dtype.kind in PLAIN_KINDS:
            return ["scalar", *self.array(np.asarray(thing))]
        if cls is np.ndarray:
            if thing.dtype == object:
                return ["objects", list(thing.shape), self.values(thing.ravel().tolist())]
            if thing.dtype.kind not in PLAIN_KINDS:
                raise RefusedContent(f"an array of {thing.dtype}")
            return ["array", *self.array(thing)]
        if cls in SPARSE_FORMS.values():
            arrays = self.values((thing.data, thing.indices, thing.indptr))
            return ["sparse", cls.__name__, list(map(int, thing.shape)), *arrays]
        if isinstance(thing, Ledger):
            return ["ledger", number_in(self.ledgers, thing)]
        return self.object_part(thing, cls)

    def array(self, array: Array) -> list[Any]:
        """Return dtype, shape, memory order and place of an array; the order affects rounding of sums."""
        order: Literal["C", "F"] = "C"
        if array.flags.f_contiguous and not array.flags.c_contiguous:
            order = "F"
        place = self.place(array.tobytes(order))
        return [_dtype_text(array.dtype), list(array.shape), order, place]

    def place(self, content: bytes) -> int:
        """Return the place of a content in the block of arrays; equal contents share a place."""
        key = digest(content)
        if key not in self._places:
            padding = bytes(-len(self.arrays) % ALIGNED)
            self.arrays += padding
            self._places[key] = len(self.arrays)
            self.arrays += content
        return self._places[key]

    # -- objects ---------------------------------------------------------------------------------------

    def object_part(self, thing: object, cls: type) -> list[Any]:
        """Return the part of an object of a listed or trusted class; raise RefusedContent for another."""
        name = name_of(cls)
        if name == TREE:
            self.trees.append(thing)
            return ["tree", len(self.trees) - 1]
        if name in MADE:
            taken_apart = self.value(MADE[name].taken_apart(thing))
            return ["made", number_in(self.classes, name), taken_apart]
        if name not in reviewed() and name not in self.trusted:
            if "__reduce__" in vars(cls):
                thing.__reduce__()  # raises the reason if the class must not be stored
            if hasattr(thing, "__qualname__"):  # a function or class: its name says more
                name = name_of(thing)
            raise RefusedContent(name)
        state = thing.__getstate__() or {}
        if not isinstance(state, dict) or not all(isinstance(field, str) for field in state):
            raise RefusedContent(f"{name} with a state without names")
        return ["object", number_in(self.classes, name), self.field_parts(name, state)]

    def field_parts(self, name: str, state: dict[str, Any]) -> list[list[Any]]:
        """Return the name and the part of each field of an object of a class, without those left out."""
        restrictions = reviewed().get(name, Reviewed())
        fields = []
        for field, value in state.items():
            # Loading does not compare the version of scikit-learn: the probe rows show its effects.
            if field in restrictions.left_out or field == "_sklearn_version":
                continue
            if field in restrictions.held_at:
                required = restrictions.held_at[field]
                if required is not None and not _is_exactly(value, required):
                    raise RefusedContent(f"{name} with {field}={str(value)[:50]!r}")
                value = required  # None replaces a value for the fit, such as a folder
            fields.append([field, self.field_value(field, value, restrictions)])
        return fields

    def field_value(self, field: str, value: object, restrictions: Reviewed) -> Any:
        """Return the `value` of a field, or {kind: name} of its type or function."""
        if field in DTYPE_FIELDS and isinstance(value, type) and value in TYPES.values():
            return {"type": value.__name__}
        allowed = restrictions.functions.get(field, ())
        if isinstance(value, partial):
            for name in allowed:
                if name in PARTIALS and _are_equal(value, PARTIALS[name]):
                    return {"function": name}
        name = _function_name(value)
        if callable(value) and name in (*allowed, *self.trusted):
            return {"function": name}
        if _is_refused_function(value, field, restrictions, self.trusted):
            advice = ""
            if allowed:
                advice = f"; {field} may be one of {', '.join(allowed)}"
            raise RefusedContent(f"{name or name_of(type(value))} as {field}{advice}")
        return self.value(value)

    def finished(self, root: object) -> dict[str, Any]:
        """Return the structure for JSON; the arrays are in ``arrays``."""
        trees = packed_trees(self.trees, self.array)
        return {"classes": self.classes, "trees": trees, "parts": self.parts, "root": root}


def _is_exactly(value: object, required: str | None) -> bool:
    """Return whether a value equals a text or None; objects of other types have their own comparison."""
    return type(value) is type(required) and bool(value == required)


def _is_refused_function(
    value: object, field: str, restrictions: Reviewed, trusted: Collection[str]
) -> bool:
    """Return whether a file may not contain a value because it is a function or can be called like one.

    ``trusted`` has the names of the types that the user trusts. Losses of scikit-learn can be called too.
    They are among the reviewed types, `MADE`; only a field that takes listed functions refuses them.
    """
    if not callable(value) or isinstance(value, type):
        return False
    type_name = name_of(type(value))
    if type_name in trusted:
        return False
    if type_name in MADE:
        return field in restrictions.functions
    return True


def _function_name(function: object) -> str:
    """Return the full name of a function or class; empty for other objects. Ufuncs have no module."""
    if isinstance(function, np.ufunc):
        return f"numpy.{function.__name__}"
    if hasattr(function, "__module__") and hasattr(function, "__qualname__"):
        return name_of(function)
    return ""


def _are_equal(function: partial[Any], other: partial[Any]) -> bool:
    """Return whether two functions with fixed arguments agree; partial compares only identities."""
    same_arguments = function.args == other.args and function.keywords == other.keywords
    return function.func == other.func and same_arguments


def _dtype_text(dtype: np.dtype[Any]) -> str:
    """Return a dtype as text; raise RefusedContent for a kind that files do not contain."""
    if dtype.kind not in PLAIN_KINDS and not dtype.hasobject:
        raise RefusedContent(f"an array of {dtype}")
    return dtype.str


# -- reading -----------------------------------------------------------------------------------------------


class Reader:
    """Converter of parts, which may be forged, to a model.

    All arrays together may have at most ``max_bytes`` bytes and entries. ``trusted``: full names of
    further allowed classes and functions. ``ledgers``: the ledgers of the models.
    """

    def __init__(
        self,
        structure: dict[str, Any],
        arrays: bytes,
        max_bytes: int,
        trusted: Collection[str] = (),
        ledgers: Sequence[Ledger] = (),
    ) -> None:
        self.structure = structure
        self.block = memoryview(arrays)
        self.bytes_left = max_bytes
        self.trusted = frozenset(trusted)
        self.ledgers = ledgers
        self.built: list[Any] = []  # the value of each part so far
        # For each part the number of paths from it to any part; during a call of `_kinds` one entry more.
        self.visits: list[int] = []
        names = structure["classes"]
        allowed = {*reviewed(), *MADE, *self.trusted}
        refused = [name for name in names if not (isinstance(name, str) and name in allowed)]
        if refused:
            raise RefusedContent(", ".join(sorted(map(str, refused))))
        self.classes = [(name, imported(name)) for name in names]
        self.trees = built_trees(structure["trees"], self._array)

    def model(self) -> Any:
        """Build the parts in their order, each from earlier ones, and return the model at the root."""
        for part in self.structure["parts"]:
            self.visits.append(1)
            kind, *content = part
            self.built.append(self._kinds[kind](self, *content))
        return self.value(self.structure["root"])

    def value(self, written: Any) -> Any:
        """Return a plain value, or the object of an earlier part for a reference [number]."""
        if written is None or isinstance(written, (bool, int, float, str)):
            return written
        (number,) = written
        if type(number) is not int or not 0 <= number < len(self.built):
            raise Damaged("a reference to a later part")
        part_is_being_built = len(self.visits) > len(self.built)  # not the root of the model
        if part_is_being_built:
            # Each path from the earlier part is a path from this part, too.
            self.visits[-1] += self.visits[number]
            if self.visits[-1] > MOST_VISITS:
                raise Damaged(f"refers to its parts more than {MOST_VISITS:,} times")
        return self.built[number]

    def _array(self, dtype_text: Any, shape: Any, order: Any, place: Any) -> Array:
        """Return a copy of an array that begins at a place of the block, see `Writer.array`."""
        dtype = np.dtype(str(dtype_text))
        if dtype.kind not in PLAIN_KINDS or dtype.hasobject or order not in ("C", "F"):
            raise Damaged("an array of an unknown kind")
        if any(type(n) is not int or n < 0 for n in (place, *shape)):
            raise Damaged("an array without a place")
        n_entries = math.prod(shape)
        n_bytes = n_entries * dtype.itemsize
        self.bytes_left -= max(n_bytes, n_entries)  # an entry of the type "<U0" has no bytes
        if self.bytes_left < 0:
            raise Damaged("its arrays exceed max_bytes")
        if place + n_bytes > len(self.block):
            raise Damaged(f"an array of shape {str(shape)[:50]} has the wrong length")
        if n_bytes:
            flat = np.frombuffer(self.block[place : place + n_bytes], dtype=dtype)
        else:  # frombuffer refuses an empty buffer
            flat = np.zeros(n_entries, dtype)
        return flat.reshape(shape, order=order).copy(order=order)

    # -- kinds of parts --------------------------------------------------------------------------------

    def _values(self, written: Any) -> list[Any]:
        """Return a list of values, each in its kind of part."""
        return [self.value(value) for value in written]

    def _pairs(self, written: Any) -> dict[Any, Any]:
        """Return a dict from (key, value) pairs of parts."""
        return {self.value(key): self.value(value) for key, value in written}

    def _objects(self, shape: Any, written: Any) -> Array:
        """Return an array of objects in a shape, from its values in order."""
        array = np.empty(len(written), dtype=object)
        for i, value in enumerate(written):
            array[i] = self.value(value)
        return array.reshape(shape)

    def _sparse(
        self, form: Any, shape: Any, data: Table, indices: object, indptr: object
    ) -> Any:
        """Return a sparse matrix of a form in `SPARSE_FORMS`, after a check of its arrays.

        Parameters
        ----------
        form, shape : as stored
            Name of the form, and the shape.
        data, indices, indptr : stored parts
            The arrays of the matrix.
        """
        arrays = self._values([data, indices, indptr])
        if not all(isinstance(array, np.ndarray) and array.ndim == 1 for array in arrays):
            raise Damaged("a sparse matrix without arrays")
        matrix = SPARSE_FORMS[form](tuple(arrays), shape=tuple(shape))
        matrix.check_format(full_check=True)
        return matrix

    def _ledger(self, number: Any) -> Ledger:
        """Return the ledger with this number; raise `Damaged` for an unknown number."""
        if type(number) is not int or not 0 <= number < len(self.ledgers):
            raise Damaged("an unknown ledger")
        return self.ledgers[number]

    def _object(self, number: Any, written: Any) -> Any:
        """Return an object of the class of a number, with the fields of (name, value) pairs."""
        name, cls = self.classes[number]
        if not isinstance(cls, type) or name in MADE:
            raise Damaged(f"{name} is not a class of objects with fields")
        restrictions = reviewed().get(name, Reviewed())
        state = {}
        for field, value in written:
            state[field] = self._field(name, cls, field, value, restrictions)
        for field, required in restrictions.held_at.items():
            if field in state and not _is_exactly(state[field], required):
                raise RefusedContent(f"{name} with {field}={str(state[field])[:50]!r}")
        thing: Any = object.__new__(cls)
        if getattr(cls, "__setstate__", None) in (None, BaseEstimator.__setstate__):
            vars(thing).update(state)  # setattr would run the code of properties
        else:
            if issubclass(cls, BaseEstimator):
                # Prevents a warning: the probe rows show effects of another version.
                state["_sklearn_version"] = sklearn.__version__
            thing.__setstate__(state)
        if restrictions.finish is not None:
            restrictions.finish(thing)
        return thing

    def _field(
        self, name: str, cls: type, field: object, written: object, restrictions: Reviewed
    ) -> Any:
        """Return the value of a field of the class ``cls``, see `Writer.field_value`.

        A type or function is allowed only in fields for them.
        """
        if (
            not isinstance(field, str)
            or field.startswith("__")
            or field in restrictions.left_out
        ):
            raise Damaged(f"{name} has no field {str(field)[:50]!r}")
        if not isinstance(written, dict):
            if callable(getattr(cls, field, None)):  # the field would replace the method
                raise Damaged(f"{name} has a method {field!r}, which is no field")
            value = self.value(written)
            if _is_refused_function(value, field, restrictions, self.trusted):
                raise RefusedContent(
                    f"{name} with {field}={name_of(type(value))}, which can be called"
                )
            return value
        ((kind, full_name),) = written.items()
        if kind == "type" and field in DTYPE_FIELDS and full_name in TYPES:
            return TYPES[full_name]
        allowed = (*restrictions.functions.get(field, ()), *self.trusted)
        if kind == "function" and full_name in allowed:
            if full_name in PARTIALS:
                return PARTIALS[full_name]
            return imported(full_name)
        raise RefusedContent(f"{name} with {field}={str(full_name)[:50]}")

    _kinds: ClassVar[dict[str, Callable[..., Any]]] = {
        "list": _values,
        "tuple": lambda self, written: tuple(self._values(written)),
        "set": lambda self, written: set(self._values(written)),
        "frozenset": lambda self, written: frozenset(self._values(written)),
        "dict": _pairs,
        "Bunch": lambda self, written: Bunch(**self._pairs(written)),
        "bytes": lambda self, place, size: self._array("|u1", [size], "C", place).tobytes(),
        "slice": lambda self, *ends: slice(*self._values(ends)),
        "dtype": lambda self, text: np.dtype(str(text)),
        "scalar": lambda self, *array: self._array(*array)[()],
        "array": _array,
        "objects": _objects,
        "sparse": _sparse,
        "tree": lambda self, number: self.trees[number],
        "made": lambda self, number, value: MADE[self.classes[number][0]].made(
            self.value(value)
        ),
        "ledger": _ledger,
        "object": _object,
    }
