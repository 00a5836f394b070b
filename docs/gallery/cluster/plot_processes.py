"""
Worker processes, and the guard that a script needs
===================================================

Worker processes import the main script when they start. A script that starts them must therefore keep its work behind
`if __name__ == "__main__":`. Otherwise each worker tries to start a cluster of its own, and the script ends with an
error. A notebook needs no guard, and neither do threads.
"""

# %%
# Functions and classes stand outside of the guard, so that workers can import them.

import matplotlib.pyplot as plt
import numpy as np

import daskfs


def simulated():
    """Return 5,000 rows, and a target that depends on four of 200 columns."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((5000, 200), dtype=np.float32)
    return X, X[:, [3, 50, 101, 180]] @ [1.0, -0.7, 0.5, 0.3] + rng.standard_normal(5000)


def fit_on_processes(X, y):
    """Fit on two worker processes with a memory limit of 1 GiB each."""
    with daskfs.open_cluster("local", n_workers=2, memory_limit=2**30) as cluster:
        return daskfs.FGM(4, client=cluster.client).fit(X, y)


# %%
# All work is behind the guard.

if __name__ == "__main__":
    selector = fit_on_processes(*simulated())
    print(selector.get_feature_names_out())
    selector.result_.plot(kind="coefficients")
    plt.show()
