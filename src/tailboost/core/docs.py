"""Texts that several docstrings share, written once and shown in full in each."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Iterable, Mapping
from textwrap import indent
from typing import Any, TypeVar

T = TypeVar("T")

_PLACE = re.compile(r"^([ \t]*)\{\{(\w+)(?: … (\w+))?\}\}$", flags=re.MULTILINE)
_SECTION = re.compile(r"^((Parameters|Attributes)\n-+\n)(.*?)(?=\n\n\S|\Z)", flags=re.MULTILINE | re.DOTALL)


def texts_of(source: str) -> dict[str, str]:
    """Return texts between empty lines by their first words."""
    return {_name(text).lstrip("*"): text for text in source.strip().split("\n\n")}


def _name(entry: str) -> str:
    """Return the first word of an entry of a docstring: the parameter or attribute that it describes."""
    return re.split(r"[ ,\n]", entry, maxsplit=1)[0]


def sections_of(thing: Any) -> dict[str, str]:
    """Return the parameters and the attributes that a docstring describes, as texts for another one."""
    return {found[2].lower(): found[0] for found in _SECTION.finditer(inspect.getdoc(thing) or "")}


def describing(texts: Mapping[str, str], attributes: str = "") -> Callable[[T], T]:
    """Return a decorator that puts shared texts into the docstring of a class or function.

    A docstring names a text by a line ``{{name}}``, or several that follow each other by a line
    ``{{first … last}}``. A class may describe its own parameters or attributes alone: a line ``{{rest}}``
    stands for all other parameters, in the signature's order, or for the others of these ``attributes``.

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

    def completed(section: re.Match[str], thing: Any) -> str:
        head, title, body = section.groups()
        own = {_name(entry).strip("{}"): entry for entry in re.split(r"\n(?=\S)", body)}
        if own.pop("rest", None) is None:
            return section[0]
        order: Iterable[str] = (
            inspect.signature(thing).parameters if title == "Parameters" else attributes.split()
        )
        first, *entries = [own.pop(name, None) or texts[name] for name in order]
        return head + "\n".join([first, *own.values(), *entries])

    def describe(thing: T) -> T:
        described: Any = thing
        if described.__doc__:  # python -OO strips docstrings
            doc = _SECTION.sub(lambda found: completed(found, thing), inspect.cleandoc(described.__doc__))
            described.__doc__ = _PLACE.sub(text, doc)
        return thing

    return describe
