"""Curves from one fit: mortgages, patients and law students, the group not told.

Mortgages (160,338 loans, HMDA 2018): who is not charged a high price, by Gill et al. 2020 on another split of
the same source; what US banks call a search for less discriminatory alternatives. Patients (UCI 296): are
they readmitted, not, late or within 30 days; a patient has several stays, which stay together. Law students
(LSAC): who passes the bar, beside Le Quy et al. 2022.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import numpy as np

import tailboost as tb
from experiments._experiment import Cells, Experiment, Report, Settings, markdown
from experiments.field._limits import learner
from experiments.field._scores import drawn
from experiments.field._tables import TABLES, Table
from tailboost import rates
from tailboost.baselines import adjusted_answers, tune_class_weights
from tailboost.mixture import InfeasibleLimitsError

Found = dict[str, Any]

# At most so many rows to fit and to choose on, and test rows.
TRAIN_ROWS, TEST_ROWS = 40_000, 40_000
WHO = ("black", "hispanic", "female", "agegte62")
# Gill et al. 2020: recall of high-priced loans, accuracy; the ratio of shares black to white, women to men.
MORTGAGES = {
    "GBM": {"recall": 0.634, "accuracy": 0.795},
    "monotone GBM": {"recall": 0.684, "accuracy": 0.765, "black": 0.776, "female": 0.948},
    "XNN": {"recall": 0.594, "accuracy": 0.869, "black": 0.743},
}
# Le Quy et al. 2022, logistic regression: accuracy, and who fails found among white and others.
LAW = {"accuracy": 0.907, "found, white": 0.525, "found, non-white": 0.107}


def _chosen(mix: Any, **params: Any) -> tuple[Any, float]:
    """Return the choice, or why there is none, and its seconds."""
    began = time.process_time()
    try:
        found = mix.reweight(**params)
    except InfeasibleLimitsError as no:
        found = str(no)
    return found, time.process_time() - began


def mortgages(train: Table, test: Table, seed: int) -> Iterator[tuple[str, Found]]:
    """Yield points: recall as published, and the ratio of shares at least so large in four columns."""
    began = time.process_time()
    groups = {who: train.groups[who].astype(int) for who in WHO}
    ratios = [rates.ratio(rates.selected(1, by=who)) for who in WHO]
    mix = tb.RobustMixtureClassifier(
        [("boosted", learner())], limits=[ratio >= 0.01 for ratio in ratios], random_state=seed
    ).fit(train.X, train.y, groups=groups)
    fit = time.process_time() - began

    def measured(q: Any) -> Found:
        own: Found = {"accuracy": float(np.where(test.y == 1, q, 1 - q).mean())}
        own["recall"] = float(1 - q[test.y == 0].mean())
        for who, other in (("black", "white"), ("hispanic", "non_hispanic"), ("female", "male"),
                           ("agegte62", "agelt62")):  # fmt: skip
            own[who] = float(q[test.groups[who]].mean() / q[test.groups[other]].mean())
        return own

    alone, together = ratios[:1], ratios
    asked = [(0.634, least, alone) for least in (0.0, 0.75, 0.8, 0.85, 0.9)] + [(0.634, 0.8, together)]
    asked += [(0.684, least, alone) for least in (0.0, 0.776, 0.8)]
    for recall, least, of in asked:
        limits = [rates.miss(0) <= 1 - recall, *(ratio >= least for ratio in of if least)]
        title = f"recall {recall:g}"
        if least:
            title += f", {'all four ratios' if of is together else 'black'} at least {least:g}"
        for randomized in (False, True):
            mix.randomized = randomized
            found, seconds = _chosen(mix, objective="error", limits=limits)
            words = title + ", drawn" * randomized
            if isinstance(found, str):
                yield words, {"unreached": found}
            else:
                yield words, measured(found.predict_shares(test.X)[:, 1]) | {"seconds": seconds, "fit": fit}


def patients(train: Table, test: Table, seed: int) -> Iterator[tuple[str, Found]]:
    """Yield points of three classes: trees as they are, with class weights tuned, and ours by budget."""
    began = time.process_time()
    mix = tb.RobustMixtureClassifier(
        [("boosted", learner())], objective="worst_class", random_state=seed, cv=5
    ).fit(train.X, train.y, split_by=train.of)
    fit = time.process_time() - began
    cell = _cells(test, ("race", "age"))

    def measured(answers: Any) -> Found:
        wrong = (answers != test.y).astype(float)
        errors = [float(wrong[test.y == k].mean()) for k in range(3)]
        of_cells = (
            np.bincount(cell, wrong)[np.bincount(cell) >= 100] / (np.bincount(cell)[np.bincount(cell) >= 100])
        )
        return {"mean error": float(wrong.mean()), "worst class": max(errors), "none": errors[0],
                "late": errors[1], "within 30 days": errors[2],
                "worst class × race × age": float(of_cells.max()), "fit": fit}  # fmt: skip

    model = learner()
    P = np.zeros((len(train.y), 3))
    assert train.of is not None  # whose row each is: a person's rows stay in one fold
    fold = np.random.default_rng(seed).permutation(int(train.of.max()) + 1)[train.of] % 5
    for k in range(5):
        P[fold == k] = model.fit(train.X[fold != k], train.y[fold != k]).predict_proba(train.X[fold == k])
    Q = model.fit(train.X, train.y).predict_proba(test.X)
    yield "trees as they are", measured(Q.argmax(axis=1))
    yield "trees, class weights tuned", measured(adjusted_answers(Q, tune_class_weights(P, train.y)[0]))
    for budget in (0.0, 0.02, 0.05, 1.0):
        found, seconds = _chosen(mix, mean_budget=budget)
        words = "ours, no budget" if budget == 1 else f"ours, mean_budget={budget:g}"
        yield words, measured(np.asarray(found.predict(test.X))) | {"seconds": seconds}


def law(train: Table, test: Table, seed: int) -> Iterator[tuple[str, Found]]:
    """Yield points: by budget for the worst cell of who passes and race; and misses of both races alike."""
    began = time.process_time()
    mix = tb.RobustMixtureClassifier(
        [("boosted", learner())], limits=[rates.error(by="cell") <= 1.0], random_state=seed
    ).fit(train.X, train.y, groups={"race": train.groups["race"]})
    fit = time.process_time() - began
    white = test.groups["race"] == "White"

    def measured(answers: Any) -> Found:
        found = answers == test.y
        return {
            "accuracy": float(found.mean()),
            **{f"found, {word}": float(found[(test.y == 0) & of].mean())
               for word, of in (("white", white), ("non-white", ~white))},
            "worst cell": max(1 - float(found[(test.y == k) & of].mean())
                              for k in (0, 1) for of in (white, ~white)),
            "fit": fit,
        }  # fmt: skip

    for budget in (0.0, 0.01, 0.02, 0.05, 0.1):
        goal = rates.largest(rates.error(by="cell"))
        found, seconds = _chosen(mix, objective=goal, limits=[], mean_budget=budget)
        yield f"worst cell, mean_budget={budget:g}", measured(found.predict(test.X)) | {"seconds": seconds}


def _cells(table: Table, columns: tuple[str, ...]) -> Any:
    """Return the number of each row's cell of class and groups."""
    cell = table.y
    for column in columns:
        index = np.unique(table.groups[column], return_inverse=True)[1]
        cell = cell * (index.max() + 1) + index
    return cell


CASES: dict[str, tuple[str, Callable[[Table, Table, int], Iterator[tuple[str, Found]]]]] = {
    "mortgages": ("hmda", mortgages),
    "patients": ("diabetes", patients),
    "law students": ("law school", law),
}
PUBLISHED = {"mortgages": MORTGAGES, "law students": {"logistic regression": LAW}}


def _by_person(table: Table, seed: int) -> tuple[Table, Table]:
    """Return random rows to choose on and test rows: all rows of a person on one side."""
    if table.of is None:
        return drawn(table, seed, TRAIN_ROWS, TEST_ROWS)
    persons, of = np.unique(table.of, return_inverse=True)
    order = np.random.default_rng(seed).permutation(len(persons))[of]
    cut = len(persons) // 3
    tests, others = np.flatnonzero(order < cut), np.flatnonzero(order >= cut)
    kept = others[np.argsort(order[others], kind="stable")][:TRAIN_ROWS]
    return table.rows(np.sort(kept)), table.rows(tests[:TEST_ROWS])


def play(settings: Settings, name: str) -> Report:
    """Compute what is missing and read it."""
    cells = Cells(settings, name, len(CASES) * settings.repeats)
    found: dict[str, dict[str, list[Found]]] = {}
    for title, (table, make) in CASES.items():
        if settings.only and title not in settings.only:
            continue
        for seed in range(settings.repeats):

            def compute(table: str = table, make: Any = make, seed: int = seed) -> Found:
                parts = _by_person(TABLES[table](settings.folder), seed)
                return {"rows": [len(part.y) for part in parts], "points": dict(make(*parts, seed))}

            key = {"case": title, "seed": seed}
            if settings.late and key not in cells:
                continue
            got = cells.get(key, compute)
            for point, values in got["points"].items():
                found.setdefault(title, {}).setdefault(point, []).append(values | {"rows": got["rows"]})
    return Report(_text(found), {"published": PUBLISHED, "cases": _means(found)})


def _means(found: Mapping[str, Mapping[str, list[Found]]]) -> Found:
    """Return the mean and the standard deviation over splits of every number."""
    means: Found = {}
    for title, points in found.items():
        for point, runs in points.items():
            reached = [run for run in runs if "unreached" not in run]
            own: Found = {"splits": len(runs), "unreached": len(runs) - len(reached), "rows": runs[0]["rows"]}
            for name in [] if not reached else [n for n in reached[0] if n != "rows"]:
                values = [run[name] for run in reached if name in run]
                own[name] = [float(np.mean(values)), float(np.std(values))]
            means.setdefault(title, {})[point] = own
    return means


def _text(found: Mapping[str, Mapping[str, list[Found]]]) -> str:
    parts = []
    for title, points in _means(found).items():
        first = next(iter(points.values()))
        rows = " and ".join(f"{n:,}" for n in first["rows"])
        names = dict.fromkeys(n for own in points.values() for n in own if isinstance(own[n], list))
        header = [n for n in names if n not in ("rows", "seconds", "fit")]
        body = [
            [point, *(_both(own[n]) if n in own else "" for n in header)]
            + ([f"not reached in {own['unreached']}"] if own["unreached"] else [""])
            for point, own in points.items()
        ]
        published = PUBLISHED.get(title, {})
        for who, of in published.items():
            body.append([f"published: {who}", *(f"{of[n]:.3f}" if n in of else "" for n in header), ""])
        parts.append(
            f"## {title}\n\n{rows} rows to choose on and test rows, {first['splits']} splits; ± is the "
            "standard deviation over them.\n\n" + markdown(["", *header, ""], body)
        )
    return "\n\n".join(parts)


def _both(pair: list[float]) -> str:
    return f"{pair[0]:.3f} ± {pair[1]:.3f}"


EXPERIMENT = Experiment("field-curves", "Mortgages, patients, law students: curves from one fit", play,
                        repeats=3, has_jobs=True)  # fmt: skip
