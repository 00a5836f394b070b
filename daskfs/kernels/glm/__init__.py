"""Fits and Lasso paths of the other losses."""
