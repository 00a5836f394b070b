"""The door to Dask: where the work runs, what runs there, central nodes."""
