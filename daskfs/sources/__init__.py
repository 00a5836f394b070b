"""Sources: one file per input format, each yielding blocks of rows for the store.

base.py           what every source offers        ingest.py       source -> feature store
table_schema.py   what the columns of a table mean (YAML)          kinds.py        a source from its name
table.py          tables in batches -> blocks, with the schema: survey.py (one pass for categories and means),
columns.py (one encoder per column), dates.py
csv.py            text tables, read fast; csv_faults.py finds the line when that fails; files.py opens and hashes
parquet.py  dataframe.py (pandas, Dask)  arrays.py (numpy, scipy)  zarr_array.py  sklearn_sets.py  synthetic.py
"""
