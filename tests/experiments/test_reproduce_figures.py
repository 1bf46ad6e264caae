"""Experiments for figures and sensitivity tables of the papers, on toys, against their definitions."""

import json
import re

import cvxpy as cp
import numpy as np
import pytest
from scipy.optimize import linprog

pytest.importorskip("pandas")

from experiments import (
    Settings,
    _tables,
    get_experiment,
    rai_games,
    regularised,
    robust_loss,
    variance,
    worst_class_sensitivity,
)
from experiments._generators import make_waveform
from experiments._tables import Data, split
from tailboost import AdaLPBoostClassifier, DROBoostClassifier, EBBoostClassifier, VadaBoostClassifier
from tailboost.learners import HistTreeClassifier, StumpClassifier

pytestmark = pytest.mark.experiments


def timed(told):
    """Return the lines about computed cells."""
    return [line for line in told if re.search(r": \d+\.\d s", line)]


def run_twice(name, tmp_path, picture=True, **options):
    told = []
    settings = Settings(tmp_path / "out", tmp_path, say=told.append, **options)
    text = get_experiment(name).run(settings)
    cells = [json.loads(line) for line in (settings.out / f"{name}.jsonl").read_text().splitlines()]
    computed = len(timed(told))
    told.clear()
    assert get_experiment(name).run(settings) == text
    assert not timed(told)
    assert computed == len(cells)
    assert (settings.out / f"{name}.png").exists() == picture
    return json.loads((settings.out / f"{name}.json").read_text()), text, cells


def test_curves_are_the_costs_of_their_formulas(tmp_path, monkeypatch):
    for name, value in (("CURVES", ("waveform",)), ("MARKS", (1, 4, 9)), ("GENERATED", 160)):
        monkeypatch.setattr(variance, name, value)
    document, text, _ = run_twice("variance-curves", tmp_path)
    X, y = make_waveform(160, random_state=0, binary=True)
    train = variance.halves(Data(X, y.astype(int)), 0).train
    n, curves = len(train.y), document["log costs"]["waveform"]

    def costs(classifier, lam):
        classifier.fit(train.X, train.y)
        for f in classifier.staged_decision_function(train.X):
            loss = np.exp(-np.where(train.y == 1, f, -f))
            yield (loss.sum() ** 2 + lam * (n * (loss**2).sum() - loss.sum() ** 2)) / n**2

    half = list(costs(VadaBoostClassifier(StumpClassifier(), variance_weight=0.5, n_estimators=9), 0.5))
    assert np.exp(curves["VadaBoost, λ = 0.5"]) == pytest.approx([half[t - 1] for t in (1, 4, 9)], rel=1e-4)
    half = list(costs(EBBoostClassifier(variance_weight=0.5, n_estimators=9), 0.5))
    assert np.exp(curves["EBBoost, λ = 0.5"]) == pytest.approx([half[t - 1] for t in (1, 4, 9)], rel=1e-4)
    none = list(costs(VadaBoostClassifier(StumpClassifier(), variance_weight=0.0, n_estimators=9), 0.0))
    squares = [none[t - 1] for t in (1, 4, 9)]
    assert np.exp(2 * np.array(curves["VadaBoost, λ = 0"])) == pytest.approx(squares, rel=1e-4)
    assert f"{np.exp(curves['AdaBoost'][-1]):.3g}" in text


def toy(K):
    def load(folder):
        rng = np.random.default_rng(K)
        X = rng.normal(size=(240, 3))
        return Data(X, (X[:, 0] + rng.normal(size=240) > 0).astype(int) + (K - 2) * (X[:, 1] > 0))

    return load


def test_regularised_beside_adalpboost(tmp_path, monkeypatch):
    loaders = {"two": toy(2), "three": toy(3)}
    monkeypatch.setattr(_tables, "LOADERS", loaders)
    for name, value in (("TABLES", ("two", "three")), ("ALPHAS", (0.2, 0.6)), ("ROUNDS", 4)):
        monkeypatch.setattr(regularised, name, value)
    document, text, cells = run_twice("regularised", tmp_path, repeats=2)
    gaps = document["regularised − AdaLPBoost"]
    for name in loaders:
        of = [cell["values"] for cell in cells if cell["key"]["data"] == name]
        by_hand = np.mean([np.subtract(v["regularised LPBoost"], v["AdaLPBoost"]) for v in of], axis=0)
        assert [gap["mean"] for gap in gaps[name]] == pytest.approx(by_hand, abs=1e-5)
    # One cell against its definition: the test CVaR by a generic solver.
    rows = split(toy(2)(None), 1, 0.5, 2_000, 4_000)
    clf = AdaLPBoostClassifier(
        HistTreeClassifier(max_depth=5), n_estimators=4, alpha=0.2, cv=0.2, include_constants=False,
        n_iter_no_change=None, random_state=1,
    ).fit(rows.train.X, rows.train.y)  # fmt: skip
    loss = 1 - clf.predict_distribution(rows.test.X)[np.arange(len(rows.test.y)), rows.test.y]
    n = len(loss)
    truth = -linprog(-loss, A_eq=np.ones((1, n)), b_eq=[1], bounds=(0, 1 / (0.2 * n))).fun
    (cell,) = (c["values"] for c in cells if c["key"] == {"data": "two", "repeat": 1})
    assert cell["AdaLPBoost"][0] == pytest.approx(truth, abs=1e-7)
    assert "over 4 pairs" in text.lower()


def test_rai_games(tmp_path, monkeypatch):
    """The weights against a generic solver, the bound of game play, and the table against its definitions."""
    monkeypatch.setattr(rai_games, "LOADERS", {"two": toy(2), "three": toy(3)})
    for name, value in (("TABLES", ("two", "three")), ("ROUNDS", 4)):
        monkeypatch.setattr(rai_games, name, value)
    document, text, cells = run_twice("rai-games", tmp_path, picture=False, repeats=2)
    assert len(cells) == 4
    values = [cell["values"] for cell in cells if cell["key"]["data"] == "three"]
    mean = document["values"]["three"]["worst class"]["game play, even mixture"]["test"]["mean"]
    by_hand = np.mean([v["worst class"]["game play, even mixture"]["test"] for v in values])
    assert mean == pytest.approx(by_hand, abs=1e-5)
    for value in values:
        for game in value.values():  # the program mixes the same hypotheses, and no worse on their rows
            least = game["game play, λ by the program"]["train"]
            assert least <= min(game["game play, even mixture"]["train"], game["one tree"]["train"]) + 1e-9
    data, rounds = toy(3)(None), 12
    for make in (rai_games.by_rows, rai_games.by_classes):
        game = make(data.y)
        played = rai_games.game_play(game, data.X, data.y, rounds, 0)
        of_units = np.array([game.losses(losses) for losses in played.losses])
        eta, m = np.sqrt(8 * game.largest / rounds), len(game.shares)
        # Hedge's bound: the loss of the even mixture is at most the loss of the rounds plus the regret.
        lost = np.mean([w @ losses for w, losses in zip(played.weights, of_units, strict=True)])
        assert game.value(played.losses.mean(axis=0)) <= lost + np.sqrt(game.largest / (2 * rounds)) + 1e-9
        for t in (1, 5, 11):
            w = cp.Variable(m, nonneg=True)
            gain = of_units[:t].sum(axis=0) @ w - cp.sum(cp.rel_entr(w, 1 / m)) / eta
            cap = 1 / (game.alpha * m)
            cp.Problem(cp.Maximize(gain), [cp.sum(w) == 1, w <= cap]).solve(solver=cp.CLARABEL)
            np.testing.assert_allclose(played.weights[t], w.value, atol=2e-5)
    assert "| three | worst class | ours, as it comes |" in text


def test_robust_loss_and_ball(tmp_path, monkeypatch):
    """Figures come from test rows with unchanged labels; the flips depend on the seed."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(300, 4))
    y = (X[:, 0] + rng.normal(size=300) > 0).astype(int)
    monkeypatch.setattr(robust_loss, "rows_of", lambda seed: (X[:150], X[150:], y[:150], y[150:]))
    monkeypatch.setattr(robust_loss, "ROUNDS", 3)
    document, text, cells = run_twice("robust-loss", tmp_path, picture=False, repeats=2)
    assert len(cells) == 4
    flipped = np.where(np.random.default_rng(1).random(150) < 0.2, 1 - y[:150], y[:150])
    assert 10 < (flipped != y[:150]).sum() < 50
    clf = DROBoostClassifier(loss="logistic", radius=0.05, n_estimators=3, random_state=1)
    share = np.mean(clf.fit(X[:150], flipped).predict(X[150:]) == y[150:])
    (cell,) = (c["values"] for c in cells if c["key"] == {"labels": "a fifth flipped", "repeat": 1})
    assert cell["logistic, δ = 0.05"]["accuracy"] == pytest.approx(share)
    of = [c["values"]["logistic, δ = 0.05"]["tpr"] for c in cells if c["key"]["labels"] == "labels as given"]
    mean = document["test"]["labels as given"]["logistic, δ = 0.05"]["tpr"]["mean"]
    assert mean == pytest.approx(np.mean(of), abs=1e-5)
    assert text.count("smoothed_hinge, δ = 0.05") == 2


def test_theta_is_chosen_on_validation_rows(tmp_path, monkeypatch):
    scale = worst_class_sensitivity.SCALE
    small = type(scale)((8,), 3, 100, 40, 20, 2)
    for name, value in (("SCALE", small), ("THETAS", (0.3, 0.6)), ("GAMMAS", (0.3995,))):
        monkeypatch.setattr(worst_class_sensitivity, name, value)
    document, text, cells = run_twice("worst-class-sensitivity", tmp_path, repeats=2)
    chosen = document["θ by validation, by γ"]["0.3995"]
    for seed in range(2):
        of = {c["key"]["theta"]: c["values"] for c in cells if c["key"]["seed"] == seed}
        best = min((0.3, 0.6), key=lambda theta: (of[theta]["validation"]["worst"], theta))
        assert chosen["θ"][seed] == best
        assert chosen["worst test"][seed] == pytest.approx(of[best]["test"]["worst"])
        assert chosen["least"][seed] <= chosen["worst test"][seed]
    for theta in ("0.3", "0.6"):
        worst = np.mean([c["values"]["test"]["worst"] for c in cells if c["key"]["theta"] == float(theta)])
        assert document["worst and mean test %, rounds, by γ and θ"]["0.3995"][theta][0] == pytest.approx(
            worst, rel=1e-4
        )
    assert "61.7 / 43.4" in text  # printed for θ = 0.3
