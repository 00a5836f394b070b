"""Records and numbers of text tables."""
