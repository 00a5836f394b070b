"""Baselines of MESSAGE: Lasso paths on all rows or on subsets of them."""
