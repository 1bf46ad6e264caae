"""Model files: skops files that run no code, hold shared parts once, and detect changed answers."""

from __future__ import annotations

import copy
import importlib
import io
import json
import math
import os
import platform
import warnings
import zipfile
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator

from tailboost._probe import Answers, answers, rows_of
from tailboost._store import digest, write

__all__ = ["MAX_BYTES", "ModelVersionWarning", "check_model_path", "load_model", "read_notes", "save_model"]

SUFFIX = ".skops"
MAX_BYTES = 2**30
"""Default limit for `load_model`: the bytes that a model file may hold once it is unpacked."""

# The schema is text that becomes many small objects; they take about twenty times its memory.
_SCHEMA, _SCHEMA_SHARE = "schema.json", 32
# skops collects the types of a shared part once for each reference to it.
_MOST_VISITS = 5_000_000
_RECORD, _FORMAT = "tailboost.json", 1
_PIECE = 2**20  # bytes decompressed at a time
_LEVEL = 3  # level 6 makes large forests a sixteenth smaller but takes more than twice the time
# Libraries whose versions are recorded; the probe rows decide whether another version changes answers.
_ALWAYS = ("python", "tailboost", "numpy", "scikit-learn")
_WHERE_USED = {"xgboost": ("xgboost.", "tailboost.learners._hist."), "torch": ("tailboost.torch.",)}
_LONGEST = 150  # the most characters of a file's names that a message shows


class ModelVersionWarning(UserWarning):
    """A model was saved with other library versions and has no probe rows to compare answers."""


# -- what may be in a file ---------------------------------------------------------------------------------

# Parts of fitted models that skops does not trust by itself. Trees and boosters hold arrays that their
# libraries index without bounds checks: a forged file can crash the process, but it cannot run code.
_KNOWN_PARTS = frozenset(
    {
        "numpy.dtype",
        *(f"{m}.{c}" for m in ("pathlib", "pathlib._local") for c in ("PosixPath", "WindowsPath")),
        *(
            f"sklearn.model_selection._split.{c}"  # parameters that say how rows are split
            for c in (
                "KFold",
                "StratifiedKFold",
                "GroupKFold",
                "StratifiedGroupKFold",
                "TimeSeriesSplit",
                "LeaveOneGroupOut",
                "ShuffleSplit",
                "StratifiedShuffleSplit",
                "GroupShuffleSplit",
                "PredefinedSplit",
            )
        ),
        "sklearn.utils._bunch.Bunch",  # a dict: the models of a VotingClassifier by name
        "sklearn.tree._tree.Tree",
        "sklearn.ensemble._hist_gradient_boosting.predictor.TreePredictor",
        "xgboost.core.Booster",
        "xgboost.sklearn.XGBClassifier",
    }
)


def _is_trusted(name: str) -> bool:
    """Whether a type named in a file may be built: a class that tailboost itself defines, or a known part."""
    module, _, attribute = name.rpartition(".")
    if module == "tailboost" or module.startswith("tailboost."):
        try:
            found = getattr(importlib.import_module(module), attribute, None)
        except ImportError:
            return False
        if module == "tailboost.torch.nets":  # functions that make nets; members refer to them by name
            return attribute in importlib.import_module(module).__all__
        # Objects that our modules only import, and all other functions, are not trusted.
        return isinstance(found, type) and found.__module__ == module
    return name in _KNOWN_PARTS


def _refused(untrusted: Iterable[str]) -> list[str]:
    return sorted(name for name in untrusted if not _is_trusted(name))


def _shortened(names: Iterable[str]) -> str:
    text = ", ".join(names)
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]} …"


def _skops() -> ModuleType:
    try:
        importlib.import_module("skops.io.exceptions")
        return importlib.import_module("skops.io")
    except ImportError as error:
        raise ImportError("model files need skops: pip install 'tailboost[app]'") from error


# -- shared parts, once ------------------------------------------------------------------------------------


class _Reference:
    """A reference to a part that is in the file already."""

    def __init__(self, part: Any) -> None:
        self.part = part

    def __getstate__(self) -> dict[str, Any]:
        return {"part": id(self.part)}


_REFERENCE = f"{_Reference.__module__}.{_Reference.__name__}"
_PLAIN = (type(None), bool, int, float, complex, str, type)


class _StandIn:
    """Stands for an object of another class with a given state, for skops to write."""

    state: Any

    def __getstate__(self) -> Any:
        return self.state


class _Interning:
    """Copy the structure of a model so that every part is there once and referred to elsewhere.

    skops writes a part again for each path that leads to it: 62 times for a forest that 31 members share.
    When it reads, it recognises by its number a part that it has read before.
    """

    def __init__(self) -> None:
        # By the address of a part: the part (kept, so that its address is not reused) and its copy.
        self.known: dict[int, tuple[Any, Any]] = {}
        self.begun: set[int] = set()
        self.classes: dict[type, type] = {}

    def __call__(self, part: Any) -> Any:
        if isinstance(part, _PLAIN):
            return part
        if id(part) in self.known:
            return _Reference(self.known[id(part)][1])
        if id(part) in self.begun:
            raise TypeError(f"this model cannot be stored: a {type(part).__name__} in it contains itself")
        self.begun.add(id(part))
        copied = self._copied(part)
        self.known[id(part)] = part, copied
        return copied

    def _copied(self, part: Any) -> Any:
        if type(part) is dict:
            return {key: self(value) for key, value in part.items()}
        if type(part) in (list, tuple):
            return type(part)(self(value) for value in part)
        if not _has_plain_state(type(part)):
            return part
        if getattr(part, "path", None) and hasattr(part, "fetch"):  # a net whose state is in a file
            part = copy.copy(part)
            part.fetch()
        standing_in = self._class(type(part))()
        standing_in.state = self(part.__getstate__())
        return standing_in

    def _class(self, cls: type) -> type[_StandIn]:
        if cls not in self.classes:
            self.classes[cls] = type(cls.__name__, (_StandIn,), {"__module__": cls.__module__})
        return self.classes[cls]


def _has_plain_state(cls: type) -> bool:
    """Whether skops writes objects of a class by their ``__getstate__``."""
    ours = cls.__module__.partition(".")[0] == "tailboost" or issubclass(cls, BaseEstimator)
    return (
        ours
        and not any(
            "__reduce__" in vars(c) or "__reduce_ex__" in vars(c) for c in cls.__mro__ if c is not object
        )
        and not issubclass(cls, (dict, list, tuple, set, np.ndarray))
    )


def _nodes(tree: Any) -> Iterator[dict[str, Any]]:
    """Yield the nodes of a schema, each before those within it."""
    left = [tree]
    while left:
        part = left.pop()
        if isinstance(part, dict):
            if "__loader__" in part:
                yield part
            left.extend(reversed(part.values()))
        elif isinstance(part, list):
            left.extend(reversed(part))


def _compact(dumped: bytes) -> dict[str, bytes]:
    """Return the members of a skops file with references resolved, and each content once."""
    with zipfile.ZipFile(io.BytesIO(dumped)) as archive:
        schema = json.loads(archive.read(_SCHEMA))
        members, names = {}, {}
        for name in archive.namelist():
            if name != _SCHEMA:
                content = archive.read(name)
                names[name] = digest(content) + Path(name).suffix
                members[names[name]] = content
    referred = set()
    for node in _nodes(schema):
        if f"{node['__module__']}.{node['__class__']}" == _REFERENCE:
            number = json.loads(node["content"]["content"]["part"]["content"])
            referred.add(number)
            node.clear()
            node.update(
                {"__class__": "Reference", "__module__": "", "__loader__": "CachedNode", "__id__": number}
            )
        elif isinstance(node.get("file"), str):
            node["file"] = names[node["file"]]
    numbers: dict[int, int] = {}
    for node in _nodes(schema):
        if node["__id__"] in referred:
            node["__id__"] = numbers.setdefault(node["__id__"], len(numbers) + 1)
        else:
            del node["__id__"]
    members[_SCHEMA] = json.dumps(schema, separators=(",", ":")).encode()
    return members


# -- writing -----------------------------------------------------------------------------------------------


def check_model_path(path: str | os.PathLike[str]) -> Path:
    """Check that a model can be written to a path, before there is a model.

    Parameters
    ----------
    path : path
        Where a model is to be written.

    Returns
    -------
    Path

    Raises
    ------
    ValueError
        If the name does not end in ``.skops``: with another ending it would be mistaken for
        another format.
    """
    path = Path(path)
    if path.suffix != SUFFIX:
        raise ValueError(f"model files are skops files: {str(path)!r} must end in {SUFFIX!r}")
    return path


def save_model(model: Any, path: str | os.PathLike[str], *, notes: Mapping[str, Any] | None = None) -> None:
    """Write a fitted model, or a pipeline that ends in one, to a skops file.

    What several members share is written once. The file carries the versions that it was written with and,
    for classifiers of tailboost, the answers to at most 32 rows that ``fit`` made up from the columns of the
    training table: each column is drawn by itself, so that no row of a person is stored, though single values
    are. `load_model` compares these answers. A model whose members cannot answer such rows is written without
    them. The file also carries fingerprints of the training rows, and of rows that shares were chosen on, by
    which ``seen_share`` and ``check_unseen`` know a row again that somebody already has.

    Parameters
    ----------
    model : estimator
        Any fitted classifier of tailboost, or a pipeline around one.
    path : path
        The file to write, whose name ends in ``.skops``. It is whole or absent at any time; what was there is
        replaced.
    notes : mapping, optional
        What to keep with the model, as JSON: where its data came from, when and for what it was made.
        `read_notes` returns it.

    Raises
    ------
    ImportError
        If skops is not installed.
    TypeError
        If the model holds something that `load_model` would refuse (such as a net of the user's own), or the
        notes something that is no JSON; nothing is written then.
    ValueError
        If the path does not end in ``.skops``, or the file of a net that lies in a folder is missing or
        damaged.
    OSError
        If the file cannot be written.

    Examples
    --------
    >>> import tempfile
    >>> from sklearn.datasets import load_iris
    >>> from sklearn.tree import DecisionTreeClassifier
    >>> import tailboost
    >>> X, y = load_iris(return_X_y=True)
    >>> clf = tailboost.AdaBoostClassifier(DecisionTreeClassifier(max_depth=1), n_estimators=3).fit(X, y)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     tailboost.save_model(clf, f"{folder}/model.skops")
    ...     again = tailboost.load_model(f"{folder}/model.skops")
    >>> bool((again.predict(X) == clf.predict(X)).all())
    True
    """
    skops = _skops()
    path = check_model_path(path)
    try:
        json.dumps(dict(notes or {}))
    except TypeError as error:
        raise TypeError(f"notes must be what JSON can hold: {error}") from None
    members = _compact(skops.dumps(_Interning()(model)))
    bare = _zipped(members, zipfile.ZIP_STORED)
    if refused := _refused(skops.get_untrusted_types(data=bare)):
        raise TypeError(
            f"this model cannot be stored in a file that runs no code, it holds {_shortened(refused)}; "
            "pickle stores it for those who trust the file"
        )
    names = _names(json.loads(members[_SCHEMA]))
    # A library that is not here can be no part of the model: binned trees by scikit-learn need no XGBoost.
    versions = {name: number for name, number in _versions(_consists_of(names)).items() if number}
    record = {"format": _FORMAT, "versions": versions, "answers": _answered(model)}
    if notes is not None:
        record["notes"] = dict(notes)
    record["seal"] = _seal(members, record)
    members[_RECORD] = json.dumps(record).encode()
    write(path, _zipped(members, zipfile.ZIP_DEFLATED), "the model")


def _zipped(members: dict[str, bytes], how: int) -> bytes:
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as archive:
        for name in sorted(members):
            # A fixed time: the same model gives the same file.
            archive.writestr(zipfile.ZipInfo(name), members[name], how, _LEVEL)
    return packed.getvalue()


def _names(schema: Any) -> set[str]:
    """Return the types named in a schema."""
    return {f"{node.get('__module__')}.{node.get('__class__')}" for node in _nodes(schema)}


def _consists_of(names: Iterable[str]) -> list[str]:
    """Return the libraries whose versions matter for a model with parts of these types."""
    used = [name for name, marks in _WHERE_USED.items() if any(n.startswith(marks) for n in names)]
    return [*_ALWAYS, *used]


def _versions(libraries: Iterable[str]) -> dict[str, str]:
    """Return the installed versions of the libraries that models consist of; empty where one is missing."""
    return {name: _version(name) for name in libraries if name in (*_ALWAYS, *_WHERE_USED)}


def _version(name: str) -> str:
    if name == "python":
        return platform.python_version()
    try:
        module = importlib.import_module({"scikit-learn": "sklearn"}.get(name, name))
    except ImportError:
        return ""
    return str(module.__version__)


def _answered(model: Any) -> dict[str, Any] | None:
    """Return the model's answers to its probe rows, if it has any and takes them."""
    rows = rows_of(model)
    if rows is None:
        return None
    try:
        return asdict(answers(model, rows))
    except Exception:  # members of other libraries may refuse made-up rows with exceptions of any type
        return None


def _seal(members: dict[str, bytes], record: dict[str, Any]) -> str:
    """Digest that shows whether a part of a file was changed."""
    kept = {name: digest(content) for name, content in members.items() if name != _RECORD}
    return digest(
        json.dumps([kept, {k: v for k, v in record.items() if k != "seal"}], sort_keys=True).encode()
    )


# -- reading -----------------------------------------------------------------------------------------------


class _Unreadable(Exception):
    """A fault of a file, for a message that names the file."""


def load_model(path: str | os.PathLike[str], *, check: bool = True, max_bytes: int = MAX_BYTES) -> Any:
    """Read a model written by `save_model`.

    Only types that skops trusts by itself, classes defined by tailboost, and the trees and boosters
    of scikit-learn and XGBoost are built. No code from the file is run.

    The answers to the probe rows that the file carries are computed again: labels must be the same, shares
    must agree to 1e-6. A model without probe rows (a learner by itself, a model of another library) is not
    checked; if it was saved with other versions than those here, there is a `ModelVersionWarning`.

    Parameters
    ----------
    path : path
        A file written by `save_model`.
    check : bool, default=True
        Whether answers and versions are compared. With False the model is returned although it may answer
        differently than when it was saved.
    max_bytes : int, default=2**30
        Bytes that the file may hold once it is unpacked, at least 1. Loading needs about three times as much
        memory as the file then holds. A thirty-second of it is the limit of the file's schema.

    Returns
    -------
    estimator
        The fitted model; it predicts exactly what the stored one did.

    Raises
    ------
    ImportError
        If skops, or a library that the model consists of, is not installed.
    FileNotFoundError
        If there is no such file.
    ValueError
        If it is no model file, is damaged or larger than ``max_bytes`` when unpacked; if it holds other
        types, which are named; or if it answers differently than when it was saved; the message gives both
        versions of the libraries that differ.
    """
    skops = _skops()
    with _naming(path):
        return _load(skops, Path(path), check, max_bytes)


def read_notes(path: str | os.PathLike[str], *, max_bytes: int = MAX_BYTES) -> dict[str, Any]:
    """Read what a model file says about itself, without building the model.

    Parameters
    ----------
    path : path
        A file written by `save_model`.
    max_bytes : int, default=2**30
        Bytes that the file may hold once it is unpacked.

    Returns
    -------
    dict
        ``versions``: name and version of the libraries it was written with; ``notes``: what `save_model` was
        given, empty without.

    Raises
    ------
    FileNotFoundError
        If there is no such file.
    ValueError
        If it is no model file, is damaged or too large.
    """
    with _naming(path):
        with _reading():
            record = _record(_Unpacking(max_bytes).file(Path(path)))
        if record is None:
            raise _Unreadable("was not written by tailboost.save_model")
        return {"versions": record["versions"], "notes": record.get("notes", {})}


@contextmanager
def _naming(path: str | os.PathLike[str]) -> Iterator[None]:
    """Have errors name the file."""
    if not Path(path).is_file():
        raise FileNotFoundError(f"there is no model file {os.fspath(path)!r}")
    try:
        yield
    except _Unreadable as error:
        raise ValueError(f"{os.fspath(path)!r} {error}") from error.__cause__


def _load(skops: ModuleType, path: Path, check: bool, max_bytes: int) -> Any:
    with _reading():
        members = _Unpacking(max_bytes).file(path)
        schema = json.loads(members[_SCHEMA])
        _check_visits(schema)
        _check_constructors(schema)
        record = _record(members)
        bare = _zipped(members, zipfile.ZIP_STORED)
        if record is None:
            raise _foreign(skops, bare)
        names = _names(schema)
        here = _versions(record["versions"])
        trusted = [name for name in names if _is_trusted(name)]
    for name in (name for name, number in here.items() if not number):
        raise ImportError(f"{os.fspath(path)!r} holds a model that needs {name}, which cannot be imported")
    changed = _changed(record["versions"], here)
    with _reading(f"cannot be built{f'; it was saved with {changed}' if changed else ''}"):
        try:
            model = skops.loads(bare, trusted=trusted)
        except skops.exceptions.UntrustedTypesFoundException:
            raise _foreign(skops, bare) from None
    if check:
        _compare(model, record["answers"], changed)
    return model


def _foreign(skops: ModuleType, bare: bytes) -> _Unreadable:
    """Return why a skops file was not written by `save_model`."""
    if refused := _refused(skops.get_untrusted_types(data=bare)):
        return _Unreadable(f"is refused: it holds types that are not trusted, {_shortened(refused)}")
    return _Unreadable("was not written by tailboost.save_model; skops.io reads other skops files")


@contextmanager
def _reading(words: str = "is not a model file, or is damaged") -> Iterator[None]:
    """Turn errors inside into this message: foreign or forged files raise exceptions of any type."""
    try:
        yield
    except _Unreadable:
        raise
    except Exception as error:
        raise _Unreadable(words) from error


class _Unpacking:
    """Unpack a file piece by piece, so that memory stays within stated limits.

    Parameters
    ----------
    max_bytes : int
        Bytes that all contents may have together.
    """

    def __init__(self, max_bytes: int) -> None:
        self.max_bytes = self.left = max_bytes

    def file(self, path: Path) -> dict[str, bytes]:
        """Return the members of a model file, with its arrays checked."""
        if (size := path.stat().st_size) > self.max_bytes:
            raise self._too_large(size)
        members = self._members(path.read_bytes())
        for node in _nodes(json.loads(members[_SCHEMA])):
            if node["__loader__"] == "NdArrayNode" and "file" in node:
                _check_array(members[node["file"]])
        return members

    def _members(self, content: bytes) -> dict[str, bytes]:
        with zipfile.ZipFile(io.BytesIO(content)) as archive:
            entries = archive.infolist()
            total = sum(entry.file_size for entry in entries)
            if total > self.left:
                raise self._too_large(self.max_bytes - self.left + total)
            if len({entry.filename for entry in entries}) < len(entries):
                raise _Unreadable("is damaged: a name in it occurs twice")
            self.left -= total
            return {entry.filename: self._member(archive, entry) for entry in entries}

    def _member(self, archive: zipfile.ZipFile, entry: zipfile.ZipInfo) -> bytes:
        most = self.max_bytes // _SCHEMA_SHARE
        if entry.filename == _SCHEMA and entry.file_size > most:
            raise _Unreadable(
                f"has a schema of {entry.file_size:,} bytes, more than {most:,} "
                f"(max_bytes={self.max_bytes:,} / {_SCHEMA_SHARE}); load_model can set it"
            )
        if entry.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
            raise _Unreadable("is packed in a way that model files are not")
        with archive.open(entry) as stream:
            content = b"".join(iter(lambda: stream.read(_PIECE), b""))
        if len(content) != entry.file_size:
            raise _Unreadable("is damaged: a part of it is not as long as it says")
        return content

    def _too_large(self, size: int) -> _Unreadable:
        return _Unreadable(
            f"holds {size:,} bytes, more than max_bytes={self.max_bytes:,}; load_model can set it"
        )


def _check_array(content: bytes) -> None:
    """Check that an array is as large as its header says: NumPy allocates the memory before it reads."""
    stream = io.BytesIO(content)
    read = {
        (1, 0): np.lib.format.read_array_header_1_0, (2, 0): np.lib.format.read_array_header_2_0,
    }[np.lib.format.read_magic(stream)]  # fmt: skip
    shape, _, dtype = read(stream)
    size = math.prod(shape) * max(dtype.itemsize, 1)
    if dtype.hasobject or min(shape, default=0) < 0 or size != len(content) - stream.tell():
        raise _Unreadable(f"is damaged: an array of shape {str(shape)[:50]} is not as long as it says")


def _check_visits(schema: Any) -> None:
    """Check that references do not multiply: a few kilobytes of nested ones could take forever to follow."""
    known: dict[Any, int] = {}

    def visits(part: Any) -> int:
        if isinstance(part, list):
            return sum(map(visits, part))
        if not isinstance(part, dict):
            return 0
        number = part.get("__id__") if "__loader__" in part else None
        if number in known:
            return known[number]
        if number is not None:
            known[number] = _MOST_VISITS  # a part that contains itself would never end
        known[number] = total = 1 + sum(map(visits, part.values()))
        return total

    if visits(schema) > _MOST_VISITS:
        raise _Unreadable(f"refers to its parts more than {_MOST_VISITS:,} times")


def _check_constructors(schema: Any) -> None:
    """Check that the file calls no class of tailboost or XGBoost: their objects are built from a state."""
    for node in _nodes(schema):
        called = node["__loader__"] == "ConstructorFromReduceNode"
        if called and str(node["__module__"]).partition(".")[0] in ("tailboost", "xgboost"):
            raise _Unreadable(f"is refused: it calls {_shortened([node['__module__'], node['__class__']])}")


def _record(members: dict[str, bytes]) -> dict[str, Any] | None:
    """Remove the record from a file's members and return it; its digest covers them."""
    if _RECORD not in members:
        return None
    record: dict[str, Any] = json.loads(members.pop(_RECORD))
    if record["format"] != _FORMAT:
        raise _Unreadable(f"has format {str(record['format'])[:20]}; this tailboost reads {_FORMAT}")
    if record["seal"] != _seal(members, record):
        raise _Unreadable("is damaged: its parts are not those that were written")
    return record


def _changed(then: dict[str, str], here: dict[str, str]) -> str:
    """Return in words which versions differ; empty if none does."""
    return ", ".join(f"{name} {then[name]} (here {here[name]})" for name in here if then[name] != here[name])


def _compare(model: Any, kept: dict[str, Any] | None, changed: str) -> None:
    """Compare a model's answers now with those when it was saved."""
    rows = rows_of(model)
    if kept is None or rows is None:
        if changed:
            warnings.warn(
                f"this model was saved with {changed}; it carries no probe rows by which to see whether it "
                "answers as it did",
                ModelVersionWarning,
                stacklevel=4,
            )
        return
    then = Answers(**kept)
    with _reading(f"cannot answer its probe rows; {_saved_with(changed)}"):
        now = answers(model, rows)
    if not then.same_as(now):
        raise _Unreadable(
            f"answers otherwise than when it was saved ({then.differing(now)} of {len(then.labels)} probe "
            f"rows have another label); {_saved_with(changed)}; check=False loads it all the same"
        )


def _saved_with(changed: str) -> str:
    return f"it was saved with {changed}" if changed else "it was saved with the versions that are here"
