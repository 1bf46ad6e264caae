"""Optional methods of base learners, in addition to scikit-learn's.

Any scikit-learn classifier is a base learner: boosting clones and fits the classifier in every round. The
protocols below make boosting faster or better. Each is optional and recognised by its methods; no inheritance
is needed. A session may have ``stages(weight, seed)``, which yields models of increasing strength: a
fit then ends as soon as a model is good enough, and ``next()`` may change the model before.

A session with an attribute ``deterministic`` promises equal models for equal weights, whatever the seed.
Rows of weight 0 take no part in a fit, but stay in what a session has prepared once, such as the edges of its
bins.

====================  ===============================================  =====================================
protocol              implemented by                                   purpose
====================  ===============================================  =====================================
`Learner`             the classifier passed as ``estimator``           read the table once for all rounds
`Session`             the result of ``open_session``                   fit and predict on the session's rows
====================  ===============================================  =====================================
"""

from typing import Any, Protocol, runtime_checkable

from tailboost.core import Floats, Ints, Model, Table


class Session(Protocol):
    """A learner with its rows. Labels are class numbers 0 … K − 1."""

    def fit(self, weight: Floats, seed: int) -> Any:
        """Return a model fitted with weights of shape (n,)."""

    def predict(self, model: Model) -> Ints:
        """Return the predictions of a base model for the rows of the session, as class numbers."""


@runtime_checkable
class Learner(Protocol):
    """A classifier with one read of the table per fit of an ensemble, instead of one per round."""

    def open_session(self, X: Table, y: Ints, n_classes: int, sample_weight: Floats) -> Session:
        """Return a session on n rows with class numbers and positive sample weights, shape (n,)."""
