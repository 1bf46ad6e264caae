"""Equal rows: how many are chance, within a table and in two independent tables of one population."""

import math

import numpy as np

from tailboost.core import Hashes, Ints, LeakageError

# -- of one table ------------------------------------------------------------------------------------------

CURE_OF_COPIES = (
    "Give each row once; if equal rows are different cases, pass clusters=, an id of each case"
)
# Probability up to which more contents of a table occur k times, or a multiple, by chance.
COPIED_BY_CHANCE = 1e-6
MOST_COPIES = 20  # the largest k
# Oversampling: over half of the contents of one label repeat, and under 2 % of those of another.
MOST_REPEAT = 0.5
FEW_REPEAT = 0.02
# Both labels have so many contents, and this share of the rows of the most frequent label: contents of a rare
# label hardly repeat beside dense ones of another.
LEAST_CONTENTS = 100
NOT_RARE = 0.25


def refuse_copies(hashes: Hashes, y: Ints) -> float:
    """Return the share of rows that equal another one of a table; raise LeakageError if they are copies.

    ``hashes`` are of rows with labels, ``y`` the numbers of the labels. Where there are over two rows to a
    content they repeat by nature, and the share is 0.

    In independent draws, an occurring content of at most half of the population has an even number of rows
    with a probability below 1/2, and a multiple of k > 2 more rarely. Rows are copies if Hoeffding's bound
    excludes this for the table or for a label, or if contents of one label repeat, and those of another one
    hardly do.
    """
    # The number of rows of each content, by label.
    counts_by_label = [np.unique_counts(hashes[y == label]).counts for label in np.unique(y)]
    counts = np.concatenate(counts_by_label)
    _refuse_multiples(counts, "rows")
    for each in counts_by_label:
        _refuse_multiples(each, "rows of a label")
    least = NOT_RARE * np.bincount(y).max()
    shares = [
        np.mean(each > 1)
        for each in counts_by_label
        if len(each) >= LEAST_CONTENTS and each.sum() >= least
    ]
    if shares and max(shares) > MOST_REPEAT and min(shares) < FEW_REPEAT:
        raise LeakageError(
            f"X: {max(shares):.0%} of the different rows of one label repeat, and "
            f"{min(shares):.0%} of those of another, as after oversampling. {CURE_OF_COPIES}"
        )
    if 2 * len(counts) < len(y):
        return 0.0
    return counts[counts > 1].sum() / len(y)


def _refuse_multiples(counts: Ints, rows: str) -> None:
    """Raise LeakageError if more contents than by chance occur k times, or a multiple, as ``counts`` has it.

    Messages call the contents different ``rows``.
    """
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

# Probability up to which equal tables, or tables in the same order, are not equal by chance.
SAME_BY_CHANCE = 0.0005
# Probability up to which a table of repeating rows is no part of another one by chance.
PART_BY_CHANCE = 1e-5
# So many rows of a table, or this share of them, may equal rows of any other table.
A_FEW = 3.0
SMALL_SHARE = 0.001
# Where no row repeats within a table, as many pairs of equal rows may lie in both as do so with this
# probability. Their number is random, too: chance makes more in fewer than one in 1,000 pairs of tables.
APART_BY_CHANCE = 0.004
# Where rows repeat, so many standard errors are added to an estimated number.
STANDARD_ERRORS = 3.0
# So many further rows may repeat: where none is seen, 4.6 pairs are the 99 % bound of their mean.
UNSEEN = 9.0
# As the population may have shifted, the number may be twice as large, by up to this share of the rows.
SHIFTED = 0.05


def equal_by_chance(counts: Ints, *, in_order: bool) -> bool:
    """Return whether two independent tables may be equal, with so many rows of each content, shape (m,).

    Where this is false, two independent tables of any population are equal with a probability of at most
    `SAME_BY_CHANCE`: the counts of the first table, or its rows in order, are most probable in a population
    with the shares of this table (maximum likelihood).
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

    Both are given as for `is_part`. Three rows, or one in a thousand, are always chance.
    """
    n = small.sum()
    n_large = large.sum()
    if max(small.max(), large.max()) == 1:
        # No row repeats in a table, but rounded numbers of both may be equal. A pair of equal rows lies in
        # different tables with a probability of about q ≤ 1/2, and k independent pairs all do with qᵏ.
        q = 2 * n * n_large / (n + n_large) ** 2
        most = math.log(APART_BY_CHANCE) / math.log(q)
    else:
        # Rows repeat: each table predicts the number. The smaller prediction counts, because copies that
        # somebody made within one table do not widen it.
        most = min(most_predicted(small, n_large), most_predicted(large, n))
    return max(A_FEW, SMALL_SHARE * n, most)


def most_predicted(counts: Ints, n_other: int) -> float:
    """Return how many rows two tables may have in common by the repetition within one of them.

    ``counts`` are its rows of each content, ``n_other`` is the number of rows of the other table.

    Independent rows of a population equal one of n rows as often as these equal one another: the share of
    rows that repeat estimates it (Good and Turing). Repeating rows come mostly in pairs. The number of pairs
    is Poisson's, so that of the rows has the standard error √(2 n_repeated).
    """
    n = counts.sum()
    n_repeated = counts[counts > 1].sum()
    most_repeated = n_repeated + STANDARD_ERRORS * math.sqrt(2 * n_repeated) + UNSEEN
    expected = n_other / n * most_repeated
    shifted = min(n_other / n * n_repeated, SHIFTED * min(n, n_other))
    return expected + STANDARD_ERRORS * math.sqrt(expected) + shifted
