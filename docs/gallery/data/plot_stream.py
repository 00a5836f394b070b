"""
A stream: rows that are read once
=================================

`Mission` learns from rows as they arrive, in constant memory. The rows may come from a generator that never ends.
"""

# %%
# Clicks on advertisements: each row names five of a million possible features. Eight of them raise or lower the chance
# of a click.

import matplotlib.pyplot as plt
import numpy as np
import scipy.sparse

import daskfs

n_features, n_batch = 1_000_000, 2000
true = np.arange(8) * 1000 + 17
effects = np.array([2.5, -2.5, 2.0, -2.0, 2.0, -2.0, 1.5, -1.5])


def clicks(n_batches, seed=0):
    """Yield batches of rows and targets."""
    rng = np.random.default_rng(seed)
    for _ in range(n_batches):
        columns = rng.integers(0, n_features, (n_batch, 5))
        columns[:, 0] = rng.choice(true, n_batch)
        columns[:, 1] = rng.integers(0, 5000, n_batch)
        rows = np.repeat(np.arange(n_batch), 5)
        X = scipy.sparse.csr_array((np.ones(5 * n_batch), (rows, columns.ravel())), (n_batch, n_features))
        chance = 1 / (1 + np.exp(-(X[:, true] @ effects)))
        yield X, np.where(rng.random(n_batch) < chance, "click", "no click")


# %%
# `fit_blocks` takes the stream. `partial_fit` goes on with rows that arrive later. The default learning rate would be
# about 0.8 here. A smaller one gives less weight to features that occur in very few rows.

selector = daskfs.Mission(8, loss="logistic", learning_rate=0.5).fit_blocks(clicks(20))
print("after 40,000 rows:", np.sort(selector.selected_))
for X, y in clicks(5, seed=1):
    selector.partial_fit(X, y)
print("after 50,000 rows:", np.sort(selector.selected_))

# %%
# Each batch is predicted before it is learnt from. Its loss is an honest measure of the model so far.

axes = selector.result_.plot(kind="history")
axes.set(xscale="log", title="Mean loss of rows before they are learnt from")
plt.show()
