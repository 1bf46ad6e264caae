"""Problems and engines of `quality.py`."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from itertools import permutations
from typing import Any

import numpy as np
from _class_weights import adjusted_answers, tune_class_weights
from _simple_engine import (
    SelectionData,
    candidates,
    group_probabilities,
    interval,
    learned_average,
    within_limits,
)  # fmt: skip
from scipy.special import softmax
from sklearn.base import BaseEstimator, ClassifierMixin

import tailboost as tb
from tailboost import rates

BUDGETS = (None, 0.0, 0.005, 0.02, 0.05)


@dataclass(frozen=True)
class Problem:
    """Minimise the largest error of subgroups, or the overall error within limits (form, bound, kind, by)."""

    title: str
    by: str | None = None
    aware: bool = False
    limits: tuple[Any, ...] = ()

    def suits(self, case: dict[str, Any]) -> bool:
        if self.by == "class":
            return "g" not in case
        return "g" in case and not (self.limits and len(np.unique(case["y"])) > 2)


def _problems() -> Iterator[Problem]:
    yield Problem("worst class", "class")
    yield Problem("limits: miss", limits=(("most", 0.3, "miss", None),))
    for aware in (False, True):
        for by in ("group", "cell"):
            yield Problem(f"worst {by}, {'aware' if aware else 'blind'}", by, aware)
        for title, limits in {
            "gap": (("gap", 0.03, "selected", "group"),),
            "odds": (("gap", 0.05, "miss", "group"), ("gap", 0.05, "false alarm", "group")),
            "ratio": (("ratio", 0.8, "selected", "group"),),
        }.items():
            yield Problem(f"limits: {title}, {'aware' if aware else 'blind'}", None, aware, limits)


PROBLEMS = list(_problems())


def subgroups(by: str | None, y: Any, g: Any) -> dict[Any, Any]:
    """Return the rows of each subgroup by its name."""
    if by is None:
        return {None: np.ones(len(y), dtype=bool)}
    if by == "class":
        return {k: y == k for k in np.unique(y).tolist()}
    names = np.unique(g).tolist()
    if by == "group":
        return {a: g == a for a in names}
    return {(k, a): (y == k) & (g == a) for k in np.unique(y).tolist() for a in names}


def measured(kind: str, by: str | None, answers: Any, y: Any, g: Any) -> dict[Any, tuple[float, int]]:
    """Return each subgroup's rate with the number of rows it is counted among, of those that have some."""
    event = answers != y if kind == "error" else answers == 1 if kind != "miss" else answers != 1
    among = {"miss": y == 1, "false alarm": y == 0}.get(kind, np.ones(len(y), dtype=bool))
    rows = {name: inside & among for name, inside in subgroups(by, y, g).items()}
    return {name: (float(event[i].mean()), int(i.sum())) for name, i in rows.items() if i.any()}


def compared(form: str, values: Any) -> float:
    """Return the gap or the ratio of rates, or the largest."""
    v = np.asarray(list(values))
    if form == "ratio":
        return float(v.min() / v.max()) if v.max() > 0 else 1.0
    return float(v.max() - v.min()) if form == "gap" else float(v.max())


def excess_of(limit: Any, answers: Any, y: Any, g: Any) -> float:
    """Return by how much a limit is exceeded; below 0 it has room."""
    form, bound, kind, by = limit
    found = compared(form, [rate for rate, _ in measured(kind, by, answers, y, g).values()])
    return bound - found if form == "ratio" else found - bound


# -- engines: (budget, seconds, answers on test rows, lines of the table) ----------------------
# A line is (kind of rate, by, subgroup, value on the selection data, estimate, low, high, rows).


class Recorded(ClassifierMixin, BaseEstimator):
    """A model of the case: out-of-fold probabilities while a rule is selected, then those of test rows."""

    case: dict[str, Any]
    part = ""

    def __init__(self, number: int = 0) -> None:
        self.number = number

    @classmethod
    def reads(cls, case: dict[str, Any]) -> None:
        for part in ("", "_test"):
            rows = np.ascontiguousarray(case["X" + part])
            case["at" + part] = {bytes(row): i for i, row in enumerate(rows)}
        cls.case = case

    def fit(self, X: Any, y: Any) -> Recorded:
        self.classes_, self.n_features_in_ = np.arange(self.case["P"].shape[2]), X.shape[1]
        return self

    def predict_proba(self, X: Any) -> Any:
        at, P = self.case["at" + self.part], self.case["P" + self.part]
        return P[self.number, [at[bytes(row)] for row in np.ascontiguousarray(X, dtype=np.float64)]]

    def predict(self, X: Any) -> Any:
        return self.predict_proba(X).argmax(axis=1)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        return tags


def product(case: dict[str, Any], problem: Problem, **params: Any) -> Iterator[Any]:
    """Select with `RobustMixtureClassifier`: one fit, then a selection for each budget."""
    limits = [_stated(*limit) for limit in problem.limits]
    fold, grouped = case["fold"], problem.by != "class" and problem.title != "limits: miss"
    mix = tb.RobustMixtureClassifier(
        [(f"model {i}", Recorded(i)) for i in range(len(case["P"]))], limits=limits, by_group=problem.aware,
        objective=None if problem.by is None else f"worst_{problem.by}", random_state=0, n_jobs=1,
        cv=[(np.flatnonzero(fold != k), np.flatnonzero(fold == k)) for k in np.unique(fold)], **params,
    )  # fmt: skip
    asked = {"groups": case["g_test"]} if problem.aware else {}
    for budget in (None,) if problem.limits else BUDGETS:
        Recorded.part, began = "", time.process_time()
        if budget is None:
            found = mix.fit(case["X"], case["y"], **({"groups": case["g"]} if grouped else {}))
        else:
            found = mix.reweight(error_budget=budget)
        seconds = time.process_time() - began
        table, Recorded.part = found.rates_, "_test"
        lines = list(map(_line, table))
        answers = found.predict(case["X_test"], **asked)
        yield budget, seconds, answers, lines


RATES = {
    "error": rates.error,
    "selected": rates.selected,
    "miss": rates.miss,
    "false alarm": rates.false_alarm,
}


def _rate(kind: str, by: str | None) -> Any:
    return RATES[kind](*() if kind == "error" else (1,), by=by)


def _stated(form: str, bound: float, kind: str, by: str | None) -> Any:
    rate = _rate(kind, by)
    if form == "ratio":
        return rates.ratio(rate) >= bound
    return (rates.gap(rate) if form == "gap" else rate) <= bound


WORDS = {str(_rate(k, by)): (k, by) for k in RATES for by in (None, "class", "group", "cell")}


def _line(line: Any) -> tuple[Any, ...]:
    estimate = getattr(line, "estimate", np.nan)
    estimate = line.value if np.isnan(estimate) else estimate
    return (*WORDS[line.rate], line.subgroup, line.value, estimate, line.low, line.high, line.rows)


def simple(case: dict[str, Any], problem: Problem) -> Iterator[Any]:
    """Select with the simplest engine."""
    began, (y, K) = time.process_time(), (case["y"], case["P"].shape[2])
    logs, logs_test = (np.log(case[name].clip(1e-6)) for name in ("P", "P_test"))
    average = learned_average(logs, y)
    names, g = np.unique(case.get("g", np.zeros(len(y), dtype=int)), return_inverse=True)
    if problem.by == "class" or problem.title == "limits: miss":
        names, g = names[:1], np.zeros_like(g)
    given = [np.ones((1, 1, 1))] * 2
    if problem.aware:
        given = [np.eye(len(names))[np.searchsorted(names, case[of])][:, None, :] for of in ("g", "g_test")]
    elif len(names) > 1:
        given = group_probabilities(case["X"], y, g, case["X_test"], K)
    B, B_test = (
        (average(of)[:, :, None] * groups).reshape(of.shape[1], -1)
        for of, groups in zip((logs, logs_test), given, strict=True)
    )
    data, groups_of_rows = SelectionData(B, y, g, K, len(names)), names[g]

    def matrices(kind: str, by: str | None) -> list[Any]:
        among = {"miss": data.classes == 1, "false alarm": data.classes == 0}.get(kind, data.mass >= 0)
        event = data.error if kind == "error" else np.tile(np.eye(K)[1] != (kind == "miss"), (data.S, 1))
        rows = [among & inside for inside in subgroups(by, data.classes, names[data.groups]).values()]
        return [data.rate(event, inside) for inside in rows if data.mass[inside].sum() > 0]

    if problem.limits:
        A, b = [], []
        for form, bound, *of in problem.limits:
            C, q = matrices(*of), bound if form == "ratio" else 1.0
            A += C if form == "most" else [q * one - other for one, other in permutations(C, 2)]
            b += [0.0 if form == "ratio" else bound] * (len(A) - len(b))
        points = [(None, within_limits(data, np.array(A), np.array(b)))]
    else:
        pool = candidates(data, errors := np.array(matrices("error", problem.by)))
        N = np.array([data.counts(Q) for Q in pool])
        overall, worst = np.tensordot(N, data.error, 2), np.tensordot(N, errors, ((1, 2), (1, 2))).max(axis=1)
        points = []
        for budget in BUDGETS:
            allowed = np.flatnonzero(overall <= overall.min() + (1.0 if budget is None else budget) + 1e-12)
            best = allowed[np.lexsort((overall[allowed], worst[allowed].round(9)))[0]]
            points.append((budget, pool[best]))
    seconds = (time.process_time() - began) / len(points)
    stated = [("error", problem.by), *(limit[2:] for limit in problem.limits)]
    for budget, Q in points:
        answers = (B @ Q).argmin(axis=1)
        yield budget, seconds, (B_test @ Q).argmin(axis=1), _counted(stated, answers, y, groups_of_rows)


def _counted(stated: list[Any], answers: Any, y: Any, g: Any) -> list[Any]:
    """Return the rates on the selection data with exact intervals."""
    return [
        (kind, by, name, rate, rate, *interval(rate, n), n)
        for kind, by in dict.fromkeys(stated) for name, (rate, n) in measured(kind, by, answers, y, g).items()
    ]  # fmt: skip


def argmax(case: dict[str, Any], problem: Problem) -> Iterator[Any]:
    """Predict the most probable class of the even average of log-probabilities."""
    answers, test = (np.log(case[name].clip(1e-6)).mean(axis=0).argmax(axis=1) for name in ("P", "P_test"))
    stated = [("error", problem.by), *(limit[2:] for limit in problem.limits)]
    for budget in (None,) if problem.limits else BUDGETS:
        yield budget, 0.0, test, _counted(stated, answers, case["y"], case.get("g"))


def tuned(case: dict[str, Any], problem: Problem) -> Iterator[Any]:
    """Tune class weights on the even average of log-probabilities, for the worst class within each budget."""
    averages = [softmax(np.log(case[name].clip(1e-6)).mean(axis=0), axis=1) for name in ("P", "P_test")]
    stated = [("error", problem.by), *(limit[2:] for limit in problem.limits)]
    for budget in (None,) if problem.limits else BUDGETS:
        began = time.process_time()
        weights = tune_class_weights(averages[0], case["y"], error_budget=budget)[0]
        seconds = time.process_time() - began
        answers, test = (adjusted_answers(P, weights) for P in averages)
        yield budget, seconds, test, _counted(stated, answers, case["y"], case.get("g"))


ENGINES: dict[str, Any] = {
    "one": product, "simple": simple, "argmax": argmax, "tuned": tuned,
    "confident": partial(product, confidence=0.9),
}  # fmt: skip
