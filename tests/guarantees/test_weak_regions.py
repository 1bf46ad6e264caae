"""Weak regions: planted regions are found, pure noise gives none, and the names describe the rows."""

import numpy as np
import pandas as pd
import pytest

import tailboost as tb
from tailboost.guarantees.weak_regions import _p_value


def planted(n, seed, excess=0.25):
    """Return features, errors and the mask of a region with about 16 % of the rows."""
    rng = np.random.default_rng(seed)
    X = pd.DataFrame(
        {
            "age": rng.integers(18, 90, n),
            "income": rng.normal(size=n),
            "city": rng.choice(["Bern", "Oslo", "Rome"], n),
        }
    )
    weak = ((X["city"] == "Oslo") & (X["age"] > 50)).to_numpy()
    return X, rng.random(n) < 0.1 + excess * weak, weak


def test_a_planted_region_is_found_by_name():
    X, errors, weak = planted(6000, 0)
    regions = tb.WeakRegions(max_depth=2, random_state=0).fit(X, errors)
    names = regions.transform(X)
    assert len(regions.regions_) == 1
    assert "city = Oslo" in regions.regions_[0].name
    assert "age > " in regions.regions_[0].name
    assert np.mean((names != "other") == weak) > 0.97
    assert regions.regions_[0].name in regions.summary()


def test_noise_gives_no_region_in_most_samples():
    """At level .05 about one sample in twenty may give a region; 200 samples give at most 20 (p < .003)."""
    found = 0
    for seed in range(200):
        rng = np.random.default_rng(seed)
        X = rng.normal(size=(600, 4))
        found += bool(tb.WeakRegions(random_state=seed).fit(X, rng.random(600) < 0.2).regions_)
    assert found <= 20


def test_expected_errors_explain_difficult_rows():
    """Rows with a high error that the model expects are no weak region."""
    rng = np.random.default_rng(1)
    X = rng.normal(size=(5000, 2))
    p = np.where(X[:, 0] > 0, 0.4, 0.05)
    errors = rng.random(5000) < p
    assert tb.WeakRegions(random_state=0).fit(X, errors).regions_
    assert not tb.WeakRegions(random_state=0).fit(X, errors, expected=p).regions_


def test_certify_bounds_the_regions_on_fresh_rows():
    X, errors, _ = planted(4000, 2)
    regions = tb.WeakRegions(max_depth=2, random_state=0).fit(X, errors)
    fresh, errors, _ = planted(4000, 3)
    y = np.zeros(4000, int)
    certificate = tb.certify(errors.astype(int), None, y, groups=regions.transform(fresh))
    assert {"other", regions.regions_[0].name} <= set(regions.transform(fresh))
    assert regions.regions_[0].name in str(certificate)


def test_missing_values_and_arrays():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(3000, 2))
    X[rng.random(X.shape) < 0.1] = np.nan
    regions = tb.WeakRegions(random_state=0).fit(X, rng.random(3000) < np.where(X[:, 0] > 0.5, 0.6, 0.1))
    assert all("x0" in region.name for region in regions.regions_)
    assert regions.regions_


@pytest.mark.parametrize(
    ("errors", "message"),
    [(np.zeros(10), "errors"), (np.full(500, 2.0), r"errors must be one number in \[0, 1\]")],
)
def test_bad_errors_are_refused(errors, message):
    with pytest.raises(ValueError, match=message):
        tb.WeakRegions().fit(np.zeros((500, 2)), errors)


def test_few_rows_are_refused():
    with pytest.raises(ValueError, match="100 rows; min_rows=100 in each half needs 200"):
        tb.WeakRegions().fit(np.zeros((100, 2)), np.zeros(100))


def test_an_array_of_texts_is_refused_by_its_column():
    X, errors, _ = planted(400, 0)
    with pytest.raises(ValueError, match=r"column 2 holds '(Bern|Oslo|Rome)', which is no number"):
        tb.WeakRegions().fit(X.to_numpy(), errors)
    assert tb.WeakRegions().fit(X[["age", "income"]].to_numpy().astype(str), errors).n_tested_ >= 0
    with pytest.raises(ValueError, match="n rows and d columns"):
        tb.WeakRegions().fit(X["age"].to_numpy(), errors)


def test_a_single_condition_is_one_region():
    """A tree of depth 3 cuts the planted region once."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(8000, 3))
    weak = X[:, 1] > 1
    regions = tb.WeakRegions(random_state=0).fit(X, rng.random(8000) < np.where(weak, 0.5, 0.1))
    assert len(regions.regions_) == 1
    assert np.mean((regions.transform(X) != "other") == weak) > 0.98


def exact_tail(probabilities, count):
    """Return the probability that so many or more of independent events happen, by convolution."""
    distribution = np.ones(1)
    for p in probabilities:
        distribution = np.convolve(distribution, [1 - p, p])
    return distribution[count:].sum()


@pytest.mark.parametrize("seed", range(20))
def test_the_p_value_of_zeros_and_ones_is_at_least_the_exact_one(seed):
    rng = np.random.default_rng(seed)
    n = int(rng.integers(2, 60))
    expected = rng.beta(*rng.uniform(0.2, 3, 2), n)
    for count in range(n + 1):
        losses = (np.arange(n) < count).astype(float)
        p = _p_value(losses, expected, 0.05)
        assert p >= exact_tail(expected, count) - 1e-12
        equal = np.full(n, expected.mean())
        if count >= n * expected.mean() + 1:
            assert _p_value(losses, equal, 0.05) == pytest.approx(exact_tail(equal, count))


def test_equal_losses_are_no_proof():
    """25 rows without one of the small losses that a tenth of the rows have: the t test had p = 0."""
    assert _p_value(np.ones(25), np.full(25, 0.9), 0.05) == pytest.approx(0.9**25)
    assert _p_value(np.full(25, 0.99), np.full(25, 0.9), 0.05) > 0.05
    assert _p_value(np.full(25, 0.3), np.zeros(25), 0.05) == 0.0  # a loss is impossible there
    assert _p_value(np.zeros(25), np.zeros(25), 0.05) == 1.0


@pytest.mark.parametrize("varied", [False, True])
def test_the_p_value_of_left_skewed_losses_is_valid(varied):
    rng = np.random.default_rng(0)
    rejected = 0
    for _ in range(2000):
        small = rng.random(25) < 0.1
        losses = np.where(small, 1 - rng.random(25) ** 5, 1.0)
        expected = np.full(25, 0.9 + 0.1 * 5 / 6)
        if varied:  # halved losses where half is expected
            half = np.where(rng.random(25) < 0.5, 0.5, 1.0)
            losses, expected = half * losses, half * expected
        rejected += _p_value(losses, expected, 0.05) <= 0.05
    assert rejected <= 100 + 3 * np.sqrt(2000 * 0.05 * 0.95)


def skewed(rng, n):
    """Return losses of which nine in ten are 1; the other ones are mostly large too."""
    return 1 - (rng.random(n) < 0.1) * rng.random(n) ** 5


@pytest.mark.slow
@pytest.mark.parametrize(
    ("losses", "min_rows"),
    [
        (skewed, 20),
        (skewed, 5),
        (lambda rng, n: rng.random(n) < 0.9, 20),
        (lambda rng, n: rng.random(n) < 0.5, 5),
        (lambda rng, n: rng.beta(3, 0.3, n), 20),
        (lambda rng, n: rng.beta(0.3, 3, n), 20),
    ],
)
def test_noise_gives_regions_in_at_most_five_per_cent(losses, min_rows):
    found, draws = 0, 400
    for seed in range(draws):
        rng = np.random.default_rng(seed)
        X = rng.normal(size=(1000, 5))
        regions = tb.WeakRegions(min_rows=min_rows, random_state=seed).fit(X, losses(rng, 1000))
        found += bool(regions.regions_)
    assert found / draws <= 0.05 + 2 * np.sqrt(0.05 * 0.95 / draws)
