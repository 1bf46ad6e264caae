"""Selection and certificates on Dask collections agree with one machine on the same rows."""

from __future__ import annotations

import subprocess
import sys
from contextlib import contextmanager

import numpy as np
import pytest
from sklearn.tree import DecisionTreeClassifier

import tailboost as tb
from tailboost import rates
from tailboost.learners import HistBoostClassifier

distributed = pytest.importorskip("distributed", reason="needs the extra dask")
fsspec = pytest.importorskip("fsspec", reason="needs the extra dask")
dask = pytest.importorskip("dask", reason="needs the extra dask")
da = pytest.importorskip("dask.array", reason="needs the extra dask")
pytest.importorskip("xgboost", reason="needs the extra dask")

import tailboost.dask as td

TREES = HistBoostClassifier(n_estimators=2, max_depth=3)
N = 1200


@pytest.fixture(scope="module")
def client():
    """A cluster of two processes, one thread each."""
    with cluster(2) as client:
        yield client


@pytest.fixture(scope="module")
def threads():
    """A cluster of two threads, which send each other bytes as two processes do; they start at once."""
    with cluster(2, processes=False, protocol="tcp") as client:
        yield client


@contextmanager
def cluster(n_workers, **more):
    options = {"threads_per_worker": 1, "dashboard_address": ":0", "memory_limit": 0}
    with (
        distributed.LocalCluster(n_workers=n_workers, **options, **more) as workers,
        distributed.Client(workers, set_as_default=False) as client,
    ):
        yield client


def table(seed=0, n=N, K=3):
    """A partly learnable table: (X, y, groups, weights)."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 5))
    y = (X @ rng.normal(size=(5, K)) + np.sin(3 * X[:, :K]) + rng.gumbel(size=(n, K))).argmax(axis=1)
    groups = np.array(["a", "b", "c"])[1 * (X[:, 0] > 0) + (rng.random(n) < 0.2)]
    return X, y, groups, rng.integers(1, 4, n).astype(float)


def blocks(parts, *arrays):
    """Return arrays as Dask arrays with a number of partitions."""
    size = -(-len(arrays[0]) // parts)
    return [da.from_array(a, chunks=(size, *a.shape[1:])) for a in arrays]


def shuffled(*arrays, seed=1):
    order = np.random.default_rng(seed).permutation(len(arrays[0]))
    return [a[order] for a in arrays]


# -- tables ------------------------------------------------------------------------------------------------


def frame(seed=7, n=900):
    """A data frame with text, categories, missing values and text labels."""
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


@pytest.fixture(scope="module")
def of_frames():
    """A model of one machine for data frames, and its columns."""
    X, y = frame()
    return tb.AdaLPBoostClassifier(TREES, n_estimators=2, alpha=0.7, random_state=0).fit(X, y)


def test_columns_of_several_files_stay_beside_each_other(of_frames, tmp_path):
    """Dask reads one column of several files as one partition, and all columns as several."""
    dd = pytest.importorskip("dask.dataframe")
    fresh, labels = frame(seed=8)
    for i in range(4):
        fresh.assign(y=labels)[i::4].to_parquet(tmp_path / f"{i}.parquet")
    stored = dd.read_parquet(str(tmp_path / "*.parquet"))
    told = td.certify(of_frames, stored.drop(columns="y"), stored["y"]).bound("mean")
    assert told == tb.certify(of_frames, fresh, labels).bound("mean")


def test_a_partition_with_columns_in_another_order(of_frames):
    dd = pytest.importorskip("dask.dataframe")
    X, y = frame(seed=8)
    parts = [X[300 * i : 300 * (i + 1)] for i in range(3)]
    yd = dd.from_map(lambda i: y[300 * i : 300 * (i + 1)], range(3), meta=y[:0])

    def mean(middle):
        mixed = [parts[0], middle, parts[2]]
        there = dd.from_map(lambda i: mixed[i], range(3), meta=X[:0], enforce_metadata=False)
        return td.certify(of_frames, there, yd).bound("mean")

    assert mean(parts[1][["z", "size", "town", "x"]]) == mean(parts[1])
    with pytest.raises(ValueError, match="partition"):
        mean(parts[1].rename(columns={"z": "w"}))


# -- certify -----------------------------------------------------------------------------------------------


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
    options = {"max_error": {"a": 0.6, "b": 0.7, None: 0.9}}
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


def test_certify_bounds_limits_and_counts_deferred_rows_as_in_memory():
    X, y, groups, _ = table(4, n=600)
    mix = tb.RobustMixtureClassifier(
        [("tree", DecisionTreeClassifier(max_depth=3, random_state=0))],
        limits=[rates.deferred() <= 0.3, rates.error(by="group") <= 0.9],
        random_state=0,
    ).fit(X, y, groups=groups)
    X, y, groups, _ = table(5, n=500)
    Xd, yd, gd = blocks(3, X, y, groups)
    here, there = tb.certify(mix, X, y, groups=groups), td.certify(mix, Xd, yd, groups=gd)
    assert [b.to_dict() for b in there.bounds] == [b.to_dict() for b in here.bounds]
    assert there.certified is here.certified
    assert here.bounds[0].estimate is not None
    assert mix.defers(X).any()
    errors = tb.certify(mix, X, y, rates=()), td.certify(mix, Xd, yd, rates=())
    assert [b.to_dict() for b in errors[1].bounds] == [b.to_dict() for b in errors[0].bounds]


@pytest.mark.slow
def test_certify_knows_rows_that_were_fitted_on(model):
    X, y, _, _ = table(4, n=600)
    with pytest.raises(tb.LeakageError, match="trained"):
        td.certify(model, *blocks(5, X, y))


@pytest.fixture(scope="module")
def limited():
    """A group-aware rule that defers, with limits of both kinds."""
    X, y, groups, _ = table(4, n=600)
    mix = tb.RobustMixtureClassifier(
        [("tree", DecisionTreeClassifier(max_depth=3, random_state=0))],
        limits=[rates.deferred() <= 0.3, rates.error(by="group") <= 0.9],
        by_group=True,
        random_state=0,
    )
    return mix.fit(X, y, groups=groups)


TRAINING_ROWS = " training_rows= names the training rows, and compares these rows with them."


def same_certificate(there, here):
    """Bounds, numbers and notes agree; rows in partitions are compared with no other rows."""
    assert there.n_rows == here.n_rows
    for a, b in zip(there.bounds, here.bounds, strict=True):
        a, b = a.to_dict(), b.to_dict()
        numbers = [name for name, value in b.items() if isinstance(value, float)]
        assert [a.pop(name) for name in numbers] == pytest.approx([b.pop(name) for name in numbers], abs=1e-9)
        assert a == b
    assert there.notes[:-1] == tuple(note.removesuffix(TRAINING_ROWS) for note in here.notes)
    assert there.rows.kept.tolist() == here.rows.kept.tolist()


def test_certify_takes_probabilities_by_model():
    P, y, groups, _ = said(900)
    fresh = said(700, seed=2)
    names = list(P)
    yd, gd, *Pd = blocks(3, y, groups, *P.values())
    mix = td.from_probabilities(
        dict(zip(names, Pd, strict=True)), yd, groups=gd, limits=["selected(1) <= .5"]
    )
    Q, (u,) = dict(zip(names, blocks(2, *fresh[0].values()), strict=True)), blocks(2, fresh[1])
    here = tb.certify(mix, fresh[0], fresh[1], rates=["selected(1) <= .9"])
    same_certificate(td.certify(mix, Q, u, rates=["selected(1) <= .9"]), here)
    with pytest.raises(TypeError, match="ndarray"):
        td.certify(mix, fresh[0], u)


def test_certify_needs_labels(model):
    Xd, yd = blocks(3, *table(5, n=500)[:2])
    with pytest.raises(ValueError, match="needed"):
        td.certify(model, Xd, None)
    with pytest.raises(TypeError, match="ndarray"):
        td.certify(model, Xd, np.asarray(yd))


def test_certify_knows_calibration_rows_of_scores():
    pd, dd = pytest.importorskip("pandas"), pytest.importorskip("dask.dataframe")
    rng = np.random.default_rng(0)

    def scored(n):
        p = rng.random(n).round(2)  # so few values that fresh rows equal others by nature
        return pd.DataFrame({"p": p}), pd.Series((rng.random(n) < p).astype(int), name="y")

    rule = tb.tune(tb.Scores("p", 1), *scored(900), limits=[rates.miss(1) <= 0.4])
    X, y = scored(900)
    certified = tb.calibrate(rule, X, y, limits=[rates.miss(1) <= 0.45])
    Xd, yd = dd.from_pandas(X, npartitions=3), dd.from_pandas(y, npartitions=3)
    with pytest.raises(tb.LeakageError, match="calibration") as in_memory:
        tb.certify(certified, X, y, rates=["selected(1) <= .9"])
    with pytest.raises(tb.LeakageError) as on_dask:
        td.certify(certified, Xd, yd, rates=["selected(1) <= .9"])
    assert str(on_dask.value) == str(in_memory.value)


# -- mixtures ----------------------------------------------------------------------------------------------

ARRANGED = ((1, lambda *arrays: arrays), (7, shuffled))  # number of partitions, and order of the rows
MIXTURES = {
    "class": {"error_budget": 0.02},
    "targets": {"max_error": {0: 0.4, None: 0.3}},
    "group": {"objective": "worst_group"},
    "cell": {"objective": "worst_cell"},
    "by group": {"objective": "worst_group", "by_group": True},
    "limits": {"limits": [rates.miss(2) <= 0.3, rates.selected(0) <= 0.6]},
    "deferral": {"limits": [rates.deferred() <= 0.1], "objective": rates.largest(rates.error(by="class"))},
    "gap by group": {"limits": [rates.gap(rates.selected(0, by="group")) <= 0.05], "by_group": True},
    "drawn": {"limits": [rates.miss(2) <= 0.2, rates.miss(0) <= 0.3], "randomized": True},
    "tail": {"objective": "cvar", "alpha": 0.4},
}
IN_GROUPS = ("group", "cell", "by group", "gap by group")


def said(n=N, K=3, seed=20):
    """Probabilities of two models: ({name: probabilities}, y, groups, weights)."""
    rng = np.random.default_rng(seed)
    y = rng.choice(K, n, p=np.arange(K, 0, -1) / np.arange(K + 1).sum())
    groups = rng.choice(["a", "b", "c"], n, p=[0.6, 0.3, 0.1])
    signal = np.eye(K)[y] * np.where(groups == "b", 0.8, 2.0)[:, None]
    scores = [signal + rng.normal(size=(n, K)) * noise - np.arange(K) for noise in (1.0, 1.5)]
    P = [np.exp(s) / np.exp(s).sum(axis=1, keepdims=True) for s in scores]
    return dict(zip(("one", "two"), P, strict=True)), y, groups, rng.integers(0, 4, n).astype(float)


def mixtures(P, y, groups, w, *, grouped=False, **params):
    """Yield the rules selected on rows in partitions."""
    for parts, arranged in ARRANGED:
        *Ps, y_, w_, g_ = blocks(parts, *arranged(*P.values(), y, w, groups))
        told = {"groups": g_} if grouped else {}
        Pd = dict(zip(P, Ps, strict=True))
        yield td.from_probabilities(Pd, y_, sample_weight=w_, **told, **params)


@pytest.mark.parametrize("aim", MIXTURES)
@pytest.mark.thinned(1)
def test_a_rule_selected_on_partitions_is_that_of_one_machine(threads, aim):
    params, (P, y, groups, w) = MIXTURES[aim], said()
    told = {"groups": groups} if aim in IN_GROUPS else {}
    asked = told if params.get("by_group") else {}
    one = tb.RobustMixtureClassifier.from_probabilities(P, y, sample_weight=w, **told, **params)
    with threads.as_current():
        many = list(mixtures(P, y, groups, w, grouped=bool(told), **params))
    for other in many:
        assert other.n_threshold_rows_ == np.count_nonzero(w)
        assert other.limits_met_ == one.limits_met_
        answers = (other.predict(P, **asked), one.predict(P, **asked))
        if aim in (
            "group",
            "cell",
        ):  # the folds of the group model depend on the order of rows
            assert np.mean(answers[0] == answers[1]) > 0.9
            continue
        if aim == "gap by group":  # two wrong answers of a row tie: they have the same error and gap
            answers = [np.where((a == y) | (a == 0), a, -1) for a in answers]
        np.testing.assert_array_equal(*answers)
        for here, there in zip(other.rates_, one.rates_, strict=True):
            assert (here.rate, here.subgroup, here.limit) == (there.rate, there.subgroup, there.limit)
            assert (here.value, here.rows) == pytest.approx((there.value, there.rows), abs=1e-9, nan_ok=True)


@pytest.mark.thinned(2)
@pytest.mark.parametrize("aim", ["class", "limits", "deferral", "drawn", "gap by group"])
def test_confusion_counts_of_many_rows_are_exact(monkeypatch, aim):
    """Candidates come from a sample; the table of the selected rule counts all rows."""
    monkeypatch.setattr("tailboost.dask.robust_mixture.CANDIDATE_ROWS", 300)
    params, (P, y, groups, w) = MIXTURES[aim], said(4000)
    grouped = aim in IN_GROUPS
    for mix in mixtures(P, y, groups, w, grouped=grouped, **params):
        asked = {"groups": groups} if params.get("by_group") else {}
        assert mix.n_threshold_rows_ <= 300 < np.count_nonzero(w)
        assert mix.limits_met_
        shares = mix.predict_distribution(P, **asked)
        if aim == "deferral":
            deferred = mix.defers(P)
            share = np.average(deferred, weights=w)
            assert share <= 0.1
            assert next(line.value for line in mix.rates_ if line.limit) == pytest.approx(share)
            continue
        overall = np.average(1 - shares[np.arange(len(y)), y], weights=w)
        stated = [
            line.value for line in mix.rates_ if line.subgroup is None and line.rate.startswith("error")
        ]
        assert all(value == pytest.approx(overall, abs=1e-9) for value in stated)


def test_thresholds_from_a_sample_hold_for_all_rows():
    """With two classes each threshold is a candidate: brute force finds the best one."""
    rng = np.random.default_rng(21)
    y = (rng.random(80_000) < 0.01).astype(int)
    p = 1 / (1 + np.exp(-(rng.normal(size=len(y)) * 1.5 + 2.5 * y - 4)))
    fits = []
    for parts, arranged in ARRANGED:
        pd, yd = blocks(parts, *arranged(p, y))
        fits.append(td.from_probabilities({"p": pd}, yd))
    np.testing.assert_array_equal(*(fit.predict({"p": p}) for fit in fits))
    mix = fits[1]
    assert mix.n_threshold_rows_ == 2**16
    errors = np.array(list(tb.metrics.class_errors(y, mix.predict({"p": p})).values()))
    np.testing.assert_allclose([line.value for line in mix.rates_], errors, atol=1e-12)
    rare, common = np.sort(p[y == 1]), np.sort(p[y == 0])
    at = np.sort(p)
    worst = np.maximum(np.searchsorted(rare, at) / len(rare), 1 - np.searchsorted(common, at) / len(common))
    assert worst.min() <= errors.max() <= worst.min() + 0.01


@pytest.mark.slow
def test_a_mixture_is_an_ordinary_classifier_and_predicts_lazily(client, tmp_path):
    pd = pytest.importorskip("pandas")
    dd = pytest.importorskip("dask.dataframe")
    P, y, groups, _ = said()
    names = np.array(["low", "mid", "top"])
    table = pd.DataFrame(np.hstack(list(P.values()))).assign(y=names[y], site=groups, side="left")
    lazy = dd.from_pandas(table.rename(columns=str), npartitions=5)
    first, second = (dict(zip(columns, names, strict=True)) for columns in ("012", "345"))
    Pd = {"one": lazy[list(first)].rename(columns=first), "two": lazy[list(second)].rename(columns=second)}
    params = {"objective": "worst_group"}
    with client.as_current():
        mix = td.from_probabilities(Pd, lazy["y"], groups=lazy[["site", "side"]], **params)
        labels = td.predict(mix, Pd).compute()
        shares = td.predict_proba(mix, dict(zip(P, blocks(4, *P.values()), strict=True)))
        assert shares.shape == (N, 3)
        shares = shares.compute()
    told = table[["site", "side"]]
    one = tb.RobustMixtureClassifier.from_probabilities(P, names[y], groups=told, **params)
    assert [line.subgroup for line in mix.rates_] == [line.subgroup for line in one.rates_]
    assert type(mix) is tb.RobustMixtureClassifier
    np.testing.assert_array_equal(labels, mix.predict(P))
    np.testing.assert_array_equal(shares, mix.predict_proba(P))
    tb.save_model(mix, tmp_path / "m.model")
    again = tb.load_model(tmp_path / "m.model")
    np.testing.assert_array_equal(again.predict(P), labels)
    np.testing.assert_array_equal(
        again.reweight(error_budget=0.01).predict(P), mix.reweight(error_budget=0.01).predict(P)
    )


def test_what_a_mixture_in_partitions_cannot_do_is_refused_by_name():
    P, y, groups, w = said(300)
    one, yd, gd, wd = blocks(3, P["one"], y, groups, w)
    choose = td.from_probabilities
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
        (({"one": one}, yd), {"limits": [rates.cost() <= 0.5]}, "give costs= to tune or fit"),
        (({"one": one}, yd), {"alpha": 2.0}, "The 'alpha' parameter"),
    ):
        with pytest.raises((TypeError, ValueError), match=says):
            choose(*args, **params)
    mix = choose({"one": one}, yd, groups=gd, objective="worst_group", by_group=True)
    with pytest.raises(ValueError, match="groups"):
        td.predict(mix, {"one": one})
    with pytest.raises(ValueError, match="called"):
        td.predict(mix, {"other": one}, groups=gd)
    np.testing.assert_array_equal(
        td.predict(mix, {"one": one}, groups=gd).compute(),
        mix.predict({"one": P["one"]}, groups=groups),
    )


# -- a missing package -----------------------------------------------------------------------------------


def test_what_is_missing_is_named():
    code = "import sys; sys.modules['dask'] = None; import tailboost.dask"
    said = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False).stderr
    assert "pip install 'tailboost[dask]'" in said.splitlines()[-1]


@pytest.mark.slow
def test_partitions_without_rows(client):
    """After a filter the bounds use the remaining rows."""
    pandas, frames = pytest.importorskip("pandas"), pytest.importorskip("dask.dataframe")
    X, y, groups, _ = table(n=800)
    fitted = tb.AdaLPBoostClassifier(TREES, n_estimators=2, random_state=0).fit(X[:400], y[:400])
    frame = pandas.DataFrame(X[400:], columns=list("abcde")).assign(y=y[400:], g=groups[400:])
    frame = frame.sort_values("a", ignore_index=True)
    there = frames.from_pandas(frame, npartitions=4, sort=False)
    there, here = there[there["a"] > 0], frame[frame["a"] > 0]
    assert len(here) < 300  # a partition of 100 rows becomes empty
    columns = list("abcde")
    with client.as_current():
        found = td.certify(fitted, there[columns].values, there["y"].values, groups=there["g"].values)
    expected = tb.certify(fitted, here[columns].to_numpy(), here["y"], groups=here["g"])
    assert [(b.name, b.upper) for b in found.bounds] == [(b.name, b.upper) for b in expected.bounds]


def columns_of_groups(n, rng):
    """Return columns of groups whose types differ, among them integers beyond 2⁵³."""
    pandas = pytest.importorskip("pandas")
    return pandas.DataFrame(
        {
            "site": rng.choice([2**53, 2**53 + 1], n),
            "flag": rng.random(n) < 0.5,
            "dose": rng.choice([0.5, 1.5], n),
            "level": pandas.array(rng.integers(0, 3, n), dtype="Int64"),
            "sex": pandas.Categorical(rng.choice(["f", "m"], n)),
        }
    )


def test_certificates_of_columns_of_groups_are_those_of_one_machine():
    rng = np.random.default_rng(1)
    groups, scores = columns_of_groups(600, rng), rng.random(1200)
    y = (rng.random(1200) < scores).astype(int)
    rule = tb.RobustMixtureClassifier.from_probabilities(
        {"m": scores[600:]}, y[600:], limits=["miss(1) <= .3"]
    )
    X, z = scores[:600], y[:600]
    lazy = {"groups": pytest.importorskip("dask.dataframe").from_pandas(groups, chunksize=200, sort=False)}
    for name in groups:
        rate = [rates.error(by=name) <= 0.9]
        here = tb.certify(rule, {"m": X}, z, groups=groups, rates=rate)
        there = td.certify(
            rule, {"m": da.from_array(X, chunks=200)}, da.from_array(z, chunks=200), rates=rate, **lazy
        )
        of_both = [[(b.subgroup, type(b.subgroup), b.n, b.upper) for b in c.bounds] for c in (here, there)]
        assert of_both[0] == of_both[1]


@pytest.mark.parametrize("place", [0, 350])  # in any partition
def test_rows_with_a_missing_group_are_refused(place):
    rng = np.random.default_rng(2)
    groups, scores, y = columns_of_groups(400, rng), rng.random(400), rng.integers(2, size=400)
    groups["sex"] = groups["sex"].astype(object)
    groups.loc[place, "sex"] = None
    lazy = pytest.importorskip("dask.dataframe").from_pandas(groups, chunksize=100, sort=False)
    truth = da.from_array(y, chunks=100)
    rule = tb.RobustMixtureClassifier.from_probabilities({"m": rng.random(400)}, y, objective="error")
    with pytest.raises(ValueError, match="contains"):
        td.certify(
            rule, {"m": da.from_array(scores, chunks=100)}, truth, groups=lazy, rates=["error() <= .9"]
        )
