"""Seconds of predictions by the default models, and what faster ones would cost.

    python benchmarks/prediction.py parts [--out FILE]
    python benchmarks/prediction.py paired [--data DIR] [--only TITLE ...] [--out FILE]
    python benchmarks/prediction.py classes [--only TITLE ...] [--out FILE]

``parts``: a made table of 20,000 rows and 20 columns. Processor seconds of one thread for 10⁵ rows, by model
and in all, beside XGBoost with 300 trees; milliseconds of a row alone; size of the model file.

``paired``: log loss and error on test rows, and seconds for 10⁵ rows, of the default models and of variants
with the same folds. The first six tables were looked at while variants were chosen, the others afterwards.
DIR has the real tables of `experiments/_tables.py`; without it they are left out.

    default  boosted trees (mean of the folds' models), forest, logistic regression; idle models are left out
    all      the same average with idle models
    one      one boosted model of all rows, with the same number of trees
    fast     boosted trees at a rate of .2, at most 150 in a fold
    60       60 trees in the forest, instead of 120 or more

``classes``: made tables of more than two classes. Boosted trees of all rows, whose number the folds give (the
default), beside the mean of the folds' models with up to 300 trees at a rate of .1, and XGBoost with 300:
processor seconds of a fit and of 10⁵ predictions, milliseconds of a row, size of the model file, log loss and
error on test rows. The constants were chosen on "ten".
"""

from __future__ import annotations

import json
import tempfile
import time
import warnings
from collections.abc import Callable
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
from _record import opened, options, rounded, write
from capacity import Rows, faint, made, real, xgboost
from sklearn import datasets

import tailboost as tb
from tailboost.classifiers import default_models
from tailboost.classifiers.default_models import TableKind, default_estimators
from tailboost.learners import HistBoostClassifier, hist
from tailboost.learners.hist import BoostSession
from tailboost.selection import outputs
from tailboost.selection.outputs import Average, logs_of

MANY, TEST_ROWS, ROWS = 100_000, 20_000, 10_000
FAST = {"MOST_TREES": 150, "LEAST_WAIT": 15, "STEP": 5}


class FastSession(BoostSession):
    """Trees at twice the rate grow half as long."""

    def fit(self, *args: Any, **params: Any) -> Any:
        with patch.multiple(hist, **FAST):
            return super().fit(*args, **params)


class FastBoost(HistBoostClassifier):
    """Boosted trees of `FastSession`."""

    _session = FastSession


# -- tables -----------------------------------------------------------------------------------------------


def shuffled(X: Any, y: Any) -> Rows:
    """Return rows for the fit, and test rows."""
    order = np.random.default_rng(0).permutation(len(y))
    X, y = X[order].astype(np.float32), np.unique(y, return_inverse=True)[1][order]
    return X[:ROWS], y[:ROWS], X[ROWS:], y[ROWS:]


def friedman() -> Rows:
    """Return Friedman's first function with noise, above its median or not."""
    X, score = datasets.make_friedman1(ROWS + TEST_ROWS, 12, noise=2.0, random_state=3)
    return shuffled(X, score > np.median(score))


def wide() -> Rows:
    """Return a made table of 60 columns."""
    return shuffled(
        *datasets.make_classification(
            ROWS + TEST_ROWS, 60, n_informative=15, n_redundant=10, flip_y=0.1, n_clusters_per_class=6,
            random_state=11,
        )
    )  # fmt: skip


TABLES: dict[str, Callable[[], Rows]] = {
    "made, seed 0": lambda: made(10_000, 0),
    "made, 30 % noise": lambda: made(10_000, 2, 0.6),
    "faint": lambda: faint(10_000, 3),
    "moons": lambda: shuffled(*datasets.make_moons(ROWS + TEST_ROWS, noise=0.35, random_state=0)),
    "adult": partial(real, only=["adult"]),
    "credit default": partial(real, only=["credit default"]),
    "made, seed 1": lambda: made(20_000, 1),
    "hastie": lambda: shuffled(*datasets.make_hastie_10_2(ROWS + TEST_ROWS, random_state=1)),
    "friedman": friedman,
    "made, 60 columns": wide,
    "bank": partial(real, only=["bank"]),
    "higgs": partial(real, only=["higgs"]),
}


def several(n_classes: int, n: int, seed: int) -> Rows:
    """Return a made table of several classes."""
    X, y = datasets.make_classification(
        n + TEST_ROWS, 20, n_informative=12, n_redundant=4, n_classes=n_classes, n_clusters_per_class=2,
        flip_y=0.05, class_sep=1.5, random_state=seed,
    )  # fmt: skip
    X = X.astype(np.float32)
    return X[:n], y[:n], X[n:], y[n:]


CLASSES: dict[str, Callable[[], Rows]] = {
    "ten": lambda: several(10, 10_000, 5),
    "four": lambda: several(4, 8_000, 22),
    "seven": lambda: several(7, 12_000, 21),
    "twenty": lambda: several(20, 8_000, 9),
}


# -- measurement ------------------------------------------------------------------------------------------


def seconds(call: Callable[[], Any], times: int = 3) -> float:
    """Return the least processor seconds of some calls."""
    taken = []
    for _ in range(times):
        began = time.process_time()
        call()
        taken.append(time.process_time() - began)
    return min(taken)


def default(objective: str = "error", **params: Any) -> tb.RobustMixtureClassifier:
    """Return the mixture for the overall error."""
    return tb.RobustMixtureClassifier(objective=objective, random_state=0, n_jobs=1, **params)


def parts() -> dict[str, Any]:
    """Return seconds for 10⁵ rows by part, milliseconds of a row, and the size of the file."""
    X, y, *_ = made(20_000 + MANY, 0)
    many = X[20_000:]
    mix = default().fit(X[:20_000], y[:20_000])
    models = mix.named_estimators_
    table = mix.estimators_[0].table_.transform(many)
    peer = xgboost(n_estimators=300, learning_rate=0.1).fit(X[:20_000], y[:20_000])
    with tempfile.TemporaryDirectory() as folder:
        tb.save_model(mix, path := Path(folder) / "m.model")
        size = path.stat().st_size / 1e6
    one = {"predict_proba": mix.predict_proba, "predict": mix.predict, "XGBoost": peer.predict_proba}
    return {
        "used": mix.used_models_,
        "seconds": {
            "all": seconds(lambda: mix.predict_proba(many)),
            **{name: seconds(lambda m=m: m.predict_proba_table(table)) for name, m in models.items()},
            "XGBoost, 300 trees": seconds(lambda: peer.predict_proba(many)),
        },
        "milliseconds of a row": {
            name: 1000 * float(np.median([seconds(lambda f=f: f(many[:1]), 1) for _ in range(200)]))
            for name, f in one.items()
        },
        "MB": size,
    }


def paired(rows: Rows) -> dict[str, Any]:
    """Return log loss, error and seconds of the default models and of the variants."""
    X, y, X_test, y_test = rows
    models = dict(default_estimators(TableKind(len(y), X.shape[1])))
    size = {k: models["boosted"].get_params()[k] for k in ("max_depth", "min_child_weight")}
    models["fast"] = FastBoost(n_estimators="auto", learning_rate=0.2, **size)
    models["60"] = type(models["forest"])(**{**models["forest"].get_params(), "n_trees": 60})
    mix = default(estimators=list(models.items())).fit(X, y)
    judged, fitted = mix.selection_.engine.outputs, mix.named_estimators_
    table = mix.estimators_[0].table_.transform(X_test)
    boosted = models["boosted"].set_params(n_estimators=fitted["boosted"].models[0].n_estimators)
    single = boosted.fit(X, y)
    asked = {name: fitted[name].predict_proba_table for name in models} | {"one": single.predict_proba_table}
    logs = {name: logs_of(predict(table)) for name, predict in asked.items()}
    taken = {name: seconds(lambda f=f: f(table), 1) * MANY / len(y_test) for name, f in asked.items()}
    found = {}
    for variant in ("default", "all", "one", "fast", "60"):
        learned = [
            "fast" if variant == "fast" else "boosted",
            "60" if variant == "60" else "forest",
            "linear",
        ]
        places = [judged.models.names.index(name) for name in learned]
        with patch.object(outputs, "IDLE", -1.0 if variant == "all" else outputs.IDLE):
            average = Average.learned([judged.logs[i] for i in places], judged.rows)
        answering = ["one" if variant == "one" and n == "boosted" else n for n in learned]
        used = [answering[i] for i in average.used_models.tolist()]
        scores = average.of(logs[name] for name in used)
        found[variant] = {
            "log loss": -float(scores[np.arange(len(y_test)), y_test].mean()),
            "error": float((scores.argmax(axis=1) != y_test).mean()),
            "seconds": sum(taken[name] for name in used),
            "used": used,
        }
    return found


def of_classes(rows: Rows) -> dict[str, Any]:
    """Return seconds, sizes and losses of the default, of the mean of the folds' models, and of XGBoost."""
    X, y, X_test, y_test = rows
    found: dict[str, Any] = {}
    peer = xgboost(n_estimators=300, learning_rate=0.1)
    folds = (
        patch.object(BoostSession, "refits", False),
        patch.object(default_models, "RATE_OF_CLASSES", 0.1),
    )
    for name, model in (("all rows", default()), ("folds", default()), ("XGBoost", peer)):
        with ExitStack() as stack:
            for each in folds if name == "folds" else ():
                stack.enter_context(each)
            fit = seconds(lambda m=model: m.fit(X, y), 1)
        P = model.predict_proba(X_test)
        found[name] = {
            "fit": fit,
            "seconds": seconds(lambda m=model: m.predict_proba(X_test), 2) * MANY / len(y_test),
            "milliseconds of a row": 1000 * seconds(lambda m=model: m.predict_proba(X_test[:1]), 60),
            "log loss": float(-np.log(P[np.arange(len(y_test)), y_test]).mean()),
            "error": float((P.argmax(axis=1) != y_test).mean()),
        }
        if name != "XGBoost":
            with tempfile.TemporaryDirectory() as folder:
                tb.save_model(model, path := Path(folder) / "m.model")
                found[name]["MB"] = path.stat().st_size / 1e6
    return found


def main() -> None:
    args = options(__doc__, ["parts", "paired", "classes"]).parse_args()
    warnings.simplefilter("ignore")
    record = opened(args.out, "prediction")
    if args.part == "parts":
        record["parts"] = rounded(parts())
        print(json.dumps(record["parts"], indent=1))
    elif args.part == "classes":
        for title, make in CLASSES.items():
            if args.only and title not in args.only:
                continue
            of = record.setdefault("classes", {})[title] = rounded(of_classes(make()))
            for name, row in of.items():
                print(f"{title:20} {name:8}", *(f"{k} {v}" for k, v in row.items()), flush=True)
            write(record, args.out)
    else:
        for title, make in TABLES.items():
            if (args.only and title not in args.only) or (isinstance(make, partial) and not args.data):
                continue
            rows = next(make(args.data))[1] if isinstance(make, partial) else make()
            of = record.setdefault("paired", {})[title] = rounded(paired(rows))
            for name, row in of.items():
                print(f"{title:20} {name:8}", *(f"{k} {v}" for k, v in row.items()), flush=True)
            write(record, args.out)
        record["differences"] = rounded(differences(record["paired"]))
        print(json.dumps(record["differences"], indent=1))
    write(record, args.out)


def differences(tables: dict[str, Any]) -> dict[str, Any]:
    """Return the mean differences to "all", with a standard error over the tables, by half of the tables."""
    found: dict[str, Any] = {}
    titles = list(TABLES)
    halves = {"looked at": titles[:6], "afterwards": titles[6:]}
    for half, names in halves.items():
        of = [tables[name] for name in names if name in tables]
        for variant in ("default", "one", "fast", "60") if len(of) > 1 else ():
            for value in ("log loss", "error", "seconds"):
                d = np.array([each[variant][value] - each["all"][value] for each in of])
                line = found.setdefault(half, {}).setdefault(variant, {})
                line[value] = [float(d.mean()), float(d.std(ddof=1) / np.sqrt(len(d)))]
    return found


if __name__ == "__main__":
    main()
