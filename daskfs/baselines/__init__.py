"""The papers' competitors, behind the same interface as the selectors."""
