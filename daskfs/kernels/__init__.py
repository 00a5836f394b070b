"""Numerical kernels: arrays in, arrays out. The only package that imports numba."""
