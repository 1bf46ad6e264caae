"""Gathered scores, labels and groups equal those of one machine, and serve every call."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import LogisticRegression

import tailboost as tb

distributed = pytest.importorskip("distributed", reason="needs the extra dask")
da = pytest.importorskip("dask.array", reason="needs the extra dask")
dd = pytest.importorskip("dask.dataframe", reason="needs the extra dask")
pd = pytest.importorskip("pandas", reason="needs the extra dask")

import tailboost.dask as td

LIMITS = ["miss(1, by=site) <= 40%", "false_alarm(1) <= 60%"]


@pytest.fixture(scope="module")
def client():
    """A cluster of two processes, one thread each."""
    options = {"threads_per_worker": 1, "dashboard_address": ":0", "memory_limit": 0}
    with distributed.LocalCluster(n_workers=2, **options) as workers, distributed.Client(workers) as client:
        yield client


def table(seed=0, n=1200):
    """Features, labels 0 and 1, and sites of two kinds."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 3))
    y = (X[:, 0] + 0.5 * X[:, 1] + rng.logistic(size=n) > 0.5).astype(int)
    return pd.DataFrame(X, columns=["a", "b", "c"]), y, np.where(rng.random(n) < 0.3, "north", "south")


def test_every_call_gives_the_answers_of_arrays(client):
    """Tune, calibrate, certify and monitor on gathered rows and on the rows in memory."""
    X, y, _ = table(1)
    model = LogisticRegression().fit(X, y)
    rules = {}
    for place in ("cluster", "memory"):
        batches = []
        for seed in (2, 3, 4):
            X, y, site = table(seed)
            if place == "memory":
                score = model.predict_proba(X)[:, 1]
                batches.append((pd.DataFrame({"probability_1": score}), y, pd.DataFrame({"site": site})))
                continue
            lazy = dd.from_pandas(X.assign(site=site), npartitions=3)
            labels = da.from_array(y, chunks=500)
            rows = td.gathered(model, lazy[["a", "b", "c"]], labels, lazy[["site"]])
            batches.append((rows["X"], rows["y"], rows["groups"]))
        scores = tb.Scores("probability_1", 1)
        (X, y, groups), fresh, later = batches
        tuned = tb.tune(scores, X, y, groups=groups, limits=LIMITS)
        rule = tb.calibrate(scores, X, y, groups=groups, limits=LIMITS)
        certificate = tb.certify(tuned, fresh[0], fresh[1], groups=fresh[2], rates=LIMITS)
        monitor = tb.Monitor(rule)
        monitor.add(later[0], later[1], groups=later[2])
        rules[place] = [str(tuned.rule_), str(rule.rule_), str(certificate), str(monitor)]
    assert rules["cluster"] == rules["memory"]


def test_columns_of_several_classes_and_of_text_labels():
    X, y, _ = table()
    y = np.array(["none", "some", "much"])[y + (X["c"].to_numpy() > 1)]
    model = RandomForestClassifier(5, random_state=0).fit(X, y)
    rows = td.gathered(model, dd.from_pandas(X, npartitions=4), da.from_array(y, chunks=500))
    assert rows["X"].columns.tolist() == ["probability_much", "probability_none", "probability_some"]
    np.testing.assert_allclose(rows["X"], model.predict_proba(X), rtol=1e-9)
    np.testing.assert_array_equal(rows["y"], y)
    assert set(rows) == {"X", "y"}


def test_an_array_in_blocks_of_rows_and_columns():
    X, y, site = table()
    model = LogisticRegression().fit(X.to_numpy(), y)
    lazy = da.from_array(X.to_numpy(), chunks=(500, 2))
    rows = td.gathered(model, lazy, groups=da.from_array(site, chunks=1200))
    np.testing.assert_allclose(
        rows["X"]["probability_1"], model.predict_proba(X.to_numpy())[:, 1], rtol=1e-12
    )
    np.testing.assert_array_equal(rows["groups"], site)


def test_files_that_dask_reads_as_one_partition(tmp_path):
    """Dask reads one column of several files as one partition, and all columns as several."""
    X, y, site = table()
    model = LogisticRegression().fit(X, y)
    for i in range(5):  # the last file has no rows
        X.assign(y=y, site=site)[300 * i : 300 * (i + 1)].to_parquet(tmp_path / f"{i}.parquet")
    stored = dd.read_parquet(str(tmp_path / "*.parquet"))
    rows = td.gathered(model, stored[["a", "b", "c"]], stored["y"], stored[["site"]])
    np.testing.assert_allclose(rows["X"]["probability_1"], model.predict_proba(X)[:, 1], rtol=1e-9)
    np.testing.assert_array_equal(rows["y"], y)
    np.testing.assert_array_equal(rows["groups"]["site"], site)
    assert rows["y"].index.equals(rows["X"].index)


def test_a_model_of_xgboost_on_dask(client):
    pytest.importorskip("xgboost")
    from xgboost.dask import DaskXGBClassifier

    X, y, _ = table()
    lazy, labels = da.from_array(X.to_numpy(), chunks=(400, 3)), da.from_array(y, chunks=400)
    model = DaskXGBClassifier(n_estimators=3, max_depth=2).fit(lazy, labels)
    rows = td.gathered(model, lazy, labels)
    np.testing.assert_allclose(rows["X"]["probability_1"], model.predict_proba(lazy).compute()[:, 1])
    np.testing.assert_array_equal(rows["y"], y)


@pytest.mark.parametrize("name", ["X", "y", "groups"])
def test_rows_in_memory_are_refused_by_name(name):
    X, y, site = table()
    model = LogisticRegression().fit(X, y)
    lazy = {"X": dd.from_pandas(X, npartitions=2), "y": da.from_array(y), "groups": da.from_array(site)}
    with pytest.raises(TypeError, match=f"{name} is"):
        td.gathered(model, **lazy | {name: {"X": X, "y": y, "groups": site}[name]})


def test_labels_of_other_rows_are_refused():
    X, y, _ = table()
    model = LogisticRegression().fit(X, y)
    with pytest.raises(ValueError, match="y has 1,000 rows"):
        td.gathered(model, dd.from_pandas(X, npartitions=2), da.from_array(y[:1000]))
