"""All five classifiers beside plain ERM, a random forest, XGBoost and the coin flip on four real tables.

Random splits 70/30, at most 10,500 training and 15,000 test rows. AdaLPBoost is trained once and re-weighted
to each α; LPBoost and its regularised form are trained for α = .3 and re-weighted to the others. Errors are
those for α = .3: "error" is that of ``predict``, "expected" that of the randomised rule behind
``predict_proba``. The CVaR is that of the expected zero-one loss of the randomised rules, and min(1, error/α)
for the others.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from functools import partial
from typing import Any

import numpy as np
from common import LOADERS, Data, Record, Split, interval, markdown, mean_and_half_width, parser, split, write
from sklearn.utils.class_weight import compute_sample_weight

from tailboost import metrics
from tailboost.registry import METHODS

ALPHAS = (0.05, 0.1, 0.3)
TRAINED_AT = 0.3
GROUP_ROUNDS = 10
SETS = ("credit default", "adult", "bank", "w8a")
MAX_TRAIN, MAX_TEST, TEST_SIZE = 10_500, 15_000, 0.3
BASELINES = ("erm", "forest", "xgboost")
COMPARED = ("adalpboost", "lpboost", "regularizedlpboost", "averageboost", "groupdroboost", *BASELINES, "coinflip")
BALANCED = "classes balanced"  # a baseline fitted with every class weighing the same


def variants(data: Data) -> list[tuple[str, str | None]]:
    """Return the methods; those that train on groups once with the classes and once with each column."""
    chosen: list[tuple[str, str | None]] = []
    for name in COMPARED:
        columns = [None, *data.groups] if METHODS[name].uses_groups else [None]
        chosen += [(name, column) for column in columns]
    chosen += [(name, BALANCED) for name in BASELINES]
    return chosen


def measure(s: Split, name: str, column: str | None, seed: int, jobs: int) -> dict[str, Any]:
    """Fit one method and measure it on the test rows."""
    method = METHODS[name]
    # The recorded cells were run with ten rounds over groups; the default became 30 because of them.
    rounds = {"n_estimators": GROUP_ROUNDS} if method.uses_groups else {}
    clf = method.make(alpha=TRAINED_AT, random_state=seed, n_jobs=jobs, **rounds)
    extra: dict[str, Any] = {}
    if column == BALANCED:
        extra["sample_weight"] = compute_sample_weight("balanced", s.y_train)
    elif column is not None:
        extra["groups"] = s.groups_train[column]
    began = time.perf_counter()
    clf.fit(s.X_train, s.y_train, **extra)
    seconds = time.perf_counter() - began
    cell = {"fit_seconds": round(seconds, 3), **errors(clf, s, method.randomized)}
    at_alpha = [clf.reweight(alpha=a) if method.uses_alpha else clf for a in ALPHAS]
    cell["cvar"] = [
        round(metrics.cvar_zero_one_loss(s.y_test, answers(model, s, method.randomized), a), 5)
        for model, a in zip(at_alpha, ALPHAS, strict=True)
    ]
    if hasattr(clf, "n_iter_"):
        cell |= {"rounds": clf.n_iter_, "verdict": clf.guarantee_.verdict}
    if name == "adalpboost":  # no training: the same members, λ for the worst class
        cell["for the worst class"] = errors(clf.reweight(objective="worst_class"), s, True)
    return cell


def answers(clf: Any, s: Split, randomized: bool) -> np.ndarray:
    """Return the share of the answers that goes to each class: all to one if nothing is randomised."""
    if randomized:
        return clf.predict_proba(s.X_test)
    return (clf.predict(s.X_test)[:, None] == clf.classes_).astype(float)


def errors(clf: Any, s: Split, randomized: bool) -> dict[str, Any]:
    """Mean error and those of the worst class and groups, of ``predict`` and of the randomised rule."""
    y = s.y_test
    labels = clf.predict(s.X_test)
    shares = answers(clf, s, randomized)

    def both(of_labels: float, of_shares: float) -> dict[str, float]:
        return {"predict": round(of_labels, 5), "expected": round(of_shares, 5)}

    return {
        "error": both(float(np.mean(labels != y)), metrics.cvar_zero_one_loss(y, shares, 1.0)),
        "worst class": both(
            metrics.worst_class_error(y, labels), max(metrics.expected_class_errors(y, shares).values())
        ),
        "worst group": {
            column: both(
                metrics.worst_group_error(y, labels, groups),
                max(metrics.expected_group_errors(y, shares, groups).values()),
            )
            for column, groups in s.groups_test.items()
        },
    }


def main() -> None:
    """Run what is missing, print the tables, write the results."""
    p = parser(__doc__.split("\n")[0], "tables", 5)
    p.add_argument("--sets", nargs="+", default=list(SETS), choices=SETS)
    args = p.parse_args()
    record = Record(args.out.with_suffix(".jsonl"), args.recorded)
    cells: dict[str, dict[tuple[str, str | None], list[dict[str, Any]]]] = {}
    for name in args.sets:
        data = LOADERS[name](args.data)
        cells[name] = {v: [] for v in variants(data)}
        for seed in range(args.repeats):
            s = split(data, seed, TEST_SIZE, MAX_TRAIN, MAX_TEST)
            for method, column in cells[name]:
                key = {"set": name, "seed": seed, "method": method, "groups": column}
                cells[name][method, column] += record.run(
                    key, partial(measure, s, method, column, seed, args.jobs)
                )
    report(cells, args)


def title(method: str, column: str | None) -> str:
    if not METHODS[method].uses_groups:
        return METHODS[method].title + (f", {BALANCED}" if column == BALANCED else "")
    return f"{METHODS[method].title} over {column or 'classes'}"


def figures(cell: dict[str, Any]) -> dict[str, dict[str, float]]:
    """What is shown of a cell: each figure of the labels ("predict"), the randomised rule, or both."""
    shown = {f"CVaR {a}": {"expected": value} for a, value in zip(ALPHAS, cell["cvar"], strict=True)}
    shown |= {"error": cell["error"], "worst class": cell["worst class"]}
    return shown | {f"worst {column}": both for column, both in cell["worst group"].items()}


def report(cells: dict[str, Any], args: Any) -> None:
    """Print the tables and write the results."""
    document: dict[str, Any] = {
        "protocol": {"alphas": ALPHAS, "trained_at": TRAINED_AT, "seeds": list(range(args.repeats))}
        | {"max_train": MAX_TRAIN, "max_test": MAX_TEST, "test_size": TEST_SIZE}
    }
    for name, by_method in cells.items():
        runs = {title(*key): of for key, of in by_method.items()}
        # Its λ was not chosen for a CVaR, so none is shown.
        again = [c | c["for the worst class"] for c in runs[METHODS["adalpboost"].title]]
        runs["AdaLPBoost, λ for the worst class"] = [c | {"cvar": [np.nan] * len(ALPHAS)} for c in again]
        randomized = {title(*key) for key in by_method if METHODS[key[0]].randomized} | {list(runs)[-1]}
        header = list(figures(again[0]))
        table = [
            [
                method,
                *(_text([figures(c)[f] for c in of], method in randomized) for f in header),
                interval([c["fit_seconds"] for c in of], 1),
            ]
            for method, of in runs.items()
        ]
        header = ["method", *header, "fit s"]
        lost = list(losses_of(runs))
        print(f"\n### {name}: {len(again)} splits, mean ± 95 %\n\n{markdown(header, table)}\n")
        print("Where ours loses (paired over the splits, beyond the 95 % interval):\n")
        print("\n".join(f"* {line}" for line in lost or ["nowhere"]))
        document[name] = {"header": header, "rows": table, "ours loses": lost}
    write(args.out, document)


def _text(values: list[dict[str, float]], randomized: bool) -> str:
    """Return "predict" with its interval and, after a slash, the mean of the randomised rule."""
    expected = [v["expected"] for v in values]
    if "predict" not in values[0]:
        return "" if np.isnan(expected[0]) else interval(expected)
    return interval([v["predict"] for v in values]) + (f" / {np.mean(expected):.3f}" if randomized else "")


def losses_of(runs: dict[str, list[dict[str, Any]]]) -> Iterator[str]:
    """Each figure in which a baseline beats the best of ours by more than the interval of the difference."""
    baselines = [title(b, how) for b in BASELINES for how in (None, BALANCED)] + [METHODS["coinflip"].title]
    for figure, kinds in figures(next(iter(runs.values()))[0]).items():
        for kind in kinds:
            # The labels of a coin flip are a draw; its expected errors are the yardstick.
            peers = [b for b in baselines if kind == "expected" or b != METHODS["coinflip"].title]
            value = {t: np.array([figures(c)[figure][kind] for c in of]) for t, of in runs.items()}
            ours = {t: v for t, v in value.items() if t not in baselines and not np.isnan(v).any()}
            best = min(ours, key=lambda t: ours[t].mean())
            for peer in peers:
                mean, half = mean_and_half_width(ours[best] - value[peer])
                if mean > half and mean > 5e-4:
                    yield f"{figure} ({kind}): {peer} is {mean:.3f} ± {half:.3f} below the best, {best}"


if __name__ == "__main__":
    main()
