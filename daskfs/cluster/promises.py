"""Partitions of Dask's collections as parts of a source: each alone, to be computed wherever it is read."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import Any, NamedTuple

from daskfs.errors import DaskfsError, SourceError


class Promise(NamedTuple):
    """A partition that is not computed yet; Dask's scheduler does not look into it."""

    pickled: bytes

    @classmethod
    def of(cls, *partitions: Any) -> Promise:
        """Return the promise of partitions that belong together."""
        import cloudpickle

        return cls(cloudpickle.dumps([_alone(partition) for partition in partitions]))

    def kept(self) -> list[Any]:
        """Compute the partitions, in this thread.

        Raises
        ------
        SourceError
            They cannot be computed here; what is persisted on a cluster, for one.
        """
        import cloudpickle
        from dask.local import get_sync

        try:
            return [get_sync(tasks, key) for tasks, key in cloudpickle.loads(self.pickled)]
        except DaskfsError:
            raise
        except Exception as fault:
            problem = f"the partition cannot be computed ({type(fault).__name__}: {fault})"
            raise SourceError(problem, "source", "see that what it is made of can be read") from fault


def token_of(*collections: Any) -> str:
    """Return Dask's token, which is equal for equal graphs over equal inputs, as a digest."""
    from dask.base import tokenize

    return hashlib.sha256(tokenize(*collections).encode()).hexdigest()


def promises(*collections: Sequence[Any]) -> list[Promise]:
    """Return the promises of what collections of delayed objects have at the same place."""
    return [Promise.of(*partitions) for partitions in zip(*collections, strict=True)]


def _alone(partition: Any) -> tuple[dict[Any, Any], Any]:
    """Return the tasks that a delayed object is computed by, and no others, with its key."""
    from dask.optimization import cull

    tasks, _ = cull(dict(partition.__dask_graph__()), [partition.key])
    return tasks, partition.key
