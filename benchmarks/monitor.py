"""False alarms and delays of the monitor, beside CUSUM charts with the same rate of false alarms.

    python benchmarks/monitor.py [--years N] [--out FILE]

Three bounds are monitored: an error of .20 in class A (500 rows a month), of .10 in class B (1,500 rows), and
of .125 overall. False alarms: years of twelve months without a change, in which all errors equal their
bounds, with any alarm. Delay: months until the first alarm after the error of class A rose to .25, from .20
or .15, at the start, after six months or after two years. The charts use the true change (log-likelihood
ratios by month). Their limit is simulated: a false alarm in 5 % of the years, or in as many as the monitor.

Rates: at most .30 predictions "yes" among 2,000 rows a month, and a gap of at most .05 between two groups
(1,500 and 500 rows). Without a change both equal their limits. The change raises the rate of the smaller
group by .05.
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
    """Return errors by year, month and bound; the error rate of class A is .25 from a month on."""
    rate = np.full(months, before)
    if change is not None:
        rate[change:] = 0.25
    a = rng.binomial(ROWS[0], rate, (years, months))
    b = rng.binomial(ROWS[1], 0.1, (years, months))
    return np.stack([a, b, a + b], axis=2)


def alarms(errors):
    """Return the first month with an alarm in each year; the number of months if there is none."""
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
    """Return the largest chart of each month, years × months."""
    p, q, n = (np.array(values) for values in (BOUNDS, RISEN, ROWS))
    gains = errors * np.log(q / p) + (n - errors) * np.log((1 - q) / (1 - p))
    level, found = np.zeros(gains[:, 0].shape), []
    for month in range(gains.shape[1]):
        level = np.maximum(0.0, level + gains[:, month])
        found.append(level.max(axis=1))
    return np.stack(found, axis=1)


def passed(levels, limit):
    """Return the first month above a limit in each year; the number of months if there is none."""
    above = levels >= limit
    return np.where(above.any(axis=1), above.argmax(axis=1), levels.shape[1])


def alarms_of_rates(rng, years, months, change=None):
    """Return the first month with an alarm of the rate or the gap in each year."""
    claims = [Claim("mean", (None,), upper=0.3), Claim("gap", ("a", "b"), upper=0.05)]
    limit, first = len(claims) / (1 - CONFIDENCE), np.full(years, months)
    for year in range(years):
        found = [Bets() for _ in claims]
        for month in range(months):
            later = change is not None and month >= change
            groups = {"a": rng.random(1500) < 0.2875, "b": rng.random(500) < 0.3375 + 0.05 * later}
            groups[None] = np.concatenate([groups["a"], groups["b"]])
            samples = {k: Sample(k, np.arange(len(v)), v.astype(float), 0.0, 1.0) for k, v in groups.items()}
            found = [
                bets.add(claim, [samples[name] for name in claim.subgroups])
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
    false = float((alarms(quiet) < MONTHS).mean())
    largest = charts(errors_of(rng, 200_000, MONTHS)).max(axis=1)
    limits = {
        "5 %": float(np.quantile(largest, 0.95)),
        "as often": float(np.quantile(largest, 1 - max(false, 1e-4))),
    }
    document = {
        "versions": {"python": platform.python_version(), "numpy": np.__version__},
        "years": years,
        "false_alarms": {"monitor": false, **{k: float((largest >= h).mean()) for k, h in limits.items()}},
        "delays": [],
    }
    for before, change in ((0.2, 0), (0.2, 6), (0.2, 24), (0.15, 6), (0.15, 24)):
        errors = errors_of(rng, years // 4, change + LATER, change, before)
        levels = charts(errors)
        first = {"monitor": alarms(errors)} | {f"CUSUM, {k}": passed(levels, h) for k, h in limits.items()}
        for name, months in first.items():
            late = months[months >= change] - change + 1
            row = {"from": before, "after": change, "by": name, "median": float(np.median(late))}
            row |= {"mean": round(float(late.mean()), 3), "p90": float(np.quantile(late, 0.9))}
            document["delays"].append(row | {"false_before": float((months < change).mean())})
    quiet = alarms_of_rates(np.random.default_rng(SEED), years, MONTHS)
    document["false_alarms"]["rates"] = float((quiet < MONTHS).mean())
    for change in (0, 6):
        months = alarms_of_rates(np.random.default_rng(SEED + 1 + change), years // 4, change + LATER, change)
        late = months[months >= change] - change + 1
        row = {"of": "rate and gap", "after": change, "by": "monitor", "median": float(np.median(late))}
        row |= {"mean": round(float(late.mean()), 3), "p90": float(np.quantile(late, 0.9))}
        document["delays"].append(row | {"false_before": float((months < change).mean())})
    for row in document["delays"]:
        print(row)
    print(document["false_alarms"])
    if given.out:
        given.out.write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
