"""Candidates kept in a folder: kills, damage, other fits, handlers of Ctrl-C.

The learners here are fast ones that say of themselves that their rounds are kept.
"""

import errno
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import textwrap
import time
from functools import partial
from pathlib import Path

import numpy as np
import pytest
import sklearn
from conftest import make, noisy
from sklearn.base import BaseEstimator, ClassifierMixin, clone
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.tree import DecisionTreeClassifier

import tailboost as tb
from tailboost.boosting.kept import identify
from tailboost.learners import HistTreeClassifier

X, Y = noisy(17, n=90, K=3)


class KeptTree(DecisionTreeClassifier):
    """Tree with rounds that may be kept."""

    keeps_rounds = True


class KeptHist(HistTreeClassifier):
    """Binned tree with rounds that may be kept."""

    keeps_rounds = True


TREE = KeptTree(max_depth=2)


class CountedTree(KeptTree):
    """Tree with a count of the fits of all clones, which ends the process or raises in one of them."""

    fits, last, end = 0, None, staticmethod(lambda: None)

    def fit(self, X, y, sample_weight=None):
        cls = type(self)
        cls.fits += 1
        if cls.fits == cls.last:
            cls.end()
        return super().fit(X, y, sample_weight=sample_weight)


@pytest.fixture
def counted(monkeypatch):
    """Return a function to reset the count; fit number ``last`` raises RuntimeError."""

    def start(last=None):
        def end():
            raise RuntimeError("stopped here")

        for name, value in (("fits", 0), ("last", last), ("end", staticmethod(end))):
            monkeypatch.setattr(CountedTree, name, value)
        return CountedTree(max_depth=2)

    return start


def classifier(name="adalpboost", folder=None, estimator=TREE, rounds=4, **params):
    given = {"cv": "train", "alpha": 0.4, "random_state": 0, "n_iter_no_change": None} | params
    return make(name, estimator, n_estimators=rounds, checkpoint_dir=folder, **given)


def same(one, two):
    assert one.n_iter_ == two.n_iter_
    np.testing.assert_array_equal(one.estimator_weights_, two.estimator_weights_)
    np.testing.assert_array_equal(one.predict_proba(X), two.predict_proba(X))
    for column in ("weighted_loss", "effective_size", "value", "gap"):
        np.testing.assert_array_equal(getattr(one.trace_, column), getattr(two.trace_, column))


def names(folder):
    return sorted(f.name for f in folder.iterdir())


# -- kills ---------------------------------------------------------------------------------------------------

# Each fit runs in a fork and kills itself in the n-th call of a function. Prints the number of killed fits.
KILLED = """
    import functools, os, signal, sys, traceback
    sys.path[:0] = [{tests!r}, {tests!r} + "/.."]
    import test_checkpoints as here

    def killing(function, at):
        calls = 0

        @functools.wraps(function)
        def call(*args, **kwargs):
            nonlocal calls
            calls += 1
            if calls == at:
                os.kill(os.getpid(), signal.SIGKILL)
            return function(*args, **kwargs)
        return call

    def fit(folder, at):
        try:
            {target} = killing({target}, at)
            here.classifier({case!r}, folder, here.LEARNERS[{learner!r}], **{params!r}).fit(here.X, here.Y)
            os._exit(0)
        except BaseException:
            traceback.print_exc()
            os._exit(1)

    ends = []
    for folder, ats in {plan!r}:
        for at in ats:
            child = os.fork() or fit(folder, at)
            ends.append(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
    assert set(ends) <= {{0, -signal.SIGKILL}}, ends
    print(len(ends) - ends.count(0))
"""
LEARNERS = {"tree": TREE, "hist": KeptHist(max_depth=2)}
TARGETS = {
    "training": {
        "tree": "here.DecisionTreeClassifier.fit",
        "hist": "here.HistTreeClassifier._booster_params",
    },
    "writing": "os.fsync",
    "renaming": "here.Path.replace",
}


def kill(case, plan, where, learner="tree", **params):
    """Kill fits one after another, by folder and number of the call; return the number of killed fits."""
    target = TARGETS[where][learner] if where == "training" else TARGETS[where]
    code = KILLED.format(
        tests=str(Path(__file__).parent), target=target, case=case, plan=plan, learner=learner, params=params
    )
    done = subprocess.run([sys.executable, "-c", textwrap.dedent(code)], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return int(done.stdout)


def check_resumed(case, folder, whole, learner="tree", **params):
    same(whole, classifier(case, folder, LEARNERS[learner], **params).fit(X, Y))
    assert not [n for n in names(folder) if n.endswith(".part")]


@pytest.mark.parametrize(
    ("case", "where", "ats", "params"),
    [
        ("adalpboost", "training", (2, 2), {}),
        ("lpboost", "writing", (3, 2), {"cv": 5}),
        ("worstclassboost", "renaming", (3, 2), {"cv": 0.3}),
    ],
)
@pytest.mark.slow
def test_killed_and_resumed_is_the_unbroken_fit(case, where, ats, params, tmp_path):
    assert kill(case, [(str(tmp_path), ats)], where, **params) == len(ats)
    check_resumed(case, tmp_path, classifier(case, **params).fit(X, Y), **params)


# -- damage --------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    """Return a folder of four rounds, and their classifier."""
    folder = tmp_path_factory.mktemp("rounds")
    return folder, classifier("adalpboost", folder, LEARNERS["hist"]).fit(X, Y)


def spoil(path, how, seed=0):
    content, rng = bytearray(path.read_bytes()), np.random.default_rng(seed)
    if how == "bit":
        content[rng.integers(len(content))] ^= 1 << rng.integers(8)
    elif how == "cut":
        del content[rng.integers(len(content)) :]
    elif how == "longer":
        content += rng.bytes(3)
    elif how == "foreign":
        content = rng.bytes(500)
    elif how == "zeros":  # after a power cut
        content = bytes(len(content))
    path.write_bytes(bytes(content))


def check_damage(finished, folder, name, how, seed):
    shutil.rmtree(folder, ignore_errors=True)
    shutil.copytree(finished[0], folder)
    spoil(folder / name, how, seed)
    good = {f: f.read_bytes() for f in folder.iterdir()}
    with pytest.raises(ValueError, match=rf"checkpoint '.*{re.escape(name)}' is damaged .*delete it"):
        classifier("adalpboost", folder, LEARNERS["hist"]).fit(X, Y)
    assert {f: f.read_bytes() for f in folder.iterdir()} == good
    (folder / name).unlink()
    same(finished[1], classifier("adalpboost", folder, LEARNERS["hist"]).fit(X, Y))


@pytest.mark.parametrize("how", ["bit", "cut", "longer", "foreign", "zeros"])
def test_damage_is_noticed(finished, how, tmp_path):
    check_damage(finished, tmp_path / "copy", names(finished[0])[2], how, 0)


def test_a_file_under_another_name_is_damage(finished, tmp_path):
    """A valid candidate under the name of another one would give another model."""
    folder = shutil.copytree(finished[0], tmp_path / "copy")
    one, other = names(folder)[1:3]
    shutil.copy(folder / one, folder / other)
    with pytest.raises(ValueError, match=rf"{other}' is damaged .*under this name"):
        classifier("adalpboost", folder, LEARNERS["hist"]).fit(X, Y)
    (folder / other).unlink()
    same(finished[1], classifier("adalpboost", folder, LEARNERS["hist"]).fit(X, Y))


def test_the_format_of_a_later_version(finished, tmp_path):
    folder = shutil.copytree(finished[0], tmp_path / "copy")
    file = folder / names(folder)[1]
    file.write_bytes(file.read_bytes().replace(b"tailboost sealed file 1\n", b"tailboost sealed file 2\n", 1))
    with pytest.raises(ValueError, match=r"format of another version"):
        classifier("adalpboost", folder, LEARNERS["hist"]).fit(X, Y)


@pytest.mark.parametrize("code", [errno.EACCES, errno.EIO])
def test_unreadable_is_not_damaged(finished, code, tmp_path, monkeypatch):
    folder = shutil.copytree(finished[0], tmp_path / "copy")
    read, second = Path.read_bytes, names(folder)[1]

    def refuse(path):
        if path.name == second:
            raise OSError(code, os.strerror(code), str(path))
        return read(path)

    monkeypatch.setattr(Path, "read_bytes", refuse)
    with pytest.raises(OSError, match=rf"cannot be read \({os.strerror(code)}\)") as caught:
        classifier("adalpboost", folder, LEARNERS["hist"]).fit(X, Y)
    assert caught.value.errno == code
    assert "is damaged" not in str(caught.value)


def test_a_longer_fit_fits_the_further_rounds_alone(counted, tmp_path):
    classifier("adalpboost", tmp_path, counted(), rounds=3).fit(X, Y)
    longer = classifier("adalpboost", tmp_path, counted(), rounds=5).fit(X, Y)
    assert CountedTree.fits == 2
    same(classifier("adalpboost", None, counted(), rounds=5).fit(X, Y), longer)


@pytest.mark.parametrize("estimator", [DecisionTreeClassifier(), HistTreeClassifier(), "tree", None])
def test_tables_are_fitted_again(estimator, tmp_path):
    with pytest.raises(ValueError, match=r"'checkpoint_dir' parameter .* must be None .* nets"):
        classifier("adalpboost", tmp_path / "new", estimator).fit(X, Y)
    assert not (tmp_path / "new").exists()


# -- other fits ----------------------------------------------------------------------------------------------


class Depth:
    """Object with a number outside of its repr."""

    def __init__(self, depth):
        self.depth = depth


class Deep(ClassifierMixin, BaseEstimator):
    """Tree with a depth from an object, or from the middle of a long array."""

    keeps_rounds = True

    def __init__(self, given=None):
        self.given = given

    def fit(self, X, y, sample_weight=None):
        depth = self.given.depth if isinstance(self.given, Depth) else int(self.given[1000])
        self.tree_ = DecisionTreeClassifier(max_depth=depth, random_state=0).fit(X, y, sample_weight)
        self.classes_ = self.tree_.classes_
        return self

    def predict(self, X):
        return self.tree_.predict(X)


def long(depth):
    table = np.ones(2000)
    table[1000] = depth
    return table


@pytest.mark.parametrize("given", [Depth, long])
def test_parameters_are_compared_by_value(given, tmp_path):
    """Another value of a parameter is another fit, which may use the same folder."""
    for depth in (1, 6, 1):
        kept = classifier("adalpboost", tmp_path, Deep(given(depth))).fit(X, Y)
        same(classifier("adalpboost", None, Deep(given(depth))).fit(X, Y), kept)
    assert len(names(tmp_path)) == 8


class OtherRule(tb.AdaLPBoostClassifier):
    """Another class with the same parameters."""


def test_another_class_is_another_fit(tmp_path, counted):
    classifier("adalpboost", tmp_path, counted()).fit(X, Y)
    params = classifier("adalpboost", tmp_path, counted()).get_params(deep=False)
    OtherRule(**params).fit(X, Y)
    assert CountedTree.fits == 4


@pytest.mark.parametrize("module", [tb, sklearn, np])
def test_candidates_of_other_versions_are_not_read(module, tmp_path, monkeypatch, counted):
    classifier("adalpboost", tmp_path, counted()).fit(X, Y)
    monkeypatch.setattr(module, "__version__", "99.0")
    classifier("adalpboost", tmp_path, counted()).fit(X, Y)
    assert CountedTree.fits == 4


class Odd(Depth):
    """Can be copied, but not pickled."""

    def __reduce_ex__(self, protocol):
        raise TypeError("this one cannot be pickled")

    def __deepcopy__(self, memo):
        return Odd(self.depth)


def test_a_parameter_that_cannot_be_compared(tmp_path):
    whole = classifier("adalpboost", None, Deep(Odd(2))).fit(X, Y)  # no error without a folder
    assert whole.n_iter_ == 4
    with pytest.raises(ValueError, match=r"checkpoint_dir needs .*; estimator__given cannot .*Odd: this one"):
        classifier("adalpboost", tmp_path / "new", Deep(Odd(2))).fit(X, Y)
    assert not (tmp_path / "new").exists()


def factor(x):
    return x


VALUES = {
    "nothing": [None, 0, 0.0, False, "", b"", (), [], {}, set()],
    "numbers": [1, 1.0, True, "1", 2, 1 + 1e-15, 2**70, np.float32(1), 1j],
    "arrays": [np.arange(4), np.arange(4.0), np.arange(4).reshape(2, 2), np.arange(3), np.array([1, None])],
    "nested": [{"a": [1]}, {"a": [2]}, {"a": (1,)}, {"b": [1]}, [[1], []], [[], [1]], [1, 2], [2, 1]],
    "functions": [factor, len, max, np.exp, np.log, str.upper, str.lower],
    "partial": [partial(factor, 1), partial(factor, 2), partial(max, 1)],
    "objects": [Depth(1), Depth(2), Depth([1]), Odd, Depth],
    "estimators": [
        TREE,
        DecisionTreeClassifier(max_depth=3),
        LogisticRegression(),
        Deep(3),
        Deep([3]),
        [TREE],
        [Deep(3)],
    ],
    "pipelines": [make_pipeline(StandardScaler(), TREE), make_pipeline(StandardScaler(), Deep(3))],
    "fitted": [FrozenEstimator(clone(TREE).fit(X, Y)), FrozenEstimator(clone(TREE).fit(X, Y == 1))],
}


class Given(BaseEstimator):
    def __init__(self, value):
        self.value = value


def describe(value):
    return tuple(sorted(identity(Given(value))["params"].items()))


def identity(estimator):
    return json.loads(identify(estimator, "", 0))


@pytest.mark.parametrize("kind", VALUES)
def test_different_values_have_different_descriptions(kind):
    descriptions = [describe(value) for value in VALUES[kind]]
    assert len(set(descriptions)) == len(descriptions), descriptions
    assert descriptions == [describe(value) for value in VALUES[kind]]


def test_equal_values_have_equal_descriptions():
    assert describe(np.arange(9)) == describe(np.arange(9))
    assert describe(np.int64(3)) == describe(3)
    assert describe({1: "a", "b": 2}) == describe({"b": 2, 1: "a"})
    assert describe(Depth([1, {2}])) == describe(Depth([1, {2}]))
    ring = [1]
    ring.append(ring)
    assert describe(ring) == describe(ring)


@pytest.mark.slow
def test_descriptions_are_the_same_in_every_process():
    code = """
        import sys
        sys.path[:0] = [{tests!r}, {tests!r} + "/.."]
        import test_checkpoints as here
        values = [{{"b", "a", "c"}}, here.Depth({{"x": {{"p", "q"}}}}), here.TREE, here.factor, here.long(3)]
        print([here.describe(v) for v in values])
    """
    code = textwrap.dedent(code.format(tests=str(Path(__file__).parent)))
    outputs = {
        subprocess.run(
            [sys.executable, "-c", code], env=os.environ | {"PYTHONHASHSEED": seed}, check=True,
            capture_output=True, text=True,
        ).stdout
        for seed in ("1", "77")
    }  # fmt: skip
    assert len(outputs) == 1


def test_parameters_of_nested_estimators():
    clf = classifier("adalpboost", None, make_pipeline(StandardScaler(), TREE))
    params = identity(clf)["params"]
    assert params["alpha"] == "0.4"
    assert params["estimator"].endswith("Pipeline")
    assert params["estimator__kepttree__max_depth"] == "2"
    assert not {"tol", "random_state", "estimator__kepttree__random_state"} & set(params)


def test_tensors_and_nets_are_described_by_their_weights():
    torch = pytest.importorskip("torch")
    torch.manual_seed(0)
    nets = [torch.nn.Sequential(torch.nn.Linear(3, 2), torch.nn.Dropout(p)) for p in (0.1, 0.1, 0.2)]
    nets[1].load_state_dict(nets[0].state_dict())
    one, equal, other = (describe(net) for net in nets)
    assert one == equal != other
    with torch.no_grad():
        nets[1][0].weight[0, 0] += 1e-6
    assert describe(nets[1]) != one
    lazy = torch.nn.LazyLinear
    assert describe(lazy(2)) == describe(lazy(2)) != describe(lazy(3))
    assert "torch" in identity(Deep(nets[0]))["versions"]


# -- one folder ----------------------------------------------------------------------------------------------


def test_files_of_others_stay(tmp_path):
    with subprocess.Popen([sys.executable, "-c", ""]) as dead:
        dead.wait()
    others = [
        "film.mkv.part",
        "round-1.part",
        f"notes.{dead.pid}-1.part",
        f"candidate-1.pkl.{os.getppid()}-1.part",  # of a running process
    ]
    ours = [f"candidate-1.pkl.{dead.pid}-1.part"]
    for name in others + ours:
        (tmp_path / name).write_text("kept")
    classifier("adalpboost", tmp_path).fit(X, Y)
    assert set(others) <= set(names(tmp_path))
    assert not set(ours) & set(names(tmp_path))


# -- learners with a handler of Ctrl-C ----------------------------------------------------------------------


class Swallowing(KeptTree):
    """Tree with an early return after Ctrl-C during its fit, like scikit-learn's perceptron."""

    fits, hit = 0, None

    def fit(self, X, y, sample_weight=None):
        cls = type(self)
        cls.fits += 1
        try:
            if cls.fits == cls.hit:
                os.kill(os.getpid(), signal.SIGINT)
                time.sleep(5)  # until the signal arrives
        except KeyboardInterrupt:
            return super().fit(X, y, sample_weight=np.arange(len(y)) == 0)
        return super().fit(X, y, sample_weight=sample_weight)


@pytest.fixture
def swallowing(monkeypatch):
    def start(hit=None):
        monkeypatch.setattr(Swallowing, "fits", 0)
        monkeypatch.setattr(Swallowing, "hit", hit)
        return Swallowing(max_depth=2)

    return start


@pytest.mark.parametrize(("cv", "hit"), [("train", 3), (5, 15), (5, 18), (0.3, 5)])
def test_no_half_trained_model_joins_the_ensemble_or_a_checkpoint(cv, hit, swallowing, tmp_path):
    params = {"cv": cv, "include_constants": False}
    whole = classifier("adalpboost", None, swallowing(), **params).fit(X, Y)
    with pytest.warns(tb.FitInterruptedWarning, match="interrupted after 2 rounds"):
        stopped = classifier("adalpboost", tmp_path, swallowing(hit), **params).fit(X, Y)
    assert stopped.n_iter_ == 2
    for one, two in zip(stopped.estimators_, whole.estimators_, strict=False):
        np.testing.assert_array_equal(one.predict(X), two.predict(X))
    same(whole, classifier("adalpboost", tmp_path, swallowing(), **params).fit(X, Y))


def test_ctrl_c_before_the_first_round(swallowing, tmp_path):
    params = {"theta": 0.3, "class_loss": "error", "combine": "mixture"}  # plain ERM joins the mixture
    whole = classifier("worstclassboost", None, swallowing(), **params).fit(X, Y)
    with pytest.raises(KeyboardInterrupt):
        classifier("worstclassboost", tmp_path, swallowing(1), **params).fit(X, Y)
    same(whole, classifier("worstclassboost", tmp_path, swallowing(), **params).fit(X, Y))


@pytest.mark.slow
def test_ctrl_c_in_a_perceptron(tmp_path):
    """Ctrl-C during a fit of scikit-learn's perceptron, in another process."""
    code = """
        import os, signal, sys, threading, warnings
        import numpy as np, tailboost as tb
        from sklearn.neural_network import MLPClassifier, _stochastic_optimizers

        rng = np.random.default_rng(0)
        X = rng.normal(size=(200, 5)); y = (X[:, 0] * X[:, 1] > 0).astype(int)
        class Net(MLPClassifier):
            keeps_rounds = True
        Net.__module__ = "perceptrons"
        sys.modules["perceptrons"] = sys.modules["__main__"]
        net = Net((10,), max_iter=30, tol=0, n_iter_no_change=1000, random_state=0)
        make = lambda folder=None: tb.AdaLPBoostClassifier(
            net, alpha=0.5, n_estimators=4, n_iter_no_change=None, cv="train", checkpoint_dir=folder,
            include_constants=False, random_state=0)
        warnings.simplefilter("ignore")
        whole = [m.predict_proba(X) for m in make().fit(X, y).estimators_]
        step, steps = _stochastic_optimizers.AdamOptimizer.update_params, 0

        def update_params(self, *args):
            global steps
            steps += 1
            if steps == 40:  # in the second round: an epoch is one step
                os.kill(os.getpid(), signal.SIGINT)
            step(self, *args)

        _stochastic_optimizers.AdamOptimizer.update_params = update_params
        stopped = make(sys.argv[1]).fit(X, y)
        print(stopped.n_iter_, stopped.trace_.stop_reason)
        resumed = [m.predict_proba(X) for m in make(sys.argv[1]).fit(X, y).estimators_]
        print(all(np.array_equal(a, b) for a, b in zip(whole, resumed, strict=True)))
    """
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(code), str(tmp_path)], capture_output=True, text=True
    )
    assert done.stdout == "1 interrupted after 1 rounds\nTrue\n", done.stderr
