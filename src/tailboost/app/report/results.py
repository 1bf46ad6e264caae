"""The document of a comparison: measured numbers, from which reports are drawn.

Keys of a document (``results.json``), schema version 1. A *figure* is ``{mean, low, high, n}``: see
`interval`. A number without a measurement is null.

=================  ====================================================================================
schema             "tailboost.results"
schema_version     1
created            date and time, UTC
status             "running", "complete" or "interrupted"
command            the command line, or null
versions           versions of Python and of the packages used
data               name, n_rows, n_features, classes, class_counts, groups {column: {group: rows}}
settings           alphas, main_alpha, repeats, test_size, clusters, random_state, n_jobs,
                   interval
left_out           omitted methods: title, reason
splits             per split: repeat, fit_seed, n_train, n_test
methods            name, title, summary, ours, uses_alpha, uses_groups, randomized,
                   warnings, failures (repeat, error), repeats (one record each), figures (the keys of a
                   record with a figure for each number; null before the first record)
=================  ====================================================================================

Each record has ``repeat``, ``fit_seconds``, ``reweight_seconds`` (all α together), ``predict_seconds``,
and ``cvar`` {α: value}. The errors of ``predict`` are ``error``, ``class_errors``, ``worst_class_error``,
``group_errors`` {column: {group: value}}, ``worst_group_errors`` {column: value} and ``worst_group_error``.
Some records also have ``tradeoff``, the ``error_budget`` and the errors of one fitted model at each budget,
and ``fit_summary``, the printed ``summary_`` of the classifier.
"""

from __future__ import annotations

import json
import math
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

import numpy as np
from scipy import stats

from tailboost.core.array_types import FilePath
from tailboost.core.files import write_output

SCHEMA_VERSION = 1
LEVEL = 0.95
LEAST_SPLITS = 3  # with 2, the quantile of Student's t is 12.7; an interval then says nothing


def interval_note(n_splits: int) -> str:
    """Return the note on the intervals of a comparison, or on their absence."""
    if n_splits < LEAST_SPLITS:
        return (
            f"Fewer than {LEAST_SPLITS} splits have no interval: it would be wider than "
            "nearly every difference. More splits (--repeats 5) give one."
        )
    return (
        f"Mean and 95 % Student t interval over {n_splits} random splits of the same rows. "
        "The splits overlap, so the interval understates the uncertainty for new data."
    )


def interval(values: Sequence[float]) -> dict[str, float | int | None]:
    """Return the mean and the 95 % Student t interval of n ≥ 1 values; its ends are None if n < 3."""
    return resampled_interval(values, 0.0)


def resampled_interval(
    differences: Sequence[float], test_to_train: float, step: float = 0.0, tests: int = 1
) -> dict[str, float | int | None]:
    """Return the mean and the interval of a difference over random splits of the same rows.

    The variance of the mean is ``(1/r + n_test/n_train) s²`` for r splits [1]_. The second term corrects for
    rows that the splits share. Errors are multiples of 1/n, so differences on few splits can be equal by
    chance; the variance ``step²/12`` of this rounding is added to ``s²``. The intervals of ``tests``
    comparisons hold simultaneously with 95 % confidence (Bonferroni).

    Parameters
    ----------
    differences : sequence of r floats
        The difference on each split; for r < `LEAST_SPLITS` ``low`` and ``high`` are None.
    test_to_train : float ≥ 0
        Ratio of test rows to training rows; 0 for independent samples.
    step : float ≥ 0, default=0
        Change of the measure if one more row is wrong.
    tests : int ≥ 1, default=1
        Number of comparisons.

    References
    ----------
    .. [1] C. Nadeau and Y. Bengio, "Inference for the Generalization Error", Machine Learning 52 (2003).
    """
    values = np.asarray(differences, dtype=np.float64)
    r = int(values.size)
    mean = float(values.mean())
    if r < LEAST_SPLITS:
        return {"mean": mean, "low": None, "high": None, "n": r}
    spread = math.sqrt(float(values.var(ddof=1)) + step**2 / 12)
    quantile = float(stats.t.isf((1 - LEVEL) / 2 / tests, r - 1))
    half = quantile * spread * math.sqrt(1 / r + test_to_train)
    return {"mean": mean, "low": mean - half, "high": mean + half, "n": r}


def summarise(records: Sequence[Any], but: Sequence[str] = ()) -> Any:
    """Replace each number of nested records of equal shape, one per split, by its `interval`.

    ``[{"error": .1}, {"error": .3}]`` becomes ``{"error": interval([.1, .3])}``. Records without a number are
    skipped for this number; the result is None if all are. The outermost keys ``but`` are left out.
    """
    measured = [record for record in records if record is not None]
    if not measured:
        return None
    if isinstance(measured[0], Mapping):
        keys = dict.fromkeys(key for record in measured for key in record if key not in but)
        return {key: summarise([record.get(key) for record in measured]) for key in keys}
    if isinstance(measured[0], list):
        return [summarise(column) for column in zip(*measured, strict=True)]
    return interval(measured)


@dataclass(frozen=True)
class Results:
    """Measured numbers of a comparison, as returned by `compare`.

    Parameters
    ----------
    document : dict
        The JSON document; `tailboost.app.report.results` lists its keys.
    """

    document: dict[str, Any]

    @classmethod
    def load(cls, path: FilePath) -> Self:
        """Read a document written by `save`.

        Raises
        ------
        ValueError
            If the file is no such document, or has another schema version.
        """
        name = repr(os.fspath(path))
        try:
            document = json.loads(Path(path).read_text(encoding="utf-8"))
        except ValueError as error:
            raise ValueError(f"{name} is not JSON: {error}") from error
        if not isinstance(document, dict) or document.get("schema") != "tailboost.results":
            raise ValueError(f"{name} holds no results of a comparison")
        version = document.get("schema_version")
        if version != SCHEMA_VERSION:
            raise ValueError(
                f"{name} has schema version {version}, this tailboost reads {SCHEMA_VERSION}"
            )
        return cls(document)

    def save(self, path: FilePath) -> None:
        """Write the document in one step: a reader never finds an incomplete file."""
        write_output(path, json.dumps(self.document, indent=1, allow_nan=False) + "\n")
