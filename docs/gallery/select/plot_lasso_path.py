"""
The Lasso path and a criterion
==============================

The Lasso penalises the absolute values of the coefficients. As the penalty falls, features enter the model one after
the other. An information criterion chooses one model on this path.

`FullData` is the Lasso on all rows. `Message`, which splits the rows into subsets, follows one such path in each
subset.
"""

# %%
# The data are 442 patients with ten measurements, and the progress of their diabetes after a year. They ship with
# scikit-learn. Squares and products make 65 columns of them, most of which add little.

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_diabetes
from sklearn.linear_model import lasso_path
from sklearn.preprocessing import PolynomialFeatures, StandardScaler

import daskfs

X, y = load_diabetes(return_X_y=True, as_frame=True)
products = PolynomialFeatures(degree=2, include_bias=False).set_output(transform="pandas")
X = StandardScaler().set_output(transform="pandas").fit_transform(products.fit_transform(X))

selector = daskfs.baselines.FullData().fit(X, y)
print(selector.get_feature_names_out().tolist())

# %%
# The history of the result has one row for each penalty: the number of features and the criterion, which is EBIC by
# default. scikit-learn draws the same path, with all coefficients.

path = selector.result_.history
chosen = path.loc[path["chosen"], "lambda"].item()
penalties = np.geomspace(path["lambda"].max(), path["lambda"].min(), 100)
_, coefficients, _ = lasso_path(X.to_numpy(), (y - y.mean()).to_numpy(), alphas=penalties)

fig, (left, right) = plt.subplots(1, 2, figsize=(9, 4), layout="constrained", sharex=True)
for line, is_selected in zip(coefficients, selector.support_, strict=True):
    left.plot(penalties, line, color="tab:blue" if is_selected else "0.8", zorder=2 if is_selected else 1)
left.set(xscale="log", xlabel="penalty", ylabel="coefficient", title="Coefficients; the selected features in blue")
left.invert_xaxis()
left.set_xticks([40, 20, 10, 5, 3], [40, 20, 10, 5, 3])
left.minorticks_off()
right.plot(path["lambda"], path["gic"], marker=".")
right.set(xlabel="penalty", ylabel="criterion", title="Information criterion: lower is better")
for axes in (left, right):
    axes.axvline(chosen, color="tab:red", linestyle="--")
plt.show()

# %%
# To the right of the dashed line the fit still improves, but by less than the criterion charges for each feature.
