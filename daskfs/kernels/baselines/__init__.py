"""Kernels of the papers' comparison methods."""
