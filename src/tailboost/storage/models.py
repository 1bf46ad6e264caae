"""Model files by skops: reading one runs no code of the file."""

import json
import zipfile
from collections.abc import Collection, Mapping
from importlib import import_module
from io import BytesIO
from pathlib import Path
from typing import Any

from sklearn.utils.validation import check_is_fitted

from tailboost.core import (
    Document,
    FilePath,
    Model,
    ModelVersionWarning,
    check_format,
    versions,
    warn_user,
    write_output,
)
from tailboost.rows import digest

FORMAT = 7
RECORD_FILE = "tailboost.json"  # its name in the archive of a model file
# Classes of other libraries that hold plain numbers.
TRUSTED = {
    "xgboost.core.Booster",
    "xgboost.sklearn.XGBClassifier",
    "xgboost.sklearn.XGBRFClassifier",
    "lightgbm.basic.Booster",
    "lightgbm.sklearn.LGBMClassifier",
    "collections.OrderedDict",
    "numpy.dtype",
    # Steps of scikit-learn keep these, and call functions on the rows alone.
    "functools.partial",
    "numpy.mean",
    "scipy.interpolate._bsplines.BSpline",
    "scipy._lib.array_api_compat.numpy._aliases.asarray",
    "sklearn.cluster._kmeans._kmeans_single_lloyd",
    "sklearn.feature_selection._mutual_info.mutual_info_classif",
    "sklearn.feature_selection._univariate_selection.chi2",
    "sklearn.feature_selection._univariate_selection.f_classif",
    "sklearn.metrics._classification.balanced_accuracy_score",
    "sklearn.utils.validation.check_array",
}
# Packages whose versions decide what a model predicts; XGBoost has a second one, without the part for GPUs.
COMPARED = ("tailboost", "scikit-learn", "xgboost", "xgboost-cpu", "lightgbm")


def save_model(
    model: Model,
    path: FilePath,
    *,
    notes: Mapping[str, Any] | None = None,
    trusted: Collection[str] = (),
) -> None:
    """Write a fitted model to a file of skops, whole or not at all.

    What is written was read back before, as `load_model` reads it. The file has the settings, the
    certificate, the ledger of attempts and the fingerprints of the rows of a classifier of tailboost. A
    selected rule keeps the labels and probabilities of its selection data, which `calibrate`, ``reweight``
    and ``tradeoff`` read.

    Parameters
    ----------
    model : estimator
        Any fitted classifier of tailboost or scikit-learn, or a pipeline around one.
    path : path
        The file. An existing file is replaced.
    notes : mapping, optional
        JSON values to store with the model, such as the origin of the data, which
        `tailboost.storage.models.read_notes` returns. A loaded model has none, so give them again to save it.
    trusted : collection of str, optional
        Full names of classes and functions of the model that `load_model` will be told to trust.

    Raises
    ------
    NotFittedError
        If the model is not fitted.
    TypeError
        If it is no model, if a part of it cannot be stored or read back, or if notes are not JSON values.
    ValueError
        If models of a rule were changed after its selection.
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
    import skops.io  # which imports PyTorch where it is installed

    from tailboost.classifiers.evidence import ChangedError

    if not hasattr(model, "fit"):
        raise TypeError(
            f"model must be a fitted model or pipeline (save_rule writes a rule): {model!r:.80}"
        )
    check_is_fitted(model)
    text_of_notes = json.dumps(dict(notes or {}))
    notes_read = json.loads(text_of_notes)
    if json.dumps(notes_read) != text_of_notes:
        raise TypeError("notes: two entries have one name in JSON, as those of 1 and '1'")
    try:
        content = BytesIO(skops.io.dumps(model, compression=zipfile.ZIP_DEFLATED))
    except ChangedError:  # which says itself what is wrong
        raise
    except Exception as error:  # skops raises what a part meets
        raise TypeError(
            f"a part of this model has no form without code: {error}. Of a net, give a "
            "function that builds it: module=build, and not an nn.Module"
        ) from error
    try:
        _model_of(content.getvalue(), trusted)
    except Exception as error:
        raise TypeError(f"load_model would refuse the file of this model: {error}") from error
    with zipfile.ZipFile(content, "a") as archive:
        record = {
            "format": FORMAT,
            "versions": versions(),
            "notes": notes_read,
        }
        record["digest"] = _digest_with(archive, record)
        archive.writestr(RECORD_FILE, json.dumps(record))
    write_output(path, content.getvalue())


def read_notes(path: FilePath) -> Document:
    """Return the record of a model file, such as ``versions`` and ``notes``, without loading the model.

    Raises
    ------
    FileNotFoundError
        If there is no such file.
    ValueError
        If the file is no model file, was edited, or has another format.
    """
    return _opened(path)[1]


def _opened(path: FilePath) -> tuple[bytes, Document]:
    """Return a model file and its record; raise as `read_notes`."""
    content = Path(path).read_bytes()
    try:
        with zipfile.ZipFile(BytesIO(content)) as archive:
            record = json.loads(archive.read(RECORD_FILE))
            is_intact = record["digest"] == _digest_with(archive, record)
    except Exception:  # zipfile raises what a damaged file meets
        is_intact = False
    if not is_intact:
        raise ValueError(
            f"{str(path)!r} is no model file of tailboost, or was changed after it was written; "
            "the name of a rule file ends in .json"
        )
    check_format(record, FORMAT, f"{str(path)!r}", "fit the model again")
    return content, record


def load_model(path: FilePath, *, trusted: Collection[str] = ()) -> Model:
    """Read a model written by `save_model`.

    skops makes objects of the types that it trusts, of the classes of tailboost and scikit-learn, of a few
    others that models of scikit-learn, XGBoost and LightGBM have, and of those in ``trusted``. Everything
    else is refused before an object is made. ``SECURITY.md`` says what this does not limit.

    Parameters
    ----------
    path : path
        A file written by `save_model`.
    trusted : collection of str, optional
        Full names of further classes and functions, such as ``"package.module.Class"``. Name only those that
        the author of the file may use.

    Returns
    -------
    estimator
        The fitted model, with the predictions of the saved one.

    Raises
    ------
    FileNotFoundError
        If there is no such file.
    ValueError
        If the file is no model file, was edited, is damaged, has another format, or types that are not
        trusted, which the message names.

    Warns
    -----
    ModelVersionWarning
        If another version of tailboost, scikit-learn, XGBoost or LightGBM wrote the file.
    """
    content, record = _opened(path)
    try:
        model = _model_of(content, trusted)
    except Exception as error:  # skops raises what a damaged file meets
        raise ValueError(f"{str(path)!r} is refused: {error}") from error
    # Another package of XGBoost of the same version is no change.
    now = {name.removesuffix("-cpu"): version for name, version in versions().items()}
    changed = [
        f"{name} {version}"
        for name, version in record["versions"].items()
        if name in COMPARED and version != now.get(name.removesuffix("-cpu"))
    ]
    if changed:
        warn_user(
            f"{str(path)!r} was saved with {', '.join(changed)}: compare its predictions",
            ModelVersionWarning,
        )
    return model


def _model_of(content: bytes, trusted: Collection[str]) -> Model:
    """Return the model of a file; raise ValueError for types that are not trusted, or what skops meets."""
    import skops.io

    names = skops.io.get_untrusted_types(data=content)
    known = filter(_is_known_class, names)
    refused = sorted({*names}.difference(TRUSTED, trusted, known))
    if refused:
        raise ValueError(
            "it has types that are not trusted. If modules define them and you trust them, "
            f"save and load it with trusted={refused}"
        )
    return skops.io.loads(content, trusted=names)


def _digest_with(archive: zipfile.ZipFile, record: Document) -> str:
    """Return the digest of a model file: of its record, and of the checksums of its parts."""
    parts = {
        part.filename: part.CRC for part in archive.infolist() if part.filename != RECORD_FILE
    }
    return digest(json.dumps([parts, record | {"digest": None}], sort_keys=True).encode())


def _is_known_class(name: str) -> bool:
    """Return whether a full name is that of a class of tailboost or scikit-learn.

    A function is none, and neither is a class that such a module imports from elsewhere. A class that has
    moved within its library is one under its earlier name, too.
    """
    module, _, attribute = name.rpartition(".")
    library = module.partition(".")[0]
    if library not in ("tailboost", "sklearn") or ".tests" in module:
        return False
    try:
        named = getattr(import_module(module), attribute, None)
    except SystemExit:  # of the command line, where typer is missing
        return False
    return isinstance(named, type) and named.__module__.partition(".")[0] == library
