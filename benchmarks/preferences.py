"""Two editions of the default mixture beside the same opponents' points: regret over preferences, dominance.

    python benchmarks/preferences.py rows --data DIR --rows ROWS              the splits, written once
    python benchmarks/preferences.py ours --rows ROWS --theirs FILE --out FILE
    python benchmarks/preferences.py pair BEFORE AFTER --theirs FILE --rows ROWS [--out RECORD]

Cells of `tradeoff.jsonl` and `field-classes.jsonl` serve as BEFORE and AFTER too.

``ours`` asks nothing but the package's public names: run it with PYTHONPATH at another edition's ``src`` to
have that edition's points on the same rows. Splits are those of `experiments.tradeoff`: stratified, 70/30, at
most 4,000 training and 10,000 test rows, classes of fewer than eight rows left out. ``--theirs`` are finished
cells of the experiments `tradeoff` (``tradeoff-opponents.jsonl``) and `field-classes`
(``field-classes.jsonl``), whose opponents stand beside both editions. Nothing about test rows enters a
choice. On the tables of `field-classes` there are at most 2,000 training rows.
"""

from __future__ import annotations

import argparse
import inspect
import json
import sys
import time
import warnings
from pathlib import Path
from typing import Any

import numpy as np

import tailboost as tb

sys.path.insert(0, str(Path(__file__).parents[1]))  # the experiments: not asked for by `ours`

BUDGETS = (0.0, 0.005, 0.02, 1.0)
WITHIN = 0.005
CLASSES, CELLS = "classes", "cells"


# -- rows ------------------------------------------------------------------------------------------------


def write_rows(folder: Path, rows: Path, seeds: list[int], only: list[str]) -> None:
    """Write the splits: the seventeen tables of `tradeoff`, and the field's of which nothing was chosen."""
    from experiments import tradeoff
    from experiments._tables import LOADERS
    from experiments.field._classes import MOST, SETS, rows_of

    rows.mkdir(parents=True, exist_ok=True)
    for title in only or [*tradeoff.SETS, *SETS]:
        if title in tradeoff.SETS:
            data, most = tradeoff.with_joint_groups(title, LOADERS[title](folder)), tradeoff.MAX_TRAIN
        else:
            data, most = rows_of(title, folder), MOST
        for seed in seeds:
            file = rows / f"{title.replace(' ', '_')}.{seed}.npz"
            if file.exists():
                continue
            bench = tradeoff.bench_of(data, seed, 1, most)
            parts = {"X": bench.rows.train.X, "y": bench.rows.train.y}
            parts |= {"test_X": bench.rows.test.X, "test_y": bench.rows.test.y}
            if bench.groups is not None:
                parts |= {"groups": bench.groups.astype(str), "test_groups": bench.test_groups.astype(str)}
            parts = {name: np.asarray(values) for name, values in parts.items()}
            np.savez_compressed(file, **parts, about=np.array([title, str(seed)]))
            print(title, seed, parts["X"].shape, len(parts["test_y"]), np.bincount(parts["y"]), flush=True)


def splits(rows: Path, only: list[str], seeds: list[int]) -> Any:
    """Yield the title, the seed and the arrays of each split, those with the first seed first."""
    files = sorted(rows.glob("*.npz"), key=lambda file: (int(file.stem.rsplit(".", 1)[1]), file.stem))
    for file in files:
        with np.load(file) as kept:
            title, seed = kept["about"].tolist()
            if (not only or title in only) and int(seed) in seeds:
                yield title, int(seed), dict(kept)


# -- cells -----------------------------------------------------------------------------------------------


def read(file: Path) -> dict[str, Any]:
    """Return the cells of a file of JSON lines by key."""
    lines = file.read_text().splitlines() if file.exists() else []
    return {key_of(**cell["key"]): cell["values"] for cell in map(json.loads, lines)}


def ours_of(file: Path) -> dict[str, Any]:
    """Return our cells by key, those of `tradeoff` in the form of those written here."""

    def predicted(points: dict[str, Any]) -> dict[str, Any]:
        return {name: of["predict"] if isinstance(of, dict) else of for name, of in points.items()}

    found = {}
    for key, of in read(file).items():
        of_rows = {name: value for name, value in json.loads(key).items() if name != "method"}
        of = of.get("ours", of)
        found[key_of(**({"units": CLASSES} | of_rows))] = of | {
            "points": predicted(of["points"]),
            "asked": {
                "1" if name == "no budget" else name.removeprefix("mean_budget="): p
                for name, p in predicted(of["asked"]).items()
            },
        }
    return found


def points_of(files: list[Path]) -> dict[str, Any]:
    """Return the opponents' points by key and kind of units."""
    cells = {key: of for file in files for key, of in read(file).items()}
    return {key: of.get("points", of) for key, of in cells.items()}


def key_of(**key: Any) -> str:
    """Return a key as text."""
    return json.dumps(key, sort_keys=True)


def keep(file: Path, key: dict[str, Any], values: dict[str, Any]) -> None:
    """Append a cell."""
    with file.open("a") as out:
        out.write(json.dumps({"key": key, "values": values}) + "\n")


def units_of(y: Any, groups: Any) -> Any:
    """Return the number of each row's class, or of its cell."""
    if groups is None:
        return np.unique(y, return_inverse=True)[1]
    column = np.unique(groups, return_inverse=True)[1]
    return np.unique(y * (column.max() + 1) + column, return_inverse=True)[1]


def point(wrong: Any, units: Any) -> list[float]:
    """Return mean and worst error."""
    each = np.bincount(units, weights=wrong) / np.bincount(units)
    return [round(float(wrong.mean()), 5), round(float(each.max()), 5)]


# -- ours ------------------------------------------------------------------------------------------------


def without(part: str) -> None:
    """Take one part of the score out of this tree."""
    if part == "learned average":
        from tailboost.mixture import _average

        def even(cls: Any, source: Any, logs: Any, rows: Any) -> Any:
            return cls(source, np.full(len(source), 1.0 / len(source)), np.zeros(logs[0].shape[1]))

        _average.Average.learned = classmethod(even)
    elif part == "features":
        from tailboost.mixture import _rated

        _rated.MOST_FEATURES = -1  # groups are inferred from the probabilities


def models_before() -> list[tuple[str, Any]]:
    """Return the default models of e4b6be0."""
    from sklearn.ensemble import ExtraTreesClassifier, RandomForestClassifier

    boosted = {"n_estimators": 100, "max_depth": 4, "learning_rate": 0.1, "vector_leaves": False}
    return [
        ("boosted", tb.learners.HistBoostClassifier(**boosted)),
        ("forest", RandomForestClassifier(min_samples_leaf=2)),
        ("extra", ExtraTreesClassifier(min_samples_leaf=2)),
    ]


def of_ours(
    arrays: dict[str, Any], seed: int, theirs: dict[str, Any], kind: str, told: bool, models: Any
) -> Any:
    """Fit ours once; return its curve, what is asked of it, and the point beside each opponent."""
    y, test_y = arrays["y"], arrays["test_y"]
    groups = arrays.get("test_groups") if kind == CELLS else None
    of_rows = {} if groups is None else {"groups": arrays["groups"]}
    params: dict[str, Any] = {"objective": "worst_cell" if kind == CELLS else "worst_class"}
    if told:
        known = inspect.signature(tb.RobustMixtureClassifier).parameters
        params["by_group" if "by_group" in known else "groups_at_prediction"] = True
    clf = tb.RobustMixtureClassifier(models, random_state=seed, n_jobs=1, **params)
    units = units_of(test_y, groups)
    asking = {"groups": groups} if told else {}
    began = time.process_time()
    clf.fit(arrays["X"], y, **of_rows)
    fitted = time.process_time()
    curve = clf.tradeoff()
    at: dict[float, list[float]] = {}

    def asked(budget: float) -> list[float]:
        budget = round(budget, 4)
        if budget not in at:
            at[budget] = point(curve.at(budget).predict(arrays["test_X"], **asking) != test_y, units)
        return at[budget]

    beside = {
        title: asked(float(np.clip(their["out of fold"][0], curve.mean[0], curve.mean[-1]) - curve.mean[0]))
        for title, their in theirs.items()
    }
    test_groups = {} if groups is None else {"groups": groups}
    on_test = curve.predicted(arrays["test_X"], test_y, **test_groups)
    return {
        "points": beside,
        "asked": {f"{budget:g}": asked(budget) for budget in BUDGETS},
        "curve": {
            "out of fold": np.round(np.c_[curve.mean, curve.worst], 5).tolist(),
            "test": np.round(np.c_[on_test.mean, on_test.worst], 5).tolist(),
        },
        "fit_seconds": round(fitted - began, 3),
        "seconds": round(time.process_time() - began, 3),
    }


# -- pairs -----------------------------------------------------------------------------------------------


def cases_of(
    ours: dict[str, Any], theirs: dict[str, Any], about: dict[str, Any], side: Any
) -> dict[str, Any]:
    """Return the cases that `regret` takes."""
    from experiments._regret import Case, Points
    from experiments.tradeoff import case_of, is_single

    by_case: dict[tuple[str, str], list[Any]] = {}
    for key, values in ours.items():
        of = json.loads(key)
        points = theirs[key_of(set=of["set"], seed=of["seed"])][of["units"]]
        by_case.setdefault((of["set"], of["units"]), []).append((values, points, about[of["set"]]))
    cases = {}
    for (title, kind), found in by_case.items():
        single = [name for name in found[0][1] if is_single(name)]
        best = min(np.mean([points[name]["test"] for _, points, _ in found]) for name in single)
        n_train, n_test, n_classes = found[0][2]
        pairs = []
        for values, points, _ in found:
            chosen = [p for name, p in points.items() if side(name)]
            mine = Points.of(values["curve"]["out of fold"], values["curve"]["test"])
            pairs.append((mine, Points.of([p["out of fold"] for p in chosen], [p["test"] for p in chosen])))
        scale = float(1 - 1 / n_classes - best)
        cases[case_of(title, kind)] = Case(title, pairs, scale, n_test / n_train)
    return cases


def paired(before: Any, after: Any, theirs: Any, about: Any, side: Any) -> dict[str, Any]:
    """Return both regrets and the regret of one against the other: what differs, split by split."""
    from experiments._regret import Case, regret

    one, two = (cases_of(ours, theirs, about, side) for ours in (before, after))
    both = {
        name: Case(case.table, [(b[0], a[0]) for a, b in zip(one[name].splits, case.splits, strict=True)],
                   case.scale, case.test_to_train)
        for name, case in two.items()
    }  # fmt: skip
    return {
        name: regret(cases).to_dict()
        for name, cases in (("before", one), ("after", two), ("after less before", both))
    }


def dominated(ours: dict[str, Any], theirs: dict[str, Any], side: Any) -> dict[str, Any]:
    """Return the share of pairs of a case and an opponent that ours dominates, and mean differences."""
    found: dict[tuple[str, str, str], list[Any]] = {}
    for key, values in ours.items():
        of = json.loads(key)
        points = theirs[key_of(set=of["set"], seed=of["seed"])][of["units"]]
        for name in values["points"]:
            if side(name):
                less = np.subtract(values["points"][name], points[name]["test"])
                found.setdefault((of["set"], of["units"], name), []).append(less)
    means = np.array([np.mean(of, axis=0) for of in found.values()])
    return {
        "pairs": len(means),
        "within .005": float((means <= WITHIN + 1e-12).all(axis=1).mean()),
        "within .01": float((means <= 2 * WITHIN + 1e-12).all(axis=1).mean()),
        "mean, worst: ours less theirs": means.mean(axis=0).round(4).tolist(),
    }


def report(args: argparse.Namespace) -> dict[str, Any]:
    """Return everything that two editions' cells say, on the splits that both have."""
    from experiments._opponents import FOR_GROUPS
    from experiments.tradeoff import SETS, is_of_our_models

    theirs = points_of(args.theirs)
    before, after = ours_of(args.before), ours_of(args.after)
    about = {}
    for title, _, arrays in splits(args.rows, args.only, args.seeds):
        about[title] = (len(arrays["y"]), len(arrays["test_y"]), len(np.unique(arrays["y"])))
    found: dict[str, Any] = {}
    tables = {"seventeen": lambda of: of["set"] in SETS, "further": lambda of: of["set"] not in SETS}
    for name, of_tables in tables.items():
        for kind in (CLASSES, CELLS):

            def here(key: str, of_tables: Any = of_tables, kind: str = kind) -> bool:
                of = json.loads(key)
                known = key_of(set=of["set"], seed=of["seed"]) in theirs and of["set"] in about
                return known and of_tables(of) and of["units"] == kind and key in before and key in after

            one = {key: before[key] for key in before if here(key)}
            two = {key: after[key] for key in one}
            if not one:
                continue
            first = next(iter(one))
            fair = (lambda title: True) if kind == CELLS else (lambda title: title not in FOR_GROUPS)
            sides = {"all": fair}
            if name == "seventeen":
                sides["models of e4b6be0, XGBoost, LightGBM"] = is_of_our_models
            if kind == CELLS:
                sides["not told the group"] = lambda title: title not in FOR_GROUPS[:3]
            seconds = [[float(np.mean([v["fit_seconds"] for v in of.values()]))] for of in (one, two)]
            found[f"{name}, {kind}"] = {
                "tables": len({json.loads(key)["set"] for key in one}),
                "splits": len(one),
                "fit seconds": np.round(seconds, 2).ravel().tolist(),
                **{side: paired(one, two, theirs, about, of) for side, of in sides.items()},
                "dominated": {
                    side: {"before": dominated(one, theirs, of), "after": dominated(two, theirs, of)}
                    for side, of in sides.items()
                },
                "asked": {
                    budget: {
                        "after less before": np.mean(
                            [np.subtract(two[key]["asked"][budget], of["asked"][budget])
                             for key, of in one.items()], axis=0,
                        ).round(4).tolist()
                    }
                    for budget in one[first]["asked"].keys() & two[first]["asked"].keys()
                },
            }  # fmt: skip
    return found


def show(found: dict[str, Any]) -> None:
    """Print the record's figures."""
    for name, of in found.items():
        print(f"\n{name}: {of['tables']} tables, {of['splits']} splits, fit seconds {of['fit seconds']}")
        for side, dominance in of["dominated"].items():
            for which in ("before", "after", "after less before"):
                r = of[side][which]
                low, high = r["unscaled"][1:]
                print(f"  {side}: {which:17s} {r['mean']:+.3f} ({r['low']:+.3f} to {r['high']:+.3f}), "
                      f"unscaled {r['unscaled'][0]:+.4f} ({low:+.4f} to {high:+.4f})")  # fmt: skip
            print(f"  {side}: dominated", json.dumps(dominance))
        print("  asked, after less before [mean, worst]:", json.dumps(of["asked"]))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("what", choices=["rows", "ours", "pair"])
    parser.add_argument("before", type=Path, nargs="?")
    parser.add_argument("after", type=Path, nargs="?")
    parser.add_argument("--data", type=Path)
    parser.add_argument("--rows", type=Path, required=True)
    parser.add_argument("--theirs", type=Path, nargs="*", default=[])
    parser.add_argument("--out", type=Path)
    parser.add_argument("--only", nargs="*", default=[])
    parser.add_argument("--seeds", type=int, nargs="*", default=[0, 1])
    parser.add_argument("--units", nargs="*", default=[CLASSES, CELLS])
    parser.add_argument("--told", action="store_true", help="ours is told the group at prediction")
    parser.add_argument("--without", choices=["models", "learned average", "features"])
    parser.add_argument("--max-time", type=float, default=1e9, help="seconds after which nothing is begun")
    args = parser.parse_args()
    warnings.simplefilter("ignore")
    began = time.monotonic()
    if args.what == "rows":
        write_rows(args.data, args.rows, args.seeds, args.only)
    elif args.what == "pair":
        found = report(args)
        show(found)
        if args.out:
            args.out.write_text(json.dumps(found, indent=1) + "\n")
    else:
        theirs, done = points_of(args.theirs), read(args.out)
        without(args.without)
        for title, seed, arrays in splits(args.rows, args.only, args.seeds):
            known = theirs.get(key_of(set=title, seed=seed), {})
            for kind in [kind for kind in args.units if kind in known]:
                key = {"set": title, "seed": seed, "units": kind}
                if key_of(**key) in done or time.monotonic() - began > args.max_time:
                    continue
                models = models_before() if args.without == "models" else None
                keep(args.out, key, of_ours(arrays, seed, known[kind], kind, args.told, models))
                print(f"{time.monotonic() - began:6.0f} s", key, flush=True)


if __name__ == "__main__":
    main()
