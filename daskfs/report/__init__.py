"""Reports: one HTML page per run, or for several runs side by side, that works offline."""
