"""The trade-off experiment at toy size: measures, selection of points, dominance."""

import json
from types import SimpleNamespace

import numpy as np
import pytest
from sklearn.datasets import make_classification
from sklearn.linear_model import LogisticRegression

for module in ("pandas", "xgboost", "matplotlib"):
    pytest.importorskip(module)

from experiments import Settings, _tables, get_experiment, tradeoff
from experiments._opponents import (
    AVERAGES,
    FOR_GROUPS,
    OF_MIXTURE,
    Answers,
    opponents,
    single,
)
from experiments._tables import Data
from tailboost import metrics

pytestmark = pytest.mark.experiments


def toy(n_classes, n=240):
    X, y = make_classification(n, 6, n_informative=4, n_classes=n_classes, flip_y=0.2, random_state=n_classes)
    return Data(X, y.astype(np.intp), {"side": np.where(X[:, 0] > 0, "left", "right")})


class StandIn:
    """A curve of two thresholds, with a record of requested budgets."""

    asked: list[float] = []  # noqa: RUF012

    def __init__(self, bench, kind):
        self.kind, self.model = kind, LogisticRegression()

    def fit(self, X, y, groups=None):
        assert (groups is None) == (self.kind == "classes")
        self.model.fit(X, y)
        self.classes_ = self.model.classes_
        return self

    def tradeoff(self):
        return SimpleNamespace(values=(np.array([0.2, 0.3]), np.array([0.5, 0.4])), predicted=self.predicted)

    def predicted(self, X, y, groups=None):
        assert (groups is None) == (self.kind == "classes")
        return SimpleNamespace(limited=np.array([0.25, 0.3]), value=np.array([0.6, 0.5]))

    def reweight(self, error_budget):
        self.asked.append(error_budget)
        return self

    def predict(self, X):
        return self.model.predict(X)

    def predict_proba(self, X):
        return self.model.predict_proba(X)


def two_opponents(bench, only=()):
    """Constants: always class 0 and always class 1."""
    n, m = len(bench.rows.test.y), len(bench.rows.train.y)
    for k, title in enumerate(("always 0", "average, tuned")):
        yield title, Answers(np.full(n, k), np.full(m, k), 0.5)


@pytest.fixture
def toys(monkeypatch):
    monkeypatch.setattr(_tables, "LOADERS", {"two": lambda folder: toy(2), "three": lambda folder: toy(3)})
    monkeypatch.setattr(tradeoff, "SETS", ("two", "three"))
    monkeypatch.setattr(tradeoff, "GROUPS", {"two": ("side",)})
    monkeypatch.setattr(tradeoff, "OURS", {"Stand-in": StandIn})
    monkeypatch.setattr(tradeoff, "opponents", two_opponents)
    monkeypatch.setattr(StandIn, "asked", [])


def test_it_runs_resumes_and_reports(tmp_path, toys):
    told = []
    settings = Settings(tmp_path / "out", tmp_path, repeats=2, say=told.append)
    text = get_experiment("tradeoff").run(settings)
    assert len(told) == 2 * 2 + 2 * 3  # opponents of two sets, ours of three cases
    told.clear()
    assert get_experiment("tradeoff").run(settings) == text
    assert not told
    found = json.loads((settings.out / "tradeoff.json").read_text())
    assert set(found["cases"]) == {"two, classes", "two, cells", "three, classes"}
    assert [len(points) for points in found["cases"]["two, cells"].values()] == [3, 3]
    assert found["Stand-in, predict"]["all"][0] == 3 * 2
    assert (settings.out / "tradeoff.png").exists()
    # A record for each number of a page: each split, for two classes the error of each.
    points = found["points"]["two, classes"]
    assert len(points["always 0"]) == 2
    mean, worst, *of_classes = points["always 0"][0]
    assert of_classes == [0.0, 1.0]
    assert worst == 1.0
    assert 0.3 < mean < 0.7
    assert len(points["Stand-in, error_budget=0.02"][0]) == 4
    assert len(found["points"]["three, classes"]["always 0"][0]) == 2
    assert 0 <= found["twin"]["Stand-in"]["0.7"] <= found["twin"]["Stand-in"]["0.9"] <= 1


def three_opponents(bench, only=()):
    """Two constants, and a model with errors in every fourth row: for w = ½ better than a random guess."""
    yield from two_opponents(bench)
    parts = [
        np.where(np.arange(len(y)) % 4 == 0, (y + 1) % len(np.unique(y)), y)
        for y in (bench.rows.test.y, bench.rows.train.y)
    ]
    yield "informed", Answers(*parts, 0.5)


def test_the_regret_is_that_of_the_cells(tmp_path, toys, monkeypatch):
    """By hand: theirs take one model for every w, ours the one or the other of two points."""
    monkeypatch.setattr(tradeoff, "opponents", three_opponents)
    settings = Settings(tmp_path, tmp_path, repeats=1, say=str)
    get_experiment("tradeoff").run(settings)
    cells = [json.loads(line) for line in (tmp_path / "tradeoff-opponents.jsonl").read_text().splitlines()]
    theirs = next(c["values"]["classes"] for c in cells if c["key"]["set"] == "three")
    best = theirs["informed"]  # in both numbers
    # Ours: (.2, .5) and (.3, .4) out of fold, the second from w = ½ on; on test rows (.25, .6), (.3, .5).
    ours = 0.5 * (0.75 * 0.25 + 0.25 * 0.6) + 0.5 * (0.25 * 0.3 + 0.75 * 0.5)
    scale = 1 - 1 / 3 - np.mean(best["test"])
    less = (ours - np.mean(best["test"])) / scale
    found = json.loads((tmp_path / "tradeoff.json").read_text())["regret"]["Stand-in"]["all"]
    assert found["cases"]["three, classes"] == [pytest.approx(less, rel=1e-4), None]


def test_what_is_not_computed_is_named(tmp_path, toys):
    told = []
    settings = Settings(tmp_path, tmp_path, repeats=2, say=told.append, only=("two",), seed=1)
    text = get_experiment("tradeoff").run(settings)
    assert len(told) == 1 + 2  # the opponents, and ours for classes and cells
    assert "Splits, 1 of each: two, classes; two, cells. Not computed:" in text
    assert "Not computed: two (seed 0); three (seed 0, 1)." in text
    with pytest.raises(ValueError, match="--only: no set 'four' here; there are two, three"):
        get_experiment("tradeoff").run(Settings(tmp_path, tmp_path, only=("four",)))
    with pytest.raises(ValueError, match="nothing to read"):
        get_experiment("tradeoff").run(Settings(tmp_path / "new", tmp_path, only=("two",), seed=5))


def test_opponents_alone_are_not_computed_again(tmp_path, toys):
    told = []
    settings = Settings(tmp_path, tmp_path, repeats=1, say=told.append)
    tradeoff.opponents_alone(settings)
    assert len(told) == 2
    get_experiment("tradeoff").run(settings)
    assert len(told) == 2 + 3


def test_the_point_is_that_of_the_out_of_fold_mean():
    bench = tradeoff.bench_of(toy(2), 0, 1)
    theirs = {str(mean): {"out of fold": [mean, 1.0]} for mean in (0.05, 0.2, 0.26, 0.3, 0.9)}
    StandIn.asked = []
    found = tradeoff.of_ours(bench, "classes", StandIn, theirs)
    # Points of the curve, each once; then requested points.
    assert StandIn.asked == pytest.approx([0.0, 0.06, 0.1, 0.02, 0.05, 1.0])
    assert found["asked"]["error_budget=0.02"]["out of fold"] == pytest.approx([0.22, 0.48])
    assert found["asked"]["no budget"]["out of fold"] == pytest.approx([0.3, 0.4])
    assert found["curve"] == {"out of fold": [[0.2, 0.5], [0.3, 0.4]], "test": [[0.25, 0.6], [0.3, 0.5]]}
    assert found["sizes"] == np.bincount(bench.rows.test.y).tolist()
    assert found["points"]["0.26"]["out of fold"] == pytest.approx([0.26, 0.44])
    assert found["points"]["0.9"] == found["points"]["0.3"]
    model = LogisticRegression().fit(bench.rows.train.X, bench.rows.train.y)
    y, X = bench.rows.test.y, bench.rows.test.X
    by_class = list(metrics.class_errors(y, model.predict(X)).values())
    assert found["points"]["0.2"]["units"] == pytest.approx(by_class, abs=1e-5)
    worst = max(by_class)
    assert found["points"]["0.2"]["predict"] == pytest.approx(
        [np.mean(model.predict(X) != y), worst], abs=1e-5
    )
    worst = max(metrics.class_errors(y, model.predict_proba(X)).values())
    expected = metrics.cvar_zero_one_loss(y, model.predict_proba(X), 1.0)
    assert found["points"]["0.2"]["randomised"] == pytest.approx([expected, worst], abs=1e-5)


def test_mean_and_worst_are_those_of_the_metrics():
    rng = np.random.default_rng(0)
    y, answers, groups = rng.integers(0, 3, 200), rng.integers(0, 3, 200), rng.choice(["a", "b"], 200)
    wrong = answers != y
    worst = max(metrics.class_errors(y, answers).values())
    assert tradeoff.mean_and_worst(y, None, wrong) == pytest.approx([wrong.mean(), worst], abs=1e-5)
    cells = [f"{k} {g}" for k, g in zip(y, groups, strict=True)]
    worst = max(metrics.group_errors(y, answers, cells).values())
    assert tradeoff.mean_and_worst(y, groups, wrong) == pytest.approx([wrong.mean(), worst], abs=1e-5)


@pytest.mark.parametrize(
    ("ours", "verdict"),
    [
        ([0.2, 0.5], "equal"),
        ([0.204, 0.504], "equal"),
        ([0.2, 0.4], "better"),
        ([0.204, 0.4], "better"),  # within the tolerance
        ([0.21, 0.4], "elsewhere"),
        ([0.1, 0.6], "elsewhere"),
        ([0.21, 0.5], "worse"),
        ([0.3, 0.6], "worse"),
    ],
)
def test_verdicts(ours, verdict):
    pair = tradeoff.Pair(
        "case", "opponent", np.array([0.2, 0.5]), {"predict": np.array(ours)}, np.array([0.1, 0.5]), [[9, 9]]
    )
    assert pair.verdict("predict") == verdict


def test_those_for_groups_do_not_stand_beside_classes():
    points = {"XGBoost": 1, "XGBoost, cell weights": 2, "ExponentiatedGradient": 3}
    assert tradeoff.against(points, "classes") == {"XGBoost": 1}
    assert tradeoff.against(points, "cells") == points


@pytest.mark.slow
def test_opponents_answer_class_numbers_in_and_out_of_fold():
    for module in ("catboost", "fairlearn", "imblearn", "lightgbm"):
        pytest.importorskip(module)
    data = toy(2)
    bench = tradeoff.bench_of(Data(data.X, data.y, {"joint": data.groups["side"]}), 0, 1)
    titles = []
    for title, answers in opponents(bench):
        titles.append(title)
        assert answers.test.shape == bench.rows.test.y.shape
        assert answers.out_of_fold.shape == bench.rows.train.y.shape
        assert set(np.unique([*answers.test, *answers.out_of_fold])) <= {0, 1}
        assert np.mean(answers.out_of_fold != bench.rows.train.y) < 0.6
    assert {*AVERAGES, *OF_MIXTURE, *FOR_GROUPS} <= {*titles}
    # All methods have the same thresholds.
    models = [title for title in titles if not tradeoff.is_tuned(title) and title not in FOR_GROUPS]
    assert len(models) == len(single(bench)) + len(AVERAGES)
    assert {f"{title}, tuned" for title in models} <= {*titles}


def test_the_average_of_our_models_is_of_those_in_our_pool():
    pytest.importorskip("lightgbm")
    bench = tradeoff.bench_of(toy(2), 0, 1)
    for module in ("catboost", "imblearn"):
        pytest.importorskip(module)
    pool = dict(tradeoff.robust_mixture(bench, "classes").estimators)
    makers = single(bench)
    assert len(OF_MIXTURE) == len(pool)
    names = {"XGBoost": "xgb", "LightGBM": "lightgbm"}
    for title, name in OF_MIXTURE.items():
        theirs, ours = makers[title](), pool[names.get(title, name)]
        params = {k: v for k, v in ours.get_params().items() if k not in ("random_state", "n_jobs")}
        assert type(theirs) is type(ours)
        assert str(params) == str({k: theirs.get_params()[k] for k in params})


def test_equal_rows_are_in_one_fold():
    data = toy(2)
    twice = np.repeat(np.arange(len(data.y)), 2)
    bench = tradeoff.bench_of(data.rows(twice), 0, 1)
    for inside, outside in bench.folds:
        rows = {tuple(x) for x in bench.rows.train.X[inside]}
        assert rows.isdisjoint(tuple(x) for x in bench.rows.train.X[outside])
    assert sorted(np.concatenate([o for _, o in bench.folds])) == list(range(len(bench.rows.train.y)))
