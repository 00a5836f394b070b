"""What a run tells of itself while it lasts, and who shows it: a terminal, a log, a notebook."""
