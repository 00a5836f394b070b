"""MISSION: stochastic gradient descent in a count-sketch.

Open to others: `plan`, the default number of features.
"""
