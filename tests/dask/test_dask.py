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
            labels = da.from_array(y, chunks=400)
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
    rows = td.gathered(model, dd.from_pandas(X, npartitions=4), da.from_array(y, chunks=300))
    assert rows["X"].columns.tolist() == ["probability_much", "probability_none", "probability_some"]
    np.testing.assert_allclose(rows["X"], model.predict_proba(X), rtol=1e-9)
    np.testing.assert_array_equal(rows["y"], y)
    assert set(rows) == {"X", "y"}


def test_an_array_in_blocks_of_rows_and_columns():
    X, y, site = table()
    model = LogisticRegression().fit(X.to_numpy(), y)
    lazy = da.from_array(X.to_numpy(), chunks=(500, 2))
    rows = td.gathered(model, lazy, groups=da.from_array(site, chunks=500))
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


def test_columns_of_one_frame_keep_its_index():
    """Rows in any order, in other partitions of the same order, with labels of an index that repeat."""
    X, y, site = table()
    index = np.random.default_rng(0).permutation(len(X)) // 2
    X, y, site = X.set_axis(index), pd.Series(y, index), pd.DataFrame({"site": site}, index)
    model = LogisticRegression().fit(X, y)
    lazy = [dd.from_pandas(each, npartitions=n, sort=False) for each, n in ((X, 3), (y, 4), (site, 2))]
    rows = td.gathered(model, *lazy)
    np.testing.assert_allclose(rows["X"]["probability_1"], model.predict_proba(X)[:, 1], rtol=1e-9)
    pd.testing.assert_series_equal(rows["y"], y)
    assert rows["X"].index.equals(X.index)
    assert rows["groups"].index.equals(X.index)
    as_arrays = td.gathered(model, lazy[0], *(da.from_array(each.to_numpy(), chunks=(400,)) for each in (y,)))
    np.testing.assert_array_equal(as_arrays["y"], y)


@pytest.mark.parametrize("name", ["y", "groups"])
@pytest.mark.parametrize("how", ["another order", "other rows", "other partitions"])
def test_labels_and_groups_of_other_rows_are_refused(name, how):
    """Joined in their own order, they would belong to other rows."""
    X, y, site = table()
    model = LogisticRegression().fit(X, y)
    parts = {"y": pd.Series(y), "groups": pd.DataFrame({"site": site})}
    lazy = {each: dd.from_pandas(part, npartitions=3, sort=False) for each, part in parts.items()}
    if how == "another order":
        shuffled = parts[name].sample(frac=1, random_state=1)
        lazy[name] = dd.from_pandas(shuffled, npartitions=3, sort=False)
    elif how == "other rows":
        lazy[name] = dd.from_pandas(parts[name][:1000], npartitions=3)
    else:
        lazy[name] = da.from_array(parts[name].to_numpy().ravel(), chunks=500)
    whole = dd.from_pandas(X, npartitions=3, sort=False)
    with pytest.raises(ValueError, match=f"^{name} "):
        td.gathered(model, whole, **lazy)
    if how != "other rows":  # the cure: columns of one frame
        joined = whole.join(
            dd.from_pandas(parts[name].rename("y") if name == "y" else parts[name], npartitions=2)
        )
        rows = td.gathered(model, joined[["a", "b", "c"]], **{name: joined["y" if name == "y" else "site"]})
        np.testing.assert_array_equal(rows[name], parts[name].to_numpy().ravel())


def test_an_array_has_the_partitions_of_its_labels():
    X, y, site = table()
    model = LogisticRegression().fit(X.to_numpy(), y)
    lazy = da.from_array(X.to_numpy(), chunks=(400, 3))
    groups = pd.DataFrame({"site": site}, index=np.arange(len(X)) + 5)
    frames = [dd.from_pandas(each, npartitions=3) for each in (pd.Series(y, index=groups.index), groups)]
    rows = td.gathered(model, lazy, *frames)
    assert rows["groups"].index.equals(rows["X"].index)  # an array has no index, so the others lose theirs
    with pytest.raises(ValueError, match="groups and y have different indexes"):
        td.gathered(model, lazy, frames[0], dd.from_pandas(groups.set_axis(range(len(X))), npartitions=3))
    with pytest.raises(ValueError, match="y has partitions of 500, 500, 200 rows"):
        td.gathered(model, lazy, da.from_array(y, chunks=500))
