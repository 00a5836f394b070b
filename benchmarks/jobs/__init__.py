"""All jobs, by their names. A topic is a module with a list `JOBS`; it imports daskfs and peers inside functions."""

from __future__ import annotations

from benchmarks.harness import Job
from benchmarks.jobs import (
    cluster,
    confidence,
    fgm,
    genotypes,
    ingest,
    memory,
    message,
    mission,
    object_store,
    online_substitution,
    quality,
)

TOPICS = (
    message,
    online_substitution,
    fgm,
    mission,
    ingest,
    memory,
    cluster,
    object_store,
    confidence,
    quality,
    genotypes,
)
JOBS: dict[str, Job] = {job.name: job for topic in TOPICS for job in topic.JOBS}
