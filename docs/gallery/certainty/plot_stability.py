"""
Stability selection: what would other rows select?
==================================================

A selection depends on the rows it was made from. `StabilitySelection` repeats it on random halves of the rows, and
keeps the features that most halves select.
"""

# %%
# There are 15 true features among 60 columns. Online substitution is asked for 20, so at least five of them are noise.

import matplotlib.pyplot as plt
import numpy as np

import daskfs

rng = np.random.default_rng(0)
X = rng.standard_normal((400, 60))
effects = np.linspace(0.15, 1.0, 15)
y = X[:, :15] @ effects + rng.standard_normal(400)

selector = daskfs.OnlineSubstitution(n_features_to_select=20)
stable = daskfs.StabilitySelection(selector, n_pairs=25, threshold=0.75).fit(X, y)
print("selected:", sorted(stable.selected_.tolist()))
print("expected number of false selections, at most:", round(stable.pfer_bound_, 2))

# %%
# `frequencies_` has the share of halves that select each feature. Most noise is selected now and then, hardly ever
# often.

is_true = np.arange(60) < 15
fig, axes = plt.subplots(figsize=(8, 3.5), layout="constrained")
for is_kind, colour, label in ((is_true, "tab:blue", "true features, weak to strong"), (~is_true, "0.6", "noise")):
    axes.bar(np.flatnonzero(is_kind), stable.frequencies_[is_kind], color=colour, label=label)
axes.axhline(0.75, color="tab:red", linestyle="--", label="threshold")
axes.set(xlabel="column", ylabel="share of halves", title="How often 50 halves of the rows select each column")
axes.legend()
plt.show()

# %%
# The two weakest true features fall below the threshold, and one column of noise just reaches it. With 400 rows they
# cannot be distinguished. A higher threshold has a smaller bound, and misses more of the weak features.
