"""A fit of nets that is killed, or whose files are spoilt: what it resumes to, and what it says."""

import errno
import os
import pickle
import shutil
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
from tailboost.learners.torch.net_data import Feed
from tailboost.learners.torch.net_learner import TorchSession
from tailboost.storage import load_model, save_model

SCHEMES = {
    "ada": (tb.AdaLPBoostClassifier, {"validation": "train", "n_iter_no_change": None}),
    "ada, folds": (tb.AdaLPBoostClassifier, {"validation": "cv", "n_iter_no_change": None}),
    "group": (tb.GroupDROBoostClassifier, {"validation": 0.3}),
    "additive": (tb.AdaBoostClassifier, {}),
    "classes": (tb.WorstClassBoostClassifier, {"validation": 0.3, "class_loss": "indicator", "gamma": 0.01}),
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
    return [m.digest for m in clf.estimators_ if hasattr(m, "digest")]


def same(a, b):
    assert nets_of(a) == nets_of(b)
    assert len(nets_of(a)) >= 3
    np.testing.assert_array_equal(a.estimator_weights_, b.estimator_weights_)
    np.testing.assert_array_equal(a.predict_proba(X), b.predict_proba(X))
    for column in ("weighted_loss", "effective_size", "value", "gap"):
        np.testing.assert_array_equal(getattr(a.trace_, column), getattr(b.trace_, column))


KILLED = """
    import sys
    sys.path[:0] = [{tests!r}, {tests!r} + "/.."]
    import test_torch_checkpoints as here
    from tailboost.learners.torch import _training

    advance, done = _training.Training.advance, 0

    def slow(self, n_steps):  # the parent is told in the middle of every training, and kills in one
        global done
        half = n_steps // 2
        advance(self, half)
        done += 1
        print(done, flush=True)
        if done == {at}:
            sys.stdin.read()
        advance(self, n_steps - half)

    _training.Training.advance = slow
    here.classifier({scheme!r}, {folder!r}).fit(here.X, here.Y)
"""


def kill_in_training(scheme, folder, at):
    """Run the fit in another process and kill it, without warning, in the middle of a training."""
    here = str(Path(__file__).parent)
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


@pytest.mark.parametrize(
    "scheme", ["ada, folds", *(pytest.param(s, marks=pytest.mark.slow) for s in ("ada", "group", "additive"))]
)
def test_killed_twice_and_resumed_is_the_unbroken_fit(scheme, tmp_path):
    whole = classifier(scheme).fit(X, Y)
    fits = {"ada, folds": 6, "group": 2}.get(scheme, 1)  # trainings of a round
    warm = fits * (1 + (scheme == "group"))  # the warm-ups, and plain ERM, in the first process alone
    kill_in_training(scheme, tmp_path, warm + fits + 1)
    first = sorted(f.name for f in tmp_path.glob("round-*"))
    assert "round-00001.pkl" in first
    assert "round-00002.pkl" not in first
    kill_in_training(scheme, tmp_path, 2 * fits)
    second = sorted(f.name for f in tmp_path.glob("round-*"))
    assert set(first) < set(second)
    resumed = classifier(scheme, tmp_path).fit(X, Y)
    same(whole, resumed)
    assert not list(tmp_path.glob("*.part"))


@pytest.mark.filterwarnings("ignore:.*(target|bound|condition)")
@pytest.mark.parametrize("scheme", ["group", "classes"])
def test_what_came_before_round_1_is_kept(scheme, tmp_path, monkeypatch):
    """Plain ERM, and the stages by which θ is chosen: asked once, and told again at every resume."""
    params = {"growth": 5}
    whole = classifier(scheme, **params).fit(X, Y)
    stopped = classifier(scheme, tmp_path, **params).set_params(max_time=1e-9)
    with pytest.warns(tb.FitInterruptedWarning, match="time limit"):
        stopped.fit(X, Y)
    assert stopped.n_iter_ == 1
    resumed = classifier(scheme, tmp_path, **params).fit(X, Y)
    same(whole, resumed)
    np.testing.assert_array_equal(getattr(whole, "max_error_", 0), getattr(resumed, "max_error_", 0))
    monkeypatch.setattr("tailboost.learners.torch.training.Training.advance", None)
    same(whole, classifier(scheme, tmp_path, **params).fit(X, Y))


@pytest.mark.slow
def test_killed_in_the_warm_up_and_while_writing(tmp_path):
    kill_in_training("ada", tmp_path, 1)
    assert not list(tmp_path.glob("round-*"))
    (tmp_path / "round-00001.pkl.123.part").write_bytes(b"half a round")
    same(classifier("ada").fit(X, Y), classifier("ada", tmp_path).fit(X, Y))


def test_the_warm_model_is_kept(tmp_path, monkeypatch):
    classifier("ada", tmp_path, rounds=2).fit(X, Y)
    assert len(list(tmp_path.glob("start-*"))) == 1
    monkeypatch.setattr(TorchSession, "warm_up", None)
    resumed = classifier("ada", tmp_path, rounds=4).fit(X, Y)
    monkeypatch.undo()
    same(resumed, classifier("ada", rounds=4).fit(X, Y))
    start = next(tmp_path.glob("start-*"))
    whole = start.read_bytes()
    start.write_bytes(whole[: len(whole) // 2])
    with pytest.raises(ValueError, match=rf"warmed-up model .*{start.name}.* is damaged .*delete it"):
        classifier("ada", tmp_path, rounds=5).fit(X, Y)
    start.unlink()
    same(classifier("ada", tmp_path).fit(X, Y), classifier("ada").fit(X, Y))


def test_a_warm_model_under_another_name(tmp_path):
    """That of one fold copied over that of another is whole in itself, but has seen the held-out rows."""
    classifier("ada, folds", tmp_path, rounds=1).fit(X, Y)
    starts = sorted(tmp_path.glob("start-*"))
    assert len(starts) == 6
    shutil.copy(starts[0], starts[1])
    with pytest.raises(
        ValueError, match=rf"warmed-up model .*{starts[1].name}.* is damaged .*under this name"
    ):
        classifier("ada, folds", tmp_path, rounds=2).fit(X, Y)


def test_a_disk_that_is_full(tmp_path, monkeypatch):
    real, left = os.fsync, [4]  # the warm model, a member and its round, a member

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
    assert [f.name for f in tmp_path.glob("round-*")] == ["round-00001.pkl"]
    same(classifier("ada").fit(X, Y), classifier("ada", tmp_path).fit(X, Y))


@pytest.mark.slow
def test_a_file_that_outgrows_its_limit(tmp_path):
    """The system itself refuses the write, as a full disk does."""
    code = f"""
        import resource, signal, sys
        sys.path[:0] = [{str(Path(__file__).parent)!r}, {str(Path(__file__).parents[1])!r}]
        import test_torch_checkpoints as here
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (60_000, 60_000))
        here.classifier("ada", {str(tmp_path)!r}, warmup_steps=0).fit(here.X, here.Y)
    """
    done = subprocess.run([sys.executable, "-c", textwrap.dedent(code)], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    shutil.rmtree(tmp_path)
    code = code.replace("60_000", "20_000")
    done = subprocess.run([sys.executable, "-c", textwrap.dedent(code)], capture_output=True, text=True)
    assert "the newest member cannot be written (File too large)" in done.stderr
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("spoil", ["cut", "bit", "empty", "member", "member gone"])
def test_a_damaged_checkpoint(spoil, tmp_path):
    whole = classifier("ada", tmp_path).fit(X, Y)
    member = Path(whole.estimators_[2].path)
    file = tmp_path / "round-00003.pkl"
    hit = member if spoil.startswith("member") else file
    content = bytearray(hit.read_bytes())
    content[len(content) // 2] ^= 1
    hit.write_bytes({"cut": content[:100], "empty": b""}.get(spoil, content))
    if spoil == "member gone":
        member.unlink()
    good = {f: f.read_bytes() for f in tmp_path.iterdir() if f != hit}
    with pytest.raises(ValueError, match=r"round-00003.pkl' is damaged .*delete it to resume before it"):
        classifier("ada", tmp_path).fit(X, Y)
    assert all(f.read_bytes() == before for f, before in good.items())
    file.unlink()
    same(whole, classifier("ada", tmp_path).fit(X, Y))


def test_rows_are_prepared_once_for_all_members_also_after_a_resume(tmp_path, monkeypatch):
    classifier("ada", tmp_path, rounds=4).fit(X, Y)
    resumed = classifier("ada", tmp_path).fit(X, Y)
    resumed.estimator_weights_[:5] = 2.0 ** np.arange(5) / 31  # no ties, which look again
    resumed.estimator_weights_[5:] = 0
    prepared, transform = [], Feed.transform
    monkeypatch.setattr(Feed, "transform", lambda feed, X: prepared.append(feed) or transform(feed, X))
    resumed.predict(X)
    assert len(prepared) == 1


def test_a_folder_that_was_moved(tmp_path):
    classifier("ada", tmp_path / "before", rounds=3).fit(X, Y)
    (tmp_path / "before").rename(tmp_path / "after")
    resumed = classifier("ada", tmp_path / "after").fit(X, Y)
    same(classifier("ada").fit(X, Y), resumed)


def test_another_net_is_another_fit(tmp_path):
    classifier("ada", tmp_path, rounds=2).fit(X, Y)
    with pytest.raises(ValueError, match="other data, parameters or random_state"):
        classifier("ada", tmp_path, learning_rate=0.01).fit(X, Y)
    fixed = [nets.mlp_100_100((4,), 3) for _ in range(2)]  # the same layers, other weights
    for net, folder in ((fixed[0], "a"), (fixed[1], "a")):
        clf = classifier("ada", tmp_path / folder, rounds=2)
        clf.estimator.set_params(module=net)
        if net is fixed[0]:
            clf.fit(X, Y)
        else:
            with pytest.raises(ValueError, match="other data, parameters"):
                clf.fit(X, Y)


def test_what_cannot_be_pickled_is_refused_at_once(tmp_path):
    clf = classifier("ada", tmp_path / "new")
    clf.estimator.set_params(module=lambda shape, K: nets.mlp(shape, K))
    with pytest.raises(ValueError, match="checkpoint_dir needs an estimator that can be pickled"):
        clf.fit(X, Y)
    assert not (tmp_path / "new").exists() or not list((tmp_path / "new").glob("round-*"))


def test_members_in_files(tmp_path):
    clf = classifier("ada").set_params(estimator=learner(members_dir=tmp_path)).fit(X, Y)
    in_memory = classifier("ada").fit(X, Y)
    same(in_memory, clf)
    files = sorted(tmp_path.glob("member-*.safetensors"))
    assert len(files) == 5
    members = clf.estimators_[:5]
    assert all(m.path and Path(m.path) in files for m in members)
    small, large = len(pickle.dumps(clf)), len(pickle.dumps(in_memory))
    assert large - small > 0.9 * sum(f.stat().st_size for f in files)
    again = pickle.loads(pickle.dumps(clf))
    np.testing.assert_array_equal(again.predict_proba(X), clf.predict_proba(X))
    Path(members[0].path).unlink()
    if clf.estimator_weights_[0] > 0:
        with pytest.raises(ValueError, match=r"member-.*safetensors' is missing"):
            clf.predict(X)


def test_folds_leave_no_files(tmp_path):
    clf = classifier("ada, folds", rounds=2).set_params(estimator=learner(members_dir=tmp_path)).fit(X, Y)
    assert len(list(tmp_path.glob("member-*"))) == clf.n_iter_
    assert len(list(tmp_path.glob("start-*"))) == 6


def test_a_model_file_holds_its_nets(tmp_path):
    clf = classifier("ada", tmp_path / "rounds").fit(X, Y)
    expected = clf.predict_proba(X)
    save_model(clf, tmp_path / "m.model")
    assert all(m.path for m in clf.estimators_[:5])  # the model itself stays as it is
    shutil.rmtree(tmp_path / "rounds")
    np.testing.assert_array_equal(load_model(tmp_path / "m.model").predict_proba(X), expected)
    clf = classifier("ada", rounds=1).set_params(estimator=learner(steps=1)).fit(X, Y)
    clf.estimators_[0].architecture.module = print
    with pytest.raises(TypeError, match=r"cannot be stored in a file that runs no code: builtins.print"):
        save_model(clf, tmp_path / "other.model")
    assert not (tmp_path / "other.model").exists()
