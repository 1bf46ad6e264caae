"""Stored answers: what two hundred calls return, compared with a record of an earlier commit.

    python benchmarks/answers.py [--only TEXT] [--jobs 2]    compare with answers.json, exit 1 on a difference
    python benchmarks/answers.py --write [--only TEXT]       write the record anew

A case is one call on a made or bundled table: ``tune``, ``reweight``, ``tradeoff``, ``calibrate``,
``certify``, a fit of boosting, a rule file. The record holds a digest of the answers to all rows, and the
numbers: rates, bounds, weights. Digests are compared exactly, numbers to 1e-9. An error counts as an answer,
by its class. Processor seconds by kind of call are printed beside those of the record, and not compared.
A refactoring changes no answer; a step that does so lists what changed.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import multiprocessing
import sys
import tempfile
import time
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.datasets import load_breast_cancer, load_digits, load_wine, make_classification
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.tree import DecisionTreeClassifier

import tailboost as tb

RECORD = Path(__file__).with_name("answers.json")
TOLERANCE = 1e-9


@dataclass(frozen=True)
class World:
    """Rows in three parts: to train the model, to select the rule, and fresh ones."""

    X: np.ndarray
    y: np.ndarray
    groups: np.ndarray

    def part(self, number: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return X, y and groups of a third of the rows."""
        third = slice(number, None, 3)
        return self.X[third], self.y[third], self.groups[third]


@cache
def world(name: str) -> World:
    """Return the rows of a table."""
    rng = np.random.default_rng(0)
    if name in ("two", "rare", "coarse"):
        X, y = make_classification(
            4_500,
            n_features=6,
            weights=[0.9 if name == "rare" else 0.65],
            class_sep=0.8,
            flip_y=0.05,
            random_state=1,
        )
        if name == "coarse":
            X = np.round(X)
    elif name == "three":
        X, y = make_classification(
            4_500, n_features=8, n_informative=5, n_classes=3, weights=[0.5, 0.3], random_state=2
        )
    elif name == "digits":
        X, y = load_digits(return_X_y=True)
    elif name == "cancer":
        X, y = load_breast_cancer(return_X_y=True)
    else:
        X, y = load_wine(return_X_y=True)
    places = rng.permutation(len(y))
    groups = np.where(X[:, 0] + rng.normal(size=len(y)) > np.median(X[:, 0]), "a", "b")
    return World(X[places], y[places], groups[places])


@cache
def model(name: str, table: str) -> Any:
    """Return a fitted model, or the models of an average, or a score."""
    X, y, _ = world(table).part(0)
    logistic = make_pipeline(StandardScaler(), LogisticRegression()).fit(X, y)
    if name == "logistic":
        return logistic
    if name == "trees":
        return HistGradientBoostingClassifier(max_iter=20, random_state=0).fit(X, y)
    tree = DecisionTreeClassifier(max_depth=4, random_state=0).fit(X, y)
    if name == "average":
        return [logistic, tree]
    raise ValueError(name)


@cache
def score(table: str) -> np.ndarray:
    """Return the probabilities of class 1 of all rows, with three digits."""
    return np.round(model("logistic", table).predict_proba(world(table).X)[:, 1], 3)


LIMITS: dict[str, dict[str, Any]] = {
    "miss": {"limits": ["miss(1) <= .2"]},
    "miss by group": {"limits": ["miss(1, by=group) <= .25"]},
    "miss by group, read": {"limits": ["miss(1, by=group) <= .25"], "by_group": True},
    "both": {"limits": ["miss(1) <= .3", "false_alarm(1) <= .4"]},
    "gap": {"limits": ["gap(selected(1, by=group)) <= .1"], "by_group": True},
    "gap of misses": {"limits": ["gap(miss(1, by=group)) <= .1"]},
    "ratio": {"limits": ["ratio(selected(1, by=group)) >= .8"], "by_group": True},
    "precision": {"limits": ["precision(1) >= .75"]},
    "deferral": {"limits": ["answered_error() <= .1", "deferred() <= .4"]},
    "F": {"limits": ["f_score(1) >= .5"]},
    "worst class": {"objective": "worst_class"},
    "worst class, budget": {"objective": "worst_class", "error_budget": 0.02},
    "worst group": {"objective": "worst_group", "error_budget": 0.01},
}
MULTI = ("miss", "miss by group", "both", "precision", "worst class", "worst class, budget", "worst group")


# -- what is compared --------------------------------------------------------------------------------------


def digest(values: Any) -> str:
    """Return a digest of labels, or of numbers with ten digits."""
    array = np.asarray(values)
    text = np.round(array, 10) + 0.0 if array.dtype.kind == "f" else array
    return hashlib.sha256(repr(text.tolist()).encode()).hexdigest()[:16]


def lines(classifier: Any) -> dict[str, list[float]]:
    """Return the rates on the selection data with their rows."""
    return {f"{line.rate} of {line.subgroup}": [line.value, line.rows] for line in classifier.rates_}


def bounds(certificate: Any) -> dict[str, list[Any]]:
    """Return all bounds of a certificate with their rows and procedures."""
    return {
        f"{bound.rate} {bound.subgroup} {bound.sense}": [
            bound.estimate, bound.lower, bound.upper, bound.n, bound.method
        ]
        for bound in certificate.bounds
    }  # fmt: skip


def answers(classifier: Any, X: Any, groups: Any = None) -> dict[str, Any]:
    """Return digests of a rule's answers."""
    given = {"groups": groups} if getattr(classifier, "by_group", False) else {}
    found = {"predict": digest(classifier.predict(X, **given))}
    if hasattr(classifier, "predict_proba"):  # a rule on scores has none
        found["predict_proba"] = digest(classifier.predict_proba(X))
    return found


# -- cases -------------------------------------------------------------------------------------------------


def tuned(table: str, which: str, limits: str) -> Any:
    """Return a rule on the second part of the rows."""
    X, y, groups = world(table).part(1)
    if which == "score":
        return tb.tune(tb.Scores(0, 1), score(table)[1::3, None], y, groups=groups, **LIMITS[limits])
    return tb.tune(model(which, table), X, y, groups=groups, **LIMITS[limits])


def fresh(table: str, which: str) -> tuple[Any, Any, Any]:
    """Return the third part of the rows, in the form that a model reads."""
    X, y, groups = world(table).part(2)
    return (score(table)[2::3, None] if which == "score" else X), y, groups


def case_tune(table: str, which: str, limits: str) -> dict[str, Any]:
    """Select a rule, and bound its rates on fresh rows."""
    rule = tuned(table, which, limits)
    X, y, groups = fresh(table, which)
    certificate = tb.certify(rule, X, y, groups=groups, equal_rows="natural")
    return answers(rule, X, groups) | {"rates": lines(rule), "bounds": bounds(certificate)}


def case_calibrate(table: str, which: str, limits: str) -> dict[str, Any]:
    """Certify a rule that was selected on other rows."""
    rule = tuned(table, which, limits)
    X, y, groups = fresh(table, which)
    certified = tb.calibrate(rule, X, y, groups=groups)
    return answers(certified, X, groups) | {"bounds": bounds(certified.certificate_)}


def case_batch(table: str, which: str, limits: str) -> dict[str, Any]:
    """Select and certify in one batch."""
    X, y, groups = fresh(table, which)
    given = tb.Scores(0, 1) if which == "score" else model(which, table)
    certified = tb.calibrate(given, X, y, groups=groups, **LIMITS[limits])
    return answers(certified, X, groups) | {"bounds": bounds(certified.certificate_)}


def case_reweight(table: str, which: str, limits: str) -> dict[str, Any]:
    """Select another rule among the same candidates."""
    rule = tuned(table, which, "worst class").reweight(
        **{k: v for k, v in LIMITS[limits].items() if k in ("limits", "objective", "error_budget")}
    )
    X, _, groups = fresh(table, which)
    return answers(rule, X, groups) | {"rates": lines(rule)}


def case_curve(table: str, which: str, limits: str) -> dict[str, Any]:
    """Draw the trade-off of the first limit."""
    curve = tuned(table, which, limits).tradeoff(n_points=5)
    X, _, groups = fresh(table, which)
    _, _, middle = curve[len(curve) // 2]
    return answers(middle, X, groups) | {"points": [[*rates] for *rates, _ in curve]}


def case_file(table: str, which: str, limits: str) -> dict[str, Any]:
    """Store and load a certified rule."""
    rule = tuned(table, which, limits)
    X, y, groups = fresh(table, which)
    certified = tb.calibrate(rule, X, y, groups=groups)
    with tempfile.TemporaryDirectory() as folder:
        tb.save_rule(certified, Path(folder) / "rule.json")
        loaded = tb.load_rule(Path(folder) / "rule.json")
    return answers(loaded, X, groups) | {"bounds": bounds(loaded.certificate_)}


BOOSTING: dict[str, Callable[[], Any]] = {
    "AdaLP": lambda: tb.AdaLPBoostClassifier(alpha=0.3, n_estimators=6, random_state=0),
    "LP": lambda: tb.LPBoostClassifier(alpha=0.2, n_estimators=5, random_state=0),
    "regularised LP": lambda: tb.LPBoostClassifier(alpha=0.2, beta=100.0, n_estimators=5, random_state=0),
    "average": lambda: tb.AverageBoostClassifier(n_estimators=5, random_state=0),
    "worst class": lambda: tb.WorstClassBoostClassifier(n_estimators=5, random_state=0),
    "OCO": lambda: tb.OCOBoostClassifier(n_estimators=5, random_state=0),
    "DRO": lambda: tb.DROBoostClassifier(n_estimators=6, random_state=0),
    "Vada": lambda: tb.VadaBoostClassifier(n_estimators=8, random_state=0),
    "EB": lambda: tb.EBBoostClassifier(n_estimators=8, random_state=0),
    "AdaBoost": lambda: tb.AdaBoostClassifier(n_estimators=8, random_state=0),
    "soft margin": lambda: tb.SoftMarginBoostClassifier(n_estimators=8, random_state=0),
    "mixture": lambda: tb.RobustMixtureClassifier(
        estimators=[("l", LogisticRegression(max_iter=300)), ("t", DecisionTreeClassifier(max_depth=3))],
        cv=3,
        random_state=0,
    ),
}
GROUPED: dict[str, Callable[[], Any]] = {
    "group DRO": lambda: tb.GroupDROBoostClassifier(n_estimators=5, random_state=0),
}


def case_boosting(table: str, which: str, _: str) -> dict[str, Any]:
    """Fit by boosting."""
    X, y, groups = world(table).part(0)
    more, _, _ = world(table).part(2)
    if which in GROUPED:
        classifier = GROUPED[which]().fit(X, y, groups=groups)
    else:
        classifier = BOOSTING[which]().fit(X, y)
    found = answers(classifier, more)
    weights = getattr(classifier, "estimator_weights_", None)
    return found if weights is None else found | {"weights": np.asarray(weights, dtype=float).tolist()}


KINDS: dict[str, Callable[[str, str, str], dict[str, Any]]] = {
    "tune": case_tune, "calibrate": case_calibrate, "one batch": case_batch, "reweight": case_reweight,
    "curve": case_curve, "file": case_file, "boosting": case_boosting,
}  # fmt: skip


def cases() -> Iterator[tuple[str, str, str, str]]:
    """Yield kind, table, model and limits of each case."""
    for limits, stated in LIMITS.items():
        yield "reweight", "two", "average", limits
        yield "tune", "rare", "trees", limits
        yield "tune", "coarse", "logistic", limits
        for which in ("logistic", "score", "average"):
            yield "tune", "two", which, limits
            if "limits" in stated:
                yield "calibrate", "two", which, limits
        if "limits" in stated:
            yield "one batch", "two", "trees", limits
            yield "one batch", "coarse", "logistic", limits
            yield "file", "two", "score", limits
    for limits in MULTI:
        yield "tune", "three", "logistic", limits
        yield "reweight", "three", "logistic", limits
        yield "tune", "digits", "trees", limits
        yield "curve", "two", "logistic", limits
        if "limits" in LIMITS[limits]:
            yield "calibrate", "three", "logistic", limits
            yield "one batch", "cancer", "logistic", limits
    for name in (*BOOSTING, *GROUPED):
        for table in ("cancer", "wine"):
            yield "boosting", table, name, ""


def answer(case: tuple[str, str, str, str]) -> dict[str, Any]:
    """Return what a case gives, as in the record."""
    kind, *arguments = case
    began = time.process_time()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            found = KINDS[kind](*arguments)
        except Exception as error:  # a refusal is an answer
            found = {"error": type(error).__name__, "words": str(error)[:200]}
    found["seconds"] = round(time.process_time() - began, 3)
    return json.loads(json.dumps(found, default=float))


def differences(old: Any, new: Any, path: str = "") -> Iterator[str]:
    """Yield where two answers differ; the words of an error and seconds are not compared."""
    if isinstance(old, dict) and isinstance(new, dict):
        for key in sorted({*old, *new} - {"words", "seconds"}):
            yield from differences(old.get(key), new.get(key), f"{path}/{key}")
    elif isinstance(old, list) and isinstance(new, list) and len(old) == len(new):
        for place, (before, after) in enumerate(zip(old, new, strict=True)):
            yield from differences(before, after, f"{path}/{place}")
    elif isinstance(old, float) and isinstance(new, float | int):
        if not np.isclose(old, new, rtol=0, atol=TOLERANCE, equal_nan=True):
            yield f"{path}: {old!r} -> {new!r}"
    elif old != new:
        yield f"{path}: {old!r} -> {new!r}"


def main() -> int:
    """Run the cases, and write or compare."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--write", action="store_true")
    parser.add_argument("--only", default="", help="part of the names of cases")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--out", type=Path, default=RECORD)
    options = parser.parse_args()
    named = {", ".join(filter(None, case)): case for case in cases()}
    chosen = {name: case for name, case in named.items() if options.only in name}
    began = time.perf_counter()
    with multiprocessing.Pool(options.jobs) as pool:
        found = dict(zip(chosen, pool.map(answer, chosen.values(), chunksize=4), strict=True))
    refused = sum("error" in one for one in found.values())
    print(f"{len(found)} cases, {refused} of them refusals, {time.perf_counter() - began:.0f} s")
    stored: dict[str, Any] = json.loads(options.out.read_text()) if options.out.exists() else {}
    for kind in KINDS:
        now, then = (
            sum(record[name]["seconds"] for name in found if name.startswith(kind) and name in record)
            for record in (found, stored)
        )
        print(f"{kind:10} {now:6.1f} processor seconds, {then:6.1f} in the record")
    if options.write:
        kept = {name: stored[name] for name in named if name in stored}
        options.out.write_text(json.dumps(kept | found, indent=0, sort_keys=True) + "\n")
        return 0
    different = 0
    for name, after in found.items():
        here = list(differences(stored.get(name), after))
        different += bool(here)
        for line in here[:3]:
            print(f"{name}{line}")
    print(f"{len(found) - different} equal, {different} different")
    return int(different > 0)


if __name__ == "__main__":
    sys.exit(main())
