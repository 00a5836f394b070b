# %% [markdown]
# # Which genes tell two leukaemias apart?
#
# 72 patients, 7,129 genes, ALL or AML (Golub et al. 1999). Far more columns than rows: online substitution holds ten of them
# while all pass by, FGM adds a few with each pass. The folder of the data is named by `DASKFS_DATA`; in it
# `gene_golub/gene_golub.npz` holds `X`, `y` and `names`.

# %%
import os
from pathlib import Path

import numpy as np
import pandas as pd
from sklearn.model_selection import StratifiedKFold, cross_val_score
from sklearn.pipeline import make_pipeline

import daskfs

data = np.load(Path(os.environ["DASKFS_DATA"]) / "gene_golub" / "gene_golub.npz")
X = pd.DataFrame(data["X"], columns=data["names"] if "names" in data else None)
X.columns = X.columns.map(str)
X = X.loc[:, ~X.columns.duplicated()]
y = data["y"]
X.shape, pd.Series(y).value_counts().to_dict()

# %% [markdown]
# ## Two selectors, ten genes each

# %%
by_substitution = daskfs.OnlineSubstitution(10).fit(X, y)
by_fgm = daskfs.FGM(10).fit(X, y)
both = set(by_substitution.get_feature_names_out()) & set(by_fgm.get_feature_names_out())
print(f"{len(both)} genes are selected by both: {sorted(both)}")

# %%
by_fgm.result_.table[["name", "coef", "score"]]

# %% [markdown]
# ## How good is that on patients nobody has seen?
#
# The selection is part of what is cross-validated: genes chosen on all patients would know the test rows.

# %%
folds = StratifiedKFold(5, shuffle=True, random_state=0)
for selector in (daskfs.OnlineSubstitution(10), daskfs.FGM(10)):
    accuracy = cross_val_score(make_pipeline(selector), X, y, cv=folds)
    print(f"{type(selector).__name__}: {accuracy.mean():.3f} ± {accuracy.std() / len(accuracy) ** 0.5:.3f}")
