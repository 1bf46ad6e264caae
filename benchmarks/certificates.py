"""Certificates beside other bounds, and calibrated targets on resampled real data.

    python benchmarks/certificates.py [--only PART] [--data DIR] [--repeats N] [--out FILE]

Parts: "tightness" (upper bounds on a mean, beside Hoeffding, Bentkus, empirical Bernstein, MAPIE and the
bootstrap), "bootstrap" (small cells of the credit data, for which the bootstrap fails), "targets" (frequency
of exceeded calibrated targets, and their cost), "clusters" (several rows of a person), "worst" (frequency of
false certificates in difficult cases: a subgroup of 3 %, copies of training rows, frozen models, repeated
calibration). DIR has letter.csv.gz and image_segmentation.csv.gz; without it only the bundled credit data are
used. MAPIE is optional.
"""

from __future__ import annotations

import argparse
import copy
import json
import math
import platform
import warnings
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import sklearn
from scipy.optimize import brentq
from scipy.special import rel_entr
from scipy.stats import binom
from sklearn.frozen import FrozenEstimator
from sklearn.tree import DecisionTreeClassifier

import tailboost as tb
from tailboost.guarantees.fresh_rows import ERRORS, answers_of
from tailboost.guarantees.path import TighterRules
from tailboost.guarantees.procedure import Reweighted
from tailboost.guarantees.rate_bounds import RateFamily, Shortfall, limit_bounds
from tailboost.guarantees.robustness import empirical_bernstein_bound
from tailboost.rates import Sample
from tailboost.rates.bounds import betting_upper, clopper_pearson_upper
from tailboost.rates.metrics import expected_zero_one_losses
from tailboost.rows.ledger import Attempt, spent_by_next

try:
    import mapie
    from mapie.risk_control.methods import compute_hoeffding_bentkus_p_value, get_r_hat_plus
except ImportError:
    mapie = None

DELTA, SEED = 0.05, 0
POPULATIONS = {
    "zero-one, mean .03": ([0.0, 1.0], [0.97, 0.03]),
    "zero-one, mean .3": ([0.0, 1.0], [0.7, 0.3]),
    "losses of a mixture, mean .165": ([0.0, 0.3, 0.7, 1.0], [0.7, 0.15, 0.1, 0.05]),
    "small spread, mean .25": ([0.2, 0.25, 0.3], [0.3, 0.4, 0.3]),
}


# -- tightness ---------------------------------------------------------------------------------------------


def bootstrap_upper(x: Any, rng: np.random.Generator) -> float:
    """Percentile bootstrap, one-sided; the draws are counted by their values."""
    values, counts = np.unique(x, return_counts=True)
    means = rng.multinomial(len(x), counts / len(x), size=1000) @ values / len(x)
    return float(np.quantile(means, 1 - DELTA))


def hoeffding_upper(x: Any) -> float:
    return min(1.0, float(x.mean()) + math.sqrt(-math.log(DELTA) / (2 * len(x))))


def bentkus_upper(x: Any) -> float:
    """The larger means of both tail inequalities (Bates et al., Journal of the ACM 68, 2021)."""
    n, mean, top = len(x), float(x.mean()), 1.0 - 1e-12

    def excess(m: float) -> float:
        r = min(mean, m)
        hoeffding = math.exp(-n * float(rel_entr(r, m) + rel_entr(1 - r, 1 - m)))
        bentkus = math.e * float(binom.cdf(math.ceil(n * mean - 1e-9), n, m))
        return min(hoeffding, bentkus) - DELTA

    return 1.0 if mean >= top or excess(top) > 0 else float(brentq(excess, mean, top))


def mapie_hb(x: Any) -> float:
    """Invert MAPIE's p-value; for zero-one losses its binomial form."""
    grid = np.linspace(x.mean(), 1, 2001)[1:-1]
    p = compute_hoeffding_bentkus_p_value(
        np.array([x.mean()]), len(x), grid, binary=bool(np.isin(x, (0, 1)).all())
    )
    kept = grid[p[0] > DELTA]
    return float(kept[-1]) if len(kept) else float(grid[0])


def mapie_wsr(x: Any) -> float:
    """MAPIE's betting bound on its grid of 1/200, with a column of losses for each value."""
    grid = np.linspace(0.005, 1, 200)
    columns = np.repeat(x[:, None], len(grid), axis=1)
    return float(get_r_hat_plus(columns, grid, "rcps", "wsr", DELTA, 0.25)[1][0])


def bounds_on(x: Any, rng: np.random.Generator) -> dict[str, Callable[[], float]]:
    zero_one = bool(np.isin(x, (0, 1)).all())
    found: dict[str, Callable[[], float]] = {"betting (ours)": lambda: betting_upper(x, DELTA)}
    if zero_one:
        found["Clopper–Pearson (ours)"] = lambda: clopper_pearson_upper(int(x.sum()), len(x), DELTA)
    found |= {
        "Hoeffding": lambda: hoeffding_upper(x),
        "Hoeffding–Bentkus": lambda: bentkus_upper(x),
        "empirical Bernstein": lambda: min(1.0, empirical_bernstein_bound(x, DELTA)),
        "bootstrap": lambda: bootstrap_upper(x, rng),
    }
    if mapie is not None:
        found["MAPIE Hoeffding–Bentkus"] = lambda: mapie_hb(x)
        if len(x) <= 300:  # beyond it takes gigabytes
            found["MAPIE betting"] = lambda: mapie_wsr(x)
    return found


def tightness(repeats: int) -> list[dict[str, Any]]:
    """Return the mean bound and the fraction of failures, by population and number of rows."""
    rows = []
    for name, (values, p) in POPULATIONS.items():
        mean = float(np.dot(values, p))
        for n in (30, 300, 3000):
            rng = np.random.default_rng([SEED, n])
            uppers: dict[str, list[float]] = {}
            for i in range(repeats):
                x = rng.choice(values, n, p=p)
                for method, bound in bounds_on(x, rng).items():
                    if not (method == "MAPIE betting" and i >= repeats // 10):
                        uppers.setdefault(method, []).append(bound())
            for method, u in uppers.items():
                above, failures = np.mean(u) - mean, np.mean(np.array(u) < mean - 1e-12)
                rows.append(
                    {"losses": name, "n": n, "bound": method, "above the mean": round(float(above), 4)}
                    | {"fails": round(float(failures), 4), "repeats": len(u)}
                )
    return rows


# -- a real case -------------------------------------------------------------------------------------------


def bootstrap_case(repeats: int) -> list[dict[str, Any]]:
    """Return bounds on errors of class × education cells, from samples of 1,000 held-out rows."""
    data = tb.datasets.load_credit_default()
    rng = np.random.default_rng(SEED)
    order = rng.permutation(len(data.target))
    X, y = data.data.iloc[order], data.target.to_numpy()[order]
    education = data.data["EDUCATION"].to_numpy()[order]
    clf = tb.WorstClassBoostClassifier(n_estimators=10, random_state=SEED).fit(X[:6000], y[:6000])
    wrong, y, education = (clf.predict(X[6000:]) != y[6000:]).astype(float), y[6000:], education[6000:]
    rows = []
    for level in np.unique(education):
        for k in (0, 1):
            cell = (y == k) & (education == level)
            if not cell.any():
                continue
            truth, size = wrong[cell].mean(), []
            fails = {"bootstrap": 0, "Clopper–Pearson (ours)": 0}
            for _ in range(repeats):
                drawn = rng.integers(0, len(y), 1000)
                x = wrong[drawn][cell[drawn]]
                size.append(len(x))
                if len(x):  # without rows ours is 1 and the bootstrap has nothing to draw
                    fails["bootstrap"] += bootstrap_upper(x, rng) < truth - 1e-12
                ours = clopper_pearson_upper(int(x.sum()), len(x), DELTA)
                fails["Clopper–Pearson (ours)"] += ours < truth - 1e-12
            rows.append(
                {"cell": f"class {k}, education {level}", "rows on average": round(float(np.mean(size)), 1)}
                | {"error": round(float(truth), 4)}
                | {f"{m} fails": round(float(v / repeats), 4) for m, v in fails.items()}
                | {"repeats": repeats}
            )
    return rows


# -- targets -----------------------------------------------------------------------------------------------


def tables(folder: Path | None) -> dict[str, tuple[Any, Any, int, int]]:
    """Return rows, labels, training rows and calibration rows."""
    credit = tb.datasets.load_credit_default()
    found = {"credit": (credit.data.to_numpy(dtype=float), credit.target.to_numpy(), 6000, 3000)}
    for name, target, n_fit, n_cal in (
        ("letter", "lettr", 6000, 7000),
        ("image_segmentation", "class", 800, 755),
    ):
        if folder is not None and (folder / f"{name}.csv.gz").exists():
            frame = pd.read_csv(folder / f"{name}.csv.gz")
            found[name] = (
                frame.drop(columns=target).to_numpy(dtype=float),
                frame[target].to_numpy(),
                n_fit,
                n_cal,
            )
    return found


def targets(repeats: int, folder: Path | None) -> list[dict[str, Any]]:
    """Fit once; calibrate on samples of the held-out rows, which are the population."""
    rows = []
    for name, (X, y, n_fit, n_cal) in tables(folder).items():
        order = np.random.default_rng(SEED).permutation(len(y))
        fit, held = order[:n_fit], order[n_fit : n_fit + 12_000]
        clf = tb.WorstClassBoostClassifier(n_estimators=10, random_state=SEED).fit(X[fit], y[fit])
        safest = float(clf.tradeoff().values.value[-1])  # out of fold: known before any calibration
        for margin in (0.05, 0.1):
            target = round(safest + margin, 2)
            limits = [tb.rates.error(by="class") <= target]
            within = Reweighted(clf).within(limits)
            path = TighterRules.from_selection(within, [n_cal], 0.05).from_the_likeliest()
            points = [rule.classifier for rule in path]
            for rule in ("predict", "randomised") if len(clf.classes_) < 10 else ("predict",):
                losses = np.array([losses_of(p, X[held], y[held], rule) for p in points])
                found = redraw(losses, y[held], clf.classes_, target, n_cal, rule, repeats)
                rows.append({"data": name, "rule": rule, "target": target} | found)
                print(rows[-1], flush=True)
    return rows


def losses_of(model: Any, X: Any, y: Any, rule: Any) -> Any:
    """Return the loss of each row."""
    answers = answers_of(model, X, rule)
    if rule == "predict":
        return (answers != y).astype(float)
    return expected_zero_one_losses(y, answers, labels=model.classes_)


def tested(losses: Any, units: dict[Any, Any], target: float, rule: Any) -> RateFamily:
    """Return the errors of the classes with their targets."""
    samples = [Sample(k, rows, losses[rows], 0.0, 1.0) for k, rows in units.items()]
    limit = ERRORS["class"] <= target
    return RateFamily(ERRORS["class"], limit, ("above",), samples, rule == "predict", "class", rule)


def passes(family: RateFamily, delta: float) -> bool:
    """Return whether all subgroups are certified to meet the target."""
    return all(bound.certified for bound in limit_bounds([family], delta))


def redraw(
    losses: Any, y: Any, classes: Any, target: float, n_cal: int, rule: Any, repeats: int
) -> dict[str, Any]:
    """Return how often the point of `tailboost.calibrate` and of a naive selection exceeds the target."""
    rng = np.random.default_rng(SEED)
    inside = np.array([y == k for k in classes])
    counted = inside.T.astype(float)
    errors = np.array([[x[rows].mean() for rows in inside] for x in losses])  # points × classes: the truth
    means = losses.mean(axis=1)
    chosen, naive, halves = [], [], []
    for _ in range(repeats):
        drawn = rng.integers(0, len(y), n_cal)
        units = {k: np.flatnonzero(rows[drawn]) for k, rows in zip(classes, inside, strict=True)}
        chosen.append(walk(losses[:, drawn], units, target, rule))
        seen = losses[:, drawn] @ counted[drawn] / counted[drawn].sum(axis=0)
        fine = np.flatnonzero((seen <= target).all(axis=1))
        naive.append(None if len(fine) == 0 else int(fine[np.argmin(losses[fine][:, drawn].mean(axis=1))]))
        # The same with halves that share no row: the rest is fresh, and small.
        half = rng.permutation(len(y))
        first, rest = half[: len(y) // 2], half[len(y) // 2 :]
        units = {k: np.flatnonzero(rows[first]) for k, rows in zip(classes, inside, strict=True)}
        point = walk(losses[:, first], units, target, rule)
        if point is not None:
            halves.append(max(losses[point, rest][rows[rest]].mean() for rows in inside))
    kept, tried = [i for i in chosen if i is not None], [i for i in naive if i is not None]
    return {
        "repeats": repeats,
        "certified": len(kept) / repeats,
        "exceeded": sum(errors[i].max() > target for i in kept) / repeats,
        "mean error": round(float(means[kept].mean()), 4) if kept else None,
        "naive: chosen": len(tried) / repeats,
        "naive: exceeded": sum(errors[i].max() > target for i in tried) / repeats,
        "naive: mean error": round(float(means[tried].mean()), 4) if tried else None,
        "least mean error": round(float(means[-1]), 4),
        "least that meets the target": met(means, errors, target),
        "halves: certified": len(halves) / repeats,
        "halves: seen above the target": sum(worst > target for worst in halves) / repeats,
    }


def met(means: Any, errors: Any, target: float) -> float | None:
    fine = errors.max(axis=1) <= target
    return round(float(means[fine].min()), 4) if fine.any() else None


def walk(losses: Any, units: Any, target: float, rule: Any) -> int | None:
    """Return the last point before the first failure of a target, as `tailboost.calibrate` does."""
    last = None
    for i, x in enumerate(losses):
        if not passes(tested(x, units, target, rule), DELTA):
            break
        last = i
    return last


# -- where certificates are easiest to get wrong -----------------------------------------------------------


class Answering:
    """Answers that a column holds."""

    def __init__(self, groups: Any = None) -> None:
        self.classes_ = np.array([0, 1])
        if groups is not None:
            self.groups_ = np.array(groups)

    def predict(self, X: Any) -> Any:
        return X[:, 1].astype(int)


def rare_unit(repeats: int, model: Any, units: Any) -> dict[str, Any]:
    """60 rows; group B has 3 % of the rows and the error 1, group A the error .05."""
    rng, false = np.random.default_rng(SEED), {"group": 0, "cell": 0}
    for _ in range(repeats):
        group = np.where(rng.random(60) < 0.03, "B", "A")
        y = rng.integers(0, 2, 60)
        wrong = (group == "B") | (rng.random(60) < 0.05)
        X = np.c_[rng.random(60), np.where(wrong, 1 - y, y)]
        cert = tb.certify(model, X, y, groups=group, subgroups=units)
        for kind in false:
            worst = cert.bound("worst", kind)
            # Where not all groups are known it is about those seen, and says so.
            truth = 1.0 if (group == "B").any() or not worst.of_seen else 0.05
            false[kind] += worst.upper < truth
    return {f"false, worst {kind}": n / repeats for kind, n in false.items()}


def noisy(rng: np.random.Generator, n: int) -> tuple[Any, Any]:
    X = rng.normal(size=(n, 4))
    return X, (X[:, 0] + rng.normal(size=n) > 0).astype(int)


def copies(repeats: int, how: str) -> dict[str, Any]:
    """Trees without training errors, each certified 20 times on 80 rows, some of which are training rows."""
    rng = np.random.default_rng(SEED)
    refused, false, said = 0, 0, 0
    X_new, y_new = noisy(rng, 100_000)
    for seed in range(repeats // 20):
        X, y = noisy(rng, 100)
        tree = DecisionTreeClassifier(random_state=seed)
        rows = {"every row twice": np.tile(np.arange(100), 2), "bootstrap": rng.integers(0, 100, 200)}
        fitted = rows.get(how, np.arange(100))
        if "frozen" in how:
            mix = tb.RobustMixtureClassifier([("tree", FrozenEstimator(tree.fit(X, y)))], random_state=seed)
            mix.fit(*noisy(rng, 60))
        else:
            mix = tb.RobustMixtureClassifier([("tree", tree)], cv=0.3, random_state=seed)
            mix.fit(X[fitted], y[fitted])
        truth = float(np.mean(mix.predict(X_new) != y_new))
        for _ in range(20):
            n_own = {"one in twenty": 4, "frozen, fresh rows": 0}.get(how, 80)
            own = rng.choice(100, n_own, replace=False)
            X_other, y_other = noisy(rng, 80 - n_own)
            X_c, y_c = np.r_[X[own], X_other], np.r_[y[own], y_other]
            try:
                cert = tb.certify(mix, X_c.astype(np.float32) if how == "float32" else X_c, y_c)
            except tb.LeakageError:
                refused += 1
                continue
            false += truth > cert.bound("mean").upper
            said += any("Its training rows are not known" in x for x in cert.notes)
    shares = {"refused": refused, "false": false, "rows said to be unknown": said}
    return {name: float(n / repeats) for name, n in shares.items()}


def two_looks(repeats: int) -> dict[str, Any]:
    """The error of one class is just above its target, .2; a failure is followed by a second attempt."""
    rng, false, tried = np.random.default_rng(SEED), 0, 0
    stump = DecisionTreeClassifier(max_depth=1)
    model = tb.WorstClassBoostClassifier(stump, n_estimators=1, random_state=SEED)
    model.fit(np.c_[np.arange(400) % 2, rng.random(400)], np.arange(400) % 2)
    for _ in range(repeats):
        one = copy.deepcopy(model)  # with its own ledger
        for _ in range(2):
            y = np.repeat([0, 1], 100)
            X = np.c_[np.r_[np.zeros(100), rng.random(100) >= 0.2 + 1e-9], rng.random(200)]
            tried += 1
            with suppress(tb.NotCertifiedError):
                tb.calibrate(one, X, y, 0.2)
                false += 1
                break
    return {"false": false / repeats, "attempts on average": tried / repeats}


def looks(repeats: int, most: int) -> dict[str, Any]:
    """The same with several attempts, each on the number of fresh rows that the error names."""
    rng, false, tried = np.random.default_rng(SEED), 0, 0
    for _ in range(repeats):
        n, made = 100, list[Attempt]()
        no_rows: Any = None
        for _ in range(most):
            x, tried = (rng.random(n) < 0.2 + 1e-9).astype(float), tried + 1
            family = tested(x, {1: np.arange(n)}, 0.2, "predict")
            made.append(Attempt("", no_rows, spent_by_next(made, None)))
            if passes(family, made[-1].spent * DELTA):
                false += 1
                break
            next_level = spent_by_next(made, None) * DELTA
            (bound,) = limit_bounds([family], next_level)
            short = Shortfall.from_bound(family, 0, bound, next_level, None)
            n = min(short.more_rows or 100, 20_000)
    return {"false": false / repeats, "attempts on average": tried / repeats}


def worst(repeats: int) -> list[dict[str, Any]]:
    """Return the fraction of false certificates in each case; at most .05 are allowed."""
    cases: dict[str, Callable[[], dict[str, Any]]] = {
        "unit of 3 %, known from the fit": lambda: rare_unit(repeats, Answering(["A", "B"]), None),
        "unit of 3 %, listed": lambda: rare_unit(repeats, Answering(), ["A", "B"]),
        "unit of 3 %, not known": lambda: rare_unit(repeats, Answering(), None),
        **{
            f"copies: {how}": (lambda how=how: copies(repeats, how))
            for how in (
                "every row twice",
                "bootstrap",
                "float32",
                "one in twenty",
                "frozen, its own rows",
                "frozen, fresh rows",
            )
        },
        "two looks": lambda: two_looks(repeats),
        "eight looks, as many rows as said": lambda: looks(repeats, 8),
    }
    rows = []
    for name, case in cases.items():
        rows.append({"case": name, "repeats": repeats} | case())
        print(rows[-1], flush=True)
    return rows


# -- persons with several rows -----------------------------------------------------------------------------

PERSONS, ROWS_EACH, PERSON_ERROR = 300, 5, (0.2, 0.1)


def clusters(repeats: int) -> list[dict[str, Any]]:
    """Return how often a bound is false, and the distance of the class bounds above the truth."""
    rng, found = np.random.default_rng(SEED), []
    for kind in ("copies", "dependent", "independent", "one row each"):
        rows = 1 if kind == "one row each" else ROWS_EACH
        person = np.repeat(np.arange(PERSONS), rows)
        for voting in (True, False):
            false, above = 0, []
            for _ in range(repeats):
                # The class is the person's: so is its error, by a share of its own where rows depend on it.
                label = rng.integers(2, size=PERSONS)
                rate = np.where(label == 0, *PERSON_ERROR)
                own = rng.beta(rate, 1 - rate) if kind == "dependent" else rate
                if kind == "copies":
                    wrong = np.repeat(rng.random(PERSONS) < rate, rows)
                else:
                    wrong = rng.random(len(person)) < np.repeat(own, rows)
                y = np.repeat(label, rows)
                cert = tb.certify(np.where(wrong, 1 - y, y), None, y, clusters=person if voting else None)
                upper = [cert.bound("class", k).upper for k in (0, 1)]
                mean = float(np.mean(PERSON_ERROR))
                false += any(u < e for u, e in zip(upper, PERSON_ERROR, strict=True))
                false += cert.bound("mean").upper < mean and all(
                    u >= e for u, e in zip(upper, PERSON_ERROR, strict=True)
                )
                above.append(np.subtract(upper, PERSON_ERROR))
            found.append(
                {"rows": kind, "one vote each": voting, "false": false / repeats}
                | {"above": np.mean(above, axis=0).round(4).tolist()}
            )
            print(found[-1], flush=True)
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", choices=["tightness", "bootstrap", "targets", "clusters", "worst"])
    parser.add_argument("--data", type=Path)
    parser.add_argument("--repeats", type=int)
    parser.add_argument("--out", type=Path)
    args = parser.parse_args()
    warnings.simplefilter("ignore")
    parts = {
        "tightness": lambda: tightness(args.repeats or 1000),
        "bootstrap": lambda: bootstrap_case(args.repeats or 2000),
        "targets": lambda: targets(args.repeats or 500, args.data),
        "clusters": lambda: clusters(args.repeats or 2000),
        "worst": lambda: worst(args.repeats or 2000),
    }
    results = {name: part() for name, part in parts.items() if args.only in (None, name)}
    for name, rows in results.items():
        print(f"\n{name}\n{pd.DataFrame(rows).to_string(index=False)}")
    if args.out:
        if args.only and args.out.exists():  # the other parts stay
            results = json.loads(args.out.read_text())["results"] | results
        modules = [np, sklearn, tb, *([mapie] if mapie is not None else [])]
        versions = {m.__name__: m.__version__ for m in modules}
        content = {
            "results": results,
            "versions": versions,
            "python": platform.python_version(),
            "seed": SEED,
        }
        args.out.write_text(json.dumps(content, indent=1) + "\n")


if __name__ == "__main__":
    main()
