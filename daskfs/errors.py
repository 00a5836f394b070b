"""The hierarchy of errors that daskfs raises for user errors.

    DaskfsError                 exit code 2: a user error
    ├── ConfigError             a pipeline file, a --set, a parameter
    ├── SchemaError             a table schema
    ├── SourceError             a file or array that cannot be read
    ├── DataError               values that cannot be used: NaN, a constant target, duplicate names
    ├── PlanError               a plan that exceeds the memory limit
    ├── StoreError              a feature store
    │   ├── StoreExistsError    another store, finished or being written, exists at the path
    │   ├── StoreFormatError    not a store, an unfinished one, or one of a newer format
    │   └── CorruptStoreError   a chunk missing, truncated or with a wrong checksum
    ├── StorageError            an object store or an HTTP server that does not answer or returns an error
    └── RunError                a run folder, a lost cluster, a full disk

Each error says what was expected and what was found (`problem`), where (`where`) and what to do (`remedy`).
All are also ValueErrors, which callers of scikit-learn expect for invalid input. A note of the exception names the
topic with further explanations (`daskfs.error_topics`); the message itself does not. Each class has a topic; a module
whose errors have another one says so below its imports: ``SourceError = errors.SourceError.about("genotypes")``.

Problems that do not stop a selection are reported as a `SelectionWarning`. Each `Caution` in a result's notes is also
issued as one.
"""

from __future__ import annotations

import difflib
import sys
import warnings
from collections.abc import Iterable
from functools import partial
from types import FrameType
from typing import Self


class DaskfsError(ValueError):
    """Base class of user errors, with a message of one line.

    Parameters
    ----------
    problem : str
        What was expected and what was found.
    where : str
        File, line, column, key or array.
    remedy : str
        How to fix it.
    topic : str, optional
        Topic of the error in ``daskfs explain`` and on the documentation's page of errors. Default: that of the class.

    Attributes
    ----------
    topic : str or None
        The topic.

    Examples
    --------
    >>> import daskfs
    >>> try:
    ...     daskfs.FGM(C=-1.0).fit([[0.0], [1.0]], [0.0, 1.0])
    ... except daskfs.DaskfsError as error:
    ...     print(error.where, error.topic)
    C parameters
    """

    exit_code = 2
    topic: str | None = None
    may_pass = False
    """Whether the same command may succeed later, so that what it has computed is kept."""

    def __init__(self, problem: str, where: str = "", remedy: str = "", *, topic: str = "") -> None:
        super().__init__(problem, where, remedy)  # all three, so that the error can be pickled
        self.problem, self.where, self.remedy = problem, where, remedy
        if topic:
            self.topic = topic
        if self.topic is not None:
            self.add_note(f"more: daskfs explain {self.topic}")

    @classmethod
    def about(cls, topic: str) -> partial[Self]:
        """Return what makes errors of this class about another topic."""
        return partial(cls, topic=topic)

    def __str__(self) -> str:
        place = f"{self.where}: " if self.where else ""
        remedy = f"; {self.remedy}" if self.remedy else ""
        return f"{place}{self.problem}{remedy}"


class ConfigError(DaskfsError):
    """Invalid pipeline file, override or parameter.

    Examples
    --------
    >>> import daskfs
    >>> try:
    ...     daskfs.Message(n_subsets=0).fit([[0.0], [1.0]], [0.0, 1.0])
    ... except ConfigError as error:
    ...     print(error.where)
    n_subsets
    """

    topic = "parameters"


class SchemaError(DaskfsError):
    """Invalid table schema, or a table that does not match it.

    Examples
    --------
    >>> from daskfs.sources.table_schema import load_table_schema
    >>> try:
    ...     load_table_schema({"columns": {"price": {"role": "targt"}}})
    ... except SchemaError as error:
    ...     print(error.topic)
    yaml-files
    """

    topic = "table-schemas"


class SourceError(DaskfsError):
    """Source that cannot be read.

    Examples
    --------
    >>> import daskfs
    >>> try:
    ...     daskfs.ingest("no-such-table.csv", "table.zarr")
    ... except SourceError as error:
    ...     print(error.where)
    no-such-table.csv
    """

    topic = "formats"


class DataError(DaskfsError):
    """Values that cannot be used, such as NaN or a constant target.

    Examples
    --------
    >>> import daskfs
    >>> try:
    ...     daskfs.FGM(1, loss="squared").fit([[0.0], [float("nan")]], [0.0, 1.0])
    ... except DataError as error:
    ...     print(error.where)
    column 0, row 1
    """

    topic = "values"


class PlanError(DaskfsError):
    """Plan whose peak memory exceeds the limit.

    Parameters
    ----------
    problem, where : str
        As for every error.
    remedy : str
        Default: raise the limit to `needed_nbytes`, or use the alternative.
    needed_nbytes : int, optional
        Sufficient memory limit in bytes.
    alternative : str
        Another remedy, such as ``"set n_subsets=40"``.

    Examples
    --------
    >>> import daskfs
    >>> try:
    ...     daskfs.Message().plan(n_samples=100_000, n_features=1000, dtype="float32", memory_limit=2**20)
    ... except PlanError as error:
    ...     print(error.where, error.needed_nbytes > 2**20)
    memory_limit True
    """

    topic = "memory-limit"

    def __init__(
        self,
        problem: str,
        where: str = "",
        remedy: str = "",
        *,
        needed_nbytes: int | None = None,
        alternative: str = "",
    ) -> None:
        if needed_nbytes is not None and not remedy:
            remedy = f"allow at least {needed_nbytes:,} bytes" + (f", or {alternative}" if alternative else "")
        super().__init__(problem, where, remedy)
        self.needed_nbytes, self.alternative = needed_nbytes, alternative

    def beside(self, nbytes: int) -> PlanError:
        """Return the error for a plan that additionally needs `nbytes` bytes for requests in flight."""
        if not nbytes or self.needed_nbytes is None:
            return self
        problem = f"{self.problem}, and requests in flight take {nbytes:,} bytes"
        return PlanError(problem, self.where, needed_nbytes=self.needed_nbytes + nbytes, alternative=self.alternative)


class StoreError(DaskfsError):
    """Feature store that cannot be used.

    Examples
    --------
    >>> import daskfs
    >>> try:
    ...     daskfs.open_store("no-such-store.zarr")
    ... except StoreError as error:
    ...     print(type(error).__name__, error.topic)
    StoreFormatError store-format
    """

    topic = "stores"


class StoreExistsError(StoreError):
    """The path of a new store already exists.

    Examples
    --------
    >>> import tempfile
    >>> import daskfs
    >>> path = tempfile.mkdtemp() + "/wine.zarr"
    >>> store = daskfs.ingest("sklearn:wine", path)
    >>> try:
    ...     daskfs.ingest("sklearn:iris", path)
    ... except StoreExistsError as error:
    ...     print(error.topic)
    store-exists
    """

    topic = "store-exists"


class StoreFormatError(StoreError):
    """Path that is not a feature store, or is an unfinished one or one of a newer format.

    Examples
    --------
    >>> import tempfile
    >>> import daskfs
    >>> try:
    ...     daskfs.open_store(tempfile.mkdtemp())
    ... except StoreFormatError as error:
    ...     print(error.topic)
    store-format
    """

    topic = "store-format"


class CorruptStoreError(StoreError):
    """Chunk of a store that is missing, truncated or does not match its checksum.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> import daskfs
    >>> path = Path(tempfile.mkdtemp(), "wine.zarr")
    >>> store = daskfs.ingest("sklearn:wine", path)
    >>> _ = Path(path, "X", "c", "0", "0").write_bytes(b"damaged")
    >>> try:
    ...     store.read(slice(None))
    ... except CorruptStoreError as error:
    ...     print(error.topic)
    damaged-stores
    """

    topic = "damaged-stores"


class StorageError(DaskfsError):
    """Object store or HTTP server that does not answer or refuses access."""

    topic = "object-stores"
    may_pass = True


class RunError(DaskfsError):
    """Run that cannot be started, continued or finished.

    Examples
    --------
    >>> import tempfile
    >>> import daskfs
    >>> try:
    ...     daskfs.load(tempfile.mkdtemp())
    ... except RunError as error:
    ...     print(error.topic)
    new-rows
    """

    topic = "run-folders"
    may_pass = True


def keeps_work(fault: BaseException) -> bool:
    """Return whether what was computed before an error is kept: unless the user has to change something first.

    Examples
    --------
    >>> keeps_work(KeyboardInterrupt()), keeps_work(RunError("the workers died")), keeps_work(DataError("NaN"))
    (True, True, False)
    """
    return not isinstance(fault, DaskfsError) or fault.may_pass


class SelectionWarning(UserWarning):
    """Selection that may not be what was requested: no or too few features, too few rows, no convergence, or a
    numeric target whose values may be classes.

    Examples
    --------
    >>> import warnings
    >>> import numpy as np
    >>> import daskfs
    >>> rng = np.random.default_rng(0)
    >>> with warnings.catch_warnings(record=True) as found:
    ...     warnings.simplefilter("always")
    ...     selector = daskfs.Message(n_subsets=3).fit(rng.standard_normal((300, 5)), rng.standard_normal(300))
    >>> len(selector.selected_), found[0].category.__name__
    (0, 'SelectionWarning')
    """


class Suspicion(str):
    """Note on a selection that reports show first."""

    __slots__ = ()


class Caution(Suspicion):
    """Note on a selection that the user must see. It is also issued as a warning when the result is made.

    Examples
    --------
    >>> notes = ["five subsets were chosen", Caution("not converged after 10 passes")]
    >>> [note for note in notes if isinstance(note, Caution)]
    ['not converged after 10 passes']
    """

    __slots__ = ()


def warn(message: str, category: type[UserWarning] = UserWarning) -> None:
    """Warn the user. The warning points to the line that called daskfs, at any depth of the call stack."""
    frame: FrameType | None = sys._getframe(1)
    level, outermost = 2, 1
    while frame is not None:  # to the outermost frame of daskfs: contextlib or Dask may be between its frames
        if frame.f_globals.get("__name__", "").partition(".")[0] == "daskfs":
            outermost = level
        frame, level = frame.f_back, level + 1
    warnings.warn(message, category, stacklevel=outermost + 1)


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """Return the known words of which the word is the beginning, or the most similar one, as a question.

    Examples
    --------
    >>> did_you_mean("mision", ["message", "mission"])
    " (did you mean 'mission'?)"
    >>> did_you_mean("n_features", ["n_features_to_select", "n_features_per_pass"])
    " (did you mean 'n_features_to_select' or 'n_features_per_pass'?)"
    """
    names = list(known)
    near = [name for name in names if name.startswith(f"{word}_")][:3]
    near = near or difflib.get_close_matches(word, names, n=1, cutoff=0.6)
    return f" (did you mean {' or '.join(map(repr, near))}?)" if near else ""
