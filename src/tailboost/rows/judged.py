"""What certificates, the monitor, reports and model files read of a fitted classifier."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray
from sklearn.exceptions import NotFittedError
from sklearn.frozen import FrozenEstimator
from sklearn.pipeline import Pipeline
from sklearn.utils import estimator_html_repr
from sklearn.utils.validation import check_is_fitted

from tailboost.core.array_types import Axes, Floats, Groups, Mask, Model, Table
from tailboost.core.checks import as_table
from tailboost.core.limit_lines import LimitLine, limits_html
from tailboost.rows.fingerprints import Fingerprint, RowHashes, hash_rounded_rows
from tailboost.rows.ledger import Ledger
from tailboost.rows.records import Records
from tailboost.rows.rows import Rows
from tailboost.rows.subgroups import GroupUse

# Members that serve other parts of the library. Completion leaves them out.
INTERNAL = frozenset(
    {
        *(
            "knows_rows",
            "probe_rows_",
            "group_features_",
            "group_combinations_",
            "records_",
        ),
        *("can_defer", "weighs_groups", "reads_scores", "draws"),
        *("selects_rule", "stated_limits", "takes_limits", "rule_digest"),
        *(
            "opened",
            "tested_values",
            "counts_on_selection",
            "cases",
            "row_hashes",
            "example_groups",
        ),
        "answering",
        "selection_within",
    }
)


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
    records_ : Records
        The rows that the classifier has read, by their use, and the attempts to calibrate it.
    """

    by_group: bool = False
    knows_rows: bool = False
    groups_: Any = ()
    group_combinations_: Any = ()
    group_features_: Any = ()
    probe_rows_: Any = None
    records_: Records

    def __dir__(self) -> list[str]:
        return [name for name in super().__dir__() if name not in INTERNAL]

    @property
    def stated_limits(self) -> tuple[Any, ...]:
        """The limits on rates that the fit states, also those of ``max_error``."""
        return ()

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
    def takes_limits(self) -> bool:
        """Whether the rule is selected within limits on rates, which are a parameter."""
        return hasattr(self, "limits")

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

    @property
    def seen_rows_(self) -> Fingerprint:
        """Fingerprint of the training rows: of all, if ``complete``."""
        if self.records_.trained is None:
            raise AttributeError(
                f"the training rows of this {type(self).__name__} are not known"
            )
        return self.records_.trained

    @property
    def ledger_(self) -> Ledger:
        """The attempts to calibrate this fit."""
        return self.records_.ledger

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

    def __getstate__(self) -> dict[str, Any]:
        # Results are computed anew after loading.
        state = cast("dict[str, Any]", super().__getstate__())
        return {k: {} if k == "_results" else v for k, v in state.items()}

    # -- errors on the selection data ------------------------------------------------------------------

    def _subgroup_table(self) -> Any:
        """Return the error of `predict` on each subgroup, on the selection data."""
        return self.rates_

    @property
    def rates_(self) -> Any:
        """Rates of the objective and of the limits by subgroup, of `predict` on the selection data."""
        raise AttributeError(f"{type(self).__name__} has no selection data, so no rates_")

    def _answers_of(
        self, classifiers: Sequence[Any], X: Table, groups: Groups
    ) -> list[tuple[Any, Any]]:
        """Return the predictions of the classifiers of a curve, and which rows they defer."""
        return [(classifier.predict(X), None) for classifier in classifiers]

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
            f"{name} is about another rule than that of this "
            f"{type(last_step(model)).__name__}: certify this rule from fresh rows"
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


def intervals_of(table: Any) -> Floats:
    """Return the intervals of a table, shape (m, 2); NaN without an interval."""
    intervals = table.intervals()
    if intervals is None:
        return np.full((len(table.lines), 2), np.nan)
    return intervals


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
