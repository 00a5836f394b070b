"""
Covariates that are always included
===================================

Age and sex belong in many models, whatever the selection says. `always_include` keeps such columns in the model. The
other features are then selected for what the covariates leave unexplained.
"""

# %%
# In this simulated study the blood pressure rises with age. Forty of the 200 markers follow age as well, but only
# markers 0, 1 and 2 have an effect of their own.

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd

import daskfs

rng = np.random.default_rng(0)
n_samples = 800
age = rng.uniform(30, 80, n_samples)
markers = rng.standard_normal((n_samples, 200))
markers[:, 20:60] += ((age - 55) / 12)[:, np.newaxis]
pressure = 100 + 0.6 * age + markers[:, :3] @ [2.5, 2.0, 2.0] + rng.normal(0, 6, n_samples)
X = pd.DataFrame(markers, columns=[f"marker {k}" for k in range(200)])

# %%
# Without age, markers that follow age stand in for it. With age in the model, the three true markers remain. Covariates
# count among the features to select, so we ask for four.

alone = daskfs.OnlineSubstitution(4).fit(X, pressure)
X.insert(0, "age", age)
adjusted = daskfs.OnlineSubstitution(4, always_include=["age"]).fit(X, pressure)
print("without age:", alone.get_feature_names_out().tolist())
print("with age:   ", adjusted.get_feature_names_out().tolist())

# %%
# The picture shows the reason. A marker that follows age is correlated with the pressure, until age is taken out.

rest = pressure - np.polyval(np.polyfit(age, pressure, 1), age)
fig, both = plt.subplots(1, 2, figsize=(9, 3.6), layout="constrained", sharey=True)
for axes, target, title in zip(both, (pressure, rest), ("with the pressure", "with what age leaves"), strict=True):
    correlation = np.abs([np.corrcoef(marker, target)[0, 1] for marker in markers.T])
    axes.bar(range(3), correlation[:3], width=1, color="tab:red", label="markers with an effect")
    axes.bar(range(20, 60), correlation[20:60], width=1, color="tab:orange", label="markers that follow age")
    axes.bar(range(60, 200), correlation[60:], width=1, color="0.6")
    axes.bar(range(3, 20), correlation[3:20], width=1, color="0.6")
    axes.set(xlabel="marker", title=f"Correlation {title}")
both[0].set_ylabel("absolute correlation")
both[0].legend()
plt.show()
