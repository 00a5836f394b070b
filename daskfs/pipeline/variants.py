"""Selected variants in their surroundings: marginal tests, clumps, and the pictures of a report.

One pass over windows around the selected variants suffices; other variants are not read.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from daskfs.errors import ConfigError
from daskfs.evidence import LocusRecord, ManhattanRecord
from daskfs.losses import find_loss
from daskfs.matrix.base import Matrix
from daskfs.pipeline.windows import TOL, Null, Part, tested_variants
from daskfs.result import SelectionResult
from daskfs.selectors.base import BaseSelector
from daskfs.selectors.inputs import columns_of
from daskfs.selectors.shared.responses import sigmoid
from daskfs.selectors.shared.run import Run

if TYPE_CHECKING:
    import pandas as pd

    from daskfs.cluster.workers import Workers
    from daskfs.watching.base import Progress

TASK_COLUMNS = 64
"""Number of variants of one task."""
ANNOTATED_TOGETHER = 1 << 17
MOST_LOCI, POINTS_OF_LOCUS, POINTS = 10, 150, 1000
"""Number of loci that are drawn, of points of each, and of points of the Manhattan plot."""
CELLS = 400, 60
"""Cells of the Manhattan plot along and up; of each only the highest point is kept."""
LONGEST = 2**40
"""Above all positions on a chromosome, and windows."""
NO_CHROMOSOME = ("", "0")
MOST_STEPS = 50


def null_of(selector: BaseSelector, matrix: Matrix) -> Null | None:
    """Return the model of the target without variants; None if there is no single number to explain for each row."""
    y, n_samples = matrix.read_target(), matrix.shape[0]
    is_classifier = find_loss(selector.loss_).is_classifier
    if y is None or y.ndim > 1 or matrix.read_weight() is not None or (is_classifier and len(np.unique(y)) != 2):
        return None
    asked = [value for name, value in selector.get_params().items() if name.split("__")[-1] == "always_include"]
    always = next((value for value in asked if value is not None), None)
    columns = columns_of(always, matrix.shape[1], matrix.names, "always_include")
    C = matrix.read(slice(None), np.sort(columns)).astype(np.float64)
    C -= C.mean(axis=0)
    C /= np.where(scale := np.abs(C).max(axis=0, initial=0.0), scale, 1.0)
    basis = _basis(np.column_stack([np.ones(n_samples), C]))
    if not is_classifier:
        residual = y - basis @ (basis.T @ y)
        n_free = n_samples - basis.shape[1] - 1
        return Null(residual, np.ones(n_samples), basis, n_free) if n_free > 0 else None
    is_case, b = (y == y.max()).astype(np.float64), np.zeros(basis.shape[1])
    for _ in range(MOST_STEPS):
        p = sigmoid(basis @ b)
        root = np.sqrt(p * (1.0 - p))
        step = np.linalg.lstsq(root[:, None] * basis, (is_case - p) / np.maximum(root, TOL), rcond=None)[0]
        b += step
        if np.abs(step).max() <= TOL * max(1.0, np.abs(b).max()):
            p = sigmoid(basis @ b)
            root = np.sqrt(p * (1.0 - p))
            return Null(is_case - p, root, _basis(root[:, None] * basis), None)
    return None  # the covariates separate the classes


def _basis(columns: np.ndarray) -> np.ndarray:
    """Return an orthonormal basis of the columns' span."""
    left, size, _ = np.linalg.svd(columns, full_matrices=False)
    return left[:, size > TOL * size.max()]


class Places:
    """Chromosomes and positions of all variants, sorted.

    Attributes
    ----------
    chromosomes : list of str
        In their natural order.
    code : ndarray of shape (n_features,)
        Index of the chromosome of each column; -1 without a position.
    position : ndarray of shape (n_features,), int64
    order : ndarray
        Columns with a position, along the genome.
    """

    def __init__(self, matrix: Matrix) -> None:
        n_features, seen = matrix.shape[1], dict[str, int]()
        first = np.full(n_features, -1, np.int64)
        self.position = np.full(n_features, -1, np.int64)
        for start in range(0, n_features, ANNOTATED_TOGETHER):
            columns = np.arange(start, min(start + ANNOTATED_TOGETHER, n_features))
            known = matrix.annotations(columns)
            first[columns] = [seen.setdefault(str(one), len(seen)) for one in known["chromosome"]]
            self.position[columns] = known["position"]
        self.chromosomes = sorted((one for one in seen if one not in NO_CHROMOSOME), key=_in_nature)
        rank = np.array([self.chromosomes.index(one) if one not in NO_CHROMOSOME else -1 for one in seen], np.int64)
        self.code = np.where(self.position >= 0, rank[first], -1)
        placed = np.flatnonzero(self.code >= 0)
        self.order = placed[np.lexsort((self.position[placed], self.code[placed]))]
        self._keys = self.key(self.order)

    def key(self, columns: np.ndarray) -> np.ndarray:
        """Return a number for each column, by which windows on one chromosome never reach another."""
        return self.code[columns] * 4 * LONGEST + self.position[columns]

    def parts(self, variants: np.ndarray, window_bp: int | None) -> list[Part]:
        """Return the tasks that test selected variants and what is in their windows, each variant once."""
        is_alone = np.full(len(variants), True) if window_bp is None else self.code[variants] < 0
        alone, none = np.sort(variants[is_alone]), np.empty(0, np.int64)
        found = [Part(alone[k : k + TASK_COLUMNS], none) for k in range(0, len(alone), TASK_COLUMNS)]
        placed = variants[~is_alone]
        if window_bp is None or not len(placed):
            return found
        first = np.searchsorted(self._keys, self.key(placed) - window_bp)
        last = np.searchsorted(self._keys, self.key(placed) + window_bp, side="right")
        end = 0
        for k in np.argsort(first, kind="stable").tolist():
            for start in range(max(int(first[k]), end), int(last[k]), TASK_COLUMNS):
                stop = min(start + TASK_COLUMNS, int(last[k]))
                reach = (first < stop) & (last > start)
                found.append(Part(np.sort(self.order[start:stop]), np.sort(placed[reach])))
            end = max(end, int(last[k]))
        return found


def _in_nature(chromosome: str) -> tuple[bool, int, str]:
    """Return the key that sorts chromosomes: 2 before 10, both before X."""
    name = chromosome.removeprefix("chr")
    return not name.isdecimal(), int(name) if name.isdecimal() else 0, name


def has_variants(result: SelectionResult) -> bool:
    """Return whether the features of a result are variants with chromosomes and positions."""
    return {"chromosome", "position", "allele_frequency"} <= set(result.table.columns)


def examine_variants(
    selector: BaseSelector,
    genotypes: Any,
    *,
    window_bp: int | None = 250_000,
    min_r2: float = 0.5,
    workers: Workers | None = None,
    progress: Progress | None = None,
) -> SelectionResult:
    """Add marginal tests, clumps and their pictures to the result of a selector that was fitted to genotypes.

    Parameters
    ----------
    selector : fitted selector
        Its ``result_`` gets the additions.
    genotypes : store or matrix
        The samples of the fit: ``PlinkSource(...).as_matrix()``, a store, or rows of one.
    window_bp : int or None, default=250_000
        Variants at most so many base pairs away may be in the clump of a selected variant. None: only marginal tests.
    min_r2 : float, default=0.5
        Smallest squared correlation with the selected variant in its clump.
    workers, progress : optional
        Dask workers to compute on, and a receiver of progress reports.

    Returns
    -------
    SelectionResult
        ``table`` has in addition

        * ``marginal_coef``, ``marginal_std_error``, ``marginal_p_value``: the effect of a variant without the other
          variants, after the columns of ``always_include``. Linear regression with Student's t; for two classes the
          score test of logistic regression, with its one-step estimate. Absent with several classes or targets, and if
          the covariates separate the classes;
        * ``n_in_clump``: number of other variants in its clump.

        ``clumps`` lists these: ``selected``, ``variant``, ``chromosome``, ``position``, ``r2``, ``marginal_p_value``. A
        variant may be in several clumps. Figures are ``manhattan``, ``locus_1``, ``locus_2``, ...

    Raises
    ------
    ConfigError
        The features are no variants, or an option is out of range.

    Notes
    -----
    r2 is the squared correlation of the dosages as the fit reads them, missing ones filled, on the rows of the fit.

    Examples
    --------
    >>> from daskfs import OnlineSubstitution, examine_variants
    >>> from daskfs.sources.plink import PlinkSource  # doctest: +SKIP
    >>> genotypes = PlinkSource("chr*.bed", phenotypes="pheno.txt").as_matrix()  # doctest: +SKIP
    >>> selector = OnlineSubstitution(20).fit(genotypes)  # doctest: +SKIP
    >>> examine_variants(selector, genotypes, min_r2=0.8).clumps  # doctest: +SKIP
    """
    import pandas as pd

    if window_bp is not None and not 0 <= window_bp < LONGEST:
        raise ConfigError(f"expected a number of base pairs, found {window_bp}", "window_bp", "try 250000")
    if not 0.0 < min_r2 <= 1.0:
        raise ConfigError(f"expected a squared correlation above 0 and at most 1, found {min_r2}", "min_r2", "try 0.5")
    if not has_variants(selector.result_):
        remedy = "fit PlinkSource(...).as_matrix(), or a store made of genotypes"
        raise ConfigError("expected variants with positions, found other features", selector.method, remedy)
    if selector.result_.evidence is None:
        from daskfs.pipeline.examining import examine

        examine(selector, genotypes)
    result: SelectionResult = selector.result_
    chosen = result.table["index"].to_numpy(np.int64)
    is_variant = result.table["allele_frequency"].notna().to_numpy()
    null, places = null_of(selector, genotypes), Places(genotypes)
    parts = places.parts(chosen[is_variant], window_bp)
    n_samples = genotypes.shape[0]
    asked = null or Null(np.zeros(n_samples), np.ones(n_samples), np.empty((n_samples, 0)), None)
    with Run(genotypes, "variants", workers, progress).over(genotypes, by="columns") as run:
        found = run.map("windows", tested_variants, parts, run.keep(asked))
    score, variance = (np.concatenate([np.empty(0), *(one[name] for one in found)]) for name in ("score", "variance"))
    columns = np.concatenate([np.empty(0, np.int64), *(part.columns for part in parts)])
    tested = pd.DataFrame({} if null is None else null.statistics(score, variance), index=columns)
    more: dict[str, Any] = {f"marginal_{name}": tested[name].reindex(chosen).to_numpy() for name in tested}
    loci: list[LocusRecord] = []
    if window_bp is not None:
        pairs = pd.concat([_pairs(part, one["r2"]) for part, one in zip(parts, found, strict=True)] or [_pairs()])
        away = np.abs(places.key(pairs["selected"].to_numpy()) - places.key(pairs["variant"].to_numpy()))
        pairs = pairs[away <= window_bp]
        clumps = pairs[(pairs["r2"] >= min_r2) & (pairs["selected"] != pairs["variant"])]
        counts = clumps["selected"].value_counts().reindex(chosen, fill_value=0).to_numpy()
        more["n_in_clump"] = pd.Series(counts, dtype="Int64").where(is_variant)
        result.clumps = _named(clumps, result, genotypes, places, tested)
        for number, name in zip(chosen[is_variant], result.table["name"][is_variant], strict=True):
            if len(loci) < MOST_LOCI and places.code[number] >= 0:
                loci.append(_locus(str(name), number, pairs[pairs["selected"] == number], places, min_r2))
    result.table = result.table.assign(**more)
    result.time |= {f"variants {step}": seconds for step, seconds in run.seconds.items()}
    assert result.evidence is not None
    result.evidence = replace(result.evidence, manhattan=_manhattan(result, places, tested), loci=loci)
    return result


def _pairs(part: Part | None = None, r2: np.ndarray | None = None) -> pd.DataFrame:
    """Return a line for each variant of a part and each selected variant whose window reaches it."""
    import pandas as pd

    none = np.empty(0, np.int64)
    part, r2 = part or Part(none, none), np.empty((0, 0)) if r2 is None else r2
    selected, variant = np.tile(part.selected, len(part.columns)), np.repeat(part.columns, len(part.selected))
    return pd.DataFrame({"selected": selected, "variant": variant, "r2": r2.ravel()})


def _named(
    clumps: pd.DataFrame, result: SelectionResult, matrix: Matrix, places: Places, tested: pd.DataFrame
) -> pd.DataFrame:
    """Return the clumps with names and positions, in the order of the result's table."""
    import pandas as pd

    rank = pd.Series(result.table["rank"].to_numpy(), index=result.table["index"].to_numpy(np.int64))
    at = clumps["variant"].to_numpy()
    clumps = clumps.assign(
        rank=rank[clumps["selected"]].to_numpy(),
        name=pd.Series([str(name) for name in matrix.names[at]], clumps.index, dtype="str"),
        chromosome=pd.Series([places.chromosomes[k] for k in places.code[at]], clumps.index, dtype="str"),
        position=places.position[at],
        marginal_p_value=tested["p_value"].reindex(at).to_numpy() if "p_value" in tested else np.nan,
    ).sort_values(["rank", "position", "variant"])
    of_rank = result.table.set_index("rank")["name"]
    clumps["selected"] = pd.Series(of_rank[clumps["rank"]].to_numpy(), clumps.index, dtype="str")
    columns = ["selected", "name", "chromosome", "position", "r2", "marginal_p_value"]
    return clumps[columns].rename(columns={"name": "variant"}).reset_index(drop=True)


def _locus(name: str, number: int, near: pd.DataFrame, places: Places, min_r2: float) -> LocusRecord:
    """Return the picture of a locus: of many variants those with the largest r2, and others at equal intervals."""
    near = near[near["r2"].notna()].sort_values("r2", ascending=False, kind="stable")
    near = near[near["variant"] != number]
    n_first = POINTS_OF_LOCUS // 2
    rest = near.iloc[n_first:]
    thinned = rest.iloc[:: max(1, -(-len(rest) // n_first))]
    drawn = [*near["variant"].head(n_first), *thinned["variant"]]
    return LocusRecord(
        name,
        places.chromosomes[places.code[number]],
        int(places.position[number]),
        places.position[drawn].tolist(),
        [*near["r2"].head(n_first).round(4), *thinned["r2"].round(4)],
        len(near),
        min_r2,
    )


def _manhattan(result: SelectionResult, places: Places, tested: pd.DataFrame) -> ManhattanRecord | None:
    """Return the points of the Manhattan plot: scores if unselected variants have some, or else marginal p-values."""
    scores, measure = result.scores, result.score_kind
    columns, value = places.order, np.empty(0)
    if scores is not None:
        value = np.asarray(scores, dtype=np.float64)[columns]
        value[~(value > 0.0)] = np.nan
    if np.isfinite(value).sum() <= len(result.table):
        if "p_value" not in tested:
            return None
        columns, measure = places.order[np.isin(places.order, tested.index)], "-log10 marginal p-value"
        value = -np.log10(np.maximum(tested["p_value"].reindex(columns).to_numpy(), np.finfo(float).tiny))
    columns, value = columns[np.isfinite(value)], value[np.isfinite(value)]
    if not len(columns):
        return None
    ends = [int(places.position[places.code == k].max(initial=0)) for k in range(len(places.chromosomes))]
    along = places.position[columns] + np.concatenate([[0], np.cumsum(ends)])[places.code[columns]]
    cell = along * (CELLS[0] - 1) // max(1, sum(ends)) * CELLS[1] + (
        value / max(value.max(), TOL) * (CELLS[1] - 1)
    ).astype(int)
    highest = np.lexsort((-value, cell))
    kept = highest[np.diff(cell[highest], prepend=-1) != 0]
    kept = kept[np.argsort(-value[kept], kind="stable")][:POINTS]
    names = dict(zip(result.table["index"].tolist(), map(str, result.table["name"]), strict=True))
    kept = np.union1d(kept, np.flatnonzero(np.isin(columns, list(names))))
    return ManhattanRecord(
        measure,
        len(columns),
        places.chromosomes,
        ends,
        places.code[columns[kept]].tolist(),
        places.position[columns[kept]].tolist(),
        [float(f"{one:.4g}") for one in value[kept]],
        [names.get(j, "") for j in columns[kept].tolist()],
    )
