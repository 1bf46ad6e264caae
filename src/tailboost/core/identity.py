"""The identity of a fit, by value: only a fit with the same identity may continue its rounds."""

from __future__ import annotations

import copyreg
import hashlib
import sys
from collections.abc import Iterable, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from types import CodeType, FunctionType
from typing import Any, Self

import numpy as np
from sklearn.base import BaseEstimator

# Prefix of the description of a value that cannot be compared with others of its type.
_UNKNOWN = "? "
# Values of these types describe themselves, up to this length.
_PLAIN = (type(None), bool, int, float, complex, str)
_SHORT = 60
_SCALARS = (np.bool_, np.integer, np.float64)  # as good as Python's own
# What every fit computes with. Other libraries count where a parameter comes from them.
_EVERYWHERE = ("tailboost", "numpy", "scipy", "sklearn", "xgboost")


def unknown(params: Mapping[str, str]) -> dict[str, str]:
    """Return the described parameters that cannot be compared by value, each with the reason."""
    return {k: v.removeprefix(_UNKNOWN) for k, v in params.items() if v.startswith(_UNKNOWN)}


def differing(before: Mapping[str, str], now: Mapping[str, str]) -> list[str]:
    """Return the names of described parameters that changed or cannot be compared."""
    names = before.keys() | now.keys()
    return sorted(k for k in names if before.get(k) != now.get(k) or k in unknown(now))


@dataclass(frozen=True)
class Identity:
    """All that the rounds of a fit depend on."""

    owner: str  # the class of the estimator
    data: str  # digest of rows, labels, weights and groups
    entropy: int  # root of all seeds
    # The parameters on which rounds depend, those of nested estimators too, each as a text; see `unknown`.
    params: Mapping[str, str]
    versions: Mapping[str, str]  # the libraries that compute them

    @classmethod
    def of(cls, estimator: Any, *, data: str, entropy: int, but: frozenset[str] = frozenset()) -> Self:
        """Return the identity of a fit of this estimator; parameters named in ``but`` may change in it."""
        content = _Content()
        owner = content.name(type(estimator))
        params = dict(_params(content, estimator, but))
        return cls(owner, data, entropy, params, _versions(content.libraries))

    def as_dict(self) -> dict[str, Any]:
        """Return the identity as plain types, for JSON."""
        return asdict(self)

    def objection(self, other: Mapping[str, Any]) -> str:
        """Return in words how another fit's identity (`as_dict`) differs; empty if it does not."""
        versions = {k: (other["versions"].get(k), v) for k, v in self.versions.items()}
        versions |= {k: (v, None) for k, v in other["versions"].items() if k not in self.versions}
        changed = [f"{k} {a or 'none'}, here is {b or 'none'}" for k, (a, b) in versions.items() if a != b]
        if changed:
            return f"was written with {'; '.join(changed)}: members of other versions may answer otherwise"
        if other["owner"] != self.owner:
            return f"belongs to a fit of {other['owner']}, this is {self.owner}"
        what = [] if other["data"] == self.data else ["data"]
        what += differing(other["params"], self.params)
        if other["entropy"] != self.entropy and "random_state" not in what:
            what.append("random_state")
        if not what:
            return ""
        shown = ", ".join(what[:5]) + (", ..." if len(what) > 5 else "")
        return f"belongs to a fit with other data, parameters or random_state ({shown})"


def _versions(libraries: Iterable[str]) -> dict[str, str]:
    loaded = {name: sys.modules[name] for name in {*_EVERYWHERE, *libraries} if name in sys.modules}
    versions = {name: getattr(module, "__version__", None) for name, module in sorted(loaded.items())}
    return {name: str(version) for name, version in versions.items() if version is not None}


def _params(content: _Content, estimator: Any, but: frozenset[str]) -> Iterable[tuple[str, str]]:
    for name, value in sorted(estimator.get_params(deep=False).items()):
        if name in but:
            continue
        if _by_params(value):
            yield name, content.name(type(value))
            yield from ((f"{name}__{k}", text) for k, text in _params(content, value, frozenset()))
            continue
        try:
            yield name, content.text(value)
        except Exception as error:  # objects without a state to pickle raise exceptions of many types
            yield name, f"{_UNKNOWN}{type(value).__name__}: {error}"


def _by_params(value: Any) -> bool:
    """Whether an estimator's parameters describe it fully, because a clone keeps nothing else."""
    if isinstance(value, type) or not hasattr(value, "get_params"):
        return False
    cloned = getattr(type(value), "__sklearn_clone__", None)
    return cloned is None or cloned is BaseEstimator.__sklearn_clone__


class _Content:
    """Digests of values, and the libraries whose classes and functions occur in them."""

    def __init__(self) -> None:
        self.libraries: set[str] = set()
        self._around: list[int] = []  # the objects that contain the current one
        self._frozen = False  # whether one of them is an estimator whose copies keep the fitted state

    def text(self, value: Any) -> str:
        """Return a short text: the same for equal values, in every process, and a different one otherwise.

        It is the value itself where that is short and plain, else its type and a digest. Arrays and tensors
        count by their bytes, estimators by class and parameters, classes and functions by name (those without
        a name of their own by code), other objects by the state that pickle would store; an object that does
        not give its state raises whatever it raises. Sources of random numbers count by type alone: they move
        with every draw.
        """
        value = value.item() if isinstance(value, _SCALARS) else value
        shown = repr(value) if type(value) in _PLAIN else ""
        if 0 < len(shown) <= _SHORT:
            return shown
        return f"{type(value).__name__} {self.digest(value).hex()}"

    def name(self, value: Any) -> str:
        """Return the full name of a class or function."""
        module = value.__module__ or ""
        roots = {c.__module__.partition(".")[0] for c in getattr(value, "__mro__", ())}
        self.libraries |= roots | {module.partition(".")[0]}
        if module.startswith(
            "tailboost.learners.torch"
        ):  # its base classes do not show that it needs PyTorch
            self.libraries.add("torch")
        return f"{module}.{value.__qualname__}"

    def digest(self, value: Any) -> bytes:
        """Return the digest of a value's content."""
        kind = type(value)
        if kind in _PLAIN:
            return _hash(kind.__name__, repr(value).encode("utf-8", "surrogatepass"))
        if kind in (bytes, bytearray):
            return _hash(kind.__name__, value)
        if isinstance(value, _SCALARS):
            return self.digest(value.item())
        if isinstance(value, type):
            return _hash("class", self.name(value).encode())
        if isinstance(value, FunctionType):
            return self._of_function(value)
        if isinstance(value, np.random.RandomState | np.random.Generator | np.random.BitGenerator):
            return _hash("random", self.name(kind).encode())
        if kind in (np.ndarray, np.memmap) and not value.dtype.hasobject:
            return _hash("array", str(value.dtype).encode(), str(value.shape).encode(), value.tobytes())
        with self._inside(value) as depth:
            return _hash("cycle", str(depth).encode()) if depth else self._of_parts(value)

    @contextmanager
    def _inside(self, value: Any) -> Any:
        """Return how many levels up a value contains itself; 0 if it does not."""
        around = self._around
        depth = len(around) - around.index(id(value)) if id(value) in around else 0
        around.append(id(value))
        try:
            yield depth
        finally:
            around.pop()

    def _of_parts(self, value: Any) -> bytes:
        kind = type(value)
        if kind in (list, tuple):
            return _hash(kind.__name__, *map(self.digest, value))
        if kind in (set, frozenset):
            return _hash(kind.__name__, *sorted(map(self.digest, value)))
        if kind is dict:  # equal dicts may differ in order
            return _hash("dict", *sorted(self.digest(k) + self.digest(v) for k, v in value.items()))
        if kind in (np.ndarray, np.memmap):
            return _hash("objects", str(value.dtype).encode(), self.digest(value.tolist()))
        if kind is CodeType:
            code = (value.co_code, value.co_consts, value.co_names, value.co_varnames)
            return _hash("code", self.digest(code))
        torch: Any = sys.modules.get("torch")
        if torch is not None and isinstance(value, torch.Tensor):
            return self._of_tensor(value, torch)
        name = self.name(kind).encode()
        if not self._frozen and _by_params(value):
            return _hash("estimator", name, self.digest(value.get_params(deep=False)))
        if torch is not None and isinstance(value, torch.nn.Module):
            # Some modules register hooks on themselves; their numbers count up within a process.
            state = {k: v for k, v in vars(value).items() if "hook" not in k}
            return _hash("module", name, self.digest(state))
        outside, self._frozen = self._frozen, self._frozen or hasattr(value, "get_params")
        try:
            return _hash("object", name, *self._of_state(value))
        finally:
            self._frozen = outside

    def _of_state(self, value: Any) -> Iterable[bytes]:
        reduce = copyreg.dispatch_table.get(type(value))
        reduced = value.__reduce_ex__(4) if reduce is None else reduce(value)
        if isinstance(reduced, str):  # the name of a global object
            return [f"{getattr(value, '__module__', '')}.{reduced}".encode()]
        make, args, state, items, pairs = (*reduced, None, None, None)[:5]
        items = None if items is None else list(items)
        pairs = None if pairs is None else list(pairs)
        return [self.digest(part) for part in (make, args, state, items, pairs)]

    def _of_function(self, value: FunctionType) -> bytes:
        name = self.name(value)
        found: Any = sys.modules.get(value.__module__)
        for part in value.__qualname__.split("."):
            found = getattr(found, part, None)
        if found is value:
            return _hash("function", name.encode())
        cells = [cell.cell_contents for cell in value.__closure__ or ()]
        with self._inside(value) as depth:  # one that calls itself holds itself
            parts = (value.__code__, value.__defaults__, value.__kwdefaults__, cells)
            return _hash("function", name.encode(), b"" if depth else self.digest(parts))

    def _of_tensor(self, value: Any, torch: Any) -> bytes:
        self.libraries.add("torch")
        if hasattr(value, "materialize"):  # a lazy layer that waits for its first rows
            return _hash("tensor", b"")
        flat = value.detach().cpu().contiguous().flatten()
        shape = str((value.dtype, tuple(value.shape), value.requires_grad))
        return _hash("tensor", shape.encode(), flat.view(torch.uint8).numpy().tobytes())


def _hash(kind: str, *parts: bytes) -> bytes:
    """Return the digest of contents; each is preceded by its length, so that boundaries count."""
    whole = hashlib.blake2b(digest_size=16)
    for part in (kind.encode(), *parts):
        whole.update(len(part).to_bytes(8, "little"))
        whole.update(part)
    return whole.digest()
