"""Progress of a run, and its display on a terminal, in a log or in a notebook."""
