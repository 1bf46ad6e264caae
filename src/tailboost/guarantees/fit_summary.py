"""What a fit promised, what was observed while it ran, and what the mixture achieved, with symbols named."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from html import escape
from typing import Any

import numpy as np

from tailboost.boosting.candidate_losses import CandidateLosses
from tailboost.boosting.game import Game
from tailboost.boosting.players.corrective import entropic_theory
from tailboost.core.array_types import Floats
from tailboost.core.html import html_details
from tailboost.core.subgroups import GroupUse, unit_name
from tailboost.selection.loss_mixture import Mixture
from tailboost.selection.loss_objective import CVaR
from tailboost.selection.rate_table import RateTable
from tailboost.selection.subgroup_mixture import SubgroupMixture
from tailboost.solvers import cvar

# A value this close to the coin flip's is the coin flip's.
COIN_TOLERANCE = 1e-7
# And this share of ERM's loss is not worth the name of a mixture.
SAME_AS_ERM = 0.01
ALPHA_PRECISION = 1.005
# A larger gap than this is not the solver's rounding.
ALONE_GAP = 1e-5
# A share up to this is the solver's rounding.
NO_SHARE = 1e-9
LARGEST_MEAN = "largest mean loss of any unit under the even mixture"
OUTLIERS = "not given when outliers are dropped: the rows kept change from round to round"


@dataclass(frozen=True)
class Bound:
    """One inequality: ``name ≤ bound`` (or ``<``), and what was in fact achieved.

    Attributes
    ----------
    name : str
        What is bounded, in words.
    formula : str
        The right-hand side in symbols, each explained in `Summary.symbols`.
    bound : float or None
        Its value; None where the theorem's conditions do not hold.
    achieved : float or None
        The left-hand side, where it is known.
    note : str
        Conditions, or why there is no bound.
    strict : bool
        Whether the inequality is strict.
    """

    name: str
    formula: str
    bound: float | None
    achieved: float | None = None
    note: str = ""
    strict: bool = False

    @property
    def empty(self) -> bool:
        """Whether the bound is no less than 1, which errors, losses and their means never exceed."""
        return self.bound is not None and self.bound >= 1

    def __str__(self) -> str:
        value = "no bound" if self.bound is None else f"{self.bound:.4g}"
        if self.empty:
            value += ", which says nothing: it is at most 1 anyway"
        achieved = "" if self.achieved is None else f" (achieved {self.achieved:.4g})"
        note = f" [{self.note}]" if self.note else ""
        return f"{self.name} {'<' if self.strict else '≤'} {self.formula} = {value}{achieved}{note}"


def bound_lines(
    observed: Sequence[Bound], promised: Sequence[Bound], symbols: Mapping[str, str]
) -> Iterator[str]:
    """Yield a line for each bound, and one that explains their symbols."""
    yield from (f"observed: {bound}" for bound in observed)
    yield from (f"promised: {bound}" for bound in promised)
    if symbols:
        yield "symbols: " + "; ".join(f"{name} = {words}" for name, words in symbols.items())


@dataclass(frozen=True)
class Budget:
    """What the mean error of a mixture may be, and is, on the rows λ is chosen on."""

    error_budget: float  # what it may be above the least mean error of a member
    least_mean: float  # that least mean error
    mean: float  # mean error of the mixture
    # A budget larger by d lowers what λ minimises by at most ``price · d``; None where one member gets all of
    # λ, which a little more budget may change at once.
    price: float | None

    def __str__(self) -> str:
        worth = "" if self.price is None else "; a larger budget would not lower what λ minimises"
        if self.price is not None and self.price > 0:
            lower = f"{0.01 * self.price:.4g}"
            worth = f"; a budget larger by .01 would lower what λ minimises by at most {lower}"
        return (
            f"mean error ≤ {self.least_mean + self.error_budget:.6g}, the least of a member "
            f"({self.least_mean:.6g}) + error_budget ({self.error_budget:g}); it is {self.mean:.6g} "
            f"on these rows{worth}"
        )


@dataclass(frozen=True)
class Summary:
    """Promised, observed, achieved.

    Attributes
    ----------
    promised : tuple of Bound
        Published a-priori bounds, with the reason where their conditions do not hold.
    observed : tuple of Bound
        Bounds computed from the losses seen in the rounds; they hold for any η and any sample weights.
    achieved : float
        The objective of the mixture on the rows that decided it, outliers left out; about the randomised
        classifier.
    achieved_on_all : float
        The same with all of these rows counted.
    dropped : float
        Share of their weight that ``achieved`` and the values it is held against leave out as outliers.
    gap : float
        Largest optimality gap of any solve in the fit.
    objective : str
        What λ minimises.
    judged_on : str
        The rows behind ``achieved``.
    coin_flip_value : float
        The objective of the even mixture of all constants: ``1 − 1/K``, less the least that a unit is allowed
        where the objective is about what errors are beyond that.
    erm_value : float
        The objective of one member alone, ``alone``.
    alone : str
        Plain ERM or, where that is not among the members of a game over groups, its first round.
    constants_value : float
        The objective of the best mixture of constants, which ignores the features: a coin, possibly loaded.
    only : str or None
        The one member that has the whole share; None where there are several.
    draws : bool
        Whether an answer is drawn: several members have a share, or the one draws its own answers. Else
        `predict` and the randomised classifier are the same.
    ignores_features : bool
        Whether every member with a share answers one class to all judged rows.
    largest_error : float or None
        The largest error of a subgroup, if the objective is another rate within limits.
    is_coin_flip : bool
        Whether the mixture is no better than a coin flip.
    beats_coin_flip_from : float or None
        The α from which on the pool beats a coin flip; None where α has no meaning.
    symbols : dict
        Names and values of all symbols printed.
    upper : float or None
        The upper end of a 95 % interval for the objective of this rule on new rows (see
        `combiners.Mixture.highest`); None for a vote, and if members were fitted on the judged rows.
    budget : Budget or None
        The limit on the mean error, what it is and what more of it would be worth; None without a limit.
    chosen_by : str
        What λ minimised, in words, where that is not ``objective`` itself; else empty.
    units : RateTable or None
        The error of each class, group or cell of the game beside what it is allowed; None where the game is
        over rows, and where the errors are not known.
    groups : tuple of GroupUse
        For each column of groups given to `fit`: whether answers may depend on it, and by what.
    """

    promised: tuple[Bound, ...]
    observed: tuple[Bound, ...]
    achieved: float
    achieved_on_all: float
    dropped: float
    gap: float
    objective: str
    judged_on: str
    coin_flip_value: float
    erm_value: float
    alone: str
    constants_value: float
    only: str | None
    ignores_features: bool
    largest_error: float | None
    is_coin_flip: bool
    beats_coin_flip_from: float | None
    symbols: dict[str, str]
    upper: float | None = None
    budget: Budget | None = None
    chosen_by: str = ""
    units: RateTable | None = None
    draws: bool = True
    groups: tuple[GroupUse, ...] = ()

    @property
    def beats_coin(self) -> bool:
        """Whether it is shown that the best coin, which ignores the features, does worse.

        That is the case if the interval for new rows excludes it.
        """
        return self.upper is not None and self.upper < self.constants_value - COIN_TOLERANCE

    @property
    def verdict(self) -> str:
        """One sentence: better than a coin or not shown to be, by the estimate, and what λ is."""
        more, alpha = "", self.beats_coin_flip_from
        if alpha is not None:
            which = f"from α ≈ {alpha:.3g} on" if alpha > 0 else "at every α"
            more = f"; on the rows it was chosen on this pool beats a coin flip {which}"
        if self.dropped:
            more += f"; with the {self.dropped:.3g} of the weight left out it is {self.achieved_on_all:.4g}"
        return f"{self._against_a_coin()}{self._standing()}{more}."

    def _against_a_coin(self) -> str:
        """Say whether a coin is beaten on rows that the choice was not made on, where it is on its own."""
        if min(self.coin_flip_value, self.constants_value) - COIN_TOLERANCE <= self.achieved:
            return ""
        coin = f"the best coin, blind to the features, has {self.constants_value:.4g}"
        if self.upper is None:
            return "better than a coin: not shown, because no interval for new rows is known; on these rows "
        return (
            f"better than a coin: {'' if self.beats_coin else 'not shown, '}estimate {self.achieved:.4g}, at "
            f"most {self.upper:.4g} (95 %), and {coin}; on these rows "
        )

    @property
    def _why(self) -> str:
        """Why no better mixture was found."""
        often = "the members err too often for this objective"
        return often if self.budget is None else f"{often} and this error_budget"

    def _standing(self) -> str:
        who = "" if self.only is None else f" (it is {self.only} alone)"
        if self.is_coin_flip:
            return (
                f"λ is no better than a coin flip ({self.coin_flip_value:.4g}) on this objective{who}: "
                f"{self._why}. Use predict for a deterministic answer"
            )
        if self.achieved >= self.constants_value - COIN_TOLERANCE:
            if self.ignores_features and self.only is not None:
                return f"λ is {self.only} alone ({self.achieved:.4g}), which ignores the features"
            return (
                f"λ is no better than the best mixture of constants ({self.constants_value:.4g}), a loaded "
                f"coin that ignores the features{who}: {self._why}"
            )
        constants = f"{self.constants_value:.4g} for the best mixture of constants"
        against = f"against {self.erm_value:.4g} for {self.alone} and {constants}"
        if self.only is not None:
            if self.only == self.alone:
                against = f"against {constants}"
            return f"λ is {self.only} alone: {self.achieved:.4g} {against}"
        if self.achieved > self.erm_value * (1 + SAME_AS_ERM):
            return f"λ is worse than {self.alone} alone: {self.achieved:.4g} {against}"
        if self.achieved >= self.erm_value * (1 - SAME_AS_ERM):
            return (
                f"λ is {self.alone} in effect ({self.achieved:.4g} against {self.erm_value:.4g}): the "
                f"other members add less than {SAME_AS_ERM:.0%}"
            )
        return f"λ is a true mixture: {self.achieved:.4g} {against}"

    def to_dict(self) -> dict[str, Any]:
        """Return everything as plain types, for JSON."""
        units = None if self.units is None else self.units.to_dict()
        return asdict(self) | {"units": units, "verdict": self.verdict}

    @property
    def summary(self) -> str:
        """Two sentences: what that rests on, and `headline`."""
        return f"{self.standing} {self.headline}"

    @property
    def standing(self) -> str:
        """One sentence: what the headline rests on, or that no better than a coin is shown."""
        member = f"; compared with {self.alone}, on the same rows" if self._without else ""
        blind = f"the best answer that ignores the features ({self.constants_value:.3f})"
        if self.beats_coin:
            return (
                f"Measured on {self.judged_on}: better than any answer without the features, by a 95 % "
                f"interval for new rows, which is no certificate{member}."
            )
        if min(self.coin_flip_value, self.constants_value) - COIN_TOLERANCE <= self.achieved:
            return f"No better than {blind}: {self._why}{member}."
        most = (
            "no interval for new rows is known" if self.upper is None else f"at most {self.upper:.3f} (95 %)"
        )
        return f"Not shown to be better than {blind}: {most}{member}."

    @property
    def headline(self) -> str:
        """The error of the worst unit, or what λ makes small, and what one member alone has."""
        return f"{self._worst}{self._without}."

    @property
    def _without(self) -> str:
        """Say what one member alone has, where that is another classifier and the same measure."""
        if self.only == self.alone or self.largest_error is not None or self.dropped:
            return ""
        if self.units is None:
            return f"; compared with {self.erm_value:.3f}"
        return f"; compared with {100 * self.erm_value:.0f}"

    @property
    def _worst(self) -> str:
        if self.units is None or (worst := self.units.worst) is None:
            most = "" if self.upper is None else f" (at most {self.upper:.3f}, 95 %)"
            return f"{self.objective[:1].upper()}{self.objective[1:]}: {self.achieved_on_all:.3f}{most}"
        name, error, ends = worst
        between = "" if ends is None else f" ({100 * ends[0]:.0f}–{100 * ends[1]:.0f}, 95 %)"
        kind = self.units.kind
        return f"Worst {kind}: {unit_name(name)}, {100 * error:.0f} of 100 wrong{between}"

    def __str__(self) -> str:
        table = [] if self.units is None else [self.units.of_rule("predict").text]
        return "\n".join([*table, *map(str, self.groups), self.standing, self.headline])

    @property
    def details(self) -> str:
        """Everything: the table, the verdict, values, bounds that were promised and observed, symbols."""
        achieved = f"achieved: {self.objective} = {self.achieved:.6g} on {self.judged_on}"
        if self.dropped:
            achieved += (
                f" without the {self.dropped:.3g} of their weight with the highest cumulative loss "
                f"(outlier_fraction); {self.achieved_on_all:.6g} on all of them"
            )
        if self.largest_error is not None:
            achieved += f"; the largest error itself is {self.largest_error:.6g}"
        gap = f"solver gap {self.gap:.1e}"
        if self.gap >= ALONE_GAP:  # what one member alone leaves
            which = ", of errors drawn towards their mean," if self.chosen_by else ""
            gap = f"sharing λ would lower it{which} by at most {self.gap:.2g}"
        about = "predict answers as this member does, so that it speaks about predict"
        if self.draws:
            who = "the randomised classifier whose label distribution is predict_distribution"
            about = f"it speaks about {who}, not about predict"
        lines = [
            *([] if self.units is None else [str(self.units)]),
            *map(str, self.groups),
            self.verdict,
            f"{achieved} ({gap}); {about}",
            *([] if self.budget is None else [f"budget: {self.budget}"]),
            *([f"λ minimised not this value but {self.chosen_by}"] if self.chosen_by else []),
            *bound_lines(self.observed, self.promised, self.symbols),
        ]
        return "\n".join(lines)

    def _repr_html_(self) -> str:
        table = "" if self.units is None else self.units._repr_html_()
        groups = "".join(f"<p>{escape(str(use))}</p>" for use in self.groups)
        details = html_details("Values, bounds and symbols", self.details)
        return f"{table}{groups}<p>{escape(self.summary)}</p>{details}"


Bounds = tuple[tuple[Bound, ...], tuple[Bound, ...]]
"""Promised and observed bounds of a game."""


def guarantee(
    game: Game[Any] | None,
    combiner: Mixture | SubgroupMixture,
    mixture: Floats,
    gap: float,
    bounds: Bounds,
    classes: Sequence[Any],
    names: Sequence[str] | None = None,
) -> Summary:
    """Return what was promised, observed and achieved by a mixture of the pool of a game.

    ``game`` is None where the pool comes from none; ``names`` are then what the members are called, and the
    one with the least mean loss is held against the mixture. ``gap`` is the largest optimality gap of any
    solve.
    """
    ledger, objective, K = combiner.pool.ledger, combiner.objective, combiner.n_classes
    coin, achieved = combiner.coin, combiner.value(mixture)
    first, named = _called(game, combiner, names)
    budget = None
    if combiner.error_budget is not None:
        means = ledger.mean_losses()
        budget = Budget(combiner.error_budget, float(means.min()), float(means @ mixture), combiner.price)
    alone = np.zeros(len(mixture))
    alone[first] = 1.0
    promised, observed = bounds
    used = np.flatnonzero(mixture > NO_SHARE)
    constants = [ledger.constant_answer(int(m)) for m in used]
    only = None
    if len(used) == 1:
        (member,), (constant,) = used.tolist(), constants
        only = named(member)
        if constant is not None:
            extra = member >= combiner.pool.n_rounds or names is not None
            only = f"the constant {classes[constant]!r}" if extra else f"{only}, a constant"
    upper = None
    if not ledger.rows.fitted and not combiner.voting:
        upper = combiner.highest(mixture)
    return Summary(
        promised=promised,
        observed=observed,
        achieved=achieved,
        achieved_on_all=combiner.on_all(mixture) if combiner.dropped else achieved,
        dropped=combiner.dropped,
        gap=gap,
        objective=str(objective),
        judged_on=ledger.rows.words,
        coin_flip_value=coin,
        erm_value=combiner.value(alone),
        alone=named(first),
        constants_value=combiner.constants,
        only=only,
        ignores_features=None not in constants,
        largest_error=combiner.largest_error(mixture),
        is_coin_flip=achieved >= coin - COIN_TOLERANCE,
        beats_coin_flip_from=None if combiner.alpha is None else beats_coin_flip_from(ledger, K),
        symbols=_symbols(game, combiner, K, (*promised, *observed)),
        upper=upper,
        budget=budget,
        draws=len(used) > 1 or bool(getattr(combiner.pool.members[used[0]], "draws", False)),
    )


def _called(
    game: Game[Any] | None, combiner: Mixture | SubgroupMixture, names: Sequence[str] | None
) -> tuple[int, Callable[[int], str]]:
    """Return the member that a mixture is held against, and what members are called."""
    if game is None:
        assert names is not None
        of, least = names, int(combiner.pool.ledger.by_mean_loss()[0])
        return least, lambda member: of[member] + " (the least mean error)" * (member == least)
    # Plain ERM is the first boosted hypothesis, or the first extra of a game over groups.
    first = game.n_rounds if combiner.with_erm else 0
    known = {0: "the balanced model of round 1"} if game.units.grouped else {}
    if combiner.with_erm or not game.units.grouped:
        known[first] = "plain ERM"
    return first, lambda member: known.get(member, f"the hypothesis of round {member + 1}")


def _symbols(
    game: Game[Any] | None, combiner: Mixture | SubgroupMixture, n_classes: int, bounds: tuple[Bound, ...]
) -> dict[str, str]:
    """Explain what is printed: K, T and λ always, the rest where a bound or the objective has it."""
    known = {} if game is None else {"T": f"{game.n_rounds} rounds"}
    known |= {"K": f"{n_classes} classes", "λ": "estimator_weights_, the shares of the members"}
    alpha = combiner.alpha
    if game is not None:
        losses = game.trace.weighted_loss
        known |= {
            "p": "base measure over units: the normalised sample weights, or the same for every class or "
            f"group; min p = {1 / game.units.count:.4g}",
            "V": f"mean weighted loss of the rounds, {losses.mean():.4g}",
            "g": f"largest weighted loss of a round, {losses.max():.4g}",
            "log": "natural logarithm",
            "δ": "accuracy that β allows: (2/β) log(1/α), or 8/T for α = 1",
        }
        alpha = getattr(game.rule, "alpha", None) if alpha is None else alpha
    if alpha is not None:
        known["α"] = f"tail mass, {alpha:g}"
    known |= {} if game is None else game.rule.symbols
    printed = " ".join([str(combiner.objective), *(f"{b.name} {b.formula} {b.note}" for b in bounds)])
    if combiner.alpha is not None:
        printed += " α"  # the verdict says from which α on the pool beats a coin
    names: list[str] = []
    # An explanation may need further ones.
    while more := [s for s in known if s not in names and (s in "TKλ" or _names(s, printed))]:
        names += more
        printed = " ".join([printed, *(known[s] for s in more)])
    return {s: known[s] for s in known if s in names}


def _names(symbol: str, text: str) -> bool:
    """Whether a symbol stands in a text; in "ηT" and "CVaR_α" each letter is one."""
    if not symbol.isascii():
        return symbol in text
    return re.search(rf"(?<![A-Za-z_]){symbol}(?![A-Za-z_])", text) is not None


def hedge_game_bounds(game: Game[Any], alpha: float | None, eta: float | str, planned: int) -> Bounds:
    """Bounds of a game that Hedge played: its regret against v is at most KL(v ‖ p)/η + ηT/8.

    Only ``eta="theory"``, η = √(8 log n/T) chosen for ``planned`` rounds, has an a-priori one: Zhai et al.
    2021, section 3, who have it for uniform p; from other p it holds with n = 1/min p. With η = 0 the player
    stays at p: nothing is proved, unless there is only one unit. ``alpha`` is the level of the CVaR bound.
    Over groups the units of the bound are groups, and a CVaR over rows has no place in it.
    """
    rule: Any = game.rule
    T, trace, step = game.n_rounds, game.trace, rule.eta
    if rule.outlier_fraction > 0:
        return (), (Bound("loss of the even mixture", "V + …", None, note=OUTLIERS),)
    V, p, mean_losses = float(trace.weighted_loss.mean()), game.state.base, game.state.cumulative / T
    least = 1.0 / game.units.count  # min p: the smallest share of a row where a unit stands for several
    on = "on the losses that drove the player"
    on += "; with η = 0 it does not learn" if step == 0 and least < 1 else ""
    shrunk = "mean losses are drawn towards their mean over the units, more so where they rest on fewer rows"
    notes = [] if game.units.shrinkage is None else [shrunk]

    def seen(name: str, of: str, mass: float, achieved: float) -> Bound:
        bound = V - math.log(mass) / (step * T) + step / 8 if step > 0 else None
        bound = V if least == 1 else bound  # the player of a single unit has nothing to regret
        return Bound(name, f"V + log(1/{of})/(ηT) + η/8", bound, achieved, "; ".join([on, *notes]))

    observed = [seen(LARGEST_MEAN, "min p", least, float(mean_losses[p > 0].max()))]
    if alpha is not None and not game.units.grouped:
        even = "CVaR_α of the even mixture's loss"
        observed.insert(0, seen(even, "α", alpha, cvar(mean_losses, alpha, p)))
    if eta != "theory":
        return (), tuple(observed)
    value, early = None, ["only when all planned rounds are played"]
    if planned == T:
        value, early = float(trace.weighted_loss.max()) + math.sqrt(math.log(game.units.count) / (2 * T)), []
    note = "; ".join([*early, *notes])
    return (Bound(LARGEST_MEAN, "g + √(log(1/min p)/(2T))", value, note=note),), tuple(observed)


def mixed_by_program(
    game: Game[Any], ledger: CandidateLosses, alpha: float, value: float, bounds: Bounds
) -> Bounds:
    """Add to the bounds of Hedge's even mixture those of the mixture λ that a linear program chose.

    Zhai et al. 2021, section 3: on the losses that drove the player λ is at least as good as 1/T, so that
    what bounds the even mixture's CVaR bounds λ's. On other rows nothing follows. The game's rule is a
    `Hedge` over rows; ``value`` is the CVaR at ``alpha`` of λ's loss on the rows of the ledger, on which it
    was chosen.
    """
    promised, observed = bounds
    name = f"CVaR at α = {alpha:g} of λ's own loss"
    rule: Any = game.rule
    if rule.outlier_fraction > 0:
        return promised, (*observed, Bound(name, "V + …", None, note=OUTLIERS))
    drove, p = game.state.cumulative, game.state.base
    judged = np.sum([ledger.boosted.row(t) for t in range(game.n_rounds)], axis=0, dtype=np.float64)
    same = np.array_equal(judged, drove) and np.allclose(ledger.rows.base, p, rtol=1e-12, atol=0)

    def own(even: Bound) -> Bound:
        if not same:
            note = "λ was chosen on other losses than those that drove the player"
            return Bound(name, even.formula, None, value, note)
        note = (
            even.note if even.bound is None else "as the even mixture's; on the losses that drove the player"
        )
        return Bound(name, even.formula, even.bound, value, note)

    # The first observed bound is that of the even mixture's CVaR; one on every row's loss is one on the CVaR.
    return (*promised, *map(own, promised)), (*observed, own(observed[0]))


def _name_of_cvar(alpha: float) -> str:
    # The player's α: re-weighting for another one changes nothing about the game.
    return f"CVaR at α = {alpha:g} of the best mixture on the losses that drove the player"


def totally_corrective_bounds(game: Game[Any]) -> Bounds:
    """Bounds of LPBoost: g bounds the mixture only once the learner finds nothing better than it."""
    rule: Any = game.rule
    name = _name_of_cvar(rule.alpha)
    if rule.outlier_fraction > 0:
        return (Bound(name, "g", None, note=OUTLIERS),), ()
    g, best = float(game.trace.weighted_loss.max()), rule.best(game.state)
    reached = best <= g
    note = "" if reached else "not reached in these rounds, and no rate of convergence is known"
    return (Bound(name, "g", g if reached else None, best, note),), ()


def entropic_bounds(game: Game[Any], delta: float | None = None) -> Bounds:
    """A-priori bound of regularised LPBoost: CVaR_α ≤ g + δ once T and β are large enough.

    Warmuth et al. 2008, as Zhai et al. 2021 apply it: ``delta`` is the δ that β was chosen for, or else the
    smallest for which ``β ≥ max{(2/δ) log(1/α), 1/2}`` holds; the rounds it needs are ``T = max{(32/δ²)
    log(1/α), 8/δ}``.
    """
    rule: Any = game.rule
    name, formula = _name_of_cvar(rule.alpha), "g + δ"
    if rule.outlier_fraction > 0:
        return (Bound(name, formula, None, note=OUTLIERS),), ()
    best = rule.best(game.state)
    if rule.beta < 0.5:
        return (Bound(name, formula, None, best, f"only for β ≥ 1/2, got {rule.beta:g}"),), ()
    if delta is None:  # α = 1 leaves only T ≥ 8/δ
        log_inverse = math.log(1 / rule.alpha)
        delta = 2 * log_inverse / rule.beta if log_inverse > 0 else 8 / game.n_rounds
    needed = entropic_theory(rule.alpha, delta)[1]
    if game.n_rounds < needed:
        note = f"δ = {delta:.3g} at β = {rule.beta:g} needs T ≥ {needed:,}; T = {game.n_rounds}"
        return (Bound(name, formula, None, best, note),), ()
    bound = float(game.trace.weighted_loss.max()) + delta
    return (Bound(name, formula, bound, best, f"δ = {delta:.3g}"),), ()


def beats_coin_flip_from(ledger: CandidateLosses, n_classes: int) -> float:
    """Return the α from which on the best mixture of the pool beats ``1 − 1/K``, to half a per cent.

    The optimal CVaR falls with α, and a single member of error e beats the coin where α > e·K/(K−1), so the
    answer is bracketed and found by bisection; 1.0 when even the mean is no better.
    """
    coin = 1 - 1 / n_classes
    high = min(1.0, float(ledger.pool().means(ledger.base()).min()) / coin)
    low = high / 1000

    def beats(alpha: float) -> bool:
        return CVaR(alpha).solve(ledger).value < coin - COIN_TOLERANCE

    if high <= 0.0 or beats(low):
        return low
    while high / low > ALPHA_PRECISION:
        middle = math.sqrt(low * high)
        low, high = (low, middle) if beats(middle) else (middle, high)
    return high
