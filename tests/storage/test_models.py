"""Model files: round trips, shared parts once, versions and probe rows, damage, forgery and bombs."""

import copy
import hashlib
import inspect
import io
import json
import os
import pickle
import random
import struct
import sys
import tracemalloc
import warnings
import zipfile
import zlib
from functools import partial
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.ensemble import RandomForestClassifier
from sklearn.exceptions import NotFittedError
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import FunctionTransformer

pd = pytest.importorskip("pandas")

import tailboost as tb
from tailboost.learners import HistBoostClassifier, HistTreeClassifier
from tailboost.learners.forest import TableForest  # reads data frames
from tailboost.storage.models import ModelVersionWarning, load_model, save_model
from tailboost.storage.reviewed import UFUNCS

SECURITY = (Path(__file__).parents[2] / "SECURITY.md").read_text(encoding="utf-8")
RNG = np.random.default_rng(0)
X = RNG.normal(size=(120, 4))
Y = np.where(X[:, 0] + 0.3 * RNG.normal(size=120) > 0, "yes", "no")
FRAME = pd.DataFrame(
    {
        "age": X[:, 0],
        "visits": RNG.integers(0, 4, 120),
        "city": RNG.choice(["Rome", "Oslo", None], 120),
        "size": pd.Categorical(RNG.choice(["S", "M"], 120), categories=["S", "M", "L"]),
        "count": pd.array(RNG.integers(0, 3, 120), dtype="Int64"),
        "member": X[:, 1] > 0,
    }
)


def adalp(**params):
    tree = HistTreeClassifier(max_depth=2, n_jobs=1)
    given = {"n_estimators": 3, "random_state": 0}
    return tb.AdaLPBoostClassifier(tree, **given | params)


def worst_class():
    """Return a mixture of few boosted trees and a forest, as by default."""
    return tb.RobustMixtureClassifier(
        [
            ("boosted", HistBoostClassifier(n_estimators=5, n_jobs=1)),
            ("forest", TableForest(n_jobs=1, random_state=0)),
        ],
        n_jobs=1,
        random_state=0,
    )


@pytest.fixture
def path(tmp_path):
    return tmp_path / "m.model"


def parts(content):
    """Return the inner files of a model file."""
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


def packed(files):
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in files.items():
            archive.writestr(name, content)
    return out.getvalue()


def sealed(files):
    """Return a forged model file with a valid digest."""
    digest = lambda content: hashlib.blake2b(content, digest_size=16).hexdigest()  # noqa: E731
    record = {k: v for k, v in json.loads(files["tailboost.json"]).items() if k != "seal"}
    kept = {name: digest(content) for name, content in files.items() if name != "tailboost.json"}
    record["seal"] = digest(json.dumps([kept, record], sort_keys=True).encode())
    return packed(files | {"tailboost.json": json.dumps(record).encode()})


def with_record(content, **changes):
    files = parts(content)
    record = json.loads(files["tailboost.json"]) | changes
    return sealed(files | {"tailboost.json": json.dumps(record).encode()})


class TestRoundTrip:
    def test_targets_keep_the_key_none(self, path):
        """A dict of targets is a dict after loading too, so a selection anew reads it."""
        target = {"yes": 0.3, None: 0.5}
        tree = HistTreeClassifier(max_depth=2, n_jobs=1)
        for clf in (tb.RobustMixtureClassifier([("tree", tree)], objective="worst_class", max_error=target),):
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                model = clf.fit(X, Y)
                save_model(model, path)
                again = load_model(path)
                assert again.max_error == target
                anew = [each.reweight(X, Y).predict(X) for each in (again, model)]
            np.testing.assert_array_equal(*anew)

    @pytest.mark.thinned(3)
    @pytest.mark.parametrize("classifier", [adalp(), worst_class()], ids=lambda c: type(c).__name__)
    @pytest.mark.parametrize(
        "table",
        [X, X.astype(np.float32), FRAME, sp.csr_matrix(np.where(X > 0.5, X, 0.0))],
        ids=["float64", "float32", "frame", "sparse"],
    )
    def test_tables(self, path, classifier, table):
        model = classifier.fit(table, Y)
        save_model(model, path)
        np.testing.assert_array_equal(load_model(path).predict_proba(table), model.predict_proba(table))
        assert len(json.loads(parts(path.read_bytes())["tailboost.json"])["answers"]["labels"]) == 32

    @pytest.mark.parametrize(
        "learner", [HistTreeClassifier(n_jobs=1), HistBoostClassifier(n_estimators=5, n_jobs=1)]
    )
    def test_learners_by_themselves(self, path, learner):
        save_model(learner.fit(X, Y), path)
        np.testing.assert_array_equal(load_model(path).predict_proba(X), learner.predict_proba(X))

    def test_xgboost(self, path):
        xgboost = pytest.importorskip("xgboost")
        y = (Y == "yes").astype(int)
        model = xgboost.XGBClassifier(n_estimators=3, n_jobs=1).fit(X, y)
        save_model(model, path)
        np.testing.assert_array_equal(load_model(path).predict_proba(X), model.predict_proba(X))

    @pytest.mark.parametrize("n_jobs", [1, 3])
    def test_a_loaded_model_of_xgboost_has_its_number_of_threads(self, path, n_jobs):
        """The booster predicts with its own number, which is not in its content: it took all cores."""
        xgboost = pytest.importorskip("xgboost")
        model = xgboost.XGBClassifier(n_estimators=3, n_jobs=n_jobs).fit(X, (Y == "yes").astype(int))
        save_model(model, path)
        config = json.loads(load_model(path).get_booster().save_config())
        assert config["learner"]["generic_param"]["nthread"] == str(n_jobs)

    def test_a_loaded_model_can_be_saved(self, path, tmp_path):
        save_model(adalp().fit(X, Y), path)
        save_model(load_model(path), tmp_path / "again.model")
        again = load_model(tmp_path / "again.model")
        np.testing.assert_array_equal(again.predict_proba(X), load_model(path).predict_proba(X))

    def test_the_same_model_is_the_same_file(self, path, tmp_path):
        model = adalp().fit(X, Y)
        save_model(model, path)
        save_model(model, tmp_path / "again.model")
        assert path.read_bytes() == (tmp_path / "again.model").read_bytes()


class TestShared:
    @pytest.mark.parametrize("kind", [tb.AdaBoostClassifier, tb.AdaLPBoostClassifier])
    def test_a_summary_that_was_read_is_not_stored(self, path, tmp_path, kind):
        classifier = kind("tree", n_estimators=2, random_state=0).fit(X, Y)
        save_model(classifier, path)
        text = str(classifier.summary_)
        save_model(classifier, tmp_path / "read.model")
        assert (tmp_path / "read.model").read_bytes() == path.read_bytes()
        assert str(pickle.loads(pickle.dumps(classifier)).summary_) == text

    def test_members_that_share_a_fit_store_it_once(self, path):
        model = worst_class().fit(X, Y)
        save_model(model, path)
        one = len(pickle.dumps(model.selection_.member.table_))
        assert len(parts(path.read_bytes())["arrays.bin"]) < 2 * one

    def test_a_pickle_and_a_copy_share_too(self):
        model = worst_class().fit(X, Y)
        one = len(pickle.dumps(model.selection_.member.table_))
        assert len(pickle.dumps(model)) < 2 * one
        for other in (pickle.loads(pickle.dumps(model)), copy.deepcopy(model)):
            assert other.selection_.member.table_ is not model.selection_.member.table_

    def test_any_nesting_of_shared_containers(self, path):
        inner = {"a": [1, 2.5, None, "text", (True, b"\x00bytes")], 3: np.arange(3)}
        model = FunctionTransformer(kw_args={"one": inner, "two": [inner, inner["a"]], "b": b"\x00bytes"})
        save_model(model, path)
        args = load_model(path).kw_args
        assert args["one"] is args["two"][0]
        assert args["one"]["a"] is args["two"][1]
        assert args["one"]["a"] == inner["a"]
        assert args["b"] == b"\x00bytes"
        np.testing.assert_array_equal(args["one"][3], inner[3])

    def test_what_contains_itself_is_refused(self, path):
        loop = []
        loop.append(loop)
        with pytest.raises(TypeError, match="contains"):
            save_model(FunctionTransformer(kw_args={"loop": loop}), path)


class TestWriting:
    def test_what_could_not_be_loaded_is_not_written(self, path):
        with pytest.raises(TypeError, match=r"json.*dumps"):
            save_model(FunctionTransformer(func=json.dumps), path)
        assert not path.exists()

    @pytest.mark.parametrize("thing", [{}, [], "model", None, 1.0])
    def test_what_is_no_model_is_refused(self, path, thing):
        with pytest.raises(TypeError, match="fitted"):
            save_model(thing, path)
        assert not path.exists()

    @pytest.mark.parametrize("function", [json.dumps, lambda X: X, np.sum, partial(np.log), np.ndarray.sum])
    def test_functions_off_the_list_are_refused_with_the_list(self, path, function):
        for field in ("func", "inverse_func"):
            says = rf"as {field}; {field} may be one of numpy\.log, numpy\.log1p, .*trusted="
            with pytest.raises(TypeError, match=says):
                save_model(FunctionTransformer(**{field: function}), path)
        assert not path.exists()

    @pytest.mark.parametrize("name", UFUNCS)
    def test_functions_of_the_list_come_back(self, path, name):
        function = getattr(np, name.removeprefix("numpy."))
        save_model(FunctionTransformer(func=function, inverse_func=function), path)
        assert load_model(path).func is load_model(path).inverse_func is function
        assert name.removeprefix("numpy.") in inspect.getdoc(save_model)
        assert name.removeprefix("numpy.") in SECURITY

    @pytest.mark.parametrize("name", ["m.pkl", "m.joblib", "m", "m.model.json"])
    def test_another_suffix_is_refused(self, tmp_path, name):
        with pytest.raises(ValueError, match="model"):
            save_model(adalp().fit(X, Y), tmp_path / name)
        assert not list(tmp_path.iterdir())

    def test_a_write_that_fails_leaves_the_old_file(self, path, monkeypatch):
        model = adalp().fit(X, Y)
        save_model(model, path)
        before = path.read_bytes()

        def full(handle):
            raise OSError(28, "No space left on device")

        monkeypatch.setattr(os, "fsync", full)
        with pytest.raises(OSError, match="space"):
            save_model(model.set_params(n_estimators=2).fit(X, Y), path)
        assert path.read_bytes() == before
        assert list(path.parent.iterdir()) == [path]

    def test_no_row_of_the_training_table_is_stored(self, path):
        table = np.random.default_rng(5).normal(size=(400, 6))
        model = adalp().fit(table, table[:, 0] > 0)
        kept = model.probe_rows_
        assert kept.shape == (32, 6)
        assert not (kept[:, None, :] == table[None]).all(axis=2).any()
        assert all(np.isin(kept[:, j], table[:, j]).all() for j in range(6))

    @pytest.mark.parametrize(
        "model", [adalp(), worst_class(), tb.RobustMixtureClassifier(), RandomForestClassifier()]
    )
    def test_what_is_not_fitted_is_not_written(self, path, model):
        for each in (model, Pipeline([("classifier", model)])):
            with pytest.raises(NotFittedError, match="fitted"):
                save_model(each, path)
        assert not path.exists()

    def test_skops_is_not_needed(self, path, monkeypatch):
        monkeypatch.setitem(sys.modules, "skops", None)
        save_model(adalp().fit(X, Y), path)
        load_model(path)


class TestVersions:
    @pytest.fixture
    def content(self, path):
        save_model(adalp().fit(X, Y), path)
        return path.read_bytes()

    def test_other_labels_are_an_error_that_names_both_versions(self, content, path):
        record = json.loads(parts(content)["tailboost.json"])
        record["versions"]["numpy"]
        labels = [1 - k for k in record["answers"]["labels"]]
        path.write_bytes(
            with_record(
                content,
                versions=record["versions"] | {"numpy": "1.2.3"},
                answers=record["answers"] | {"labels": labels},
            )
        )
        with pytest.raises(ValueError, match="model"):
            load_model(path)
        assert load_model(path, check=False).n_iter_ == 3

    def test_a_class_that_was_renamed_since_is_of_another_version(self, content, path):
        versions = json.loads(parts(content)["tailboost.json"])["versions"] | {"tailboost": "0.0.1"}
        files = parts(with_record(content, versions=versions))
        path.write_bytes(
            sealed({n: d.replace(b"AdaLPBoostClassifier", b"LPAdaBoost") for n, d in files.items()})
        )
        with pytest.raises(ValueError, match="tailboost"):
            load_model(path)

    def test_other_shares_are_an_error(self, content, path):
        record = json.loads(parts(content)["tailboost.json"])
        near, far = (
            record["answers"]
            | {"probabilities": [[s + by for s in row] for row in record["answers"]["probabilities"]]}
            for by in (1e-8, 1e-5)
        )
        path.write_bytes(with_record(content, answers=near))
        load_model(path)
        path.write_bytes(with_record(content, answers=far))
        with pytest.raises(ValueError, match="differently"):
            load_model(path)

    def test_the_same_answers_under_other_versions_are_fine(self, content, path):
        record = json.loads(parts(content)["tailboost.json"])
        path.write_bytes(with_record(content, versions=record["versions"] | {"numpy": "1.2.3"}))
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            load_model(path)

    def test_without_probe_rows_other_versions_are_a_warning(self, path):
        save_model(HistTreeClassifier(n_jobs=1).fit(X, Y), path)
        record = json.loads(parts(path.read_bytes())["tailboost.json"])
        path.write_bytes(with_record(path.read_bytes(), versions=record["versions"] | {"xgboost": "0.1"}))
        with pytest.warns(ModelVersionWarning, match=r"xgboost 0\.1 \(here"):
            load_model(path)
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            load_model(path, check=False)

    def test_a_library_that_is_missing_here_is_named(self, content, path, monkeypatch):
        monkeypatch.setitem(sys.modules, "xgboost", None)
        with pytest.raises(ImportError, match=r"m\.model.*needs xgboost"):
            load_model(path)

    def test_another_tree_is_noticed(self, content, path, tmp_path):
        """Base models of another fit stand for another version of XGBoost."""
        save_model(adalp().fit(X, Y[::-1]), tmp_path / "other.model")
        own, other = parts(content), parts((tmp_path / "other.model").read_bytes())
        foreign = {k: other[k] for k in ("arrays.bin", "parts.json")}
        path.write_bytes(sealed(own | foreign))
        with pytest.raises(ValueError, match="differently"):
            load_model(path)

    @pytest.mark.parametrize(
        ("form", "words"),
        [
            (10, "format"),
            (99, "tailboost"),
        ],
    )
    def test_another_format_is_refused(self, content, path, form, words):
        path.write_bytes(with_record(content, format=form))
        with pytest.raises(ValueError, match=words):
            load_model(path)


class Malice:
    def __reduce__(self):
        return os.system, ("touch pwned",)


class TestForgery:
    @pytest.fixture
    def files(self, path):
        save_model(adalp().fit(X, Y), path)
        return parts(path.read_bytes())

    @pytest.mark.parametrize(
        "content", [b"", b"not a zip file", b"PK\x03\x04 broken", pickle.dumps(Malice())]
    )
    def test_no_model_file(self, path, content, monkeypatch):
        monkeypatch.chdir(path.parent)
        path.write_bytes(content)
        with pytest.raises(ValueError, match="model"):
            load_model(path)
        assert list(path.parent.iterdir()) == [path]

    def test_a_zip_of_something_else(self, path):
        path.write_bytes(packed({"readme.txt": b"hello"}))
        with pytest.raises(ValueError, match="model"):
            load_model(path)

    def test_absent_file(self, path):
        with pytest.raises(FileNotFoundError, match="model"):
            load_model(path)

    def test_references_do_not_multiply(self, files, path):
        """Forty lists, each with the previous list twice: 2⁴⁰ paths."""
        structure = json.loads(files["parts.json"])
        first = len(structure["parts"])
        structure["parts"].append(["list", []])
        structure["parts"] += [["list", [[k], [k]]] for k in range(first, first + 40)]
        path.write_bytes(sealed(files | {"parts.json": json.dumps(structure).encode()}))
        with pytest.raises(ValueError, match="refers"):
            load_model(path)

    @pytest.mark.parametrize(
        "answers", [[], {}, "text", {"labels": 3, "probabilities": None}, {"labels": [0]}, 7]
    )
    def test_records_that_are_none(self, files, path, answers):
        """The error about an invalid record names the file."""
        record = json.loads(files["tailboost.json"]) | {"answers": answers}
        path.write_bytes(sealed(files | {"tailboost.json": json.dumps(record).encode()}))
        with pytest.raises(ValueError, match=r"m\.model"):
            load_model(path)


def lying(files, large, size):
    """Return files and a large one with a wrong size in the directory."""
    content = bytearray(packed(files | {"large.bin": large}))
    for mark, name, at in ((b"PK\x01\x02", 46, 24), (b"PK\x03\x04", 30, 22)):
        start = content.find(mark)
        while content[start + name : start + name + 9] != b"large.bin":
            start = content.find(mark, start + 1)
        content[start + at : start + at + 4] = struct.pack("<I", size)
        content[start + at - 8 : start + at - 4] = struct.pack("<I", zlib.crc32(large[:size]))
    return bytes(content)


class TestBombs:
    """Small files with large contents are refused before any allocation."""

    LIMIT = 4_000_000

    @pytest.fixture
    def files(self, path):
        save_model(adalp().fit(X, Y), path)
        return parts(path.read_bytes())

    def refused(self, path, words, max_bytes=LIMIT, memory=3 * LIMIT):
        tracemalloc.start()
        try:
            with pytest.raises(ValueError, match=words):
                load_model(path, max_bytes=max_bytes)
            assert tracemalloc.get_traced_memory()[1] < memory
        finally:
            tracemalloc.stop()

    def test_contents(self, files, path):
        path.write_bytes(packed(files | {"large.bin": bytes(20_000_000)}))
        self.refused(path, r"m\.model.*contains 20,\d{3},\d{3} bytes, more than max_bytes=4,000,000")

    def test_structure(self, files, path):
        path.write_bytes(packed(files | {"parts.json": b'{"a":"' + b" " * 3_000_000 + b'"}'}))
        self.refused(path, r"m\.model.*has 3,\d{3},\d{3} bytes of text, more than 125,000")

    @pytest.mark.parametrize("member", ["parts.json", "ledgers.json", "tailboost.json", "further.json"])
    def test_text_of_many_small_objects(self, files, path, member):
        """All text together has one limit, as each of its objects takes twenty times its bytes."""
        path.write_bytes(packed(files | {member: b'{"x":[' + b"{}," * 300_000 + b"{}]}"}))
        self.refused(path, r"m\.model.*has \d{3},\d{3} bytes of text, more than 125,000", memory=4_000_000)

    def test_many_members_without_content(self, files, path):
        path.write_bytes(packed(files | {f"{k}": b"" for k in range(20_000)}))
        self.refused(path, "more than 100 members")

    def test_the_default_limit(self, files, path):
        path.write_bytes(lying(files, b"x", 2**31))
        self.refused(path, "more than max_bytes=1,073,741,824", max_bytes=2**30)

    def test_a_file_that_is_large_itself(self, path):
        with path.open("wb") as out:
            out.truncate(10**9)  # the value is not in the file
        self.refused(path, "contains 1,000,000,000 bytes, more than max_bytes")

    def test_a_directory_that_lies(self, files, path):
        path.write_bytes(lying(files, bytes(50_000_000), 10))
        self.refused(path, "damaged")

    @pytest.mark.parametrize("shape", [[10**12], [10**6, 10**6], [0, 10**30]])
    @pytest.mark.parametrize("dtype", ["<f8", "<U0", "|S0"])
    def test_headers(self, files, path, shape, dtype):
        structure = json.loads(files["parts.json"])
        structure["parts"][-1] = ["array", dtype, shape, "C", 0]
        path.write_bytes(sealed(files | {"parts.json": json.dumps(structure).encode()}))
        with pytest.raises(ValueError, match=r"m\.model"):
            load_model(path)

    def test_one_content_as_many_arrays(self, files, path):
        """Each array is a copy in memory, although the file contains one."""
        structure = json.loads(files["parts.json"])
        size = len(files["arrays.bin"])
        structure["parts"] += [["array", "|u1", [size], "C", 0]] * (2**23 // size + 1)
        path.write_bytes(sealed(files | {"parts.json": json.dumps(structure).encode()}))
        self.refused(path, "exceed max_bytes", max_bytes=2**23, memory=2**25)


VALUES = [
    None, 0, -1, 1e308, "", "x", "os", "system", "../../etc/passwd", [], {}, True, "builtins.eval", [0], [3],
    "os.system", "tailboost.app.cli.main", "object", "made", "dict", "tree", "array", "|O", 10**30,
    {"function": "os.system"}, {"type": "float"},
]  # fmt: skip


def places(part, at=()):
    """Yield every place in a structure."""
    for key, value in part.items() if isinstance(part, dict) else enumerate(part):
        yield (*at, key)
        if isinstance(value, dict | list):
            yield from places(value, (*at, key))


def changed_structure(original, draw):
    while (changed := _changed_somewhere(original, draw)) == json.dumps(original):
        pass
    return changed.encode()


def _changed_somewhere(original, draw):
    structure = json.loads(json.dumps(original))
    *way, last = draw.choice(list(places(structure)))
    part = structure
    for key in way:
        part = part[key]
    if draw.random() < 0.2 and isinstance(part, dict):
        del part[last]
    else:
        part[last] = draw.choice(VALUES)
    return json.dumps(structure)


def mutations(good, draw, n):
    """Yield damaged files: flipped bits, cut ends, lost, swapped or cut inner files, changed structures."""
    files = parts(good)
    structure = json.loads(files["parts.json"])
    arrays = files["arrays.bin"]
    for _ in range(n):
        flipped = bytearray(good)
        flipped[draw.randrange(len(good))] ^= 1 << draw.randrange(8)
        yield "flip", bytes(flipped)
    for end in (0, 1, 4, 22, 100, len(good) // 2, len(good) - 22, len(good) - 1):
        yield "cut", good[:end]
    yield "doubled", good + good
    yield "junk before", b"junk" * 10 + good
    yield "junk after", good + b"junk" * 10
    for name in list(files)[: n // 4]:
        yield "lost", packed({k: v for k, v in files.items() if k != name})
    yield "swapped", packed(files | {"arrays.bin": files["parts.json"], "parts.json": arrays})
    for _ in range(n // 4):
        yield "short", packed(files | {"arrays.bin": arrays[: draw.randrange(len(arrays))]})
        yield "garbage", packed(files | {"arrays.bin": draw.randbytes(20)})
        yield "more", packed(files | {"more.bin": b"more"})
    for _ in range(n):
        yield "structure", packed(files | {"parts.json": changed_structure(structure, draw)})
    record = json.loads(files["tailboost.json"])
    for _ in range(n // 4):
        yield "record", packed(files | {"tailboost.json": changed_structure(record, draw)})


def loaded(path):
    """Return a model and no message, or None and the message."""
    try:
        return load_model(path), ""
    except (ValueError, ImportError) as error:
        return None, str(error)


def campaign(models, path, n):
    """Damage model files; return the numbers of refused and of harmless files by kind of damage."""
    draw = random.Random(7)
    counts = {}
    for model in models:
        save_model(model, path)
        expected = model.predict_proba(X)
        for kind, content in mutations(path.read_bytes(), draw, n):
            path.write_bytes(content)
            again, message = loaded(path)
            assert path.name in message or np.array_equal(again.predict_proba(X), expected), kind
            outcome = "refused" if message else "harmless"
            counts[kind, outcome] = counts.get((kind, outcome), 0) + 1
    return counts


class TestMutations:
    """Each damaged file is refused by name, or its model predicts the same."""

    def test_a_few_hundred(self, path):
        counts = campaign([adalp().fit(X, Y), RandomForestClassifier(3, random_state=0).fit(X, Y)], path, 70)
        assert sum(counts.values()) >= 400
        # Each change of the file is detected.
        unseen = {kind for kind, outcome in counts if outcome == "harmless"}
        assert unseen <= {"flip", "junk before", "junk after", "doubled"}

    def test_forged_structures(self, path):
        """A changed file with a valid digest is refused, or predicts the same for the probe rows."""
        model = adalp().fit(X, Y)
        save_model(model, path)
        files = parts(path.read_bytes())
        structure = json.loads(files["parts.json"])
        draw = random.Random(8)
        for _ in range(100):
            path.write_bytes(sealed(files | {"parts.json": changed_structure(structure, draw)}))
            again, message = loaded(path)
            assert path.name in message or again is not None


def test_a_directory_is_no_model_file(tmp_path):
    with pytest.raises(IsADirectoryError, match="directory"):
        load_model(tmp_path)


def test_predict_takes_the_default_of_unknown_groups_as_its_rule_does():
    mix = tb.tune(
        tb.Scores("p", "yes"), pd.DataFrame({"p": [0.1, 0.4, 0.6, 0.9]}), ["no", "no", "yes", "yes"]
    )
    assert mix.predict(pd.DataFrame({"p": [0.3]}), default="no").tolist() == ["no"]
    assert mix.rule_.predict([0.3], default="no").tolist() == ["no"]
