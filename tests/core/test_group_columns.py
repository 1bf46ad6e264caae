"""Groups from columns: the same cuts for every table, and a group for missing values."""

from decimal import Decimal

import numpy as np
import pandas as pd
import pytest

import tailboost as tb
from tailboost import GroupColumns, datasets, rates
from tailboost.app.cli.models import NewRows
from tailboost.app.cli.rates import in_table_terms, targets_by_label
from tailboost.core.subgroups import unit_name


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


#: The sites 1, 2 and −3 in every type of column that holds them; True: the type has missing values.
SITES = {
    "int8": (np.array([1, 2, -3], dtype=np.int8), False),
    "int64": (np.array([1, 2, -3]), False),
    "float16": (np.array([1, 2, -3], dtype=np.float16), True),
    "float32": (np.array([1, 2, -3], dtype=np.float32), True),
    "float64": (np.array([1.0, 2.0, -3.0]), True),
    "Int64": (pd.array([1, 2, -3], dtype="Int64"), True),
    "Float32": (pd.array([1, 2, -3], dtype="Float32"), True),
    "object of int": (np.array([1, 2, -3], dtype=object), True),
    "object of float": (np.array([1.0, 2.0, -3.0], dtype=object), True),
    "object of both": (np.array([1, 2.0, np.float32(-3)], dtype=object), True),
    "Decimal": (np.array([Decimal("1"), Decimal("2.0"), Decimal("-3.00")], dtype=object), True),
    "text": (np.array(["1", "2", "-3"], dtype=object), True),
    "text of floats": (np.array(["1.0", "2.0", "-3.00"], dtype=object), True),
    "string": (pd.array(["1", "2", "-3"], dtype="string"), True),
    "category of int": (pd.Categorical([1, 2, -3]), True),
    "category of float": (pd.Categorical([1.0, 2.0, -3.0]), True),
    "category of text": (pd.Categorical(["1", "2", "-3"]), True),
}
TRUTHS = {
    "bool": (np.array([True, False, False]), False),
    "boolean": (pd.array([True, False, False], dtype="boolean"), True),
    "object": (np.array([True, False, False], dtype=object), True),
    "category": (pd.Categorical([True, False, False]), True),
    "text": (np.array(["True", "False", "False"], dtype=object), True),
}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("columns", "names"), [(SITES, ["1", "2", "-3"]), (TRUTHS, ["True", "False", "False"])]
)
def test_names_do_not_depend_on_the_type_of_the_column(columns, names):
    for fitted, (of_fit, _) in columns.items():
        groups = GroupColumns(missing="own").fit(pd.DataFrame({"site": of_fit}))
        for kind, (values, gaps) in columns.items():
            table, case = pd.DataFrame({"site": values}), (fitted, kind)
            assert groups.transform(table)["site"].tolist() == names, case
            alone = [groups.transform(table.iloc[[i]])["site"].item() for i in range(3)]
            assert alone == names, case
            if gaps:
                table["site"] = table["site"].mask([False, True, False])
                assert groups.transform(table)["site"].tolist() == [names[0], "unknown", names[2]], case


def test_what_is_no_whole_number_keeps_its_name():
    given = [1.5, 0.1, 1e300, -0.0, np.inf, "01", "1.50", "v1.0", "1.0.0", "", " 1.0", "1e0"]
    names = ["1.5", "0.1", str(int(1e300)), "0", "inf", "01", "1.50", "v1.0", "1.0.0", "", " 1.0", "1e0"]
    frame = pd.DataFrame({"site": np.array(given, dtype=object)})
    assert GroupColumns(missing="own").fit_transform(frame)["site"].tolist() == names
    both = pd.DataFrame({"site": np.array([True, 1, 1.0, np.True_], dtype=object)})  # equal, but not one name
    assert GroupColumns(missing="own").fit_transform(both)["site"].tolist() == ["True", "1", "1", "True"]
    assert unit_name(("site", 1.0)) == unit_name(("site", np.int64(1))) == "site / 1"


@pytest.mark.parametrize("suffix", ["csv", "parquet"])
def test_files_with_and_without_gaps_have_the_same_groups(tmp_path, suffix):
    """Pandas writes whole numbers with a gap as floats."""
    whole = pd.DataFrame({"x": np.arange(8) / 3, "site": [1, 2, 2, 1] * 2, "y": list("abababab")})
    gap = whole.assign(site=[1, 2, None, 1] * 2)
    found = {}
    for name, table in {"whole": whole, "gap": gap, "alone": gap.iloc[[0]]}.items():
        path = tmp_path / f"{name}.{suffix}"
        getattr(table, f"to_{suffix}")(path, index=False)
        rows = (datasets.read_raw if suffix == "csv" else datasets.read_frame)(path)
        found[name] = NewRows(rows, None, path, ["site"]).groups["site"].tolist()
        if name != "alone":
            loaded = datasets.load_table(path, "y", group="site").groups["site"]
            assert loaded.tolist() == found[name]
    assert found["whole"] == ["1", "2", "2", "1"] * 2
    assert found["gap"] == ["1", "2", "missing", "1"] * 2
    assert found["alone"] == ["1"]


def test_limits_of_the_shell_name_groups_as_the_table_does():
    for site in (1, 1.0, "1", "1.0"):
        limit = in_table_terms(rates.miss("b", by="site") <= {site: 0.3, None: 0.5}, ["a", "b"], ["site"])
        assert dict(limit.bound) == {"1": 0.3, None: 0.5}
    assert targets_by_label({"site=1.0": 0.2}, np.array(["a", "b"]), ["site"]) == {("site", "1"): 0.2}


def test_a_rule_that_reads_the_group_answers_a_row_alone_as_in_its_batch():
    rng = np.random.default_rng(0)
    site = rng.integers(1, 4, 600)
    z = rng.random(600) < 0.4
    p = 1 / (1 + np.exp(-(1.5 * z + 0.7 * site - 2 + rng.normal(size=600))))
    scores, y = pd.DataFrame({"p": p}), np.where(z, "b", "a")
    groups = GroupColumns(missing="own").fit(pd.DataFrame({"site": site}))
    of_fit = groups.transform(pd.DataFrame({"site": site}))
    rule = tb.tune(
        tb.Scores("p", "b"), scores, y, groups=of_fit, limits=["miss(b, by=site) <= 0.3"], by_group=True
    )
    with_gap = pd.DataFrame({"site": np.append(site[:50].astype(float), np.nan)})
    batch = groups.transform(with_gap).iloc[:50]
    together = rule.predict(scores.iloc[:50], groups=batch)
    np.testing.assert_array_equal(together, rule.predict(scores.iloc[:50], groups=of_fit.iloc[:50]))
    for i in range(50):
        alone = groups.transform(pd.DataFrame({"site": [site[i]]}, index=[i]))
        assert rule.predict(scores.iloc[[i]], groups=alone) == together[[i]]


def test_ordered_categories_keep_their_order():
    """Sorted as text "under 30" would be the last band, and "5 to 10" would follow "20 to 30"."""
    rng = np.random.default_rng(0)
    bands = ["under 30", "30 to 60", "over 60"]
    age = pd.Categorical(rng.choice(bands, 900), [*bands, "unseen"], ordered=True)
    p, y = rng.random(900), rng.integers(2, size=900)
    table, scores = pd.DataFrame({"age": age}), pd.DataFrame({"p": p})
    for groups in (table, table["age"], age):
        shown = tb.rates.measure(tb.rates.error(by="group"), y, (p > 0.5).astype(int), groups=groups)
        assert [*shown] == bands
        clf = tb.tune(tb.Scores("p", 1), scores[:500], y[:500], groups=groups[:500], objective="worst_group")
        names = [name[-1] if isinstance(name, tuple) else name for name in clf.groups_.tolist()]
        assert names == bands
        fresh = tb.certify(clf, scores[500:], y[500:], groups=groups[500:], rates=["error(by=group)"])
        places = [str(fresh).index(name) for name in bands]
        assert places == sorted(places)
    plain = tb.rates.measure(tb.rates.error(by="group"), y, y, groups=np.asarray(age))
    assert [*plain] == sorted(bands)
    for name in bands:  # the order changes no number
        inside = np.asarray(age) == name
        assert shown[name] == pytest.approx(((p > 0.5) != y)[inside].mean())


def test_bands_are_in_the_order_of_their_numbers():
    ages = pd.DataFrame({"age": [3, 8, 15, 25, 70, None] * 4})
    bands = tb.GroupColumns(quantiles={"age": [5, 10, 20, 30]}, missing="own").fit_transform(ages)
    shown = tb.rates.measure(tb.rates.error(by="group"), [0, 1] * 12, [0] * 24, groups=bands)
    assert [*shown] == ["<= 5", "5 to 10", "10 to 20", "20 to 30", "> 30", "unknown"]
