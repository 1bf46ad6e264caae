"""A learner with its candidates in a folder, so a killed fit continues when called again."""

from __future__ import annotations

import json
import pickle
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from joblib.hashing import NumpyHasher
from sklearn.base import BaseEstimator

from tailboost.boosting.game import Candidate, Request, Stop
from tailboost.boosting.learner import CrossFit, Whole
from tailboost.core.array_types import Model
from tailboost.core.files import make_folder, read_sealed, remove_parts, write_sealed
from tailboost.rows.fingerprints import digest

# Beginning of the names of files.
PREFIX = "candidate-"
# Scalars of at most this length are described by their ``repr``, other values by a hash.
LONGEST_SCALAR = 60
# Libraries of every fit. The libraries of the estimator's classes are added.
LIBRARIES = ("tailboost", "numpy", "scipy", "sklearn", "xgboost")
# Parameters that may differ between a killed fit and its continuation. Parameters of the weights of a
# round change the request.
FREE = frozenset(
    {
        *("n_jobs", "verbose", "checkpoint_dir", "max_time", "tol"),
        *("n_iter_no_change", "n_estimators"),
    }
)


@dataclass(frozen=True, eq=False)
class CheckpointedLearner:
    """A learner with a folder of its candidates: the candidate of a repeated request is read from a file.

    The digest of the fit and of the request names a file, so several fits may share a folder. After Ctrl-C
    nothing is written: the learner may have returned a half-trained model.

    Attributes
    ----------
    learner : Learner
        The learner.
    folder : Path
        The folder.
    identity : str
        The fit, see `identify`.
    interrupted : callable
        Returns whether Ctrl-C was pressed.
    """

    learner: Whole | CrossFit
    folder: Path
    identity: str
    interrupted: Callable[[], bool]

    @classmethod
    def open(
        cls,
        learner: Whole | CrossFit,
        folder: object,
        identity: str,
        interrupted: Callable[[], bool],
    ) -> CheckpointedLearner:
        """Return a learner with the folder of the parameter ``checkpoint_dir``, which is created if missing.

        Raises
        ------
        ValueError
            If the folder cannot be created.
        """
        path = make_folder(folder, "checkpoint_dir")
        remove_parts(path, PREFIX)  # unfinished files of a killed fit
        return cls(learner, path, identity, interrupted)

    def fit(self, request: Request) -> Candidate | Stop:
        """Return the candidate of a request from the folder or, the first time, a fitted one.

        Raises
        ------
        KeyboardInterrupt
            If Ctrl-C was pressed while the learner was fitted.
        ValueError
            If a file is damaged.
        OSError
            If a file cannot be read or written; earlier files stay valid.
        """
        inputs = f"{self.identity} {request.seed} {request.demand}".encode()
        name = digest(inputs, np.ascontiguousarray(request.density).tobytes())
        path = self.folder / f"{PREFIX}{name}.pkl"
        if path.exists():
            return self._read(path)
        candidate = self.learner.fit(request)
        if self.interrupted():
            raise KeyboardInterrupt
        if isinstance(candidate, Candidate):
            write_sealed(path, pickle.dumps(candidate), "the candidate of a round")
        return candidate

    def _read(self, path: Path) -> Candidate:
        """Return the candidate of a file; raise OSError or ValueError with the cure for a failure."""
        try:
            candidate: Candidate = pickle.loads(read_sealed(path))
        except OSError as error:
            message = f"checkpoint {str(path)!r} cannot be read ({error.strerror})"
            raise OSError(error.errno, message) from error
        except Exception as error:  # damaged content raises exceptions of many types
            raise ValueError(
                f"checkpoint {str(path)!r} is damaged ({error}); delete it to fit its round again"
            ) from error
        return candidate


class _Hasher(NumpyHasher):
    """joblib's hash by value, also for tensors and modules of PyTorch."""

    def save(self, value: object) -> None:
        """Add a value to the hash: of a tensor its type and numbers, of a module its attributes."""
        torch: Any = sys.modules.get("torch")
        if torch is not None and isinstance(value, torch.Tensor):
            shape = None
            bytes_of_tensor = None
            is_lazy = hasattr(value, "materialize")  # without values before the first use
            if not is_lazy:
                shape = tuple(value.shape)
                bytes_of_tensor = value.detach().cpu().flatten().view(torch.uint8).numpy()
            value = (str(value.dtype), shape, value.requires_grad, bytes_of_tensor)
        elif torch is not None and isinstance(value, torch.nn.Module):
            # PyTorch numbers hooks, differently in each process.
            attributes = {
                name: kept for name, kept in vars(value).items() if "hook" not in name
            }
            value = (type(value), attributes)
        super().save(value)


def describe(value: object) -> str:
    """Return a short text about a value, the same for equal values in every process.

    Raises
    ------
    Exception
        If the value cannot be pickled: pickling fails with exceptions of many types.
    """
    if isinstance(value, (np.bool_, np.integer, np.float64)):  # 1 of NumPy equals 1
        value = value.item()
    is_scalar = value is None or isinstance(value, (bool, int, float, str))
    if is_scalar and len(repr(value)) <= LONGEST_SCALAR:
        return repr(value)
    cls = type(value)
    name = f"{cls.__module__}.{cls.__qualname__}"
    clone = getattr(cls, "__sklearn_clone__", None)
    if isinstance(value, BaseEstimator) and clone is BaseEstimator.__sklearn_clone__:
        return name  # a clone keeps the parameters alone, and `identify` describes each one
    return f"{name} {_Hasher(hash_name='md5').hash(value)}"


def identify(classifier: Model, data: str, entropy: int) -> str:
    """Return all inputs of the rounds of a fit as text: only a fit with the same text may continue.

    Parameters
    ----------
    classifier : BaseEstimator
        The classifier to be fitted.
    data : str
        Digest of rows, labels, weights and groups.
    entropy : int
        Root of all random seeds. Parameters ``random_state`` are left out.

    Raises
    ------
    ValueError
        If a parameter cannot be compared by value. The message names the parameter.
    """
    params = {}
    types = [type(classifier)]
    for name, value in sorted(classifier.get_params().items()):
        if name in FREE or name.endswith("random_state"):
            continue
        types.append(type(value))
        try:
            params[name] = describe(value)
        except Exception as error:  # pickling raises exceptions of any type
            raise ValueError(
                f"checkpoint_dir needs parameters that can be pickled; {name} cannot "
                f"({type(value).__name__}: {error}); define functions at the top of a module"
            ) from None
    description = {
        "class": f"{types[0].__module__}.{types[0].__qualname__}",
        "data": data,
        "entropy": entropy,
        "params": params,
        "versions": _versions_of(types),
    }
    return json.dumps(description, sort_keys=True)


def _versions_of(types: list[type]) -> dict[str, str]:
    """Return the versions of the libraries of every fit, and of the libraries of these types."""
    modules = {base.__module__ for cls in types for base in cls.__mro__}
    libraries = {*LIBRARIES, *(module.partition(".")[0] for module in modules)}
    if any(module.startswith("tailboost.learners.torch") for module in modules):
        libraries.add("torch")
    versions = {}
    for library in libraries & sys.modules.keys():
        version = getattr(sys.modules[library], "__version__", None)
        if version is not None:  # modules of the user have none
            versions[library] = str(version)
    return versions
