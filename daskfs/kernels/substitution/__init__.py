"""Online substitution: products, exchanges, steps."""
