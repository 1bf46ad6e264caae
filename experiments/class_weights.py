"""Table II of Saito et al. 2024 by both readings of "the cross-entropy with class-weight w_t".

Equation (8) weighs the error rates of the classes: a row of class y has the weight w_y / n_y. The published
image scripts pass w to the loss: a row has the weight w_y. The rest is the same: a 2-1024-512-4 net with
Adam at 0.01, shuffled batches of 100, a new net in each round, trained until w·r ≥ ½ + γ, and the
vote of all rounds.

The games of a table are trained side by side: the weights of their nets are stacked, and a layer is one
batched product. ``--max-time`` ends a run between epochs; the same call continues each game from its last
full round.
"""

from __future__ import annotations

import math
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from experiments._experiment import Cells, Experiment, Report, Settings, markdown, plus_minus
from experiments.worst_class_artificial import BOOSTING, CASES, GAMMA, HALF, Case, Rows, Scale, class_errors
from tailboost.app.report.results import summarise

Floats = NDArray[np.float64]

OF_ERRORS, OF_ROWS = "w_y / n_y", "w_y"
WEIGHTINGS = (OF_ERRORS, OF_ROWS)
METHODS = {HALF: 0.5, BOOSTING: GAMMA}
LEARNING_RATE = 0.01  # of Adam
# w·r is compared with ½ + γ; w has rounding errors.
ROUNDING = 1e-9
PREDICTED_AT_ONCE = 20_000


@dataclass(frozen=True)
class Limits:
    """Sizes of nets and test sets, and the two stopping rules of the paper's appendix A-D.

    Parameters
    ----------
    hidden : tuple of int
    epochs, idle : int
        A round fails after so many epochs, or after so many without a larger w·r.
    discs : int
        Test rows of the small disc; the others have ten times as many.
    """

    hidden: tuple[int, ...]
    epochs: int
    idle: int
    discs: int


SCALES = {
    "small": Limits((128, 64), 3_000, 1_000, 1_000),
    "paper": Limits((1024, 512), 10_000, 1_000, 1_000),
}


# -- nets side by side -----------------------------------------------------------------------------------


class Nets:
    """Perceptrons of one shape, trained side by side by Adam on weighted rows.

    Parameters
    ----------
    sizes : sequence of int
        Units of the layers, from inputs to outputs.
    count : int
        Number of nets.
    """

    def __init__(self, sizes: Sequence[int], count: int) -> None:
        import torch

        self.torch = torch
        self.device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
        self.shapes = list(pairwise(sizes))
        total = sum(a * b + b for a, b in self.shapes)
        self.weights, self.slope = (torch.zeros(count, total, device=self.device) for _ in range(2))
        self.optimizers = [self._optimizer(net) for net in range(count)]

    def _optimizer(self, net: int) -> Any:
        """Return Adam for the weights of a net, which it changes in place."""
        row = self.weights[net].detach()
        row.grad = self.slope[net]
        return self.torch.optim.Adam([row], lr=LEARNING_RATE, fused=True)

    def restart(self, net: int, rng: np.random.Generator) -> None:
        """Give a net new weights, drawn as by PyTorch's linear layers."""
        parts = []
        for a, b in self.shapes:
            bound = 1 / math.sqrt(a)
            parts.append(rng.uniform(-bound, bound, a * b + b).astype(np.float32))
        self.weights[net] = self.torch.from_numpy(np.concatenate(parts)).to(self.device)
        self.optimizers[net] = self._optimizer(net)

    def keep(self, nets: Sequence[int]) -> None:
        """Drop all other nets."""
        index = self.torch.tensor(nets, device=self.device, dtype=self.torch.int64)
        self.weights, self.slope = self.weights[index].clone(), self.slope[index].clone()
        states = [self.optimizers[net].state_dict() for net in nets]
        self.optimizers = [self._optimizer(net) for net in range(len(nets))]
        for optimizer, state in zip(self.optimizers, states, strict=True):
            optimizer.load_state_dict(state)

    def _layers(self, weights: Any) -> Iterator[tuple[Any, Any]]:
        begin = 0
        for a, b in self.shapes:
            yield (
                weights[:, begin : begin + a * b].view(-1, a, b),
                weights[:, begin + a * b : begin + a * b + b].view(-1, 1, b),
            )
            begin += a * b + b

    def _activations(self, weights: Any, X: Any) -> list[Any]:
        """Return the input of each layer, and the logits."""
        found = [X]
        for layer, (W, b) in enumerate(self._layers(weights)):
            z = self.torch.baddbmm(b, found[-1], W)
            found.append(z if layer == len(self.shapes) - 1 else z.relu_())
        return found

    def step(self, X: Any, targets: Any, weight: Any) -> None:
        """Take a step: X of shape (nets, rows, d), one-hot targets, weights of the rows with sum 1."""
        torch = self.torch
        *inputs, logits = self._activations(self.weights, X)
        back = (logits.softmax(2) - targets) * weight[:, :, None]
        layers, slopes = (list(self._layers(of)) for of in (self.weights, self.slope))
        for layer in range(len(layers) - 1, -1, -1):
            of_weights, of_offsets = slopes[layer]
            torch.bmm(inputs[layer].transpose(1, 2), back, out=of_weights)
            torch.sum(back, 1, keepdim=True, out=of_offsets)
            if layer:
                back = torch.bmm(back, layers[layer][0].transpose(1, 2)) * (inputs[layer] > 0)
        for optimizer in self.optimizers:
            optimizer.step()

    def predict(self, X: Any) -> Any:
        """Return the class numbers of rows of shape (nets, rows, d)."""
        return self._activations(self.weights, X)[-1].argmax(2)

    def predict_with(self, net: int, X: Any) -> NDArray[np.int64]:
        """Return one net's class numbers for rows of shape (rows, d)."""
        weights = self.weights[net : net + 1]
        parts = [
            self._activations(weights, part[None])[-1].argmax(2)[0] for part in X.split(PREDICTED_AT_ONCE)
        ]
        found: NDArray[np.int64] = self.torch.cat(parts).cpu().numpy()
        return found


# -- a game ----------------------------------------------------------------------------------------------


@dataclass
class Game:
    """Worst-class boosting on one draw of the discs.

    Parameters
    ----------
    case : Case
    rows : Rows
    seed : int
    weighting, method : str
        One of `WEIGHTINGS` and a key of `METHODS`.
    """

    case: Case
    rows: Rows
    seed: int
    weighting: str
    method: str
    w: Floats = field(init=False)
    votes: NDArray[np.int64] = field(init=False)
    votes_test: NDArray[np.int64] = field(init=False)
    epochs: list[int] = field(default_factory=list)
    history: list[Floats] = field(default_factory=list)
    stopped: str = ""

    def __post_init__(self) -> None:
        self.sizes = np.bincount(self.rows.y)
        K = self.classes = len(self.sizes)
        self.w = np.full(K, 1 / K)
        self.votes = np.zeros((len(self.rows.y), K), dtype=np.int64)
        self.votes_test = np.zeros((len(self.rows.y_test), K), dtype=np.int64)
        gamma = METHODS[self.method]
        self.goal = 0.5 + gamma - ROUNDING
        # One net within the bound for every class is the game with γ = ½ and one round.
        self.most = 1 if gamma == 0.5 else math.ceil(2 * math.log(K) / gamma**2)
        self.eta = math.sqrt(8 * math.log(K) / self.most)
        self._begin()

    @property
    def key(self) -> dict[str, Any]:
        """The key of its cell."""
        return {"table": self.case.title, "seed": self.seed, "method": self.method, "weights": self.weighting}

    def _begin(self) -> None:
        """Begin a round; its random numbers depend on nothing but the game and the round."""
        entropy = [self.seed, len(self.rows.y), WEIGHTINGS.index(self.weighting), self.most, len(self.epochs)]
        self.rng = np.random.default_rng(entropy)
        self.epoch, self.best, self.idle = 0, -1.0, 0

    @property
    def row_weight(self) -> Floats:
        """The weight of each row in the loss."""
        by_class = self.w / self.sizes if self.weighting == OF_ERRORS else self.w
        return by_class[self.rows.y]

    def judge(self, answers: NDArray[np.int64], limits: Limits) -> bool:
        """Return whether a net meets the weak-learning condition after one more epoch."""
        self.epoch += 1
        errors = np.bincount(self.rows.y, weights=answers != self.rows.y) / self.sizes
        self.good = errors < 1 - self.case.theta
        reached = float(self.w @ self.good)
        if reached >= self.goal:
            return True
        self.idle = 0 if reached > self.best else self.idle + 1
        self.best = max(self.best, reached)
        if self.epoch >= limits.epochs or self.idle >= limits.idle:
            self.stopped = f"round {len(self.epochs) + 1}: w·r {self.best:.4f} after {self.epoch} epochs"
        return False

    def take(self, answers: NDArray[np.int64], answers_test: NDArray[np.int64]) -> None:
        """Add a voter, and weigh the classes anew."""
        self.votes[np.arange(len(answers)), answers] += 1
        self.votes_test[np.arange(len(answers_test)), answers_test] += 1
        self.epochs.append(self.epoch)
        self.history.append(self.w)
        self.w = self.w * np.exp(-self.eta * self.good)
        self.w /= self.w.sum()
        if len(self.epochs) == self.most:
            self.stopped = "all rounds"
        self._begin()

    def result(self) -> dict[str, Any]:
        """Return the errors of the vote; without a voter there are none."""
        told: dict[str, Any] = {
            "rounds": len(self.epochs),
            "epochs": round(float(np.mean(self.epochs)), 1) if self.epochs else None,
            "stopped": self.stopped,
        }
        if self.epochs:
            train, test = (np.eye(self.classes)[votes.argmax(1)] for votes in (self.votes, self.votes_test))
            of_test = class_errors(test, self.rows.y_test)
            told |= {
                "train": class_errors(train, self.rows.y).round(5).tolist(),
                "test": of_test.round(5).tolist(),
                "mean test": round(float(1 - test[np.arange(len(test)), self.rows.y_test].mean()), 5),
            }
        if self.seed == 0 and len(self.epochs) > 1:  # for Figure 4
            told["weights"] = np.round(self.history, 4).tolist()
        return told

    def file(self, folder: Path) -> Path:
        """Return the file of an unfinished game."""
        method = list(METHODS).index(self.method)
        return folder / f"{len(self.rows.y)}-{self.seed}-{WEIGHTINGS.index(self.weighting)}-{method}.npz"

    def save(self, folder: Path) -> None:
        """Write the state of full rounds."""
        folder.mkdir(parents=True, exist_ok=True)
        np.savez_compressed(
            self.file(folder), w=self.w, votes=self.votes.astype(np.int16),
            votes_test=self.votes_test.astype(np.int16), epochs=self.epochs, history=self.history,
        )  # fmt: skip

    def resume(self, folder: Path) -> None:
        """Read the state of an interrupted run, if any."""
        if (file := self.file(folder)).exists():
            with np.load(file) as kept:
                self.w, self.epochs = kept["w"], kept["epochs"].tolist()
                self.history = list(kept["history"])
                self.votes, self.votes_test = (kept[n].astype(np.int64) for n in ("votes", "votes_test"))
            self._begin()


def train(games: list[Game], limits: Limits, batch: int, late: Any) -> Iterator[Game]:
    """Train the games of one table side by side; yield each game at its end, until ``late()``."""
    if not games:
        return
    nets = Nets((2, *limits.hidden, games[0].classes), len(games))
    torch, device = nets.torch, nets.device

    def stacked(arrays: Sequence[Any], dtype: Any = np.float32) -> Any:
        return torch.from_numpy(np.stack(arrays).astype(dtype)).to(device)

    for net, game in enumerate(games):
        nets.restart(net, game.rng)
    fresh = True
    while games and not late():
        if fresh:
            X = stacked([game.rows.X for game in games])
            targets = stacked([np.eye(game.classes)[game.rows.y] for game in games])
            weight = stacked([game.row_weight for game in games])
            tests = [torch.from_numpy(game.rows.X_test).to(device) for game in games]
            at = torch.arange(len(games), device=device)[:, None]
            fresh = False
        order = stacked([game.rng.permutation(len(game.rows.y)) for game in games], np.int64)
        for rows in order.split(batch, dim=1):
            part = weight[at, rows]
            nets.step(X[at, rows], targets[at, rows], part / part.sum(1, keepdim=True))
        for net, (game, answers) in enumerate(zip(games, nets.predict(X).cpu().numpy(), strict=True)):
            if game.judge(answers, limits):
                game.take(answers, nets.predict_with(net, tests[net]))
                nets.restart(net, game.rng)
                weight[net] = torch.from_numpy(game.row_weight.astype(np.float32)).to(device)
        running = [net for net, game in enumerate(games) if not game.stopped]
        if len(running) < len(games):
            yield from (game for game in games if game.stopped)
            games, fresh = [games[net] for net in running], True
            nets.keep(running)


# -- running ---------------------------------------------------------------------------------------------


def play(settings: Settings, name: str) -> Report:
    """Compute missing cells, table by table, and read all cells."""
    limits, batch = SCALES[settings.scale], 100
    cells = Cells(settings, name)
    folder = settings.out / "checkpoints" / f"{name}-{settings.scale}"
    found: dict[str, dict[str, list[dict[str, Any]]]] = {}
    for case in CASES:
        games = []
        for seed in range(settings.repeats):
            rows = Rows.draw(case, seed, _sizes(limits))
            # With classes of equal size the two weightings are one.
            weightings = WEIGHTINGS if np.ptp(np.bincount(rows.y)) else WEIGHTINGS[:1]
            games += [Game(case, rows, seed, w, m) for w in weightings for m in METHODS]
        chosen = not settings.only or case.title.casefold() in {o.casefold() for o in settings.only}
        missing = [
            game
            for game in games
            if _key(game, settings) not in cells and chosen and settings.seed in (None, game.seed)
        ]
        for game in missing:
            game.resume(folder)
        waiting = {id(game): game for game in missing}
        began = time.process_time()
        for game in train(missing, limits, batch, lambda: settings.late):
            values = game.result() | {"seconds": round(time.process_time() - began, 1)}
            cells.get(_key(game, settings), partial(dict, values))
            game.file(folder).unlink(missing_ok=True)
            del waiting[id(game)]
        for game in waiting.values():
            game.save(folder)
        for game in games:
            if (key := _key(game, settings)) in cells:
                cell = cells.get(key, dict)
                found.setdefault(case.title, {}).setdefault(f"{game.method}, {game.weighting}", []).append(
                    cell
                )
    return Report(_text(settings, limits, found), _summary(settings, found), partial(_picture, found))


def _key(game: Game, settings: Settings) -> dict[str, Any]:
    return game.key | {"scale": settings.scale}


def _sizes(limits: Limits) -> Scale:
    return Scale(limits.hidden, limits.epochs, 100, 4 * limits.discs, limits.discs, 1)


def _of_votes(cells: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    return [cell for cell in cells if cell["rounds"]]


def _summary(settings: Settings, found: dict[str, dict[str, list[dict[str, Any]]]]) -> dict[str, Any]:
    tables: dict[str, Any] = {}
    for case in CASES:
        for name, cells in found.get(case.title, {}).items():
            told: dict[str, Any] = {
                "rounds": [cell["rounds"] for cell in cells],
                "epochs of a round": [cell["epochs"] for cell in cells],
                "published": case.published[name.partition(",")[0]],
            }
            if voted := _of_votes(cells):
                told |= summarise(
                    [{"worst test": max(c["test"]), "mean test": c["mean test"]} for c in voted]
                )
            tables.setdefault(case.title, {})[name] = told
    # Games of a table run side by side: the last to end has the seconds of all.
    spent = [max(c["seconds"] for cells in of.values() for c in cells) for of in found.values()]
    about = {"repeats": settings.repeats, "scale": settings.scale}
    return about | {"processor seconds": round(sum(spent), 1), "tables": tables}


def _text(settings: Settings, limits: Limits, found: dict[str, dict[str, list[dict[str, Any]]]]) -> str:
    parts = [
        f"{settings.repeats} seeds, 95 % intervals over them; test errors in per cent, of {limits.discs:,} "
        f"rows of the small disc and {10 * limits.discs:,} of each other, {4 * limits.discs:,} of each "
        f"square. Nets 2-{'-'.join(map(str, limits.hidden))}-K, "
        f"Adam at {LEARNING_RATE:g}, batches of 100. A round fails after {limits.epochs:,} epochs, or after "
        f"{limits.idle:,} without a larger w·r; the rounds before it vote."
    ]
    header = ["method", "row weights", "worst test", "mean test", "published: worst / mean", "rounds"]
    header.append("epochs of a round")
    for case in CASES:
        body = []
        for name, cells in found.get(case.title, {}).items():
            method, _, weighting = name.partition(", ")
            voted = _of_votes(cells)
            numbers = ["–", "–"]
            if voted:
                worst, mean = [max(c["test"]) for c in voted], [c["mean test"] for c in voted]
                numbers = [plus_minus([100 * v for v in values], 1) for values in (worst, mean)]
            said = " / ".join(f"{x:.1f}" for x in case.published[method])
            epochs = ", ".join("–" if c["epochs"] is None else f"{c['epochs']:.1f}" for c in cells)
            body.append(
                [method, weighting, *numbers, said, ", ".join(str(c["rounds"]) for c in cells), epochs]
            )
        if body:
            parts.append(f"## {case.title}: θ = {case.theta:g}, γ = {GAMMA:g}\n\n{markdown(header, body)}")
    return "\n\n".join(parts)


def _picture(found: dict[str, dict[str, list[dict[str, Any]]]], plt: Any) -> Any:
    """Draw the class weights by round of the first seed, as Figure 4."""
    shown = [
        (f"{title}, {name.partition(', ')[2]}", cells[0]["weights"])
        for title, by_name in found.items()
        for name, cells in by_name.items()
        if "weights" in cells[0]
    ]
    size = (4.0 * max(1, len(shown)), 2.8)
    figure, axes = plt.subplots(1, max(1, len(shown)), figsize=size, layout="constrained", squeeze=False)
    for ax, (title, weights) in zip(axes[0], shown, strict=False):
        for k, of_class in enumerate(np.transpose(weights)):
            ax.plot(of_class, linewidth=1, label=f"class {k}")
        ax.set(xlabel="round", ylabel="class weight")
        ax.set_title(title, fontsize="small")
        ax.legend(fontsize="x-small")
    return figure


EXPERIMENTS = (
    Experiment(
        "class-weights",
        "Tables I and II of Saito et al. 2024 with row weights w_y / n_y and w_y",
        play,
        repeats=5,
        needs_data=False,
        has_jobs=True,
    ),
)
