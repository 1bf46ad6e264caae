"""Identities: weight is repetition, weight 0 is absence, order and duplicates mean nothing."""

import io

import numpy as np
import pandas as pd
import pytest

from tailboost.rows.fingerprints import hash_rows
from tailboost.rows.recognised import Seen


def test_hashes_are_about_content():
    X = np.array([[0.0, 1.0], [-0.0, 1.0], [1.0, 0.0], [np.nan, 2.0], [-np.nan, 2.0]])
    h = hash_rows(X)
    assert h[0] == h[1]
    assert h[3] == h[4]
    assert len(set(h.tolist())) == 3
    frame = pd.DataFrame(X)
    np.testing.assert_array_equal(h, hash_rows(frame))
    np.testing.assert_array_equal(hash_rows(X[::-1]), h[::-1])


@pytest.mark.parametrize("kind", ["csr", "csc", "coo"])
def test_hashes_of_sparse_rows_are_those_of_dense_rows(kind):
    import scipy.sparse as sp

    X = np.random.default_rng(0).integers(0, 3, (50, 6)).astype(float)
    np.testing.assert_array_equal(hash_rows(getattr(sp, f"{kind}_matrix")(X)), hash_rows(X))


def test_hashes_of_text_and_categories():
    values = ["a", "b", None, "a", "b"]
    for column in (pd.Series(values, dtype=object), pd.Series(values, dtype="category"), pd.Series(values)):
        h = hash_rows(pd.DataFrame({"t": column, "x": [1, 2, 3, 1, 9]}))
        assert h[0] == h[3]
        assert len(set(h.tolist())) == 4
    h = hash_rows(np.array([["a", 1], ["b", 1], ["a", 1]], dtype=object))
    assert h[0] == h[2] != h[1]


def test_hashes_of_many_texts_differ():
    numbers = np.random.default_rng(0).integers(0, 2**62, 200_000)
    words = np.array([f"client {number}" for number in numbers], dtype=object)[:, None]
    assert len(np.unique(hash_rows(words))) == len(words)
    np.testing.assert_array_equal(hash_rows(words[:1000].astype(str)), hash_rows(words[:1000]))


def known_share(rows, changed):
    return Seen.of(hash_rows(changed, rounded=True)).share_in(Seen.of(hash_rows(rows, rounded=True)))


@pytest.mark.parametrize("d", [1, 2, 5, 20, 60, 300])
def test_rows_are_known_after_what_files_and_types_do_to_numbers(d):
    rng = np.random.default_rng(d)
    X = rng.normal(size=(1000, d))
    X[::7, 0] = 0.0 if d > 1 else 1.0
    X[3, -1] = np.nan
    assert known_share(X, X.astype(np.float32)) == 1.0
    assert known_share(X, np.where(X == 0, -0.0, X)) == 1.0
    text = pd.DataFrame(X).to_csv(index=False, float_format="%.6g")
    for changed in (X.round(6), pd.read_csv(io.StringIO(text))):
        assert d > 20 or known_share(X, changed) > 0.2  # one in twenty is refused
    fresh = rng.normal(size=(1000, d))
    assert known_share(X, fresh) < 0.01


@pytest.mark.parametrize("scale", [1e-20, 1e-6, 1.0, 1e6, 1e30])
def test_fresh_rows_of_any_scale_are_not_known(scale):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(2000, 3)) * scale
    assert known_share(X[:1000], X[1000:]) < 0.01
    assert known_share(X, X.astype(np.float32)) == 1.0
    X[:, 0] = 1.7e18  # dates in nanoseconds do not hide the rest
    assert scale < 1e-10 or known_share(X[:1000], X[1000:]) < 0.05


def test_rows_are_known_whatever_holds_their_values():
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(rng.normal(size=(300, 2)), columns=["a", "b"]).assign(
        i=np.arange(300) % 7, yes=np.arange(300) % 2 == 0, t=np.where(np.arange(300) % 3, "x", "yy")
    )
    expected = hash_rows(frame, rounded=True)
    for changed in (
        frame.astype(object),
        frame.to_numpy(dtype=object),
        frame.assign(i=frame.i.astype(str), yes=frame.yes.astype(int)),
        frame.assign(i=frame.i.astype("Int64"), yes=frame.yes.astype(object), t=frame.t.astype("category")),
        frame.assign(i=frame.i.astype("category"), a=frame.a.astype(np.float32), t=frame.t.astype("string")),
        frame.assign(i=frame.i.astype(float), b=frame.b.astype(object)),
    ):
        np.testing.assert_array_equal(hash_rows(changed, rounded=True), expected)
    units = ["D", "h", "500ms", "1001us", "1001ns"]  # some have midnights, or whole seconds
    times = [pd.date_range("2020-01-01", periods=300, freq=unit) for unit in units]
    for column in (*times, *(each - each[7] for each in times)):  # and durations
        days = pd.DataFrame({"a": frame.a, "t": column})
        from_file = pd.read_csv(io.StringIO(days.to_csv(index=False)))
        other_sign = from_file.assign(t=from_file.t.str.replace(r"^(\S{10}) ", r"\1T", regex=True))
        for same in (from_file, other_sign, days.astype(object)):
            np.testing.assert_array_equal(hash_rows(same, rounded=True), hash_rows(days, rounded=True))
    missing = [None, np.nan, pd.NA, pd.NaT]
    assert len(set(hash_rows(np.array([missing], dtype=object).T, rounded=True).tolist())) == 1
    other = frame.assign(t=np.where(np.arange(300) % 3, "x", "y"))
    assert (hash_rows(other, rounded=True) == expected).mean() == pytest.approx(2 / 3)
    pixels = rng.integers(0, 256, (20, 6, 6, 3), dtype=np.uint8)
    of_floats = hash_rows(pixels.astype(np.float32), rounded=True)
    np.testing.assert_array_equal(hash_rows(pixels, rounded=True), of_floats)


@pytest.mark.parametrize("kind", ["csr", "csc", "coo"])
def test_sparse_rows_are_known_as_dense_ones(kind):
    import scipy.sparse as sp

    rng = np.random.default_rng(0)
    X = rng.normal(size=(60, 30)) * (rng.random((60, 30)) < 0.2)
    X[3, 4] = np.nan
    sparse = getattr(sp, f"{kind}_matrix")(X)
    np.testing.assert_array_equal(hash_rows(sparse, rounded=True), hash_rows(X, rounded=True))
    twice = sp.csr_matrix((np.r_[1.0, 2.0, 5.0], np.r_[1, 1, 0], np.r_[0, 2, 3]), shape=(2, 3))
    before = twice.data.copy()
    for rounded in (False, True):
        expected = hash_rows(twice.toarray(), rounded=rounded)
        np.testing.assert_array_equal(hash_rows(twice, rounded=rounded), expected)
    np.testing.assert_array_equal(twice.data, before)  # the caller's matrix does not change


def test_folds_are_still_drawn_by_the_very_numbers():
    X = np.random.default_rng(0).normal(size=(50, 3))
    assert (hash_rows(X) != hash_rows(X + 1e-12)).all()
