"""What a selection says of its data: remarks on selected columns, their stand-ins, and the signal beyond them."""
