"""
Groups of columns
=================

A category becomes several dummies, one for each level. Selecting single dummies splits a category. With
`feature_groups="schema"` all features of a source column are selected together or not at all.
"""

# %%
# The simulated survey has eight categories and four numbers. The income depends on the town, the job and the age.

import tempfile

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd

import daskfs

rng = np.random.default_rng(0)
n_samples = 3000
people = pd.DataFrame({f"question {k}": rng.choice(list("abcde"), n_samples) for k in range(6)})
people["town"] = rng.choice(["Bath", "Cork", "Deal", "Ely", "Fife", "Hove"], n_samples)
people["job"] = rng.choice(["cook", "driver", "nurse", "teacher"], n_samples)
for name in ("age", "height", "weight", "siblings"):
    people[name] = rng.normal(50, 10, n_samples)
of_town = dict(zip(["Bath", "Cork", "Deal", "Ely", "Fife", "Hove"], [3.0, -1.0, 0.0, 1.0, -2.0, 0.5], strict=True))
of_job = {"cook": -1.0, "driver": -0.5, "nurse": 0.5, "teacher": 1.0}
people["income"] = people["town"].map(of_town) + people["job"].map(of_job) + 0.05 * people["age"]
people["income"] += rng.normal(0, 2, n_samples)

# %%
# `ingest` encodes the table, and the store remembers which features came from which column.

folder = tempfile.TemporaryDirectory()
store = daskfs.ingest(people, f"{folder.name}/people.zarr", target="income")
selector = daskfs.FGM(3, feature_groups="schema").fit(store)
print(selector.group_names_.tolist())

# %%
# Three groups are selected, with one coefficient for each level.

axes = selector.result_.plot(kind="coefficients")
axes.set_title("Coefficients of three groups")
plt.show()
folder.cleanup()
