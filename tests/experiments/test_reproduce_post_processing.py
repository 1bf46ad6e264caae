"""Post-processing of synthetic logits finds the artificial shift."""

import json

import numpy as np
import pytest
from scipy.special import softmax

for module in ("typer", "rich"):
    pytest.importorskip(module)

from typer.testing import CliRunner

from experiments.post_processing import BUDGETS, after_training, errors, read_nets
from tailboost import metrics
from tailboost.app import cli

pytestmark = pytest.mark.experiments

SHIFT = np.array([0.0, 0.0, -3.0])


def run(*arguments):
    return CliRunner().invoke(cli.app, ["reproduce", "post-processing", *(str(a) for a in arguments)])


def logits(y, seed, shift=SHIFT):
    """Logits of a net with very few answers of the last class."""
    rng = np.random.default_rng(seed)
    return 2.0 * np.eye(3)[y] + rng.gumbel(size=(len(y), 3)) + shift


@pytest.fixture
def folder(tmp_path):
    judged, test = np.arange(1500) % 3, np.arange(900) % 3
    made = tmp_path / "nets"
    made.mkdir()
    for seed, name in enumerate(("one", "two")):
        np.savez(
            made / f"{name}.npz", y_judged=judged, y_test=test,
            logits_judged=logits(judged, seed), logits_test=logits(test, 10 + seed),
        )  # fmt: skip
    return made


def test_class_weights_take_back_a_shift(folder):
    nets = read_nets(folder)
    net = nets["one"]
    found = after_training(
        {"one": net["judged"]}, net["y_judged"], {"one": net["test"]}, net["y_test"]
    )  # fmt: skip
    trained = errors(net["y_test"], net["test"].argmax(axis=1))
    best = errors(net["y_test"], (np.log(net["test"]) - SHIFT).argmax(axis=1))
    assert trained["class"] == 2
    assert trained["worst"] > 0.6
    for how in ("class weights", "mixture"):
        assert [row["worst"] for row in found[how]] == pytest.approx([best["worst"]] * len(BUDGETS), abs=0.08)
        assert all(row["mean"] < trained["mean"] for row in found[how])


def test_errors_are_those_of_the_metrics(folder):
    net = read_nets(folder)["two"]
    answers = net["test"].argmax(axis=1)
    found = errors(net["y_test"], answers)
    assert found["worst"] == round(max(metrics.class_errors(net["y_test"], answers).values()), 5)
    assert found["mean"] == round(float((answers != net["y_test"]).mean()), 5)


def test_an_ensemble_is_the_mean_of_its_members_by_weight(folder):
    y = np.load(folder / "one.npz")["y_test"]
    members = np.stack([logits(y, seed) for seed in range(3)])
    weights = np.array([0.5, 0.3, 0.2])
    for file in folder.glob("*.npz"):
        file.unlink()
    np.savez(
        folder / "vote.npz", y_judged=y, y_test=y, logits_judged=members, logits_test=members, weights=weights
    )
    expected = sum(w * softmax(z, axis=1) for w, z in zip(weights, members, strict=True))
    np.testing.assert_allclose(read_nets(folder)["vote"]["test"], expected, atol=1e-12)


def test_the_command(folder, tmp_path):
    result = run("--data", folder, "--repeats", 2, "--out", tmp_path / "out")
    assert result.exit_code == 0, result.output
    kept = json.loads((tmp_path / "out" / "post-processing.json").read_text())
    assert list(kept["after training"])[:2] == ["one", "two"]
    assert {pool for pool in kept["after training"]} == {"one", "two", "all"} | {
        pool for pool in kept["after training"] if pool.startswith("all but")
    }
    for pools in kept["after training"].values():
        for rows in pools.values():
            assert [row["mean budget"] for row in rows] == list(BUDGETS)
            for row in rows:
                mean, least, most = row["worst, halves"]
                assert least <= mean <= most
    text = (tmp_path / "out" / "post-processing.md").read_text()
    assert "| one | as trained |" in text
    assert "on 900 rows. Chosen on 1,500 rows held out" in text


def test_nets_that_cannot_be_read(folder, tmp_path):
    arrays = dict(np.load(folder / "two.npz"))
    np.savez(folder / "two.npz", **arrays | {"y_test": arrays["y_test"][::-1]})
    with pytest.raises(ValueError, match=r"two.npz and one.npz have different labels"):
        read_nets(folder)
    np.savez(folder / "two.npz", **{k: v for k, v in arrays.items() if k != "y_judged"})
    with pytest.raises(ValueError, match=r"two.npz has no array y_judged"):
        read_nets(folder)
    np.savez(folder / "two.npz", **arrays | {"logits_test": arrays["logits_test"][1:]})
    with pytest.raises(ValueError, match=r"two.npz: test logits and labels differ in length"):
        read_nets(folder)
    (tmp_path / "empty").mkdir()
    with pytest.raises(ValueError, match=r"holds no NAME.npz"):
        read_nets(tmp_path / "empty")
