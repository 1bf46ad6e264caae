"""Error, log loss and seconds of the default models by rows, beside other learners.

    python benchmarks/capacity.py rows [--sizes N ...] [--only TITLE ...] [--out FILE]
    python benchmarks/capacity.py tables --data DIR [--only TITLE ...] [--out FILE]

``rows``: made tables; "collisions" are like Higgs, "flights" like airline delays. ``tables``: one split of
real tables of `experiments/_tables.py` in DIR. The constants were chosen on the tables of CHOSEN_ON and on
the made ones, except "made, seed 1". ``--learners`` takes some of the learners. FILE keeps the results of
other runs. Seconds are processor seconds of one thread, GB the most memory of the process, which has the
table too. `sparse_tables.py` has wide tables.

    default    `RobustMixtureClassifier` for the overall error
    fixed      the same with 100 boosted trees of depth 6 at a rate of .1 on every table
    stopped    the same with as many such trees as held-out rows need, also on up to 5,000 rows
    xgboost    XGBoost as it comes
    xgboost300 XGBoost with 300 trees at a rate of .1
    xgboost800 XGBoost with 800 trees at a rate of .1
    hist       `HistGradientBoostingClassifier`
"""

from __future__ import annotations

import resource
import sys
import time
import warnings
from collections.abc import Callable, Iterator
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np
from _record import opened, options, rounded, write
from sklearn.datasets import make_classification
from sklearn.ensemble import HistGradientBoostingClassifier

import tailboost as tb
from tailboost.learners import HistBoostClassifier
from tailboost.learners.forest import TableForest
from tailboost.learners.linear import TableLinear

Rows = tuple[Any, Any, Any, Any]  # X, y, X_test, y_test
SIZES = (10_000, 100_000, 1_000_000)
TEST_ROWS = 50_000
# The constants of the default models were chosen on these tables, not on the others.
CHOSEN_ON = ("adult", "higgs", "german credit", "letter", "wine, white", "yeast")
OTHERS = (
    "credit default", "bank", "spambase", "page blocks", "COMPAS", "image segmentation", "digits",
    "breast cancer", "wine, red", "glass", "ecoli",
)  # fmt: skip
MOST_ROWS = {"letter": 3_000}


def mixture(n_trees: int | str) -> tb.RobustMixtureClassifier:
    """Return the default mixture with one kind of boosted trees on every table."""
    boosted = HistBoostClassifier(n_estimators=n_trees, max_depth=6, learning_rate=0.1)
    forest = TableForest(n_trees="auto", leaf_rows=2.0, max_features=0.5, best_cuts=0.5, prior=0.05)
    models = [("boosted", boosted), ("forest", forest), ("linear", TableLinear())]
    return tb.RobustMixtureClassifier(models, objective="error", random_state=0, n_jobs=1)


def xgboost(**params: Any) -> Any:
    """Return XGBoost's classifier with one thread."""
    from xgboost import XGBClassifier

    return XGBClassifier(n_jobs=1, enable_categorical=True, **params)


LEARNERS: dict[str, Callable[[], Any]] = {
    "default": lambda: tb.RobustMixtureClassifier(objective="error", random_state=0, n_jobs=1),
    "fixed": lambda: mixture(100),
    "stopped": lambda: mixture("auto"),
    "xgboost": xgboost,
    "xgboost300": lambda: xgboost(n_estimators=300, learning_rate=0.1),
    "xgboost800": lambda: xgboost(n_estimators=800, learning_rate=0.1),
    "hist": lambda: HistGradientBoostingClassifier(random_state=0),
}


# -- tables -----------------------------------------------------------------------------------------------


def made(n: int, seed: int, noise: float = 0.1) -> Rows:
    """Return a made table of 20 columns, 10 of them informative."""
    X, y = make_classification(
        n + TEST_ROWS, 20, n_informative=10, n_redundant=5, flip_y=noise, n_clusters_per_class=4,
        random_state=seed,
    )  # fmt: skip
    X = X.astype(np.float32)
    return X[:n], y[:n], X[n:], y[n:]


def collisions(n: int, seed: int) -> Rows:
    """Return a table like Higgs: momenta of a lepton, missing energy and four jets, and seven masses.

    A pair of the jets comes from a particle of mass 1.25 in the signal and of any mass in the background.
    Energies are measured with an error of 15 %, and half the events give the jets in another order.
    """
    rng = np.random.default_rng(seed)
    n_all = n + TEST_ROWS
    y = rng.integers(0, 2, n_all)

    def pair(mass: Any) -> list[Any]:
        """Return the momenta (E, x, y, z) of two massless particles into which one of this mass decays."""
        velocity = rng.gamma(2.0, 0.5, n_all)[:, None] * rng.normal(size=(n_all, 3))  # times Lorentz's factor
        factor = np.sqrt(1.0 + (velocity**2).sum(axis=1))
        out = rng.normal(size=(n_all, 3))
        out *= (mass / 2 / np.linalg.norm(out, axis=1))[:, None]
        momenta = []
        for own in (out, -out):
            along = (own * velocity).sum(axis=1)
            moved = own + velocity * (along / (1.0 + factor) + mass / 2)[:, None]
            p = np.column_stack([factor * mass / 2 + along, moved])
            momenta.append(p * rng.lognormal(0.0, 0.15, n_all)[:, None])
        return momenta

    def any_of(mean: float, width: float) -> Any:
        return np.abs(rng.normal(mean, width, n_all))

    lepton, missing = pair(any_of(0.8, 0.05))
    a, b = pair(any_of(0.8, 0.05))
    c, d = pair(np.where(y == 1, any_of(1.25, 0.1), 0.4 + rng.gamma(2.0, 0.6, n_all)))
    swap = (rng.random(n_all) < 0.5)[:, None]
    b, c = np.where(swap, c, b), np.where(swap, b, c)

    def mass(*momenta: Any) -> Any:
        total = sum(momenta)
        return np.sqrt(np.maximum(total[:, 0] ** 2 - (total[:, 1:] ** 2).sum(axis=1), 0.0))

    columns = []
    for p in (lepton, missing, a, b, c, d):
        size = np.hypot(p[:, 1], p[:, 2])
        columns += [size, np.arcsinh(p[:, 3] / np.maximum(size, 1e-9)), np.arctan2(p[:, 2], p[:, 1])]
    jets = (a, b, c, d)
    columns += [mass(a, b), mass(c, d), mass(b, c), mass(a, b, c), mass(lepton, missing, d)]
    columns += [mass(*jets), mass(lepton, missing, *jets)]
    X = np.column_stack(columns).astype(np.float32)
    return X[:n], y[:n], X[n:], y[n:]


def flights(n: int, seed: int) -> Rows:
    """Return a table like airline delays: carrier, airports, month, day, two times and the distance.

    The label says whether a flight is late. Carriers, airports and routes have effects of their own, and the
    delay grows over the day.
    """
    import pandas as pd

    rng = np.random.default_rng(seed)
    n_all, n_carriers, n_airports = n + TEST_ROWS, 20, 250
    busy = rng.dirichlet(np.full(n_airports, 0.3))
    origin, destination = rng.choice(n_airports, n_all, p=busy), rng.choice(n_airports, n_all, p=busy)
    carrier = rng.choice(n_carriers, n_all, p=rng.dirichlet(np.full(n_carriers, 1.0)))
    month, day = rng.integers(1, 13, n_all), rng.integers(1, 8, n_all)
    departs = (5.0 + 18.0 * rng.beta(1.3, 1.4, n_all)).astype(np.float32)
    place = rng.normal(size=(n_airports, 2))
    distance = np.hypot(*(place[origin] - place[destination]).T) * 600 + 80
    arrives = (departs + distance / 450 + rng.normal(0.5, 0.1, n_all)) % 24
    season, route = rng.normal(size=(n_airports, 12)), rng.normal(size=(n_airports, n_airports))
    score = (
        -1.6 + 0.12 * (departs - 13) + 0.4 * rng.normal(size=n_carriers)[carrier]
        + 0.4 * rng.normal(size=n_airports)[origin] + 0.3 * rng.normal(size=n_airports)[destination]
        + 0.5 * season[origin, month - 1] + 0.4 * route[origin, destination]
        + 0.3 * rng.normal(size=(n_carriers, n_airports))[carrier, origin] + 0.2 * rng.normal(size=7)[day - 1]
    )  # fmt: skip
    y = (score + rng.logistic(size=n_all) > 0.0).astype(np.intp)
    codes = {"carrier": carrier, "origin": origin, "destination": destination}
    X = pd.DataFrame({name: pd.Categorical(code) for name, code in codes.items()})
    X = X.assign(month=month, day=day, departs=departs, arrives=arrives.astype(np.float32))
    X["distance"] = distance.astype(np.float32)
    return X.iloc[:n], y[:n], X.iloc[n:], y[n:]


def faint(n: int, seed: int) -> Rows:
    """Return a table whose labels are hard to predict: weak effects of columns and of their products."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n + TEST_ROWS, 20)).astype(np.float32)
    smooth = 0.5 * np.tanh(X[:, :8] @ rng.normal(size=8) / 2)
    score = smooth + 0.4 * X[:, 8] * X[:, 9] + 0.3 * np.abs(X[:, 10])
    y = (score + rng.logistic(size=len(X)) > 0.2).astype(np.intp)
    return X[:n], y[:n], X[n:], y[n:]


MADE: dict[str, Callable[[int], Rows]] = {
    "made, seed 0": lambda n: made(n, 0),
    "made, seed 1": lambda n: made(n, 1),
    "made, 30 % noise": lambda n: made(n, 2, 0.6),
    "faint": lambda n: faint(n, 3),
    "collisions": lambda n: collisions(n, 4),
    "flights": lambda n: flights(n, 5),
}


def of_size(sizes: list[int], only: list[str]) -> Iterator[tuple[str, Rows]]:
    """Yield the made tables of each size."""
    for n in sizes:
        for title, make in MADE.items():
            if not only or title in only:
                yield f"{title}, {n:,} rows", make(n)


def real(folder: Path, only: list[str]) -> Iterator[tuple[str, Rows]]:
    """Yield one split of each real table."""
    sys.path.insert(0, str(Path(__file__).parents[1]))
    from experiments._tables import LOADERS, split, without_rare_classes

    for title in (*CHOSEN_ON, *OTHERS):
        if not only or title in only:
            rows = split(
                without_rare_classes(LOADERS[title](folder)), 0, 0.3, MOST_ROWS.get(title, 15_000), 20_000
            )
            yield title, (np.asarray(rows.train.X), rows.train.y, np.asarray(rows.test.X), rows.test.y)


# -- measurement ------------------------------------------------------------------------------------------


def measured(make: Callable[[], Any], rows: Rows) -> tuple[dict[str, Any], Any]:
    """Return the figures of one learner on one split, and which test rows it gets wrong."""
    X, y, X_test, y_test = rows
    began = time.process_time()
    model = make().fit(X, y)
    fitted = time.process_time()
    P = model.predict_proba(X_test)
    predicted = time.process_time()
    answers = model.predict(X_test)
    own = np.maximum(P[np.arange(len(y_test)), np.searchsorted(model.classes_, y_test)], 1e-6)
    found = {
        "error": float((answers != y_test).mean()), "log loss": float(-np.log(own).mean()),
        "seconds": fitted - began, "seconds of predict_proba": predicted - fitted,
    }  # fmt: skip
    if isinstance(model, tb.RobustMixtureClassifier):
        # The printed error of the rule, on the rows that also stopped the trees.
        found["error stated"] = float(model.rates_.to_dicts()[0]["value"])
    return found, answers != y_test


def apart(call: Callable[[], dict[str, Any]]) -> dict[str, Any]:
    """Return the figures of a call in a process of its own, with the most memory of this process in GB."""
    fork = get_context("fork")
    end, other = fork.Pipe(duplex=False)

    def work() -> None:
        other.send(call() | {"GB": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6})

    process = fork.Process(target=work)
    process.start()
    other.close()
    figures: dict[str, Any] = end.recv()
    process.join()
    return figures


def main() -> None:
    parser = options(__doc__, ["rows", "tables"])
    parser.add_argument("--sizes", type=int, nargs="*", default=list(SIZES))
    parser.add_argument("--learners", nargs="*", default=[], choices=list(LEARNERS))
    args = parser.parse_args()
    warnings.simplefilter("ignore")
    record = opened(args.out, "capacity")
    tables = {
        "rows": lambda: of_size(args.sizes, args.only),
        "tables": lambda: real(args.data, args.only),
    }[args.part]()
    for title, rows in tables:
        of = record.setdefault(args.part, {}).setdefault(title, {})
        of["shape"] = list(rows[0].shape)
        for name in args.learners or [name for name in LEARNERS if name != "stopped"]:
            of[name] = rounded(apart(lambda n=name, r=rows: measured(LEARNERS[n], r)[0]))
            print(f"{title:28} {name:10}", *(f"{k} {v:.4f}" for k, v in of[name].items()), flush=True)
            write(record, args.out)


if __name__ == "__main__":
    main()
