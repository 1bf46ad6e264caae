"""RAI games (Gupta et al. 2023): their game play compared with our solution of the same two games.

A RAI game is min over mixtures of hypotheses, max over the weights w of a set W, of Σ_i w_i ℓ_i. In game play
the weights follow the regularised leader, w_t = argmax over W of ⟨w, Σ_{s<t} ℓ_s⟩ − KL(w ‖ p)/η, a hypothesis
is fitted to each, and all of them are mixed evenly. The step over W is `worst_case_weights` of the mean loss
so far, with smoothing 1/(ηt). Two sets: CVaR at α = .5 (no row above 1/(αn)), and all weights of the classes
(the worst class).

The even mixture is compared with the linear program over the same hypotheses and rows, one tree,
and the classifiers of the package for these games: with defaults (λ by held-out rows, early stopping),
and with all rounds and λ on the training rows, as in game play. A stratified random half, at most 2,000
rows, is for training and the rest, at most 4,000, for the test. Losses are expected zero-one losses.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone

from experiments._experiment import Experiment, Report, Settings, markdown, of_each, plus_minus
from experiments._tables import LOADERS, Data, split
from tailboost import AdaLPBoostClassifier, GroupDROBoostClassifier
from tailboost.app.report.results import summarise
from tailboost.learners import HistTreeClassifier
from tailboost.rates.metrics import expected_zero_one_losses
from tailboost.solvers import cvar, minimize_cvar_mixture, worst_case_weights

Floats = NDArray[np.float64]

TABLES = ("credit default", "digits")  # both come without a download
ALPHA, ROUNDS, DEPTH = 0.5, 30, 5
MAX_TRAIN, MAX_TEST, TEST_SIZE = 2_000, 4_000, 0.5
ONE, EVEN, PROGRAM = "one tree", "game play, even mixture", "game play, λ by the program"
OURS, OURS_ALIKE = "ours, as it comes", "ours, all rounds, λ on the training rows"
ALIKE = {"cv": "train", "n_iter_no_change": None, "include_constants": False}


@dataclass(frozen=True)
class Game:
    """A set W: weights of subgroups, at most 1/α times their fractions.

    Parameters
    ----------
    shares : ndarray of shape (m, n)
        The rows of each subgroup as weights with sum 1: rows, or classes.
    alpha : float in (0, 1]
        1/m allows all weight on one subgroup.
    """

    shares: Floats
    alpha: float

    @property
    def largest(self) -> float:
        """log(1/α), the largest KL(w ‖ p) in the set."""
        return -float(np.log(self.alpha))

    def losses(self, of_rows: Floats) -> Floats:
        """Return the mean loss of each unit."""
        return np.asarray(self.shares @ of_rows)

    def value(self, of_rows: Floats) -> float:
        """Return the largest expected loss over the set."""
        return cvar(self.losses(of_rows), self.alpha)


def by_rows(y: NDArray[Any]) -> Game:
    """Return the game of CVaR: units are rows."""
    return Game(np.eye(len(y)), ALPHA)


def by_classes(y: NDArray[Any]) -> Game:
    """Return the game of the worst class: units are classes."""
    members = (y == np.unique(y)[:, None]).astype(np.float64)
    return Game(members / members.sum(axis=1, keepdims=True), 1.0 / len(members))


@dataclass(frozen=True)
class Played:
    """Fitted hypotheses, their losses on the rows of the game, and the weights of its units, by round."""

    members: list[Any]
    losses: Floats
    weights: Floats


def game_play(game: Game, X: Any, y: NDArray[Any], rounds: int, seed: int) -> Played:
    """Play rounds of follow the regularised leader against a tree."""
    eta = np.sqrt(8 * game.largest / rounds)
    total = np.zeros(len(game.shares))
    members, losses, weights = [], [], []
    for t in range(rounds):
        if t:  # the mean loss, for smoothing in units of one loss
            step = worst_case_weights(total / t, "cvar", radius=game.largest, smoothing=1 / (eta * t))
            w = step.unit_weights
        else:
            w = np.full(len(total), 1 / len(total))
        tree = HistTreeClassifier(max_depth=DEPTH, random_state=seed)
        members.append(tree.fit(X, y, sample_weight=len(y) * (w @ game.shares)))
        wrong = (members[-1].predict(X) != y).astype(np.float64)
        total += game.losses(wrong)
        losses.append(wrong)
        weights.append(w)
    return Played(members, np.array(losses), np.array(weights))


def _cell(data: Data, seed: int) -> dict[str, Any]:
    """Return the value of each game on training and test rows, by classifier."""
    rows = split(data, seed, TEST_SIZE, MAX_TRAIN, MAX_TEST)
    (X, y), (X_test, y_test) = (rows.train.X, rows.train.y), (rows.test.X, rows.test.y)
    common: dict[str, Any] = {"n_estimators": ROUNDS, "random_state": seed}
    found: dict[str, Any] = {}
    for title, make, ours in (
        (f"CVaR at α = {ALPHA:g}", by_rows, AdaLPBoostClassifier(alpha=ALPHA, **common)),
        ("worst class", by_classes, GroupDROBoostClassifier(**common)),
    ):
        game, on_test = make(y), make(y_test)
        played = game_play(game, X, y, ROUNDS, seed)
        test = np.array([(member.predict(X_test) != y_test).astype(float) for member in played.members])
        of_units = np.array([game.losses(losses) for losses in played.losses])
        shares = minimize_cvar_mixture(of_units, game.alpha).mixture
        mixtures = {ONE: np.eye(ROUNDS)[0], EVEN: np.full(ROUNDS, 1 / ROUNDS), PROGRAM: shares}
        values = {
            name: {"train": game.value(m @ played.losses), "test": on_test.value(m @ test)}
            for name, m in mixtures.items()
        }
        for name, options in ((OURS, {}), (OURS_ALIKE, ALIKE)):
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                clf = (
                    clone(ours).set_params(estimator=HistTreeClassifier(max_depth=DEPTH), **options).fit(X, y)
                )
            of_rows = [
                expected_zero_one_losses(labels, clf.predict_distribution(part), labels=clf.classes_)
                for part, labels in ((X, y), (X_test, y_test))
            ]
            values[name] = {"train": game.value(of_rows[0]), "test": on_test.value(of_rows[1])}
        found[title] = values
    return found


def play(settings: Settings, name: str) -> Report:
    """Compute missing cells and read all cells."""
    data = {title: LOADERS[title](Path()) for title in TABLES}  # they need no folder
    found = of_each(data, settings, name, _cell)
    summary = {
        "source": "Gupta et al., Responsible AI (RAI) Games and Ensembles, NeurIPS 2023",
        "settings": {"repeats": settings.repeats, "rounds": ROUNDS, "depth": DEPTH, "alpha": ALPHA},
        "values": {title: summarise(list(of)) for title, of in found.items()},
    }
    return Report(_text(settings, found), summary)


def _text(settings: Settings, found: Mapping[str, Sequence[Mapping[str, Any]]]) -> str:
    body = []
    for table, cells in found.items():
        for game, values in cells[0].items():
            for name in values:
                both = [plus_minus([c[game][name][on] for c in cells]) for on in ("train", "test")]
                body.append([table, game, name, *both])
    return (
        f"Value of the game; {settings.repeats} splits, 95 % intervals over them; {ROUNDS} rounds. Ours is "
        f"`AdaLPBoostClassifier(alpha={ALPHA:g})`, and `GroupDROBoostClassifier` over the classes, with the "
        "same tree.\n\n" + markdown(["data", "game", "who answers", "training rows", "test rows"], body)
    )


EXPERIMENTS = (
    Experiment(
        "rai-games",
        "RAI games (Gupta et al. 2023): their game play beside our classifiers",
        play,
        repeats=5,
        needs_data=False,
    ),
)
