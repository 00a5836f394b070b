"""Sources whose rows are entries: libsvm and Vowpal Wabbit files, text, clicks, sequences."""
