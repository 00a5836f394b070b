"""The feature store: a matrix on disk as a Zarr v3 group of tiles, read equally well by rows and by columns."""
