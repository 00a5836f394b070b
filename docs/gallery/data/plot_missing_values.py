"""
Missing values
==============

By default a selector refuses missing values and names their rows and columns. With `schema="judge"` a missing number
becomes the mean of its column. A second feature marks the rows where it was missing, because this may carry
information about the target.
"""

# %%
# In this simulated survey people with a high debt often leave their income blank. Heights are missing by chance.

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd

import daskfs

rng = np.random.default_rng(0)
n_samples = 2000
people = pd.DataFrame({f"answer {k}": rng.standard_normal(n_samples) for k in range(10)})
people["income"] = rng.normal(40, 10, n_samples)
people["height"] = rng.normal(170, 8, n_samples)
people["region"] = rng.choice(["north", "south", None], n_samples, p=[0.45, 0.45, 0.1])
debt = 10 - 0.1 * people["income"] + 0.5 * people["answer 3"] + rng.standard_normal(n_samples)
people.loc[rng.random(n_samples) < 1 / (1 + np.exp(8 - debt)), "income"] = np.nan
people.loc[rng.random(n_samples) < 0.2, "height"] = np.nan
print(people.isna().sum()[["income", "height", "region"]].to_dict())

# %%
# The selection has the income and the mark of a missing income, but not that of a missing height.

selector = daskfs.FGM(3, schema="judge").fit(people, debt)
print(selector.get_feature_names_out().tolist())

# %%
# New rows are treated in the same way.

new = pd.DataFrame({"income": [20.0, 60.0, np.nan], "answer 3": [0.0, 0.0, 0.0]})
print(selector.predict(new).round(2))

# %%
# The mean debt shows why the mark is useful: people without an income in the table owe more than the others.

axes = selector.result_.plot(kind="scores")
axes.set_title("Scores of the selected features")
fig, axes = plt.subplots(figsize=(6, 3.5), layout="constrained")
for is_missing, label in ((False, "income given"), (True, "income missing")):
    axes.hist(debt[people["income"].isna() == is_missing], 30, density=True, alpha=0.6, label=label)
axes.legend()
axes.set(xlabel="debt", ylabel="density", title="Debt by whether the income is missing")
plt.show()
