"""Blocks of rows, dense or sparse."""
