"""Overlapping and small subgroups: sums against loops, λ against a generic solver."""

import pickle
import warnings

import numpy as np
import pandas as pd
import pytest
from conftest import errors_of
from scipy.optimize import linprog
from sklearn.tree import DecisionTreeClassifier

import tailboost as tb
from tailboost import rates
from tailboost.boosting.game import RoundCandidate, SubgroupStakes, Units, shrunk
from tailboost.boosting.pool import JudgedPool
from tailboost.boosting.subgroups import SHRINKAGE, NamedSubgroups, Pools, allowed_errors
from tailboost.rows.rows import Rows, TrainingSet, folds, memberships, numbered_strata
from tailboost.rows.subgroups import GroupNames
from tailboost.selection.hypotheses import rule_of
from tailboost.selection.mixture import Counts, Mixture
from tailboost.selection.outputs import ModelOutputs, Models
from tailboost.selection.problem import Problem

TREE = DecisionTreeClassifier(max_depth=3, random_state=0)


def overlapping(seed=0, n=60, c=3, m=7, none=0.2):
    """Rows with weights and up to c of m units each; every unit has rows."""
    rng = np.random.default_rng(seed)
    groups = np.array([rng.choice(m, c, replace=False) for _ in range(n)])
    groups[rng.random((n, c)) < none] = -1
    groups[:m, 0], groups[:m, 1:] = np.arange(m), -1
    return rng, groups, rng.random(n) + 0.1


def census(n=400, seed=0):
    rng = np.random.default_rng(seed)
    table = pd.DataFrame({
        "sex": rng.choice(["f", "m"], n), "race": rng.choice(["a", "b", "c"], n), "age": rng.integers(0, 2, n)
    })  # fmt: skip
    X = np.c_[rng.normal(size=(n, 4)), (table["sex"] == "f").astype(float), table["race"] == "c"]
    y = (X[:, 0] + X[:, 1] * (table["race"] == "a") + 0.7 * rng.normal(size=n) > 0.3).astype(int)
    return X, y, table


# -- sums over overlapping subgroups ---------------------------------------------------------------------


def test_units_that_overlap_by_loops():
    for seed in range(5):
        rng, groups, weight = overlapping(seed)
        m, n = 7, len(weight)
        judged, judged_weight = groups[::2], weight[::2]
        units = Units.groups(groups, weight)
        inside = (groups >= 0).any(axis=1)
        w = rng.dirichlet(np.ones(m))
        in_unit = [[u in groups[i] for i in range(n)] for u in range(m)]
        mass = [weight[np.array(rows)].sum() for rows in in_unit]
        density = [
            sum(w[u] * weight[inside].sum() / mass[u] for u in range(m) if in_unit[u][i])
            if inside[i]
            else 1.0
            for i in range(n)
        ]
        np.testing.assert_allclose(units.density(w), density)
        assert np.average(units.density(w)[inside], weights=weight[inside]) == pytest.approx(1.0)
        assert units.total == pytest.approx(weight[inside].sum())
        losses = rng.integers(0, 2, len(judged))
        rows = Rows(np.zeros(len(judged), np.intp), judged_weight, judged, "rows")
        expected = []
        for u in range(m):
            of_unit = [i for i in range(len(judged)) if u in judged[i]]
            expected.append(np.average(losses[of_unit], weights=judged_weight[of_unit]) if of_unit else 0.0)
        stakes = SubgroupStakes.of(units, rows, judged)
        np.testing.assert_allclose(stakes.losses(RoundCandidate(None, losses, losses)), expected)


@pytest.mark.parametrize("c", [1, 2])
def test_a_row_of_a_cell_without_training_rows_is_in_no_subgroup(c):
    """Of each column: by the names of the cells, in rows of which some have no group."""
    rng = np.random.default_rng(c)
    names = GroupNames(tuple(np.arange(3) for _ in range(c)), tuple("ab"[:c]))
    training, held_out = (
        Rows(rng.integers(0, 3, n), np.ones(n), rng.integers(-1, 3, (n, c)), "rows") for n in (9, 60)
    )
    for rows in (training, held_out):
        rows.groups[:, 1:][rows.groups[:, 1:] >= 0] += 3  # the groups of the second column are 3 to 5
    subgroups = NamedSubgroups.of("cell", training, np.arange(3), names)
    number = {cell: i for i, cell in enumerate(subgroups.names.tolist())}
    found = subgroups.with_subgroups(held_out).groups
    unseen = 0
    for row, (label, groups) in enumerate(zip(held_out.y.tolist(), held_out.groups.tolist(), strict=True)):
        cells = [(label, names.names[group]) if group >= 0 else None for group in groups]
        assert found[row].tolist() == [number.get(cell, -1) for cell in cells]
        unseen += sum(cell is not None and cell not in number for cell in cells)
    assert unseen > 0


def test_one_dense_column_is_the_array_to_the_bit():
    rng = np.random.default_rng(1)
    index, weight = rng.integers(0, 5, 200), rng.random(200)
    w, losses = rng.dirichlet(np.ones(5)), rng.integers(0, 2, 200)
    densities, errors, masses = [], [], []
    for groups in (index, index[:, None]):
        units = Units.groups(groups, weight)
        rows = Rows(np.zeros(200, np.intp), weight, groups, "rows")
        densities.append(units.density(w))
        masses.append(units.weight)
        errors.append(SubgroupStakes.of(units, rows, groups).losses(RoundCandidate(None, losses, losses)))
    np.testing.assert_array_equal(*densities)
    np.testing.assert_array_equal(*errors)
    np.testing.assert_array_equal(*masses)
    np.testing.assert_array_equal(
        numbered_strata(index % 2, index), numbered_strata(index % 2, index[:, None])
    )


def least_largest(errors):
    """Solve min over mixtures of the largest column, (T, m), by a generic solver."""
    T, m = errors.shape
    A = np.hstack([errors.T, -np.ones((m, 1))])
    simplex = np.append(np.ones(T), 0.0)[None, :]
    return linprog(
        np.append(np.zeros(T), 1.0), A, np.zeros(m), simplex, [1.0], [(0, None)] * T + [(None, None)]
    ).fun


def pool_of(rows, answers, K):
    """Return a pool of base models with these answers to the selection data."""
    pool = JudgedPool(rows, K)
    for each in answers:
        pool = pool.adding(RoundCandidate(None, rows.wrong(each), each))
    return pool


def test_the_mixture_over_groups_that_overlap_by_loops():
    """Errors by loops, and the best mixture by a generic solver."""
    tie = 1e-3  # weight of the overall error in the objective
    for seed in range(5):
        rng = np.random.default_rng(seed)
        n, K, names = 80, 3, GroupNames((np.array(["f", "m"]), np.arange(4)), ("sex", "age"))
        groups = np.column_stack([rng.integers(0, 2, n), 2 + rng.integers(0, 4, n)])
        y, weight = rng.integers(0, K, n), rng.random(n) + 0.1
        answers = np.where(rng.random((8, n)) < 0.4, rng.integers(0, K, (8, n)), y)
        rows = Rows(y, weight, groups, "rows", np.arange(n).astype(np.uint16))
        counts = Counts(rows, np.arange(K), names)
        of_group = rates.Objective.from_expression(rates.largest(rates.error(by="group")))
        combiner = Mixture(Problem(of_group, randomized=True), pool_of(rows, answers, K), counts)
        inside = [(groups == g).any(axis=1) for g in range(6)]
        errors = np.array([[np.average((a != y)[m], weights=weight[m]) for m in inside] for a in answers])
        np.testing.assert_allclose(combiner.steered.excesses(combiner.candidates().all_counts), errors)
        mixture = combiner.stage(8).weights
        best = least_largest(errors)
        assert best - 1e-9 <= (mixture @ errors).max() <= best + tie
        assert combiner.value(mixture) == pytest.approx((mixture @ errors).max())
        constants = np.array([[np.average((k != y)[m], weights=weight[m]) for m in inside] for k in range(K)])
        assert combiner.constants == pytest.approx(least_largest(constants), abs=tie)
        assert combiner.random_guess == pytest.approx(constants.mean(axis=0).max())
        by_cell = rates.Objective.from_expression(rates.largest(rates.error(by="cell")))
        by_cells = combiner.aiming_at(Problem(by_cell, randomized=True))
        rule = rule_of(by_cells, combiner.pool.rule(mixture))
        cells = rule.errors_of(combiner.mixed(mixture))
        losses = mixture @ (answers != y)
        for line in cells:
            k, (column, value) = line.subgroup
            where = (y == k) & inside[names.names.tolist().index((column, value))]
            if where.any():
                assert line.value == pytest.approx(np.average(losses[where], weights=weight[where]))


def test_rows_outside_all_groups_do_not_take_part():
    y, groups = np.array([0, 0, 1, 1, 1, 0]), np.array([0, 0, 0, 1, 1, -1])
    rows = Rows(y, np.ones(6), groups, "rows", np.arange(6).astype(np.uint16))
    counts = Counts(rows, np.arange(2), GroupNames((np.array(["a", "b"]),)))
    table = counts.data
    inside = counts.inside
    assert inside.tolist() == [True] * 5 + [False]
    assert table.strata.mass.sum() == pytest.approx(1.0)
    assert len(table) == 5


def test_strata_and_memberships():
    rng, groups, weight = overlapping(3)
    y = rng.integers(0, 2, len(weight))
    keys = [(*g, k) for g, k in zip(groups.tolist(), y.tolist(), strict=True)]
    order = sorted(set(keys))
    np.testing.assert_array_equal(numbered_strata(y, groups), [order.index(key) for key in keys])
    pairs = [(i, u) for i, row in enumerate(groups.tolist()) for u in row if u >= 0]
    np.testing.assert_array_equal(np.transpose(memberships(groups)), pairs)
    np.testing.assert_array_equal(folds(np.arange(7), 3), [0, 1, 2, 0, 1, 2, 0])


# -- a table of groups in fit ------------------------------------------------------------------------------


def test_every_form_of_a_table_is_the_same():
    X, y, table = census()
    as_text = table.astype(str)
    in_order = as_text[["age", "race", "sex"]]  # named columns are sorted
    forms = [as_text, as_text.to_dict("list"), in_order, in_order.to_numpy()]
    fits = []
    for form in forms:
        clf = tb.GroupDROBoostClassifier(TREE, n_estimators=4, random_state=0).fit(X, y, groups=form)
        fits.append(clf)
    names = [
        ("age", "0"),
        ("age", "1"),
        ("race", "a"),
        ("race", "b"),
        ("race", "c"),
        ("sex", "f"),
        ("sex", "m"),
    ]
    assert all(fit.groups_.tolist() == names for fit in fits[:3])
    assert fits[3].groups_.tolist() == [({"age": 0, "race": 1, "sex": 2}[c], v) for c, v in names]
    for other in fits[1:]:
        np.testing.assert_array_equal(fits[0].predict_proba(X), other.predict_proba(X))
    assert fits[0].trace_.weights.shape[1] == 7
    pool, value = fits[0].selection_.pool, fits[0].summary_.achieved
    losses = fits[0].estimator_weights_ @ pool.losses.toarray()
    assert value == pytest.approx(max(losses[as_text[c] == v].mean() for c, v in names))


def test_one_column_is_as_without_a_table():
    X, y, table = census()
    fits = [
        tb.WorstClassBoostClassifier(TREE, n_estimators=3, subgroups=units, random_state=0).fit(
            X, y, groups=groups
        )
        for units in ("group", "cell")
        for groups in (table["race"], table[["race"]])
    ]
    for array, one in (fits[:2], fits[2:]):
        np.testing.assert_array_equal(array.estimator_weights_, one.estimator_weights_)
        np.testing.assert_array_equal(array.trace_.weights, one.trace_.weights)
        np.testing.assert_array_equal(errors_of(array), errors_of(one))
    assert list(fits[0].subgroup_errors_) == ["a", "b", "c"]
    assert list(fits[1].subgroup_errors_) == [("race", "a"), ("race", "b"), ("race", "c")]
    assert next(iter(fits[3].subgroup_errors_)) == (0, ("race", "a"))


def test_cells_of_a_table_and_targets_by_name():
    X, y, table = census()
    clf = tb.WorstClassBoostClassifier(
        TREE, subgroups="cell", class_loss="error", n_estimators=3, random_state=0,
        max_error={(1, ("sex", "f")): 0.3, 0: 0.4, None: 0.5},
    )  # fmt: skip
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", tb.BoundNotMetWarning)
        clf.fit(X, y, groups=table)
    assert len(clf.subgroup_errors_) == 2 * 7
    predicted = clf.selection_.pool.shares(clf.ensemble_).argmax(axis=1)
    for (k, (column, value)), error, allowed in zip(
        clf.subgroup_errors_, errors_of(clf), clf.max_error_, strict=True
    ):
        inside = (y == k) & (table[column] == value)
        assert error == pytest.approx(np.mean(predicted[inside] != k))
        assert allowed == (0.3 if (k, column, value) == (1, "sex", "f") else 0.4 if k == 0 else 0.5)
    again = pickle.loads(pickle.dumps(clf))
    np.testing.assert_array_equal(again.predict(X), clf.predict(X))


def test_validation_rows_and_reweight_take_tables():
    X, y, table = census(600)
    clf = tb.GroupDROBoostClassifier(TREE, n_estimators=3, random_state=0).fit(
        X[:400], y[:400], groups=table[:400], X_val=X[400:], y_val=y[400:], groups_val=table[400:]
    )
    assert clf.selection_.pool.rows.groups.shape == (200, 3)
    fair = clf.reweight(objective="worst_group", groups=table[["sex", "age"]][400:])
    assert fair.groups_.tolist() == [("age", 0), ("age", 1), ("sex", "f"), ("sex", "m")]
    other = clf.reweight(X[400:], y[400:], objective="worst_group", groups={"r": table["race"][400:]})
    assert other.groups_.tolist() == [("r", "a"), ("r", "b"), ("r", "c")]
    own = clf.reweight(X[400:], y[400:], groups=table[400:])
    assert own.summary_.achieved == pytest.approx(clf.summary_.achieved)


def test_bad_tables_are_named():
    X, y, table = census(100)
    clf = tb.GroupDROBoostClassifier(TREE, n_estimators=2, random_state=0)
    with pytest.raises(ValueError, match="contains"):
        clf.fit(X, y, groups=table.assign(race=[None, *table["race"][1:]]))
    with pytest.raises(ValueError, match="groups"):
        clf.fit(X, y, groups={"sex": ["f", "m", "f"]})
    with pytest.raises(ValueError, match="different"):
        clf.fit(X, y, groups={})
    given = {"X_val": X, "y_val": y}
    with pytest.raises(ValueError, match="groups_val"):
        clf.fit(X, y, groups=table, groups_val=table[["sex"]], **given)
    with pytest.raises(ValueError, match="groups_val"):
        clf.fit(X, y, groups=table, groups_val=table.assign(race="z"), **given)
    with pytest.raises(ValueError, match="groups_val"):
        clf.fit(X, y, groups=table, groups_val=table["sex"], **given)


# -- units with few rows -------------------------------------------------------------------------------------


def test_how_many_rows_a_unit_rests_on():
    lots = np.array([1, 2, 3, 4, 4, 9], dtype=np.uint64)
    index = np.array([0, 0, 0, 1, 1, -1])
    for scale in (1.0, 1e-6):
        rows = Rows(index.clip(0), np.full(6, scale), index, "", lots)
        np.testing.assert_allclose(rows.sizes(index, 3), [3, 1, 0])  # equal rows count once
    weighted = Rows(index.clip(0), np.array([1.0, 1.0, 2.0, 5.0, 1.0, 1.0]), index, "", lots)
    np.testing.assert_allclose(weighted.sizes(index, 2), [16 / 6, 1], atol=1e-6)


def kish_size(contents, weight):
    """Return Kish's effective size of rows of which those with equal contents are one."""
    _, place = np.unique(contents, return_inverse=True)
    shares = np.bincount(place, weights=weight)
    return shares.sum() ** 2 / (shares**2).sum()


@pytest.mark.parametrize(("n", "n_different"), [(200_000, 200_000), (200_000, 100_058), (10**6, 10**6)])
def test_sizes_of_large_tables_count_each_different_row_once(n, n_different):
    rng = np.random.default_rng(0)
    number = rng.permutation(np.arange(n) % n_different)
    X = rng.random(n_different)[number, None]
    y = number % 2
    index = number % 3
    weight = 1.0 + number % 5
    training = TrainingSet(X, y, weight, None, 2, np.arange(n), n, None)
    outputs = ModelOutputs.with_hashes(Models([], 2, [], []), [np.column_stack([X, -X])], training.rows)
    for rows in (training.rows, outputs.rows):
        sizes = [kish_size(number[index == k], weight[index == k]) for k in range(3)]
        np.testing.assert_allclose(rows.sizes(index, 3), sizes)
        (size,) = rows.sizes(np.zeros(n, dtype=np.intp), 1)
        assert size == pytest.approx(kish_size(number, weight))


@pytest.mark.parametrize("seed", range(2))
def test_a_unit_rests_on_as_many_equal_rows_as_have_a_mean_of_the_same_variance(seed):
    """The mean of k equal independent rows of variance 1 has the variance 1/k, that of weighted rows Σs²."""
    _, groups, weight = overlapping(seed)
    rows = Rows(np.zeros(len(weight), dtype=int), weight, groups, "", None)
    for unit, size in enumerate(rows.sizes(groups, 7)):
        shares = weight[(groups == unit).any(axis=1)]
        shares = shares / shares.sum()
        variance = shares @ np.eye(len(shares)) @ shares
        assert size == pytest.approx(1.0 / variance, rel=1e-5)
        assert 1.0 <= size < len(shares)


def test_a_unit_of_many_rows_is_pooled_if_one_of_them_has_nearly_all_the_weight():
    """Of the second group 102.9² / (100² + 29 · 0.1²) = 1.06 rows are left: the smaller other one joins."""
    sizes = [40, 30, 30]
    groups = np.repeat(np.arange(3), sizes)
    weight = np.ones(100)
    weight[40:70] = np.r_[100.0, np.full(29, 0.1)]
    names = GroupNames((np.arange(3),), ("a",))
    for weights, pools in ((np.ones(100), [0, 1, 2]), (weight, [0, 1, 1])):
        rows = Rows(np.zeros(100, dtype=int), weights, groups, "", np.arange(100).astype(np.uint16))
        assert Pools.small(NamedSubgroups.of("group", rows, [0], names), [rows], 10).pool.tolist() == pools


def test_which_units_are_pooled():
    def pools(kind, sizes, columns=None, K=1):
        columns = columns or (len(sizes) // K,)
        names = GroupNames(tuple(np.arange(m) for m in columns), tuple("abc"[: len(columns)]))
        groups = np.repeat(np.arange(len(sizes)) // K, sizes)
        y = np.repeat(np.arange(len(sizes)) % K, sizes)
        rows = Rows(y, np.ones(len(y)), groups, "", np.arange(len(y)).astype(np.uint16))
        return Pools.small(NamedSubgroups.of(kind, rows, np.arange(K), names), [rows], 10)

    assert pools("group", [30, 4, 7]).pool.tolist() == [0, 1, 1]  # together they are enough
    assert pools("group", [30, 12, 7]).pool.tolist() == [0, 1, 1]  # with the smallest of the others
    assert pools("group", [30, 12, 3, 30, 2, 11], (3, 3)).pool.tolist() == [0, 1, 1, 2, 3, 3]  # by column
    cells = pools("cell", [30, 20, 3, 15, 30, 1], (3,), K=2)
    assert cells.pool.tolist() == [0, 1, 0, 2, 3, 2]  # by class
    assert cells.count == 4
    np.testing.assert_array_equal(
        cells.strictest(np.array([0.5, 0.1, 0.3, 0.2, 0.9, 0.4])), [0.3, 0.1, 0.2, 0.9]
    )
    assert pools("class", [30, 3], K=2).pool.tolist() == [0, 1]  # classes are never pooled
    assert pools("group", [3]).pool.tolist() == [0]
    np.testing.assert_allclose(allowed_errors(0.2, ["a"], "class"), [0.2])


def test_shrinking_is_a_mean_with_pseudo_rows():
    rng = np.random.default_rng(0)
    errors, n = rng.random((4, 6)), rng.integers(1, 50, 6)
    expected = (n * errors + 5 * errors.mean(axis=1)[:, None]) / (n + 5)
    np.testing.assert_allclose(shrunk(errors, 5 / (n + 5)), expected)
    mixture = rng.dirichlet(np.ones(4))
    np.testing.assert_allclose(mixture @ shrunk(errors, 5 / (n + 5)), shrunk(mixture @ errors, 5 / (n + 5)))
    assert shrunk(errors, None) is errors


def one_row_cells(seed=0, n=500):
    """Two classes with a good threshold; one group has a single row, on the wrong side."""
    rng = np.random.default_rng(seed)
    x, g = rng.normal(size=n), rng.choice(["a", "b", "rare"], n, p=[0.5, 0.5, 0])
    y = (x + 0.4 * rng.normal(size=n) > 0.8).astype(int)
    # A rule that is right on this row predicts class 1 almost always.
    x[0], y[0], g[0] = -5.0, 1, "rare"
    return np.c_[x, rng.normal(size=n)], y, g


def test_one_row_does_not_steer_a_game_over_cells():
    X, y, g = one_row_cells()
    clf = tb.WorstClassBoostClassifier(TREE, subgroups="cell", n_estimators=10, random_state=0)
    with pytest.warns(tb.SmallSubgroupsWarning, match="min_subgroup_rows"):
        clf.fit(X, y, groups=g)
    fresh, truth, _ = one_row_cells(1, 2000)
    assert len(np.unique(clf.predict(fresh))) == 2
    assert np.mean(clf.predict(fresh) != truth) < 0.2
    cell = [unit == (1, "rare") for unit in clf.subgroup_errors_].index(True)
    assert errors_of(clf)[cell] == 1.0  # reported as it is
    assert clf.subgroup_pools_[cell] in np.delete(clf.subgroup_pools_, cell)
    assert clf.trace_.weights.shape[1] == clf.subgroup_pools_.max() + 1 == len(clf.subgroup_errors_) - 1
    with warnings.catch_warnings():  # without that row there is nothing to warn of
        warnings.simplefilter("error")
        clf.set_params(n_estimators=2).fit(X[1:], y[1:], groups=g[1:])


def test_what_answers_one_class_meets_nothing():
    rng = np.random.default_rng(0)
    X, y, g = rng.normal(size=(300, 2)), rng.integers(0, 2, 300), rng.integers(0, 2, 300)
    clf = tb.WorstClassBoostClassifier(TREE, n_estimators=3, random_state=0, subgroups="cell")
    with pytest.warns(tb.BoundNotMetWarning, match="best mixture of constants|answers [01] to all"):
        clf.fit(X, y, groups=g)
    assert clf.limits_met_ is None


def test_small_groups_and_the_scale_of_weights():
    X, y, table = census()
    group = np.where(np.arange(400) < 6, "rare", table["race"])
    fits = []
    for scale in (1.0, 1 / 64):
        clf = tb.GroupDROBoostClassifier(TREE, n_estimators=3, random_state=0)
        with pytest.warns(tb.SmallSubgroupsWarning, match="subgroup_pools_"):
            fits.append(clf.fit(X, y, sample_weight=np.full(400, scale), groups=group))
    np.testing.assert_array_equal(fits[0].estimator_weights_, fits[1].estimator_weights_)
    assert fits[0].subgroup_pools_.tolist()[-1] in fits[0].subgroup_pools_.tolist()[:-1]
    assert fits[0].trace_.weights.shape[1] == 3
    assert SHRINKAGE == 5.0  # the value of the table in the documentation


def test_what_group_dro_over_groups_answers():
    X, y, table = census(300)
    groups = table[["race", "sex"]]
    given = {"n_iter_no_change": None, "random_state": 0}
    whole = tb.GroupDROBoostClassifier(TREE, n_estimators=5, **given).fit(X, y, groups=groups)
    curve = whole.tradeoff()
    assert (np.diff(curve.values.value) < 0).all()
    assert whole.reweight(error_budget=0.0).error_budget == 0.0


def test_groups_of_one_class_and_a_single_group():
    X, y, _ = census(300)
    for groups in (np.zeros(300), np.where(y == 1, "ill", np.where(X[:, 0] > 0, "well", "fit"))):
        for estimator in (None, TREE):
            clf = tb.GroupDROBoostClassifier(estimator, n_estimators=4, random_state=0)
            clf.fit(X, y, groups=groups)
            assert clf.predict_proba(X).shape == (300, 2)
            assert np.mean(clf.predict(X) != y) < 0.4
