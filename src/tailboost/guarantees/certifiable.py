"""The tightest level of a refused limit that as many new rows could certify: an estimate."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from tailboost.guarantees.rate_bounds import CertifiedBound
from tailboost.rates import Limit
from tailboost.rates.power import last_true

# The tried levels have two digits and at most so many places; with six the search takes nine calibrations.
MOST_PLACES = 6
TINY = 1e-9
# With more fresh rows nothing is tried: nine calibrations of 20,000 rows take about four seconds.
MOST_ROWS_TRIED = 20_000


def certifiable_limit(
    limits: Sequence[Limit],
    bounds: Sequence[Sequence[CertifiedBound]],
    is_certified: Callable[[list[Limit]], bool],
) -> Limit | None:
    """Return a refused limit at the tightest level that is certified; None if there is none.

    None also for several limits: a looser one lets the others choose a rule that is far from it. A limit with
    a bound for each subgroup has no single level.

    Parameters
    ----------
    limits : sequence of Limit
        All limits.
    bounds : sequence of sequence of CertifiedBound
        The bounds of the tested rule, by limit.
    is_certified : callable
        Tells whether the same procedure certifies other limits on the same rows.
    """
    if len(limits) != 1 or all(bound.certified is not False for bound in bounds[0]):
        return None
    (limit,) = limits
    looser = [replace(limit, bound=level) for level in looser_levels(limit)]
    index = last_true(lambda index: is_certified([looser[index]]), len(looser) - 1)
    if index < 0:
        return None
    return looser[index]


def looser_levels(limit: Limit) -> list[float]:
    """Return levels looser than a limit, the loosest first; none of a limit with several bounds.

    The allowed share has two digits, such as .025. For a limit from below it is 1 less the bound.
    """
    stated = limit.bound
    if isinstance(stated, tuple) or not 0.0 < stated < 1.0:
        return []
    allowed = limit.against(stated)
    shares = {
        round(two_digits * 0.1**places, places)
        for places in range(2, MOST_PLACES + 1)
        for two_digits in range(10, 100)
    }
    looser = sorted((share for share in shares if share > allowed + TINY), reverse=True)
    return [round(limit.against(share), MOST_PLACES) for share in looser]
