"""Sources: one file per input format, each yielding blocks of rows for the store.

- `base.py`: what every source offers; `registry.py`: a source from its name; `ingest.py`: source -> feature store
- `table_schema.py`: what the columns of a table mean (YAML); `roles.py`: header, schema and wishes brought together
- `table.py`: tables in batches -> blocks: `survey.py` (one pass for categories and means), `columns.py` (one encoder
  per column), `dates.py`, `encoded_block.py`
- `csv.py`: text tables, read fast; `csv_types.py`; `csv_faults.py`: which line is wrong; `text.py`, `files.py`: opening
- `sparse/`: rows that are entries: `base.py`; files of LIBSVM and Vowpal Wabbit, click logs (`lines.py`: text in
  pieces, `line_source.py`: files and parts; the kernels are in `daskfs.kernels.text`), raw text, matrices; `pairs.py`:
  any of them with pairs of features; `ingest.py`
- `parquet.py`, `arrow_files.py` (Feather, ORC), `dataframe.py` (pandas, Dask), `arrow_table.py` (polars): tables with
  types, whose texts `typed_batches.py` reads; `dask_array.py`, `arrays.py` (numpy, scipy), `npy_array.py`,
  `zarr_array.py`, `sklearn_sets.py`, `synthetic.py`; `other_formats.py`: how what is not read becomes one of these
- `sniffing.py`, `judging.py`, `looking.py`: what an unknown table's columns are taken for
"""
