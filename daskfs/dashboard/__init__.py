"""What a cluster's scheduler shows of our runs, on Dask's own dashboard: it runs where the scheduler does."""
