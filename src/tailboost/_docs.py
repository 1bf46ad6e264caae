"""Texts that several docstrings share, written once and shown in full in each."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Mapping
from textwrap import indent
from typing import Any, TypeVar

T = TypeVar("T")

_PLACE = re.compile(r"^([ \t]*)\{\{(\w+)(?: … (\w+))?\}\}$", flags=re.MULTILINE)


def texts_of(source: str, *prefixes: str) -> dict[str, str]:
    """Return texts between empty lines by their first words, which may have prefixes that are not shown."""
    texts = {}
    for text in source.strip().split("\n\n"):
        name = re.split(r"[ ,\n]", text, maxsplit=1)[0]
        shown = text
        for prefix in prefixes:
            shown = shown.removeprefix(prefix)
        texts[name.lstrip("*")] = shown
    return texts


def describing(texts: Mapping[str, str]) -> Callable[[T], T]:
    """Return a decorator that puts shared texts into the docstring of a class or function.

    A docstring names a text by a line ``{{name}}``, or several that follow each other by a line
    ``{{first … last}}``.

    Raises
    ------
    ValueError
        If a line names a text that does not exist.
    """
    names = list(texts)

    def text(found: re.Match[str]) -> str:
        margin, first, last = found.groups()
        chosen = names[names.index(first) : names.index(last or first) + 1]
        return indent("\n".join(texts[name] for name in chosen), margin)

    def describe(thing: T) -> T:
        described: Any = thing
        if described.__doc__:  # python -OO strips docstrings
            described.__doc__ = _PLACE.sub(text, inspect.cleandoc(described.__doc__))
        return thing

    return describe
