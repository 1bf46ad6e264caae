"""The experiment on Shivaswamy and Jebara's tables: its protocol, its table, resuming and interrupts."""

import json
from dataclasses import replace
from functools import partial

import numpy as np
import pytest
from scipy import stats

from experiments import Settings, get_experiment, variance, variance_peers
from experiments._generators import make_ringnorm, make_waveform
from experiments._tables import Data

pytest.importorskip("pandas")

pytestmark = pytest.mark.experiments


@pytest.fixture
def small(monkeypatch):
    """Few rounds on small generated sets; nothing is in the data folder."""
    for name, value in (("GENERATED", 160), ("PATIENCE", 3), ("MOST_ROUNDS", 12), ("LAMBDAS", (0.2, 0.8))):
        monkeypatch.setattr(variance, name, value)


@pytest.mark.parametrize("name", ["variance-stumps", "variance-cart"])
def test_tables(name, tmp_path, small):
    lines = []
    settings = Settings(out=tmp_path / "out", data=tmp_path, repeats=3, say=lines.append)
    text = get_experiment(name).run(settings)
    assert "no file" in lines[0]
    assert "mushrooms" in lines[0]
    document = json.loads((settings.out / f"{name}.json").read_text())
    tasks = {"ringnorm", "twonorm", "waveform"}
    assert {row["data"] for row in document["rows"]} == tasks
    # The rows against the cells they are made of, by other formulas.
    cells = [json.loads(line) for line in (settings.out / f"{name}.jsonl").read_text().splitlines()]
    assert len(cells) == 3 * len(tasks)
    for row in document["rows"]:
        of = [cell["values"]["methods"] for cell in cells if cell["key"]["data"] == row["data"]]
        ours = 100 * np.array([methods[row["method"]]["test"] for methods in of])
        gain = 100 * np.array([methods["AdaBoost"]["test"] for methods in of]) - ours
        assert row["repeats"] == 3
        assert row["ours"] == pytest.approx(ours.mean(), rel=1e-5)
        assert row["difference"] == pytest.approx(ours.mean() - row["published"], rel=1e-5, abs=1e-5)
        assert row["gain_over_adaboost"] == pytest.approx(gain.mean(), rel=1e-5, abs=1e-9)
        if np.ptp(gain) > 0:
            t = gain.mean() / (gain.std(ddof=1) / np.sqrt(3))
            assert row["p_value"] == pytest.approx(2 * stats.t.sf(abs(t), 2), rel=1e-5)
        else:
            assert row["p_value"] == 1
    assert document["reading"] in text
    assert (settings.out / f"{name}.png").exists()
    # The second run finds every cell and comes to the same table.
    lines.clear()
    assert get_experiment(name).run(settings) == text
    assert len(lines) == 1


def test_an_interrupt_ends_it_and_the_next_run_goes_on(tmp_path, monkeypatch, small):
    count, whole = 0, variance.STUMPS.play

    def interrupted(*args):
        nonlocal count
        count += 1
        if count == 8:
            raise KeyboardInterrupt
        return whole(*args)

    stumps = replace(variance.STUMPS, play=interrupted)
    settings = Settings(out=tmp_path / "out", data=tmp_path, repeats=4, say=lambda line: None)
    experiment = replace(get_experiment("variance-stumps"), play=partial(variance.play, of=stumps))
    with pytest.raises(KeyboardInterrupt):
        experiment.run(settings)
    assert len((settings.out / "variance-stumps.jsonl").read_text().splitlines()) == 7
    experiment.run(settings)
    assert count == 8 + 4 * 3 - 7


def test_after_the_time_limit_sets_have_the_splits_that_are_finished(tmp_path, small):
    settings = Settings(out=tmp_path / "out", data=tmp_path, repeats=3, say=lambda line: None)
    experiment = get_experiment("variance-stumps")
    experiment.run(settings)
    cells = settings.out / "variance-stumps.jsonl"
    lines = cells.read_text().splitlines()
    kept = [line for line in lines if '"twonorm", "repeat": 2' not in line and "waveform" not in line]
    cells.write_text("\n".join(kept) + "\n")
    experiment.run(replace(settings, repeats=50, max_time=1e-9))
    document = json.loads((settings.out / "variance-stumps.json").read_text())
    assert {row["data"]: row["repeats"] for row in document["rows"]} == {"ringnorm": 3, "twonorm": 2}
    assert "waveform" in document["absent"]
    assert cells.read_text().splitlines() == kept


def test_splits_and_choice():
    X = np.arange(103.0)[:, None]
    split = variance.halves(Data(X, np.arange(103) % 2), 5)
    parts = [split.train.X, split.validate.X, split.test.X]
    assert [len(part) for part in parts] == [51, 26, 26]
    assert sorted(np.concatenate(parts).ravel()) == list(range(103))
    runs = [{"validation": 0.2, "lam": 1}, {"validation": 0.1, "lam": 2}, {"validation": 0.1, "lam": 3}]
    assert variance.best_validated(runs)["lam"] == 2


def test_the_chosen_lambda_is_recorded(monkeypatch):
    monkeypatch.setattr(variance, "MOST_ROUNDS", 3)
    rng = np.random.default_rng(0)
    X = rng.normal(size=(80, 2))
    split = variance.halves(Data(X, (X[:, 0] + rng.normal(size=80) > 0).astype(int)), 0)
    outcome = variance.with_stumps(split, 1)
    assert outcome["EBBoost"]["lam"] in variance.LAMBDAS
    assert outcome["VadaBoost"]["lam"] in variance.LAMBDAS


def test_every_printed_set_has_a_task():
    assert set(variance.TASKS) == set(variance.PUBLISHED_STUMPS) == set(variance.PUBLISHED_TREES)
    assert {len(row) for row in variance.PUBLISHED_STUMPS.values()} == {len(variance.STUMP_METHODS)}
    assert {len(row) for row in variance.PUBLISHED_TREES.values()} == {len(variance.TREE_METHODS)}


def test_rounds_of_lambda_zero(tmp_path, monkeypatch, small):
    monkeypatch.setattr(variance, "HORIZONS", (2, 5))
    settings = Settings(out=tmp_path / "out", data=tmp_path, say=lambda line: None)
    get_experiment("variance-rounds").run(settings)
    ratios = json.loads((settings.out / "variance-rounds.json").read_text())["ratios"]
    assert set(ratios) == {"ringnorm", "twonorm", "waveform"}
    for found in ratios.values():
        for at in found.values():
            assert 4 / 3 - 1e-9 <= at["formula"] <= 2
            assert at["measured"] >= 1


def test_lambda_from_a_finer_grid(tmp_path, monkeypatch):
    """By hand on separate fits: the errors of each λ, and the selection by validation."""
    for name, value in (("MOST_ROUNDS", 4), ("GRID_SETS", ()), ("FEW", 80)):
        monkeypatch.setattr(variance, name, value)
    settings = Settings(out=tmp_path / "out", data=tmp_path, repeats=3, say=lambda line: None)
    text = get_experiment("variance-lambda").run(settings)
    found = json.loads((settings.out / "variance-lambda.json").read_text())["test error, %"]
    assert set(found) == {variance.RINGNORM}
    test, validated = np.zeros((3, 11)), np.zeros((3, 11))
    for repeat in range(3):
        X, y = make_ringnorm(80, random_state=repeat)
        order = np.random.RandomState(repeat).permutation(80)
        train, validate, held = np.split(order, [40, 60])
        for k in range(11):
            clf = variance.VadaBoostClassifier(
                variance.StumpClassifier(),
                variance_weight=k / 10,
                n_estimators=4,
                n_iter_no_change=100,
                random_state=0,
            ).fit(X[train], y[train], X_val=X[validate], y_val=y[validate])
            test[repeat, k] = 100 * np.mean(clf.predict(X[held]) != y[held])
            validated[repeat, k] = np.mean(clf.predict(X[validate]) != y[validate])
    of = found[variance.RINGNORM]
    assert list(of["by λ"].values()) == pytest.approx(test.mean(axis=0), rel=1e-4)
    fine = test[np.arange(3), validated.argmin(axis=1)]
    assert of[variance.FINE]["mean"] == pytest.approx(fine.mean(), rel=1e-4)
    few = [1, 5, 9]
    coarse = test[np.arange(3), np.take(few, validated[:, few].argmin(axis=1))]
    assert of[variance.COARSE]["mean"] == pytest.approx(coarse.mean(), rel=1e-4)
    assert of["finer less coarse"]["mean"] == pytest.approx((fine - coarse).mean(), abs=1e-3)
    assert "| 13.16 / " in text  # printed for AdaBoost


def test_peers(tmp_path, monkeypatch):
    def load(folder):
        X, y = make_waveform(120, random_state=0)
        return Data(X, y.astype(np.intp))

    monkeypatch.setattr(variance_peers, "SETS", {"waves": load})
    monkeypatch.setattr(variance_peers, "MOST_ROUNDS", 4)
    settings = Settings(out=tmp_path / "out", data=tmp_path, repeats=2, say=lambda line: None)
    text = get_experiment("variance-peers").run(settings)
    found = json.loads((settings.out / "variance-peers.json").read_text())["methods"]["waves"]
    for method in variance_peers.METHODS:
        for figure in found[method].values():
            assert 0 <= figure["mean"] <= 1
            assert figure["n"] == 2
    assert "| waves |" in text
