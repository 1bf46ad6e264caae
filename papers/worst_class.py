"""Saito et al. 2024, Bounding the Worst-class Error: Tables I and II, and Figures 2 to 5.

Parts: squares (Table I), discs-10, discs-50, discs-100 (Table II), readings (of Table II). Nets 2-1024-512-K
and Adam at .01, as printed; batches of 100; 4,000 test points for each square, 10,000 (the paper: 100,000)
for each large disc. The data are drawn here. Growing nets meet the weak-learning condition after any five
steps.
"""

from __future__ import annotations

import copy
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import torch
from common import Cells, interval, options, table
from losses import LOSSES
from nets import Trained, mlp, train
from numpy.typing import NDArray
from sklearn.preprocessing import MinMaxScaler

from tailboost import published
from tailboost.torch import TorchClassifier

GAMMA = 0.0995
EPOCH = 5  # steps of an epoch of the 500 rows of Table I, after which a net may be good enough
SIDE = 60  # points of the grid of a figure
SQUARES = np.array([(0.0, 1.4), (1.4, 1.4), (2.8, 1.4), (1.4, 2.8), (1.4, 0.0)])
DISCS = np.array([(0.0, 0.0), (0.0, 1.0), (1.0, 1.0), (1.0, 0.0)])
BOOSTING, HALF, OCO = "worst-class boosting", "0.5-DNN", "OCO boosting"
Floats = NDArray[np.float64]
Labels = NDArray[np.int64]


def squares(n: int, seed: int) -> tuple[Floats, Labels]:
    """Draw n rows of each of five squares of side 2 that stand on a corner; the centres are published."""
    y = np.repeat(np.arange(5), n)
    u = np.random.RandomState(seed).uniform(-1.0, 1.0, size=(len(y), 2))
    turn = np.array([[1.0, -1.0], [1.0, 1.0]]) / np.sqrt(2.0)
    return SQUARES[y] + u @ turn.T, y


def discs(n: int, seed: int) -> tuple[Floats, Labels]:
    """Draw 10 n rows of three discs of radius 1, and n of a fourth."""
    y = np.repeat(np.arange(4), [10 * n, 10 * n, 10 * n, n])
    rng = np.random.RandomState(seed)
    angle = rng.uniform(0.0, 2 * np.pi, len(y))
    radius = np.sqrt(rng.uniform(0.0, 1.0, len(y)))
    return DISCS[y] + (radius * np.array([np.cos(angle), np.sin(angle)])).T, y


@dataclass(frozen=True)
class Case:
    """A column of the tables: the draw of the rows, rows, θ, and printed errors (worst, mean) in percent."""

    draw: Callable[[int, int], tuple[Floats, Labels]]
    n_train: int
    n_test: int
    theta: float
    printed: dict[str, tuple[float, float]]


CASES = {
    "squares": Case(squares, 100, 4000, 0.75, {
        "CE": (52.2, 23.4), "naive": (28.5, 23.8), OCO: (49.6, 23.3), HALF: (32.0, 22.7),
        BOOSTING: (28.1, 23.9)}),
    "discs-10": Case(discs, 10, 1000, 0.5, {
        "CE": (71.0, 30.8), "weighted CE": (64.8, 32.1), "naive": (55.5, 34.5), OCO: (67.6, 31.1),
        HALF: (67.3, 30.4), BOOSTING: (59.8, 31.3)}),
    "discs-50": Case(discs, 50, 1000, 0.5, {
        "CE": (68.0, 29.2), "weighted CE": (53.8, 33.2), "naive": (52.2, 33.4), OCO: (67.8, 29.1),
        HALF: (63.9, 29.9), BOOSTING: (49.5, 33.2)}),
    "discs-100": Case(discs, 100, 1000, 0.5, {
        "CE": (65.1, 29.0), "weighted CE": (47.5, 33.8), "naive": (51.1, 33.8), OCO: (66.4, 28.8),
        HALF: (57.9, 32.1), BOOSTING: (45.5, 34.1)}),
}  # fmt: skip
#: Losses without printed numbers, drawn in Figures 9 to 11.
OTHERS = ("focal", "CB", "IB", "IB + CB", "IB + focal", "LA", "VS")


@dataclass(frozen=True)
class Rows:
    """Training and test rows, scaled by the range of the training rows."""

    X: Floats
    y: Labels
    X_test: Floats
    y_test: Labels

    @classmethod
    def of(cls, case: Case, seed: int) -> Rows:
        """Draw the rows of a repeat."""
        X, y = case.draw(case.n_train, seed)
        X_test, y_test = case.draw(case.n_test, 10_000 + seed)
        scaler = MinMaxScaler().fit(X)
        return cls(*(np.asarray(part) for part in (scaler.transform(X), y, scaler.transform(X_test), y_test)))


def votes(members: Sequence[Any], X: Floats, K: int) -> Floats:
    """Return the share of the members for each class, shape (n, K)."""
    total = np.zeros((len(X), K))
    for member in members:
        total[np.arange(len(X)), np.asarray(member.predict(X.astype(np.float32)))] += 1
    return total / len(members)


def class_errors(answers: Labels, y: Labels) -> Floats:
    """Return the error of each class."""
    return np.bincount(y, weights=answers != y) / np.bincount(y)


def learner(hidden: Sequence[int], epochs: int) -> TorchClassifier:
    """Return the growing net."""
    return TorchClassifier(
        partial(mlp, hidden=hidden), optimizer="adam", learning_rate=0.01, batch_size=100,
        steps=EPOCH * epochs, milestones=(), growth=EPOCH, device="cpu",
    )  # fmt: skip


def single(name: str, rows: Rows, hidden: Sequence[int], epochs: int, seed: int) -> list[Any]:
    """Train a net by one loss; the influence-balanced losses follow half of the epochs of cross-entropy."""
    torch.manual_seed(seed)
    counts = torch.from_numpy(np.bincount(rows.y)).float()
    adam = partial(torch.optim.Adam, lr=0.01)
    net = mlp((2,), len(counts), hidden)
    steps = EPOCH * epochs
    if name.startswith("IB"):
        steps //= 2
        train(net, rows.X, rows.y, LOSSES["CE"](counts), steps=steps, batch=100, optimizer=adam, seed=seed)
    batch = 250 if name == "naive" else 100
    return [
        train(
            net, rows.X, rows.y, LOSSES[name](counts), steps=steps * 100 // batch, batch=batch,
            optimizer=adam, seed=seed, balanced=name == "naive",
        )
    ]  # fmt: skip


def boosted(name: str, case: Case, rows: Rows, net: TorchClassifier, seed: int) -> list[Any]:
    """Play a game and return its voters."""
    if name == OCO:
        clf = published.oco_boost(net, GAMMA, T=30, random_state=seed)
    elif name == HALF:
        clf = published.worst_class_boost(net, case.theta, gamma=0.5, T=1, random_state=seed)
    else:
        clf = published.worst_class_boost(net, case.theta, gamma=GAMMA, random_state=seed)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # a game may end before all classes have small errors
        clf.fit(rows.X.astype(np.float32), rows.y)
    return list(clf.estimators_)


def middle_weights(members: Sequence[Any], case: Case, rows: Rows) -> list[float]:
    """Return the weight of class 1, the middle square, in each round, from equations (6) and (8)."""
    K = int(rows.y.max()) + 1
    T = np.ceil(2 * np.log(K) / GAMMA**2)
    eta = np.sqrt(8 * np.log(K) / T)
    w = np.full(K, 1 / K)
    found = []
    for member in members:
        found.append(round(float(w[1]), 4))
        errors = class_errors(member.predict(rows.X.astype(np.float32)), rows.y)
        w = w * np.exp(-eta * (errors < 1 - case.theta))
        w /= w.sum()
    return found


def cell(name: str, case: Case, seed: int, hidden: Sequence[int], epochs: int) -> dict[str, Any]:
    """Train a method on a draw of the rows; return its class errors and, of the first draw, its regions."""
    rows = Rows.of(case, seed)
    if name in LOSSES:
        members = single(name, rows, hidden, epochs, seed)
    else:
        members = boosted(name, case, rows, learner(hidden, epochs), seed)
    K = int(rows.y.max()) + 1
    answers = votes(members, rows.X_test, K).argmax(axis=1)
    of_train = class_errors(votes(members, rows.X, K).argmax(axis=1), rows.y)
    found = {
        "rounds": len(members),
        "train": of_train.round(4).tolist(),
        "test": class_errors(answers, rows.y_test).round(4).tolist(),
        "mean": round(float(np.mean(answers != rows.y_test)), 4),
    }
    if seed == 0:
        line = np.linspace(-0.05, 1.05, SIDE)
        grid = np.stack(np.meshgrid(line, line), axis=-1).reshape(-1, 2)
        found["regions"] = "".join(map(str, votes(members, grid, K).argmax(axis=1)))
        if name == BOOSTING:
            found["weight of class 1"] = middle_weights(members, case, rows)
    return found


@dataclass(frozen=True)
class Reading:
    """What the text leaves open of a round of Table II.

    ``by_row`` weighs a row of class y by w_y, as the published image scripts, instead of w_y/n_y of (8).
    ``whole`` has all rows in a batch. ``same`` begins each round at the same net, and Adam goes on, as in the
    published scripts. All have appendix A-D's stop rule: at most 10,000 epochs, and the game ends if w·r
    stands still for 1,000.
    """

    by_row: bool
    whole: bool
    same: bool

    def __str__(self) -> str:
        rows = "w_y" if self.by_row else "w_y/n_y"
        start = "the same start" if self.same else "a new start"
        return f"{rows}, {'all rows' if self.whole else '100 rows'} a batch, {start}"


def read(name: str, reading: Reading, case: Case, seed: int, hidden: Sequence[int], rounds: int) -> Any:
    """Play the first rounds of a game of Table II in a reading; return its rounds and its class errors."""
    rows = Rows.of(case, seed)
    X, y = torch.from_numpy(rows.X).float(), torch.from_numpy(rows.y)
    n_y = np.bincount(rows.y)
    K = len(n_y)
    gamma = 0.5 if name == HALF else GAMMA
    T = int(np.ceil(2 * np.log(K) / gamma**2))
    eta = np.sqrt(8 * np.log(K) / T)
    torch.manual_seed(seed)
    start = mlp((2,), K, hidden)
    net = copy.deepcopy(start)
    adam = torch.optim.Adam(net.parameters(), lr=0.01)
    w = np.full(K, 1 / K)
    members: list[Any] = []
    for _ in range(1 if name == HALF else rounds):
        if reading.same:
            net.load_state_dict(start.state_dict())
        else:
            net = mlp((2,), K, hidden)
            adam = torch.optim.Adam(net.parameters(), lr=0.01)
        weight = torch.from_numpy(w if reading.by_row else w / n_y).float()
        best, since, r = -1.0, 0, np.zeros(K)
        while w @ r < 0.5 + gamma - 1e-9 and since < 1000:
            for batch in torch.randperm(len(y)).split(len(y) if reading.whole else 100):
                adam.zero_grad()
                torch.nn.functional.cross_entropy(net(X[batch]), y[batch], weight=weight).backward()
                adam.step()
            with torch.no_grad():
                r = class_errors(net(X).argmax(1).numpy(), rows.y) < 1 - case.theta
            since += 1
            if w @ r > best:
                best, since = w @ r, 0
        if w @ r < 0.5 + gamma - 1e-9:
            break
        members.append(Trained(copy.deepcopy(net)))
        w = w * np.exp(-eta * r)
        w /= w.sum()
    answers = votes(members, rows.X_test, K).argmax(axis=1) if members else np.zeros(len(rows.y_test), int)
    errors = class_errors(answers, rows.y_test).round(4).tolist()
    return {"rounds": len(members), "test": errors, "mean": round(float(np.mean(answers != rows.y_test)), 4)}


def read_all(given: Any, hidden: Sequence[int], rounds: int) -> None:
    """Play all readings, and print them beside the printed errors."""
    cells = Cells(given.out, "worst_class-readings", *hidden, rounds)
    open_choices = [Reading(*of) for of in product([True, False], repeat=3)]
    jobs = [(part, name) for part in ("discs-10", "discs-50", "discs-100") for name in (HALF, BOOSTING)]
    for seed in range(min(given.seeds, 1)):
        for part, name in jobs:
            for reading in open_choices:
                play = partial(read, name, reading, CASES[part], seed, hidden, rounds)
                cells.compute(f"{part}: {name}: {reading}", seed, play)
    lines = []
    for key, (found,) in cells.values().items():
        part, name, reading_words = key.split(": ")
        printed = "{} / {}".format(*CASES[part].printed[name])
        ours = f"{100 * max(found['test']):.1f} / {100 * found['mean']:.1f}"
        lines.append([part, name, reading_words, printed, ours, found["rounds"]])
    header = ["data", "method", "reading", "printed: worst / mean", "ours", "rounds"]
    print(f"\nTable II, readings\n\n{table(header, lines)}\n\n{cells}")


def summary(case: Case, results: dict[str, list[dict[str, Any]]]) -> str:
    """Return the table of a case, errors in percent."""
    lines = []
    for name, cells in results.items():
        worst = interval(100 * max(c["test"]) for c in cells)
        mean = interval(100 * c["mean"] for c in cells)
        train = " ".join(f"{100 * e:.1f}" for e in np.mean([c["train"] for c in cells], axis=0))
        met = sum(max(c["train"]) < 1 - case.theta for c in cells)
        printed = "{} / {}".format(*case.printed[name]) if name in case.printed else ""
        rounds = ", ".join(str(c["rounds"]) for c in cells)
        lines.append(
            [name, printed, len(cells), f"{worst} / {mean}", train, f"{met} of {len(cells)}", rounds]
        )
    header = ["method", "printed: worst / mean", "draws", "ours", "training errors", "all < 1 − θ", "rounds"]
    return table(header, lines)


def draw(path: Path, case: Case, results: dict[str, list[dict[str, Any]]]) -> None:
    """Draw the regions of the first draw, as far as its cells have them."""
    from matplotlib.figure import Figure

    drawn = {name: cells[0] for name, cells in results.items() if "regions" in cells[0]}
    if not drawn:
        return
    figure = Figure(figsize=(1.9 * len(drawn), 2.2), layout="constrained")
    rows = Rows.of(case, 0)
    for k, (name, found) in enumerate(drawn.items()):
        ax = figure.add_subplot(1, len(drawn), k + 1)
        regions = np.array(list(found["regions"]), dtype=int).reshape(SIDE, SIDE)
        extent = (-0.05, 1.05, -0.05, 1.05)
        ax.imshow(regions, extent=extent, origin="lower", cmap="Set2", vmin=0, vmax=7)
        ax.scatter(*rows.X.T, s=1, c=rows.y, cmap="Dark2", vmin=0, vmax=7)
        ax.set(xticks=[], yticks=[])
        ax.set_title(f"{name}\n{100 * max(found['test']):.0f} / {100 * found['mean']:.0f} %", fontsize=8)
    figure.savefig(path, dpi=110)


def main() -> None:
    """Run the parts."""
    given = options(__doc__, [*CASES, "readings"], seeds=5)
    hidden, epochs = ((16,), 20) if given.small else ((1024, 512), 1000)
    for part in given.parts:
        if part == "readings":
            read_all(given, hidden, 2 if given.small else 30)
            continue
        case = CASES[part]
        cells = Cells(given.out, f"worst_class-{part}", *hidden, epochs)
        # Classes of equal size have no weights.
        methods = [
            name for name in (BOOSTING, HALF, "CE", "naive", "weighted CE", OCO) if name in case.printed
        ]
        for seed in range(given.seeds):
            for name in (*methods, *OTHERS):
                cells.compute(name, seed, partial(cell, name, case, seed, hidden, epochs))
        results = cells.values()
        print(f"\n{part}, θ = {case.theta}\n\n{summary(case, results)}\n\n{cells}")
        draw(given.out / f"worst_class-{part}.png", case, results)


if __name__ == "__main__":
    torch.set_num_threads(1)
    main()
