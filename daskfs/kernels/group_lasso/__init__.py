"""Group Lasso paths: columns that enter a model together."""
