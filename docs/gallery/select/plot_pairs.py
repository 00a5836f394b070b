"""
Pairs: features that act only together
======================================

The effect of a drug may depend on a gene, and neither may have an effect alone. A ranking of single columns misses
both. With `feature_map="pairs"` FGM scores squares and products of columns. They are computed while they are scored,
and never stored.
"""

# %%
# The target depends on two products. No column alone is correlated with it. The 300 columns have 45,150 squares and
# products.

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd

import daskfs

rng = np.random.default_rng(0)
names = ["dose", "gene", "age", "weight"] + [f"noise {k}" for k in range(296)]
X = pd.DataFrame(rng.standard_normal((2000, 300)), columns=names)
y = X["dose"] * X["gene"] + 0.7 * X["age"] * X["weight"] + rng.standard_normal(2000)

single = daskfs.FGM(2).fit(X, y)
pairs = daskfs.FGM(2, feature_map="pairs").fit(X, y)
print("single columns:", single.get_feature_names_out().tolist(), f"R² {single.score(X, y):.2f}")
print("with pairs:", pairs.get_feature_names_out().tolist(), f"R² {pairs.score(X, y):.2f}")

# %%
# The table of the result compares each product with its columns. A score is a squared correlation with the target.

table = pairs.result_.table
print(table[["name", "first_score", "parent_1_score", "parent_2_score"]].round(4).to_string(index=False))

# %%
# Seen from above, the product is plain: the target is high in two opposite corners.

fig, axes = plt.subplots(figsize=(5.5, 4.5), layout="constrained")
points = axes.scatter(X["dose"], X["gene"], c=y, s=12, cmap="RdBu_r", vmin=-3, vmax=3)
axes.set(xlabel="dose", ylabel="gene", title="The target over dose and gene")
fig.colorbar(points, label="target", extend="both")
plt.show()
