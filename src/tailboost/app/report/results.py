"""The document that a comparison writes: the measured numbers, from which reports are drawn.

Keys of a document (``results.json``), schema version 1. A *figure* is ``{mean, low, high, n}``, see
`interval`; numbers that could not be measured are null.

=================  ====================================================================================
schema             "tailboost.results"
schema_version     1
created            date and time, UTC
status             "running", "complete" or "interrupted"
command            the command line, or null
versions           of Python and the packages used
data               name, n_rows, n_features, classes, class_counts, groups {column: {group: rows}},
                   group_features {column: features that tell it, or null}
settings           alphas, main_alpha, curve_alphas, repeats, test_size, random_state, n_jobs, interval
left_out           methods that cannot be used: title, reason
splits             per repeat: repeat, fit_seed, n_train, n_test
methods            name, title, summary, ours, uses_alpha, uses_groups, by_group, randomized,
                   warnings, failures (repeat, error), repeats (one record each), figures (the same keys as a
                   record, a figure for each number; null before the first record)
=================  ====================================================================================

A record has ``repeat``, ``fit_seconds``, ``reweight_seconds`` (all α together), ``predict_seconds``,
``cvar`` {α: value}, ``cvar_curve`` (at ``curve_alphas``), and the errors of ``predict``: ``error``,
``class_errors``, ``worst_class_error``, ``group_errors`` {column: {group: value}}, ``worst_group_errors``
{column: value}, ``worst_group_error``, and ``error_bound``, which the expected error of this one fit exceeds
with a probability of at most 5 % (`tailboost.robustness.empirical_bernstein_bound` of the rows held out). For
randomised rules ``expected`` holds the same errors in expectation over the draw, and ``guarantee`` what the
fit promised. ``confusion``, for up to 20 classes, counts the held-out rows by true
class (rows) and answer of ``predict`` (columns). ``tradeoff``, for methods that have one, lists
``error_budget`` and the ``error``, ``class_errors``, ``worst_class_error`` and ``worst_group_error`` of
``predict`` on the rows held out, for the same fitted model at each budget. ``at_alpha`` {α: errors, expected,
guarantee} is there for methods that depend on α; their errors outside of it are those at ``main_alpha``.
"""

from __future__ import annotations

import json
import math
import os
import platform
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from typing import Any, Self

import numpy as np
from scipy import stats

from tailboost.core.output import write_output

SCHEMA_VERSION = 1
LEVEL = 0.95
PACKAGES = ("tailboost", "numpy", "scipy", "scikit-learn", "highspy", "pandas", "xgboost", "xgboost-cpu")
INTERVAL_NOTE = (
    "Mean and 95 % Student t interval over the repeats (random splits of the same rows). It shows how much "
    "the number moves from split to split; because splits share rows it is too narrow as a statement about "
    "new data. There is none with fewer than two repeats."
)


def versions(*more: str) -> dict[str, str]:
    """Return the versions of Python and of the packages numbers depend on, and of ``more``, if installed."""
    found = {"python": platform.python_version()}
    for package in (*PACKAGES, *more):
        try:
            found[package] = metadata.version(package)
        except metadata.PackageNotFoundError:
            continue
    return found


def interval(values: Sequence[float]) -> dict[str, float | int | None]:
    """Mean and 95 % Student t interval of a number over n ≥ 1 repeats; it has no ends where n = 1."""
    sample = np.asarray(values, dtype=np.float64)
    mean, low, high = float(sample.mean()), None, None
    if sample.size > 1:
        half = float(
            stats.t.ppf((1 + LEVEL) / 2, sample.size - 1) * sample.std(ddof=1) / math.sqrt(sample.size)
        )
        low, high = mean - half, mean + half
    return {"mean": mean, "low": low, "high": high, "n": int(sample.size)}


def resampled_interval(
    differences: Sequence[float], test_to_train: float, step: float = 0.0, tests: int = 1
) -> dict[str, float | int | None]:
    """Mean and interval of a difference over random splits of the same rows, as one of several tests.

    The variance of the mean is ``(1/r + n_test/n_train) s²`` [1]_: splits share rows, and with ``s²/r``, as
    for new data, a test says far too often that methods differ. Differences in shares of n rows fall on the
    same multiple of the step 1/n by chance, and equal ones would look certain: ``s²`` has the variance
    ``step²/12`` of the rounding added. Of ``tests`` such intervals, all hold together with 95 % confidence
    (Bonferroni): what leaves out 0 is shown, however the tests depend on each other.

    References
    ----------
    .. [1] C. Nadeau and Y. Bengio, "Inference for the Generalization Error", Machine Learning 52 (2003).
    """
    d = np.asarray(differences, dtype=np.float64)
    mean, low, high = float(d.mean()), None, None
    if d.size > 1:
        spread = math.sqrt(float(d.var(ddof=1)) + step**2 / 12)
        quantile = float(stats.t.isf((1 - LEVEL) / 2 / tests, d.size - 1))
        half = quantile * spread * math.sqrt(1 / d.size + test_to_train)
        low, high = mean - half, mean + half
    return {"mean": mean, "low": low, "high": high, "n": int(d.size)}


def summarise(records: Sequence[Any]) -> Any:
    """Replace every number in nested records of equal shape, one per repeat, by its `interval`.

    Keys and numbers that some of them lack are summarised over those that have them; None where none has one.
    """
    present = [record for record in records if record is not None]
    if not present:
        return None
    if isinstance(present[0], Mapping):
        keys = dict.fromkeys(key for record in present for key in record)
        return {key: summarise([record.get(key) for record in present]) for key in keys}
    if isinstance(present[0], list):
        return [summarise(column) for column in zip(*present, strict=True)]
    return interval(present)


@dataclass(frozen=True)
class Results:
    """What `compare` found, as the JSON document it is stored in.

    Parameters
    ----------
    document : dict
        With the keys listed at the top of this module.
    """

    document: dict[str, Any]

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Self:
        """Read a document written by `save`.

        Raises
        ------
        ValueError
            If the file is no such document, or one of a newer schema.
        """
        try:
            document = json.loads(Path(path).read_text(encoding="utf-8"))
        except ValueError as error:
            raise ValueError(f"{os.fspath(path)!r} is not JSON: {error}") from error
        if not isinstance(document, dict) or document.get("schema") != "tailboost.results":
            raise ValueError(f"{os.fspath(path)!r} holds no results of a comparison")
        if (version := document.get("schema_version")) != SCHEMA_VERSION:
            raise ValueError(
                f"{os.fspath(path)!r} has schema version {version}, this tailboost reads {SCHEMA_VERSION}"
            )
        return cls(document)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the document; a reader never sees half of it."""
        write_output(path, json.dumps(self.document, indent=1, allow_nan=False) + "\n")
