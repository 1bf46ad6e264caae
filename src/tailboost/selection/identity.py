"""What a fitted model consists of, so that a later fit is seen."""

from __future__ import annotations

import copyreg
import hashlib
import sys
from collections.abc import Iterable
from functools import cached_property
from itertools import chain
from types import FunctionType, ModuleType
from typing import Any, NamedTuple
from zlib import crc32

import numpy as np

#: Functions of these packages read nothing but their arguments.
LIBRARIES = ("numpy", "scipy", "sklearn", "tailboost")
# Draws change their state, and so does no fit.
DRAWS = (np.random.RandomState, np.random.Generator, np.random.BitGenerator)
PLAIN = (type(None), bool, int, float, complex, str, np.generic, np.dtype)


class Identity(NamedTuple):
    """The content of models: a digest, and the names of the parts that it cannot read."""

    digest: str = ""  # empty if it is not known
    unknown: tuple[str, ...] = ()

    def beside(self, names: Iterable[str]) -> Identity:
        """Return the content with further unknown parts."""
        return self._replace(unknown=tuple(dict.fromkeys((*self.unknown, *names))))

    def after_answers(self, later: Identity, name: str) -> Identity:
        """Return the content, without a digest if models, called ``name``, have changed as they answered."""
        if later.digest == self.digest:
            return self
        return self._replace(digest="").beside([f"{name} (it changes as it answers)"])


#: No model, or one that the digest of its rule covers.
NOTHING = Identity()


def identity_of(models: Any) -> Identity:
    """Return the content of fitted models: the same as long as nobody changes them, as by a fit.

    Arrays, parameters and attributes count, as a pickle has them. Values that are computed when they are
    first read, and the states of random draws, do not count. A function may read anything, such as another
    model, so it counts by its name, and so does what has no pickle, such as a client of a server.
    """
    reader = _Reader()
    try:
        found = reader.digest(models)
    except RecursionError:
        found = b""
        reader.unknown[type(models).__qualname__] = None
    return Identity(found.hex(), tuple(reader.unknown))


class _Reader:
    """Digests of values by their content; each object is read once, and kept until the end."""

    def __init__(self) -> None:
        self.read: dict[int, tuple[Any, bytes]] = {}
        self.unknown: dict[str, None] = {}

    def digest(self, value: Any) -> bytes:
        """Return the digest of any value."""
        if isinstance(value, PLAIN):
            return repr(value).encode()
        if id(value) not in self.read:
            self.read[id(value)] = value, b"itself"  # if it is a part of itself
            found = hashlib.blake2b(type(value).__name__.encode(), digest_size=16)
            for part in self.parts(value):
                found.update(part)
                found.update(b";")
            self.read[id(value)] = value, found.digest()
        return self.read[id(value)][1]

    def parts(self, value: Any) -> Iterable[Any]:
        """Return the content of a value in parts."""
        torch = sys.modules.get("torch")
        if torch is not None and isinstance(value, torch.Tensor):
            value = value.detach().cpu().numpy()
        if isinstance(value, np.ndarray):
            if value.dtype.hasobject:
                return map(self.digest, value.ravel().tolist())
            value = np.ascontiguousarray(value).reshape(-1).view(np.uint8).data
        if isinstance(
            value, (bytes, bytearray, memoryview)
        ):  # .6 ns a byte, a digest takes 2.4
            return [b"%d %d" % (len(value), crc32(value))]
        if isinstance(value, (list, tuple, set, frozenset)):
            return map(self.digest, value)
        if isinstance(value, dict):
            return map(self.digest, chain.from_iterable(value.items()))
        if isinstance(value, DRAWS):
            return []
        if isinstance(value, ModuleType):
            return [value.__name__.encode()]
        if isinstance(value, (type, FunctionType)):
            if isinstance(value, FunctionType) and not value.__module__.startswith(LIBRARIES):
                self.unknown[value.__qualname__] = None
            return [_name(value)]
        return self.of_object(value)

    def of_object(self, value: Any) -> Iterable[bytes]:
        """Return what a pickle of an object has, without values that are computed when they are read."""
        kind = type(value)
        try:
            reduce = copyreg.dispatch_table.get(kind)
            reduced = reduce(value) if reduce else value.__reduce_ex__(4)
        except Exception:  # any library may refuse
            self.unknown[kind.__qualname__] = None
            return [_name(kind)]
        if isinstance(reduced, str):
            return [reduced.encode()]
        make, given, state, *items = (*reduced, None)[:5]
        if isinstance(state, dict):
            state = {
                name: part
                for name, part in state.items()
                if not isinstance(getattr(kind, str(name), None), cached_property)
            }
        entries = [list(each) for each in items if each is not None]
        return [_name(make), *map(self.digest, (given, state, entries))]


def _name(kind: Any) -> bytes:
    return f"{kind.__module__}.{kind.__qualname__}".encode()
