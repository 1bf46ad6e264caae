"""What a fitted model consists of, so that a later fit is seen."""

import copyreg
import pickle
from collections.abc import Iterable
from contextlib import suppress
from functools import cached_property
from operator import methodcaller
from types import FunctionType
from typing import Any, NamedTuple, Self
from zlib import crc32

import numpy as np
from numpy.lib.recfunctions import repack_fields

from tailboost.core import Model

#: Functions of these packages read nothing but their arguments.
PURE = ("numpy", "scipy", "sklearn", "tailboost")
# A draw changes their state, which is no fit.
DRAWS = (np.random.RandomState, np.random.Generator, np.random.BitGenerator)


class Identity(NamedTuple):
    """The content of models: a digest, and the names of the parts that it cannot read."""

    digest: str = ""  # empty if there is nothing to compare
    unknown: tuple[str, ...] = ()

    def beside(self, names: Iterable[str]) -> Self:
        """Return the content with further unknown parts."""
        return self._replace(unknown=tuple(dict.fromkeys((*self.unknown, *names))))

    def after_answers(self, later: Self, name: str) -> Self:
        """Return the content, without a digest if models, called ``name``, have changed as they answered."""
        if later.digest == self.digest:
            return self
        return self._replace(digest="").beside([f"{name} (it changes as it answers)"])


#: No model, or one that the digest of its rule covers.
NOTHING = Identity()


def identity_of(models: Model) -> Identity:
    """Return the content of fitted models in memory: the same until somebody changes them, as by a fit.

    It is the content of a pickle, read so that copies have the same:

    * An array counts by its values, and an attribute that is a set by its sorted entries.
    * Cached properties and the states of random draws do not count. Neither does an attribute that is an
      empty dict: copies of a ``Bunch`` of scikit-learn have none.
    * A function may read anything, such as another model. It counts by its name, and so does what has no
      pickle, such as a client of a server.
    """
    # In fast mode a part that occurs twice is written twice: copies may share other parts. A part that holds
    # itself has no fast mode.
    for fast in True, False:
        writer = _Writer()
        writer.fast = fast
        with suppress(RecursionError, ValueError):
            writer.dump(models)
            return Identity(repr(writer.sums), tuple(writer.unknown))
    return Identity("", (type(models).__qualname__,))


class _Writer(pickle.Pickler):
    """Checksums of the parts of a pickle, at .6 ns a byte, and the names of objects without a pickle."""

    def __init__(self) -> None:
        self.sums: list[int] = []
        self.unknown: dict[str, None] = {}
        super().__init__(self, protocol=5)  # it is its own file, see `write`

    def write(self, part: bytes) -> None:
        """Sum up a part of the pickle; a large array is one."""
        self.sums.append(crc32(part))

    def reducer_override(self, value: Any) -> Any:
        """Return a value as a pickle writes it: as a call of `_part` with its content.

        Nobody makes the call, because no pickle is read. Functions, classes and random draws count by their
        name alone.
        """
        if value is _part:
            return NotImplemented  # written as any function
        kind = type(value)
        if isinstance(value, np.ndarray):
            # Its memory may have another order, and gaps between fields.
            values = value.astype(repack_fields(value.dtype), copy=False)
            content = values.tolist() if value.dtype.hasobject else values.tobytes()
            return _part, (value.dtype.str, value.shape, content)
        name = getattr(value, "__qualname__", kind.__qualname__)
        if isinstance(value, FunctionType):
            if str(value.__module__).partition(".")[0] not in PURE:
                self.unknown[name] = None
            return _part, (name,)
        if isinstance(value, (type, *DRAWS)):
            return _part, (name,)
        try:
            reduce = copyreg.dispatch_table.get(kind, methodcaller("__reduce_ex__", 5))
            reduced = reduce(value)
        except Exception:  # any library may refuse
            self.unknown[name] = None
            reduced = name
        if isinstance(reduced, str):  # a name
            return _part, (reduced,)
        # What makes the object with arguments, its state or None, and its entries as those of a list or dict.
        # The state may be left out, and a sixth part, which sets a state, is not read.
        make, given, state, *entries = (*reduced, None)[:5]
        if isinstance(state, dict):
            counted = {}
            for attribute, content in state.items():
                if isinstance(getattr(kind, str(attribute), None), cached_property):
                    continue
                if isinstance(content, (set, frozenset)):
                    content = sorted(content, key=repr)
                if not isinstance(content, dict) or content:
                    counted[attribute] = content
            state = counted or None
        return _part, (getattr(make, "__qualname__", make), given), state, *entries


def _part(*content: object) -> None:
    """Stand for what makes a part of its content."""
