"""tailboost: boosting classifiers that hold up on the worst samples, class and group."""

__version__ = "0.1.0"
