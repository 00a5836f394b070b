"""
A Dask cluster
==============

With `client=` the work of a selector runs on a Dask cluster. `open_cluster` starts one and closes it at the end. The
result does not depend on the number of workers.
"""

# %%
# MESSAGE splits the rows into subsets, which can be worked on at the same time.

import matplotlib.pyplot as plt
import numpy as np

import daskfs

rng = np.random.default_rng(0)
X = rng.standard_normal((20_000, 100), dtype=np.float32)
y = X[:, :5] @ [1.0, -1.0, 0.5, 0.5, 0.2] + rng.standard_normal(20_000)
here = daskfs.Message(n_subsets=9).fit(X, y)

# %%
# These workers are threads of this process. `"local"` starts processes, `"slurm"` and other names start jobs of a batch
# system, and `"address"` uses a scheduler that is running.

with daskfs.open_cluster("threads", n_workers=4) as cluster:
    there = daskfs.Message(n_subsets=9, client=cluster.client).fit(X, y)

print("the same features:", np.array_equal(here.selected_, there.selected_))
print("the same bits:", np.array_equal(here.coef_, there.coef_))

# %%
# The scores are inclusion frequencies: the share of subsets that select a feature. More than half is needed.

axes = there.result_.plot(kind="scores")
plt.show()
