"""The papers' feature selectors, one file each, behind one scikit-learn face."""
