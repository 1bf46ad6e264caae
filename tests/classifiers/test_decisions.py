"""Randomised decisions: one person, one draw; the secret stays secret."""

import copy
import ctypes
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
from tailboost.classifiers.decisions import members_drawn, verify

SECRET = b"a secret for the tests, no other"
CONTEXT = "tests-2026"
PAGE = (Path(__file__).parents[2] / "docs" / "draw-format.md").read_text(encoding="utf-8")


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


def by_the_book(secret, context, code, beacon=""):
    """The draw of an id as docs/draw-format.md describes it, from nothing but hashlib."""
    parts = [text.encode() for text in (context, beacon)]
    about = b"".join(len(part).to_bytes(8, "big") + part for part in parts)
    key = hashlib.blake2b(about, key=secret, digest_size=32, person=b"tailboost.key.2").digest()
    digest = hashlib.blake2b(code, key=key, digest_size=8, person=b"tailboost.draw.2").digest()
    return (int.from_bytes(digest, "big") // 2**11) / 2**53


class TestTheDraw:
    @pytest.mark.parametrize(
        ("one", "code"),
        [
            ("anna", b"tanna"),
            ("Zoë", "tZoë".encode()),
            (7, b"t7"),
            ("7", b"t7"),
            (-7, b"t-7"),
            (10**30, b"t" + str(10**30).encode()),
            (np.int16(7), b"t7"),
            (np.uint64(2**64 - 1), b"t18446744073709551615"),
            (np.str_("anna"), b"tanna"),
            (b"anna", b"banna"),
        ],
    )
    def test_is_the_hash_described(self, policy, one, code):
        assert policy.draw([one])[0] == by_the_book(SECRET, CONTEXT, code)

    def test_vectors_of_the_page(self, mixture):
        rows = re.findall(r"^\| `(.+?)` \| `(.+?)` \| `(.+?)` \| ([0-9.]+) \|$", PAGE, flags=re.MULTILINE)
        assert len(rows) >= 6
        for secret, context, one, u in rows:
            policy = tb.RandomizedDecision(mixture, bytes.fromhex(secret), context)
            assert policy.draw([eval(one)])[0] == float(u)
        commitments = re.findall(r"^\| `([0-9a-f]+)` \| `(.+?)` \| `([0-9a-f]{64})` \|$", PAGE, re.MULTILINE)
        assert len(commitments) >= 2
        for secret, context, commitment in commitments:
            policy = tb.RandomizedDecision(mixture, bytes.fromhex(secret), context)
            assert policy.commitment == commitment

    @pytest.mark.parametrize("dtype", [np.int64, np.int32, np.uint8, str, object])
    def test_columns_of_all_kinds(self, policy, dtype):
        column = np.arange(5, dtype=np.int64).astype(dtype)
        np.testing.assert_array_equal(policy.draw(column), policy.draw(range(5)))

    def test_bytes_with_nuls_at_their_end(self, policy):
        ids = [b"a", b"a\0", b"a\0\0"]
        assert len(set(policy.draw(ids))) == 3
        np.testing.assert_array_equal(policy.draw(np.array(ids, dtype=object)), policy.draw(ids))

    def test_a_beacon_draws_anew_and_is_not_committed_to(self, mixture, policy):
        drawn = {}
        for context, beacon in ((CONTEXT, ""), (CONTEXT, "7 12"), (CONTEXT + "7", " 12"), (CONTEXT, "7 13")):
            one = tb.RandomizedDecision(mixture, SECRET, context, beacon=beacon)
            drawn[context, beacon] = one.draw(["anna"])[0]
            assert drawn[context, beacon] == by_the_book(SECRET, context, b"tanna", beacon)
            assert (one.commitment == policy.commitment) == (context == CONTEXT)
        assert len(set(drawn.values())) == 4
        u = tb.RandomizedDecision(mixture, SECRET, CONTEXT, beacon="7 12").draw(range(9))
        given = {"secret": SECRET, "context": CONTEXT}
        assert verify(policy.commitment, range(9), u, beacon="7 12", **given)
        assert not verify(policy.commitment, range(9), u, **given)

    def test_columns_of_frames(self, policy):
        pd = pytest.importorskip("pandas")
        plain = policy.draw(["a", "b", "c"])
        for dtype in (object, "string", "category"):
            series = pd.Series(["a", "b", "c"], dtype=dtype, index=[5, 3, 1])
            np.testing.assert_array_equal(policy.draw(series), plain)
        np.testing.assert_array_equal(policy.draw(pd.Series([1, 2], dtype="Int64")), policy.draw([1, 2]))

    def test_nothing_collides(self, mixture):
        """Contexts and ids that read alike when put together, and ids that look alike."""
        drawn = {}
        ids = ["", "1", "01", b"1", "1 ", "t1", "b1", "é", "e\u0301", b"1\0", "\0001", "1.0", "+1", "１"]
        for context in ("a", "at", "a\0", "at1", "b", "é"):
            policy = tb.RandomizedDecision(mixture, SECRET, context)
            for one in ids[1:]:
                drawn[context, one] = policy.draw([one])[0]
        assert len(set(drawn.values())) == len(drawn)

    def test_one_bit_of_the_secret_changes_everything(self, mixture):
        ids = range(20_000)
        flipped = bytes([SECRET[0] ^ 1]) + SECRET[1:]
        before = tb.RandomizedDecision(mixture, SECRET, CONTEXT)
        after = tb.RandomizedDecision(mixture, flipped, CONTEXT)
        u, v = before.draw(ids), after.draw(ids)
        assert (u != v).all()
        assert abs(np.corrcoef(u, v)[0, 1]) < 4 / np.sqrt(len(u))
        bits = int(before.commitment, 16) ^ int(after.commitment, 16)
        assert 80 < bits.bit_count() < 176  # of 256; six standard deviations

    def test_shares_are_those_of_the_mixture(self, mixture, policy):
        """A χ² test on a million ids; the secret is fixed, so that this is no lottery."""
        u = policy.draw(range(10**6))
        weights = mixture.estimator_weights_
        used = weights > 0
        assert used.sum() > 1
        for shares in (weights, np.array([0.5, 0.0, 1e-3, 0.25, 0.249, 0.0])):
            seen = np.bincount(members_drawn(shares, u), minlength=len(shares))
            assert seen[shares == 0].sum() == 0
            expected = len(u) * shares[shares > 0]
            statistic = ((seen[shares > 0] - expected) ** 2 / expected).sum()
            assert statistic < chi2.isf(1e-3, len(expected) - 1)
        cells = np.bincount((u * 1000).astype(int), minlength=1000)
        assert chi2.isf(0.999, 999) < ((cells - 1000) ** 2 / 1000).sum() < chi2.isf(1e-3, 999)

    def test_the_member_is_that_of_the_cumulative_shares(self):
        shares = np.array([0.0, 0.25, 0.0, 0.5, 0.25, 0.0])
        u = np.array([0.0, np.nextafter(0.25, 0), 0.25, 0.5, 0.75, 1 - 2.0**-53])
        assert members_drawn(shares, u).tolist() == [1, 1, 3, 3, 4, 4]
        thirds = np.full(3, 1 / 3) * (1 - 1e-12)  # λ sums to 1 only to rounding
        assert members_drawn(thirds, np.array([1 - 2.0**-53])).tolist() == [2]


class TestTheAnswer:
    def test_the_member_drawn_answers(self, iris, mixture, policy):
        X, _ = iris
        decisions = policy.decide(X, range(150))
        assert len(set(decisions.member.tolist())) > 1
        for i, (y, member) in enumerate(zip(decisions.y, decisions.member, strict=True)):
            number = int(mixture.estimators_[member].predict(X[[i]])[0])
            assert y == mixture.classes_[number]
        np.testing.assert_array_equal(mixture.predict_with(X, decisions.member), decisions.y)

    def test_order_batch_and_one_by_one(self, iris, policy):
        X, _ = iris
        ids = np.array([f"plant {i}" for i in range(150)])
        whole = policy.decide(X, ids)
        order = np.random.default_rng(0).permutation(150)
        shuffled = policy.decide(X[order], ids[order])
        parts = list(policy.stream((X[a : a + 40], ids[a : a + 40]) for a in range(0, 150, 40)))
        single = [policy.decide(X[[i]], ids[[i]]) for i in range(150)]
        for name in ("y", "member", "u"):
            expected = getattr(whole, name)
            np.testing.assert_array_equal(getattr(shuffled, name), expected[order])
            np.testing.assert_array_equal(np.concatenate([getattr(d, name) for d in parts]), expected)
            np.testing.assert_array_equal(np.concatenate([getattr(d, name) for d in single]), expected)
        assert [len(d) for d in parts] == [40, 40, 40, 30]

    def test_a_stream_may_be_endless(self, iris, policy):
        def endless():
            i = 0
            while True:
                yield iris[0][:2], [i, i + 1]
                i += 2

        stream = policy.stream(endless())
        assert [len(next(stream)) for _ in range(5)] == [2] * 5

    def test_a_feature_buys_no_new_draw(self, iris, policy):
        X, _ = iris
        before, after = policy.decide(X, range(150)), policy.decide(X + 1e-9, range(150))
        np.testing.assert_array_equal(before.member, after.member)
        np.testing.assert_array_equal(before.u, after.u)

    def test_another_process(self, iris, mixture, policy, tmp_path):
        tb.save_model(mixture, tmp_path / "m.model")
        code = (
            "import sys, json, tailboost as tb; from sklearn.datasets import load_iris;"
            f"clf = tb.load_model({str(tmp_path / 'm.model')!r});"
            f"d = tb.RandomizedDecision(clf, {SECRET!r}, {CONTEXT!r}).decide(load_iris().data, range(150));"
            "print(json.dumps([d.y.tolist(), d.member.tolist(), d.u.tolist()]))"
        )
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
        here = policy.decide(iris[0], range(150))
        assert eval(done.stdout) == [here.y.tolist(), here.member.tolist(), here.u.tolist()]

    def test_pipelines_and_labels_of_text(self, iris):
        X, y = iris
        names = np.array(["setosa", "versicolor", "virginica"])[y]
        model = make_pipeline(
            StandardScaler(), tb.AverageBoostClassifier(DecisionTreeClassifier(max_depth=1), n_estimators=4)
        ).fit(X, names)
        decisions = tb.RandomizedDecision(model, SECRET, CONTEXT).decide(X, range(150))
        assert set(decisions.y) <= set(names)
        scaled = model[0].transform(X)
        np.testing.assert_array_equal(decisions.y, model[-1].predict_with(scaled, decisions.member))

    def test_frames(self, mixture, iris, policy):
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
    def test_members_that_are_none(self, iris, mixture, members, says):
        with pytest.raises(ValueError, match=says):
            mixture.predict_with(iris[0], members)


class TestRefused:
    @pytest.mark.parametrize(
        ("ids", "error", "says"),
        [
            ([1, 2, 2], ValueError, "'2' comes more than once"),
            ([1, "1", 3], ValueError, "'1' comes more than once"),
            ([1, None, 3], ValueError, "1 of 3 entries are missing"),
            ([1, np.nan, 3], ValueError, "1 of 3 entries are missing"),
            (np.array([1, np.nan, 3]), ValueError, "1 of 3 entries are missing"),
            (np.array([1.0, 2.0, 3.0]), TypeError, "float64"),
            ([1.0, 2.0, 3.0], TypeError, "1.0 of type float"),
            ([True, False, 1], TypeError, "True of type bool"),
            (np.array([True, False, True]), TypeError, "bool"),
            (["a", "", "c"], ValueError, "empty id"),
            (["a", "\ud800", "c"], ValueError, "UTF-8"),
            (["a", "b\0", "c"], ValueError, "ends in NUL"),
            (np.array([b"a", b"b", b"c"]), TypeError, "lose the NULs at their end"),
            (list(np.array([b"a", b"b", b"c"])), TypeError, "lose the NULs at their end"),
            (np.array(["2020-01-01"] * 3, dtype="M8[ns]"), TypeError, "datetime64"),
            ([np.timedelta64(1), 2, 3], TypeError, "timedelta64"),
            ([[1], [2], [3]], TypeError, "list"),
            (np.arange(3)[:, None], TypeError, r"\(3, 1\)"),
            ("abc", TypeError, "got a str"),
            ({"a", "b", "c"}, TypeError, "got a set"),
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
            (None, TypeError, "missing"),
            ("sixteen letters!", TypeError, "must be bytes, got a str"),
            (12345678901234567890, TypeError, "got a int"),
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
        with pytest.raises(TypeError, match="RandomForestClassifier has no shares"):
            tb.RandomizedDecision(RandomForestClassifier(n_estimators=2).fit(X, y), SECRET, CONTEXT)
        additive = tb.AdaBoostClassifier(DecisionTreeClassifier(max_depth=1), n_estimators=2).fit(X, y)
        with pytest.raises(TypeError, match="AdaBoostClassifier has no shares"):
            tb.RandomizedDecision(additive, SECRET, CONTEXT)
        with pytest.raises(NotFittedError):
            tb.RandomizedDecision(tb.AdaLPBoostClassifier(), SECRET, CONTEXT)
        with pytest.raises(TypeError, match="is a class"):
            tb.RandomizedDecision(tb.AdaLPBoostClassifier, SECRET, CONTEXT)


class TestTheSecretStaysSecret:
    def spoken(self, text):
        """Whether a text tells the secret in any of the usual spellings."""
        data = text if isinstance(text, bytes) else text.encode()
        return any(form in data for form in (SECRET, SECRET.hex().encode(), repr(SECRET).encode()))

    def test_nothing_holds_it(self, policy):
        seen, queue = set(), [policy]
        while queue:
            part = queue.pop()
            if id(part) in seen:
                continue
            seen.add(id(part))
            assert not (isinstance(part, bytes) and part == SECRET)
            assert not self.spoken(repr(part))
            queue.extend(vars(part).values() if hasattr(part, "__dict__") else [])
            queue.extend(part if isinstance(part, (list, tuple)) else [])
            queue.extend(part.values() if isinstance(part, dict) else [])

    def test_the_memory_of_what_draws_does_not_hold_it(self, policy):
        state = policy._key.drawing
        assert SECRET not in ctypes.string_at(id(state), sys.getsizeof(state))

    @pytest.mark.parametrize("store", [pickle.dumps, copy.copy, copy.deepcopy])
    def test_it_is_not_stored(self, policy, store):
        with pytest.raises(TypeError, match="would carry its secret"):
            store(policy)

    def test_it_is_not_saved(self, policy, mixture, tmp_path):
        with pytest.raises(TypeError, match="would carry its secret"):
            tb.save_model(policy, tmp_path / "p.model")
        assert not list(tmp_path.iterdir())

    def test_the_model_does_not_learn_it(self, policy, mixture, iris, tmp_path):
        before = pickle.dumps(mixture)
        policy.decide(iris[0], range(150))
        tb.save_model(mixture, tmp_path / "m.model")
        assert pickle.dumps(mixture) == before
        assert not self.spoken(before)
        assert not self.spoken((tmp_path / "m.model").read_bytes())

    def test_tracebacks_do_not_show_it(self, iris, mixture, policy):
        """With the variables of every frame of ours, as error trackers print them."""
        forest = RandomForestClassifier(n_estimators=2).fit(*iris)
        wrong = [
            lambda s: tb.RandomizedDecision(forest, s, CONTEXT),
            lambda s: tb.RandomizedDecision(mixture, s, ""),
            lambda s: tb.RandomizedDecision(mixture, s, "\ud800"),
            lambda s: tb.RandomizedDecision(mixture, s * 3, CONTEXT),
            lambda s: tb.RandomizedDecision(mixture, s.decode(), CONTEXT),
            lambda s: verify("00", [1, 1], [0.1, 0.2], secret=s, context=CONTEXT),
            lambda s: verify("00", [1, 2], [0.1], secret=s, context=CONTEXT),
            lambda s: verify(b"00", [1], [0.1], secret=s, context=CONTEXT),
            lambda s: policy.decide(iris[0], [1, 2]),
        ]
        for call in wrong:
            with pytest.raises((TypeError, ValueError)) as caught:
                call(SECRET)
            shown = traceback.TracebackException.from_exception(caught.value, capture_locals=True)
            ours = [frame for frame in shown.stack if "tailboost" in frame.filename and frame.locals]
            ours = [frame for frame in ours if Path(frame.filename) != Path(__file__)]
            assert ours
            for frame in ours:
                assert not self.spoken(repr(frame.locals)), frame
            assert not self.spoken(str(caught.value))

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
        said = capsys.readouterr()
        assert policy.commitment in said.out
        assert not any(self.spoken(text) for text in (stream.getvalue(), said.out, said.err))


class TestVerify:
    @pytest.fixture
    def decisions(self, iris, policy):
        return policy.decide(iris[0], range(150))

    def test_all_is_well(self, mixture, policy, decisions):
        audit = verify(policy.commitment, range(150), decisions.u, secret=SECRET, context=CONTEXT)
        assert audit
        assert audit.rows.all()
        assert str(audit) == "the secret is the one committed to; 150 of 150 draws agree"
        assert verify(
            policy.commitment.upper(), range(150), decisions.u, secret=SECRET, context=CONTEXT,
            member=decisions.member, shares=mixture.estimator_weights_,
        )  # fmt: skip

    def test_another_secret_or_context(self, policy, decisions):
        for secret, context in ((SECRET[::-1], CONTEXT), (SECRET, "tests-2027")):
            audit = verify(policy.commitment, range(150), decisions.u, secret=secret, context=context)
            assert not audit
            assert not audit.commitment
            assert not audit.rows.any()

    def test_a_row_that_was_tampered_with(self, mixture, policy, decisions):
        decisions.u[3] += 2.0**-53
        member = decisions.member.copy()
        member[5] = (member[5] + 1) % len(mixture.estimators_)
        audit = verify(
            policy.commitment, range(150), decisions.u, secret=SECRET, context=CONTEXT,
            member=member, shares=mixture.estimator_weights_,
        )  # fmt: skip
        assert audit.commitment
        assert not audit
        assert np.flatnonzero(~audit.rows).tolist() == [3, 5]
        assert "148 of 150" in str(audit)

    def test_refused(self, policy, decisions):
        given = {"secret": SECRET, "context": CONTEXT}
        with pytest.raises(ValueError, match="u must be 2 numbers"):
            verify(policy.commitment, [1, 2], [0.5], **given)
        with pytest.raises(ValueError, match="both or neither"):
            verify(policy.commitment, [1], [0.5], member=[0], **given)
        with pytest.raises(ValueError, match="sum to 1"):
            verify(policy.commitment, [1], [0.5], member=[0], shares=[0.2, 0.2], **given)
        with pytest.raises(ValueError, match="16 to 64"):
            verify(policy.commitment, [1], [0.5], secret=b"short", context=CONTEXT)


@pytest.fixture(scope="module")
def mix(iris):
    X, y = iris
    names = np.array(["setosa", "versicolor", "virginica"])
    estimators = [("forest", RandomForestClassifier(10, random_state=0)), ("bayes", GaussianNB())]
    mix = tb.RobustMixtureClassifier(
        estimators, max_error={"virginica": 0.02, None: 0.05}, randomized=True, random_state=0
    )
    return mix.fit(X[:, :2], names[y])


class TestAMixtureOfAnyModels:
    def test_each_person_is_answered_by_the_member_drawn(self, iris, mix):
        X, ids = iris[0][:, :2], [f"plant {i}" for i in range(150)]
        decided = tb.RandomizedDecision(mix, SECRET, CONTEXT).decide(X, ids)
        assert len(np.unique(decided.member)) > 1, "one member has it all: the draw is not tried"
        np.testing.assert_array_equal(
            decided.u, [by_the_book(SECRET, CONTEXT, b"t" + name.encode()) for name in ids]
        )
        assert (mix.estimator_weights_[decided.member] > 0).all()
        # Over all u the labels come as often as predict_distribution says.
        every = np.flatnonzero(mix.estimator_weights_)
        each = np.array([mix.predict_with(X, np.full(150, m)) for m in every])
        np.testing.assert_array_equal(decided.y, each[np.searchsorted(every, decided.member), np.arange(150)])
        share = np.array([mix.estimator_weights_[every] @ (each == label) for label in mix.classes_]).T
        np.testing.assert_allclose(share, mix.predict_distribution(X), atol=1e-8)

    def test_one_draw_cannot_settle_members_that_draw_themselves(self, iris):
        X, y = iris
        mix = tb.RobustMixtureClassifier(
            [("bayes", GaussianNB())], objective="cvar", alpha=0.1, random_state=0
        ).fit(X[:, :2], y)
        drawing = int(
            np.argmax(
                [("drawn" in name) * w for name, w in zip(mix.members_, mix.estimator_weights_, strict=True)]
            )
        )
        assert mix.estimator_weights_[drawing] > 0
        with pytest.raises(ValueError, match=r"draws its answer.*shares=False"):
            tb.RandomizedDecision(mix, SECRET, CONTEXT)
        with pytest.raises(ValueError, match=f"members holds {drawing}.*shares=False"):
            mix.predict_with(X[:2, :2], np.array([drawing, drawing]))

    def test_without_models_nobody_can_answer(self, iris):
        X, y = iris
        P = GaussianNB().fit(X[::2], y[::2]).predict_proba(X[1::2])
        mix = tb.RobustMixtureClassifier.from_probabilities({"bayes": P}, y[1::2])
        policy = tb.RandomizedDecision(mix, SECRET, CONTEXT)
        with pytest.raises(AttributeError, match="no models behind"):
            policy.decide(X[:2], ["a", "b"])
