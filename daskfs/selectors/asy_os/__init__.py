"""Asynchronous online substitution: workers around a central node."""
