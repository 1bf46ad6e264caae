"""Forests on open tables, grown once for all folds of a cross-fit."""

from __future__ import annotations

import math
from functools import cached_property
from itertools import chain
from typing import Any, Self, TypeVar

import numpy as np
import scipy.sparse as sp
from sklearn.ensemble import ExtraTreesClassifier, RandomForestClassifier
from sklearn.utils.validation import check_is_fitted

from tailboost.core.array_types import Floats, Floats32, Hashes, Ints, Labels, Mask, Table
from tailboost.core.checks import with_bits
from tailboost.core.long_work import count_threads, predict_in_blocks, sklearn_threads
from tailboost.learners.foreign import folds_left_out, rows_of_mask
from tailboost.learners.table import BinnedReader, OpenTable, TableClassifier, bin_cuts

FOREST_TREES = 100
# "auto": the number of trees times the number of rows is about this, within the limits below.
ROWS_OF_ALL_TREES = 1_200_000
FEWEST_TREES = 120
MOST_FOREST_TREES = 240
# Bins of a column, and features per split, of trees with best cuts. With bins they grow twice as fast.
CUT_BINS = 64
CUT_FEATURES = "sqrt"
# Approximate maximum of distinct rows for a tree. It bounds the time of a fit and the size of the trees.
ROWS_OF_TREE = 20_000
# A sample has at least ROWS_OF_TREE / (CLASS_PART · K) rows of each of K classes, or all rows of the class.
CLASS_PART = 4
TREES_OF_SAMPLE = 5  # trees that share a sample
# Maximum number of rows, and of table entries, in one prediction of a tree.
PREDICTED_AT_ONCE = 65_536
ENTRIES_AT_ONCE = 2**23
LEAVES_PER_CLASS = 2000  # maximum number of leaves of a tree, per class
SMALLEST_LEAF = 5e-5  # minimum weight of a leaf, as a fraction of the total weight
FACTOR_BITS = 10  # of factors by which the weights of a stratum are multiplied
LARGEST_LEAF = (
    0.05  # upper limit of the minimum weight, as a fraction of the total weight, for few rows
)

Forest = TypeVar("Forest", bound="TableForest")


class TableForest(TableClassifier):
    """Forest of trees with random or best cuts, for tables with categories and missing values.

    Parameters
    ----------
    n_trees : int or "auto"
        Number of trees. "auto": more trees for fewer rows, see `ROWS_OF_ALL_TREES`.
    leaf_rows : float
        Minimum weight of a leaf in average rows. If a class is rare, fully grown trees give most rows a
        probability of 0, and thresholds cannot separate these rows.
    max_features : float or str
        Features per split of trees with random cuts, as in scikit-learn.
    best_cuts : float
        Fraction of the trees with best cuts, as in random forests. The others have random cuts, as in
        extremely randomised trees. No tree uses a bootstrap sample.
    prior : float
        Weight of the class frequencies in each prediction. A positive prior keeps small forests from
        predicting probabilities of 0.
    n_jobs : int, optional
        Maximum number of threads.
    random_state : int, optional
        Seed of the trees.
    """

    def __init__(
        self,
        *,
        n_trees: int | str = FOREST_TREES,
        leaf_rows: float = 0.0,
        max_features: float | str = "sqrt",
        best_cuts: float = 0.0,
        prior: float = 0.0,
        n_jobs: int | None = None,
        random_state: Any = None,
    ) -> None:
        self.n_trees = n_trees
        self.leaf_rows = leaf_rows
        self.max_features = max_features
        self.best_cuts = best_cuts
        self.prior = prior
        self.n_jobs = n_jobs
        self.random_state = random_state

    def learn(self, opened: OpenTable, y: Ints, weight: Floats) -> Self:
        """Fit the forest on all rows."""
        return ForestSession(self, opened, y).grow(self, weight)

    def open_table(
        self, opened: OpenTable, y: Ints, n_classes: int, sample_weight: Floats | None = None
    ) -> ForestSession:
        """Return a session on an open table, see `protocols.TableLearner`."""
        return ForestSession(self, opened, y)

    @property
    def feature_importances_(self) -> Floats:
        """Mean decrease in impurity by column, shape (d,)."""
        check_is_fitted(self)
        batch_importances = [batch.feature_importances_ for batch in self.batches_]
        return np.average(
            batch_importances,
            axis=0,
            weights=[len(batch.estimators_) for batch in self.batches_],
        )

    def predict_proba_table(self, table: Table) -> Floats:
        """Return class probabilities for a table prepared by ``table_.transform``, shape (n, K).

        The probability of a class is the mean over the trees that were fitted with the class, mixed with the
        class frequencies by `prior`.
        """
        n_threads = count_threads(self.n_jobs, table.shape)
        return predict_in_blocks(self._predict_rows, table, n_threads)

    def _predict_rows(self, rows: Table) -> Floats:
        """Return the probabilities of rows in one thread, in blocks of bounded memory."""
        n = max(rows.shape[0], 1)  # no rows are one empty block
        rows_of_entries = ENTRIES_AT_ONCE * n // max(rows.size, 1)  # also of a sparse table
        step = min(max(rows_of_entries, 1024), PREDICTED_AT_ONCE)
        blocks = [self._predict_block(rows[i : i + step]) for i in range(0, n, step)]
        return np.concatenate(blocks)

    def _predict_block(self, block: Table) -> Floats:
        """Return the probabilities of a block of m rows, summed tree by tree, shape (m, K).

        scikit-learn's forests change warning filters, which threads share, and sum trees in any order.
        """
        K = len(self.classes_)
        is_sparse = sp.issparse(block)
        # Rows of one leaf take similar paths through the other trees. Sorted by leaf they use the cache.
        leaf = self.batches_[0].estimators_[0].apply(block, check_input=is_sparse)
        order = np.argsort(leaf, kind="stable")
        sorted_rows = block[order]
        P = np.zeros((block.shape[0], K))  # of the sorted rows; first the sums over the trees
        n_trees = np.zeros(K)  # trees that were fitted with each class
        for batch in self.batches_:
            columns = batch.classes_
            if len(columns) == K:
                columns = slice(None)  # faster than a list of numbers
            for tree in batch.estimators_:
                # Only sparse rows need checks; checks of dense rows for each tree would be slow.
                if is_sparse:
                    P[:, columns] += tree.predict_proba(sorted_rows)
                else:
                    P[:, columns] += tree.tree_.predict(sorted_rows)
            n_trees[columns] += len(batch.estimators_)
        P /= np.maximum(n_trees, 1.0)
        if any(len(batch.classes_) < K for batch in self.batches_):
            P /= P.sum(axis=1, keepdims=True)  # means over different trees
        if self.prior:
            P += self.prior * (self.shares_ - P)
        probabilities = np.empty_like(P)
        probabilities[order] = P
        return probabilities


class ForestSession:
    """All forests on one table.

    In a cross-fit each tree is grown once, without one fold. The trees without a fold predict its rows. The
    final forest consists of all trees. So a five-fold cross-fit grows one forest instead of six, and each
    out-of-fold prediction comes from a fifth of the trees, or from a third with three folds.

    The template has the parameters of leaves, threads and seed.
    """

    def __init__(self, template: TableForest, opened: OpenTable, y: Ints) -> None:
        self.template = template
        self.opened = opened
        self.y = np.asarray(y)
        self.fold: Ints | None = None
        self.grown: dict[int, list[Any]] = {}  # the trees without each fold
        self.grown_key: bytes = b""  # the weights of these trees

    def leave_out(self, fold: Ints) -> None:
        """Set the folds, see `protocols.Partitioned`."""
        self.fold = fold
        self.grown.clear()

    def fit(self, weight: Floats, seed: int = 0, rows: Mask | None = None) -> TableForest:
        """Return the forest for weights of shape (n,), grown on ``rows`` only.

        ``seed`` is not used: trees are shared, so the seed is the template's.
        """
        return self.grow(TableForest(**self.template.get_params()), weight, rows)

    def grow(self, forest: Forest, weight: Floats, rows: Mask | None = None) -> Forest:
        """Fit a forest on the rows of a mask (None: all) with weights of shape (n,), and return the forest.

        The class numbers of a batch of trees are positions in its ``classes_``.
        """
        n_classes = int(self.y.max(initial=0)) + 1
        class_weight = np.bincount(
            rows_of_mask(self.y, rows), rows_of_mask(weight, rows), n_classes
        )
        forest.table_ = self.opened.reader
        forest.batches_ = self._batches(weight, rows)
        forest.classes_ = np.arange(len(class_weight))
        forest.shares_ = class_weight / class_weight.sum()
        return forest

    @cached_property
    def n_trees(self) -> int:
        """Number of trees of a forest."""
        if isinstance(self.template.n_trees, str):
            n_rows = len(np.unique(self.opened.hashes))
            return int(np.clip(ROWS_OF_ALL_TREES // n_rows, FEWEST_TREES, MOST_FOREST_TREES))
        return self.template.n_trees

    def _batches(self, weight: Floats, rows: Mask | None) -> list[Any]:
        """Return the trees of a forest on the rows of a mask (None: all), in batches.

        With folds, a forest on all rows consists of the trees grown without fold 0, 1, …. Trees without a
        fold are grown once for the same weights.
        """
        # A second, empty fold beside a single one: half of the trees uses all rows.
        left_out = folds_left_out(self.fold, rows, least=2)
        if self.fold is None or not left_out:
            if rows is None:
                rows = np.ones(len(weight), dtype=bool)
            return self._grow(weight, rows, self.n_trees, 0)
        if self.grown_key != weight.tobytes():
            self.grown = {}
            self.grown_key = weight.tobytes()
        n_trees = _evenly(self.n_trees, max(2, int(self.fold.max()) + 1))
        for j in left_out:
            if j not in self.grown:
                self.grown[j] = self._grow(weight, self.fold != j, n_trees[j], j)
        return list(chain.from_iterable(self.grown[j] for j in left_out))

    def _grow(self, weight: Floats, rows: Mask, n_trees: int, fold: int) -> list[Any]:
        """Return batches of trees, grown on rows of positive weight.

        ``rows`` is a mask of the rows outside of fold number ``fold``, which is part of the seeds. Batches on
        many rows have different samples, with a quota of rows for each class.
        """
        used = np.flatnonzero(rows & (weight > 0.0))
        y = self.y
        place, class_sizes = self._places
        quotas = stratum_quotas(class_sizes, ROWS_OF_TREE)
        if (quotas == class_sizes).all() or n_trees <= TREES_OF_SAMPLE:
            return self._batch(used, weight[used], n_trees, (fold, 0))
        n_batches = math.ceil(n_trees / TREES_OF_SAMPLE)
        class_weight = np.bincount(y[used], weights=weight[used]).astype(np.float64)
        batches = []
        for batch, batch_trees in enumerate(_evenly(n_trees, n_batches)):
            # Consecutive windows of places, with a class as a circle: samples have few rows in common.
            window = fold * n_batches + batch
            offset = (place - window * quotas[y]) % class_sizes[y]
            in_window = offset < quotas[y]
            sample = used[in_window[used]]
            sample_weight = with_stratum_weights(weight[sample], y[sample], class_weight)
            batches += self._batch(sample, sample_weight, batch_trees, (fold, batch))
        return batches

    def _batch(
        self, index: Ints, weight: Floats, n_trees: int, number: tuple[int, int]
    ) -> list[Any]:
        """Return a forest of random cuts and one of best cuts, grown on the rows with these numbers.

        Parameters
        ----------
        index : ndarray of int, shape (m,)
            Numbers of the rows.
        weight : ndarray of shape (m,)
            Their weights.
        n_trees : int
            Number of trees of both forests together.
        number : (int, int)
            The fold and the batch, which are a part of the seed.
        """
        template = self.template
        seeds = [int(template.random_state or 0), *number]
        (seed,) = np.random.SeedSequence(seeds).generate_state(1)
        y = self.y[index]
        leaf_weight = smallest_leaf(self.opened.hashes[index], y, template.leaf_rows)
        common = {"min_weight_fraction_leaf": leaf_weight, "random_state": int(seed >> 1)}
        n_best = 0  # trees with best cuts, which need bins: a sparse table has none
        if not sp.issparse(self.opened.table):
            n_best = round(template.best_cuts * n_trees)
        forests = []
        with sklearn_threads(count_threads(template.n_jobs, self.opened.table.shape)):
            if n_best < n_trees:
                forest = ExtraTreesClassifier(
                    n_trees - n_best, max_features=template.max_features, **common
                )
                forests.append(forest.fit(self.opened.table[index], y, weight))
            if n_best:
                best_cut_forest = RandomForestClassifier(
                    n_best, bootstrap=False, max_features=CUT_FEATURES, **common
                )
                best_cut_forest.fit(self._bins.bins(self.opened.table[index]), y, weight)
                for tree in best_cut_forest.estimators_:
                    _cut_values(tree.tree_, self._bins.cuts)
                forests.append(best_cut_forest)
        return forests

    @cached_property
    def _bins(self) -> BinnedReader:
        """Reader of the table as bin numbers, for trees with best cuts."""
        return BinnedReader(
            self.opened.reader, bin_cuts(self.opened.table, CUT_BINS, self.opened.hashes)
        )

    @cached_property
    def _places(self) -> tuple[Ints, Ints]:
        """Place of each row within its class, shape (n,), and the size of each class, shape (K,)."""
        return places_in_strata(self.y, self.opened.hashes)


def _cut_values(tree: Any, cuts: list[Floats32]) -> None:
    """Replace the bin numbers in the splits of a tree by values, in place.

    "bin ≤ b" becomes "value < the cut above bin b". A tree compares by ≤, so the threshold is the next
    smaller number.
    """
    for j, column_cuts in enumerate(cuts):
        # An infinite threshold separates missing values.
        nodes = np.flatnonzero((tree.feature == j) & np.isfinite(tree.threshold))
        if len(nodes):
            cuts_above = column_cuts[tree.threshold[nodes].astype(np.intp)]
            tree.threshold[nodes] = np.nextafter(cuts_above, np.float32(-np.inf))


def with_stratum_weights(weight: Floats, strata: Ints, stratum_weight: Floats) -> Floats:
    """Return weights multiplied by one factor per stratum, so each sums to about ``stratum_weight``.

    Factors have few significant bits, so sums of weights are exact and trees break ties in one way.
    """
    sums = np.bincount(strata, weights=weight, minlength=len(stratum_weight))
    # A stratum may have no rows.
    factor = with_bits(stratum_weight / np.where(sums > 0.0, sums, 1.0), FACTOR_BITS)
    return weight * factor[strata]


def smallest_leaf(hashes: Hashes, y: Labels, leaf_rows: float) -> float:
    """Return the minimum weight of a leaf, as a fraction of the total weight; equal rows count once."""
    _, present_class = np.unique(y, return_inverse=True)
    _, class_sizes = places_in_strata(present_class, hashes)
    n_distinct = float(class_sizes.sum())
    smallest = max(SMALLEST_LEAF, 1.0 / (LEAVES_PER_CLASS * len(class_sizes)))
    return max(smallest, min(leaf_rows / n_distinct, LARGEST_LEAF))


def places_in_strata(stratum: Ints, hashes: Hashes) -> tuple[Ints, Ints]:
    """Return the place of each row among the distinct rows of its stratum, and the sizes of the strata.

    Places depend on content: equal rows have the same place, at any position.
    """
    order = np.lexsort((hashes, stratum))  # by stratum, and by content within it
    is_distinct = np.empty(len(order), dtype=bool)  # differs from the row before, in this order
    is_distinct[:1] = True
    is_distinct[1:] = (np.diff(stratum[order]) > 0) | (hashes[order[1:]] != hashes[order[:-1]])
    sizes = np.bincount(stratum[order[is_distinct]])
    first_place = np.cumsum(sizes) - sizes  # of each stratum
    place = np.empty(len(order), dtype=np.intp)
    place[order] = np.cumsum(is_distinct) - 1
    return place - first_place[stratum], sizes


def stratum_quotas(sizes: Ints, n_rows: int) -> Ints:
    """Return the number of rows of each stratum in a sample of ``n_rows`` rows; rare ones get a minimum.

    If there are not more rows, it has all of them.
    """
    if sizes.sum() <= n_rows:
        return sizes
    minimum = n_rows // (CLASS_PART * len(sizes))
    proportional = np.ceil(sizes * (n_rows / sizes.sum())).astype(np.intp)
    return np.minimum(sizes, np.maximum(proportional, minimum))


def _evenly(n: int, n_parts: int) -> list[int]:
    """Return the sizes of ``n_parts`` nearly equal parts of n, the larger ones first."""
    return (n // n_parts + (np.arange(n_parts) < n % n_parts)).tolist()
