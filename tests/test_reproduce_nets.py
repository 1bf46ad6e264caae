"""The experiments with nets: they run at both scales, resume, and refuse what they cannot do."""

import json
from functools import partial
from pathlib import Path

import numpy as np
import pytest

torch = pytest.importorskip("torch")
for module in ("safetensors", "typer", "rich", "matplotlib"):
    pytest.importorskip(module)

from sklearn.dummy import DummyClassifier  # noqa: E402
from typer.testing import CliRunner  # noqa: E402

from tailboost import cli  # noqa: E402
from tailboost.reproduce import compas  # noqa: E402
from tailboost.reproduce._experiment import Cells  # noqa: E402
from tailboost.reproduce._nets import ALPHAS, judge_game  # noqa: E402


def run(*arguments):
    return CliRunner().invoke(cli.app, ["reproduce", *(str(a) for a in arguments)])


def test_scale_is_checked(tmp_path):
    result = run("credit-default", "--scale", "large", "--out", tmp_path)
    assert result.exit_code == 2
    assert "--scale must be small or paper, got 'large'" in result.output


def test_cells_tell_what_is_left(tmp_path):
    told = []
    cells = Cells(tmp_path / "cells.jsonl", told.append, total=2)
    cells.get({"seed": 0}, dict)
    assert "(1 of 2, about 0.0 min left)" in told[0]


def test_judged_game_on_members_that_are_known():
    """Two complementary members and ERM: the mixture is the coin, the average what it must be."""
    zero, one = (DummyClassifier(strategy="constant", constant=k).fit([[0], [0]], [0, 1]) for k in (0, 1))
    y = np.array([0] * 6 + [1] * 4)
    sample = (np.zeros((10, 1)), y)
    found = judge_game([zero, one], sample, sample, n_classes=2)
    assert found["error"] == 0.4
    curves = {name: dict(zip(ALPHAS, values, strict=True)) for name, values in found["curves"].items()}
    assert curves["ERM"][0.2] == 1.0
    assert curves["ERM"][0.8] == pytest.approx(0.5)
    assert curves["AdaBoost + average"][0.05] == pytest.approx(0.5)
    assert curves["AdaLPBoost"][0.1] == pytest.approx(0.5)
    assert curves["AdaLPBoost"][1.0] == pytest.approx(0.4)
    assert curves["AdaLPBoost + constants"] == curves["AdaLPBoost"]


# --- COMPAS ------------------------------------------------------------------------------------------------


def write_compas(folder, n=120):
    rng = np.random.default_rng(0)
    columns = ["juv_fel_count", "juv_misd_count", "juv_other_count", "priors_count", "age", "c_charge_degree"]
    columns += ["is_recid", "race", "sex", "age_cat"]
    lines = [",".join(columns)]
    for _ in range(n):
        priors = rng.poisson(3)
        recid = int(rng.random() < 0.2 + 0.1 * min(priors, 6))
        person = [0, 0, 1, priors, rng.integers(18, 70), "F" if rng.random() < 0.6 else "M", recid]
        lines.append(",".join(str(v) for v in [*person, "Caucasian", "Male", "25 - 45"]))
    (folder / "compas-scores-two-years.csv").write_text("\n".join(lines) + "\n")


@pytest.mark.parametrize("scale", ["small", "paper"])
def test_compas(tmp_path, monkeypatch, scale):
    monkeypatch.setattr(compas, "ROUNDS", {"small": 2, "paper": 3})
    monkeypatch.setattr(compas, "STEPS", 3)
    write_compas(tmp_path)
    arguments = ("compas", "--data", tmp_path, "--repeats", 2, "--scale", scale, "--out", tmp_path / "out")
    result = run(*arguments)
    assert result.exit_code == 0, result.output
    kept = json.loads((tmp_path / "out" / "compas.json").read_text())
    assert kept["command"].endswith("--repeats 2" + " --scale paper" * (scale == "paper"))
    for cells in kept["games"].values():
        assert [cell["rounds"] for cell in cells] == [compas.ROUNDS[scale]] * 2
        assert all(len(c) == len(ALPHAS) for cell in cells for c in cell["curves"].values())
    assert "| AdaLPBoost, λ from 20% held out | ours |" in (tmp_path / "out" / "compas.md").read_text()
    assert (tmp_path / "out" / "compas.png").stat().st_size > 10_000
    assert not (tmp_path / "out" / "checkpoints").exists()
    monkeypatch.setattr(compas, "_cell", partial(pytest.fail, "computed again"))
    assert run(*arguments).exit_code == 0


def test_compas_without_its_file(tmp_path):
    (tmp_path / "data").mkdir()
    result = run("compas", "--data", tmp_path / "data", "--out", tmp_path)
    assert result.exit_code != 0
    assert "compas-scores-two-years.csv" in result.output


def test_the_papers_split_of_compas():
    data = Path(__file__).resolve().parents[2] / "shared" / "data"
    if not data.is_dir():
        pytest.skip("the folder of test data is not here")
    from tailboost.reproduce import Settings

    (X, y), (X_test, y_test) = compas.rows(Settings(out=Path(), data=data))
    assert (X.shape, X_test.shape) == ((5049, 8), (2165, 8))
    assert y.sum() + y_test.sum() == 3471
