"""Sparse stores: entries by column within blocks of rows, one copy that serves reading by rows and by columns."""
