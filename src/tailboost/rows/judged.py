"""What certificates, the monitor, reports and model files read of a fitted classifier."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from sklearn.base import BaseEstimator
from sklearn.exceptions import NotFittedError
from sklearn.frozen import FrozenEstimator
from sklearn.pipeline import Pipeline
from sklearn.utils import estimator_html_repr
from sklearn.utils.validation import check_is_fitted

from tailboost.core.array_types import Axes, Column, Floats, Groups, Ints, Mask, Model, Table
from tailboost.core.checks import as_table, n_rows_of, sorted_names
from tailboost.core.exceptions import LeakageError
from tailboost.core.limit_lines import LimitLine, limits_html
from tailboost.rows.fingerprints import (
    EqualRows,
    Fingerprint,
    RowHashes,
    UsedRows,
    hash_rounded_rows,
    hash_rows,
    labels_too_alike,
    tiny_hashes,
    too_many,
)
from tailboost.rows.schema import dtype_kind
from tailboost.rows.subgroups import GroupUse

if TYPE_CHECKING:  # of the wings above
    from tailboost.rows.rows import Rows
    from tailboost.selection.rate_table import RateTable

# The remedy as a parameter and as an option of the command line, which prints the same messages.
EQUAL_BY_NATURE = "equal_rows='natural' (in the shell --equal-rows natural)"

# Use of training rows, in messages.
TRAINED_ON = "models were trained on"
# Members that serve other parts of the library. Completion leaves them out.
INTERNAL = frozenset(
    {
        *(
            "knows_rows",
            "probe_rows_",
            "group_features_",
            "group_combinations_",
            "chosen_rows_",
            "used_rows_",
        ),
        *("can_defer", "weighs_groups", "reads_scores", "draws", "selects_rule", "rule_digest"),
        *(
            "opened",
            "tested_values",
            "counts_on_selection",
            "cases",
            "row_hashes",
            "count_known",
            "refuse_seen",
            "example_groups",
        ),
        *("threshold_family", "at_thresholds", "scores_of", "scores_on_selection", "may_draw"),
    }
)


@dataclass(frozen=True, eq=False)
class SelectionRecord:
    """Rows by which a rule is selected, to recognise them later.

    Attributes
    ----------
    chosen : tuple of Fingerprint
        Of rows with features, whose copies are never fresh rows.
    used : tuple of UsedRows
        Of rows with scores or given probabilities, which are compared as whole tables.
    """

    chosen: tuple[Fingerprint, ...] = ()
    used: tuple[UsedRows, ...] = ()

    @classmethod
    def of(cls, rows: RowHashes, labels: Any, *, features: bool) -> SelectionRecord:
        """Return the record of a table; with ``features`` it has more than scores."""
        chosen = (Fingerprint.of(rows.whole),) if features else ()
        used = (UsedRows.of_table(rows, labels, "selection data"),) if rows.read else ()
        return cls(chosen, used)

    def added_to(self, classifier: Any) -> None:
        """Add the record to those of a classifier."""
        classifier.chosen_rows_ = (*classifier.chosen_rows_, *self.chosen)
        classifier.used_rows_ = (*classifier.used_rows_, *self.used)


class Judged:
    """A fitted classifier of tailboost, as far as other parts of the library read it.

    The values here are those of a classifier of another library.

    Attributes
    ----------
    by_group : bool
        Whether answers need the groups of the rows.
    knows_rows : bool
        Whether ``seen_rows_`` has the training rows.
    groups_, group_combinations_ : array or tuple
        Names of the groups of the fit, and the combinations of several columns that occurred.
    group_features_ : tuple
        For each column of groups, its name and the features that reveal it.
    probe_rows_ : object or None
        Rows by which a model file is checked.
    seen_rows_ : Fingerprint
        Fingerprints of the training rows: of all, if ``complete``.
    chosen_rows_ : tuple of Fingerprint
        Fingerprints of other rows of the selection.
    used_rows_ : tuple of UsedRows
        Rows with labels that are compared as whole tables: selection data of a rule on scores, and the rows
        of a calibrated rule.
    ledger_ : Ledger
        The attempts to calibrate this fit.
    """

    by_group: bool = False
    knows_rows: bool = False
    groups_: Any = ()
    group_combinations_: Any = ()
    group_features_: Any = ()
    probe_rows_: Any = None
    seen_rows_: Fingerprint
    chosen_rows_: tuple[Fingerprint, ...] = ()
    used_rows_: tuple[UsedRows, ...] = ()
    ledger_: Any  # the module of ledgers imports this one

    def __dir__(self) -> list[str]:
        return [name for name in super().__dir__() if name not in INTERNAL]

    @property
    def can_defer(self) -> bool:
        """Whether the rule may defer rows; ``defers`` returns which."""
        return False

    @property
    def weighs_groups(self) -> bool:
        """Whether the rule weighs p(group | x, y), which is learned from the features."""
        return False

    @property
    def reads_scores(self) -> bool:
        """Whether the rule reads scores alone, so that equal rows are different rows."""
        return False

    @property
    def draws(self) -> bool | None:
        """Whether answers of the randomised rule are drawn; None without a randomised rule."""
        return None

    @property
    def selects_rule(self) -> bool:
        """Whether a rule was selected among candidates on known rows, so that another one can be."""
        return self.knows_rows and self.draws is not None

    @property
    def rule_digest(self) -> str | None:
        """Digest of the decision function: of the rule and its models; None without a selected rule.

        Copies, pickles and files keep it. `reweight`, other thresholds and other models change it.
        """
        return None

    @property
    def certificate_(self) -> Any:
        """The certificate of `tailboost.calibrate` for this rule; None without one."""
        certificate = vars(self).get("certificate_")
        if certificate is not None and is_about(certificate, self):
            return certificate
        return None

    @certificate_.setter
    def certificate_(self, certificate: Any) -> None:
        vars(self)["certificate_"] = certificate

    # -- pictures and notebooks ------------------------------------------------------------------------

    def _limit_lines(self) -> list[LimitLine]:
        """Return the limits of a fitted classifier: certified ones, or else those on the selection data."""
        if self.certificate_ is not None:
            lines: list[LimitLine] = self.certificate_.limit_lines()
            return lines
        try:
            check_is_fitted(self)
            return self.rates_.limit_lines()
        except (
            NotFittedError,
            AttributeError,
        ):  # the latter: no selection data, as in a rule file
            return []

    def plot_limits(self, ax: Axes = None, **kwargs: Any) -> Any:
        """Draw each limit with its verdict; needs matplotlib.

        After `tailboost.calibrate` the certified bounds are drawn, otherwise the rates on the selection
        data. `tailboost.plotting.LimitsDisplay` draws the rates on other rows.

        Parameters
        ----------
        ax : matplotlib Axes, optional
            Axes to draw on.
        **kwargs
            Passed to ``Axes.barh``.

        Returns
        -------
        LimitsDisplay

        Raises
        ------
        ValueError
            If there is no limit.
        """
        if self.certificate_ is None:
            drawn = self.rates_
        else:
            drawn = self.certificate_
        return drawn.plot(ax=ax, **kwargs)

    # What the limits of `_limit_lines` are, without a certificate.
    _limits_are = "On the selection data"

    def _rule_html(self) -> str:
        """Return the decision rule as HTML; empty without one."""
        return ""

    def _html_repr(self) -> str:
        """Return the limits as a table, the rule, and scikit-learn's diagram."""
        lines = self._limit_lines()
        if self.certificate_ is None:
            words = self._limits_are
        else:
            words = "Certified from fresh rows"
        if lines:
            limits = limits_html(lines, f"{words}:")
        else:
            limits = ""
        return limits + self._rule_html() + estimator_html_repr(self)

    # -- the rows of the fit ---------------------------------------------------------------------------

    def opened(self, X: Table, groups: Groups = None) -> Any:
        """Return rows for `predict` and other methods of classifiers with the same candidates.

        Parameters
        ----------
        X, groups : array-like of shape (n, d), (n,)
            As in `predict`.

        Returns
        -------
        object
            ``X`` itself, unless the models of the candidates can answer once for several classifiers.
        """
        return X

    def tested_values(self, opened: Any) -> Iterable[NDArray[Any]]:
        """Return the values by which all candidates answer opened rows.

        Parameters
        ----------
        opened : object
            Rows from `opened`.

        Returns
        -------
        iterable of ndarray of shape (n, ...)
        """
        return ()

    @property
    def counts_on_selection(self) -> Floats:
        """The confusion counts of the rule on the selection data; empty if they are not known."""
        return np.zeros(0)

    def cases(self, X: Table) -> Mask | None:
        """Return which rows of a table stand for a case each.

        Parameters
        ----------
        X : array-like of shape (n, d)
            As in `predict`.

        Returns
        -------
        ndarray of bool, shape (n,), or None
            None, which stands for all rows, unless a case has several rows.
        """
        return None

    def _checked(self, X: Table) -> Any:
        """Return a table in the form of the fit."""
        return X

    def _rows_kept(self) -> Rows | None:
        """Return the rows with labels in the classifier, if any."""
        return None

    def seen_share(self, X: Table) -> float:
        """Return the share of rows equal to training rows; errors on such rows are too small.

        Rows are compared by content, without labels, with the fingerprints in the model and its file
        (``seen_rows_``): of up to 50,000 distinct training rows, or of a sample of this size.
        Anybody who has the model can therefore test whether a row he knows was a training row. Numbers are
        compared as float32. Non-integers are rounded: to six decimal digits if a row has one
        such number, to four with three, to two with 200. So rows are recognised after a file, another type
        or a column of objects, but not after scaling, shuffling or noise.

        Parameters
        ----------
        X : array-like of shape (n, d)
            The rows. In a table with few different values fresh rows equal training rows by chance.

        Returns
        -------
        float
            From 0 to 1, each row counts once; NaN if the sample contains none of the rows.

        Examples
        --------
        >>> from sklearn.datasets import load_iris
        >>> from tailboost import AdaBoostClassifier
        >>> X, y = load_iris(return_X_y=True)
        >>> clf = AdaBoostClassifier(n_estimators=3).fit(X[::2], y[::2])
        >>> clf.seen_share(X[::2])
        1.0
        """
        check_is_fitted(self)
        return self.seen_rows_.share(self.row_hashes(X).whole)

    def row_hashes(self, X: Table) -> RowHashes:
        """Return the hashes by which rows are recognised, equal for all forms of the same rows.

        Parameters
        ----------
        X : array-like of shape (n, d)
            As in `predict`.

        Returns
        -------
        RowHashes
        """
        return RowHashes(hash_rounded_rows(as_table(self._checked(X))))

    def count_known(self, X: Table) -> Ints:
        """Return counts of rows equal to training rows, and of rows equal to rows of the selection.

        Frozen classifiers of tailboost within this one add further counts.

        Parameters
        ----------
        X : array-like of shape (n, d)
            The rows. Counts of parts of the rows add up.

        Returns
        -------
        ndarray of shape (m, 2)
            The number of equal rows, and the number of rows compared.
        """
        check_is_fitted(self)
        hashes = self.row_hashes(X).whole
        masks = [fingerprints.knows(hashes) for fingerprints, _ in self._own_records()]
        counts = np.array([(mask.sum(), len(mask)) for mask in masks], dtype=np.intp)
        return np.concatenate([counts, *count_by_frozen(self, X)])

    def _own_records(self) -> list[tuple[Fingerprint, str]]:
        """Return the fingerprints of the training rows, and of the rows of all selections together."""
        if self.chosen_rows_:
            selected = [Fingerprint.union(self.chosen_rows_)]
        else:
            selected = []
        uses = TRAINED_ON, "the decision rule was selected on"
        return list(zip([self.seen_rows_, *selected], uses, strict=False))

    def _records(self) -> list[tuple[Fingerprint, str]]:
        """Return the fingerprints of `count_known`, with the use of their rows."""
        finals = [last_step(model) for model in came_fitted(self)]
        inner = [
            record
            for final in finals
            if isinstance(final, Judged)
            for record in final._records()
        ]
        return [
            *self._own_records(),
            *((rows, "a frozen model was made on") for rows, _ in inner),
        ]

    def refuse_seen(
        self,
        counts: Ints,
        X: Table = None,
        y: Ints | None = None,
        *,
        equal_rows: EqualRows = "copies",
        name: str = "X",
    ) -> None:
        """Raise if more rows were used to train or select this classifier than chance explains.

        Parameters
        ----------
        counts : ndarray of shape (m, 2)
            From `count_known`.
        X, y : optional
            The rows and their class numbers, if available.
        equal_rows : {"copies", "natural"}, default="copies"
            "copies": refused if more than one row in twenty (by three standard errors) is equal to one of the
            fit. "natural": refused if rows equal rows of the fit more often, by four standard errors, than
            the rows of the fit equal one another. Also refused if labels agree with the kept labels of equal
            rows more often than in 999 of 1,000 random draws.
        name : str, default="X"
            Name of the rows in messages.

        Raises
        ------
        LeakageError
            Gives the reason.
        """
        refuse_known(self._records(), counts, equal_rows, name)
        stored = self._rows_kept()
        if equal_rows == "copies" or y is None or stored is None or stored.row_hashes is None:
            return
        hashes = tiny_hashes(hash_rows(self._checked(X))), stored.row_hashes
        contents = hashes[0].astype(np.intp), hashes[1].astype(np.intp)
        if labels_too_alike(contents, (y, stored.y), 1 + int(max(y.max(), stored.y.max()))):
            raise LeakageError(
                "X: equal_rows='natural', but the labels of these rows agree with those of the equal rows of "
                "the fit more often than in 999 of 1,000 random draws: they are copies"
            )

    def __getstate__(self) -> dict[str, Any]:
        # Results are computed anew after loading.
        state = cast("dict[str, Any]", super().__getstate__())
        return {k: {} if k == "_results" else v for k, v in state.items()}

    # -- errors on the selection data ------------------------------------------------------------------

    def _subgroup_table(self) -> RateTable:
        """Return the error of `predict` on each subgroup, on the selection data."""
        return self.rates_

    @property
    def rates_(self) -> RateTable:
        """Rates of the objective and of the limits by subgroup, of `predict` on the selection data."""
        raise AttributeError(f"{type(self).__name__} has no selection data, so no rates_")

    def _answers_of(
        self, classifiers: Sequence[Any], X: Table, groups: Groups
    ) -> list[tuple[Any, Any]]:
        """Return the predictions of the classifiers of a curve, and which rows they defer."""
        return [(classifier.predict(X), None) for classifier in classifiers]

    def _record_of(self, X: Table, y: Column) -> SelectionRecord:
        """Return the record of rows with labels by which a rule is selected."""
        return SelectionRecord((Fingerprint.of(self.row_hashes(X).whole),))

    @property
    def limits_probability_(self) -> float | None:
        """Estimated probability that `predict` keeps all limits on new rows; None without ``confidence``.

        See `RateTable.outlook`. It is None, too, if the probability is not known.
        """
        outlook = self.rates_.outlook
        if outlook is None:
            return None
        return outlook.probability

    @property
    def subgroup_errors_(self) -> dict[Any, float]:
        """Error of `predict` on each class, group or cell, on the selection data; NaN without rows."""
        check_is_fitted(self)
        return {line.subgroup: line.value for line in self._subgroup_table()}

    @property
    def subgroups_(self) -> list[Any]:
        """Names of the subgroups of `subgroup_errors_`."""
        return list(self.subgroup_errors_)

    @property
    def subgroup_intervals_(self) -> Floats:
        """95 % intervals for the errors of `predict` on new rows, shape (m, 2); NaN without an interval."""
        check_is_fitted(self)
        return intervals_of(self._subgroup_table())


OTHER = Judged()


def cached(classifier: Model, name: str, make: Callable[[], Any]) -> Any:
    """Return the result of ``make``, computed at the first access; a new selection empties ``_results``."""
    check_is_fitted(classifier)
    results: dict[str, Any] = classifier._results
    if name not in results:
        results[name] = make()
    return results[name]


def judged(model: Model) -> Judged:
    """Return the classifier at the end of a search or a pipeline, or the values of another library's."""
    final = last_step(model)
    if isinstance(final, Judged):
        return final
    return OTHER


def is_about(certificate: Any, model: Model) -> bool:
    """Return whether a certificate is about the rule of a classifier, by the digest of the rule.

    This comparison decides for `certificate_`, reports, monitors and files: an object that was copied, edited
    or selected anew carries no certificate of another rule.
    """
    return certificate.rule is not None and certificate.rule == judged(model).rule_digest


def refuse_other_rule(certificate: Any, model: Model, name: str) -> None:
    """Raise ValueError if a certificate is about another rule than that of a classifier.

    A certificate without a rule, and answers or a model of another library, cannot be compared.
    """
    known = certificate.rule is not None and judged(model).rule_digest is not None
    if known and not is_about(certificate, model):
        raise ValueError(
            f"{name} is about another rule than that of this {type(last_step(model)).__name__}: certify this "
            "rule from fresh rows"
        )


def group_arguments(model: Model, groups: Groups) -> dict[str, Any]:
    """Return the keyword arguments of ``predict``: the groups, if the classifier needs them."""
    if judged(model).by_group:
        return {"groups": groups}
    return {}


def group_uses(model: Model) -> tuple[GroupUse, ...]:
    """Return the dependence of a fitted classifier on each column of groups; empty without groups."""
    final = judged(model)
    return tuple(
        GroupUse(name, final.by_group, features, final.weighs_groups)
        for name, features in final.group_features_
    )


def intervals_of(table: RateTable) -> Floats:
    """Return the intervals of a table, shape (m, 2); NaN without an interval."""
    intervals = table.intervals()
    if intervals is None:
        return np.full((len(table.lines), 2), np.nan)
    return intervals


def refuse_known(
    records: Sequence[tuple[Fingerprint, str]],
    counts: Ints,
    equal_rows: EqualRows,
    name: str = "X",
) -> None:
    """Raise if more rows are known than chance explains.

    Parameters
    ----------
    records : sequence of (Fingerprint, str)
        The known rows, with their use as the start of a sentence.
    counts : ndarray of shape (m, 2)
        For each record the number of equal rows, and the number of rows compared.
    equal_rows, name
        As in `Judged.refuse_seen`.

    Raises
    ------
    LeakageError
        Gives the reason.
    """
    for (fingerprints, use), (repeated, sampled) in zip(records, counts.tolist(), strict=True):
        if equal_rows == "copies" and too_many(repeated, sampled):
            raise LeakageError(
                f"{name}: {use} {repeated / sampled:.0%} of these rows, or on rows equal to them. Errors "
                "there are smaller than on new rows: give rows that were not used to train or select the "
                "classifier. If features take so few values that fresh rows equal training rows, and "
                f"nobody copied a row, set {EQUAL_BY_NATURE}"
            )
        if equal_rows == "natural" and fingerprints.unnatural(repeated, sampled):
            raise LeakageError(
                f"{name}: equal_rows='natural', but {repeated / sampled:.0%} of these rows equal rows of the "
                f"fit, and only {fingerprints.repeated:.0%} of the rows of the fit equal one another. "
                "Some of these rows must be copies"
            )


def came_fitted(estimator: Model) -> list[Any]:
    """Return the frozen estimators within one: this fit does not know their training rows.

    None stands for an estimator with rows from other steps: such an estimator cannot be asked about rows.
    Models within frozen models of other libraries are among them, such as that of a calibrated classifier.
    """
    if isinstance(estimator, FrozenEstimator):
        model = estimator.estimator
        if isinstance(model, FrozenEstimator):
            return came_fitted(model)
        if isinstance(last_step(model), Judged):
            within = []
        else:
            within = came_fitted(model)
        return [model, *within]
    if isinstance(estimator, (list, tuple)):
        return [model for each in estimator for model in came_fitted(each)]
    if not isinstance(estimator, BaseEstimator):
        return []
    params = estimator.get_params(deep=False)
    frozen = came_fitted(list(params.values()))
    if isinstance(params.get("cv"), str) and params["cv"] == "prefit":
        frozen.append(None)
    if isinstance(estimator, Pipeline):
        return [None for _ in frozen]
    return frozen


def holds_unknown(estimator: Model) -> bool:
    """Return whether an estimator holds a frozen one with unknown training rows."""
    for model in came_fitted(estimator):
        if model is None:
            final = None
        else:
            final = last_step(model)
        if not isinstance(final, Judged) or not final.seen_rows_.complete:
            return True
    return False


def count_by_frozen(estimator: Model, X: Table) -> list[Ints]:
    """Return the counts of known rows of the frozen models, each from `Judged.count_known`."""
    counts = []
    for model in came_fitted(estimator):
        if isinstance(last_step(model), Judged):
            final, table = final_step(model, X)
            counts.append(final.count_known(table))
    return counts


# -- the classifier behind a pipeline or search ----------------------------------------------------------


def last_step(model: Model) -> Any:
    """Return the classifier at the end of a search or a pipeline."""
    return final_step(model, None)[0]


def final_step(model: Model, X: Table) -> tuple[Any, Any]:
    """Return the classifier at the end of a search or pipeline, and the rows (if any) transformed for it."""
    while isinstance(model, FrozenEstimator) or hasattr(model, "best_estimator_"):
        if isinstance(model, FrozenEstimator):
            model = model.estimator
        else:
            model = model.best_estimator_
    if not isinstance(model, Pipeline):
        return model, X
    return final_step(model[-1], X if X is None or len(model) == 1 else model[:-1].transform(X))


def row_hashes(model: Model, X: Table) -> RowHashes:
    """Return the hashes of rows as given to a model, equal for all forms that it answers alike.

    The columns of a data frame are in the order of the model or, if it knows none, of their names.
    """
    if isinstance(model, Judged):
        return model.row_hashes(X)
    table = as_table(X)
    names = getattr(model, "feature_names_in_", None)
    if names is None and not hasattr(
        model, "n_features_in_"
    ):  # no model of scikit-learn reads by position
        names = sorted_names(list(getattr(table, "columns", ())))
    return RowHashes(hash_rounded_rows(as_table(table, names)))


def with_frozen(model: Model, X: Table) -> Iterator[tuple[Any, Any]]:
    """Yield a classifier of tailboost and those frozen within it, with the rows as each reads them."""
    final, table = final_step(model, X)
    if isinstance(final, Judged):
        yield final, table
        for inner in came_fitted(final):
            yield from with_frozen(inner, table)


def answer_shares(model: Model, X: Table) -> Floats:
    """Return the probability of each answer to each row, shape (n, K).

    This is ``predict_distribution`` of a randomised rule of tailboost, also behind a pipeline or a search. Of
    every other classifier, the label that ``predict`` returns has probability 1: its ``predict_proba`` is an
    estimate of P(y | x), not the probability of an answer.
    """
    if hasattr(last_step(model), "predict_distribution"):
        return label_shares(model, X)
    return answered(model.predict(X), model.classes_)


def answered(labels: object, classes: object) -> Floats:
    """Return probability 1 for each answered label and 0 for the others, shape (n, K)."""
    return np.asarray(np.asarray(labels)[:, None] == np.asarray(classes), dtype=np.float64)


def label_shares(model: Model, X: Table, **given: object) -> Floats:
    """Return the label distribution of each row, shape (n, K).

    This is ``predict_distribution`` of a classifier of tailboost, also behind a pipeline or a search, and
    ``predict_proba`` of other classifiers. The keyword arguments ``given``, for example ``groups``, are
    passed to the classifier.
    """
    if hasattr(last_step(model), "predict_distribution"):
        final, rows = final_step(model, X)
        return np.asarray(final.predict_distribution(rows, **given), dtype=np.float64)
    return np.asarray(model.predict_proba(X, **given), dtype=np.float64)


# -- Probe rows: a loaded model must predict the same for them -----------------------------------------------

MOST_PROBES = 32
MOST_BYTES = 65_536
SAMPLE = 256  # rows of the sample from which columns are drawn
TOLERANCE = 1e-6  # of probabilities


@dataclass
class ProbeFrame:
    """Rows of a data frame as plain values for a model file."""

    names: list[Any]  # names of the columns
    # For each column: name of the dtype, values (None if missing), and None or (categories, ordered).
    columns: list[tuple[str, list[Any], tuple[list[Any], bool] | None]]

    def frame(self) -> Any:
        """Return the rows as a data frame with the original dtypes."""
        import pandas as pd

        series = []
        for dtype, values, categories in self.columns:
            kind: Any = dtype if categories is None else pd.CategoricalDtype(*categories)
            if dtype.startswith("float"):
                values = [np.nan if v is None else v for v in values]
            series.append(pd.Series(values, dtype=kind))
        table = pd.concat(series, axis=1)
        table.columns = pd.Index(self.names)
        return table


@dataclass
class ProbeMatrix:
    """Rows of a csr matrix as plain arrays."""

    data: NDArray[Any]
    indices: NDArray[np.int64]
    indptr: NDArray[np.int64]
    n_columns: int

    def matrix(self) -> Any:
        """Return the rows as a csr matrix."""
        shape = (len(self.indptr) - 1, self.n_columns)
        return sp.csr_matrix((self.data, self.indices, self.indptr), shape=shape)


def probe_rows(X: Table, seed: int) -> Any:
    """Return a few artificial rows that resemble the rows of a table.

    Each column (each pixel of images) is drawn separately from a small sample of the rows. So the result
    contains single values of the table, but no row of it. The same table and seed give the same rows. The
    draws do not change random numbers of the fit.

    Returns
    -------
    ndarray, `ProbeMatrix`, `ProbeFrame` or None
        At most 32 rows and about 64 KiB, with the dtypes of the table. None if a row is larger, or the table
        has another type.

    >>> import numpy as np
    >>> rows = probe_rows(np.arange(12.0).reshape(4, 3), seed=0)
    >>> rows.shape, bool(np.isin(rows[:, 0], [0, 3, 6, 9]).all())
    ((32, 3), True)
    """
    if not hasattr(X, "shape") or len(X.shape) < 2 or not all(X.shape):
        return None
    rng = np.random.default_rng([seed, X.shape[0]])
    sample = rng.choice(X.shape[0], size=min(SAMPLE, X.shape[0]), replace=False)
    if hasattr(X, "iloc"):
        return _frame(X.iloc[sample], rng)
    if sp.issparse(X):
        return _matrix(sp.csr_matrix(X)[np.sort(sample[:MOST_PROBES])], rng)
    if isinstance(X, np.ndarray):
        return _array(X[sample], rng)
    return None


def _n_rows(bytes_per_row: int) -> int:
    return min(MOST_PROBES, MOST_BYTES // max(bytes_per_row, 1))


def _array(rows: NDArray[Any], rng: np.random.Generator) -> NDArray[Any] | None:
    flat = rows.reshape(len(rows), -1)
    if rows.dtype == object and not _storable(flat.ravel().tolist()):
        return None
    n = _n_rows(flat.shape[1] * flat.itemsize)
    drawn = flat[rng.integers(len(flat), size=(n, flat.shape[1])), np.arange(flat.shape[1])]
    if n:
        return drawn.reshape(n, *rows.shape[1:])
    return None


def _matrix(rows: Table, rng: np.random.Generator) -> ProbeMatrix | None:
    entries = rows.tocoo()
    if entries.data.nbytes + entries.col.nbytes > MOST_BYTES:
        last = len(entries.row) * MOST_BYTES // (entries.data.nbytes + entries.col.nbytes)
        if entries.row[last]:
            return _matrix(rows[: int(entries.row[last])], rng)
        return None
    # Permute each column with entries separately.
    _, column = np.unique(entries.col, return_inverse=True)
    places = np.tile(np.arange(rows.shape[0]), (column.max(initial=-1) + 1, 1))
    if len(column):
        moved = rng.permuted(places, axis=1)[column, entries.row]
    else:
        moved = entries.row
    mixed = sp.csr_matrix((entries.data, (moved, entries.col)), shape=rows.shape)
    return ProbeMatrix(
        mixed.data,
        mixed.indices.astype(np.int64),
        mixed.indptr.astype(np.int64),
        int(rows.shape[1]),
    )


def _frame(rows: Table, rng: np.random.Generator) -> ProbeFrame | None:
    n = _n_rows(int(rows.memory_usage(deep=True, index=False).sum()) // len(rows))
    if not n:
        return None
    columns = []
    for j in range(rows.shape[1]):
        drawn = rows.iloc[:, j].iloc[rng.integers(len(rows), size=n)]
        values = [
            None if missing else value.item() if isinstance(value, np.generic) else value
            for value, missing in zip(drawn, drawn.isna(), strict=True)
        ]
        kind = drawn.dtype
        if dtype_kind(kind) == "categories":
            categories = (list(kind.categories), bool(kind.ordered))
        else:
            categories = None
        if not _storable([*values, *(categories or ([],))[0]]):
            return None
        columns.append((str(kind), values, categories))
    return ProbeFrame(list(rows.columns), columns)


def _storable(values: list[Any]) -> bool:
    """Return whether a model file can contain the values: no dates and other objects."""
    return all(
        v is None or isinstance(v, (str, int, float, np.number, np.bool_)) for v in values
    )


@dataclass
class Answers:
    """Predictions of a model for its probe rows."""

    labels: list[int]  # predicted labels as positions in ``classes_``
    # Result of ``predict_distribution``, else of ``predict_proba``, if the model has one.
    probabilities: list[list[float]] | None

    def same_as(self, other: Answers) -> bool:
        """Return whether all labels are equal, and all probabilities agree to 1e-6."""
        if self.labels != other.labels or (self.probabilities is None) != (
            other.probabilities is None
        ):
            return False
        if self.probabilities is None or other.probabilities is None:
            return True
        P = np.asarray(self.probabilities)
        Q = np.asarray(other.probabilities)
        return P.shape == Q.shape and bool((abs(P - Q) <= TOLERANCE).all())

    def differing(self, other: Answers) -> int:
        """Return the number of rows with different labels."""
        return sum(a != b for a, b in zip(self.labels, other.labels, strict=False))


def answers(model: Model, rows: Table) -> Answers:
    """Return the predictions of a model, or of the last step of a pipeline, for probe rows."""
    classifier = last_step(model)
    if isinstance(rows, ProbeFrame):
        rows = rows.frame()
    elif isinstance(rows, ProbeMatrix):
        rows = rows.matrix()
    place = {label: k for k, label in enumerate(classifier.classes_.tolist())}
    given = {}
    if judged(classifier).by_group:  # the rows take the groups in turn
        given = {"groups": classifier.example_groups(n_rows_of(rows))}
    labels = [place[label] for label in classifier.predict(rows, **given).tolist()]
    has_proba = hasattr(classifier, "predict_proba") or hasattr(
        classifier, "predict_distribution"
    )
    if has_proba:
        probabilities = label_shares(classifier, rows, **given).tolist()
    else:
        probabilities = None
    return Answers(labels, probabilities)


def is_skorch(estimator: Model) -> bool:
    """Return whether an estimator is a skorch net, or a pipeline or search that contains one."""
    if "skorch" not in sys.modules:  # saves the search through the parameters
        return False
    parts = [estimator, *estimator.get_params().values()]
    return any(c.__module__.startswith("skorch.") for part in parts for c in type(part).__mro__)
