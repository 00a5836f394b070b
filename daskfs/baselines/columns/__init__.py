"""Baselines of online substitution: columns one after the other."""
