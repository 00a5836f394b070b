"""All use of Dask clusters: opening clusters, running tasks on them, and actors such as central nodes."""
