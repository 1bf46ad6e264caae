"""The choice of thresholds of two versions, on the same probabilities of real tables.

    python benchmarks/engines.py DIR CACHE fit [--splits N]        fit the default models once, kept in CACHE
    python benchmarks/engines.py DIR CACHE choose NAME [--rates]     choose with the library that is imported
    python benchmarks/engines.py DIR CACHE faces NAME [--splits N]   fit WorstClassBoost() and GroupDROBoost()
    python benchmarks/engines.py DIR CACHE compare OLD NEW [--out FILE]

DIR holds the tables of `experiments/_tables.py`, and field/ with acs_income, acs_coverage, law_school and
diabetes130. What is measured is on test rows, which had no part in a fit or a choice: the largest error of a
unit (of those with at least 30 test rows), the mean error, and processor seconds of the choice. Splits are
stratified, 70/30, with at most 10,000 rows on each side. ``--rates`` has the choice made by tallies, as for
any other rate, instead of by the errors of rows. ``faces`` fits the classifiers of papers without an
estimator; its seconds are those of the fit, or of the choice where nothing is fitted.
"""

from __future__ import annotations

import argparse
import json
import pickle
import sys
import time
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.frozen import FrozenEstimator

sys.path.insert(0, str(Path(__file__).parents[1]))

import tailboost as tb
from experiments._tables import Data, load_all, split, table, without_rare_classes
from tailboost import rates

MOST_ROWS, FEWEST = 10_000, 30
BUDGETS = (None, 0.005, 0.02, 0.05)
# The target is what the plain models err on the worst unit of the rows of the choice, less this share of it.
LESS = 0.25
CLASSES = (
    "wine (178 rows)", "glass", "ecoli", "german credit", "yeast", "wine, red", "digits",
    "image segmentation", "spambase", "page blocks", "COMPAS", "credit default", "adult", "bank",
    "wine, white", "w8a", "letter",
)  # fmt: skip
GROUPS = (
    "adult sex", "adult race", "COMPAS race", "COMPAS sex", "credit sex", "credit age", "German sex",
    "ACS race", "ACS sex", "law race", "coverage race", "diabetes race",
)  # fmt: skip


def field(folder: Path, name: str, target: str, group: str, drop: tuple[str, ...] = ()) -> Data:
    read = pd.read_parquet(folder / "field" / f"{name}.parquet").dropna(subset=[target, group])
    read = read.sample(min(len(read), 3 * MOST_ROWS), random_state=0)
    y = np.unique(read[target].to_numpy(), return_inverse=True)[1]
    X = read.drop(columns=[target, group, *drop])
    text = X.select_dtypes(exclude="number").columns
    X = X.assign(**{c: X[c].astype("category").cat.codes.astype(float) for c in text}).astype(float)
    return Data(X.to_numpy(), y, {"group": read[group].astype(str).to_numpy()})


def of_groups(folder: Path, name: str) -> Data:
    """Return a table with one column of groups."""
    if name.startswith("ACS"):
        return field(folder, "acs_income.validation", "PINCP", {"race": "RAC1P", "sex": "SEX"}[name[4:]])
    if name == "law race":
        return field(folder, "law_school", "pass_bar", "race")
    if name == "coverage race":
        return field(folder, "acs_coverage.validation", "PUBCOV", "RAC1P")
    if name == "diabetes race":
        return field(folder, "diabetes130", "readmitted", "race", ("patient_nbr",))
    if name == "German sex":
        data = table("german_credit", "class")(folder)
        status = data.X["personal_status_sex"].astype(str).to_numpy()
        sex = np.where(status == "A92", "female", "male")
        return Data(data.X.drop(columns="personal_status_sex"), data.y, {"group": sex})
    title, column = name.split()
    (data,) = load_all(folder, [{"credit": "credit default"}.get(title, title)]).values()
    found = next(c for c in data.groups if c.startswith(column))
    return Data(data.X, data.y, {"group": np.asarray(data.groups[found]).astype(str)})


class Recorded(ClassifierMixin, BaseEstimator):
    """Probabilities by the content of a row."""

    def __init__(self, keys: Any = None, P: Any = None) -> None:
        self.keys, self.P = keys, P
        if P is not None:
            self.classes_, self.n_features_in_ = np.arange(P.shape[1]), keys.shape[1]
            self.known_ = {key: i for i, key in enumerate(map(bytes, np.ascontiguousarray(keys)))}

    def fit(self, X: Any, y: Any) -> Recorded:
        raise TypeError("it is fitted")

    def predict_proba(self, X: Any) -> Any:
        rows = np.ascontiguousarray(X, dtype=np.float64)
        return self.P[[self.known_[bytes(row)] for row in rows]]

    def predict(self, X: Any) -> Any:
        return self.predict_proba(X).argmax(axis=1)

    def __sklearn_is_fitted__(self) -> bool:
        return True

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        return tags


def prepare(folder: Path, cache: Path, name: str, seed: int) -> dict[str, Any]:
    """Fit the default models on a split, or read what was kept of them."""
    file = cache / f"{name.replace(' ', '_')}-{seed}.pkl"
    if file.exists():
        return pickle.loads(file.read_bytes())
    kept = rows_of(folder, name, seed)
    mix = tb.RobustMixtureClassifier(random_state=seed, cv=5, n_jobs=1).fit(kept["X"], kept["y"])
    judged = mix._judged
    kept |= {
        "P": {n: np.exp(log) for n, log in zip(judged.models.names, judged.logs, strict=True)},
        "P_test": {n: m.predict_proba(kept["X_test"]) for n, m in mix.named_estimators_.items()},
    }
    assert all(len(P) == len(kept["X"]) for P in kept["P"].values())
    file.write_bytes(pickle.dumps(kept))
    return kept


def rows_of(folder: Path, name: str, seed: int) -> dict[str, Any]:
    """Return a split of a table, test rows that equal a training row left out."""
    data = of_groups(folder, name) if name in GROUPS else load_all(folder, [name])[name]
    if name not in GROUPS:
        data = without_rare_classes(Data(data.X, data.y))
    rows = split(data, seed, 0.3, MOST_ROWS, MOST_ROWS)
    X, X_test = (np.ascontiguousarray(part.X, dtype=np.float64) for part in (rows.train, rows.test))
    seen = set(map(bytes, X))
    fresh = np.array([bytes(row) not in seen for row in X_test])  # its probabilities are those of the fold
    kept = {"X": X, "y": rows.train.y, "X_test": X_test[fresh], "y_test": rows.test.y[fresh]}
    if rows.train.groups:
        kept |= {"g": rows.train.groups["group"], "g_test": rows.test.groups["group"][fresh]}
    return kept


def faces(kept: dict[str, Any]) -> Any:
    """Yield what the classifiers of papers without an estimator reach on test rows."""
    grouped = "g" in kept
    for name, by in [("GroupDRO", "group"), ("WorstClass", "cell")] if grouped else [
        ("WorstClass", "class"), ("GroupDRO", "class")
    ]:  # fmt: skip
        y, units = kept["y_test"], units_of(kept["y_test"], kept.get("g_test"), by)
        names, sizes = np.unique(units, return_counts=True)
        large = names[sizes >= FEWEST] if (sizes >= FEWEST).any() else names
        units_given = {"units": by} if name == "WorstClass" else {}
        classifier = getattr(tb, f"{name}BoostClassifier")(random_state=0, n_jobs=1, **units_given)
        groups = {"groups": kept["g"]} if grouped else {}
        found = None
        for wish in (None, 0.02):
            begin = time.process_time()
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                found = classifier.fit(kept["X"], kept["y"], **groups) if found is None else found
                chosen = found if wish is None else found.reweight(mean_budget=wish)
            seconds = time.process_time() - begin
            wrong = chosen.predict(kept["X_test"]) != y
            errors = {str(u): float(wrong[units == u].mean()) for u in large}
            yield {
                "by": f"{name} {by}", "told": False, "wish": wish, "worst": max(errors.values()),
                "mean": float(wrong.mean()), "seconds": round(seconds, 3),
            }  # fmt: skip


def units_of(y: Any, g: Any, by: str) -> Any:
    if by == "class":
        return y.astype(str)
    return g if by == "group" else np.char.add(np.char.add(y.astype(str), "|"), g.astype(str))


def tasks(kept: dict[str, Any]) -> list[tuple[str, bool]]:
    if "g" not in kept:
        return [("class", False)]
    return [("group", False), ("group", True), ("cell", False), ("cell", True)]


def choose(kept: dict[str, Any], by: str, told: bool, as_rate: bool, only: Any = None) -> Any:
    """Yield what choices reach on test rows."""
    keys = np.vstack([kept["X"], kept["X_test"]])
    models = [
        (n, FrozenEstimator(Recorded(keys, np.vstack([P, kept["P_test"][n]])))) for n, P in kept["P"].items()
    ]
    groups = {} if by == "class" else {"groups": kept["g"]}
    asked = {"groups": kept["g_test"]} if told else {}
    y, units = kept["y_test"], units_of(kept["y_test"], kept.get("g_test"), by)
    names, sizes = np.unique(units, return_counts=True)
    large = names[sizes >= FEWEST] if (sizes >= FEWEST).any() else names
    plain = np.mean([np.log(np.maximum(P, 1e-6)) for P in kept["P"].values()], axis=0).argmax(axis=1)
    of_train = units_of(kept["y"], kept.get("g"), by)
    worst = max((plain != kept["y"])[of_train == u].mean() for u in np.unique(of_train))
    target = max(round((1 - LESS) * worst, 3), 0.01)
    objective, limits = f"worst_{by}", []
    if as_rate:  # a limit that everything keeps, so that the choice is by tallies
        objective, limits = rates.largest(rates.error(by=by)), [rates.error() <= 1.0]
    mix = None
    for wish in (*BUDGETS, *([] if as_rate else ["target"])):
        begin = time.process_time()
        params = {"max_error": target} if wish == "target" else {"mean_budget": wish}
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            if mix is None or wish == "target":
                found = tb.RobustMixtureClassifier(
                    models, objective=objective, limits=limits, by_group=told, random_state=0, **params
                ).fit(kept["X"], kept["y"], **groups)
                mix = mix or found
            else:
                found = mix.reweight(**params)
        seconds = time.process_time() - begin
        wrong = found.predict(kept["X_test"], **asked) != y
        errors = {str(u): float(wrong[units == u].mean()) for u in large}
        yield {
            "by": by, "told": told, "wish": wish, "target": target if wish == "target" else None,
            "worst": max(errors.values()), "mean": float(wrong.mean()), "seconds": round(seconds, 3),
            "members": len(found.members_),
        }  # fmt: skip


def compare(old: list[Any], new: list[Any]) -> dict[str, Any]:
    """Return paired differences, new less old, averaged over splits, with 95 % intervals over tables."""
    key = ["table", "split", "by", "told", "wish"]
    tables = [pd.DataFrame([{**line, "wish": str(line["wish"])} for line in lines]) for lines in (old, new)]
    both = tables[0].merge(tables[1], on=key, suffixes=("_old", "_new"))
    found = {}
    for (by, told, wish), part in both.groupby(["by", "told", "wish"]):
        out: dict[str, Any] = {"tables": part["table"].nunique()}
        for what in ("worst", "mean"):
            each = part.assign(d=part[f"{what}_new"] - part[f"{what}_old"]).groupby("table")["d"].mean()
            half = 1.96 * each.std(ddof=1) / np.sqrt(len(each))
            out[what] = {
                "old": round(part[f"{what}_old"].mean(), 4), "new": round(part[f"{what}_new"].mean(), 4),
                "difference": round(each.mean(), 4), "half": round(half, 4),
                "largest": [(t, round(d, 4)) for t, d in each.sort_values().iloc[[0, -2, -1]].items()],
            }  # fmt: skip
        out["seconds"] = [round(float(part[f"seconds_{w}"].mean()), 2) for w in ("old", "new")]
        found[f"{by} {'told' if told else 'blind'} {wish}"] = out
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("cache", type=Path)
    parser.add_argument("what", choices=["fit", "choose", "faces", "compare"])
    parser.add_argument("names", nargs="*")
    parser.add_argument("--splits", type=int, default=2)
    parser.add_argument("--rates", action="store_true")
    parser.add_argument("--only", nargs="*")
    parser.add_argument("--out", type=Path)
    args = parser.parse_args()
    every = [name for name in (*CLASSES, *GROUPS) if not args.only or name.replace(" ", "_") in args.only]
    if args.what == "compare":
        old, new = (json.loads((args.cache / f"{name}.json").read_text()) for name in args.names)
        found = compare(old, new)
        for name, line in found.items():
            w, m = line["worst"], line["mean"]
            print(
                f"{name:20s} worst {w['old']:.4f} → {w['new']:.4f} ({w['difference']:+.4f} ± {w['half']:.4f})"
                f"  mean {m['old']:.4f} → {m['new']:.4f} ({m['difference']:+.4f} ± {m['half']:.4f})"
                f"  s {line['seconds']}  {w['largest']}"
            )
        if args.out:
            args.out.write_text(json.dumps(found, indent=1) + "\n")
        return
    rows = []
    for name in every:
        for seed in range(args.splits):
            begin = time.process_time()
            if args.what == "faces":
                found = list(faces(rows_of(args.folder, name, seed)))
                rows += [{"table": name, "split": seed, **line} for line in found]
                short = [(x["by"], x["wish"], round(x["worst"], 3), x["seconds"]) for x in found]
                print(name, seed, short, flush=True)
                (args.cache / f"{args.names[0]}.json").write_text(json.dumps(rows))
                continue
            kept = prepare(args.folder, args.cache, name, seed)
            if args.what == "fit":
                print(name, seed, kept["X"].shape, round(time.process_time() - begin, 1), flush=True)
                continue
            for by, told in tasks(kept):
                for line in choose(kept, by, told, args.rates):
                    rows.append({"table": name, "split": seed, **line})
                own = rows[-len(BUDGETS) :]
                print(
                    name,
                    seed,
                    by,
                    told,
                    [(x["wish"], round(x["worst"], 3), round(x["mean"], 3), x["seconds"]) for x in own],
                    flush=True,
                )
            (args.cache / f"{args.names[0]}.json").write_text(json.dumps(rows))


if __name__ == "__main__":
    main()
