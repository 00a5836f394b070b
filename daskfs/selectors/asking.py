"""What is asked of a fit afterwards, of rows like its own."""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import numpy as np

from daskfs.errors import ConfigError
from daskfs.losses import find_loss
from daskfs.selectors.inputs import seed_of
from daskfs.selectors.opening import Opens
from daskfs.selectors.shared.run import Run
from daskfs.selectors.shared.signal_beyond import SignalBeyond, signal_beyond
from daskfs.selectors.shared.stand_ins import bundles, find_stand_ins

if TYPE_CHECKING:
    import pandas as pd


class Asked(Opens):
    """Says what could stand in for the selected features, and what they leave unexplained."""

    def stand_ins(self, X: Any, y: Any = None, sample_weight: Any = None, *, n_stand_ins: int = 3) -> pd.DataFrame:
        """Return which columns could take the selected ones' places, and what the loss would lose by it.

        Of bundles of columns that say nearly the same, one is selected, and with other rows it could be another: these
        are its stand-ins. All columns are read once. With the squared loss the numbers are exact, with others those of
        the parabola at the fit.

        Parameters
        ----------
        X, y, sample_weight : as in `fit`
        n_stand_ins : int
            Of each selected column, those that lose least.

        Returns
        -------
        DataFrame
            A line for each pair, in the order of `selected_`: ``feature``, ``stand_in`` and ``index``, its column
            number; their ``correlation``; ``loss_increase``, of the mean loss of a fit with the stand-in in the
            feature's place; ``share_lost``, of what the feature contributes beside the others: 0 where the stand-in is
            as good, below where it is better, 1 where leaving the feature out is no worse; ``bundle``, a number that
            features share which are alike (correlation .9) or have a stand-in in common to which they are.

        Raises
        ------
        ConfigError
            The features are made by a map.

        Examples
        --------
        >>> import numpy as np
        >>> from daskfs import FGM
        >>> rng = np.random.default_rng(0)
        >>> X = rng.standard_normal((1000, 5))
        >>> X[:, 4] = X[:, 1] + 0.1 * rng.standard_normal(1000)
        >>> y = X[:, 1] + rng.standard_normal(1000)
        >>> print(FGM(1).fit(X, y).stand_ins(X, y, n_stand_ins=1).round(2).to_string(index=False))
        feature stand_in  index  correlation  loss_increase  share_lost  bundle
             x4       x1      1          1.0            0.0         0.0       1
        """
        from pandas import DataFrame

        self._check_is_fitted()
        if self.made_ is not None:
            raise ConfigError("no stand-ins of features that a map makes", "stand_ins", "fit without the map")
        columns = np.sort(self.selected_).astype(np.int64)
        with self._looked_at(X, y, sample_weight) as run:
            found = find_stand_ins(run, columns, self.loss_, n_stand_ins)
            names = [str(name) for name in run.matrix.names[columns]]
            swaps, dropped = found.swaps, found.dropped
            others = [[str(run.matrix.names[int(j)]) if j >= 0 else "" for j in line] for line in swaps.candidate]
        bundle, lines = bundles(columns, found), []
        for k in np.searchsorted(columns, self.selected_):
            of_each = zip(others[k], swaps.candidate[k], swaps.correlation[k], swaps.increase[k], strict=True)
            for stand_in, j, correlation, increase in of_each:
                share = increase / dropped[k] if dropped[k] > 0.0 else math.nan
                lines.append((names[k], stand_in, int(j), correlation, increase, share, int(bundle[k])))
        heads = ("feature", "stand_in", "index", "correlation", "loss_increase", "share_lost", "bundle")
        table = DataFrame(lines, columns=list(heads))
        return table[table["index"] >= 0].reset_index(drop=True)

    def signal_beyond(self, X: Any, y: Any = None, sample_weight: Any = None) -> SignalBeyond:
        """Return how much all columns together explain beyond the selected ones: whether many weak ones carry signal.

        By a ridge on all columns (their Gram matrix, of many columns a random projection of them), cross-validated on
        up to 2,000 rows; all columns of these are read once.

        Parameters
        ----------
        X, y, sample_weight : as in `fit`

        Returns
        -------
        SignalBeyond
            ``selected`` and ``beyond``, shares of the target's variance, with an interval; printed, it says what it
            means.

        Raises
        ------
        ConfigError
            The features are made by a map.
        """
        self._check_is_fitted()
        if self.made_ is not None:
            raise ConfigError("not known of features that a map makes", "signal_beyond", "fit without the map")
        with self._looked_at(X, y, sample_weight) as run:
            columns, seed = np.sort(self.selected_).astype(np.int64), seed_of(self.random_state)
            return signal_beyond(run, columns, find_loss(self.loss_).is_classifier, seed)

    @contextmanager
    def _looked_at(self, X: Any, y: Any, sample_weight: Any) -> Iterator[Run]:
        """Give rows like those of the fit as a run."""
        loss, labels = self.loss_, getattr(self, "classes_", None)
        with self._opened(X, y, sample_weight, labels, is_first=False) as (matrix, _), self._run(matrix) as run:
            self.loss_ = loss
            yield run
