"""Table II by both row weights: the nets against PyTorch's, the game against a plain loop, a toy run."""

import json
import math
from itertools import pairwise

import numpy as np
import pytest

torch = pytest.importorskip("torch")
for module in ("typer", "rich", "pandas", "jinja2"):
    pytest.importorskip(module)

from typer.testing import CliRunner

from experiments import class_weights as cw
from experiments._experiment import Settings
from tailboost.app import cli

pytestmark = pytest.mark.experiments

TINY = cw.Limits((8, 4), epochs=60, idle=40, discs=20)


def torch_net(flat, sizes):
    """Return a net of PyTorch's layers with the weights of one of ours."""
    layers, begin = [], 0
    for a, b in pairwise(sizes):
        layer = torch.nn.Linear(a, b)
        layer.weight.data = flat[begin : begin + a * b].view(a, b).T.clone()
        layer.bias.data = flat[begin + a * b : begin + a * b + b].clone()
        layers += [layer, torch.nn.ReLU()]
        begin += a * b + b
    return torch.nn.Sequential(*layers[:-1])


def test_steps_are_those_of_adam_with_class_weights():
    rng = np.random.default_rng(0)
    sizes, games = (2, 5, 4, 3), 3
    nets = cw.Nets(sizes, games)
    nets.device = torch.device("cpu")
    for net in range(games):
        nets.restart(net, rng)
    theirs = [torch_net(nets.weights[net].clone(), sizes) for net in range(games)]
    optimizers = [torch.optim.Adam(net.parameters(), lr=cw.LEARNING_RATE) for net in theirs]
    X = torch.from_numpy(rng.normal(size=(games, 20, 2)).astype(np.float32))
    y = torch.from_numpy(rng.integers(0, 3, (games, 20)))
    by_class = torch.from_numpy(rng.random((games, 3)).astype(np.float32))
    for _ in range(30):
        row = torch.stack([by_class[g][y[g]] for g in range(games)])
        nets.step(X, torch.nn.functional.one_hot(y, 3).float(), row / row.sum(1, keepdim=True))
        for g in range(games):
            loss = torch.nn.functional.cross_entropy(theirs[g](X[g]), y[g], weight=by_class[g])
            optimizers[g].zero_grad()
            loss.backward()
            optimizers[g].step()
    for g in range(games):
        logits = theirs[g](X[g])
        np.testing.assert_array_equal(nets.predict(X)[g], logits.argmax(1))
        np.testing.assert_array_equal(nets.predict_with(g, X[g]), logits.argmax(1))
    nets.keep([2, 0])
    np.testing.assert_array_equal(nets.predict(X[[2, 0]])[0], theirs[2](X[2]).argmax(1))


def game(weighting, method=cw.BOOSTING, seed=0):
    case = cw.CASES[1]
    return cw.Game(case, cw.Rows.draw(case, seed, cw._sizes(TINY)), seed, weighting, method)


def test_row_weights():
    by_errors, by_rows = game(cw.OF_ERRORS), game(cw.OF_ROWS)
    y = by_errors.rows.y
    np.testing.assert_allclose(np.bincount(y, weights=by_errors.row_weight), 0.25)
    np.testing.assert_allclose(by_rows.row_weight, 0.25)  # plain cross-entropy in round 1
    assert by_rows.most == math.ceil(2 * math.log(4) / cw.GAMMA**2) == 281


def test_a_game_is_hedge_over_classes():
    played = game(cw.OF_ROWS)
    rng, w = np.random.default_rng(1), np.full(4, 0.25)
    n, n_test = len(played.rows.y), len(played.rows.y_test)
    votes = np.zeros((n, 4))
    for _ in range(12):
        answers = np.where(rng.random(n) < 0.6, played.rows.y, rng.integers(0, 4, n))
        if rng.random() < 0.5:
            answers[played.rows.y == 3] = 0
        r = np.array([np.mean(answers[played.rows.y == k] != k) < 0.5 for k in range(4)])
        met = w @ r >= 0.5 + cw.GAMMA - 1e-9
        assert played.judge(answers, TINY) == met
        if met:
            played.take(answers, np.zeros(n_test, dtype=int))
            votes[np.arange(n), answers] += 1
            w = w * np.exp(-math.sqrt(8 * math.log(4) / 281) * r)
            w /= w.sum()
    np.testing.assert_allclose(played.w, w)
    np.testing.assert_array_equal(played.votes, votes)
    assert 0 < len(played.epochs) < 12


def test_equal_classes_have_one_weighting_and_weights_by_round(tmp_path, monkeypatch):
    monkeypatch.setitem(cw.SCALES, "small", TINY)
    monkeypatch.setattr(cw, "CASES", cw.CASES[:1])
    monkeypatch.setitem(cw.METHODS, cw.BOOSTING, 0.4)
    report = cw.play(Settings(tmp_path, repeats=1, say=lambda line: None), "class-weights")
    (table,) = report.summary["tables"].values()
    assert set(table) == {f"{m}, {cw.OF_ERRORS}" for m in cw.METHODS}
    for line in (tmp_path / "class-weights.jsonl").read_text().splitlines():
        cell = json.loads(line)["values"]
        if weights := cell.get("weights"):
            assert len(weights) == cell["rounds"]
            np.testing.assert_allclose(weights[0], 0.2)
            np.testing.assert_allclose(np.sum(weights, axis=1), 1, atol=1e-3)


def test_a_round_fails_by_either_limit():
    hopeless = game(cw.OF_ERRORS, cw.HALF)
    wrong = (hopeless.rows.y + 1) % 4
    while not hopeless.stopped:
        assert not hopeless.judge(wrong, TINY)
    assert "after 41 epochs" in hopeless.stopped  # the first has the largest w·r so far
    assert hopeless.result()["rounds"] == 0


@pytest.fixture
def toy(monkeypatch):
    monkeypatch.setitem(cw.SCALES, "small", TINY)
    monkeypatch.setattr(cw, "CASES", cw.CASES[1:2])
    monkeypatch.setitem(cw.METHODS, cw.BOOSTING, 0.4)  # fewer rounds


def test_a_toy_run_and_one_in_pieces(tmp_path, toy, monkeypatch):
    whole, pieces = tmp_path / "whole", tmp_path / "pieces"
    result = CliRunner().invoke(
        cli.app, ["reproduce", "class-weights", "--repeats", "2", "--out", str(whole)]
    )
    assert result.exit_code == 0, result.output
    kept = json.loads((whole / "class-weights.json").read_text())
    (table,) = kept["tables"].values()
    assert set(table) == {f"{m}, {w}" for m in cw.METHODS for w in cw.WEIGHTINGS}
    done = []
    while len(done) < 2 * len(table):  # late after more epochs than a round can have
        looks = iter([False] * 70)
        monkeypatch.setattr(Settings, "late", property(lambda self, looks=looks: next(looks, True)))
        cw.play(Settings(pieces, repeats=2, say=lambda line: None, max_time=1), "class-weights")
        done = (pieces / "class-weights.jsonl").read_text().splitlines()
    found = []
    for folder in (whole, pieces):
        cells = [json.loads(line) for line in (folder / "class-weights.jsonl").read_text().splitlines()]
        for cell in cells:
            del cell["values"]["seconds"]
        found.append({json.dumps(c["key"], sort_keys=True): c["values"] for c in cells})
    assert found[0] == found[1]
    assert not list(pieces.glob("checkpoints/*/*.npz"))
