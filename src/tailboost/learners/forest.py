"""Forests on the tables of the binned trees, grown once for all parts of a cross-fit."""

from __future__ import annotations

from functools import cached_property
from typing import Any, Self, TypeVar

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from sklearn.ensemble import ExtraTreesClassifier, RandomForestClassifier
from sklearn.utils.validation import check_is_fitted

from tailboost.core.array_types import Floats, Hashes, Ints, Mask
from tailboost.learners.table import BinnedReader, OpenTable, Table, TableClassifier, cuts
from tailboost.learners.threads import count_threads, predict_in_blocks, sklearn_threads

N_TREES = 100
# "auto" takes so many trees that they see about this many rows together, within these limits: where rows are
# few, trees are cheap, and out of fold only a fifth or a third of them answers.
ROWS_OF_ALL_TREES = 1_200_000
FEWEST_TREES, MOST_TREES = 120, 240
# Bins of a column for trees of best cuts, and the features that they look at: with fewer bins they grow twice
# as fast as on values.
CUT_BINS = 64
CUT_FEATURES = "sqrt"
# A tree sees at most about this many distinct rows. The time of a fit then no longer grows with the rows, and
# the trees stay small enough to be asked quickly.
MOST_ROWS = 20_000
# A class has at least one in so many of the rows that would be its own if all had as many, or all its rows.
LEAST_SHARE = 4
# This many trees share such a sample.
BATCH = 5
# Trees are asked for at most so many rows at a time. With fewer a tree is read anew too often, with more the
# sums take more memory.
ROWS_AT_ONCE = 65_536
# And for at most so many entries of the table: they are copied.
ENTRIES_AT_ONCE = 2**23
# A tree has at most so many leaves for each class, and no leaf less than this share of the weight. Larger
# trees take longer to ask and, with few classes, know no more.
LEAVES_PER_CLASS = 2000
SMALLEST_LEAF = 5e-5
# Least weight of a leaf, in average rows, where a class is very rare.
LEAF_ROWS = 5.0
# And at most this share of the weight, where there are very few rows.
LARGEST_LEAF = 0.05
# Rows of a class are multiplied by a number of few bits: sums of such weights are exact, whether a row weighs
# 2 or is there twice.
SIGNIFICANT_BITS = 10

Forest = TypeVar("Forest", bound="TableForest")


class TableForest(TableClassifier):
    """Forests of random or best cuts on the tables that the binned trees take (categories, missing values).

    Parameters
    ----------
    n_trees : int or "auto"
        Trees; "auto" takes more of them where rows are few, see `ROWS_OF_ALL_TREES`.
    leaf_rows : float, optional
        Least weight of a leaf in average rows; None depends on the rarest class, see `smallest_leaf`.
    max_features : float or str
        Features that trees of random cuts look at, as in scikit-learn.
    best_cuts : float
        Share of the trees that cut where impurity falls most, as random forests do, instead of at random, as
        extremely randomised trees do. All of them see all rows, so that a row of weight 2 is the row twice.
    prior : float
        Share of the class shares in every answer: so few trees answer out of fold that they often say 0.
    n_jobs : int, optional
        The most threads.
    random_state : int, optional
        Seed of the trees.
    """

    def __init__(
        self,
        *,
        n_trees: int | str = N_TREES,
        leaf_rows: float | None = None,
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
        """Grow a forest of all rows."""
        return ForestSession(self, opened, y).grow(self, weight)

    def open_table(
        self, opened: OpenTable, y: Ints, n_classes: int, sample_weight: Floats | None = None
    ) -> ForestSession:
        """Open rows that other learners read too, for any number of forests; see `protocols.TableLearner`."""
        return ForestSession(self, opened, y)

    @property
    def feature_importances_(self) -> Floats:
        """Those of the forest, shape (d,)."""
        check_is_fitted(self)
        each = [batch.feature_importances_ for batch in self.batches_]
        return np.average(each, axis=0, weights=[len(batch.estimators_) for batch in self.batches_])

    def predict_proba_table(self, table: Table) -> NDArray[np.float64]:
        """Return class probabilities for a table prepared by ``table_.transform``, shape (n, K).

        A class's probability is the mean over the trees that saw the class, and by `prior` its share.
        """

        def ask(block: Table) -> NDArray[np.float64]:
            # Not by the forests: they change Python's warning filters, which all threads share, and with
            # several threads sum the trees in any order.
            total, seen = np.zeros((block.shape[0], len(self.classes_))), np.zeros(len(self.classes_))
            # Rows that meet in a leaf of one tree take similar ways through the others: one after the other
            # they find these in the cache, and the processor guesses their branches right more often.
            leaf = self.batches_[0].estimators_[0].apply(block, check_input=sp.issparse(block))
            order = np.argsort(leaf, kind="stable")
            similar, sparse = block[order], sp.issparse(block)
            for batch in self.batches_:
                known = batch.classes_
                where = slice(None) if len(known) == len(seen) else known
                for tree in batch.estimators_:
                    # Indices of sparse rows may be longer than trees can read, so scikit-learn checks them.
                    # To check dense rows anew for every tree would take two thirds of the time of one row.
                    total[:, where] += tree.predict_proba(similar) if sparse else tree.tree_.predict(similar)
                seen[where] += len(batch.estimators_)
            total /= np.maximum(seen, 1.0)
            if any(len(batch.classes_) < len(seen) for batch in self.batches_):
                total /= total.sum(axis=1, keepdims=True)
            if self.prior:
                total += self.prior * (self.shares_ - total)
            answers = np.empty_like(total)
            answers[order] = total
            return answers

        def predict(rows: Table) -> NDArray[np.float64]:
            n = max(rows.shape[0], 1)
            step = min(max(ENTRIES_AT_ONCE * n // max(rows.size, 1), 1024), ROWS_AT_ONCE)
            return np.concatenate([ask(rows[a : a + step]) for a in range(0, n, step)])

        return predict_in_blocks(predict, table, count_threads(self.n_jobs, table.shape))


class ForestSession:
    """All forests on one table.

    Where models are judged out of fold, the trees are grown once: each leaves out one part of the rows, and a
    part is judged by the trees that left it out. The forest that stays consists of all trees. So a five-fold
    cross-fit takes one forest instead of six, at the price that the answers out of fold come from a fifth of
    the trees, a third with three folds.

    The template says what a leaf is, threads and seed, and has trees of which every part is left out by its
    share.
    """

    def __init__(self, template: TableForest, opened: OpenTable, y: Ints) -> None:
        self.template, self.opened, self.y = template, opened, np.asarray(y)
        self.part: Ints | None = None
        self.grown: dict[int, list[Any]] = {}
        self.grown_for: bytes = b""

    def leave_out(self, part: Ints) -> None:
        """Tell which rows are judged together, see `protocols.Partitioned`."""
        self.part = part
        self.grown.clear()

    def fit(self, weight: Floats, seed: int = 0, rows: Mask | None = None) -> TableForest:
        """Return the forest for weights of shape (n,), made of trees grown on ``rows`` only.

        The seed is the template's, so that trees can be shared; ``seed`` is not used.
        """
        return self.grow(TableForest(**self.template.get_params()), weight, rows)

    def grow(self, forest: Forest, weight: Floats, rows: Mask | None = None) -> Forest:
        """Give a forest its trees; the classes that a batch of these knows are positions in ``classes_``."""
        chosen = slice(None) if rows is None else rows
        mass = np.bincount(self.y[chosen], weights=weight[chosen], minlength=int(self.y.max(initial=0)) + 1)
        forest.table_, forest.batches_ = self.opened.reader, self._batches(weight, rows)
        forest.classes_, forest.shares_ = np.arange(len(mass)), mass / mass.sum()
        return forest

    @cached_property
    def n_trees(self) -> int:
        """How many trees a forest has."""
        if isinstance(self.template.n_trees, str):
            n_rows = len(np.unique(self.opened.hashes))
            return int(np.clip(ROWS_OF_ALL_TREES // n_rows, FEWEST_TREES, MOST_TREES))
        return self.template.n_trees

    def _batches(self, weight: Floats, rows: Mask | None) -> list[Any]:
        """Return the trees of a forest, fitted in batches."""
        everything = np.ones(len(weight), dtype=bool)
        if self.part is None:
            return self._grow(weight, everything if rows is None else rows, self.n_trees, 0)
        n_parts = int(self.part.max()) + 1
        # With a single part the other half of the trees sees all rows.
        numbers = list(range(n_parts)) if n_parts > 1 else [0, n_parts]
        wanted = [j for j in numbers if rows is None or np.array_equal(rows, self.part != j)]
        if not wanted:  # rows that are no complement of a part
            assert rows is not None
            return self._grow(weight, rows, self.n_trees, 0)
        if self.grown_for != weight.tobytes():
            self.grown, self.grown_for = {}, weight.tobytes()
        n_trees = dict(zip(numbers, _evenly(self.n_trees, len(numbers)), strict=True))
        for j in wanted:
            if j not in self.grown:
                self.grown[j] = self._grow(weight, self.part != j, n_trees[j], j)
        return [batch for j in wanted for batch in self.grown[j]]

    def _grow(self, weight: Floats, rows: Mask, n_trees: int, number: int) -> list[Any]:
        """Grow trees on those rows that have weight; ``number`` tells the parts' random numbers apart."""
        kept = np.flatnonzero(rows & (weight > 0.0))
        stratum, (place, size) = self.y, self._places
        most = quota(size, MOST_ROWS)
        n_batches = 1 if (most == size).all() else -(-n_trees // BATCH)
        mass = np.bincount(stratum[kept], weights=weight[kept]).astype(np.float64)
        batches = []
        for b, n in enumerate(_evenly(n_trees, n_batches)):
            # Windows of the places one after the other: samples have as few rows in common as can be.
            offset = (place - (number * n_batches + b) * most[stratum]) % size[stratum]
            index = kept if n_batches == 1 else kept[(offset < most[stratum])[kept]]
            own = weight[index]
            if n_batches > 1:
                own = reweighed(own, stratum[index], mass)
            batches += self._batch(index, own, n, (number, b))
        return batches

    def _batch(self, index: Ints, weight: Floats, n_trees: int, number: tuple[int, int]) -> list[Any]:
        template, given = self.template, self.template.random_state
        seed = np.random.SeedSequence([0 if given is None else int(given), *number]).generate_state(1)
        y, leaf = self.y[index], smallest_leaf(self.opened.hashes[index], self.y[index], template.leaf_rows)
        common = {"min_weight_fraction_leaf": leaf, "random_state": int(seed[0] >> 1)}
        n_best = 0 if sp.issparse(self.opened.table) else round(template.best_cuts * n_trees)
        forests = []
        with sklearn_threads(count_threads(template.n_jobs, self.opened.table.shape)):
            if n_best < n_trees:
                forest = ExtraTreesClassifier(n_trees - n_best, max_features=template.max_features, **common)
                forests.append(forest.fit(self.opened.table[index], y, weight))
            if n_best:
                best = RandomForestClassifier(n_best, bootstrap=False, max_features=CUT_FEATURES, **common)
                best.fit(self._bins.bins(self.opened.table[index]), y, weight)
                for tree in best.estimators_:
                    _cut_values(tree.tree_, self._bins.cuts)
                forests.append(best)
        return forests

    @cached_property
    def _bins(self) -> BinnedReader:
        return BinnedReader(self.opened.reader, cuts(self.opened.table, CUT_BINS, self.opened.hashes))

    @cached_property
    def _places(self) -> tuple[Ints, Ints]:
        return places(self.y, self.opened.hashes)


def _cut_values(tree: Any, cuts: list[NDArray[np.float32]]) -> None:
    """Make a tree of numbers of bins one of values: "bin ≤ b" is "value < the cut above bin b"."""
    for j, own in enumerate(cuts):
        # An infinite threshold parts missing values from all others.
        nodes = np.flatnonzero((tree.feature == j) & np.isfinite(tree.threshold))
        if len(nodes):
            above = own[tree.threshold[nodes].astype(np.intp)]
            tree.threshold[nodes] = np.nextafter(above, np.float32(-np.inf))


def reweighed(weight: Floats, strata: Ints, mass: Floats) -> Floats:
    """Multiply the weights of every stratum by a number of few bits so that they sum to its mass."""
    given = np.bincount(strata, weights=weight, minlength=len(mass))
    mantissa, exponent = np.frexp(mass / np.where(given > 0.0, given, 1.0))
    factor = np.ldexp(np.rint(mantissa * 2.0**SIGNIFICANT_BITS), exponent - SIGNIFICANT_BITS)
    weighed: Floats = weight * factor[strata]
    return weighed


def smallest_leaf(hashes: Hashes, y: NDArray[Any], leaf_rows: float | None) -> float:
    """Return the least share of the weight in a leaf, in which every class weighs the same.

    Where a class is rare, fully grown trees give most rows a probability of 0 of it: a pile of ties, on which
    thresholds land. So leaves weigh ``5 (1 − K n_k/n)`` average rows for the rarest class k: none where
    classes are even. Rows are counted by content, so that one said twice is one of weight 2.
    """
    codes = np.unique(y, return_inverse=True)[1]
    rows = np.array([len(np.unique(hashes[codes == k])) for k in range(int(codes.max()) + 1)])
    if leaf_rows is None:
        leaf_rows = LEAF_ROWS * (1.0 - len(rows) * float(rows.min()) / float(rows.sum()))
    least = max(SMALLEST_LEAF, 1.0 / (LEAVES_PER_CLASS * len(rows)))
    return max(least, min(leaf_rows / float(rows.sum()), LARGEST_LEAF))


def places(stratum: Ints, hashes: Hashes) -> tuple[Ints, Ints]:
    """Return each row's place among the distinct rows of its stratum, and how many these are in each.

    Places are by content, so that a row has one at any position, and all its repetitions the same.
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
    """Return how many of each stratum's rows a sample has: its share of ``most``, but of a rare one more."""
    if size.sum() <= most:
        return size
    at_least = most // (LEAST_SHARE * len(size))
    return np.minimum(size, np.maximum(np.ceil(size * (most / size.sum())).astype(np.intp), at_least))


def _evenly(n: int, parts: int) -> list[int]:
    return [n // parts + (i < n % parts) for i in range(parts)]
