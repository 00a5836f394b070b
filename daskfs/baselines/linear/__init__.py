"""Baselines of FGM: l1-regularised linear classifiers."""
