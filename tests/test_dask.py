"""The classifiers on Dask collections: rows on workers, the same game, the same answers."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from contextlib import contextmanager

import numpy as np
import pytest
from scipy.optimize import linprog
from sklearn.base import clone
from sklearn.tree import DecisionTreeClassifier

import tailboost as tb
from tailboost.learners import HistBoostClassifier

distributed = pytest.importorskip("distributed", reason="needs the extra dask")
fsspec = pytest.importorskip("fsspec", reason="needs the extra dask")
dask = pytest.importorskip("dask", reason="needs the extra dask")
da = pytest.importorskip("dask.array", reason="needs the extra dask")
pytest.importorskip("xgboost", reason="needs the extra dask")

import tailboost.dask as td
from tailboost._rows import hash_rows
from tailboost.dask import _worker

TREES = HistBoostClassifier(n_estimators=2, max_depth=3)
N = 1200


@pytest.fixture(scope="module")
def client():
    """A cluster of two processes, one thread each."""
    with cluster(2) as client:
        yield client


@contextmanager
def cluster(n_workers, memory_limit=0):
    options = {"threads_per_worker": 1, "dashboard_address": ":0", "memory_limit": memory_limit}
    with (
        distributed.LocalCluster(n_workers=n_workers, **options) as workers,
        distributed.Client(workers, set_as_default=False) as client,
    ):
        yield client


def table(seed=0, n=N, K=3):
    """A table that trees learn in part: (X, y, groups, weights)."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 5))
    y = (X @ rng.normal(size=(5, K)) + np.sin(3 * X[:, :K]) + rng.gumbel(size=(n, K))).argmax(axis=1)
    groups = np.array(["a", "b", "c"])[1 * (X[:, 0] > 0) + (rng.random(n) < 0.2)]
    return X, y, groups, rng.integers(1, 4, n).astype(float)


def blocks(parts, *arrays):
    """Cut arrays into so many partitions."""
    size = -(-len(arrays[0]) // parts)
    return [da.from_array(a, chunks=(size, *a.shape[1:])) for a in arrays]


def rows(parts, *arrays):
    """Return X, y and perhaps weights in so many partitions, by the names that fit has for them."""
    return dict(zip(("X", "y", "sample_weight"), blocks(parts, *arrays), strict=False))


def shuffled(*arrays, seed=1):
    order = np.random.default_rng(seed).permutation(len(arrays[0]))
    return [a[order] for a in arrays]


def same_fit(one, other, X):
    """Whether two fits have the same λ, and answer alike."""
    np.testing.assert_allclose(one.estimator_weights_, other.estimator_weights_, atol=1e-9)
    np.testing.assert_array_equal(one.predict(X), other.predict(X))
    np.testing.assert_allclose(one.trace_.value, other.trace_.value, atol=1e-9)


@pytest.mark.parametrize("validation", ["cv", 0.3, "train"])
def test_a_fit_does_not_depend_on_workers_partitions_or_order(client, validation):
    X, y, _, w = table()
    clf = td.AdaLPBoostClassifier(
        TREES, n_estimators=2, alpha=0.4, validation=validation, n_iter_no_change=None, random_state=0
    )
    fits = [
        clone(clf).fit(**rows(parts, *arrays), client=client)  # one partition lies on one worker
        for parts, arrays in ((1, (X, y, w)), (9, (X, y, w)), (5, shuffled(X, y, w)))
    ]
    assert fits[0].n_iter_ == 2
    for other in fits[1:]:
        same_fit(fits[0], other, X)


def test_groups_and_classes_do_not_depend_on_partitions_either(client):
    X, y, groups, w = table()
    by_group = td.GroupDROBoostClassifier(TREES, n_estimators=2, validation=0.3, random_state=0)
    by_class = td.WorstClassBoostClassifier(n_estimators=4, random_state=0)
    order = shuffled(X, y, groups, w)
    for clf, args in ((by_group, (groups,)), (by_class, ())):
        fits = []
        for parts, (X_, y_, g_, w_) in ((1, (X, y, groups, w)), (6, order)):
            Xd, yd, wd, gd = blocks(parts, X_, y_, w_, g_)
            extra = {"groups": gd} if args else {}
            fits.append(clone(clf).fit(Xd, yd, sample_weight=wd, client=client, **extra))
        same_fit(*fits, X)


def test_λ_is_optimal_for_the_losses_of_the_rows_themselves(client):
    """The members answer all rows again here, and a general solver mixes them."""
    X, y, _, w = table(1, n=500)
    clf = td.AdaLPBoostClassifier(
        TREES, n_estimators=4, alpha=0.6, validation="train", n_iter_no_change=None, random_state=0
    ).fit(**rows(4, X, y, w), client=client)
    losses = np.array([member.predict(X) != y for member in clf.estimators_])
    p, (T, n) = w / w.sum(), losses.shape
    # min η + Σ p_i z_i / α  s.t.  z_i ≥ Σ λ_t ℓ_i^t − η, z ≥ 0, λ on the simplex
    best = linprog(
        np.r_[np.zeros(T), 1.0, p / 0.6],
        A_ub=np.hstack([losses.T, -np.ones((n, 1)), -np.eye(n)]),
        b_ub=np.zeros(n),
        A_eq=np.r_[np.ones(T), np.zeros(n + 1)][None],
        b_eq=[1.0],
        bounds=[(0, None)] * T + [(None, None)] + [(0, None)] * n,
    )
    own = tb.metrics.cvar(clf.estimator_weights_ @ losses, 0.6, w)
    assert own == pytest.approx(best.fun, abs=1e-9)


@pytest.mark.filterwarnings("ignore:sample_weight. the weights sum to")
@pytest.mark.parametrize("scale", [1.0, 1e-5])
def test_the_same_game_as_on_one_machine(client, scale):
    """On the training losses nothing depends on folds: members, weights of the player and λ are the same."""
    X, y, _, w = table(2)
    w = w * scale  # normalised weights are far below 1
    args = {"n_estimators": 3, "alpha": 0.5, "validation": "train", "eta": "theory", "n_iter_no_change": 2}
    one = tb.AdaLPBoostClassifier(TREES, random_state=0, **args).fit(X, y, sample_weight=w)
    many = td.AdaLPBoostClassifier(TREES, random_state=0, **args).fit(**rows(4, X, y, w), client=client)
    np.testing.assert_allclose(many.trace_.weighted_loss, one.trace_.weighted_loss, atol=1e-9)
    np.testing.assert_allclose(many.trace_.effective_size, one.trace_.effective_size, atol=1e-9)
    assert many.game_.rule.eta == pytest.approx(one.game_.rule.eta, rel=1e-12)
    assert str(many.guarantee_) == str(one.guarantee_)
    np.testing.assert_allclose(many.trace_.value, one.trace_.value, atol=1e-9)
    np.testing.assert_allclose(many.estimator_weights_, one.estimator_weights_, atol=1e-9)
    np.testing.assert_array_equal(many.predict(X), one.predict(X))


def test_the_result_is_an_ordinary_classifier(client, tmp_path):
    X, y, groups, _ = table(3)
    Xd, yd, gd = blocks(3, X, y, groups)
    clf = td.GroupDROBoostClassifier(TREES, n_estimators=2, random_state=0).fit(
        Xd, yd, groups=gd, client=client
    )
    local = clf.to_local()
    assert type(local) is tb.GroupDROBoostClassifier
    lines = local.guarantee_.units.lines
    assert {line.name: line.rows for line in lines} == {g: int((groups == g).sum()) for g in "abc"}
    by_hand = local.reweight(alpha=0.3)
    assert by_hand.estimator_weights_.sum() == pytest.approx(1.0)
    assert local.seen_share(X) == 1.0
    tb.save_model(local, tmp_path / "m.model")
    again = tb.load_model(tmp_path / "m.model")
    np.testing.assert_array_equal(again.predict(X), local.predict(X))
    np.testing.assert_allclose(again.tradeoff().worst, local.tradeoff().worst)


# -- tables ------------------------------------------------------------------------------------------------


def frame(seed=7, n=900):
    """A data frame with text, categories and missing values, and labels that are text."""
    pd = pytest.importorskip("pandas")
    rng = np.random.default_rng(seed)
    X = pd.DataFrame(
        {
            "x": np.where(rng.random(n) < 0.1, np.nan, rng.normal(size=n)),
            "town": rng.choice(["Rome", "Oslo", "Bonn", "Lima"], n),
            "size": pd.Categorical(rng.choice(["s", "m", "l"], n), ["s", "m", "l"]),
            "z": rng.integers(0, 50, n),
        }
    )
    signal = X["x"].fillna(1) + (X["town"] == "Oslo") + 0.02 * X["z"] + rng.logistic(size=n)
    return X, pd.Series(np.where(signal > 1, "yes", "no"), name="y")


def test_data_frames_are_read_as_on_one_machine(client):
    dd = pytest.importorskip("dask.dataframe")
    X, y = frame()
    args = {"n_estimators": 2, "alpha": 0.7, "validation": "train", "n_iter_no_change": None}
    one = tb.AdaLPBoostClassifier(TREES, random_state=0, **args).fit(X, y)
    whole = dd.from_pandas(X.assign(y=y), npartitions=5)
    Xd, yd = whole.drop(columns="y"), whole["y"]
    many = td.AdaLPBoostClassifier(TREES, random_state=0, **args).fit(Xd, yd, client=client)
    assert many.classes_.tolist() == ["no", "yes"]
    assert many.feature_names_in_.tolist() == list(X.columns)
    np.testing.assert_allclose(many.trace_.weighted_loss, one.trace_.weighted_loss, atol=1e-9)
    np.testing.assert_array_equal(many.predict(X), one.predict(X))
    lazy = many.predict(Xd)
    assert hasattr(lazy, "compute")
    np.testing.assert_array_equal(np.asarray(lazy.compute()), one.predict(X))
    np.testing.assert_allclose(np.asarray(many.predict_proba(Xd).compute()), one.predict_proba(X), atol=1e-12)


def test_columns_of_several_files_stay_beside_each_other(client, tmp_path):
    """Dask reads the one column y of several files as one partition, and the table of all in several."""
    dd = pytest.importorskip("dask.dataframe")
    X, y = frame()
    whole = X.assign(y=y, **{f"more{j}": 0.0 for j in range(6)})
    for i in range(4):
        whole[i::4].to_parquet(tmp_path / f"{i}.parquet")
    stored = dd.read_parquet(str(tmp_path / "*.parquet"))
    Xd, yd = stored.drop(columns="y"), stored["y"]
    args = {
        "n_estimators": 2,
        "alpha": 0.7,
        "validation": "train",
        "n_iter_no_change": None,
        "random_state": 0,
    }
    one = tb.AdaLPBoostClassifier(TREES, **args).fit(whole.drop(columns="y"), y)
    many = td.AdaLPBoostClassifier(TREES, **args).fit(Xd, yd, client=client)
    np.testing.assert_allclose(many.trace_.weighted_loss, one.trace_.weighted_loss, atol=1e-9)
    fresh, labels = frame(seed=8)
    fresh = fresh.assign(**{f"more{j}": 0.0 for j in range(6)})
    for i in range(4):
        fresh.assign(y=labels)[i::4].to_parquet(tmp_path / f"{i}.parquet")
    again = dd.read_parquet(str(tmp_path / "*.parquet"))
    with client.as_current():
        told = td.certify(many, again.drop(columns="y"), again["y"]).bound("mean")
    assert told == tb.certify(many.to_local(), fresh, labels).bound("mean")


def test_a_partition_with_columns_in_another_order(client):
    dd = pytest.importorskip("dask.dataframe")
    X, y = frame()
    parts = [X[300 * i : 300 * (i + 1)] for i in range(3)]
    turned = [parts[0], parts[1][["z", "size", "town", "x"]], parts[2]]
    yd = dd.from_map(lambda i: y[300 * i : 300 * (i + 1)], range(3), meta=y[:0])

    def collection(parts):
        return dd.from_map(lambda i: parts[i], range(3), meta=X[:0], enforce_metadata=False)

    args = {
        "n_estimators": 2,
        "alpha": 0.7,
        "validation": "train",
        "n_iter_no_change": None,
        "random_state": 0,
    }
    one, other = (
        td.AdaLPBoostClassifier(TREES, **args).fit(collection(p), yd, client=client) for p in (parts, turned)
    )
    same_fit(one, other, X)
    with client.as_current():
        np.testing.assert_array_equal(other.predict(collection(turned)).compute(), one.predict(X))
    strange = [parts[0], parts[1].rename(columns={"z": "w"}), parts[2]]
    with pytest.raises(ValueError, match=r"a partition has the columns \['x', 'town', 'size', 'w'\]"):
        td.AdaLPBoostClassifier(TREES, **args).fit(collection(strange), yd, client=client)


def test_class_weights_and_rows_of_weight_0(client):
    X, y, _, w = table(8, n=600)
    w[::3] = 0
    args = {"n_estimators": 2, "alpha": 0.5, "validation": "train", "class_weight": {0: 3.0, 1: 1.0, 2: 2.0}}
    one = tb.AdaLPBoostClassifier(TREES, random_state=0, **args).fit(X, y, sample_weight=w)
    many = td.AdaLPBoostClassifier(TREES, random_state=0, **args).fit(**rows(4, X, y, w), client=client)
    np.testing.assert_allclose(many.trace_.weighted_loss, one.trace_.weighted_loss, atol=1e-9)
    np.testing.assert_array_equal(many.predict(X), one.predict(X))


@pytest.mark.parametrize(
    "params", [{"class_loss": "indicator", "max_error": 0.6, "gamma": 0.1}, {"units": "cell"}]
)
def test_targets_for_classes_and_cells(client, params):
    X, y, groups, _ = table(9)
    Xd, yd, gd = blocks(4, X, y, groups)
    clf = td.WorstClassBoostClassifier(TREES, n_estimators=3, eta=1.0, random_state=0, **params)
    clf.fit(Xd, yd, groups=gd if "units" in params else None, client=client)
    assert isinstance(clf.bound_met_, bool)
    assert len(clf.unit_errors_) == (9 if "units" in params else 3)
    assert clf.to_local().guarantee_.units.kind == params.get("units", "class")


# -- refusals ----------------------------------------------------------------------------------------------


def test_what_a_cluster_cannot_do_is_refused_by_name(client):
    X, y, _, _ = table(n=60)
    Xd, yd = blocks(3, X, y)
    ada = td.AdaLPBoostClassifier
    for clf, args, says in (
        (ada(TREES), (X, yd), "X is a ndarray: a Dask array or data frame is needed"),
        (ada(TREES), (Xd, y), "y is a ndarray"),
        (ada(TREES), (Xd, yd[:50]), "y has 50 entries, X has 60 rows"),
        (ada(TREES), (Xd, None), "requires y to be passed"),
        (ada("forest"), (Xd, yd), "RandomForestClassifier.*is not fitted on a cluster"),
        (ada(HistBoostClassifier(backend="sklearn")), (Xd, yd), "backend='sklearn'"),
        (ada(TREES, outlier_fraction=0.1), (Xd, yd), "outlier_fraction=0.1 is not available on a cluster"),
        (ada(TREES, warm_start=True), (Xd, yd), "warm_start=True is not available"),
        (ada(TREES, alpha=2.0), (Xd, yd), "The 'alpha' parameter"),
        (ada(TREES), (Xd, yd * 0), "a classifier needs at least two"),
        (ada(TREES), (Xd, yd * 0.37), "[Uu]nknown label type"),
        (ada(TREES), (Xd * np.inf, yd), "X holds infinity"),
    ):
        with pytest.raises((TypeError, ValueError), match=says):
            clf.fit(*args, client=client)
    with pytest.raises(ValueError, match="units='group' needs groups"):
        td.WorstClassBoostClassifier(units="group").fit(Xd, yd, client=client)
    assert not any(client.processing().values())


def test_without_a_client_it_says_how_to_make_one():
    X, y, _, _ = table(n=60)
    with pytest.raises(ValueError, match="there is no Dask client: make one"):
        td.AdaLPBoostClassifier(TREES).fit(*blocks(2, X, y))


# -- a fit that goes on ------------------------------------------------------------------------------------


def test_a_fit_goes_on_from_its_checkpoints(client, tmp_path, monkeypatch):
    X, y, _, _ = table(10, n=600)
    args = {"n_estimators": 3, "alpha": 0.5, "n_iter_no_change": None, "random_state": 0}
    whole = td.AdaLPBoostClassifier(TREES, **args).fit(*blocks(3, X, y), client=client)
    folder = tmp_path / "kept"
    kept = td.AdaLPBoostClassifier(TREES, checkpoint_dir=folder, **args | {"n_estimators": 2})
    kept.fit(*blocks(3, X, y), client=client)
    assert len(list(folder.glob("models-*.npz"))) == 2
    times = [path.stat().st_mtime_ns for path in sorted(folder.iterdir())]
    again = kept.set_params(n_estimators=3).fit(*blocks(7, *shuffled(X, y)), client=client)
    same_fit(again, whole, X)
    assert [path.stat().st_mtime_ns for path in sorted(folder.iterdir())][:2] == times  # not fitted again
    with pytest.raises(ValueError, match="alpha"):
        kept.set_params(alpha=0.4).fit(*blocks(3, X, y), client=client)
    with pytest.raises(ValueError, match="another checkpoint_dir"):
        kept.set_params(alpha=0.5).fit(*blocks(3, X + 1.0, y), client=client)
    first = sorted(folder.iterdir())[0]
    first.write_bytes(first.read_bytes()[:-40])
    with pytest.raises(ValueError, match="is damaged"):
        kept.fit(*blocks(3, X, y), client=client)


def test_checkpoints_at_a_url_and_storage_that_fails(client, monkeypatch):
    """What storage refuses to read is not called damaged, for whoever is told so deletes it."""
    X, y, _, _ = table(11, n=300)
    clf = td.AdaLPBoostClassifier(TREES, n_estimators=2, checkpoint_dir="memory://kept", random_state=0)
    first = clf.fit(*blocks(2, X, y), client=client).predict_proba(X)
    files = fsspec.filesystem("memory")
    assert len(files.find("/kept")) == clf.n_iter_
    np.testing.assert_array_equal(clf.fit(*blocks(3, X, y), client=client).predict_proba(X), first)

    def refuse(*args, **kwargs):
        raise PermissionError("not today")

    monkeypatch.setattr(type(files), "cat_file", refuse)
    with pytest.raises(PermissionError, match="not today"):
        clf.fit(*blocks(2, X, y), client=client)


def asked(client):
    """Return the questions that workers are at, by the names of their tasks."""
    return {key for keys in client.processing().values() for key in keys if "tailboost-ask" in str(key)}


def kill_in_round(client, pid, number):
    """Kill a process while workers answer the question with this number."""
    seen = set()
    while len(seen) <= number * 2:  # two workers answer each question
        seen |= asked(client)
        time.sleep(0.01)
    os.kill(pid, signal.SIGKILL)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::UserWarning")
def test_a_killed_worker_costs_a_round_and_nothing_else():
    X, y, _, _ = table(11, n=60_000)
    trees = HistBoostClassifier(n_estimators=40)
    clf = td.AdaLPBoostClassifier(trees, n_estimators=3, alpha=0.5, n_iter_no_change=None, random_state=0)
    with cluster(2) as client:
        whole = clone(clf).fit(*blocks(6, X, y), client=client)
        victim = sorted(client.run(os.getpid).items())[0][1]
        killer = threading.Thread(target=kill_in_round, args=(client, victim, 1))
        killer.start()
        with pytest.warns(td.WorkerLostWarning, match="was lost"):
            clf.fit(*blocks(6, X, y), client=client)
        killer.join()
        same_fit(clf, whole, X)
        time.sleep(1.0)
        assert not any(client.processing().values())
        held = client.run(lambda: len(sys.modules["tailboost.dask._worker"]._parts), on_error="return")
        assert not any(
            n for n in held.values() if isinstance(n, int)
        )  # a worker started anew has no such module


@contextmanager
def watch(folder, pattern):
    """Collect the files that a pattern meets at any time."""
    seen, done = set(), threading.Event()

    def look():
        while not done.wait(0.005):
            seen.update(folder.rglob(pattern))

    watcher = threading.Thread(target=look)
    watcher.start()
    try:
        yield seen
    finally:
        done.set()
        watcher.join()


@pytest.mark.parametrize("K", [2, 3])
def test_bins_on_disk_give_the_same_trees_and_leave_no_files(client, tmp_path, K):
    X, y, groups, w = table(13, K=K)
    X[::7, 2] = np.nan
    clf = td.GroupDROBoostClassifier(TREES, n_estimators=3, validation=0.3, random_state=0)
    Xd, yd, wd, gd = blocks(5, X, y, w, groups)
    clf.fit(Xd, yd, sample_weight=wd, groups=gd, client=client)
    small = clone(clf)
    limits = {
        f"distributed.worker.memory.{what}": False for what in ("target", "spill", "pause", "terminate")
    }
    with (
        dask.config.set(limits | {"temporary-directory": str(tmp_path)}),
        cluster(2, memory_limit="10 kB") as limited,
        watch(tmp_path, "bins*") as files,
    ):
        small.fit(Xd, yd, sample_weight=wd, groups=gd, client=limited)
        assert len({file.parent for file in files}) == 2  # a folder of each worker
        assert not list(tmp_path.rglob("bins*"))
    same_fit(clf, small, np.nan_to_num(X))
    trees = [
        [m.booster_.get_dump() for m in fitted.to_local().estimators_ if hasattr(m, "booster_")]
        for fitted in (clf, small)
    ]
    assert len(trees[0]) >= 3
    assert trees[0] == trees[1]


@pytest.mark.parametrize("K", [2, 3])
def test_rows_that_a_worker_takes_in_several_blocks(client, K):
    X, y, _, w = table(14, n=300_000, K=K)  # blocks are of 2¹⁸ rows: one worker has two of them, or each one
    X = X[:, :2].round(2)
    one_tree = HistBoostClassifier(n_estimators=1, max_depth=2)
    clf = td.AdaLPBoostClassifier(one_tree, n_estimators=1, validation=0.3, random_state=0)
    same_fit(*(clone(clf).fit(**rows(parts, X, y, w), client=client) for parts in (1, 2)), X)


def test_the_smallest_hashes_of_many_parts_are_those_of_all_rows():
    X = np.random.default_rng(15).integers(0, 40, size=(4000, 2))
    hashes = hash_rows(X)
    parts = [(X[rows], hashes[rows]) for rows in np.array_split(np.arange(4000), 37)]
    least = np.unique(hashes, return_index=True)[1][:100]
    np.testing.assert_array_equal(_worker.smallest(parts, 100), X[least])


@pytest.mark.slow
def test_four_workers_choose_what_one_chooses():
    P, y, groups, w = said(n=20_000)
    fits = []
    for n_workers in (1, 4):
        with cluster(n_workers) as client, client.as_current():
            fits += mixtures(P, y, groups, w, objective="worst_cell", mean_budget=0.05)
    for other in fits[1:]:
        assert other.members_ == fits[0].members_
        np.testing.assert_array_equal(other.estimator_weights_, fits[0].estimator_weights_)
        assert other.guarantee_.estimate == pytest.approx(fits[0].guarantee_.estimate, abs=1e-12)


@pytest.mark.slow
def test_four_workers_fit_what_one_fits():
    X, y, groups, w = table(12, n=4000)
    clf = td.GroupDROBoostClassifier(TREES, n_estimators=3, random_state=0)
    fits = []
    for n_workers, parts, arrays in (
        (1, 1, (X, y, w, groups)),
        (4, 40, shuffled(X, y, w, groups)),
    ):
        with cluster(n_workers) as client:
            Xd, yd, wd, gd = blocks(parts, *arrays)
            fits.append(clone(clf).fit(Xd, yd, sample_weight=wd, groups=gd, client=client))
    same_fit(*fits, X)


@contextmanager
def separate_cluster(folder, n_workers=2):
    """Start a scheduler and workers as programs of their own; yield a client and the scheduler's process."""
    file, log = folder / "scheduler.json", (folder / "log.txt").open("a")
    file.unlink(missing_ok=True)
    started = []

    def start(module, *options):
        command = [sys.executable, "-m", f"distributed.cli.{module}", "--scheduler-file", str(file), *options]
        started.append(subprocess.Popen(command, stdout=log, stderr=log, cwd=folder))

    try:
        start("dask_scheduler", "--port", "0", "--host", "127.0.0.1", "--dashboard-address", ":0")
        for _ in range(n_workers):
            start("dask_worker", "--nthreads", "1", "--no-nanny", "--no-dashboard", "--memory-limit", "0")
        deadline = time.monotonic() + 60
        while not file.exists() and time.monotonic() < deadline:
            time.sleep(0.1)
        with distributed.Client(scheduler_file=str(file), set_as_default=False) as client:
            client.wait_for_workers(n_workers, timeout=60)
            yield client, started[0]
    finally:
        for process in started:
            process.kill()
            process.wait()
        log.close()


KILLED = """
import sys
sys.path.insert(0, {tests!r})
import test_dask as t
if __name__ == "__main__":
    X, y, _, _ = t.table(11, n=30_000)
    clf = t.td.AdaLPBoostClassifier(t.HistBoostClassifier(n_estimators=40), n_estimators=30,
                                    n_iter_no_change=None, random_state=0)
    clf.fit(*t.blocks(6, X, y), client=t.distributed.Client(scheduler_file={file!r}))
"""


def held(client):
    """Return how many fits' rows are on the workers: nothing public says so, and no user should know."""
    return sum(client.run(lambda: len(sys.modules["tailboost.dask._worker"]._parts)).values())


@pytest.mark.slow
def test_a_killed_client_leaves_no_rows_on_the_workers(tmp_path):
    script, seen = tmp_path / "fit.py", set()
    script.write_text(KILLED.format(tests=os.path.dirname(__file__), file=str(tmp_path / "scheduler.json")))
    with separate_cluster(tmp_path) as (client, _):
        fit = subprocess.Popen([sys.executable, script])
        while len(seen) <= 2:  # it is in its second question
            seen |= asked(client)
            time.sleep(0.01)
        assert held(client) == 2
        fit.kill()
        fit.wait()
        deadline = time.monotonic() + 60
        while held(client) and time.monotonic() < deadline:
            time.sleep(0.5)
        assert held(client) == 0
        assert not list(tmp_path.rglob("tailboost-*"))
        clf = td.AdaLPBoostClassifier(TREES, n_estimators=1, random_state=0)
        X, y, _, _ = table()
        assert clf.fit(*blocks(3, X, y), client=client).n_iter_ == 1  # the workers are free again


@pytest.mark.slow
def test_a_killed_scheduler_is_named_and_a_new_one_goes_on_from_the_checkpoints(tmp_path):
    X, y, _, _ = table(16, n=30_000)
    args = {"n_estimators": 3, "alpha": 0.5, "n_iter_no_change": None, "random_state": 0}
    clf = td.AdaLPBoostClassifier(HistBoostClassifier(n_estimators=40), **args)
    kept = clone(clf).set_params(checkpoint_dir=tmp_path / "kept")
    with separate_cluster(tmp_path) as (client, scheduler):
        killer = threading.Thread(target=kill_in_round, args=(client, scheduler.pid, 1))
        killer.start()
        with pytest.raises(td.ClusterError, match="the Dask scheduler was lost or restarted") as caught:
            kept.fit(*blocks(6, X, y), client=client)
        killer.join()
    assert f"checkpoint_dir={str(tmp_path / 'kept')!r}" in str(caught.value)
    finished = {path: path.stat().st_mtime_ns for path in (tmp_path / "kept").glob("models-*.npz")}
    assert 1 <= len(finished) < 3
    with separate_cluster(tmp_path) as (client, _):
        again = clone(kept).fit(*blocks(6, X, y), client=client)
        whole = clf.fit(*blocks(6, X, y), client=client)
    assert {path: path.stat().st_mtime_ns for path in finished} == finished  # not fitted again
    same_fit(again, whole, X)


INTERRUPTED = """
import os, signal, sys, threading, time
sys.path.insert(0, {tests!r})
import test_dask as t
def main():
    X, y, _, _ = t.table(11, n=60_000)
    with t.cluster(2) as client:
        clf = t.td.AdaLPBoostClassifier(t.HistBoostClassifier(n_estimators=40), n_estimators=9,
                                        n_iter_no_change=None, random_state=0)
        def stop():
            seen = set()
            while len(seen) <= 4:
                seen |= t.asked(client)
                time.sleep(0.01)
            os.kill(os.getpid(), signal.SIGINT)
        threading.Thread(target=stop, daemon=True).start()
        clf.fit(*t.blocks(6, X, y), client=client)
        deadline = time.monotonic() + 20
        while any(client.processing().values()) and time.monotonic() < deadline:
            time.sleep(0.2)
        print("rounds", clf.n_iter_, "left", sum(map(len, client.processing().values())))
        again = t.clone(clf).set_params(n_estimators=1).fit(*t.blocks(6, X, y), client=client)
        print("again", again.n_iter_)
if __name__ == "__main__":
    main()
"""


@pytest.mark.slow
def test_ctrl_c_keeps_the_rounds_and_leaves_no_tasks(tmp_path):
    script = tmp_path / "fit.py"
    script.write_text(INTERRUPTED.format(tests=os.path.dirname(__file__)))
    done = subprocess.run([sys.executable, script], capture_output=True, text=True, timeout=300)
    assert "left 0" in done.stdout, done.stderr[-2000:]
    assert "rounds 2" in done.stdout
    assert "again 1" in done.stdout
    assert "FitInterruptedWarning" in done.stderr


# -- judging -----------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def model():
    X, y, _, _ = table(4, n=600)
    return tb.AdaLPBoostClassifier(TREES, n_estimators=3, alpha=0.6, random_state=0).fit(X, y)


@pytest.fixture(scope="module")
def by_group():
    X, y, groups, _ = table(4, n=600)
    clf = tb.RobustMixtureClassifier(
        [("tree", DecisionTreeClassifier(max_depth=3, random_state=0))],
        objective="worst_group",
        by_group=True,
        random_state=0,
    )
    return clf.fit(X, y, groups=groups)


@pytest.mark.parametrize("of", ["model", "by_group"])
@pytest.mark.parametrize("parts", [1, 7])
def test_certify_says_what_it_says_of_the_same_rows_in_memory(request, of, parts):
    model = request.getfixturevalue(of)
    X, y, groups, _ = table(5, n=700)
    options = {"alphas": [0.3], "shifts": [0.1], "max_error": {"a": 0.6, "b": 0.7, None: 0.9}}
    here = tb.certify(model, X, y, groups=groups, **options)
    Xd, yd, gd = blocks(parts, X, y, groups)
    there = td.certify(model, Xd, yd, groups=gd, **options)
    assert [b.name for b in there.bounds] == [b.name for b in here.bounds]
    for a, b in zip(there.bounds, here.bounds, strict=True):
        assert (a.n, a.target, a.certified) == (b.n, b.target, b.certified)
        assert (a.estimate, a.upper) == (
            pytest.approx(b.estimate, abs=1e-12),
            pytest.approx(b.upper, abs=1e-12),
        )
    assert there.rows.kept.tolist() == here.rows.kept.tolist()


def test_certify_knows_rows_that_were_fitted_on(model):
    X, y, _, _ = table(4, n=600)
    with pytest.raises(tb.SeenRowsError, match="members were fitted on 100% of these rows"):
        td.certify(model, *blocks(5, X, y))


def test_metrics_are_those_of_one_machine(model):
    X, y, groups, w = table(6)
    P, k = model.predict_proba(X), model.predict(X)
    yd, gd, wd, Pd, kd = blocks(7, y, groups, w, P, k)
    for name, args, lazy in (
        ("class_errors", (y, k), (yd, kd)),
        ("worst_class_error", (y, k), (yd, kd)),
        ("expected_class_errors", (y, P), (yd, Pd)),
        ("group_errors", (y, k, groups), (yd, kd, gd)),
        ("worst_group_error", (y, k, groups), (yd, kd, gd)),
        ("expected_group_errors", (y, P, groups), (yd, Pd, gd)),
        ("cvar_zero_one_loss", (y, P, 0.2), (yd, Pd, 0.2)),
    ):
        here, there = getattr(tb.metrics, name), getattr(td.metrics, name)
        assert there(*lazy) == pytest.approx(here(*args), abs=1e-12), name
        assert there(*lazy, sample_weight=wd) == pytest.approx(here(*args, sample_weight=w), abs=1e-12), name


# -- mixtures ----------------------------------------------------------------------------------------------

ARRANGED = ((1, lambda *arrays: arrays), (7, shuffled))  # partitions, and in which order of the rows
MIXTURES = {
    "class": {"mean_budget": 0.02},
    "targets": {"max_error": {0: 0.4, None: 0.3}, "averages": False},
    "group": {"objective": "worst_group"},
    "cell": {"objective": "worst_cell", "shrinkage": 0.0},
    "by group": {"objective": "worst_group", "by_group": True},
    "tail": {"objective": "cvar", "alpha": 0.4, "shares": False},
}


def said(n=N, K=3, seed=20):
    """What two models say of rows: ({name: probabilities}, y, groups, weights)."""
    rng = np.random.default_rng(seed)
    y = rng.choice(K, n, p=np.arange(K, 0, -1) / np.arange(K + 1).sum())
    groups = rng.choice(["a", "b", "c"], n, p=[0.6, 0.3, 0.1])
    signal = np.eye(K)[y] * np.where(groups == "b", 0.8, 2.0)[:, None]
    scores = [signal + rng.normal(size=(n, K)) * noise - np.arange(K) for noise in (1.0, 1.5)]
    P = [np.exp(s) / np.exp(s).sum(axis=1, keepdims=True) for s in scores]
    return dict(zip(("one", "two"), P, strict=True)), y, groups, rng.integers(0, 4, n).astype(float)


def mixtures(P, y, groups, w, **params):
    """Yield what is chosen on rows in partitions."""
    for parts, arranged in ARRANGED:
        *Ps, y_, w_, g_ = blocks(parts, *arranged(*P.values(), y, w, groups))
        told = {"groups": g_} if "objective" in params and params["objective"] != "cvar" else {}
        Pd = dict(zip(P, Ps, strict=True))
        yield td.RobustMixtureClassifier.from_probabilities(Pd, y_, sample_weight=w_, **told, **params)


@pytest.mark.parametrize("aim", MIXTURES)
def test_a_mixture_of_rows_in_partitions_is_that_of_one_machine(client, aim):
    params, (P, y, groups, w) = {"n_thresholds": 10, **MIXTURES[aim]}, said()
    told = {"groups": groups} if "group" in aim or aim == "cell" else {}
    asked = told if aim == "by group" else {}
    one = tb.RobustMixtureClassifier.from_probabilities(P, y, sample_weight=w, **told, **params)
    with client.as_current():
        many = list(mixtures(P, y, groups, w, **params))
    for other in many:
        assert other.members_ == one.members_
        np.testing.assert_allclose(other.estimator_weights_, one.estimator_weights_, atol=1e-9)
        np.testing.assert_array_equal(other.predict_from(P, **asked), one.predict_from(P, **asked))
        assert other.n_threshold_rows_ == np.count_nonzero(w)
        assert (other.bound_met_, other.units_) == (one.bound_met_, one.units_)
        if one.unit_errors_ is not None:
            np.testing.assert_allclose(other.unit_errors_, one.unit_errors_, atol=1e-12)
            rows = [line.rows for line in one.guarantee_.units.lines]
            assert [line.rows for line in other.guarantee_.units.lines] == rows
        # Sums over partitions hold no differences row by row: nothing is tied there, so that the curve of the
        # cluster may begin at smaller mean errors.
        here, there = one.tradeoff(), other.tradeoff()
        np.testing.assert_allclose(there.steered[-len(here) :], here.steered, atol=1e-9)
        np.testing.assert_allclose(there.mixture[-len(here) :], here.mixture, atol=1e-9)
        for name in ("achieved", "constants_value", "gap"):
            assert getattr(other.guarantee_, name) == pytest.approx(getattr(one.guarantee_, name), abs=1e-9)
    # Halves are drawn by content here: others than on one machine, but the same wherever the rows lie.
    assert many[0].guarantee_.estimate == pytest.approx(many[1].guarantee_.estimate, abs=1e-12)
    assert many[0].guarantee_.estimate == pytest.approx(one.guarantee_.estimate, abs=0.1)


def test_thresholds_from_a_sample_hold_for_all_rows():
    """Of two classes each threshold is a member: the best one of all rows is found by trying every one."""
    rng = np.random.default_rng(21)
    y = (rng.random(80_000) < 0.01).astype(int)
    p = 1 / (1 + np.exp(-(rng.normal(size=len(y)) * 1.5 + 2.5 * y - 4)))
    fits = []
    for parts, arranged in ARRANGED:
        pd, yd = blocks(parts, *arranged(p, y))
        fits.append(td.RobustMixtureClassifier.from_probabilities({"p": pd}, yd, n_thresholds=80))
    assert fits[0].members_ == fits[1].members_
    np.testing.assert_array_equal(fits[0].estimator_weights_, fits[1].estimator_weights_)
    mix = fits[1]
    assert mix.n_threshold_rows_ == 2**16
    assert "65,536 of them for the thresholds" in mix.guarantee_.judged_on
    errors = np.array(list(tb.metrics.class_errors(y, mix.predict_from({"p": p})).values()))
    np.testing.assert_allclose(mix.unit_errors_, errors, atol=1e-12)
    rare, common = np.sort(p[y == 1]), np.sort(p[y == 0])
    at = np.sort(p)
    worst = np.maximum(np.searchsorted(rare, at) / len(rare), 1 - np.searchsorted(common, at) / len(common))
    assert worst.min() <= errors.max() <= worst.min() + 0.01


def test_equal_rows_are_in_both_halves_and_the_sample_knows_their_weight():
    rng = np.random.default_rng(22)
    y = rng.choice(2, 3000, p=[0.7, 0.3])
    p = (0.4 * y + 0.6 * rng.random(3000)).round(1)
    P, w, groups = {"p": p}, np.ones(3000), np.zeros(3000)
    one = tb.RobustMixtureClassifier.from_probabilities(P, y)
    for other in mixtures(P, y, groups, w):
        assert other.members_ == one.members_
        np.testing.assert_allclose(other.unit_errors_, one.unit_errors_, atol=1e-12)
        np.testing.assert_allclose(other.unit_intervals_, one.unit_intervals_, atol=0.02)


def test_a_mixture_is_an_ordinary_classifier_and_predicts_lazily(client, tmp_path):
    pd = pytest.importorskip("pandas")
    dd = pytest.importorskip("dask.dataframe")
    P, y, groups, _ = said()
    names = np.array(["low", "mid", "top"])
    table = pd.DataFrame(np.hstack(list(P.values()))).assign(y=names[y], site=groups, side="left")
    lazy = dd.from_pandas(table.rename(columns=str), npartitions=5)
    Pd = {"one": lazy[["0", "1", "2"]], "two": lazy[["3", "4", "5"]]}
    params = {"objective": "worst_group", "n_thresholds": 5}
    with client.as_current():
        mix = td.RobustMixtureClassifier.from_probabilities(
            Pd, lazy["y"], groups=lazy[["site", "side"]], **params
        )
        labels = mix.predict_from(Pd).compute()
        shares = mix.predict_shares_from(dict(zip(P, blocks(4, *P.values()), strict=True)))
        assert shares.shape == (N, 3)
        shares = shares.compute()
    told = table[["site", "side"]]
    one = tb.RobustMixtureClassifier.from_probabilities(P, names[y], groups=told, **params)
    assert mix.units_ == one.units_
    np.testing.assert_array_equal(labels, one.predict_from(P))
    np.testing.assert_array_equal(shares, one.predict_shares_from(P))
    local = mix.to_local()
    assert type(local) is tb.RobustMixtureClassifier
    tb.save_model(local, tmp_path / "m.model")
    again = tb.load_model(tmp_path / "m.model")
    np.testing.assert_array_equal(again.predict_from(P), labels)
    assert str(again.guarantee_) == str(mix.guarantee_)
    np.testing.assert_array_equal(
        again.reweight(mean_budget=0.01).predict_from(P), one.reweight(mean_budget=0.01).predict_from(P)
    )
    np.testing.assert_array_equal(
        again.reweight(P, names[y], objective="worst_class").estimator_weights_,
        one.reweight(P, names[y], objective="worst_class").estimator_weights_,
    )
    for refused in (
        lambda: again.reweight(objective="worst_class"),
        lambda: again.reweight(groups=told),
        lambda: again.tradeoff().predicted(),
    ):
        with pytest.raises(ValueError, match="sums of errors were kept, not the probabilities"):
            refused()
    with pytest.raises(TypeError, match="reweight takes probabilities in memory"):
        mix.reweight(Pd, lazy["y"])


def test_what_a_mixture_in_partitions_cannot_do_is_refused_by_name():
    P, y, groups, w = said(300)
    one, yd, gd, wd = blocks(3, P["one"], y, groups, w)
    choose = td.RobustMixtureClassifier.from_probabilities
    for args, params, says in (
        (({"one": P["one"]}, yd), {}, r"probabilities\['one'\] is a ndarray: a Dask array"),
        (({"one": one}, y), {}, "y is a ndarray"),
        (({"one": one}, yd[:50]), {}, r"y has 50 entries, probabilities\['one'\] has 300 rows"),
        (({"one": one}, None), {}, "requires y to be passed"),
        (({}, yd), {}, "those of at least one model"),
        (({"one": one[:, 0]}, yd), {}, "has 2 columns, but there are 3 classes"),
        (({"one": one * 2}, yd), {}, "must hold probabilities in"),
        (({"one": one}, yd * 0), {}, "at least two different labels"),
        (({"one": one}, yd), {"sample_weight": wd * 0}, "no row of positive weight"),
        (({"one": one}, yd), {"sample_weight": wd - 2}, "sample_weight must not be negative"),
        (({"one": one}, yd), {"objective": "worst_group"}, "needs groups"),
        (({"one": one}, yd), {"objective": "cvar", "alpha": 0.5}, "give shares=False"),
        (({"one": one}, yd), {"randomized": True}, "randomized=True is not available on a cluster"),
        (({"one": one}, yd), {"alpha": 2.0}, "The 'alpha' parameter"),
    ):
        with pytest.raises((TypeError, ValueError), match=says):
            choose(*args, **params)
    with pytest.raises(TypeError, match="fits no models"):
        td.RobustMixtureClassifier().fit(one, yd)
    mix = choose({"one": one}, yd, groups=gd, objective="worst_group", by_group=True)
    with pytest.raises(ValueError, match="groups are needed"):
        mix.predict_from({"one": one})
    with pytest.raises(ValueError, match="no model is called"):
        mix.predict_from({"other": one}, groups=gd)
    np.testing.assert_array_equal(
        mix.predict_from({"one": one}, groups=gd).compute(),
        mix.predict_from({"one": P["one"]}, groups=groups),
    )


# -- files -------------------------------------------------------------------------------------------------


def test_parquet_is_prepared_as_on_one_machine(tmp_path):
    pytest.importorskip("pandas")
    X, y = frame(n=300)
    path = tmp_path / "t.parquet"
    X.assign(y=y, weight=2.0, id=np.arange(len(y))).to_parquet(path, row_group_size=70)
    table = td.read_parquet(path, "y", group=["town"], drop=["id"], weight="weight")
    here = tb.datasets.load_table(path, "y", group=["town"], drop=["id"], weight="weight")
    encoder = tb.io.TableEncoder(schema=here.schema).fit(here.data)
    assert table.encoder.get_feature_names_out().tolist() == encoder.get_feature_names_out().tolist()
    np.testing.assert_array_equal(table.data.compute(), encoder.transform(here.data))
    assert table.data.numblocks[0] == 5
    assert table.label_counts == {k: int((y == k).sum()) for k in ("no", "yes")}
    np.testing.assert_array_equal(np.asarray(table.target.compute()), here.target)
    for options, says in (
        ({"target": "z z"}, "target column 'z z' is not there"),
        ({"target": "y", "group": ["g"]}, "group column 'g' is not there"),
        ({"target": "y", "drop": ["no"]}, "drop column 'no' is not there"),
    ):
        with pytest.raises(ValueError, match=says):
            td.read_parquet(path, **options)
    X.assign(y=y, name=[f"n{i}" for i in range(len(y))]).to_parquet(path)
    with pytest.raises(ValueError, match="'name' of text have more than 50 different values"):
        td.read_parquet(path, "y")


@pytest.mark.slow
def test_the_command_fits_what_it_fits_on_one_machine(tmp_path):
    pytest.importorskip("typer")
    X, y = frame(n=2000)
    data = tmp_path / "t.parquet"
    X.assign(y=y).to_parquet(data, row_group_size=300)
    settings = ["validation=train", "n_estimators=2", "n_iter_no_change=None"]
    models = []
    for name, more in (("one", []), ("many", ["--dask", "--jobs", "2"])):
        model = tmp_path / f"{name}.model"
        command = ["fit", str(data), "--target", "y", "--method", "adalpboost", "--model", str(model), *more]
        command += [part for setting in settings for part in ("--set", setting)]
        code = f"from tailboost.cli import main\nif __name__ == '__main__':\n    main({command!r})"
        script = tmp_path / f"{name}.py"
        script.write_text(code)
        done = subprocess.run([sys.executable, script], capture_output=True, text=True, timeout=200)
        assert done.returncode == 0, done.stderr[-2000:]
        models.append(tb.load_model(model))
    one, many = models
    np.testing.assert_array_equal(one.predict(X), many.predict(X))
    np.testing.assert_allclose(one.predict_proba(X), many.predict_proba(X), atol=1e-9)
    assert type(many[-1]) is tb.AdaLPBoostClassifier


def test_files_without_rows_or_of_another_kind_are_named(tmp_path):
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame({"x": [1.0], "y": ["a"]})
    frame.to_csv(tmp_path / "t.csv", index=False)
    with pytest.raises(ValueError, match=r"t\.csv' is a CSV file: only Parquet is read"):
        td.read_parquet(tmp_path / "t.csv", "y")
    frame.head(0).to_parquet(tmp_path / "t.parquet")
    with pytest.raises(ValueError, match=r"t\.parquet' has no rows"):
        td.read_parquet(tmp_path / "t.parquet", "y")


@pytest.mark.parametrize("missing", ["dask", "distributed", "xgboost"])
def test_what_is_missing_is_named(missing):
    code = f"import sys; sys.modules[{missing!r}] = None; import tailboost.dask"
    said = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False).stderr
    assert "pip install 'tailboost[dask]'" in said.splitlines()[-1]


@pytest.fixture(scope="module")
def kept(client):
    pandas, frames = pytest.importorskip("pandas"), pytest.importorskip("dask.dataframe")
    X, y, groups, weight = table(n=800)
    fitted = td.GroupDROBoostClassifier(TREES, n_estimators=2, random_state=0)
    fitted.fit(*(da.from_array(a[:400], chunks=100) for a in (X, y)), groups=None, client=client)
    frame = pandas.DataFrame(X[400:], columns=list("abcde")).assign(y=y[400:], g=groups[400:], w=weight[400:])
    frame = frame.sort_values("a", ignore_index=True)
    there = frames.from_pandas(frame, npartitions=4, sort=False)
    return fitted, there[there["a"] > 0], frame[frame["a"] > 0]


class TestPartitionsWithoutRows:
    """What a filter leaves: the answers, the accuracy and the bounds are those of the rows there are."""

    def test_answers(self, kept):
        fitted, there, here = kept
        local, columns = fitted.to_local(), list("abcde")
        assert len(here) < 300  # so that a partition of 100 has no rows
        for values in (there[columns].values, here[columns].to_numpy()):
            answers = fitted.predict(values)
            shares = fitted.predict_proba(values)
            if hasattr(answers, "compute"):
                answers, shares = answers.compute(), shares.compute()
            np.testing.assert_array_equal(answers, local.predict(here[columns].to_numpy()))
            np.testing.assert_array_equal(shares, local.predict_proba(here[columns].to_numpy()))

    def test_accuracy(self, kept):
        fitted, there, here = kept
        columns = list("abcde")
        for weight, same in ((None, None), (there["w"].values, here["w"])):
            expected = fitted.to_local().score(here[columns].to_numpy(), here["y"], same)
            assert fitted.score(there[columns].values, there["y"].values, weight) == pytest.approx(expected)

    def test_bounds(self, kept, client):
        fitted, there, here = kept
        columns = list("abcde")
        with client.as_current():
            found = td.certify(fitted, there[columns].values, there["y"].values, groups=there["g"].values)
        expected = tb.certify(fitted.to_local(), here[columns].to_numpy(), here["y"], groups=here["g"])
        assert [(b.name, b.upper) for b in found.bounds] == [(b.name, b.upper) for b in expected.bounds]
