"""How a candidate is tried, for each kind of loss."""
