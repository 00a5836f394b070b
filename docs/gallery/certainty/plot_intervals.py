"""
Refits and intervals: how large are the effects?
================================================

Selection favours features whose coefficients came out too large by chance, so the coefficients of selected features are
too large on average. A refit on the same rows does not change this. `SplitInference` selects on some rows and estimates
on the others, so its intervals are valid.
"""

# %%
# Four of the 500 columns have an effect. We ask for ten, so at least six are noise.

import matplotlib.pyplot as plt
import numpy as np

import daskfs

rng = np.random.default_rng(3)
X = rng.standard_normal((400, 500))
effects = np.zeros(500)
effects[:4] = [0.8, -0.6, 0.4, 0.3]
y = X @ effects + rng.standard_normal(400)

# %%
# `refit="ols"` estimates the selected features without a penalty, on the rows that selected them. `refit="ridge"`
# shrinks them by an amount that the data choose.

selectors = {name: daskfs.FGM(10, refit=name) for name in ("ols", "ridge")}
selectors["split"] = daskfs.SplitInference(daskfs.FGM(10), level=0.95)
tables = {name: selector.fit(X, y).result_.table for name, selector in selectors.items()}
print(tables["split"][["name", "coef", "std_error", "lower", "upper"]].round(2).to_string(index=False))

# %%
# The refits give the columns of noise coefficients of about 0.1. The intervals of the split are wide, because only half
# of the rows estimate, but they cover the truth about 95 times in a hundred.

fig, both = plt.subplots(1, 2, figsize=(10.5, 4), layout="constrained", sharey=True)
for name, colour, shift in (("ols", "tab:orange", -0.15), ("ridge", "tab:green", 0.15)):
    both[0].plot(np.arange(10) + shift, tables[name]["coef"], "o", color=colour, label=f'refit="{name}"')
both[0].set(title="Refits on the rows that selected", ylabel="coefficient")
split = tables["split"]
half = split["upper"] - split["coef"]
both[1].errorbar(range(10), split["coef"], half, fmt="o", capsize=3, label="estimate, 95 % interval")
both[1].set_title("Selected on half of the rows, estimated on the rest")
for axes, table in zip(both, (tables["ols"], split), strict=True):
    axes.plot(range(10), effects[table["index"]], "_", color="tab:red", markersize=14, label="truth")
    axes.set_xticks(range(10), table["name"], rotation=60)
    axes.axhline(0, color="0.7", linewidth=1, zorder=0)
    axes.legend()
plt.show()
