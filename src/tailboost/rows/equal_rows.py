"""Equal rows: how many are chance, within a table and in two independent tables of one population."""

import math

import numpy as np

from tailboost.core import Hashes, Ints, LeakageError

# -- of one table ------------------------------------------------------------------------------------------

CURE_OF_COPIES = (
    "Give each row once; if equal rows are different cases, pass clusters=, an id of each case"
)
# Probability up to which so many contents of a table occur k times, or a multiple, by chance.
COPIED_BY_CHANCE = 1e-6
MOST_COPIES = 20  # the largest k
# Copies are concentrated in a label if more than half of its contents repeat, and hardly any of another
# one; each has so many contents. Where few values are dense for one label, some of the other's repeat, too,
# if it is not rare: it has at least this share of the rows of the most frequent label.
MOST_REPEAT = 0.5
FEW_REPEAT = 0.02
LEAST_CONTENTS = 100
NOT_RARE = 0.25


def refuse_copies(hashes: Hashes, y: Ints) -> float:
    """Return the share of rows that equal another one of a table; 0 if there are over two rows to a content.

    ``hashes`` are of rows with labels, ``y`` the numbers of the labels.

    In independent draws, an occurring content has an even number of rows with a probability below 1/2, and a
    multiple of k > 2 more rarely. Raise LeakageError if Hoeffding's bound excludes this for the table or
    for a label, or if contents of one label repeat, and those of another one hardly do.
    """
    counts_by_label = [np.unique_counts(hashes[y == label]).counts for label in np.unique(y)]
    counts = np.concatenate(counts_by_label)
    _refuse_multiples(counts, "rows")
    for each in counts_by_label:
        _refuse_multiples(each, "rows of a label")
    fewest = NOT_RARE * np.bincount(y).max()
    repeating = [
        np.mean(each > 1)
        for each in counts_by_label
        if len(each) >= LEAST_CONTENTS and each.sum() >= fewest
    ]
    if repeating and max(repeating) > MOST_REPEAT and min(repeating) < FEW_REPEAT:
        raise LeakageError(
            f"X: {max(repeating):.0%} of the different rows of one label repeat, and "
            f"{min(repeating):.0%} of those of another, as after oversampling. {CURE_OF_COPIES}"
        )
    if 2 * len(counts) < len(y):
        return 0.0
    return counts[counts > 1].sum() / len(y)


def _refuse_multiples(counts: Ints, rows: str) -> None:
    """Raise LeakageError if too many contents occur k times, or a multiple; ``counts`` has their rows."""
    by_chance = len(counts) / 2 + math.sqrt(len(counts) * -math.log(COPIED_BY_CHANCE) / 2)
    n_contents = np.bincount(counts)  # with 0, 1, 2, … rows
    for k in range(MOST_COPIES, 1, -1):
        copied = n_contents[k::k].sum()
        if copied > by_chance:
            raise LeakageError(
                f"X: {copied:,} of {len(counts):,} different {rows} occur {k} times, or a multiple "
                f"of {k}, which is no chance. {CURE_OF_COPIES}"
            )


# -- of two tables -----------------------------------------------------------------------------------------

# Probability up to which a table of repeating rows is no part of another one by chance.
PART_BY_CHANCE = 1e-5
# Probability up to which equal tables, or tables in the same order, are not equal by chance.
SAME_BY_CHANCE = 0.0005
# So many rows of a table, or this share of them, may equal rows of any other table.
A_FEW = 3.0
SMALL_SHARE = 0.001
# Where no row repeats within a table, as many pairs of equal rows may lie in both as do so with this
# probability. Their number is random, too: chance makes more in fewer than one in 1,000 pairs of tables.
APART_BY_CHANCE = 0.004
# A table may have more rows in common with another one than its own repetition predicts. First, so many
# standard errors of the prediction.
STANDARD_ERRORS = 3.0
# Second, what so many further repeating rows predict: where none was seen, 4.6 pairs are the 99 % bound of
# their mean.
UNSEEN = 9.0
# Third, as the population may have shifted, the prediction once more, up to this share of the rows.
SHIFTED = 0.05


def equal_by_chance(counts: Ints, *, in_order: bool) -> bool:
    """Return whether two independent tables may be equal, with so many rows of each content, shape (m,).

    No population makes these counts, or rows in this order, more often than that whose shares are the counts.
    So two independent tables are equal, and as rare as `SAME_BY_CHANCE`, with at most this probability,
    whatever the population.
    """
    n = counts.sum()
    sizes, times = np.unique_counts(counts)
    log_chance = (times * sizes) @ np.log(sizes / n)  # of the order
    if not in_order:  # times the number of orders
        log_chance += math.lgamma(n + 1) - times @ [*map(math.lgamma, sizes + 1)]
    return log_chance >= math.log(SAME_BY_CHANCE)


def is_part(small: Ints, large: Ints) -> bool:
    """Return whether a table whose rows are all in another one is a part of it, or the same, beyond chance.

    Both are given by the numbers of rows of each content. A row is in the larger table by chance about as
    often as rows repeat there.
    """
    n = small.sum()
    if n == large.sum():
        return not equal_by_chance(small, in_order=False)
    share_repeated = max(large[large > 1].sum(), 1) / large.sum()
    return share_repeated**n < PART_BY_CHANCE


def most_in_common(small: Ints, large: Ints) -> float:
    """Return how many rows of the smaller of two independent tables may be in the larger one.

    Both are given as for `is_part`.

    Independent rows of a population equal one of n rows as often as these equal one another: the share of
    rows that repeat estimates it (Good and Turing). So each table predicts the number, and the smaller
    prediction counts: copies that somebody made within one table do not widen it. Repeating rows come mostly
    in pairs. The number of pairs is Poisson's, so that of the rows has the standard error √(2 n_repeated).

    Where no row repeats, rounded numbers may still be equal. A pair of equal rows among those of both tables
    has its rows in different tables with a probability q ≤ 1/2, and k independent pairs all have with qᵏ.
    In each case three rows, or one in a thousand, are chance.
    """
    n = small.sum()
    if max(small.max(), large.max()) == 1:
        q = 2 * n * large.sum() / (n + large.sum()) ** 2
        return max(A_FEW, SMALL_SHARE * n, math.log(APART_BY_CHANCE) / math.log(q))
    predictions = []
    for counts, other in ((small, large), (large, small)):
        ratio = other.sum() / counts.sum()
        n_repeated = counts[counts > 1].sum()
        expected = ratio * (n_repeated + STANDARD_ERRORS * math.sqrt(2 * n_repeated) + UNSEEN)
        shifted = min(ratio * n_repeated, SHIFTED * n)
        predictions.append(expected + STANDARD_ERRORS * math.sqrt(expected) + shifted)
    return max(A_FEW, SMALL_SHARE * n, min(predictions))
