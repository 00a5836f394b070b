"""Parsing of records and numbers in text tables."""
