"""Records of calibration attempts: in the model, its file, and by rows with groups and clusters."""

import copy

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression

import tailboost as tb
from tailboost import rates
from tailboost.guarantees.attempts import call_key, read_attempts, same_rows, write_attempts
from tailboost.guarantees.fresh_rows import fresh_rows

LIMIT = [rates.error(by="group") <= 0.26]


@pytest.fixture(scope="module")
def tuned():
    r = np.random.default_rng(0)
    X, groups = r.normal(size=(1400, 4)), r.choice(["a", "b"], 1400)
    y = (X[:, 0] + r.normal(size=1400) > 0.3).astype(int)
    model = LogisticRegression().fit(X[:400], y[:400])
    limits = [rates.error(by="group") <= 0.4]
    mix = tb.tune(model, X[400:1000], y[400:1000], groups=groups[400:1000], limits=limits)
    return mix, X[1000:], y[1000:], groups[1000:]


def test_a_call_is_named_by_rows_with_their_labels_groups_and_clusters(tuned):
    mix, X, y, groups = tuned
    X, y, groups = X[:40], y[:40], groups[:40]
    of = np.repeat(np.arange(10), 4)

    def key(rows=slice(None), y=y, groups=groups, clusters=of, asked="asked"):
        judged = fresh_rows(mix, X[rows], y[rows], groups[rows], [LIMIT[0].rate], (), clusters=clusters[rows])
        return call_key(mix, judged, asked)

    first = key()
    mixed = np.random.default_rng(1).permutation(40)
    assert key(mixed) == first  # the order of rows does not matter
    assert key(clusters=9 - of) == first  # nor the names of clusters
    swapped = y.copy()
    i, j = np.flatnonzero(y == 0)[0], np.flatnonzero(y == 1)[0]
    swapped[[i, j]] = y[[j, i]]  # as many of each label
    others = [
        key(y=swapped),
        key(groups=groups[mixed]),
        key(clusters=np.r_[of[1:], of[0]]),  # clusters of the same sizes
        key(asked="other"),
    ]
    assert len({first, *others}) == 5
    assert [same_rows(first, other) for other in others] == [False, True, True, True]


def test_rows_of_a_failed_attempt_are_refused_with_other_groups(tuned, tmp_path):
    mix, X, y, groups = copy.deepcopy(tuned[0]), *tuned[1:]
    with pytest.raises(tb.NotCertifiedError, match="save_model stores them") as failed:
        tb.calibrate(mix, X, y, groups=groups, limits=LIMIT)
    assert failed.value.reason.endswith(".")
    assert "previous=" not in failed.value.reason
    tb.save_model(mix, tmp_path / "m.model")
    permuted = np.random.default_rng(0).permutation(groups)
    for model in (mix, tb.load_model(tmp_path / "m.model"), copy.deepcopy(mix), mix.reweight()):
        for of, limits in ((permuted, LIMIT), (groups, [rates.error(by="group") <= 0.6])):
            for how in ("copies", "natural"):
                with pytest.raises(tb.LeakageError, match="an earlier attempt had these rows"):
                    tb.calibrate(model, X, y, groups=of, limits=limits, equal_rows=how)
    with pytest.raises(tb.NotCertifiedError):  # the same call gives the same result
        tb.calibrate(mix, X, y, groups=groups, limits=LIMIT)


def test_attempts_are_written_and_read(tuned, tmp_path):
    mix, X, y, groups = copy.deepcopy(tuned[0]), *tuned[1:]
    with pytest.raises(tb.NotCertifiedError):
        tb.calibrate(mix, X, y, groups=groups, limits=LIMIT)
    path = tmp_path / "m.attempts.json"
    assert read_attempts(path, mix) == {}
    ((key, sketch),) = mix.calibration_attempts_.items()
    write_attempts(path, {key: ("calibrate", sketch)})
    ((again, (command, found)),) = read_attempts(path, mix).items()
    assert (again, command, found.limit, found.complete) == (key, "calibrate", sketch.limit, sketch.complete)
    assert found.kept.tolist() == sketch.kept.tolist()
    other = LogisticRegression().fit(X, y)
    fresh = np.random.default_rng(3).normal(size=(100, 4))
    other = tb.tune(other, fresh, np.arange(100) % 2, limits=[rates.error() <= 0.9])
    assert read_attempts(path, other) == {}  # of another fit
    path.write_text('{"format": "tailboost attempts 1", "attempts": [{"key": 1}]}')
    with pytest.raises(ValueError, match="no file of attempts"):
        read_attempts(path, mix)
