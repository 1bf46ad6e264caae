"""False certificates of `calibrate` where it chooses: kinds of rules, procedures, several limits.

    python benchmarks/choice_validity.py --draws 1000    write benchmarks/choice_validity.json

A population is a finite table. Fresh rows are drawn from it with replacement, so that draws are independent
and the true rates are those of the table, without error. Each draw is one call of `calibrate` at 95 % with
one batch: it selects, chooses the kind of the rule, and certifies. A certificate is false if the rule breaks
a stated limit on the table. At most 5 % of the calls may give a false one; refusals count as calls. Limits
lie where a good part of the calls is certified. ``p`` is the binomial probability of so many false
certificates if 5 % were true.
"""

from __future__ import annotations

import argparse
import json
import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from scipy.special import expit
from scipy.stats import binom
from sklearn.linear_model import LogisticRegression

import tailboost as tb
from tailboost import rates
from tailboost.exceptions import InfeasibleLimitsError, NotCertifiedError

RECORD = Path(__file__).with_suffix(".json")
CONFIDENCE, ROWS, FITTED = 0.95, 20_000, 3_000


@dataclass(frozen=True)
class Population:
    """A finite table: features, label, columns of groups and household of each row."""

    X: pd.DataFrame
    y: Any
    groups: pd.DataFrame
    households: Any


@dataclass(frozen=True)
class Setting:
    """A population, what `calibrate` is asked, and how many rows or households a draw has."""

    name: str
    make: Callable[[], Population]
    limits: tuple[str, ...]
    n: int
    options: tuple[tuple[str, Any], ...] = ()
    score: bool = False  # a column of scores instead of a model
    clusters: bool = False  # whole households are drawn


def population(
    seed: int,
    *,
    told: float = 0.0,
    shift: float = 1.5,
    digits: int | None = None,
    sizes: tuple[float, ...] = (0.6, 0.4),
    alike: bool = False,
) -> Population:
    """Draw a table; ``told`` is how far features tell the group, ``digits`` rounds all features."""
    rng = np.random.default_rng([seed, 5])
    n = ROWS + FITTED
    households = np.arange(n) // 3
    u = rng.normal(size=(n, 3))
    if alike:
        u = u[(households * 3)[:, None].clip(0, n - 1), [0, 1, 2]]
    g = rng.choice(len(sizes), n, p=sizes)
    p = expit(u @ [1.2, -1.0, 0.8] - 0.3 - shift * (g == len(sizes) - 1))
    y = (rng.random(n) < p).astype(int)
    if alike:
        y = y[households * 3]
    X = np.column_stack([u, told * g[:, None] + rng.normal(size=(n, 2))])
    X = pd.DataFrame(X if digits is None else X.round(digits)).add_prefix("x")
    area = rng.integers(0, 3, n)
    return Population(X, y, pd.DataFrame({"sex": g, "area": area}), households)


def settings() -> list[Setting]:
    """Return the settings."""
    told = dict(told=1.8, shift=2.0)
    weak = dict(told=0.6, shift=1.0)
    tiny = dict(told=1.0, shift=1.0, sizes=(0.57, 0.4, 0.03))
    miss = ("miss(1, by=sex) <= .3",)
    both = ("miss(1, by=sex) <= .35", "false_alarm(1, by=sex) <= .35")
    review = ("miss(1, by=sex) <= .2", "selected(1) <= .5", "deferred <= .25")

    def made(seed: int, **how: Any) -> Callable[[], Population]:
        return lambda: population(seed, **how)

    return [
        Setting("told group, misses", made(1, **told), miss, 600),
        Setting("told group, whole numbers, misses", made(2, **told, digits=0), miss, 600),
        Setting("group unknown to the features, both errors", made(3, shift=1.0), both, 1_000),
        Setting("the same, whole numbers", made(4, shift=1.0, digits=0), both, 1_000),
        Setting("weakly told, ratio", made(5, **weak), ("ratio(selected(1, by=sex)) >= .7",), 1_500),
        Setting("weakly told, whole numbers, both errors", made(6, **weak, digits=0), both, 1_000),
        Setting("a group of 3 %, misses", made(7, **tiny), miss, 1_500),
        Setting("score, three limits and review", made(8, shift=1.0), review, 1_200, score=True),
        Setting(
            "one column of two may be read",
            made(9, shift=1.0),
            ("miss(1, by=sex) <= .3", "false_alarm(1, by=area) <= .4"),
            1_200,
            (("by_group", "sex"),),
        ),
        Setting(
            "thresholds by group, few values, gap",
            made(10, shift=1.0, digits=0),
            ("gap(selected(1, by=sex)) <= .1",),
            1_200,
            (("by_group", "sex"),),
        ),
        Setting(
            "score, whole numbers, three limits and review",
            made(11, shift=1.0, digits=0),
            review,
            1_200,
            score=True,
        ),
        Setting(
            "households that agree, misses and selection",
            made(12, shift=0.5, alike=True),
            ("miss(1, by=sex) <= .35", "selected(1) <= .6"),
            400,
            clusters=True,
        ),
    ]


def run(setting: Setting, draws: int) -> dict[str, Any]:
    """Return how many calls were certified, and how many certificates were false."""
    whole = setting.make()
    model = LogisticRegression().fit(whole.X[:FITTED], whole.y[:FITTED])
    X = whole.X[FITTED:].reset_index(drop=True)
    if setting.score:
        X = pd.DataFrame({"p": model.predict_proba(X)[:, 1]})
        model = tb.Scores("p", 1)
    y = whole.y[FITTED:]
    groups = whole.groups[FITTED:].reset_index(drop=True)
    households = whole.households[FITTED:] - whole.households[FITTED]
    rows_of = [np.flatnonzero(households == each) for each in range(households.max() + 1)]
    stated = [rates.parse(text) for text in setting.limits]
    certified = false = refused = 0
    start = time.perf_counter()
    for draw in range(draws):
        rng = np.random.default_rng([draw, 9])
        options: dict[str, Any] = dict(setting.options)
        if setting.clusters:
            chosen = rng.integers(0, len(rows_of), setting.n)
            rows = np.concatenate([rows_of[each] for each in chosen])
            options["clusters"] = np.repeat(np.arange(setting.n), [len(rows_of[each]) for each in chosen])
        else:
            rows = rng.integers(0, len(y), setting.n)
        try:
            rule = tb.calibrate(
                model,
                X.iloc[rows].reset_index(drop=True),
                y[rows],
                groups=groups.iloc[rows].reset_index(drop=True),
                limits=list(setting.limits),
                objective="error",
                confidence=CONFIDENCE,
                equal_rows="natural",
                random_state=draw,
                **options,
            )
        except (NotCertifiedError, InfeasibleLimitsError):
            refused += 1
            continue
        except ValueError as failure:  # a small group has no row among those that select
            if "No rule was tested" not in str(failure):
                raise
            refused += 1
            continue
        certified += 1
        false += breaks(rule, X, y, groups, stated)
    return {
        "setting": setting.name,
        "limits": list(setting.limits),
        "rows": setting.n,
        "draws": draws,
        "certified": certified,
        "refused": refused,
        "false": false,
        "p": float(binom.sf(false - 1, draws, 1.0 - CONFIDENCE)),
        "seconds": round(time.perf_counter() - start, 1),
    }


def breaks(rule: Any, X: Any, y: Any, groups: pd.DataFrame, limits: list[Any]) -> bool:
    """Return whether a rule breaks a limit on the population."""
    given = {"groups": groups} if rule.by_group else {}
    answers = rule.predict(X, **given)
    reviewed = any(limit.rate.kind == "deferred" for limit in limits)
    deferred = rule.defers(X, **given) if reviewed else np.zeros(len(y), dtype=bool)
    for limit in limits:
        rate = limit.rate
        rows = np.ones(len(y), dtype=bool)
        if rate.kind in ("miss", "false_alarm"):
            rows = (y == 1) == (rate.kind == "miss")
        if rate.kind == "miss":
            counted = (answers != 1) & ~deferred
        elif rate.kind == "deferred":
            counted = deferred
        else:
            counted = (answers == 1) & ~deferred
        of = groups[rate.by].to_numpy() if rate.by else np.zeros(len(y))
        values = [counted[rows & (of == name)].mean() for name in np.unique(of)]
        value = {"gap": np.ptp(values), "ratio": min(values) / max(max(values), 1e-12)}.get(
            limit.form, max(values)
        )
        if limit.from_above:
            broken = value > limit.bound + 1e-9
        else:
            broken = max(values) > 0 and value < limit.bound - 1e-9
        if broken:
            return True
    return False


def main() -> None:
    """Run the settings and write the record."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--draws", type=int, default=1_000)
    parser.add_argument("--only", type=int, nargs="*", help="numbers of settings, from 0")
    parser.add_argument("--out", type=Path, default=RECORD)
    args = parser.parse_args()
    warnings.simplefilter("ignore")
    done = json.loads(args.out.read_text())["settings"] if args.out.exists() and args.only else []
    for number, setting in enumerate(settings()):
        if args.only and number not in args.only:
            continue
        found = run(setting, args.draws)
        print(json.dumps(found), flush=True)
        done = [each for each in done if each["setting"] != setting.name] + [found]
    calls = sum(each["draws"] for each in done)
    record = {
        "command": f"python benchmarks/choice_validity.py --draws {args.draws}",
        "confidence": CONFIDENCE,
        "calls": calls,
        "false": sum(each["false"] for each in done),
        "smallest p": min(each["p"] for each in done),
        "settings": done,
    }
    args.out.write_text(json.dumps(record, indent=1, ensure_ascii=False) + "\n")


if __name__ == "__main__":
    main()
