"""
Comparing selectors
===================

No selector is best everywhere. `SelectionCV` judges each one on held-out rows, for several numbers of features. `Auto`
does this for you.
"""

# %%
# The data are the breast cancer table that ships with scikit-learn. Its 30 columns and 70 columns of noise make 100.

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from sklearn.datasets import load_breast_cancer

import daskfs

X, y = load_breast_cancer(return_X_y=True, as_frame=True)
rng = np.random.default_rng(0)
noise = pd.DataFrame(rng.standard_normal((len(X), 70)), columns=[f"noise {k}" for k in range(70)])
X = pd.concat([X, noise], axis="columns")

# %%
# The folds are the same for all selectors. The bars are standard errors over the folds.

sizes = [1, 2, 4, 8, 16, 32]
selectors = [daskfs.FGM(), daskfs.OnlineSubstitution(), daskfs.Mission(), daskfs.Message(n_subsets=3)]
fig, axes = plt.subplots(figsize=(7, 4), layout="constrained")
for shift, selector in zip((0.94, 0.98, 1.02, 1.06), selectors, strict=True):
    found = daskfs.SelectionCV(selector, sizes=sizes, metric="log_loss").fit(X, y).cv_results_
    axes.errorbar(
        shift * np.array(found["n_features_to_select"]),
        found["mean_test_score"],
        found["standard_error"],
        marker="o",
        capsize=3,
        label=type(selector).__name__,
    )
axes.set(xscale="log", xlabel="features", ylabel="log loss of held-out rows", title="Four selectors, six sizes")
axes.set_xticks(sizes, [str(size) for size in sizes])
axes.minorticks_off()
axes.legend()
plt.show()

# %%
# `Auto` compares methods and sizes, and takes the fewest features that predict about as well as the best.

auto = daskfs.Auto().fit(X, y)
print(auto.get_feature_names_out().tolist())
print(auto.result_.notes[0])
