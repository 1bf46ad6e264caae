"""Small nets: factories ``(input_shape, n_classes) -> nn.Module``."""

from tailboost.learners.torch.nets import *  # noqa: F403  # the public path of this module
from tailboost.learners.torch.nets import __all__ as __all__
