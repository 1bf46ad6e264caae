"""Public names: each can be imported and has a docstring; no other names show."""

import ast
import inspect
import subprocess
import sys
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from pkgutil import iter_modules
from typing import Any, get_overloads, get_type_hints

import pytest

import tailboost as tb
from tailboost.app.registry import METHODS
from tailboost.boosting import players
from tailboost.boosting.game import Player
from tailboost.classifiers import __all__ as classifiers

MODULES = [
    "tailboost", "tailboost.app.datasets", "tailboost.app.plotting", "tailboost.app.registry",
    "tailboost.app.report", "tailboost.app.table_encoder", "tailboost.boosting.learner",
    "tailboost.boosting.game", "tailboost.boosting.players", "tailboost.classifiers.decisions",
    "tailboost.classifiers.published", "tailboost.guarantees.calibration",
    "tailboost.guarantees.certificates", "tailboost.guarantees.robustness", "tailboost.learners",
    "tailboost.rates", "tailboost.rates.bounds",
    "tailboost.rates.metrics", "tailboost.selection.mixture", "tailboost.solvers",
]  # fmt: skip


def names(module):
    """Return the public names of a module: ``__all__``, or its definitions."""
    found = vars(module)
    if "__all__" in found:
        return list(module.__all__)
    return [n for n, v in found.items() if n[0] != "_" and getattr(v, "__module__", None) == module.__name__]


PUBLIC = [(module, name) for module in MODULES for name in names(import_module(module))]


@pytest.mark.parametrize(("module", "name"), PUBLIC)
def test_a_public_name_says_what_it_is(module, name):
    thing = getattr(import_module(module), name)
    if not (inspect.isclass(thing) or inspect.isroutine(thing) or inspect.ismodule(thing)):
        return  # a constant or an alias of types
    assert inspect.getdoc(thing)
    if inspect.isclass(thing):
        for method, function in vars(thing).items():
            if method[0] != "_" and inspect.isfunction(function):
                assert inspect.getdoc(getattr(thing, method)), f"{name}.{method}"


def test_dir_shows_what_is_public():
    assert set(dir(tb)) == {*tb.__all__, "dask", "torch", "__version__"}
    assert len(tb.__all__) == len(set(tb.__all__))


PACKAGES = (
    "classifiers datasets decisions exceptions learners metrics plotting published rates robustness solvers "
    "dask torch torch.losses torch.nets"
)

NEEDED = {"dask": ["dask"], "torch": ["torch", "safetensors"]}  # by modules of extras


@pytest.mark.parametrize("module", PACKAGES.split())
def test_dir_of_a_public_module_shows_its_public_names(module):
    for needed in NEEDED.get(module.split(".")[0], ()):
        pytest.importorskip(needed)
    imported = import_module(f"tailboost.{module}")
    assert {name for name in dir(imported) if name[0] != "_"} == set(imported.__all__)


def test_a_star_gives_all_public_names():
    """The list is created at first use; the names of the classifiers occur in their package only."""
    space = {}
    exec("from tailboost import *", space)
    assert set(tb.__all__) <= set(space)
    assert set(classifiers) <= set(space)


def test_every_classifier_of_the_registry_is_at_the_top():
    assert set(classifiers) <= set(tb.__all__)
    for method in METHODS.values():
        if method.ours:
            assert getattr(tb, method.factory.__name__) is method.factory


def test_the_package_of_players_exports_all_of_them():
    """The tests of all players run over this list."""
    modules = [import_module(f"tailboost.boosting.players.{m.name}") for m in iter_modules(players.__path__)]
    classes = {cls for module in modules for cls in vars(module).values() if isinstance(cls, type)}
    defined = {cls.__name__ for cls in classes if Player in cls.__mro__ and not inspect.isabstract(cls)}
    assert defined - {"Player"} == set(players.__all__)


def test_an_unknown_name_is_refused():
    with pytest.raises(AttributeError, match="no attribute 'Boost'"):
        tb.Boost  # noqa: B018


def test_the_names_at_the_top_are_those_that_type_checkers_see():
    """The lazy imports and the imports for type checkers are the same."""
    tree = ast.parse(Path(tb.__file__).read_text())
    block = next(node for node in tree.body if isinstance(node, ast.If))
    seen = {alias.name for node in block.body if isinstance(node, ast.ImportFrom) for alias in node.names}
    assert (seen - {"*"}) | set(classifiers) == {*(*tb.__all__, "classifiers", "dask", "torch")}


def test_importing_the_package_loads_nothing_heavy():
    loaded = "import sys, tailboost; print({m.split('.')[0] for m in sys.modules})"
    modules = subprocess.run([sys.executable, "-c", loaded], capture_output=True, text=True, check=True)
    assert not {"numpy", "scipy", "sklearn", "pandas"} & set(ast.literal_eval(modules.stdout))


def test_type_checkers_know_the_certificate_and_take_scores_for_any_loaded_rule():
    """`load_rule` returns one of two classes, so a checker compares a call with both."""
    for classifier in (tb.RobustMixtureClassifier, tb.WorstClassBoostClassifier):
        assert get_type_hints(classifier.certificate_.fget)["return"] == tb.Certificate | None
    assert get_type_hints(tb.LabelRules)["certificate_"] == tb.Certificate | None
    assert get_type_hints(tb.ThresholdRule.predict)["score"] is Any
    assert get_type_hints(tb.Rule.predict)["probabilities"] is Any


def test_public_paths_are_plain_modules():
    """No import hook: each path gives the names of the module that it stands for."""
    for name in (
        "datasets",
        "decisions",
        "exceptions",
        "metrics",
        "plotting",
        "published",
        "robustness",
        *(["torch"] if find_spec("safetensors") else []),  # an extra
    ):
        module = import_module(f"tailboost.{name}")
        assert module.__spec__.name == f"tailboost.{name}"
    assert not any("tailboost" in str(type(finder)) for finder in sys.meta_path)


def test_one_module_offers_all_public_errors_and_warnings():
    for name in tb.__all__:
        thing = getattr(tb, name)
        if inspect.isclass(thing) and issubclass(thing, Exception):
            assert getattr(tb.exceptions, name) is thing


@pytest.mark.parametrize(
    ("module", "name", "hint"),
    [
        ("tailboost", "card", "'ModelCard.of(...)'"),
        ("tailboost", "model_crad", "did you mean 'ModelCard.of(...)'?"),
        ("tailboost", "calibrat", "did you mean 'calibrate'?"),
        ("tailboost", "cvar", "it is tailboost.metrics.cvar"),
        ("tailboost.rates", "mis", "did you mean 'miss'?"),
        ("tailboost.published", "adalpbost", "did you mean 'adalpboost'"),
    ],
)
def test_an_unknown_name_is_refused_with_a_similar_one(module, name, hint):
    with pytest.raises(AttributeError, match=rf"module '{module}' has no attribute '{name}'") as raised:
        getattr(import_module(module), name)
    assert hint in str(raised.value)


def test_the_types_of_results_have_the_attributes_of_the_usual_class():
    """A model without types, as of scikit-learn, would make the result of an overload Any alone."""
    # Any: a boosting classifier, and other models of files
    results = {tb.calibrate: "Calibrated | Any", tb.load_model: "RobustMixtureClassifier | Any"}
    for function, result in results.items():
        assert inspect.signature(function).return_annotation == result
    assert not get_overloads(inspect.unwrap(tb.calibrate))
