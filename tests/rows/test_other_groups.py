"""The warning of rows in groups that the limits of a certificate do not name."""

import warnings
from functools import partial

import numpy as np
import pandas as pd
import pytest
from conftest import refused

import tailboost as tb
from tailboost.core import as_known
from tailboost.rates.subgroups import groups_in
from tailboost.rows.fingerprints import hashes_of_names
from tailboost.rows.groups import GroupNames, group_numbers, warn_of_other_groups, with_titles

LIMITS = ["miss(spam, by=group) <= 30%"]


def made_rows(n, sites, seed):
    rng = np.random.default_rng(seed)
    y = np.where(rng.random(n) < 0.4, "spam", "ham")
    log_odds = np.where(y == "spam", 1.6, -1.6) + 1.2 * rng.normal(size=n)
    return pd.DataFrame({"p": 1 / (1 + np.exp(-log_odds)), "site": rng.choice(sites, n)}), y


@pytest.fixture(scope="module")
def certified():
    table, y = made_rows(3000, ["a", "b"], 0)
    return tb.calibrate(tb.Scores("p", "spam"), table, y, groups="site", limits=LIMITS)


@pytest.fixture(scope="module")
def loaded(certified, tmp_path_factory):
    path = tmp_path_factory.mktemp("rule") / "rule.json"
    tb.save_rule(certified, path)
    return tb.load_rule(path)


NEW_ROWS = pd.DataFrame({"p": [0.1, 0.9, 0.6, 0.7], "site": ["a", "N", "N", None]})
WORDS = (
    "site 'N' (2 rows), 'missing' (1 row): not in the certificate, whose limits by site are certified for "
    "'a', 'b' alone"
)


def warned(answer):
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        answer()
    return [str(w.message) for w in caught if w.category is tb.UncertifiedGroupsWarning]


def test_a_table_or_a_dict_with_rows_of_other_groups_has_one_warning(certified, loaded):
    assert certified.certificate_.groups_named == {"site": ["a", "b"]}
    assert warned(lambda: loaded.predict(NEW_ROWS)) == [WORDS]
    assert warned(lambda: certified.predict(NEW_ROWS)) == [WORDS]
    assert warned(lambda: loaded.predict({"p": 0.7, "site": "N"}))[0].startswith("site 'N' (1 row)")
    # Rows of named groups, and rules without certificate, have none.
    assert not warned(lambda: loaded.predict(NEW_ROWS[:1]))
    assert not warned(lambda: loaded.predict(NEW_ROWS["p"]))
    assert not warned(lambda: certified.predict(NEW_ROWS[:1]))
    assert not warned(lambda: tb.ThresholdRule.from_dict(loaded.rule_.to_dict()).predict(NEW_ROWS))


def test_numbers_of_which_the_groups_are_made_are_not_compared():
    ages = pd.DataFrame({"age": [31, 47]})
    assert not warned(lambda: warn_of_other_groups({"age": ["(30, 45]"]}, ages))
    assert not warned(lambda: warn_of_other_groups({"age": ["31", "47"]}, ages))  # text in a file
    for known in ("31", 12):  # groups of numbers are no bands
        assert warned(lambda known=known: warn_of_other_groups({"age": [known]}, ages))
    assert warned(lambda: warn_of_other_groups({"age": ["(30, 45]"]}, ages, ages))  # as the groups
    [words] = warned(lambda: warn_of_other_groups({"age": [31]}, {"age": np.array([31, np.nan, np.nan, 4])}))
    nullable = {"age": pd.array([31, None, None, 4], dtype="Int64")}
    assert warned(lambda: warn_of_other_groups({"age": [31]}, nullable)) == [words]


def test_names_that_end_like_a_number_are_other_names():
    given, known = ["v1.0", "1.0", 1, True, "-2.0", "1,0", "TRUE", "1,000", None], ["v1", "1", -2, "None"]
    assert as_known(given, known) == ["v1.0", "1", "1", "1", -2, "1", "1", "1,000", None]
    assert as_known(["true", 1.0, "1", "2", 0], [True, 2.0]) == [1, 1, 1, 2, 0]  # a truth beside numbers
    assert as_known([1, "1"], ["1", "1.0"]) == [1, "1"]
    assert len({*hashes_of_names([1, 1.0, True, "1", "1.0", "1,0", "true"])}) == 1


@pytest.mark.parametrize("by_group", [False, True])
def test_a_number_and_its_text_are_one_group(by_group):
    table, y = made_rows(3000, [1, 2], 0)
    site = {"groups": table[["site"]][:2000], "limits": ["miss(spam, by=site) <= 60%"], "by_group": by_group}
    rule = tb.calibrate(tb.Scores("p", "spam"), table[["p"]][:2000], y[:2000], **site)
    new, labels = table[2000:], y[2000:]
    found = []
    texts = [new["site"].astype(kind).astype(str) for kind in (int, float, "category")]
    for sites in (new["site"], *texts, texts[0].where(new.index % 2 == 0, texts[1])):
        rows = new.assign(site=sites)
        for options in ({}, {"default": "human review"}):
            assert (rule.predict(rows, **options) == rule.predict(new)).all()
        look = tb.Monitor(rule).add(rows[["p"]], labels, groups=rows[["site"]]).batches[0].errors
        again = tb.certify(rule, rows[["p"]], labels, groups=rows[["site"]], limits=site["limits"])
        found.append((look, [(bound.subgroup, bound.upper) for bound in again.bounds]))
    assert found == [found[0]] * 5


def test_subgroups_of_several_columns_and_of_cells():
    assert groups_in("a", "group", ["site"]) == [("site", "a")]
    assert groups_in(("site", "a"), "group", ["site", "sex"]) == [("site", "a")]
    assert groups_in(("spam", "a"), "cell", [None]) == [(None, "a")]
    assert groups_in(("spam", "a", "f"), ("class", "site", "sex"), []) == [("site", "a"), ("sex", "f")]


def test_a_group_kept_by_construction_is_covered():
    """Nobody of N is spam, so the rule answers ham there: no row counts for the precision of N."""
    table, y = made_rows(3000, ["a", "b"], 0)
    is_n = np.arange(3000) % 50 == 0
    table.loc[is_n, "site"] = "N"
    table.loc[is_n, "p"] = 1e-4
    y[is_n] = "ham"
    limits = "precision(spam, by=site) >= 80%"
    clf = tb.calibrate(tb.Scores("p", "spam"), table, y, groups="site", by_group=True, limits=limits)
    assert clf.certificate_.groups_named == {"site": ["N", "a", "b"]}
    assert not warned(lambda: clf.predict(table, groups="site"))
    assert clf.predict(table[:1], groups=["site"]) == clf.predict(table, groups="site")[0]


@pytest.mark.parametrize("as_column", [pd.Series, lambda bands: bands])
def test_bands_of_whole_numbers_beside_a_missing_entry_keep_their_names(as_column):
    bands = as_column(pd.cut([20, 40, 80, 400], [0, 30, 60, 90]))
    named = {"age": ["(0, 30]", "(30, 60]"]}
    [words] = warned(lambda: warn_of_other_groups(named, {"age": bands}))
    assert warned(lambda: warn_of_other_groups(named, {}, bands)) == [words]
    all_bands = {"age": ["(0, 30]", "(30, 60]", "(60, 90]", "missing"]}
    assert not warned(lambda: warn_of_other_groups(all_bands, {"age": bands}))


def test_a_column_by_another_name_is_not_compared():
    """A single column without a name is the only one; that of wards was compared with names of sites."""
    wards, sites = pd.Series(["n"] * 3, name="ward"), {"site": ["a", "b"]}
    assert not warned(lambda: warn_of_other_groups(sites, {}, wards))
    for names, groups in ((sites, wards.to_numpy()), (sites, wards.rename("site")), ({None: ["a"]}, wards)):
        assert len(warned(lambda names=names, groups=groups: warn_of_other_groups(names, {}, groups))) == 1
    # Columns are named in the order of the certificate.
    named = {name: ["a"] for name in "thquckbrownfxjmpd"}
    told = warned(lambda: warn_of_other_groups(named, {name: ["b"] for name in sorted(named)}))
    assert [words[0] for words in told] == [*named]


@pytest.mark.parametrize(("name", "known"), [("site", "abc"), (None, "abc"), ("ward", "ab")])
def test_groups_of_a_fit_are_those_of_its_column(name, known):
    rows = GroupNames((np.array(["a", "b"]),), (name,))
    names, _ = rows.extended_by(with_titles({"site": ("a", "b", "c")}, [name]), np.zeros((1, 1), int))
    assert names.values[0].tolist() == [*known]


def test_combinations_of_a_fit_are_in_the_order_of_its_columns_and_others_have_none():
    of_fit, existing = {"site": ("a", "b"), "sex": ("f", "m")}, [("a", "f"), ("b", "m")]
    sites, sexes = np.array(["a", "b"]), np.array(["f", "m"])
    names = GroupNames((sexes, sites), ("sex", "site"))
    assert names.combinations_of(of_fit, existing) == (("f", "a"), ("m", "b"))
    for titles, values in ((), ()), (("sex", "ward"), (sexes, sites)), (("sex", "site"), (sexes, sites[:1])):
        assert GroupNames(values, titles).combinations_of(of_fit, existing) == ()


@pytest.mark.parametrize("site", [["a"], ("a",), {"a": 1}, {"a"}, np.arange(2), ("a", ["b"])])
def test_entries_that_are_no_names_are_groups_that_the_rule_does_not_know(site, certified):
    sites = pd.Series([site, "a", None, site])
    numbers = partial(group_numbers, {None: sites}, ["b", "a", "missing"], 4, None)
    assert numbers(others=True).tolist() == [-1, 1, 2, -1]
    refused(lambda: numbers(others=False), "in 2 of 4 rows")
    assert "(2 rows)" in warned(lambda: certified.predict(NEW_ROWS.assign(site=sites)))[0]


@pytest.mark.parametrize("form", ["frame", "list", "array"])
def test_rows_without_a_group_are_refused(form):
    table, y = made_rows(2000, ["a", "b", "unknown"], 0)
    X, sites = table[["p"]], table[["site"]]
    rule = tb.calibrate(tb.Scores("p", "spam"), X[:1000], y[:1000], groups=sites[:1000], limits=LIMITS)
    new_sites = sites[1000:].where(sites[1000:] != "unknown")
    given = {"frame": new_sites, "list": {"site": new_sites["site"].tolist()}, "array": new_sites.to_numpy()}
    monitor = tb.Monitor(rule)
    refused(lambda: monitor.add(X[1000:], y[1000:], groups=given[form]), "missing")
    monitor.add(X[1000:], y[1000:], groups=new_sites.fillna("unknown"))
