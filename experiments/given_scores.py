"""Limits on somebody else's scores: limits of every class and of deferral, beside Chow's rule.

``--data DIR`` holds files ``NAME.npz``, or DIR/scores does, with the arrays ``probabilities`` of shape (n, K)
and ``labels`` of shape (n,). The class probabilities are those of any model on rows without a part in its
training. Each repetition selects on a random half of the rows and certifies on the other half. No model is
trained.
"""

from __future__ import annotations

import time
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.model_selection import train_test_split

import tailboost as tb
from experiments._experiment import Cells, Experiment, Report, Settings, markdown
from tailboost import rates

Floats = NDArray[np.float64]
LARGEST_ERROR, DEFERRED = 0.2, 0.1
LIMITS = (rates.error(by="class") <= LARGEST_ERROR, rates.deferred() <= DEFERRED)
ARRAYS = ("probabilities", "labels")
# Probability with which `tune` lets all limits hold on new rows, by the name of the rule.
RULES = {"limits": None, "limits, confidence .95": 0.95}
MEASURED = ("deferred", "error of answered rows", "worst class")


def read_scores(folder: Path) -> dict[str, tuple[Floats, NDArray[Any]]]:
    """Return probabilities and labels of the files of a folder, by name.

    Raises
    ------
    ValueError
        If there is no file, or one has another format.
    """
    inner = folder / "scores"
    files = sorted((inner if inner.is_dir() else folder).glob("*.npz"))
    if not files:
        raise ValueError(f"--data: {folder} holds no NAME.npz with probabilities and labels")
    found = {}
    for file in files:
        with np.load(file) as arrays:
            if missing := [name for name in ARRAYS if name not in arrays]:
                raise ValueError(f"--data: {file.name} has no array {', '.join(missing)}")
            P, y = arrays["probabilities"].astype(np.float64), arrays["labels"]
        if P.ndim != 2 or len(P) != len(y):
            raise ValueError(f"--data: {file.name}: shapes {P.shape} and {y.shape}")
        found[file.stem] = P / P.sum(axis=1, keepdims=True), y
    return found


def measured(y: NDArray[Any], answers: NDArray[Any], deferred: NDArray[np.bool_]) -> dict[str, float]:
    """Return rates of answers with deferred rows."""
    given = {"deferred": deferred, "labels": np.unique(y)}
    by_class = rates.measure(rates.error(by="class"), y, answers, **given)
    return {
        "deferred": float(deferred.mean()),
        "error of answered rows": float(np.mean(answers[~deferred] != y[~deferred])),
        "worst class": max(by_class.values()),
    }


def compared(P: Floats, y: NDArray[Any], half: int) -> dict[str, Any]:
    """Return rates on fresh rows of Chow's rule and of selected rules, with certificates."""
    select, fresh = train_test_split(np.arange(len(y)), test_size=0.5, stratify=y, random_state=half)
    sureness = P.max(axis=1)
    cut = np.quantile(sureness[select], DEFERRED)
    found: dict[str, Any] = {"Chow": measured(y[fresh], P[fresh].argmax(axis=1), sureness[fresh] < cut)}
    for name, confidence in RULES.items():
        began = time.process_time()
        scores = tb.Scores(list(range(P.shape[1])), list(range(P.shape[1])))
        clf = tb.tune(scores, P[select], y[select], limits=LIMITS, confidence=confidence)
        certificate = tb.certify(clf, P[fresh], y[fresh], rates=LIMITS)
        seconds = time.process_time() - began
        found[name] = measured(y[fresh], clf.predict(P[fresh]), clf.defers(P[fresh])) | {
            "certified": [bool(bound.certified) for bound in certificate.bounds],
            "seconds": round(seconds, 2),
        }
    return found


def play(settings: Settings, name: str) -> Report:
    """Compute missing cells and read all cells."""
    tables = read_scores(settings.folder)
    cells = Cells(settings, name, total=len(tables) * settings.repeats)
    found = {
        table: [
            cells.get({"table": table, "half": half}, partial(compared, P, y, half))
            for half in range(settings.repeats)
        ]
        for table, (P, y) in tables.items()
    }
    body = []
    for table, splits in found.items():
        n, K = tables[table][0].shape
        for rule in ("Chow", *RULES):
            each = [split[rule] for split in splits]
            rates_ = [f"{np.mean([one[what] for one in each]):.4f}" for what in MEASURED]
            certified = [bound for one in each for bound in one.get("certified", [])]
            whole = [all(one["certified"]) for one in each if "certified" in one]
            last = [""] * 3
            if rule != "Chow":
                last = [f"{sum(certified)} of {len(certified)}", f"{sum(whole)} of {len(whole)}"]
                last.append(f"{np.mean([one['seconds'] for one in each]):.2f}")
            body.append([f"{table}, {n:,} × {K}", rule, *rates_, *last])
    header = ["scores", "rule", *MEASURED, "certified limits", "splits with all", "seconds"]
    text = (
        f"Rates on fresh rows, mean of {settings.repeats} random halves. Limits: {LIMITS[0]}, {LIMITS[1]}. "
        "Chow's rule defers the rows with the smallest largest probability; its threshold is a quantile of "
        "the selection half. A deferred row is no error of its class. All limits of a split are certified "
        "jointly at 95 %. Seconds are processor seconds of selection and certificate."
    )
    return Report(f"{text}\n\n{markdown(header, body)}", {"limits": list(map(str, LIMITS)), "splits": found})


EXPERIMENTS = (
    Experiment(
        "given-scores",
        "Somebody else's scores: limits of each class and of deferral, beside Chow's rule",
        play,
        repeats=5,
    ),
)
