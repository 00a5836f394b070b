"""
Knockoffs: limit the share of false features
============================================

A knockoff is an artificial column. It has the correlations of the original but no information about the target. A
feature is selected if it counts for much more than its knockoff.

`Knockoffs` bounds the false discovery rate: on average over data sets, at most a share `fdr` of the selected features
is false.
"""

# %%
# Neighbouring columns are correlated, which makes false selections likely. 30 of the 200 columns matter.

import matplotlib.pyplot as plt
import numpy as np

import daskfs

rng = np.random.default_rng(1)
n_samples, n_features = 1000, 200
X = rng.standard_normal((n_samples, n_features))
for j in range(1, n_features):
    X[:, j] = 0.5 * X[:, j - 1] + np.sqrt(0.75) * X[:, j]
true = rng.choice(n_features, 30, replace=False)
y = X[:, true] @ rng.choice([-0.25, 0.25], 30) + rng.standard_normal(n_samples)

known = daskfs.Knockoffs(daskfs.OnlineSubstitution(), fdr=0.1, statistic="lasso").fit(X, y)
n_false = len(set(known.selected_) - set(true))
print(f"{len(known.selected_)} selected, {n_false} of them false")

# %%
# `statistics_` says by how much each column beats its knockoff. The statistics of noise are positive or negative with
# the same probability. So the negative ones estimate how many false features lie above the threshold.

is_true = np.isin(np.arange(n_features), true)
fig, axes = plt.subplots(figsize=(8, 3.8), layout="constrained")
for is_kind, colour, label in ((~is_true, "0.6", "noise"), (is_true, "tab:blue", "true features")):
    axes.plot(np.flatnonzero(is_kind), known.statistics_[is_kind], "o", color=colour, markersize=4, label=label)
axes.axhline(known.threshold_, color="tab:red", linestyle="--", label="threshold")
axes.axhline(-known.threshold_, color="tab:red", linestyle=":", label="minus the threshold")
axes.set(xlabel="column", ylabel="column minus knockoff", title="Columns against their knockoffs")
fig.legend(loc="outside right upper")
plt.show()

# %%
# The note states what the bound assumes.

print(known.result_.notes[0])
