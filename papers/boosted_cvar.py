"""Zhai et al. 2021, Boosted CVaR Classification: Figures 1 to 4 on COMPAS and on CIFAR-10.

COMPAS: all 7,214 rows, eight features, target is_recid, a split of 70 to 30; net 8-100-100-2, SGD .01 with
momentum .9, batches of 128, 3 epochs of ERM, then 100 rounds of 500 steps. λ is chosen on training rows.
CIFAR-10: WRN-28-1, 20 epochs of ERM, then 100 rounds of 5,000 steps; λ from 5,000 held-out rows. Trained nets
are kept below --out, so an interrupted game goes on after its last round. --rounds and --steps shorten it.
The paper prints figures only.
"""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable, Sequence
from functools import cache, partial
from pathlib import Path
from typing import Any, Self

import joblib
import numpy as np
import torch
from common import Cells, frame, interval, options, table
from losses import ce
from nets import mlp, train, wrn_28_1
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, ClassifierMixin, clone
from sklearn.model_selection import train_test_split
from sklearn.utils import Tags, get_tags

from tailboost import published
from tailboost.metrics import cvar
from tailboost.solvers import minimize_cvar_mixture
from tailboost.torch import TorchClassifier

ALPHAS = (0.01, 0.05, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0)
STAGES = (1, 2, 5, 10, 20, 30, 50, 100)
REGULARISED = (0.1, 0.3, 0.5, 0.7)
COMPAS = "https://github.com/propublica/compas-analysis, compas-scores-two-years.csv"
CIFAR = "https://www.cs.toronto.edu/~kriz/cifar.html, cifar-10-python.tar.gz, unpacked"
Sample = tuple[NDArray[Any], NDArray[np.int64]]


def compas(folder: Path | None) -> Sample:
    """Return the rows of COMPAS, coded as by the authors."""
    read = frame(folder, "compas-scores-two-years", COMPAS)
    counts = ["juv_fel_count", "juv_misd_count", "juv_other_count", "priors_count"]
    columns = [read[name].astype(float) for name in counts]
    columns += [read["age"] / 10.0, read["c_charge_degree"] == "M", read["sex"] == "Male"]
    columns += [read["race"] != "Caucasian"]
    return np.array(columns, dtype=np.float32).T, read["is_recid"].to_numpy(dtype=np.int64)


class _Arrays(pickle.Unpickler):
    """Read arrays, text and numbers alone: a pickle can name any function to call."""

    allowed = frozenset({("numpy", "ndarray"), ("numpy", "dtype"), ("_codecs", "encode")})

    def find_class(self, module: str, name: str) -> Any:
        """Return what the file names, if it is allowed."""
        module = module.replace("numpy.core", "numpy._core")
        if (module, name) not in self.allowed | {("numpy._core.multiarray", "_reconstruct")}:
            raise pickle.UnpicklingError(f"the file asks for {module}.{name}")
        return super().find_class(module, name)


def cifar10(folder: Path | None, part: str) -> Sample:
    """Return images (n, 32, 32, 3) and labels of ``cifar10.npz`` or of the published python batches."""
    if folder is None:
        from torchvision.datasets import CIFAR10

        found = CIFAR10(Path.home() / ".cache" / "cifar10", train=part == "train", download=True)
        return found.data, np.array(found.targets)
    if (folder / "cifar10.npz").is_file():
        with np.load(folder / "cifar10.npz") as file:
            return file[f"x_{part}"], file[f"y_{part}"].astype(np.int64)
    names = [f"data_batch_{k}" for k in range(1, 6)] if part == "train" else ["test_batch"]
    images, labels = [], []
    for name in names:
        path = folder / "cifar-10-batches-py" / name
        if not path.is_file():
            raise FileNotFoundError(f"--data DIR has no cifar10.npz and no {path}; source: {CIFAR}")
        with path.open("rb") as file:
            batch = _Arrays(file, encoding="bytes").load()
        images.append(batch[b"data"])
        labels.extend(batch[b"labels"])
    pixels = np.concatenate(images).reshape(-1, 3, 32, 32).transpose(0, 2, 3, 1)
    return np.ascontiguousarray(pixels), np.array(labels)


class Kept(ClassifierMixin, BaseEstimator):
    """A net whose trainings are kept in a folder, by their weights and seed: a game goes on from there."""

    def __init__(self, net: Any = None, folder: str = "", random_state: Any = None) -> None:
        self.net = net
        self.folder = folder
        self.random_state = random_state

    def __sklearn_tags__(self) -> Tags:
        """Return the tags of the net, which takes images."""
        return get_tags(self.net)

    def fit(self, X: NDArray[Any], y: NDArray[Any], sample_weight: Any = None) -> Self:
        """Train, or read the trained net."""
        self.classes_ = np.unique(y)
        path = Path(self.folder) / f"{joblib.hash([sample_weight, self.random_state])}.pkl"
        if not path.exists():
            net = clone(self.net).set_params(random_state=self.random_state)
            joblib.dump(net.fit(X, y, sample_weight=sample_weight), path.with_suffix(".unfinished"))
            path.with_suffix(".unfinished").replace(path)
        self.net_ = joblib.load(path)
        return self

    def predict(self, X: NDArray[Any]) -> NDArray[Any]:
        """Return the answers of the net."""
        return np.asarray(self.net_.predict(X))


class Warm:
    """Makes copies of a warmed-up net."""

    def __init__(self, net: torch.nn.Module) -> None:
        self.net = net

    def __call__(self, input_shape: Sequence[int], n_classes: int) -> torch.nn.Module:
        """Return a copy."""
        return copy.deepcopy(self.net)


def shifted(images: torch.Tensor) -> torch.Tensor:
    """Return images moved by up to four pixels and mirrored at random."""
    padded = torch.nn.functional.pad(images, (4, 4, 4, 4))
    down, right = torch.randint(0, 9, (2,)).tolist()
    moved = padded[:, :, down : down + 32, right : right + 32]
    return torch.where(torch.rand(len(images), 1, 1, 1, device=images.device) < 0.5, moved.flip(3), moved)


def curves(judged: NDArray[Any], test: NDArray[Any]) -> dict[str, list[float]]:
    """Return the test CVaR at all α of ERM, of the average, and of AdaLPBoost after some rounds.

    ``judged`` and ``test`` are the losses (T, n) on the rows that choose λ and on test rows.
    """

    def optimal(t: int) -> list[float]:
        shares = [minimize_cvar_mixture(judged[:t], alpha).mixture for alpha in ALPHAS]
        return [cvar(mix @ test[:t], alpha) for mix, alpha in zip(shares, ALPHAS, strict=True)]

    found = {
        "ERM": [cvar(test[0], alpha) for alpha in ALPHAS],
        "AdaBoost + average": [cvar(test.mean(axis=0), alpha) for alpha in ALPHAS],
        "AdaLPBoost": optimal(len(test)),
    }
    found |= {f"AdaLPBoost, T = {t}": optimal(t) for t in STAGES if t < len(test)}
    return {name: np.round(of, 5).tolist() for name, of in found.items()}


def errors(members: Sequence[Any], sample: Sample) -> NDArray[Any]:
    """Return the zero-one losses of models, shape (T, n)."""
    X, y = sample
    return np.array([member.predict(X) != y for member in members], dtype=float)


def on_compas(load: Callable[[], Sample], seed: int, rounds: int, steps: int) -> dict[str, Any]:
    """Play the games on COMPAS."""
    X, X_test, y, y_test = train_test_split(*load(), test_size=0.3, random_state=42)
    learner = TorchClassifier(
        partial(mlp, hidden=(100, 100)), learning_rate=0.01, momentum=0.9, batch_size=128, steps=steps,
        milestones=(0.8,), warmup_steps=3 * -(-len(y) // 128), device="cpu",
    )  # fmt: skip

    def losses(game: Any) -> tuple[NDArray[Any], NDArray[Any]]:
        members = game.fit(X, y).estimators_
        return errors(members, (X, y)), errors(members, (X_test, y_test))

    found = curves(*losses(published.adalpboost(learner, 0.1, T=rounds, random_state=seed)))
    regularised = []
    for alpha in REGULARISED if seed == 0 else ():
        game = published.regularized_lpboost(learner, alpha, T=rounds, beta=100.0, random_state=seed)
        seen, unseen = losses(game)
        mix = minimize_cvar_mixture(seen, alpha).mixture
        regularised.append(round(float(cvar(mix @ unseen, alpha)), 5))
    return {"curves": found, "regularised": regularised}


def on_cifar10(data: Path | None, seed: int, rounds: int, steps: int, folder: Path) -> dict[str, Any]:
    """Play the game on CIFAR-10."""
    X, y = cifar10(data, "train")
    X, X_val, y, y_val = train_test_split(X, y, test_size=5000, stratify=y, random_state=seed)
    folder.mkdir(parents=True, exist_ok=True)
    warm = folder / "warm.pkl"
    if not warm.exists():
        torch.manual_seed(seed)
        pixels = X.transpose(0, 3, 1, 2) / 255.0
        sgd = partial(torch.optim.SGD, lr=0.1, momentum=0.9, weight_decay=5e-4)
        epochs = 20 * len(y) // 128 if steps >= 5000 else steps
        net = wrn_28_1((3, 32, 32), 10)
        net = train(net, pixels, y, ce(torch.ones(10)), steps=epochs, batch=128, optimizer=sgd, seed=seed)
        joblib.dump(net.net, warm)
    learner = TorchClassifier(
        Warm(joblib.load(warm)), learning_rate=0.1, momentum=0.9, weight_decay=5e-4, batch_size=128,
        steps=steps, milestones=(0.4, 0.8), augment=shifted,
    )  # fmt: skip
    game = published.adalpboost(Kept(learner, str(folder)), 0.1, T=rounds, random_state=seed).fit(X, y)
    seen, unseen = (errors(game.estimators_, rows) for rows in ((X_val, y_val), cifar10(data, "test")))
    return {"curves": curves(seen, unseen)}


def draw(path: Path, part: str, results: Sequence[dict[str, Any]]) -> None:
    """Draw Figures 1 and 4: CVaR over α, and over T."""
    from matplotlib.figure import Figure

    left, right = (figure := Figure(figsize=(10, 4), layout="constrained")).subplots(1, 2, sharey=True)
    mean = {
        name: np.mean([found["curves"][name] for found in results], axis=0) for name in results[0]["curves"]
    }
    for name in ("ERM", "AdaBoost + average", "AdaLPBoost"):
        left.plot(ALPHAS, mean[name], label=name)
    left.set(xlabel="α", ylabel="test CVaR", title=part)
    left.legend()
    played = [t for t in STAGES if f"AdaLPBoost, T = {t}" in mean]
    for alpha in (0.1, 0.3, 0.5):
        at = [mean[f"AdaLPBoost, T = {t}"][ALPHAS.index(alpha)] for t in played]
        right.plot(played, at, ".-", label=f"α = {alpha}")
    right.set(xscale="log", xlabel="T", title="AdaLPBoost after T rounds")
    right.legend()
    figure.savefig(path, dpi=110)


def main() -> None:
    """Run the parts."""
    given = options(__doc__, ["compas", "cifar10"], seeds=5, more=["rounds", "steps"])
    rounds = given.rounds or (3 if given.small else 100)
    for part in given.parts:
        steps = given.steps or (20 if given.small else {"compas": 500, "cifar10": 5000}[part])
        cells = Cells(given.out, f"boosted_cvar-{part}", rounds, steps)
        if part == "compas":
            play = partial(on_compas, cache(partial(compas, given.data)), rounds=rounds, steps=steps)
        else:
            folder = given.out / f"cifar10-{rounds}-{steps}"
            play = partial(on_cifar10, given.data, rounds=rounds, steps=steps, folder=folder)
        for seed in range(given.seeds):
            cells.compute(part, seed, partial(play, seed=seed))
        results = cells.values()[part]
        shown = (0.01, 0.1, 0.3, 0.5, 0.7, 0.9)
        lines = []
        for name in results[0]["curves"]:
            at = [[found["curves"][name][ALPHAS.index(alpha)] for found in results] for alpha in shown]
            lines.append([name, len(results), *(interval(column, 3) for column in at)])
        print(f"\n{part}, T = {rounds}, {steps} steps\n")
        print(table(["", "seeds", *(f"α = {alpha}" for alpha in shown)], lines))
        print(f"\nregularised LPBoost at {REGULARISED}: {results[0].get('regularised')}\n\n{cells}")
        draw(given.out / f"boosted_cvar-{part}.png", part, results)


if __name__ == "__main__":
    torch.set_num_threads(1)
    main()
