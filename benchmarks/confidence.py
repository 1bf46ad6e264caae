"""How often rules that reach `confidence=.9` keep their limits: simulated scores with a known truth.

    python benchmarks/confidence.py [--only SETTING ...] [--draws N] [--out FILE]

In each draw, a rule is selected on n new rows of scores, with confidence .9. The limits are then measured on
a population that no draw contains. Settings have limits for which the probability is known. Settings that are
not run again keep their entry in the record.
"""

from __future__ import annotations

import argparse
import json
import platform
import warnings
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

import tailboost as tb
from tailboost import rates
from tailboost.rates import Limit
from tailboost.rows.judged import judged

CONFIDENCE, POPULATION, SEED = 0.9, 40_000, 0


@dataclass(frozen=True)
class Setting:
    """Limits, and the rows on which rules are selected."""

    n: int
    limits: tuple[Limit, ...]
    groups: int = 1
    by_group: bool = False
    digits: int | None = None


MISS, FALSE_ALARM = rates.miss("yes"), rates.false_alarm("yes")
SETTINGS = {
    "a miss rate": Setting(500, (MISS <= 0.2,)),
    "a miss rate, scores of one digit": Setting(300, (MISS <= 0.2,), digits=1),
    "miss and false alarms": Setting(2000, (MISS <= 0.3, FALSE_ALARM <= 0.3)),
    "a miss rate and deferral": Setting(500, (MISS <= 0.1, rates.deferred() <= 0.2)),
    "a miss rate in each of ten groups": Setting(
        2000, (rates.miss("yes", by="g") <= 0.3,), groups=10, by_group=True
    ),
    "a gap of selection, three groups": Setting(
        1500, (rates.gap(rates.selected("yes", by="g")) <= 0.1,), groups=3
    ),
    "odds gaps, three groups": Setting(
        1500,
        (
            rates.gap(rates.miss("yes", by="g")) <= 0.15,
            rates.gap(rates.false_alarm("yes", by="g")) <= 0.15,
        ),
        groups=3,
    ),
}


def rows(rng: np.random.Generator, n: int, setting: Setting) -> dict[str, Any]:
    """Draw scores, labels and groups."""
    group = rng.integers(0, setting.groups, n)
    positive = rng.random(n) < 0.3
    scores = 1.0 / (1.0 + np.exp(-(rng.normal(size=n) + 1.5 * positive + 0.15 * group - 1.0)))
    return {
        "X": pd.DataFrame({"s": scores if setting.digits is None else scores.round(setting.digits)}),
        "y": np.where(positive, "yes", "no"),
        "groups": {"g": np.array([f"g{i}" for i in range(setting.groups)])[group]},
    }


def keeps(setting: Setting, clf: Any, new: dict[str, Any]) -> bool:
    """Return whether a rule keeps all limits on the population."""
    by = {"groups": new["groups"]} if setting.by_group else {}
    answers, deferred = clf.predict(new["X"], **by), None
    if judged(clf).can_defer:
        deferred = clf.defers(new["X"], **by)
    for limit in setting.limits:
        found = rates.measure(
            limit.rate, new["y"], answers, groups=new["groups"], deferred=deferred, labels=clf.classes_
        )
        values = np.array(list(found.values()))
        worst = float(np.ptp(values)) if limit.compares else float(values.max())
        if worst > limit.bound:
            return False
    return True


def measured(setting: Setting, draws: int) -> dict[str, Any]:
    """Return how many rules reach the confidence, and the share of these that keep the limits."""
    population = rows(np.random.default_rng([SEED, 1]), POPULATION, setting)
    said, kept, refused = [], [], 0
    for draw in range(draws):
        new = rows(np.random.default_rng([SEED, 2, draw]), setting.n, setting)
        try:
            clf = tb.tune(
                tb.Scores("s", "yes"),
                new["X"],
                new["y"],
                groups=new["groups"] if setting.groups > 1 else None,
                by_group=setting.by_group,
                limits=list(setting.limits),
                confidence=CONFIDENCE,
            )
        except tb.InfeasibleLimitsError:
            refused += 1
            continue
        said.append(clf.limits_probability_)
        kept.append(keeps(setting, clf, population))
    probability, holds = np.array(said, float), np.array(kept, bool)
    reached = probability >= CONFIDENCE
    share = float(holds[reached].mean()) if reached.any() else None
    return {
        "n": setting.n,
        "draws": draws,
        "refused": refused,
        "said_of_all": float(np.nanmean(probability)),
        "kept_of_all": float(holds.mean()),
        "reached": int(reached.sum()),
        "said": float(probability[reached].mean()) if reached.any() else None,
        "kept": share,
        "standard_error": None if share is None else float(np.sqrt(share * (1 - share) / reached.sum())),
    }


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--only", nargs="+", choices=list(SETTINGS), default=list(SETTINGS))
    parser.add_argument("--draws", type=int, default=150)
    parser.add_argument("--out", type=Path, default=Path(__file__).with_suffix(".json"))
    given = parser.parse_args()
    warnings.simplefilter("ignore")
    found = json.loads(given.out.read_text(encoding="utf-8"))["settings"] if given.out.exists() else {}
    for name in given.only:
        found[name] = measured(SETTINGS[name], given.draws)
        print(f"{name}: {found[name]}", flush=True)
        record = {
            "python": platform.python_version(),
            "tailboost": tb.__version__,
            "confidence": CONFIDENCE,
            "population": POPULATION,
            "settings": {name: found[name] for name in SETTINGS if name in found},
        }
        given.out.write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
