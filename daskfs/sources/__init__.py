"""Sources: one file per input format, each yielding blocks of rows for the store.

- `base.py`: the interface of all sources; `registry.py`: a source from its name; `ingest.py`: source -> feature store;
  `parts.py`: rows written in one stream, or in parts by tasks
- `table_schema.py`: the YAML schema of a table's columns; `roles.py`: combines header, schema and arguments
- `table.py`: tables, read in batches -> blocks: `survey.py` (one pass for categories and means), `encoders/` (one file
  per encoding of a column), `dates.py`, `encoded_block.py`
- `csv.py`: text tables, read fast; `csv_types.py`; `csv_faults.py`: finds the line of an error; `text.py`, `files.py`:
  opening files
- `sparse/`: sources of sparse rows: `base.py`; LIBSVM and Vowpal Wabbit files, click logs (`lines.py`: text in pieces,
  `line_source.py`: files and parts; the kernels are in `daskfs.kernels.text`), raw text, matrices; `pairs.py`: pairs
  of features on top of any of them
- `parquet.py`, `arrow_files.py` (Feather, ORC), `dataframe.py` (pandas, Dask), `arrow_table.py` (polars): typed tables,
  whose text columns `typed_batches.py` parses; `dask_array.py`, `arrays.py` (numpy, scipy), `npy.py`,
  `zarr_array.py`, `sklearn_sets.py`, `synthetic.py`; `other_formats.py`: how to convert formats that are not read
- `sniffing.py`, `schema_inference.py`, `looking.py`: schema inference for unknown tables
"""
