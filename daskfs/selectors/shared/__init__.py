"""Shared code of selectors: targets, responses, the refit on selected features."""
