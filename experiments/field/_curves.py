"""Curves from one fit: mortgages, patients and law students, group-blind.

Mortgages (160,338 loans, HMDA 2018): who gets no high-priced loan, as in Gill et al. 2020 on another split of
the same source: a search for less discriminatory alternatives. Patients (UCI 296): are
they readmitted, not, late or within 30 days; all stays of a patient are on one side. Law students
(LSAC): who passes the bar, compared with Le Quy et al. 2022.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

import tailboost as tb
from experiments._experiment import Cells, Experiment, Report, Settings, markdown
from experiments._limit_methods import GroupRates, NoAnswer, Scored, pairs, thresholds_by_group
from experiments.field._limits import learner
from experiments.field._scores import drawn
from experiments.field._tables import TABLES, Table
from tailboost import rates
from tailboost.app.baselines import adjusted_answers, tune_class_weights
from tailboost.rates import InfeasibleLimitsError

Found = dict[str, Any]

# At most so many rows to fit and to choose on, and test rows.
TRAIN_ROWS, TEST_ROWS = 40_000, 40_000
# Cells of patients with fewer test rows say little.
LEAST_ROWS = 100
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
                yield (
                    words,
                    measured(found.predict_distribution(test.X)[:, 1]) | {"seconds": seconds, "fit": fit},
                )
    p, black = mix.predict_proba(test.X)[:, 1], test.groups["black"].astype(np.intp)
    for recall, least in ((0.634, 0.8), (0.684, 0.776)):

        def both(r: GroupRates, recall: float = recall, least: float = least) -> Any:
            missed = r.of_zeros @ r.false - (1 - recall) / len(r.false)
            return np.vstack([pairs(r.selected, least), missed])

        try:
            q = thresholds_by_group(Scored(p, test.y, black, p, test.y, black), both)
            yield f"oracle by true group, recall {recall:g}, black at least {least:g}", measured(q)
        except NoAnswer as no:
            yield f"oracle by true group, recall {recall:g}, black at least {least:g}", {"unreached": str(no)}


def patients(train: Table, test: Table, seed: int) -> Iterator[tuple[str, Found]]:
    """Yield points: trees as they are and with class weights tuned; ours by budget, for classes and cells."""
    began = time.process_time()
    mix = tb.RobustMixtureClassifier(
        [("boosted", learner())], limits=[rates.error(by="cell") <= 1.0], random_state=seed, cv=5
    ).fit(train.X, train.y, groups={"race and age": _race_and_age(train)}, clusters=train.of)
    fit = time.process_time() - began
    K = len(mix.classes_)
    names = ("none", "late", "within 30 days") if K == 3 else ("none or late", "within 30 days")
    cell = np.unique(_race_and_age(test), return_inverse=True)[1] * K + test.y
    rows = np.bincount(cell)

    def measured(answers: Any) -> Found:
        wrong = (answers != test.y).astype(float)
        errors = [float(wrong[test.y == k].mean()) for k in range(K)]
        of_cells = np.bincount(cell, wrong)[rows >= LEAST_ROWS] / rows[rows >= LEAST_ROWS]
        return {"mean error": float(wrong.mean()), "worst class": max(errors),
                **dict(zip(names, errors, strict=True)),
                "worst class × race × age": float(of_cells.max()), "fit": fit}  # fmt: skip

    model = learner()
    P = np.zeros((len(train.y), K))
    assert train.of is not None  # the person of each row: a person's rows stay in one fold
    fold = np.random.default_rng(seed).permutation(int(train.of.max()) + 1)[train.of] % 5
    for k in range(5):
        P[fold == k] = model.fit(train.X[fold != k], train.y[fold != k]).predict_proba(train.X[fold == k])
    Q = model.fit(train.X, train.y).predict_proba(test.X)
    yield "trees as they are", measured(Q.argmax(axis=1))
    yield "trees, class weights tuned", measured(adjusted_answers(Q, tune_class_weights(P, train.y)[0]))
    for by, budget in ((by, budget) for by in ("class", "cell") for budget in (0.0, 0.02, 0.05, None)):
        goal = rates.largest(rates.error(by=by))
        found, seconds = _chosen(mix, objective=goal, limits=[], error_budget=budget)
        words = "no budget" if budget is None else f"error_budget={budget:g}"
        yield (
            f"ours, worst {by}, {words}",
            measured(np.asarray(found.predict(test.X))) | {"seconds": seconds},
        )
    P, groups = np.asarray(mix.predict_proba(test.X)), _race_and_age(test)
    # The class weights of each true group are tuned on the test rows themselves.
    answers = P.argmax(axis=1)
    for group in np.unique(groups):
        of = groups == group
        answers[of] = adjusted_answers(P[of], tune_class_weights(P[of], test.y[of])[0])
    yield "oracle by true group", measured(answers)


def patients_soon(train: Table, test: Table, seed: int) -> Iterator[tuple[str, Found]]:
    """Yield the points of two classes: readmitted within 30 days or not."""
    train, test = (replace(part, y=(part.y == 2).astype(np.intp)) for part in (train, test))
    return patients(train, test, seed)


def _race_and_age(table: Table) -> Any:
    """Return each row's combination of race and age, as text."""
    return np.char.add(np.char.add(table.groups["race"], ", "), table.groups["age"])


def law(train: Table, test: Table, seed: int) -> Iterator[tuple[str, Found]]:
    """Yield points: by budget for the worst cell, and for equal misses of both races."""
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
        found, seconds = _chosen(mix, objective=goal, limits=[], error_budget=budget)
        yield f"worst cell, error_budget={budget:g}", measured(found.predict(test.X)) | {"seconds": seconds}


CASES: dict[str, tuple[str, Callable[[Table, Table, int], Iterator[tuple[str, Found]]]]] = {
    "mortgages": ("hmda", mortgages),
    "patients": ("diabetes", patients),
    "patients, two classes": ("diabetes", patients_soon),
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
    """Compute missing cells and read all cells."""
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
    means = _means(found)
    return Report(_text(found), {"published": PUBLISHED, "cases": means}, partial(_picture, means))


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


def _picture(means: Found, plt: Any) -> Any:
    """Draw accuracy against the ratio of shares on mortgages, with the published points."""
    figure, axes = plt.subplots(1, len(WHO), figsize=(12, 3.8), layout="constrained", sharey=True)
    words = ("black / white", "Hispanic / other", "women / men", "62 and older / younger")
    of = [p for p in means.get("mortgages", {}).items() if not p[1]["unreached"] and "four" not in p[0]]
    for axis, who, label in zip(axes, WHO, words, strict=True):
        for colour, recall in (("C0", "0.634"), ("C1", "0.684")):
            for shared, style in ((False, "-"), (True, ":")):
                runs = [
                    own for name, own in of
                    if name.startswith(f"recall {recall}") and name.endswith("drawn") == shared
                ]  # fmt: skip
                axis.plot(
                    [own[who][0] for own in runs],
                    [own["accuracy"][0] for own in runs],
                    f".{style}",
                    color=colour,
                    label=f"ours, recall {recall}" + ", drawn" * shared,
                )
        for marker, (name, point) in zip("o^D", MORTGAGES.items(), strict=True):
            if who in point:
                title = f"{name}, recall {point['recall']:g} (Gill et al.)"
                axis.plot(point[who], point["accuracy"], marker, color="0.45", label=title)
        title = "GBM, recall 0.634, ratio not given"
        axis.axhline(MORTGAGES["GBM"]["accuracy"], color="0.45", lw=0.8, label=title)
        axis.axvline(0.8, color="0.8", lw=0.8)
        axis.set(xlabel=f"ratio of shares, {label}")
    axes[0].set(ylabel="accuracy on test rows")
    figure.legend(*axes[0].get_legend_handles_labels(), loc="outside lower center", ncols=4, fontsize="small")
    return figure


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
