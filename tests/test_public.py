"""Public names: each can be imported and has a docstring; no other names show."""

import ast
import inspect
import subprocess
import sys

import pytest

import tailboost as tb
from tailboost.classifiers import __all__ as classifiers


@pytest.mark.parametrize("name", tb.__all__)
def test_a_public_name_says_what_it_is(name):
    thing = getattr(tb, name)
    if not (inspect.isclass(thing) or inspect.isroutine(thing) or inspect.ismodule(thing)):
        return  # a constant or an alias of types
    assert inspect.getdoc(thing)
    if inspect.isclass(thing):
        for method, function in vars(thing).items():
            if method[0] != "_" and inspect.isfunction(function):
                assert inspect.getdoc(getattr(thing, method)), f"{name}.{method}"


def test_dir_shows_what_is_public():
    assert set(tb.__all__) <= set(dir(tb))
    assert len(tb.__all__) == len(set(tb.__all__))


def test_a_star_gives_all_public_names():
    space = {}
    exec("from tailboost import *", space)
    assert set(tb.__all__) <= set(space)
    assert set(classifiers) <= set(space)


def test_an_unknown_name_is_refused():
    with pytest.raises(AttributeError, match="Boost"):
        tb.Boost  # noqa: B018


def test_importing_the_package_loads_nothing_heavy():
    for package, heavy in (("tailboost", {"numpy"}), ("tailboost.app.cli", set())):
        loaded = f"import sys, {package}; print({{m.split('.')[0] for m in sys.modules}})"
        modules = subprocess.run([sys.executable, "-c", loaded], capture_output=True, text=True, check=True)
        assert not ({"scipy", "sklearn", "pandas"} | heavy) & set(ast.literal_eval(modules.stdout))


def test_one_module_offers_all_public_errors_and_warnings():
    for name in tb.__all__:
        thing = getattr(tb, name)
        if inspect.isclass(thing) and issubclass(thing, Exception):
            assert getattr(tb.exceptions, name) is thing
