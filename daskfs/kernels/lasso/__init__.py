"""Lasso paths of squared losses and the criteria along them."""
