"""Suggestions for misspelt names."""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from typing import Any


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """Return "did you mean …? " with known names close to an unknown one, or an empty text.

    Capitals are ignored. Without a close name, known names are suggested if they contain the given one.
    """
    folded = {other.casefold(): other for other in known}
    given = name.casefold()
    near = difflib.get_close_matches(given, folded, n=3)
    if not near and len(given) > 2:
        near = [other for other in folded if given in other][:3]
    return f"did you mean {' or '.join(repr(folded[other]) for other in near)}? " if near else ""


def meant(name: Any, known: Iterable[Any]) -> str:
    """Return a suggestion for an unknown label or group, or an empty text.

    The text also points out a number given as text, and the reverse.
    """
    names = list(known)
    for other in names:
        if str(other) == str(name) and other != name:
            return f"write the {'text' if isinstance(other, str) else 'number'} {other!r}; "
    return did_you_mean(str(name), map(str, names))
