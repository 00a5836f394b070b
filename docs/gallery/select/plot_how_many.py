"""
How many features?
==================

Too few features leave out what matters, and too many fit noise. Cross-validation measures the error for several numbers
of features and chooses one.
"""

# %%
# Twenty of the 100 columns matter, each a little less than the one before.

import matplotlib.pyplot as plt
import numpy as np

import daskfs

rng = np.random.default_rng(1)
X = rng.standard_normal((500, 100))
y = X[:, :20] @ 0.85 ** np.arange(20) + 2 * rng.standard_normal(500)

# %%
# `rule="best"` takes the number with the smallest error. `rule="1se"` takes the smallest number whose error is at most
# one standard error larger. It has fewer features and often no noise among them.

sizes = [1, 2, 4, 6, 8, 12, 16, 24, 32, 48]
fig, both = plt.subplots(1, 2, figsize=(9.5, 4), layout="constrained", sharey=True)
for axes, rule in zip(both, ("best", "1se"), strict=True):
    chosen = daskfs.SelectionCV(daskfs.FGM(), sizes=sizes, rule=rule).fit(X, y)
    n_noise = sum(j >= 20 for j in chosen.selected_)
    chosen.result_.plot(kind="history", ax=axes)
    axes.set_title(f"rule {rule}: {chosen.n_features_to_select_} features, {n_noise} of noise", pad=24)
plt.show()

# %%
# A selector that takes a number of features has a short form. `"cv"` means five folds and the rule "best".

selector = daskfs.FGM(n_features_to_select="cv").fit(X, y)
print(selector.result_.notes[0])
