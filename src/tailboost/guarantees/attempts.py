"""Attempts to calibrate a model: fingerprints of the rows that each of them spent."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from tailboost.core import files as _store
from tailboost.core.fingerprints import Fingerprint, fingerprint, hash_rows
from tailboost.guarantees.fresh_rows import FreshRows

FORMAT = "tailboost attempts 1"


def known_attempts(model: Any) -> dict[str, Fingerprint]:
    """Return the attempts that a model knows, in order: its own, and those read from a file.

    Attempts on an earlier fit of the same object, which had other training rows, are left out.
    """
    fit = _fit_of(model)
    stored: Mapping[str, Fingerprint] = getattr(model, "calibration_attempts_", {})
    return {key: sketch for key, sketch in stored.items() if key.startswith(fit)}


def call_key(model: Any, judged: FreshRows, asked: str) -> str:
    """Return the name of a call: by the fit, the labelled rows, and then all that the call depends on.

    Rows count in any order. Labels, groups and clusters count together with the row that they belong to;
    the names of clusters do not matter.
    """
    assert judged.hashes is not None
    strata = judged.answered.strata
    names = [
        repr((row[0], sorted(zip(strata.columns, row[1:], strict=True), key=repr))) for row in strata.names
    ]
    of_stratum = hash_rows(np.array(names, dtype=object)[:, None])
    labelled = hash_rows(np.column_stack([judged.hashes, judged.y.astype(np.uint64)]))
    rows = hash_rows(np.column_stack([judged.hashes, of_stratum[judged.answered.stratum]]))
    if judged.clusters is not None:
        members = np.zeros(int(judged.clusters.max()) + 1, dtype=np.uint64)
        np.add.at(members, judged.clusters, rows)
        rows = hash_rows(np.column_stack([rows, members[judged.clusters]]))
    words = np.frombuffer(asked.encode(), dtype=np.uint8)
    return "-".join([_fit_of(model), fingerprint(np.sort(labelled)), fingerprint(np.sort(rows), words)])


def _fit_of(model: Any) -> str:
    """Return a digest of the rows that a model was fitted on, or else of the selection data of its fit."""
    fitted = [sketch.kept for sketch in (model.seen_rows_, *model.chosen_rows_) if len(sketch.kept)]
    return fingerprint(*fitted[:1])


def same_rows(one: str, other: str) -> bool:
    """Whether two calls had the same rows with the same labels, by their names."""
    return one.split("-")[1] == other.split("-")[1]


# -- files -------------------------------------------------------------------------------------------------


def read_attempts(path: Path, model: Any) -> dict[str, tuple[str, Fingerprint]]:
    """Return the attempts on a model that a file holds, with the command of each; none if it does not exist.

    Raises
    ------
    ValueError
        If the file is no such file.
    """
    if not path.exists():
        return {}
    try:
        state = json.loads(path.read_text(encoding="utf-8"))
        if state["format"] != FORMAT:
            raise ValueError(state["format"])
        found = {
            each["key"]: (each["command"], Fingerprint.from_dict(each["rows"])) for each in state["attempts"]
        }
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        raise ValueError(f"{str(path)!r} is no file of attempts, or is damaged ({error})") from None
    fit = _fit_of(model)
    return {key: attempt for key, attempt in found.items() if key.startswith(fit)}


def write_attempts(path: Path, attempts: Mapping[str, tuple[str, Fingerprint]]) -> None:
    """Write attempts with the command of each; what the file held before is replaced."""
    listed = [
        {"key": key, "command": command, "rows": sketch.to_dict()}
        for key, (command, sketch) in attempts.items()
    ]
    state = {"format": FORMAT, "attempts": listed}
    _store.write(path, json.dumps(state, indent=1).encode(), "the file of attempts")
