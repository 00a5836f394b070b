"""MISSION: stochastic gradient descent in a count-sketch.

Open to others: `configuration`, the default number of features and what the baselines change in a fit.
"""
