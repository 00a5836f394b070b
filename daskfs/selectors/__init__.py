"""The papers' feature selectors, one package each, with scikit-learn's interface."""
