"""Encodings of a table's columns: one file for each.

A new encoding is a file here with a subclass of `Encoder`, a line of `ENCODERS` in `daskfs.sources.table_encoder`, and
a name in `daskfs.sources.table_schema`.
"""
