"""Lasso paths for the squared loss, and the information criteria along them."""
