"""ONNX files of robust mixtures: models, their averages and the decision rule in one graph."""

from tailboost.storage.onnx import *  # noqa: F403  # the public path of this module
from tailboost.storage.onnx import __all__ as __all__
