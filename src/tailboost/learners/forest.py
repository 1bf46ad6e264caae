"""Forests on open tables, grown once for all folds of a cross-fit."""

from __future__ import annotations

from functools import cached_property
from itertools import chain
from typing import Any, Self, TypeVar

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from sklearn.ensemble import ExtraTreesClassifier, RandomForestClassifier
from sklearn.utils.validation import check_is_fitted

from tailboost.core.array_types import Floats, Hashes, Ints, Mask, Table
from tailboost.core.long_work import count_threads, predict_in_blocks, sklearn_threads
from tailboost.learners.foreign import among
from tailboost.learners.table import BinnedReader, OpenTable, TableClassifier, cuts

N_TREES = 100
# "auto": the number of trees times the number of rows is about this, within the limits below.
ROWS_OF_ALL_TREES = 1_200_000
FEWEST_TREES = 120
MOST_TREES = 240
# Bins of a column, and features per split, of trees with best cuts. With bins they grow twice as fast.
CUT_BINS = 64
CUT_FEATURES = "sqrt"
# Approximate maximum of distinct rows for a tree. It bounds the time of a fit and the size of the trees.
ROWS_OF_TREE = 20_000
# A sample has at least ROWS_OF_TREE / (LEAST_SHARE · K) rows of each of K classes, or all rows of the class.
LEAST_SHARE = 4
BATCH = 5  # trees that share a sample
# Maximum number of rows, and of table entries, in one prediction of a tree.
ROWS_AT_ONCE = 65_536
ENTRIES_AT_ONCE = 2**23
LEAVES_PER_CLASS = 2000  # maximum number of leaves of a tree, per class
SMALLEST_LEAF = 5e-5  # minimum weight of a leaf, as a fraction of the total weight
SIGNIFICANT_BITS = 10  # of factors by which the weights of a stratum are multiplied
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
        n_trees: int | str = N_TREES,
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
        each = [batch.feature_importances_ for batch in self.batches_]
        return np.average(
            each, axis=0, weights=[len(batch.estimators_) for batch in self.batches_]
        )

    def predict_proba_table(self, table: Table) -> NDArray[np.float64]:
        """Return class probabilities for a table prepared by ``table_.transform``, shape (n, K).

        The probability of a class is the mean over the trees that were fitted with the class, mixed with the
        class frequencies by `prior`.
        """

        def predict_block(block: Table) -> NDArray[np.float64]:
            # scikit-learn's forests change warning filters, which threads share, and sum trees in any order.
            total = np.zeros((block.shape[0], len(self.classes_)))
            n_trees = np.zeros(len(self.classes_))
            # Rows of one leaf take similar paths through the other trees. Sorted by leaf they use the cache.
            leaf = self.batches_[0].estimators_[0].apply(block, check_input=sp.issparse(block))
            order = np.argsort(leaf, kind="stable")
            similar = block[order]
            sparse = sp.issparse(block)
            for batch in self.batches_:
                columns: Any = batch.classes_
                if len(columns) == len(n_trees):
                    columns = slice(None)
                for tree in batch.estimators_:
                    # Only sparse rows need checks; checks of dense rows for each tree would be slow.
                    if sparse:
                        total[:, columns] += tree.predict_proba(similar)
                    else:
                        total[:, columns] += tree.tree_.predict(similar)
                n_trees[columns] += len(batch.estimators_)
            total /= np.maximum(n_trees, 1.0)
            if any(len(batch.classes_) < len(n_trees) for batch in self.batches_):
                total /= total.sum(axis=1, keepdims=True)
            if self.prior:
                total += self.prior * (self.shares_ - total)
            probabilities = np.empty_like(total)
            probabilities[order] = total
            return probabilities

        def predict(rows: Table) -> NDArray[np.float64]:
            n = max(rows.shape[0], 1)
            step = min(max(ENTRIES_AT_ONCE * n // max(rows.size, 1), 1024), ROWS_AT_ONCE)
            return np.concatenate(
                [predict_block(rows[a : a + step]) for a in range(0, n, step)]
            )

        return predict_in_blocks(predict, table, count_threads(self.n_jobs, table.shape))


class ForestSession:
    """All forests on one table.

    In a cross-fit each tree is grown once, without one fold. The trees without a fold predict its rows. The
    final forest consists of all trees. So a five-fold cross-fit grows one forest instead of six, and each
    out-of-fold prediction comes from a fifth of the trees, or from a third with three folds.

    The template has the parameters of leaves, threads and seed.
    """

    def __init__(self, template: TableForest, opened: OpenTable, y: Ints) -> None:
        self.template, self.opened, self.y = template, opened, np.asarray(y)
        self.part: Ints | None = None
        self.grown: dict[int, list[Any]] = {}
        self.grown_for: bytes = b""

    def leave_out(self, part: Ints) -> None:
        """Set the folds, see `protocols.Partitioned`."""
        self.part = part
        self.grown.clear()

    def fit(self, weight: Floats, seed: int = 0, rows: Mask | None = None) -> TableForest:
        """Return the forest for weights of shape (n,), grown on ``rows`` only.

        ``seed`` is not used: trees are shared, so the seed is the template's.
        """
        return self.grow(TableForest(**self.template.get_params()), weight, rows)

    def grow(self, forest: Forest, weight: Floats, rows: Mask | None = None) -> Forest:
        """Fit a forest; class numbers of a batch of trees are positions in ``classes_``."""
        n_classes = int(self.y.max(initial=0)) + 1
        mass = np.bincount(among(self.y, rows), among(weight, rows), n_classes)
        forest.table_, forest.batches_ = self.opened.reader, self._batches(weight, rows)
        forest.classes_, forest.shares_ = np.arange(len(mass)), mass / mass.sum()
        return forest

    @cached_property
    def n_trees(self) -> int:
        """Number of trees of a forest."""
        if isinstance(self.template.n_trees, str):
            n_rows = len(np.unique(self.opened.hashes))
            return int(np.clip(ROWS_OF_ALL_TREES // n_rows, FEWEST_TREES, MOST_TREES))
        return self.template.n_trees

    def _batches(self, weight: Floats, rows: Mask | None) -> list[Any]:
        """Return the trees of a forest, in batches."""
        everything = np.ones(len(weight), dtype=bool)
        if self.part is None:
            return self._grow(weight, everything if rows is None else rows, self.n_trees, 0)
        # With a single fold the other half of the trees uses all rows.
        numbers = list(range(max(2, int(self.part.max()) + 1)))
        wanted = [j for j in numbers if rows is None or np.array_equal(rows, self.part != j)]
        if not wanted:  # rows that are not the complement of a fold
            assert rows is not None
            return self._grow(weight, rows, self.n_trees, 0)
        if self.grown_for != weight.tobytes():
            self.grown, self.grown_for = {}, weight.tobytes()
        n_trees = dict(zip(numbers, _evenly(self.n_trees, len(numbers)), strict=True))
        for j in wanted:
            if j not in self.grown:
                self.grown[j] = self._grow(weight, self.part != j, n_trees[j], j)
        return list(chain.from_iterable(self.grown[j] for j in wanted))

    def _grow(self, weight: Floats, rows: Mask, n_trees: int, number: int) -> list[Any]:
        """Return trees grown on rows of positive weight; ``number`` identifies the fold in the seeds."""
        kept = np.flatnonzero(rows & (weight > 0.0))
        stratum, (place, size) = self.y, self._places
        most = quota(size, ROWS_OF_TREE)
        if (most == size).all() or n_trees <= BATCH:
            return self._batch(kept, weight[kept], n_trees, (number, 0))
        n_batches = -(-n_trees // BATCH)
        mass = np.bincount(stratum[kept], weights=weight[kept]).astype(np.float64)
        batches = []
        for b, n in enumerate(_evenly(n_trees, n_batches)):
            # Consecutive windows of places: samples have few rows in common.
            offset = (place - (number * n_batches + b) * most[stratum]) % size[stratum]
            index = kept[(offset < most[stratum])[kept]]
            sample_weight = reweighed(weight[index], stratum[index], mass)
            batches += self._batch(index, sample_weight, n, (number, b))
        return batches

    def _batch(
        self, index: Ints, weight: Floats, n_trees: int, number: tuple[int, int]
    ) -> list[Any]:
        template = self.template
        seeds = [int(template.random_state or 0), *number]
        (seed,) = np.random.SeedSequence(seeds).generate_state(1)
        y = self.y[index]
        leaf = smallest_leaf(self.opened.hashes[index], y, template.leaf_rows)
        common = {"min_weight_fraction_leaf": leaf, "random_state": int(seed >> 1)}
        n_best = 0
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
                best = RandomForestClassifier(
                    n_best, bootstrap=False, max_features=CUT_FEATURES, **common
                )
                best.fit(self._bins.bins(self.opened.table[index]), y, weight)
                for tree in best.estimators_:
                    _cut_values(tree.tree_, self._bins.cuts)
                forests.append(best)
        return forests

    @cached_property
    def _bins(self) -> BinnedReader:
        return BinnedReader(
            self.opened.reader, cuts(self.opened.table, CUT_BINS, self.opened.hashes)
        )

    @cached_property
    def _places(self) -> tuple[Ints, Ints]:
        return places(self.y, self.opened.hashes)


def _cut_values(tree: Any, cuts: list[NDArray[np.float32]]) -> None:
    """Replace bin numbers by values: "bin ≤ b" is "value < the cut above bin b"."""
    for j, thresholds in enumerate(cuts):
        # An infinite threshold separates missing values.
        nodes = np.flatnonzero((tree.feature == j) & np.isfinite(tree.threshold))
        if len(nodes):
            above = thresholds[tree.threshold[nodes].astype(np.intp)]
            tree.threshold[nodes] = np.nextafter(above, np.float32(-np.inf))


def reweighed(weight: Floats, strata: Ints, mass: Floats) -> Floats:
    """Return weights multiplied by one factor per stratum, so that each stratum sums to about its mass.

    Factors have few significant bits, so that sums of weights are exact and trees break ties in one way.
    """
    sums = np.bincount(strata, weights=weight, minlength=len(mass))
    mantissa, exponent = np.frexp(mass / np.where(sums > 0.0, sums, 1.0))
    factor = np.ldexp(
        np.rint(np.ldexp(mantissa, SIGNIFICANT_BITS)), exponent - SIGNIFICANT_BITS
    )
    weighed: Floats = weight * factor[strata]
    return weighed


def smallest_leaf(hashes: Hashes, y: NDArray[Any], leaf_rows: float) -> float:
    """Return the minimum weight of a leaf, as a fraction of the total weight; equal rows count once."""
    _, rows = places(np.unique(y, return_inverse=True)[1], hashes)
    smallest = max(SMALLEST_LEAF, 1.0 / (LEAVES_PER_CLASS * len(rows)))
    return max(smallest, min(leaf_rows / float(rows.sum()), LARGEST_LEAF))


def places(stratum: Ints, hashes: Hashes) -> tuple[Ints, Ints]:
    """Return the place of each row among the distinct rows of its stratum, and the sizes of the strata.

    Places depend on content: equal rows have the same place, at any position.
    """
    order = np.lexsort((hashes, stratum))
    another = np.empty(len(order), dtype=bool)
    another[:1] = True
    another[1:] = (np.diff(stratum[order]) > 0) | (hashes[order[1:]] != hashes[order[:-1]])
    size = np.bincount(stratum[order[another]])
    place = np.empty(len(order), dtype=np.intp)
    place[order] = np.cumsum(another) - 1
    return place - (np.cumsum(size) - size)[stratum], size


def quota(size: Ints, most: int) -> Ints:
    """Return the number of rows of each stratum in a sample of ``most`` rows; rare ones get a minimum."""
    if size.sum() <= most:
        return size
    at_least = most // (LEAST_SHARE * len(size))
    return np.minimum(
        size, np.maximum(np.ceil(size * (most / size.sum())).astype(np.intp), at_least)
    )


def _evenly(n: int, parts: int) -> list[int]:
    sizes: list[int] = (n // parts + (np.arange(parts) < n % parts)).tolist()
    return sizes
