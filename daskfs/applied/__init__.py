"""What a run has found, for other rows: `model` keeps it, `rows` encodes, `apply` writes, `export` translates."""
