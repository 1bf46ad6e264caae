"""The rule of a mixture, taken out: what decides, as words, as plain types and as SQL."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any, Literal, Self

import numpy as np
from numpy.typing import NDArray
from scipy.special import softmax

from tailboost._typing import Floats
from tailboost._units import unit_name
from tailboost.combiners import MixtureEnsemble
from tailboost.mixture._tables import LEAST_PROBABILITY, Models

FORMAT = 1
# Numbers that are shown, of weights and groups.
SHOWN = 12
INFERRED = (
    "this rule infers groups from the features by models of its own, beside the probabilities: it can be "
    "read here, and answers by predict alone. A classifier with by_group=True is told the groups"
)


@dataclass(frozen=True)
class RulePart:
    """One member with a share: thresholds on an average of log-probabilities, or a draw from it.

    With ``z_k = Σ_i weights[i] · log max(p_i,k, 1e-6) + offsets[k]`` a member charges the action a
    ``Σ_k exp(z_k) · prices[g][k][a]``, where g is the row's group if groups are told, and takes the cheapest,
    of equal ones the first. The actions are the classes in their order, and where there is one more, to pass
    the row on to a person. A draw has no prices: its shares are proportional to ``exp(power · z_k)``.

    Attributes
    ----------
    share : float
        λ, in (0, 1].
    weights : dict
        Weight of the logarithm of each model's probabilities; none of a constant answer.
    offsets : list of float
        One for each class.
    prices : list of lists, shape (groups or 1, K, actions), or None
        What an action is charged in a class; None for a draw.
    power : float or None
        Of a draw.
    inferred : bool
        Whether groups are inferred from the features: ``prices`` are then by group, and each group's is
        weighted by its probability.
    """

    share: float
    weights: dict[str, float]
    offsets: list[float]
    prices: list[list[list[float]]] | None = None
    power: float | None = None
    inferred: bool = False

    def logs(self, logs: Mapping[str, Floats], n: int) -> Floats:
        """Return z, shape (n, K), from the logarithms of the models' probabilities."""
        z = np.zeros((n, len(self.offsets))) + self.offsets
        for name, weight in self.weights.items():
            z = z + weight * logs[name]
        return z

    @property
    def plain(self) -> RulePart:
        """The same answers by the probabilities of the model itself, of one model of two classes.

        Its learned weight w and offsets change the order of no rows: they go into the prices. The second
        label is answered where ``p_1^w e^{b_1} s_1 > p_0^w e^{b_0} s_0`` with what a right answer saves, s.
        """
        if len(self.weights) != 1 or self.prices is None or self.inferred or len(self.prices[0][0]) != 2:
            return self
        ((name, weight),) = self.weights.items()
        costs = np.array(self.prices)
        saved = np.stack([costs[:, 0, 1] - costs[:, 0, 0], costs[:, 1, 0] - costs[:, 1, 1]], axis=1)
        saved = saved * np.exp(self.offsets)
        if weight <= 0 or (saved <= 0).any():
            return self
        saved = (saved / saved.max(axis=1, keepdims=True)) ** (1.0 / weight)
        prices = [[[0.0, first], [second, 0.0]] for first, second in saved.tolist()]
        return replace(self, weights={name: 1.0}, offsets=[0.0, 0.0], prices=prices)


def log_weights(models: Models, model: int | None = None) -> tuple[dict[str, float], list[float]]:
    """Return the weights of the models' logarithms in one of them, or in the average; and the offsets."""
    average, names = models.average, models.names
    if model is not None:
        return {names[model]: 1.0}, [0.0] * models.n_classes
    if average is None:
        return dict.fromkeys(names, 1.0 / len(names)), [0.0] * models.n_classes
    return {names[i]: float(average.weights[i]) for i in average.asked.tolist()}, average.offset.tolist()


@dataclass(frozen=True)
class Rule:
    """What decides in a fitted mixture: models, the weights of their probabilities, and prices.

    Attributes
    ----------
    classes : list
        The labels, in the order of the probabilities.
    groups : list or None
        The groups, where answers are told them.
    parts : list of RulePart
        The members with a share.
    """

    classes: list[Any]
    groups: list[Any] | None
    parts: list[RulePart]

    @classmethod
    def of(cls, ensemble: MixtureEnsemble, classes: NDArray[Any], groups: Sequence[Any] | None) -> Self:
        """Return the rule of members with a share, those first that settle ties first.

        Parameters
        ----------
        ensemble : MixtureEnsemble
            Of members that say what they do (``as_part``).
        classes : ndarray of shape (K,)
            The labels.
        groups : sequence, optional
            What the groups are called that answers are told.
        """
        share = ensemble.weights.tolist()
        rest = [m for m in range(len(share)) if m not in ensemble.tie_order]
        order = [m for m in [*np.asarray(ensemble.tie_order).tolist(), *rest] if share[m] > 0]
        parts = [replace(ensemble.members[m].as_part(), share=share[m]) for m in order]
        return cls(np.asarray(classes).tolist(), None if groups is None else list(groups), parts)

    @property
    def models(self) -> list[str]:
        """Names of the models whose probabilities are read."""
        return list(dict.fromkeys(name for part in self.parts for name in part.weights))

    @property
    def defers(self) -> bool:
        """Whether rows may be passed on."""
        return any(part.prices is not None and self._passing(part) for part in self.parts)

    def _passing(self, part: RulePart) -> bool:
        return part.prices is not None and len(part.prices[0][0]) > len(self.classes)

    # -- answers -------------------------------------------------------------------------------------

    def predict(self, probabilities: Mapping[str, Any], groups: Any = None) -> NDArray[Any]:
        """Return the label of each row, from probabilities by model.

        Parameters
        ----------
        probabilities : dict of str to array-like of shape (n, K)
            Of each of `models`.
        groups : array-like of shape (n,), optional
            Where `groups` are told.

        Returns
        -------
        ndarray of shape (n,)

        Raises
        ------
        ValueError
            If the rule infers groups from features.
        """
        self._refuse_inferred()
        logs = {
            name: np.log(np.maximum(np.asarray(P, dtype=np.float64), LEAST_PROBABILITY))
            for name, P in probabilities.items()
        }
        given = next(iter(logs.values()), groups)
        n, K = len(given), len(self.classes)
        number = np.zeros(n, dtype=np.intp)
        if self.groups is not None:
            number = np.array([self.groups.index(group) for group in np.asarray(groups).tolist()])
        shares = np.zeros((n, K))
        for j, part in enumerate(self.parts):
            z = part.logs(logs, n)
            weight = part.share + tie_break(j)
            if part.prices is None:
                shares += weight * softmax((part.power or 1.0) * z, axis=1)
            else:
                prices = np.asarray(part.prices)[number if self.groups is not None else np.zeros_like(number)]
                charged = np.einsum("nk,nka->na", np.exp(z), prices)
                shares[np.arange(n), charged[:, :K].argmin(axis=1)] += weight
        return np.asarray(self.classes)[shares.argmax(axis=1)]

    def _refuse_inferred(self) -> None:
        if any(part.inferred for part in self.parts):
            raise ValueError(INFERRED)

    # -- plain types ---------------------------------------------------------------------------------

    def to_dict(self) -> dict[str, Any]:
        """Return everything as plain types, for JSON: ``docs/rule.schema.json`` describes it."""
        return {
            "format": FORMAT,
            "least_probability": LEAST_PROBABILITY,
            "classes": self.classes,
            "groups": self.groups,
            "models": self.models,
            "parts": [asdict(part) for part in self.parts],
        }

    @classmethod
    def from_dict(cls, document: Mapping[str, Any]) -> Self:
        """Return the rule that `to_dict` described.

        Raises
        ------
        ValueError
            If it is none.
        """
        try:
            if document["format"] != FORMAT:
                raise ValueError(f"the rule has the format {document['format']!r}, not {FORMAT}")
            parts = [RulePart(**part) for part in document["parts"]]
            return cls(list(document["classes"]), document["groups"], parts)
        except (KeyError, TypeError) as failure:
            raise ValueError(f"this is no rule: {type(failure).__name__}: {failure}") from None

    # -- SQL -----------------------------------------------------------------------------------------

    def to_sql(
        self,
        columns: Mapping[str, Sequence[str]] | Callable[[str, Any], str] | None = None,
        *,
        group: str | None = None,
        what: Literal["label", "deferred"] = "label",
    ) -> str:
        """Return the decision as an SQL expression over columns of probabilities.

        Where one model decides by class weights the expression has arithmetic and CASE alone. Averages of
        several models need ``ln`` and ``exp``, which SQLite has if it was built with its mathematical
        functions.

        Parameters
        ----------
        columns : dict of str to list of str, or callable, optional
            Names of the columns with a model's probabilities, in the order of `classes`; or what names the
            column of a model and a label. By default ``model_label``.
        group : str, optional
            Name of the column of groups, where answers are told them.
        what : {"label", "deferred"}, default="label"
            The label, or whether the row is passed on (1 or 0).

        Returns
        -------
        str

        Raises
        ------
        ValueError
            If a column is missing, or the rule infers groups from the features.
        """
        self._refuse_inferred()
        if self.groups is not None and group is None:
            raise ValueError("group is needed: what this rule answers to a row depends on the row's group")
        name = columns if callable(columns) else _named(columns, self.classes)
        probability = {
            (model, k): _identifier(name(model, label))
            for model in self.models
            for k, label in enumerate(self.classes)
        }
        if what == "deferred":
            if not self.defers:
                raise ValueError("no row is passed on: there is no limit on rates.deferred()")
            if len(self.parts) > 1:
                raise ValueError("several members share: which rows are passed on is in `defers` alone")
        if self.groups is None:
            return self._of_group(0, probability, what)
        cases = [
            f"WHEN {_literal(value)} THEN {self._of_group(g, probability, what)}"
            for g, value in enumerate(self.groups)
        ]
        return f"CASE {_identifier(str(group))} {' '.join(cases)} END"

    def _of_group(self, g: int, probability: Mapping[tuple[str, int], str], what: str) -> str:
        """Return the expression for one group."""
        K, labels = len(self.classes), [_literal(label) for label in self.classes]
        if len(self.parts) == 1 and self.parts[0].prices is not None:
            charged = _charged(self.parts[0], g, probability)
            if what == "deferred":
                others = " AND ".join(f"{charged[K]} < {each}" for each in charged[:K])
                return f"CASE WHEN {others} THEN 1 ELSE 0 END"
            return _least(charged[:K], labels)
        shares: list[list[str]] = [[] for _ in range(K)]
        for j, part in enumerate(self.parts):
            weight = repr(part.share + tie_break(j))
            if part.prices is None:
                powers = [f"exp({part.power!r} * ({_log(part, k, probability)}))" for k in range(K)]
                for k in range(K):
                    shares[k].append(f"{weight} * {powers[k]} / ({' + '.join(powers)})")
            else:
                answer = _least(_charged(part, g, probability)[:K], [str(k) for k in range(K)])
                for k in range(K):
                    shares[k].append(f"CASE WHEN ({answer}) = {k} THEN {weight} ELSE 0 END")
        return _least([f"-({' + '.join(each)})" for each in shares], labels)

    # -- words ---------------------------------------------------------------------------------------

    def __str__(self) -> str:
        said = [f"Models: {', '.join(self.models) or 'none'}"]
        for part in self.parts:
            lead = "" if len(self.parts) == 1 else f"Share {part.share:.4g}: "
            said += [f"{lead}{line}" if j == 0 else f"  {line}" for j, line in enumerate(self._words(part))]
        return "\n".join(said)

    def _words(self, part: RulePart) -> list[str]:
        K = len(self.classes)
        if part.prices is None:
            return [f"draws a label from P^{part.power:g}, {_average(part)}"]
        if not part.weights:
            fixed = [self.classes[int(np.argmin(prices[0][:K]))] for prices in part.prices]
            if self.groups is None:
                return [f"answers {fixed[0]!r} to every row"]
            return [f"{unit_name(g)}: {label!r}" for g, label in zip(self.groups, fixed, strict=True)]
        said = [_average(part)]
        if part.inferred:
            return [*said, f"prices in {len(part.prices) * K} strata of class and group, groups inferred"]
        groups = [None] if self.groups is None else self.groups[:SHOWN]
        for prices, group in zip(part.prices, groups, strict=False):
            lead = "" if group is None else f"{unit_name(group)}: "
            said += [f"{lead}{line}" for line in self._decides(np.asarray(prices))]
        if self.groups is not None and len(self.groups) > SHOWN:
            said.append(f"… and {len(self.groups) - SHOWN} more groups")
        return said

    def _decides(self, prices: Floats) -> list[str]:
        """Say what the prices of one group come to."""
        K = len(self.classes)
        labels = [str(label) for label in self.classes]
        if prices.shape[1] == K == 2:
            d = prices[:, 1] - prices[:, 0]
            if d[0] <= 0 or d[1] >= 0:
                return [f"answers {self.classes[0 if d.sum() >= 0 else 1]!r} to every row"]
            return [f"answers {self.classes[1]!r} where P({labels[1]}) > {d[0] / (d[0] - d[1]):.4g}"]
        alike = prices[:, :K] + np.diag(prices[:, :K].max(axis=1) - np.diag(prices[:, :K]))
        weight = prices[:, :K].max(axis=1) - np.diag(prices[:, :K])
        if prices.shape[1] == K and np.allclose(alike, prices.max(axis=1)[:, None]) and (weight > 0).all():
            ratio = ", ".join(
                f"{label} {w:.4g}" for label, w in zip(labels[:SHOWN], weight / weight.min(), strict=False)
            )
            return [f"answers the class with the largest weight · P; weights: {ratio}"]
        names = [*labels, "pass on"][: prices.shape[1]]
        charged = [
            f"  in class {label}: " + ", ".join(f"{name} {c:.4g}" for name, c in zip(names, row, strict=True))
            for label, row in zip(labels[:SHOWN], prices.tolist(), strict=False)
        ]
        return ["takes the action that is charged least by P; charges", *charged]


def _average(part: RulePart) -> str:
    if len(part.weights) == 1 and not any(part.offsets) and next(iter(part.weights.values())) == 1.0:
        return f"P of {next(iter(part.weights))}"
    terms = " + ".join(f"{weight:.4g} log {name}" for name, weight in part.weights.items())
    offsets = ", ".join(f"{b:.4g}" for b in part.offsets[:SHOWN])
    return f"P ∝ exp({terms} + offsets), offsets {offsets}" if any(part.offsets) else f"P ∝ exp({terms})"


def tie_break(place: int) -> float:
    """Return what settles ties of shares: the first members of the rule have the last word."""
    return 2.0**-34 / 2.0**place


# -- SQL ---------------------------------------------------------------------------------------------------


def _named(columns: Mapping[str, Sequence[str]] | None, classes: Sequence[Any]) -> Callable[[str, Any], str]:
    if columns is None:
        return lambda model, label: f"{model}_{label}"

    def name(model: str, label: Any) -> str:
        if model not in columns or len(columns[model]) != len(classes):
            raise ValueError(
                f"columns: model {model!r} needs {len(classes)} names, one for each of {list(classes)}"
            )
        return columns[model][classes.index(label)]

    return name


def _identifier(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def _literal(value: Any) -> str:
    if isinstance(value, bool):
        return "TRUE" if value else "FALSE"
    return repr(value) if isinstance(value, (int, float)) else "'" + str(value).replace("'", "''") + "'"


def _clipped(column: str) -> str:
    return f"CASE WHEN {column} > {LEAST_PROBABILITY!r} THEN {column} ELSE {LEAST_PROBABILITY!r} END"


def _log(part: RulePart, k: int, probability: Mapping[tuple[str, int], str]) -> str:
    terms = [f"{w!r} * ln({_clipped(probability[model, k])})" for model, w in part.weights.items()]
    return " + ".join([*terms, repr(part.offsets[k])])


def _charged(part: RulePart, g: int, probability: Mapping[tuple[str, int], str]) -> list[str]:
    """Return what each action is charged, as expressions; those of prices 0 are left out."""
    assert part.prices is not None
    prices = np.asarray(part.prices[g])
    plain = list(part.weights.values()) == [1.0]
    if not part.weights:
        return [repr(price) for price in prices[0].tolist()]
    mass = []
    for k in range(len(prices)):
        if plain:
            scale = float(np.exp(part.offsets[k]))
            column = f"({_clipped(probability[next(iter(part.weights)), k])})"
            mass.append(column if scale == 1.0 else f"{scale!r} * {column}")
        else:
            mass.append(f"exp({_log(part, k, probability)})")
    found = []
    for a in range(prices.shape[1]):
        used = [f"{price!r} * {mass[k]}" for k, price in enumerate(prices[:, a].tolist()) if price != 0.0]
        found.append(f"({' + '.join(used)})" if used else "0.0")
    return found


def _least(values: Sequence[str], labels: Sequence[str]) -> str:
    """Return the label of the least value, of equal ones the first."""
    cases = []
    for k in range(len(values) - 1):
        wins = " AND ".join(f"{values[k]} <= {other}" for other in values[k + 1 :])
        cases.append(f"WHEN {wins} THEN {labels[k]}")
    return f"CASE {' '.join(cases)} ELSE {labels[-1]} END" if cases else labels[0]
