"""How many features, how sure, and which would come back: selectors about a selector, for every one."""
