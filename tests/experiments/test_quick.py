"""One number of each paper: those of a second are computed, and beside the printed ones."""

import numpy as np
import pytest
from typer.testing import CliRunner

from experiments.quick import NUMBERS
from tailboost.app import cli

pytestmark = pytest.mark.experiments


@pytest.mark.parametrize("number", [n for n in NUMBERS if n.most_seeds > 1], ids=lambda n: n.paper)
def test_numbers_are_near_the_printed_ones(number):
    found = np.mean([number.compute(seed) for seed in range(3)])
    assert found == pytest.approx(number.printed, rel=0.25)


def test_quick_is_an_experiment_of_its_own():
    runner = CliRunner()
    refused = runner.invoke(cli.app, ["reproduce", "credit-default", "--quick"])
    assert refused.exit_code == 2
    assert "leave out 'credit-default'" in refused.stderr
    assert "--quick" in runner.invoke(cli.app, ["reproduce"]).stderr
