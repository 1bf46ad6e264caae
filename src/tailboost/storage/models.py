"""Model files: write a fitted model, read it, and compare its predictions."""

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
from typing import TYPE_CHECKING, Any

from sklearn.utils.validation import check_is_fitted

from tailboost.core.array_types import Document, FilePath, Model
from tailboost.core.exceptions import ModelVersionWarning as ModelVersionWarning
from tailboost.core.files import write_output
from tailboost.core.spelling import a_type_of, number_form
from tailboost.rows.judged import judged
from tailboost.rows.ledger import Ledger
from tailboost.selection.rule import Rule
from tailboost.selection.threshold_rule import ThresholdRule
from tailboost.storage.answers import Answers, answers
from tailboost.storage.constructors import RefusedContent
from tailboost.storage.model_files import (
    ARRAYS,
    LEDGERS,
    STRUCTURE,
    Unreadable,
    digest_of_members,
    packed,
    reading,
    unpacked,
)
from tailboost.storage.parts import Damaged, Reader, Writer, name_of
from tailboost.storage.reviewed import reviewed

if TYPE_CHECKING:
    from tailboost.classifiers.robust_mixture import RobustMixtureClassifier

SUFFIX = ".model"
MAX_BYTES = 2**30
"""Default limit of `load_model` for the size of an unpacked model file, in bytes."""

# Libraries with recorded versions. Probe rows show whether another version changes predictions.
_ALWAYS = ("python", "tailboost", "numpy", "scikit-learn")
_WHERE_USED = {
    "xgboost": ("xgboost.", "tailboost.learners.hist."),
    "lightgbm": ("lightgbm.",),
    "catboost": ("catboost.",),
    "torch": ("tailboost.learners.torch.",),
}
_LONGEST = 400  # maximum number of characters from a file in a message


def check_model_path(path: FilePath) -> Path:
    """Return the path of a model file after a check of its name.

    Parameters
    ----------
    path : path
        Path of the model file.

    Raises
    ------
    ValueError
        If the name does not end in ``.model``.
    """
    path = Path(path)
    if path.suffix != SUFFIX:
        raise ValueError(f"{str(path)!r}: the name of a model file must end in {SUFFIX!r}")
    return path


def save_model(
    model: Model,
    path: FilePath,
    *,
    notes: Mapping[str, Any] | None = None,
    trusted: Collection[Any] = (),
) -> None:
    """Write a fitted model, or a pipeline with a fitted model as last step, to a file without code.

    Parts shared by several base models are written once. The file contains library versions and, for
    classifiers of tailboost, predictions for at most 32 probe rows, which `load_model` compares. `fit`
    creates probe rows by drawing each column separately from the training table. So no person's row is
    stored, although single values are. The file also contains fingerprints of the training rows and of the
    selection data. ``seen_share`` and certificates use them to detect data leakage. The file carries the
    ledger of the attempts to calibrate the model. A selected rule keeps the labels and probabilities of its
    selection data, which `calibrate`, `reweight` and `tradeoff` read (6 MB for 200,000 rows).
    ``rule_.to_dict()`` is the rule alone.

    Parameters
    ----------
    model : estimator
        Any fitted classifier of tailboost, or a pipeline around one.
    path : path
        The file. Its name ends in ``.model``. An existing file is replaced as a whole.
    notes : mapping, optional
        JSON values to store with the model, such as the origin of the data, date and purpose. `read_notes`
        returns them.
    trusted : collection of classes, functions or their full names, optional
        Other allowed classes and functions, or their full names as "package.module.Class".
        `load_model` needs the same ones. Without them a ``FunctionTransformer`` may contain only
        `numpy.log`, ``log1p``, ``log2``, ``log10``, ``exp``, ``expm1``, ``sqrt``, ``cbrt``, ``square``,
        ``absolute``, ``sign``; ``SelectKBest`` and similar classes only ``f_classif``, ``chi2`` and
        ``mutual_info_classif``.

    Raises
    ------
    NotFittedError
        If the model is not fitted.
    TypeError
        If ``model`` is no model, if it contains an estimator or function that is neither on the list nor in
        ``trusted``, or notes are not JSON values. Nothing is written.
    ValueError
        If the path does not end in ``.model``.
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
    if isinstance(model, (Rule, ThresholdRule)):
        raise TypeError(
            "a rule is no model: give the classifier whose rule_ it is; to_json is the rule "
            "alone"
        )
    try:
        json.dumps(dict(notes or {}))
    except TypeError as error:
        raise TypeError(f"notes must be JSON values: {error}") from None
    if name_of(type(model)) in reviewed() and hasattr(model, "fit"):
        check_is_fitted(model)
    writer = Writer(_checked_names(trusted))
    view = judged(model)
    if view.has_records:
        writer.ledgers.append(view.records.ledger)  # the first one, which read_ledger returns
    try:
        structure = writer.finished(writer.value(model))
    except RefusedContent:
        refused = _all_refused(model, writer.trusted)
        verb = number_form(len(refused), "is", "are")
        raise TypeError(
            "this model cannot be stored in a file that runs no code: "
            f"{_shortened(', '.join(refused))} {verb} not on the list. Pass your classes and "
            "functions, or their full names, as trusted=[…] to save_model and load_model. "
            "Pickle stores any model, for readers who trust the file"
        ) from None
    if not hasattr(model, "fit"):  # a plain value or another listed object
        raise TypeError(f"model must be a fitted model or a pipeline, got {a_type_of(model)}")
    members = {
        STRUCTURE: json.dumps(structure, separators=(",", ":")).encode(),
        ARRAYS: bytes(writer.arrays),
        LEDGERS: _ledgers_text(writer.ledgers),
    }
    record = {
        "versions": _versions_of_use(writer.classes),
        "answers": _answers_to_probes(model),
    }
    if notes is not None:
        record["notes"] = dict(notes)
    write_output(path, packed(members, record))


def _versions_of_use(class_names: Iterable[str]) -> dict[str, str]:
    """Return the versions of the libraries that a model with these classes needs."""
    libraries = list(_ALWAYS)
    for library, beginnings in _WHERE_USED.items():
        if any(name.startswith(beginnings) for name in class_names):
            libraries.append(library)
    installed = {name: _version(name) for name in libraries}
    return {name: version for name, version in installed.items() if version}


def _all_refused(model: Any, trusted: Iterable[str]) -> list[str]:
    """Return what `Writer` refuses in a model: each is found once the earlier ones are trusted."""
    refused: list[str] = []
    while True:
        writer = Writer([*trusted, *refused])
        try:
            writer.finished(writer.value(model))
        except RefusedContent as refusal:
            if str(refusal) not in refused:
                refused.append(str(refusal))
                continue
        return refused


def _checked_names(trusted: Any) -> list[str]:
    """Return the full names of trusted classes and functions; raise TypeError if one is none."""
    names = []
    if not isinstance(trusted, str):
        names = [name_of(each) if callable(each) else each for each in trusted]
    if isinstance(trusted, str) or not all(
        isinstance(name, str) and "." in name for name in names
    ):
        raise TypeError(
            "trusted must be a list of classes and functions, or of their full names as "
            f"'package.module.Class', got {trusted!r}"
        )
    return names


def _shortened(text: str) -> str:
    """Return a text from a file for a message, cut to `_LONGEST` characters."""
    if len(text) <= _LONGEST:
        return text
    return f"{text[:_LONGEST]} …"


def _version(library: str) -> str:
    """Return the installed version of Python or a library; empty if it cannot be imported."""
    if library == "python":
        return platform.python_version()
    try:
        module = importlib.import_module({"scikit-learn": "sklearn"}.get(library, library))
    except ImportError:
        return ""
    return str(module.__version__)


def _answers_to_probes(model: Model) -> Document | None:
    """Return `Answers` for the probe rows as a dict; None without such rows, or if the model rejects them."""
    rows = judged(model).probe_rows
    if rows is None:
        return None
    try:
        return asdict(answers(model, rows))
    except Exception:  # base models of other libraries raise exceptions of any type
        return None


# -- ledgers -----------------------------------------------------------------------------------------------


def _ledgers_text(ledgers: Iterable[Ledger]) -> bytes:
    return json.dumps([ledger.to_dict() for ledger in ledgers], indent=1).encode()


def _ledgers(members: Mapping[str, bytes]) -> list[Ledger]:
    return [Ledger.from_dict(state) for state in json.loads(members[LEDGERS])]


def read_ledger(path: FilePath) -> Ledger:
    """Read the ledger of a model file, without loading the model; it is empty if the model has none.

    Raises
    ------
    FileNotFoundError
        If there is no such file.
    ValueError
        If the file is not a model file, is damaged or too large.
    """
    with _naming(path):
        members, _ = unpacked(Path(path), MAX_BYTES)
        with reading("is damaged: its ledger is invalid"):
            return next(iter(_ledgers(members)), Ledger())


def write_ledger(path: FilePath, ledger: Ledger) -> None:
    """Replace the ledger of a model file; everything else in the file stays.

    Raises
    ------
    FileNotFoundError
        If there is no such file.
    ValueError
        If the file is not a model file, is damaged or too large.
    OSError
        If the file cannot be written.
    """
    with _naming(path):
        members, record = unpacked(Path(path), MAX_BYTES)
        with reading("is damaged: its ledger is invalid"):
            ledgers = _ledgers(members)  # the first one is of the model
            members[LEDGERS] = _ledgers_text([ledger, *ledgers[1:]])
    write_output(path, packed(members, record))


def model_digest(path: FilePath) -> str:
    """Return a digest of a model file without its ledgers, which attempts change.

    Raises
    ------
    FileNotFoundError
        If there is no such file.
    ValueError
        If the file is not a model file, is damaged or too large.
    """
    with _naming(path):
        members, record = unpacked(Path(path), MAX_BYTES)
    members.pop(LEDGERS)
    return digest_of_members(members, record)


# -- reading -----------------------------------------------------------------------------------------------


def load_model(
    path: FilePath,
    *,
    check: bool = True,
    max_bytes: int = MAX_BYTES,
    trusted: Collection[Any] = (),
) -> RobustMixtureClassifier | Any:
    """Read a model written by `save_model`.

    A file contains plain data, arrays, boosters in the formats of their projects, and fields of objects of
    listed classes. The file cannot name functions to call. Loading and predicting neither open nor write
    other files. ``SECURITY.md`` describes the guarantees and their limits.

    The predictions for the probe rows are compared: labels must be equal, probabilities must agree to 1e-6. A
    model without probe rows (a base learner, a model of another library) is not compared; other library
    versions then give a `ModelVersionWarning`.

    Parameters
    ----------
    path : path
        A file written by `save_model`.
    check : bool, default=True
        Whether to compare predictions and versions. With False the model may predict differently than before.
    max_bytes : int, default=2**30
        Limit for the size of the unpacked file, in bytes. Loading needs about three times the size in memory.
        The limit of the text in it, as structure, record and ledgers, is ``max_bytes`` / 32.
    trusted : collection of classes, functions or their full names, optional
        Other allowed classes and functions, or their full names as "package.module.Class". They are
        imported and get values from the file. Name only those that the author of the file may use.

    Returns
    -------
    estimator
        The fitted model, with the predictions of the saved one. A file of ``tailboost fit`` has a `Pipeline`;
        its classifier, with ``rule_`` and ``certificate_``, is the last step: ``model[-1]``.

    Raises
    ------
    ImportError
        If a library of the model is not installed.
    FileNotFoundError
        If there is no such file.
    ValueError
        If the file is not a model file, is damaged, or exceeds ``max_bytes``; if it contains classes or
        functions that are neither on the list nor in ``trusted``; or if predictions differ from those at
        saving. The message names classes and versions.
    """
    names = _checked_names(trusted)
    with _naming(path):
        return _load(Path(path), check, max_bytes, names)


def read_notes(path: FilePath, *, max_bytes: int = MAX_BYTES) -> Document:
    """Read versions and notes of a model file, without loading the model.

    Parameters
    ----------
    path : path
        A file written by `save_model`.
    max_bytes : int, default=2**30
        Limit for the size of the unpacked file, in bytes.

    Returns
    -------
    dict
        ``versions``: library versions at saving; ``notes``: the notes of `save_model`, empty by default.

    Raises
    ------
    FileNotFoundError
        If there is no such file.
    ValueError
        If the file is not a model file, is damaged or too large.
    """
    with _naming(path):
        _, record = unpacked(Path(path), max_bytes)
        return {"versions": record["versions"], "notes": record.get("notes", {})}


@contextmanager
def _naming(path: FilePath) -> Iterator[None]:
    """Add the name of the file to errors in the block."""
    if Path(path).is_dir():
        raise IsADirectoryError(f"{os.fspath(path)!r} is a directory; give a model file in it")
    if not Path(path).is_file():
        raise FileNotFoundError(f"there is no model file {os.fspath(path)!r}")
    try:
        yield
    except Unreadable as error:
        cure = ""
        if "damaged" in str(error):
            cure = ". Of a damaged file fetch another copy, or fit and store the model again"
        raise ValueError(f"{os.fspath(path)!r} {error}{cure}") from error.__cause__


def _load(path: Path, check: bool, max_bytes: int, trusted: Collection[str]) -> Any:
    """Return the model of a file, see `load_model`; errors do not name the file.

    Parameters
    ----------
    path : Path
        The model file.
    check : bool
        Whether stored answers are compared with those of the model.
    max_bytes : int
        The most bytes of its contents in memory.
    trusted : collection of str
        Full names of further classes and functions that the file may contain.
    """
    members, record = unpacked(path, max_bytes)
    changed = _changed_versions(path, record["versions"])
    fault = "cannot be built"
    if changed:
        fault += f"; it was saved with {changed}"
    try:
        with reading(fault, RefusedContent, Damaged):
            structure = json.loads(members[STRUCTURE])
            ledgers = _ledgers(members)
            model = Reader(structure, members[ARRAYS], max_bytes, trusted, ledgers).model()
    except RefusedContent as refusal:
        reason = f"it contains {_shortened(str(refusal))}, which is not on the list of allowed classes"
        if changed:  # a renamed class is on no list
            reason += f"; it was written by another version ({changed}): fit again"
        raise Unreadable(
            f"is refused: {reason}; pass your own classes as trusted=[…]"
        ) from None
    except Damaged as damage:
        raise Unreadable(f"is damaged: {_shortened(str(damage))}") from None
    if check:
        _compare(model, record["answers"], changed)
    return model


def _changed_versions(path: Path, saved_versions: Mapping[str, str]) -> str:
    """Return the libraries with another version than at saving, in words; empty if there are none.

    Raise ImportError if a library of the model is missing.
    """
    differences = []
    known = {*_ALWAYS, *_WHERE_USED}  # a forged file may name others, which are not imported
    for name, saved in saved_versions.items():
        if name not in known:
            continue
        installed = _version(name)
        if not installed:
            raise ImportError(
                f"{os.fspath(path)!r} contains a model that needs {name}, which cannot be "
                "imported"
            )
        if saved != installed:
            differences.append(f"{name} {saved} (here {installed})")
    return ", ".join(differences)


def _compare(model: Model, saved: dict[str, Any] | None, changed: str) -> None:
    """Raise `Unreadable` if predictions for the probe rows differ from those at saving.

    Without probe rows, a change of a library brings a warning.

    ``saved`` has the fields of `Answers`. ``changed`` names libraries with other versions, see
    `_changed_versions`.
    """
    with reading("is damaged: its model is invalid"):
        rows = judged(model).probe_rows
    if saved is None or rows is None:
        if changed:
            warnings.warn(
                f"this model was saved with {changed}; without probe rows, so predictions were "
                "not compared",
                ModelVersionWarning,
                stacklevel=4,  # the line that calls load_model
            )
        return
    with reading("is damaged: its record of predictions is invalid"):
        saved_answers = Answers(**saved)
        n_rows = len(saved_answers.labels)
    with reading(f"cannot predict its probe rows; {_saved_with(changed)}"):
        new_answers = answers(model, rows)
        are_same = saved_answers.same_as(new_answers)
        n_different = saved_answers.differing(new_answers)
    if not are_same:
        raise Unreadable(
            f"predicts differently than at saving ({n_different} of {n_rows} probe rows have "
            f"another label); {_saved_with(changed)}; check=False loads it anyway"
        )


def _saved_with(changed: str) -> str:
    """Return the versions at saving as a clause, from the text of `_changed_versions`."""
    if changed:
        return f"it was saved with {changed}"
    return "it was saved with the installed versions"
