"""Fits and Lasso paths for losses other than squares."""
