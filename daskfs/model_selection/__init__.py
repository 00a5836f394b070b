"""Selectors about a selector: how many features, and how sure. Open to others: `daskfs.SelectionCV` and its like."""
