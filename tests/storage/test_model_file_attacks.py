"""Forged model files: no code of a file runs, and no other file is opened or written.

The attacker uses a writer without checks and computes the digests. Python's audit events (opened files,
created folders, processes, pickles, sockets) show any violation.
"""

import ast
import importlib
import json
import logging
import os
import pathlib
import pickle
import subprocess
import sys
import zipfile

import numpy as np
import pytest
from sklearn.calibration import CalibratedClassifierCV
from sklearn.compose import ColumnTransformer, make_column_selector
from sklearn.ensemble import (
    HistGradientBoostingClassifier,
    RandomForestClassifier,
    StackingClassifier,
    VotingClassifier,
)
from sklearn.feature_extraction.text import CountVectorizer
from sklearn.feature_selection import SelectKBest
from sklearn.model_selection import GridSearchCV
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import FeatureUnion, Pipeline, make_pipeline
from sklearn.preprocessing import FunctionTransformer, StandardScaler
from sklearn.tree import DecisionTreeClassifier

import tailboost as tb
from tailboost.core.files import held
from tailboost.learners import HistBoostClassifier
from tailboost.storage import constructors, parts, reviewed
from tailboost.storage.model_files import packed
from tailboost.storage.models import load_model, save_model

RNG = np.random.default_rng(0)
X = RNG.normal(size=(120, 3))
Y = (X[:, 0] > 0).astype(int)

WATCHED = (
    "os.system", "os.exec", "os.posix_spawn", "os.spawn", "os.remove", "os.rename", "os.mkdir",
    "os.rmdir", "os.truncate",
    "os.link", "os.symlink", "subprocess.Popen", "shutil.", "pickle.find_class", "socket.connect",
    "tempfile.", "fcntl.",
    "ctypes.dlopen",
)  # fmt: skip
HEARD: list[tuple[str, str]] = []
LISTENING = [False]


def hear(event, details):
    if not LISTENING[0]:
        return
    if event == "open":
        path, mode, flags = details
        writes = isinstance(flags, int) and flags & (os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC)
        if writes or (isinstance(mode, str) and set(mode) & set("wax+")) or "secret" in str(path):
            HEARD.append((event, str(path)))
    elif event.startswith(WATCHED):
        HEARD.append((event, str(details)[:100]))


sys.addaudithook(hear)


class Quiet:
    """Refuse writes, processes and pickles in the block."""

    def __enter__(self):
        HEARD.clear()
        LISTENING[0] = True

    def __exit__(self, *error):
        LISTENING[0] = False
        assert HEARD == []


def test_the_witness_hears(tmp_path):
    """The audit hook detects the effects of the attacks."""
    (tmp_path / "secret.txt").write_text("x")
    for deed in (
        lambda: open(tmp_path / "new", "w").close(),
        lambda: open(tmp_path / "secret.txt", "rb").close(),
        lambda: held(tmp_path / "lock").__enter__(),
        lambda: (tmp_path / "folder").mkdir(),
        lambda: os.system("true"),
        lambda: pickle.loads(pickle.dumps(pathlib.PurePosixPath("x"))),
        lambda: subprocess.run(["true"], check=True),
    ):
        with pytest.raises(AssertionError), Quiet():
            deed()


class Everything:
    def __contains__(self, name):
        return True


class Attacker(parts.Writer):
    """Writer without checks."""

    def __init__(self):
        super().__init__()
        self.trusted = Everything()

    def part(self, thing):
        try:
            return super().part(thing)
        except Exception:
            if not hasattr(thing, "__dict__"):
                return ["list", []]
            fields = [[k, self.named(k, v, reviewed.Reviewed())] for k, v in vars(thing).items()]
            return ["object", parts.number_in(self.classes, parts.name_of(type(thing))), fields]

    def object_part(self, thing, cls):
        if isinstance(thing, type) or (callable(thing) and hasattr(thing, "__qualname__")):
            return ["function", parts.name_of(thing)]
        name = parts.name_of(cls)
        if name == parts.TREE or (name in constructors.MADE and not hasattr(thing, "forged")):
            return super().object_part(thing, cls)
        state = thing.__getstate__() if name in reviewed.reviewed() else vars(thing)
        fields = [
            [k, self.named(k, v, reviewed.Reviewed())] for k, v in state.items() if k != "_sklearn_version"
        ]
        return ["object", parts.number_in(self.classes, name), fields]

    def named(self, field, value, spec):
        if isinstance(value, type):
            return {"type": value.__name__ if value in reviewed.TYPES.values() else parts.name_of(value)}
        if callable(value) and hasattr(value, "__qualname__"):
            return {"function": parts.name_of(value)}
        return self.value(value)


def forge(path, model, change=lambda structure: None):
    writer = Attacker()
    structure = writer.finished(writer.value(model))
    change(structure)
    record = {"versions": {}, "answers": {"labels": [0] * 32, "probabilities": None}}
    members = {"parts.json": json.dumps(structure).encode(), "arrays.bin": bytes(writer.arrays)}
    members |= {"ledgers.json": json.dumps([ledger.to_dict() for ledger in writer.ledgers]).encode()}
    path.write_bytes(packed(members, record))


def holding(part):
    """Return a mixture with this part in its prediction of probe rows."""
    stump = Pipeline([("first", FunctionTransformer()), ("tree", DecisionTreeClassifier(max_depth=1))])
    mix = tb.RobustMixtureClassifier([("tree", stump)], random_state=0).fit(X, Y)
    mix.named_estimators_["tree"].steps[0] = ("first", part)
    return mix


@pytest.fixture
def path(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path / "m.model"


@pytest.fixture
def victim(tmp_path):
    victim = tmp_path / "secret.txt"
    victim.write_text("the only copy")
    return victim


def refused(path, words="", model=None):
    """Check for an error with the name of the file, and for no new file."""
    before = {p: p.read_bytes() for p in path.parent.rglob("*") if p.is_file()}
    with Quiet(), pytest.raises(ValueError, match=rf"m\.model.*{words}") as caught:
        load_model(path)
    assert len(str(caught.value)) < 600 + len(str(path))
    assert {p: p.read_bytes() for p in path.parent.rglob("*") if p.is_file()} == before


class Bad:
    def __reduce__(self):
        return os.system, ("touch CODE_WAS_RUN",)


class TestCalls:
    """Callables in fields of listed estimators."""

    @pytest.mark.parametrize(
        "part",
        [
            FunctionTransformer(func=make_column_selector(pattern="x")),
            FunctionTransformer(inverse_func=make_column_selector()),
            FunctionTransformer(feature_names_out=make_column_selector()),
            CountVectorizer(tokenizer=make_column_selector(), vocabulary={"a": 0}),
            KNeighborsClassifier(metric=make_column_selector()),
            SelectKBest(make_column_selector()),
        ],
        ids=lambda part: type(part).__name__,
    )
    def test_listed_objects_that_can_be_called_are_no_functions(self, path, part):
        forge(path, holding(part))
        refused(path, ".*make_column_selector, which can be called")
        with pytest.raises(TypeError, match="make_column_selector as"):
            save_model([part], path.parent / "own.model")

    def test_a_vectorizer_that_opens_what_columns_are_called(self, path, victim):
        forge(
            path,
            holding(
                CountVectorizer(
                    preprocessor=pathlib.PosixPath, tokenizer=logging.FileHandler, vocabulary={"a": 0}
                )
            ),
        )
        refused(path)

    @pytest.mark.thinned(32)
    @pytest.mark.parametrize("field", ["func", "inverse_func", "kw_args", "feature_names_out"])
    @pytest.mark.parametrize(
        "function",
        [os.system, eval, exec, open, np.load, pickle.loads, importlib.import_module, json.dumps, load_model],
    )
    def test_functions_of_a_transformer(self, path, field, function):
        forge(path, holding(FunctionTransformer(**{field: function})))
        refused(path)

    @pytest.mark.thinned(31)
    @pytest.mark.parametrize(
        "field", ["preprocessor", "tokenizer", "analyzer", "dtype", "vocabulary", "stop_words"]
    )
    @pytest.mark.parametrize(
        "kind", [pathlib.PosixPath, logging.FileHandler, type, zipfile.ZipFile, open, os.system]
    )
    def test_types_and_functions_of_a_vectorizer(self, path, field, kind):
        forge(path, holding(CountVectorizer(**{field: kind})))
        refused(path)

    @pytest.mark.parametrize(
        "part",
        [
            ColumnTransformer([("a", "passthrough", os.system)]),
            ColumnTransformer(
                [("a", FunctionTransformer(os.system), [0])], remainder=FunctionTransformer(eval)
            ),
            FeatureUnion([("a", FunctionTransformer(os.system))]),
            make_pipeline(make_pipeline(FunctionTransformer(os.system))),
            VotingClassifier([("a", FunctionTransformer(os.system))]),
            KNeighborsClassifier(metric=os.system),
            KNeighborsClassifier(weights=os.system),
            KNeighborsClassifier(metric_params={"func": os.system}),
            CalibratedClassifierCV(FunctionTransformer(os.system)),
            HistGradientBoostingClassifier(scoring=os.system, categorical_features=os.system),
            GridSearchCV(DecisionTreeClassifier(), {}, scoring=os.system),
            tb.AdaLPBoostClassifier(FunctionTransformer(os.system)),
            tb.RobustMixtureClassifier([("a", FunctionTransformer(os.system))]),
        ],
        ids=lambda p: type(p).__name__,
    )
    def test_nested_callables(self, path, part):
        forge(path, holding(part))
        refused(path)

    @pytest.mark.parametrize(
        "name",
        [
            "builtins.eval", "os.system", "posix.system", "subprocess.Popen", "builtins.open",
            "functools.partial",
            "operator.methodcaller", "joblib.memory.Memory", "pathlib.PosixPath", "logging.FileHandler",
            "tailboost.app.cli.main",
            "tailboost.app.cli.models.StoredModel", "tailboost.dask.robust_mixture.RobustMixtureClassifier",
            "tailboost.dask.robust_mixture.KeyCounts",
            "tailboost.boosting.learner.CrossFitLearner", "tailboost.rows.rows.Split",
            "tailboost.learners.torch.TorchSession",
            "tailboost.storage.models.os.system", "tailboost.storage.models.load_model",
            "tailboost.nothing.there",
            "sklearn.model_selection._search.GridSearchCV",
            "sklearn.utils.metaestimators._AvailableIfDescriptor",
            "xgboost.core.Booster", "lightgbm.basic.Booster", "torch.nn.modules.linear.Linear", "", ".",
            "tailboost..X",
            "tailboost.\x00.X", "x" * 100_000, 7, None,
        ],
    )  # fmt: skip
    def test_classes_that_are_not_listed(self, path, name):
        def change(structure):
            structure["classes"].append(name)
            structure["parts"].append(["object", len(structure["classes"]) - 1, []])
            structure["root"] = [len(structure["parts"]) - 1]

        forge(path, StandardScaler().fit(X), change)
        refused(path, "" if name in (7, None) else "is refused")

    def test_methods_by_name(self, path, victim):
        """A stack calls methods of its models by name."""
        stack = StackingClassifier([("a", DecisionTreeClassifier())], DecisionTreeClassifier(), cv=2).fit(
            X, Y
        )
        for method in ("fit", "save_model", "set_params", "__reduce__", "__class__"):
            stack.stack_method_ = [method]
            forge(path, stack)
            refused(path)
        stack.stack_method_ = ["predict_proba"]
        save_model(stack, path)
        np.testing.assert_array_equal(load_model(path).predict_proba(X), stack.predict_proba(X))


class TestStates:
    """Objects of listed classes with unknown fields."""

    @pytest.mark.parametrize(
        ("field", "value"),
        [
            ("inverse_transform", [0]), ("transform", 1), ("fit", "x"), ("__class__", [0]),
            ("__dict__", [0]), ("__reduce__", 1),
            ("__setstate__", None), ("get_params", {"function": "os.system"}),
            ("x", {"function": "os.system"}),
            ("x", {"type": "pathlib.PosixPath"}), ("dtype", {"type": "PosixPath"}),
            ("dtype", {"function": "float"}),
            (7, 1), ("x", [10**9]), ("x", [-1]), ("x", [0, 0]), ("x", []), ("x", {}), ("x", ["0"]),
            ("x", [True]),
        ],
    )  # fmt: skip
    def test_fields(self, path, field, value):
        def change(structure):
            part = structure["parts"][structure["root"][0]]
            part[2].append([field, value])

        forge(path, StandardScaler().fit(X), change)
        refused(path)

    @pytest.mark.parametrize("kind", ["function", "TypeNode", "reduce", "eval", "__class__", None, 3, [0]])
    def test_kinds_of_parts(self, path, kind):
        forge(
            path, StandardScaler().fit(X), lambda s: s["parts"].append([kind, "os.system", ["touch pwned"]])
        )
        refused(path)

    @pytest.mark.parametrize(
        "part",
        [
            ["array", "|O", [1], "C", 0], ["array", "<M8[ns]", [10**12], "C", 0],
            ["array", "V8", [1], "C", 0],
            ["array", "f8,O", [1], "C", 0], ["array", "<f8", [1], "C", -8], ["array", "<f8", [-1], "C", 0],
            ["array", "<f8", [1.5], "C", 0], ["array", "<f8", [1], "K", 0],
            ["array", "os.system", [1], "C", 0],
            ["array", "<f8", "11", "C", 0], ["scalar", "|O", [], "C", 0], ["dtype", "os.system"],
            ["bytes", 0, 10**12],
            ["bytes", 0, -1], ["objects", [10**9], [1]], ["sparse", "csr_matrix", [1, 1], 0, 0, 0],
            ["sparse", "os.system", [1, 1], [0], [0], [0]], ["tree", 0], ["tree", -1], ["made", 0, [0]],
            ["object", 99, []],
            ["dict", 7], ["list", [[5000]]], ["Bunch", [[1, 2]]], [], ["object"], "object", None,
        ],
    )  # fmt: skip
    def test_parts(self, path, part):
        forge(path, StandardScaler().fit(X), lambda s: s["parts"].append(part))
        refused(path)

    @pytest.mark.parametrize("steps", [7, None, "x", [0], [], True])
    def test_a_pipeline_of_no_steps(self, path, steps):
        def change(structure):
            fields = structure["parts"][structure["root"][0]][2]
            next(field for field in fields if field[0] == "steps")[1] = steps

        forge(path, make_pipeline(StandardScaler()).fit(X), change)
        refused(path)

    def test_a_deep_structure(self, path):
        def change(structure):
            deep = structure["root"]
            for _ in range(100_000):
                deep = [deep]
            structure["root"] = 0
            structure["parts"].append(["list", []])

        forge(path, StandardScaler().fit(X), change)
        with zipfile.ZipFile(path) as archive:
            files = {n: archive.read(n) for n in archive.namelist()}
        members = {"parts.json": b"[" * 200_000 + b"]" * 200_000, "arrays.bin": files["arrays.bin"]}
        members |= {"ledgers.json": files["ledgers.json"]}
        path.write_bytes(packed(members, {"versions": {}, "answers": None}))
        refused(path)

    def test_a_random_state(self, path):
        forest = RandomForestClassifier(2, random_state=np.random.RandomState(3)).fit(X, Y)
        save_model(forest, path)
        again = load_model(path)
        assert again.random_state.randint(10**6) == forest.random_state.randint(10**6)
        with pytest.raises(TypeError, match="Generator"):
            save_model(FunctionTransformer(kw_args={"rng": np.random.default_rng(0)}), path)


class TestFolders:
    """Names of folders and files are not stored, and are refused in a forged file."""

    def test_a_cache_of_a_pipeline(self, path):
        cached = make_pipeline(
            StandardScaler(), DecisionTreeClassifier(), memory=str(path.parent / "cache")
        ).fit(X, Y)
        save_model(cached, path)
        with Quiet():
            again = load_model(path)
            again.predict(X)
        assert again.memory is None
        forge(path, cached)
        refused(path, ".*memory")

    def test_rows_that_name_files(self, path, victim):
        """A vectorizer for files named in rows."""
        words = CountVectorizer(input="filename").fit([str(victim)])
        with pytest.raises(TypeError, match="CountVectorizer"):
            save_model(words, path)
        forge(path, words)
        refused(path, ".*input=")

    def test_a_net_with_the_name_of_a_file(self, path, victim):
        pytest.importorskip("torch")
        from tailboost.learners.torch import FittedNet

        member = object.__new__(FittedNet)
        vars(member).update(weights=str(victim), architecture=None, table_=None)
        forge(path, member)
        refused(path)

    def test_parameters_of_boosters_that_name_files(self, path):
        xgboost = pytest.importorskip("xgboost")
        model = xgboost.XGBClassifier(n_estimators=2, n_jobs=1).fit(X, Y)
        model.set_params(device="/etc/passwd")
        with pytest.raises(TypeError, match="XGBClassifier"):
            save_model(model, path)


class TestBoosters:
    """Boosters in other formats than their projects' are refused."""

    @pytest.mark.parametrize(
        "content",
        [
            b"",
            b"{", b"{}", b"not a booster", b"{" + b"\x00" * 100, b"binf" + b"\xff" * 200, pickle.dumps(Bad()),
            b'{"learner": {"gradient_booster": {"model": {"trees": []}}}}', "secret.txt", 7, None,
            b'{"version": [99, 0, 0], "learner": 7}', b"{L\x7f\xff\xff\xff\xff\xff\xff\xff" + b"x" * 50,
        ],
        ids=range(13),
    )  # fmt: skip
    def test_content(self, path, content, victim):
        pytest.importorskip("xgboost")
        tree = HistBoostClassifier(n_estimators=2, n_jobs=1)
        mix = tb.RobustMixtureClassifier([("a", tree)], random_state=0).fit(X, Y)
        mix.named_estimators_["a"].model_ = content
        vars(mix.named_estimators_["a"]).pop("_booster", None)
        forge(path, mix)
        refused(path)


class TestOtherBoosters:
    """LightGBM and CatBoost: parameters with names of files, and invalid contents."""

    @pytest.mark.parametrize(
        ("module", "name", "value"),
        [
            ("lightgbm.LGBMClassifier", "output_model", "x.txt"),
            ("lightgbm.LGBMClassifier", "input_model", "secret.txt"),
            ("lightgbm.LGBMClassifier", "metric", "auc output_model=x.txt"),
            ("lightgbm.LGBMClassifier", "a b", 1),
            ("catboost.CatBoostClassifier", "train_dir", "x"),
            ("catboost.CatBoostClassifier", "snapshot_file", "x"),
            ("catboost.CatBoostClassifier", "custom_metric", "/tmp/x"),
        ],
    )
    def test_parameters(self, path, module, name, value):
        model = self.fitted(module)

        def change(structure):
            params = next(
                part[1] for part in structure["parts"] if part[0] == "dict" and ["n_estimators", 2] in part[1]
            )
            params.append([name, value])

        forge(path, model, change)
        refused(path, ".*Classifier with")

    @pytest.mark.parametrize("module", ["lightgbm.LGBMClassifier", "catboost.CatBoostClassifier"])
    @pytest.mark.parametrize("content", ["", "secret.txt", "tree\n", "CBM1", 7, [0]], ids=range(6))
    def test_contents(self, path, module, content, victim):
        def change(structure):
            for part in structure["parts"]:
                for pair in part[1] if part[0] == "dict" else ():
                    if pair[0] == "booster":
                        pair[1] = content

        forge(path, self.fitted(module), change)
        refused(path)

    def fitted(self, module):
        library, name = module.split(".")
        quiet = {"verbose": -1} if library == "lightgbm" else {"verbose": 0, "allow_writing_files": False}
        return getattr(pytest.importorskip(library), name)(n_estimators=2, **quiet).fit(X, Y)


class TestTrees:
    """Trees are checked before scikit-learn reads them without checks of links."""

    @pytest.fixture
    def forest(self):
        return RandomForestClassifier(3, max_leaf_nodes=12, random_state=0).fit(X, Y)

    @pytest.mark.parametrize("value", [0, 255, 0b10101010])
    def test_leaves(self, path, forest, value):
        writer = Attacker()
        structure = writer.finished(writer.value(forest))
        (group,) = structure["trees"]
        group["leaf"] = writer.array(np.full(group["leaf"][1], value, dtype=np.uint8))
        self.refuse(path, writer, structure)

    def refuse(self, path, writer, structure):
        members = {"parts.json": json.dumps(structure).encode(), "arrays.bin": bytes(writer.arrays)}
        members |= {"ledgers.json": b"[]"}
        path.write_bytes(packed(members, {"versions": {}, "answers": None}))
        refused(path)

    @pytest.mark.parametrize(
        ("name", "value"),
        [
            ("leaf", 0), ("leaf", 10**6), ("left_child", 1), ("left_child", 10**6), ("left_child", -1),
            ("right_child", 0), ("right_child", 10**6), ("right_child", -3),
            ("feature", -1), ("feature", 3), ("feature", 10**6), ("value", 10**6), ("value", -1),
            ("counts", 0), ("counts", 10**7), ("counts", -5), ("classes", 0), ("classes", 10**9),
        ],
    )  # fmt: skip
    def test_links(self, path, forest, name, value):
        writer = Attacker()
        structure = writer.finished(writer.value(forest))
        (group,) = structure["trees"]
        if name in ("counts", "classes"):
            group[name] = [value] * len(group[name])
        else:
            _, shape, *_ = group[name]
            group[name] = writer.array(np.full(shape, value, dtype=np.int64))
        self.refuse(path, writer, structure)

    @pytest.mark.parametrize(("name", "value"), [("left", 0), ("right", 10**6), ("feature_idx", -1)])
    def test_links_of_boosted_trees(self, path, name, value):
        boosted = HistGradientBoostingClassifier(max_iter=2).fit(X, Y)
        for (tree,) in boosted._predictors:
            tree.nodes[name][tree.nodes["is_leaf"] == 0] = value
        forge(path, boosted)
        refused(path)


class TestOwnEstimators:
    """Trusted classes of the reader are built."""

    def test_named_by_the_caller(self, path):
        with pytest.raises(TypeError, match="Doubled"):
            save_model(make_pipeline(Doubled(2.0), DecisionTreeClassifier()).fit(X, Y), path)
        model = make_pipeline(Doubled(2.0, squared), DecisionTreeClassifier()).fit(X, Y)
        names = [f"{__name__}.Doubled", f"{__name__}.squared"]
        save_model(model, path, trusted=names)
        np.testing.assert_array_equal(load_model(path, trusted=names).predict(X), model.predict(X))
        refused(path, "is refused.*Doubled")
        with pytest.raises(ValueError, match="squared"):
            load_model(path, trusted=names[:1])

    def test_classes_and_functions_are_accepted_and_all_are_named(self, path):
        model = make_pipeline(Doubled(2.0, squared), DecisionTreeClassifier()).fit(X, Y)
        with pytest.raises(TypeError, match="Doubled"):
            save_model(model, path)
        trusted = [Doubled, squared]
        save_model(model, path, trusted=trusted)
        np.testing.assert_array_equal(load_model(path, trusted=trusted).predict(X), model.predict(X))

    @pytest.mark.parametrize("trusted", ["a.B", ["B"], [7]])
    def test_names_are_full_ones(self, path, trusted):
        with pytest.raises(TypeError, match="names"):
            load_model(path, trusted=trusted)


class Doubled(StandardScaler):
    def __init__(self, by, then=None):
        super().__init__()
        self.by, self.then = by, then


def squared(x):
    return x**2


class TestList:
    """Properties of the list."""

    def classes(self):
        for name in reviewed.reviewed():
            module, _, attribute = name.rpartition(".")
            if not module.startswith("tailboost.learners.torch") or importlib.util.find_spec("torch"):
                yield name, getattr(importlib.import_module(module), attribute)

    def test_each_is_a_class_of_its_module(self):
        for name, cls in self.classes():
            assert isinstance(cls, type), name
            assert f"{cls.__module__}.{cls.__qualname__}" == name

    def test_none_can_be_called_or_acts_by_itself(self):
        # The selector of columns by type reads a frame.
        called = {name for name, cls in self.classes() if any("__call__" in vars(c) for c in cls.__mro__)}
        assert called == {"sklearn.compose._column_transformer.make_column_selector"}
        for name, cls in self.classes():
            assert not any("__del__" in vars(c) for c in cls.__mro__), name

    def test_none_is_of_a_module_that_reads_files_or_starts_work(self):
        machinery = (
            "core.files",
            "app.cli",
            "dask",
            "storage",
        )
        assert not [
            n for n in reviewed.reviewed() if n.startswith(tuple(f"tailboost.{m}" for m in machinery))
        ]

    def test_rules_are_values_that_compute(self):
        """Modules of weight players import no module for files or processes."""
        package = pathlib.Path(importlib.import_module("tailboost.boosting.players").__file__).parent
        reached = set()
        for path in package.glob("[!_]*.py"):
            for node in ast.walk(ast.parse(path.read_text())):
                if isinstance(node, ast.Import):
                    reached |= {alias.name for alias in node.names}
                elif isinstance(node, ast.ImportFrom):
                    reached.add(node.module)
        own = (
            "tailboost.boosting.players",
            "tailboost.solvers",
            "tailboost.boosting.game",
            "tailboost.core.array_types",
            "tailboost.core.checks",
        )
        standard = {"__future__", "abc", "collections.abc", "dataclasses", "math", "typing"}
        arithmetic = {"numpy", "numpy.typing", "scipy.optimize"}
        assert {name for name in reached if not name.startswith(own)} <= standard | arithmetic
        for name, cls in self.classes():
            if name.startswith("tailboost.boosting.players"):
                assert cls.__dataclass_params__.frozen, name
                assert "__setstate__" not in vars(cls), name
