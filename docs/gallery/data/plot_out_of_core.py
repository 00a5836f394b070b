"""
A CSV file that does not fit in memory
======================================

`ingest` reads a file in pieces and writes a feature store: a folder of compressed tiles on disk. Selectors read the
store in blocks, within a memory limit. Only the input changes; the rest is as with a data frame.
"""

# %%
# This file is small enough for a gallery, about 20 MB. The steps are the same for 200 GB.

import tempfile
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd

import daskfs

folder = tempfile.TemporaryDirectory()
table = Path(folder.name) / "flights.csv"
rng = np.random.default_rng(0)
n_samples, names = 60_000, [f"x{j}" for j in range(50)]
for start in range(0, n_samples, 10_000):
    part = pd.DataFrame(rng.standard_normal((10_000, 50)).round(3), columns=names)
    part["delay"] = part[["x3", "x7", "x20"]] @ [2.0, -1.0, 0.5] + rng.standard_normal(10_000).round(3)
    part.to_csv(table, index=False, mode="a", header=start == 0)

# %%
# Both steps stay within the memory limit.

store = daskfs.ingest(table, Path(folder.name) / "flights.zarr", target="delay", memory_limit="64MiB")
selector = daskfs.OnlineSubstitution(3, memory_limit="64MiB").fit(store)
print(store)
print(selector.get_feature_names_out().tolist())
folder.cleanup()

# %%
# `plan` says how much memory a fit needs, without any data. Here are plans for tables of 100,000 rows. The table grows
# with its columns; the memory of the fits hardly does.

n_columns = 10 ** np.arange(2, 7)
fig, axes = plt.subplots(figsize=(6.5, 4), layout="constrained")
axes.plot(n_columns, 100_000 * n_columns * 4 / 2**20, "k--", label="the table (float32)")
for selector in (daskfs.OnlineSubstitution(20), daskfs.FGM(20), daskfs.Mission(20)):
    plans = [selector.plan(100_000, int(n), "float32", memory_limit=2**30) for n in n_columns]
    needed = [max(plan.task_nbytes, plan.client_nbytes) / 2**20 for plan in plans]
    axes.plot(n_columns, needed, marker="o", label=type(selector).__name__)
axes.set(xscale="log", yscale="log", xlabel="columns", ylabel="MiB", title="Memory of a fit, as planned")
axes.legend()
plt.show()
