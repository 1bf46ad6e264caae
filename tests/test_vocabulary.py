"""Names and prose use the terms of the glossary; class names are unique in the package."""

import ast
import contextlib
import inspect
import re
from collections import Counter
from pathlib import Path

import pytest

import tailboost as tb

ROOT = Path(__file__).parents[1]
SOURCES = sorted((ROOT / "src").rglob("*.py"))
PAGES = [ROOT / f"{name}.md" for name in ("README", "CONTRIBUTING", "SECURITY")]
BUILT = {"_build", "records", "measurements"}  # folders by `make docs`
PAGES += sorted(path for path in (ROOT / "docs").rglob("*.md") if BUILT.isdisjoint(path.parts))

#: Replaced terms, as regular expressions for whole words, with the current term. See docs/glossary.md.
REPLACED = {
    r"tall(?:y|ies)": "confusion counts",
    r"beliefs?": "stratum probabilities",
    r"sketch(?:es)?": "fingerprint",
    r"coin flips?": "random guess",
    r"mean[ _]budgets?": "error budget",
    r"mean errors?": "overall error",
    r"guarantee_": "summary_",
    r"split_by": "clusters",
    r"predict_shares": "predict_distribution",
    r"pass(?:es|ed)? on": "defer",
    r"passed_on": "deferred",
    r"(?:is|are|be|not|answers) told|told (?:the|its|their) groups?": "group-aware",
    r"min_unit_rows|unit_errors_|unit_intervals_|units_": "subgroups",
    r"SeenRows\w*|seen rows": "leakage",
    r"SmallUnits\w*": "SmallSubgroupsWarning",
    r"Watch|watches|watched batch(?:es)?": "monitor",
    r"judged rows|rows of the choice|(?:was|were) chosen on": "selection data",
    r"(?:forc(?:es|ed)|that force) (?:the|this|a) rule|What forces this": "raises the error",
    r"warm_start": "a parameter that no longer exists",
}
#: File names and terms with another meaning there.
EXCEPTIONS = {("foreign.py", "warm_start")}  # a parameter of other libraries' models
PATTERNS = {re.compile(rf"(?<![\w-])(?:{old})(?![\w-])"): new for old, new in REPLACED.items()}


def replaced_terms(text, file=""):
    terms = [(m[0], new) for pattern, new in PATTERNS.items() for m in pattern.finditer(text)]
    return [f"{old!r}: write {new!r}" for old, new in terms if (file, old) not in EXCEPTIONS]


def public_names():
    """Yield the public names with their attributes and parameters."""
    for name in tb.__all__:
        thing = getattr(tb, name)
        yield name
        members = [thing] if callable(thing) else []
        if inspect.isclass(thing):
            yield from (key for key in dir(thing) if key[0] != "_")
            members += [method for key, method in inspect.getmembers(thing, callable) if key[0] != "_"]
        for member in members:
            with contextlib.suppress(ValueError, TypeError):
                yield from inspect.signature(member).parameters


@pytest.mark.slow
def test_class_names_are_unique():
    names = Counter(
        node.name
        for path in SOURCES
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.ClassDef)
    )
    assert not [name for name, count in names.items() if count > 1]


def test_public_names_use_the_vocabulary():
    names = set(public_names())
    assert not {term for name in names for term in replaced_terms(name)}


@pytest.mark.thinned(74)
@pytest.mark.parametrize("path", SOURCES, ids=lambda path: str(path.relative_to(ROOT / "src")))
def test_docstrings_and_messages_use_the_vocabulary(path):
    """Strings of several words are docstrings and messages."""
    strings = [
        node.value
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and " " in node.value.strip()
    ]
    faults = [term for text in strings for term in replaced_terms(" ".join(text.split()), path.name)]
    assert not faults


@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.name)
def test_pages_use_the_vocabulary(path):
    text = " ".join(path.read_text(encoding="utf-8").split())
    assert not replaced_terms(text)
