"""Online substitution over a stream of columns."""
