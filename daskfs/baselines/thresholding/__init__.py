"""Baselines of MISSION: iterative hard thresholding and feature hashing."""
