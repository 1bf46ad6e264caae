"""How much less a rule that may read the group errs on new rows, beside the gains that are printed.

    python benchmarks/reading.py PART [--draws N] [--out FILE]

* "selecting": the gain of `tune` with thresholds by group on the selecting rows, and that of certificates
  from new rows, on 200,000 rows. In two of three tables, one on errors has a limit on deferral beside it.
* "certificate": the gain that a certificate estimates on its rows, and that of a certificate from new rows.
* "estimated": errors of `fit` and `calibrate` for rules that estimate the group, and for thresholds by group.

Groups have shares, frequencies, shifts and separations drawn anew for each table: two to five groups, or six
to twelve with smaller shifts. Alike groups differ in their shares alone. Rows without a certificate of either
rule are left out of "certificate".
"""

from __future__ import annotations

import argparse
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from _record import opened, rounded, write

import tailboost as tb

FURTHER = 200_000
SCORE = tb.Scores(0, 1, kind="logit")
Rows = tuple[Any, Any, Any]  # features, labels, groups


class Made:
    """A made table: normal scores of each group, and further features for rules that estimate it."""

    def __init__(self, seed: int, groups: str, *, wide: bool = False) -> None:
        many = groups == "six to twelve groups"
        self.rng = np.random.default_rng(seed)
        n_groups = int(self.rng.integers(6, 13) if many else self.rng.integers(2, 6))
        self.share = self.rng.dirichlet(np.full(n_groups, 3.0))
        self.frequency = self.rng.uniform(0.1, 0.5, n_groups)
        self.shift = self.rng.normal(0.0, 0.3 if many else self.rng.choice([0.3, 1.0]), n_groups)
        self.separation = self.rng.uniform(1.2, 2.8, n_groups)
        if groups == "alike groups":
            for of_groups in (self.frequency, self.shift, self.separation):
                of_groups[:] = of_groups[0]
        self.n = int(self.rng.choice([1_000, 2_000, 4_000]))
        limit = self.rng.choice([0.1, 0.2, 0.3])
        self.limits = [f"miss(1, by=site) <= {limit}"]
        if self.rng.random() < 0.3:
            self.limits.append("deferred() <= .1")
        self.wide = wide
        self.tells = self.rng.choice([0.0, 0.5, 1.5])
        self.has_group = self.rng.random() < 0.6

    def draw(self, n: int) -> Rows:
        """Return n rows: the score, and with ``wide`` further columns, one of which may be the group."""
        rng = self.rng
        group = rng.choice(len(self.share), n, p=self.share)
        y = (rng.random(n) < self.frequency[group]).astype(int)
        score = self.separation[group] * (y - 0.5) + self.shift[group] + rng.normal(size=n)
        site = np.array([f"s{number}" for number in range(len(self.share))])[group]
        if not self.wide:
            return score[:, None], y, site
        table = pd.DataFrame({"score": score, "weak": 0.7 * y + rng.normal(size=n)})
        table["telling"] = self.tells * group + rng.normal(size=n)
        if self.has_group:
            table["site"] = pd.Categorical(site, [f"s{i}" for i in range(len(self.share))])
        return table, y, site


def error(rule: Any, rows: Rows) -> float:
    """Return the overall error of a rule; a deferred row is no error."""
    X, y, site = rows
    given = {"groups": {"site": site}} if rule.by_group else {}
    wrong = (rule.predict(X, deferred="review", **given) != y) & ~rule.defers(X, **given)
    return float(wrong.mean())


def selecting(made: Made) -> dict[str, Any]:
    """Return the gain on the selecting rows, whether it is printed, and both certified errors."""
    X, y, site = made.draw(made.n)
    limits = made.limits[:1]
    if kind := made.rng.integers(0, 3):
        limits.append(["deferred() <= .2", "deferred(by=site) <= .2"][kind - 1])
    given = {"groups": {"site": site}, "limits": limits, "infer_groups": False}
    one = tb.tune(SCORE, X, y, **given)
    reading = tb.tune(SCORE, X, y, **given, by_group="site")
    own, other = (rule.selection_.rule.compared for rule in (one, reading))
    gain = own.selection.value - other.selection.value
    X, y, site = made.draw(made.n)
    further = made.draw(FURTHER)
    rules = [certified(rule, X, y, groups={"site": site}) for rule in (one, reading)]
    errors = [None if rule is None else error(rule, further) for rule in rules]
    return {
        "on its rows": gain,
        "is beyond noise": bool(gain > 1.96 * own.error_of_difference(other)),
        "one threshold, certified": errors[0],
        "by group, certified": errors[1],
    }


def certificate(made: Made) -> dict[str, Any] | None:
    """Return the gain estimated by a certificate, and that of thresholds by group from new rows."""
    given = {"limits": made.limits, "infer_groups": False}
    X, y, site = made.draw(made.n)
    one = certified(SCORE, X, y, groups={"site": site}, **given)
    X, y, site = made.draw(made.n)
    reading = certified(SCORE, X, y, groups={"site": site}, **given, by_group="site")
    if one is None or reading is None:
        return None
    forced = one.certificate_.forced_by
    if forced is None or forced.apart is None:
        return None
    further = made.draw(FURTHER)
    return {
        "on its rows": forced.error - forced.apart,
        "standard error": forced.apart_noise,
        "on new rows": error(one, further) - error(reading, further),
    }


def estimated(made: Made) -> dict[str, Any] | None:
    """Return the errors of fitted and certified rules; None if the fitted one estimates no group."""
    X, y, site = made.draw(made.n)
    fit = {"groups": {"site": site}}
    rule = tb.RobustMixtureClassifier(limits=made.limits, random_state=0).fit(X, y, **fit)
    if not rule.selection_.weighs_groups:
        return None
    reading = tb.RobustMixtureClassifier(limits=made.limits, random_state=0, by_group="site")
    reading.fit(X, y, **fit)
    X, y, site = made.draw(made.n)
    further = made.draw(60_000)
    found: dict[str, Any] = {"site is a feature": made.has_group}
    for name, fitted in (("estimates", rule), ("reads", reading)):
        found[f"{name}, fitted"] = error(fitted, further)
        fresh = certified(fitted, X, y, groups={"site": site})
        found[f"{name}, certified"] = None if fresh is None else error(fresh, further)
    return found


def certified(*given: Any, **options: Any) -> Any:
    """Return the certified rule of `calibrate`; None for a refusal."""
    try:
        return tb.calibrate(*given, **options)
    except (tb.NotCertifiedError, tb.InfeasibleLimitsError):
        return None


def summary(rows: list[dict[str, Any]]) -> dict[str, Any]:
    """Return how many gains were printed, and how many of these are gains on new rows, or within 95 %."""
    numbers = np.array([[*row.values()] for row in rows])
    printed = numbers[numbers[:, 0] > 1.96 * numbers[:, 1]]
    gain, noise, new = printed.T
    return {
        "tables": len(rows),
        "printed": len(printed),
        "gains on new rows": int((new > 0).sum()),
        "smaller on new rows": int((new < gain).sum()),
        "within the interval": int((np.abs(new - gain) <= 1.96 * noise).sum()),
    }


def summary_of_selecting(rows: list[dict[str, Any]]) -> dict[str, Any]:
    """Return how many certificates are better by group, with and without a gain on the selecting rows."""
    found: dict[str, Any] = {"tables": len(rows)}
    for words, is_beyond in (("gain beyond noise", True), ("no gain beyond noise", False)):
        here = [row for row in rows if row["is beyond noise"] == is_beyond]
        errors = [
            (row["on its rows"], row["one threshold, certified"], row["by group, certified"]) for row in here
        ]
        both = [triple for triple in errors if None not in triple]
        found[words] = {
            "tables": len(here),
            "both certified": len(both),
            "smaller error by group": sum(other < one for _, one, other in both),
            "gains larger than on the selecting rows": sum(a - b > gain for gain, a, b in both),
            "only by group certified": sum(a is None and b is not None for _, a, b in errors),
            "only one threshold certified": sum(b is None and a is not None for _, a, b in errors),
        }
    return found


def summary_of_estimates(rows: list[dict[str, Any]]) -> dict[str, Any]:
    """Return how many rules that estimate the group are certified at a larger error, or refused alone."""
    pairs = [(row["estimates, certified"], row["reads, certified"]) for row in rows]
    both = [(one, other) for one, other in pairs if None not in (one, other)]
    return {
        "rules": len(rows),
        "both certified": len(both),
        "larger error": sum(one > other for one, other in both),
        "only thresholds certified": sum(a is None and b is not None for a, b in pairs),
        "only the estimate certified": sum(b is None and a is not None for a, b in pairs),
        "mean error, estimates": float(np.mean([one for one, _ in both])),
        "mean error, reads": float(np.mean([other for _, other in both])),
    }


GROUPS = ("two to five groups", "six to twelve groups", "alike groups")
PARTS: dict[str, tuple[Callable[[Made], Any], Callable[[list[Any]], dict[str, Any]]]] = {
    "selecting": (selecting, summary_of_selecting),
    "certificate": (certificate, summary),
    "estimated": (estimated, summary_of_estimates),
}


def main() -> None:
    """Run one part, and write its record beside those of the others."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("part", choices=PARTS)
    parser.add_argument("--draws", type=int, default=100)
    parser.add_argument("--out", type=Path)
    arguments = parser.parse_args()
    warnings.simplefilter("ignore")
    record = opened(arguments.out, "reading")
    part, summary_of = PARTS[arguments.part]
    is_estimate = arguments.part == "estimated"
    for groups in GROUPS[:1] if is_estimate else GROUPS:
        rows = []
        for seed in range(arguments.draws):
            try:
                found = part(Made(seed, groups, wide=is_estimate))
            except tb.InfeasibleLimitsError:
                continue
            if found is not None:
                rows.append(found)
                print(*rounded(list(found.values())), flush=True)
        of_part = summary_of(rows)
        record[f"{arguments.part}, {groups}"] = rounded(of_part)
        print(of_part)
        write(record, arguments.out)


if __name__ == "__main__":
    main()
