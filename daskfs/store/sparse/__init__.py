"""Sparse stores: entries by column within blocks of rows; a single copy serves reading by rows and by columns."""
