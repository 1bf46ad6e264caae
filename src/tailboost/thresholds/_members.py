"""The pool of members, each with what it does on the judged rows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from hashlib import blake2b
from typing import Any

import numpy as np

from tailboost._typing import Ints
from tailboost.rates import error
from tailboost.thresholds._tally import Member, Table, Tally


@dataclass
class Pool:
    """Members that were made, each with its tally on the judged rows; none answers as another does."""

    table: Table  # the judged rows
    # members, tallies: the members and what they do.
    members: list[Member] = field(default_factory=list)
    tallies: list[Tally] = field(default_factory=list)
    _number: dict[bytes, int] = field(default_factory=dict)

    def __getstate__(self) -> dict[str, Any]:
        return {"table": self.table, "members": self.members, "tallies": self.tallies}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._number = {}

    def copy(self) -> Pool:
        """Return a pool of the same members, to which others may be added."""
        return Pool(self.table, list(self.members), list(self.tallies), dict(self._number))

    def thinned(self, most: int) -> Pool:
        """Return a pool of the same members on at most so many of the rows, spread evenly over the strata."""
        if self.table.n_judged <= most:
            return self
        thin = Pool(self.table.part(self.table.spread(most)))
        for member in self.members:
            thin.add(member)
        return thin

    def add(self, member: Member) -> int:
        """Return the number of a member that answers as this one does, which is new or was there."""
        if not self._number:  # as it is in a pool that was stored
            for number, own in enumerate(self.members):
                self._number.setdefault(self._key(self.table.answers(own)), number)
        actions = self.table.answers(member)
        known = self._number.setdefault(self._key(actions), len(self.members))
        if known == len(self.members):
            self.members.append(member)
            self.tallies.append(self.table.tally(member, actions))
        return known

    def _key(self, actions: Ints) -> bytes:
        few = self.table.strata.n_actions == 2
        said = np.packbits(actions) if few else actions.astype(np.uint16)
        return blake2b(said.tobytes(), digest_size=16).digest()

    def seed(self, sources: Sequence[int], constants: bool = True) -> list[int]:
        """Add what the sources answer by themselves, and the constants if wanted; return their numbers."""
        strata = self.table.strata
        plain = error().terms(strata).linear[0][: len(strata.mass)]
        if strata.defers:
            plain = plain.copy()
            plain[:, -1] = 2.0 * np.abs(plain).max()
        numbers = [self.add(Member.of(source, plain)) for source in sources]
        for a in range(strata.n_actions if constants else 0):
            prices = np.zeros((len(strata.mass), strata.n_actions))
            if a == strata.n_classes:  # who passes every row on still says the labels of the belief
                prices = plain.copy()
            prices[:, a] = -2.0 * max(float(np.abs(plain).max()), 1.0)
            numbers.append(self.add(Member.of(sources[0], prices)))
        return numbers
