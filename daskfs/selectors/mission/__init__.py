"""MISSION: stochastic gradient descent in a count-sketch.

Other modules may use `plan`, the default number of features.
"""
