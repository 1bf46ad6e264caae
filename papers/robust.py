"""Blanchet et al. 2019, A Distributionally Robust Boosting Algorithm: Table 1.

3,000 random credit default clients train, 27,000 test; trees of depth 5, exponential loss, 50 rounds. The
radius is χ²_{30; .95}/(2·3000) = .0073; larger ones stand beside it.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache, partial
from pathlib import Path
from typing import Any

import numpy as np
from common import Cells, frame, interval, options, table
from sklearn.model_selection import train_test_split
from sklearn.tree import DecisionTreeClassifier

from tailboost import published

RADII = (0.0073, 0.05, 0.2)
UCI = "https://archive.ics.uci.edu/dataset/350"
OPENML = "default-of-credit-card-clients:1"


def clients(folder: Path | None) -> tuple[Any, Any]:
    """Return the features of the clients, and 1 for a default."""
    read = frame(folder, "taiwan_credit", UCI, OPENML)
    target = "default" if "default" in read else read.columns[-1]
    return read.drop(columns=[target, *({"ID", "id"} & set(read))]).to_numpy(float), read[target].to_numpy(
        int
    )


def cell(load: Callable[[], Any], delta: float, seed: int, rounds: int) -> dict[str, list[float]]:
    """Return accuracy, true positive and false negative rate, and exponential loss on both sets of rows."""
    X, X_test, y, y_test = train_test_split(*load(), train_size=3000, random_state=seed)
    clf = published.dro_boost(DecisionTreeClassifier(max_depth=5), delta=delta, T=rounds, random_state=seed)
    clf.fit(X, y)
    found = {}
    for name, rows, labels in (("train", X, y), ("test", X_test, y_test)):
        wrong = clf.predict(rows) != labels
        loss = np.exp(-clf.decision_function(rows) * (2 * labels - 1)).mean()
        missed = wrong[labels == 1].mean()
        found[name] = [round(float(v), 5) for v in (1 - wrong.mean(), 1 - missed, missed, loss)]
    return found


def main() -> None:
    """Run the splits."""
    given = options(__doc__, ["table"], seeds=20)
    rounds = 3 if given.small else 50
    cells = Cells(given.out, "robust", rounds)
    load = cache(partial(clients, given.data))
    for seed in range(given.seeds):
        for delta in (0.0, *RADII):
            name = f"δ = {delta}" if delta else "AdaBoost"
            cells.compute(name, seed, partial(cell, load, delta, seed, rounds))
    lines = []
    for name, of in cells.values().items():
        for part in ("train", "test"):
            columns = zip(*(found[part] for found in of), strict=True)
            lines.append([name, len(of), part, *(interval(column, 3) for column in columns)])
    header = [
        "",
        "splits",
        "rows",
        "accuracy",
        "true positive rate",
        "false negative rate",
        "exponential loss",
    ]
    print(f"\n{table(header, lines)}\n\n{cells}")


if __name__ == "__main__":
    main()
