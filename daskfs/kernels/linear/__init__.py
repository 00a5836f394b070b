"""Column statistics and linear algebra: means, products, Gram rows, factors."""
