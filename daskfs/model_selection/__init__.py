"""Which features would come back, and how many: for every selector."""
