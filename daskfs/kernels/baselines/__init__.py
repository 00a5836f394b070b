"""The papers' comparison methods."""
