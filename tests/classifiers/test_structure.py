"""Classes stay shallow and small, so that a fit can be read."""

import pytest

import tailboost as tb

NAMES = [name for name in tb.__all__ if name.endswith("Classifier")]


def of_package(cls):
    return [base for base in cls.__bases__ if base.__module__.startswith("tailboost.")]


def levels(cls):
    """Longest chain of classes of the package above a class."""
    return max((1 + levels(base) for base in of_package(cls)), default=0)


@pytest.mark.parametrize("name", NAMES)
def test_at_most_two_levels_of_the_package_are_above_a_classifier(name):
    cls = getattr(tb, name)
    parents = [base for base in of_package(cls) if base.__name__ in NAMES]
    if not parents:
        assert levels(cls) <= 2
        return
    # A preset fixes parameters of a public classifier, and at most names a program.
    assert of_package(cls) == parents
    assert levels(parents[0]) <= 2
    methods = [key for key, value in vars(cls).items() if not key.startswith("__") and callable(value)]
    assert methods == []


def own(cls):
    """Names that a class of the package defines, without those of its parameters."""
    return {key for key in vars(cls) if not key.startswith(("__", "set_", "_abc_"))}


@pytest.mark.parametrize("name", NAMES)
def test_no_class_has_many_attributes_of_its_own(name):
    for cls in getattr(tb, name).__mro__:
        if cls.__module__.startswith("tailboost."):
            assert len(own(cls)) <= (28 if cls is tb.RobustMixtureClassifier else 20), cls


@pytest.mark.parametrize("name", NAMES)
def test_a_classifier_has_few_attributes_through_all_bases(name):
    bases = [cls for cls in getattr(tb, name).__mro__ if cls.__module__.startswith("tailboost.")]
    assert len(set().union(*map(own, bases))) <= 46
