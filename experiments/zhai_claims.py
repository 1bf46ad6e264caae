"""Three remarks of Zhai et al. 2021 without an experiment in the paper, on the tables of the package.

* Section 3.4: for groups, the λ of LPBoost is better than group DRO's average.
* Section 5: λ for the worst group can be selected with few group labels.
* Section 3.3: a constant step size η serves AdaLPBoost better than AdaBoost's steps.

Half of the rows, 3,000 at most, are training rows, a quarter is for the selection of λ, a quarter for the
test. Groups are the five grades of wine, and default × age of clients. Errors of groups are expected errors
of the randomised rule.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.model_selection import train_test_split

from experiments._experiment import Experiment, Report, Settings, markdown, of_each, plus_minus
from tailboost import datasets, metrics, published
from tailboost.learners import HistTreeClassifier
from tailboost.solvers import minimize_cvar_mixture

Floats = NDArray[np.float64]

MOST = 3_000
ROUNDS = 50
DEPTH = 4
LABELLED = (50, 100, 200, 500)
ALPHAS = (0.05, 0.1, 0.2, 0.3, 0.5, 0.7)
ETAS = (0.25, 0.5, 1.0, 2.0)
ADABOOST = "AdaBoost's η_t"


@dataclass(frozen=True)
class Rows:
    """Rows with their labels and groups."""

    X: Floats
    y: NDArray[np.int64]
    group: NDArray[np.int64]


@dataclass(frozen=True)
class Parts:
    """Rows to fit, to select λ on, and to test on."""

    fit: Rows
    held: Rows
    test: Rows

    @classmethod
    def of(cls, rows: Rows, seed: int) -> Parts:
        """Draw them, each with the classes in their proportions."""
        stratum = np.unique(np.c_[rows.y, rows.group], axis=0, return_inverse=True)[1].ravel()
        every = np.arange(len(rows.y))
        fit, rest = train_test_split(every, test_size=0.5, stratify=stratum, random_state=seed)
        held, test = train_test_split(rest, test_size=0.5, stratify=stratum[rest], random_state=seed)
        some = [index[:MOST] for index in (fit, held, test)]
        return cls(*(Rows(rows.X[i], rows.y[i], rows.group[i]) for i in some))


def _load() -> dict[str, Rows]:
    """Return the tables without repeated rows, so no test row equals a training row."""
    found = {}
    for title, data, by in (
        ("wine", datasets.load_wine_quality(as_frame=False), None),
        ("credit default", datasets.load_credit_default(as_frame=False), "age_band"),
    ):
        X, kept = np.unique(np.asarray(data.data, dtype=float), axis=0, return_index=True)
        y = np.unique(data.target[kept], return_inverse=True)[1]
        values = y if by is None else np.asarray(data.groups[by])[kept]
        other = np.unique(values, return_inverse=True)[1]
        found[title] = Rows(X, y, np.unique(np.c_[y, other], axis=0, return_inverse=True)[1].ravel())
    return found


def _tree() -> Any:
    return HistTreeClassifier(max_depth=DEPTH)


def _of_groups(shares: Floats, rows: Rows) -> dict[str, float]:
    """Return the largest expected error of a group, and the overall expected error."""
    loss = 1 - shares[np.arange(len(rows.y)), rows.y]
    by_group = np.bincount(rows.group, weights=loss) / np.bincount(rows.group)
    return {"worst": round(float(by_group.max()), 5), "all": round(float(loss.mean()), 5)}


def _group_dro(parts: Parts) -> dict[str, Any]:
    """Return group errors of group DRO and of the mixture, both from the losses of the rows fitted on."""
    found = {}
    for combine in ("average", "mixture"):
        clf = published.group_dro_boost(_tree(), T=ROUNDS, combine=combine, random_state=0)
        clf.fit(parts.fit.X, parts.fit.y, groups=parts.fit.group)
        for name, rows in (("fitted on", parts.fit), ("test", parts.test)):
            found[f"{combine}, {name}"] = _of_groups(clf.predict_distribution(rows.X), rows)
    return found


def _few_labels(parts: Parts, seed: int) -> dict[str, Any]:
    """Return test errors of groups for λ from few rows with group labels, and without any."""
    clf = published.adalpboost(_tree(), 0.3, T=ROUNDS, random_state=0).fit(parts.fit.X, parts.fit.y)
    erm = _tree().fit(parts.fit.X, parts.fit.y)
    K = len(clf.classes_)
    found = {"ERM": _of_groups(np.eye(K)[erm.predict(parts.test.X)], parts.test)}
    order = np.random.default_rng(seed).permutation(len(parts.held.y))
    for m in (*LABELLED, len(order)):
        rows = order[:m]
        of = (parts.held.X[rows], parts.held.y[rows])
        new = clf.reweight(*of, objective="worst_group", groups=parts.held.group[rows])
        found["all" if m == len(order) else str(m)] = _of_groups(
            new.predict_distribution(parts.test.X), parts.test
        )
    return found


def hedge(rows: Rows, eta: float | None, rounds: int) -> list[Any]:
    """Return the hypotheses of Hedge over rows; without η, steps are AdaBoost's log((1 − ε_t)/ε_t).

    After a round with a weighted error of ½ or more, which has no AdaBoost step, weights are equal again.
    """
    total, members = np.zeros(len(rows.y)), []
    for _ in range(rounds):
        w = np.exp(total - total.max())
        w /= w.sum()
        members.append(_tree().fit(rows.X, rows.y, sample_weight=len(w) * w))
        wrong = members[-1].predict(rows.X) != rows.y
        error = float(w @ wrong)
        if eta is not None:
            total = total + eta * wrong
        elif 0 < error < 0.5:
            total = total + np.log((1 - error) / error) * wrong
        else:
            total = np.zeros(len(rows.y))
    return members


def _steps(parts: Parts) -> dict[str, Any]:
    """Return the test CVaR by α of the mixtures of each game, λ selected on the rows held out."""
    found = {}
    for name, eta in (*((f"η = {eta:g}", eta) for eta in ETAS), (ADABOOST, None)):
        members = hedge(parts.fit, eta, ROUNDS)
        seen, unseen = (
            np.array([m.predict(rows.X) != rows.y for m in members]) for rows in (parts.held, parts.test)
        )
        found[name] = [
            round(metrics.cvar(minimize_cvar_mixture(seen, alpha).mixture @ unseen, alpha), 5)
            for alpha in ALPHAS
        ]
    return found


def _cell(rows: Rows, seed: int) -> dict[str, Any]:
    parts = Parts.of(rows, seed)
    return {"group DRO": _group_dro(parts), "few labels": _few_labels(parts, seed), "steps": _steps(parts)}


def play(settings: Settings, name: str) -> Report:
    """Compute missing cells and read all cells."""
    cells = of_each(_load(), settings, name, _cell)
    parts = [f"{settings.repeats} random splits, 95 % intervals; trees of depth {DEPTH}, {ROUNDS} rounds."]
    summary: dict[str, Any] = {"repeats": settings.repeats, "rounds": ROUNDS, "depth": DEPTH}
    for key, title in (
        ("group DRO", "Group DRO: the average of all rounds, or λ for the worst group"),
        ("few labels", "λ for the worst group from few rows with group labels: test errors"),
    ):
        body = []
        for data, of in cells.items():
            for rule in of[0][key]:
                values = {w: [100 * c[key][rule][w] for c in of] for w in ("worst", "all")}
                body.append([data, rule, *(plus_minus(values[w], 1) for w in ("worst", "all"))])
                summary.setdefault(key, {}).setdefault(data, {})[rule] = _means(values)
        parts.append(f"## {title}\n\n{markdown(['data', 'rule', 'worst group, %', 'all rows, %'], body)}")
    body = []
    for data, of in cells.items():
        for rule in of[0]["steps"]:
            curves = np.array([c["steps"][rule] for c in of])
            body.append([data, rule, *(plus_minus(column) for column in curves.T)])
            summary.setdefault("steps", {}).setdefault(data, {})[rule] = curves.mean(axis=0).round(5).tolist()
        one, ada = (np.array([c["steps"][rule] for c in of]) for rule in ("η = 1", ADABOOST))
        body.append([data, f"{ADABOOST} less η = 1", *(plus_minus(column) for column in (ada - one).T)])
    header = ["data", "steps", *(f"α = {alpha:g}" for alpha in ALPHAS)]
    table = markdown(header, body)
    parts.append(f"## A constant η, or AdaBoost's steps: test CVaR of the mixture\n\n{table}")
    return Report("\n\n".join(parts), summary)


def _means(values: Mapping[str, Sequence[float]]) -> dict[str, float]:
    return {name: round(float(np.mean(of)), 3) for name, of in values.items()}


EXPERIMENTS = (
    Experiment(
        "zhai-claims",
        "Remarks of Zhai et al. 2021 without an experiment: group DRO, few group labels, step sizes",
        play,
        repeats=5,
        needs_data=False,
    ),
)
