"""Online substitution: column products, exchanges, gradient steps."""
