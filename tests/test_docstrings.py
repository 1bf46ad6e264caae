"""Docstrings are correct: parameters, attributes, sections, examples."""

import ast
import doctest
import importlib
import inspect
import re
from pathlib import Path

import pytest
from sklearn.datasets import load_breast_cancer

import tailboost as tb
from tailboost.app.registry import METHODS

CLASSIFIERS = sorted({m.factory for m in METHODS.values() if m.ours}, key=lambda cls: cls.__name__)
LEARNERS = [getattr(tb.learners, name) for name in tb.learners.__all__]
PACKAGE = Path(tb.__file__).parent

#: The sections of a class in numpydoc's order; the empty title is the text above them.
ORDER = ["", "Parameters", "Attributes", "Raises", "Warns", "See Also", "Notes", "References", "Examples"]

#: Every module with an example, by its dotted name.
MODULES = sorted(
    ".".join(("tailboost", *path.relative_to(PACKAGE).with_suffix("").parts)).removesuffix(".__init__")
    for path in PACKAGE.rglob("*.py")
    if ">>> " in path.read_text(encoding="utf-8")
)


def sections(thing):
    """Return the sections of a numpydoc docstring as {title: body}."""
    parts = re.split(r"^(\w[\w ]*)\n-{3,}\n", inspect.getdoc(thing) or "", flags=re.MULTILINE)
    assert len(set(parts[1::2])) == len(parts[1::2]), "a section stands twice"
    return {"": parts[0], **dict(zip(parts[1::2], parts[2::2], strict=True))}


def entries(body):
    """Return the entries of a section as {name: text}; "a, b : type" is two entries with one text."""
    found = re.findall(r"^(\S[^\n:]*?)(?: ?:.*)?\n((?:(?:    .*)?\n)*)", body + "\n", re.MULTILINE)
    return {name.strip(): text.strip() for names, text in found for name in names.split(",")}


def fitted(cls, **params):
    """Return an instance after a short fit to a table with column names."""
    X, y = load_breast_cancer(return_X_y=True, as_frame=True)
    params |= {"n_estimators": 3, "random_state": 0}
    return cls(**{k: v for k, v in params.items() if k in cls().get_params()}).fit(X, y)


def torch_classifier():
    pytest.importorskip("torch")
    pytest.importorskip("safetensors")
    from tailboost.learners.torch import TorchClassifier

    return TorchClassifier


def check_parameters(cls):
    described = entries(sections(cls)["Parameters"])
    assert list(described) == [name for name in inspect.signature(cls).parameters]
    assert all(described.values()), [name for name, text in described.items() if not text]


@pytest.mark.parametrize("cls", CLASSIFIERS + LEARNERS)
def test_every_parameter_is_described_in_the_order_of_the_signature(cls):
    check_parameters(cls)
    assert set(inspect.signature(cls).parameters) == set(cls().get_params())


def test_every_parameter_of_the_net_is_described():
    check_parameters(torch_classifier())


@pytest.mark.thinned(3)
@pytest.mark.parametrize("cls", CLASSIFIERS + LEARNERS)
def test_attributes_that_are_described_exist_after_fit(cls):
    described = entries(sections(cls)["Attributes"])
    fits = [fitted(cls)]
    if cls in (tb.WorstClassBoostClassifier, tb.GroupDROBoostClassifier):
        fits.append(fitted(cls, estimator="tree"))  # a game has attributes of rounds
    missing = [name for name in described if not any(hasattr(clf, name) for clf in fits)]
    assert not missing
    assert {"classes_", "n_features_in_"} <= set(described)
    assert all(described.values()), [name for name, text in described.items() if not text]


@pytest.mark.parametrize("cls", CLASSIFIERS + LEARNERS)
def test_sections_a_reader_looks_for(cls):
    found = sections(cls)
    assert {"See Also", "Examples"} <= set(found)
    assert "References" in found or cls in LEARNERS  # the binned trees follow no paper
    assert list(found) == [title for title in ORDER if title in found]
    assert ">>> " in found["Examples"]
    assert cls.__name__ in found["Examples"]
    assert "{{" not in inspect.getdoc(cls)
    home = tb.learners if cls in LEARNERS else tb
    for name in entries(found["See Also"]):
        assert hasattr(tb if name.startswith("tailboost.") else home, name.removeprefix("tailboost."))


@pytest.mark.parametrize("cls", CLASSIFIERS)
def test_methods_describe_their_parameters(cls):
    for name, method in inspect.getmembers(cls, inspect.isfunction):
        if name.startswith("_") or not method.__module__.startswith("tailboost"):
            continue
        names = [
            "**" + p.name if p.kind is p.VAR_KEYWORD else p.name
            for p in list(inspect.signature(method).parameters.values())[1:]
        ]
        described = entries(sections(method).get("Parameters", ""))
        assert set(described) == set(names), name
        assert all(described.values()), name
        assert "{{" not in inspect.getdoc(method)


@pytest.mark.parametrize("path", sorted(PACKAGE.rglob("*.py")), ids=lambda path: path.stem)
def test_what_none_means_is_said(path):
    """A function that may return None says when."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        words = ast.get_docstring(node) if isinstance(node, ast.FunctionDef) else None
        if words and node.returns and not node.name.startswith("__"):
            assert "None" in words or "| None" not in ast.unparse(node.returns), node.name


def test_papers_are_in_the_list_of_references():
    """Short names of papers are in the list of references; bare keys are absent."""
    page = (Path(__file__).parents[1] / "docs" / "references.md").read_text(encoding="utf-8")
    known = set(re.findall(r"^\*\*(.+?)\.?\*\*", page, flags=re.MULTILINE))
    assert "Zhai et al. 2021" in known
    for path in PACKAGE.rglob("*.py"):
        text = path.read_text(encoding="utf-8")
        assert not re.findall(r"\[[A-Z]{1,4}\d{2}\]", text), path
        named = re.findall(r"([A-Z][\w-]+ (?:et al\.|and [A-Z]\w+)) \(?(\d{4}[a-z]?)", text)
        assert {f"{name} {year}" for name, year in named} <= known, path


@pytest.mark.parametrize("name", MODULES)
def test_examples_run(name):
    if name.startswith("tailboost.learners.torch"):
        pytest.importorskip("torch")
    if name.startswith("tailboost.dask"):
        pytest.importorskip("dask")
    results = doctest.testmod(importlib.import_module(name))
    assert results.attempted > 0
    assert results.failed == 0
