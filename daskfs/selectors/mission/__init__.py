"""MISSION: gradient descent in a count-sketch."""
