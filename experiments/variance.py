"""Shivaswamy and Jebara 2011, Tables 1 and 2: variance-penalised boosting with stumps and with trees.

Protocol: 50 % of the rows to train, 25 % to validate, 25 % to test; AdaBoost, EBBoost and VadaBoost run until
the validation error has not dropped for 100 rounds and keep the best prefix; λ, the tree's depth and the
cost C of RLP and RQP (which re-weigh AdaBoost's hypotheses) minimise the validation error.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from scipy import stats

from experiments._experiment import (
    Cells,
    Experiment,
    Report,
    Settings,
    markdown,
    of_each,
    vote_shares,
)
from experiments._generators import make_ringnorm, make_twonorm, make_waveform
from experiments._tables import LOADERS, Data, Split, libsvm, table
from tailboost.app.report.results import interval
from tailboost.classifiers import AdaBoostClassifier, EBBoostClassifier, VadaBoostClassifier
from tailboost.core.spelling import did_you_mean
from tailboost.learners import HistTreeClassifier, StumpClassifier
from tailboost.solvers import soft_margin_weights

PATIENCE = 100
MOST_ROUNDS = 2000
LAMBDAS = (0.1, 0.5, 0.9)
# λ of the tables with the paper's stop rule to the letter; the paper does not print its values.
GRID = tuple(round(0.1 * k, 1) for k in range(11))
TOLERANCE = 1e-3  # of the records with few λ: smaller drops of the validation error do not count
DEPTHS = (2, 4)
TREE_BINS = 64
# Costs of slack, C Σs; RLP's α is 1/C. Stumps err on up to a quarter of the rows; then the best α is near one
# half.
SLACK_PRICES = {"RLP": (1.5, 3.0, 10.0, 30.0), "RQP": (10.0, 30.0, 100.0, 300.0)}
STUMP_PRICES = SLACK_PRICES | {"RLP": (1.5, 1.8, 2.1, 2.5, 3.0, 10.0, 30.0)}
# MNIST and musk are cut to 5,000 rows, as in the paper; the generators' sizes are not printed.
CUT = 5000
GENERATED = 5000
LEVEL = 0.01


# -- data ------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Task:
    """A data set of the tables.

    Attributes
    ----------
    load : callable
        ``load(folder)`` with classes 0 and 1.
    stands_in : str
        If the paper's data set is not available: its replacement.
    """

    load: Callable[[Path], Data]
    stands_in: str = ""


def cut(data: Data, n: int) -> Data:
    """Draw n rows, always the same ones."""
    return data.rows(np.sort(np.random.RandomState(0).permutation(len(data.y))[:n]))


def one_hot(load: Callable[[Path], Data], n: int | None = None) -> Callable[[Path], Data]:
    """Make a loader turn text into columns of 0 and 1, leave out rows without a number, and draw n rows."""

    def encoded(folder: Path) -> Data:
        import pandas as pd

        data = load(folder)
        number = [c for c in data.X if pd.api.types.is_numeric_dtype(data.X[c])]
        whole = data.X[number].notna().all(axis=1).to_numpy()
        X = pd.get_dummies(data.X.loc[whole], dummy_na=False, dtype=float)
        rows = Data(X.to_numpy(dtype=float), data.y[whole])
        return rows if n is None else cut(rows, n)

    return encoded


def _libsvm(name: str, n_features: int, n: int) -> Callable[[Path], Data]:
    return lambda folder: cut(libsvm(folder, name, n_features), n)


def _digits(one: int, other: int) -> Callable[[Path], Data]:
    def load(folder: Path) -> Data:
        with np.load(folder / "mnist.npz") as images:
            X, y = images["x_train"], images["y_train"]
        rows = np.flatnonzero((y == one) | (y == other))
        rows = np.sort(np.random.RandomState(0).permutation(rows)[:CUT])
        return Data(X[rows].reshape(len(rows), -1).astype(float), (y[rows] == other).astype(np.intp))

    return load


def _generated(make: Callable[..., Any], **options: Any) -> Task:
    def load(folder: Path) -> Data:
        X, y = make(GENERATED, random_state=0, **options)
        return Data(X, y.astype(np.intp))

    return Task(load)


TASKS: dict[str, Task] = {
    "a5a": Task(_libsvm("a9a", 123, 6414), "6,414 random rows of a9a"),
    "abalone": Task(one_hot(table("abalone", "rings", label=lambda rings: rings > 9))),
    "image": Task(
        one_hot(
            table("image_segmentation", "class", label=lambda y: y.isin(["brickface", "sky", "foliage"]))
        ),
        "three classes of UCI's image segmentation against the other four",
    ),
    "mushrooms": Task(one_hot(table("mushroom", "label"))),
    "musk": Task(one_hot(table("musk2", "musk", ["molecule"]), CUT)),
    **{f"mnist {a}/{b}": Task(_digits(a, b)) for a, b in ((0, 9), (1, 4), (2, 7), (3, 8), (5, 6))},
    "ringnorm": _generated(make_ringnorm),
    "spambase": Task(one_hot(LOADERS["spambase"])),
    "splice": Task(one_hot(table("splice_libsvm", "y", ["split"]))),
    "twonorm": _generated(make_twonorm),
    "w4a": Task(_libsvm("w8a", 300, 7366), "7,366 random rows of w8a"),
    "waveform": _generated(make_waveform, binary=True),
    "wine": Task(one_hot(table("winequality_white", "quality", label=lambda quality: quality > 5))),
    "wisc": Task(one_hot(table("breast_cancer_wisconsin", "class", ["id"]))),
}

# Mean test errors in % over 50 splits, as printed.
STUMP_METHODS = ("AdaBoost", "EBBoost", "VadaBoost", "RLP", "RQP")
PUBLISHED_STUMPS: dict[str, tuple[float, ...]] = {
    "a5a": (16.15, 16.05, 16.22, 16.21, 16.04),
    "abalone": (21.64, 21.52, 21.63, 22.29, 21.79),
    "image": (3.37, 3.14, 3.14, 3.18, 3.09),
    "mushrooms": (0.02, 0.02, 0.01, 0.01, 0.00),
    "musk": (3.84, 3.51, 3.59, 3.60, 3.41),
    "mnist 0/9": (0.89, 0.85, 0.84, 0.98, 0.88),
    "mnist 1/4": (0.64, 0.58, 0.60, 0.68, 0.63),
    "mnist 2/7": (2.11, 1.86, 2.01, 2.06, 1.95),
    "mnist 3/8": (4.45, 4.12, 4.32, 4.51, 4.25),
    "mnist 5/6": (2.79, 2.56, 2.62, 2.77, 2.72),
    "ringnorm": (13.16, 11.74, 12.46, 13.02, 12.86),
    "spambase": (5.90, 5.64, 5.78, 5.81, 5.75),
    "splice": (8.83, 8.33, 8.48, 8.55, 8.47),
    "twonorm": (3.16, 2.98, 3.09, 3.29, 3.07),
    "w4a": (2.60, 2.38, 2.50, 2.44, 2.36),
    "waveform": (10.99, 10.96, 10.75, 10.95, 10.60),
    "wine": (23.62, 23.52, 23.41, 24.16, 23.61),
    "wisc": (5.32, 4.38, 5.00, 4.96, 4.72),
}
TREE_METHODS = ("AdaBoost", "VadaBoost", "RLP", "RQP")
PUBLISHED_TREES: dict[str, tuple[float, ...]] = {
    "a5a": (17.59, 17.16, 18.24, 17.99),
    "abalone": (21.87, 21.30, 22.16, 21.84),
    "image": (1.93, 1.98, 1.99, 1.95),
    "mushrooms": (0.01, 0.01, 0.02, 0.01),
    "musk": (2.36, 2.07, 2.40, 2.29),
    "mnist 0/9": (0.73, 0.72, 0.76, 0.71),
    "mnist 1/4": (0.52, 0.50, 0.55, 0.52),
    "mnist 2/7": (1.31, 1.24, 1.32, 1.29),
    "mnist 3/8": (1.89, 1.72, 1.88, 1.87),
    "mnist 5/6": (1.23, 1.17, 1.20, 1.19),
    "ringnorm": (7.94, 7.78, 8.60, 7.84),
    "spambase": (6.14, 5.76, 6.25, 6.03),
    "splice": (4.02, 3.67, 4.03, 3.97),
    "twonorm": (3.40, 3.27, 3.50, 3.38),
    "w4a": (2.90, 2.90, 2.90, 2.90),
    "waveform": (11.09, 10.59, 11.11, 10.82),
    "wine": (21.94, 21.18, 22.44, 22.18),
    "wisc": (4.61, 4.18, 4.63, 4.37),
}


# -- one split -------------------------------------------------------------------------------------------


def halves(data: Data, repeat: int) -> Split:
    """Cut a random permutation at 50 % and 75 %: training, validation and test rows."""
    n = len(data.y)
    order = np.random.RandomState(repeat).permutation(n)
    train, validate, test = (data.rows(rows) for rows in np.split(order, [n // 2, 3 * n // 4]))
    return Split(train, test, validate)


def _error(classifier: Any, rows: Data) -> float:
    return float(np.mean(classifier.predict(rows.X) != rows.y))


def best_validated(outcomes: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Take the choice of the least validation error; of equals the first."""
    return min(outcomes, key=lambda outcome: outcome["validation"])


def boosted(
    split: Split, make: Callable[..., Any], tol: float = TOLERANCE, **params: Any
) -> tuple[dict[str, Any], Any]:
    """Return the errors of a booster with its best rounds on the validation rows, and the booster."""
    classifier = make(n_estimators=MOST_ROUNDS, n_iter_no_change=PATIENCE, tol=tol, random_state=0, **params)
    train, chosen_on = split.train, split.validate
    assert chosen_on is not None  # `halves` gives some
    classifier.fit(train.X, train.y, X_val=chosen_on.X, y_val=chosen_on.y)
    outcome = {
        "validation": _error(classifier, chosen_on),
        "test": _error(classifier, split.test),
        "rounds": int(classifier.n_iter_),
        "kept": len(classifier.estimators_),
    }
    if "variance_weight" in params:
        outcome["lam"] = params["variance_weight"]  # recorded cells call λ so
    if isinstance(params.get("estimator"), HistTreeClassifier):
        outcome["depth"] = params["estimator"].max_depth
    return outcome, classifier


def _soft_margins(
    split: Split, adaboost: Any, prices: Mapping[str, Sequence[float]]
) -> dict[str, dict[str, Any]]:
    """RLP and RQP on AdaBoost's hypotheses."""
    assert split.validate is not None  # `halves` gives some
    wrong = np.array(list(adaboost.ensemble_.answers(split.train.X))) != split.train.y
    samples = {"validation": split.validate, "test": split.test}
    answers = {k: np.array(list(adaboost.ensemble_.answers(of.X))) for k, of in samples.items()}
    found: dict[str, dict[str, Any]] = {}
    for method, loss in (("RLP", "linear"), ("RQP", "quadratic")):
        outcomes = []
        for price in prices[method]:
            solution = soft_margin_weights(wrong, price / wrong.shape[1], loss=loss)
            outcome: dict[str, Any] = {"C": price / wrong.shape[1], "gap": solution.gap}
            outcome["kept"] = int(np.count_nonzero(solution.mixture))
            for part, of in samples.items():
                shares = vote_shares(answers[part], solution.mixture, 2)
                outcome[part] = float(np.mean(shares.argmax(axis=1) != of.y))
            outcomes.append(outcome)
        found[method] = best_validated(outcomes)
    return found


def with_stumps(
    split: Split, n_jobs: int, lambdas: Sequence[float] = LAMBDAS, tol: float = TOLERANCE
) -> dict[str, dict[str, Any]]:
    """Return the results of the methods of Table 1 on one split; stumps use one thread."""
    stumps: dict[str, Any] = {"estimator": StumpClassifier(), "tol": tol}
    ada, adaboost = boosted(split, AdaBoostClassifier, **stumps)
    return {
        "AdaBoost": ada,
        "EBBoost": best_validated(
            [boosted(split, EBBoostClassifier, tol=tol, variance_weight=lam)[0] for lam in lambdas]
        ),
        "VadaBoost": best_validated(
            [boosted(split, VadaBoostClassifier, **stumps, variance_weight=lam)[0] for lam in lambdas]
        ),
        **_soft_margins(split, adaboost, STUMP_PRICES),
    }


def with_trees(
    split: Split, n_jobs: int, lambdas: Sequence[float] = LAMBDAS, tol: float = TOLERANCE
) -> dict[str, dict[str, Any]]:
    """Return the results of the methods of Table 2 on one split.

    AdaBoost selects the depth; VadaBoost the depth at the middle λ, then λ.
    """

    def tree(depth: int) -> HistTreeClassifier:
        return HistTreeClassifier(max_depth=depth, max_bins=TREE_BINS, n_jobs=n_jobs)

    def vadaboost(depth: int, lam: float) -> dict[str, Any]:
        return boosted(split, VadaBoostClassifier, tol, estimator=tree(depth), variance_weight=lam)[0]

    runs = [boosted(split, AdaBoostClassifier, tol, estimator=tree(depth)) for depth in DEPTHS]
    ada, adaboost = min(runs, key=lambda run: run[0]["validation"])
    middle = sorted(lambdas)[len(lambdas) // 2]
    by_depth = [vadaboost(depth, middle) for depth in DEPTHS]
    depth = best_validated(by_depth)["depth"]
    by_lambda = [vadaboost(depth, lam) for lam in lambdas if lam != middle]
    return {
        "AdaBoost": ada,
        "VadaBoost": best_validated([*by_depth, *by_lambda]),
        **_soft_margins(split, adaboost, SLACK_PRICES),
    }


# -- all splits ------------------------------------------------------------------------------------------


def _available(settings: Settings, names: Iterable[str] = tuple(TASKS)) -> dict[str, Data]:
    """Return the data sets of the folder, and print the missing ones."""
    found = {}
    for name in names:
        with suppress(FileNotFoundError):
            found[name] = TASKS[name].load(settings.folder)
    if absent := [name for name in names if name not in found]:
        settings.say(f"no file in {settings.folder} for: {', '.join(absent)}")
    return found


def _summary(
    cells: Mapping[str, list[dict[str, Any]]],
    methods: Sequence[str],
    published: Mapping[str, Sequence[float]],
) -> list[dict[str, Any]]:
    """Per data set and method: published and our mean error in %, and the paired comparison with AdaBoost."""
    rows = []
    for task, repeats in cells.items():
        errors = {m: 100 * np.array([cell["methods"][m]["test"] for cell in repeats]) for m in methods}
        for method, printed in zip(methods, published[task], strict=True):
            gain = errors["AdaBoost"] - errors[method]
            # Equal on every split: no evidence of a difference; the test is undefined.
            same = bool(np.all(gain == gain[0]))
            p = 1.0 if same else float(stats.ttest_rel(errors["AdaBoost"], errors[method]).pvalue)
            rows.append(
                {
                    "data": task,
                    "stands_in": TASKS[task].stands_in,
                    "method": method,
                    "published": printed,
                    "ours": float(errors[method].mean()),
                    "repeats": len(gain),
                    "standard_error": float(stats.sem(errors[method])),
                    "difference": float(errors[method].mean() - printed),
                    "published_gain_over_adaboost": published[task][0] - printed,
                    "gain_over_adaboost": float(gain.mean()),
                    "gain_standard_error": float(stats.sem(gain)),
                    "p_value": p,
                    "mean_rounds": float(np.mean([c["methods"][method].get("rounds", 0) for c in repeats])),
                    "mean_kept": float(np.mean([c["methods"][method]["kept"] for c in repeats])),
                }
            )
    return rows


def _reading(rows: Sequence[Mapping[str, Any]], methods: Sequence[str]) -> str:
    """Return the numbers of sets with significant gains and losses against AdaBoost, at the 1 % level."""
    lines = []
    for method in methods[1:]:
        mine = [row for row in rows if row["method"] == method]
        better = [r["data"] for r in mine if r["p_value"] < LEVEL and r["gain_over_adaboost"] > 0]
        worse = [r["data"] for r in mine if r["p_value"] < LEVEL and r["gain_over_adaboost"] < 0]
        lower = sum(r["gain_over_adaboost"] > 0 for r in mine)
        lines.append(
            f"* {method}: lower mean error than AdaBoost on {lower} of {len(mine)} sets; by a paired t-test "
            f"at {LEVEL:.0%} lower on {len(better)} ({', '.join(better) or 'none'}), higher on "
            f"{len(worse)} ({', '.join(worse) or 'none'})."
        )
    return "\n".join(lines)


def _text(rows: Sequence[Mapping[str, Any]], methods: Sequence[str]) -> str:
    names = list(dict.fromkeys(row["data"] for row in rows))
    header = ["data", "splits", *(f"{m}: published / ours / difference" for m in methods)]
    header.append("VadaBoost's gain ± s.e., p")
    body = []
    for name in names:
        of = {row["method"]: row for row in rows if row["data"] == name}
        vada = of["VadaBoost"]
        body.append(
            [
                name + ("*" if vada["stands_in"] else ""),
                vada["repeats"],
                *("{published:.2f} / {ours:.2f} / {difference:+.2f}".format(**of[m]) for m in methods),
                "{gain_over_adaboost:+.2f} ± {gain_standard_error:.2f}, {p_value:.2g}".format(**vada),
            ]
        )
    stand_ins = [f"{n}: {TASKS[n].stands_in}" for n in names if TASKS[n].stands_in]
    return "\n\n".join(
        [
            "Mean test error in % over random splits (50/25/25).",
            markdown(header, body),
            f"\\* stand-ins: {'; '.join(stand_ins)}. The generators drew {GENERATED:,} rows (not printed).",
            _reading(rows, methods),
        ]
    )


def _picture(rows: Sequence[Mapping[str, Any]], title: str, plt: Any) -> Any:
    """Draw VadaBoost's gain over AdaBoost on each data set, published and ours."""
    vada = [row for row in rows if row["method"] == "VadaBoost"]
    at = np.arange(len(vada))
    figure, ax = plt.subplots(figsize=(7, 0.8 + 0.32 * len(vada)), layout="constrained")
    ax.axvline(0, color="0.5", linewidth=1)
    ours = np.array([row["gain_over_adaboost"] for row in vada])
    half = [row["gain_standard_error"] * stats.t.ppf(0.975, row["repeats"] - 1) for row in vada]
    ax.errorbar(ours, at, xerr=half, fmt="o", color="C0", capsize=3, label="ours, 95 % interval over splits")
    ax.plot(
        [row["published_gain_over_adaboost"] for row in vada], at, "D", color="C1", label="published",
        markersize=5, fillstyle="none",
    )  # fmt: skip
    ax.set_yticks(at, [row["data"] + ("*" if row["stands_in"] else "") for row in vada])
    ax.invert_yaxis()
    ax.set(xlabel="AdaBoost's test error − VadaBoost's, percentage points (* stand-in data)")
    ax.set_title(title, fontsize="medium", wrap=True)
    figure.legend(loc="outside lower center", ncols=2, frameon=False)
    return figure


@dataclass(frozen=True)
class Tables:
    """One of the paper's tables: its methods and numbers, and how to run a split with a number of threads."""

    title: str
    methods: tuple[str, ...]
    published: Mapping[str, Sequence[float]]
    play: Callable[[Split, int], dict[str, dict[str, Any]]]
    protocol: Mapping[str, Any]
    lambdas: Sequence[float] = LAMBDAS


STUMPS = Tables(
    "Variance-penalised boosting with decision stumps", STUMP_METHODS, PUBLISHED_STUMPS, with_stumps,
    {"C_times_rows": STUMP_PRICES},
)  # fmt: skip
TREES = Tables(
    "Variance-penalised boosting with trees", TREE_METHODS, PUBLISHED_TREES, with_trees,
    {"C_times_rows": SLACK_PRICES, "depths": DEPTHS, "tree_bins": TREE_BINS},
)  # fmt: skip


# The stop rule of section 6 to the letter, "until there was no drop", and a finer grid of λ.
TO_THE_LETTER: dict[str, Any] = {"lambdas": GRID, "tol": 0.0}
FINE_STUMPS = replace(
    STUMPS,
    title=f"{STUMPS.title}: any drop counts, λ of {len(GRID)}",
    play=partial(with_stumps, **TO_THE_LETTER),
    protocol={**STUMPS.protocol, "tol": 0.0},
    lambdas=GRID,
)
FINE_TREES = replace(
    TREES,
    title=f"{TREES.title}: any drop counts, λ of {len(GRID)}",
    play=partial(with_trees, **TO_THE_LETTER),
    protocol={**TREES.protocol, "tol": 0.0},
    lambdas=GRID,
)


def play(settings: Settings, name: str, of: Tables) -> Report:
    """Compute missing cells and read all cells."""
    for wanted in settings.only:
        if wanted not in TASKS:
            raise ValueError(f"--only: no data set {wanted!r}; {did_you_mean(wanted, TASKS)}")
    data = _available(settings, settings.only or tuple(TASKS))

    def cell(rows: Data, repeat: int) -> dict[str, Any]:
        return {"methods": of.play(halves(rows, repeat), settings.n_jobs)}

    found = {task: cells for task, cells in of_each(data, settings, name, cell).items() if cells}
    rows_of_table = _summary(found, of.methods, of.published)
    reading = _reading(rows_of_table, of.methods)
    summary = {
        "source": "Shivaswamy and Jebara, Variance Penalizing AdaBoost, NIPS 2011",
        "repeats": settings.repeats,
        "protocol": {"split": [0.5, 0.25, 0.25], "patience": PATIENCE, "most_rounds": MOST_ROUNDS}
        | {"lambdas": of.lambdas, **of.protocol},
        "absent": [task for task in TASKS if task not in found],
        "rows": rows_of_table,
        "reading": reading,
    }
    picture = partial(_picture, rows_of_table, of.title)
    return Report(_text(rows_of_table, of.methods), summary, picture if settings.repeats > 1 else None)


# -- rounds of λ = 0 -------------------------------------------------------------------------------------

HORIZONS = (10, 25, 50, 100)


def _rounds(data: Data, repeat: int) -> dict[str, Any]:
    """Count VadaBoost's rounds at λ = 0 to AdaBoost's exponential loss after some rounds, with stumps.

    A round with errors B = 1 − A lowers the logarithm of the squared loss by −log 4AB, at λ = 0 by
    −log √(AB)(1 + 2√(AB)): the ratio of the sums over AdaBoost's rounds is the paper's formula.
    """
    train = halves(data, repeat).train
    most = max(HORIZONS)
    ada = AdaBoostClassifier(StumpClassifier(), n_estimators=most).fit(train.X, train.y)
    half = VadaBoostClassifier(StumpClassifier(), variance_weight=0.0, n_estimators=5 * most).fit(
        train.X, train.y
    )
    root = np.sqrt(ada.trace_.weighted_loss * (1 - ada.trace_.weighted_loss))
    found: dict[str, Any] = {}
    for t in (t for t in HORIZONS if t <= ada.n_iter_):
        there = np.flatnonzero(half.log_costs_ <= 2 * ada.log_costs_[t - 1])
        found[str(t)] = {
            "measured": (int(there[0]) + 1) / t if len(there) else float("nan"),
            "formula": float(np.log(4 * root[:t] ** 2).sum() / np.log(root[:t] * (1 + 2 * root[:t])).sum()),
        }
    return found


def play_rounds(settings: Settings, name: str) -> Report:
    """Compute missing cells of the one split and read all cells."""
    cells = Cells(settings, name)
    ratios = {
        task: cells.get({"data": task, "repeat": 0}, partial(_rounds, data, 0))
        for task, data in _available(settings).items()
    }
    body = [
        [
            task,
            *(
                "{measured:.2f} / {formula:.2f}".format(**found[str(t)]) if str(t) in found else "–"
                for t in HORIZONS
            ),
        ]
        for task, found in ratios.items()
    ]
    last = [found[str(HORIZONS[-1])]["measured"] for found in ratios.values() if str(HORIZONS[-1]) in found]
    text = "\n\n".join(
        [
            "Rounds at λ = 0 per round of AdaBoost, for the same exponential loss: measured / by the formula "
            "for the errors AdaBoost met (it lies between 4/3 and 2).",
            markdown(["data", *(f"after {t}" for t in HORIZONS)], body),
            f"After {HORIZONS[-1]} rounds the measured ratio is {min(last):.2f} to {max(last):.2f}. The "
            "formula is for hypotheses of equal errors; at λ = 0, where a half step leaves its hypothesis a "
            "part of the edge, errors are nearer to one half.",
        ]
    )
    return Report(text, {"ratios": ratios}, partial(_picture_of_rounds, ratios))


def _picture_of_rounds(ratios: Mapping[str, Mapping[str, Mapping[str, float]]], plt: Any) -> Any:
    """Draw the measured ratios of all data sets over the range of the formula."""
    figure, ax = plt.subplots(figsize=(6.4, 4.2), layout="constrained")
    ax.axhspan(4 / 3, 2, color="0.85", label="the paper's formula: 4/3 to 2")
    for k, found in enumerate(ratios.values()):
        label = "measured, a line per data set" if k == 0 else None
        ax.plot([int(t) for t in found], [r["measured"] for r in found.values()], ".-", color="C0",
                linewidth=1, alpha=0.7, label=label)  # fmt: skip
    ax.set(xlabel="rounds of AdaBoost", ylabel="rounds at λ = 0 per round", ylim=(1, None))
    ax.legend(loc="lower right")
    return figure


# -- Figure 2: cost against rounds ----------------------------------------------------------------------

CURVES = ("wisc", "abalone", "splice", "twonorm", "waveform", "musk")
MARKS = (1, 2, 5, 10, 20, 50, 100, 200)
HALF = 0.5  # the λ of the figure's second part
PUBLISHED_CURVES = (
    "λ = 0 needs about twice AdaBoost's rounds for the same exponential loss; at λ = 0.5 VadaBoost's cost "
    "follows EBBoost's"
)


def _curves(data: Data, repeat: int) -> dict[str, list[float]]:
    """Return the logarithm of the costs after `MARKS` rounds on the training rows, with stumps.

    Two are the mean exponential loss, of AdaBoost and at λ = 0; two are cost (3) at λ = 0.5.
    """
    train, most = halves(data, repeat).train, max(MARKS)
    stumps: dict[str, Any] = {"estimator": StumpClassifier(), "n_estimators": most}
    fits = {
        "AdaBoost": (AdaBoostClassifier(**stumps), 1.0),
        "VadaBoost, λ = 0": (VadaBoostClassifier(**stumps, variance_weight=0.0), 0.5),
        "EBBoost, λ = 0.5": (EBBoostClassifier(variance_weight=HALF, n_estimators=most), 1.0),
        "VadaBoost, λ = 0.5": (VadaBoostClassifier(**stumps, variance_weight=HALF), 1.0),
    }
    found = {}
    for name, (classifier, power) in fits.items():  # at λ = 0 the cost is the square of the loss
        costs = power * classifier.fit(train.X, train.y).log_costs_
        found[name] = [float(costs[min(t, len(costs)) - 1]) for t in MARKS]
    return found


def play_curves(settings: Settings, name: str) -> Report:
    """Compute missing cells of the one split and read all cells."""
    cells = Cells(settings, name)
    curves = {
        task: cells.get({"data": task, "repeat": 0}, partial(_curves, data, 0))
        for task, data in _available(settings, CURVES).items()
    }
    body = [
        [task, method, *(f"{np.exp(cost):.3g}" for cost in costs)]
        for task, of in curves.items()
        for method, costs in of.items()
    ]
    last = {m: np.array([of[m][-1] for of in curves.values()]) for m in next(iter(curves.values()))}
    apart = np.exp(last["VadaBoost, λ = 0.5"] - last["EBBoost, λ = 0.5"])
    later = np.exp(last["VadaBoost, λ = 0"] - last["AdaBoost"])
    text = "\n\n".join(
        [
            f"Costs on the training rows, stumps, one split. Published: {PUBLISHED_CURVES}.",
            markdown(["data", "method", *(f"after {t}" for t in MARKS)], body),
            f"After {MARKS[-1]} rounds VadaBoost's cost at λ = 0.5 is {apart.min():.3f} to {apart.max():.3f} "
            f"times EBBoost's, and the exponential loss at λ = 0 {later.min():.3f} to {later.max():.3f} "
            "times AdaBoost's.",
        ]
    )
    summary = {"published": PUBLISHED_CURVES, "rounds": MARKS, "log costs": curves}
    return Report(text, summary, partial(_picture_of_curves, curves))


def _picture_of_curves(curves: Mapping[str, Mapping[str, Sequence[float]]], plt: Any) -> Any:
    """Draw the curves of all data sets: the exponential losses, and cost (3) at λ = 0.5."""
    pairs = (("AdaBoost", "VadaBoost, λ = 0"), ("EBBoost, λ = 0.5", "VadaBoost, λ = 0.5"))
    figure, panels = plt.subplots(1, 2, figsize=(6, 2.6), layout="constrained")
    for ax, pair, cost in zip(panels, pairs, ("exponential loss", "cost (3)"), strict=True):
        for k, (task, of) in enumerate(curves.items()):
            ax.plot(MARKS, of[pair[0]], color=f"C{k}", linewidth=1, label=task)
            ax.plot(MARKS, of[pair[1]], "--", color=f"C{k}", linewidth=1)
        ax.set(xscale="log", xlabel="rounds", ylabel=f"log of the {cost}")
        ax.set_title(f"{pair[0]}; broken: {pair[1]}", fontsize="small")
    panels[0].legend(fontsize="x-small", frameon=False)
    return figure


# -- λ from a finer grid ---------------------------------------------------------------------------------

GRID_SETS = ("wisc", "image", "abalone")
# With about so many rows the printed errors on ringnorm come out; they are drawn anew for each split.
FEW = 400
RINGNORM = f"ringnorm, {FEW} rows"
COARSE, FINE = f"λ of {len(LAMBDAS)}", f"λ of {len(GRID)}"


def _by_lambda(drawn: Callable[[int], Data], repeat: int) -> dict[str, Any]:
    """Return validation and test errors of AdaBoost, and of VadaBoost for every λ, with stumps."""
    split = halves(drawn(repeat), repeat)
    stumps: dict[str, Any] = {"estimator": StumpClassifier()}
    ada = boosted(split, AdaBoostClassifier, **stumps)[0]
    vada = [boosted(split, VadaBoostClassifier, **stumps, variance_weight=lam)[0] for lam in GRID]
    kept = ("validation", "test", "rounds")
    return {"AdaBoost": {k: ada[k] for k in kept}, "VadaBoost": [{k: v[k] for k in kept} for v in vada]}


def by_grid(cells: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Return the mean test errors in % of AdaBoost, of every λ, and of λ chosen among few and among many.

    Chosen is the λ of the least validation error, of equals the first; "finer less coarse" is paired.
    """
    runs = [dict(zip(GRID, cell["VadaBoost"], strict=True)) for cell in cells]
    found: dict[str, Any] = {"AdaBoost": [100 * cell["AdaBoost"]["test"] for cell in cells]}
    for name, grid in ((COARSE, LAMBDAS), (FINE, GRID)):
        found[name] = [100 * best_validated([run[lam] for lam in grid])["test"] for run in runs]
    found["finer less coarse"] = np.subtract(found[FINE], found[COARSE]).tolist()
    mean = {lam: float(np.mean([100 * run[lam]["test"] for run in runs])) for lam in GRID}
    return {name: interval(values) for name, values in found.items()} | {"by λ": mean}


def play_grid(settings: Settings, name: str) -> Report:
    """Compute missing cells and read all cells."""
    there = _available(settings, GRID_SETS)
    sets: dict[str, Callable[[int], Data]] = {title: partial(_same, data) for title, data in there.items()}
    cells = of_each(sets | {RINGNORM: _ringnorm}, settings, name, _by_lambda)
    found = {title: by_grid(of) for title, of in cells.items()}
    header = ["data", "AdaBoost: printed / ours", "VadaBoost: printed"]
    header += [f"VadaBoost, {COARSE}", FINE, "finer less coarse", "least of one λ for all splits"]
    body = []
    for title, of in found.items():
        said = dict(zip(STUMP_METHODS, PUBLISHED_STUMPS[title.split(",")[0]], strict=True))
        best = min(of["by λ"], key=of["by λ"].__getitem__)
        errors = [f"{of[method]['mean']:.2f}" for method in ("AdaBoost", COARSE, FINE)]
        row = [title, f"{said['AdaBoost']:.2f} / {errors[0]}", f"{said['VadaBoost']:.2f}", *errors[1:]]
        gap = of["finer less coarse"]
        half = "" if gap["high"] is None else f" ± {gap['high'] - gap['mean']:.2f}"
        body.append([*row, f"{gap['mean']:+.2f}{half}", f"{of['by λ'][best]:.2f} (λ = {best:g})"])
    every = [[title, *(f"{of['by λ'][lam]:.2f}" for lam in GRID)] for title, of in found.items()]
    text = "\n\n".join(
        [
            f"Mean test error in % over {settings.repeats} random splits (50/25/25), stumps; λ by the least "
            f"validation error of {', '.join(map(str, LAMBDAS))} and of 0, 0.1, …, 1; ± is a 95 % interval.",
            markdown(header, body),
            "By λ, the same for all splits:\n\n" + markdown(["data", *map(str, GRID)], every),
        ]
    )
    summary = {"repeats": settings.repeats, "lambdas": LAMBDAS, "grid": GRID, "test error, %": found}
    return Report(text, summary, None)


def _same(data: Data, repeat: int) -> Data:
    return data


def _ringnorm(repeat: int) -> Data:
    X, y = make_ringnorm(FEW, random_state=repeat)
    return Data(X, y.astype(np.intp))


EXPERIMENTS = (
    Experiment("variance-curves", "Cost against rounds (Shivaswamy and Jebara, Figure 2)", play_curves),
    Experiment("variance-stumps", STUMPS.title, partial(play, of=STUMPS), repeats=50, has_rows=True),
    Experiment("variance-cart", TREES.title, partial(play, of=TREES), repeats=50, has_rows=True),
    Experiment(
        "variance-stumps-fine", FINE_STUMPS.title, partial(play, of=FINE_STUMPS), repeats=50, has_rows=True
    ),
    Experiment(
        "variance-cart-fine", FINE_TREES.title, partial(play, of=FINE_TREES), repeats=50, has_rows=True
    ),
    Experiment(
        "variance-lambda", "VadaBoost's λ from three values and from a finer grid", play_grid, repeats=20
    ),
    Experiment("variance-rounds", "Rounds that VadaBoost at λ = 0 needs against AdaBoost's", play_rounds),
)
