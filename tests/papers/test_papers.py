"""The scripts of the papers: data in their published forms, drawn data, losses, and short runs."""

import gzip
import os
import pickle
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from conftest import refused

pd = pytest.importorskip("pandas")
torch = pytest.importorskip("torch")

import boosted_cvar
import common
import losses
import nets
import robust
import variance
import worst_class

FOLDER = Path(__file__).parents[2] / "papers"


def test_cells_go_on_after_a_cut_line(tmp_path):
    cells = common.Cells(tmp_path, "table", 100)
    cells.compute("a", 1, lambda: 3)
    with cells.path.open("a") as file:
        file.write('{"name": "b", "rep')
    again = common.Cells(tmp_path, "table", 100)
    again.compute("a", 1, lambda: 4)
    again.compute("b", 0, lambda: 5)
    again.compute("a", 0, lambda: 2)
    assert common.Cells(tmp_path, "table", 100).values() == {"a": [2, 3], "b": [5]}


def test_cells_of_other_settings_stay_and_are_not_read(tmp_path):
    common.Cells(tmp_path, "table", 100).compute("a", 0, lambda: 3)
    short = common.Cells(tmp_path, "table", 2)
    assert short.values() == {}
    short.compute("a", 0, lambda: 7)
    assert common.Cells(tmp_path, "table", 100).values() == {"a": [3]}
    assert common.Cells(tmp_path, "table", 2).values() == {"a": [7]}


def test_a_table_says_how_many_splits_each_row_has():
    split = {"AdaBoost": 4.0, "EBBoost": 3.0, "VadaBoost": 3.0, "RLP": 3.0, "RQP": 3.0}
    by_set = {"wisc": [split, split | {"VadaBoost": 2.0}], "twonorm": [split] * 3}
    printed = variance.summary("stumps", by_set)
    rows = [[cell.strip() for cell in line.split("|")] for line in printed.splitlines()]
    assert [row[2] for row in rows if row[1] in ("wisc", "twonorm")] == ["2", "3"]
    assert [row[-2] for row in rows if row[1] in ("wisc", "all")] == ["+1.50 ± 0.50", "+1.25 ± 0.25"]


@pytest.mark.slow
def test_cells_of_the_records_are_those_of_today():
    stumps = common.Cells(FOLDER, "variance-stumps", 2000).values()["twonorm"][0]
    assert variance.cell(variance.twonorm, "stumps", 0, 2000) == stumps
    settings = (1024, 512), 1000
    squares = common.Cells(FOLDER, "worst_class-squares", *settings[0], settings[1]).values()["naive"][2]
    assert worst_class.cell("naive", worst_class.CASES["squares"], 2, *settings) == squares


@pytest.mark.parametrize("ending", ["csv", "csv.gz"])
def test_tables_of_a_folder(tmp_path, ending):
    rows = pd.DataFrame({"rings": [3, 12], "sex": ["M", "F"], "length": [0.5, None]})
    rows.to_csv(tmp_path / f"abalone.{ending}", index=False, na_rep="?")
    assert common.frame(tmp_path, "abalone", "UCI")["length"].isna().tolist() == [False, True]
    X, y = variance.SETS["abalone"](tmp_path)
    assert X.tolist() == [[0.5, 1.0]]  # the row without a number is left out
    assert y.tolist() == [0]


def test_a_missing_file_is_named_with_its_source(tmp_path):
    refused(lambda: variance.SETS["musk"](tmp_path), "musk2", FileNotFoundError)
    refused(lambda: variance.SETS["a5a"](tmp_path), "libsvm", FileNotFoundError)
    refused(lambda: boosted_cvar.cifar10(tmp_path, "test"), "cifar", FileNotFoundError)
    refused(lambda: boosted_cvar.compas(None), "propublica", FileNotFoundError)


def test_files_of_libsvm(tmp_path):
    with gzip.open(tmp_path / "a9a.libsvm.gz", "wt") as file:
        file.write("+1 1:1 3:1\n-1 2:1\n")
    X, y = variance.SETS["a5a"](tmp_path)
    assert X.shape == (2, 123)
    assert y.tolist() == [1, 0]
    assert X[:, :3].tolist() == [[1, 0, 1], [0, 1, 0]]


def test_compas_and_clients(tmp_path):
    counts = {name: [1, 0] for name in ("juv_fel_count", "juv_misd_count", "juv_other_count", "priors_count")}
    rows = {"age": [20, 41], "c_charge_degree": ["M", "F"], "sex": ["Male", "Female"]}
    rows |= {"race": ["Caucasian", "Other"], "is_recid": [1, 0]}
    pd.DataFrame(counts | rows).to_csv(tmp_path / "compas-scores-two-years.csv", index=False)
    X, y = boosted_cvar.compas(tmp_path)
    np.testing.assert_allclose(X, [[1, 1, 1, 1, 2.0, 1, 1, 0], [0, 0, 0, 0, 4.1, 0, 0, 1]], rtol=1e-6)
    assert y.tolist() == [1, 0]
    rows = pd.DataFrame({"ID": [1, 2], "AGE": [30, 40], "default": [0, 1]})
    rows.to_csv(tmp_path / "taiwan_credit.csv.gz", index=False)
    X, y = robust.clients(tmp_path)
    assert X.tolist() == [[30.0], [40.0]]
    assert y.tolist() == [0, 1]


def test_cifar_from_batches_and_from_arrays(tmp_path):
    rng = np.random.default_rng(0)
    images = rng.integers(0, 256, (4, 32, 32, 3), dtype=np.uint8)
    folder = tmp_path / "cifar-10-batches-py"
    folder.mkdir()
    batch = {b"data": images.transpose(0, 3, 1, 2).reshape(4, -1), b"labels": [3, 1, 0, 9]}
    (folder / "test_batch").write_bytes(pickle.dumps(batch, protocol=2))
    X, y = boosted_cvar.cifar10(tmp_path, "test")
    np.testing.assert_array_equal(X, images)
    assert y.tolist() == [3, 1, 0, 9]
    (folder / "test_batch").write_bytes(pickle.dumps({b"data": os.system, b"labels": []}))
    refused(lambda: boosted_cvar.cifar10(tmp_path, "test"), "system", pickle.UnpicklingError)
    np.savez(tmp_path / "cifar10.npz", x_test=images, y_test=y)
    np.testing.assert_array_equal(boosted_cvar.cifar10(tmp_path, "test")[0], images)


def test_drawn_rows_lie_where_the_paper_has_them():
    X, y = worst_class.squares(20_000, 0)
    turned = (X - worst_class.SQUARES[y]) @ np.array([[1.0, 1.0], [-1.0, 1.0]]) / np.sqrt(2.0)
    assert np.abs(turned).max() <= 1 + 1e-12
    np.testing.assert_allclose(turned.var(axis=0), 1 / 3, rtol=0.02)
    X, y = worst_class.discs(2000, 0)
    assert np.bincount(y).tolist() == [20_000, 20_000, 20_000, 2000]
    radius = np.linalg.norm(X - worst_class.DISCS[y], axis=1)
    assert radius.max() <= 1
    assert np.mean(radius**2) == pytest.approx(0.5, abs=0.01)


def test_a_reading_plays_its_rounds():
    case = worst_class.Case(worst_class.discs, 10, 100, 0.2, {})
    reading = worst_class.Reading(by_row=True, whole=True, same=True)
    found = worst_class.read(worst_class.BOOSTING, reading, case, 0, (16,), 2)
    assert found["rounds"] == 2
    assert found["mean"] == pytest.approx(np.average(found["test"], weights=[10, 10, 10, 1]), abs=1e-3)


def test_best_errors_of_generators():
    X, y = variance.twonorm()
    assert np.mean((X.sum(axis=1) < 0) != y) == pytest.approx(0.0228, abs=0.007)
    X, y = variance.ringnorm()
    density = -(((X - 2 / np.sqrt(20)) ** 2).sum(1)) / 2 + (X**2).sum(1) / 8 + 20 * np.log(2)
    assert np.mean((density > 0) != y) == pytest.approx(0.012, abs=0.005)


def test_losses_of_balanced_classes_are_cross_entropy():
    torch.manual_seed(0)
    logits, y, h = torch.randn(40, 3), torch.randint(3, (40,)), torch.rand(40, 5)
    counts = torch.full((3,), 100.0)
    expected = torch.nn.functional.cross_entropy(logits, y)
    for name in ("CE", "weighted CE", "CB", "LA", "CDT"):
        torch.testing.assert_close(losses.LOSSES[name](counts)(logits, y, h), expected)


def test_losses_by_hand():
    logits, y, h = torch.zeros(3, 2), torch.tensor([0, 0, 1]), torch.ones(3, 4)
    counts, half = torch.tensor([30.0, 10.0]), float(np.log(2))

    def value(name):
        return float(losses.LOSSES[name](counts)(logits, y, h))

    assert value("weighted CE") == pytest.approx((2 * 40 / 60 + 40 / 20) / 3 * half)
    assert value("focal") == pytest.approx(half / 4)
    weight = np.array([1 / 30, 1 / 10])
    weight *= 2 / weight.sum()
    assert value("IB") == pytest.approx((2 * weight[0] + weight[1]) / 3 * half * 1000 / (4 + 1e-3), rel=1e-5)
    assert value("LA") == pytest.approx((2 * np.log(4 / 3) + np.log(4)) / 3, rel=1e-5)
    assert value("naive") == pytest.approx(half)


def test_the_wide_net_has_the_published_number_of_weights():
    with torch.device("meta"):
        small, large = nets.wrn_28_1((3, 32, 32), 10), nets.wrn_28_1((3, 32, 32), 10, widen=10)
    sizes = [sum(p.numel() for p in net.parameters()) for net in (small, large)]
    assert sizes == [pytest.approx(0.37e6, rel=0.01), pytest.approx(36.5e6, rel=0.002)]


@pytest.mark.slow
@pytest.mark.parametrize("command", [
    "worst_class.py squares", "variance.py stumps trees figure", "robust.py", "boosted_cvar.py compas",
])  # fmt: skip
def test_a_script_runs_and_goes_on(command, tmp_path):
    rng = np.random.default_rng(0)
    table = pd.DataFrame(rng.integers(0, 9, (4000, 4)), columns=["AGE", "a", "b", "default"])
    table["default"] %= 2
    table.to_csv(tmp_path / "taiwan_credit.csv", index=False)
    table = pd.DataFrame(rng.integers(0, 9, (400, 4)), columns=["id", "a", "b", "class"])
    table["class"] = np.where(table["a"] + rng.normal(size=400) > 4, 4, 2)
    table.to_csv(tmp_path / "breast_cancer_wisconsin.csv", index=False)
    names = ["juv_fel_count", "juv_misd_count", "juv_other_count", "priors_count", "age", "is_recid"]
    table = pd.DataFrame(rng.integers(0, 2, (400, 6)), columns=names)
    table = table.assign(c_charge_degree="M", sex="Male", race="Other")
    table.to_csv(tmp_path / "compas-scores-two-years.csv", index=False)
    script, *parts = command.split()
    call = [sys.executable, FOLDER / script, *parts, "--small", "--seeds", "1", "--data", tmp_path]
    printed = []
    for _ in range(2):
        run = subprocess.run([*call, "--out", tmp_path], capture_output=True, text=True, check=False)
        assert run.returncode == 0, run.stderr[-2000:]
        printed.append(run.stdout)
    assert list(tmp_path.glob("small/cells/*.jsonl"))
    computed = [re.findall(r" s$", text, flags=re.MULTILINE) for text in printed]
    assert computed[0]
    assert not computed[1]
