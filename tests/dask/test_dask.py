"""Scores that partitions compute next to their labels and groups give the rule of the rows in memory."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression

import tailboost as tb

distributed = pytest.importorskip("distributed", reason="needs the extra dask")
dask = pytest.importorskip("dask", reason="needs the extra dask")
da = pytest.importorskip("dask.array", reason="needs the extra dask")
dd = pytest.importorskip("dask.dataframe", reason="needs the extra dask")
pd = pytest.importorskip("pandas", reason="needs the extra dask")

LIMITS = ["miss(1, by=site) <= 40%", "false_alarm(1) <= 60%"]


@pytest.fixture(scope="module")
def client():
    """A cluster of two processes, one thread each."""
    options = {"threads_per_worker": 1, "dashboard_address": ":0", "memory_limit": 0}
    with distributed.LocalCluster(n_workers=2, **options) as workers, distributed.Client(workers) as client:
        yield client


def table(seed=0, n=1200):
    """Features, labels 0 and 1, and sites of two kinds, in one data frame."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 3))
    y = (X[:, 0] + 0.5 * X[:, 1] + rng.logistic(size=n) > 0.5).astype(int)
    site = np.where(rng.random(n) < 0.3, "north", "south")
    return pd.DataFrame(X, columns=["a", "b", "c"]).assign(y=y, site=site)


def test_partitions_score_and_answer(client):
    train, fresh = table(1), table(2)
    model = LogisticRegression().fit(train[["a", "b", "c"]], train["y"])

    def scored(part):
        p = model.predict_proba(part[["a", "b", "c"]])[:, 1] if len(part) else np.zeros(0)
        return part[["y", "site"]].assign(p=p)

    parts = [fresh[:500], fresh[500:500], fresh[500:]]
    lazy = dd.concat([dd.from_pandas(part, npartitions=1) for part in parts])
    rules = []
    for rows in (lazy.map_partitions(scored, meta=scored(fresh[:0])).compute(), scored(fresh)):
        given = {"groups": rows[["site"]], "limits": LIMITS}
        rules.append(tb.calibrate(tb.Scores("p", 1), rows[["p"]], rows["y"], **given))
    lazily, in_memory = rules
    assert lazily.certificate_.certified
    assert lazily.rule_.to_sql("p", label=1) == in_memory.rule_.to_sql("p", label=1)
    new = da.from_array(scored(table(3))["p"].to_numpy(), chunks=400)
    answers = new.map_blocks(lazily.rule_.predict, dtype=int).compute()
    assert answers.tolist() == in_memory.predict(pd.DataFrame({"p": new.compute()})).tolist()


def test_a_model_on_a_cluster_gathers_its_scores(client):
    xgboost, rows = pytest.importorskip("xgboost"), table(4)
    X, y = (da.from_array(rows[names].to_numpy(), chunks=400) for names in (["a", "b", "c"], "y"))
    model = pytest.importorskip("xgboost.dask").DaskXGBClassifier(n_estimators=5).fit(X, y)
    p, labels = dask.compute(model.predict_proba(X)[:, 1], y)
    alone = model.get_booster().predict(xgboost.DMatrix(rows[["a", "b", "c"]].to_numpy()))
    assert p == pytest.approx(alone, abs=1e-6)
    rule = tb.calibrate(tb.Scores("p", 1), pd.DataFrame({"p": p}), labels, limits=["miss(1) <= 60%"])
    assert rule.certificate_.certified
