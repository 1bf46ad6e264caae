"""Fresh rows with an answer to each: all that certificates read of given rows.

`Fresh` is made once for each call: by `Fresh.of_model`, or by `Fresh.of_answers` for an array of answers.
Rows that a model answers are compared with all rows that it knows (`Compared`).
"""

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cached_property
from typing import Self

import numpy as np

from tailboost.core import (
    Column,
    Floats,
    Ints,
    Labels,
    Mask,
    Table,
    as_frame,
    as_table,
    check_costs,
    columns_of,
    finite,
    frozen_object,
    frozen_value,
    how_many,
    n_rows_of,
    positions,
    refuse_unread,
    warn_user,
)
from tailboost.rates import Counts, Rate, Sample, with_deferrals
from tailboost.rows import (
    CALIBRATED_ON,
    FEWEST_TRAINED,
    NO_HASHES,
    TRAINED_ON,
    EqualRows,
    Rows,
    Seen,
    Votes,
    given_answers,
    hash_rows,
    random_numbers,
    refuse_copies,
    refuse_repeated,
    voting_numbers,
    with_titles,
)
from tailboost.selection.door import NO_RULE, Decided, Decision, Scored
from tailboost.selection.identity import NOTHING, Identity
from tailboost.selection.outputs import Outputs
from tailboost.selection.selection import Selection

#: Smallest and largest possible cost of any answer to any row.
CostRange = tuple[float, float] | None


@frozen_value
class Compared:
    """How fresh rows were compared with one another, and with all rows that are known.

    Attributes
    ----------
    equal_rows : {"copies", "natural"}
        As in `tailboost.certify`.
    complete : bool
        Whether they were compared with all rows that trained the model.
    shared : float or None
        The largest share of the rows that equal rows of a known table; None without one, or if known rows
        have another form.
    copies : float
        Share of the rows that equal another one, if nobody says why; 0 with over two rows to a content.
    """

    equal_rows: EqualRows = "copies"
    complete: bool = False
    shared: float | None = None
    copies: float = 0.0

    @classmethod
    def of(
        cls,
        decided: Decided,
        scored: Scored,
        rows: Rows,
        equal_rows: EqualRows,
        training_rows: Table,
        is_attempt: bool,
    ) -> Self:
        """Compare rows with all known rows of the fit, the selection and earlier calibrations of a model.

        These are the rows that the model has read itself, and those that models inside it have read. Raise
        LeakageError if the model knows the rows, or if they are copies of one another.
        """
        shared = []
        own, *inner = decided.known
        # 1. With the rows that trained a model of another library, as they are stated.
        are_stated = training_rows is not None
        if are_stated:
            refuse_unread(training_rows, "training_rows")
            n_trained = n_rows_of(training_rows)
            trained = [
                Seen.of(decided.score(each).given(), TRAINED_ON, most=n_trained)
                for each in _in_forms_of(rows.X, training_rows)
            ]
            shared.append(refuse_repeated(Seen.of(scored.given()), trained, equal_rows))
            are_stated = n_trained >= FEWEST_TRAINED * len(rows)
            if n_trained and not are_stated:
                warn_user(
                    f"training_rows has {how_many(n_trained, 'row')}, fewer than a tenth of "
                    f"the {len(rows):,} rows of X: give all that trained the model"
                )
        # 2. With those that a classifier of tailboost knows, also one inside another model.
        for known in decided.known:
            tables = known.tables
            if is_attempt and known is own:  # the ledger compares attempts
                tables = known.records.tables
            if tables:
                hashes = known.hashes(rows.X, scored)
                forms = [Seen.of(hashes)]
                # Rows of scores are known with their labels, other rows without them.
                if len(known.score_labels) and len(hashes):
                    forms.append(Seen.of(hashes, "", rows.has_column(known.score_labels)))
                shared += [refuse_repeated(form, tables, equal_rows) for form in forms]
        # 3. With one another: equal scores are different rows, but not if all rows are copied.
        copies = 0.0
        if equal_rows != "natural" and rows.clusters is None:
            copies = refuse_copies(rows.hashes(scored.given()), rows.y)
        if not scored.is_comparable:  # then nothing is said of known rows
            return cls(equal_rows, copies=copies)
        are_known = own.records.complete and all(
            table.recognises(len(rows)) for table in own.records.tables
        )
        # Where a part of a transformer alone knows rows, those of the whole model are not known.
        complete = (are_stated or are_known) and not any(
            known.is_part and known.tables for known in inner
        )
        return cls(equal_rows, complete, max(shared, default=None), copies)


@frozen_object
class Fresh:
    """Fresh rows with an answer to each.

    Attributes
    ----------
    answered : Counts
        Stratum and answer of each row.
    votes : Votes
        Which rows of a cluster count.
    used : Seen
        The rows, to recognise them later. Empty for an array of answers.
    compared : Compared
        How the rows were compared with one another and with known rows.
    decision : Decision
        The rule that has answered, if it is known.
    scored : Scored or None
        The rows with their scores; None for an array of answers.
    identity : Identity
        What of the model no digest of a rule covers.
    """

    answered: Counts
    votes: Votes
    used: Seen = Seen.of(NO_HASHES)
    compared: Compared = Compared()
    decision: Decision = NO_RULE
    scored: Scored | None = None
    identity: Identity = NOTHING

    def __len__(self) -> int:
        return len(self.answered.stratum)

    @property
    def voters(self) -> Ints:
        """The numbers of the rows with a vote among all."""
        return self.votes.among(np.arange(len(self)))

    @property
    def n_units(self) -> int:
        """Number of rows, or of clusters."""
        return self.votes.n_clusters or len(self)

    @cached_property
    def lots(self) -> Floats:
        """A random number in [0, 1) for each row: by an ideal hash independent of its content and vote."""
        return random_numbers(self.votes.draws.view(np.uint64))

    @cached_property
    def outputs(self) -> Outputs:
        """The outputs of the models, which other rules of a selection read."""
        assert self.scored
        assert self.scored.outputs
        return self.scored.outputs()

    @property
    def is_deferred(self) -> Mask:
        """Which rows are deferred, shape (n,)."""
        return self.answered.actions == self.answered.strata.n_classes

    @property
    def drawn(self) -> Floats | None:
        """The probability of each answer to each row, (n, K); None if the model draws no answers."""
        return self.scored.shares() if self.scored else None

    def samples(self, rate: Rate) -> list[Sample]:
        """Return the rows of each subgroup of a rate with their values; a cluster has one vote there.

        Of a tail or shift these are the losses, expected if the model draws its answers.
        """
        shares = self.drawn if rate.loss else None
        samples = rate.row_rate.samples(self.answered, shares)
        if self.votes.clusters is None:
            return samples
        return [s.taken(np.isin(s.rows, self.votes.among(s.rows))) for s in samples]

    def are_apart(self, samples: Sequence[Sample]) -> bool:
        """Whether no row, and no cluster, is in two samples: then the samples are independent."""
        units = [sample.rows for sample in samples]
        if self.votes.clusters is not None:
            units = [np.unique(self.votes.clusters[rows]) for rows in units]
        return bool((np.bincount(np.concatenate(units)) < 2).all())

    def by(self, selection: Selection) -> Self:
        """Return the same rows with the answers of another selection of the same candidates."""
        actions = selection.label_numbers(self.outputs).clip(max=self.answered.strata.n_classes)
        return replace(
            self,
            answered=replace(self.answered, actions=actions),
            decision=replace(self.decision, selected=selection),
        )

    # -- the doors -------------------------------------------------------------------------------------

    @classmethod
    def of_model(
        cls,
        decided: Decided,
        rows: Rows,
        rates: Sequence[Rate],
        equal_rows: EqualRows = "copies",
        training_rows: Table = None,
        cost_range: CostRange = None,
        outputs: Callable[[], Outputs] | None = None,
        whole: Rows | None = None,
        is_attempt: bool = False,
    ) -> Self:
        """Return rows with the answers of a model, compared with all rows that are known to it.

        Parameters
        ----------
        decided : Decided
            What answers.
        rows : Rows
            The rows, as they were given.
        rates : sequence of Rate
            The rates to count.
        equal_rows, training_rows, cost_range
            As in `tailboost.certify`.
        outputs : callable, optional
            Returns the outputs of the models for these rows, if they are known: no model scores rows twice.
        whole : Rows, optional
            The given table, of which the rows are a part. It is compared and recognised as a whole: scores of
            few values tell a table from others, and not its parts.
        is_attempt : bool, default=False
            Whether the rows are those of an attempt, which the ledger of the model compares with others: it
            may be the same call again. Otherwise rows of any attempt are refused.

        Raises
        ------
        LeakageError
            If `Compared.of` refuses the rows.
        ValueError
            If an argument is not as described.
        """
        _refuse_unknown(rates, rows, cost_range)
        if rows.X is None:
            raise ValueError("X is needed: model is a classifier")
        rule = decided.rule
        # A column without a name has that of the only column of the fit.
        if rows.names.titles == (None,) and len(rule.groups) == 1:
            rows = replace(rows, names=replace(rows.names, titles=tuple(rule.groups)))
        # 1. The rows as the model scores them, computed when they are read: at once if the model does not
        # state its labels. What no digest of it covers may change as it answers: it is read before and after.
        before = decided.identity()
        scored = decided.score(rows.X, rows.columns or None)
        if outputs:
            scored = replace(scored, outputs=outputs)
        classes = decided.classes
        if classes is None:
            _, classes = given_answers(scored.answers(), rows.classes)
        for rate in rates:
            if "deferral" in rate.needs and not rule.defers:
                raise ValueError(
                    f"{rate!r}: this model defers no row; tailboost.tune with a limit on it gives "
                    "a rule that may"
                )
        # 2. The rows in strata, and beside known ones.
        counts = _stratified(rows, rule, classes, cost_range)
        table = scored
        if whole is None or len(whole) == len(rows):
            whole = rows
        else:
            table = decided.score(whole.X)
        compared = Compared.of(decided, table, whole, equal_rows, training_rows, is_attempt)
        # 3. Their votes and answers.
        contents = scored.content() if rows.clusters is None else scored.voting()
        draws = voting_numbers(rows.hashes(contents), rows.clusters)
        return cls(
            replace(counts, actions=scored.numbers(classes)),
            Votes(rows.clusters, draws, same_everywhere=rule.defers),
            used=decided.seen(table, whole, CALIBRATED_ON),
            compared=compared,
            decision=rule,
            scored=scored,
            identity=before.after_answers(decided.identity(), "the model"),
        )

    @classmethod
    def of_answers(
        cls,
        answers: Column,
        rows: Rows,
        rates: Sequence[Rate],
        deferred: Column = None,
        cost_range: CostRange = None,
    ) -> Self:
        """Return rows with an array of answers; arguments and errors as of `of_model`."""
        _refuse_unknown(rates, rows, cost_range)
        answers, mask, defers = with_deferrals(answers, deferred, rows.labels)
        if not defers and any("mask" in rate.needs for rate in rates):
            raise ValueError(
                "deferred is needed: an array of answers does not show deferred rows; give "
                "deferred=, a mask that is True for a deferred row"
            )
        labels, classes = given_answers(answers, rows.classes)
        actions = positions(labels, classes, "model")
        actions[mask] = len(classes)
        draws = voting_numbers(rows.hashes(hash_rows(actions[:, None])), rows.clusters)
        return cls(
            replace(
                _stratified(rows, Decision(defers=defers), classes, cost_range), actions=actions
            ),
            Votes(rows.clusters, draws, same_everywhere=defers),
        )


# -- rows and their strata ---------------------------------------------------------------------------------


def _refuse_unknown(rates: Sequence[Rate], rows: Rows, cost_range: CostRange) -> None:
    """Raise ValueError if labels are not given, or the groups or costs of a rate."""
    if rows.y is None:
        raise ValueError("y is needed: the labels of the rows")
    for rate in rates:
        if "groups" in rate.needs and not rows.names.titles:
            raise ValueError(
                f"groups is needed for {rate!r}: give groups=, with an entry for each row"
            )
        if "costs" in rate.needs and (rows.costs is None or cost_range is None):
            raise ValueError(
                f"{rate!r} is a mean of costs by row: only tailboost.certify of Python bounds "
                "it, with costs= and cost_range=(smallest, largest) possible cost of any answer to any row"
            )


def _stratified(rows: Rows, rule: Decision, classes: Labels, cost_range: CostRange) -> Counts:
    """Return the rows by stratum, without answers yet."""
    costs = check_costs(rows.costs, len(rows), classes)
    of_fit = with_titles(rule.groups, rows.names.titles)
    names, groups = rows.names.extended_by(of_fit, rows.groups)
    y = positions(rows.classes, classes, "y")[rows.y]
    counts = Counts.stratified(
        y, groups.T, rows.weight, classes, names, defers=rule.defers, costs=costs
    )
    strata = replace(counts.strata, known=names.combinations_of(of_fit, rule.combinations))
    if cost_range is not None and costs is not None:
        low, high = finite(cost_range, "cost_range").tolist()
        least, most = strata.cost_range
        if not low <= least <= most <= high:
            raise ValueError(
                f"cost_range={cost_range!r}: the given costs range from {least:g} to {most:g}"
            )
        strata = replace(strata, cost_range=(low, high))
    return replace(counts, strata=strata)


# -- known rows --------------------------------------------------------------------------------------------


def _in_forms_of(X: Table, training_rows: Table) -> list[Table]:
    """Return training rows as a model reads the fresh rows X; raise ValueError for other columns.

    Beside named columns there is one form, with these names. Beside an array a data frame is one, too: some
    models read it by name, others by position.
    """
    from pandas import DataFrame  # a certificate of scores in arrays needs none

    names = columns_of(X)
    table = as_table(as_frame(training_rows), names)
    own_names = columns_of(table)
    are_others = names and own_names and names != own_names
    if are_others or table.shape[1:] != as_table(X).shape[1:]:
        raise ValueError("training_rows must have the columns of X, without labels")
    if names and not own_names:
        if not isinstance(table, np.ndarray):
            table = table.toarray()
        return [DataFrame(table, columns=names)]
    if own_names and not names:
        return [table, table.to_numpy()]
    return [table]
