"""Count-sketches, and gradient descent with them."""
