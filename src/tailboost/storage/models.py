"""Fitted models in files: written, read, and asked whether they answer as they did."""

from __future__ import annotations

import importlib
import json
import os
import platform
import warnings
from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Any

from sklearn.utils.validation import check_is_fitted

from tailboost.core.files import write
from tailboost.core.probe import Answers, answers, rows_of
from tailboost.storage.constructors import Refused
from tailboost.storage.model_files import ARRAYS, STRUCTURE, Unreadable, packed, reading, unpacked
from tailboost.storage.parts import Damaged, Reader, Writer, name_of
from tailboost.storage.reviewed import reviewed

# The second is the ending of the files of earlier editions, which scripts may still name.
SUFFIXES = (".model", ".skops")
MAX_BYTES = 2**30
"""Default limit for `load_model`: the bytes that a model file may hold once it is unpacked."""

# Libraries whose versions are recorded; the probe rows decide whether another version changes answers.
_ALWAYS = ("python", "tailboost", "numpy", "scikit-learn")
_WHERE_USED = {
    "xgboost": ("xgboost.", "tailboost.learners.hist."),
    "lightgbm": ("lightgbm.",),
    "catboost": ("catboost.",),
    "torch": ("tailboost.learners.torch.",),
}
_LONGEST = 400  # the most characters of a file's names that a message shows


class ModelVersionWarning(UserWarning):
    """A model was saved with other library versions and has no probe rows to compare answers."""


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
        If the name ends neither in ``.model`` nor, as before, in ``.skops``: with another ending it would be
        mistaken for another format.
    """
    path = Path(path)
    if path.suffix not in SUFFIXES:
        raise ValueError(f"{str(path)!r}: the name of a model file must end in {SUFFIXES[0]!r}")
    return path


def save_model(
    model: Any,
    path: str | os.PathLike[str],
    *,
    notes: Mapping[str, Any] | None = None,
    trusted: Collection[str] = (),
) -> None:
    """Write a fitted model, or a pipeline that ends in one, to a file that runs no code.

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
        The file to write, whose name ends in ``.model``. It is whole or absent at any time; what was there is
        replaced.
    notes : mapping, optional
        What to keep with the model, as JSON: where its data came from, when and for what it was made.
        `read_notes` returns it.
    trusted : collection of str, optional
        Full names of classes and functions of your own that the model may hold, as "package.module.Class";
        `load_model` has to be given the same names. Without it a ``FunctionTransformer`` may hold
        `numpy.log`, ``log1p``, ``log2``, ``log10``, ``exp``, ``expm1``, ``sqrt``, ``cbrt``, ``square``,
        ``absolute``, ``sign`` and no other function, and a ``SelectKBest`` and its like ``f_classif``,
        ``chi2`` and ``mutual_info_classif``.

    Raises
    ------
    NotFittedError
        If the model is not fitted.
    TypeError
        If the model holds something that `load_model` would refuse, which is named (an estimator that is not
        on the list and not in ``trusted``, a function), or the notes something that is no JSON; nothing is
        written then.
    ValueError
        If the path does not end in ``.model``, or the file of a net that lies in a folder is missing or
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
    ...     tailboost.save_model(clf, f"{folder}/iris.model")
    ...     again = tailboost.load_model(f"{folder}/iris.model")
    >>> bool((again.predict(X) == clf.predict(X)).all())
    True
    """
    path = check_model_path(path)
    try:
        json.dumps(dict(notes or {}))
    except TypeError as error:
        raise TypeError(f"notes must be what JSON can hold: {error}") from None
    if name_of(type(model)) in reviewed() and hasattr(model, "fit"):
        check_is_fitted(model)
    writer = Writer(_checked_names(trusted))
    try:
        structure = writer.finished(writer.value(model))
    except Refused as refusal:
        raise TypeError(
            f"this model cannot be stored in a file that runs no code: {_shortened(str(refusal))} is not on "
            "the list. Classes and functions of your own can be given as trusted=[…], to save_model and to "
            "load_model; pickle stores anything, for those who trust the file"
        ) from None
    members = {
        STRUCTURE: json.dumps(structure, separators=(",", ":")).encode(),
        ARRAYS: bytes(writer.arrays),
    }
    # A library that is not here can be no part of the model: binned trees by scikit-learn need no XGBoost.
    used = [name for name, marks in _WHERE_USED.items() if any(c.startswith(marks) for c in writer.classes)]
    versions = {name: number for name, number in _versions([*_ALWAYS, *used]).items() if number}
    record: dict[str, Any] = {"versions": versions, "answers": _answered(model)}
    if notes is not None:
        record["notes"] = dict(notes)
    write(path, packed(members, record), "the model")


def _checked_names(trusted: Any) -> list[str]:
    if isinstance(trusted, str) or not all(isinstance(name, str) and "." in name for name in trusted):
        raise TypeError(f"trusted must be a list of full names as 'package.module.Class', got {trusted!r}")
    return list(trusted)


def _shortened(text: str) -> str:
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]} …"


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


# -- reading -----------------------------------------------------------------------------------------------


def load_model(
    path: str | os.PathLike[str],
    *,
    check: bool = True,
    max_bytes: int = MAX_BYTES,
    trusted: Collection[str] = (),
) -> Any:
    """Read a model written by `save_model`.

    A file holds plain data, arrays, boosters in the formats of their projects, and objects of the classes of
    a fixed list that are given their fields: nothing that the file names is called, and neither loading nor
    asking the model opens or writes a file. What is promised, and what is not, is in ``SECURITY.md``.

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
        memory as the file then holds. A thirty-second of it is the limit of the structure, which is text.
    trusted : collection of str, optional
        Full names of further classes and functions that may be in the file, as "package.module.Class". They
        are imported, their objects get what the file has for them, and the functions may be called with it:
        name only what may be used by whoever wrote the file.

    Returns
    -------
    estimator
        The fitted model; it predicts exactly what the stored one did.

    Raises
    ------
    ImportError
        If a library that the model consists of is not installed.
    FileNotFoundError
        If there is no such file.
    ValueError
        If it is no model file, is damaged or larger than ``max_bytes`` when unpacked; if it holds classes or
        functions that are neither on the list nor in ``trusted``, which are named; or if it answers
        differently than when it was saved; the message gives both versions of the libraries that differ.
    """
    names = _checked_names(trusted)
    with _naming(path):
        return _load(Path(path), check, max_bytes, names)


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
        _, record = unpacked(Path(path), max_bytes)
        return {"versions": record["versions"], "notes": record.get("notes", {})}


@contextmanager
def _naming(path: str | os.PathLike[str]) -> Iterator[None]:
    """Have errors name the file."""
    if not Path(path).is_file():
        raise FileNotFoundError(f"there is no model file {os.fspath(path)!r}")
    try:
        yield
    except Unreadable as error:
        raise ValueError(f"{os.fspath(path)!r} {error}") from error.__cause__


def _load(path: Path, check: bool, max_bytes: int, trusted: Collection[str]) -> Any:
    members, record = unpacked(path, max_bytes)
    here = _versions(record["versions"])
    for name in (name for name, number in here.items() if not number):
        raise ImportError(f"{os.fspath(path)!r} holds a model that needs {name}, which cannot be imported")
    then = record["versions"]
    changed = ", ".join(
        f"{name} {then[name]} (here {here[name]})" for name in here if then[name] != here[name]
    )
    with reading(f"cannot be built{f'; it was saved with {changed}' if changed else ''}"):
        try:
            reader = Reader(json.loads(members[STRUCTURE]), members[ARRAYS], max_bytes, trusted)
            model = reader.model()
        except Refused as refusal:
            what = f"it holds what is not on the list of what a model consists of, {_shortened(str(refusal))}"
            if changed:  # what was renamed since is on no list
                what += f"; it was written by another version ({changed}): fit again"
            raise Unreadable(f"is refused: {what}; if it is your own class, trusted=[…] names it") from None
        except Damaged as fault:
            raise Unreadable(f"is damaged: {_shortened(str(fault))}") from None
    if check:
        _compare(model, record["answers"], changed)
    return model


def _compare(model: Any, kept: dict[str, Any] | None, changed: str) -> None:
    """Compare a model's answers now with those when it was saved."""
    with reading("is damaged: its model is none"):
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
    with reading("is damaged: its record of answers is not one"):
        then = Answers(**kept)
        n_rows = len(then.labels)
    with reading(f"cannot answer its probe rows; {_saved_with(changed)}"):
        now = answers(model, rows)
        same, differing = then.same_as(now), then.differing(now)
    if not same:
        raise Unreadable(
            f"answers otherwise than when it was saved ({differing} of {n_rows} probe "
            f"rows have another label); {_saved_with(changed)}; check=False loads it all the same"
        )


def _saved_with(changed: str) -> str:
    return f"it was saved with {changed}" if changed else "it was saved with the versions that are here"
