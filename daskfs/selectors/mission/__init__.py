"""MISSION: gradient descent in a count-sketch.

Open to others: `plan`, the number of features where none is asked for.
"""
