"""MESSAGE: subsets of the rows vote."""
