"""Whether a score grows with the label that is stated for it.

A place is a group with thresholds of its own, or all rows. A refusal is free if the rows stay fresh after it.

Of rows with a score and two labels let θ be the probability that a row of the stated label has no lower score
than a row of the other one in its place, and A the share of these pairs with this property. Of several places
θ and A are means, weighted by the rows of the rarer label in each. By Hoeffding (1963, Section 5), A ≤ θ − d
has probability at most exp(−2 n d²), and so has A ≥ θ + d. Here n is the number of pairs without a common
row: in each place the rows of its rarer label.

**Theorem.** A call is refused for free if A ≤ 1/2 − t with t = `FALLS`/√n, and certifies nothing if A < 1/2.
Then it and any further call on the same rows certify falsely with at most exp(−n t²/2) < 10⁻⁸ more than the
probability of one call.

**Proof.** If θ ≥ 1/2 − t/2, the call is refused for free with at most this probability. Otherwise it
certifies anything with at most this probability. So of the two events, a false certificate of the call, and a
free refusal before a false one, one has at most this probability, and the other one that of one call. □

A call warns if A ≤ 1/2 − `DOUBTFUL`/√n, which has probability at most 10⁻³ if θ ≥ 1/2. A warning spends
nothing.

Rows that select and do not certify may refuse for free, because the others are independent of them. Attempts
never spend a tenth of what is left to them, from which these 10⁻⁸ are paid.
"""

import numpy as np

from tailboost.core import Ints, warn_user
from tailboost.rates import Counts
from tailboost.selection.outputs import Outputs

# The t √n of the theorem, and of a warning.
FALLS = 6.1
DOUBTFUL = 1.9
FELL = "on these rows high scores speak against the label that is stated for them"


def refuse_falling(data: Counts, outputs: Outputs, among: Ints | slice) -> float:
    """Return the share A of some rows with their outputs; 1 without a single score, or without pairs of rows.

    Warn if the score falls with its label, and raise ValueError if it falls beyond chance.
    """
    models = outputs.models
    column = models.score_column
    if column is None:  # of an average no label is stated
        return 1.0
    scores = outputs.score[among]
    place = outputs.groups[among]
    y = data.strata.y[data.stratum[among]]
    rising = scores if column.positive_ else -scores
    total = 0.0
    n_pairs = 0
    for number in range(place.max(initial=-1) + 1):
        first, second = (np.sort(rising[(place == number) & (y == label)]) for label in (0, 1))
        n = min(len(first), len(second))
        if n:
            lower = np.searchsorted(first, second, side="right")
            total += n * float(lower.mean()) / len(first)
            n_pairs += n
    if not n_pairs:
        return 1.0
    share = total / n_pairs
    evidence = (0.5 - share) * n_pairs**0.5
    if evidence < DOUBTFUL:
        return share
    label, other = models.rows.classes[[column.positive_, 1 - column.positive_]].tolist()
    if models.columns_read:  # otherwise the score is P(label) of a model
        name = repr(column)
        cure = f"State label={other!r}, unless the labels are exchanged"
    else:
        name = f"P({label}) of {models.names[0]}"
        cure = (
            f"Check that its probabilities have the order of the labels {[other, label]}, "
            "and that rows and labels belong together"
        )
    words = (
        f"{name}: high scores speak against {label!r}. Of rows with different labels "
        f"that of {label!r} has the lower score in {1.0 - share:.0%} of pairs. {cure}"
    )
    if evidence >= FALLS:
        raise ValueError(f"{words}. Nothing is spent")
    warn_user(words)
    return share
