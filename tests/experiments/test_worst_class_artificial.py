"""The artificial experiment of worst-class boosting: its measures against plain ones, and a toy run."""

import json

import numpy as np
import pytest

for module in ("typer", "rich", "pandas", "jinja2", "matplotlib"):
    pytest.importorskip(module)

from typer.testing import CliRunner

from experiments import worst_class_artificial as artificial
from experiments._experiment import vote_shares
from tailboost import metrics
from tailboost.app import cli

pytestmark = pytest.mark.experiments

TOY = artificial.Scale((16,), epochs=30, batch_size=100, squares=50, discs=20, oco_rounds=2)


def test_measures_are_those_of_the_metrics():
    rng = np.random.default_rng(0)
    y = rng.integers(0, 3, 60)
    answers = rng.integers(0, 3, (5, 60)).astype(np.uint8)
    weights = rng.dirichlet(np.ones(5))
    P = vote_shares(answers, weights, 3)
    expected = metrics.class_errors(y, P)
    assert np.allclose(artificial.class_errors(P, y), [expected[k] for k in range(3)])
    labels = metrics.class_errors(y, P.argmax(axis=1))
    assert np.allclose(artificial.class_errors(artificial.decided(P), y), [labels[k] for k in range(3)])


def test_rows_are_scaled_by_the_training_range():
    rows = artificial.Rows.draw(artificial.CASES[0], 0, TOY)
    assert (rows.X.min(axis=0) == 0).all()
    assert np.allclose(rows.X.max(axis=0), 1)
    assert (rows.X_test.min(axis=0) < 0).any() or (rows.X_test.max(axis=0) > 1).any()
    assert np.bincount(rows.y).tolist() == [100] * 5
    small = artificial.Rows.draw(artificial.CASES[1], 0, TOY)
    assert np.bincount(small.y).tolist() == [100, 100, 100, 10]
    assert np.bincount(small.y_test).tolist() == [200, 200, 200, 20]


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_naive_training_lowers_the_largest_cross_entropy():
    rows = artificial.Rows.draw(artificial.CASES[0], 0, TOY)

    def largest(model):
        p = model.predict_proba(rows.X)[np.arange(len(rows.y)), rows.y]
        return (np.bincount(rows.y, weights=-np.log(p)) / np.bincount(rows.y)).max()

    few, many = (
        artificial.perceptrons(artificial.Scale((16,), epochs, 100, 1, 1, 1)).singles["naive"](
            rows.X, rows.y, 0
        )
        for epochs in (1, 60)
    )
    assert largest(many) < largest(few)


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.filterwarnings("ignore::tailboost.BoundNotMetWarning")
def test_toy_run(tmp_path, monkeypatch):
    monkeypatch.setitem(artificial.SCALES, "small", TOY)
    monkeypatch.setattr(artificial, "CASES", (artificial.CASES[0], artificial.CASES[1]))
    monkeypatch.setattr(artificial, "GAMMA", 0.4)
    name = "worst-class-artificial"
    arguments = ["reproduce", name, "--repeats", "1", "--out", str(tmp_path)]
    result = CliRunner().invoke(cli.app, arguments)
    assert result.exit_code == 0, result.output
    kept = json.loads((tmp_path / f"{name}.json").read_text())
    mine = "worst-class boosting"
    for title, rules in kept["tables"].items():
        assert set(rules) == {"CE", "naive", "OCO boosting", "0.5-DNN", mine} | {
            f"{mine}, best prefix",
            f"{mine}, mixture",
        } | ({"weighted CE"} if title != "Table I" else set())
        for figures in rules.values():
            assert 0 < figures["mean test"]["mean"] <= figures["worst test"]["mean"] <= 1
        # The mixture is optimal on the training rows; the prefix is the best of the votes.
        vote, prefix, mixture = (
            max(e["mean"] for e in rules[name]["train"])
            for name in (mine, f"{mine}, best prefix", f"{mine}, mixture")
        )
        assert prefix <= vote + 1e-9
        assert mixture <= prefix + 1e-9
        assert 1 <= rules[mine]["prefix"][0] <= rules[mine]["rounds"][0]
    assert "| worst-class boosting, mixture |" in (tmp_path / f"{name}.md").read_text()
    assert (tmp_path / f"{name}.png").stat().st_size > 10_000
    lines = (tmp_path / f"{name}.jsonl").read_text().splitlines()
    assert len(lines) == 5 + 6


def test_the_best_prefix_is_the_shortest_of_least_worst_error():
    y = np.array([0] * 5 + [1] * 5)
    answers = np.tile(y, (4, 1)).astype(np.uint8)
    for t, missed in enumerate([(0, 1, 2), (1, 2), (0, 2), ()]):
        answers[t, list(missed)] = 1
    worst = []
    for t in range(1, 5):
        votes = [np.bincount(answers[:t, i], minlength=2).argmax() for i in range(10)]
        worst.append(max(np.mean(np.array(votes)[y == k] != k) for k in (0, 1)))
    assert artificial.best_prefix(answers, y) == int(np.argmin(worst)) + 1
