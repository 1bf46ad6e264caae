"""Randomised decisions: one draw per person, and a secret that is not stored."""

import copy
import hashlib
import io
import logging
import pickle
import re
import subprocess
import sys
import traceback
from pathlib import Path

import numpy as np
import pytest
from scipy.stats import chi2
from sklearn.base import clone
from sklearn.datasets import load_iris
from sklearn.ensemble import RandomForestClassifier
from sklearn.exceptions import NotFittedError
from sklearn.naive_bayes import GaussianNB
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.tree import DecisionTreeClassifier

import tailboost as tb
from tailboost.classifiers.decisions import drawn_candidates, verify

SECRET = b"a secret for the tests, no other"
CONTEXT = "tests-2026"
GIVEN = {"secret": SECRET, "context": CONTEXT}


@pytest.fixture(scope="module")
def iris():
    return load_iris(return_X_y=True)


@pytest.fixture(scope="module")
def mixture(iris):
    stumps = DecisionTreeClassifier(max_depth=1)
    return tb.AdaLPBoostClassifier(stumps, n_estimators=8, alpha=0.3, random_state=0).fit(*iris)


@pytest.fixture
def policy(mixture):
    return tb.RandomizedDecision(mixture, SECRET, CONTEXT)


def documented_draw(secret, context, code):
    """The draw of an id by the format in docs/decisions.md, with hashlib alone."""
    key = hashlib.blake2b(context.encode(), key=secret, digest_size=32, person=b"tailboost.key.3").digest()
    digest = hashlib.blake2b(code, key=key, digest_size=8, person=b"tailboost.draw.3").digest()
    return (int.from_bytes(digest, "big") // 2**11) / 2**53


class TestDraw:
    @pytest.mark.parametrize(
        ("identity", "code"),
        [
            ("anna", b"anna"),
            ("Zoë", "Zoë".encode()),
            (7, b"7"),
            ("7", b"7"),
            (-7, b"-7"),
            (10**30, str(10**30).encode()),
            (np.int16(7), b"7"),
            (np.uint64(2**64 - 1), b"18446744073709551615"),
            (np.str_("anna"), b"anna"),
        ],
    )
    def test_documented_hash(self, policy, identity, code):
        assert policy.draw([identity])[0] == documented_draw(SECRET, CONTEXT, code)

    def test_vectors_of_the_page(self, mixture):
        page = next(p / "docs" for p in Path(__file__).parents if (p / "docs").exists()) / "decisions.md"
        rows = re.findall(
            r"^\| `(.+?)` \| `(.+?)` \| `(.+?)` \| ([0-9.]+) \|$", page.read_text("utf-8"), flags=re.MULTILINE
        )
        assert len(rows) >= 6
        for secret, context, identity, u in rows:
            policy = tb.RandomizedDecision(mixture, bytes.fromhex(secret), context)
            assert policy.draw([eval(identity)])[0] == float(u)

    @pytest.mark.parametrize("dtype", [np.int64, np.int32, np.uint8, str, object])
    def test_array_dtypes(self, policy, dtype):
        column = np.arange(5, dtype=np.int64).astype(dtype)
        np.testing.assert_array_equal(policy.draw(column), policy.draw(range(5)))

    def test_pandas_columns(self, policy):
        pd = pytest.importorskip("pandas")
        plain = policy.draw(["a", "b", "c"])
        for dtype in (object, "string", "category"):
            series = pd.Series(["a", "b", "c"], dtype=dtype, index=[5, 3, 1])
            np.testing.assert_array_equal(policy.draw(series), plain)
        np.testing.assert_array_equal(policy.draw(pd.Series([1, 2], dtype="Int64")), policy.draw([1, 2]))

    def test_contexts_and_similar_ids_draw_apart(self, mixture):
        drawn = {}
        ids = ["1", "01", "1 ", "t1", "b1", "é", "e\u0301", "\0001", "1.0", "+1", "１"]
        for context in ("a", "at", "a\0", "at1", "b", "é"):
            policy = tb.RandomizedDecision(mixture, SECRET, context)
            for identity in ids:
                drawn[context, identity] = policy.draw([identity])[0]
        assert len(set(drawn.values())) == len(drawn)

    def test_one_bit_of_the_secret_changes_all_draws(self, mixture, policy):
        flipped = bytes([SECRET[0] ^ 1]) + SECRET[1:]
        u = policy.draw(range(20_000))
        v = tb.RandomizedDecision(mixture, flipped, CONTEXT).draw(range(20_000))
        assert (u != v).all()
        assert abs(np.corrcoef(u, v)[0, 1]) < 4 / np.sqrt(len(u))

    @pytest.mark.slow
    def test_frequencies_are_the_mixture_weights(self, mixture, policy):
        """A χ² test on a million ids with a fixed secret, so that the result is reproducible."""
        u = policy.draw(range(10**6))
        weights = mixture.estimator_weights_
        assert (weights > 0).sum() > 1
        for lam in (weights, np.array([0.5, 0.0, 1e-3, 0.25, 0.249, 0.0])):
            counts = np.bincount(drawn_candidates(lam, u), minlength=len(lam))
            assert counts[lam == 0].sum() == 0
            expected = len(u) * lam[lam > 0]
            statistic = ((counts[lam > 0] - expected) ** 2 / expected).sum()
            assert statistic < chi2.isf(1e-3, len(expected) - 1)
        cells = np.bincount((u * 1000).astype(int), minlength=1000)
        assert chi2.isf(0.999, 999) < ((cells - 1000) ** 2 / 1000).sum() < chi2.isf(1e-3, 999)

    def test_candidate_by_cumulative_weights(self):
        weights = np.array([0.0, 0.25, 0.0, 0.5, 0.25, 0.0])
        u = np.array([0.0, np.nextafter(0.25, 0), 0.25, 0.5, 0.75, 1 - 2.0**-53])
        assert drawn_candidates(weights, u).tolist() == [1, 1, 3, 3, 4, 4]
        thirds = np.full(3, 1 / 3) * (1 - 1e-12)  # the sum is 1 up to rounding
        assert drawn_candidates(thirds, np.array([1 - 2.0**-53])).tolist() == [2]


class TestDecide:
    def test_drawn_candidate_answers(self, iris, mixture, policy):
        X, _ = iris
        decisions = policy.decide(X, range(150))
        assert len(set(decisions.candidate.tolist())) > 1
        for i, (y, candidate) in enumerate(zip(decisions.y, decisions.candidate, strict=True)):
            number = int(mixture.estimators_[candidate].predict(X[[i]])[0])
            assert y == mixture.classes_[number]
        np.testing.assert_array_equal(mixture.predict_with(X, decisions.candidate), decisions.y)

    def test_order_and_batches_have_no_effect(self, iris, policy):
        X, _ = iris
        ids = np.array([f"plant {i}" for i in range(150)])
        whole = policy.decide(X, ids)
        order = np.random.default_rng(0).permutation(150)
        shuffled = policy.decide(X[order], ids[order])
        single = [policy.decide(X[[i]], ids[[i]]) for i in range(150)]
        for name in ("y", "candidate", "u"):
            expected = getattr(whole, name)
            np.testing.assert_array_equal(getattr(shuffled, name), expected[order])
            np.testing.assert_array_equal(np.concatenate([getattr(d, name) for d in single]), expected)
        assert len(whole) == 150

    def test_features_have_no_effect_on_the_draw(self, iris, policy):
        X, _ = iris
        before, after = policy.decide(X, range(150)), policy.decide(X + 1e-9, range(150))
        np.testing.assert_array_equal(before.candidate, after.candidate)
        np.testing.assert_array_equal(before.u, after.u)

    @pytest.mark.slow
    def test_another_process(self, iris, mixture, policy, tmp_path):
        tb.save_model(mixture, tmp_path / "m.model")
        code = (
            "import sys, json, tailboost as tb; from sklearn.datasets import load_iris;"
            f"clf = tb.load_model({str(tmp_path / 'm.model')!r});"
            f"d = tb.RandomizedDecision(clf, {SECRET!r}, {CONTEXT!r}).decide(load_iris().data, range(150));"
            "print(json.dumps([d.y.tolist(), d.candidate.tolist(), d.u.tolist()]))"
        )
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
        here = policy.decide(iris[0], range(150))
        assert eval(done.stdout) == [here.y.tolist(), here.candidate.tolist(), here.u.tolist()]

    def test_pipelines_and_text_labels(self, iris):
        X, y = iris
        names = np.array(["setosa", "versicolor", "virginica"])[y]
        model = make_pipeline(
            StandardScaler(), tb.AverageBoostClassifier(DecisionTreeClassifier(max_depth=1), n_estimators=4)
        ).fit(X, names)
        decisions = tb.RandomizedDecision(model, SECRET, CONTEXT).decide(X, range(150))
        assert set(decisions.y) <= set(names)
        scaled = model[0].transform(X)
        np.testing.assert_array_equal(decisions.y, model[-1].predict_with(scaled, decisions.candidate))

    def test_data_frames(self, mixture, iris, policy):
        pd = pytest.importorskip("pandas")
        X, y = iris
        frame = pd.DataFrame(X, columns=list("abcd"), index=np.arange(150)[::-1])
        clf = clone(mixture).fit(frame, y)
        drawn = tb.RandomizedDecision(clf, SECRET, CONTEXT).decide(frame, frame.index)
        np.testing.assert_array_equal(drawn.y, policy.decide(X, np.arange(150)[::-1]).y)

    @pytest.mark.parametrize(
        ("members", "says"),
        [([0], "one per row"), ([0.0] * 150, "integers"), ([99] * 150, "99"), ([-1] * 150, "-1")],
    )
    def test_predict_with_refuses_other_numbers(self, iris, mixture, members, says):
        with pytest.raises(ValueError, match=says):
            mixture.predict_with(iris[0], members)


class TestRefused:
    @pytest.mark.parametrize(
        ("ids", "error", "says"),
        [
            ([1, 2, 2], ValueError, "'2' comes more than once"),
            ([1, "1", 3], ValueError, "mixes text"),
            ([1, None, 3], ValueError, "1 of 3 entries are missing"),
            ([1, np.nan, 3], ValueError, "1 of 3 entries are missing"),
            (np.array([1, np.nan, 3]), ValueError, "1 of 3 entries are missing"),
            (np.array([1.0, 2.0, 3.0]), TypeError, "float64"),
            ([1.0, 2.0, 3.0], TypeError, "1.0 of type float"),
            ([True, False, 1], TypeError, "True of type bool"),
            (np.array([True, False, True]), TypeError, "bool"),
            (["a", "", "c"], ValueError, "is empty"),
            (["a", "\ud800", "c"], ValueError, "UTF-8"),
            (["a", "b\0", "c"], ValueError, "ends in NUL"),
            (np.array([b"a", b"b", b"c"]), TypeError, "bytes"),
            ([b"a", b"b", b"c"], TypeError, "bytes"),
            (np.array(["2020-01-01"] * 3, dtype="M8[ns]"), TypeError, "datetime64"),
            ([np.timedelta64(1), 2, 3], TypeError, "timedelta64"),
            ([[1], [2], [3]], TypeError, r"\(3, 1\)"),
            (np.arange(3)[:, None], TypeError, r"\(3, 1\)"),
            ("abc", TypeError, "got str"),
            ({"a", "b", "c"}, TypeError, "got set"),
            (None, TypeError, "NoneType"),
            ([1, 2], ValueError, "ids has 2 entries, X has 3 rows"),
        ],
    )
    def test_ids(self, iris, policy, ids, error, says):
        with pytest.raises(error, match=says):
            policy.decide(iris[0][:3], ids)

    @pytest.mark.parametrize(
        ("secret", "error", "says"),
        [
            (None, TypeError, "got None"),
            ("sixteen letters!", TypeError, "must be bytes, got str"),
            (12345678901234567890, TypeError, "got int"),
            (b"", ValueError, "got 0"),
            (b"swordfish-short", ValueError, "16 to 64 bytes, got 15"),
            (b"x" * 65, ValueError, "got 65"),
        ],
    )
    def test_secrets(self, mixture, secret, error, says):
        with pytest.raises(error, match=says) as caught:
            tb.RandomizedDecision(mixture, secret, CONTEXT)
        assert "swordfish" not in str(caught.value)

    @pytest.mark.parametrize(
        ("context", "error"), [("", ValueError), (None, TypeError), (b"c", TypeError), ("\ud800", ValueError)]
    )
    def test_contexts(self, mixture, context, error):
        with pytest.raises(error, match="context"):
            tb.RandomizedDecision(mixture, SECRET, context)

    def test_models(self, iris):
        X, y = iris
        with pytest.raises(TypeError, match="RandomForestClassifier has no mixture weights"):
            tb.RandomizedDecision(RandomForestClassifier(n_estimators=2).fit(X, y), SECRET, CONTEXT)
        additive = tb.AdaBoostClassifier(DecisionTreeClassifier(max_depth=1), n_estimators=2).fit(X, y)
        with pytest.raises(TypeError, match="AdaBoostClassifier has no mixture weights"):
            tb.RandomizedDecision(additive, SECRET, CONTEXT)
        with pytest.raises(NotFittedError):
            tb.RandomizedDecision(tb.AdaLPBoostClassifier(), SECRET, CONTEXT)
        with pytest.raises(TypeError, match="is a class"):
            tb.RandomizedDecision(tb.AdaLPBoostClassifier, SECRET, CONTEXT)


def contains_secret(text):
    """Whether a text contains the secret in one of the usual spellings."""
    data = text if isinstance(text, bytes) else text.encode()
    return any(form in data for form in (SECRET, SECRET.hex().encode(), repr(SECRET).encode()))


class TestSecret:
    def test_no_attribute_holds_it(self, policy):
        assert all(
            not isinstance(part, bytes) and not contains_secret(repr(part)) for part in vars(policy).values()
        )

    @pytest.mark.parametrize("store", [pickle.dumps, copy.copy, copy.deepcopy])
    def test_pickles_and_copies_are_refused(self, policy, store):
        with pytest.raises(TypeError, match="holds a secret key"):
            store(policy)

    def test_model_files_do_not_hold_it(self, policy, mixture, iris, tmp_path):
        with pytest.raises(TypeError, match="holds a secret key"):
            tb.save_model(policy, tmp_path / "p.model")
        assert not list(tmp_path.iterdir())
        policy.decide(iris[0], range(150))
        tb.save_model(mixture, tmp_path / "m.model")
        assert not contains_secret(pickle.dumps(mixture))
        assert not contains_secret((tmp_path / "m.model").read_bytes())

    def test_tracebacks_do_not_show_it(self, iris, mixture, policy):
        """Also not among the local variables of the library's frames, as error trackers print them."""
        forest = RandomForestClassifier(n_estimators=2).fit(*iris)
        wrong = [
            lambda s: tb.RandomizedDecision(forest, s, CONTEXT),
            lambda s: tb.RandomizedDecision(mixture, s, ""),
            lambda s: tb.RandomizedDecision(mixture, s, "\ud800"),
            lambda s: tb.RandomizedDecision(mixture, s * 3, CONTEXT),
            lambda s: tb.RandomizedDecision(mixture, s.decode(), CONTEXT),
            lambda s: verify([1, 1], [0.1, 0.2], secret=s, context=CONTEXT),
            lambda s: verify([1, 2], [0.1], secret=s, context=CONTEXT),
            lambda s: policy.decide(iris[0], [1, 2]),
        ]
        for call in wrong:
            with pytest.raises((TypeError, ValueError)) as caught:
                call(SECRET)
            shown = traceback.TracebackException.from_exception(caught.value, capture_locals=True)
            frames = [frame for frame in shown.stack if "tailboost" in frame.filename and frame.locals]
            frames = [frame for frame in frames if Path(frame.filename) != Path(__file__)]
            assert frames
            for frame in frames:
                assert not contains_secret(repr(frame.locals)), frame
            assert not contains_secret(str(caught.value))

    def test_logs_and_output_do_not_show_it(self, iris, mixture, capsys):
        stream = io.StringIO()
        handler = logging.StreamHandler(stream)
        root, level = logging.getLogger(), logging.getLogger().level
        root.addHandler(handler)
        root.setLevel(logging.DEBUG)
        try:
            policy = tb.RandomizedDecision(mixture, SECRET, CONTEXT)
            print(policy, policy.decide(iris[0], range(150)))
        finally:
            root.removeHandler(handler)
            root.setLevel(level)
        printed = capsys.readouterr()
        assert not any(contains_secret(text) for text in (stream.getvalue(), printed.out, printed.err))


class TestVerify:
    def test_recorded_draws_agree(self, iris, policy):
        decisions = policy.decide(iris[0], range(150))
        assert verify(range(150), decisions.u, **GIVEN).all()
        for other in ({"secret": SECRET[::-1]}, {"context": "tests-2027"}):
            assert not verify(range(150), decisions.u, **(GIVEN | other)).any()
        decisions.u[3] += 2.0**-53
        assert np.flatnonzero(~verify(range(150), decisions.u, **GIVEN)).tolist() == [3]

    def test_refused(self):
        with pytest.raises(ValueError, match="u must be 2 numbers"):
            verify([1, 2], [0.5], **GIVEN)
        with pytest.raises(ValueError, match="16 to 64"):
            verify([1], [0.5], secret=b"short", context=CONTEXT)


@pytest.fixture(scope="module")
def mix(iris):
    X, y = iris
    names = np.array(["setosa", "versicolor", "virginica"])
    estimators = [("forest", RandomForestClassifier(10, random_state=0)), ("bayes", GaussianNB())]
    mix = tb.RobustMixtureClassifier(
        estimators, max_error={"virginica": 0.02, None: 0.05}, randomized=True, random_state=0
    )
    return mix.fit(X[:, :2], names[y])


class TestRobustMixture:
    def test_drawn_candidate_answers(self, iris, mix):
        X, ids = iris[0][:, :2], [f"plant {i}" for i in range(150)]
        decided = tb.RandomizedDecision(mix, SECRET, CONTEXT).decide(X, ids)
        assert len(np.unique(decided.candidate)) > 1, "one candidate has all weight: the draw is not tested"
        np.testing.assert_array_equal(
            decided.u, [documented_draw(SECRET, CONTEXT, name.encode()) for name in ids]
        )
        used = np.flatnonzero(mix.estimator_weights_)
        answers = np.array([mix.predict_with(X, np.full(150, m)) for m in used])
        np.testing.assert_array_equal(
            decided.y, answers[np.searchsorted(used, decided.candidate), np.arange(150)]
        )
        # Over all u the labels have the frequencies of predict_distribution.
        share = np.array([mix.estimator_weights_[used] @ (answers == label) for label in mix.classes_]).T
        np.testing.assert_allclose(share, mix.predict_distribution(X), atol=1e-8)

    def test_candidates_that_draw_themselves_are_refused(self, iris):
        X, y = iris
        mix = tb.RobustMixtureClassifier(
            [("bayes", GaussianNB())], objective="cvar", alpha=0.1, random_state=0
        ).fit(X[:, :2], y)
        weights = [
            ("drawn" in name) * w for name, w in zip(mix.candidates_, mix.estimator_weights_, strict=True)
        ]
        drawing = int(np.argmax(weights))
        assert mix.estimator_weights_[drawing] > 0
        with pytest.raises(ValueError, match=r"draws its own answers.*a rate as objective"):
            tb.RandomizedDecision(mix, SECRET, CONTEXT)
        with pytest.raises(ValueError, match=f"members holds {drawing}.*a rate as its objective"):
            mix.predict_with(X[:2, :2], np.array([drawing, drawing]))

    def test_a_rule_without_models_cannot_answer(self, iris):
        X, y = iris
        P = GaussianNB().fit(X[::2], y[::2]).predict_proba(X[1::2])
        mix = tb.RobustMixtureClassifier.from_probabilities({"bayes": P}, y[1::2])
        policy = tb.RandomizedDecision(mix, SECRET, CONTEXT)
        with pytest.raises(AttributeError, match="has no models"):
            policy.decide(X[:2], ["a", "b"])
