"""Tables larger than memory: a fit on partitions is that on the table in memory, where the bins are equal."""

from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise

import numpy as np
import pytest
import scipy.sparse as sp
from conftest import refused

import tailboost as tb
from tailboost import published
from tailboost.core import streamed

pytest.importorskip("xgboost")
dask = pytest.importorskip("dask", reason="needs the extra dask")
da = pytest.importorskip("dask.array", reason="needs the extra dask")
dd = pytest.importorskip("dask.dataframe", reason="needs the extra dask")
pd = pytest.importorskip("pandas", reason="needs the extra dask")

N = 300


@pytest.fixture(autouse=True)
def _in_this_thread():
    with dask.config.set(scheduler="synchronous"):
        yield


def rows(seed=0, n=N, K=2):
    """Return a table with fewer values in a column than bins, labels as text, and weights."""
    rng = np.random.default_rng(seed)
    frame = pd.DataFrame({
        "number": rng.integers(0, 40, n).astype(float), "count": rng.integers(0, 9, n),
        "text": rng.choice(list("uvwxyz"), n),
        "category": pd.Categorical(rng.choice(["low", "mid", "high"], n), ["low", "mid", "high"]),
    })  # fmt: skip
    y = np.clip((frame["number"].fillna(9) / 20 + 1.5 * rng.random(n)).astype(int), 0, K - 1)
    return frame, np.array(["no", "yes", "maybe"])[y], rng.integers(0, 4, n).astype(float)


def cut(frame, ends):
    """Return a table of Dask with partitions that end at these rows."""
    places = [0, *ends, len(frame)]
    parts = [frame[start:end] for start, end in pairwise(places)]
    return dd.from_delayed([dask.delayed(part) for part in parts], meta=frame[:0])


def equal(clf, streamed_clf, frame, lazy):
    """Compare games, rules and answers of two fits."""
    np.testing.assert_array_equal(streamed_clf.game_losses_, clf.game_losses_)
    np.testing.assert_array_equal(streamed_clf.estimator_weights_, clf.estimator_weights_)
    np.testing.assert_array_equal(streamed_clf.classes_, clf.classes_)
    for table in (frame, lazy):
        np.testing.assert_array_equal(streamed_clf.predict(table), clf.predict(frame))
        np.testing.assert_allclose(streamed_clf.predict_proba(table), clf.predict_proba(frame), rtol=1e-12)


GAMES = {
    "adalpboost": lambda: published.adalpboost("tree", 0.1, T=3, random_state=0),
    "lpboost": lambda: published.lpboost("tree", 0.3, T=3, random_state=0),
    "ranked": lambda: tb.AdaLPBoostClassifier("tree", n_estimators=3, rank_labels=True, random_state=0),
    "average": lambda: published.average_boost("tree", T=3, random_state=0),
    "adaboost": lambda: published.adaboost("tree", T=3, random_state=0),
    "dro": lambda: published.dro_boost("tree", 0.1, T=3, random_state=0),
    "worst class": lambda: published.worst_class_boost("tree", 0.5, gamma=0.05, T=3, random_state=0),
    "group DRO": lambda: published.group_dro_boost("tree", T=3, random_state=0),
}


@pytest.mark.parametrize("K", [2, 3])
@pytest.mark.parametrize("game", GAMES)
def test_a_streamed_fit_is_that_in_memory(game, K):
    """Unequal and empty partitions of unknown sizes, weights with zeros, text labels, categories, gaps."""
    frame, y, weight = rows(K=K)
    lazy, make = cut(frame, [7, 8, 8, 200]), GAMES[game]
    equal(make().fit(frame, y, weight), make().fit(lazy, y, weight), frame, lazy)


@pytest.mark.parametrize("form", ["unknown categories", "filtered", "Series", "array", "files"])
def test_forms_of_a_table(form, tmp_path):
    frame, y, _ = rows(1)
    lazy = cut(frame, [100, 250])
    clf, own = GAMES["adalpboost"](), GAMES["adalpboost"]()
    if form == "unknown categories":  # each partition knows its own
        lazy = lazy.astype({"text": "category"})
    elif form == "filtered":
        frame, y = frame[frame["count"] > 4], y[frame["count"] > 4]
        lazy = lazy[lazy["count"] > 4]
    elif form == "Series":
        y = pd.Series(y)
    elif form == "array":
        frame = frame[["number", "count"]].to_numpy()
        lazy = da.from_array(frame, chunks=(70, 1))
    else:
        arrow = pytest.importorskip("pyarrow.dataset")
        for i, rows_of_file in enumerate(np.array_split(np.arange(N), 3)):
            frame.iloc[rows_of_file].to_parquet(tmp_path / f"{i}.parquet")
        lazy = arrow.dataset(tmp_path)
    equal(clf.fit(frame, y), own.fit(lazy, y), frame, lazy)


def test_rows_that_select_the_rule():
    """Validation rows and folds, by partitions too; and groups, weights of zero among them."""
    frame, y, weight = rows(2)
    other, y_other, _ = rows(3, 200)
    lazy, lazy_other = cut(frame, [150]), cut(other, [20, 60])
    for fold in ({"X_val": other, "y_val": y_other}, {}):
        clf = tb.AdaLPBoostClassifier("tree", n_estimators=3, cv="train" if fold else 3, random_state=0)
        by_parts = {**fold, "X_val": lazy_other} if fold else {}
        one = clf.fit(frame, y, weight, **fold)
        answers, two = one.answers_, clf.fit(lazy, y, weight, **by_parts)
        np.testing.assert_array_equal(two.answers_, answers)
    group = frame["text"].to_numpy()
    clf = tb.GroupDROBoostClassifier("tree", n_estimators=3, random_state=0)
    losses = clf.fit(frame, y, weight, groups=group).game_losses_
    np.testing.assert_array_equal(clf.fit(lazy, y, weight, groups=group).game_losses_, losses)
    refused(lambda: clf.fit(lazy, y, groups=group[1:]), "groups has")


def test_many_values_in_a_column_make_other_bins_and_nearly_the_same_losses():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(4000, 3))
    y = (X[:, 0] + rng.normal(size=4000) > 0).astype(int)
    clf = tb.AdaBoostClassifier("tree", n_estimators=3, random_state=0)
    loss = clf.fit(X, y).weighted_losses_
    assert abs(clf.fit(da.from_array(X, chunks=(900, 3)), y).weighted_losses_ - loss).max() < 0.01


def test_a_constant_answers_where_no_hypothesis_is_better():
    X, y = da.ones((100, 2), chunks=(30, 2)), np.arange(100) % 2
    with pytest.warns(UserWarning, match="constant"):
        clf = tb.AdaBoostClassifier("tree", random_state=0).fit(X, y)
    assert (clf.predict(X) == clf.predict(np.ones((100, 2)))).all()


def test_a_partition_that_fails_is_named_and_the_fit_before_stays():
    """In each read of a fit: of the first partition, of the count of the rows, and of XGBoost's passes."""
    frame, y, _ = rows()
    lazy, clf = cut(frame, [100, 200]), GAMES["adalpboost"]().fit(frame, y)
    before, reads = clf.predict(frame), []

    def failing(at):
        reads.clear()

        def read(part):
            reads.append(part)
            if len(reads) > at:
                raise OSError("the disk is gone")
            return part

        return lazy.map_partitions(read, meta=frame[:0])

    GAMES["adalpboost"]().fit(failing(1000), y)
    n_reads = len(reads)
    assert n_reads % 3 == 1
    for at in (0, 1, 5, n_reads - 2):
        number = (at - 1) % 3 if at else 0
        X = failing(at)
        with pytest.raises(RuntimeError, match=rf"partition {number} .*disk is gone") as failure:
            clf.fit(X, y)
        assert isinstance(failure.value.__cause__, OSError)
        np.testing.assert_array_equal(clf.predict(frame), before)
    X = failing(2)
    refused(lambda: clf.predict(X), "partition 2", RuntimeError)


def test_a_table_with_other_rows_in_a_later_pass_is_refused():
    frame, _, _ = rows()
    partitions, _ = streamed(cut(frame, [200]))
    counted = partitions.counted()
    assert [len(part) for part in counted] == [200, 100]
    shorter, _ = streamed(cut(frame[:-1], [200]))
    with pytest.raises(RuntimeError, match="300 rows"):
        list(type(counted)(shorter.parts, used=counted.used, n_given=N))


@pytest.mark.parametrize("learner", ["stump", "erm", "forest", "xgboost"])
def test_other_learners_are_refused_by_name_before_any_partition_is_read(learner):
    frame, y, _ = rows()
    lazy = cut(frame, [200]).map_partitions(lambda part: 1 / 0, meta=frame[:0])
    refused(lambda: published.adalpboost(learner, 0.1).fit(lazy, y), "estimator=", TypeError)


def test_what_is_no_table_of_partitions_is_refused_by_name():
    frame, y, _ = rows()
    lazy, clf = cut(frame, [200]), GAMES["adalpboost"]()
    with ThreadPoolExecutor(1) as pool:
        future = pool.submit(lambda: frame)
        wrong = {
            "result": [future, [future]], "compute": [lazy["count"], lazy.to_delayed(), lazy.to_delayed()[0]],
        }  # fmt: skip
    for kind, tables in wrong.items():
        for table in tables:
            refused(lambda: clf.fit(table, y), kind, TypeError)
    refused(lambda: clf.fit(lazy, da.from_array(np.arange(N))), r"y: .*compute", TypeError)
    for y_wrong in (y[:-1], None, y[:1].repeat(N)):
        refused(lambda: clf.fit(lazy, y_wrong), r"^y |requires y")
    refused(lambda: clf.fit(lazy[lazy["count"] > 99], y), "no rows")
    blocks = da.from_array(frame[["count"]].to_numpy(), chunks=(90, 1)).map_blocks(sp.csr_matrix)
    refused(lambda: clf.fit(blocks, y), r"partition 0 .*sparse", RuntimeError)
    refused(lambda: published.dro_boost("tree").fit(lazy, y), "radius=", TypeError)
    refused(lambda: clf.fit(frame, y).predict(lazy[["count"]]), "yet now missing")
    in_memory = [
        lambda X: tb.learners.HistTreeClassifier().fit(X, y),
        lambda X: tb.RobustMixtureClassifier().fit(X, y), lambda X: tb.tune(clf, X, y),
        lambda X: tb.certify(clf, X, y),
    ]  # fmt: skip
    for call in in_memory:
        refused(lambda: call(lazy), "compute", TypeError)
