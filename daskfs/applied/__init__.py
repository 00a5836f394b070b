"""Apply a run's model to new rows: `model` saves it, `rows` encodes, `apply` predicts, `export` translates."""
