"""Sums over columns: means, products, Gram rows, factors."""
