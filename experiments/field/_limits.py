"""Limits on rates of two classes: ours and others on one score, on random splits."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np

from experiments._experiment import Cells, Experiment, Report, Settings, markdown
from experiments._regret import corrected_half_width
from experiments.field._opponents import OPPONENTS, Answer, Unreached
from experiments.field._rules import Case, Goal, reached
from experiments.field._scores import drawn, score
from experiments.field._tables import TABLES
from tailboost.learners import HistBoostClassifier

# At most so many rows to choose on, and test rows.
TRAIN_ROWS, TEST_ROWS = 40_000, 60_000
GOALS = (
    *(Goal("odds", level) for level in (0.05, 0.02, 0.01)), Goal("parity", 0.02), Goal("ratio", 0.8),
)  # fmt: skip
# A stricter limit for .8 on fresh rows: the smallest group has some 400 rows of selection data.
ROOM = Goal("ratio", 0.86)
CELLS = tuple(Goal("cell", budget) for budget in (0.002, 0.005, 0.01, 0.02))
# By title: the table, its column of groups, the columns hidden from the score, and the goals.
CASES: dict[str, tuple[str, str, tuple[str, ...], tuple[Goal, ...]]] = {
    "adult, sex": ("adult", "sex", ("sex",), GOALS),
    "acs income, 4 races": ("acs income", "race of 4", ("RAC1P",), GOALS),
    "acs income, sex": ("acs income", "sex", ("SEX",), GOALS),
    "acs income, 6 races": ("acs income", "race of 6", ("RAC1P",), (*GOALS, ROOM)),
    "acs income, 9 races": ("acs income", "race", ("RAC1P",), CELLS),
}
# Which rate a kind of goal is about.
ABOUT = {"odds": "gap", "parity": "spread", "ratio": "ratio", "cell": "large cell"}


def learner() -> HistBoostClassifier:
    """Return the model of the score."""
    return HistBoostClassifier(n_estimators=200, max_depth=5, learning_rate=0.1)


def _asked(title: str, goals: Sequence[Goal]) -> Iterator[tuple[str, Goal]]:
    for name, opponent in OPPONENTS.items():
        for goal in goals:
            if goal.kind in opponent.kinds or (goal.kind == "cell" and name.startswith("tailboost")):
                yield name, goal


def play(settings: Settings, name: str) -> Report:
    """Compute missing cells within the time limit, and read all finished cells."""
    cells = Cells(settings, name)
    found: dict[str, dict[str, list[dict[str, Any]]]] = {}
    seeds = range(settings.repeats) if settings.seed is None else (settings.seed,)
    for title, (table, column, unseen, goals) in CASES.items():
        if settings.only and title not in settings.only:
            continue
        for seed in seeds:
            case = _Lazy(partial(_case, settings, table, column, unseen, seed))
            key = {"case": title, "seed": seed}
            if settings.late and key | {"opponent": "score"} not in cells:
                continue
            plain = cells.get(key | {"opponent": "score"}, partial(_plain, case))
            runs = found.setdefault(title, {})
            runs.setdefault("score", []).append(plain)
            for who, goal in _asked(title, goals):
                own = key | {"opponent": who, "goal": goal.title}
                if settings.late and own not in cells:
                    continue
                got = cells.get(own, partial(_ask, case, who, goal, plain["groups"]))
                if "error" in got or "unreached" in got:
                    runs.setdefault(f"{who} | {goal.title}", []).append(got)
    return Report(
        _text(found),
        {"rows to choose on, at most": TRAIN_ROWS, "test rows, at most": TEST_ROWS, "cases": _means(found)},
    )


class _Lazy:
    """A case, created by its first cell, and its methods."""

    def __init__(self, make: Callable[[], Case]) -> None:
        self._make, self._case = make, None  # type: Any, Case | None
        self._answers: dict[str, tuple[Answer, float]] = {}

    @property
    def case(self) -> Case:
        if self._case is None:
            self._case = self._make()
        return self._case

    def opponent(self, name: str) -> tuple[Answer, float]:
        """Return one who answers, and the seconds to get ready."""
        if name not in self._answers:
            began = time.process_time()
            answer = OPPONENTS[name].make(self.case)
            self._answers[name] = answer, time.process_time() - began
        return self._answers[name]


def _case(settings: Settings, table: str, column: str, unseen: tuple[str, ...], seed: int) -> Case:
    train, test = drawn(TABLES[table](settings.folder), seed, TRAIN_ROWS, TEST_ROWS)
    scored = score(train, test, learner, settings.out / "scores", f"{table} {column}", unseen)
    return Case(scored, column, seed)


def _plain(lazy: _Lazy) -> dict[str, Any]:
    case = lazy.case
    found = reached((case.scored.Q[:, 1] > 0.5).astype(np.float64), case.scored.test.y, case.test_groups)
    sizes = {"rows": len(case.scored.train.y), "test rows": len(case.scored.test.y)}
    return found | sizes | {"groups": int(case.groups.max()) + 1, "seconds": case.scored.seconds}


def _ask(lazy: _Lazy, who: str, goal: Goal, n_groups: int) -> dict[str, Any]:
    """Return the result of a method; empty if the goal is not supported."""
    case = lazy.case
    if goal.kind != "cell" and not OPPONENTS[who].takes(case, goal):
        return {}
    answer, ready = lazy.opponent(who)
    began = time.process_time()
    try:
        q = answer(goal)
    except (Unreached, ValueError) as no:  # other methods have no class for infeasibility
        return {"unreached": str(no)[:300]}
    seconds = time.process_time() - began
    return reached(q, case.scored.test.y, case.test_groups) | {"seconds": seconds, "ready": ready}


def _mean(runs: Sequence[Mapping[str, Any]], name: str, test_to_train: float) -> list[float]:
    values = [run[name] for run in runs if "error" in run]
    if not values:
        return [float("nan"), float("nan")]
    return [float(np.mean(values)), corrected_half_width(values, test_to_train)]


def _means(found: Mapping[str, Mapping[str, list[dict[str, Any]]]]) -> dict[str, Any]:
    """Return [mean, half of the corrected 95 % interval] of each rate, by case, opponent and goal."""
    means: dict[str, Any] = {}
    for title, runs in found.items():
        sizes = runs["score"][0]
        share = sizes["test rows"] / sizes["rows"]
        for who, of in runs.items():
            names = ("error", "gap", "spread", "ratio", "large cell", "seconds")
            own = {name: _mean(of, name, share) for name in names}
            means.setdefault(title, {})[who] = own | {
                "splits": len(of), "unreached": sum("unreached" in run for run in of),
                "ready": _mean([run for run in of if "ready" in run], "ready", share)[0],
            }  # fmt: skip
    return means


def with_half(pair: Sequence[float], digits: int = 4) -> str:
    """Write a mean and half of the interval, if any."""
    mean, half = pair
    return f"{mean:.{digits}f}" + (f" ± {half:.{digits}f}" if np.isfinite(half) else "")


def _text(found: Mapping[str, Mapping[str, list[dict[str, Any]]]]) -> str:
    parts = []
    for title, of in _means(found).items():
        plain = of["score"]
        words = {"error": "mean error", "gap": "gap of the odds", "ratio": "approval ratio"}
        says = [f"{with_half(plain[name])} {word}" for name, word in words.items()]
        parts.append(f"## {title}\n\nThe score at one half: {', '.join(says)}; {plain['splits']} splits.")
        goals = dict.fromkeys(key.split(" | ")[1] for key in of if " | " in key)
        for goal in goals:
            kind = next(g.kind for g in (*GOALS, ROOM, *CELLS) if g.title == goal)
            rows = []
            for key, run in of.items():
                who, _, asked = key.partition(" | ")
                if asked == goal:
                    told = "told" if OPPONENTS[who].told else "not told"
                    missed = f"{run['unreached']} of {run['splits']}" if run["unreached"] else ""
                    rows.append(
                        [who, told, with_half(run["error"]), with_half(run[ABOUT[kind]]),
                         f"{run['seconds'][0]:.2f}", f"{run['ready']:.2f}", str(run["splits"]), missed]
                    )  # fmt: skip
            header = ["", "group", "mean error", ABOUT[kind], "seconds", "made ready", "splits", "unreached"]
            parts.append(f"### {goal}\n\n" + markdown(header, rows))
    return "\n\n".join(parts)


EXPERIMENT = Experiment(
    "field-limits", "Limits on rates: ours and others on one score", play, repeats=5, has_jobs=True
)
