"""Runs on Dask's dashboard. This code runs in the scheduler."""
