# %% [markdown]
# # Which variants go with a trait?
#
# 1,814 mice, 10,346 variants, HDL cholesterol (BGLR's data). Dosages stay one byte each, of the columns only those that are
# selected are held. `DASKFS_DATA` names the folder that holds `geno_mice_bglr/geno_mice_bglr.npz`.

# %%
import os
from pathlib import Path

import numpy as np
import pandas as pd

import daskfs

data = np.load(Path(os.environ["DASKFS_DATA"]) / "geno_mice_bglr" / "geno_mice_bglr.npz")
trait = next(i for i, name in enumerate(data["ynames"]) if "HDL" in str(name))
y = data["Y"] if data["Y"].ndim == 1 else data["Y"][:, trait]
measured = np.isfinite(y)
X, y, names = data["X"][measured], y[measured], data["names"].astype(str)
X.shape, X.dtype, str(data["ynames"][trait])

# %%
rng = np.random.default_rng(0)
test = rng.permutation(len(y)) < len(y) // 5
store = daskfs.ingest(X[~test], "mice.zarr", y=y[~test], names=names, dtype="int8")
selector = daskfs.OnlineSubstitution(30).fit(store)
selector.result_.table[["name", "coef", "score"]].head(8)

# %%
explained = np.corrcoef(selector.predict(pd.DataFrame(X[test], columns=names)), y[test])[0, 1] ** 2
print(f"on the mice held out the 30 variants explain {explained:.0%} of the variance")
