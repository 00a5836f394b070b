"""Checksums of many bytes."""
