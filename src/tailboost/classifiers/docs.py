"""What the docstrings of the classifiers share: parameters, attributes, arguments of `fit`."""

from __future__ import annotations

from tailboost.core.docs import describing, texts_of

_PARAMETERS = """
estimator : classifier or str, optional
    The base learner, fitted on class numbers 0 … K − 1; None is `HistBoostClassifier`, a small
    gradient-boosted ensemble of binned trees. Names: "erm" (that one), "tree", "stump", "forest", "extra",
    "xgboost", see `tailboost.learners.named`.

alpha : float in (0, 1], default=0.5
    Tail mass: 1 is the mean loss, towards 0 the largest.

validation : {"auto", "cv", "train"} or float in (0, 1), default="auto"
    The losses on which λ is chosen. "cv": out-of-fold losses of five-fold cross-fitting, which drive the
    weights too; a member is the mean of the folds' models where these are our boosted trees (in AdaLPBoost:
    of two classes), else it is fitted to all rows. A fraction: losses on held-out rows; members are refitted
    on all rows. "train": the training losses, the papers' choice for small data; with a strong learner they
    are nearly zero and say nothing. "auto" is the explicit validation set where `fit` is given one, else "cv"
    up to 50,000 distinct rows or where a held-out fifth would have fewer than 20 rows of a class in a group,
    and 0.2 beyond.

min_subgroup_rows : int, default=10
    Groups and cells with fewer different rows (by effective size: the scale of weights has no part in it)
    do not steer the fit by themselves: the small ones of a class (for cells) or of a column (for groups) are
    pooled, and where they are still too few the smallest of the others joins them. Classes are never pooled.
    A warning names all that are small. What is reported is by unit all the same.

shrinkage : float ≥ 0, default=5.0
    Pseudo-rows per class, group or cell. The error of a subgroup with n rows is shrunk towards the mean over
    the subgroups, with weight s/(n + s) for s pseudo-rows. The player uses the shrunk errors;
    selection and reports use the measured ones.

include_constants : bool, default=True
    Whether the K constant classifiers may enter the mixture; an even mixture of them is a coin flip.

outlier_fraction : float in [0, 1), default=0.0
    Share of the weight, taken from the rows with the highest cumulative loss, that the player and λ
    ignore: a guard against label noise.

class_weight : dict, "balanced" or None
    Factors on the sample weights; they change the distribution the guarantee is about.

error_budget : float in [0, 1] or None, default=None
    Largest increase of the overall error above the most accurate member, on the selection data: 0 allows no
    more error than that member has. None sets no limit. `tradeoff` shows the effect of all budgets without
    another fit, and `reweight` changes the budget.

n_iter_no_change : int or None, default=3
    Stop when this many rounds together lowered the objective by no more than ``tol``; None plays all
    rounds.

tol : float, default=1e-3
    The least fall of the objective that counts.

max_time : float or None
    Seconds after which no further round is begun.

checkpoint_dir : path or None
    Folder for a checkpoint after each round. The same call resumes from the folder and gives the same
    model; with a larger ``n_estimators`` it adds rounds. One fit at a time may use the folder. A fit with
    other data, parameters (compared by value), class or library versions is refused. The files contain
    pickles, which run code when they are read: resume only from a folder that you trust as you would trust
    a program.

n_jobs : int or None
    The most threads: of the default learner, or over the folds of cross-fitting for other learners. None is
    all cores for the default learner, and one fold at a time for others. Tables of fewer than 5 million
    entries use one, and so do fits in threads of joblib that name no number.

random_state : int, RandomState or None
    Seed of the folds and the learners.

verbose : int, default=0
    Print a line per round if not 0.
"""

_ADDITIVE = """
estimator : classifier or str, optional
    The base learner or its name, see `tailboost.learners.named`; None is `HistTreeClassifier`, one binned
    tree of depth 5.

n_estimators : int, default=50
    Largest number of rounds.

learning_rate : float in (0, 1], default=1.0
    Share of each step that is taken; a smaller one needs more rounds.

validation : {"auto", "train"} or float in (0, 1), default="auto"
    The fraction of rows held out to decide when to stop; no hypothesis is fitted on them. "train" holds
    none out and plays all rounds. "auto" is the explicit validation set where `fit` is given one, else 0.2
    where ``n_iter_no_change`` is given and "train" where it is not.

n_iter_no_change : int or None, default=None
    Stop when this many rounds together lowered the error on the held-out rows by no more than ``tol``,
    and keep the best prefix; None plays all rounds.

tol : float, default=1e-3
    The least fall of that error that counts.
"""

_ATTRIBUTES = """
classes_ : ndarray of shape (K,)
    The labels.

ensemble_ : MixtureEnsemble
    Members and shares as one object; what predicts.

estimators_ : list
    The boosted hypotheses in order (the first is plain empirical risk minimisation, ERM: w = p), then the
    constants.

estimator_weights_ : ndarray
    λ, one share per member of ``estimators_``; sums to 1. Among optimal λ the one with the least mean
    loss, then with the fewest members.

n_iter_ : int
    Rounds played.

trace_ : Trace
    Weighted loss, effective size, seconds, solver gap and objective of every round, and why the fit ended.

gap_ : float
    Largest optimality gap of any solve.

objective_ : Objective
    What λ minimises; for a vote or an even mixture, what it is judged by.

summary_ : Summary
    The promised and observed bounds and the achieved objective; ``print`` shows them.

unit_pools_ : ndarray of shape (m,)
    Number of the steering unit, the column of ``trace_.weights``, of each unit of the game: small ones share
    one (see ``min_subgroup_rows``).

unit_intervals_ : ndarray of shape (m, 2)
    95 % intervals for the errors of `predict` on new rows of the same distribution: Clopper–Pearson intervals
    about `unit_errors_` with effective numbers of rows. If refits on all rows answer, each arm is lengthened
    in quadrature by 1.96 standard deviations of a refit: as the models of folds differ, at least .015. On 35
    tables .96 of 196 class errors on test rows were inside. NaN with fewer than 10 rows. None if members were
    fitted on these rows (``validation="train"``), or refits answer and one part was held out.
    `tailboost.certify` gives a guarantee.

expected_unit_intervals_ : ndarray of shape (m, 2)
    The same about the expected errors of the randomised classifier, as ``summary_.errors`` shows them.

n_features_in_, feature_names_in_
    The number of columns in `fit`, and their names where all are text.
"""

_ADDITIVE_ATTRIBUTES = """
ensemble_ : AdditiveEnsemble
    Members and steps as one object; what predicts.

estimators_ : list
    The hypotheses kept.

estimator_weights_ : ndarray
    Their steps a.

log_costs_ : ndarray of shape (T,)
    Logarithm of the cost after each round.

summary_ : AdditiveSummary
    The errors of ``predict`` on held-out rows where there are any, else on the training rows, and what the
    cost bounds; ``print`` shows them.

gap_ : float
    Largest optimality gap of any solve; 0 where steps have a closed form.
"""

_FIT = """
X : array-like, sparse matrix or data frame of shape (n, d)
    What the base learner takes; NaN where it takes NaN. Data frames reach it as they are.

groups : array-like of shape (n,) or table of n rows, optional
    Group of each row. In a table (data frame, dict of columns, array of several columns) every value of every
    column is a group, called (column, value), so that groups overlap; give a crossed column to cross columns.

y : array-like of shape (n,)
    Class labels of any type; None takes those of a torch Dataset given as X.

sample_weight : array-like of shape (n,), optional
    Non-negative weights; 2 is the row twice, 0 drops it.

**fit_params
    Metadata routed to the base learner's ``fit`` (with metadata routing enabled).

fit_raises
    If an argument is not as described; nothing has been fitted then.
"""


TEXTS = {
    **texts_of(_PARAMETERS),
    **texts_of(_ATTRIBUTES),
    **texts_of(_FIT),
}
# What methods that answer rows say of them and of what they return.
_ROWS = "Parameters\n----------\nX : array-like of shape (n, d)\n    The rows, as in `fit`."


def _answering(shape: str, words: str, section: str = "Returns") -> str:
    return f"{_ROWS}\n\n{section}\n{'-' * len(section)}\nndarray of shape {shape}\n    {words}"


TEXTS |= {
    "labels": _answering("(n,)", "Labels, as in `classes_`."),
    "shares": _answering("(n, K)", "Columns in the order of `classes_`; rows sum to 1."),
    "scores": _answering(
        "(n,) or (n, K)",
        "For two classes one score per row, positive for ``classes_[1]``; otherwise one per class.",
    ),
    "staged_labels": _answering("(n,)", "The last is that of ``predict``.", "Yields"),
    "staged_shares": _answering("(n, K)", "The last is that of all members.", "Yields"),
    "staged_scores": _answering("(n,) or (n, K)", "The last is that of all kept hypotheses.", "Yields"),
}
TEXTS["fit_raises"] = TEXTS["fit_raises"].replace("fit_raises", "ValueError", 1)

documented = describing(
    TEXTS,
    "classes_ ensemble_ estimators_ estimator_weights_ n_iter_ trace_ gap_ objective_ summary_ "
    "n_features_in_",
)
# Of additive classifiers, in which some of these words mean something else.
documented_additive = describing(
    {**TEXTS, **texts_of(_ADDITIVE), **texts_of(_ADDITIVE_ATTRIBUTES)},
    "classes_ ensemble_ estimators_ estimator_weights_ log_costs_ n_iter_ trace_ summary_ gap_ "
    "n_features_in_",
)
