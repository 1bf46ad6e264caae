"""Public docstrings pass numpydoc, which lays out the API reference.

`make docs` runs this test before the build.
"""

import dataclasses
import inspect
import re
import runpy
from importlib import import_module
from pathlib import Path

import pytest

pytest.importorskip("sphinx")
pytest.importorskip("numpydoc")
# The reference is of all extras.
pytest.importorskip("xgboost")
pytest.importorskip("distributed")
pytest.importorskip("dask.array")
pytest.importorskip("torch")
pytest.importorskip("safetensors")

from numpydoc.docscrape import NumpyDocString
from numpydoc.validate import validate

SECTIONS = runpy.run_path(str(Path(__file__).parents[1] / "docs" / "_api.py"))["sections"]()

#: Checks, by numpydoc's names.
CHECKS = {
    "GL01", "GL03", "GL05", "GL06", "GL07", "GL08", "GL09", "GL10",  # layout; known sections, in order
    "SS01", "SS03", "SS04",  # a summary, which ends with a full stop
    "PR01", "PR02", "PR05", "PR06", "PR07", "PR09", "PR10",  # parameters: all, no others, types, descriptions
    "RT02", "RT05", "YD01",  # returned values
    "SA02", "SA03", "SA04",  # see also
    "EX02", "EX03", "EX04",  # examples: none of these is raised without an example
}  # fmt: skip
# Not checked. PR03: parameters described elsewhere share one entry ("X, y, sample_weight: as in …"), which
# breaks their order; PR04: so do their types. SS02, PR08 and RT04 take α and δ for small letters; SS05 takes
# plural nouns ("Weights of …") for verbs. GL02 is about closing quotes; RT01 and RT03 want "Returns" after
# a sufficient summary; ES01, EX01 and SA01 want a longer summary, an example and a "See Also" everywhere.


def public():
    """Yield the path and object of each name of the API reference, and of each public method."""
    for module, names in SECTIONS.values():
        for name in names:
            thing, path = getattr(import_module(module), name), f"{module}.{name}"
            if not (inspect.isclass(thing) or inspect.isfunction(thing)):
                continue
            yield path, thing
            for key, method in (
                inspect.getmembers(thing, inspect.isfunction) if inspect.isclass(thing) else ()
            ):
                if key[0] != "_" and method.__module__.startswith("tailboost"):
                    yield f"{path}.{key}", method


THINGS = dict(public())


def described(thing):
    """Return the names under "Parameters" and "Attributes"; "a, b : float" is two."""
    doc = NumpyDocString(inspect.getdoc(thing))
    entries = [*doc["Parameters"], *doc["Attributes"]]
    return {name.strip() for entry in entries for name in entry.name.split(",")}


@pytest.mark.thinned(8)
@pytest.mark.parametrize("section", SECTIONS)
def test_numpydoc_finds_no_fault(section):
    module, names = SECTIONS[section]
    faults = []
    for name, path in [
        (name, path) for name in names for path in THINGS if (path + ".").startswith(f"{module}.{name}.")
    ]:
        doc = inspect.getdoc(THINGS[path])
        # One-line docstrings list nothing, methods may use prose, and fields of results are attributes.
        prose = "\n" not in doc or (path != f"{module}.{name}" and "\nParameters\n" not in doc)
        no_parameters = prose or dataclasses.is_dataclass(THINGS[path])
        for code, message in validate(path)["errors"]:
            if code in CHECKS and not (code == "PR01" and no_parameters):
                faults.append(f"{path}: {code} {message}")
    assert not faults, "\n".join(faults)


def test_citations_have_a_reference():
    """A shared text with a citation needs the reference in every docstring."""
    for path, thing in THINGS.items():
        doc = inspect.getdoc(thing)
        cited, listed = (set(re.findall(mark, doc)) for mark in (r"\[(\d+)\]_", r"(?m)^\.\. \[(\d+)\]"))
        assert cited <= listed, path


@pytest.mark.parametrize("path", [p for p, thing in THINGS.items() if dataclasses.is_dataclass(thing)])
def test_fields_of_results_are_described(path):
    fields = {f.name for f in dataclasses.fields(THINGS[path]) if f.name[0] != "_" and f.repr}
    assert fields <= described(THINGS[path])
