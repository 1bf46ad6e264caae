"""Tables of other libraries."""

import subprocess
import sys
from types import ModuleType

import numpy as np
import pytest
from conftest import refused

import tailboost as tb
from tailboost import core, rates
from tailboost.learners import HistTreeClassifier

pd = pytest.importorskip("pandas")


def test_a_query_of_polars_is_refused(monkeypatch):
    """Each method that takes a table says what to pass instead."""
    polars = ModuleType("polars")  # stands in for the library
    for name, methods in (("LazyFrame", {"collect": None}), ("DataFrame", {}), ("Series", {})):
        setattr(polars, name, type(name, (), methods))
    monkeypatch.setitem(sys.modules, "polars", polars)
    table = pd.DataFrame({"s": np.linspace(0.01, 0.99, 200)})
    y = np.where(np.random.default_rng(0).random(200) < table["s"], "yes", "no")
    query, scores, limits = polars.LazyFrame(), tb.Scores("s", "yes"), [rates.miss("yes") <= 0.4]
    clf, fresh = tb.tune(scores, table, y, limits=limits), table.assign(s=table["s"] + 0.001)
    for call in (
        lambda: tb.tune(scores, query, y, limits=limits), lambda: clf.predict(query),
        lambda: tb.tune(scores, table, y, groups=query, limits=limits), lambda: tb.certify(clf, query, y),
        lambda: tb.certify(clf, fresh, y, groups=query), lambda: tb.RobustMixtureClassifier().fit(query, y),
        lambda: tb.AdaLPBoostClassifier().fit(query, y),
    ):  # fmt: skip
        refused(call, r"collect\(\)", TypeError)


def test_tables_that_are_not_read_are_refused():
    """Masked entries would be read as values: in rows, labels, groups and weights."""
    X = np.ma.masked_greater(np.linspace(0.0, 1.0, 40)[:, None], 0.9)
    y, s = np.repeat([0, 1], 20), tb.Scores("s", 1)
    for given in ({"X": X}, {"y": X[:, 0]}, {"groups": X[:, 0]}, {"sample_weight": X[:, 0]}):
        with pytest.raises(TypeError, match="mask is not read"):
            tb.tune(s, **{"X": pd.DataFrame({"s": X.data[:, 0]}), "y": y, **given})
    refused(lambda: tb.tune(s, X.data[:, 0].tolist(), y), "dense array .* got list of shape")


def test_blocks_of_an_array_are_read_as_its_rows():
    rows = np.arange(60.0).reshape(20, 3)
    blocks, _ = core.streamed(pytest.importorskip("dask.array").from_array(rows, chunks=(8, 1)))
    assert [len(block) for block in blocks] == [8, 8, 4]
    np.testing.assert_array_equal(np.concatenate([*blocks]), rows)


@pytest.mark.parametrize("kind", ["array", "frame", "delayed"])
def test_a_collection_of_dask_is_refused(kind):
    """Its rows may not fit into memory, so no fit or measurement loads them; ``compute()`` does."""
    dask = pytest.importorskip("dask")
    frame = pd.DataFrame(np.random.default_rng(0).normal(size=(60, 2)), columns=["a", "b"])
    y = pd.Series((frame["a"] > 0).astype(int))
    made = {
        "array": lambda part: pytest.importorskip("dask.array").from_array(part.to_numpy(), chunks=30),
        "frame": lambda part: pytest.importorskip("dask.dataframe").from_pandas(part, npartitions=2),
        "delayed": dask.delayed,
    }[kind]
    X, labels = made(frame), made(y)
    tree = HistTreeClassifier().fit(frame, y)
    boosted = tb.AdaLPBoostClassifier(n_estimators=2).fit(frame, y)
    if kind == "frame":  # answers come by partitions
        np.testing.assert_array_equal(boosted.predict(X), boosted.predict(frame))
    for call in (
        lambda: tb.AdaLPBoostClassifier().fit(X, y), lambda: tb.AdaLPBoostClassifier().fit(frame, labels),
        lambda: tb.AdaLPBoostClassifier().fit(frame, y, sample_weight=labels), lambda: tb.tune(tree, X, y),
        lambda: tb.GroupDROBoostClassifier().fit(frame, y, groups=labels),
        lambda: HistTreeClassifier().fit(X, y), lambda: tb.RobustMixtureClassifier().fit(X, y),
        lambda: tb.RobustMixtureClassifier().fit(frame, y, X_val=X, y_val=y),
        lambda: tb.calibrate(tree, frame, labels, limits=["error() <= .5"]),
        lambda: tb.certify(tree, frame, y, rates=["error"], clusters=labels),
        lambda: tb.certify(tree, frame, y, rates=["error"], training_rows=X),
    ):  # fmt: skip
        refused(call, r"compute\(\)", TypeError)


def test_a_dataset_of_pictures_is_read_as_it_is():
    torch, image = pytest.importorskip("torch"), pytest.importorskip("PIL.Image")
    pictures = np.random.default_rng(0).integers(0, 256, (4, 5, 6, 3)).astype(np.uint8)
    rows, labels = core.read_dataset([(image.fromarray(each), k) for k, each in enumerate(pictures)])
    np.testing.assert_array_equal(rows, pictures)
    assert labels.tolist() == [0, 1, 2, 3]
    grey = pictures[..., 0]  # of coloured tensors the channels come first
    for of_tensors, given in ((pictures, np.moveaxis(pictures, -1, 1)), (grey, grey)):
        rows, labels = core.read_dataset([*torch.from_numpy(given)])
        np.testing.assert_array_equal(rows, of_tensors)
        assert labels is None


SCRIPT = """
import sys, torch, numpy as np
from torch.utils.data import TensorDataset
import tailboost as tb

X = np.random.default_rng(0).normal(size=(60, 3)).astype(np.float32)
y = (X[:, 0] > 0).astype(int)
clf = tb.AdaLPBoostClassifier(n_estimators=2, random_state=0)
given = clf.fit(TensorDataset(torch.tensor(X), torch.tensor(y))).predict_proba(TensorDataset(torch.tensor(X)))
assert (given == clf.fit(X, y).predict_proba(X)).all()
assert "tailboost.learners.torch" not in sys.modules, "reading a Dataset imports the nets"
"""


@pytest.mark.slow
def test_a_dataset_is_read_by_who_has_not_imported_the_nets():
    pytest.importorskip("torch")  # another process: other tests import tailboost.learners.torch
    ended = subprocess.run([sys.executable, "-c", SCRIPT], capture_output=True, text=True, check=False)
    assert ended.returncode == 0, ended.stderr
