# %% [markdown]
# # What moves the power of a household?
#
# Four years of a household near Paris, by the hour (UCI 235). Dates become dummies, MESSAGE votes over subsets of the rows.
# `DASKFS_DATA` names the folder that holds `power_hourly/clean_household_power_consumption.csv.gz`.

# %%
import os
from pathlib import Path

import daskfs
from daskfs.pipeline.drafting import draft

table = Path(os.environ["DASKFS_DATA"]) / "power_hourly" / "clean_household_power_consumption.csv.gz"
drafted = draft(table, "Global_active_power")  # what `daskfs init` does
print(drafted.to_text())

# %% [markdown]
# It warns: the intensity of the current is the power in another unit. In the table schema that was written that column gets
# another role; with a text editor or, here, in two lines.

# %%
schema = drafted.schema.read_text()
drafted.schema.write_text(schema.replace("  Global_intensity: {", "  Global_intensity: {role: ignore, "))
store = daskfs.ingest(table, "power.zarr", schema=drafted.schema)
store.shape

# %%
selector = daskfs.Message(n_subsets=20).fit(store)
selector.result_.table[["name", "coef", "score"]].head(12)

# %% [markdown]
# ## Votes
#
# How many of the 20 subsets chose a feature: near one half the data leave open whether it matters.

# %%
scores = selector.result_.table["score"]
print(f"{len(scores)} features, {(scores == 1).sum()} of them chosen by every subset")
