"""Saito et al. 2024, Tables VIII to X in small: worst-class boosting by θ and γ, and θ chosen by validation.

The overlapping squares of Table I with scikit-learn's perceptron, θ and γ varied. The paper's tables are
about images: only directions compare. As in the paper θ is chosen among all tried by the worst-class error of
the vote on validation rows; here they are drawn like the training rows, and as many.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np
from sklearn.preprocessing import MinMaxScaler

from experiments._experiment import (
    Cells,
    Experiment,
    Report,
    Settings,
    markdown,
    plus_minus,
    vote_shares,
)
from experiments.worst_class_artificial import (
    CASES,
    Scale,
    class_errors,
    decided,
    perceptrons,
    said,
)
from tailboost import published

CASE = CASES[0]
# Smaller nets and fewer epochs than for Table I: there are 44 games for each seed.
SCALE = Scale((64, 32), 100, 100, 2_000, 1_000, 30)
# The nine values of the paper, the value of Table I, and .95.
THETAS = (0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.75, 0.8, 0.9, 0.95)
# As printed: of five classes q = 0.6 and 0.7 give the first, q = 0.8 and 0.9 the third, q = 1 the last.
GAMMAS = (0.0995, 0.1995, 0.2995, 0.3995)
TEST_SEED, VALIDATION_SEED = 10_000, 20_000
# CIFAR-10, worst / mean test error in % by θ, and by γ (Table VIII), as printed.
PUBLISHED = {
    0.1: (95.7, 67.1), 0.2: (74.9, 52.5), 0.3: (61.7, 43.4), 0.4: (54.5, 35.7), 0.5: (42.2, 29.9),
    0.6: (33.3, 22.2), 0.7: (28.4, 17.6), 0.8: (22.3, 12.9), 0.9: (18.9, 9.6),
}  # fmt: skip
PUBLISHED_BY_GAMMA = {0.0995: (19.9, 10.4), 0.1995: (20.2, 10.1), 0.2995: (18.9, 9.6), 0.3995: (19.7, 9.4)}


def _cell(theta: float, gamma: float, seed: int) -> dict[str, Any]:
    """Boost, and judge the vote of all rounds on training, validation and test rows."""
    X, y = CASE.train(seed)
    scaler = MinMaxScaler().fit(X)
    samples = {
        "train": (X, y),
        "validation": CASE.train(VALIDATION_SEED + seed),
        "test": CASE.test(TEST_SEED + seed, SCALE),
    }
    scaled = {name: (scaler.transform(X).astype(np.float32), y) for name, (X, y) in samples.items()}
    clf = published.worst_class_boost(perceptrons(SCALE).learner, theta, gamma=gamma, random_state=seed)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # targets out of reach are part of the experiment
        clf.fit(*scaled["train"])
    T, K = len(clf.estimators_), len(clf.classes_)
    values: dict[str, Any] = {"rounds": T}
    for name, (rows, labels) in scaled.items():
        vote = decided(vote_shares(said(clf.estimators_, rows), np.full(T, 1.0 / T), K))
        errors = 100 * class_errors(vote, labels)
        values[name] = {"worst": round(float(errors.max()), 3), "mean": round(float(errors.mean()), 3)}
    return values


Found = dict[float, dict[float, list[dict[str, Any]]]]


def play(settings: Settings, name: str) -> Report:
    """Compute missing cells and read all cells."""
    cells = Cells(settings, name, total=len(THETAS) * len(GAMMAS) * settings.repeats)
    found: Found = {gamma: {theta: [] for theta in THETAS} for gamma in GAMMAS}
    for seed in range(settings.repeats):
        for gamma in GAMMAS:
            for theta in THETAS:
                key = {"theta": theta, "gamma": gamma, "seed": seed}
                found[gamma][theta].append(cells.get(key, partial(_cell, theta, gamma, seed)))
    chosen = {gamma: by_validation(of) for gamma, of in found.items()}
    summary = {
        "source": "Saito et al., Bounding the Worst-class Error, 2024, Tables VIII to X",
        "settings": {"repeats": settings.repeats, "hidden": SCALE.hidden, "epochs": SCALE.epochs},
        "published, CIFAR-10: worst and mean test % by θ": {str(t): v for t, v in PUBLISHED.items()},
        "published, CIFAR-10: worst and mean test % by γ": {str(g): v for g, v in PUBLISHED_BY_GAMMA.items()},
        "worst and mean test %, rounds, by γ and θ": {
            str(gamma): {str(theta): _means(cells) for theta, cells in of.items()}
            for gamma, of in found.items()
        },
        "θ by validation, by γ": {str(gamma): value for gamma, value in chosen.items()},
    }
    return Report(_text(settings, found, chosen), summary, partial(_picture, found))


def _means(cells: Sequence[Mapping[str, Any]]) -> list[float]:
    tests = [cell["test"] for cell in cells]
    return [float(np.mean(column)) for column in (
        [t["worst"] for t in tests], [t["mean"] for t in tests], [c["rounds"] for c in cells]
    )]  # fmt: skip


def by_validation(of: Mapping[float, Sequence[Mapping[str, Any]]]) -> dict[str, list[float]]:
    """Select θ for every seed by the worst validation error (ties: the smaller); measure its test error.

    Returns
    -------
    dict
        θ, its worst test error, and the smallest worst test error of any θ, for each seed.
    """
    values: dict[str, list[float]] = {"θ": [], "worst test": [], "least": []}
    for seed in range(len(next(iter(of.values())))):
        theta = min(of, key=lambda theta: of[theta][seed]["validation"]["worst"])
        values["θ"].append(theta)
        values["worst test"].append(of[theta][seed]["test"]["worst"])
        values["least"].append(min(cells[seed]["test"]["worst"] for cells in of.values()))
    return values


def _text(settings: Settings, found: Found, chosen: Mapping[float, Mapping[str, list[float]]]) -> str:
    def errors(cells: Sequence[Mapping[str, Any]]) -> str:
        worst = plus_minus([c["test"]["worst"] for c in cells], 1)
        mean, met = np.mean([c["test"]["mean"] for c in cells]), np.mean([c["rounds"] for c in cells])
        return f"{worst} / {mean:.1f} ({met:.0f})"

    header = ["θ", *(f"γ = {gamma}" for gamma in found), "published, CIFAR-10: worst / mean"]
    body = []
    for theta in THETAS:
        printed = "{} / {}".format(*PUBLISHED[theta]) if theta in PUBLISHED else ""
        body.append([f"{theta:g}", *(errors(of[theta]) for of in found.values()), printed])
    picked = [
        [
            f"{gamma}",
            ", ".join(f"{theta:g}" for theta in values["θ"]),
            plus_minus(values["worst test"], 1),
            plus_minus(values["least"], 1),
        ]
        for gamma, values in chosen.items()
    ]
    by_gamma = ", ".join(f"{g:g}: {worst} / {mean}" for g, (worst, mean) in PUBLISHED_BY_GAMMA.items())
    return "\n\n".join(
        [
            "Worst test error ± 95 % / mean test error in % (mean number of rounds); "
            f"{settings.repeats} seeds. Boosting ends early where a grown net is no weak learner.",
            markdown(header, body),
            f"Published on CIFAR-10 by γ, worst / mean: {by_gamma}.",
            "## θ chosen by the worst-class error on validation rows\n\n"
            + markdown(["γ", "θ by seed", "its worst test error", "least of any θ"], picked),
        ]
    )


def _picture(found: Found, plt: Any) -> Any:
    """Draw worst and overall test errors against θ for every γ, with the published errors."""
    figure, panels = plt.subplots(1, 2, figsize=(6.8, 3.2), sharey=True, layout="constrained")
    for k, (gamma, of) in enumerate(found.items()):
        worst, mean, _ = zip(*(_means(cells) for cells in of.values()), strict=True)
        panels[0].plot(THETAS, worst, "o-", color=f"C{k}", label=f"worst, γ = {gamma}")
        panels[0].plot(THETAS, mean, "o--", color=f"C{k}", markersize=3)
    worst, mean = zip(*PUBLISHED.values(), strict=True)
    panels[1].plot(list(PUBLISHED), worst, "D-", color="0.3", label="published, worst")
    panels[1].plot(list(PUBLISHED), mean, "D--", color="0.3", markersize=3, label="mean (broken lines)")
    for ax, title in zip(panels, ("ours: squares", "published: CIFAR-10, q = 0.8"), strict=True):
        ax.set(xlabel="θ", title=title, ylim=(0, 100))
    panels[0].set_ylabel("test error, %")
    figure.legend(fontsize="small", frameon=False, loc="outside lower center", ncols=3)
    return figure


EXPERIMENTS = (
    Experiment(
        "worst-class-sensitivity", "Worst-class boosting by θ and γ, and θ by validation", play,
        repeats=3, needs_data=False,
    ),
)  # fmt: skip
