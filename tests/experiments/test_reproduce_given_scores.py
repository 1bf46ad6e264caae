"""Limits on given scores: the measured rates, and the command."""

import json

import numpy as np
import pytest

for module in ("typer", "rich"):
    pytest.importorskip(module)

from typer.testing import CliRunner

from experiments.given_scores import RULES, compared, measured, read_scores
from tailboost.app import cli

pytestmark = pytest.mark.experiments


@pytest.fixture
def folder(tmp_path):
    rng = np.random.default_rng(0)
    y = rng.integers(0, 3, 1500)
    P = np.exp(4 * np.eye(3)[y] + rng.normal(size=(1500, 3)) * (1 + y[:, None]))
    (tmp_path / "scores").mkdir()
    np.savez(tmp_path / "scores" / "made.npz", probabilities=(P / P.sum(axis=1, keepdims=True)), labels=y)
    return tmp_path


def test_rates_are_those_of_the_definition():
    y, answers = np.array([0, 0, 0, 1, 1]), np.array([0, 1, 1, 1, 0])
    deferred = np.array([False, True, False, False, False])
    found = measured(y, answers, deferred)
    assert found == pytest.approx({"deferred": 0.2, "error of answered rows": 0.5, "worst class": 0.5})


def test_limits_lower_the_worst_class_of_chows_rule(folder):
    P, y = read_scores(folder)["made"]
    found = compared(P, y, 0)
    assert found["limits"]["worst class"] < found["Chow"]["worst class"]
    assert found["limits"]["deferred"] == pytest.approx(0.1, abs=0.03)
    assert set(found) == {"Chow", *RULES}


def test_the_command(folder, tmp_path):
    given = ["reproduce", "given-scores", "--data", folder, "--repeats", 2, "--out", tmp_path / "out"]
    result = CliRunner().invoke(cli.app, list(map(str, given)))
    assert result.exit_code == 0, result.output
    kept = json.loads((tmp_path / "out" / "given-scores.json").read_text())
    assert len(kept["splits"]["made"]) == 2
    assert "| made, 1,500 × 3 | Chow |" in (tmp_path / "out" / "given-scores.md").read_text()
    np.savez(folder / "scores" / "other.npz", probabilities=np.ones((3, 2)))
    with pytest.raises(ValueError, match=r"other.npz has no array labels"):
        read_scores(folder)
