"""The figures and tables of the papers, measured again: ``python -m benchmarks.papers`` makes ``docs/papers.md``."""
