"""Fresh rows with the answers of a rule, and what the procedures of `calibrate` get and return.

`Fresh` has the rows that certify, their subgroups, and votes of clusters. A procedure gets a `Case` with the
`Tests` of each limit, and returns an `Outcome`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import permutations
from operator import itemgetter
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import bdtr, ndtr, ndtri
from scipy.stats import binom

from tailboost.core.array_types import (
    Floats,
    Groups,
    Hashes,
    Ints,
    Labels,
    Mask,
    Model,
    Table,
)
from tailboost.core.checks import (
    as_table,
    check_costs,
    check_deferred,
    check_length,
    check_probabilities,
    coded,
    in_class_order,
    label_column,
    n_rows_of,
    positions,
)
from tailboost.learners.scores import Scores
from tailboost.rates import Counts, Limit, Rate, Sample, Statistic, Strata
from tailboost.rates.bounds import pair_p_value
from tailboost.rows.fingerprints import (
    hash_rows,
    hashes_of_pairs,
    random_numbers,
)
from tailboost.rows.judged import (
    final_step,
    group_arguments,
    judged,
    predicted_labels,
    row_hashes,
)
from tailboost.rows.rows import Rows
from tailboost.rows.seen import (
    CALIBRATED_ON,
    TRAINED_ON,
    EqualRows,
    Seen,
    refuse_copied,
    refuse_repeated,
)

#: Numbers of the answers of two labels.
FIRST, SECOND, DEFERRED = range(3)
# Probits of a limit that is kept by construction, and of one with too few rows for a test.
ALWAYS, NEVER = 9.0, -9.0
# Rows at the rate of all subgroups that join those of each one: small subgroups resemble the others.
PRIOR = 3.0
# Quantiles of the number of fresh rows: otherwise the fewest rows of any passing test look like enough.
QUANTILES = ndtri(np.arange(0.1, 1.0, 0.2))[:, None, None]


@dataclass(frozen=True, eq=False)
class Fresh:
    """Fresh rows with the answers of a model, or an array of answers.

    Attributes
    ----------
    answered : Counts
        Stratum and answer of each row.
    model : classifier
        The model that has answered; None for an array.
    table : object
        The rows as the model takes them.
    used : Seen
        The rows, to recognise them later; scores are known by their labels too. None for an array.
    content : ndarray of shape (n,)
        Hash of each row: of what the classifier at the end of a pipeline reads, or else of the answer, and of
        the stratum.
    compared : bool
        Whether the rows were compared with all rows that trained the model.
    equal_rows : {"copies", "natural"}
        As in `tailboost.certify`.
    only_scores : bool
        Whether the rule reads scores alone.
    clusters : ndarray of shape (n,)
        Cluster of each row; a cluster has one vote in a subgroup. None: each row has a vote.
    n_clusters : int or None
        Number of clusters.
    draws : ndarray of shape (n,)
        With clusters a random number of each row, for their votes. It depends on the contents of the cluster
        alone, so the order of rows has no effect.
    """

    answered: Counts
    model: Any = None
    table: Any = None
    used: Any = None
    content: Any = None
    compared: bool = False
    equal_rows: EqualRows = "copies"
    only_scores: bool = False
    clusters: Ints | None = None
    n_clusters: int | None = None
    draws: Any = None
    _samples: dict[Rate, list[Sample]] = field(init=False, default_factory=dict)

    @classmethod
    def of(
        cls,
        model: Any,
        given: Rows,
        rates: Sequence[Rate] = (),
        *,
        equal_rows: EqualRows = "copies",
        training_rows: Table = None,
        cost_range: Any = None,
        deferred: Any = None,
    ) -> Fresh:
        """Return given rows with the answers of a model, compared with the rows of its fit, or of an array.

        Parameters
        ----------
        model, equal_rows, training_rows, cost_range, deferred
            As in `tailboost.certify`.
        given : Rows
            The rows.
        rates : sequence of Rate
            The rates to count.

        Raises
        ------
        LeakageError
            If the model knows the rows from its fit.
        ValueError
            If an argument is not as described.
        """
        is_model = hasattr(model, "predict")
        reader = judged(model)
        if given.y is None:
            raise ValueError("y is needed: the labels of the rows")
        names, titles = given.names, tuple(reader._groups_by_column)
        if names is not None and names.titles == (None,) and len(titles) == 1:
            # A column without a name has that of the only column of the fit.
            given = replace(given, names=replace(names, titles=titles))
        groups = given.columns or None
        actions = np.zeros(len(given), dtype=np.intp)  # any, until the model answers
        if is_model:
            if deferred is not None:
                raise ValueError(
                    "deferred goes with an array of answers: a classifier knows its deferred "
                    "rows"
                )
            classes = _classes_of(model, given)
            if reader._can_defer:
                deferred = np.zeros(len(given), dtype=bool)
        else:
            if training_rows is not None:
                raise ValueError(
                    "training_rows: model is an array of answers, so there are no rows to "
                    "compare"
                )
            answers, classes = _given_answers(model, given)
            actions = positions(answers, classes, "model")
        for rate in rates:
            _refuse_unknown(rate, model, given, deferred, cost_range)
        costs = None
        if any(rate.needs_costs for rate in rates):
            costs = check_costs(given.costs, len(given), classes)
        answered = _answered(given, actions, classes, reader, deferred, costs, cost_range)
        strata = answered.strata
        stratum = answered.stratum.astype(np.uint64)
        table = used = None
        compared = False
        only_scores = bool(reader._reads_scores)
        if is_model:
            # The models of a classifier read the rows once, and answer once for all its rules.
            table = given.X
            if hasattr(type(model), "_opened"):
                table = model._opened(given.X, groups)
            hashes = row_hashes(model, table)
            content, compared = _compared(model, given, hashes, equal_rows, training_rows)
            # Equal scores are different rows also without a statement, but not if all rows are copied.
            if equal_rows != "natural" and given.clusters is None:
                refuse_copied("X", hashes_of_pairs(hashes, stratum))
            used = Seen.of(hashes, CALIBRATED_ON, given.labels if only_scores else None)
            answered = replace(answered, actions=_actions(model, table, groups, strata))
        else:
            content = hash_rows(answered.actions[:, None])
            model = None
        content = hashes_of_pairs(content, stratum)
        clusters = given.clusters
        n_clusters = draws = None
        if clusters is not None:
            n_clusters = len(np.unique(clusters))
            draws = random_numbers(content, clusters)
        return cls(
            answered,
            model,
            table,
            used,
            content,
            compared,
            equal_rows,
            only_scores,
            clusters,
            n_clusters,
            draws,
        )

    def __len__(self) -> int:
        return len(self.answered.stratum)

    @property
    def n_deferred(self) -> int:
        """Number of deferred rows; 0 for answers that never defer."""
        strata = self.answered.strata
        return int(strata.defers and (self.answered.actions == strata.n_classes).sum())

    # -- answers ---------------------------------------------------------------------------------------

    def by(self, selection: Any) -> Fresh:
        """Return the same rows with the answers of another selection of the same candidates."""
        actions, is_deferred = selection.answers(self.table)
        strata = self.answered.strata
        if strata.defers:
            actions = np.where(is_deferred, strata.n_classes, actions)
        answered = replace(self.answered, actions=actions)
        return replace(self, answered=answered, model=self.model._answering(selection))

    # -- subgroups and votes ---------------------------------------------------------------------------

    def samples(self, rate: Rate) -> list[Sample]:
        """Return the rows of each subgroup of a rate with their values; a cluster has one vote there at most.

        They are counted once for each rate.
        """
        if rate not in self._samples:
            samples = rate.samples(self.answered)
            if self.clusters is not None:
                samples = [s.taken(np.isin(s.rows, self.voters(s.rows))) for s in samples]
            self._samples[rate] = samples
        return self._samples[rate]

    def voters(self, rows: Ints) -> Ints:
        """Return the rows with a vote among some rows, ascending: one random row of each cluster.

        If rules may defer, only the same row of a cluster may have a vote everywhere: then rows with votes
        are independent for limits on errors and on deferral together.
        """
        if self.clusters is None:
            return rows
        among = np.arange(len(self)) if self.answered.strata.defers else rows
        by_draw = among[np.argsort(self.draws[among], kind="stable")]
        _, first = np.unique(self.clusters[by_draw], return_index=True)
        return rows[np.isin(rows, by_draw[first])]

    def are_apart(self, samples: Sequence[Sample]) -> bool:
        """Whether no row, and no cluster, is in two samples: then the samples are independent."""
        units = [sample.rows for sample in samples]
        if self.clusters is not None:
            units = [np.unique(self.clusters[rows]) for rows in units]
        return bool((np.bincount(np.concatenate(units)) < 2).all())


def _actions(model: Model, X: Table, groups: Groups, strata: Strata) -> Ints:
    """Return the number of the answer of ``predict`` to each row, shape (n,); K for a deferred row."""
    if hasattr(type(model), "_opened"):  # the rows are opened
        labels, is_deferred = model.selection_.answers(X)
        return np.where(is_deferred, strata.n_classes, labels) if strata.defers else labels
    classes = np.asarray(strata.classes)
    reader = judged(model)
    if reader is model:  # not a pipeline or a search
        numbers = reader._numbered_answers(X, groups, classes, defers=strata.defers)
        if numbers is not None:
            return np.asarray(numbers)
    final, rows = final_step(model, X)
    of_groups = group_arguments(final, groups)
    if of_groups:  # pipelines and searches pass groups on only on request
        model, X = final, rows
    answers = predicted_labels(model, X, **of_groups)
    if reader.records_ is None:
        check_length(answers, f"predict of {type(model).__name__}", n_rows_of(X))
    if answers.shape[1:] == (1,):  # CatBoost: shape (n, 1)
        answers = answers[:, 0]
    actions = positions(label_column(answers, "answers"), classes, "answers")
    if strata.defers:
        actions = np.where(final.defers(rows, **of_groups), strata.n_classes, actions)
    return actions


def _refuse_unknown(
    rate: Rate, model: Any, given: Rows, deferred: Any, cost_range: Any
) -> None:
    """Raise ValueError for a rate that needs groups, costs, labels or deferral that are not known."""
    is_model = hasattr(model, "predict")
    if rate.needs_groups and given.groups is None:
        raise ValueError(
            f"groups is needed: {rate!r} needs groups; give groups=, with an entry for each row"
        )
    if rate.needs_costs and (given.costs is None or cost_range is None):
        raise ValueError(
            f"{rate!r} is a mean of costs by row: only tailboost.certify of Python bounds it, "
            "with costs= and cost_range=(smallest, largest) possible cost of any answer to any "
            "row"
        )
    if deferred is None and not is_model and rate.counts_deferral:
        raise ValueError(
            "deferred is needed: an array of answers does not show deferred rows; give "
            "deferred=, a mask that is True for a deferred row"
        )
    if deferred is None and rate.needs_deferral:
        final, _ = final_step(model, None)
        raise ValueError(
            f"{rate!r}: this {type(final).__name__} defers no row; tailboost.tune with this "
            "limit gives a rule that may"
        )


def _answered(
    given: Rows,
    actions: Ints,
    classes: Labels,
    reader: Any,
    deferred: Any,
    costs: Any,
    cost_range: Any,
) -> Counts:
    """Return rows with answers as numbers, in strata that also have the groups of the fit without rows.

    A column of the fit counts if one of its groups occurs among the rows, and the combinations of several
    columns of the fit if all of them count. ``reader`` is the view of the classifier.
    """
    titles: Any = ()
    values: Any = ()
    if given.names is not None:
        titles, values = given.names.titles, [each.tolist() for each in given.names.values]
    of_fit = reader._groups_by_column
    if len(of_fit) == len(titles) == 1:  # a single column needs no name
        of_fit = dict(zip(titles, of_fit.values(), strict=True))
    known = {
        title: of_fit[title]
        for title, groups in zip(titles, values, strict=True)
        if not set(of_fit.get(title, ())).isdisjoint(groups)
    }
    combinations: Any = ()
    if known and len(known) == len(titles):
        combinations = None
        if len(titles) > 1:
            in_order = itemgetter(*map(list(of_fit).index, titles))
            found = set(map(in_order, reader.group_combinations_))
            combinations = tuple(sorted(found, key=repr))
    each_column = zip(titles, values, strict=True)
    values = [
        list(dict.fromkeys((*groups, *known.get(title, ())))) for title, groups in each_column
    ]
    y = positions(given.classes, classes, "y")[given.y]
    if deferred is not None:
        actions = np.where(check_deferred(deferred, len(given)), len(classes), actions)
        if costs is not None:  # deferral costs nothing
            costs = np.pad(costs, ((0, 0), (0, 1)))
    strata, stratum = Strata.of(
        y,
        given.groups,
        given.weight,
        classes,
        titles,
        values,
        defers=deferred is not None,
        costs=costs,
    )
    strata = replace(strata, known=combinations)
    if costs is not None:
        low, high = map(float, cost_range)
        if not low <= costs.min() <= costs.max() <= high:
            raise ValueError(
                f"cost_range={cost_range!r}: the given costs range from {costs.min():g} to "
                f"{costs.max():g}"
            )
        strata = replace(strata, cost_range=(low, high))
    return Counts(strata, stratum, given.weight / given.weight.sum(), costs, actions)


def _given_answers(answers: Any, given: Rows) -> tuple[Labels, Labels]:
    """Return the labels of an array of answers, given in the place of a model, and all labels.

    Raise ValueError for probabilities without a column for each label, and for numbers that are no labels.
    """
    y = given.labels
    array = np.asarray(answers)
    classes = np.unique(y)
    if array.ndim == 2:
        array = np.asarray(in_class_order(answers, "model", classes))
        if array.shape[1] != len(classes):
            raise ValueError(
                f"model has a column of probabilities for each of {array.shape[1]} labels, y "
                f"has {len(classes)}; give the predicted labels instead"
            )
        return classes[check_probabilities(array, len(y), "model", "y").argmax(axis=1)], classes
    is_fraction = array.dtype.kind == "f" and y.dtype.kind in "biuf"
    if is_fraction and ((array != np.floor(array)) & ~np.isin(array, y)).any():
        raise ValueError(
            "model holds numbers that are not labels of y. If they are probabilities, give "
            "labels, or probabilities of shape (n, K) with a column for each label"
        )
    labels = label_column(array, "model")
    check_length(labels, "model", len(y), "y")
    return labels, coded([*y.tolist(), *labels.tolist()], "y with the answers")[0]


def _classes_of(model: Model, given: Rows) -> Labels:
    """Return the classes of a classifier; of one without ``classes_`` the labels of rows and answers."""
    if given.X is None:
        raise ValueError("X is needed: model is a classifier")
    if hasattr(model, "classes_"):
        return label_column(model.classes_, "classes_")
    if isinstance(model, Scores):
        raise ValueError(
            f"{model!r} has no thresholds yet: give the rule of tune or calibrate, as in "
            "certify(tune(scores, X, y, limits=…), X_fresh, y_fresh)"
        )
    return _given_answers(model.predict(given.X), given)[1]


def _compared(
    model: Model, given: Rows, hashes: Hashes, equal_rows: EqualRows, training_rows: Table
) -> tuple[Hashes, bool]:
    """Return hashes of what the last step reads, and `Fresh.compared`; refuse rows that were used before."""
    final, table = final_step(model, given.X)
    read = hashes if final is model else row_hashes(final, table)
    compared = training_rows is not None
    if compared:
        trained = row_hashes(model, _in_form_of(given.X, training_rows))
        refuse_repeated(Seen.of(hashes), [Seen.of(trained, TRAINED_ON)], equal_rows)
        compared = len(trained) > 0
    records = judged(final).records_
    if records is not None:
        if records.tables:
            # Known scores have labels.
            for rows in (Seen.of(read), Seen.of(read, labels=given.labels)):
                refuse_repeated(rows, records.tables, equal_rows)
        compared = compared or records.complete
    return read, compared


def _in_form_of(X: Table, training_rows: Table) -> Any:
    """Return training rows with their columns in the order of ``X``; raise ValueError for other columns."""
    table = as_table(training_rows)
    rows = as_table(X)
    if hasattr(table, "columns") and hasattr(rows, "columns"):
        table = table[[name for name in rows.columns if name in table.columns]]
    if table.shape[1:] != rows.shape[1:]:
        raise ValueError(
            f"training_rows has {table.shape[1:]} columns of X, which has {rows.shape[1:]}: "
            "give all of them"
        )
    return training_rows if isinstance(training_rows, Mapping) else table  # read by name


# -- procedures ------------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Tests:
    """The tests of a limit: one for each limited subgroup, or one for all pairs of a gap or ratio.

    Attributes
    ----------
    limit : Limit
        The limit.
    wrong, among : ndarray of shape (m, S, 3)
        1 for strata and answers that count against the limit in each of m subgroups, and among which.
    allowed : ndarray of shape (m,)
        The largest allowed share of wrong rows; NaN for a gap or ratio.
    strata : ndarray of bool, shape (m, S)
        Which strata have rows that may count.
    places : ndarray of bool, shape (m, places)
        Which thresholds each test depends on.
    answers : ndarray of shape (m,)
        The only wrong answer, among a fixed number of rows; −1 without such an answer.
    is_ranked : bool
        Whether each subgroup has such an answer and one threshold, and is not compared.
    """

    limit: Limit
    wrong: Floats
    among: Floats
    allowed: Floats
    strata: Mask
    places: Mask
    answers: Ints
    is_ranked: bool

    @classmethod
    def of(cls, limit: Limit, strata: Strata, of_place: Mask) -> Tests | None:
        """Return the tests of a limit; ``of_place`` tells the thresholds of each stratum, (S, places).

        None stands for more than three answers, and for rows that count in part or by costs.
        """
        if limit.rate.needs_costs or strata.n_actions > 3:
            return None
        terms, n_strata = limit.rate.terms(strata), len(strata.mass)
        names, counted, among = terms.names, terms.top[:, :n_strata], terms.bottom[:, :n_strata]
        if not np.isin([counted, among], [0.0, 1.0]).all():
            return None
        wrong = counted if limit.from_above or limit.compares else among - counted
        padding = ((0, 0), (0, 0), (0, 3 - strata.n_actions))  # an answer that is never wrong
        wrong, among = np.pad(wrong, padding), np.pad(among, padding, mode="edge")
        allowed = np.full(len(names), np.nan)
        if not limit.compares:
            allowed = limit.against(limit.bounds(names))
            limited = ~np.isnan(allowed)
            wrong, among, allowed = wrong[limited], among[limited], allowed[limited]
        counted = among.max(axis=2)
        places = (counted > 0) @ of_place
        against = wrong.max(axis=1) > 0
        is_fixed = (among == among[..., :1]).all(axis=(1, 2))
        all_wrong = (wrong.max(axis=2) == counted).all(axis=1)
        is_share = is_fixed & all_wrong & (against.sum(axis=1) == 1)
        is_alone = is_share & (places.sum(axis=1) == 1)
        return cls(
            limit,
            wrong,
            among,
            allowed,
            counted > 0,
            places,
            np.where(is_share, against.argmax(axis=1), -1),
            bool(is_alone.all()) and not limit.compares,
        )

    def in_places(self, here: Any) -> list[Tests]:
        """Return the tests that depend on some thresholds, as a list, which is empty without any."""
        reads = self.places[:, here].any(axis=1)
        names = ("wrong", "among", "allowed", "strata", "places", "answers")
        part = {name: getattr(self, name)[reads] for name in names}
        return [replace(self, **part)] if reads.any() else []

    def counts(self, answered: Floats) -> tuple[Floats, Floats]:
        """Return wrong rows and all rows by rule and subgroup, (K, m) each, of rows by stratum and answer."""
        over = ((1, 2), (1, 2))
        return np.tensordot(answered, self.wrong, over), np.tensordot(
            answered, self.among, over
        )

    def kept(self, possible: Floats) -> Mask:
        """Return which tests rules pass by construction, shape (K, m): no possible answer is wrong."""
        wrong, among = self.counts(possible)
        if not self.limit.compares:
            return wrong == 0
        equal = (wrong == 0).all(axis=1) | (wrong == among).all(axis=1)
        return np.repeat(equal[:, None], len(self.wrong), axis=1)

    def passes(self, wrong: Floats, rows: Floats, kept: Mask, level: float) -> Mask:
        """Return which rules pass all tests at a level, shape (K,), by numbers of rows of shape (K, m).

        A claim about several subgroups needs no correction: if it is false, one of them breaks its limit, and
        this test alone errs with a probability of at most the level (intersection–union, Berger 1982).
        """
        if self.limit.compares:
            counts = np.rint(np.stack([wrong, rows], axis=2)).astype(int).tolist()
            return np.array(
                [
                    all_pairs_pass(each, self.limit.pair, level) or is_kept
                    for each, is_kept in zip(counts, kept[:, 0].tolist(), strict=True)
                ]
            )
        most = self.most(np.rint(rows).astype(np.intp), level)
        is_within = (rows > 0) & (np.rint(wrong) <= most)
        return np.asarray((kept | is_within).all(axis=1))

    def most(self, rows: Ints, level: float) -> Ints:
        """Return the most wrong rows of passing tests, −1 for none; ``rows`` has the shape (..., m)."""
        by_test = [
            most_reached(rows[..., j].ravel(), share, level).reshape(rows.shape[:-1])
            for j, share in enumerate(self.allowed.tolist())
        ]
        return np.stack(by_test, axis=-1)

    def probits(self, answered: Floats, possible: Floats, ratio: float, level: float) -> Floats:
        """Return the probit of the predicted probability of passing each test, shape (K, m) or (K, 1).

        ``ratio`` times as many fresh rows will be tested. The noise of both tables counts.
        """
        wrong, rows = self.counts(answered)
        kept = self.kept(possible)
        if self.limit.compares:
            shares = (wrong + 0.5) / (rows + 1.0)
            deviations = self.limit.deviations(shares * (1.0 - shares) / np.maximum(rows, 1.0))
            on_fresh = deviations / np.sqrt(ratio)
            rooms = self.limit.rooms(shares, shares) + ndtri(level) * on_fresh
            probits = rooms / np.maximum(np.hypot(deviations, on_fresh), 1e-12)
            probits[..., np.eye(len(self.wrong), dtype=bool)] = np.inf
            least = probits.min(axis=(-2, -1)).clip(NEVER, ALWAYS)
            return np.where(kept[:, :1], ALWAYS, least[:, None])
        shares = (wrong.sum(axis=1, keepdims=True) + 0.5) / (
            rows.sum(axis=1, keepdims=True) + 1.0
        )
        if len(self.wrong) > 1:
            shares = (wrong + PRIOR * shares) / (rows + PRIOR)
        expected = ratio * rows
        fresh = expected + QUANTILES * np.sqrt(expected * (1.0 + ratio))
        fresh = np.maximum(fresh, 0.0).astype(np.intp)
        most = self.most(fresh, level)
        spread = np.sqrt(np.maximum(fresh * shares * (1.0 - shares) * (1.0 + ratio), 1e-12))
        passes = np.where(most < 0, 0.0, ndtr((most + 0.5 - fresh * shares) / spread))
        return np.where(kept, ALWAYS, ndtri(passes.mean(axis=0)).clip(NEVER, ALWAYS))


def most_reached(n: ArrayLike, bound: float, level: float) -> Ints:
    """Return the largest number of scores that may reach a threshold with a rate certified to be small.

    Parameters
    ----------
    n : int, or array-like
        Numbers of scores.
    bound : float in [0, 1]
        The largest rate allowed.
    level : float in (0, 1)
        Probability of a false certificate.

    Returns
    -------
    ndarray of int
        By number of scores, the largest k with P(Bin(n, bound) ≤ k) ≤ level: a threshold that at most k
        scores reach then has a rate of at most ``bound``, except with a probability of at most ``level``. −1
        if no threshold among the scores has this property; n for a bound of 1.

    Examples
    --------
    >>> from tailboost.guarantees.fresh import most_reached
    >>> most_reached([59, 58], 0.05, 0.05).tolist(), int(most_reached(500, 0.25, 0.05))
    ([0, -1], 108)
    """
    if bound >= 1.0:
        return np.asarray(n)
    sizes, size_number = np.unique(n, return_inverse=True)  # many rules have the same number
    counts = binom.ppf(level, sizes, bound)  # the smallest with at least this probability
    return (counts - (bdtr(counts, sizes, bound) > level)).astype(np.intp)[size_number]


def all_pairs_pass(
    counts: Sequence[Sequence[int]], pair: tuple[float, float], level: float
) -> bool:
    """Return whether the exact tests of a gap or ratio pass for all pairs of subgroups.

    ``counts`` has the counted rows and all rows of each subgroup, ``pair`` the numbers of `Limit.pair`. All
    pairs must pass, so each is tested at the whole level.
    """
    factor, gap = pair
    return all(
        pair_p_value((x1, x2), (n1, n2), factor=factor, gap=gap, level=level) <= level
        for (x1, n1), (x2, n2) in permutations(counts, 2)
    )


def losses_of(objective: Statistic, strata: Strata) -> Floats | None:
    """Return the loss of each answer by stratum, shape (S, 3); None if the objective is no sum of losses."""
    rate = objective.rate
    if objective.worst or rate.is_ratio or rate.needs_costs or rate.by is not None:
        return None
    counted = rate.terms(strata).top[0, : len(strata.mass)]
    return np.pad(counted, ((0, 0), (0, 3 - strata.n_actions)))


@dataclass(frozen=True, eq=False)
class Outcome:
    """What a procedure has found: a selection whose rule is within all limits, or the likeliest rule.

    Attributes
    ----------
    answered : Fresh
        The fresh rows with the answers of the rule.
    level : float
        The level of its tests.
    words : str
        How the rule was made, or the reason of a refusal beside missed limits.
    selection : Selection or None
        None if no rule is certified.
    method : str
        Name of the procedure.
    """

    answered: Fresh
    level: float
    words: str = ""
    selection: Any = None
    method: str = ""


@dataclass(frozen=True, eq=False)
class Cells:
    """Rows by stratum and cell of a score, shape (S, V), with the place of each stratum, shape (S,).

    A rule has two cuts in each place: rows in cells below the first get the first label, from the second on
    the second label, and a human decides between them.
    """

    rows: Floats
    place: Ints

    @property
    def end(self) -> int:
        """V: a cut above all cells."""
        return self.rows.shape[1]

    @cached_property
    def _below(self) -> Floats:
        return np.pad(self.rows.cumsum(axis=1), ((0, 0), (1, 0)))

    def answered(self, cuts: Ints) -> Floats:
        """Return the rows of each stratum with each answer, (K, S, 3), of rules with cuts of (K, m, 2)."""
        strata = np.arange(len(self.place))
        low = self._below[strata, cuts[:, self.place, 0]]
        high = self._below[strata, cuts[:, self.place, 1]]
        return np.stack([low, self._below[:, -1] - high, high - low], axis=2)

    def possible(self, cuts: Ints) -> Floats:
        """Return 1 for each answer that rows of a stratum can get, whatever their score, (K, S, 3)."""
        low = cuts[:, self.place, 0]
        high = cuts[:, self.place, 1]
        return np.stack([low > 0, high < self.end, low < high], axis=2).astype(np.float64)


class Case:
    """A selection within limits, the fresh rows, and the allowed probability of a broken limit.

    Which procedure applies depends on the selecting rows and on numbers of fresh rows alone. So the next one
    may have the whole level.

    Attributes
    ----------
    limits : sequence of Limit
        The limits of the selection's problem.
    odds : Thresholds or None
        The score of two labels on the selecting rows; None without one, or if rows do not count whole. The
        attributes below exist only with a score, and of fresh rows only if they are given.
    tests, fresh_tests : list of Tests
        The tests of all limits on the selecting rows, and on the fresh rows.
    losses, fresh_losses : ndarray of shape (S, 3)
        The loss of each answer by stratum of the selecting rows, and of the fresh rows.
    cells : Cells
        The selecting rows by stratum and value of the score.
    n_places : int
        Number m of groups with thresholds of their own.
    fresh_place : ndarray of shape (S,)
        The place of each stratum of the fresh rows.
    scores, places, cell : ndarray of shape (n,)
        Score of each fresh row, the number of its thresholds, and its cell, on the side of each cut on which
        rules answer it.
    ratio : float
        Fresh rows, or clusters with a vote each, by selecting rows.
    """

    def __init__(self, selection: Any, fresh: Any, level: float) -> None:
        self.selection = selection
        self.fresh = fresh
        self.level = level
        self.limits: Sequence[Limit] = selection.problem.limits
        self.odds: Any = selection.thresholds
        if self.odds is None:
            return
        strata = self.odds.data.strata
        place = self.odds.places
        number = np.eye(self.odds.n_places, dtype=bool)
        self.tests: Any = [Tests.of(limit, strata, number[place]) for limit in self.limits]
        self.losses: Any = losses_of(selection.problem.objective, strata)
        if None in self.tests or self.losses is None:
            self.odds = None
            return
        self.defers: bool = strata.defers
        self.cells = Cells(self.odds.weights, place)
        self.n_places: int = self.odds.n_places
        if fresh is None:
            return
        strata = fresh.answered.strata
        self.fresh_place: Ints = self.odds.places_of(strata)
        places = number[self.fresh_place]  # perhaps of more groups than have fresh rows
        self.fresh_tests: Any = [Tests.of(limit, strata, places) for limit in self.limits]
        self.fresh_losses: Any = losses_of(selection.problem.objective, strata)
        self.scores = self.odds.sign * fresh.table.score
        self.places = fresh.table.groups
        self.ratio = float((fresh.n_clusters or len(fresh)) / selection.n_rows)

    @cached_property
    def cell(self) -> Ints:
        """The cell of the score of each fresh row, shape (n,)."""
        return np.asarray(self.odds.cells(self.scores, self.places))

    def passes(
        self, answered: Fresh, tests: Sequence[Tests], possible: Floats, level: float
    ) -> bool:
        """Return whether answered fresh rows pass tests; ``possible`` are answers by stratum, (1, S, 3).

        A cluster has one vote in a test.
        """
        stratum, actions = answered.answered.stratum, answered.answered.actions
        for test in tests:
            counts = []
            for wrong, among in zip(test.wrong, test.among, strict=True):
                rows = answered.voters(np.flatnonzero(among[stratum, actions]))
                counts.append((wrong[stratum[rows], actions[rows]].sum(), len(rows)))
            n_wrong, n_rows = np.array(counts, dtype=np.float64).T[:, None]
            if not test.passes(n_wrong, n_rows, test.kept(possible), level).all():
                return False
        return True

    # -- rules -----------------------------------------------------------------------------------------

    def answered_by(self, cuts: Ints) -> Fresh:
        """Return the fresh rows with the answers of cuts, shape (m, 2)."""
        low, high = cuts[self.fresh_place[self.fresh.answered.stratum]].T
        second_or_deferred = np.where(self.cell < high, 2, 1)
        actions = np.where(self.cell < low, 0, second_or_deferred)
        return replace(self.fresh, answered=replace(self.fresh.answered, actions=actions))

    def rule(self, cuts: Ints) -> Any:
        """Return the selection with the rule of cuts, shape (m, 2)."""
        return self.selection.at(self.odds.ends(self.odds.edges[cuts[:, : 1 + self.defers]]))
