"""What a name that is not known may have meant."""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from typing import Any


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """Return "did you mean …? " with the known names near one that is not known; empty if none is near.

    Near are names spelled alike, capitals aside, or else those that hold the name given.
    """
    folded = {other.casefold(): other for other in known}
    given = name.casefold()
    near = difflib.get_close_matches(given, folded, n=3)
    if not near and len(given) > 2:
        near = [other for other in folded if given in other][:3]
    return f"did you mean {' or '.join(repr(folded[other]) for other in near)}? " if near else ""


def meant(name: Any, known: Iterable[Any]) -> str:
    """Return what a label or group that is not known may have meant; empty if none is near.

    A number in quotes, and a number where the known name is text, are said to be so.
    """
    names = list(known)
    for other in names:
        if str(other) == str(name) and other != name:
            return f"it is {other!r}, {'text' if isinstance(other, str) else 'a number'}; "
    return did_you_mean(str(name), map(str, names))
