"""Groups from columns: the same cuts for every table, and a group for missing values."""

import numpy as np
import pandas as pd
import pytest

import tailboost as tb
from tailboost import GroupColumns


def people(seed, n=400):
    rng = np.random.default_rng(seed)
    frame = pd.DataFrame(
        {
            "age": rng.integers(18, 90, n).astype(float),
            "income": np.round(rng.lognormal(10, 1, n), 2),
            "children": rng.integers(0, 3, n),
            "sex": rng.choice(["f", "m"], n),
        }
    )
    return frame, rng


def test_numbers_are_cut_at_quantiles_of_the_rows_of_fit():
    frame, _ = people(0)
    cut = GroupColumns(quantiles=4).fit(frame)
    assert set(cut.cuts_) == {"age", "income"}  # three different numbers of children are groups already
    groups = cut.transform(frame)
    expected = pd.qcut(frame["income"], 4, labels=False)  # all incomes differ
    assert len(set(zip(groups["income"], expected, strict=True))) == 4
    fresh, _ = people(1)
    low, *_, high = cut.cuts_["age"]
    said = cut.transform(fresh)["age"]
    np.testing.assert_array_equal(said == f"<= {low:g}", fresh["age"] <= low)
    np.testing.assert_array_equal(said == f"> {high:g}", fresh["age"] > high)
    shuffled = cut.transform(fresh[fresh.columns[::-1]].assign(more=1))
    pd.testing.assert_frame_equal(shuffled, cut.transform(fresh))
    pd.testing.assert_frame_equal(cut.transform(fresh.iloc[[3]]), cut.transform(fresh).iloc[[3]])


def test_cuts_of_ones_own_and_of_heavy_ties():
    frame, _ = people(2)
    groups = GroupColumns(quantiles={"age": [29, 64], "income": 2}).fit_transform(frame)
    assert set(groups["age"]) == {"29 to 64", "<= 29", "> 64"}
    assert groups["income"].nunique() == 2
    ties = pd.DataFrame({"hours": np.r_[np.full(97, 40.0), 10, 20, 30]})
    assert GroupColumns(quantiles=3).fit_transform(ties)["hours"].unique().tolist() == ["> 30", "<= 30"]
    plain = GroupColumns().fit_transform(frame)
    pd.testing.assert_frame_equal(plain, frame)


def test_missing_values_are_refused_or_a_group():
    frame, rng = people(3)
    gaps = frame.mask(rng.random(frame.shape) < 0.2)
    with pytest.raises(ValueError, match=r"column 'age' has \d+ missing values, the first in row \d+"):
        GroupColumns(quantiles=3).fit_transform(gaps)
    cut = GroupColumns(quantiles=3, missing="own").fit(gaps)
    groups = cut.transform(gaps)
    for name in frame:
        np.testing.assert_array_equal(groups[name] == "unknown", gaps[name].isna())
        known = groups[name][gaps[name].notna()]
        np.testing.assert_array_equal(known, cut.transform(frame.astype(gaps.dtypes))[name][known.index])


def test_they_are_groups_of_a_classifier_and_of_new_rows():
    frame, rng = people(4)
    frame["sex"] = frame["sex"].mask(rng.random(400) < 0.3)
    X = frame[["age", "income"]]
    y = (rng.random(400) < np.where(frame["age"] > 50, 0.7, 0.3)).astype(int)
    cut = GroupColumns(quantiles=2, missing="own").fit(frame[["age", "sex"]])
    fitted, fresh = slice(0, 300), slice(300, None)
    groups = cut.transform(frame)
    mix = tb.GroupDROBoostClassifier(n_estimators=2, random_state=0)
    mix.fit(X[fitted], y[fitted], groups=groups[fitted])
    certificate = tb.certify(mix, X[fresh], y[fresh], groups=groups[fresh])
    wrong = mix.predict(X[fresh]) != y[fresh]
    unknown = (groups["sex"] == "unknown").to_numpy()[fresh]
    bound = certificate.bound("group", ("sex", "unknown"), "predict")
    assert bound.estimate == pytest.approx(wrong[unknown].mean())


@pytest.mark.parametrize(
    ("params", "message"),
    [
        ({"quantiles": {"size": 2}}, r"quantiles names \['size'\], but the columns are"),
        ({"quantiles": {"sex": 2}}, "'sex', which is no column of numbers"),
        ({"quantiles": {"age": [3, 3]}}, "the cuts of 'age' must be ascending numbers"),
        ({"quantiles": {"age": 1}}, "'age' must be cut into at least 2 groups"),
        ({"quantiles": 1}, "The 'quantiles' parameter"),
        ({"missing": "drop"}, "The 'missing' parameter"),
    ],
)
def test_what_cannot_be(params, message):
    with pytest.raises(ValueError, match=message):
        GroupColumns(**params).fit(people(5)[0])


def test_what_is_no_frame():
    with pytest.raises(TypeError, match="X must be a data frame"):
        GroupColumns().fit(np.zeros((3, 2)))
    cut = GroupColumns().fit(people(6)[0])
    with pytest.raises(ValueError, match=r"X has no column \['sex'\]"):
        cut.transform(people(6)[0].drop(columns="sex"))
