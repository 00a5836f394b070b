"""Columns that are never stored: features made of the columns of a matrix while they are scored, and their groups."""
