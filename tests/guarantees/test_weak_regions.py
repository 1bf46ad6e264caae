"""Weak regions: planted regions are found, pure noise gives none, and the names describe the rows."""

import numpy as np
import pandas as pd
import pytest

import tailboost as tb


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
