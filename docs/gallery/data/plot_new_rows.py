"""
Apply a result to new rows
==========================

A finished run keeps how raw columns became features, and the fit on the selected ones. `daskfs.load` applies this to
new rows. They need only the columns of the selected features.
"""

# %%
# The table has numbers and a category. A run starts from a description, as in a YAML file for `daskfs run`.

import tempfile
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd

import daskfs
from daskfs.pipeline.config import build_pipeline
from daskfs.pipeline.run import run_pipeline

rng = np.random.default_rng(0)
n_samples = 2500
homes = pd.DataFrame({f"distance {k}": rng.exponential(5, n_samples).round(2) for k in range(8)})
homes["area"] = rng.normal(90, 25, n_samples).round()
homes["heating"] = rng.choice(["gas", "oil", "pump"], n_samples)
per_heating = homes["heating"].map({"gas": 0.0, "oil": -15.0, "pump": 25.0})
homes["rent"] = 200 + 9 * homes["area"] + per_heating - 6 * homes["distance 2"] + rng.normal(0, 20, n_samples)

folder = tempfile.TemporaryDirectory()
homes[:2000].to_csv(Path(folder.name) / "homes.csv", index=False)
source = {"kind": "csv", "path": "homes.csv", "target": "rent"}
document = {"version": 1, "name": "homes", "source": source, "select": {"method": "fgm", "n_features_to_select": 4}}
run = run_pipeline(build_pipeline(document, "homes", Path(folder.name)))

# %%
# The model has the selected features, most important first.

model = daskfs.load(run.folder)
print(model.ranking)

# %%
# The new rows are given without the other columns, and in another order.

new = homes.loc[2000:, ["heating", "distance 2", "area"]]
print(model.transform(new).head(3).round(1))
predicted, rent = model.predict(new), homes.loc[2000:, "rent"]

# %%
# The predictions agree with the rents, which the model has not seen.

fig, axes = plt.subplots(figsize=(4.8, 4.5), layout="constrained")
axes.plot(predicted, rent, ".", markersize=4)
axes.axline((1000, 1000), slope=1, color="0.4", linestyle="--")
axes.set(xlabel="predicted rent", ylabel="rent", title="New rows", aspect="equal")
plt.show()
folder.cleanup()
