"""Experiments with nets: they run at both scales, resume, and refuse impossible settings."""

import gzip
import itertools
import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

torch = pytest.importorskip("torch")
for module in ("safetensors", "typer", "rich", "matplotlib"):
    pytest.importorskip(module)

from conftest import InterruptedTree
from sklearn.dummy import DummyClassifier
from test_image_datasets import write_celeba
from typer.testing import CliRunner

from experiments import Settings, artificial_nets, compas, images, post_processing, regularised
from experiments import _architectures as nets
from experiments import _image_tables as tables
from experiments import worst_class_artificial as artificial
from experiments._experiment import Cells
from experiments._nets import ALPHAS, BOUND_OF_CHOICE, BOUND_OF_TEST, bounds, judge_game
from tailboost import AdaLPBoostClassifier, WorstClassBoostClassifier
from tailboost.app import cli

pytestmark = pytest.mark.experiments


def computed_again(*args, **kwargs):
    pytest.fail("computed again")


def run(*arguments):
    return CliRunner().invoke(cli.app, ["reproduce", *(str(a) for a in arguments)])


def test_scale_is_checked(tmp_path):
    result = run("credit-default", "--scale", "large", "--out", tmp_path)
    assert result.exit_code == 2
    assert "'large' is not one of 'small', 'paper'" in result.output


def test_cells_tell_what_is_left(tmp_path):
    told = []
    cells = Cells(Settings(tmp_path, say=told.append), "cells", total=2)
    cells.get({"seed": 0}, dict)
    assert "(1 of 2, about 0.0 min left)" in told[0]


def test_an_interrupted_fit_is_no_finished_cell(tmp_path):
    X, y = np.random.default_rng(0).normal(size=(60, 2)), np.arange(60) % 2
    InterruptedTree.count, InterruptedTree.at = 0, 3
    classifier = AdaLPBoostClassifier(
        InterruptedTree(max_depth=1), n_estimators=5, n_iter_no_change=None, cv="train"
    )
    cells = Cells(Settings(tmp_path), "cells")
    with pytest.raises(KeyboardInterrupt):
        cells.get({"seed": 0}, lambda: {"rounds": classifier.fit(X, y).n_iter_})
    assert {"seed": 0} not in Cells(Settings(tmp_path), "cells")


def test_judged_game_on_members_that_are_known():
    """Two complementary hypotheses and ERM: the mixture is a random guess."""
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
    text = "\n".join(lines) + "\n"
    (folder / "compas-scores-two-years.csv").write_text(text)
    (folder / "compas-scores-two-years.csv.gz").write_bytes(gzip.compress(text.encode()))  # one will do


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
    for game, figures in kept["games"].items():
        seeds = 2 if game == compas.TRAINED else compas.BESIDE
        assert (figures["rounds"]["mean"], figures["rounds"]["n"]) == (compas.ROUNDS[scale], seeds)
        assert all(len(curve) == len(ALPHAS) for curve in figures["curves"].values())
    # The last curve by T uses all rounds.
    curves = kept["games"][compas.TRAINED]["curves"]
    assert curves["AdaLPBoost, T = 2"] != curves["AdaLPBoost, T = 1"]
    if scale == "small":
        assert curves["AdaLPBoost, T = 2"] == curves["AdaLPBoost"]
    assert set(kept["games"][compas.HELD]["bounds"]) == {BOUND_OF_CHOICE, BOUND_OF_TEST, "observed"}
    page = (tmp_path / "out" / "compas.md").read_text()
    assert "| AdaLPBoost, λ from 20% held out | ours |" in page
    cells = map(json.loads, (tmp_path / "out" / "compas.jsonl").read_text().splitlines())
    seeds = [cell["values"]["curves"] for cell in cells if cell["key"]["game"] == compas.TRAINED]
    lower = [np.minimum(of["ERM"], of["AdaBoost + average"]) for of in seeds]
    excess = np.mean([of["AdaLPBoost"] - least for of, least in zip(seeds, lower, strict=True)], axis=0)
    shown = [f"{round(excess[ALPHAS.index(alpha)], 3) + 0.0:.3f}" for alpha in compas.SHOWN]
    assert f"| difference by seed | {' | '.join(shown)} |" in page
    assert (tmp_path / "out" / "compas.png").stat().st_size > 10_000
    assert not (tmp_path / "out" / "checkpoints").exists()
    monkeypatch.setattr(AdaLPBoostClassifier, "fit", computed_again)
    assert run(*arguments).exit_code == 0


def test_bounds_on_the_cvar_of_new_rows():
    """By their formulas, for the mixture of two members with the least CVaR on a grid of shares."""
    rng = np.random.default_rng(0)
    y, y_test = rng.integers(0, 2, 30_000), rng.integers(0, 2, 4_000)
    right = [y ^ (rng.random(len(y)) < 0.3), y_test ^ (rng.random(len(y_test)) < 0.3)]

    class Answers:
        """Return given answers: X contains the number of the sample."""

        def __init__(self, *answers):
            self.answers = answers

        def predict(self, X):
            return self.answers[X[0]]

    members = [Answers(*right), Answers(*(1 - a for a in right))]
    judged, test = (np.zeros(len(y), int), y), (np.ones(len(y_test), int), y_test)
    found = bounds(members, judged, test)
    n, of_test = len(y), len(y_test)
    errors = [np.mean(right[0] != y), np.mean(right[1] != y_test)]
    widths = (2 * np.sqrt(2 * np.log(2)) + 1) / np.sqrt(n) + np.sqrt(np.log(20) / (2 * n))
    moved = np.sqrt(np.log(20) / (2 * of_test))
    # λ is (½, ½), a random guess, while error / α exceeds one half, then the better hypothesis.
    for alpha in (0.1, 0.5):
        at = ALPHAS.index(alpha)
        assert found["observed"][at] == pytest.approx(0.5, abs=1e-4)
        assert found[BOUND_OF_CHOICE][at] == pytest.approx(min(1, 0.5 + widths / alpha), abs=1e-4)
        assert found[BOUND_OF_TEST][at] == pytest.approx(min(1, 0.5 + 0.5 * moved / alpha), abs=1e-4)
    at = ALPHAS.index(0.9)
    assert found["observed"][at] == pytest.approx(errors[1] / 0.9, abs=1e-4)
    assert found[BOUND_OF_CHOICE][at] == pytest.approx(errors[0] / 0.9 + widths / 0.9, abs=1e-4)
    assert found[BOUND_OF_TEST][at] == pytest.approx((errors[1] + moved) / 0.9, abs=1e-4)


def test_compas_without_its_file(tmp_path):
    (tmp_path / "data").mkdir()
    result = run("compas", "--data", tmp_path / "data", "--out", tmp_path)
    assert result.exit_code != 0
    assert "compas-scores-two-years.csv" in result.output


def test_the_papers_split_of_compas():
    data = Path(__file__).resolve().parents[3] / "shared" / "data"
    if not data.is_dir():
        pytest.skip("the folder of test data is not here")
    (X, y), (X_test, y_test) = compas.rows(Settings(out=Path(), data=data))
    assert (X.shape, X_test.shape) == ((5049, 8), (2165, 8))
    assert y.sum() + y_test.sum() == 3471


# --- images ------------------------------------------------------------------------------------------------

SHORT = {"steps": 3, "warmup_epochs": 0.1, "batch_size": 16}
TINY = {
    "rounds": 2,
    "voters": 2,
    "thetas": (0.3, 0.6),
    "gammas": (0.3995,),
    "voter_epochs": 0.4,
    "growth_epochs": 0.2,
    "tested": 60,
    "game": {"learning_rate": 0.05, **SHORT},
    "single": {"optimizer": "adam", "learning_rate": 1e-3, "batch_size": 16, "epochs": 0.3},
}


def blobs(n, K, shape, seed):
    """Images with the class as the position of a bright square."""
    rng = np.random.default_rng(seed)
    y = np.r_[np.arange(K).repeat(4), rng.integers(0, K, n - 4 * K)]
    X = rng.integers(0, 60, (n, *shape), dtype=np.uint8)
    for image, k in zip(X, y, strict=True):
        row, column = divmod(int(k) % 16, 4)
        image[7 * row : 7 * row + 7, 7 * column : 7 * column + 7] = 250
    return X, y


def write_images(folder, name, K=10, shape=(28, 28), validation=False):
    parts = {"train": blobs(260, K, shape, 0), "test": blobs(80, K, shape, 1)}
    if validation:
        parts["val"] = blobs(60, K, shape, 2)
    arrays = {f"x_{part}": X for part, (X, _) in parts.items()} | {f"y_{p}": y for p, (_, y) in parts.items()}
    np.savez(folder / f"{name}.npz", **arrays)


def thin_resnet18(input_shape, n_classes):
    # private: the public nets have their published widths
    return nets._ResNet(input_shape[0], n_classes, (2, 2, 2, 2), width=4, imagenet=True)


@pytest.fixture
def tiny(monkeypatch):
    """Protocols of a few steps, at both scales, with their nets and optimisers."""
    monkeypatch.setattr(nets, "resnet18", thin_resnet18)
    monkeypatch.setattr(nets, "wrn_28_10", nets.wrn_28_1)
    for title, task in images.TASKS.items():
        small = replace(task.small, **TINY, largest=60)
        paper = replace(task.paper, **TINY | {"game": task.paper.game | SHORT}, largest=60)
        monkeypatch.setitem(images.TASKS, title, replace(task, small=small, paper=paper))


def test_gamma_of_table_viii(monkeypatch):
    """The game uses the largest θ with the γ of the name."""
    made = []

    class Told(WorstClassBoostClassifier):
        def fit(self, X, y):
            made.append((self.gamma, round(1 - self.max_error, 6)))
            raise StopIteration

    monkeypatch.setattr("tailboost.classifiers.published.WorstClassBoostClassifier", Told)
    X, y = np.zeros((40, 8, 8), np.uint8), np.arange(40) % 10
    data = images.Data((X, y), (X, y), (X, y), np.ones(40), 10)
    protocol = images.TASKS["CIFAR-10"].paper
    named = [m for m in images.methods(images.TASKS["CIFAR-10"], protocol) if "boosting, γ" in m]
    oco, named = named[:2], named[2:]
    assert oco == ["OCO boosting, γ = 0.1995", "OCO boosting, γ = 0.2995"]  # Table XI
    assert len(named) == 3
    for method in [*named, "worst-class boosting, θ = 0.1"]:
        with pytest.raises(StopIteration):
            images._vote(protocol, data, method, {})
    default = WorstClassBoostClassifier().gamma
    assert made == [(0.0995, 0.9), (0.1995, 0.9), (0.3995, 0.9), (default, 0.1)]


def figures_of_votes(by_method):
    """Votes as published: of all rounds, and of the first rounds up to the best on held-out rows."""
    votes = {
        name: figures
        for name, figures in by_method.items()
        if name.startswith(("OCO", "worst-class")) and name != images.REACHED
    }
    for figures in votes.values():
        assert figures["voters"] == figures["rounds"]
        assert figures["prefix"]["voters"]["mean"] <= figures["rounds"]["mean"]
        assert figures["prefix"]["mean test"]["mean"] <= figures["prefix"]["worst test"]["mean"] <= 1
    return votes


@pytest.mark.parametrize(
    ("name", "scale", "files"),
    [
        (
            "mnist-imbalanced",
            "small",
            [("mnist", 10, (28, 28), False), ("pneumoniamnist", 2, (28, 28), True)],
        ),
        ("cifar10", "small", [("cifar10", 10, (32, 32, 3), False)]),
        ("cifar10-imbalanced", "paper", [("cifar10", 10, (32, 32, 3), False)]),
        ("tissuemnist", "paper", [("tissuemnist", 8, (28, 28), True)]),
        ("emnist", "paper", [("emnist", 20, (28, 28), False)]),
        pytest.param("cifar10-16", "paper", [("cifar10", 10, (32, 32, 3), False)], marks=pytest.mark.slow),
        pytest.param("cifar100", "paper", [("cifar100", 20, (32, 32, 3), False)], marks=pytest.mark.slow),
        pytest.param(
            "tiny-imagenet", "paper", [("tiny-imagenet", 20, (64, 64, 3), False)], marks=pytest.mark.slow
        ),
    ],
)
def test_images(tmp_path, monkeypatch, tiny, name, scale, files):
    for file in files:
        write_images(tmp_path, *file)
    used = ("cross_entropy", "naive", "influence_balanced", "influence_balanced_cb", "vs")
    some = {k: images.TITLES[k] for k in used}
    monkeypatch.setattr(images, "TITLES", some)
    out = tmp_path / "out"
    arguments = (name, "--data", tmp_path, "--repeats", 1, "--scale", scale, "--out", out)
    result = run(*arguments)
    assert result.exit_code == 0, result.output
    kept = json.loads((out / f"{name}.json").read_text())
    assert len(kept["results"]) == len(files)
    for title, by_method in kept["results"].items():
        assert {"AdaLPBoost", "cross_entropy", "class game, mixture", "OCO boosting"} <= by_method.keys()
        by_target = ("worst-class boosting, θ = 0.3", "worst-class boosting, γ = 0.3995")
        assert figures_of_votes(by_method)
        for method in ("worst-class boosting", *by_target, images.REACHED):
            assert (method in by_method) == (title != "PneumoniaMNIST")
        # On equal classes both equal others; only the one is published there.
        assert "vs" in by_method
        assert ("influence_balanced_cb" in by_method) == (title not in ("CIFAR-10", "CIFAR-10, 16×16 pixels"))
        assert not any("worst cell" in figures["test"] for figures in by_method.values())
        for figures in by_method.values():
            judged = figures["test"]
            assert judged["worst"]["mean"] == max(figures["class errors"])
            assert 0 <= judged["mean"]["mean"] <= judged["worst"]["mean"] <= 1
            for after in figures["worst, mean after"].values():
                assert all(0 <= mean <= worst <= 1 for worst, mean in after)
                assert len(after) == len(post_processing.BUDGETS)
    assert (out / f"{name}.png").stat().st_size > 10_000
    text = (out / f"{name}.md").read_text()
    assert ("Fashion-MNIST, imbalanced: left out" in text) == (name == "mnist-imbalanced")
    K = files[0][1]
    assert f"coin flip | {1 - 1 / K:.3f}" in text
    assert not (out / "checkpoints").exists()
    monkeypatch.setattr(AdaLPBoostClassifier, "fit", computed_again)
    assert run(*arguments).exit_code == 0


def test_cells_of_celeba(tmp_path, tiny):
    """Errors of hair × sex, counted by hand from the answers of a net."""
    write_celeba(tmp_path / "celeba", n=90)
    task = images.TASKS["CelebA"]
    data = images.prepare(task, task.small, tmp_path, 0)
    answers = np.zeros(len(data.test[1]), dtype=int)
    found = images._errors(data, answers)  # private: the record of a cell
    assert found["worst cell"] == 1.0
    answers = data.test[1].copy()
    men = (data.groups == 1) & (data.test[1] == 0)
    answers[np.flatnonzero(men)[:2]] = 1
    assert images._errors(data, answers)["worst cell"] == pytest.approx(2 / men.sum(), abs=1e-5)


def test_images_by_jobs_on_two_machines(tmp_path, monkeypatch, tiny):
    """Merged results of several machines equal the results of one."""
    write_images(tmp_path, "cifar10", shape=(32, 32, 3))
    some = {k: images.TITLES[k] for k in ("cross_entropy", "naive")}
    monkeypatch.setattr(images, "TITLES", some)

    def call(out, *options):
        arguments = ("cifar10", "--data", tmp_path, "--repeats", 2, "--out", tmp_path / out)
        result = run(*arguments, *options)
        assert result.exit_code == 0, result.output
        kept = json.loads((tmp_path / out / "cifar10.json").read_text())
        return kept["results"]["CIFAR-10"], kept["not computed"], result.output

    games = ("AdaLPBoost", "worst-class boosting", "OCO boosting", "class game, mixture")
    a, left, _ = call("a", "--only", "ce", "--only", "naive")
    assert list(a) == ["cross_entropy", "naive"]
    assert {line.rsplit(", ", 1)[1] for line in left} == {"0", "1"}
    one, left, _ = call("b", "--only", "worst-class boosting", "--seed", 1)
    assert one["worst-class boosting"]["test"]["worst"]["n"] == 1
    assert len(left) == 2 * (2 + 5 + 3) - 4
    call("b", *(option for game in games for option in ("--only", game)))
    (tmp_path / "a" / "cifar10.jsonl").rename(tmp_path / "b" / "cifar10.a.jsonl")
    monkeypatch.setattr(images, "_cell", computed_again)
    merged, left, _ = call("b")
    assert not left
    monkeypatch.undo()
    assert {"cross_entropy", "naive", *games} <= merged.keys()


def test_theta_is_chosen_where_all_of_them_are_there():
    """By held-out rows, ties to the larger, and only for seeds with all values."""
    held = {(0.3, 0): 0.5, (0.6, 0): 0.4, (0.3, 1): 0.2, (0.6, 1): 0.2, (0.3, 2): 0.1}
    cells = {
        ("CIFAR-10", tables.with_theta(theta), seed): {
            "worst held out": error,
            "seconds": 1.0,
            "theta": theta,
        }
        for (theta, seed), error in held.items()
    }
    found = tables.by_method(cells, "CIFAR-10", (0.3, 0.6), (0.2,))[tables.WORST]
    assert [(cell["theta"], cell["seconds"]) for cell in found] == [(0.6, 2.0), (0.6, 2.0)]
    assert tables.WORST not in tables.by_method(cells, "CIFAR-10", (0.3, 0.6, 0.9), (0.2,))


def test_a_game_in_calls_that_are_too_short(tmp_path, monkeypatch, tiny):
    """Each call plays and stores one round; together the calls are the whole game."""
    write_images(tmp_path, "cifar10", shape=(32, 32, 3))
    monkeypatch.setattr(images, "TITLES", {})
    game = ("cifar10", "--data", tmp_path, "--repeats", 1, "--only", "AdaLPBoost")
    whole, pieces = tmp_path / "whole", tmp_path / "pieces"
    assert run(*game, "--out", whole).exit_code == 0

    said = []
    monkeypatch.setattr(Settings, "time_left", property(lambda self: 1e-3))
    while not said or said[-1]:
        looks = itertools.chain([False], itertools.repeat(True))  # late from the second look on
        monkeypatch.setattr(Settings, "late", property(lambda self, looks=looks: next(looks)))
        result = run(*game, "--out", pieces, "--max-time", 60)
        assert result.exit_code == 0, result.output
        said.append("AdaLPBoost (seed 0)" in result.output)  # among missing cells
        assert bool(list(pieces.glob("checkpoints/*/net-*"))) == said[-1]
    assert len(said) > 1
    found = [json.loads((out / "cifar10.jsonl").read_text())["values"] for out in (whole, pieces)]
    assert [cell.pop("seconds") for cell in found]
    assert found[0] == found[1]


@pytest.mark.parametrize(
    ("options", "says"),
    [
        (("cifar10", "--only", "cee"), "--only: no method 'cee' here; did you mean 'ce'?"),
        (("cifar10", "--seed", 3), "--seed 3: must be below --repeats, 3"),
        (("compas", "--max-time", 9), "--only, --max-time: compas cannot be computed in parts"),
    ],
)
def test_jobs_that_there_are_not(tmp_path, options, says):
    write_images(tmp_path, "cifar10", shape=(32, 32, 3))
    result = run(*options, "--data", tmp_path, "--out", tmp_path / "out")
    assert result.exit_code != 0
    assert says in " ".join(result.output.split())


def test_cifar10_at_a_quarter_of_the_pixels(tmp_path):
    write_images(tmp_path, "cifar10", shape=(32, 32, 3))
    whole, y = images._CIFAR10(tmp_path, "test")
    half, of_half = images._halved(tmp_path, "test")
    assert half.shape == (len(y), 16, 16, 3)
    assert half.dtype == np.uint8
    np.testing.assert_array_equal(y, of_half)
    means = whole.reshape(len(y), 16, 2, 16, 2, 3).mean(axis=(2, 4))
    assert np.abs(half - means).max() <= 0.5


def test_mean_errors_are_those_of_imbalanced_test_rows(tmp_path):
    """Saito et al. cut the test rows as the training rows: Table V has 4,084 of 10,000 of CIFAR-10."""
    write_images(tmp_path, "mnist")
    task = images.TASKS["MNIST, imbalanced"]
    data = images.prepare(task, replace(task.small, largest=25), tmp_path, seed=0)
    answers = np.where(data.test[1] == 0, 1, data.test[1])  # class 0 alone is wrong, the largest one
    fit = np.bincount(data.fit[1], minlength=10)
    assert images._errors(data, answers)["mean"] == pytest.approx(fit[0] / fit.sum(), abs=1e-5)
    balanced = replace(data, cut=False)
    share = np.mean(data.test[1] == 0)
    assert images._errors(balanced, answers)["mean"] == pytest.approx(share, abs=1e-5)


def test_images_that_are_not_there(tmp_path):
    result = run("tissuemnist", "--data", tmp_path, "--out", tmp_path / "out")
    assert result.exit_code != 0
    assert "TissueMNIST" in result.output
    assert "medmnist.com" in result.output


def test_cut_classes():
    y = np.repeat(np.arange(10), 100)
    sample = (np.arange(1000), y)
    X, kept = images.cut_classes(sample, 64, 16.0, 10, np.random.default_rng(0))
    counts = np.bincount(kept)
    assert (counts[0], counts[-1]) == (64, 4)
    np.testing.assert_allclose(counts, 64 * 16.0 ** (-np.arange(10) / 9), atol=0.5)
    assert (y[X] == kept).all()
    assert len(np.unique(X)) == len(X)
    _, kept = images.cut_classes(
        (np.arange(300), np.repeat([0, 1], [200, 100])), 50, 1.0, 2, np.random.default_rng(0)
    )
    assert np.bincount(kept).tolist() == [50, 25]
    assert images.cut_classes(sample, None, 1.0, 10, np.random.default_rng(0)) is sample


def test_test_rows_are_weighed_as_training_rows(tmp_path):
    write_images(tmp_path, "mnist")
    task = images.TASKS["MNIST, imbalanced"]
    data = images.prepare(task, replace(task.small, largest=25), tmp_path, seed=0)
    of_test = np.bincount(data.test[1], weights=data.weight)
    fit = np.bincount(data.fit[1], minlength=10)
    assert fit[0] > fit[-1]
    np.testing.assert_allclose(of_test / of_test.sum(), fit / fit.sum(), atol=1e-12)


# --- artificial data ---------------------------------------------------------------------------------------


@pytest.mark.filterwarnings("ignore::tailboost.BoundNotMetWarning")
@pytest.mark.parametrize("scale", ["small", "paper"])
def test_artificial_nets(tmp_path, monkeypatch, scale):
    hidden = artificial.SCALES[scale].hidden
    tiny = artificial.Scale(hidden if scale == "small" else (64, 32), 2, 100, 50, 20, 2)
    monkeypatch.setitem(artificial.SCALES, scale, tiny)
    monkeypatch.setattr(artificial, "GAMMA", 0.4)
    monkeypatch.setattr(artificial, "CASES", artificial.CASES[:2])
    result = run("artificial-nets", "--repeats", 1, "--scale", scale, "--out", tmp_path)
    assert result.exit_code == 0, result.output
    kept = json.loads((tmp_path / "artificial-nets.json").read_text())["tables"]
    losses = {*artificial_nets.LOSSES, *artificial_nets.INFLUENCE, "naive"}
    assert losses - {"CE", "weighted CE"} <= kept["Table I"].keys()
    assert (tmp_path / "artificial-nets.png").stat().st_size > 10_000


def test_regularised_games_on_images(tmp_path, monkeypatch):
    """A net that errs on a share e of the test rows has the CVaR min(1, e/α)."""
    rng = np.random.default_rng(0)
    y = np.arange(400) % 10
    X = (12 * y[:, None, None, None] + rng.integers(0, 140, (400, 32, 32, 3))).astype(np.uint8)
    np.savez(tmp_path / "cifar10.npz", x_train=X, y_train=y, x_test=X[:200], y_test=y[:200])
    monkeypatch.setattr(regularised, "ALPHAS", (0.5, 1.0))
    monkeypatch.setattr(regularised, "ROUNDS", 2)
    options = ("regularised-images", "--data", tmp_path, "--repeats", 1, "--out", tmp_path / "out")
    assert run(*options).exit_code == 0
    (line,) = (tmp_path / "out" / "regularised-images.jsonl").read_text().splitlines()
    found = json.loads(line)["values"]
    error = found[regularised.ERM][1]
    assert 0 < error < 0.9
    assert found[regularised.ERM][0] == pytest.approx(min(1.0, error / 0.5))
    half, whole = found[regularised.AVERAGE]
    assert whole <= half <= min(1.0, whole / 0.5) + 1e-9
    monkeypatch.setattr(regularised, "_compared", computed_again)
    assert run(*options).exit_code == 0
