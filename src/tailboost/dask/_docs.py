"""Docstrings of classes on Dask collections, from those of one machine."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable
from typing import TypeVar

from tailboost._docs import describing

T = TypeVar("T", bound=type)


def with_sections_of(local: type) -> Callable[[T], T]:
    """Return what puts parameters and attributes of a class of one machine into the docstring of another."""
    text = inspect.getdoc(local)
    if not text:  # python -OO strips docstrings
        return lambda cls: cls
    names = ("Parameters", "Attributes")
    return describing({name.lower(): _section(text, name) for name in names})


def _section(text: str, name: str) -> str:
    found = re.search(rf"^{name}\n-+\n(?:(?!^\S.*\n-+$).*\n)*", text + "\n", flags=re.M)
    assert found is not None
    return found[0].rstrip()
