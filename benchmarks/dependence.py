"""False certificates of `tailboost.calibrate` where rows, groups or parts of a batch depend on each other.

    python benchmarks/dependence.py --draws 1000 --out benchmarks/dependence.json

Every rule that can be certified is at the boundary: its true rate breaks the limit by `BEYOND`. So each
certificate of such a rule is false, and with 95 % confidence at most 5 % of the draws may have one.

* *One batch.* The label is a coin, so all thresholds have the same precision. Groups divide the score into
  bins. If the selecting rows were drawn evenly from each class and group, the threshold with the best
  precision on them would also look good on the others.
* *Rarest group.* A rule gives one of many equal groups to human review: the group that is rarest among the
  selecting rows of a batch. The draw is that of `calibrate`; the rule and its test are made here.
* *Human review of a group.* The same from end to end: the label is a coin and all scores are equal, so a
  rule by group gains by human review of a group; the share of each group is beyond the limit.
* *Clusters.* Each person has a row in group a and one in group b, with opposite scores. Scores of b are
  shifted, so all common thresholds have the same gap of selection; for thresholds by group the best gap is
  beyond the limit.
"""

from __future__ import annotations

import argparse
import copy
import json
import time
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from scipy.stats import binomtest

import tailboost as tb
from tailboost.classifiers.calibrating import drawn_part, random_places
from tailboost.guarantees.path import TighterRules
from tailboost.rates.bounds import clopper_pearson_upper
from tailboost.rows.judged import judged

BEYOND = 1e-4  # by which the rules break the limit
LEVEL = 0.05


def one_batch(groups: int, n: int, share: float, seed: int) -> bool:
    """Return whether a precision is certified whose limit all thresholds break."""
    rng = np.random.default_rng(seed)
    u = rng.random(n)
    table, y = pd.DataFrame({"s": 0.2 + 0.6 * u}), (rng.random(n) < 0.5).astype(int)
    given = {"groups": (u * groups).astype(int), "selection_share": share, "random_state": seed}
    limits = [f"precision(1) >= {0.5 + BEYOND}"]
    return certified(lambda: tb.calibrate(tb.Scores("s", 1), table, y, limits=limits, attempts=1, **given))


def rarest_group(groups: int, n: int, seed: int) -> bool:
    """Return whether the rarest group of the selecting rows is certified to be rarer than it is."""
    g = np.random.default_rng(seed).integers(groups, size=n)
    selects = drawn_part(random_places(np.arange(n), seed), 0.3)
    group = np.bincount(g[selects], minlength=groups).argmin()
    fresh = g[~selects]
    return clopper_pearson_upper(int((fresh == group).sum()), len(fresh), LEVEL) < 1.0 / groups


def deferred_group(groups: int, n: int, seed: int) -> bool:
    """Return whether human review of a whole group is certified to be rarer than it is."""
    rng = np.random.default_rng(seed)
    g, y = rng.integers(groups, size=n), rng.integers(2, size=n)
    table = pd.DataFrame({"s": np.full(n, 0.5)})
    given = {"groups": g, "by_group": True, "selection_share": 0.3, "random_state": seed}
    limits = [f"deferred() <= {1.0 / groups - BEYOND}"]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        try:
            rule = tb.calibrate(tb.Scores("s", 1), table, y, limits=limits, attempts=1, **given)
        except tb.NotCertifiedError:
            return False
    every = table[:groups]
    return bool(judged(rule).can_defer and rule.defers(every, groups=np.arange(groups)).any())


def persons(n: int, shift: float, rng: Any) -> tuple[Any, Any, Any, Any]:
    """Return two rows of each of n persons with opposite scores, those of group b lower by a shift."""
    u = rng.random(n)
    x = np.r_[u, 1.0 - u - shift]
    g, s = np.repeat(["a", "b"], n), (x + shift) / (1.0 + shift)
    y = (rng.random(2 * n) < s).astype(int)
    return pd.DataFrame({"s": s}), y, g, np.tile(np.arange(n), 2)


@contextmanager
def one_path(by_group: bool) -> Iterator[None]:
    """Make the path of rules of a setting once: fresh rows count in it by their number alone."""
    made = TighterRules.from_the_likeliest

    def remembered(rules: TighterRules) -> list[Any]:
        if by_group not in PATHS:
            PATHS[by_group] = made(rules)
        return PATHS[by_group]

    TighterRules.from_the_likeliest = remembered  # type: ignore[method-assign]
    try:
        yield
    finally:
        TighterRules.from_the_likeliest = made  # type: ignore[method-assign]


PATHS: dict[bool, list[Any]] = {}
MODELS: dict[Any, Any] = {}  # selected rules by setting: the fresh rows differ, not the selection


def clusters(by_group: bool, n: int, seed: int) -> bool:
    """Return whether a gap is certified that is beyond its limit."""
    shift = 0.3
    bound = shift - BEYOND
    stated = f"gap(selected(1, by=group)) <= {bound}"
    if by_group not in MODELS:
        T, y, g, _ = persons(60, shift, np.random.default_rng(0))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)
            MODELS[by_group] = tb.tune(tb.Scores("s", 1), T, y, groups=g, by_group=by_group, limits=[stated])
    T, y, g, person = persons(n, shift, np.random.default_rng(1 + seed))
    found: list[Any] = []

    def call() -> None:
        model = copy.deepcopy(MODELS[by_group])
        found.append(tb.calibrate(model, T, y, groups=g, clusters=person, attempts=1))

    with one_path(by_group):
        passed = certified(call)
    if not passed:
        return False
    grid = np.linspace(0.0, 1.0, 20_001)
    a, b = (
        found[0].predict(
            pd.DataFrame({"s": grid}), **({"groups": np.repeat(k, len(grid))} if by_group else {})
        )
        for k in "ab"
    )
    in_a, in_b = grid * (1.0 + shift) - shift >= 0.0, grid * (1.0 + shift) <= 1.0
    return bool(abs(a[in_a].mean() - b[in_b].mean()) > bound - 1e-3)


def certified(call: Any) -> bool:
    """Return whether a call certifies; other errors of a draw are raised."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        try:
            call()
        except tb.NotCertifiedError:
            return False
    return True


SETTINGS = {
    "one batch, precision, 10 groups, 3,000 rows, share .1": lambda seed: one_batch(10, 3000, 0.1, seed),
    "one batch, precision, 20 groups, 2,000 rows, share .1": lambda seed: one_batch(20, 2000, 0.1, seed),
    "one batch, precision, 10 groups, 1,000 rows, share .3": lambda seed: one_batch(10, 1000, 0.3, seed),
    "one batch, rarest of 20 groups, 2,000 rows": lambda seed: rarest_group(20, 2000, seed),
    "one batch, rarest of 4 groups, 2,000 rows": lambda seed: rarest_group(4, 2000, seed),
    "one batch, human review of one of 20 groups, 2,000 rows": lambda seed: deferred_group(20, 2000, seed),
    "one batch, human review of one of 4 groups, 2,000 rows": lambda seed: deferred_group(4, 2000, seed),
    "clusters, gap, common threshold, 300 persons": lambda seed: clusters(False, 300, seed),
    "clusters, gap, thresholds by group, 300 persons": lambda seed: clusters(True, 300, seed),
}


def main() -> None:
    """Run the settings and write the record."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--draws", type=int, default=1000)
    parser.add_argument("--only", nargs="+", choices=list(SETTINGS), default=list(SETTINGS))
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--out", type=Path)
    arguments = parser.parse_args()
    found = []
    for name in arguments.only:
        began, of = time.process_time(), range(arguments.first, arguments.first + arguments.draws)
        false = sum(SETTINGS[name](seed) for seed in of)
        p = binomtest(false, arguments.draws, LEVEL, alternative="greater").pvalue
        found.append({"setting": name, "draws": arguments.draws, "false": false, "p": round(float(p), 4)})
        print(found[-1], round(time.process_time() - began, 1), flush=True)
    if arguments.out:
        record = {"command": f"python benchmarks/dependence.py --draws {arguments.draws}", "settings": found}
        text = json.dumps(record, indent=1, ensure_ascii=False)
        arguments.out.write_text(text + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
