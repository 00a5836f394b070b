"""
Select inside the cross-validation: a scikit-learn Pipeline
===========================================================

A selector is a scikit-learn estimator. In a `Pipeline` it is fitted anew in each fold, on the training rows alone. If
it is fitted to all rows first, it sees the test rows, and the error looks far too small.
"""

# %%
# The data are pure noise: 80 rows, 3,000 columns, and labels drawn by a coin. No model can be right more often than
# half of the time.

import matplotlib.pyplot as plt
import numpy as np
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline

import daskfs

rng = np.random.default_rng(0)
X = rng.standard_normal((80, 3000))
y = rng.permutation(np.repeat(["heads", "tails"], 40))

# %%
# The wrong way selects first and cross-validates afterwards. The right way cross-validates the pipeline.

neighbours = KNeighborsClassifier(5)
ten_columns = daskfs.FGM(10).fit_transform(X, y)
wrong = cross_val_score(neighbours, ten_columns, y, cv=5)
right = cross_val_score(make_pipeline(daskfs.FGM(10), neighbours), X, y, cv=5)

fig, axes = plt.subplots(figsize=(6, 3.8), layout="constrained")
for place, scores in enumerate((wrong, right)):
    axes.bar(place, scores.mean(), color=("tab:red", "tab:blue")[place], width=0.5)
    axes.plot(np.full(5, place) + np.linspace(-0.1, 0.1, 5), scores, "o", color="black")
axes.axhline(0.5, color="0.4", linestyle="--", label="a coin")
axes.set_xticks([0, 1], ["selected on all rows,\nthen cross-validated", "selected in each fold\n(Pipeline)"])
axes.set(ylabel="accuracy", ylim=(0, 1.05), title="Accuracy on pure noise, in five folds")
axes.legend()
plt.show()

# %%
# `GridSearchCV` reaches the parameters of the selector by their names.

pipeline = make_pipeline(daskfs.FGM(), neighbours)
search = GridSearchCV(pipeline, {"fgm__n_features_to_select": [2, 5, 10]}, cv=5).fit(X, y)
print(search.cv_results_["mean_test_score"].round(2))
