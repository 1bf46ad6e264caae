"""False alarms and delays of the watch, beside CUSUM charts tuned to the same rate of false alarms.

    python benchmarks/watch.py [--years N] [--out FILE]

A model is watched by three bounds: class A errs on 20 % (500 rows of it a month), class B on 10 % (1,500
rows), all rows on 12.5 %. False alarms: any in twelve months in which nothing changes and the errors are
exactly the bounds. Delay: months until the first alarm after class A's error rose to 25 %, from 20 % or from
15 %, at the begin, after six months and after two years. The charts know the change they look for
(log-likelihood ratios, by month); their common limit is simulated so that any of the three is false in 5 %
of the years, and in as many as the watch is.

Rates: a share answered "yes" of at most 30 %, of 2,000 rows a month, and a gap between two groups (1,500 and
500 rows) of at most 5 points; without a change both are just that, after one the smaller group's share is 5
points higher still.
"""

from __future__ import annotations

import argparse
import json
import platform
from pathlib import Path

import numpy as np

from tailboost.guarantees.recheck import Bets, Claim
from tailboost.rates import Sample
from tailboost.rates.bounds import Evidence

ROWS, BOUNDS, RISEN = (500, 1500, 2000), (0.2, 0.1, 0.125), (0.25, 0.125, 0.15)
CONFIDENCE, MONTHS, LATER, SEED = 0.95, 12, 48, 0


def errors_of(rng, years, months, change=None, before=0.2):
    """Errors by year, month and bound; class A's error is 25 % from a month on."""
    rate = np.full(months, before)
    if change is not None:
        rate[change:] = 0.25
    a = rng.binomial(ROWS[0], rate, (years, months))
    b = rng.binomial(ROWS[1], 0.1, (years, months))
    return np.stack([a, b, a + b], axis=2)


def watch(errors):
    """First month with an alarm in each year; as many months as there are without one."""
    limit = len(BOUNDS) / (1 - CONFIDENCE)
    first = np.full(len(errors), errors.shape[1])
    for year, months in enumerate(errors):
        found = [Evidence.against(bound) for bound in BOUNDS]
        for month, counts in enumerate(months):
            found = [
                each.add(np.repeat([1.0, 0.0], [k, n - k]))
                for each, k, n in zip(found, counts, ROWS, strict=True)
            ]
            if max(each.value for each in found) >= limit:
                first[year] = month
                break
    return first


def charts(errors):
    """Largest chart of each month, (years, months)."""
    p, q, n = (np.array(values) for values in (BOUNDS, RISEN, ROWS))
    gains = errors * np.log(q / p) + (n - errors) * np.log((1 - q) / (1 - p))
    level, found = np.zeros(gains[:, 0].shape), []
    for month in range(gains.shape[1]):
        level = np.maximum(0.0, level + gains[:, month])
        found.append(level.max(axis=1))
    return np.stack(found, axis=1)


def passed(levels, limit):
    """First month above a limit in each year; as many months as there are without one."""
    above = levels >= limit
    return np.where(above.any(axis=1), above.argmax(axis=1), levels.shape[1])


def watch_rates(rng, years, months, change=None):
    """First month with an alarm on the share or the gap in each year; as many as there are without one."""
    claims = [Claim("mean", (None,), upper=0.3), Claim("gap", ("a", "b"), upper=0.05)]
    limit, first = len(claims) / (1 - CONFIDENCE), np.full(years, months)
    for year in range(years):
        found = [Bets() for _ in claims]
        for month in range(months):
            later = change is not None and month >= change
            units = {"a": rng.random(1500) < 0.2875, "b": rng.random(500) < 0.3375 + 0.05 * later}
            units[None] = np.concatenate([units["a"], units["b"]])
            samples = {k: Sample(k, np.arange(len(v)), v.astype(float), 0.0, 1.0) for k, v in units.items()}
            found = [
                bets.add(claim, [samples[unit] for unit in claim.units])
                for bets, claim in zip(found, claims, strict=True)
            ]
            if max(bets.value for bets in found) >= limit:
                first[year] = month
                break
    return first


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--years", type=int, default=2000)
    parser.add_argument("--out", type=Path)
    given = parser.parse_args()
    rng, years = np.random.default_rng(SEED), given.years
    quiet = errors_of(rng, years, MONTHS)
    false = float((watch(quiet) < MONTHS).mean())
    largest = charts(errors_of(rng, 200_000, MONTHS)).max(axis=1)
    limits = {
        "5 %": float(np.quantile(largest, 0.95)),
        "as often": float(np.quantile(largest, 1 - max(false, 1e-4))),
    }
    document = {
        "versions": {"python": platform.python_version(), "numpy": np.__version__},
        "years": years,
        "false_alarms": {"watch": false, **{k: float((largest >= h).mean()) for k, h in limits.items()}},
        "delays": [],
    }
    for before, change in ((0.2, 0), (0.2, 6), (0.2, 24), (0.15, 6), (0.15, 24)):
        errors = errors_of(rng, years // 4, change + LATER, change, before)
        levels = charts(errors)
        first = {"watch": watch(errors)} | {f"CUSUM, {k}": passed(levels, h) for k, h in limits.items()}
        for name, months in first.items():
            late = months[months >= change] - change + 1
            row = {"from": before, "after": change, "by": name, "median": float(np.median(late))}
            row |= {"mean": round(float(late.mean()), 3), "p90": float(np.quantile(late, 0.9))}
            document["delays"].append(row | {"false_before": float((months < change).mean())})
    quiet = watch_rates(np.random.default_rng(SEED), years, MONTHS)
    document["false_alarms"]["rates"] = float((quiet < MONTHS).mean())
    for change in (0, 6):
        months = watch_rates(np.random.default_rng(SEED + 1 + change), years // 4, change + LATER, change)
        late = months[months >= change] - change + 1
        row = {"of": "share and gap", "after": change, "by": "watch", "median": float(np.median(late))}
        row |= {"mean": round(float(late.mean()), 3), "p90": float(np.quantile(late, 0.9))}
        document["delays"].append(row | {"false_before": float((months < change).mean())})
    for row in document["delays"]:
        print(row)
    print(document["false_alarms"])
    if given.out:
        given.out.write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
