"""Baselines of online substitution. They process one column at a time."""
