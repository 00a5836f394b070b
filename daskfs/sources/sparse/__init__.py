"""Sources of sparse rows: libsvm and Vowpal Wabbit files, text, clicks, sequences."""
