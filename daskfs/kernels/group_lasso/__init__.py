"""Group Lasso paths: the columns of a group enter a model together."""
