"""What a run has found, applied to other rows: `model` keeps it, `rows` encodes, `apply` writes, `export` translates."""
