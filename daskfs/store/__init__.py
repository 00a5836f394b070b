"""The feature store: a matrix on disk as a Zarr v3 group of tiles that serve row and column reads alike."""
