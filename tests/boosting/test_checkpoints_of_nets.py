"""Checkpoints of fits with nets: kills, a full disk, other nets."""

import errno
import os
import signal
import stat
import subprocess
import sys
import textwrap
import time
from pathlib import Path

import numpy as np
import pytest
from conftest import noisy

pytest.importorskip("torch")
pytest.importorskip("safetensors")

import tailboost as tb
from tailboost.learners.torch import TorchClassifier, nets
from tailboost.learners.torch.net_data import RowPreparation

SCHEMES = {
    "ada": (tb.AdaLPBoostClassifier, {"cv": "train", "n_iter_no_change": None}),
    "ada, folds": (tb.AdaLPBoostClassifier, {"cv": 5, "n_iter_no_change": None}),
    "group": (tb.GroupDROBoostClassifier, {"cv": 0.3}),
    "additive": (tb.AdaBoostClassifier, {}),
    "classes": (tb.WorstClassBoostClassifier, {"cv": 0.3, "class_loss": "indicator", "gamma": 0.01}),
}
X, Y = noisy(3, n=200, d=4, K=3)
X = X.astype(np.float32)


def learner(**params):
    given = {"steps": 15, "warmup_steps": 10, "batch_size": 16, "learning_rate": 0.05, "device": "cpu"}
    return TorchClassifier(nets.mlp_100_100, **(given | params))


def classifier(scheme, folder=None, rounds=5, **params):
    cls, given = SCHEMES[scheme]
    return cls(
        learner(**params), n_estimators=rounds, random_state=7, checkpoint_dir=folder,
        **given,
    )  # fmt: skip


def nets_of(clf):
    return [m.weights for m in clf.estimators_ if hasattr(m, "weights")]


def same(a, b):
    assert nets_of(a) == nets_of(b)
    assert len(nets_of(a)) >= 3
    np.testing.assert_array_equal(a.estimator_weights_, b.estimator_weights_)
    np.testing.assert_array_equal(a.predict_proba(X), b.predict_proba(X))
    for column in ("weighted_loss", "effective_size", "value", "gap"):
        np.testing.assert_array_equal(getattr(a.trace_, column), getattr(b.trace_, column))


KILLED = """
    import sys
    sys.path[:0] = {tests!r}
    import test_checkpoints_of_nets as here
    from tailboost.learners.torch import training

    advance, done = training.Training.advance, 0

    def slow(self, n_steps):  # the parent kills the process in the middle of a training
        global done
        half = n_steps // 2
        advance(self, half)
        done += 1
        print(done, flush=True)
        if done == {at}:
            sys.stdin.read()
        advance(self, n_steps - half)

    training.Training.advance = slow
    here.classifier({scheme!r}, {folder!r}).fit(here.X, here.Y)
"""


def kill_in_training(scheme, folder, at):
    """Run the fit in another process and kill it in the middle of a training."""
    here = [str(Path(__file__).parents[i]) for i in (0, 1)]
    code = textwrap.dedent(KILLED.format(tests=here, scheme=scheme, folder=str(folder), at=at))
    with subprocess.Popen(
        [sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        for line in process.stdout:
            if int(line) == at:
                time.sleep(0.05)
                process.send_signal(signal.SIGKILL)
                break
        assert process.wait() == -signal.SIGKILL


@pytest.mark.slow
@pytest.mark.parametrize(
    "scheme", ["ada, folds", *(pytest.param(s, marks=pytest.mark.slow) for s in ("ada", "group", "additive"))]
)
def test_killed_twice_and_resumed_is_the_unbroken_fit(scheme, tmp_path):
    whole = classifier(scheme).fit(X, Y)
    fits = {"ada, folds": 6, "group": 2}.get(scheme, 1)  # trainings of a round
    before = fits * (1 + (scheme == "group"))  # warm-ups, and plain ERM, in each process
    kill_in_training(scheme, tmp_path, before + fits + 1)
    first = set(tmp_path.glob("candidate-*"))
    assert len(first) == 1
    kill_in_training(scheme, tmp_path, before + 2 * fits)
    assert first < set(tmp_path.glob("candidate-*"))
    resumed = classifier(scheme, tmp_path).fit(X, Y)
    same(whole, resumed)
    assert not list(tmp_path.glob("*.part"))


def test_a_disk_that_is_full(tmp_path, monkeypatch):
    real, left = os.fsync, [1]  # one round

    def fsync(handle):
        left[0] -= stat.S_ISREG(os.fstat(handle).st_mode)
        if left[0] < 0:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        real(handle)

    monkeypatch.setattr(os, "fsync", fsync)
    with pytest.raises(
        OSError, match=r"cannot be written \(No space left on device\); the files .* good"
    ) as caught:
        classifier("ada", tmp_path).fit(X, Y)
    assert caught.value.errno == errno.ENOSPC
    monkeypatch.undo()
    assert not list(tmp_path.glob("*.part"))
    assert len(list(tmp_path.glob("candidate-*"))) == 1
    same(classifier("ada").fit(X, Y), classifier("ada", tmp_path).fit(X, Y))


def test_rows_are_prepared_once_for_all_members_also_after_a_resume(tmp_path, monkeypatch):
    classifier("ada", tmp_path, rounds=4).fit(X, Y)
    resumed = classifier("ada", tmp_path).fit(X, Y)
    resumed.estimator_weights_[:5] = 2.0 ** np.arange(5) / 31  # no ties, which look again
    resumed.estimator_weights_[5:] = 0
    prepared, transform = [], RowPreparation.transform
    monkeypatch.setattr(
        RowPreparation, "transform", lambda feed, X: prepared.append(feed) or transform(feed, X)
    )
    resumed.predict(X)
    assert len(prepared) == 1


def test_a_folder_that_was_moved(tmp_path):
    classifier("ada", tmp_path / "before", rounds=3).fit(X, Y)
    (tmp_path / "before").rename(tmp_path / "after")
    resumed = classifier("ada", tmp_path / "after").fit(X, Y)
    same(classifier("ada").fit(X, Y), resumed)


def test_another_net_is_another_fit(tmp_path):
    def kept():
        return len(list(tmp_path.glob("candidate-*")))

    classifier("ada", tmp_path, rounds=2).fit(X, Y)
    assert kept() == 2
    classifier("ada", tmp_path, rounds=2, learning_rate=0.01).fit(X, Y)
    assert kept() == 4
    fixed = [nets.mlp_100_100((4,), 3) for _ in range(2)]  # the same layers, other weights
    for number, net in enumerate(fixed, 1):
        clf = classifier("ada", tmp_path, rounds=2)
        clf.estimator.set_params(module=net)
        clf.fit(X, Y)
        assert kept() == 4 + 2 * number


def test_what_cannot_be_pickled_is_refused_at_once(tmp_path):
    clf = classifier("ada", tmp_path / "new")
    clf.estimator.set_params(module=lambda shape, K: nets.mlp(shape, K))
    with pytest.raises(
        ValueError, match="checkpoint_dir needs parameters that can be pickled; estimator__module cannot"
    ):
        clf.fit(X, Y)
    assert not (tmp_path / "new").exists() or not list((tmp_path / "new").glob("candidate-*"))
