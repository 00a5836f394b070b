"""What a block may be: dense, or its entries."""
