"""Tables in which each row is a copy: refused, and never by chance."""

import warnings
from math import factorial

import numpy as np
import pandas as pd
import pytest
from sklearn.linear_model import LogisticRegression

import tailboost as tb
from tailboost.rows import fingerprints
from tailboost.rows.fingerprints import hash_rows, times_copied

RNG = np.random.default_rng(0)
LABELS = RNG.integers(2, size=400)
SCORES = pd.DataFrame(
    {"p": np.where(RNG.random(400) < 0.8, LABELS, 1 - LABELS) * 0.5 + 0.5 * RNG.random(400)}
)
TEN = pd.concat([SCORES] * 10, ignore_index=True)
LABELS_OF_TEN = np.tile(LABELS, 10)
LIMITS = ["miss(1) <= 60%"]


def chance_of_even_counts(p, least, n):
    """Return the probability that at least so many contents occur, and each an even number of times."""
    ways = np.zeros((len(p) + 1, n + 1))  # by the number of contents and of rows, over n!
    ways[0, 0] = 1
    for probability in p:
        after = ways.copy()
        for k in range(2, n + 1, 2):
            after[1:, k:] += probability**k / factorial(k) * ways[:-1, : n + 1 - k]
        ways = after
    return factorial(n) * ways[least:, n].sum()


@pytest.mark.parametrize("n", [10, 20, 60, 120])
def test_the_bound_on_the_chance_of_a_copied_table_is_that_of_all_probabilities(n):
    """The docstring states 2^(1 - m), and rows of few contents come close to it."""
    rng = np.random.default_rng(n)
    for concentration in (0.2, 1, 50):
        for n_contents in (5, 6, 9):
            p = rng.dirichlet(np.full(n_contents, concentration))
            assert chance_of_even_counts(p, 5, n) <= 2.0**-4 * (1 + 1e-9)
    if n == 120:
        assert chance_of_even_counts(np.full(5, 0.2), 5, n) == pytest.approx(2.0**-4, rel=1e-3)


def test_no_fresh_table_of_few_different_scores_counts_as_copied(monkeypatch):
    rng = np.random.default_rng(1)
    found = {fewest: 0 for fewest in (6, fingerprints.FEWEST_COPIED)}
    for _ in range(10_000):
        contents = hash_rows(rng.integers(rng.integers(6, 30), size=(rng.integers(50, 400), 1)))
        for fewest in found:
            monkeypatch.setattr(fingerprints, "FEWEST_COPIED", fewest)
            found[fewest] += times_copied(contents) > 1
    assert found.pop(6) < 10_000 * 2**-5
    assert list(found.values()) == [0]


def refused(call, name):
    with pytest.raises(
        tb.LeakageError, match=f"^{name}: each row occurs 10 times.*state equal_rows='natural'"
    ):
        call()


def test_scores_copied_ten_times_are_refused_unless_equal_rows_are_natural():
    scores = tb.Scores("p", 1)
    groups = np.tile(LABELS[::-1], 10)
    refused(lambda: tb.calibrate(scores, TEN, LABELS_OF_TEN, limits=LIMITS), "X_cal")
    refused(lambda: tb.calibrate(scores, TEN, LABELS_OF_TEN, groups=groups, limits=LIMITS), "X_cal")
    assert tb.calibrate(
        scores, TEN, LABELS_OF_TEN, limits=LIMITS, equal_rows="natural"
    ).certificate_.certified
    with pytest.warns(tb.DependentRowsWarning, match="each row occurs 10 times"):
        rule = tb.tune(scores, TEN, LABELS_OF_TEN, limits=LIMITS)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        other = tb.tune(scores, 1 - SCORES[:200] ** 2, 1 - LABELS[:200], limits=LIMITS)
    refused(lambda: tb.certify(other, TEN, LABELS_OF_TEN, limits=LIMITS), "X")
    refused(lambda: tb.calibrate(other, TEN, LABELS_OF_TEN), "X_cal")
    refused(
        lambda: tb.certify(other, None, None, X_unlabeled=TEN, limits=["selected(1) <= 90%"]), "X_unlabeled"
    )
    monitor = tb.Monitor.against(other)
    for labels in (LABELS_OF_TEN, None):
        refused(lambda labels=labels: monitor.add(TEN, labels), "X")
    assert monitor.add(TEN, LABELS_OF_TEN, equal_rows="natural").batches[0].labelled == 4000
    assert monitor.add(SCORES, LABELS).batches[0].labelled == 400
    clusters = np.tile(np.arange(400), 10)  # copies of one person count once
    assert tb.certify(other, TEN, LABELS_OF_TEN, limits=LIMITS, clusters=clusters).n_rows == 4000
    assert rule.certificate_ is None


def test_rows_of_a_model_copied_ten_times_are_refused_unless_equal_rows_are_natural():
    model = LogisticRegression().fit(SCORES.to_numpy()[:100], LABELS[:100])
    X, y = np.tile(SCORES.to_numpy()[100:], (10, 1)), np.tile(LABELS[100:], 10)
    refused(lambda: tb.calibrate(model, X, y, limits=LIMITS), "X_cal")
    refused(lambda: tb.certify(model, X, y, limits=LIMITS), "X")
    refused(lambda: tb.Monitor.against(model, limits=LIMITS).add(X, y), "X")
    monitor = tb.Monitor.against(model, limits=LIMITS, equal_rows="natural")
    assert monitor.add(X, y).batches[0].labelled == 3000


def test_the_shell_refuses_a_copied_table(tmp_path, monkeypatch):
    testing = pytest.importorskip("typer.testing")
    from tailboost.app import cli

    monkeypatch.chdir(tmp_path)
    TEN.assign(label=LABELS_OF_TEN).to_csv("fresh.csv", index=False)
    command = ["calibrate", "fresh.csv", "--score", "p", "--positive", "1", "--target", "label"]
    command += ["--out", "rule.json", "--limit", LIMITS[0]]
    result = testing.CliRunner().invoke(cli.app, command)
    assert result.exit_code
    assert "each row occurs 10 times" in result.output
    assert "state --equal-rows natural" in " ".join(result.output.split())
    result = testing.CliRunner().invoke(cli.app, [*command, "--equal-rows", "natural"])
    assert result.exit_code == 0, result.output
