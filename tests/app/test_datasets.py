"""Bundled data sets against their published counts."""

import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from tailboost import datasets


def test_credit_default_has_the_published_counts():
    bunch = datasets.load_credit_default()
    assert bunch.data.shape == (30_000, 23)
    assert list(bunch.data.columns) == bunch.feature_names
    assert bunch.target.value_counts().to_dict() == {0: 23_364, 1: 6_636}
    assert bunch.data["SEX"].value_counts().to_dict() == {1: 11_888, 2: 18_112}
    assert np.bincount(bunch.data["EDUCATION"]).tolist() == [14, 10_585, 14_030, 4_917, 123, 280, 51]
    assert bunch.data["LIMIT_BAL"].mean() == pytest.approx(167_484.32, abs=0.005)
    assert (bunch.data["AGE"].min(), bunch.data["AGE"].max()) == (21, 79)


def test_credit_default_groups_follow_the_columns():
    bunch = datasets.load_credit_default()
    ages = bunch.data["AGE"].groupby(bunch.groups["age_band"], observed=True).agg(["min", "max"])
    limits = {"under 30": [21, 29], "30-39": [30, 39], "40-49": [40, 49], "50 and over": [50, 79]}
    assert [*ages.T.to_dict("list").items()] == [*limits.items()]  # in this order
    sexes = pd.crosstab(bunch.data["SEX"], bunch.groups["sex"]).to_dict()
    assert sexes == {"female": {1: 0, 2: 18_112}, "male": {1: 11_888, 2: 0}}
    levels = bunch.groups["education"].value_counts().to_dict()
    assert levels.pop("other") == 14 + 123 + 280 + 51
    assert levels == {"university": 14_030, "graduate school": 10_585, "high school": 4_917}


def test_credit_default_arrays_need_no_pandas(monkeypatch):
    frame = datasets.load_credit_default()
    X, y, sex = frame.data.to_numpy(), frame.target.to_numpy(), frame.groups["sex"].tolist()
    monkeypatch.setitem(sys.modules, "pandas", None)
    bunch = datasets.load_credit_default(as_frame=False)
    np.testing.assert_array_equal(bunch.data, X)
    np.testing.assert_array_equal(bunch.target, y)
    assert bunch.groups["sex"].tolist() == sex
    with pytest.raises(ImportError, match=r"as_frame.*pandas.*tailboost\[app\]"):
        datasets.load_credit_default()


LICENCES = {"credit_default": ("CC BY 4.0", "Yeh", "350"), "wine_quality": ("CC BY 4.0", "Cortez", "186")}


@pytest.mark.parametrize("name", LICENCES)
def test_tables_are_small_and_name_their_licence(name):
    data = Path(datasets.__file__).parent / "data"
    assert (data / f"{name}.csv.xz").stat().st_size < 1_000_000
    for text in LICENCES[name]:
        assert text in (data / "README.md").read_text(encoding="utf-8")
        assert text in getattr(datasets, f"load_{name}").__doc__


def test_wines_have_the_published_counts_and_grades():
    bunch = datasets.load_wine_quality()
    assert bunch.data.shape == (6_497, 12)
    assert list(bunch.data.columns) == bunch.feature_names
    # Published counts by grade: 30, 216, 2,138, 2,836, 1,079, 193, 5; the extreme grades are joined.
    assert np.bincount(bunch.target).tolist() == [30 + 216, 2_138, 2_836, 1_079, 193 + 5]
    assert bunch.groups["colour"].value_counts().to_dict() == {"white": 4_898, "red": 1_599}
    assert ((bunch.data["red"] == 1) == (bunch.groups["colour"] == "red")).all()
    X, y = datasets.load_wine_quality(return_X_y=True, as_frame=False)
    np.testing.assert_array_equal(X, bunch.data.to_numpy())
    np.testing.assert_array_equal(y, bunch.target.to_numpy())
