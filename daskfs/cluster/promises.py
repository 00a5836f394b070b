"""Partitions of Dask collections as independent parts of a source, each computed where it is read."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import Any, NamedTuple

from daskfs import errors
from daskfs.errors import DaskfsError

SourceError = errors.SourceError.about("clusters")


class Promise(NamedTuple):
    """A pickled partition that is not computed yet, opaque to Dask's scheduler."""

    pickled: bytes

    @classmethod
    def of(cls, *partitions: Any) -> Promise:
        """Return the promise of partitions that are read together."""
        import cloudpickle

        return cls(cloudpickle.dumps([_alone(partition) for partition in partitions]))

    def kept(self) -> list[Any]:
        """Compute the partitions, in this thread.

        Raises
        ------
        SourceError
            They cannot be computed here, for example because they are persisted on a cluster.
        """
        import cloudpickle
        from dask.local import get_sync

        try:
            return [get_sync(tasks, key) for tasks, key in cloudpickle.loads(self.pickled)]
        except DaskfsError:
            raise
        except Exception as fault:
            problem = f"the partition cannot be computed ({type(fault).__name__}: {fault})"
            raise SourceError(problem, "source", "check that its inputs can be read here") from fault


def token_of(*collections: Any) -> str:
    """Return Dask's token as a digest; it is equal for equal graphs over equal inputs."""
    from dask.base import tokenize

    return hashlib.sha256(tokenize(*collections).encode()).hexdigest()


def promises(*collections: Sequence[Any]) -> list[Promise]:
    """Return a promise for each position in parallel collections of delayed objects."""
    return [Promise.of(*partitions) for partitions in zip(*collections, strict=True)]


def _alone(partition: Any) -> tuple[dict[Any, Any], Any]:
    """Return only the tasks that a delayed object needs, and its key."""
    from dask.optimization import cull

    tasks, _ = cull(dict(partition.__dask_graph__()), [partition.key])
    return tasks, partition.key
