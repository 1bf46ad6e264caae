"""Fits of AutoGluon, for `beside_autogluon.py`: runs in an environment of its own and reads jobs from stdin.

A job is a line of JSON with the file of the training and of the test rows, the text columns, the metric, the
seconds and the file of the answers. The worker prints a line for each finished job. The first line is that
of a fit without a job, which loads the libraries.

Other processes share the machine, so the clock of the time limits counts processor seconds: AutoGluon and
its models read ``time.time``.
"""

from __future__ import annotations

import json
import os
import shutil
import sys
import tempfile
import time
from importlib.metadata import distributions
from typing import Any

import numpy as np
import pandas as pd

STARTED, wall = time.time(), time.time
LABEL = "label"
PACKAGES = ("autogluon.tabular", "catboost", "fastai", "lightgbm", "torch", "xgboost-cpu")


def probabilities(predictor: Any, X: Any, labels: Any, **params: Any) -> Any:
    """Return the probabilities of all labels; those of labels that AutoGluon left out are 0."""
    return predictor.predict_proba(X, **params).reindex(columns=labels, fill_value=0.0).to_numpy(np.float64)


def fitted(train: Any, test: Any, metric: str, limit: float | None) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return probabilities of the validation and the test rows, and the figures of the fit."""
    from autogluon.tabular import TabularPredictor  # after the change of the clock

    folder, labels = tempfile.mkdtemp(), np.unique(train[LABEL])
    try:
        began, seen = time.process_time(), wall()
        predictor = TabularPredictor(LABEL, eval_metric=metric, path=folder, verbosity=0)
        predictor.fit(train, presets="medium_quality", time_limit=limit, num_cpus=1, num_gpus=0)
        done, shown = time.process_time(), wall()
        test_P = probabilities(predictor, test, labels)
        predicted = time.process_time()
        X, y = predictor.load_data_internal("val", return_X=True, return_y=True)
        arrays = {
            "test": test_P, "held_out": probabilities(predictor, X, labels, transform_features=False),
            "y": predictor.transform_labels(y, inverse=True).to_numpy(),
        }  # fmt: skip
        figures = {
            "seconds": done - began, "wall seconds": shown - seen,
            "seconds of predict_proba": predicted - done,
            "models": [name for name in predictor.model_names() if "Ensemble" not in name],
        }  # fmt: skip
        return arrays, figures
    finally:
        shutil.rmtree(folder)


def main() -> None:
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # what libraries print is no answer
    time.time = lambda: STARTED + time.process_time()
    rng = np.random.default_rng(0)
    rows = pd.DataFrame(rng.normal(size=(120, 3)), columns=list("abc"))
    fitted(rows.assign(**{LABEL: rng.integers(0, 2, 120)}), rows, "log_loss", None)
    installed = {package.name: package.version for package in distributions()}
    versions = {name: installed[name] for name in PACKAGES if name in installed}
    print(json.dumps(versions), file=answers, flush=True)
    for line in sys.stdin:
        job = json.loads(line)
        types = dict.fromkeys(job["text"], "category")
        train, test = (
            pd.read_csv(job[name], dtype=types, keep_default_na=False, na_values=[""])
            for name in ("train", "test")
        )
        arrays, figures = fitted(train, test, job["metric"], job["limit"])
        np.savez(job["out"], **arrays)
        print(json.dumps(figures), file=answers, flush=True)


if __name__ == "__main__":
    main()
