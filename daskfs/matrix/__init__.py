"""The data interface of selectors: matrices, blocks of rows and columns, views of rows, and streams of blocks."""
