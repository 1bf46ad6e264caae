"""How many planted weak regions `tailboost.WeakRegions` finds, by rows and excess error.

    python benchmarks/weak_regions.py

Each table has ten features and one region with two conditions and about 16 % of the rows. A region counts as
found if one returned region and the planted one share at least half of their united rows (Jaccard index).
"""

from __future__ import annotations

import numpy as np

import tailboost as tb

TABLES = 100


def one(n: int, excess: float, seed: int) -> tuple[bool, int]:
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 10))
    weak = (X[:, 0] > 0.25) & (X[:, 1] < 0.15 - 0.4 * (seed % 2))
    errors = rng.random(n) < 0.1 + excess * weak
    regions = tb.WeakRegions(random_state=seed).fit(X, errors)
    names = regions.transform(X)
    shares = [np.mean(weak & (names == r.name)) / np.mean(weak | (names == r.name)) for r in regions.regions_]
    return max(shares, default=0.0) >= 0.5, len(regions.regions_)


def main() -> None:
    print("rows   excess  found  regions per table")
    for n in (1000, 4000, 16000):
        for excess in (0.0, 0.05, 0.1, 0.2):
            results = [one(n, excess, seed) for seed in range(TABLES)]
            share = f"{np.mean([hit for hit, _ in results]):.2f}" if excess else "  – "
            print(
                f"{n:5d}  {excess:6.2f}  {share:>5}  {np.mean([count for _, count in results]):.2f}",
                flush=True,
            )


if __name__ == "__main__":
    main()
