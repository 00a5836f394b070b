"""Numerics: arrays in, arrays out; the only room where numba lives."""
