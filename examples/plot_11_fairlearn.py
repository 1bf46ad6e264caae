"""
With fairlearn's MetricFrame
============================

Results go straight into fairlearn's tables. Group DRO boosting makes the largest group error small;
fairlearn's ``ExponentiatedGradient`` with bounded group loss minimises the overall error while each group
stays below a bound that you state.
"""

import matplotlib.pyplot as plt
from fairlearn.metrics import MetricFrame, count
from sklearn.metrics import recall_score, zero_one_loss
from sklearn.model_selection import train_test_split

import tailboost as tb

data = tb.datasets.load_credit_default()
X, X_test, y, y_test, sex, sex_test = train_test_split(
    data.data, data.target, data.groups["sex"], test_size=0.5, stratify=data.target, random_state=0
)
clf = tb.GroupDROBoostClassifier(random_state=0).fit(X, y, groups=sex)
frame = MetricFrame(
    metrics={"error": zero_one_loss, "share of defaulters found": recall_score, "clients": count},
    y_true=y_test,
    y_pred=clf.predict(X_test),
    sensitive_features=sex_test,
)
print(frame.by_group.round(3).to_string())

# %%
# The sex is a feature here (``SEX``): without this column a woman and a man with equal other features get the
# same answer.
frame.by_group[["error", "share of defaulters found"]].plot.bar(
    subplots=True, layout=(1, 2), figsize=(8, 3), legend=False, rot=0
)
plt.tight_layout()
plt.show()
