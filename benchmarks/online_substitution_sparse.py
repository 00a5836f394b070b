"""Online substitution on the n-grams of film reviews: columns judged by their entries against columns laid down.

    DASKFS_DATA=... python benchmarks/online_substitution_sparse.py [--rows 1600] [--n-selected 30 100]

CPU seconds of one fit, kernels compiled before; FGM's beside them. Ends with 1 where the two selections differ.
"""

from __future__ import annotations

import argparse
import sys
import time
from typing import Any

import numpy as np
from open_sets import loader
from sklearn.feature_extraction.text import TfidfVectorizer

from daskfs import FGM, OnlineSubstitution
from daskfs.selectors.online_substitution.stream import SubstitutionStream


def seconds(selector: Any, X: Any, y: np.ndarray) -> float:
    """Return the CPU seconds of a fit; a small one compiles its kernels first."""
    selector.fit(X[:, :500], y)
    started = time.process_time()
    selector.fit(X, y)
    return time.process_time() - started


def main(argv: list[str] | None = None) -> int:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, default=1600)
    parser.add_argument("--n-selected", nargs="+", type=int, default=[30, 100])
    arguments = parser.parse_args(argv)
    texts, y, _ = loader().load("text_rtpolarity")
    rows = np.random.default_rng(0).permutation(len(y))[: arguments.rows]
    X = TfidfVectorizer(ngram_range=(1, 3)).fit_transform([texts[i] for i in rows]).tocsc()
    print(
        f"{X.shape[0]:,} x {X.shape[1]:,}, {X.nnz:,} entries\n| loss | s | entries | laid down | FGM |\n|{'---|' * 5}"
    )
    differ = False
    for loss in ("squared", "logistic"):
        for s in arguments.n_selected:
            judged, laid_down = (OnlineSubstitution(s, loss=loss) for _ in range(2))
            spent = [seconds(judged, X, y[rows])]
            SubstitutionStream._verdicts, kept = (lambda *_: None), SubstitutionStream._verdicts  # type: ignore
            spent.append(seconds(laid_down, X, y[rows]))
            SubstitutionStream._verdicts = kept  # type: ignore[method-assign]
            spent.append(seconds(FGM(s), X, y[rows]))
            print(f"| {loss} | {s} | {' | '.join(f'{value:.2f}' for value in spent)} |", flush=True)
            differ |= not np.array_equal(judged.coef_, laid_down.coef_)
    return int(differ)


if __name__ == "__main__":
    sys.exit(main())
