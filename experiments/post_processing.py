"""Class weights and mixtures of trained nets, without further training.

``--data DIR`` holds a file ``NAME.npz`` per net, or DIR/cifar10_nets does, with the arrays ``logits_judged``,
``y_judged`` of held-out rows and ``logits_test``, ``y_test``. Logits have shape (n, K). A leading axis
means the models of an ensemble; their probabilities are averaged by the array ``weights``. Class
weights and mixture are selected on the held-out rows; all errors are test errors.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import softmax
from sklearn.model_selection import train_test_split

from experiments._experiment import Cells, Experiment, Report, Settings, markdown
from tailboost import metrics
from tailboost.classifiers.robust_mixture import RobustMixtureClassifier
from tailboost.rates.bounds import clopper_pearson_interval

Floats = NDArray[np.float64]
# Mean errors allowed above the least of a member on the rows of the choice; None sets no limit.
BUDGETS = (0.0, 0.005, 0.01, None)
WEIGHTS, MIXTURE = "class weights", "mixture"
LOGITS = ("logits_judged", "y_judged", "logits_test", "y_test")


def errors(y: NDArray[Any], answers: NDArray[Any]) -> dict[str, Any]:
    """Return the worst class and its error, and the mean error."""
    by_class = metrics.class_errors(y, answers)
    worst = max(by_class, key=by_class.__getitem__)
    return {
        "class": int(worst),
        "worst": round(float(by_class[worst]), 5),
        "mean": round(float((answers != y).mean()), 5),
    }


def after_training(
    judged: Mapping[str, Floats], y: NDArray[Any], test: Mapping[str, Floats], y_test: NDArray[Any]
) -> dict[str, list[dict[str, Any]]]:
    """Return the test errors of class weights, and of a mixture, for each budget.

    Parameters
    ----------
    judged, test : dict of ndarray of shape (n, K)
        Probabilities of each net on the rows of the choice and on the test rows.
    y, y_test : ndarray of shape (n,)
        Class numbers.
    """
    found: dict[str, list[dict[str, Any]]] = {}
    classes = np.arange(next(iter(judged.values())).shape[1])
    for name, randomized in ((WEIGHTS, False), (MIXTURE, True)):
        free = RobustMixtureClassifier.from_probabilities(judged, y, classes=classes, randomized=randomized)
        found[name] = [
            errors(y_test, (free if b is None else free.reweight(error_budget=b)).predict(test))
            for b in BUDGETS
        ]
    return found


# -- the nets of a folder --------------------------------------------------------------------------------


def _read(file: Path) -> dict[str, NDArray[Any]]:
    """Return labels and probabilities of a file.

    Raises
    ------
    ValueError
        If the file has another format.
    """
    with np.load(file) as arrays:
        missing = [name for name in LOGITS if name not in arrays]
        if missing:
            raise ValueError(f"--data: {file.name} has no array {', '.join(missing)}")
        read: dict[str, NDArray[Any]] = {}
        for part in ("judged", "test"):
            logits = arrays[f"logits_{part}"].astype(np.float64)
            logits = logits.reshape(-1, *logits.shape[-2:])
            weights = arrays.get("weights")
            read[part] = np.average(softmax(logits, axis=2), axis=0, weights=weights)
            read[f"y_{part}"] = arrays[f"y_{part}"].astype(np.int64)
            if len(read[part]) != len(read[f"y_{part}"]):
                raise ValueError(f"--data: {file.name}: {part} logits and labels differ in length")
    return read


def read_nets(folder: Path) -> dict[str, dict[str, NDArray[Any]]]:
    """Return the nets of a folder by name.

    Raises
    ------
    ValueError
        If there is none, or they speak of different rows.
    """
    inner = folder / "cifar10_nets"
    files = sorted((inner if inner.is_dir() else folder).glob("*.npz"))
    if not files:
        raise ValueError(f"--data: {folder} holds no NAME.npz with the logits of a net")
    nets = {file.stem: _read(file) for file in files}
    first = next(iter(nets.values()))
    for name, net in nets.items():
        if any(not np.array_equal(net[y], first[y]) for y in ("y_judged", "y_test")):
            raise ValueError(f"--data: {name}.npz and {files[0].name} have different labels: other rows?")
    return nets


def pools(nets: Mapping[str, Mapping[str, NDArray[Any]]]) -> dict[str, list[str]]:
    """Return each net alone, all but the best of the rows held out, and all."""
    alone = {name: [name] for name in nets}
    if len(nets) < 2:
        return alone
    best = min(
        nets, key=lambda name: errors(nets[name]["y_judged"], nets[name]["judged"].argmax(axis=1))["mean"]
    )
    return alone | {f"all but {best}": [name for name in nets if name != best], "all": list(nets)}


def _cell(nets: Mapping[str, Mapping[str, NDArray[Any]]], names: Sequence[str], half: int) -> Any:
    """Choose on all rows held out (−1), or on one of their random halves, stratified by class."""
    began = time.process_time()
    y = nets[names[0]]["y_judged"]
    rows = np.arange(len(y))
    if half >= 0:
        rows = train_test_split(rows, test_size=0.5, stratify=y, random_state=half)[0]
    judged = {name: nets[name]["judged"][rows] for name in names}
    test = {name: nets[name]["test"] for name in names}
    found = after_training(judged, y[rows], test, nets[names[0]]["y_test"])
    return found | {"seconds": round(time.process_time() - began, 2)}


def play(settings: Settings, name: str) -> Report:
    """Compute missing cells and read all cells."""
    nets = read_nets(settings.folder)
    cells = Cells(settings, name, total=len(pools(nets)) * (settings.repeats + 1))
    found: dict[str, dict[str, Any]] = {}
    for pool, names in pools(nets).items():
        all_rows, *halves = (
            cells.get({"pool": pool, "half": half}, partial(_cell, nets, names, half))
            for half in range(-1, settings.repeats)
        )
        found[pool] = {"all rows": all_rows, "halves": halves}
    first = next(iter(nets.values()))
    trained = {net: errors(of["y_test"], of["test"].argmax(axis=1)) for net, of in nets.items()}
    sizes = {part: len(first[f"y_{part}"]) for part in ("judged", "test")}
    return Report(
        _text(settings, found, trained, first["y_test"], sizes),
        {
            "settings": {"halves": settings.repeats, "budgets": BUDGETS, "rows": sizes},
            "as trained": trained,
            "after training": {
                pool: {
                    how: [_summary(budget, of["all rows"][how][k], [h[how][k] for h in of["halves"]])
                          for k, budget in enumerate(BUDGETS)]
                    for how in (WEIGHTS, MIXTURE)
                }
                for pool, of in found.items()
            },
        },
    )  # fmt: skip


def _summary(budget: float | None, chosen: dict[str, Any], halves: list[dict[str, Any]]) -> dict[str, Any]:
    """Return the figures of a choice, with mean, least and most over the halves."""
    found = {"mean budget": budget, **chosen}
    for what in ("worst", "mean"):
        if halves:
            x = np.array([half[what] for half in halves])
            found[f"{what}, halves"] = [round(float(v), 5) for v in (x.mean(), x.min(), x.max())]
    return found


def _interval(found: Mapping[str, Any], y_test: NDArray[Any]) -> str:
    """Return the 95 % interval for the error of the worst class on the test rows, as text."""
    low, high = clopper_pearson_interval(found["worst"], int((y_test == found["class"]).sum()))
    return f"[{100 * float(low):.1f}, {100 * float(high):.1f}]"


def _text(
    settings: Settings, found: Mapping[str, Any], trained: Mapping[str, dict[str, Any]],
    y_test: NDArray[Any], sizes: Mapping[str, int],
) -> str:  # fmt: skip
    body = []
    for pool, of in found.items():
        if pool in trained:
            own = trained[pool]
            body.append([pool, "as trained", "", *_numbers(own), _interval(own, y_test), "", ""])
        for how in (WEIGHTS, MIXTURE):
            for k, budget in enumerate(BUDGETS):
                row, halves = of["all rows"][how][k], [h[how][k] for h in of["halves"]]
                words = "none" if budget is None else f"{100 * budget:g} point" + "s" * (budget != 0.01)
                summary = _summary(budget, row, halves)
                spread = [_range(summary.get(f"{what}, halves")) for what in ("worst", "mean")]
                body.append([pool, how, words, *_numbers(row), _interval(row, y_test), *spread])
    header = ["pool", "after training", "budget on the mean", "worst class", "mean", "95 % of that class"]
    header += [f"worst, {settings.repeats} halves", "mean"]
    return "\n\n".join(
        [
            f"Test errors of `predict` in %, on {sizes['test']:,} rows. Chosen on {sizes['judged']:,} rows "
            "held out; in the last two columns on random halves of them: mean (least … most). The interval "
            "is that of Clopper and Pearson for the class that is worst, as if it had been named before. "
            "Class weights are one net, or one average of nets, with shifted log-probabilities.",
            markdown(header, body),
        ]
    )


def _numbers(row: Mapping[str, Any]) -> list[str]:
    return [f"{100 * row[what]:.1f}" for what in ("worst", "mean")]


def _range(spread: Sequence[float] | None) -> str:
    if spread is None:
        return ""
    mean, least, most = (100 * error for error in spread)
    return f"{mean:.1f} ({least:.1f} … {most:.1f})"


EXPERIMENTS = (
    Experiment(
        "post-processing",
        "CIFAR-10 nets as trained, with class weights, and mixed within a budget: nothing is trained",
        play,
        repeats=10,
    ),
)
