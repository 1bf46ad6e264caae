"""Words for messages: near names, numbers with nouns, and lists of names."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Sequence

# Most columns named by a message.
COLUMNS_NAMED = 5


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """Return "did you mean …? " with known names close to an unknown one, or an empty text.

    Capitals and blanks around a name are ignored.
    """
    by_lower_case = {known_name.strip().casefold(): known_name for known_name in known}
    near = difflib.get_close_matches(name.strip().casefold(), by_lower_case)
    if not near:
        return ""
    quoted = [repr(by_lower_case[known_name]) for known_name in near]
    return f"did you mean {' or '.join(quoted)}? "


def a_type_of(thing: object) -> str:
    """Return the name of a type with its article: "a Pipeline", "an AdaBoostClassifier"."""
    name = type(thing).__name__
    if name[0] in "AEIOaeio":
        return f"an {name}"
    return f"a {name}"


def how_many(n: int, one: str, several: str = "") -> str:
    """Return a number with its noun: "1 row", "2,000 rows"."""
    if n == 1:
        return f"1 {one}"
    return f"{n:,} {several or f'{one}s'}"


def listed(names: Sequence[object]) -> str:
    """Return the first names in quotes, and the number of the others; a single other one is named."""
    return joined([repr(cut_to(str(name), 40)) for name in names], COLUMNS_NAMED)


def joined(names: Sequence[str], n_shown: int, between: str = ", ") -> str:
    """Return the first names as text, and the number of the others; a single other one is named."""
    if len(names) <= n_shown + 1:
        return between.join(names)
    return f"{between.join(names[:n_shown])} and {len(names) - n_shown:,} more"


def cut_to(name: str, most: int) -> str:
    """Return the first ``most`` characters of a name; the last is "…" if the name is longer."""
    if len(name) <= most:
        return name
    return f"{name[: most - 1]}…"
