"""Remarks of papers without an experiment: the games and counts by plain loops, and short runs."""

import json

import numpy as np
import pytest

for module in ("typer", "rich", "pandas", "jinja2", "matplotlib"):
    pytest.importorskip(module)

from experiments import variance_figures as figures
from experiments import zhai_claims as claims
from experiments._experiment import Settings
from experiments._tables import Data
from tailboost.learners import HistTreeClassifier

pytestmark = pytest.mark.experiments


def rows(seed, n=160, K=3):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 4))
    y = (X[:, :K] + rng.gumbel(size=(n, K))).argmax(axis=1)
    return claims.Rows(X, y, (y * 2 + (X[:, 3] > 0)).astype(np.int64))


@pytest.mark.parametrize("eta", [0.5, None])
def test_weights_of_errors(eta, monkeypatch):
    """A constant step multiplies the weights of errors by e^η; AdaBoost's gives them half of all weight."""
    seen = []

    class Noting(HistTreeClassifier):
        def fit(self, X, y, sample_weight):
            seen.append(sample_weight / sample_weight.sum())
            return super().fit(X, y, sample_weight=sample_weight)

    monkeypatch.setattr(claims, "_tree", lambda: Noting(max_depth=2))
    sample = rows(0)
    members = claims.hedge(sample, eta, 4)
    for before, after, member in zip(seen[:-1], seen[1:], members[:-1], strict=True):
        wrong = member.predict(sample.X) != sample.y
        error = before[wrong].sum()
        if eta is not None:
            ratio = after / before
            assert ratio[wrong].mean() / ratio[~wrong].mean() == pytest.approx(np.exp(eta))
        elif error < 0.5:
            assert after[wrong].sum() == pytest.approx(0.5)
        else:
            np.testing.assert_allclose(after, 1 / len(after))


def test_parts_have_no_row_in_common_and_errors_are_those_of_groups():
    parts = claims.Parts.of(rows(1), 0)
    known = {row.tobytes() for row in parts.fit.X}
    assert not known & {row.tobytes() for part in (parts.held, parts.test) for row in part.X}
    shares = np.random.default_rng(0).dirichlet(np.ones(3), len(parts.test.y))
    loss = 1 - shares[np.arange(len(parts.test.y)), parts.test.y]
    worst = max(loss[parts.test.group == g].mean() for g in np.unique(parts.test.group))
    found = claims._of_groups(shares, parts.test)
    assert found["worst"] == pytest.approx(worst, abs=1e-5)
    assert found["all"] == pytest.approx(loss.mean(), abs=1e-5)


@pytest.mark.filterwarnings("ignore")
def test_a_short_run_of_the_claims(tmp_path, monkeypatch):
    monkeypatch.setattr(claims, "_load", lambda: {"made": rows(2, n=400)})
    monkeypatch.setattr(claims, "ROUNDS", 3)
    monkeypatch.setattr(claims, "LABELLED", (30,))
    report = claims.play(Settings(tmp_path, repeats=2, say=lambda line: None), "zhai-claims")
    assert set(report.summary) >= {"group DRO", "few labels", "steps"}
    for rule in report.summary["group DRO"]["made"].values():
        assert 0 <= rule["all"] <= rule["worst"] <= 100
    assert "AdaBoost's η_t less η = 1" in report.text


def test_rounds_that_are_needed():
    assert figures.needed([0.0, -1.0, -2.0], -1.5) == 3
    assert figures.needed([0.0, -1.0], -1.0) == 2
    assert figures.needed([0.0, -1.0], -3.0) is None


def test_a_short_run_of_the_figures():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(200, 3))
    cell = figures._cell(Data(X, (X[:, 0] + rng.normal(size=200) > 0).astype(np.intp)), 6)
    for costs in cell["log costs"].values():
        assert len(costs) == 6
        assert (np.diff(costs) < 0).all()
    # At equal λ the exact step of the best stump is no worse than a step along the bound.
    assert cell["log costs"][figures.EB][0] <= cell["log costs"][figures.VADA][0] + 1e-12
    for of in cell["bounds"].values():
        assert (np.array(of["V"]) <= np.array(of["U"]) + 1e-6).all()
    json.dumps(cell)
