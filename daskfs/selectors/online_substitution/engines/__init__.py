"""Engines of online substitution: how candidates are tested, for each kind of loss."""
