"""
Probabilities, when you need them
=================================

``predict_proba`` of a mixture says how often each label would be drawn. It is not P(y | x). Wrapped in
scikit-learn's ``CalibratedClassifierCV`` it becomes one; the reliability diagram shows the difference.
"""

import matplotlib.pyplot as plt
from sklearn.calibration import CalibratedClassifierCV, CalibrationDisplay
from sklearn.datasets import load_breast_cancer
from sklearn.model_selection import train_test_split

import tailboost as tb

X, y = load_breast_cancer(return_X_y=True)
X, X_test, y, y_test = train_test_split(X, y, test_size=0.5, stratify=y, random_state=0)
plain = tb.AdaLPBoostClassifier(n_estimators=5, alpha=0.2, random_state=0).fit(X, y)
calibrated = CalibratedClassifierCV(
    tb.AdaLPBoostClassifier(n_estimators=5, alpha=0.2, random_state=0), method="sigmoid", cv=3
).fit(X, y)

fig, ax = plt.subplots(figsize=(5.5, 5), layout="constrained")
for name, model in {"label shares": plain, "calibrated": calibrated}.items():
    CalibrationDisplay.from_estimator(model, X_test, y_test, n_bins=5, name=name, ax=ax)
plt.show()
