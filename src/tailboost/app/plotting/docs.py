"""What the docstrings of the displays share."""

from __future__ import annotations

from tailboost.core.docs import describing, texts_of

_TEXTS = texts_of("""
ax_, figure_ : matplotlib Axes and Figure
    Where it was drawn.

X : array-like of shape (n, d)
    Rows to judge on.

y : array-like of shape (n,)
    Their labels.

groups : array-like of shape (n,), default=None
    The group of each row; None shows the classes.

sample_weight : array-like of shape (n,), default=None
    Weights of the rows.

response_method : {"predict", "predict_distribution"}, default="predict"
    Judge the deterministic ``predict``, or the randomised rule by its expected error.

name : str, default=None
    Title, or label in the legend; None takes the name of the
    estimator's class, where there is one.

ax : matplotlib Axes, default=None
    Where to draw, also beside other displays of the kind; None makes a new figure.

**kwargs : dict
    For the function of matplotlib that draws it: ``barh`` for bars, else ``plot``.
""") | {"drawn": "\nReturns\n-------\nDisplay\n    The drawn display."}

described = describing(_TEXTS)
