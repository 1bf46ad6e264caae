"""Worst-class boosting on the artificial data of its paper: overlapping squares, overlapping discs.

Tables I and II of Saito et al. 2024. The learner is a parameter (`Family`): here scikit-learn's multi-layer
perceptron. Test points are scaled by the range of the training rows. All rounds vote, as
published. Two variants are the prefix of rounds with the smallest worst-class training error, and
the optimal mixture with the expected errors of the randomised rule.
"""

from __future__ import annotations

import copy
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.neural_network import MLPClassifier
from sklearn.preprocessing import MinMaxScaler
from sklearn.utils.class_weight import compute_sample_weight

from experiments._experiment import (
    Cells,
    Experiment,
    Report,
    Settings,
    markdown,
    plus_minus,
    vote_shares,
)
from experiments._generators import make_discs, make_squares
from tailboost import published
from tailboost.app.report.results import summarise
from tailboost.solvers import minimize_cvar_mixture

Floats = NDArray[np.float64]
Table = NDArray[np.float32]
Labels = NDArray[np.int64]
# Trains a model on rows and labels, from a seed.
Trainer = Callable[[Table, Labels, int], Any]

GAMMA = 0.0995
ROWS_AT_ONCE = 20_000
SIDE = 120  # of the grid on which decision regions are drawn
BOOSTING = "worst-class boosting"
OCO = "OCO boosting"
HALF = "0.5-DNN"


@dataclass(frozen=True)
class Scale:
    """Sizes of the experiment.

    Parameters
    ----------
    hidden : tuple of int
        Units of the hidden layers.
    epochs : int
        Epochs of single models, and the most in one round of boosting.
    batch_size : int
    squares, discs : int
        Test points of each square, and of the small disc.
    oco_rounds : int or "auto"
        Rounds of OCO boosting.
    """

    hidden: tuple[int, ...]
    epochs: int
    batch_size: int
    squares: int
    discs: int
    oco_rounds: int | str


SCALES = {
    "small": Scale((128, 64), 500, 100, 4_000, 1_000, 30),
    "paper": Scale((1024, 512), 1_000, 100, 100_000, 10_000, "auto"),
}


@dataclass(frozen=True)
class Family:
    """Family of nets.

    Parameters
    ----------
    learner : classifier
        Learner of the boosters; grows up to its number of epochs.
    singles : dict of callables
        Trainers of single models by name.
    """

    learner: Any
    singles: Mapping[str, Trainer]


# -- scikit-learn's perceptron ---------------------------------------------------------------------------


def perceptrons(scale: Scale) -> Family:
    """Return scikit-learn's multi-layer perceptron with Adam at 0.01, as published."""
    net = MLPClassifier(
        scale.hidden,
        learning_rate_init=0.01,
        batch_size=scale.batch_size,
        alpha=0.0,
        max_iter=scale.epochs,
        n_iter_no_change=scale.epochs,
    )

    def ce(X: Table, y: Labels, seed: int, class_weight: Any = None) -> Any:
        model = clone(net).set_params(random_state=seed)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)  # training is meant to end after these epochs
            return model.fit(X, y, sample_weight=compute_sample_weight(class_weight, y))

    def naive(X: Table, y: Labels, seed: int) -> Any:
        """Every epoch on the class with the largest mean cross-entropy; the best net on the way is kept."""
        model = clone(net).set_params(random_state=seed)
        model.partial_fit(X, y, classes=np.unique(y))
        least, best = np.inf, model
        for _ in range(scale.epochs):
            p = model.predict_proba(X)[np.arange(len(y)), y]
            ce_of_class = np.bincount(y, weights=-np.log(np.maximum(p, 1e-12))) / np.bincount(y)
            if ce_of_class.max() < least:
                least, best = ce_of_class.max(), copy.deepcopy(model)
            worst = y == ce_of_class.argmax()
            with warnings.catch_warnings():
                warnings.filterwarnings("ignore", "Got `batch_size`")  # the class may have fewer rows
                model.partial_fit(X[worst], y[worst])
        return best

    return Family(net, {"CE": ce, "weighted CE": partial(ce, class_weight="balanced"), "naive": naive})


# -- the tables ------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Case:
    """One column of results: the data, the target, and published errors in per cent.

    Parameters
    ----------
    title : str
        Name.
    theta : float
        θ: the error of each class must be below 1 − θ.
    train, test : callable
        Draw rows from a random state; test rows also from the scale.
    published, again : dict
        Worst and mean test error by method: the paper's, and an independent run of its method.
    """

    title: str
    theta: float
    train: Callable[[int], tuple[Floats, Labels]]
    test: Callable[[int, Scale], tuple[Floats, Labels]]
    published: Mapping[str, tuple[float, float]]
    again: Mapping[str, tuple[float, float]]


def _discs(n_min: int, published: Mapping[str, tuple[float, float]]) -> Case:
    return Case(
        f"Table II, n_min = {n_min}",
        0.5,
        lambda seed: make_discs(n_min, random_state=seed),
        lambda seed, scale: make_discs(scale.discs, random_state=seed),
        published,
        {},
    )


CASES = (
    Case(
        "Table I",
        0.75,
        lambda seed: make_squares(100, random_state=seed),
        lambda seed, scale: make_squares(scale.squares, random_state=seed),
        {
            "CE": (52.2, 23.4), OCO: (49.6, 23.3), HALF: (32.0, 22.7), "naive": (28.5, 23.8),
            BOOSTING: (28.1, 23.9),
        },
        {"CE": (50.7, 22.0), HALF: (27.5, 21.9), "naive": (28.2, 23.1), BOOSTING: (28.1, 23.5)},
    ),
    _discs(
        10,
        {
            "CE": (71.0, 30.8), "weighted CE": (64.8, 32.1), OCO: (67.6, 31.1), HALF: (67.3, 30.4),
            "naive": (55.5, 34.5), BOOSTING: (59.8, 31.3),
        },
    ),
    _discs(
        50,
        {
            "CE": (68.0, 29.2), "weighted CE": (53.8, 33.2), OCO: (67.8, 29.1), HALF: (63.9, 29.9),
            "naive": (52.2, 33.4), BOOSTING: (49.5, 33.2),
        },
    ),
    _discs(
        100,
        {
            "CE": (65.1, 29.0), "weighted CE": (47.5, 33.8), OCO: (66.4, 28.8), HALF: (57.9, 32.1),
            "naive": (51.1, 33.8), BOOSTING: (45.5, 34.1),
        },
    ),
)  # fmt: skip


# -- one cell --------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Rows:
    """Scaled training and test rows, and a grid over the training rows."""

    X: Table
    y: Labels
    X_test: Table
    y_test: Labels

    @classmethod
    def draw(cls, case: Case, seed: int, scale: Scale) -> Rows:
        """Draw them, scaled by the range of the training rows."""
        X, y = case.train(seed)
        X_test, y_test = case.test(10_000 + seed, scale)
        scaler = MinMaxScaler().fit(X)
        return cls(
            scaler.transform(X).astype(np.float32), y, scaler.transform(X_test).astype(np.float32), y_test
        )

    @property
    def grid(self) -> Table:
        """Points of the square in which decision regions are drawn."""
        line = np.linspace(-0.05, 1.05, SIDE, dtype=np.float32)
        return np.stack(np.meshgrid(line, line), axis=-1).reshape(-1, 2)


def said(members: Sequence[Any], X: Table) -> NDArray[np.uint8]:
    """Return the class each member answers to each row, shape (T, n); computed in batches of rows."""
    parts = [X[i : i + ROWS_AT_ONCE] for i in range(0, len(X), ROWS_AT_ONCE)]
    return np.array(
        [np.concatenate([np.asarray(m.predict(part)) for part in parts]) for m in members], dtype=np.uint8
    )


def class_errors(P: Floats, y: Labels) -> Floats:
    """Return the expected error in each class of a rule with these shares."""
    return np.bincount(y, weights=1.0 - P[np.arange(len(y)), y]) / np.bincount(y)


def decided(P: Floats) -> Floats:
    """Return the label distribution of the class with the largest probability, as zeros and ones."""
    return np.eye(P.shape[1])[P.argmax(axis=1)]


def judge(rows: Rows, members: Sequence[Any], rules: Mapping[str, Floats], draw: bool) -> dict[str, Any]:
    """Return class errors on training and test rows of rules, each given by its weights of the members."""
    K = int(rows.y.max()) + 1
    train, test = said(members, rows.X), said(members, rows.X_test)
    grid = said(members, rows.grid) if draw else None
    values = {}
    for name, weights in rules.items():
        of_train, of_test = vote_shares(train, weights, K), vote_shares(test, weights, K)
        if name != "mixture":
            of_train, of_test = decided(of_train), decided(of_test)
        values[name] = {
            "train": class_errors(of_train, rows.y).round(5).tolist(),
            "test": class_errors(of_test, rows.y_test).round(5).tolist(),
            "mean test": round(float(1.0 - of_test[np.arange(len(of_test)), rows.y_test].mean()), 5),
        }
        if grid is not None:
            values[name]["grid"] = "".join(map(str, vote_shares(grid, weights, K).argmax(axis=1)))
    return values


def single(train: Trainer, rows: Rows, seed: int, draw: bool) -> dict[str, Any]:
    """Train and evaluate one model."""
    model = train(rows.X, rows.y, seed)
    return {"rules": judge(rows, [model], {"": np.ones(1)}, draw)}


def boosted(clf: Any, rows: Rows, draw: bool, mixed: bool = False) -> dict[str, Any]:
    """Fit a booster and judge its vote; with ``mixed`` the best prefix and the best mixture too."""
    clf.fit(rows.X, rows.y)
    members = clf.estimators_
    T = len(members)
    rules: dict[str, Floats] = {"": np.full(T, 1.0 / T)}
    values: dict[str, Any] = {"rounds": T, "stopped": clf.trace_.stop_reason}
    if mixed:
        K = len(clf.classes_)
        answers = said(members, rows.X)
        errors = np.array([class_errors(np.eye(K)[a], rows.y) for a in answers])
        values["prefix"] = best_prefix(answers, rows.y)
        rules["best prefix"] = (np.arange(T) < values["prefix"]) / values["prefix"]
        rules["mixture"] = minimize_cvar_mixture(errors, 1.0 / K).mixture
    return values | {"rules": judge(rows, members, rules, draw)}


def best_prefix(answers: NDArray[np.uint8], y: Labels) -> int:
    """Return how many of the first voters have the least largest class error, of equal numbers the fewest."""
    votes = np.cumsum(np.eye(int(y.max()) + 1)[answers], axis=0)
    return int(np.argmin([class_errors(decided(of), y).max() for of in votes])) + 1


def trainers(case: Case, family: Family, scale: Scale, seed: int) -> Iterator[tuple[str, Callable[..., Any]]]:
    """Yield the methods of a case; each is called with the rows and whether to draw."""
    for name, train in family.singles.items():
        if name in case.published or name not in ("CE", "weighted CE", "naive"):
            yield name, partial(single, train, seed=seed)
    make = partial(published.worst_class_boost, family.learner, case.theta, random_state=seed)
    oco = published.oco_boost(family.learner, GAMMA, T=scale.oco_rounds, random_state=seed)
    yield OCO, partial(boosted, oco)
    yield HALF, partial(boosted, make(gamma=0.5, n_estimators=1))
    yield BOOSTING, partial(boosted, make(gamma=GAMMA), mixed=True)


# -- running ---------------------------------------------------------------------------------------------

Results = dict[str, dict[str, list[dict[str, Any]]]]


def play(settings: Settings, name: str, family: Callable[[Scale], Family]) -> Report:
    """Compute missing cells for a family of nets and read all cells."""
    scale = SCALES[settings.scale]
    cells = Cells(settings, name)
    results: Results = {case.title: {} for case in CASES}
    for seed in range(settings.repeats):
        for case in CASES:
            rows = Rows.draw(case, seed, scale)
            for method, compute in trainers(case, family(scale), scale, seed):
                key = {"table": case.title, "seed": seed, "method": method, "scale": settings.scale}
                cell = cells.get(key, partial(compute, rows=rows, draw=seed == 0))
                results[case.title].setdefault(method, []).append(cell)
    protocol = {"repeats": settings.repeats, "scale": settings.scale}
    return Report(
        _text(settings, results),
        protocol | {"tables": {case.title: _summary(case, results[case.title]) for case in CASES}},
        partial(_picture, settings, results),
    )


def by_rule(results: Mapping[str, list[dict[str, Any]]]) -> dict[str, list[dict[str, Any]]]:
    """Return the errors of every rule over the repeats: "method" or "method, rule"."""
    return {
        ", ".join(filter(None, (method, rule))): [cell["rules"][rule] for cell in cells]
        for method, cells in results.items()
        for rule in cells[0]["rules"]
    }


def _bound_met(case: Case, cells: list[dict[str, Any]]) -> int:
    """Count the repeats in which every class's training error is below 1 − θ."""
    return sum(max(cell["train"]) < 1 - case.theta for cell in cells)


def _summary(case: Case, results: Mapping[str, list[dict[str, Any]]]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name, cells in by_rule(results).items():
        errors = [
            {"train": c["train"], "worst test": max(c["test"]), "mean test": c["mean test"]} for c in cells
        ]
        found[name] = summarise(errors) | {"bound met": _bound_met(case, cells)}
        for source, others in (("published", case.published), ("run again", case.again)):
            if name in others:
                found[name][source] = dict(zip(("worst test %", "mean test %"), others[name], strict=True))
    for name in (BOOSTING, OCO):
        found[name] |= {
            k: [c[k] for c in results[name]] for k in ("rounds", "prefix") if k in results[name][0]
        }
    return found


def _text(settings: Settings, results: Results) -> str:
    scale = SCALES[settings.scale]
    parts = [
        f"{settings.repeats} seeds, 95 % intervals over them; errors in per cent. Nets 2-"
        f"{'-'.join(map(str, scale.hidden))}-K, {scale.squares:,} test points per square, {scale.discs:,} of "
        "the small disc and ten times as many of the others. Bound: every class's training error below 1 − θ."
    ]
    header = ["method", "training error by class", "worst test", "mean test", "bound met"]
    header += ["published: worst / mean", "run again: worst / mean"]
    for case in CASES:
        body = []
        for name, values in by_rule(results[case.title]).items():
            train = np.array([v["train"] for v in values])
            body.append(
                [
                    name,
                    " ".join(f"{100 * e:.1f}" for e in train.mean(axis=0)),
                    plus_minus([100 * max(v["test"]) for v in values], 1),
                    plus_minus([100 * v["mean test"] for v in values], 1),
                    f"{_bound_met(case, values)} of {len(values)}",
                    _pair(case.published.get(name)),
                    _pair(case.again.get(name)),
                ]
            )
        played = results[case.title]
        rounds = ", ".join(f"{c['rounds']} (prefix {c['prefix']})" for c in played[BOOSTING])
        oco = ", ".join(str(c["rounds"]) for c in played[OCO])
        parts.append(
            f"## {case.title}: θ = {case.theta:g}, γ = {GAMMA:g}\n\n{markdown(header, body)}\n\n"
            f"Rounds of {BOOSTING}: {rounds}; of {OCO}, which ends where a grown net is no weak learner: "
            f"{oco} (at most {scale.oco_rounds})."
        )
    return "\n\n".join(parts)


def _pair(found: tuple[float, float] | None) -> str:
    return "" if found is None else f"{found[0]:.1f} / {found[1]:.1f}"


def _picture(settings: Settings, results: Results, plt: Any) -> Any:
    """Draw the decision regions of the first seed."""
    from matplotlib.colors import ListedColormap

    colours = ["C0", "C1", "C2", "C3", "C7"]
    shown = [
        (case, {n: v[0] for n, v in by_rule(results[case.title]).items() if "grid" in v[0] and n != OCO})
        for case in (CASES[0], CASES[-1])
    ]
    width = max(len(rules) for _, rules in shown)
    figure, axes = plt.subplots(
        len(shown), width, figsize=(1.9 * width, 2.2 * len(shown)), layout="constrained", squeeze=False
    )
    for line, (case, rules) in zip(axes, shown, strict=True):
        rows = Rows.draw(case, 0, SCALES[settings.scale])
        K = int(rows.y.max()) + 1
        for ax in line[len(rules) :]:
            ax.axis("off")
        for ax, (rule, values) in zip(line, rules.items(), strict=False):
            regions = np.array([int(k) for k in values["grid"]]).reshape(SIDE, SIDE)
            ax.imshow(
                regions, extent=(-0.05, 1.05, -0.05, 1.05), origin="lower", cmap=ListedColormap(colours[:K]),
                vmin=-0.5, vmax=K - 0.5, alpha=0.45, interpolation="nearest",
            )  # fmt: skip
            ax.scatter(*rows.X.T, s=1.5, c=[colours[k] for k in rows.y])
            title = f"{rule}\ntest {100 * max(values['test']):.0f} / {100 * values['mean test']:.0f} %"
            ax.set(xticks=[], yticks=[], title=title)
            ax.title.set_fontsize(8)
        line[0].set_ylabel(case.title, fontsize=9)
    return figure


def experiment(name: str, summary: str, family: Callable[[Scale], Family]) -> Experiment:
    """Return the experiment with a family of nets."""
    return Experiment(name, summary, partial(play, family=family), repeats=5, needs_data=False)


EXPERIMENTS = (
    experiment(
        "worst-class-artificial",
        "worst-class boosting on overlapping squares and discs (Tables I and II), scikit-learn's perceptron",
        perceptrons,
    ),
)
