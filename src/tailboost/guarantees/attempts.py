"""Records of the attempts to calibrate a model: fingerprints of the rows of each attempt."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from tailboost.core import files as _store
from tailboost.core.fingerprints import Fingerprint, digest, hash_rows
from tailboost.guarantees.fresh_rows import FreshRows

FORMAT = "tailboost attempts 1"


def known_attempts(model: Any) -> dict[str, Fingerprint]:
    """Return the recorded attempts of a model's fit, in order.

    Attempts of an earlier fit of the same object, with other training rows, are left out.
    """
    fit = _fit_of(model)
    stored: Mapping[str, Fingerprint] = getattr(model, "calibration_attempts_", {})
    return {key: fingerprints for key, fingerprints in stored.items() if key.startswith(fit)}


def call_key(model: Any, fresh: FreshRows, arguments: str) -> str:
    """Return the key of a call: digests of the fit, of the rows with labels, and of all arguments.

    The order of rows and the names of clusters have no effect. Labels, groups and clusters are hashed
    together with their row.
    """
    assert fresh.hashes is not None
    strata = fresh.answered.strata
    names = [
        repr((row[0], sorted(zip(strata.columns, row[1:], strict=True), key=repr))) for row in strata.names
    ]
    of_stratum = hash_rows(np.array(names, dtype=object)[:, None])
    labelled = hash_rows(np.column_stack([fresh.hashes, fresh.y.astype(np.uint64)]))
    rows = hash_rows(np.column_stack([fresh.hashes, of_stratum[fresh.answered.stratum]]))
    if fresh.clusters is not None:
        members = np.zeros(int(fresh.clusters.max()) + 1, dtype=np.uint64)
        np.add.at(members, fresh.clusters, rows)
        rows = hash_rows(np.column_stack([rows, members[fresh.clusters]]))
    arguments_bytes = np.frombuffer(arguments.encode(), dtype=np.uint8)
    return "-".join([_fit_of(model), digest(np.sort(labelled)), digest(np.sort(rows), arguments_bytes)])


def _fit_of(model: Any) -> str:
    """Return a digest of the training rows of a model, or of its selection data without training rows."""
    fitted = [
        fingerprints.kept
        for fingerprints in (model.seen_rows_, *model.chosen_rows_)
        if len(fingerprints.kept)
    ]
    return digest(*fitted[:1])


def same_rows(one: str, other: str) -> bool:
    """Return whether two calls, given by their keys, had the same rows with the same labels."""
    return one.split("-")[1] == other.split("-")[1]


# -- files -------------------------------------------------------------------------------------------------


def read_attempts(path: Path, model: Any) -> dict[str, tuple[str, Fingerprint]]:
    """Return the attempts of a model in a file, with the command of each; none if the file does not exist.

    Raises
    ------
    ValueError
        If the file is damaged or of another format.
    """
    if not path.exists():
        return {}
    try:
        state = json.loads(path.read_text(encoding="utf-8"))
        if state["format"] != FORMAT:
            raise ValueError(state["format"])
        attempts = {
            each["key"]: (each["command"], Fingerprint.from_dict(each["rows"])) for each in state["attempts"]
        }
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        raise ValueError(f"{str(path)!r} is damaged, or is no file of attempts ({error})") from None
    fit = _fit_of(model)
    return {key: attempt for key, attempt in attempts.items() if key.startswith(fit)}


def write_attempts(path: Path, attempts: Mapping[str, tuple[str, Fingerprint]]) -> None:
    """Write attempts with the command of each; an existing file is replaced."""
    listed = [
        {"key": key, "command": command, "rows": fingerprints.to_dict()}
        for key, (command, fingerprints) in attempts.items()
    ]
    state = {"format": FORMAT, "attempts": listed}
    _store.write(path, json.dumps(state, indent=1).encode(), "the file of attempts")
