# %% [markdown]
# # Columns that matter only together
#
# madelon: 500 columns, 20 of which hold a pattern like "exclusive or" (their numbers are known). Column by column they say nothing;
# FGM scores all 125,750 squares and products, which are never stored. `DASKFS_DATA` names the folder that holds
# `madelon/madelon.mat`.

# %%
import os
from pathlib import Path

import numpy as np
from scipy.io import loadmat

import daskfs
from daskfs.feature_maps import Polynomial

data = loadmat(Path(os.environ["DASKFS_DATA"]) / "madelon" / "madelon.mat")
X, y = data["X"].astype(np.float32), data["Y"].ravel()
known = {28, 48, 64, 105, 128, 153, 241, 281, 318, 336, 338, 378, 433, 442, 451, 453, 455, 472, 475, 493}


# %%
def right(selector) -> str:
    columns = np.flatnonzero(selector.support_)
    return f"{len(known & set(columns.tolist()))} of {len(columns)} columns are known ones"


print("columns: ", right(daskfs.FGM(20).fit(X, y)))
selector = daskfs.FGM(30, feature_map=Polynomial(gamma=1.0, r=1.0)).fit(X, y)
print("products:", right(selector))

# %%
selector.result_.table[["name", "coef", "score"]].head(8)
