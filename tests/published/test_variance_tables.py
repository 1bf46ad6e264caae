"""The experiment on Shivaswamy and Jebara's tables: its protocol, its table, resuming and interrupts."""

import json

import numpy as np
import pytest

from tailboost.datasets import make_waveform
from tailboost.reproduce import Settings, get_experiment, variance, variance_peers

pytest.importorskip("pandas")


@pytest.fixture(autouse=True)
def small(monkeypatch):
    """Few rounds on small generated sets; nothing is in the data folder."""
    for name, value in (("GENERATED", 160), ("PATIENCE", 3), ("MOST_ROUNDS", 12), ("LAMBDAS", (0.2, 0.8))):
        monkeypatch.setattr(variance, name, value)
    variance._samples.clear()
    yield
    variance._samples.clear()


@pytest.mark.parametrize("name", ["variance-stumps", "variance-cart"])
def test_tables(name, tmp_path):
    lines = []
    settings = Settings(out=tmp_path / "out", data=tmp_path, repeats=3, say=lines.append)
    text = get_experiment(name).run(settings)
    assert "no file" in lines[0]
    assert "mushrooms" in lines[0]
    document = json.loads((settings.out / f"{name}.json").read_text())
    tasks = {"ringnorm", "twonorm", "waveform"}
    assert document["repeats"] == dict.fromkeys(tasks, 3)
    published = variance.PUBLISHED_STUMPS if name == "variance-stumps" else variance.PUBLISHED_TREES
    for row in document["rows"]:
        errors = {m: 100 * np.array(e) for m, e in document["test_errors"][row["data"]].items()}
        ours, adaboost = errors[row["method"]], errors["AdaBoost"]
        assert row["published"] in published[row["data"]]
        assert row["ours"] == pytest.approx(ours.mean())
        assert row["difference"] == pytest.approx(ours.mean() - row["published"])
        gain = adaboost - ours
        assert row["gain_over_adaboost"] == pytest.approx(gain.mean())
        if np.ptp(gain) > 0:
            t = gain.mean() / (gain.std(ddof=1) / np.sqrt(3))
            assert row["p_value"] == pytest.approx(2 * variance.stats.t.sf(abs(t), 2))
        else:
            assert row["p_value"] == 1
    assert document["reading"] in text
    assert (settings.out / f"{name}.png").exists()
    # The second run finds every cell and comes to the same table.
    lines.clear()
    assert get_experiment(name).run(settings) == text
    assert len(lines) == 1


def test_interrupt_shows_what_is_finished(tmp_path, monkeypatch):
    count = 0
    cell = variance._cell

    def interrupted(*args):
        nonlocal count
        count += 1
        if count == 8:
            raise KeyboardInterrupt
        return cell(*args)

    monkeypatch.setattr(variance, "_cell", interrupted)
    lines = []
    settings = Settings(out=tmp_path / "out", data=tmp_path, repeats=4, say=lines.append)
    get_experiment("variance-stumps").run(settings)
    assert "interrupted" in lines[-1]
    document = json.loads((settings.out / "variance-stumps.json").read_text())
    assert document["repeats"] == {"ringnorm": 3, "twonorm": 2, "waveform": 2}


def test_splits_and_choice():
    X = np.arange(103.0)[:, None]
    split = variance.Split.draw((X, np.arange(103) % 2), 5)
    parts = [split.train[0], split.validate[0], split.test[0]]
    assert [len(part) for part in parts] == [51, 26, 26]
    assert sorted(np.concatenate(parts).ravel()) == list(range(103))
    runs = [{"validation": 0.2, "lam": 1}, {"validation": 0.1, "lam": 2}, {"validation": 0.1, "lam": 3}]
    assert variance._best(runs)["lam"] == 2


def test_every_printed_set_has_a_task():
    assert set(variance.TASKS) == set(variance.PUBLISHED_STUMPS) == set(variance.PUBLISHED_TREES)
    assert {len(row) for row in variance.PUBLISHED_STUMPS.values()} == {len(variance.STUMP_METHODS)}
    assert {len(row) for row in variance.PUBLISHED_TREES.values()} == {len(variance.TREE_METHODS)}


def test_rounds_of_lambda_zero(tmp_path, monkeypatch):
    monkeypatch.setattr(variance, "HORIZONS", (2, 5))
    settings = Settings(out=tmp_path / "out", data=tmp_path, say=lambda line: None)
    get_experiment("variance-rounds").run(settings)
    ratios = json.loads((settings.out / "variance-rounds.json").read_text())["ratios"]
    assert set(ratios) == {"ringnorm", "twonorm", "waveform"}
    for found in ratios.values():
        for at in found.values():
            assert 4 / 3 - 1e-9 <= at["formula"] <= 2
            assert at["measured"] >= 1


def test_peers(tmp_path, monkeypatch):
    def load(folder):
        X, y = make_waveform(120, random_state=0)
        return X, y.astype(np.intp)

    monkeypatch.setattr(variance_peers, "SETS", {"waves": load})
    monkeypatch.setattr(variance_peers, "MOST_ROUNDS", 4)
    settings = Settings(out=tmp_path / "out", data=tmp_path, repeats=2, say=lambda line: None)
    text = get_experiment("variance-peers").run(settings)
    cells = json.loads((settings.out / "variance-peers.json").read_text())["cells"]["waves"]
    assert len(cells) == 2
    assert all(0 <= cell[m][what] <= 1 for cell in cells for m in variance_peers.METHODS for what in cell[m])
    assert "| waves |" in text
