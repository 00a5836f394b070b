"""Reports: one HTML page for a run, or for a comparison of several runs, which works offline."""
