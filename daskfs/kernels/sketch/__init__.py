"""Count-sketches and the gradient descent in them."""
