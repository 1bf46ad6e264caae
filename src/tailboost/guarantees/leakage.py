"""Data leakage: rows of the fit are recognised by fingerprints in the model."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from tailboost.boosting.training_set import Rows
from tailboost.core.array_types import Model, Table
from tailboost.core.exceptions import LeakageError as LeakageError
from tailboost.core.exceptions import ResubstitutionWarning as ResubstitutionWarning
from tailboost.core.fingerprints import (
    Fingerprint,
    hash_rounded_rows,
    too_many,
)
from tailboost.core.judged import count_by_frozen
from tailboost.core.used_rows import EqualRows, UsedRows
from tailboost.core.warn import warn_user


def check_equal_rows(value: object) -> None:
    """Raise if ``equal_rows`` has another value than the two allowed ones."""
    if value not in ("copies", "natural"):
        raise ValueError(f"equal_rows must be 'copies' or 'natural', got {value!r}")


def refuse_used(rows: UsedRows, used: Sequence[UsedRows], equal_rows: EqualRows) -> None:
    """Raise if rows were used to select or calibrate a rule."""
    for earlier in used:
        if shared := rows.shared_with(earlier, equal_rows):
            raise LeakageError(
                f"X: {shared:,} of these {rows.contents.n_rows:,} rows are {earlier.use} of the rule. "
                "Give fresh rows"
            )


def noting_seen(seen: Fingerprint, X: Table, rows: Rows, instead: str = "") -> Rows:
    """Return selection data; if they contain training rows, warn and mark them.

    ``seen`` are the fingerprints of the training rows, ``instead`` the default selection data.
    """
    hashes = hash_rounded_rows(X)
    if not seen.beyond_chance(hashes):
        return rows
    return _fitted_on(seen.share(hashes), "training rows", rows, instead)


def noting_frozen(estimator: Model, X: Table, rows: Rows) -> Rows:
    """Return selection data; if they contain rows of frozen models, warn and mark them."""
    counts = np.concatenate([np.empty((0, 2), dtype=np.intp), *count_by_frozen(estimator, X)]).tolist()
    shares = [repeated / sampled for repeated, sampled in counts if too_many(repeated, sampled)]
    return _fitted_on(max(shares), "rows of the fit of a frozen model", rows) if shares else rows


def _fitted_on(share: float, training_rows: str, rows: Rows, instead: str = "") -> Rows:
    default = f", or leave X and y out for {instead}" if instead else ""
    warn_user(
        f"{share:.0%} of {rows.words} equal {training_rows}, and models have smaller errors there than on "
        f"fresh rows: give rows that were not given to fit{default} (if features take so few values that "
        "fresh rows equal training rows, ignore this warning)",
        ResubstitutionWarning,
    )
    return replace(rows, words=f"{rows.words}, {share:.0%} of which equal {training_rows}", fitted=True)
