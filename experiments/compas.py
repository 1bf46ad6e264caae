"""COMPAS by the protocol of Zhai et al., Boosted CVaR Classification (NeurIPS 2021), with two kinds of nets.

All 7,214 rows, eight raw features, target is_recid, 70/30 split with seed 42: the repeats vary the
nets, so intervals describe training, not the rows. MLP 8-100-100-2, SGD .01 with momentum .9,
batches of 128. The nets are a `Family`:

* PyTorch's, as published: 3 epochs of warm-up from which every round starts, weights and momentum; 500 steps
  a round, the step size a tenth after 400; 100 rounds.
* scikit-learn's perceptron: every round is a fresh fit of 13 epochs (520 steps) with weighted losses and a
  constant step.

λ is chosen on training rows, as in the paper, and on rows held out or out of fold.
"""

from __future__ import annotations

import math
import time
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal

import numpy as np
from sklearn.exceptions import ConvergenceWarning
from sklearn.model_selection import train_test_split
from sklearn.neural_network import MLPClassifier

from experiments._experiment import Cells, Experiment, Report, Settings, markdown, plus_minus
from experiments._nets import (
    ALPHAS,
    STAGES,
    Remembered,
    Sample,
    after,
    at_alphas,
    bounds,
    checkpoints,
    curve,
    draw_curves,
    draw_stages,
    judge_game,
)
from experiments._tables import compas as load
from tailboost.app.report.results import summarise
from tailboost.boosting.pool import JudgedPool
from tailboost.classifiers import (
    AdaLPBoostClassifier,
    AverageBoostClassifier,
    LPBoostClassifier,
    RegularizedLPBoostClassifier,
)
from tailboost.selection.problem import CVaR

SPLIT_SEED = 42
STEPS, WARM_EPOCHS, BATCH = 500, 3, 128
HELD_OUT = 0.2
SHOWN = (0.01, 0.1, 0.3, 0.5, 0.7, 0.9)
# An independent re-run of the published procedure (5 seeds), at the α shown; the paper prints figures only.
PUBLISHED = {
    "ERM": ("1.000", "1.000", "1.000", "0.620 ± .007", "0.443 ± .005", "0.344 ± .004"),
    "AdaBoost + average": ("0.520 ± .009", "0.511 ± .001", "0.505 ± .001", "0.503", "0.502", "0.500"),
    "AdaLPBoost": ("0.505 ± .013", "0.500 ± .001", "0.500", "0.500", "0.443 ± .005", "0.344 ± .004"),
    "uniform weights + LP": ("1.000", "1.000", "0.969", "0.618", "0.441", "0.343"),
}
PUBLISHED_REGULARISED = {0.1: "0.505 ± .01", 0.3: "0.502"}
TRAINED, HELD, UNIFORM = "λ from training", "λ held out", "uniform weights"
CROSS, CROSS_CONSTANTS = "λ cross-fitted", "λ cross-fitted, constants"
REFITTED, AS_IT_COMES = "λ held out, refitted", "as it comes"


@dataclass(frozen=True)
class Game:
    """One game.

    Parameters
    ----------
    make : callable
        The classifier.
    rounds : int or None
        Rounds played; None is the classifier's default.
    params : dict
        Its other parameters.
    judged : {"training", "held out", "own"}
        Rows for λ: training rows, `HELD_OUT` rows, or the classifier's default.
    seeds : int or None
        Largest number of seeds; None is one for each repeat.
    """

    make: Callable[..., Any]
    rounds: int | None
    params: Mapping[str, Any]
    judged: Literal["training", "held out", "own"] = "training"
    seeds: int | None = None


@dataclass(frozen=True)
class Family:
    """Family of nets.

    Parameters
    ----------
    learner : callable
        ``learner(n, seed)`` makes the base learner for n rows.
    games : callable
        ``games(scale)`` gives the games by name.
    stages : tuple of int
        Numbers of rounds with an evaluation of the mixture, in the first game.
    resumes : bool
        Whether a fit is stored round by round.
    """

    learner: Callable[[int, int], Any]
    games: Callable[[str], Mapping[str, Game]]
    stages: tuple[int, ...]
    resumes: bool


# -- PyTorch's net, as published -------------------------------------------------------------------------

ROUNDS = {"paper": 100, "small": 30}
# Training losses, no constants, all rounds: the paper's protocol.
AS_PUBLISHED = {"cv": "train", "include_constants": False, "n_iter_no_change": None}
# All curves of Figure 1 come from the first game. The others stand beside it with one seed, since a game
# takes a processor a minute.
BESIDE = 1
# At so small a rate Hedge keeps the weights uniform.
UNIFORM_WEIGHTS = {"eta": 1e-12}


def _net(n: int, seed: int) -> Any:
    from tailboost.learners.torch import TorchClassifier, nets

    return TorchClassifier(
        nets.mlp_100_100, learning_rate=0.01, momentum=0.9, batch_size=BATCH, steps=STEPS, milestones=(0.8,),
        warmup_steps=WARM_EPOCHS * -(-n // BATCH), device="cpu",
    )  # fmt: skip


def _net_games(scale: str) -> dict[str, Game]:
    T = ROUNDS[scale]
    return {
        TRAINED: Game(AdaLPBoostClassifier, T, AS_PUBLISHED),
        HELD: Game(AdaLPBoostClassifier, T, AS_PUBLISHED, "held out", BESIDE),
        UNIFORM: Game(AverageBoostClassifier, T, UNIFORM_WEIGHTS, seeds=BESIDE),
        **_regularised(T, BESIDE),
        "LPBoost, α = 0.1": Game(LPBoostClassifier, T, AS_PUBLISHED | {"alpha": 0.1}, seeds=BESIDE),
    }


def _regularised(T: int, seeds: int | None = None) -> dict[str, Game]:
    return {
        f"regularised, α = {alpha:g}": Game(
            RegularizedLPBoostClassifier, T, AS_PUBLISHED | {"alpha": alpha, "beta": 100.0}, seeds=seeds
        )
        for alpha in PUBLISHED_REGULARISED
    }


# -- scikit-learn's perceptron ---------------------------------------------------------------------------

PERCEPTRON_ROUNDS = {TRAINED: 40, CROSS: 15, "regularised": 30}


def _perceptron(n: int, seed: int) -> Any:
    return MLPClassifier(
        (100, 100),
        solver="sgd",
        learning_rate_init=0.01,
        momentum=0.9,
        nesterovs_momentum=False,
        batch_size=BATCH,
        alpha=0.0,
        max_iter=13,
        n_iter_no_change=10**6,
        random_state=seed,
    )


def _perceptron_games(scale: str) -> dict[str, Game]:
    T, few = PERCEPTRON_ROUNDS[TRAINED], PERCEPTRON_ROUNDS[CROSS]

    def with_rows_of_its_own(validation: Any, constants: bool) -> Game:
        params = AS_PUBLISHED | {"cv": validation, "include_constants": constants}
        return Game(AdaLPBoostClassifier, few, params, "own")

    return {
        TRAINED: Game(AdaLPBoostClassifier, T, AS_PUBLISHED),
        REFITTED: with_rows_of_its_own(HELD_OUT, constants=False),
        CROSS: with_rows_of_its_own(5, constants=False),
        CROSS_CONSTANTS: with_rows_of_its_own(5, constants=True),
        **_regularised(PERCEPTRON_ROUNDS["regularised"]),
        UNIFORM: Game(AverageBoostClassifier, T, UNIFORM_WEIGHTS),
        AS_IT_COMES: Game(AdaLPBoostClassifier, None, {}, "own"),
    }


FAMILIES = {
    "compas": Family(_net, _net_games, STAGES, resumes=True),
    "compas-mlp": Family(_perceptron, _perceptron_games, (1, 5, 10, 20, 30, 40), resumes=False),
}


# -- one game --------------------------------------------------------------------------------------------


def rows(settings: Settings) -> tuple[Sample, Sample]:
    """Return training and test rows; the same for all repeats."""
    data = load(settings.folder)
    X, X_test, y, y_test = train_test_split(data.X.to_numpy(), data.y, test_size=0.3, random_state=SPLIT_SEED)
    return (X, y), (X_test, y_test)


def _cell(settings: Settings, name: str, game: str, train: Sample, test: Sample, seed: int) -> dict[str, Any]:
    family = FAMILIES[name]
    how = family.games(settings.scale)[game]
    fitted = judged = train
    if how.judged == "held out":
        X, X_val, y, y_val = train_test_split(*train, test_size=HELD_OUT, random_state=seed)
        fitted, judged = (X, y), (X_val, y_val)
    given = dict(how.params) | {"random_state": seed}
    if game != AS_IT_COMES:
        given |= {"estimator": family.learner(len(fitted[1]), seed), "n_estimators": how.rounds}
    with checkpoints(settings, name, game, seed) as folder, warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # training is meant to end after these epochs
        if family.resumes:
            given["estimator"] = Remembered(given["estimator"], folder)
        classifier = how.make(**given)
        began = time.process_time()
        classifier.fit(*fitted)
        seconds = time.process_time() - began
        if how.judged == "own":
            found = _judged_by_itself(classifier, test)
        else:
            members = classifier.estimators_[: classifier.n_iter_]
            stages = family.stages if game == TRAINED else ()
            found = judge_game(members, judged, test, n_classes=2, stages=stages)
            if how.judged == "held out":
                found["bounds"] = bounds(members, judged, test)
        selection = classifier.selection_
        until = None
        if selection.alpha is not None:
            until = round(beats_random_guess_from(selection.pool), 3)
    found["coin flip until α"] = until
    return found | {"seconds": round(seconds, 2), "rounds": classifier.n_iter_}


def beats_random_guess_from(pool: JudgedPool) -> float:
    """Return the α from which on the best mixture of the candidates beats ``1 − 1/K``, to half a per cent.

    The optimal CVaR falls with α, and a single candidate of error e beats the random guess if
    α > e·K/(K−1). So the answer is found by bisection; 1.0 if even the mean is no better.
    """
    guess = 1 - 1 / pool.n_classes
    losses = pool.losses
    base = pool.base
    high = min(1.0, float(losses.means(base).min()) / guess)
    low = high / 1000

    def beats(alpha: float) -> bool:
        return CVaR(alpha).solve(losses, base).value < guess - 1e-7

    if high <= 0.0 or beats(low):
        return low
    while high / low > 1.005:
        middle = math.sqrt(low * high)
        if beats(middle):
            high = middle
        else:
            low = middle
    return high


def _judged_by_itself(classifier: Any, test: Sample) -> dict[str, Any]:
    """Return the test curve of the mixture with optimal λ on the classifier's selection data, at every α."""
    X, y = test
    mixtures = [classifier.reweight(alpha=alpha) for alpha in ALPHAS]
    expected = [1.0 - mixture.predict_distribution(X)[np.arange(len(y)), y] for mixture in mixtures]
    return {
        "curves": {"AdaLPBoost": curve(np.array(expected))},
        "error of predict": [round(float(np.mean(m.predict(X) != y)), 4) for m in mixtures],
    }


# -- the tables ------------------------------------------------------------------------------------------


def play(settings: Settings, name: str) -> Report:
    """Compute missing cells and read all cells."""
    train, test = rows(settings)
    games = FAMILIES[name].games(settings.scale)
    seeds = {game: range(min(how.seeds or settings.repeats, settings.repeats)) for game, how in games.items()}
    cells = Cells(settings, name, total=sum(map(len, seeds.values())))
    found: dict[str, list[dict[str, Any]]] = {game: [] for game in games}
    for game, how in games.items():
        for seed in seeds[game]:
            key = {"game": game, "rounds": how.rounds, "seed": seed}
            found[game].append(cells.get(key, partial(_cell, settings, name, game, train, test, seed)))
    return Report(
        _text(settings, games, found),
        {
            "settings": {"scale": settings.scale, "repeats": settings.repeats, "alphas": ALPHAS},
            "published": {"α": SHOWN} | PUBLISHED | {"regularised": PUBLISHED_REGULARISED},
            "games": {game: summarise(of) for game, of in found.items()},
        },
        partial(_picture, found),
    )


def _text(settings: Settings, games: Mapping[str, Game], found: dict[str, list[dict[str, Any]]]) -> str:
    parts = [
        f"Test α-CVaR of the zero-one loss; {games[TRAINED].rounds} rounds (λ from training), "
        f"{settings.repeats} seeds, 95 % intervals; one seed where there is no interval.",
        markdown(["", "", *(f"α = {alpha:g}" for alpha in SHOWN)], list(_lines(games, found))),
    ]
    trained = found[TRAINED]
    header = ["λ from training, no constants", *(f"α = {alpha:g}" for alpha in SHOWN)]
    excess = at_alphas([_excess(cell["curves"]) for cell in trained], SHOWN)
    parts.append("## AdaLPBoost less the lower of ERM and AdaBoost + average\n\n")
    parts[-1] += markdown(header, [["difference by seed", *excess]])
    stages = _stages(found)
    if stages:
        header = ["", *(f"α = {alpha:g}" for alpha in SHOWN)]
        body = [[after(t), *at_alphas(curves, SHOWN)] for t, curves in stages.items()]
        parts.append("## After T rounds, λ from training, no constants\n\n" + markdown(header, body))
    for game, of in found.items():
        if "bounds" in of[0]:
            header = [game, *(f"α = {alpha:g}" for alpha in SHOWN)]
            body = [[name, *at_alphas([c["bounds"][name] for c in of], SHOWN)] for name in of[0]["bounds"]]
            parts.append("## CVaR of new rows: bounds (δ = .05) and what the test rows show\n\n")
            parts[-1] += markdown(header, body)
    facts = {
        "error of ERM": [c["error"] for c in trained],
        "mean error of the members": [c["mean error of the members"] for c in trained],
    }
    facts["two largest λ at α = 0.1 add up to"] = [c["two largest λ"]["sum"] for c in trained]
    facts["test rows on which these two disagree"] = [c["two largest λ"]["disagree"] for c in trained]
    for alpha in SHOWN:
        at = ALPHAS.index(alpha)
        facts[f"mean loss at α = {alpha:g}"] = [c["mean loss of AdaLPBoost"][at] for c in trained]
    for game, of in found.items():
        if of[0]["coin flip until α"] is not None:
            facts[f"coin flip until α, {game}"] = [c["coin flip until α"] for c in of]
        if "error of predict" in of[0]:
            at = ALPHAS.index(0.1)
            facts[f"error of predict at α = 0.1, {game}"] = [c["error of predict"][at] for c in of]
    body = [[name, plus_minus(values)] for name, values in facts.items()]
    body += [[f"seconds, {game}", plus_minus([c["seconds"] for c in of], 1)] for game, of in found.items()]
    return "\n\n".join([*parts, "## Facts\n\n" + markdown(["", "mean ± 95 %"], body)])


def _excess(curves: Mapping[str, Sequence[float]]) -> list[float]:
    """Return the CVaR of AdaLPBoost less the lower of the other two, at every α; by the paper about 0."""
    lower = np.minimum(curves["ERM"], curves["AdaBoost + average"])
    return list(np.subtract(curves["AdaLPBoost"], lower))


def _curves(found: dict[str, list[dict[str, Any]]], game: str, name: str) -> list[list[float]]:
    return [cell["curves"][name] for cell in found[game]]


def _stages(found: dict[str, list[dict[str, Any]]]) -> dict[int, list[list[float]]]:
    """Return the curves after T rounds by T, λ from training."""
    most = max(cell["rounds"] for cell in found[TRAINED])
    there = [t for t in range(1, most + 1) if after(t) in found[TRAINED][0]["curves"]]
    return {t: _curves(found, TRAINED, after(t)) for t in there}


def _lines(games: Mapping[str, Game], found: dict[str, list[dict[str, Any]]]) -> Iterator[list[str]]:
    """Yield the lines of the first table: published results, ours, and further ones."""
    published = {
        "ERM": (TRAINED, "ERM"),
        "AdaBoost + average": (TRAINED, "AdaBoost + average"),
        "AdaLPBoost": (TRAINED, "AdaLPBoost"),
        "uniform weights + LP": (UNIFORM, "AdaLPBoost"),
    }
    for label, where in published.items():
        yield [label, "published procedure, re-run", *PUBLISHED[label]]
        yield ["", "ours", *at_alphas(_curves(found, *where), SHOWN)]
    further = {
        f"AdaLPBoost, λ from {HELD_OUT:.0%} held out": (HELD, "AdaLPBoost"),
        "the same + constants": (HELD, "AdaLPBoost + constants"),
        "AdaLPBoost + constants, λ from training": (TRAINED, "AdaLPBoost + constants"),
        f"AdaLPBoost, λ from {HELD_OUT:.0%} held out, members refitted": (REFITTED, "AdaLPBoost"),
        "AdaLPBoost, cross-fitted": (CROSS, "AdaLPBoost"),
        "AdaLPBoost + constants, cross-fitted": (CROSS_CONSTANTS, "AdaLPBoost"),
        "AdaLPBoost as it comes (trees)": (AS_IT_COMES, "AdaLPBoost"),
    }
    for label, (game, name) in further.items():
        if game in games and name in found[game][0]["curves"]:
            yield [label, "ours", *at_alphas(_curves(found, game, name), SHOWN)]
    yield ["coin flip", "", *["0.500"] * len(SHOWN)]
    for game, how in games.items():
        if "alpha" not in how.params:
            continue
        at = SHOWN.index(how.params["alpha"])
        blank = [""] * len(SHOWN)
        if game.startswith("regularised"):
            said = PUBLISHED_REGULARISED[how.params["alpha"]]
            yield [f"{game}, β = 100", "published procedure, re-run", *_put(blank, at, said)]
        mine = at_alphas(_curves(found, game, "AdaLPBoost"), SHOWN)[at]
        yield [game, "ours", *_put(blank, at, mine)]


def _put(row: list[str], at: int, value: str) -> list[str]:
    return [*row[:at], value, *row[at + 1 :]]


def _picture(found: dict[str, list[dict[str, Any]]], plt: Any) -> Any:
    games = [game for game in (TRAINED, HELD, CROSS) if game in found]
    width = len(games) + 1
    figure, panels = plt.subplots(1, width, figsize=(5.5 * width, 4.6), sharey=True, layout="constrained")
    draw_stages(panels[-1], _stages(found), "AdaLPBoost after T rounds, λ from training")
    for ax, game in zip(panels[:-1], games, strict=True):
        names = [n for n in ("ERM", "AdaBoost + average", "AdaLPBoost") if n in found[game][0]["curves"]]
        draw_curves(ax, {name: _curves(found, game, name) for name in names}, 2, f"COMPAS, {game}")
    return figure


EXPERIMENTS = (
    Experiment("compas", "COMPAS: CVaR of AdaLPBoost with the paper's net", play, repeats=5),
    Experiment("compas-mlp", "COMPAS: CVaR of AdaLPBoost with scikit-learn's perceptron", play, repeats=5),
)
