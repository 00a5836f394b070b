"""Measurements of daskfs beside other libraries: ``python -m benchmarks``. See README.md in this folder."""
