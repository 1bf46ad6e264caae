"""Run again what showed sentences of this library to be false, and say what it prints now.

    python tools/statements.py

Each item is a case in which an earlier edition said something untrue. It prints what was said, what is said
now beside the truth, and whether that holds. The truth comes from a generic linear program, from counting or
from rows that no fit has seen, never from the library's own solvers. The exit status is the number of items
that fail.
"""

from __future__ import annotations

import re
import sys
import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from scipy.optimize import linprog
from sklearn.datasets import load_breast_cancer
from sklearn.ensemble import AdaBoostClassifier
from sklearn.model_selection import train_test_split
from sklearn.tree import DecisionTreeClassifier

sys.path.insert(0, str(Path(__file__).parents[1]))

from tailboost.report.reading import Reading

import tailboost as tb
from experiments._bounds import worst_class_margin_bound
from tailboost.registry import Method
from tailboost.report import compare

SMALL = 1e-9


@dataclass(frozen=True)
class Outcome:
    """What is said now, with the truth beside it, and whether it holds."""

    now: str
    holds: bool


def blobs(n: int, d: int, K: int, apart: float, noise: float, seed: int) -> tuple[Any, Any]:
    """Draw K normal classes, a share of the labels thrown anew."""
    rng = np.random.default_rng(seed)
    centres, y = rng.normal(size=(K, d)) * apart, rng.integers(0, K, n)
    X = centres[y] + rng.normal(size=(n, d))
    thrown = rng.random(n) < noise
    y[thrown] = rng.integers(0, K, thrown.sum())
    y[:K] = np.arange(K)
    return X, y


def cvar(losses: Any, alpha: float) -> float:
    """Return max Σ w l over w ≤ 1/(αn), by a generic solver."""
    n = len(losses)
    solved = linprog(-losses, A_eq=np.ones((1, n)), b_eq=[1], bounds=(0, 1 / (alpha * n)))
    return float(-solved.fun)


def of_constants(y: Any, group: Any) -> float:
    """Return the least largest group error of a mixture of constants, by a generic solver."""
    K, names = int(y.max()) + 1, np.unique(group)
    wrong = np.array([[np.mean(y[group == g] != k) for k in range(K)] + [-1.0] for g in names])
    solved = linprog(
        np.r_[np.zeros(K), 1.0], wrong, np.zeros(len(names)), np.r_[np.ones(K), 0.0][None], [1.0],
        bounds=[(0, None)] * K + [(None, None)],
    )  # fmt: skip
    return float(solved.fun)


def expected_losses(clf: Any, X: Any, y: Any) -> Any:
    """Return each row's probability of a wrong answer by the mixture."""
    return 1.0 - clf.predict_shares(X)[np.arange(len(y)), np.searchsorted(clf.classes_, y)]


def worst(losses: Any, unit: Any) -> float:
    """Return the largest mean over the units."""
    return float(max(losses[unit == u].mean() for u in np.unique(unit)))


# -- the items -------------------------------------------------------------------------------------------


def outliers() -> Outcome:
    """Leave out a quarter of the weight as outliers."""
    X, y = blobs(400, 4, 2, 1.0, 0.3, 1)
    said, holds = [], True
    games: list[tuple[type[Any], dict[str, Any]]] = [
        (tb.AdaLPBoostClassifier, {}),
        (tb.LPBoostClassifier, {}),
        (tb.RegularizedLPBoostClassifier, {"beta": 1.0, "n_estimators": 40}),
    ]
    for make, more in games:
        clf = make(
            DecisionTreeClassifier(max_depth=2), alpha=0.5, outlier_fraction=0.25, validation="train",
            include_constants=False, random_state=0, n_iter_no_change=None, **more,
        ).fit(X, y)  # fmt: skip
        found, truth = clf.summary_, cvar(expected_losses(clf, X, y), 0.5)
        said.append(f"{found.achieved:.3f} without {found.dropped:.2f}, {found.achieved_on_all:.3f} on all")
        holds &= abs(found.achieved_on_all - truth) < 1e-6 and found.dropped > 0
        holds &= f"{found.achieved_on_all:.4g}" in found.verdict
        holds &= all(bound.bound is None for bound in found.promised)
    return Outcome(f"{'; '.join(said)}; truth of the last {truth:.3f}; no promise", holds)


def light_weights() -> Outcome:
    """Fit with weights far below 1, which sum to less than the number of rows."""
    false, fits, rounds = 0, 0, set()
    for seed in range(60):
        X, y = blobs(400, 3, 2, 0.8, 0.1, seed)
        for T in (1, 2, 3, 5):
            for weight in (0.05, 0.02):
                clf = tb.AverageBoostClassifier(
                    DecisionTreeClassifier(max_depth=3), n_estimators=T, eta="theory", random_state=0
                ).fit(X, y, sample_weight=np.full(400, weight))
                fits += 1
                bounds = [b.bound for b in clf.summary_.promised if b.bound is not None]
                false += expected_losses(clf, X, y).max() > min(bounds, default=1.0) + SMALL
    X, y = blobs(300, 4, 2, 1.5, 0.05, 0)
    for total in (300.0, 1.0, 0.5):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of the weights' scale, and of a learner that is too weak
            clf = tb.OCOBoostClassifier(random_state=0).fit(X, y, sample_weight=np.full(300, total / 300))
        rounds.add(clf.n_iter_)
    said = f"{false} of {fits} promises false; OCO plays {sorted(rounds)} rounds whatever the weights sum to"
    return Outcome(said, false == 0 and len(rounds) == 1 and rounds != {1})


def resubstitution() -> Outcome:
    """Choose the mixture for the worst group by rows that were fitted on, and by losses out of fold."""
    rng = np.random.default_rng(0)
    group = rng.integers(0, 3, 3000)
    X = np.c_[rng.normal(size=(3000, 8)), group]
    y = (rng.random(3000) < 1 / (1 + np.exp(0.3 * group - X[:, 1] - 1.5 * X[:, 0] * (1 - group)))).astype(int)
    seen, fresh = np.arange(3000) < 1500, np.arange(3000) >= 1500
    clf = tb.AdaLPBoostClassifier(alpha=0.5, random_state=0).fit(X[seen], y[seen])
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        again = clf.reweight(X[seen], y[seen], objective="worst_group", groups=group[seen])
    warned = any(issubclass(w.category, tb.ResubstitutionWarning) for w in told)
    kept = clf.reweight(objective="worst_group", groups=group[seen])
    truth = worst(expected_losses(kept, X[fresh], y[fresh]), group[fresh])
    said = (
        f"on rows fitted on {again.summary_.achieved:.3f}{', with a warning' if warned else ''}; by losses "
        f"out of fold {kept.summary_.achieved:.3f}, fresh rows {truth:.3f}"
    )
    return Outcome(said, warned and abs(kept.summary_.achieved - truth) < 0.05)


def verdicts() -> Outcome:
    """Read the verdict where the best that λ can do ignores the features, and where targets differ."""
    bad, worst_difference = 0, 0.0
    for seed in range(12):
        rng = np.random.default_rng(seed)
        group = rng.integers(0, 3, 600)
        X = np.c_[rng.normal(size=(600, 4)), group]
        y = (rng.random(600) < 1 / (1 + np.exp(1.8 - X[:, 1] - 2 * X[:, 0] * (1 - group)))).astype(int)
        clf = tb.GroupDROBoostClassifier(random_state=0, n_estimators=10).fit(X, y, groups=group)
        found, truth = clf.summary_, of_constants(y, group)
        worst_difference = max(worst_difference, abs(found.constants_value - truth))
        bad += "true mixture" in found.verdict and found.achieved >= truth - 1e-7
    X, y = blobs(600, 3, 3, 1.0, 0.1, 5)
    aimed = tb.WorstClassBoostClassifier(
        max_error={0: 0.1, None: 0.8}, class_loss="error", random_state=0, n_estimators=5
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the targets are out of reach, and the fit says so
        said = aimed.fit(X, y).summary_
    overall = np.bincount(y) / len(y) @ aimed.expected_unit_errors_
    same_scale = abs(said.achieved - overall) < 1e-7 and abs(said.coin_flip_value - 2 / 3) < 1e-7
    return Outcome(
        f"largest difference from the best mixture of constants {worst_difference:.1e}; {bad} of 12 "
        "constants called a true mixture; a verdict with targets compares "
        f"{'like with like' if same_scale else 'the overall error with something else'}",
        worst_difference < 1e-6 and not bad and same_scale,
    )


def perfect_hypothesis() -> Outcome:
    """Boost trees of depth 5 on breast cancer, where one soon makes no error."""
    X, y = load_breast_cancer(return_X_y=True)
    tree, errors, members = DecisionTreeClassifier(max_depth=5, random_state=0), [], []
    for seed in range(6):
        X_a, X_b, y_a, y_b = train_test_split(X, y, random_state=seed, stratify=y, test_size=0.4)
        ours = tb.AdaBoostClassifier(tree, n_estimators=50, random_state=0).fit(X_a, y_a)
        theirs = AdaBoostClassifier(tree, n_estimators=50, random_state=0).fit(X_a, y_a)
        errors.append([1 - c.score(X_b, y_b) for c in (ours, theirs, tree.fit(X_a, y_a))])
        members.append(len(ours.estimators_))
    ours, theirs, single = np.mean(errors, axis=0)
    said = f"test error {ours:.3f} with {np.mean(members):.0f} members, scikit-learn {theirs:.3f}, "
    said += f"a tree {single:.3f}"
    return Outcome(said, ours <= theirs + 0.01 and np.mean(members) > 1)


def votes_on_noise() -> Outcome:
    """Bound the vote of 40,000 one-feature stumps on labels thrown by a coin."""
    rng, n, d = np.random.default_rng(0), 2000, 40_000
    y, y_new = np.repeat([-1, 1], n // 2), np.repeat([-1, 1], n // 2)
    f, f_new = np.zeros(n), np.zeros(n)
    for _ in range(d // 1000):
        X, X_new = (2.0 * rng.integers(0, 2, (n, 1000)) - 1 for _ in range(2))
        sign = np.where(y @ X > 0, 1.0, -1.0)
        f, f_new = f + X @ sign, f_new + X_new @ sign
    error = worst((np.sign(f_new) != y_new).astype(float), y_new)
    shares = (1 + y * f / d) / 2
    bound = worst_class_margin_bound(y, shares, np.sqrt(2 * np.log(2 * d)))
    gone = not hasattr(tb.robustness, "worst_class_generalization_bound")
    return Outcome(f"bound {bound:.3f}, error on fresh rows {error:.3f}", gone and bound >= error)


def ball() -> Outcome:
    """Count how often the ball of the radius holds the distribution that the rows were drawn from."""
    rng, n, atoms = np.random.default_rng(0), 200, 10
    true, radius = np.full(atoms, 1 / atoms), tb.robustness.dro_radius(n)
    seen = rng.multinomial(n, true, size=4000) / n
    with np.errstate(divide="ignore"):
        held = float(np.mean((true * np.log(true / seen)).sum(axis=1) <= radius))
    # What is said instead, for one mean: the means over the ball are an interval that holds the true mean.
    values, covered = np.arange(atoms), 0
    for p in seen[:300]:
        top, bottom = (_largest_mean(p, sign * values, radius) for sign in (1, -1))
        covered += -bottom <= true @ values <= top
    docs = [tb.robustness.dro_radius.__doc__ or "", tb.DROBoostClassifier.__doc__ or ""]
    denied = all(
        re.search(r"\b(not|no\s+)\S*\s*(a\s+)?ball that holds\s+the true", " ".join(doc.split()))
        for doc in docs
    )
    return Outcome(
        f"{'denied' if denied else 'not denied'}; the ball held the distribution in {held:.3f} of samples, "
        f"and the interval of the means in it the true mean in {covered / 300:.3f} (.95 is said)",
        denied and held < 0.2 and 0.9 < covered / 300 < 0.99,
    )


def _largest_mean(p: Any, values: Any, radius: float) -> float:
    """Return the largest mean within KL(w ‖ p) ≤ radius: exponential tilting, bisection on its strength."""
    low, high = 0.0, 50.0
    for _ in range(60):
        theta = (low + high) / 2
        w = p * np.exp(theta * (values - values.max()))
        w /= w.sum()
        used = w > 0
        low, high = (theta, high) if w[used] @ np.log(w[used] / p[used]) < radius else (low, theta)
    return float(w @ values)


def ahead_on_noise() -> Outcome:
    """Compare fourteen of one kind with three of another on tables of noise, at a family error of 5 %."""

    def trees(title: str, ours: bool, depths: Any) -> list[Method]:
        named = [(f"{title}{depth}", depth) for depth in depths]
        return [
            Method(name, name, "", lambda d=d: DecisionTreeClassifier(max_depth=d, random_state=d), ours=ours)
            for name, d in named
        ]

    methods = [*trees("ours", True, range(1, 15)), *trees("plain", False, (2, 5, 9))]
    ahead = 0
    for seed in range(10):
        rng = np.random.default_rng(seed)
        X, y = rng.normal(size=(120, 4)), rng.integers(0, 2, 120)
        document = compare(X, y, methods=methods, repeats=5, random_state=seed, n_jobs=1).document
        ahead += any(d.verdict in ("ahead", "behind") for _, row in Reading(document).duels for d in row)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        X, y = blobs(200, 3, 2, 1.0, 0.2, 0)
        tb.RegularizedLPBoostClassifier(DecisionTreeClassifier(max_depth=2), beta=1e4, n_estimators=3).fit(
            X, y
        )
    try:
        tb.metrics.cvar([0.0, 1.0], True)
        refused = False
    except (TypeError, ValueError):
        refused = True
    said = f"a winner on {ahead} of 10 tables of noise; no overflow at β = 10⁴; cvar(alpha=True) "
    return Outcome(said + ("refused" if refused else "taken"), ahead <= 2 and refused)


def optimism() -> Outcome:
    """Compare the value λ was chosen by, and the upper end beside it, with fresh rows, over random tables."""
    over, above = [], 0
    for seed in range(10):
        X, y = blobs(1000, 4, 4, 0.8, 0.1, seed)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            clf = tb.WorstClassBoostClassifier(
                DecisionTreeClassifier(max_depth=3), class_loss="error", n_estimators=8, random_state=0
            ).fit(X[:300], y[:300])
        truth = worst(expected_losses(clf, X[300:], y[300:]), y[300:])
        over.append(truth - clf.summary_.achieved)
        above += truth > (1.0 if clf.summary_.upper is None else clf.summary_.upper)
    said = f"fresh rows {np.mean(over):+.3f} over the value achieved, above its upper end in {above} of 10"
    return Outcome(said, above <= 2)


ITEMS: dict[str, tuple[str, Callable[[], Outcome]]] = {
    "A.1 outliers": ("CVaR = 0 on the 400 training rows; the truth is .475", outliers),
    "A.2 light weights": ("50 of 480 promises false; OCO played one round with weights 1/n", light_weights),
    "A.3 resubstitution": (".0159 on the training rows, no word; fresh rows .407", resubstitution),
    "A.4 verdicts": ("1 − 1/K called the best mixture of constants; a constant a true mixture", verdicts),
    "A.5 perfect hypothesis": (".079 with one member, scikit-learn .064, a tree .056", perfect_hypothesis),
    "A.6 vote bound": ("bound .309 for a vote whose true error is .5", votes_on_noise),
    "A.7 ball": ("a ball that holds the true distribution; it did in 7.3 % of samples", ball),
    "A.8 noise": (
        "ahead on 4 of 10 tables of noise; overflow at β = 10⁴; cvar(alpha=True) taken",
        ahead_on_noise,
    ),
    "A.9 optimism": ("the value on the rows of the choice, no word on fresh rows", optimism),
}


def main() -> int:
    """Run all items and return how many fail."""
    failed = 0
    for name, (before, run) in ITEMS.items():
        began = time.perf_counter()
        outcome = run()
        failed += not outcome.holds
        print(f"{'holds' if outcome.holds else 'FAILS'}  {name} ({time.perf_counter() - began:.1f} s)")
        print(f"       said before: {before}\n       now: {outcome.now}", flush=True)
    return failed


if __name__ == "__main__":
    sys.exit(main())
