"""
Watching a fit on Dask's dashboard
==================================

On a cluster each fit has a page on Dask's dashboard. It shows the step with its time left, the objective, the features
selected so far, the speed of reading, and the memory of each worker.

.. image:: /dashboard.png
   :alt: The page of a run: its objective, its speed, the memory of the workers, the selected features
"""

# %%
# `open_cluster` starts the dashboard on a free port of this machine. `verbose=True` sends the progress there, and
# prints the address: open it in a browser while the fit runs. The address contains a random password, so keep it to
# yourself.

from urllib.request import urlopen

import matplotlib.pyplot as plt
import numpy as np

import daskfs

rng = np.random.default_rng(0)
X = rng.standard_normal((20_000, 400), dtype=np.float32)
y = X[:, :40] @ np.linspace(1, 0.1, 40) + rng.standard_normal(20_000)

with daskfs.open_cluster("threads", n_workers=2) as cluster:
    pages = cluster.client.dashboard_link  # http://127.0.0.1:PORT/PASSWORD/status: Dask's own page
    selector = daskfs.FGM(40, client=cluster.client, verbose=True).fit(X, y)
    with urlopen(pages.replace("/status", "/daskfs")) as page:  # the page of daskfs
        print("answer of the page:", page.status)

# %%
# The result keeps the curve of the page: the objective after each pass.

selector.result_.plot(kind="history")
plt.show()

# %%
# Without a browser, `daskfs watch FOLDER` shows the progress of a run in a terminal.
